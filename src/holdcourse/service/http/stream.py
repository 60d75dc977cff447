"""Server-sent events: what happens, to whoever watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from holdcourse.service.core.clients import Broadcast, Caller
from holdcourse.service.core.fleet import Fleet
from holdcourse.service.http import forwarding
from holdcourse.service.http.admission import UNDER_WAY, token_of
from holdcourse.service.http.errors import HttpRefusal

HEARTBEAT_S = 15.0


def stream(
    fleet: Fleet, caller: Caller, request: Request, wants: Callable[[str], bool], *, with_others: bool = False
) -> Response:
    """Return what happens on the controllers that are wanted, until the client leaves or his token counts no more.

    `with_others` follows those that other processes hold, too.
    """

    def still_allowed() -> bool:
        with suppress(HttpRefusal):  # tokens that cannot be read let nobody in
            return token_of(request) is not None
        return False

    request.scope[UNDER_WAY].enter_context(fleet.streams.one(caller.client))
    lines = events(fleet.broadcast, wants, still_allowed)
    if with_others:
        lines = forwarding.with_others(fleet, request, lines)
    return StreamingResponse(lines, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def events(
    broadcast: Broadcast, wants: Callable[[str], bool], still_allowed: Callable[[], bool]
) -> AsyncIterator[str]:
    """Send the stream of one watcher; it ends when his token is revoked, or the server stops."""
    with broadcast.watching(wants) as messages:
        yield ": connected\n\n"
        while True:
            try:
                message = await asyncio.wait_for(messages.get(), HEARTBEAT_S)
                text = None if message is None else f"event: {message.kind}\ndata: {message.data}\n\n"
            except TimeoutError:
                text = ": still here\n\n"
            if text is None or not still_allowed():
                return
            yield text
