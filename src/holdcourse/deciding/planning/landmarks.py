"""Landmarks: the settings that a plan weighs where there are more than it can.

A plan's sweeps take the cheapest move between any two settings, for every context. Of a million settings that is too
much, and most of them say nothing new: costs are smooth, and a move of a hair's breadth costs next to nothing. So the
sweeps run over some landmarks, and only the last step looks at all settings.

======  ==============================================================================================  ===========
symbol  meaning                                                                                         shape
======  ==============================================================================================  ===========
cells   all settings in groups of neighbours, as many in each; by the tree of boxes, or by the          (c + 1,)
        farthest points where there are no coordinates
l       landmarks: the centre of every cell, the best settings of each context when it was last seen,
        where the machine was lately, where it is, and the lowest bound now
V       cost to go from each landmark, a row for each context                                           (k, l)
======  ==============================================================================================  ===========

**The last step looks at all settings.** What this round costs is known for every setting. What follows it is not: from
a setting that is no landmark the plan goes on to one, V(e, x) = min over landmarks z of d(x, z) + V(e, z), which is
exact wherever the next stop is a landmark. Computing this for a million settings in 64 contexts would be as much as
the sweeps. So the best setting of every cell is tried, then the cells of the best ones are parted into smaller ones,
and so on down to single settings (`Search`).

**What is given up**: that later rounds stop between landmarks too. Where costs hardly change within a cell nothing is
lost; where an optimum is much narrower than a cell, it is found when its context is seen, and kept as that context's
landmark from then on. With a longest step the plan finds the best goal as if there were none, and goes there in steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse._numeric import landmarks as kernels
from holdcourse._numeric import minplus
from holdcourse.deciding.planning.beliefs import Table
from holdcourse.learning.costs import OptimisticCosts, can, costs_of_some
from holdcourse.movement.problem import Problem

Array: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

WEIGHED = 10_000  # settings up to which a plan weighs all of them
SWEPT = 100_000  # the same where sweeps along axes find the cheapest moves
LANDMARKS = 1_024  # weighed instead, about
RECENT = 32  # settings where the machine was last
PARTS = 16  # into which a run of settings is parted
BEST = 4  # runs that are parted, by each of the two costs


def best_of_each(count: int, capacity: int) -> int:
    """Return how many landmarks are the best settings of one context: all contexts share what is not for cells."""
    return max((count - count // 2) // capacity, 1)


@dataclass(frozen=True, eq=False)
class Cells:
    """All settings in groups of neighbours.

    Attributes
    ----------
    order
        The settings, cell after cell, near ones side by side; (n,).
    edges
        Where each cell begins in there, and where the last one ends; (c + 1,).
    centres
        The setting in the middle of each cell, (c,).
    """

    order: Ints
    edges: Ints
    centres: Ints

    @classmethod
    def of(cls, problem: Problem, count: int) -> Cells:
        """Part the settings into so many cells, or into about as many as is a power of two."""
        return cls._of_boxes(problem, count) if problem.points is not None else cls._of_farthest(problem, count)

    @classmethod
    def _of_boxes(cls, problem: Problem, count: int) -> Cells:
        points = problem.points
        assert points is not None
        many = 1 << max(int(np.log2(min(count, problem.n))), 0)  # the tree halves its boxes
        edges = np.arange(many + 1) * problem.n // many
        middles = np.add.reduceat(points.placed, edges[:-1], axis=0) / np.diff(edges)[:, None]
        apart = ((points.placed - np.repeat(middles, np.diff(edges), axis=0)) ** 2).sum(axis=1)
        centres = np.array([begin + int(apart[begin:end].argmin()) for begin, end in _pairs(edges)])
        return cls(points.action, edges, points.action[centres])

    @classmethod
    def _of_farthest(cls, problem: Problem, count: int) -> Cells:
        """Centres one by one, each as far as possible from those before; a cell is what is nearest to its centre."""
        centres, nearest = [0], np.zeros(problem.n, dtype=np.int64)
        away = np.maximum(problem.costs_from(0), problem.costs_to(0))
        while len(centres) < min(count, problem.n):
            farthest = int(away.argmax())
            there = np.maximum(problem.costs_from(farthest), problem.costs_to(farthest))
            nearest[there < away] = len(centres)
            away = np.minimum(away, there)
            centres.append(farthest)
        order = np.argsort(nearest, kind="stable")
        return cls(order, np.searchsorted(nearest[order], np.arange(len(centres) + 1)), np.array(centres))

    def __len__(self) -> int:
        return len(self.centres)

    @cached_property
    def cell(self) -> Ints:
        """The cell of every setting, (n,)."""
        cells = np.empty(len(self.order), dtype=np.int64)
        cells[self.order] = np.repeat(np.arange(len(self)), np.diff(self.edges))
        return cells


def _pairs(edges: Ints) -> list[tuple[int, int]]:
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Which settings a plan weighs.

    Attributes
    ----------
    settings
        The landmarks, in order; (l,).
    best
        The best settings of each context when it was last seen, -1 where there are fewer; (capacity, s).
    recent
        Where the machine was last, newest first, -1 where nowhere; (RECENT,).
    """

    settings: Ints
    best: Ints
    recent: Ints

    @classmethod
    def of(cls, arrays: dict[str, Array], capacity: int, each: int) -> Landmarks:
        """Read from a rule's state, with `each` settings for each of the contexts; none before the first round."""
        if "landmarks" not in arrays:
            nowhere = np.full((capacity, each), -1, dtype=np.int64)
            return cls(np.zeros(0, dtype=np.int64), nowhere, np.full(RECENT, -1, dtype=np.int64))
        named = ("landmarks", "best_landmarks", "recent_landmarks")
        return cls(*(arrays[name].astype(np.int64) for name in named))

    def arrays(self) -> dict[str, Array]:
        """Give the arrays that a rule's state holds."""
        named = {"landmarks": self.settings, "best_landmarks": self.best, "recent_landmarks": self.recent}
        return {name: array.astype(np.float64) for name, array in named.items()}

    def now(self, cells: Cells, here: int, lowest: int) -> Landmarks:
        """Return those of a round that begins at `here`, where the lowest bound is at `lowest`."""
        others = self.recent[(self.recent != here) & (self.recent >= 0)]
        recent = np.full(RECENT, -1, dtype=np.int64)
        recent[: 1 + min(len(others), RECENT - 1)] = [here, *others[: RECENT - 1]]
        wanted = np.concatenate([cells.centres, self.best.reshape(-1), recent, [lowest]])
        settings = np.unique(wanted)
        return Landmarks(settings[settings >= 0], self.best, recent)

    def after(self, context: int, best: Ints) -> Landmarks:
        """Return those with the best settings of a context, the best first."""
        kept = self.best.copy()
        kept[context] = -1
        kept[context, : len(best)] = best[: kept.shape[1]]
        return Landmarks(self.settings, kept, self.recent)

    def place(self, setting: int) -> int:
        """Return where a setting stands among the landmarks."""
        return int(np.searchsorted(self.settings, setting))


