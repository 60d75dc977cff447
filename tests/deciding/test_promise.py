"""A promise against a baseline: kept where the model knows, taken back with a round, the same after a restart."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.promise import SlowAccount
from sklearn.gaussian_process.kernels import RBF, Matern

import holdcourse as hc
from holdcourse.deciding import promise, recipe
from holdcourse.deciding.hedge import Hedged
from holdcourse.deciding.pilot import Pilot
from holdcourse.deciding.promise import Account, Budget, Promised
from holdcourse.errors import InvalidInput
from holdcourse.movement.problem import mean_way
from holdcourse.worlds import plants

LINE = hc.Problem(np.linspace(0.0, 1.0, 5))
CONTEXTS = np.array([0.0, 1.0, 2.0])
APART = hc.Kernel(RBF(0.05), RBF(0.05), variance=4.0)  # every action in every context is a cost of its own
SMOOTH = hc.Kernel(RBF(0.3), RBF(0.5))


def world(seed, low=1.0, high=3.0):
    """Costs of every action in each of the contexts, (3, 5)."""
    return np.random.default_rng(seed).uniform(low, high, (3, 5))


def known(costs, **options):
    """A policy whose model knows these costs, from three readings of each without noise."""
    rows = [(a, CONTEXTS[c], costs[c, a]) for c in range(3) for a in range(5)] * 3
    given = {"kernel": APART, "noise_std": 0.01, "prior_mean": 2.0, "history": hc.History.from_triples(rows)}
    return hc.recommended(LINE, **given | options)


def played(policy, costs, rounds=40, seed=0, start=2):
    """Run a policy; yields the pilot after each round, and what it and its baseline have paid so far."""
    random = np.random.default_rng(seed)
    pilot = Pilot(policy, start, seed)
    bill = base_bill = 0.0
    here = base = start
    for _ in range(rounds):
        c = int(random.integers(3))
        pilot.accept(pilot.decide(pilot.look(CONTEXTS[c])[1]))
        action, other = pilot.state.action, int(pilot.state.arrays["positions"][1])
        bill += costs[c, action] + LINE.distance(here, action)
        base_bill += costs[c, other] + LINE.distance(base, other)
        here, base = action, other
        pilot.learn(action, CONTEXTS[c], float(costs[c, action]))
        yield pilot, bill, base_bill


def table(edges=(0.5, 1.5)):
    return plants.table(LINE, [list(edges)])


BASELINES = {
    "staying": lambda costs: None,
    "an action": lambda costs: 1.0,
    "history": lambda costs: "history",
    "fixed": lambda costs: hc.fixed_at(LINE, setting_index=1),
    "a table": lambda costs: table(),
    "operators": lambda costs: plants.operators(LINE, 2),
    "a policy that learns": lambda costs: hc.gp_md(LINE, kernel=APART, noise_std=0.01),
}


def check_the_bill(name, seed, at_most, budget):
    costs = world(seed)
    policy = known(costs, baseline=BASELINES[name](costs), at_most=at_most, budget=budget)
    for pilot, bill, base_bill in played(policy, costs, seed=seed % 1000):
        allowed = pilot.rule.stands(pilot.state).allowed
        assert bill <= base_bill + allowed + 1e-3
        if budget is not None:
            way = base_bill - pilot.rule.stands(pilot.state).baseline_bill
            assert allowed <= at_most * (base_bill + abs(way)) + budget + 1e-3


any_promise = given(
    seed=st.integers(0, 10**6), at_most=st.sampled_from([0.0, 0.02, 0.3]), budget=st.sampled_from([None, 0.0, 0.5, 4.0])
)


@pytest.mark.parametrize("name", BASELINES)
@any_promise
@settings(max_examples=6, deadline=None)
def test_the_bill_never_exceeds_the_baseline_by_more_than_allowed(name, seed, at_most, budget):
    check_the_bill(name, seed, at_most, budget)


@pytest.mark.slow
@pytest.mark.parametrize("name", BASELINES)
@any_promise
@settings(max_examples=60, deadline=None)
def test_the_bill_never_exceeds_the_baseline_however_often_it_is_tried(name, seed, at_most, budget):
    check_the_bill(name, seed, at_most, budget)


def test_what_is_known_to_be_better_is_played():
    costs = np.tile([3.0, 3.0, 3.0, 3.0, 1.0], (3, 1))
    *_, (pilot, bill, base_bill) = played(known(costs, at_most=0.0, budget=0.0), costs)
    assert pilot.state.action == 4
    assert bill < 0.5 * base_bill
    stands = pilot.rule.stands(pilot.state)
    assert stands.saved == pytest.approx(base_bill - bill, rel=0.01)
    assert stands.baseline_bill == pytest.approx(base_bill, rel=0.01)
    assert stands.left > 0


def test_without_any_budget_it_stays_until_something_is_known_to_be_better():
    costs = np.tile([1.0, 2.0, 3.0, 2.0, 1.0], (3, 1))
    policy = hc.recommended(LINE, kernel=SMOOTH, noise_std=0.1, prior_mean=2.0, at_most=0.0, budget=0.0)
    assert {pilot.state.action for pilot, *_ in played(policy, costs)} == {2}
    free = hc.recommended(LINE, kernel=SMOOTH, noise_std=0.1, prior_mean=2.0, at_most=None)
    pilot = Pilot(free, 2, 0)
    actions = set()
    for _ in range(20):
        pilot.accept(pilot.decide(pilot.look(0.0)[1]))
        actions.add(pilot.state.action)
        pilot.learn(pilot.state.action, 0.0, float(costs[0, pilot.state.action]))
    assert len(actions) > 1


def test_no_promise_is_the_policy_itself_and_a_generous_one_decides_the_same():
    costs = world(3)
    free = known(costs, at_most=None)
    assert isinstance(free.rule_for(0), Hedged)
    generous = known(costs, at_most=0.02, budget=1e9)
    assert isinstance(generous.rule_for(0), Promised)
    random = np.random.default_rng(0)
    pilots = Pilot(free, 2, 5), Pilot(generous, 2, 5)
    for c in random.integers(3, size=40):
        for pilot in pilots:
            pilot.accept(pilot.decide(pilot.look(CONTEXTS[c])[1]))
        one, two = (pilot.state for pilot in pilots)
        assert one.action == two.action
        for key, array in one.arrays.items():
            np.testing.assert_array_equal(array, two.arrays[f"0.{key}"])
        for pilot in pilots:
            pilot.learn(one.action, CONTEXTS[c], float(costs[c, one.action]))


def test_gains():
    gains = world(7)
    policy = known(gains, maximise=True, at_most=0.05, budget=0.0)
    random = np.random.default_rng(1)
    pilot, got, base = Pilot(policy, 2, 0), 0.0, 0.0
    here = 2
    for c in random.integers(3, size=60):
        pilot.accept(pilot.decide(pilot.look(CONTEXTS[c])[1]))
        action = pilot.state.action
        got += gains[c, action] - LINE.distance(here, action)
        base += gains[c, 2]
        here = action
        pilot.learn(action, CONTEXTS[c], float(gains[c, action]))
        assert got >= base - 0.05 * abs(base) - 1e-3
    assert got > base


@pytest.mark.parametrize("seed", range(4))
def test_the_account_equals_its_slow_twin(seed, monkeypatch):
    """Where all rounds are asked again in every round."""
    monkeypatch.setattr(promise, "OPEN_ROUNDS", 1000)
    monkeypatch.setattr(promise, "ASKED", 1000)
    costs = world(seed)
    options = {"kernel": hc.Kernel(RBF(0.3), RBF(1.0)), "noise_std": 0.1, "prior_mean": 2.0, "context_scale": 0.7}
    baseline = [None, LINE.value(3), table(), plants.operators(LINE, 1)][seed]
    policy = hc.recommended(LINE, baseline=baseline, at_most=0.1, budget=1.5, **options)
    slow = SlowAccount(LINE, 0.1, 1.5, lambda a, b: abs(a[0] - b[0]) / 0.7, promise.TOGETHER)
    pilot, random = Pilot(policy, 2, seed), np.random.default_rng(seed)
    here = base = 2
    away = 0
    for c in random.integers(3, size=40):
        context = [float(CONTEXTS[c])]
        choice = pilot.decide(pilot.look(context)[1])
        action, other = choice.action, int(choice.state.arrays["positions"][1])
        assert slow.may_be_played(pilot.model, context, here, base, other)[action]
        slow.played(pilot.model, context, here, action, base, other)
        stands = pilot.rule.stands(choice.state)
        found = stands.saved, stands.doubt, stands.allowed, stands.baseline_bill
        np.testing.assert_allclose(found, slow.stands(pilot.model), rtol=1e-9, atol=1e-9)
        pilot.accept(choice)
        pilot.learn(action, context, float(costs[c, action] + 0.1 * random.standard_normal()))
        here, base = action, other
        away += action != other
    assert away > 3


def test_rounds_beyond_the_open_ones_stay_in_the_sums(monkeypatch):
    """Costs that are known do not change when they are asked no more."""
    costs = np.tile([3.0, 3.0, 3.0, 3.0, 1.0], (3, 1))
    *_, (pilot, *_) = played(known(costs), costs, rounds=30)
    monkeypatch.setattr(promise, "OPEN_ROUNDS", 6)
    *_, (bounded, *_) = played(known(costs), costs, rounds=30)
    assert len(Account.of(bounded.state.arrays).rounds) == 6
    one, two = pilot.rule.stands(pilot.state), bounded.rule.stands(bounded.state)
    assert two.saved == pytest.approx(one.saved, rel=1e-4)
    assert two.doubt >= 0.25 * one.doubt  # older rounds err together less than alike ones do


def test_the_account_is_bounded():
    costs = np.tile([3.0, 3.0, 3.0, 3.0, 1.0], (3, 1))
    *_, (pilot, *_) = played(known(costs), costs, rounds=promise.OPEN_ROUNDS + 20)
    account = Account.of(pilot.state.arrays)
    assert len(account.rounds) == len(account.costs) == len(account.contexts) == promise.OPEN_ROUNDS


def test_a_round_that_somebody_else_decided_is_taken_back():
    costs = np.tile([3.0, 3.0, 3.0, 3.0, 1.0], (3, 1))
    pilot = Pilot(known(costs), 2, 0)
    for _ in range(5):
        pilot.accept(pilot.decide(pilot.look(0.0)[1]))
        pilot.learn(pilot.state.action, 0.0, float(costs[0, pilot.state.action]))
    before = pilot.rule.stands(pilot.state)
    assert pilot.state.action == 4
    pilot.accept(pilot.decide(pilot.look(0.0)[1]))
    pilot.move_to(1)
    after = pilot.rule.stands(pilot.state)
    assert after.saved == pytest.approx(before.saved, rel=1e-3)
    assert after.doubt <= before.doubt * (1 + 1e-3)
    assert pilot.state.action == 1
    np.testing.assert_array_equal(pilot.state.arrays["positions"], [1.0, 1.0])  # the baseline was moved as well
    again = pilot.rule.resume(pilot.state, 1)
    assert pilot.rule.stands(again) == after  # once is enough
    first = Pilot(known(costs), 2, 0)
    first.accept(first.decide(first.look(0.0)[1]))
    assert first.rule.stands(first.state).saved != 0.0
    first.move_to(2)
    assert first.rule.stands(first.state).saved == 0.0  # the way was not gone


@pytest.mark.parametrize("length", [1, 3])
def test_the_account_goes_on_from_episode_to_episode(length):
    """Short episodes must not make the promise void: every round counts, and its way."""
    costs = np.tile([2.0, 2.5, 3.0, 1.5, 1.0], (3, 1))
    pilot = Pilot(known(costs, at_most=0.3, budget=4.0), 0, 0)
    bill = base_bill = 0.0
    for episode in range(12):
        here = start = episode % 5
        if episode:
            stood, reach = pilot.rule.stands(pilot.state), pilot.state.arrays["reach"]
            last = pilot.state.action
            pilot.new_episode(start)
            assert pilot.rule.stands(pilot.state) == stood  # being brought to a start costs neither of them anything
            np.testing.assert_array_equal(pilot.state.arrays["positions"], [start, start])
            assert pilot.state.arrays["reach"][last] == promise.PLAYED
            assert (pilot.state.arrays["reach"] >= reach).all()
        for _ in range(length):
            pilot.accept(pilot.decide(pilot.look(0.0)[1]))
            action = pilot.state.action
            bill += costs[0, action] + LINE.distance(here, action)
            base_bill += costs[0, start]  # which stays where the episode begins
            here = action
            pilot.learn(action, 0.0, float(costs[0, action]))
    stands = pilot.rule.stands(pilot.state)
    assert bill != pytest.approx(base_bill, abs=0.1)
    assert stands.saved == pytest.approx(base_bill - bill, rel=0.01)
    assert stands.baseline_bill == pytest.approx(base_bill, rel=0.01)


def test_an_override_told_to_a_controller_takes_the_round_back():
    costs = np.tile([3.0, 3.0, 3.0, 3.0, 1.0], (3, 1))
    controller = hc.Controller(known(costs), start_index=2, seed=0)
    decision = controller.ask(0.0)
    assert decision.action == 4
    controller.tell(decision.id, 3.0, applied_index=2)
    assert controller.ask(0.0).action == 4


def test_a_wish_that_is_too_dear_is_explained():
    costs = np.tile([1.0, 2.0, 3.0, 2.0, 1.0], (3, 1))
    policy = hc.recommended(LINE, kernel=SMOOTH, noise_std=0.1, prior_mean=2.0, at_most=0.0, budget=0.0)
    pilot = Pilot(policy, 2, 0)
    kept = []
    for _ in range(10):
        choice = pilot.decide(pilot.look(0.0)[1])
        if choice.restraint is not None:
            kept.append(choice.restraint)
            assert choice.restraint.wish != choice.action
            assert (choice.restraint.risk > choice.restraint.left) == (choice.restraint.why == "dear")
        assert choice.probabilities[choice.action] > 0
        assert choice.probabilities.sum() == pytest.approx(1.0)
        pilot.accept(choice)
        pilot.learn(choice.action, 0.0, float(costs[0, choice.action]))
    assert "dear" in {each.why for each in kept}


def test_a_mask_that_leaves_nothing_permitted_is_respected():
    costs = world(1)
    pilot = Pilot(known(costs, at_most=0.0, budget=0.0), 2, 0)
    mask = np.array([True, False, False, False, False])
    choice = pilot.decide(pilot.look(0.0, allowed=mask)[1])
    assert choice.action == 0


@pytest.mark.parametrize("seed", range(6))
def test_a_largest_step_holds_on_the_way_back_too(seed):
    """Costs turn against what was learned, so that the promise calls back."""
    random = np.random.default_rng(seed)
    line = hc.Problem(np.linspace(0, 1, 9))
    slopes = 0.7 * random.normal(size=9).cumsum()
    policy = hc.recommended(
        line, kernel=SMOOTH, noise_std=0.1, prior_mean=2.0, max_step=0.3, baseline_index=0 if seed % 2 else None
    )
    pilot, here = Pilot(policy, 0, seed), 0
    for t in range(60):
        context = float(random.random())
        pilot.accept(pilot.decide(pilot.look(context)[1]))
        assert line.distance(here, pilot.state.action) <= 0.3
        here = pilot.state.action
        pilot.learn(here, context, float(3.0 + slopes[here] * np.sin(3 * context + t / 20)))


def test_over_time_the_past_is_not_asked_again():
    in_time = hc.Kernel(RBF(0.3)) + hc.Kernel(RBF(0.3), Matern(10.0, nu=0.5))
    policy = hc.recommended(LINE, kernel=in_time, noise_std=0.1, time=True, budget=50.0)
    assert policy.rule_for(0).asks_again is False
    pilot = Pilot(policy, 2, 0)
    for t in range(20):
        pilot.accept(pilot.decide(pilot.look(float(t))[1]))
        pilot.learn(pilot.state.action, float(t), float(np.sin(t / 5) + LINE.actions[pilot.state.action, 0]))
    assert len(Account.of(pilot.state.arrays).rounds) > 0


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_passes_the_conformance_check(name):
    costs = world(2)
    hc.testing.check_policy(
        lambda: known(costs, baseline=BASELINES[name](costs)), np.tile(CONTEXTS, 8), start=2, seed=3
    )


def test_a_fitted_model_under_a_promise_passes_the_conformance_check():
    hc.testing.check_policy(lambda: hc.recommended(LINE, baseline_index=1, budget=2.0), np.linspace(0, 2, 30), start=2)


@pytest.mark.parametrize(
    "options",
    [
        {"at_most": None},
        {"at_most": 0.0},
        {"at_most": 0.1, "budget": 5.0},
        {"baseline": 0.75},
        {"baseline": np.float64(0.75)},
        {"baseline_index": 3},
        {"baseline_index": np.int64(3)},
        {"baseline": hc.fixed_at(LINE, setting_index=3)},
        {"baseline": hc.stationary(LINE)},
        {"baseline": hc.gp_md(LINE, kernel=SMOOTH, noise_std=0.1)},
    ],
    ids=str,
)
def test_a_recipe_makes_the_same_promise_again(options):
    policy = hc.recommended(LINE, kernel=SMOOTH, noise_std=0.1, prior_mean=1.0, **options)
    told = json.loads(json.dumps(recipe.describe(policy)))
    again = recipe.make(told)
    assert again.fingerprint == policy.fingerprint
    assert again.rule.describe() == policy.rule.describe()
    assert again.explanation == policy.explanation
    assert recipe.describe(again) == told


def test_a_baseline_from_the_history_is_an_action_in_the_recipe():
    costs = np.tile([3.0, 1.0, 3.0, 3.0, 2.0], (3, 1))
    policy = known(costs, baseline="history")
    assert policy.made_by[1]["baseline_index"] == 1
    assert recipe.describe(policy)["options"]["baseline_index"] == 1
    assert "stays within 2 % of the bill of fixed at 0.25. If a move costs" in policy.explanation
    best = known(-costs, baseline="history", maximise=True).made_by[1]["baseline_index"]
    assert best == 1


def test_words():
    assert str(Budget(3.0, 0.5, 2.0, 100.0)) == "3 (+- 0.5) less than the baseline; 2 more would be allowed"
    assert str(Budget(-3.0, 0.5, 2.0, 100.0)) == "3 (+- 0.5) more than the baseline; up to 2 is allowed"
    assert Budget(3.0, 0.5, 2.0, 100.0).left == 4.5
    words = hc.recommended(LINE, at_most=0.05, budget=20.0, baseline_index=1).explanation
    assert "stays within 5 % of the bill of fixed at 0.25, apart from 20 that it may spend in advance." in words


def test_before_the_first_round_nothing_is_owed():
    rule = hc.recommended(LINE).rule_for(0)
    assert rule.stands(rule.begin(2, 0)) == Budget(0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"at_most": -0.1}, "at_most must be a share such as 0.02, or None for no promise, got -0.1"),
        ({"at_most": np.nan}, "at_most must be .* got nan"),
        ({"at_most": "much"}, "at_most must be .* got 'much'"),
        ({"budget": -1.0}, "budget must be 0 or more, in the unit of costs, or None, got -1.0"),
        ({"budget": np.inf}, "budget must be .* got inf"),
        ({"baseline_index": 5}, "baseline_index=5 is not an index"),
        ({"baseline": 3}, "baseline=3 is not a setting; .* write baseline_index=3; .* 'history' or a Policy"),
        ({"baseline": "yesterday"}, "baseline='yesterday' is not a setting; .* may also be 'history' or a Policy"),
        ({"baseline": "history"}, "baseline='history' is the best fixed setting of the history; give history= too"),
        (
            {"baseline": hc.fixed_at(hc.Problem([0.0, 1.0]), setting_index=1)},
            "fixed at 1 and .* were made for different problems; make both",
        ),
        ({"baseline": hc.minc_known(LINE)}, "MinC-Known needs the true costs, .*; give another one"),
    ],
    ids=str,
)
def test_errors_name_the_value_and_the_remedy(options, message):
    with pytest.raises(InvalidInput, match=message):
        hc.recommended(LINE, **options)


def test_the_operators_rule_as_a_baseline_is_in_the_recipe():
    policy = hc.recommended(LINE, baseline=plants.operators(LINE, 2))
    described = recipe.describe(policy)
    assert described["options"]["baseline"] == {"policy": "operators", "options": {"start": 2}}
    assert recipe.make(described).fingerprint == policy.fingerprint


def test_a_baseline_that_only_python_can_make_is_named():
    staying = hc.stationary(LINE)
    policy = hc.recommended(LINE, baseline=hc.Policy("by hand", staying.rule, staying.costs, LINE))
    with pytest.raises(
        InvalidInput, match="it is not known what made by hand, so only your own Python code can make it again"
    ):
        recipe.describe(policy)


# -- steps and trials --------------------------------------------------------------------------------------------------

LONG = hc.Problem(np.linspace(0.0, 10.0, 21), scale=0.02)  # a mean way costs 0.07, a round about 1


def eager(problem, **options):
    """A policy that wants the last action and nothing else, under a promise against staying."""
    model = hc.gp_md(problem, kernel=hc.Kernel(RBF(1.0), variance=1.0), noise_std=0.05, prior_mean=1.0).costs
    wish = hc.Policy("eager", hc.fixed_at(problem, setting_index=problem.n - 1).rule, model, problem)
    return hc.Policy("promised", *promise.promised(wish, hc.stationary(problem), 0.02, **options), problem)


def steps_of(policy, rounds=14):
    pilot = Pilot(policy, 0, 0)
    actions = [0]
    for _ in range(rounds):
        pilot.accept(pilot.decide(pilot.look(0.0)[1]))
        pilot.learn(pilot.state.action, 0.0, 1.0)
        actions.append(pilot.state.action)
    return actions


def test_a_far_wish_is_gone_to_in_steps():
    actions = steps_of(eager(LONG, budget=15.0))
    seen = [actions[0]]
    for action in actions[1:]:
        assert min(abs(LONG.distance(action, other)) for other in seen) <= 0.4 * mean_way(LONG) + 1e-9
        seen.append(action)
    assert actions[-1] == LONG.n - 1
    assert len(set(actions)) >= 6  # the line is 7.5 such steps long; some of it is known from nearby


def test_no_steps_where_little_can_be_lost_or_moves_are_dear():
    assert steps_of(eager(LONG, budget=500.0), 1) == [0, LONG.n - 1]
    dear = hc.Problem(np.linspace(0.0, 10.0, 21), scale=0.5)  # a mean way costs 1.75
    assert steps_of(eager(dear, budget=25.0), 1) == [0, dear.n - 1]


def test_an_action_that_somebody_else_chose_is_in_reach_from_then_on():
    rule = eager(LONG, budget=15.0).rule_for(0)
    state = rule.resume(rule.begin(0, 0), 18)
    assert state.arrays["reach"][18] == state.arrays["reach"][0] == promise.PLAYED
    assert state.arrays["reach"][20] == promise.REACHED
    assert state.arrays["reach"][9] == promise.UNKNOWN


@pytest.mark.parametrize(("scale", "dear"), [(0.02, False), (0.1, False), (0.2, True), (1.0, True)])
def test_trials_are_paid_for_where_moves_are_dear(scale, dear):
    problem = hc.Problem(np.linspace(0.0, 10.0, 21), scale=scale)
    ways = [problem.distance(i, j) for i in range(21) for j in range(21)]
    assert mean_way(problem) == pytest.approx(np.mean(ways))
    without, paid = (eager(problem, trials=trials).rule_for(0) for trials in (0.0, 30.0))
    account = Account(np.zeros((0, 0)), np.zeros((0, 4)), np.zeros((0, 2)), np.array([0, 0, 0, 100.0, 100.0, 0]))
    share, more = account.stands(without).allowed, account.stands(paid).allowed
    assert share == pytest.approx(0.5 * 0.02 * 700)  # of a bill of 1 each, 300 rounds and four for each that has passed
    assert more == pytest.approx(max(share, 30 * np.mean(ways) * 700 / 1000) if dear else share)


def test_one_action_and_two_are_problems_too():
    for n in (1, 2):
        problem = hc.Problem(np.arange(float(n)))
        assert set(steps_of(eager(problem), 3)) <= set(range(n))
