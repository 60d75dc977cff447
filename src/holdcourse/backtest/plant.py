"""Would other settings have paid off on a plant? Policies in a world fitted to the plant's own readings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.backtest.verdict import Verdict, compared, judged, line_of, runnable, verdict
from holdcourse.deciding.policy import Policy
from holdcourse.learning.history import History
from holdcourse.movement.offline import best_fixed, optimal_path
from holdcourse.movement.problem import Problem
from holdcourse.worlds.logged import LoggedWorld
from holdcourse.worlds.simulation import previous_actions, simulate

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

MakePolicy: TypeAlias = Callable[[str, Problem, Mapping[str, Any], Mapping[str, Any]], Policy]

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


def _bill(actions: Indices, costs: Array, problem: Problem, start: int) -> tuple[float, float]:
    before = previous_actions(actions, np.array([start]), np.array([len(actions)]))
    moved = problem.move_costs(before, actions)
    return float(costs[np.arange(len(actions)), actions].sum()), float(moved.sum())


def _scaled(kernel: Any, rho: float) -> Any:
    parts = tuple(replace(part, variance=rho**2 * part.variance) for part in kernel.parts)
    return parts[0] if len(parts) == 1 else replace(kernel, terms=parts)
