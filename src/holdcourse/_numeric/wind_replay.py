r"""A wind policy replayed over years of history in seconds, to see what it would have made there.

The same filter, the same expected energy and the same plan as `Lookahead` on `ExpectedEnergy`, in one compiled loop; a
test holds the two together. It reads the power curve from a table, so decisions may differ where two of them are worth
the same to a thousandth of a percent.

==================  ==============================================================================  ==============
symbol              meaning                                                                         shape
==================  ==============================================================================  ==============
t, n, r             rounds, altitudes, states of the wind: what stays, and modes
speed, usual        wind to fly through; usual wind of every round, and beyond                      (t, n), (t + h, n)
modes               what each state adds at each altitude                                           (n, r)
variances, decay    of the states, and their correlation over one round                             (r,)
mean, covariance    what is believed of the states now                                              (r,), (r, r)
worth, known        energy that a round is believed to make there; from so many rounds              (n,)
power               energy of one round at 0, 1 / PER_METRE_PER_SECOND, ... m/s; one row, or one per altitude
points, weights     of the quadrature over the belief about one wind speed                          (q,)
said, errors        what is wrong with forecasts, in deviations; these, by round of the plan        (t, n), (h,)
moves               cost of a move from row to column, times caution                                (n, n)
==================  ==============================================================================  ==============
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from holdcourse._numeric.wind_filter import advance, condition, foresee

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

PER_METRE_PER_SECOND = 200  # entries of the power table


@njit(cache=True)
def replay(
    speed: Array,  # (t, n) wind to fly through
    usual: Array,  # (t + horizon, n) usual wind of every round, and beyond
    modes: Array,  # (n, r)
    variances: Array,  # (r,) of the modes
    decay: Array,  # (r,) their correlation over one round
    noise: float,  # variance of a measurement
    power: Array,  # (1 or n, k) at 0, 1 / PER_METRE_PER_SECOND, ... m/s, as energy of one round
    points: Array,  # of the quadrature,
    weights: Array,  # and their weights
    moves: Array,  # (n, n) cost of a move from row to column, times the caution
    anchor: float,  # times what moving costs: the way to where it settles after the plan
    worth: Array,  # (n,) energy of a round believed at first
    known: float,  # rounds that this comes from
    settling: Array,  # (2,) rounds that it settles for after the plan: at first, and more for each round known
    horizon: int,
    start: int,
    whole: bool,  # whether the wind at every altitude is measured after each round, or only where it went
    said: Array,  # (t, n) errors of forecasts for every round, of deviation 1; no rows: no forecasts
    errors: Array,  # (horizon,) deviation of a forecast for each round of the plan
) -> Indices:
    """The altitude of every round, by filtering, planning `horizon` rounds ahead, and measuring where it went."""
    rounds, n = speed.shape
    r = len(variances)
    mean, covariance, gain = np.zeros(r), np.diag(variances), np.empty(r)
    expected, values, relaxed = np.empty((horizon, n)), np.empty(n), np.empty(n)
    own, nothing = np.empty((1, n)), np.empty((0, n))
    made = worth.copy()
    actions = np.empty(rounds, np.int64)
    x = start
    for t in range(rounds):
        if t > 0:
            advance(mean, covariance, variances, decay)
        ahead = min(horizon, rounds - t) if len(said) else 0  # nobody forecasts beyond the record
        _expect(
            usual[t : t + horizon],
            modes,
            variances,
            decay,
            mean,
            covariance,
            power,
            points,
            weights,
            expected,
            speed[t : t + ahead],
            said[t : t + ahead],
            errors,
        )
        if ahead:  # what an altitude is worth is reckoned without forecasts
            _expect(
                usual[t : t + 1],
                modes,
                variances,
                decay,
                mean,
                covariance,
                power,
                points,
                weights,
                own,
                nothing,
                nothing,
                errors,
            )
        else:
            own[0] = expected[0]
        settled, most = settling[0] + settling[1] * known, made.max()
        values[:] = np.inf
        for y in range(n):
            for z in range(n):
                through = anchor * moves[z, y] + settled * (most - made[y])
                values[z] = through if through < values[z] else values[z]
        for k in range(horizon - 1, 0, -1):
            for y in range(n):
                values[y] -= expected[k, y]
            relaxed[:] = np.inf
            for y in range(n):
                for z in range(n):
                    through = moves[z, y] + values[y]
                    relaxed[z] = through if through < relaxed[z] else relaxed[z]
            values[:] = relaxed
        best, here = values[x] - expected[0, x], x
        for y in range(n):
            total = moves[here, y] + values[y] - expected[0, y]
            if total < best - 1e-9 * abs(best):
                best, x = total, y
        actions[t] = x
        known += 1.0
        for y in range(n):
            made[y] += (own[0, y] - made[y]) / known
        for y in range(0 if whole else x, n if whole else x + 1):
            condition(mean, covariance, modes[y], speed[t, y] - usual[t, y], noise, gain)
    return actions


@njit(cache=True)
def _expect(
    usual: Array,  # (horizon, n)
    modes: Array,
    variances: Array,
    decay: Array,
    mean: Array,  # (r,) and covariance (r, r): what is believed of the modes now
    covariance: Array,
    power: Array,
    points: Array,
    weights: Array,
    expected: Array,  # (horizon, n), written
    speed: Array,  # (ahead, n) wind of the rounds that are forecast,
    said: Array,  # (ahead, n) what is wrong with their forecasts, in deviations,
    errors: Array,  # (horizon,) and these
) -> None:
    """The energy expected of every altitude in each round of the plan."""
    r, n = len(variances), expected.shape[1]
    seen, faded, winds, spread = np.empty((r, n)), np.ones(r), np.empty(n), np.empty(n)
    rows, last = len(power) - 1, power.shape[1] - 2
    for k in range(len(expected)):
        for x in range(n):  # one by one: a slice would take the compiler a second and a half more
            winds[x], spread[x] = usual[k, x], 0.0
        foresee(modes, variances, faded, mean, covariance, seen, winds, spread)
        for x in range(n):
            wind, variance = winds[x], spread[x]
            if k < len(said):
                # From the filter to the forecast by the share of the variance that it removes: as `ExpectedEnergy`.
                trust = max(0.0, 1.0 - errors[k] * errors[k] / variance) if variance > 0.0 else 0.0
                wind += trust * (speed[k, x] + errors[k] * said[k, x] - wind)
                variance *= 1.0 - trust
            std = math.sqrt(max(variance, 0.0))
            total, row = 0.0, min(x, rows)
            for q in range(len(points)):
                place = max(wind + std * points[q], 0.0) * PER_METRE_PER_SECOND
                i = min(int(place), last)
                total += weights[q] * (power[row, i] + (place - i) * (power[row, i + 1] - power[row, i]))
            expected[k, x] = total
        for i in range(r):
            faded[i] *= decay[i]
