"""Cost models: from a context and the data so far to the cost vector that a rule sees.

`LowerBound` shows the lower confidence bounds of a posterior (GP-MD, CGP-LCB); `Mapped` does so for a cost that is a
function of what is learned; `KnownCosts` shows the true costs (MD-Known, MinC-Known). A model is mutable: it learns.
Costs that come from outside are checked here.

Every model is a `CostModel`. What only some can do has a protocol of its own, which is looked for with `isinstance`:

==================  ===================================  ==============================================================
protocol            method                               who asks
==================  ===================================  ==============================================================
`Costs`             ``costs_at(contexts)``               rules that plan, of every model
`OptimisticCosts`   ``costs_at_optimism(contexts, x)``   rules that plan with bounds and with expected costs
`SelectiveCosts`    ``costs_of(contexts, actions, x)``   rules that look at some of very many actions
`LowestCosts`       ``lowest(context, allowed)``         rules that need nothing but the cheapest action
`ForecastCosts`     ``costs_at_outlook(contexts, o)``    `Lookahead` with forecasts of what will be measured
`SettledCosts`      ``settled_costs()``                  `Lookahead` with an anchor: where to be after a plan
`ExpertCosts`       ``of_expert(j)``                     `Hedged`, whose experts have models of their own
`Gains`             ``maximise``                         whoever must know whether measurements are gains
`Noise`             ``noise_variance``                   whoever judges how far off a measurement is
`Judging`           ``calibration()``, ``doubted()``     whoever shows people what a model makes of measurements
`Pricing`           ``price()``                          whoever sums up costs, where something else is measured
`Profiled`          ``context_at(hours)`` and others     a controller that is given times and profiles
==================  ===================================  ==============================================================

Examples
--------
>>> import holdcourse as hc
>>> from sklearn.gaussian_process.kernels import RBF
>>> belief = hc.posterior(hc.Problem([0.0, 0.5, 1.0]), hc.Kernel(RBF(0.5), RBF(0.3)))
>>> model = hc.costs.LowerBound(belief, width=2.0)
>>> model.estimate(0.2).costs.tolist()  # nothing is known: mean 0 less twice a deviation of 1
[-2.0, -2.0, -2.0]
>>> model.learn(1, 0.2, 3.0)  # the weight of the measurement
1.0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol, Self, TypeAlias, TypeGuard, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.archive import Arrays, prefixed, require_arrays, under
from holdcourse.checks import flag, float_array, is_finite
from holdcourse.errors import InvalidInput, shown
from holdcourse.learning.confidence import Outlier, OutlierGuard, TheoryWidth
from holdcourse.learning.history import (
    History,
    check_context,
    check_contexts,
    check_measurement,
    context_rows,
    context_vector,
    require_squarable,
)
from holdcourse.learning.posteriors.lowest import Lowest
from holdcourse.learning.posteriors.protocol import (
    BatchPosterior,
    JudgingPosterior,
    Posterior,
    SearchedPosterior,
    Told,
    predict_some,
)
from holdcourse.movement.problem import Problem, check_problem

__all__ = [
    "REPORTED_OUTLIERS",
    "Arrays",
    "Calibration",
    "CostModel",
    "Costs",
    "Estimate",
    "Every",
    "ExpertCosts",
    "ForecastCosts",
    "Gains",
    "IntervalMap",
    "Judging",
    "KnownCosts",
    "LowerBound",
    "Lowest",
    "LowestCosts",
    "Mapped",
    "Noise",
    "OptimisticCosts",
    "OutlierGuard",
    "Outlook",
    "Pricing",
    "Profiled",
    "SelectiveCosts",
    "SettledCosts",
    "TheoryWidth",
    "calibration_of",
    "costs_of_some",
    "costs_with_optimism",
    "doubted_by",
    "maximises",
    "noise_variance_of",
    "price_of",
]


Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimates of a model for one round. All arrays have shape (n,).

    Attributes
    ----------
    costs
        Costs that the rule sees: lower bounds, or the costs themselves if they are known.
    expected
        Expected service cost of each action.
    mean, std
        Mean and standard deviation of the measured quantity, if it is learned.
    """

    costs: Array
    expected: Array
    mean: Array | None = None
    std: Array | None = None


