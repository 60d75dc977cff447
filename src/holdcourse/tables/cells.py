"""From text to a table of cells: which sign separates them, which line names the columns, which line each stands in."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from holdcourse.errors import DamagedFile, InvalidInput, counted
from holdcourse.tables.spreadsheet import original
from holdcourse.tables.times import is_time, is_unix

Cell: TypeAlias = str | float | datetime  # text as written; other types only from sources that have them

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "space"}
GUESSED = ",;\t|"  # tried where none is given; spaces stand within times
_NUMERIC = re.compile(r"[+-]?[\d.,]*\d[.,]?(?:[eE][+-]?\d+)?")
_NOTHING = frozenset(("", "nan", "na", "n/a", "null", "none", "-"))  # in a first row of readings
LONGEST_CELL = 20  # lines; a quoted cell of more is a quotation mark that was never closed


@dataclass(frozen=True)
class Table:
    """The cells of a file by column, and the line that each row stands in.

    Attributes
    ----------
    label
        What the file is called in messages.
    names
        The columns, as the header names them; a column may have none.
    cells
        One list per column.
    lines
        The line of each row; the number of the row for what has no lines.
    header_line
        Where the names stand.
    comments
        The lines before the header that begin with #.
    separator
        What separates cells; "" for sources that have no such thing.
    unit
        What `lines` count: "line" or "row".
    """

    label: str
    names: list[str]
    cells: list[list[Cell]]
    lines: list[int]
    header_line: int = 1
    comments: tuple[str, ...] = ()
    separator: str = ""
    unit: str = "line"

    def at(self, row: int) -> str:
        """Return where a row stands, for the beginning of a message."""
        return f"{self.label}, {self.unit} {self.lines[row]}"


@dataclass(frozen=True)
class Rows:
    """The rows of a text, split in one way."""

    separator: str
    header: list[str]
    header_line: int
    rows: list[list[str]]
    lines: list[int]
    comments: tuple[str, ...]
    wrong: InvalidInput | DamagedFile | None  # why this is not how the text is to be split


def checked_separator(given: str) -> str:
    """Return the sign that a person named: itself, or by one of the words comma, semicolon, tab, bar, space."""
    by_word = {word: sign for sign, word in SEPARATORS.items()} | {"\\t": "\t"}
    sign = by_word.get(given.lower(), given)
    if len(sign) != 1 or sign.isalnum() or sign in "\"'#\r\n.-+":
        raise InvalidInput(
            f"separator {given!r} cannot separate cells; use one sign, or a word: {', '.join(SEPARATORS.values())}"
        )
    return sign


def read_table(
    text: str, label: str, *, separator: str | None = None, header_line: int | None = None, fewest: int = 2
) -> Table:
    """Split a text into cells; the first line that is neither empty nor a comment names the columns.

    Where that line is numbers and times already, the comment above it does, if it has a name for each of them.

    Parameters
    ----------
    separator
        What separates cells; default: the one of comma, semicolon, tab and bar that fits every line.
    header_line
        The line of the names, counted from 1; lines before it are left out.
    fewest
        How many lines there must be, with the header.

    Raises
    ------
    InvalidInput
        More than one separator fits, or none does.
    DamagedFile
        A line has too few or too many cells, or a quotation mark is never closed.
    """
    if header_line is not None and header_line < 1:
        raise InvalidInput(f"header_line must be 1 or more, got {header_line}")
    if header_line is None and text.lstrip('\ufeff"').startswith("TOA5"):
        header_line = 2  # a logger of Campbell Scientific: above the names is a line on the station
    separator = None if separator is None else checked_separator(str(separator))
    lines, comments, told = _lines(text, header_line)
    if len(lines) < fewest:
        if header_line is not None:
            raise InvalidInput(f"{label} has no rows below line {header_line}; correct header_line=")
        raise DamagedFile(f"{label} contains no rows; download or export it again")
    separator = separator or told
    if separator is not None:
        split = _split(lines, separator, label, comments)
    else:
        split = _best(lines, label, comments)
    if split.wrong is not None:
        raise split.wrong
    if header_line is None and split.comments:
        split = _named_by_comment(split, lines, label)
    columns: list[list[Cell]] = [[row[place] for row in split.rows] for place in range(len(split.header))]
    return Table(label, split.header, columns, split.lines, split.header_line, split.comments, split.separator)


def _lines(text: str, header_line: int | None) -> tuple[list[tuple[int, str]], tuple[str, ...], str | None]:
    """Return the lines that hold something, with their numbers; the comments; the separator that Excel's line names."""
    kept, comments, told = [], [], None
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        if not line.strip(" \t,;|\ufeff") or (header_line is not None and number < header_line):
            continue
        if line.lstrip().startswith("#") and number == header_line:
            kept.append((number, line.lstrip("# \t")))  # as numpy writes the names
        elif line.lstrip().startswith("#"):
            if not kept:
                comments.append(line.strip())
        elif not kept and (match := re.fullmatch(r'"?sep=(.)"?', line.strip("\r\n "), re.IGNORECASE)):
            told = match[1]
        else:
            kept.append((number, line))
    return kept, tuple(comments), told


