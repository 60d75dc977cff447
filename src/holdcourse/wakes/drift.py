"""What the wind does next, learned from a record: by how much the direction turns, and how the speed changes.

A decision knows the wind of the interval before it. The interval that it decides for has another wind, and how far
off that is cannot be said by one number: in weak wind the direction usually wanders by 8 degrees in ten minutes, in
strong wind by 2.
So a `Drift` keeps distributions: of the turn of the direction and of the change of speed from one decision to the next,
by the speed of now and the season. What a season or a speed has seldom seen is filled in from the whole record and
from the speeds beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse._numeric.steering import expected
from holdcourse.errors import InvalidInput
from holdcourse.wakes.record import Rounds, turned

Array: TypeAlias = NDArray[np.float64]

SEASONS = ("winter", "spring", "summer", "autumn")
REACH = 60.0  # degrees: turns beyond it count as so many
BORROWED = 150.0  # steps that a season and speed borrow from the whole record
SPREAD = 1.0  # m/s: speeds so far apart lend each other their turns
FEWEST = 500  # steps from which a drift can be learned


def season_of(day_of_year: ArrayLike) -> NDArray[np.int64]:
    """Return the season of days of the year, 1 to 366: 0 from December on, 1 from March on, ..."""
    day = np.asarray(day_of_year, dtype=np.float64)
    return np.asarray(((day - 60.0) // 92.0 + 1.0) % 4.0).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Drift:
    """Distributions of what the wind does from one decision to the next.

    Attributes
    ----------
    speeds
        Wind speeds of the grid, m/s, (S,).
    direction_step
        Step of the grid, degrees.
    turns
        Probability of a turn by each number of steps of the grid, from the wind that a decision knows to the next such
        wind; the middle one is none; (4, S, 2 r + 1).
    within
        Probability of a turn from the wind that a decision knows to the wind of its interval; equal to `turns` if an
        interval is one reading.
    changes, settling
        Probability of the next speed (column) by that of now (row), to the next decision and within the interval,
        (4, S, S).
    hours
        Hours between two decisions.
    steps
        Number of steps from which the drift was learned.
    """

    speeds: Array
    direction_step: float
    turns: Array
    within: Array
    changes: Array
    settling: Array
    hours: float
    steps: int

    def expect(self, values: Array, season: int) -> Array:
        """Return what a table, (D, S, n), is expected to be in the interval decided for, from every context."""
        return np.asarray(expected(values, self.within[season], self.settling[season]))

    @cached_property
    def error(self) -> Array:
        """Usual error of the last wind: the median turn by season and speed, degrees, (4, S)."""
        reach = (self.turns.shape[2] - 1) // 2
        size = np.abs(np.arange(-reach, reach + 1)) * self.direction_step
        order = np.argsort(size, kind="stable")
        whole = np.cumsum(self.turns[:, :, order], axis=2)
        return np.asarray(size[order][np.argmax(whole >= 0.5, axis=2)])

    def to_data(self) -> dict[str, Any]:
        """Return the drift in JSON values."""
        return {
            "speeds": self.speeds.tolist(),
            "direction_step": self.direction_step,
            "turns": self.turns.round(7).tolist(),
            "within": self.within.round(7).tolist(),
            "changes": self.changes.round(7).tolist(),
            "settling": self.settling.round(7).tolist(),
            "hours": self.hours,
            "steps": self.steps,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Drift:
        """Read what `to_data` gave."""
        names = ("speeds", "turns", "within", "changes", "settling")
        speeds, turns, within, changes, settling = (np.array(data[name], dtype=np.float64) for name in names)
        bins = (len(SEASONS), len(speeds))
        if turns.shape[:2] != bins or within.shape != turns.shape:
            raise InvalidInput(f"a drift of {len(speeds)} speeds cannot have turns of shape {turns.shape}")
        if changes.shape != (*bins, len(speeds)) or settling.shape != changes.shape:
            raise InvalidInput(f"a drift of {len(speeds)} speeds cannot have changes of shape {changes.shape}")
        step, hours, steps = float(data["direction_step"]), float(data["hours"]), int(data["steps"])
        return cls(speeds, step, turns, within, changes, settling, hours, steps)


def learn_drift(rounds: Rounds, directions: Array, speeds: Array, known: NDArray[np.bool_] | None = None) -> Drift:
    """Learn what the wind does next from the rounds of a record, for a grid of directions and speeds.

    Parameters
    ----------
    known
        Rounds that may be learned from, (t,); default: all.
    """
    step = 360.0 / len(directions)
    usable = rounds.fresh if known is None else known & rounds.fresh  # a turn over a gap is none of one step
    # Rounds with one right before them that may be learned from too.
    follows = np.flatnonzero(rounds.follows & usable & np.roll(usable, 1))
    if len(follows) < FEWEST:
        raise InvalidInput(
            f"the record has {len(follows)} step{'s' * (len(follows) != 1)} from one interval to the next, but at "
            f"least {FEWEST} are needed to learn how the direction changes. Give a longer record"
        )
    season = season_of(rounds.contexts[:, 2])
    bins = np.abs(rounds.contexts[:, 1][:, None] - speeds).argmin(axis=1)
    reach = round(REACH / step)

    def counted(turn: Array, of: NDArray[np.int64]) -> Array:
        found = np.zeros((len(SEASONS), len(speeds), 2 * reach + 1))
        place = np.clip(np.rint(turn / step), -reach, reach).astype(np.int64) + reach
        np.add.at(found, (season[of], bins[of], place), 1.0)
        return found

    # From the wind known before a round to that known before the next one.
    before, after = follows - 1, follows
    turns = counted(turned(rounds.contexts[before, 0], rounds.contexts[after, 0]), before)
    each, readings = rounds.readings_of()
    learned = usable[each]
    each, readings = each[learned], readings[learned]
    within = counted(turned(rounds.contexts[each, 0], rounds.record.direction[readings]), each)
    changes, settling = (np.zeros((len(SEASONS), len(speeds), len(speeds))) for _ in range(2))
    np.add.at(changes, (season[before], bins[before], bins[after]), 1.0)
    reached = np.abs(rounds.record.speed[readings][:, None] - speeds).argmin(axis=1)
    np.add.at(settling, (season[each], bins[each], reached), 1.0)
    near, alone = np.exp(-0.5 * ((speeds[:, None] - speeds) / SPREAD) ** 2), np.eye(len(speeds))
    return Drift(
        speeds,
        step,
        _filled(turns, near),
        _filled(within, near),
        _filled(changes, alone, near),
        _filled(settling, alone, alone if rounds.knowing else near),
        rounds.hours,
        len(follows),
    )


def _filled(counts: Array, near: Array, prior: Array | None = None) -> Array:
    """Return probabilities from counts, (4, S, k): seasons borrow from the year, speeds from those `near`."""
    year = np.einsum("ab,bk->ak", near, counts.sum(axis=0)) + (1e-9 if prior is None else prior)
    year /= year.sum(axis=1, keepdims=True)
    found = counts + BORROWED * year
    return np.asarray(found / found.sum(axis=2, keepdims=True))
