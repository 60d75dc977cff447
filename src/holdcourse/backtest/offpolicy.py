"""What another policy's service would have cost in a recorded run, estimated from decisions that were drawn at random.

=========  ==========================================================================================================
symbol     meaning
=========  ==========================================================================================================
y, x       measured cost of a round and the action that ran, for T rounds
p          probability of each action before x was drawn, (T, n); from the record
e          probability of each action under the other policy, (T, n)
m          cost that a model expects of each action, learned from rounds far from this one, (T, n)
w          e(x) / p(x): the weight of a round
=========  ==========================================================================================================

The *doubly robust* estimate of the other policy's mean cost is mean(sum e m) + sum(w (y - m(x))) / sum(w). It is the
model's estimate, corrected by the model's errors in rounds in which the draw happened to be what the other policy would
have done. It is consistent if the probabilities are right, even if the model is wrong; a good model makes it precise.

**Interval.** A machine that pays for moving stays where it is, so consecutive rounds say much the same. The interval
comes from sums over batches of rounds, and Student's distribution.

**When there is no answer.** If decisions were not drawn at random, the policy never tried an action that it thought
worse, and no formula makes up for that. If they were drawn but hardly ever agree with the other policy, there are too
few visits to learn from: their effective number (Kish) must be at least `FEWEST`.

The estimate assumes, as holdcourse does everywhere, that the service cost of a round does not depend on where the
machine came from. It also takes GP-MD's probabilities, which are those before the previous action is known, as the
probabilities of the draw. That is exact if they do not depend on earlier draws; what GP-MD learns makes them depend on
these a little.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit as student_quantile

from holdcourse.errors import counted

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

FEWEST = 20.0  # visits, counted as if all weighed the same
FEWEST_ROUNDS = 100
BATCHES = 20
DEGREES = 13  # of freedom of differences of neighbours: about two thirds of the batches
CERTAIN = 0.999  # a decision more probable than that was not drawn
MOST_CERTAIN = 0.9  # share of such rounds above which the policy is called deterministic
MOST_UNSEEN = 0.05  # share of the other policy's choices that the record's could not have drawn
LEAST_PROBABLE = 1e-4
WEIGHED = (0.5, 2.0)  # mean weight; it is 1 where probabilities and overlap are right


@dataclass(frozen=True)
class DoublyRobust:
    """Service cost per round of another policy, as far as a record can tell.

    Attributes
    ----------
    mean, low, high
        The estimate and its 95 % interval; NaN if there is no answer.
    recorded
        Mean of the measurements in the same rounds.
    rounds
        Number of rounds that count: drawn by the policy, run as drawn, and measured.
    visits
        Effective number of visits on which the estimate rests, given their weights.
    refusal
        Reason why there is no answer, and the remedy; None if there is an answer.
    """

    mean: float
    low: float
    high: float
    recorded: float
    rounds: int
    visits: float
    refusal: str | None = None

    @property
    def saved(self) -> float:
        """Saving per round compared with what was measured; its uncertainty is that of `mean`."""
        return self.recorded - self.mean


def doubly_robust(measured: Array, taken: Indices, probable: Array, other: Array, expected: Array) -> DoublyRobust:
    """Estimate what another policy's service would have cost; see the module's docstring.

    Parameters
    ----------
    measured, taken
        Measured cost of each round, and the action that ran, (T,).
    probable, other
        Probabilities of all actions in each round under the recorded policy and under the other policy, (T, n).
    expected
        Cost of each action that is expected by a model which has not learned from the round, (T, n).

    Examples
    --------
    Two actions are drawn with a coin. The other policy always takes the second, which costs 1 instead of 3:

    >>> rng = np.random.default_rng(0)
    >>> taken = rng.integers(2, size=400)
    >>> coin, second = np.full((400, 2), 0.5), np.tile([0.0, 1.0], (400, 1))
    >>> costs = np.array([3.0, 1.0])[taken] + rng.normal(0.0, 0.1, 400)
    >>> found = doubly_robust(costs, taken, coin, second, expected=np.full((400, 2), 50.0))  # a model that is wrong
    >>> round(found.mean, 1), found.refusal
    (1.0, None)
    """
    why = too_little_overlap(taken, probable, other)
    if why is not None:
        return refused(measured, why)
    rounds, mean_measured = np.arange(len(measured)), float(measured.mean())
    weights = other[rounds, taken] / probable[rounds, taken]
    opinion = (other * np.where(other > 0, expected, 0.0)).sum(axis=1)
    off = measured - expected[rounds, taken]
    correction = float((weights * off).sum() / weights.sum())
    mean = float(opinion.mean()) + correction
    # What chance adds in each round; the opinion is no chance, as it is about these very rounds.
    parts = weights / weights.mean() * (off - correction)
    half = _half_width(parts)
    return DoublyRobust(mean, mean - half, mean + half, mean_measured, len(measured), visits_of(weights, taken))


def refused(measured: Array, why: str) -> DoublyRobust:
    """Return what is said where nothing can be: what was measured, and why there is no more."""
    mean = float(measured.mean()) if len(measured) else math.nan
    nan = math.nan
    return DoublyRobust(nan, nan, nan, mean, len(measured), 0.0, why)


def visits_of(weights: Array, taken: Indices) -> float:
    """How many stays at an action count, as if all weighed the same (Kish): rounds in a row are one visit."""
    starts = np.flatnonzero(np.append(True, taken[1:] != taken[:-1]))
    sums = np.add.reduceat(weights, starts)
    return float(sums.sum() ** 2 / (sums**2).sum()) if sums.any() else 0.0


def too_little_overlap(taken: Indices, probable: Array, other: Array) -> str | None:
    """Say why draws cannot tell what another policy would have cost, and what to do; None if they can.

    The arguments are as in `doubly_robust`.
    """
    t = len(taken)
    trial = "To find out what it would cost, run a trial of the two"
    if t < FEWEST_ROUNDS:
        return (
            f"an estimate needs {FEWEST_ROUNDS} rounds that were drawn at random, ran as drawn and were measured, and "
            f"the record has {t}. Record for longer"
        )
    certain = float((probable.max(axis=1) > CERTAIN).mean())
    if certain > MOST_CERTAIN:
        return (
            f"the record's decisions were not drawn at random (in {100 * certain:.0f} % of the rounds there was only "
            f"one choice), so it cannot tell what another policy would have cost. {trial}, or record with a policy "
            "that draws at random"
        )
    unseen = float((other * (probable < LEAST_PROBABLE)).sum(axis=1).mean())
    if unseen > MOST_UNSEEN:
        return (
            f"in {100 * unseen:.0f} % of the rounds the other policy would have chosen a setting that the recorded one "
            f"would hardly ever have drawn, so the record cannot tell what that costs. {trial}"
        )
    rounds = np.arange(t)
    weights = other[rounds, taken] / probable[rounds, taken]
    visits = visits_of(weights, taken)
    if visits < FEWEST:
        return (
            "the recorded settings agree too rarely with those that the other policy would have chosen: the record "
            f"counts like {counted(round(visits), 'separate visit')} to its choices, and {FEWEST:.0f} are needed. "
            "Record for longer, or run a trial of the two"
        )
    if not WEIGHED[0] <= weights.mean() <= WEIGHED[1]:
        return (
            f"the recorded settings agree with the other policy {weights.mean():.1f} times as often as the "
            "probabilities predict, so chance would decide the answer. Record for longer, or run a trial of the two"
        )
    return None


def _half_width(parts: Array) -> float:
    """Half of a 95 % interval of a mean, by batches of rounds; neighbours are compared, as costs drift."""
    means = np.array([batch.mean() for batch in np.array_split(parts, BATCHES)])
    error = math.sqrt(float((np.diff(means) ** 2).mean()) / 2 / BATCHES)
    return float(student_quantile(DEGREES, 0.975)) * error
