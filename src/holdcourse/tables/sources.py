"""Tables that are no text: Excel sheets, Parquet files, data frames, columns in a dict."""

from __future__ import annotations

import math
import re
import unicodedata
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

from holdcourse.errors import DamagedFile, HoldcourseError, InvalidInput, MissingExtra, TooLarge
from holdcourse.tables.cells import Cell, Table, read_table
from holdcourse.tables.text import MOST_CELLS, FileContent, allowed_of, read_text, stream_of
from holdcourse.tables.times import cell_text

EXCEL, PARQUET, OLD_EXCEL = b"PK\x03\x04", b"PAR1", b"\xd0\xcf\x11\xe0"
MARKUP = re.compile(r"<(?:[!?]|(?:html|head|meta|style|body|div|table)\b)", re.IGNORECASE)  # <DATE> may be a name
INSTALL = 'pip install "holdcourse[tables]"'


class SeveralSheets(InvalidInput):
    """An Excel file has several sheets, and none was chosen."""


def read_file(
    path: Path | FileContent,
    *,
    separator: str | None = None,
    encoding: str | None = None,
    header_line: int | None = None,
    sheet: str | None = None,
) -> tuple[Table, str]:
    """Read a table from a file of any kind, and note what kind it was; the first bytes decide, not the name.

    Parameters
    ----------
    separator, encoding, header_line
        Of a text; see `read_table` and `read_text`.
    sheet
        Of an Excel file; default: its only one.
    """
    label = path.name
    try:
        with stream_of(path) as stream:
            head = stream.read(8)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}; check the path") from None
    if not head:
        raise DamagedFile(f"{path if isinstance(path, Path) else label} is empty; export it again")
    most_cells = path.most_cells if isinstance(path, FileContent) else MOST_CELLS
    if head.startswith(EXCEL):
        return _excel(path, label, sheet, header_line, most_cells)
    if head.startswith(OLD_EXCEL):
        raise InvalidInput(f"{label} is an Excel file in the old format (.xls); save it as .xlsx or as CSV")
    if head.startswith(PARQUET):
        return _parquet(path, label, most_cells)
    if sheet is not None:
        raise InvalidInput(f"{label} is a text file and has no sheets; leave out sheet=")
    found = read_text(path, label, encoding=encoding, most_cells=most_cells)
    if found.text.lstrip("\ufeff \t\r\n")[:1] in ("{", "["):
        raise InvalidInput(f"{label} is JSON, not a table; export it as CSV")
    if MARKUP.match(found.text.lstrip("\ufeff \t\r\n")):
        raise InvalidInput(
            f"{label} is a page of HTML or XML, not a table; open it in Excel and save it as .xlsx or CSV"
        )
    note = {"utf-8": "", "cp1252": "text read as cp1252 (encoding= for another)"}.get(found.encoding)
    table = read_table(found.text, label, separator=separator, header_line=header_line)
    return table, f"text read as {found.encoding}" if note is None else note


def frame_table(frame: Any, label: str = "the table") -> Table:
    """Return the table of a data frame (pandas, polars, pyarrow) or of columns in a dict.

    The times of a pandas frame that stand in its index are a column, by the name of the index or else `time`.
    """
    columns: dict[str, list[Any]] = {}
    index = getattr(frame, "index", None)
    if index is not None and hasattr(index, "tz") and hasattr(frame, "columns"):  # times in the index of pandas
        columns[str(index.name or "time")] = list(index)
    if isinstance(frame, Mapping):
        columns |= {str(name): _listed(values, str(name), label) for name, values in frame.items()}
    elif hasattr(frame, "column_names") and hasattr(frame, "to_pydict"):  # pyarrow
        columns |= {str(name): values for name, values in frame.to_pydict().items()}
    elif hasattr(frame, "columns") and hasattr(frame, "__getitem__"):  # pandas and polars
        names = list(frame.columns)
        doubled = [name for name in names if names.count(name) > 1]
        if doubled:
            raise InvalidInput(f"{label} has two columns {doubled[0]!r}; rename one of them")
        for name in names:
            values = frame[name]
            columns[str(name)] = values.to_list() if hasattr(values, "to_list") else list(values)
    else:
        raise InvalidInput(f"readings must be a path or a data frame, got {type(frame).__name__}")
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise InvalidInput(f"the columns of {label} have {sorted(lengths)} rows; give the same number in each")
    if not lengths or lengths == {0}:
        raise InvalidInput(f"{label} has no rows; give at least one")
    cells = [_cells(values, name, label) for name, values in columns.items()]
    return Table(label, list(columns), cells, list(range(lengths.pop())), unit="row")


def _listed(values: Any, name: str, label: str) -> list[Any]:
    """Return the values of a column of a dict as a list."""
    try:
        if not isinstance(values, str | bytes):  # whose letters would be taken for rows
            return list(values)
    except TypeError:
        pass
    raise InvalidInput(
        f"{label}: column {name!r} is {values!r:.40}, a single {type(values).__name__}; give a list with a value for "
        "each row"
    )


def _cells(values: Iterable[Any], name: str, label: str) -> list[Cell]:
    found: list[Cell] = []
    for row, value in enumerate(values):
        cell = cell_of(value)
        if cell is None:
            raise InvalidInput(
                f"{label}, row {row}: {str(value)[:40]!r} in column {name!r} is a {type(value).__name__}; give "
                "numbers, texts and times"
            )
        found.append(cell)
    return found


