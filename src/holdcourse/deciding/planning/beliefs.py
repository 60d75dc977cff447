"""What a plan believes of the rounds to come: a chain learned from the contexts seen, forecasts, what will be allowed.

The chain says which context follows which, in bounded memory. It is what the planning rule remembers, together with
what is believed and planned in each of its contexts (`Table`) and how well forecasts did (`ForecastScores`).

**Representatives.** Each context seen is kept as a representative, up to a capacity (64). Contexts closer than
`SAME` correlation lengths share one. When the capacity is reached, a new context joins its nearest representative, or,
if it is farther from all of them than the two closest are from each other, those two become one (the one seen more
often stays, transitions are added) and the new context takes the free place. So representatives spread over where
contexts were seen, and no more than one changes in a round.

**Distances** between contexts are counted in correlation lengths: `scale` per axis, or, where nobody says, a fifth of
the range seen. An axis with a `period` (hour of day: 24) is a circle.

**A forecast** is a list of contexts for the next rounds, (h,) or (h, d); with one column more, (h, d + 1), the last one
is the forecaster's own confidence in each step, from 0 to 1. Any length will do; what lies beyond `LEADS` rounds is not
used.

**Trust.** For every lead (one round ahead, two, ...) we keep how close past forecasts came to the context that followed
and how close the learned chain came, on a scale from 0 (unrelated) to 1 (the same). The trust in a lead is the share of
the chain's shortfall that the forecast makes up: (forecast - chain) / (1 - chain), between 0 and 1. A shuffled forecast
is no closer than chance, so its trust falls to 0; a true one rises to 1. Old rounds fade, so trust can be won and lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse._numeric import contexts, minplus
from holdcourse.checks import array_of, too_large
from holdcourse.deciding.rules import RuleState, View
from holdcourse.errors import InvalidInput, counted, shown
from holdcourse.learning.history import check_context, check_contexts
from holdcourse.learning.kernels import AnyKernel, checked_period, per_axis

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

SAME = 0.02  # correlation lengths; costs of such contexts differ by 2 % of a deviation
LENDING = 0.15  # correlation lengths over which contexts lend each other their transitions
SHARE_OF_RANGE = 0.2  # correlation length as a share of the range seen, where nobody gives one
DROP = float(np.exp(-0.5))  # correlation at one correlation length: that of a squared exponential at its length scale
MASK_MEMORY = 0.8  # an action that was allowed in less than half of the last rounds, by this fading, is out of the plan


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
        """Make it from what a user gives: numbers or lists, one entry per axis."""
        given = () if scale is None else np.atleast_1d(array_of(scale, "context_scale")).tolist()
        scales = None if scale is None else tuple(_checked("context_scale", each) for each in given)
        return cls(scales, checked_period(period, "period"))

    def distances(self, points: Array, others: Array, seen: Array) -> Array:
        """Measure from each of k points to each of l others, in correlation lengths, (k, l); `seen` gives the range."""
        dimension = points.shape[1]
        periods = (None,) * dimension if self.period is None else per_axis(self.period, dimension, "period")
        if self.scale is not None:
            lengths = np.array(per_axis(self.scale, dimension, "context_scale"))
        else:
            spans = np.ptp(seen, axis=0) if len(seen) else np.ones(dimension)
            spans = np.array([span if p is None else p / 2 for span, p in zip(spans, periods, strict=True)])
            lengths = SHARE_OF_RANGE * np.where(spans > 0, spans, 1.0)
        apart = np.empty((len(points), len(others)))
        circles = np.array([0.0 if period is None else period for period in periods])
        contexts.distances(np.ascontiguousarray(points), np.ascontiguousarray(others.T), lengths, circles, apart)
        return apart

    def describe(self) -> dict[str, Any]:
        """Describe it in JSON values."""
        scale = None if self.scale is None else [s if np.isfinite(s) else "inf" for s in self.scale]
        return {"scale": scale, "period": None if self.period is None else list(self.period)}


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
        moved = Chain(points, counts, visits, here)._moved_to(freed)
        return Extended(moved, kept if nearest == freed else nearest, True, kept)

    def transitions(self, apart: Array, stay: float) -> Array:
        """Return the probabilities of what follows each representative, (k, k), given their distances `apart`."""
        lent = np.exp(-0.5 * (apart / LENDING) ** 2)
        probabilities: Array = minplus.transition_probabilities(self.counts, lent, stay)
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
    none), whether `chain.here` is a new one, and which took over what stood in its place (-1: nothing did).
    """  # noqa: D205 - one sentence

    chain: Chain
    nearest: int
    new: bool
    heir: int = -1


