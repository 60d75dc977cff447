"""What the service answers: every answer as a model. Costs are in units of what is measured.

Where gains are measured, a cost is a gain with a minus, in every field that is called a cost (`service` is one). What
people read (the words of an explanation, the page) speaks of gains there.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from holdcourse.service.core.requests import Config, Context, Mode

Status: TypeAlias = Literal["new", "ok", "waiting", "stale", "silent", "broken", "held", "archived"]
InCharge: TypeAlias = Literal["policy", "limit", "guard", "override", "operator", "baseline", "fallback"]
Limit: TypeAlias = Literal["allowed", "max_step", "min_dwell", "max_moves", "cool_down"]
Value: TypeAlias = float | str | list[float] | dict[str, float | StrictBool | str]  # an action in the user's words
Reason: TypeAlias = Literal["override", "observe", "trial"]
Maximise = Annotated[bool, Field(description="Whether measurements are gains; costs are then negative gains.")]
Limited = Annotated[Limit | None, Field(description="The limit that prevented what was wanted; null: none did.")]
Forced = Annotated[str | None, Field(description="The reason given for going there whatever the limits say.")]
At = Annotated[str, Field(examples=["2026-03-01T12:00:00.000+00:00"], description="Time, in UTC.")]


class Answer(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Health(Answer):
    """Says that the process runs."""

    status: Literal["ok"]
    version: str


class TokenAnswer(Answer):
    """A token: its name, what it allows, and on which controllers (`*`: on all)."""

    name: str
    scopes: list[str]
    controllers: list[str]
    expires: At | None


class Readiness(Answer):
    """Whether every controller has been opened; `/controllers` names those that could not be, with a token."""

    status: Literal["ready", "opening", "full", "cut_off"]
    message: str
    controllers: int
    broken: int = Field(description="How many records could not be opened.")


class TurnAnswer(Answer):
    """Whose turn it is in a trial: blocks are counted from 0, two of them are a pair."""

    block: int
    arm: int = Field(description="0: the baseline's, 1: the policy's.")
    whose: Literal["baseline", "policy"]


class MeasuredGain(Answer):
    """A gain that was measured, with its 95 % intervals; null where there is none yet."""

    value: float | None
    low: float | None
    high: float | None
    always_low: float | None = Field(description="Lower end of the interval that is valid however often you look.")
    always_high: float | None


class GainLooks(Answer):
    """The gain and its interval after every pair of blocks."""

    value: list[float | None]
    low: list[float | None]
    high: list[float | None]
    always_low: list[float | None]
    always_high: list[float | None]


class CarryOver(Answer):
    """How much the gain changes where the first rounds of each block are left out."""

    rounds: int
    change: float | None
    low: float | None
    high: float | None


class MeasuredTrial(Answer):
    """What a trial has measured; costs are net of movement, and a gain above zero pays."""

    policy: str
    against: str
    unit: str
    over: bool = Field(description="Whether the trial has ended.")
    until: str | None = Field(description="When its last measured round was decided.")
    verdict: Literal["it pays", "it does not pay", "undecided", "too early"]
    words: list[str]
    pairs: int
    rounds: int = Field(description="Rounds of a block.")
    gain: MeasuredGain = Field(description="Per round, in the unit of costs.")
    percent: MeasuredGain = Field(description="In % of the baseline's bill.")
    looks: GainLooks
    looks_in_percent: GainLooks
    bill: float | None = Field(description="Net cost of the baseline per round.")
    carry_over: CarryOver | None
    further_pairs: float | None = Field(description="How many more pairs it takes to decide; null: no end is in sight.")
    lost: list[int] = Field(description="Rounds without a measurement: the baseline's, the policy's.")
    redirected: list[int] = Field(description="Rounds in which something else ran: the baseline's, the policy's.")
    left_out: list[int] = Field(
        description="Pairs without any measurement in one of the blocks: in the baseline's, in the policy's."
    )
    uneven: float | None = Field(
        description="How unevenly rounds were lost, in standard deviations; positive if the policy's blocks lost more."
    )
    outlying: int | None = Field(description="The pair that alone causes more than half of the scatter; null: none.")
    switching: float | None = Field(description="Cost per round of switching between the arms; on neither bill.")
    adjusted_by: list[str]
    began: list[str] = Field(description="When each pair of blocks began.")
    net: list[list[float]] = Field(description="Net cost per round of both blocks of every pair.")
    policy_first: list[bool]


class TrialInProgress(Answer):
    """How the policy and a baseline take turns."""

    block: int = Field(description="Rounds of a block.")
    blocks: int | None = Field(description="Number of blocks; null: until somebody ends the trial.")
    heard: float = Field(description="Share of the other arm's rounds from which an arm learns.")
    against: str


class TrialAnswer(Answer):
    """What the newest trial has measured, also after its end; null where none was made."""

    trial: MeasuredTrial | None


class DecisionAnswer(Answer):
    """What to do this round. `action` is what the machine is to do now, `proposed` what the policy would do."""

    decision: str = Field(description="Id of the decision, which the tell needs.")
    round: int = Field(description="Number of the round, counted from 0.")
    episode: int = Field(description="Number of the episode, counted from 0.")
    epoch: int = Field(description="Epoch whose numbering the actions use.")
    mode: Mode = Field(description="Who moves the machine: see the modes of a controller.")
    act: bool = Field(description="Whether the caller should move the machine to `action`.")
    action: int = Field(description="What the machine is to do now, by its index.")
    value: Value = Field(description="What the machine is to do now: the setting of `action`.")
    proposed: int | None = Field(description="What the policy would do, by its index; null in mode `observe`.")
    proposed_value: Value | None = Field(description="What the policy would do: the setting of `proposed`.")
    probabilities: list[float] | None = Field(
        description="How probable each setting was; null in mode `observe`, and for a decision of an earlier epoch."
    )
    expected_cost: float | None = Field(
        description="Service cost that the model expects at `action`; if gains are measured, the negative gain."
    )
    expected_measurement: float | None = Field(
        description="Measurement that the model expects at `action`; null if it does not learn."
    )
    reason: Reason | None
    limited_by: Limited
    forced: Forced
    turn: TurnAnswer | None = Field(description="Whose turn it is in a trial; null: there is no trial.")
    at: At


class Told(Answer):
    """What was told: the measurement, and the setting that ran."""

    measurement: float | None = Field(description="What was measured; null: nothing was.")
    applied: Value = Field(description="Setting that ran.")
    applied_index: int = Field(description="Its index.")


class Author(Answer):
    """The token that was used; without tokens, anybody on the machine."""

    token: str | None = Field(description="The token's id, as `holdcourse token list` shows it.")
    name: str


class Acknowledged(Answer):
    """Who has seen an alarm, when, and what they said of it."""

    at: At
    by: Author | None
    remark: str


class Alarm(Answer):
    """Something that somebody should look at."""

    at: At
    kind: Literal["stale", "silent", "clock", "calibration", "sensor", "reading", "notification"]
    message: str = Field(description="What is wrong and what to do, for people.")
    cleared_at: At | None
    acknowledged: Acknowledged | None = Field(None, description="Null: nobody has said that they saw it.")


class TellAnswer(Answer):
    """The tell is on disk; `alarms` are those that it raised."""

    decision: str
    told: Told
    assumed: Literal["answer", "fallback"] | None = Field(
        description="If the tell did not say which action ran: whether it is taken to be the one that was answered, "
        "or the fallback that the machine was sent to because the measurement was late."
    )
    alarms: list[Alarm]


class RetractAnswer(Answer):
    """The measurement was taken back: by whom, when and why."""

    decision: str
    measurement: float
    reason: str
    at: At
    by: Author | None


class OverrideState(Answer):
    """Since when the machine is held, why, and by whom."""

    setting: Value
    action: int = Field(description="Its index.")
    reason: str
    force: bool
    since: At
    by: Author | None


class Instruction(Answer):
    """What the machine should do now. Unless forced, it is permitted by the newest mask and the limits."""

    action: int
    value: Value
    reason: Literal["override", "fallback", "decision", "place"]
    limited_by: Limited
    forced: Forced


class UnitsAnswer(Answer):
    """The units of settings and measurements, and of the numbers of a context."""

    action: str
    measurement: str
    contexts: list[str] | None = None
    cost: str = Field("", description="Unit of sums, if it differs from that of the measurement.")


class PolicyOrigin(Answer):
    """The file that a policy came from."""

    name: str
    fingerprint: str
    sha256: str
    evidence: dict[str, Any] | None = Field(description="Origin of the policy, and the result of its backtest.")


class KnownPolicy(PolicyOrigin):
    """The file that a policy came from, and what is known about the policy in words."""

    words: list[str]


class Promise(Answer):
    """How the promise against the baseline stands, in units of what is measured; all by the model's estimates."""

    at_most: float = Field(description="Share of the baseline's bill by which it may be exceeded.")
    budget: float | None = Field(description="What may also be spent in advance; null: the share of some rounds.")
    against: str = Field(description="The baseline in words.")
    baseline: Value | None = Field(
        description="The setting at which the baseline stays; null: where it began, or the baseline is a policy."
    )
    baseline_index: int | None
    estimated_saved: float | None = Field(
        description="Saved compared with the baseline, including movement, as the model estimates it; negative if "
        "more was spent. Null while estimates are withheld."
    )
    estimated_doubt: float | None = Field(description="Uncertainty of `estimated_saved`.")
    allowed: float = Field(description="How much more than the baseline may be spent.")
    left: float = Field(
        description="What is left to risk: what is saved, less its uncertainty, plus what is allowed; while estimates "
        "are withheld, at most what is allowed."
    )
    estimated_baseline_bill: float | None = Field(
        description="What the baseline would have cost so far, by the model. Null while estimates are withheld."
    )


