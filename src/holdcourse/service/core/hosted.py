"""One controller of the service: what its records say, what is added to them, and what may be done to it.

The machine's own program asks and tells, round by round. An operator sets mode, override, episodes and other settings;
an operator's request under a key that was carried out before changes nothing, whatever came in between: the answer is
the state as it is now. Whatever is answered is on disk before.

Not safe for several threads at once: `Controllers` gives each one turn at a time. What others look at meanwhile is
`view`, which is replaced as a whole after every change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, NamedTuple

from holdcourse.deciding.rules import Turn
from holdcourse.errors import Conflict, InvalidInput, LogError, computing
from holdcourse.learning.costs import price_of
from holdcourse.movement.problem import Problem
from holdcourse.movement.settings import chosen, required
from holdcourse.running.decision import Also, Request
from holdcourse.running.events import (
    AlarmAcknowledged,
    AlarmCleared,
    AlarmRaised,
    Ask,
    AskRepeated,
    Author,
    Body,
    Cause,
    CausedNote,
    ChangeRequested,
    ControllerArchived,
    ControllerRestored,
    Episode,
    Event,
    Learn,
    ModeSet,
    Note,
    OverrideSet,
    Retract,
    RetractDetails,
    SettingsChanged,
    Tell,
    TellDetails,
    plain,
)
from holdcourse.running.limits import settings_within
from holdcourse.running.operation import Operation
from holdcourse.running.session import Learned, first_few, still_waiting
from holdcourse.running.witness import Witness
from holdcourse.service.core import configuration, epochs, idempotency, ledger, records, status
from holdcourse.service.core.data_folder import number_of
from holdcourse.service.core.ledger import Ledger, plain_value
from holdcourse.service.core.notices import UNTOLD
from holdcourse.service.core.records import LocatedEvent, Records, numbered
from holdcourse.service.core.refusals import ControllerPutAway, EpochsArchived, RoundNeeded, Unknown
from holdcourse.service.core.requests import AskGiven, Profile
from holdcourse.service.core.status import Clock, Timing, View
from holdcourse.service.core.store import Store


class Done(NamedTuple):
    """An answer, and what happened: (kind, data) for those who watch; nothing if it was a repetition."""

    answer: dict[str, Any]
    happened: list[tuple[str, dict[str, Any]]]


class SettingGiven(NamedTuple):
    """A setting that somebody named: as people call it, or by the number of its action; neither: none."""

    setting: Any = None
    number: int | None = None


NOTHING = SettingGiven()


class MustRebuild(Exception):  # noqa: N818 - not an error: there is more to do
    """The question was answered so long ago that its answer must be rebuilt, which is not done in the turn."""

    def __init__(self, located: LocatedEvent[Ask]) -> None:
        super().__init__(f"round {located.event.body.round} must be rebuilt")
        self.located = located


class Hosted:
    """One controller with its records: asked and told by the machine's program, set by operators.

    Attributes
    ----------
    epoch
        The present one: the number in the name of its record.
    controller, ledger
        Its controller, and what follows from its events.
    records
        The records of all epochs, for reading.
    answers
        What was answered to the decisions that are pending, by their id.
    view
        What everybody may look at.
    timing
        How long ago what is pending was asked.
    """

    def __init__(self, store: Store, name: str, clock: Clock | None = None, witness: Witness | None = None) -> None:
        self.store, self.id = store, name
        self._author: Author | None = None
        self.timing = Timing(clock or Clock())
        self._witness = witness
        self.records = Records()
        try:
            self._open()
        except BaseException:
            self.records.close()
            raise

    def _open(self) -> None:
        """Go on with the newest record."""
        self._outdated = True  # until all of this has worked
        paths = self.store.epochs(self.id)
        self.store.check_newest(self.id)
        self.records.take_in(paths)
        self.epoch = self.records.newest
        self.controller: Operation = epochs.reopened(paths[-1], self._witness)
        try:
            self.controller.log.clock = self.timing.clock.now
            self.controller.log.index()
            self._unchanging = status.of_epoch(
                self.id, self.epoch, self.records.archived, self.controller.session.policy
            )
            self.ledger = Ledger()
            self._outdated = False
            self.recall(archived=True)
        except BaseException:
            self._outdated = True
            self.controller.close()
            raise

    def close(self) -> None:
        """Let go of the files."""
        self.controller.close()
        self.records.close()

    def check_files(self) -> Done:
        """An error where somebody has taken the record away."""
        self.controller.log.check_writable()
        return Done({}, [])

    def recall(self, *, archived: bool = False) -> None:
        """Take in what the record holds already; nothing new, unless the last request was cut off after its commit.

        Every request begins with it, so here is where those are refused that come after it was put away; `archived`
        are the few that may.
        """
        if self._outdated:
            self._open()
        elif self.catch_up():
            self.answers = {
                name: records.pending_answer(self.controller, self.records, asked)
                for name, asked in self.ledger.pending.items()
            }
            self.publish()
        if self.ledger.archived is not None and not archived:
            since = self.ledger.archived
            who = "" if since.by is None else f" by {since.by.name}"
            words = f"{self.id} was archived at {since.at}{who} ({since.remark}) and can only be looked at"
            raise ControllerPutAway(f"{words}; bring it back with POST /controllers/{self.id}/restore")

    def catch_up(self) -> list[Event[Body]]:
        """Take in what has just been added to the record, and return it."""
        events = list(self.controller.log.events(after=self.ledger.seen))
        opening = self.ledger.seen == 0
        for event in events:
            self.ledger.take_in(event)
        if opening:
            self.timing.opened(events[-1].at, self.ledger)
        else:
            self.timing.added(events, self.ledger)
        return events

    def publish(self) -> None:
        """Show what has changed."""
        self.view = View.of(self._unchanging, self.controller, self.ledger, list(self.answers.values()), self.timing)

    @contextmanager
    def acted_by(self, author: Author | None) -> Iterator[None]:
        """Put this name, if any, beside what is done within, in the record; only whoever has the turn acts."""
        self._author = author
        try:
            yield
        finally:
            self._author = None

    def _signed(self, note: CausedNote) -> CausedNote:
        cause = replace(note.extra or Cause(), by=self._author)
        return replace(note, extra=None if cause == Cause() else cause)

    def commit(self, *notes: CausedNote) -> None:
        """Add notes to the record, all or none."""
        if notes:
            self.controller.note(*map(self._signed, notes))
            self.catch_up()
            self.publish()

    def begin_epoch(
        self,
        changes: Mapping[str, Any],
        notes: Sequence[CausedNote | Retract],
        *,
        without_archived: bool,
        reason: str = "",
    ) -> None:
        """Go on in a new record, with other settings, for a reason; `notes` stand at its beginning."""
        if self.records.archived and not without_archived:
            gone = numbered(self.records.archived)
            words = f"{gone} archived, so a new epoch could not learn from what was measured then"
            remedy = "bring the files back and start again, or send this with ?without_archived=true"
            raise EpochsArchived(f"{words}; {remedy}")
        self.controller.log.check_writable()  # without its records, the next one would be numbered as the first
        try:
            with computing():
                signed = [note if isinstance(note, Retract) else self._signed(note) for note in notes]
                epochs.begin_next(self.store, self.ledger, self.controller, changes, signed, self._author, reason)
        finally:
            there = self.store.epochs(self.id)
            if there and number_of(there[-1]) != self.epoch:  # then the old one must not be written to,
                self._outdated = True  # also if something failed after the new one got its name
                self.controller.close()
        self._open()

    def watch(self) -> Done:
        """Report who is late, and who no longer is; see `status`."""
        self.recall(archived=True)
        happened = list[tuple[str, dict[str, Any]]]()
        if self.ledger.archived is not None:
            return Done({}, happened)
        notes = status.watchdog_notes(self.ledger, self.timing)
        fallback = self.ledger.settings.fallback
        if fallback is not None and self.timing.falls_back(self.ledger):
            order = self.controller.redirect(fallback, notes)
            self.catch_up()
            self.publish()
            happened.append(("state", {"fallback": plain_value(self._problem.value(order.action))}))
        else:
            self.commit(*notes)
        for note in notes:
            if isinstance(note, AlarmRaised):
                happened.append(("alarm", {**plain(self.ledger.alarms[note.kind]), "cleared_at": None}))
            elif isinstance(note, AlarmCleared):
                happened.append(("state", {"cleared": note.kind}))
        return Done({}, happened)

    def say_untold(self, why: str | None) -> Done:
        """Raise the alarm that nobody could be told of the others, or clear it; nothing, while it is put away."""
        self.recall(archived=True)
        is_open = UNTOLD in self.ledger.alarms
        if self.ledger.archived is not None:
            return Done({}, [])
        if why is not None and not is_open:
            self.commit(AlarmRaised(UNTOLD, why))
            return Done({}, [("alarm", {**plain(self.ledger.alarms[UNTOLD]), "cleared_at": None})])
        if why is None and is_open:
            self.commit(AlarmCleared(UNTOLD))
            return Done({}, [("state", {"cleared": UNTOLD})])
        return Done({}, [])

    def no_decision(self, decision: str) -> Unknown:
        """Return what is said of a decision that no record here holds."""
        return Unknown(
            "decision", decision, f"the next one will be r{self.controller.session.round}{self._out_of_sight()}"
        )

    def _out_of_sight(self) -> str:
        """Say which decisions cannot be found, because their records were moved away."""
        archived = self.records.archived
        return f"; {numbered(archived)} archived, with all decisions made then" if archived else ""

    def _still_waiting(self, given: int | str) -> Conflict:
        """Return what is said where decisions must be told before something can be done; `given` was asked for."""
        waiting = list(self.ledger.pending)
        words, them = still_waiting(waiting)
        return Conflict(f"{words}; tell or skip {them} first", waiting, given)

    # -- what the machine's own program may do -------------------------------------------------------------------------

    def ask(self, request: AskGiven, key: str | None, rebuilt: dict[str, Any] | None = None) -> Done:
        """Decide the next round, or say again what was decided; `rebuilt` is what was answered long ago."""
        self.recall()
        controller, book = self.controller, self.ledger
        request = self._in_numbers(request)
        earlier = None if key is None else idempotency.asked_under(self.records, key)
        if earlier is not None:
            return Done(self._same_decision(earlier, request, rebuilt), [])
        number = self._round_meant(request.round, key)
        if number < controller.session.round:
            return self._asked_before(number, request, key, rebuilt)
        if number > controller.session.round:
            words = f"round {number} cannot be decided yet; the next one is {controller.session.round}"
            raise Conflict(words, controller.session.round, number)
        if len(book.pending) >= controller.session.max_pending:
            raise self._still_waiting(number)
        problem = controller.session.policy.problem
        with computing():
            decision = controller.ask(
                request.context,
                request.allowed,
                request.forecast,
                round=number,
                wish=ledger.wish_of(book),
                details=lambda entry: ledger.ask_details(book, problem, entry, key, self._author),
            )
        event = self.catch_up()[-1]
        assert isinstance(event.body, Ask)
        asked = Event(event.number, event.at, event.body)
        answer = status.decision_answer(self.epoch, asked, decision.probabilities.tolist())
        self.answers[decision.id] = answer
        self.publish()
        if "silent" in book.alarms:
            with suppress(LogError):  # the decision is on disk and counts; the watchdog clears the alarm later
                self.commit(AlarmCleared("silent"))
        return Done(answer, [("decision", answer)])

    def _in_numbers(self, request: AskGiven) -> AskGiven:
        """Return a question in the policy's own numbers: no time, no profiles, and a mask in place of a range."""
        if request.time is not None and not self.view.fixed_part["times"]:
            raise InvalidInput(f"the contexts of {self.id} are not times; give the conditions as context, not time")
        settings = self.ledger.settings
        if self.controller.session.round == 0 and not settings.history_count and not self.view.fixed_part["times"]:
            # Later ones must be as the first.
            configuration.check_count(settings.policy, settings.context_names, request.context, "the context")
        given: Any = request.context if request.time is None else request.time
        said = request.forecast if request.profiles is None else request.profiles.model_dump(mode="json")
        context, _, forecast = self.controller.plain_question(given, None, said)
        allowed = request.allowed
        if request.within is not None:
            problem, (low, high) = self.controller.session.policy.problem, request.within
            mask = settings_within(problem, (low, high))
            if allowed is not None:
                mask &= Request.of(problem, None, allowed, None, None).mask(problem.n)
            allowed = mask.tolist()
        plain_numbers = {"context": context, "forecast": forecast, "allowed": allowed}
        return request.model_copy(update=plain_numbers | dict.fromkeys(("time", "profiles", "within")))

    def tell(
        self,
        decision: str,
        measurement: float | None,
        ran: SettingGiven = NOTHING,
        key: str | None = None,
        epoch: int | None = None,
        profile: Profile | None = None,
        reference: float | None = None,
    ) -> Done:
        """Take in what was measured (None: nothing was), or say again that it was.

        `ran` is a setting of `epoch`; without, of the epoch in which it is told.
        """
        self.recall()
        earlier = None if key is None else self.records.with_key(key)
        if earlier is not None or decision not in self.ledger.pending:
            told = earlier or self.records.told(decision)
            if told is None:
                pending = first_few(list(self.ledger.pending)) or "none"
                raise Unknown("decision", decision, f"decisions that wait for a measurement: {pending}")
            applied = self._action_of(ran, epoch, told.epoch)
            body = told.event.body
            also: Also = ()
            if isinstance(body, Tell | Learn) and body.extra is not None:
                taken = body.extra.default if applied is None else applied
                measurement, also = self._profile(measurement, profile, taken)
            return Done(idempotency.same_tell(told.event, decision, measurement, applied, also, key, reference), [])
        applied = self._action_of(ran, epoch, self.epoch)
        late: list[tuple[str, dict[str, Any]]] = []
        if self.view.has_unreported:
            self._profile(measurement, profile, self._ran(decision, applied))  # refused before anything has changed
            late = self.watch().happened  # what it says by now, it was told: the machine may be at the fallback
        measurement, also = self._profile(measurement, profile, self._ran(decision, applied))
        with computing():
            self._learn(decision, measurement, applied, key, profile, also, reference)
        answer = next(
            records.tell_answer(Event(event.number, event.at, event.body))
            for event in self.catch_up()
            if isinstance(event.body, Tell | Learn) and event.body.id == decision
        )
        del self.answers[decision]
        self.publish()
        return Done(answer, [*late, ("tell", answer), *(("alarm", alarm) for alarm in answer["alarms"])])

    def _ran(self, decision: str, applied: int | None) -> int:
        """Return the action that ran in a pending decision's round: as it is said, or else the one that was meant."""
        return self.ledger.meant(decision) if applied is None else applied

    def _action_of(self, given: SettingGiven, epoch: int | None, into: int) -> int | None:
        """Return the action that ran, in the numbers of epoch `into`; it is given as a setting of `epoch`."""
        named = into if epoch is None else epoch
        known = named == self.epoch
        problem = self._problem if known else epochs.recorded_problem(self.records.path(named))
        action = chosen(problem, given.setting, given.number, "applied")
        return records.renumbered(self.records, action, epoch, into)

    @property
    def _problem(self) -> Problem:
        return self.controller.session.policy.problem

    def retract(self, decision: str, reason: str, key: str | None, *, without_archived: bool = False) -> Done:
        """Take back what was measured, or say again that it was.

        An epoch begins with what was told in those before it. So where the measurement is one of those, a new epoch
        begins, without it; `without_archived` accepts that it knows nothing of epochs whose records were moved away.
        """
        self.recall()
        earlier = None if key is None else self.records.with_key(key)
        if earlier is not None:
            idempotency.same_retraction(earlier.event, decision, reason, key)
        told, before = self.records.told(decision), self.records.retracted(decision)
        if told is None and decision in self.ledger.pending:
            raise self._still_waiting(decision)
        if told is None:
            raise self.no_decision(decision)
        if before is not None:
            idempotency.same_retraction(before.event, decision, reason)
            return Done(records.retract_answer(before.event, told.event), [])
        if told.event.body.measurement is None and not told.event.body.also:
            raise InvalidInput(f"nothing was measured in {decision}, so there is nothing to take back")
        cause = Cause(key=key, by=self._author)
        if told.epoch == self.epoch:
            with computing():
                observer = ledger.RetractionLedger(self.controller.log, decision, cause)
                self.controller.retract(decision, reason, observer=observer)
            self.catch_up()
            self.publish()
        else:
            details = RetractDetails(key=cause.key, by=cause.by)
            taken = Retract(decision, None, reason, extra=details)
            why = f"the measurement of {decision} was taken back"
            self.begin_epoch({}, [taken], without_archived=without_archived, reason=why)
        now = self.records.retracted(decision)
        assert now is not None
        answer = records.retract_answer(now.event, told.event)
        return Done(answer, [("retract", answer)])

    def _profile(self, measurement: float | None, profile: Profile | None, taken: int) -> tuple[float | None, Also]:
        """Return what was measured at `taken` and at other actions."""
        given = None if profile is None else (profile.heights, profile.speeds)
        return self.controller.measured(measurement, given, taken)

    def _learn(
        self,
        decision: str,
        measurement: float | None,
        applied: int | None,
        key: str | None,
        profile: Profile | None,
        also: Also,
        reference: float | None,
    ) -> None:
        """Book what was measured; of a decision of an earlier epoch the controller knows nothing any more."""
        controller, book = self.controller, self.ledger
        asked = book.pending[decision]
        taken = self._ran(decision, applied)
        entry = None if asked.earlier else controller.entry(decision)
        off = ledger.deviations(entry, controller.session.pilot.model, taken, measurement)
        problem, price = controller.session.policy.problem, price_of(controller.session.pilot.model)

        def booked(learned: Learned) -> tuple[TellDetails, list[Note]]:
            details, notes = ledger.tell_details(
                book, problem, decision, measurement, applied, entry, off, learned, price
            )
            return replace(details, key=key, by=self._author), notes

        if entry is None:
            place = taken if decision == book.newest and taken != controller.session.where.action else None
            turn = self._turn_of(asked.round)
            controller.learn_earlier(decision, taken, asked.context, measurement, place, booked, also, reference, turn)
        else:
            other = None if taken == entry.meant else taken
            given = None if profile is None else (profile.heights, profile.speeds)
            controller.tell(decision, measurement, other, booked, given, reference)

    def _turn_of(self, number: int) -> Turn | None:
        """Return whose turn it was in a round of an earlier epoch, where the trial of then goes on."""
        located = self.records.asked(number)
        if located is None or located.event.body.turn is None:
            return None
        paths = [path for epoch, path in self.records.paths.items() if epoch >= located.epoch]
        return located.event.body.turn if epochs.trial_goes_on(paths) else None

    def _asked_before(self, number: int, request: AskGiven, key: str | None, rebuilt: dict[str, Any] | None) -> Done:
        """Return the answer to a round that was decided, with the question that it must be the same as."""
        located = self.records.asked(number)
        if located is None:
            raise Unknown(
                "round", str(number), f"the next one is {self.controller.session.round}{self._out_of_sight()}"
            )
        answer = self._same_decision(located, request, rebuilt)
        if key is not None:  # the key must mean this round from now on, whatever comes
            self.commit(AskRepeated(number, extra=Cause(key=key)))
        return Done(answer, [])

    def _same_decision(
        self, located: LocatedEvent[Ask], request: AskGiven, rebuilt: dict[str, Any] | None
    ) -> dict[str, Any]:
        speaks_of_settings = request.allowed is not None or located.event.body.request.allowed is not None
        known = located.epoch == self.epoch or not speaks_of_settings
        problem = self._problem if known else epochs.recorded_problem(self.records.path(located.epoch))
        name = located.event.body.id
        idempotency.check_question(problem, located.event.body, request, is_pending=name in self.ledger.pending)
        if located.epoch == self.epoch:
            if name in self.answers:
                return self.answers[name]
            if records.remembers(self.controller, name):
                return records.answer(self.controller, self.records, located)
        if rebuilt is not None and (rebuilt["epoch"], rebuilt["decision"]) == (located.epoch, name):
            return rebuilt
        raise MustRebuild(located)

    def _round_meant(self, number: int | None, key: str | None) -> int:
        """Find the round meant: without a number, the one that is pending or, where several may be, the next one."""
        controller = self.controller
        if number is not None:
            return number
        if controller.session.max_pending == 1:
            waiting = [asked.round for asked in self.ledger.pending.values()]
            return waiting[-1] if waiting else controller.session.round
        if key is None:
            words = f"say which round you ask for, such as {controller.session.round}, or send an Idempotency-Key"
            raise RoundNeeded(f"several decisions may be pending: {words}")
        return controller.session.round

    # -- what an operator may do ---------------------------------------------------------------------------------------

    def set_mode(self, mode: str, reason: str, key: str | None) -> Done:
        """Say how far the policy may go from now on."""
        self.recall()
        note = ModeSet(mode, reason)
        if idempotency.happened(self.records, note, key):
            return self._unchanged()
        return self._noted(note, key, anew=mode != self.ledger.mode)

    def set_override(self, held: SettingGiven, reason: str, key: str | None, *, force: bool = False) -> Done:
        """Hold the machine at a setting, or as near as limits permit unless it is forced; or hand it back."""
        self.recall()
        note = OverrideSet(chosen(self._problem_under(key), held.setting, held.number, "setting"), reason, force)
        if idempotency.happened(self.records, note, key):
            return self._unchanged()
        return self._noted(note, key, anew=not self.ledger.holds(note))

    def new_episode(self, at: SettingGiven, key: str | None, *, force: str | None = None) -> Done:
        """End the episode; without a key, asking for the same start again before its first round changes nothing.

        `force` is the reason for a start that limits do not permit.
        """
        self.recall()
        start = required(self._problem_under(key), at.setting, at.number, "start")
        if idempotency.happened(self.records, Episode(start, force), key):
            return self._unchanged()
        if key is None and self.ledger.fresh_episode == start:
            return self._unchanged()
        if self.ledger.pending:
            raise self._still_waiting(self._problem.text(start))
        self.controller.new_episode(start, force, Cause(key=key, by=self._author))
        self.catch_up()
        self.publish()
        return Done(self.view.state(), [("state", {"episode": self.controller.session.episode})])

    def change(self, changes: Mapping[str, Any], key: str | None, *, without_archived: bool = False) -> Done:
        """Take other settings; in a new epoch where decisions depend on them. Among them may be the `reason`.

        `without_archived` accepts that it knows nothing of epochs whose records were moved away.
        """
        self.recall()
        request = ChangeRequested(dict(changes))
        reason = changes.get("reason", "")
        changes = {name: value for name, value in changes.items() if name != "reason"}
        if idempotency.happened(self.records, request, key):
            return self._unchanged()
        requested = [] if key is None else [replace(request, extra=Cause(key=key))]
        before = plain(self.ledger.settings)
        given = changes

        def problem() -> Problem:
            return self._problem_after(before, given)

        changes = configuration.with_indices(configuration.with_numbers(given, before, problem), problem)
        settings = configuration.merged(self.ledger.settings, changes)
        after = plain(settings)
        differing = [name for name in {**before, **after} if after.get(name) != before.get(name)]
        # What has its default is left out above; written down it must be, as what it is.
        changed = {name: plain(getattr(settings, name)) for name in differing}
        if any(name in epochs.EPOCH_SETTINGS for name in changed):
            self.begin_epoch(changes, requested, without_archived=without_archived, reason=reason)
        else:
            self.commit(*([SettingsChanged(changed, reason=reason)] if changed else []), *requested)
        return Done(self.view.state(), [("state", {"epoch": self.epoch})] if changed else [])

    def acknowledge(self, kind: str, raised: str | None, remark: str, key: str | None) -> Done:
        """Say that somebody has seen an open alarm: the one that was raised then; saying the same again is fine."""
        self.recall()
        alarm, earlier = self.ledger.alarms.get(kind), None if key is None else self.records.with_key(key)
        if earlier is not None:
            before = earlier.event.body
            then = before.raised if raised is None and isinstance(before, AlarmAcknowledged) else raised
            idempotency.happened(self.records, AlarmAcknowledged(kind, then or "", remark), key)
            return self._unchanged()
        if alarm is None:
            there = ", ".join(self.ledger.alarms) or "none"
            raise Unknown("open alarm", kind, f"the open alarms are: {there}")
        if raised is not None and raised != alarm.at:
            words = f"the alarm {kind} that is open was raised at {alarm.at}, not at {raised}; look at that one"
            raise Conflict(words, alarm.at, raised)
        seen = alarm.acknowledged
        if key is None and seen is not None and (seen.remark, seen.by) == (remark, self._author):
            return self._unchanged()
        note = AlarmAcknowledged(kind, alarm.at, remark)
        self.commit(note if key is None else replace(note, extra=Cause(key=key)))
        return Done(self.view.state(), [("state", {"acknowledged": kind})])

    def archive(self, reason: str) -> Done:
        """Put the controller away: from now on it is only looked at. Where it is so already, nothing changes."""
        self.recall(archived=True)
        if self.ledger.archived is not None:
            return self._unchanged()
        if self.ledger.pending:
            raise self._still_waiting("archive")
        self.commit(ControllerArchived(reason))
        return Done(self.view.state(), [("state", {"archived": True})])

    def restore(self, reason: str) -> Done:
        """Bring the controller back. Its deadlines begin anew: while it was put away nobody expected anything."""
        self.recall(archived=True)
        if self.ledger.archived is None:
            return self._unchanged()
        self.commit(ControllerRestored(reason))
        self.timing.begin_anew()
        self.publish()
        return Done(self.view.state(), [("state", {"archived": False})])

    def _problem_after(self, before: Mapping[str, Any], changes: Mapping[str, Any]) -> Problem:
        """Return the problem with some settings changed; the present one where it is the same."""
        same = all(changes.get(name, before[name]) == before[name] for name in configuration.PROBLEM_SETTINGS)
        with computing():
            if same:
                return self._problem
            units = {**before["units"], **changes.get("units", {})}
            return configuration.problem_given({**before, **changes, "units": units})

    def _problem_under(self, key: str | None) -> Problem:
        """Return the problem that a request is about: the one of then, where its key was used before."""
        earlier = None if key is None else self.records.with_key(key)
        if earlier is None or earlier.epoch == self.epoch:
            return self._problem
        return epochs.recorded_problem(self.records.path(earlier.epoch))

    def _noted(self, note: ModeSet | OverrideSet, key: str | None, *, anew: bool) -> Done:
        """Write down what the operator wants; where it is so already, only for the sake of its key."""
        if anew or key is not None:
            self.commit(note if key is None else replace(note, extra=Cause(key=key)))
        said = {name: value for name, value in plain(note).items() if name != "note"}
        if isinstance(note, OverrideSet):
            said["setting"] = None if note.action is None else plain_value(self._problem.value(note.action))
        if self._author is not None:
            said["by"] = plain(self._author)
        return Done(self.view.state(), [(note.NOTE, said)] if anew else [])

    def _unchanged(self) -> Done:
        return Done(self.view.state(), [])
