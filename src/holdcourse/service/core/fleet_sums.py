"""What the members of a fleet have measured and moved so far, summed up from its record.

A fleet itself keeps no sums. They are made when somebody looks, beside the fleet's turn, from the events since the last
look; after a restart that is the whole record, a part at a time, so that no look takes long.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from holdcourse.learning.costs import Profiled, has
from holdcourse.running.events import Body, FleetAsk, FleetTell
from holdcourse.running.fleet import Fleet
from holdcourse.running.fleet_record import read_members
from holdcourse.running.log import Log

AT_ONCE = 1_000_000  # decisions and measurements that one look takes in at most: about a second


class FleetSums:
    """The sums over all members of a fleet, as far as its record has been read.

    Parameters
    ----------
    fleet
        Whose record it is: its problem and where its members began.
    path
        The record.
    """

    def __init__(self, fleet: Fleet, path: Path) -> None:
        self._problem, self._path = fleet.policy.problem, path
        self._adds_up = not has(fleet.policy.costs, Profiled)  # wind speeds, say, are no costs to be summed
        self._action = fleet.starts
        self._lock = Lock()
        self._seen = 0  # events
        self._measured, self._movement = 0.0, 0.0
        self._measurements, self._skipped, self._moves = 0, 0, 0

    def look(self) -> dict[str, Any]:
        """Take in what came since the last look, or a part of it, and return the sums."""
        with self._lock:
            log = Log.read(self._path, checked=False)
            try:
                room = AT_ONCE
                for event in log.events(after=self._seen):
                    if room <= 0:
                        break
                    room -= self._take_in(event.body)
                    self._seen = event.number
                return self._shown(log.last)
            finally:
                log.close()

    def _take_in(self, body: Body) -> int:
        """Add one event; returns how many members it is about."""
        if isinstance(body, FleetAsk):
            members, now = read_members(body.members, len(self._action)), np.array(body.actions, dtype=np.int64)
            before = self._action[members]
            self._movement += float(np.sum(self._problem.move_costs(before, now)))
            self._moves += int((before != now).sum())
            self._action[members] = now
            return len(now)
        if isinstance(body, FleetTell):
            known = [y for y in body.measurements if y is not None]
            self._measured += sum(known)
            self._measurements += len(known)
            self._skipped += len(body.measurements) - len(known)
            return len(body.measurements)
        return 0

    def _shown(self, last: int) -> dict[str, Any]:
        is_finite = bool(np.isfinite(self._measured))
        return {
            "measurements": self._measurements,
            "measurements_sum": self._measured if self._adds_up and is_finite else None,
            "skipped": self._skipped,
            "moves": self._moves,
            "movement": self._movement,
            "seen": self._seen,
            "events": last,
        }
