"""The record under a controller: an append-only chain of every decision and tell.

An event is committed, and on the disk, before the `ask` or `tell` that made it returns. Events are chained: each
contains the hash of the event before it, so damage that a database does not notice is found when the record is opened.
Snapshots only save time; the events contain everything. The hash of a snapshot is an event too, so that a forged
snapshot is found.

A `storage.Storage` keeps the rows: a file of SQLite, or tables of a database that several processes share.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple, overload
from uuid import uuid4

from holdcourse import archive, threads
from holdcourse.archive import Arrays
from holdcourse.errors import DamagedFile, HoldcourseError, IncompleteRecord, InvalidInput, shown
from holdcourse.errors import LogError as LogError  # the error of this module, for those who import it from here
from holdcourse.running import database, events
from holdcourse.running.events import (
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
from holdcourse.running.file_storage import FilePlace
from holdcourse.running.storage import Gap, KeptSnapshot, Location, RecordPlace, Row, Storage
from holdcourse.running.witness import Witness

logger = logging.getLogger("holdcourse.running.log")

PAGE = 1000  # events read at once
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
        What is missing at the end, in words, and the least number of missing events, if it is known; None if nothing is
        missing.
    """

    def __init__(self, path: Location, storage: Storage, *, checked: bool = True) -> None:
        self.path = path
        self.clock: Callable[[], datetime] = _now
        self._storage = storage
        self._witness: Witness | None = None
        self.gap: Gap | None = None
        self._newest: datetime | None = None
        try:
            found = storage.about()
            said = _values_of(path, found)
            if said.get("format") != events.FORMAT:
                raise InvalidInput(
                    f"{path} has format {found.get('format')}; this version of holdcourse reads format "
                    f"{events.FORMAT}. Read it with the version that wrote it, or begin a new record in another file"
                )
            self._first_link = _digest(json.dumps(said, sort_keys=True).encode())
            self.about = _about(path, said)
            self.last, self.chain = self._verified_end() if checked else self._end()
            self._newest = self._newest_time()
        except BaseException:
            storage.close()
            raise

    @classmethod
    def open(
        cls,
        path: Location,
        identity: Identity,
        beginning: Callable[[], tuple[Beginning, bytes]],
        explain: Callable[[Log, Identity], str] | None = None,
    ) -> Log:
        """Continue the record in `path`, or begin one; `identity` must be its present identity.

        `beginning` returns what else a new record says about itself, and the first snapshot; `explain` says how another
        identity differs.
        """
        path, place = _found_at(path)
        if not place.exists():
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
            place.create(said, first_snapshot)
        cls._check_identity(path, identity, explain)
        log = cls._found(path, place.writer)
        try:
            log._storage.begin_writing()
            log._storage.acknowledged(log.about.record, log.last, log.chain)
        except BaseException:
            log.close()
            raise
        return log

    @classmethod
    def _check_identity(
        cls, path: Location, identity: Identity, explain: Callable[[Log, Identity], str] | None = None
    ) -> None:
        """Whose record it is; read only, since a writer that leaves again tidies up behind itself."""
        log = cls.read(path, checked=False, incomplete=True)
        try:
            present = log.identity()
            if present != identity:
                words = "its identity differs" if explain is None else explain(log, present)
                raise InvalidInput(
                    f"{path} is the record of another controller: {words}. Use the same policy and options, use "
                    "another file, or continue the record as it is with hc.Controller.resume(path) and change it with "
                    "controller.change(...)"
                )
        finally:
            log.close()

    def identity(self) -> Identity:
        """Return the present identity: as the record began, or as it was changed since."""
        position, content = self.newest_snapshot()
        found = from_plain(Identity, archive.unpack(content, f"a snapshot in {self.path}")[0]["identity"], "a snapshot")
        later = self.changes(after=position)  # a snapshot follows every change, unless there was no room for it
        return later[-1].body.identity if later else found

    def changes(self, after: int = 0) -> list[Event[Change]]:
        """Return every change of limits, guard or prices after an event, oldest first."""
        found = [self._event(*row) for row in self._storage.of_kind(Change.KIND, after)]
        return [Event(event.number, event.at, event.body) for event in found if isinstance(event.body, Change)]

    def recipe(self, remedy: str) -> dict[str, Any]:
        """Return the recipe of the policy that began the record; raise an error with the remedy if there is none."""
        if self.about.recipe is None:
            raise InvalidInput(f"{self.path} does not contain its policy ({self.about.recipe_missing}); {remedy}")
        return self.about.recipe

    def repriced(self, recipe: dict[str, Any]) -> dict[str, Any]:
        """Return that recipe at the present prices of movement."""
        prices = [event.body.problem for event in self.changes() if event.body.problem is not None]
        return {**recipe, "problem": prices[-1]} if prices else recipe

    @classmethod
    def read(cls, path: Location, *, checked: bool = True, incomplete: bool = False) -> Log:
        """Open an existing record; `checked=False` trusts that it is intact, which takes no longer for a long record.

        `incomplete=True` also opens a record whose newest events are missing.
        """
        path, place = _found_at(path)
        if not place.exists():
            raise InvalidInput(f"there is no record at {path}; check the path")
        return cls._found(path, lambda: place.reader(checked=checked), checked, incomplete)

    @classmethod
    def accept(cls, path: Location, reason: str) -> int:
        """Accept a record whose newest events are missing: it says so from then on, and can be continued.

        Returns the number of events that it contains.
        """
        missing = cls.read(path, incomplete=True)
        missing.close()
        path, place = _found_at(missing.path)
        if missing.gap is None:
            raise InvalidInput(f"nothing is missing in {path}; there is nothing to accept")
        log = cls._found(path, place.writer, incomplete=True)
        try:
            log._storage.begin_writing()  # the mark stays until it says so
            log.append(RecordAccepted(missing.gap[1], reason))
        except BaseException:
            log._storage.leave_as_it_is()
            raise
        finally:
            log.close()
        return missing.last

    @classmethod
    def _found(
        cls, path: Location, opened: Callable[[], Storage], checked: bool = True, incomplete: bool = False
    ) -> Log:
        """An existing record, compared with what should be there."""
        log = cls(path, opened(), checked=checked)
        try:
            log.gap = log._storage.gap(log.about.record, log.last, log.chain_at)
            if log.gap is not None and not incomplete:
                words, count = log.gap
                raise IncompleteRecord(f"{words}. {log._storage.remedy()}", log.last, count)
        except BaseException:
            log.close()
            raise
        return log

    def watched_by(self, witness: Witness | None) -> None:
        """Tell a witness the length of the record: now, with every further event, and when it is closed."""
        self._witness = witness
        self._say_how_far()

    def _say_how_far(self, *, now: bool = False) -> None:
        if self._witness is not None:
            with suppress(HoldcourseError):  # a record that cannot be read any more
                for event in self.events(after=self.last - 1):
                    self._witness.saw(self.about.record, self.last, self.chain, event.at, now=now)

    def append(self, body: Body) -> Event[Body]:
        """Add an event; it is on the disk when this returns."""
        return self.extend([body])[0]

    def extend(self, bodies: Sequence[Body]) -> list[Event[Body]]:
        """Add several events, all or none, and return them; they are on the disk when this returns."""
        return [self._event(number, at, kind, text) for number, at, kind, text, _ in self.write(bodies)]

    @property
    def lost(self) -> str | None:
        """Why nothing is written any more: somebody took the files away. None while all is well."""
        return self._storage.lost

    def check_writable(self) -> None:
        """An error where somebody took the files away; then `lost` says so from now on."""
        self._storage.check_writable()

    def write(self, bodies: Sequence[Body]) -> Sequence[Row]:
        """Add several events, all or none; quicker than `extend` if they need not be read back."""
        self._storage.check_writable()
        at = self._time()
        rows, number, chain = [], self.last, self.chain
        for body in bodies:
            kind, text = body.KIND, events.written(body)
            number, chain = number + 1, _link(chain, number + 1, at, kind, text)
            rows.append((number, at, kind, text, chain))
        self._commit(rows)
        if self._witness is not None and rows:
            self._witness.saw(self.about.record, self.last, self.chain, at)
        return rows

    def _commit(self, rows: Sequence[Row], kept: KeptSnapshot | None = None) -> None:
        """Write events, and a snapshot that belongs to them."""
        number, chain = (rows[-1][0], rows[-1][4]) if rows else (self.last, self.chain)
        try:
            self._storage.commit(rows, (self.last, self.chain), kept)
        except HoldcourseError:
            raise
        except BaseException:  # an interrupt may come just before or just after the commit
            with suppress(HoldcourseError):
                if self.chain_at(number) == chain:
                    self.last, self.chain = number, chain
            raise
        self.last, self.chain = number, chain
        self._storage.acknowledged(self.about.record, number, chain)

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
        """Add an index by what events say, see `find`; it stays a part of the file."""
        self._storage.index()

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
        """Return events by key, round asked, decision told or taken back, beginning of an episode, or kind of note.

        They are those at `low`, or from `low` to `high`: at most `limit` of them, in order; with `newest` the last
        ones.
        """
        rows = self._storage.find(what, low, low if high is None else high, limit, newest=newest)
        found = [self._event(*row) for row in rows]
        return found[::-1] if newest else found

    def retractions(self, upto: int | None = None) -> list[Event[Retract]]:
        """Return all retractions up to an event, in the order of the decisions."""
        found = self.find("retracted", "r", "s", limit=self.last)
        return found if upto is None else [event for event in found if event.number <= upto]

    def used_keys(self) -> Iterator[str]:
        """Return all keys under which clients caused events, in no order; see `index`."""
        return self._storage.keys()

    def snapshot(self, state: Callable[[], tuple[dict[str, Any], Arrays]], in_place_of: int | None = None) -> None:
        """Keep the state after the last event. It only saves time later, so a failure is no error.

        It replaces all but a few other snapshots, or those after event `in_place_of`: these contain a measurement that
        was taken back, and earlier ones are needed if more is taken back.
        """
        try:
            content = archive.pack(*state())
            number, at, kind = self.last + 1, self._time(), Snapshot.KIND
            text = events.written(Snapshot(self.last, _digest(content)))
            chain = _link(self.chain, number, at, kind, text)
            self._storage.check_writable()
            self._commit([(number, at, kind, text, chain)], KeptSnapshot(self.last, content, in_place_of))
        except HoldcourseError as error:  # too large, say: what was told is recorded and counts
            logger.warning("no snapshot in %s: %s", self.path, error)

    def newest_snapshot(self, at_most: int | None = None) -> tuple[int, bytes]:
        """Return the newest snapshot (not after event `at_most`), and the number of the event that it follows."""
        row = self._storage.snapshot(self.last if at_most is None else at_most)
        if row is None:
            raise DamagedFile(f"{self.path} is damaged: it has no snapshot of its beginning; restore it from a backup")
        self._check_snapshot(row[0], row[1])
        return int(row[0]), bytes(row[1])

    def check_snapshots(self) -> None:
        """Raise an error unless every snapshot is the one that was recorded."""
        for number in self._storage.snapshots():
            self.newest_snapshot(at_most=number)

    def _check_snapshot(self, number: int, content: bytes) -> None:
        if number == 0:
            recorded: str | None = self.about.snapshot
        else:
            row = self._storage.row(number + 1)
            kept = None if row is None else self._event(*row).body
            recorded = kept.sha256 if isinstance(kept, Snapshot) else None
        if recorded != _digest(content):
            raise DamagedFile(
                f"the snapshot after event {number} in {self.path} is damaged: it is not the one that was recorded; "
                "restore the record from a backup"
            )

    def _event(self, number: int, at: str, kind: str, text: str, chain: str = "") -> Event[Body]:
        """Read an event from its row."""
        try:
            return Event(number, at, events.read(kind, text))
        except (LogError, InvalidInput) as error:  # the latter of limits that contradict themselves
            raise LogError(f"{self.path}, event {number}: {error}") from None

    def events(self, after: int = 0) -> Iterator[Event[Body]]:
        """Return all events after number `after`, in order, without those that another process has added since.

        They are read page by page, because a long read would keep the writer from making checkpoints.
        """
        upto = self.last
        while after < upto:
            page = [self._event(*row) for row in self._storage.page(after, upto, PAGE)]
            if not page:
                return
            yield from page
            after = page[-1].number

    def backup(self, target: Path) -> None:
        """Write a whole copy to one file, while others may continue to write."""
        self._storage.copy(target)

    def close(self) -> None:
        """Close the file, after the witness has been told its length."""
        try:
            self._say_how_far(now=True)
            if self._witness is not None:
                self._witness.flush()
        finally:  # whatever comes in between, the record must be let go of
            self._storage.close()

    def _end(self) -> tuple[int, str]:
        """Number and hash of the last event, as they stand there."""
        found = self._storage.end()
        return (0, self._first_link) if found is None else (int(found[0]), str(found[1]))

    def chain_at(self, number: int) -> str | None:
        """Return the hash of an event as it stands in the file."""
        if number == 0:
            return self._first_link
        row = self._storage.row(number)
        return None if row is None else str(row[4])

    def _newest_time(self) -> datetime | None:
        """Return the time that the last event says."""
        row = self._storage.row(self.last)
        try:
            return None if row is None else datetime.fromisoformat(row[1])
        except ValueError as error:
            raise DamagedFile(
                f"{self.path} is damaged: event {self.last} has no time ({error}); restore it from a backup"
            ) from None

    def _verified_end(self) -> tuple[int, str]:
        """Number and hash of the last event, after checking the whole chain."""
        number, chain = 0, self._first_link
        for expected, (number, at, kind, body, stored) in enumerate(self._storage.walk(), 1):
            chain = _link(chain, expected, at, kind, body)
            if number != expected or stored != chain:
                raise DamagedFile(f"{self.path} is damaged at event {expected}; restore it from a backup")
        return number, chain


def _found_at(path: Location) -> tuple[Location, RecordPlace]:
    """The file or address itself, wherever links lead, and what opens it."""
    if isinstance(path, Path):
        path = database.real(path)
        return path, FilePlace(path)
    if not hasattr(path, "exists"):
        raise InvalidInput(f"a record is named by its path or its address, got {shown(path)}")
    return path, path


def _values_of(path: Location, found: dict[str, str]) -> dict[str, Any]:
    """What a record says about itself, read from its texts."""
    with database.reading(path):
        return {key: json.loads(value) for key, value in found.items()}


def _about(path: Location, said: dict[str, Any]) -> About:
    what = f"what {path} says about itself"
    try:
        return events.from_plain(About, said, what)
    except InvalidInput as error:  # limits that contradict themselves
        raise LogError(f"{what} is contradictory: {error}") from None


def _link(chain: str, number: int, at: str, kind: str, body: str) -> str:
    return _digest(f"{chain}\n{number}\n{at}\n{kind}\n{body}".encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _now() -> datetime:
    return datetime.now(UTC)
