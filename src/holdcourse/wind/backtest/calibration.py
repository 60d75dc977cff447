"""Did earlier predictions come true? Years and half-years are compared with what the time before them predicted.

The origin moves through the record. At each origin, the levels of a year's energy (P50, P75, P90) and the interval of
the next half-year's gain are computed from the past alone, as in the report, and compared with what then happened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit as student_quantile

from holdcourse.backtest.verdict import BATCH, LEVEL

Array: TypeAlias = NDArray[np.float64]

FEWEST_YEARS = 3  # two to say something, one to see whether it held
FIRST_WEEKS, NEXT_WEEKS, EVERY_WEEKS = 52, 26, 13  # known at the first origin, judged at each, and from one to the next
TOO_FEW = "too few to say whether it is right"  # what `calibration_words` says of few cases
ENOUGH = 10  # independent tries, below which a count shows little


@dataclass(frozen=True)
class Calibration:
    """How often a prediction with a probability came true.

    Attributes
    ----------
    what
        Kind of prediction: "P90", or "gain" for the interval of the next half-year's gain.
    nominal
        Probability of the prediction.
    held, tried
        Number of predictions that came true, and number of all predictions.
    apart
        Number of predictions whose periods do not overlap.
    """

    what: str
    nominal: float
    held: int
    tried: int
    apart: int


def reached_levels(
    made: Array, levels: Sequence[float], exceeded: Callable[[Array, float], float]
) -> list[Calibration]:
    """Count the years that reached the levels predicted from the years before; `exceeded` computes a level."""
    judged = range(FEWEST_YEARS - 1, len(made))
    return [
        Calibration(
            f"P{100 * level:.0f}",
            level,
            sum(bool(made[k] >= exceeded(made[:k], level)) for k in judged),
            len(judged),
            len(judged),
        )
        for level in levels
        if len(judged)
    ]


def gains_inside(ours: Array, theirs: Array) -> Calibration | None:
    """Count the half-years whose gain was within the interval predicted from all weeks before; None if there is none.

    Parameters
    ----------
    ours, theirs
        Energy of each policy in every week, kWh, (weeks,).
    """
    origins = range(FIRST_WEEKS, len(ours) - NEXT_WEEKS + 1, EVERY_WEEKS)
    held = 0
    for origin in origins:
        low, high = next_gain(ours[:origin], theirs[:origin], NEXT_WEEKS)
        after = slice(origin, origin + NEXT_WEEKS)
        held += bool(low <= _gain(ours[after], theirs[after]) <= high)
    if not len(origins):
        return None
    apart = -(-len(origins) * EVERY_WEEKS // NEXT_WEEKS)
    return Calibration("gain", LEVEL, held, len(origins), apart)


def next_gain(ours: Array, theirs: Array, weeks: int) -> tuple[float, float]:
    """Return the interval of the gain of `weeks` further weeks, in percent, from the variation of `BATCH` weeks."""
    batches = len(ours) // BATCH
    whole = slice(len(ours) - batches * BATCH, None)
    mine, other = (part[whole].reshape(batches, BATCH).sum(axis=1) for part in (ours, theirs))
    if batches < 2 or not theirs.sum() > 0:
        return -math.inf, math.inf
    gain = _gain(ours, theirs)
    more = 100 * (mine - (1 + gain / 100) * other) / other.mean()
    deviation = math.sqrt(float((more**2).sum()) / (batches - 1) * (BATCH / weeks + BATCH / len(ours)))
    half = float(student_quantile(batches - 1, (1 + LEVEL) / 2)) * deviation
    return gain - half, gain + half


def _gain(ours: Array, theirs: Array) -> float:
    """Percent that one made more than the other."""
    return 100 * (float(ours.sum()) / float(theirs.sum()) - 1) if theirs.sum() > 0 else math.nan


def _apart(each: Calibration) -> str:
    return "" if each.apart == each.tried else f", of which {each.apart} do not overlap"


def calibration_words(found: Sequence[Calibration]) -> list[str]:
    """Return in sentences how often what was said came true."""
    levels = [each for each in found if each.what != "gain"]
    said = []
    if levels:
        told = ", ".join(f"{each.what} in {each.held} of {each.tried}" for each in levels)
        said.append(f"As a check, each year was compared with what the years before it predicted. It reached {told}.")
    said += [
        "The gain of the next half-year lay within the 95 % interval predicted from the weeks before it in "
        + (f"{each.held} of 1 case." if each.tried == 1 else f"{each.held} of {each.tried} cases{_apart(each)}.")
        for each in found
        if each.what == "gain"
    ]
    if said and min(each.apart for each in found) < ENOUGH:
        least = min(found, key=lambda each: each.apart)
        tries = "1 case, which is" if least.apart == 1 else f"{least.apart} independent cases, which are"
        what = "The interval of the gain" if least.what == "gain" else "P90"
        said.append(f"{what} could be checked in only {tries} {TOO_FEW}.")
    return said
