"""A policy as JSON: which function made it, with which options.

A record of decisions holds it, so that anybody can check the record without the program that wrote it.

History is not part of a recipe; what was learned from it is part of the state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from holdcourse.deciding import registry
from holdcourse.deciding.hedge import hedged
from holdcourse.deciding.policy import Policy
from holdcourse.errors import InvalidInput
from holdcourse.learning.confidence import OutlierGuard, TheoryWidth
from holdcourse.learning.kernels import Kernel, KernelSum
from holdcourse.movement.problem import Problem
from holdcourse.movement.tree import Tree

TOLD_IF_NONE = ("at_most",)  # None is not its default


def hedged_of(problem: Problem, *, policies: Sequence[Mapping[str, Any]], patience: float) -> Policy:
    """Return the hedge of a recipe, whose experts are recipes without a problem of their own."""
    return hedged([make({**expert, "problem": problem.describe()}) for expert in policies], patience=patience)


def describe(policy: Policy) -> dict[str, Any]:
    """Return the recipe, in JSON values; `InvalidInput` where a part is known to Python only."""
    known = registry.names("problem")
    if policy.made_by is None or policy.made_by[0] not in known:
        raise InvalidInput(f"{policy.name} was not made by one of {', '.join(known)}; only Python can make it again")
    name, options = policy.made_by
    given = {
        key: _encoded(key, value)
        for key, value in options.items()
        if key != "history" and (value is not None or key in TOLD_IF_NONE)
    }
    return {"policy": name, "problem": policy.problem.describe(), "options": given}


def make(recipe: Mapping[str, Any], **changes: Any) -> Policy:
    """Return the policy of a recipe; `changes` replace options."""
    maker = registry.entry_of(recipe["policy"], "problem").maker()
    options = {key: _decoded(key, value) for key, value in recipe["options"].items()} | changes
    if isinstance(options.get("baseline"), Mapping):
        options["baseline"] = make({**options["baseline"], "problem": recipe["problem"]})
    made = maker(Problem.from_data(recipe["problem"]), **options)
    assert isinstance(made, Policy)
    return made


def _encoded(key: str, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, Policy):  # a baseline
        return _without_problem(value)
    if isinstance(value, Kernel | KernelSum | Tree):
        return value.to_json()
    if key == "policies":  # the experts of a hedge
        return [_without_problem(expert) for expert in value]
    if isinstance(value, TheoryWidth | OutlierGuard):
        return asdict(value)
    if isinstance(value, np.generic):
        value = value.item()  # a whole number must stay one
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple) and None in value:  # a period for some axes only
        return list(value)
    if callable(value):
        raise InvalidInput(f"{key} is a function, which only Python can make again")
    return np.asarray(value, dtype=np.float64).tolist()


def _without_problem(policy: Policy) -> dict[str, Any]:
    made = describe(policy)
    return {"policy": made["policy"], "options": made["options"]}


def _decoded(key: str, value: Any) -> Any:
    if key == "kernel" and value != "auto":
        return Kernel.from_json(value)
    if key == "tree":
        return Tree.from_json(value)
    if key == "guard":
        return OutlierGuard(**value)
    if key == "width" and isinstance(value, Mapping):
        return TheoryWidth(**value)
    return value
