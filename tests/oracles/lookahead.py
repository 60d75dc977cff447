"""Plans ahead by trying every way there is, and the wind filter as one dense Gaussian."""

from __future__ import annotations

from itertools import product

import numpy as np


def cheapest_way(costs, distances, start, ending=None, caution=1.0, discount=1.0, max_step_cost=np.inf):
    """First action and cost of the cheapest sequence through costs (h, n), by trying all n^h of them."""
    h, n = costs.shape
    ending = np.zeros(n) if ending is None else ending
    best, first = np.inf, None
    for way in product(range(n), repeat=h):
        before = (start, *way[:-1])
        steps = [distances[a][b] for a, b in zip(before, way, strict=True)]
        if max(steps) > max_step_cost:
            continue
        # Movement and service of a round share its discount, and so does what the plan ends with.
        total = sum(discount**k * (caution * steps[k] + costs[k][way[k]]) for k in range(h))
        total += discount**h * ending[way[-1]]
        if total < best - 1e-12:
            best, first = total, way[0]
    return first, best


def dense_wind(climate, told, hour):
    """Mean and deviation of the wind at every altitude and one hour, given (action, hour, speed) measured before."""

    def between(one, other):
        """Covariance of the anomalies at two (altitude, hour) pairs."""
        (x, s), (y, t) = one, other
        kept = np.exp(-abs(s - t) / climate.time_scales)
        return float((climate.modes[x] * climate.modes[y] * climate.variances * kept).sum())

    n = len(climate.altitudes)
    pairs = [(x, t) for x, t, _ in told]
    gram = np.array([[between(a, b) for b in pairs] for a in pairs]).reshape(len(told), len(told))
    gram += climate.unexplained**2 * np.eye(len(told))
    excess = np.array([speed - climate(np.array([t]))[0, x] for x, t, speed in told])
    mean, std = climate(np.array([hour]))[0].copy(), np.empty(n)
    for x in range(n):
        cross = np.array([between((x, hour), pair) for pair in pairs])
        solved = np.linalg.solve(gram, cross) if len(told) else cross
        mean[x] += float(solved @ excess)
        std[x] = np.sqrt(between((x, hour), (x, hour)) - float(solved @ cross))
    return mean, std
