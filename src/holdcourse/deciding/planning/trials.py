"""Trials: an action that was never played in a context that returns often is played there, if it could pay.

A cost model that was fitted to few readings can be sure of a pair of action and context that nobody has measured, and
wrong: from 4, 2 and 2 in three of four pairs it may follow that the context makes no difference, and that the fourth
is 4 as well. Hope does not help where there is no doubt. What helps is a small budget for finding out.

=========  ==================================================================================  ========
symbol     meaning                                                                             shape
=========  ==================================================================================  ========
m, b       expected cost in the present context, and how far below it the bound lies           (n,)
a          what the plan would play
low        how cheap a pair may be at best: as far below the cheapest cost of all pairs that
           were played as the dearest one is above it; not below 0 where all are above
D          discounted rounds for which the context is expected to last
=========  ==================================================================================  ========

An action y is a candidate if it was never played in the present context, or one like it, and if it could pay:
D (m(a) - min(low, m(y) - b(y))) > d(a, y) + d(y, a). Its trial is charged with the way there and back and the upper
bound of its cost, less what the plan would pay. The cheapest candidate is tried, if trying *all* that were never played
in this context, and what earlier trials were charged with, stays within a share of what service has cost so far. So
trials are made where they are cheap, and hardly ever where there are many actions.

A model that guards against wrong readings does not believe the first surprise. Where a reading made the cost no surer
than it was, or lowered it by more than b, and where none of those in such contexts is believed by now, the action is
tried again, up to `plays` times in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.checks import is_finite, whole_number
from holdcourse.deciding.planning.beliefs import Chain, Played, Table
from holdcourse.errors import InvalidInput, plain
from holdcourse.movement.problem import Problem

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

LIKE = 0.5  # correlation lengths; an action played in a context this near was played here as well
WAIT = 25  # rounds until a trial is wished for again after somebody prevented one


@dataclass(frozen=True)
class Trial:
    """An action to try in the present context.

    Attributes
    ----------
    before
        How often it was played in such contexts.
    excess
        What it is expected to cost more than the plan, the way back included.
    charge
        The same at the upper bound of its cost; that is what counts against the budget.
    """

    action: int
    before: int
    excess: float
    charge: float

    def in_words(self, problem: Problem) -> str:
        """Say what is tried, and why."""
        measured = "was never measured" if self.before == 0 else "was hardly measured"
        return (
            f"Tries {problem.value(self.action)} in this context, where it {measured}: it could pay, and costs at most "
            f"about {self.charge:.3g} more than the plan."
        )


@dataclass(frozen=True)
class Trials:
    """When to try an action in a context where it was never played.

    Parameters
    ----------
    share
        Share of the bill that trials may cost.
    rounds
        Rounds whose share may be spent at once, before so many have passed.
    visits
        Rounds that a context must have taken up.
    plays
        How often an action is tried in a context at most, where its readings are not believed.
    """

    share: float = 0.01
    rounds: int = 500
    visits: int = 12
    plays: int = 3

    def __post_init__(self) -> None:
        if not (is_finite(self.share) and self.share >= 0):
            raise InvalidInput(f"share must be 0 or more, got {plain(self.share)!r}; 0.01 is one hundredth of the bill")
        for name in ("rounds", "visits", "plays"):
            object.__setattr__(self, name, whole_number(getattr(self, name), name, 1))

    def budget(self, played: Played, expected: Array) -> float:
        """Return what trials may cost in all, given what was played and the expected costs, (k, n)."""
        rounds = played.rounds
        bill = float((played.counts * np.abs(expected)).sum())
        return self.share * bill * max(1.0, self.rounds / rounds) if rounds else 0.0

    def choose(
        self,
        problem: Problem,
        played: Played,
        chain: Chain,
        table: Table,
        apart: Array,  # (k, k), correlation lengths
        onward: Array,  # (k,), discounted chances of what follows the present context
        here: int,
        planned: int,
        possible: Mask,  # (n,)
        doubted: Array,  # (n,), readings in contexts like the present one that the model does not believe
    ) -> Trial | None:
        """Return what to try from the action `here` instead of the planned one; None: nothing."""
        row = chain.here
        if chain.visits[row] < self.visits or played.rounds < played.prevented + WAIT:
            return None
        like = apart[row] < LIKE
        before = played.counts[like].sum(axis=0)
        doubtful = played.doubtful[like].any(axis=0) | (doubted >= before)
        untried = possible & (before < np.where(doubtful, self.plays, 1))
        untried[planned] = False
        if not untried.any():
            return None
        expected, spread = table.row(row)
        everywhere = np.arange(problem.n)
        known = table.expected[played.counts > 0]
        low = 2.0 * known.min() - known.max()
        if known.min() > 0:
            low = max(low, 0.0)
        lasts = 1.0 / (1.0 - float(onward[like].sum()))
        there = problem.move_costs(np.full(problem.n, planned), everywhere)
        back = problem.move_costs(everywhere, np.full(problem.n, planned))
        saving = lasts * (expected[planned] - np.minimum(low, expected - spread))
        candidates = untried & (saving > there + back)
        if not candidates.any():
            return None
        ways = problem.move_costs(np.full(problem.n, here), everywhere)
        excess = np.maximum(ways + expected + back - ways[planned] - expected[planned], 0.0)
        charges = excess + spread
        if played.spent + charges[untried].sum() > self.budget(played, table.expected):
            return None
        action = int(np.argmin(np.where(candidates, charges, np.inf)))
        return Trial(action, int(before[action]), float(excess[action]), float(charges[action]))

    def describe(self) -> dict[str, Any]:
        """Describe it in JSON values."""
        return {"share": float(self.share), "rounds": self.rounds, "visits": self.visits, "plays": self.plays}
