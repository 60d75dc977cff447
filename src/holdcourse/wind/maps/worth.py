"""What altitude control is worth at a place: its best fixed altitude, the gain above it, and how certain that is.

The record is divided into thirds. Each third is flown by the compiled version of `wind-planner`, with a climate and a
fixed altitude that were chosen on the other two thirds, once for each caution, and compared with staying at that
altitude. The caution that counts in a third is also chosen on the other two, by the rule of the policy: the usual
caution, unless another one clearly made more energy. So no third is flown with what its own wind taught, and no place
shows the best of several attempts. But hours at the borders of thirds are alike, and thirds of less than a year may see
other seasons. So a gain may be slightly better or worse than that of a machine that knows only its past.

**P90** of the gain is the gain that the mean of a future year exceeds with a probability of 90 %. It is estimated from
the differences between weeks, with Student's distribution, and is wider if neighbouring weeks are alike. It knows no
years outside the record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import InvalidInput
from holdcourse.wind.backtest.bankable import HOURS_PER_YEAR, exceeded
from holdcourse.wind.physics import WindWorld
from holdcourse.wind.policy.planner import CAUTIONS, CLEAR, FOLDS, USUAL_CAUTION, WEEK_HOURS, Replayed, Taught
from holdcourse.wind.policy.policies import best_altitude

Array: TypeAlias = NDArray[np.float64]

SHORTEST_STRETCH = 24.0  # hours without a gap; shorter ones are not flown
FEWEST_WEEKS = 4  # for an interval
WEEKS = 52  # that the P90 is about
FULL_WEEK = 0.75  # share of its hours that a week needs to count


@dataclass(frozen=True)
class Worth:
    """Worth of altitude control at a place; NaN if the record is too short to tell.

    Attributes
    ----------
    best_altitude
        Fixed altitude with the most energy over the whole record, m.
    fixed_energy
        Energy per year of a fixed altitude that was chosen on other parts of the record, kWh.
    gain
        Additional net energy of control, in percent of `fixed_energy`.
    gain_p90
        Gain that a future year exceeds with a probability of 90 %, in percent.
    moves_per_day
        Number of moves of the planner per day.
    coverage
        Share of the record's hours that were flown.
    """

    best_altitude: float = math.nan
    fixed_energy: float = math.nan
    gain: float = math.nan
    gain_p90: float = math.nan
    moves_per_day: float = math.nan
    coverage: float = 0.0


@dataclass(frozen=True, eq=False)
class _Flown:
    """A third of the record: times, energy at the fixed altitude, net energy and moves by caution."""

    times: Array
    stayed: Array
    net: Array  # (cautions, t)
    moved: Array  # (cautions, t)


def worth_of(world: WindWorld) -> Worth:
    """Compute the worth of a place with this wind; gaps of the record are steps in `world.time`."""
    times, speed, step = world.moments, world.speed, world.step_hours
    best = float(world.altitudes[best_altitude(world, speed)])
    thirds = _thirds(world)
    span = float(times[-1] - times[0]) + step
    if thirds is None:
        return Worth(best_altitude=best)
    gains = [flown.net - flown.stayed for flown in thirds]  # by third: (cautions, t)
    chosen = [_caution([gains[k] for k in range(FOLDS) if k != fold], step) for fold in range(FOLDS)]
    more = np.concatenate([gain[c] for gain, c in zip(gains, chosen, strict=True)])
    moved = np.concatenate([one.moved[c] for one, c in zip(thirds, chosen, strict=True)])
    stayed, flown = np.concatenate([one.stayed for one in thirds]), np.concatenate([one.times for one in thirds])
    hours = len(flown) * step
    fixed = float(stayed.sum()) / hours * HOURS_PER_YEAR
    if not fixed > 0:
        return Worth(best_altitude=best, fixed_energy=fixed, coverage=hours / span)
    weekly = _weekly(flown - times[0], more, step) * HOURS_PER_YEAR / WEEK_HOURS
    return Worth(
        best,
        fixed,
        100 * float(more.sum()) / hours * HOURS_PER_YEAR / fixed,
        100 * _exceeded(weekly) / fixed,
        float(moved.sum()) / hours * 24.0,
        hours / span,
    )


def _thirds(world: WindWorld) -> list[_Flown] | None:
    """Fly each third with what the other two taught; None where these are too short to teach."""
    times, speed, step = world.moments, world.speed, world.step_hours
    edges = np.linspace(0, len(times), FOLDS + 1).astype(int).tolist()
    found = []
    for a, b in pairwise(edges):
        rest = np.r_[0:a, b : len(times)]
        try:
            taught = Taught.by(world, times[rest], speed[rest], step)
        except InvalidInput:
            return None
        parts = []
        cuts = np.flatnonzero(np.abs(np.diff(times[a:b]) - step) > 0.01 * step) + 1
        for begin, end in zip(np.append(0, cuts) + a, np.append(cuts, b - a) + a, strict=True):
            if (end - begin) * step < SHORTEST_STRETCH:
                continue
            flown = Replayed(world, taught, speed[begin:end], float(times[begin]), step)
            paths = [flown.actions(caution) for caution in CAUTIONS]
            moved = [np.append(taught.home, path[:-1]) != path for path in paths]
            net = [flown.net_of(path) for path in paths]
            parts.append(_Flown(times[begin:end], flown.home_energy, np.array(net), np.array(moved, dtype=np.float64)))
        if not parts:
            return None
        found.append(
            _Flown(
                np.concatenate([part.times for part in parts]),
                np.concatenate([part.stayed for part in parts]),
                np.concatenate([part.net for part in parts], axis=1),
                np.concatenate([part.moved for part in parts], axis=1),
            )
        )
    return found


def _caution(gains: list[Array], step: float) -> int:
    """Return which caution clearly made most in these thirds, each (cautions, t); else the usual one."""
    size = max(1, round(WEEK_HOURS / step))
    blocks = [gain[:, k : k + size].sum(axis=1) for gain in gains for k in range(0, gain.shape[1], size)]
    table, usual = np.array(blocks), CAUTIONS.index(USUAL_CAUTION)  # (weeks, cautions)
    best = int(np.argmax(table.sum(axis=0)))
    more = table[:, best] - table[:, usual]
    error = float(more.std(ddof=1)) * len(more) ** 0.5 if len(more) > 1 else math.inf
    return best if more.sum() > CLEAR * error else usual


def _weekly(hours: Array, values: Array, step: float) -> Array:
    """Sums over weeks, each as if it had all its hours; weeks with too few are left out."""
    week = (hours // WEEK_HOURS).astype(np.int64)
    count = np.bincount(week) * step
    kept = count >= FULL_WEEK * WEEK_HOURS
    return np.asarray((np.bincount(week, weights=values)[kept] / count[kept]) * WEEK_HOURS)


def _exceeded(weekly: Array) -> float:
    """What the mean of a year's weeks exceeds with 90 %, from the weeks of the record."""
    if len(weekly) < FEWEST_WEEKS:
        return math.nan
    low, mean = exceeded(weekly, 0.9, WEEKS), float(weekly.mean())
    centred = weekly - mean
    spread = float((centred * centred).sum())
    alike = float((centred[1:] * centred[:-1]).sum()) / spread if spread > 0 else 0.0
    wider = math.sqrt((1 + min(alike, 0.9)) / (1 - min(alike, 0.9))) if alike > 0 else 1.0
    return mean - wider * (mean - low)
