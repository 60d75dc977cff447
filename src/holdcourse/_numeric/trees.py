"""Metrics and trees: checks of movement costs, cheapest routes, FRT clustering, tight weights, tree distances.

Notation
--------
D           (n, n)   metric between actions
order       (n,)     the random permutation pi of the actions
r           (levels + 1,) radius of each level, falling by the factor tau; at the end -1
W           (k,)     weight of the edges below each internal vertex
first, children      children of internal vertex u are children[first[u]:first[u + 1]], u counted from 0
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from holdcourse._numeric import points

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Ranks = NDArray[np.int32]


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


@njit(cache=True)
def centre_ranks(D: Array, order: Ints, r: Array, begin: Ints) -> Ranks:
    """Find the FRT centres: at each level the first action of the random order within the level's radius."""
    n = D.shape[0]
    rank = np.empty(begin[n], np.int32)
    for x in range(n):
        k = 0
        for level in range(begin[x + 1] - begin[x]):
            while D[x, order[k]] > r[level]:
                k += 1
            rank[begin[x] + level] = k
    return rank


@njit(cache=True)
def frt_parents(
    rank: Ranks, begin: Ints, own: Ints, P: Array, norm: int, r: Array, most: float, more: float
) -> tuple[Ints, Ints, Array]:
    """Cluster by falling radii; a vertex is made only where a cluster splits, so there are no chains.

    `rank` are the centres of each action, level after level from `begin` on; below these levels it is alone, as a
    centre of its own, `own` (n,) in the random order.

    Returns the parent of each action and of each internal vertex, counted from 0 at the root (whose parent is -1),
    parents before children; and the diameter of each, without a fixed cost, where the actions are points P in the order
    of a tree of boxes (none: 0), by a norm as in `holdcourse._numeric.points`. It is exact unless more than `most`,
    and `more` for each of its points, pairs would have to be measured; then it is an upper bound.
    """
    n = own.size
    leaf_parent = np.full(n, -1, np.int64)
    internal_parent = np.full(max(1, n - 1), -1, np.int64)
    diameters = np.zeros(max(1, n - 1))
    vertices = 0
    members = np.arange(n)  # actions not yet alone, members of a cluster side by side
    cluster = np.zeros(n, np.int64)  # of each entry of `members`
    above = np.full(n, -1, np.int64)  # of each cluster: the last vertex made above it
    key = np.empty(n, np.int64)
    active = n if n > 1 else 0
    level = 0
    while active:
        for k in range(active):
            x = members[k]
            centre = rank[begin[x] + level] if begin[x] + level < begin[x + 1] else own[x]
            key[k] = cluster[k] * n + centre
        # Stable, so that members keep the order of the boxes.
        by_cluster_and_centre = np.argsort(key[:active], kind="mergesort")
        # Runs of equal keys are the new clusters; runs of one old cluster are its parts.
        next_members = np.empty(active, np.int64)
        next_cluster = np.empty(active, np.int64)
        next_above = np.empty(active, np.int64)
        kept = clusters = 0
        i = 0
        while i < active:
            old = cluster[i]
            end, parts = i, 0
            while end < active and cluster[end] == old:
                if end == i or key[by_cluster_and_centre[end]] != key[by_cluster_and_centre[end - 1]]:
                    parts += 1
                end += 1
            vertex = above[old]
            if parts > 1:
                internal_parent[vertices] = vertex
                vertex = vertices
                vertices += 1
                if P.shape[0]:
                    widest, exact = points.diameter(P, members[i:end], norm, max(most, more * (end - i)))
                    if not exact and level > 0:  # all are within the last radius of one centre
                        widest = min(widest, 2.0 * r[level - 1] * (1.0 + 1e-12))
                    diameters[vertex] = widest
            while i < end:
                run = i
                while run < end and key[by_cluster_and_centre[run]] == key[by_cluster_and_centre[i]]:
                    run += 1
                if run - i == 1:
                    leaf_parent[members[by_cluster_and_centre[i]]] = vertex
                else:
                    for k in range(i, run):
                        next_members[kept] = members[by_cluster_and_centre[k]]
                        next_cluster[kept] = clusters
                        kept += 1
                    next_above[clusters] = vertex
                    clusters += 1
                i = run
        members[:kept] = next_members[:kept]
        cluster[:kept] = next_cluster[:kept]
        above[:clusters] = next_above[:clusters]
        active = kept
        level += 1
    return leaf_parent, internal_parent[:vertices], diameters[:vertices]


@njit(cache=True)
def number_by_height(leaf_parent: Ints, internal_parent: Ints) -> tuple[Ints, Ints]:
    """Change parents-first numbering to ours: leaves 0..n-1, then internal vertices by height, the root last.

    Returns the parent of every vertex, and the new number of every internal one.
    """
    n, internal = leaf_parent.size, internal_parent.size
    height = np.ones(internal, np.int64)
    for u in range(internal - 1, 0, -1):
        height[internal_parent[u]] = max(height[internal_parent[u]], height[u] + 1)
    number = np.empty(internal, np.int64)
    number[np.argsort(height, kind="mergesort")] = np.arange(n, n + internal)
    parent = np.full(n + internal, -1, np.int64)
    for x in range(n):
        parent[x] = number[leaf_parent[x]]
    for u in range(1, internal):
        parent[number[u]] = number[internal_parent[u]]
    return parent, number


