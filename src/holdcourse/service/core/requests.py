"""What may be asked of the service: every request as a model, with examples. Nothing unknown is accepted."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, model_validator

from holdcourse.checks import whole_as_int
from holdcourse.deciding import registry
from holdcourse.learning.confidence import OutlierGuard
from holdcourse.running.limits import Guard

MAX_ACTIONS = 5000
MAX_NUMBER = 1e30  # far beyond any measurement, and its cube is still a number
MAX_MATRIX = 1000  # rows of a matrix of movement costs
MAX_CONTEXT = 256  # numbers in a context
MAX_FORECAST = 1000  # rounds ahead
MAX_HEIGHTS = 200  # of a profile
MAX_HISTORY = 500_000  # measurements to start from
MAX_FILE = 2**25  # characters of a policy's file
MAX_TABLE = 2**23  # bytes of a table of readings
MAX_AT_ONCE = 256  # questions, or measurements, in one request
SAID_BY_FILE = frozenset(
    (
        "actions",
        "labels",
        "metric",
        "scale",
        "fixed_cost",
        "directed",
        "rho",
        "policy",
        "options",
        "history",
        "history_index",
        "readings",
    )
)


NO_PLACES = ("posix", "right/", "Factory", "localtime")  # files beside the zones: no browser knows them by these names


def _checked_zone(zone: str) -> str:
    """Return a time zone that is known, as the record holds it: empty is UTC."""
    if zone in ("", "UTC"):
        return ""
    try:
        if zone.startswith(NO_PLACES):
            raise ValueError
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # an odd name may be a folder, or climb out of one
        raise ValueError(f"{zone!r} is not a known time zone; write it like Europe/Berlin, or UTC") from None
    return zone


# Characters that turn the direction of what follows: a name that holds one rewrites the words beside it.
TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def _checked_name(name: str) -> str:
    """Return a name that can be seen, and pressed where it is a link: without blanks around it, empty where it is."""
    odd = next((c for c in name if c in TURNING or unicodedata.category(c) in ("Cc", "Zl", "Zp")), None)
    if odd is not None:
        raise ValueError(f"must be one line of text without control characters; leave out {odd!a}")
    return name.strip()


Number = Annotated[float, Field(ge=-MAX_NUMBER, le=MAX_NUMBER, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, le=MAX_NUMBER, allow_inf_nan=False)]
AS_WHOLE = BeforeValidator(whole_as_int)  # last, so that bounds are described
Action = Annotated[int, Field(ge=0, lt=MAX_ACTIONS, description="A setting by its index, counted from 0."), AS_WHOLE]
Exact = Annotated[float, Field(ge=-MAX_NUMBER, le=MAX_NUMBER, allow_inf_nan=False, strict=True)]  # no true, no "8"
Setting: TypeAlias = Annotated[
    Exact
    | Annotated[str, Field(max_length=200)]
    | Annotated[list[Exact], Field(min_length=1, max_length=64)]
    | Annotated[
        dict[Annotated[str, Field(max_length=200)], Exact | StrictBool | Annotated[str, Field(max_length=200)]],
        Field(min_length=1, max_length=16),
    ],
    Field(description="A setting as people call it: its label, a number, a point, or grid values by name."),
]
Whole = Annotated[int, Field(ge=0, le=2**53), AS_WHOLE]
Epoch = Annotated[
    int | None,
    Field(ge=1, le=2**53, description="Epoch whose settings `applied` refers to; null: the present one."),
    AS_WHOLE,
]
Id = Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,64}$", examples=["turbine-1"])]
DecisionId = Annotated[
    str, Field(pattern=r"^r(0|[1-9][0-9]{0,15})$", examples=["r12"], description="`decision` in the answer to the ask.")
]
Words = Annotated[str, Field(max_length=200)]
Label = Annotated[str, Field(max_length=200, pattern=r"\S")]  # one of blanks could be neither seen nor pressed
Reason = Annotated[str, Field(max_length=500)]
Name = Annotated[Words, AfterValidator(_checked_name), Field(description="What people call it; empty: its id.")]
Force = Annotated[
    bool, Field(description="Go there whatever mask and limits say. Needs a reason, which is recorded and shown.")
]
Point = Annotated[list[Number], Field(min_length=1, max_length=64)]
Row = Annotated[list[Number], Field(max_length=MAX_ACTIONS)]
Amount = Annotated[str, Field(max_length=60, examples=["45 min", "50 m"])]
Rounds = Annotated[int, Field(ge=1, le=10**6), AS_WHOLE]
Step: TypeAlias = Annotated[float, Field(ge=0, le=MAX_NUMBER, allow_inf_nan=False)] | Amount
Context: TypeAlias = Annotated[Number | Annotated[list[Number], Field(max_length=MAX_CONTEXT)] | None, Field()]
Zone = Annotated[str, Field(max_length=60, examples=["Europe/Berlin"]), AfterValidator(_checked_zone)]
Mode: TypeAlias = Literal["observe", "shadow", "advise", "act"]
POLICIES = tuple(
    name
    for name in registry.names("problem", shown=("measurements", "nothing"))
    if set(registry.TABLE[name].required) <= {"setting"}  # the one that a request can give
)
if TYPE_CHECKING:
    PolicyName: TypeAlias = str
else:
    PolicyName = Literal[POLICIES]  # so that the error and the schema list them


class Request(BaseModel):
    """Base of all requests: a field that is not known is an error."""

    ELSEWHERE: ClassVar[Mapping[str, str]] = {}  # what to do instead of giving a field that there is not

    model_config = ConfigDict(extra="forbid", frozen=True)


class LimitsGiven(Request):
    """What the machine may do. `max_step` is in the units of the settings, `max_step_cost` a movement cost."""

    min_dwell: Rounds | Amount = Field(
        1, description="Minimum dwell time at a setting: rounds, or a time such as `45 min`."
    )
    max_step: (
        Step
        | Annotated[list[Step], Field(min_length=1, max_length=64)]
        | Annotated[dict[Words, Step], Field(min_length=1, max_length=16)]
        | None
    ) = Field(
        None, description="Longest single move: `50`, `50 m`, one for each axis, or by the name of an axis; null: any."
    )
    max_moves: Annotated[int, Field(ge=0, le=10**6), AS_WHOLE] | None = Field(
        None, description="Largest number of moves in any `window`; null: any."
    )
    window: Rounds | Amount | None = Field(
        None,
        description="Length of the window of `max_moves`: rounds, or a time such as `1 h`; null: there is no "
        "`max_moves`.",
    )
    max_step_cost: Annotated[float, Field(ge=0, le=MAX_NUMBER, allow_inf_nan=False)] | None = Field(
        None, description="Largest movement cost of a single move; null: any."
    )
    round_length: Positive | Amount | None = Field(
        None,
        description="Length of a round, in seconds or as text such as `15 min`; needed if a limit is given as a "
        "time. Null: not given.",
    )


class GuardGiven(Request):
    """Go to a safe setting for a while when a measured cost is too high."""

    threshold: Number = Field(
        description="Largest measured cost, in its unit, that does not send the machine to the safe setting; if "
        "gains are measured, the smallest gain."
    )
    revert_to: Setting | None = Field(
        None,
        description="Safe setting: its label, a number, a point, or grid values by name; null: "
        "`revert_to_index` says it.",
    )
    revert_to_index: Action | None = Field(
        None, description="Index of the safe setting, counted from 0, instead of `revert_to`."
    )
    cool_down: Rounds | Amount = Field(
        Guard.cool_down, description="How long the machine stays there: rounds, or a time such as `6 h`."
    )

    @model_validator(mode="after")
    def _check_setting(self) -> GuardGiven:
        _check_one(self, "revert_to")
        return self


class UnitsGiven(Request):
    """What the numbers are, for people who look at them."""

    action: Words = Field("", description="Unit of the settings, such as `m`; empty: none.")
    measurement: Words = Field("", description="Unit of what is measured, such as `kWh`; empty: none.")
    contexts: Annotated[list[Words], Field(max_length=MAX_CONTEXT)] | None = Field(
        None, description="Unit of each number of a context; null: none."
    )
    cost: Words = Field("", description="Unit of sums, if it differs from that of the measurement; empty: it does not.")


class OutlierGuardGiven(Request):
    """A measurement that is off by more than this number of predicted deviations counts as if it were that far off."""

    deviations: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] = Field(
        OutlierGuard.deviations, description="Number of predicted deviations."
    )


class Options(Request):
    """Options of the policy; which of them it takes depends on the policy. See the reference of each."""

    noise_std: Annotated[float, Field(ge=0, le=MAX_NUMBER, allow_inf_nan=False)] | None = Field(
        None, description="Standard deviation of a measurement, in its unit; null: 0.1, or fitted."
    )
    prior_mean: Number | Row | None = Field(
        None,
        description="Expected cost (or gain) before any measurement: a number, or one for each setting; null: 0, "
        "or fitted.",
    )
    width: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] | None = Field(
        None,
        description="Width of the bounds, in standard deviations: how hopeful the policy is where it is "
        "uncertain; null: the policy's default.",
    )
    every: Literal["round", "episode"] | None = Field(
        None,
        description="When measurements change the decisions: after every `round` or after every `episode`; null: "
        "`round`.",
    )
    maximise: bool | None = Field(
        None,
        description="Whether measurements are gains, not costs; null: false. It cannot change once there are "
        "measurements.",
    )
    method: Literal["auto", "exact", "flat", "temporal"] | None = Field(
        None, description="How the model computes; null: `auto`, which chooses by what you declare and by counts."
    )
    contexts: Annotated[list[Point], Field(max_length=1000)] | None = Field(
        None, description="All contexts that can occur, as lists of numbers; null: they are not listed."
    )
    context_bounds: Annotated[
        list[Annotated[list[Number], Field(min_length=2, max_length=2)]], Field(max_length=64)
    ] | (
        None
    ) = Field(None, description="Lowest and highest value of each number of a context; null: no bounds are declared.")
    forgetting: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = Field(
        None,
        description="Factor by which each measurement multiplies what was known before, at most 1; null: 1, "
        "nothing fades.",
    )
    kernel: Annotated[str, Field(max_length=100_000)] | None = Field(
        None, description="Covariance of the cost, as `Kernel.to_json` wrote it; null: it is fitted."
    )
    tau: Annotated[float, Field(gt=4, le=1e6, allow_inf_nan=False)] | None = Field(
        None,
        description="Factor by which an edge of the tree weighs more than the edges below it, for `gp-md`; null: "
        "the default.",
    )
    kappa: Annotated[float, Field(ge=1, le=1e6, allow_inf_nan=False)] | None = Field(
        None,
        description="Eagerness of the descent, at least 1, for `gp-md`; larger values move sooner. Null: the default.",
    )
    tree_seed: Whole | None = Field(None, description="Seed that draws the tree, for `gp-md`; null: `seed` draws it.")
    weight: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] | None = Field(
        None, description="Weight of the movement cost, for `proximal-lcb`; null: 1."
    )
    context_scale: Positive | Annotated[list[Positive], Field(max_length=64)] | None = Field(
        None,
        description="Correlation length of the cost along each number of a context, in its unit; null: that of "
        "the kernel, or a fifth of the range seen.",
    )
    period: Positive | Annotated[list[Positive | None], Field(max_length=64)] | None = Field(
        None,
        description="Period of each number of a context that is a circle, such as 24 for the hour of day; null, "
        "also for one number: no circle.",
    )
    forecasts: Literal["robust", "trust", "ignore"] | None = Field(
        None,
        description="Use of forecasts, for `planner`: as far as past forecasts were right (`robust`), as stated "
        "(`trust`), or not at all (`ignore`); null: `robust`.",
    )
    capacity: Annotated[int, Field(ge=1, le=1000), AS_WHOLE] | None = Field(
        None, description="Largest number of contexts that the planner distinguishes; null: 64."
    )
    discount: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] | None = Field(
        None, description="Weight of each further round in the plan, below 1; null: 0.97."
    )
    time: bool | None = Field(None, description="Whether contexts are times, for `recommended`; null: false.")
    interval: Positive | None = Field(
        None, description="Time between two rounds, in the unit of the context, if contexts are times; null: 1."
    )
    setting: Setting | None = Field(
        None,
        description="Setting that `fixed-at` runs: its label, a number, a point, or grid values by name; null: "
        "given by index, or not needed.",
    )
    setting_index: Action | None = Field(
        None, description="Index of that setting, counted from 0, instead of `setting`."
    )
    baseline: Setting | None = Field(
        None,
        description="What would happen without it: a fixed setting, or `history` for the best fixed setting of the "
        "history; null: staying where it begins.",
    )
    baseline_index: Action | None = Field(
        None, description="Index of the baseline, counted from 0, instead of `baseline`."
    )
    at_most: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] | Literal["none"] | None = Field(
        None,
        description="Share of the baseline's bill by which the bill, movement included, may exceed it; null: 0.02; "
        "`none`: nothing is promised.",
    )
    budget: Annotated[float, Field(ge=0, le=MAX_NUMBER, allow_inf_nan=False)] | None = Field(
        None, description="What may be spent in advance; null: the share of a few hundred rounds."
    )
    guard: OutlierGuardGiven | None = Field(
        None, description="Guard against measurements far from what the model expects; null: the policy's default."
    )


class TrialGiven(Request):
    """The policy and a baseline take turns in blocks, in a random order. The default baseline is staying."""

    block: Rounds | Amount = Field(description="Length of a block: rounds, or a time such as `6 h`.")
    blocks: Annotated[int, Field(ge=2, le=10**6, multiple_of=2), AS_WHOLE] | None = Field(
        None,
        description="Number of blocks, an even one; then the policy runs alone. Null: until somebody ends the trial.",
    )
    heard: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = Field(
        1.0,
        description="Share of the other arm's rounds from which an arm learns; a trial's plan says which is best.",
    )
    baseline: Setting | None = Field(
        None, description="Fixed setting to compare with; null: another baseline, or the default."
    )
    baseline_index: Action | None = Field(
        None, description="Index of that setting, counted from 0, instead of `baseline`."
    )
    baseline_policy: PolicyName | None = Field(
        None, description="Name of another policy to compare with, which gets its default options; null: none."
    )
    operators: bool = Field(
        False, description="Whether people run the machine in the baseline's blocks, and tell `applied`."
    )

    @model_validator(mode="after")
    def _check_baseline(self) -> TrialGiven:
        given = [self.baseline, self.baseline_index, self.baseline_policy, self.operators or None]
        if sum(each is not None for each in given) > 1:
            raise ValueError("give at most one of baseline, baseline_index, baseline_policy and operators")
        return self


class VerifyGiven(Request):
    """How thoroughly a record is checked."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"full": True}]})

    full: bool | None = Field(
        None, description="Decide every round again; null: only if there are few. False: only read every event."
    )


