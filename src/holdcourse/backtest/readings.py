"""A plant's readings as people have them: any table, any way to write numbers and times, nothing guessed.

What a file leaves open is an error that names the line, the value and the option that settles it. What was left out,
sorted or taken for granted is in the notes.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from holdcourse.checks import flag, whole_number
from holdcourse.errors import InvalidInput, counted, how_often, shown
from holdcourse.learning.history import History
from holdcourse.learning.posteriors.readings import absurd
from holdcourse.movement.prices import Prices
from holdcourse.movement.problem import Problem, check_problem
from holdcourse.movement.settings import TOLERANCE, index_of
from holdcourse.running.database import refuse_record
from holdcourse.tables.cells import Table
from holdcourse.tables.columns import (
    find_column,
    has_column,
    is_named,
    require_one_header,
    split_name,
    with_units,
    with_units_of_cells,
)
from holdcourse.tables.numbers import (
    MISSING_WORDS,
    Signs,
    cleaned,
    is_missing,
    is_number,
    missing_words,
    read_numbers,
)
from holdcourse.tables.sources import frame_table, read_file
from holdcourse.tables.text import FileContent
from holdcourse.tables.times import (
    EXCEL,
    HOUR,
    Times,
    cell_text,
    excel_day,
    heading_zone,
    is_excel_day,
    is_unix,
    joined,
    read_times,
    zone_of,
)

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
Duplicates: TypeAlias = Literal["refuse", "first", "last", "keep"]

MOST_ACTIONS = 60
MOST_NAMES = 12  # of a context: each is a number that a model has to learn
CLOCK = {"hour": 24.0, "weekday": 7.0}  # go round: a sine and a cosine each
WEEKEND = "weekend"
# What loggers write for a missing number; whether a plant's file does, only its owner knows.
SENTINELS = (-99.0, -99.9, -999.0, -999.9, -9999.0, -9999.9, -99999.0, 999.0, 999.9, 9999.0, 99999.0, -32768.0, 65535.0)
FAR = 10.0  # interquartile ranges from the median: such a number is told
LAG = re.compile(r"(.+?)\s*@\s*-\s*(\d+)\s*(min|h|d)?")
WITH_UNIT = re.compile(r"[+-]?\d[\d.,]*\s*([^\d\s]+)")  # a number and its unit in one cell
MANY_STEPS = 100  # in which a cost that is no meter's count does not only rise
FEW_STEPS, SLACK = 10.0, 0.1  # lags of fewer readings are whole ones, give or take this
SECONDS = {"min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, eq=False)
class Readings:
    """Settings that ran at a plant, and what was measured, oldest first. Made by `read_readings`.

    Attributes
    ----------
    label
        Name of the file in messages.
    action, cost
        Columns of the settings and of what was measured.
    context
        A name for each number of a context.
    values
        Settings that ran: numbers (n,), or names.
    history
        The rows as a `History`, whose actions are indices of `values`.
    times
        Time of each reading, UTC; None if the file has no times, or only numbers for sorting.
    units
        Units by column, if the header names them.
    lines
        Line of each row in the file.
    notes
        Notes on what was left out, sorted or assumed.
    context_units
        Unit of each number of a context; "" if the header names none.
    line_word
        What `lines` counts: "line" of a file, "row" of a frame.

    Examples
    --------
    >>> import holdcourse as hc
    >>> table = {"outdoor [°C]": [20, 24, 21, 18], "mode": ["eco", "full", "eco", "full"], "kW": [3.1, 5.0, 3.3, 4.4]}
    >>> readings = hc.read_readings(table, action="mode", cost="kW", context="outdoor")
    >>> readings.values, readings.history.actions.tolist()
    (['eco', 'full'], [0, 1, 0, 1])
    >>> readings.problem([[0, 2], [1, 0]], directed=True).value(1)
    'full'
    """

    label: str
    action: str
    cost: str
    context: tuple[str, ...]
    values: Array | list[str]
    history: History
    times: Times | None
    units: dict[str, str]
    lines: Indices
    notes: tuple[str, ...]
    context_units: tuple[str, ...] = ()
    line_word: str = "line"

    def __len__(self) -> int:
        return len(self.history)

    @property
    def step(self) -> float | None:
        """Usual number of hours from one reading to the next; None without times."""
        if self.times is None or len(self.times) < 2:
            return None
        return usual_step(self.times.astype(np.int64).astype(np.float64)) / HOUR

    def believable(self) -> Readings:
        """Return the readings without those that differ from all others by orders of magnitude; the notes name them.

        If one kilowatt hour is read as ten thousand, a model of costs becomes useless. Rows whose context contains such
        a cost, as ``cost@-1`` does one row later, are left out too.

        Examples
        --------
        >>> import holdcourse as hc
        >>> table = {"load": range(9), "setting": [6, 8] * 4 + [6], "kW": [3, 4, 5, 3, 4, 40_000, 4, 5, 3]}
        >>> readings = hc.read_readings(table, action="setting", cost="kW", context="load").believable()
        >>> len(readings), readings.notes
        (8, ('1 reading is off by orders of magnitude and left out: 40000 in row 5; the median is 4',))
        """
        y = self.history.measurements
        wrong = absurd(y)
        if not wrong.any():
            return self
        spoiled = np.zeros(len(y), dtype=bool)
        for name, values in zip(self.context, self.history.contexts.T, strict=True):
            if any(is_named(self.cost, part) for part in _columns_in(name)):
                spoiled |= absurd(values) & ~wrong
        kept, rows = np.flatnonzero(~(wrong | spoiled)), np.flatnonzero(wrong)
        told = ", ".join(f"{y[row]:.6g} in {self.line_word} {self.lines[row]}" for row in rows[:3])
        more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
        are = "1 reading is" if len(rows) == 1 else f"{len(rows)} readings are"
        count = int(spoiled.sum())
        after = f"; so {'is 1 row' if count == 1 else f'are {count} rows'} with such a cost in the context"
        return replace(
            self,
            history=History(self.history.actions[kept], self.history.contexts[kept], y[kept]),
            times=None if self.times is None else self.times[kept],
            lines=self.lines[kept],
            notes=(
                *self.notes,
                f"{are} off by orders of magnitude and left out: {told}{more}; the median is {np.median(y):.4g}"
                + after * (count > 0),
            ),
        )

    def problem(self, metric: Any = "euclidean", *, scale: float | str = 1.0, **options: Any) -> Problem:
        """Return the settings as a `Problem`.

        Between named settings every change costs `fixed_cost`, unless `metric` is the matrix of what each move costs.
        Units and names of contexts come from the headers, unless you give others.
        """
        options = {
            "unit": self.units.get(self.action, "") if not isinstance(self.values, list) else "",
            "cost_unit": self.units.get(self.cost, ""),
            "context_names": list(self.context),
            "context_units": list(self.context_units) or None,
        } | options
        if isinstance(self.values, list):
            if isinstance(metric, str):
                each = Prices.of(1.0, options.pop("fixed_cost", 0.0), ("",), options["cost_unit"]).fixed_cost
                if not each > 0:
                    raise InvalidInput(
                        f"column {self.action!r} contains names ({', '.join(self.values[:4])}), so the cost of a move "
                        "cannot be computed from distances; give fixed_cost=, what every change costs, or matrix=, "
                        "what each change costs"
                    )
                metric = each * (1.0 - np.eye(len(self.values)))
            return Problem(None, metric, labels=list(self.values), **options)
        return Problem(self.values, metric, scale=scale if isinstance(metric, str) else 1.0, **options)

    def about(self, problem: Problem) -> History:
        """Return the rows in the actions of a problem, which may have more settings than ran, and in another order."""
        check_problem(problem)
        values = self.values if isinstance(self.values, list) else self.values.tolist()
        try:
            places = [index_of(problem, value, "setting") for value in values]
        except InvalidInput as error:
            raise InvalidInput(f"readings, column {self.action!r}: {error}") from None
        actions = np.array(places, dtype=np.int64)[self.history.actions]
        return History(actions, self.history.contexts, self.history.measurements)

    def __repr__(self) -> str:
        settings = counted(len(self.values), "setting")
        return f"Readings({self.label!r}, {counted(len(self), 'row')}, {settings}, context={list(self.context)})"


def read_readings(
    source: Any,
    *,
    action: str,
    cost: str,
    context: str | Sequence[str],
    time: str | Sequence[str] | None = None,
    bins: int | None = None,
    named: bool = False,
    timezone: str | None = None,
    time_format: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    encoding: str | None = None,
    header_line: int | None = None,
    sheet: str | None = None,
    missing: str | Sequence[str] | None = None,
    duplicates: Duplicates = "refuse",
) -> Readings:
    """Read a plant's readings, oldest first: the settings that ran, and what was measured.

    Parameters
    ----------
    source
        Path of a text file (separated by comma, semicolon, tab or bar; also compressed with gzip or xz), an Excel
        workbook (``.xlsx``) or a Parquet file; or a data frame of pandas, polars or pyarrow, or a dict of columns.
    action, cost
        Columns of the setting that ran and of what was measured. A unit in the header may be left out.
    context
        Columns of what was known before each decision, or expressions of columns: ``load@-1`` is the previous reading,
        ``load@-24h`` the reading of a day ago, ``load - load@-1`` a difference. ``hour`` and ``weekday`` of the local
        time are two numbers each, a sine and a cosine, so that 23:00 is near 00:00; ``weekend`` is 1 or 0. A column of
        names becomes one number for each name, which is 1 in rows with that name and 0 in others; for two names, only
        the second.
    time
        Column of the time, or two columns with date and time of day; default: rows are in order.
    bins
        Number of evenly spaced values to which numeric settings are rounded; None: no rounding.
    named
        Whether the settings are names even if they look like numbers.
    timezone
        Time zone of times without one, e.g. ``Europe/Oslo``; also the zone of ``hour`` and ``weekday``.
    time_format, separator, decimal, thousands, encoding, header_line, sheet
        Format of the file, if it is ambiguous, e.g. ``time_format="%d/%m/%Y %H:%M"``, ``decimal="comma"``;
        ``time_format="excel"`` if the times are days as Excel counts them, such as 45719.5.
    missing
        Other texts that stand for a missing number, e.g. ``"-9999"``; rows with missing cells are left out and counted.
    duplicates
        What to do with different rows of the same time: refuse them, or keep the first, the last, or all.

    Raises
    ------
    InvalidInput, DamagedFile
        The file cannot be read, or is ambiguous; the message names line, value and remedy.

    Examples
    --------
    >>> import holdcourse as hc
    >>> table = {"load": [0.2, 0.9, None, 0.4], "setting": [6, 6, 8, 8], "power [kW]": [3.1, 5.0, 4.4, 2.9]}
    >>> readings = hc.read_readings(table, action="setting", cost="power", context="load")
    >>> len(readings), readings.values.tolist(), readings.units
    (3, [6.0, 8.0], {'power [kW]': 'kW'})
    >>> readings.notes
    ("1 of 4 rows was left out: 'load' is missing in 1",)
    """
    _check_given(action=action, cost=cost, context=context, bins=bins, header_line=header_line)
    named = flag(named, "named")
    for name, given in (
        ("decimal", decimal),
        ("thousands", thousands),
        ("timezone", timezone),
        ("time_format", time_format),
    ):
        if given is not None and not isinstance(given, str):
            raise InvalidInput(f"{name} must be text, got {shown(given)}")
    if time is not None and not (isinstance(time, str) or (_is_list(time) and len(time))):
        raise InvalidInput(f"time must be the name of a column, or a list of names, got {shown(time)}")
    if missing is not None and not isinstance(missing, Iterable):
        raise InvalidInput(f"missing must be text, or a list of texts, got {shown(missing)}")
    words, numbers = missing_words(missing)
    options = {"separator": separator, "encoding": encoding, "header_line": header_line, "sheet": sheet}
    table, notes = open_table(source, words, names_in=action if named else "", **options)
    reader = _Reader(table, words, numbers, Signs(decimal, thousands), "none" not in words, notes)
    return reader.read(action, cost, _texts(context), time, bins, named, timezone, time_format, duplicates)


def _check_given(**given: Any) -> None:
    """Raise where an argument is of the wrong kind."""
    for name in ("action", "cost"):
        if not isinstance(given[name], str):
            raise InvalidInput(f"{name} must be the name of a column, got {shown(given[name])}")
    context = given["context"]
    if not isinstance(context, str) and not _is_list(context):
        raise InvalidInput(f"context must be the names of columns, such as ['load', 'outdoor'], got {shown(context)}")
    if given["bins"] is not None:
        whole_number(given["bins"], "bins=", 2)
        if given["bins"] > MOST_ACTIONS:
            raise InvalidInput(f"bins= must be {MOST_ACTIONS} or fewer, got {given['bins']}")
    if given["header_line"] is not None:
        whole_number(given["header_line"], "header_line=", 1)


def open_table(
    source: Any, missing: Collection[str] = (), *, names_in: str = "", **options: Any
) -> tuple[Table, list[str]]:
    """Open a file or frame as a table, with what there is to note; a row of units below the names becomes part of them.

    Parameters
    ----------
    missing
        Words that stand for a missing number.
    names_in
        The column whose cells are names, also where they look like numbers with a unit.
    options
        Those of `holdcourse.tables.sources.read_file`.
    """
    notes: list[str] = []
    if isinstance(source, str | os.PathLike | FileContent):
        path = source if isinstance(source, FileContent) else Path(source)
        if isinstance(path, Path):
            refuse_record(path, "readings come from a CSV, an Excel sheet or a Parquet file")
        table, note = read_file(path, **options)
        notes += [note] if note else []
    else:
        table = frame_table(source)
    table, told = with_units(table)
    notes += told
    require_one_header(table, missing)
    table, told = with_units_of_cells(table, missing, names_in)
    notes += told
    names = [name or f"column {place + 1}" for place, name in enumerate(table.names)]
    return replace(table, names=names), notes


def usual_step(seconds: Array) -> float:
    """Return the usual distance between times in order, which need not be seconds; 0 where there is none."""
    steps = np.diff(np.unique(seconds))
    return float(np.median(steps)) if len(steps) else 0.0


def _is_list(given: Any) -> bool:
    """Whether it is a list of texts."""
    return isinstance(given, Sequence) and all(isinstance(text, str) for text in given)


def _texts(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


@dataclass(frozen=True)
class Moments:
    """The times of a table, or the numbers that stand for them.

    Attributes
    ----------
    seconds
        What rows are sorted by, NaN where missing.
    times
        The same as times in UTC; None for plain numbers.
    """

    seconds: Array
    times: Times | None
    zone: tzinfo = UTC
    note: str = ""

    def taken(self, rows: Indices) -> Moments:
        """Return some of the rows."""
        return replace(self, seconds=self.seconds[rows], times=None if self.times is None else self.times[rows])


def read_moments(
    table: Table,
    columns: Sequence[int],
    signs: Signs,
    missing: Collection[str] = (),
    *,
    timezone: str | None = None,
    time_format: str | None = None,
) -> Moments:
    """Read the times of a table, from one column or from two of date and clock; plain numbers are an order as well."""
    texts: list[str | datetime] = []
    rows: list[int] = []
    for row in range(len(table.lines)):
        cells = [table.cells[column][row] for column in columns]
        if any(is_missing(cell, missing) for cell in cells):
            continue
        texts.append(joined(cells))
        rows.append(row)
    name = " ".join(table.names[column] for column in columns)
    if not texts:
        raise InvalidInput(
            f"{table.label}: no row has a time in column {name!r}; name another column, or leave time= out"
        )
    seconds = np.full(len(table.lines), np.nan)
    plain = [isinstance(text, str) and _is_plain(text) for text in texts]
    if len(columns) == 1 and time_format is None and any(plain):
        if not all(plain):
            row = plain.index(2 * sum(plain) < len(plain))
            other = texts[plain.index(not plain[row])]
            raise InvalidInput(
                f"{table.at(rows[row])}: {str(texts[row])[:40]!r} in column {name!r} is not a time like "
                f"{str(other)[:40]!r}; correct it, or say how times are written with time_format="
            )
        seconds[:] = read_numbers(table, columns, signs, missing)[0]
        note = f"times in {name!r} are plain numbers: rows are sorted by them"
        if all(is_excel_day(str(text)) for text in texts):
            note += f"; if {excel_day(str(texts[0]))}, give time_format={EXCEL}"
        return Moments(seconds, None, note=note)
    read, note = read_times(
        texts,
        name,
        table.label,
        at=lambda row: table.at(rows[row]),
        timezone=timezone,
        time_format=time_format,
    )
    odd = np.flatnonzero((read < np.datetime64("1900-01-01")) | (read > np.datetime64("2200-01-01")))
    if len(odd):
        raise InvalidInput(
            f"{table.at(rows[int(odd[0])])}: {str(texts[int(odd[0])])[:40]!r} cannot be right: it is in the "
            f"year {str(read[odd[0]])[:4]}; correct it"
        )
    times = np.full(len(table.lines), np.datetime64("NaT", "s"))
    times[rows] = read
    seconds[rows] = read.astype(np.int64)
    zone = timezone or heading_zone(name)
    return Moments(seconds, times, UTC if zone is None else zone_of(zone), note)


def _is_plain(text: str) -> bool:
    """Return whether a time is a plain number: no seconds since 1970, no digits of a date."""
    if not is_number(text) or is_unix(text):
        return False
    return not re.fullmatch(r"(19|20)\d{6}(\d\d){0,3}", text)


@dataclass(frozen=True)
class Term:
    """One context of a person's: a column, some readings ago; less another; or what the clock says.

    Attributes
    ----------
    text
        As it was written.
    parts
        Columns with their lags: (column, how many, unit or ""); the second is subtracted from the first.
    clock
        "hour", "weekday" or "weekend"; "" for columns.
    kinds
        What the column holds, where these are names.
    """

    text: str
    parts: tuple[tuple[int, int, str], ...] = ()
    clock: str = ""
    kinds: tuple[str, ...] = ()

    @property
    def told(self) -> tuple[str, ...]:
        """The names that have a number: 1 where it is this one, else 0. Of two the second tells all."""
        return self.kinds if len(self.kinds) > 2 else self.kinds[-1:]

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each number that it gives."""
        if self.kinds:
            return tuple(f"{self.text} = {kind}" for kind in self.told)
        return (f"{self.text} (sine)", f"{self.text} (cosine)") if self.clock in CLOCK else (self.text,)


