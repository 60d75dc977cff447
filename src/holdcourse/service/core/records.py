"""The records of all epochs of a controller, for reading: what was asked and told, by round, by decision, by key.

They are read on connections of their own, so that looking at the past never waits for a decision that is being taken.
An epoch that is over never changes, so a few facts about each are kept in memory, and only a few of them are held open.

A decision that is no longer in memory is rebuilt from the record of its epoch.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdcourse.deciding.trial import BASELINE
from holdcourse.errors import DamagedFile, HoldcourseError, InvalidInput
from holdcourse.movement.problem import Problem
from holdcourse.running import audit
from holdcourse.running.decision import Entry
from holdcourse.running.events import (
    AlarmAcknowledged,
    AlarmCleared,
    AlarmRaised,
    Ask,
    Body,
    Caused,
    CausedNote,
    ControllerCreated,
    Episode,
    EpochBegun,
    Event,
    Learn,
    ModeSet,
    Note,
    OverrideSet,
    PendingDecision,
    Retract,
    Settings,
    SettingsChanged,
    Tell,
    plain,
    shallow,
)
from holdcourse.running.log import Log
from holdcourse.running.operation import Operation
from holdcourse.running.storage import Location
from holdcourse.service.core import epochs
from holdcourse.service.core.data_folder import epoch_name, number_of
from holdcourse.service.core.ledger import plain_value
from holdcourse.service.core.status import carried_answer, decision_answer

Hashes: TypeAlias = NDArray[np.int64]

BodyKind = TypeVar("BodyKind", bound=Body, covariant=True)

LATEST = 200  # notes of a kind that are looked at
ALARMS = (AlarmRaised, AlarmCleared, AlarmAcknowledged)
CHANGES = (ControllerCreated, EpochBegun, SettingsChanged, ModeSet, OverrideSet)  # what operators do
OPEN_EPOCHS = 4  # of those that are over
LOST_IN = 1e10  # times a sum: to this a double still adds it with six digits


def numbered(epochs: Sequence[int]) -> str:
    """Name epochs, with the verb: `epoch 1 is`, `epochs 1, 2 are`."""
    return f"epoch{'s' * (len(epochs) != 1)} {', '.join(map(str, epochs))} {'is' if len(epochs) == 1 else 'are'}"


@dataclass(frozen=True)
class LocatedEvent(Generic[BodyKind]):
    """An event and the epoch it belongs to."""

    epoch: int
    event: Event[BodyKind]


class NoteRow(NamedTuple):
    """A note as it is listed: its number and time, the epoch, which note it is, who caused it, and what it says."""

    number: int
    at: str
    epoch: int
    what: str
    by: dict[str, Any] | None
    says: dict[str, Any]


class EpochChain:
    """Whether the records of a controller continue each other: each names the one before it, and how that ended.

    They are taken in oldest first. Missing ones are no error: they may have been archived.
    """

    def __init__(self) -> None:
        self._ends: dict[str, tuple[int, str]] = {}  # number of events and last hash of each record taken in

    def add(self, log: Log) -> None:
        """Add the next record; raise unless it continues the one before it, as far as that is there."""
        number, previous = number_of(log.path), log.about.previous
        expected = None if number == 1 else epoch_name(number - 1)
        named = None if previous is None else previous.file
        if named != expected:
            raise DamagedFile(
                f"{log.path} continues {named or 'no other record'}, but by its name it should continue "
                f"{expected or 'none'}; it was renamed, or belongs to another controller. Give it back its name, or "
                "restore it from a backup"
            )
        if previous is not None:
            then = (previous.events, previous.chain)
            if self._ends.get(previous.file, then) != then:
                raise DamagedFile(f"{log.path} does not continue {named} as it is now; restore both from a backup")
        self._ends[log.path.name] = (log.last, log.chain)


class Records:
    """The records of a controller by the number of their epoch.

    Attributes
    ----------
    paths
        Those that are there, oldest first; numbers may be missing where epochs were archived.
    """

    def __init__(self) -> None:
        self.paths: dict[int, Location] = {}
        self._lock = Lock()
        self._links = EpochChain()
        self._present: Log | None = None
        self._open: OrderedDict[int, Log] = OrderedDict()  # epochs that are over, the one used last at the end
        self._rounds: dict[int, tuple[int, int]] = {}  # first and last one asked in each epoch that is over
        self._keys: dict[int, Hashes] = {}  # sorted; of each epoch that is over, once a key was looked for
        self._notes: dict[tuple[int, str], list[NoteRow]] = {}  # of epochs that are over
        self._retractions: dict[int, list[LocatedEvent[Retract]]] = {}  # of epochs that are over
        self._beginnings: dict[int, Settings] = {}  # with which each epoch began, once somebody asked
        self._problems: dict[int, Problem] = {}  # of each epoch of which somebody asked what an action was called

    @property
    def newest(self) -> int:
        """Return the number of the present epoch."""
        return max(self.paths)

    @property
    def archived(self) -> list[int]:
        """List the epochs that are not here any more."""
        return [number for number in range(1, self.newest) if number not in self.paths]

    def take_in(self, paths: Sequence[Location]) -> None:
        """Take these as the records from now on; raise where one does not continue the one before it."""
        rounds = {}
        for number, path in ((number_of(path), path) for path in paths[:-1]):
            if number in self._rounds:  # it was over, and has not changed since
                rounds[number] = self._rounds[number]
                continue
            log = Log.read(path, checked=False)
            try:
                self._links.add(log)
                rounds[number] = rounds_of(log)
            finally:
                log.close()
        newest = Log.read(paths[-1], checked=False)
        try:
            self._links.add(newest)
        except BaseException:
            newest.close()
            raise
        with self._lock:
            if self._present is not None:
                self._present.close()
            self._present, self._rounds = newest, rounds
            self.paths = {number_of(path): path for path in paths}

    def close(self) -> None:
        """Let go of the files."""
        with self._lock:
            for log in (self._present, *self._open.values()):
                if log is not None:
                    log.close()
            self._open.clear()

    def path(self, epoch: int) -> Location:
        """Return the file of an epoch's record, which must be here."""
        if epoch > self.newest:
            raise InvalidInput(f"there is no epoch {epoch} yet; the present one is {self.newest}")
        if epoch not in self.paths:
            raise InvalidInput(f"epoch {epoch} was archived, so what it called its actions is not known here")
        return self.paths[epoch]

    def asked(self, round_number: int) -> LocatedEvent[Ask] | None:
        """Find the decision of a round."""
        for epoch in reversed(self.paths):
            first, last = self._rounds.get(epoch, (0, 2**62))
            if first <= round_number <= last:
                found = self._find(epoch, lambda log: log.find("round", round_number, newest=True))
                if found:
                    return found[0]
        return None

    def told(self, decision: str) -> LocatedEvent[Tell | Learn] | None:
        """Return what was told of a decision, in the epoch in which it was asked or a later one."""
        for epoch in self.paths:
            first, last = self._rounds.get(epoch, (0, 2**62))
            if last >= int(decision[1:]) or last < first:  # one in which nothing was asked may hold late tells
                found = self._find(epoch, lambda log: log.find("decision", decision, newest=True))
                if found:
                    return found[0]
        return None

    def retractions(self) -> list[LocatedEvent[Retract]]:
        """All measurements that were taken back, in any epoch."""
        return [located for epoch in self.paths for located in self._retractions_of(epoch)]

    def retracted(self, decision: str) -> LocatedEvent[Retract] | None:
        """Find the retraction of what was measured in the round of a decision, in whichever epoch that was said."""
        for epoch in self.paths:
            if epoch == self.newest:
                found = self._find(epoch, lambda log: log.find("retracted", decision))
            else:
                found = [located for located in self._retractions_of(epoch) if located.event.body.id == decision]
            if found:
                return found[0]
        return None

    def _retractions_of(self, epoch: int) -> list[LocatedEvent[Retract]]:
        known = self._retractions.get(epoch)
        if known is not None:
            return known
        found = self._find(epoch, lambda log: log.find("retracted", "r", "s", limit=2**62))
        if epoch != self.newest:
            self._retractions[epoch] = found
        return found

    def with_key(self, key: str) -> LocatedEvent[Body] | None:
        """Find what a client caused under this key."""
        for epoch in reversed(self.paths):
            if epoch == self.newest or self._may_hold(epoch, key):
                found = self._find(epoch, lambda log: log.find("key", key, newest=True))
                if found:
                    return found[0]
        return None

    def asks_after(self, round_number: int, limit: int) -> list[LocatedEvent[Ask]]:
        """List the first `limit` decisions after a round."""
        found: list[LocatedEvent[Ask]] = []
        for epoch in self.paths:
            more = limit - len(found)
            if more and self._rounds.get(epoch, (0, 2**62))[1] > round_number:
                found += self._find(epoch, partial(_asks, low=round_number + 1, limit=more, newest=False))
        return found

    def newest_asks(self, limit: int) -> list[LocatedEvent[Ask]]:
        """List the newest `limit` decisions, in order."""
        found: list[LocatedEvent[Ask]] = []
        for epoch in reversed(self.paths):
            more = limit - len(found)
            if more and self._rounds.get(epoch, (0, 2**62))[1] >= 0:
                found = self._find(epoch, partial(_asks, low=0, limit=more, newest=True)) + found
        return found

    def alarms(self) -> list[dict[str, Any]]:
        """Return the newest alarms, oldest first, with the time at which they were cleared."""
        alarms: list[dict[str, Any]] = []
        for note in self._newest_notes(ALARMS):
            if note.what == AlarmRaised.NOTE:
                alarms.append({"at": note.at, **note.says, "cleared_at": None, "acknowledged": None})
            elif note.what == AlarmAcknowledged.NOTE:
                seen = {"at": note.at, "by": note.by, "remark": note.says["remark"]}
                for alarm in alarms:
                    if (alarm["kind"], alarm["at"]) == (note.says["kind"], note.says["raised"]):
                        alarm["acknowledged"] = seen
            else:
                for alarm in alarms:
                    if alarm["kind"] == note.says["kind"] and alarm["cleared_at"] is None:
                        alarm["cleared_at"] = note.at
        return alarms

    def changes(self) -> list[dict[str, Any]]:
        """Return what operators changed lately, oldest first: when, in which epoch, what, and who."""
        return [
            {"at": note.at, "epoch": note.epoch, "what": note.what, "by": note.by, "to": self._in_words(note)}
            for note in self._newest_notes(CHANGES)
        ]

    def _in_words(self, note: NoteRow) -> dict[str, Any]:
        """Return what a note says, with the settings in it as people called them then."""
        says = dict(note.says)
        if note.what == OverrideSet.NOTE:
            says["setting"] = self._name(note.epoch, says["action"])
        if note.what == SettingsChanged.NOTE and says["changes"].get("fallback") is not None:
            says["changes"] = says["changes"] | {"fallback": self._name(note.epoch, says["changes"]["fallback"])}
        return says

    def _name(self, epoch: int, action: int | None) -> Any:
        if action is None:
            return None
        if epoch not in self._problems:
            self._problems[epoch] = epochs.recorded_problem(self.paths[epoch])
        return plain_value(self._problems[epoch].value(action))

    def history(self) -> list[Any] | None:
        """Return the measurements that the controller started from."""
        if 1 not in self.paths:
            raise InvalidInput("the history is in epoch 1, which was archived; bring back its file to read it")
        created = self._find(1, lambda log: log.find("note", ControllerCreated.NOTE))[0].event.body
        assert isinstance(created, ControllerCreated)
        return created.history

    def actions_of_people(self, epoch: int, kinds: Sequence[type[Note]], most: int) -> list[LocatedEvent[Body]]:
        """Return notes of some kinds, retractions and episodes of an epoch in order; of each kind the newest `most`."""
        found: list[LocatedEvent[Body]] = []
        for kind in kinds:
            found += self._noted(epoch, kind, most)
        found += self._retractions_of(epoch)
        episodes: list[LocatedEvent[Episode]] = self._find(epoch, partial(_episodes, limit=most))
        found += episodes
        return sorted(found, key=lambda located: located.event.number)

    def _noted(self, epoch: int, kind: type[Note], most: int) -> list[LocatedEvent[Note]]:
        return self._find(epoch, lambda log: log.find("note", kind.NOTE, limit=most, newest=True))

    def beginning(self, epoch: int) -> Settings:
        """Return the settings with which an epoch began; they never change, and reading them may take long."""
        if epoch not in self._beginnings:
            for kind in (ControllerCreated, EpochBegun):
                for located in self._noted(epoch, kind, 1):
                    assert isinstance(located.event.body, ControllerCreated | EpochBegun)
                    self._beginnings[epoch] = located.event.body.config
        return self._beginnings[epoch]

    def _newest_notes(self, kinds: Sequence[type[CausedNote]]) -> list[NoteRow]:
        """Return the newest notes of some kinds, oldest first."""
        notes: list[NoteRow] = []
        for epoch in reversed(self.paths):
            if len(notes) < LATEST:
                notes = sorted(row for kind in kinds for row in self._notes_of(epoch, kind.NOTE)) + notes
        return notes

    def _notes_of(self, epoch: int, what: str) -> list[NoteRow]:
        known = self._notes.get((epoch, what))
        if known is not None:
            return known
        found = self._find(epoch, lambda log: log.find("note", what, limit=LATEST, newest=True))
        notes = [_note_row(epoch, located.event) for located in found]
        if epoch != self.newest:
            self._notes[epoch, what] = notes
        return notes

    def _may_hold(self, epoch: int, key: str) -> bool:
        """Return whether an epoch that is over may hold a key, without opening it each time."""
        if epoch not in self._keys:
            with self._lock:
                log = self._log(epoch)
                hashes = () if log is None else (hash(key) for key in log.used_keys())
                self._keys[epoch] = np.sort(np.fromiter(hashes, dtype=np.int64))
        hashes_there = self._keys[epoch]
        place = int(np.searchsorted(hashes_there, hash(key)))
        return place < len(hashes_there) and int(hashes_there[place]) == hash(key)

    def _find(self, epoch: int, look: Callable[[Log], list[Event[BodyKind]]]) -> list[LocatedEvent[BodyKind]]:
        with self._lock:
            log = self._log(epoch)
            events = [] if log is None else look(log)
        return [LocatedEvent(epoch, event) for event in events]

    def _log(self, epoch: int) -> Log | None:
        """Return an open record, whoever has the lock; None if it was archived meanwhile."""
        assert self._present is not None
        if epoch == number_of(self._present.path):
            return self._present
        if epoch not in self._open:
            if not self.paths[epoch].exists():
                return None
            self._open[epoch] = Log.read(self.paths[epoch], checked=False)
            if len(self._open) > OPEN_EPOCHS:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(epoch)
        return self._open[epoch]


