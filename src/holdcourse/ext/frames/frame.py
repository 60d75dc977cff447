"""Runs, sweeps and records as pandas data frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from holdcourse.controller import Controller
from holdcourse.errors import MissingExtra
from holdcourse.ext.frames.columns import (
    Runs,
    Units,
    checked_times,
    checked_units,
    context_columns,
    named_runs,
    record_rows,
    run_columns,
)
from holdcourse.problem import Problem

try:
    import pandas as pd
except ImportError as error:
    raise MissingExtra(
        f'holdcourse.ext.frames needs pandas ({error}); install it with: pip install "holdcourse[frames]"'
    ) from error

RECORD_COLUMNS = [
    "round",
    "episode",
    "asked",
    "context",
    "action",
    "value",
    "wanted",
    "limited_by",
    "expected_cost",
    "movement",
    "told",
    "measurement",
    "applied",
]


class Sweep(Protocol):
    """The results of a sweep, such as `holdcourse.experiments.Results`."""

    @property
    def rows(self) -> Sequence[Any]:
        """The rows of the sweep, one dataclass per run."""
        ...


def runs_frame(
    runs: Runs, *, context_names: Sequence[str] | None = None, time: ArrayLike | None = None, units: Units | None = None
) -> pd.DataFrame:
    """What was done and paid, a row for each round of each run.

    Parameters
    ----------
    runs
        One run, several, or several by name; the name becomes the column ``run``.
    context_names
        Names of the axes of the context.
    time
        When each round began; becomes the column ``time``.
    units
        Of the columns, by name.

    Examples
    --------
    ::

        frame = runs_frame({"ours": run, "theirs": other}, context_names=["temperature"])
        frame.groupby("run")[["service", "movement"]].sum()
    """
    tables = []
    for name, run in named_runs(runs):
        table = pd.DataFrame({"run": name, "seed": run.seed, **run_columns(run, context_names)})
        if time is not None:
            table.insert(table.columns.get_loc("round") + 1, "time", checked_times(time, len(run.actions)))
        tables.append(table)
    return _with_units(pd.concat(tables, ignore_index=True), units)


def sweep_frame(results: Sweep) -> pd.DataFrame:
    """A row for each run of a sweep: experiment, policy, weight, start, bill, optimum, ratio to it."""
    return pd.DataFrame([asdict(row) for row in results.rows])


def record_frame(
    record: Controller | str | Path,
    *,
    problem: Problem | None = None,
    context_names: Sequence[str] | None = None,
    units: Units | None = None,
) -> pd.DataFrame:
    """What a controller decided and was told, a row for each decision, by round.

    Parameters
    ----------
    record
        A controller that keeps a record, or the file of the record; also while a controller writes to it.
    problem
        Needed only for the file of a policy that its record cannot make again.
    context_names, units
        As in `runs_frame`.

    Examples
    --------
    ::

        frame = record_frame("plant.log")
        frame.loc[frame["limited_by"].notna(), ["asked", "wanted", "action", "limited_by"]]
    """
    rows = record_rows(record, problem)
    frame = pd.DataFrame(rows, columns=RECORD_COLUMNS)
    place = frame.columns.get_loc("context")
    contexts = np.array([np.atleast_1d(context) for context in frame.pop("context")], dtype=np.float64)
    if rows:
        for axis, (name, values) in enumerate(context_columns(contexts, context_names).items()):
            frame.insert(place + axis, name, values)
    for name in ("asked", "told"):
        frame[name] = pd.to_datetime(frame[name], utc=True, format="ISO8601")
    frame = frame.astype({"applied": "Int64", "measurement": "float64"}).set_index("round")
    return _with_units(frame, units)


def _with_units(frame: pd.DataFrame, units: Units | None) -> pd.DataFrame:
    frame.attrs["units"] = checked_units(units, list(frame.columns))
    return frame
