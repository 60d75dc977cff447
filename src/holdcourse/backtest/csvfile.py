"""CSV files of plain tables, with or without names of columns: coordinates, matrices, costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import InvalidInput
from holdcourse.running.database import refuse_record
from holdcourse.tables.cells import read_table
from holdcourse.tables.numbers import Signs, cleaned
from holdcourse.tables.text import read_text

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
    separator
        What separates cells.
    """

    path: Path
    header: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]
    separator: str = ","

    @classmethod
    def read(cls, path: Path) -> Csv:
        """Read a file; empty lines and lines that begin with # are left out."""
        refuse_record(path, "this command reads a CSV file")
        if path.is_dir():
            raise InvalidInput(f"cannot read {path}: it is a folder; name a CSV file in it")
        text = read_text(path, str(path)).text
        if not text.strip():
            raise InvalidInput(f"{path} is empty; give a CSV file with at least one row")
        table = read_table(text, str(path), fewest=1)
        rows = list(zip(*([str(cell) for cell in column] for column in table.cells), strict=True))
        header, lines = tuple(table.names), list(table.lines)
        if all(not cell or _special(cell) or not isinstance(_number(cell), str) for cell in header):
            rows.insert(0, header)  # a missing number makes no header
            lines.insert(0, table.header_line)
            header = ()
        if not rows:
            raise InvalidInput(f"{path} has a header line but no rows; give a file with at least one row")
        return cls(path, header, tuple(rows), tuple(lines), table.separator)

    def texts(self, name: str) -> list[str]:
        """Return the cells of a column, by its name."""
        if name not in self.header:
            there = f"its columns are {', '.join(self.header)}" if self.header else "it has no header line; add one"
            raise InvalidInput(f"{self.path} has no column {name!r}; {there}")
        place = self.header.index(name)
        return [row[place] for row in self.cells]

    def numbers(self, names: Sequence[str] | None = None, *, finite: bool = True) -> Array:
        """Return the columns as numbers, shape (rows, columns); None: all of them. `finite`: refuse nan and inf."""
        wanted = range(len(self.cells[0])) if names is None else [self._place(name) for name in names]
        signs = Signs()
        for line, row in zip(self.lines, self.cells, strict=True):
            for place in wanted:
                signs.look(cleaned(row[place]), f"{self.path}, line {line}")
        signs.settle(self.separator)
        table = np.empty((len(self.cells), len(wanted)))
        for k, (line, row) in enumerate(zip(self.lines, self.cells, strict=True)):
            for j, place in enumerate(wanted):
                cell = cleaned(row[place])
                number: float | str = signs.number(cell)
                if isinstance(number, str) and not finite and _special(cell):
                    number = float(cell)
                if isinstance(number, str):
                    told = f"may be {number}" if " or " in number else f"is {number}; correct it"
                    raise InvalidInput(f"{self.path}, line {line}: {row[place][:40]!r} {told}")
                table[k, j] = number
        return table

    def matrix(self, settings: Sequence[str | float]) -> Array:
        """Return what each move costs, from row to column, in the order of `settings`.

        Names in the first line, and in the first column too, may stand in any order; without names, the order of the
        file is kept.
        """
        rows = [self.header, *self.cells] if self.header else list(self.cells)
        if len(rows) != len(settings) + 1:
            return self.numbers()
        beside = len(rows[0]) == len(rows)  # names in the first column as well
        columns, sides = rows[0][beside:], [row[0] for row in rows[1:]] if beside else rows[0]
        cells = tuple(row[beside:] for row in rows[1:])
        wanted = [_as_name(setting) for setting in settings]
        for names in (columns, sides):
            if sorted(map(_as_name, names)) != sorted(wanted):
                raise InvalidInput(
                    f"{self.path} names the settings {', '.join(names)}, but they are {', '.join(wanted)}; name each "
                    "of these once"
                )
        numbers = replace(self, header=(), cells=cells, lines=self.lines[-len(cells) :]).numbers()
        across, down = list(map(_as_name, columns)), list(map(_as_name, sides))
        return numbers[np.ix_([down.index(name) for name in wanted], [across.index(name) for name in wanted])]

    def _place(self, name: str) -> int:
        self.texts(name)
        return self.header.index(name)


def _as_name(setting: str | float) -> str:
    """Return a setting as it is compared with others: 7 is 7.0, and blanks do not count."""
    number = _number(setting) if isinstance(setting, str) else setting
    return str(setting).strip() if isinstance(number, str) else f"{number:.12g}"


def _number(cell: str) -> float | str:
    return Signs("point").number(cleaned(cell).replace(",", "."))


def _special(cell: str) -> bool:
    """Return whether a text is nan or infinite."""
    try:
        return not math.isfinite(float(cell))
    except ValueError:
        return False
