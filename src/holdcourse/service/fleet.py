"""All controllers of one process: opened, made and watched over.

Each controller has one turn at a time, which requests wait for without holding a thread; so one that is slow, or being
opened, keeps nobody waiting but its own clients.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock
from time import perf_counter
from typing import Any, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from holdcourse.errors import HoldcourseError
from holdcourse.log import LogError
from holdcourse.service import epochs, refusals
from holdcourse.service.clock import Clock
from holdcourse.service.hosted import Done, Hosted
from holdcourse.service.live import Hub
from holdcourse.service.metrics import Latency
from holdcourse.service.refusals import Refusal
from holdcourse.service.schemas import Config, plain
from holdcourse.service.store import DataFolder
from holdcourse.service.tokens import Author

logger = logging.getLogger("holdcourse.service")
Result = TypeVar("Result")

THREADS = 64
HEAVY_THREADS = 2  # rebuilding, verifying, copying: they must not crowd out decisions
MAX_WAITING = 256  # requests for one controller
WATCH_EVERY_S = 0.5


class Berth:
    """The place of one controller: its turn, and the controller once it is open, or why it is not."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.waiting = 0
        self.hosted: Hosted | None = None
        self.broken: str | None = None
        self._alone = Lock()  # a request that is cut off leaves its thread running

    def use(self, action: Callable[[Hosted], Result]) -> Result:
        """Do something with the controller, in a thread that has the turn."""
        with self._alone:
            return action(self.open())

    def open(self) -> Hosted:
        """The controller, or the reason why there is none."""
        if self.hosted is None:
            if self.broken is None:
                raise Refusal(503, "opening", "the controller is being opened; try again in a moment")
            raise Refusal(503, "broken", self.broken)
        return self.hosted


