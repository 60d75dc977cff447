from __future__ import annotations

import json
import math
import sys
from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import dense_gp
from oracles.rkhs import largest_ratios, table_of_norm
from sklearn.gaussian_process.kernels import RBF, Matern

import holdcourse as hc
from holdcourse.deciding.hedge import Panel
from holdcourse.errors import InvalidInput
from holdcourse.learning import history
from holdcourse.learning.confidence import OutlierGuard, TheoryWidth
from holdcourse.learning.costs import REPORTED_OUTLIERS, KnownCosts, LowerBound, Mapped, Noise, noise_variance_of
from holdcourse.learning.history import History
from holdcourse.learning.kernels import Kernel
from holdcourse.learning.posteriors import posterior

LINE = hc.Problem(np.linspace(0.0, 1.0, 6))
SMOOTH = Kernel(RBF(0.3), RBF(0.4))
NOISE = 0.2
POSTERIORS = {
    "exact": lambda: posterior(LINE, SMOOTH, NOISE, method="exact"),
    "flat": lambda: posterior(LINE, SMOOTH, NOISE, method="flat", context_bounds=(0.0, 2.0)),
    "adaptive": lambda: posterior(LINE, SMOOTH, NOISE),
    "temporal": lambda: posterior(LINE, Kernel(RBF(0.3), Matern(0.5, nu=1.5)), NOISE, method="temporal"),
    "fitted": lambda: posterior(LINE, "auto", NOISE),
}
every_posterior = pytest.mark.parametrize("name", POSTERIORS)


def records(t=12, seed=0):
    """(action, context, measurement) in order of context, so that every posterior takes them."""
    rng = np.random.default_rng(seed)
    contexts = np.sort(rng.uniform(size=t))
    return [(int(rng.integers(6)), float(e), float(rng.normal())) for e in contexts]


def told(model, triples):
    for triple in triples:
        assert model.learn(*triple) == 1.0
    return model


def assert_same_state(one, other):
    assert one.keys() == other.keys()
    for key in one:
        np.testing.assert_array_equal(one[key], other[key], err_msg=key)


@every_posterior
def test_a_model_that_learns_says_how_noisy_measurements_are(name):
    model = LowerBound(POSTERIORS[name]())
    assert isinstance(model, Noise)
    assert noise_variance_of(model) == model.posterior.prior.noise_variance == pytest.approx(NOISE**2)
    assert noise_variance_of(Panel([model, KnownCosts(LINE)])) == model.noise_variance
    assert noise_variance_of(Panel([KnownCosts(LINE), model])) is None  # the first one counts
    assert noise_variance_of(KnownCosts(LINE)) is None


# -- bounds ------------------------------------------------------------------------------------------------------------


@every_posterior
@pytest.mark.parametrize("width", [0.0, 2.0, 3.5])
def test_lower_bound_is_mean_minus_width_times_deviation(name, width):
    model, post = told(LowerBound(POSTERIORS[name](), width), records()), POSTERIORS[name]()
    for triple in records():
        post.condition(*triple)
    mean, std = post.predict(1.3)
    estimate = model.estimate(1.3)
    np.testing.assert_array_equal(estimate.costs, mean - width * std)
    np.testing.assert_array_equal(estimate.expected, mean)
    np.testing.assert_array_equal(estimate.mean, mean)
    np.testing.assert_array_equal(estimate.std, std)


@every_posterior
def test_maximise_gives_negative_upper_bounds(name):
    gains = told(LowerBound(POSTERIORS[name](), maximise=True), records())
    losses = told(LowerBound(POSTERIORS[name]()), [(action, e, -y) for action, e, y in records()])
    estimate = gains.estimate(1.3)
    np.testing.assert_allclose(estimate.costs, losses.estimate(1.3).costs, atol=1e-12)
    np.testing.assert_array_equal(estimate.costs, -(estimate.mean + 2.0 * estimate.std))
    np.testing.assert_array_equal(estimate.expected, -estimate.mean)


