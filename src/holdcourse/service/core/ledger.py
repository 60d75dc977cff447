"""The ledger of a controller: what follows from the events of its record, and what is booked in them.

The ledger is a fold over events and nothing else, so a controller that was killed and opened again knows what it knew
before. It holds no more after a year than after a day: mode, override, what is pending, the sums, the alarms.

Three alarms come from what is told: measurements that the model did not expect too often, a sensor that stands still,
and a single reading that the model has set aside as wrong. The first two look at a short window and nothing else, so
they cost the same for ever. An alarm that is open is cleared by the same window once it looks well again, with some
distance between the two, so that it does not flap. That of a wrong reading is over when the reading is taken back, is
believed after all, or lies some rounds back.

A reading that is set aside moves no sum: what the model expects in its place is booked. Where it is found out later,
the sums are corrected then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from holdcourse.deciding.trial import BASELINE
from holdcourse.learning.costs import CostModel, noise_variance_of, price_of
from holdcourse.movement.problem import Problem
from holdcourse.running import estimates
from holdcourse.running.decision import Entry, Order
from holdcourse.running.events import (
    Acknowledgement,
    AlarmAcknowledged,
    AlarmCleared,
    AlarmRaised,
    AlarmText,
    AlarmWindow,
    Alternative,
    Ask,
    AskDetails,
    Author,
    Body,
    Carried,
    Cause,
    Comparison,
    ControllerArchived,
    ControllerCreated,
    ControllerRestored,
    DecisionLate,
    DecisionRecovered,
    Episode,
    EpochBegun,
    Event,
    Learn,
    ModeSet,
    Note,
    OpenAlarm,
    Override,
    OverrideSet,
    PendingDecision,
    Redirect,
    Retract,
    RetractDetails,
    Reweighed,
    Settings,
    SettingsChanged,
    Sums,
    Tell,
    TellDetails,
    from_plain,
    plain,
)
from holdcourse.running.log import Log
from holdcourse.running.reasons import written
from holdcourse.running.session import Learned, Session, Wish, recorded_also
from holdcourse.units import beside

FOLLOWED = ("act", "advise")  # modes in which the machine does what is decided
WINDOW = 100  # tells that calibration looks back on; what lasts, as weather does, is then mostly over
ENOUGH = 40  # before so many, it says nothing
Price: TypeAlias = Callable[[float], float]
BAND = 2.0  # deviations; a well calibrated model is beyond them in 1 of 22 rounds
# Share of the window beyond the band; by chance 12 of 40 come once in 8 million times.
RAISED_AT, CLEARED_AT = 0.3, 0.15
STILL = 10  # equal measurements in a row that no noisy sensor gives
REMINDED = 24  # tells for which the alarm of a reading that was set aside stays open
MOST_DIGITS = 15  # that a number is written with
CORRECTIONS = 100  # newest readings found out later whose sums are listed as if they had been found out at once


@dataclass
class Ledger:
    """See the module's docstring.

    Attributes
    ----------
    settings
        The settings in force, once the first event was seen.
    home, fixed
        The action before the first round, and the best one in the history if there is one: what gains are counted from.
    place, proposed_place
        Where the machine is, as far as anybody said, and where it would be if it had done what was proposed.
    history
        How often home, and the best fixed action, were measured before the first round.
    newest
        The newest decision.
    is_obeyed
        Whether the newest question was answered under the override in force.
    stale
        Of the pending decisions, those that the watchdog has reported.
    fallback
        Where the machine was sent because the newest decision is late; None: nowhere.
    fresh_episode, forced_start
        Start of an episode without a round yet, and why that was beyond the limits; None: it was not.
    pending
        Decisions not yet told, by id, oldest first: what was answered, and what is needed to book the tell.
    alarms
        Open ones by kind.
    explanation
        What the policy said of itself when it was made, with what was known then; empty if nothing.
    doubted
        The newest decision whose measurement was set aside; None: there is none, or it is believed by now.
    tells_since
        How many were told after it was found out.
    corrections
        Of measurements that were found out later, or believed later: in which event, and what was said there.
    archived, restored_at
        Since when, by whom and why the controller is put away; None: it is not. No epoch begins while it is. And when
        it was brought back last: deadlines count from there.
    seen
        Number of the last event.
    """

    _settings: Settings | None = None
    mode: str = "act"
    override: Override | None = None
    is_obeyed: bool = False
    home: int = 0
    fixed: int | None = None
    place: int = 0
    proposed_place: int = 0
    history: tuple[int, ...] = (0, 0)
    newest: str | None = None
    pending: dict[str, PendingDecision] = field(default_factory=dict)
    stale: list[str] = field(default_factory=list)
    fallback: Order | None = None
    alarms: dict[str, OpenAlarm] = field(default_factory=dict)
    watched: AlarmWindow = field(default_factory=AlarmWindow)
    sums: Sums = field(default_factory=Sums)
    explanation: str = ""
    fresh_episode: int | None = None
    forced_start: str | None = None
    last_at: str | None = None
    doubted: str | None = None
    tells_since: int = 0
    corrections: tuple[tuple[int, Reweighed], ...] = ()
    archived: Acknowledgement | None = None
    restored_at: str | None = None
    seen: int = 0

    @property
    def settings(self) -> Settings:
        """Return the settings in force."""
        assert self._settings is not None  # the first event of every record holds them
        return self._settings

    def take_in(self, event: Event[Body]) -> None:
        """Take in the next event."""
        match event.body:
            case Ask():
                self._asked(event.at, event.body)
            case Tell() | Learn():
                self._told(event.number, event.body)
            case Retract():
                self._taken_back(event.body)
            case Episode():
                self.place = self.proposed_place = self.fresh_episode = event.body.start
                self.forced_start = event.body.force
            case Redirect():
                self.fallback, self.place = event.body.order, event.body.order.action
            case ControllerCreated() | EpochBegun():
                self._begin(event.body)
            case SettingsChanged():
                changed = {**plain(self.settings), **event.body.changes}
                self._settings = from_plain(Settings, changed, f"the settings after event {event.number}")
            case ModeSet():
                self.mode = event.body.mode
            case OverrideSet():
                self._hold(event.body, event.at)
            case DecisionLate():
                self.stale.append(event.body.decision)
            case AlarmRaised():
                self.alarms[event.body.kind] = OpenAlarm(event.at, event.body.kind, event.body.message)
                self.sums = replace(self.sums, alarms=self.sums.alarms + 1)
            case AlarmCleared():
                self.alarms.pop(event.body.kind, None)
            case AlarmAcknowledged():
                self._acknowledge(event.body, event.at)
            case ControllerArchived():
                by = None if event.body.extra is None else event.body.extra.by
                self.archived = Acknowledgement(event.at, by, event.body.reason)
            case ControllerRestored():
                self.archived, self.restored_at = None, event.at
        self.seen = event.number
        if is_by_machine(event):
            self.last_at = event.at

    def _asked(self, at: str, body: Ask) -> None:
        assert body.extra is not None  # the service writes it with every decision
        if self.newest in self.pending and self.fallback is not None:  # what was done in its round stays done
            self.pending[self.newest] = replace(self.pending[self.newest], fallback=self.fallback)
        self.pending[body.id] = PendingDecision(
            **vars(body.extra), round=body.round, proposed=body.action, at=at, context=body.request.context
        )
        self.place, self.newest, self.fresh_episode = body.extra.action, body.id, None
        self.proposed_place = body.action
        self.fallback = self.forced_start = None
        self.is_obeyed = self.override is not None
        self.sums = replace(self.sums, asks=self.sums.asks + 1)

    def _told(self, number: int, body: Tell | Learn) -> None:
        booked = body.extra
        assert booked is not None  # the service writes it with every tell
        proposed = self.pending.pop(body.id).proposed
        self.stale = [other for other in self.stale if other != body.id]
        if body.id == self.newest:
            self.place, self.fallback = booked.taken, None
        actions = {action for action, _ in recorded_also(body)}
        actions.add(booked.taken)

        def compared(before: Comparison | None, estimate: Alternative | None, action: int | None) -> Comparison | None:
            ran, read = booked.taken == action, action in actions
            return estimates.compared(before, estimate, booked.service, booked.movement, ran=ran, read=read)

        self.sums = replace(
            self.sums,
            service=self.sums.service + (booked.service or 0.0) + sum(each.change for each in booked.reweighed),
            movement=self.sums.movement + booked.movement,
            estimated_staying=compared(self.sums.estimated_staying, booked.estimated_staying, self.home),
            estimated_fixed=compared(self.sums.estimated_fixed, booked.estimated_fixed, self.fixed),
            estimated_proposals=compared(self.sums.estimated_proposals, booked.estimated_proposal, proposed),
            told=self.sums.told + (body.measurement is not None),
            tells=self.sums.tells + 1,
        )
        if body.measurement is not None:
            self.watched = self._watched_after(body.id, body.measurement, booked)
        found = [each.decision for each in booked.reweighed if each.weight == 0]
        found += [body.id] * (booked.weight == 0)
        if found:
            self.doubted, self.tells_since = found[-1], 0
        else:
            self.tells_since += 1
            if self.doubted in [each.decision for each in booked.reweighed]:
                self.doubted = None
        more = tuple((number, each) for each in booked.reweighed)
        self.corrections = (*self.corrections, *more)[-CORRECTIONS:]

    def _watched_after(self, decision: str, measurement: float, booked: TellDetails) -> AlarmWindow:
        window, off = window_after(self.watched, measurement, booked.deviations), booked.deviations
        suspect = estimates.suspected(window, decision, booked.taken, off, booked.weight)
        surprises = window.surprises
        if off is not None and booked.residual is not None and booked.weight != 0:
            surprises = estimates.surprised(surprises, off, booked.residual)
        return replace(window, suspect=suspect, surprises=surprises)

    def _taken_back(self, body: Retract) -> None:
        if body.extra is not None and body.extra.sums is not None and body.extra.watched is not None:
            self.sums, self.watched = body.extra.sums, body.extra.watched

    def _acknowledge(self, body: AlarmAcknowledged, at: str) -> None:
        alarm = self.alarms.get(body.kind)
        if alarm is not None and alarm.at == body.raised:  # else it is over, or another one has come
            by = None if body.extra is None else body.extra.by
            self.alarms[body.kind] = replace(alarm, acknowledged=Acknowledgement(at, by, body.remark))

    def _hold(self, body: OverrideSet, at: str) -> None:
        if not self.holds(body):
            by = None if body.extra is None else body.extra.by
            held = None if body.action is None else Override(body.action, body.reason, body.force, at, by)
            self.override, self.is_obeyed = held, False

    def holds(self, wish: OverrideSet) -> bool:
        """Return whether the machine is held, or free, just as it is wished."""
        held = self.override
        if held is None or wish.action is None:
            return held is None and wish.action is None
        return (held.action, held.reason, held.force) == (wish.action, wish.reason, wish.force)

    def meant(self, decision: str) -> int:
        """Return the action that a tell of a pending decision means, unless it says which one ran."""
        return (self.fallback_of(decision) or self.pending[decision]).action

    def fallback_of(self, decision: str) -> Order | None:
        """Return where the machine was sent in the round of a pending decision because that is late; None: nowhere."""
        return self.fallback if decision == self.newest else self.pending[decision].fallback

    def _begin(self, body: ControllerCreated | EpochBegun) -> None:
        self._settings, self.home, self.fixed = body.config, body.home, body.fixed
        self.mode, self.place, self.explanation = body.config.mode, body.start, body.explanation
        self.proposed_place = body.start
        if isinstance(body, ControllerCreated):
            measured = [action for action, *_ in body.history or ()]
            self.watched = replace(self.watched, history_off=body.history_off)
            self.history = measured.count(body.home), 0 if body.fixed is None else measured.count(body.fixed)
        if isinstance(body, EpochBegun):
            vars(self).update(vars(body.carried))
            self.pending, self.alarms, self.stale = dict(self.pending), dict(self.alarms), list(self.stale)

    def carried(self) -> Carried:
        """Return what the next epoch goes on with; actions in it get their new numbers there."""
        return Carried(**{each.name: getattr(self, each.name) for each in fields(Carried)})


def is_by_machine(event: Event[Body]) -> bool:
    """Say whether a client of the machine caused an event."""
    return isinstance(event.body, Ask | Tell | Learn | Episode)


# -- what is written of a decision and a tell --------------------------------------------------------------------------


def finite(number: float | None) -> float | None:
    """Return the number, or None where JSON could not hold it."""
    return None if number is None or not math.isfinite(number) else float(number)


def plain_value(value: Any) -> Any:
    """Return an action in the user's words, as JSON gives it back: the record sorts what has names."""
    if isinstance(value, Mapping):
        return dict(sorted(value.items()))
    return list(value) if isinstance(value, tuple) else value


