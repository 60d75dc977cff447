"""Runs and records as xarray datasets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from holdcourse.controller import Controller
from holdcourse.errors import InvalidInput, MissingExtra
from holdcourse.ext.frames.columns import (
    Runs,
    Units,
    checked_times,
    checked_units,
    named_runs,
    run_columns,
    setting_columns,
)
from holdcourse.ext.frames.frame import record_frame
from holdcourse.problem import Problem
from holdcourse.simulation import Run

if TYPE_CHECKING:
    import xarray as xr

LONG_NAMES = {
    "action": "action taken",
    "applied": "action that really ran, where the operator chose another",
    "asked": "time of the question, UTC",
    "cost": "true service cost of every setting",
    "episode": "episode",
    "expected_cost": "service cost that the model expected",
    "limited_by": "limit that acted",
    "measurement": "what was measured",
    "movement": "movement cost",
    "probability": "probability of the action before it was drawn",
    "service": "true service cost",
    "told": "time of the measurement, UTC",
    "wanted": "action that the rule chose",
}


def runs_dataset(
    runs: Runs,
    *,
    context_names: Sequence[str] | None = None,
    time: ArrayLike | None = None,
    units: Units | None = None,
    costs: bool = False,
) -> xr.Dataset:
    """What was done and paid, over run and round. The runs must have as many rounds each.

    Parameters
    ----------
    runs, context_names, time, units
        As in `runs_frame`; `time` becomes a coordinate of the rounds.
    costs
        Add the true ``cost`` of every setting in every round, for maps of what could have been had.
    """
    xr = _xarray()
    named = named_runs(runs)
    rounds = _same("rounds", [len(run.actions) for _, run in named])
    _same("numbers in a context", [run.contexts.shape[1] for _, run in named])
    columns = [run_columns(run, context_names) for _, run in named]
    variables: dict[str, Any] = {
        name: (("run", "round"), np.stack([found[name] for found in columns]))
        for name in columns[0]
        if name not in ("round", "value")
    }
    coordinates: dict[str, Any] = {
        "run": [name for name, _ in named],
        "round": np.arange(rounds),
        "seed": ("run", [run.seed for _, run in named]),
    }
    if time is not None:
        coordinates["time"] = ("round", checked_times(time, rounds))
    if costs:
        settings = _same("settings", [run.world.problem.n for _, run in named])
        variables["cost"] = (("run", "round", "setting"), np.stack([_true_costs(run) for _, run in named]))
        coordinates["setting"] = np.arange(settings)
        axes = setting_columns(named[0][1].world.problem)
        coordinates |= {name: ("setting", values) for name, values in axes.items()}
    return _described(xr.Dataset(variables, coordinates), units)


def record_dataset(
    record: Controller | str | Path,
    *,
    problem: Problem | None = None,
    context_names: Sequence[str] | None = None,
    units: Units | None = None,
) -> xr.Dataset:
    """What a controller decided and was told, over ``round``; parameters as in `record_frame`.

    What is missing is NaN (numbers) or "" (words); times are UTC, without a time zone.
    """
    xr = _xarray()
    frame = record_frame(record, problem=problem, context_names=context_names)
    if frame.empty:
        raise InvalidInput("the record holds no decision yet")
    columns = {name: frame[name].to_numpy() for name in frame.columns if name != "value"}
    columns["applied"] = frame["applied"].to_numpy(dtype=np.float64, na_value=np.nan)
    columns["limited_by"] = np.array(frame["limited_by"].fillna("").tolist(), dtype=np.str_)
    for name in ("asked", "told"):
        columns[name] = frame[name].dt.tz_localize(None).to_numpy()
    variables = {name: ("round", values) for name, values in columns.items()}
    return _described(xr.Dataset(variables, {"round": frame.index.to_numpy()}).set_coords("asked"), units)


def _xarray() -> Any:
    try:
        import xarray
    except ImportError as error:
        raise MissingExtra(
            f'a dataset needs xarray ({error}); install it with: pip install "holdcourse[frames]"'
        ) from None
    return xarray


def _same(what: str, counts: Sequence[int]) -> int:
    if len(set(counts)) > 1:
        raise InvalidInput(
            f"the runs have {sorted(set(counts))} {what}; a dataset needs as many in each, a frame does not"
        )
    return counts[0]


def _true_costs(run: Run) -> Any:
    return np.concatenate([run.true_costs(episode) for episode in range(len(run.lengths)) if run.lengths[episode]])


def _described(dataset: xr.Dataset, units: Units | None) -> xr.Dataset:
    known = checked_units(units, [str(name) for name in dataset.variables])
    for name, variable in dataset.variables.items():
        if name in LONG_NAMES:
            variable.attrs["long_name"] = LONG_NAMES[str(name)]
        if name in known:
            variable.attrs["units"] = known[str(name)]
    return dataset
