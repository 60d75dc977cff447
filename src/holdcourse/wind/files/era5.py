"""Grids of the European Centre: ERA5 on single, model and pressure levels, and its forecasts at a site.

| symbol | meaning | shape |
|---|---|---|
| a, b | half-level coefficients: pressure a + b * surface pressure | (levels + 1,) |
| t, q | temperature (K), specific humidity (kg/kg) | (times, levels) |

**Single levels** say where the ground is, and the wind at 10 m and 100 m above it.

**Model levels** come from the archive of the paper (`ml_2010_06.netcdf`) and from the Climate Data Store. Level 137 is
the lowest. With t, q and the surface pressure the heights are integrated from the ground up; without, they are the
heights of the standard atmosphere, as in the paper.

**Pressure levels** come from the old and the new Climate Data Store, as NetCDF and GRIB. The archive fills levels below
the ground with invented values: geopotential follows a standard lapse rate, wind repeats the lowest model level (10 m).
They are never used, so we must know where the ground is: from the surface geopotential, the surface pressure, or the
user.

**Forecasts** of ECMWF's model at one site are read in the layout of Cloudnet: `uwind, vwind, height (time, level)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import DamagedFile, InvalidInput
from holdcourse.tables.times import Times
from holdcourse.wind.files.data import Array, Options, Piece, Site
from holdcourse.wind.files.grid import MODEL_LEVELS, Field, Point, levels_of, nearest_point, read, times_of, wind_speed

SINGLE_LEVELS_LAYOUT = "ERA5 single levels"
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
        """Return the surface pressure in Pa, shape (t,)."""
        return _lookup(self.pressure, times)

    def winds_at(self, times: Times) -> dict[float, Array]:
        """Return the speed by height above ground, each (t,)."""
        return {height: _lookup(series, times) for height, series in self.winds.items()}


def is_surface(found: Field) -> bool:
    """Return whether a data set tells of the ground and has no wind on levels."""
    if found.has("u") or found.has("v"):
        return False
    winds = any(found.has(*names) for names in WINDS.values())
    return winds or found.has("sp") or found.has("lnsp") or _ground_only(found)


def _ground_only(found: Field) -> bool:
    return found.has("z") and levels_of(found) is None


def read_surface(fields: Sequence[Field], site: Site) -> Surface:
    """Return what all these files say about the ground at the site."""
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
    """Return the wind of single-level files alone, when no file with levels is given."""
    if not surface.winds:
        raise InvalidInput(
            f"{label} describes the ground only; give the file with the wind (u, v on pressure or model levels) too"
        )
    seconds = sorted(set().union(*surface.winds.values()))
    times = np.array(seconds, dtype=np.int64).astype("datetime64[s]")
    heights = sorted(surface.winds)
    speed = np.stack([surface.winds_at(times)[height] for height in heights], axis=1)
    names = tuple(f"{height:g} m" for height in heights)
    return Piece(label, SINGLE_LEVELS_LAYOUT, times, names, np.array(heights), speed, surface.site, (surface.note,))


def _on_any_level(found: Field, name: str, point: Point, time_axis: str | None) -> Array:
    """Return a field of the ground that is filed under a model level (1), perhaps beside levels where it is missing."""
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


MODEL_LEVELS_LAYOUT = "ERA5 model levels"
DRY_AIR = 287.0597  # J/(kg K)
VAPOUR = 0.609133  # by how much water vapour is lighter than air

# Heights of levels 137, 136, ..., 113 in the standard (ICAO) atmosphere, metres above ground.
ICAO_HEIGHTS = (
    10.0, 30.96, 53.92, 79.04, 106.54, 136.62, 169.5, 205.44, 244.68, 287.51, 334.22, 385.14, 440.58, 500.91, 566.49,
    637.7, 714.94, 798.62, 889.17, 987.0, 1092.54, 1206.21, 1328.43, 1459.58, 1600.04,
)  # fmt: skip

# ECMWF's coefficients of the 42 lowest half levels, 96 to 137 (the ground); level n lies between n - 1 and n.
TOP_HALF_LEVEL = 96
HALF_A = (
    18006.925781, 17471.839844, 16888.6875, 16262.046875, 15596.695313, 14898.453125, 14173.324219, 13427.769531,
    12668.257813, 11901.339844, 11133.304688, 10370.175781, 9617.515625, 8880.453125, 8163.375, 7470.34375, 6804.421875,
    6168.53125, 5564.382813, 4993.796875, 4457.375, 3955.960938, 3489.234375, 3057.265625, 2659.140625, 2294.242188,
    1961.5, 1659.476563, 1387.546875, 1143.25, 926.507813, 734.992188, 568.0625, 424.414063, 302.476563, 202.484375,
    122.101563, 62.78125, 22.835938, 3.757813, 0.0, 0.0,
)  # fmt: skip
HALF_B = (
    0.332939, 0.358254, 0.384363, 0.411125, 0.438391, 0.466003, 0.4938, 0.521619, 0.549301, 0.576692, 0.603648,
    0.630036, 0.655736, 0.680643, 0.704669, 0.727739, 0.749797, 0.770798, 0.790717, 0.809536, 0.827256, 0.843881,
    0.859432, 0.873929, 0.887408, 0.8999, 0.911448, 0.922096, 0.931881, 0.94086, 0.949064, 0.95655, 0.963352, 0.969513,
    0.975078, 0.980072, 0.984542, 0.9885, 0.991984, 0.995003, 0.99763, 1.0,
)  # fmt: skip


def read_model_levels(field: Field, point: Point, surface: Surface) -> Piece:
    """Read the wind by height above ground at the grid point."""
    found = levels_of(field)
    assert found is not None
    _, level_axis, levels = found
    if (levels != np.round(levels)).any() or levels.min() < 1 or levels.max() > MODEL_LEVELS:
        raise InvalidInput(
            f"{field.label}: model levels must be whole numbers from 1 to {MODEL_LEVELS}, got {levels.tolist()}"
        )
    time_axis, times = times_of(field)
    axes = (time_axis, level_axis)
    speed = wind_speed(field, "u", "v", point, *axes)
    order = np.argsort(-levels, kind="stable")  # the ground first
    numbers = levels[order].astype(np.int64)
    pressure = surface.pressure_at(times)
    if field.has("t", "q") and np.isfinite(pressure).any() and _unbroken(numbers):
        order = order[numbers > TOP_HALF_LEVEL]
        heights = hydrostatic_heights(
            read(field, "t", point, *axes)[:, order], read(field, "q", point, *axes)[:, order], pressure
        )
        how = "heights computed from temperature, humidity and surface pressure"
    else:
        order = order[numbers > MODEL_LEVELS - len(ICAO_HEIGHTS)]
        if not len(order):
            raise InvalidInput(
                f"{field.label} has model levels {numbers[-1]} to {numbers[0]}, all above 1600 m; download levels 113 "
                "to 137"
            )
        heights = np.array([ICAO_HEIGHTS[MODEL_LEVELS - int(level)] for level in levels[order]])
        how = "heights of the standard atmosphere (no t, q and surface pressure for all levels down to 137)"
    names = tuple(f"level {level:g}" for level in levels[order])
    return Piece(
        field.label, MODEL_LEVELS_LAYOUT, times, names, heights, speed[:, order], point.site, (point.note, how)
    )


def hydrostatic_heights(temperature: Array, humidity: Array, surface_pressure: Array) -> Array:
    """Heights above ground, shape (t, k), of the k lowest levels, the lowest first; ECMWF's own integration."""
    moist = DRY_AIR * temperature * (1.0 + VAPOUR * humidity)
    half = np.array(HALF_A)[::-1] + np.array(HALF_B)[::-1] * surface_pressure[:, None]  # the ground first
    below = np.zeros(len(temperature))  # geopotential of the half level under the level
    heights = np.empty_like(temperature)
    for level in range(temperature.shape[1]):
        thickness = np.log(half[:, level] / half[:, level + 1])
        share = 1.0 - half[:, level + 1] / (half[:, level] - half[:, level + 1]) * thickness
        heights[:, level] = (below + moist[:, level] * share) / GRAVITY
        below = below + moist[:, level] * thickness
    return heights


