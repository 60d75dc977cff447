"""Requests for a controller that another process holds: they are sent on to it, and its answer is sent back.

So a client, a browser or a load balancer may ask any process for any controller. A redirect would do for programs that
follow it, but browsers do not take a token along to another address, and those behind a load balancer cannot reach the
processes themselves. A request is sent on once: whoever gets it holds the controller, or says that it does not.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import suppress
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import urlsplit

import h11
from anyio.to_thread import run_sync
from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdcourse.errors import HoldcourseError
from holdcourse.service.core import requests
from holdcourse.service.core.controllers import Controllers
from holdcourse.service.core.refusals import HeldElsewhere
from holdcourse.service.http.admission import JSON, token_of
from holdcourse.service.http.errors import HttpRefusal, error_response, translated

Result = TypeVar("Result")

FORWARDED = b"holdcourse-forwarded"
CONTROLLER = re.compile(r"/controllers/([a-z0-9_-]{1,64})(?:/|\Z)")
# They are about one connection, not about the request.
OF_THE_CONNECTION = (
    b"connection",
    b"keep-alive",
    b"te",
    b"upgrade",
    b"expect",
    b"proxy-connection",
    b"host",
    FORWARDED,
)
END_OF_EVENT, COMMENT = b"\n\n", b":"
WAITING = 256  # events of others that the client has not taken yet
CONNECT_S = 2.0
LISTED_S = 2.0  # how long others may take to list their controllers
LOOK_EVERY_S = 0.5  # whether whoever does not answer is still waited for
IDLE_S = 4.0  # after ten, the other process hangs up
CHUNK = 2**16


class Forwarding:
    """Sends requests on to the process that holds their controller."""

    def __init__(self, app: ASGIApp, *, controllers: Controllers, peers: Peers) -> None:
        self._app, self._controllers, self._peers = app, controllers, peers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, here or elsewhere."""
        sharing, found = self._controllers.sharing, CONTROLLER.match(scope.get("path", ""))
        if scope["type"] != "http" or sharing is None or found is None or sharing.is_here(found[1]):
            await self._app(scope, receive, send)
            return
        name = found[1]
        try:
            is_stranger = token_of(Request(scope)) is None  # who is turned away here
            address = None if is_stranger else await sharing.address_of(name)
            if address is not None and any(key == FORWARDED for key, _ in scope["headers"]):
                raise HeldElsewhere(name, address)  # two processes that each take the other for the holder
            if address is not None:
                try:
                    await self._peers.forward(address, scope, receive, send, lambda: sharing.is_at(name, address))
                    return
                except NotReached:
                    if not await sharing.is_gone(name):
                        raise HeldElsewhere(name, address) from None
        except HoldcourseError as error:
            await error_response(translated(error))(scope, receive, send)
            return
        await self._app(scope, receive, send)


class NotReached(Exception):  # noqa: N818 - it is handled at once
    """The other process cannot be reached; nothing was sent to it."""


