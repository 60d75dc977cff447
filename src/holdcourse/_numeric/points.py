"""Actions as points in space: distances, farthest and nearest points and FRT centres without an (n, n) matrix.

========  =====================================================================================  ===========
symbol    meaning                                                                                shape
========  =====================================================================================  ===========
P         points, scaled, in the order of the tree of boxes: near ones side by side              (n, d)
norm      2 euclidean, 1 cityblock, 0 chebyshev; or blocks of columns, see below
fixed     cost that is added to every move between two different points
low,      corners of the box around the points of each node. Node 1 is the root, 2 k and         (2 B, d)
high      2 k + 1 are the halves of node k, nodes B..2 B - 1 are the buckets
r         radii of the FRT levels, falling; at the end -1, which no distance is within           (levels + 1,)
begin     where the levels of each point begin in `rank`                                         (n + 1,)
rank      position in the random order of each point's centre, level after level                 (begin[n],)
========  =====================================================================================  ===========

**Boxes bound distances to the last bit.** Subtraction, squares, sums and roots are rounded monotonically, so the
distance from a point to a box, computed by the same steps as one to a point, is never above that to any point in it. So
what is left out because of a box would have been left out by looking at every point: searches give exactly what a
matrix would, as long as distances are summed axis after axis as `scipy.spatial.distance.cdist` does.

**Blocks.** The columns of knobs stand in blocks: within a block the largest difference counts, and the blocks are
added. Such a norm is 3 + 4 s, where bit a of s says that column a begins a block.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Ranks = NDArray[np.int32]

BUCKET = 16  # most points that are looked at one by one
STACK = 4096  # nodes, or pairs of them, that wait; a depth-first search needs a few for each of 60 levels
FEW = 48  # of so few points all pairs are measured at once


@njit(cache=True, inline="always")
def added(total: float, apart: float, norm: int) -> float:
    """Take one more axis into account."""
    if norm == 2:
        return total + apart * apart
    if norm == 1:
        return total + apart
    return max(total, apart)


@njit(cache=True, inline="always")
def rooted(total: float, norm: int) -> float:
    """The distance, when all axes are in."""
    return math.sqrt(total) if norm == 2 else total


@njit(cache=True, inline="always")
def begins(norm: int, a: int) -> bool:
    """Whether a column begins a block."""
    return ((norm >> (a + 2)) & 1) == 1


@njit(cache=True)
def between(P: Array, i: int, j: int, norm: int) -> float:
    """Distance of two points."""
    total, block = 0.0, 0.0
    if norm > 2:
        for a in range(P.shape[1]):
            apart = abs(P[i, a] - P[j, a])
            if begins(norm, a):
                total, block = total + block, apart
            else:
                block = max(block, apart)
        return total + block
    for a in range(P.shape[1]):
        total = added(total, abs(P[i, a] - P[j, a]), norm)
    return rooted(total, norm)


@njit(cache=True)
def to_box(P: Array, i: int, low: Array, high: Array, node: int, norm: int) -> float:
    """Distance of a point to the nearest place of a box."""
    total, block = 0.0, 0.0
    if norm > 2:
        for a in range(P.shape[1]):
            x = P[i, a]
            apart = max(max(low[node, a] - x, x - high[node, a]), 0.0)
            if begins(norm, a):
                total, block = total + block, apart
            else:
                block = max(block, apart)
        return total + block
    for a in range(P.shape[1]):
        x = P[i, a]
        apart = max(low[node, a] - x, x - high[node, a])
        total = added(total, max(apart, 0.0), norm)
    return rooted(total, norm)


@njit(cache=True)
def between_boxes(low: Array, high: Array, node: int, other: int, norm: int) -> float:
    """Distance of the nearest places of two boxes."""
    total, block = 0.0, 0.0
    if norm > 2:
        for a in range(low.shape[1]):
            apart = max(max(low[other, a] - high[node, a], low[node, a] - high[other, a]), 0.0)
            if begins(norm, a):
                total, block = total + block, apart
            else:
                block = max(block, apart)
        return total + block
    for a in range(low.shape[1]):
        apart = max(low[other, a] - high[node, a], low[node, a] - high[other, a])
        total = added(total, max(apart, 0.0), norm)
    return rooted(total, norm)


@njit(cache=True)
def across(low: Array, high: Array, node: int, other: int, norm: int) -> float:
    """Largest distance of a place in one box to a place in another."""
    total, block = 0.0, 0.0
    if norm > 2:
        for a in range(low.shape[1]):
            apart = max(high[node, a] - low[other, a], high[other, a] - low[node, a])
            if begins(norm, a):
                total, block = total + block, apart
            else:
                block = max(block, apart)
        return total + block
    for a in range(low.shape[1]):
        total = added(total, max(high[node, a] - low[other, a], high[other, a] - low[node, a]), norm)
    return rooted(total, norm)


@njit(cache=True)
def buckets_for(n: int) -> int:
    """How many buckets n points need: a power of two."""
    count = 1
    while count * BUCKET < n:
        count *= 2
    return count


@njit(cache=True, inline="always")
def edge(bucket: int, n: int, buckets: int) -> int:
    """Where the points of a bucket begin."""
    return bucket * n // buckets


@njit(cache=True)
def ordered(points: Array, turn: Ints, alike: Array) -> Ints:
    """The order of the points in a tree of boxes, each halved at the median of its longest side.

    `turn` (d,) says when an axis has its turn: only where a box has no extent along those of earlier turns. Points no
    farther apart than `alike` (d,) are in one place.
    """
    n, d = points.shape
    order = np.arange(n)
    buckets = buckets_for(n)
    P = points.copy()
    width = buckets
    while width > 1:
        for first in range(0, buckets, width):
            start, stop = edge(first, n, buckets), edge(first + width, n, buckets)
            middle = edge(first + width // 2, n, buckets)
            axis, longest, earliest = 0, -1.0, np.int64(0)
            for a in range(d):
                least, most = np.inf, -np.inf
                for k in range(start, stop):
                    least, most = min(least, P[k, a]), max(most, P[k, a])
                side = most - least if most - least > alike[a] else 0.0
                if longest > 0.0:
                    better = side > 0.0 and (turn[a] < earliest or (turn[a] == earliest and side > longest))
                else:
                    better = side > longest
                if better:
                    axis, longest, earliest = a, side, turn[a]
            _part(P, order, start, stop, middle, axis)
        width //= 2
    return order


@njit(cache=True)
def _part(P: Array, order: Ints, start: int, stop: int, middle: int, axis: int) -> None:
    """Rearrange the points of a range so that those before `middle` are nowhere above those from it on (Hoare)."""
    left, right = start, stop - 1
    while left < right:
        a, b, c = P[left, axis], P[(left + right) // 2, axis], P[right, axis]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = left, right
        while i <= j:
            while P[i, axis] < pivot:
                i += 1
            while P[j, axis] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                for k in range(P.shape[1]):
                    P[i, k], P[j, k] = P[j, k], P[i, k]
                i += 1
                j -= 1
        if middle <= j:
            right = j
        elif middle >= i:
            left = i
        else:
            return


@njit(cache=True)
def boxes(P: Array, members: Ints) -> tuple[Array, Array]:
    """Corners of the boxes around members of P that stand in the order of a tree."""
    m, d = members.size, P.shape[1]
    buckets = buckets_for(m)
    low, high = np.full((2 * buckets, d), np.inf), np.full((2 * buckets, d), -np.inf)
    _bound(P, members, buckets, low, high)
    return low, high


@njit(cache=True)
def _bound(P: Array, members: Ints, buckets: int, low: Array, high: Array) -> None:
    m, d = members.size, P.shape[1]
    for b in range(buckets):
        node = buckets + b
        for a in range(d):
            least, most = np.inf, -np.inf
            for k in range(edge(b, m, buckets), edge(b + 1, m, buckets)):
                x = P[members[k], a]
                least, most = min(least, x), max(most, x)
            low[node, a], high[node, a] = least, most
    for node in range(buckets - 1, 0, -1):
        for a in range(d):
            low[node, a] = min(low[2 * node, a], low[2 * node + 1, a])
            high[node, a] = max(high[2 * node, a], high[2 * node + 1, a])


@njit(cache=True)
def row(P: Array, i: int, norm: int, fixed: float) -> Array:
    """What moving from point i to each point costs, (n,)."""
    n = P.shape[0]
    out = np.empty(n)
    for k in range(n):
        out[k] = between(P, i, k, norm) + fixed
    out[i] = 0.0
    return out


@njit(cache=True)
def pairs(P: Array, before: Ints, after: Ints, norm: int, fixed: float) -> Array:
    """What moving from before[k] to after[k] costs."""
    out = np.zeros(before.size)
    for k in range(before.size):
        if before[k] != after[k]:
            out[k] = between(P, before[k], after[k], norm) + fixed
    return out


@njit(cache=True)
def diameter(P: Array, members: Ints, norm: int, most: float) -> tuple[float, bool]:
    """The largest distance between two members, which stand in the order of a tree, and whether it is exact.

    Where more than `most` pairs would have to be measured, a bound is returned instead, which is not below.
    """
    m = members.size
    best = 0.0
    if m <= FEW:
        for i in range(m):
            for j in range(i):
                best = max(best, between(P, members[i], members[j], norm))
        return best, True
    # Twice to the farthest point: often the answer, and nearly always close to it.
    here = members[0]
    most_apart = np.inf
    for _ in range(2):
        farthest, there = -1.0, here
        for k in range(m):
            apart = between(P, here, members[k], norm)
            if apart > farthest:
                farthest, there = apart, members[k]
        best, here = max(best, farthest), there
        most_apart = min(most_apart, 2.0 * farthest * (1.0 + 1e-12))  # by the triangle inequality
    buckets = buckets_for(m)
    low, high = boxes(P, members)
    left, right, bound = np.empty(STACK, np.int64), np.empty(STACK, np.int64), np.empty(STACK)
    left[0], right[0], bound[0] = 1, 1, across(low, high, 1, 1, norm)
    waiting, measured = 1, 0.0
    while waiting:
        waiting -= 1
        a, b = left[waiting], right[waiting]
        if bound[waiting] <= best:
            continue
        if measured > most:
            for k in range(waiting + 1):
                best = max(best, bound[k])
            return min(best, most_apart), False
        if a >= buckets:
            i_stop, j_start = edge(a - buckets + 1, m, buckets), edge(b - buckets, m, buckets)
            j_stop = edge(b - buckets + 1, m, buckets)
            for i in range(edge(a - buckets, m, buckets), i_stop):
                for j in range(j_start, j_stop):
                    best = max(best, between(P, members[i], members[j], norm))
            measured += BUCKET * BUCKET
            continue
        # The halves of both, the most promising pair on top.
        first = waiting
        for p in range(2):
            for q in range(2):
                if a == b and q < p:
                    continue
                reach = across(low, high, 2 * a + p, 2 * b + q, norm)
                if reach > best:
                    k = waiting
                    while k > first and bound[k - 1] > reach:
                        left[k], right[k], bound[k] = left[k - 1], right[k - 1], bound[k - 1]
                        k -= 1
                    left[k], right[k], bound[k] = 2 * a + p, 2 * b + q, reach
                    waiting += 1
        measured += 1.0
    return best, True


@njit(cache=True)
def nearest_others(P: Array, low: Array, high: Array, norm: int) -> Array:
    """Distance of each point to the nearest other one, (n,); infinite where there is only one."""
    n = P.shape[0]
    buckets = low.shape[0] // 2
    out = np.empty(n)
    stack = np.empty(STACK, np.int64)
    for b in range(buckets):
        start, stop = edge(b, n, buckets), edge(b + 1, n, buckets)
        for x in range(start, stop):
            best = np.inf
            for y in range(start, stop):
                if y != x:
                    best = min(best, between(P, x, y, norm))
            stack[0], waiting = 1, 1
            while waiting:
                waiting -= 1
                node = stack[waiting]
                if node == buckets + b or to_box(P, x, low, high, node, norm) >= best:
                    continue
                if node < buckets:
                    stack[waiting], stack[waiting + 1] = 2 * node, 2 * node + 1
                    waiting += 2
                    continue
                for y in range(edge(node - buckets, n, buckets), edge(node - buckets + 1, n, buckets)):
                    best = min(best, between(P, x, y, norm))
            out[x] = best
    return out


@njit(cache=True)
def centre_ranks(
    P: Array,
    low: Array,
    high: Array,
    order: Ints,  # (n,) the random order, as places in P
    r: Array,
    begin: Ints,
    norm: int,
    fixed: float,
) -> Ranks:
    """Find the FRT centres: at each level the first point of the random order within the level's radius.

    For the points of a bucket together and for each level the boxes are searched that hold an earlier point than one
    found so far and are within reach. Buckets are visited in their order, and the centre of the last point is tried
    first: it often is the same.
    """
    n = P.shape[0]
    buckets = low.shape[0] // 2
    rank = np.empty(begin[n], np.int32)
    own = np.empty(n, np.int32)
    for k in range(n):
        own[order[k]] = k
    earliest = np.empty(2 * buckets, np.int32)
    for b in range(buckets):
        first = np.int32(n)
        for x in range(edge(b, n, buckets), edge(b + 1, n, buckets)):
            first = min(first, own[x])
        earliest[buckets + b] = first
    for node in range(buckets - 1, 0, -1):
        earliest[node] = min(earliest[2 * node], earliest[2 * node + 1])
    stack = np.empty(STACK, np.int64)
    last = np.zeros(r.size, np.int32)  # the centre found last at each level
    coarser, best = np.empty(BUCKET, np.int32), np.empty(BUCKET, np.int32)
    for b in range(buckets):
        start, stop = edge(b, n, buckets), edge(b + 1, n, buckets)
        levels = 0
        for x in range(start, stop):
            coarser[x - start] = -1
            levels = max(levels, begin[x + 1] - begin[x])
        for level in range(levels):
            radius = r[level]
            latest = np.int32(-1)  # of the centres found that may still be too late; -1: none
            for x in range(start, stop):
                k = x - start
                best[k] = -1  # nothing is looked for
                if level >= begin[x + 1] - begin[x]:
                    continue
                if coarser[k] >= 0 and _within(P, x, order[coarser[k]], norm, fixed, radius):
                    rank[begin[x] + level] = coarser[k]  # no earlier point is within a larger radius
                    continue
                best[k] = own[x]
                if last[level] < best[k] and _within(P, x, order[last[level]], norm, fixed, radius):
                    best[k] = last[level]
                latest = max(latest, best[k])
            stack[0], waiting = 1, 1
            while waiting:
                waiting -= 1
                node = stack[waiting]
                if earliest[node] >= latest:
                    continue
                near = between_boxes(low, high, buckets + b, node, norm)
                if (near + fixed if near > 0.0 else 0.0) > radius:
                    continue
                if node < buckets:
                    # That with the earlier point on top.
                    later = 2 * node + (earliest[2 * node] <= earliest[2 * node + 1])
                    stack[waiting], stack[waiting + 1] = later, 4 * node + 1 - later
                    waiting += 2
                    continue
                latest = np.int32(-1)
                for x in range(start, stop):
                    k = x - start
                    if best[k] > earliest[node]:
                        near = to_box(P, x, low, high, node, norm)
                        if (near + fixed if near > 0.0 else 0.0) <= radius:
                            for y in range(edge(node - buckets, n, buckets), edge(node - buckets + 1, n, buckets)):
                                if own[y] < best[k] and between(P, x, y, norm) + fixed <= radius:
                                    best[k] = own[y]
                    latest = max(latest, best[k])
            for x in range(start, stop):
                if best[x - start] >= 0:
                    coarser[x - start] = last[level] = rank[begin[x] + level] = best[x - start]
    return rank


@njit(cache=True)
def _within(P: Array, x: int, y: int, norm: int, fixed: float, radius: float) -> bool:
    return x == y or between(P, x, y, norm) + fixed <= radius


@njit(cache=True)
def nearest(
    P: Array,
    low: Array,
    high: Array,
    place: Ints,
    permitted: NDArray[np.bool_],
    wanted: int,
    norm: int,
    fixed: float,
) -> int:
    """The permitted point nearest to a wanted one, of equally near ones that of the lowest action; -1 where none is.

    `place` (n,) is the action at each point; `permitted` is by action, `wanted` is a point that is not permitted. The
    fixed cost can make points equally near, by rounding, as in the matrix.
    """
    n = P.shape[0]
    buckets = low.shape[0] // 2
    best, found = np.inf, -1
    stack, bound = np.empty(STACK, np.int64), np.empty(STACK)
    stack[0], bound[0], waiting = 1, 0.0, 1
    while waiting:
        waiting -= 1
        node = stack[waiting]
        if bound[waiting] > best:
            continue
        if node < buckets:
            near = to_box(P, wanted, low, high, 2 * node, norm) + fixed
            far = to_box(P, wanted, low, high, 2 * node + 1, norm) + fixed
            swap = near > far
            stack[waiting], bound[waiting] = (2 * node, near) if swap else (2 * node + 1, far)
            stack[waiting + 1], bound[waiting + 1] = (2 * node + 1, far) if swap else (2 * node, near)
            waiting += 2
            continue
        for x in range(edge(node - buckets, n, buckets), edge(node - buckets + 1, n, buckets)):
            if permitted[place[x]]:
                apart = between(P, wanted, x, norm) + fixed
                if apart < best or (apart == best and place[x] < place[found]):
                    best, found = apart, x
    return found


@njit(cache=True)
def beyond(low: Array, high: Array, here: int, node: int, reach: Array) -> bool:
    """Whether two boxes are farther apart than `reach`, along some axis."""
    out = 0
    for a in range(low.shape[1]):
        out += max(low[node, a] - high[here, a], low[here, a] - high[node, a]) > reach[a]
    return out > 0


@njit(cache=True)
def relax(
    V: Array,  # (n,) by point
    P: Array,
    low: Array,
    high: Array,
    norm: int,
    fixed: float,
    longest: float,
    reach: Array,
    A: Array,
    most: Array,
    norm_most: float,
    U: Array,  # (n,) by point
) -> None:
    """U[x] = min over y of V[y] + cost(y to x), over the moves that are short enough; by point, not by action.

    A move may cost `longest`. Where A (n, d), the settings without prices, is not empty, it may go as far as `most`
    along each axis there and `norm_most` in all; no box beyond `reach` (d,) holds such a point.

    Where moves may be of any length, a source y is superfluous if another one offers y itself less than V[y]: what y
    offers to x, that one offers for less, by the triangle inequality. Most are, mostly by a neighbour's source, and are
    left out, which changes the result by rounding at most; and those that are not are what they were. With short moves
    it is that of the matrix to the last bit.
    """
    n = P.shape[0]
    for x in range(n):
        U[x] = V[x]
    if A.shape[0] > 0 or longest < np.inf:
        _search(V, V, P, low, high, norm, fixed, longest, reach, A, most, norm_most, False, U)
        return
    _search(V, V, P, low, high, norm, fixed, longest, reach, A, most, norm_most, True, U)
    sources = np.empty(n)
    for x in range(n):
        sources[x] = V[x] if U[x] == V[x] else np.inf
    _search(V, sources, P, low, high, norm, fixed, longest, reach, A, most, norm_most, False, U)


@njit(cache=True)
def _search(
    V: Array,
    sources: Array,  # (n,) V, and infinity where a source is left out
    P: Array,
    low: Array,
    high: Array,
    norm: int,
    fixed: float,
    longest: float,
    reach: Array,
    A: Array,
    most: Array,
    norm_most: float,
    any_better: bool,
    U: Array,  # (n,) what is known to be offered, at most V
) -> None:
    """`relax` over some sources; with `any_better` not the best of them, but any that is better than staying.

    For the points of a bucket together the boxes are searched whose least value and distance may be better than what
    the worst of them has; a neighbour's source is tried first.
    """
    n = P.shape[0]
    buckets = low.shape[0] // 2
    limited = A.shape[0] > 0
    least = np.full(2 * buckets, np.inf)
    for b in range(buckets):
        for x in range(edge(b, n, buckets), edge(b + 1, n, buckets)):
            least[buckets + b] = min(least[buckets + b], sources[x])
    for node in range(buckets - 1, 0, -1):
        least[node] = min(least[2 * node], least[2 * node + 1])
    stack, bound = np.empty(STACK, np.int64), np.empty(STACK)
    some = not (limited or longest < np.inf or any_better)  # points that stay best where they are need no search
    source = 0
    for b in range(buckets):
        start, stop = edge(b, n, buckets), edge(b + 1, n, buckets)
        worst = -np.inf
        for x in range(start, stop):
            if some and sources[x] == U[x]:
                continue
            if source != x:
                U[x] = min(U[x], _through(V, P, source, x, norm, fixed, longest, A, most, norm_most))
            if not (any_better and U[x] < V[x]):
                worst = max(worst, U[x])
        stack[0], bound[0], waiting = 1, least[1], 1
        while waiting:
            waiting -= 1
            node = stack[waiting]
            if bound[waiting] >= worst:
                continue
            if node < buckets:
                near, far = 2 * node, 2 * node + 1
                by_near = _at_least(low, high, buckets + b, near, norm, fixed, least)
                by_far = _at_least(low, high, buckets + b, far, norm, fixed, least)
                if by_near > by_far:
                    near, far = far, near
                    by_near, by_far = by_far, by_near
                if by_far < worst and not (limited and beyond(low, high, buckets + b, far, reach)):
                    stack[waiting], bound[waiting] = far, by_far
                    waiting += 1
                if by_near < worst and not (limited and beyond(low, high, buckets + b, near, reach)):
                    stack[waiting], bound[waiting] = near, by_near
                    waiting += 1
                continue
            worst = -np.inf
            for x in range(start, stop):
                if (some and sources[x] == U[x]) or (any_better and U[x] < V[x]):
                    continue
                way = to_box(P, x, low, high, node, norm)
                if least[node] + (way + fixed if way > 0.0 else 0.0) < U[x]:
                    for y in range(edge(node - buckets, n, buckets), edge(node - buckets + 1, n, buckets)):
                        if sources[y] < U[x] and y != x:
                            through = _through(V, P, y, x, norm, fixed, longest, A, most, norm_most)
                            if through < U[x]:
                                U[x], source = through, y
                if not (any_better and U[x] < V[x]):
                    worst = max(worst, U[x])


@njit(cache=True)
def _at_least(low: Array, high: Array, here: int, node: int, norm: int, fixed: float, least: Array) -> float:
    """No source in a box offers less to a point of the bucket `here`."""
    way = between_boxes(low, high, here, node, norm)
    return float(least[node] + (way + fixed if way > 0.0 else 0.0))


@njit(cache=True)
def _through(
    V: Array,
    P: Array,
    y: int,
    x: int,
    norm: int,
    fixed: float,
    longest: float,
    A: Array,
    most: Array,
    norm_most: float,
) -> float:
    """What a source offers; infinity where the move is too long."""
    way = between(P, y, x, norm) + fixed
    if way > longest:
        return np.inf
    if A.shape[0]:
        for a in range(A.shape[1]):
            if abs(A[y, a] - A[x, a]) > most[a]:
                return np.inf
        if norm_most < np.inf and between(A, y, x, norm) > norm_most:
            return np.inf
    return float(V[y] + way)
