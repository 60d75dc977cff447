"""Answers and rows made of events."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from holdcourse.log import Event

OF_ORDER = ("reason", "limited_by", "forced")  # why the machine does what it does


def finite(number: float | None) -> float | None:
    """The number, or None where JSON could not hold it."""
    return None if number is None or not math.isfinite(number) else float(number)


def plain_value(value: Any) -> Any:
    """An action in the user's words, as JSON gives it back."""
    return list(value) if isinstance(value, tuple) else value


def decision_answer(epoch: int, asked: Event, probabilities: list[float] | None) -> dict[str, Any]:
    """What the client was answered, from the event of its decision."""
    body, extra = asked.body, asked.body["extra"]
    hidden = extra["mode"] == "observe"
    return {
        "decision": f"r{body['round']}",
        "round": body["round"],
        "episode": extra["episode"],
        "epoch": epoch,
        "mode": extra["mode"],
        "act": extra["act"],
        "action": extra["action"],
        "value": extra["value"],
        "proposed": None if hidden else body["action"],
        "proposed_value": None if hidden else extra["proposed_value"],
        "probabilities": None if hidden else probabilities,
        "expected_cost": extra["expected"],
        "expected_measurement": extra.get("expected_measurement"),
        "reason": extra["reason"],
        "limited_by": extra["limited_by"],
        "forced": extra["forced"],
        "at": asked.at,
    }


def carried_answer(epoch: int, name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """A decision of an earlier epoch that is still pending, in the numbers of `epoch`."""
    hidden = asked["mode"] == "observe"
    kept = {field: asked[field] for field in ("round", "episode", "mode", "act", "action", "value", *OF_ORDER, "at")}
    return kept | {
        "decision": name,
        "epoch": epoch,
        "proposed": None if hidden else asked["proposed"],
        "proposed_value": None if hidden else asked["proposed_value"],
        "probabilities": None,
        "expected_cost": asked["expected"],
        "expected_measurement": asked.get("expected_measurement"),
    }


def row(epoch: int, asked: Event, told: Event | None) -> dict[str, Any]:
    """A round in the listing."""
    answer = decision_answer(epoch, asked, None)
    for field in ("probabilities", "act", "reason"):
        del answer[field]
    extra = {} if told is None else told.body["extra"]
    booked = {
        name: extra.get(name)
        for name in ("service", "movement", "cumulative_service", "cumulative_movement", "applied_value")
    }
    return (
        answer
        | booked
        | {
            "context": asked.body["request"].get("context"),
            "applied": extra.get("taken"),
            "measurement": None if told is None else told.body["measurement"],
            "told_at": None if told is None else told.at,
            "key": asked.body["extra"].get("key"),
            "asked_by": asked.body["extra"].get("by"),
            "told_by": extra.get("by"),
        }
    )


def tell_answer(told: Event) -> dict[str, Any]:
    """What the client was answered, from the event of its tell."""
    body, extra = told.body, told.body["extra"]
    return {
        "decision": body["id"],
        "told": {"measurement": body["measurement"], "applied": extra["taken"]},
        "assumed": extra["assumed"],
        "alarms": [{**alarm, "at": told.at, "cleared_at": None} for alarm in extra["raised"]],
    }
