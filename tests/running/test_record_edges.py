"""The edges of a record: other processes, threads, forks, copies, forgeries, witnesses, read-only places."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import queue
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from helpers.driving import LINE, POLICIES, crash_copy, half_rounds, question, state_of
from helpers.forking import Forked
from helpers.small_server import Answering, answering

import holdcourse as hc
from holdcourse import archive, threads
from holdcourse.errors import DamagedFile, IncompleteRecord, InvalidInput, LogError
from holdcourse.running import operation
from holdcourse.running.events import ModeSet, RecordAccepted
from holdcourse.running.log import Log

NAME = "gp_md exact"
TESTS = Path(__file__).parents[1]


def logged(path, **options):
    return hc.Controller(POLICIES[NAME](), **{"start_index": 1, "seed": 3, "log": path, **options})


def drive(controller, rounds):
    return [decision for decision in half_rounds(controller, NAME, rounds) if decision]


def program(code, *arguments, **environment):
    """A Python program in a process of its own, which can import what the tests can."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(TESTS), **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def output(code, *arguments, **environment):
    """What such a program prints; it must end well."""
    with program(code, *arguments, **environment) as run:
        said, _ = run.communicate()
    assert run.returncode == 0
    return said


# -- somebody only looks -----------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="kills are those of POSIX")
@pytest.mark.parametrize("itself", ["looks itself", "does not look"])
def test_looking_at_a_record_loses_nothing(itself, tmp_path):
    """A verify by the program itself, then one in a shell, must not take the write-ahead log away from the program."""

    def live(heard, said):
        controller = logged(tmp_path / "record")
        drive(controller, 10)
        if itself == "looks itself":
            assert hc.audit.verify(tmp_path / "record").verified
        said.write("looked\n")
        heard.readline()
        drive(controller, 60)
        said.write(f"{controller.round}\n")
        os.kill(os.getpid(), signal.SIGKILL)

    def look(heard, said):
        assert hc.audit.verify(tmp_path / "record").verified

    with Forked(live) as living:
        assert living.stdout.readline() == "looked\n"
        with Forked(look) as looking:
            pass
        assert looking.returncode == 0
        living.stdin.write("on\n")
        acknowledged = int(living.stdout.readline())
    assert living.returncode == -signal.SIGKILL
    with logged(tmp_path / "record") as again:
        assert again.round == acknowledged == 60


def test_readers_cannot_write(tmp_path):
    with logged(tmp_path / "record") as controller:
        drive(controller, 3)
        log = Log.read(tmp_path / "record")
        with pytest.raises(LogError, match=r"cannot write to .*readonly"):
            log.append(ModeSet("act", "x"))
        log.close()


def test_reading_leaves_nothing_behind(tmp_path):
    with logged(tmp_path / "record") as controller:
        drive(controller, 3)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    hc.audit.verify(tmp_path / "record")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_record_given_for_a_saved_state_is_not_opened(tmp_path):
    """Closing a plain descriptor of a live record would drop the locks that this process holds on it."""
    opened = []

    def watch(event, arguments):
        if event == "open" and str(arguments[0]).endswith("record"):
            opened.append(arguments[0])

    with logged(tmp_path / "record") as controller:
        drive(controller, 2)
        sys.addaudithook(watch)
        with pytest.raises(InvalidInput, match="is a record, not a saved state"):
            hc.Controller.load(tmp_path / "record", POLICIES[NAME]())
        hc.audit.verify(tmp_path / "record")
        controller.backup(tmp_path / "copy")
    assert opened == []


def test_a_link_to_a_record_is_the_record(tmp_path):
    (tmp_path / "folder").mkdir()
    with logged(tmp_path / "folder" / "record") as controller:
        drive(controller, 3)
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "record")
    with logged(tmp_path / "link") as again:
        drive(again, 5)
        assert hc.audit.verify(tmp_path / "link").decisions == 5
        assert (tmp_path / "folder" / "record-wal").exists()
    os.link(tmp_path / "folder" / "record", tmp_path / "second")
    with pytest.raises(LogError, match=r"record has 2 names \(hard links\)"):
        logged(tmp_path / "link")
    (tmp_path / "second").unlink()
    os.link(tmp_path / "folder" / "record", tmp_path / "folder" / ".record.7-7.new")  # a crash while it was named
    with logged(tmp_path / "folder" / "record") as again:
        assert again.round == 5


