"""Mirror descent on large trees: the step of `descent`, for many vertices side by side.

In a tree of a million actions most vertices have two to six children. So short sums do not vectorise, and walking from
vertex to vertex costs more than the arithmetic. Here vertices of one height with about as many children stand side by
side, a lane for each, and each operation is one loop over the lanes.

=========  =================================================================================  ============
symbol     meaning                                                                            shape
=========  =================================================================================  ============
q          probability of each vertex given its parent                                       (vertices,)
c_above    cost of each internal vertex, filled from the leaves up                            (internal,)
block k    lanes[k] vertices side by side with up to wide[k] children; its slots begin at
           begin[k], child j of lane i at begin[k] + j * lanes[k] + i
vertex     the vertex of each lane, block after block, those of block k from top[k] on
child      the vertex of each slot; the root, which is nobody's child, is padding             (slots,)
speed,     eta / w and delta of each slot; of padding 1 and infinite, so that it is never
delta      active; those of block k from given[k] on. In the first `even` blocks all
           children are leaves, and those of one vertex have the same: one for each lane
=========  =================================================================================  ============

A million actions do not fit the cache, so what counts there is how much is read. Most slots are in even blocks: of each
of these a round reads q, the cost and `child`, and writes the new q. It writes where it has just read, in a copy of q:
actions lie anywhere in memory, and every other place would have to be fetched. What the next block will read comes into
the cache while the present one is computed.

The other symbols are those of `descent`. Sums are made child after child, so results differ from those of `descent` by
rounding only.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from holdcourse._numeric.descent import MAX_STEPS, SAFE_EXPONENT, SMALL_STEP, exponentials
from holdcourse._numeric.prefetch import prefetch

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Slots = NDArray[np.int32]

OUT_OF_CACHE = 400_000  # actions; fewer are found in the cache without being asked for early
MANTISSA = (1 << 52) - 1
SQRT_2 = 1.4142135623730951
LN2 = 0.6931471805599453


@njit(cache=True)
def arranged(
    parent: Ints, n: int, first: Ints, children: Ints, slots_at_once: int, most_lanes: int
) -> tuple[Slots, Ints, Ints, Ints, Ints]:
    """Stand the vertices side by side: child, vertex, begin, top and wide; see the table."""
    internal = first.size - 1
    height = np.ones(internal, np.int64)
    for u in range(internal - 1):
        above = parent[n + u] - n
        height[above] = max(height[above], height[u] + 1)
    widest = 1
    for u in range(internal):
        widest = max(widest, first[u + 1] - first[u])
    key = np.empty(internal, np.int64)
    for u in range(internal):
        key[u] = height[u] * (widest + 1) + first[u + 1] - first[u]
    order = np.argsort(key, kind="mergesort")
    begin, top = np.zeros(internal + 1, np.int64), np.zeros(internal + 1, np.int64)
    wide = np.zeros(internal, np.int64)
    blocks, k = 0, 0
    while k < internal:
        tall, end, most = height[order[k]], k, 0
        while end < internal and height[order[end]] == tall and end - k < most_lanes:
            degree = first[order[end] + 1] - first[order[end]]
            if end > k and (end - k + 1) * degree > slots_at_once:
                break
            most = max(most, degree)
            end += 1
        wide[blocks] = most
        top[blocks + 1], begin[blocks + 1] = end, begin[blocks] + most * (end - k)
        blocks += 1
        k = end
    child = np.full(begin[blocks], parent.size - 1, np.int32)  # half the traffic of 64 bits
    for k in range(blocks):
        L = top[k + 1] - top[k]
        for i in range(L):
            u = order[top[k] + i]
            for j in range(first[u + 1] - first[u]):
                child[begin[k] + j * L + i] = children[first[u] + j]
    return child, order + n, begin[: blocks + 1], top[: blocks + 1], wide[:blocks]


@njit(cache=True)
def even_blocks(
    speed: Array, delta: Array, child: Slots, n: int, begin: Ints, top: Ints, wide: Ints
) -> tuple[Array, Array, Ints, int]:
    """Keep one speed and one delta for each lane of the first blocks, as far as they are even: see the table."""
    blocks = wide.size
    given, even, kept = np.zeros(blocks + 1, np.int64), 0, 0
    for k in range(blocks):
        alike = even == k
        L = top[k + 1] - top[k]
        for i in range(begin[k], begin[k + 1]):
            lane = begin[k] + (i - begin[k]) % L  # its first child is never padding
            padding = delta[i] == np.inf
            alike = alike and (padding or (child[i] < n and speed[i] == speed[lane] and delta[i] == delta[lane]))
            if not alike:
                break
        even += alike
        given[k + 1] = given[k] + (L if alike else begin[k + 1] - begin[k])
    short_speed, short_delta = np.empty(given[blocks]), np.empty(given[blocks])
    for k in range(blocks):
        kept = given[k + 1] - given[k]
        short_speed[given[k] : given[k] + kept] = speed[begin[k] : begin[k] + kept]
        short_delta[given[k] : given[k] + kept] = delta[begin[k] : begin[k] + kept]
    return short_speed, short_delta, given, even


@njit(cache=True, error_model="numpy")
def step(
    q: Array,
    costs: Array,  # (n,)
    kappa: float,
    speed: Array,
    delta: Array,
    child: Slots,
    vertex: Ints,
    begin: Ints,  # (blocks + 1,)
    top: Ints,  # (blocks + 1,)
    wide: Ints,  # (blocks,)
    given: Ints,  # (blocks + 1,)
    even: int,
) -> Array:
    """The new conditional probabilities, (vertices,)."""
    n = costs.size
    out, c_above = q.copy(), np.empty(q.size - n)
    c_above[q.size - n - 1 :] = np.inf  # of the root, which stands for padding; a tree of one leaf has nothing above
    most_slots, most_lanes = 0, 0
    for k in range(wide.size):
        most_slots = max(most_slots, begin[k + 1] - begin[k])
        most_lanes = max(most_lanes, top[k + 1] - top[k])
    s, a, c, x = np.empty(most_slots), np.empty(most_slots), np.empty(most_slots), np.empty(most_slots)
    d = np.empty(most_slots)
    bits, few_bits = np.empty(most_slots, np.int64), np.empty(most_lanes, np.int64)
    b, steepest, lowest = np.empty(most_lanes), np.empty(most_lanes), np.empty(most_lanes)
    highest, mass, slope = np.empty(most_lanes), np.empty(most_lanes), np.empty(most_lanes)
    target, down, y = np.empty(most_lanes), np.empty(most_lanes), np.empty(most_lanes)
    for k in range(wide.size):
        base, slots, L, m = begin[k], begin[k + 1] - begin[k], top[k + 1] - top[k], wide[k]
        rate, shift = speed[given[k] : given[k + 1]], delta[given[k] : given[k + 1]]
        if k < even:
            _gather_leaves(out, costs, kappa, rate, shift, child[base : base + slots], m, L, s, a, c, d)
        else:
            _gather(out, costs, c_above, kappa, rate, shift, child[base : base + slots], s, a, c, d)
        if n > OUT_OF_CACHE and k + 1 < wide.size:
            fetch(out, costs, child[begin[k + 1] : begin[k + 2]])
        _shift(c, m, L, lowest, highest)
        _start(s, a, c, d, m, L, lowest, highest, b, steepest, mass, slope, target, down, y, few_bits)
        down[:L] = 0.0
        for _ in range(MAX_STEPS):
            for j in range(m):
                into, rate, cost = x[j * L : j * L + L], a[j * L : j * L + L], c[j * L : j * L + L]
                for i in range(L):
                    into[i] = rate[i] * (b[i] - cost[i])
            exponentials(x, s, bits, slots)
            if _newton(x, a, d, m, L, steepest, b, down, mass, slope, target, y, few_bits) == 0:
                break
        _settle(x, a, c, d, m, L, steepest, down, mass, slope)
        for i in range(L):
            c_above[vertex[top[k] + i] - n] = lowest[i] + slope[i]
        for i in range(slots):
            out[child[base + i]] = x[i]
        if _any_still(steepest, L):
            for j in range(m):
                for i in range(L):
                    if steepest[i] == 0.0:  # nothing to decide: equal costs, or all forbidden
                        v = child[base + j * L + i]
                        out[v] = q[v]
    out[q.size - 1] = 1.0
    return out


@njit(cache=True)
def fetch(q: Array, costs: Array, child: Slots) -> None:
    """Bring what a block will read into the cache."""
    for v in child:
        prefetch(q, v)
        prefetch(costs, min(v, costs.size - 1))


@njit(cache=True, error_model="numpy", inline="always")
def _gather(
    q: Array,
    costs: Array,
    c_above: Array,
    kappa: float,
    rate: Array,
    shift: Array,
    child: Slots,
    s: Array,
    a: Array,
    c: Array,
    d: Array,
) -> None:
    for i in range(child.size):
        v = child[i]
        s[i] = q[v]
        c[i] = costs[v] if v < costs.size else c_above[v - costs.size]
    for i in range(child.size):
        d[i] = shift[i]
        s[i] += d[i] if d[i] < np.inf else 1.0
        a[i] = kappa * rate[i]


@njit(cache=True, error_model="numpy", inline="always")
def _gather_leaves(
    q: Array,
    costs: Array,
    kappa: float,
    rate: Array,
    shift: Array,
    child: Slots,
    m: int,
    L: int,
    s: Array,
    a: Array,
    c: Array,
    d: Array,
) -> None:
    """The same of an even block: all children but padding are leaves."""
    for i in range(child.size):
        v = child[i]
        s[i] = q[v]
        c[i] = costs[min(v, costs.size - 1)]
    for j in range(m):
        for i in range(L):
            k = j * L + i
            real = child[k] < costs.size
            d[k] = shift[i] if real else np.inf
            a[k] = kappa * (rate[i] if real else 1.0)
            s[k] += shift[i] if real else 1.0
            c[k] = c[k] if real else np.inf


@njit(cache=True, error_model="numpy")
def _shift(c: Array, m: int, L: int, lowest: Array, highest: Array) -> None:
    """Make the lowest cost of each vertex 0; what it was, and what the highest is then (padding does not count)."""
    lowest[:L] = np.inf
    highest[:L] = 0.0
    for j in range(m):
        cost = c[j * L : j * L + L]
        for i in range(L):
            lowest[i] = cost[i] if cost[i] < lowest[i] else lowest[i]
    for j in range(m):
        cost = c[j * L : j * L + L]
        for i in range(L):
            cost[i] = cost[i] - lowest[i] if lowest[i] < np.inf else np.inf


@njit(cache=True, error_model="numpy")
def _start(
    s: Array,
    a: Array,
    c: Array,
    d: Array,
    m: int,
    L: int,
    lowest: Array,
    highest: Array,
    b: Array,
    steepest: Array,
    slope: Array,
    weighted: Array,
    first: Array,
    own: Array,
    y: Array,
    bits: Ints,
) -> None:
    """An upper bound b of the root for every lane, and the largest a: 0 where nothing is to be decided."""
    steepest[:L], slope[:L], weighted[:L] = 0.0, 0.0, 0.0
    first[:L], own[:L], y[:L] = 1.0, 1.0, 1.0
    for j in range(m):
        share, rate = s[j * L : j * L + L], a[j * L : j * L + L]
        cost, shift = c[j * L : j * L + L], d[j * L : j * L + L]
        for i in range(L):
            real = shift[i] < np.inf
            highest[i] = cost[i] if real and cost[i] > highest[i] else highest[i]
            steepest[i] = rate[i] if real and rate[i] > steepest[i] else steepest[i]
            product = share[i] * rate[i] if real else 0.0
            slope[i] += product
            weighted[i] += product * cost[i] if cost[i] < np.inf else 0.0
            # Of the cheapest child, at which b it alone would reach probability 1.
            cheapest = cost[i] == 0.0 and real
            y[i] = 1.0 + shift[i] if cheapest else y[i]
            own[i] = share[i] if cheapest else own[i]
            first[i] = rate[i] if cheapest else first[i]
    for i in range(L):
        y[i] /= own[i]
    logarithms(y, bits, L)
    for i in range(L):
        b[i] = y[i] / first[i]
        jensen = weighted[i] / slope[i]
        b[i] = jensen if highest[i] < np.inf and jensen < b[i] else b[i]
        steepest[i] = steepest[i] if highest[i] > 0.0 and lowest[i] < np.inf else 0.0
    for i in range(L):
        if b[i] * steepest[i] > SAFE_EXPONENT:  # edges of very different weight below one vertex
            for j in range(m):
                k = j * L + i
                if d[k] < np.inf:
                    b[i] = min(b[i], c[k] + np.log((1.0 + d[k]) / s[k]) / a[k])


@njit(cache=True, error_model="numpy")
def _newton(
    x: Array,
    a: Array,
    d: Array,
    m: int,
    L: int,
    steepest: Array,
    b: Array,
    down: Array,
    mass: Array,
    slope: Array,
    target: Array,
    y: Array,
    bits: Ints,
) -> int:
    """One Newton step in every lane that still moves; how many will take another."""
    mass[:L], slope[:L], target[:L] = 0.0, 0.0, 1.0
    for j in range(m):
        part, rate, shift = x[j * L : j * L + L], a[j * L : j * L + L], d[j * L : j * L + L]
        for i in range(L):
            active = part[i] > shift[i]
            value = part[i] if active else 0.0
            mass[i] += value
            slope[i] += value * rate[i]
            target[i] += shift[i] if active else 0.0
    for i in range(L):
        y[i] = mass[i] / target[i] if steepest[i] > 0.0 else 1.0
        slope[i] = slope[i] if steepest[i] > 0.0 else 1.0
    logarithms(y, bits, L)
    moving = 0
    for i in range(L):
        down[i] = y[i] * mass[i] / slope[i]
        moves = down[i] * steepest[i] > SMALL_STEP
        b[i] -= down[i] if moves else 0.0
        moving += moves
    return moving


@njit(cache=True, error_model="numpy")
def _settle(
    x: Array, a: Array, c: Array, d: Array, m: int, L: int, steepest: Array, down: Array, total: Array, expected: Array
) -> None:
    """Probabilities into x, by the last Newton step to first order, and their expected cost."""
    total[:L], expected[:L] = 0.0, 0.0
    for j in range(m):
        part, rate, shift = x[j * L : j * L + L], a[j * L : j * L + L], d[j * L : j * L + L]
        for i in range(L):
            left = part[i] * (1.0 - rate[i] * down[i]) - shift[i]
            part[i] = left if left > 0.0 else 0.0
            total[i] += part[i]
    for i in range(L):
        total[i] = 1.0 / total[i] if steepest[i] > 0.0 else 0.0  # 1 up to rounding
    for j in range(m):
        part, cost = x[j * L : j * L + L], c[j * L : j * L + L]
        for i in range(L):
            part[i] *= total[i]
            expected[i] += part[i] * cost[i] if part[i] > 0.0 else 0.0  # 0 * inf is skipped


@njit(cache=True)
def _any_still(steepest: Array, L: int) -> bool:
    least = np.inf
    for i in range(L):
        least = min(least, steepest[i])
    return least == 0.0


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def logarithms(y: Array, bits: Ints, m: int) -> None:
    """Y <- log(y) of the first m entries, which are positive and not denormal, to about two units in the last place.

    y = 2^k f with f between sqrt(1/2) and sqrt(2), and log f = 2 artanh((f - 1) / (f + 1)), whose series falls by a
    factor of at least 34 from term to term.
    """
    numbers = bits.view(np.float64)
    for i in range(m):
        numbers[i] = y[i]
    for i in range(m):
        k = (bits[i] >> 52) - 1023
        bits[i] = (bits[i] & MANTISSA) | (1023 << 52)
        y[i] = float(k)
    for i in range(m):
        f, k = numbers[i], y[i]
        large = f > SQRT_2
        f = 0.5 * f if large else f
        k = k + 1.0 if large else k
        t = (f - 1.0) / (f + 1.0)
        u = t * t
        p = 1.0 / 23.0
        p = p * u + 1.0 / 21.0
        p = p * u + 1.0 / 19.0
        p = p * u + 1.0 / 17.0
        p = p * u + 1.0 / 15.0
        p = p * u + 1.0 / 13.0
        p = p * u + 1.0 / 11.0
        p = p * u + 1.0 / 9.0
        p = p * u + 1.0 / 7.0
        p = p * u + 1.0 / 5.0
        p = p * u + 1.0 / 3.0
        y[i] = k * LN2 + 2.0 * (t + t * u * p)