class PlanGiven(Request):
    """A trial to be planned: which gain it should detect, and compared with what."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"gain": 3.0, "hours": 1.0}]})

    gain: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None = Field(
        None, description="Gain to detect, in % of the baseline's bill; null: the gain in the simulation."
    )
    hours: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None = Field(
        None, description="How long a round lasts; null: as `round_length` among the limits says."
    )
    blocks: Annotated[list[Rounds], Field(min_length=1, max_length=20)] | None = Field(
        None, description="Block lengths to compare, in rounds; null: lengths from 2 on."
    )
    baseline: Setting | None = Field(None, description="Setting to compare with; null: the one that ran most often.")
    baseline_index: Action | None = Field(
        None, description="Index of that setting, counted from 0, instead of `baseline`."
    )
    rehearsals: Annotated[int, Field(ge=0, le=10), AS_WHOLE] = Field(
        1,
        description="How often the trial itself is run, to see what learning from each other's blocks changes, and "
        "which share of it leaves the answer right.",
    )


class KnobGiven(Request):
    """One axis of a grid that says itself what turning it costs: by the unit, by the step, or for any change."""

    values: Annotated[
        list[Exact | StrictBool | Annotated[str, Field(max_length=60)]], Field(min_length=1, max_length=MAX_ACTIONS)
    ] = Field(description="Numbers, or names: text, true and false.")
    per_unit: Positive | Amount | None = Field(
        None, description="Cost of a change by one unit: a number, or a price as text; null: given in another way."
    )
    per_step: Positive | Amount | Annotated[list[Positive], Field(max_length=MAX_ACTIONS)] | None = Field(
        None,
        description="Cost of a change to the next value, or a list with the cost of each of these steps; null: "
        "given in another way.",
    )
    change: (
        Positive
        | Amount
        | Annotated[list[Annotated[list[Number], Field(max_length=60)]], Field(min_length=1, max_length=60)]
        | None
    ) = Field(
        None, description="Cost of any change, or a matrix with the cost of each change; null: given in another way."
    )
    together: Words = Field(
        "", description="Knobs with the same word are changed together, and only the most expensive change is paid."
    )
    ordered: bool | None = Field(
        None, description="Whether neighbours in the list are alike, for learning; null: as for `hc.knob`."
    )


class PolicyGiven(Request):
    """Which settings there are, what moving between them costs, and what decides."""

    name: Name = ""
    actions: (
        Annotated[list[Number], Field(min_length=1, max_length=MAX_ACTIONS)]
        | Annotated[list[Point], Field(min_length=1, max_length=MAX_ACTIONS)]
        | Annotated[dict[Words, Row | KnobGiven], Field(min_length=1, max_length=16)]
        | None
    ) = Field(
        None,
        description="Numbers; points; a grid as axes by name, each a list or a knob; or null with a matrix as metric.",
    )
    labels: Annotated[list[Label], Field(max_length=MAX_ACTIONS)] | None = Field(
        None, description="Names of the settings, in their order; null: their values are their names."
    )
    metric: (
        Literal["euclidean", "cityblock", "chebyshev"]
        | Annotated[list[Annotated[list[Number], Field(max_length=MAX_MATRIX)]], Field(max_length=MAX_MATRIX)]
    ) = Field("euclidean", description="Name of a metric, or the matrix of movement costs.")
    scale: Positive | Amount | Annotated[list[Positive | Amount], Field(min_length=1, max_length=64)] = Field(
        1.0, description="Movement cost per unit of each coordinate, or a price such as `20 Wh/m`."
    )
    fixed_cost: Annotated[float, Field(ge=0, le=MAX_NUMBER, allow_inf_nan=False)] | Amount = Field(
        0.0, description="Fixed cost of every move; also as text, such as `0.5 EUR per change`."
    )
    directed: bool = Field(False, description="Whether a move and its reverse may have different costs.")
    rho: Positive = Field(
        1.0,
        description="Weight of the service cost: movement costs are divided by it. All sums are in units of what is "
        "measured.",
    )
    policy: PolicyName = Field("recommended", description="Name of the policy that decides.")
    options: Options = Field(
        default_factory=lambda: Options.model_validate({}), description="Options of the policy, as in Python."
    )
    units: UnitsGiven = Field(
        UnitsGiven.model_validate({}), description="Units of settings, measurements and contexts."
    )
    context_names: Annotated[list[Words], Field(max_length=MAX_CONTEXT)] | None = Field(
        None, description="Names of the numbers of a context; null: they have none."
    )


class SettingsGiven(PolicyGiven):
    """What can be changed on a running controller."""

    limits: LimitsGiven = Field(
        default_factory=lambda: LimitsGiven.model_validate({}), description="Limits of the machine; none by default."
    )
    guard: GuardGiven | None = Field(
        None, description="What sends the machine to a safe setting after a high measurement; null: nothing."
    )
    max_pending: Annotated[int, Field(ge=1, le=1000), AS_WHOLE] = Field(
        1, description="Number of decisions that may wait for their measurement."
    )
    deadline_s: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] | None = Field(
        None,
        description="A decision not told within this number of seconds is stale; nobody asking for that long after "
        "the last round is silence. Null: neither is watched.",
    )
    fallback: Setting | None = Field(
        None,
        description="Setting to run while a decision is stale, in modes advise and act; null: it stays where it is.",
    )
    fallback_index: Action | None = Field(
        None, description="Index of that setting, counted from 0, instead of `fallback`."
    )
    trial: TrialGiven | None = Field(None, description="A trial that measures the gain; null: none.")
    zone: Zone = Field("", description="The plant's time zone, for the page and for exports; empty: UTC.")


class ReadingsOptions(Request):
    """How a plant's table is written, where that is left open: as in `holdcourse backtest --log`."""

    time: Words | None = Field(
        None,
        description="Column of the time, or columns of date and time of day: two names and a comma; null: the "
        "rows are in order of time.",
    )
    timezone: Words | None = Field(
        None, description="Time zone of times without one: `Europe/Oslo`, `+01:00`; null: not needed."
    )
    time_format: Words | None = Field(
        None, examples=["%d/%m/%Y %H:%M"], description="Format of the times; null: it is found."
    )
    separator: Words | None = Field(
        None,
        description="Separator of cells: one sign, or `comma`, `semicolon`, `tab`, `bar` or `space`; null: it is "
        "found.",
    )
    decimal: Words | None = Field(None, description="Decimal sign: `point` or `comma`; null: it is found.")
    thousands: Words | None = Field(
        None, description="Separator of thousands: `comma`, `point`, `space` or `apostrophe`; null: it is found."
    )
    encoding: Words | None = Field(
        None, description="Encoding of the text, such as `utf-8` or `cp1252`; null: it is found."
    )
    header_line: Annotated[int, Field(ge=1, le=10**6), AS_WHOLE] | None = Field(
        None, description="Line with the names of the columns, counted from 1; null: it is found."
    )
    sheet: Words | None = Field(None, description="Sheet of an Excel file; null: it has only one.")
    missing: Words | None = Field(
        None, description="Other texts that stand for a missing number, such as `-9999`; null: none."
    )


