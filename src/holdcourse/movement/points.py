"""Actions as points of a named metric: what moves cost, found where it is asked instead of read from a matrix.

Up to some thousands of actions a matrix of all distances is quicker; a million of them would need 8 TB. Here the points
are kept in a tree of boxes, which takes some ten numbers for each. What is found is what the matrix would give, to the
last bit but for `relax` without a reach (see `holdcourse._numeric.points`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse._numeric import points as kernels

Array: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

NORM_CODES = {"euclidean": 2, "cityblock": 1, "chebyshev": 0}
MOST_COLUMNS = 60  # in blocks: as many as a whole number has bits for
MOST_PAIRS = 2e8  # measured, at most, to find the diameter; of up to 20,000 points these are all


@dataclass(frozen=True, eq=False)
class Reach:
    """How long a single move may be: what it costs, and how far it goes in settings without prices.

    Attributes
    ----------
    cost
        Largest cost of a move.
    settings
        The settings, (n, d); None: any distance.
    most, norm_most
        Largest difference along each axis, (d,), and largest distance by the metric; both of settings.
    near
        No point farther away than this along an axis is within reach, in units of movement cost; (d,).
    """

    cost: float = np.inf
    settings: Array | None = None
    most: Array = field(default_factory=lambda: np.zeros(0))
    norm_most: float = np.inf
    near: Array = field(default_factory=lambda: np.zeros(0))


def blocks_norm(widths: list[int]) -> int:
    """The norm of columns in blocks of these widths: the largest difference in each, added up.

    Of blocks of one column each that is the cityblock norm, and of one block the chebyshev norm.
    """
    if len(widths) == 1:
        return NORM_CODES["chebyshev"]
    if max(widths) == 1:
        return NORM_CODES["cityblock"]
    begins = [sum(widths[:k]) for k in range(len(widths))]
    return 3 + 4 * sum(1 << column for column in begins)


@dataclass(frozen=True, eq=False)
class Points:
    """Points of a named metric, with a fixed cost for every move, in a tree of boxes.

    Attributes
    ----------
    coordinates
        By action, scaled; (n, d).
    norm
        2 euclidean, 1 cityblock, 0 chebyshev, or `blocks_norm` of columns in blocks.
    fixed_cost
        Fixed cost of every move between two actions.
    cheapest
        What the cheapest move from each action costs without it, (n,), where that is known; else it is searched for.
    sides
        By what boxes are halved, where that is not the coordinates: places (n, axes), when each axis has its turn, and
        how far apart places along it are alike.
    """

    coordinates: Array
    norm: int
    fixed_cost: float
    cheapest: Array | None = None
    sides: tuple[Array, Ints, Array] | None = None

    @cached_property
    def action(self) -> Ints:
        """The action at each place of the tree of boxes, (n,)."""
        axes = self.coordinates.shape[1]
        sides = self.sides or (self.coordinates, np.zeros(axes, dtype=np.int64), np.zeros(axes))
        found: Ints = kernels.ordered(*sides)
        return found

    @cached_property
    def place(self) -> Ints:
        """The place of each action in the tree of boxes, (n,)."""
        place = np.empty(len(self.action), dtype=np.int64)
        place[self.action] = np.arange(len(self.action))
        return place

    @cached_property
    def placed(self) -> Array:
        """Coordinates by place, (n, d)."""
        return np.ascontiguousarray(self.coordinates[self.action])

    @cached_property
    def boxes(self) -> tuple[Array, Array]:
        """Corners of the boxes, (nodes, d) each."""
        low, high = kernels.boxes(self.placed, np.arange(len(self.placed)))
        return low, high

    @cached_property
    def diameter(self) -> float:
        """The largest cost of a move; where too many pairs would have to be measured, a bound that is not below it."""
        if len(self.placed) == 1:
            return 0.0
        widest, _ = kernels.diameter(self.placed, np.arange(len(self.placed)), self.norm, MOST_PAIRS)
        return float(widest) + self.fixed_cost

    @cached_property
    def nearest_others(self) -> Array:
        """What the cheapest move from each place costs, (n,)."""
        if self.cheapest is not None:
            return np.asarray(self.cheapest[self.action] + self.fixed_cost)
        found: Array = kernels.nearest_others(self.placed, *self.boxes, self.norm)
        return found + self.fixed_cost

    def row(self, action: int) -> Array:
        """What moving between an action and each action costs, (n,)."""
        costs: Array = kernels.row(self.coordinates, action, self.norm, self.fixed_cost)
        return costs

    def costs(self, before: Ints, after: Ints) -> Array:
        """What moving from before[k] to after[k] costs, (k,)."""
        costs: Array = kernels.pairs(self.coordinates, before, after, self.norm, self.fixed_cost)
        return costs

    def nearest(self, action: int, permitted: Mask) -> int:
        """The permitted action nearest to another one; of equally near ones the lowest. One must be permitted."""
        if permitted[action]:
            return action
        wanted = int(self.place[action])
        found = kernels.nearest(self.placed, *self.boxes, self.action, permitted, wanted, self.norm, self.fixed_cost)
        return int(self.action[found])

    def relax(self, values: Array, reach: Reach | None = None) -> Array:
        """The smallest values[k, y] + cost(y to x) over the y within reach, for every x and row k; (k, n)."""
        reach = Reach() if reach is None else reach
        settings = np.zeros((0, self.placed.shape[1]))
        if reach.settings is not None:
            settings = np.ascontiguousarray(reach.settings[self.action])
        out = np.empty_like(values)
        placed = np.empty(values.shape[1])
        for row, into in zip(values, out, strict=True):
            kernels.relax(
                row[self.action],
                self.placed,
                *self.boxes,
                self.norm,
                self.fixed_cost,
                reach.cost,
                reach.near,
                settings,
                reach.most,
                reach.norm_most,
                placed,
            )
            into[self.action] = placed
        return out