class GainEstimate(Answer):
    """A gain as the model estimates it, including movement; null, with the reason, while it is withheld."""

    gain: float | None
    low: float | None = Field(description="95 % interval, including the calibration error of the model.")
    high: float | None
    rounds: int = Field(description="Rounds in which the two could be compared.")
    withheld: str | None = Field(description="Why no estimate is shown; null: it is shown.")


class Estimate(Answer):
    """What the model estimates was gained. Only a trial measures the gain."""

    against_staying: GainEstimate | None = Field(
        description="What was done, compared with always staying at the start; null: no round can be compared."
    )
    against_fixed: GainEstimate | None = Field(
        description="What was done, compared with the best fixed setting of the history; null: there is no history."
    )
    had_it_acted: GainEstimate | None = Field(
        description="In modes observe and shadow, what its proposals would have gained, compared with what was done."
    )


class Calibration(Answer):
    """How well the model agrees with the measurements."""

    widening: float = Field(
        description="Factor by which its bands are widened, because readings fell "
        "outside more often than they should; 1: they did not."
    )
    set_aside: int = Field(description="Number of readings that are kept but ignored.")
    changes: int = Field(description="How often it forgot earlier readings, because the plant had changed.")


class ArchivedSince(Answer):
    """When a controller was archived, by whom, and why."""

    at: At
    by: Author | None
    reason: str