# -- files that are taken away -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["record-wal", "record"])
@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_record_taken_away_stops_the_controller_loudly(what, how, tmp_path, caplog):
    controller = logged(tmp_path / "record")
    drive(controller, 5)
    if how == "replaced":
        shutil.copyfile(tmp_path / what, tmp_path / "other")
        (tmp_path / "other").replace(tmp_path / what)
    else:
        (tmp_path / what).unlink()
    for _ in range(2):  # and it stays stopped
        with pytest.raises(LogError, match=r"deleted, moved or replaced while in use. This controller has stopped"):
            controller.ask(**question(NAME, 5))
    assert any(entry.levelno == logging.CRITICAL for entry in caplog.records)
    assert controller.round == 5
    controller.close()


def test_a_write_ahead_log_taken_away_during_a_commit_is_noticed(tmp_path, monkeypatch):
    """It is compared again after the commit: what went nowhere is not acknowledged."""
    controller = logged(tmp_path / "record")
    drive(controller, 5)
    watched = controller.log._storage._watched  # between its two looks the file is taken away
    before = watched.check

    def check():
        """It passes before the commit; then the file goes."""
        before()
        (tmp_path / "record-wal").unlink()

    monkeypatch.setattr(watched, "check", check)
    with pytest.raises(LogError, match="record-wal is gone, or another file"):
        controller.ask(**question(NAME, 5))
    controller.close()


# -- copies ------------------------------------------------------------------------------------------------------------


def test_a_copy_without_its_write_ahead_log_does_not_pass_for_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("holdcourse.running.file_storage.CHECKPOINT_EVERY_S", 1e9)
    with logged(tmp_path / "record") as controller:
        drive(controller, 20)
        shutil.copyfile(tmp_path / "record", tmp_path / "copy")
        shutil.copyfile(tmp_path / "record-mark", tmp_path / "marked-mark")
        shutil.copyfile(tmp_path / "record", tmp_path / "marked")
        acknowledged = controller.log.last
    for name, words, missing in (
        ("copy", "was in use and copy-wal is not beside it", None),
        ("marked", f"but {acknowledged} were acknowledged: {acknowledged} are missing", acknowledged),
    ):
        with pytest.raises(IncompleteRecord, match=words) as caught:
            logged(tmp_path / name)
        assert (caught.value.events, caught.value.missing) == (0, missing)
        found = hc.audit.verify(tmp_path / name)
        assert not found.verified
        assert words in found.missing
        with pytest.raises(IncompleteRecord, match=words):  # looking at it has changed nothing
            logged(tmp_path / name)


def test_a_copy_is_never_far_behind(tmp_path, monkeypatch):
    """While events come, each later than the last checkpoint by a second, the file itself has all of them."""
    monkeypatch.setattr("holdcourse.running.file_storage.CHECKPOINT_EVERY_S", 0.0)
    with logged(tmp_path / "record") as controller:
        drive(controller, 20)
        shutil.copyfile(tmp_path / "record", tmp_path / "copy")
        log = Log.read(tmp_path / "copy", incomplete=True)
        assert log.last == controller.log.last
        log.close()


def test_a_shortened_record_is_accepted_only_on_purpose(tmp_path):
    with logged(tmp_path / "record") as controller:
        drive(controller, 10)
        controller.backup(tmp_path / "monday")
        drive(controller, 14)
        lost = controller.log.last
    (tmp_path / "record").unlink()
    shutil.copyfile(tmp_path / "monday", tmp_path / "record")  # restored, and the mark remembers better
    with pytest.raises(IncompleteRecord, match=f"but {lost} were acknowledged"):
        logged(tmp_path / "record")
    with pytest.raises(InvalidInput, match="give reason="):
        hc.audit.accept(tmp_path / "record", " ")
    events = hc.audit.accept(tmp_path / "record", "the disk failed")
    with logged(tmp_path / "record") as again:
        assert again.round == 10
        note = list(again.log.events())[-1].body
        assert note == RecordAccepted(missing=lost - events, reason="the disk failed")
        drive(again, 12)
    found = hc.audit.verify(tmp_path / "record")
    assert found.verified
    assert "the disk failed" in found.accepted[0]
    with pytest.raises(InvalidInput, match="nothing is missing"):
        hc.audit.accept(tmp_path / "record", "again")


