"""A session and the record under it: what is done is recorded, or has not happened.

A record is a `Log`. Where there is none, everything lives in memory alone and the same steps write nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from holdcourse import archive, recipe
from holdcourse.errors import HoldcourseError, InvalidInput
from holdcourse.log import Event, Log
from holdcourse.session import Difference, Session
from holdcourse.witness import Witness

logger = logging.getLogger("holdcourse.controller")

SNAPSHOT_EVERY = 256  # events between two snapshots in the log


class Recording:
    """Keeps a session and its record alike.

    Parameters
    ----------
    session
        At its beginning; it goes on where the record ends.
    path
        File of the record, begun where there is none; None: no record.
    witness
        Who is told how far the record has come.
    """

    def __init__(self, session: Session, path: Path | None = None, witness: Witness | None = None) -> None:
        self.session = session
        self._log: Log | None = None
        self._witness = witness
        self._stale = False  # whether the state must be read back from the log first
        self._snapshots = 0  # how often one was due
        if path is not None:
            self._log = Log.open(path, session.identity(), self._beginning)
            try:
                self._reload()
            except BaseException:
                self._log.close()
                raise
            self._say_how_far()

    @property
    def log(self) -> Log:
        """The record; an error where there is none."""
        if self._log is None:
            raise InvalidInput("this controller keeps no record; make it with log=")
        return self._log

    def catch_up(self) -> None:
        """Read the state back from the log where that could not be done when it was due."""
        if self._stale:
            self._reload()
            self._stale = False

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """What is done within is done and recorded, or has not happened: then the state is that of the record."""
        try:
            yield
        except BaseException:
            if self._log is not None:
                self._stale = True
                with suppress(HoldcourseError):
                    self.catch_up()
            raise

    def write(self, kind: str, body: dict[str, Any], notes: Sequence[Mapping[str, Any]] = ()) -> None:
        """Add an event to the record, and notes after it; on the disk when this returns."""
        if self._log is not None:
            rows = self._log.write([(kind, body), *(("note", dict(note)) for note in notes)])
            if self._witness is not None:
                self._witnessed(rows[-1][1])

    def note(self, notes: Sequence[Mapping[str, Any]]) -> list[Event]:
        """Add notes to the record, all or none; on the disk when this returns."""
        events = self.log.extend([("note", dict(note)) for note in notes])
        if events:
            self._witnessed(events[-1].at)
        return events

    def _witnessed(self, at: str, *, now: bool = False) -> None:
        if self._witness is not None:
            self._witness.saw(self.log.about["record"], self.log.last, self.log.chain, at, now=now)

    def snapshot_if_due(self) -> None:
        """Keep the state in the record now and then: it opens sooner."""
        if self._log is not None and self._log.last // SNAPSHOT_EVERY > self._snapshots:
            self._snapshots = self._log.last // SNAPSHOT_EVERY
            try:
                self._log.snapshot(archive.pack(*self.session.snapshot()))
            except HoldcourseError as error:  # too large, say: what was told is recorded and counts
                logger.warning("no snapshot in %s: %s", self._log.path, error)

    def close(self) -> None:
        """Let go of the log."""
        if self._log is not None:
            try:
                self._say_how_far(now=True)
                if self._witness is not None:
                    self._witness.flush()
            finally:  # whatever comes in between, the record must be let go of
                self._log.close()

    def _say_how_far(self, *, now: bool = False) -> None:
        if self._witness is not None:
            with suppress(HoldcourseError):  # a record that cannot be read any more
                for event in self.log.events(after=self.log.last - 1):
                    self._witnessed(event.at, now=now)

    def _reload(self) -> None:
        """State from the log: the newest snapshot and what came after it."""
        position, content = self.log.newest_snapshot()
        self._snapshots = position // SNAPSHOT_EVERY
        self.session.restore(*archive.unpack(content, f"the snapshot in {self.log.path}"))
        differences: list[Difference] = []
        for event in self.log.events(after=position):
            differences += self.session.repeat(event.kind, event.body)
        if differences:
            logger.warning("%s: the record stands, but now %s", self.log.path, "; ".join(map(str, differences[:5])))

    def _beginning(self) -> tuple[dict[str, Any], bytes]:
        """What a new record holds before the first event."""
        try:
            about: dict[str, Any] = {"recipe": recipe.describe(self.session.policy)}
        except InvalidInput as error:  # only Python can make this policy again
            about = {"recipe": None, "recipe_missing": str(error)}
        return about | dict(self.session.origin.about), archive.pack(*self.session.snapshot())