class State(Answer):
    """Everything about a controller at this moment."""

    id: str
    name: str
    mode: Mode
    status: Status
    round: int = Field(description="The next round to be decided.")
    episode: int
    epoch: int
    archived_epochs: list[int] = Field(description="Earlier epochs whose records are no longer in the data folder.")
    action: int = Field(description="Where the machine is.")
    value: Value
    pending: list[DecisionAnswer]
    override: OverrideState | None
    deadline_s: float | None
    fallback: Value | None
    fallback_index: int | None
    instruction: Instruction
    limits: dict[str, Any]
    limits_in_words: dict[str, str] = Field(description="Each limit in the user's units, by its name.")
    price_in_words: str = Field(description="What moving costs, in the user's units.")
    trial: TrialInProgress | None = Field(description="The trial that is running; null: none.")
    context_names: list[str] | None
    zone: str = Field(description="The plant's time zone.", examples=["Europe/Berlin"])
    archived: ArchivedSince | None = Field(description="Null: it is in use. Otherwise it can only be looked at.")
    alarms: list[Alarm]
    last_at: At | None
    policy: str
    explains_itself: str
    actions: list[Value]
    units: UnitsAnswer
    maximise: Maximise
    measurements_sum: float = Field(description="Sum of the measurements.")
    times: bool = Field(description="Whether contexts are times, in hours since 1970, UTC.")
    made: float | None = Field(
        description="Sum of the yield if something else is measured (energy, if wind is measured); otherwise null."
    )
    file: KnownPolicy | None = Field(description="Where the policy came from; null: it was made here.")
    service: float = Field(description="Sum of the service costs; if gains are measured, of the negative gains.")
    movement: float
    estimate: Estimate
    rounds_told: int
    promise: Promise | None = Field(description="Null: the policy makes no promise.")
    calibration: Calibration | None = Field(description="Null: the policy trusts every reading, or does not learn.")


