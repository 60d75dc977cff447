"""Power tables of machines in CSV files: speed and power, or the powers at several altitudes."""

from __future__ import annotations

import csv
import re
import warnings
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import InvalidInput
from holdcourse.tables.numbers import Signs, cleaned, is_number, shape_of
from holdcourse.tables.text import read_text
from holdcourse.units import QUANTITIES, factor, quantity
from holdcourse.wind.physics import PowerCurve, curve_family, table_curve

Array: TypeAlias = NDArray[np.float64]

LEAST_KW, MOST_KW = 1.0, 30_000.0  # between them lie the powers of machines, from a small kite to the largest turbine
_BRACKETED = re.compile(r"[(\[]\s*([^)\]]*?)\s*[)\]]$")  # a unit at the end of a heading


class UnitWarning(UserWarning):
    """Numbers without a unit are of an unlikely size."""


def read_curve(path: str | Path, cut_in: float | None = None, cut_out: float | None = None) -> PowerCurve:
    """Read a power table from a CSV file: speed and power, with or without a header line.

    Where the header names altitudes, ``speed,100 m,200 m,300 m`` or ``speed,power 100 m (kW),power 200 m (kW)``, it is
    a family: a column of powers for each. Any other second column of powers is refused.

    Speeds are in m/s and powers in kW unless the header says otherwise: ``speed (m/s),power (MW)``. A table whose
    header names no unit of power, and whose numbers would be an unlikely machine in kW, is read with a `UnitWarning`.
    """
    path = Path(path)
    header, levels, rows = _rows_of(path)
    speed, *powers = _numbers_of(rows, path).T if rows else (np.array([]), np.array([]))
    unit = (_unit_in(header[0], path) if header else None) or "m/s"
    if quantity(unit) == "power":
        raise InvalidInput(
            f"{path}: the first column, {header[0]!r}, is a power; put the speeds first, then the powers"
        )
    speed = speed * factor(unit, "m/s", f"{path}: the speed")
    units = [_unit_in(cell, path) for cell in header[1 : 1 + len(powers)]]
    named = [unit for unit in units if unit is not None]
    if named and len(named) < len(units):
        raise InvalidInput(
            f"{path}: {header[1 + units.index(None)]!r} in the header says no unit of power, and others do "
            f"({named[0]}); write it into every column of powers"
        )
    if named:
        powers = [power * factor(unit, "kW", f"{path}: the power") for power, unit in zip(powers, named, strict=True)]
    else:
        _warn_of_unlikely(np.array(powers), path, f"{levels[0]:g} m" if levels else "power")
    if levels:
        return curve_family(levels, speed, powers, cut_in, cut_out, name=path.name)
    return table_curve(speed, powers[0], cut_in, cut_out, name=path.name)


def reference_height(path: Path) -> float | None:
    """Return the height in metres that the column of speeds names, ``wind_speed_at_200m``; None if it names none."""
    header = _rows_of(path)[0] or [""]
    found = re.search(r"at[\s_]*(\d+(?:\.\d+)?)\s*m\b", header[0].replace("_", " "))
    return None if found is None else float(found[1])


def _rows_of(path: Path) -> tuple[list[str], list[float], list[tuple[int, list[str]]]]:
    """Return the header, the altitudes that it names, and the lines and cells of the rows with a speed and powers."""
    lines = read_text(path, str(path)).text.splitlines()
    header: list[str] = []
    levels: list[float] = []
    rows: list[tuple[int, list[str]]] = []
    width, powers = 0, 1
    try:
        for number, row in enumerate(csv.reader(lines, delimiter=_separator(lines)), 1):
            if not any(cell.strip() for cell in row) or row[0].lstrip().startswith("#"):
                continue
            if len(row) > powers and all(map(is_number, row[: 1 + powers])):
                width = width or len(row)
                _require_width(row, width, f"{path}, line {number}")
                rows.append((number, row[: 1 + powers]))
            elif width:
                raise InvalidInput(
                    f"{path}, line {number}: {','.join(row)!r} is not a speed and a power; write two numbers with a "
                    "comma, a semicolon or a tab in between"
                )
            else:
                header, levels, width = row, _levels_in(row, path), len(row)
                powers = max(1, len(levels))
    except csv.Error as error:
        raise InvalidInput(f"cannot read {path}: {error}; check the file") from None
    return header, levels, rows


def _separator(lines: list[str]) -> str:
    """Return what separates the cells of the last line: the header and comments may contain other signs."""
    last = next((line for line in reversed(lines) if line.strip() and not line.lstrip(' "').startswith("#")), "")
    return next((sign for sign in (";", "\t") if sign in last), ",")


