from __future__ import annotations

import math

import numpy as np
import pytest
from oracles.dense_gp import dense_posterior, information_gain, log_marginal_likelihood
from scipy.linalg import expm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

import holdcourse as hc
from holdcourse._numeric.kalman import transitions
from holdcourse.errors import InvalidInput, TooLarge
from holdcourse.learning.history import History
from holdcourse.learning.kernels import Kernel
from holdcourse.learning.posteriors import temporal
from holdcourse.learning.posteriors.exact import Prior
from holdcourse.learning.posteriors.protocol import Posterior
from holdcourse.learning.posteriors.temporal import AT_REST, TemporalPosterior, why_not_temporal

LINE = hc.Problem(np.linspace(0.0, 1.0, 12))
NOISE = 0.1
KERNELS = {
    "matern 1/2": Kernel(RBF(0.3), Matern(8.0, nu=0.5)),
    "matern 3/2": Kernel(RBF(0.3), Matern(8.0, nu=1.5)),
    "matern 5/2": Kernel(RBF(0.3), Matern(8.0, nu=2.5)),
    "static": Kernel(RBF(0.3)),
    "scaled time": Kernel(RBF(0.3), Matern(2.0, nu=1.5), variance=4.0, context_shift=100.0, context_scale=5.0),
    "covariance matrix": Kernel(np.diag([1.0, 2.0] * 6) + 0.5, Matern([6.0], nu=0.5)),
    "rough actions": Kernel(Matern(0.3, nu=0.5), Matern(8.0, nu=1.5)),
    "slow + fast + static": Kernel(RBF(0.3), Matern(30.0, nu=2.5), variance=2.0)
    + Kernel(RBF(0.2), Matern(3.0, nu=0.5), variance=0.5)
    + Kernel(RBF(0.3), variance=0.7)
    + Kernel(RBF(0.3), Matern(10.0, nu=1.5)),
}


def records(n, t=500, seed=0):
    """Irregular rounds: some at the same time, some a hair apart, some after a long gap."""
    rng = np.random.default_rng(seed)
    times = 50.0 + np.cumsum(rng.exponential(1.0, t) * rng.choice([0.0, 1e-9, 1.0, 1.0, 1.0, 12.0], t))
    return rng.integers(0, n, t), times, rng.standard_normal(t)


def posterior(kernel=KERNELS["matern 3/2"], problem=LINE, noise_std=NOISE, prior_mean=0.0, **kwargs):
    return TemporalPosterior(Prior(problem, kernel, noise_std, prior_mean), **kwargs)


def told(post, actions, times, measurements):
    for action, time, y in zip(actions, times, measurements, strict=True):
        post.condition(int(action), time, y)
    return post