@dataclass(frozen=True, eq=False)
class LandmarkSteps:
    """The moves between landmarks."""

    costs: Array  # (l, l), from row to column
    directed: bool

    @classmethod
    def of(cls, problem: Problem, settings: Ints) -> LandmarkSteps:
        """Return the moves between some settings."""
        return cls(moves_between(problem, settings, settings), problem.directed)

    def backed_up(self, onward_costs: Array) -> Array:
        """Return the smallest d(x, y) + onward_costs[i, y] over y, for every row i and every x; shape (k, l)."""
        out = np.empty_like(onward_costs)
        minplus.backup_matrix(onward_costs, *self._into, True, out)
        return out

    @cached_property
    def reach(self) -> float:
        """A cost that no move between landmarks exceeds."""
        return float(self.costs.max())

    @cached_property
    def _into(self) -> tuple[Array, Array]:
        into = np.ascontiguousarray(self.costs.T) if self.directed else self.costs
        return into, minplus.nearest_move(into)


def moves_between(problem: Problem, before: Ints, after: Ints) -> Array:
    """What moving from each of some settings to each of others costs, (before, after)."""
    costs = problem.move_costs(np.repeat(before, len(after)), np.tile(after, len(before)))
    return costs.reshape(len(before), len(after))


@dataclass(frozen=True, eq=False)
class CostsOfSome:
    """A cost model of which some settings are asked alone."""

    model: Any
    settings: Ints

    def costs_at(self, contexts: ArrayLike) -> Array:
        """Costs of the settings in each of k contexts."""
        return costs_of_some(self.model, contexts, self.settings)


@dataclass(frozen=True, eq=False)
class HopesOfSome(CostsOfSome):
    """The same of a model that can be asked how much of its costs is hope."""

    def costs_at_optimism(self, contexts: ArrayLike, optimism: float) -> Array:
        """Costs of the settings with `optimism` times the usual hope, in each of k contexts."""
        return costs_of_some(self.model, contexts, self.settings, optimism)


def of_some(model: Any, settings: Ints) -> CostsOfSome | None:
    """Return a model's costs of some settings alone; None where there is no model."""
    if model is None:
        return None
    return HopesOfSome(model, settings) if can(model, OptimisticCosts) else CostsOfSome(model, settings)


