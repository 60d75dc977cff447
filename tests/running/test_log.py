"""The record under a controller: begun, gone on with, damaged, shared, and read back bit for bit."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import re
import shutil
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.driving import (
    HISTORY,
    KERNEL,
    LINE,
    POLICIES,
    crash_copy,
    half_rounds,
    operation_of,
    question,
    seen,
    state_of,
)
from helpers.forking import Forked

import holdcourse as hc
from holdcourse import archive
from holdcourse.errors import DamagedFile, HoldcourseError, InvalidInput, LogError
from holdcourse.running import file_storage, operation
from holdcourse.running.events import (
    SOUGHT,
    AlarmRaised,
    AskDetails,
    DecisionLate,
    Episode,
    ModeSet,
    Previous,
    Tell,
    TellDetails,
)
from holdcourse.running.log import Log
from holdcourse.running.operation import Operation
from holdcourse.running.session import Origin, Session
from holdcourse.running.storage import KEPT_SNAPSHOTS

NAME = "gp_md exact"


@pytest.fixture
def often(monkeypatch):
    """Snapshots so often that a short run makes some."""
    monkeypatch.setattr(operation, "SNAPSHOT_EVERY", 10)


def logged(path, name=NAME, **options):
    return hc.Controller(POLICIES[name](), **{"start_index": 1, "seed": 3, "log": path, **options})


def drive(controller, rounds, name=NAME):
    return [decision for decision in half_rounds(controller, name, rounds) if decision]


def written(path, rounds=20, name=NAME, **options):
    with logged(path, name, **options) as controller:
        drive(controller, rounds, name)
        controller.ask(**question(name, rounds))
        return state_of(controller)


def change(path, statement, *values):
    """What no part of holdcourse does: write to the record behind its back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement, values).rowcount > 0
    connection.close()


def test_a_record_holds_every_event_in_order(tmp_path):
    with logged(tmp_path / "record") as controller:
        first = controller.ask(0.5, allowed=[True] * 5 + [False])
        controller.ask(0.5, allowed=[True] * 5 + [False])  # a repeated question is no event
        controller.tell("r0", 1.5, applied_index=3)
        controller.tell("r0", 1.5, applied_index=3)
        controller.new_episode(start_index=2)
        second = controller.ask(0.6)
        controller.tell("r1", None)
    log = Log.read(tmp_path / "record")
    events = list(log.events())
    assert [(event.number, event.kind) for event in events] == [
        (1, "ask"),
        (2, "tell"),
        (3, "episode"),
        (4, "ask"),
        (5, "tell"),
    ]
    assert events[0].body.request.describe() == {"context": 0.5, "allowed": [0, 1, 2, 3, 4]}
    assert events[0].body.action == first.action
    assert events[0].body.expected_cost == first.expected_cost
    assert events[1].body == Tell(id="r0", measurement=1.5, applied=3)
    assert events[2].body == Episode(start=2, force=None)
    assert events[3].body.round == second.round == 1
    assert events[4].body == Tell(id="r1", measurement=None, applied=None)
    assert [event.number for event in log.events(after=3)] == [4, 5]
    assert log.last == 5
    assert all(event.at.endswith("+00:00") for event in events)
    assert log.about.identity.seed == 3
    assert log.about.versions["numpy"] == np.__version__
    log.close()


@pytest.mark.parametrize("name", ["gp_md flat", "gp_md fitting", "gp_md by episode", "work_function"])
def test_reopened_it_is_the_live_state_bit_for_bit(name, tmp_path, often):
    with logged(tmp_path / "record", name) as controller:
        for rounds in (0, 3, 16):
            drive(controller, rounds, name)
            decision = controller.ask(**question(name, rounds))
            with logged(crash_copy(tmp_path / "record", tmp_path / f"copy{rounds}"), name) as again:
                assert state_of(again) == state_of(controller)
                assert seen(again.ask(**question(name, rounds))) == seen(decision)


