"""Would other settings have paid off on a plant? Policies in a world fitted to the plant's own readings."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.backtest.evidence import Interval, Judge, Support, blocks_of, supported
from holdcourse.backtest.readings import Readings
from holdcourse.backtest.verdict import Verdict, compared, judged, line_of, runnable, verdict
from holdcourse.checks import is_finite
from holdcourse.deciding.named_policies import make_policy
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.registry import label_of
from holdcourse.deciding.rules import Stay
from holdcourse.errors import InvalidInput, shown
from holdcourse.learning.history import History
from holdcourse.learning.posteriors.readings import absurd
from holdcourse.movement.offline import best_fixed, optimal_path
from holdcourse.movement.problem import Problem, check_problem
from holdcourse.running.controller import Controller
from holdcourse.running.limits import Limits
from holdcourse.units import beside, quantity, rate
from holdcourse.worlds.logged import UNSURE, LoggedWorld
from holdcourse.worlds.simulation import measurement_noise, previous_actions, simulate

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

MakePolicy: TypeAlias = Callable[[str, Problem, Mapping[str, Any], Mapping[str, Any]], Policy]
Progress: TypeAlias = Callable[[str, float, float], None]

POLICIES = ("recommended", "stationary")
AS_RUN, FIXED, BEST_FIXED, CLAIRVOYANT = "as-run", "fixed", "best-fixed", "clairvoyant"  # done, and might have been
MOST_GUESSED = 0.3  # share of rounds; above, a saving is no evidence
FEWEST_ROWS = 40  # half of them act, half of them judge
KWH = {"W": 1e-3, "kW": 1.0, "MW": 1e3, "GW": 1e6, "Wh": 1e-3, "kWh": 1.0, "MWh": 1e3, "GWh": 1e6}
KWH |= {"J": 1 / 3.6e6, "kJ": 1 / 3600, "MJ": 1 / 3.6, "GJ": 1e3 / 3.6}
LIMITS = {
    "min_dwell": "minimum dwell time",
    "max_step": "largest change at once",
    "max_step_cost": "most that a move may cost",
    "max_moves": "number of moves",
}
POWER = ("W", "kW", "MW", "GW")
WEIGHTS = {"recommended": 12.0, "planner": 6.0}  # of a policy's rounds, for the time left


@dataclass(frozen=True)
class Line:
    """One row of the result: a policy, and what it costs by the judge.

    Attributes
    ----------
    saved, low, high
        By how many percent of what the actions that ran cost it costs less, with the 95 % interval. NaN where costs
        are of both signs and all but cancel.
    guessed
        Share of rounds in settings of which the readings say next to nothing.
    """

    policy: str
    service: float
    movement: float
    total: float
    saved: float
    guessed: float
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Value:
    """What a sum of costs is worth.

    Attributes
    ----------
    unit
        Unit of a cost; empty if it is not known.
    kwh
        How many kWh one cost is; None where it is no energy.
    price
        Price of one kWh; None if it was not given.
    currency
        Of the price; empty if it was not given.
    total_unit
        Unit of a sum of costs over the rounds: kWh of a power, EUR of EUR/h; that of a cost where the length of a round
        is not known.
    total
        How many of these one cost is.
    """

    unit: str = ""
    kwh: float | None = None
    price: float | None = None
    currency: str = ""
    total_unit: str = ""
    total: float = 1.0

    @classmethod
    def of(cls, unit: str | None, step_hours: float | None, price: float | None = None, currency: str = "") -> Value:
        """Return it for a column of this unit: power is energy by the time between readings."""
        if unit not in KWH or (unit in POWER and not step_hours):
            paid = rate(unit or "")
            total = (unit or "", 1.0) if paid is None or not step_hours else (paid[0], step_hours / paid[1])
            return cls(unit or "", None, price, currency, *total)
        kwh = KWH[unit] * (step_hours or 1.0 if unit in POWER else 1.0)
        return cls(unit, kwh, price, currency, "kWh", kwh)

    def words(self, low: float, middle: float, high: float) -> str:
        """Return a saving in kWh and money, with its bounds; in the unit of the costs where it is no energy."""
        bounds = f"({amount(self.total * low)} to {amount(self.total * high)})"
        if not self.total_unit:
            return f"{amount(middle)} {bounds} in the unit of the costs"
        text = f"{amount(self.total * middle)} {self.total_unit} {bounds}"
        if self.total_unit == self.unit and (quantity(self.unit) not in ("energy", None) or rate(self.unit)):
            return f"{text}, summed over the readings"  # of a power or a latency, which no clock makes an amount
        if self.kwh is not None and self.price is not None:
            worth = self.kwh * self.price
            least, most = sorted((worth * low, worth * high))
            text += f", worth {beside(amount(worth * middle), self.currency)} ({amount(least)} to {amount(most)})"
        return text


@dataclass(frozen=True, eq=False)
class PlantBacktest:
    """Result of a backtest of policies on a plant's own readings.

    Attributes
    ----------
    world
        The world that the policies acted in, fitted to one half of the readings, with its error on the other half.
    measured
        Sum of the costs that were measured, rho included.
    lines
        The policies, cheapest first.
    notes
        Notes that a reader must know.
    support
        How far the readings can tell; None if no policy could be judged.
    against
        Savings of the policy judged compared with what was done, with the best setting of one half, and with the best
        setting in hindsight.
    value
        Unit and price of the costs.
    taken
        Actions of each policy, (t,).
    blocks
        Block of time of each reading, (t,).
    limits
        Limits of the machine, in words; empty if there are none.
    saved_each
        Saving of the policy judged in each round compared with what was done, (t,).
    readings
        Table of the readings; None if they were given as a `History`.
    make
        Function that made the policies.

    Examples
    --------
    >>> import holdcourse as hc
    >>> table = {"load": [1, 2, 3, 4] * 12, "setting": [6, 8] * 24, "kWh": [3, 5, 4, 3] * 12}
    >>> readings = hc.read_readings(table, action="setting", cost="kWh", context="load")
    >>> found = hc.backtest_plant(readings.problem(), readings, ("cgp-lcb",))
    >>> found.verdict
    'too few'
    >>> found.conclusion[:29]
    'These readings cannot tell. T'
    """

    world: LoggedWorld
    measured: float
    lines: tuple[Line, ...]
    notes: tuple[str, ...]
    support: Support | None = None
    against: Mapping[str, Interval] = field(default_factory=dict)
    value: Value = Value()
    taken: Mapping[str, Indices] = field(default_factory=dict)
    blocks: Indices | None = None
    limits: str = ""
    saved_each: Array | None = None
    readings: Readings | None = None
    make: MakePolicy = make_policy

    def line(self, policy: str) -> Line:
        """Return the line of one policy."""
        return line_of(self.lines, policy)

    @property
    def judged(self) -> Line | None:
        """Policy that the answer is about: `recommended`, or else the best policy that could run at a plant."""
        return judged(runnable(self.lines, ("stationary", AS_RUN, FIXED, BEST_FIXED)), "recommended")

    @property
    def verdict(self) -> Verdict:
        """Answer as a word: "yes", "no", "undecided", "too few" readings, or "no comparison"."""
        best = self.judged
        if best is None or not self.world.held_out.useful:
            return verdict(math.nan, math.nan, comparable=False)
        if self.support is not None and not self.support.enough:
            return verdict(math.nan, math.nan, enough=False)
        if best.guessed > MOST_GUESSED:
            return verdict(-math.inf, math.inf)
        done = self.against.get(AS_RUN)  # as an amount: it has a sign also where a percentage says nothing
        return verdict(best.low, best.high) if done is None else verdict(done.low, done.high)

    @property
    def conclusion(self) -> str:
        """Answer in a few sentences, even if it is no."""
        best = self.judged
        if best is None:
            return "No policy that could run at the plant was tried, so there is nothing to conclude."
        if self.support is not None and not self.support.enough:
            return f"These readings cannot tell. {' '.join(self.support.reasons)} {' '.join(self.support.advice)}"
        if not self.world.held_out.useful:
            return (
                "A model of one half of these readings predicts the other half no better than the mean, so there is "
                "nothing to conclude. Add as contexts what else the cost depends on."
            )
        done = self.against.get(AS_RUN)
        model = "According to a model of these readings"
        if math.isnan(best.saved) and done is not None:
            saved = self.value.words(done.low, done.saved, done.high)
            sentence = f"{model}, {best.policy} would have saved {saved} compared with what was done"
            sentence += " (95 % interval for a period like this; no percentage, because costs have both signs)"
        else:
            sentence = f"{model}, {best.policy} would have cost {_less(best)} than what was done"
            sentence += f" (95 % interval for a period like this: {_range(best.low, best.high)})"
        if best.guessed > MOST_GUESSED:
            guessed = f"{100 * best.guessed:.0f} % of its rounds"
            return f"{sentence}; but in {guessed} the model is guessing, so the readings cannot tell."
        ending = {
            "yes": "it would have paid off here",
            "no": "it would not have paid off here",
            "undecided": "it is too close to call",
        }.get(self.verdict, "there is nothing to conclude")
        return f"{sentence}: {ending}.{self._beside()}"

    def _beside(self) -> str:
        """What the saving is worth, and how it compares with a better fixed setting."""
        words = ""
        done, chosen = self.against.get(AS_RUN), self.against.get(FIXED)
        if done is not None and not math.isnan(done.of):
            words += f" It would have saved {self.value.words(done.low, done.saved, done.high)}."
        if chosen is not None and FIXED in self.taken:
            shown = self.world.problem.named(int(self.taken[FIXED][-1]))
            words += f" Compared with always running {shown}, the best fixed setting in half of the readings, it would "
            if math.isnan(chosen.of):
                words += f"have saved {self.value.words(chosen.low, chosen.saved, chosen.high)}"
            else:
                percent, low, high = chosen.percent
                words += f"have cost {compared(percent, 'less', 'more')} (95 % interval: {_range(low, high)})"
            words += (
                ", so following the conditions pays more than a better fixed setting."
                if chosen.low > 0
                else (
                    ": that fixed setting would have done as well or better."
                    if chosen.high < 0 or chosen.saved <= 0
                    else ": that fixed setting may do as well."
                )
            )
        return words

    def as_values(self) -> dict[str, Any]:
        """Return the result in JSON values."""
        return {
            "model_based": True,
            "rounds": len(self.world.readings),
            "held_out": asdict(self.world.held_out) | {"useful": self.world.held_out.useful},
            "measured": self.measured,
            "verdict": self.verdict,
            "policies": [finite_values(asdict(line)) for line in self.lines],
            "against": {name: finite_values(asdict(interval)) for name, interval in self.against.items()},
            "support": None if self.support is None else asdict(self.support) | {"enough": self.support.enough},
            "value": asdict(self.value),
            "limits": self.limits,
            "conclusion": self.conclusion,
            "notes": list(self.notes),
        }


def _names(given: Any, what: str, example: str) -> tuple[str, ...]:
    """The names in a list, an array or an index of a frame; raises unless all are texts."""
    listed = isinstance(given, Iterable) and not isinstance(given, str) and getattr(given, "ndim", 1) == 1
    names = tuple(given) if listed else (None,)
    if not all(isinstance(name, str) for name in names):
        raise InvalidInput(f"{what} must be a list of names, such as {example}, got {shown(given)}")
    return names


def backtest_plant(
    problem: Problem,
    readings: Readings | History,
    policies: Sequence[str] = POLICIES,
    *,
    rho: float = 1.0,
    seed: int = 0,
    context_names: Sequence[str] | None = None,
    step_hours: float | None = None,
    price: float | None = None,
    currency: str = "",
    limits: Limits | None = None,
    make: MakePolicy = make_policy,
    judge: Callable[[], Judge] | None = None,
    progress: Progress | None = None,
) -> PlantBacktest:
    """Run policies in a world fitted to one half of a plant's readings, and judge them with the other half.

    The contexts of all readings are replayed. Every policy begins at the first action of the readings. Learners begin
    knowing the fitted kernel and nothing else.

    Parameters
    ----------
    problem
        The settings, and what moving between them costs: `Readings.problem`, or one of your own that has the settings
        of the readings.
    readings
        Readings of the plant.
    policies
        Names of policies, such as ``"recommended"`` or ``"gp-md"``.
    rho
        Weight of the service cost.
    seed
        Seed of every random number in the run.
    context_names
        Names of the numbers of a context, in words; default: those of the readings.
    step_hours
        Hours from one reading to the next, if they are regular; default: those of the readings, if these have times.
    price
        Price of one kWh; the saving is then also given in money.
    currency
        Currency of the price, such as ``"EUR"``.
    limits
        Limits of the machine in operation, such as the largest step and the minimum dwell time.
    make
        Function that makes the policy of a name, given the problem, what a learner knows, and its options; default: the
        policies of the table.
    judge
        Function that returns the judge, if `judge_of` the same readings was called elsewhere in the meantime.
    progress
        Function that is called with what is being done, the amount done and the total.

    Examples
    --------
    The plant of this example costs least at a setting that follows the load.

    >>> import numpy as np
    >>> import holdcourse as hc
    >>> rng = np.random.default_rng(0)
    >>> load = 60 + 20 * np.sin(np.arange(120) * np.pi / 12)
    >>> setting = 6.0 + rng.integers(3, size=20).repeat(6)
    >>> table = {"load": load, "setting": setting, "kWh": 50 + 9 * (setting - 4 - load / 20) ** 2}
    >>> readings = hc.read_readings(table, action="setting", cost="kWh", context="load")
    >>> found = hc.backtest_plant(readings.problem(scale=0.5), readings, ("planner",))
    >>> found.verdict
    'yes'
    >>> hc.plant_policy(found).name  # to be saved, or run by a `Controller`
    'Planner'
    """
    check_problem(problem)
    if not isinstance(readings, Readings | History):
        raise InvalidInput(f"readings must come from hc.read_readings, or be a History, got {shown(readings)}")
    policies = _names(policies, "policies", "['recommended', 'stationary']")
    if context_names is not None:
        context_names = _names(context_names, "context_names", "['load']")
    if step_hours is not None and not (is_finite(step_hours) and step_hours > 0):
        raise InvalidInput(
            f"step_hours must be above 0, the hours from one reading to the next, got {shown(step_hours)}"
        )
    if price is not None and not (is_finite(price) and price >= 0):
        raise InvalidInput(f"price must be 0 or more, for one unit of the cost, got {shown(price)}")
    if not isinstance(currency, str):
        raise InvalidInput(f"currency must be text, such as 'EUR', got {shown(currency)}")
    step_hours = None if step_hours is None else float(step_hours)
    table = readings if isinstance(readings, Readings) else None
    if isinstance(readings, Readings):
        context_names = readings.context if context_names is None else context_names
        step_hours = readings.step if step_hours is None else step_hours
        readings = readings.about(problem)
    steps = _Steps(policies, progress)
    steps.begin("fitting a model")
    if len(readings) < FEWEST_ROWS:
        LoggedWorld.check(problem, readings, rho)  # what is wrong with them otherwise comes first
        raise InvalidInput(
            f"a backtest needs {FEWEST_ROWS} rows or more, because policies run in one half of them and are judged by "
            f"the other; got {len(readings)}"
        )
    blocks = blocks_of(len(readings), step_hours)
    acting = blocks % 2 == 0
    world = LoggedWorld.fit(problem, readings, rho=rho, seed=seed, rows=acting)
    steps.done(FIT_WEIGHT)
    contexts, start = world.contexts, int(readings.actions[0])
    believed = np.array([world.costs(t, context) for t, context in enumerate(contexts)])
    rows = np.arange(len(contexts))
    knows, acted = known_to_learners(world), {}
    for name in policies:
        steps.begin(label_of(name))
        acted[name] = _acted(make(name, problem, knows, {}), world, start, seed, limits, steps)
    steps.begin("judging")
    by = judge_of(problem, readings, rho=rho, seed=seed, step_hours=step_hours) if judge is None else judge()
    steps.done(FIT_WEIGHT)
    taken = {
        AS_RUN: readings.actions,
        FIXED: np.full(len(rows), best_fixed(believed, problem, start)),
        BEST_FIXED: np.full(len(rows), best_fixed(by.costs, problem, start)),
        CLAIRVOYANT: optimal_path(by.costs, problem, start).actions,
        **acted,
    }
    unsure = by.world.deviations[by.place] > UNSURE * float(readings.measurements.std())
    lines = []
    for name, actions in taken.items():
        service, movement = _bill(actions, by.costs, problem, start)
        saved = by.interval(actions, readings.actions, start)
        percent, low, high = saved.percent if name != AS_RUN else (0.0, 0.0, 0.0)
        guessed = float(unsure[rows, actions].mean())
        lines.append(Line(name, service, movement, service + movement, percent, guessed, low, high))
    lines.sort(key=lambda line: line.total)
    found = PlantBacktest(
        world,
        float(rho * readings.measurements.sum()),
        tuple(lines),
        tuple(_notes(world, by, context_names or ())),
        value=Value.of(problem.cost_unit or None, step_hours, price, currency),
        taken=taken,
        blocks=blocks,
        limits=""
        if limits is None
        else "; ".join(f"{LIMITS[k]} {said}" for k, said in limits.in_words(problem).items()),
        readings=table,
        make=make,
    )
    if found.judged is not None:
        ours = taken[found.judged.policy]
        names = context_names or [f"context {axis}" for axis in range(contexts.shape[1])]
        support = supported(problem, readings, ours, list(names), blocks, step_hours=step_hours)
        against = {rival: by.interval(ours, taken[rival], start) for rival in (AS_RUN, FIXED, BEST_FIXED)}
        each = by.saved_each(ours, readings.actions, start)
        found = replace(found, support=support, against=against, saved_each=each)
    steps.done(JUDGE_WEIGHT)
    return found


def judge_of(
    problem: Problem, readings: History, *, rho: float = 1.0, seed: int = 0, step_hours: float | None = None
) -> Judge:
    """Return who judges a backtest: a model of the half of the readings in which no policy acts."""
    blocks = blocks_of(len(readings), step_hours)
    seen = blocks % 2 != 0
    judge = Judge(LoggedWorld.fit(problem, readings, rho=rho, seed=seed, rows=seen), seen, blocks)
    judge.without()  # kept: it takes a while
    return judge


FIT_WEIGHT, JUDGE_WEIGHT = 1.5, 3.0  # in rounds of a simple policy, all of them


class _Steps:
    """How much of a backtest is done."""

    def __init__(self, policies: Sequence[str], progress: Progress | None) -> None:
        self.progress, self.what, self.finished = progress, "", 0.0
        self.total = 2 * FIT_WEIGHT + JUDGE_WEIGHT + sum(WEIGHTS.get(name, 1.0) for name in policies)

    def begin(self, what: str) -> None:
        """Say what is being done."""
        self.what = what
        self.tell(0.0)

    def done(self, weight: float) -> None:
        """Count a part as done."""
        self.finished += weight
        self.tell(0.0)

    def tell(self, more: float) -> None:
        """Say how much is done, with some of the part under way."""
        if self.progress is not None:
            self.progress(self.what, self.finished + more, self.total)


def _acted(policy: Policy, world: LoggedWorld, start: int, seed: int, limits: Limits | None, steps: _Steps) -> Indices:
    """Return what a policy does in a world, within limits as they act in operation."""
    weight = WEIGHTS.get(policy.name.lower(), WEIGHTS.get(policy.name, 1.0))

    def tell(done: int, total: int) -> None:
        steps.tell(weight * done / total)

    if limits is None and isinstance(policy.rule, Stay):  # every setting is allowed here: it holds its own
        home = start if policy.rule.home is None else policy.rule.home
        actions = np.full(len(world.contexts), home, dtype=np.int64)
    elif limits is None:
        actions = simulate(policy, world, world.contexts, start=start, seed=seed, progress=tell).actions
    else:
        actions = np.empty(len(world.contexts), dtype=np.int64)
        shown = policy.costs.needs_costs
        with Controller(policy, start_index=start, limits=limits, seed=seed) as controller:
            for t, context in enumerate(world.contexts):
                costs = world.costs(t, context)
                decision = controller.ask(context, costs=costs if shown else None)
                actions[t] = decision.action
                controller.tell(decision.id, world.measure(t, context, decision.action, measurement_noise(seed, t)))
                if t % 64 == 0:
                    tell(t, len(actions))
    steps.done(weight)
    return actions


def known_to_learners(world: LoggedWorld) -> dict[str, Any]:
    """Return what a learner of a backtest knows before its first round: the options of `Learning`."""
    fitted: Any = world.fitted
    kernel, mean = _scaled(fitted.kernel, world.rho), world.rho * fitted.prior_mean
    contexts = np.unique(world.contexts, axis=0)
    return {"kernel": kernel, "noise_std": world.noise_std, "prior_mean": mean, "contexts": contexts}


def in_percent(line: Line) -> tuple[str, str]:
    """Return what a policy saves, and its bounds, for a table; "?" where a percentage says nothing."""
    if math.isnan(line.saved):
        return "?", "?"
    return f"{line.saved:+.1f} %", f"{line.low:+.1f} to {line.high:+.1f} %"


def amount(number: float) -> str:
    """Return a sum for people: whole numbers where they are large."""
    return f"{number:,.0f}" if abs(number) >= 100 or number == 0 else f"{number:.3g}"


def _error(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"


def finite_values(values: dict[str, Any]) -> dict[str, Any]:
    """Return values as JSON can hold them: None for numbers that are none."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in values.items()
    }


