"""A record in a file of SQLite: its rows, and what else has to be right for them to be found again.

A record in use is two files: the newest events are in the write-ahead log beside it (``-wal``) until a checkpoint takes
them over, at most a second later while events come. A copy of the one without the other does not pass for whole: the
file says that it is in use, and the high-water mark beside it (``-mark``) says how much is missing. `database` makes,
opens and copies these files.

The mark says how many events were acknowledged, and the hash of the last. It is written after each commit and not
waited for, so it may lag behind the record after a power cut but is never ahead of it. A record that holds less than
its mark has lost something: it was shortened, or an older copy was put in its place. Its file is also what a controller
holds while it writes to the record, so that no second one does.

Whether a name still means the same file is asked without asking when it was changed. Linux from 6.13 on gives a file
finer times once somebody has asked for them, so that every later write has to note the time on the disk: an ordinary
`os.stat` between two commits makes the second one slower by a fifth. `statx` asks for the identity alone.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import sqlite3
import sys
import time
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from holdcourse import archive
from holdcourse.errors import DamagedFile, LogError, counted, is_full, log_error, shown
from holdcourse.running import database
from holdcourse.running.database import CLOSED, IN_USE, beside, reading, wal_of
from holdcourse.running.events import SOUGHT, Sought
from holdcourse.running.storage import KEPT_SNAPSHOTS, LASTING_EVERY, Gap, KeptSnapshot, Row

logger = logging.getLogger("holdcourse.running.log")

CHECKPOINT_EVERY_S = 1.0
ALL_SEEN_EVERY_S = 1.0  # how often a writer looks at all its files before a commit
SWITCHES = 3  # tries to leave one file behind when closing; somebody may be reading
COLUMNS = "number, at, kind, body, chain"
EVENT, SNAPSHOT, END, TEXTS = (int, str, str, str, str), (int, bytes), (int, str), (str, str)  # what columns hold
MARK_WIDTH = 256  # bytes; written in one piece, so that nobody reads the half of one
AT_FDCWD, STATX_INO = -100, 0x100
SIZE = 256  # bytes of struct statx; in its words of eight bytes stand
INODE, DEVICE = 4, 17


@dataclass(frozen=True)
class FilePlace:
    """A record's file, which a link may lead to."""

    path: Path

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.name

    def __str__(self) -> str:
        return str(self.path)

    def exists(self) -> bool:
        """Whether the file is there."""
        return self.path.exists()

    def create(self, about: Mapping[str, str], first_snapshot: bytes) -> None:
        """Begin a record; see `database.create`."""
        database.create(self.path, dict(about), first_snapshot)

    def reader(self, *, checked: bool) -> FileStorage:
        """Open the file for reading."""
        beforehand = _Beforehand.of(self.path)
        return FileStorage(self.path, database.reader(self.path, checked=checked), beforehand)

    def writer(self) -> FileStorage:
        """Open the file for writing."""
        beforehand = _Beforehand.of(self.path)
        return FileStorage(self.path, database.writer(self.path), beforehand)


@dataclass(frozen=True)
class _Beforehand:
    """What a file says before it is opened: its mark, and whether its write-ahead log is missing."""

    mark: Mark | None
    is_cut_off: bool

    @classmethod
    def of(cls, path: Path) -> _Beforehand:
        for _ in range(2):  # somebody may begin or end its use just between these looks
            mark, cut_off = Mark.read(path), database.is_cut_off(path)  # before the rest is read: others may be writing
            if not cut_off:
                break
        return cls(mark, cut_off)


