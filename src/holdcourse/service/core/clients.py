"""Many clients at once: who goes next, how long it took, and who is told what happens.

A client is a token or, where there are none, an address. A few are served at a time, operators before everybody, the
others client by client: however many requests one of them sends, the next one of another client waits for one of his,
not for all of them. A client who leaves loses his place in the queue, so that nothing is computed for nobody.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from holdcourse.running.events import Author
from holdcourse.service.core.refusals import Busy, ClientLeft

Place: TypeAlias = "asyncio.Future[None]"
BACKLOG = 256  # messages; a watcher who is further behind is let go, and loads the state when it comes back
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


async def never() -> None:
    """Never return: for callers who do not leave, or whose leaving is noticed elsewhere."""
    await asyncio.get_running_loop().create_future()


@dataclass(frozen=True)
class Caller:
    """Whose request it is.

    Attributes
    ----------
    client
        Whose quota it counts for.
    first
        Whether it goes before those that are not: an operator who takes the machine, and the watchdog.
    left
        Returns once the client has gone; whoever still waits then gives up.
    author
        In whose name it is recorded; None: nobody's.
    """

    client: str
    first: bool = False
    left: Callable[[], Awaitable[None]] = never
    author: Author | None = None


SERVICE = Caller("the service itself", first=True)


class Lane:
    """Places for some at a time, and a queue for each client, served by turns.

    Parameters
    ----------
    what
        What is waited for, in the words of a refusal.
    places, each
        How many may be in at once: in all, and of one client.
    waiting, waiting_each
        How many may wait: in all, and of one client. Operators have a queue of their own, of `waiting_each` for each.
    """

    def __init__(self, what: str, places: int, each: int, waiting: int, waiting_each: int) -> None:
        self._what, self._places, self._each = what, places, each
        self._waiting, self._waiting_each = waiting, waiting_each
        self._inside: Counter[str] = Counter()
        self._busy = 0
        self._first: dict[str, deque[Place]] = {}  # by client, those whose turn it is first
        self._others: dict[str, deque[Place]] = {}

    @property
    def is_full(self) -> bool:
        """Whether whoever comes now must wait."""
        return self._busy >= self._places

    @asynccontextmanager
    async def place(self, caller: Caller) -> AsyncIterator[None]:
        """Take a place, after waiting for it if need be; refuse it where too many wait already."""
        if not self.enter(caller.client):
            await self._wait(caller)
        try:
            yield
        finally:
            self.leave(caller.client)

    def enter(self, client: str) -> bool:
        """Take a place if one is free. Those who wait then wait for their own client's places, so nobody is passed."""
        if self.is_full or self._inside[client] >= self._each:
            return False
        self._busy += 1
        self._inside[client] += 1
        return True

    def leave(self, client: str) -> None:
        """Give a place back, to those who wait."""
        self._busy -= 1
        self._inside[client] -= 1
        if not self._inside[client]:
            del self._inside[client]
        for queues in (self._first, self._others):
            for other in list(queues):
                if self.is_full:
                    return
                queue = deque(place for place in queues.pop(other) if not place.done())  # the others have just left
                if queue and self.enter(other):
                    queue.popleft().set_result(None)
                if queue:
                    queues[other] = queue  # behind the other clients

    def check_room(self, caller: Caller) -> None:
        """Raise where too many wait already for one more to wait."""
        if self.is_full or self._inside[caller.client] >= self._each:
            self._check_quota(self._first if caller.first else self._others, caller)

    async def _wait(self, caller: Caller) -> None:
        loop = asyncio.get_running_loop()
        queues = self._first if caller.first else self._others
        self._check_quota(queues, caller)
        place: Place = loop.create_future()
        queues.setdefault(caller.client, deque()).append(place)

        def gone(_: asyncio.Future[None]) -> None:
            if not place.done():
                place.set_exception(ClientLeft("the client disconnected before its turn; nothing was done"))

        watching = asyncio.ensure_future(caller.left())
        watching.add_done_callback(gone)
        try:
            await place
        except BaseException:
            if place.done() and not place.cancelled() and place.exception() is None:  # got it and was cut off at once
                self.leave(caller.client)
            elif place in (queue := queues.get(caller.client, deque())):
                queue.remove(place)
                if not queue:
                    del queues[caller.client]
            raise
        finally:
            watching.remove_done_callback(gone)
            watching.cancel()

    def _check_quota(self, queues: dict[str, deque[Place]], caller: Caller) -> None:
        own = len(queues.get(caller.client, ()))
        if own >= self._waiting_each:
            raise Busy(f"{own} requests of {caller.client} are already waiting for {self._what}", "one client")
        total = sum(len(queue) for queue in queues.values())
        if not caller.first and total >= self._waiting:
            raise Busy(f"{total} requests are already waiting for {self._what}", "all clients")