def _unbroken(numbers: NDArray[np.int64]) -> bool:
    """Return whether the levels go down to the ground without a hole: a missing layer has no thickness to add."""
    return numbers[0] == MODEL_LEVELS and bool((np.diff(numbers) == -1).all())


PRESSURE_LEVELS_LAYOUT = "ERA5 pressure levels"
LOWEST_HEIGHT = 10.0  # m above ground; below it the archive repeats the wind of its lowest model level
ENOUGH_TIMES = 24  # to tell a repeated wind from a calm hour
# m/s. Median change of wind between neighbouring levels, in the files this was chosen on: 0.01..0.07 below ground
# (Arizona, 3 grid points), 0.14 and more in the lowest pair elsewhere (Portugal, 8 series; the smallest inland).
SAME_WIND = 0.12


def read_pressure_levels(field: Field, point: Point, surface: Surface, options: Options) -> Piece:
    """Read the wind by height above ground at the grid point."""
    found = levels_of(field)
    assert found is not None
    _, level_axis, levels = found
    time_axis, times = times_of(field)
    axes = (time_axis, level_axis)
    speed = wind_speed(field, "u", "v", point, *axes)
    sea_heights = _heights_above_sea(field, point, axes)
    pressure = surface.pressure_at(times)
    ground, how = _ground(field, surface, options, levels, sea_heights, pressure)
    heights = sea_heights - ground
    buried = (levels[None, :] * 100.0 > pressure[:, None]) | ~(heights >= LOWEST_HEIGHT)
    if how == "given":
        _require_real_levels(field, point, axes, levels, buried)
    heights[buried] = np.nan
    speed[buried] = np.nan
    if np.isnan(ground).all():
        raise InvalidInput(
            f"{field.label}: the height of the ground is missing at this site, or is not a number; give surface_height="
        )
    if np.isnan(heights).all():
        raise InvalidInput(
            f"{field.label}: every level lies below ground ({ground:.0f} m above sea level); check the surface height"
        )
    names = [f"{level:g} hPa" for level in levels]
    columns, winds = [heights], [speed]
    for metres, series in surface.winds_at(times).items():
        if np.isfinite(series).any():
            names.append(f"{metres:g} m")
            columns.append(np.full((len(times), 1), metres))
            winds.append(series[:, None])
    notes = (point.note, f"ground {round(ground)} m above sea level ({how})", _buried_note(levels, buried))
    return Piece(
        field.label,
        PRESSURE_LEVELS_LAYOUT,
        times,
        tuple(names),
        np.concatenate(columns, axis=1),
        np.concatenate(winds, axis=1),
        point.site,
        tuple(note for note in notes if note),
    )


