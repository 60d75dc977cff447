"""The web server under the application: connections before anybody knows who they are, what it listens on, its log.

A connection for which nothing is done (idle, its headers still on the way, or its request not begun) gives way to a new
one when there are too many, the oldest first: so nobody can keep others out by holding connections open. And lines of
the log that come in crowds are written once a minute for each kind: else whoever reaches the port could fill the disk
that the records need.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

logger = logging.getLogger("holdcourse.service")

ARRIVAL = "holdcourse.arrival"  # in the scope of a request
REFUSED = b"HTTP/1.1 %s\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
BACKLOG = 2048  # connections that wait to be taken
TAKEN_AT_ONCE = 64  # of them before anything else is done
GRACE_S = 5  # for requests under way when the server is stopped
SWITCH_S = 0.001  # how soon a thread that computes lets another one go on: an operator's request passes it many times
NOISY = ("asyncio", "uvicorn.error", "holdcourse.service")
LOG_EVERY_S = 60.0  # a line of each kind
LOG_KINDS = 256  # more kinds than these count as one


@dataclass(frozen=True)
class Bounds:
    """What connections may do.

    Attributes
    ----------
    total, per_address
        How many may be open: in all, and from one address.
    proxies
        Addresses that speak for others: only the total holds for them.
    head_s
        In how many seconds the headers of a request must be there.
    body_s, body_rate
        In every so many seconds of a body, so many bytes a second must arrive.
    stalled_s
        How long a client may take nothing of its answer.
    """

    total: int = 1024
    per_address: int = 512
    proxies: frozenset[str] = frozenset()
    head_s: float = 10.0
    body_s: float = 10.0
    body_rate: int = 1024
    stalled_s: float = 60.0


class Arrival:
    """A request that is there: whether it has been begun, and whether its client has left meanwhile."""

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self.is_begun = False

    @property
    def is_gone(self) -> bool:
        """Whether nobody waits for its answer any more."""
        return self._cycle.disconnected


class OpenConnections:
    """All connections that are open, by address, oldest first."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._open: defaultdict[str, dict[Connection, None]] = defaultdict(dict)
        self._count = 0

    def admit(self, connection: Connection) -> bool:
        """Return whether there is room for one more, after an idle one may have made way for it."""
        own = self._open.get(connection.address, {})
        if connection.address not in self.bounds.proxies and len(own) >= self.bounds.per_address:
            made_way = _idle([own])
        elif self._count >= self.bounds.total:  # whoever has most of them gives one
            made_way = _idle(sorted(self._open.values(), key=len, reverse=True))
        else:
            self._add(connection)
            return True
        if made_way is None:
            return False
        self.forget(made_way)
        made_way.transport.abort()
        self._add(connection)
        return True

    def forget(self, connection: Connection) -> None:
        """Count it no more; it may be forgotten already."""
        own = self._open.get(connection.address, {})
        if connection in own:
            del own[connection]
            self._count -= 1
            if not own:
                del self._open[connection.address]

    def _add(self, connection: Connection) -> None:
        self._open[connection.address][connection] = None
        self._count += 1