class Fleet:
    """See the module's docstring."""

    def __init__(self, store: DataFolder, hub: Hub, clock: Clock | None = None) -> None:
        self.store, self.hub, self.clock = store, hub, clock or Clock()
        self.berths: dict[str, Berth] = {}
        self.opening: set[str] = set()  # found in the folder and not open yet
        self.latencies: dict[tuple[str, str], Latency] = defaultdict(Latency)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Open all that is there, in the background."""
        self._threads, self._heavy = CapacityLimiter(THREADS), CapacityLimiter(HEAVY_THREADS)
        self.hub.start()
        for name in self.store.ids():
            berth = self.berths[name] = Berth()
            self.opening.add(name)
            await berth.turn.acquire()  # whoever asks for it waits until it is open
            self._tasks.append(asyncio.create_task(self._open(name, berth)))
        self._tasks.append(asyncio.create_task(self._watch()))

    async def stop(self) -> None:
        """Let go of all files."""
        self.hub.close()
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError, Exception):  # whatever it was, the files must be closed
                await task
        for berth in self.berths.values():
            async with berth.turn:
                if berth.hosted is not None:
                    berth.hosted.close()
        self.store.close()

    @property
    def broken(self) -> list[str]:
        """Controllers whose record could not be opened."""
        return [name for name, berth in self.berths.items() if berth.broken is not None]

    def berth(self, name: str) -> Berth:
        """The place of a controller."""
        found = self.berths.get(name)
        if found is None:
            raise refusals.unknown("controller", name, "create it with POST /controllers")
        return found

    async def opened(self, name: str) -> Hosted:
        """The controller, for looking at it; waits only while it is being opened."""
        berth = self.berth(name)
        if berth.hosted is None and berth.broken is None:
            async with berth.turn:
                pass
        return berth.open()

    async def do(self, name: str, action: Callable[[Hosted], Done], timed: str | None = None) -> dict[str, Any]:
        """Take a turn of a controller; returns the answer, after those who watch were told."""
        began, berth = perf_counter(), self.berth(name)
        if berth.waiting >= MAX_WAITING:
            raise Refusal(429, "busy", f"{berth.waiting} requests wait for {name} already; try again in a moment")
        berth.waiting += 1
        try:
            async with berth.turn:
                self.berth(name)  # it may have been in the making, in vain
                done = await run_sync(berth.use, action, limiter=self._threads)
                for kind, data in done.happened:
                    self.hub.publish(name, kind, data)
        finally:
            berth.waiting -= 1
        if timed is not None:
            self.latencies[name, timed].add(perf_counter() - began)
        return done.answer

    async def borrow(self, name: str, action: Callable[[Hosted], Result]) -> Result:
        """Take a turn to look at what only its thread may look at."""
        berth = self.berth(name)
        async with berth.turn:
            return await run_sync(berth.use, action, limiter=self._threads)

    async def beside(self, action: Callable[[], Result], *, heavy: bool = False) -> Result:
        """Do something that needs no turn, in a thread."""
        return await run_sync(action, limiter=self._heavy if heavy else self._threads)

    async def create(self, config: Config, author: Author) -> tuple[dict[str, Any], bool]:
        """A new controller, or the one that was created with the same settings before; whether it is new."""
        settings, name = await self.beside(lambda: _settings(config)), config.id  # a history may be long
        while True:
            berth = self.berths.setdefault(name, Berth())
            async with berth.turn:
                if self.berths.setdefault(name, berth) is berth:  # else whoever was making it failed, and another tries
                    return await self._created(name, berth, settings, config, author)

    async def _created(
        self, name: str, berth: Berth, settings: Mapping[str, Any], config: Config, author: Author
    ) -> tuple[dict[str, Any], bool]:
        if berth.hosted is not None or berth.broken is not None:
            return _existing(berth.open(), settings), False
        is_new = not self.store.epochs(name)  # else an earlier attempt failed after the record got its name
        try:
            berth.hosted = await run_sync(self._make, settings, config, author, limiter=self._threads)
        except BaseException:
            del self.berths[name]
            raise
        self.hub.publish(name, "state", {"created": True})
        return (berth.hosted.view.state(), True) if is_new else (_existing(berth.hosted, settings), False)

    def _make(self, settings: Mapping[str, Any], config: Config, author: Author) -> Hosted:
        history = None if config.history is None else plain(config, include={"history"})["history"]
        try:
            if not self.store.epochs(config.id):
                with refusals.computing():
                    epochs.begin(self.store, settings, history, author)
        except OSError as error:
            raise LogError(f"cannot begin a record in {self.store.folder(config.id)}: {error}") from error
        return Hosted(self.store, config.id, self.clock)

    async def _open(self, name: str, berth: Berth) -> None:
        try:
            berth.hosted = await run_sync(Hosted, self.store, name, self.clock, limiter=self._heavy)
        except HoldcourseError as error:
            berth.broken = f"{name} cannot be opened: {error}"
            logger.error("%s", berth.broken)
        except Exception as error:
            berth.broken = f"{name} cannot be opened: {type(error).__name__}: {error}"
            logger.exception("%s", berth.broken)
        finally:
            self.opening.discard(name)
            berth.turn.release()

    async def _watch(self) -> None:
        """The watchdog: nobody telling or asking within the deadline is an alarm, whoever looks."""
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            for name, berth in list(self.berths.items()):
                if berth.hosted is not None and berth.hosted.view.has_unreported and not berth.turn.locked():
                    try:
                        await self.do(name, lambda hosted: hosted.watch())
                    except HoldcourseError as error:  # a full disk, say: the state says so anyway; try again
                        logger.warning("cannot record that %s is late: %s", name, error)
                    except Exception:  # one that cannot be watched must not keep the others from being watched
                        logger.exception("cannot watch %s", name)


def _settings(config: Config) -> dict[str, Any]:
    """The settings as the record holds them; of the history a fingerprint."""
    settings = plain(config, exclude={"history"})
    history = None if config.history is None else plain(config, include={"history"})["history"]
    return settings | {"history_count": len(history or ()), "history_sha256": epochs.digest(history)}


def _existing(hosted: Hosted, settings: Mapping[str, Any]) -> dict[str, Any]:
    recorded = hosted.view.config
    different = [name for name in settings if settings[name] != recorded[name]]
    if different:
        raise refusals.conflict(
            f"{settings['id']} exists with another {', '.join(different)}; change it with PATCH, or take another id",
            {name: recorded[name] for name in different},
            {name: settings[name] for name in different},
        )
    return hosted.view.state()
