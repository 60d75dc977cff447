"""Finer settings where they pay: what is added, what is kept, and what it is said to gain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

import holdcourse as hc
from holdcourse.deciding.policy import lower_bound
from holdcourse.errors import InvalidInput, TooLarge
from holdcourse.learning.improvement import Belief, Comparison
from holdcourse.movement.resolution import continuous_axes, with_values

COMMON = hc.Kernel(ConstantKernel(1.0), RBF(0.5), variance=4.0)  # of all settings in a context
KERNEL = hc.Kernel(RBF(0.3), RBF(0.5), variance=16.0)
COARSE = np.linspace(0.0, 1.0, 6)


def measured(problem, cost, rounds=60, noise=0.0, seed=0):
    """Measurements of settings and contexts in turn."""
    rng = np.random.default_rng(seed)
    actions = rng.integers(problem.n, size=rounds)
    contexts = rng.random(rounds)
    costs = [cost(problem.actions[a], e) + noise * rng.normal() for a, e in zip(actions, contexts, strict=True)]
    return hc.History(actions, contexts, costs)


def valley(x, e):
    return (x[0] - 0.5) ** 2 / 0.02


# -- what is added -----------------------------------------------------------------------------------------------------


def test_values_are_added_around_an_optimum_in_between_and_nowhere_else():
    problem = hc.Problem(COARSE, scale=0.01)
    past = measured(problem, valley)
    found = hc.refine(hc.gp_md(problem, kernel=KERNEL, noise_std=0.05), past, loss=0.001)
    assert len(found.added[""])
    assert 0.4 < found.added[""].min() < 0.5 < found.added[""].max() < 0.6
    assert "values are added: 0.4" in found.words
    assert 0.0 < found.gain < 0.5  # which is what is saved; the kernel would not have bet on a parabola
    assert found.gain <= found.possible_gain * 1.0001
    assert found.move_cost == pytest.approx(0.01 * (found.added[""].min() - 0.4))


@pytest.mark.parametrize(
    "cost", [lambda x, e: 3.0 * x[0], lambda x, e: -3.0 * x[0], lambda x, e: 8.0 * abs(x[0] - 0.4) ** 1.2]
)
def test_nothing_is_added_where_no_setting_can_be_better(cost):
    """The best setting is one of the list, in every context."""
    problem = hc.Problem(COARSE)
    kernel = hc.Kernel(RBF(0.4), RBF(1.0), variance=4.0)
    found = hc.refine(hc.gp_md(problem, kernel=kernel, noise_std=0.01), measured(problem, cost, 120), loss=0.01)
    assert len(found.added[""]) == 0
    assert found.problem.n == problem.n
    assert found.gain == 0.0
    assert found.words.startswith("No finer setting pays")


def test_expensive_moves_are_not_worth_a_finer_spacing():
    past = measured(hc.Problem(COARSE), valley)
    counts = []
    for scale, fixed_cost in ((0.01, 0.0), (30.0, 0.0), (1e4, 0.0), (0.01, 1e3)):
        policy = hc.gp_md(hc.Problem(COARSE, scale=scale, fixed_cost=fixed_cost), kernel=KERNEL)
        counts.append(len(hc.refine(policy, past, loss=0.001).added[""]))
    assert counts[0] >= counts[1] > counts[2] == counts[3] == 0


def test_places_that_nobody_has_looked_at_are_left_to_the_settings_there_are():
    problem = hc.Problem(COARSE)
    past = hc.History([0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4], [1.0, 0.5, 1.0, 0.5])
    found = hc.refine(hc.gp_md(problem, kernel=KERNEL), past, loss=0.02)
    assert (found.added[""] < 0.6).all()  # 0.6, 0.8 and 1 are as unknown as all between them


def test_only_within_the_range_that_is_named():
    problem = hc.Problem(COARSE)
    policy, past = hc.gp_md(problem, kernel=KERNEL), measured(problem, valley)
    assert hc.refine(policy, past, within=(0.5, 0.9), loss=0.001).added[""].min() >= 0.5
    assert len(hc.refine(policy, past, within=(0.0, 0.3), loss=0.001).added[""]) == 0


def test_a_grid_is_refined_along_each_axis():
    settings_of = hc.grid(x=COARSE, y=np.linspace(0.0, 10.0, 5), mode=hc.knob(["eco", "boost"], change=1.0))
    problem = hc.Problem(settings_of, scale=[0.01, 0.001, 1.0], unit=["m", "bar", ""], cost_unit="EUR", fixed_cost=0.01)

    def cost(x, e):
        return (x[0] - 0.5) ** 2 / 0.02 + (x[1] - 4.0) ** 2 / 8.0 + x[2]

    policy = hc.gp_md(problem, kernel=hc.Kernel(RBF([0.3, 3.0, 2.0]), variance=16.0), noise_std=0.05)
    found = hc.refine(policy, measured(problem, cost, 150), loss=0.003)
    assert set(found.added) == {"x", "y"}  # between names there is nothing
    assert 0.4 < found.added["x"].mean() < 0.6
    assert 2.5 < found.added["y"].mean() < 5.0
    assert found.problem.axis_names == ("x", "y", "mode")
    assert found.problem.units == problem.units
    assert found.problem.describe()["fixed_cost"] == 0.01
    assert "m on x; " in found.words
    assert "EUR" in found.words
    only = hc.refine(policy, measured(problem, cost, 150), within={"y": (0.0, 10.0)}, loss=0.003)
    assert set(only.added) == {"y"}


def test_gains_are_costs_in_the_mirror():
    problem = hc.Problem(COARSE, scale=0.01)
    past = measured(problem, valley)
    gains = hc.History(past.actions, past.contexts, -past.measurements)
    costs = hc.refine(hc.gp_md(problem, kernel=KERNEL), past, loss=0.001)
    mirrored = hc.refine(hc.gp_md(problem, kernel=KERNEL, maximise=True), gains, loss=0.001)
    assert mirrored.added[""].tolist() == costs.added[""].tolist()
    assert mirrored.gain == pytest.approx(costs.gain)


def test_the_deviation_is_that_of_the_difference():
    """What all settings have in common is not known, and does not matter."""
    problem = hc.Problem(COARSE)
    policy = hc.gp_md(problem, kernel=KERNEL + COMMON, noise_std=0.01)
    past = measured(problem, lambda x, e: 3.0 * x[0] + 5.0 * np.sin(5 * e), 200)
    assert len(hc.refine(policy, past, loss=0.01).added[""]) == 0


# -- what is kept ------------------------------------------------------------------------------------------------------

AXES = st.lists(st.integers(0, 40), min_size=2, max_size=7, unique=True).map(lambda values: np.array(values) / 40.0)


@settings(max_examples=25, deadline=None)
@given(
    values=AXES,
    second=st.none() | AXES,
    scale=st.floats(0.001, 2.0),
    metric=st.sampled_from(["euclidean", "cityblock", "chebyshev"]),
    fixed_cost=st.sampled_from([0.0, 0.05]),
    length=st.floats(0.25, 1.0),  # shorter ones may need more settings than are compared
    loss=st.sampled_from([0.001, 0.01, 0.1]),
    seed=st.integers(0, 5),
)
def test_old_settings_stay_and_new_ones_lie_between_them(values, second, scale, metric, fixed_cost, length, loss, seed):
    actions = values if second is None else hc.grid(x=values[:4], y=second[:4])
    problem = hc.Problem(actions, metric, scale=scale, fixed_cost=fixed_cost, unit="m", context_names=["load"])
    rng = np.random.default_rng(seed)
    past = hc.History(rng.integers(problem.n, size=12), rng.random(12), rng.normal(size=12))
    policy = hc.gp_md(problem, kernel=hc.Kernel(RBF(length), RBF(0.5)), noise_std=0.2)
    found = hc.refine(policy, past, loss=loss)
    finer, places = found.problem, found.places
    assert np.array_equal(finer.actions[places], problem.actions)
    assert len(set(places.tolist())) == problem.n
    assert np.array_equal(finer.distances[np.ix_(places, places)], problem.distances)
    assert np.array_equal(finer.actions[found.history.actions], problem.actions[past.actions])
    assert (finer.units, finer.context_names) == (problem.units, problem.context_names)
    for before, after in zip(continuous_axes(problem), continuous_axes(finer), strict=True):
        new, gaps = found.added[before.name], np.diff(after.values)
        assert before.values[0] == after.values[0]
        assert before.values[-1] == after.values[-1]
        assert sorted([*before.values, *new]) == after.values.tolist()
        touched = np.isin(after.values[:-1], new) | np.isin(after.values[1:], new)
        assert (gaps[touched] >= found.spacing[before.name] * (1 - 1e-9)).all()
        least = hc.resolution(0.0, 1.0, length_scale=length, price=scale, loss=loss)
        assert found.spacing[before.name] >= 0.99 * (least[1] - least[0]) or len(least) == 2
        by_noise = 0.2 * length / np.sqrt(len(past))  # what so many measurements can tell, of a deviation of 1
        assert found.spacing[before.name] >= 0.99 * by_noise
        # What a uniform grid may lose at worst, c delta^2 / 8, is lost at most: no gap became wider.
        assert gaps.max() <= np.diff(before.values).max()
    again = hc.refine(policy, past, loss=loss)
    assert np.array_equal(again.problem.actions, finer.actions)
    assert (again.gain, again.words) == (found.gain, found.words)


def test_settings_that_fall_go_on_falling():
    problem = hc.Problem(COARSE[::-1])
    finer, places = with_values(problem, 0, [0.3, 0.5])
    assert (np.diff(finer.actions[:, 0]) < 0).all()
    assert np.array_equal(finer.actions[places], problem.actions)


def test_what_was_learned_is_known_to_the_finer_policy():
    problem = hc.Problem(COARSE, scale=0.01)
    first, since = measured(problem, valley, 30), measured(problem, valley, 30, seed=1)
    policy = hc.gp_md(problem, kernel=KERNEL, noise_std=0.05, history=first)
    found = hc.refine(policy, since, loss=0.001)
    all_of_it = hc.gp_md(
        problem,
        kernel=KERNEL,
        noise_std=0.05,
        history=found.history.__class__(
            np.append(first.actions, since.actions),
            np.concatenate([first.contexts, since.contexts]),
            np.append(first.measurements, since.measurements),
        ),
    )
    now, then = (each.costs.estimate(0.3).costs for each in (found.policy, all_of_it))
    assert len(found.history) == 60
    assert now[found.places] == pytest.approx(then, rel=1e-9, abs=1e-9)


def test_recommended_goes_on_with_finer_settings():
    problem = hc.Problem(COARSE, scale=0.01)
    past = measured(problem, lambda x, e: 1.0 + valley(x, e), 40, noise=0.02)
    policy = hc.recommended(problem, baseline=0.2, at_most=None)
    found = hc.refine(policy, past, loss=0.001)
    assert len(found.added[""])
    name, options = found.policy.made_by
    assert name == "recommended"
    assert options["at_most"] is None
    assert found.problem.value(options["baseline_index"]) == 0.2
    controller = hc.Controller(found.policy, start=0.4, limits=hc.Limits(max_step=0.5))
    assert abs(controller.ask(context=0.2).value - 0.5) < 0.1
    baselines = hc.stationary(problem), hc.fixed_at(problem, 0.6)
    policies = [hc.recommended(problem, kernel=KERNEL, baseline=each) for each in baselines]
    finer = [hc.refine(each, past, loss=0.001) for each in policies]
    kept = [each.policy.made_by[1]["baseline"].made_by for each in finer]
    assert kept[0][0] == "stationary"
    assert finer[1].problem.n > problem.n
    assert finer[1].problem.value(kept[1][1]["setting_index"]) == pytest.approx(0.6)


def test_what_a_record_holds_is_refined(tmp_path):
    problem, log = hc.Problem(COARSE, scale=0.01), tmp_path / "valve.log"
    told = []
    with hc.Controller(hc.gp_md(problem, kernel=KERNEL), start=0.0, log=log) as controller:
        for t in range(12):
            decision = controller.ask(context=0.1 * t)
            applied = 2 if t == 3 else None
            if t == 4:
                controller.redirect(0.8)
            action = 2 if t == 3 else 4 if t == 4 else decision.action
            cost = float(valley(problem.actions[action], 0.0))
            controller.tell(decision.id, None if t == 5 else cost, applied_index=applied)
            told += [] if t in (5, 7) else [(action, 0.1 * t, cost)]
        controller.retract("r7", "the sensor was unplugged")
    found = hc.audit.history(log)
    assert list(zip(found.actions, found.contexts[:, 0], found.measurements, strict=True)) == told
    assert len(hc.refine(controller.policy, found).history) == 10


# -- the numbers -------------------------------------------------------------------------------------------------------


def test_differences_are_those_of_the_joint_posterior():
    problem = hc.Problem(COARSE)
    kernel = hc.Kernel(Matern(0.3, nu=2.5), RBF(0.5)) + COMMON
    past = measured(problem, valley, 25, noise=0.1)
    model = lower_bound(problem, {"kernel": kernel, "noise_std": 0.3, "prior_mean": 1.0, "history": past})
    finer, places = with_values(problem, 0, [0.1, 0.45, 0.5])
    compared = Belief.of(model, past, 1.0).compared(finer, places)
    everywhere = np.arange(finer.n)
    taken = places[past.actions]
    K = kernel.covariance(finer, taken, past.contexts) + 0.09 * np.eye(25)
    widening = _left_out(K, past.measurements - 1.0)
    for k, context in enumerate(past.contexts):
        at = np.repeat(context[None], finer.n, axis=0)
        cross = kernel.covariance(finer, everywhere, at, taken, past.contexts)
        mean = 1.0 + cross @ np.linalg.solve(K, past.measurements - 1.0)
        joint = kernel.covariance(finer, everywhere, at) - cross @ np.linalg.solve(K, cross.T)
        b = places[np.argmin(mean[places])]
        assert compared.best[k] == b
        assert compared.expected[k] == pytest.approx(mean, abs=1e-8)
        variance = np.diag(joint) + joint[b, b] - 2 * joint[b]
        assert compared.deviations[k] ** 2 == pytest.approx(widening**2 * variance, abs=1e-8)


def _left_out(K, y):
    """How far each measurement is from what the others say, in deviations: its root mean square, 1 at least."""
    off = []
    for i in range(len(y)):
        others = np.delete(np.arange(len(y)), i)
        weights = np.linalg.solve(K[np.ix_(others, others)], K[others, i])
        off.append((y[i] - weights @ y[others]) ** 2 / (K[i, i] - weights @ K[others, i]))
    return max(1.0, np.sqrt(np.mean(off)))


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("maximise", [False, True])
def test_expected_improvement_is_that_of_draws(log, maximise):
    past = hc.History([0], [0.0], [0.0])
    belief = Belief(KERNEL, 0.0, 0.01, past, log, 1.0, 10.0, 1.0, maximise)
    expected = np.array([[0.3, 0.1, 0.4, 0.6]])
    best = np.array([3 if maximise else 1])
    deviations = np.where(np.arange(4) == best[0], 0.0, np.array([0.2, 0.5, 0.1, 0.4]))[None]
    found = Comparison(belief, expected, best, deviations).improvement()[0]
    drawn = expected[0] + deviations[0] * np.random.default_rng(0).normal(size=(400_000, 1))
    drawn = np.exp(drawn) if log else drawn
    saved = drawn - drawn[:, best] if maximise else drawn[:, best] - drawn
    assert found == pytest.approx(np.maximum(saved, 0.0).mean(axis=0), abs=2e-3)


def test_the_gain_that_is_expected_is_the_one_that_comes():
    """On costs drawn from the kernel, measured at the coarse settings: what the belief's best settings really save."""
    kernel, problem, rng = hc.Kernel(RBF(0.2)), hc.Problem(COARSE), np.random.default_rng(3)
    actions, nothing = np.tile(np.arange(6), 4), np.zeros((24, 0))
    line = hc.Problem(np.linspace(0.0, 1.0, 201))
    drawn = rng.multivariate_normal(np.zeros(201), kernel.action_covariance(line), size=80, method="eigh")
    said, came = [], []
    for cost in drawn:
        read = cost[40 * actions] + 0.1 * rng.normal(size=24)
        found = hc.refine(hc.gp_md(problem, kernel=kernel), hc.History(actions, nothing, read))
        mean = found.policy.costs.estimate(None).mean
        before, after = found.places[np.argmin(mean[found.places])], np.argmin(mean)
        true = np.interp(found.problem.actions[:, 0], np.linspace(0.0, 1.0, 201), cost)
        said.append(found.gain)
        came.append(true[before] - true[after])
    off = np.subtract(came, said)
    assert np.mean(said) > 0.02
    assert abs(off.mean()) < 3 * off.std() / np.sqrt(len(off))