def test_an_older_record_in_the_place_of_a_newer_one_is_noticed(tmp_path):
    with logged(tmp_path / "record") as controller:
        drive(controller, 3)
    with logged(tmp_path / "other") as controller:
        drive(controller, 9)
    shutil.copyfile(tmp_path / "other", tmp_path / "record")
    with pytest.raises(DamagedFile, match="is not the record that record-mark belongs to"):
        logged(tmp_path / "record")


def test_a_lost_mark_is_no_loss(tmp_path):
    with logged(tmp_path / "record") as controller:
        drive(controller, 3)
    for content in (b"", b"{", b"\xff" * 256):
        (tmp_path / "record-mark").write_bytes(content)
        with logged(tmp_path / "record") as again:
            assert again.round == 3
    (tmp_path / "record-mark").unlink()
    with logged(tmp_path / "record") as again:
        assert again.round == 3


def test_backups_under_load_are_whole(tmp_path):
    """Copies taken by other threads and by the controller while it works verify, and are true beginnings."""
    controller, copies, stop = logged(tmp_path / "record"), [], threading.Event()

    def copy():
        while not stop.is_set():
            target = tmp_path / f"copy{len(copies)}"
            copies.append((hc.audit.backup(tmp_path / "record", target), target))

    copier = threading.Thread(target=copy)
    copier.start()
    try:
        drive(controller, 60)
    finally:
        stop.set()
        copier.join()
    controller.backup(tmp_path / "last")
    with closing(Log.read(tmp_path / "record")) as log:
        events = list(log.events())
    controller.close()
    assert len({count for count, _ in copies}) > 1
    for count, target in [*copies[-3:], (len(events), tmp_path / "last")]:
        copied = Log.read(target)
        assert list(copied.events()) == events[:count]
        copied.close()
        assert hc.audit.verify(target).verified
        assert sorted(file.name for file in tmp_path.glob(f"{target.name}*")) == [target.name]
    with logged(tmp_path / "last") as again:
        assert state_of(again) == state_of(controller)


def test_a_backup_replaces_nothing(tmp_path):
    with logged(tmp_path / "record") as controller:
        (tmp_path / "copy").write_text("mine")
        with pytest.raises(InvalidInput, match="copy is there already"):
            controller.backup(tmp_path / "copy")
        assert (tmp_path / "copy").read_text() == "mine"
        with pytest.raises(LogError, match="cannot copy"):
            controller.backup(tmp_path / "nowhere" / "copy")
    with pytest.raises(InvalidInput, match="keeps no record"):
        hc.Controller(POLICIES[NAME]()).backup(tmp_path / "none")


@pytest.mark.skipif(os.name != "posix", reason="file modes are those of POSIX")
def test_records_and_states_are_private(tmp_path):
    before = os.umask(0o022)
    try:
        with logged(tmp_path / "record") as controller:
            drive(controller, 2)
            controller.save(tmp_path / "state")
            controller.backup(tmp_path / "copy")
            modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert {"record", "record-wal", "record-mark", "state", "copy"} <= modes.keys()
    assert set(modes.values()) == {0o600}


# -- threads and forks -------------------------------------------------------------------------------------------------