def rounds_of(log: Log) -> tuple[int, int]:
    """Return the first and last round asked in a record, where they are numbered without a gap; (0, -1) if none was."""
    first, last = (_asks(log, 0, 1, newest=newest) for newest in (False, True))
    return (first[0].body.round, last[0].body.round) if first else (0, -1)


def _asks(log: Log, low: int, limit: int, *, newest: bool) -> list[Event[Ask]]:
    return log.find("round", low, 2**62, limit=limit, newest=newest)


def _episodes(log: Log, limit: int) -> list[Event[Episode]]:
    return log.find("episode", 0, 2**62, limit=limit, newest=True)


def _note_row(epoch: int, event: Event[Note]) -> NoteRow:
    """Return a note for a listing; of the settings and the history that begin an epoch, nothing is listed."""
    note = event.body
    assert isinstance(note, Caused)
    by = None if note.extra is None or note.extra.by is None else plain(note.extra.by)
    says = {} if isinstance(note, ControllerCreated | EpochBegun) else shallow(replace(note, extra=None))
    return NoteRow(event.number, event.at, epoch, note.NOTE, by, {k: v for k, v in says.items() if k != "note"})


def remembers(controller: Operation, decision: str) -> bool:
    """Say whether a decision is in memory, so that nothing need be rebuilt."""
    with suppress(HoldcourseError):
        return controller.entry(decision) is not None
    return False


