"""The records of all epochs of a controller, for reading: what was asked and told, by round, by decision, by key.

It reads on connections of its own, so that looking at the past never waits for a decision that is being taken.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from holdcourse.log import Event, Log, Sought

LATEST_ALARMS = 200  # notes looked at per epoch


class Entry(NamedTuple):
    """An event and the epoch it belongs to, counted from 1."""

    epoch: int
    event: Event


class Shelf:
    """Open records, oldest first."""

    def __init__(self) -> None:
        self.paths: list[Path] = []
        self._lock = Lock()
        self._logs: list[Log] = []

    def take_in(self, paths: list[Path]) -> None:
        """Open those that are not open yet; somebody may be reading in the others."""
        for path in paths[len(self.paths) :]:
            self._logs.append(Log.read(path, checked=False))
            self.paths.append(path)

    def close(self) -> None:
        """Let go of the files."""
        for log in self._logs:
            log.close()

    def asked(self, round_number: int) -> Entry | None:
        """The decision of a round."""
        return self._newest("round", round_number)

    def told(self, decision: str) -> Entry | None:
        """What was told of a decision."""
        return self._newest("decision", decision)

    def with_key(self, key: str) -> Entry | None:
        """What a client caused under this key."""
        return self._newest("key", key)

    def asks_after(self, round_number: int, limit: int) -> list[Entry]:
        """The first `limit` decisions after a round."""
        found: list[Entry] = []
        for epoch in range(1, len(self._logs) + 1):
            if len(found) < limit:
                found += self._find(epoch, "round", round_number + 1, 2**62, limit - len(found), newest=False)
        return found

    def newest_asks(self, limit: int) -> list[Entry]:
        """The newest `limit` decisions, in order."""
        found: list[Entry] = []
        for epoch in range(len(self._logs), 0, -1):
            if len(found) < limit:
                found = self._find(epoch, "round", 0, 2**62, limit - len(found), newest=True) + found
        return found

    def alarms(self) -> list[dict[str, Any]]:
        """Alarms, oldest first, with the time at which they were cleared."""
        alarms: list[dict[str, Any]] = []
        for epoch in range(1, len(self._logs) + 1):
            notes = [
                event
                for kind in ("alarm", "cleared")
                for _, event in self._find(epoch, "note", kind, kind, LATEST_ALARMS, newest=True)
            ]
            for event in sorted(notes, key=lambda event: event.number):
                kind = event.body["kind"]
                if event.body["note"] == "alarm":
                    alarms.append({"at": event.at, "kind": kind, "message": event.body["message"], "cleared_at": None})
                else:
                    for alarm in alarms:
                        if alarm["kind"] == kind and alarm["cleared_at"] is None:
                            alarm["cleared_at"] = event.at
        return alarms

    def history(self) -> list[Any] | None:
        """The measurements that the controller started from."""
        with self._lock:
            found = self._logs[0].find("note", "created")
        past: list[Any] | None = found[0].body["history"]
        return past

    def _newest(self, what: Sought, value: str | int) -> Entry | None:
        for epoch in range(len(self._logs), 0, -1):
            found = self._find(epoch, what, value, value, 1, newest=True)
            if found:
                return found[0]
        return None

    def _find(
        self, epoch: int, what: Sought, low: str | int, high: str | int, limit: int, *, newest: bool
    ) -> list[Entry]:
        with self._lock:
            events = self._logs[epoch - 1].find(what, low, high, limit=limit, newest=newest)
        return [Entry(epoch, event) for event in events]
