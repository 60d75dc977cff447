"""The cheapest plan by trying every path: slow and obvious."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np


def best_path(costs, ways, ending, first):
    """The path that begins with `first` and costs least, and what it costs after the first step."""
    rounds, n = costs.shape

    def cost(path):
        moved = sum(ways[a, b] for a, b in pairwise(path))
        return moved + sum(costs[k, x] for k, x in enumerate(path)) + ending[path[-1]]

    found = min(((first, *rest) for rest in product(range(n), repeat=rounds - 1)), key=cost)
    return np.array(found), cost(found)
