"""Costs that need not be learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import flag
from holdcourse.costs.protocol import Array, Estimate, checked_costs, name_of
from holdcourse.errors import InvalidInput
from holdcourse.history import check_context, check_contexts, check_measurement
from holdcourse.named_arrays import Arrays
from holdcourse.problem import Problem


class KnownCosts:
    """The true costs, as shown each round: for baselines, and for problems where nothing needs to be learned.

    Parameters
    ----------
    costs_of
        ``costs_of(context) -> (n,)``, given a context vector, where the costs are a function of the context; else they
        must be shown each round.
    maximise
        What is shown are gains.
    """

    def __init__(
        self, problem: Problem, costs_of: Callable[[Any], ArrayLike] | None = None, *, maximise: bool = False
    ) -> None:
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
            raise InvalidInput("this policy needs the true costs of the round: pass costs=, one per action")
        if shown is None and self.costs_of is not None:
            shown = self.costs_of(check_context(context, None))
        what, sign = ("gains", -1.0) if self.maximise else ("costs", 1.0)
        costs = checked_costs(shown, self.problem.n, what, sign)
        return Estimate(costs, costs)

    def costs_at(self, contexts: ArrayLike) -> Array:
        """Costs in each of k contexts; only where they are a function of the context."""
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
