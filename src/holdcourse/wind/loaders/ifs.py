"""ECMWF's forecast model at one site, in the layout of Cloudnet: `uwind, vwind, height (time, level)`."""

from __future__ import annotations

import numpy as np

from holdcourse.errors import DamagedFile, InvalidInput
from holdcourse.wind.grid import Field, Point, read, times_of, wind_speed
from holdcourse.wind.loaders.piece import Piece
from holdcourse.wind.record import Site

LAYOUT = "ECMWF IFS (Cloudnet)"


def is_ifs(field: Field) -> bool:
    """Whether a data set has this layout."""
    return field.has("uwind", "vwind", "height") and field.data["height"].ndim == 2


def read_piece(field: Field, point: Point) -> Piece:
    """Wind by height above ground. Hour 24 is the next day's hour 0; the next day's file wins when both are given."""
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
    return Piece(field.label, LAYOUT, times, names, heights, speed, site, (point.note,))