@every_posterior
def test_costs_at_is_a_table_of_estimates(name):
    model = told(LowerBound(POSTERIORS[name]()), records())
    table = model.costs_at([1.1, 1.5, 1.1])
    np.testing.assert_array_equal(table, [model.estimate(e).costs for e in (1.1, 1.5, 1.1)])
    np.testing.assert_array_equal(model.costs_at([[1.1], [1.5]]), table[:2])
    assert model.costs_at([]).shape == (0, 6)


@pytest.mark.parametrize("regularisation", [None, 0.5])
def test_theory_width_is_the_formula(regularisation):
    post = posterior(LINE, SMOOTH, NOISE, method="exact", regularisation=regularisation)
    model, variance = LowerBound(post, TheoryWidth(1.5, 0.1)), regularisation or NOISE**2
    for t, triple in enumerate([None, *records(40)]):
        if triple is not None:
            model.learn(*triple)
        actions, contexts, _ = zip(*records(40)[:t], strict=True) if t else ((), np.zeros((0, 1)), ())
        gain = dense_gp.information_gain(LINE, SMOOTH, variance, actions, contexts)
        beta = NOISE / math.sqrt(variance) * math.sqrt(2 * math.log(1 / 0.1) + 2 * gain) + 1.5
        assert model.width.of(post) == pytest.approx(beta, rel=1e-10)
        mean, std = post.predict(0.4)
        np.testing.assert_allclose(model.estimate(0.4).costs, mean - beta * std, atol=1e-9)


def test_without_noise_only_the_norm_counts():
    assert TheoryWidth(3.0).of(posterior(LINE, SMOOTH, 0.0, method="exact").condition(0, 0.5, 1.0)) == 3.0


def test_functions_of_known_norm_have_it():
    """Interpolating a function of norm B without noise shows its norm from below: y K^-1 y <= B^2."""
    rng = np.random.default_rng(0)
    contexts = np.linspace(0.0, 1.0, 5)
    rough = Kernel(Matern(0.3, nu=0.5), Matern(0.4, nu=0.5))
    f = table_of_norm(LINE, rough, contexts, 2.0, rng, centres=4)
    actions, where = np.tile(np.arange(6), 5), np.repeat(contexts, 6)[:, None]
    seen = f.reshape(-1) @ np.linalg.solve(rough.covariance(LINE, actions, where), f.reshape(-1))
    assert 1.0 < seen <= 4.0 + 1e-9


@pytest.mark.parametrize("regularisation", [None, 1.0])
def test_bounds_hold_for_functions_of_bounded_norm(regularisation, record_property):
    """As in tests/slow/test_confidence.py, on a tenth of the functions."""
    rng = np.random.default_rng(1)
    settings = {"norm": 2.0, "delta": 0.1, "noise_std": 0.3, "regularisation": regularisation, "rounds": 40}
    contexts = np.linspace(0.0, 1.0, 8)
    ratios = np.array(
        [largest_ratios(LINE, SMOOTH, contexts, **settings, rng=rng, greedy=bool(i % 2)) for i in range(20)]
    )
    held = (ratios[:, 0] <= 1.0).mean()
    record_property(
        f"20 functions, lambda {regularisation or 'of the noise'}: bounds held", f"{held:.0%}, {ratios[:, 0].max():.2f}"
    )
    assert held >= 0.9
    assert (ratios[:, 1] > 1.0).mean() > 0.5  # one deviation would not do: there is something to hold


def test_guaranteed_adds_the_truncation_bound():
    coarse = posterior(LINE, SMOOTH, NOISE, method="flat", context_bounds=(0.0, 1.0), tolerance=1e-3)
    exact = POSTERIORS["exact"]()
    model = LowerBound(coarse, 2.0, guaranteed=True)
    for triple in records(30):
        model.learn(*triple)
        exact.condition(*triple)
    mean, std = coarse.predict(0.4)
    allowance = coarse.truncation_bound(std)
    assert (allowance > 0).all()
    np.testing.assert_array_equal(model.estimate(0.4).costs, mean - 2.0 * (std + allowance))
    np.testing.assert_array_equal(model.estimate(0.4).std, std)
    assert (std + allowance >= exact.predict(0.4)[1]).all()
    assert (LowerBound(coarse, 2.0).estimate(0.4).costs > model.estimate(0.4).costs).all()


# -- episodes ----------------------------------------------------------------------------------------------------------


