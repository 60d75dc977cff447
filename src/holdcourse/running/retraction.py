"""Taking back what was measured: a controller goes on as if it had never learned it.

A measurement has changed more than what is believed of costs: the rule's own state, the guard, every decision since. So
the session goes back to a state from before it and lives again through all that was recorded since then, without the
measurement. What was decided and done meanwhile stands: the machine was where it was.

With a record, a state from before any measurement is at hand: a snapshot, or the beginning. Without one, the states and
events of the newest rounds are kept in memory; see `Recent`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse import archive
from holdcourse.deciding import recipe
from holdcourse.running.events import Body, Event, Learn, Retract, Tell
from holdcourse.running.log import Log
from holdcourse.running.session import KEPT_ENTRIES, Difference, Session, identity_in

logger = logging.getLogger("holdcourse.running.controller")

Progress: TypeAlias = Callable[[int, int], None]  # events lived through again, of how many
Look: TypeAlias = Callable[[Event[Body], Session], None]  # an event to be lived through next, the session before it


def without(
    log: Log,
    session: Session,
    retract: Retract,
    number: int,
    progress: Progress | None = None,
    look: Look | None = None,
) -> Session:
    """The session as it is after a retraction, which is event `number`; `session` is as it was just before it.

    `look` sees each event before it is lived through again, with the session that never knew the measurement.
    """
    earlier = log.retractions(number - 1)
    reasons = {event.body.id: event.body.reason for event in earlier} | {retract.id: retract.reason}
    spans = [(event.body.event, event.number) for event in earlier] + [(retract.event, number)]
    position, content = _state_before(log, [(told, taken) for told, taken in spans if told is not None], number - 1)
    again, count = session_at(log, session, content), number - 1 - position
    logger.info("%s: %d events are replayed without what was measured in %s", log.path, count, retract.id)
    for done, event in enumerate(log.events(after=position), 1):
        if event.number >= number:
            break
        if look is not None:
            look(event, again)
        again.repeat(event.body, reasons)
        if progress is not None:
            progress(done, count)
    again.keep_entries(session.entries, reasons)
    return again


def session_at(log: Log, session: Session, content: bytes) -> Session:
    """A session of the same controller in the state of a snapshot, with the policy that it had then."""
    state, arrays = archive.unpack(content, f"a snapshot in {log.path}")
    if identity_in(state).policy not in session.policies and log.about.recipe is not None:
        trust = recipe.code_in(recipe.describe(session.policy))  # not what the record says: this code runs here already
        problems = [log.about.recipe["problem"], *(event.body.problem for event in log.changes() if event.body.problem)]
        for problem in problems:
            policy = recipe.make({**log.about.recipe, "problem": problem}, trust)
            session.policies.setdefault(policy.fingerprint, policy)
    return session.at(state, arrays)


def _state_before(log: Log, spans: Sequence[tuple[int, int]], at_most: int) -> tuple[int, bytes]:
    """The newest snapshot that holds none of the measurements taken back, and the number of the event it follows.

    Each of `spans` are the numbers of a tell and of its retraction; a snapshot between them holds the measurement.
    """
    while True:
        position, content = log.newest_snapshot(at_most)
        if not any(told <= position < taken for told, taken in spans):
            return position, content
        at_most = position - 1


def relived(
    log: Log, session: Session, after: int, progress: Progress | None = None
) -> Iterator[tuple[Event[Body], Session, list[Difference]]]:
    """Live again through the events after number `after`, in whose state the session is.

    Yields each event, the session after it, which is another one after a retraction, and what came out differently.
    """
    for event in log.events(after):
        body, found = event.body, list[Difference]()
        if not isinstance(body, Retract):
            found = session.repeat(body)
        elif body.event is not None:  # else it is about an earlier record, and this one began without it
            wrong = _mismatch(log, body, event.number)
            if wrong is None:
                session = without(log, session, body, event.number, progress)
            else:
                found = [Difference(f"event {event.number} takes back {body.id}, but {wrong}")]
        yield event, session, found


def _mismatch(log: Log, retract: Retract, number: int) -> str | None:
    """Why an event is no retraction of the measurement that it names; None where it is."""
    assert retract.event is not None
    if not 0 < retract.event < number:
        return f"event {retract.event} is not before it"
    told = next(log.events(after=retract.event - 1)).body
    if not isinstance(told, Tell | Learn) or told.id != retract.id or (told.measurement is None and not told.also):
        return f"event {retract.event} does not contain its measurement"
    return None


class _Checkpoint:
    """The state of a session after a number of events."""

    def __init__(self, number: int, session: Session) -> None:
        self.number = number
        self._state, arrays = session.snapshot()
        self._arrays = {name: _own(array) for name, array in arrays.items()}

    def session(self, like: Session) -> Session:
        """A session in that state."""
        return like.at(self._state, {name: array.copy() for name, array in self._arrays.items()})


def _own(array: NDArray[Any]) -> NDArray[Any]:
    """An array that nobody will change: those of entries are read-only, and need not be copied every time."""
    return np.array(array) if np.asarray(array).flags.writeable else array


class Recent:
    """The newest events of a controller without a record, and states from which they can be lived through again.

    They reach back at least as far as decisions are kept in memory, and at most twice as far. What was interrupted
    halfway is undone from them too: so nothing has to be copied before each step.

    Attributes
    ----------
    reasons
        Why what was measured was taken back, by the id of the decision.
    """

    def __init__(self, session: Session) -> None:
        self._every = KEPT_ENTRIES + session.max_pending  # rounds
        self._round = session.round  # of the newest checkpoint
        self._first = 0  # number of events that are forgotten
        self._bodies: list[Body] = []
        self.reasons: dict[str, str] = {}
        self._checkpoints: list[_Checkpoint] = []
        self._keep(session)

    def add(self, body: Body) -> None:
        """Take in what happened next."""
        self._bodies.append(body)

    def keep_if_due(self, session: Session) -> None:
        """Keep the state now and then, and forget what is too old."""
        if session.round - self._round >= self._every:
            self._keep(session)

    def told(self, decision: str) -> Tell | Learn | None:
        """What was told of a decision, if that is not too long ago."""
        found = [body for body in self._bodies if isinstance(body, Tell | Learn) and body.id == decision]
        return found[-1] if found else None

    def without(
        self, session: Session, retract: Retract, progress: Progress | None = None
    ) -> tuple[Session, Callable[[], None]]:
        """The session as it is after a retraction; what is called once that is certain, so that it is remembered."""
        told = self._first + next(
            at for at, body in enumerate(self._bodies) if isinstance(body, Tell | Learn) and body.id == retract.id
        )
        reasons = self.reasons | {retract.id: retract.reason}
        kept = [checkpoint for checkpoint in self._checkpoints if checkpoint.number <= told]
        later = [checkpoint.number for checkpoint in self._checkpoints if checkpoint.number > told]
        number, last = kept[-1].number, self._first + len(self._bodies)
        again = kept[-1].session(session)
        for at in range(number, last):
            if at in later:
                kept.append(_Checkpoint(at, again))
            again.repeat(self._bodies[at - self._first], reasons)
            if progress is not None:
                progress(at + 1 - number, last - number)
        if last in later:
            kept.append(_Checkpoint(last, again))
        again.keep_entries(session.entries, reasons)

        def remember() -> None:
            self._checkpoints, self.reasons = kept, reasons

        return again, remember

    def relived(self, session: Session) -> Session:
        """The session as it is after the newest event; `session` is the same one, interrupted in a step after it."""
        checkpoint = self._checkpoints[-1]
        again = checkpoint.session(session)
        for body in self._bodies[checkpoint.number - self._first :]:
            again.repeat(body, self.reasons)
        if self.reasons:  # what is believed now of rounds that were decided before one was taken back is not what was
            both = session.entries.keys() & again.entries.keys()
            known = {number: session.entries[number].with_facts_of(again.entries[number]) for number in both}
            again.keep_entries(again.entries | known, self.reasons)
        return again

    def _keep(self, session: Session) -> None:
        checkpoints = [*self._checkpoints[-1:], _Checkpoint(self._first + len(self._bodies), session)]
        first = checkpoints[0].number
        bodies = self._bodies[first - self._first :]
        # One after the other without a call in between, where an interruption could find a part of it done.
        self._round, self._checkpoints, self._first, self._bodies = session.round, checkpoints, first, bodies
        told = {body.id for body in self._bodies if isinstance(body, Tell | Learn)}
        self.reasons = {name: reason for name, reason in self.reasons.items() if name in told}
