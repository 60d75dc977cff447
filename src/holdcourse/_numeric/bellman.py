"""Bellman backups for many contexts at once: the cheapest move out of every action.

======== ========= ==============================================================================
symbol   shape     meaning
======== ========= ==============================================================================
Q        (k, n)    value of serving at each action and going on from there, per context
D_into   (n, n)    D_into[y, x]: cost of a move from x to y (the transpose of the movement costs);
                   +inf where the move is too far
nearest  (n,)      cheapest move into each action
U        (k, n)    U[i, x] = min over y of D_into[y, x] + Q[i, y]
N, A     (k, k)    transition counts; closeness of contexts, 1 on the diagonal
P        (k, k)    transition probabilities, from row to column
======== ========= ==============================================================================

`minplus` looks back (the cheapest way into x), a plan looks forward (the cheapest way out of x); it is the same step
with the transposed costs.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from holdcourse._numeric.minplus import relax_dense, relax_grid, relax_pruned

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


@njit(cache=True)
def backup_matrix(Q: Array, D_into: Array, nearest: Array, pruned: bool, U: Array) -> None:
    """U from Q; `pruned` needs the triangle inequality."""
    for i in range(Q.shape[0]):
        if pruned:
            relax_pruned(Q[i], D_into, nearest, U[i])
        else:
            relax_dense(Q[i], D_into, U[i])


@njit(cache=True)
def backup_grid(Q: Array, order: Indices, shape: Indices, gaps: Array, fixed: float, U: Array) -> None:
    """U from Q on a full grid whose distance is a sum over the axes; see `minplus.relax_grid`."""
    for i in range(Q.shape[0]):
        relax_grid(Q[i], order, shape, gaps, fixed, U[i])


@njit(cache=True)
def transition_probabilities(N: Array, A: Array, stay: float) -> Array:
    """P proportional to A N + stay * I: close contexts lend each other what followed them."""
    k = N.shape[0]
    P = A @ N
    for i in range(k):
        P[i, i] += stay
        total = 0.0
        for j in range(k):
            total += P[i, j]
        for j in range(k):
            P[i, j] /= total
    return P
