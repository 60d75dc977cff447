"""Requests that come again: whether a key, or a decision, has been used before, and for the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdcourse.log import Event
from holdcourse.service import refusals
from holdcourse.service.rows import tell_answer
from holdcourse.service.shelf import Entry, Shelf


def noted(shelf: Shelf, note: Mapping[str, Any], key: str | None) -> bool:
    """Whether the record holds this note under this key; another one under it is a conflict."""
    earlier = None if key is None else shelf.with_key(key)
    if earlier is None:
        return False
    recorded = {name: value for name, value in earlier.event.body.items() if name != "extra"}
    if recorded != note:
        shown = recorded if recorded.get("note") == note["note"] else _purpose(earlier.event)
        raise refusals.conflict(f"the key {key!r} was used for something else", shown, dict(note))
    return True


def asked_under(shelf: Shelf, entry: Entry, key: str | None) -> Entry:
    """The decision that a key stands for."""
    body = entry.event.body
    if body.get("note") == "repeat":
        return shelf.asked(body["round"]) or entry
    if entry.event.kind != "ask":
        raise refusals.conflict(f"the key {key!r} was used for something else", _purpose(entry.event), "ask")
    return entry


def same_tell(told: Event, decision: str, measurement: float | None, applied: int | None) -> dict[str, Any]:
    """The answer to a tell that was told before; another one is a conflict."""
    if told.kind not in ("tell", "learn"):
        raise refusals.conflict("the key was used for something else", _purpose(told), f"tell {decision}")
    extra = told.body["extra"]
    taken = extra["default"] if applied is None else applied
    recorded = {"decision": told.body["id"], "measurement": told.body["measurement"], "applied": extra["taken"]}
    given = {"decision": decision, "measurement": measurement, "applied": taken}
    if recorded != given:
        raise refusals.conflict(
            f"{told.body['id']} was told {recorded}, now {given}; a measurement is told once", recorded, given
        )
    return tell_answer(told)


def _purpose(event: Event) -> str:
    """What a client caused, in two words."""
    body = event.body
    if event.kind == "note":
        return f"ask {body['round']}" if body["note"] == "repeat" else str(body["note"])
    return f"ask {body['round']}" if event.kind == "ask" else f"tell {body['id']}"


def keyed(note: Mapping[str, Any], key: str | None) -> Mapping[str, Any]:
    """The note as the record holds it, with the key under which it was asked for."""
    return note if key is None else {**note, "extra": {"key": key}}
