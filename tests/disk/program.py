"""What the tests of the disk run under the shim: ``program.py JOBS``, a file of JSON; prints one JSON line per job.

The process imports and compiles once and opens no record that is looked at; each job is done by a child of its own.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import random
import re
import shutil
import sqlite3
import stat
import sys
import tempfile
import traceback
from pathlib import Path

from helpers.driving import POLICIES, answer, question, state_of

import holdcourse as hc
from holdcourse import archive
from holdcourse.errors import HoldcourseError
from holdcourse.running import operation
from holdcourse.running.events import ModeSet, plain
from holdcourse.running.log import Log
from holdcourse.service.core import configuration, epochs, tokens
from holdcourse.service.core.data_folder import DataFolder
from holdcourse.service.core.hosted import Hosted
from holdcourse.service.core.requests import Config

NAME = "gp_md exact"
SNAPSHOT_EVERY = 5
CONFIG = {"id": "a", "actions": [0.0, 1.0, 2.0, 3.0], "scale": 0.1, "policy": "stationary"}
SHIM = ctypes.CDLL(None)  # the shim is loaded already


def sha(content):
    return hashlib.sha256(content).hexdigest()[:16]


def digest(event):
    """An event but for its time."""
    return sha(json.dumps([event.kind, plain(event.body)], sort_keys=True).encode())


def made(path):
    return hc.Controller(POLICIES[NAME](), start_index=1, seed=3, log=path)


# -- what is done, and what is said to be done -------------------------------------------------------------------------


def said(log, after=0):
    """All events but for snapshots, which a record may lack: they only save time."""
    return [digest(event) for event in log.events(after) if event.kind != "snapshot"]


class Marks:
    """Writes into the trace what has been acknowledged: the events of a record, the content of a file."""

    def __init__(self, folder):
        self.folder, self.known = folder, {}

    def say(self, **what):
        text = json.dumps(what).encode()
        SHIM.disk_mark(text, len(text))

    def record(self, log, state=None):
        name = str(log.path.relative_to(self.folder))
        before = self.known.get(name, 0)
        self.known[name] = log.last
        self.say(record=name, events=said(log, before), state=state)

    def controller(self, controller):
        self.record(controller.log, sha(state_of(controller)))

    def file(self, path):
        self.say(file=str(path.relative_to(self.folder)), sha=sha(path.read_bytes()))


def play(folder):
    """All that acknowledges something, once or a few times."""
    marks = Marks(folder)

    def rounds(controller, upto):
        while controller.round < upto:
            decision = controller.ask(**question(NAME, controller.round))
            marks.controller(controller)
            controller.tell(decision.id, **answer(decision))
            marks.controller(controller)

    with made(folder / "record") as controller:
        marks.controller(controller)
        rounds(controller, 4)
        controller.save(folder / "state")
        marks.file(folder / "state")
        controller._operation.note(ModeSet("act", "looked at"))  # as the service does
        marks.controller(controller)
        rounds(controller, 6)
        controller.save(folder / "state")
        marks.file(folder / "state")
        controller.backup(folder / "copy")
        copied = Log.read(folder / "copy")
        marks.record(copied)
        copied.close()
    with made(folder / "record") as controller:
        rounds(controller, 8)
    store = DataFolder(folder / "data")
    marks.file(folder / "data" / "holdcourse.json")
    begin(store)
    published = Log.read(store.epochs("a")[-1])  # from here on it must be there, before anybody has opened it
    marks.record(published)
    published.close()
    hosted = Hosted(store, "a")
    hosted.commit(ModeSet("act", "looked at"))
    marks.record(hosted.controller.log)
    hosted.begin_epoch({"limits": {"min_dwell": 2}}, [ModeSet("act", "changed")], without_archived=False)
    marks.record(hosted.controller.log)
    hosted.close()
    store.close()
    token, _ = tokens.make(folder / "tokens", "one", ["ask"], ["*"])
    marks.file(folder / "tokens")
    tokens.revoke(folder / "tokens", token.id)
    marks.file(folder / "tokens")


def begin(store):
    if not store.epochs("a"):  # as the service does: an earlier attempt may have failed after the record got its name
        epochs.begin(store, configuration.settings_of(Config.model_validate(CONFIG)), None)


# -- faults of the program, to see that the tests see them -------------------------------------------------------------


def without_sync(where):
    """SQLite does not sync: where a record is made, or where one is opened."""
    connect = sqlite3.connect

    class Unsynced(sqlite3.Connection):
        def execute(self, text, *values):
            return super().execute(re.sub(r"(synchronous\s*=\s*)\w+", r"\1OFF", text, flags=re.I), *values)

    def connect_unsynced(path, *options, **more):
        file = Path(re.sub(r"^file:([^?]*).*", r"\1", str(path)))
        is_new = not file.exists() or file.stat().st_size == 0
        if is_new != (where == "create"):
            return connect(path, *options, **more)
        connection = connect(path, *options, **more, factory=Unsynced)
        connection.execute("PRAGMA synchronous=OFF")
        return connection

    sqlite3.connect = connect_unsynced


def without_folder_sync(only_epochs):
    sync, publish = archive.sync_folder, DataFolder.publish
    if not only_epochs:
        archive.sync_folder = lambda folder: None
        return

    def published(self, *paths):
        archive.sync_folder = lambda folder: None
        try:
            publish(self, *paths)
        finally:
            archive.sync_folder = sync

    DataFolder.publish = published


def without_file_sync():
    sync, write = os.fsync, archive.write_file

    def written(path, content, **options):
        os.fsync = lambda fd: sync(fd) if stat.S_ISDIR(os.fstat(fd).st_mode) else None
        try:
            write(path, content, **options)
        finally:
            os.fsync = sync

    archive.write_file = written


SEEDED = {
    "": lambda: None,
    "synchronous=OFF when a record is made": lambda: without_sync("create"),
    "synchronous=OFF when a record is opened": lambda: without_sync("open"),
    "folders are never synced": lambda: without_folder_sync(False),
    "the folder of a new epoch is never synced": lambda: without_folder_sync(True),
    "a saved file is never synced": without_file_sync,
}


def traced(job):
    """Everything once, with a fault of the program or none."""

    def work():
        SEEDED[job["seeded"]]()
        watch(job["folder"], job["trace"])
        play(Path(job["folder"]))

    in_a_child(work)
    return {}


def watch(folder, trace):
    assert SHIM.disk_begin(os.fsencode(folder), os.fsencode(trace)) >= 0


# -- faults of the disk ------------------------------------------------------------------------------------------------


class OnRecord:
    """A controller with a record, one round old; a fault hits what the subclass does."""

    rounds = 1

    def __init__(self, folder):
        self.folder, self.marks = folder, Marks(folder)
        self.controller = made(folder / "record")
        self.play(self.rounds)
        self.prepare()
        self.mark()

    def play(self, upto):
        while self.controller.pending or self.controller.round < upto:
            now = self.controller.pending[0].round if self.controller.pending else self.controller.round
            decision = self.controller.ask(**question(NAME, now))
            self.controller.tell(decision.id, **answer(decision))

    def prepare(self):
        pass

    def ask(self):
        return self.controller.ask(**question(NAME, self.controller.round))

    def mark(self):
        self.marks.controller(self.controller)

    def live(self):
        """The state of the controller, and what its record says while it is open."""
        return [sha(state_of(self.controller)), *said(self.controller.log)]

    def go_on(self):
        self.play(self.controller.round + 1)
        self.mark()

    def close(self):
        self.controller.close()

    @staticmethod
    def reopened(folder):
        """The same after a restart; None where there is no record."""
        if not (folder / "record").exists():
            return None
        with made(folder / "record") as controller:
            return [sha(state_of(controller)), *said(controller.log)]


class Ask(OnRecord):
    def do(self):
        self.ask()


class FirstAsk(Ask):
    rounds = 0  # the write-ahead log begins here


class Tell(OnRecord):
    def prepare(self):
        self.decision = self.ask()

    def do(self):
        self.controller.tell(self.decision.id, **answer(self.decision))


class Snapshot(Tell):
    rounds = SNAPSHOT_EVERY // 2  # one is due after the next tell


class Note(OnRecord):
    def do(self):
        self.controller._operation.note(ModeSet("act", "looked at"))  # as the service does


class Episode(OnRecord):
    def do(self):
        self.controller.new_episode(start_index=2)


class Save(OnRecord):
    def prepare(self):
        self.controller.save(self.folder / "state")
        self.marks.file(self.folder / "state")
        self.old = (self.folder / "state").read_bytes()
        self.ask()

    def do(self):
        self.controller.save(self.folder / "state")

    def mark(self):
        super().mark()
        if hasattr(self, "old") and (self.folder / "state").read_bytes() != self.old:
            self.marks.file(self.folder / "state")

    def live(self):
        return [sha((self.folder / "state").read_bytes()), *super().live()]

    @staticmethod
    def reopened(folder):
        hc.Controller.load(folder / "state", POLICIES[NAME]())
        return [sha((folder / "state").read_bytes()), *OnRecord.reopened(folder)]


class Reopen(OnRecord):
    """Closed and opened again; a close cannot fail, what it leaves undone is done by the next opening."""

    def do(self):
        self.controller.close()
        self.controller = made(self.folder / "record")

    def live(self):
        try:
            return super().live()
        except (HoldcourseError, sqlite3.ProgrammingError):  # it is closed
            return OnRecord.reopened(self.folder)


class Create(OnRecord):
    def __init__(self, folder):
        self.folder, self.marks, self.controller = folder, Marks(folder), None

    def do(self):
        self.controller = made(self.folder / "record")

    def live(self):
        return None if self.controller is None else super().live()


class FirstEpoch:
    """The service makes its folder and a controller in it."""

    def __init__(self, folder):
        self.folder, self.marks, self.store, self.hosted = folder, Marks(folder), None, None

    def do(self):
        if self.store is None:
            self.store = DataFolder(self.folder / "data")
        begin(self.store)
        self.hosted = Hosted(self.store, "a")

    def mark(self):
        self.marks.record(self.hosted.controller.log)

    def live(self):
        return None if self.hosted is None else [0, *said(self.hosted.controller.log)]

    def go_on(self):
        self.hosted.commit(ModeSet("act", "went on"))
        self.mark()

    def close(self):
        self.hosted.close()
        self.store.close()

    @staticmethod
    def reopened(folder):
        store = DataFolder(folder / "data")
        try:
            if "a" not in store.ids():
                return None
            hosted = Hosted(store, "a")
            found = [0, *said(hosted.controller.log)]
            hosted.close()
            return found
        finally:
            store.close()


class NextEpoch(FirstEpoch):
    """The service changes the limits of a controller."""

    def __init__(self, folder):
        super().__init__(folder)
        super().do()
        self.mark()

    def do(self):
        self.hosted.recall()
        if self.hosted.epoch == 1:  # else an earlier attempt failed after the record got its name
            self.hosted.begin_epoch({"limits": {"min_dwell": 2}}, [], without_archived=False)

    def live(self):
        try:
            self.hosted.recall()
        except HoldcourseError:
            return None
        return super().live()


CALLS = {
    "first ask": FirstAsk,
    "ask": Ask,
    "tell": Tell,
    "snapshot": Snapshot,
    "note": Note,
    "episode": Episode,
    "save": Save,
    "reopen": Reopen,
    "create": Create,
    "first epoch": FirstEpoch,
    "next epoch": NextEpoch,
}
BITS = {"OPEN": 1, "WRITE": 4, "TRUNCATE": 5, "SYNC": 6, "RENAME": 7, "UNLINK": 9, "MKDIR": 10}  # as in the shim
NEVER = 10**6


def counts(call, folder):
    """How many calls of each kind there are within what is done."""
    folder.mkdir()

    def work():
        watch(folder, folder.parent / "counted")
        case = CALLS[call](folder)
        SHIM.disk_fault(0, 0, 0, 0, 0)
        case.do()
        return {op: SHIM.disk_calls(bit) for op, bit in BITS.items()}

    found = in_a_child(work)
    shutil.rmtree(folder)
    return found


def restarted(case, folder):
    """What is there after a restart: this process has never had these files open."""
    try:
        return case.reopened(folder)
    except HoldcourseError as error:
        return f"{type(error).__name__}: {error}"


def one_fault(call, op, which, error, folder, trace):
    """What happened when call number `which` of a kind failed, then and after a restart, and how it went on."""
    folder.mkdir()
    times, is_short = (NEVER if error.endswith("ENOSPC") else 1), error.startswith("short")
    code = 0 if error == "short" else getattr(errno, error.rpartition(" ")[2])
    go, going = os.pipe()
    ready, waiting = os.pipe()

    def work():
        watch(folder, trace)
        case = CALLS[call](folder)
        found = {"before": case.live(), "error": None}
        SHIM.disk_fault(1 << BITS[op], which, times, code, is_short)
        try:
            case.do()
        except Exception as raised:
            found["error"] = [type(raised).__name__, str(raised)]
            found["ours"] = isinstance(raised, HoldcourseError)
        found["failed"] = SHIM.disk_failed()
        SHIM.disk_fault(0, 0, 0, 0, 0)
        if found["error"] is None:
            case.mark()
        os.write(waiting, b"!")
        os.read(go, 1)
        found["live"] = case.live()
        if found["error"] is not None:
            case.do()
            case.mark()
        found["done"] = case.live()
        case.go_on()
        found["on"] = case.live()
        case.close()
        return found

    def look():
        os.close(waiting)  # so that the end of the child is seen
        if os.read(ready, 1) != b"!":
            return None
        copy = folder.with_name(f"{folder.name}-copy")
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*-shm"))
        try:
            return restarted(CALLS[call], copy)
        finally:
            os.write(going, b"!")
            shutil.rmtree(copy)

    try:
        found, found_then = in_a_child(work, meanwhile=look)
        found["restarted"] = found_then
        found["end"] = restarted(CALLS[call], folder)
    finally:
        for descriptor in (go, going, ready):
            os.close(descriptor)
    shutil.rmtree(folder)
    return {**found, "call": call, "op": op, "which": which, "kind": error, "folder": str(folder), "trace": str(trace)}


def faults(job):
    """A fault at every call of the kinds asked for, or at `most` of them, chosen at random."""
    base, chance = Path(job["folder"]), random.Random(job["seed"])
    todo = []
    for call in job["calls"]:
        numbers = counts(call, base / "count")
        for op, kinds in job["kinds"].items():
            todo += [(call, op, which, kind) for which in range(1, numbers[op] + 1) for kind in kinds]
    if job["most"] is not None:
        todo = sorted(chance.sample(todo, min(len(todo), job["most"])))
    return [one_fault(*case, base / str(number), base / f"trace{number}") for number, case in enumerate(todo)]


# -- children ----------------------------------------------------------------------------------------------------------


def in_a_child(work, meanwhile=None):
    """What `work` returns, done by a child: its faults, locks and patches are its own.

    With `meanwhile`, both results: the child's, and what this process did while the child was alive.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with os.fdopen(writing, "w") as out:
                out.write(json.dumps(work()))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writing)
    also = None if meanwhile is None else meanwhile()
    with os.fdopen(reading) as answers:
        found = answers.read()
    if os.waitpid(child, 0)[1] != 0:
        raise RuntimeError("a child failed")
    return json.loads(found) if meanwhile is None else (json.loads(found), also)


JOBS = {"trace": traced, "faults": faults}


def main(path):
    operation.SNAPSHOT_EVERY = SNAPSHOT_EVERY
    with tempfile.TemporaryDirectory() as warm:
        SHIM.disk_mark.argtypes = [ctypes.c_char_p, ctypes.c_int]
        play(Path(warm))
    for job in json.loads(Path(path).read_text()):
        print(json.dumps(JOBS[job["kind"]](job)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
