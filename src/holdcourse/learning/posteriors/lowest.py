r"""The lowest bound of very many actions, found without looking at all of them.

======  ==============================================================================================  ============
symbol  meaning                                                                                         shape
======  ==============================================================================================  ============
phi     features of an action; its mean in a context is phi . v, its variance phi . X phi               (r,)
U       the triangular factor of X: the deviation is the length of U phi                                (r, r)
c, rho  the action in the middle of a box, and the largest distance of features from it in the box
======  ==============================================================================================  ============

**Bounds of a box.** For every action in a box :math:`|\phi - \phi_c| \le \rho`, so its mean differs from that of c by
at most :math:`|v| \rho` and its deviation by at most :math:`\|U\| \rho`. A box whose c is farther above the lowest
bound found so far than :math:`(|v| + w \|U\|) \rho`, w being the width, holds no lower one. Boxes are looked at from
the largest to the smallest, each level at once; those that are left at the end are single actions.

**When it pays.** Costs that were learned differ more from box to box than within one, and one action in some dozens is
looked at. Before that all bounds are nearly alike and no box can be left out: then, as soon as too many were looked at,
the caller takes one pass over all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dpotrf

from holdcourse.movement.points import Points

Array: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

FIRST, PARTS, SMALLEST = 32, 4, 16  # boxes to begin with; into which one is parted; actions that are no box any more
MOST = 0.25  # of all actions: if more must be looked at, a pass over all is quicker
BLOCK = 4_096  # actions worked on at once
ROUNDING = 1e-12  # of what is compared, so that no box is left out by rounding


@dataclass(frozen=True)
class Lowest:
    """The action of lowest cost.

    Attributes
    ----------
    action, cost
        The action, and its cost; in a tie, the action of lowest index.
    evaluated
        Number of actions whose cost was computed to find it.
    """

    action: int
    cost: float
    evaluated: int


@dataclass(frozen=True, eq=False)
class Level:
    """Boxes of one size: where each begins among the places, its middle, and how far its features reach."""

    edges: Ints  # (boxes + 1,)
    middle: Ints  # (boxes,), actions
    reach: Array  # (boxes,)


@dataclass(frozen=True, eq=False)
class FeatureBoxes:
    """Actions in boxes of neighbours, with how much their features differ."""

    features: Array  # (n, r)
    order: Ints  # (n,), the action at each place
    levels: tuple[Level, ...]

    @classmethod
    def of(cls, points: Points, features: Array) -> FeatureBoxes:
        """Put the actions into boxes, by their places; each level parts the boxes of the one before."""
        n = len(features)
        counts = [min(FIRST, n)]
        while n > SMALLEST * counts[-1]:
            counts.append(counts[-1] * PARTS)
        levels: list[Level] = []
        for count in reversed(counts):
            edges = np.arange(count + 1) * n // count
            middle = points.action[(edges[:-1] + edges[1:]) // 2]
            if not levels:
                reach = _reach(features, points.action, edges, middle)
            else:  # no farther than over the middles of the boxes within
                inner = levels[-1]
                parts = len(inner.middle) // count
                apart = features[inner.middle] - np.repeat(features[middle], parts, axis=0)
                reach = (np.sqrt(np.einsum("ij,ij->i", apart, apart)) + inner.reach).reshape(count, parts).max(axis=1)
            levels.append(Level(edges, middle, reach))
        return cls(features, points.action, tuple(reversed(levels)))

    def lowest(self, X: Array, v: Array, width: float, sign: float, allowed: Mask | None) -> Lowest | None:
        """Return the allowed action of least sign * mean - width * deviation, the prior mean left out.

        X by its lower triangle. None where a pass over all actions would be quicker, or X is not positive.
        """
        U, failed = dpotrf(X.T.copy(order="F"), lower=0, clean=1, overwrite_a=1)
        if failed:
            return None
        steepest = float(np.linalg.norm(v)) + width * float(np.sqrt(max(np.linalg.eigvalsh(X)[-1], 0.0)))
        most = MOST * len(self.features)
        best, action, evaluated = np.inf, -1, 0
        boxes = np.arange(len(self.levels[0].middle))
        for number, level in enumerate((*self.levels, None)):
            actions = boxes if level is None else level.middle[boxes]
            evaluated += len(actions)
            if evaluated > most:
                return None
            costs = self._costs(actions, U, v, width, sign)
            usable = costs if allowed is None else np.where(allowed[actions], costs, np.inf)
            least = float(usable.min(initial=np.inf))
            if least < best or (least == best and np.isfinite(least)):
                lowest = int(actions[usable == least].min())
                action = lowest if least < best else min(action, lowest)
                best = least
            if level is None:
                break
            slack = ROUNDING * (steepest + abs(best)) if np.isfinite(best) else 0.0
            boxes = boxes[costs - steepest * level.reach[boxes] <= best + slack]
            if number + 1 < len(self.levels):
                boxes = (boxes[:, None] * PARTS + np.arange(PARTS)).reshape(-1)
            else:
                boxes = self._within(level.edges, boxes)
        return Lowest(action, best, evaluated) if action >= 0 else None

    def _within(self, edges: Ints, boxes: Ints) -> Ints:
        """Return all actions in some boxes."""
        inside = [self.order[edges[box] : edges[box + 1]] for box in boxes.tolist()]
        return np.concatenate(inside) if inside else np.zeros(0, dtype=np.int64)

    def _costs(self, actions: Ints, U: Array, v: Array, width: float, sign: float) -> Array:
        costs = np.empty(len(actions))
        for begin in range(0, len(actions), BLOCK):
            some = self.features[actions[begin : begin + BLOCK]]
            half = dtrmm(1.0, U, some.T, lower=0)
            costs[begin : begin + BLOCK] = sign * (some @ v) - width * np.sqrt(np.einsum("ix,ix->x", half, half))
        return costs


def _reach(features: Array, order: Ints, edges: Ints, middle: Ints) -> Array:
    """The largest distance of features from the middle of each box, (boxes,)."""
    reach = np.empty(len(middle))
    together = max(BLOCK // SMALLEST, 1)
    for first in range(0, len(middle), together):
        last = min(first + together, len(middle))
        sizes = np.diff(edges[first : last + 1])
        apart = features[order[edges[first] : edges[last]]] - np.repeat(features[middle[first:last]], sizes, axis=0)
        squares = np.einsum("ij,ij->i", apart, apart)
        reach[first:last] = np.sqrt(np.maximum.reduceat(squares, edges[first:last] - edges[first]))
    return reach
