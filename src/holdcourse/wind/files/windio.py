"""Speeds by time and height: windIO's time series in YAML, and NetCDF files that hold the same.

A windIO energy resource (IEA Wind Systems, schema ``plant/energy_resource``) has ``wind_resource`` with ``time``,
``height`` and ``wind_speed``; the latter is a list of rows, or ``data`` with ``dims``, which are names or sizes. It may
stand alone, inside a site or a wind energy system, and any part may be ``!include`` of another file, such as a NetCDF
file. Weibull and probability tables hold no order in time, so nothing can be flown through them.

NetCDF files with the speed over time and height are read alike, whoever wrote them: windIO (``wind_speed``, in older
examples ``speed``), NEWA (``WS``), DOWA (``wspeed``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from holdcourse.errors import DamagedFile, InvalidInput, counted
from holdcourse.tables.times import Times, read_times
from holdcourse.wind.files.data import Array, Options, Piece, Site, checked_speeds, without_codes
from holdcourse.wind.files.grid import Field, nearest_point, open_fields, read, times_of
from holdcourse.wind.files.paths import WindFile, kind_of
from holdcourse.wind.files.units import METRES_PER_SECOND, speed_unit
from holdcourse.wind.files.yamlfile import Included, read_yaml

LAYOUT = "windIO time series"
GRIDDED_LAYOUT = "NetCDF, speed by time and height"
SPEEDS = ("wind_speed", "speed", "WS", "wspeed")
HEIGHTS = ("height", "heights", "z", "altitude")
DEEPEST = 4  # files that include each other
_MARK = re.compile(rb"^[ \t]*(wind_resource|energy_resource)[ \t]*:", re.MULTILINE)


def is_windio(path: Path) -> bool:
    """Return whether the beginning of a text names a wind resource in YAML."""
    with path.open("rb") as stream:
        return _MARK.search(stream.read(65536)) is not None


def read_windio(file: WindFile, options: Options, stack: ExitStack) -> Piece:
    """Read a windIO file; files that it includes must be in the same folder."""
    resource = _resource(file.path, file.label)
    if isinstance(resource, WindFile):
        return read_profiles(resource, options, stack)
    if "time" not in resource:
        kinds = [name for name in ("weibull_a", "probability") if name in resource]
        raise InvalidInput(
            f"{file.label} contains {' and '.join(kinds) or 'a wind resource'} without times, but a backtest needs the "
            "wind over time; give a windIO time series with time, height and wind_speed"
        )
    for name in ("height", "wind_speed"):
        if name not in resource:
            raise InvalidInput(f"{file.label}: wind_resource has no {name}; altitude control needs speeds by height")
    time, note = _times(resource["time"], file.label, options)
    heights = _table(resource["height"], "height", file.label, 1)
    speed = _speeds(resource["wind_speed"], len(time), heights, file.label)
    site = Site(options.latitude, options.longitude)
    return _piece(file.label, LAYOUT, time, heights, speed, 1.0, site, [note])


def is_profiles(field: Field) -> bool:
    """Return whether a data set holds speeds over time and height."""
    return _axes(field) is not None


def read_profiles(file: WindFile | Field, options: Options, stack: ExitStack) -> Piece:
    """Read a NetCDF file with speeds over time and height, at the grid point nearest to the site."""
    field = file
    if isinstance(field, WindFile):
        found = open_fields(field, stack)
        field = next((each for each in found if is_profiles(each)), found[0])
    axes = _axes(field)
    if axes is None:
        raise InvalidInput(
            f"{field} has no wind speed over time and height ({' or '.join(SPEEDS)} by time and "
            f"{' or '.join(HEIGHTS)}); altitude control needs speeds at several heights"
        )
    name, height = axes
    point = nearest_point(field, options.latitude, options.longitude)
    axis, time = times_of(field)
    variable = field.data[height]
    heights = np.atleast_1d(variable.values).astype(np.float64)
    unit = str(variable.attrs.get("units", "m")).strip().lower()
    if unit not in ("m", "meter", "meters", "metre", "metres"):
        raise InvalidInput(f"{field.label}: {height} is in {unit!r}; heights must be metres above ground")
    stated = str(field.data[name].attrs.get("units", "m/s"))
    speeds_in = speed_unit(stated)
    if speeds_in is None:
        raise InvalidInput(f"{field.label}: {name} is in {stated!r}; wind must be in m/s, km/h, kn or mph")
    speed = read(field, name, point, axis, str(variable.dims[0]))
    notes = [point.note] if point.index else []
    factor = METRES_PER_SECOND[speeds_in]
    return _piece(field.label, GRIDDED_LAYOUT, time, heights, speed, factor, point.site, notes)


def _axes(field: Field) -> tuple[str, str] | None:
    """The variable of the speed, and that of the heights, which is an axis of it; None if there is no such pair."""
    for name in SPEEDS:
        for height in HEIGHTS:
            axes: Any = field.data[height].dims if field.has(name, height) else ()
            if len(axes) == 1 and axes[0] in field.data[name].dims:
                return name, height
    return None


def _piece(
    label: str, layout: str, time: Times, heights: Array, speed: Array, factor: float, site: Site, notes: list[str]
) -> Piece:
    """What a file holds; `factor`: from its unit of speed to m/s, which codes for missing numbers do not know."""
    usable = np.isfinite(heights) & (heights > 0)
    if usable.sum() < 2 or len(np.unique(heights[usable])) < usable.sum():
        raise InvalidInput(
            f"{label} has the heights {heights.tolist()[:8]}; altitude control needs two or more different ones above 0"
        )
    known, told = without_codes(speed[:, usable])
    wind = checked_speeds(label, factor * known)
    levels = tuple(f"{height:g} m" for height in heights[usable])
    return Piece(label, layout, time, levels, heights[usable], wind, site, (*notes, *told))


def _resource(path: Path, label: str) -> dict[str, Any] | WindFile:
    """Return the wind resource of a file, in plain values, or the NetCDF file that holds it."""
    data: Any = read_yaml(path, label)
    folder, followed = path.parent, 0
    keys = ["site", "energy_resource", "wind_resource"]
    while True:
        while isinstance(data, Included):
            followed += 1
            if followed > DEEPEST:
                raise InvalidInput(f"{label} includes files in more than {DEEPEST} steps; do they include each other?")
            target = folder / data
            if not target.is_file():
                raise InvalidInput(
                    f"{label} includes {str(data)!r}, but there is no such file in its folder; put it there"
                )
            kind = kind_of(target, target.name)
            if kind in ("netcdf3", "netcdf4"):
                return WindFile(target, kind, target.name)
            data, folder = read_yaml(target, target.name), target.parent
        if not isinstance(data, Mapping):
            raise InvalidInput(
                f"{label}: {'wind_resource' if not keys else keys[-1]} must be a table of keys and values"
            )
        key = next((key for key in keys if key in data), None)
        if key is None:
            if "wind_speed" in data or not keys:
                return dict(data)
            raise InvalidInput(f"{label} is not a windIO energy resource: it has no {keys[-1]}")
        data, keys = data[key], keys[keys.index(key) + 1 :]


def _times(given: Any, label: str, options: Options) -> tuple[Times, str]:
    cells = given.get("data") if isinstance(given, Mapping) else given
    if not isinstance(cells, list) or not cells:
        raise InvalidInput(f"{label}: time must be a list that is not empty")
    if any(isinstance(cell, int | float) for cell in cells):
        raise InvalidInput(
            f"{label}: time contains numbers ({cells[0]!r}), but a backtest needs dates; write times like "
            "2023-07-25T00:00:00Z"
        )
    texts = [cell.isoformat() if isinstance(cell, datetime) else str(cell) for cell in cells]
    return read_times(
        texts,
        "time",
        label,
        at=lambda row: f"{label}, time {row + 1}",
        timezone=options.timezone,
        time_format=options.time_format,
    )


def _speeds(given: Any, times: int, heights: Array, label: str) -> Array:
    """Return speeds as (times, heights), whichever axis the file has first."""
    dims = [str(name) for name in given.get("dims") or []] if isinstance(given, Mapping) else []
    table = _table(given, "wind_speed", label, 2)
    turned = dims[:1] == ["height"] or (not set(dims) & {"time", "height"} and table.shape == (len(heights), times))
    if turned and not (times == len(heights) and dims[:1] != ["height"]):
        table = table.T
    if table.shape != (times, len(heights)):
        raise InvalidInput(
            f"{label}: wind_speed has the shape {table.shape}, but there are {counted(times, 'time')} and "
            f"{counted(len(heights), 'height')}"
        )
    return table


def _table(given: Any, what: str, label: str, axes: int) -> Array:
    values = given.get("data") if isinstance(given, Mapping) else given
    try:
        table = np.array(values, dtype=np.float64)  # null becomes NaN
    except (TypeError, ValueError):
        raise DamagedFile(f"{label}: {what} must be numbers, all rows of the same length") from None
    if table.ndim != axes or not table.size:
        wanted = "a list of numbers" if axes == 1 else "a row of speeds for each time, one for each height"
        raise InvalidInput(f"{label}: {what} must be {wanted}, got the shape {table.shape}")
    return table
