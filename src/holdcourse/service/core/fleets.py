"""Fleets of the service: many members of one kind, asked and told in one request, with one record.

A fleet is what `holdcourse.fleet` makes, kept on the disk. It has no limits, modes, overrides or alarms, and no epochs:
where one member needs these, that is a controller. Each fleet has one turn at a time, and threads of its own, so that
controllers do not wait for what a thousand members compute.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from numpy.typing import NDArray
from pydantic import ValidationError

import holdcourse as hc
from holdcourse.checks import hours_since_1970
from holdcourse.deciding import recipe
from holdcourse.deciding.policy import Policy
from holdcourse.errors import Conflict, HoldcourseError, InvalidInput, LogError, TooLarge, computing, log_error
from holdcourse.learning.costs import Profiled, has
from holdcourse.mistakes import all_in_words, keys_of
from holdcourse.movement.problem import Problem
from holdcourse.movement.settings import index_of
from holdcourse.running.events import Author, Cause, FleetCreated, Settings, Snapshot, plain
from holdcourse.running.fleet import FleetDecisions
from holdcourse.running.witness import Witness
from holdcourse.service.core import configuration, requests
from holdcourse.service.core.clients import SERVICE, Caller, Lane
from holdcourse.service.core.controllers import HEAVY, MAX_WAITING, WAITING_EACH, Controllers
from holdcourse.service.core.fleet_requests import FleetAskGiven, FleetGiven, FleetTellGiven
from holdcourse.service.core.fleet_sums import FleetSums
from holdcourse.service.core.ledger import plain_value
from holdcourse.service.core.refusals import Broken, NotOpenYet, Unknown
from holdcourse.service.core.status import Clock, price_in_words
from holdcourse.service.core.store import Store

logger = logging.getLogger("holdcourse.service")
Result = TypeVar("Result")

THREADS = 2  # fleets that compute at once
MAX_STATE = 2**29  # bytes that the members of a fleet may remember
MAX_CHOICES = 1_000_000  # members times settings: each may have a tree of its own over all settings
NO_STORE = "fleets are kept in a data folder, and this service keeps its records in a database; start one with --data"


class HostedFleet:
    """One fleet with its record.

    Attributes
    ----------
    fleet
        What decides; only whoever has the turn may use it.
    settings
        As it was created.
    sums
        What members have measured and moved so far; needs no turn.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        clock: Clock,
        witness: Witness | None = None,
        changed: Callable[[HostedFleet], None] = lambda hosted: None,
    ) -> None:
        self.id, self._changed = name, changed
        store.check_newest(name)
        record = store.epochs(name)[-1]
        assert isinstance(record, Path)  # only folders hold fleets
        self.fleet = hc.Fleet.resume(record, witness=witness)
        try:
            assert self.fleet.record is not None
            self.fleet.record.log.clock = clock.now
            first = next(self.fleet.record.log.events())
            assert isinstance(first.body, FleetCreated)  # written before the record got its name
            self.settings, self._explanation, self._created_at = first.body.config, first.body.explanation, first.at
            self._values = [plain_value(self._problem.value(k)) for k in range(self._problem.n)]
            self.sums = FleetSums(self.fleet, record)
            newest = self.fleet.record.log.events(after=max(self.fleet.record.log.last - 2, 0))
            self._publish([event.at for event in newest if not isinstance(event.body, Snapshot)][-1])
        except BaseException:
            self.fleet.close()
            raise

    @property
    def _problem(self) -> Problem:
        return self.fleet.policy.problem

    @property
    def lost(self) -> str | None:
        """Why nothing is written any more: somebody took the record away. None while all is well."""
        assert self.fleet.record is not None
        return self.fleet.record.log.lost

    def close(self) -> None:
        """Let go of the record's files."""
        self.fleet.close()

    def ask(self, given: FleetAskGiven, author: Author | None) -> dict[str, Any]:
        """Decide, or answer as before where the call was answered."""
        contexts, allowed = self._contexts(given), self._allowed(given.allowed)
        mask = None if given.mask is None else self._mask(given.mask)
        with computing():
            decisions = self._signed(author, lambda: self.fleet.ask(contexts, allowed, mask, given.call))
        return {"call": decisions.call, **self._parts(decisions, given.answer)}

    def tell(self, given: FleetTellGiven, author: Author | None) -> dict[str, Any]:
        """Take in what was measured."""
        values = self._per_member(given.measurements, "measurements")
        mask = None if given.mask is None else self._mask(given.mask)
        with computing():
            self._signed(author, lambda: self.fleet.tell(values, mask, given.call))
        return {"call": given.call, "pending": int(self.fleet.pending.sum())}

    def _signed(self, author: Author | None, act: Callable[[], Result]) -> Result:
        """Do something in somebody's name, and show what came of it."""
        record = self.fleet.record
        assert record is not None
        record.author, before = author, record.log.last
        try:
            result = act()
        finally:
            record.author = None
        if record.log.last > before:
            self._publish(record.at)
            self._changed(self)
        return result

    def state(self) -> dict[str, Any]:
        """Say what everybody may look at, which nobody has to wait for."""
        return self._shown

    def members(self) -> dict[str, Any]:
        """Say where every member is; for whoever has the turn."""
        fleet = self.fleet
        return {
            "next_call": fleet.next_call,
            "action": fleet.action.tolist(),
            "setting": [self._values[k] for k in fleet.action.tolist()],
            "round": fleet.round.tolist(),
            "pending": fleet.pending.tolist(),
            "call": [None if call < 0 else call for call in fleet.last_call.tolist()],
        }

    def _publish(self, at: str) -> None:
        fleet, settings = self.fleet, self.settings
        assert fleet.record is not None
        rounds = fleet.round
        self._shown = {
            "id": self.id,
            "name": settings.name or self.id,
            "policy": fleet.policy.name,
            "explanation": self._explanation,
            "count": fleet.count,
            "seed": settings.seed,
            "settings": self._values,
            "units": plain(settings.units),
            "maximise": settings.maximise,
            "start": self._values[settings.start],
            "price_in_words": price_in_words(settings),
            "context_names": settings.context_names,
            "next_call": fleet.next_call,
            "decisions": int(rounds.sum()),
            "rounds": [int(rounds.min()), int(rounds.max())],
            "pending": int(fleet.pending.sum()),
            "at": np.bincount(fleet.action, minlength=self._problem.n).tolist(),
            "created_at": self._created_at,
            "last_at": at,
            "events": fleet.record.log.last,
            "head": fleet.record.log.chain,
        }

    def _parts(self, decisions: FleetDecisions, wanted: list[Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if "setting" in wanted:
            found["setting"] = [self._values[k] for k in decisions.action.tolist()]
        if "action" in wanted:
            found["action"] = decisions.action.tolist()
        if "probabilities" in wanted:
            known = ~np.isnan(decisions.probabilities[:, 0])
            rows = decisions.probabilities.tolist()
            found["probabilities"] = [row if is_known else None for row, is_known in zip(rows, known, strict=True)]
        if "expected_cost" in wanted:
            found["expected_cost"] = [None if y != y else y for y in decisions.expected_cost.tolist()]
        return found

    def _contexts(self, given: FleetAskGiven) -> Any:
        """Return contexts as a fleet takes them, NaN where there is none."""
        if given.time is not None:
            if not has(self.fleet.policy.costs, Profiled):
                raise InvalidInput(f"the contexts of {self.fleet.policy.name} are not times; give context or contexts")
            return self.fleet.policy.costs.context_at(hours_since_1970(given.time))
        if given.context is not None:
            row = np.atleast_1d(np.array(given.context, dtype=np.float64))
            if not len(row):
                raise InvalidInput("context is empty; give at least one number")
            return np.broadcast_to(row, (self.fleet.count, len(row)))
        rows: Any = given.contexts
        widths = {len(row) for row in rows if isinstance(row, list)}
        if not widths:
            return self._per_member(rows, "contexts")
        if len(widths) > 1 or 0 in widths:
            raise InvalidInput(f"contexts must all have the same number of numbers, at least one; got {sorted(widths)}")
        nothing = [float("nan")] * widths.pop()
        return self._per_member([nothing if row is None else row for row in rows], "contexts")

    def _per_member(self, given: list[Any], name: str) -> NDArray[np.float64]:
        if len(given) != self.fleet.count:
            raise InvalidInput(f"{name} must be one for each of {self.fleet.count} members, got {len(given)}")
        return np.array(given, dtype=np.float64)  # null becomes NaN

    def _mask(self, given: list[bool]) -> NDArray[np.bool_]:
        if len(given) != self.fleet.count:
            raise InvalidInput(f"mask must be one for each of {self.fleet.count} members, got {len(given)}")
        mask = np.array(given, dtype=bool)
        if not mask.any():
            raise InvalidInput("mask leaves out every member; include at least one, or send no request")
        return mask

    def _allowed(self, given: list[Any] | None) -> NDArray[np.bool_] | None:
        if given is None:
            return None
        if given and all(isinstance(each, bool) for each in given):
            return np.array(given, dtype=bool)
        mask = np.zeros(self._problem.n, dtype=bool)
        mask[[index_of(self._problem, each, "allowed") for each in given]] = True
        return mask


class FleetSlot:
    """The slot of one fleet: its turn, and the fleet once it is open, or why it is not."""

    def __init__(self, name: str) -> None:
        self.name, self.turn = name, Lane(name, 1, 1, MAX_WAITING, WAITING_EACH)
        self.hosted: HostedFleet | None = None
        self.broken: str | None = None
        self.tried = asyncio.Event()
        self.alone = Lock()  # a request that is cut off leaves its thread running

    def open(self) -> HostedFleet:
        """Return the fleet, or the reason why there is none."""
        if self.broken is not None:
            raise Broken(self.broken)
        if self.hosted is None:
            raise NotOpenYet("the fleet is being opened; try again in a moment")
        return self.hosted

    def use(self, action: Callable[[HostedFleet], Result]) -> Result:
        """Do something with the fleet, in a thread that has the turn."""
        with self.alone:
            hosted = self.open()
            try:
                return action(hosted)
            except LogError:
                if hosted.lost is not None:  # for good: only a restart finds out what is there now
                    self.broken = f"{self.name} has stopped: {hosted.lost}"
                raise

    def close(self) -> None:
        """Let go of the fleet's files, once nobody uses them."""
        with self.alone:
            if self.hosted is not None:
                self.hosted.close()


class HostedFleets:
    """Holds all fleets of the process, and gives each of them one turn at a time.

    Parameters
    ----------
    controllers
        Whose names fleets may not have, and who keeps the journal.
    witness
        Who is told how far records have come.
    """

    def __init__(self, controllers: Controllers, witness: Witness | None = None) -> None:
        self._controllers, self._witness = controllers, witness
        self._store: Store | None = controllers.store.fleets
        self.slots: dict[str, FleetSlot] = {}
        self.opening: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        controllers.is_fleet = self.slots.__contains__

    async def start(self) -> None:
        """Open all that is there, in the background."""
        self._threads, self._openers = ThreadPoolExecutor(THREADS, "fleet"), CapacityLimiter(HEAVY)
        for name in [] if self._store is None else self._store.ids():
            slot = self.slots[name] = FleetSlot(name)
            self.opening.add(name)
            slot.turn.enter(SERVICE.client)  # whoever asks for it waits until it is open
            task = asyncio.create_task(self._open(slot))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Let go of all files."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for slot in self.slots.values():
            async with slot.turn.place(SERVICE):
                await run_sync(slot.close)
        self._threads.shutdown(wait=False)

    @property
    def broken(self) -> list[str]:
        """Fleets whose record cannot be used."""
        return [name for name, slot in self.slots.items() if slot.broken is not None]

    @property
    def store(self) -> Store:
        """Where the records are; it is an error where the service keeps none of fleets."""
        if self._store is None:
            raise InvalidInput(NO_STORE)
        return self._store

    def slot(self, name: str) -> FleetSlot:
        """Return the slot of a fleet; it is an error where there is no such fleet."""
        found = self.slots.get(name)
        if found is None:
            raise Unknown("fleet", name, NO_STORE if self._store is None else "GET /fleets lists those that there are")
        return found

    async def opened(self, name: str) -> HostedFleet:
        """Return the fleet, for looking at it; waits only while it is being opened."""
        slot = self.slot(name)
        await slot.tried.wait()
        return slot.open()

    async def do(self, name: str, action: Callable[[HostedFleet], Result], caller: Caller) -> Result:
        """Take a turn of a fleet."""
        slot = self.slot(name)
        async with slot.turn.place(caller):
            if self.slots.get(name) is not slot:
                raise NotOpenYet(f"{name} was deleted or could not be made; try again in a moment")
            try:
                return await self._in_thread(slot.use, action)
            except LogError:
                if slot.broken is not None:
                    self._controllers.broadcast.publish(name, "fleet", {}, of="fleet")
                raise

    async def _in_thread(self, function: Callable[..., Result], *given: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *given)

    # -- made and deleted ----------------------------------------------------------------------------------------------

    async def create(self, given: FleetGiven, caller: Caller) -> tuple[dict[str, Any], bool]:
        """Create a fleet, or find the one created with the same settings before; say whether it is new."""
        store, name = self.store, given.id
        config, settings = await self._controllers.parse(lambda: _settings_of(given))
        while True:
            if self._controllers.exists(name) or self._controllers.jobs.making(name) is not None:
                words = f"{name} is the id of a controller, and tokens are given for ids; use another id"
                raise Conflict(words, "controller", "fleet")
            slot = self.slots.setdefault(name, FleetSlot(name))
            async with slot.turn.place(caller):
                if self.slots.setdefault(name, slot) is not slot:
                    continue  # whoever was making it failed, and another tries
                if slot.hosted is not None or slot.broken is not None:
                    return _existing(slot.open(), settings, given.count), False
                try:
                    slot.hosted = await self._in_thread(self._make, store, config, settings, given.count, caller.author)
                except BaseException:
                    del self.slots[name]
                    raise
                finally:
                    slot.tried.set()
                self._tell_of(slot.hosted)
                return slot.hosted.state(), True

    def _make(
        self, store: Store, config: requests.Config, settings: Settings, count: int, author: Author | None
    ) -> HostedFleet:
        """Write the record of a new fleet, and open it."""
        try:
            with computing():
                _write(store, config, settings, count, author)
        except HoldcourseError:
            raise
        except OSError as error:
            raise log_error(f"cannot begin a record in {store.place(settings.id)}: {error}", error) from error
        return self._opened(settings.id)

    def _opened(self, name: str) -> HostedFleet:
        """Open a record that is there."""
        return HostedFleet(self.store, name, self._controllers.clock, self._witness, self._tell_of)

    def _tell_of(self, hosted: HostedFleet) -> None:
        """Tell all who watch how far a fleet has come."""
        shown = {name: hosted.state()[name] for name in ("next_call", "pending", "last_at")}
        self._controllers.broadcast.publish(hosted.id, "fleet", shown, of="fleet")

    async def delete(self, name: str, typed: str, reason: str, caller: Caller) -> dict[str, Any]:
        """Delete a fleet for good; `typed` must be its name."""
        slot = self.slot(name)
        async with slot.turn.place(caller):
            if self.slots.get(name) is not slot:
                raise Unknown("fleet", name, "it was deleted a moment ago")
            done = await self._in_thread(self._delete, slot, typed, reason, caller.author)
            del self.slots[name]
            self._controllers.broadcast.publish(name, "fleet", {"deleted": True}, of="fleet")
        return done

    def _delete(self, slot: FleetSlot, typed: str, reason: str, author: Author | None) -> dict[str, Any]:
        with slot.alone:
            hosted = slot.open()
            shown = hosted.state()
            if typed != shown["name"]:
                raise InvalidInput(f"type the name of the fleet, {shown['name']!r}, to delete it; got {typed!r}")
            at = self._controllers.clock.now().isoformat(timespec="milliseconds")
            about = {name: shown[name] for name in ("name", "count", "decisions", "events")}
            about |= {"at": at, "fleet": slot.name, "by": None if author is None else plain(author), "reason": reason}
            hosted.close()
            try:
                gone = self.store.take_out(slot.name, about)
            except BaseException:
                slot.hosted = self._opened(slot.name)
                raise
            slot.hosted = None
        self._controllers.finish_deletion(gone)
        return {"deleted": slot.name, "name": shown["name"], "at": at}

    async def _open(self, slot: FleetSlot) -> None:
        try:
            slot.hosted = await run_sync(self._opened, slot.name, limiter=self._openers)
        except Exception as error:
            what = str(error) if isinstance(error, HoldcourseError) else f"{type(error).__name__}: {error}"
            slot.broken = f"{slot.name} cannot be opened: {what}"
            logger.error("%s", slot.broken, exc_info=not isinstance(error, HoldcourseError))
        finally:
            self.opening.discard(slot.name)
            slot.tried.set()
            slot.turn.leave(SERVICE.client)
            self._controllers.broadcast.publish(slot.name, "fleet", {}, of="fleet")


def _settings_of(given: FleetGiven) -> tuple[requests.Config, Settings]:
    """Return a fleet as a controller of the same kind would be described, and its settings as the record holds them."""
    said: Mapping[str, Any] = given.model_dump(exclude={"count"}, exclude_unset=True)
    try:
        config = requests.Config.model_validate(said)
    except ValidationError as error:  # what a policy's file says was given too
        words = all_in_words(error.errors(include_url=False, include_context=False), keys_of(FleetGiven))
        raise InvalidInput(words) from None
    return config, configuration.settings_of(config)


def _write(store: Store, config: requests.Config, settings: Settings, count: int, author: Author | None) -> None:
    problem, file = configuration.problem_of(settings), configuration.policy_file_of(config)
    problem.check_action(settings.start)
    if file is None:
        policy = configuration.policy_of(settings, problem, None)
    else:
        configuration.require_room(settings)
        policy = file.policy()
    recipe.describe(policy)  # raises where the record could not be opened again
    _check_room(policy, count)
    unfinished, final = store.next_epoch(settings.id)
    assert isinstance(unfinished, Path)  # only folders hold fleets
    with hc.fleet(policy, count, seed=settings.seed, start_index=settings.start).recorded(unfinished) as made:
        cause = None if author is None else Cause(by=author)
        made.record.write(FleetCreated(settings, policy.explanation, extra=cause))
    store.publish(unfinished, final)


def _check_room(policy: Policy, count: int) -> None:
    """Raise where members would take turns, or take more room than a fleet may, before they are made."""
    n = policy.problem.n
    if count * n > MAX_CHOICES:
        raise TooLarge(
            f"{count} members with {n} settings each are {count * n:,} choices, but a fleet may have {MAX_CHOICES:,}; "
            f"make fleets of at most {MAX_CHOICES // n} members, or use fewer settings"
        )
    one = hc.fleet(policy, 1)
    if not one.in_lockstep:
        raise InvalidInput(
            f"members of {policy.name} with these options would be asked one after the other, so a fleet would gain "
            "nothing; use gp-md with a kernel and with contexts or context_bounds, use a wind planner's file, or make "
            "controllers and ask them with POST /ask"
        )
    each = sum(array.nbytes for array in one.arrays().values())
    if each * count > MAX_STATE:
        raise TooLarge(
            f"{count} members would need {each * count / 2**20:.0f} MiB, but a fleet may have {MAX_STATE // 2**20} "
            f"MiB; make fleets of at most {MAX_STATE // each} members, or give longer length scales, which need fewer "
            "weights"
        )


def _existing(hosted: HostedFleet, settings: Settings, count: int) -> dict[str, Any]:
    recorded, given = plain(hosted.settings) | {"count": hosted.fleet.count}, plain(settings) | {"count": count}
    different = [name for name in given if given[name] != recorded.get(name)]
    if different:
        raise Conflict(
            f"{hosted.id} already exists with other settings ({', '.join(different)}), and a fleet cannot be changed; "
            "use another id",
            {name: recorded.get(name) for name in different},
            {name: given[name] for name in different},
        )
    return hosted.state()