def _heights_above_sea(field: Field, point: Point, axes: tuple[str | None, str | None]) -> Array:
    if field.has("z"):
        heights = read(field, "z", point, *axes)
        in_metres = str(field.data["z"].attrs.get("units", "")).strip().lower() in ("m", "gpm", "metres", "meters")
        return heights if in_metres else heights / GRAVITY
    if field.has("gh"):
        return read(field, "gh", point, *axes)
    raise InvalidInput(
        f"{field} has no geopotential, so its levels have no heights; add the variable 'geopotential' to the download"
    )


def _ground(
    field: Field, surface: Surface, options: Options, levels: Array, sea_heights: Array, pressure: Array
) -> tuple[float, str]:
    """Return the height of the ground above sea level, and where it is known from."""
    if options.surface_height is not None:
        return options.surface_height, "given"
    if surface.geopotential_height is not None:
        return surface.geopotential_height, "surface geopotential"
    known = np.isfinite(pressure) & np.isfinite(sea_heights).all(axis=1)
    if not known.any():
        raise InvalidInput(
            f"{field.label} does not say where the ground is, and wind below it is made up. Give "
            "the single-level file too (surface pressure or geopotential), or surface_height= "
            "(metres above sea level; 0 at sea)"
        )
    if len(levels) < 2:
        raise InvalidInput(f"{field.label} has a single level; download several, or give surface_height=")
    order = np.argsort(levels)
    logs = np.log(levels[order] * 100.0)
    tops = [
        _extended(np.log(value), logs, row[order])
        for value, row in zip(pressure[known], sea_heights[known], strict=True)
    ]
    # The ground does not move; the median sheds the rounding of packed files.
    return float(np.median(tops)), "where the geopotential meets the surface pressure"


