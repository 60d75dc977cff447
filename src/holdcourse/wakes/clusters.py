"""Large farms: turbines that are decided together, for all winds, and the energy table of each such cluster.

The groups of `groups` differ from sector to sector, and nacelles carry their offsets from one sector into the next; so
decisions are made by clusters that stay the same in all winds. The **interplay** of two turbines is the share of the
circle of directions in which one of them stands in the wake of the other. Clusters begin as single turbines; the two
that have most interplay between them are joined, again and again, as long as no more than `LARGEST` turbines come
together and there is any interplay at all.

A **cluster's table** holds, for each of its settings in every wind, the power of its own turbines and what its offsets
give to all others or take from them, while the others face the wind. What the others really hold may be something else:
that, and nothing else, is what is lost against one decision for the whole farm. (While the others hold their best
offsets a turbine has less left to give: in a row of five each for itself then kept 71 % of the joint optimum, and 96 %
with others that face the wind.) Where no wake passes
from one cluster to another nothing is: the wind is the same for all, energy and wear are sums over clusters, and so the
best plan of the farm is the best plan of each.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.archive import write_file
from holdcourse.errors import InvalidInput, counted
from holdcourse.wakes.farm import Farm, WakeModel
from holdcourse.wakes.groups import PLANNED_REACH, REACH, TOGETHER, GroupedModel, digest_of, meetings
from holdcourse.wakes.offsets import (
    BLUR,
    DIRECTION_STEP,
    MOST,
    SPEEDS,
    STEP,
    WindGrid,
    build_table,
    choice,
    near_power,
    rounded_best,
    tidied,
    wind_grid,
)
from holdcourse.wakes.table import FORMAT as TABLE
from holdcourse.wakes.table import EnergyTable, read_table

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

FORMAT = "holdcourse energy tables of clusters 1"
LARGEST = 4  # turbines of a cluster
MOST_SETTINGS = 40  # of a cluster
MOST_CANDIDATES = 60  # vectors that they are chosen from
AT_ONCE = 20  # vectors that are computed at once
TURN = 1.0  # degrees, in which interplay is counted
SEARCHING, TIDYING = 0.35, 0.4  # shares of the work that are done after the search, and after dropping offsets


@dataclass(frozen=True, eq=False)
class ClusteredTable:
    """A large farm's energy: one table for each cluster, and the farm's lookup table.

    Parameters
    ----------
    whole
        The farm: its power without steering, and FLORIS' best offsets; no steering is its one setting.
    members
        The turbines (indices) of each cluster.
    tables
        The table of each cluster, in the order of `members`.
    """

    whole: EnergyTable
    members: tuple[Indices, ...]
    tables: tuple[EnergyTable, ...]

    def __post_init__(self) -> None:
        if len(self.members) != len(self.tables) or not self.members:
            raise InvalidInput(
                f"each cluster needs one energy table, got {counted(len(self.tables), 'table')} for "
                f"{counted(len(self.members), 'cluster')}"
            )
        if sorted(np.concatenate(self.members).tolist()) != list(range(len(self.whole.farm))):
            raise InvalidInput("every turbine of the farm must belong to exactly one cluster")

    @property
    def farm(self) -> Farm:
        """The layout."""
        return self.whole.farm

    @property
    def words(self) -> str:
        """How the settings were chosen."""
        return self.whole.words

    @property
    def most(self) -> float | None:
        """Largest offset, degrees."""
        return self.whole.most

    @property
    def step(self) -> float | None:
        """Steps of offsets, degrees."""
        return self.whole.step

    @property
    def computed_by(self) -> str | None:
        """Digest of the wake model that computed the tables."""
        return self.whole.computed_by

    @property
    def turbulence(self) -> float:
        """Ambient turbulence intensity."""
        return self.whole.turbulence

    def save(self, path: str | Path) -> None:
        """Write the tables to a file; `load_table` reads them."""
        data = {
            "format": FORMAT,
            "whole": self.whole.whole_data(),
            "members": [each.tolist() for each in self.members],
            "tables": [each.whole_data() for each in self.tables],
        }
        write_file(Path(path), gzip.compress(json.dumps(data).encode(), mtime=0))

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> ClusteredTable:
        """Read what `save` wrote."""
        members = tuple(np.array(each, dtype=np.int64) for each in data["members"])
        tables = tuple(EnergyTable.from_data(each) for each in data["tables"])
        return cls(EnergyTable.from_data(data["whole"]), members, tables)

    def __repr__(self) -> str:
        counts = ", ".join(str(table.n) for table in self.tables)
        return f"ClusteredTable({self.farm.name!r}, {len(self.tables)} clusters of {counts} settings)"


def load_table(path: str | Path) -> EnergyTable | ClusteredTable:
    """Read the energy table of a farm, or the tables of its clusters."""
    kinds: dict[str, Callable[[Mapping[str, Any]], EnergyTable | ClusteredTable]]
    kinds = {TABLE: EnergyTable.from_data, FORMAT: ClusteredTable.from_data}
    return read_table(path, kinds)


def interplay(farm: Farm, reach: float = REACH) -> Array:
    """Return the share of the circle in which one of two turbines stands in the wake of the other, (m, m)."""
    directions = np.arange(0.0, 360.0, TURN)
    return np.asarray(np.mean([meetings(farm, direction, reach) for direction in directions], axis=0))


def clusters_of(farm: Farm, most: int = LARGEST, reach: float = REACH) -> list[Indices]:
    """Return the turbines (by index) that are decided together, at most `most` in each cluster.

    Examples
    --------
    >>> import numpy as np
    >>> from holdcourse.wakes.farm import Farm
    >>> x, y = np.array([0.0, 500.0, 1000.0, 9000.0, 9500.0]), np.zeros(5)
    >>> farm = Farm("two rows", ("a", "b", "c", "d", "e"), x, y, np.full(5, 100.0))
    >>> [cluster.tolist() for cluster in clusters_of(farm)], [cluster.tolist() for cluster in clusters_of(farm, 2)]
    ([[0, 1, 2], [3, 4]], [[0, 1], [2], [3, 4]])
    """
    if most < 1:
        raise InvalidInput(f"the largest number of turbines in a cluster must be 1 or more, got {most}")
    between = interplay(farm, reach)
    np.fill_diagonal(between, 0.0)
    clusters = [[k] for k in range(len(farm))]
    while True:
        size = np.array([len(each) for each in clusters])
        allowed = np.where(size[:, None] + size <= most, between, 0.0)
        one, other = divmod(int(np.argmax(np.triu(allowed, 1))), len(clusters))
        if allowed[one, other] <= 0:
            return [np.array(sorted(each), dtype=np.int64) for each in clusters]
        clusters[one] += clusters.pop(other)
        between[one] += between[other]
        between[:, one] += between[:, other]
        between[one, one] = 0.0
        between = np.delete(np.delete(between, other, axis=0), other, axis=1)


def farm_table(
    model: WakeModel,
    *,
    most: float = MOST,
    step: float = STEP,
    progress: Callable[[str, float], None] | None = None,
) -> EnergyTable | ClusteredTable:
    """Compute the energy table of a farm or, if the farm is large, a table for each cluster."""
    build = build_table if len(model.farm) <= TOGETHER else build_clusters
    return build(model, most=most, step=step, progress=progress)


def build_clusters(
    model: WakeModel,
    *,
    most: float = MOST,
    step: float = STEP,
    direction_step: float = DIRECTION_STEP,
    speeds: tuple[float, ...] = SPEEDS,
    largest: int = LARGEST,
    most_settings: int = MOST_SETTINGS,
    progress: Callable[[str, float], None] | None = None,
) -> ClusteredTable:
    """Compute the energy tables of a farm's clusters: settings chosen from the model, and the power of each.

    Parameters
    ----------
    model
        The farm's wake model, as a rule a `GroupedModel`.
    most, step, direction_step, speeds
        As in `build_table`.
    largest
        Largest number of turbines in a cluster.
    most_settings
        Largest number of offset vectors to choose from in each cluster.
    progress
        Function that is called with what is being done and the share that is done.
    """
    told = progress or (lambda what, share: None)
    grid = wind_grid(direction_step, speeds, most, step)
    near = GroupedModel(model.model, model.sector, PLANNED_REACH) if isinstance(model, GroupedModel) else model
    told("looking for the best offsets", 0.0)
    found = rounded_best(near, grid, most, step, lambda share: told("looking for the best offsets", SEARCHING * share))
    told("dropping offsets that gain nothing", SEARCHING)
    best = tidied(near, grid.direction, grid.speed, found)
    members = clusters_of(model.farm, largest)
    tables, shares = [], []
    for k, cluster in enumerate(members):
        share = TIDYING + (1 - TIDYING) * k / len(members)
        told(f"energy of cluster {k + 1} of {len(members)}", share)
        table, share = _cluster_table(near, grid, best, cluster, most_settings, most, step)
        tables.append(table)
        shares.append(share)
    counts = [table.n for table in tables]
    words = (
        f"The farm is decided in {len(members)} clusters of at most {max(map(len, members))} turbines that often stand "
        f"in each other's wakes, each with settings of its own: {min(counts)} to {max(counts)} offset vectors from "
        f"FLORIS' best offsets within {most:g} degrees, in steps of {step:g}. They hold at least "
        f"{100 * min(shares):.1f} % of the gain that the best vectors of a cluster give when the direction may have "
        f"turned by {BLUR:g} degrees."
    )
    return ClusteredTable(_whole(model, grid, best, most, step, words), tuple(members), tuple(tables))


def _cluster_table(
    model: WakeModel, grid: WindGrid, best: Array, cluster: Indices, most_settings: int, most: float, step: float
) -> tuple[EnergyTable, float]:
    """Return the table of a cluster by the farm's best offsets, (k, m), and the share of the gain that it holds."""
    cells = len(best)

    def made(vectors: Array) -> tuple[Array, Array]:
        """Return what the cluster makes, and all that it may meet with it, for offsets (k, c, members)."""
        offsets = np.zeros((cells * vectors.shape[1], best.shape[1]))
        offsets[:, cluster] = vectors.reshape(-1, len(cluster))
        d, u = (np.repeat(each, vectors.shape[1]) for each in (grid.direction, grid.speed))
        power = near_power(model, d, u, offsets, cluster)
        return power[:, cluster].sum(axis=1).reshape(cells, -1), power.sum(axis=1).reshape(cells, -1)

    mine = best[:, cluster]
    own, around = made(np.stack([np.zeros_like(mine), mine], axis=1))
    distinct, which = np.unique(mine, axis=0, return_inverse=True)
    worth = np.bincount(np.ravel(which), around[:, 1] - around[:, 0], len(distinct))
    worth[~distinct.any(axis=1)] = -np.inf
    order = np.argsort(-worth, kind="stable")[: min(MOST_CANDIDATES, int(distinct.any(axis=1).sum()))]
    vectors = np.concatenate([np.zeros((1, len(cluster))), distinct[order]])
    power = np.empty((cells, len(vectors)))
    power[:, 0] = own[:, 0]
    for first in range(1, len(vectors), AT_ONCE):
        some = vectors[first : first + AT_ONCE]
        held = np.broadcast_to(some, (cells, *some.shape))
        power[:, first : first + len(some)] = own[:, :1] + made(held)[1] - around[:, :1]
    whole = power.reshape(*grid.shape, -1)
    picked = choice(whole, grid.direction_step, most_settings)
    kept = whole[:, :, picked.vectors]
    farm = model.farm
    part = Farm(
        farm.name,
        tuple(farm.turbines[k] for k in cluster),
        farm.x[cluster],
        farm.y[cluster],
        farm.diameter[cluster],
    )
    words = (
        f"{len(picked.vectors)} settings of {', '.join(part.turbines)}, a cluster of {farm.name} ({len(farm)} "
        f"turbines), including no steering. They have {100 * picked.share:.1f} % of the gain that its "
        f"{len(vectors) - 1} best vectors give when the direction may have turned by {BLUR:g} degrees. Energy is that "
        "of these turbines, and what their offsets give to the others, while those face the wind."
    )
    table = EnergyTable(
        part,
        grid.directions,
        grid.speeds,
        vectors[picked.vectors],
        kept,
        kept.argmax(axis=2),
        len(picked.vectors),
        words,
        model.turbulence,
        most,
        step,
        digest_of(model),
    )
    return table, picked.share


def _whole(model: WakeModel, grid: WindGrid, best: Array, most: float, step: float, words: str) -> EnergyTable:
    """Return the farm's table of no steering, with the best offsets beside it."""
    vectors = np.unique(best, axis=0)
    vectors = np.concatenate([np.zeros((1, best.shape[1])), vectors[vectors.any(axis=1)]])
    place = {tuple(vector): k for k, vector in enumerate(vectors.tolist())}
    which = np.array([place[tuple(vector)] for vector in best.tolist()])
    power = np.full((len(best), len(vectors)), np.nan)
    power[np.arange(len(best)), which] = model.power(grid.direction, grid.speed, best).sum(axis=1)
    power[:, 0] = model.power(grid.direction, grid.speed, np.zeros_like(best)).sum(axis=1)
    return EnergyTable(
        model.farm,
        grid.directions,
        grid.speeds,
        vectors,
        power.reshape(*grid.shape, -1),
        which.reshape(grid.shape),
        1,
        words,
        model.turbulence,
        most,
        step,
        digest_of(model),
    )