@pytest.mark.parametrize("name", ["gp_md flat", "gp_md by episode", "md_known"])
def test_decisions_after_reopening_are_those_of_an_undisturbed_run(name, tmp_path, often):
    undisturbed = drive(hc.Controller(POLICIES[name](), start_index=1, seed=3), 30, name)
    decided = []
    for upto in (4, 5, 13, 30):
        with logged(tmp_path / "record", name) as controller:
            decided += drive(controller, upto, name)
    assert decided == undisturbed


def test_limits_guard_and_several_pending_come_back(tmp_path, often):
    options = {
        "limits": hc.Limits(2, 0.5, 3, 6),
        "guard": hc.Guard(1.0, revert_to_index=5, cool_down=4),
        "max_pending": 3,
    }
    with logged(tmp_path / "record", "minc_known", **options) as controller:
        for t in range(25):
            controller.ask(**question("minc_known", t), round=t)
            if t % 5 == 0:
                continue
            controller.tell(f"r{t}", 5.0 if t % 7 == 0 else 0.0, applied_index=3 if t % 4 == 0 else None)
            if t % 5 == 2:
                controller.tell(f"r{t - 2}", 0.5, applied_index=t % 6)
        live = state_of(controller)
        assert operation_of(controller).session.cool_until > 0
    with logged(tmp_path / "record", "minc_known", **options) as again:
        assert state_of(again) == live


def test_after_a_crash_nothing_is_missing(tmp_path, often):
    """Whatever the files hold right after a call returned is enough."""
    controller = logged(tmp_path / "record")
    for step, _ in enumerate(half_rounds(controller, NAME, 15)):
        with logged(crash_copy(tmp_path / "record", tmp_path / f"copy{step}")) as again:
            assert state_of(again) == state_of(controller)
    controller.close()


def test_every_event_is_on_the_disk_before_it_is_acknowledged(tmp_path):
    with logged(tmp_path / "record") as controller:
        connection = controller.log._storage._connection  # its settings are what is tested
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # full
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        controller.ask(0.5)
        assert not connection.in_transaction


def test_old_snapshots_are_let_go_and_the_first_is_kept(tmp_path, often):
    written(tmp_path / "record", 40)
    with closing(sqlite3.connect(tmp_path / "record")) as connection, connection:
        numbers = [number for (number,) in connection.execute("SELECT number FROM snapshots ORDER BY number")]
    connection.close()
    assert len(numbers) == 1 + KEPT_SNAPSHOTS
    assert numbers[0] == 0
    log = Log.read(tmp_path / "record")
    assert numbers[-1] > log.last - 10
    assert abs(numbers[2] - numbers[1] - 10) <= 1  # a snapshot waits for the next tell
    assert log.newest_snapshot()[0] == numbers[-1]
    assert log.newest_snapshot(at_most=numbers[-1] - 1)[0] == numbers[1]
    assert log.newest_snapshot(at_most=0)[0] == 0
    log.close()


def test_events_alone_say_everything(tmp_path, often):
    live = written(tmp_path / "record", 40)
    change(tmp_path / "record", "DELETE FROM snapshots WHERE number > 0")
    with logged(tmp_path / "record") as again:
        assert state_of(again) == live
    change(tmp_path / "record", "DELETE FROM snapshots")
    with pytest.raises(DamagedFile, match="has no snapshot of its beginning"):
        logged(tmp_path / "record")


def test_a_snapshot_that_cannot_be_written_is_only_a_warning(tmp_path, often, caplog):
    with logged(tmp_path / "record") as controller:
        change(tmp_path / "record", "UPDATE about SET value = value")  # the file can be written by others meanwhile
        controller.log._storage._connection.execute(  # as somebody with an editor of databases would
            "CREATE TRIGGER full BEFORE INSERT ON snapshots BEGIN SELECT RAISE(ABORT, 'no room'); END"
        )
        decided = drive(controller, 20)
    assert "no snapshot in" in caplog.text
    assert "no room" in caplog.text
    assert decided == drive(hc.Controller(POLICIES[NAME](), start_index=1, seed=3), 20)


