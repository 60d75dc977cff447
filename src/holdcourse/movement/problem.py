"""The problem: a finite set of actions and what it costs to move between them.

This is the gate where the user's arrays are checked; further inside nobody checks again.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence, Sized
from copy import copy
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import check_index, flag, float_array, is_finite, require_finite
from holdcourse.errors import InvalidInput, InvalidMetric, NoActionLeft, TooLarge, counted, plain, shown
from holdcourse.movement.grid import Grid, grid
from holdcourse.movement.knob import Knob
from holdcourse.movement.metric import (
    check_metric,
    checked_square,
    matrix_from_callable,
    require_distinct,
    with_fixed_cost,
)
from holdcourse.movement.points import NORM_CODES, Points, blocks_norm
from holdcourse.movement.prices import Prices, priced_grid
from holdcourse.movement.settings import index_of, smallest_steps, text_of
from holdcourse.units import beside, known

__all__ = ["METRIC_NAMES", "Grid", "Metric", "MetricName", "Problem", "grid"]


Array: TypeAlias = NDArray[np.float64]
MetricName: TypeAlias = Literal["euclidean", "cityblock", "chebyshev"]
Metric: TypeAlias = MetricName | ArrayLike | Callable[[Any, Any], float]

METRIC_NAMES = ("euclidean", "cityblock", "chebyshev")
KNOBS = "knobs"  # the metric of a grid whose knobs say what turning them costs
MAX_MATRIX_ACTIONS = 20_000  # the (n, n) matrix would take 3.2 GB
MATRIX_ACTIONS = 2_000  # up to here single distances are read from the matrix too


class Problem:
    """A finite set of actions with the cost of moving between them.

    Units do not change decisions. They are shown, and a value that is given with another unit is converted.

    Parameters
    ----------
    actions
        Coordinates, shape (n,) or (n, d); a `Grid`; or None with a matrix metric. With a callable metric
        also any sequence of n things, which are then the labels.
    metric
        "euclidean", "cityblock" or "chebyshev" on the coordinates; an (n, n) matrix; or a callable ``metric(value_a,
        value_b) -> cost``. On a grid whose knobs have prices (see `knob`), a move costs the sum of the prices or, with
        "chebyshev", the largest of them.
    scale
        Movement cost per unit of each coordinate (one number, or one per axis), or a price as text, such as
        "20 Wh/m". Prices of knobs are multiplied by it.
    fixed_cost
        Cost that every move has in addition (start-up, wear), also as text: "0.5 EUR per change". The sum is still a
        metric.
    directed
        Whether a move and its reverse may have different costs. The triangle inequality is still required.
    labels
        Names of the actions, all different, which people see and write instead of the coordinates.
    unit
        Unit of the settings: "°C", "m"; one for all axes, or one per axis.
    cost_unit
        Unit of costs, which is that of the measurements: "kWh", "EUR". Prices with other units are converted.
    context_names, context_units
        Names of the numbers of a context, and their units.

    Examples
    --------
    >>> import holdcourse as hc
    >>> altitudes = hc.Problem([100.0, 200.0, 400.0], scale=0.5)
    >>> altitudes.distance(0, 2)
    150.0
    >>> hc.Problem([100.0, 200.0, 400.0], unit="m", scale="20 Wh/m", cost_unit="kWh").distance(0, 2)
    6.0
    >>> knobs = hc.grid(workers=hc.knob([1, 2, 4], change="30 s"), log=hc.knob(["off", "on"], change="1 s"))
    >>> hc.Problem(knobs, cost_unit="s").distance(0, 5)
    31.0
    """

    def __init__(
        self,
        actions: ArrayLike | Grid | Sequence[Any] | None = None,
        metric: Metric = "euclidean",
        *,
        scale: ArrayLike = 1.0,
        fixed_cost: float | str = 0.0,
        directed: bool = False,
        labels: Sequence[Any] | None = None,
        unit: str | Sequence[str] = "",
        cost_unit: str = "",
        context_names: Sequence[str] | None = None,
        context_units: Sequence[str] | None = None,
    ) -> None:
        self.directed = flag(directed, "directed")
        self._grid = actions if isinstance(actions, Grid) else None
        self.has_coordinates = actions is not None  # or they are only numbered
        self.metric_name: str
        self._at_once = False  # whether of several knobs the dearest counts
        matrix: Array | None = None
        if isinstance(metric, str):
            if self._grid is not None and self._grid.is_priced and metric in METRIC_NAMES:
                self._at_once, metric = metric == "chebyshev", KNOBS
            elif metric not in METRIC_NAMES:
                raise InvalidInput(
                    f"metric {metric!r} is not known; use one of {list(METRIC_NAMES)}, a matrix or a callable"
                )
            self.metric_name = metric
            _require_prices(self._grid)
            self.actions = _checked_coordinates(actions)
        elif callable(metric):
            self.metric_name = "callable"
            values, self.actions, names = _values_for_callable(actions, labels)
            self.has_coordinates = names is labels
            labels = names
            matrix = matrix_from_callable(metric, values)
        else:
            self.metric_name = "matrix"
            matrix = checked_square(metric)
            if actions is None:
                actions = np.arange(len(matrix))
            self.actions = _checked_coordinates(actions)
            if len(self.actions) != len(matrix):
                raise InvalidInput(
                    f"the metric matrix must have {counted(len(self.actions), 'row')} and as many columns, one of each "
                    f"per action, got shape {matrix.shape}"
                )

        self.n = len(self.actions)
        axes = self.actions.shape[1]
        if self.metric_name == KNOBS and any(isinstance(each, str) for each in np.atleast_1d(np.array(scale, object))):
            raise InvalidInput(f"these knobs have prices of their own; give scale as a number, got {shown(scale)}")
        priced = Prices.of(scale, fixed_cost, _checked_units(unit, axes), _checked_text(cost_unit, "cost_unit"))
        scale, self.units, self.cost_unit = priced.scale, priced.units, priced.cost_unit
        self.context_names = _checked_texts(context_names, "context_names")
        self.context_units = _checked_texts(context_units, "context_units")
        names, units = self.context_names, self.context_units
        if names is not None and units is not None and len(names) != len(units):
            raise InvalidInput(
                f"context_units must be {counted(len(names), 'unit')}, one for each name in context_names, got "
                f"{len(units)}"
            )
        self.fixed_cost = _checked_fixed_cost(priced.fixed_cost)
        self.scale = _checked_scale(scale, self.actions.shape[1], self.metric_name)
        if self._grid is not None:
            self._grid = priced_grid(self._grid, self.units, self.cost_unit)
        self.labels = _checked_labels(labels, self.n)
        if matrix is None and self.metric_name != KNOBS:  # whose values are distinct, at prices above 0
            require_distinct(self.actions, self.scale)
        elif matrix is not None:
            check_metric(matrix, directed=self.directed)
            self._metric_matrix = matrix
            self.__dict__["distances"] = _frozen(with_fixed_cost(matrix, self.fixed_cost))  # fills the cached property

    @cached_property
    def coordinates(self) -> Array:
        """The space in which a named metric measures: the actions times `scale`, (n, d), or the points of knobs."""
        if self.metric_name != KNOBS:
            return _frozen(self.actions * self.scale)
        grid, (order, _) = self._knobs, self._blocks
        spread = grid.spread([knob.columns * factor for knob, factor in zip(grid.knobs, self.scale, strict=True)])
        return _frozen(np.ascontiguousarray(spread[:, order]))

    @cached_property
    def _blocks(self) -> tuple[list[int], int]:
        """The columns of the knobs in blocks of knobs that are turned together, and their norm."""
        widths = [knob.columns.shape[1] for knob in self._knobs.knobs]
        blocks = self.blocks
        order = [sum(widths[:axis]) + column for block in blocks for axis in block for column in range(widths[axis])]
        return order, blocks_norm([sum(widths[axis] for axis in block) for block in blocks])

    @property
    def blocks(self) -> list[list[int]]:
        """Groups of axes that are turned together: in each group only the most expensive change is paid."""
        return self._knobs.blocks(at_once=self._at_once)

    @property
    def _knobs(self) -> Grid:
        assert self._grid is not None  # of the metric of knobs
        return self._grid

    @cached_property
    def features(self) -> Array:
        """Inputs of a kernel over the actions, (n, c): their coordinates, and columns for the names of categories.

        A category of two names has one column, 0 or 1; with more names, each has one, 0 or the root of one half. So two
        settings that differ in the category alone are 1 apart.
        """
        if self._grid is None or not self._grid.has_categories:
            return self.actions
        return _frozen(self._grid.spread([knob.features for knob in self._grid.knobs]))

    @property
    def has_named_metric(self) -> bool:
        """Whether moves are priced by coordinates, or by knobs that have prices, and not by a matrix or a function."""
        return self.metric_name in (*METRIC_NAMES, KNOBS)

    @cached_property
    def points(self) -> Points | None:
        """The actions as points, by which moves are priced without a matrix; None if the metric is not a named one."""
        if not self.has_named_metric:
            return None
        if self.metric_name == KNOBS:
            return Points(self.coordinates, self._blocks[1], self.fixed_cost, self._cheapest_turns, self._box_sides)
        return Points(self.coordinates, NORM_CODES[self.metric_name], self.fixed_cost)

    @property
    def _cheapest_turns(self) -> Array | None:
        """What the cheapest turn of one knob costs from each setting, (n,): no other move is cheaper.

        None if a knob has too many values to compare all of them.
        """
        if max(self._knobs.shape) > MATRIX_ACTIONS:
            return None
        cheapest = np.full(self._knobs.shape, np.inf)
        for axis, (knob, factor) in enumerate(zip(self._knobs.knobs, self.scale, strict=True)):
            columns = knob.columns * factor
            apart = np.abs(columns[:, None] - columns[None]).max(axis=2)
            np.fill_diagonal(apart, np.inf)
            along = [1] * len(self._knobs.shape)
            along[axis] = len(columns)
            np.minimum(cheapest, apart.min(axis=1).reshape(along), out=cheapest)
        return _frozen(cheapest.reshape(-1))

    @property
    def _box_sides(self) -> tuple[Array, NDArray[np.int64], Array]:
        """By what boxes of settings are halved; see `Points.sides`.

        Whoever looks for settings within a radius should leave out those of other names at once. So boxes are halved
        by one name after the other, the dearest first, and by a knob with names before one along which a step costs
        less than about a quarter. Settings at one place of a knob are told apart by the knobs whose turn comes later,
        or a box of few names would hold a little of everything.
        """
        places, gaps, when = [], [], []
        for axis, (knob, factor) in enumerate(zip(self._knobs.knobs, self.scale, strict=True)):
            columns = knob.columns * factor
            named = columns.shape[1] > 1  # or numbers with a price for any change: none lies between others
            along = np.linspace(0.0, columns.max(), len(columns)) if named else columns[:, 0]
            cheapest = np.diff(np.sort(along)).min(initial=np.inf) if knob.jump is None else knob.jump * factor
            places.append(along)
            gaps.append(float(np.diff(np.sort(along)).min(initial=np.inf)))
            coarseness = -int(np.log(cheapest) // np.log(4.0)) if np.isfinite(cheapest) else 0
            when.append((coarseness, 0, axis) if named else (coarseness, 1, 0))
        turns = [sorted(set(when)).index(each) for each in when]
        shape, order = self._knobs.shape, np.argsort(turns, kind="stable")
        ranks = [np.argsort(np.argsort(along)).astype(np.float64) for along in places]
        number = np.zeros(shape)  # of each setting, the first turn counting most
        for axis in order:
            number = number * shape[axis] + ranks[axis].reshape([-1 if k == axis else 1 for k in range(len(shape))])
        alike = np.where(np.isfinite(gaps), gaps, 0.0) / 2.0
        spread = self._knobs.spread([along[:, None] for along in places])
        return spread + 0.98 * alike * (number.reshape(-1, 1) / self.n), np.array(turns, dtype=np.int64), alike

    @cached_property
    def distances(self) -> Array:
        """Cost of each move, from row to column; shape (n, n). For up to 20,000 actions; see `costs_from`."""
        require_matrix_fits(self.n)
        if self.metric_name == KNOBS:
            points = Points(self.coordinates, self._blocks[1], 0.0)
            matrix = np.array([points.row(action) for action in range(self.n)])
        else:
            from scipy.spatial.distance import cdist

            matrix = cdist(self.coordinates, self.coordinates, self.metric_name)
        if np.count_nonzero(matrix) < self.n * (self.n - 1) or not np.isfinite(matrix.max()):
            i, j = (int(k) for k in np.argwhere(~np.isfinite(matrix) | (matrix == 0) & ~np.eye(self.n, dtype=bool))[0])
            raise InvalidMetric(
                f"the distance between actions {i} and {j}, at {self.actions[i].tolist()} and "
                f"{self.actions[j].tolist()}, is {matrix[i, j]:g} in floating point; give actions in another unit",
                (i, j),
            )
        return _frozen(with_fixed_cost(matrix, self.fixed_cost))

    @cached_property
    def symmetric_distances(self) -> Array:
        """The metric that trees are built on: `distances`, or for directed costs their mean over both directions.

        The mean of a directed metric and its transpose satisfies the triangle inequality by itself.
        """
        return _frozen((self.distances + self.distances.T) / 2) if self.directed else self.distances

    def distance(self, i: int, j: int) -> float:
        """Return what the move from action i to action j costs."""
        self.check_action(i)
        self.check_action(j)
        if self._reads_matrix:  # one entry of it is read every round
            return float(self.distances[i, j])
        return float(self._move_costs(np.array([i]), np.array([j]))[0])

    def move_costs(self, before: NDArray[np.int64], after: NDArray[np.int64]) -> Array:
        """Return what each of several moves costs, from before[k] to after[k]; shape (k,)."""
        here, there = (self._checked_places(given, what) for given, what in ((before, "before"), (after, "after")))
        if here.shape != there.shape:
            raise InvalidInput(f"moves need as many actions before as after, got {len(here)} and {len(there)}")
        return self._move_costs(here, there)

    def _move_costs(self, before: NDArray[np.int64], after: NDArray[np.int64]) -> Array:
        if self._reads_matrix or self.points is None:
            moved: Array = self.distances[before, after]
            return moved
        return self.points.costs(before, after)

    def costs_from(self, action: int) -> Array:
        """Return what moving from an action to each action costs, shape (n,); found without the matrix."""
        self.check_action(action)
        return self.distances[action] if self._reads_matrix or self.points is None else self.points.row(action)

    def costs_to(self, action: int) -> Array:
        """Return what moving to an action from each action costs, shape (n,); found without the matrix."""
        self.check_action(action)
        return self.distances[:, action] if self._reads_matrix or self.points is None else self.points.row(action)

    def nearest(self, action: int, permitted: NDArray[np.bool_]) -> int:
        """Return the permitted action (n,) from which moving to `action` costs least; in a tie, the lowest index."""
        self.check_action(action)
        permitted = np.asarray(permitted)
        if permitted.dtype != np.bool_ or permitted.shape != (self.n,):
            raise InvalidInput(
                f"permitted must be {self.n} booleans, one for each action, got {permitted.dtype} of shape "
                f"{permitted.shape}"
            )
        if not permitted.any():
            raise NoActionLeft("no action is permitted, so none is nearest; permit at least one")
        if self._reads_matrix or self.points is None:
            return int(np.argmin(np.where(permitted, self.distances[:, action], np.inf)))
        return self.points.nearest(action, permitted)

    @property
    def diameter(self) -> float:
        """Largest cost of a move; for more than 20,000 points in many dimensions perhaps an upper bound of it."""
        return float(self.distances.max()) if self._reads_matrix or self.points is None else self.points.diameter

    @property
    def _reads_matrix(self) -> bool:
        """Whether the matrix is there, or so small that it is quicker than finding distances; both give the same."""
        return "distances" in self.__dict__ or self.n <= MATRIX_ACTIONS

    def value(self, action: int) -> Any:
        """Return the action in the user's words: its label, its named grid values, or its coordinates."""
        self.check_action(action)
        if self.labels is not None:
            return self.labels[action]
        point = self.actions[action].tolist()
        if self._grid is not None:
            return self._grid.value(action)
        return point[0] if len(point) == 1 else tuple(point)

    def index(self, setting: Any) -> int:
        """Return the action that people call `setting`: its label, a number, a point, or grid values by name.

        Numbers match within a relative 1e-9, labels letter by letter. Anything else is an error that names the nearest.

        Examples
        --------
        >>> import holdcourse as hc
        >>> hc.Problem([100.0, 200.0, 400.0]).index(200)
        1
        >>> hc.Problem([0, 1, 2], labels=["low", "middle", "high"]).index("high")
        2
        """
        return index_of(self, setting)

    def text(self, action: int) -> str:
        """Return the action as people read it, with as many digits as it takes to tell it from the others."""
        return text_of(self, action)

    def named(self, action: int) -> str:
        """Return the action as people read it, with its unit: "20 °C", "(1, 2) m", "eco"."""
        if self.labels is not None or not any(self.units):
            return self.text(action)
        if len(set(self.units)) == 1 and self.axis_names is None:
            return beside(self.text(action), self.units[0])
        parts = self.text(action).strip("()").split(", ")
        named = (beside(part, unit) for part, unit in zip(parts, self.units, strict=True))
        return ", ".join(named) if self.axis_names is not None else f"({', '.join(named)})"

    def cost(self, amount: str) -> str:
        """Return the text of a cost with its unit, if the problem has one."""
        return beside(amount, self.cost_unit)

    def with_units(
        self,
        unit: str | Sequence[str],
        cost_unit: str,
        context_names: Sequence[str] | None = None,
        context_units: Sequence[str] | None = None,
    ) -> Problem:
        """Return the same problem in which numbers are shown with these units; nothing is converted."""
        shown = copy(self)
        shown.units, shown.cost_unit = _checked_units(unit, self.actions.shape[1]), _checked_text(cost_unit, "unit")
        shown.context_names = _checked_texts(context_names, "context_names")
        shown.context_units = _checked_texts(context_units, "context_units")
        return shown

    @property
    def axis_names(self) -> tuple[str, ...] | None:
        """Names of the axes of a grid; None if there is none."""
        return None if self._grid is None else self._grid.names

    @property
    def knobs(self) -> tuple[Knob, ...] | None:
        """The knobs along the axes of a grid; None if there is none."""
        return None if self._grid is None else self._grid.knobs

    @cached_property
    def smallest_steps(self) -> Array:
        """The smallest difference between two values on each axis, 0 where there is only one; shape (d,)."""
        return _frozen(smallest_steps(self.actions))

    @property
    def in_groups(self) -> bool:
        """Whether the actions are not listed, but are combinations of groups; see `holdcourse.movement.knobs`."""
        return False

    @property
    def parts(self) -> tuple[slice, ...]:
        """Slices of an array by action: one here, and one for each group in `Knobs`."""
        return (slice(0, self.n),)

    @property
    def entries(self) -> int:
        """Length of every array by action."""
        return self.n

    def read(self, array: Array, action: int) -> float:
        """Return what an array by action says of an action."""
        return float(array[action])

    def permits(self, mask: NDArray[np.bool_], action: int) -> bool:
        """Return whether a mask permits an action."""
        return bool(mask[action])

    def any_permitted(self, mask: NDArray[np.bool_]) -> bool:
        """Return whether a mask permits any action."""
        return all(bool(mask[part].any()) for part in self.parts)

    def entry_value(self, entry: int) -> Any:
        """Return what an entry of an array by action stands for."""
        return self.value(entry)

    def check_action(self, action: int) -> None:
        """Raise unless `action` is an index 0..n-1."""
        if not (type(action) is int and 0 <= action < self.n):  # else all is well, which is most often so
            check_index(action, self.n)

    def _checked_places(self, actions: Any, what: str) -> NDArray[np.int64]:
        """Indices of actions as an array (k,); raises unless each is one of 0..n-1."""
        places = np.asarray(actions)
        if places.ndim != 1 or not (places.dtype.kind in "iu" or places.size == 0):
            raise InvalidInput(
                f"{what} must be a list of whole numbers, indices of actions, got {places.dtype} of shape "
                f"{places.shape}"
            )
        if places.size and not (places.min() >= 0 and places.max() < self.n):
            wrong = int(np.flatnonzero((places < 0) | (places >= self.n))[0])
            raise InvalidInput(f"{what}[{wrong}] is {places[wrong]}, which is not an index from 0 to {self.n - 1}")
        return places.astype(np.int64, copy=False)

    def describe(self) -> dict[str, Any]:
        """Return the problem in JSON values, from which `from_data` makes an equal one."""
        named, metric = self.has_named_metric, self.metric_name
        if metric == KNOBS:
            metric = "chebyshev" if self._at_once else "cityblock"
        follows = self._grid is not None and self.n > MAX_MATRIX_ACTIONS  # from the axes; a million rows are 40 MB
        return {
            "actions": self.actions.tolist() if self.has_coordinates and not follows else None,
            "axes": None if self._grid is None else [list(axis) for axis in zip(*self._named_axes, strict=True)],
            "metric": metric if named else self._metric_matrix.tolist(),
            "scale": self.scale.tolist() if named else 1.0,
            "fixed_cost": self.fixed_cost,
            "directed": self.directed,
            "labels": None if self.labels is None else list(self.labels),
            "unit": list(self.units),
            "cost_unit": self.cost_unit,
            "context_names": None if self.context_names is None else list(self.context_names),
            "context_units": None if self.context_units is None else list(self.context_units),
        }

    @property
    def _named_axes(self) -> tuple[tuple[str, ...], list[Any]]:
        """Names and knobs of the axes in their order, which an object of JSON would not keep."""
        return self._knobs.names, [knob.describe() for knob in self._knobs.knobs]

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Problem:
        """Read what `describe` gave."""
        if "knobs" in data:
            from holdcourse.movement.knobs import knobs  # which is a problem

            options: dict[str, Any] = {name: data[name] for name in ("groups", "fixed_cost", "cost_unit")}
            options |= {name: data.get(name) for name in ("context_names", "context_units")}
            return knobs(**options, **dict(data["knobs"]))
        return cls(
            data["actions"] if data["axes"] is None else grid(**dict(data["axes"])),
            metric=data["metric"],
            scale=data["scale"],
            fixed_cost=data["fixed_cost"],
            directed=data["directed"],
            labels=data["labels"],
            unit=data.get("unit", ""),
            cost_unit=data.get("cost_unit", ""),
            context_names=data.get("context_names"),
            context_units=data.get("context_units"),
        )

    def repriced(self, prices: Mapping[str, Any]) -> Problem:
        """Return the same settings at other prices: some of `scale`, `fixed_cost` and `metric`, by their names."""
        data = self.describe()
        if not isinstance(prices.get("metric", ""), str):  # a matrix holds the costs: the scale of before is gone
            data["scale"] = 1.0
        return Problem.from_data({**data, **prices})

    def has_settings_of(self, other: Problem) -> bool:
        """Return whether the settings are those of another problem, whatever moving between them costs."""
        if other.in_groups:
            return other.has_settings_of(self)
        return self.actions.shape == other.actions.shape and bool((self.actions == other.actions).all())

    @cached_property
    def fingerprint(self) -> str:
        """A hash that is equal for problems with the same actions and movement costs."""
        metric = self.metric_name if self.has_named_metric else "matrix"  # which is all that is left of a callable
        digest = hashlib.sha256(f"{metric} {self.fixed_cost!r} {self.directed}".encode())
        arrays = [self.actions, self.scale if self.has_named_metric else self.distances]
        if self.metric_name == KNOBS:
            digest.update(repr(self._blocks).encode())
            arrays += [knob.columns for knob in self._knobs.knobs]
        if self.features is not self.actions:
            arrays += [knob.features for knob in self._knobs.knobs]
        for array in arrays:
            digest.update(repr(array.shape).encode() + array.tobytes())
        return digest.hexdigest()[:32]

    def __repr__(self) -> str:
        parts = [f"{self.n} actions", f"metric={self.metric_name!r}"]
        parts += [f"fixed_cost={self.fixed_cost:g}"] if self.fixed_cost else []
        parts += ["directed"] if self.directed else []
        return f"Problem({', '.join(parts)})"


