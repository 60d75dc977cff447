"""The contents of a record: every kind of event and note, how it is written and how it is read.

A record is a chain of events; this module says what each kind contains. `written` returns the JSON text of an event,
with sorted keys, and `read` reads it; nothing else writes or reads that text. An unknown field, a missing field and an
unknown kind are errors, because a record is never read by guessing. The page ``docs/record-format.md`` describes the
format for people who read records without this library.

An event changes the state of a session (`Ask`, `Tell`, `Learn`, `Retract`, `Episode`, `Redirect`, `Change`) or of a
fleet (`FleetAsk`, `FleetTell`), says that the state was kept (`Snapshot`), or is a note about what happened around the
decisions. The service writes most notes, and everything called ``extra``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from types import NoneType
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from holdcourse.deciding.rules import Turn
from holdcourse.errors import LogError
from holdcourse.running.decision import Order, Request
from holdcourse.running.limits import Guard, Limits

FORMAT = 9  # of a record

Made = TypeVar("Made")

NOTE_KIND = "note"  # the kind of all notes ...
NOTE_FIELD = "note"  # ... and where each says which note it is
SHOWN = 80  # characters of a value in an error
LEFT_OUT = {"left_out": True}  # a field that is not written while it has its default


# -- what a record says about itself -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Members:
    """Of a fleet: how many members it has; their seeds and starts where these do not follow from those of the first.

    Without them member k has the seed of the first one and k, and all start where the first one does.
    """

    count: int
    seeds: list[int] | None
    starts: list[int] | None


@dataclass(frozen=True)
class Identity:
    """Whose record it is: what does not change while a controller lives. `policy` is the policy's fingerprint.

    In the record of a fleet `start` and `seed` are those of the first of its `members`.
    """

    policy: str
    policy_name: str
    start: int
    seed: int
    limits: Limits
    guard: Guard | None
    max_pending: int
    members: Members | None = field(default=None, kw_only=True, metadata=LEFT_OUT)


@dataclass(frozen=True)
class Previous:
    """The record that this one continues: its file, how many events it holds, and the hash of the last."""

    file: str
    events: int
    chain: str


@dataclass(frozen=True)
class About:
    """What a record says about itself before its first event.

    Attributes
    ----------
    format
        The number of the format.
    record
        The record's own name.
    versions
        Of the parts that wrote it.
    snapshot
        Hash of the state at its beginning.
    identity
        Whose record it is.
    recipe, recipe_missing
        How to make its policy again; None with the reason where only Python can.
    previous
        The record that it continues, if there is one.
    evidence
        Where its policy comes from and what a backtest said of it, where its file says so; see `Evidence`.
    """

    format: int
    record: str
    versions: dict[str, str]
    snapshot: str
    identity: Identity
    recipe: dict[str, Any] | None
    recipe_missing: str | None = field(default=None, kw_only=True, metadata=LEFT_OUT)
    previous: Previous | None = field(default=None, kw_only=True, metadata=LEFT_OUT)
    evidence: dict[str, Any] | None = field(default=None, kw_only=True, metadata=LEFT_OUT)


# -- parts of events ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Author:
    """Whose token it was; `token` is its id, None if none is needed."""

    token: str | None
    name: str


@dataclass(frozen=True)
class Cause:
    """Who caused an event, and the key under which a client asked for it."""

    key: str | None = field(default=None, kw_only=True, metadata=LEFT_OUT)
    by: Author | None = field(default=None, kw_only=True, metadata=LEFT_OUT)


@dataclass(frozen=True)
class AskDetails(Cause):
    """What the service answered to a question, and what it needs in order to book the tell."""

    mode: str
    act: bool
    action: int
    value: Any
    proposed_value: Any
    reason: str | None
    limited_by: str | None
    forced: str | None
    expected: float | None
    expected_measurement: float | None
    before: int
    proposed_before: int
    episode: int


@dataclass(frozen=True)
class PendingDecision(AskDetails):
    """A decision that waits for its measurement, with its question; `earlier`: of an epoch before the present one.

    `fallback` is where the machine was sent in its round because it was late, if another one was asked since.
    """

    round: int
    proposed: int
    at: str
    context: Any
    fallback: Order | None = field(default=None, kw_only=True, metadata=LEFT_OUT)
    earlier: bool = field(default=False, kw_only=True, metadata=LEFT_OUT)


@dataclass(frozen=True)
class AlarmText:
    """An alarm: its kind, and what somebody should look at."""

    kind: str
    message: str


@dataclass(frozen=True)
class Acknowledgement:
    """Who has seen an alarm, when, and what they said of it."""

    at: str
    by: Author | None
    remark: str


@dataclass(frozen=True)
class OpenAlarm:
    """An alarm that is not over, since when, and who has seen it."""

    at: str
    kind: str
    message: str
    acknowledged: Acknowledgement | None = field(default=None, kw_only=True, metadata=LEFT_OUT)


@dataclass(frozen=True)
class Reweighed:
    """What a model makes of an earlier measurement from here on.

    Attributes
    ----------
    decision
        Whose measurement it is.
    weight
        0 where it is set aside by now, 1 where it is believed after all.
    change
        What the sum of service costs changes by: where it is set aside, what the model expects takes its place.
    """

    decision: str
    weight: float
    change: float


@dataclass(frozen=True)
class Alternative:
    """What a round would have cost at another action, as the model estimates it, and what moving there would have.

    `std` is the model's own deviation of the difference to what ran; 0 where the other action is what ran.
    """

    cost: float
    std: float
    movement: float


@dataclass(frozen=True)
class TellDetails(Cause):
    """What the service booked for a round: the action that ran, costs, estimates of alternatives and alarms.

    `residual` is by how much the round cost more than was expected; `weight` is what the model made of the measurement,
    where that is not to believe it; where it is 0, `service` is what the model expects in its place.
    """

    taken: int
    applied_value: Any
    default: int
    assumed: str | None
    service: float | None
    movement: float
    estimated_staying: Alternative | None
    estimated_fixed: Alternative | None
    estimated_proposal: Alternative | None
    residual: float | None
    cumulative_service: float
    cumulative_movement: float
    deviations: float | None
    raised: tuple[AlarmText, ...]
    weight: float | None = field(default=None, kw_only=True, metadata=LEFT_OUT)
    reweighed: tuple[Reweighed, ...] = field(default=(), kw_only=True, metadata=LEFT_OUT)


@dataclass(frozen=True)
class Units:
    """What the numbers are, for people who look at them; of contexts one unit each.

    `cost` is the unit of sums, where that is not what is measured.
    """

    action: str
    measurement: str
    contexts: list[str] | None = field(default=None, kw_only=True, metadata=LEFT_OUT)
    cost: str = field(default="", kw_only=True, metadata=LEFT_OUT)


@dataclass(frozen=True)
class PolicyOrigin:
    """The file that a controller's policy came from: whose, which, and what is known about it.

    Attributes
    ----------
    name, fingerprint
        Of the policy.
    sha256
        Of the file.
    evidence
        Where the policy comes from and what a backtest said of it; null where the file does not say.
    """

    name: str
    fingerprint: str
    sha256: str
    evidence: dict[str, Any] | None


@dataclass(frozen=True)
class TrialTerms:
    """A trial: the length of its blocks in rounds, how many there are, and what the policy is compared with.

    That is people where `operators` says so, an action, another policy with default options, or staying. `heard` is the
    share of the other arm's rounds from which an arm learns.
    """

    block: int
    blocks: int | None
    heard: float
    operators: bool
    baseline_index: int | None
    baseline_policy: str | None


@dataclass(frozen=True)
class Settings:
    """The settings of a controller of the service, without its history; of that the length and a fingerprint.

    `options` are those of the policy, by the names of its parameters; None, or left out: not given. What others than
    the policy must know of them is said here. Where the policy came from a `file`, that says all others. `zone` is the
    plant's time zone, for people who look at it; empty: UTC.
    """

    id: str
    name: str
    actions: Any
    labels: list[str] | None
    metric: Any
    scale: Any
    fixed_cost: Any
    directed: bool
    rho: float
    policy: str
    options: dict[str, Any]
    limits: Limits
    guard: Guard | None
    max_pending: int
    deadline_s: float | None
    fallback: int | None
    units: Units
    start: int
    seed: int
    mode: str
    history_count: int
    history_sha256: str | None
    file: PolicyOrigin | None = field(default=None, kw_only=True, metadata=LEFT_OUT)
    context_names: list[str] | None = field(default=None, kw_only=True, metadata=LEFT_OUT)
    trial: TrialTerms | None = field(default=None, kw_only=True, metadata=LEFT_OUT)
    zone: str = field(default="", kw_only=True, metadata=LEFT_OUT)

    @property
    def maximise(self) -> bool:
        """Say whether measurements are gains."""
        return bool(self.options.get("maximise"))

    @property
    def kept_action(self) -> int | None:
        """The action that the policy keeps to, where that is an option."""
        action: int | None = self.options.get("setting_index")
        return action

    @property
    def baseline(self) -> int | None:
        """The action that the policy is promised against, where that was given."""
        baseline: int | None = self.options.get("baseline_index")
        return baseline

    @property
    def kernel(self) -> str | None:
        """The kernel given, as `Kernel.to_json` wrote it."""
        kernel: str | None = self.options.get("kernel")
        return kernel

    def with_kept_action(self, action: int) -> Settings:
        """Return the settings of a policy that keeps to another action."""
        return replace(self, options=self.options | {"setting_index": action})

    def with_baseline(self, action: int) -> Settings:
        """Return the settings of a policy that is promised against another action."""
        return replace(self, options=self.options | {"baseline_index": action})

    def options_for_another_policy(self) -> dict[str, Any]:
        """The options after a change of policy: another one takes others, but what is measured stays the same."""
        return dict.fromkeys(self.options) | {"maximise": self.options.get("maximise")}


@dataclass(frozen=True)
class Override:
    """Where an operator holds the machine, since when, why, and who; `force`: whatever the limits say."""

    action: int
    reason: str
    force: bool
    since: str
    by: Author | None


@dataclass(frozen=True)
class Surprises:
    """How far measurements were from what the model expected.

    Attributes
    ----------
    count
        Measurements of which something was expected.
    open, means
        Deviations added up over 1, 2, 4, ... 64 of them: the sums that are not complete, and of those that are the mean
        square, each divided by its length. All are 1 where the model is right and errors do not last.
    square
        Mean square of the errors, in units of cost.
    """

    count: int
    open: tuple[float, ...]
    means: tuple[float, ...]
    square: float


@dataclass(frozen=True)
class Suspect:
    """A measurement far from what was expected that the model has learned all the same; `action` is what ran."""

    decision: str
    action: int


@dataclass(frozen=True)
class AlarmWindow:
    """What the alarms, and the check of the model, remember of the measurements.

    Attributes
    ----------
    beyond
        Whether each of the newest measurements was outside the predicted band, newest last.
    value, repeats
        The newest measurement, and how often it came in a row.
    surprises, suspect
        How far measurements were from what was expected, and the one that is under suspicion; None: none.
    history_off
        How far off the model is about the history that it began with; see `ControllerCreated`.
    """

    beyond: tuple[bool, ...] = ()
    value: float | None = None
    repeats: int = 0
    surprises: Surprises | None = None
    suspect: Suspect | None = None
    history_off: float | None = None


@dataclass(frozen=True)
class Comparison:
    """What was saved against an alternative, as the model estimates it, in the rounds in which it can say so.

    Attributes
    ----------
    saved, doubt
        The estimate, and the model's own deviations of it, added up.
    rounds, estimated
        Rounds compared, and of these the measured ones in which something else than the alternative ran.
    readings
        Measured rounds in which the alternative itself ran.
    """

    saved: float = 0.0
    doubt: float = 0.0
    rounds: int = 0
    estimated: int = 0
    readings: int = 0


@dataclass(frozen=True)
class Sums:
    """Costs so far, in units of what is measured.

    Estimated are: what was done against staying and against the best fixed action, and what was proposed against what
    was done; None before there is a round of which the model can say so. `told` counts the tells with a measurement.
    """

    service: float = 0.0
    movement: float = 0.0
    estimated_staying: Comparison | None = None
    estimated_fixed: Comparison | None = None
    estimated_proposals: Comparison | None = None
    told: int = 0
    asks: int = 0
    tells: int = 0
    alarms: int = 0


@dataclass(frozen=True)
class RetractDetails(Cause):
    """What the service has booked without a measurement that was taken back; left out where an epoch begins with it."""

    sums: Sums | None = field(default=None, kw_only=True, metadata=LEFT_OUT)
    watched: AlarmWindow | None = field(default=None, kw_only=True, metadata=LEFT_OUT)


@dataclass(frozen=True)
class Carried:
    """What an epoch goes on with: the ledger at the end of the one before it, in the numbers of the new actions."""

    mode: str
    override: Override | None
    is_obeyed: bool
    newest: str | None
    proposed_place: int
    history: tuple[int, ...]
    pending: dict[str, PendingDecision]
    stale: list[str]
    fallback: Order | None
    alarms: dict[str, OpenAlarm]
    fresh_episode: int | None
    forced_start: str | None
    last_at: str | None
    watched: AlarmWindow
    sums: Sums


# -- events ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ask:
    """A decision: the question, enough of the answer to recognise it to the last bit; in a trial, whose turn it is."""

    KIND: ClassVar[str] = "ask"

    round: int
    request: Request
    wanted: int
    action: int
    limited_by: str | None
    expected_cost: float
    probabilities: str
    turn: Turn | None = field(default=None, kw_only=True, metadata=LEFT_OUT)
    order: Order | None = field(default=None, kw_only=True, metadata=LEFT_OUT)
    extra: AskDetails | None = field(default=None, kw_only=True, metadata=LEFT_OUT)

    @property
    def meant(self) -> int:
        """The action that runs unless somebody says otherwise."""
        return self.action if self.order is None else self.order.action

    @property
    def id(self) -> str:
        """Return the name of the decision."""
        return f"r{self.round}"


@dataclass(frozen=True)
class Tell:
    """What was measured in a round, if anything, and the action that ran if it was not the one meant.

    `also` is what was measured at other actions in the same round: pairs of an action and a number; `reference` is a
    signal that no decision touches.
    """

    KIND: ClassVar[str] = "tell"

    id: str
    measurement: float | None
    applied: int | None
    also: list[Any] | None = field(default=None, kw_only=True, metadata=LEFT_OUT)
    reference: float | None = field(default=None, kw_only=True, metadata=LEFT_OUT)
    extra: TellDetails | None = field(default=None, kw_only=True, metadata=LEFT_OUT)


@dataclass(frozen=True)
class Learn:
    """What was told of a decision of an earlier record; `place` is where the machine is, if that changed.

    `also` and `reference` are as in `Tell`, in the actions of this record. `turn` is that of the decision, where it
    belongs to the trial that goes on here: an arm may keep to itself what it measured.
    """

    KIND: ClassVar[str] = "learn"

    id: str
    action: int
    context: Any
    measurement: float | None
    place: int | None
    also: list[Any] | None = field(default=None, kw_only=True, metadata=LEFT_OUT)
    reference: float | None = field(default=None, kw_only=True, metadata=LEFT_OUT)
    turn: Turn | None = field(default=None, kw_only=True, metadata=LEFT_OUT)
    extra: TellDetails | None = field(default=None, kw_only=True, metadata=LEFT_OUT)


@dataclass(frozen=True)
class Retract:
    """What was measured in a round is taken back: from here on it does not count.

    `event` is the number of the event that told it; None where an earlier record holds that.
    """

    KIND: ClassVar[str] = "retract"

    id: str
    event: int | None
    reason: str
    extra: RetractDetails | None = field(default=None, kw_only=True, metadata=LEFT_OUT)


@dataclass(frozen=True)
class Episode:
    """A new episode begins at `start`; `force` is the reason where that is beyond the limits."""

    KIND: ClassVar[str] = "episode"

    start: int
    force: str | None
    extra: Cause | None = field(default=None, kw_only=True, metadata=LEFT_OUT)


@dataclass(frozen=True)
class Redirect:
    """The machine is sent elsewhere within a round."""

    KIND: ClassVar[str] = "redirect"

    round: int
    order: Order


@dataclass(frozen=True)
class Change:
    """Other limits, another guard or other prices of moving from here on; what was learned stays.

    `identity` is whose record it is from here on; `problem` describes the problem where moving has other prices, and is
    null where it stays the same.
    """

    KIND: ClassVar[str] = "change"

    identity: Identity
    problem: dict[str, Any] | None


@dataclass(frozen=True)
class FleetAsk:
    """Decisions of members of a fleet: the question, and enough of the answer to recognise it to the last bit.

    What there is one of for each member asked stands in their order; contexts and what is allowed are given once where
    they are the same for all of them.
    """

    KIND: ClassVar[str] = "fleet_ask"

    call: int
    members: list[int] | None
    contexts: list[list[float]]
    allowed: list[str] | None
    actions: list[int]
    probabilities: str
    expected_costs: str
    extra: Cause | None = field(default=None, kw_only=True, metadata=LEFT_OUT)


@dataclass(frozen=True)
class FleetTell:
    """What members of a fleet measured, in their order; null where nothing was."""

    KIND: ClassVar[str] = "fleet_tell"

    members: list[int] | None
    measurements: list[float | None]
    extra: Cause | None = field(default=None, kw_only=True, metadata=LEFT_OUT)


@dataclass(frozen=True)
class Snapshot:
    """The state after event `follows` was kept; `sha256` is the hash of what was kept."""

    KIND: ClassVar[str] = "snapshot"

    follows: int
    sha256: str


# -- notes -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RecordAccepted:
    """The record was taken as it was although events were missing: how many, where that is known, and why."""

    KIND: ClassVar[str] = NOTE_KIND
    NOTE: ClassVar[str] = "accepted"

    missing: int | None
    reason: str


@dataclass(frozen=True)
class Caused:
    """A note that may say who caused it."""

    KIND: ClassVar[str] = NOTE_KIND

    extra: Cause | None = field(default=None, kw_only=True, metadata=LEFT_OUT)


@dataclass(frozen=True)
class ControllerCreated(Caused):
    """The first note of a controller: its settings, and the measurements that it starts from.

    `history_off` is how far off the model, which has learned these, is about them: in deviations, root of the mean
    square; None if there are none, or where it cannot say.
    """

    NOTE: ClassVar[str] = "created"

    config: Settings
    history: list[Any] | None
    start: int
    home: int
    fixed: int | None
    explanation: str
    history_off: float | None


@dataclass(frozen=True)
class FleetCreated(Caused):
    """The first note of a fleet of the service: the settings that all members have, and what the policy says."""

    NOTE: ClassVar[str] = "fleet"

    config: Settings
    explanation: str


@dataclass(frozen=True)
class EpochBegun(Caused):
    """The first note of a later epoch: its settings, what it goes on with, and why there is a new one."""

    NOTE: ClassVar[str] = "epoch"

    config: Settings
    start: int
    home: int
    fixed: int | None
    carried: Carried
    explanation: str
    reason: str = field(default="", kw_only=True, metadata=LEFT_OUT)


@dataclass(frozen=True)
class SettingsChanged(Caused):
    """Settings that no decision depends on have these new values."""

    NOTE: ClassVar[str] = "config"

    changes: dict[str, Any]
    reason: str = field(default="", kw_only=True, metadata=LEFT_OUT)


@dataclass(frozen=True)
class ChangeRequested(Caused):
    """The change that was asked for under a key."""

    NOTE: ClassVar[str] = "change"

    changes: dict[str, Any]


@dataclass(frozen=True)
class ModeSet(Caused):
    """How far the policy may go from now on."""

    NOTE: ClassVar[str] = "mode"

    mode: str
    reason: str


@dataclass(frozen=True)
class OverrideSet(Caused):
    """The machine is held at an action from now on, or handed back to the policy where `action` is None."""

    NOTE: ClassVar[str] = "override"

    action: int | None
    reason: str
    force: bool


@dataclass(frozen=True)
class AskRepeated(Caused):
    """A round that was decided before was asked for under a new key."""

    NOTE: ClassVar[str] = "repeat"

    round: int


@dataclass(frozen=True)
class DecisionLate(Caused):
    """A decision was not told within its deadline."""

    NOTE: ClassVar[str] = "stale"

    decision: str


@dataclass(frozen=True)
class DecisionRecovered(Caused):
    """A decision that was late has been told."""

    NOTE: ClassVar[str] = "recovered"

    decision: str


@dataclass(frozen=True)
class AlarmRaised(Caused):
    """Something that somebody should look at."""

    NOTE: ClassVar[str] = "alarm"

    kind: str
    message: str


@dataclass(frozen=True)
class AlarmCleared(Caused):
    """An alarm is over."""

    NOTE: ClassVar[str] = "cleared"

    kind: str


@dataclass(frozen=True)
class AlarmAcknowledged(Caused):
    """Somebody has seen an open alarm: the one of this kind that was raised at `raised`. It stays open."""

    NOTE: ClassVar[str] = "acknowledged"

    kind: str
    raised: str
    remark: str


@dataclass(frozen=True)
class ControllerArchived(Caused):
    """The controller is put away: from here on it is only looked at, until it is brought back."""

    NOTE: ClassVar[str] = "archived"

    reason: str


@dataclass(frozen=True)
class ControllerRestored(Caused):
    """The controller is brought back."""

    NOTE: ClassVar[str] = "restored"

    reason: str


CausedNote: TypeAlias = (
    ControllerCreated
    | FleetCreated
    | EpochBegun
    | SettingsChanged
    | ChangeRequested
    | ModeSet
    | OverrideSet
    | AskRepeated
    | DecisionLate
    | DecisionRecovered
    | AlarmRaised
    | AlarmCleared
    | AlarmAcknowledged
    | ControllerArchived
    | ControllerRestored
)
Note: TypeAlias = RecordAccepted | CausedNote
Body: TypeAlias = Ask | Tell | Learn | Retract | Episode | Redirect | Change | FleetAsk | FleetTell | Snapshot | Note
BodyKind = TypeVar("BodyKind", bound=Body, covariant=True)

EVENTS: dict[str, type[Body]] = {
    kind.KIND: kind for kind in (Ask, Tell, Learn, Retract, Episode, Redirect, Change, FleetAsk, FleetTell, Snapshot)
}
NOTES: dict[str, type[Body]] = {note.NOTE: note for note in get_args(Note)}

Sought: TypeAlias = Literal["key", "round", "decision", "retracted", "episode", "note"]


def _place(*steps: tuple[Any, str]) -> str:
    """Where in the text of an event a field stands, in SQL; each step is a class and the name of one of its fields."""
    for kind, name in steps:
        if name not in kind.__dataclass_fields__:
            raise AttributeError(f"{kind.__name__} has no field {name!r}, by which events are found")
    return f"json_extract(body, '$.{'.'.join(name for _, name in steps)}')"


# What events are found by: where it stands, and which events have it. Records hold indexes of these very words.
SOUGHT: dict[Sought, tuple[str, str]] = {
    "key": (key := _place((Caused, "extra"), (Cause, "key")), f"{key} IS NOT NULL"),
    "round": (_place((Ask, "round")), f"kind = '{Ask.KIND}'"),
    "decision": (_place((Tell, "id")), f"kind IN ('{Tell.KIND}', '{Learn.KIND}')"),
    "retracted": (_place((Retract, "id")), f"kind = '{Retract.KIND}'"),
    "episode": (_place((Episode, "start")), f"kind = '{Episode.KIND}'"),
    "note": (f"json_extract(body, '$.{NOTE_FIELD}')", f"kind = '{NOTE_KIND}'"),
}


@dataclass(frozen=True)
class Event(Generic[BodyKind]):
    """One event of a record: its number from 1, the time when it was written, and its body."""

    number: int
    at: str
    body: BodyKind

    @property
    def kind(self) -> str:
        """Kind of the event."""
        return self.body.KIND


def digest(array: NDArray[Any]) -> str:
    """A short fingerprint of an array's bits, as an `Ask` holds it of its probabilities."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