# -- identity ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 4}, "another controller: seed was 3 and is 4 now"),
        ({"start_index": 2}, "another controller: start was 0.2 and is 0.4 now"),
        ({"max_pending": 2}, "another controller: max_pending was 1 and is 2 now"),
        ({"limits": hc.Limits(2)}, "another controller: min_dwell was 1 and is 2 now"),
        ({"guard": hc.Guard(1.0, revert_to_index=0)}, "another controller: guard was none and is"),
    ],
)
def test_another_controller_is_refused(options, message, tmp_path):
    live = written(tmp_path / "record")
    with pytest.raises(InvalidInput, match=message):
        logged(tmp_path / "record", **options)
    with logged(tmp_path / "record") as again:
        assert state_of(again) == live


def test_another_policy_is_refused(tmp_path):
    written(tmp_path / "record")
    with pytest.raises(InvalidInput, match="another controller: method was 'exact' and is 'flat' now"):
        logged(tmp_path / "record", "gp_md flat")


def test_a_different_history_does_not_change_what_was_recorded(tmp_path):
    """What had been learned before the first round is in the record; later histories are not mixed in."""

    def policy(history):
        return hc.gp_md(LINE, kernel=KERNEL, noise_std=0.2, method="exact", history=history)

    with hc.Controller(policy(HISTORY), log=tmp_path / "record") as controller:
        controller.ask(0.5)
        live = state_of(controller)
    with hc.Controller(policy(None), log=tmp_path / "record") as again:
        assert state_of(again) == live


def test_numpy_numbers_in_the_options_are_the_same_options(tmp_path):
    options = {
        "start_index": np.int64(1),
        "seed": np.int64(3),
        "guard": hc.Guard(np.float32(1.5), revert_to_index=np.int64(2), cool_down=np.int64(3)),
    }
    written(tmp_path / "record", **options, limits=hc.Limits(np.int64(2)))
    with logged(tmp_path / "record", limits=hc.Limits(2), guard=hc.Guard(1.5, revert_to_index=2, cool_down=3)) as again:
        assert again.round > 0


# -- damage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET body = replace(body, '\"measurement\": ', '\"measurement\": 1') WHERE number = 4",
        "UPDATE events SET body = body || ' ' WHERE number = 3",
        "UPDATE events SET at = '2001-01-01T00:00:00+00:00' WHERE number = 3",
        "UPDATE events SET kind = 'tell' WHERE number = 3",
        "UPDATE events SET chain = 'x' WHERE number = 3",
        "DELETE FROM events WHERE number = 3",
        "DELETE FROM events WHERE number = 1",
        "UPDATE events SET number = 1000 WHERE number = 3",
        "UPDATE about SET value = replace(value, '1', '2') WHERE key = 'versions'",
    ],
)
def test_changed_records_are_found(statement, tmp_path):
    written(tmp_path / "record")
    change(tmp_path / "record", statement)
    with pytest.raises(DamagedFile, match=r"record is damaged at event \d+; restore it from a backup"):
        logged(tmp_path / "record")


def test_a_damaged_snapshot_is_found(tmp_path, often):
    written(tmp_path / "record")
    change(tmp_path / "record", "UPDATE snapshots SET content = substr(content, 1, 500) WHERE number > 0")
    with pytest.raises(DamagedFile, match=r"the snapshot after event \d+ in .* is damaged"):
        logged(tmp_path / "record")


def snapshots_checked(path):
    with closing(Log.read(path)) as log:
        log.check_snapshots()