def cell_of(value: Any) -> Cell | None:
    """Return a value of Python, numpy or pandas as a cell, "" where it is missing; None where it is nothing of ours."""
    if value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return ""
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return str(value)  # a name, not a number
    if hasattr(value, "to_pydatetime"):
        return value.to_pydatetime(warn=False)  # type: ignore[no-any-return]
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, time):
        return value.isoformat()
    if type(value).__name__ == "datetime64":
        return "" if str(value) == "NaT" else datetime.fromisoformat(str(value.astype("datetime64[s]")))
    if isinstance(value, int | float | Decimal) or hasattr(value, "__float__"):
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            return None
        return "" if math.isnan(number) else number
    return None


def _excel(
    path: Path | FileContent, label: str, sheet: str | None, header_line: int | None, most_cells: int
) -> tuple[Table, str]:
    try:
        with stream_of(path) as stream:  # openpyxl leaves a file open if it is damaged
            return _sheet(stream, label, sheet, header_line, most_cells, *allowed_of(path, label))
    except HoldcourseError:
        raise
    except ImportError as error:
        raise MissingExtra(
            f"{label} is an Excel file, which needs openpyxl ({error}); install it with: {INSTALL}, or save it as CSV"
        ) from None
    except Exception as error:  # what zipfile and openpyxl raise on damaged bytes is not documented
        raise DamagedFile(f"{label} cannot be read as Excel ({_first_line(error)}); save it again, or as CSV") from None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _sheet(
    stream: BinaryIO, label: str, sheet: str | None, header_line: int | None, most_cells: int, most: int, refusal: str
) -> tuple[Table, str]:
    with zipfile.ZipFile(stream) as archive:
        if sum(member.file_size for member in archive.infolist()) > most:
            raise TooLarge(refusal)
        if {"manifest.json", "state.json"} <= set(archive.namelist()):
            raise InvalidInput(
                f"{label} is a policy or a state that holdcourse saved; give a table of readings instead"
            )
        if "xl/workbook.xml" not in archive.namelist():
            raise InvalidInput(f"{label} is a ZIP archive, not an Excel file; unpack it and give the file in it")
    import openpyxl

    book = openpyxl.load_workbook(stream, read_only=True, data_only=True)
    try:
        names = [page.title for page in book.worksheets]
        if not names:
            raise DamagedFile(f"{label} contains no sheet; save it again, or as CSV")
        if sheet is None and len(names) > 1:
            raise SeveralSheets(f"{label} has the sheets {', '.join(map(repr, names[:8]))}; choose one with sheet=")
        if sheet is not None and sheet not in names:
            raise InvalidInput(f"{label} has no sheet {sheet!r}; its sheets are {', '.join(map(repr, names[:8]))}")
        page = book[sheet or names[0]]
        rows = _excel_rows(page.iter_rows(values_only=True), label, header_line, most_cells)
    finally:
        book.close()
    return _sheet_table(rows, label), f"Excel, sheet {sheet or names[0]!r}"


def _given(path: Path | FileContent) -> Any:
    """Return a file as libraries take it: its path, or a stream."""
    return path if isinstance(path, Path) else path.open()


def _excel_rows(
    given: Iterable[Sequence[Any]], label: str, header_line: int | None, most_cells: int
) -> list[tuple[int, list[Cell]]]:
    rows: list[tuple[int, list[Cell]]] = []
    count = 0
    for number, values in enumerate(given, 1):
        cells = [cell_of(value) for value in values]
        count += len(cells)
        if count > most_cells:
            raise TooLarge(f"{label} has more than {most_cells:,} cells; split it by years")
        texts: list[Cell] = ["" if cell is None else cell for cell in cells]
        if any(cell != "" for cell in texts) and (header_line is None or number >= header_line):
            rows.append((number, texts))
    if len(rows) < 2:
        raise DamagedFile(f"{label} has no rows in this sheet; choose another with sheet=, or save it again")
    return rows


def _sheet_table(rows: list[tuple[int, list[Cell]]], label: str) -> Table:
    header_line, header = rows[0]
    width = max((place + 1 for place, name in enumerate(header) if name != ""), default=0)
    names = [" ".join(cell_text(name).split()) for name in header[:width]]
    for number, row in rows[1:]:
        beyond = next(
            (place for place, cell in enumerate(row) if cell != "" and (place >= width or not names[place])), -1
        )
        if beyond >= 0:
            raise InvalidInput(
                f"{label}, row {number}: {str(row[beyond])[:40]!r} is in column {beyond + 1}, which has no name in "
                f"row {header_line}; if the names are in another row, give header_line={number}, otherwise "
                "name the column"
            )
    padded = [[*row[:width], *[""] * (width - len(row))] for _, row in rows[1:]]
    columns = [list(column) for column in zip(*padded, strict=True)]
    return Table(label, names, columns, [number for number, _ in rows[1:]], header_line, unit="row")


def _parquet(path: Path | FileContent, label: str, most_cells: int) -> tuple[Table, str]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtra(
            f"{label} is a Parquet file, which needs pyarrow ({error}); install it with: {INSTALL}, or save it as CSV"
        ) from None
    try:
        meta = parquet.read_metadata(_given(path))
        if meta.num_rows * meta.num_columns > most_cells:
            raise TooLarge(f"{label} has more than {most_cells:,} cells; split it by years")
        table = parquet.read_table(_given(path))
    except HoldcourseError:
        raise
    except Exception as error:  # what pyarrow raises on damaged bytes is not documented
        raise DamagedFile(f"{label} cannot be read as Parquet ({_first_line(error)}); write it again") from None
    return frame_table(table, label), "Parquet"