# -- writing -----------------------------------------------------------------------------------------------------------


class _Expected(NamedTuple):
    """What a field holds in JSON: values of these types, read by `reader`, or as they are; and the same in words."""

    types: frozenset[type[Any]]
    reader: Callable[[Any, str], Any] | None
    words: str


class _Fields(NamedTuple):
    """How objects of a class are written and read: of which fields, and what each of them holds."""

    note: str | None
    left_out: dict[str, Any]  # the fields that are not written while they have this value
    needed: frozenset[str]
    expected: dict[str, _Expected]


_KNOWN: dict[type[Any], _Fields] = {}  # by class, once one of it was written or read


def _fields_of(kind: Any) -> _Fields:
    known = _KNOWN.get(kind)
    if known is None:
        known = _KNOWN[kind] = _found_fields(kind)
    return known


def _found_fields(kind: Any) -> _Fields:
    hints = get_type_hints(kind)
    own = fields(kind)
    left_out = {each.name: each.default for each in own if each.metadata.get("left_out")}
    return _Fields(
        getattr(kind, "NOTE", None),
        left_out,
        frozenset(each.name for each in own) - left_out.keys(),
        {each.name: _expected(hints[each.name]) for each in own},
    )


def shallow(part: Any) -> dict[str, Any]:
    """An event, or a part of one, as it is written, by field; parts of it are left as they are."""
    kind = type(part)
    if kind is Request:
        described: dict[str, Any] = part.describe()
        return described
    known = _KNOWN.get(kind)
    if known is None:
        if not is_dataclass(kind):
            raise TypeError(f"Object of type {kind.__name__} is not JSON serializable")
        known = _fields_of(kind)
    left_out = known.left_out
    values = {name: value for name, value in vars(part).items() if name not in left_out or value is not left_out[name]}
    if known.note is not None:
        values[NOTE_FIELD] = known.note
    return values


