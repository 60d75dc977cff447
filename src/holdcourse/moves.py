"""A problem's movement costs in the form that min-plus steps read: a matrix, or sweeps along the axes of a grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse._numeric import minplus
from holdcourse.errors import InvalidInput
from holdcourse.problem import METRIC_NAMES, Problem

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
Method: TypeAlias = Literal["auto", "dense", "pruned", "sweep"]

METHODS = ("auto", "dense", "pruned", "sweep")
TIE_TOLERANCE = 1e-12  # relative; costs this close are a tie. Rounding differs by less than that between methods


class Moves(Protocol):
    """A problem's movement costs in the form that the kernels read."""

    def row(self, action: int) -> Array:
        """What moving from `action` to each action costs, shape (n,)."""
        ...

    def relax(self, values: Array) -> Array:
        """The smallest values[y] + cost(y to x) over all y, for every x; shape (n,)."""
        ...

    def best_actions(self, costs: Array, lowest: Array, start: int) -> Indices:
        """The cheapest path through costs (T, n) from `start` (-1: free)."""
        ...


def movement(problem: Problem, method: Method = "auto") -> Moves:
    """Prepare the movement costs of `problem` for min-plus steps; `method` as in `optimal_path`."""
    if method not in METHODS:
        raise InvalidInput(f"method {method!r} is not known; use one of {list(METHODS)}")
    grid = GridMoves.find(problem) if method in ("auto", "sweep") else None
    if grid is not None:
        return grid
    if method == "sweep":
        raise InvalidInput(
            f"method 'sweep' needs actions on a line or a full grid with metric='cityblock', got {problem!r} with "
            f"coordinates of shape {problem.actions.shape}; use method='auto'"
        )
    return MatrixMoves(problem.distances, pruned=method != "dense")


@dataclass(frozen=True, eq=False)
class MatrixMoves:
    """Movement costs as a matrix, from row to column."""

    distances: Array  # (n, n)
    pruned: bool

    @cached_property
    def _nearest(self) -> Array:
        return minplus.nearest_move(self.distances)

    @cached_property
    def _transposed(self) -> Array:
        # A copy, as the kernels read rows; unequal also by rounding, which a matrix of the user's may have.
        symmetric = np.array_equal(self.distances, self.distances.T)
        return self.distances if symmetric else read_only(np.ascontiguousarray(self.distances.T))

    def row(self, action: int) -> Array:  # noqa: D102 - see Moves
        row: Array = self.distances[action]
        return row

    def relax(self, values: Array) -> Array:  # noqa: D102
        relaxed = np.empty_like(values)
        if self.pruned:
            minplus.relax_pruned(values, self.distances, self._nearest, relaxed)
        else:
            minplus.relax_dense(values, self.distances, relaxed)
        return relaxed

    def best_actions(self, costs: Array, lowest: Array, start: int) -> Indices:  # noqa: D102
        to_go = minplus.cost_to_go_matrix(costs, lowest, self._transposed, self.pruned)
        return minplus.follow_matrix(to_go, self.distances, start, TIE_TOLERANCE)


@dataclass(frozen=True, eq=False)
class GridMoves:
    """Movement costs that are a sum over the axes of a full grid, plus a fixed cost per move.

    The arrays are described in the table of `holdcourse._numeric.minplus`.
    """

    points: Array  # (d, n)
    order: Indices  # (n,)
    shape: Indices  # (d,)
    gaps: Array
    fixed_cost: float

    @classmethod
    def find(cls, problem: Problem) -> GridMoves | None:
        """The grid that the actions fill, in whatever order they are listed; None where there is none."""
        if problem.metric_name not in METRIC_NAMES:
            return None
        points = problem.coordinates
        axes, places = zip(*(np.unique(column, return_inverse=True) for column in points.T), strict=True)
        shape = tuple(len(axis) for axis in axes)
        on_a_line = sum(length > 1 for length in shape) <= 1  # all named metrics agree there
        # Actions are distinct, so as many as the box has places fill it.
        if math.prod(shape) != problem.n or not (on_a_line or problem.metric_name == "cityblock"):
            return None
        order = np.empty(problem.n, dtype=np.int64)
        order[np.ravel_multi_index(places, shape)] = np.arange(problem.n)
        return cls(
            points=np.ascontiguousarray(points.T),
            order=order,
            shape=np.array(shape, dtype=np.int64),
            gaps=np.concatenate([np.diff(axis) for axis in axes]),
            fixed_cost=problem.fixed_cost,
        )

    def row(self, action: int) -> Array:  # noqa: D102 - see Moves
        costs = np.empty(self.points.shape[1])
        minplus.grid_row(action, self.points, self.fixed_cost, costs)
        return costs

    def relax(self, values: Array) -> Array:  # noqa: D102
        relaxed = np.empty_like(values)
        minplus.relax_grid(values, self.order, self.shape, self.gaps, self.fixed_cost, relaxed)
        return relaxed

    def best_actions(self, costs: Array, lowest: Array, start: int) -> Indices:  # noqa: D102
        to_go = minplus.cost_to_go_grid(costs, lowest, self.order, self.shape, self.gaps, self.fixed_cost)
        return minplus.follow_grid(to_go, self.points, self.fixed_cost, start, TIE_TOLERANCE)


def read_only(array: Array) -> Array:
    """A view that is never written to: one type for the kernels, whatever the caller's array allows."""
    view = array.view()
    view.setflags(write=False)
    return view
