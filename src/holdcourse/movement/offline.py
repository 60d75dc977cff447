"""What hindsight would have done: the clairvoyant optimum, the best fixed action, and the work function algorithm.

All rest on one step: the cheapest move into every action after one move, by a matrix, by sweeps along the axes of a
grid, or by a search among points (`Moves`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse._numeric import minplus
from holdcourse.checks import float_array, one_number, whole_number
from holdcourse.errors import InvalidInput, counted, shown
from holdcourse.movement.knob import Knob
from holdcourse.movement.points import Points
from holdcourse.movement.problem import KNOBS, METRIC_NAMES, Problem, check_problem

__all__ = [
    "TIE_TOLERANCE",
    "GridMoves",
    "MatrixMoves",
    "Moves",
    "PointMoves",
    "PricedPath",
    "best_fixed",
    "movement",
    "optimal_path",
    "price_path",
    "work_function",
    "work_function_step",
]


Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
Method: TypeAlias = Literal["auto", "dense", "pruned", "search", "sweep"]

METHODS = ("auto", "dense", "pruned", "search", "sweep")
FEW = 256  # settings of knobs, up to which a matrix is quicker than sweeps
SEARCHED = 5_000  # actions with coordinates, above which sources are searched without a matrix
TIE_TOLERANCE = 1e-12  # relative; costs this close are a tie. Rounding differs by less than that between methods


class Moves(Protocol):
    """A problem's movement costs in the form that the kernels read."""

    def row(self, action: int) -> Array:
        """Return what moving from `action` to each action costs, shape (n,)."""
        ...

    def relax(self, values: Array) -> Array:
        """Return the smallest values[y] + cost(y to x) over all y, for every x; shape (n,)."""
        ...

    def best_actions(self, costs: Array, lowest: Array, start: int) -> Indices:
        """Return the cheapest path through costs (T, n) from `start` (-1: free)."""
        ...


def movement(problem: Problem, method: Method = "auto") -> Moves:
    """Prepare the movement costs of `problem` for min-plus steps; `method` as in `optimal_path`."""
    if not (isinstance(method, str) and method in METHODS):
        raise InvalidInput(f"method {shown(method)} is not known; use one of {list(METHODS)}")
    grid = GridMoves.find(problem) if method in ("auto", "sweep") else None
    if grid is None and (method == "sweep" or (method == "auto" and problem.n > FEW)):
        knobs = KnobMoves.find(problem)
        if knobs is not None:
            return knobs
    if grid is not None:
        return grid
    if method == "sweep":
        raise InvalidInput(
            f"method 'sweep' needs actions on a line, a full grid with metric='cityblock' or knobs with plain "
            f"prices, got {problem!r} with coordinates of shape {problem.actions.shape}; use method='auto'"
        )
    points = problem.points
    if method == "search" and points is None:
        raise InvalidInput(f"method 'search' needs coordinates and a named metric, got {problem!r}; use method='auto'")
    if points is not None and (method == "search" or (method == "auto" and problem.n > SEARCHED)):
        return PointMoves(points)
    return MatrixMoves(problem.distances, pruned=method != "dense")


@dataclass(frozen=True, eq=False)
class MatrixMoves:
    """Movement costs as a matrix, from row to column."""

    distances: Array  # (n, n)
    pruned: bool

    @cached_property
    def _nearest(self) -> Array:
        return minplus.nearest_move(self.distances)

    @cached_property
    def _transposed(self) -> Array:
        # A copy, as the kernels read rows; unequal also by rounding, which a matrix of the user's may have.
        symmetric = np.array_equal(self.distances, self.distances.T)
        return self.distances if symmetric else read_only(np.ascontiguousarray(self.distances.T))

    def row(self, action: int) -> Array:  # noqa: D102 - see Moves
        row: Array = self.distances[action]
        return row

    def relax(self, values: Array) -> Array:  # noqa: D102
        relaxed = np.empty_like(values)
        if self.pruned:
            minplus.relax_pruned(values, self.distances, self._nearest, relaxed)
        else:
            minplus.relax_dense(values, self.distances, relaxed)
        return relaxed

    def best_actions(self, costs: Array, lowest: Array, start: int) -> Indices:  # noqa: D102
        to_go = minplus.cost_to_go_matrix(costs, lowest, self._transposed, self.pruned)
        return minplus.follow_matrix(to_go, self.distances, start, TIE_TOLERANCE)