@every_posterior
@pytest.mark.parametrize("width", [2.0, TheoryWidth(1.0)])
def test_bounds_are_frozen_until_the_episode_ends(name, width):
    frozen, following = (LowerBound(POSTERIORS[name](), width, every=every) for every in ("episode", "round"))
    conditioned = LowerBound(POSTERIORS[name](), width)
    for episode in (records()[:7], records()[7:]):
        before = frozen.estimate(1.3)
        told(frozen, episode)
        told(following, episode)
        np.testing.assert_array_equal(frozen.estimate(1.3).costs, before.costs)
        np.testing.assert_array_equal(frozen.costs_at([1.3])[0], before.costs)
        assert not np.allclose(following.estimate(1.3).costs, before.costs)
        frozen.new_episode()
        following.new_episode()
        conditioned.posterior.condition_on(History.from_triples(episode))
        np.testing.assert_array_equal(frozen.estimate(1.3).costs, conditioned.estimate(1.3).costs)
        if name != "fitted":  # it fits at the end of the episode; round by round it has fitted earlier
            np.testing.assert_allclose(frozen.estimate(1.3).costs, following.estimate(1.3).costs, atol=1e-9)
    frozen.new_episode()  # an episode without a measurement
    assert frozen.posterior.observations == len(records())


def test_an_episode_may_be_told_out_of_the_order_of_time():
    late, in_order = (LowerBound(POSTERIORS["temporal"](), every="episode") for _ in range(2))
    told(late, records()[::-1])
    told(in_order, records())
    late.new_episode()
    in_order.new_episode()
    np.testing.assert_allclose(late.estimate(1.3).costs, in_order.estimate(1.3).costs, atol=1e-12)


def test_the_first_measurement_of_an_episode_fixes_the_length_of_contexts():
    model = LowerBound(posterior(LINE, SMOOTH, method="exact"), every="episode")
    model.learn(0, [0.1, 0.2], 1.0)
    with pytest.raises(InvalidInput, match="2 numbers"):
        model.learn(0, 0.1, 1.0)
    model.new_episode()
    assert model.posterior.observations == 1


# -- outliers ----------------------------------------------------------------------------------------------------------


def test_guard_leaves_what_is_near_and_pulls_in_what_is_far():
    guard = OutlierGuard(3.0)
    assert guard.tamed(5.9, 5.0, 0.5) == (5.9, 1.0)
    assert guard.tamed(6.5, 5.0, 0.5) == (6.5, 1.0)
    assert guard.tamed(8.0, 5.0, 0.5) == (6.5, 0.5)
    assert guard.tamed(2.0, 5.0, 0.5) == (3.5, 0.5)
    assert guard.tamed(1e300, 5.0, 0.5) == pytest.approx((6.5, 1.5e-300))


@every_posterior
@pytest.mark.parametrize("every", ["round", "episode"])
def test_influence_of_one_measurement_is_bounded(name, every):
    plain = told(LowerBound(POSTERIORS[name]()), records())
    mean, std = plain.posterior.predict(1.1)
    models = [plain.copy() for _ in range(3)]
    for model, y in zip(models, (1e3, 1e9, -1e12), strict=True):
        model.guard, model.every = OutlierGuard(4.0), every
        spread = math.sqrt(std[2] ** 2 + NOISE**2)
        assert model.learn(2, 1.1, y) == pytest.approx(4.0 * spread / abs(y - mean[2]))
        (outlier,) = model.outliers
        assert (outlier.action, outlier.context, outlier.measurement) == (2, (1.1,), y)
        assert outlier.weight == pytest.approx(4.0 * spread / abs(y - mean[2]))
        model.new_episode()
        moved = model.posterior.predict(1.1)[0][2] - mean[2]
        most = 4.0 * std[2] ** 2 / spread
        if name == "fitted":  # its deviations are wider than those it learns with, and it fits after an episode
            assert 0.5 * most < math.copysign(moved, moved * y) < 1.25 * most
        else:
            assert moved == pytest.approx(math.copysign(most, y), rel=1e-6)


