"""Plans on landmarks: those on all settings where each is one, and what holds where few stand for many."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.landmarks import best_of_runs, reached
from sklearn.gaussian_process.kernels import RBF, Matern

import holdcourse as hc
from holdcourse._numeric import landmarks as kernels
from holdcourse.deciding import recipe as recipes
from holdcourse.deciding.pilot import Pilot
from holdcourse.deciding.planning.landmarks import LANDMARKS, SWEPT, WEIGHED, Cells
from holdcourse.deciding.planning.plan import Plan, planner, planner_known
from holdcourse.deciding.promise import Account
from holdcourse.deciding.rules import View
from holdcourse.errors import InvalidInput, NoActionLeft
from holdcourse.learning.costs import costs_of_some

SEEDS = st.integers(0, 2**32 - 1)
KERNEL = hc.Kernel(RBF(0.3), RBF(0.2))
LEARNING = {"kernel": KERNEL, "noise_std": 0.05, "prior_mean": 1.0, "context_bounds": (0.0, 1.0)}
AXIS = np.linspace(0.0, 1.0, 120)
SMOOTH = LEARNING | {"kernel": hc.Kernel(RBF(1.0), RBF(0.5))}  # few features
MANY = hc.Problem(hc.grid(x=AXIS, y=AXIS), "euclidean")  # 14,400 settings: more than a plan weighs


def scattered(seed, n=32, **options):
    return hc.Problem(np.random.default_rng(seed).random((n, 2)), **options)


def all_as_landmarks(policy):
    """The same policy, with every setting as a landmark: of 2^k settings, where cells are halves of halves."""
    rule = replace(policy.rule)
    rule.__dict__["weighed"] = 2 * rule.problem.n
    return replace(policy, rule=rule)


def view_of(costs, context=0.5, allowed=None, forecast=None):
    allowed = np.ones(len(costs), dtype=bool) if allowed is None else allowed
    return View(np.where(allowed, costs, np.inf), context, allowed, forecast)


# -- the same where every setting is a landmark ------------------------------------------------------------------------


@given(SEEDS, st.booleans())
@settings(max_examples=20)
def test_with_every_setting_as_landmark_known_costs_are_planned_as_without(seed, forecasts):
    rng = np.random.default_rng(seed)
    problem = scattered(seed, fixed_cost=float(rng.integers(2)) * 0.1)
    exact = planner_known(problem, capacity=3)
    some = all_as_landmarks(exact)
    contexts, table = rng.random(5), 2.0 * rng.random((5, problem.n))
    one, other = exact.rule.begin(3, 0), some.rule.begin(3, 0)
    for _ in range(8):
        e, allowed = int(rng.integers(5)), rng.random(problem.n) < 0.8
        forecast = contexts[rng.integers(5, size=3)] if forecasts else None
        shown = view_of(table[e], contexts[e], allowed, forecast)
        first, second = exact.rule.step(one, shown), some.rule.step(other, shown)
        assert first.action == second.action
        assert first.prospect.place == second.prospect.place
        assert first.prospect.worth == pytest.approx(second.prospect.worth, abs=1e-9)
        np.testing.assert_allclose(first.state.arrays["values"], second.state.arrays["values"], atol=1e-9)
        one, other = first.state, second.state


def test_with_every_setting_as_landmark_learned_costs_are_planned_as_without():
    problem, rng = scattered(1), np.random.default_rng(1)
    exact = Pilot(planner(problem, **LEARNING), 0, 0)
    some = Pilot(all_as_landmarks(exact.policy), 0, 0)
    for t in range(25):
        context = 0.5 + 0.4 * np.sin(t)
        chosen = []
        for pilot in (exact, some):
            _, view = pilot.look(context, forecast=[0.5 + 0.4 * np.sin(t + 1)])
            choice = pilot.decide(view)
            pilot.accept(choice)
            chosen.append(choice.action)
        assert chosen[0] == chosen[1]
        measured = float(rng.normal()) * 0.05 + float(((problem.actions[chosen[0]] - context) ** 2).sum())
        for pilot in (exact, some):
            pilot.learn(chosen[0], context, measured)
    np.testing.assert_allclose(exact.state.arrays["expected"], some.state.arrays["expected"], atol=1e-7)


# -- the parts ---------------------------------------------------------------------------------------------------------


@pytest.mark.kernel
def test_the_loops_are_those_of_the_definition():
    rng = np.random.default_rng(2)
    n, ends = 23, np.array([4, 4, 11, 23])
    begin = np.array([0, 4, 4, 11])
    m, b, W, h = rng.integers(4, size=n) * 1.0, rng.random(n), rng.random(n), rng.random(4)
    order, allowed = rng.permutation(n), rng.random(n) < 0.6
    allowed[order[:4]] = False
    near, far = np.empty(4, dtype=np.int64), np.empty(4, dtype=np.int64)
    kernels.best_of_runs(m, b, h, W, allowed, order, begin, ends, near, far)
    assert (near.tolist(), far.tolist()) == best_of_runs(m, b, h, W, allowed, order, begin, ends)
    V, D, out = rng.random((3, 7)), rng.random((5, 7)), np.empty((3, 5))
    kernels.reached(V, D, out)
    np.testing.assert_array_equal(out, reached(V, D))


@given(SEEDS, st.integers(1, 70), st.integers(1, 80), st.sampled_from(["euclidean", "matrix", "directed"]))
def test_cells_hold_every_setting_once_and_their_centres(seed, n, count, kind):
    problem = scattered(seed, n)
    if kind != "euclidean":
        height = problem.actions[:, 0]
        climb = np.maximum(height[None] - height[:, None], 0.0) if kind == "directed" else 0.0
        lengths = problem.distances + climb
        problem = hc.Problem(metric=lengths, directed=kind == "directed")
    cells = Cells.of(problem, count)
    assert sorted(cells.order.tolist()) == list(range(n))
    assert 1 <= len(cells) <= min(count, n)
    assert (np.diff(cells.edges) > 0).all()
    assert cells.edges[-1] == n
    assert cells.cell[cells.centres].tolist() == list(range(len(cells)))


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        (KERNEL, {"context_bounds": (0.0, 1.0)}),
        (KERNEL, {}),
        (hc.Kernel(RBF(0.3), Matern(0.02, nu=0.5)), {"context_bounds": (0.0, 1.0), "method": "flat"}),
        ("auto", {}),
        ("auto", {"prior_mean": lambda actions, context: actions[:, 0] + context[0]}),
    ],
    ids=["flat", "exact", "capped", "fitted", "fitted with a mean"],
)
def test_some_actions_are_predicted_as_among_all(kernel, options):
    problem, rng = scattered(4, 60), np.random.default_rng(4)
    belief = hc.posterior(problem, kernel, **options)
    model = hc.costs.LowerBound(belief, width=1.5)
    contexts, some = rng.random((4, 1)), np.array([3, 17, 18, 59])
    for t in range(20):
        model.learn(int(rng.integers(60)), rng.random(), 2.0 + float(rng.normal()))
        if t % 6 == 1:
            for optimism in (1.0, 0.0, 0.4):
                found = costs_of_some(model, contexts, some, optimism)
                np.testing.assert_allclose(
                    found, model.costs_at_optimism(contexts, optimism)[:, some], rtol=0, atol=1e-6
                )


# -- few that stand for many -------------------------------------------------------------------------------------------


def test_up_to_the_limits_all_settings_are_weighed():
    assert Plan(scattered(0, 40)).weighed is None
    assert Plan(hc.Problem(np.arange(WEIGHED * 1.0))).weighed is None
    assert Plan(hc.Problem(np.arange(WEIGHED + 1.0))).weighed is None  # a line is swept
    assert Plan(hc.Problem(np.arange(SWEPT + 1.0))).weighed == LANDMARKS
    assert Plan(hc.Problem(np.arange(WEIGHED + 1.0)), max_step=5.0).weighed == LANDMARKS  # with steps it is searched
    assert Plan(MANY).weighed == LANDMARKS
    assert Plan(MANY, landmarks=MANY.n).weighed is None
    assert Plan(scattered(0, 40), landmarks=20).weighed == 20
    with pytest.raises(InvalidInput, match="landmarks must be"):
        planner(MANY, landmarks=0, **LEARNING)


def test_it_says_how_many_landmarks_are_weighed_and_what_is_given_up():
    controller = hc.Controller(planner(MANY, **SMOOTH), start_index=0)
    described = controller.policy.rule.describe()
    assert described["landmarks"] == LANDMARKS
    assert "Of 14,400 settings about 1,024 landmarks are weighed" in described["gives_up"]
    assert "landmarks" not in planner(scattered(0), **LEARNING).rule.describe()
    decision = controller.ask(0.3)
    controller.tell(decision.id, 1.0)
    assert "landmarks among the 14,400 settings, and for this round all" in controller.explain(decision.id).words
    words = hc.recommended(MANY, **SMOOTH).explanation
    assert "about 1,024 landmarks" in words
    assert "landmarks" not in hc.recommended(scattered(0), **LEARNING).explanation


def test_the_best_setting_of_all_is_found_not_the_best_landmark():
    """The cheapest setting lies between landmarks; moves cost next to nothing."""
    problem = hc.Problem(MANY.actions, scale=1e-6)
    for best in (77, 5_003, 14_398):
        costs = ((problem.actions - problem.actions[best]) ** 2).sum(axis=1)
        rule = planner_known(problem, landmarks=64).rule
        choice = rule.step(rule.begin(0, 0), view_of(costs))
        assert choice.action == best
        allowed = np.ones(problem.n, dtype=bool)
        allowed[best] = False
        again = rule.step(choice.state, view_of(costs, allowed=allowed))
        assert problem.distance(again.action, best) == pytest.approx(1e-6 / 119)  # a neighbour


def test_what_was_best_in_a_context_is_remembered_when_it_returns():
    """A lone cheap setting, seen once, is a landmark of its context from then on."""
    costs = np.full((2, MANY.n), 1.0)
    costs[0, 7_777] = costs[1, 123] = 0.0
    rule = planner_known(hc.Problem(MANY.actions, scale=0.5), landmarks=32).rule
    state = rule.begin(0, 0)
    for t in range(6):
        choice = rule.step(state, view_of(costs[t % 2], context=float(t % 2)))
        state = choice.state
    assert {7_777, 123} <= set(state.arrays["landmarks"].astype(int).tolist())


@given(SEEDS, st.sampled_from([None, 0.15]))
@settings(max_examples=20)
def test_masks_and_the_longest_step_are_kept(seed, max_step):
    rng = np.random.default_rng(seed)
    problem = scattered(seed, 60)
    rule = planner_known(problem, landmarks=8, capacity=3, max_step=max_step).rule
    state = rule.begin(5, 0)
    for _ in range(6):
        allowed = rng.random(60) < 0.5
        shown = view_of(rng.random(60) * 3, float(rng.integers(3)), allowed)
        within = np.ones(60, dtype=bool)
        if max_step is not None:
            within = np.linalg.norm(problem.actions - problem.actions[state.action], axis=1) <= max_step * (1 + 1e-9)
        if not (allowed & within).any():
            with pytest.raises((NoActionLeft, InvalidInput)):
                rule.step(state, shown)
            return
        choice = rule.step(state, shown)
        assert allowed[choice.action]
        assert within[choice.action]
        assert np.isfinite(choice.state.arrays["values"]).all()
        assert choice.probabilities.sum() == 1.0
        state = choice.state


def test_a_goal_beyond_the_longest_step_is_approached():
    problem = hc.Problem(MANY.actions, scale=1e-3)
    costs = np.ones(problem.n)
    costs[-1] = 0.0
    rule = planner_known(problem, landmarks=64, max_step=0.3).rule
    choice = rule.step(rule.begin(0, 0), view_of(costs))
    assert np.linalg.norm(problem.actions[choice.action]) == pytest.approx(0.3, abs=0.02)
    assert "in steps" in choice.words
    state = choice.state
    for _ in range(4):
        state = rule.step(state, view_of(costs)).state
    assert state.action == problem.n - 1


def test_landmarks_stay_bounded_and_a_resumed_run_decides_as_an_uninterrupted_one():
    problem = scattered(6, 300)
    policy = planner(problem, landmarks=64, capacity=8, **LEARNING)
    one, other = Pilot(policy, 0, 0), Pilot(policy, 0, 0)
    for t in range(20):
        context = (0.37 * t) % 1.0
        chosen = []
        for pilot in (one, other):
            _, view = pilot.look(context)
            choice = pilot.decide(view)
            pilot.accept(choice)
            chosen.append(choice.action)
        assert chosen[0] == chosen[1]
        for pilot in (one, other):
            pilot.learn(chosen[0], context, float(((problem.actions[chosen[0]] - context) ** 2).sum()))
        if t % 5 == 4:
            other = Pilot(policy, 0, 0)
            other.restore({name: array.copy() for name, array in one.arrays().items()})
    assert one.state.arrays["values"].shape[1] <= 32 + 8 * 4 + 32 + 1
    one.move_to(123)  # somebody moved it
    _, view = one.look(0.5)
    assert one.decide(view).prospect.place == 123


def test_a_policy_with_landmarks_is_made_again_from_its_recipe():
    policy = planner(scattered(0, 100), landmarks=16, kernel=KERNEL)
    recipe = recipes.describe(policy)
    assert recipe["options"]["landmarks"] == 16
    assert recipes.make(recipe).rule.describe() == policy.rule.describe()
    assert "landmarks" not in recipes.describe(planner(scattered(0, 100), kernel=KERNEL))["options"]


@pytest.mark.parametrize("learning", [True, False])
def test_policies_with_landmarks_pass_the_conformance_check(learning):
    problem = scattered(5, 40)

    def make():
        if learning:
            return planner(problem, landmarks=8, kernel=KERNEL, noise_std=0.1)
        return planner_known(problem, landmarks=8)

    hc.testing.check_policy(make, np.linspace(0.0, 2.0, 30), start=4, seed=3)


def test_a_promise_asks_about_what_was_played_where_there_are_very_many_settings():
    problem, rng = scattered(7, 60), np.random.default_rng(7)
    model = hc.costs.LowerBound(hc.posterior(problem, KERNEL, noise_std=0.1), width=2.0)
    account = Account.empty()
    for t in range(12):
        x, context = int(rng.integers(60)), rng.random(1)
        account = account.with_round(t, context, (x, 0), (0.3, 0.2), 1.0, 0.1)
        model.learn(x, context, float(rng.normal()))
    played = np.unique(account.rounds[:, 1]).astype(np.int64)
    by_all, by_every, by_played = (account.asked_again(model, 12, 1.0, few) for few in (None, np.arange(60), played))
    np.testing.assert_allclose(by_every.costs, by_all.costs, atol=1e-9)
    np.testing.assert_allclose(by_played.costs[:, 0], by_all.costs[:, 0], atol=1e-9)  # what was saved
    assert (by_played.costs[:, 1] <= by_all.costs[:, 1] + 1e-9).all()  # the least doubt of all may be elsewhere
    np.testing.assert_allclose(by_played.costs[:, 1], by_all.costs[:, 1], rtol=0.02)
    controller = hc.Controller(hc.recommended(MANY, **SMOOTH), start_index=0)
    for t in range(5):
        decision = controller.ask(0.5 + 0.4 * np.sin(t))
        controller.tell(decision.id, float(((MANY.actions[decision.action] - 0.5) ** 2).sum()))
    assert controller.round == 5
