"""A trial: who has which block, both arms as if they ran throughout, and the record that proves it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdcourse as hc
from holdcourse.deciding import promise, recipe, trial
from holdcourse.deciding.pilot import Pilot
from holdcourse.deciding.rules import Greedy, Proximal
from holdcourse.errors import InvalidInput
from holdcourse.learning.costs import KnownCosts

LINE = hc.Problem(np.linspace(0.0, 1.0, 5), scale=0.1)


def valley(context):
    return (LINE.actions[:, 0] - float(context[0])) ** 2


def follower():
    """A policy that learns nothing and goes where the context says."""
    return hc.Policy("follower", Greedy(LINE), KnownCosts(LINE, valley), LINE)


def contexts(rounds, seed=0):
    return np.random.default_rng(seed).uniform(0.0, 1.0, rounds)


def turns_of(policy, rounds, seed=0, start=0):
    """Every round's turn and action in a run of the policy."""
    pilot, found = Pilot(policy, start, seed), []
    for context in contexts(rounds):
        choice = pilot.decide(pilot.look([context])[1])
        pilot.accept(choice)
        pilot.learn(choice.action, [context], float(valley([context])[choice.action]))
        found.append((choice.turn, choice.action))
    return found


@given(block=st.integers(1, 7), pairs=st.integers(1, 6), seed=st.integers(0, 2**64 - 1))
def test_each_pair_has_one_block_of_either_arm(block, pairs, seed):
    turns = [turn for turn, _ in turns_of(hc.trial(follower(), block=block), 2 * block * pairs, seed)]
    assert [turn.block for turn in turns] == list(np.repeat(np.arange(2 * pairs), block))
    arms = np.array([turn.arm for turn in turns]).reshape(pairs, 2, block)
    assert (arms == arms[:, :, :1]).all()
    assert (arms[:, 0] + arms[:, 1] == 1).all()
    assert all(turn.predicted is None for turn in turns)


def test_a_pair_is_predicted_before_its_coin_where_a_forecast_reaches_its_end():
    model = hc.gp_md(LINE, noise_std=0.1, history=[(k, x, (0.25 * k - x) ** 2) for k in range(5) for x in (0.1, 0.9)])
    controller = hc.Controller(hc.trial(model, 0.5, block=2), start=0.5)
    ahead = np.array([[0.2], [0.8], [0.9], [0.4]])
    for t in range(5):
        decision = controller.ask(context=[0.1], forecast=ahead if t != 4 else ahead[:2])
        if t == 0:
            costs = controller.model.costs_at_optimism(np.vstack([[0.1], ahead[:3]]), 0.0)[:, 2]
            assert decision.turn.predicted == pytest.approx((costs[:2].mean(), costs[2:].mean()))
        else:
            assert decision.turn.predicted is None
        controller.tell(decision.id, None)


def test_the_coin_is_fair_and_the_seeds_own():
    first = np.array([trial.begins(seed, 24 * pair) for seed in range(40) for pair in range(50)])
    assert abs(first.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(first))
    by_seed = first.reshape(40, 50)
    assert len({tuple(row) for row in by_seed}) == 40
    late = by_seed[:, 1:] == by_seed[:, :-1]
    assert abs(late.mean() - 0.5) < 4 * 0.5 / np.sqrt(late.size)


def test_either_arm_decides_as_if_it_ran_throughout():
    alone = [action for _, action in turns_of(follower(), 60)]
    found = turns_of(hc.trial(follower(), 0.5, block=3), 60)
    before = 0
    for (turn, action), throughout in zip(found, alone, strict=True):
        assert action == (throughout if turn.arm == trial.POLICY else 2)
        if turn.arm == trial.POLICY:
            assert turn.place == before  # where it would have been, whatever the machine did
        before = throughout
    places = [turn.place for turn, _ in found if turn.arm == trial.BASELINE]
    assert set(places) <= {0, 2}
    assert places[-1] == 2


def test_a_policy_that_learns_is_told_of_both_arms():
    policy = hc.trial(hc.gp_md(LINE, noise_std=0.1), hc.planner(LINE, noise_std=0.1), block=2)
    pilot = Pilot(policy, 0, 3)
    for context in contexts(12):
        choice = pilot.decide(pilot.look([context])[1])
        pilot.accept(choice)
        pilot.learn(choice.action, [context], 1.0)
    assert [model.posterior.observations for model in pilot.model.models] == [12, 12]