@every_posterior
def test_guard_does_not_touch_ordinary_measurements(name):
    plain, guarded = LowerBound(POSTERIORS[name]()), LowerBound(POSTERIORS[name](), guard=OutlierGuard(6.0))
    told(plain, records())
    told(guarded, records())
    # The guard asks before it learns, which the flat posterior notices in the last bit.
    np.testing.assert_allclose(guarded.estimate(1.3).costs, plain.estimate(1.3).costs, rtol=1e-12)
    assert guarded.outliers == []


def test_guard_keeps_spikes_from_spoiling_the_mean():
    errors = []
    for guard in (None, OutlierGuard(4.0)):
        rng, model = np.random.default_rng(0), LowerBound(POSTERIORS["exact"](), guard=guard)
        for t in range(300):
            action, context = int(rng.integers(6)), rng.uniform()
            spike = 50.0 if t % 20 == 10 else 0.0
            model.learn(action, context, math.sin(3 * context) + NOISE * rng.normal() + spike)
        grid = np.linspace(0.0, 1.0, 11)
        errors.append(max(np.abs(model.estimate(e).expected - math.sin(3 * e)).max() for e in grid))
        assert sum(outlier.measurement > 25.0 for outlier in model.outliers) == (0 if guard is None else 15)
        assert len(model.outliers) <= 20
    assert errors[1] < 0.1 * errors[0]


def test_only_the_newest_outliers_are_kept():
    model = LowerBound(POSTERIORS["flat"](), guard=OutlierGuard(1e-3))
    for t in range(REPORTED_OUTLIERS + 20):
        model.learn(t % 6, 0.5, 1e6 + t)
    assert [outlier.measurement for outlier in model.outliers] == [1e6 + t for t in range(20, REPORTED_OUTLIERS + 20)]


# -- maps --------------------------------------------------------------------------------------------------------------


class Tables:
    """Costs that are piecewise linear in the learned quantity, one table per action, and constant beyond the ends."""

    name = "tables"

    def __init__(self, nodes, values):  # (m,), (n, m)
        self.nodes, self.values = np.asarray(nodes), np.asarray(values)

    def cost(self, quantity):  # (n,) -> (n,)
        return np.array([np.interp(q, self.nodes, row) for q, row in zip(quantity, self.values, strict=True)])

    def __call__(self, low, high):
        inside = (low[:, None] < self.nodes) & (self.nodes < high[:, None])
        least_inside = np.where(inside, self.values, np.inf).min(axis=1)
        return np.minimum(least_inside, np.minimum(self.cost(low), self.cost(high)))


numbers = st.floats(-4.0, 4.0, width=32)
tables = st.integers(1, 5).flatmap(
    lambda m: st.builds(
        Tables,
        st.lists(numbers, min_size=m, max_size=m, unique=True).map(sorted),
        st.lists(st.lists(numbers, min_size=m, max_size=m), min_size=6, max_size=6),
    )
)
triples = st.lists(st.tuples(st.integers(0, 5), st.floats(0, 1, width=16), numbers), max_size=8)


@given(tables, triples, st.floats(0.0, 4.0), st.lists(st.floats(0, 1), min_size=6, max_size=6), st.floats(0, 1))
def test_mapped_bounds_contain_the_true_cost(table, measured, width, where, context):
    """Whatever the map: if the quantity lies in its interval, its cost is not below the bound, and the bound is met."""
    model = told(Mapped(POSTERIORS["exact"](), table, width), measured)
    estimate = model.estimate(context)
    low, high = estimate.mean - width * estimate.std, estimate.mean + width * estimate.std
    truth = np.clip(low + np.array(where) * (high - low), low, high)
    assert (table.cost(truth) >= estimate.costs - 1e-9).all()
    assert (estimate.expected >= estimate.costs - 1e-9).all()
    np.testing.assert_allclose(estimate.expected, table.cost(estimate.mean))
    grid = np.linspace(low, high, 400)  # the bound is no lower than need be
    finest = np.array([table.cost(row) for row in grid]).min(axis=0)
    steepest = max((np.abs(np.diff(row) / np.diff(table.nodes)).max(initial=0.0) for row in table.values), default=0.0)
    assert (finest - estimate.costs <= steepest * (high - low).max() / 399 + 1e-9).all()
    np.testing.assert_allclose(model.costs_at([context])[0], estimate.costs)


