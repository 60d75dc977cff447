"""Log lines that come in crowds: one of each kind a minute, which says how many were left out.

Without this, whoever reaches the port can fill the disk that the records need.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic

EVERY_S = 60.0
MAX_KINDS = 256  # more kinds than these count as one


class OncePerMinute(logging.Filter):
    """Lets one line of each kind through per minute; a kind is the first line of a message before it is filled in."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._shown: dict[str, float] = {}  # by kind, when the last one was let through ...
        self._left_out: dict[str, int] = {}  # ... and how many were not since

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write this one down."""
        kind = f"{record.name} {str(record.msg).partition(chr(10))[0]}"
        now = self._clock()
        if kind not in self._shown and len(self._shown) >= MAX_KINDS:
            self._forget(now)
            kind = kind if len(self._shown) < MAX_KINDS else "other kinds"
        if now - self._shown.get(kind, -EVERY_S) < EVERY_S:
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return False
        self._shown[kind] = now
        left_out = self._left_out.pop(kind, 0)
        if left_out:
            record.msg = f"{record.getMessage()} ({left_out} more of this kind since the last such line)"
            record.args = ()
        return True

    def _forget(self, now: float) -> None:
        for kind, shown in list(self._shown.items()):
            if now - shown >= EVERY_S and kind not in self._left_out:
                del self._shown[kind]