def _named_by_comment(split: Rows, lines: list[tuple[int, str]], label: str) -> Rows:
    """Split again with the last comment as the names of columns, if the first row holds none."""
    values = [cell for cell in split.header if cell.lower() not in _NOTHING]
    if not values or not all(_is_value(cell) for cell in values):
        return split
    above = split.comments[-1].lstrip("# \t")
    named = _split([(split.header_line - 1, above), *lines], split.separator, label, split.comments[:-1])
    fits = named.wrong is None and len(named.header) == len(split.header) > 1
    return named if fits and not any(_is_value(name) or not name for name in named.header) else split


def _is_value(cell: str) -> bool:
    """Return whether a cell is written like a number or a time."""
    return _NUMERIC.fullmatch(cell) is not None or is_unix(cell) or is_time(cell)


def _best(lines: list[tuple[int, str]], label: str, comments: tuple[str, ...]) -> Rows:
    """Split by the separator that fits every line."""
    there = [sign for sign in GUESSED if sign in lines[0][1]]
    # Of lines below a title; a comma comes last, since it may stand within numbers between other separators.
    below = next((sign for sign in ";\t|," if sign in lines[-1][1]), ",")
    if not there:
        return _split(lines, below, label, comments)
    found = [_split(lines, sign, label, comments) for sign in there]
    fitting = [one for one in found if one.wrong is None and len(one.header) > 1]
    if len(fitting) > 1:
        words = " or ".join(SEPARATORS[one.separator] for one in fitting)
        raise InvalidInput(
            f"{label}: the cells may be separated by {words}; say which: "
            + ", or ".join(f"separator={SEPARATORS[one.separator]}" for one in fitting)
        )
    if not fitting and below not in there:
        return _split(lines, below, label, comments)  # whose error says that the names are further down
    # Where none fits, the error is that of the one that finds most columns.
    return fitting[0] if fitting else max(found, key=lambda one: len(one.header))


def _split(lines: list[tuple[int, str]], separator: str, label: str, comments: tuple[str, ...]) -> Rows:
    try:
        records = list(_records(lines, separator))
    except csv.Error as error:
        try:  # a blank between a closing quotation mark and the separator
            mended = re.compile(rf'"[ \t]+(?={re.escape(separator)}|$)') if separator not in " \t" else None
            if mended is None:
                raise error
            records = list(_records([(n, mended.sub('"', line)) for n, line in lines], separator))
        except csv.Error as second:
            return Rows(separator, [], lines[0][0], [], [], comments, _unreadable(label, lines, second))
    if not records:  # cells that hold nothing
        nothing = DamagedFile(f"{label} contains no rows; download or export it again")
        return Rows(separator, [], lines[0][0], [], [], comments, nothing)
    header_line, header = records[0]
    whole = len(header)
    rows = [row for _, row in records[1:]]
    numbers = [number for number, _ in records[1:]]
    while (
        len(header) > 1 and not header[-1].strip() and not any("".join(row[len(header) - 1 :]).strip() for row in rows)
    ):
        header = header[:-1]
    wrong = _misfit(label, separator, (header_line, header), whole, rows, numbers)
    width = len(header)
    names = [original(" ".join(name.split())) for name in header]
    cut = [[original(cell.strip()) for cell in row[:width]] for row in rows]
    return Rows(separator, names, header_line, cut, numbers, comments, wrong)


