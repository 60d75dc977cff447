"""The results of a sweep: rows, means and cumulative curves, and tables for the screen, for JSON and for reports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from holdcourse.deciding.registry import label_of
from holdcourse.errors import InvalidInput
from holdcourse.experiments.runs import CLAIRVOYANT
from holdcourse.experiments.store import Folder, Row
from holdcourse.experiments.style import in_order
from holdcourse.experiments.workers import Arrays

Array: TypeAlias = NDArray[np.float64]
Quantity: TypeAlias = Literal["total", "service", "movement", "net", "regret"]
QUANTITIES = ("total", "service", "movement", "net", "regret")


@dataclass(frozen=True)
class Mean:
    """Mean over runs, and its standard error (NaN for a single run)."""

    experiment: str
    rho: float
    policy: str
    runs: int
    service: float
    movement: float
    total: float
    optimum: float
    ratio: float
    total_error: float
    ratio_error: float


@dataclass(frozen=True, eq=False)
class Results:
    """Finished runs: `rows[k]` and `curves[k]` belong to the same run.

    Examples
    --------
    ::

        results = Results.load("results/synthetic")
        plot_costs(results, rho=1.0)
    """

    rows: tuple[Row, ...]
    curves: tuple[Arrays, ...]

    @classmethod
    def load(cls, folder: str | Path) -> Results:
        """Read all finished runs of a folder."""
        store = Folder(Path(folder))
        if not store.manifest.exists():
            raise InvalidInput(
                f"{folder} contains no sweep (there is no {store.manifest.name}); give the folder= that it was written "
                "to"
            )
        found = [store.load(identity) for identity in store.identities()]
        found.sort(key=lambda pair: pair[0].place)
        rows, curves = zip(*found, strict=True) if found else ((), ())
        return cls(tuple(rows), tuple(curves))

    def select(
        self,
        *,
        experiment: str | None = None,
        rho: float | None = None,
        problem: str | int | None = None,
        policies: Iterable[str] | None = None,
    ) -> Results:
        """Return the runs that match all arguments."""
        wanted = None if policies is None else set(policies)
        chosen = [
            k
            for k, row in enumerate(self.rows)
            if (experiment is None or row.experiment == experiment)
            and (rho is None or math.isclose(row.rho, rho))
            and (problem is None or row.problem == str(problem))
            and (wanted is None or row.policy in wanted)
        ]
        return Results(tuple(self.rows[k] for k in chosen), tuple(self.curves[k] for k in chosen))

    @property
    def policies(self) -> list[str]:
        """Names of the policies, without repetition."""
        return sorted({row.policy for row in self.rows})

    @property
    def rhos(self) -> list[float]:
        """Weights of the service cost, without repetition."""
        return sorted({row.rho for row in self.rows})

    def cumulative(self, policy: str, quantity: Quantity = "total") -> Array:
        """Return the sum that a policy had paid after each round, shape (runs, rounds).

        "net" is the gain less the movement, if costs come from gains (wind: net energy); "regret" is the total less
        that of the clairvoyant optimum.
        """
        if quantity not in QUANTITIES:
            raise InvalidInput(f"quantity {quantity!r} is not known; use one of {', '.join(QUANTITIES)}")
        chosen = [k for k, row in enumerate(self.rows) if row.policy == policy]
        if not chosen:
            raise InvalidInput(f"there are no runs of policy {policy!r}; choose one of {', '.join(self.policies)}")
        lengths = {self.rows[k].rounds for k in chosen}
        if len(lengths) > 1:
            raise InvalidInput(
                f"runs of different lengths, {sorted(lengths)} rounds, cannot be drawn together; select one experiment"
            )
        return np.cumsum([self._per_round(k, quantity) for k in chosen], axis=1)

    def final(self, policy: str, quantity: Quantity = "total") -> Array:
        """Return the sum that a policy had paid at the end, shape (runs,)."""
        if quantity in ("total", "service", "movement"):
            return np.array([getattr(row, quantity) for row in self.rows if row.policy == policy])
        return np.asarray(self.cumulative(policy, quantity)[:, -1])

    def _per_round(self, k: int, quantity: Quantity) -> Array:
        curves = {name: curve.astype(np.float64) for name, curve in self.curves[k].items()}
        if quantity == "total":
            return np.asarray(curves["service"] + curves["movement"])
        if quantity == "net":
            if "gain" not in curves:
                raise InvalidInput(
                    "these runs have no gains, and 'net' is for worlds such as wind; choose another quantity"
                )
            return np.asarray(curves["gain"] - curves["movement"])
        if quantity == "regret":
            best = self.curves[self._optimum_of(k)]
            return np.asarray(curves["service"] + curves["movement"] - best["service"] - best["movement"])
        return np.asarray(curves[quantity])

    def _optimum_of(self, k: int) -> int:
        other = self._optima.get(_scene(self.rows[k]))
        if other is None:
            raise InvalidInput("regret needs the runs of the clairvoyant optimum; include them in the selection")
        return other

    @cached_property
    def _optima(self) -> dict[tuple[Any, ...], int]:
        return {_scene(row): k for k, row in enumerate(self.rows) if row.policy == CLAIRVOYANT}

    def means(self) -> list[Mean]:
        """Return the means over all runs of the same experiment, rho and policy."""
        groups: dict[tuple[str, float, str], list[Row]] = {}
        for row in self.rows:
            groups.setdefault((row.experiment, row.rho, row.policy), []).append(row)
        return [_mean(key, rows) for key, rows in sorted(groups.items())]


def standard_error(values: Array) -> float:
    """Return the standard error of the mean; NaN for a single value, whose error nobody can know."""
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def plus_minus(error: float, digits: int) -> str:
    """Return " ± error" as text; nothing if the error is unknown."""
    return "" if math.isnan(error) else f" ± {error:.{digits}f}"


def without_nan(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row for JSON and CSV, with None for an unknown error."""
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}


