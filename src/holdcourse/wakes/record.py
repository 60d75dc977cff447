"""The wind of a farm over time, as its turbines or a mast recorded it, and the rounds in which it is decided.

Directions of several turbines are averaged over the circle (as unit vectors: 350 and 10 degrees make 0, not 180),
speeds as numbers. A file may hold a column for each turbine, or a row for each turbine and time.

**Rounds.** A decision is taken once in a fixed number of readings, for the interval that begins. It knows the readings
before that: the mean over the newest ones, as many of them as predict the interval best. Causal is the default;
`knowing=True` shows each decision the mean wind of the very interval it decides for, which nobody could know, and is
called idealised wherever it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.errors import InvalidInput, counted
from holdcourse.tables import cells as tables
from holdcourse.tables.columns import find_column, has_column, listed, require_one_header, split_name, with_units
from holdcourse.tables.numbers import Signs, missing_words, read_numbers
from holdcourse.tables.sources import frame_table, read_file
from holdcourse.tables.times import is_clock, joined, moment, read_times
from holdcourse.units import factor, known, quantity
from holdcourse.wakes.table import EnergyTable

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

DIRECTIONS = ("wind_direction", "wind direction", "direction", "wd", "Wa_avg", "windrichtung")
SPEEDS = ("wind_speed", "wind speed", "speed", "ws", "Ws_avg", "windgeschwindigkeit")
TIMES = ("time", "timestamp", "datetime", "Date_time", "date and time", "date", "zeit", "zeitstempel", "datum")
CLOCKS = {"date": "time", "datum": "zeit"}  # beside a column of dates
FASTEST = 60.0  # m/s
FASTEST_MEAN = 16.0  # m/s; no farm has so much wind
FEWEST = 2
WHOLE = 0.995  # of the time: what covers less has gaps worth a word
MISSING = "Leave the cell empty if it is missing"
# What may stand in brackets behind a quantity and is no unit of it.
NO_UNITS = frozenset(("total", "sum", "net", "gross", "active", "mean", "avg", "average", "farm"))
DEGREES = re.compile(r"(?:°|deg(?:ree)?s?)[.\s]*(?:[nt]|true|north|from north)?", re.IGNORECASE)
CODES = (-99.0, -99.9, -99.99)  # for a missing direction; -999 lies beyond its bounds
FULL = 0.05  # of the times at least have as many powers as a farm whose turbines all report


def turned(before: ArrayLike, after: ArrayLike) -> Array:
    """Return by how much a direction turned, degrees, from -180 to 180."""
    return np.asarray((np.asarray(after) - np.asarray(before) + 180.0) % 360.0 - 180.0)


def circle_mean(directions: ArrayLike, axis: int = -1) -> Array:
    """Return the mean of directions over the circle, degrees; missing directions are left out, NaN if all are missing.

    Examples
    --------
    >>> from holdcourse.wakes.record import circle_mean
    >>> float(circle_mean([350.0, 10.0]).round(6) % 360)
    0.0
    """
    angles = np.exp(1j * np.radians(np.asarray(directions, dtype=np.float64)))
    there = np.isfinite(angles)
    total = np.where(there, angles, 0.0).sum(axis=axis)
    mean = np.degrees(np.angle(total)) % 360.0
    return np.asarray(np.where(there.any(axis=axis) & (np.abs(total) > 1e-9), mean, np.nan))


@dataclass(frozen=True, eq=False)
class WindRecord:
    """Wind direction and speed of a farm over time.

    Parameters
    ----------
    time
        Beginning of each interval, UTC, ascending, (t,).
    direction, speed
        Direction from which the wind comes, in degrees, and wind speed in m/s, (t,).
    name
        Name of the record.
    power
        Power of the farm, kW, (t,); NaN if it was not measured.
    notes
        Notes on what was left out or assumed.
    """

    time: NDArray[np.datetime64]
    direction: Array
    speed: Array
    name: str = "record"
    power: Array | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.time) < FEWEST or not len(self.time) == len(self.direction) == len(self.speed):
            raise InvalidInput(
                f"a record needs at least {FEWEST} readings, with a direction and a speed for each time; got "
                f"{counted(len(self.time), 'time')}, {counted(len(self.direction), 'direction')} and "
                f"{counted(len(self.speed), 'speed')}"
            )
        object.__setattr__(self, "time", self.time.astype("datetime64[s]"))
        if not (np.diff(self.time.astype(np.int64)) > 0).all():
            raise InvalidInput("the times of a record must ascend, and occur once each; sort it, and remove duplicates")
        for what, values, low, high in (("direction", self.direction, -360, 720), ("speed", self.speed, 0, FASTEST)):
            wrong = np.flatnonzero(~((values >= low) & (values <= high)))
            if len(wrong):
                at = int(wrong[0])
                raise InvalidInput(
                    f"{self.name}: the wind {what} at {self.time[at]}Z is {values[at]:g}; it must lie between {low} "
                    f"and {high}. {MISSING}"
                )
        object.__setattr__(self, "direction", self.direction % 360.0)

    def __len__(self) -> int:
        return len(self.time)

    @cached_property
    def step_hours(self) -> float:
        """Hours from one reading to the next, as a rule."""
        return float(np.median(np.diff(self.time.astype(np.int64)))) / 3600.0

    @property
    def coverage(self) -> float:
        """Share of the time from the first to the last reading that readings cover."""
        hours = float((self.time[-1] - self.time[0]).astype(np.int64)) / 3600.0
        return len(self) * self.step_hours / (hours + self.step_hours)

    def between(self, begin: str | None = None, end: str | None = None) -> WindRecord:
        """Return the part from `begin` (included) to `end` (excluded), UTC."""
        low = self.time[0] if begin is None else moment(begin)
        high = self.time[-1] + np.timedelta64(1, "s") if end is None else moment(end)
        part = (self.time >= low) & (self.time < high)
        if part.sum() < FEWEST:
            raise InvalidInput(
                f"{FEWEST} readings or more are needed, but from {low} to {high} the record has {int(part.sum())}; "
                f"choose times within the record, from {self.time[0]} to {self.time[-1]}"
            )
        power = None if self.power is None else self.power[part]
        return replace(self, time=self.time[part], direction=self.direction[part], speed=self.speed[part], power=power)

    def rounds(self, hours: float | None = None, *, knowing: bool = False) -> Rounds:
        """Return the rounds in which this record is decided.

        Parameters
        ----------
        hours
            Hours between two decisions, a multiple of the step of the record; default: that step.
        knowing
            Whether each decision is shown the mean wind of its own interval, which is idealised.
        """
        step = self.step_hours
        per = 1 if hours is None else round(hours / step)
        if per < 1 or (hours is not None and abs(per * step - hours) > 0.01 * step):
            raise InvalidInput(
                f"decisions every {60 * (hours or 0):g} min do not fit readings every {60 * step:g} min; give a "
                "multiple of that"
            )
        return Rounds(self, per, knowing)

    def __repr__(self) -> str:
        readings = f"{len(self)} readings every {60 * self.step_hours:g} min"
        return f"WindRecord({self.name!r}, {readings}, {self.time[0]}Z..{self.time[-1]}Z)"


@dataclass(frozen=True, eq=False)
class Rounds:
    """A record cut into rounds of `per` readings."""

    record: WindRecord
    per: int
    knowing: bool = False
    newest: int | None = None  # readings that are averaged, where they were chosen on another record

    @property
    def hours(self) -> float:
        """Length of a round in hours."""
        return self.per * self.record.step_hours

    @cached_property
    def first(self) -> Indices:
        """The first reading of each round; rounds that a gap cuts short are left out."""
        seconds = self.record.time.astype(np.int64)
        step = round(3600 * self.record.step_hours)
        found = np.arange(len(seconds))
        if self.per > 1:  # a round begins at a whole multiple of its length, to keep to the clock
            found = np.flatnonzero(seconds % (self.per * step) < step)
            found = found[found + self.per <= len(seconds)]
            found = found[seconds[found + self.per - 1] - seconds[found] == (self.per - 1) * step]
        return found if self.knowing else found[found > 0]  # before the first reading nothing is known

    @cached_property
    def memory(self) -> int:
        """Number of readings before a round that are averaged: `newest`, or the number that predicts best."""
        if self.newest is not None:
            return self.newest
        if self.per == 1:
            return 1
        candidates = sorted({1, 2, 3, 5, self.per // 4, self.per // 2, self.per} - {0})
        usable = self.first[self.first >= max(candidates)]
        if not len(usable):  # a record too short to choose by
            return 1
        mean = self._means(usable, 0, self.per)
        errors = [np.median(np.abs(turned(self._means(usable, -k, 0), mean))) for k in candidates]
        return candidates[int(np.argmin(errors))]

    def _means(self, first: Indices, begin: int, end: int) -> Array:
        each = np.clip(first[:, None] + np.arange(begin, end), 0, len(self.record) - 1)
        return circle_mean(self.record.direction[each])

    @cached_property
    def time(self) -> NDArray[np.datetime64]:
        """Begin of each round."""
        return self.record.time[self.first]

    @cached_property
    def contexts(self) -> Array:
        """Context of each decision: direction, speed, and the day of the year, (t, 3)."""
        begin, end = (0, self.per) if self.knowing else (-self.memory, 0)
        each = np.clip(self.first[:, None] + np.arange(begin, end), 0, len(self.record) - 1)
        days = self.time.astype("datetime64[D]")
        day = (days - days.astype("datetime64[Y]")).astype(np.int64) + 1.0
        return np.column_stack([circle_mean(self.record.direction[each]), self.record.speed[each].mean(axis=1), day])

    @cached_property
    def follows(self) -> NDArray[np.bool_]:
        """Whether the round before each one ended when it began."""
        gaps = np.diff(self.time.astype(np.int64))
        return np.concatenate([[False], gaps.astype(np.float64) <= 1.01 * 3600 * self.hours])

    @cached_property
    def fresh(self) -> NDArray[np.bool_]:
        """Whether what each decision knows is as new as it should be: no gap lies right before it."""
        if self.knowing:
            return np.ones(len(self.first), dtype=bool)
        seconds = self.record.time.astype(np.int64)
        age = (seconds[self.first] - seconds[np.maximum(self.first - self.memory, 0)]).astype(np.float64)
        return np.asarray((self.first >= self.memory) & (age <= 1.01 * 3600 * self.memory * self.record.step_hours))

    def readings_of(self) -> tuple[Indices, Indices]:
        """Return the round and the place in the record of every reading, both (t x per,)."""
        places = self.first[:, None] + np.arange(self.per)
        each = np.repeat(np.arange(len(self.first)), self.per)
        return each, np.asarray(places.ravel())

    def energy(self, table: EnergyTable) -> Array:
        """Return the energy of every setting in each round, kWh, (t, n)."""
        _, places = self.readings_of()
        made = table.power_at(self.record.direction[places], self.record.speed[places])
        return np.asarray(made.reshape(len(self.first), self.per, -1).sum(axis=1) * self.record.step_hours)

    def energy_of(self, table: EnergyTable, vectors: Indices) -> Array:
        """Return the energy of one offset vector (index) in each round, kWh, (t,)."""
        each, places = self.readings_of()
        made = table.power_at(self.record.direction[places], self.record.speed[places], vectors[each])
        return np.asarray(made.reshape(len(self.first), self.per).sum(axis=1) * self.record.step_hours)

    def __len__(self) -> int:
        return len(self.first)


def read_record(
    source: Any,
    *,
    direction: str | Sequence[str] | None = None,
    speed: str | Sequence[str] | None = None,
    power: str | Sequence[str] | None = None,
    time: str | None = None,
    timezone: str | None = None,
    time_format: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    header_line: int | None = None,
    missing: str | Sequence[str] | None = None,
    name: str | None = None,
) -> WindRecord:
    """Read the wind of a farm from a table: CSV, Excel, Parquet, or a data frame.

    Parameters
    ----------
    source
        A path, a data frame, or columns in a dict.
    direction, speed
        Columns of direction and speed. Several columns, such as one per turbine, are averaged, directions over the
        circle. Rows of the same time are averaged too, so a row for each turbine and time is fine. Default: columns
        with usual names.
    power
        Columns of power, which are added up over the farm; kW unless the header says otherwise: ``P [MW]``.
    time
        Column of the time, or the two columns of date and time of day, separated by a comma; default: a column with a
        usual name.
    timezone, time_format, separator, decimal, encoding, header_line, missing
        Format of the file if it is ambiguous, as in `read_readings`.
    """
    if isinstance(source, str | Path):
        table, _ = read_file(Path(source), separator=separator, encoding=encoding, header_line=header_line)
    else:
        table = frame_table(source)
    table, notes = with_units(table)
    words, codes = missing_words(missing)
    require_one_header(table, words)
    table = replace(table, names=[each or f"column {place + 1}" for place, each in enumerate(table.names)])
    label = table.label

    def columns(given: str | Sequence[str] | None, usual: Sequence[str], what: str) -> list[int]:
        if given is None:
            named = [each for each in usual if has_column(table, each)]
            if not named:
                raise InvalidInput(
                    f"{label}: which column is the {what}? Name it with {what.split()[-1]}=; the columns are "
                    f"{listed(table.names)}"
                )
            return [find_column(table, named[0])]
        texts = [part.strip() for part in given.split(",")] if isinstance(given, str) else list(given)
        return [find_column(table, text) for text in texts]

    when = columns(time, TIMES, "time") if time is not None else _date_and_clock(table) or columns(None, TIMES, "time")

    def time_at(row: int) -> str | datetime:
        return joined([table.cells[column][row] for column in when])

    signs = Signs(decimal, None)
    wanted = {
        "direction": columns(direction, DIRECTIONS, "wind direction"),
        "speed": columns(speed, SPEEDS, "wind speed"),
        "power": [] if power is None else columns(power, (), "power"),
    }
    read = read_numbers(table, [column for found in wanted.values() for column in found], signs, words)
    for values in read:
        values[np.isin(values, list(codes))] = np.nan
    parts, place = {}, 0
    for key, found in wanted.items():
        parts[key] = np.array(read[place : place + len(found)]).reshape(len(found), len(table.lines))
        place += len(found)
    for key, usual, low, high in (("direction", "degrees", -360, 720), ("speed", "m/s", 0, FASTEST)):
        for column, values in zip(wanted[key], parts[key], strict=True):  # a mean would hide what one column says
            header = table.names[column]
            unit = _unit(header)
            if unit and known(unit) != known(usual) and not (key == "direction" and DEGREES.fullmatch(unit)):
                raise InvalidInput(f"{label}: column {header!r} is in {unit}; convert it to {usual}")
            wrong = np.flatnonzero((values < low) | (values > high))
            below = values[values < 0]
            if key == "direction" and len(below) and np.isin(below, CODES).all():
                wrong, low = np.flatnonzero((values < 0) | (values > high)), 0  # all others begin at 0
            if len(wrong):
                at = int(wrong[0])
                raise InvalidInput(
                    f"{table.at(at)}: the wind {key} at {time_at(at)} is {values[at]:g} {usual} in "
                    f"column {header!r}; it must lie between {low} and {high}. {MISSING}, or give "
                    f"missing={values[at]:g}"
                )
            mean = np.nanmean(values) if np.isfinite(values).any() else 0.0
            if key == "speed" and not unit and mean > FASTEST_MEAN:
                raise InvalidInput(
                    f"{label}: the mean of column {header!r} is {mean:.1f}, which is too high for m/s. Convert it to "
                    f"m/s; if it is in m/s, say so in the header: '{header} [m/s]'"
                )
            there = np.abs(values[np.isfinite(values)])
            if key == "direction" and not unit and len(there) and there.max() <= 2 * np.pi + 1e-6:
                raise InvalidInput(
                    f"{label}: no direction in column {header!r} is above {there.max():.3g}: that looks like radians. "
                    f"Convert it to degrees; if it is in degrees, say so in the header: '{header} [deg]'"
                )
    for k, column in enumerate(wanted["power"]):
        parts["power"][k] *= _kilowatts(table.names[column], label)
    cells = [time_at(row) for row in range(len(table.lines))]
    named = " ".join(table.names[column] for column in when)
    times, said = read_times(cells, named, label, at=table.at, timezone=timezone, time_format=time_format, tidy=True)
    notes.append(said)
    together = _gathered(times, parts)
    there = np.isfinite(together["direction"]) & np.isfinite(together["speed"])
    if not there.any():
        used = listed([table.names[column] for key in ("direction", "speed") for column in wanted[key]])
        raise InvalidInput(
            f"{label}: no time has both a direction and a speed in the columns {used}; name others with direction= and "
            "speed=, or export the file again"
        )
    if not there.all():
        gone = int((~there).sum())
        left = f"{gone:,} of {len(there):,} times {'was' if gone == 1 else 'were'} left out"
        notes.append(f"{left} because direction or speed is missing")
    if len(times) > len(there):
        notes.append(f"{len(times):,} rows of {len(there):,} times: the mean of the rows of one time is taken")
    made = together["power"][there] if power is not None else None
    wind = (together["direction"][there], together["speed"][there])
    record = WindRecord(together["time"][there], *wind, name or label, made, tuple(notes))
    if record.coverage < WHOLE:
        gaps = f"the readings cover {100 * record.coverage:.1f} % of the time: nothing is judged or learned in the gaps"
        record = replace(record, notes=(*record.notes, gaps))
    return record


def _date_and_clock(table: tables.Table) -> list[int]:
    """Return the columns of a date and of a time of day beside it, if there are such."""
    for day, clock in CLOCKS.items():
        if has_column(table, day) and has_column(table, clock):
            two = [find_column(table, name) for name in (day, clock)]
            if is_clock(str(table.cells[two[1]][0])):
                return two
    return []


def _unit(header: str) -> str | None:
    """Return the unit in a header; None where it names none."""
    unit = split_name(header).unit
    return None if not unit or unit.casefold() in NO_UNITS else unit


def _kilowatts(header: str, label: str) -> float:
    """Return how many kW the unit in the header of a column of power is; 1 where it names none."""
    unit = _unit(header)
    if unit is None:
        return 1.0
    if quantity(unit) != "power":
        raise InvalidInput(
            f"{label}: column {header!r} is in {unit}, which is no power; convert it to kW, and write the header like "
            "'power [kW]'"
        )
    return factor(unit, "kW", f"{label}: column {header!r}")


def _gathered(times: NDArray[np.datetime64], parts: dict[str, Array]) -> dict[str, Any]:
    """Return one direction, speed and power for each time, from k columns and several rows of it."""
    distinct, row = np.unique(times, return_inverse=True)
    row = np.ravel(row)

    def total(values: Array) -> tuple[Array, Array]:
        there = np.isfinite(values)
        sums, counts = np.zeros(len(distinct), dtype=values.dtype), np.zeros(len(distinct))
        for column, found in zip(np.where(there, values, 0), there, strict=True):
            np.add.at(sums, row, column)
            np.add.at(counts, row, found)
        return sums, counts

    around, _ = total(np.exp(1j * np.radians(parts["direction"])))
    direction = np.where(np.abs(around) > 1e-9, np.degrees(np.angle(around)) % 360.0, np.nan)
    sums, counts = total(parts["speed"])
    speed = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    made, measured = total(parts["power"])
    # A farm whose turbines do not all report has made an unknown power, and one whose rows came twice as well.
    counts, often = np.unique(measured[measured > 0], return_counts=True)
    full = counts[often >= FULL * often.sum()].max(initial=0)
    power = np.where((measured > 0) & (measured == full), made, np.nan)
    return {"time": distinct, "direction": direction, "speed": speed, "power": power}