class Quota:
    """How many things one client may have under way at once."""

    def __init__(self, what: str, each: int) -> None:
        self._what, self._each = what, each
        self._counts: Counter[str] = Counter()

    @contextmanager
    def one(self, client: str) -> Iterator[None]:
        """Count one more thing until the end of the block; refused where the client has all that he may."""
        if self._counts[client] >= self._each:
            raise Busy(f"{client} already has {self._each} {self._what}", "one client")
        self._counts[client] += 1
        try:
            yield
        finally:
            self._counts[client] -= 1
            if not self._counts[client]:
                del self._counts[client]


class Pace:
    """How many requests are begun each time round the event loop; the others wait for the next time.

    To take in a request takes a millisecond in which nothing else is done. With hundreds at once an operator's request
    would wait for all of them at each of its steps.
    """

    def __init__(self, each: int) -> None:
        self._each, self._begun, self._is_running = each, 0, False
        self._waiting: deque[Place] = deque()

    async def step(self) -> None:
        """Wait until this request may begin."""
        loop = asyncio.get_running_loop()
        if not self._is_running:
            self._is_running = True
            loop.call_soon(self._go_round, loop)
        if self._begun < self._each and not self._waiting:
            self._begun += 1
            return
        place: Place = loop.create_future()
        self._waiting.append(place)
        await place

    def _go_round(self, loop: asyncio.AbstractEventLoop) -> None:
        self._begun = 0
        while self._waiting and self._begun < self._each:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                self._begun += 1
        self._is_running = self._begun > 0
        if self._is_running:
            loop.call_soon(self._go_round, loop)


class Latency:
    """How long answers took: counts by upper bound, and their sum."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one more answer."""
        place = next((k for k, bound in enumerate(BUCKETS_S) if seconds <= bound), len(BUCKETS_S))
        self.counts[place] += 1
        self.total += seconds


class Message(NamedTuple):
    """What watchers are told of one change on a controller or a fleet, by its name; `data` is JSON."""

    name: str
    kind: str
    data: str


class Broadcast:
    """Hands messages, from any thread, to all who watch."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watchers: dict[asyncio.Queue[Message | None], Callable[[str], bool]] = {}
        self._closed = False

    def start(self) -> None:
        """Hand over in the running loop from now on."""
        self._loop = asyncio.get_running_loop()

    def publish(self, name: str, kind: str, data: dict[str, Any], of: str = "controller") -> None:
        """Tell all who watch the controller, or the fleet, of this name; may be called from any thread."""
        if self._loop is not None and self._watchers and not self._closed:
            message = Message(name, kind, json.dumps({of: name, **data}))
            self._loop.call_soon_threadsafe(self._hand_out, message)

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        for queue in self._watchers:
            _end(queue)

    def _hand_out(self, message: Message) -> None:
        for queue, wants in self._watchers.items():
            if wants(message.name):
                if queue.full():
                    _end(queue)
                else:
                    queue.put_nowait(message)

    @contextmanager
    def watching(self, wants: Callable[[str], bool]) -> Iterator[asyncio.Queue[Message | None]]:
        """Collect the messages of controllers that a watcher wants; None at the end, or where he is too far behind."""
        queue: asyncio.Queue[Message | None] = asyncio.Queue(BACKLOG)
        self._watchers[queue] = wants
        if self._closed:
            _end(queue)
        try:
            yield queue
        finally:
            del self._watchers[queue]


def _end(queue: asyncio.Queue[Message | None]) -> None:
    while not queue.empty():
        queue.get_nowait()
    queue.put_nowait(None)