def _scene(row: Row) -> tuple[Any, ...]:
    return row.experiment, row.rho, row.problem, row.start, row.rounds


def _mean(key: tuple[str, float, str], rows: list[Row]) -> Mean:
    def mean(name: str) -> float:
        return float(np.mean([getattr(row, name) for row in rows]))

    def error(name: str) -> float:
        return standard_error(np.array([getattr(row, name) for row in rows]))

    return Mean(
        *key,
        runs=len(rows),
        service=mean("service"),
        movement=mean("movement"),
        total=mean("total"),
        optimum=mean("optimum"),
        ratio=mean("ratio"),
        total_error=error("total"),
        ratio_error=error("ratio"),
    )


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
        """Return the rows of text, one per rho, which is the first cell."""
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
        """Show the means on a terminal of this width: a column for each policy, or a row where there are too many."""
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
        """Return a row for each policy, with errors; as many tables as this width needs for the columns of all rho."""
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
        """Return the grid in JSON values, for programs."""
        rows = [
            without_nan({"rho": rho, "policy": name, "mean": mean, "standard_error": error})
            for rho, row in self.cells.items()
            for name, (mean, error) in row.items()
        ]
        return {"title": self.title, "rows": rows}


def cost_grid(
    results: Results, experiment: str, title: str, *, ratio: bool = False, order: Sequence[str] | None = None
) -> Grid:
    """Show the mean total cost, or its ratio to the clairvoyant optimum; policies in this order, else the legends'."""
    chosen = results.select(experiment=experiment)
    cells: dict[float, dict[str, tuple[float, float]]] = {}
    for mean in chosen.means():
        pair = (mean.ratio, mean.ratio_error) if ratio else (mean.total, mean.total_error)
        cells.setdefault(mean.rho, {})[mean.policy] = pair
    there = in_order(chosen.policies) if order is None else [name for name in order if name in chosen.policies]
    return Grid(title, tuple(there), dict(sorted(cells.items())))


def energy_grid(results: Results, problem: str, title: str) -> Grid:
    """Return the mean net energy in MWh at one site."""
    chosen = results.select(problem=problem)
    cells: dict[float, dict[str, tuple[float, float]]] = {}
    for rho in chosen.rhos:
        part = chosen.select(rho=rho)
        cells[rho] = {name: _statistics(1e-3 * part.final(name, "net")) for name in part.policies}
    return Grid(title, tuple(in_order(chosen.policies)), cells)


def digits_of(largest: float) -> int:
    """Return the digits behind the point that numbers of one table are shown with, by the largest of them."""
    return 2 if largest < 20 else 1 if largest < 1000 else 0


def mean_rows(results: Results) -> list[dict[str, Any]]:
    """Return all means as flat rows, for programs."""
    return [without_nan(asdict(mean)) for mean in results.means()]


def _statistics(values: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float]:
    return float(values.mean()), standard_error(values)


def _cell(pair: tuple[float, float] | None, digits: int, errors: bool) -> str:
    if pair is None:
        return ""
    return f"{pair[0]:.{digits}f}" + (plus_minus(pair[1], digits) if errors else "")