def test_a_map_sees_all_actions_together_and_its_whole_interval():
    """The dip between the ends of the interval counts, although both ends are dear."""
    seen = []

    def valley(low, high):
        seen.append((low, high))
        return np.where((low < 0.0) & (high > 0.0), -1.0, np.minimum(np.abs(low), np.abs(high)))

    estimate = Mapped(POSTERIORS["exact"](), valley).estimate(0.5)
    np.testing.assert_array_equal(estimate.costs, -1.0)
    np.testing.assert_array_equal(estimate.expected, 0.0)
    assert all(low.shape == high.shape == (6,) for low, high in seen)


@pytest.mark.parametrize(
    "result", [[1.0] * 5, np.nan, [[0.0] * 6], [0.0] * 5 + [np.nan], [0.0] * 5 + [-np.inf], "dear"]
)
def test_a_map_that_gives_no_costs_is_named(result):
    def careless(low, high):
        return result

    with pytest.raises(InvalidInput, match=r"costs from .*careless must be 6 numbers"):
        Mapped(POSTERIORS["exact"](), careless).estimate(0.5)


def test_a_map_may_forbid_actions():
    costs = (
        Mapped(POSTERIORS["exact"](), lambda low, high: np.where(np.arange(6) == 2, np.inf, low)).estimate(0.5).costs
    )
    assert costs[2] == np.inf
    assert np.isfinite(np.delete(costs, 2)).all()


# -- known costs -------------------------------------------------------------------------------------------------------


def test_known_costs_are_what_is_shown():
    model, shown = KnownCosts(LINE), [3.0, 1.0, np.inf, 0.0, -2.0, 5.0]
    assert model.needs_costs
    estimate = model.estimate(0.5, shown)
    np.testing.assert_array_equal(estimate.costs, shown)
    np.testing.assert_array_equal(estimate.expected, shown)
    gains = [3.0, 1.0, -np.inf, 0.0, -2.0, 5.0]
    np.testing.assert_array_equal(KnownCosts(LINE, maximise=True).estimate(0.5, gains).costs, np.negative(gains))
    assert model.learn(0, 0.5, 1.0) == 1.0
    assert model.state() == {}
    for wrong in (None, [1.0] * 5, [np.nan] * 6, [-np.inf] * 6, "six", [[1.0] * 6]):
        with pytest.raises(InvalidInput, match="costs"):
            model.estimate(0.5, wrong)
    with pytest.raises(InvalidInput, match="gains must be 6 numbers"):
        KnownCosts(LINE, maximise=True).estimate(0.5, [np.inf] * 6)
    with pytest.raises(InvalidInput, match="needs the true costs"):
        model.costs_at([0.5])


def test_known_costs_may_be_a_function_of_the_context():
    def tide(context):
        return LINE.actions[:, 0] * context[0]

    model = KnownCosts(LINE, tide)
    assert not model.needs_costs
    for context in (0.5, [0.5], np.array([0.5])):
        np.testing.assert_array_equal(model.estimate(context).costs, LINE.actions[:, 0] / 2)
    np.testing.assert_array_equal(model.costs_at([0.5, 1.0]), [LINE.actions[:, 0] / 2, LINE.actions[:, 0]])
    assert model.costs_at([]).shape == (0, 6)
    np.testing.assert_array_equal(model.estimate(0.5, np.ones(6)).costs, 1.0)  # what is shown comes first
    with pytest.raises(InvalidInput):
        model.estimate(np.nan)
    assert model.describe()["costs_of"].endswith("tide")


# -- copy, state, description ------------------------------------------------------------------------------------------

MODELS = {
    "plain": lambda post: LowerBound(post),
    "by episode": lambda post: LowerBound(post, TheoryWidth(1.0), every="episode"),
    "guarded": lambda post: LowerBound(post, guard=OutlierGuard(0.5), maximise=True),
    "mapped": lambda post: Mapped(post, Tables([-1.0, 0.0, 1.0], np.eye(6, 3)), guaranteed=True),
}
every_model = pytest.mark.parametrize("kind", MODELS)


def learned(kind, name, t=8):
    """A model that has learned: a twin of one that is made once."""
    return learned_once(kind, name, t).copy()