ENCODED = json.JSONEncoder(sort_keys=True, default=shallow).encode


def written(body: Body) -> str:
    """Return the JSON text of an event."""
    return ENCODED(shallow(body))


def plain(part: Any) -> Any:
    """Return an event, or a part of one, in JSON values."""
    return json.loads(ENCODED(part))


# -- reading -----------------------------------------------------------------------------------------------------------


class _Unexpected(Exception):  # noqa: N818 - never seen outside this module
    """A part of a field's value is of another type than it should be."""


def read(kind: str, text: str) -> Body:
    """Return the event of a kind from the JSON text that `written` returned."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LogError(f"{kind} is not JSON ({error}): {_short(text)}") from None
    if not isinstance(found, dict):
        raise LogError(f"an event must be an object of fields, got {text[:80]!r}")
    made: type[Body] | None = EVENTS.get(kind)
    if kind == NOTE_KIND:
        name = found.pop(NOTE_FIELD, None)
        made = NOTES.get(name) if isinstance(name, str) else None
        kind = f"{NOTE_KIND} {name!r}"
    if made is None:
        raise LogError(
            f"{kind} is not a kind of event that this version of holdcourse knows (format {FORMAT}); use the version "
            "that wrote it"
        )
    return from_plain(made, found, kind)


def from_plain(kind: type[Made], found: Mapping[str, Any], what: str) -> Made:
    """An object of a class from JSON values, as `plain` gave them; `what` names it in errors."""
    known = _fields_of(kind)
    if known.needed - found.keys():
        _refuse_unknown(found, known, what)
        raise LogError(f"{what} lacks the field {min(known.needed - found.keys())!r}")
    return kind(**_values(kind, known, found, what))


def _values(kind: Any, known: _Fields, found: Mapping[str, Any], what: str) -> dict[str, Any]:
    """The values of the fields of a class, each of the type that it should be."""
    if found.keys() - known.expected.keys():
        _refuse_unknown(found, known, what)
    values = {}
    for name, value in found.items():
        types, reader, words = known.expected[name]
        try:
            if type(value) not in types:
                raise _Unexpected
            values[name] = value if reader is None or value is None else reader(value, what)
        except _Unexpected:
            raise LogError(
                f"{what} has {_short(value)} in the field {name!r} of {kind.__name__}, which should be {words}"
            ) from None
    return values


def _refuse_unknown(found: Mapping[str, Any], known: _Fields, what: str) -> None:
    unknown = found.keys() - known.expected.keys()
    if unknown:
        raise LogError(f"{what} has the field {min(unknown)!r}, which is not known")


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."


def _expected(hint: Any) -> _Expected:
    """What a field of this type holds in JSON."""
    parts = get_args(hint)
    if hint in _SCALARS:
        types, words = _SCALARS[hint]
        return _Expected(types, None, words)
    if is_dataclass(hint):
        made: Any = hint
        read_part = _request if made is Request else lambda value, what: from_plain(made, value, what)
        return _Expected(frozenset({dict}), read_part, "an object of fields")
    if get_origin(hint) in (tuple, list, dict):
        return _expected_parts(get_origin(hint), _expected(parts[get_origin(hint) is dict]))
    given, none = parts  # what else there is may be null
    assert none is NoneType
    expected = _expected(given)
    return _Expected(expected.types | {NoneType}, expected.reader, f"{expected.words} or null")


def _expected_parts(container: Any, inner: _Expected) -> _Expected:
    """What a list, a tuple or an object by name holds, whose parts are as `inner` says."""

    def read_tuple(value: Any, what: str) -> Any:
        return tuple(_each(value, inner, what))

    def read_list(value: Any, what: str) -> Any:
        return _each(value, inner, what)

    def read_dict(value: Any, what: str) -> Any:
        return dict(zip(value, _each(list(value.values()), inner, what), strict=True))

    words = f"{'an object' if container is dict else 'a list'}, each part of it {inner.words}"
    if container is tuple:
        return _Expected(frozenset({list}), read_tuple, words)
    reader = read_dict if container is dict else read_list
    return _Expected(frozenset({container}), None if inner.types >= _ANYTHING else reader, words)


_ANYTHING: frozenset[type[Any]] = frozenset({dict, list, str, int, float, bool, NoneType})
_SCALARS: dict[Any, tuple[frozenset[type[Any]], str]] = {
    int: (frozenset({int}), "a whole number"),
    float: (frozenset({float, int}), "a number"),
    str: (frozenset({str}), "text"),
    bool: (frozenset({bool}), "true or false"),
    Any: (_ANYTHING, "any JSON value"),
}


def _each(values: list[Any], expected: _Expected, what: str) -> list[Any]:
    """The parts of a list or an object, each of the type that it should be."""
    types, reader, _ = expected
    if not types.issuperset(map(type, values)):
        raise _Unexpected
    return values if reader is None else [None if each is None else reader(each, what) for each in values]


def _request(value: Any, what: str) -> Request:
    """The request of an event, which leaves out what was not given."""
    return Request(**{"context": None, **_values(Request, _fields_of(Request), value, f"the request of {what}")})
