"""Loops of a plan on landmarks: the best settings of runs of settings, and costs to go beyond the landmarks.

========  =====================================================================================  ===========
symbol    meaning                                                                                shape
========  =====================================================================================  ===========
order     all settings, near ones side by side                                                   (n,)
begin,    a run of places in `order`: from `begin` up to, but not at, `end`                      (c,)
end
m, b      expected cost of every setting, and how far below it the bound lies                    (n,)
h         share of b that each run may hope for                                                  (c,)
W         cost of moving to every setting from where the machine is                              (n,)
V         costs to go from each landmark, a row for each context                                 (k, l)
D         cost of moving from each candidate to each landmark                                    (c, l)
========  =====================================================================================  ===========
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@njit(cache=True)
def best_of_runs(
    m: Array, b: Array, h: Array, W: Array, allowed: Mask, order: Ints, begin: Ints, end: Ints, near: Ints, far: Ints
) -> None:
    """For each run its allowed setting of least m - h b + W, into `near`, and of least m - h b, into `far`.

    Of equals the lowest setting; -1 where none is allowed.
    """
    for c in range(begin.shape[0]):
        least, least_near = np.inf, np.inf
        near[c], far[c] = -1, -1
        for place in range(begin[c], end[c]):
            x = order[place]
            if not allowed[x]:
                continue
            cost = m[x] - h[c] * b[x]
            if cost < least or (cost == least and x < far[c]):
                least, far[c] = cost, x
            cost += W[x]
            if cost < least_near or (cost == least_near and x < near[c]):
                least_near, near[c] = cost, x


@njit(cache=True)
def reached(V: Array, D: Array, out: Array) -> None:
    """out[i, c] = min over landmarks z of D[c, z] + V[i, z]: the cost to go from each candidate, (k, c)."""
    for i in range(V.shape[0]):
        values = V[i]
        for c in range(D.shape[0]):
            row, least = D[c], np.inf
            for z in range(values.shape[0]):
                through = row[z] + values[z]
                least = through if through < least else least
            out[i, c] = least
