"""Results as tables, for the screen, for JSON and for reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.table import Table

from holdcourse.experiments.results import Results, standard_error
from holdcourse.experiments.style import in_order
from holdcourse.registry import label_of


@dataclass(frozen=True)
class Grid:
    """Means by rho and policy, with their standard errors.

    Attributes
    ----------
    cells
        ``cells[rho][policy]``: mean and standard error.
    """

    title: str
    policies: tuple[str, ...]
    cells: dict[float, dict[str, tuple[float, float]]]

    def texts(self, *, errors: bool = True) -> list[list[str]]:
        """The rows of text, one per rho, which is the first cell."""
        largest = max((abs(mean) for row in self.cells.values() for mean, _ in row.values()), default=0.0)
        digits = digits_of(largest)
        return [
            [f"{rho:g}", *(_cell(row.get(name), digits, errors) for name in self.policies)]
            for rho, row in self.cells.items()
        ]

    @property
    def headings(self) -> list[str]:
        """The headings of the columns."""
        return ["rho", *(label_of(name) for name in self.policies)]

    def shown(self, width: int) -> Table:
        """The means, for a terminal of this width: a column for each policy, or a row where there are too many."""
        rows = [self.headings, *self.texts(errors=False)]
        columns = list(zip(*rows, strict=True))
        if 1 + sum(3 + max(map(len, column)) for column in columns) > width:
            rows = [["policy, by rho", *columns[0][1:]], *(list(column) for column in columns[1:])]
        table = Table(title=self.title, min_width=len(self.title))
        for place, heading in enumerate(rows[0]):
            table.add_column(heading, justify="left" if place == 0 and heading != "rho" else "right")
        for row in rows[1:]:
            table.add_row(*row)
        return table

    def by_policy(self, width: int) -> list[Table]:
        """A row for each policy, with errors; as many tables as this width needs for the columns of all rho."""
        names = [label_of(name) for name in self.policies]
        left = width - 4 - max(map(len, ["policy", *names]))
        groups: list[list[list[str]]] = [[]]
        for rho, *cells in self.texts():
            column = [f"rho {rho}", *cells]
            taken = sum(3 + max(map(len, other)) for other in [*groups[-1], column])
            if groups[-1] and taken > left:
                groups.append([])
            groups[-1].append(column)
        tables = []
        for group in groups:
            table = Table("policy", title=self.title, min_width=min(width, len(self.title)))
            for heading, *_ in group:
                table.add_column(heading, justify="right", no_wrap=True)
            for row in zip(names, *(cells for _, *cells in group), strict=True):
                table.add_row(*row)
            tables.append(table)
        return tables

    def as_json(self) -> dict[str, Any]:
        """The grid in JSON values, for programs."""
        rows = [
            {"rho": rho, "policy": name, "mean": mean, "standard_error": error}
            for rho, row in self.cells.items()
            for name, (mean, error) in row.items()
        ]
        return {"title": self.title, "rows": rows}


def cost_grid(
    results: Results, experiment: str, title: str, *, ratio: bool = False, order: Sequence[str] | None = None
) -> Grid:
    """Mean total cost, or its ratio to the clairvoyant optimum; policies in this order, by default that of legends."""
    chosen = results.select(experiment=experiment)
    cells: dict[float, dict[str, tuple[float, float]]] = {}
    for mean in chosen.means():
        pair = (mean.ratio, mean.ratio_error) if ratio else (mean.total, mean.total_error)
        cells.setdefault(mean.rho, {})[mean.policy] = pair
    there = in_order(chosen.policies) if order is None else [name for name in order if name in chosen.policies]
    return Grid(title, tuple(there), dict(sorted(cells.items())))


def energy_grid(results: Results, problem: str, title: str) -> Grid:
    """Mean net energy in MWh at one site."""
    chosen = results.select(problem=problem)
    cells: dict[float, dict[str, tuple[float, float]]] = {}
    for rho in chosen.rhos:
        part = chosen.select(rho=rho)
        cells[rho] = {name: _statistics(1e-3 * part.final(name, "net")) for name in part.policies}
    return Grid(title, tuple(in_order(chosen.policies)), cells)


def digits_of(largest: float) -> int:
    """Digits behind the point that numbers of one table are shown with, by the largest of them."""
    return 2 if largest < 20 else 1 if largest < 1000 else 0


def mean_rows(results: Results) -> list[dict[str, Any]]:
    """All means as flat rows, for programs."""
    return [asdict(mean) for mean in results.means()]


def _statistics(values: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float]:
    return float(values.mean()), standard_error(values)


def _cell(pair: tuple[float, float] | None, digits: int, errors: bool) -> str:
    if pair is None:
        return ""
    return f"{pair[0]:.{digits}f}" + (f" ± {pair[1]:.{digits}f}" if errors else "")
