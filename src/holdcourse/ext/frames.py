"""Runs, sweeps and records as pandas and xarray tables (extra ``[frames]``).

==================  ==================================================  ===========================================
what you have       as a pandas DataFrame                               as an xarray Dataset
==================  ==================================================  ===========================================
runs                `runs_frame`: a row for each round                  `runs_dataset`: run x round (x setting)
a sweep's results   `sweep_frame`: a row for each run
a record            `record_frame`: a row for each decision             `record_dataset`: round
==================  ==================================================  ===========================================

Contexts of one number are the column ``context``, others ``context_0``, ``context_1``, ..., unless `context_names`
names them. `units`, by column, are stored in ``attrs["units"]`` of the frame, and of each variable of a dataset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from holdcourse.errors import InvalidInput, MissingExtra, counted, shown
from holdcourse.movement.problem import Problem
from holdcourse.running.controller import Controller
from holdcourse.running.events import Ask, Change, Episode, Redirect, Retract, Tell
from holdcourse.running.log import Log
from holdcourse.running.storage import located
from holdcourse.worlds.simulation import Run

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["record_dataset", "record_frame", "runs_dataset", "runs_frame", "sweep_frame"]


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
        raise InvalidInput(
            f"context_names must be {counted(width, 'name')}, one for each number of a context, got "
            f"{shown(list(names))}"
        )
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
        raise InvalidInput(f"units names {unknown[0]!r}, which is not a column; the columns are {sorted(there)}")
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
    knobs = problem.knobs or (None,) * axes
    columns = {name: problem.actions[:, axis] for axis, name in enumerate(names)}
    for name, knob in zip(names, knobs, strict=True):
        if knob is not None and knob.is_named:
            columns[name] = np.array([str(knob.values[int(place)]) for place in columns[name]])
    return columns


def record_rows(record: Controller | str | Path, problem: Problem | None) -> list[Row]:
    """Rows of a controller or of the file of its record, one per decision."""
    if isinstance(record, Controller):
        known = record.log.about.recipe is not None  # then it says at which prices it began
        return _decisions(record.log, problem or (_problem_of(record.log) if known else record.policy.problem))
    log = Log.read(located(record))
    try:
        return _decisions(log, problem or _problem_of(log))
    finally:
        log.close()


def _problem_of(log: Log) -> Problem:
    described, members = log.about.recipe, log.about.identity.members
    if members is not None:
        raise InvalidInput(
            f"{log.path} is the record of a fleet of {members.count} members; only the record of a single controller "
            "can become a table"
        )
    if described is None:
        raise InvalidInput(f"{log.path} does not contain its problem ({log.about.recipe_missing}); give problem=")
    return Problem.from_data(described["problem"])


def _decisions(log: Log, problem: Problem) -> list[Row]:
    rows: dict[int, Row] = {}
    starts = {0: log.about.identity.start}  # of the episodes, by their first round
    episode = 0
    meant: dict[int, int] = {}  # by round: what the machine was told to do
    prices: dict[int, Problem] = {}  # by the round from which on they hold
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
                told |= {"told": event.at, "measurement": body.measurement, "applied_index": body.applied}
            case Retract() if body.event is not None and int(body.id[1:]) in rows:
                rows[int(body.id[1:])] |= {"measurement": None, "retracted": body.reason}
            case Change() if body.problem is not None:
                prices[max(rows, default=-1) + 1] = Problem.from_data(body.problem)
            case Episode():
                episode += 1
                starts[max(rows, default=-1) + 1] = body.start
    here = starts[0]
    for number, row in rows.items():
        here, problem = starts.get(number, here), prices.get(number, problem)
        # Movement is what the machine really did, as far as it was told.
        applied = row["applied_index"]
        taken = meant[number] if applied is None else applied
        row["value"], row["movement"] = problem.value(taken), problem.distance(here, taken)
        row["wanted_value"] = problem.value(row["wanted"])
        row["applied"] = None if applied is None else problem.value(applied)
        here = taken
    return list(rows.values())


def _asked(at: str, body: Ask, episode: int) -> Row:
    context = body.request.context
    known = {name: getattr(body, name) for name in ("round", "action", "wanted", "limited_by", "expected_cost")}
    untold = {"told": None, "measurement": None, "applied_index": None, "retracted": None}
    return {**known, **untold, "episode": episode, "asked": at, "context": [] if context is None else context}


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
    "wanted_value",
    "limited_by",
    "expected_cost",
    "movement",
    "told",
    "measurement",
    "applied",
    "applied_index",
    "retracted",
]


SETTINGS = ("value", "wanted_value", "applied")  # columns of settings, which may be of any kind


class Sweep(Protocol):
    """The results of a sweep, such as `holdcourse.experiments.Results`."""

    @property
    def rows(self) -> Sequence[Any]:
        """The rows of the sweep, one dataclass per run."""
        ...


def runs_frame(
    runs: Runs, *, context_names: Sequence[str] | None = None, time: ArrayLike | None = None, units: Units | None = None
) -> pd.DataFrame:
    """Return actions and costs of runs, with a row for each round of each run.

    Parameters
    ----------
    runs
        One run, several, or several by name; the name becomes the column ``run``.
    context_names
        Names of the axes of the context.
    time
        Time at which each round began; becomes the column ``time``.
    units
        Units of the columns, by name.

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
    """Return a row for each run of a sweep: experiment, policy, weight, start, bill, optimum, ratio to the optimum."""
    return pd.DataFrame([asdict(row) for row in results.rows])


