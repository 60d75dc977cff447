"""Check that a tree is one that the theory can work with."""

from __future__ import annotations

import numpy as np

from holdcourse.problem import Problem
from holdcourse.tree import Tree


def check_tree(tree: Tree, problem: Problem) -> None:
    """Check that a tree may stand for the problem's metric (docs/theory/movement.md).

    Its leaves are the actions; its distances are nowhere below the metric's (the mean of both directions for directed
    costs); every edge weighs at most 1/tau of the edge above it. Whether the arrays form a tree at all is checked by
    `Tree` itself.
    """
    if tree.n != problem.n:
        raise AssertionError(f"the tree has {tree.n} leaves, the problem {problem.n} actions")
    above = tree.parent[:-1]
    inner = above != tree.root
    lighter = tree.weight[:-1][inner] <= tree.weight[above[inner]] / tree.tau
    if not lighter.all():
        v = int(np.flatnonzero(inner)[np.argmin(lighter)])
        raise AssertionError(
            f"the edge above vertex {v} weighs {tree.weight[v]:.6g}, the one above its parent {tree.parent[v]} only "
            f"{tree.weight[tree.parent[v]]:.6g}: less than tau = {tree.tau:g} times as much"
        )
    distances, metric = tree.distances(), problem.symmetric_distances
    short = distances < metric
    if short.any():
        i, j = (int(k) for k in np.argwhere(short)[0])
        raise AssertionError(
            f"the tree does not dominate the metric: actions {i} and {j} are {metric[i, j]!r} apart, "
            f"but only {distances[i, j]!r} in the tree ({int(short.sum()) // 2} such pairs)"
        )
