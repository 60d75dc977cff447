"""ERA5 on pressure levels: old and new Climate Data Store, NetCDF and GRIB.

The archive fills levels below the ground with invented values: geopotential follows a standard lapse rate, wind repeats
the lowest model level (10 m). They are never used, so we must know where the ground is: from the surface geopotential,
the surface pressure, or the user.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import InvalidInput
from holdcourse.wind.grid import Field, Point, levels_of, read, times_of, wind_speed
from holdcourse.wind.loaders.era5_surface import GRAVITY, Surface
from holdcourse.wind.loaders.piece import Options, Piece
from holdcourse.wind.record import Array

LAYOUT = "ERA5 pressure levels"
LOWEST_HEIGHT = 10.0  # m above ground; below it the archive repeats the wind of its lowest model level
ENOUGH_TIMES = 24  # to tell a repeated wind from a calm hour
# m/s. Median change of wind between neighbouring levels, in the files this was chosen on: 0.01..0.07 below ground
# (Arizona, 3 grid points), 0.14 and more in the lowest pair elsewhere (Portugal, 8 series; the smallest inland).
SAME_WIND = 0.12


def read_piece(field: Field, point: Point, surface: Surface, options: Options) -> Piece:
    """Wind by height above ground at the grid point."""
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
        LAYOUT,
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
    """Height of the ground above sea level, and where it is known from."""
    if options.surface_height is not None:
        return options.surface_height, "given"
    if surface.geopotential_height is not None:
        return surface.geopotential_height, "surface geopotential"
    known = np.isfinite(pressure) & np.isfinite(sea_heights).all(axis=1)
    if not known.any():
        raise InvalidInput(
            f"{field.label} does not say where the ground is, and below it the archive holds invented wind: give "
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
            f"{field.label}: the levels up to {last:g} hPa repeat one wind, as the archive does below ground, "
            "so the ground lies higher than the surface height given; add the single-level file, or correct it"
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
