"""The record under a controller: an append-only SQLite file of every decision and tell.

An event is committed, and on the disk, before the `ask` or `tell` that made it returns. Events are chained: each holds
the hash of the one before it, so damage that SQLite itself does not notice is found when the record is opened.
Snapshots only save time; the events say everything. The hash of a snapshot is an event itself, so that a forged one is
found as well.

A record in use is two files: the newest events are in the write-ahead log beside it (``-wal``) until a checkpoint takes
them over, at most a second later while events come. A copy of the one without the other does not pass for whole: the
file says that it is in use, and the high-water mark beside it (``-mark``) says how much is missing.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, overload
from uuid import uuid4

from holdcourse import archive, threads
from holdcourse.errors import DamagedFile, IncompleteRecord, InvalidInput, log_error
from holdcourse.errors import LogError as LogError  # the error of this module, for those who import it from here
from holdcourse.running import database, events
from holdcourse.running.database import Mark, MarkFile, beside
from holdcourse.running.events import (
    SOUGHT,
    About,
    Ask,
    Body,
    Change,
    Episode,
    Event,
    Identity,
    Learn,
    Note,
    Previous,
    RecordAccepted,
    Retract,
    Snapshot,
    Sought,
    Tell,
    from_plain,
)

logger = logging.getLogger("holdcourse.running.log")

KEPT_SNAPSHOTS = 2  # the newest ones, beside the first ...
LASTING_EVERY = 8192  # ... and one for so many events: an old decision is rebuilt from the one before it
CHECKPOINT_EVERY_S = 1.0
PAGE = 1000  # events read at once
Row: TypeAlias = tuple[int, str, str, str, str]  # number, at, kind, body, chain
MENDED = timedelta(seconds=5)  # by how much a clock may be set back unnoticed


class Beginning(NamedTuple):
    """What a new record says of where it comes from; see `About`."""

    recipe: dict[str, Any] | None
    recipe_missing: str | None = None
    previous: Previous | None = None
    evidence: dict[str, Any] | None = None


class Log:
    """An open record. Only one process may append to it; others may read.

    Made by `open` and `read`.

    Attributes
    ----------
    about
        What the record says about itself.
    last, chain
        Number and hash of the last event: the record's length and head.
    gap
        What is missing at the end, in words, and how many events at least, where that is known; None: nothing.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, *, checked: bool = True) -> None:
        self.path = path
        self.clock: Callable[[], datetime] = _now
        self._connection = connection
        self.gap: tuple[str, int | None] | None = None
        self._place: database.Place | None = None  # where it is written to; None of one that is only read
        self._mark: MarkFile | None = None
        self._let_go: weakref.finalize[..., Log] | None = None  # what ends its use, at the latest when the program ends
        self._lost: str | None = None  # why nothing can be written any more
        self._checkpointed = 0.0
        self._newest: datetime | None = None
        try:
            with self._reading():
                found = connection.execute("SELECT value FROM about WHERE key = 'format'").fetchone()
                if found is None or json.loads(found[0]) != events.FORMAT:
                    raise InvalidInput(
                        f"{path} has format {found and found[0]}; this version of holdcourse reads format "
                        f"{events.FORMAT}"
                    )
                rows = connection.execute("SELECT key, value FROM about")
                said = {key: json.loads(value) for key, value in rows}
                self._first_link = _digest(json.dumps(said, sort_keys=True).encode())
            self.about = _about(path, said)
            self.last, self.chain = self._verified_end() if checked else self._end()
            self._newest = self._newest_time()
        except BaseException:
            connection.close()
            raise

    @classmethod
    def open(
        cls,
        path: Path,
        identity: Identity,
        beginning: Callable[[], tuple[Beginning, bytes]],
        explain: Callable[[Log, Identity], str] | None = None,
    ) -> Log:
        """Go on with the record in `path`, or begin one; `identity` must be the one it has now.

        `beginning` gives what else a new record says about itself, and the first snapshot; `explain` says what is
        different about another identity.
        """
        path = database.real(path)
        if not path.exists():
            begins, first_snapshot = beginning()
            about = About(
                events.FORMAT,
                uuid4().hex,
                threads.versions(),
                _digest(first_snapshot),
                identity,
                begins.recipe,
                recipe_missing=begins.recipe_missing,
                previous=begins.previous,
                evidence=begins.evidence,
            )
            said = {key: json.dumps(value, default=events.shallow) for key, value in events.shallow(about).items()}
            database.create(path, said, first_snapshot)
        cls._check_identity(path, identity, explain)
        log = cls._found(path, database.writer)
        try:
            log._begin_writing()
        except BaseException:
            log.close()
            raise
        return log

    @classmethod
    def _check_identity(
        cls, path: Path, identity: Identity, explain: Callable[[Log, Identity], str] | None = None
    ) -> None:
        """Whose record it is; read only, since a writer that leaves again tidies up behind itself."""
        log = cls.read(path, checked=False, incomplete=True)
        try:
            present = log.identity()
            if present != identity:
                words = "it is another" if explain is None else explain(log, present)
                raise InvalidInput(
                    f"{path} is the record of another controller: {words}. Use the same policy and options, another "
                    "file, or go on from the record as it is with hc.Controller.resume(path), and change it with "
                    "controller.change(...)"
                )
        finally:
            log.close()

    def identity(self) -> Identity:
        """Whose record it is now: as it was begun, or as it was changed since."""
        position, content = self.newest_snapshot()
        found = from_plain(Identity, archive.unpack(content, f"a snapshot in {self.path}")[0]["identity"], "a snapshot")
        later = self.changes(after=position)  # a snapshot follows every change, unless there was no room for it
        return later[-1].body.identity if later else found

    def changes(self, after: int = 0) -> list[Event[Change]]:
        """Every change of limits, guard or prices after an event, oldest first."""
        with self._reading():
            rows = self._connection.execute(
                "SELECT number, at, kind, body FROM events WHERE number > ? AND kind = ? ORDER BY number",
                (after, Change.KIND),
            ).fetchall()
        found = [self._event(*row) for row in rows]
        return [Event(event.number, event.at, event.body) for event in found if isinstance(event.body, Change)]

    @classmethod
    def read(cls, path: Path, *, checked: bool = True, incomplete: bool = False) -> Log:
        """Open an existing record; `checked=False` trusts that it is whole, which costs the same however long it is.

        `incomplete=True` also opens one whose newest events are missing.
        """
        path = database.real(path)
        if not path.exists():
            raise InvalidInput(f"there is no record at {path}")
        return cls._found(path, lambda found: database.reader(found, checked=checked), checked, incomplete)

    @classmethod
    def accept(cls, path: Path, reason: str) -> int:
        """Take a record whose newest events are missing as it is: it says so, and can be gone on with.

        Returns how many events it holds.
        """
        missing = cls.read(path, incomplete=True)
        missing.close()
        path = missing.path
        if missing.gap is None:
            raise InvalidInput(f"nothing is missing in {path}; there is nothing to accept")
        log = cls._found(path, database.writer, incomplete=True)
        try:
            log._begin_writing(mark_stays=True)
            log.append(RecordAccepted(missing.gap[1], reason))
        except BaseException:
            log._leave_as_it_is()
            raise
        finally:
            log.close()
        return missing.last

    @classmethod
    def _found(
        cls,
        path: Path,
        connect: Callable[[Path], sqlite3.Connection],
        checked: bool = True,
        incomplete: bool = False,
    ) -> Log:
        """An existing record, compared with what should be there."""
        for _ in range(2):  # somebody may begin or end its use just between these looks
            mark, cut_off = Mark.read(path), database.is_cut_off(path)  # before the rest is read: others may be writing
            if not cut_off:
                break
        log = cls(path, connect(path), checked=checked)
        try:
            log.gap = log._gap(mark, cut_off)
            if log.gap is not None and not incomplete:
                words, count = log.gap
                raise IncompleteRecord(
                    f"{words}. Bring back {database.wal_of(path).name} from where it was, or a back-up; to go on "
                    f"without them: holdcourse accept {path}",
                    log.last,
                    count,
                )
        except BaseException:
            log.close()
            raise
        return log

    def _gap(self, mark: Mark | None, cut_off: bool) -> tuple[str, int | None] | None:
        path, last = self.path, self.last
        if mark is not None and mark.record != self.about.record:
            return f"{path} is another record than the one that {beside(path).name} belongs to", None
        if mark is not None and mark.events > last:
            missing = mark.events - last
            return f"{path} holds {last} events, but {mark.events} were acknowledged: {missing} are missing", missing
        if mark is not None and mark.chain != self.chain_at(mark.events):
            return f"{path} does not hold event {mark.events} as it was acknowledged: it was written again", None
        if cut_off and (mark is None or mark.events < last):
            return (
                f"{path} was in use and {database.wal_of(path).name} is not beside it, so what came after event {last} "
                "may be missing; a record in use is copied with holdcourse backup",
                None,
            )
        return None

    def _begin_writing(self, *, mark_stays: bool = False) -> None:
        self._mark = MarkFile(self.path)
        self._let_go = weakref.finalize(self, _end_use, self._connection, os.getpid())
        database.begin_use(self._connection, self.path)
        self._place = database.Place(self.path)
        if not mark_stays:
            self._move_mark()

    def _leave_as_it_is(self) -> None:
        """Do not say in the file that it is closed."""
        if self._let_go is not None:
            self._let_go.detach()
            self._let_go = None

    def _move_mark(self) -> None:
        if self._mark is not None:
            self._mark.write(self.about.record, self.last, self.chain)

    def _check_place(self, *, after: bool = False) -> None:
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
                self._leave_as_it_is()
                logger.critical("%s", error)
        if self._lost is not None:
            raise LogError(self._lost)

    def append(self, body: Body) -> Event[Body]:
        """Add an event; it is on the disk when this returns."""
        return self.extend([body])[0]

    def extend(self, bodies: Sequence[Body]) -> list[Event[Body]]:
        """Add several events, all or none, and return them; they are on the disk when this returns."""
        return [self._event(number, at, kind, text) for number, at, kind, text, _ in self.write(bodies)]

    def write(self, bodies: Sequence[Body]) -> Sequence[Row]:
        """Add several events, all or none; this is quicker than `extend`, for those who need not read them back."""
        self._check_place()
        at = self._time()
        rows, number, chain = [], self.last, self.chain
        for body in bodies:
            kind, text = body.KIND, events.written(body)
            number, chain = number + 1, _link(chain, number + 1, at, kind, text)
            rows.append((number, at, kind, text, chain))
        self._commit(rows, number, chain)
        return rows

    def _commit(self, rows: Sequence[Row], number: int, chain: str, *more: tuple[str, tuple[Any, ...]]) -> None:
        """Write events, and what else belongs to them; afterwards the last is `number`."""
        try:
            with self._connection:
                self._connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows)
                for statement, values in more:
                    self._connection.execute(statement, values)
            self._check_place(after=True)  # else it was taken away meanwhile, and nothing of this is acknowledged
            self.last, self.chain = number, chain
        except sqlite3.Error as error:
            if "events.number" in str(error):  # the number is taken
                raise LogError(
                    f"another process writes to {self.path}; each record belongs to one controller"
                ) from None
            unchanged = "; nothing was changed, try again when it is mended"
            raise log_error(f"cannot write to {self.path}: {error}", error, unchanged) from error
        except BaseException:  # an interrupt may come just before or just after the commit
            found = self._connection.execute("SELECT chain FROM events WHERE number = ?", (number,)).fetchone()
            if found == (chain,) and self._lost is None:
                self.last, self.chain = number, chain
            raise
        self._move_mark()
        if time.monotonic() - self._checkpointed > CHECKPOINT_EVERY_S:
            database.checkpoint(self._connection)
            self._checkpointed = time.monotonic()

    def _time(self) -> str:
        """When something that is recorded now happened: never a little before the event before it.

        Clocks are mended by fractions of a second all the time. One that was set back by more tells the truth from then
        on, and what follows has an earlier time.
        """
        now = self.clock()
        if self._newest is not None and now < self._newest <= now + MENDED:
            now = self._newest
        self._newest = now
        return now.isoformat(timespec="milliseconds")

    def index(self) -> None:
        """Make events quick to find by what they say; see `find`. Part of the file from then on."""
        try:
            with self._connection:
                for name, (place, which) in SOUGHT.items():
                    self._connection.execute(
                        f"CREATE INDEX IF NOT EXISTS events_by_{name} ON events ({place}) WHERE {which}"
                    )
        except sqlite3.Error as error:
            raise log_error(f"cannot write to {self.path}: {error}", error) from error

    @overload
    def find(
        self, what: Literal["round"], low: int, high: int | None = None, *, limit: int = 1, newest: bool = False
    ) -> list[Event[Ask]]: ...

    @overload
    def find(
        self, what: Literal["decision"], low: str, high: str | None = None, *, limit: int = 1, newest: bool = False
    ) -> list[Event[Tell | Learn]]: ...

    @overload
    def find(
        self, what: Literal["retracted"], low: str, high: str | None = None, *, limit: int = 1, newest: bool = False
    ) -> list[Event[Retract]]: ...

    @overload
    def find(
        self, what: Literal["episode"], low: int, high: int | None = None, *, limit: int = 1, newest: bool = False
    ) -> list[Event[Episode]]: ...

    @overload
    def find(
        self, what: Literal["note"], low: str, high: str | None = None, *, limit: int = 1, newest: bool = False
    ) -> list[Event[Note]]: ...

    @overload
    def find(
        self, what: Literal["key"], low: str, high: str | None = None, *, limit: int = 1, newest: bool = False
    ) -> list[Event[Body]]: ...

    def find(
        self, what: Sought, low: str | int, high: str | int | None = None, *, limit: int = 1, newest: bool = False
    ) -> Sequence[Event[Body]]:
        """Events by their key, the round asked, the decision told or taken back, where an episode began, or which note.

        Those at `low`, or from `low` to `high`; at most `limit` of them, in order, with `newest` those at the end.
        """
        place, which = SOUGHT[what]
        order = "DESC" if newest else "ASC"
        with self._reading():
            rows = self._connection.execute(
                f"SELECT number, at, kind, body FROM events WHERE {which} AND {place} BETWEEN ? AND ? "
                f"ORDER BY {place} {order}, number {order} LIMIT ?",
                (low, low if high is None else high, limit),
            ).fetchall()
            found = [self._event(*row) for row in rows]
        return found[::-1] if newest else found

    def retractions(self, upto: int | None = None) -> list[Event[Retract]]:
        """All retractions up to an event, in the order of the decisions."""
        found = self.find("retracted", "r", "s", limit=self.last)
        return found if upto is None else [event for event in found if event.number <= upto]

    def used_keys(self) -> Iterator[str]:
        """All keys under which clients caused events, in no order; see `index`."""
        place, which = SOUGHT["key"]
        with self._reading():
            for (key,) in self._connection.execute(f"SELECT {place} FROM events WHERE {which}"):
                yield key

    def snapshot(self, content: bytes, in_place_of: int | None = None) -> None:
        """Keep the state after the last event. It only saves time later, so a failure is no error.

        It takes the place of all but a few others, or of those after event `in_place_of`: they hold a measurement of
        then that was taken back, and those before it are needed where more is.
        """
        number, at, kind = self.last + 1, self._time(), Snapshot.KIND
        text = events.written(Snapshot(self.last, _digest(content)))
        chain = _link(self.chain, number, at, kind, text)
        which, value = "number NOT IN (SELECT number FROM snapshots ORDER BY number DESC LIMIT ?)", KEPT_SNAPSHOTS
        if in_place_of is not None:
            which, value = f"number < {self.last} AND number >= ?", in_place_of
        lasting = "number NOT IN (SELECT min(number) FROM snapshots GROUP BY number / ?)"
        try:
            self._check_place()
            self._commit(
                [(number, at, kind, text, chain)],
                number,
                chain,
                ("INSERT OR REPLACE INTO snapshots VALUES (?, ?)", (self.last, content)),
                (f"DELETE FROM snapshots WHERE {which} AND {lasting}", (value, LASTING_EVERY)),
            )
        except LogError as error:
            logger.warning("no snapshot in %s: %s", self.path, error)

    def newest_snapshot(self, at_most: int | None = None) -> tuple[int, bytes]:
        """The newest snapshot (not after event `at_most`), and the number of the event it follows."""
        with self._reading():
            row = self._connection.execute(
                "SELECT number, content FROM snapshots WHERE number <= ? ORDER BY number DESC LIMIT 1",
                (self.last if at_most is None else at_most,),
            ).fetchone()
        if row is None:
            raise DamagedFile(f"{self.path} holds no snapshot of its beginning")
        self._check_snapshot(row[0], row[1])
        return int(row[0]), bytes(row[1])

    def check_snapshots(self) -> None:
        """Whether every snapshot is the one that was recorded."""
        with self._reading():
            numbers = [number for (number,) in self._connection.execute("SELECT number FROM snapshots")]
        for number in numbers:
            self.newest_snapshot(at_most=number)

    def _check_snapshot(self, number: int, content: bytes) -> None:
        if number == 0:
            recorded: str | None = self.about.snapshot
        else:
            with self._reading():
                row = self._connection.execute(
                    "SELECT number, at, kind, body FROM events WHERE number = ?", (number + 1,)
                ).fetchone()
                kept = None if row is None else self._event(*row).body
                recorded = kept.sha256 if isinstance(kept, Snapshot) else None
        if recorded != _digest(content):
            raise DamagedFile(
                f"the snapshot after event {number} in {self.path} is damaged: it is not the one that was recorded; "
                "restore the record from a back-up"
            )

    def _event(self, number: int, at: str, kind: str, text: str) -> Event[Body]:
        """Read an event from its row."""
        try:
            return Event(number, at, events.read(kind, text))
        except (LogError, InvalidInput) as error:  # the latter of limits that contradict themselves
            raise LogError(f"{self.path}, event {number}: {error}") from None

    def events(self, after: int = 0) -> Iterator[Event[Body]]:
        """All events after number `after`, in order; those that another process has added since are left out.

        They are read by the page: a reader that is long at one place would keep the writer from making checkpoints.
        """
        upto = self.last
        while after < upto:
            with self._reading():
                rows = self._connection.execute(
                    "SELECT number, at, kind, body FROM events WHERE number > ? AND number <= ? "
                    "ORDER BY number LIMIT ?",
                    (after, upto, PAGE),
                ).fetchall()
                page = [self._event(*row) for row in rows]
            if not page:
                return
            yield from page
            after = page[-1].number

    def backup(self, target: Path) -> None:
        """Write a whole copy in one file; others may go on writing meanwhile."""
        database.copy(self.path, target)

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

    def _end(self) -> tuple[int, str]:
        """Number and hash of the last event, as they stand there."""
        with self._reading():
            row = self._connection.execute("SELECT number, chain FROM events ORDER BY number DESC LIMIT 1").fetchone()
        return (0, self._first_link) if row is None else (int(row[0]), str(row[1]))

    def chain_at(self, number: int) -> str | None:
        """Return the hash of an event as it stands in the file."""
        if number == 0:
            return self._first_link
        with self._reading():
            row = self._connection.execute("SELECT chain FROM events WHERE number = ?", (number,)).fetchone()
        return None if row is None else str(row[0])

    def _newest_time(self) -> datetime | None:
        """Return the time that the last event says."""
        with self._reading():
            row = self._connection.execute("SELECT at FROM events WHERE number = ?", (self.last,)).fetchone()
        try:
            return None if row is None else datetime.fromisoformat(row[0])
        except ValueError as error:
            raise DamagedFile(f"{self.path} is damaged: event {self.last} has no time ({error})") from None

    def _verified_end(self) -> tuple[int, str]:
        """Number and hash of the last event, after checking the whole chain."""
        number, chain = 0, self._first_link
        with self._reading():
            rows = self._connection.execute("SELECT number, at, kind, body, chain FROM events ORDER BY number")
            for expected, (number, at, kind, body, stored) in enumerate(rows, 1):
                chain = _link(chain, expected, at, kind, body)
                if number != expected or stored != chain:
                    raise DamagedFile(f"{self.path} is damaged at event {expected}; restore it from a back-up")
        return number, chain

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with database.reading(self.path):
            yield


def _about(path: Path, said: dict[str, Any]) -> About:
    what = f"what {path} says about itself"
    try:
        return events.from_plain(About, said, what)
    except InvalidInput as error:  # limits that contradict themselves
        raise LogError(f"{what} cannot be: {error}") from None


def _end_use(connection: sqlite3.Connection, process: int) -> None:
    """Say in the file that it is closed; a forked process has nothing to say about it."""
    if process == os.getpid():
        database.end_use(connection)


def _link(chain: str, number: int, at: str, kind: str, body: str) -> str:
    return _digest(f"{chain}\n{number}\n{at}\n{kind}\n{body}".encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _now() -> datetime:
    return datetime.now(UTC)