def record_frame(
    record: Controller | str | Path,
    *,
    problem: Problem | None = None,
    context_names: Sequence[str] | None = None,
    units: Units | None = None,
) -> pd.DataFrame:
    """Return what a controller decided and was told, with a row for each decision, by round.

    Parameters
    ----------
    record
        A controller that keeps a record, or the file of the record; also while a controller writes to it.
    problem
        Problem of the policy; needed only for the file of a record that cannot make its policy.
    context_names, units
        As in `runs_frame`.

    Examples
    --------
    ::

        frame = record_frame("plant.log")
        frame.loc[frame["limited_by"].notna(), ["asked", "wanted_value", "value", "limited_by"]]
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
    frame = frame.astype({"applied_index": "Int64", "measurement": "float64"}).set_index("round")
    return _with_units(frame, units)


def _with_units(frame: pd.DataFrame, units: Units | None) -> pd.DataFrame:
    frame.attrs["units"] = checked_units(units, list(frame.columns))
    return frame


LONG_NAMES = {
    "action": "action taken",
    "applied_index": "action that really ran, if the operator chose another",
    "asked": "time of the question, UTC",
    "cost": "true service cost of every setting",
    "episode": "episode",
    "expected_cost": "service cost that the model expected",
    "limited_by": "limit that acted",
    "measurement": "what was measured; missing if it was taken back",
    "movement": "movement cost",
    "probability": "probability of the action before it was drawn",
    "retracted": "why the measurement was taken back",
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
    """Return actions and costs over run and round. All runs must have the same number of rounds.

    Parameters
    ----------
    runs, context_names, time, units
        As in `runs_frame`; `time` becomes a coordinate of the rounds.
    costs
        Whether to add the true ``cost`` of every setting in every round, for maps of what was possible.
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
    """Return what a controller decided and was told, over ``round``; parameters as in `record_frame`.

    Missing values are NaN (numbers) or "" (texts); times are UTC, without a time zone.
    """
    xr = _xarray()
    frame = record_frame(record, problem=problem, context_names=context_names)
    if frame.empty:
        raise InvalidInput("the record contains no decision yet; ask its controller first")
    columns = {name: frame[name].to_numpy() for name in frame.columns if name not in SETTINGS}
    columns["applied_index"] = frame["applied_index"].to_numpy(dtype=np.float64, na_value=np.nan)
    for name in ("limited_by", "retracted"):
        columns[name] = np.array([text if isinstance(text, str) else "" for text in frame[name]], dtype=np.str_)
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
            f"the runs have {sorted(set(counts))} {what}; a dataset needs the same number in each, so make a frame "
            "instead"
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
