import numpy as np
import pytest
from helpers.settings import smooth_function, synthetic
from oracles import dense_gp
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from holdcourse.errors import InvalidInput
from holdcourse.learning.history import History
from holdcourse.learning.kernels import Kernel
from holdcourse.learning.posteriors import posterior
from holdcourse.learning.posteriors.protocol import Posterior
from holdcourse.movement.problem import Problem

LINE = Problem(np.linspace(0.0, 1.0, 7))
KERNELS = {
    "product": Kernel(RBF(0.3), RBF(0.4), 2.0),
    "no context": Kernel(Matern(0.3, nu=1.5)),
    "matrix": Kernel(np.eye(7) + 0.5, Matern(0.5)),
    "sum": Kernel(RBF(0.3), RBF(0.4), 2.0) + Kernel(Matern(1.0), Matern(3.0)) + Kernel(np.eye(7), variance=0.3),
}


def data(rng, t, n=7):
    return rng.integers(n, size=t), rng.uniform(size=t), rng.normal(size=t)


def told(post, actions, contexts, y):
    for one in zip(actions.tolist(), contexts, y, strict=True):
        post.condition(*one)
    return post


@pytest.mark.kernel
@pytest.mark.parametrize("name", KERNELS)
def test_equals_a_dense_solve(name):
    actions, contexts, y = data(np.random.default_rng(0), 40)
    post = told(posterior(LINE, KERNELS[name], 0.3, 1.5, method="exact"), actions, contexts, y)
    for context in (0.0, 0.37, contexts[3], 2.0):
        mean, std = post.predict(context)
        mean0, std0 = dense_gp.dense_posterior(LINE, KERNELS[name], 0.09, actions, contexts, y, context, 1.5)
        np.testing.assert_allclose(mean, mean0, atol=1e-11)
        np.testing.assert_allclose(std, std0, atol=1e-11)


def test_equals_scikit_learn():
    actions, contexts, y = data(np.random.default_rng(1), 60)
    post = told(posterior(LINE, Kernel(RBF(0.3), RBF(0.3), 2.0), 0.2, method="exact"), actions, contexts, y)
    inputs = np.stack([LINE.actions[actions, 0], contexts], axis=1)
    peer = GaussianProcessRegressor(ConstantKernel(2.0) * RBF(0.3), alpha=0.04, optimizer=None).fit(inputs, y)
    mean0, std0 = peer.predict(np.stack([LINE.actions[:, 0], np.full(7, 0.6)], axis=1), return_std=True)
    mean, std = post.predict(0.6)
    np.testing.assert_allclose(mean, mean0, atol=1e-10)
    np.testing.assert_allclose(std, std0, atol=1e-10)
    assert post.log_marginal_likelihood == pytest.approx(peer.log_marginal_likelihood_value_, abs=1e-9)


def test_equals_a_dense_solve_on_the_paper_setting_at_600():
    assert error_on_paper_setting(600) < 1e-8


def error_on_paper_setting(t):
    """The largest difference to a dense solve, in mean and deviation."""
    problem, kernel = synthetic()
    rng = np.random.default_rng(2)
    f = smooth_function(problem, rng)
    actions, contexts, _ = data(rng, t, 400)
    y = np.array([f(x, e) for x, e in zip(actions, contexts, strict=True)]) + 0.06 * rng.normal(size=t)
    post = told(posterior(problem, kernel, 0.06, method="exact"), actions, contexts, y)
    return max(
        np.abs(np.subtract(found, exact)).max()
        for context in (0.0, 0.51)
        for found, exact in zip(
            post.predict(context),
            dense_gp.dense_posterior(problem, kernel, 0.0036, actions, contexts, y, context),
            strict=True,
        )
    )


@pytest.mark.parametrize("name", KERNELS)
def test_information_gain_and_likelihood(name):
    actions, contexts, y = data(np.random.default_rng(3), 50)
    post = told(posterior(LINE, KERNELS[name], 0.3, method="exact"), actions, contexts, y)
    gain = dense_gp.information_gain(LINE, KERNELS[name], 0.09, actions, contexts)
    assert post.information_gain == pytest.approx(gain, abs=1e-10)
    likelihood = dense_gp.log_marginal_likelihood(LINE, KERNELS[name], 0.09, actions, contexts, y)
    assert post.log_marginal_likelihood == pytest.approx(likelihood, abs=1e-9)


def test_regularisation_is_a_parameter_of_its_own():
    actions, contexts, y = data(np.random.default_rng(3), 20)
    post = told(posterior(LINE, KERNELS["product"], 0.3, method="exact", regularisation=5.0), actions, contexts, y)
    assert post.prior.noise_std == 0.3
    gain = dense_gp.information_gain(LINE, KERNELS["product"], 5.0, actions, contexts)
    assert post.information_gain == pytest.approx(gain, abs=1e-10)