def assert_same_state(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def assert_equals_dense(post, actions, times, y, ahead, tolerance=1e-6):
    prior = post.prior
    for h in ahead:
        now = times[-1] + h
        mean, std = post.predict(now)
        expected, deviation = dense_posterior(
            prior.problem, prior.kernel, prior.noise_variance, actions, times, y, now, prior.mean(np.array([now]))[0]
        )
        scale = np.sqrt(prior.kernel.variances(prior.problem, np.array([[now]])).max())
        np.testing.assert_allclose(mean, expected, rtol=0, atol=tolerance * scale)
        np.testing.assert_allclose(std, deviation, rtol=0, atol=tolerance * scale)


# -- the same as a dense solve -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
def test_equals_dense_posterior_now_and_ahead(name):
    actions, times, y = records(LINE.n)
    post = told(posterior(KERNELS[name], prior_mean=0.4), actions, times, y)
    assert_equals_dense(post, actions, times, y, ahead=(0.0, 1e-9, 0.7, 5.0, 40.0, 1e4))


def test_equals_dense_posterior_on_a_grid_of_400():
    axis = np.linspace(0.0, 1.0, 20)
    problem = hc.Problem(hc.grid(x=axis, y=axis))
    kernel = Kernel(RBF(0.2), Matern(20.0, nu=1.5)) + Kernel(RBF(0.2), variance=0.5)
    actions, times, y = records(problem.n)
    post = posterior(kernel, problem).condition_on(History(actions, times, y))
    assert_equals_dense(post, actions, times, y, ahead=(0.0, 3.0))


@pytest.mark.parametrize("name", KERNELS)
def test_likelihood_and_gain_equal_the_dense_ones(name):
    kernel = KERNELS[name]
    actions, times, y = records(LINE.n, t=200)
    post = told(posterior(kernel), actions, times, y)
    gain = information_gain(LINE, kernel, NOISE**2, actions, times)
    likelihood = log_marginal_likelihood(LINE, kernel, NOISE**2, actions, times, y)
    assert post.information_gain == pytest.approx(gain, abs=1e-6)
    assert post.log_marginal_likelihood == pytest.approx(likelihood, abs=1e-5)


@pytest.mark.kernel
@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_a_few_rounds_equal_dense(nu):
    problem = hc.Problem([0.0, 0.5, 1.0])
    kernel = Kernel(RBF(0.5), Matern(2.0, nu=nu)) + Kernel(RBF(0.5), variance=0.3)
    actions, times, y = np.array([0, 1, 1, 2]), np.array([1.0, 1.0, 2.5, 9.0]), np.array([0.3, -1.0, 0.7, 2.0])
    post = told(posterior(kernel, problem), actions, times, y)
    assert_equals_dense(post, actions, times, y, ahead=(0.0, 2.0), tolerance=1e-10)
    post.condition(0, 10.0, 0.5)
    np.testing.assert_array_equal(post.predict_at([10.0, 12.0])[0][1], post.predict(12.0)[0])


@pytest.mark.kernel
def test_symmetrising_changes_nothing_that_matters():
    actions, times, y = records(LINE.n, t=130, seed=5)
    post = told(posterior(KERNELS["slow + fast + static"]), actions, times, y)
    assert_equals_dense(post, actions, times, y, ahead=(0.0,))


def test_prior_mean_may_depend_on_time():
    actions, times, y = records(LINE.n, t=60)

    def trend(coordinates, context):
        return 2.0 * coordinates[:, 0] + 0.1 * context[0]

    with_trend = told(posterior(prior_mean=trend), actions, times, y)
    at_zero = told(posterior(), actions, times, y - 2.0 * LINE.actions[actions, 0] - 0.1 * times)
    mean, std = with_trend.predict(times[-1] + 1.0)
    expected, same_std = at_zero.predict(times[-1] + 1.0)
    np.testing.assert_allclose(mean, expected + trend(LINE.actions, [times[-1] + 1.0]), atol=1e-11)
    np.testing.assert_allclose(std, same_std)


def test_before_any_measurement_it_is_the_prior():
    post = posterior(prior_mean=np.arange(12.0))
    mean, std = post.predict(-7.0)
    np.testing.assert_array_equal(mean, np.arange(12.0))
    np.testing.assert_allclose(std, 1.0, atol=1e-11)
    assert post.time is None
    assert post.observations == 0
    assert post.information_gain == 0.0
    assert post.log_marginal_likelihood == 0.0


# -- steps of any length -----------------------------------------------------------------------------------------------


def step_of(d, a):
    F, Q = np.zeros((1, 3, 3)), np.zeros((1, 3, 3))
    transitions(np.array([[d, 1, 0, 0]]), np.array([[1.0, 1.0]]), a, F, Q)
    return F[0, :d, :d], Q[0, :d, :d]


def generator(d):
    """The companion matrix of (derivative + 1)^d, and the strength of the noise that drives the last derivative."""
    A = np.eye(d, k=1)
    A[-1] = [-math.comb(d, j) for j in range(d)]
    return A, {1: 2.0, 2: 4.0, 3: 16.0 / 3.0}[d]


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("a", [1e-3, 0.1, 1.0, 2.9, 3.0, 3.1, 8.0, 20.0])
def test_step_equals_the_matrix_exponential(d, a):
    A, q = generator(d)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    responses = [expm(A * a * (node + 1) / 2)[:, -1] for node in nodes]
    noise = q * a / 2 * sum(weight * np.outer(g, g) for weight, g in zip(weights, responses, strict=True))
    F, Q = step_of(d, a)
    np.testing.assert_allclose(F, expm(A * a), atol=1e-13)
    np.testing.assert_allclose(Q, noise, atol=1e-13)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("a", [1e-40, 1e-15, 1e-6])
def test_tiny_step_keeps_its_relative_accuracy(d, a):
    F, Q = step_of(d, a)
    _, q = generator(d)
    powers = np.arange(d)[::-1]
    factorials = np.array([math.factorial(k) for k in powers])
    total = powers[:, None] + powers + 1
    expected = q * a**total / np.outer(factorials, factorials) / total  # of an integrated Wiener process
    np.testing.assert_allclose(Q, expected, rtol=10 * a + 1e-13)
    np.testing.assert_allclose(F, np.eye(d), atol=3.1 * a)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("a", [800.0, 1e20, 1e300, math.inf])
def test_huge_step_forgets_everything(d, a):
    F, Q = step_of(d, a)
    np.testing.assert_array_equal(F, 0.0)
    np.testing.assert_allclose(Q, AT_REST[d], atol=1e-15)


def test_long_silence_brings_the_prior_back():
    actions, times, y = records(LINE.n, t=50)
    post = told(posterior(), actions, times, y)
    for later in (1e6, 1e200):
        mean, std = post.predict(later)
        np.testing.assert_allclose(mean, 0.0, atol=1e-12)
        np.testing.assert_allclose(std, 1.0, atol=1e-11)
    post.condition(3, 1e200, 1.0)
    fresh = posterior().condition(3, 0.0, 1.0)
    np.testing.assert_allclose(post.predict(1e200), fresh.predict(0.0), atol=1e-12)


def test_missing_rounds_only_widen():
    post = posterior().condition(4, 0.0, 1.0)
    stds = [post.predict(t)[1][4] for t in (0.0, 1.0, 5.0, 50.0)]
    assert stds == sorted(stds)


# -- time runs forward -------------------------------------------------------------------------------------------------


def test_predicting_does_not_move_the_state():
    actions, times, y = records(LINE.n, t=30)
    post = told(posterior(), actions, times, y)
    before = post.state()
    ahead = post.predict(times[-1] + 100.0)
    post.predict(times[-1])
    assert_same_state(post.state(), before)
    np.testing.assert_array_equal(post.predict(times[-1] + 100.0), ahead)
    post.condition(1, times[-1] + 1.0, 0.0)  # told after a later time was asked for: still in order


@pytest.mark.parametrize(
    "act",
    [
        lambda post: post.condition(0, 9.0, 1.0),
        lambda post: post.predict(9.0),
        lambda post: post.predict_at([11.0, 9.0]),
        lambda post: post.condition_on(History([0, 1], [11.0, 9.0], [1.0, 1.0])),
    ],
    ids=["condition", "predict", "predict_at", "condition_on"],
)
def test_the_past_is_an_error_that_names_the_remedy(act):
    post = posterior().condition(2, 10.0, 1.0)
    before = post.state()
    with pytest.raises(InvalidInput, match=r'time 9\.0 lies before the last measurement, at 10\.0.*"exact" or "flat"'):
        act(post)
    assert_same_state(post.state(), before)


@pytest.mark.parametrize(
    ("action", "context", "y"),
    [
        (0, math.nan, 1.0),
        (0, math.inf, 1.0),
        (0, [1.0, 2.0], 1.0),
        (0, None, 1.0),
        (0, "noon", 1.0),
        (0, 11.0, math.nan),
        (0, 11.0, -math.inf),
        (12, 11.0, 1.0),
        (-1, 11.0, 1.0),
        (1.5, 11.0, 1.0),
    ],
)
def test_bad_measurement_leaves_the_state_unchanged(action, context, y):
    post = posterior().condition(2, 10.0, 1.0)
    before = post.state()
    with pytest.raises(InvalidInput):
        post.condition(action, context, y)
    assert_same_state(post.state(), before)
    assert post.time == 10.0


def test_prior_mean_that_fails_leaves_the_state_unchanged():
    post = posterior(prior_mean=lambda actions, context: math.nan if context[0] > 5 else 0.0)
    post.condition(0, 1.0, 1.0)
    before = post.state()
    with pytest.raises(InvalidInput, match="prior_mean gave nan"):
        post.condition(0, 6.0, 1.0)
    with pytest.raises(InvalidInput, match="prior_mean gave nan"):
        post.condition_on(History([0, 0], [2.0, 6.0], [1.0, 1.0]))
    assert_same_state(post.state(), before)


# -- many at once, twins ----------------------------------------------------------------------------------------------


def test_history_equals_one_by_one_in_any_order():
    actions, times, y = records(LINE.n, t=200)
    one_by_one = told(posterior(), actions, times, y)
    shuffled = np.random.default_rng(1).permutation(200)
    at_once = posterior().condition_on(History(actions[shuffled], times[shuffled], y[shuffled]))
    np.testing.assert_allclose(at_once.predict(times[-1] + 1), one_by_one.predict(times[-1] + 1), atol=1e-12)
    assert at_once.observations == one_by_one.observations == 200
    assert at_once.information_gain == pytest.approx(one_by_one.information_gain, rel=1e-12)
    assert at_once.log_marginal_likelihood == pytest.approx(one_by_one.log_marginal_likelihood, rel=1e-12)


def test_history_continues_what_was_told():
    actions, times, y = records(LINE.n, t=200)
    whole = posterior().condition_on(History(actions, times, y))
    halves = posterior().condition_on(History(actions[:90], times[:90], y[:90]))
    halves.condition_on(History(actions[90:], times[90:], y[90:]))
    assert_same_state(halves.state(), whole.state())
    assert_same_state(halves.condition_on(History([], np.zeros((0, 1)), [])).state(), whole.state())


@pytest.mark.parametrize("name", KERNELS)
def test_predict_at_equals_predict(name):
    actions, times, y = records(LINE.n, t=80)
    post = told(posterior(KERNELS[name]), actions, times, y)
    ahead = times[-1] + np.array([2.0, 0.0, 7.0, 2.0])
    for time, mean, std in zip(ahead, *post.predict_at(ahead), strict=True):
        np.testing.assert_array_equal([mean, std], post.predict(time))
    assert post.predict_at(np.zeros((0, 1)))[0].shape == (0, LINE.n)


def test_twins_part_ways():
    actions, times, y = records(LINE.n, t=40)
    post = told(posterior(), actions[:20], times[:20], y[:20])
    twin = post.copy()
    before, seen = post.state(), post.predict_at([times[-1]])
    told(twin, actions[20:], times[20:], y[20:])
    assert_same_state(post.state(), before)
    np.testing.assert_array_equal(post.predict_at([times[-1]]), seen)
    assert twin.observations == 40


def test_resumed_run_is_the_same_to_the_last_bit():
    actions, times, y = records(LINE.n, t=200)
    whole = told(posterior(), actions, times, y)
    first = told(posterior(), actions[:77], times[:77], y[:77])
    resumed = told(posterior().restore(first.state()), actions[77:], times[77:], y[77:])
    assert_same_state(resumed.state(), whole.state())
    assert resumed.time == whole.time


def test_state_of_another_posterior_is_refused():
    post = posterior().condition(0, 0.0, 1.0)
    before = post.state()
    with pytest.raises(InvalidInput, match="another problem or kernel"):
        post.restore(posterior(KERNELS["matern 5/2"]).state())
    with pytest.raises(InvalidInput, match="not a saved state of a temporal posterior"):
        post.restore({"weights": np.zeros(3)})
    assert_same_state(post.state(), before)


# -- which kernels, how large ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "context",
    [
        RBF(1.0),
        Matern(1.0, nu=2.0),
        Matern(1.0, nu=math.inf),
        ConstantKernel(2.0) * Matern(1.0, nu=0.5),
        Matern([1.0, 2.0], nu=0.5),
    ],
    ids=str,
)
def test_other_kernels_are_refused(context):
    kernel = KERNELS["matern 1/2"] + Kernel(RBF(0.3), context)
    assert why_not_temporal(kernel) is not None
    with pytest.raises(InvalidInput, match=r'not a process in time.*"exact" or "flat"'):
        posterior(kernel)


