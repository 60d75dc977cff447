"""Tables of text, Excel and Parquet: a column per height (`ws_100m`, `100`), or tidy rows `time, height, speed`.

Lines that start with `#` are comments; those of metocean-api (NORA3) name product, site and units.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from holdcourse.errors import InvalidInput, counted
from holdcourse.tables import cells as tables
from holdcourse.tables.columns import AVERAGES
from holdcourse.tables.numbers import MISSING_WORDS, Signs, cleaned, is_number, shape_of
from holdcourse.tables.sources import SeveralSheets, read_file
from holdcourse.tables.text import MOST_CELLS, read_text
from holdcourse.tables.times import Times, is_time, read_times
from holdcourse.wind.files.data import (
    CODES_IN_METRES,
    MISSING_CODES,
    Array,
    Options,
    Piece,
    Site,
    checked_speeds,
    without_codes,
)
from holdcourse.wind.files.paths import WindFile
from holdcourse.wind.files.units import (
    METRES,
    METRES_PER_SECOND,
    height_unit,
    height_unit_in,
    speed_unit,
    speed_unit_in,
)

MOST_NAMED = 6  # columns in an error
MOST_REPEATED = 0.4  # of the rows; where there are more, each time has several winds
HIGHEST = 20_000.0  # m; a larger number in a name is no height

_TIME_NAMES = frozenset(("time", "timestamp", "datetime", "valid", "date", "utc", "times", "zeit", "gmt"))
_CLOCK_NAMES = ("time", "zeit", "uhrzeit", "time of day", "hour", "stunde")
_MIDNIGHT = re.compile(r"[ T]00:00(?::00(?:\.0+)?)?$")
_SPEED_WORDS = frozenset(("ws", "wspd", "wsp", "speed", "windspeed", "spd", "velocity", "vel", "hws", "ff"))
_SPEED_WORDS |= {"windgeschwindigkeit", "geschwindigkeit", "meanwindspeed", "meanwindspeeduid"}  # German; windPRO
_HEIGHT_WORDS = frozenset(("height", "altitude", "alt", "z", "agl", "elevation", "heights", "höhe", "hoehe", "høyde"))
_COMPONENT = re.compile(r"[uv]_?(?:wind_?)?\d+(?:_?m)?", re.IGNORECASE)  # u_100m
_PLACE = re.compile(r"(longitude|latitude)\s*[:=]\s*(-?\d+(?:[.,]\d+)?)(?:\s*°?\s*([nsew]|north|south|east|west)\b)?")
_BRACKET = r"[(\[]([^)\]]*)[)\]]"
_FEET = ("ft", "feet", "foot")
# Other words that may stand beside a speed; anything else (std, gust, direction, hPa, ...) makes it another quantity.
_PLAIN_WORDS = frozenset(
    (
        *("wind", "horizontal", "horiz", "m", "meter", "meters", "metre", "metres", "of", "the", "at", "above"),
        *("ground", "level", "agl", "height", "avg", "mean", "average"),
        *_FEET,  # heights have to be in metres, which is said
    )
)
# In brackets these make it another quantity; other words there are notes, unless they look like a unit.
_OTHER_QUANTITIES = frozenset(
    (
        *("max", "maximum", "min", "minimum", "std", "sd", "stdev", "stddev", "dev", "deviation", "sigma", "var"),
        *("variance", "gust", "gusts", "dir", "direction", "count", "quality", "availability", "ti"),
    )
)
_LIKE_A_UNIT = re.compile(
    r"(?:^|[^a-z])[a-zµ]{1,5}/(?:s|sec|second|min|minute|h|hr|hour)\b|\b(?:s|min|h|hr) ?-1\b|\*\*|[\^⁻]"
    r"|^(?:bft?|beaufort|fp[sm]|cms)$"
)
_METRES_ONLY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*m(?:\s*agl)?\s*")  # Wind speed (100 m)
_MEANS = frozenset(("avg", "mean", "smp"))  # of a logger, below the names; a max or std is no wind speed
_UNIT_WORDS = frozenset(("ms", "mps", "kmh", "kph", "kn", "kt", "kts", "knots", "mph"))


@dataclass(frozen=True)
class Column:
    """A column of wind speeds: its position, its height if the name tells, its unit if the name tells.

    `strange`: what looks like a unit in the name, and is none that we know.
    """

    index: int
    height: float
    unit: str | None
    strange: str | None = None


def time_columns(names: Sequence[str]) -> list[int]:
    """Return the column of times, or the two of date and time of day; the first column if none is named so."""
    return _named_times(names) or [0]


def _named_times(names: Sequence[str]) -> list[int]:
    words = [set(re.findall(r"[a-z]+", name.lower())) for name in names]
    bare = [re.sub(r"[(\[][^)\]]*[)\]]", "", name.lower()).strip() for name in names]  # Date [UTC]
    both = [[i for i, name in enumerate(bare) if name in wanted] for wanted in (("date", "datum"), _CLOCK_NAMES)]
    if both[0] and both[1]:
        return [both[0][0], both[1][0]]
    named = [i for i, found in enumerate(words) if found & _TIME_NAMES and not found & _SPEED_WORDS]
    named = named or [i for i, name in enumerate(names) if name.strip().lower() == "t"]  # T_2m is a temperature
    return named[:1]


class NoWindColumn(InvalidInput):
    """No column of a table is a wind speed: it may be a plant's."""