@dataclass(frozen=True, eq=False)
class PointMoves:
    """Movement costs of points, found by search; there is no matrix."""

    points: Points

    def row(self, action: int) -> Array:  # noqa: D102 - see Moves
        return self.points.row(action)

    def relax(self, values: Array) -> Array:  # noqa: D102
        relaxed: Array = self.points.relax(values[None])[0]
        return relaxed

    def best_actions(self, costs: Array, lowest: Array, start: int) -> Indices:  # noqa: D102
        return _followed(self, costs, lowest, start)


def _followed(moves: Moves, costs: Array, lowest: Array, start: int) -> Indices:
    """The cheapest path by the moves' own steps; they must cost the same in both directions."""
    rounds, n = costs.shape
    to_go = np.empty((rounds, n))
    after = np.zeros(n)
    for t in range(rounds - 1, -1, -1):
        to_go[t] = (costs[t] - lowest[t]) + after
        after = moves.relax(to_go[t]) if t > 0 else after
    actions = np.empty(rounds, dtype=np.int64)
    row, action = np.zeros(n), start
    for t in range(rounds):
        row = moves.row(action) if action >= 0 else row
        actions[t] = action = int(minplus.cheapest_next(to_go[t], row, action, TIE_TOLERANCE))
    return actions


@dataclass(frozen=True, eq=False)
class KnobMoves:
    """Movement costs of a grid of knobs, where those turned together each cost the same however far they go.

    The costs of blocks are added, so the minimum over all sources is one minimum after the other. Of knobs turned
    together the most expensive is paid: for the price of a knob all that are as cheap may turn as well.
    """

    points: Points
    shape: tuple[int, ...]
    steps: tuple[tuple[tuple[int, Any], ...], ...]  # by block: axis, and its steps or the price of any change

    @classmethod
    def find(cls, problem: Problem) -> KnobMoves | None:
        """Return the moves of a grid of knobs; None if it is none, or needs a search."""
        points = problem.points
        if problem.metric_name != KNOBS or problem.knobs is None or points is None:
            return None
        blocks = []
        for block in problem.blocks:
            priced: list[tuple[int, Any]] = [
                (axis, _turning(problem.knobs[axis], float(problem.scale[axis]))) for axis in block
            ]
            jumps = [(axis, price) for axis, price in priced if isinstance(price, float)]
            if any(price is None for _, price in priced) or (len(jumps) < len(priced) and len(priced) > 1):
                return None
            blocks.append(tuple(sorted(jumps, key=lambda each: each[1])) if jumps else tuple(priced))
        return cls(points, tuple(len(knob.values) for knob in problem.knobs), tuple(blocks))

    def row(self, action: int) -> Array:
        return self.points.row(action)

    def relax(self, values: Array) -> Array:
        relaxed = values.copy()
        for block in self.steps:
            if not isinstance(block[0][1], float):
                axis, steps = block[0]
                inner = math.prod(self.shape[axis + 1 :])
                minplus.sweep_axis(relaxed, self.shape[axis], inner, steps)
                continue
            freed = relaxed.reshape(self.shape)
            best = freed.copy()
            for axis, price in block:
                freed = freed.min(axis=axis, keepdims=True)
                np.minimum(best, freed + price, out=best)
            relaxed = best.reshape(-1)
        fixed = self.points.fixed_cost
        return np.minimum(values, relaxed + fixed) if fixed > 0 else relaxed

    def best_actions(self, costs: Array, lowest: Array, start: int) -> Indices:
        return _followed(self, costs, lowest, start)


