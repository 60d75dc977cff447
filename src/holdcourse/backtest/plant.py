"""Would other settings have paid off on a plant? Policies in a world fitted to the plant's own readings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.backtest.csvfile import Csv
from holdcourse.backtest.verdict import Verdict, compared, judged, line_of, runnable, verdict
from holdcourse.deciding.policy import Policy
from holdcourse.errors import InvalidInput
from holdcourse.learning.history import History
from holdcourse.movement.offline import best_fixed, optimal_path
from holdcourse.movement.problem import Problem
from holdcourse.worlds.logged import LoggedWorld
from holdcourse.worlds.simulation import previous_actions, simulate

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

MakePolicy: TypeAlias = Callable[[str, Problem, Mapping[str, Any], Mapping[str, Any]], Policy]

MOST_ACTIONS = 60
POLICIES = ("recommended", "gp-md", "cgp-lcb", "proximal-lcb", "md-known", "stationary")
AS_RUN, BEST_FIXED, CLAIRVOYANT = "as-run", "best-fixed", "clairvoyant"  # what was done, and might have been
MOST_GUESSED = 0.3  # share of rounds; above, a saving is no evidence


@dataclass(frozen=True)
class Line:
    """One row of the result: a policy, and what it costs by the model.

    Attributes
    ----------
    saved
        By how many percent of what the actions that ran cost it costs less.
    guessed
        Share of rounds in settings of which the readings say next to nothing.
    """

    policy: str
    service: float
    movement: float
    total: float
    saved: float
    guessed: float


@dataclass(frozen=True, eq=False)
class PlantBacktest:
    """Policies on a plant's own readings.

    Attributes
    ----------
    world
        The model of the plant, with its held-out error.
    measured
        Sum of the costs that were measured, rho included.
    lines
        The policies, cheapest first.
    notes
        What a reader must know.
    """

    world: LoggedWorld
    measured: float
    lines: tuple[Line, ...]
    notes: tuple[str, ...]

    def line(self, policy: str) -> Line:
        """Return the line of one policy."""
        return line_of(self.lines, policy)

    @property
    def judged(self) -> Line | None:
        """The policy that the answer is about: the recommended one, or else the best that could be run at a plant."""
        return judged(runnable(self.lines, ("stationary",)), "recommended")

    @property
    def verdict(self) -> Verdict:
        """Whether it would have paid off, as far as the readings can tell."""
        best = self.judged
        if best is None or not self.world.held_out.useful:
            return verdict(math.nan, math.nan, comparable=False)
        guessing = best.guessed > MOST_GUESSED
        return verdict(-math.inf if guessing else best.saved, math.inf if guessing else best.saved)

    @property
    def conclusion(self) -> str:
        """The answer in one sentence, also when it is no."""
        best, fixed, hindsight = self.judged, self.line(BEST_FIXED), self.line(CLAIRVOYANT)
        if not self.world.held_out.useful:
            return "The model of these readings predicts no better than the mean, so there is nothing to conclude."
        if best is None:
            return "No policy that could run at the plant was tried, so there is nothing to conclude."
        beside = f"the best fixed setting: {_less(fixed)}, perfect hindsight: {_less(hindsight)}"
        sentence = f"By a model of these readings, {best.policy} would have cost {_less(best)} than what was done"
        if best.guessed > MOST_GUESSED:
            guessed = f"{100 * best.guessed:.0f} % of its rounds"
            return f"{sentence} ({beside}); but in {guessed} the model is guessing: the readings decide nothing."
        ending = "it would have paid off here" if self.verdict == "yes" else "it would not have paid off here"
        if self.verdict == "yes" and best.total > fixed.total:
            ending = "a better fixed setting would have saved more"
        return f"{sentence} ({beside}): {ending}."

    def as_values(self) -> dict[str, Any]:
        """Return the result in JSON values."""
        return {
            "model_based": True,
            "rounds": len(self.world.readings),
            "held_out": asdict(self.world.held_out) | {"useful": self.world.held_out.useful},
            "measured": self.measured,
            "policies": [asdict(line) for line in self.lines],
            "conclusion": self.conclusion,
            "notes": list(self.notes),
        }


def read_plant(
    path: Path,
    *,
    action: str,
    cost: str,
    context: Sequence[str],
    time: str | None = None,
    bins: int | None = None,
) -> tuple[Array | list[str], History]:
    """Read a plant's readings from a CSV: the settings that were tried, and what was measured, oldest first.

    Parameters
    ----------
    action, cost, context
        Names of columns. Actions may be numbers or names.
    time
        Column to sort by, numbers or ISO dates; default the order of the rows.
    bins
        Round numeric settings to so many evenly spaced ones.

    Returns
    -------
    values, readings
        The actions, (n,) numbers or names, and the rows in terms of their indices.
    """
    table = Csv.read(path)
    if not context:
        raise InvalidInput("give at least one context= column: what was known before each decision")
    costs, contexts, texts = table.numbers([cost])[:, 0], table.numbers(context), table.texts(action)
    order = _order(table, time)
    values: Array | list[str]
    try:
        numbers = np.array([float(text) for text in texts])
    except ValueError:
        if bins is not None:
            raise InvalidInput(
                f"bins= is for numbers, but column {action!r} holds names such as {texts[0]!r}"
            ) from None
        values = sorted(set(texts))
        actions = np.array([values.index(text) for text in texts], dtype=np.int64)
    else:
        values, actions = _binned(numbers, bins, action)
    if len(values) > MOST_ACTIONS:
        raise InvalidInput(
            f"column {action!r} holds {len(values)} different settings; round them to fewer, e.g. bins=20"
        )
    return values, History(actions[order], contexts[order], costs[order])


def backtest_plant(
    problem: Problem,
    readings: History,
    make: MakePolicy,
    policies: Sequence[str] = POLICIES,
    *,
    rho: float = 1.0,
    seed: int = 0,
) -> PlantBacktest:
    """Fit a world to a plant's readings, replay their contexts, and compare policies with what was done.

    Every policy begins at the first action of the readings. Learners begin knowing the fitted kernel and nothing else.

    Parameters
    ----------
    make
        Makes the policy of a name, given the problem, what a learner knows, and options of its own.
    """
    world = LoggedWorld.fit(problem, readings, rho=rho, seed=seed)
    contexts, start = world.contexts, int(readings.actions[0])
    costs = np.array([world.costs(t, context) for t, context in enumerate(contexts)])
    taken = {AS_RUN: readings.actions, BEST_FIXED: np.full(len(costs), best_fixed(costs, problem, start))}
    taken[CLAIRVOYANT] = optimal_path(costs, problem, start).actions
    knows = known_to_learners(world)
    for name in policies:
        policy = make(name, problem, knows, {})
        taken[name] = simulate(policy, world, contexts, start=start, seed=seed).actions
    unsure = np.array([world.unsure(context) for context in contexts])
    bills = {name: _bill(actions, costs, problem, start) for name, actions in taken.items()}
    paid = bills[AS_RUN][0] + bills[AS_RUN][1]
    lines = [
        Line(
            policy=name,
            service=service,
            movement=movement,
            total=service + movement,
            saved=100 * (paid - (service + movement)) / abs(paid) if paid else 0.0,
            guessed=float(unsure[np.arange(len(costs)), taken[name]].mean()),
        )
        for name, (service, movement) in bills.items()
    ]
    lines.sort(key=lambda line: line.total)
    return PlantBacktest(world, float(rho * readings.measurements.sum()), tuple(lines), tuple(_notes(world)))


def known_to_learners(world: LoggedWorld) -> dict[str, Any]:
    """Return what a learner of a backtest knows before its first round: the options of `Learning`."""
    fitted: Any = world.fitted
    kernel, mean = _scaled(fitted.kernel, world.rho), world.rho * fitted.prior_mean
    contexts = np.unique(world.contexts, axis=0)
    return {"kernel": kernel, "noise_std": world.noise_std, "prior_mean": mean, "contexts": contexts}


def _less(line: Line) -> str:
    return compared(line.saved, "less", "more")


def _notes(world: LoggedWorld) -> list[str]:
    test, readings = world.held_out, world.readings
    notes = [
        "Model-based: every cost is what a model of the readings believes, none was measured.",
        f"Held-out error of that model: {test.error:.4g} on the newest {test.rows} rows (predicting the mean: "
        f"{test.error_of_mean:.4g}); {100 * test.coverage:.0f} % of them within its 90 % interval.",
    ]
    if not test.useful:
        notes.append("The model predicts no better than the mean: take no number here as evidence.")
    counts = np.bincount(readings.actions, minlength=world.problem.n)
    rare = [str(world.problem.value(int(action))) for action in np.flatnonzero(counts < 5)]
    if rare:
        notes.append(f"Tried in fewer than 5 rows: {', '.join(rare[:8])}{', ...' if len(rare) > 8 else ''}.")
    return notes + [f"The fit: {note}" for note in world.notes]


def _order(table: Csv, time: str | None) -> Indices:
    if time is None:
        return np.arange(len(table.cells))
    moments = []
    for line, text in zip(table.lines, table.texts(time), strict=True):
        moment = _moment(text)
        if not math.isfinite(moment):
            raise InvalidInput(
                f"{table.path}, line {line}: {text!r} is no time; write it like 2020-06-30T12:00, or as a number"
            )
        moments.append(moment)
    return np.argsort(np.array(moments), kind="stable")


def _moment(text: str) -> float:
    """Read a number, or the seconds of a date; NaN for what is neither."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return math.nan
    # Without a zone it is none of this computer's: its change to summer time would put rows into another order.
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def _binned(numbers: Array, bins: int | None, name: str) -> tuple[Array, Indices]:
    if not np.isfinite(numbers).all():
        raise InvalidInput(f"column {name!r} holds {numbers[~np.isfinite(numbers)][0]}; leave such rows out")
    if bins is None:
        values, actions = np.unique(numbers, return_inverse=True)
        return values, actions.astype(np.int64)
    if bins < 2:
        raise InvalidInput(f"bins= must be 2 or more, got {bins}")
    values = np.linspace(numbers.min(), numbers.max(), bins) if np.ptp(numbers) else numbers[:1]
    return values, np.abs(numbers[:, None] - values[None, :]).argmin(axis=1).astype(np.int64)


def _bill(actions: Indices, costs: Array, problem: Problem, start: int) -> tuple[float, float]:
    before = previous_actions(actions, np.array([start]), np.array([len(actions)]))
    moved = problem.move_costs(before, actions)
    return float(costs[np.arange(len(actions)), actions].sum()), float(moved.sum())


def _scaled(kernel: Any, rho: float) -> Any:
    parts = tuple(replace(part, variance=rho**2 * part.variance) for part in kernel.parts)
    return parts[0] if len(parts) == 1 else replace(kernel, terms=parts)
