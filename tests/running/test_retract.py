"""Taking back: a controller whose measurement was taken back goes on as one that never learned it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from helpers.driving import KERNEL, LINE, crash_copy, operation_of, state_of
from hypothesis import given, settings
from hypothesis import strategies as st

import holdcourse as hc
from holdcourse.errors import Conflict, InvalidInput, LogError
from holdcourse.running import operation
from holdcourse.running.events import Ask, Learn, Retract, Tell
from holdcourse.running.log import Log
from holdcourse.running.operation import Operation
from holdcourse.running.session import KEPT_ENTRIES, Origin, Session

POLICIES = {
    "gp-md": lambda: hc.gp_md(LINE, kernel=KERNEL, noise_std=0.2, context_bounds=(0, 1)),
    "planner": lambda: hc.planner(LINE, kernel=KERNEL, noise_std=0.2, context_bounds=(0, 1)),
    "recommended": lambda: hc.recommended(LINE, kernel="auto"),
    "md-known": lambda: hc.md_known(LINE),
    "work function": lambda: hc.Policy("WFA", hc.rules.WorkFunction(LINE), hc.costs.KnownCosts(LINE), LINE),
}
OPTIONS = {"start_index": 1, "seed": 3}
WRONG = 1e6


def shown(name, number):
    """What is asked in a round: a function of the round alone."""
    random = np.random.default_rng(number)
    known = {"costs": random.random(LINE.n).tolist()} if name in ("md-known", "work function") else {}
    return {"context": float(random.random()), **known}


def measured(number):
    return float(np.random.default_rng([number, 1]).normal(1.0, 0.5))


def play(controller, name, rounds, wrong=()):
    """Rounds with their measurements; `wrong` ones far off."""
    for _ in range(rounds):
        number = controller.round
        decision = controller.ask(**shown(name, number))
        controller.tell(decision.id, WRONG if number in wrong else measured(number))


def decided(controller, name, rounds):
    """The next decisions, to the last bit, with their measurements told."""
    found = []
    for _ in range(rounds):
        decision = controller.ask(**shown(name, controller.round))
        chosen = (decision.id, decision.action, decision.wanted, decision.limited_by)
        found.append((*chosen, decision.expected_cost.hex(), *decision.probabilities.tolist()))
        controller.tell(decision.id, measured(decision.round))
    return found


def twin_of(path, policy, without, **options):
    """A session that lived through what a record holds, in which these decisions were told no measurement."""
    session = Session(policy, OPTIONS["start_index"], OPTIONS["seed"], **options)
    log = Log.read(path)
    for event in log.events():
        body = event.body
        if isinstance(body, Tell | Learn) and body.id in without:
            body = replace(body, measurement=None)
        if not isinstance(body, Retract):
            session.repeat(body)
    log.close()
    return session


def carried(session):
    """All that later decisions depend on."""
    state, arrays = session.snapshot()
    kept = {name: state[name] for name in ("round", "episode", "where", "cool_until", "allowed")}
    pilot = {name: np.asarray(array) for name, array in arrays.items() if name.startswith("pilot.")}
    return json.dumps(kept), {name: (array.shape, array.tobytes()) for name, array in pilot.items()}


def as_controller(session):
    """A controller that goes on from a session, without a record."""
    controller = hc.Controller(session.policy, **OPTIONS)
    controller._operation = Operation(operation.Recording(session))  # there is no public way to give it one
    return controller


def told_to(controller):
    """What the controller keeps of each decision: the action, what was told, and why that was taken back."""
    entries = operation_of(controller).session.entries.values()
    return [(entry.decision.id, entry.decision.action, entry.told, entry.retracted) for entry in entries]


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Snapshots are so frequent that some lie between a measurement and its retraction."""
    monkeypatch.setattr(operation, "SNAPSHOT_EVERY", 7)