@pytest.mark.parametrize("value", [None, 5, 0.5, "x", b"x"])
@pytest.mark.parametrize(
    ("table", "column"),
    [("snapshots", "content"), ("about", "value"), *(("events", each) for each in ("at", "kind", "body", "chain"))],
)
def test_a_row_such_as_a_damaged_page_gives_is_refused(tmp_path, table, column, value):
    """The schema forbids most of these, and SQLite reads them all the same."""
    path = tmp_path / "record"
    written(path)
    with closing(sqlite3.connect(path)) as connection:
        (schema,) = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
        connection.execute(f"CREATE TABLE loose AS SELECT * FROM {table}")
        connection.execute(f"UPDATE loose SET {column} = ?", (value,))
        connection.execute(f"DROP TABLE {table}")
        loose = re.sub(rf"({column}) \w+ NOT NULL", r"\1", schema)  # takes any value as it is
        connection.execute(loose)
        connection.execute(f"INSERT INTO {table} SELECT * FROM loose")
        connection.execute("DROP TABLE loose")
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (schema, table))
        connection.commit()
    for use in (logged, hc.Controller.resume, snapshots_checked):
        with pytest.raises(HoldcourseError, match=re.escape(str(path))):
            use(path)


@pytest.mark.parametrize("content", [b"", b"hello", b"\0" * 5000, b"SQLite format 3\0" + b"\0" * 5000])
def test_other_files_are_refused_and_left_alone(content, tmp_path):
    (tmp_path / "record").write_bytes(content)
    (tmp_path / "record-wal").write_bytes(b"not ours")
    with pytest.raises(DamagedFile, match="is damaged, or is not a record of holdcourse"):
        logged(tmp_path / "record")
    assert (tmp_path / "record").read_bytes() == content
    assert (tmp_path / "record-wal").read_bytes() == b"not ours"


def test_other_databases_are_refused_and_left_alone(tmp_path):
    with closing(sqlite3.connect(tmp_path / "record")) as connection, connection:
        connection.execute("CREATE TABLE events (number INTEGER)")
    connection.close()
    before = (tmp_path / "record").read_bytes()
    with pytest.raises(DamagedFile, match="not a record of holdcourse"):
        logged(tmp_path / "record")
    assert (tmp_path / "record").read_bytes() == before


def test_another_format_is_refused(tmp_path):
    written(tmp_path / "record")
    change(tmp_path / "record", "UPDATE about SET value = '2' WHERE key = 'format'")
    with pytest.raises(InvalidInput, match=r"has format 2; this .* reads format 9\..* begin a new record"):
        logged(tmp_path / "record")


def test_a_wal_without_its_record_is_not_taken_into_a_new_one(tmp_path):
    controller = logged(tmp_path / "old")
    drive(controller, 5)
    shutil.copyfile(tmp_path / "old-wal", tmp_path / "record-wal")
    controller.close()
    with pytest.raises(LogError, match="record-wal is left over from an earlier record"):
        logged(tmp_path / "record")
    (tmp_path / "record-wal").unlink()
    with logged(tmp_path / "record") as fresh:
        assert fresh.round == 0


def test_a_record_that_is_not_there_cannot_be_read(tmp_path):
    with pytest.raises(InvalidInput, match="there is no record at"):
        Log.read(tmp_path / "record")
    with pytest.raises(LogError, match=r"cannot begin a record at .*nowhere"):
        logged(tmp_path / "nowhere" / "record")
    (tmp_path / "folder").mkdir()
    with pytest.raises(HoldcourseError, match="folder"):
        logged(tmp_path / "folder")


def test_no_other_files_are_left(tmp_path):
    written(tmp_path / "record")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["record", "record-mark"]


# -- several processes -------------------------------------------------------------------------------------------------


def test_a_second_writer_is_refused_when_it_opens_the_record(tmp_path):
    with logged(tmp_path / "record") as one:
        with pytest.raises(LogError, match=r"another controller writes to .*record, but each record belongs to one"):
            logged(tmp_path / "record")
        drive(one, 2)
        live = state_of(one)
    with logged(tmp_path / "record") as again:
        assert state_of(again) == live