def mean_way(problem: Problem) -> float:
    """What a move costs in the mean over pairs of some actions, spread over all of them."""
    some = np.unique(np.linspace(0, problem.n - 1, 64).astype(int))
    return float(problem.move_costs(np.repeat(some, len(some)), np.tile(some, len(some))).mean())


def require_matrix_fits(n: int) -> None:
    """Raise where the (n, n) matrix of movement costs would be too large."""
    if n > MAX_MATRIX_ACTIONS:
        raise TooLarge(
            f"the distance matrix of {n} actions would take {n**2 * 8 / 1e9:.0f} GB; use at most {MAX_MATRIX_ACTIONS} "
            "actions (a coarser grid), or a named metric, for which distance(i, j) gives single moves and "
            "costs_from(i) all moves from an action"
        )


def _frozen(array: Array) -> Array:
    array.setflags(write=False)
    return array


def _checked_coordinates(actions: Any) -> Array:
    if actions is None:
        raise InvalidInput(
            "actions are missing: give a list of numbers or of points, or the matrix of all movement costs as metric"
        )
    points = actions.coordinates if isinstance(actions, Grid) else float_array(actions, "actions")
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2 or points.size == 0:
        raise InvalidInput(f"actions must have shape (n,) or (n, d) with n >= 1 and d >= 1, got {points.shape}")
    require_finite(points, "actions")
    return _frozen(points)


