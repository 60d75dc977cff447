"""Server-sent events: what happens, to whoever watches."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

BACKLOG = 256  # events; a reader who is further behind is let go, and loads the state when it comes back
HEARTBEAT_S = 15.0


class Hub:
    """Hands events from any thread to all who watch."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watchers: dict[asyncio.Queue[str | None], Callable[[str], bool]] = {}
        self._closed = False

    def start(self) -> None:
        """Events are handed over in the running loop."""
        self._loop = asyncio.get_running_loop()

    def publish(self, controller: str, kind: str, data: dict[str, Any]) -> None:
        """Tell all who watch this controller; may be called from any thread."""
        if self._loop is not None and self._watchers and not self._closed:
            text = f"event: {kind}\ndata: {json.dumps({'controller': controller, **data})}\n\n"
            self._loop.call_soon_threadsafe(self._hand_out, controller, text)

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        for queue in self._watchers:
            _end(queue)

    def _hand_out(self, controller: str, text: str) -> None:
        for queue, wants in self._watchers.items():
            if wants(controller):
                if queue.full():
                    _end(queue)
                else:
                    queue.put_nowait(text)

    async def watch(self, wants: Callable[[str], bool], still_allowed: Callable[[], bool]) -> AsyncIterator[str]:
        """The stream of one reader; ends when its token is revoked or the server stops."""
        queue: asyncio.Queue[str | None] = asyncio.Queue(BACKLOG)
        self._watchers[queue] = wants
        try:
            yield ": connected\n\n"
            while not self._closed:
                try:
                    text = await asyncio.wait_for(queue.get(), HEARTBEAT_S)
                except TimeoutError:
                    text = ": still here\n\n"
                if text is None or not still_allowed():
                    return
                yield text
        finally:
            del self._watchers[queue]


def _end(queue: asyncio.Queue[str | None]) -> None:
    while not queue.empty():
        queue.get_nowait()
    queue.put_nowait(None)