def shown_problem(problem: Problem, settings: Settings) -> Problem:
    """Return a problem as people look at it: with the units of now, which may have been changed since it was made."""
    units = settings.units
    return problem.with_units(units.action, units.measurement, settings.context_names, units.contexts)


def wish_of(ledger: Ledger) -> Wish | None:
    """Return what the machine shall do in place of what is decided; None where it shall do that."""
    held = ledger.override
    if held is not None:
        return Wish(held.action, held.reason if held.force else None)
    return None if ledger.mode in FOLLOWED else Wish(None)


def ask_details(ledger: Ledger, problem: Problem, entry: Entry, key: str | None, by: Author | None) -> AskDetails:
    """Return what the machine shall do with a decision, and what is needed to book its tell."""
    proposed, action, order = entry.decision.action, entry.meant, entry.order
    turn, terms = entry.decision.turn, ledger.settings.trial
    people = turn is not None and turn.arm == BASELINE and terms is not None and terms.operators
    reason = "observe" if ledger.mode == "observe" else "trial" if people else None
    if ledger.override is not None:
        reason = "override"
    return AskDetails(
        mode=ledger.mode,
        act=ledger.override is not None or (ledger.mode == "act" and not people),
        action=action,
        value=plain_value(problem.value(action)),
        proposed_value=plain_value(problem.value(proposed)),
        reason=reason,
        limited_by=entry.decision.limited_by if order is None else order.limited_by,
        forced=None if order is None else order.force,
        expected=finite(entry.expected[action]),
        expected_measurement=None if entry.mean is None else finite(entry.mean[action]),
        before=ledger.place,
        proposed_before=ledger.proposed_place,
        episode=entry.decision.episode,
        key=key,
        by=by,
    )


