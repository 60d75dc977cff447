"""How sure the mean of a trial's pairs is: at one look fixed beforehand, and at every look, however often one looks.

| symbol | meaning | shape |
|---|---|---|
| D | gain of each pair of blocks, in time order | (..., pairs) |
| t | number of pairs so far: 1, 2, ... | (pairs,) |
| s² | variance of D, estimated from the pairs so far | (..., pairs) |
| ν | degrees of freedom of s² | (pairs,) |
| η | pairs that the mixture's prior is worth | |
| c | critical value: the interval is mean ± c s / √t | (pairs,) |

The coin of pair j turns its gain τ_j into D_j = τ_j ± δ_j. The error of the mean comes from the δ alone; that the τ
differ between calm and storm does not belong to it, but to every estimate of the variance, which is therefore too
large on average and never too small. Neighbouring pairs have similar τ: half the mean squared difference of neighbours
holds less of that than the variance about the mean does, and is what the ordinary interval uses. The sequence uses the
variance about the mean: when the scatter grows suddenly and the coin falls on one side a few times, neighbours do not
show it yet, and who looks at every pair would be misled.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit as student_quantile

Array: TypeAlias = NDArray[np.float64]
Kind: TypeAlias = Literal["ordinary", "sequence"]

ERROR = 0.05  # of both intervals, two-sided
PRIOR_PAIRS = 100 / 8  # η; tightest at 100 pairs, at most a tenth wider than could be at 40 to 2000
MOST_PAIRS = 100_000  # what would need more is called endless
FEWEST_PAIRS = 5  # before that no interval is given: two or three differences tell no scatter
FIRST_ANSWER = 11  # pairs after which the sequence gives its first interval; it follows from ERROR and PRIOR_PAIRS


class Bounds(NamedTuple):
    """Lower and upper ends of an interval; NaN where there is none yet."""

    low: Array
    high: Array


def critical_values(pairs: int, kind: Kind) -> Array:
    """Critical values c after 1, 2, ... pairs; infinite while no bound can be given.

    The ordinary ones are Student's. For the sequence, with r = η / (t + η), the mixture of t-likelihood ratios (effect
    sizes from a normal prior, scale from the right-invariant one) is √r [(1 + T²/ν) / (1 + r T²/ν)]^((ν + 1)/2). For
    independent normal D it exceeds 1/ERROR at any look with a probability of at most ERROR (Lai 1976; Wang and Ramdas
    2024). Solved for T it is c.

    Examples
    --------
    >>> critical_values(200, "ordinary")[[9, 99, 199]].round(2), critical_values(200, "sequence")[[9, 99, 199]].round(2)
    (array([2.43, 2.  , 1.98]), array([ inf, 3.1 , 3.09]))
    """
    t = np.arange(1, pairs + 1, dtype=np.float64)
    freedom = _freedom(t, kind)
    if kind == "ordinary":
        return np.where(t >= FEWEST_PAIRS, student_quantile(freedom, 1 - ERROR / 2), np.inf)
    share = PRIOR_PAIRS / (t + PRIOR_PAIRS)
    growth = (1 / (np.sqrt(share) * ERROR)) ** (2 / (freedom + 1))
    finite = (t >= FEWEST_PAIRS) & (growth * share < 1)
    squared = freedom * (growth - 1) / np.where(finite, 1 - growth * share, 1.0)
    return np.where(finite, np.sqrt(squared), np.inf)


def _freedom(t: Array, kind: Kind) -> Array:
    """Degrees of freedom of s²; for the differences of neighbours by the variance that it has for normal numbers."""
    less = np.maximum(t - 1.0, 1.0)
    return less if kind == "sequence" else np.asarray(2 * less**2 / np.maximum(3 * t - 4.0, 1.0))


def running_means(values: Array) -> Array:
    """Mean of the first 1, 2, ... values."""
    return np.asarray(np.cumsum(values, axis=-1) / np.arange(1, values.shape[-1] + 1))


def running_covariances(one: Array, other: Array, kind: Kind) -> Array:
    """s² of the first 1, 2, ... pairs, or the covariance of two columns found the same way; NaN for the first."""
    found = np.full(one.shape, np.nan)
    if kind == "ordinary":
        found[..., 1:] = running_means(np.diff(one, axis=-1) * np.diff(other, axis=-1) / 2)
        return found
    t = np.arange(2, one.shape[-1] + 1)
    one, other = one - one[..., :1], other - other[..., :1]  # digits are not lost to a large common level
    products = running_means(one * other) - running_means(one) * running_means(other)
    found[..., 1:] = products[..., 1:] * t / (t - 1)
    return found


def bounds_of_mean(gains: Array, kind: Kind) -> Bounds:
    """Bounds of the mean gain after 1, 2, ... pairs, in the gains' units."""
    mean, t = running_means(gains), np.arange(1, gains.shape[-1] + 1)
    critical = critical_values(gains.shape[-1], kind)
    variance = np.maximum(running_covariances(gains, gains, kind), 0.0)
    known = np.isfinite(critical)
    half = np.where(known, np.where(known, critical, 0.0) * np.sqrt(variance / t), np.nan)
    return Bounds(mean - half, mean + half)


def bounds_of_percentage(gains: Array, bills: Array, kind: Kind) -> Bounds:
    """Bounds of 100 mean(gains) / |mean(bills)| after 1, 2, ... pairs, the bill being uncertain too (Fieller).

    A ratio ρ is within them where the mean of gain - ρ bill may be zero. NaN where the bill itself may be zero.
    """
    unit = float(np.abs(bills).max(initial=0.0)) or 1.0  # fourth powers are taken below
    gains, bills = gains / unit, bills / unit
    gain, bill = running_means(gains), running_means(bills)
    critical = critical_values(gains.shape[-1], kind)
    with np.errstate(invalid="ignore", divide="ignore"):
        scale = critical**2 / np.arange(1, gains.shape[-1] + 1)
        squared = bill**2 - scale * running_covariances(bills, bills, kind)
        known = np.isfinite(scale) & (squared > 0)
        middle = gain * bill - scale * running_covariances(gains, bills, kind)
        rest = gain**2 - scale * running_covariances(gains, gains, kind)
        root = np.sqrt(np.maximum(middle**2 - squared * rest, 0.0))
        low, high = (100 * (np.sign(bill) * middle + side * root) / squared for side in (-1, 1))
    return Bounds(np.where(known, low, np.nan), np.where(known, high, np.nan))


def pairs_needed(effect: float, luck: float = 0.0) -> float:
    """After how many pairs the sequence excludes zero, for a mean of so many deviations s; infinite where too far.

    Parameters
    ----------
    luck
        Deviations of the mean by which chance may work against it. With none the sequence excludes zero then, if the
        mean stays what it is.

    Examples
    --------
    >>> pairs_needed(1 / 3), pairs_needed(0.0)
    (88.0, inf)
    """
    critical = _long_sequence()
    n = np.arange(1, len(critical) + 1)
    seen = abs(effect) * np.sqrt(n) >= critical + luck
    return float(n[np.argmax(seen)]) if seen.any() else math.inf


@lru_cache(maxsize=1)
def _long_sequence() -> Array:
    return critical_values(MOST_PAIRS, "sequence")