class Summary(Answer):
    """A controller in the overview."""

    id: str
    name: str
    mode: Mode | None
    status: Status
    message: str | None = Field(description="Why it is broken.")
    round: int | None
    action: int | None
    value: Value | None
    last_at: At | None
    seconds_since: float | None
    units: UnitsAnswer | None
    maximise: Maximise | None
    trial: TrialInProgress | None
    measurements_sum: float | None
    service: float | None
    movement: float | None
    estimate: Estimate | None
    zone: str | None
    alarms: int
    unseen_alarms: int = Field(description="Open alarms that nobody has acknowledged.")


class Summaries(Answer):
    """The controllers that the token may see."""

    controllers: list[Summary]


class Retracted(Answer):
    """What was measured and does not count any more: by whom, when and why it was taken back."""

    measurement: float
    reason: str
    at: At
    by: Author | None


class Row(Answer):
    """A round in the listing; `applied` is the setting that ran, once told."""

    round: int
    decision: str
    episode: int
    epoch: int
    mode: Mode
    context: Context
    action: int
    value: Value
    proposed: int | None
    proposed_value: Value | None
    applied: Value | None
    applied_index: int | None
    measurement: float | None = Field(description="Measurement; null also if it was taken back.")
    retracted: Retracted | None = Field(description="Measurement that was taken back; null: none was.")
    weight: float | None = Field(
        description="Weight of the measurement in the model: 1, less if it was far off, 0 if it is set aside; "
        "null if there is none."
    )
    expected_cost: float | None
    expected_measurement: float | None
    limited_by: Limited
    forced: Forced
    turn: TurnAnswer | None
    in_charge: InCharge = Field(
        description="Who determined what the machine did: the policy; a limit or the guard that kept it from what was "
        "wanted; an override; people; the baseline of a trial; the fallback, because the measurement was late."
    )
    service: float | None = Field(description="For a measurement that is set aside, what the model expects instead.")
    movement: float | None
    cumulative_service: float | None = Field(
        description="Sum of the service costs up to here, without what was taken back since; null also if that was "
        "so large that the rest of the sum is lost in it."
    )
    cumulative_movement: float | None
    at: At
    told_at: At | None
    key: str | None
    asked_by: Author | None
    told_by: Author | None


class Rows(Answer):
    """Rounds in order; `more`: there are further ones beyond the end (or, without `after`, before the beginning)."""

    decisions: list[Row]
    more: bool


class Explanation(Answer):
    """Why a decision was taken. The lists of `data` have one entry per action; null: not allowed, or not known."""

    decision: str
    words: str
    data: dict[str, Any]


class ConfigAnswer(Config):
    """The settings in force; `history` only where it was asked for."""

    policy: str  # also one that only a file can bring
    history_count: int = Field(description="How many measurements it started from.")
    history_sha256: str | None
    file: PolicyOrigin | None = Field(None, description="Where the policy came from; null: it was made here.")


class ReadingsRead(Answer):
    """What was read of a table, to be confirmed."""

    rows: int
    settings: list[float | str] = Field(description="Settings that were tried.")
    newest: float | str = Field(description="The setting of the newest row.")
    context: list[str]
    units: dict[str, Any]
    notes: list[str] = Field(description="What was left out, sorted or assumed.")


class ReadingsAnswer(Answer):
    """What a plant's table holds; what may be meant by its columns is a guess for people to confirm."""

    label: str
    rows: int
    columns: list[dict[str, Any]]
    time: list[str]
    start: str | None
    end: str | None
    step_hours: float | None
    gaps: list[str]
    gap_count: int
    repeated: int
    ordered: bool | None
    settings: list[str] = Field(description="Columns that may be the setting, the likeliest first.")
    costs: list[str]
    contexts: list[str]
    remarks: list[str] = Field(description="What looks wrong.")
    notes: list[str]
    read: ReadingsRead | None = Field(None, description="What was read, if the columns are named.")


class CostField(Answer):
    """The learned cost of every action in some contexts."""

    contexts: list[list[float]]
    mean: list[list[float]]
    std: list[list[float]] | None
    values: list[Value]