def tell_details(
    ledger: Ledger,
    problem: Problem,
    decision: str,
    measurement: float | None,
    applied: int | None,
    entry: Entry | None,
    off: float | None,
    learned: Learned,
    price: Price | None = None,
) -> tuple[TellDetails, list[Note]]:
    """Return the costs of a round, and the notes that follow from its tell.

    `entry` is what the controller knows of the decision, None of one of an earlier epoch; `off` is what `deviations`
    gave; `learned` is what the model made of the measurement; `price` says what that cost, where it is not a cost.
    """
    question, meant = ledger.pending[decision], ledger.meant(decision)
    taken = meant if applied is None else applied
    movement = problem.distance(question.before, taken)
    way = problem.distance(question.proposed_before, question.proposed)
    paid = price or (_gain if ledger.settings.maximise else _cost)
    service = None if measurement is None else _counted(measurement, learned.weight, learned.instead, paid)
    reweighed = tuple(_reweighed(before, now, paid) for before, now in learned.changed)
    notes: list[Note] = []
    unit = ledger.settings.units.measurement
    if measurement is not None:
        notes += alarm_notes(window_after(ledger.watched, measurement, off), list(ledger.alarms))
        said = [
            _set_aside(now.decision.id, now.told[0], now.instead, unit)
            for _, now in learned.changed
            if now.weight == 0 and now.told is not None and now.told[0] is not None
        ]
        if learned.weight == 0:
            said.append(_set_aside(decision, measurement, learned.instead, unit))
        believed = ledger.doubted in [each.decision for each in reweighed if each.weight > 0]
        notes += reading_notes(ledger, said, believed=believed)
    if decision in ledger.stale:
        notes.append(DecisionRecovered(decision))
        if len(ledger.stale) == 1:
            notes.append(AlarmCleared("stale"))
    details = TellDetails(
        taken=taken,
        applied_value=plain_value(problem.value(taken)),
        default=meant,
        assumed=None if applied is not None else "fallback" if ledger.fallback_of(decision) else "answer",
        service=service,
        movement=movement,
        estimated_staying=estimates.alternative(entry, service, taken, ledger.home, price),
        estimated_fixed=(
            None if ledger.fixed is None else estimates.alternative(entry, service, taken, ledger.fixed, price)
        ),
        estimated_proposal=estimates.alternative(entry, service, taken, question.proposed, price, way),
        residual=estimates.residual(entry, service, taken),
        cumulative_service=ledger.sums.service + (service or 0.0) + sum(each.change for each in reweighed),
        cumulative_movement=ledger.sums.movement + movement,
        deviations=off,
        raised=tuple(AlarmText(note.kind, note.message) for note in notes if isinstance(note, AlarmRaised)),
        weight=None if learned.weight == 1 else learned.weight,
        reweighed=reweighed,
    )
    return details, notes