def test_costs_learned_as_logarithms_are_refined_too():
    problem = hc.Problem(COARSE, scale=0.001)
    past = measured(problem, lambda x, e: np.exp(valley(x, e) / 5.0), 60)
    found = hc.refine(hc.gp_md(problem), past, loss=0.001)
    assert lower_bound(problem, {"history": past}).posterior.log
    assert 0.4 < found.added[""].min() <= found.added[""].max() < 0.6
    assert found.gain == pytest.approx(np.exp(0.1) - 1.0, rel=0.3)


def test_length_scale_and_deviation_are_read_from_the_kernel():
    problem = hc.Problem(hc.grid(x=COARSE, mode=hc.knob(["a", "b", "c"], change=1.0), y=np.linspace(0.0, 50.0, 4)))
    past = hc.History([0, 1, 2], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0])
    kernel = hc.Kernel(RBF([0.3, 1.0, 1.0, 1.0, 4.0]), variance=9.0, action_scale=[1.0, 1.0, 1.0, 1.0, 2.0])
    model = lower_bound(problem, {"kernel": kernel + COMMON, "history": past})
    belief = Belief.of(model, past, 0.0)
    assert belief.along(problem, 0) == pytest.approx((0.3, 3.0), rel=0.01)
    assert belief.along(problem, 2) == pytest.approx((8.0, 3.0), rel=0.01)
    common = lower_bound(problem, {"kernel": COMMON, "history": past})
    assert Belief.of(common, past, 0.0).along(problem, 0) is None


