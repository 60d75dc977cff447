"""What takes long and is therefore done as a job: making a controller from a history, verifying, planning a trial.

The work itself is done by a process of its own, see `worker`. What it made becomes the service's here: a new record
gets its name, and is opened, in the controller's turn.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from anyio.to_thread import run_sync

from holdcourse.running.events import Settings, from_plain, plain
from holdcourse.service.core import inspection
from holdcourse.service.core.clients import Caller, never
from holdcourse.service.core.controllers import Controllers
from holdcourse.service.core.data_folder import DataFolder
from holdcourse.service.core.jobs import Job, JobResult
from holdcourse.service.core.planning import planned
from holdcourse.service.core.processes import Workers
from holdcourse.service.core.requests import Config, PlanGiven
from holdcourse.service.core.requests import plain as plain_request
from holdcourse.service.core.store import Store

AT_ONCE = 100  # measurements that a controller may start from while its client waits


def is_long_to_create(config: Config) -> bool:
    """Return whether a controller starts from so much that it is made as a job: a table, or many measurements."""
    measured = config.history or config.history_index or ()
    return config.readings is not None or len(measured) > AT_ONCE


async def create(controllers: Controllers, config: Config, key: str | None, caller: Caller) -> Job:
    """Begin to make a controller, or find the job that does."""
    name = config.id
    sent, asked = await controllers.parse(lambda: _sent(config))  # a history may be long

    async def doing(job: Job, workers: Workers) -> JobResult:
        assert isinstance(controllers.store, DataFolder)  # else there are no jobs
        unfinished: Path | None = None
        is_new = not await run_sync(controllers.exists, name)
        try:
            if is_new:
                unfinished, _ = await run_sync(controllers.store.next_epoch, name, f"{job.id}-")
            given = {
                "config": sent,
                "folder": str(controllers.store.path),
                "unfinished": None if unfinished is None else str(unfinished),
                "author": None if caller.author is None else plain(caller.author),
            }
            made = await workers.do("create", given, _teller(job))
            settings = from_plain(Settings, made["settings"], "the settings")
            if unfinished is not None:
                await controllers.jobs.settled(job)
            state, is_new = await controllers.take_over(settings, unfinished, replace(caller, left=never))
        finally:
            if unfinished is not None:
                await run_sync(_discard, unfinished)
        return JobResult(state, is_new)

    return await controllers.jobs.begin("create", name, asked, key, caller, doing)


def _folder(controllers: Controllers) -> Path:
    assert isinstance(controllers.store, DataFolder)  # else there are no jobs
    return controllers.store.path


def _sent(config: Config) -> tuple[str, bytes]:
    """Return a new controller as a worker reads it, and a fingerprint of that."""
    text = config.model_dump_json(exclude_unset=True)
    return text, hashlib.sha256(text.encode()).digest()


async def verify(
    controllers: Controllers, store: Store, name: str, full: bool | None, key: str | None, caller: Caller
) -> Job:
    """Begin to verify the records of a controller, or of a fleet, which are in `store`."""

    async def doing(job: Job, workers: Workers) -> JobResult:
        gone = await run_sync(inspection.missing, store, name)
        if gone is not None:
            return JobResult(gone)
        paths = [str(path) for path in await run_sync(store.epochs, name)]
        return JobResult(await workers.do("verify", {"paths": paths, "full": full}, _teller(job)))

    return await controllers.jobs.begin("verify", name, json.dumps(full).encode(), key, caller, doing)


async def plan_trial(controllers: Controllers, name: str, wanted: PlanGiven, key: str | None, caller: Caller) -> Job:
    """Begin to plan a trial of a controller's policy."""
    await controllers.opened(name)

    async def doing(job: Job, workers: Workers) -> JobResult:
        settings = (await controllers.opened(name)).view.settings
        given: dict[str, Any] = {"folder": str(_folder(controllers)), "settings": plain(settings)}
        return JobResult(await workers.do("plan", given | {"wanted": plain_request(wanted)}, _teller(job)))

    return await controllers.jobs.begin("plan", name, wanted.model_dump_json().encode(), key, caller, doing)


async def plan_at_once(controllers: Controllers, name: str, wanted: PlanGiven) -> Callable[[], dict[str, Any]]:
    """Return what plans a trial while the client waits, where there are no jobs."""
    settings = (await controllers.opened(name)).view.settings
    return lambda: planned(controllers.store, settings, plain_request(wanted), lambda share, words: None)


def _teller(job: Job) -> Callable[[float, str], None]:
    """Return what takes in how far a job is; it never goes back."""

    def tell(share: float, words: str) -> None:
        job.progress, job.words = max(job.progress, min(share, 1.0)), words

    return tell


def _discard(unfinished: Path) -> None:
    """Remove a record that got no name."""
    for part in unfinished.parent.glob(f"{unfinished.name}*"):
        with suppress(OSError):
            part.unlink()
