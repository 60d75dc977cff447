r"""The temporal posterior's inner loops: an exact Kalman filter for Matérn processes over time, for steps of any size.

=========  ===========================================================================================  ============
symbol     meaning                                                                                      shape
=========  ===========================================================================================  ============
K          parts of the kernel (independent processes that are added up)
d          derivatives that a part carries: 1 (static, nu = 1/2), 2 (nu = 3/2), 3 (nu = 5/2)
r          action features of a part
m, D       sum over parts of d r; sum over parts of d
layout     per part: d, r, first state, first feature                                                   (K, 4)
rates      per part: sqrt(2 nu) / length scale in units of time (0: static), stationary variance        (K, 2)
F, Q       transition and process noise (at stationary variance 1) of every part over one step          (K, 3, 3)
a          rate times step: the step in units of the process' own time
E          Erlang probabilities                                                                         (6,)
w, P       mean and covariance of the state: part, then derivative, then feature                        (m,), (m, m)
phi        action features: the process of a part at action x is phi[x] . state                         (n, R)
mu, M      mean and covariance of the derivatives of all parts at each action, phi w and phi P phi^T    (D, n),
                                                                                                        (D, D, n)
spread     per part: prior variance of each action                                                      (K, n)
g, G       covariance of the state with a measurement; of the derivatives at each action, phi g         (m,), (D, n)
totals     measurements; sum of surprise^2 / variance; sum of log variance                              (3,)
=========  ===========================================================================================  ============

Derivative j is stored divided by rate^j, so that every state has a variance of the order of the process'. A step
then acts on derivatives only, the same way for every feature. That is why mu and M can be carried along with the
state: predicting n actions costs O(n D^2), whatever the number of features, and never touches P.

In units of a, with :math:`g(s) = s^j e^{-s} / j!` the response to an impulse, :math:`Q = q \int_0^a g^{(k)} g^{(l)}`;
all entries are sums of the Erlang probabilities of `_erlang`, which are computed without cancellation: they keep their
relative accuracy for steps of any size.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

FORGOTTEN = 750.0  # exp(-a) is 0 from here on: nothing is left of the past
SERIES_BELOW = 6.0  # the complement of an Erlang probability loses no digit above


@njit(cache=True)
def transitions(layout: Indices, rates: Array, step: float, F: Array, Q: Array) -> None:
    """The exact transition and process noise of every part over a step of time."""
    E = np.empty(6)
    for p in range(len(layout)):
        d, rate = layout[p, 0], rates[p, 0]
        f, q = F[p], Q[p]
        a = min(rate * step, FORGOTTEN) if rate > 0.0 else 0.0
        e, x, b = math.exp(-a), 2.0 * a, a * a
        _erlang(x, E)
        if d == 1:
            f[0, 0] = e
            q[0, 0] = E[1]
        elif d == 2:
            f[0, 0], f[0, 1] = e * (1.0 + a), e * a
            f[1, 0], f[1, 1] = -e * a, e * (1.0 - a)
            q[0, 0] = E[3]
            q[0, 1] = q[1, 0] = 2.0 * b * e * e
            q[1, 1] = E[3] + 2.0 * x * e * e
        else:
            f[0, 0], f[0, 1], f[0, 2] = e * (1.0 + a + b / 2), e * (a + b), e * b / 2
            f[1, 0], f[1, 1], f[1, 2] = -e * b / 2, e * (1.0 + a - b), e * (a - b / 2)
            f[2, 0], f[2, 1], f[2, 2] = e * (b / 2 - a), e * (b - 3.0 * a), e * (1.0 - 2.0 * a + b / 2)
            slope = 16.0 / 3.0 * (E[3] / 4 - 3.0 * E[4] / 8 + 3.0 * E[5] / 16)
            q[0, 0] = E[5]
            q[0, 1] = q[1, 0] = 2.0 / 3.0 * e * e * b * b
            q[0, 2] = q[2, 0] = 16.0 / 3.0 * e * e * b / 2 * (a - b / 2) - slope
            q[1, 1] = slope
            q[1, 2] = q[2, 1] = 8.0 / 3.0 * e * e * (a - b / 2) ** 2
            q[2, 2] = 16.0 / 3.0 * (E[1] / 2 - E[2] + 5.0 * E[3] / 4 - 3.0 * E[4] / 4 + 3.0 * E[5] / 16)


@njit(cache=True)
def _erlang(x: float, E: Array) -> None:
    """E[k] = 1 - exp(-x) sum_{j < k} x^j / j!, the chance of at least k events where x are expected; k up to 5."""
    e = math.exp(-x)
    if x < SERIES_BELOW:
        term = e * x**5 / 120.0
        total, j = 0.0, 5
        while term > 1e-17 * total:
            total += term
            j += 1
            term *= x / j
        E[5] = total
        E[4] = E[5] + e * x**4 / 24.0
        E[3] = E[4] + e * x**3 / 6.0
        E[2] = E[3] + e * x**2 / 2.0
        E[1] = -math.expm1(-x)
    else:
        E[1] = 1.0 - e
        E[2] = E[1] - e * x
        E[3] = E[2] - e * x**2 / 2.0
        E[4] = E[3] - e * x**3 / 6.0
        E[5] = E[4] - e * x**4 / 24.0
    E[0] = 1.0


SYMMETRISE_EVERY = 64  # measurements; the rounding of a step is not symmetric


@njit(cache=True)
def absorb(
    w: Array,
    P: Array,
    mu: Array,
    M: Array,
    totals: Array,
    phi: Array,
    spread: Array,
    layout: Indices,
    rates: Array,
    noise: float,
    steps: Array,  # (t,) time since the measurement before
    actions: Indices,  # (t,)
    excess: Array,  # (t,) measurements less their prior mean
    G: Array,
) -> tuple[float, float]:
    """Learn measurements one after the other; surprise and variance of the last one, whose covariances go to G."""
    K, n, D = len(layout), M.shape[2], M.shape[0]
    states = np.empty((K, 3), dtype=np.int64)  # per part: d, where it begins, how far its derivatives lie apart
    derivatives = np.empty((K, 3), dtype=np.int64)
    columns = np.empty((K, 3), dtype=np.int64)
    first = 0
    for p in range(K):
        d, r, start = layout[p, 0], layout[p, 1], layout[p, 2]
        states[p, 0], states[p, 1], states[p, 2] = d, start, r
        derivatives[p, 0], derivatives[p, 1], derivatives[p, 2] = d, first, 1
        columns[p, 0], columns[p, 1], columns[p, 2] = d, first * n, n
        first += d
    F, Q, g = np.empty((K, 3, 3)), np.empty((K, 3, 3)), np.empty(len(w))
    flat_mu, flat_M = mu.reshape(D * n), M.reshape(D, D * n)
    surprise, variance = 0.0, noise
    for k in range(len(steps)):
        if steps[k] > 0.0:
            transitions(layout, rates, steps[k], F, Q)
            _mix_columns(w, F, states)
            _mix_columns(flat_mu, F, columns)
            _congruence(P, F, states, states)
            _congruence(flat_M, F, derivatives, columns)
            _add_noise(P, M, Q, spread, layout, rates)
        surprise, variance = _measure(w, P, mu, M, phi, layout, noise, actions[k], excess[k], g, G)
        totals[0] += 1.0
        totals[1] += surprise * surprise / variance
        totals[2] += math.log(variance)
        if totals[0] % SYMMETRISE_EVERY == 0.0:
            _symmetrise(P)
    return surprise, variance


@njit(cache=True)
def forecast(
    mu: Array,
    M: Array,
    spread: Array,
    layout: Indices,
    rates: Array,
    steps: Array,  # (k,) time from now
    mean: Array,  # (k, n)
    variance: Array,  # (k, n)
) -> None:
    """Add to `mean` and write to `variance` what is believed of every action after each step; NaN for those below 0."""
    D = len(M)
    C, fresh = np.empty((len(steps), D)), np.empty((len(steps), len(layout)))
    weights(layout, rates, steps, C, fresh)
    for k in range(len(steps)):
        c, into, onto = C[k], variance[k], mean[k]
        into[:] = 0.0
        for p in range(len(layout)):
            gained, by = fresh[k, p], spread[p]
            for x in range(len(into)):
                into[x] += gained * by[x]
        for i in range(D):
            along = mu[i]
            for x in range(len(into)):
                onto[x] += c[i] * along[x]
            for j in range(i + 1):
                both = c[i] * c[j] * (1.0 if i == j else 2.0)
                between = M[i, j]
                for x in range(len(into)):
                    into[x] += both * between[x]


@njit(cache=True)
def weights(layout: Indices, rates: Array, steps: Array, C: Array, fresh: Array) -> None:
    """C (k, D): how the sum of all parts after each step depends on the derivatives now; fresh (k, K): what it gains.

    NaN for steps below 0, as the past is not kept.
    """
    K = len(layout)
    F, Q = np.empty((K, 3, 3)), np.empty((K, 3, 3))
    for k in range(len(steps)):
        if steps[k] < 0.0:
            C[k] = np.nan
            fresh[k] = np.nan
            continue
        transitions(layout, rates, steps[k], F, Q)
        first = 0
        for p in range(K):
            d = layout[p, 0]
            for j in range(d):
                C[k, first + j] = F[p, 0, j]
            fresh[k, p] = Q[p, 0, 0]
            first += d


@njit(cache=True)
def _congruence(A: Array, F: Array, rows: Indices, columns: Indices) -> None:
    """A <- F A F^T, where derivative j of part p lies ``j * rows[p, 2]`` rows and ``j * columns[p, 2]`` columns on."""
    for p in range(len(rows)):
        d, start, apart = rows[p, 0], rows[p, 1], rows[p, 2]
        for i in range(start, start + apart):
            _mix(F[p], d, A[i], A[i + apart * (d > 1)], A[i + 2 * apart * (d > 2)])
            for j in range(d):
                _mix_columns(A[i + j * apart], F, columns)


@njit(cache=True)
def _mix_columns(row: Array, F: Array, columns: Indices) -> None:
    """Replace the derivatives in one row by F times them; only the columns are mixed."""
    for p in range(len(columns)):
        d, start, size = columns[p, 0], columns[p, 1], columns[p, 2]
        one = start + size * (d > 1)
        two = start + 2 * size * (d > 2)
        _mix(F[p], d, row[start : start + size], row[one : one + size], row[two : two + size])


@njit(cache=True)
def _mix(F: Array, d: int, x: Array, y: Array, z: Array) -> None:
    """Replace the derivatives x, y, z (the first d of them) by F times them."""
    if d == 1:
        f = F[0, 0]
        if f == 1.0:
            return
        for k in range(len(x)):
            x[k] *= f
    elif d == 2:
        a, b, c, e = F[0, 0], F[0, 1], F[1, 0], F[1, 1]
        for k in range(len(x)):
            u, v = x[k], y[k]
            x[k] = a * u + b * v
            y[k] = c * u + e * v
    else:
        f00, f01, f02 = F[0, 0], F[0, 1], F[0, 2]
        f10, f11, f12 = F[1, 0], F[1, 1], F[1, 2]
        f20, f21, f22 = F[2, 0], F[2, 1], F[2, 2]
        for k in range(len(x)):
            u, v, t = x[k], y[k], z[k]
            x[k] = f00 * u + f01 * v + f02 * t
            y[k] = f10 * u + f11 * v + f12 * t
            z[k] = f20 * u + f21 * v + f22 * t


@njit(cache=True)
def _add_noise(P: Array, M: Array, Q: Array, spread: Array, layout: Indices, rates: Array) -> None:
    first = 0
    for p in range(len(layout)):
        d, r, start = layout[p, 0], layout[p, 1], layout[p, 2]
        if rates[p, 0] > 0.0:
            for a in range(d):
                for b in range(d):
                    added = rates[p, 1] * Q[p, a, b]
                    for i in range(r):
                        P[start + a * r + i, start + b * r + i] += added
                    into = M[first + a, first + b]
                    for x in range(len(into)):
                        into[x] += Q[p, a, b] * spread[p, x]
        first += d


@njit(cache=True, fastmath={"reassoc", "contract"})
def _measure(
    w: Array,
    P: Array,
    mu: Array,
    M: Array,
    phi: Array,
    layout: Indices,
    noise: float,
    x: int,
    y: float,
    g: Array,
    G: Array,
) -> tuple[float, float]:
    """Learn y at action x, now; surprise and its variance. Only derivative 0 of each part is measured."""
    m, D = len(w), len(mu)
    known, variance = 0.0, 0.0
    for i in range(m):
        row, total = P[i], 0.0
        for p in range(len(layout)):
            r, start, column = layout[p, 1], layout[p, 2], layout[p, 3]
            part, by = row[start : start + r], phi[x, column : column + r]
            for k in range(r):
                total += part[k] * by[k]
        g[i] = total
    for p in range(len(layout)):
        r, start, column = layout[p, 1], layout[p, 2], layout[p, 3]
        for k in range(r):
            known += w[start + k] * phi[x, column + k]
            variance += g[start + k] * phi[x, column + k]
    variance = noise + max(variance, 0.0)
    surprise = y - known
    for i in range(m):
        row, change = P[i], g[i] / variance
        for k in range(m):
            row[k] -= change * g[k]
        w[i] += change * surprise
    _at_actions(phi, layout, g, G)
    for i in range(D):
        for j in range(D):
            into, one, other = M[i, j], G[i], G[j]
            for k in range(len(into)):
                into[k] -= one[k] * other[k] / variance
        into, one = mu[i], G[i]
        for k in range(len(into)):
            into[k] += one[k] * surprise / variance
    return surprise, variance


@njit(cache=True, fastmath={"reassoc", "contract"})
def _at_actions(phi: Array, layout: Indices, g: Array, G: Array) -> None:
    """G = phi g, derivative by derivative."""
    first = 0
    for p in range(len(layout)):
        d, r, start, column = layout[p, 0], layout[p, 1], layout[p, 2], layout[p, 3]
        for j in range(d):
            part = g[start + j * r : start + (j + 1) * r]
            for x in range(len(phi)):
                by, total = phi[x, column : column + r], 0.0
                for k in range(r):
                    total += part[k] * by[k]
                G[first + j, x] = total
        first += d


@njit(cache=True)
def _symmetrise(P: Array) -> None:
    for i in range(len(P)):
        for j in range(i):
            P[i, j] = P[j, i] = 0.5 * (P[i, j] + P[j, i])
