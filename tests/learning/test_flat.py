import numpy as np
import pytest
from helpers.settings import smooth_function, synthetic, wind
from oracles import dense_gp
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, Matern

from holdcourse.learning.history import History
from holdcourse.learning.kernels import Kernel
from holdcourse.learning.posteriors import posterior
from holdcourse.learning.posteriors.flat import FlatPosterior, variances, variances_each
from holdcourse.movement.problem import Problem

LINE = Problem(np.linspace(0.0, 1.0, 7))
SMOOTH = Kernel(RBF(0.3), RBF(0.4), 2.0)
KERNELS = {
    "product": SMOOTH,
    "no context": Kernel(Matern(0.3, nu=1.5)),
    "daily": Kernel(np.eye(7) + 0.5, ExpSineSquared(1.5, 1.0)),
    "sum": SMOOTH + Kernel(Matern(1.0), RBF(1.0)) + Kernel(np.eye(7), variance=0.3),
}


def measured(problem, rng, t, contexts=None):
    f = smooth_function(problem, rng)
    actions = rng.integers(problem.n, size=t)
    contexts = rng.uniform(size=t) if contexts is None else rng.choice(contexts, size=t)
    y = np.array([f(x, e) for x, e in zip(actions, contexts, strict=True)]) + 0.06 * rng.normal(size=t)
    return History(actions, contexts, y)


def told(post, history):
    for action, context, y in zip(history.actions, history.contexts, history.measurements, strict=True):
        post.condition(action, context, y)
    return post


def worst(one, other, contexts):
    gaps = [np.abs(np.subtract(one.predict(e), other.predict(e))).max(axis=1) for e in contexts]
    return np.max(gaps, axis=0)


def assert_together_as_one_by_one(together, single, contexts):
    for e, *predicted in zip(contexts, *together.predict_at(contexts), strict=True):
        np.testing.assert_array_equal(predicted, single.predict(e))
    state = together.state()
    for name, array in single.state().items():
        np.testing.assert_array_equal(state[name], array)


@pytest.mark.kernel
@pytest.mark.parametrize("name", KERNELS)
def test_contexts_predicted_together_are_as_one_by_one_to_the_last_bit(name):
    rng = np.random.default_rng(4)
    past = History(rng.integers(7, size=20), rng.uniform(size=20), rng.normal(size=20))
    contexts = np.append(rng.uniform(size=9), [0.5, 0.5, 3.0])  # one twice, one that is not covered
    together, single = (told(posterior(LINE, KERNELS[name], 0.3, 1.5, context_bounds=(0, 1)), past) for _ in range(2))
    assert_together_as_one_by_one(together, single, contexts)


def test_many_actions_predicted_together_are_as_one_by_one_to_the_last_bit():
    rng, (problem, kernel) = np.random.default_rng(5), synthetic()
    past = measured(problem, rng, 30)
    together, single = (told(posterior(problem, kernel, 0.06, context_bounds=(0, 1)), past) for _ in range(2))
    assert_together_as_one_by_one(together, single, rng.uniform(size=12))


def test_a_covariance_that_cannot_be_factored_spoils_none_beside_it():
    rng = np.random.default_rng(6)
    Xs = np.array([np.eye(3), -np.eye(3), np.diag([2.0, 0.5, -1e-3])])
    columns = np.asfortranarray(rng.normal(size=(3, 5)))
    np.testing.assert_array_equal(variances_each(Xs, columns), [variances(X, columns) for X in Xs])


@pytest.mark.kernel
@pytest.mark.parametrize("name", KERNELS)
def test_equals_a_dense_solve(name):
    rng = np.random.default_rng(0)
    past = History(rng.integers(7, size=40), rng.uniform(size=40), rng.normal(size=40))
    post = told(posterior(LINE, KERNELS[name], 0.3, 1.5, method="flat", context_bounds=(0, 1), tolerance=1e-9), past)
    for context in (0.0, 0.37, past.contexts[3]):
        mean, std = post.predict(context)
        mean0, std0 = dense_gp.dense_posterior(
            LINE, KERNELS[name], 0.09, past.actions, past.contexts, past.measurements, context, 1.5
        )
        np.testing.assert_allclose(mean, mean0, atol=1e-5)
        np.testing.assert_allclose(std, std0, atol=1e-5)
    gain = dense_gp.information_gain(LINE, KERNELS[name], 0.09, past.actions, past.contexts)
    assert post.information_gain == pytest.approx(gain, abs=1e-4)


