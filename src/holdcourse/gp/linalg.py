"""Linear algebra of the weight-space posterior: what BLAS and LAPACK do better than our own loops.

Arrays are in row order here and in column order there: the lower triangle of S is the upper one of S.T.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dsymm, dsyrk, dtrmm
from scipy.linalg.lapack import dpotrf

from holdcourse.gp.prior import logger

Array: TypeAlias = NDArray[np.float64]

JITTERS = (0.0, 1e-11, 1e-9)  # of the largest entry on the diagonal, beyond what `sweep` has added


def variances(X: Array, columns: Array) -> Array:
    """Variances Phi_x X Phi_x^T for the columns Phi_x (r, n) of all actions, X (r, r) given by its lower triangle.

    Through a Cholesky factor of X, so that none is negative.
    """
    if not len(X):
        return np.zeros(columns.shape[1])
    for jitter in JITTERS:
        shifted = X.T.copy(order="F")
        if jitter:
            shifted.reshape(-1, order="F")[:: len(X) + 1] += jitter * X.diagonal().max()
        U, failed = dpotrf(shifted, lower=0, clean=0, overwrite_a=1)
        if not failed:
            half = dtrmm(1.0, U, columns, lower=0)
            return np.asarray(np.einsum("ix,ix->x", half, half))
        logger.debug("covariance is singular with jitter %g of its largest entry", jitter)
    logger.warning("covariance is far from positive; its negative part is set to 0")
    values, vectors = np.linalg.eigh(np.tril(X) + np.tril(X, -1).T)
    half = np.sqrt(np.maximum(values, 0.0))[:, None] * (vectors.T @ columns)
    return np.asarray(np.einsum("ix,ix->x", half, half))


def add_batch(S: Array, w: Array, F: Array, excess: Array, noise_variance: float) -> tuple[float, float]:
    """Condition weights on measurements with features F (b, m): their mean w and covariance S change in place.

    Of S the lower triangle counts. Returns what they add to the log likelihood and to the information gain.
    """
    b = len(F)
    if not b:
        return 0.0, 0.0
    SF = dsymm(1.0, S.T, F.T, lower=0)
    L = np.linalg.cholesky(F @ SF + noise_variance * np.eye(b))
    V = solve_triangular(L, SF.T, lower=True)  # (b, m): S <- S - V^T V
    z = solve_triangular(L, excess - F @ w, lower=True)
    w += z @ V
    dsyrk(-1.0, V.T, beta=1.0, c=S.T, lower=0, overwrite_c=1)
    log_determinant = 2.0 * float(np.log(np.diagonal(L)).sum())
    likelihood = -0.5 * (float(z @ z) + log_determinant + b * math.log(2 * math.pi))
    return likelihood, 0.5 * (log_determinant - b * math.log(noise_variance))


def transferred(w: Array, S: Array, B: Array) -> tuple[Array, Array]:
    """Mean and covariance of new weights v, prior covariance I, from measurements that saw the old weights as B v.

    In the information S^-1 - I that they hold; by eigenvalues, so that it cannot become negative.
    """
    values, U = np.linalg.eigh(np.tril(S) + np.tril(S, -1).T)
    values = np.clip(values, 1e-15, 1.0)
    BU = B.T @ U
    precision = np.eye(B.shape[1]) + (BU * (1.0 / values - 1.0)) @ BU.T
    half = solve_triangular(np.linalg.cholesky(precision), np.eye(len(precision)), lower=True)
    covariance = half.T @ half
    return covariance @ (BU @ ((U.T @ w) / values)), covariance


def packed(S: Array) -> Array:
    """The lower triangle, row after row."""
    return S[np.tril_indices(len(S))]


def unpacked(values: Array) -> Array:
    """The matrix whose lower triangle this is; zeros above."""
    m = (math.isqrt(8 * len(values) + 1) - 1) // 2
    S = np.zeros((m, m))
    S[np.tril_indices(m)] = values
    return S