def _records(lines: list[tuple[int, str]], separator: str) -> Iterator[tuple[int, list[str]]]:
    """Read the rows, each with the line that it begins in; rows of empty cells are left out."""
    reader = csv.reader(
        (f"{line}\n" for _, line in lines), delimiter=separator, strict=True, skipinitialspace=separator != "\t"
    )
    begin = 0
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise csv.Error(f"{error}, in line {lines[min(reader.line_num, len(lines)) - 1][0]}") from None
        number, length = lines[begin][0], reader.line_num - begin
        begin = reader.line_num
        if length > LONGEST_CELL:
            raise csv.Error(f"a quoted cell that begins in line {number} continues for {length:,} lines")
        if length > 1 and any(_holds_a_row(cell, separator, len(row)) for cell in row):
            raise csv.Error(f"a quoted cell that begins in line {number} contains whole rows")
        if any(cell.strip() for cell in row):
            yield number, row


def _holds_a_row(cell: str, separator: str, width: int) -> bool:
    return width > 1 and any(line.count(separator) >= width - 1 for line in cell.split("\n"))


def _unreadable(label: str, lines: Sequence[tuple[int, str]], error: csv.Error) -> DamagedFile:
    quoted = next((number for number, line in lines if line.count('"') % 2), None)
    at = f", line {quoted}" if quoted is not None else ""
    if "field larger" in str(error):
        return DamagedFile(f"{label} is not a readable CSV: {error}; export it again")
    return DamagedFile(
        f"{label}{at}: the quotation marks do not fit ({error}): one is never closed; correct the line or export the "
        "file again"
    )


def _misfit(
    label: str, separator: str, header: tuple[int, list[str]], whole: int, rows: list[list[str]], numbers: list[int]
) -> DamagedFile | InvalidInput | None:
    """Return what is wrong with the first row that does not fit the header."""
    header_line, names = header
    width = len(names)
    lengths = [len(row) for row in rows]
    usual = max(set(lengths), key=lambda length: (lengths.count(length), length == whole)) if lengths else width
    # Separators at the end of lines hold nothing; but where a line has fewer of them, one may be missing elsewhere.
    allowed = {width, max(width, whole), max(width, usual)}
    first = lengths.index(usual) if rows else 0
    titled = usual > width and not any(_is_value(cell.strip()) for cell in rows[first])
    for number, row in zip(numbers, rows, strict=True):
        if len(row) in allowed and not any(cell.strip() for cell in row[width:]):
            continue
        told = f"{label}, line {number}: {counted(len(row), 'cell')}, but the header (line {header_line}) names "
        told += counted(width, "column")
        if len(row) > width and (titled or width == 1 or (width == 2 and separator != ",")):
            return InvalidInput(f"{told}; if the names are in another line, give header_line={numbers[first]}")
        if len(row) > width and separator == ",":
            return InvalidInput(
                f"{told}; a decimal comma in a file separated by commas cannot be told apart: export it with "
                "semicolons, or put such numbers in quotation marks"
            )
        if not rows or number == numbers[-1]:
            return DamagedFile(f"{told}; the file may be truncated: export it again, or leave this line out")
        return DamagedFile(f"{told}; the file may be truncated or the line damaged: correct it or leave it out")
    for place, name in enumerate(names):
        if place and not name.strip():
            held = next(((n, row[place]) for n, row in zip(numbers, rows, strict=True) if row[place].strip()), None)
            if held is not None:
                return InvalidInput(
                    f"{label}, line {held[0]}: {held[1].strip()[:40]!r} is in column {place + 1}, which has no "
                    f"name in the header (line {header_line}); if the names are in another line, give "
                    f"header_line={held[0]}, otherwise name the column or remove it"
                )
    return None
