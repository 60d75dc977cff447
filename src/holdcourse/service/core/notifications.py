"""People are told of alarms: when one is raised, again while nobody has acknowledged it, and when it is over.

A thread looks at what everybody may look at, so no question ever waits for it. Each target has a queue and a thread of
its own: one that cannot be reached keeps nobody else waiting, is tried again with longer and longer pauses, and is an
alarm itself on the controllers that it should have spoken of. The queue holds one notice for each alarm, and so many
alarms at most; one that finds no room is offered again at the next look, for as long as it is open.

What was said is kept in the data folder, so that a restart neither forgets an alarm nor says it twice. A notice that
was delivered in the moment of a crash is sent again under the same id.

A silence keeps alarms of a controller, or of a kind, from being said until some time; they are said then, if they are
still open.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdcourse import archive
from holdcourse.errors import HoldcourseError, InvalidInput
from holdcourse.service.core.clients import SERVICE
from holdcourse.service.core.notices import KINDS, UNTOLD, Event, Notice, NotifyFile, Target

if TYPE_CHECKING:
    from holdcourse.service.core.controllers import Controllers

logger = logging.getLogger("holdcourse.service")

LOOK_EVERY_S = 0.5
MOST_WAITING = 200  # notices for one target
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0  # after a failure, doubled in between
UNTOLD_S = 60.0  # a target that has failed for so long is an alarm
MOST_SILENCES = 100
FORGOTTEN_S = 86_400.0  # that an alarm is over is not news any more after a day
FILE = "notified.json"


@dataclass(frozen=True)
class OpenAlarm:
    """An alarm that is open, on one controller; `at` is empty if no record says when it was raised."""

    controller: str
    name: str
    kind: str
    message: str
    at: str
    acknowledged: bool

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from any other."""
        return self.controller, self.kind, self.at


@dataclass(frozen=True)
class Silence:
    """Nobody is told of the alarms of a controller, or of a kind, until some time; None: of all of them."""

    id: str
    until: str
    controller: str | None = None
    kind: str | None = None
    reason: str = ""
    by: str = ""

    def covers(self, controller: str, kind: str, now: datetime) -> bool:
        """Whether it holds for an alarm, now."""
        matches = self.controller in (None, controller) and self.kind in (None, kind)
        return matches and now < datetime.fromisoformat(self.until)


@dataclass
class SentNotice:
    """What a target was told of an alarm: the words, how often, and when last (seconds since 1970)."""

    notice: Notice
    times: int
    last: float


@dataclass
class Outbox:
    """A target's queue, by alarm, and how it fares."""

    target: Target
    waiting: dict[tuple[str, str, str], Notice] = field(default_factory=dict)
    said: dict[tuple[str, str, str], SentNotice] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("sent", "failed", "dropped"), 0))
    failing_since: float | None = None  # monotonic
    error: str = ""
    logged: float = float("-inf")


