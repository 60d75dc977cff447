"""Past forecasts, which show the errors of a forecaster: CSV, Open-Meteo JSON, ECMWF open data in GRIB.

=====================  ================================================================================================
CSV                    `issued` (or `run`) and `time`, or `time` and `lead` in hours; then a column for each height
Open-Meteo JSON        of its API for previous runs: `wind_speed_120m_previous_day1` is what was said a day before;
                       plain columns are the newest word on each hour, hours old at most, and are left out
ECMWF open data        `10u, 10v, 100u, 100v` with several steps, of one run or many
=====================  ================================================================================================
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdcourse.errors import DamagedFile, InvalidInput
from holdcourse.tables.text import MOST_CELLS, read_text
from holdcourse.tables.times import Times, read_times
from holdcourse.units import factor, quantity
from holdcourse.wind.files.csv_table import read_speeds, read_table, stated_in, wide_columns
from holdcourse.wind.files.data import Array, checked_speeds
from holdcourse.wind.files.grid import Field, nearest_point, open_fields, quiet, whole_seconds
from holdcourse.wind.files.load import guarded, require_plausible
from holdcourse.wind.files.paths import Paths, WindFile, wind_files
from holdcourse.wind.files.units import METRES_PER_SECOND, speed_unit

ISSUED = ("issued", "issue_time", "run", "init", "init_time", "reference_time", "forecast_reference_time")
LEAD = ("lead", "lead_hours", "lead_time", "lead_h", "step_hours")
WINDS = {10.0: ("u10", "v10"), 100.0: ("u100", "v100")}
NAME_THE_UNIT = "name it in the headings, such as ws_100m [km/h], or [m/s] if that is right"
_PREVIOUS = re.compile(r"wind_?speed_(\d+)m_previous_day(\d+)")


@dataclass(frozen=True, eq=False)
class Forecasts:
    """Past forecasts of the wind, with a row for each time that was forecast.

    Attributes
    ----------
    time, lead
        Time for which the forecast was made, UTC, (k,), and its lead in hours, (k,).
    heights, speed
        Heights in metres above ground, (m,), and speeds in m/s, (k, m); NaN if there is no forecast.
    """

    time: Times
    lead: Array
    heights: Array
    speed: Array
    source: str

    def __post_init__(self) -> None:
        if not len(self.time) or not np.isfinite(self.speed).any():
            raise InvalidInput(f"{self.source} contains no forecast of the wind speed; give times, leads and speeds")
        if not (np.isfinite(self.lead) & (self.lead >= 0)).all():
            raise InvalidInput(f"{self.source}: a forecast was issued after the time that it predicts; check issued")


def read_forecasts(paths: Paths, *, lat: float | None = None, lon: float | None = None) -> list[Forecasts]:
    """Read past forecasts from one or more files; from a grid, at the point nearest to the site."""
    found = []
    with quiet(), ExitStack() as stack:
        for file in wind_files(paths, stack):
            with guarded(file.label):
                found += _read(file, lat, lon, stack)
    if not found:
        raise InvalidInput(
            "no file contains forecasts of the wind at 10 or 100 m; ECMWF open data have them as 10u and 100u"
        )
    return found


def _read(file: WindFile, lat: float | None, lon: float | None, stack: ExitStack) -> list[Forecasts]:
    if file.kind == "grib":
        found = [_gridded(field, lat, lon) for field in open_fields(file, stack) if _winds(field)]
    elif file.kind == "text":
        text = read_text(file.path, file.label, most_cells=MOST_CELLS).text
        found = [_open_meteo(text, file.label) if text.lstrip("\ufeff \r\n\t")[:1] in "{[" else _csv(file)]
    else:
        raise InvalidInput(f"{file.label} cannot be read as forecasts; give CSV, Open-Meteo JSON or GRIB")
    for each in found:
        require_plausible(file.label, each.time, each.speed, NAME_THE_UNIT)
    return found


def _csv(file: WindFile) -> Forecasts:
    table = read_table(file)
    named = {name.strip().lower(): index for index, name in enumerate(table.names)}
    issued = next((named[name] for name in ISSUED if name in named), None)
    lead = next((named[name] for name in LEAD if name in named), None)
    if "time" not in named or (issued is None) == (lead is None):
        raise InvalidInput(
            f"{file.label}: a table of forecasts needs a column time, and either issued or lead (in hours); the "
            f"columns are {', '.join(table.names)[:200]}"
        )
    columns = wide_columns(table.names, file.label)
    if not columns:
        raise InvalidInput(f"{file.label}: no column is a wind speed at a height; name them like ws_100m")
    heights = np.array([column.height for column in columns])
    speed, _ = read_speeds(table, columns, stated_in(table.comments)[2] | table.units, None, heights, NAME_THE_UNIT)
    time = _moments(table.cells[named["time"]], file.label)
    if lead is not None:
        unit = table.units.get(table.names[lead], "h")  # in a row below the names
        if quantity(unit) != "time":
            raise InvalidInput(f"{file.label}: column {table.names[lead]!r} is in {unit!r}; give the lead in hours")
        ahead = factor(unit, "h", "the lead") * table.numbers(lead)
        if np.isnan(ahead).any():
            row = int(np.argmax(np.isnan(ahead)))
            raise InvalidInput(
                f"{file.label}, line {table.lines[row]}: the lead is missing; write it in hours, or leave the row out"
            )
    else:
        assert issued is not None  # one of them, as checked above
        ahead = _hours(time, _moments(table.cells[issued], file.label))
    return Forecasts(time, ahead, heights, speed, file.label)


def _moments(cells: Sequence[str], label: str) -> Times:
    return read_times(list(cells), "time utc", label, tidy=True)[0]


def _hours(time: Times, issued: Times) -> Array:
    return np.asarray((time - issued).astype("timedelta64[s]").astype(np.float64) / 3600.0)


def _open_meteo(text: str, label: str) -> Forecasts:
    try:
        answer = json.loads(text)
        hourly, units = answer["hourly"], answer.get("hourly_units", {})
        names = {name: match for name in hourly if (match := _PREVIOUS.fullmatch(name))}
        texts = [str(cell) for cell in hourly["time"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DamagedFile(f"{label} is not an answer of Open-Meteo: it has no hourly.time; download it again") from None
    if not names:
        raise InvalidInput(
            f"{label} has no wind_speed_..._previous_day1; request it from Open-Meteo's Previous Runs API, because "
            "only past forecasts show how wrong forecasts are"
        )
    shift = float(answer.get("utc_offset_seconds", 0) or 0)
    time = _moments(texts, label) - np.timedelta64(int(shift), "s")
    heights = np.unique([float(match[1]) for match in names.values()])
    days = sorted({int(match[2]) for match in names.values()})
    speed = np.full((len(days), len(time), len(heights)), np.nan)
    for name, match in names.items():
        unit = speed_unit(str(units.get(name, "km/h")))  # its default
        column = np.array([np.nan if cell is None else cell for cell in hourly[name]], dtype=np.float64)
        if unit is None or column.shape != time.shape:
            raise DamagedFile(
                f"{label}: {name} has the unit {units.get(name)!r} and {column.size} of {len(time)} hours; download it "
                "again"
            )
        at = int(np.searchsorted(heights, float(match[1])))
        speed[days.index(int(match[2])), :, at] = checked_speeds(label, column * METRES_PER_SECOND[unit])
    lead = np.repeat(24.0 * np.array(days, dtype=np.float64), len(time))
    return Forecasts(np.tile(time, len(days)), lead, heights, speed.reshape(-1, len(heights)), label)


def _winds(field: Field) -> dict[float, tuple[str, str]]:
    """Which heights a data set has, and the components there."""
    return {height: pair for height, pair in WINDS.items() if field.has(*pair, "time", "step")}


def _gridded(field: Field, lat: float | None, lon: float | None) -> Forecasts:
    point = nearest_point(field, lat, lon)
    data: Any = field.data
    issued = whole_seconds(np.atleast_1d(data["time"].values))
    steps = np.atleast_1d(data["step"].values).astype("timedelta64[s]")
    heights = np.array(sorted(_winds(field)))
    speed = np.empty((len(issued), len(steps), len(heights)))
    for k, height in enumerate(heights):
        parts = []
        for name in WINDS[height]:
            array = data[name].isel({axis: at for axis, at in point.index.items() if axis in data[name].dims})
            array = array.expand_dims([axis for axis in ("time", "step") if axis not in array.dims])
            if set(array.dims) != {"time", "step"}:
                raise InvalidInput(f"{field.label}: {name} has the axes {array.dims}; keep one member and one level")
            parts.append(np.asarray(array.transpose("time", "step").values, dtype=np.float64))
        speed[:, :, k] = np.hypot(*parts)
    time = (issued[:, None] + steps[None, :]).reshape(-1)
    lead = np.tile(steps.astype(np.float64) / 3600.0, len(issued))
    return Forecasts(time, lead, heights, speed.reshape(-1, len(heights)), field.label)