def wide_columns(names: Sequence[str], label: str) -> list[Column]:
    """Return every column whose name is a wind speed at a height, in order of height."""
    found = [column for index, name in enumerate(names) if (column := _speed_column(index, name)) and column.height > 0]
    if not found:
        # Bare numbers are heights only where nothing else is.
        found = [column for index, name in enumerate(names) if (column := _bare_height(index, name))]
    for column in found:
        name = names[column.index].lower()
        bare = re.findall(r"[a-z]+", re.sub(_BRACKET, "", name))
        feet = [word for word in bare if word in _FEET]  # ws_300ft
        for written in (*re.findall(_BRACKET, name), *feet):  # ws_300 (ft)
            if (unit := height_unit(written) or "m") != "m":
                raise InvalidInput(
                    f"{label}: the height in the heading {names[column.index]!r} is in {unit}; write heights in "
                    f"metres, such as ws_{METRES[unit] * column.height:.0f}m"
                )
    found.sort(key=lambda column: column.height)
    for one, other in itertools.pairwise(found):
        if one.height == other.height:
            raise InvalidInput(
                f"{label}: the columns {names[one.index]!r} and {names[other.index]!r} are both the speed at "
                f"{one.height:g} m; keep one of them"
            )
    return found


def tidy_columns(names: Sequence[str], label: str) -> tuple[int, Column]:
    """Return the column of heights and the column of speeds of a tidy table."""
    heights = [
        index
        for index, name in enumerate(names)
        if (words := set(re.findall(r"[a-zäöüøåæ]+", name.lower()))) & _HEIGHT_WORDS and not words & _SPEED_WORDS
    ]
    speeds = [column for index, name in enumerate(names) if (column := _speed_column(index, name))]
    if not heights or not speeds:
        components = {name[0].lower() for name in names if _COMPONENT.fullmatch(name)} == {"u", "v"}
        remedy = "Compute the speeds from their components, sqrt(u*u + v*v). Name" if components else "Name"
        raise NoWindColumn(
            f"{label}: no column is a wind speed at a height; the columns are {_listed(names)}. {remedy} the speeds "
            "like ws_100m, with the height in metres, or give rows of time, height, speed"
        )
    if len(heights) > 1 or len(speeds) > 1:
        several = [names[i] for i in heights] if len(heights) > 1 else [names[column.index] for column in speeds]
        raise InvalidInput(f"{label}: {' and '.join(map(repr, several))} may both be meant; keep one of them")
    return heights[0], speeds[0]


def _listed(names: Sequence[str]) -> str:
    """Return the first names, and how many there are beyond them."""
    more = len(names) - MOST_NAMED
    return ", ".join(map(repr, names[:MOST_NAMED])) + (f" and {more} more" if more > 0 else "")


