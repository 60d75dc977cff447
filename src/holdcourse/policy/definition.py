"""What a policy is: a rule and a cost model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from holdcourse.costs import CostModel
from holdcourse.errors import InvalidInput
from holdcourse.problem import Problem
from holdcourse.rules import DemandingRule, Rule, RuleMaker


@dataclass(frozen=True, eq=False)
class Policy:
    """A rule and a cost model.

    Parameters
    ----------
    name
        How it is called in tables.
    rule
        A rule, or a `RuleMaker` for one that depends on the run's seed.
    costs
        The cost model as it is before the first round. Each run works on a copy.
    made_by
        Name and options of the function that made it, for those that are made by name; see `holdcourse.recipe`.
    explanation
        What was chosen and why, in sentences, for policies that choose among others; the first one is the shortest.

    Examples
    --------
    >>> import holdcourse as hc
    >>> problem = hc.Problem([0.0, 0.5, 1.0])
    >>> mine = hc.Policy("cheapest", hc.rules.Greedy(problem), hc.costs.KnownCosts(problem), problem)
    >>> mine.fingerprint == hc.minc_known(problem).fingerprint  # the same rule on the same costs
    True
    """

    name: str
    rule: Rule | RuleMaker
    costs: CostModel
    problem: Problem
    made_by: tuple[str, Mapping[str, Any]] | None = None
    explanation: str = ""

    def __post_init__(self) -> None:
        asked = self.rule.asks if isinstance(self.rule, DemandingRule) else ()
        missing = [protocol.__name__ for protocol in asked if not isinstance(self.costs, protocol)]
        if missing:
            raise InvalidInput(
                f"the rule of {self.name} needs a cost model that has {missing[0]}, and {type(self.costs).__name__} "
                f"has not; see holdcourse.costs.{missing[0]} for what is missing"
            )

    def rule_for(self, seed: int) -> Rule:
        """The rule of the run with this seed."""
        return self.rule.rule_for(seed) if isinstance(self.rule, RuleMaker) else self.rule

    @cached_property
    def fingerprint(self) -> str:
        """Equal for equal policies; a saved state can be loaded only into an equal one."""
        parts = {"problem": self.problem.fingerprint, "rule": self.rule.describe(), "costs": self.costs.describe()}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]

    def __repr__(self) -> str:
        if self.explanation:
            return f"Policy({self.explanation.partition('. ')[0]}, {self.problem!r})"
        return f"Policy({self.name}: {self.rule.describe()} on {self.costs.describe()['model']}, {self.problem!r})"
