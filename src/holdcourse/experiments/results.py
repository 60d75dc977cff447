"""The results of a sweep, for tables and figures: rows, means, and cumulative curves."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import InvalidInput
from holdcourse.experiments.execute import Arrays
from holdcourse.experiments.runs import CLAIRVOYANT
from holdcourse.experiments.store import Folder, Row

Array: TypeAlias = NDArray[np.float64]
Quantity: TypeAlias = Literal["total", "service", "movement", "net", "regret"]
QUANTITIES = ("total", "service", "movement", "net", "regret")


@dataclass(frozen=True)
class Mean:
    """Mean over runs, and its standard error (0 for a single run)."""

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
    """Finished runs: `rows[k]` and `curves[k]` belong to the same one.

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
                f"{folder} holds no sweep (no {store.manifest.name}); give the folder= that it was written to"
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
        """The runs that match all that is given."""
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
        """Names of the policies, each once."""
        return sorted({row.policy for row in self.rows})

    @property
    def rhos(self) -> list[float]:
        """Weights of the service cost, each once."""
        return sorted({row.rho for row in self.rows})

    def cumulative(self, policy: str, quantity: Quantity = "total") -> Array:
        """What a policy had paid after each round, shape (runs, rounds).

        "net" is the gain less the movement, where costs come from gains (wind: net energy); "regret" is the total less
        that of the clairvoyant optimum.
        """
        if quantity not in QUANTITIES:
            raise InvalidInput(f"quantity {quantity!r} is not known; use one of {', '.join(QUANTITIES)}")
        chosen = [k for k, row in enumerate(self.rows) if row.policy == policy]
        if not chosen:
            raise InvalidInput(f"there are no runs of policy {policy!r}; there are {', '.join(self.policies)}")
        lengths = {self.rows[k].rounds for k in chosen}
        if len(lengths) > 1:
            raise InvalidInput(f"runs of {sorted(lengths)} rounds cannot be drawn together; select one experiment")
        return np.cumsum([self._per_round(k, quantity) for k in chosen], axis=1)

    def final(self, policy: str, quantity: Quantity = "total") -> Array:
        """What a policy had paid at the end, shape (runs,)."""
        if quantity in ("total", "service", "movement"):
            return np.array([getattr(row, quantity) for row in self.rows if row.policy == policy])
        return np.asarray(self.cumulative(policy, quantity)[:, -1])

    def _per_round(self, k: int, quantity: Quantity) -> Array:
        curves = {name: curve.astype(np.float64) for name, curve in self.curves[k].items()}
        if quantity == "total":
            return np.asarray(curves["service"] + curves["movement"])
        if quantity == "net":
            if "gain" not in curves:
                raise InvalidInput("these runs have no gains; 'net' is for worlds such as wind")
            return np.asarray(curves["gain"] - curves["movement"])
        if quantity == "regret":
            best = self.curves[self._optimum_of(k)]
            return np.asarray(curves["service"] + curves["movement"] - best["service"] - best["movement"])
        return np.asarray(curves[quantity])

    def _optimum_of(self, k: int) -> int:
        other = self._optima.get(_scene(self.rows[k]))
        if other is None:
            raise InvalidInput("regret needs the runs of the clairvoyant optimum; do not select them away")
        return other

    @cached_property
    def _optima(self) -> dict[tuple[Any, ...], int]:
        return {_scene(row): k for k, row in enumerate(self.rows) if row.policy == CLAIRVOYANT}

    def means(self) -> list[Mean]:
        """Means over all runs of the same experiment, rho and policy."""
        groups: dict[tuple[str, float, str], list[Row]] = {}
        for row in self.rows:
            groups.setdefault((row.experiment, row.rho, row.policy), []).append(row)
        return [_mean(key, rows) for key, rows in sorted(groups.items())]


def standard_error(values: Array) -> float:
    """The standard error of the mean; 0 for a single value, which tells none."""
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


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
