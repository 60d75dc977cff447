"""Decisions as they were answered and why, from memory or rebuilt from the records of all epochs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from holdcourse import audit
from holdcourse.controller import Controller
from holdcourse.decision import Record
from holdcourse.errors import HoldcourseError
from holdcourse.log import Log
from holdcourse.problem import Problem
from holdcourse.service import epochs
from holdcourse.service.rows import carried_answer, decision_answer
from holdcourse.service.shelf import Entry, Shelf


def remembers(controller: Controller, decision: str) -> bool:
    """Whether nothing need be rebuilt."""
    with suppress(HoldcourseError):
        return controller.record(decision) is not None
    return False


def record(controller: Controller, shelf: Shelf, entry: Entry) -> tuple[Record, Problem]:
    """A decision with all that explains it, and the problem of its epoch."""
    policy = controller.policy
    current = entry.epoch == shelf.newest
    if current:
        with suppress(HoldcourseError):  # it may no longer be in memory
            return controller.record(f"r{entry.event.body['round']}"), policy.problem
    log = Log.read(shelf.path(entry.epoch), checked=False)
    try:
        policy = policy if current else epochs.recorded_policy(log)
        return audit.rebuilt(log, policy, entry.event), policy.problem
    finally:
        log.close()


def answer(controller: Controller, shelf: Shelf, entry: Entry) -> dict[str, Any]:
    """What was answered to a question."""
    decision = record(controller, shelf, entry)[0].decision
    return decision_answer(entry.epoch, entry.event, decision.probabilities.tolist())


def pending_answer(controller: Controller, shelf: Shelf, name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """A pending decision, in the numbers of the present epoch."""
    if asked.get("earlier"):
        return carried_answer(shelf.newest, name, asked)
    entry = shelf.asked(asked["round"])
    assert entry is not None
    return answer(controller, shelf, entry)


def renumbered(shelf: Shelf, action: int | None, epoch: int | None, into: int) -> int | None:
    """An action in the numbers of epoch `into`, given in those of `epoch`."""
    if epoch is not None and epoch != into:
        shelf.path(epoch)
    if action is None or epoch is None or epoch == into:
        return action
    given = epochs.recorded_problem(shelf.path(epoch))
    given.check_action(action)
    return epochs.nearest_actions(given, epochs.recorded_problem(shelf.path(into)))[action]
