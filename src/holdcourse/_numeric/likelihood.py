"""Inner loops of the marginal likelihood under Gaussian (RBF) kernels.

==========  ===========================================================================================  ==========
symbol      meaning                                                                                      shape
==========  ===========================================================================================  ==========
P           inputs, one row per axis, each divided by its length scale                                   (q, t)
E           exponents -|p_i - p_j|^2 / 2, lower triangle                                                 (t, t)
cov         covariance of the measurements, lower triangle                                               (t, t)
inverse     inverse of the covariance with the noise, lower triangle                                     (t, t)
alpha       inverse times the measurements less their mean                                               (t,)
slopes      sum of pull cov, and of pull cov (p_i - p_j)^2 along each axis, pull = alpha alpha^T - inverse  (q + 1,)
==========  ===========================================================================================  ==========

Sums may be taken in another order, so that the compiler vectorises them. A loop that sums writes nothing else: the
compiler would then look whether the arrays lie too close together, and the order of the sum would depend on that.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]


@njit(cache=True, fastmath={"reassoc", "contract"})
def exponents(P: Array, E: Array) -> None:
    """Set the lower triangle of E; above it stand zeros."""
    for i in range(P.shape[1]):
        E[i, i:] = 0.0
        into = E[i, :i]
        into[:] = 0.0
        for k in range(P.shape[0]):
            here, before = P[k, i], P[k, :i]
            for j in range(i):
                away = here - before[j]
                into[j] -= 0.5 * away * away


@njit(cache=True, fastmath={"reassoc", "contract"})
def pulled(P: Array, cov: Array, inverse: Array, alpha: Array, slopes: Array) -> None:
    """Set the slopes; of the matrices the lower triangles are read."""
    slopes[:] = 0.0
    weights = np.empty(P.shape[1])
    for i in range(P.shape[1]):
        mine, before, row, known = alpha[i], alpha[:i], cov[i, :i], inverse[i, :i]
        for j in range(i):
            weights[j] = 2.0 * (mine * before[j] - known[j]) * row[j]
        total = 0.0
        for j in range(i):
            total += weights[j]
        slopes[0] += total + (mine * mine - inverse[i, i]) * cov[i, i]
        for k in range(P.shape[0]):
            here, others = P[k, i], P[k, :i]
            along = 0.0
            for j in range(i):
                away = here - others[j]
                along += weights[j] * away * away
            slopes[k + 1] += along