def read_terms(table: Table, texts: Sequence[str]) -> list[Term]:
    """Read what a person wrote as contexts, separated by commas; a column of such a name comes first."""
    terms: list[Term] = []
    for text in texts:
        pieces = [text] if text.strip() in table.names else text.split(",")
        for piece in pieces:
            if not piece.strip():
                raise InvalidInput(
                    f"there is an empty name in context {text!r}; write names with single commas between them"
                )
            terms.append(_term(table, piece.strip()))
    doubled = [term.text for k, term in enumerate(terms) if term.text in [other.text for other in terms[:k]]]
    if doubled:
        raise InvalidInput(f"context {doubled[0]!r} is given twice; leave one out")
    if not terms:
        raise InvalidInput("no context is given; give context= at least one column that was known before each decision")
    return terms


def _term(table: Table, text: str) -> Term:
    if not has_column(table, text):
        if text.lower() in (*CLOCK, WEEKEND):
            return Term(text.lower(), clock=text.lower())
        two = re.split(r"\s-\s", text)
        if len(two) == 2:
            return Term(text, (_part(table, two[0]), _part(table, two[1])))
        if len(two) > 2:
            raise InvalidInput(
                f"context {text!r} takes more than one difference; write two contexts, or add a column to the file"
            )
    return Term(text, (_part(table, text),))


