"""CSV files that a spreadsheet shows as they are: no text in them is run as a formula.

A text that begins like a formula, ``=HYPERLINK("http://...")``, is written behind an apostrophe, which spreadsheets
take as "this is text"; so is one that begins with an apostrophe itself. `original` takes it off again. Numbers
stay numbers.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import IO, Any

# What a formula may begin with: in the spreadsheets in use, after what they strip, and in the wide letters of Asia.
STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20", "'")


def write_rows(file: IO[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write rows of cells; the only place where we write a CSV."""
    plain = csv.writer(file, lineterminator="\n")
    quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in rows:
        cells = [neutral(cell) for cell in row]
        # A lone carriage return would end the row: before Python 3.13 it is not quoted of itself.
        returns = any(isinstance(cell, str) and "\r" in cell for cell in cells)
        (quoted if returns else plain).writerow(cells)


def neutral(cell: Any) -> Any:
    """The cell as it is written; what is not text, or a number written as text, stays as it is."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(STARTS) and not _is_number(cell) else cell


def original(text: str) -> str:
    """The text that `neutral` was given."""
    return text[1:] if text.startswith("'") and text[1:].startswith(STARTS) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.isprintable()  # float() strips tabs and line ends, spreadsheets do not
