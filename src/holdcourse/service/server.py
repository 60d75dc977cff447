"""The web server under the application: what it listens on, and how much of it strangers may use."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI

from holdcourse.service.connections import Bounds, Connection, Door
from holdcourse.service.noise import OncePerMinute

BACKLOG = 2048  # connections that wait to be taken
TAKEN_AT_ONCE = 64  # of them before anything else is done
GRACE_S = 5  # for requests under way when the server is stopped
SWITCH_S = 0.001  # how soon a thread that computes lets another one go on: an operator's request passes it many times
NOISY = ("asyncio", "uvicorn.error", "holdcourse.service")


class Server(uvicorn.Server):
    """Says when it listens, and ends the endless streams before it waits for requests to finish."""

    def __init__(
        self, app: FastAPI, listener: socket.socket, bounds: Bounds, listening: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(configuration(app, bounds))
        self._app, self._listener, self._listening = app, listener, listening
        self._quiet = OncePerMinute()

    async def startup(self, sockets: Any = None) -> None:
        """Begin to listen."""
        for name in NOISY:
            logging.getLogger(name).addFilter(self._quiet)
        await super().startup(sockets)
        self._listener.listen(BACKLOG)  # the loop was told a smaller number, which is also how many it takes at once
        self._listening()

    async def shutdown(self, sockets: Any = None) -> None:
        """Finish what is under way."""
        self._app.state.fleet.hub.close()
        await super().shutdown(sockets)
        for name in NOISY:
            logging.getLogger(name).removeFilter(self._quiet)

    def run(self, sockets: Any = None) -> None:
        """Serve until stopped."""
        sys.setswitchinterval(SWITCH_S)
        super().run([self._listener])


def configuration(app: FastAPI, bounds: Bounds) -> uvicorn.Config:
    """How uvicorn is to run the application."""
    return uvicorn.Config(
        app,
        http=partial(Connection, Door(within_files(bounds))),  # type: ignore[arg-type]
        log_level="warning",
        access_log=False,
        server_header=False,
        backlog=TAKEN_AT_ONCE,
        proxy_headers=bool(bounds.proxies),
        forwarded_allow_ips=sorted(bounds.proxies),
        timeout_graceful_shutdown=GRACE_S,
        ws="none",
    )


def within_files(bounds: Bounds) -> Bounds:
    """The bounds, with at most half of the files that the process may open: the other half is for the records."""
    with suppress(ImportError):  # where there is no such limit
        import resource

        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if soft != resource.RLIM_INFINITY:
            room = max(soft // 2 - TAKEN_AT_ONCE, 8)
            return replace(bounds, total=min(bounds.total, room), per_address=min(bounds.per_address, room))
    return bounds