class Alarms(Answer):
    """Alarms, the newest last; `cleared_at` is null while one is open."""

    alarms: list[Alarm]


class NotificationTarget(Answer):
    """Somebody who is told of alarms; `failing_s` is null while that works."""

    name: str
    waiting: int
    sent: int
    failed: int
    dropped: int
    failing_s: float | None
    error: str


class Silence(Answer):
    """Alarms that are silenced until a time; null means all controllers, or all kinds."""

    id: str
    until: str
    controller: str | None
    kind: str | None
    reason: str
    by: str


class Notifications(Answer):
    """Who is told of alarms, and what is silent."""

    targets: list[NotificationTarget]
    silences: list[Silence]


class Change(Answer):
    """What somebody changed."""

    at: At
    epoch: int
    what: Literal["created", "epoch", "config", "mode", "override"]
    to: dict[str, Any]
    by: Author | None


class ChangeList(Answer):
    """What operators changed, the newest last."""

    changes: list[Change]


class Deed(Answer):
    """What somebody did to a controller."""

    at: At
    epoch: int
    number: int = Field(description="Number of the event in the record of the epoch.")
    what: str
    by: Author | None = Field(description="Null: the service itself, or nobody was named.")
    reason: str
    words: str
    changed: dict[str, Any] = Field(
        description="For each setting that changed, its value before and after: `from` and `to`."
    )


class AuditTrail(Answer):
    """Who changed what, when and why; the newest first."""

    deeds: list[Deed]
    next: str | None = Field(description="Value of `before` for the next page; null: there is none.")


class JournalAnswer(Answer):
    """What happened to the service as a whole, the newest first: controllers deleted, tokens made and ended."""

    lines: list[dict[str, Any]]


class CheckedReading(Answer):
    """A reading, what a model expected of it that has not seen it, and the 95 % band."""

    measured: float | None
    predicted: float | None
    low: float | None
    high: float | None
    wrong: bool = Field(description="Whether it looks wrong.")


class ModelCheckAnswer(Answer):
    """How well the model predicts, and what the readings cannot tell."""

    enough: bool = Field(description="Whether there are enough readings to check it.")
    words: list[str]
    readings: int
    left_out: int = Field(description="Older readings that were not used.")
    explained: float | None = Field(description="Share of the variation that the model explains.")
    error: float | None = Field(description="Mean absolute error.")
    coverage: dict[str, float | None] = Field(
        description="Share of readings within each band, by the share that it should contain."
    )
    points: list[CheckedReading] = Field(description="Some of the readings, including all that look wrong.")


class FleetState(Answer):
    """What a fleet is, and how far it has come."""

    id: str
    name: str
    policy: str
    explanation: str
    count: int = Field(description="How many members there are.")
    seed: int
    settings: list[Value] = Field(description="By the index that an `action` is.")
    units: UnitsAnswer
    maximise: Maximise
    start: Value = Field(description="Where all members were before their first round.")
    price_in_words: str = Field(description="What moving costs, in the user's units.")
    context_names: list[str] | None
    next_call: int = Field(description="The number of the next ask.")
    decisions: int = Field(description="Number of decisions of all members.")
    rounds: list[int] = Field(description="The fewest and the most rounds that a member was asked for.")
    pending: int = Field(description="Members that wait for their measurement.")
    at: list[int] = Field(description="How many members are at each setting, by its index.")
    created_at: At
    last_at: At
    events: int
    head: str = Field(description="Hash of the last event: written down elsewhere, it shows a record that was changed.")


class FleetSums(Answer):
    """What all members of a fleet have measured and moved, as far as its record has been read for this."""

    measurements: int = Field(description="Number of measurements.")
    measurements_sum: float | None = Field(
        description="Sum of the measurements, with their own sign; null if they are not costs, such as wind speeds."
    )
    skipped: int = Field(description="Decisions of members that measured nothing.")
    moves: int
    movement: float = Field(description="What all moves cost.")
    seen: int = Field(description="Events that these sums include; ask again until it is `events`.")
    events: int


class FleetSummary(Answer):
    """A fleet in the overview."""

    id: str
    name: str
    status: Literal["ok", "opening", "broken"]
    message: str | None = Field(description="Why it is broken.")
    policy: str | None
    count: int | None
    next_call: int | None
    decisions: int | None
    pending: int | None
    last_at: At | None