def _require_prices(grid: Grid | None) -> None:
    """Raise where a knob has names but no price, which only a metric of one's own can give then."""
    for name, knob in zip(grid.names, grid.knobs, strict=True) if grid is not None else ():
        if knob.is_named and not knob.is_priced:
            raise InvalidInput(
                f"axis {name!r} has names; say what changing it costs, such as {name}=hc.knob({list(knob.values)}, "
                "change=30.0), or give the costs of all moves as a matrix"
            )


def _values_for_callable(actions: Any, labels: Sequence[Any] | None) -> tuple[list[Any], Array, Sequence[Any] | None]:
    """Return what the callable is asked about, coordinates, and labels. Things without coordinates label themselves."""
    count = actions.size if isinstance(actions, Grid) else len(actions) if hasattr(actions, "__len__") else 0
    require_matrix_fits(count)  # before a value is made for each action
    if isinstance(actions, Grid):
        names = actions.names
        return (
            [dict(zip(names, point, strict=True)) for point in itertools.product(*(k.values for k in actions.knobs))],
            _checked_coordinates(actions),
            labels,
        )
    if actions is None or isinstance(actions, (str, Mapping)):
        raise InvalidInput("a metric that is a function needs the actions as a list; give actions=[...]")
    values = [plain(value) if isinstance(value, np.number) else value for value in actions]  # which may overflow
    require_matrix_fits(len(values))
    try:
        return values, _checked_coordinates(values), labels
    except InvalidInput:
        if not values or all(isinstance(v, (int, float, np.ndarray)) for v in values):
            raise
        return (
            values,
            _frozen(np.arange(len(values), dtype=np.float64)[:, None]),
            labels if labels is not None else values,
        )


