"""What people do without a controller, as policies: rivals for any that learns.

===================  ==================================================================================================
`stay`               the incumbent for ever
`fixed_on_history`   the setting of least mean in the history, for ever
`operators`          the incumbent, left about every 25 rounds for about 8 rounds to a setting nearby
`table`              for each bin of the contexts the median of what was measured at each setting; a move must earn
                     within a few rounds what it costs
===================  ==================================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.archive import Arrays, require_arrays
from holdcourse.checks import is_finite
from holdcourse.deciding.policy import Policy, fixed, fixed_at
from holdcourse.deciding.rules import Choice, Proximal, RuleState, View, uniform
from holdcourse.errors import InvalidInput, shown
from holdcourse.learning.costs import Estimate, KnownCosts, Nothing
from holdcourse.learning.history import History, check_context, check_contexts, check_measurement
from holdcourse.movement.problem import Problem

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

LEAVES, COMES_BACK = 1 / 25, 1 / 8  # chance in a round
NEARBY = 6  # settings among which an excursion is drawn
WHETHER, WHERE = 7, 8  # lanes of a round's random numbers
ENOUGH = 3  # readings of a setting in a bin before the table believes them


@dataclass(frozen=True, eq=False)
class Excursions:
    """Hold a setting, now and then leave it for a while to one nearby, and come back.

    Parameters
    ----------
    home
        The setting to hold.
    """

    problem: Problem
    home: int

    def begin(self, action: int, seed: int, round: int = 0) -> RuleState:  # noqa: A002
        """Start at the action, with nothing else to remember."""
        return RuleState(int(action), round, seed, {})

    def step(self, state: RuleState, view: View) -> Choice:
        """Stay, leave or come back, as the random numbers of the round say."""
        chance = uniform(state.seed, state.round, WHETHER)
        action = state.action
        if action != self.home:
            action = self.home if chance < COMES_BACK else action
        elif chance < LEAVES:
            near = np.argsort(self.problem.costs_from(self.home), kind="stable")[1 : NEARBY + 1]
            action = int(near[int(uniform(state.seed, state.round, WHERE) * len(near))])
        away = np.where(view.allowed, self.problem.costs_from(action), np.inf)
        action = int(np.argmin(away))
        probabilities = np.zeros(self.problem.n)
        probabilities[action] = 1.0
        return Choice(RuleState(action, state.round + 1, state.seed, {}), probabilities)

    def describe(self) -> dict[str, Any]:
        """What the rule is, in JSON values."""
        return {"rule": "Excursions", "home": int(self.home)}


class TableCosts:
    """A table per bin of the contexts: the median of what was measured at each setting.

    A setting with fewer than three readings in a bin is not in the bin's table, and looks more expensive than all
    that are, by more than any move costs. Where a bin has no table, that of all contexts is asked; if that is empty
    too, all look alike.

    Parameters
    ----------
    edges
        For each context number, where its bins meet.
    history
        Past readings to begin with.
    """

    needs_costs = False

    def __init__(self, problem: Problem, edges: Sequence[Sequence[float]], history: History | None = None) -> None:
        self.problem = problem
        self.edges = tuple(tuple(float(edge) for edge in own) for own in edges)
        self._farthest = 1.0 + problem.diameter
        self._told: list[tuple[int, int, float]] = []  # bin, action, measurement
        if history is not None:
            history.check(problem, len(self.edges) if len(history) else None)
            for action, context, y in zip(history.actions, history.contexts, history.measurements, strict=True):
                self._told.append((self.bin_of(context), int(action), float(y)))

    def bin_of(self, context: Array) -> int:
        """The number of the bin that a context falls into."""
        number = 0
        for value, own in zip(context, self.edges, strict=True):
            number = number * (len(own) + 1) + int(np.searchsorted(own, value, side="right"))
        return number

    def estimate(self, context: Any, shown: ArrayLike | None = None) -> Estimate:
        """The table of the context's bin."""
        costs = self._table(self.bin_of(check_context(context, len(self.edges))))
        return Estimate(costs, costs)

    def costs_at(self, contexts: ArrayLike) -> Array:
        """The tables of several contexts, shape (k, n)."""
        rows = check_contexts(contexts, len(self.edges))
        return np.array([self.estimate(row).costs for row in rows]).reshape(len(rows), self.problem.n)

    def _table(self, number: int) -> Array:
        for own in ([row for row in self._told if row[0] == number], self._told):
            actions, readings = np.array([row[1] for row in own], dtype=np.int64), np.array([row[2] for row in own])
            known = np.flatnonzero(np.bincount(actions, minlength=self.problem.n) >= ENOUGH)
            if len(known):
                medians = np.array([np.median(readings[actions == action]) for action in known])
                costs = np.full(self.problem.n, medians.max() + self._farthest)
                costs[known] = medians
                return costs
        return np.zeros(self.problem.n)

    def learn(self, action: int, context: Any, measurement: float) -> float:
        """Take in a reading; its weight is 1."""
        self.problem.check_action(action)
        number = self.bin_of(check_context(context, len(self.edges)))
        self._told.append((number, int(action), check_measurement(measurement)))
        return 1.0

    def new_episode(self) -> None:
        """Do nothing: an episode changes no table."""

    def copy(self) -> Self:
        """Make an independent twin."""
        twin = type(self)(self.problem, self.edges)
        twin._told = list(self._told)
        return twin

    def state(self) -> Arrays:
        """What was told, as arrays."""
        bins, actions, readings = zip(*self._told, strict=True) if self._told else ((), (), ())
        return {
            "bins": np.array(bins, dtype=np.int64),
            "actions": np.array(actions, dtype=np.int64),
            "measurements": np.array(readings, dtype=np.float64),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` of an equal model gave."""
        names = ("bins", "actions", "measurements")
        require_arrays(arrays, names, "a TableCosts")
        rows = zip(*(arrays[name].tolist() for name in names), strict=True)
        self._told = [(int(b), int(a), float(y)) for b, a, y in rows]
        return self

    def describe(self) -> dict[str, Any]:
        """What the model is, in JSON values."""
        return {"model": "TableCosts", "edges": [list(own) for own in self.edges]}


def stay(problem: Problem, start: int) -> Policy:
    """Always run the incumbent; if others move the machine away, move back."""
    return _named("stay", fixed_at(problem, setting_index=start))


def fixed_on_history(problem: Problem, history: History) -> Policy:
    """Always run the setting with the lowest mean cost in the history."""
    return _named("fixed", fixed(problem, history))


def operators(problem: Problem, start: int) -> Policy:
    """Follow the operators' own rule: run the incumbent, and try settings nearby now and then."""
    problem.check_action(start)
    nothing = KnownCosts(problem, Nothing(problem.n))
    return Policy("operators", Excursions(problem, int(start)), nothing, problem, ("operators", {"start": int(start)}))


def table(
    problem: Problem, edges: Sequence[Sequence[float]], history: History | None = None, *, rounds: float = 6.0
) -> Policy:
    """Follow a table of past measurements for each bin of the contexts; a move must pay off within `rounds`."""
    if not (is_finite(rounds) and rounds > 0):
        raise InvalidInput(f"rounds must be positive, got {shown(rounds)}")
    costs = TableCosts(problem, edges, history)
    made_by = ("table", {"edges": [list(own) for own in costs.edges], "rounds": float(rounds)})
    return Policy("table", Proximal(problem, 1.0 / rounds), costs, problem, made_by)


def _named(name: str, policy: Policy) -> Policy:
    return replace(policy, name=name)
