"""One controller at work: a session, the record under it, and the steps that change both.

What is done is recorded, or has not happened: each step computes without changing anything, commits to the record if
there is one, and only then goes on; so a failure at any point leaves the state as it was. A record is a `Log`. Where
there is none, everything lives in memory alone, where the events of the newest rounds take its place.

`Controller` is what a program uses. The service uses `Operation` itself, which also takes what else the record shall
hold, and lets a record continue an earlier one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import wraps
from pathlib import Path
from threading import RLock
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse import archive
from holdcourse.checks import are_numbers, hours_since_1970, is_finite, whole_number
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.promise import Budget
from holdcourse.deciding.rules import TimedRule, Turn
from holdcourse.errors import Conflict, HoldcourseError, InvalidInput, shown
from holdcourse.learning.costs import Profiled, has
from holdcourse.learning.history import check_context, check_measurement
from holdcourse.mistakes import difference
from holdcourse.running.decision import Also, Decision, Entry, Order, Request, other_question, told_once
from holdcourse.running.events import (
    AskDetails,
    Body,
    Cause,
    Change,
    Episode,
    Event,
    Identity,
    Learn,
    Note,
    Previous,
    Redirect,
    Retract,
    RetractDetails,
    Tell,
    TellDetails,
)
from holdcourse.running.identity import beginning_of, differences, in_words, recipe_of
from holdcourse.running.limits import Guard, Limits
from holdcourse.running.log import Beginning, Log
from holdcourse.running.retraction import Progress, Recent, relived, session_at, without
from holdcourse.running.session import Difference, Learned, Origin, Session, Wish, asked, round_of, still_waiting
from holdcourse.running.storage import Location
from holdcourse.running.witness import Witness
from holdcourse.threads import one_thread

logger = logging.getLogger("holdcourse.running.controller")

Given = ParamSpec("Given")
Result = TypeVar("Result")

Book: TypeAlias = Callable[[Learned], tuple[TellDetails | None, Sequence[Note]]]


class Unchanged:
    """Stands for a parameter of `change` that was not given: what it names stays as it is."""


UNCHANGED = Unchanged()
SNAPSHOT_EVERY = 256  # events between two snapshots in the log


def _checked_reference(reference: Any) -> float:
    if not (are_numbers(reference) and is_finite(reference)):
        raise InvalidInput(f"reference must be one finite number, or None for no signal, got {shown(reference)}")
    return float(reference)


class RetractionObserver(Protocol):
    """What else the record shall hold of a retraction: it looks on while the rounds are lived through again."""

    def look(self, event: Event[Body], session: Session) -> None:
        """See an event that is lived through next, with the session that never knew the measurement."""
        ...

    def details(self) -> tuple[RetractDetails, list[Note]]:
        """Say what stands in the event, and the notes that follow it."""
        ...


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

    def __init__(self, session: Session, path: Location | None = None, witness: Witness | None = None) -> None:
        self.session = session
        self._log: Log | None = None
        self._stale = False  # whether the state must be read back from the record first
        self._snapshots = 0  # how often one was due
        self._recent = Recent(session) if path is None else None
        if path is not None:
            self._log = Log.open(path, session.identity(), self._beginning, self._different)
            try:
                self._reload()
            except BaseException:
                self._log.close()
                raise
            self._log.watched_by(witness)

    @property
    def log(self) -> Log:
        """Return the record; it is an error where there is none."""
        if self._log is None:
            raise InvalidInput("this controller keeps no record; make it with log=")
        return self._log

    def catch_up(self) -> None:
        """Read the state back from the record where that could not be done when it was due."""
        if self._stale:
            if self._recent is not None:
                self.session = self._recent.relived(self.session)
            else:
                self._reload()
            self._stale = False

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """What is done within is done and recorded, or has not happened: then the state is that of the record."""
        try:
            yield
        except BaseException:
            self._stale = True
            with suppress(HoldcourseError):
                self.catch_up()
            raise

    def write(self, event: Body, notes: Sequence[Note] = ()) -> None:
        """Add an event to the record, and notes after it; on the disk when this returns."""
        if self._recent is not None:
            self._recent.add(event)
        if self._log is not None:
            self._log.write([event, *notes])

    def note(self, notes: Sequence[Note]) -> list[Event[Body]]:
        """Add notes to the record, all or none; on the disk when this returns."""
        return self.log.extend(notes)

    def change(self, change: Change) -> None:
        """Go on with other limits, guard or prices."""
        with self.all_or_nothing():
            self.session.change(change)
            self.write(change)
        if self._log is not None:  # from which it is opened with the new ones
            self._snapshot(self._log)

    def snapshot_if_due(self) -> None:
        """Keep the state in the record now and then: it opens sooner. Without a record, keep it in memory."""
        if self._recent is not None:
            self._recent.keep_if_due(self.session)
        if self._log is not None and self._log.last // SNAPSHOT_EVERY > self._snapshots:
            self._snapshot(self._log)

    def _snapshot(self, log: Log, in_place_of: int | None = None) -> None:
        self._snapshots = log.last // SNAPSHOT_EVERY
        log.snapshot(self.session.snapshot, in_place_of)

    @property
    def is_in_memory(self) -> bool:
        """Say whether there is no record."""
        return self._log is None

    def told(self, decision_id: str) -> tuple[int, Tell | Learn] | None:
        """What was told of a decision, and the number of that event in the record, 0 without one; None: nothing."""
        if self._recent is not None:
            told = self._recent.told(decision_id)
            return None if told is None else (0, told)
        return next(((event.number, event.body) for event in self.log.find("decision", decision_id, newest=True)), None)

    def retracted(self, decision_id: str) -> str | None:
        """Why what was told of a decision was taken back; None where it was not."""
        if self._recent is not None:
            return self._recent.reasons.get(decision_id)
        return next((event.body.reason for event in self.log.find("retracted", decision_id)), None)

    def retract(self, retract: Retract, progress: Progress | None, observer: RetractionObserver | None) -> None:
        """Go on without a measurement."""
        if self._recent is not None:
            again, remember = self._recent.without(self.session, retract, progress)
            with self.all_or_nothing():
                remember()
                self.session = again
            return
        look, notes = None if observer is None else observer.look, list[Note]()
        again = without(self.log, self.session, retract, self.log.last + 1, progress, look)
        if observer is not None:
            details, notes = observer.details()
            retract = replace(retract, extra=details)
        with self.all_or_nothing():
            self.write(retract, notes)
            self.session = again
        self._snapshot(self.log, retract.event)

    def close(self) -> None:
        """Let go of the record's files."""
        if self._log is not None:
            self._log.close()

    def _reload(self) -> None:
        """State from the log: the newest snapshot and what came after it."""
        position, content = self.log.newest_snapshot()
        self._snapshots = position // SNAPSHOT_EVERY
        self.session = session_at(self.log, self.session, content)
        changed: list[Difference] = []
        for _, session, found in relived(self.log, self.session, position):
            self.session = session  # another one after a retraction
            changed += found
        if changed:
            logger.warning("%s: the record stands, but now %s", self.log.path, "; ".join(map(str, changed[:5])))

    def _different(self, log: Log, theirs: Identity) -> str:
        """What is different about our controller from the one of a record."""
        recorded = None if log.about.recipe is None else log.repriced(log.about.recipe)
        return in_words(list(differences(theirs, self.session.identity(), self.session.policy, recorded)))

    def _beginning(self) -> tuple[Beginning, bytes]:
        """What a new record holds before the first event."""
        begins = beginning_of(self.session.policy, self.session.origin.previous)
        return begins, archive.pack(*self.session.snapshot())


