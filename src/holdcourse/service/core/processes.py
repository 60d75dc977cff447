"""The service's side of its workers: processes that are started when there is long work, kept a while, and ended.

A worker that is let go while it works is killed: it has changed nothing that counts.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, cast

from anyio.to_thread import run_sync

from holdcourse import errors, threads
from holdcourse.errors import Conflict, HoldcourseError
from holdcourse.service.core import refusals
from holdcourse.service.core.refusals import WorkerLost

COMMAND = ("-P", "-c", "from holdcourse.service.core.worker import main; main()")
KEPT_S = 60.0  # an idle worker, for the next piece of work
LONGEST_LINE = 2**26  # bytes of an answer


class Workers:
    """Processes that work for this one; as many as there is work at once, which others bound."""

    def __init__(self) -> None:
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()

    async def do(self, work: str, given: Mapping[str, Any], tell: Callable[[float, str], None]) -> dict[str, Any]:
        """Have a piece of work done; whoever is cut off meanwhile ends the process that does it."""
        worker = self._idle.pop() if self._idle else None
        if worker is None or not worker.is_alive:
            worker = await Worker.started()
            self._all.add(worker)
        try:
            result = await worker.do(work, given, tell)
        except HoldcourseError:
            self._keep(worker)
            raise
        except BaseException:
            await self._end(worker)
            raise
        self._keep(worker)
        return result

    async def close(self) -> None:
        """End all processes."""
        self._idle.clear()
        for worker in list(self._all):
            await self._end(worker)

    def _keep(self, worker: Worker) -> None:
        if not worker.is_alive:
            self._all.discard(worker)
            return
        self._idle.append(worker)
        asyncio.get_running_loop().call_later(KEPT_S, self._let_go, worker, worker.done)

    def _let_go(self, worker: Worker, done: int) -> None:
        """End a worker that has been idle since."""
        if worker in self._idle and worker.done == done:
            self._idle.remove(worker)
            self._all.discard(worker)
            worker.kill()

    async def _end(self, worker: Worker) -> None:
        self._all.discard(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        worker.kill()
        await worker.ended()


class Worker:
    """One process, and how many pieces of work it has done."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process, self.done = process, 0

    @classmethod
    async def started(cls) -> Worker:
        """Start a process."""
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *COMMAND,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=LONGEST_LINE,
                env={**os.environ, **threads.ENVIRONMENT},
            )
        except OSError as error:
            raise WorkerLost(
                f"no process could be started for it: {error}; free some memory, and send the request again"
            ) from error
        return cls(process)

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.returncode is None

    async def do(self, work: str, given: Mapping[str, Any], tell: Callable[[float, str], None]) -> dict[str, Any]:
        """Have a piece of work done by it."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        line = await run_sync(lambda: json.dumps({"work": work, "given": given}).encode() + b"\n")  # it may be long
        with suppress(ConnectionError):  # it has ended: nothing will be answered
            asked.write(line)
            await asked.drain()
        while answer := await answers.readline():
            said = json.loads(answer)
            if "progress" in said:
                tell(said["progress"], said["words"])
                continue
            self.done += 1
            if "error" in said:
                raise error_of(said["error"])
            result: dict[str, Any] = said["result"]
            return result
        code = await self._process.wait()
        how = f"by signal {-code}" if code < 0 else f"with code {code}"
        raise WorkerLost(
            f"the process that worked on it ended {how}; if the machine has too little memory, send a shorter history, "
            "otherwise send the request again"
        )

    def kill(self) -> None:
        """End the process at once."""
        with suppress(ProcessLookupError):
            self._process.kill()

    async def ended(self) -> None:
        """Wait until it has ended, and let go of its pipes."""
        await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


def error_of(said: Mapping[str, Any]) -> HoldcourseError:
    """Return what was refused in another process, or before a restart, as an error of the same type."""
    name, message = said["type"], said["message"]
    if name == "Conflict":
        return Conflict(message, said.get("recorded"), said.get("given"))
    kind = getattr(errors, name or "", None) or getattr(refusals, name or "", None)
    if not (isinstance(kind, type) and issubclass(kind, HoldcourseError)):
        return WorkerLost(f"this should not have happened; the server's log says more ({message})")
    for each in kind.__mro__:
        with suppress(TypeError):  # one that is made of more than words: the nearest that is not
            return cast(HoldcourseError, each(message))
    raise AssertionError(kind)


def said_of(error: HoldcourseError) -> dict[str, Any]:
    """Return an error in JSON values, as `error_of` reads it."""
    said: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, Conflict):
        said |= {"recorded": error.recorded, "given": error.given}
    return said
