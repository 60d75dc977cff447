"""Inner loops of Gaussian processes: their posteriors, and the marginal likelihood under Gaussian (RBF) kernels.

==========  ===========================================================================================  ==========
symbol      meaning                                                                                      shape
==========  ===========================================================================================  ==========
S           covariance of the weights; only its lower triangle is kept, read and written                 (m, m)
w           mean of the weights                                                                          (m,)
g, c        rank-1 change still to be made: S - c g g^T                                                  (m,), ()
psi         features of a context                                                                        (J,)
start       weights of context feature j: ``start[j]:start[j + 1]``                                      (J + 1,)
column      action feature of the first of them                                                          (J,)
X           lower triangle of the covariance of the action weights in this context                       (r, r)
rows        inverse Cholesky factor of K + lambda I, its rows one after the other                        (t(t+1)/2,)
group       which of the u distinct actions each measurement belongs to                                  (t,)
P           inputs, one row per axis, each divided by its length scale                                   (q, t)
E           exponents -|p_i - p_j|^2 / 2, lower triangle                                                 (t, t)
cov         covariance of the measurements, lower triangle                                               (t, t)
inverse     inverse of the covariance with the noise, lower triangle                                     (t, t)
alpha       inverse times the measurements less their mean                                               (t,)
slopes      sum of pull cov, and of pull cov (p_i - p_j)^2 along each axis, pull = alpha alpha^T - inverse  (q + 1,)
==========  ===========================================================================================  ==========

Rows are cut into slices before the innermost loops, so that these run from 0 and the compiler vectorises them.
Reassociation is allowed in dot products only for the same reason; infinities and NaN keep their meaning. In the
likelihood a loop that sums writes nothing else: the compiler would then look whether the arrays lie too close together,
and the order of the sum would depend on that.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

JITTER = 1e-13
SMALLEST = 1e-300  # where X is all zero


@njit(cache=True)
def sweep(
    S: Array, g: Array, c: float, psi: Array, start: Indices, column: Indices, w: Array, X: Array, v: Array
) -> None:
    """Make the pending change to S and collect, in the same pass, X = Psi^T S Psi and v = Psi^T w for one context.

    Psi (m, r) would hold psi_j in row (j, i), column ``column[j] + i``. Half of the diagonal of S goes into X, whose
    transpose is added at the end.
    """
    r = X.shape[0]
    X[:] = 0.0
    v[:] = 0.0
    along = np.empty(r)
    for j in range(len(psi)):
        p = psi[j]
        for i in range(start[j + 1] - start[j]):
            a = start[j] + i
            change = c * g[a]
            along[:] = 0.0
            for k in range(j):
                part, by = S[a, start[k] : start[k + 1]], g[start[k] : start[k + 1]]
                into, q = along[column[k] : column[k] + len(part)], psi[k]
                for b in range(len(part)):
                    new = part[b] - change * by[b]
                    part[b] = new
                    into[b] += q * new
            part, by = S[a, start[j] : a], g[start[j] : a]
            into = along[column[j] : column[j] + i]
            for b in range(i):
                new = part[b] - change * by[b]
                part[b] = new
                into[b] += p * new
            S[a, a] -= change * g[a]
            along[column[j] + i] += 0.5 * p * S[a, a]
            out = X[column[j] + i]
            for b in range(r):
                out[b] += p * along[b]
            v[column[j] + i] += p * w[a]
    largest = 0.0
    for i in range(r):
        for b in range(i + 1):
            X[i, b] += X[b, i]
        largest = max(largest, X[i, i])
    for i in range(r):  # X is singular but for rounding where much is known, and will be factored
        X[i, i] += JITTER * largest + SMALLEST


@njit(cache=True)
def sweep_each(
    S: Array, g: Array, c: float, psis: Array, start: Indices, column: Indices, w: Array, Xs: Array, vs: Array
) -> None:
    """`sweep` for k contexts in the same pass, rounded as it rounds: psis (J, k), Xs (r, r, k), vs (r, k).

    All sums of a context are made in the order of `sweep`; the innermost loops run over contexts, which are many where
    action features are few.
    """
    r, many = vs.shape
    Xs[:] = 0.0
    vs[:] = 0.0
    along = np.empty((r, many))
    for j in range(len(psis)):
        p = psis[j]
        for i in range(start[j + 1] - start[j]):
            a = start[j] + i
            change = c * g[a]
            along[:] = 0.0
            for k in range(j + 1):
                q = psis[k]
                for b in range(start[k], start[k + 1] if k < j else a):
                    new = S[a, b] - change * g[b]
                    S[a, b] = new
                    into = along[column[k] + b - start[k]]
                    for e in range(many):
                        into[e] += q[e] * new
            S[a, a] -= change * g[a]
            into, new = along[column[j] + i], S[a, a]
            for e in range(many):
                into[e] += 0.5 * p[e] * new
            for b in range(r):
                out, into = Xs[column[j] + i, b], along[b]
                for e in range(many):
                    out[e] += p[e] * into[e]
            out, new = vs[column[j] + i], w[a]
            for e in range(many):
                out[e] += p[e] * new
    largest = np.zeros(many)
    for i in range(r):
        for b in range(i + 1):
            for e in range(many):
                Xs[i, b, e] += Xs[b, i, e]
        for e in range(many):
            largest[e] = max(largest[e], Xs[i, i, e])
    for i in range(r):
        for e in range(many):
            Xs[i, i, e] += JITTER * largest[e] + SMALLEST


@njit(cache=True)
def settle(S: Array, g: Array, c: float) -> None:
    """Make the pending change to S, rounded exactly as `sweep` does it: when it is made must not matter."""
    for a in range(len(g)):
        row, change = S[a, : a + 1], c * g[a]
        for b in range(a + 1):
            row[b] -= change * g[b]


@njit(cache=True, fastmath={"reassoc", "contract"})
def multiply(S: Array, fade: float, phi: Array, out: Array) -> None:
    """Set out = S phi, after S <- fade S + (1 - fade) I, all in one pass. No change may be pending."""
    out[:] = 0.0
    for a in range(len(phi)):
        row, x, before, above = S[a, :a], phi[a], phi[:a], out[:a]
        total = 0.0
        if fade != 1.0:
            for b in range(a):
                row[b] *= fade
            S[a, a] = fade * S[a, a] + (1.0 - fade)
        for b in range(a):
            total += row[b] * before[b]
            above[b] += row[b] * x
        out[a] += total + S[a, a] * x


@njit(cache=True, fastmath={"reassoc", "contract"})
def whiten(rows: Array, k: Array, z: Array, q: Array) -> None:
    """Set z = R k and q = R^T z in one pass over the inverse factor R, whose rows are packed."""
    q[:] = 0.0
    offset = 0
    for i in range(len(k)):
        row, into = rows[offset : offset + i + 1], q[: i + 1]
        total = 0.0
        for j in range(i + 1):
            total += row[j] * k[j]
        z[i] = total
        for j in range(i + 1):
            into[j] += total * row[j]
        offset += i + 1


@njit(cache=True)
def grouped(rows: Array, group: Indices, c: Array, W: Array) -> None:
    """Set W[i, (p, a)] to the sum of R[i, j] c[p, j] over the measurements j of action a, for each kernel part p."""
    W[:] = 0.0
    parts = c.shape[0]
    u = W.shape[1] // parts
    for p in range(parts):
        by, offset = c[p], 0
        for i in range(W.shape[0]):
            row, into = rows[offset : offset + i + 1], W[i, p * u : (p + 1) * u]
            for j in range(i + 1):
                into[group[j]] += row[j] * by[j]
            offset += i + 1


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