def _part(table: Table, text: str) -> tuple[int, int, str]:
    lagged = None if has_column(table, text) else LAG.fullmatch(text.strip())
    if lagged is None:
        if "@" in text and not has_column(table, text):
            raise InvalidInput(
                f"context {text!r} is not understood; write an earlier reading like load@-1 or load@-24h"
            )
        return find_column(table, text), 0, ""
    if int(lagged[2]) == 0:
        raise InvalidInput(f"context {text!r} is 0 readings ago; leave out the @-0")
    return find_column(table, lagged[1]), int(lagged[2]), lagged[3] or ""


def _columns_in(context: str) -> list[str]:
    """Return what the columns in a context are called, without their lags."""
    parts = [part.strip() for part in re.split(r"\s-\s", context)]
    return [context, *(lagged[1] if (lagged := LAG.fullmatch(part)) else part for part in parts)]


def _require_one(table: Table, action: str) -> None:
    """Raise where several columns are named as the setting."""
    parts = [part.strip() for part in action.split(",")]
    if len(parts) > 1 and not has_column(table, action) and all(has_column(table, part) for part in parts):
        raise InvalidInput(
            f"action names {len(parts)} columns, but only one can be the setting; add a column that joins them, such "
            "as '8 workers, 4 GB', or use hc.grid in Python, as in the tutorial of a database"
        )