class ReadingsGiven(ReadingsOptions):
    """A plant's own table to start from: which settings there are, and what was measured."""

    file: Annotated[str, Field(max_length=MAX_TABLE * 4 // 3 + 4)] = Field(
        description="The file as base64: CSV, Excel or Parquet."
    )
    file_name: Words = Field("readings", description="Name of the file, for messages.")
    action: Words = Field(description="Column of the setting that ran.")
    cost: Words = Field(description="Column of what was measured.")
    context: Annotated[str, Field(max_length=2000)] = Field(
        description="What was known before, separated by commas: columns, or expressions of them.",
        examples=["load, outdoor, hour, load@-1"],
    )
    bins: Annotated[int, Field(ge=2, le=60), AS_WHOLE] | None = Field(
        None,
        description="Number of values to which settings that vary continuously are rounded; null: they are taken "
        "as they are.",
    )
    named: bool = Field(False, description="Whether settings are names, even if they look like numbers.")
    duplicates: Literal["refuse", "first", "last", "keep"] = Field(
        "refuse",
        description="What to do with different rows of the same time: refuse them, or keep the first, the last, "
        "or all.",
    )


class Config(SettingsGiven):
    """A controller: what it may do, how it decides, and what it knows from before."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "turbine-1",
                    "name": "Kite over the north field",
                    "actions": [100.0, 150.0, 200.0, 300.0],
                    "scale": "10 Wh/m",
                    "policy": "recommended",
                    "limits": {"min_dwell": 2, "max_step": "150 m"},
                    "mode": "shadow",
                    "deadline_s": 7200,
                    "units": {"action": "m", "measurement": "kWh", "contexts": ["m/s"]},
                    "context_names": ["wind"],
                    "start": 100.0,
                    "history": [[100.0, 7.5, 3.1], [200.0, 7.5, 2.2]],
                }
            ]
        }
    )

    id: Id = Field(description="Name of the controller in addresses; it never changes.")
    start: Setting | None = Field(None, description="Where the machine is; null: at the first setting.")
    start_index: Action | None = Field(None, description="Index of that setting, counted from 0, instead of `start`.")
    seed: Annotated[int, Field(ge=0, lt=2**63, description="Seed of every random number."), AS_WHOLE] = 0
    mode: Mode = Field("act", description="Who moves the machine: see the modes of a controller.")
    history: Annotated[list[tuple[Setting, Context, Number]], Field(max_length=MAX_HISTORY)] | None = Field(
        None, description="Past measurements, oldest first: [setting, context, measurement]; null: none."
    )
    history_index: Annotated[list[tuple[Action, Context, Number]], Field(max_length=MAX_HISTORY)] | None = Field(
        None, description="Past measurements by the index of the setting, instead of `history`; null: none."
    )
    readings: ReadingsGiven | None = Field(
        None,
        description="A plant's own table, instead of `history`. Settings, units and names of contexts are those of "
        "the table unless given, and the machine is where the newest row says.",
    )
    policy_file: Annotated[str, Field(max_length=MAX_FILE)] | None = Field(
        None,
        description="A policy that was saved, as base64. It says which actions there are, what moving costs, how it "
        "decides and what it has learned: leave these out. Limits and units are its own unless given. Null: none.",
    )

    @model_validator(mode="after")
    def _check_file(self) -> Config:
        given = self.model_fields_set.intersection(SAID_BY_FILE) if self.policy_file is not None else ()
        if given:
            raise ValueError(f"the policy's file has its own {min(given)}; leave out {', '.join(sorted(given))}")
        return self


class Changes(SettingsGiven):
    """A part of the settings; what is left out stays as it is. Actions, movement costs, limits or policy begin a new
    epoch.
    """  # noqa: D205 - one sentence and a half

    ELSEWHERE: ClassVar[Mapping[str, str]] = {
        "mode": "the mode is set with POST .../mode",
        "override": "an override is set with POST .../override",
        "start": "the machine is moved with POST .../override, and an episode begins with POST .../episode",
        "id": "the id of a controller never changes; the name that people see is name",
        "seed": "the seed never changes; create another controller",
        "history": "past measurements are given when a controller is created; create another one",
    }

    model_config = ConfigDict(json_schema_extra={"examples": [{"limits": {"min_dwell": 4}, "reason": "a new gearbox"}]})

    reason: Reason = Field("", description="Why, in words; it is recorded.")


def _check_length(forecast: Any) -> Any:
    """Refuse a long forecast before its numbers are looked at: these would take long to look through."""
    if isinstance(forecast, list) and len(forecast) > MAX_FORECAST:
        raise ValueError(
            f"a forecast may reach at most {MAX_FORECAST} rounds ahead, but this one reaches {len(forecast)}"
        )
    return forecast


Time = Annotated[str, Field(max_length=40, examples=["2026-03-01T07:00Z"])]
Heights = Annotated[list[Positive], Field(min_length=1, max_length=MAX_HEIGHTS)]
Speeds = Annotated[list[Number | None], Field(max_length=MAX_HEIGHTS)]


class Profile(Request):
    """What was measured at several heights at once, by a lidar, say; null where nothing was."""

    heights: Heights = Field(description="Heights, in metres above ground.")
    speeds: Speeds = Field(description="Wind speeds in m/s, one for each height; null: none was measured there.")


class ProfileForecast(Request):
    """A forecast of profiles, for the wind policy."""

    times: Annotated[list[Time | Number], Field(min_length=1, max_length=MAX_FORECAST)] = Field(
        description="Ascending times: ISO 8601 with a zone, or hours since 1970."
    )
    heights: Heights = Field(description="Heights, in metres above ground.")
    speeds: Annotated[list[Speeds], Field(max_length=MAX_FORECAST)] = Field(
        description="Wind speeds in m/s, one row for each time; null: there is no forecast."
    )
    std: Number | Annotated[list[Number], Field(max_length=MAX_FORECAST)] | None = Field(
        None,
        description="Standard deviation that the forecaster states, in m/s: one number, or one for each time; "
        "null: none is stated.",
    )


class AskGiven(Request):
    """A question: which action now."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"context": 7.5},
                {"context": [7.5, 18.0], "round": 12},
                {"time": "2026-03-01T07:00Z", "within": [None, 250.0]},
            ]
        }
    )

    context: Context = Field(None, description="What is known before the decision, as numbers; null: nothing is.")
    time: Time | None = Field(
        None,
        description="Time of the round: ISO 8601 with a zone, instead of `context` if contexts are times; null: "
        "not given.",
    )
    allowed: (
        Annotated[list[StrictBool], Field(max_length=MAX_ACTIONS)]
        | Annotated[list[Setting], Field(max_length=MAX_ACTIONS)]
        | None
    ) = Field(None, description="The settings that may be chosen, or one boolean per setting; null: all.")
    forecast: Annotated[
        Annotated[list[Number], Field(fail_fast=True)]
        | Annotated[list[Annotated[list[Number], Field(max_length=MAX_CONTEXT, fail_fast=True)]], Field(fail_fast=True)]
        | None,
        BeforeValidator(_check_length),
    ] = Field(None, description="Contexts of the next rounds, as far as they are known; null: none is.")
    profiles: ProfileForecast | None = Field(
        None, description="Forecast of profiles, instead of `forecast`, for the wind policy; null: none."
    )
    within: Annotated[list[Number | None], Field(min_length=2, max_length=2)] | None = Field(
        None,
        description="Lowest and highest setting that may be chosen now, such as the limits of the airspace; null: "
        "no limit.",
    )
    round: Whole | None = Field(
        None,
        description="Number of the round that is meant; asking it again gives the same answer. Null: the round "
        "that waits for its measurement, or else the next one.",
    )

    @model_validator(mode="after")
    def _check_once(self) -> AskGiven:
        for one, other in (("context", "time"), ("forecast", "profiles")):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ValueError(f"{one} and {other} say the same thing in two ways; give one of them")
        return self