class Costs(Protocol):
    """Costs in any contexts, which rules that plan ask of every model."""

    def costs_at(self, contexts: ArrayLike) -> Array:
        """Costs in each of k contexts; shape (k, n)."""
        ...


@runtime_checkable
class OptimisticCosts(Costs, Protocol):
    """Lower bounds of costs, which can also be computed with less optimism."""

    def costs_at_optimism(self, contexts: ArrayLike, optimism: float) -> Array:
        """Costs with `optimism` times the usual optimism, (k, n): 1 gives those of `costs_at`, 0 the expected costs."""
        ...


@runtime_checkable
class SelectiveCosts(Costs, Protocol):
    """Costs that can be computed for some actions alone, in less time than for all."""

    def costs_of(self, contexts: ArrayLike, actions: NDArray[np.int64], optimism: float) -> Array:
        """Costs of m actions in each of k contexts, with `optimism` times the usual optimism; (k, m)."""
        ...


@runtime_checkable
class LowestCosts(Costs, Protocol):
    """Costs whose lowest one can be found without computing all of them."""

    def lowest(self, context: Any, allowed: NDArray[np.bool_] | None = None) -> Lowest:
        """Find the allowed action of lowest cost in this context, and say how many costs were computed."""
        ...


@dataclass(frozen=True, eq=False)
class Outlook:
    """Forecasts for k times, and past forecasts.

    Attributes
    ----------
    values
        Forecast of every action's measurement at each of the times, (k, n); NaN if there is no forecast.
    leads
        Number of rounds between each forecast and its time, (k,); 0 if there is no forecast.
    std
        Standard deviation that the forecaster states, (k,); NaN if there is none.
    said
        One row per past round, newest first: its time, the action chosen, and the forecasts for that action made 1,
        2, ... rounds before; (rounds, 2 + leads), NaN if there was none.

    Examples
    --------
    >>> import holdcourse as hc
    >>> import numpy as np
    >>> speeds, deviation = np.array([[7.0, 9.0]]), np.array([0.5])  # of two actions at one time to come
    >>> outlook = hc.Outlook(values=speeds, leads=np.array([3]), std=deviation, said=np.empty((0, 26)))
    >>> outlook.values.shape, int(outlook.leads[0])  # said three rounds before
    ((1, 2), 3)
    """

    values: Array
    leads: NDArray[np.int64]
    std: Array
    said: Array


@runtime_checkable
class ForecastCosts(Costs, Protocol):
    """Costs that can take forecasts of future measurements into account."""

    def costs_at_outlook(self, contexts: ArrayLike, outlook: Outlook) -> Array:
        """Costs in each of k contexts, given the forecasts for them, (k, n)."""
        ...


@runtime_checkable
class SettledCosts(Costs, Protocol):
    """Costs whose long-run values the model knows."""

    def settled_costs(self) -> Array:
        """Additional cost of settling at each action after a plan, compared with the best action; (n,)."""
        ...


@runtime_checkable
class ExpertCosts(Costs, Protocol):
    """Costs as each of several experts sees them."""

    def of_expert(self, expert: int) -> Costs | None:
        """The costs of one expert; None if they are the costs shown in the round."""
        ...

    def expected_at(self, contexts: ArrayLike) -> Array | None:
        """Expected costs by which experts are judged, (k, n); None if they are the costs shown in the round."""
        ...


@runtime_checkable
class Gains(Protocol):
    """A model that says whether its measurements are gains instead of costs."""

    @property
    def maximise(self) -> bool:
        """Whether measurements and shown costs are gains, so that more is better."""
        ...


@runtime_checkable
class Noise(Protocol):
    """A model that says how noisy it assumes measurements to be."""

    @property
    def noise_variance(self) -> float | None:
        """Variance of the noise of a measurement; None if it learns from none."""
        ...


@dataclass(frozen=True)
class Calibration:
    """How well a model agrees with the measurements that it was told.

    Attributes
    ----------
    widening
        Factor by which the model widens its bands, because measurements fell outside them more often than they should;
        1: it does not widen them.
    set_aside
        Number of stored measurements that the model does not trust.
    changes
        Number of times that the model discarded its measurements, because the costs had changed.
    """

    widening: float
    set_aside: int
    changes: int = 0


