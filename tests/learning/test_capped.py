"""The capped posterior against FITC in dense formulas, and what holds of it in general."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import dense_gp, fitc
from sklearn.gaussian_process.kernels import RBF, Matern

from holdcourse.errors import InvalidInput
from holdcourse.learning.history import History
from holdcourse.learning.kernels import Kernel
from holdcourse.learning.posteriors import Prior, capped, posterior
from holdcourse.learning.posteriors.basis import Layout
from holdcourse.learning.posteriors.capped import CappedBasis, CappedPosterior, Kept
from holdcourse.movement.grid import grid
from holdcourse.movement.problem import Problem

PLANT = Problem(grid(x=np.linspace(0.0, 1.0, 5), y=np.linspace(0.0, 1.0, 4)))
MANY = np.random.default_rng(9).random((1500, 2))  # more contexts than weights can cover
KERNELS = {
    "2-D": Kernel(RBF(0.4), RBF(0.2), 2.0),
    "rough": Kernel(RBF(0.4), Matern([0.1, 0.5], nu=0.5)),
    "sum": Kernel(RBF(0.4), RBF(0.15)) + Kernel(Matern(1.0), RBF(1.0), 0.5) + Kernel(np.eye(20), variance=0.3),
}


def walk(rng, t, d):
    """Contexts that move slowly, as weather and load do."""
    contexts = np.full((t, d), 0.5)
    for k in range(1, t):
        contexts[k] = 0.5 + 0.95 * (contexts[k - 1] - 0.5) + 0.07 * rng.normal(size=d)
    return contexts


def measured(problem, t, d=2, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    actions, contexts = rng.integers(problem.n, size=t), walk(rng, t, d)
    y = 3.0 + np.sin(4 * problem.actions[actions].sum(axis=1) + 3 * contexts.sum(axis=1)) + noise * rng.normal(size=t)
    return History(actions, contexts, y)


def part(history, begin, end):
    return History(history.actions[begin:end], history.contexts[begin:end], history.measurements[begin:end])


def capped_on(prior, history):
    kept = Kept()
    kept.add(history.actions, history.contexts, history.measurements)
    return CappedPosterior.of(prior, kept, "asked for")


def tell(post, history):
    for row in zip(history.actions, history.contexts, history.measurements, strict=True):
        post.condition(*row)
    return post


@pytest.fixture
def few(monkeypatch):
    """Fewer weights, so that much is left out of a small case."""
    monkeypatch.setattr(capped, "MAX_WEIGHTS", 60)
    monkeypatch.setattr(capped, "MAX_PIVOTS", 24)


def features_of(post):
    basis = post._basis  # the oracle must see the same features; there is no other way to them
    return lambda actions, contexts: basis.products(basis.features(contexts)[0], np.asarray(actions))


@pytest.mark.parametrize("name", KERNELS)
def test_equal_to_dense_fitc(few, name):
    prior, past = Prior(PLANT, KERNELS[name], 0.1, 3.0), measured(PLANT, 300)
    post = CappedPosterior(prior)
    for begin, end in ((0, 250), (250, 265)):  # a block; then one by one, with a new basis at 256 and changes pending
        post = post.condition_on(part(past, begin, end)) if begin == 0 else tell(post, part(past, begin, end))
    post.condition_on(part(past, 265, 300))
    tell(post, part(past, 290, 299))
    actions, contexts, y = (
        np.concatenate([np.asarray(getattr(past, name))[:300], np.asarray(getattr(past, name))[290:299]])
        for name in ("actions", "contexts", "measurements")
    )
    assert 0 < post.features <= 60
    for context in (contexts[7], contexts[-1] + 0.01, np.array([0.9, -0.3])):
        wanted = fitc.dense_fitc(
            PLANT, prior.kernel, prior.noise_variance, features_of(post), actions, contexts, y, context, 3.0
        )
        np.testing.assert_allclose(post.predict(context), wanted, atol=1e-8)
        np.testing.assert_allclose([one[0] for one in post.predict_at(context[None])], wanted, atol=1e-8)
    likelihood, gain = fitc.log_marginal_likelihood(
        PLANT, prior.kernel, prior.noise_variance, features_of(post), actions, contexts, y - 3.0
    )
    assert post.log_marginal_likelihood == pytest.approx(likelihood, abs=1e-6)
    assert post.information_gain == pytest.approx(gain, abs=1e-6)


def test_exact_where_all_that_was_measured_is_covered():
    """Also far from it, and between: nothing that was measured has a rest."""
    rng = np.random.default_rng(1)
    line, kernel = Problem(np.linspace(0.0, 1.0, 7)), Kernel(RBF(0.3), RBF(0.1))
    places = rng.random((30, 2))
    past = History(rng.integers(7, size=400), places[rng.integers(30, size=400)], rng.normal(size=400))
    post = capped_on(Prior(line, kernel, 0.1), past)
    for context in (places[3], np.array([0.5, 0.5]), np.array([4.0, 4.0])):
        wanted = dense_gp.dense_posterior(line, kernel, 0.01, past.actions, past.contexts, past.measurements, context)
        np.testing.assert_allclose(post.predict(context), wanted, atol=1e-6)


def test_far_contexts_give_the_prior_and_teach_nothing(few):
    prior, past = Prior(PLANT, KERNELS["2-D"], 0.1, 3.0), measured(PLANT, 400)
    post = capped_on(prior, past)
    far, near = np.array([40.0, -40.0]), past.contexts[5]
    mean, std = post.predict(far)
    np.testing.assert_allclose(mean, 3.0, atol=1e-12)
    np.testing.assert_allclose(std, np.sqrt(2.0), rtol=1e-12)
    before = np.array(post.predict(near))
    for _ in range(5):
        post.condition(3, far, 1e4)
    np.testing.assert_allclose(post.predict(near), before, atol=1e-12)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.floats(0.05, 1.0), st.floats(0.01, 1.0))
def test_deviation_lies_between_what_is_left_out_and_the_prior(seed, d, length, noise):
    prior, past = Prior(PLANT, Kernel(RBF(0.4), RBF(length)), noise), measured(PLANT, 280, d, seed)
    post = CappedPosterior(prior)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capped, "MAX_WEIGHTS", 40)
        post.condition_on(past)
    asked = np.concatenate([past.contexts[::40], past.contexts[::60] + 0.5])
    left = post._basis.features(asked)[1]  # what is left out is no part of the interface
    std = post.predict_at(asked)[1]
    assert (std**2 >= left - 1e-12).all()
    assert (std <= 1.0 + 1e-9).all()


def test_deviation_is_hardly_ever_below_the_exact_one(few):
    """FITC does not promise it. Of contexts that move slowly it is true to a few percent."""
    kernel, past = KERNELS["2-D"], measured(PLANT, 400)
    post = capped_on(Prior(PLANT, kernel, 0.1, 3.0), past)
    fresh = walk(np.random.default_rng(5), 40, 2)
    exact = np.array(
        [
            dense_gp.dense_posterior(PLANT, kernel, 0.01, past.actions, past.contexts, past.measurements, context, 3.0)[
                1
            ]
            for context in fresh
        ]
    )
    ratio = post.predict_at(fresh)[1] / exact
    assert ratio.min() > 0.8
    assert (ratio > 0.98).mean() > 0.9


@pytest.mark.parametrize("forgetting", [1.0, 0.98])
def test_saved_and_restored_to_the_last_bit(few, forgetting):
    prior, past = Prior(PLANT, KERNELS["sum"], 0.1), measured(PLANT, 530)
    corners = np.array([[0.0, 0.0], [1.0, 1.0], [0.5, 0.5]])
    plain = CappedPosterior(prior, corners, forgetting=forgetting)
    stopped = CappedPosterior(prior, corners, forgetting=forgetting)
    for k, row in enumerate(zip(past.actions, past.contexts, past.measurements, strict=True)):
        plain.condition(*row)
        stopped.condition(*row)
        if k in (0, 3, 254, 255, 256, 300, 511):
            stopped.predict(row[1])  # asking changes nothing
            stopped = CappedPosterior(prior, corners, forgetting=forgetting).restore(stopped.state())
    np.testing.assert_array_equal(plain.predict_at(past.contexts[:9]), stopped.predict_at(past.contexts[:9]))
    for name, array in plain.state().items():
        np.testing.assert_array_equal(array, stopped.copy().state()[name])


def test_one_by_one_is_all_at_once(few):
    prior, past = Prior(PLANT, KERNELS["2-D"], 0.1), measured(PLANT, 1200)
    single = tell(CappedPosterior(prior), past)
    asked = past.contexts[::100]
    np.testing.assert_allclose(
        CappedPosterior(prior).condition_on(past).predict_at(asked), single.predict_at(asked), atol=1e-7
    )


def test_only_so_many_measurements_are_kept(few, monkeypatch):
    monkeypatch.setattr(capped, "CAPACITY", 600)
    prior, past = Prior(PLANT, KERNELS["2-D"], 0.1), measured(PLANT, 1500)
    post = CappedPosterior(prior).condition_on(past)
    single = tell(CappedPosterior(prior), past)
    assert post.observations == single.observations == 1500
    for one in (post, single):
        assert len(one.state()["kept_actions"]) == 600
        assert sorted(one.state()["kept_measurements"]) == sorted(past.measurements[900:])
    asked = past.contexts[-5:]
    np.testing.assert_allclose(post.predict_at(asked), single.predict_at(asked), atol=1e-7)


def test_a_basis_never_has_more_weights_than_the_limit():
    prior = Prior(Problem(np.arange(6.0)), Kernel(np.eye(6), RBF(0.01)))  # all pairs are equal
    basis = CappedBasis(prior)
    basis.build(np.linspace(0.0, 1.0, 50)[:, None], np.ones(50), 100)
    assert basis.size <= 100
    psi, left = basis.features(np.array([[0.5], [7.0]]))
    products = basis.products(np.repeat(psi, 6, axis=0), np.tile(np.arange(6), 2))
    np.testing.assert_allclose((products**2).sum(axis=1) + left.reshape(-1), 1.0, atol=1e-12)


def test_auto_becomes_capped_and_says_so():
    past = measured(PLANT, 520)
    for declared in ({}, {"context_bounds": [(-0.5, 1.5), (-0.5, 1.5)]}, {"contexts": MANY}):
        post = posterior(PLANT, KERNELS["rough"], 0.1, **declared)
        assert post.method == "exact"
        post.condition_on(part(past, 0, 511))
        assert post.method == "exact"
        tell(post, part(past, 511, 520))
        assert post.method == "flat"
        assert "the basis is capped and what it leaves out counts as unknown" in post.reason
        assert "CappedPosterior(520 measurements, 20 actions" in repr(post)
        twin = posterior(PLANT, KERNELS["rough"], 0.1, **declared).restore(post.state())
        for one, other in zip((post, post), (twin, post.copy()), strict=True):
            np.testing.assert_array_equal(one.predict(past.contexts[0]), other.predict(past.contexts[0]))


def test_a_box_that_cannot_be_covered_is_honest_when_flat_is_asked_for():
    box = [(0.0, 1.0)] * 3
    post = posterior(PLANT, Kernel(RBF(0.4), RBF(0.05)), 0.1, method="flat", context_bounds=box)
    assert post.method == "flat"
    assert "asked for" in post.reason
    assert "capped" in post.reason
    np.testing.assert_allclose(post.predict([0.31, 0.47, 0.77])[1], 1.0, atol=1e-9)
    post.condition(4, [0.31, 0.47, 0.77], 5.0)
    assert post.predict([0.31, 0.47, 0.77])[1].min() > 0.0
    fading = posterior(
        PLANT, Kernel(RBF(0.4), RBF(0.05)), 0.1, context_bounds=box, forgetting=0.9, history=measured(PLANT, 30, 3)
    )
    assert fading.describe()["method"] == "capped"
    assert "forgetting 0.9" in repr(fading)


def test_what_does_not_belong_is_refused():
    prior = Prior(PLANT, KERNELS["2-D"], 0.1)
    with pytest.raises(InvalidInput, match="forgetting must be above 0"):
        CappedPosterior(prior, forgetting=0.0)
    post = capped_on(prior, measured(PLANT, 300))
    state = post.state()
    other = Prior(Problem([0.0, 1.0]), KERNELS["2-D"], 0.1)
    with pytest.raises(InvalidInput, match="20 actions, but the problem has 2"):
        CappedPosterior(other).restore(state)
    with pytest.raises(InvalidInput, match="damaged"):
        CappedPosterior(prior).restore(state | {"weights": np.zeros(3)})
    before = post.predict([0.5, 0.5])
    for wrong in ((0, [0.5], 1.0), (20, [0.5, 0.5], 1.0), (0, [0.5, 0.5], float("nan"))):
        with pytest.raises(InvalidInput):
            post.condition(*wrong)
    np.testing.assert_array_equal(post.predict([0.5, 0.5]), before)
    assert post.observations == 300
    np.testing.assert_array_equal(post.truncation_bound(before[1]), 0.0)


def test_a_flat_posterior_that_would_grow_too_much_becomes_capped():
    """Contexts that lie close together at first and leave that box later, as the seasons do."""
    line, kernel = Problem(np.linspace(0.0, 1.0, 7)), Kernel(RBF(0.2), RBF(0.1))
    rng = np.random.default_rng(8)
    contexts = np.concatenate([rng.uniform(size=300), rng.uniform(0.0, 3.0, size=100), rng.uniform(0.0, 40.0, size=30)])
    past = History(rng.integers(7, size=430), contexts, rng.normal(size=430))
    post = posterior(line, kernel, 0.1)
    kinds = []
    for row in zip(past.actions, past.contexts, past.measurements, strict=True):
        post.condition(*row)
        kinds.append(post.inner.describe()["method"])  # from outside both are "flat"
        if len(kinds) in (299, 350):
            post = posterior(line, kernel, 0.1).restore(post.copy().state())
    assert kinds[254:256] == ["exact", "flat"]
    assert kinds[399] == "flat"
    assert kinds[-1] == "capped"
    assert post.observations == 430
    assert len(post.state()["kept_actions"]) == 430
    assert (post.predict_at(contexts[-30:])[1] <= 1.0 + 1e-9).all()
    again = posterior(line, kernel, 0.1).condition_on(past)
    # From outside a capped basis is a kind of flat one.
    assert again.inner.describe()["method"] == "capped"
    np.testing.assert_allclose(again.predict_at(contexts[:5]), post.predict_at(contexts[:5]), atol=0.05)


def test_a_box_that_is_hopeless_is_given_up_early():
    """With all pivots it takes ten seconds to learn the same: that most is left out."""
    prior = Prior(PLANT, Kernel(RBF(0.4), RBF(0.1)), 0.1)
    layout = Layout(prior, context_bounds=[(0.0, 1.0)] * 5)
    assert not layout.complete
    assert layout.discarded > 0.05
    assert len(layout.state()["Z0"]) < 400
