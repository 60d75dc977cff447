"""What a matrix of movement costs must be, and how to make it so."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse._numeric.trees import shortest_routes, worst_triangle, worst_triangle_sampled
from holdcourse.checks import float_array
from holdcourse.errors import InvalidInput, InvalidMetric

Array: TypeAlias = NDArray[np.float64]

EXACT_CHECK_ACTIONS = 2_000  # above this the triangle inequality is checked on sampled triples
SAMPLED_TRIPLES = 2_000_000
TOLERANCE = 1e-9  # relative; rounding in a user's own matrix is not an error


def check_metric(matrix: Array, *, directed: bool = False, seed: int = 0) -> None:
    """Raise `InvalidMetric` unless `matrix` holds movement costs: finite, zero on the diagonal, positive off it,
    symmetric (unless `directed`), and never more expensive than a detour.

    The triangle inequality is checked for every triple up to n = 2000; above, for two million sampled
    triples, so a rare violation can pass there.
    """  # noqa: D205 - one sentence

    def fail(bad: NDArray[np.bool_], what: str) -> None:
        if bad.any():
            i, j = (int(k) for k in np.argwhere(bad)[0])
            raise InvalidMetric(f"the cost of moving from action {i} to {j} is {matrix[i, j]:.6g}: {what}", (i, j))

    n = len(matrix)
    fail(
        ~np.isfinite(matrix),
        "movement costs must be finite numbers; forbid an action with `allowed`, not with an infinite cost",
    )
    fail(matrix < 0, "movement costs must not be negative")
    fail(np.diag(np.diag(matrix) != 0), "staying must cost 0; put zeros on the diagonal")
    if not directed:
        uneven = np.abs(matrix - matrix.T) > TOLERANCE * np.maximum(matrix, matrix.T)
        if uneven.any():
            i, j = (int(k) for k in np.argwhere(uneven)[0])
            raise InvalidMetric(
                f"moving from action {i} to {j} costs {matrix[i, j]:.6g}, but moving back costs {matrix[j, i]:.6g}; "
                "give directed=True if that is intended, or make the matrix symmetric",
                (i, j),
            )
    fail(
        (matrix == 0) & (matrix.T == 0) & ~np.eye(n, dtype=bool),
        "different actions with a distance of 0 are one action; merge them",
    )
    if n <= EXACT_CHECK_ACTIONS:
        i, j, k = worst_triangle(matrix, TOLERANCE)
    else:
        triples = np.random.default_rng(seed).integers(0, n, size=(SAMPLED_TRIPLES, 3))
        i, j, k = worst_triangle_sampled(matrix, triples, TOLERANCE)
    if i >= 0:
        raise InvalidMetric(
            f"moving from action {i} to {k} costs {matrix[i, k]:.6g}, but going through action {j} costs only "
            f"{matrix[i, j]:.6g} + {matrix[j, k]:.6g} = {matrix[i, j] + matrix[j, k]:.6g}, so the triangle inequality "
            "is broken; "
            "holdcourse.metric_closure(matrix) gives the cheapest routes, which form a metric",
            (i, j, k),
        )


def metric_closure(matrix: ArrayLike) -> Array:
    """Return the cost of the cheapest route between any two actions: the largest metric nowhere above `matrix`.

    Infinite entries mean "no direct move". The result keeps the directions of an asymmetric matrix.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.metric_closure([[0, 1, 5], [1, 0, 1], [5, 1, 0]]).tolist()  # from 0 to 2 through 1
    [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
    """
    routes = checked_square(matrix)
    if np.isnan(routes).any() or (routes < 0).any():
        i, j = (int(k) for k in np.argwhere(np.isnan(routes) | (routes < 0))[0])
        raise InvalidMetric(f"entry ({i}, {j}) is {routes[i, j]:.6g}; direct costs must be 0 or more", (i, j))
    np.fill_diagonal(routes, 0.0)
    shortest_routes(routes)
    if np.isinf(routes).any():
        i, j = (int(k) for k in np.argwhere(np.isinf(routes))[0])
        raise InvalidMetric(f"there is no route from action {i} to {j}; every action must be reachable", (i, j))
    return routes


def checked_square(matrix: Any) -> Array:
    """Return a copy of the matrix, as floats; `InvalidInput` unless it is square."""
    square = float_array(matrix, "metric matrix")
    if square.ndim != 2 or square.shape[0] != square.shape[1] or square.size == 0:
        raise InvalidInput(f"the metric matrix must be square with one row per action, got shape {square.shape}")
    return square


def matrix_from_callable(metric: Callable[[Any, Any], float], values: list[Any]) -> Array:
    """Return what a user's function says of every move, (n, n); 0 on the diagonal, where it is not asked."""
    matrix = np.zeros((len(values), len(values)))
    for i, j in itertools.permutations(range(len(values)), 2):
        cost = metric(values[i], values[j])
        try:
            matrix[i, j] = cost
        except (TypeError, ValueError):
            raise InvalidMetric(
                f"the metric of {values[i]!r} and {values[j]!r} is {cost!r}; it must give one number", (i, j)
            ) from None
    return matrix


def with_fixed_cost(matrix: Array, fixed_cost: float) -> Array:
    """Make every move more expensive by the same amount; staying is still free."""
    if fixed_cost:
        matrix = matrix + fixed_cost
        np.fill_diagonal(matrix, 0.0)
    return matrix


def require_distinct(actions: Array, scale: Array) -> None:
    """Raise where two actions (n, d) have the same scaled coordinates."""
    points = actions * scale
    order = np.lexsort(points.T)  # equal ones side by side, the first of them first
    same = (points[order[1:]] == points[order[:-1]]).all(axis=1)
    if same.any():
        j = int(order[1:][same].min())
        i = int(order[np.flatnonzero(order == j)[0] - 1])
        raise InvalidMetric(
            f"actions {i} and {j} are both the setting {', '.join(f'{x:g}' for x in actions[j])}: "
            "name every setting once",
            (i, j),
        )