def correlation_lengths(kernel: AnyKernel) -> list[float] | None:
    """Return where a kernel's correlation of contexts falls to exp(-1/2), per axis; infinite where it never does.

    None if the kernel does not look at contexts, or does not say how many axes they have.
    """
    if not kernel.uses_context:
        return None
    dimension = kernel.context_dimension or 1  # one length scale for all axes: any one axis tells it
    steps = np.logspace(-6.0, 6.0, 2401)
    lengths = []
    for axis in range(dimension):
        probes = np.zeros((len(steps), dimension))
        probes[:, axis] = steps
        origin = np.zeros((1, dimension))
        covariance = sum(part.variance * part.context_covariance(origin, probes)[0] for part in kernel.parts)
        variance = sum(part.variance * part.context_variances(origin)[0] for part in kernel.parts)
        correlation = np.asarray(covariance) / variance
        below = np.flatnonzero(correlation < DROP)
        if not len(below) or below[0] == 0:  # never, or at once
            lengths.append(float(steps[0]) if len(below) else float("inf"))
            continue
        last = slice(below[0] - 1, below[0] + 1)
        length = np.interp(DROP, correlation[last][::-1], steps[last][::-1])
        lengths.append(float(f"{length:.3g}"))  # no more is meant
    return lengths


def _checked(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not value > 0:
        raise InvalidInput(f"{what} must be positive, got {shown(value)}")
    try:
        return float(value)
    except OverflowError:
        raise too_large(value, what) from None


def alikeness(apart: Array, power: float = 2.0) -> Array:
    """Return the correlation of the costs of contexts that are so many correlation lengths apart, to a power."""
    return np.asarray(np.exp(-0.5 * power * apart**2))


LEADS = 16  # rounds ahead that a plan looks into a forecast
FADING = 0.98  # of a round's weight in the scores, per round
# Trust begins as if so many rounds had been seen, with this closeness of forecast and chain: nearly full, since
# somebody thought the forecast worth passing on. It must be: trust in twelve steps is a product of twelve numbers.
PRIOR_ROUNDS = 2.0
PRIOR_CLOSENESS = (0.98, 0.5)


def read_forecast(forecast: Any, dimension: int) -> tuple[Array, Array]:
    """Return the contexts (h, d) and confidences (h,) of the next rounds; none where there is no forecast."""
    if forecast is None or np.size(forecast) == 0:
        return np.zeros((0, dimension)), np.zeros(0)
    rows = check_contexts(forecast, None, "forecast")[:LEADS]
    if rows.shape[1] == dimension:
        return rows, np.ones(len(rows))
    if rows.shape[1] != dimension + 1:
        raise InvalidInput(
            f"forecast must have {counted(dimension, 'number')} per round, like the context, or {dimension + 1} with a "
            f"confidence; got shape {rows.shape}"
        )
    confidence = rows[:, -1]
    if not ((confidence >= 0) & (confidence <= 1)).all():
        i = int(np.argmin((confidence >= 0) & (confidence <= 1)))
        raise InvalidInput(f"confidence must lie between 0 and 1, but that of forecast row {i} is {confidence[i]:g}")
    return np.ascontiguousarray(rows[:, :-1]), confidence


@dataclass(frozen=True, eq=False)
class ForecastScores:
    """How close past forecasts came to what followed.

    Attributes
    ----------
    forecasts
        ``forecasts[a, l]``: what was said a + 1 rounds ago about the round l + 1 rounds later; (LEADS, LEADS, d), NaN
        where nothing was said.
    contexts
        The contexts of the last rounds, newest first, (LEADS, d); NaN before the first.
    closeness
        Per lead: weight, sum of the forecast's closeness, sum of the chain's; (LEADS, 3).
    """

    forecasts: Array
    contexts: Array
    closeness: Array

    @classmethod
    def empty(cls, dimension: int) -> ForecastScores:
        """Return the scores before the first forecast."""
        unknown = np.full((LEADS, LEADS, dimension), np.nan)
        return cls(unknown, unknown[0].copy(), np.zeros((LEADS, 3)))

    def checked(
        self, context: Array, closeness: Callable[[Array], Array], chain_closeness: Callable[[], Array]
    ) -> ForecastScores:
        """Return the scores after the context of this round became known.

        Parameters
        ----------
        closeness
            From contexts (k, d) to their closeness to the context of this round, (k,).
        chain_closeness
            What the chain's predictions made 1, 2, ... rounds ago come to, (LEADS,); asked only if there is a forecast
            to compare with.
        """
        said = self.forecasts[np.arange(LEADS), np.arange(LEADS)]  # about this round, by lead
        known = np.isfinite(said).all(axis=1).reshape(-1)
        sums = self.closeness
        if known.any():
            gained = np.zeros((LEADS, 3))
            gained[known, 0] = 1.0
            gained[known, 1] = closeness(said[known])
            gained[known, 2] = chain_closeness()[known]
            sums = np.where(known[:, None], FADING * sums + gained, sums)
        return ForecastScores(self.forecasts, np.vstack([context[None], self.contexts[:-1]]), sums)

    def told(self, forecast: Array) -> ForecastScores:
        """Return the scores after this round's forecast, (h, d)."""
        newest = np.full((1, *self.forecasts.shape[1:]), np.nan)
        newest[0, : len(forecast)] = forecast
        return ForecastScores(np.concatenate([newest, self.forecasts[:-1]]), self.contexts, self.closeness)

    def trust(self) -> Array:
        """Return how far to believe each lead, (LEADS,)."""
        weight = self.closeness[:, 0] + PRIOR_ROUNDS
        forecast, chain = ((self.closeness[:, 1 + i] + PRIOR_ROUNDS * PRIOR_CLOSENESS[i]) / weight for i in range(2))
        return np.clip((forecast - chain) / np.maximum(1.0 - chain, 1e-9), 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Table:
    """What is known of each representative.

    Attributes
    ----------
    expected, spread
        Expected costs, and how far below them the bounds lie; (k, n).
    values
        Cost to go from each action when the context has just been seen, up to a constant; (k, n).
    refreshed
        The round in which costs were last asked; -1: never. (k,)
    """

    expected: Array
    spread: Array
    values: Array
    refreshed: Array

    def row(self, index: int) -> tuple[Array, Array]:
        """Return the expected costs and spread of one representative."""
        return self.expected[index], self.spread[index]

    def with_row(self, index: int, nearest: int, new: bool) -> Table:
        """Make room for a new representative, which takes over what is known of the nearest one."""
        if not new:
            return self
        tables: list[Array] = []
        for array in (self.expected, self.spread, self.values):
            grown = array.copy() if index < len(array) else np.vstack([array, np.zeros((1, array.shape[1]))])
            grown[index] = grown[nearest] if nearest >= 0 else 0.0
            tables.append(grown)
        refreshed = self.refreshed.copy() if index < len(self.refreshed) else np.append(self.refreshed, -1.0)
        refreshed[index] = -1.0
        expected, spread, values = tables
        return Table(expected, spread, values, refreshed)


@dataclass(frozen=True, eq=False)
class PlayCounts:
    """What was played where, and what trials have cost.

    Attributes
    ----------
    counts
        How often each action was played in each representative context, (k, n).
    doubtful
        1 where the newest reading made the cost no surer, or much lower, than it was; else 0. (k, n)
    spent
        What the trials so far were charged with.
    newest
        Of that, the charge of the newest round.
    prevented
        After how many rounds a trial was prevented last.
    """

    counts: Array
    doubtful: Array
    spent: float = 0.0
    newest: float = 0.0
    prevented: float = -np.inf

    @property
    def rounds(self) -> float:
        """How many rounds were played."""
        return float(self.counts.sum())

    def with_row(self, seen: Extended) -> PlayCounts:
        """Make room for a new representative, where nothing was played; what stood in its place goes to the heir."""
        if not seen.new:
            return self
        here, counts, doubtful = seen.chain.here, self.counts.copy(), self.doubtful.copy()
        if here == len(counts):
            empty = np.zeros((1, counts.shape[1]))
            return replace(self, counts=np.vstack([counts, empty]), doubtful=np.vstack([doubtful, empty]))
        counts[seen.heir] += counts[here]
        counts[here], doubtful[here] = 0.0, 0.0
        return replace(self, counts=counts, doubtful=doubtful)

    def after_reading(self, row: int, action: int, before: Table, after: Table) -> PlayCounts:
        """Return it after what was measured there has changed what is expected, or has not."""
        fallen = before.expected[row, action] - after.expected[row, action]
        width = before.spread[row, action]
        doubtful = self.doubtful.copy()
        doubtful[row, action] = float(after.spread[row, action] >= width or fallen > width)
        return replace(self, doubtful=doubtful)

    def after(self, here: int, action: int, charge: float = 0.0) -> PlayCounts:
        """Return it after one more round, which was a trial if it is charged."""
        counts = self.counts.copy()
        counts[here, action] += 1.0
        return replace(self, counts=counts, spent=self.spent + charge, newest=charge)

    def corrected(self, here: int, chosen: int, action: int) -> PlayCounts:
        """Return it after somebody played another action than the chosen one, which is not charged then."""
        counts = self.counts.copy()
        counts[here, chosen] = max(counts[here, chosen] - 1.0, 0.0)
        counts[here, action] += 1.0
        prevented = self.rounds if self.newest > 0 else self.prevented
        return PlayCounts(counts, self.doubtful, max(self.spent - self.newest, 0.0), 0.0, prevented)

    @classmethod
    def of(cls, arrays: dict[str, Array]) -> PlayCounts:
        """Read from the arrays of a rule's state."""
        return cls(arrays["played"], arrays["doubtful"], *arrays["trials"].tolist())

    def arrays(self) -> dict[str, Array]:
        """Give the arrays that a rule's state holds."""
        numbers = np.array([self.spent, self.newest, self.prevented])
        return {"played": self.counts, "doubtful": self.doubtful, "trials": numbers}


@dataclass(frozen=True, eq=False)
class Memory:
    """Everything that the planning rule remembers between rounds.

    Attributes
    ----------
    available
        How often each action was allowed lately, from 0 to 1; (n,).
    """

    chain: Chain
    table: Table
    available: Array
    scores: ForecastScores
    played: PlayCounts

    @classmethod
    def of(cls, state: RuleState, view: View, n: int) -> Memory:
        """Read from a rule's state; empty before the first round, which says how many numbers a context has."""
        a = state.arrays
        if not a:
            dimension = len(check_context(view.context, None))
            none = np.zeros((0, n))
            table = Table(none, none, none, np.zeros(0))
            scores = ForecastScores.empty(dimension)
            return cls(Chain.empty(dimension), table, np.ones(n), scores, PlayCounts(none, none))
        return cls(
            Chain(a["contexts"], a["counts"], a["visits"], int(a["here"][0])),
            Table(a["expected"], a["spread"], a["values"], a["refreshed"]),
            a["available"],
            ForecastScores(a["forecasts"], a["past"], a["closeness"]),
            PlayCounts.of(a),
        )

    def arrays(self) -> dict[str, Array]:
        """Give the arrays that a rule's state holds."""
        chain, table, scores = self.chain, self.table, self.scores
        return {
            "contexts": chain.points,
            "counts": chain.counts,
            "visits": chain.visits,
            "here": np.array([float(chain.here)]),
            "expected": table.expected,
            "spread": table.spread,
            "values": table.values,
            "refreshed": table.refreshed,
            "available": self.available,
            "forecasts": scores.forecasts,
            "past": scores.contexts,
            "closeness": scores.closeness,
            **self.played.arrays(),
        }


def available_after(available: Array, allowed: Mask) -> Array:
    """Return how often each action was allowed lately, from 0 to 1, after one more round."""
    return np.asarray(MASK_MEMORY * available + (1 - MASK_MEMORY) * allowed)


def out_of_plan(available: Array) -> Mask | None:
    """Return the actions not to count on; None where that is none of them, or all."""
    out = available < 0.5
    return out if out.any() and not out.all() else None