def entry(controller: Operation, records: Records, located: LocatedEvent[Ask]) -> tuple[Entry, Problem]:
    """Return a decision with all that explains it, and the problem of its epoch."""
    policy = controller.session.policy
    current = located.epoch == records.newest
    if current:
        with suppress(HoldcourseError):  # it may no longer be in memory
            return controller.entry(located.event.body.id), policy.problem
    log = Log.read(records.path(located.epoch), checked=False)
    try:
        policy = policy if current else epochs.recorded_policy(log)
        return audit.rebuilt(log, policy, located.event), policy.problem
    finally:
        log.close()


def answer(controller: Operation, records: Records, located: LocatedEvent[Ask]) -> dict[str, Any]:
    """Return what was answered to a question."""
    decision = entry(controller, records, located)[0].decision
    return decision_answer(located.epoch, located.event, decision.probabilities.tolist())


def pending_answer(controller: Operation, records: Records, asked: PendingDecision) -> dict[str, Any]:
    """Return a pending decision, in the numbers of the present epoch."""
    if asked.earlier:
        return carried_answer(records.newest, asked)
    located = records.asked(asked.round)
    assert located is not None
    return answer(controller, records, located)


def renumbered(records: Records, action: int | None, epoch: int | None, into: int) -> int | None:
    """Return an action in the numbers of epoch `into`, given in those of `epoch`."""
    if epoch is not None and epoch != into:
        records.path(epoch)
    if action is None or epoch is None or epoch == into:
        return action
    given = epochs.recorded_problem(records.path(epoch))
    given.check_action(action)
    return epochs.nearest_actions(given, epochs.recorded_problem(records.path(into)))[action]