class TellGiven(Request):
    """What was measured, and the setting that really ran if it was another."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"decision": "r12", "measurement": 2.25}]})

    decision: DecisionId
    measurement: Number | None = Field(None, description="What was measured; null, or left out: a profile contains it.")
    profile: Profile | None = Field(
        None, description="What was measured at several heights at the same time, for the wind policy; null: nothing."
    )
    applied: Setting | None = Field(
        None,
        description="Setting that really ran; null: the one that was answered, or the fallback while the "
        "measurement was late.",
    )
    applied_index: Action | None = Field(
        None, description="Index of that setting, counted from 0, instead of `applied`."
    )
    epoch: Epoch = None
    reference: Number | None = Field(
        None,
        description="Signal that varies with the measurement and that no decision affects, for trials; null: none.",
    )

    @model_validator(mode="after")
    def _check_measured(self) -> TellGiven:
        if self.measurement is None and self.profile is None:
            raise ValueError("give the measurement; if nothing was measured: POST .../skip")
        return self


class Skip(Request):
    """Nothing was measured in this round."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"decision": "r12"}]})

    decision: DecisionId
    applied: Setting | None = Field(
        None,
        description="Setting that really ran; null: the one that was answered, or the fallback while the "
        "measurement was late.",
    )
    applied_index: Action | None = Field(
        None, description="Index of that setting, counted from 0, instead of `applied`."
    )
    epoch: Epoch = None