def aligned(table: Table, problem: Problem, old: Ints, new: Ints) -> tuple[Table, Ints]:
    """Return a table of landmarks for others, and which of these are new to it; their costs are those of the nearest.

    What follows them is exact wherever the plan goes on to an old landmark.
    """
    place = np.minimum(np.searchsorted(old, new), len(old) - 1)
    added = np.flatnonzero(old[place] != new)
    if not len(added):
        return Table(table.expected[:, place], table.spread[:, place], table.values[:, place], table.refreshed), added
    ways = moves_between(problem, new[added], old)
    place[added] = ways.argmin(axis=1)
    values = table.values[:, place]
    reached = np.empty((len(values), len(added)))
    kernels.reached(np.ascontiguousarray(table.values), ways, reached)
    values[:, added] = reached
    return Table(table.expected[:, place], table.spread[:, place], values, table.refreshed), added


@dataclass(frozen=True, eq=False)
class Search:
    """The best setting of all, by what this round costs there and what follows.

    Attributes
    ----------
    expected, spread
        Of every setting in this round, (n,).
    allowed
        Which settings may be chosen, (n,).
    ways
        What moving to each from where the machine is costs, (n,).
    landmarks, hope
        The landmarks, and which share of its spread each of them may hope for; (l,).
    rows, weights
        Costs to go from each landmark, (k, l), and how much each row counts, (k,).
    discount
        Weight of what follows.
    """

    problem: Problem
    cells: Cells
    expected: Array
    spread: Array
    allowed: Mask
    ways: Array
    landmarks: Ints
    hope: Array
    rows: Array
    weights: Array
    discount: float

    def candidates(self) -> tuple[Ints, Array]:
        """Return settings that may be the best, in order, and what this round and all that follows costs there."""
        cells = self.cells
        centres = self.hope[np.searchsorted(self.landmarks, cells.centres)]
        begin, end = cells.edges[:-1], cells.edges[1:]
        own = self.allowed[self.landmarks]
        found, totals = [self.landmarks[own]], [self._landmark_totals[own]]
        while True:
            near, far = self._best(centres, begin, end)
            tried = np.unique(np.concatenate([near, far]))
            tried = tried[tried >= 0]
            costs = self._totals(tried)
            found.append(tried)
            totals.append(costs)
            if not (end - begin > 1).any():
                break
            runs = self._worth_parting(near, far, tried, costs)
            begin, end, centres = _parted(begin[runs], end[runs], centres[runs])
        settings, first = np.unique(np.concatenate(found), return_index=True)
        return settings, np.concatenate(totals)[first]

    def _best(self, hope: Array, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
        near, far = np.empty(len(begin), dtype=np.int64), np.empty(len(begin), dtype=np.int64)
        kernels.best_of_runs(
            self.expected,
            self.spread,
            hope,
            self.ways,
            self.allowed,
            self.cells.order,
            np.ascontiguousarray(begin),
            np.ascontiguousarray(end),
            near,
            far,
        )
        return near, far

    def _worth_parting(self, near: Ints, far: Ints, tried: Ints, costs: Array) -> Ints:
        """Return the runs whose best settings cost least, with the move there and without."""
        runs = []
        for chosen, ways in ((near, self.ways), (far, None)):
            cost = costs[np.searchsorted(tried, chosen)]  # of none some other's, left out below
            cost = cost if ways is None else cost + ways[chosen]
            runs.append(np.argsort(np.where(chosen < 0, np.inf, cost), kind="stable")[:BEST])
        return np.unique(np.concatenate(runs))

    @cached_property
    def _landmark_totals(self) -> Array:
        """What this round and all that follows costs at the landmarks, (l,)."""
        believed = self.expected[self.landmarks] - self.hope * self.spread[self.landmarks]
        return np.asarray(believed + self.discount * (self.weights @ self.rows))

    def _totals(self, settings: Ints) -> Array:
        """Return what this round and all that follows costs at some settings, the move there left out."""
        ways = moves_between(self.problem, settings, self.landmarks)
        nearest = ways.argmin(axis=1)
        out = np.empty((len(self.rows), len(settings)))
        kernels.reached(self.rows, ways, out)
        believed = self.expected[settings] - self.hope[nearest] * self.spread[settings]
        return np.asarray(believed + self.discount * (self.weights @ out))

    def best_apart(self, settings: Ints, totals: Array, count: int) -> Ints:
        """Return the settings of least total, one of each cell, the best first."""
        order = np.argsort(totals, kind="stable")
        _, first = np.unique(self.cells.cell[settings[order]], return_index=True)
        return np.asarray(settings[order[np.sort(first)[:count]]])


def _parted(begin: Ints, end: Ints, hope: Array) -> tuple[Ints, Ints, Array]:
    """Part runs of settings into smaller ones; those of a run hope alike."""
    begins, ends, hopes = [], [], []
    for first, last, share in zip(begin.tolist(), end.tolist(), hope.tolist(), strict=True):
        parts = min(PARTS, last - first)
        edges = first + np.arange(parts + 1) * (last - first) // parts
        begins.append(edges[:-1])
        ends.append(edges[1:])
        hopes.append(np.full(parts, share))
    return np.concatenate(begins), np.concatenate(ends), np.concatenate(hopes)