# -- as if it had not been told ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POLICIES)
def test_taken_back_at_once_it_is_as_if_nothing_had_been_measured(name):
    """The plainest twin: another controller, told None."""
    controller, twin = (hc.Controller(POLICIES[name](), **OPTIONS) for _ in range(2))
    for each in (controller, twin):
        play(each, name, 9)
        each.ask(**shown(name, 9))
    controller.tell("r9", WRONG, applied_index=2)
    controller.retract("r9", "unplugged")
    twin.tell("r9", None, applied_index=2)
    assert carried(operation_of(controller).session) == carried(operation_of(twin).session)
    assert decided(controller, name, 12) == decided(twin, name, 12)


@pytest.mark.parametrize("name", POLICIES)
def test_taken_back_later_decisions_are_those_of_a_twin_that_never_learned_it(name, tmp_path):
    with hc.Controller(POLICIES[name](), **OPTIONS, log=tmp_path / "record") as controller:
        play(controller, name, 30, wrong={11})
        before = told_to(controller)
        twin = as_controller(twin_of(tmp_path / "record", POLICIES[name](), {"r11"}))
        controller.retract("r11", "unplugged")
        assert [row[:3] for row in told_to(controller)] == [row[:3] for row in before]  # what was done stands
        assert [row[0] for row in told_to(controller) if row[3] == "unplugged"] == ["r11"]
        assert carried(operation_of(controller).session) == carried(operation_of(twin).session)
        assert decided(controller, name, 10) == decided(twin, name, 10)
    found = hc.audit.verify(tmp_path / "record", POLICIES[name]())
    assert (found.verified, found.retractions, found.last_digits) == (True, 1, ()), found


@pytest.mark.parametrize("name", ["gp-md", "md-known"])
def test_a_controller_without_a_record_does_the_same(name, tmp_path):
    rounds = 2 * KEPT_ENTRIES + 40
    last = [f"r{number}" for number in (rounds - KEPT_ENTRIES, rounds - 20, rounds - 1)]
    wrong = {int(name[1:]) for name in last}
    with hc.Controller(POLICIES[name](), **OPTIONS, log=tmp_path / "record") as logged:
        alone = hc.Controller(POLICIES[name](), **OPTIONS)
        for each in (logged, alone):
            play(each, name, rounds, wrong)
            for decision in (last[1], last[0], last[2]):
                each.retract(decision, "unplugged")
        assert state_of(alone) == state_of(logged)
        twin = twin_of(tmp_path / "record", POLICIES[name](), last)
        assert carried(operation_of(alone).session) == carried(twin)
        assert decided(alone, name, KEPT_ENTRIES) == decided(logged, name, KEPT_ENTRIES)
        with pytest.raises(InvalidInput, match="the newest 64 decisions are kept in memory"):
            alone.retract("r3", "too late")
        logged.retract("r3", "with a record it is not")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("round"), st.sampled_from([0.0, 0.5, 4.0]), st.none() | st.integers(0, LINE.n - 1)),
        st.tuples(st.just("round"), st.none(), st.none()),
        st.tuples(st.just("retract"), st.integers(0, 30), st.none()),
        st.tuples(st.just("reopen"), st.booleans(), st.none()),
        st.tuples(st.just("episode"), st.integers(0, LINE.n - 1), st.none()),
        st.tuples(st.just("hold"), st.integers(0, LINE.n - 1), st.none()),
    ),
    max_size=30,
)


