"""Runs and records as plain columns and rows, which pandas and xarray are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from holdcourse.controller import Controller
from holdcourse.errors import InvalidInput
from holdcourse.events import Ask, Episode, Redirect, Tell
from holdcourse.log import Log
from holdcourse.problem import Problem
from holdcourse.simulation import Run

Runs: TypeAlias = Run | Mapping[str, Run] | Sequence[Run]
Units: TypeAlias = Mapping[str, str]
Columns: TypeAlias = dict[str, Any]
Row: TypeAlias = dict[str, Any]


def named_runs(runs: Runs) -> list[tuple[str, Run]]:
    """Runs with a name each; those given without are called by their policy, numbered where it occurs twice."""
    if isinstance(runs, Run):
        return [(runs.policy, runs)]
    if isinstance(runs, Mapping):
        named = list(runs.items())
    else:
        policies = [run.policy for run in runs]
        named = [
            (name if policies.count(name) == 1 else f"{name} {policies[:k].count(name) + 1}", run)
            for k, (name, run) in enumerate(zip(policies, runs, strict=True))
        ]
    if not named:
        raise InvalidInput("there are no runs; give at least one")
    return named


def run_columns(run: Run, context_names: Sequence[str] | None) -> Columns:
    """Columns of a run, with one entry per round."""
    return {
        "episode": np.repeat(np.arange(len(run.lengths)), run.lengths),
        "round": np.arange(len(run.actions)),
        **context_columns(run.contexts, context_names),
        "action": run.actions,
        "value": [run.world.problem.value(action) for action in run.actions.tolist()],
        "probability": run.probabilities,
        "service": run.service_costs,
        "movement": run.movement_costs,
        "measurement": run.measurements,
    }


def context_columns(contexts: Any, names: Sequence[str] | None) -> Columns:
    """The axes of contexts (t, d), by name."""
    width = contexts.shape[1]
    if names is None:
        names = ["context"] if width == 1 else [f"context_{axis}" for axis in range(width)]
    if len(names) != width:
        raise InvalidInput(f"contexts have {width} numbers, but context_names are {list(names)}")
    return {name: contexts[:, axis] for axis, name in enumerate(names)}


def checked_times(time: ArrayLike, rounds: int) -> Any:
    """The times given, checked: one for each round."""
    times = np.asarray(time)
    if times.shape != (rounds,):
        raise InvalidInput(f"time must have one entry for each of the {rounds} rounds, got shape {times.shape}")
    # Nanoseconds are what every version of pandas and xarray takes without a remark.
    return times.astype("datetime64[ns]") if np.issubdtype(times.dtype, np.datetime64) else times


def checked_units(units: Units | None, there: Sequence[str]) -> dict[str, str]:
    """Units by column; only of columns that are there."""
    unknown = sorted(set(units or {}) - set(there))
    if unknown:
        raise InvalidInput(f"units names {unknown[0]!r}; there are {sorted(there)}")
    return dict(units or {})


def setting_columns(problem: Problem) -> Columns:
    """Coordinates of the settings, by name; labels where there are some."""
    if problem.labels is not None:
        return {"setting_label": np.array([str(label) for label in problem.labels])}
    value, axes = problem.value(0), problem.actions.shape[1]
    if isinstance(value, dict):
        names = list(value)
    else:
        names = ["setting_value"] if axes == 1 else [f"setting_{axis}" for axis in range(axes)]
    return {name: problem.actions[:, axis] for axis, name in enumerate(names)}


def record_rows(record: Controller | str | Path, problem: Problem | None) -> list[Row]:
    """Rows of a controller or of the file of its record, one per decision."""
    if isinstance(record, Controller):
        return _decisions(record.log, problem or record.policy.problem)
    log = Log.read(Path(record))
    try:
        return _decisions(log, problem or _problem_of(log))
    finally:
        log.close()


def _problem_of(log: Log) -> Problem:
    described = log.about.recipe
    if described is None:
        raise InvalidInput(f"{log.path} does not say what its problem is ({log.about.recipe_missing}); give problem=")
    return Problem.from_data(described["problem"])


def _decisions(log: Log, problem: Problem) -> list[Row]:
    rows: dict[int, Row] = {}
    starts = {0: log.about.identity.start}  # of the episodes, by their first round
    episode = 0
    meant: dict[int, int] = {}  # by round: what the machine was told to do
    for event in log.events():
        body = event.body
        match body:
            case Ask():
                rows[body.round] = _asked(event.at, body, episode)
                meant[body.round] = body.meant
            case Redirect():
                meant[body.round] = body.order.action
            case Tell():
                told = rows[int(body.id[1:])]
                told |= {"told": event.at, "measurement": body.measurement, "applied": body.applied}
            case Episode():
                episode += 1
                starts[max(rows, default=-1) + 1] = body.start
    here = starts[0]
    for number, row in rows.items():
        here = starts.get(number, here)
        # Movement is what the machine really did, as far as it was told.
        taken = meant[number] if row["applied"] is None else row["applied"]
        row["value"], row["movement"] = problem.value(taken), problem.distance(here, taken)
        here = taken
    return list(rows.values())


def _asked(at: str, body: Ask, episode: int) -> Row:
    context = body.request.context
    known = {name: getattr(body, name) for name in ("round", "action", "wanted", "limited_by", "expected_cost")}
    untold = {"told": None, "measurement": None, "applied": None}
    return {**known, **untold, "episode": episode, "asked": at, "context": [] if context is None else context}
