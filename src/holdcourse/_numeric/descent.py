"""Mirror descent on a tree, one exact step (lines 6 to 11 of the paper's Algorithm 1; docs/theory/movement.md).

Notation
--------
q_v         probability of v given its parent (state)
theta_v     v's share of its parent's leaves;  eta_v = 1 + log(1/theta_v);  delta_v = theta_v / eta_v
w_v         weight of the edge above v
c_v         cost of v: of a leaf the action's cost, of a vertex the expected cost below it
s_v         q_v + delta_v
a_v         kappa * eta_v / w_v
b           multiplier of the constraint sum q' = 1
x_v         s_v exp(a_v (b - c_v))
first, children      children of internal vertex u are children[first[u]:first[u + 1]], u counted from 0;
            a place in `children` is a slot

The step is q'_v = max(0, s_v exp(a_v (b - c_v)) - delta_v) with b such that sum q' = 1. The paper's two displays
disagree in the sign of the multipliers and solve for them by projected gradient; here the root is found to
rounding by Newton's method on log sum_{active} s exp(a (b - c)) = log(1 + sum_{active} delta), which is convex
in b: started above the root, it falls monotonically while the active set shrinks.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

SMALL_STEP = 1e-9  # Newton converges quadratically: a step that moves exponents by this much is the last one
SAFE_EXPONENT = 600.0  # exp overflows at 709
LOG2_E = 1.4426950408889634
LN2_HIGH = 0.6931471803691238  # log 2 in two parts: k * LN2_HIGH is exact for |k| < 2^20
LN2_LOW = 1.9082149292705877e-10
ROUNDER = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer
# What the compiler may assume in sums and maxima so that they vectorise: any order, no NaN. Infinities do occur.
SUMS = {"reassoc", "contract", "nsz", "nnan"}
MAX_STEPS = 100  # Newton needs 3 to 10; this only bounds the loop


@njit(cache=True, error_model="numpy")
def is_state(
    q: Array,  # (vertices,)
    first: Ints,  # (internal + 1,)
    children: Ints,  # (slots,)
    tolerance: float,
) -> bool:
    """Whether the children of every vertex have probabilities of 0 or more that sum to 1."""
    for u in range(first.size - 1):
        total = 0.0
        for i in range(first[u], first[u + 1]):
            if not q[children[i]] >= 0.0:  # NaN is not, either
                return False
            total += q[children[i]]
        if not abs(total - 1.0) <= tolerance:
            return False
    return True


@njit(cache=True, error_model="numpy")
def step(
    q: Array,  # (vertices,)
    costs: Array,  # (n,)
    kappa: float,
    speed: Array,  # (slots,) eta / w, in the order of `children`
    delta: Array,  # (slots,) likewise
    first: Ints,  # (internal + 1,)
    children: Ints,  # (slots,)
    blocks: Ints,  # (blocks + 1,) internal vertices blocks[k]..blocks[k + 1] - 1 do not depend on each other
) -> Array:
    """The new conditional probabilities, (vertices,)."""
    n = costs.size
    out = np.empty(q.size)
    out[q.size - 1] = 1.0
    vertex_cost = np.empty(first.size - 1)
    widest = 0
    for k in range(blocks.size - 1):
        widest = max(widest, first[blocks[k + 1]] - first[blocks[k]])
    s, a, c, x = np.empty(widest), np.empty(widest), np.empty(widest), np.empty(widest)
    bits = np.empty(widest, np.int64)
    b, steepest, down = np.empty(first.size - 1), np.empty(first.size - 1), np.zeros(first.size - 1)
    unsettled = np.empty(first.size - 1, np.int64)

    for k in range(blocks.size - 1):
        low, high = blocks[k], blocks[k + 1]
        base, slots = first[low], first[high] - first[low]
        d = delta[base : base + slots]
        for i in range(slots):
            v = children[base + i]
            s[i] = q[v] + d[i]
            c[i] = costs[v] if v < n else vertex_cost[v - n]
            a[i] = kappa * speed[base + i]
        for u in range(low, high):
            begin, end = first[u] - base, first[u + 1] - base
            vertex_cost[u] = _subtract_lowest(c[begin:end])
            b[u], steepest[u] = _start(s[begin:end], a[begin:end], c[begin:end], d[begin:end])

        # All vertices of the block take their Newton steps together: the exponentials dominate, and long runs of
        # them vectorise. A vertex that has converged keeps its b, and with it its x.
        moving = 0
        for u in range(low, high):
            if steepest[u] > 0.0:
                unsettled[moving] = u
                moving += 1
        for _ in range(MAX_STEPS):
            if moving == 0:
                break
            for u in range(low, high):
                for i in range(first[u] - base, first[u + 1] - base):
                    x[i] = a[i] * (b[u] - c[i])
            exponentials(x, s, bits, slots)
            still = 0
            for k_moving in range(moving):
                u = unsettled[k_moving]
                begin, end = first[u] - base, first[u + 1] - base
                mass, slope, target = _active_sums(x[begin:end], a[begin:end], d[begin:end])
                down[u] = math.log(mass / target) * mass / slope
                if down[u] * steepest[u] > SMALL_STEP:
                    b[u] -= down[u]
                    unsettled[still] = u
                    still += 1
            moving = still

        for u in range(low, high):
            begin, end = first[u] - base, first[u + 1] - base
            if steepest[u] == 0.0:  # nothing to decide: see _start
                for i in range(begin, end):
                    out[children[base + i]] = q[children[base + i]]
                continue
            # The last Newton step, to first order: its square is below rounding.
            total = 0.0
            for i in range(begin, end):
                x[i] = max(0.0, x[i] * (1.0 - a[i] * down[u]) - d[i])
                total += x[i]
            expected, scale = 0.0, 1.0 / total  # 1 up to rounding
            for i in range(begin, end):
                p = x[i] * scale
                out[children[base + i]] = p
                if p > 0.0:  # 0 * inf is skipped
                    expected += p * c[i]
            vertex_cost[u] += expected
    return out


@njit(cache=True, error_model="numpy", fastmath=SUMS)
def _subtract_lowest(c: Array) -> float:
    """Make the lowest cost 0 (a constant added to all costs changes nothing) and return what it was."""
    lowest = np.inf
    for i in range(c.size):
        lowest = min(lowest, c[i])
    if lowest < np.inf:
        for i in range(c.size):
            c[i] -= lowest
    return lowest


@njit(cache=True, error_model="numpy")
def _start(s: Array, a: Array, c: Array, d: Array) -> tuple[float, float]:
    """An upper bound of the root b, and the largest a: 0 where the costs are equal or all forbidden.

    Equal costs move nothing, and a wholly forbidden vertex keeps its inner state.
    """
    highest, steepest, slope, weighted = _cost_sums(s, a, c)
    cheapest = 0
    while cheapest < c.size and c[cheapest] != 0.0:
        cheapest += 1
    if highest == 0.0 or cheapest == c.size:
        return 0.0, 0.0
    # At the b where one child alone reaches probability 1 the sum is at least 1: an upper bound, good for the cheapest.
    # Where every child can take part, Jensen's inequality gives another.
    b = math.log((1.0 + d[cheapest]) / s[cheapest]) / a[cheapest]
    if highest < np.inf:
        b = min(b, weighted / slope)
    if b * steepest > SAFE_EXPONENT:
        # Edges of very different weight below one vertex: only the least of all such bounds keeps the exponents small.
        for i in range(c.size):
            b = min(b, c[i] + math.log((1.0 + d[i]) / s[i]) / a[i])
    return b, steepest


@njit(cache=True, error_model="numpy", fastmath=SUMS)
def _cost_sums(s: Array, a: Array, c: Array) -> tuple[float, float, float, float]:
    """Largest c, largest a, sum s a, sum s a c."""
    highest, steepest, slope, weighted = 0.0, 0.0, 0.0, 0.0
    for i in range(c.size):
        highest = max(highest, c[i])
        steepest = max(steepest, a[i])
        slope += s[i] * a[i]
        weighted += s[i] * a[i] * c[i]
    return highest, steepest, slope, weighted


@njit(cache=True, error_model="numpy", fastmath=SUMS)
def _active_sums(x: Array, a: Array, d: Array) -> tuple[float, float, float]:
    """Sums over children with positive probability: sum x, sum a x, 1 + sum delta."""
    mass, slope, target = 0.0, 0.0, 1.0
    for i in range(x.size):
        if x[i] > d[i]:
            mass += x[i]
            slope += x[i] * a[i]
            target += d[i]
    return mass, slope, target


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def exponentials(x: Array, s: Array, bits: Ints, m: int) -> None:
    """X <- s exp(x) on the first m entries, to about one unit in the last place; below -708 counts as -708.

    The compiler vectorises these loops, which it could not do around calls of the library's exp.
    exp(y) = 2^k exp(r) with k the integer nearest y / log 2: adding ROUNDER leaves k in the low bits of the sum,
    from where it is shifted into the exponent field.
    """
    powers = bits.view(np.float64)
    for i in range(m):
        y = max(x[i], -708.0)
        shifted = y * LOG2_E + ROUNDER
        powers[i] = shifted
        k = shifted - ROUNDER
        r = (y - k * LN2_HIGH) - k * LN2_LOW
        # Taylor series, |r| <= log(2) / 2: the first term left out is below 5e-18.
        p = 1.0 / 6227020800.0
        p = p * r + 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        x[i] = s[i] * (p * r + 1.0)
    for i in range(m):
        bits[i] = (bits[i] << 52) + (1023 << 52)
    for i in range(m):
        x[i] *= powers[i]


@njit(cache=True, error_model="numpy")
def vertex_probabilities(q: Array, parent: Ints) -> Array:
    """z_v = z_parent q_v, for every vertex."""
    z = np.empty(q.size)
    z[q.size - 1] = 1.0
    for v in range(q.size - 2, -1, -1):
        z[v] = z[parent[v]] * q[v]
    return z


@njit(cache=True, error_model="numpy")
def usable_costs(costs: Array) -> bool:
    """Whether no cost is NaN or -inf and at least one is finite."""
    lowest = np.inf
    for i in range(costs.size):
        if not costs[i] > -np.inf:
            return False
        lowest = min(lowest, costs[i])
    return lowest < np.inf