def _speed_column(index: int, name: str) -> Column | None:
    """Return a wind speed; height 0 where the name has none."""
    text = _with_points(name)
    unit = odd = None
    brackets = re.findall(r"[(\[]([^)\]]*)[)\]]", text)
    for bracket in brackets:
        if set(re.findall(r"[a-z]+", re.sub(r"\d\s*-?min", "", bracket))) & _OTHER_QUANTITIES:  # 10 min is a length
            return None
        found = speed_unit_in(bracket)
        unit = unit or found
        odd = odd or (bracket if found is None and _LIKE_A_UNIT.search(bracket.strip()) else None)
    text = re.sub(r"[(\[][^)\]]*[)\]]", " ", text).replace("km/h", "kmh").replace("m/s", "ms")
    text = re.sub(r"(?<=[ _])m[ _]s\b", "ms", text)
    words = re.findall(r"[a-z]+", text)
    numbers = re.findall(r"\d+(?:\.\d+)?", text)
    numbers = numbers or [match[1] for bracket in brackets if (match := _METRES_ONLY.fullmatch(bracket))]
    strange = [word for word in words if word not in _SPEED_WORDS | _PLAIN_WORDS | _UNIT_WORDS]
    if strange or len(numbers) > 1 or not set(words) & _SPEED_WORDS:
        return None
    unit = unit or next((speed_unit(word) for word in words if word in _UNIT_WORDS), None)
    height = float(numbers[0]) if numbers else 0.0
    return Column(index, height, unit, None if unit else odd) if height <= HIGHEST else None


def _with_points(name: str) -> str:
    """Return a heading in small letters with decimal points: ws_50,5m is at 50.5 m; 1,000 stays open."""
    return re.sub(r"(?<![\d.,])(\d+),(\d{1,2})(?![\d.,])", r"\1.\2", name.lower())


def _bare_height(index: int, name: str) -> Column | None:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:m|meters?|metres?)?\s*", _with_points(name))
    height = float(match[1]) if match else 0.0
    return Column(index, height, None) if 0 < height <= HIGHEST else None


LAYOUT = "CSV"
# Above these a column without a unit is rather in km/h: no place has such means, and no hour such a wind, in m/s.
UNCLEAR_MEAN_BELOW_200M, UNCLEAR_MEAN, UNCLEAR_SPEED = 16.0, 25.0, 75.0


@dataclass(frozen=True)
class Table:
    """The cells of a file by column, and what its comments say."""

    label: str
    names: list[str]
    cells: list[list[str]]  # one list per column
    lines: list[int]  # the line each row stands in
    comments: tuple[str, ...]
    units: dict[str, str] = field(default_factory=dict)  # by column, from a row of units below the names
    signs: Signs = field(default_factory=Signs)
    source: str = LAYOUT  # CSV, Excel or Parquet

    def numbers(self, column: int) -> Array:
        """Return a column as numbers, NaN where missing."""
        cells = self.cells[column]
        strange = "_" if self.signs.decimal == "." else "_."  # 1_0 is ten in Python only; 1.000 may be a thousand
        try:
            if self.signs.decimal != "," and not any(sign in cell for cell in cells for sign in strange):
                return np.array(cells, dtype=np.float64)
        except ValueError:
            pass
        return np.array([self._number(row, column) for row in range(len(self.lines))])

    def _number(self, row: int, column: int) -> float:
        text = cleaned(self.cells[column][row])
        if text.lower() in MISSING_WORDS:
            return float("nan")
        if _is_code(text):
            return float(text)
        found = self.signs.number(text)
        if not isinstance(found, str):
            return found
        told, open_, _ = found.partition(": ")
        remedy = "leave missing values empty"
        if "decimal" in told or "thousands" in told:
            remedy = "write all numbers in one way"
        elif open_:
            remedy = "write it without a sign between thousands"
        raise InvalidInput(
            f"{self.label}, line {self.lines[row]}: {text[:40]!r} in column {self.names[column]!r} "
            f"{'may be' if open_ else 'is'} {told}; {remedy}"
        )


