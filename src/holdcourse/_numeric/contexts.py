"""Distances between contexts.

========  =====================================================================  ======
symbol    meaning                                                                shape
========  =====================================================================  ======
points    contexts to measure from                                               (k, d)
others    contexts to measure to, axis by axis                                   (d, l)
lengths   correlation length of each axis                                        (d,)
periods   period of each axis; 0 where it has none                               (d,)
apart     distances in correlation lengths                                       (k, l)
========  =====================================================================  ======
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]


@njit(cache=True, error_model="numpy")
def distances(points: Array, others: Array, lengths: Array, periods: Array, apart: Array) -> None:
    """Set apart[i, j] to the distance from points[i] to the context in column j of `others`."""
    for i in range(len(points)):
        row = apart[i]
        row[:] = 0.0
        for axis in range(len(lengths)):
            here, there, length, period = points[i, axis], others[axis], lengths[axis], periods[axis]
            if period > 0.0:
                for j in range(len(row)):
                    way = here - there[j]
                    way = (way - period * np.rint(way / period)) / length
                    row[j] += way * way
            else:
                for j in range(len(row)):
                    way = (here - there[j]) / length
                    row[j] += way * way
        for j in range(len(row)):
            row[j] = np.sqrt(row[j])
