"""A generator in the standard of the accelerator community, gest-api (extra ``[gest]``).

Xopt, Optimas and libEnsemble drive generators with `suggest` and `ingest`. `CourseGenerator` is a generator that
follows a context, and moves to a better setting only if that is worth the move.

=============================  =======================================================================================
what the standard calls        is here
=============================  =======================================================================================
variable                       an axis of the grid of settings
`ContextualVariable`           an axis of the context: observed, never chosen
the one objective              what is measured: a cost (MINIMIZE) or a gain (MAXIMIZE)
constant                       handed through
``_id``                        the round of a decision
=============================  =======================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from holdcourse import archive
from holdcourse.checks import whole_number
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.recommended import recommended
from holdcourse.errors import InvalidInput, MissingExtra, shown
from holdcourse.learning.costs import maximises
from holdcourse.movement.grid import grid
from holdcourse.movement.problem import Metric, Problem
from holdcourse.running.decision import Entry, Explanation, Request
from holdcourse.running.limits import Guard, Limits
from holdcourse.running.session import Session

try:
    from gest_api.generator import Generator
    from gest_api.vocs import (
        VOCS,
        ContextualVariable,
        ContinuousVariable,
        DiscreteVariable,
        MaximizeObjective,
        MinimizeObjective,
    )
except ImportError as error:
    raise MissingExtra(
        f'holdcourse.ext.gest needs gest-api ({error}); install it with: pip install "holdcourse[gest]"'
    ) from error

Point: TypeAlias = dict[str, Any]
ContextSource: TypeAlias = Callable[[], Mapping[str, float]]

POINTS = 11  # along a continuous variable, if nothing else is said


@dataclass(frozen=True)
class Result:
    """A row of results, understood; `entry` is that of its suggestion, None for a past evaluation."""

    entry: Entry | None
    action: int
    context: list[float] | None
    measurement: float | None

    @property
    def applied(self) -> int | None:
        """The action, if it was another than the one suggested."""
        suggested = None if self.entry is None else self.entry.decision.action
        return None if self.action == suggested else self.action


class CourseGenerator(Generator):  # type: ignore[misc] # gest-api is not typed
    """A generator for a machine that pays for every change of setting; see `gest_api.Generator`.

    Continuous variables become a grid; discrete variables must be numbers. Contextual variables are known before each
    suggestion: from `context`, from `observe`, or else from the last row ingested. A suggestion contains the values
    that were assumed. A result with other contextual values is learned with these; after a result with other settings,
    the machine counts as being at the nearest point of the grid. A result that is NaN, or that Xopt or Optimas marks as
    failed, counts as "not measured".

    Rows without ``_id`` are past evaluations: they are learned, but do not mean that the machine moved.

    Parameters
    ----------
    vocs
        Variables, one objective, constants and observables. Constraints are refused: use `limits`, or leave the points
        out of the grid.
    policy
        Function that makes the policy, called as ``policy(problem, **options)``, with ``maximise=True`` if the
        objective is to be maximised.
    points
        Number of grid points along continuous variables: one for all, or one for each by name.
    metric, scale, fixed_cost, directed
        Cost of moving, in units of the objective, as in `Problem`; `scale` is one number, or one for each variable by
        name. A function as metric gets two settings as dicts.
    start
        Present setting of the machine, by name; default: the variables' default values, or the middle of their grids.
    context
        Function that returns the contextual variables by name; it is called once for each suggestion.
    suggest_context
        Whether a suggestion contains the contextual variables. Use False for evaluators of Xopt that report them,
        because Xopt refuses a result that differs from its suggestion. If a result then leaves them out, the assumed
        values count.
    limits, guard, seed
        As in `Controller`.
    max_pending
        Number of suggestions that may wait for their result; `suggest` refuses more.
    options
        Options of the policy, by name.

    Examples
    --------
    ::

        vocs = VOCS(variables={"k1": [0, 1], "temperature": "CONTEXTUAL"}, objectives={"emittance": "MINIMIZE"})
        generator = CourseGenerator(vocs, points=21, scale=0.3, context=lambda: {"temperature": read_sensor()})
        (point,) = generator.suggest(1)
        generator.ingest([point | {"emittance": measure(point)}])
    """

    returns_id = True

    def __init__(
        self,
        vocs: VOCS,
        policy: Callable[..., Policy] = recommended,
        *,
        points: int | Mapping[str, int] = POINTS,
        metric: Metric = "euclidean",
        scale: float | Mapping[str, float] = 1.0,
        fixed_cost: float = 0.0,
        directed: bool = False,
        start: Mapping[str, float] | None = None,
        context: ContextSource | None = None,
        suggest_context: bool = True,
        limits: Limits | None = None,
        guard: Guard | None = None,
        max_pending: int = 1,
        seed: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(vocs)
        self.vocs = vocs
        settings = _settings(vocs)
        for what, given in (("points", points), ("scale", scale), ("start", start)):
            _check_names(what, given, settings)
        self._axes = {name: _axis(name, axis, points) for name, axis in settings.items()}
        self._contextual = [name for name, axis in vocs.variables.items() if isinstance(axis, ContextualVariable)]
        (self._objective, objective), *_ = vocs.objectives.items()
        self._grid = grid(**self._axes)
        self.problem = Problem(self._grid, metric, scale=self._by_axis(scale), fixed_cost=fixed_cost, directed=directed)
        maximise = {"maximise": True} if isinstance(objective, MaximizeObjective) else {}
        self._session = Session(
            policy(self.problem, **maximise, **options),
            self._nearest({**_defaults(vocs, self._axes), **(start or {})}),
            seed,
            limits=limits,
            guard=guard,
            max_pending=max_pending,
        )
        self._read = context
        self._suggests_context = bool(suggest_context)
        self._context: dict[str, float] = {
            name: float(vocs.variables[name].default_value)
            for name in self._contextual
            if vocs.variables[name].default_value is not None
        }

    def _validate_vocs(self, vocs: VOCS) -> None:
        settings = _settings(vocs)
        if not settings:
            raise InvalidInput(
                "vocs must define at least one variable that is not contextual, as the setting to choose"
            )
        if len(vocs.objectives) != 1:
            raise InvalidInput(f"vocs must define one objective, got {vocs.objective_names}; sum them up with weights")
        name, objective = next(iter(vocs.objectives.items()))
        if not isinstance(objective, MinimizeObjective | MaximizeObjective):
            raise InvalidInput(f"objective {name!r} must be MINIMIZE or MAXIMIZE, got {type(objective).__name__}")
        if vocs.constraints:
            raise InvalidInput(
                f"constraints {vocs.constraint_names} cannot be learned here; keep forbidden settings out of the grid, "
                "use limits=, or add a penalty to the objective"
            )
        for name, axis in settings.items():
            values = axis.domain if isinstance(axis, ContinuousVariable) else axis.values
            if not all(isinstance(value, int | float) and math.isfinite(value) for value in values):
                raise InvalidInput(f"variable {name!r} must have finite numbers as its values, got {list(values)}")

    @property
    def policy(self) -> Policy:
        """The policy."""
        return self._session.policy

    @property
    def position(self) -> Point:
        """Present setting of the machine, by the names of its axes."""
        return self._point(self._session.where.action)

    @property
    def pending(self) -> list[int]:
        """Ids of the suggestions that wait for their result, oldest first."""
        return [entry.decision.round for entry in self._session.pending]

    def observe(self, **context: float) -> None:
        """Set contextual variables; they apply until newer values are observed or ingested."""
        unknown = sorted(set(context) - set(self._contextual))
        if unknown:
            raise InvalidInput(
                f"{unknown[0]!r} is not a contextual variable; the contextual ones are {self._contextual}"
            )
        self._context |= {name: float(value) for name, value in context.items()}

    def suggest(self, num_points: int | None = None) -> list[Point]:
        """Return the next settings, by default one. Several are meant to be visited one after the other."""
        count = 1 if num_points is None else whole_number(num_points, "num_points", 0)
        free = self._session.max_pending - len(self.pending)
        if count > free:
            raise InvalidInput(
                f"cannot suggest {count} points: max_pending is {self._session.max_pending} and {self.pending} are "
                "still waiting for their result; ingest them (NaN if there is none), or raise max_pending"
            )
        return [self._suggest() for _ in range(count)]

    def ingest(self, results: Sequence[Mapping[str, Any]]) -> None:
        """Learn all results, or none: those of suggestions with their ``_id``, past evaluations without."""
        found = [self._result(row) for row in results if not (_failed(row) and _id_of(row) is None)]
        told = [result.entry.decision.round for result in found if result.entry is not None]
        if len(set(told)) < len(told):
            raise InvalidInput(f"several results have the same _id: {told}; give one result for each")
        for result in found:
            if result.entry is None:
                if result.measurement is not None:
                    self._session.pilot.learn(result.action, result.context, result.measurement)
            elif result.entry.told is None:
                entry, applied = result.entry, result.applied
                where_measured = replace(entry, request=replace(entry.request, context=result.context))
                self._session.learn(where_measured, result.measurement, applied)
                # What was asked stays in the entry as it was asked.
                self._session.entries[entry.decision.round] = entry.with_tell(result.measurement, applied)
            self._context |= dict(zip(self._contextual, result.context or [], strict=True))

    def explain(self, suggestion: int) -> Explanation:
        """Explain a suggestion, by its id, as data and in words."""
        entry = self._session.entry(f"r{suggestion}")
        return entry.explain(self.problem, maximise=maximises(self._session.pilot.model))

    def save(self, path: str | Path) -> None:
        """Write the whole state to a file, atomically."""
        state, arrays = self._session.snapshot()
        archive.write_file(Path(path), archive.pack({**state, "observed": self._context}, arrays))

    def load(self, path: str | Path) -> None:
        """Continue from a saved state, in a generator made with the same arguments, with bit-identical suggestions."""
        state, arrays = archive.unpack(archive.read_file(Path(path)), str(path))
        identity = asdict(self._session.identity())
        saved = state.get("identity") or {}
        different = [name for name in identity if saved.get(name) != identity[name]]
        if different:
            raise InvalidInput(
                f"{path} was saved by another generator: its {different[0]} is {saved.get(different[0])!r}, and that "
                f"of this one is {identity[different[0]]!r}; make this one with the same arguments"
            )
        self._session.restore(state, arrays)
        self._context = dict(state["observed"])

    # -- inside --------------------------------------------------------------------------------------------------------

    def _suggest(self) -> Point:
        if self._read is not None:
            self.observe(**self._read())
        missing = [name for name in self._contextual if name not in self._context]
        if missing:
            raise InvalidInput(
                f"the value of {missing[0]!r} is not known yet; call observe({missing[0]}=...), give context=, or "
                "ingest a row"
            )
        context = [self._context[name] for name in self._contextual] or None
        choice, entry = self._session.decide(Request.of(self.problem, context, None, None, None))
        self._session.accept(choice, entry)
        seen = {name: self._context[name] for name in self._contextual if self._suggests_context}
        constants = {name: constant.value for name, constant in self.vocs.constants.items()}
        return {**self._point(entry.decision.action), **seen, **constants, "_id": entry.decision.round}

    def _result(self, row: Mapping[str, Any]) -> Result:
        known = _id_of(row)
        entry = None if known is None else self._suggested(known)
        if entry is not None and not self._suggests_context:
            row = {**dict(zip(self._contextual, entry.request.context or [], strict=True)), **row}
        if _failed(row):
            row = {**row, self._objective: math.nan}
        for name in (*self.vocs.variables, self._objective):
            if name not in row:
                raise InvalidInput(
                    f"a result must contain all variables and the objective, but {name!r} is not in {dict(row)}"
                )
        context = [_number(row, name) for name in self._contextual] or None
        if context is not None and not np.isfinite(context).all():
            raise InvalidInput(f"contextual variables must be finite numbers, got {dict(row)}")
        value = _number(row, self._objective, "; NaN if it was not measured")
        measurement = value if math.isfinite(value) else None
        result = Result(entry, self._nearest(row), context, measurement)
        if entry is not None and entry.told not in (None, (measurement, result.applied)):
            raise InvalidInput(
                f"another result with _id {known} was ingested before, {entry.told}; each result counts only once"
            )
        return result

    def _suggested(self, known: int) -> Entry:
        try:
            return self._session.entry(f"r{known}")
        except InvalidInput as error:
            raise InvalidInput(f"{error}; rows that this generator did not suggest are ingested without _id") from None

    def _nearest(self, values: Mapping[str, Any]) -> int:
        """The action nearest to these settings, along each axis."""
        nearest: dict[str, float] = {}
        for name, axis in self._axes.items():
            value = _number(values, name)
            points = np.array(axis, dtype=np.float64)
            reach = np.diff(points).max() if len(points) > 1 else 0.0
            if not points[0] - reach / 2 <= value <= points[-1] + reach / 2:
                raise InvalidInput(
                    f"{name}={value:g} is not on the grid, which extends from {points[0]:g} to {points[-1]:g}"
                )
            nearest[name] = float(points[int(np.argmin(np.abs(points - value)))])
        return self._grid.index(**nearest)

    def _point(self, action: int) -> Point:
        places = np.unravel_index(action, self._grid.shape)
        return {name: axis[int(k)] for (name, axis), k in zip(self._axes.items(), places, strict=True)}

    def _by_axis(self, scale: float | Mapping[str, float]) -> float | list[float]:
        if not isinstance(scale, Mapping):
            return scale
        return [float(scale.get(name, 1.0)) for name in self._axes]


def _settings(vocs: VOCS) -> dict[str, Any]:
    """The variables that can be set."""
    return {name: axis for name, axis in vocs.variables.items() if not isinstance(axis, ContextualVariable)}


def _axis(name: str, axis: Any, points: int | Mapping[str, int]) -> list[Any]:
    """Values along a variable, ascending; a discrete one keeps the user's own numbers."""
    if isinstance(axis, DiscreteVariable):
        return sorted(axis.values)
    count = points.get(name, POINTS) if isinstance(points, Mapping) else points
    low, high = axis.domain
    return [float(value) for value in np.linspace(low, high, whole_number(count, f"points along {name!r}", 2))]


