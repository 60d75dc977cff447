"""Slow, obvious twins of the tree kernels."""

from __future__ import annotations

import numpy as np


def frt_clusters(D, order, top_radius, tau):
    """Levels of clusters, coarse to fine: each a list of frozensets; the definition, point by point."""
    n = len(D)
    levels = [([frozenset(range(n))], top_radius)]
    r = top_radius
    while any(len(cluster) > 1 for cluster in levels[-1][0]):
        r /= tau
        centre = [next(y for y in order if D[x, y] <= r) for x in range(n)]
        finer = []
        for cluster in levels[-1][0]:
            finer += [frozenset(x for x in cluster if centre[x] == y) for y in {centre[x] for x in cluster}]
        levels.append((finer, r))
    return levels


def clusters_below(tree):
    """The leaves below each internal vertex, as a set of frozensets."""
    below = {v: {v} for v in range(tree.n)}
    for v in range(len(tree.parent) - 1):
        below.setdefault(int(tree.parent[v]), set()).update(below[v])
    return {v: frozenset(leaves) for v, leaves in below.items() if v >= tree.n}


def path_distance(tree, i, j):
    """Weight of the path between two leaves, by listing both ways to the root."""

    def way_up(v):
        way = [v]
        while tree.parent[way[-1]] >= 0:
            way.append(int(tree.parent[way[-1]]))
        return way

    up_i, up_j = way_up(i), way_up(j)
    only = set(up_i) ^ set(up_j)
    return float(np.sum([tree.weight[v] for v in only]))