class FleetList(Answer):
    """The fleets that the token may see."""

    fleets: list[FleetSummary]


class FleetMembers(Answer):
    """Every member of a fleet, one entry for each."""

    next_call: int
    action: list[int] = Field(description="Where it is, by index.")
    setting: list[Value]
    round: list[int] = Field(description="The number of its next round.")
    pending: list[bool] = Field(description="Whether it waits for its measurement.")
    call: list[int | None] = Field(description="The call in which it was asked last; null: in none.")


class FleetAnswer(Answer):
    """What the members are to do now, one entry for each; of the lists, those that were asked for."""

    call: int = Field(description="Number of this ask of the fleet; send it with the measurements.")
    setting: list[Value] | None = None
    action: list[int] | None = None
    probabilities: list[list[float] | None] | None = Field(
        None, description="Null for members not asked, and in an answer that is repeated after a restart."
    )
    expected_cost: list[float | None] | None = Field(None, description="Null if `probabilities` are.")


class FleetTold(Answer):
    """The measurements have been recorded."""

    call: int
    pending: int = Field(description="Members that wait for their measurement.")


class Deleted(Answer):
    """A controller, or a fleet, that is gone."""

    deleted: str
    name: str
    at: At


class Verification(Answer):
    """The result of checking the record."""

    ok: bool
    events: int
    epochs: int = Field(description="Records that follow each other; a fleet has one.")
    message: str


class Design(Answer):
    """A block length, and what a trial with it would be like; null: longer than a lifetime."""

    model_config = ConfigDict(extra="allow", frozen=True)

    block: int
    hours: float
    switching_percent: float
    weeks_for_target: float | None
    weeks_for_target_with_reference: float | None


class PlanAnswer(Answer):
    """How long a trial would take, as `holdcourse trial plan` says it."""

    block: int = Field(description="The best block length, in rounds.")
    baseline: Value = Field(description="The setting that the policy is compared with.")
    target_percent: float = Field(description="The gain to detect, in % of the baseline's bill.")
    expected_percent: float = Field(description="What the policy gains in the simulation.")
    bill: float
    rounds: int
    heard: float = Field(description="The share of the other arm's rounds from which an arm should learn.")
    learning_percent: float | None = Field(
        description="By how much the answer is off because the arms learn from each other's blocks, with that share."
    )
    learning_error_percent: float | None = Field(
        description="Standard error of `learning`, from the scatter of the rehearsals."
    )
    designs: list[Design]
    words: list[str]


class Problem(BaseModel):
    """What was wrong, and what to do; in a conflict both values."""

    model_config = ConfigDict(extra="allow")

    code: str
    message: str
    recorded: Any = None
    given: Any = None


class Refused(BaseModel):
    """Every answer that is no success."""

    error: Problem


class AskResult(Answer):
    """The answer to one of several questions: a decision, or an error."""

    controller: str
    status: int = Field(description="Status of this answer.")
    answer: DecisionAnswer | None
    error: dict[str, Any] | None = Field(description="Why it was refused, as `error` of a single request says it.")


class AskResults(Answer):
    """The answers to several questions, in their order."""

    results: list[AskResult]


class TellResult(Answer):
    """What came of one of several tells."""

    controller: str
    status: int = Field(description="Status of this answer.")
    answer: TellAnswer | None
    error: dict[str, Any] | None = Field(description="Why it was refused, as `error` of a single request says it.")


class TellResults(Answer):
    """What came of several tells, in their order."""

    results: list[TellResult]


class JobAnswer(Answer):
    """Long work in the background."""

    id: str
    address: str = Field(description="Address of the job: `GET` it again until `state` is done or failed.")
    kind: Literal["create", "verify", "plan"]
    controller: str = Field(description="Name of the controller, or of the fleet, that it is about.")
    state: Literal["waiting", "running", "done", "failed"]
    progress: float = Field(ge=0, le=1, description="How much of it is done.")
    words: str = Field(description="What is being done.")
    asked_at: At
    began_at: At | None
    ended_at: At | None
    by: Author | None
    status: int | None = Field(description="Status of the answer to the request; null until the job ends.")
    result: dict[str, Any] | None = Field(description="Body of the answer to the request; null in a list of jobs.")
    error: Problem | None = Field(description="Why it failed.")


class JobList(Answer):
    """The newest jobs, the newest last."""

    jobs: list[JobAnswer]
