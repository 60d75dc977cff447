"""The record under a fleet: every call and what came of it as one event each, on the disk before it is answered.

It is a `Log` as that of a controller, of other events; see `running.events`. Arrays stand in an event as lists, in the
order of the members asked, and what is the same for all of them stands there once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse import archive
from holdcourse.archive import Arrays
from holdcourse.deciding.policy import Policy
from holdcourse.errors import HoldcourseError, InvalidInput, NoActionLeft
from holdcourse.running.events import Author, Cause, Event, FleetAsk, FleetTell, Identity, Note
from holdcourse.running.fleet_calls import Question, read_rows
from holdcourse.running.identity import beginning_of, differences, in_words
from holdcourse.running.log import Beginning, Log
from holdcourse.running.session import Difference
from holdcourse.running.storage import Location
from holdcourse.running.witness import Witness

logger = logging.getLogger("holdcourse.running.fleet")

Array: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

SNAPSHOT_EVERY = 256  # events between two snapshots


def written_members(members: Ints, count: int) -> list[int] | None:
    """Return the members that take part, of so many; None: all of them."""
    return None if len(members) == count else members.tolist()


def read_members(members: list[int] | None, count: int) -> Ints:
    """Return what `written_members` gave."""
    return np.arange(count) if members is None else np.array(members, dtype=np.int64)


def written_contexts(contexts: Array) -> list[list[float]]:
    """Return the contexts, (k, d); one row where they are the same for all."""
    bits = np.ascontiguousarray(contexts).view(np.int64)  # -0.0 is not 0.0: what is read back must be the same
    same = bool((bits == bits[:1]).all())
    found: list[list[float]] = (contexts[:1] if same else contexts).tolist()
    return found


def question_of(event: FleetAsk, count: int) -> Question:
    """Return the question of a recorded call to a fleet of so many members."""
    members = read_members(event.members, count)
    contexts = np.array(event.contexts, dtype=np.float64)
    contexts = np.ascontiguousarray(np.broadcast_to(contexts, (len(members), contexts.shape[1])))
    return Question(members, contexts, read_rows(event.allowed, len(members)))


class Recorded(Protocol):
    """A fleet, as its record sees it."""

    policy: Policy

    def identity(self) -> Identity:
        """Say whose record it is."""
        ...

    def snapshot(self) -> tuple[dict[str, Any], Arrays]:
        """Return the whole state."""
        ...

    def take_over(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Go on from what `snapshot` gave."""
        ...

    def repeat(self, event: FleetAsk | FleetTell) -> list[Difference]:
        """Live through a recorded event again; returns what came out differently."""
        ...


class FleetRecord:
    """Keeps a fleet and its record alike.

    Parameters
    ----------
    fleet
        At its beginning; it goes on where the record ends.
    path
        Where the record is, begun where there is none.
    witness
        Who is told how far the record has come.

    Attributes
    ----------
    author
        In whose name events are recorded; None: nobody's.
    at
        When the newest event was written; empty before the first one that this process writes.
    """

    def __init__(self, fleet: Recorded, path: Location, witness: Witness | None = None) -> None:
        self.author: Author | None = None
        self.at = ""
        self._fleet = fleet
        self._stale = False  # whether the state must be read back first
        self._snapshots = 0  # how often one was due
        self.log = Log.open(path, fleet.identity(), self._beginning, self._different)
        try:
            self._reload()
        except BaseException:
            self.log.close()
            raise
        self.log.watched_by(witness)

    def catch_up(self) -> None:
        """Read the state back from the record where that could not be done when it was due."""
        if self._stale:
            self._reload()
            self._stale = False

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """What is done within is done and recorded, or has not happened: then the state is that of the record."""
        try:
            yield
        except (InvalidInput, NoActionLeft):  # a refusal, which comes before anything is changed
            raise
        except BaseException:
            self._stale = True
            with suppress(HoldcourseError):
                self.catch_up()
            raise

    def write(self, body: FleetAsk | FleetTell | Note) -> None:
        """Add an event; it is on the disk when this returns."""
        self.at = self.log.write([body])[-1][1]

    @property
    def cause(self) -> Cause | None:
        """Who caused what is written next."""
        return None if self.author is None else Cause(by=self.author)

    def snapshot_if_due(self) -> None:
        """Keep the state now and then: the record opens sooner."""
        if self.log.last // SNAPSHOT_EVERY > self._snapshots:
            self._snapshots = self.log.last // SNAPSHOT_EVERY
            self.log.snapshot(self._fleet.snapshot)

    def close(self) -> None:
        """Let go of the record's files."""
        self.log.close()

    def _reload(self) -> None:
        """State from the record: the newest snapshot and what came after it."""
        position, content = self.log.newest_snapshot()
        self._snapshots = position // SNAPSHOT_EVERY
        self._fleet.take_over(*archive.unpack(content, f"a snapshot in {self.log.path}"))
        changed = [each for _, found in relived(self.log, self._fleet, position) for each in found]
        if changed:
            logger.warning("%s: the record stands, but now %s", self.log.path, "; ".join(map(str, changed[:5])))

    def _different(self, log: Log, theirs: Identity) -> str:
        """Say what is different about our fleet from the one of a record."""
        return in_words(list(differences(theirs, self._fleet.identity(), self._fleet.policy, log.about.recipe)))

    def _beginning(self) -> tuple[Beginning, bytes]:
        """Return what a new record holds before the first event."""
        return beginning_of(self._fleet.policy), archive.pack(*self._fleet.snapshot())


def relived(log: Log, fleet: Recorded, after: int) -> Iterator[tuple[Event[Any], list[Difference]]]:
    """Live again through the events after a number; yields each, and what came out differently."""
    for event in log.events(after=after):
        body = event.body
        yield event, fleet.repeat(body) if isinstance(body, FleetAsk | FleetTell) else []
