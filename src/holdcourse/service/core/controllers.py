"""All controllers of one process: opened, made and watched over.

Each controller has one turn at a time, which requests wait for without holding a thread; so one that is slow, or being
opened, keeps nobody waiting but its own clients. What takes long is done beside the turn, a few things at a time.
Operators who take a machine, and the watchdog, go first and have threads of their own: they wait for the one thing that
is being done now, and for nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from holdcourse.errors import (
    Conflict,
    DatabaseUnreachable,
    HoldcourseError,
    InvalidInput,
    LeaseLost,
    LogError,
    computing,
    log_error,
)
from holdcourse.running.events import Author, Settings, plain
from holdcourse.running.witness import Witness
from holdcourse.service.core import configuration, epochs
from holdcourse.service.core.clients import SERVICE, Broadcast, Caller, Lane, Latency, Quota
from holdcourse.service.core.data_folder import DataFolder
from holdcourse.service.core.hosted import Done, Hosted
from holdcourse.service.core.jobs import Jobs
from holdcourse.service.core.journal import Journal
from holdcourse.service.core.readings import with_readings
from holdcourse.service.core.refusals import Broken, HeldElsewhere, NotOpenYet, Unknown
from holdcourse.service.core.requests import Config
from holdcourse.service.core.status import Clock
from holdcourse.service.core.store import Store

if TYPE_CHECKING:  # they need an extra
    from holdcourse.service.core.leases import Leases, Sharing

logger = logging.getLogger("holdcourse.service")
Result = TypeVar("Result")

THREADS = 64  # turns of that many controllers at once
OPERATOR_THREADS = 16
WATCHDOG_THREADS = 4
PARSING_THREADS = 2
LONG_BODIES = 8  # being received or parsed at once, and of one client ...
LONG_BODIES_EACH = 1
LOOKING = 4  # light reads at once, and of one client ...
LOOKING_EACH = 2
HEAVY = 2  # rebuilding and verifying at once: they must not crowd out decisions ...
HEAVY_EACH = 1
MAX_WAITING = 256  # requests for one controller, or for a read, in all ...
WAITING_EACH = 96  # ... and of one client
LONG_WAITING_EACH = 8
REQUESTS_EACH = 256  # of one client, waiting, being read or answered
OPERATOR_REQUESTS_EACH = 16
STREAMS_EACH = 32
WATCH_EVERY_S = 0.5


class Slot:
    """The slot of one controller: its turn, and the controller once it is open, or why it is not."""

    def __init__(self, name: str) -> None:
        self.name, self.turn = name, Lane(name, 1, 1, MAX_WAITING, WAITING_EACH)
        self.hosted: Hosted | None = None
        self.broken: str | None = None
        self.tried = asyncio.Event()  # once there is a controller, or a reason why not
        self.watching: asyncio.Task[None] | None = None
        self.is_leaving = False  # another process takes it over, or has done so
        self.is_deleted = False
        self._alone = Lock()  # a request that is cut off leaves its thread running

    def use(self, action: Callable[[Hosted], Result], author: Author | None = None) -> Result:
        """Do something with the controller, in a thread that has the turn; recorded in the author's name."""
        with self._alone:
            hosted = self.open()
            if hosted.store.leases is not None:
                hosted.store.leases.check_held(hosted.id)
            try:
                with hosted.acted_by(author):
                    return action(hosted)
            except LogError:
                if hosted.controller.log.lost is not None:  # for good: only a restart finds out what is there now
                    self.broken = f"{self.name} has stopped: {hosted.controller.log.lost}"
                raise

    def alone(self) -> Lock:
        """Return what keeps others from using the controller meanwhile, for a thread that has the turn."""
        return self._alone

    def close(self) -> None:
        """Let go of the controller's files, once nobody uses them."""
        with self._alone:
            if self.hosted is not None:
                self.hosted.close()

    def open(self) -> Hosted:
        """Return the controller, or the reason why there is none."""
        if self.broken is not None:
            raise Broken(self.broken)
        if self.hosted is None:
            if self.is_deleted:
                raise Unknown("controller", self.name, "it was deleted a moment ago")
            raise NotOpenYet("the controller is being opened; try again in a moment")
        return self.hosted


