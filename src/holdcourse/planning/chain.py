"""The chain of contexts: which context follows which, learned from what was seen, in bounded memory.

**Representatives.** Each context seen is kept as a representative, up to a capacity (64). Contexts closer than
`SAME` correlation lengths share one. When the capacity is reached, a new context joins its nearest representative, or,
if it is farther from all of them than the two closest are from each other, those two become one (the one seen more
often stays, transitions are added) and the new context takes the free place. So representatives spread over where
contexts were seen, and no more than one changes in a round.

**Distances** between contexts are counted in correlation lengths: `scale` per axis, or, where nobody says, a fifth of
the range seen. An axis with a `period` (hour of day: 24) is a circle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse._numeric import bellman
from holdcourse.checks import is_finite
from holdcourse.errors import InvalidInput, plain

Array: TypeAlias = NDArray[np.float64]

SAME = 0.02  # correlation lengths; costs of such contexts differ by 2 % of a deviation
LENDING = 0.15  # correlation lengths over which contexts lend each other their transitions
SHARE_OF_RANGE = 0.2  # correlation length as a share of the range seen, where nobody gives one


@dataclass(frozen=True)
class Closeness:
    """How far apart contexts are.

    Parameters
    ----------
    scale
        Correlation length of the cost along each axis of the context (one number serves all); None: a fifth of the
        range seen. An axis with an infinite one makes no difference.
    period
        Period of each axis, or None; one entry serves all axes.
    """

    scale: tuple[float, ...] | None = None
    period: tuple[float | None, ...] | None = None

    @classmethod
    def of(cls, scale: Any = None, period: Any = None) -> Closeness:
        """From what a user gives: numbers or lists, one entry per axis."""
        scales = None if scale is None else tuple(_checked("context_scale", s) for s in np.atleast_1d(scale).tolist())
        if period is None:
            return cls(scales)
        entries = list(period) if isinstance(period, list | tuple | np.ndarray) else [period]
        return cls(scales, tuple(None if p is None else _checked("period", p) for p in entries))

    def distances(self, points: Array, others: Array, seen: Array) -> Array:
        """From each of k points to each of l others, in correlation lengths, (k, l); `seen` says what the range is."""
        apart = points[:, None, :] - others[None, :, :]
        dimension = points.shape[1]
        periods = self._axes(self.period, dimension, "period") if self.period is not None else (None,) * dimension
        for axis, period in enumerate(periods):
            if period is not None:
                apart[:, :, axis] -= period * np.round(apart[:, :, axis] / period)
        if self.scale is not None:
            lengths = np.array(self._axes(self.scale, dimension, "context_scale"))
        else:
            spans = np.ptp(seen, axis=0) if len(seen) else np.ones(dimension)
            spans = np.array([span if p is None else p / 2 for span, p in zip(spans, periods, strict=True)])
            lengths = SHARE_OF_RANGE * np.where(spans > 0, spans, 1.0)
        return np.asarray(np.sqrt(((apart / lengths) ** 2).sum(axis=2)))

    def describe(self) -> dict[str, Any]:
        """Describe it in JSON values."""
        scale = None if self.scale is None else [s if np.isfinite(s) else "inf" for s in self.scale]
        return {"scale": scale, "period": None if self.period is None else list(self.period)}

    @staticmethod
    def _axes(given: tuple[Any, ...], dimension: int, what: str) -> tuple[Any, ...]:
        if len(given) not in (1, dimension):
            raise InvalidInput(f"{what} has {len(given)} entries, but contexts have {dimension} numbers")
        return given * dimension if len(given) == 1 else given


@dataclass(frozen=True, eq=False)
class Chain:
    """What is known of the contexts.

    Attributes
    ----------
    points
        The representatives, (k, d).
    counts
        How often one followed the other, (k, k).
    visits
        How often each was seen, (k,).
    here
        The one of the newest round; -1 before the first.
    """

    points: Array
    counts: Array
    visits: Array
    here: int = -1

    @classmethod
    def empty(cls, dimension: int) -> Chain:
        """Return the chain before the first context."""
        return cls(np.zeros((0, dimension)), np.zeros((0, 0)), np.zeros(0))

    def __len__(self) -> int:
        return len(self.points)

    def extended(self, context: Array, closeness: Closeness, capacity: int) -> Extended:
        """Return the chain after one more round, and what that changed."""
        k = len(self)
        seen = np.vstack([self.points, context])
        away = closeness.distances(context[None], self.points, seen)[0]
        nearest = int(np.argmin(away)) if k else -1
        if k and (away[nearest] < SAME or capacity == 1):
            return Extended(self._moved_to(nearest), nearest, False)
        if k < capacity:
            counts = np.zeros((k + 1, k + 1))
            counts[:k, :k] = self.counts
            grown = Chain(seen, counts, np.append(self.visits, 0.0), self.here)
            return Extended(grown._moved_to(k), nearest, True)
        apart = closeness.distances(self.points, self.points, seen)
        np.fill_diagonal(apart, np.inf)
        a, b = (int(i) for i in np.unravel_index(np.argmin(apart), apart.shape))
        if away[nearest] <= apart[a, b]:
            return Extended(self._moved_to(nearest), nearest, False)
        kept, freed = (a, b) if self.visits[a] >= self.visits[b] else (b, a)
        points, counts, visits = self.points.copy(), self.counts.copy(), self.visits.copy()
        counts[kept] += counts[freed]
        counts[:, kept] += counts[:, freed]
        counts[freed], counts[:, freed] = 0.0, 0.0
        visits[kept] += visits[freed]
        visits[freed], points[freed] = 0.0, context
        here = kept if self.here == freed else self.here
        return Extended(
            Chain(points, counts, visits, here)._moved_to(freed), kept if nearest == freed else nearest, True
        )

    def transitions(self, apart: Array, stay: float) -> Array:
        """Probabilities of what follows each representative, (k, k), given their distances `apart`."""
        lent = np.exp(-0.5 * (apart / LENDING) ** 2)
        probabilities: Array = bellman.transition_probabilities(self.counts, lent, stay)
        return probabilities

    def _moved_to(self, index: int) -> Chain:
        counts, visits = self.counts.copy(), self.visits.copy()
        if self.here >= 0:
            counts[self.here, index] += 1.0
        visits[index] += 1.0
        return Chain(self.points, counts, visits, index)


@dataclass(frozen=True, eq=False)
class Extended:
    """What one more context did to a chain: the chain after it, the nearest representative before it (-1: there was
    none), and whether `chain.here` is a new one.
    """  # noqa: D205 - one sentence

    chain: Chain
    nearest: int
    new: bool


def _checked(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not value > 0:
        raise InvalidInput(f"{what} must be positive, got {plain(value)!r}")
    if what == "period" and not is_finite(value):  # an infinite scale is an axis that does not matter
        raise InvalidInput(f"period must be finite, got {plain(value)!r}; give None for an axis that never returns")
    return float(value)


def alikeness(apart: Array, power: float = 2.0) -> Array:
    """Correlation of the costs of contexts that are so many correlation lengths apart, to a power."""
    return np.asarray(np.exp(-0.5 * power * apart**2))
