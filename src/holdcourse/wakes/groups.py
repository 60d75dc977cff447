"""Large farms: in every sector of the wind the farm falls into groups of turbines that do not meet each other's wakes.

Two turbines meet in a sector if, for some direction in it, one stands at most `REACH` rotor diameters behind the other
and at most `BESIDE` diameters from the axis of its wake. The groups of a sector are the connected parts of the graph of
these meetings. Best offsets are searched for, and power is computed, group by group, each as a farm of its own; wakes
over longer distances are left out. Which turbines are decided together is said in `clusters`.

Groups that are alike (the same turbines at the same distances, as the rows of a grid are) are computed as one.
FLORIS' work grows with the square of the number of turbines, and that of its search with the cube, so a farm of 50
turbines in groups of four costs about what 13 farms of four do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.errors import InvalidInput
from holdcourse.wakes.farm import Farm, FlorisModel

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

REACH, BESIDE = 20.0, 1.5  # rotor diameters
PLANNED_REACH = 15.0  # the same where offsets are looked for: what steering gains so far behind is little
SECTOR = 2.0  # degrees: wider ones would join what no single direction joins
TOGETHER = 8  # farms of up to so many turbines are computed as a whole


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
    within = np.linspace(direction - sector / 2, direction + sector / 2, 5)
    meets = np.any([meetings(farm, at, reach) for at in within], axis=0)
    groups, left = [], set(range(len(farm)))
    while left:
        group, edge = set[int](), {min(left)}
        while edge:
            group |= edge
            edge = {int(k) for i in edge for k in np.flatnonzero(meets[i])} - group
        groups.append(np.array(sorted(group), dtype=np.int64))
        left -= group
    return groups


def meetings(farm: Farm, direction: float, reach: float = REACH) -> NDArray[np.bool_]:
    """Return which two turbines meet in wind from a direction: one stands in the wake of the other, (m, m)."""
    blows = np.radians(270.0 - direction)
    along = farm.x * np.cos(blows) + farm.y * np.sin(blows)
    across = -farm.x * np.sin(blows) + farm.y * np.cos(blows)
    behind = along[None, :] - along[:, None]  # how far the column's turbine stands behind the row's
    beside = np.abs(across[None, :] - across[:, None])
    d = farm.diameter[:, None]
    meets = (behind > 0) & (behind <= reach * d) & (beside <= BESIDE * d)
    return np.asarray(meets | meets.T)


class GroupedModel:
    """A wake model that computes a large farm group by group; see the module's docstring.

    Parameters
    ----------
    model
        The FLORIS model of the whole farm.
    sector, reach
        Degrees of a sector, and rotor diameters that a wake is followed for.
    """

    def __init__(self, model: FlorisModel, sector: float = SECTOR, reach: float = REACH) -> None:
        if not sector > 0 or abs(360.0 / sector - round(360.0 / sector)) > 1e-9:
            raise InvalidInput(f"a sector of {sector} degrees does not divide the circle; give one such as 2")
        self.model, self.sector, self.reach = model, sector, reach
        self.turbulence = model.turbulence
        self._parts: dict[Hashable, FlorisModel] = {}
        self._groups: dict[int, list[Indices]] = {}

    @property
    def farm(self) -> Farm:
        """The layout."""
        return self.model.farm

    def groups(self, sector: int) -> list[Indices]:
        """Return the groups of a sector, counted from the one around north."""
        if sector not in self._groups:
            self._groups[sector] = groups_of(self.farm, sector * self.sector, self.sector, self.reach)
        return self._groups[sector]

    @property
    def largest(self) -> int:
        """Turbines of the largest group of any sector."""
        return max(len(group) for sector in range(round(360.0 / self.sector)) for group in self.groups(sector))

    def power(
        self, directions: ArrayLike, speeds: ArrayLike, offsets: ArrayLike, around: ArrayLike | None = None
    ) -> Array:
        """Return the power of every turbine, kW, (k, m), for k directions, speeds and offset vectors.

        Parameters
        ----------
        around
            Turbines (indices): only the groups that they stand in are computed, and 0 is returned for the others.
        """
        yaw = np.atleast_2d(np.asarray(offsets, dtype=np.float64))

        def made(part: FlorisModel, cases: Array) -> Array:
            return part.power(cases[:, 0], cases[:, 1], cases[:, 2:])

        return self._by_groups(directions, speeds, yaw, made, around)

    def best_offsets(self, directions: ArrayLike, speeds: ArrayLike, most: float) -> Array:
        """Return the offsets that FLORIS finds best for each group, (k, m); a turbine alone faces the wind."""
        blank = np.zeros((np.size(directions), len(self.farm)))

        def best(part: FlorisModel, cases: Array) -> Array:
            alone = len(part.farm) == 1
            return np.zeros((len(cases), 1)) if alone else part.best_offsets(cases[:, 0], cases[:, 1], most)

        return self._by_groups(directions, speeds, blank, best)

    def _by_groups(
        self,
        directions: ArrayLike,
        speeds: ArrayLike,
        yaw: Array,
        compute: Callable[[FlorisModel, Array], Array],
        around: ArrayLike | None = None,
    ) -> Array:
        """Return what is computed of distinct cases, each a direction, a speed and a group's offsets, (k, m)."""
        d = np.broadcast_to(np.asarray(directions, dtype=np.float64), len(yaw))
        u = np.broadcast_to(np.asarray(speeds, dtype=np.float64), len(yaw))
        sectors = np.rint((d % 360.0) / self.sector).astype(np.int64) % round(360.0 / self.sector)
        alike: dict[Hashable, list[tuple[Indices, Indices]]] = {}
        for sector in np.unique(sectors).tolist():
            rows = np.flatnonzero(sectors == sector)
            for group in self.groups(sector):
                if around is None or np.isin(group, around).any():
                    alike.setdefault(self._shape(group), []).append((rows, group))
        found = np.zeros(yaw.shape)
        for shape, parts in alike.items():
            if shape not in self._parts:
                self._parts[shape] = self.model.part(parts[0][1])
            # Vectors of the whole farm often agree in a group, and in groups alike: each case is computed once.
            given = np.concatenate([np.column_stack([d[rows], u[rows], yaw[np.ix_(rows, g)]]) for rows, g in parts])
            cases, which = np.unique(given, axis=0, return_inverse=True)
            each = compute(self._parts[shape], cases)[np.ravel(which)]
            ends = np.cumsum([len(rows) for rows, _ in parts])[:-1]
            for (rows, group), values in zip(parts, np.split(each, ends), strict=True):
                found[np.ix_(rows, group)] = values
        return found

    def _shape(self, group: Indices) -> Hashable:
        """Return what tells groups apart that are not computed together: places beside the first, and kinds."""
        farm = self.farm
        beside = [(each[group] - each[group[0]]).round(2) + 0.0 for each in (farm.x, farm.y)]
        return (tuple(beside[0].tolist()), tuple(beside[1].tolist()), self.model.kinds(group))


def wake_model(model: FlorisModel) -> FlorisModel | GroupedModel:
    """Return what computes a farm within reasonable time: the model itself, or by groups where it is large."""
    return model if len(model.farm) <= TOGETHER else GroupedModel(model)
