"""One controller of the service, opened from its records: what they say, and what is added to them.

Not safe for several threads at once: the fleet gives each controller one turn at a time. What others look at meanwhile
is `view`, which is replaced as a whole after every change. What the machine's program may do to it is in `rounds`, what
an operator may do in `operating`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from holdcourse.controller import Controller
from holdcourse.errors import DamagedFile
from holdcourse.log import Event, Log
from holdcourse.service import epochs, past, refusals, watchdog
from holdcourse.service.ledger import Ledger
from holdcourse.service.refusals import Refusal
from holdcourse.service.shelf import Shelf
from holdcourse.service.store import DataFolder
from holdcourse.service.view import View, of_epoch


class Done(NamedTuple):
    """An answer, and what happened: (kind, data) for those who watch; nothing if it was a repetition."""

    answer: dict[str, Any]
    happened: list[tuple[str, dict[str, Any]]]


class Hosted:
    """See the module's docstring.

    Attributes
    ----------
    controller, ledger
        The controller of the present epoch, and what follows from its events.
    shelf
        The records of all epochs, for reading.
    answers
        What was answered to the decisions that are pending, by their id.
    view
        What everybody may look at.
    """

    def __init__(self, store: DataFolder, name: str) -> None:
        self.store, self.id = store, name
        self.shelf = Shelf()
        try:
            self._open()
        except BaseException:
            self.shelf.close()
            raise

    def _open(self) -> None:
        """Go on with the newest record."""
        self._outdated = True  # until all of this has worked
        paths = self.store.epochs(self.id)
        self.shelf.take_in(paths)
        self.controller: Controller = epochs.reopened(paths[-1])
        try:
            self.controller.log.index()
            self._check_links()
            self._unchanging = of_epoch(self.id, len(paths), self.controller.policy)
            self.ledger = Ledger()
            self._outdated = False
            self.recall()
        except BaseException:
            self._outdated = True
            self.controller.close()
            raise

    def close(self) -> None:
        """Let go of the files."""
        self.controller.close()
        self.shelf.close()

    @property
    def epoch(self) -> int:
        """The present one, counted from 1."""
        return len(self.shelf.paths)

    def recall(self) -> None:
        """Take in what the record holds already; nothing new, unless the last request was cut off after its commit."""
        if self._outdated:
            self._open()
        elif self.catch_up():
            self.answers = {
                name: past.pending_answer(self.controller, self.shelf, name, asked)
                for name, asked in self.ledger.pending.items()
            }
            self.publish()

    def catch_up(self) -> list[Event]:
        """Take in what has just been added to the record, and return it."""
        events = list(self.controller.log.events(after=self.ledger.seen))
        for event in events:
            self.ledger.saw(event)
        return events

    def publish(self) -> None:
        """Show what has changed."""
        self.view = View.of(self._unchanging, self.controller, self.ledger, list(self.answers.values()))

    def commit(self, *notes: Mapping[str, Any]) -> None:
        """Add notes to the record, all or none."""
        if notes:
            self.controller.note(*notes)
            self.catch_up()
            self.publish()

    def begin_epoch(self, changes: Mapping[str, Any], notes: Sequence[Mapping[str, Any]]) -> None:
        """Go on in a new record, with other settings; `notes` stand at its beginning."""
        try:
            with refusals.computing():
                epochs.begin_next(self.store, self.ledger, self.controller, changes, notes)
        finally:
            if self.store.epochs(self.id) != self.shelf.paths:  # then the old one must not be written to any more,
                self._outdated = True  # even if something failed after the new one got its name
                self.controller.close()
        self._open()

    def watch(self, now: datetime) -> Done:
        """Report who is late, and who no longer is; see `watchdog`."""
        self.recall()
        moment, happened = now.timestamp(), list[tuple[str, dict[str, Any]]]()
        notes = watchdog.notes_of(self.ledger, moment)
        if watchdog.falls_back(self.ledger, moment):
            order = self.controller.redirect(self.ledger.config["fallback"], notes=notes)
            self.catch_up()
            self.publish()
            happened.append(("state", {"fallback": order.action}))
        else:
            self.commit(*notes)
        for note in notes:
            if note["note"] == "alarm":
                happened.append(("alarm", {**self.ledger.alarms[note["kind"]], "cleared_at": None}))
            elif note["note"] == "cleared":
                happened.append(("state", {"cleared": note["kind"]}))
        return Done({}, happened)

    def still_waiting(self, given: int) -> Refusal:
        """What is said where decisions must be told before something can be done; `given` was asked for."""
        waiting = list(self.ledger.pending)
        words = f"{', '.join(waiting)} still wait for their measurement; tell or skip them first"
        return refusals.conflict(words, waiting, given)

    def _check_links(self) -> None:
        previous, paths = self.controller.log.about.get("previous"), self.shelf.paths
        if previous is None:
            return
        before = None if len(paths) < 2 else Log.read(paths[-2], checked=False)
        if before is not None:
            before.close()
        if before is None or before.chain != previous["chain"]:
            raise DamagedFile(f"{paths[-1]} does not continue {previous['file']} as it is; restore from a back-up")


def now() -> datetime:
    """The time, as records tell it."""
    return datetime.now(UTC)