@pytest.fixture
def unlocked(monkeypatch):
    """A file system without locks."""
    # What asks the system for a lock: no file system without locks is at hand.
    monkeypatch.setattr(file_storage, "_hold", lambda file: None)


def test_of_two_writers_the_second_is_refused_and_unchanged(tmp_path, unlocked):
    one, two = logged(tmp_path / "record"), logged(tmp_path / "record")
    one.ask(0.5)
    before = state_of(two)
    with pytest.raises(LogError, match=r"another process writes to .*each record belongs to one controller"):
        two.ask(0.6)
    assert state_of(two) == before
    one.tell("r0", 1.0)
    with pytest.raises(LogError, match="another process writes"):
        two.new_episode(start_index=2)
    assert state_of(two) == before
    live = state_of(one)
    one.close()
    two.close()
    with logged(tmp_path / "record") as again:
        assert state_of(again) == live


def test_a_tell_that_another_writer_forestalled_has_not_happened(tmp_path, unlocked):
    with logged(tmp_path / "record") as first:
        first.ask(0.5)
    one, two = logged(tmp_path / "record"), logged(tmp_path / "record")
    before = state_of(two)
    one.tell("r0", 1.0)
    with pytest.raises(LogError, match="another process writes"):
        two.tell("r0", 2.0)
    assert state_of(two) == before
    one.close()
    two.close()


def test_a_record_can_be_read_while_it_is_written(tmp_path):
    with logged(tmp_path / "record") as controller:
        drive(controller, 3)
        log = Log.read(tmp_path / "record")
        events = log.last
        drive(controller, 6)
        assert len(list(log.events())) == events  # what was verified when it was opened
        log.close()


def test_a_record_begun_by_another_process_in_the_same_moment_is_not_replaced(tmp_path, monkeypatch):
    """Both see no file; the slower one must find the faster one's record, not write over it."""
    slow = POLICIES[NAME]()
    whole = operation.Recording._beginning  # it runs between looking for the file and writing it

    def overtaken(self):
        monkeypatch.setattr(operation.Recording, "_beginning", whole)  # as above
        written(tmp_path / "record", 4)
        return whole(self)

    monkeypatch.setattr(operation.Recording, "_beginning", overtaken)  # as above
    with hc.Controller(slow, start_index=1, seed=3, log=tmp_path / "record") as controller:
        assert controller.round == 5


# -- failures ----------------------------------------------------------------------------------------------------------


class Failing:
    """A connection whose next writes fail, before or after they are committed."""

    def __init__(self, real, error, committed):
        self.real, self.error, self.committed = real, error, committed

    def __getattr__(self, name):
        return getattr(self.real, name)

    def __enter__(self):
        return self.real.__enter__()

    def __exit__(self, *failure):
        if not self.committed:
            self.real.rollback()
            raise self.error
        self.real.__exit__(*failure)
        raise self.error


CALLS = {
    "ask": lambda controller: controller.ask(**question(NAME, 10)),
    "tell": lambda controller: controller.tell("r10", 1.0, applied_index=4),
    "new_episode": lambda controller: controller.new_episode(start_index=4),
}


