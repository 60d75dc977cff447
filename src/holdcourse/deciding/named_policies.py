"""Policies of sweeps and backtests, by name: those of the table, and a user's own by entry point or import path."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from holdcourse.deciding import registry
from holdcourse.deciding.policy import Policy
from holdcourse.errors import InvalidInput
from holdcourse.movement.problem import Problem


def policy_names() -> list[str]:
    """Return the policies of the table that a sweep can make: on any problem, and without options of their own."""
    return registry.names("problem", ready=True)


def make_policy(
    name: str, problem: Problem, learning: Mapping[str, Any], options: Mapping[str, Any], source: str | None = None
) -> Policy:
    """Return the policy of this name.

    Parameters
    ----------
    learning
        What a learner knows: kernel, noise and so on. Given to those of ours that learn, and to a user's own where its
        options say ``learning = true``.
    options
        Of this policy alone.
    source
        Import path of a user's own; default: the name is one of ours, or an entry point.
    """
    entry, options = _entry(name, source), dict(options)
    if entry.source is None:
        taken = {key: value for key, value in learning.items() if not (entry.own_width and key == "width")}
        known = taken if entry.shown == "measurements" else {}
    else:
        known = dict(learning) if options.pop("learning", False) else {}
    made = registry.make(entry.name, problem, **{**known, **options})
    assert isinstance(made, Policy)  # else it has raised
    return made


def sources_of(texts: Sequence[str]) -> dict[str, str | None]:
    """Read names such as ``gp-md`` and ``mine=mine.py:mine``: the import path of each, None for those of ours."""
    found: dict[str, str | None] = {}
    for text in texts:
        label, equals, source = text.partition("=")
        if not equals:
            label, source = (text.rpartition(":")[2], text) if ":" in text else (text, "")
        if not label or (source and label in registry.TABLE) or label in found:
            raise InvalidInput(f"{text!r} needs a name that no other policy has; write it like mine=mine.py:mine")
        check_policy_name(label, source or None)
        found[label] = source or None
    return found


def check_policy_name(name: str, source: str | None = None, also: Collection[str] = ()) -> None:
    """Raise an error unless the policy exists; `also` are names of policies that only the caller makes."""
    if source is not None or name not in also:
        _entry(name, source, also)


def runs_code(name: str, source: str | None = None) -> bool:
    """Return whether this policy is code that is not ours: of an import path, or of an installed entry point."""
    return source is not None or registry.is_installed(name)


def _entry(name: str, source: str | None, also: Collection[str] = ()) -> registry.Entry:
    known = policy_names()
    if source is None and name not in known and not registry.is_installed(name):
        unknown = registry.unknown(name, list(dict.fromkeys([*known, *also])))
        raise InvalidInput(
            f"{unknown}, entry points in the group {registry.ENTRY_POINTS!r}, and import paths "
            "such as 'my_package.my_module:my_policy'"
        )
    return registry.entry_of(name if source is None else source, "problem")
