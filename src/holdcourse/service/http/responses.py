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
Forced = Annotated[str | None, Field(description="Reason given for going there whatever the limits say; null: none.")]
At = Annotated[str, Field(examples=["2026-03-01T12:00:00.000+00:00"], description="Time, in UTC.")]


class Answer(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Health(Answer):
    """Says that the process runs."""

    status: Literal["ok"] = Field(description="Always `ok`: a process that does not run does not answer.")
    version: str = Field(description="Version of holdcourse.")


class TokenAnswer(Answer):
    """A token: its name, what it allows, and on which controllers (`*`: on all)."""

    name: str = Field(description="Name of the token.")
    scopes: list[str] = Field(description="What the token allows: `read`, and any of `ask`, `tell` and `admin`.")
    controllers: list[str] = Field(description="Ids of the controllers and fleets that it may see; `*`: all.")
    expires: At | None = Field(
        description="Time from which the token no longer counts, in UTC; null: it does not expire."
    )


class Readiness(Answer):
    """Whether every controller has been opened; `/controllers` names those that could not be, with a token."""

    status: Literal["ready", "opening", "full", "cut_off"] = Field(
        description="`ready`; `opening`: records are still being opened; `full`: the disk has no room; `cut_off`: "
        "the database does not answer."
    )
    message: str = Field(description="What is wrong, for people; empty: nothing.")
    controllers: int = Field(description="Number of controllers.")
    broken: int = Field(description="How many records cannot be used.")


class TurnAnswer(Answer):
    """Whose turn it is in a trial: blocks are counted from 0, two of them are a pair."""

    block: int = Field(description="Number of the block, counted from 0.")
    arm: int = Field(description="Whose turn it is, as a number: 0 is the baseline, 1 the policy.")
    whose: Literal["baseline", "policy"] = Field(description="Whose turn it is, as a word.")


class MeasuredGain(Answer):
    """A gain that was measured, with its 95 % intervals; null where there is none yet."""

    value: float | None = Field(description="Best estimate of the gain; null: nothing has been compared yet.")
    low: float | None = Field(
        description="Lower end of the interval for a single look that was planned beforehand; null: there is none yet."
    )
    high: float | None = Field(
        description="Upper end of the interval for a single planned look; null: there is none yet."
    )
    always_low: float | None = Field(
        description="Lower end of the interval that is valid however often you look; null: there is none yet."
    )
    always_high: float | None = Field(
        description="Upper end of the interval that is valid however often you look; null: there is none yet."
    )


class GainLooks(Answer):
    """The gain and its interval after every pair of blocks."""

    value: list[float | None] = Field(description="Estimate of the gain after each pair; null: there was none yet.")
    low: list[float | None] = Field(
        description="Lower ends of the intervals for a single planned look; null: there was none yet."
    )
    high: list[float | None] = Field(
        description="Upper ends of the intervals for a single planned look; null: there was none yet."
    )
    always_low: list[float | None] = Field(
        description="Lower ends of the intervals that are valid however often you look; null: there was none yet."
    )
    always_high: list[float | None] = Field(
        description="Upper ends of the intervals that are valid however often you look; null: there was none yet."
    )


class CarryOver(Answer):
    """How much the gain changes where the first rounds of each block are left out."""

    rounds: int = Field(description="Number of rounds that are left out at the beginning of each block.")
    change: float | None = Field(
        description="Change of the gain per round, in the unit of costs; null: it is not known yet."
    )
    low: float | None = Field(description="Lower end of the 95 % interval of the change; null: there is none yet.")
    high: float | None = Field(description="Upper end of the 95 % interval of the change; null: there is none yet.")


class MeasuredTrial(Answer):
    """What a trial has measured; costs are net of movement, and a gain above zero pays."""

    policy: str = Field(description="Name of the policy.")
    against: str = Field(description="Baseline that it is compared with, in words.")
    unit: str = Field(description="Unit of costs and of the gain per round; empty: none was given.")
    over: bool = Field(description="Whether the trial has ended.")
    until: str | None = Field(
        description="Time when its last measured round was decided, in UTC; null: nothing has been measured."
    )
    verdict: Literal["it pays", "it does not pay", "undecided", "too early"] = Field(
        description="Answer of the trial so far, by the interval that is valid however often you look."
    )
    words: list[str] = Field(description="Answer and what else is known, as sentences.")
    pairs: int = Field(description="Number of pairs of blocks that count.")
    rounds: int = Field(description="Number of rounds in a block.")
    gain: MeasuredGain = Field(description="Net gain of the policy per round, in the unit of costs.")
    percent: MeasuredGain = Field(description="Net gain of the policy, in % of the baseline's net bill.")
    looks: GainLooks = Field(description="Gain per round after every pair, in the unit of costs.")
    looks_in_percent: GainLooks = Field(description="Gain after every pair, in % of the baseline's net bill.")
    bill: float | None = Field(
        description="Net cost of the baseline per round, in the unit of costs; if gains are measured, its net "
        "gain. Null: it is not known yet."
    )
    carry_over: CarryOver | None = Field(
        description="Test whether a block depends on the block before it; null: blocks have a single round."
    )
    further_pairs: float | None = Field(
        description="Number of further pairs until the trial is decided, if the gain and its scatter stay as they "
        "are; 0: it is decided; null: no end is in sight."
    )
    lost: list[int] = Field(description="Numbers of rounds without a measurement: of the baseline, of the policy.")
    redirected: list[int] = Field(
        description="Numbers of rounds in which something else ran: of the baseline, of the policy."
    )
    left_out: list[int] = Field(
        description="Numbers of pairs that do not count, because nothing was measured in the block of the "
        "baseline, of the policy."
    )
    uneven: float | None = Field(
        description="Excess of rounds lost in the policy's blocks over the baseline's, in standard deviations; "
        "null: it is not known yet."
    )
    outlying: int | None = Field(
        description="Number of the pair that alone causes more than half of the scatter; null: there is none."
    )
    switching: float | None = Field(
        description="Cost per round of switching between the arms, which is on neither bill; null: it is not known yet."
    )
    adjusted_by: list[str] = Field(
        description="What made the two blocks of a pair comparable, in words; empty: nothing."
    )
    began: list[str] = Field(description="Time when each pair of blocks began, in UTC.")
    net: list[list[float]] = Field(description="Net cost per round of both blocks of every pair.")
    policy_first: list[bool] = Field(description="Whether the policy had the first block, for each pair.")


class TrialInProgress(Answer):
    """How the policy and a baseline take turns."""

    block: int = Field(description="Rounds of a block.")
    blocks: int | None = Field(description="Number of blocks; null: until somebody ends the trial.")
    heard: float = Field(description="Share of the other arm's rounds from which an arm learns.")
    against: str = Field(description="Baseline that the policy is compared with, in words.")


class TrialAnswer(Answer):
    """What the newest trial has measured, also after its end; null where none was made."""

    trial: MeasuredTrial | None = Field(description="Result of the newest trial so far; null: no trial was made.")


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
    proposed_value: Value | None = Field(
        description="What the policy would do: the setting of `proposed`; null in mode `observe`."
    )
    probabilities: list[float] | None = Field(
        description="How probable each setting was; null in mode `observe`, and for a decision of an earlier epoch."
    )
    expected_cost: float | None = Field(
        description="Service cost that the model expects at `action`, in the unit of what is measured; if gains "
        "are measured, the negative gain. Null if it does not learn."
    )
    expected_measurement: float | None = Field(
        description="Measurement that the model expects at `action`; null if it does not learn."
    )
    reason: Reason | None = Field(
        description="Why `action` is not the policy's choice: an operator's override, mode `observe`, or the "
        "people's turn in a trial; null: it is, as far as the limits permit."
    )
    limited_by: Limited
    forced: Forced
    turn: TurnAnswer | None = Field(description="Whose turn it is in a trial; null: there is no trial.")
    at: At


class Told(Answer):
    """What was told: the measurement, and the setting that ran."""

    measurement: float | None = Field(description="What was measured; null: nothing was.")
    applied: Value = Field(description="Setting that ran.")
    applied_index: int = Field(description="Index of the setting that ran.")


class Author(Answer):
    """The token that was used; without tokens, anybody on the machine."""

    token: str | None = Field(
        description="Id of the token, as `holdcourse token list` shows it; null: the service has no tokens."
    )
    name: str = Field(description="Name of the token.")


class Acknowledged(Answer):
    """Who has seen an alarm, when, and what they said of it."""

    at: At
    by: Author | None = Field(description="Token that was used; null: the service itself did it, or nobody was named.")
    remark: str = Field(description="What they said of it; may be empty.")


class Alarm(Answer):
    """Something that somebody should look at."""

    at: At
    kind: Literal["stale", "silent", "clock", "calibration", "sensor", "reading", "notification"] = Field(
        description="Kind of alarm. `stale`: a measurement is late; `silent`: nobody asked in time; `reading`: a "
        "reading was set aside; `sensor`: its readings are all equal; `calibration`: readings are "
        "often far from what was expected; `clock`: the clock was set; `notification`: alarms could "
        "not be sent."
    )
    message: str = Field(description="What is wrong and what to do, for people.")
    cleared_at: At | None = Field(description="Time when it was cleared, in UTC; null: it is open.")
    acknowledged: Acknowledged | None = Field(None, description="Who has seen it, and when; null: nobody has said so.")


class TellAnswer(Answer):
    """The tell is on disk; `alarms` are those that it raised."""

    decision: str = Field(description="Id of the decision.")
    told: Told = Field(description="What was recorded.")
    assumed: Literal["answer", "fallback"] | None = Field(
        description="If the tell did not say which setting ran: whether it is taken to be the answer to the ask, "
        "or the fallback that the machine was sent to because the measurement was late. Null: the "
        "tell said it."
    )
    alarms: list[Alarm] = Field(description="Alarms that this measurement raised.")


class RetractAnswer(Answer):
    """The measurement was taken back: by whom, when and why."""

    decision: str = Field(description="Id of the decision whose measurement was taken back.")
    measurement: float = Field(description="Measurement that was taken back.")
    reason: str = Field(description="Why, in words.")
    at: At
    by: Author | None = Field(description="Token that was used; null: the service itself did it, or nobody was named.")


class OverrideState(Answer):
    """Since when the machine is held, why, and by whom."""

    setting: Value = Field(description="Setting at which the machine is to be held.")
    action: int = Field(description="Index of that setting.")
    reason: str = Field(description="Why, in words; may be empty.")
    force: bool = Field(description="Whether it holds whatever mask and limits say.")
    since: At
    by: Author | None = Field(description="Token that was used; null: the service itself did it, or nobody was named.")


class Instruction(Answer):
    """What the machine should do now. Unless forced, it is permitted by the newest mask and the limits."""

    action: int = Field(description="Setting that the machine should run, by its index.")
    value: Value = Field(description="Setting that the machine should run.")
    reason: Literal["override", "fallback", "decision", "place"] = Field(
        description="Where this comes from: an operator's `override`, the `fallback` because a measurement is "
        "late, the newest `decision`, or the `place` where the machine began."
    )
    limited_by: Limited
    forced: Forced


class UnitsAnswer(Answer):
    """The units of settings and measurements, and of the numbers of a context."""

    action: str = Field(description="Unit of the settings; empty: none was given.")
    measurement: str = Field(description="Unit of what is measured; empty: none was given.")
    contexts: list[str] | None = Field(None, description="Units of the numbers of a context; null: none were given.")
    cost: str = Field("", description="Unit of sums, if it differs from that of the measurement.")


class PolicyOrigin(Answer):
    """The file that a policy came from."""

    name: str = Field(description="Name of the policy in the file.")
    fingerprint: str = Field(description="Fingerprint of the policy: two policies that decide alike have the same.")
    sha256: str = Field(description="SHA-256 of the file.")
    evidence: dict[str, Any] | None = Field(
        description="Origin of the policy, and the result of its backtest; null: the file contains none."
    )


class KnownPolicy(PolicyOrigin):
    """The file that a policy came from, and what is known about the policy in words."""

    words: list[str] = Field(description="What is known about the policy, as sentences.")


class Promise(Answer):
    """How the promise against the baseline stands, in units of what is measured; all by the model's estimates."""

    at_most: float = Field(description="Share of the baseline's bill by which it may be exceeded.")
    budget: float | None = Field(description="What may also be spent in advance; null: the share of some rounds.")
    against: str = Field(description="The baseline in words.")
    baseline: Value | None = Field(
        description="The setting at which the baseline stays; null: where it began, or the baseline is a policy."
    )
    baseline_index: int | None = Field(description="Index of that setting; null if `baseline` is.")
    estimated_saved: float | None = Field(
        description="Saved compared with the baseline, including movement, as the model estimates it; negative if "
        "more was spent. Null while estimates are withheld."
    )
    estimated_doubt: float | None = Field(
        description="Uncertainty of `estimated_saved`; null while estimates are withheld."
    )
    allowed: float = Field(description="How much more than the baseline may be spent, in the unit of what is measured.")
    left: float = Field(
        description="What is left to risk: what is saved, less its uncertainty, plus what is allowed; while estimates "
        "are withheld, at most what is allowed."
    )
    estimated_baseline_bill: float | None = Field(
        description="What the baseline would have cost so far, by the model. Null while estimates are withheld."
    )


class GainEstimate(Answer):
    """A gain as the model estimates it, including movement; null, with the reason, while it is withheld."""

    gain: float | None = Field(
        description="Estimated gain, in the unit of what is measured; null while it is withheld."
    )
    low: float | None = Field(
        description="Lower end of its 95 % interval, including the calibration error of the model; null while it "
        "is withheld."
    )
    high: float | None = Field(description="Upper end of its 95 % interval; null while it is withheld.")
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
        description="In modes observe and shadow, what its proposals would have gained, compared with what was "
        "done; null: in other modes, or nothing can be compared."
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
    by: Author | None = Field(description="Token that was used; null: the service itself did it, or nobody was named.")
    reason: str = Field(description="Why, in words.")


class State(Answer):
    """Everything about a controller at this moment."""

    id: str = Field(description="Name of the controller in addresses.")
    name: str = Field(description="What people call it.")
    mode: Mode = Field(description="Who moves the machine: see the modes of a controller.")
    status: Status = Field(
        description="How it stands: `new` (never asked), `ok`, `waiting` (for a measurement), `stale` (a "
        "measurement is late), `silent` (nobody asked in time), `held` (by an override), `archived`, "
        "or `broken` (its record cannot be used)."
    )
    round: int = Field(description="The next round to be decided.")
    episode: int = Field(description="Number of the episode, counted from 0.")
    epoch: int = Field(description="Number of the present epoch, counted from 1.")
    archived_epochs: list[int] = Field(description="Earlier epochs whose records are no longer in the data folder.")
    action: int = Field(description="Where the machine is, by the index of the setting.")
    value: Value = Field(description="Setting at which the machine is.")
    pending: list[DecisionAnswer] = Field(description="Decisions that wait for their measurement.")
    override: OverrideState | None = Field(description="Override that holds the machine; null: there is none.")
    deadline_s: float | None = Field(
        description="Number of seconds after which a measurement or a question is late; null: neither is watched."
    )
    fallback: Value | None = Field(
        description="Setting to run while a measurement is late, in modes advise and act; null: the machine stays "
        "where it is."
    )
    fallback_index: int | None = Field(description="Index of the fallback; null: there is none.")
    instruction: Instruction = Field(description="What the machine should do now.")
    limits: dict[str, Any] = Field(description="Limits as numbers, as the settings name them.")
    limits_in_words: dict[str, str] = Field(description="Each limit in the user's units, by its name.")
    price_in_words: str = Field(description="What moving costs, in the user's units.")
    trial: TrialInProgress | None = Field(description="The trial that is running; null: none.")
    context_names: list[str] | None = Field(description="Names of the numbers of a context; null: none were given.")
    zone: str = Field(description="The plant's time zone.", examples=["Europe/Berlin"])
    archived: ArchivedSince | None = Field(description="When, by whom and why it was archived; null: it is in use.")
    alarms: list[Alarm] = Field(description="Alarms that are open.")
    last_at: At | None = Field(description="Time of the last decision or tell, in UTC; null: there was none.")
    policy: str = Field(description="Name of the policy.")
    explains_itself: str = Field(description="How the policy decides, in words.")
    actions: list[Value] = Field(description="Settings, in the order of their indices.")
    units: UnitsAnswer = Field(description="Units of settings, measurements and contexts.")
    maximise: Maximise
    measurements_sum: float = Field(
        description="Sum of the measurements, with their own sign; if something else is measured than what counts "
        "(wind), the sum of what counts."
    )
    times: bool = Field(description="Whether contexts are times, in hours since 1970, UTC.")
    made: float | None = Field(
        description="Sum of the yield if something else is measured (energy, if wind is measured); otherwise null."
    )
    file: KnownPolicy | None = Field(description="Where the policy came from; null: it was made here.")
    service: float = Field(description="Sum of the service costs; if gains are measured, of the negative gains.")
    movement: float = Field(description="Sum of the movement costs, in the unit of what is measured.")
    estimate: Estimate = Field(description="What the model estimates was gained.")
    rounds_told: int = Field(description="Number of rounds with a measurement.")
    promise: Promise | None = Field(
        description="Promise against the baseline, and how it stands; null: the policy makes none."
    )
    calibration: Calibration | None = Field(
        description="Agreement of the model with the measurements; null: the policy trusts every reading, or does "
        "not learn."
    )


class Summary(Answer):
    """A controller in the overview."""

    id: str = Field(description="Name of the controller in addresses.")
    name: str = Field(description="What people call it.")
    mode: Mode | None = Field(description="Who moves the machine; null: the controller is not open.")
    status: Status = Field(
        description="How it stands: `new` (never asked), `ok`, `waiting` (for a measurement), `stale` (a "
        "measurement is late), `silent` (nobody asked in time), `held` (by an override), `archived`, "
        "or `broken` (its record cannot be used)."
    )
    message: str | None = Field(description="Why it cannot be used now; null: it can.")
    round: int | None = Field(description="The next round to be decided; null: it is not open.")
    action: int | None = Field(description="Where the machine is, by the index of the setting; null: it is not open.")
    value: Value | None = Field(description="Setting at which the machine is; null: it is not open.")
    last_at: At | None = Field(
        description="Time of the last decision or tell, in UTC; null: there was none, or it is not open."
    )
    seconds_since: float | None = Field(description="Seconds since then; null: there was none, or it is not open.")
    units: UnitsAnswer | None = Field(description="Units of settings, measurements and contexts; null: it is not open.")
    maximise: Maximise | None = Field(
        description="Whether measurements are gains; costs are then negative gains. Null: it is not open."
    )
    trial: TrialInProgress | None = Field(description="Trial that is running; null: none, or it is not open.")
    measurements_sum: float | None = Field(description="Sum of the measurements; null: it is not open.")
    service: float | None = Field(
        description="Sum of the service costs; if gains are measured, of the negative gains. Null: it is not open."
    )
    movement: float | None = Field(
        description="Sum of the movement costs, in the unit of what is measured; null: it is not open."
    )
    estimate: Estimate | None = Field(description="What the model estimates was gained; null: it is not open.")
    zone: str | None = Field(description="Time zone of the plant; null: it is not open.")
    alarms: int = Field(description="Number of alarms that are open.")
    unseen_alarms: int = Field(description="Open alarms that nobody has acknowledged.")


class Summaries(Answer):
    """The controllers that the token may see."""

    controllers: list[Summary] = Field(description="One entry for each controller, by id.")


class Retracted(Answer):
    """What was measured and does not count any more: by whom, when and why it was taken back."""

    measurement: float = Field(description="Measurement that was taken back.")
    reason: str = Field(description="Why, in words.")
    at: At
    by: Author | None = Field(description="Token that was used; null: the service itself did it, or nobody was named.")


class Row(Answer):
    """A round in the listing; `applied` is the setting that ran, once told."""

    round: int = Field(description="Number of the round, counted from 0.")
    decision: str = Field(description="Id of the decision.")
    episode: int = Field(description="Number of the episode, counted from 0.")
    epoch: int = Field(description="Epoch whose numbering the indices of this round use.")
    mode: Mode = Field(description="Mode in which it was decided.")
    context: Context = Field(description="Context that was given with the question; null: none.")
    action: int = Field(description="What the machine was to do, by its index.")
    value: Value = Field(description="What the machine was to do: the setting of `action`.")
    proposed: int | None = Field(description="What the policy would have done, by its index; null in mode `observe`.")
    proposed_value: Value | None = Field(
        description="What the policy would have done: the setting of `proposed`; null in mode `observe`."
    )
    applied: Value | None = Field(description="Setting that ran; null: it has not been told.")
    applied_index: int | None = Field(description="Index of the setting that ran; null: it has not been told.")
    measurement: float | None = Field(
        description="What was measured; null: nothing was, it has not been told, or it was taken back."
    )
    retracted: Retracted | None = Field(description="Measurement that was taken back; null: none was.")
    weight: float | None = Field(
        description="Weight of the measurement in the model: 1, less if it was far off, 0 if it is set aside; "
        "null if there is none."
    )
    expected_cost: float | None = Field(
        description="Service cost that the model expected at `action`, in the unit of what is measured; if gains "
        "are measured, the negative gain. Null if it does not learn."
    )
    expected_measurement: float | None = Field(
        description="Measurement that the model expected at `action`; null if it does not learn."
    )
    limited_by: Limited
    forced: Forced
    turn: TurnAnswer | None = Field(description="Whose turn it was in a trial; null: there was no trial.")
    in_charge: InCharge = Field(
        description="Who determined what the machine did: the policy; a limit or the guard that kept it from what was "
        "wanted; an override; people; the baseline of a trial; the fallback, because the measurement was late."
    )
    service: float | None = Field(
        description="Service cost of the round; if gains are measured, the negative gain; for a measurement that "
        "is set aside, what the model expects instead. Null: there is no measurement."
    )
    movement: float | None = Field(
        description="Cost of the move to the setting that ran, in the unit of what is measured; null: it has not "
        "been told."
    )
    cumulative_service: float | None = Field(
        description="Sum of the service costs up to here, without what was taken back since; null: it has not "
        "been told, or what was taken back was so large that the rest of the sum is lost in it."
    )
    cumulative_movement: float | None = Field(
        description="Sum of the movement costs up to here; null: it has not been told."
    )
    at: At
    told_at: At | None = Field(description="Time of the tell, in UTC; null: it has not been told.")
    key: str | None = Field(description="`Idempotency-Key` of the question; null: it had none.")
    asked_by: Author | None = Field(description="Token of the question; null: nobody was named.")
    told_by: Author | None = Field(description="Token of the tell; null: it has not been told, or nobody was named.")


class Rows(Answer):
    """Rounds in order; `more`: there are further ones beyond the end (or, without `after`, before the beginning)."""

    decisions: list[Row] = Field(description="Rounds, oldest first.")
    more: bool = Field(
        description="Whether there are further rounds: after the last of these or, without `after`, before the first."
    )


class Explanation(Answer):
    """Why a decision was taken. The lists of `data` have one entry per action; null: not allowed, or not known."""

    decision: str = Field(description="Id of the decision.")
    words: str = Field(description="Why it was taken, as sentences.")
    data: dict[str, Any] = Field(
        description="What was known, one entry per setting: lower bounds, expected costs, means and deviations of "
        "what is measured, probabilities, costs of moving there; then what was wanted and chosen, and "
        "the question."
    )


class ConfigAnswer(Config):
    """The settings in force; `history` only where it was asked for."""

    policy: str = Field(
        description="Name of the policy that decides; a policy's file may bring one that a request cannot name."
    )
    history_count: int = Field(description="How many measurements it started from.")
    history_sha256: str | None = Field(description="SHA-256 of these measurements; null: there were none.")
    file: PolicyOrigin | None = Field(None, description="Where the policy came from; null: it was made here.")


class ReadingsRead(Answer):
    """What was read of a table, to be confirmed."""

    rows: int = Field(description="Number of rows that can be used.")
    settings: list[float | str] = Field(description="Settings that were tried.")
    newest: float | str = Field(description="The setting of the newest row.")
    context: list[str] = Field(description="Names of the numbers of a context.")
    units: dict[str, Any] = Field(
        description="Units as the names of the columns say them: `action`, `measurement` and `contexts`."
    )
    notes: list[str] = Field(description="What was left out, sorted or assumed.")


class ReadingsAnswer(Answer):
    """What a plant's table holds; what may be meant by its columns is a guess for people to confirm."""

    label: str = Field(description="Name of the file.")
    rows: int = Field(description="Number of rows below the names of the columns.")
    columns: list[dict[str, Any]] = Field(description="What each column contains, in the order of the file.")
    time: list[str] = Field(description="Columns of the time; empty: none was found.")
    start: str | None = Field(description="Earliest time, in UTC; null: there are no times.")
    end: str | None = Field(description="Latest time, in UTC; null: there are no times.")
    step_hours: float | None = Field(description="Usual time between two rows, in hours; null: there are no times.")
    gaps: list[str] = Field(description="Longest gaps, in words.")
    gap_count: int = Field(description="Number of gaps.")
    repeated: int = Field(description="Number of times that occur more than once.")
    ordered: bool | None = Field(description="Whether the times ascend; null: there are no times.")
    settings: list[str] = Field(description="Columns that may be the setting, the likeliest first.")
    costs: list[str] = Field(description="Columns that may be what was measured, the likeliest first.")
    contexts: list[str] = Field(description="Columns that may be conditions, the likeliest first.")
    remarks: list[str] = Field(description="What looks wrong.")
    notes: list[str] = Field(description="How the file was read.")
    read: ReadingsRead | None = Field(
        None, description="What a controller would start from; null: `action`, `cost` and `context` were not all named."
    )


class CostField(Answer):
    """The learned cost of every action in some contexts."""

    contexts: list[list[float]] = Field(
        description="Contexts that came up lately, in order; empty: none did, or nothing is learned."
    )
    mean: list[list[float]] = Field(
        description="Expected cost of every setting, one row for each context, in the unit of what is measured; "
        "gains count with a minus."
    )
    std: list[list[float]] | None = Field(
        description="Standard deviation of these costs; null: the model does not say it."
    )
    values: list[Value] = Field(description="Settings, in the order of their indices.")


class Alarms(Answer):
    """Alarms, the newest last; `cleared_at` is null while one is open."""

    alarms: list[Alarm] = Field(description="Alarms, the newest last.")


class NotificationTarget(Answer):
    """Somebody who is told of alarms; `failing_s` is null while that works."""

    name: str = Field(description="Name of the target.")
    waiting: int = Field(description="Number of notices that wait to be delivered.")
    sent: int = Field(description="Number of notices that were delivered.")
    failed: int = Field(description="Number of attempts that failed.")
    dropped: int = Field(description="Number of notices that were given up.")
    failing_s: float | None = Field(
        description="Number of seconds since the first of the attempts that fail now; null: delivery works."
    )
    error: str = Field(description="What went wrong at the last attempt; empty: nothing, or your token may not see it.")


class Silence(Answer):
    """Alarms that are silenced until a time; null means all controllers, or all kinds."""

    id: str = Field(description="Id of the silence, with which it is ended.")
    until: str = Field(description="Time at which it ends, in UTC.")
    controller: str | None = Field(description="Controller, or fleet, whose alarms are silenced; null: all.")
    kind: str | None = Field(description="Kind of alarm that is silenced; null: all kinds.")
    reason: str = Field(description="Why, in words; may be empty.")
    by: str = Field(description="Name of the token that was used.")


class Notifications(Answer):
    """Who is told of alarms, and what is silent."""

    targets: list[NotificationTarget] = Field(description="Who is notified, and whether that works.")
    silences: list[Silence] = Field(description="Alarms that are silenced now.")


class Change(Answer):
    """What somebody changed."""

    at: At
    epoch: int = Field(description="Number of the epoch in which it was made.")
    what: Literal["created", "epoch", "config", "mode", "override"] = Field(
        description="What changed: a controller was `created`, an `epoch` began with other settings, other "
        "settings changed (`config`), the `mode`, or an `override`."
    )
    to: dict[str, Any] = Field(description="What it changed to.")
    by: Author | None = Field(description="Token that was used; null: the service itself did it, or nobody was named.")


class ChangeList(Answer):
    """What operators changed, the newest last."""

    changes: list[Change] = Field(description="Changes, the newest last.")


class Deed(Answer):
    """What somebody did to a controller."""

    at: At
    epoch: int = Field(description="Number of the epoch.")
    number: int = Field(description="Number of the event in the record of the epoch.")
    what: str = Field(
        description="Kind of deed: created, settings, limits, price, trial, mode, override, retract, episode, "
        "acknowledge, archive, restore or accept."
    )
    by: Author | None = Field(description="Token that was used; null: the service itself did it, or nobody was named.")
    reason: str = Field(description="Reason that was given; empty: none.")
    words: str = Field(description="What was done, as a sentence.")
    changed: dict[str, Any] = Field(
        description="For each setting that changed, its value before and after: `from` and `to`."
    )


class AuditTrail(Answer):
    """Who changed what, when and why; the newest first."""

    deeds: list[Deed] = Field(description="Deeds, the newest first.")
    next: str | None = Field(description="Value of `before` for the next page; null: there is none.")


class JournalAnswer(Answer):
    """What happened to the service as a whole, the newest first: controllers deleted, tokens made and ended."""

    lines: list[dict[str, Any]] = Field(
        description="Lines of the journal: `at` (time, in UTC), `what`, `by` and what it was about."
    )


class CheckedReading(Answer):
    """A reading, what a model expected of it that has not seen it, and the 95 % band."""

    measured: float = Field(description="What was measured.")
    predicted: float | None = Field(
        description="What the model expected, without having seen it; null: it said nothing."
    )
    low: float | None = Field(description="Lower end of the 95 % band; null: there is none.")
    high: float | None = Field(description="Upper end of the 95 % band; null: there is none.")
    wrong: bool = Field(description="Whether it looks wrong.")


class ModelCheckAnswer(Answer):
    """How well the model predicts, and what the readings cannot tell."""

    enough: bool = Field(description="Whether there are enough readings to check it.")
    words: list[str] = Field(description="Result of the check, as sentences.")
    readings: int = Field(description="Number of readings that were used.")
    left_out: int = Field(description="Older readings that were not used.")
    explained: float | None = Field(
        description="Share of the variation that the model explains; null: there are too few readings."
    )
    error: float | None = Field(
        description="Mean absolute error, in the unit of what is measured; null: there are too few readings."
    )
    coverage: dict[str, float | None] = Field(
        description="Share of readings within each band, by the share that it should contain."
    )
    points: list[CheckedReading] = Field(description="Some of the readings, including all that look wrong.")


class FleetState(Answer):
    """What a fleet is, and how far it has come."""

    id: str = Field(description="Name of the fleet in addresses.")
    name: str = Field(description="What people call it.")
    policy: str = Field(description="Name of the policy.")
    explanation: str = Field(description="How the policy decides, in words.")
    count: int = Field(description="How many members there are.")
    seed: int = Field(description="Seed of the first member; the next members have the numbers that follow.")
    settings: list[Value] = Field(description="Settings, in the order of their indices.")
    units: UnitsAnswer = Field(description="Units of settings, measurements and contexts.")
    maximise: Maximise
    start: Value = Field(description="Where all members were before their first round.")
    price_in_words: str = Field(description="What moving costs, in the user's units.")
    context_names: list[str] | None = Field(description="Names of the numbers of a context; null: none were given.")
    next_call: int = Field(description="The number of the next ask.")
    decisions: int = Field(description="Number of decisions of all members.")
    rounds: list[int] = Field(description="The fewest and the most rounds that a member was asked for.")
    pending: int = Field(description="Members that wait for their measurement.")
    at: list[int] = Field(description="How many members are at each setting, by its index.")
    created_at: At
    last_at: At
    events: int = Field(description="Number of events in the record.")
    head: str = Field(description="Hash of the last event: written down elsewhere, it shows a record that was changed.")


class FleetSums(Answer):
    """What all members of a fleet have measured and moved, as far as its record has been read for this."""

    measurements: int = Field(description="Number of measurements.")
    measurements_sum: float | None = Field(
        description="Sum of the measurements, with their own sign; null if they are not costs, such as wind speeds."
    )
    skipped: int = Field(description="Decisions of members that measured nothing.")
    moves: int = Field(description="Number of moves of all members.")
    movement: float = Field(description="What all moves cost.")
    seen: int = Field(description="Events that these sums include; ask again until it is `events`.")
    events: int = Field(description="Number of events in the record.")


class FleetSummary(Answer):
    """A fleet in the overview."""

    id: str = Field(description="Name of the fleet in addresses.")
    name: str = Field(description="What people call it.")
    status: Literal["ok", "opening", "broken"] = Field(
        description="Whether the fleet can be used: `ok`, `opening`, or `broken` (its record cannot be used)."
    )
    message: str | None = Field(description="Why it is broken; null: it is not.")
    policy: str | None = Field(description="Name of the policy; null: the fleet is not open.")
    count: int | None = Field(description="Number of members; null: it is not open.")
    next_call: int | None = Field(description="Number of the next ask; null: it is not open.")
    decisions: int | None = Field(description="Number of decisions of all members; null: it is not open.")
    pending: int | None = Field(description="Number of members that wait for their measurement; null: it is not open.")
    last_at: At | None = Field(description="Time of the last event, in UTC; null: it is not open.")


class FleetList(Answer):
    """The fleets that the token may see."""

    fleets: list[FleetSummary] = Field(description="One entry for each fleet, by id.")


class FleetMembers(Answer):
    """Every member of a fleet, one entry for each."""

    next_call: int = Field(description="Number of the next ask.")
    action: list[int] = Field(description="Setting at which each member is, by its index.")
    setting: list[Value] = Field(description="Setting at which each member is.")
    round: list[int] = Field(description="Number of the next round of each member.")
    pending: list[bool] = Field(description="Whether each member waits for its measurement.")
    call: list[int | None] = Field(description="Number of the call in which each member was asked last; null: in none.")


class FleetAnswer(Answer):
    """What the members are to do now, one entry for each; of the lists, those that were asked for."""

    call: int = Field(description="Number of this ask of the fleet; send it with the measurements.")
    setting: list[Value] | None = Field(
        None, description="Setting that each member should run; null: it was not asked for."
    )
    action: list[int] | None = Field(
        None, description="Setting that each member should run, by its index; null: it was not asked for."
    )
    probabilities: list[list[float] | None] | None = Field(
        None,
        description="How probable each setting was, for each member; an entry is null for members not asked. "
        "Null: it was not asked for, or the answer is repeated after a restart.",
    )
    expected_cost: list[float | None] | None = Field(
        None,
        description="Service cost that the model expects, for each member; an entry is null for members not "
        "asked. Null: as for `probabilities`.",
    )


class FleetTold(Answer):
    """The measurements have been recorded."""

    call: int = Field(description="Number of the call that was told.")
    pending: int = Field(description="Members that wait for their measurement.")


class Deleted(Answer):
    """A controller, or a fleet, that is gone."""

    deleted: str = Field(description="Id of what was deleted.")
    name: str = Field(description="What people called it.")
    at: At


class Verification(Answer):
    """The result of checking the record."""

    ok: bool = Field(description="Whether the record is complete and nothing in it was changed.")
    events: int = Field(description="Number of events that were read.")
    epochs: int = Field(description="Records that follow each other; a fleet has one.")
    message: str = Field(description="What was found, in words.")


class Design(Answer):
    """A block length, and what a trial with it would be like; null: longer than a lifetime."""

    model_config = ConfigDict(extra="allow", frozen=True)

    block: int = Field(description="Length of a block, in rounds.")
    hours: float = Field(description="Length of a block, in hours.")
    switching_percent: float = Field(description="Cost of switching between the arms, in % of the baseline's bill.")
    weeks_for_target: float | None = Field(
        description="Number of weeks until the gain is detected; null: longer than a lifetime."
    )
    weeks_for_target_with_reference: float | None = Field(
        description="Number of weeks if a `reference` is told with each measurement; null: longer than a lifetime."
    )


class PlanAnswer(Answer):
    """How long a trial would take, as `holdcourse trial plan` says it."""

    block: int = Field(description="The best block length, in rounds.")
    baseline: Value = Field(description="The setting that the policy is compared with.")
    target_percent: float = Field(description="The gain to detect, in % of the baseline's bill.")
    expected_percent: float = Field(description="What the policy gains in the simulation.")
    bill: float = Field(
        description="Net cost of the baseline per round in the simulation, in the unit of what is measured; if "
        "gains are measured, its net gain."
    )
    rounds: int = Field(description="Number of rounds that were simulated.")
    heard: float = Field(description="The share of the other arm's rounds from which an arm should learn.")
    learning_percent: float | None = Field(
        description="By how much the answer is off because the arms learn from each other's blocks, with that "
        "share; null: no trial was rehearsed."
    )
    learning_error_percent: float | None = Field(
        description="Standard error of `learning_percent`, from the scatter of the rehearsals; null: no trial was "
        "rehearsed."
    )
    designs: list[Design] = Field(description="What a trial with each block length would be like.")
    words: list[str] = Field(description="Plan in words, as sentences.")


class Problem(BaseModel):
    """What was wrong, and what to do; in a conflict both values."""

    model_config = ConfigDict(extra="allow")

    code: str = Field(description="Kind of refusal, for programs.")
    message: str = Field(description="What was wrong and what to do, for people.")
    recorded: Any = Field(None, description="In a conflict: what an earlier request said; otherwise null.")
    given: Any = Field(None, description="In a conflict: what this request said; otherwise null.")


class Refused(BaseModel):
    """Every answer that is no success."""

    error: Problem = Field(description="What was wrong.")


class AskResult(Answer):
    """The answer to one of several questions: a decision, or an error."""

    controller: str = Field(description="Id of the controller.")
    status: int = Field(description="HTTP status that the answer would have had alone.")
    answer: DecisionAnswer | None = Field(description="Decision; null: it was refused.")
    error: dict[str, Any] | None = Field(
        description="Why it was refused, as `error` of a single request says it; null: it was not."
    )


class AskResults(Answer):
    """The answers to several questions, in their order."""

    results: list[AskResult] = Field(description="Answers, in the order of the questions.")


class TellResult(Answer):
    """What came of one of several tells."""

    controller: str = Field(description="Id of the controller.")
    status: int = Field(description="HTTP status that the answer would have had alone.")
    answer: TellAnswer | None = Field(description="What was recorded; null: it was refused.")
    error: dict[str, Any] | None = Field(
        description="Why it was refused, as `error` of a single request says it; null: it was not."
    )


class TellResults(Answer):
    """What came of several tells, in their order."""

    results: list[TellResult] = Field(description="Answers, in the order of the tells.")


class JobAnswer(Answer):
    """Long work in the background."""

    id: str = Field(description="Id of the job.")
    address: str = Field(description="Address of the job: `GET` it again until `state` is done or failed.")
    kind: Literal["create", "verify", "plan"] = Field(
        description="What it does: `create` a controller, `verify` a record, or `plan` a trial."
    )
    controller: str = Field(description="Name of the controller, or of the fleet, that it is about.")
    state: Literal["waiting", "running", "done", "failed"] = Field(description="How far it is.")
    progress: float = Field(ge=0, le=1, description="How much of it is done.")
    words: str = Field(description="What is being done.")
    asked_at: At
    began_at: At | None = Field(description="Time when it began, in UTC; null: it waits.")
    ended_at: At | None = Field(description="Time when it ended, in UTC; null: it has not.")
    by: Author | None = Field(description="Token of the request; null: nobody was named.")
    status: int | None = Field(description="HTTP status of the answer to the request; null until the job ends.")
    result: dict[str, Any] | None = Field(description="Body of the answer to the request; null in a list of jobs.")
    error: Problem | None = Field(description="Why it failed; null: it has not.")


class JobList(Answer):
    """The newest jobs, the newest last."""

    jobs: list[JobAnswer] = Field(description="Jobs, the newest last, without their results.")
