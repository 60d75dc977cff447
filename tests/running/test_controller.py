"""The controller: pending, repeated and skipped decisions, overrides, limits, the guard, explanations, saved states."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
import zipfile

import numpy as np
import pytest
from helpers.driving import HISTORY, KERNEL, LINE, POLICIES, half_rounds, operation_of, question, seen, state_of

import holdcourse as hc
from holdcourse import archive
from holdcourse.errors import Conflict, DamagedFile, HoldcourseError, InvalidInput, NoActionLeft
from holdcourse.running import session
from holdcourse.running.decision import Order, Request
from holdcourse.running.events import Episode, Redirect, Tell
from holdcourse.running.retraction import Recent
from holdcourse.running.session import KEPT_ENTRIES, Session, Wish, asked

COSTS = [3.0, 1.0, 2.0, 5.0, 4.0, 6.0]


def known(**options):
    return hc.Controller(hc.minc_known(LINE), **options)


def learner(method="exact", policy=hc.gp_md, start=2, seed=1, **options):
    made = policy(
        LINE, kernel=KERNEL, noise_std=0.2, method=method, context_bounds=None if method == "exact" else (0, 1)
    )
    return hc.Controller(made, start_index=start, seed=seed, **options)


def wants(action):
    """Costs under which a greedy policy wants this action."""
    return [0.0 if x == action else 1.0 for x in range(LINE.n)]


def mask(*actions):
    return np.isin(np.arange(LINE.n), actions)


def learned(controller):
    """What an exact posterior has been told, as (action, context, measurement)."""
    history = operation_of(controller).session.pilot.model.posterior.history
    columns = (history.actions, history.contexts.reshape(-1), history.measurements)
    return list(zip(*(column.tolist() for column in columns), strict=True))


# -- one decision ------------------------------------------------------------------------------------------------------


def test_a_decision_says_what_to_do():
    controller = known(start_index=3)
    decision = controller.ask(costs=COSTS)
    assert (decision.id, decision.round, decision.episode) == ("r0", 0, 0)
    assert (decision.action, decision.value, decision.wanted) == (1, 0.2, 1)
    assert decision.expected_cost == 1.0
    assert decision.movement == pytest.approx(0.4)
    assert decision.limited_by is None
    assert decision.probabilities.tolist() == [0, 1, 0, 0, 0, 0]
    assert controller.action == 1
    assert controller.round == 1
    assert [d.id for d in controller.pending] == ["r0"]
    assert "round 1" in repr(controller)
    assert "1 pending" in repr(controller)


def test_the_same_question_gets_the_same_decision_until_it_is_told():
    controller = learner()
    first = controller.ask(0.5, allowed=mask(0, 2, 4))
    before = state_of(controller)
    for context in (0.5, np.float64(0.5), np.array(0.5)):
        assert controller.ask(context, allowed=mask(0, 2, 4).tolist()) is first
    assert controller.ask(0.5, allowed=mask(0, 2, 4), round=0) is first
    assert state_of(controller) == before
    controller.tell("r0", 1.0)
    assert controller.ask(0.5, allowed=mask(0, 2, 4)).id == "r1"


@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [
        ({"context": 0.5}, {"context": 0.6}, ["asked with context 0.5,", "now with context 0.6;"]),
        (
            {"context": 0.5},
            {"context": 0.5, "allowed": mask(1, 2)},
            ["asked with allowed all settings,", "now with allowed 0.2, 0.4;"],
        ),
        (
            {"context": 0.5, "allowed": mask(1, 3)},
            {"context": 0.5, "allowed": mask(1, 2)},
            ["allowed 0.2, 0.6", "allowed 0.2, 0.4"],
        ),
        ({"context": 0.5}, {"context": 0.5, "forecast": [0.1]}, ["asked with no forecast,", "now with forecast"]),
        ({"context": 0.5}, {}, ["asked with context 0.5,", "now with no context;"]),
    ],
)
def test_another_question_for_a_pending_round_is_a_conflict_that_names_both(first, second, shown):
    controller = learner()
    controller.ask(**first)
    before = state_of(controller)
    with pytest.raises(Conflict) as error:
        controller.ask(**second)
    for text in ["round 0", *shown]:
        assert text in str(error.value)
    assert state_of(controller) == before


def test_other_costs_for_a_pending_round_are_a_conflict():
    controller = known()
    controller.ask(costs=COSTS)
    assert controller.ask(costs=np.array(COSTS)).id == "r0"
    with pytest.raises(Conflict, match="costs"):
        controller.ask(costs=[*COSTS[1:], 0.0])


def test_decisions_cannot_be_written_to():
    controller = learner()
    decision = controller.ask(0.5)
    for array in (decision.probabilities, controller.explain("r0").bounds, controller.explain("r0").mean):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9.0


# -- telling -----------------------------------------------------------------------------------------------------------


def test_telling_twice_the_same_is_fine_and_learned_once():
    controller = learner()
    decision = controller.ask(0.5)
    controller.tell("r0", 1.5)
    before = state_of(controller)
    controller.tell("r0", 1.5)
    controller.tell("r0", np.float64(1.5), applied=None)
    assert state_of(controller) == before
    assert learned(controller) == [(decision.action, 0.5, 1.5)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"measurement": 1.5}, {"measurement": 1.6}),
        ({"measurement": 1.5}, {"measurement": None}),
        ({"measurement": None}, {"measurement": 1.5}),
        ({"measurement": 1.5}, {"measurement": 1.5, "applied_index": 3}),
        ({"measurement": 1.5, "applied_index": 3}, {"measurement": 1.5}),
        ({"measurement": 1.5, "applied_index": 3}, {"measurement": 1.5, "applied_index": 4}),
    ],
)
def test_telling_something_else_is_a_conflict_that_names_both(first, second):
    controller = learner()
    controller.ask(0.5)
    controller.tell("r0", **first)
    before = state_of(controller)
    with pytest.raises(Conflict) as error:
        controller.tell("r0", **second)
    for told, other in ((first, second), (second, first)):
        if told["measurement"] != other["measurement"]:
            said = "no measurement" if told["measurement"] is None else f"measurement {told['measurement']}"
            assert f"with {said}" in str(error.value)
        if told.get("applied_index") != other.get("applied_index"):
            ran = "no applied" if "applied_index" not in told else f"applied {LINE.value(told['applied_index'])}"
            assert ran in str(error.value)
    assert state_of(controller) == before


def test_a_skipped_round_is_not_learned():
    controller = learner()
    controller.ask(0.5)
    controller.tell("r0", None)
    assert controller.pending == []
    assert learned(controller) == []
    assert controller.ask(0.5).round == 1


def test_an_override_is_learned_where_it_was_applied_and_the_rule_begins_again_there():
    controller = learner()
    decision = controller.ask(0.5)
    other = (decision.action + 2) % LINE.n
    controller.tell("r0", 1.5, applied_index=np.int64(other))
    assert learned(controller) == [(other, 0.5, 1.5)]
    assert controller.action == other
    pilot = operation_of(controller).session.pilot
    assert (pilot.state.action, pilot.state.round) == (other, 1)
    assert pilot.state.arrays["q"].tobytes() == hc.mirror.start(pilot.rule.tree, other).tobytes()


def test_an_override_without_a_measurement_still_moves_the_machine():
    controller = learner()
    controller.ask(0.5)
    controller.tell("r0", None, applied_index=5)
    assert controller.action == operation_of(controller).session.pilot.state.action == 5
    assert learned(controller) == []


def test_applying_what_was_decided_is_no_override():
    one, two = learner(), learner()
    for controller in (one, two):
        controller.ask(0.5)
    one.tell("r0", 1.5)
    two.tell("r0", 1.5, applied_index=two.action)
    states = [operation_of(controller).session.pilot.state for controller in (one, two)]
    assert states[0].arrays["q"].tobytes() == states[1].arrays["q"].tobytes()
    assert one.ask(0.3).probabilities.tobytes() == two.ask(0.3).probabilities.tobytes()


@pytest.mark.parametrize(
    ("decision_id", "message"),
    [
        ("r1", r"there is no decision 'r1'; decisions that wait for a measurement: r0"),
        ("r00", "there is no decision 'r00'"),
        ("r", "there is no decision 'r'"),
        ("0", "there is no decision '0'"),
        ("r-1", "there is no decision 'r-1'"),
        ("r" + "9" * 6000, "there is no decision 'r999"),
        (0, "named by its id, e.g. 'r0', not by a int"),
        (None, "not by a NoneType"),
    ],
)
def test_unknown_ids(decision_id, message):
    controller = learner()
    controller.ask(0.5)
    before = state_of(controller)
    for call in (lambda: controller.tell(decision_id, 1.0), lambda: controller.explain(decision_id)):
        with pytest.raises(InvalidInput, match=message):
            call()
    assert state_of(controller) == before


def test_a_decision_instead_of_its_id_is_refused_in_words():
    controller = learner()
    with pytest.raises(InvalidInput, match=r"not by a Decision$"):
        controller.tell(controller.ask(0.5), 1.0)


# -- several pending ---------------------------------------------------------------------------------------------------


def test_only_so_many_may_be_pending():
    controller = learner(max_pending=2)
    controller.ask(0.1, round=0)
    controller.ask(0.2, round=1)
    before = state_of(controller)
    with pytest.raises(InvalidInput, match=r"r0, r1 still wait .* skip them with tell\(id, None\)"):
        controller.ask(0.3, round=2)
    assert state_of(controller) == before
    controller.tell("r1", 1.0)
    assert controller.ask(0.3, round=2).id == "r2"
    assert [d.id for d in controller.pending] == ["r0", "r2"]


def test_with_several_pending_the_round_must_be_named():
    controller = learner(max_pending=3)
    with pytest.raises(InvalidInput, match="say which round you ask for"):
        controller.ask(0.1)
    controller.ask(0.1, round=0)
    with pytest.raises(InvalidInput, match="round 2 cannot be decided yet; the next one is 1"):
        controller.ask(0.1, round=2)
    for wrong in (-1, 1.0, "1", True):
        with pytest.raises(InvalidInput, match="round must be a whole number, 0 or more"):
            controller.ask(0.1, round=wrong)


def test_an_old_round_asked_again_gives_the_old_decision():
    controller = learner(max_pending=3)
    first = controller.ask(0.1, round=0)
    controller.ask(0.2, round=1)
    assert controller.ask(0.1, round=0) is first
    controller.tell("r0", 1.0)
    assert controller.ask(0.1, round=0) is first
    with pytest.raises(Conflict, match=r"round 0 was asked with context 0.1, and now with"):
        controller.ask(0.2, round=0)


def test_late_and_out_of_order_tells_are_learned_as_they_come():
    controller = learner(max_pending=3)
    decisions = [controller.ask(0.1 * (t + 1), round=t) for t in range(3)]
    controller.tell("r2", 2.0)
    controller.tell("r0", 0.0, applied_index=5)
    controller.tell("r1", 1.0)
    assert [(a, round(c, 9), y) for a, c, y in learned(controller)] == [
        (decisions[2].action, 0.3, 2.0),
        (5, 0.1, 0.0),
        (decisions[1].action, 0.2, 1.0),
    ]


def test_a_late_override_does_not_move_the_machine_or_the_rule():
    controller = learner(max_pending=2)
    controller.ask(0.1, round=0)
    newest = controller.ask(0.2, round=1)
    rule = operation_of(controller).session.pilot.state
    controller.tell("r0", 1.0, applied_index=(newest.action + 1) % LINE.n)
    assert controller.action == newest.action
    assert operation_of(controller).session.pilot.state is rule


def test_a_late_override_counts_for_the_limits():
    """Told in round 2 that round 0 was not followed, the move really happened in round 1: dwell runs from there."""
    controller = known(start_index=0, max_pending=2, limits=hc.Limits(min_dwell=2))
    controller.ask(costs=wants(3), round=0)
    controller.ask(costs=wants(3), round=1)
    controller.tell("r0", 1.0, applied_index=0)
    late = controller.ask(costs=wants(5), round=2)
    assert (late.action, late.limited_by) == (3, "min_dwell")
    undisturbed = known(start_index=0, max_pending=2, limits=hc.Limits(min_dwell=2))
    undisturbed.ask(costs=wants(3), round=0)
    undisturbed.ask(costs=wants(3), round=1)
    undisturbed.tell("r0", 1.0)
    assert undisturbed.ask(costs=wants(5), round=2).action == 5


@pytest.mark.parametrize("max_pending", [0, -1, 1.5, True, None])
def test_wrong_max_pending(max_pending):
    with pytest.raises(InvalidInput, match="max_pending must be a whole number, 1 or more"):
        known(max_pending=max_pending)


def test_memory_is_bounded_and_old_decisions_say_so():
    controller = known(max_pending=2)
    forgotten = controller.ask(costs=COSTS, round=0)
    for t in range(1, 3 * KEPT_ENTRIES):
        controller.ask(costs=COSTS, round=t)
        controller.tell(f"r{t}", 1.0)
    assert len(operation_of(controller).session.entries) <= KEPT_ENTRIES + 2
    assert [d.id for d in controller.pending] == ["r0"]
    controller.tell(forgotten.id, 7.0)  # pending ones are never let go
    with pytest.raises(
        InvalidInput,
        match=f"r1 was told long ago, or before prices were changed; only the newest {KEPT_ENTRIES} decisions are kept",
    ):
        controller.tell("r1", 1.0)


@pytest.mark.parametrize("name", ["gp_md flat", "md_known", "stationary", "work_function"])
def test_the_state_does_not_grow(name):
    controller = hc.Controller(POLICIES[name](), start_index=1, seed=3)
    for _ in half_rounds(controller, name, 2 * KEPT_ENTRIES):
        pass
    early = len(state_of(controller))
    for _ in half_rounds(controller, name, 6 * KEPT_ENTRIES):
        pass
    assert len(state_of(controller)) < 1.02 * early


# -- limits in the loop ------------------------------------------------------------------------------------------------


def test_the_rule_goes_its_own_way_behind_the_limits():
    free, held = (
        hc.Controller(hc.md_known(LINE), start_index=0, seed=4, limits=limits)
        for limits in (None, hc.Limits(min_dwell=4, max_step=0.2))
    )
    random = np.random.default_rng(0)
    limited = 0
    for _ in range(60):
        costs = random.exponential(3.0, LINE.n)
        one, two = free.ask(costs=costs), held.ask(costs=costs)
        assert one.action == one.wanted == two.wanted
        assert one.probabilities.tobytes() == two.probabilities.tobytes()
        limited += two.limited_by is not None
        free.tell(one.id, 1.0)
        held.tell(two.id, 1.0)
    assert limited > 10


def test_an_override_that_stays_is_no_move():
    controller = known(start_index=0, limits=hc.Limits(min_dwell=3, max_moves=1, window=3))
    controller.ask(costs=wants(3))
    controller.tell("r0", 1.0, applied_index=0)  # the operator stayed: neither dwell nor a move is counted
    assert controller.ask(costs=wants(3)).action == 3


def test_an_override_that_moves_is_a_move():
    controller = known(start_index=0, limits=hc.Limits(min_dwell=3))
    controller.ask(costs=wants(0))
    controller.tell("r0", 1.0, applied_index=4)
    decision = controller.ask(costs=wants(0))
    assert (decision.action, decision.limited_by) == (4, "min_dwell")


def test_an_override_outside_the_limits_is_a_fact_to_go_on_from():
    controller = known(start_index=0, limits=hc.Limits(max_step=0.25))
    controller.ask(costs=wants(0), allowed=mask(0, 1))
    controller.tell("r0", 1.0, applied_index=5)
    assert controller.ask(costs=wants(0)).action == 4


def test_no_action_left_changes_nothing_and_can_be_mended():
    controller = known(start_index=0, limits=hc.Limits(max_step=0.25))
    before = state_of(controller)
    with pytest.raises(NoActionLeft, match=r"no allowed setting is within max_step \(0\.25, which costs 0\.25\) of 0;"):
        controller.ask(costs=COSTS, allowed=mask(4, 5))
    assert state_of(controller) == before
    assert controller.ask(costs=COSTS, allowed=mask(1, 5)).action == 1


def test_infinite_costs_forbid_like_a_mask():
    """Limits would rather play action 2 or stay at 0, but these cost infinitely much."""
    controller = known(start_index=0, limits=hc.Limits(max_step=0.5, min_dwell=5))
    decision = controller.ask(costs=[np.inf, 2.0, np.inf, np.inf, 1.0, np.inf])
    assert (decision.wanted, decision.action, decision.limited_by) == (4, 1, "max_step")


def test_limits_count_from_what_the_machine_was_told_to_do(tmp_path):
    options = {"start": 0, "max_pending": 3, "limits": hc.Limits(max_step=0.25), "log": tmp_path / "record"}
    with known(**options) as controller:
        for number in range(3):  # it stays, so every proposal is one step from there
            assert controller.ask(costs=wants(5), round=number, watching=True).action == 1
            assert controller.action == 0
        controller.tell("r0", 1.0)
        controller.tell("r2", 1.0, applied_index=1)  # somebody moved it after all
        assert controller.action == 1
        assert controller.ask(costs=wants(5), round=3).action == 2
        expected = state_of(controller)
    with known(**options) as again:
        assert state_of(again) == expected
        again.tell("r3", 1.0)
        with pytest.raises(InvalidInput):
            again.ask(costs=wants(5), round=4, instructed_index=LINE.n)
    assert hc.audit.verify(tmp_path / "record").verified


def test_a_new_episode_begins_limits_and_cool_down_afresh():
    controller = known(
        start=0,
        limits=hc.Limits(min_dwell=5, max_moves=1, window=9),
        guard=hc.Guard(10.0, revert_to_index=5, cool_down=9),
    )
    controller.ask(costs=wants(3))
    controller.tell("r0", 99.0)
    assert controller.ask(costs=wants(1)).limited_by == "min_dwell"
    controller.tell("r1", 0.0)
    controller.new_episode(start_index=2)
    assert controller.episode == 1
    assert controller.action == 2
    decision = controller.ask(costs=wants(4))
    assert (decision.action, decision.episode, decision.round, decision.limited_by) == (4, 1, 2, None)
    controller.tell(decision.id, 0.0)
    assert controller.ask(costs=wants(1)).limited_by == "min_dwell"


def test_a_new_episode_waits_for_pending_decisions():
    controller = known()
    controller.ask(costs=COSTS)
    before = state_of(controller)
    with pytest.raises(InvalidInput, match=r"r0 still waits"):
        controller.new_episode(start_index=1)
    with pytest.raises(InvalidInput, match=r"start_index=6 is not an index from 0 to 5"):
        controller.new_episode(start_index=6)
    with pytest.raises(InvalidInput, match="start=6 is not a setting"):
        controller.new_episode(6)
    assert state_of(controller) == before


# -- whoever wants it --------------------------------------------------------------------------------------------------


def test_an_instruction_passes_through_the_limits(tmp_path):
    options = {"start": 0, "limits": hc.Limits(max_step=0.5), "log": tmp_path / "record"}
    with known(**options) as controller:
        decision = controller.ask(costs=wants(1), instructed_index=5)
        assert (decision.action, controller.action) == (1, 2)
        assert controller.entry("r0").order == Order(5, 2, "max_step")
        assert "sends the machine to 0.4; 1 was wanted, but max_step forbids it" in controller.explain("r0").words
        controller.tell("r0", 1.0)
        controller.ask(costs=wants(1), instructed_index=4, allowed=mask(0, 1, 2, 3))
        assert (controller.action, controller.entry("r1").order.limited_by) == (3, "allowed")
        expected = state_of(controller)
    with known(**options) as again:
        assert state_of(again) == expected
    assert hc.audit.verify(tmp_path / "record").verified
    assert hc.replay(tmp_path / "record", "minc-known").recorded.movement == pytest.approx(0.6)


def test_force_goes_anywhere_and_is_recorded_with_its_reason(tmp_path):
    with known(start_index=0, limits=hc.Limits(max_step=0.25), log=tmp_path / "record") as controller:
        controller.ask(costs=wants(1), instructed_index=5, force="fire", allowed=mask(0, 1))
        assert (controller.action, controller.entry("r0").order) == (5, Order(5, 5, None, "fire"))
        assert "sends the machine to 1 by force, whatever the limits say: fire" in controller.explain("r0").words
        controller.tell("r0", 1.0)
        controller.new_episode(start_index=0, force="towed back")
        (asked, _, episode) = controller.log.events()
    assert asked.body.order == Order(5, 5, limited_by=None, force="fire")
    assert episode.body == Episode(start=0, force="towed back")
    assert hc.audit.verify(tmp_path / "record").verified


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"force": "fire"}, "give instructed= too"),
        ({"watching": True, "instructed_index": 1}, "leave out instructed and force"),
        ({"watching": True, "force": "fire"}, "leave out instructed and force"),
        ({"instructed": 0.2, "force": " "}, "force must be the reason in words, got ' '"),
        ({"instructed_index": 1, "force": True}, "force must be the reason in words, got True"),
        ({"instructed": 6}, "instructed=6 is not a setting"),
        ({"instructed_index": 6}, "instructed_index=6 is not an index from 0 to 5"),
    ],
)
def test_orders_that_make_no_sense_are_refused(options, message):
    controller = known()
    before = state_of(controller)
    with pytest.raises(InvalidInput, match=message):
        controller.ask(costs=COSTS, **options)
    assert state_of(controller) == before


def test_watching_stays_where_limits_would_not_let_it():
    controller = known(start_index=5, limits=hc.Limits(max_step=0.25))
    assert controller.ask(costs=COSTS, allowed=mask(4), watching=True).action == 4
    assert controller.action == 5  # a fact, not a command
    assert controller.permitted(wanted_index=0) == Order(0, 4, "allowed")


def test_force_leads_out_where_nothing_is_in_reach():
    controller = known(start_index=0, limits=hc.Limits(max_step=0.25))
    for wish in ({}, {"instructed": 1.0}):
        with pytest.raises(NoActionLeft, match="or force the move"):
            controller.ask(costs=COSTS, allowed=mask(5), **wish)
    decision = controller.ask(costs=COSTS, allowed=mask(5), instructed_index=5, force="the way is clear")
    assert (decision.action, decision.limited_by, controller.action) == (0, "max_step", 5)
    controller.tell(decision.id, 1.0, applied_index=0)
    assert controller.ask(costs=COSTS, allowed=mask(5), watching=True).limited_by == "max_step"
    assert controller.action == 0


def test_an_episode_begins_within_reach_or_by_force(tmp_path):
    options = {"start_index": 0, "limits": hc.Limits(max_step=0.25), "log": tmp_path / "record"}
    with known(**options) as controller:
        controller.tell(controller.ask(costs=wants(0), allowed=mask(0, 2, 3, 4, 5)).id, 1.0)
        before = state_of(controller)
        far = r"going to 1 from 0, where the machine is, costs 1, but .* or force it"
        with pytest.raises(InvalidInput, match=far):
            controller.new_episode(start_index=5)
        with pytest.raises(InvalidInput, match=r"0\.2 was not allowed in the newest round; .* or force it"):
            controller.new_episode(start_index=1)
        with pytest.raises(InvalidInput, match="force must be the reason"):
            controller.new_episode(start_index=1, force="")
        assert state_of(controller) == before
    with known(**options) as again:  # the newest mask is known after a restart
        with pytest.raises(InvalidInput, match="not allowed"):
            again.new_episode(start_index=1)
        again.new_episode(start_index=0)
        again.new_episode(start_index=1, force="by hand")
        assert again.action == 1
    assert hc.audit.verify(tmp_path / "record").verified


def far_behind(path):
    """A controller whose rule went on to the other end, while the dwell time kept the machine."""
    policy = hc.planner_known(LINE, max_step=0.4)
    controller = hc.Controller(policy, start=0.0, limits=hc.Limits(min_dwell=9, max_step=0.4), log=path)
    for _ in range(4):
        controller.tell(controller.ask(0.5, costs=[9.0, 8.0, 7.0, 6.0, 5.0, 0.0]).id, None)
    assert (controller.setting, controller.entry("r3").decision.wanted_value) == (0.4, 1.0)
    return controller


def test_what_the_machine_can_reach_is_allowed_wherever_the_rule_stands(tmp_path):
    controller = far_behind(tmp_path / "record")
    decision = controller.ask(0.5, costs=COSTS, allowed=[0.0])
    assert (decision.value, decision.limited_by) == (0.0, None)
    controller.close()
    assert hc.audit.verify(tmp_path / "record").verified


@pytest.mark.parametrize("wish", [{"watching": True}, {"instructed": 0.2, "force": "storm"}, {}, {"instructed": 0.2}])
def test_a_decision_that_nobody_heeds_need_not_be_in_reach_of_the_rule(tmp_path, wish):
    controller = far_behind(tmp_path / "record")
    controller.new_episode(0.0)
    if wish == {"watching": True} or "force" in wish:
        controller.ask(0.5, costs=COSTS, allowed=[1.0], **wish)
        assert controller.setting == (0.2 if "force" in wish else 0.0)
    else:
        before = state_of(controller)
        with pytest.raises(NoActionLeft, match="of 0"):
            controller.ask(0.5, costs=COSTS, allowed=[1.0], **wish)
        assert state_of(controller) == before
    controller.close()
    assert hc.audit.verify(tmp_path / "record").verified


def interrupted(call, within, nth):
    """Interrupt a call at the nth call that a function makes, also in others that it calls; says whether there was one.

    So a user presses Ctrl-C in the middle of it.
    """
    made = -1

    def look(frame, event, _):
        nonlocal made
        if event == "return" and frame.f_code is within.__code__:
            sys.setprofile(None)
        elif event == "call" and (made >= 0 or frame.f_code is within.__code__):
            # A generator that is being thrown away would swallow the interruption.
            made += "holdcourse" in frame.f_code.co_filename and not frame.f_code.co_flags & inspect.CO_GENERATOR
            if made == nth:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(look)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


@pytest.mark.parametrize("retracted", [False, True])
@pytest.mark.parametrize(
    "name", ["gp_md flat", "gp_md exact", "gp_md fitting", "gp_md by episode", "gp_md with history", "cgp_lcb", "trial"]
)
def test_a_step_that_is_interrupted_without_a_record_has_not_happened(name, retracted):
    controllers = [hc.Controller(POLICIES[name](), start_index=1, seed=3) for _ in range(2)]
    for each in controllers:
        for _ in half_rounds(each, name, 5):
            pass
        if retracted:
            each.retract(next(f"r{t}" for t in range(5) if each.entry(f"r{t}").told[0] is not None), "unplugged")
    controller, undisturbed = controllers
    steps = [
        (Session.accept, lambda c: c.ask(context=5.0)),  # decided and kept by then, as in a record
        (Session.redirect, lambda c: c.redirect(wanted_index=4)),
        (Session.learn, lambda c: c.tell("r5", 1.5, applied_index=2)),
        (Session.start_episode, lambda c: c.new_episode(start_index=3)),
        (Session.change, lambda c: c.change(limits=hc.Limits(min_dwell=2))),
    ]
    for within, step in steps:
        before = state_of(controller)
        step(undisturbed)
        nth, times = 0, 0
        while interrupted(lambda step=step: step(controller), within, nth):
            assert state_of(controller) == (state_of(undisturbed) if within is Session.accept else before)
            nth, times = max(nth + 1, 2 * nth), times + 1
            if within is Session.accept:
                break
        assert times > 0
        step(controller) if within is Session.accept else None  # asked again, the answer is the same
        assert state_of(controller) == state_of(undisturbed)


@pytest.mark.parametrize(
    "step", [lambda c: c.redirect(wanted_index=4), lambda c: c.tell("r5", 1.5, reference=0.5)], ids=["redirect", "tell"]
)
def test_an_interrupted_step_leaves_a_decision_as_it_was_before_a_retraction(step):
    """What was expected of a pending decision was expected with a measurement that has been taken back since."""
    controller = hc.Controller(POLICIES["gp_md exact"](), start_index=1, seed=3)
    for _ in half_rounds(controller, "gp_md exact", 5):
        pass
    controller.ask(context=0.3)
    controller.retract(next(f"r{t}" for t in range(5) if controller.entry(f"r{t}").told[0] is not None), "unplugged")
    before = state_of(controller)
    assert interrupted(lambda: step(controller), Recent.add, 0)
    assert state_of(controller) == before


def test_a_recovery_that_is_interrupted_too_is_made_up_for():
    controller = learner()
    decision = controller.ask(context=0.3)
    before = state_of(controller)
    with pytest.MonkeyPatch.context() as patched:

        def twice(*_):
            raise KeyboardInterrupt

        patched.setattr(Recent, "relived", twice)
        assert interrupted(lambda: controller.tell(decision.id, 1.0), Session.learn, 5)
    controller.tell(decision.id, 1.0)
    assert len(learned(controller)) == 1
    assert state_of(controller) != before


def test_every_move_within_a_round_is_one_of_max_moves(tmp_path):
    """Sending the machine back and forth within a round must not go around the limit."""
    options = {"start": 0, "limits": hc.Limits(max_moves=2, window=10), "log": tmp_path / "record"}
    with known(**options) as controller:
        controller.ask(costs=wants(1))  # the first
        assert controller.redirect(wanted_index=0) == Order(0, 0)  # the second, back to where it came from
        for k in range(12):
            assert controller.redirect(wanted_index=k % 2) == Order(k % 2, 0, "max_moves" if k % 2 else None)
        controller.tell("r0", 1.0)
        for t in range(1, 10):  # the ten rounds in which no more than two moves may be are those from 0 to 9
            decision = controller.ask(costs=wants(1))
            assert (decision.action, decision.limited_by) == (0, "max_moves")
            assert controller.permitted(wanted_index=1) == Order(1, 0, "max_moves")
            assert controller.redirect(wanted_index=1) == Order(1, 0, "max_moves")
            controller.tell(decision.id, 1.0)
            assert controller.permitted(wanted_index=1).action == (0 if t < 9 else 1)  # of the next round
        assert controller.ask(costs=wants(1)).action == 1
        assert controller.redirect(wanted_index=2).action == 2
        expected = state_of(controller)
    with known(**options) as again:
        assert state_of(again) == expected
        assert again.redirect(wanted_index=1) == Order(1, 2, "max_moves")
    assert hc.audit.verify(tmp_path / "record").verified


def test_a_machine_sent_elsewhere_within_a_round(tmp_path):
    options = {"start": 0, "limits": hc.Limits(max_step=0.5), "log": tmp_path / "record"}
    with known(**options) as controller:
        with pytest.raises(InvalidInput, match="no round is in progress"):
            controller.redirect(wanted_index=3)
        controller.ask(costs=wants(1), allowed=mask(0, 1, 2, 4, 5))
        assert controller.redirect(wanted_index=5) == Order(5, 2, "max_step")
        assert "Later in the round it was sent to 0.4" in controller.explain("r0").words
        controller.tell("r0", 1.0)  # what was measured there
        assert controller.action == 2
        with pytest.raises(InvalidInput, match="no round is in progress"):
            controller.redirect(wanted_index=3)
        assert controller.ask(costs=wants(5)).action == 4
        expected = state_of(controller)
    with known(**options) as again:
        assert state_of(again) == expected
    assert hc.audit.verify(tmp_path / "record").verified
    assert hc.replay(tmp_path / "record", "minc-known").recorded.movement == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("event", "found"),
    [
        (None, "order was"),
        (Redirect(0, Order(5, 5)), "sent by"),
        (Episode(5, None), "max_step is 0.25"),
    ],
)
def test_verify_finds_what_no_limit_permitted(tmp_path, event, found):
    """Events as a program without these limits would have written them."""
    with known(start_index=0, limits=hc.Limits(max_step=0.25), log=tmp_path / "record") as controller:
        _, record = operation_of(controller).session.decide(Request(None, costs=tuple(COSTS)), Wish(5))
        order = record.order if event is not None else Order(5, 5)
        controller.log.append(dataclasses.replace(asked(record), order=order))
        if isinstance(event, Episode):
            controller.log.append(Tell("r0", None, 0))
        if event is not None:
            controller.log.append(event)
    (difference,) = hc.audit.verify(tmp_path / "record").differences
    assert found in difference


# -- the guard ---------------------------------------------------------------------------------------------------------


def test_the_guard_goes_to_the_safe_action_and_back():
    controller = known(start_index=0, guard=hc.Guard(threshold=10.0, revert_to_index=5, cool_down=2))
    actions = []
    for y in (1.0, 10.0, 11.0, 1.0, 1.0, 1.0):
        decision = controller.ask(costs=wants(2))
        actions.append((decision.action, decision.wanted, decision.limited_by))
        controller.tell(decision.id, y)
    free, safe = (2, 2, None), (5, 2, "cool_down")
    assert actions == [free, free, free, safe, safe, free]


def test_the_guard_of_a_policy_that_maximises_watches_for_low_gains():
    for policy in (
        hc.minc_known(LINE, maximise=True),
        hc.fixed(LINE, HISTORY, maximise=True),
        hc.stationary(LINE, maximise=True),
    ):
        controller = hc.Controller(policy, start_index=0, guard=hc.Guard(10.0, revert_to_index=5, cool_down=1))
        controller.ask(costs=COSTS)
        controller.tell("r0", 11.0)
        assert controller.ask(costs=COSTS).action != 5 or policy.name == "MinC-Known"
        controller.tell("r1", 9.0)
        assert controller.ask(costs=wants(2)).action == 5


def test_the_guard_reverts_to_the_nearest_allowed():
    controller = known(start_index=0, guard=hc.Guard(10.0, revert_to_index=5, cool_down=3))
    controller.ask(costs=wants(2))
    controller.tell("r0", 11.0)
    decision = controller.ask(costs=wants(2), allowed=mask(0, 2, 4))
    assert (decision.action, decision.wanted, decision.limited_by) == (4, 2, "allowed")


def test_the_guard_keeps_the_limits():
    controller = known(
        start_index=0, guard=hc.Guard(10.0, revert_to_index=5, cool_down=9), limits=hc.Limits(2, max_step=0.45)
    )
    played = []
    for y in (11.0, 0.0, 0.0, 0.0, 0.0):
        decision = controller.ask(costs=wants(2))
        played.append((decision.action, decision.limited_by))
        controller.tell(decision.id, y)
    assert played == [(2, None), (2, "min_dwell"), (4, "max_step"), (4, "min_dwell"), (5, "cool_down")]
    assert "The guard wanted its safe setting, but min_dwell forbids it" in controller.explain("r1").words
    assert "The rule wanted 0.4, but min_dwell forbids it" in controller.explain("r3").words


def test_a_skipped_round_does_not_trigger_the_guard():
    controller = known(start_index=0, guard=hc.Guard(10.0, revert_to_index=5))
    controller.ask(costs=wants(2))
    controller.tell("r0", None)
    assert controller.ask(costs=wants(2)).action == 2


@pytest.mark.parametrize(
    ("guard", "message"),
    [
        ({"threshold": np.nan, "revert_to": 0}, "threshold must be a number, got nan"),
        ({"threshold": "high", "revert_to": 0}, "threshold must be a number, got 'high'"),
        ({"threshold": None, "revert_to": 0}, "threshold must be a number, got None"),
        ({"threshold": 1.0, "revert_to": 0, "cool_down": 0}, "cool_down must be a whole number, 1 or more, got 0"),
        ({"threshold": 1.0, "revert_to": 0, "cool_down": 1.5}, "cool_down must be a whole number"),
        ({"threshold": 1.0, "revert_to_index": 6}, "revert_to_index=6 is not an index from 0 to 5"),
        ({"threshold": 1.0, "revert_to_index": 1.5}, "revert_to_index must be a whole number"),
        ({"threshold": 1.0, "revert_to": 1.5}, "revert_to=1.5 is not a setting; the nearest are 1, 0.8"),
        ({"threshold": 1.0}, "give revert_to or revert_to_index"),
        ({"threshold": 1.0, "revert_to": 0.0, "revert_to_index": 0}, "and not both"),
    ],
)
def test_wrong_guards(guard, message):
    with pytest.raises(InvalidInput, match=message):
        known(guard=hc.Guard(**guard))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": 6}, "start=6 is not a setting"),
        ({"start": 3}, "start=3 is not a setting; .* which is 0.6, write start_index=3"),
        ({"start": 2.7}, "start=2.7 is not a setting"),
        ({"start": "2"}, "start='2' is not a setting"),
        ({"start_index": 6}, "start_index=6 is not an index"),
        ({"start_index": 2.7}, "start_index=2.7 is not"),
        ({"start_index": "2"}, "start_index='2' is not"),
        ({"start": 0.2, "start_index": 1}, "give start or start_index, not both"),
        ({"seed": 1.7}, "seed must be a whole number .* got 1.7"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_wrong_start_or_seed(options, message):
    with pytest.raises(InvalidInput, match=message):
        known(**options)


# -- explanations ------------------------------------------------------------------------------------------------------


def test_an_explanation_holds_what_the_rule_saw():
    controller = learner(limits=hc.Limits(max_step=0.25))
    controller.ask(0.4)
    controller.tell("r0", 5.0)
    here = controller.action
    decision = controller.ask(0.5, allowed=mask(0, 1, 2, 3, here))
    before = controller.explain(decision.id)
    controller.tell(decision.id, -3.0)
    controller.ask(0.1)
    for explanation in (before, controller.explain(decision.id)):  # what is learned later changes nothing
        assert explanation.decision is decision
        mean, std = explanation.mean, explanation.std
        assert mean.shape == std.shape == (LINE.n,)
        allowed = mask(0, 1, 2, 3, here)
        np.testing.assert_allclose(explanation.bounds[allowed], (mean - 2 * std)[allowed], atol=1e-12)
        assert np.isposinf(explanation.bounds[~allowed]).all()
        np.testing.assert_array_equal(explanation.expected, mean)
        np.testing.assert_array_equal(explanation.movement, LINE.distances[here])
        assert explanation.probabilities is decision.probabilities
        assert decision.expected_cost == mean[decision.action]
        rows = explanation.rows()
        assert len(rows) == LINE.n
        assert set(rows[0]) == {"setting", "action", "bound", "expected", "probability", "movement", "mean", "std"}
        assert rows[3]["mean"] == mean[3]
        json.dumps(rows)


def test_an_explanation_in_words():
    controller = known(start_index=3, limits=hc.Limits(max_step=0.25))
    controller.ask(costs=COSTS)
    words = controller.explain("r0").words
    assert words.startswith("Round 0: go from 0.6 to 0.4, a move that costs 0.2. ")
    assert "The expected service cost is 2 there and 5 at 0.6." in words
    assert "The rule wanted 0.2, but max_step forbids it." in words
    assert "The most optimistic estimate, 1, is for 0.2; moving there would have cost 0.4." in words
    controller.tell("r0", 1.0)
    controller.ask(costs=wants(2))
    assert controller.explain("r1").words == (
        "Round 1: stay at 0.4. The expected service cost there is 0. The best alternative is 1 at 0.2; "
        "moving there would have cost 0.2."
    )


def test_an_explanation_in_words_of_a_random_choice():
    controller = learner()
    controller.ask(0.5)
    controller.tell("r0", 1.0)
    controller.ask(0.5)
    assert "The rule's probabilities: " in controller.explain("r1").words


def test_the_explanation_of_known_costs_has_no_deviation():
    controller = known()
    controller.ask(costs=COSTS, allowed=mask(0, 2))
    explanation = controller.explain("r0")
    assert explanation.mean is None
    assert explanation.std is None
    assert explanation.bounds.tolist() == [3, np.inf, 2, np.inf, np.inf, np.inf]
    assert "mean" not in explanation.rows()[0]


# -- wrong input -------------------------------------------------------------------------------------------------------

WRONG_QUESTIONS = [
    ({"context": [0.1, 0.2]}, "a context must be"),
    ({"context": float("nan")}, "context must not contain NaN, got nan; fill the gap"),
    ({"context": np.array([np.nan])}, r"context must not contain NaN, got \[nan\]"),
    ({"context": float("inf")}, "a context must be finite"),
    ({"context": "windy"}, "context must be a number or a list of numbers, got 'windy'"),
    ({"context": [[0.1], [0.2]]}, r"flat list of numbers.*got \[\[0.1\], \[0.2\]\]"),
    ({"context": 0.1, "allowed": [True]}, "allowed must be a list of settings or 6 booleans"),
    (
        {"context": 0.1, "allowed": [1, 0, 1, 0, 1, 0]},
        "may be a mask or a list of settings; write True and False for a mask",
    ),
    ({"context": 0.1, "allowed": np.zeros(6, dtype=bool)}, "allowed forbids every setting"),
    ({"context": 0.1, "forecast": [0.1, np.nan]}, "forecast must not contain NaN"),
    ({"context": 0.1, "forecast": [0.1, np.inf]}, "forecast must be finite"),
    ({"context": 0.1, "forecast": 0.3}, "forecast must have shape"),
    ({"context": 0.1, "costs": 3.0}, "costs must be 6 numbers, one per action, got 3.0"),
    ({"context": 0.1, "costs": [1.0]}, "costs must be 6 numbers"),
    ({"context": 0.1, "costs": np.zeros((2, 3))}, "costs must be 6 numbers"),
    ({"context": 0.1, "costs": [np.nan] * 6}, "costs must not contain NaN"),
]


@pytest.mark.parametrize("make", [hc.gp_md, hc.cgp_lcb, hc.proximal_lcb, hc.planner, hc.recommended])
@pytest.mark.parametrize(
    ("first", "then", "message"),
    [
        (None, 1.0, "no earlier round had a context"),
        (1.0, [1.0, 2.0], "1 number, got \\[1.0, 2.0\\]$"),
        (1.0, None, "got none$"),
    ],
)
def test_what_could_not_be_told_is_not_answered(make, first, then, message):
    """Before the first fit no kernel knows how many numbers a context has; the readings do."""
    controller = hc.Controller(make(hc.Problem([0.0, 1.0, 2.0], scale=0.1)))
    controller.tell(controller.ask(first).id, 1.0)
    with pytest.raises(InvalidInput, match=message):
        controller.ask(then)
    controller.tell(controller.ask(first).id, 2.0)
    assert controller.round == 2


@pytest.mark.parametrize("method", ["exact", "flat"])
@pytest.mark.parametrize(("wrong", "message"), WRONG_QUESTIONS)
def test_wrong_questions_change_nothing(wrong, message, method):
    controller = learner(method)
    controller.ask(0.2)
    controller.tell("r0", 1.0)
    before = state_of(controller)
    with pytest.raises(InvalidInput, match=message) as error:
        controller.ask(**wrong)
    assert "array(" not in str(error.value)
    assert "np." not in str(error.value)
    assert state_of(controller) == before


@pytest.mark.parametrize("context", [[[0.1]], np.inf, [np.nan]])
@pytest.mark.parametrize("policy", [hc.minc_known, hc.stationary])
def test_a_context_that_could_never_be_told_is_refused_by_those_who_ignore_it_too(policy, context):
    with pytest.raises(InvalidInput, match="context"):
        hc.Controller(policy(LINE)).ask(context, costs=COSTS)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"measurement": float("nan")}, "a measurement must be finite"),
        ({"measurement": float("inf")}, "a measurement must be finite"),
        ({"measurement": "much"}, "a measurement must be one number, got 'much'"),
        ({"measurement": [1.0, 2.0]}, "a measurement must be one number"),
        ({"measurement": 1.0, "applied_index": 6}, "applied_index=6 is not an index from 0 to 5"),
        ({"measurement": 1.0, "applied_index": np.int64(-1)}, "applied_index=-1 is not"),
        ({"measurement": 1.0, "applied_index": 1.0}, "applied_index=1.0 is not"),
        ({"measurement": 1.0, "applied_index": True}, "applied_index=True is not"),
    ],
)
@pytest.mark.parametrize("method", ["exact", "flat"])
def test_wrong_answers_change_nothing(told, message, method):
    controller = learner(method)
    controller.ask(0.2)
    before = state_of(controller)
    with pytest.raises(InvalidInput, match=message):
        controller.tell("r0", **told)
    assert state_of(controller) == before
    controller.tell("r0", 1.0)


def test_policies_that_know_the_costs_need_them():
    controller = known()
    with pytest.raises(InvalidInput, match="give costs="):
        controller.ask(0.3)
    with pytest.raises(NoActionLeft, match="no action is left"):
        controller.ask(costs=[1, np.inf, 1, 1, 1, 1], allowed=mask(1))


@pytest.mark.parametrize("name", list(POLICIES))
def test_failed_questions_leave_no_trace_in_later_decisions(name):
    """Questions that are refused late, after the model has been asked; also between two tells."""
    quiet, disturbed = (
        hc.Controller(POLICIES[name](), start_index=1, seed=3, limits=hc.Limits(max_step=0.3), max_pending=2)
        for _ in range(2)
    )
    refused = 0
    for t in range(0, 40, 2):
        for controller in (quiet, disturbed):
            for now in (t, t + 1):
                context = {**question(name, now), "allowed": None}
                assert controller.ask(**context, round=now).id == f"r{now}"
        assert seen(quiet.pending[-1]) == seen(disturbed.pending[-1])
        for now in (t, t + 1):
            for controller in (quiet, disturbed):
                controller.tell(f"r{now}", float(np.cos(now)))
            far = mask(0) if disturbed.action > 2 else mask(5)
            try:
                disturbed.ask(**{**question(name, t + 2), "allowed": far}, round=t + 2)
            except NoActionLeft:
                refused += 1
            assert state_of(quiet) == state_of(disturbed)
    assert refused == 40


# -- saved states ------------------------------------------------------------------------------------------------------


def driven(name="gp_md exact", rounds=12, **options):
    controller = hc.Controller(POLICIES[name](), start_index=1, seed=3, **options)
    for _ in half_rounds(controller, name, rounds):
        pass
    controller.ask(**question(name, rounds))
    return controller


@pytest.mark.parametrize("name", list(POLICIES))
def test_a_saved_state_comes_back_bit_for_bit(name, tmp_path):
    controller = driven(
        name, limits=hc.Limits(2, 0.5, 3, 6), guard=hc.Guard(2.0, revert_to_index=np.int64(0), cool_down=2)
    )
    controller.save(tmp_path / "state")
    loaded = hc.Controller.load(str(tmp_path / "state"), POLICIES[name]())
    assert state_of(loaded) == state_of(controller)
    assert loaded.limits == controller.limits
    assert loaded.guard == controller.guard
    assert [seen(d) for d in loaded.pending] == [seen(d) for d in controller.pending]
    assert loaded.explain("r12").words == controller.explain("r12").words
    assert loaded.ask(**question(name, 12)).id == "r12"
    controller.save(tmp_path / "again")
    assert (tmp_path / "state").read_bytes() == (tmp_path / "again").read_bytes()


def test_saving_replaces_the_file_in_one_step(tmp_path):
    controller = driven()
    controller.save(tmp_path / "state")
    controller.tell("r12", 1.0)
    controller.save(tmp_path / "state")
    assert state_of(hc.Controller.load(tmp_path / "state", POLICIES["gp_md exact"]())) == state_of(controller)
    assert [file.name for file in tmp_path.iterdir()] == ["state"]


def test_a_state_of_another_policy_is_refused(tmp_path):
    driven().save(tmp_path / "state")
    with pytest.raises(InvalidInput, match=r"saved by another policy: policy was 'gp-md' and is 'minc-known' now"):
        hc.Controller.load(tmp_path / "state", hc.minc_known(LINE))


def test_files_that_cannot_be_read_or_written(tmp_path):
    with pytest.raises(InvalidInput, match=r"cannot read .*nowhere: No such file"):
        hc.Controller.load(tmp_path / "nowhere", hc.minc_known(LINE))
    with pytest.raises(InvalidInput, match=r"cannot write .*nowhere.state: No such file"):
        driven().save(tmp_path / "nowhere" / "state")
    with pytest.raises(InvalidInput, match="cannot write"):
        driven().save(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["md_known", "gp_md exact"])
def test_a_truncated_state_is_refused(name, tmp_path):
    controller = driven(name)
    controller.save(tmp_path / "state")
    content = (tmp_path / "state").read_bytes()
    for length in np.linspace(0, len(content) - 1, 60).astype(int):
        (tmp_path / "short").write_bytes(content[:length])
        with pytest.raises(DamagedFile, match="damaged"):
            hc.Controller.load(tmp_path / "short", POLICIES[name]())


@pytest.mark.parametrize("flips", [400])
def test_a_damaged_state_is_refused_or_whole(flips, tmp_path):
    controller = driven("md_known", rounds=3)
    controller.save(tmp_path / "state")
    content, random = (tmp_path / "state").read_bytes(), np.random.default_rng(0)
    refused = 0
    for _ in range(flips):
        damaged = bytearray(content)
        damaged[random.integers(len(content))] ^= int(random.integers(1, 256))
        (tmp_path / "flipped").write_bytes(damaged)
        try:
            loaded = hc.Controller.load(tmp_path / "flipped", POLICIES["md_known"]())
        except HoldcourseError:
            refused += 1
        else:
            assert state_of(loaded) == state_of(controller)  # a time stamp of the zip, say
    assert refused > 0.8 * flips


def test_a_newer_format_is_refused(tmp_path):
    rewritten(tmp_path / "state", {"holdcourse_format": archive.FORMAT + 1, "sha256": {}})
    with pytest.raises(
        InvalidInput, match="has format 2, which is newer than this version of holdcourse, which reads format 1"
    ):
        hc.Controller.load(tmp_path / "state", hc.minc_known(LINE))


def test_an_older_format_is_refused(tmp_path):
    rewritten(tmp_path / "state", {"holdcourse_format": 0, "sha256": {}})
    with pytest.raises(InvalidInput, match="has format 0, which is no longer read by this version"):
        hc.Controller.load(tmp_path / "state", hc.minc_known(LINE))


@pytest.mark.parametrize(
    "manifest", [{"holdcourse_format": "one", "sha256": {}}, {"holdcourse_format": 1}, {}, [], 3, None]
)
def test_other_archives_are_refused(manifest, tmp_path):
    rewritten(tmp_path / "state", manifest)
    with pytest.raises(DamagedFile, match="is damaged, or is not a saved state of holdcourse"):
        hc.Controller.load(tmp_path / "state", hc.minc_known(LINE))


def test_a_state_whose_manifest_forgets_it_is_refused(tmp_path):
    rewritten(tmp_path / "state", {"holdcourse_format": 1, "sha256": {}})
    with pytest.raises(DamagedFile, match=r"the checksum of state.json does not match"):
        hc.Controller.load(tmp_path / "state", hc.minc_known(LINE))


def test_an_archive_of_something_else_is_refused(tmp_path):
    archive.write_file(tmp_path / "state", archive.pack({"recipe": "soup"}, {}))
    with pytest.raises(DamagedFile, match="does not contain a controller"):
        hc.Controller.load(tmp_path / "state", hc.minc_known(LINE))


def rewritten(path, manifest):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("manifest.json", json.dumps(manifest))
        file.writestr("state.json", "{}")


def test_an_explanation_names_settings_as_the_user_does():
    problem = hc.Problem(hc.grid(speed=[1.0, 2.0], valve=[0.0, 1.0]))
    controller = hc.Controller(hc.minc_known(problem))
    decision = controller.ask(None, costs=[3.0, 2.0, 1.0, 0.0])
    assert "go from speed 1, valve 0 to speed 2, valve 1" in controller.explain(decision.id).words


class RunningMeans:
    """A cost model of a user's own that shows its very arrays."""

    needs_costs = False

    def __init__(self):
        self.means = np.zeros(LINE.n)

    def estimate(self, context, shown=None):
        return hc.costs.Estimate(self.means, self.means)

    def costs_at(self, contexts):
        return np.tile(self.means, (len(contexts), 1))

    def learn(self, action, context, measurement):
        self.means[action] += 0.5 * (measurement - self.means[action])
        return 1.0

    def new_episode(self):
        pass

    def copy(self):
        return RunningMeans().restore(self.state())

    def state(self):
        return {"means": self.means.copy()}

    def restore(self, arrays):
        self.means = np.array(arrays["means"])
        return self

    def describe(self):
        return {"model": "RunningMeans"}


