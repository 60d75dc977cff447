"""Records in PostgreSQL: the same bytes and the same chain as in a file, one writer, and no waiting for ever."""

from __future__ import annotations

import itertools
import sqlite3
import threading
import time
from contextlib import closing

import pytest
from service.running import KERNEL

import holdcourse as hc
from holdcourse.errors import DatabaseUnreachable, InvalidInput, LeaseLost, LogError
from holdcourse.running import table_storage as module
from holdcourse.running.log import Log
from holdcourse.running.operation import Operation
from holdcourse.running.postgres import Database
from holdcourse.running.table_storage import TableRecord
from holdcourse.service.core.leases import Leases

NAMES = itertools.count()


@pytest.fixture(scope="module")
def address(postgres):
    return postgres.database()


@pytest.fixture
def database(address):
    database = Database(address)
    database.prepare()
    yield database
    database.close()


@pytest.fixture
def leases(database):
    leases = Leases(database, "http://127.0.0.1:1", 30.0)
    leases.renew()
    return leases


def held(leases, name=None):
    """Where a new record can be written."""
    name = name or f"c{next(NAMES)}"
    assert leases.claim(name)
    return TableRecord(leases.database, name, "epoch-0001.db", leases.fences[name])


def controller(place, rounds=0):
    policy = hc.gp_md(hc.Problem([0.0, 1.0, 2.0]), kernel=KERNEL, noise_std=0.1, context_bounds=[[0.0, 1.0]])
    made = Operation.begin(policy, 0, 3, place)
    for t in range(rounds):
        drive(made, t)
    return made


def drive(made, t):
    decision = made.ask(t % 7 / 7)
    made.tell(decision.id, 1.0 + t % 3)
    return decision.action


def test_it_decides_as_a_file_does_and_holds_the_same_events(leases, tmp_path):
    place, file = held(leases), tmp_path / "record"
    ours, theirs = controller(place, 140), controller(file, 140)  # with a snapshot in between
    with closing(Log.read(place)) as found, closing(Log.read(file)) as expected:
        for one, other in zip(found.events(), expected.events(), strict=True):
            assert one.body == other.body
    ours.close()
    theirs.close()
    again = controller(place)
    assert again.session.round == 140
    assert drive(again, 140) == drive(controller(file), 140)
    assert hc.audit.verify(place).verified


def test_copied_into_a_file_it_has_the_same_bytes(leases, tmp_path):
    place = held(leases)
    controller(place, 20)
    with closing(Log.read(place)) as log:
        assert hc.audit.backup(place, tmp_path / "copy") == log.last
    rows = leases.database.rows(
        "SELECT number, at, kind, body, chain FROM holdcourse.events e JOIN holdcourse.records r ON r.id = e.record "
        "WHERE r.controller = %s ORDER BY number",
        place.controller,
    )
    copied = sqlite3.connect(tmp_path / "copy")
    assert copied.execute("SELECT * FROM events ORDER BY number").fetchall() == rows
    copied.close()
    with closing(Log.read(tmp_path / "copy")) as ours, closing(Log.read(place)) as theirs:
        assert ours.chain == theirs.chain
    with hc.Controller.resume(tmp_path / "copy") as gone_on:  # nothing is locked in
        assert gone_on.round == 20
    with pytest.raises(InvalidInput, match="is there already"):
        hc.audit.backup(place, tmp_path / "copy")


def test_what_is_found_by_columns_is_what_a_file_finds(leases, tmp_path):
    place = held(leases)
    made = controller(place, 12)
    made.retract("r3", "the sensor was unplugged")
    made.new_episode(1)
    hc.audit.backup(place, tmp_path / "copy")
    with closing(Log.read(place)) as ours, closing(Log.read(tmp_path / "copy")) as theirs:
        for what, low, high in (
            ("round", 3, 9),
            ("decision", "r1", "r4"),
            ("retracted", "r", "s"),
            ("note", "a", "z"),
            ("key", "!", "~"),
            ("episode", 0, 2**62),
        ):
            for newest in (False, True):
                found = ours.find(what, low, high, limit=4, newest=newest)
                assert found == theirs.find(what, low, high, limit=4, newest=newest)
        assert [event.body.id for event in ours.retractions()] == ["r3"]