def _defaults(vocs: VOCS, axes: Mapping[str, list[Any]]) -> dict[str, float]:
    given = {name: vocs.variables[name].default_value for name in axes}
    return {name: axis[len(axis) // 2] if given[name] is None else given[name] for name, axis in axes.items()}


def _check_names(what: str, given: Any, settings: Mapping[str, Any]) -> None:
    unknown = sorted(set(given) - set(settings)) if isinstance(given, Mapping) else []
    if unknown:
        raise InvalidInput(f"{what} names {unknown[0]!r}, which is not one of the settings {list(settings)}")


def _id_of(row: Mapping[str, Any]) -> int | None:
    """The id of the suggestion; None for a past evaluation. A column of a data frame holds floats, and NaN for none."""
    known = row.get("_id")
    if isinstance(known, float) and (known.is_integer() or math.isnan(known)):
        known = None if math.isnan(known) else int(known)
    return None if known is None else whole_number(known, "_id", 0)


def _failed(row: Mapping[str, Any]) -> bool:
    """Whether the one who drives says that the evaluation failed: Xopt in one way, Optimas in another."""
    mark = row.get("xopt_error")  # NaN, in a table where other rows have one
    return (isinstance(mark, bool | np.bool_) and bool(mark)) or getattr(row.get("_status"), "name", "") == "FAILED"


def _number(row: Mapping[str, Any], name: str, remedy: str = "") -> float:
    try:
        return float(row[name])
    except (TypeError, ValueError):
        raise InvalidInput(f"{name!r} must be a number, got {shown(row[name])}{remedy}") from None
