"""The watchdog: a measurement that does not come, and a machine that does not ask any more.

A pending decision is *stale* when its measurement is late. If it is the newest one, the machine is in a round that
nobody measures any more: it is sent to its fallback, as far as mask and limits permit. When none is pending, the
machine's program is *silent* if it has not asked again within the same deadline. Silence moves nothing: the last round
is over, and the machine is where it was left. It is not counted before the first question of an episode, so a new
episode is also how to pause.

Deadlines are counted on a clock that nobody can set. Only what was asked before this process ran is as old as its
record says; where the record ends in the future the clock cannot be right, and all deadlines begin anew. A clock that
was set is an alarm of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from holdcourse.log import Event
from holdcourse.service.alarms import cleared, raised
from holdcourse.service.clock import STEADY_S, STEP_S, Clock
from holdcourse.service.ledger import FOLLOWED, OURS, Ledger


class Timing:
    """When things happened, on the monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._asked: dict[str, float] = {}  # pending decisions
        self._last: float | None = None  # newest event that is no note
        self._opened, self._ahead = clock.monotonic(), 0.0

    def opened(self, newest_at: str, ledger: Ledger) -> None:
        """A record was opened: what it holds, and this process does not know, is as old as it says."""
        self._opened, self._ahead = self.clock.monotonic(), _seconds(newest_at) - self.clock.wall()
        trusted = self._ahead <= STEP_S and self.clock.step() is None

        def since(at: str) -> float:
            age = max(self.clock.wall() - _seconds(at), 0.0) if trusted else 0.0
            return self._opened - age

        self._asked = {name: self._asked.get(name, since(asked["at"])) for name, asked in ledger.pending.items()}
        if self._last is None and ledger.last_at is not None:
            self._last = since(ledger.last_at)

    def saw(self, events: Sequence[Event], ledger: Ledger) -> None:
        """These events were added to the record just now."""
        now = self.clock.monotonic()
        self._asked = {name: self._asked.get(name, now) for name in ledger.pending}
        if any(event.kind not in OURS for event in events):
            self._last = now

    def due(self, ledger: Ledger) -> float | None:
        """When the oldest measurement, or else the next question, should be here (monotonic); None: never."""
        oldest = min(self._asked.values(), default=None)
        if oldest is None and ledger.newest is not None and ledger.fresh_episode is None:
            oldest = self._last
        seconds = ledger.config["deadline_s"]
        return None if oldest is None or seconds is None else oldest + float(seconds)

    def newest_due(self, ledger: Ledger) -> float | None:
        """When the measurement of the newest decision should be here (monotonic); None: never, or it is."""
        asked, seconds = self._asked.get(ledger.newest or ""), ledger.config["deadline_s"]
        return None if asked is None or seconds is None else asked + float(seconds)

    def falls_back(self, ledger: Ledger) -> bool:
        """Whether the machine is to be sent to its fallback now."""
        at = self.newest_due(ledger)
        return owes_fallback(ledger) and at is not None and self.clock.monotonic() > at

    def overdue(self, ledger: Ledger) -> list[str]:
        """Pending decisions that should have been told by now."""
        now, seconds = self.clock.monotonic(), ledger.config["deadline_s"]
        return [] if seconds is None else [name for name, at in self._asked.items() if now > at + float(seconds)]

    def seconds_since(self) -> float | None:
        """How long ago the last decision or tell was."""
        return None if self._last is None else self.clock.monotonic() - self._last

    def trouble(self) -> str | None:
        """What is wrong with the wall clock, in words; None while it is steady."""
        step = self.clock.step()
        what = "deadlines do not depend on it, the times in the record do"
        if step is not None:
            return f"this machine's clock was set {'forward' if step > 0 else 'back'} by {abs(step):.0f} s; {what}"
        if self._ahead > STEP_S and self.clock.monotonic() - self._opened <= STEADY_S:
            return (
                f"the record ended {self._ahead:.0f} s in the future when it was opened: this machine's clock is or "
                f"was wrong. All deadlines began anew; {what}"
            )
        return None


def owes_fallback(ledger: Ledger) -> bool:
    """Whether the machine is to be sent to its fallback once the newest decision is late."""
    free = ledger.override is None and ledger.mode in FOLLOWED
    return free and ledger.config["fallback"] is not None and ledger.fallback is None


def notes_of(ledger: Ledger, timing: Timing) -> list[dict[str, Any]]:
    """What the record shall say by now: decisions that are late, when silence begins and ends, a clock that was set."""
    seconds = ledger.config["deadline_s"]
    late = [name for name in timing.overdue(ledger) if name not in ledger.stale]
    notes: list[dict[str, Any]] = [{"note": "stale", "decision": name} for name in late]
    if late and "stale" not in ledger.alarms:
        stays = ledger.newest not in late or ledger.mode not in FOLLOWED
        until = (
            "" if stays else ", and until then the machine is sent to its fallback, as far as mask and limits permit"
        )
        notes.append(raised("stale", f"{', '.join(late)} was not told within {seconds:g} s; tell or skip it{until}"))
    at = timing.due(ledger)
    silent = not ledger.pending and at is not None and timing.clock.monotonic() > at
    trouble = timing.trouble()
    said = f"nobody asked within {seconds or 0:g} s after the last round; does the machine's program still run?"
    for kind, message in (("silent", said if silent else None), ("clock", trouble)):
        if message is not None and kind not in ledger.alarms:
            notes.append(raised(kind, message))
        if message is None and kind in ledger.alarms:
            notes.append(cleared(kind))
    return notes


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()
