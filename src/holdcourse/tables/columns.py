"""Columns by the names that people use: with or without the unit in the header, in any letters."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from holdcourse.errors import InvalidInput
from holdcourse.tables.cells import Cell, Table
from holdcourse.tables.numbers import cleaned, is_missing, is_number
from holdcourse.tables.times import is_clock, is_time

# As they are written; in other letters only where that is no other unit (mW is not MW).
UNITS = (
    *("W", "kW", "MW", "GW", "Wh", "kWh", "MWh", "GWh", "J", "kJ", "MJ", "GJ", "V", "kV", "A", "Hz", "rpm", "1/min"),
    *(
        "°C",
        "degC",
        "C",
        "K",
        "°F",
        "degF",
        "Pa",
        "hPa",
        "kPa",
        "MPa",
        "bar",
        "mbar",
        "psi",
        "%",
        "m",
        "mm",
        "cm",
        "km",
    ),
    *("m/s", "km/h", "l/s", "l/min", "l/h", "m3/s", "m³/s", "m3/h", "m³/h", "kg/s", "kg/h", "t/h", "kg", "t", "g", "l"),
    *("m3", "m³", "s", "min", "h", "d", "ms", "EUR", "€", "NOK", "SEK", "DKK", "USD", "$", "GBP", "£", "CHF", "ct"),
    *("EUR/h", "EUR/kWh", "EUR/MWh", "ct/kWh", "USD/h", "USD/MWh", "NOK/kWh", "ppm", "°", "deg", "rad", "-", "pcs"),
)
_BY_LETTERS: dict[str, str] = {}
for _unit in UNITS:
    _BY_LETTERS.setdefault(_unit.lower(), _unit)
_SEVERAL = {low for low in _BY_LETTERS if sum(unit.lower() == low for unit in UNITS) > 1} | {"mw", "mj", "k", "c", "t"}
# Behind an underscore or a blank only these are units: `flow_t` and `phase a` are names.
_SUFFIXES = frozenset(unit for unit in UNITS if len(unit) > 1 and unit not in ("min", "ms", "deg", "rad", "rpm"))


_CERTAIN = _SUFFIXES | {"%", "€", "$", "£"}  # behind a number, too, these are nothing but units
_WITH_UNIT = re.compile(r"([+-]?\d(?:[\d.,' ]*\d)?)\s*([^\d\s]\S*)")
LONGEST_UNIT = 12  # letters
AVERAGES = frozenset(("avg", "mean", "smp", "min", "max", "std", "tot"))  # below the names and units, of a logger


class Header(NamedTuple):
    """A header, taken apart."""

    bare: str
    unit: str | None


def split_name(header: str) -> Header:
    """Take the unit off a header.

    >>> [tuple(split_name(header)) for header in ("power [kW]", "Outdoor (°C)", "load_kw", "kwh", "steam_t_h")]
    [('power', 'kW'), ('Outdoor', '°C'), ('load', 'kW'), ('kwh', 'kWh'), ('steam', 't/h')]
    """
    text = header.strip()
    bracket = re.fullmatch(r"(.*?)[\s_]*[\[(]\s*([^\[\]()]{1,20}?)\s*[\])]", text)
    if bracket and bracket[1]:
        return Header(bracket[1].strip(), bracket[2])
    double = re.fullmatch(r"(.+?)_([a-zA-Z0-9]+)_(?:per_)?([a-zA-Z]+)", text)  # eur_per_mwh, t_h
    quotient = known_unit(f"{double[2]}/{double[3]}") if double else None
    if double and quotient:
        return Header(double[1].strip(), quotient)
    suffix = re.fullmatch(r"(.+?)(?:_|\s+in\s+|,\s*|\s+)(\S+)", text)
    unit = known_unit(suffix[2]) if suffix else None
    if suffix and unit in _SUFFIXES:
        return Header(suffix[1].strip(), unit)
    return Header(text, known_unit(text))


def known_unit(text: str) -> str | None:
    """Return the unit that a text is, as it is usually written; None where it is none."""
    if text in UNITS:
        return text
    low = text.lower()
    return None if low in _SEVERAL or len(low) < 2 else _BY_LETTERS.get(low)


def units_row(table: Table) -> dict[int, str] | None:
    """Return the units in the first row by column, where it holds nothing but units; None where it does not.

    A short text that is no unit of ours is one above numbers or times (UTC), where another column has one that we know.
    """
    found: dict[int, str] = {}
    known = False
    for column, cells in enumerate(table.cells):
        cell = cells[0]
        if not isinstance(cell, str) or is_number(cell):
            return None
        text = cell.strip()
        bracket = re.fullmatch(r"[\[(]\s*([^\[\]()]{0,20})\s*[\])]", text)
        unit = bracket[1].strip() if bracket else known_unit(text)
        known = known or unit is not None
        if unit is None and not is_missing(text):
            below = [cell for cell in cells[1:] if not is_missing(cell, AVERAGES)]
            moments = bool(below) and (is_time(str(below[0])) or is_clock(str(below[0])))
            if len(text) > LONGEST_UNIT or not (moments or all(map(is_number, below))):
                return None
            unit = text
        if unit and unit != "-":
            found[column] = unit
    return found if known and found else None


def _tells_averages(table: Table) -> bool:
    """Return whether the first row holds nothing but how a logger averaged: Avg, Smp."""
    words = [str(cells[0]).strip().lower() for cells in table.cells]
    return any(words) and all(not word or word in AVERAGES for word in words)


def require_one_header(table: Table, missing: Collection[str] = ()) -> None:
    """Raise if the first row describes the columns, as the names above it do: words, where all rows below hold numbers.

    Words that stand for a missing number are in one column, or the same in all, or are named by `missing`.
    """
    first = [column[0] for column in table.cells]
    words = [cell.strip() for cell in first if isinstance(cell, str) and not is_missing(cell, missing)]
    if (
        len(table.lines) < 3
        or table.lines[0] <= table.header_line
        or len(set(words)) < 2
        or len(set(words)) < len(words)
    ):
        return
    if any(is_number(cell) or is_time(str(cell)) for cell in first if not is_missing(cell, missing)):
        return
    numbers = [place for place, column in enumerate(table.cells) if _are_numbers_below(column)]
    described = [place for place in numbers if not is_missing(first[place], missing)]
    if len(described) >= 2 and len(described) == len(numbers):
        raise InvalidInput(
            f"{table.at(0)}: {first[described[0]]!r} in column {table.names[described[0]]!r} describes the column, and "
            f"so do the others in this {table.unit}; leave the {table.unit} out, or take the names from it with "
            f"header_line={table.lines[0]}"
        )


def _are_numbers_below(column: Sequence[Cell]) -> bool:
    """Return whether all cells are numbers or missing, but for the first two: a row of units may follow."""
    below = [cell for cell in column[2:] if not is_missing(cell)]
    return bool(below) and all(is_number(cell) for cell in below)


def with_units(table: Table) -> tuple[Table, list[str]]:
    """Return a table whose names have the units of a row below them, without that row, and what there is to note.

    Behind the units of a logger, a row may say how it averaged.
    """
    units = units_row(table) if len(table.lines) > 1 else None
    if units is None:
        return table, []
    notes = [f"{table.unit} {table.lines[0]} contains the units"]
    names = [f"{name} [{units[k]}]" if k in units else name for k, name in enumerate(table.names)]
    table = _without_first_row(replace(table, names=names))
    if len(table.lines) > 1 and _tells_averages(table):
        notes.append(f"{table.unit} {table.lines[0]} says how the logger averaged")
        table = _without_first_row(table)
    return table, notes


def with_units_of_cells(table: Table, missing: Collection[str] = (), names_in: str = "") -> tuple[Table, list[str]]:
    """Return a table in which 42.8 % is 42.8 and the unit stands in the name, with notes on such columns.

    Every cell that holds something must have the same unit, and one that is not the number of a thing, as 2A may be.
    Cells of the column `names_in` are names, which stay as they are.
    """
    names, cells, notes = list(table.names), list(table.cells), []
    for place, column in enumerate(table.cells):
        found = None if names_in and is_named(names[place], names_in) else _in_one_unit(column, missing)
        header = split_name(names[place]).unit
        if found is None or (header is not None and header != found[0]):
            continue
        unit, cells[place] = found
        names[place] = names[place] if header else f"{names[place]} [{unit}]"
        notes.append(f"the cells of {table.names[place]!r} contain their unit, {unit}")
    return (replace(table, names=names, cells=cells), notes) if notes else (table, [])


def _in_one_unit(column: Sequence[Cell], missing: Collection[str]) -> tuple[str, list[Cell]] | None:
    """Return the unit of all cells, and the cells without it."""
    unit, bare = None, []
    for cell in column:
        nothing = is_missing(cell, missing)
        match = _WITH_UNIT.fullmatch(cleaned(cell)) if isinstance(cell, str) and not nothing else None
        if match is None and not nothing:
            return None
        if match is not None and (match[2] not in _CERTAIN or unit not in (None, match[2]) or not is_number(match[1])):
            return None
        unit = unit if match is None else match[2]
        bare.append(cell if match is None else match[1])
    return None if unit is None else (unit, bare)


def _without_first_row(table: Table) -> Table:
    cells: list[list[Cell]] = [column[1:] for column in table.cells]
    return replace(table, cells=cells, lines=table.lines[1:])


def find_column(table: Table, name: str) -> int:
    """Return the column of this name: as the header writes it, without its unit, or in other letters.

    Raises
    ------
    InvalidInput
        There is none, or there are several.
    """
    bare = [split_name(header).bare for header in table.names]
    for same in (
        [place for place, header in enumerate(table.names) if header == name.strip()],
        [place for place, header in enumerate(bare) if header == name.strip()],
        [place for place, header in enumerate(table.names) if _plain(header) == _plain(name)],
        [place for place, header in enumerate(bare) if _plain(header) == _plain(name)],
    ):
        if len(same) == 1:
            return same[0]
        if same:
            several = " and ".join(f"{place + 1} ({table.names[place]!r})" for place in same[:4])
            may = "may both" if len(same) == 2 else "may all"
            raise InvalidInput(f"{table.label}: the columns {several} {may} be {name!r}; give each a name of its own")
    by_plain = {_plain(each): each for each in [*table.names, *bare]}
    near = difflib.get_close_matches(_plain(name), by_plain, n=1, cutoff=0.7)
    meant = f"; did you mean {by_plain[near[0]]!r}?" if near else ""
    raise InvalidInput(f"{table.label} has no column {name!r}; its columns are {listed(table.names)}{meant}")


def has_column(table: Table, name: str) -> bool:
    """Return whether a name is that of a column; of two as well."""
    return any(is_named(header, name) for header in table.names)


def is_named(header: str, name: str) -> bool:
    """Return whether a name is that of a header: with or without its unit, in any letters."""
    return _plain(name) in (_plain(header), _plain(split_name(header).bare))


def listed(names: Sequence[str], most: int = 20) -> str:
    """Return names for a message; those beyond `most` are counted."""
    shown = ", ".join(name or "(no name)" for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _plain(name: str) -> str:
    return re.sub(r"\s+", " ", unicodedata.normalize("NFC", name.strip())).casefold()