@pytest.mark.parametrize("name", ["gp-md", "planner", "recommended", "md-known"])
def test_whatever_happens_the_state_is_that_of_the_twin(name, tmp_path_factory):
    limits, guard = hc.Limits(min_dwell=2), hc.Guard(3.0, revert_to_index=5, cool_down=3)

    @settings(max_examples=max(4, settings().max_examples // 10), deadline=None)
    @given(STEPS)
    def lived(steps):
        folder = tmp_path_factory.mktemp("records")
        path, copies, taken_back = folder / "record", 0, {}
        controller = hc.Controller(POLICIES[name](), **OPTIONS, limits=limits, guard=guard, log=path)
        for kind, value, more in steps:
            if kind in ("round", "hold"):
                held = {"instructed_index": value, "force": "test"} if kind == "hold" else {}
                decision = controller.ask(**shown(name, controller.round), **held)
                controller.tell(decision.id, 0.7 if kind == "hold" else value, applied_index=more)
            elif kind == "episode":
                controller.new_episode(start_index=value, force="test")
            elif kind == "reopen":
                if value:  # as after a crash, with the newest events in the write-ahead log alone
                    copies += 1
                    path = crash_copy(path, folder / f"copy{copies}")
                controller.close()
                controller = hc.Controller(POLICIES[name](), **OPTIONS, limits=limits, guard=guard, log=path)
            elif controller.round:
                decision = f"r{value % controller.round}"
                measurement = operation_of(controller).session.entry(decision).told[0]
                if measurement is None:
                    with pytest.raises(InvalidInput, match="nothing was measured"):
                        controller.retract(decision, "test")
                else:
                    controller.retract(decision, "test")
                    taken_back[decision] = "test"
        state = state_of(controller)
        twin = twin_of(path, POLICIES[name](), taken_back, limits=limits, guard=guard)
        assert carried(operation_of(controller).session) == carried(twin)
        assert {row[0]: row[3] for row in told_to(controller) if row[3]} == taken_back
        controller.close()
        with closing(sqlite3.connect(path)) as connection, connection:  # and from the beginning, without any snapshot
            connection.execute("DELETE FROM snapshots WHERE number > 0")
        connection.close()
        found = hc.audit.verify(path)
        assert (found.differences, found.missing, found.retractions) == ((), "", len(taken_back))
        with hc.Controller(POLICIES[name](), **OPTIONS, limits=limits, guard=guard, log=path) as controller:
            assert state_of(controller) == state

    lived()


def test_several_may_be_pending_and_are_told_in_any_order(tmp_path):
    policy = POLICIES["gp-md"]
    with hc.Controller(policy(), **OPTIONS, log=tmp_path / "record", max_pending=3) as controller:
        for number in range(3):
            controller.ask(context=0.2 * number, round=number)
        controller.tell("r2", WRONG, applied_index=0)
        controller.tell("r0", 0.5)
        controller.retract("r2", "unplugged")
        twin = twin_of(tmp_path / "record", policy(), {"r2"}, max_pending=3)
        assert carried(operation_of(controller).session) == carried(twin)
        assert [decision.id for decision in controller.pending] == ["r1"]
        controller.tell("r1", 0.3)
        controller.tell("r2", WRONG, applied_index=0)  # the same again is fine: it was told


# -- what stays --------------------------------------------------------------------------------------------------------


def test_the_machine_was_where_it_was():
    controller = hc.Controller(POLICIES["gp-md"](), **OPTIONS, limits=hc.Limits(min_dwell=3))
    decision = controller.ask(context=0.5)
    controller.tell(decision.id, WRONG, applied_index=4)
    controller.retract(decision.id, "unplugged")
    assert controller.action == 4
    assert controller.ask(context=0.5).action == 4  # it has only just come there


def test_a_guard_that_the_wrong_reading_set_off_lets_go_and_what_it_did_stands():
    guard = hc.Guard(threshold=5.0, revert_to_index=0, cool_down=10)
    controller = hc.Controller(hc.minc_known(LINE), start_index=3, guard=guard)
    costs = [2.0, 2.0, 2.0, 1.0, 2.0, 2.0]
    controller.tell(controller.ask(costs=costs).id, WRONG)
    kept = controller.ask(costs=costs)
    assert (kept.action, kept.limited_by) == (0, "cool_down")
    controller.tell(kept.id, 2.0)
    controller.retract("r0", "unplugged")
    assert controller.entry("r1").decision.limited_by == "cool_down"
    assert controller.action == 0
    assert controller.ask(costs=costs).limited_by is None


def test_why_a_decision_was_taken_stays_what_it_was(tmp_path):
    with hc.Controller(POLICIES["gp-md"](), **OPTIONS, log=tmp_path / "record") as controller:
        play(controller, "gp-md", 12, wrong={4})
        before = [controller.explain(f"r{number}").words for number in range(12)]
        controller.retract("r4", "unplugged")
        assert [controller.explain(f"r{number}").words for number in range(12)] == before


def test_the_record_holds_both_facts(tmp_path):
    with hc.Controller(POLICIES["gp-md"](), **OPTIONS, log=tmp_path / "record") as controller:
        play(controller, "gp-md", 6, wrong={2})
        controller.retract("r2", "unplugged")
        bodies = {event.number: event.body for event in controller.log.events()}
    told = next(number for number, body in bodies.items() if isinstance(body, Tell) and body.id == "r2")
    assert bodies[told].measurement == WRONG
    assert Retract("r2", told, "unplugged") in bodies.values()


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_what_cannot_be_taken_back_is_refused_and_changes_nothing(tmp_path):
    for log in (None, tmp_path / "record"):
        controller = hc.Controller(POLICIES["gp-md"](), **OPTIONS, log=log)
        play(controller, "gp-md", 4)
        controller.tell(controller.ask(context=0.1).id, None)
        controller.ask(context=0.1)
        controller.retract("r1", "unplugged")
        before = state_of(controller)
        for decision, reason, words in [
            ("r5", "x", "r5 still waits for its measurement, so there is none to take back"),
            ("r4", "x", "nothing was measured in r4"),
            ("r9", "x", "there is no decision 'r9'"),
            ("seven", "x", "there is no decision 'seven'"),
            (7, "x", "a decision is named by its id"),
            ("r2", "  ", "say in words why"),
            ("r2", None, "say in words why"),
        ]:
            with pytest.raises(InvalidInput, match=words):
                controller.retract(decision, reason)
        with pytest.raises(Conflict, match="r1 was already taken back, because of 'unplugged', not 'other'"):
            controller.retract("r1", "other")
        controller.retract("r1", "unplugged")  # the same again is fine
        assert state_of(controller) == before
        controller.close()


def test_of_a_saved_state_only_what_was_told_since_can_be_taken_back(tmp_path):
    controller = hc.Controller(POLICIES["gp-md"](), **OPTIONS)
    play(controller, "gp-md", 4)
    controller.save(tmp_path / "state")
    controller = hc.Controller.load(tmp_path / "state", POLICIES["gp-md"]())
    play(controller, "gp-md", 1)
    with pytest.raises(InvalidInput, match="r3 was told before this state was saved and loaded"):
        controller.retract("r3", "unplugged")
    controller.retract("r4", "unplugged")


def test_what_an_earlier_record_was_told_is_refused_and_what_this_one_was_told_of_it_is_not(tmp_path):
    first = Operation.begin(POLICIES["gp-md"](), 1, 3, tmp_path / "first")
    for number in range(3):
        first.tell(first.ask(0.1 * number).id, 1.0)
    first.ask(0.4)
    origin = first.origin_of_next(range(LINE.n), None, first.session.where.action)
    first.close()
    second = Operation.begin(POLICIES["gp-md"](), first.session.where.action, 3, tmp_path / "second", origin=origin)
    before = carried(second.session)
    second.learn_earlier("r3", 2, 0.4, WRONG, None)
    with pytest.raises(InvalidInput, match="r1 was not told in this record but in an earlier one"):
        second.retract("r1", "unplugged")
    second.retract("r3", "unplugged")
    assert carried(second.session) == before
    second.close()
    assert hc.audit.verify(tmp_path / "second").verified
    assert origin != Origin()


def test_a_full_disk_leaves_everything_as_it_was(tmp_path, monkeypatch):
    with hc.Controller(POLICIES["gp-md"](), **OPTIONS, log=tmp_path / "record") as controller:
        play(controller, "gp-md", 12, wrong={4})
        before, events = state_of(controller), controller.log.last

        def full(*rows):
            raise LogError("no room")

        with monkeypatch.context() as patch:
            patch.setattr(Log, "write", full)
            with pytest.raises(LogError, match="no room"):
                controller.retract("r4", "unplugged")
        assert (state_of(controller), controller.log.last) == (before, events)
        controller.retract("r4", "unplugged")
        assert controller.entry("r4").retracted == "unplugged"


def test_cut_off_between_the_event_and_its_effect_the_event_is_the_truth(tmp_path, monkeypatch):
    with hc.Controller(POLICIES["gp-md"](), **OPTIONS, log=tmp_path / "record") as controller:
        play(controller, "gp-md", 20, wrong={4})
        with monkeypatch.context() as patch:
            patch.setattr(Log, "snapshot", lambda *given: None)  # it was killed before that
            controller.retract("r4", "unplugged")
        cut_off = crash_copy(tmp_path / "record", tmp_path / "copy")
        expected = state_of(controller)
    with hc.Controller(POLICIES["gp-md"](), **OPTIONS, log=cut_off) as controller:
        assert state_of(controller) == expected
        assert controller.entry("r4").retracted == "unplugged"


# -- how far, and how it is seen ---------------------------------------------------------------------------------------


def test_it_says_how_far_it_is(tmp_path):
    for log in (None, tmp_path / "record"):
        with hc.Controller(POLICIES["gp-md"](), **OPTIONS, log=log) as controller:
            play(controller, "gp-md", 20, wrong={18})
            seen = []
            controller.retract("r18", "unplugged", progress=lambda *now, seen=seen: seen.append(now))
            assert [done for done, _ in seen] == list(range(1, len(seen) + 1))
            assert {count for _, count in seen} == {len(seen)}
            assert len(seen) == 40 if log is None else 3 <= len(seen) < 20  # from the newest snapshot before it


def test_what_is_taken_back_one_after_the_other_never_goes_back_to_the_beginning(tmp_path):
    with hc.Controller(POLICIES["md-known"](), **OPTIONS, log=tmp_path / "record") as controller:
        play(controller, "md-known", 60, wrong={55, 56, 57, 58})
        lengths = []
        for number in (55, 56, 57, 58):
            seen = []
            controller.retract(f"r{number}", "unplugged", progress=lambda *now, seen=seen: seen.append(now))
            lengths.append(len(seen))
        assert max(lengths) < 40


def test_what_was_taken_back_counts_in_no_sum(tmp_path):
    with hc.Controller(POLICIES["gp-md"](), **OPTIONS, log=tmp_path / "record") as controller:
        play(controller, "gp-md", 10, wrong={4})
        controller.retract("r4", "unplugged")
    right = [measured(number) for number in range(10) if number != 4]
    total, count = hc.replay(tmp_path / "record", "cgp-lcb").measured
    assert (total, count) == (pytest.approx(sum(right)), 9)


def test_an_old_decision_is_rebuilt_as_it_was_decided(tmp_path):
    with hc.Controller(POLICIES["gp-md"](), **OPTIONS, log=tmp_path / "record") as controller:
        play(controller, "gp-md", 12, wrong={4})
        controller.retract("r4", "unplugged")
        play(controller, "gp-md", 5)
        asks = [event for event in controller.log.events() if isinstance(event.body, Ask)]
        for number in (3, 6, 11, 12, 16):
            rebuilt = hc.audit.rebuilt(controller.log, POLICIES["gp-md"](), asks[number])
            kept = controller.entry(f"r{number}")
            assert rebuilt.decision.expected_cost == kept.decision.expected_cost
            assert rebuilt.bounds.tolist() == kept.bounds.tolist()


@pytest.mark.parametrize(
    ("event", "words"), [(3, "does not contain its measurement"), (99, "is not before it"), (0, "is not before it")]
)
def test_a_retraction_of_something_else_is_found(tmp_path, event, words):
    with hc.Controller(POLICIES["md-known"](), **OPTIONS, log=tmp_path / "record") as controller:
        play(controller, "md-known", 3)
        controller.log.append(Retract("r0", event, "forged"))
    found = hc.audit.verify(tmp_path / "record")
    assert not found.verified
    assert words in found.differences[0]