def test_a_model_may_go_on_using_the_arrays_it_showed():
    controller = hc.Controller(hc.Policy("means", hc.rules.Greedy(LINE), RunningMeans(), LINE))
    decision = controller.ask()
    controller.tell(decision.id, 4.0)
    assert controller.model.estimate(None).expected[decision.action] == 2.0
    assert controller.explain(decision.id).expected[decision.action] == 0.0  # what was known then
    with pytest.raises(ValueError, match="read-only"):
        decision.probabilities[0] = 1.0


def test_what_belongs_into_a_record_changes_nothing_without_one():
    controller = hc.Controller(hc.gp_md(LINE, kernel=KERNEL))
    with pytest.raises(InvalidInput, match="this controller keeps no record"):
        operation_of(controller).learn_earlier("r0", 1, 0.3, 2.0, None)
    assert controller.model.posterior.observations == 0


def test_a_record_is_no_saved_state(tmp_path):
    """A record holds saved states: none of them may be taken for the newest one."""
    policy = hc.gp_md(LINE, kernel=KERNEL)
    with hc.Controller(policy, log=tmp_path / "record") as controller:
        controller.tell(controller.ask(0.3).id, 1.0)
    with pytest.raises(InvalidInput, match=r"is a record, not a saved state; continue it with Controller\(policy"):
        hc.Controller.load(tmp_path / "record", policy)
    controller.save(tmp_path / "state")
    (tmp_path / "inside").write_bytes(b"something before " + (tmp_path / "state").read_bytes())
    with pytest.raises(DamagedFile, match=r"is not a saved state of holdcourse: it begins with b'something before"):
        hc.Controller.load(tmp_path / "inside", policy)


def test_of_very_many_settings_fewer_decisions_are_kept(monkeypatch):
    controller = hc.Controller(hc.stationary(LINE))
    assert operation_of(controller).session.kept_entries == KEPT_ENTRIES
    monkeypatch.setattr(session, "KEPT_NUMBERS", 6 * 5 * LINE.n)  # as of some hundred thousand settings
    for _ in range(9):
        decision = controller.ask(0.5)
        controller.tell(decision.id, 1.0)
    assert controller.explain("r2").words
    with pytest.raises(InvalidInput, match="the newest 6 decisions are kept in memory"):
        controller.explain("r1")
