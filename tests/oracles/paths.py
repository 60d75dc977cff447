"""Slow, obvious twins of `movement.offline`: brute force, a dense dynamic program, the work function by the book."""

from __future__ import annotations

import itertools

import numpy as np

CLOSE = 1e-9


def price(actions, costs, distances, start=None):
    """What a path costs: service and movement."""
    stops = list(actions) if start is None else [start, *actions]
    service = sum(costs[t][x] for t, x in enumerate(actions))
    return service + sum(distances[a][b] for a, b in itertools.pairwise(stops))


def exhaustive_total(costs, distances, start=None):
    """The smallest price over all n**T paths."""
    rounds, n = np.shape(costs)
    return min(price(path, costs, distances, start) for path in itertools.product(range(n), repeat=rounds))


def exhaustive_path(costs, distances, start=None):
    """Among all cheapest paths the one that stays while it can, and else takes the lowest index, round by round."""
    rounds, n = np.shape(costs)
    priced = [(price(path, costs, distances, start), path) for path in itertools.product(range(n), repeat=rounds)]
    best = min(total for total, _ in priced)
    cheapest = [path for total, path in priced if total <= best + CLOSE]
    here = start
    for t in range(rounds):
        options = {path[t] for path in cheapest}
        here = here if here in options else min(options)
        cheapest = [path for path in cheapest if path[t] == here]
    return list(cheapest[0])


def dense_total(costs, distances, start=None):
    """The optimum by forward dynamic programming over every pair."""
    if len(costs) == 0:
        return 0.0
    values = costs[0] + (0.0 if start is None else distances[start])
    for row in costs[1:]:
        values = (values[:, None] + distances).min(axis=0) + row
    return values.min()


def work_function_path(costs, distances, start):
    """The work function algorithm, every minimum written out."""
    work, here, path = distances[start], start, []
    for row in costs:
        served = work + row
        work = (served[:, None] + distances).min(axis=0)
        support = [x for x in range(len(row)) if served[x] <= work[x] + CLOSE]
        best = min(work[x] + distances[here, x] for x in support)
        ties = [x for x in support if work[x] + distances[here, x] <= best + CLOSE]
        here = here if here in ties else ties[0]
        path.append(here)
    return path
