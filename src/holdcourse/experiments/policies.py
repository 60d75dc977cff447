"""Policies by name: those of the paper, and a user's own by entry point or import path."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from holdcourse import policy as policies
from holdcourse.errors import InvalidInput
from holdcourse.planning import planner, planner_known
from holdcourse.policy import Policy
from holdcourse.problem import Problem
from holdcourse.recommendation import recommended

ENTRY_POINTS = "holdcourse.policies"
LEARNING: Mapping[str, Callable[..., Policy]] = {
    "gp-md": policies.gp_md,
    "cgp-lcb": policies.cgp_lcb,
    "proximal-lcb": policies.proximal_lcb,
    "planner": planner,
    "recommended": recommended,
}
OWN_WIDTH = ("planner", "recommended")  # the width of the paper's bounds is not theirs
KNOWING: Mapping[str, Callable[..., Policy]] = {
    "md-known": policies.md_known,
    "minc-known": policies.minc_known,
    "stationary": policies.stationary,
    "planner-known": planner_known,
}


def make_policy(
    name: str, problem: Problem, learning: Mapping[str, Any], options: Mapping[str, Any], source: str | None = None
) -> Policy:
    """The policy of this name.

    Parameters
    ----------
    learning
        What a learner knows: kernel, noise and so on. Given to those of ours that learn, and to a user's own where its
        options say ``learning = true``.
    options
        Of this policy alone.
    source
        Import path of a user's own, see `find`; default: the name is one of ours, or an entry point.
    """
    options = dict(options)
    if source is None and name in OWN_WIDTH:
        learning = {key: value for key, value in learning.items() if key != "width"}
    if source is None and name in LEARNING:
        return LEARNING[name](problem, **{**learning, **options})
    if source is None and name in KNOWING:
        return KNOWING[name](problem, **options)
    wants_learning = options.pop("learning", False)
    made = find(name if source is None else source)(problem, **{**(learning if wants_learning else {}), **options})
    if not isinstance(made, Policy):
        raise InvalidInput(f"policy {name!r}: {source or 'its entry point'} made a {type(made).__name__}, no Policy")
    return made


def check_policy_name(name: str, source: str | None = None) -> None:
    """Raise unless there is such a policy."""
    if source is not None or (name not in LEARNING and name not in KNOWING):
        find(name if source is None else source)


def runs_code(name: str, source: str | None = None) -> bool:
    """Whether this policy is code that is not ours: of an import path, or of an entry point that is installed."""
    if source is not None:
        return True
    return name not in LEARNING and name not in KNOWING and bool(entry_points(group=ENTRY_POINTS, name=name))


def find(source: str) -> Callable[..., Any]:
    """What an import path names: ``package.module:name``, ``folder/file.py:name``, or an entry point's name."""
    module_name, colon, name = source.rpartition(":")
    if not colon:
        for entry in entry_points(group=ENTRY_POINTS, name=source):
            return _callable(entry.load(), source)
        known = ", ".join([*LEARNING, *KNOWING])
        raise InvalidInput(
            f"policy {source!r} is not known; there are {known}, entry points in the group {ENTRY_POINTS!r}, "
            "and import paths such as 'my_package.my_module:my_policy'"
        )
    module = _from_file(Path(module_name)) if module_name.endswith(".py") else _from_package(module_name, source)
    if not hasattr(module, name):
        raise InvalidInput(f"{source!r}: {module_name} has no {name!r}")
    return _callable(getattr(module, name), source)


def _from_package(module_name: str, source: str) -> Any:
    try:
        return importlib.import_module(module_name)
    except ImportError as error:
        raise InvalidInput(f"cannot import {source!r}: {error}") from None


def _from_file(path: Path) -> Any:
    """A module from a file; the same one whenever it is asked for, so that its classes are the same too."""
    name = f"holdcourse_user_{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InvalidInput(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise InvalidInput(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    return module


def _callable(found: Any, source: str) -> Callable[..., Any]:
    if not callable(found):
        raise InvalidInput(f"{source!r} is a {type(found).__name__}, and cannot be called")
    return found  # type: ignore[no-any-return]