def _checked_text(text: Any, what: str) -> str:
    if not isinstance(text, str):
        raise InvalidInput(f"{what} must be text, such as 'kWh', got {shown(text)}")
    return known(text)


def _checked_units(unit: Any, axes: int) -> tuple[str, ...]:
    if isinstance(unit, str):
        return (known(unit),) * axes
    if not isinstance(unit, Sequence) or len(unit) != axes:
        raise InvalidInput(f"unit must be one unit or {axes} (one per coordinate), got {shown(unit)}")
    return tuple(_checked_text(each, "unit") for each in unit)


def _checked_texts(names: Any, what: str) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(each, str) for each in names):
        raise InvalidInput(f"{what} must be a list of words, one for each number of a context, got {shown(names)}")
    return tuple(names)


def _checked_fixed_cost(fixed_cost: float) -> float:
    if not (is_finite(fixed_cost) and fixed_cost >= 0):
        raise InvalidInput(f"fixed_cost must be 0 or more, got {shown(fixed_cost)}")
    return float(fixed_cost)


def _checked_scale(scale: ArrayLike, dimensions: int, metric_name: str) -> Array:
    factors = float_array(scale, "scale")
    if factors.ndim > 1 or factors.size not in (1, dimensions):
        raise InvalidInput(f"scale must be one number or {dimensions} (one per coordinate), got shape {factors.shape}")
    if not (np.isfinite(factors) & (factors > 0)).all():
        same = "; if every change costs the same, give fixed_cost= and a small scale=" if (factors == 0).any() else ""
        raise InvalidInput(f"scale must be positive, got {shown(factors.tolist())}{same}")
    if metric_name not in (*METRIC_NAMES, KNOBS) and (factors != 1.0).any():
        raise InvalidInput(
            "scale belongs to a named metric; a matrix or a function gives the costs already, so multiply them there"
        )
    return _frozen(np.broadcast_to(factors, (dimensions,)).copy())


def check_problem(problem: Any) -> None:
    """Raise unless it is a problem."""
    if not isinstance(problem, Problem):
        raise InvalidInput(f"problem must be a Problem, such as hc.Problem([0, 1, 2]), got {shown(problem)}")


def _is_plain_number(label: Any) -> bool:
    return isinstance(label, int | float | np.number) and not isinstance(label, bool) and is_finite(label)


def _checked_labels(labels: Sequence[Any] | None, n: int) -> tuple[Any, ...] | None:
    if labels is None:
        return None
    if not isinstance(labels, Sized) or getattr(labels, "shape", None) == ():
        raise InvalidInput(f"labels must be a list of {n} names, got {shown(labels)}")
    if len(labels) != n:
        raise InvalidInput(f"labels must be {counted(n, 'name')}, one per action, got {len(labels)}")
    # 1 and 1.0 are the same name, True and "1" are others.
    names = [repr(float(label) if _is_plain_number(label) else plain(label)) for label in labels]
    if len(set(names)) < n:
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"two actions have the label {twice}; give each a label of its own")
    return tuple(labels)