class FileStorage:
    """An open file; made by `FilePlace`. See `storage.Storage` for what its methods do."""

    def __init__(self, path: Path, connection: sqlite3.Connection, beforehand: _Beforehand) -> None:
        self._path, self._connection, self._beforehand = path, connection, beforehand
        self._watched: WatchedFiles | None = None  # where it is written to; None of one that is only read
        self._mark: MarkFile | None = None
        self._let_go: weakref.finalize[..., FileStorage] | None = None  # what ends its use, at the latest at exit
        self.lost: str | None = None  # why nothing can be written any more
        self._checkpointed = 0.0

    def about(self) -> dict[str, str]:
        """What it says about itself."""
        return dict(self._all(TEXTS, "SELECT key, value FROM about"))

    def end(self) -> tuple[int, str] | None:
        """Number and hash of the last event."""
        found: tuple[int, str] | None = self._one(END, "SELECT number, chain FROM events ORDER BY number DESC LIMIT 1")
        return found

    def row(self, number: int) -> Row | None:
        """Return the event of a number; None where it is not there."""
        found: Row | None = self._one(EVENT, f"SELECT {COLUMNS} FROM events WHERE number = ?", number)
        return found

    def page(self, after: int, upto: int, limit: int) -> list[Row]:
        """Events after one number and up to another."""
        which = "number > ? AND number <= ? ORDER BY number LIMIT ?"
        return self._all(EVENT, f"SELECT {COLUMNS} FROM events WHERE {which}", after, upto, limit)

    def walk(self) -> Iterator[Row]:
        """All events in order, as they are at one moment."""
        with reading(self._path):
            for row in self._connection.execute(f"SELECT {COLUMNS} FROM events ORDER BY number"):
                yield self._checked(row, EVENT)

    def of_kind(self, kind: str, after: int) -> list[Row]:
        """All events of a kind."""
        which = "number > ? AND kind = ? ORDER BY number"
        return self._all(EVENT, f"SELECT {COLUMNS} FROM events WHERE {which}", after, kind)

    def find(self, what: Sought, low: str | int, high: str | int, limit: int, *, newest: bool) -> list[Row]:
        """Events by what they say."""
        place, which = SOUGHT[what]
        order = "DESC" if newest else "ASC"
        return self._all(
            EVENT,
            f"SELECT {COLUMNS} FROM events WHERE {which} AND {place} BETWEEN ? AND ? "
            f"ORDER BY {place} {order}, number {order} LIMIT ?",
            low,
            high,
            limit,
        )

    def keys(self) -> Iterator[str]:
        """All keys of clients."""
        place, which = SOUGHT["key"]
        with reading(self._path):
            for (key,) in self._connection.execute(f"SELECT {place} FROM events WHERE {which}"):
                yield key

    def snapshot(self, at_most: int) -> tuple[int, bytes] | None:
        """The newest snapshot up to an event."""
        found: tuple[int, bytes] | None = self._one(
            SNAPSHOT,
            "SELECT number, content FROM snapshots WHERE number <= ? ORDER BY number DESC LIMIT 1",
            at_most,
        )
        return found

    def snapshots(self) -> list[int]:
        """Which events snapshots follow."""
        return [number for (number,) in self._all((int,), "SELECT number FROM snapshots")]

    def gap(self, record: str, last: int, chain_at: Callable[[int], str | None]) -> Gap | None:
        """What is missing, by the mark and by what the file says of its use."""
        path, mark = self._path, self._beforehand.mark
        if mark is not None and mark.record != record:
            return f"{path} is not the record that {beside(path).name} belongs to", None
        if mark is not None and mark.events > last:
            missing = mark.events - last
            events, are = counted(last, "event"), "is" if missing == 1 else "are"
            return f"{path} contains {events}, but {mark.events} were acknowledged: {missing} {are} missing", missing
        if mark is not None and mark.chain != chain_at(mark.events):
            return f"event {mark.events} in {path} is not the one that was acknowledged: it was rewritten", None
        if self._beforehand.is_cut_off and (mark is None or mark.events < last):
            return (
                f"{path} was in use and {wal_of(path).name} is not beside it, so what came after event {last} "
                "may be missing; copy a record in use with holdcourse backup",
                None,
            )
        return None

    def remedy(self) -> str:
        """What to do about a gap."""
        return (
            f"Bring back {wal_of(self._path).name} from where it was, or restore a backup; to continue without the "
            f'missing events, run holdcourse accept {self._path} --reason "..."'
        )

    def begin_writing(self) -> None:
        """Hold the file alone, and say in it that it is in use."""
        self._mark = MarkFile(self._path)
        self._let_go = weakref.finalize(self, _end_use, self._connection, os.getpid())
        _begin_use(self._connection, self._path)
        self._watched = WatchedFiles(self._path)

    def index(self) -> None:
        """Make indexes, which are part of the file from then on."""
        try:
            with self._connection:
                for name, (place, which) in SOUGHT.items():
                    self._connection.execute(
                        f"CREATE INDEX IF NOT EXISTS events_by_{name} ON events ({place}) WHERE {which}"
                    )
        except sqlite3.Error as error:
            raise log_error(f"cannot write to {self._path}: {error}", error) from error

    def check_writable(self) -> None:
        """Whether the names still mean the files that are written to."""
        self._check_place(after=False)

    def commit(self, rows: Sequence[Row], before: tuple[int, str], kept: KeptSnapshot | None) -> None:
        """Write events; that nobody else has written there, the mark and their numbers make sure of."""
        try:
            with self._connection:
                self._connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows)
                if kept is not None:
                    self._keep(kept)
        except sqlite3.Error as error:
            if "events.number" in str(error):  # the number is taken
                raise LogError(
                    f"another process writes to {self._path}, but each record belongs to one controller; stop that "
                    "process first"
                ) from None
            unchanged = "; nothing was changed; try again when the fault is repaired"
            why = "the disk is full" if is_full(error) else str(error).rstrip(".")
            raise log_error(f"cannot write to {self._path}: {why}", error, unchanged) from error
        self._check_place(after=True)  # else it was taken away meanwhile, and nothing of this is acknowledged

    def _keep(self, kept: KeptSnapshot) -> None:
        self._connection.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?)", (kept.follows, kept.content))
        which, value = "number NOT IN (SELECT number FROM snapshots ORDER BY number DESC LIMIT ?)", KEPT_SNAPSHOTS
        if kept.in_place_of is not None:
            which, value = f"number < {kept.follows} AND number >= ?", kept.in_place_of
        lasting = "number NOT IN (SELECT min(number) FROM snapshots GROUP BY number / ?)"
        self._connection.execute(f"DELETE FROM snapshots WHERE {which} AND {lasting}", (value, LASTING_EVERY))

    def acknowledged(self, record: str, last: int, chain: str) -> None:
        """Move the mark, and make a checkpoint if one is due."""
        if self._mark is not None:
            self._mark.write(record, last, chain)
        if time.monotonic() - self._checkpointed > CHECKPOINT_EVERY_S:
            _checkpoint(self._connection)
            self._checkpointed = time.monotonic()

    def copy(self, target: Path) -> None:
        """Copy the file through SQLite."""
        database.copy(self._path, target)

    def leave_as_it_is(self) -> None:
        """Do not say in the file that it is closed."""
        if self._let_go is not None:
            self._let_go.detach()
            self._let_go = None

    def close(self) -> None:
        """Close the file."""
        if self._let_go is not None:
            if self._mark is not None:  # should closing fail half-way, it says that nothing is missing
                self._mark.sync()
            self._let_go()
        self._connection.close()
        self._watched = None
        if self._mark is not None:  # last: whoever waits for it must find the record closed
            self._mark.close()
            self._mark = None

    def _check_place(self, *, after: bool) -> None:
        """Whether what is written goes where the next process will look for it; if not, nothing is written any more.

        Right `after` a commit, it is the write-ahead log that matters.
        """
        if self.lost is None and self._watched is not None:
            try:
                if after:
                    self._watched.check_wal()
                else:
                    self._watched.check()
            except LogError as error:
                self.lost = str(error)
                self.leave_as_it_is()
                logger.critical("%s", error)
        if self.lost is not None:
            raise LogError(self.lost)

    def _one(self, kinds: tuple[type, ...], statement: str, *values: Any) -> Any:
        with reading(self._path):
            row = self._connection.execute(statement, values).fetchone()
        return None if row is None else self._checked(row, kinds)

    def _all(self, kinds: tuple[type, ...], statement: str, *values: Any) -> list[Any]:
        with reading(self._path):
            rows = self._connection.execute(statement, values).fetchall()
        return [self._checked(row, kinds) for row in rows]

    def _checked(self, row: tuple[Any, ...], kinds: tuple[type, ...]) -> Any:
        """Refuse what only a damaged page can hold: SQLite gives NULL or a number for a text, and does not complain."""
        if tuple(map(type, row)) != kinds:
            raise DamagedFile(
                f"{self._path} is damaged: one of its rows reads {shown(row)}, which holdcourse never writes; restore "
                "it from a backup"
            )
        return row