class Peers:
    """Connections to other processes, which stay open for a while."""

    def __init__(self) -> None:
        self._idle: dict[str, list[tuple[float, PeerConnection]]] = {}

    async def forward(
        self, address: str, scope: Scope, receive: Receive, send: Send, still_held: Callable[[], bool]
    ) -> None:
        """Send a request on, and its answer back, as they come; give up when the other process is not waited for."""
        target = scope.get("raw_path") or scope["path"].encode()
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        headers = [(key, value) for key, value in scope["headers"] if key not in OF_THE_CONNECTION]
        connection = await self._connection(address)
        try:
            try:
                await connection.begin(scope["method"], target, headers)
                async for part in _parts(receive):
                    await connection.add(part)
                status, answered = await _while_held(connection.answer(), still_held)
            except (OSError, h11.ProtocolError, TimeoutError) as error:
                raise HttpRefusal(
                    503,
                    "held_elsewhere",
                    f"the connection to {address}, which held this controller, was lost before it answered ({error}), "
                    "so it is not known whether it did what was asked. Send the same request again, with the same key",
                ) from None
            kept = [
                (key, value) for key, value in answered if key not in (b"transfer-encoding", b"connection", b"date")
            ]
            await send({"type": "http.response.start", "status": status, "headers": kept})
            with suppress(OSError, h11.ProtocolError):  # else the client's connection is cut off, too
                await self._send_back(connection, receive, send)
        finally:
            self._put_back(address, connection)

    async def _send_back(self, connection: PeerConnection, receive: Receive, send: Send) -> None:
        """Send the body of an answer, until it ends or the client leaves, who may be watching a stream."""
        leaving = asyncio.ensure_future(_left(receive))
        try:
            parts = connection.body()
            while True:
                coming = asyncio.ensure_future(anext(parts, None))
                await asyncio.wait((coming, leaving), return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    coming.cancel()
                    connection.close()
                    return
                part = coming.result()
                await send({"type": "http.response.body", "body": part or b"", "more_body": part is not None})
                if part is None:
                    return
        finally:
            leaving.cancel()

    async def fetch(
        self, address: str, method: str, path: str, headers: Iterable[tuple[bytes, bytes]], body: bytes = b""
    ) -> tuple[int, bytes]:
        """Send a short request of our own; returns the status and the body of its answer."""
        connection = await self._connection(address)
        try:
            length = (b"content-length", b"%d" % len(body))
            await connection.begin(method, path.encode(), [*headers, length])
            await connection.add(body)
            await connection.add(None)
            status, _ = await connection.answer()
            return status, b"".join([part async for part in connection.body()])
        finally:
            self._put_back(address, connection)

    async def events(self, address: str, headers: Iterable[tuple[bytes, bytes]]) -> AsyncIterator[str]:
        """Follow what happens at another process: each event as it stands in its stream."""
        connection = await self._connection(address)
        try:
            await connection.begin("GET", b"/events", headers)
            await connection.add(None)
            status, _ = await connection.answer()
            text = b""
            async for part in connection.body():
                *events, text = (text + part).split(END_OF_EVENT)
                for event in events if status == 200 else ():
                    if not event.startswith(COMMENT):
                        yield (event + END_OF_EVENT).decode()
        finally:
            connection.close()

    async def _connection(self, address: str) -> PeerConnection:
        idle = self._idle.get(address, [])
        while idle:
            since, connection = idle.pop()
            if monotonic() - since < IDLE_S and not connection.is_broken:
                return connection
            connection.close()
        try:
            return await asyncio.wait_for(PeerConnection.to(address), CONNECT_S)
        except (OSError, TimeoutError) as error:
            raise NotReached(f"{address}: {error}") from None

    async def close(self) -> None:
        """Close the connections to all of them."""
        connections = [connection for idle in self._idle.values() for _, connection in idle]
        self._idle.clear()
        for connection in connections:
            connection.close()
        for connection in connections:
            await connection.closed()

    def _put_back(self, address: str, connection: PeerConnection) -> None:
        idle = self._idle.setdefault(address, [])
        while idle and monotonic() - idle[0][0] > IDLE_S:
            idle.pop(0)[1].close()
        if connection.can_go_on():
            idle.append((monotonic(), connection))
        else:
            connection.close()


class PeerConnection:
    """A connection to another process."""

    def __init__(self, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._host, self._reader, self._writer = host, reader, writer
        self._state = h11.Connection(h11.CLIENT)

    @classmethod
    async def to(cls, address: str) -> PeerConnection:
        """Connect to a process at an address."""
        parts = urlsplit(address)
        secured = ssl.create_default_context() if parts.scheme == "https" else None
        port = parts.port or (443 if secured else 80)
        reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=secured)
        return cls(parts.netloc, reader, writer)

    @property
    def is_broken(self) -> bool:
        """Whether the other side has hung up."""
        return self._reader.at_eof() or self._writer.is_closing()

    async def begin(self, method: str, target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Send the head of a request, which says that it was sent on."""
        ours = [(b"host", self._host.encode()), (FORWARDED, b"1")]
        await self._send(h11.Request(method=method, target=target, headers=[*ours, *headers]))

    async def add(self, part: bytes | None) -> None:
        """Send a part of the body; None: there is no more."""
        await self._send(h11.EndOfMessage() if part is None else h11.Data(data=part))

    async def answer(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Wait for the head of the answer."""
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                return event.status_code, list(event.headers)

    async def body(self) -> AsyncIterator[bytes]:
        """Read the body of the answer as it comes."""
        while isinstance(event := await self._event(), h11.Data):
            yield bytes(event.data)

    def can_go_on(self) -> bool:
        """Say whether another request can be sent, and prepare for it."""
        if self._state.our_state is h11.DONE and self._state.their_state is h11.DONE and not self.is_broken:
            self._state.start_next_cycle()
            return True
        return False

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def closed(self) -> None:
        """Wait until it is closed."""
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _send(self, event: Any) -> None:
        data = self._state.send(event)
        if data:
            self._writer.write(data)
            await self._writer.drain()

    async def _event(self) -> Any:
        while (event := self._state.next_event()) is h11.NEED_DATA:
            data = await self._reader.read(CHUNK)
            self._state.receive_data(data)  # nothing: the other side has hung up, and h11 says what that means
        return event


async def _parts(receive: Receive) -> AsyncIterator[bytes | None]:
    """Read the parts of the body of a request, and None at its end."""
    more = True
    while more:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            raise HttpRefusal(499, "gone", "the client disconnected before the whole body had arrived")
        if message.get("body"):
            yield message["body"]
        more = message.get("more_body", False)
    yield None


async def _while_held(answer: Coroutine[Any, Any, Result], still_held: Callable[[], bool]) -> Result:
    """Wait for an answer, however long it takes, as long as the other process is waited for."""
    waiting = asyncio.ensure_future(answer)
    try:
        while not (await asyncio.wait((waiting,), timeout=LOOK_EVERY_S))[0]:
            if not still_held():
                raise TimeoutError("it does not respond")
        return waiting.result()
    finally:
        waiting.cancel()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _credentials(request: Request) -> list[tuple[bytes, bytes]]:
    return [(key, value) for key, value in request.scope["headers"] if key == b"authorization"]


async def create_at(elsewhere: HeldElsewhere, request: Request, body: BaseModel) -> Response:
    """Have a controller created by the process that holds its name already."""
    if elsewhere.address is None or FORWARDED.decode() in request.headers:
        raise elsewhere
    content = json.dumps(requests.plain(body, exclude_unset=True)).encode()
    headers = [*_credentials(request), (b"content-type", JSON.encode())]
    peers, leases, address = request.app.state.peers, request.app.state.controllers.sharing.leases, elsewhere.address
    asked = peers.fetch(address, "POST", "/controllers", headers, content)
    try:
        status, answer = await _while_held(asked, lambda: address in leases.members.values())
    except (NotReached, OSError, TimeoutError, h11.ProtocolError):
        raise elsewhere from None
    return Response(answer, status, media_type=JSON)


async def with_others(controllers: Controllers, request: Request, own: AsyncIterator[str]) -> AsyncIterator[str]:
    """Follow what happens here and at all other processes, until what happens here ends."""
    if controllers.sharing is None or FORWARDED.decode() in request.headers:
        async for text in own:
            yield text
        return
    leases, peers, credentials = controllers.sharing.leases, request.app.state.peers, _credentials(request)
    waiting: asyncio.Queue[str | None] = asyncio.Queue(WAITING)
    followed: dict[str, asyncio.Task[None]] = {}

    async def follow(address: str) -> None:
        with suppress(NotReached, OSError, h11.ProtocolError):
            async for text in peers.events(address, credentials):
                await waiting.put(text)

    async def follow_all() -> None:
        while True:
            for address in (address for member, address in leases.members.items() if member != leases.id):
                if address not in followed or followed[address].done():  # new, or lost and perhaps back again
                    followed[address] = asyncio.create_task(follow(address))
            await asyncio.sleep(LOOK_EVERY_S)

    async def here() -> None:
        async for text in own:
            await waiting.put(text)
        await waiting.put(None)

    tasks = [asyncio.create_task(work) for work in (here(), follow_all())]
    try:
        while (event := await waiting.get()) is not None:
            yield event
    finally:
        for task in (*tasks, *followed.values()):
            task.cancel()
        await asyncio.gather(*tasks, *followed.values(), return_exceptions=True)


async def listed_elsewhere(controllers: Controllers, request: Request) -> dict[str, dict[str, Any] | None]:
    """List all controllers by name, as those list them who hold them elsewhere; None: here, or nobody answers."""
    if controllers.sharing is None or FORWARDED.decode() in request.headers:
        return {}
    leases, peers, credentials = controllers.sharing.leases, request.app.state.peers, _credentials(request)

    async def listed(address: str) -> list[dict[str, Any]]:
        with suppress(NotReached, OSError, TimeoutError, h11.ProtocolError, ValueError, KeyError, TypeError):
            asked = peers.fetch(address, "GET", "/controllers", credentials)
            _, answer = await asyncio.wait_for(asked, LISTED_S)
            found: list[dict[str, Any]] = json.loads(answer)["controllers"]
            return found
        return []

    others = [address for member, address in leases.members.items() if member != leases.id]
    found: dict[str, dict[str, Any] | None] = dict.fromkeys(await run_sync(leases.look_at_all))
    for there in await asyncio.gather(*map(listed, others)):
        found |= {each["id"]: each for each in there}
    return found


def was_sent_on(request: Request) -> bool:
    """Say whether another process sent this, which has looked at it already."""
    return FORWARDED.decode() in request.headers


async def tell_others(controllers: Controllers, request: Request, body: BaseModel | None = None) -> None:
    """Have every other process do the same, as far as they answer; for what each of them keeps for itself."""
    if controllers.sharing is None or was_sent_on(request):
        return
    leases, peers = controllers.sharing.leases, request.app.state.peers
    content = b"" if body is None else json.dumps(requests.plain(body, exclude_unset=True)).encode()
    headers = [*_credentials(request), (b"content-type", JSON.encode())]

    async def told(address: str) -> None:
        with suppress(NotReached, OSError, TimeoutError, h11.ProtocolError):
            asked = peers.fetch(address, request.method, request.url.path, headers, content)
            await asyncio.wait_for(asked, LISTED_S)

    await asyncio.gather(*map(told, await run_sync(leases.others)))