def test_order_does_not_matter():
    rng = np.random.default_rng(4)
    actions, contexts, y = data(rng, 150)
    shuffled = rng.permutation(150)
    kernel = KERNELS["product"]
    one = told(posterior(LINE, kernel, 0.1, method="exact"), actions, contexts, y)
    other = told(posterior(LINE, kernel, 0.1, method="exact"), actions[shuffled], contexts[shuffled], y[shuffled])
    for a, b in zip(one.predict(0.3), other.predict(0.3), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-8)


def ill_conditioned():
    rng = np.random.default_rng(5)
    spread = rng.uniform(size=200)
    yield "duplicates", 0.1, [(3, 0.5, y) for y in rng.normal(size=1000)]
    yield "duplicates without noise", 0.0, [(3, 0.5, 1.0)] * 1000
    yield "no noise", 0.0, [(i % 7, e, np.sin(9 * e)) for i, e in enumerate(spread)]
    yield (
        "no noise, contradictions",
        0.0,
        [(i % 7, round(e, 1), y) for i, (e, y) in enumerate(zip(spread, rng.normal(size=200), strict=True))],
    )
    yield "constant", 0.1, [(i % 7, e, 4.0) for i, e in enumerate(spread)]
    yield "tiny", 0.1, [(i % 7, e, 1e-12 * np.sin(9 * e)) for i, e in enumerate(spread)]
    yield "huge", 0.1, [(i % 7, e, 1e12 * np.sin(9 * e)) for i, e in enumerate(spread)]
    yield "contexts 1e-15 apart", 0.0, [(i % 7, 0.5 + 1e-15 * i, float(i % 2)) for i in range(200)]


@pytest.mark.parametrize("method", ["exact", "flat"])
@pytest.mark.parametrize(("noise_std", "records"), [pytest.param(n, r, id=i) for i, n, r in ill_conditioned()])
def test_stays_finite_and_positive(method, noise_std, records):
    post = posterior(LINE, Kernel(RBF(0.3), RBF(0.4)), noise_std, method=method, context_bounds=(0, 1))
    for action, context, y in records:
        post.condition(action, context, y)
    scale = max(1.0, max(abs(y) for _, _, y in records))
    for context in (0.5, 0.123, 40.0):
        mean, std = post.predict(context)
        assert np.isfinite(mean).all()
        assert np.abs(mean).max() < 1e3 * scale
        assert (std > 0).all()
        assert (std <= 1 + 1e-6).all()
    mean, std = post.predict_at([0.5, 0.123])
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert np.isfinite(post.log_marginal_likelihood)
    assert post.information_gain > 0


def test_kernel_of_condition_1e16_and_extreme_scales():
    almost_singular = np.ones((7, 7)) + 1e-16 * np.eye(7)
    for variance in (1e-24, 1.0, 1e24):
        for noise_std in (0.0, 0.1 * np.sqrt(variance)):
            post = posterior(LINE, Kernel(almost_singular, RBF(10.0), variance), noise_std, method="exact")
            rng = np.random.default_rng(6)
            for i in range(150):
                post.condition(i % 7, rng.uniform(), np.sqrt(variance) * rng.normal())
            mean, std = post.predict(0.5)
            assert np.isfinite(mean).all()
            assert (std > 0).all()
            assert (std < np.sqrt(variance)).all()


def test_a_floor_under_zero_noise_is_logged(caplog):
    caplog.set_level("INFO", logger="holdcourse.learning.posteriors")
    post = posterior(LINE, KERNELS["product"], 0.0, method="exact")
    assert post.prior.noise_variance == pytest.approx(2e-10)
    assert "raised from 0" in caplog.text


def test_jitter_is_logged_when_rounding_eats_the_noise(caplog):
    caplog.set_level("INFO", logger="holdcourse.learning.posteriors")
    # A context kernel far larger than the prior scale that the noise floor is taken from.
    kernel = Kernel(np.ones((7, 7)), ConstantKernel(1e9))
    post = posterior(LINE, kernel, 0.0, method="exact")
    for i in range(60):
        post.condition(i % 7, 0.1 * i, 1.0)
    assert "jitter" in caplog.text
    mean, std = post.predict(0.0)
    np.testing.assert_allclose(mean, 1.0, atol=1e-3)
    assert (std > 0).all()


@pytest.mark.parametrize("method", ["exact", "flat", "auto"])
@pytest.mark.parametrize(
    "arguments",
    [
        *[(action, 0.1, 1.0) for action in (7, -1, 1.0, True)],
        *[(0, context, 1.0) for context in (np.nan, [np.inf], [0.1, 0.2], [], "warm")],
        *[(0, 0.1, y) for y in (np.nan, -np.inf, "hot", None)],
    ],
)
def test_wrong_input_changes_nothing(method, arguments):
    bounds = None if method == "auto" else (0, 1)
    post = posterior(LINE, KERNELS["product"], method=method, context_bounds=bounds).condition(2, 0.4, 1.0)
    before, predicted = post.state(), post.predict_at([0.4])
    with pytest.raises(InvalidInput):
        post.condition(*arguments)
    after = post.state()
    assert before.keys() == after.keys()
    for name in before:
        np.testing.assert_array_equal(before[name], after[name])
    np.testing.assert_array_equal(post.predict_at([0.4]), predicted)


