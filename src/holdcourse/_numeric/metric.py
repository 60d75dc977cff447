"""Checks on a matrix of movement costs, and the cheapest routes through one."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]


@njit(cache=True)
def worst_triangle(D: Array, tolerance: float) -> tuple[int, int, int]:
    """The triple (i, j, k) whose detour i -> j -> k saves most over i -> k, or (-1, -1, -1) when none does."""
    n = D.shape[0]
    worst, found = 0.0, (-1, -1, -1)
    for i in range(n):
        direct = D[i] * (1.0 - tolerance)
        for j in range(n):
            first, second = D[i, j], D[j]
            broken = 0  # an integer sum vectorises where a floating-point maximum does not
            for k in range(n):
                broken += direct[k] - second[k] > first
            if broken:
                for k in range(n):
                    saved = direct[k] - (first + second[k])
                    if saved > worst:
                        worst, found = saved, (i, j, k)
    return found


@njit(cache=True)
def worst_triangle_sampled(D: Array, triples: NDArray[np.int64], tolerance: float) -> tuple[int, int, int]:
    """`worst_triangle` over the given triples only."""
    worst, found = 0.0, (-1, -1, -1)
    for t in range(triples.shape[0]):
        i, j, k = triples[t, 0], triples[t, 1], triples[t, 2]
        saved = D[i, k] * (1.0 - tolerance) - (D[i, j] + D[j, k])
        if saved > worst:
            worst, found = saved, (i, j, k)
    return found


@njit(cache=True)
def shortest_routes(D: Array) -> None:
    """D <- the cost of the cheapest route between every two actions (Floyd and Warshall); +inf where there is none."""
    n = D.shape[0]
    for k in range(n):
        onward = D[k].copy()  # unchanged by its own turn; a copy tells the compiler that no row written is read
        for i in range(n):
            row, first = D[i], D[i, k]
            for j in range(n):
                through = first + onward[j]
                row[j] = through if through < row[j] else row[j]