@njit(cache=True)
def leaves_below(parent: Ints, n: int) -> Ints:
    """How many leaves are below each vertex, itself included."""
    count = np.zeros(parent.size, np.int64)
    count[:n] = 1
    for v in range(parent.size - 1):
        count[parent[v]] += count[v]
    return count


@njit(cache=True)
def edges_above(parent: Ints) -> Ints:
    """How many edges are between each vertex and the root."""
    edges = np.zeros(parent.size, np.int64)
    for v in range(parent.size - 2, -1, -1):
        edges[v] = edges[parent[v]] + 1
    return edges


@njit(cache=True)
def independent_blocks(n: int, first: Ints, children: Ints, most_slots: int) -> Ints:
    """Cut the internal vertices into runs in which none is a child of another and the children are few."""
    internal = first.size - 1
    cuts = np.zeros(internal + 1, np.int64)
    count, start = 1, 0
    for u in range(internal):
        depends = False
        for k in range(first[u], first[u + 1]):
            depends |= children[k] - n >= start
        if u > start and (depends or first[u + 1] - first[start] > most_slots):
            cuts[count] = start = u
            count += 1
    if internal:
        cuts[count] = internal
        count += 1
    return cuts[:count]


@njit(cache=True)
def diameters(D: Array, parent: Ints) -> Array:
    """The largest distance between two leaves below each internal vertex; vertices numbered children before parents."""
    n = D.shape[0]
    leaf_count = leaves_below(parent, n)
    widest = np.zeros(parent.size)
    # Leaves below u lie side by side in `leaves` at begin[u], those of its children one after the other.
    leaves = np.empty(n, np.int64)
    begin = np.zeros(parent.size, np.int64)
    filled = np.zeros(parent.size, np.int64)  # of the leaves below u, how many children have taken
    for v in range(parent.size - 2, -1, -1):
        u = parent[v]
        begin[v] = begin[u] + filled[u]
        filled[u] += leaf_count[v]
        if v < n:
            leaves[begin[v]] = v
    for v in range(parent.size - 1):
        u = parent[v]
        widest[u] = max(widest[u], widest[v])
        # Every pair of actions is seen once in the whole tree: at the vertex where they part.
        for a in range(begin[v], begin[v] + leaf_count[v]):
            for b in range(begin[u], begin[v]):
                widest[u] = max(widest[u], D[leaves[a], leaves[b]])
    return widest[n:]


@njit(cache=True)
def tight_weights(diameter: Array, parent: Ints, tau: float) -> Array:
    """W(u) = max(diameter(u) / 2, tau * W(c) over internal children c); vertices numbered children before parents."""
    internal = diameter.size
    n = parent.size - internal
    W, deepest = np.zeros(internal), np.zeros(internal)
    for u in range(internal):
        W[u] = max(diameter[u] / 2.0, tau * deepest[u])
        if W[u] / tau < deepest[u]:  # rounding must not break w_child <= w_parent / tau
            W[u] = np.nextafter(W[u], np.inf)
        if u < internal - 1:
            above = parent[n + u] - n
            deepest[above] = max(deepest[above], W[u])
    return W


@njit(cache=True)
def tree_distance(parent: Ints, weight: Array, i: int, j: int) -> float:
    """Weight of the path between vertices i and j; parents have larger numbers than their children."""
    left, right = 0.0, 0.0
    while i != j:
        if i < j:
            left += weight[i]
            i = parent[i]
        else:
            right += weight[j]
            j = parent[j]
    return left + right


@njit(cache=True)
def tree_distances(parent: Ints, weight: Array, n: int) -> Array:
    """All distances between leaves."""
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            out[i, j] = out[j, i] = tree_distance(parent, weight, i, j)
    return out


@njit(cache=True)
def pair_distances(parent: Ints, weight: Array, here: Ints, there: Ints) -> Array:
    """Distances between pairs of leaves."""
    out = np.empty(here.size)
    for k in range(here.size):
        out[k] = tree_distance(parent, weight, here[k], there[k])
    return out


@njit(cache=True)
def stretch(parent: Ints, weight: Array, D: Array) -> tuple[float, float, float]:
    """Least, mean and largest d_T / d over all pairs of leaves."""
    n = D.shape[0]
    least, total, largest = np.inf, 0.0, 0.0
    for i in range(n):
        for j in range(i):
            ratio = tree_distance(parent, weight, i, j) / D[i, j]
            least = min(least, ratio)
            largest = max(largest, ratio)
            total += ratio
    return least, total / (n * (n - 1) / 2), largest
