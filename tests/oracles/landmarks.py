"""Loops of plans on landmarks, straight from their definitions."""

from __future__ import annotations

import numpy as np


def best_of_runs(expected, spread, hope, ways, allowed, order, begin, end):
    """The allowed setting of least cost in each run of places, with the move there and without; -1 where none is."""
    near, far = [], []
    for first, last, share in zip(begin, end, hope, strict=True):
        inside = sorted(x for x in order[first:last] if allowed[x])
        near.append(min(inside, key=lambda x: expected[x] - share * spread[x] + ways[x], default=-1))
        far.append(min(inside, key=lambda x: expected[x] - share * spread[x], default=-1))
    return near, far


def reached(values, ways):
    """The least of the move to a landmark and the cost to go from there, for every row and candidate."""
    return np.array([[min(way + row) for way in ways] for row in values]).reshape(len(values), len(ways))
