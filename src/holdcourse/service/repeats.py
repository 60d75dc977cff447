"""Requests that come again: whether a key, or a decision, has been used before, and for the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdcourse.decision import Request as Question
from holdcourse.log import Event
from holdcourse.problem import Problem
from holdcourse.service import refusals
from holdcourse.service.refusals import Refusal
from holdcourse.service.rows import tell_answer
from holdcourse.service.schemas import Ask
from holdcourse.service.shelf import Entry, Shelf


def happened(shelf: Shelf, kind: str, body: Mapping[str, Any], key: str | None) -> bool:
    """Whether the record holds this event under this key; another one under it is a conflict."""
    earlier = None if key is None else shelf.with_key(key)
    if earlier is None:
        return False
    event = earlier.event
    recorded = {name: value for name, value in event.body.items() if name != "extra"}
    if (event.kind, recorded) != (kind, body):
        alike = (event.kind, recorded.get("note")) == (kind, body.get("note"))
        raise _other_use(key, event, recorded if alike else _purpose(event), dict(body))
    return True


def asked_under(shelf: Shelf, key: str | None) -> Entry | None:
    """The decision that a key stands for, if it was used."""
    entry = None if key is None else shelf.with_key(key)
    if entry is None or entry.event.kind == "ask":
        return entry
    if entry.event.body.get("note") != "repeat":
        raise _other_use(key, entry.event, _purpose(entry.event), "ask")
    return shelf.asked(entry.event.body["round"])


def check_question(problem: Problem, asked: Event, request: Ask) -> None:
    """Whether a decision was asked for with the same question; another one is a conflict."""
    number = asked.body["round"]
    recorded = {"round": number, **asked.body["request"]}
    given = {"round": number if request.round is None else request.round, **_described(problem, request)}
    if recorded != given:
        raise refusals.conflict(
            f"round {number} was asked with {recorded}, now with {given}; tell or skip it before asking something else",
            recorded,
            given,
        )


def same_tell(
    told: Event, decision: str, measurement: float | None, applied: int | None, key: str | None
) -> dict[str, Any]:
    """The answer to a tell that was told before; another one is a conflict."""
    if told.kind not in ("tell", "learn"):
        raise _other_use(key, told, _purpose(told), f"tell {decision}")
    extra = told.body["extra"]
    taken = extra["default"] if applied is None else applied
    recorded = {"decision": told.body["id"], "measurement": told.body["measurement"], "applied": extra["taken"]}
    given = {"decision": decision, "measurement": measurement, "applied": taken}
    if recorded != given:
        raise refusals.conflict(
            f"{told.body['id']} was told {recorded}, now {given}; a measurement is told once", recorded, given
        )
    return tell_answer(told)


def keyed(key: str | None) -> dict[str, Any]:
    """What an event holds of the key under which it was asked for."""
    return {} if key is None else {"extra": {"key": key}}


def _other_use(key: str | None, earlier: Event, recorded: Any, given: Any) -> Refusal:
    words = f"the key {key!r} was used at {earlier.at} for something else ({_purpose(earlier)}); take a new key"
    return refusals.conflict(words, recorded, given)


def _described(problem: Problem, request: Ask) -> dict[str, Any]:
    """A question as the record holds it, whatever the actions were when it was asked."""
    question = Question.of(problem, request.context, None, request.forecast, None).describe()
    if request.allowed is not None:
        question["allowed"] = [k for k, may_be in enumerate(request.allowed) if may_be]
    return question


def _purpose(event: Event) -> str:
    """What a client caused, in two words."""
    body = event.body
    match event.kind:
        case "note" if body["note"] == "repeat":
            return f"ask {body['round']}"
        case "note":
            return str(body["note"])
        case "ask":
            return f"ask {body['round']}"
        case "episode":
            return f"episode at {body['start']}"
        case _:
            return f"tell {body['id']}"
