"""Rules: each against its definition, at ties and infinite costs, and as pure functions."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.spaces import problems, random_problem
from hypothesis import given
from hypothesis import strategies as st
from oracles.paths import work_function_path

import holdcourse as hc
from holdcourse.deciding import rules
from holdcourse.deciding.rules import Greedy, MirrorDescent, Proximal, RuleState, Stay, View, WorkFunction
from holdcourse.errors import InvalidInput

LINE = hc.Problem([0.0, 1.0, 2.0, 4.0, 8.0])
TREE = hc.frt_tree(LINE, seed=1)


def view(costs, allowed=None):
    """The view of a round, as a pilot would make it."""
    costs = np.array(costs, dtype=float)
    if allowed is not None:
        costs = np.where(allowed, costs, np.inf)
    return View(costs, None, np.isfinite(costs))


def all_rules(problem=LINE):
    tree = hc.frt_tree(problem, seed=1)
    return [
        MirrorDescent(problem, tree, kappa=2.0),
        Greedy(problem),
        Stay(problem),
        Stay(problem, home=problem.n - 1),
        Proximal(problem, 0.5),
        WorkFunction(problem),
    ]


def by_name(rule):
    return type(rule).__name__


@pytest.mark.parametrize("rule", all_rules(), ids=by_name)
def test_begin_remembers_place_round_and_seed(rule):
    state = rule.begin(np.int64(2), seed=9, round=5)
    assert (state.action, state.round, state.seed) == (2, 5, 9)
    assert type(state.action) is int
    assert rule.problem is LINE


@pytest.mark.parametrize("rule", all_rules(), ids=by_name)
def test_a_step_can_be_taken_again(rule):
    random = np.random.default_rng(3)
    state = rule.begin(1, seed=4)
    for _ in range(10):
        seen = view(random.normal(size=5), random.random(5) < 0.7 if random.random() < 0.5 else None)
        if not seen.allowed.any():
            continue
        kept = {name: array.copy() for name, array in state.arrays.items()}
        shown = seen.costs.copy()
        one, two = rule.step(state, seen), rule.step(state, seen)
        assert one.action == two.action
        assert type(one.action) is int
        np.testing.assert_array_equal(one.probabilities, two.probabilities)
        np.testing.assert_array_equal(seen.costs, shown)
        for name, array in kept.items():
            np.testing.assert_array_equal(state.arrays[name], array)
            np.testing.assert_array_equal(one.state.arrays[name], two.state.arrays[name])
        assert one.state.round == state.round + 1
        assert one.state.seed == 4
        state = one.state


@pytest.mark.parametrize("rule", all_rules(), ids=by_name)
def test_probabilities_are_a_distribution_over_what_is_allowed(rule):
    random = np.random.default_rng(5)
    state = rule.begin(0, seed=0)
    for _ in range(60):
        allowed = random.random(5) < 0.5
        allowed[random.integers(5)] = True
        choice = rule.step(state, view(random.exponential(2.0, 5), allowed))
        assert allowed[choice.action]
        assert choice.probabilities[choice.action] > 0
        assert choice.probabilities.min() >= 0
        assert choice.probabilities.sum() == pytest.approx(1.0, abs=1e-12)
        assert choice.probabilities[~allowed].max(initial=0.0) == 0.0
        state = choice.state


@pytest.mark.parametrize("rule", all_rules(), ids=by_name)
def test_description_is_plain_and_equal_for_equals(rule):
    again = next(other for other in all_rules() if by_name(other) == by_name(rule) and same_home(other, rule))
    assert rule.describe() == again.describe()
    assert rule.describe()["rule"] == by_name(rule)


def same_home(one, other):
    return getattr(one, "home", None) == getattr(other, "home", None)


def test_uniform_is_the_rounds_own_number():
    state = RuleState(0, round=17, seed=5, arrays={})
    assert state.uniform() == rules.uniform(5, 17)
    assert state.uniform() == np.random.Generator(np.random.Philox(key=5, counter=[0, 17, 0, 0])).random()


def test_mirror_descent_is_descent_and_coupling():
    rule = MirrorDescent(LINE, TREE, kappa=1.5)
    random = np.random.default_rng(0)
    q, action = hc.mirror.start(TREE, 3), 3
    state = rule.begin(3, seed=11, round=2)
    for t in range(2, 40):
        costs = random.exponential(1.0, 5)
        if t % 5 == 0:
            costs[random.integers(5)] = np.inf
        choice = rule.step(state, view(costs))
        after = hc.mirror.descend(TREE, q, costs, 1.5)
        p, p_next = (hc.mirror.leaf_probabilities(TREE, x) for x in (q, after))
        action = hc.coupling.sample(TREE, p, p_next, action, rules.uniform(11, t))
        assert choice.action == action
        np.testing.assert_array_equal(choice.probabilities, p_next)
        np.testing.assert_array_equal(choice.state.arrays["q"], after)
        q, state = after, choice.state


def test_mirror_descent_draws_what_it_says():
    """Many runs that differ in the seed only: how often each action is drawn must fit the probabilities."""
    rule = MirrorDescent(LINE, TREE)
    rounds = [view(row) for row in np.random.default_rng(1).exponential(2.0, (4, 5))]
    counts, p = np.zeros(5), None
    for seed in range(4000):
        state = rule.begin(0, seed)
        for seen in rounds:
            choice = rule.step(state, seen)
            state = choice.state
        counts[choice.action] += 1
        p = choice.probabilities
    deviations = np.abs(counts / 4000 - p) / np.sqrt(np.maximum(p * (1 - p), 1e-4) / 4000)
    assert deviations.max() < 4.5


def test_mirror_descent_is_described_by_its_tree():
    other = hc.frt_tree(LINE, seed=2)
    assert MirrorDescent(LINE, TREE).describe() != MirrorDescent(LINE, other).describe()
    assert MirrorDescent(LINE, TREE, 1).describe() == MirrorDescent(LINE, TREE, 1.0).describe()


def test_greedy_takes_the_cheapest_and_the_first_of_equals():
    rule = Greedy(LINE)
    state = rule.begin(4, seed=0)
    assert rule.step(state, view([3, 1, 2, 5, 4])).action == 1
    assert rule.step(state, view([3, 1, 2, 1, 1])).action == 1
    assert rule.step(state, view([np.inf, np.inf, 2, np.inf, 7])).action == 2


def test_stay_holds_its_place_and_comes_back():
    rule = Stay(LINE)
    state = rule.begin(2, seed=0)
    choice = rule.step(state, view([0, 0, 9, 0, 0]))
    assert choice.action == 2
    choice = rule.step(choice.state, view(np.zeros(5), [True, False, False, True, True]))
    assert choice.action == 0  # actions 0 and 3 are equally near
    choice = rule.step(choice.state, view(np.zeros(5), [True, False, False, True, True]))
    assert choice.action == 0
    assert rule.step(choice.state, view(np.zeros(5))).action == 2


def test_stay_keeps_the_nearest_it_is_at_on_a_tie():
    rule = Stay(LINE)
    state = rule.step(rule.begin(2, seed=0), view(np.zeros(5), [False, False, False, True, True])).state
    assert state.action == 3
    assert rule.step(state, view(np.zeros(5), [True, False, False, True, True])).action == 3


def test_stay_leaves_an_action_of_infinite_cost():
    rule = Stay(LINE)
    assert rule.step(rule.begin(2, seed=0), view([1, 1, np.inf, 1, 1])).action == 1


def test_stay_at_a_given_home_goes_there_from_anywhere():
    rule = Stay(LINE, home=4)
    assert rule.step(rule.begin(0, seed=0), view(np.zeros(5))).action == 4
    assert rule.step(rule.begin(1, seed=0, round=7), view(np.zeros(5))).action == 4


def test_stay_begun_again_holds_the_new_place():
    rule = Stay(LINE)
    state = rule.begin(1, seed=0)
    state = rule.begin(3, state.seed, state.round)
    assert rule.step(state, view([0, 0, 0, 9, 0])).action == 3


@given(problems(max_actions=9, scales=(1.0,)), st.floats(0, 3), st.integers(0, 2**16))
def test_proximal_minimises_cost_plus_weighted_way(problem, weight, seed):
    random = np.random.default_rng(seed)
    rule = Proximal(problem, weight)
    state = rule.begin(int(random.integers(problem.n)), seed=0)
    for _ in range(4):
        costs = random.integers(0, 4, problem.n).astype(float)
        costs[random.random(problem.n) < 0.3] = np.inf
        if np.isinf(costs).all():
            continue
        choice = rule.step(state, view(costs))
        sums = [costs[x] + weight * problem.distances[state.action][x] for x in range(problem.n)]
        best = [x for x in range(problem.n) if sums[x] == min(sums)]
        assert choice.action == (state.action if state.action in best else best[0])
        state = choice.state


def test_proximal_without_weight_is_greedy_but_for_ties():
    costs = [3, 1, 2, 1, 1]
    assert Proximal(LINE, 0).step(Proximal(LINE, 0).begin(3, 0), view(costs)).action == 3
    assert Proximal(LINE, 0).describe() == Proximal(LINE, 0.0).describe()


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_proximal_refuses_a_wrong_weight(weight):
    with pytest.raises(InvalidInput, match="weight must be 0 or more"):
        Proximal(LINE, weight)


@pytest.mark.parametrize("kind", ["line", "plane", "matrix", "uniform"])
def test_work_function_equals_the_offline_one(kind):
    random = np.random.default_rng(7)
    problem = random_problem(kind, 7, seed=2)
    costs = random.exponential(problem.distances.mean(), (120, 7))
    costs[random.random((120, 7)) < 0.2] = np.inf
    costs[:, 0] = np.where(np.isinf(costs).all(axis=1), 1.0, costs[:, 0])
    rule = WorkFunction(problem)
    state, actions = rule.begin(4, seed=0), []
    for row in costs:
        state = rule.step(state, view(row)).state
        actions.append(state.action)
    assert actions == hc.work_function(costs, problem, 4).actions.tolist()
    assert actions[:40] == work_function_path(costs[:40], problem.distances, 4)


@given(st.integers(0, 2**16), st.sampled_from(["line", "plane", "uniform", "matrix"]))
def test_work_function_equals_the_offline_one_at_ties(seed, kind):
    random = np.random.default_rng(seed)
    problem = random_problem(kind, 5, seed)
    costs = random.integers(0, 3, (25, 5)).astype(float)
    rule = WorkFunction(problem)
    state, actions = rule.begin(0, seed=0), []
    for row in costs:
        state = rule.step(state, view(row)).state
        actions.append(state.action)
    assert actions == hc.work_function(costs, problem, 0).actions.tolist()


def test_work_function_stays_small_over_a_long_run():
    problem = random_problem("plane", 6, seed=0, scale=3.0)
    rule, random = WorkFunction(problem), np.random.default_rng(0)
    state = rule.begin(0, seed=0)
    for _ in range(3000):
        state = rule.step(state, view(1e6 + random.exponential(1.0, 6))).state
    assert state.arrays["work"].min() == 0.0
    assert state.arrays["work"].max() <= problem.distances.max() * (1 + 1e-9)