# -- what is refused ---------------------------------------------------------------------------------------------------

LINE = hc.Problem(COARSE)
POLICY = hc.gp_md(LINE, kernel=KERNEL)
PAST = [(0, 0.1, 1.0), (1, 0.2, 2.0), (2, 0.3, 0.5)]


@pytest.mark.parametrize(
    ("policy", "past", "options", "words"),
    [
        (POLICY, [], {}, "nothing has been measured"),
        (POLICY, PAST, {"loss": 0.0}, "loss must be above 0"),
        (POLICY, PAST, {"rounds": -1}, "rounds must be above 0"),
        (POLICY, PAST, {"within": (0.5, 0.1)}, "lower one first"),
        (POLICY, PAST, {"within": 0.5}, "lower one first"),
        (POLICY, PAST, {"within": {"x": (0.0, 1.0)}}, "the axis has no name; give two numbers"),
        (POLICY, [(9, 0.1, 1.0)], {}, "belongs to action 9"),
        (hc.minc_known(LINE), PAST, {}, "cannot estimate the costs of other settings"),
        (hc.gp_md(LINE), PAST[:2], {}, "cannot be estimated from 2 measurements"),
        (hc.gp_md(LINE, kernel=hc.Kernel(np.eye(6))), PAST, {}, "as a matrix"),
        (hc.gp_md(LINE, kernel=KERNEL, prior_mean=np.ones(6)), PAST, {}, "a number for each setting"),
        (hc.gp_md(LINE, kernel=KERNEL, method="flat", context_bounds=(0, 1), forgetting=0.9), PAST, {}, "fade"),
        (
            hc.gp_md(hc.Problem([0, 1], labels=["a", "b"]), kernel=KERNEL),
            PAST[:2],
            {},
            "there are no settings between these",
        ),
        (
            hc.gp_md(hc.Problem(metric=[[0.0, 1.0], [1.0, 0.0]]), kernel=KERNEL),
            PAST[:2],
            {},
            "there are no settings between these",
        ),
        (hc.gp_md(hc.Problem(np.eye(3)), kernel=KERNEL), PAST, {}, "refining needs the axes"),
        (hc.gp_md(hc.Problem(hc.grid(a=hc.knob([1, 2, 3], per_step=1.0))), kernel=KERNEL), PAST, {}, "no axis"),
        (hc.gp_md(hc.Problem(hc.grid(a=COARSE)), kernel=KERNEL), PAST, {"within": (0, 1)}, "for each axis"),
    ],
)
def test_what_is_refused(policy, past, options, words):
    with pytest.raises(InvalidInput, match=words):
        hc.refine(policy, past, **options)


def test_more_settings_than_can_be_compared_are_refused():
    problem = hc.Problem(hc.grid(x=np.linspace(0.0, 1.0, 15), y=np.linspace(0.0, 1.0, 15)))
    with pytest.raises(TooLarge, match="within="):
        hc.refine(hc.gp_md(problem, kernel=hc.Kernel(RBF(0.01), RBF(1.0)), noise_std=0.0), PAST, loss=0.001)


def test_a_policy_that_cannot_be_made_again_says_so():
    policy = hc.gp_md(LINE, kernel=KERNEL, tree=hc.frt_tree(LINE, seed=0))
    found = hc.refine(policy, measured(LINE, valley), loss=0.001)
    assert len(found.added[""])
    with pytest.raises(InvalidInput, match=r"history=refinement\.history"):
        found.policy  # noqa: B018