def row(
    epoch: int,
    asked: Event[Ask],
    told: Event[Tell | Learn] | None,
    retracted: Event[Retract] | None,
    excess: float,
    weight: float | None = None,
) -> dict[str, Any]:
    """Return a round as it is listed; `excess` is what was counted in its sum and has been taken back since.

    `weight` is what the model makes of the measurement, where that has changed since it was told.
    """
    answer = decision_answer(epoch, asked, None)
    for field in ("probabilities", "act", "reason"):
        del answer[field]
    answer["in_charge"] = in_charge(asked.body, told)
    question, booked = asked.body.extra, None if told is None else told.body.extra
    assert question is not None  # the service writes it with every decision
    measurement = None if told is None else told.body.measurement
    return answer | {
        "context": asked.body.request.context,
        "applied": None if booked is None else booked.applied_value,
        "applied_index": None if booked is None else booked.taken,
        "service": None if booked is None or retracted is not None else booked.service,
        "movement": None if booked is None else booked.movement,
        "cumulative_service": None if booked is None else _less(booked.cumulative_service, excess),
        "cumulative_movement": None if booked is None else booked.cumulative_movement,
        "measurement": None if retracted is not None else measurement,
        "weight": None if retracted is not None else _weight(told, weight),
        "retracted": None if retracted is None else {"measurement": measurement, **_said_of(retracted)},
        "told_at": None if told is None else told.at,
        "key": question.key,
        "asked_by": None if question.by is None else plain(question.by),
        "told_by": None if booked is None or booked.by is None else plain(booked.by),
    }


