"""Who was turned away, for the server's log: at most one line a minute for each kind of refusal and token."""

from __future__ import annotations

import logging
from threading import Lock

from holdcourse.service.clock import Clock
from holdcourse.service.refusals import Refusal
from holdcourse.service.tokens import Token

logger = logging.getLogger("holdcourse.service.refusals")  # it counts by itself, so noise.py leaves it alone

LOGGED = (401, 403, 409, 429)
EVERY_S = 60.0
LONGEST = 200  # letters of a path


class RefusalLog:
    """Writes down refusals; what comes within a minute after a line is counted, and said with the next one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._lines: dict[tuple[int, str], tuple[float, int]] = {}  # when the last one was written, and how many since

    def add(self, refusal: Refusal, token: Token | None, address: str, method: str, path: str) -> None:
        """A request was refused; strangers without a token count as one."""
        if refusal.status not in LOGGED:
            return
        who = "no token" if token is None else f"token {token.id} {token.name!r}" if token.id else token.name
        kind = (refusal.status, who)
        with self._lock:
            now = self._clock.monotonic()
            written, more = self._lines.get(kind, (None, 0))
            if written is not None and now - written < EVERY_S:
                self._lines[kind] = (written, more + 1)
                return
            self._lines[kind] = (now, 0)
        line = f"refused {refusal.status} {refusal.code}: {who}, from {address}, {method} {path[:LONGEST]!r}"
        logger.warning("%s%s", line, f"; {more} more since the line before" if more else "")

    def close(self) -> None:
        """Say what was only counted."""
        with self._lock:
            for (status, who), (_, more) in self._lines.items():
                if more:
                    logger.warning("refused %s: %s, %d more since the line before", status, who, more)
            self._lines.clear()