@settings(max_examples=12)
@given(heard=st.sampled_from([0.0, 0.3, 1.0]), seed=st.integers(0, 2**64 - 1))
def test_an_arm_learns_from_its_own_rounds_and_from_a_share_of_the_others(heard, seed):
    policy = hc.trial(hc.gp_md(LINE, noise_std=0.1), hc.planner(LINE, noise_std=0.1), block=2, heard=heard)
    pilot, turns = Pilot(policy, 0, seed), []
    for context in contexts(24):
        choice = pilot.decide(pilot.look([context])[1])
        pilot.accept(choice)
        weight = pilot.learn(choice.action, [context], 1.0, choice.turn)
        assert (weight is None) == (choice.turn.arm == trial.BASELINE and not choice.turn.heard)
        turns.append(choice.turn)
    for model, arm in zip(pilot.model.models, (trial.POLICY, trial.BASELINE), strict=True):
        assert model.posterior.observations == sum(turn.heard or turn.arm == arm for turn in turns)
    if heard in (0.0, 1.0):
        assert {turn.heard for turn in turns} == {heard == 1.0}


def test_the_share_is_drawn_for_every_round():
    turns = [turn for turn, _ in turns_of(hc.trial(follower(), block=2, heard=0.3), 2000)]
    heard = np.array([float(turn.heard) for turn in turns])
    assert abs(heard.mean() - 0.3) < 4 * np.sqrt(0.3 * 0.7 / len(heard))
    assert abs(heard[:-1] @ heard[1:] / 1999 - 0.09) < 0.03  # whether the round before was heard says nothing
    alone = hc.trial(hc.gp_md(LINE, noise_std=0.1), 0.5, block=2, heard=0.0)
    controller = hc.Controller(alone, start=0.5, seed=2)
    for context in contexts(20):
        decision = controller.ask(context=[context])
        controller.tell(decision.id, 1.0)
        assert (controller.entry(decision.id).weight is None) == (decision.turn.whose == "baseline")
    assert controller.model.posterior.observations == 10


def test_after_the_last_block_the_policy_runs_alone():
    found = turns_of(hc.trial(follower(), block=2, blocks=4), 20)
    assert all(turn is not None for turn, _ in found[:8])
    assert all(turn is None for turn, _ in found[8:])
    assert [action for _, action in found[8:]] == [action for _, action in turns_of(follower(), 20)[8:]]


def test_whoever_moves_the_machine_moves_the_arm_whose_turn_it_is():
    pilot = Pilot(hc.trial(follower(), 0.5, block=1), 2, 0)
    for context in (0.0, 0.0):
        choice = pilot.decide(pilot.look([context])[1])
        pilot.accept(choice)
        other = 1 - choice.turn.arm
        kept = pilot.state.arrays["places"][other]
        pilot.move_to(4)
        assert pilot.state.action == 4
        assert pilot.state.arrays["places"][choice.turn.arm] == 4
        assert pilot.state.arrays["places"][other] == kept


@pytest.mark.parametrize("baseline", [None, 0.5, "operators", "policy"])
def test_an_episode_begins_for_both_arms_alike(baseline):
    """Whosever turn it is: each arm decides, and is charged for its ways, as if it ran throughout."""
    other = hc.Policy("lagging", Proximal(LINE, 2.0), KnownCosts(LINE, valley), LINE)
    given = other if baseline == "policy" else baseline
    pilot = Pilot(hc.trial(follower(), given, block=2), 2, 0)
    alone = [Pilot(other if baseline == "policy" else hc.stationary(LINE), 2, 0), Pilot(follower(), 2, 0)]
    for t, context in enumerate(contexts(24)):
        if t % 5 == 3:
            for each in (pilot, *alone):
                each.new_episode(t % 4)
            assert pilot.state.action == t % 4
            np.testing.assert_array_equal(pilot.state.arrays["places"], [t % 4, t % 4])
        own = [each.state.action for each in alone]
        choice = pilot.decide(pilot.look([context])[1])
        pilot.accept(choice)
        for each in alone:
            each.accept(each.decide(each.look([context])[1]))
        if choice.turn.whose == "policy" or baseline in (None, "policy"):
            assert choice.turn.place == own[choice.turn.arm]
            assert choice.action == alone[choice.turn.arm].state.action


def test_people_as_the_baseline_say_where_they_put_the_machine(tmp_path):
    policy = hc.trial(hc.gp_md(LINE), "operators", block=2)
    controller = hc.Controller(policy, start=0.5, seed=5, log=tmp_path / "trial.log")
    theirs = []
    for t in range(16):
        decision = controller.ask(context=[0.2])
        if decision.turn.whose == "baseline":
            assert "people run the machine" in controller.explain(decision.id).words
            theirs.append((decision.turn.place, t))
            controller.tell(decision.id, 1.0, applied=1.0 if len(theirs) % 2 else 0.75)
        else:
            controller.tell(decision.id, 1.0)
    # Their own place is where they left the machine, not where the policy took it meanwhile.
    assert [place for place, _ in theirs] == [2, *[4, 3] * 3, 4][: len(theirs)]