@dataclass
class _Reader:
    """Reads one table; the steps of `read_readings`."""

    table: Table
    words: frozenset[str]
    numbers: frozenset[float]
    signs: Signs
    suspicious: bool  # whether a number that may stand for a missing one is refused
    notes: list[str]

    def read(
        self,
        action: str,
        cost: str,
        context: list[str],
        time: str | Sequence[str] | None,
        bins: int | None,
        named: bool,
        timezone: str | None,
        time_format: str | None,
        duplicates: Duplicates,
    ) -> Readings:
        """Read the columns, put rows in order, derive contexts, leave out what is missing."""
        table = self.table
        if len(table.names) < 2:
            raise InvalidInput(
                f"{table.label} has only one column, {table.names[0]!r}; if it should have more, give the separator of "
                "its cells with separator="
            )
        if not (isinstance(duplicates, str) and duplicates in ("refuse", "first", "last", "keep")):
            raise InvalidInput(f"duplicates must be refuse, first, last or keep, got {shown(duplicates)}")
        if timezone is not None:
            zone_of(timezone)
        _require_one(table, action)
        place, paid = find_column(table, action), find_column(table, cost)
        terms = read_terms(table, context)
        self._require_known_before(terms, place, paid)
        if time is None and (timezone is not None or time_format is not None):
            raise InvalidInput("timezone= and time_format= describe times, but no column of times is named; give time=")
        moments = self._moments(time, timezone, time_format)
        if moments is None and any(term.clock or any(part[2] for part in term.parts) for term in terms):
            raise InvalidInput(
                "hour, weekday, weekend and lags in hours need times; name the column of the times with time="
            )
        if moments is not None and moments.times is None and any(term.clock for term in terms):
            told, _, hint = moments.note.partition("; ")
            raise InvalidInput(f"{told}, so the hour and the weekday are not known; {hint or 'give dates with time='}")
        terms, codes = self._named_contexts(terms)
        columns = sorted({paid, *(part[0] for term in terms for part in term.parts)} - set(codes))
        names_of_settings = self._settings_are_names(place, named)
        wanted = columns if names_of_settings or place in columns else [*columns, place]
        read = dict(zip(wanted, self._numbers(wanted), strict=True)) | codes
        settings = self._names(place) if names_of_settings else read[place]
        compared = [settings, *(read[column] for column in (*columns, *codes))]
        order, moments = self._order(moments, compared, duplicates)
        settings, read = settings[order], {column: values[order] for column, values in read.items()}
        contexts = np.column_stack([part for term in terms for part in _values(term, read, moments)])
        names = tuple(name for term in terms for name in term.names)
        gone = {
            table.names[place]: np.array([_is_gone(setting) for setting in settings]),
            table.names[paid]: np.isnan(read[paid]),
        }
        for axis, name in enumerate(names):
            gone.setdefault(name, np.isnan(contexts[:, axis]))
        kept = self._kept(gone)
        self._require_no_meter(paid, read[paid][kept])
        values, actions = _actions(settings[kept], bins, table.names[place])
        for term in terms:
            if term.kinds:
                self.notes.append(
                    f"{term.text!r} contains names ({', '.join(term.names)}): each becomes a context that is 1 or 0"
                )
        if any(term.clock in CLOCK for term in terms):
            self.notes.append("hour and weekday are periodic: each becomes a sine and a cosine")
        used = [*dict.fromkeys([place, *wanted])]
        return Readings(
            label=table.label,
            action=table.names[place],
            cost=table.names[paid],
            context=names,
            values=values,
            history=History(actions, contexts[kept], read[paid][kept]),
            times=None if moments is None or moments.times is None else moments.times[kept],
            units={table.names[k]: unit for k in used if (unit := split_name(table.names[k]).unit) is not None},
            lines=np.array(table.lines, dtype=np.int64)[order][kept],
            notes=tuple(self.notes),
            context_units=tuple(unit for term in terms for unit in self._units(term)),
            line_word=table.unit,
        )

    def _units(self, term: Term) -> list[str]:
        """Return the unit of each number of a context; "" where there is none, or two differ."""
        found = {split_name(self.table.names[column]).unit or "" for column, _, _ in term.parts}
        return [found.pop() if len(found) == 1 else ""] * len(term.names)

    def _require_known_before(self, terms: Sequence[Term], place: int, paid: int) -> None:
        """Raise where a context is what is decided, or what is measured after the decision."""
        for term in terms:
            for column, lag, _ in term.parts:
                what = {place: "the setting that is decided", paid: "what is measured after the decision"}.get(column)
                if what is not None and not lag:
                    raise InvalidInput(
                        f"context {term.text!r} is {what}, so it is not known beforehand; use the reading before, "
                        f"{term.text}@-1, or leave it out"
                    )

    def _moments(
        self, time: str | Sequence[str] | None, timezone: str | None, time_format: str | None
    ) -> Moments | None:
        if time is None:
            return None
        names = _texts(time)
        if len(names) == 1 and not has_column(self.table, names[0]) and "," in names[0]:
            names = [name.strip() for name in names[0].split(",")]
        columns = [find_column(self.table, name) for name in names]
        # Numbers that rows are sorted by have signs of their own.
        signs = Signs(self.signs.decimal, self.signs.thousands)
        found = read_moments(self.table, columns, signs, self.words, timezone=timezone, time_format=time_format)
        self.notes.append(found.note)
        return found

    def _named_contexts(self, terms: Sequence[Term]) -> tuple[list[Term], dict[int, Array]]:
        """Return the contexts, with the names that their columns hold, and such columns as numbers of names."""
        found, codes = [], {}
        for term in terms:
            held = [column for column, _, _ in term.parts if self._holds_names(column)]
            if held and len(term.parts) > 1:
                name = self.table.names[held[0]]
                raise InvalidInput(
                    f"context {term.text!r} takes a difference, but column {name!r} contains names; leave it out"
                )
            for column in held:
                texts = self._names(column, "a name")
                kinds = tuple(sorted(set(texts.tolist()) - {""}))
                if len(kinds) == 1:
                    raise InvalidInput(
                        f"{self.table.label}: column {self.table.names[column]!r} contains only the name {kinds[0]!r}; "
                        "a context that never changes tells nothing, so leave it out"
                    )
                if len(kinds) > MOST_NAMES:
                    raise InvalidInput(
                        f"column {self.table.names[column]!r} contains {len(kinds)} different names, but a context may "
                        f"have at most {MOST_NAMES}; give names with similar costs a common name, or leave the column "
                        "out"
                    )
                places = {kind: float(place) for place, kind in enumerate(kinds)}
                codes[column] = np.array([places.get(text, np.nan) for text in texts.tolist()])
                term = replace(term, kinds=kinds)
            found.append(term)
        return found, codes

    def _holds_names(self, column: int) -> bool:
        """Return whether a column holds texts and no number; a single word among numbers is a mistake, as are units."""
        there = [cell for cell in self.table.cells[column] if not is_missing(cell, self.words)]
        texts = [cell.strip() for cell in there if isinstance(cell, str) and not is_number(cell)]
        if not texts or len(texts) < len(there):
            return False
        units = {found[1] if (found := WITH_UNIT.fullmatch(text)) else None for text in texts}
        return units == {None} or len(units) > 1

    def _settings_are_names(self, place: int, named: bool) -> bool:
        if named:
            return True
        name, cells = self.table.names[place], self.table.cells[place]
        numbers = next((row for row, cell in enumerate(cells) if is_number(cell)), None)
        texts = [
            row for row, cell in enumerate(cells) if isinstance(cell, str) and cell.strip() and not is_number(cell)
        ]
        words = [row for row in texts if not is_missing(cells[row], self.words)]
        if not words:
            return False
        if numbers is not None:
            raise InvalidInput(
                f"{self.table.at(words[0])}: {str(cells[words[0]])[:40]!r} in column {name!r} is not a number, but "
                f"{str(cells[numbers])[:40]!r} ({self.table.unit} {self.table.lines[numbers]}) is; correct it, give "
                f"missing= for what is not a setting, or named=True if all are names"
            )
        return True

    def _names(self, place: int, what: str = "a setting") -> NDArray[np.object_]:
        """Return the cells of a column as names, "" where missing."""
        found: list[str] = []
        for row, cell in enumerate(self.table.cells[place]):
            text = cell_text(cell)
            low = cleaned(text).lower()
            if low in self.words or low in ("", "nan", "<na>", "#n/a", "nat"):
                text = ""
            elif low in MISSING_WORDS:
                raise InvalidInput(
                    f"{self.table.at(row)}: {text!r} in column {self.table.names[place]!r} may be {what} or stand "
                    f"for a missing one; give missing={text} if it is missing, or rename it"
                )
            found.append(text)
        self.notes += [f"{self.table.names[place]!r}: {same}" for same in nearly_equal(found)]
        return np.array(found, dtype=object)

    def _numbers(self, columns: Sequence[int]) -> list[Array]:
        found = read_numbers(self.table, columns, self.signs, self.words)
        for column, values in zip(columns, found, strict=True):
            for number in self.numbers:
                values[values == number] = np.nan
            self._require_clear(column, values)
        return found

    def _require_clear(self, column: int, values: Array) -> None:
        """Raise where a number that loggers write for a missing one lies far from all others."""
        told = suspects(values)
        if told and self.suspicious:
            number, count = told[0]
            row = int(np.flatnonzero(values == number)[0])
            raise InvalidInput(
                f"{self.table.at(row)}: {number:g} occurs {how_often(count)} in column {self.table.names[column]!r}, "
                f"far from all others; give missing={number:g} if it stands for a missing number, or missing=none if "
                "not"
            )

    def _require_no_meter(self, column: int, values: Array) -> None:
        """Raise where a cost only ever rises, or falls in a file that begins with the newest row: a meter's count."""
        steps = np.diff(values)
        if len(steps) >= MANY_STEPS and (steps != 0).mean() > 0.5 and ((steps >= 0).all() or (steps <= 0).all()):
            always = "rises" if steps.max() > 0 else "falls"
            raise InvalidInput(
                f"{self.table.label}: column {self.table.names[column]!r} only ever {always}, as the count of a "
                "meter does; add a column with the consumption, the difference of two rows, and name that column"
            )

    def _order(
        self, moments: Moments | None, compared: Sequence[NDArray[Any]], duplicates: Duplicates
    ) -> tuple[Indices, Moments | None]:
        """Return the rows to keep in order of time, and their times."""
        if moments is None:
            return np.arange(len(self.table.lines)), None
        timed = np.flatnonzero(np.isfinite(moments.seconds))
        untimed = len(self.table.lines) - len(timed)
        if untimed:
            left = "was left out because it has" if untimed == 1 else "were left out because they have"
            self.notes.append(f"{untimed:,} of {counted(len(self.table.lines), 'row')} {left} no time")
        order = timed[np.argsort(moments.seconds[timed], kind="stable")]
        falling = len(timed) > 1 and bool((np.diff(moments.seconds[timed]) < 0).any())
        if falling:
            self.notes.append("rows were not in order of time, so they were sorted")
        ends = np.flatnonzero(np.diff(moments.seconds[order]) != 0) + 1
        kept: list[int] = []
        differing = 0
        for rows in np.split(order, ends) if len(ends) + 1 < len(order) else []:
            distinct: list[int] = []
            for row in rows.tolist():
                if not any(all(_alike(values[row], values[other]) for values in compared) for other in distinct):
                    distinct.append(row)
            if len(distinct) > 1 and duplicates == "refuse":
                one, two = distinct[:2]
                when = moments.seconds[one] if moments.times is None else f"{moments.times[one]}Z"
                raise InvalidInput(
                    f"{self.table.at(two)}: the time {when} is already in {self.table.unit} {self.table.lines[one]}, "
                    "with other values; correct it, or choose with duplicates=first, last or keep"
                )
            differing += len(distinct) - 1
            kept += distinct if duplicates == "keep" else [int(rows[-1 if duplicates == "last" else 0])]
        keep = np.array(kept, dtype=np.int64) if kept else order
        if len(keep) < len(order):
            how = f", {differing} of them with other values" if differing and duplicates != "keep" else ""
            gone = len(order) - len(keep)
            left = "1 row was left out because its" if gone == 1 else f"{gone:,} rows were left out because their"
            self.notes.append(f"{left} time occurs twice{how}")
        if differing and duplicates == "keep":
            have = counted(differing, "row has", "rows have")
            self.notes.append(f"{have} the same time as another row; all are kept")
        return keep, moments.taken(keep)

    def _kept(self, gone: dict[str, NDArray[np.bool_]]) -> Indices:
        """Return the rows where nothing is missing, and note what was."""
        bad = np.any(list(gone.values()), axis=0)
        if bad.all():
            most = max(gone, key=lambda name: int(gone[name].sum()))
            raise InvalidInput(
                f"{self.table.label}: no row is complete; {most!r} is missing in {int(gone[most].sum()):,} of "
                f"{len(bad):,} rows; name other columns, or correct the file"
            )
        if bad.any():
            each = ", ".join(
                f"{name!r} is missing in {int(where.sum()):,}" for name, where in gone.items() if where.any()
            )
            left = f"{int(bad.sum()):,} of {len(bad):,} rows {'was' if bad.sum() == 1 else 'were'} left out"
            self.notes.append(f"{left}: {each}")
        return np.flatnonzero(~bad)