def in_charge(asked: Ask, told: Event[Tell | Learn] | None) -> str:
    """Return who decided what the machine did in a round, as far as anybody said.

    ``operator`` is people: in modes that only watch, in their turns of a trial, and where they did something else than
    they were advised or the machine was told.
    """
    answered, booked = asked.extra, None if told is None else told.body.extra
    assert answered is not None  # the service writes it with every decision
    if booked is not None and booked.assumed == "fallback":
        return "fallback"
    if booked is not None and booked.taken != booked.default:
        return "operator"
    if answered.reason == "override":
        return "override"
    if answered.mode in ("observe", "shadow") or answered.reason == "trial":
        return "operator"
    if answered.limited_by is not None:
        return "guard" if answered.limited_by == "cool_down" else "limit"
    if asked.turn is not None and asked.turn.arm == BASELINE:
        return "baseline"
    return "policy"


def _weight(told: Event[Tell | Learn] | None, now: float | None) -> float | None:
    """What the model makes of a measurement; None where there is none."""
    if told is None or told.body.measurement is None or now is not None:
        return now
    then = None if told.body.extra is None else told.body.extra.weight
    return 1.0 if then is None else then


def _less(total: float, excess: float) -> float | None:
    """A sum without a part of it; None where that part was so large that the rest of the sum was lost in it."""
    return None if abs(excess) > LOST_IN * abs(total - excess) else total - excess


def _said_of(retracted: Event[Retract]) -> dict[str, Any]:
    cause = retracted.body.extra
    by = None if cause is None or cause.by is None else plain(cause.by)
    return {"reason": retracted.body.reason, "at": retracted.at, "by": by}


def retract_answer(retracted: Event[Retract], told: Event[Tell | Learn]) -> dict[str, Any]:
    """What the client was answered, from the events of its retraction and of the tell."""
    return {"decision": told.body.id, "measurement": told.body.measurement, **_said_of(retracted)}


def tell_answer(told: Event[Tell | Learn]) -> dict[str, Any]:
    """Return what the client was answered, from the event of its tell."""
    body, booked = told.body, told.body.extra
    assert booked is not None  # the service writes it with every tell
    return {
        "decision": body.id,
        "told": {
            "measurement": body.measurement,
            "applied": booked.applied_value,
            "applied_index": booked.taken,
        },
        "assumed": booked.assumed,
        "alarms": [{**vars(alarm), "at": told.at, "cleared_at": None} for alarm in booked.raised],
    }