def read_piece(file: WindFile, options: Options) -> Piece:
    """Read the wind speed by height from a CSV file."""
    table = read_table(file, options.header_line)
    product, site, stated = stated_in(table.comments)
    units = stated | table.units
    if options.latitude is not None:
        site = Site(options.latitude, options.longitude, site.name)
    wide = wide_columns(table.names, file.label)
    tidy = None if wide else tidy_columns(table.names, file.label)
    times, zone_note = _times(table, product, options, tidy=tidy is not None)
    names: tuple[str, ...]
    if tidy is None:
        heights = np.array([column.height for column in wide])
        speed, notes = read_speeds(table, wide, units, options.units, heights)
        names = tuple(f"{height:g} m" for height in heights)
        _repeated(table, times, speed)
    else:
        height_column, speed_column = tidy
        metres, height_notes = _heights(table, height_column, stated)
        speed, notes = read_speeds(table, [speed_column], units, options.units, metres[:, None])
        height_notes += _repeated(table, times, speed, metres)
        notes += height_notes
        times, names, heights, speed = _pivot(table, times, metres, speed[:, 0])
    layout = (
        f"{LAYOUT} ({product})" if product else f"{table.source}, {'one column per height' if tidy is None else 'tidy'}"
    )
    return Piece(file.label, layout, times, names, heights, speed, site, (*notes, zone_note))


def read_table(file: WindFile, header_line: int | None = None) -> Table:
    """Return the cells by column. The first line that is no comment names the columns, unless another is given."""
    source = LAYOUT
    if file.kind == "sheet":
        found, source = _sheet(file, header_line)
    else:
        text = read_text(file.path, file.label, most_cells=MOST_CELLS).text
        found = tables.read_table(text, file.label, header_line=header_line)
    for name in found.names:
        if is_time(name) or re.fullmatch(r"\d{8,}(?:\.\d*)?", name):  # its neighbours would be taken for heights
            raise InvalidInput(
                f"{file.label}, line {found.header_line}: {name!r} is a time, not the name of a column; add a line "
                "with the names above it, such as time,ws_50m,ws_100m for wind, or time,load,setting,kWh for a plant"
            )
    cells = [[str(cell) for cell in column] for column in found.cells]
    places = [i for i, name in enumerate(found.names) if _speed_column(i, name) or _bare_height(i, name)]
    units: dict[str, str] = {}
    lines = list(found.lines)
    while len(lines) > 1 and places and _describes([cells[i][0] for i in places]):
        texts = {name: column[0].strip() for name, column in zip(found.names, cells, strict=True)}
        if not AVERAGES.issuperset(text.lower() for text in texts.values() if text):  # else min is a minimum
            units = {name: text for name, text in texts.items() if text} | units
        cells, lines = [column[1:] for column in cells], lines[1:]
    for i in places:
        if cells[i] and (word := cells[i][0].strip()).lower() in AVERAGES - _MEANS:  # a logger's max or std
            raise InvalidInput(
                f"{found.label}, line {lines[0]}: column {found.names[i]!r} is a {word}, not a mean wind speed; rename "
                f"it, such as {found.names[i]}_{word.lower()}, so that it is left out"
            )
    signs = _signs([cells[i] for i in places])
    signs.usual = "." if found.separator in (",", "") else None  # numbers of a sheet are no texts
    return Table(found.label, found.names, cells, lines, found.comments, units, signs, source)


def _sheet(file: WindFile, header_line: int | None) -> tuple[tables.Table, str]:
    """Read an Excel or Parquet file, and say which it is."""
    try:
        table, note = read_file(file.path, header_line=header_line)
        return replace(table, label=file.label), note.partition(",")[0]
    except SeveralSheets as error:
        several = str(error).partition(";")[0]
        raise InvalidInput(f"{several}; save the one with the wind as a file of its own, or as CSV") from None


def _describes(cells: Sequence[str]) -> bool:
    """Whether a row below the names holds units, or how a logger averaged, instead of speeds."""
    return all(speed_unit(cell) or cell.strip().lower() in _MEANS for cell in cells)


def _signs(speeds: Sequence[Sequence[str]]) -> Signs:
    """Return the decimal sign of a file, which its speeds tell: the 1,234 of a speed is no thousand.

    The other sign then separates thousands, as in the heights 500 and 1.000 beside the speed 7,5.
    """
    decimals = set()
    for cells in speeds:
        if any("," in cell for cell in cells):
            shapes = (shape_of(cleaned(cell)) for cell in cells if not _is_code(cell))
            decimals |= {shape.decimal or shape.open for shape in shapes if shape is not None}
        elif any("." in cell and is_number(cell) and not _is_code(cell) for cell in cells):
            decimals.add(".")
    if decimals <= {""}:
        return Signs()
    decimal, other = (".", ",") if "." in decimals else (",", ".")
    return Signs(decimal, seen={("thousands", other): ("", "")})