def nearly_equal(names: Collection[str]) -> list[str]:
    """Return a remark on names that differ only in capital letters or blanks, which may be one name."""
    groups: dict[str, set[str]] = {}
    for name in set(names):
        groups.setdefault("".join(name.split()).casefold(), set()).add(name)
    return [
        f"{' and '.join(map(repr, sorted(group)))} are read as different names; if they are one, write it in one way"
        for _, group in sorted(groups.items())
        if len(group) > 1
    ]


def suspects(values: Array) -> list[tuple[float, int]]:
    """Return numbers that loggers write for a missing one and that lie far from all others, with how often."""
    finite = values[np.isfinite(values)]
    found = []
    for number in SENTINELS:
        count = int((finite == number).sum())
        others = finite[~np.isin(finite, SENTINELS)]
        if not count or len(others) < 4:
            continue
        low, middle, high = np.percentile(others, [25, 50, 75])
        spread = max(high - low, (others.max() - others.min()) / FAR)
        outside = number < others.min() or number > others.max()
        if outside and abs(number - middle) > FAR * max(spread, 1e-9 * abs(middle)):
            found.append((number, count))
    return found


def _alike(one: Any, two: Any) -> bool:
    return bool(one == two) or (_is_gone(one) and _is_gone(two))


def _is_gone(setting: Any) -> bool:
    return setting == "" if isinstance(setting, str) else math.isnan(setting)


