"""Lower confidence bounds of a learned cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import flag, is_finite
from holdcourse.confidence import Outlier, OutlierGuard, TheoryWidth
from holdcourse.costs.protocol import Array, Estimate, checked_costs, name_of
from holdcourse.errors import InvalidInput
from holdcourse.gp import Posterior
from holdcourse.history import (
    History,
    check_context,
    check_measurement,
    context_rows,
    context_vector,
    require_squarable,
)
from holdcourse.named_arrays import Arrays, prefixed, require_arrays, under

Every: TypeAlias = Literal["round", "episode"]
IntervalMap: TypeAlias = Callable[[Array, Array], Array]

REMEMBERED_PREDICTIONS = 256
REPORTED_OUTLIERS = 100  # the newest ones; a controller runs for months
WAITING = ("waiting.actions", "waiting.contexts", "waiting.measurements")
OUTLIERS = ("outliers.actions", "outliers.contexts", "outliers.measurements", "outliers.weights")


class LowerBound:
    """Lower confidence bounds of a learned cost: mean - width * std.

    Parameters
    ----------
    posterior
        What is known of the measured quantity; it is conditioned in place.
    width
        A constant (2.0 in the paper's experiments), or `TheoryWidth`.
    every
        "round": bounds follow every measurement (the paper's experiments). "episode": they are frozen within an episode
        (its theorem).
    maximise
        The measured quantity is a gain: its negative upper bound is the cost.
    guard
        How to treat measurements far off; None takes all at face value.
    guaranteed
        Add to the deviation the bound on what the flat posterior's basis leaves out.
    interval_map
        For a cost that is a function of the measured quantity; see `Mapped`.

    Attributes
    ----------
    outliers
        The newest measurements that the guard down-weighted.
    """

    needs_costs = False

    def __init__(
        self,
        posterior: Posterior,
        width: float | TheoryWidth = 2.0,
        *,
        every: Every = "round",
        maximise: bool = False,
        guard: OutlierGuard | None = None,
        guaranteed: bool = False,
        interval_map: IntervalMap | None = None,
    ) -> None:
        if not isinstance(width, TheoryWidth) and not (is_finite(width) and width >= 0):
            raise InvalidInput(f"width must be 0 or more, or a TheoryWidth, got {width!r}")
        if every not in ("round", "episode"):
            raise InvalidInput(f"every must be 'round' or 'episode', got {every!r}")
        if maximise and interval_map is not None:
            raise InvalidInput("a map gives costs already; express the gain in it instead of maximise=True")
        if guard is not None and not callable(getattr(guard, "tamed", None)):
            raise InvalidInput(f"guard must be an OutlierGuard, or None, got {guard!r}")
        if interval_map is not None and not callable(interval_map):
            raise InvalidInput(f"interval_map must be a function of two arrays, or None, got {interval_map!r}")
        self.posterior = posterior
        self.width = width if isinstance(width, TheoryWidth) else float(width)
        self.every: Every = every
        self.maximise = flag(maximise, "maximise")
        self.guard = guard
        self.guaranteed = flag(guaranteed, "guaranteed")
        self.interval_map = interval_map
        self.outliers: list[Outlier] = []
        self._waiting: list[tuple[int, Array, float]] = []  # for the end of the episode
        self._predicted: dict[bytes, tuple[Array, Array]] = {}  # by context,
        self._predicted_after = -1  # when so many measurements had been told

    def estimate(self, context: Any, shown: ArrayLike | None = None) -> Estimate:
        """Lower bounds of every action's cost in this context."""
        mean, std = self._predict(context_vector(context))
        return Estimate(self._bounds(mean, std), self._least_costs(mean, mean), mean, std)

    def costs_at(self, contexts: ArrayLike) -> Array:
        """Lower bounds in each of k contexts, shape (k, n)."""
        return self.costs_at_optimism(contexts, 1.0)

    def costs_at_optimism(self, contexts: ArrayLike, optimism: float) -> Array:
        """Lower bounds with `optimism` times the width, shape (k, n); 0 gives expected costs."""
        rows = context_rows(contexts)
        bounds = [self._bounds(*self._predict(row), optimism) for row in rows]
        return np.array(bounds).reshape(len(rows), self.posterior.prior.problem.n)

    def _predict(self, context: Array) -> tuple[Array, Array]:
        """The posterior's prediction; a rule that plans asks for the same contexts several times within a round.

        The posterior checks a context when it is predicted first; one that is remembered was checked.
        """
        told = self.posterior.observations
        if told != self._predicted_after or len(self._predicted) >= REMEMBERED_PREDICTIONS:
            self._predicted.clear()
            self._predicted_after = told
        key = context.tobytes()
        if key not in self._predicted:
            mean, std = (array.view() for array in self.posterior.predict(context))
            for array in (mean, std):  # kept for the next time it is asked
                array.setflags(write=False)
            self._predicted[key] = mean, std
        return self._predicted[key]

    def _bounds(self, mean: Array, std: Array, optimism: float = 1.0) -> Array:
        width = optimism * (self.width.of(self.posterior) if isinstance(self.width, TheoryWidth) else self.width)
        spread = std + self.posterior.truncation_bound(std) if self.guaranteed else std
        return self._least_costs(mean - width * spread, mean + width * spread)

    def _least_costs(self, low: Array, high: Array) -> Array:
        if self.interval_map is not None:
            return checked_costs(self.interval_map(low, high), len(low), f"costs from {name_of(self.interval_map)}")
        return -high if self.maximise else low

    def learn(self, action: int, context: Any, measurement: float) -> float:
        """Take in a measurement, now or at the end of the episode; returns its weight."""
        self.posterior.prior.problem.check_action(action)
        vector, y, weight = context_vector(context), check_measurement(measurement), 1.0
        if self._waiting:  # one posterior takes contexts of any length, but all of the same
            check_context(vector, len(self._waiting[0][1]))
        if self.guard is not None or self.every == "episode":
            mean, std = self.posterior.predict(vector)  # checks the context
            if self.guard is not None:
                spread = math.sqrt(float(std[action]) ** 2 + self.posterior.prior.noise_variance)
                y, weight = self.guard.tamed(y, float(mean[action]), spread)
        require_squarable(y, "measurements")
        if self.every == "episode":
            self._waiting.append((int(action), vector, y))
        else:
            self.posterior.condition(int(action), vector, y)
        if weight < 1.0:
            self.outliers.append(Outlier(int(action), tuple(vector.tolist()), float(measurement), weight))
            del self.outliers[:-REPORTED_OUTLIERS]
        return weight

    def new_episode(self) -> None:
        """Let the episode's data into the bounds."""
        if self._waiting:  # all at once: within an episode, measurements may come in another order than their times
            self.posterior.condition_on(History.from_triples(self._waiting))
            self._waiting.clear()

    def copy(self) -> LowerBound:
        """Make an independent twin."""
        twin = LowerBound(
            self.posterior.copy(),
            self.width,
            every=self.every,
            maximise=self.maximise,
            guard=self.guard,
            guaranteed=self.guaranteed,
            interval_map=self.interval_map,
        )
        twin.outliers, twin._waiting = list(self.outliers), list(self._waiting)
        return twin

    def state(self) -> Arrays:
        """The posterior's arrays, what waits for the end of the episode, and the outliers reported."""
        arrays = prefixed("posterior.", self.posterior.state())
        outliers = [(o.action, o.context, o.measurement, o.weight) for o in self.outliers]
        return arrays | _columns(WAITING, self._waiting) | _columns(OUTLIERS, outliers)

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> LowerBound:
        """Take over what `state` of an equal model gave."""
        require_arrays(arrays, (*WAITING, *OUTLIERS), "a LowerBound")
        self.posterior.restore(under("posterior.", arrays))
        self._predicted.clear()
        waiting, outliers = (zip(*(arrays[name] for name in names), strict=True) for names in (WAITING, OUTLIERS))
        self._waiting = [(int(a), np.array(c), float(y)) for a, c, y in waiting]
        self.outliers = [Outlier(int(a), tuple(c.tolist()), float(y), float(w)) for a, c, y, w in outliers]
        return self

    def describe(self) -> dict[str, Any]:
        """What the model is, in JSON values."""
        return {
            "model": "LowerBound",
            "width": asdict(self.width) if isinstance(self.width, TheoryWidth) else self.width,
            "every": self.every,
            "maximise": self.maximise,
            "guard": None if self.guard is None else self.guard.deviations,
            "guaranteed": self.guaranteed,
            "map": None if self.interval_map is None else name_of(self.interval_map),
            "posterior": self.posterior.describe(),
        }


def Mapped(  # noqa: N802 - it reads as what it makes
    posterior: Posterior, interval_map: IntervalMap, width: float | TheoryWidth = 2.0, **options: Any
) -> LowerBound:
    """Lower bounds of a cost that is a function of the learned quantity: wind speed is learned, energy is paid.

    Parameters
    ----------
    posterior
        What is known of the measured quantity.
    interval_map
        ``interval_map(low, high) -> (n,)``: the least cost of each action when the quantity of every action lies
        between low and high, both (n,). It need not be monotone, and may look at all actions together. With
        low = high it gives the cost itself.
    width, options
        As in `LowerBound`.
    """
    return LowerBound(posterior, width, interval_map=interval_map, **options)


def _columns(names: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> Arrays:
    """Records (action, context, numbers) as one array per field."""
    types = (np.int64, *(np.float64 for _ in names[1:]))
    return {name: np.array([row[k] for row in rows], dtype=types[k]) for k, name in enumerate(names)}