def stress(path, workers, rounds):
    """Threads that ask and tell as they please; every answer they got must be in the record."""
    controller = logged(path, max_pending=workers)
    said, failures = [], []

    def work():
        try:
            while True:
                try:
                    decision = controller.ask(0.5, round=controller.round)
                except (InvalidInput, hc.errors.Conflict):  # another thread was faster
                    continue
                if decision.round >= rounds:
                    controller.tell(decision.id, None)
                    return
                y = float(decision.round)
                controller.tell(decision.id, y)
                said.append((decision.id, decision.action, y))
        except BaseException as error:
            failures.append(error)

    started = [threading.Thread(target=work) for _ in range(workers)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    controller.close()
    assert failures == []
    return said


@pytest.mark.parametrize(("workers", "times"), [(2, 4), (4, 4)])
def test_threads_take_turns(workers, times, tmp_path):
    for number in range(times):
        path = tmp_path / f"record{number}"
        said = stress(path, workers, rounds=12)
        assert hc.audit.verify(path).verified
        log = Log.read(path)
        asks = {event.body.id: event.body.action for event in log.events() if event.kind == "ask"}
        tells = {event.body.id: event.body.measurement for event in log.events() if event.kind == "tell"}
        assert sum(event.kind == "ask" for event in log.events()) == len(asks)
        log.close()
        assert all((asks[name], tells[name]) == (action, y) for name, action, y in said)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are those of POSIX")
def test_a_forked_process_is_refused_and_does_no_harm(tmp_path):
    controller = logged(tmp_path / "record")
    drive(controller, 3)
    child = os.fork()
    if child == 0:
        refused = 0
        for call in (lambda: controller.ask(0.5), lambda: controller.tell("r2", 1.0), lambda: controller.pending):
            try:
                call()
            except InvalidInput as error:
                refused += "which was forked from it" in str(error)
        os._exit(0 if refused == 3 else 1)
    assert os.waitpid(child, 0)[1] == 0
    drive(controller, 6)
    controller.close()
    assert hc.audit.verify(tmp_path / "record").verified


FORKING = """
import os, signal, sys
import holdcourse as hc
from helpers.driving import POLICIES, half_rounds

controller = hc.Controller(POLICIES["gp_md exact"](), start_index=1, seed=3, log=sys.argv[1])
for _ in half_rounds(controller, "gp_md exact", 5):
    pass
child = os.fork()
if child == 0:
    sys.exit(0)  # an ordinary end, which closes what was inherited
os.waitpid(child, 0)
for _ in half_rounds(controller, "gp_md exact", 30):
    pass
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are those of POSIX")
def test_a_forked_process_that_ends_takes_nothing_away(tmp_path):
    with program(FORKING, tmp_path / "record") as forking:
        forking.communicate()
    assert forking.returncode == -signal.SIGKILL
    with logged(tmp_path / "record") as again:
        assert again.round == 30


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are those of POSIX")
def test_a_forked_process_does_not_keep_the_record_for_itself(tmp_path):
    """A worker that outlives the program that forked it must not lock the next program out."""
    reading, writing = os.pipe()
    program = os.fork()
    if program == 0:
        controller = logged(tmp_path / "record")
        drive(controller, 2)
        worker = os.fork()
        if worker == 0:
            signal.pause()
        os.write(writing, f"{worker}\n".encode())
        os.kill(os.getpid(), signal.SIGKILL)
    worker = int(os.read(reading, 20))
    os.waitpid(program, 0)
    try:
        with logged(tmp_path / "record") as again:
            assert again.round == 2
    finally:
        os.kill(worker, signal.SIGKILL)
        os.close(reading)
        os.close(writing)


# -- forgeries ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(operation, "SNAPSHOT_EVERY", 10)


def forge_newest_snapshot(path, chained):
    """Let the newest snapshot say that the machine is elsewhere; `chained` also writes all later hashes again."""
    with closing(sqlite3.connect(path)) as connection, connection:
        number, content = connection.execute("SELECT number, content FROM snapshots ORDER BY number DESC").fetchone()
        state, arrays = archive.unpack(content, "it")
        here = state["where"][-1][1]
        state["where"][-1] = [state["where"][-1][0], (here + 2) % LINE.n]
        forged = archive.pack(state, arrays)
        connection.execute("UPDATE snapshots SET content = ? WHERE number = ?", (forged, number))
        if chained:
            body = {"follows": number, "sha256": hashlib.sha256(forged).hexdigest()}
            text = json.dumps(body, sort_keys=True)
            connection.execute("UPDATE events SET body = ? WHERE number = ?", (text, number + 1))
            rewrite_chain(connection)


def rewrite_chain(connection):
    about = {key: json.loads(value) for key, value in connection.execute("SELECT key, value FROM about")}
    chain = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    for number, at, kind, body in connection.execute(
        "SELECT number, at, kind, body FROM events ORDER BY number"
    ).fetchall():
        chain = hashlib.sha256(f"{chain}\n{number}\n{at}\n{kind}\n{body}".encode()).hexdigest()
        connection.execute("UPDATE events SET chain = ? WHERE number = ?", (chain, number))


def test_a_forged_snapshot_is_found_when_the_record_is_opened(tmp_path, often):
    with logged(tmp_path / "record") as controller:
        drive(controller, 20)
    forge_newest_snapshot(tmp_path / "record", chained=False)
    with pytest.raises(DamagedFile, match=r"the snapshot after event \d+ .* is not the one that was recorded"):
        logged(tmp_path / "record")
    with pytest.raises(DamagedFile, match="not the one that was recorded"):
        hc.audit.verify(tmp_path / "record")


def test_a_forged_snapshot_with_a_new_chain_is_found_by_deciding_again(tmp_path, often):
    with logged(tmp_path / "record") as controller:
        drive(controller, 20)
    forge_newest_snapshot(tmp_path / "record", chained=True)
    (tmp_path / "record-mark").unlink()
    found = hc.audit.verify(tmp_path / "record")
    assert not found.verified
    assert "does not contain the state that the events before it lead to" in found.differences[-1]


# -- the witness -------------------------------------------------------------------------------------------------------


@pytest.fixture
def key(tmp_path):
    (tmp_path / "key").write_bytes(b"0123456789abcdef0123456789abcdef\n")
    return tmp_path / "key"


def witnessed(tmp_path, key, rounds=12):
    witness = hc.Witness(key, tmp_path / "said", every_s=0.0)
    with logged(tmp_path / "record", witness=witness) as controller:
        drive(controller, rounds)
        return controller.log.last


def test_a_witness_confirms_what_it_saw(tmp_path, key):
    events = witnessed(tmp_path, key)
    found = hc.audit.verify(tmp_path / "record", witness=tmp_path / "said", key=key)
    assert found.verified
    assert (found.witnessed, found.events) == (events, events)
    assert found.statements > 0
    last = json.loads((tmp_path / "said").read_text().splitlines()[-1])
    assert (last["events"], last["chain"]) == (found.events, found.head)


def test_a_witness_that_nobody_calls_tells_what_is_due(tmp_path, key):
    """Its thread may look before it is called, and finds something that is due."""
    witness = hc.Witness(key, tmp_path / "said", every_s=0.0)

    class Late(queue.SimpleQueue):
        def put(self, _):
            pass

    witness._wake = Late()  # as slow as a busy machine: the call comes after the thread has looked
    witness.saw("record", 1, "chain", "2026-11-18T12:00:00Z")
    thread = witness._thread  # which must outlive that
    end = time.monotonic() + 10
    while not (tmp_path / "said").exists() and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.1)
    assert len((tmp_path / "said").read_text().splitlines()) == 1
    assert thread.is_alive()


def test_a_witness_hears_the_last_word_of_an_idle_record(tmp_path, key):
    witness = hc.Witness(key, tmp_path / "said", every_s=0.3)
    with logged(tmp_path / "record", witness=witness) as controller:
        drive(controller, 5)
        last = controller.log.last

        def heard():
            lines = (tmp_path / "said").read_text().splitlines() if (tmp_path / "said").exists() else []
            return max((json.loads(line)["events"] for line in lines), default=0)

        until = time.monotonic() + 10.0
        while heard() < last:  # though nothing happens any more
            assert time.monotonic() < until
            time.sleep(0.02)


def test_a_rewritten_history_is_found_by_the_witness_alone(tmp_path, key):
    """A tell and all hashes after it are written again, and decisions do not depend on it: nothing else can notice."""
    policy = hc.stationary(LINE)
    witness = hc.Witness(key, tmp_path / "said", every_s=0.0)
    with hc.Controller(policy, log=tmp_path / "record", witness=witness) as controller:
        for _ in range(5):
            controller.tell(controller.ask(0.5).id, 1.0)
    with closing(sqlite3.connect(tmp_path / "record")) as connection, connection:
        connection.execute("UPDATE events SET body = replace(body, '1.0', '9.0') WHERE kind = 'tell' AND number = 4")
        rewrite_chain(connection)
    (tmp_path / "record-mark").unlink()
    assert hc.audit.verify(tmp_path / "record").verified
    found = hc.audit.verify(tmp_path / "record", witness=tmp_path / "said", key=key)
    assert not found.verified
    assert "is not the one that the witness saw at" in found.differences[0]


def test_a_shortened_history_is_found_by_the_witness(tmp_path, key):
    events = witnessed(tmp_path, key)
    with closing(sqlite3.connect(tmp_path / "record")) as connection, connection:
        connection.execute("DELETE FROM events WHERE number > ?", (events - 3,))
    (tmp_path / "record-mark").unlink()
    assert hc.audit.verify(tmp_path / "record").verified
    found = hc.audit.verify(tmp_path / "record", witness=tmp_path / "said", key=key)
    assert f"the record had {events} events, and now it has {events - 3}" in found.differences[-1]


def test_what_the_witness_did_not_sign_does_not_count(tmp_path, key):
    witnessed(tmp_path, key)
    (tmp_path / "other").write_bytes(b"another key of sixteen bytes")
    found = hc.audit.verify(tmp_path / "record", witness=tmp_path / "said", key=tmp_path / "other")
    assert "are not signed with this key" in found.differences[0]
    assert "the witness has no report of this record" in found.differences[-1]
    (tmp_path / "short").write_bytes(b"short")
    with pytest.raises(InvalidInput, match="has 5 bytes, but needs at least 16"):
        hc.Witness(tmp_path / "short", tmp_path / "said")
    with pytest.raises(InvalidInput, match="belong together"):
        hc.audit.verify(tmp_path / "record", key=key)


def test_a_witness_that_cannot_be_reached_holds_nothing_up(tmp_path, key, caplog):
    witness = hc.Witness(key, "http://127.0.0.1:9/witness", every_s=0.0)  # nobody listens there
    with logged(tmp_path / "record", witness=witness) as controller:
        drive(controller, 3)
    assert "cannot be reached" in caplog.text
    assert hc.audit.verify(tmp_path / "record").verified


def test_witnesses_at_an_address_and_in_the_system_log(tmp_path, key):
    """Real sockets stand for both: a web server, and a system log that listens for datagrams."""
    import socket

    heard = []

    class Handler(Answering):
        def do_POST(self):
            heard.append(self.body().decode())
            self.answer(204)

    with (
        answering(Handler) as url,
        logged(tmp_path / "web", witness=hc.Witness(key, f"{url}/witness")) as controller,
    ):
        drive(controller, 2)
    (tmp_path / "said").write_text("\n".join(heard))
    assert hc.audit.verify(tmp_path / "web", witness=tmp_path / "said", key=key).verified
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.setblocking(False)
        sink = f"syslog:127.0.0.1:{listener.getsockname()[1]}"
        with logged(tmp_path / "system", witness=hc.Witness(key, sink)) as controller:
            drive(controller, 2)
        lines = []
        with suppress(BlockingIOError):  # all was sent when the controller was closed; how often before, is chance
            while True:
                lines.append(listener.recv(4096).decode().rstrip("\0"))
    assert lines
    assert all("holdcourse: {" in line for line in lines)
    (tmp_path / "said").write_text("\n".join(lines))
    assert hc.audit.verify(tmp_path / "system", witness=tmp_path / "said", key=key).verified


# -- processors and threads of linear algebra --------------------------------------------------------------------------

WITH_TWO = """
import sys
import numpy as np
from sklearn.gaussian_process.kernels import RBF
import holdcourse as hc

problem = hc.Problem(np.random.default_rng(0).random((300, 2)))
policy = hc.gp_md(problem, kernel=hc.Kernel(RBF(0.3), RBF(0.3)), noise_std=0.1, context_bounds=(0, 1))
random = np.random.default_rng(1)
with hc.Controller(policy, log=sys.argv[1]) as controller:
    for _ in range(30):
        decision = controller.ask(float(random.random()))
        controller.tell(decision.id, float(random.random()))
"""


def test_threads_of_linear_algebra_do_not_change_a_digit(tmp_path):
    two = {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    output(WITH_TWO, tmp_path / "record", **two)
    with threads.one_thread():
        found = hc.audit.verify(tmp_path / "record")
    assert found.verified
    assert found.last_digits == ()
    log = Log.read(tmp_path / "record")
    log.close()
    assert log.about.versions["threads"] == "1"
    assert log.about.versions["blas"]
    assert log.about.versions["cpu"]


def test_threads_of_linear_algebra_are_given_back():
    from threadpoolctl import threadpool_info, threadpool_limits

    def counts():
        return [found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        before = counts()
        with threads.one_thread():
            assert set(counts()) == {1}
            with threads.one_thread():
                pass
            assert set(counts()) == {1}
        assert counts() == before


def test_last_digits_are_told_from_another_decision(tmp_path):
    with logged(tmp_path / "record") as controller:
        drive(controller, 10)

    def changed(name, change):
        copy = crash_copy(tmp_path / "record", tmp_path / name)
        copy.with_name(f"{name}-mark").unlink()
        with closing(sqlite3.connect(copy)) as connection, connection:
            number, text = connection.execute("SELECT number, body FROM events WHERE kind = 'ask' LIMIT 1").fetchone()
            body = json.loads(text)
            change(body)
            connection.execute(
                "UPDATE events SET body = ? WHERE number = ?", (json.dumps(body, sort_keys=True), number)
            )
            rewrite_chain(connection)
        return hc.audit.verify(copy)

    digits = changed("digits", lambda body: body.update(expected_cost=body["expected_cost"] + 1e-12, probabilities="x"))
    assert digits.verified
    assert len(digits.last_digits) == 2
    other = changed("other", lambda body: body.update(wanted=(body["wanted"] + 1) % LINE.n))
    assert not other.verified
    far = changed("far", lambda body: body.update(expected_cost=body["expected_cost"] + 0.5))
    assert not far.verified


# -- a place that cannot be written ------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="file modes are those of POSIX")
def test_a_record_where_nothing_can_be_written_is_verified(tmp_path):
    import tempfile

    folder = Path(tempfile.mkdtemp())
    try:
        controller = logged(folder / "crashed")
        drive(controller, 4)
        crash_copy(folder / "crashed", tmp_path / "crashed")
        controller.close()
        crash_copy(folder / "crashed", folder / "closed")
        for file in folder.glob("crashed*"):
            file.unlink()
        crash_copy(tmp_path / "crashed", folder / "crashed")
        for file in folder.iterdir():
            file.chmod(0o444)
        folder.chmod(0o555)
        names = sorted(file.name for file in folder.iterdir())

        def look_as_nobody(heard, said):
            hc.audit.verify(folder / "closed")  # everything is imported and compiled before the rights go
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            for name in ("closed", "crashed"):
                found = hc.audit.verify(folder / name)
                said.write(f"{name} {found.decisions} {found.verified}\n")

        with Forked(look_as_nobody) as nobody:
            assert nobody.stdout.read().splitlines() == ["closed 4 True", "crashed 4 True"]
        assert nobody.returncode == 0
        assert sorted(file.name for file in folder.iterdir()) == names
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


FORGETTING = """
import sys
import holdcourse as hc
from helpers.driving import POLICIES, half_rounds

controller = hc.Controller(POLICIES["gp_md exact"](), start_index=1, seed=3, log=sys.argv[1])
for _ in half_rounds(controller, "gp_md exact", 5):
    pass
"""


def test_a_program_that_forgets_to_close_leaves_a_closed_record(tmp_path):
    output(FORGETTING, tmp_path / "record")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["record", "record-mark"]
    (tmp_path / "record-mark").unlink()
    with logged(tmp_path / "record") as again:
        assert again.round == 5


# -- what a sceptical reader found -------------------------------------------------------------------------------------


def test_a_record_says_that_it_is_closed_only_when_it_has_taken_everything_over(tmp_path, monkeypatch):
    """While somebody reads, a checkpoint cannot take all over: then the file goes on saying that it is in use."""
    controller = logged(tmp_path / "record")
    drive(controller, 3)
    with closing(sqlite3.connect(tmp_path / "record")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM events").fetchone()
        drive(controller, 8)
        controller.close()
        shutil.copyfile(tmp_path / "record", tmp_path / "copy")
    with pytest.raises(IncompleteRecord):
        logged(tmp_path / "copy")
    with logged(tmp_path / "record") as again:
        assert again.round == 8


def test_an_acceptance_that_fails_changes_nothing(tmp_path, monkeypatch):
    with logged(tmp_path / "record") as controller:
        drive(controller, 4)
        controller.backup(tmp_path / "monday")
        drive(controller, 9)
    (tmp_path / "record").unlink()
    shutil.copyfile(tmp_path / "monday", tmp_path / "record")

    def full(self, body):
        raise LogError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(Log, "append", full)
        with pytest.raises(LogError, match="no room"):
            hc.audit.accept(tmp_path / "record", "why not")
    with pytest.raises(IncompleteRecord):
        logged(tmp_path / "record")


def test_a_forgotten_controller_lets_go_of_its_record(tmp_path):
    drive(logged(tmp_path / "record"), 2)  # nobody keeps it
    with logged(tmp_path / "record") as again:
        assert again.round == 2


def test_a_refused_controller_tidies_nothing_away(tmp_path):
    controller = logged(tmp_path / "live")
    drive(controller, 5)
    crash_copy(tmp_path / "live", tmp_path / "record")
    controller.close()
    (tmp_path / "record-mark").unlink()
    with pytest.raises(InvalidInput, match="seed was 3 and is 4 now"):
        logged(tmp_path / "record", seed=4)
    with logged(tmp_path / "record") as again:
        assert again.round == 5


def test_a_mark_without_its_record_is_not_taken_for_a_new_one(tmp_path):
    with logged(tmp_path / "record") as controller:
        drive(controller, 2)
    (tmp_path / "record").unlink()
    with pytest.raises(LogError, match="record-mark is left over from an earlier record"):
        logged(tmp_path / "record")
    assert not (tmp_path / "record").exists()


def test_a_mark_taken_away_stops_the_controller(tmp_path):
    """It is what keeps a second controller from the record; it is looked at once a second."""
    controller = logged(tmp_path / "record")
    drive(controller, 2)
    (tmp_path / "record-mark").unlink()
    with pytest.raises(LogError, match=r"record-mark is gone"):
        drive(controller, 30_000)
    controller.close()


def test_a_witness_is_told_again_what_it_could_not_be_told(tmp_path, key):
    (tmp_path / "place").mkdir()
    witness = hc.Witness(key, tmp_path / "place" / "said", every_s=0.05)
    shutil.rmtree(tmp_path / "place")
    with logged(tmp_path / "record", witness=witness) as controller:
        drive(controller, 3)
        time.sleep(0.2)
        (tmp_path / "place").mkdir()
    found = hc.audit.verify(tmp_path / "record", witness=tmp_path / "place" / "said", key=key)
    assert found.verified
    assert found.witnessed == found.events


def test_a_record_closed_while_somebody_has_it_open_is_whole_by_itself(tmp_path):
    controller = logged(tmp_path / "record")
    drive(controller, 4)
    log = Log.read(tmp_path / "record")
    controller.close()
    log.close()
    shutil.copyfile(tmp_path / "record", tmp_path / "copy")
    with logged(tmp_path / "copy") as again:
        assert again.round == 4