def _is_code(cell: str) -> bool:
    """Return whether a cell is a code for a missing number with a point, such as -999.9, also among decimal commas."""
    try:
        return "." in cell and float(cell) in (*MISSING_CODES, *CODES_IN_METRES)
    except ValueError:
        return False


def _texts_of_times(columns: Sequence[Sequence[str]]) -> Sequence[str]:
    """Return the texts of times; a time of day, or an hour, counts beside dates, not beside whole times."""
    first, *clocks = columns
    days = [_MIDNIGHT.sub("", cell) for cell in first]  # which Excel has behind every date
    if not clocks or any(":" in day for day in days):
        return first
    return [f"{day} {clock.removesuffix('.0')}" for day, clock in zip(days, clocks[0], strict=True)]


def _times(table: Table, product: str | None, options: Options, *, tidy: bool) -> tuple[Times, str]:
    columns = time_columns(table.names)
    cells = _texts_of_times([table.cells[i] for i in columns])
    if not _named_times(table.names) and options.time_format is None and re.fullmatch(r"\d{1,6}[.,]\d+", cells[0]):
        raise InvalidInput(
            f"{table.label}, line {table.lines[0]}: no column is named like one of times, and {cells[0]!r} in the "
            f"first column, {table.names[0]!r}, is not a time; name the column of the times 'time'"
        )
    return read_times(
        cells,
        " ".join(table.names[i] for i in columns),
        table.label,
        at=lambda row: f"{table.label}, line {table.lines[row]}",
        timezone=options.timezone,
        time_format=options.time_format,
        known_utc=product is not None and "NORA3" in product.upper(),
        tidy=tidy,
    )


def stated_in(lines: Sequence[str]) -> tuple[str | None, Site, dict[str, str]]:
    """Return product, site and units by column, as in metocean-api's `#NORA3_wind_sub;LONGITUDE:1.32;LATITUDE:53.3`."""
    product, units = None, {}
    place: dict[str, float] = {}
    for line in lines:
        parts = [part.strip() for part in line.lstrip("# ").split(";")]
        for name, value, side in _PLACE.findall(line.lower()):
            place[name] = float(value.replace(",", ".")) * (-1.0 if side[:1] in ("s", "w") else 1.0)
            product = product or (parts[0] if len(parts) > 1 and ":" not in parts[0] else None)
        if len(parts) >= 2 and (speed_unit(parts[-1]) or height_unit(parts[-1])):
            units[parts[0]] = parts[-1]
    return product, Site(place.get("latitude"), place.get("longitude")), units


def read_speeds(
    table: Table,
    columns: Sequence[Column],
    stated: Mapping[str, str],
    given: str | None,
    heights: Array,
    remedy: str = "give units=km/h (or kn, mph), or units=m/s if that is right",
) -> tuple[Array, list[str]]:
    """Return columns of speed in m/s, NaN where missing, with notes on unit and codes.

    Parameters
    ----------
    stated, given
        Units by column, as the comments of the file say, and the one that a person named.
    heights
        Of each column, (k,), or of each row, (t, 1).
    remedy
        How to settle a unit that is unclear.
    """
    speed, notes = without_codes(np.stack([table.numbers(column.index) for column in columns], axis=1))
    low = speed[np.broadcast_to(heights <= 200.0, speed.shape)]
    unit, note = _unit(table, columns, stated, given, low, speed, remedy)
    if unit == "m/s":
        speed, more = without_codes(speed, CODES_IN_METRES)
        notes += more
    return checked_speeds(table.label, speed * METRES_PER_SECOND[unit]), [note, *notes]


def _heights(table: Table, column: int, stated: Mapping[str, str]) -> tuple[Array, list[str]]:
    """Return a column of heights in metres, NaN where missing; 999 is a height like any other."""
    name = table.names[column]
    heading = f"{name} [{table.units[name]}]" if name in table.units else name
    unit = height_unit_in(heading, table.label) or height_unit(stated.get(name, "")) or "m"
    values = table.numbers(column)
    metres = METRES[unit] * np.where(values < 0, without_codes(values)[0], values)
    return metres, [] if unit == "m" else [f"heights are in {unit}, as the file says; shown in metres"]