class JoiningTransport:
    """A transport that sends the head of an answer with the first part of its body, in one call to the system."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._waiting = b""
        self.is_held = False

    def write(self, data: bytes) -> None:
        """Send data, or hold it for what follows."""
        self._waiting += data
        self.flush()

    def flush(self) -> None:
        """Send what waits, unless it is held for what follows."""
        if self._waiting and not self.is_held:
            waiting, self._waiting = self._waiting, b""
            self._transport.write(waiting)

    def close(self) -> None:
        """Send what waits, and close."""
        self.is_held = False
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connection(H11Protocol):
    """One connection, with the times in which its requests must arrive and its answers be taken."""

    def __init__(self, others: OpenConnections, **given: Any) -> None:
        super().__init__(**given)
        self._others, self._app = others, self.app
        self.app = self._answer
        self.address = ""
        self._refused = False
        self._arrival: Arrival | None = None
        self._arriving: asyncio.TimerHandle | None = None  # what is on the way must be here by then
        self._part: Any = None  # of the request that it is for
        self._stalled: asyncio.TimerHandle | None = None
        self._received = 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being done for it."""
        if self.cycle is None or self.cycle.response_complete:
            return True
        return self._arrival is not None and not self._arrival.is_begun

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let it in, if there is room."""
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if isinstance(peer, tuple) else ""
        self._refused = not self._others.admit(self)
        if self._refused:
            logger.warning("too many connections are open and busy; new ones are refused")
            transport.write(REFUSED % b"503 Service Unavailable")
            transport.close()
            return
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it no more, and stop its timers."""
        self._others.forget(self)
        for timer in (self._arriving, self._stalled):
            if timer is not None:
                timer.cancel()
        if not self._refused:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in a part of a request."""
        if not self._refused:
            self._received += len(data)
            super().data_received(data)
            self._expect()

    def pause_writing(self) -> None:
        """Give the client a while, who takes nothing of its answer for now."""
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(self._others.bounds.stalled_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Give the client, which takes its answer again, all the time that it needs."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        scope[ARRIVAL] = self._arrival = Arrival(self.cycle)
        together = self.cycle.transport = JoiningTransport(self.transport)  # type: ignore[assignment]

        async def send_together(message: Any) -> None:
            together.is_held = message["type"] == "http.response.start"
            await send(message)
            together.flush()

        await self._app(scope, receive, send_together)

    def _expect(self) -> None:
        """Set the time by which the part that is on the way must be here; it is not put off by a single byte."""
        part = self.conn.their_state
        if part is self._part and self._arriving is not None:
            return
        if self._arriving is not None:
            self._arriving.cancel()
        self._part, self._arriving = part, None
        if part is h11.IDLE:
            self._arriving = self.loop.call_later(self._others.bounds.head_s, self._late_head)
        elif part is h11.SEND_BODY:
            self._received = 0
            self._arriving = self.loop.call_later(self._others.bounds.body_s, self._late_body)

    def _late_head(self) -> None:
        self._arriving = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.write(REFUSED % b"408 Request Timeout")
            self.transport.close()

    def _late_body(self) -> None:
        self._arriving = None
        if self.conn.their_state is not h11.SEND_BODY:
            return
        bounds = self._others.bounds
        if self._received < bounds.body_rate * bounds.body_s and not self.flow.read_paused:  # else it waits for us
            self.transport.close()
        else:
            self._expect()


def _idle(groups: Iterable[dict[Connection, None]]) -> Connection | None:
    """Return the oldest idle connection of the first group that has one."""
    return next((connection for group in groups for connection in group if connection.is_idle), None)


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
        self._app.state.controllers.broadcast.close()
        await super().shutdown(sockets)
        for name in NOISY:
            logging.getLogger(name).removeFilter(self._quiet)

    def run(self, sockets: Any = None) -> None:
        """Serve until stopped."""
        sys.setswitchinterval(SWITCH_S)
        super().run([self._listener])


def configuration(app: FastAPI, bounds: Bounds) -> uvicorn.Config:
    """Return how uvicorn is to run the application."""
    return uvicorn.Config(
        app,
        http=partial(Connection, OpenConnections(within_files(bounds))),  # type: ignore[arg-type]
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
    """Lower the bounds to half of the files that the process may open: the other half is for the records."""
    with suppress(ImportError):  # where there is no such limit
        import resource

        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if soft != resource.RLIM_INFINITY:
            room = max(soft // 2 - TAKEN_AT_ONCE, 8)
            return replace(bounds, total=min(bounds.total, room), per_address=min(bounds.per_address, room))
    return bounds


class OncePerMinute(logging.Filter):
    """Lets one line of each kind through per minute; a kind is the first line of a message before it is filled in.

    A message that is nothing but what it is filled with, such as why a record cannot be opened, is a kind of its own.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._shown: dict[str, float] = {}  # by kind, when the last one was let through ...
        self._left_out: dict[str, int] = {}  # ... and how many were not since

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write this one down."""
        message = record.getMessage() if record.msg == "%s" else str(record.msg)
        kind = f"{record.name} {message.partition(chr(10))[0]}"
        now = self._clock()
        if kind not in self._shown and len(self._shown) >= LOG_KINDS:
            self._forget(now)
            kind = kind if len(self._shown) < LOG_KINDS else "other kinds"
        if now - self._shown.get(kind, -LOG_EVERY_S) < LOG_EVERY_S:
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
            if now - shown >= LOG_EVERY_S and kind not in self._left_out:
                del self._shown[kind]