def _turning(knob: Knob, factor: float) -> Array | float | None:
    """What turning a knob costs: the steps along it, or the price of any change; None if it is neither.

    A line whose values are not listed in their order, and a matrix of changes, are neither.
    """
    if knob.jump is not None:
        return knob.jump * factor
    if knob.columns.shape[1] > 1:
        return None
    steps = np.diff(knob.columns[:, 0] * factor)
    if len(steps) and (steps < 0).all():
        steps = -steps
    return np.ascontiguousarray(steps) if (steps > 0).all() else None


@dataclass(frozen=True, eq=False)
class GridMoves:
    """Movement costs that are a sum over the axes of a full grid, plus a fixed cost per move.

    The arrays are described in the table of `holdcourse._numeric.minplus`.
    """

    points: Array  # (d, n)
    order: Indices  # (n,)
    shape: Indices  # (d,)
    gaps: Array
    fixed_cost: float

    @classmethod
    def find(cls, problem: Problem) -> GridMoves | None:
        """Return the grid that the actions fill, in whatever order they are listed; None if there is none."""
        if problem.metric_name not in METRIC_NAMES:
            return None
        points = problem.coordinates
        axes, places = zip(*(np.unique(column, return_inverse=True) for column in points.T), strict=True)
        shape = tuple(len(axis) for axis in axes)
        on_a_line = sum(length > 1 for length in shape) <= 1  # all named metrics agree there
        # Actions are distinct, so as many as the box has places fill it.
        if math.prod(shape) != problem.n or not (on_a_line or problem.metric_name == "cityblock"):
            return None
        order = np.empty(problem.n, dtype=np.int64)
        order[np.ravel_multi_index(places, shape)] = np.arange(problem.n)
        return cls(
            points=np.ascontiguousarray(points.T),
            order=order,
            shape=np.array(shape, dtype=np.int64),
            gaps=np.concatenate([np.diff(axis) for axis in axes]),
            fixed_cost=problem.fixed_cost,
        )

    def row(self, action: int) -> Array:  # noqa: D102 - see Moves
        costs = np.empty(self.points.shape[1])
        minplus.grid_row(action, self.points, self.fixed_cost, costs)
        return costs

    def relax(self, values: Array) -> Array:  # noqa: D102
        relaxed = np.empty_like(values)
        minplus.relax_grid(values, self.order, self.shape, self.gaps, self.fixed_cost, relaxed)
        return relaxed

    def best_actions(self, costs: Array, lowest: Array, start: int) -> Indices:  # noqa: D102
        to_go = minplus.cost_to_go_grid(costs, lowest, self.order, self.shape, self.gaps, self.fixed_cost)
        return minplus.follow_grid(to_go, self.points, self.fixed_cost, start, TIE_TOLERANCE)


def read_only(array: Array) -> Array:
    """Return a view that is never written to: one type for the kernels, whatever the caller's array allows."""
    view = array.view()
    view.setflags(write=False)
    return view


@dataclass(frozen=True, eq=False)
class PricedPath:
    """A sequence of actions and what it cost.

    Attributes
    ----------
    actions
        The action of each round, shape (T,).
    service
        Sum of the service costs at these actions.
    movement
        Sum of the movement costs between them, and from the start if one was given.

    Examples
    --------
    >>> import holdcourse as hc
    >>> path = hc.optimal_path([[0, 5], [3, 0], [0, 5]], hc.Problem([0.0, 1.0]), start=0)
    >>> path.actions.tolist(), path.service, path.movement, path.total
    ([0, 1, 0], 0.0, 2.0, 2.0)
    """

    actions: Indices
    service: float
    movement: float

    @property
    def total(self) -> float:
        """Service plus movement."""
        return self.service + self.movement


