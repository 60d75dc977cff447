"""Plans for very many settings: one plan for each group of knobs, on what the group adds to the cost.

Costs are a sum over groups (`holdcourse.learning.additive`) and moves cost the sum of what each group's turn costs.
Then the best plan for all is the best plan of each, and a `Plan` on the group's own settings finds it. Where costs are
not quite a sum, this is coordinate descent with a model that cannot see what it misses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.archive import prefixed, under
from holdcourse.deciding.planning.beliefs import Closeness
from holdcourse.deciding.planning.plan import Forecasts, Plan
from holdcourse.deciding.policy import Policy, named
from holdcourse.deciding.rules import Choice, RuleState, View
from holdcourse.errors import InvalidInput, shown
from holdcourse.learning.additive import AdditiveCosts
from holdcourse.learning.costs import Costs
from holdcourse.movement.knobs import Knobs
from holdcourse.movement.steps import longest_step

Array: TypeAlias = NDArray[np.float64]

WIDTH = 0.5  # of the bounds, in deviations


@runtime_checkable
class GroupedCosts(Costs, Protocol):
    """Costs that are a sum over groups of knobs."""

    def of_group(self, group: int, places: tuple[int, ...]) -> Costs:
        """What one group adds while the others are at these places."""
        ...


@dataclass(frozen=True, eq=False)
class KnobPlan:
    """A plan for each group of knobs. Options as in `Plan`; `max_step` by the name of a knob."""

    problem: Knobs
    closeness: Closeness
    discount: float = 0.97
    forecasts: Forecasts = "robust"
    max_step: Any = None

    @property
    def asks(self) -> tuple[type, ...]:
        """What the cost model must have."""
        return (GroupedCosts,)

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """The plan of each group."""
        longest = longest_step(self.problem, self.max_step)
        steps = dict(zip(self.problem.axis_names, longest.size, strict=True)) if isinstance(longest.size, tuple) else {}
        found = []
        for group in self.problem.groups:
            own = tuple(steps[name] for name in group.axis_names or ()) if steps else None
            found.append(Plan(group, self.closeness, discount=self.discount, forecasts=self.forecasts, max_step=own))
        return tuple(found)

    def begin(self, action: int, seed: int, round: int = 0) -> RuleState:  # noqa: A002
        """Start with nothing known of the contexts."""
        return RuleState(int(action), round, seed, {})

    def resume(self, state: RuleState, action: int) -> RuleState:
        """Go on elsewhere with everything learned of the contexts."""
        return RuleState(int(action), state.round, state.seed, state.arrays)

    def step(self, state: RuleState, view: View) -> Choice:
        """Let each group's plan choose."""
        model: Any = view.model
        probabilities = np.zeros(self.problem.entries)
        arrays: dict[str, Array] = {}
        chosen = []
        places = self.problem.within_groups(state.action)
        for number, (plan, part, place) in enumerate(zip(self.plans, self.problem.parts, places, strict=True)):
            own = RuleState(place, state.round, state.seed, under(f"group{number}.", state.arrays))
            seen = View(
                view.costs[part], view.context, view.allowed[part], view.forecast, model.of_group(number, places)
            )
            choice = plan.step(own, seen)
            chosen.append(choice.action)
            probabilities[part.start + choice.action] = 1.0
            arrays |= prefixed(f"group{number}.", choice.state.arrays)
        action = self.problem.together(chosen)
        return Choice(RuleState(action, state.round + 1, state.seed, arrays), probabilities)

    def describe(self) -> dict[str, Any]:
        """Return what it is, in JSON values."""
        step: Any = self.max_step
        return {
            "rule": "KnobPlan",
            "closeness": self.closeness.describe(),
            "discount": self.discount,
            "forecasts": self.forecasts,
            "max_step": dict(step) if isinstance(step, Mapping) else step,
            "gives_up": self.problem.describe_in_words(),
        }


def knob_planner(
    problem: Knobs,
    *,
    context_bounds: ArrayLike | None = None,
    context_scale: Any = None,
    period: Any = None,
    noise_std: float | None = None,
    prior_mean: float | None = None,
    spread: float | None = None,
    width: float = WIDTH,
    discount: float = 0.97,
    forecasts: Forecasts = "robust",
    max_step: Any = None,
    maximise: bool = False,
) -> Policy:
    """Plan many knobs, group by group, on a cost that is learned as a sum over the groups.

    It ignores effects that knobs of different groups have only together: see `knobs`. Unlike `recommended`, it makes no
    promise against staying.

    Parameters
    ----------
    problem
        As `knobs` makes it.
    context_bounds
        The box that contexts come from, a (low, high) pair for each number; None: there are no contexts. Contexts
        beyond it count as its edge.
    context_scale, period, discount, forecasts
        As in `planner`; a `period` is for the plan, and what is learned takes contexts as they are.
    noise_std, prior_mean, spread
        Standard deviation of a measurement, expected cost, and standard deviation of the cost over the settings of one
        group; what is not given is fitted.
    width
        Width of the bounds, in standard deviations; a wider bound tries more.
    max_step
        Longest single move of some knobs, by name.
    maximise
        Whether measurements are gains instead of costs.

    Examples
    --------
    >>> import holdcourse as hc
    >>> many = hc.knobs(**{f"k{i}": hc.knob(range(10), per_step=0.1) for i in range(10)})
    >>> policy = hc.knob_planner(many, context_bounds=(0.0, 1.0))
    >>> controller = hc.Controller(policy, start={f"k{i}": 5 for i in range(10)})
    >>> decision = controller.ask(context=0.3)
    >>> controller.tell(decision.id, 7.0)
    >>> len(decision.value)
    10
    """
    if not isinstance(problem, Knobs):
        raise InvalidInput(f"knob_planner is for hc.knobs(...), got {shown(problem)}; use hc.planner for it")
    rule = KnobPlan(problem, Closeness.of(context_scale, period), discount, forecasts, max_step)
    _ = rule.plans  # so that what is wrong is said now
    learned: dict[str, Any] = {
        "context_bounds": context_bounds,
        "noise_std": noise_std,
        "prior_mean": prior_mean,
        "spread": spread,
    }
    costs = AdditiveCosts(problem, **learned, width=width, maximise=maximise)
    options = {
        **learned,
        "context_scale": context_scale,
        "period": period,
        "width": width,
        "discount": discount,
        "forecasts": forecasts,
        "max_step": max_step,
        "maximise": maximise,
    }
    return named("knob-planner", rule, costs, problem, options)
