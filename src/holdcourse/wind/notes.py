"""What a learning policy believed in every round, kept while it flies: the material of an explanation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

import holdcourse as hc
from holdcourse.costs import CostModel, Costs, Estimate, ExpertCosts, ForecastCosts, OptimisticCosts, maximises

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Reasons:
    """Beliefs at the altitude chosen and at the one before; one entry per round.

    Attributes
    ----------
    wind, wind_std
        Expected wind speed at the altitude chosen and its deviation, m/s.
    shortfall, shortfall_before
        Expected energy made less than at the altitude that is expected to be best, kWh.
    bound, bound_before
        The least shortfall that the bounds on the wind allow: what the rule minimises.
    """

    wind: Array
    wind_std: Array
    shortfall: Array
    shortfall_before: Array
    bound: Array
    bound_before: Array


class EstimateTrace:
    """Collects the estimates of a run, in the order of the rounds."""

    def __init__(self) -> None:
        self._estimates: list[Estimate] = []

    def add(self, estimate: Estimate) -> None:
        """Keep what the model said about a round."""
        self._estimates.append(estimate)

    def reasons(self, before: Indices, actions: Indices) -> Reasons | None:
        """What mattered for these decisions; None if the model learns nothing, or was asked otherwise than by round."""
        if len(self._estimates) != len(actions) or any(e.mean is None or e.std is None for e in self._estimates):
            return None
        rounds = np.arange(len(actions))
        mean, std, expected, bound = (
            np.array([getattr(estimate, name) for estimate in self._estimates])
            for name in ("mean", "std", "expected", "costs")
        )
        return Reasons(
            wind=mean[rounds, actions],
            wind_std=std[rounds, actions],
            shortfall=expected[rounds, actions],
            shortfall_before=expected[rounds, before],
            bound=bound[rounds, actions],
            bound_before=bound[rounds, before],
        )


class TracedCosts:
    """A cost model that works as the one it wraps and keeps every estimate."""

    def __init__(self, model: CostModel, trace: EstimateTrace) -> None:
        self._model = model
        self._trace = trace

    @property
    def needs_costs(self) -> bool:
        """Whether the model must be shown the true costs."""
        return self._model.needs_costs

    @property
    def maximise(self) -> bool:
        """Whether the model is told gains: what it is shown depends on it."""
        return maximises(self._model)

    def estimate(self, context: Any, shown: ArrayLike | None = None) -> Estimate:
        """Estimate as the model does, and keep it."""
        estimate = self._model.estimate(context, shown)
        self._trace.add(estimate)
        return estimate

    def costs_at(self, contexts: ArrayLike) -> Array:
        """Do as the model does."""
        return self._model.costs_at(contexts)

    def learn(self, action: int, context: Any, measurement: float) -> float:
        """Do as the model does."""
        return self._model.learn(action, context, measurement)

    def new_episode(self) -> None:
        """Do as the model does."""
        self._model.new_episode()

    def copy(self) -> TracedCosts:
        """An independent twin that adds to the same trace: a run works on a copy."""
        return type(self)(self._model.copy(), self._trace)

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that the model has learned, as arrays."""
        return self._model.state()

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> TracedCosts:
        """Do as the model does."""
        self._model.restore(arrays)
        return self

    def describe(self) -> dict[str, Any]:
        """What the model is, in JSON values."""
        return self._model.describe()


class _Optimistic(TracedCosts):
    def costs_at_optimism(self, contexts: ArrayLike, optimism: float) -> Array:
        """Do as the model does."""
        assert isinstance(self._model, OptimisticCosts)
        return self._model.costs_at_optimism(contexts, optimism)


class _Forecast(TracedCosts):
    def costs_at_outlook(self, contexts: ArrayLike, outlook: hc.Outlook) -> Array:
        """Do as the model does."""
        assert isinstance(self._model, ForecastCosts)
        return self._model.costs_at_outlook(contexts, outlook)


class _Experts(TracedCosts):
    def of_expert(self, expert: int) -> Costs | None:
        """Do as the model does."""
        assert isinstance(self._model, ExpertCosts)
        return self._model.of_expert(expert)

    def expected_at(self, contexts: ArrayLike) -> Array | None:
        """Do as the model does."""
        assert isinstance(self._model, ExpertCosts)
        return self._model.expected_at(contexts)


# What only some models can do: the one that traces can do it exactly where the model can.
_ABILITIES: dict[type, type[TracedCosts]] = {
    OptimisticCosts: _Optimistic,
    ForecastCosts: _Forecast,
    ExpertCosts: _Experts,
}


def traced(policy: hc.Policy) -> tuple[hc.Policy, EstimateTrace]:
    """The same policy, and the trace that its next run will fill."""
    trace = EstimateTrace()
    able = [wrapper for ability, wrapper in _ABILITIES.items() if isinstance(policy.costs, ability)]
    wrapper: type[TracedCosts] = type("TracedCosts", (*able, TracedCosts), {})
    return replace(policy, costs=wrapper(policy.costs, trace)), trace
