"""What a plant's table holds, before anything is asked of it: columns, ranges, gaps, settings, what looks wrong."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.backtest.readings import (
    MOST_ACTIONS,
    MOST_NAMES,
    WITH_UNIT,
    Moments,
    nearly_equal,
    open_table,
    read_moments,
    suspects,
    usual_step,
)
from holdcourse.errors import InvalidInput, how_often
from holdcourse.tables.cells import Table
from holdcourse.tables.columns import find_column, known_unit, split_name
from holdcourse.tables.numbers import Signs, cleaned, is_missing, is_number, missing_words, read_numbers
from holdcourse.tables.times import EXCEL, HOUR, cell_text, excel_day, is_clock, is_excel_day, is_time, is_unix

Array: TypeAlias = NDArray[np.float64]

FEWEST_DIGITS = 6  # of a time in words: 3. March 2025 00:00
HOUR_WORDS = frozenset(("hour", "hr", "h", "stunde", "std", "time", "heure", "hora", "ora", "timme"))
METER = "it never falls: is it a meter? Then add a column with the consumption, the difference of two rows"
COUNT = "it rises by the same amount in every row, as a count of rows or of hours does"
MOST_GAPS = 5  # gaps named one by one; the rest is counted
MOSTLY = 0.9  # share of cells that makes a column one of numbers, or of times
RARELY = 5  # rows per setting, on average, in a column that may be the setting
FAR = 20.0  # interquartile ranges from the quartiles: such a number is told
STUCK = 48  # readings in a row that do not change, in a column that otherwise does
COST_WORDS = (
    *("cost", "power", "energy", "consumption", "bill", "fuel", "latency", "response time"),
    *("leistung", "verbrauch", "kosten", "effekt", "energi", "énergie", "consommation", "coût", "consumo"),
)
COST_UNITS = (
    "W",
    "kW",
    "MW",
    "GW",
    "Wh",
    "kWh",
    "MWh",
    "GWh",
    "kJ",
    "MJ",
    "GJ",
    "EUR",
    "€",
    "NOK",
    "SEK",
    "USD",
    "$",
    "GBP",
)
SETTING_WORDS = ("set", "soll", "børverdi", "consigne", "consigna")  # in names of settings
SET_POINT = re.compile(r"(?<![a-z])sp(?![a-z])")  # Kiln temp SP, sp_flow
TIME_WORDS = frozenset(
    (
        *("time", "timestamp", "ts", "datetime", "date", "utc", "clock", "unix", "epoch"),
        *("zeit", "datum", "uhrzeit", "tid", "dato", "horodatage", "fecha"),
    )
)


@dataclass
class Column:
    """What one column holds.

    Attributes
    ----------
    kind
        "times", "numbers", "names", "mixed" (numbers, and something among them that is none) or "empty".
    missing, distinct
        How many cells hold nothing, and how many different values there are.
    changes
        How often the value differs from that of the row before.
    low, middle, high
        Least, median and greatest number.
    example
        What stands in the first row that holds something.
    remarks
        What looks wrong.
    """

    name: str
    unit: str | None
    kind: str
    missing: int
    distinct: int
    changes: int
    low: float | None = None
    middle: float | None = None
    high: float | None = None
    example: str = ""
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Preview:
    """What a plant's table holds. Made by `preview`.

    Attributes
    ----------
    rows
        How many there are below the names.
    columns
        In the order of the file.
    time
        Columns of the times; empty where none was found.
    start, end, step_hours, gaps, gap_count, repeated, ordered
        What the times tell; None where there are none.
    settings, costs, contexts
        Columns that may be meant, the likeliest first; a guess for people, never used.
    remarks
        What looks wrong.
    notes
        How the file was read.
    """

    label: str
    rows: int
    columns: tuple[Column, ...]
    time: tuple[str, ...]
    start: str | None
    end: str | None
    step_hours: float | None
    gaps: tuple[str, ...]
    gap_count: int
    repeated: int
    ordered: bool | None
    settings: tuple[str, ...]
    costs: tuple[str, ...]
    contexts: tuple[str, ...]
    remarks: tuple[str, ...]
    notes: tuple[str, ...]

    def as_values(self) -> dict[str, Any]:
        """Return it in JSON values."""
        return asdict(self)


def preview(
    source: Any,
    *,
    time: str | None = None,
    timezone: str | None = None,
    time_format: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    missing: str | Sequence[str] | None = None,
    **options: Any,
) -> Preview:
    """Look at a plant's table; nothing needs to be known of it.

    Parameters
    ----------
    time
        Column of the times; default: the one that looks like it.
    timezone, time_format, decimal, thousands, missing, options
        As in `read_readings`.
    """
    words, sentinels = missing_words(missing)
    table, notes = open_table(source, words, **options)
    remarks: list[str] = []
    timed = _time_columns(table, time)
    moments: Moments | None = None
    if timed:
        try:
            moments = read_moments(
                table, timed, Signs(decimal, thousands), words, timezone=timezone, time_format=time_format
            )
            notes.append(moments.note)
        except InvalidInput as error:
            if time is not None:
                raise
            remarks.append(str(error))
    numeric = [k for k in range(len(table.names)) if k not in timed and _is_numeric(table, k, words)]
    read, said = _numbers(table, numeric, decimal, thousands, words)
    remarks += said
    columns: list[Column] = []
    for place in range(len(table.names)):
        values = read.get(place)
        if values is not None:
            for number in sentinels:
                values[values == number] = np.nan
        kind = "times" if place in timed else "mixed" if place in numeric and values is None else ""
        columns.append(_column(table, place, values, kind, words, "none" not in words))
    remarks += _with_units(table, columns)
    remarks += _of_one_name(table)
    remarks += [] if timed else _like_times(table, columns)
    remarks += [
        f"{column.name}: {same}"
        for column, cells in zip(columns, table.cells, strict=True)
        if column.kind == "names" and column.distinct <= MOST_ACTIONS
        for same in nearly_equal([cleaned(str(cell)) for cell in cells])
    ]
    remarks += [f"{column.name}: {remark}" for column in columns for remark in column.remarks]
    seen = _times(moments)
    rows = len(table.lines)
    sensor = _sensor_column(columns, rows, seen["repeated"])
    if sensor is not None:
        remarks.append(
            f"{sensor.name}: {sensor.distinct} names, and most times occur that often: is there a row for each sensor? "
            "Then give each sensor a column of its own, with a pivot table or with pivot() of pandas"
        )
    known = [c for c in columns if sensor is None and table.names.count(c.name) == 1]  # what a command can name
    settings = sorted(
        (c for c in known if c.kind in ("numbers", "names") and 2 <= c.distinct <= min(MOST_ACTIONS, rows / RARELY)),
        key=lambda c: (not _is_called_setting(c.name.lower()), c.changes),
    )
    numbers = [c for c in known if c.kind == "numbers" and c not in settings and not _is_count(c)]
    called_so = [c for c in numbers if any(word in c.name.lower() for word in COST_WORDS)]
    costs = called_so or [c for c in numbers if c.unit in COST_UNITS]  # a load in kW is none where one is called so
    contexts = [
        c
        for c in known
        if (c.kind == "numbers" and c.distinct > 1 and c not in settings and c not in costs and not _is_count(c))
        or (c.kind == "names" and 2 <= c.distinct <= MOST_NAMES and c not in settings[:1])
    ]
    return Preview(
        label=table.label,
        rows=rows,
        columns=tuple(columns),
        time=tuple(table.names[k] for k in timed),
        **seen,
        settings=tuple(c.name for c in settings),
        costs=tuple(c.name for c in costs),
        contexts=tuple(c.name for c in contexts),
        remarks=tuple(remarks),
        notes=tuple(notes),
    )


def _with_units(table: Table, columns: Sequence[Column]) -> list[str]:
    """Return a remark on each column whose cells are numbers with their unit, which are read as names."""
    found = []
    for column, cells in zip(columns, table.cells, strict=True):
        there = [str(cell).strip() for cell in cells if not is_missing(cell)] if column.kind == "names" else []
        units = {match[1] if (match := WITH_UNIT.fullmatch(text)) else "" for text in there}
        if len(units) == 1 and known_unit(unit := units.pop()):
            found.append(
                f"{column.name}: {column.example!r} is a number with its unit in each cell; put {unit} into the "
                "header, or the column is read as names"
            )
    return found


def _of_one_name(table: Table) -> list[str]:
    """Return a remark on each name that several columns have."""
    found = []
    for name in dict.fromkeys(name for name in table.names if table.names.count(name) > 1):
        places = [str(place + 1) for place, other in enumerate(table.names) if other == name]
        several = f"{', '.join(places[:-1])} and {places[-1]}"
        found.append(f"{name}: this is the name of the columns {several}; give each a name of its own")
    return found


def _like_times(table: Table, columns: Sequence[Column]) -> list[str]:
    """Return a remark on a column that may hold times, if none was recognised."""
    for column, cells in zip(columns, table.cells, strict=True):
        said, there = _is_called_time(column.name), [cell_text(cell) for cell in cells if not is_missing(cell)]
        named = f"time={column.name if column.name.isidentifier() else repr(column.name)}"
        if column.kind == "numbers" and (said or _is_count(column)) and all(is_excel_day(text) for text in there):
            column.remarks = [remark for remark in column.remarks if remark not in (COUNT, METER)]
            column.remarks.append(f"if {excel_day(there[0])}, give {named} time_format={EXCEL}")
            return []
        like = said or len(re.findall(r"\d", column.example)) >= FEWEST_DIGITS
        if column.kind == "names" and like and column.distinct == len(there):
            return [
                f"{column.name}: {column.example!r} is not a time in a way that is known; if it is one, give {named} "
                "and time_format="
            ]
    return []


def _is_called_time(name: str) -> bool:
    return bool(set(re.findall(r"[a-zA-Z]+", name.lower())) & TIME_WORDS)


def _is_count(column: Column) -> bool:
    """Return whether a column only counts, so that it is neither a cost nor a condition."""
    return any(remark in (METER, COUNT) or remark.endswith(f"time_format={EXCEL}") for remark in column.remarks)


def _is_called_setting(name: str) -> bool:
    """Return whether a name in small letters says that its column is a set-point."""
    return any(word in name for word in SETTING_WORDS) or SET_POINT.search(name) is not None


def _time_columns(table: Table, given: str | None) -> list[int]:
    if given is not None:
        names = [given] if given in table.names else [part.strip() for part in given.split(",")]
        return [find_column(table, name) for name in names]
    named = []
    for place, name in enumerate(table.names):
        first = next((cell for cell in table.cells[place] if not is_missing(cell)), "")
        text = str(first)
        said = _is_called_time(name)
        if not isinstance(first, str | float) or (
            isinstance(first, str) and (is_time(text) or (said and is_unix(text)))
        ):
            named.append(place)
        elif said and named and is_clock(text):
            return [named[0], place]  # a date, and the clock beside it
        elif named and name.strip().lower() in HOUR_WORDS and _are_dates_and_hours(table, named[0], place):
            return [named[0], place]
    return named[:1]


def _are_dates_and_hours(table: Table, dates: int, hours: int) -> bool:
    """Return whether one column has dates without a clock, and another the hour of each row: 0 to 23, or 1 to 24."""
    texts = {cell_text(cell) for cell in table.cells[hours]}
    known = {form.format(hour) for hour in range(25) for form in ("{}", "{:02d}")}
    days = len({str(cell) for cell in table.cells[dates]})
    return texts <= known and 1 <= days <= len(table.lines) / 2


def _is_numeric(table: Table, place: int, words: frozenset[str]) -> bool:
    there = [cell for cell in table.cells[place] if not is_missing(cell, words)]
    return bool(there) and sum(is_number(cell) for cell in there) >= MOSTLY * len(there)


def _numbers(
    table: Table, places: Sequence[int], decimal: str | None, thousands: str | None, words: frozenset[str]
) -> tuple[dict[int, Array], list[str]]:
    """Return the columns that can be read as numbers, and what is wrong with the others."""
    try:
        found = read_numbers(table, places, Signs(decimal, thousands), words)
        return dict(zip(places, found, strict=True)), []
    except InvalidInput as error:
        together = str(error)
    read: dict[int, Array] = {}
    said: list[str] = []
    for place in places:  # one by one, so that one column does not hide the others
        try:
            read[place] = read_numbers(table, [place], Signs(decimal, thousands), words)[0]
        except InvalidInput as error:
            said.append(str(error))
    return read, said or [together]


def _column(
    table: Table, place: int, values: Array | None, kind: str, words: frozenset[str], suspicious: bool
) -> Column:
    cells, name = table.cells[place], table.names[place]
    there = [cleaned(str(cell)) for cell in cells if not is_missing(cell, words)]
    column = Column(
        name=name,
        unit=split_name(name).unit,
        kind=kind or ("numbers" if values is not None else "names" if there else "empty"),
        missing=len(cells) - len(there),
        distinct=len(set(there)),
        changes=sum(one != other for one, other in itertools.pairwise(there)),
        example=there[0][:30] if there else "",
    )
    if column.kind == "empty":
        column.remarks.append("holds nothing")
    if values is None or not np.isfinite(values).any():
        return column
    finite = values[np.isfinite(values)]
    column.missing, column.distinct = len(values) - len(finite), len(np.unique(finite))
    column.changes = int((np.diff(finite) != 0).sum())
    column.low, column.middle, column.high = (float(value) for value in (finite.min(), np.median(finite), finite.max()))
    column.remarks += _oddities(finite, len(values), suspicious)
    return column


def _oddities(finite: Array, rows: int, suspicious: bool) -> list[str]:
    """Return what looks wrong about the numbers of a column."""
    found = []
    if len(finite) < 0.8 * rows:
        found.append(f"{100 * (1 - len(finite) / rows):.0f} % of the values are missing")
    if len(finite) > 2 and np.ptp(finite) == 0:
        found.append(f"it is {finite[0]:g} in every row")
        return found
    odd = suspects(finite) if suspicious else []
    found += [
        f"{number:g} occurs {how_often(count)}, far from all others: if it means missing, give missing={number:g}"
        for number, count in odd
    ]
    plain = finite[~np.isin(finite, [number for number, _ in odd])]
    low, high = np.percentile(plain, [25, 75])
    if high > low:
        far = plain[(plain < low - FAR * (high - low)) | (plain > high + FAR * (high - low))]
        if 0 < len(far) <= 0.02 * len(plain):
            lie = "1 number lies" if len(far) == 1 else f"{len(far)} numbers lie"
            found.append(f"{lie} far from the others{': ' if len(far) == 1 else ', such as '}{far[0]:g}")
    steps = np.diff(finite)
    if len(finite) > 20 and (steps >= 0).all() and (steps > 0).mean() > 0.5:
        found.append(METER if steps.min() < steps.max() else COUNT)
    if len(np.unique(finite)) > 0.2 * len(finite) or (steps != 0).mean() > 0.5:
        longest = _longest_run(finite)
        if longest >= STUCK:
            found.append(f"it does not change for {longest} rows: was the sensor stuck?")
    return found


def _longest_run(values: Array) -> int:
    ends = np.flatnonzero(np.diff(values) != 0)
    edges = np.concatenate([[-1], ends, [len(values) - 1]])
    return int(np.diff(edges).max())


def _sensor_column(columns: Sequence[Column], rows: int, repeated: int) -> Column | None:
    """Return the column of names that says which sensor a row is of, where each time has a row for each sensor."""
    for column in columns:
        if column.kind == "names" and column.distinct > 1 and repeated > 0.8 * rows * (1 - 1 / column.distinct):
            return column
    return None


def duration(hours: float) -> str:
    """Write a duration as people say it.

    >>> [duration(hours) for hours in (30, 23 / 6, 1 / 6, 0.0125)]
    ['30 h', '3 h 50 min', '10 min', '0.75 min']
    """
    whole, minutes = divmod(round(hours * 60), 60)
    if abs(hours * 60 - round(hours * 60)) > 1e-6:
        return f"{hours:g} h" if hours >= 1 else f"{hours * 60:g} min"
    parts = [f"{whole:g} h"] * (whole > 0) + [f"{minutes} min"] * (minutes > 0)
    return " ".join(parts) or "0 min"


def _times(moments: Moments | None) -> dict[str, Any]:
    """Return the period, the step and the gaps."""
    if moments is None or moments.times is None:
        nothing = dict.fromkeys(("start", "end", "step_hours", "ordered"))
        return nothing | {"gaps": (), "gap_count": 0, "repeated": 0}
    seconds = moments.seconds[np.isfinite(moments.seconds)]
    sorted_times = np.unique(seconds)
    step = usual_step(seconds)
    distances = np.diff(sorted_times)
    holes = np.flatnonzero(distances > 1.5 * step)
    shown = sorted_times.astype(np.int64).astype("datetime64[s]")
    largest = holes[np.argsort(-distances[holes], kind="stable")][:MOST_GAPS]
    return {
        "start": f"{shown[0]}Z",
        "end": f"{shown[-1]}Z",
        "step_hours": step / HOUR,
        "gaps": tuple(
            f"{duration((distances[k] - step) / HOUR)} missing between {shown[k]}Z and {shown[k + 1]}Z"
            for k in sorted(largest.tolist())
        ),
        "gap_count": len(holes),
        "repeated": len(seconds) - len(sorted_times),
        "ordered": bool((np.diff(seconds) >= 0).all()),
    }
