"""What a check of a model found, as data: predictions, coverage, which numbers matter, what is unknown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.learning.checking.words import in_words, percent
from holdcourse.learning.history import History
from holdcourse.movement.problem import Problem

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

BANDS = {0.5: 0.6745, 0.8: 1.2816, 0.95: 1.96}  # share that a band should hold, and how many deviations it is wide
HARDLY = 5  # readings of a setting
IN_DOUBT = 0.5  # of the prior deviation of a setting


@dataclass(frozen=True)
class Axis:
    """A number of the context, or of the setting: whether it makes a difference.

    Attributes
    ----------
    name
        What it is called.
    low, high
        Its range in the history.
    length_scale
        The shortest that was fitted, in its own unit: costs differ where it changes by as much. None if the kernel
        has none.
    growth
        By which share the error of the predictions grows when this number is taken from another reading; NaN where
        nothing was checked.
    visible
        Whether that is more than chance.
    """

    name: str
    low: float
    high: float
    length_scale: float | None
    growth: float
    visible: bool

    @property
    def varied(self) -> bool:
        """Whether it changed in the history at all."""
        return self.high > self.low


@dataclass(frozen=True)
class Gap:
    """A range of a context, within what was seen of it, in which there are no readings, or hardly any."""

    axis: str
    low: float
    high: float
    readings: int


@dataclass(frozen=True)
class Corner:
    """A setting that was measured in a narrow range of a context only."""

    action: int
    axis: str
    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class ModelCheck:
    """How well a model learned from a history predicts, and what the history cannot tell. Made by `check_model`.

    ``print(check)`` says it in words. Rows are those of the history, counted from 0.

    Attributes
    ----------
    problem, history
        The problem and the history that were checked.
    fold
        Block of each reading, (t,); empty if there are too few readings to check.
    predicted, deviation
        Prediction of each reading by a model that has not seen it, and its standard deviation, noise included, (t,).
    low, high
        The 95 % band of each reading, (t,).
    off
        Error of each prediction in standard deviations, (t,); of logarithms if the model learned these.
    by_constant, by_setting
        Predictions by the mean of the other blocks, and by the mean of their readings at the same setting, (t,).
    wrong
        Rows of readings that look wrong. They count in the coverage, and in no other figure.
    contexts, settings
        The axes of the context and of the setting, and whether each makes a difference.
    counts
        Number of readings at each setting, (n,).
    doubt
        Deviation of each setting in typical contexts, as a share of its deviation before any reading, (n,).
    gaps, corners
        Ranges of contexts that were hardly measured, and settings that were measured only in a narrow range.
    together
        Share of the choice of settings that each number of the context explains, (d,).

    Examples
    --------
    >>> import holdcourse as hc
    >>> check = hc.check_model(hc.Problem([0.0, 0.5, 1.0]), hc.History([0, 0, 2], [0.1, 0.5, 0.9], [3.0, 3.1, 4.0]))
    >>> check.enough, check.never.tolist()
    (False, [1])
    """

    problem: Problem
    history: History
    fold: Indices
    predicted: Array
    deviation: Array
    low: Array
    high: Array
    off: Array
    by_constant: Array
    by_setting: Array
    wrong: Indices
    contexts: tuple[Axis, ...]
    settings: tuple[Axis, ...]
    counts: Indices
    doubt: Array
    gaps: tuple[Gap, ...]
    corners: tuple[Corner, ...]
    together: tuple[float, ...]

    @property
    def enough(self) -> bool:
        """Whether there are enough readings to check a model."""
        return len(self.fold) > 0

    @property
    def measured(self) -> Array:
        """Measurements, (t,)."""
        return self.history.measurements

    @property
    def coverage(self) -> dict[float, float]:
        """Share of the readings that each band contains, by the share that it should contain."""
        off = np.abs(self.off)
        return {share: float((off <= width).mean()) if len(off) else math.nan for share, width in BANDS.items()}

    @property
    def explained(self) -> float:
        """Share of the readings' variation around their mean that the model predicts; negative if worse than that."""
        return self._explained(self.by_constant)

    @property
    def explained_beyond_settings(self) -> float:
        """Share of what the mean of each setting leaves unexplained that the model predicts."""
        return self._explained(self.by_setting)

    @property
    def error(self) -> float:
        """Mean absolute error, in the unit of the measurements."""
        return self._mean(np.abs(self.measured - self.predicted)) if self.enough else math.nan

    @property
    def never(self) -> Indices:
        """Actions that were never measured."""
        return np.flatnonzero(self.counts == 0)

    @property
    def hardly(self) -> Indices:
        """Actions that were measured, in fewer than five readings."""
        return np.flatnonzero((self.counts > 0) & (self.counts < HARDLY))

    @property
    def unsure(self) -> Indices:
        """Actions whose deviation is still more than half of that before any reading."""
        return np.flatnonzero(self.doubt > IN_DOUBT)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The result in sentences, the most important first."""
        return tuple(in_words(self))

    def as_values(self) -> dict[str, Any]:
        """Return all of it in JSON values; anything that is not a number is None."""
        lists = ("fold", "predicted", "deviation", "low", "high", "by_constant", "by_setting", "wrong", "counts")
        return {
            "enough": self.enough,
            "readings": len(self.history),
            "explained": _number(self.explained),
            "explained_beyond_settings": _number(self.explained_beyond_settings),
            "error": _number(self.error),
            "coverage": {str(share): _number(held) for share, held in self.coverage.items()},
            "measured": self.measured.tolist(),
            **{name: getattr(self, name).tolist() for name in lists},
            "off": [_number(off) for off in self.off],
            "contexts": [_axis_values(axis) for axis in self.contexts],
            "settings": [_axis_values(axis) for axis in self.settings],
            "never": self.never.tolist(),
            "hardly": self.hardly.tolist(),
            "unsure": self.unsure.tolist(),
            "doubt": [_number(share) for share in self.doubt],
            "gaps": [dict(vars(gap)) for gap in self.gaps],
            "corners": [dict(vars(corner)) for corner in self.corners],
            "together": [_number(share) for share in self.together],
            "words": list(self.words),
        }

    def __str__(self) -> str:
        return "\n".join(self.words)

    def __repr__(self) -> str:
        if not self.enough:
            return f"ModelCheck({len(self.history)} readings, too few)"
        return (
            f"ModelCheck({len(self.history)} readings, explains {percent(self.explained)}, "
            f"95 % bands contain {percent(self.coverage[0.95])})"
        )

    @property
    def _right(self) -> NDArray[np.bool_]:
        right = np.ones(len(self.fold), dtype=bool)
        right[self.wrong] = False
        return right

    def _mean(self, values: Array) -> float:
        return float(values[self._right].mean())

    def _explained(self, reference: Array) -> float:
        if not self.enough:
            return math.nan
        left = self._mean((self.measured - self.predicted) ** 2)
        before = self._mean((self.measured - reference) ** 2)
        return 1.0 - left / before if before > 0 else math.nan


def _number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _axis_values(axis: Axis) -> dict[str, Any]:
    return vars(axis) | {"growth": _number(axis.growth), "varied": axis.varied}