@pytest.mark.parametrize("call", list(CALLS))
def test_what_could_not_be_recorded_has_not_happened(call, tmp_path):
    controller = logged(tmp_path / "record")
    drive(controller, 10)
    if call == "tell":
        controller.ask(**question(NAME, 10))
    before, log = state_of(controller), controller.log
    real = log._storage._connection  # replaced by one that fails: SQLite has no such switch
    log._storage._connection = Failing(real, sqlite3.OperationalError("disk I/O error"), committed=False)
    for _ in range(2):
        with pytest.raises(LogError, match=r"cannot write to .*disk I/O error; nothing was changed"):
            CALLS[call](controller)
        assert state_of(controller) == before
    log._storage._connection = real  # as above
    CALLS[call](controller)
    live = state_of(controller)
    assert live != before
    controller.close()
    with logged(tmp_path / "record") as again:
        assert state_of(again) == live


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("call", list(CALLS))
def test_an_interrupt_leaves_memory_and_record_agreed(call, committed, tmp_path):
    controller = logged(tmp_path / "record")
    drive(controller, 10)
    if call == "tell":
        controller.ask(**question(NAME, 10))
    before, log = state_of(controller), controller.log
    real = log._storage._connection  # as above
    log._storage._connection = Failing(real, KeyboardInterrupt(), committed)
    with pytest.raises(KeyboardInterrupt):
        CALLS[call](controller)
    log._storage._connection = real  # as above
    assert (state_of(controller) == before) is not committed
    with logged(crash_copy(tmp_path / "record", tmp_path / "copy")) as again:
        assert state_of(again) == state_of(controller)
    drive(controller, 14)
    live = state_of(controller)
    controller.close()
    with logged(tmp_path / "record") as again:
        assert state_of(again) == live


def test_when_the_record_can_neither_be_written_nor_read_the_state_is_read_back_later(tmp_path, monkeypatch):
    controller = logged(tmp_path / "record")
    drive(controller, 10)
    controller.ask(**question(NAME, 10))
    before, log = state_of(controller), controller.log
    real = log._storage._connection  # as above

    def unreadable(at_most=None):
        raise LogError("cannot read: disk I/O error")

    # As above.
    log._storage._connection = Failing(real, sqlite3.OperationalError("disk I/O error"), committed=False)
    monkeypatch.setattr(log, "newest_snapshot", unreadable)
    with pytest.raises(LogError, match="cannot write"):
        controller.tell("r10", 1.0)
    for call in (lambda: controller.ask(0.5), lambda: controller.tell("r10", 1.0), lambda: controller.save("x")):
        with pytest.raises(LogError, match="cannot read"):
            call()
    monkeypatch.undo()
    log._storage._connection = real  # as above
    assert seen(controller.ask(**question(NAME, 10)))[0] == "r10"
    assert state_of(controller) == before
    controller.close()


def test_a_closed_controller_says_so(tmp_path):
    controller = logged(tmp_path / "record")
    controller.ask(0.5)
    controller.close()
    with pytest.raises(LogError, match="closed"):
        controller.tell("r0", 1.0)
    with pytest.raises(LogError, match="closed"):
        controller.ask(0.5)


def test_recorded_decisions_stand_where_this_version_decides_otherwise(tmp_path, monkeypatch, caplog):
    written(tmp_path / "record", 6)
    log = Log.read(tmp_path / "record")
    recorded = [event.body.action for event in log.events() if event.kind == "ask"]
    log.close()
    honest = Session.decide

    def otherwise(self, request, instructed):
        choice, record = honest(self, request, instructed)
        if record.decision.action == 0:
            return choice, record
        return choice, replace(record, decision=replace(record.decision, action=0, movement=-1.0, expected_cost=-1.0))

    monkeypatch.setattr(Session, "decide", otherwise)
    with caplog.at_level(logging.WARNING), logged(tmp_path / "record") as controller:
        replayed = [entry.decision for entry in operation_of(controller).session.entries.values()]
        before = [entry.before for entry in operation_of(controller).session.entries.values()]
    assert [decision.action for decision in replayed] == recorded
    assert recorded != [0] * len(recorded)
    assert [d.movement for d in replayed] == [LINE.distance(b, d.action) for b, d in zip(before, replayed, strict=True)]
    assert -1.0 not in [d.expected_cost for d in replayed]
    assert "the record stands, but now" in caplog.text
    assert "and is 0 when repeated" in caplog.text


