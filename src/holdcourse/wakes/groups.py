"""Large farms: in every sector of the wind the farm falls into groups of turbines that do not meet each other's wakes.

Two turbines meet in a sector if, for some direction in it, one stands at most `REACH` rotor diameters behind the other
and at most `BESIDE` diameters from the axis of its wake. The groups of a sector are the connected parts of the graph of
these meetings. Best offsets are searched for, and power is computed, group by group, each as a farm of its own; wakes
over longer distances are left out. What is decided is still one vector of offsets for the whole farm.

FLORIS' work grows with the square of the number of turbines, and that of its search with the cube, so a farm of 50
turbines in groups of four costs about what 13 farms of four do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.errors import InvalidInput
from holdcourse.wakes.farm import Farm, FlorisModel

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

REACH, BESIDE = 20.0, 1.5  # rotor diameters
SECTOR = 10.0  # degrees
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
    meets = np.eye(len(farm), dtype=bool)
    for at in np.linspace(direction - sector / 2, direction + sector / 2, 5):
        blows = np.radians(270.0 - at)
        along = farm.x * np.cos(blows) + farm.y * np.sin(blows)
        across = -farm.x * np.sin(blows) + farm.y * np.cos(blows)
        behind = along[None, :] - along[:, None]  # how far the column's turbine stands behind the row's
        beside = np.abs(across[None, :] - across[:, None])
        d = farm.diameter[:, None]
        meets |= (behind > 0) & (behind <= reach * d) & (beside <= BESIDE * d)
    meets |= meets.T
    groups, left = [], set(range(len(farm)))
    while left:
        group, edge = set[int](), {min(left)}
        while edge:
            group |= edge
            edge = {int(k) for i in edge for k in np.flatnonzero(meets[i])} - group
        groups.append(np.array(sorted(group), dtype=np.int64))
        left -= group
    return groups


class GroupedModel:
    """A wake model that computes a large farm group by group; see the module's docstring.

    Parameters
    ----------
    model
        Of the whole farm.
    sector, reach
        Degrees of a sector, and rotor diameters that a wake is followed for.
    """

    def __init__(self, model: FlorisModel, sector: float = SECTOR, reach: float = REACH) -> None:
        if not sector > 0 or abs(360.0 / sector - round(360.0 / sector)) > 1e-9:
            raise InvalidInput(f"a sector of {sector} degrees does not divide the circle; give one such as 10")
        self.model, self.sector, self.reach = model, sector, reach
        self.turbulence = model.turbulence
        self._parts: dict[tuple[int, ...], FlorisModel] = {}
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

    def power(self, directions: ArrayLike, speeds: ArrayLike, offsets: ArrayLike) -> Array:
        """Return the power of every turbine, kW, (k, m), for k directions, speeds and offset vectors."""
        yaw = np.atleast_2d(np.asarray(offsets, dtype=np.float64))

        def made(part: FlorisModel, d: Array, u: Array, group: Indices, rows: Indices) -> Array:
            # Vectors of the whole farm often agree in a group: each case is computed once.
            cases, which = np.unique(np.column_stack([d, u, yaw[np.ix_(rows, group)]]), axis=0, return_inverse=True)
            return np.asarray(part.power(cases[:, 0], cases[:, 1], cases[:, 2:])[np.ravel(which)])

        return self._by_groups(directions, speeds, yaw, made)

    def best_offsets(self, directions: ArrayLike, speeds: ArrayLike, most: float) -> Array:
        """Return the offsets that FLORIS finds best for each group, (k, m); a turbine alone faces the wind."""
        blank = np.zeros((np.size(directions), len(self.farm)))

        def best(part: FlorisModel, d: Array, u: Array, group: Indices, rows: Indices) -> Array:
            return blank[np.ix_(rows, group)] if len(group) == 1 else part.best_offsets(d, u, most)

        return self._by_groups(directions, speeds, blank, best)

    def _by_groups(
        self,
        directions: ArrayLike,
        speeds: ArrayLike,
        like: Array,
        compute: Callable[[FlorisModel, Array, Array, Indices, Indices], Array],
    ) -> Array:
        d = np.broadcast_to(np.asarray(directions, dtype=np.float64), len(like))
        u = np.broadcast_to(np.asarray(speeds, dtype=np.float64), len(like))
        sectors = np.rint((d % 360.0) / self.sector).astype(np.int64) % round(360.0 / self.sector)
        found = np.empty(like.shape)
        for sector in np.unique(sectors).tolist():
            rows = np.flatnonzero(sectors == sector)
            for group in self.groups(sector):
                part = self._part(group)
                found[np.ix_(rows, group)] = compute(part, d[rows], u[rows], group, rows)
        return found

    def _part(self, group: Indices) -> FlorisModel:
        """Return the model of a group; turbines that stand alone share one, where they are of one kind."""
        key = (-1,) if len(group) == 1 and self.model.one_kind else tuple(group.tolist())
        if key not in self._parts:
            self._parts[key] = self.model.part(group)
        return self._parts[key]


def wake_model(model: FlorisModel) -> FlorisModel | GroupedModel:
    """Return what computes a farm within reasonable time: the model itself, or by groups where it is large."""
    return model if len(model.farm) <= TOGETHER else GroupedModel(model)
