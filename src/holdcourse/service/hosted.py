"""One controller of the service, opened from its records: what they say, and what is added to them.

Not safe for several threads at once: the fleet gives each controller one turn at a time. What others look at meanwhile
is `view`, which is replaced as a whole after every change. What the machine's program may do to it is in `rounds`, what
an operator may do in `operating`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from holdcourse.controller import Controller
from holdcourse.log import Event
from holdcourse.service import epochs, past, refusals, watchdog
from holdcourse.service.clock import Clock
from holdcourse.service.ledger import Ledger
from holdcourse.service.refusals import Refusal
from holdcourse.service.shelf import Shelf
from holdcourse.service.store import DataFolder, number_of
from holdcourse.service.tokens import Author
from holdcourse.service.view import View, of_epoch
from holdcourse.service.watchdog import Timing
from holdcourse.witness import Witness


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
    timing
        How long ago what is pending was asked.
    """

    def __init__(
        self, store: DataFolder, name: str, clock: Clock | None = None, witness: Witness | None = None
    ) -> None:
        self.store, self.id = store, name
        self._author: Author | None = None
        self.timing = Timing(clock or Clock())
        self._witness = witness
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
        self.store.check_newest(self.id)
        self.shelf.take_in(paths)
        self.controller: Controller = epochs.reopened(paths[-1], self._witness)
        try:
            self.controller.log.clock = self.timing.clock.now
            self.controller.log.index()
            self._unchanging = of_epoch(self.id, self.epoch, self.shelf.archived, self.controller.policy)
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
        """The present one: the number in the name of its record."""
        return self.shelf.newest

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
        opening = self.ledger.seen == 0
        for event in events:
            self.ledger.saw(event)
        if opening:
            self.timing.opened(events[-1].at, self.ledger)
        else:
            self.timing.saw(events, self.ledger)
        return events

    def publish(self) -> None:
        """Show what has changed."""
        self.view = View.of(self._unchanging, self.controller, self.ledger, list(self.answers.values()), self.timing)

    @contextmanager
    def acted_by(self, author: Author | None) -> Iterator[None]:
        """What is done within goes into the record under this name, if any; only whoever has the turn acts."""
        self._author = author
        try:
            yield
        finally:
            self._author = None

    def signed(self, extra: Mapping[str, Any]) -> dict[str, Any]:
        """What an event holds beside what it says, with who caused it; nobody where the service itself did."""
        return {**extra} if self._author is None else {**extra, "by": self._author}

    def _signed_note(self, note: Mapping[str, Any]) -> dict[str, Any]:
        extra = self.signed(note.get("extra", {}))
        return {**note, "extra": extra} if extra else {**note}

    def commit(self, *notes: Mapping[str, Any]) -> None:
        """Add notes to the record, all or none."""
        if notes:
            self.controller.note(*map(self._signed_note, notes))
            self.catch_up()
            self.publish()

    def begin_epoch(
        self, changes: Mapping[str, Any], notes: Sequence[Mapping[str, Any]], *, without_archived: bool
    ) -> None:
        """Go on in a new record, with other settings; `notes` stand at its beginning."""
        if self.shelf.archived and not without_archived:
            gone = ", ".join(map(str, self.shelf.archived))
            words = f"epochs {gone} were archived, and the new one could not learn from what was told in them"
            remedy = "bring their files back and start again, or send this with ?without_archived=true"
            raise Refusal(409, "archived", f"{words}; {remedy}")
        try:
            with refusals.computing():
                signed = [self._signed_note(note) for note in notes]
                epochs.begin_next(self.store, self.ledger, self.controller, changes, signed, self._author)
        finally:
            if number_of(self.store.epochs(self.id)[-1]) != self.epoch:  # then the old one must not be written to,
                self._outdated = True  # also if something failed after the new one got its name
                self.controller.close()
        self._open()

    def watch(self) -> Done:
        """Report who is late, and who no longer is; see `watchdog`."""
        self.recall()
        happened = list[tuple[str, dict[str, Any]]]()
        notes = watchdog.notes_of(self.ledger, self.timing)
        if self.timing.falls_back(self.ledger):
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