Key: TypeAlias = Annotated[
    str | None,
    Field(
        pattern=r"^[!-~]{1,200}$", description="Key, as the header `Idempotency-Key` of a single request; null: none."
    ),
]


class AskOf(AskGiven):
    """A question to one controller among several."""

    controller: Id = Field(description="Id of the controller.")
    key: Key = None


class TellOf(Request):
    """What was measured on one controller among several; no measurement and no profile: nothing was."""

    controller: Id = Field(description="Id of the controller.")
    decision: DecisionId
    measurement: Number | None = Field(
        None, description="What was measured; null: nothing was, or a profile contains it."
    )
    profile: Profile | None = Field(
        None, description="What was measured at several heights at the same time, for the wind policy; null: nothing."
    )
    applied: Setting | None = Field(
        None,
        description="Setting that really ran; null: the one that was answered, or the fallback while the "
        "measurement was late.",
    )
    applied_index: Action | None = Field(
        None, description="Index of that setting, counted from 0, instead of `applied`."
    )
    epoch: Epoch = None
    reference: Number | None = Field(
        None,
        description="Signal that varies with the measurement and that no decision affects, for trials; null: none.",
    )
    key: Key = None


class AsksGiven(Request):
    """Questions to many controllers, each answered on its own."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"asks": [{"controller": "turbine-1", "context": 7.5, "key": "2026-03-01T07"}]}]
        }
    )

    asks: Annotated[list[AskOf], Field(min_length=1, max_length=MAX_AT_ONCE)] = Field(
        description="Questions; each is answered on its own."
    )


class TellsGiven(Request):
    """What was measured on many controllers, each taken in on its own."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"tells": [{"controller": "turbine-1", "decision": "r12", "measurement": 2.25}]}]
        }
    )

    tells: Annotated[list[TellOf], Field(min_length=1, max_length=MAX_AT_ONCE)] = Field(
        description="Measurements; each is taken in on its own."
    )