def test_paper_setting_within_a_thousandth_at_2000(record_property):
    problem, kernel = synthetic()
    post = posterior(problem, kernel, 0.06, context_bounds=(0, 1))
    assert isinstance(post, FlatPosterior)
    assert post.features <= 1000
    past = measured(problem, np.random.default_rng(1), 2000)
    post.condition_on(past)
    exact = posterior(problem, kernel, 0.06, method="exact", history=past)
    mean_gap, std_gap = worst(post, exact, (0.0, 0.013, 0.5, 0.77, 1.0))
    record_property("flat, n=400, t=2000: worst gap of mean / std", f"{mean_gap:.1e} / {std_gap:.1e}")
    assert mean_gap < 5e-4
    assert std_gap < 5e-4
    assert post.information_gain == pytest.approx(exact.information_gain, rel=1e-3)


def test_wind_setting_within_a_millionth(record_property):
    problem, kernel, hours = wind()
    post = posterior(problem, kernel, np.sqrt(2.73), 8.5, contexts=hours)
    exact = posterior(problem, kernel, np.sqrt(2.73), 8.5, method="exact")
    rng = np.random.default_rng(2)
    for t in range(960):
        action, y = int(rng.integers(25)), rng.normal(8.0, 4.0)
        post.predict(hours[t % 24])
        post.condition(action, hours[t % 24], y)
        exact.condition(action, hours[t % 24], y)
    gaps = worst(post, exact, hours) / np.sqrt(6.85)
    record_property("flat, wind, t=960: worst gap of mean / std", f"{gaps[0]:.1e} / {gaps[1]:.1e}")
    assert (gaps < 1e-6).all()


@pytest.mark.parametrize("method", ["exact", "flat", "auto"])
def test_a_thousand_records_equal_telling_them(method):
    past = measured(LINE, np.random.default_rng(3), 1000)
    bounds = None if method == "auto" else (0, 1)
    at_once = posterior(LINE, SMOOTH, 0.1, 0.5, method, bounds, history=past)
    one_by_one = told(posterior(LINE, SMOOTH, 0.1, 0.5, method, bounds), past)
    assert at_once.observations == one_by_one.observations == 1000
    assert (worst(at_once, one_by_one, (0.0, 0.4, 1.0)) < 1e-9).all()
    assert at_once.information_gain == pytest.approx(one_by_one.information_gain, rel=1e-10)
    assert at_once.log_marginal_likelihood == pytest.approx(one_by_one.log_marginal_likelihood, rel=1e-10)


def test_history_may_be_triples_and_many_per_round():
    triples = [(x, [0.3], float(x)) for x in range(7)]
    post = posterior(LINE, SMOOTH, 0.1, context_bounds=(0, 1), history=triples)
    assert post.observations == 7
    np.testing.assert_allclose(post.predict(0.3)[0], np.arange(7), atol=0.3)


@pytest.mark.parametrize("name", KERNELS)
def test_predict_at_equals_predict_also_when_the_basis_grows(name):
    rng = np.random.default_rng(4)
    post = posterior(LINE, KERNELS[name], 0.2, 1.0, method="flat", context_bounds=(0, 1))
    for t in range(60):
        post.condition(int(rng.integers(7)), rng.uniform(0, 1 + (t > 30)), rng.normal())
    contexts = [0.0, 0.3, 1.7]
    for context, mean, std in zip(contexts, *post.predict_at(contexts), strict=True):
        np.testing.assert_array_equal([mean, std], post.predict(context))


@pytest.mark.parametrize("start", [{"context_bounds": (0, 1)}, {"contexts": [0.0, 0.5, 1.0]}, {}], ids=str)
def test_a_basis_that_grew_predicts_like_the_exact_posterior(start):
    rng = np.random.default_rng(5)
    walk = np.cumsum(0.1 * rng.normal(size=300))
    f = smooth_function(LINE, rng, 0.4)
    post = posterior(LINE, SMOOTH, 0.1, method="flat", tolerance=1e-9, **start)
    exact = posterior(LINE, SMOOTH, 0.1, method="exact")
    before = post.features
    for context in walk:
        action = int(rng.integers(7))
        y = f(action, context) + 0.1 * rng.normal()
        post.condition(action, context, y)
        exact.condition(action, context, y)
    assert post.features > before
    mean_gap, std_gap = worst(post, exact, walk[::20])
    assert mean_gap < 2e-3  # sqrt(tolerance) times sqrt(t) / noise_std, the order of the bound, is 5e-3
    assert std_gap < 2e-3
    assert post.information_gain == pytest.approx(exact.information_gain, rel=1e-3)


