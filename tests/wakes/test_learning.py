"""Learning on top of the wake model: what it corrects, what it promises, and that it is the same after a restart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.testing import check_policy
from holdcourse.wakes.learning import LearnedEnergy, power_surplus, wake_learner, wakeless
from holdcourse.wakes.planning import PlanAhead, steering_problem, wake_planner


def told(model, rounds, contexts, factor, noise=0.02, seed=0):
    """Tell a model what its settings make where steering gives `factor` times what it believes."""
    random = np.random.default_rng(seed)
    for t in range(rounds):
        context = contexts[t % len(contexts)]
        action = int(random.integers(model.problem.n))
        # Private: the features of every setting are nobody else's concern.
        given, lost, *_ = model._read(model._expected_features, context)
        surplus = factor * given[action] - lost[action]
        model.learn(action, context, float(surplus + noise * random.standard_normal()))


@pytest.mark.parametrize("factor", [0.5, 1.5])
def test_what_steering_really_gives_is_learned(table, drift, winter, factor):
    model = LearnedEnergy(table, drift, steering_problem(table, 0.5))
    contexts = winter.rounds().contexts
    steered = [c for c in contexts if 150 <= c[0] <= 165 and c[1] > 5][:200]
    told(model, 6048, np.array(steered), factor)
    sectors, believed = model.correction()
    at = int(np.flatnonzero(sectors == 150.0)[0])
    assert believed[at] == pytest.approx(factor - 1.0, abs=0.15)
    assert abs(believed[0]) < 0.05  # nothing was seen of the north


def test_before_any_measurement_it_decides_as_the_planner(table, drift, winter):
    planner, learner = wake_planner(table, drift, 0.2), wake_learner(table, drift, 0.2)
    for context in winter.rounds().contexts[:50]:
        np.testing.assert_allclose(learner.costs.onward(context), planner.costs.onward(context), atol=1e-6)


def test_it_rests_where_the_promise_is_spent(table, drift, winter):
    model = LearnedEnergy(table, drift, steering_problem(table, 0.5), at_most=0.0005)
    contexts = winter.rounds().contexts
    steered = np.array([c for c in contexts if 150 <= c[0] <= 165 and c[1] > 5][:200])
    told(model, 1008, steered, -2.0)  # steering takes from others
    assert model.resting
    context = steered[0]
    assert int(np.argmin(model.onward(context))) == 0
    gained, doubt = model.gained()
    assert gained < 0 < doubt
    generous = LearnedEnergy(table, drift, steering_problem(table, 0.5), at_most=0.5)
    told(generous, 1008, steered, -2.0)
    assert not generous.resting


def test_a_resting_farm_comes_home_however_slowly_it_turns(table, drift, winter):
    """From every setting that can be reached at all, in moves of 5 degrees."""
    problem = steering_problem(table, 0.5)
    model = LearnedEnergy(table, drift, problem, longest=5.0, at_most=0.0005)
    contexts = winter.rounds().contexts
    told(model, 1008, np.array([c for c in contexts if 150 <= c[0] <= 165 and c[1] > 5][:200]), -2.0)
    assert model.resting
    rule, allowed = PlanAhead(problem, 5.0), np.ones(problem.n, dtype=bool)
    reached = {0}
    while more := {int(y) for x in reached for y in np.flatnonzero(np.isfinite(model.moves[x]))} - reached:
        reached |= more
    assert len(reached) > 10
    for begin in reached:
        state = rule.begin(begin, 0)
        for _ in range(problem.n):
            state = rule.step(state, hc.rules.View(np.zeros(0), contexts[0], allowed, model=model)).state
        assert state.action == 0, begin


def test_what_was_learned_survives_a_file(table, drift, winter, tmp_path):
    policy = wake_learner(table, drift, 0.2)
    contexts = winter.rounds().contexts
    controller = hc.Controller(policy, start_index=0)
    for context in contexts[:30]:
        decision = controller.ask(context.tolist())
        controller.tell(decision.id, 0.01)
    controller.save(tmp_path / "learner.state")
    again = hc.Controller.load(tmp_path / "learner.state", policy)
    for context in contexts[30:60]:
        one, two = controller.ask(context.tolist()), again.ask(context.tolist())
        assert one.action == two.action
        assert one.expected_cost == two.expected_cost
        controller.tell(one.id, -0.02)
        again.tell(two.id, -0.02)


def test_a_surplus_is_a_share_of_the_power_without_wakes(table):
    at = np.array([158.0])
    alone = table.power_at(at, [8.0], np.zeros(1, dtype=np.int64))
    free = float(np.interp(8.0, table.speeds, wakeless(table)))
    assert power_surplus(table, alone, at, [8.0])[0] == 0.0
    assert power_surplus(table, alone + 0.1 * free, at, [8.0])[0] == pytest.approx(0.1)
    assert power_surplus(table, 1.2 * alone, at, [8.0], reference=1.2)[0] == pytest.approx(0.0)
    assert np.isnan(power_surplus(table, [0.0], at, [1.0])[0])
    assert alone[0] < free


def test_what_is_no_measurement_is_refused_or_left_out(table, drift, winter):
    model = LearnedEnergy(table, drift, steering_problem(table, 0.5))
    context = winter.rounds().contexts[0]
    before = {name: array.copy() for name, array in model.state().items()}
    for bad in (np.nan, np.inf):
        with pytest.raises(InvalidInput, match="skip the round"):
            model.learn(0, context, bad)
    with pytest.raises(InvalidInput, match="three numbers"):
        model.learn(0, context[:2], 0.1)
    for name, array in model.state().items():
        np.testing.assert_array_equal(array, before[name])
    assert model.learn(0, context, 5.0) == 0.0  # five times the farm's power is no wake
    with pytest.raises(InvalidInput, match="share of the energy"):
        LearnedEnergy(table, drift, steering_problem(table, 0.5), at_most=-1.0)


@pytest.mark.parametrize("make", [wake_planner, wake_learner])
def test_they_are_policies_as_any(table, drift, winter, make):
    small = replace(table, n=5, lookup=np.minimum(table.lookup, 4))
    check_policy(lambda: make(small, drift, 0.3), winter.rounds().contexts[:14])
