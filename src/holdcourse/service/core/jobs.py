"""Long work as jobs: asked for and answered at once, done in the background, and looked at until it is done.

A job waits, runs, and is done or has failed; every one of these is on disk before anybody is told, so that a restart
loses none. What was not finished when the service stopped has failed from then on, and says so: nothing goes on
unseen, and nothing is begun again by itself. A few jobs run at once, one of a client, by turns.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from anyio.to_thread import run_sync

from holdcourse import archive
from holdcourse.errors import Conflict, HoldcourseError
from holdcourse.running.events import Author, plain
from holdcourse.service.core.clients import Caller, Lane, never
from holdcourse.service.core.processes import Workers, said_of
from holdcourse.service.core.refusals import Cancelled, Interrupted, Unknown, WorkerLost
from holdcourse.service.core.status import Clock

logger = logging.getLogger("holdcourse.service")

Kind: TypeAlias = Literal["create", "verify", "plan"]
State: TypeAlias = Literal["waiting", "running", "done", "failed"]

RUNNING = 2  # jobs at once, and of one client ...
RUNNING_EACH = 1
WAITING = 16  # ... and so many that wait, each with its request in memory
WAITING_EACH = 8
KEPT = 256  # jobs, the newest; older ones are forgotten, with their keys


class JobResult(NamedTuple):
    """What came of a job: the answer, and whether something new was made."""

    result: dict[str, Any]
    is_new: bool = False


@dataclass(eq=False)
class Job:
    """A piece of long work.

    Attributes
    ----------
    asked
        What was asked for, as a fingerprint; `key` is the client's own name for it.
    progress, words
        How much of it is done, from 0 to 1, and what is being done.
    result, is_new
        What came of it: the answer, and whether something new was made.
    error
        Why it failed, as `processes.error_of` reads it.
    is_settled
        Whether what it makes is being given its name: then it can no longer be cancelled.
    """

    id: str
    kind: Kind
    controller: str
    asked: str
    key: str | None
    by: Author | None
    asked_at: str
    state: State = "waiting"
    progress: float = 0.0
    words: str = ""
    began_at: str | None = None
    ended_at: str | None = None
    result: dict[str, Any] | None = None
    is_new: bool = False
    error: dict[str, Any] | None = None
    is_settled: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    @property
    def is_over(self) -> bool:
        """Whether it is done or has failed."""
        return self.state in ("done", "failed")

    def to_data(self) -> dict[str, Any]:
        """Return it as it is written down."""
        kept = {name: value for name, value in vars(self).items() if name != "ended"}
        return kept | {"by": None if self.by is None else plain(self.by)}


Doing: TypeAlias = Callable[[Job, Workers], Awaitable[JobResult]]


class Jobs:
    """All jobs of a service, in the order in which they were asked for.

    Parameters
    ----------
    folder
        Where they are written down; None: there are none, and all is done while the client waits. So it is where
        several servers share their records, which a worker would have to be lent.
    """

    def __init__(self, folder: Path | None, clock: Clock) -> None:
        self._folder, self._clock = folder, clock
        self._workers = Workers()
        self._jobs: dict[str, Job] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._is_stopping = False
        self._lane: Lane

    def start(self, exists: Callable[[str], bool]) -> None:
        """Read what is there; what was not finished has failed, unless it made the controller that it was to make."""
        self._lane = Lane("a job to be begun", RUNNING, RUNNING_EACH, WAITING, WAITING_EACH)
        if self._folder is None:
            return
        found = []
        for path in self._folder.glob("j*.json"):
            try:
                found.append(_read(path))
            except (OSError, ValueError, TypeError, KeyError) as error:
                logger.warning("%s is damaged (%s) and was left out", path, error)
        for job in sorted(found, key=lambda job: (job.asked_at, job.id)):
            self._jobs[job.id] = job
            if not job.is_over:
                self._settle(job, made=job.is_settled and exists(job.controller))
                self._try_to_write(job)  # a full disk does not keep the service from starting
            job.ended.set()
        self._forget()

    async def stop(self) -> None:
        """End what runs; the next start says that it was not finished."""
        self._is_stopping, tasks = True, list(self._tasks.values())
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError, Exception):
                await task
        await self._workers.close()

    @property
    def are_made(self) -> bool:
        """Whether long work becomes jobs here."""
        return self._folder is not None

    def all(self) -> list[Job]:
        """List them, the newest last."""
        return list(self._jobs.values())

    def find(self, name: str) -> Job:
        """Return one; it is an error where there is no such job."""
        found = self._jobs.get(name)
        if found is None:
            raise Unknown("job", name, f"GET /jobs lists the newest {KEPT}")
        return found

    def making(self, controller: str) -> Job | None:
        """Return the job that is making a controller now, if any."""
        made = (job for job in self._jobs.values() if job.kind == "create" and job.controller == controller)
        return next((job for job in made if not job.is_over), None)

    async def begin(
        self, kind: Kind, controller: str, request: bytes, key: str | None, caller: Caller, doing: Doing
    ) -> Job:
        """Ask for a job; the same again, under the same key or while it is under way, is the same job."""
        asked = hashlib.sha256(request).hexdigest()
        known = self._known(kind, controller, asked, key)
        if known is not None:
            return known
        job = Job(f"j{secrets.token_hex(6)}", kind, controller, asked, key, caller.author, self._now())
        if self._lane.is_full:
            job.words = "waiting for other jobs"
        self._lane.check_room(caller)
        self._jobs[job.id] = job  # at once: the same request may come again while it is being written
        try:
            await run_sync(self._write, job)
        except BaseException:
            del self._jobs[job.id]
            raise
        self._tasks[job.id] = asyncio.create_task(self._run(job, replace(caller, left=never), doing))
        self._forget()
        return job

    def _known(self, kind: Kind, controller: str, asked: str, key: str | None) -> Job | None:
        """Return the job that was asked for with the same request; one that would make something else is a conflict."""
        for job in self._jobs.values():
            if job.controller != controller:
                continue
            same = (job.kind, job.asked) == (kind, asked)
            if key is not None and job.key == key:
                if not same:
                    words = f"the key {key!r} was used at {job.asked_at} for another job ({job.kind}); use a new key"
                    raise Conflict(words, job.kind, kind)
                return job
            if same and not job.is_over:
                return job
        made = self.making(controller) if kind == "create" else None
        if made is not None:
            raise self.in_the_making(made)
        return None

    def in_the_making(self, job: Job) -> Conflict:
        """Return what is said to who would make a controller that is being made with other settings."""
        words = f"{job.controller} is being made with other settings by job {job.id}; wait for it, or cancel it"
        return Conflict(words, job.id, None)

    def cancel(self, name: str) -> Job:
        """End a job that is not over; nothing that it did counts."""
        job = self.find(name)
        if job.is_over or job.is_settled:
            state = job.state if job.is_over else "nearly done"
            raise Conflict(f"job {name} is {state}; it can no longer be cancelled", state, "cancel")
        task = self._tasks.get(name)
        if task is None:
            raise Conflict(f"job {name} is just being begun; try again in a moment", job.state, "cancel")
        task.cancel()
        return job

    async def _run(self, job: Job, caller: Caller, doing: Doing) -> None:
        """Do a job when it is its turn, and write down what came of it."""
        try:
            async with self._lane.place(caller):
                job.state, job.began_at, job.words = "running", self._now(), ""
                await run_sync(self._write, job)
                done = await doing(job, self._workers)
            job.result, job.is_new = done
            job.state, job.progress, job.words = "done", 1.0, ""
        except asyncio.CancelledError:
            if self._is_stopping:
                raise  # what is on disk says that it is under way; the next start finds out what became of it
            self._fail(job, Cancelled(f"job {job.id} was cancelled; nothing was changed"))
        except HoldcourseError as error:
            self._fail(job, error)
        except Exception as error:
            logger.exception("job %s failed", job.id)
            self._fail(job, WorkerLost(f"this should not have happened; the server's log says more ({error!r})"))
        self._tasks.pop(job.id, None)
        job.ended_at = self._now()
        await run_sync(self._try_to_write, job)
        job.ended.set()

    def _fail(self, job: Job, error: HoldcourseError) -> None:
        job.state, job.error, job.is_settled = "failed", said_of(error), False

    def _settle(self, job: Job, *, made: bool) -> None:
        """Say what became of a job that was under way when the service stopped."""
        job.ended_at = self._now()
        if made:
            job.state, job.progress, job.words, job.is_new, job.result = "done", 1.0, "", True, {}
            return
        words = f"the service stopped before job {job.id} was finished; nothing was changed. Send the request again"
        self._fail(job, Interrupted(words + (", with a new key" if job.key is not None else "")))

    async def settled(self, job: Job) -> None:
        """Write down that what a job makes is about to be given its name: from now on it cannot be cancelled."""
        job.is_settled = True
        await run_sync(self._write, job)

    def _write(self, job: Job) -> None:
        assert self._folder is not None  # else there are no jobs
        content = json.dumps(job.to_data(), allow_nan=False).encode()
        archive.write_file(self._folder / f"{job.id}.json", content, private=True)

    def _try_to_write(self, job: Job) -> None:
        try:
            self._write(job)
        except HoldcourseError as error:  # whoever asks is told; after a restart it is found out again
            logger.error("cannot write the result of job %s: %s", job.id, error)

    def _forget(self) -> None:
        assert self._folder is not None
        over = [job for job in self._jobs.values() if job.is_over]
        for job in over[: max(0, len(self._jobs) - KEPT)]:
            del self._jobs[job.id]
            with suppress(OSError):
                (self._folder / f"{job.id}.json").unlink(missing_ok=True)

    def _now(self) -> str:
        return self._clock.now().isoformat(timespec="milliseconds")


def _read(path: Path) -> Job:
    data: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    by = data["by"]
    return Job(**{**data, "by": None if by is None else Author(**by)})
