"""The two clocks: one that people read and may set, and one that only runs. What took how long, the latter says."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Lock

STEP_S = 5.0  # by so much the wall clock goes another way than the monotonic one only if somebody sets it
STEADY_S = 60.0  # after so long without a step, all is well again


class Clock:
    """The clocks of this machine; tests give others.

    Parameters
    ----------
    wall
        Seconds since 1970, as far as this machine knows.
    monotonic
        Seconds that nobody can set.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.wall, self.monotonic = wall, monotonic
        self._lock = Lock()
        self._apart = wall() - monotonic()
        self._step: tuple[float, float] | None = None  # when the wall clock was set (monotonic), and by how much

    def now(self) -> datetime:
        """The time, as records tell it."""
        return datetime.fromtimestamp(self.wall(), UTC)

    def step(self) -> float | None:
        """By how much the wall clock was set lately; None while it is steady. To be asked every few seconds."""
        with self._lock:
            now = self.monotonic()
            apart = self.wall() - now
            if abs(apart - self._apart) > STEP_S:
                before = 0.0 if self._step is None else self._step[1]
                self._step = (now, before + apart - self._apart)
            self._apart = apart  # a clock that is only too fast or too slow is followed
            if self._step is not None and now - self._step[0] > STEADY_S:
                self._step = None
            return None if self._step is None else self._step[1]
