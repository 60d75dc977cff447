r"""The wind filter, compiled: a belief about the states of a climate, and several such beliefs side by side.

==================  ==============================================================================  ==============
symbol              meaning                                                                         shape
==================  ==============================================================================  ==============
m, n, r             climates side by side, altitudes, states of a climate
vectors             what each state adds at each altitude                                           (n, r)
variances, decay    of the states, and their correlation over the time that passes                  (r,)
mean, covariance    what is believed of the states now                                              (r,), (r, r)
==================  ==============================================================================  ==============

A state that stays has the correlation 1 over any time; its variance is that of the belief at first.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

FREEDOM = 4.0  # degrees of it, of Student's distribution: errors of an hour ahead have a kurtosis of about 15


@njit(cache=True)
def advance(mean: Array, covariance: Array, variances: Array, decay: Array) -> None:
    """Let time pass, in place."""
    r = len(mean)
    for i in range(r):
        mean[i] *= decay[i]
        for j in range(r):
            covariance[i, j] *= decay[i] * decay[j]
        covariance[i, i] += variances[i] * (1.0 - decay[i] * decay[i])


@njit(cache=True)
def condition(mean: Array, covariance: Array, vector: Array, surprise: float, noise: float, gain: Array) -> float:
    """Take in a measurement, in place: the wind less what is usual, at the altitude of a row of `vectors`.

    Returns the logarithm of how likely it was, up to a constant, by Student's distribution with the variance foretold:
    fronts are far out, and prove no climate wrong.
    """
    r = len(mean)
    variance = noise
    for i in range(r):
        gain[i] = 0.0
        for j in range(r):
            gain[i] += covariance[i, j] * vector[j]
        variance += gain[i] * vector[i]
        surprise -= mean[i] * vector[i]
    for i in range(r):
        mean[i] += gain[i] * surprise / variance
        for j in range(r):
            covariance[i, j] -= gain[i] * gain[j] / variance
    far = surprise * surprise / (variance * (FREEDOM - 2.0))
    return -0.5 * (math.log(variance) + (FREEDOM + 1.0) * math.log1p(far))


@njit(cache=True)
def take(
    means: Array,  # (m, r), written
    covariances: Array,  # (m, r, r), written
    variances: Array,  # (m, r)
    decays: Array,  # (m, r)
    vectors: Array,  # (m, r) of the altitude measured
    surprises: Array,  # (m,) the wind measured, less what is usual
    noises: Array,  # (m,)
    likely: Array,  # (m,), written: logarithms
) -> None:
    """Let time pass and take in a measurement in every climate."""
    gain = np.empty(means.shape[1])
    for k in range(len(means)):
        advance(means[k], covariances[k], variances[k], decays[k])
        likely[k] = condition(means[k], covariances[k], vectors[k], surprises[k], noises[k], gain)


@njit(cache=True)
def foresee(
    vectors: Array,  # (n, r)
    variances: Array,  # (r,)
    decay: Array,  # (r,)
    mean: Array,  # (r,)
    covariance: Array,  # (r, r)
    seen: Array,  # (r, n), written: what is left of each state at each altitude
    wind: Array,  # (n,), added to
    variance: Array,  # (n,), added to
) -> None:
    """Add what is believed of every altitude after some time, and its variance.

    Altitudes are the innermost loops, which vectorise; each one's sums are made in the order of the states.
    """
    n, r = vectors.shape
    for i in range(r):
        for x in range(n):
            seen[i, x] = vectors[x, i] * decay[i]
            wind[x] += seen[i, x] * mean[i]
            variance[x] += variances[i] * (vectors[x, i] * vectors[x, i] - seen[i, x] * seen[i, x])
    for i in range(r):
        for j in range(r):
            for x in range(n):
                variance[x] += seen[i, x] * covariance[i, j] * seen[j, x]


@njit(cache=True)
def predict(
    vectors: Array,  # (n, r)
    variances: Array,
    hours: Array,  # (r,) that each state lasts
    mean: Array,
    covariance: Array,
    ahead: Array,  # (k,) hours from the time of the belief
    expected: Array,  # (k, n), written: what is expected to be added to the usual wind
    deviation: Array,  # (k, n), written
) -> None:
    """Predict every altitude at some times to come."""
    n, r = vectors.shape
    decay, seen, variance = np.empty(r), np.empty((r, n)), np.empty(n)
    for k in range(len(ahead)):
        for i in range(r):
            decay[i] = math.exp(-ahead[k] / hours[i])
        expected[k] = 0.0
        variance[:] = 0.0
        foresee(vectors, variances, decay, mean, covariance, seen, expected[k], variance)
        for x in range(n):
            deviation[k, x] = math.sqrt(max(variance[x], 0.0))