def _cost(measurement: float) -> float:
    return measurement


def _gain(measurement: float) -> float:
    return -measurement


def _counted(measurement: float, weight: float | None, instead: float | None, paid: Price) -> float:
    """Return the service cost that is booked: of a reading that is set aside, what is expected in its place."""
    return paid(instead if weight == 0 and instead is not None else measurement)


def _reweighed(before: Entry, now: Entry, paid: Price) -> Reweighed:
    assert now.told is not None  # only what was measured is weighed
    assert now.told[0] is not None
    assert now.weight is not None
    then, there = (_counted(now.told[0], each.weight, each.instead, paid) for each in (before, now))
    return Reweighed(now.decision.id, now.weight, there - then)


class RetractionLedger:
    """Books rounds anew that are lived through again because a measurement was taken back.

    What the alternatives would have cost, and how far off each measurement was, is then said by a model that never
    knew it.

    Parameters
    ----------
    log
        The record.
    decision
        Whose measurement is taken back.
    cause
        Who wants it.
    """

    def __init__(self, log: Log, decision: str, cause: Cause) -> None:
        self._log, self._cause = log, cause
        self._gone = {decision, *(event.body.id for event in log.retractions())}
        self._book: Ledger | None = None
        self._open: Callable[[], None] | None = None

    def look(self, event: Event[Body], session: Session) -> None:
        """Take in an event as it would have been booked; a tell when it has been lived through."""
        self._settle()
        if self._book is None:
            self._book = Ledger()
            for before in self._log.events():
                if before.number >= event.number:
                    break
                self._book.take_in(before)
        body = event.body
        if isinstance(body, Tell | Learn) and body.extra is not None:
            measurement, taken = None if body.id in self._gone else body.measurement, body.extra.taken
            entry = session.entry(body.id) if isinstance(body, Tell) else None
            off = deviations(entry, session.pilot.model, taken, measurement)
            self._open = partial(self._tell, event, replace(body, measurement=measurement), session, entry, off)
        elif not isinstance(body, Retract):  # else what it took back is gone already
            self._book.take_in(event)

    def _settle(self) -> None:
        """Book the tell that was looked at last: by now it is known what the model made of it."""
        if self._open is not None:
            self._open()
            self._open = None

    def _tell(
        self, event: Event[Body], body: Tell | Learn, session: Session, entry: Entry | None, off: float | None
    ) -> None:
        assert self._book is not None  # the event was looked at
        assert body.extra is not None
        learned, price = session.learned, price_of(session.pilot.model)
        problem, taken = session.policy.problem, body.extra.taken
        booked, _ = tell_details(self._book, problem, body.id, body.measurement, taken, entry, off, learned, price)
        self._book.take_in(Event(event.number, event.at, replace(body, extra=booked)))

    def details(self) -> tuple[RetractDetails, list[Note]]:
        """The sums without the measurement, and which alarms are over."""
        self._settle()
        book = self._book
        assert book is not None  # at least the tell was looked at
        notes = [note for note in alarm_notes(book.watched, list(book.alarms)) if isinstance(note, AlarmCleared)]
        if "reading" in book.alarms and (book.doubted is None or book.tells_since >= REMINDED):
            notes.append(AlarmCleared("reading"))
        return RetractDetails(key=self._cause.key, by=self._cause.by, sums=book.sums, watched=book.watched), [*notes]


