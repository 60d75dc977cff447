r"""Matérn processes over one step of time: transition and process noise, exact for steps of any size.

=========  ===========================================================================================  ===========
symbol     meaning                                                                                      shape
=========  ===========================================================================================  ===========
K          processes, the parts of the kernel
d          derivatives that a part carries: 1 (static, nu = 1/2), 2 (nu = 3/2), 3 (nu = 5/2)
layout     per part: d and where its states are, see `kalman`                                           (K, 4)
rates      per part: sqrt(2 nu) / length scale in units of time (0: static), stationary variance        (K, 2)
F, Q       transition and process noise (at stationary variance 1) of every part over one step          (K, 3, 3)
a          rate times step: the step in units of the process' own time
E          Erlang probabilities                                                                         (6,)
=========  ===========================================================================================  ===========

Derivative j is stored divided by rate^j. In units of a, with :math:`g(s) = s^j e^{-s} / j!` the response to an
impulse, :math:`Q = q \int_0^a g^{(k)} g^{(l)}`; all entries are sums of the Erlang probabilities of `_erlang`, which
are computed without cancellation: they keep their relative accuracy for steps of any size.
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
