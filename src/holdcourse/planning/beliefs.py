"""What the planning rule remembers: the chain of contexts, and what is believed and planned in each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.history import check_context
from holdcourse.planning.chain import Chain
from holdcourse.planning.foresight import ForecastScores
from holdcourse.rules import RuleState, View

Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Table:
    """What is known of each representative.

    Attributes
    ----------
    expected, spread
        Expected costs, and how far below them the bounds lie; (k, n).
    values
        Cost to go from each action when the context has just been seen, up to a constant; (k, n).
    refreshed
        The round in which costs were last asked; -1: never. (k,)
    """

    expected: Array
    spread: Array
    values: Array
    refreshed: Array

    def row(self, index: int) -> tuple[Array, Array]:
        """Expected costs and spread of one representative."""
        return self.expected[index], self.spread[index]

    def with_row(self, index: int, nearest: int, new: bool) -> Table:
        """Make room for a new representative, which takes over what is known of the nearest one."""
        if not new:
            return self
        tables: list[Array] = []
        for array in (self.expected, self.spread, self.values):
            grown = array.copy() if index < len(array) else np.vstack([array, np.zeros((1, array.shape[1]))])
            grown[index] = grown[nearest] if nearest >= 0 else 0.0
            tables.append(grown)
        refreshed = self.refreshed.copy() if index < len(self.refreshed) else np.append(self.refreshed, -1.0)
        refreshed[index] = -1.0
        expected, spread, values = tables
        return Table(expected, spread, values, refreshed)


@dataclass(frozen=True, eq=False)
class Memory:
    """Everything that the planning rule remembers between rounds.

    Attributes
    ----------
    available
        How often each action was allowed lately, from 0 to 1; (n,).
    """

    chain: Chain
    table: Table
    available: Array
    scores: ForecastScores

    @classmethod
    def of(cls, state: RuleState, view: View, n: int) -> Memory:
        """Read from a rule's state; empty before the first round, which says how many numbers a context has."""
        a = state.arrays
        if not a:
            dimension = len(check_context(view.context, None))
            none = np.zeros((0, n))
            table = Table(none, none, none, np.zeros(0))
            return cls(Chain.empty(dimension), table, np.ones(n), ForecastScores.empty(dimension))
        return cls(
            Chain(a["contexts"], a["counts"], a["visits"], int(a["here"][0])),
            Table(a["expected"], a["spread"], a["values"], a["refreshed"]),
            a["available"],
            ForecastScores(a["forecasts"], a["past"], a["closeness"]),
        )

    def arrays(self) -> dict[str, Array]:
        """Give the arrays that a rule's state holds."""
        chain, table, scores = self.chain, self.table, self.scores
        return {
            "contexts": chain.points,
            "counts": chain.counts,
            "visits": chain.visits,
            "here": np.array([float(chain.here)]),
            "expected": table.expected,
            "spread": table.spread,
            "values": table.values,
            "refreshed": table.refreshed,
            "available": self.available,
            "forecasts": scores.forecasts,
            "past": scores.contexts,
            "closeness": scores.closeness,
        }