@runtime_checkable
class Judging(Protocol):
    """A model that judges how far it can trust each measurement."""

    def calibration(self) -> Calibration | None:
        """How well the model agrees with its measurements; None if it trusts them all."""
        ...

    def doubted(self) -> frozenset[Told] | None:
        """Stored measurements that the model does not trust: action, context, measurement; None if it trusts all."""
        ...


@runtime_checkable
class Counting(Protocol):
    """A cost model that knows which actions were measured."""

    def tried(self) -> frozenset[int] | None:
        """Actions with a measurement that the model has learned; None if it cannot say."""
        ...


@runtime_checkable
class Pricing(Protocol):
    """A model that may learn something other than the cost of a round: wind speed is measured, energy is paid."""

    def price(self) -> Callable[[float], float] | None:
        """Return the function from a measurement to the cost of its round, up to a constant; None: they are equal."""
        ...


@runtime_checkable
class Profiled(Protocol):
    """A model of something measured over height and time, such as wind; it can learn all heights at once."""

    def context_at(self, hours: float) -> float:
        """Give the context of a time, in hours since 1970, UTC."""
        ...

    def readings_of(self, heights: ArrayLike, values: ArrayLike) -> list[tuple[int, float]]:
        """Turn measurements at some heights into readings of the actions between these heights."""
        ...

    def forecast_of(self, said: Mapping[str, Any], now: float, interval: float) -> list[list[float]]:
        """Turn a forecast of profiles into one row per round to come, as `Lookahead` reads it."""
        ...