@pytest.mark.skipif(os.name != "posix", reason="file modes are those of POSIX")
def test_a_read_only_file_or_folder_is_a_clear_error():
    folder = Path(tempfile.mkdtemp())

    def work(heard, said):
        written(folder / "record")
        (folder / "record").chmod(0o444)
        folder.chmod(0o555)
        if os.getuid() == 0:  # for root no file is read-only
            os.setgid(65534)
            os.setuid(65534)
        for name in ("record", "new"):
            try:
                logged(folder / name)
            except HoldcourseError as error:
                said.write(f"{type(error).__name__} {error}\n")

    try:
        with Forked(work) as run:
            one, two = run.stdout.read().splitlines()
        assert run.returncode == 0
        assert one == f"LogError {folder}/record is read-only; make it writable, or use another file"
        assert two.startswith(f"LogError cannot begin a record at {folder}/new: ")
        assert sorted(file.name for file in folder.iterdir()) == ["record", "record-mark"]
        folder.chmod(0o755)
        (folder / "record").chmod(0o644)
        with logged(folder / "record") as again:
            assert again.round == 21
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_bodies_are_plain_json(tmp_path):
    with logged(tmp_path / "record", "md_known") as controller:
        drive(controller, 10, "md_known")
    with closing(sqlite3.connect(tmp_path / "record")) as connection, connection:
        bodies = [json.loads(body) for (body,) in connection.execute("SELECT body FROM events")]
    connection.close()
    assert len(bodies) > 20


# -- what a service adds ----------------------------------------------------------------------------------------------


ASKED = AskDetails("act", True, 0, 0.0, 0.0, None, None, None, 1.0, 1.0, 0, 0, 0)
TOLD = TellDetails(0, 0.0, 0, "answer", 1.0, 0.0, None, None, None, None, 1.0, 0.0, None, ())


def with_extras(path, rounds=12):
    """A record whose events say more than the controller needs."""
    controller = logged(path)
    controller.log.index()
    operation_of(controller).note(ModeSet("act", "a test"))
    for t in range(rounds):
        decision = operation_of(controller).ask(
            **question(NAME, t),
            details=lambda record, t=t: dataclasses.replace(ASKED, before=record.before, key=f"k{t}"),
        )
        notes = [AlarmRaised("sensor", "frozen")] if t % 5 == 0 else []
        operation_of(controller).tell(
            decision.id, 1.0, None, lambda _, t=t, notes=notes: (dataclasses.replace(TOLD, key=f"t{t}"), notes)
        )
    return controller


def test_notes_and_extras_change_no_decision(tmp_path):
    plain = logged(tmp_path / "plain")
    for t in range(12):
        plain.tell(plain.ask(**question(NAME, t)).id, 1.0)
    noted = with_extras(tmp_path / "noted")
    assert seen(noted.ask(**question(NAME, 12))) == seen(plain.ask(**question(NAME, 12)))
    expected = state_of(noted)
    noted.close()
    with logged(tmp_path / "noted") as again:
        assert state_of(again) == expected
    plain.close()
    assert hc.audit.verify(tmp_path / "noted").verified
    assert hc.audit.verify(tmp_path / "noted").tells == 12


def test_events_are_found_by_what_they_say(tmp_path):
    controller = with_extras(tmp_path / "record")
    log = Log.read(tmp_path / "record", checked=False)
    assert (log.last, log.chain) == (controller.log.last, controller.log.chain)
    (asked,) = log.find("key", "k7")
    assert (asked.kind, asked.body.round) == ("ask", 7)
    assert log.find("round", 7) == [asked]
    (told,) = log.find("decision", "r7")
    assert told == log.find("key", "t7")[0]
    assert log.find("key", "nobody") == []
    assert [event.body.round for event in log.find("round", 3, 100, limit=4)] == [3, 4, 5, 6]
    assert [event.body.round for event in log.find("round", 0, 100, limit=3, newest=True)] == [9, 10, 11]
    assert len(log.find("note", "alarm", limit=100)) == 3
    log.close()
    controller.close()