class Controllers:
    """Holds all controllers of the process, and gives each of them one turn at a time."""

    def __init__(
        self, store: Store, broadcast: Broadcast, clock: Clock | None = None, witness: Witness | None = None
    ) -> None:
        self.store, self.broadcast, self.clock, self._witness = store, broadcast, clock or Clock(), witness
        self.jobs = Jobs(store.jobs if isinstance(store, DataFolder) else None, self.clock)
        self.journal = Journal(store.notes, self.clock)
        self.slots: dict[str, Slot] = {}
        self.opening: set[str] = set()  # found in the folder and not open yet
        self.latencies: dict[tuple[str, str], Latency] = defaultdict(Latency)
        self.requests = Quota("requests under way", REQUESTS_EACH)
        self.operator_requests = Quota("operator's requests under way", OPERATOR_REQUESTS_EACH)
        self.streams = Quota("streams of events", STREAMS_EACH)
        self._tasks: set[asyncio.Task[None]] = set()
        self.sharing: Sharing | None = None  # where other processes hold controllers, too
        self.is_fleet: Callable[[str], bool] = lambda name: False  # whether a fleet has this name

    async def start(self) -> None:
        """Open all that is there, in the background."""
        self._threads, self._operators, self._watchdogs = (  # pools: a turn is short, and limiters take longer than it
            ThreadPoolExecutor(count, name)
            for name, count in (("turn", THREADS), ("operator", OPERATOR_THREADS), ("watchdog", WATCHDOG_THREADS))
        )
        self._opening = CapacityLimiter(HEAVY)
        self._parsing = CapacityLimiter(PARSING_THREADS)
        self._readers = CapacityLimiter(LOOKING + HEAVY + 1)  # one for each place in these lanes:
        self._looking = Lane("a look at the records", LOOKING, LOOKING_EACH, MAX_WAITING, WAITING_EACH)
        self._heavy = Lane("a read that takes long", HEAVY, HEAVY_EACH, MAX_WAITING, LONG_WAITING_EACH)
        self.long_bodies = Lane("a long body to be read", LONG_BODIES, LONG_BODIES_EACH, MAX_WAITING, LONG_WAITING_EACH)
        self._copying = Lane("a back-up", 1, 1, LONG_WAITING_EACH, LONG_WAITING_EACH)
        self.broadcast.start()
        await run_sync(self._finish_deletions, limiter=self._opening)
        there = self.store.ids()
        self.jobs.start(lambda name: name in there)
        for name in there:
            self.open_here(name)
        self._spawn(self._watch())
        self._spawn(self._watch_files())
        if self.store.leases is not None:
            from holdcourse.service.core.leases import Sharing

            self.sharing = Sharing(self.store.leases, self)
            self._spawn(self.sharing.keep())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def open_here(self, name: str) -> None:
        """Open a controller that this process holds, in the background, unless that is done already."""
        if name not in self.slots:
            slot = self.slots[name] = Slot(name)
            self.opening.add(name)
            slot.turn.enter(SERVICE.client)  # whoever asks for it waits until it is open
            self._spawn(self._open(name, slot))

    def let_go(self, name: str, *, for_good: bool = True) -> None:
        """Close a controller once nobody uses it; the next who asks for it opens it again.

        `for_good` lets another process hold it.
        """
        slot = self.slots.get(name)
        if slot is not None and not slot.is_leaving:
            slot.is_leaving = True
            self._spawn(self._let_go(name, slot, for_good=for_good))

    async def _let_go(self, name: str, slot: Slot, *, for_good: bool) -> None:
        async with slot.turn.place(SERVICE):
            try:
                await run_sync(slot.close)
                if self.store.leases is not None and for_good:
                    await run_sync(self.store.leases.release, name)
                    await run_sync(self.store.leases.look, name)  # those who wait here are told where it is
            except HoldcourseError as error:  # others wait for the lease, then
                logger.warning("%s could not be handed over: %s", name, error)
            finally:
                self._forget(name, slot)

    def _forget(self, name: str, slot: Slot) -> None:
        if self.slots.get(name) is slot:
            del self.slots[name]

    def is_deleted(self, name: str) -> bool:
        """Say whether there is no such controller any more; whoever was looking at it finds its files closed."""
        return self.store.leases is None and (name not in self.slots or self.slots[name].is_deleted)

    def is_leaving(self, name: str) -> bool:
        """Say whether a controller is about to be closed here."""
        return name in self.slots and self.slots[name].is_leaving

    def is_busy(self, name: str) -> bool:
        """Say whether something is being done with a controller."""
        return name not in self.slots or self.slots[name].turn.is_full

    async def stop(self) -> None:
        """Let go of all files."""
        self.broadcast.close()
        await self.jobs.stop()
        tasks = [*self._tasks, *(slot.watching for slot in self.slots.values() if slot.watching is not None)]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError, Exception):  # whatever it was, the files must be closed
                await task
        for slot in self.slots.values():
            async with slot.turn.place(SERVICE):
                await run_sync(slot.close)
        for pool in (self._threads, self._operators, self._watchdogs):
            pool.shutdown(wait=False)
        await run_sync(self.store.close)

    @property
    def broken(self) -> list[str]:
        """Controllers whose record cannot be used."""
        return [name for name, slot in self.slots.items() if slot.broken is not None]

    def slot(self, name: str) -> Slot:
        """Return the slot of a controller; it is an error where there is no such controller."""
        found = self.slots.get(name)
        if found is None:
            held = None if self.store.leases is None else self.store.leases.holder_of(name)
            if held is not None:
                raise HeldElsewhere(name, held.address)
            raise Unknown("controller", name, "GET /controllers lists those that there are")
        return found

    async def opened(self, name: str) -> Hosted:
        """Return the controller, for looking at it; waits only while it is being opened."""
        slot = self.slot(name)
        await slot.tried.wait()
        found = slot.open()
        if self.store.leases is not None:
            self.store.leases.check_held(name)
        return found

    async def do(
        self, name: str, action: Callable[[Hosted], Done], caller: Caller, timed: str | None = None
    ) -> dict[str, Any]:
        """Take a turn of a controller; returns the answer, after those who watch were told."""
        began, slot = perf_counter(), self.slot(name)
        async with slot.turn.place(caller):
            self._check_there(name, slot)
            try:
                done: Done = await self._in_thread(caller, slot.use, action, caller.author)
            except LogError as error:
                if self.store.leases is not None:  # what is in the record by now, only the record can say
                    self.let_go(name, for_good=isinstance(error, LeaseLost))
                if slot.broken is not None:
                    self.broadcast.publish(name, "state", {"broken": True})
                raise
            for kind, data in done.happened:
                self.broadcast.publish(name, kind, data)
        if timed is not None:
            self.latencies[name, timed].add(perf_counter() - began)
        return done.answer

    async def borrow(self, name: str, action: Callable[[Hosted], Result], caller: Caller) -> Result:
        """Take a turn to look at what only its thread may look at."""
        slot = self.slot(name)
        async with slot.turn.place(caller):
            self._check_there(name, slot)
            return await self._in_thread(caller, slot.use, action)

    def _check_there(self, name: str, slot: Slot) -> None:
        """Raise where a slot is not that of the controller any more: it was made in vain, or another process has it."""
        if slot.is_leaving or self.slot(name) is not slot:
            raise NotOpenYet(f"{name} is being opened again, here or by another process; try again in a moment")

    async def look(self, action: Callable[[], Result], caller: Caller) -> Result:
        """Read something quick, which needs no turn."""
        async with self._looking.place(caller):
            return await run_sync(action, limiter=self._readers)

    async def read(self, action: Callable[[], Result], caller: Caller) -> Result:
        """Read something that takes long and needs no turn: one thing at a time for a client."""
        async with self._heavy.place(caller):
            return await run_sync(action, limiter=self._readers)

    async def copy(self, action: Callable[[], Result], caller: Caller) -> Result:
        """Make a back-up; those who only look cannot take its place."""
        async with self._copying.place(caller):
            return await run_sync(action, limiter=self._readers)

    async def parse(self, action: Callable[[], Result]) -> Result:
        """Take in a long body."""
        return await run_sync(action, limiter=self._parsing)

    async def _in_thread(self, caller: Caller, function: Callable[..., Result], *given: Any) -> Result:
        """Do something in a thread of the pool that is for this caller."""
        first = self._watchdogs if caller is SERVICE else self._operators
        pool = first if caller.first else self._threads
        return await asyncio.get_running_loop().run_in_executor(pool, function, *given)

    async def create(self, config: Config, caller: Caller) -> tuple[dict[str, Any], bool]:
        """Create a controller, or find the one created with the same settings before; say whether it is new."""
        being_made = self.jobs.making(config.id)
        if being_made is not None:
            raise self.jobs.in_the_making(being_made)
        if config.readings is not None:
            config = await self.parse(lambda: with_readings(config))
        settings = await self.parse(lambda: configuration.settings_of(config))
        return await self._create(settings, lambda: self._write_first(settings, config, caller.author), caller)

    async def take_over(
        self, settings: Settings, unfinished: Path | None, caller: Caller
    ) -> tuple[dict[str, Any], bool]:
        """Take over the record of a new controller, which a worker wrote; or compare with the one that exists."""

        def publish() -> None:
            if unfinished is None:
                raise Conflict(f"{settings.id} has just been deleted; send the request again")
            assert isinstance(self.store, DataFolder)  # others have no jobs
            self.store.publish(unfinished, self.store.next_epoch(settings.id)[1])

        return await self._create(settings, publish, caller)

    def exists(self, name: str) -> bool:
        """Return whether there is a controller of this name, be it broken."""
        return name in self.slots or bool(self.store.epochs(name))

    async def _create(
        self, settings: Settings, begin: Callable[[], None], caller: Caller
    ) -> tuple[dict[str, Any], bool]:
        """Open a controller, whose first record `begin` makes where there is none."""
        name = settings.id
        if self.is_fleet(name):
            raise Conflict(
                f"{name} is the id of a fleet, and tokens are given for ids; use another id", "fleet", "controller"
            )
        while True:
            slot = self.slots.setdefault(name, Slot(name))
            async with slot.turn.place(caller):
                if self.slots.setdefault(name, slot) is slot:  # else whoever was making it failed, and another tries
                    return await self._created(name, slot, settings, begin, caller)

    async def _created(
        self, name: str, slot: Slot, settings: Settings, begin: Callable[[], None], caller: Caller
    ) -> tuple[dict[str, Any], bool]:
        if slot.hosted is not None or slot.broken is not None:
            return _existing(slot.open(), settings), False
        try:
            await self._claim(name)
            is_new = not await run_sync(self.store.epochs, name)  # else an earlier attempt failed after it had a name
            slot.hosted = await self._in_thread(caller, self._make, name, begin)
        except BaseException:
            del self.slots[name]
            if self.store.leases is not None:
                self._spawn(self._disclaim(name, self.store.leases))
            raise
        finally:
            slot.tried.set()
        self.broadcast.publish(name, "state", {"created": True})
        return (slot.hosted.view.state(), True) if is_new else (_existing(slot.hosted, settings), False)

    async def _claim(self, name: str) -> None:
        """Hold the controller that is to be created; an error where another process does."""
        leases = self.store.leases
        if leases is not None and not await run_sync(leases.claim, name):
            raise HeldElsewhere(name, await run_sync(leases.address_of, name))

    async def _disclaim(self, name: str, leases: Leases) -> None:
        with suppress(HoldcourseError):  # then others wait for the lease
            await run_sync(leases.release, name)

    def _write_first(self, settings: Settings, config: Config, author: Author | None) -> None:
        with computing():
            history = configuration.history_of(config, lambda: configuration.problem_of(settings))
            epochs.begin(self.store, settings, history, author, configuration.policy_file_of(config))

    def _make(self, name: str, begin: Callable[[], None]) -> Hosted:
        try:
            if not self.store.epochs(name):
                begin()
        except HoldcourseError:
            raise
        except OSError as error:
            raise log_error(f"cannot begin a record in {self.store.place(name)}: {error}", error) from error
        return Hosted(self.store, name, self.clock, self._witness)

    async def delete(self, name: str, typed: str, reason: str, caller: Caller) -> dict[str, Any]:
        """Delete a controller that is archived, for good; `typed` must be its name."""
        slot = self.slot(name)
        async with slot.turn.place(caller):
            self._check_there(name, slot)
            done = await self._in_thread(caller, self._delete, name, slot, typed, reason, caller.author)
            del self.slots[name]
            for kind in [kind for kind in self.latencies if kind[0] == name]:
                del self.latencies[kind]
            self.broadcast.publish(name, "state", {"deleted": True})
        return done

    def _delete(self, name: str, slot: Slot, typed: str, reason: str, author: Author | None) -> dict[str, Any]:
        with slot.alone():
            hosted = slot.open()
            shown = hosted.view.state()
            if not hosted.view.is_archived:
                words = f"{name} is not archived; archive it first (POST /controllers/{name}/archive), then delete it"
                raise Conflict(words, "in use", "delete")
            if typed != shown["name"]:
                raise InvalidInput(f"type the name of the controller, {shown['name']!r}, to delete it; got {typed!r}")
            about = {
                "at": self.clock.now().isoformat(timespec="milliseconds"),
                "controller": name,
                "name": shown["name"],
                "by": None if author is None else plain(author),
                "reason": reason,
                "rounds": shown["round"],
                "events": hosted.ledger.seen,
                "epochs": shown["epoch"],
            }
            slot.is_deleted = True  # for those who are looking at it just now
            hosted.close()
            try:
                gone = self.store.take_out(name, about)
            except BaseException:
                slot.is_deleted = False
                slot.hosted = Hosted(self.store, name, self.clock, self._witness)
                raise
            slot.hosted = None
        self.finish_deletion(gone)
        return {"deleted": name, "name": shown["name"], "at": about["at"]}

    def _finish_deletions(self) -> None:
        for gone in self.store.taken_out():
            self.finish_deletion(gone)

    def finish_deletion(self, gone: Path) -> None:
        """Remove what is deleted, and say so in the journal once; what fails is done at the next start."""

        def note(about: dict[str, Any]) -> None:
            if any(line.get("deletion") == about["deletion"] for line in self.journal.lines()):
                return
            said = {name: value for name, value in about.items() if name not in ("at", "by")}
            what = "fleet deleted" if "fleet" in about else "controller deleted"
            self.journal.add(what, decided_at=about.get("at"), **said, by=_author(about.get("by")))

        try:
            self.store.remove(gone, note)
        except (OSError, HoldcourseError) as error:
            logger.warning("%s is deleted, but not all of its files could be removed yet: %s", gone.name, error)

    async def _open(self, name: str, slot: Slot) -> None:
        try:
            slot.hosted = await run_sync(Hosted, self.store, name, self.clock, self._witness, limiter=self._opening)
        except (DatabaseUnreachable, LeaseLost) as error:  # it is tried again, here or by another process
            logger.warning("%s cannot be opened now: %s", name, error)
            self._forget(name, slot)
        except HoldcourseError as error:
            slot.broken = f"{name} cannot be opened: {error}"
            logger.error("%s", slot.broken)
        except Exception as error:
            slot.broken = f"{name} cannot be opened: {type(error).__name__}: {error}"
            logger.exception("%s", slot.broken)
        finally:
            self.opening.discard(name)
            slot.tried.set()
            slot.turn.leave(SERVICE.client)

    async def _watch(self) -> None:
        """Keep watch: nobody telling or asking within the deadline is an alarm, whoever looks."""
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            for name, slot in list(self.slots.items()):
                is_watched = slot.watching is not None and not slot.watching.done()
                if slot.hosted is not None and slot.hosted.view.has_unreported and not is_watched:
                    slot.watching = asyncio.create_task(self._report(name))  # one that is slow delays no other

    async def _watch_files(self) -> None:
        """Notice records that somebody takes away, also while nobody asks."""
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            here = [slot.hosted for slot in self.slots.values() if slot.hosted is not None and slot.broken is None]
            gone = await run_sync(self._gone, here)  # a disk on the network may hang
            await asyncio.gather(*(self._check_files(name) for name in gone if not self.is_busy(name)))

    def _gone(self, hosted: Sequence[Hosted]) -> list[str]:
        """List the controllers whose records are not where they were."""
        return [each.id for each in hosted if not self.store.is_there(each.id, each.epoch)]

    async def _check_files(self, name: str) -> None:
        try:
            await self.do(name, lambda hosted: hosted.check_files(), SERVICE)
        except HoldcourseError:
            return  # the log has said it
        except Exception:
            logger.exception("cannot look for the record of %s", name)

    async def _report(self, name: str) -> None:
        try:
            await self.do(name, lambda hosted: hosted.watch(), SERVICE)
        except HoldcourseError as error:  # a full disk, say: the state says so anyway; it is tried again
            logger.warning("cannot record that %s is late: %s", name, error)
        except Exception:
            logger.exception("cannot watch %s", name)


def _author(by: Any) -> Author | None:
    return Author(by["token"], by["name"]) if isinstance(by, dict) else None


def _existing(hosted: Hosted, settings: Settings) -> dict[str, Any]:
    recorded, given = hosted.view.config, plain(settings)
    different = [name for name in given if given[name] != recorded.get(name)]
    if different:
        recorded = configuration.in_words(hosted.view.settings, hosted.controller.session.policy.problem)
        given = configuration.in_words(settings, configuration.problem_of(settings))
        raise Conflict(
            f"{settings.id} already exists with other settings ({', '.join(different)}); change it with PATCH, or use "
            "another id",
            {name: recorded.get(name) for name in different},
            {name: given.get(name) for name in different},
        )
    return hosted.view.state()