@runtime_checkable
class CostModel(Costs, Protocol):
    """A cost model: it turns a context and the data so far into costs. `testing.check_cost_model` checks your own."""

    @property
    def needs_costs(self) -> bool:
        """Whether `estimate` must be shown the true costs."""
        ...

    def estimate(self, context: Any, shown: ArrayLike | None = None) -> Estimate:
        """Return the estimates for every action; `shown` are the true costs, for models that know them."""
        ...

    def learn(self, action: int, context: Any, measurement: float) -> float:
        """Learn a measurement and return its weight: 1, or less if it was an outlier."""
        ...

    def new_episode(self) -> None:
        """Note that an episode has ended."""
        ...

    def copy(self) -> Self:
        """Make an independent twin."""
        ...

    def state(self) -> Arrays:
        """Everything learned, as arrays."""
        ...

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` of an equal model gave."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return what the model is, in JSON values; equal models give equal descriptions."""
        ...


def name_of(function: Any) -> str:
    """How a function of the user's is called in a record."""
    return str(getattr(function, "name", getattr(function, "__qualname__", type(function).__qualname__)))


def maximises(model: CostModel) -> bool:
    """Return whether the measurements of a model are gains."""
    return has(model, Gains) and bool(model.maximise)


def noise_variance_of(model: CostModel) -> float | None:
    """Return the variance of a measurement's noise according to a model; None if it does not say."""
    return model.noise_variance if has(model, Noise) else None


def calibration_of(model: CostModel) -> Calibration | None:
    """Return how well a model agrees with its measurements; None if it does not say, or trusts them all."""
    return model.calibration() if has(model, Judging) else None


def doubted_by(model: CostModel) -> frozenset[Told] | None:
    """Return measurements that a model does not trust: action, context, measurement; None if it does not say."""
    return model.doubted() if has(model, Judging) else None


def tried_by(model: CostModel) -> frozenset[int] | None:
    """Actions that a model has learned a measurement of; None if it cannot say, or learns nothing."""
    return model.tried() if can(model, Counting) else None


def price_of(model: CostModel) -> Callable[[float], float] | None:
    """Return the function from a measurement to its cost; None if the measurement is the cost, or the gain."""
    return model.price() if has(model, Pricing) else None


def can(value: Any, protocol: Any) -> TypeGuard[Any]:
    """Whether a value has the methods of a protocol that has nothing else: `isinstance`, once for each type."""
    kind: Any = type(value)
    return bool(_subclasses(kind, protocol) or isinstance(value, protocol))


_HAS: dict[tuple[type, Any], bool] = {}


def has(value: Any, protocol: Any) -> TypeGuard[Any]:
    """Whether a value is what a protocol describes: `isinstance`, once for each type, which takes a while.

    Also for protocols with attributes: all values of a type have them, or none has.
    """
    known = _HAS.get((type(value), protocol))
    if known is None:
        known = _HAS[type(value), protocol] = isinstance(value, protocol)
    return known


@lru_cache(maxsize=256)
def _subclasses(kind: Any, protocol: Any) -> bool:
    return issubclass(kind, protocol)


def costs_with_optimism(model: CostModel, contexts: ArrayLike, optimism: float) -> Array:
    """Return costs at another optimism, (k, n); expected costs if the model cannot change its optimism."""
    if can(model, OptimisticCosts):
        costs: Array = model.costs_at_optimism(contexts, optimism)
        return costs
    return np.array([model.estimate(context).expected for context in np.atleast_2d(contexts)])


def costs_of_some(model: Any, contexts: ArrayLike, actions: NDArray[np.int64], optimism: float = 1.0) -> Array:
    """Return costs of some actions in each of k contexts, (k, m), by whatever method the model has."""
    if can(model, SelectiveCosts):
        return np.asarray(model.costs_of(contexts, actions, optimism))
    costs = model.costs_at(contexts) if optimism == 1.0 else costs_with_optimism(model, contexts, optimism)
    return np.asarray(costs[:, actions])


def checked_costs(given: Any, n: int, what: str, sign: float = 1.0) -> Array:
    """Costs from outside as a vector (n,); those of forbidden actions are +inf."""
    try:
        costs = sign * float_array(given, what) + 0.0  # a gain of 0 costs 0, not -0
    except InvalidInput:
        costs = np.full(n, np.nan)
    if costs.shape != (n,) or not (costs > -np.inf).all():
        raise InvalidInput(
            f"{what} must be {n} numbers, one per action ({sign * np.inf} forbids an action), got {shown(given)}"
        )
    return costs


class KnownCosts:
    """The true costs, shown in each round: for baselines, and for problems in which nothing needs to be learned.

    Parameters
    ----------
    problem
        The actions, and what moving between them costs.
    costs_of
        Function ``costs_of(context) -> (n,)`` of a context vector, if the costs depend on the context alone. Without
        it, they must be shown in each round.
    maximise
        Whether gains are shown instead of costs; default False.
    """

    def __init__(
        self, problem: Problem, costs_of: Callable[[Any], ArrayLike] | None = None, *, maximise: bool = False
    ) -> None:
        check_problem(problem)
        if costs_of is not None and not callable(costs_of):
            raise InvalidInput(f"costs_of must be a function of a context, or None, got {shown(costs_of)}")
        self.problem = problem
        self.costs_of = costs_of
        self.maximise = flag(maximise, "maximise")

    @property
    def needs_costs(self) -> bool:
        """Whether the costs must be shown."""
        return self.costs_of is None

    def estimate(self, context: Any, shown: ArrayLike | None = None) -> Estimate:
        """The costs shown, or those of the context."""
        if shown is None and self.costs_of is None:
            raise InvalidInput("this policy needs the true costs of the round; give costs=, one per action")
        if shown is None and self.costs_of is not None:
            shown = self.costs_of(check_context(context, None))
        what, sign = ("gains", -1.0) if self.maximise else ("costs", 1.0)
        costs = checked_costs(shown, self.problem.n, what, sign)
        return Estimate(costs, costs)

    def costs_at(self, contexts: ArrayLike) -> Array:
        """Return the costs in each of k contexts, (k, n); an error without `costs_of`."""
        rows = check_contexts(contexts, None)
        return np.array([self.estimate(row).costs for row in rows]).reshape(len(rows), self.problem.n)

    def learn(self, action: int, context: Any, measurement: float) -> float:
        """Check the measurement; there is nothing to learn from it."""
        self.problem.check_action(action)
        check_context(context, None)
        check_measurement(measurement)
        return 1.0

    def new_episode(self) -> None:
        """Do nothing: an episode changes no costs."""

    def copy(self) -> KnownCosts:
        """Return the model itself, which holds nothing that changes."""
        return self

    def state(self) -> Arrays:
        """Return no arrays, as nothing is learned."""
        return {}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> KnownCosts:
        """Return the model itself, as there is nothing to take over."""
        return self

    def describe(self) -> dict[str, Any]:
        """What the model is, in JSON values."""
        source = None if self.costs_of is None else name_of(self.costs_of)
        return {"model": "KnownCosts", "costs_of": source, "maximise": self.maximise}


@dataclass(frozen=True)
class Nothing:
    """The costs of policies that look at none."""

    n: int

    def __call__(self, context: Any) -> Array:
        """Give the same cost for every action."""
        return np.zeros(self.n)


Every: TypeAlias = Literal["round", "episode"]
IntervalMap: TypeAlias = Callable[[Array, Array], Array]


@runtime_checkable
class PricedMap(Protocol):
    """An interval map that can also say what a round costs in which one number was measured."""

    def cost_of(self, measured: float, /) -> float:
        """Return the cost of the round, up to what no action changes."""
        ...


@runtime_checkable
class StackedMap(Protocol):
    """An interval map that also takes many intervals at once."""

    def of_each(self, low: Array, high: Array) -> Array:
        """Return the costs for each row of (k, n), to the last bit as the map gives them for that row alone."""
        ...


REMEMBERED_PREDICTIONS = 256
SEARCHED = 200_000  # actions, above which the lowest bound is searched for where nothing else is asked
REPORTED_OUTLIERS = 100  # the newest ones; a controller runs for months
WAITING = ("waiting.actions", "waiting.contexts", "waiting.measurements")
OUTLIERS = ("outliers.actions", "outliers.contexts", "outliers.measurements", "outliers.weights")


class LowerBound:
    """Lower confidence bounds of a learned cost: mean - width * std.

    Parameters
    ----------
    posterior
        Posterior of the measured quantity; it is conditioned in place.
    width
        A constant (2.0 in the paper's experiments), or `TheoryWidth`.
    every
        When measurements change the bounds: in every "round" (as in the paper's experiments), or after every "episode"
        (as in its theorem).
    maximise
        Whether the measured quantity is a gain; then its negative upper bound is the cost.
    guard
        `OutlierGuard` against measurements far from their prediction; None trusts all.
    guaranteed
        Whether the bound on what the flat posterior's basis leaves out is added to the deviation.
    interval_map
        Function for a cost that depends on the measured quantity; see `Mapped`.

    Attributes
    ----------
    outliers
        The newest measurements whose weight the guard reduced.
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
        if not hasattr(posterior, "predict"):
            raise InvalidInput(f"posterior must be a posterior, such as hc.posterior returns, got {shown(posterior)}")
        if not isinstance(width, TheoryWidth) and not (is_finite(width) and width >= 0):
            raise InvalidInput(f"width must be 0 or more, or a TheoryWidth, got {shown(width)}")
        if not (isinstance(every, str) and every in ("round", "episode")):
            raise InvalidInput(f"every must be 'round' or 'episode', got {shown(every)}")
        maximise, guaranteed = flag(maximise, "maximise"), flag(guaranteed, "guaranteed")
        if maximise and interval_map is not None:
            raise InvalidInput(
                "interval_map already returns costs, so maximise=True does not apply; let the map turn gains into costs"
            )
        if guard is not None and not callable(getattr(guard, "tamed", None)):
            raise InvalidInput(f"guard must be an OutlierGuard, or None, got {shown(guard)}")
        if interval_map is not None and not callable(interval_map):
            raise InvalidInput(f"interval_map must be a function of two arrays, or None, got {shown(interval_map)}")
        self.posterior = posterior
        self._judging = isinstance(posterior, JudgingPosterior)  # asked once: it takes a while
        self.width = width if isinstance(width, TheoryWidth) else float(width)
        self.every: Every = every
        self.maximise = maximise
        self.guard = guard
        self.guaranteed = guaranteed
        self.interval_map = interval_map
        self.outliers: list[Outlier] = []
        self._tried: set[int] | None = None if posterior.observations else set()
        self._waiting: list[tuple[int, Array, float]] = []  # for the end of the episode
        self._predicted: dict[bytes, tuple[Array, Array]] = {}  # by context,
        self._tables: dict[bytes, tuple[Array, Array]] = {}  # and by several contexts that were asked for together,
        self._predicted_after = -1  # when so many measurements had been told

    @property
    def noise_variance(self) -> float:
        """Variance of the noise of a measurement, as the posterior now estimates it."""
        posterior = self.posterior
        return cast(JudgingPosterior, posterior).noise_variance if self._judging else posterior.prior.noise_variance

    def calibration(self) -> Calibration | None:
        """Return how well the posterior agrees with its measurements; None if it trusts them all."""
        if not self._judging:
            return None
        posterior = cast(JudgingPosterior, self.posterior)
        return Calibration(posterior.widening, len(posterior.doubted()), posterior.changes)

    def doubted(self) -> frozenset[Told] | None:
        """Return the stored measurements that the posterior does not trust; None if it trusts all."""
        return cast(JudgingPosterior, self.posterior).doubted() if self._judging else None

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
        shape = len(rows), self.posterior.prior.problem.n
        if self.interval_map is not None or not len(rows):  # a map is of one context
            return np.array([self._bounds(*self._predict(row), optimism) for row in rows]).reshape(shape)
        if len(rows) == 1:
            mean, std = self._predict(rows[0])
            return self._bounds(mean[None], std[None], optimism)
        together = rows.tobytes()
        if self.posterior.observations != self._predicted_after:
            self._forget(self.posterior.observations)
        if together not in self._tables:
            keys = [row.tobytes() for row in rows]
            self._predict_ahead(keys, rows)
            pairs = [self._predicted.get(key) or self._predict(row) for key, row in zip(keys, rows, strict=True)]
            table = np.array([mean for mean, _ in pairs]), np.array([std for _, std in pairs])
            self._tables[together] = table  # a rule that plans asks for bounds and for expected costs
        return self._bounds(*self._tables[together], optimism)

    def lowest(self, context: Any, allowed: NDArray[np.bool_] | None = None) -> Lowest:
        """Find the allowed action with the lowest bound, and say for how many actions the bound was computed.

        For more than 200,000 actions it looks only at those that may have the lowest bound, if the posterior can tell.

        Examples
        --------
        >>> import holdcourse as hc
        >>> from sklearn.gaussian_process.kernels import RBF
        >>> belief = hc.posterior(hc.Problem([0.0, 0.5, 1.0]), hc.Kernel(RBF(0.5), RBF(0.3)))
        >>> model = hc.costs.LowerBound(belief.condition(1, 0.2, -3.0), width=0.5)
        >>> model.lowest(0.2).action, model.lowest(0.2).evaluated
        (1, 3)
        """
        n, vector = self.posterior.prior.problem.n, context_vector(context)
        searched = n > SEARCHED and self.interval_map is None and not self.guaranteed
        if searched and vector.tobytes() not in self._predicted and has(self.posterior, SearchedPosterior):
            width = self.width.of(self.posterior) if isinstance(self.width, TheoryWidth) else self.width
            found = self.posterior.lowest(vector, width, -1.0 if self.maximise else 1.0, allowed)
            if found is not None:
                return cast(Lowest, found)
        costs = self.estimate(context).costs
        costs = costs if allowed is None else np.where(allowed, costs, np.inf)
        action = int(np.argmin(costs))
        return Lowest(action, float(costs[action]), n)

    def costs_of(self, contexts: ArrayLike, actions: NDArray[np.int64], optimism: float) -> Array:
        """Lower bounds of m actions in each of k contexts, with `optimism` times the width; (k, m)."""
        if self.interval_map is not None or not len(actions):  # a map may look at all actions together
            return self.costs_at_optimism(contexts, optimism)[:, actions]
        rows = context_rows(contexts)
        if self.posterior.observations != self._predicted_after:
            self._forget(self.posterior.observations)
        key = rows.tobytes() + b"of" + actions.tobytes()
        if key not in self._tables:  # as above: bounds and expected costs are both asked for
            self._tables[key] = predict_some(self.posterior, rows, actions)
        return self._bounds(*self._tables[key], optimism)

    def _predict_ahead(self, keys: list[bytes], rows: Array) -> None:
        """Predict several contexts at once, to be remembered, where that gives the same to the last bit."""
        if not (has(self.posterior, BatchPosterior) and self.posterior.predicts_alike):
            return
        if len(self._predicted) + len(rows) > REMEMBERED_PREDICTIONS:
            self._forget(self.posterior.observations)
        wanted = {key: k for k, key in enumerate(keys) if key not in self._predicted}
        if len(wanted) > 1:
            means, stds = self.posterior.predict_at(rows[list(wanted.values())])
            for array in (means, stds):  # kept for the next time they are asked
                array.setflags(write=False)
            self._predicted |= zip(wanted, zip(means, stds, strict=True), strict=True)

    def _forget(self, told: int) -> None:
        """Forget what was predicted, now that so many measurements were told."""
        self._predicted.clear()
        self._tables.clear()
        self._predicted_after = told

    def _predict(self, context: Array) -> tuple[Array, Array]:
        """The posterior's prediction; a rule that plans asks for the same contexts several times within a round.

        The posterior checks a context when it is predicted first; one that is remembered was checked.
        """
        told = self.posterior.observations
        if told != self._predicted_after or len(self._predicted) >= REMEMBERED_PREDICTIONS:
            self._forget(told)
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
        """Learn a measurement, now or at the end of the episode, and return its weight."""
        self.posterior.prior.problem.check_action(action)
        vector, y, weight = context_vector(context), check_measurement(measurement), 1.0
        if self._waiting:  # one posterior takes contexts of any length, but all of the same
            check_context(vector, len(self._waiting[0][1]))
        if self.guard is not None or self.every == "episode":
            mean, std = self.posterior.predict(vector)  # checks the context
            if self.guard is not None:
                spread = math.sqrt(float(std[action]) ** 2 + self.noise_variance)
                y, weight = self.guard.tamed(y, float(mean[action]), spread)
        require_squarable(y, "measurements")
        if self._tried is not None:
            self._tried.add(int(action))
        if self.every == "episode":
            self._waiting.append((int(action), vector, y))
        else:
            weight *= self._condition(int(action), vector, y)
        if weight < 1.0:
            self.outliers.append(Outlier(int(action), tuple(vector.tolist()), float(measurement), weight))
            del self.outliers[:-REPORTED_OUTLIERS]
        return weight

    def tried(self) -> frozenset[int] | None:
        """Return the actions that were measured; None if they are not all known."""
        return None if self._tried is None else frozenset(self._tried)

    def began_with(self, actions: Iterable[int]) -> None:
        """Say which actions were measured before the posterior was given to this model."""
        self._tried = {int(action) for action in actions}

    def price(self) -> Callable[[float], float] | None:
        """Return the function from a measurement to its cost, if the interval map has one."""
        return self.interval_map.cost_of if can(self.interval_map, PricedMap) else None

    def _condition(self, action: int, context: Array, y: float) -> float:
        posterior: Any = self.posterior
        if self._judging:
            return float(posterior.weigh(action, context, y))
        self.posterior.condition(action, context, y)
        return 1.0

    def new_episode(self) -> None:
        """Let the measurements of the episode into the bounds."""
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
        twin._tried = None if self._tried is None else set(self._tried)
        return twin

    def state(self) -> Arrays:
        """Return the posterior's arrays, the measurements that wait for the end of the episode, and the outliers."""
        arrays = prefixed("posterior.", self.posterior.state())
        outliers = [(o.action, o.context, o.measurement, o.weight) for o in self.outliers]
        return arrays | _columns(WAITING, self._waiting) | _columns(OUTLIERS, outliers)

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> LowerBound:
        """Take over what `state` of an equal model gave."""
        require_arrays(arrays, (*WAITING, *OUTLIERS), "a LowerBound")
        self.posterior.restore(under("posterior.", arrays))
        self._tried = None if self.posterior.observations else set()  # who goes on from a state knows by himself
        self._forget(-1)
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
        Posterior of the measured quantity.
    interval_map
        Function ``interval_map(low, high) -> (n,)`` that returns the least cost of each action if the quantity of every
        action lies between low and high, both (n,). It need not be monotone, and may consider all actions together.
        With low = high it returns the cost itself.
    width, options
        As in `LowerBound`.
    """
    return LowerBound(posterior, width, interval_map=interval_map, **options)


def _columns(names: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> Arrays:
    """Rows (action, context, numbers) as one array per field."""
    types = (np.int64, *(np.float64 for _ in names[1:]))
    return {name: np.array([row[k] for row in rows], dtype=types[k]) for k, name in enumerate(names)}
