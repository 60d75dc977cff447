"""An action that was never played in a context is tried there: when, at what price, and what comes of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.two_states import PROBLEM, played, sequence
from hypothesis import given
from hypothesis import strategies as st

import holdcourse as hc
from holdcourse.archive import under
from holdcourse.deciding.hedge import Hedged
from holdcourse.deciding.planning.beliefs import Chain, Closeness, PlayCounts, Table
from holdcourse.deciding.planning.plan import Plan, Trials, planner
from holdcourse.deciding.policy import fixed_at
from holdcourse.deciding.rules import View
from holdcourse.errors import InvalidInput
from holdcourse.movement import mirror
from holdcourse.movement.tree import Tree

LINE = hc.Problem([0.0, 1.0, 2.0])
DEAR = [[4.0, 2.0], [4.0, 3.0]]  # by context: what a model that is sure believes of setting 0


class Sure:
    """A cost model that is sure of a cost for every context and action, whatever is measured."""

    def __init__(self, costs, spread=0.0):
        self.costs, self.spread = np.asarray(costs, dtype=float), spread

    def costs_at(self, contexts):
        return self.costs_at_optimism(contexts, 1.0)

    def costs_at_optimism(self, contexts, optimism):
        rows = np.asarray(contexts)[:, 0].astype(int)
        return self.costs[rows] - optimism * self.spread


def test_a_fit_to_three_pairs_may_be_sure_of_the_fourth_and_wrong():
    readings = hc.History([0, 1, 1], [1.0, 1.0, 0.0], [4.0, 2.0, 2.0])
    fit = hc.fit_kernel(PROBLEM, readings.actions, readings.contexts, readings.measurements, seed=0)
    mean, std = hc.posterior(PROBLEM, fit.kernel, fit.noise_std, fit.prior_mean, history=readings).predict(0.0)
    assert mean[0] == pytest.approx(3.96, abs=0.05)
    assert std[0] == pytest.approx(0.21, abs=0.05)  # the truth is 1
    careful = hc.gp_md(PROBLEM, history=readings).costs.estimate(0.0)
    assert careful.mean[0] == pytest.approx(2.3, abs=0.1)
    assert careful.std[0] == pytest.approx(0.9, abs=0.1)


def steps(rule, model, contexts, start=0):
    """Step through contexts; yields the state before and the choice."""
    state = rule.begin(start, 0)
    allowed = np.ones(rule.problem.n, dtype=bool)
    for context in contexts:
        view = View(model.costs_at([[context]])[0], float(context), allowed, None, model)
        choice = rule.step(state, view)
        yield state, choice
        state = choice.state


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "start"), [(("blocks", 0.5, 15.0), 1), (("iid", 0.35, 1.0), 1)])
def test_no_pair_stays_untried_under_the_promise_or_without_it(kind, start):
    contexts = sequence(*kind, seed=101, rounds=700)
    known = played(hc.planner_known(PROBLEM), contexts, start)
    free = played(hc.recommended(PROBLEM, at_most=None), contexts, start)
    held = played(hc.recommended(PROBLEM), contexts, start)
    assert free.untried == held.untried == []
    assert free.ratio <= known.ratio + 0.03
    assert held.ratio <= known.ratio + 0.12  # in its first rounds the promise has little to spend


def test_a_sure_model_is_put_to_the_test():
    """It is sure that setting 0 costs 4 in both contexts; in context 0 it has never been played."""
    rule = Plan(PROBLEM, Closeness.of(0.2), trials=Trials())
    contexts = [0, 0, 0, 1, 1, 1] * 20
    tries = [
        (t, choice.action, contexts[t], choice.words)
        for t, (_, choice) in enumerate(steps(rule, Sure(DEAR), contexts, start=1))
        if choice.words
    ]
    assert {(action, context) for _, action, context, _ in tries} == {(0, 0), (0, 1)}
    assert tries[0][0] == 7  # the fifth visit
    assert tries[0][3] == (
        "It tries 0, which was never measured in this context: it could pay off, and costs at most about 4 more than "
        "the plan."
    )
    assert len(tries) <= 2 * Trials().plays
    without = replace(rule, trials=None)
    assert not any(choice.words for _, choice in steps(without, Sure(DEAR), contexts, start=1))


@pytest.mark.parametrize(
    "costs",
    [[[400.0, 2.0], [400.0, 3.0]], [[4.0, 2.0], [4.0, 2.0]]],
    ids=["a trial is dear", "nothing suggests that any pair is cheaper"],
)
def test_no_trial(costs):
    rule = Plan(PROBLEM, Closeness.of(0.2), trials=Trials())
    assert not any(choice.words for _, choice in steps(rule, Sure(costs), [0, 0, 0, 1, 1, 1] * 40, start=1))


def test_contexts_that_end_at_once_are_not_worth_a_trial():
    far = hc.Problem([0.0, 1.5])  # the way there and back costs 3, a round can save 2
    rule = Plan(far, Closeness.of(0.2), trials=Trials())
    assert not any(choice.words for _, choice in steps(rule, Sure(DEAR), [0, 1] * 100, start=1))
    assert any(choice.words for _, choice in steps(rule, Sure(DEAR), ([0] * 10 + [1] * 10) * 10, start=1))


@given(
    costs=st.lists(st.floats(-5.0, 50.0), min_size=6, max_size=6),
    spread=st.floats(0.0, 3.0),
    share=st.sampled_from([0.0, 0.005, 0.02, 0.1]),
    lengths=st.lists(st.integers(1, 12), min_size=8, max_size=20),
)
def test_trials_stay_within_their_budget(costs, spread, share, lengths):
    table = np.array(costs).reshape(2, 3)
    trials = Trials(share=share, rounds=100, visits=4)
    rule = Plan(LINE, Closeness.of(0.2), trials=trials)
    contexts = [i % 2 for i, length in enumerate(lengths) for _ in range(length)]
    paid = 0.0
    for state, choice in steps(rule, Sure(table, spread), contexts):
        if not choice.words:
            assert choice.excess == 0.0
            continue
        before, after = PlayCounts.of(state.arrays), PlayCounts.of(choice.state.arrays)
        assert after.spent == pytest.approx(before.spent + after.newest)
        paid += choice.excess
        expected = choice.state.arrays["expected"]
        assert paid <= after.spent + 1e-9
        assert after.spent <= trials.budget(before, expected[: len(before.counts)]) + 1e-9


def test_a_trial_that_somebody_prevents_is_not_charged_and_waits():
    rule = Plan(PROBLEM, Closeness.of(0.2), trials=Trials())
    model, contexts = Sure(DEAR), [0, 0, 0, 1, 1, 1] * 30
    state, wishes = rule.begin(1, 0), []
    for t, context in enumerate(contexts):
        view = View(model.costs_at([[context]])[0], float(context), np.ones(2, dtype=bool), None, model)
        choice = rule.step(state, view)
        state = choice.state
        if choice.words:
            wishes.append(t)
            state = rule.resume(state, 1)
    assert len(wishes) > 1
    assert min(np.diff(wishes)) >= 25
    left = PlayCounts.of(state.arrays)
    assert left.spent == 0.0
    assert left.counts[:, 0].sum() == 0.0
    assert left.rounds == len(contexts)


class SureOfAll(Sure):
    """The same for all experts."""

    def of_expert(self, expert):
        return self

    def expected_at(self, contexts):
        return self.costs_at_optimism(contexts, 0.0)


def hedged_with_trials():
    """A plan that tries, and setting 1 for ever, which is the one that is followed."""
    plan = Plan(PROBLEM, Closeness.of(0.2), trials=Trials())
    star = Tree([2, 2, -1], [8.0, 8.0, 0.0])
    rule = Hedged(PROBLEM, (plan, fixed_at(PROBLEM, setting_index=1).rule), star, ("plan", "fixed"))
    state = rule.begin(1, 0)
    return rule, replace(state, arrays=state.arrays | {"q": mirror.start(star, 1), "followed": np.array([1.0])})


def test_a_hedge_tries_whoever_is_followed():
    rule, state = hedged_with_trials()
    model, tried = SureOfAll(DEAR), []
    for context in [0, 0, 0, 1, 1, 1] * 10:
        view = View(model.costs_at([[context]])[0], float(context), np.ones(2, dtype=bool), None, model)
        choice = rule.step(state, view)
        state = choice.state
        assert (choice.action == 0) == ("It tries" in choice.words) == (choice.excess > 0)
        tried.append(choice.action == 0)
        assert choice.probabilities[choice.action] > 0
    assert sum(tried) >= 2
    assert PlayCounts.of(under("0.", state.arrays)).counts[:, 0].sum() == sum(tried)


def test_a_round_that_somebody_else_decided_is_charged_to_no_expert():
    rule, state = hedged_with_trials()
    model = SureOfAll(DEAR)
    view = View(model.costs_at([[0]])[0], 0.0, np.ones(2, dtype=bool), None, model)
    after = rule.step(state, view).state
    np.testing.assert_array_equal(rule.resume(after, 0).arrays["q"], state.arrays["q"])
    np.testing.assert_array_equal(rule.resume(after, after.action).arrays["q"], after.arrays["q"])


def test_the_last_round_of_an_episode_stays_charged():
    rule, state = hedged_with_trials()
    model = SureOfAll(DEAR)
    view = View(model.costs_at([[0]])[0], 0.0, np.ones(2, dtype=bool), None, model)
    after = rule.step(state, view).state
    begun = rule.begin_episode(after, 1 - after.action)
    assert begun.action == 1 - after.action
    np.testing.assert_array_equal(begun.arrays["positions"], [begun.action, begun.action])
    for name in ("q", "followed"):
        np.testing.assert_array_equal(begun.arrays[name], after.arrays[name])
        np.testing.assert_array_equal(rule.resume(begun, after.action).arrays[name], after.arrays[name])


def test_a_new_episode_changes_nothing_of_what_was_played():
    """What was played, and what came of its reading, is the same wherever the next episode begins."""
    rule = Plan(LINE, Closeness.of(0.2), trials=Trials())
    before, now = Sure([[4.0, 2.0, 3.0]], spread=1.0), Sure([[4.0, 2.0, 3.0]], spread=0.5)
    *_, (_, choice) = steps(rule, before, [0, 0, 0], start=1)
    last = choice.state
    counts = PlayCounts.of(last.arrays)
    view = View(now.costs_at([[0]])[0], 0.0, np.ones(3, dtype=bool), None, now)
    gone_on = PlayCounts.of(rule.step(last, view).state.arrays)
    for start in range(3):
        begun = rule.begin_episode(last, start)
        assert (begun.action, begun.round) == (start, 3)
        np.testing.assert_array_equal(begun.arrays["played"], counts.counts)
        twice = rule.begin_episode(begun, 2 - start)
        np.testing.assert_array_equal(twice.arrays["played"], counts.counts)
        np.testing.assert_array_equal(rule.resume(begun, 2 - start).arrays["played"], counts.counts)
        step = rule.step(begun, view)
        np.testing.assert_array_equal(PlayCounts.of(step.state.arrays).doubtful, gone_on.doubtful)
        assert "last" not in step.state.arrays
        assert PlayCounts.of(step.state.arrays).rounds == 4


def test_an_expert_hears_what_was_really_played_at_the_end_of_an_episode():
    rule = Plan(LINE, Closeness.of(0.2), trials=Trials())
    *_, (_, choice) = steps(rule, Sure([[4.0, 2.0, 3.0]]), [0, 0, 0], start=1)
    last = choice.state
    begun = rule.begin_episode(last, 2, 0)
    moved = rule.resume(last, 0)
    np.testing.assert_array_equal(begun.arrays["played"], moved.arrays["played"])
    assert last.arrays["played"][0].tolist() != moved.arrays["played"][0].tolist()


def test_what_was_played_goes_on_when_representatives_are_merged():
    played_so_far = PlayCounts(np.array([[1.0, 0.0], [0.0, 2.0]]), np.zeros((2, 2)))
    chain = Chain(np.array([[0.0], [0.1]]), np.zeros((2, 2)), np.array([1.0, 2.0]), 1)
    seen = chain.extended(np.array([5.0]), Closeness.of(1.0), capacity=2)
    merged = played_so_far.with_row(seen)
    assert merged.counts.sum() == 3.0
    assert merged.counts[seen.chain.here].tolist() == [0.0, 0.0]
    assert merged.counts[seen.heir].tolist() == [1.0, 2.0]


def test_a_reading_that_is_not_believed_leaves_doubt():
    before = Table(np.array([[4.0]]), np.array([[0.2]]), np.zeros((1, 1)), np.zeros(1))
    nothing = PlayCounts(np.ones((1, 1)), np.zeros((1, 1)))
    agreed = replace(before, expected=np.array([[3.9]]), spread=np.array([[0.1]]))
    surprised = replace(before, expected=np.array([[2.4]]), spread=np.array([[0.1]]))
    assert nothing.after_reading(0, 0, before, agreed).doubtful[0, 0] == 0.0
    dearer = replace(before, expected=np.array([[6.0]]), spread=np.array([[0.1]]))
    assert nothing.after_reading(0, 0, before, dearer).doubtful[0, 0] == 0.0  # need not be tried again
    assert nothing.after_reading(0, 0, before, surprised).doubtful[0, 0] == 1.0
    assert nothing.after_reading(0, 0, before, before).doubtful[0, 0] == 1.0


class Doubting(Sure):
    """It is surer after every trial, but believes no reading of setting 0 in context 0 any more."""

    def doubted(self):
        return frozenset({(0, (0.0,), 1.0)})

    def calibration(self):
        return None


@pytest.mark.parametrize(("model", "trials_in_context_0"), [(Sure, 1), (Doubting, 2)])
def test_an_action_whose_readings_are_all_doubted_by_now_is_tried_again(model, trials_in_context_0):
    """A reading that was believed when it came may be set aside by a later fit."""
    rule = Plan(PROBLEM, Closeness.of(0.2), trials=Trials())
    asked, contexts, tried = model(DEAR, spread=0.1), [0, 0, 0, 1, 1, 1] * 20, []
    for t, (_, choice) in enumerate(steps(rule, asked, contexts, start=1)):
        if choice.words:
            tried.append(contexts[t])
            asked.spread *= 0.9
    assert tried.count(0) == trials_in_context_0


def test_a_given_kernel_is_believed():
    from sklearn.gaussian_process.kernels import RBF

    assert planner(LINE).rule.trials == Trials()
    assert planner(LINE, kernel=hc.Kernel(RBF(1.0), RBF(1.0))).rule.trials is None
    assert planner(LINE).rule.describe()["trials"] == {"share": 0.01, "rounds": 500, "visits": 5, "plays": 3}


@pytest.mark.parametrize("days", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_resumes_to_the_last_bit(days):
    contexts = np.array(([0.0] * 10 + [1.0] * 10) * days)
    hc.testing.check_policy(lambda: hc.recommended(PROBLEM), contexts, start=1, seed=3)
    hc.testing.check_policy(lambda: planner(PROBLEM), contexts, start=1, seed=3)


@pytest.mark.parametrize("options", [{"share": -0.1}, {"share": np.nan}, {"plays": 0}, {"visits": 1.5}, {"rounds": 0}])
def test_what_cannot_be_is_refused(options):
    with pytest.raises(InvalidInput, match=next(iter(options))):
        Trials(**options)


@pytest.mark.parametrize(("apart", "hope", "moves"), [(0.5, 1.0, True), (0.5, 0.6, False), (3.0, 0.6, True)])
def test_less_is_hoped_for_where_moves_are_cheap_against_a_round(apart, hope, moves):
    """Setting 1 may be better by 0.2 than the 1.0 of setting 0, and with six tenths of the hope it may not."""
    problem = hc.Problem([0.0, apart])
    rule = Plan(problem, Closeness.of(0.2), cheap_hope=hope)
    actions = [choice.action for _, choice in steps(rule, Sure([[1.0, 1.5]], spread=np.array([0.0, 0.7])), [0] * 30)]
    assert (actions[-1] == 1) == moves
