"""A policy at work: the three steps of every round, which `simulate` and a `Controller` take alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.archive import Arrays, prefixed, under
from holdcourse.checks import checked_seed
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.rules import Choice, Greedy, RuleState, TakingTurns, Turn, View, episode_begun, resumed
from holdcourse.errors import InvalidInput, NoActionLeft
from holdcourse.errors import shown as shown_value
from holdcourse.learning.costs import Estimate, LowestCosts, can


class Pilot:
    """A policy at work: the rule's state and what the model has learned.

    Every round takes the same three steps: `look` and `decide`, which change nothing, then `accept` the choice;
    and `learn` what was measured.
    """

    def __init__(self, policy: Policy, start: int, seed: int) -> None:
        policy.problem.check_action(start)
        seed = checked_seed(seed)
        self.policy = policy
        self.rule = policy.rule_for(seed)
        self.model = policy.costs.copy()
        self.state: RuleState = self.rule.begin(start, seed)

    def look(
        self,
        context: Any,
        allowed: NDArray[np.bool_] | None = None,
        forecast: Any = None,
        shown: ArrayLike | None = None,
    ) -> tuple[Estimate, View]:
        """Return the model's estimates for this context, and the view that the rule gets."""
        estimate = self.model.estimate(context, shown)
        costs = estimate.costs if allowed is None else np.where(allowed, estimate.costs, np.inf)
        allowed = np.isfinite(costs)  # a model may forbid actions too
        if not self.policy.problem.any_permitted(allowed):
            raise NoActionLeft(
                "no action is left: every allowed action has an infinite cost; allow at least one with a finite cost"
            )
        return estimate, View(costs, context, allowed, forecast, self.model)

    def decide(self, view: View, at: int | None = None) -> Choice:
        """Return the rule's choice; asked again, it chooses the same. With `at`: as if it had been moved there."""
        choice = self.rule.step(self.state if at is None else resumed(self.rule, self.state, at), view)
        self._check(choice)
        return choice

    def _check(self, choice: Any) -> None:
        """Raise unless a rule, which may be a user's own, gave a choice among these actions."""
        problem = self.policy.problem
        if isinstance(choice, Choice) and type(choice.action) is int and 0 <= choice.action < problem.n:
            if np.shape(choice.probabilities) == (problem.entries,):
                return
            given: Any = np.shape(choice.probabilities)
            wrong = f"probabilities of shape ({problem.entries},)"
        elif isinstance(choice, Choice):
            given, wrong = choice.action, f"an action from 0 to {problem.n - 1}, a whole number"
        else:
            given, wrong = choice, "a Choice(state, probabilities)"
        raise InvalidInput(f"step of the rule {type(self.rule).__name__} must return {wrong}, got {shown_value(given)}")

    def choose(
        self,
        context: Any,
        allowed: NDArray[np.bool_] | None = None,
        forecast: Any = None,
        shown: ArrayLike | None = None,
    ) -> Choice:
        """Look and decide without keeping the estimates; for a greedy rule only the lowest cost is computed."""
        if shown is None and isinstance(self.rule, Greedy) and can(self.model, LowestCosts):
            found = self.model.lowest(context, allowed)
            if np.isfinite(found.cost):  # else none is left, which `look` says
                return self.rule.take(self.state, found.action)
        _, view = self.look(context, allowed, forecast, shown)
        return self.decide(view)

    def accept(self, choice: Choice) -> None:
        """Continue from the choice."""
        self.state = choice.state

    def learn(self, action: int, context: Any, measurement: float, turn: Turn | None = None) -> float | None:
        """Learn a measurement and return its weight; None if a trial keeps it from the policy.

        `turn` is the turn of the round that was measured.
        """
        if turn is not None and not turn.heard:
            assert isinstance(self.rule, TakingTurns)  # it gave the turn
            return self.rule.learn_alone(self.model, turn.arm, action, context, measurement)
        return self.model.learn(action, context, measurement)

    def move_to(self, action: int) -> None:
        """Start again at the action to which somebody else moved the machine; what was learned stays."""
        self.state = resumed(self.rule, self.state, action)

    def new_episode(self, start: int) -> None:
        """End the episode; the next one begins at `start`."""
        self.model.new_episode()
        self.state = episode_begun(self.rule, self.state, start)

    def arrays(self) -> Arrays:
        """Return everything that changes, as arrays."""
        state = self.state
        place = {"rule": np.array([state.action, state.round], dtype=np.int64)}
        return prefixed("rule.", state.arrays) | place | prefixed("model.", self.model.state())

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the arrays that `arrays` of a pilot with the same policy and seed returned."""
        action, rounds = (int(number) for number in arrays["rule"])
        remembered = {name: np.array(array) for name, array in under("rule.", arrays).items()}
        self.model.restore(under("model.", arrays))
        self.state = RuleState(action, rounds, self.state.seed, remembered)