def _values(term: Term, read: dict[int, Array], moments: Moments | None) -> list[Array]:
    """Return the numbers of a context, a column each; NaN where they are not known."""
    if term.clock:
        return _clock(term.clock, cast(Moments, moments))
    if moments is not None:
        _require_whole_steps(term, usual_step(moments.seconds))
    parts = [_lagged(read[column], count, unit, moments) for column, count, unit in term.parts]
    if term.kinds:
        places = [float(term.kinds.index(kind)) for kind in term.told]
        return [np.where(np.isnan(parts[0]), np.nan, parts[0] == place) for place in places]
    return [parts[0] if len(parts) == 1 else parts[0] - parts[1]]


def _require_whole_steps(term: Term, step: float) -> None:
    """Raise where a lag of few readings lies between two of them: neither is the one that is meant."""
    for _, count, unit in term.parts:
        steps = count * SECONDS[unit] / step if unit and step else 0.0
        if steps < FEW_STEPS and abs(steps - round(steps)) > SLACK:
            raise InvalidInput(
                f"context {term.text!r} reaches back {count} {unit}, but readings are {step / 60:g} min apart; take "
                f"a multiple of that, or a number of readings such as @-{max(round(steps), 1)}"
            )


def _lagged(values: Array, count: int, unit: str, moments: Moments | None) -> Array:
    if not count:
        return values
    if moments is None:
        return np.concatenate([np.full(min(count, len(values)), np.nan), values[:-count]])
    seconds = moments.seconds
    step = usual_step(seconds)
    wanted = seconds - count * (SECONDS[unit] if unit else step)
    # The reading nearest to that time, where there is one: across a gap nothing is known.
    right = np.clip(np.searchsorted(seconds, wanted), 1, max(1, len(seconds) - 1))
    left = right - 1
    right = np.minimum(right, len(seconds) - 1)
    nearest = np.where(wanted - seconds[left] <= seconds[right] - wanted, left, right)
    near = np.abs(seconds[nearest] - wanted) <= 0.5 * step
    # Not this reading itself: a lag shorter than the step has no answer.
    return np.where(near & (nearest < np.arange(len(values))), values[nearest], np.nan)