@pytest.mark.parametrize("name", KERNELS)
def test_these_kernels_are_processes_in_time(name):
    assert why_not_temporal(KERNELS[name]) is None


def test_parts_with_equal_actions_share_features():
    one = posterior(Kernel(RBF(0.3), Matern(8.0, nu=0.5)))
    both = posterior(Kernel(RBF(0.3), Matern(8.0, nu=0.5)) + Kernel(RBF(0.3), Matern(2.0, nu=2.5), variance=3.0))
    assert both.space.phi.shape == one.space.phi.shape
    assert both.states == 4 * one.states


def test_truncation_stays_within_its_bound():
    actions, times, y = records(LINE.n, t=60)
    kernel = KERNELS["matern 3/2"]
    rough = told(posterior(kernel, tolerance=1e-3), actions, times, y)
    fine = told(posterior(kernel), actions, times, y)
    assert rough.states < fine.states
    assert 0.0 < rough.discarded_variance <= 1e-3
    assert fine.discarded_variance <= 1e-12
    _, std = rough.predict(times[-1])
    _, expected = dense_posterior(LINE, kernel, NOISE**2, actions, times, y, times[-1])
    assert (std <= expected + 1e-12).all()
    assert (expected <= std + rough.truncation_bound(std)).all()


@pytest.mark.parametrize("tolerance", [-1e-9, 1.0, math.nan])
def test_bad_tolerance(tolerance):
    with pytest.raises(InvalidInput, match="tolerance"):
        posterior(tolerance=tolerance)


