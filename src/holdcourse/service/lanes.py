"""Who goes next: a few at a time, operators before everybody, the others client by client.

A client is a token or, where there are none, an address. However many requests one of them sends, the next one of
another client waits for one of his, not for all of them. A client who leaves loses his place in the queue, so that
nothing is computed for nobody.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from holdcourse.service.refusals import Refusal
from holdcourse.service.tokens import Author

Place: TypeAlias = "asyncio.Future[None]"


async def never() -> None:
    """How those leave who do not, or whose leaving is noticed elsewhere."""
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
        """A place, after waiting for it if need be; refused where too many wait already."""
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

    async def _wait(self, caller: Caller) -> None:
        loop = asyncio.get_running_loop()
        queues = self._first if caller.first else self._others
        self._check_quota(queues, caller)
        place: Place = loop.create_future()
        queues.setdefault(caller.client, deque()).append(place)

        def gone(_: asyncio.Future[None]) -> None:
            if not place.done():
                place.set_exception(Refusal(499, "gone", "the client left before it was his turn; nothing was done"))

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
            raise over_quota(f"{own} requests of {caller.client} wait for {self._what} already", "one client")
        total = sum(len(queue) for queue in queues.values())
        if not caller.first and total >= self._waiting:
            raise over_quota(f"{total} requests wait for {self._what} already", "all clients")


class Quota:
    """How many things one client may have under way at once."""

    def __init__(self, what: str, each: int) -> None:
        self._what, self._each = what, each
        self._counts: Counter[str] = Counter()

    @contextmanager
    def one(self, client: str) -> Iterator[None]:
        """One more, until the end of the block."""
        if self._counts[client] >= self._each:
            raise over_quota(f"{client} has {self._each} {self._what} already", "one client")
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
        """Wait for one's time."""
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


def over_quota(words: str, whose: str) -> Refusal:
    """What is said to a client who has had his share."""
    return Refusal(429, "busy", f"{words}, the most for {whose}; wait for an answer, or try again in a moment")