@pytest.mark.parametrize("method", ["exact", "flat"])
def test_wrong_questions_are_refused(method):
    post = posterior(LINE, KERNELS["product"], method=method, context_bounds=(0, 1)).condition(0, 0.4, 1.0)
    for context in (np.nan, [0.1, 0.2]):
        with pytest.raises(InvalidInput):
            post.predict(context)
        with pytest.raises(InvalidInput):
            post.predict_at([context])
    bad = History([0, 9], [0.1, 0.2], [1.0, 2.0])
    with pytest.raises(InvalidInput, match="action 9"):
        post.condition_on(bad)
    assert post.observations == 1
    with pytest.raises(InvalidInput, match="state"):
        post.restore({})


@pytest.mark.parametrize(
    "arguments",
    [
        {"noise_std": -1.0},
        {"noise_std": np.nan},
        {"regularisation": -1.0},
        {"prior_mean": [1.0, 2.0]},
        {"prior_mean": np.nan},
        {"prior_mean": "low"},
        {"method": "magic"},
        {"forgetting": 0.0},
        {"forgetting": 1.5},
        {"forgetting": 0.9, "method": "exact"},
        {"context_bounds": (1.0, 0.0)},
        {"context_bounds": (0.0, np.inf)},
        {"context_bounds": [0.0, 1.0, 2.0]},
        {"contexts": [0.0, np.nan]},
        {"contexts": [0.0], "context_bounds": (0.0, 1.0)},
    ],
    ids=str,
)
def test_wrong_settings_are_refused(arguments):
    with pytest.raises(InvalidInput):
        posterior(LINE, KERNELS["product"], **arguments)


@pytest.mark.parametrize("method", ["exact", "flat"])
def test_prior_mean_of_every_kind(method):
    def rising(actions, context):
        assert actions.shape == (7, 1)
        return 2.0 * actions[:, 0] + context[0]

    actions, contexts, y = data(np.random.default_rng(7), 30)
    per_action = np.linspace(3, 4, 7)
    for given, at in [
        (2.5, lambda x, e: 2.5),
        (per_action, lambda x, e: per_action[x]),
        (rising, lambda x, e: x / 3 + e),
    ]:
        post = posterior(LINE, KERNELS["product"], 0.3, given, method=method, context_bounds=(0, 1))
        expected = [at(x, 0.8) for x in range(7)]
        np.testing.assert_allclose(post.predict(0.8)[0], expected, rtol=1e-12)
        told(post, actions, contexts, y)
        shifted = y - np.array([at(x, e) for x, e in zip(actions, contexts, strict=True)])
        mean0, std0 = dense_gp.dense_posterior(LINE, KERNELS["product"], 0.09, actions, contexts, shifted, 0.8)
        mean, std = post.predict(0.8)
        np.testing.assert_allclose(mean, mean0 + expected, atol=1e-7)
        np.testing.assert_allclose(std, std0, atol=1e-7)


def test_a_prior_mean_that_is_not_finite_is_refused_and_changes_nothing():
    post = posterior(LINE, KERNELS["product"], prior_mean=lambda actions, context: np.log(context), method="exact")
    with np.errstate(divide="ignore"), pytest.raises(InvalidInput, match="prior_mean gave -inf"):
        post.condition(0, 0.0, 1.0)
    assert post.observations == 0


@pytest.mark.parametrize("name", KERNELS)
def test_predict_at_equals_predict(name):
    actions, contexts, y = data(np.random.default_rng(8), 80)
    post = told(posterior(LINE, KERNELS[name], 0.2, 1.0, method="exact"), actions, contexts, y)
    for ahead in ([0.0, 0.3, 1.7, 0.3], [[0.5]]):
        means, stds = post.predict_at(ahead)
        for context, mean, std in zip(ahead, means, stds, strict=True):
            np.testing.assert_array_equal([mean, std], post.predict(context))


def test_copy_and_state_are_independent_and_bit_identical():
    actions, contexts, y = data(np.random.default_rng(10), 60)
    post = told(posterior(LINE, KERNELS["sum"], method="exact"), actions[:30], contexts[:30], y[:30])
    twin = post.copy()
    resumed = posterior(LINE, KERNELS["sum"], method="exact").restore(post.state())
    for one in (post, twin, resumed):
        told(one, actions[30:], contexts[30:], y[30:])
    for other in (twin, resumed):
        np.testing.assert_array_equal(post.predict(0.1), other.predict(0.1))
        assert other.information_gain == post.information_gain
    assert isinstance(post, Posterior)
    assert "exact because asked for" in repr(post)
