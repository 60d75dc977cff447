"""Large farms: in every sector of the wind the farm falls into groups of turbines that do not meet each other's wakes.

Two turbines meet in a sector if, for some direction in it, one stands at most `REACH` rotor diameters behind the other
and at most `BESIDE` diameters from the axis of its wake. The groups of a sector are the connected parts of the graph of
these meetings. Best offsets are searched for, and power is computed, group by group, each as a farm of its own; wakes
over longer distances are left out. Which turbines are decided together is said in `clusters`.

On a dense grid many groups are the whole farm, since rows are joined by wakes that touch both. So a group of more than
`TOGETHER` turbines is computed in **parts**: a turbine together with all that stand upwind of it, those in whose wakes
it stands, those in whose wakes these stand, and so on. What stands beside or behind a turbine does not enter its power.
Parts that lie within another one are computed with that one.

Groups and parts that are alike (the same turbines at the same distances, as the rows of a grid are) are computed as
one. FLORIS' work grows with the square of the number of turbines, and that of its search with the cube, so a farm of 50
turbines in groups of four costs about what 13 farms of four do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.errors import InvalidInput
from holdcourse.wakes.farm import Farm, FlorisModel

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

REACH, BESIDE = 20.0, 1.5  # rotor diameters
PLANNED_REACH = 15.0  # the same where offsets are looked for: what steering gains so far behind is little
SECTOR = 2.0  # degrees: wider ones would join what no single direction joins
TOGETHER = 8  # farms and groups of up to so many turbines are computed as a whole
PASSES = (5, 4)  # offsets that the search tries for a turbine: evenly over the range, then around the best


def groups_of(farm: Farm, direction: float, sector: float = SECTOR, reach: float = REACH) -> list[Indices]:
    """Return the groups of turbines (indices) that meet for directions within `sector` / 2 of one, degrees.

    Examples
    --------
    >>> import numpy as np
    >>> from holdcourse.wakes.farm import Farm
    >>> row = Farm("row", ("a", "b", "c"), np.array([0.0, 500.0, 1000.0]), np.zeros(3), np.full(3, 100.0))
    >>> [group.tolist() for group in groups_of(row, 270.0)], [group.tolist() for group in groups_of(row, 0.0)]
    ([[0, 1, 2]], [[0], [1], [2]])
    """
    behind = _behind(farm, direction, sector, reach)
    meets = behind | behind.T
    groups, left = [], set(range(len(farm)))
    while left:
        group, edge = set[int](), {min(left)}
        while edge:
            group |= edge
            edge = {int(k) for i in edge for k in np.flatnonzero(meets[i])} - group
        groups.append(np.array(sorted(group), dtype=np.int64))
        left -= group
    return groups


class Part(NamedTuple):
    """Turbines (indices) that are computed as a farm of their own, and of which of them the result is taken."""

    turbines: Indices
    own: NDArray[np.bool_]


def parts_of(farm: Farm, direction: float, sector: float = SECTOR, reach: float = REACH) -> list[Part]:
    """Return what is computed as one in a sector: groups and, of large groups, turbines with all upwind of them.

    Examples
    --------
    >>> import numpy as np
    >>> from holdcourse.wakes.farm import Farm
    >>> x, y = (each.ravel() * 500.0 for each in np.meshgrid(np.arange(5.0), np.arange(5.0)))
    >>> grid = Farm("grid", tuple(f"T{k}" for k in range(25)), x, y, np.full(25, 100.0))
    >>> parts = parts_of(grid, 288.0)
    >>> [len(group) for group in groups_of(grid, 288.0)], len(parts), max(len(part.turbines) for part in parts)
    ([25], 5, 9)
    """
    parts = []
    behind = _behind(farm, direction, sector, reach)
    for group in groups_of(farm, direction, sector, reach):
        smaller = _upwind_parts(behind[np.ix_(group, group)]) if len(group) > TOGETHER else []
        # Where parts have so much in common that the group is less work, it is computed as a whole.
        if not smaller or sum(len(part.turbines) ** 2 for part in smaller) > 2 * len(group) ** 2:
            parts.append(Part(group, np.ones(len(group), dtype=bool)))
        else:
            parts += [Part(group[part.turbines], part.own) for part in smaller]
    return parts


def _upwind_parts(behind: NDArray[np.bool_]) -> list[Part]:
    """Return the largest sets of a turbine and all upwind of it, by who (column) stands behind whom (row)."""
    upwind = behind | np.eye(len(behind), dtype=bool)
    while True:
        more = (upwind.astype(np.int64) @ upwind.astype(np.int64)) > 0
        if (more == upwind).all():
            break
        upwind = more
    sets = np.unique(upwind.T, axis=0)
    sets = sets[np.argsort(-sets.sum(axis=1), kind="stable")]
    parts: list[Part] = []
    taken = np.zeros(len(behind), dtype=bool)
    kept: list[NDArray[np.bool_]] = []
    for each in sets:
        if any((each <= other).all() for other in kept):
            continue
        kept.append(each)
        turbines = np.flatnonzero(each)
        parts.append(Part(turbines, ~taken[turbines]))
        taken |= each
    return parts


def _behind(farm: Farm, direction: float, sector: float, reach: float) -> NDArray[np.bool_]:
    """Return who (column) stands in whose (row) wake for some direction within `sector` / 2 of one, (m, m)."""
    within = np.linspace(direction - sector / 2, direction + sector / 2, 5)
    return np.asarray(np.any([in_wake(farm, at, reach) for at in within], axis=0))


def meetings(farm: Farm, direction: float, reach: float = REACH) -> NDArray[np.bool_]:
    """Return which two turbines meet in wind from a direction: one stands in the wake of the other, (m, m)."""
    behind = in_wake(farm, direction, reach)
    return np.asarray(behind | behind.T)


def in_wake(farm: Farm, direction: float, reach: float) -> NDArray[np.bool_]:
    """Return who (column) stands in whose (row) wake in wind from a direction, over `reach` diameters, (m, m)."""
    blows = np.radians(270.0 - direction)
    along = farm.x * np.cos(blows) + farm.y * np.sin(blows)
    across = -farm.x * np.sin(blows) + farm.y * np.cos(blows)
    behind = along[None, :] - along[:, None]  # how far the column's turbine stands behind the row's
    beside = np.abs(across[None, :] - across[:, None])
    d = farm.diameter[:, None]
    return np.asarray((behind > 0) & (behind <= reach * d) & (beside <= BESIDE * d))


class GroupedModel:
    """A wake model that computes a large farm group by group; see the module's docstring.

    Parameters
    ----------
    model
        The FLORIS model of the whole farm.
    sector, reach
        Width of a sector in degrees, and length in rotor diameters for which a wake is followed.
    """

    def __init__(self, model: FlorisModel, sector: float = SECTOR, reach: float = REACH) -> None:
        if not sector > 0 or abs(360.0 / sector - round(360.0 / sector)) > 1e-9:
            raise InvalidInput(f"a sector of {sector} degrees does not divide 360 degrees; give one such as 2")
        self.model, self.sector, self.reach = model, sector, reach
        self.turbulence = model.turbulence
        self._models: dict[Hashable, FlorisModel] = {}
        self._groups: dict[int, list[Indices]] = {}
        self._parts: dict[int, list[Part]] = {}

    @property
    def farm(self) -> Farm:
        """The layout."""
        return self.model.farm

    @property
    def digest(self) -> str | None:
        """Digest that identifies its wakes, turbines and air."""
        return digest_of(self.model)

    def groups(self, sector: int) -> list[Indices]:
        """Return the groups of a sector, counted from the sector around north."""
        if sector not in self._groups:
            self._groups[sector] = groups_of(self.farm, sector * self.sector, self.sector, self.reach)
        return self._groups[sector]

    def parts(self, sector: int) -> list[Part]:
        """Return the parts that are computed together in a sector, counted from the sector around north."""
        if sector not in self._parts:
            self._parts[sector] = parts_of(self.farm, sector * self.sector, self.sector, self.reach)
        return self._parts[sector]

    @property
    def largest(self) -> int:
        """Number of turbines in the largest group of any sector."""
        return max(len(group) for sector in range(round(360.0 / self.sector)) for group in self.groups(sector))

    def power(
        self, directions: ArrayLike, speeds: ArrayLike, offsets: ArrayLike, around: ArrayLike | None = None
    ) -> Array:
        """Return the power of every turbine, kW, (k, m), for k directions, speeds and offset vectors.

        Parameters
        ----------
        around
            Turbines (by index) whose groups are computed; the power of all others is returned as 0.
        """
        yaw = np.atleast_2d(np.asarray(offsets, dtype=np.float64))
        if around is None:
            return self._power(directions, speeds, yaw)
        turns = np.zeros((1, len(self.farm)), dtype=bool)
        turns[0, np.asarray(around, dtype=np.int64)] = True
        return self._power(directions, speeds, yaw, np.broadcast_to(turns, yaw.shape))

    def _power(
        self, directions: ArrayLike, speeds: ArrayLike, yaw: Array, turns: NDArray[np.bool_] | None = None
    ) -> Array:
        def made(part: FlorisModel, cases: Array) -> Array:
            return part.power(cases[:, 0], cases[:, 1], cases[:, 2:])

        return self._by_parts(directions, speeds, yaw, made, self.parts, turns)

    def best_offsets(
        self,
        directions: ArrayLike,
        speeds: ArrayLike,
        most: float,
        progress: Callable[[float], None] | None = None,
    ) -> Array:
        """Return the best offsets of each group, (k, m); a turbine alone faces the wind.

        FLORIS' serial refine finds them if a group is computed as a whole; otherwise `serial_refine` takes the same
        steps with the parts of the group.
        """
        told = progress or (lambda share: None)
        d, u = (np.asarray(each, dtype=np.float64) for each in (directions, speeds))
        blank = np.zeros((len(d), len(self.farm)))

        def best(part: FlorisModel, cases: Array) -> Array:
            alone = len(part.farm) == 1
            return np.zeros((len(cases), 1)) if alone else part.best_offsets(cases[:, 0], cases[:, 1], most)

        def whole(sector: int) -> list[Part]:
            return [part for part in self.parts(sector) if len(part.turbines) == group_of[sector][part.turbines[0]]]

        sectors = self._sectors(d)
        group_of = {sector: self._group_sizes(sector) for sector in np.unique(sectors).tolist()}
        cost = np.array([self._search_cost(sector) for sector in sectors.tolist()])
        in_parts = np.array([len(whole(sector)) < len(self.parts(sector)) for sector in sectors.tolist()])
        share = float(cost[~in_parts].sum() / max(cost.sum(), 1.0))
        found = self._by_parts(d, u, blank, best, whole, progress=lambda done: told(share * done))
        rows = np.flatnonzero(in_parts)
        if len(rows):
            orders = [
                self._in_parts(sector, direction) for sector, direction in zip(sectors[rows], d[rows], strict=True)
            ]

            def of_rows(some: Indices, yaw: Array, turbine: Indices) -> Array:
                turns = np.zeros(yaw.shape, dtype=bool)
                turns[np.arange(len(some)), turbine] = True
                return np.asarray(self._power(d[rows[some]], u[rows[some]], yaw, turns).sum(axis=1))

            searched = serial_refine(
                of_rows, orders, len(self.farm), most, progress=lambda done: told(share + (1 - share) * done)
            )
            found[rows] += searched
        return found

    def _sectors(self, directions: Array) -> Indices:
        return np.rint((directions % 360.0) / self.sector).astype(np.int64) % round(360.0 / self.sector)

    def _group_sizes(self, sector: int) -> Indices:
        """Return of every turbine how many there are in its group, (m,)."""
        sizes = np.zeros(len(self.farm), dtype=np.int64)
        for group in self.groups(sector):
            sizes[group] = len(group)
        return sizes

    def _search_cost(self, sector: int) -> float:
        return float(sum(len(part.turbines) ** 3 for part in self.parts(sector)))

    def _in_parts(self, sector: int, direction: float) -> Indices:
        """Return the turbines of groups that are computed in parts and that have some behind them, upwind first."""
        sizes, farm = self._group_sizes(sector), self.farm
        within = {
            int(k) for part in self.parts(sector) if len(part.turbines) < sizes[part.turbines[0]] for k in part.turbines
        }
        behind = _behind(farm, sector * self.sector, self.sector, self.reach)
        blows = np.radians(270.0 - direction)
        order = np.argsort(farm.x * np.cos(blows) + farm.y * np.sin(blows), kind="stable")
        return np.array([k for k in order.tolist() if k in within and behind[k].any()], dtype=np.int64)

    def _by_parts(
        self,
        directions: ArrayLike,
        speeds: ArrayLike,
        yaw: Array,
        compute: Callable[[FlorisModel, Array], Array],
        parts_of_sector: Callable[[int], list[Part]],
        turns: NDArray[np.bool_] | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> Array:
        """Return what is computed of distinct cases, each a direction, a speed and the offsets of a part, (k, m).

        Where it is said which turbines turn, (k, m), only parts with one of them are computed.
        """
        d = np.broadcast_to(np.asarray(directions, dtype=np.float64), len(yaw))
        u = np.broadcast_to(np.asarray(speeds, dtype=np.float64), len(yaw))
        sectors = self._sectors(d)
        alike: dict[Hashable, list[tuple[Indices, Part]]] = {}
        order = np.argsort(sectors, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(sectors[order])) + 1) if len(order) else []:
            for part in parts_of_sector(int(sectors[rows[0]])):
                some = rows if turns is None else rows[turns[np.ix_(rows, part.turbines)].any(axis=1)]
                if len(some):
                    alike.setdefault(self._shape(part.turbines), []).append((some, part))
        found = np.zeros(yaw.shape)
        done, total = 0.0, sum(len(parts[0][1].turbines) ** 3 * len(parts[0][0]) for parts in alike.values())
        for shape, parts in alike.items():
            if shape not in self._models:
                self._models[shape] = self.model.part(parts[0][1].turbines)
            # Vectors of the whole farm often agree in a part, and in parts alike: each case is computed once.
            given = np.concatenate(
                [np.column_stack([d[rows], u[rows], yaw[np.ix_(rows, part.turbines)]]) for rows, part in parts]
            )
            cases, which = distinct_rows(given)
            each = compute(self._models[shape], cases)[which]
            ends = np.cumsum([len(rows) for rows, _ in parts])[:-1]
            for (rows, part), values in zip(parts, np.split(each, ends), strict=True):
                found[np.ix_(rows, part.turbines[part.own])] = values[:, part.own]
            if progress is not None:
                done += len(parts[0][1].turbines) ** 3 * len(parts[0][0])
                progress(done / total)
        return found

    def _shape(self, group: Indices) -> Hashable:
        """Return what tells groups apart that are not computed together: places beside the first, and kinds."""
        farm = self.farm
        beside = [(each[group] - each[group[0]]).round(2) + 0.0 for each in (farm.x, farm.y)]
        return (tuple(beside[0].tolist()), tuple(beside[1].tolist()), self.model.kinds(group))


def distinct_rows(rows: Array) -> tuple[Array, Indices]:
    """Return the distinct rows of a matrix, in any order, and for each row which of them it is.

    Rows are told apart by a number made of their bits; that no two have the same number is looked at in the end.
    """
    bits = np.ascontiguousarray(rows + 0.0).view(np.uint64)
    mixed = np.zeros(len(rows), dtype=np.uint64)
    for column in bits.T:
        mixed = (mixed ^ column) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    _, first, which = np.unique(mixed, return_index=True, return_inverse=True)
    found, which = rows[first], np.ravel(which)
    if not np.array_equal(found[which], rows):
        found, which = np.unique(rows, axis=0, return_inverse=True)
    return found, np.ravel(which).astype(np.int64)


def serial_refine(
    power: Callable[[Indices, Array, Indices], Array],
    orders: list[Indices],
    turbines: int,
    most: float,
    progress: Callable[[float], None] | None = None,
) -> Array:
    """Return the offsets that serial refine finds best in k winds, (k, m), as FLORIS' `YawOptimizationSR` does it.

    One turbine after the other, from upwind to downwind, tries offsets over the whole range, and in a second pass
    around the best one so far; each time the best is kept.

    Parameters
    ----------
    power
        Returns the power of all that notice a turbine, for some winds (indices), offsets and one turbine (index) each.
    orders
        The turbines (indices) that may turn in each wind, from upwind to downwind.
    turbines
        How many there are.
    most
        Largest offset, degrees.
    """
    told = progress or (lambda share: None)
    best = np.zeros((len(orders), turbines))
    low, high = np.full(best.shape, -most), np.full(best.shape, most)
    deepest = max(map(len, orders), default=0)
    for number, tries in enumerate(PASSES):
        for depth in range(deepest):
            told((number * deepest + depth) / (len(PASSES) * deepest))
            rows = np.array([k for k, order in enumerate(orders) if len(order) > depth], dtype=np.int64)
            turbine = np.array([orders[k][depth] for k in rows.tolist()], dtype=np.int64)
            now, bottom, top = best[rows, turbine], low[rows, turbine], high[rows, turbine]
            points = np.linspace(bottom, top, tries if number == 0 else tries + 1)  # (tries, rows)
            if number:
                points = np.delete(points, tries // 2, axis=0)  # it was tried before
            asked = np.concatenate([now[None], points])
            yaw = np.tile(best[rows], (len(asked), 1))
            yaw[np.arange(len(yaw)), np.tile(turbine, len(asked))] = asked.ravel()
            made = power(np.tile(rows, len(asked)), yaw, np.tile(turbine, len(asked))).reshape(len(asked), -1)
            pick = made[1:].argmax(axis=0)
            each = np.arange(len(rows))
            better = made[1:][pick, each] > made[0]
            to = np.where(better, points[pick, each], now)
            half = 0.5 * (points[1] - points[0])
            best[rows, turbine] = to
            low[rows, turbine] = np.where(better, np.clip(to - half, -most, most), bottom)
            high[rows, turbine] = np.where(better, np.clip(to + half, -most, most), top)
    return best


def digest_of(model: object) -> str | None:
    """Return what tells a model from others of the same layout; None where it does not say."""
    found = getattr(model, "digest", None)
    return None if found is None else str(found)


def wake_model(model: FlorisModel) -> FlorisModel | GroupedModel:
    """Return a model that computes the farm in reasonable time: for a large farm by groups, else the model itself."""
    return model if len(model.farm) <= TOGETHER else GroupedModel(model)
