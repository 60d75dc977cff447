"""What a cost model is and what it may be asked, and the checks that costs from outside pass.

Every model is a `CostModel`. What only some can do has a protocol of its own, which is looked for with `isinstance`:

==================  ===================================  ==============================================================
protocol            method                               who asks
==================  ===================================  ==============================================================
`Costs`             ``costs_at(contexts)``               rules that plan, of every model
`OptimisticCosts`   ``costs_at_optimism(contexts, x)``   rules that plan with bounds and with expected costs
`ForecastCosts`     ``costs_at_outlook(contexts, o)``    `Lookahead` with forecasts of what will be measured
`ExpertCosts`       ``of_expert(j)``                     `Hedged`, whose experts have models of their own
`Gains`             ``maximise``                         whoever must know whether measurements are gains
==================  ===================================  ==============================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.errors import InvalidInput
from holdcourse.named_arrays import Arrays

if TYPE_CHECKING:
    from holdcourse.planning.outlook import Outlook

Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimate:
    """What a model says about one round. All arrays have shape (n,).

    Attributes
    ----------
    costs
        What the rule minimises: lower bounds, or the costs themselves where they are known.
    expected
        Expected service cost of each action.
    mean, std
        Of the measured quantity, where it is learned.
    """

    costs: Array
    expected: Array
    mean: Array | None = None
    std: Array | None = None


class Costs(Protocol):
    """What a rule may ask of every cost model."""

    def costs_at(self, contexts: ArrayLike) -> Array:
        """Costs in each of k contexts; shape (k, n)."""
        ...


@runtime_checkable
class OptimisticCosts(Costs, Protocol):
    """Costs that are hopeful where they are uncertain, and can be asked how much of that is hope."""

    def costs_at_optimism(self, contexts: ArrayLike, optimism: float) -> Array:
        """Costs with `optimism` times the usual hope, (k, n): 1 gives those of `costs_at`, 0 expected costs."""
        ...


@runtime_checkable
class ForecastCosts(Costs, Protocol):
    """Costs that can take forecasts of what will be measured into account."""

    def costs_at_outlook(self, contexts: ArrayLike, outlook: Outlook) -> Array:
        """Costs given what forecasts say of each of the k contexts, (k, n)."""
        ...


@runtime_checkable
class ExpertCosts(Costs, Protocol):
    """Costs as each of several experts sees them."""

    def of_expert(self, expert: int) -> Costs | None:
        """The costs of one expert; None where these are the ones that are shown in the round."""
        ...

    def expected_at(self, contexts: ArrayLike) -> Array | None:
        """Expected costs by which experts are judged, (k, n); None where these are the ones shown in the round."""
        ...


@runtime_checkable
class Gains(Protocol):
    """A model that says whether what it is told and shown are gains instead of costs."""

    @property
    def maximise(self) -> bool:
        """Whether they are gains."""
        ...


@runtime_checkable
class CostModel(Costs, Protocol):
    """Turns context and data into costs. See `holdcourse.testing.check_cost_model`."""

    @property
    def needs_costs(self) -> bool:
        """Whether `estimate` must be shown the true costs."""
        ...

    def estimate(self, context: Any, shown: ArrayLike | None = None) -> Estimate:
        """Costs of every action in this context; `shown` are the true ones, for models that know them."""
        ...

    def learn(self, action: int, context: Any, measurement: float) -> float:
        """Take in a measurement; returns its weight: 1, or less if it was an outlier."""
        ...

    def new_episode(self) -> None:
        """Take note that an episode has ended."""
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
        """What the model is, in JSON values; equal models give equal descriptions."""
        ...


def name_of(function: Any) -> str:
    """How a function of the user's is called in a record."""
    return str(getattr(function, "name", getattr(function, "__qualname__", type(function).__qualname__)))


def maximises(model: CostModel) -> bool:
    """Whether a model is told gains."""
    return isinstance(model, Gains) and bool(model.maximise)


def costs_with_optimism(model: CostModel, contexts: ArrayLike, optimism: float) -> Array:
    """Costs at another optimism, (k, n); a model that cannot be asked for one gives the costs that it expects."""
    if isinstance(model, OptimisticCosts):
        return model.costs_at_optimism(contexts, optimism)
    return np.array([model.estimate(context).expected for context in np.atleast_2d(contexts)])


def checked_costs(given: Any, n: int, what: str, sign: float = 1.0) -> Array:
    """Costs from outside as a vector (n,); those of forbidden actions are +inf."""
    try:
        costs = sign * np.array(given, dtype=np.float64) + 0.0  # a gain of 0 costs 0, not -0
    except (TypeError, ValueError):
        costs = np.full(n, np.nan)
    if costs.shape != (n,) or not (costs > -np.inf).all():
        raise InvalidInput(f"{what} must be {n} numbers, one per action, {sign * np.inf} to forbid one; got {given!r}")
    return costs