def test_whoever_lost_the_lease_writes_nothing(leases):
    """The process was stopped for longer than others waited, and woke up in the middle of a commit."""
    place = held(leases)
    old = controller(place, 5)
    other = Leases(leases.database, "http://127.0.0.1:2", 30.0)
    other.renew()
    assert not other.take(place.controller)
    leases.leave()
    assert other.take(place.controller)
    assert other.fences[place.controller] == place.fence + 1
    with pytest.raises(LeaseLost, match="held by another process"):
        old.ask(0.5)
    with pytest.raises(LeaseLost, match="held by another process"):
        old.log.append(next(iter(old.log.events())).body)
    new = controller(held(other, place.controller))
    assert new.session.round == 5
    drive(new, 5)
    with pytest.raises(LeaseLost, match="held by another process"):
        old.ask(0.5)
    for undone in (
        lambda: TableRecord(leases.database, place.controller, "x", place.fence).create({}, b""),
        lambda: module.publish([place], [TableRecord(leases.database, place.controller, "y")]),
        lambda: place.remove(),
        lambda: controller(place),
    ):
        with pytest.raises(LeaseLost):
            undone()
    assert leases.renew() == [place.controller]
    assert hc.audit.verify(place).verified


def test_a_take_over_waits_for_an_append_under_way(leases):
    """Its transaction holds the row of the controller, so what is acknowledged is seen by whoever takes over."""
    place = held(leases)
    controller(place, 1)
    leases.leave()
    other, took = Leases(leases.database, "http://127.0.0.1:2", 30.0), []

    def appending(connection):
        with connection.transaction():
            connection.execute(module.HELD, (place.controller, place.fence))
            thread.start()
            time.sleep(0.3)
            took.append("committed")

    thread = threading.Thread(target=lambda: took.append(other.take(place.controller)))
    leases.database.do(appending)
    thread.join()
    assert took == ["committed", True]


def test_an_append_follows_the_end_of_the_chain(leases):
    """Two writers of the same process, which the fence does not keep apart."""
    place = held(leases)
    one, two = controller(place, 2), controller(place)
    drive(one, 2)
    with pytest.raises(LogError, match="was continued by another process"):
        two.ask(0.5)
    assert hc.audit.verify(place).verified


def test_an_append_that_arrived_although_its_connection_broke_counts_once(leases, monkeypatch):
    place = held(leases)
    made = controller(place, 3)
    real, broken = module.TableStorage._append, []  # what runs in the transaction, whose end is to be lost

    def appended_then_cut_off(self, connection, *given):
        added = real(self, connection, *given)
        if not broken:
            broken.append(True)
            connection.close()
            raise module.psycopg.OperationalError("the line was cut")
        return added

    # As above.
    monkeypatch.setattr(module.TableStorage, "_append", appended_then_cut_off)
    drive(made, 3)
    assert broken
    with closing(Log.read(place)) as log:
        assert made.log.last == log.last
    assert hc.audit.verify(place).decisions == 4


def test_a_database_that_does_not_answer_is_not_waited_for(database, monkeypatch):
    began = time.monotonic()
    with pytest.raises(DatabaseUnreachable, match="cannot be used now"):
        database.do(lambda connection: connection.execute("SELECT pg_sleep(30)"), again=False, seconds=0.5)
    assert time.monotonic() - began < 5.0
    assert database.rows("SELECT 1") == [(1,)]


def test_connections_that_broke_while_idle_are_no_reason_to_fail(database):
    database.rows("SELECT 1")
    killer = Database(database._address)  # private: it may hold a password
    killer.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "
        "datname = current_database()"
    )
    killer.close()
    assert database.rows("SELECT 1") == [(1,)]


def test_a_record_is_named_by_an_address(leases, address):
    place = held(leases)
    controller(place, 2)
    for named in (f"{address}#{place.controller}", f"{address}#{place.controller}/epoch-0001.db"):
        assert hc.audit.verify(named).decisions == 2
    with pytest.raises(InvalidInput, match="contains many records; say which"):
        hc.audit.verify(address)
    with pytest.raises(InvalidInput, match="contains no record of 'nobody'"):
        hc.audit.verify(f"{address}#nobody")
    with pytest.raises(InvalidInput, match="there is no record at"):
        hc.audit.verify(f"{address}#{place.controller}/epoch-0009.db")


def test_a_password_is_not_said():
    database = Database("postgresql://me:secret@127.0.0.1:1/plant")
    with pytest.raises(DatabaseUnreachable) as caught:
        database.prepare()
    assert "secret" not in str(caught.value)
    assert "postgresql://127.0.0.1:1/plant cannot be used now" in str(caught.value)


def test_damage_is_found_by_the_chain(leases):
    place = held(leases)
    controller(place, 3)
    leases.database.do(
        lambda connection: connection.execute(
            "UPDATE holdcourse.events SET body = replace(body, '1.0', '1.5') WHERE kind = 'tell' AND record = "
            "(SELECT id FROM holdcourse.records WHERE controller = %s)",
            (place.controller,),
        )
    )
    with pytest.raises(hc.errors.DamagedFile, match="damaged at event 2"):
        Log.read(place)