def _unit(
    table: Table,
    columns: Sequence[Column],
    stated: Mapping[str, str],
    given: str | None,
    low: Array,
    speed: Array,
    remedy: str,
) -> tuple[str, str]:
    """Return the unit of all speed columns, and a note on where it is known from."""
    if given is not None:
        return given, f"speeds read as {given}"
    for column in columns:
        if column.strange is not None:
            raise InvalidInput(
                f"{table.label}: the unit {column.strange!r} in the heading {table.names[column.index]!r} is not "
                f"known; convert the speeds to one of {', '.join(METRES_PER_SECOND)}, and write it there"
            )
    named = {column.unit or speed_unit(stated.get(table.names[column.index], "")) for column in columns} - {None}
    if len(named) > 1:
        raise InvalidInput(
            f"{table.label}: the speed columns have different units ({', '.join(sorted(map(str, named)))}); convert "
            "them to one"
        )
    if named:
        unit = str(named.pop())
        return unit, f"speeds are in {unit}, as the file says"
    if np.isfinite(speed).any():
        _require_clear_unit(table.label, low, speed, remedy)
    return "m/s", "speeds have no unit and were read as m/s (units= for another)"


def _require_clear_unit(label: str, low: Array, speed: Array, remedy: str) -> None:
    parts = ((low, UNCLEAR_MEAN_BELOW_200M), (speed, UNCLEAR_MEAN))
    high_mean = any(np.isfinite(part).any() and np.nanmean(part) > limit for part, limit in parts)
    if high_mean or np.nanmax(speed) > UNCLEAR_SPEED:
        raise InvalidInput(
            f"{label}: speeds of {np.nanmean(speed):.1f} on average and up to {np.nanmax(speed):.1f} are too high for "
            f"m/s, and the file names no unit; {remedy}"
        )


def _repeated(table: Table, times: Times, speed: Array, heights: Array | None = None) -> list[str]:
    """Return a note on rows whose time (and height) is that of an earlier row; raise if many have another wind."""
    there = np.ones(len(times), dtype=bool) if heights is None else np.isfinite(heights)
    key = np.unique(times[there], return_inverse=True)[1]
    if heights is not None:
        levels, level = np.unique(heights[there], return_inverse=True)
        key = key * len(levels) + level
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    rows = speed[there]
    same = rows[first[group]]
    differ = (np.isfinite(rows) & np.isfinite(same) & (rows != same)).any(axis=1)
    if differ.sum() > MOST_REPEATED * len(rows):
        what = "time" if heights is None else "time and height"
        have = "rows has" if differ.sum() == 1 else "rows have"
        raise InvalidInput(
            f"{table.label}: {int(differ.sum()):,} of {len(rows):,} {have} the {what} of another row, but other "
            "speeds; if they are of several turbines or places, give the rows of one; if the time of day has a column "
            "of its own, name the two columns date and time"
        )
    left = len(rows) - len(first)
    were = counted(left, "row was", "rows were")
    return [f"{were} dropped, because time and height are those of an earlier row"] if left else []


def _pivot(table: Table, times: Times, heights: Array, speed: Array) -> tuple[Times, tuple[str, ...], Array, Array]:
    """Return the tidy rows as a table of times by heights; by rank where the heights differ from time to time."""
    usable = np.isfinite(heights)
    if not usable.any() or (heights[usable] <= 0).any():
        raise InvalidInput(f"{table.label}: heights must be metres above ground, greater than 0")
    times, heights, speed = times[usable], heights[usable], speed[usable]
    moments, row = np.unique(times, return_inverse=True)
    values, column = np.unique(heights, return_inverse=True)
    counts = np.bincount(row)
    if len(values) <= 2 * counts.max():
        grid = np.full((len(moments), len(values)), np.nan)
        # Backwards, so that of repeated rows the first one stays.
        grid[row[::-1], column[::-1]] = speed[::-1]
        return moments, tuple(f"{value:g} m" for value in values), values, grid
    if counts.min() != counts.max():
        raise InvalidInput(
            f"{table.label}: the heights differ from time to time, and there are {counts.min()} to {counts.max()} of "
            "them; give the same number of heights at every time"
        )
    order = np.lexsort((heights, row))
    shape = (len(moments), int(counts[0]))
    names = tuple(f"level {rank}" for rank in range(shape[1]))
    return moments, names, heights[order].reshape(shape), speed[order].reshape(shape)