class Retraction(Request):
    """What was measured in this round is taken back: it does not count any more."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"decision": "r12", "reason": "the sensor was unplugged"}]}
    )

    decision: DecisionId
    reason: Annotated[str, Field(max_length=500, pattern=r"\S", description="Why, in words; it is recorded.")]


class OverrideGiven(Request):
    """Hold the machine at a setting; null hands it back."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"setting": 100.0, "reason": "inspection"}, {"setting": None}]}
    )

    setting: Setting | None = Field(
        None,
        description="Setting at which to hold the machine: its label, a number, a point, or grid values by name; "
        "null: the policy gets control back.",
    )
    setting_index: Action | None = Field(
        None, description="Index of that setting, counted from 0, instead of `setting`."
    )
    reason: Reason = Field("", description="Why, in words; it is recorded.")
    force: Force = False

    @model_validator(mode="after")
    def _check_reason(self) -> OverrideGiven:
        if not self.model_fields_set & {"setting", "setting_index"}:
            raise ValueError("say where to hold the machine: a setting, or null to hand it back")
        if self.force and self.setting is None and self.setting_index is None:
            raise ValueError("force is for a setting; leave it out to hand the machine back")
        _check_force(self.force, self.reason)
        return self


class ModeChange(Request):
    """Another mode from now on."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"mode": "advise", "reason": "first week"}]})

    mode: Mode = Field(description="Who moves the machine from now on: see the modes of a controller.")
    reason: Reason = Field("", description="Why, in words; it is recorded.")


class Acknowledgement(Request):
    """Somebody has seen an open alarm. It stays open; a new one of the same kind is not acknowledged."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"remark": "the line is down until noon", "at": "2026-03-01T12:00:00.000+00:00"}]
        }
    )

    remark: Reason = Field("", description="What you say of it, which is recorded; may be empty.")
    at: Annotated[str, Field(max_length=40)] | None = Field(
        None, description="When the alarm was raised; null: the alarm that is open now."
    )