@cache
def learned_once(kind, name, t):
    model = MODELS[kind](POSTERIORS[name]())
    for triple in records()[: t - 2]:
        model.learn(*triple)
    model.new_episode()
    for triple in records()[t - 2 : t]:
        model.learn(*triple)
    return model


def finished(model):
    for triple in records()[8:]:
        model.learn(*triple)
    model.new_episode()
    return model.estimate(1.3)


@every_posterior
@every_model
def test_a_copy_goes_its_own_way(kind, name):
    model = learned(kind, name)
    twin, before, reported = model.copy(), model.state(), list(model.outliers)
    there = finished(twin)
    assert_same_state(model.state(), before)
    assert model.outliers == reported
    here = finished(model)
    np.testing.assert_array_equal(here.costs, there.costs)
    assert model.outliers == twin.outliers


@every_posterior
@every_model
def test_state_and_restore_are_bit_identical(kind, name, tmp_path):
    model = learned(kind, name)
    np.savez(tmp_path / "state.npz", **model.state())
    with np.load(tmp_path / "state.npz", allow_pickle=False) as arrays:
        resumed = MODELS[kind](POSTERIORS[name]()).restore(dict(arrays))
    assert_same_state(resumed.state(), model.state())
    np.testing.assert_array_equal(resumed.estimate(1.3).costs, model.estimate(1.3).costs)
    assert resumed.outliers == model.outliers
    assert bool(model.outliers) == (kind == "guarded")
    np.testing.assert_array_equal(finished(resumed).costs, finished(model).costs)


def test_a_wrong_state_is_refused_and_changes_nothing():
    model = learned("by episode", "exact")
    before = model.state()
    for missing in (set(before), {"waiting.actions"}, {"outliers.weights"}, {"posterior.factor"}):
        wrong = {key: array for key, array in before.items() if key not in missing}
        with pytest.raises(InvalidInput, match="state"):
            model.restore(wrong)
        assert_same_state(model.state(), before)


@every_posterior
@every_model
@pytest.mark.parametrize(
    "arguments",
    [
        *[(action, 1.1, 1.0) for action in (6, -1, 1.0, True)],
        *[(0, context, 1.0) for context in (np.nan, [np.inf], [1.1, 0.2], [], "warm")],
        *[(0, 1.1, y) for y in (np.nan, -np.inf, "hot", None)],
    ],
    ids=str,
)
def test_wrong_measurements_change_nothing(kind, name, arguments):
    model = learned(kind, name)
    estimate = model.estimate(1.3).costs  # first, for the flat posterior puts work off until it is asked
    before, reported = model.state(), list(model.outliers)
    with pytest.raises(InvalidInput):
        model.learn(*arguments)
    assert_same_state(model.state(), before)
    assert model.outliers == reported
    np.testing.assert_array_equal(model.estimate(1.3).costs, estimate)


@every_posterior
@every_model
def test_descriptions_are_json_and_equal_for_equal_models(kind, name):
    fresh, grown = MODELS[kind](POSTERIORS[name]()), learned(kind, name)
    text = json.dumps(fresh.describe(), sort_keys=True, allow_nan=False)
    assert json.dumps(grown.describe(), sort_keys=True) == text
    assert json.dumps(grown.copy().describe(), sort_keys=True) == text


def test_descriptions_tell_models_apart():
    post = POSTERIORS["flat"]
    forgetful = posterior(LINE, SMOOTH, NOISE, method="flat", context_bounds=(0.0, 2.0), forgetting=0.99)
    noisy = posterior(LINE, SMOOTH, 2 * NOISE, method="flat", context_bounds=(0.0, 2.0))
    models = [
        LowerBound(post()),
        LowerBound(post(), 1.0),
        LowerBound(post(), TheoryWidth(2.0)),
        LowerBound(post(), TheoryWidth(2.0, 0.1)),
        LowerBound(post(), every="episode"),
        LowerBound(post(), maximise=True),
        LowerBound(post(), guard=OutlierGuard()),
        LowerBound(post(), guaranteed=True),
        LowerBound(forgetful),
        LowerBound(noisy),
        LowerBound(POSTERIORS["exact"]()),
        Mapped(post(), np.minimum),
        KnownCosts(LINE),
        KnownCosts(LINE, maximise=True),
    ]
    texts = {json.dumps(model.describe(), sort_keys=True, allow_nan=False) for model in models}
    assert len(texts) == len(models)


