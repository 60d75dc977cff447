"""The planning rule against a slow twin, and what it promises: limits, forecasts, bounded memory, resumption."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.bellman import SlowPlanner, backup
from sklearn.gaussian_process.kernels import RBF, Matern

import holdcourse as hc
from holdcourse._numeric import minplus
from holdcourse.deciding.pilot import Pilot
from holdcourse.deciding.planning.beliefs import (
    LEADS,
    SAME,
    Chain,
    Closeness,
    ForecastScores,
    correlation_lengths,
    read_forecast,
)
from holdcourse.deciding.planning.plan import Plan, Steps, planner, planner_known
from holdcourse.deciding.rules import View
from holdcourse.errors import InvalidInput, NoActionLeft
from holdcourse.movement import offline
from holdcourse.movement.steps import LongestStep

KERNEL = hc.Kernel(RBF(0.3), RBF(0.2))
LEARNING = {"kernel": KERNEL, "noise_std": 0.05, "prior_mean": 1.0}
SQUARE = hc.Problem([(x, y) for x in (0.0, 0.3, 0.7, 1.0) for y in (0.0, 0.4, 1.0)])
CLIMB = hc.Problem(np.arange(5.0), metric=lambda a, b: 3 * (b - a) if b > a else a - b, directed=True)


def world_of(seed, **options):
    return hc.SyntheticWorld.sample(**{"seed": seed, "grid": 5, "contexts": 6, "rho": 1.0, **options})


def learning_of(world):
    return {
        "kernel": world.kernel,
        "noise_std": world.noise_std,
        "prior_mean": world.prior_mean,
        "contexts": world.contexts,
    }


def fixed_view(costs, context=0.0, allowed=None, forecast=None):
    costs = np.asarray(costs, dtype=float)
    allowed = np.ones(len(costs), dtype=bool) if allowed is None else np.asarray(allowed)
    return View(np.where(allowed, costs, np.inf), context, allowed, forecast)


def played(rule, views, start=0):
    state, actions = rule.begin(start, 0), []
    for view in views:
        state = rule.step(state, view).state
        actions.append(state.action)
    return actions, state


# -- against the twin --------------------------------------------------------------------------------------------------


@pytest.mark.kernel
@pytest.mark.parametrize(
    "problem", [SQUARE, CLIMB, hc.Problem([0.0, 1.0, 3.0, 4.0])], ids=["square", "directed", "line"]
)
def test_a_backup_looks_forward_along_the_directed_costs(problem):
    going_on = np.random.default_rng(1).normal(size=(3, problem.n))
    backed = Steps(problem).backed_up(going_on)
    for row, values in zip(backed, going_on, strict=True):
        np.testing.assert_allclose(row, backup(values, problem.distances), rtol=0, atol=1e-12)


@pytest.mark.kernel
def test_a_backup_within_max_step():
    steps = Steps(SQUARE, LongestStep(SQUARE, cost=0.45))
    going_on = np.random.default_rng(2).normal(size=(2, SQUARE.n))
    near = np.where(SQUARE.distances <= 0.45, SQUARE.distances, np.inf)
    for row, values in zip(steps.backed_up(going_on), going_on, strict=True):
        np.testing.assert_allclose(row, backup(values, near), rtol=0, atol=1e-12)


@pytest.mark.kernel
def test_transition_probabilities_by_hand():
    counts, lent = np.array([[0.0, 3.0], [1.0, 0.0]]), np.array([[1.0, 0.5], [0.5, 1.0]])
    found = minplus.transition_probabilities(counts, lent, 1.0)
    np.testing.assert_allclose(found, [[1.5 / 4.5, 3 / 4.5], [1 / 3.5, 2.5 / 3.5]])


@pytest.mark.kernel
def test_grid_backup_equals_the_matrix_one():
    problem = hc.Problem([(x, y) for x in range(3) for y in range(4)], metric="cityblock", fixed_cost=0.5)
    grid, into = offline.GridMoves.find(problem), problem.distances
    going_on = np.random.default_rng(3).random((2, problem.n))
    one, other = np.empty_like(going_on), np.empty_like(going_on)
    minplus.backup_grid(going_on, grid.order, grid.shape, grid.gaps, grid.fixed_cost, one)
    minplus.backup_matrix(going_on, into, minplus.nearest_move(into), True, other)
    np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("process", ["iid", "walk", "alternating"])
@pytest.mark.parametrize("shared", [True, False])
def test_decides_as_the_slow_twin(process, shared):
    world = world_of(3)
    policy = planner(world.problem, width=1.5, **learning_of(world))
    policy = replace(policy, rule=replace(policy.rule, asked=64, shared=shared, closeness=Closeness.of(0.2)))
    pilot = Pilot(policy, 7, 0)

    def believe(context):
        low = pilot.model.costs_at([context])[0]
        expected = pilot.model.costs_at_optimism([context], 0.0)[0]
        return (expected, expected - low) if shared else (low, 0 * low)

    twin = SlowPlanner(world.problem.distances, 7, believe, scale=0.2, shared=shared)
    for t, context in enumerate(world.context_sequence(process, 25, seed=2)[:, 0].tolist()):
        _, view = pilot.look(context)
        choice = pilot.decide(view)
        expected, total = twin.step(context)
        # Rounding may break a tie differently; a worse action may not be chosen.
        assert total[choice.action] <= total[expected] + 1e-9 * np.abs(total).max()
        twin.action = choice.action
        pilot.accept(choice)
        pilot.learn(choice.action, context, world.measure(t, context, choice.action, 0.1))


def test_known_costs_decide_as_the_slow_twin():
    world = world_of(4)
    rule = replace(planner_known(world.problem).rule, closeness=Closeness.of(0.2))
    state = rule.begin(3, 0)
    twin = SlowPlanner(world.problem.distances, 3, lambda e: (world.costs(0, e), np.zeros(25)), scale=0.2, shared=False)
    for context in world.context_sequence("blocks", 60, seed=1)[:, 0].tolist():
        state = rule.step(state, fixed_view(world.costs(0, context), context)).state
        expected, total = twin.step(context)
        assert total[state.action] <= total[expected] + 1e-9
        twin.action = state.action


# -- plans that can be told by hand ------------------------------------------------------------------------------------


def test_moves_when_it_pays_over_the_rounds_to_come_and_not_for_one_round():
    rule = planner_known(hc.Problem([0.0, 5.0])).rule
    views = [fixed_view([1.0, 0.0])] * 60
    actions, _ = played(rule, views)
    assert actions[-1] == 1  # 1 a round for ever is worth a move of 5
    short = [fixed_view([0.0, 1.0], 0.0)] * 40 + [fixed_view([1.0, 0.0], 1.0), *[fixed_view([0.0, 1.0], 0.0)] * 3] * 10
    actions, _ = played(rule, short)
    assert set(actions) == {0}  # a pulse of one round is not


def test_a_forbidden_action_is_not_waited_for():
    rule = planner_known(hc.Problem([0.0, 1.0, 2.0, 3.0])).rule
    costs, mask = [5.0, 1.0, 5.0, 0.0], [True, True, True, False]
    actions, _ = played(rule, [fixed_view(costs, allowed=mask)] * 30)
    assert 3 not in actions
    assert actions[-5:] == [1] * 5  # the best that is left, not the neighbour of the forbidden one


def test_max_step_is_kept_and_planned_with():
    rule = planner_known(hc.Problem(np.arange(6.0)), max_step=1.5).rule
    actions, _ = played(rule, [fixed_view([3.0, 3.0, 3.0, 3.0, 3.0, 0.0])] * 12)
    assert np.abs(np.diff([0, *actions])).max() <= 1
    assert actions[-1] == 5
    state = rule.begin(0, 0)
    with pytest.raises(NoActionLeft, match=r"max_step \(1\.5, which costs 1\.5\) of 0;"):
        rule.step(state, fixed_view(np.zeros(6), allowed=[False] * 5 + [True]))


def test_directed_costs_are_paid_in_their_direction():
    rule = planner_known(CLIMB).rule
    # Down from 4 costs 4, up from 0 costs 12; what staying costs is the same.
    down, _ = played(rule, [fixed_view([0.0, 1.0, 1.0, 1.0, 0.4])] * 25, start=4)
    up, _ = played(rule, [fixed_view([0.4, 1.0, 1.0, 1.0, 0.0])] * 25, start=0)
    assert down[-1] == 0
    assert up[-1] == 0


def test_one_action_and_no_context():
    policy = planner_known(hc.Problem([1.0]))
    actions, _ = played(policy.rule, [fixed_view([2.0], None)] * 3)
    assert actions == [0, 0, 0]
    pilot = Pilot(planner(hc.Problem([0.0, 1.0]), kernel=hc.Kernel(RBF(0.5)), noise_std=0.1), 0, 0)
    for _ in range(3):
        _, view = pilot.look(None)
        pilot.accept(pilot.decide(view))
        pilot.learn(pilot.state.action, None, 1.0)


def test_models_may_forbid_actions():
    costs = hc.costs.KnownCosts(SQUARE, lambda e: np.where(np.arange(SQUARE.n) == 2, np.inf, 1.0 + 0 * e[0]))
    pilot = Pilot(hc.Policy("p", Plan(SQUARE, shared=False), costs, SQUARE), 0, 0)
    for context in (0.1, 0.9, 0.5):
        _, view = pilot.look(context)
        choice = pilot.decide(view)
        assert choice.action != 2
        assert np.isfinite(choice.state.arrays["values"]).all()
        pilot.accept(choice)


# -- contexts ----------------------------------------------------------------------------------------------------------


def test_representatives_are_bounded_and_spread():
    chain, closeness, rng = Chain.empty(2), Closeness.of(0.2), np.random.default_rng(0)
    for _ in range(400):
        before, seen = chain, chain.extended(rng.random(2), closeness, 16)
        chain = seen.chain
        assert len(chain) <= 16
        changed = len(chain) - len(before) + int((chain.points[: len(before)] != before.points).any(axis=1).sum())
        assert changed <= 1
        assert seen.new == (changed == 1)
    assert chain.visits.sum() == 400
    assert chain.counts.sum() == 399
    apart = closeness.distances(chain.points, chain.points, chain.points) + 10 * np.eye(16)
    assert apart.min() > 0.5  # 16 points in the unit square can be 0.25 = 1.25 lengths apart at most


def test_close_contexts_share_a_representative_and_periodic_axes_wrap():
    closeness = Closeness.of(2.0, 24.0)
    chain = Chain.empty(1)
    for hour in (23.99, 0.0, 12.0, 24.01):
        chain = chain.extended(np.array([hour]), closeness, 64).chain
    assert len(chain) == 2
    np.testing.assert_allclose(closeness.distances(np.array([[23.0]]), np.array([[1.0]]), chain.points), 1.0)
    assert SAME * 2.0 > 0.02
    mixed = Closeness.of(None, [None, 360.0])
    points = np.array([[0.0, 350.0], [10.0, 10.0]])
    np.testing.assert_allclose(mixed.distances(points[:1], points[1:], points), np.hypot(10 / 2, 20 / 36))


@pytest.mark.kernel
def test_distances_are_those_of_the_definition_to_the_last_bit():
    rng = np.random.default_rng(0)
    points, others = 50 * rng.normal(size=(5, 3)), 50 * rng.normal(size=(7, 3))
    spans = [np.ptp(points[:, 0]), 12.0, np.ptp(points[:, 2])]
    total = np.zeros((5, 7))
    for axis, (span, period) in enumerate(zip(spans, (None, 24.0, None), strict=True)):
        way = points[:, axis, None] - others[None, :, axis]
        if period is not None:
            way = way - period * np.round(way / period)
        total += (way / (0.2 * span)) ** 2
    found = Closeness.of(period=[None, 24.0, None]).distances(points, others, points)
    np.testing.assert_array_equal(found, np.sqrt(total))


def test_a_new_context_takes_over_the_plan_of_the_nearest():
    rule = planner_known(hc.Problem([0.0, 1.0]), context_scale=0.2).rule
    _, state = played(rule, [fixed_view([1.0, 0.0], c) for c in (0.0, 1.0, 0.0, 1.0)])
    grown = rule.step(state, fixed_view([1.0, 0.0], 0.9)).state.arrays["contexts"]
    np.testing.assert_array_equal(grown[:, 0], [0.0, 1.0, 0.9])


def test_a_context_of_another_length_is_refused():
    rule = planner_known(hc.Problem([0.0, 1.0])).rule
    _, state = played(rule, [fixed_view([1.0, 0.0], [0.1, 0.2])])
    with pytest.raises(InvalidInput, match="2 numbers"):
        rule.step(state, fixed_view([1.0, 0.0], 0.1))
    with pytest.raises(InvalidInput, match="period must have one entry, or 2, one for each number of a context, got 3"):
        played(replace(rule, closeness=Closeness.of(None, (1.0, 2.0, 3.0))), [fixed_view([1.0, 0.0], [0.1, 0.2])])


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (KERNEL, [0.2]),
        (hc.Kernel(RBF(0.3), RBF([0.5, 4.0])), [0.5, 4.0]),
        (hc.Kernel(RBF(0.3), RBF(2.0), context_scale=3.0), [6.0]),
        (hc.Kernel(RBF(0.3)), None),
    ],
)
def test_correlation_lengths_of_a_kernel(kernel, expected):
    found = correlation_lengths(kernel)
    assert found == (None if expected is None else pytest.approx(expected, rel=0.02))


def test_a_rough_kernel_has_a_correlation_length_too():
    (length,) = correlation_lengths(hc.Kernel(RBF(0.3), Matern(1.0, nu=0.5)))
    assert length == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 0}, "capacity must be a whole number, 1 or more"),
        ({"discount": 1.0}, "discount must lie between 0 and 1"),
        ({"max_step": -1.0}, "max_step must be 0 or more"),
        ({"forecasts": "hope"}, "forecasts 'hope' is not known"),
        ({"context_scale": -1.0}, "context_scale must be positive"),
        ({"period": 0.0}, "period must be positive"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(InvalidInput, match=message):
        planner_known(SQUARE, **options)


# -- forecasts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("forecast", "message"),
    [
        ([[0.1, 0.2, 0.3]], "must have 1 number per round"),
        ([0.1, np.nan], "row 1 is"),
        ([[0.1, 0.5], [0.2, 1.5]], "confidence must lie between 0 and 1, but that of forecast row 1 is 1.5"),
        ("tomorrow", "forecast must be numbers, got .tomorrow."),
    ],
)
def test_wrong_forecasts_are_refused(forecast, message):
    rule = planner_known(hc.Problem([0.0, 1.0])).rule
    with pytest.raises(InvalidInput, match=message):
        rule.step(rule.begin(0, 0), fixed_view([0.0, 1.0], 0.3, forecast=forecast))


def test_forecasts_of_any_length_are_read():
    assert read_forecast(None, 2)[0].shape == (0, 2)
    assert read_forecast([], 2)[0].shape == (0, 2)
    assert len(read_forecast(np.zeros(100), 1)[0]) == LEADS
    contexts, confidence = read_forecast([[0.1, 0.5], [0.2, 1.0]], 1)
    np.testing.assert_array_equal(contexts, [[0.1], [0.2]])
    np.testing.assert_array_equal(confidence, [0.5, 1.0])


def test_a_forecast_is_acted_on_before_it_comes():
    calm, storm = ([0.0, 0.3], 0.0), ([3.0, 0.0], 1.0)
    rule = planner_known(hc.Problem([0.0, 1.0]), forecasts="trust", context_scale=0.2).rule
    _, state = played(rule, [fixed_view(*calm)] * 40 + [fixed_view(*storm), fixed_view(*calm)])
    away = replace(state, action=1)

    def decided(forecast, mode="trust"):
        return replace(rule, forecasts=mode).step(away, fixed_view(*calm, forecast=forecast)).action

    def with_confidence(share):
        return np.column_stack([np.ones(8), np.full(8, share)])

    assert decided(None) == 0  # calm lasts, so 0.3 a round is worth the way back
    assert decided(np.ones(8)) == 1  # the storm is coming: wait where it is cheap
    assert decided(with_confidence(1.0)) == 1
    assert decided(with_confidence(0.0)) == 0
    assert decided(np.ones(8), "ignore") == 0
    assert decided([1.0]) == 1  # one round ahead is enough
    assert decided(np.zeros(8)) == 0


def test_no_confidence_is_no_forecast():
    world = world_of(5)
    rule = planner_known(world.problem, forecasts="trust").rule
    sequence = world.context_sequence("iid", 40, seed=1)
    state = rule.begin(0, 0)
    for t, context in enumerate(sequence):
        plain = fixed_view(world.costs(t, context), context)
        doubted = replace(plain, forecast=np.column_stack([sequence[t + 1 :], np.zeros(39 - t)]) if t < 39 else None)
        one, other = rule.step(state, plain), rule.step(state, doubted)
        assert one.action == other.action
        state = one.state


@pytest.mark.parametrize(("kind", "low", "high"), [("true", 0.8, 1.0), ("shuffled", 0.0, 0.15)])
@pytest.mark.parametrize("process", ["iid", "walk"])
def test_trust_is_won_and_lost(kind, low, high, process):
    world = world_of(6, contexts=20)
    rule = planner_known(world.problem).rule
    sequence = world.context_sequence(process, 150, seed=4)
    said = sequence if kind == "true" else np.random.default_rng(0).permutation(sequence)
    state = rule.begin(0, 0)
    for t, context in enumerate(sequence):
        state = rule.step(state, fixed_view(world.costs(t, context), context, forecast=said[t + 1 : t + 9])).state
    arrays = state.arrays
    trust = ForecastScores(arrays["forecasts"], arrays["past"], arrays["closeness"]).trust()[1:8].mean()
    assert low <= trust <= high


def test_the_record_compares_what_was_said_with_what_came():
    record = ForecastScores.empty(1)
    for t in range(5):
        context = np.array([float(t)])
        record = record.checked(context, lambda said, now=t: (said[:, 0] == now).astype(float), lambda: np.zeros(LEADS))
        record = record.told(np.array([[t + 1.0], [t + 5.0]]))  # right one round ahead, wrong two ahead
    np.testing.assert_allclose(record.closeness[0, 1], record.closeness[0, 0])
    assert record.closeness[0, 0] > 3.8
    assert record.closeness[1, 1] == 0.0
    assert (record.closeness[2:] == 0).all()
    assert record.trust()[0] > record.trust()[2] > record.trust()[1]


# -- policies ----------------------------------------------------------------------------------------------------------

LINE = hc.Problem(np.linspace(0.0, 1.0, 9))
POLICIES = {
    "exact": lambda: planner(LINE, **LEARNING),
    "flat": lambda: planner(LINE, **LEARNING, context_bounds=(0, 2)),
    "auto": lambda: planner(LINE),
    "few representatives": lambda: planner(LINE, **LEARNING, capacity=5),
    "cyclic": lambda: planner(LINE, **LEARNING, period=1.5),
    "by episode": lambda: planner(LINE, **LEARNING, every="episode", maximise=True),
    "theory": lambda: planner(LINE, **LEARNING, width=hc.TheoryWidth(1.0)),
    "few asked": lambda: (lambda p: replace(p, rule=replace(p.rule, asked=2)))(planner(LINE, **LEARNING)),
    "known": lambda: planner_known(LINE),
    "known, directed": lambda: planner_known(CLIMB),
}


@pytest.mark.parametrize("name", POLICIES)
def test_planners_pass_the_conformance_check(name):
    hc.testing.check_policy(POLICIES[name], np.linspace(0.0, 2.0, 30), start=4, seed=3)


def test_vector_contexts():
    policy = planner(LINE, kernel=hc.Kernel(RBF(0.3), RBF([0.5, 2.0])), noise_std=0.1)
    assert policy.rule.closeness.scale == pytest.approx((0.5, 2.0), rel=0.02)
    hc.testing.check_policy(
        lambda: planner(LINE, kernel=hc.Kernel(RBF(0.3), RBF([0.5, 2.0])), noise_std=0.1),
        np.random.default_rng(0).random((30, 2)),
    )


def test_forecasts_go_through_a_controller():
    controller = hc.Controller(planner(LINE, **LEARNING), start_index=0)
    for t in range(20):
        context = t % 4 / 4
        decision = controller.ask(context, forecast=[(t + i) % 4 / 4 for i in (1, 2, 3)])
        controller.tell(decision.id, abs(decision.action / 8 - context))
    with pytest.raises(InvalidInput, match="per round, like the context"):
        controller.ask(0.5, forecast=[[1.0, 2.0, 3.0]])


def test_the_state_does_not_grow():
    pilot = Pilot(planner(LINE, **LEARNING, context_bounds=(0, 1), capacity=8), 0, 0)
    rng, sizes = np.random.default_rng(0), []
    for _ in range(60):
        context = rng.random()
        _, view = pilot.look(context)
        pilot.accept(pilot.decide(view))
        pilot.learn(pilot.state.action, context, rng.random())
        sizes.append(sum(array.nbytes for array in pilot.state.arrays.values()))
    assert sizes[20] == sizes[-1]


def test_resuming_elsewhere_keeps_what_was_learned():
    rule = planner_known(LINE).rule
    _, state = played(rule, [fixed_view(np.arange(9.0), c) for c in (0.1, 0.2, 0.3)])
    moved = rule.resume(state, 5)
    assert moved.action == 5
    assert moved.arrays is state.arrays
    assert moved.round == 3


def test_width_is_ours_unless_given():
    assert planner(LINE, **LEARNING).costs.width == 1.75
    assert planner(LINE, **LEARNING, width=0.5).costs.width == 0.5


def test_time_is_no_context_to_return_to():
    kernel = hc.Kernel(RBF(0.3), Matern(5.0, nu=1.5))
    with pytest.raises(InvalidInput, match="time never does"):
        planner(LINE, kernel=kernel, noise_std=0.1, method="temporal")


def test_continuous_contexts_of_several_numbers_and_a_fitted_kernel():
    """Nothing declared, nothing repeats: representatives are merged, and the plan goes on."""
    pilot, rng = Pilot(planner(LINE, capacity=12), 0, 0), np.random.default_rng(0)
    for _ in range(40):
        context = rng.random(3)
        _, view = pilot.look(context)
        pilot.accept(pilot.decide(view))
        pilot.learn(pilot.state.action, context, float(abs(context[0] - pilot.state.action / 8)))
    assert len(pilot.state.arrays["contexts"]) == 12
    assert np.isfinite(pilot.state.arrays["values"]).all()


def test_planning_beats_gp_md_and_known_costs_beat_both():
    """A small count of what tests/slow/test_planner_bars.py measures in full."""
    ratios = {"planner": [], "known": [], "gp_md": []}
    for seed in (1, 2, 3):
        world = world_of(seed, grid=8, contexts=10)
        contexts = world.context_sequence("iid", 150, seed=seed)
        policies = {
            "planner": planner(world.problem, **learning_of(world)),
            "known": planner_known(world.problem),
            "gp_md": hc.gp_md(world.problem, **learning_of(world)),
        }
        for name, policy in policies.items():
            ratios[name].append(hc.ratio_to_optimum(hc.simulate(policy, world, contexts, start=9, seed=seed)))
    means = {name: np.mean(values) for name, values in ratios.items()}
    assert means["known"] < means["planner"] < means["gp_md"]
    assert means["known"] < 1.12