def test_a_context_that_is_not_covered_keeps_its_prior_variance():
    post = posterior(LINE, SMOOTH, 0.1, context_bounds=(0, 1)).condition(3, 0.5, 4.0)
    size = post.features
    mean, std = post.predict(7.0)
    np.testing.assert_allclose(mean, 0.0, atol=1e-6)
    np.testing.assert_allclose(std, np.sqrt(2.0), rtol=1e-6)
    mean0, std0 = dense_gp.dense_posterior(LINE, SMOOTH, 0.01, [3], [0.5], [4.0], 1.3)
    mean, std = post.predict(1.3)
    np.testing.assert_allclose(mean, mean0, atol=1e-3)
    np.testing.assert_allclose(std, std0, atol=1e-3)
    assert post.features == size  # asking changes nothing


def test_bound_holds_and_follows_its_formula():
    past = measured(LINE, np.random.default_rng(6), 300)
    post = posterior(LINE, SMOOTH, 0.1, method="flat", context_bounds=(0, 1), tolerance=1e-3, history=past)
    exact = posterior(LINE, SMOOTH, 0.1, method="exact", history=past)
    assert 0 < post.discarded_variance <= 2e-3
    for context in np.linspace(0, 1, 21):
        mean, std = post.predict(context)
        exact_mean, exact_std = exact.predict(context)
        bound = post.truncation_bound(std)
        np.testing.assert_allclose(bound, np.sqrt(post.discarded_variance) * (1 + np.sqrt(300 / 0.01) * std))
        assert (std <= exact_std + 1e-9).all()
        assert (exact_std <= std + bound).all()
        assert np.sqrt(np.mean((mean - exact_mean) ** 2)) <= bound.max()
    assert not exact.truncation_bound(std).any()


def test_forgetting_follows_its_formula():
    rng = np.random.default_rng(7)
    a, problem, kernel = 0.9, Problem([0.0, 1.0, 2.0]), Kernel(np.eye(3) + 0.5)
    post = posterior(problem, kernel, 0.5, forgetting=a)
    mean, covariance = np.zeros(3), np.eye(3) + 0.5  # the same recursion over the costs of the three actions
    for _ in range(30):
        action, y = int(rng.integers(3)), rng.normal()
        post.condition(action, None, y)
        mean, covariance = a * mean, a * a * covariance + (1 - a * a) * (np.eye(3) + 0.5)
        gain = covariance[:, action] / (covariance[action, action] + 0.25)
        mean = mean + gain * (y - mean[action])
        covariance = covariance - np.outer(gain, covariance[action])
        np.testing.assert_allclose(post.predict(None)[0], mean, atol=1e-12)
        np.testing.assert_allclose(post.predict(None)[1], np.sqrt(np.diag(covariance)), atol=1e-12)
        np.testing.assert_allclose(post.predict_at(np.zeros((1, 1)))[0][0], mean, atol=1e-12)
    assert "forgetting 0.9" in repr(post)


def test_forgetting_lets_old_measurements_fade():
    post = posterior(LINE, SMOOTH, 0.1, context_bounds=(0, 1), forgetting=0.95).condition(0, 0.0, 3.0)
    first = post.predict(0.0)
    for _ in range(200):
        post.condition(6, 1.0, 0.0)
    last = post.predict(0.0)
    assert first[0][0] > 2.9
    assert abs(last[0][0]) < 0.1
    assert last[1][0] > 10 * first[1][0]


