"""What a policy is: a rule and a cost model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from holdcourse.costs import CostModel
from holdcourse.problem import Problem
from holdcourse.rules import Rule


class RuleMaker(Protocol):
    """Makes the rule of a run from the run's seed; for rules that hold something random, such as a tree."""

    def __call__(self, seed: int) -> Rule:
        """The rule of the run with this seed."""
        ...

    def describe(self) -> dict[str, Any]:
        """What it makes, in JSON values."""
        ...


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

    def rule_for(self, seed: int) -> Rule:
        """The rule of the run with this seed."""
        return self.rule(seed) if callable(self.rule) else self.rule

    @cached_property
    def fingerprint(self) -> str:
        """Equal for equal policies; a saved state can be loaded only into an equal one."""
        parts = {"problem": self.problem.fingerprint, "rule": self.rule.describe(), "costs": self.costs.describe()}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]

    def __repr__(self) -> str:
        if self.explanation:
            return f"Policy({self.explanation.partition('. ')[0]}, {self.problem!r})"
        return f"Policy({self.name}: {self.rule.describe()} on {self.costs.describe()['model']}, {self.problem!r})"
