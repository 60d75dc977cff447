"""A policy as JSON: the function that made it, and its options.

A record of decisions and a policy's file contain the recipe. So anybody can check the record and run the policy without
the program that wrote it. History is not part of a recipe; what was learned from it is part of the state.

**Whose code runs.** A recipe names what made the policy: one of our functions, an entry point of an installed package,
or an import path such as ``mine.py:mine``. Whoever wrote the file has chosen that code, so `make` runs it only if its
caller names it under `trust`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from holdcourse.deciding import registry
from holdcourse.deciding.hedge import hedged
from holdcourse.deciding.policy import Policy
from holdcourse.errors import HoldcourseError, InvalidInput
from holdcourse.learning.confidence import OutlierGuard, TheoryWidth
from holdcourse.learning.kernels import Kernel, KernelSum
from holdcourse.movement.problem import Problem
from holdcourse.movement.tree import Tree

TOLD_IF_NONE = ("at_most",)  # None is not its default
MAPS = {"energy": "holdcourse.wind.physics:energy_costs"}  # of `interval_map`: what reads them, by their name
# What making a policy of values that nobody has checked may raise.
BROKEN = (ArithmeticError, ValueError, TypeError, LookupError, AttributeError, RecursionError, AssertionError)
OWN = "make it by its import path, hc.registry.make('mine.py:mine', problem, ...), so that it remembers how it was made"


def hedged_of(problem: Problem, *, policies: Sequence[Policy], patience: float) -> Policy:
    """Return the hedge of a recipe."""
    return hedged(policies, patience=patience)


def describe(policy: Policy) -> dict[str, Any]:
    """Return the recipe in JSON values; raise `InvalidInput` if a part of the policy exists only in Python."""
    if policy.made_by is None:
        raise InvalidInput(
            f"it is not known what made {policy.name}, so only your own Python code can make it again; {OWN}"
        )
    name, options = policy.made_by
    known = [*registry.names("problem"), *registry.names("recipe")]
    if not (name in known or is_path(name) or registry.is_installed(name)):
        raise InvalidInput(
            f"{policy.name} was made by {name!r}, which is not an entry point, an import path or one of "
            f"{', '.join(known)}; only your own Python code can make it again"
        )
    given = {
        key: _encoded(key, value)
        for key, value in options.items()
        if key != "history" and (value is not None or key in TOLD_IF_NONE)
    }
    return {"policy": name, "problem": _described(policy.problem), "options": given}


def make(recipe: Mapping[str, Any], trust: Collection[str] = (), **changes: Any) -> Policy:
    """Make the policy of a recipe; `changes` replace options.

    Code of an import path runs only if `trust` names it.
    """
    try:
        return _made(recipe, Problem.from_data(recipe["problem"]), trust, changes)
    except HoldcourseError:
        raise
    except BROKEN as error:
        words = f"no policy can be made from this ({type(error).__name__}: {error}); save the policy again"
        raise InvalidInput(words) from error


def _made(recipe: Mapping[str, Any], problem: Problem, trust: Collection[str], changes: Mapping[str, Any]) -> Policy:
    name = recipe["policy"]
    if is_path(name) and name not in trust:
        raise InvalidInput(
            f"this policy is made by {name!r}, code that is not part of holdcourse and would be run; read it, and if "
            f"you trust it, give trust={name!r}"
        )
    options = {key: _decoded(key, value) for key, value in recipe["options"].items()} | dict(changes)
    for part in ("baseline", "policy"):
        if isinstance(options.get(part), Mapping):
            options[part] = _made(options[part], problem, trust, {})
    if name == "hedged":
        options["policies"] = [_made(expert, problem, trust, {}) for expert in options["policies"]]
    kind: registry.Kind = "recipe" if name in registry.names("recipe") else "problem"
    entry = registry.entry_of(name, kind)
    made = entry.maker(kind)(problem, **options)
    if not isinstance(made, Policy):
        raise InvalidInput(f"{name!r} returned {made!r}; it must return a holdcourse Policy")
    return made if made.made_by is not None else replace(made, made_by=(name, options))


def code_in(recipe: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the import paths in a recipe, those of experts and of a baseline included, however deep they are."""
    paths, parts = set[str](), list[Any]([recipe])
    while parts:
        part = parts.pop()
        if isinstance(part, Mapping):
            name = part.get("policy")
            if isinstance(name, str) and is_path(name):
                paths.add(name)
            parts += part.values()
        elif isinstance(part, list):
            parts += part
    return tuple(sorted(paths))


def is_path(name: str) -> bool:
    """Return whether a name is an import path, so of code that is not ours."""
    return ":" in name and name not in registry.TABLE


def _described(problem: Problem) -> dict[str, Any]:
    described = problem.describe()
    try:
        json.dumps(described["labels"])
    except (TypeError, ValueError):
        label = next(each for each in described["labels"] if not isinstance(each, str | int | float))
        raise InvalidInput(
            f"the label {label!r} cannot be written to a file; give labels that are text or numbers"
        ) from None
    return described


def _encoded(key: str, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, Policy):  # a baseline, or what is on trial
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
    if key == "interval_map" and callable(getattr(value, "to_data", None)) and value.to_data()["map"] in MAPS:
        return value.to_data()
    if callable(value):
        raise InvalidInput(f"{key} is a function, which cannot be written to a file")
    if isinstance(value, Mapping):
        return {str(name): _encoded("", part) for name, part in value.items()}
    if isinstance(value, list | tuple) and any(isinstance(part, str | Mapping | list | tuple) for part in value):
        return [_encoded("", part) for part in value]
    try:
        return np.asarray(value, dtype=np.float64).tolist()
    except (TypeError, ValueError):
        raise InvalidInput(f"{key or 'an option'} is {value!r}, which cannot be written to a file") from None


def _without_problem(policy: Policy) -> dict[str, Any]:
    made = describe(policy)
    return {"policy": made["policy"], "options": made["options"]}


def _decoded(key: str, value: Any) -> Any:
    if key == "interval_map" and isinstance(value, Mapping):
        return registry.load(MAPS[value["map"]])(value)
    if key == "kernel" and value != "auto":
        return Kernel.from_json(value)
    if key == "tree" and isinstance(value, str):
        return Tree.from_json(value)
    if key == "guard" and isinstance(value, Mapping):
        return OutlierGuard(**value)
    if key == "width" and isinstance(value, Mapping):
        return TheoryWidth(**value)
    return value