class Notifier:
    """See the module's docstring.

    Parameters
    ----------
    file
        Who is told.
    folder
        The data folder, where it is kept what was said.
    open_alarms
        Returns all alarms that are open, and the controllers of which nobody can say, because they are not open yet or
        broken; called from a thread of the notifier.
    untold
        Called with a controller and why nobody could be told of its alarms; None: they were.
    """

    def __init__(
        self,
        file: NotifyFile,
        folder: Path,
        open_alarms: Callable[[], tuple[list[OpenAlarm], set[str]]],
        untold: Callable[[str, str | None], None] = lambda controller, why: None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._file, self._path = file, folder / FILE
        self._open_alarms, self._untold, self._wall = open_alarms, untold, wall
        self._lock, self._wake = threading.Lock(), threading.Condition()
        self.outboxes = {target.called: Outbox(target) for target in file.targets}
        self.silences: dict[str, Silence] = {}
        self._wished: dict[tuple[str, bool], float] = {}  # what controllers were asked to record, and when
        self._stopping = False
        self._threads: list[threading.Thread] = []
        self._load()

    def start(self) -> None:
        """Look and deliver from now on, in threads."""
        jobs: list[tuple[Callable[..., None], tuple[Any, ...]]] = [(self._watch, ())]
        jobs += [(self._deliver, (outbox,)) for outbox in self.outboxes.values()]
        for job, given in jobs:
            self._threads.append(threading.Thread(target=job, args=given, name="holdcourse notifier", daemon=True))
            self._threads[-1].start()

    def stop(self) -> None:
        """Stop; what waits is still open at the next start, or over. A target that hangs is not waited for."""
        self._stopping = True
        with self._wake:
            self._wake.notify_all()
        for thread in self._threads:
            thread.join(1.0)

    # -- what is to be said --------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._stopping:
            try:
                self.look()
            except Exception:  # people must go on being told of the rest
                logger.exception("cannot look for alarms to report")
            with self._wake:
                self._wake.wait(LOOK_EVERY_S)

    def look(self) -> None:
        """Put into the queues what is to be said now."""
        now, (found, unknown) = self._wall(), self._open_alarms()
        alarms = [self._dated(alarm, now) for alarm in found if alarm.kind != UNTOLD]
        keys = {alarm.key for alarm in alarms}
        with self._lock:
            for outbox in self.outboxes.values():
                for alarm in alarms:
                    if outbox.target.wants(alarm.controller, alarm.kind):
                        self._consider(outbox, alarm, now)
                known = {*outbox.said, *outbox.waiting}
                self._consider_cleared(outbox, keys | {key for key in known if key[0] in unknown}, now)
        with self._wake:
            self._wake.notify_all()
        self._complain({alarm.controller for alarm in found if alarm.kind == UNTOLD})

    def warn_of_unknown(self, there: set[str]) -> None:
        """Log which controllers of the file have no record: of a misspelt one nobody would ever be told."""
        for outbox in self.outboxes.values():
            unknown = ", ".join(sorted(set(outbox.target.controllers) - there))
            if unknown:
                words = (
                    f"{outbox.target.called} is to be notified of alarms of {unknown}, of which there is no record yet"
                )
                logger.warning("%s", f"{words}; check the names in the file of --notify")

    def _dated(self, alarm: OpenAlarm, now: float) -> OpenAlarm:
        """Return an alarm with the time at which it was first noticed, which a restart does not change.

        Else a record that breaks again a year later would have notices with the same ids, which receivers leave out.
        """
        if alarm.at:
            return alarm
        with self._lock:
            noticed = (key for outbox in self.outboxes.values() for key in (*outbox.said, *outbox.waiting))
            since = next((at for controller, kind, at in noticed if (controller, kind) == alarm.key[:2]), None)
        return replace(alarm, at=since or datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds"))

    def _consider(self, outbox: Outbox, alarm: OpenAlarm, now: float) -> None:
        said = outbox.said.get(alarm.key)
        if alarm.acknowledged or self._is_silent(alarm.controller, alarm.kind, now):
            outbox.waiting.pop(alarm.key, None)
            return
        if alarm.key in outbox.waiting:
            return
        if said is None:
            self._put(outbox, alarm.key, _notice("raised", alarm, 0))
        elif self._file.repeat is not None and now - said.last >= self._file.repeat:
            self._put(outbox, alarm.key, _notice("repeated", alarm, said.times))

    def _consider_cleared(self, outbox: Outbox, keys: set[tuple[str, str, str]], now: float) -> None:
        for key in [
            key for key in outbox.waiting if key not in keys and outbox.waiting[key].event in ("raised", "repeated")
        ]:
            if key not in outbox.said:  # it is over before anybody could be told: both are said at once
                notice = outbox.waiting.pop(key)
                outbox.said[key] = SentNotice(notice, 0, now)
            else:
                del outbox.waiting[key]
        for key, said in list(outbox.said.items()):
            if key in keys or key in outbox.waiting:
                continue
            silent = self._is_silent(key[0], key[1], now)
            if not self._file.say_cleared or silent or now - said.last > FORGOTTEN_S:
                del outbox.said[key]
                self._save()
            else:
                notice = replace(said.notice, id=_id("cleared", key, said.times), event="cleared", times=said.times)
                self._put(outbox, key, notice)

    def _put(self, outbox: Outbox, key: tuple[str, str, str], notice: Notice) -> None:
        if len(outbox.waiting) >= MOST_WAITING:
            outbox.counts["dropped"] += 1
            return
        outbox.waiting[key] = notice

    def _is_silent(self, controller: str, kind: str, now: float) -> bool:
        at = datetime.fromtimestamp(now, UTC)
        return any(silence.covers(controller, kind, at) for silence in self.silences.values())

    # -- saying it -----------------------------------------------------------------------------------------------------

    def _deliver(self, outbox: Outbox) -> None:
        pause = FIRST_PAUSE_S
        while not self._stopping:
            with self._wake:
                self._wake.wait_for(lambda: bool(outbox.waiting) or self._stopping)
            if self._stopping:
                return
            if self.deliver(outbox):
                pause = FIRST_PAUSE_S
            else:
                until = time.monotonic() + pause
                while not self._stopping and time.monotonic() < until:
                    time.sleep(min(0.1, pause))
                pause = min(2 * pause, LONGEST_PAUSE_S)

    def deliver(self, outbox: Outbox) -> bool:
        """Say what waits, once; returns whether that worked."""
        with self._lock:
            batch = dict(list(outbox.waiting.items())[: outbox.target.together])
        if not batch:
            return True
        try:
            outbox.target.send(list(batch.values()))
        except Exception as error:  # whatever a server on the other side makes of it
            with self._lock:
                self._failed(outbox, error)
            return False
        with self._lock:
            outbox.failing_since, outbox.error = None, ""
            outbox.counts["sent"] += len(batch)
            for key, notice in batch.items():
                if outbox.waiting.get(key) is notice:
                    del outbox.waiting[key]
                if notice.event in ("raised", "repeated"):
                    outbox.said[key] = SentNotice(notice, notice.times + 1, self._wall())
                elif notice.event == "cleared":
                    outbox.said.pop(key, None)
            self._save()
        return True

    def _failed(self, outbox: Outbox, error: Exception) -> None:
        now = time.monotonic()
        outbox.counts["failed"] += 1
        outbox.error = f"{type(error).__name__}: {error}"[:300]
        outbox.failing_since = now if outbox.failing_since is None else outbox.failing_since
        if now - outbox.logged > UNTOLD_S:
            logger.warning("alarms cannot be sent (%s): %s", outbox.target.called, outbox.error)
            outbox.logged = now

    def _complain(self, said: set[str]) -> None:
        """Have it recorded by its controllers that nobody could be told, and that somebody was again.

        `said` are those whose record says so now: it may be from before a restart, and a record may not be written to
        just now. What is not recorded within a minute is therefore wished again.
        """
        now, found = time.monotonic(), dict[str, str]()
        with self._lock:
            for outbox in self.outboxes.values():
                if outbox.failing_since is not None and now - outbox.failing_since > UNTOLD_S:
                    # Not the error: it is for those who may do everything, and whoever may look sees an alarm.
                    who = outbox.target.called
                    words = f"its alarms could not be sent ({who}); GET /notifications and the log say why"
                    found |= {controller: words for controller, *_ in outbox.waiting if controller}
        wishes: dict[tuple[str, bool], str | None] = {(controller, False): None for controller in said - set(found)}
        wishes |= {(controller, True): found[controller] for controller in set(found) - said}
        self._wished = {wish: at for wish, at in self._wished.items() if wish in wishes and now - at < UNTOLD_S}
        for wish, why in wishes.items():
            if wish not in self._wished:
                self._wished[wish] = now
                self._untold(wish[0], why)

    # -- what people may do --------------------------------------------------------------------------------------------

    def silence(self, until: str, controller: str | None, kind: str | None, reason: str, by: str) -> Silence:
        """Begin a silence; the same again changes nothing."""
        try:
            at = datetime.fromisoformat(until)
            if at.tzinfo is None:
                raise InvalidInput(f"until needs a time zone, as in 2026-03-01T07:00:00Z, got {until!r}")
            at = at.astimezone(UTC)
        except InvalidInput:
            raise
        except (ValueError, OverflowError):  # no time, or one beyond the calendar
            raise InvalidInput(f"until must be a time such as 2026-03-01T07:00:00Z, got {until!r}") from None
        if kind is not None and kind not in KINDS:
            raise InvalidInput(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
        if at.timestamp() <= self._wall():
            raise InvalidInput(f"until must be in the future, got {until!r}")
        name = hashlib.sha256(json.dumps([until, controller, kind, reason]).encode()).hexdigest()[:12]
        made = Silence(name, at.isoformat(), controller, kind, reason, by)
        with self._lock:
            self._forget_old_silences()
            if name not in self.silences and len(self.silences) >= MOST_SILENCES:
                raise InvalidInput(f"there are {MOST_SILENCES} silences already; end one of them first")
            before = dict(self.silences)
            self.silences.setdefault(name, made)
            self._save_or(before)
            return self.silences[name]

    def end_silence(self, name: str) -> bool:
        """End a silence; returns whether there was one."""
        with self._lock:
            before = dict(self.silences)
            found = self.silences.pop(name, None) is not None
            self._save_or(before)
        return found

    def test(self) -> None:
        """Say a test to everybody."""
        at = datetime.fromtimestamp(self._wall(), UTC).isoformat(timespec="seconds")
        with self._lock:
            for outbox in self.outboxes.values():
                key = ("", "test", at)
                words = "this is a test message; nothing is wrong"
                self._put(outbox, key, Notice(_id("test", key, 0), "test", "", "holdcourse", "test", words, at))
        with self._wake:
            self._wake.notify_all()

    def state(self) -> dict[str, Any]:
        """Return who is told, how that goes, and what is silent."""
        with self._lock:
            self._forget_old_silences()
            now = time.monotonic()
            targets = [
                {
                    "name": name,
                    "waiting": len(outbox.waiting),
                    **outbox.counts,
                    "failing_s": None if outbox.failing_since is None else now - outbox.failing_since,
                    "error": outbox.error,
                }
                for name, outbox in self.outboxes.items()
            ]
            return {"targets": targets, "silences": [vars(each) for each in self.silences.values()]}

    def _forget_old_silences(self) -> None:
        now = self._wall()
        self.silences = {
            name: each for name, each in self.silences.items() if datetime.fromisoformat(each.until).timestamp() > now
        }

    # -- what is kept --------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            self.silences = {each["id"]: Silence(**each) for each in found["silences"]}
            for name, rows in found["said"].items():
                if name in self.outboxes:
                    for row in rows:
                        notice = Notice(**row["notice"])
                        key = (notice.controller, notice.kind, notice.at)
                        self.outboxes[name].said[key] = SentNotice(notice, int(row["times"]), float(row["last"]))
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("%s cannot be read (%s); open alarms are reported again", self._path, error)

    def _save(self) -> None:
        """Keep what was said; where that fails, it is said again after a restart."""
        with contextlib.suppress(HoldcourseError, OSError):
            self._write()

    def _save_or(self, before: dict[str, Silence]) -> None:
        try:
            self._write()
        except (HoldcourseError, OSError):
            self.silences = before
            raise

    def _write(self) -> None:
        said = {
            name: [
                {"notice": vars(each.notice), "times": each.times, "last": each.last} for each in outbox.said.values()
            ]
            for name, outbox in self.outboxes.items()
        }
        content = {"silences": [vars(each) for each in self.silences.values()], "said": said}
        archive.write_file(self._path, json.dumps(content).encode(), private=True)


def notifier_of(file: NotifyFile, controllers: Controllers) -> Notifier:
    """Return what tells of the alarms of all controllers; to be called in the loop that they run in."""
    loop = asyncio.get_running_loop()

    def open_alarms() -> tuple[list[OpenAlarm], set[str]]:
        found, unknown = list[OpenAlarm](), set[str]()
        if (
            controllers.store.leases is not None
        ):  # another process may hold them by now, and their alarms are still open
            unknown |= set(controllers.store.leases.holders)
        for controller, slot in list(controllers.slots.items()):
            hosted = slot.hosted
            unknown.discard(controller)
            if hosted is None or slot.broken is not None:
                unknown.add(controller)
                if slot.broken is not None:
                    found.append(OpenAlarm(controller, controller, "broken", slot.broken, "", False))
            else:
                state = hosted.view.fixed_part
                for alarm in state["alarms"]:
                    # Of a controller that is put away, nobody expects anything.
                    seen = alarm.get("acknowledged") is not None or state.get("archived") is not None
                    said = (alarm["kind"], alarm["message"], alarm["at"])
                    found.append(OpenAlarm(controller, state["name"], *said, seen))
        return found, unknown

    def untold(controller: str, why: str | None) -> None:
        with contextlib.suppress(RuntimeError):  # the service is being stopped
            asyncio.run_coroutine_threadsafe(_say_untold(controllers, controller, why), loop)

    folder = controllers.store.notes
    if folder is None:
        raise InvalidInput(
            "notifications need a folder in which to remember what was sent; give data= in addition to the database"
        )
    return Notifier(file, folder, open_alarms, untold, controllers.clock.wall)


async def _say_untold(controllers: Controllers, controller: str, why: str | None) -> None:
    try:
        await controllers.do(controller, lambda hosted: hosted.say_untold(why), SERVICE)
    except HoldcourseError as error:  # it is broken or gone; the metrics and the log say it too
        logger.warning("cannot record that nobody was notified of the alarms of %s: %s", controller, error)


def _id(event: str, key: tuple[str, str, str], times: int) -> str:
    return hashlib.sha256(json.dumps([event, *key, times]).encode()).hexdigest()[:24]


def _notice(event: Event, alarm: OpenAlarm, times: int) -> Notice:
    return Notice(
        _id(event, alarm.key, times), event, alarm.controller, alarm.name, alarm.kind, alarm.message, alarm.at, times
    )