def _one_at_a_time(
    method: Callable[Concatenate[Operation, Given], Result],
) -> Callable[Concatenate[Operation, Given], Result]:
    """Threads take turns, each computes with one thread of linear algebra, and forked processes are refused."""

    @wraps(method)
    def alone(self: Operation, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        if self._process != os.getpid():
            raise InvalidInput(
                f"this controller was made in process {self._process} but is used in process {os.getpid()}, which was "
                "forked from it; make a controller with its own record in each process"
            )
        with self._lock, one_thread():
            return method(self, *args, **kwargs)

    return alone


class Operation:
    """A controller with all that may be done to it; threads take turns.

    Parameters
    ----------
    recording
        The session and its record.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._lock = RLock()
        self._process = os.getpid()

    @classmethod
    def begin(
        cls,
        policy: Policy,
        start: int = 0,
        seed: int = 0,
        log: Location | None = None,
        *,
        limits: Limits | None = None,
        guard: Guard | None = None,
        max_pending: int = 1,
        origin: Origin | None = None,
        witness: Witness | None = None,
    ) -> Operation:
        """Begin, or go on where the record ends; `origin` is for a new record that continues an earlier one.

        The other parameters are those of `Controller`.
        """
        if limits is None and policy.limits is not None:
            limits = Limits.from_data(policy.limits)
        with one_thread():
            session = Session(policy, start, seed, limits=limits, guard=guard, max_pending=max_pending, origin=origin)
            return cls(Recording(session, log, witness))

    @property
    def session(self) -> Session:
        """What is carried from round to round; not to be changed."""
        return self._recording.session

    @property
    def log(self) -> Log:
        """Return the record; it is an error where there is none."""
        return self._recording.log

    @property
    @_one_at_a_time
    def pending(self) -> list[Decision]:
        """Return the decisions that are not told yet, oldest first."""
        return [entry.decision for entry in self.session.pending]

    @property
    @_one_at_a_time
    def allowed(self) -> NDArray[np.bool_]:
        """Return which actions were allowed at the newest question; all are before the first one."""
        return self.session.mask.copy()

    @property
    @_one_at_a_time
    def promise(self) -> Budget | None:
        """Return how the promise against the baseline stands; None where none was made."""
        return self.session.promise

    @_one_at_a_time
    def ask(
        self,
        context: Any = None,
        allowed: Any = None,
        forecast: Any = None,
        costs: ArrayLike | None = None,
        round: int | None = None,  # noqa: A002
        wish: Wish | None = None,
        details: Callable[[Entry], AskDetails] | None = None,
    ) -> Decision:
        """Decide the next round; asking again the same gives the same decision.

        `wish` is what the machine shall do in place of the decision; `details` gives what else the record shall hold
        of a new one. The other parameters are those of `Controller.ask`.
        """
        self._recording.catch_up()
        session = self.session
        request = Request.of(session.policy.problem, *self.plain_question(context, allowed, forecast), costs)
        pending = session.pending
        if round is None:
            if session.max_pending > 1:
                raise InvalidInput(
                    f"several decisions may be pending: say which round you ask for, e.g. round={session.round}"
                )
            round = pending[0].decision.round if pending else session.round  # noqa: A001
        elif whole_number(round, "round", 0) > session.round:
            raise InvalidInput(f"round {round} cannot be decided yet; the next one is {session.round}")
        if round < session.round:
            return self._repeated(round, request)
        if len(pending) >= session.max_pending:
            words, them = still_waiting([entry.decision.id for entry in pending])
            raise InvalidInput(f"{words}; tell {them} first, or skip {them} with tell(id, None)")
        choice, entry = session.decide(request, wish)
        with self._recording.all_or_nothing():
            self._recording.write(asked(entry, None if details is None else details(entry)))
            session.accept(choice, entry)
        return entry.decision  # a snapshot can wait for the tell

    def plain_question(self, context: Any, allowed: ArrayLike | None, forecast: Any) -> tuple[Any, Any, Any]:
        """Return a question in numbers: a time as the policy's context, a forecast of profiles as rows."""
        model, rule = self.session.pilot.model, self.session.pilot.rule
        if isinstance(context, str | datetime | np.datetime64) and has(model, Profiled):
            context = model.context_at(hours_since_1970(context))
        if isinstance(forecast, Mapping):
            interval = rule.interval if has(rule, TimedRule) else None
            if not has(model, Profiled) or interval is None:
                raise InvalidInput(
                    f"{self.session.policy.name} takes no forecasts of profiles; give one row per future round"
                )
            now = float(check_context(context, 1)[0])
            forecast = model.forecast_of(forecast, now, interval)
        return context, allowed, forecast

    def measured(self, measurement: float | None, profile: Any, taken: int) -> tuple[float | None, Also]:
        """Return what was measured at `taken`, and at the other actions; a profile tells both."""
        model = self.session.pilot.model
        if measurement is not None and has(model, Profiled):
            at = self.session.policy.problem.actions[taken]
            model.readings_of(at, [check_measurement(measurement)])  # refuses what no profile can hold
        if profile is None:
            return measurement, ()
        if not has(model, Profiled):
            raise InvalidInput(f"{self.session.policy.name} learns from one measurement a round, not from profiles")
        heights, values = profile_parts(profile)
        found = dict(model.readings_of(heights, values))
        if not found and any(each is not None and each == each for each in values):
            at = self.session.policy.problem.actions[:, 0]
            raise InvalidInput(
                f"the profile covers none of the settings, {at.min():g} to {at.max():g} m; its heights are "
                f"{min(heights):g} to {max(heights):g} m. Are they metres above ground?"
            )
        here = found.pop(taken, None)
        if measurement is None:
            measurement = here
        return measurement, tuple(sorted((action, check_measurement(y)) for action, y in found.items()))

    @_one_at_a_time
    def tell(
        self,
        decision_id: str,
        measurement: float | None,
        applied: int | None = None,
        book: Book | None = None,
        profile: Any = None,
        reference: float | None = None,
    ) -> None:
        """Say what was measured; telling the same again is fine.

        `book` gives what else the record shall hold of it, by what was learned, and notes that follow. The other
        parameters are those of `Controller.tell`.
        """
        self._recording.catch_up()
        entry = self.session.entry(decision_id)
        if applied is not None:
            self.session.policy.problem.check_action(applied)
            applied = int(applied)
        measurement, also = self.measured(measurement, profile, entry.meant if applied is None else applied)
        y = None if measurement is None else check_measurement(measurement)
        signal = None if reference is None else _checked_reference(reference)
        if entry.told is not None:
            if entry.told == (y, applied) and entry.also == also and entry.reference != signal:
                raise Conflict(
                    f"{decision_id} was told with reference={entry.reference}, and now with reference={signal}; a "
                    "decision can be told only once",
                    {"reference": entry.reference},
                    {"reference": signal},
                )
            if entry.told != (y, applied) or entry.also != also:
                then, now = self._in_words(*entry.told), self._in_words(y, applied)
                if entry.also != also:  # measured at other settings at the same time
                    then, now = then | {"profile": self._by_value(entry.also)}, now | {"profile": self._by_value(also)}
                earlier, later = difference(then, now)
                is_measured = entry.told[0] is not None
                raise Conflict(told_once(decision_id, earlier, later, is_measured=is_measured), then, now)
            return
        with self._recording.all_or_nothing():
            learned = self.session.learn(entry, y, applied, None, also, signal)
            details, notes = (None, ()) if book is None else book(learned)
            told = Tell(decision_id, y, applied, also=_recorded(also), reference=signal, extra=details)
            self._recording.write(told, notes)
        self._recording.snapshot_if_due()

    def _in_words(self, measurement: float | None, applied: int | None) -> dict[str, Any]:
        """What was told of a decision, with the setting as people call it."""
        value = None if applied is None else self.session.policy.problem.value(applied)
        return {"measurement": measurement, "applied": value}

    def _by_value(self, also: Also) -> dict[str, float] | None:
        """What was measured at other settings, by what people call them; None: nothing."""
        return {self.session.policy.problem.text(action): y for action, y in also} or None

    @_one_at_a_time
    def retract(
        self,
        decision_id: str,
        reason: str,
        progress: Progress | None = None,
        observer: RetractionObserver | None = None,
    ) -> None:
        """Take back what was measured; taking it back again for the same reason is fine.

        `observer` gives what else the record shall hold of it. The other parameters are those of `Controller.retract`.
        """
        self._recording.catch_up()
        if not (isinstance(reason, str) and reason.strip()):
            raise InvalidInput(f"reason must say in words why the measurement is taken back, got {shown(reason)}")
        number, told = self._told(decision_id)
        if told.measurement is None and not told.also:
            raise InvalidInput(f"nothing was measured in {decision_id}, so there is nothing to take back")
        earlier = self._recording.retracted(decision_id)
        if earlier == reason:
            return
        if earlier is not None:
            raise Conflict(
                f"{decision_id} was already taken back, because of {earlier!r}, not {reason!r}; it can be taken back "
                "only once",
                {"reason": earlier},
                {"reason": reason},
            )
        self._recording.retract(Retract(decision_id, number, reason), progress, observer)

    def _told(self, decision_id: str) -> tuple[int, Tell | Learn]:
        """What was told of a decision, and the number of that event; an error where nothing was, or not here."""
        found = self._recording.told(decision_id) if isinstance(decision_id, str) else None
        if found is not None:
            return found
        number = round_of(decision_id)
        if not self._recording.is_in_memory and 0 <= number < self.session.round and number not in self.session.entries:
            raise InvalidInput(
                f"{decision_id} was not told in this record but in an earlier one; this record began with what was "
                "learned there, and cannot take it back"
            )
        if self.session.entry(decision_id).told is None:
            raise InvalidInput(
                f"{decision_id} still waits for its measurement, so there is none to take back; skip it with "
                f"tell({decision_id!r}, None)"
            )
        raise InvalidInput(
            f"{decision_id} was told before this state was saved and loaded; only a record (log=) remembers it"
        )

    @_one_at_a_time
    def note(self, *notes: Note) -> list[Event[Body]]:
        """Write into the record what happened around the decisions; it changes nothing else."""
        self._recording.catch_up()
        return self._recording.note(notes)

    @_one_at_a_time
    def learn_earlier(
        self,
        decision_id: str,
        action: int,
        context: Any,
        measurement: float | None,
        place: int | None,
        book: Book | None = None,
        also: Also = (),
        reference: float | None = None,
        turn: Turn | None = None,
    ) -> None:
        """Take in what was told of a decision of the record before this one.

        `action` is the one that ran, in this record's numbers; `place` is where the machine is, if that changed;
        `turn` is that of the decision, where its trial goes on here; the others are as in `tell`.
        """
        self.log  # noqa: B018 - an error where there is none, before anything has changed
        self._recording.catch_up()
        self.session.policy.problem.check_action(action)
        signal = None if reference is None else _checked_reference(reference)
        with self._recording.all_or_nothing():
            learned = self.session.learn_earlier(decision_id, action, context, measurement, place, also, turn)
            details, notes = (None, ()) if book is None else book(learned)
            parts: dict[str, Any] = {"also": _recorded(also), "reference": signal, "turn": turn, "extra": details}
            self._recording.write(Learn(decision_id, action, context, measurement, place, **parts), notes)
        self._recording.snapshot_if_due()

    @_one_at_a_time
    def origin_of_next(self, places: Sequence[int], forebears: Sequence[int] | None, here: int) -> Origin:
        """Where a record that continues this one begins: there action k is `places[k]`, and the machine at `here`.

        `forebears[j]` is the action of this record by whose leave action j of the next may be taken; None: all may.
        """
        session, log = self.session, self.log
        previous = Previous(log.path.name, log.last, log.chain)
        where = session.where.renamed(places, here, session.round - 1)
        allowed = None if forebears is None else tuple(np.flatnonzero(session.mask[list(forebears)]).tolist())
        settled = session.settled if session.in_progress else session.round
        return Origin(session.round, session.episode, previous, where, session.cool_until, allowed, settled)

    @_one_at_a_time
    def permitted(self, wanted: int, *, next_round: bool = False) -> Order:
        """Say where the machine may go now if somebody wants it at `wanted`; see `Controller.permitted`.

        With `next_round`: where it might go if the next round began now.
        """
        self._recording.catch_up()
        self.session.policy.problem.check_action(wanted)
        return self.session.permitted(int(wanted), next_round=next_round)

    @_one_at_a_time
    def redirect(self, wanted: int, notes: Sequence[Note] = ()) -> Order:
        """Send the machine elsewhere within the round in progress; `notes` follow in the record."""
        order, session = self.permitted(wanted), self.session
        if not session.in_progress:
            raise InvalidInput("no round is in progress; to send the machine elsewhere, use ask(..., instructed=...)")
        with self._recording.all_or_nothing():
            session.redirect(order)
            self._recording.write(Redirect(session.round - 1, order), notes)
        return order

    @_one_at_a_time
    def change(
        self,
        limits: Limits | Unchanged | None = UNCHANGED,
        guard: Guard | Unchanged | None = UNCHANGED,
        max_pending: int | Unchanged = UNCHANGED,
        prices: Mapping[str, Any] | None = None,
    ) -> None:
        """Go on with other limits, guard or, by their names, prices; see `Controller.change`.

        What stays is looked up here, where threads take turns: two that change different things lose neither.
        """
        self._recording.catch_up()
        session = self.session
        change = session.changed(
            session.limits if isinstance(limits, Unchanged) else limits or Limits(),
            session.guard if isinstance(guard, Unchanged) else guard,
            session.max_pending if isinstance(max_pending, Unchanged) else max_pending,
            session.policy.problem.repriced(prices) if prices else None,
        )
        if change.problem is not None or change.identity != session.identity():
            self._recording.change(change)

    @_one_at_a_time
    def new_episode(self, start: int, force: str | None = None, cause: Cause | None = None) -> None:
        """End the episode; the next one begins at `start`. `cause` says in the record who wanted it."""
        self._recording.catch_up()
        self.session.policy.problem.check_action(start)
        check_force(force)
        waiting = [decision.id for decision in self.pending]
        if waiting:
            words, them = still_waiting(waiting)
            raise InvalidInput(f"{words}; tell or skip {them} before a new episode")
        refusal = None if force is not None else self.session.refusal_of(int(start))
        if refusal is not None:
            raise InvalidInput(refusal)
        with self._recording.all_or_nothing():
            self.session.start_episode(int(start))
            self._recording.write(Episode(int(start), force, extra=cause))
        self._recording.snapshot_if_due()

    @_one_at_a_time
    def entry(self, decision_id: str) -> Entry:
        """Return a pending decision, or one of the newest others, with all that explains it."""
        return self.session.entry(decision_id)

    @_one_at_a_time
    def save(self, path: Path) -> None:
        """Write the whole state to a file, atomically."""
        self._recording.catch_up()
        state, arrays = self.session.snapshot()
        state["recipe"] = recipe_of(self.session.policy)
        archive.write_file(path, archive.pack(state, arrays), private=True)

    @_one_at_a_time
    def backup(self, path: Path) -> None:
        """Write a whole copy of the record to a new file."""
        self.log.backup(path)

    @_one_at_a_time
    def close(self) -> None:
        """Let go of the record's files."""
        self._recording.close()

    def _repeated(self, round_number: int, request: Request) -> Decision:
        entry = self.session.entry(f"r{round_number}")
        if entry.request != request:
            recorded, given = entry.request.describe(), request.describe()
            problem, is_pending = self.session.policy.problem, entry.told is None
            words = other_question(problem, round_number, recorded, given, is_pending=is_pending)
            raise Conflict(words, recorded, given)
        return entry.decision


def profile_parts(profile: Any) -> tuple[Any, Any]:
    """Return heights and values of a profile: a pair of lists, or a mapping with `heights` and `speeds`."""
    if isinstance(profile, Mapping):
        if set(profile) != {"heights", "speeds"}:
            raise InvalidInput(f"a profile has heights and speeds, got {sorted(profile)}")
        return profile["heights"], profile["speeds"]
    try:
        heights, values = profile
    except (TypeError, ValueError):
        raise InvalidInput(f"a profile is a pair of lists, heights and speeds, got {shown(profile)}") from None
    return heights, values


def _recorded(also: Also) -> list[Any] | None:
    return [list(each) for each in also] or None


def check_force(force: str | None) -> None:
    """Raise unless a reason for going beyond the limits is one."""
    if force is not None and not (isinstance(force, str) and force.strip()):
        raise InvalidInput(f"force must be the reason in words, got {shown(force)}")