def _clock(word: str, moments: Moments) -> list[Array]:
    times = cast(Times, moments.times)
    local = [
        datetime.fromtimestamp(int(second), UTC).astimezone(moments.zone) for second in times.astype(np.int64).tolist()
    ]
    if word == WEEKEND:
        return [np.array([float(moment.weekday() >= 5) for moment in local])]
    if word == "hour":
        turn = np.array([moment.hour + moment.minute / 60 + moment.second / 3600 for moment in local]) / CLOCK[word]
    else:
        turn = np.array([float(moment.weekday()) for moment in local]) / CLOCK[word]
    return [np.sin(2 * np.pi * turn), np.cos(2 * np.pi * turn)]


def _actions(settings: NDArray[Any], bins: int | None, name: str) -> tuple[Array | list[str], Indices]:
    values: Array | list[str]
    if settings.dtype == object:
        if bins is not None:
            raise InvalidInput(
                f"bins= is for numbers, but column {name!r} contains names such as {settings[0]!r}; leave bins= out"
            )
        values = sorted(set(settings.tolist()))
        places = {value: k for k, value in enumerate(values)}
        actions = np.array([places[text] for text in settings.tolist()], dtype=np.int64)
    else:
        values, actions = _binned(settings, bins)
    if len(values) > MOST_ACTIONS:
        raise InvalidInput(
            f"column {name!r} contains {len(values)} different settings. If it was measured, name the column of the "
            "set-point instead; otherwise group the settings into fewer, for example with bins=20"
        )
    return values, actions


def _binned(numbers: Array, bins: int | None) -> tuple[Array, Indices]:
    if bins is None:
        values, actions = np.unique(numbers, return_inverse=True)
        first = np.concatenate([[True], np.diff(values) > TOLERANCE * np.abs(values[1:])])  # others are rounding
        return values[first], (np.cumsum(first) - 1)[actions].astype(np.int64)
    values = np.linspace(numbers.min(), numbers.max(), bins) if np.ptp(numbers) else numbers[:1]
    if len(values) > 1:  # people read them: a hundredth of their distance is exact enough
        values = np.round(values, 2 - math.floor(math.log10(values[1] - values[0])))
    return values, np.abs(numbers[:, None] - values[None, :]).argmin(axis=1).astype(np.int64)
