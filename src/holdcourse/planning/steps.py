"""Moves as a plan sees them: the cheapest way onward from everywhere, and the best one from where we are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse import offline
from holdcourse._numeric import bellman, minplus
from holdcourse.errors import NoActionLeft
from holdcourse.problem import Problem

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

MASK_MEMORY = 0.8  # an action that was allowed in less than half of the last rounds, by this fading, is out of the plan


@dataclass(frozen=True, eq=False)
class Steps:
    """The moves of a problem, none dearer than `max_step`."""

    problem: Problem
    max_step: float | None = None

    def backed_up(self, onward_costs: Array) -> Array:
        """The smallest d(x, y) + onward_costs[i, y] over y, for every row i and every x; shape (k, n)."""
        out = np.empty_like(onward_costs)
        moves = self.moves
        if isinstance(moves, offline.GridMoves):
            bellman.backup_grid(onward_costs, moves.order, moves.shape, moves.gaps, moves.fixed_cost, out)
        else:
            bellman.backup_matrix(onward_costs, *self._into, self.max_step is None, out)
        return out

    def best(self, here: int, total: Array, allowed: Mask) -> int:
        """The allowed action of least move and total cost, (n,); staying where it is as good."""
        row = self.moves.row(here)
        reachable = allowed if self.max_step is None else allowed & (row <= self.max_step)
        if not reachable.any():
            raise NoActionLeft(
                f"no allowed action is within max_step={self.max_step:g} of action {here}; allow it, a nearer one, or "
                "raise max_step"
            )
        costs = np.where(reachable, total, np.inf)
        return int(minplus.cheapest_next(costs - costs.min(), row, here, offline.TIE_TOLERANCE))

    @cached_property
    def moves(self) -> offline.Moves:
        """What moving costs, in the form that the kernels read."""
        return offline.movement(self.problem, "auto" if self.max_step is None else "pruned")

    @cached_property
    def reach(self) -> float:
        """A cost that no move exceeds."""
        if self.problem.directed:
            return float(self.problem.distances.max())
        return 2.0 * float(self.moves.row(0).max())

    @cached_property
    def _into(self) -> tuple[Array, Array]:
        """Movement costs by where they lead, and the cheapest move into each action."""
        into = self.problem.distances.T.copy()  # the kernels read rows
        if self.max_step is not None:
            into[into > self.max_step] = np.inf
        return into, minplus.nearest_move(into)


def available_after(available: Array, allowed: Mask) -> Array:
    """How often each action was allowed lately, from 0 to 1, after one more round."""
    return np.asarray(MASK_MEMORY * available + (1 - MASK_MEMORY) * allowed)


def out_of_plan(available: Array) -> Mask | None:
    """The actions not to count on; None where that is none of them, or all."""
    out = available < 0.5
    return out if out.any() and not out.all() else None