def _require_width(row: list[str], width: int, where: str) -> None:
    """Raise where a row has more cells than the first line: the comma of 1,250 would separate a 1 from a 250."""
    if any(cell.strip() for cell in row[width:]):
        raise InvalidInput(
            f"{where}: there are {len(row)} cells, but {width} in the first line; if a comma is part of a number, "
            "separate the cells with semicolons"
        )


def _numbers_of(rows: list[tuple[int, list[str]]], path: Path) -> Array:
    """Return the cells of all rows as numbers: they share a decimal sign, and the other sign groups thousands."""
    shapes = [shape_of(cleaned(cell)) for _, row in rows for cell in row]
    decimals = {shape.decimal for shape in shapes if shape is not None} - {""}
    if len(decimals) > 1:
        raise InvalidInput(f"{path}: some numbers have a decimal point, others a decimal comma; write all in one way")
    signs = Signs(next(iter(decimals), None))
    if decimals:
        signs.seen["thousands", "." if "," in decimals else ","] = ("", "")
    signs.usual = "."

    def number(cell: str, line: int) -> float:
        found = signs.number(cleaned(cell))
        if not isinstance(found, str):
            return found
        told, is_open, _ = found.partition(": ")
        verb, remedy = ("may be", "one of these") if is_open else ("is", "all numbers in one way")
        raise InvalidInput(f"{path}, line {line}: {cell.strip()[:40]!r} {verb} {told}; write {remedy}")

    return np.array([[number(cell, line) for cell in row] for line, row in rows])


def _warn_of_unlikely(power: Array, path: Path, column: str) -> None:
    """Warn where powers without a unit, in kW, would be those of an unlikely machine."""
    if power.size and np.isfinite(power).all() and not LEAST_KW <= power.max() <= MOST_KW:
        likely = "W" if power.max() > MOST_KW else "MW"
        warnings.warn(
            f"{path} does not state the unit of power, so it is read as kW: {power.max():g} kW at most, which is "
            f"unlikely. Write the unit into the header, such as: speed (m/s),{column} ({likely})",
            UnitWarning,
            stacklevel=3,
        )


def _levels_in(header: list[str], path: Path) -> list[float]:
    """Return the altitudes that two or more columns are headed with: ``100 m``, ``power_100m (kW)``; empty: others."""
    found = [_level_in(heading) for heading in header[1:]]
    levels = [level for level in found if level is not None]
    if len(levels) > 1 and len(levels) == len(found):
        return levels
    for heading, level in zip(header[2:], found[1:], strict=True):  # the first powers alone would be half a machine
        if level is not None or _names_power(heading) or re.search(r"\d\s*(?:ft|feet|km)\b", heading.lower()):
            raise InvalidInput(
                f"{path}: {header[1]!r} and {heading!r} in the header may both be the power; keep one of them, or name "
                "the altitude of each column in metres: speed (m/s),power 100 m (kW),power 200 m (kW)"
            )
    return []


def _level_in(heading: str) -> float | None:
    """The altitude that a heading ends with, a unit of power behind it aside; None: there is none."""
    match = re.fullmatch(r"(?:.*[\s_])?(\d+(?:\.\d+)?)\s*m([\s_/(\[].*)?", heading.strip())
    return float(match[1]) if match and (match[2] is None or _names_power(heading)) else None


def _names_power(heading: str) -> bool:
    return any(unit in QUANTITIES["power"] for unit in _units_named(heading))


def _units_named(heading: str) -> list[str]:
    """What may be the unit in a heading: what stands in brackets at its end, or else its endings."""
    bracketed = _BRACKETED.search(heading.strip())
    endings = re.finditer(r"(?:^|[\s_/])(?=([^\s_]+)$)", heading.strip())
    return [bracketed[1]] if bracketed else [ending[1] for ending in endings]


def _unit_in(heading: str, path: Path) -> str | None:
    """The unit that a column's heading names: ``power (kW)``, ``P [kW]``, ``P/kW``, ``power_kw``; None: none."""
    heading = heading.strip()
    named = _units_named(heading)
    try:
        for unit in named:
            if quantity(unit) in ("power", "speed"):
                return unit
    except InvalidInput as error:  # mw
        raise InvalidInput(f"{path}: {error} in the header, {heading!r}") from None
    if _BRACKETED.search(heading):
        raise InvalidInput(
            f"{path}: the unit {named[0]!r} in the header, {heading!r}, is neither a speed nor a power; write m/s, "
            "km/h or kn, and W, kW or MW"
        )
    return None