@pytest.mark.parametrize(
    "baseline", [None, 0.75, "operators", "policy"], ids=["staying", "setting", "people", "policy"]
)
def test_a_trial_can_be_saved_and_its_record_checked_alone(tmp_path, baseline):
    other = hc.planner(LINE, noise_std=0.1) if baseline == "policy" else baseline
    made = hc.trial(hc.gp_md(LINE, noise_std=0.1), other, block=3, blocks=6, heard=0.4)
    made.save(tmp_path / "trial.policy")
    again = hc.load_policy(tmp_path / "trial.policy")
    assert again.fingerprint == made.fingerprint
    assert recipe.make(recipe.describe(made)).fingerprint == made.fingerprint
    turns, path = [], tmp_path / "trial.log"
    for part in (contexts(11), contexts(9, 1)):  # the program ends in the middle of a block
        with hc.Controller(again, start=0.25, seed=8, log=path) as controller:
            for context in part:
                decision = controller.ask(context=[context])
                turns.append(decision.turn)
                controller.tell(decision.id, float(valley([context])[decision.action]), reference=context)
    undisturbed = hc.Controller(made, start=0.25, seed=8)
    for context, turn in zip([*contexts(11), *contexts(9, 1)], turns, strict=True):
        decision = undisturbed.ask(context=[context])
        assert decision.turn == turn
        undisturbed.tell(decision.id, float(valley([context])[decision.action]))
    assert hc.audit.verify(path).verified


def test_an_assignment_that_was_not_the_coins_is_found(tmp_path, monkeypatch):
    path = tmp_path / "trial.log"
    with monkeypatch.context() as changed:
        changed.setattr(trial, "begins", lambda seed, first: trial.POLICY)
        with hc.Controller(hc.trial(hc.stationary(LINE), 0.0, block=2), seed=1, log=path) as controller:
            for context in contexts(16):
                controller.tell(controller.ask(context=[context]).id, 1.0)
    found = hc.audit.verify(path)  # what was done is the same: both arms stay at 0
    assert not found.verified
    assert "turn was Turn(block=" in found.differences[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"block": 0}, "block must be a whole number, 1 or more, got 0"),
        ({"block": 2, "blocks": 3}, "blocks must be even, because they come in pairs, .* got 3"),
        ({"block": 2, "heard": 1.1}, "heard must be a share of the other arm's rounds, from 0 to 1, got 1.1"),
        ({"block": 2, "heard": None}, "heard must be a share"),
        ({"block": 2, "baseline": 0.6}, "0.6"),
        ({"block": 2, "baseline": hc.md_known(LINE)}, "MD-Known needs the true costs"),
        ({"block": 2, "baseline": hc.stationary(LINE), "baseline_index": 1}, "give baseline or baseline_index"),
        (
            {"block": 2, "baseline": hc.stationary(hc.Problem([0.0, 1.0]))},
            "and follower were made for different problems",
        ),
        ({"block": 2, "baseline": hc.gp_md(LINE, maximise=True)}, "one treats them as gains and the other as costs"),
    ],
)
def test_what_cannot_be_tried_is_refused(options, words):
    with pytest.raises(InvalidInput, match=words):
        hc.trial(follower(), **options)


def test_a_reference_is_one_number_and_told_once(tmp_path):
    controller = hc.Controller(hc.stationary(LINE), log=tmp_path / "a.log")
    decision = controller.ask(context=[0.1])
    with pytest.raises(InvalidInput, match="reference must be one finite number"):
        controller.tell(decision.id, 1.0, reference=float("nan"))
    controller.tell(decision.id, 1.0, reference=7.5)
    controller.tell(decision.id, 1.0, reference=7.5)
    with pytest.raises(hc.errors.Conflict, match=r"was told with reference=7\.5, and now with reference=8\.0"):
        controller.tell(decision.id, 1.0, reference=8.0)


def test_what_an_arm_only_wished_was_not_played():
    """The promise steps out from what was really played, and a plan counts what was really tried."""
    line = hc.Problem(np.linspace(0.0, 10.0, 21), scale=0.02)
    policy = hc.trial(hc.recommended(line), block=2)
    pilot, played = Pilot(policy, 0, 3), {0}
    for t in range(40):
        choice = pilot.decide(pilot.look([0.1 * (t % 7)])[1])
        pilot.accept(choice)
        pilot.learn(choice.action, [0.1 * (t % 7)], 5.0 - 0.2 * choice.action)
        reach = choice.state.arrays["1.reach"]
        assert set(np.flatnonzero(reach == promise.PLAYED)) == played
        played.add(choice.action)
    assert len(played) > 2