def _begin_use(connection: sqlite3.Connection, path: Path) -> None:
    """Let events go into the write-ahead log from now on; the file itself says that it is in use."""
    with reading(path):
        mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":  # no error of SQLite, but with its older journal the newest event can be lost
            raise LogError(
                f"cannot keep a write-ahead log beside {path} (SQLite remains in mode {mode!r}); "
                "try again, or use a local disk"
            )
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA fullfsync=1")  # macOS answers a plain sync before the disk has written
        connection.execute(f"PRAGMA user_version={IN_USE}")  # an error if SQLite could open it only for reading
        archive.sync_folder(path.parent)  # SQLite names its write-ahead log there, and ignores a failed sync
    _checkpoint(connection)


def _end_use(connection: sqlite3.Connection, process: int) -> None:
    """Leave one file that is whole by itself, if nobody else is reading; then close.

    The file says that it is closed only after it has taken everything over: whoever copies it in between, or kills this
    process, leaves one that still says that it is in use. A forked process has nothing to say about it.
    """
    if process != os.getpid():
        return
    with suppress(sqlite3.Error):
        busy, held, taken = connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
        if not busy and held == taken:
            connection.execute(f"PRAGMA user_version={CLOSED}")
            for _ in range(SWITCHES):
                with suppress(sqlite3.OperationalError):  # somebody has it open for reading
                    connection.execute("PRAGMA journal_mode=DELETE")
                    break
                time.sleep(0.01)
            else:  # then an empty write-ahead log stays beside the file, and the file is whole all the same
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _checkpoint(connection: sqlite3.Connection) -> None:
    """Take what is in the write-ahead log over into the file, as far as readers let us."""
    with suppress(sqlite3.Error):  # it can wait; the events are on the disk
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()