class Archiving(Request):
    """Archive a controller, or restore it, and why."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "the mill was dismantled"}]})

    reason: Annotated[str, Field(max_length=500, pattern=r"\S", description="Why, in words; it is recorded.")]


class EpisodeGiven(Request):
    """End the episode; the next one begins at `start`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"start": 100.0}]})

    start: Setting | None = Field(
        None,
        description="Setting at which the next episode begins: its label, a number, a point, or grid values by "
        "name; null: `start_index` says it.",
    )
    start_index: Action | None = Field(None, description="Index of that setting, counted from 0, instead of `start`.")
    force: Force = False
    reason: Reason = Field("", description="Why it is forced; recorded only then.")

    @model_validator(mode="after")
    def _check_reason(self) -> EpisodeGiven:
        _check_one(self, "start")
        _check_force(self.force, self.reason)
        return self


def _check_one(given: BaseModel, name: str) -> None:
    """Raise unless a setting is given by its name or by its index."""
    if (getattr(given, name) is None) == (getattr(given, f"{name}_index") is None):
        raise ValueError(f"give {name}, a setting, or {name}_index, and not both")


def _check_force(force: bool, reason: str) -> None:
    if force and not reason.strip():
        raise ValueError("force needs a reason, which goes into the record")


def plain(model: BaseModel, **which: Any) -> dict[str, Any]:
    """Return a request in JSON values, as the record holds it."""
    return model.model_dump(mode="json", **which)


class SilenceGiven(Request):
    """Silence the alarms of a controller, or of a kind, until a time; if neither is given, all alarms."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"until": "2026-03-01T07:00:00Z", "controller": "turbine-1", "reason": "maintenance"}]
        }
    )

    until: str = Field(max_length=40, description="A time with its zone.")
    controller: str | None = Field(
        None, pattern=r"^[a-z0-9_-]{1,64}$", description="Id of the controller, or fleet; null: all."
    )
    kind: str | None = Field(
        None, pattern=r"^[a-z_]{1,40}$", description="Kind of alarm, such as `silent`; null: all kinds."
    )
    reason: Reason = Field("", description="Why, in words; may be empty.")
