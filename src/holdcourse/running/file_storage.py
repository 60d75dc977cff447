"""A record in a file of SQLite: its rows, and what else has to be right for them to be found again.

A record in use is two files: the newest events are in the write-ahead log beside it (``-wal``) until a checkpoint takes
them over, at most a second later while events come. A copy of the one without the other does not pass for whole: the
file says that it is in use, and the high-water mark beside it (``-mark``) says how much is missing. `database` opens,
copies and watches these files.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdcourse.errors import LogError, log_error
from holdcourse.running import database
from holdcourse.running.database import Mark, MarkFile, beside, reading
from holdcourse.running.events import SOUGHT, Sought
from holdcourse.running.storage import KEPT_SNAPSHOTS, LASTING_EVERY, Gap, Kept, Row

logger = logging.getLogger("holdcourse.running.log")

CHECKPOINT_EVERY_S = 1.0
COLUMNS = "number, at, kind, body, chain"


@dataclass(frozen=True)
class FilePlace:
    """A record's file, which a link may lead to."""

    path: Path

    @property
    def name(self) -> str:
        """The file's name."""
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
        self._place: database.Place | None = None  # where it is written to; None of one that is only read
        self._mark: MarkFile | None = None
        self._let_go: weakref.finalize[..., FileStorage] | None = None  # what ends its use, at the latest at exit
        self._lost: str | None = None  # why nothing can be written any more
        self._checkpointed = 0.0

    def about(self) -> dict[str, str]:
        """What it says about itself."""
        with reading(self._path):
            return dict(self._connection.execute("SELECT key, value FROM about"))

    def end(self) -> tuple[int, str] | None:
        """Number and hash of the last event."""
        found: tuple[int, str] | None = self._one("SELECT number, chain FROM events ORDER BY number DESC LIMIT 1")
        return found

    def row(self, number: int) -> Row | None:
        """One event."""
        found: Row | None = self._one(f"SELECT {COLUMNS} FROM events WHERE number = ?", number)
        return found

    def page(self, after: int, upto: int, limit: int) -> list[Row]:
        """Events after one number and up to another."""
        return self._all(
            f"SELECT {COLUMNS} FROM events WHERE number > ? AND number <= ? ORDER BY number LIMIT ?", after, upto, limit
        )

    def walk(self) -> Iterator[Row]:
        """All events in order, as they are at one moment."""
        with reading(self._path):
            yield from self._connection.execute(f"SELECT {COLUMNS} FROM events ORDER BY number")

    def of_kind(self, kind: str, after: int) -> list[Row]:
        """All events of a kind."""
        return self._all(f"SELECT {COLUMNS} FROM events WHERE number > ? AND kind = ? ORDER BY number", after, kind)

    def find(self, what: Sought, low: str | int, high: str | int, limit: int, *, newest: bool) -> list[Row]:
        """Events by what they say."""
        place, which = SOUGHT[what]
        order = "DESC" if newest else "ASC"
        return self._all(
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
            "SELECT number, content FROM snapshots WHERE number <= ? ORDER BY number DESC LIMIT 1", at_most
        )
        return found

    def snapshots(self) -> list[int]:
        """Which events snapshots follow."""
        return [number for (number,) in self._all("SELECT number FROM snapshots")]

    def gap(self, record: str, last: int, chain_at: Callable[[int], str | None]) -> Gap | None:
        """What is missing, by the mark and by what the file says of its use."""
        path, mark = self._path, self._beforehand.mark
        if mark is not None and mark.record != record:
            return f"{path} is another record than the one that {beside(path).name} belongs to", None
        if mark is not None and mark.events > last:
            missing = mark.events - last
            return f"{path} holds {last} events, but {mark.events} were acknowledged: {missing} are missing", missing
        if mark is not None and mark.chain != chain_at(mark.events):
            return f"{path} does not hold event {mark.events} as it was acknowledged: it was written again", None
        if self._beforehand.is_cut_off and (mark is None or mark.events < last):
            return (
                f"{path} was in use and {database.wal_of(path).name} is not beside it, so what came after event {last} "
                "may be missing; a record in use is copied with holdcourse backup",
                None,
            )
        return None

    def remedy(self) -> str:
        """What to do about a gap."""
        return (
            f"Bring back {database.wal_of(self._path).name} from where it was, or a back-up; to go on without them: "
            f"holdcourse accept {self._path}"
        )

    def begin_writing(self) -> None:
        """Hold the file alone, and say in it that it is in use."""
        self._mark = MarkFile(self._path)
        self._let_go = weakref.finalize(self, _end_use, self._connection, os.getpid())
        database.begin_use(self._connection, self._path)
        self._place = database.Place(self._path)

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

    def commit(self, rows: Sequence[Row], before: tuple[int, str], kept: Kept | None) -> None:
        """Write events; that nobody else has written there, the mark and their numbers make sure of."""
        try:
            with self._connection:
                self._connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows)
                if kept is not None:
                    self._keep(kept)
        except sqlite3.Error as error:
            if "events.number" in str(error):  # the number is taken
                raise LogError(
                    f"another process writes to {self._path}; each record belongs to one controller"
                ) from None
            unchanged = "; nothing was changed, try again when it is mended"
            raise log_error(f"cannot write to {self._path}: {error}", error, unchanged) from error
        self._check_place(after=True)  # else it was taken away meanwhile, and nothing of this is acknowledged

    def _keep(self, kept: Kept) -> None:
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
            database.checkpoint(self._connection)
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
        self._place = None
        if self._mark is not None:  # last: whoever waits for it must find the record closed
            self._mark.close()
            self._mark = None

    def _check_place(self, *, after: bool) -> None:
        """Whether what is written goes where the next process will look for it; if not, nothing is written any more.

        Right `after` a commit, it is the write-ahead log that matters.
        """
        if self._lost is None and self._place is not None:
            try:
                if after:
                    self._place.check_wal()
                else:
                    self._place.check()
            except LogError as error:
                self._lost = str(error)
                self.leave_as_it_is()
                logger.critical("%s", error)
        if self._lost is not None:
            raise LogError(self._lost)

    def _one(self, statement: str, *values: Any) -> Any:
        with reading(self._path):
            return self._connection.execute(statement, values).fetchone()

    def _all(self, statement: str, *values: Any) -> list[Any]:
        with reading(self._path):
            return self._connection.execute(statement, values).fetchall()


def _end_use(connection: sqlite3.Connection, process: int) -> None:
    """Say in the file that it is closed; a forked process has nothing to say about it."""
    if process == os.getpid():
        database.end_use(connection)
