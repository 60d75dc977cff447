"""What holds for every plan: masks, steps, resumption, scale, bounded representatives."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from oracles.bellman import backup

import holdcourse as hc
from holdcourse.deciding.planning.beliefs import Chain, Closeness
from holdcourse.deciding.planning.plan import Steps, planner_known
from holdcourse.deciding.rules import RuleState, View

SEEDS = st.integers(0, 2**32 - 1)


def problem_of(rng, directed=False):
    n = int(rng.integers(1, 8))
    points = rng.permutation(50)[:n] / 10.0
    if directed and n > 1:
        up, down = rng.random(2) + 0.1
        return hc.Problem(points, metric=lambda a, b: up * (b - a) if b > a else down * (a - b), directed=True)
    return hc.Problem(points, fixed_cost=float(rng.integers(2)) / 4)


def views_of(rng, problem, rounds, masks=True):
    contexts = rng.random(5)
    table = rng.normal(size=(5, problem.n))
    for _ in range(rounds):
        which = int(rng.integers(5))
        allowed = rng.random(problem.n) < (0.7 if masks else 1.0)
        allowed[rng.integers(problem.n)] = True
        forecast = contexts[rng.integers(5, size=rng.integers(4))] if rng.random() < 0.5 else None
        costs = np.where(allowed, table[which], np.inf)
        yield View(costs, float(contexts[which]), allowed, forecast)


@given(SEEDS, st.booleans())
def test_masks_are_kept_and_values_stay_finite(seed, directed):
    rng = np.random.default_rng(seed)
    problem = problem_of(rng, directed)
    rule = planner_known(problem, capacity=int(rng.integers(1, 6))).rule
    state = rule.begin(int(rng.integers(problem.n)), 0)
    for view in views_of(rng, problem, 15):
        choice = rule.step(state, view)
        assert view.allowed[choice.action]
        assert choice.probabilities.sum() == 1.0
        assert all(np.isfinite(choice.state.arrays[name]).all() for name in ("values", "expected", "counts"))
        assert choice.state.arrays["values"].min() >= 0
        state = choice.state


@given(SEEDS)
def test_a_step_changes_nothing_it_was_given(seed):
    rng = np.random.default_rng(seed)
    problem = problem_of(rng)
    rule = planner_known(problem, capacity=3).rule
    state = rule.begin(0, 0)
    for view in views_of(rng, problem, 8):
        before = {name: array.copy() for name, array in state.arrays.items()}
        choice, again = rule.step(state, view), rule.step(state, view)
        assert choice.action == again.action
        for name, array in before.items():
            np.testing.assert_array_equal(array, state.arrays[name])
        copied = RuleState(state.action, state.round, state.seed, before)
        resumed = rule.step(copied, view)
        for name, array in choice.state.arrays.items():
            np.testing.assert_array_equal(array, resumed.state.arrays[name])
        state = choice.state


@given(SEEDS, st.sampled_from([0.5, 4.0, 1024.0]))
def test_costs_and_distances_in_another_unit_give_the_same_actions(seed, unit):
    rng = np.random.default_rng(seed)
    points = rng.permutation(50)[: int(rng.integers(2, 8))] / 10.0
    one, other = hc.Problem(points), hc.Problem(points, scale=unit)
    views = list(views_of(rng, one, 12))
    states = [planner_known(problem).rule.begin(0, 0) for problem in (one, other)]
    for view in views:
        scaled = View(view.costs * unit, view.context, view.allowed, view.forecast)
        states = [
            planner_known(problem).rule.step(state, shown).state
            for problem, state, shown in zip((one, other), states, (view, scaled), strict=True)
        ]
        assert states[0].action == states[1].action


@given(SEEDS)
def test_max_step_is_kept(seed):
    rng = np.random.default_rng(seed)
    problem = problem_of(rng)
    longest = float(rng.random() * 3)
    rule = planner_known(problem, max_step_cost=longest).rule
    state = rule.begin(int(rng.integers(problem.n)), 0)
    for view in views_of(rng, problem, 10, masks=False):
        after = rule.step(state, view).state
        assert problem.distance(state.action, after.action) <= longest
        state = after


@given(SEEDS, st.booleans())
def test_backups_equal_the_definition(seed, directed):
    rng = np.random.default_rng(seed)
    problem = problem_of(rng, directed)
    going_on = rng.normal(size=(2, problem.n)) * 10.0 ** rng.integers(-3, 4)
    for row, values in zip(Steps(problem).backed_up(going_on), going_on, strict=True):
        np.testing.assert_allclose(row, backup(values, problem.distances), rtol=1e-12, atol=1e-12)


@given(SEEDS, st.integers(1, 8), st.integers(1, 3))
def test_representatives_stay_bounded_and_count_every_round(seed, capacity, dimension):
    rng = np.random.default_rng(seed)
    closeness = Closeness.of(None if rng.random() < 0.5 else 0.3, None if rng.random() < 0.5 else 1.0)
    chain = Chain.empty(dimension)
    for t in range(30):
        context = rng.random(dimension) if rng.random() < 0.7 else np.full(dimension, 0.5)
        seen = chain.extended(context, closeness, capacity)
        chain = seen.chain
        assert len(chain) <= capacity
        assert chain.visits.sum() == t + 1
        assert chain.counts.sum() == t
        assert 0 <= chain.here < len(chain)
        apart = closeness.distances(chain.points, chain.points, chain.points)
        chances = chain.transitions(apart, 1.0)
        np.testing.assert_allclose(chances.sum(axis=1), 1.0)
        assert (chances >= 0).all()
