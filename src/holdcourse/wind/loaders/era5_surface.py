"""ERA5 single-level fields: where the ground is, and the wind at 10 m and 100 m above it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from holdcourse.errors import InvalidInput
from holdcourse.wind.grid import Field, Point, levels_of, nearest_point, read, times_of, wind_speed
from holdcourse.wind.loaders.piece import Piece
from holdcourse.wind.record import Array, Site, Times

LAYOUT = "ERA5 single levels"
GRAVITY = 9.80665  # m/s2, by which ECMWF turns geopotential into height
WINDS = {10.0: ("u10", "v10"), 100.0: ("u100", "v100")}  # height above ground: components


@dataclass(frozen=True)
class Surface:
    """The ground at one site. Series are looked up by time, NaN where they have none."""

    geopotential_height: float | None = None  # m above sea level
    pressure: dict[int, float] = field(default_factory=dict)  # Pa by seconds since 1970
    winds: dict[float, dict[int, float]] = field(default_factory=dict)  # m/s, by height and then as above
    site: Site = field(default_factory=Site)
    note: str = ""

    def pressure_at(self, times: Times) -> Array:
        """Surface pressure in Pa, shape (t,)."""
        return _lookup(self.pressure, times)

    def winds_at(self, times: Times) -> dict[float, Array]:
        """Speed by height above ground, each (t,)."""
        return {height: _lookup(series, times) for height, series in self.winds.items()}


def is_surface(found: Field) -> bool:
    """Whether a data set tells of the ground and has no wind on levels."""
    if found.has("u") or found.has("v"):
        return False
    winds = any(found.has(*names) for names in WINDS.values())
    return winds or found.has("sp") or found.has("lnsp") or _ground_only(found)


def _ground_only(found: Field) -> bool:
    return found.has("z") and levels_of(found) is None


def read_surface(fields: Sequence[Field], site: Site) -> Surface:
    """What all these files say about the ground at the site."""
    height: float | None = None
    pressure: dict[int, float] = {}
    winds: dict[float, dict[int, float]] = {}
    note = ""
    for found in fields:
        point = nearest_point(found, site.latitude, site.longitude)
        if not note:
            site, note = point.site, point.note
        if _ground_only(found):
            # The ground does not move: one time is as good as all.
            height = float(np.nanmedian(read(found, "z", point, _time_axis(found))[:1])) / GRAVITY
        if found.has("sp"):
            axis, times = times_of(found)
            pressure |= _series(times, read(found, "sp", point, axis))
        if found.has("lnsp"):
            axis, times = times_of(found)
            pressure |= _series(times, np.exp(_on_any_level(found, "lnsp", point, axis)))
        for metres, (east, north) in WINDS.items():
            if found.has(east, north):
                axis, times = times_of(found)
                winds.setdefault(metres, {}).update(_series(times, wind_speed(found, east, north, point, axis)))
    return Surface(height, pressure, winds, site, note)


def piece(label: str, surface: Surface) -> Piece:
    """The wind of single-level files alone, when no file with levels is given."""
    if not surface.winds:
        raise InvalidInput(
            f"{label} tells of the ground only; give the file with the wind (u, v on pressure or model levels) too"
        )
    seconds = sorted(set().union(*surface.winds.values()))
    times = np.array(seconds, dtype=np.int64).astype("datetime64[s]")
    heights = sorted(surface.winds)
    speed = np.stack([surface.winds_at(times)[height] for height in heights], axis=1)
    names = tuple(f"{height:g} m" for height in heights)
    return Piece(label, LAYOUT, times, names, np.array(heights), speed, surface.site, (surface.note,))


def _on_any_level(found: Field, name: str, point: Point, time_axis: str | None) -> Array:
    """A field of the ground that is filed under a model level (1), perhaps beside levels where it is missing."""
    levels = levels_of(found)
    table = read(found, name, point, time_axis, levels[1] if levels else None)
    first = np.isfinite(table).argmax(axis=1)
    return np.asarray(table[np.arange(len(table)), first])


def _time_axis(found: Field) -> str | None:
    return times_of(found)[0] if found.has("time") or found.has("valid_time") else None


def _series(times: Times, values: Array) -> dict[int, float]:
    finite = np.isfinite(values)
    return dict(zip(times[finite].astype(np.int64).tolist(), values[finite].tolist(), strict=True))


def _lookup(series: dict[int, float], times: Times) -> Array:
    return np.array([series.get(second, np.nan) for second in times.astype(np.int64).tolist()], dtype=np.float64)