def test_whole_numbers_and_numpy_numbers_are_described_alike():
    for width in (2, 2.0, np.int64(2), np.float32(2)):
        text = json.dumps(LowerBound(POSTERIORS["exact"](), width, maximise=np.bool_(True)).describe())
        assert text == json.dumps(LowerBound(POSTERIORS["exact"](), 2.0, maximise=True).describe())
        assert json.dumps(TheoryWidth(width).__dict__) == json.dumps(TheoryWidth(2.0).__dict__)
        assert json.dumps(OutlierGuard(width).deviations) == "2.0"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"width": -1.0}, "width must be 0 or more, or a TheoryWidth, got -1"),
        ({"width": np.nan}, "width must be"),
        ({"width": "wide"}, "width must be"),
        ({"width": None}, "width must be"),
        ({"every": "day"}, "every must be 'round' or 'episode'"),
        ({"maximise": True, "interval_map": np.minimum}, "let the map turn gains into costs"),
    ],
)
def test_wrong_settings_are_refused(options, complaint):
    with pytest.raises(InvalidInput, match=complaint):
        LowerBound(POSTERIORS["exact"](), **options)


def test_wrong_widths_and_guards_are_refused():
    for norm_bound, delta in [
        (0.0, 0.1),
        (np.inf, 0.1),
        (np.nan, 0.1),
        ("B", 0.1),
        (1.0, 0.0),
        (1.0, 1.0),
        (1.0, None),
    ]:
        with pytest.raises(InvalidInput):
            TheoryWidth(norm_bound, delta)
    for deviations in (0.0, -1.0, np.nan, np.inf, "six"):
        with pytest.raises(InvalidInput, match="deviations must be positive"):
            OutlierGuard(deviations)


@pytest.mark.parametrize("every", ["round", "episode"])
def test_a_measurement_too_large_to_be_learned_is_refused_at_once_or_tamed(every):
    model = LowerBound(posterior(LINE, "auto"), every=every)
    with pytest.raises(InvalidInput, match=r"measurements contain 1e\+200, which is too large to be squared"):
        model.learn(0, 0.1, 1e200)
    model.new_episode()
    assert model.posterior.observations == 0
    guarded = LowerBound(posterior(LINE, "auto"), every=every, guard=OutlierGuard())
    assert guarded.learn(0, 0.1, 1e200) < 1e-190


def context_checks(act):
    """How often contexts are checked while something is done."""
    checks, found = (history.check_context.__code__, history.check_contexts.__code__), 0

    def count(frame, event, argument):
        nonlocal found
        found += event == "call" and frame.f_code in checks

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    return found


def test_contexts_are_checked_at_the_gate_and_where_they_are_predicted_first():
    """A question at the gate and by the posterior; contexts that a plan looks at again and again, all at once."""
    known = np.linspace(0.0, 1.0, 6)
    learning = {"kernel": SMOOTH, "noise_std": NOISE}
    for policy, asking in (
        (hc.gp_md(LINE, **learning, context_bounds=(0, 1)), 2),
        (hc.planner(LINE, **learning, contexts=known), 2 + 2),
    ):
        controller = hc.Controller(policy, start_index=0)
        for context in (*known, 0.2):
            decision = controller.ask(context)
            assert context_checks(partial(controller.tell, decision.id, 1.0)) == 1
        assert context_checks(partial(controller.ask, 0.4)) == asking


@every_posterior
def test_what_was_predicted_before_does_not_let_others_through(name):
    model = LowerBound(POSTERIORS[name]())
    model.learn(2, 0.3, 1.0)
    model.costs_at([0.4, 0.5])
    for wrong in (np.nan, [0.4, np.inf], [[0.4], [0.5]], "noon"):
        with pytest.raises(InvalidInput):
            model.estimate(wrong)
        with pytest.raises(InvalidInput):
            model.costs_at([0.4, wrong])
        with pytest.raises(InvalidInput):
            model.learn(0, wrong, 1.0)
    assert model.posterior.observations == 1