def optimal_path(
    costs: ArrayLike, problem: Problem, start: int | None = None, *, method: Method = "auto"
) -> PricedPath:
    """Return the cheapest action sequence when all costs are known in advance.

    Parameters
    ----------
    costs
        Service costs, shape (T, n); +inf forbids an action in that round. T = 0 gives the empty path.
    problem
        The actions and what moving between them costs.
    start
        The action before the first round; moving from it is paid. None: the first action is free to choose.
    method
        How the minimum over all moves is computed; the path does not depend on it.
        "dense" takes every pair; "pruned" skips sources that the triangle inequality rules out; "sweep" runs along
        the axes, for actions on a line, for full grids under "cityblock" and for most grids of knobs; "search" looks
        for sources in a tree of boxes, for named metrics. The last two need no distance matrix. "auto" is "sweep" if it
        applies, else "pruned", or "search" for more than 5,000 actions with coordinates.

    Returns
    -------
    PricedPath
        In each round it stays where it is if that is optimal, and else takes the optimal action of lowest index.
        Costs to go within a relative 1e-12 count as equal, so the total is at most a factor 1 + T * 1e-12 above
        the optimum (with each round's smallest cost set to 0). A matrix that breaks the triangle inequality within
        the tolerance of `Problem` can add as much to the result of "pruned".

    Examples
    --------
    >>> import holdcourse as hc
    >>> problem = hc.Problem([0.0, 1.0])
    >>> hc.optimal_path([[0, 5], [3, 0], [0, 5]], problem, start=0).actions
    array([0, 1, 0])
    """
    checked, lowest = _checked_costs(costs, problem)
    if start is not None:
        problem.check_action(start)
    moves = movement(problem, method)
    actions = moves.best_actions(checked, lowest, -1 if start is None else int(start))
    return _priced(actions, checked, problem, start)


def price_path(actions: ArrayLike, costs: ArrayLike, problem: Problem, start: int | None = None) -> PricedPath:
    """Return what a given action sequence costs.

    Parameters
    ----------
    actions
        Index of the action of each round, shape (T,).
    costs, problem
        As in `optimal_path`. A forbidden action (+inf) is an error.
    start
        The action before the first round; moving from it is paid. None: the first move is free.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.price_path([0, 1, 1], [[0, 5], [3, 0], [0, 5]], hc.Problem([0.0, 1.0])).total
    6.0
    """
    checked, _ = _checked_costs(costs, problem)
    if start is not None:
        problem.check_action(start)
    try:
        taken = np.asarray(actions).reshape(-1).tolist()
    except ValueError:
        raise InvalidInput(f"actions must be a list of indices, one per round of costs, got {shown(actions)}") from None
    if len(taken) != len(checked):
        raise InvalidInput(
            f"actions must be {counted(len(checked), 'index', 'indices')}, one per round of costs, got {len(taken)}"
        )
    for t, action in enumerate(taken):
        problem.check_action(action)
        if checked[t, action] == np.inf:
            raise InvalidInput(f"action {action} is forbidden in round {t} (its cost is inf); choose another one there")
    return _priced(np.array(taken, dtype=np.int64), checked, problem, start)


def best_fixed(costs: ArrayLike, problem: Problem, start: int | None = None, *, episodes: int = 1) -> int | None:
    """Return the one action that would have been the cheapest to keep in all rounds, the move there included.

    Parameters
    ----------
    costs, problem
        As in `optimal_path`.
    start
        The action before the first round; None: the first move is free.
    episodes
        Number of times that the move from the start is paid: once for every episode that begins there.

    Returns
    -------
    int or None
        Index of the action, in a tie the lowest; None if every action is forbidden at least once.

    Examples
    --------
    >>> import holdcourse as hc
    >>> line = hc.Problem([0.0, 1.0, 9.0])
    >>> hc.best_fixed([[3, 1, 0], [1, 2, 0]], line), hc.best_fixed([[3, 1, 0], [1, 2, 0]], line, start=0)
    (2, 0)
    """
    check_problem(problem)
    begins = one_number(whole_number(episodes, "episodes", 1), "episodes")
    table = float_array(costs, "costs", copy=False)
    if table.ndim != 2 or table.shape[1] != problem.n:
        raise InvalidInput(
            f"costs must have shape (T, {problem.n}), a row per round and a column per action, got {table.shape}"
        )
    totals = table.sum(axis=0)
    if start is not None:
        problem.check_action(start)
        totals = totals + begins * problem.costs_from(start)
    if np.isnan(totals).any():
        raise InvalidInput(
            f"the costs of action {int(np.isnan(totals).argmax())} contain NaN; give a number for every round"
        )
    return int(np.argmin(totals)) if np.isfinite(totals).any() else None


