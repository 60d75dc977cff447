"""A grid of wind in blocks of neighbouring points: which there are, and the wind of one of them, read whole.

Only a block is ever in memory: of every file its points, all times, all levels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import HoldcourseError, InvalidInput
from holdcourse.wind.files import era5
from holdcourse.wind.files.data import Options, Piece, WindData
from holdcourse.wind.files.grid import Field, axes_of, cut, open_fields, quiet, times_of
from holdcourse.wind.files.load import gridded, guarded, join
from holdcourse.wind.files.paths import Paths, expand, wind_files

Array: TypeAlias = NDArray[np.float64]

BLOCK_BYTES = 128 << 20  # of wind that a block may hold, where nobody says how large it shall be
CEILING = 3000.0  # m; levels above are not read to the end
MAX_MISSING = 0.3


@dataclass(frozen=True, eq=False)
class Lattice:
    """The points of a map, and how they are cut into blocks.

    Attributes
    ----------
    latitudes, longitudes
        Degrees, as the files have them, (rows,) and (columns,).
    side
        Points of a block along each axis.
    period
        First and last time of the record.
    """

    latitudes: Array
    longitudes: Array
    side: int
    period: tuple[str, str]
    source: str

    @property
    def blocks(self) -> list[tuple[slice, slice]]:
        """Rows and columns of each block."""
        rows, columns = (
            [slice(k, min(k + self.side, size)) for k in range(0, size, self.side)]
            for size in (len(self.latitudes), len(self.longitudes))
        )
        return [(row, column) for row in rows for column in columns]


def lattice(paths: Paths, side: int | None = None) -> Lattice:
    """Look at the files and return the grid that their wind is on; nothing but axes is read."""
    with _opened(paths) as (wind, ground):
        first = wind[0]
        found = axes_of(first)
        if found is None:
            raise InvalidInput(f"{first.label} does not say where its points lie; a map needs latitude and longitude")
        north, east = found
        for other in [*wind[1:], *ground]:
            theirs = axes_of(other)
            if theirs is not None and not _alike(found, theirs):
                raise InvalidInput(f"{other.label} and {first.label} have different grids; give files of one grid")
        times = [times_of(field)[1] for field in wind]
        begin, end = min(part.min() for part in times), max(part.max() for part in times)
        values = sum(_values(field) for field in [*wind, *ground])
        if side is None:
            side = max(1, math.isqrt(int(BLOCK_BYTES / max(8.0 * values, 1.0))))
        names = ", ".join(field.label for field in wind[:3]) + (f" and {len(wind) - 3} more" if len(wind) > 3 else "")
        return Lattice(north, east, min(side, max(len(north), len(east))), (str(begin), str(end)), names)


def _alike(one: tuple[Array, Array], other: tuple[Array, Array]) -> bool:
    return all(len(mine) == len(its) and np.allclose(mine, its) for mine, its in zip(one, other, strict=True))


def _values(field: Field) -> float:
    """Numbers that a file holds of one point, in the variables that are read."""
    axes = axes_of(field)
    points = 1 if axes is None else len(axes[0]) * len(axes[1])
    return float(sum(field.data[name].size for name in READ if field.has(name))) / points


READ = ("u", "v", "z", "gh", "t", "q", "sp", "lnsp", *(name for pair in era5.WINDS.values() for name in pair))


def winds(
    paths: Paths, latitudes: Array, longitudes: Array, surface_height: float | None = None
) -> Iterator[tuple[int, int, WindData | HoldcourseError]]:
    """Read a block and give the wind of its points, one after the other: row, column, and the wind.

    Where a point has none, such as a mountain above all levels, what is wrong with it.
    """
    with _opened(paths) as (wind, ground):
        parts = []
        for field in [*wind, *ground]:
            with guarded(field.label):
                parts.append(cut(field, latitudes, longitudes, READ))
        wind, ground = parts[: len(wind)], parts[len(wind) :]
        for i, north in enumerate(latitudes.tolist()):
            for j, east in enumerate(longitudes.tolist()):
                options = Options(north, (east + 180.0) % 360.0 - 180.0, surface_height)
                try:
                    pieces: list[Piece] = []
                    for field in wind:
                        with guarded(field.label):
                            pieces.append(gridded(field, ground, options))
                    yield i, j, join(pieces, ceiling=CEILING, max_missing=MAX_MISSING)
                except HoldcourseError as error:
                    yield i, j, error


@contextmanager
def _opened(paths: Paths) -> Iterator[tuple[list[Field], list[Field]]]:
    """Files with wind on levels, and files of the ground."""
    with quiet(), ExitStack() as stack:
        wind: list[Field] = []
        ground: list[Field] = []
        for file in wind_files(paths, stack):
            with guarded(file.label):
                if file.kind in ("text", "sheet"):
                    raise InvalidInput(
                        f"{file.label} has the wind of one site; a map needs wind on a grid (NetCDF or GRIB)"
                    )
                fields = open_fields(file, stack)
                wind += [field for field in fields if field.has("u", "v")]
                ground += [field for field in fields if era5.is_surface(field)]
        if not wind:
            raise InvalidInput(
                "none of the files contains wind (u, v) on levels of a grid; give ERA5 on pressure or model levels"
            )
        yield wind, ground


def altitudes_of(low: float, high: float, count: int) -> Array:
    """Evenly spaced altitudes, the same at every point."""
    if not (0 < low < high < CEILING and count >= 2):
        raise InvalidInput(
            f"altitude control needs two or more altitudes below {CEILING:g} m, with low below high; got {count} "
            f"from {low:g} to {high:g} m"
        )
    return np.linspace(low, high, int(count))


def paths_of(paths: Sequence[str]) -> tuple[str, ...]:
    """Files by their whole names, in a fixed order: a worker may stand in another folder. Archives stay archives."""
    return tuple(sorted(str(path.resolve()) for path in expand(list(paths))))