def _extended(at: float, logs: Array, heights: Array) -> float:
    """Height at a pressure: linear in its logarithm, continued below the lowest level (high pressure at sea)."""
    i = int(np.clip(np.searchsorted(logs, at), 1, len(logs) - 1))
    share = (at - logs[i - 1]) / (logs[i] - logs[i - 1])
    return float(heights[i - 1] + share * (heights[i] - heights[i - 1]))


def _require_real_levels(
    field: Field, point: Point, axes: tuple[str | None, str | None], levels: Array, buried: NDArray[np.bool_]
) -> None:
    """Refuse a ground that is plainly too low: levels above it that repeat each other's wind are invented."""
    east, north = read(field, "u", point, *axes), read(field, "v", point, *axes)
    order = np.argsort(-levels)  # the ground first
    change = np.hypot(np.diff(east[:, order], axis=1), np.diff(north[:, order], axis=1))
    used = ~buried[:, order[1:]]  # the upper level of each pair
    signs, last = 0, 0.0
    for pair in range(change.shape[1]):
        if not np.median(change[:, pair]) < SAME_WIND:
            break
        times = change[used[:, pair], pair]
        if times.size and np.median(times) < SAME_WIND:
            signs += 2 if times.size >= ENOUGH_TIMES else 1
            last = float(levels[order[pair + 1]])
    if signs >= 2:
        raise InvalidInput(
            f"{field.label}: the levels up to {last:g} hPa repeat one wind, as ERA5 does below ground, so the ground "
            "lies higher than the given surface height; correct surface_height=, or add the single-level file"
        )


def _buried_note(levels: Array, buried: NDArray[np.bool_]) -> str:
    always = np.sort(levels[buried.all(axis=0)])[::-1]
    sometimes = np.sort(levels[buried.any(axis=0) & ~buried.all(axis=0)])[::-1]
    parts = []
    if len(always):
        parts.append(f"{always[0]:g}..{always[-1]:g} hPa" if len(always) > 1 else f"{always[0]:g} hPa")
    if len(sometimes):
        parts.append(f"{', '.join(f'{level:g}' for level in sometimes)} hPa at times")
    return f"below ground and left out: {'; '.join(parts)}" if parts else ""


IFS_LAYOUT = "ECMWF IFS (Cloudnet)"


def is_ifs(field: Field) -> bool:
    """Return whether a data set has this layout."""
    return field.has("uwind", "vwind", "height") and field.data["height"].ndim == 2


def read_ifs(field: Field, point: Point) -> Piece:
    """Read the wind by height above ground. Hour 24 is the next day's hour 0; of two files, the next day's wins."""
    time_axis, times = times_of(field)
    height = field.data["height"]
    if time_axis not in height.dims:
        raise DamagedFile(f"{field.label}: height does not run along time; its axes are {height.dims}")
    unit = str(height.attrs.get("units", "m"))
    if unit not in ("m", "km"):
        raise InvalidInput(f"{field.label}: height is in {unit!r}; expected metres")
    level_axis = next(str(axis) for axis in height.dims if axis != time_axis)
    axes = (time_axis, level_axis)
    heights = read(field, "height", point, *axes) * (1000.0 if unit == "km" else 1.0)
    heights[~(heights > 0)] = np.nan
    speed = wind_speed(field, "uwind", "vwind", point, *axes)
    speed[np.isnan(heights)] = np.nan
    name = field.data.attrs.get("location")
    site = Site(point.site.latitude, point.site.longitude, str(name) if name else None)
    # Levels are counted from the top; the order of the file says nothing, so they are named by their numbers.
    numbers = field.data[level_axis].values if field.has(level_axis) else np.arange(heights.shape[1])
    names = tuple(f"level {number}" for number in numbers)
    return Piece(field.label, IFS_LAYOUT, times, names, heights, speed, site, (point.note,))