def deviations(entry: Entry | None, model: CostModel, taken: int, measurement: float | None) -> float | None:
    """Return how many deviations a measurement is from what was expected; None where nothing was."""
    noise = noise_variance_of(model)
    if entry is None or measurement is None or entry.mean is None or entry.std is None:
        return None
    if noise is None:
        return None
    spread = float(np.sqrt(entry.std[taken] ** 2 + noise))
    return finite((measurement - float(entry.mean[taken])) / spread) if spread > 0 else None


# -- alarms from what is told ------------------------------------------------------------------------------------------


def window_after(window: AlarmWindow, measurement: float, off: float | None) -> AlarmWindow:
    """Return the window one measurement later; `off` in deviations from what was expected, None where nothing was."""
    beyond = window.beyond if off is None else (*window.beyond, abs(off) > BAND)[-WINDOW:]
    repeats = window.repeats + 1 if measurement == window.value else 1
    return replace(window, beyond=beyond, value=measurement, repeats=repeats)


def alarm_notes(window: AlarmWindow, open_kinds: Sequence[str]) -> list[AlarmRaised | AlarmCleared]:
    """Return what the record shall say: alarms to raise and to clear."""
    notes: list[AlarmRaised | AlarmCleared] = []
    count, outside = len(window.beyond), sum(window.beyond)
    if "calibration" not in open_kinds and count >= ENOUGH and outside >= RAISED_AT * count:
        message = (
            f"{outside} of the last {count} measurements were outside the band that the model predicted (expected: "
            f"about {count / 22:.0f}). The sensor may be wrong, or the costs may depend on something that has changed "
            "or that the context does not show"
        )
        notes.append(AlarmRaised("calibration", message))
    if "calibration" in open_kinds and outside <= CLEARED_AT * count:
        notes.append(AlarmCleared("calibration"))
    if "sensor" not in open_kinds and window.repeats >= STILL:
        message = f"the last {window.repeats} measurements were all {window.value:g}; is the sensor frozen?"
        notes.append(AlarmRaised("sensor", message))
    if "sensor" in open_kinds and window.repeats < STILL:
        notes.append(AlarmCleared("sensor"))
    return notes