def test_finding_uses_the_indexes(tmp_path):
    with_extras(tmp_path / "record", rounds=1).close()
    connection = sqlite3.connect(tmp_path / "record")
    for name, (place, which) in SOUGHT.items():
        plan = connection.execute(
            f"EXPLAIN QUERY PLAN SELECT body FROM events WHERE {which} AND {place} BETWEEN 1 AND 2 "
            f"ORDER BY {place} DESC, number DESC LIMIT 1"
        ).fetchall()
        assert len(plan) == 1
        assert f"USING INDEX events_by_{name}" in plan[0][3]
    connection.close()


def test_several_events_are_written_together_or_not_at_all(tmp_path):
    with logged(tmp_path / "record") as controller:
        before = (controller.log.last, controller.log.chain)
        with pytest.raises(TypeError):
            operation_of(controller).note(ModeSet("act", "fine"), ModeSet("act", object()))
        assert (controller.log.last, controller.log.chain) == before
        first, second = operation_of(controller).note(ModeSet("act", "one"), ModeSet("act", "two"))
        assert (first.number, second.number, first.at) == (1, 2, second.at)
    with closing(Log.read(tmp_path / "record")) as log:
        assert [event.body.reason for event in log.events()] == ["one", "two"]


def test_some_snapshots_last(tmp_path, often, monkeypatch):
    monkeypatch.setattr(file_storage, "LASTING_EVERY", 30)
    written(tmp_path / "record", 60)
    with closing(sqlite3.connect(tmp_path / "record")) as connection, connection:
        numbers = [number for (number,) in connection.execute("SELECT number FROM snapshots ORDER BY number")]
    connection.close()
    assert [number // 30 for number in numbers[:-KEPT_SNAPSHOTS]] == [0, 1, 2, 3, 4]


def test_a_controller_without_a_record_has_no_notes():
    with pytest.raises(InvalidInput, match="keeps no record; make it with log="):
        operation_of(hc.Controller(POLICIES[NAME]())).note(ModeSet("act", "x"))


@pytest.mark.parametrize("told", [True, False])
def test_a_record_that_goes_on_knows_whether_a_round_is_in_progress(tmp_path, told):
    with logged(tmp_path / "one") as first:
        drive(first, 5)
        if not told:
            first.ask(0.5)
        origin = operation_of(first).origin_of_next(range(6), None, first.action)
    second = Operation.begin(POLICIES[NAME](), origin.where.action, 3, tmp_path / "two", origin=origin)
    assert second.session.in_progress == (not told)
    second.close()


def test_a_record_goes_on_from_an_earlier_one(tmp_path):
    with logged(tmp_path / "one") as first:
        drive(first, 5)
        origin = Origin(first.round, 3, Previous("one", first.log.last, first.log.chain))
    second = Operation.begin(POLICIES[NAME](), 4, 3, tmp_path / "two", origin=origin)
    assert (second.session.round, second.session.episode, second.session.where.action) == (5, 3, 4)
    assert second.redirect(5).action == 5  # r4 may still be running
    second.learn_earlier("r3", 2, 0.5, 1.5, None)
    assert second.redirect(4).action == 4
    second.learn_earlier("r4", 2, 0.5, 1.5, place=3)
    assert second.session.where.action == 3
    with pytest.raises(InvalidInput, match="no round is in progress"):
        second.redirect(5)
    decision = second.ask(0.5)
    assert (decision.id, decision.episode) == ("r5", 3)
    second.tell("r5", 1.0)
    second.learn_earlier("r3", 2, 0.5, None, None, book=lambda _: (None, [DecisionLate("r3")]))
    expected = archive.pack(*second.session.snapshot())
    second.close()
    with logged(tmp_path / "two", start_index=4) as again:
        assert state_of(again) == expected
    with closing(Log.read(tmp_path / "two")) as log:
        assert log.about.previous == origin.previous
    assert hc.audit.verify(tmp_path / "two").verified