def test_state_is_bit_identical_and_does_not_grow():
    past = measured(LINE, np.random.default_rng(8), 400)
    settings = {"noise_std": 0.1, "method": "flat", "context_bounds": (0, 0.5)}
    post = told(posterior(LINE, SMOOTH, **settings), past)
    twin, resumed = post.copy(), posterior(LINE, SMOOTH, **settings).restore(post.state())
    size = sum(array.nbytes for array in post.state().values())
    more = measured(LINE, np.random.default_rng(9), 400)
    for one in (post, twin, resumed):
        told(one, more)
    for other in (twin, resumed):
        np.testing.assert_array_equal(post.predict(0.1), other.predict(0.1))
        assert other.log_marginal_likelihood == post.log_marginal_likelihood
    assert sum(array.nbytes for array in post.state().values()) == size


def test_stopping_between_predict_and_condition_changes_no_bit():
    past = measured(LINE, np.random.default_rng(10), 60)
    plain = posterior(LINE, SMOOTH, method="flat", context_bounds=(0, 1))
    stopped = posterior(LINE, SMOOTH, method="flat", context_bounds=(0, 1))
    for action, context, y in zip(past.actions, past.contexts, past.measurements, strict=True):
        np.testing.assert_array_equal(plain.predict(context), stopped.predict(context))
        plain.condition(action, context, y)
        stopped.condition(action, context, y)
        stopped = posterior(LINE, SMOOTH, method="flat", context_bounds=(0, 1)).restore(stopped.state())
    np.testing.assert_array_equal(plain.predict(0.2), stopped.predict(0.2))


def test_choice_is_by_counts_and_explained():
    rough = Kernel(RBF(0.1), Matern(0.05, nu=0.5))
    post = posterior(LINE, SMOOTH, context_bounds=(0, 1))
    assert isinstance(post, FlatPosterior)
    assert f"flat because {post.features} weights cover the declared contexts" in repr(post)
    post = posterior(LINE, rough, context_bounds=(0, 1))
    assert post.method == "exact"
    assert "would still discard" in repr(post)
    assert isinstance(posterior(LINE, Kernel(RBF(0.1))), FlatPosterior)


def test_undeclared_contexts_start_exact_and_become_flat():
    past = measured(LINE, np.random.default_rng(11), 300)
    post = posterior(LINE, SMOOTH, 0.1)
    exact = posterior(LINE, SMOOTH, 0.1, method="exact")
    methods = []
    for action, context, y in zip(past.actions, past.contexts, past.measurements, strict=True):
        post.condition(action, context, y)
        exact.condition(action, context, y)
        methods.append(post.method)
    assert methods == ["exact"] * 255 + ["flat"] * 45
    assert "contexts of the first 256 measurements" in repr(post)
    assert (worst(post, exact, (0.2, 0.9)) < 1e-5).all()
    np.testing.assert_array_equal([array[1] for array in post.predict_at([0.2, 0.9])], post.predict(0.9))
    resumed = posterior(LINE, SMOOTH, 0.1).restore(post.state())
    np.testing.assert_array_equal(resumed.predict(0.9), post.predict(0.9))
    np.testing.assert_array_equal(post.copy().predict(0.9), post.predict(0.9))


def test_undeclared_contexts_without_a_basis_stay_exact_at_first():
    rng = np.random.default_rng(12)
    rough = Kernel(RBF(0.1), Matern(0.02, nu=0.5))
    past = History(rng.integers(7, size=260), rng.uniform(size=260), rng.normal(size=260))
    post = posterior(LINE, rough, 0.1, history=past)
    assert post.method == "exact"
    assert "tried again at measurement 512" in repr(post)


def test_few_distinct_contexts_become_a_list():
    rng = np.random.default_rng(13)
    hours = rng.integers(24, size=256).astype(float)
    post = posterior(LINE, Kernel(RBF(0.3), RBF(4.0)), 0.1, history=History(rng.integers(7, size=256), hours, hours))
    assert post.method == "flat"
    assert len(post.inner.layout._parts[0].Z) <= 24  # the size of the basis is what is tested


def test_contexts_of_many_axes_have_a_basis_when_they_are_smooth():
    rng = np.random.default_rng(14)
    kernel = Kernel(RBF(0.5), RBF([8.0, 8.0, 8.0, 9.0]))
    past = History(rng.integers(7, size=100), rng.uniform(size=(100, 4)), rng.normal(size=100))
    post = posterior(LINE, kernel, 0.1, context_bounds=[(0, 1)] * 4, history=past)
    exact = posterior(LINE, kernel, 0.1, method="exact", history=past)
    assert post.method == "flat"
    assert (worst(post, exact, past.contexts[:5]) < 1e-3).all()
