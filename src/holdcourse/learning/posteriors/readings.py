"""Readings as a fitted posterior keeps them, and which of them can be believed.

What one reading is worth when it comes is for the posterior to say, which knows what was expected. Here they are looked
at together: those off by orders of magnitude (`absurd`), and those that are far from what the others make of them once
there is a fit (`judged_again`). And they are watched for a change: that what was read before is no longer true
(`ChangeWatch`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.archive import require_arrays
from holdcourse.errors import InvalidInput
from holdcourse.learning.fitting.search import Fit
from holdcourse.learning.history import History
from holdcourse.movement.problem import Problem

Array: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]

CAPACITY = 4096  # readings kept
CLIPPED = 4.0  # deviations; twice as many where little is known
KNOWN = 0.25  # share of the prior variance: where less is left, the place was measured, or one like it
LEFT_OUT, FEWEST_LEFT_OUT, MOST_LEFT_OUT = 5.0, 12, 0.2  # deviations; readings; share of them
LEFT_OUT_GROUP = 400  # readings that are compared with each other
BULK_DEVIATION, BULK_FLOOR = 1.4826, 0.1  # of the median, as of a normal deviation; least that is believed
BULK_MASKED = 0.5  # below, wrong readings have raised the noise for all
COSTS_DIFFER = 2.5  # times: as much, from one place to the next, is no sign of a wrong reading
MOST_AT_ACTION = 0.25  # share of the readings at one action
ABSURD_DEVIATIONS, ABSURD_FACTOR = 25.0, 20.0  # median deviations off, and times the usual size
ALIKE = 0.1  # of the range of each context number: readings this near were made in the same place
AGREEING = 3  # readings of one place that surprise, and are most of those there: that is what it costs
# A change: so many of the last readings at known places are off by so many deviations, and so many of them are unlike
# all earlier ones of the same place, two at least; not before so many readings.
WATCHED, MOST_WATCHED, SURPRISING, UNLIKE, SETTLED = 16, 10, 3.0, 6, 64


@dataclass(frozen=True, eq=False)
class Readings:
    """The readings kept, oldest first: what was told, what was learned of each, and which are set aside; all (t,)."""

    actions: NDArray[np.int64]
    contexts: Array
    told: Array
    learned: Array
    aside: Flags

    @classmethod
    def none(cls) -> Readings:
        """Return no readings."""
        return cls(np.zeros(0, np.int64), np.zeros((0, 0)), np.zeros(0), np.zeros(0), np.zeros(0, np.bool_))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], problem: Problem) -> Readings:
        """Read what `arrays` gave."""
        require_arrays(arrays, READINGS, "a fitted posterior")
        readings = cls(*(np.array(arrays[name]) for name in READINGS))
        History(readings.actions, readings.contexts, readings.told).check(problem, None)
        if not len(readings.learned) == len(readings.aside) == len(readings):
            raise InvalidInput("this state belongs to another problem, or is damaged")
        return readings

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give copies of all columns by name."""
        return {name: getattr(self, name).copy() for name in READINGS}

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def dimension(self) -> int | None:
        """How many numbers a context has; None before the first."""
        return self.contexts.shape[1] if len(self) else None

    def with_more(self, history: History, learned: Array, aside: Flags) -> Readings:
        """Append readings."""
        return Readings(
            np.append(self.actions, history.actions),
            np.vstack([self.contexts, history.contexts]) if len(self) else np.array(history.contexts),
            np.append(self.told, history.measurements),
            np.append(self.learned, learned),
            np.append(self.aside, aside),
        )

    def rows(self, which: Any) -> Readings:
        """Pick some of them."""
        return Readings(*(getattr(self, name)[which] for name in READINGS))

    def thinned(self) -> Readings:
        """Keep at most `CAPACITY`: where there are more, every second one of the older half is given up."""
        if len(self) <= CAPACITY:
            return self
        rows = np.arange(len(self))
        return self.rows(rows[(rows >= len(self) // 2) | (rows % 2 == 0)])

    def alike(self, action: int, context: Array) -> Flags:
        """Which were made at this action in a context like this one."""
        near = ALIKE * np.ptp(self.contexts, axis=0)
        return np.asarray((self.actions == action) & (np.abs(self.contexts - context) <= near).all(axis=1))

    def unlike_earlier(self, row: int, first: int, noise: float) -> bool:
        """Whether a reading lies outside of all that was told in its place before the row `first`."""
        told = self.told[:first][self.alike(int(self.actions[row]), self.contexts[row])[:first]]
        return len(told) > 1 and not told.min() - noise <= self.told[row] <= told.max() + noise

    def trusted(self) -> History:
        """Give what is to be learned: all that is not set aside."""
        keep = ~self.aside
        return History(self.actions[keep], self.contexts[keep], self.learned[keep])


READINGS = tuple(Readings.__dataclass_fields__)


@dataclass(frozen=True, eq=False)
class ChangeWatch:
    """The last readings at places that were known, watched for a change of what they cost.

    Attributes
    ----------
    last
        The row of each reading, oldest first, and whether it surprised, 0 or 1; (w, 2).
    changes, observations
        How many changes there were, and how many readings had been told when the last one was found.
    """

    last: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    changes: int = 0
    observations: int = 0

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> ChangeWatch:
        """Read what `arrays` gave."""
        require_arrays(arrays, ("watched", "changes"), "a fitted posterior")
        last = np.array(arrays["watched"], dtype=np.int64).reshape(-1, 2)
        return cls(last, int(arrays["changes"][0]), int(arrays["changes"][1]))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give what is watched and what was found, as arrays."""
        return {"watched": self.last.copy(), "changes": np.array([self.changes, self.observations], dtype=np.int64)}

    @property
    def surprising(self) -> NDArray[np.int64]:
        """The rows of those that surprised."""
        return np.asarray(self.last[self.last[:, 1] == 1, 0])

    def with_reading(self, row: int, surprised: bool) -> ChangeWatch:
        """Watch one more reading, and the oldest no longer."""
        return replace(self, last=np.append(self.last, [[row, surprised]], axis=0)[-WATCHED:])

    def suspects(self, observations: int) -> bool:
        """Whether most of the last readings surprise, once there were enough since the last change."""
        settled = observations >= max(SETTLED, self.observations + SETTLED)
        return settled and len(self.surprising) >= MOST_WATCHED

    def sees_change(self, readings: Readings, noise: float) -> bool:
        """Whether enough readings that surprise are unlike all that was read in their place before the first of them.

        A kernel that is wrong about a place surprises too; then nothing was ever read there that says otherwise.
        """
        rows = self.surprising
        return sum(readings.unlike_earlier(int(row), int(rows[0]), noise) for row in rows) >= UNLIKE

    def after_change(self, observations: int) -> ChangeWatch:
        """Begin again, one change later."""
        return ChangeWatch(changes=self.changes + 1, observations=observations)

    def emptied(self) -> ChangeWatch:
        """Watch nothing that came before: rows have other numbers now."""
        return ChangeWatch(changes=self.changes, observations=self.observations)


def logarithms(history: History) -> History:
    """Turn what was measured into logarithms."""
    return History(history.actions, history.contexts, np.log(history.measurements))


def absurd(y: Array) -> Flags:
    """Which readings are off from the others by orders of magnitude, of costs or of their logarithms."""
    usual = float(np.median(np.abs(y)))
    if not usual:  # most cost nothing: those that do are measured by each other
        usual = float(np.median(np.abs(y[y != 0]))) if y.any() else 0.0
    far = _far(y, ABSURD_FACTOR * usual)
    positive = y > 0
    if positive.mean() > 0.5 and usual > 0:
        far[positive] |= _far(np.log(y[positive]), math.log(ABSURD_FACTOR))
    return far if far.mean() < 0.5 else np.zeros(len(y), dtype=np.bool_)


def _far(values: Array, least: float) -> Flags:
    off = np.abs(values - np.median(values))
    return np.asarray(off > max(ABSURD_DEVIATIONS * float(np.median(off)), least))


def judged_again(problem: Problem, readings: Readings, history: History, fit: Fit, log: bool) -> Readings:
    """Set readings aside that are far from what the others make of them, at places that the others know.

    Those that were clipped count in full where the others explain them. `history`: what is learned, in the fit's
    unit.
    """
    t = len(history)
    if t < FEWEST_LEFT_OUT or not isinstance(fit.prior_mean, float):
        return readings
    trusted = np.flatnonzero(~readings.aside)
    told = readings.told[trusted]
    clipped = (told != readings.learned[trusted]) & ((told > 0) | (not log))
    in_unit = np.log(told, out=np.zeros(t), where=told > 0) if log else told
    wrong, explained = np.zeros(t, dtype=np.bool_), np.zeros(t, dtype=np.bool_)
    usual = BULK_DEVIATION * float(np.median(np.abs(history.measurements - np.median(history.measurements))))
    groups = -(-t // LEFT_OUT_GROUP)
    for first in range(groups):  # every so many-th reading: all groups are spread over the whole time
        rows = np.arange(first, t, groups)
        cov = fit.kernel.covariance(problem, history.actions[rows], history.contexts[rows])
        own = np.diag(cov).copy()
        noise = max(fit.noise_std**2, 1e-8 * float(own.mean()))
        inverse = np.linalg.inv(cov + noise * np.eye(len(rows)))
        spread = 1.0 / np.diag(inverse)  # variance of each reading, given the others
        rest = (inverse @ (history.measurements[rows] - fit.prior_mean)) * spread  # what is left unexplained
        off = np.abs(rest) / np.sqrt(spread)
        # Wrong readings raise the noise behind which they hide; the bulk of the others is what they are far from.
        bulk = min(1.0, max(BULK_DEVIATION * float(np.median(off)), BULK_FLOOR))
        known = spread - noise < KNOWN * own
        gross = np.abs(rest) > usual
        wrong[rows] = known & (off > LEFT_OUT)
        # Of a place that the others do not tell of, a reading may differ as costs do, by some factor.
        masked = (bulk < BULK_MASKED) & _far_by_factor(history.measurements[rows], rest, log)
        wrong[rows] |= gross & (off > LEFT_OUT * bulk) & (known | masked)
        in_full = np.abs(in_unit[rows] - (history.measurements[rows] - rest)) <= CLIPPED * np.sqrt(spread)
        explained[rows] = clipped[rows] & known & in_full
    for action in np.unique(history.actions[wrong]):  # several of the few at one action: that is what it costs
        there = np.flatnonzero(history.actions == action)
        if wrong[there].sum() > 1 and wrong[there].mean() > MOST_AT_ACTION:
            wrong[there] = False
        elif wrong[there[-2:]].sum() > 1:  # nor is what has changed for good: the newest agree
            wrong[there[np.flatnonzero(np.append(True, ~wrong[there]))[-1] :]] = False
    if wrong.mean() >= MOST_LEFT_OUT:
        wrong[:] = False
    aside, learned = readings.aside.copy(), readings.learned.copy()
    aside[trusted[wrong & ~explained]] = True
    learned[trusted[explained]] = told[explained]
    believed = _agreeing(replace(readings, aside=aside), log)
    aside[believed] = False
    learned[believed] = readings.told[believed]
    if (aside == readings.aside).all() and (learned == readings.learned).all():
        return readings
    return replace(readings, aside=aside, learned=learned)


def _far_by_factor(y: Array, rest: Array, log: bool) -> Flags:
    """Which readings are more than some times what the others make of them, or less than such a part of it."""
    if log:
        return np.asarray(np.abs(rest) > math.log(COSTS_DIFFER))
    larger = np.maximum(np.abs(y), np.abs(y - rest))
    smaller = np.minimum(np.abs(y), np.abs(y - rest))
    return np.asarray((larger > COSTS_DIFFER * smaller) | (y * (y - rest) < 0))


def _agreeing(readings: Readings, log: bool) -> Flags:
    """Which of the readings set aside are to be believed: most of what was read in their place is set aside with it.

    A kernel that was fitted elsewhere can be sure of a place, and wrong; then all readings there surprise it.
    """
    possible = ~absurd(readings.told) & ((readings.told > 0) | (not log))
    believed = np.zeros(len(readings), dtype=np.bool_)
    for row in np.flatnonzero(readings.aside & possible):
        aside = readings.aside[readings.alike(int(readings.actions[row]), readings.contexts[row]) & possible]
        believed[row] = most(aside)
    return believed


def most(surprising: Flags) -> bool:
    """Whether enough readings of one place surprise for them to be believed."""
    return bool(surprising.sum() >= AGREEING and surprising.mean() > 0.5)
