"""Requests that come again: whether a key, or a decision, has been used before, and for the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdcourse.errors import Conflict
from holdcourse.mistakes import difference
from holdcourse.movement.problem import Problem
from holdcourse.movement.settings import several
from holdcourse.running.decision import Also, other_question, told_once
from holdcourse.running.decision import Request as Question
from holdcourse.running.events import (
    Ask,
    AskRepeated,
    Body,
    CausedNote,
    Episode,
    Event,
    Learn,
    OverrideSet,
    Retract,
    Tell,
    plain,
)
from holdcourse.running.session import recorded_also
from holdcourse.service.core.records import LocatedEvent, Records, tell_answer
from holdcourse.service.core.requests import AskGiven


def happened(records: Records, wanted: Episode | CausedNote, key: str | None) -> bool:
    """Return whether the record holds this event under this key; another one under it is a conflict."""
    earlier = None if key is None else records.with_key(key)
    if earlier is None:
        return False
    recorded = earlier.event.body
    if type(recorded) is not type(wanted):
        raise _other_use(key, earlier.event, _purpose(recorded), _said(wanted))
    assert isinstance(recorded, Episode | CausedNote)
    recorded = replace(recorded, extra=None)
    if plain(recorded) != plain(wanted):
        raise _other_use(key, earlier.event, _said(recorded), _said(wanted))
    return True


def asked_under(records: Records, key: str) -> LocatedEvent[Ask] | None:
    """Return the decision that a key stands for, if it was used."""
    located = records.with_key(key)
    if located is None:
        return None
    match located.event.body:
        case Ask() as asked:
            return LocatedEvent(located.epoch, Event(located.event.number, located.event.at, asked))
        case AskRepeated() as repeated:
            return records.asked(repeated.round)
        case other:
            raise _other_use(key, located.event, _purpose(other), "ask")


def check_question(problem: Problem, asked: Ask, request: AskGiven, *, is_pending: bool) -> None:
    """Raise a conflict unless a decision was asked for with the same question; `is_pending`: nobody has told it yet."""
    number = asked.round
    recorded = {"round": number, **asked.request.describe()}
    given = {"round": number if request.round is None else request.round, **_described(problem, request)}
    if recorded != given:
        raise Conflict(other_question(problem, number, recorded, given, is_pending=is_pending), recorded, given)


def same_tell(
    told: Event[Body],
    decision: str,
    measurement: float | None,
    applied: int | None,
    also: Also,
    key: str | None,
    reference: float | None = None,
) -> dict[str, Any]:
    """Return the answer to a tell that was told before; another one is a conflict."""
    body = told.body
    if not isinstance(body, Tell | Learn):
        raise _other_use(key, told, _purpose(body), f"tell {decision}")
    assert body.extra is not None  # the service writes it with every tell
    taken = body.extra.default if applied is None else applied
    recorded: dict[str, Any] = {"decision": body.id, "measurement": body.measurement, "applied_index": body.extra.taken}
    given: dict[str, Any] = {"decision": decision, "measurement": measurement, "applied_index": taken}
    if also != recorded_also(body):
        recorded |= {"also": body.also or []}
        given |= {"also": [list(each) for each in also]}
    if body.reference != reference:
        recorded |= {"reference": body.reference}
        given |= {"reference": reference}
    if recorded != given:
        then, now = difference(recorded, given)
        is_measured = body.measurement is not None
        raise Conflict(told_once(body.id, then, now, is_measured=is_measured), recorded, given)
    return tell_answer(Event(told.number, told.at, body))


def same_retraction(retracted: Event[Body], decision: str, reason: str, key: str | None = None) -> None:
    """Raise unless an event took back the same for the same reason; `key` is the one it was found by."""
    body = retracted.body
    if not isinstance(body, Retract):
        raise _other_use(key, retracted, _purpose(body), f"retract {decision}")
    recorded, given = {"decision": body.id, "reason": body.reason}, {"decision": decision, "reason": reason}
    if recorded != given:
        raise Conflict(
            f"{body.id} was already taken back, because of {body.reason!r}, not {reason!r}; it can be taken back only "
            "once",
            recorded,
            given,
        )


def _other_use(key: str | None, earlier: Event[Body], recorded: Any, given: Any) -> Conflict:
    purpose = _purpose(earlier.body)
    words = f"the key {key!r} was used at {earlier.at} for something else ({purpose}); use a new key"
    return Conflict(words, recorded, given)


def _described(problem: Problem, request: AskGiven) -> dict[str, Any]:
    """Return a question as the record holds it, whatever the actions were when it was asked."""
    question = Question.of(problem, request.context, None, request.forecast, None).describe()
    if request.allowed is not None and names_settings(request):
        question["allowed"] = sorted(several(problem, request.allowed, "allowed"))
    elif request.allowed is not None:
        question["allowed"] = [k for k, may_be in enumerate(request.allowed) if may_be]
    return question


def names_settings(request: AskGiven) -> bool:
    """Return whether a question says by their names which settings may be chosen."""
    return request.allowed is not None and not all(isinstance(each, bool) for each in request.allowed)


def _said(body: Episode | CausedNote) -> dict[str, Any]:
    """What an event says, with its action under a name that cannot be taken for a setting."""
    found: dict[str, Any] = plain(body)
    for name, explicit in (("start", "start_index"), ("action", "setting_index")):
        if isinstance(body, Episode | OverrideSet) and name in found:
            found[explicit] = found.pop(name)
    return found


def _purpose(body: Body) -> str:
    """Name what a client caused, in two words."""
    match body:
        case Ask() | AskRepeated():
            return f"ask {body.round}"
        case Episode():
            return f"episode at index {body.start}"
        case Tell() | Learn():
            return f"tell {body.id}"
        case Retract():
            return f"retract {body.id}"
        case _:
            return getattr(body, "NOTE", body.KIND)