def test_too_many_states(monkeypatch):
    monkeypatch.setattr(temporal, "MAX_STATE", 5)
    with pytest.raises(TooLarge, match=r"needs .* states for .* actions, more than 5"):
        posterior()


def test_it_is_a_posterior_and_says_so():
    post = posterior(reason="contexts are declared to be time").condition(0, 3.0, 1.0)
    assert isinstance(post, Posterior)
    assert post.method == "temporal"
    assert "1 measurements, 12 actions" in repr(post)
    assert "last at 3.0; temporal because contexts are declared to be time" in repr(post)


# -- numbers that hurt -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["static", "matern 5/2", "slow + fast + static"])
@pytest.mark.parametrize("noise_std", [0.0, NOISE])
@pytest.mark.parametrize("step", [0.0, 1e-15, 1.0])
def test_a_thousand_duplicates(name, noise_std, step):
    post = posterior(KERNELS[name], noise_std=noise_std)
    actions, times, y = np.full(1000, 5), 1.0 + step * np.arange(1000), np.full(1000, 1.7)
    post.condition_on(History(actions, times, y))
    mean, std = post.predict(post.time)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert mean[5] == pytest.approx(1.7, abs=0.05)
    assert std[5] <= max(noise_std, 1e-4)
    assert math.isfinite(post.log_marginal_likelihood)
    if noise_std > 0.0:  # without noise the dense solve is the worse of the two
        assert_equals_dense(post, actions, times, y, ahead=(0.0,))


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_units_do_not_matter(scale):
    actions, times, y = records(LINE.n, t=100)
    one = told(posterior(), actions, times, y)
    kernel = Kernel(RBF(0.3), Matern(8.0, nu=1.5), variance=scale**2)
    other = told(posterior(kernel, noise_std=NOISE * scale), actions, times, scale * y)
    np.testing.assert_allclose(np.array(other.predict(times[-1])) / scale, one.predict(times[-1]), rtol=0, atol=1e-12)
    assert other.information_gain == pytest.approx(one.information_gain, rel=1e-10)


def test_seconds_since_1970():
    actions, times, y = records(LINE.n, t=100)
    hours = np.round(times * 64) / 64  # exact in seconds too
    one = told(posterior(Kernel(RBF(0.3), Matern(8.0, nu=1.5))), actions, hours, y)
    seconds = 1.7e9 + 3600.0 * hours
    other = told(posterior(Kernel(RBF(0.3), Matern(8.0, nu=1.5), context_scale=3600.0)), actions, seconds, y)
    np.testing.assert_allclose(other.predict(seconds[-1] + 3600.0), one.predict(hours[-1] + 1.0), atol=1e-12)


def test_singular_action_covariance():
    kernel = Kernel(np.ones((12, 12)), Matern(5.0, nu=1.5))
    post = posterior(kernel)
    assert post.states == 2
    actions, times, y = records(LINE.n, t=100)
    assert_equals_dense(told(post, actions, times, y), actions, times, y, ahead=(0.0, 2.0))


def test_one_action():
    alone = hc.Problem([3.0])
    post = posterior(Kernel(RBF(1.0), Matern(5.0, nu=2.5)), alone)
    actions, times, y = records(1, t=50)
    assert_equals_dense(told(post, actions, times, y), actions, times, y, ahead=(0.0, 2.0))