def work_function(costs: ArrayLike, problem: Problem, start: int) -> PricedPath:
    """Run the work function algorithm: an online rule that knows each round's costs, and no future ones.

    The work function w_t(x) is the cost of the cheapest path that serves rounds 1..t and ends at x:
    w_t(x) = min over y of w_{t-1}(y) + c_t(y) + d(y, x). Round t is served at the x that minimises
    w_t(x) + d(x_{t-1}, x) among those with w_t(x) = w_{t-1}(x) + c_t(x); ties are broken as in `optimal_path`.
    It is (2n - 1)-competitive on every metric, and no deterministic rule can do better.

    Parameters
    ----------
    costs
        Service costs, shape (T, n); +inf forbids an action in that round.
    problem
        The actions and what moving between them costs.
    start
        The action before the first round.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.work_function([[0, 5], [3, 0], [0, 5]], hc.Problem([0.0, 1.0]), start=0).actions.tolist()
    [0, 1, 0]
    """
    checked, _ = _checked_costs(costs, problem)
    problem.check_action(start)
    moves = movement(problem)
    actions = np.empty(len(checked), dtype=np.int64)
    work, action = moves.row(int(start)), int(start)
    for t, round_costs in enumerate(checked):
        work, action = work_function_step(work, round_costs, action, moves)
        actions[t] = action
    return _priced(actions, checked, problem, start)


def work_function_step(
    work: Array,  # (n,)
    costs: Array,  # (n,)
    action: int,
    moves: Moves,
) -> tuple[Array, int]:
    """Take one round of `work_function`: from the work function and the action before it to those after it.

    Start with ``moves.row(start), start``. The smallest cost of each round is left out of the work function; it
    would shift all of it and change no decision. Nothing is checked here.
    """
    served_here = work + (costs - costs.min())
    after = moves.relax(served_here)
    # On a symmetric metric some minimiser always satisfies the equation. With directed costs it may not, so it is a
    # condition here rather than a tie-break; either way a forbidden action is never played.
    support = np.where(served_here <= after * (1.0 + TIE_TOLERANCE), after, np.inf)
    return after, int(minplus.cheapest_next(support, moves.row(action), action, TIE_TOLERANCE))


def _checked_costs(costs: ArrayLike, problem: Problem) -> tuple[Array, Array]:
    """Return the costs (T, n), read-only, and the smallest of each round."""
    check_problem(problem)
    checked = float_array(costs, "costs", copy=False)
    if checked.shape == (0,):  # an empty list of rounds
        checked = checked.reshape(0, problem.n)
    if checked.ndim != 2 or checked.shape[1] != problem.n:
        raise InvalidInput(
            f"costs must have shape (T, {problem.n}), a row per round and a column per action, got {checked.shape}"
        )
    lowest = checked.min(axis=1)  # not finite exactly where a round is at fault
    if not np.isfinite(lowest).all():
        t = int(np.argmin(np.isfinite(lowest)))
        if lowest[t] == np.inf:
            raise InvalidInput(
                f"every action is forbidden (cost inf) in round {t}; leave one finite cost in each round"
            )
        action = int(np.argmin(checked[t] > -np.inf))  # NaN compares false too
        raise InvalidInput(
            f"the cost of action {action} in round {t} is {checked[t, action]}; give a number, or inf to forbid it"
        )
    return read_only(checked), lowest


def _priced(actions: Indices, costs: Array, problem: Problem, start: int | None) -> PricedPath:
    """Return the bill of a path; the same arithmetic whichever method found it."""
    with np.errstate(over="ignore"):  # noticed below
        service = float(costs[np.arange(len(actions)), actions].sum())
    stops = actions if start is None else np.concatenate([np.array([start], dtype=np.int64), actions])
    moved = stops[1:] != stops[:-1]
    before, after = stops[:-1][moved], stops[1:][moved]
    movement = float(problem.move_costs(before, after).sum())
    if not math.isfinite(service + movement):
        raise InvalidInput("the path costs more than the largest number in floating point; scale the costs down")
    actions.setflags(write=False)
    return PricedPath(actions=actions, service=service, movement=movement)