@dataclass(frozen=True)
class Mark:
    """How far a record was acknowledged: its name for itself, the number of its events, and the hash of the last."""

    record: str
    events: int
    chain: str

    @classmethod
    def read(cls, record: Path) -> Mark | None:
        """The mark beside a record; None where there is none that can be read."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            text, _, digest = beside(record).read_bytes().strip().rpartition(b" ")
            if digest == _digest(text):
                return cls(**json.loads(text))
        return None


class MarkFile:
    """The mark of a record that is being written, held until it is closed or the process ends, however it ends.

    Failing to move the mark is no error; a second writer is.
    """

    def __init__(self, record: Path) -> None:
        try:
            self._file = os.open(beside(record), os.O_WRONLY | os.O_CREAT, 0o600)
        except OSError as error:
            words = f"cannot write {beside(record)}: {error.strerror}"
            raise log_error(words, error, "; it must be kept beside the record") from error
        self.close = weakref.finalize(self, os.close, self._file)  # also where it is forgotten
        try:
            _hold(self._file)
        except BlockingIOError:
            self.close()
            raise LogError(
                f"another controller writes to {record}, but each record belongs to one. Stop the other one first, or "
                "use another file"
            ) from None
        _held.add(self)

    def write(self, record: str, events: int, chain: str) -> None:
        """Move the mark; one that cannot be moved, as on a full disk, stays where it is."""
        text = b'{"record": "%b", "events": %d, "chain": "%b"}' % (record.encode(), events, chain.encode())  # JSON
        line = (b"%b %b" % (text, _digest(text))).ljust(MARK_WIDTH - 1) + b"\n"
        try:
            _write_at_start(self._file, line)
        except OSError:
            return

    def sync(self) -> None:
        """Wait until the mark is on the disk, if it can be written."""
        with suppress(OSError):
            os.fsync(self._file)


def _write_at_start(file: int, line: bytes) -> None:
    if hasattr(os, "pwrite"):
        os.pwrite(file, line, 0)
    else:
        os.lseek(file, 0, os.SEEK_SET)
        os.write(file, line)


_held: weakref.WeakSet[MarkFile] = weakref.WeakSet()


def _hold(file: int) -> None:
    try:
        import fcntl
    except ImportError:  # not on POSIX: two writers notice each other at the first event
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # a file system without such locks
        return


def _let_go_in_child() -> None:
    """A forked process must not go on holding what its parent held when that is killed."""
    for held in list(_held):
        held.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)


def _digest(text: bytes) -> bytes:
    return b"%08x" % zlib.crc32(text)


class WatchedFiles:
    """Which files a connection writes to; the names must go on meaning these files."""

    def __init__(self, path: Path) -> None:
        with reading(path):
            self._record, self._wal, self._mark = SameFile(path), SameFile(wal_of(path)), SameFile(beside(path))
        self._all_seen = time.monotonic()  # when all of them were last looked at

    def check(self) -> None:
        """An error where somebody has moved, replaced or deleted one of the files; takes some microseconds.

        In rounds that follow each other within a second, the record alone is looked at: the write-ahead log was looked
        at right after the last commit, and without the mark, what was acknowledged is still where it belongs.
        """
        if not self._record.is_there():
            raise _taken_away(self._record)
        if time.monotonic() - self._all_seen >= ALL_SEEN_EVERY_S:
            self.check_wal()
            if not self._mark.is_there():
                raise _taken_away(self._mark)
            self._all_seen = time.monotonic()

    def check_wal(self) -> None:
        """Raise where the write-ahead log is gone, or is another file."""
        if not self._wal.is_there():
            raise _taken_away(self._wal)


def _taken_away(file: SameFile) -> LogError:
    return LogError(
        f"{file.name} is gone, or another file than the one that this controller writes to: it was deleted, moved or "
        "replaced while in use. This controller has stopped, because what it writes would be lost. Keep all files as "
        "they are, bring back the right ones, and start again"
    )


class SameFile:
    """A name, and the file that it meant when this was made."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._encoded, self._statx = os.fsencode(path), _statx()
        self._buffer = ctypes.create_string_buffer(SIZE)
        self._words = memoryview(self._buffer).cast("B").cast("Q")
        try:
            self._identity = self._found()
        except PermissionError:  # a sandbox that does not know the call
            self._statx = None
            self._identity = self._found()

    def is_there(self) -> bool:
        """Whether the name means that file; not for several threads at once."""
        try:
            return self._found() == self._identity
        except OSError:
            return False

    def _found(self) -> tuple[int, int]:
        if self._statx is None:
            found = os.stat(self.name)
            return found.st_dev, found.st_ino
        if self._statx(AT_FDCWD, self._encoded, 0, STATX_INO, self._buffer) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), self.name)
        return self._words[INODE], self._words[DEVICE]


@cache
def _statx() -> Callable[..., int] | None:
    """The call of the C library; None where there is none."""
    if not sys.platform.startswith("linux"):
        return None
    function: Any = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)
    if function is not None:  # quicker with than without
        function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p]
    return function  # type: ignore[no-any-return]
