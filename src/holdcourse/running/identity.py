"""Whose record it is: what it says of its policy, and what is different about a controller that is not the one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from holdcourse.deciding import recipe
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.policyfile import Evidence, Trust
from holdcourse.errors import InvalidInput
from holdcourse.movement.problem import Problem
from holdcourse.running.events import Identity, Members, Previous
from holdcourse.running.limits import Guard, Limits
from holdcourse.running.log import Beginning, Log
from holdcourse.running.storage import Location

SHOWN = 60  # characters of a value in an error


def recipe_of(policy: Policy) -> dict[str, Any] | None:
    """The recipe of a policy; None where only Python can make it again."""
    try:
        return recipe.describe(policy)
    except InvalidInput:
        return None


def beginning_of(policy: Policy, previous: Previous | None = None) -> Beginning:
    """What a new record says of the policy that writes it, and of the record that it continues."""
    evidence = None if policy.evidence is None else policy.evidence.to_data()
    try:
        return Beginning(recipe.describe(policy), None, previous, evidence)
    except InvalidInput as error:  # only Python can make this policy again
        return Beginning(None, str(error), previous, evidence)


def resumed(path: Location, trust: Trust, remedy: str) -> tuple[Policy, Identity]:
    """Make the policy that a record goes on with, changes included, and say whose record it is now.

    Raises with the remedy where the record does not hold its policy.
    """
    log = Log.read(path, checked=False, incomplete=True)
    try:
        identity, described, evidence = log.identity(), log.repriced(log.recipe(remedy)), log.about.evidence
    finally:
        log.close()
    policy = replace(
        recipe.make(described, (trust,) if isinstance(trust, str) else tuple(trust)),
        name=identity.policy_name,
        evidence=None if evidence is None else Evidence.from_data(evidence, str(path)),
    )
    return policy, identity


def differences(
    theirs: Identity, ours: Identity, policy: Policy, recorded: Mapping[str, Any] | None
) -> Iterator[tuple[str, str, str]]:
    """What differs between the controller of a record and another one: which option, its value there, and here.

    `policy` is ours, and `recorded` the recipe of theirs, where there is one.
    """
    if theirs.members != ours.members:
        yield "what it records", _members(theirs.members), _members(ours.members)
    if theirs.policy != ours.policy:
        yield from _of_policies(theirs, policy, recorded)
    problem = policy.problem
    if theirs.start != ours.start:
        then, now = (problem.text(k) if k < problem.n else f"index {k}" for k in (theirs.start, ours.start))
        yield "start", then, now
    for name in ("seed", "max_pending"):
        one, other = getattr(theirs, name), getattr(ours, name)
        if one != other:
            yield name, str(one), str(other)
    yield from _of_limits(theirs.limits, ours.limits)
    if theirs.guard != ours.guard:
        yield "guard", _guard(theirs.guard, problem), _guard(ours.guard, problem)


def in_words(found: list[tuple[str, str, str]]) -> str:
    """Return in a sentence what `differences` found."""
    first = "; ".join(f"{name} was {then} and is {now} now" for name, then, now in found[:4])
    return first if len(found) <= 4 else f"{first}; and {len(found) - 4} more"


def _of_policies(
    theirs: Identity, policy: Policy, recorded: Mapping[str, Any] | None
) -> Iterator[tuple[str, str, str]]:
    own = recipe_of(policy)
    if recorded is None or own is None:
        yield "policy", f"{theirs.policy_name} ({theirs.policy})", f"{policy.name} ({policy.fingerprint})"
        return
    found = list(_of_recipes(recorded, own))
    if not found:  # what differs was fitted, or learned from a history
        found = [("what was fitted", f"{theirs.policy}", f"{policy.fingerprint}")]
    yield from found


def _of_recipes(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    if then["policy"] != now["policy"]:
        yield "policy", repr(then["policy"]), repr(now["policy"])
        return
    units = ("unit", "cost_unit", "context_names", "context_units", "labels")  # no decision depends on them
    for part in ("problem", "options"):
        for name in sorted({*then[part], *now[part]} - set(units if part == "problem" else ())):
            one, other = then[part].get(name), now[part].get(name)
            if one != other:
                yield name, _short(one), _short(other)


def _of_limits(then: Limits, now: Limits) -> Iterator[tuple[str, str, str]]:
    for name, value in vars(now).items():
        if getattr(then, name) != value:
            yield name, _short(getattr(then, name)), _short(value)


def _members(members: Members | None) -> str:
    if members is None:
        return "a single controller"
    own = [name for name in ("seeds", "starts") if getattr(members, name) is not None]
    return f"a fleet of {members.count} members" + (f" with {' and '.join(own)} of their own" if own else "")


def _guard(guard: Guard | None, problem: Problem) -> str:
    if guard is None or guard.safe_action >= problem.n:
        return "none" if guard is None else repr(guard)
    safe = problem.text(guard.safe_action)
    return f"(threshold {guard.threshold:g}, revert_to {safe}, cool_down {guard.cool_down})"


def _short(value: Any) -> str:
    shown = "not given" if value is None else repr(value)
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."