def _less(line: Line) -> str:
    return compared(line.saved, "less", "more")


def _range(low: float, high: float) -> str:
    """Return bounds of a saving in words."""
    if low >= 0 or high <= 0:
        one, two = sorted((abs(low), abs(high)))
        return f"{one:.1f} to {two:.1f} % {'less' if low >= 0 else 'more'}"
    return f"{abs(low):.1f} % more to {high:.1f} % less"


def _notes(world: LoggedWorld, judge: Judge, context_names: Sequence[str]) -> list[str]:
    test, readings, said = world.held_out, world.readings, world.problem.cost
    notes = [
        "Model-based: every cost is an estimate of a model of the readings; none was measured.",
        "Policies ran in a model of one half of the readings (every other block of time) and were judged by a model "
        "of the other half, which they had not seen.",
        f"On {test.rows:,} rows of the other half the model's error is {said(_error(test.error))} (predicting the "
        f"mean: {said(_error(test.error_of_mean))}), and its 90 % interval contains "
        f"{100 * test.coverage:.0f} % of them.",
        "The intervals include the scatter of the period, the model's uncertainty, and its error where it could be "
        "tested. They cannot include what no reading shows: reasons of operators that are not among the contexts, or "
        "a plant that has changed.",
    ]
    wrong = np.flatnonzero(absurd(readings.measurements))
    if len(wrong):
        first = f"{readings.measurements[wrong[0]]:.6g} in row {wrong[0]}, counted from 0"
        notes.append(
            f"Readings that are off by orders of magnitude: {len(wrong)} ({first}). Correct them, or leave them out: "
            "they spoil every number here."
        )
    if not test.useful:
        notes.append("The model predicts no better than the mean, so no number here is evidence.")
    counts = np.bincount(readings.actions, minlength=world.problem.n)
    rare = [world.problem.named(int(action)) for action in np.flatnonzero(counts < 5)]
    if rare:
        these = "This setting" if len(rare) == 1 else "These settings"
        more = f" and {len(rare) - 8} more" if len(rare) > 8 else ""
        notes.append(f"{these} ran in fewer than 5 rows: {', '.join(rare[:8])}{more}.")
    return notes + [_with_names(note, context_names) for note in dict.fromkeys((*world.notes, *judge.world.notes))]


def _with_names(note: str, context_names: Sequence[str]) -> str:
    """Name the contexts in what a fit warns of: it knows them by number."""

    def named(found: re.Match[str]) -> str:
        axis = int(found[1] or 0)
        return f"length scale of {context_names[axis]}" if axis < len(context_names) else found[0]

    told = re.sub(r"context length scale(?: \(axis (\d+)\))?", named, note)
    return f"{told[:1].upper()}{told[1:]}."


def _bill(actions: Indices, costs: Array, problem: Problem, start: int) -> tuple[float, float]:
    before = previous_actions(actions, np.array([start]), np.array([len(actions)]))
    moved = problem.move_costs(before, actions)
    return float(costs[np.arange(len(actions)), actions].sum()), float(moved.sum())


def _scaled(kernel: Any, rho: float) -> Any:
    parts = tuple(replace(part, variance=rho**2 * part.variance) for part in kernel.parts)
    return parts[0] if len(parts) == 1 else replace(kernel, terms=parts)
