"""The watchdog: a measurement that does not come, and a machine that does not ask any more.

A pending decision is *stale* when its measurement is late. If it is the newest one, the machine is in a round that
nobody measures any more: it is sent to its fallback, as far as mask and limits permit. When none is pending, the
machine's program is *silent* if it has not asked again within the same deadline. Silence moves nothing: the last round
is over, and the machine is where it was left. It is not counted before the first question of an episode, so a new
episode is also how to pause.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from holdcourse.service.alarms import cleared, raised
from holdcourse.service.ledger import FOLLOWED, Ledger


def due(ledger: Ledger) -> float | None:
    """When the oldest measurement, or else the next question, should be here (POSIX time); None: never."""
    since = min((asked["at"] for asked in ledger.pending.values()), default=None)
    if since is None and ledger.newest is not None and ledger.fresh_episode is None:
        since = ledger.last_at
    return None if since is None else _deadline_after(ledger, since)


def newest_due(ledger: Ledger) -> float | None:
    """When the measurement of the newest decision should be here; None: never, or it is."""
    asked = None if ledger.newest is None else ledger.pending.get(ledger.newest)
    return None if asked is None else _deadline_after(ledger, asked["at"])


def owes_fallback(ledger: Ledger) -> bool:
    """Whether the machine is to be sent to its fallback once the newest decision is late."""
    free = ledger.override is None and ledger.mode in FOLLOWED
    return free and ledger.config["fallback"] is not None and ledger.fallback is None


def falls_back(ledger: Ledger, now: float) -> bool:
    """Whether that is to be done now."""
    at = newest_due(ledger)
    return owes_fallback(ledger) and at is not None and now > at


def notes_of(ledger: Ledger, now: float) -> list[dict[str, Any]]:
    """What the record shall say by now: decisions that are late, and when silence begins and ends."""
    seconds = ledger.config["deadline_s"]
    late = [name for name in _overdue(ledger, now) if name not in ledger.stale]
    notes: list[dict[str, Any]] = [{"note": "stale", "decision": name} for name in late]
    if late and "stale" not in ledger.alarms:
        stays = ledger.newest not in late or ledger.mode not in FOLLOWED
        until = "" if stays else ", and until then the machine should be at its fallback"
        notes.append(raised("stale", f"{', '.join(late)} was not told within {seconds:g} s; tell or skip it{until}"))
    at = due(ledger)
    silent = not ledger.pending and at is not None and now > at
    if silent and "silent" not in ledger.alarms:
        message = f"nobody asked within {seconds:g} s after the last round; does the machine's program still run?"
        notes.append(raised("silent", message))
    if not silent and "silent" in ledger.alarms:
        notes.append(cleared("silent"))
    return notes


def _overdue(ledger: Ledger, now: float) -> list[str]:
    """Pending decisions that should have been told by now."""
    deadlines = {name: _deadline_after(ledger, asked["at"]) for name, asked in ledger.pending.items()}
    return [name for name, at in deadlines.items() if at is not None and now > at]


def _deadline_after(ledger: Ledger, since: str) -> float | None:
    seconds = ledger.config["deadline_s"]
    return None if seconds is None else datetime.fromisoformat(since).timestamp() + float(seconds)
