"""Min-plus steps, backward and forward: the cheapest way into every action, and out of it.

======== ========= ==============================================================================
symbol   shape     meaning
======== ========= ==============================================================================
V        (n,)      value of standing at each action; +inf where it is forbidden
D        (n, n)    cost of a move from row to column
U        (n,)      looking back: U[x] = min over y of V[y] + D[y, x], the value after one move (or none)
nearest  (n,)      cheapest move away from each action (looking back) or into it (looking forward)
C        (T, n)    service costs
lowest   (T,)      smallest service cost of each round
W        (T, n)    cost to go: what the rounds t..T-1 cost, their `lowest` left out, if round t is served at x
order    (n,)      on a grid, the action that stands at each grid position (last axis fastest)
G        (n,)      values in grid order, swept in place
shape    (d,)      number of positions along each axis
gaps     (sum of   cost of each step along each axis, one axis after the other
         shape-1,)
points   (d, n)    coordinates of the actions, in units of movement cost
Q        (k, n)    value of serving at each action and going on from there, per context
D_into   (n, n)    D_into[y, x]: cost of a move from x to y (the transpose of the movement costs);
                   +inf where the move is too far
U        (k, n)    looking forward: U[i, x] = min over y of D_into[y, x] + Q[i, y]
N, A     (k, k)    transition counts; closeness of contexts, 1 on the diagonal
P        (k, k)    transition probabilities, from row to column
======== ========= ==============================================================================

The optimum in hindsight looks back (the cheapest way into x), a plan looks forward (the cheapest way out of x, in a
Bellman backup for many contexts at once); it is the same step with the transposed costs.

All values are sums of non-negative terms, so rounding stays relative: after T rounds a value is off by about T
times the machine precision, whatever the scale, and a relative tolerance can tell ties from differences.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

BUCKETS = 32  # coarse sorting of sources: finer does not prune more
SIDE_BY_SIDE = 32  # lines swept together: enough to hide latency, few enough to stay in cache


@njit(cache=True)
def relax_dense(V: Array, D: Array, U: Array) -> None:
    """U from V over every pair, straight from the definition."""
    n = V.shape[0]
    U[:] = np.inf
    for y in range(n):
        from_source(V[y], D[y], U)


@njit(cache=True)
def from_source(v: float, row: Array, U: Array) -> None:
    """Lower U where coming from a source of value v is cheaper."""
    for x in range(U.shape[0]):
        through = v + row[x]
        U[x] = through if through < U[x] else U[x]  # a select, not a branch: this loop vectorises


@njit(cache=True)
def relax_pruned(V: Array, D: Array, nearest: Array, U: Array) -> None:
    """U from V, leaving out the sources that cannot matter.

    A source y with V[y] >= U[y] is dominated: whatever it offers to x, the source z behind U[y] offers for no
    more, as D[z, x] <= D[z, y] + D[y, x]. This holds in any order of the sources; cheap ones first dominate most.
    """
    n = V.shape[0]
    z = np.argmin(V)
    low = V[z]
    for x in range(n):
        U[x] = low + D[z, x]

    left = np.empty(n, np.int64)  # the sources that z does not dominate
    m = 0
    high = low
    ceiling = low  # no final value is above it
    for y in range(n):
        left[m] = y
        m += V[y] < U[y]
        ceiling = max(ceiling, min(V[y], U[y]))
    for j in range(m):
        high = max(high, V[left[j]])

    # Bucket sort: nearly the full order, at a fraction of the price of sorting.
    span = high - low if high > low else 1.0
    bucket = np.empty(m, np.int64)
    ends = np.zeros(BUCKETS, np.int64)
    for j in range(m):
        bucket[j] = min(int((V[left[j]] - low) / span * BUCKETS), BUCKETS - 1)
        ends[bucket[j]] += 1
    for b in range(1, BUCKETS):
        ends[b] += ends[b - 1]
    sources = np.empty(m, np.int64)
    for j in range(m):
        ends[bucket[j]] -= 1
        sources[ends[bucket[j]]] = left[j]

    for j in range(m):
        y = sources[j]
        if V[y] >= U[y]:
            continue
        if V[y] + nearest[y] >= ceiling:  # too dear to help anyone but itself
            U[y] = V[y]
        else:
            from_source(V[y], D[y], U)


@njit(cache=True)
def nearest_move(D: Array) -> Array:
    """The cheapest move away from each action (+inf when there is only one)."""
    n = D.shape[0]
    nearest = np.full(n, np.inf)
    for y in range(n):
        for x in range(n):
            if x != y and D[y, x] < nearest[y]:
                nearest[y] = D[y, x]
    return nearest


@njit(cache=True)
def relax_grid(V: Array, order: Indices, shape: Indices, gaps: Array, fixed: float, U: Array) -> None:
    """U from V on a full grid whose distance is the sum over the axes, plus a fixed cost per move."""
    G = V[order]
    sweep_grid(G, shape, gaps, fixed)
    for k in range(order.shape[0]):
        U[order[k]] = G[k]


@njit(cache=True)
def sweep_grid(G: Array, shape: Indices, gaps: Array, fixed: float) -> None:
    """`relax_grid` in place, for values in grid order.

    The sum splits the minimum over y into one minimum per axis, and on a line the best source of x is the best
    source of one of its two neighbours, or x itself.
    """
    n = G.shape[0]
    stay = G.copy() if fixed > 0.0 else G
    inner, first = n, 0
    for a in range(shape.shape[0]):
        length = shape[a]
        inner //= length
        sweep_axis(G, length, inner, gaps[first : first + length - 1])
        first += length - 1
    if fixed > 0.0:
        for k in range(n):
            G[k] = min(stay[k], fixed + G[k])


@njit(cache=True)
def sweep_axis(G: Array, length: int, inner: int, steps: Array) -> None:
    """Sweep along one axis of a grid, which has `inner` values of the axes after it between two of its own."""
    n = G.shape[0]
    if length == n:
        sweep_line(G, steps)
    elif inner > 1:
        for slab in G.reshape(n // (length * inner), length, inner):
            sweep_lines(slab, steps)
    else:
        lines = G.reshape(n // length, length)
        for begin in range(0, lines.shape[0], SIDE_BY_SIDE):
            sweep_lines(lines[begin : begin + SIDE_BY_SIDE].T, steps)


@njit(cache=True)
def sweep_line(G: Array, steps: Array) -> None:
    """Carry the cheapest value up the line, then down."""
    carried = G[0]
    for k in range(steps.shape[0]):
        through = carried + steps[k]
        carried = through if through < G[k + 1] else G[k + 1]
        G[k + 1] = carried
    for k in range(steps.shape[0] - 1, -1, -1):
        through = carried + steps[k]
        carried = through if through < G[k] else G[k]
        G[k] = carried


@njit(cache=True)
def sweep_lines(G: Array, steps: Array) -> None:
    """`sweep_line` for the columns of G side by side: they do not wait for each other."""
    for k in range(steps.shape[0]):
        step = steps[k]
        for i in range(G.shape[1]):
            through = G[k, i] + step
            G[k + 1, i] = through if through < G[k + 1, i] else G[k + 1, i]
    for k in range(steps.shape[0] - 1, -1, -1):
        step = steps[k]
        for i in range(G.shape[1]):
            through = G[k + 1, i] + step
            G[k, i] = through if through < G[k, i] else G[k, i]


@njit(cache=True)
def grid_row(action: int, points: Array, fixed: float, row: Array) -> None:
    """The costs of moving from `action`, computed from coordinates."""
    row[:] = fixed
    for a in range(points.shape[0]):
        here = points[a, action]
        for x in range(row.shape[0]):
            row[x] += abs(points[a, x] - here)
    row[action] = 0.0


@njit(cache=True)
def cheapest_next(V: Array, row: Array, stay: int, tolerance: float) -> int:
    """The x with the smallest V[x] + row[x]; among ties `stay` (-1: nobody), then the lowest index."""
    n = V.shape[0]
    best = V[stay] if stay >= 0 else np.inf
    for x in range(n):
        if V[x] < best:  # rarely true once best is low
            best = min(best, V[x] + row[x])
    limit = best * (1.0 + tolerance)
    if stay >= 0 and V[stay] <= limit:
        return stay
    x = 0
    while x < n - 1 and V[x] + row[x] > limit:
        x += 1
    return x


@njit(cache=True)
def cost_to_go_matrix(C: Array, lowest: Array, D_into: Array, pruned: bool) -> Array:
    """W by backward induction; D_into[y, x] is the cost of the move from x to y (the transpose of D)."""
    T, n = C.shape
    W = np.empty((T, n))
    U = np.zeros(n)
    nearest = nearest_move(D_into) if pruned else np.zeros(0)
    for t in range(T - 1, -1, -1):
        for x in range(n):
            W[t, x] = (C[t, x] - lowest[t]) + U[x]
        if t > 0:
            if pruned:
                relax_pruned(W[t], D_into, nearest, U)
            else:
                relax_dense(W[t], D_into, U)
    return W


@njit(cache=True)
def cost_to_go_grid(C: Array, lowest: Array, order: Indices, shape: Indices, gaps: Array, fixed: float) -> Array:
    """W by backward induction on a grid."""
    T, n = C.shape
    W = np.empty((T, n))
    G = np.zeros(n)  # in grid order
    for t in range(T - 1, -1, -1):
        for k in range(n):
            x = order[k]
            G[k] += C[t, x] - lowest[t]
            W[t, x] = G[k]
        if t > 0:
            sweep_grid(G, shape, gaps, fixed)
    return W


@njit(cache=True)
def follow_matrix(W: Array, D: Array, start: int, tolerance: float) -> Indices:
    """The path that the cost to go prescribes from `start` (-1: anywhere, for free)."""
    T, n = W.shape
    actions = np.empty(T, np.int64)
    row = np.zeros(n)
    x = start
    for t in range(T):
        if x >= 0:
            row[:] = D[x]
        x = cheapest_next(W[t], row, x, tolerance)
        actions[t] = x
    return actions


@njit(cache=True)
def follow_grid(W: Array, points: Array, fixed: float, start: int, tolerance: float) -> Indices:
    """`follow_matrix` with distances computed from coordinates."""
    T, n = W.shape
    actions = np.empty(T, np.int64)
    row = np.zeros(n)
    x = start
    for t in range(T):
        if x >= 0:
            grid_row(x, points, fixed, row)
        x = cheapest_next(W[t], row, x, tolerance)
        actions[t] = x
    return actions


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
    """U from Q on a full grid whose distance is a sum over the axes; see `relax_grid`."""
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