def reading_notes(ledger: Ledger, said: Sequence[str], *, believed: bool) -> list[AlarmRaised | AlarmCleared]:
    """Return what the record shall say of readings that were found out by a tell; `said` names them.

    `believed`: the one found out last is believed after all.
    """
    is_open = "reading" in ledger.alarms
    cleared: list[AlarmRaised | AlarmCleared] = [AlarmCleared("reading")] if is_open else []
    if said:
        remedy = "The model ignores it, and no sum includes it. If it was wrong, take it back (retract)."
        if len(said) > 1:
            remedy = "The model ignores them, and no sum includes them. Take back (retract) those that were wrong."
        return [*cleared, AlarmRaised("reading", f"{'; '.join(said)}. {remedy}")]
    return cleared if believed or ledger.tells_since + 1 >= REMINDED else []


def _set_aside(decision: str, measurement: float, instead: float | None, unit: str) -> str:
    if instead is None:
        return f"the reading {beside(written(measurement), unit)} of {decision} was set aside"
    digits = 4  # more where the two would look the same
    while digits < MOST_DIGITS and written(instead, digits) == written(measurement, max(digits, 6)):
        digits += 1
    reading, expected = beside(written(measurement, max(digits, 6)), unit), beside(written(instead, digits), unit)
    return f"the reading {reading} of {decision} was set aside (about {expected} was expected)"
