"""CSV files of users: columns by name, and errors that name the line."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import InvalidInput
from holdcourse.running.database import refuse_record
from holdcourse.spreadsheet import original

Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Csv:
    """The cells of a CSV file, and the lines that they stand in.

    Attributes
    ----------
    header
        The first line; empty if it holds no words.
    cells, lines
        The rows below it, and the number of the line that each stands in.
    """

    path: Path
    header: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]

    @classmethod
    def read(cls, path: Path) -> Csv:
        """Read a file; empty lines and lines that begin with # are left out."""
        refuse_record(path, "a CSV is what is read here")
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                reader = csv.reader(file)
                numbered = [
                    (reader.line_num, tuple(original(cell.strip()) for cell in row))
                    for row in reader
                    if any(cell.strip() for cell in row) and not row[0].lstrip().startswith("#")
                ]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InvalidInput(f"cannot read {path}: {reason}") from None
        for line, row in numbered:
            if any("\x00" in cell for cell in row):
                raise InvalidInput(f"{path}, line {line}: there are bytes that are no text; export it again as CSV")
        if not numbered:
            raise InvalidInput(f"{path} is empty")
        header: tuple[str, ...] = ()
        if any(cell and _number(cell) is None for cell in numbered[0][1]):  # a missing number makes no header
            header = numbered.pop(0)[1]
        if not numbered:
            raise InvalidInput(f"{path} has a header and no rows")
        width = len(header or numbered[0][1])
        for line, row in numbered:
            if len(row) != width:
                raise InvalidInput(f"{path}, line {line}: {len(row)} columns, expected {width}")
        lines, cells = zip(*numbered, strict=True)
        return cls(path, header, cells, lines)

    def texts(self, name: str) -> list[str]:
        """Return the cells of a column, by its name."""
        if name not in self.header:
            there = ", ".join(self.header) if self.header else "no header line"
            raise InvalidInput(f"{self.path} has no column {name!r}; there are {there}")
        place = self.header.index(name)
        return [row[place] for row in self.cells]

    def numbers(self, names: Sequence[str] | None = None, *, finite: bool = True) -> Array:
        """Return the columns as numbers, shape (rows, columns); None: all of them. `finite`: refuse nan and inf."""
        wanted = range(len(self.cells[0])) if names is None else [self._place(name) for name in names]
        table = np.empty((len(self.cells), len(wanted)))
        for k, (line, row) in enumerate(zip(self.lines, self.cells, strict=True)):
            for j, place in enumerate(wanted):
                number = _number(row[place])
                if number is None or (finite and not math.isfinite(number)):
                    kind = "number" if number is None else "finite number"
                    raise InvalidInput(f"{self.path}, line {line}: {row[place]!r} is not a {kind}")
                table[k, j] = number
        return table

    def _place(self, name: str) -> int:
        self.texts(name)
        return self.header.index(name)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
