"""What a cost model is, and the checks that costs from outside pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.errors import InvalidInput
from holdcourse.named_arrays import Arrays

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


class CostModel(Protocol):
    """Turns context and data into costs. See `holdcourse.testing.check_cost_model`."""

    @property
    def needs_costs(self) -> bool:
        """Whether `estimate` must be shown the true costs."""
        ...

    def estimate(self, context: Any, shown: ArrayLike | None = None) -> Estimate:
        """Costs of every action in this context; `shown` are the true ones, for models that know them."""
        ...

    def costs_at(self, contexts: ArrayLike) -> Array:
        """Costs in each of k contexts, for rules that plan; shape (k, n)."""
        ...

    def learn(self, action: int, context: Any, measurement: float) -> float:
        """Take in a measurement; returns its weight: 1, or less if it was an outlier."""
        ...

    def new_episode(self) -> None:
        """An episode has ended."""
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
    return bool(getattr(model, "maximise", False))


def checked_costs(given: Any, n: int, what: str, sign: float = 1.0) -> Array:
    """Costs from outside as a vector (n,); those of forbidden actions are +inf."""
    try:
        costs = sign * np.array(given, dtype=np.float64) + 0.0  # a gain of 0 costs 0, not -0
    except (TypeError, ValueError):
        costs = np.full(n, np.nan)
    if costs.shape != (n,) or not (costs > -np.inf).all():
        raise InvalidInput(f"{what} must be {n} numbers, one per action, {sign * np.inf} to forbid one; got {given!r}")
    return costs
