"""Run a sweep: what is there is not done again, what finishes is saved at once, what fails is told at the end.

How far it is, is shown on standard error, where that is a terminal.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from holdcourse.errors import DamagedFile, HoldcourseError, InvalidInput
from holdcourse.experiments.runs import CLAIRVOYANT, RunConfig, Sweep
from holdcourse.experiments.store import Folder, ForeignRun, Row
from holdcourse.experiments.workers import PROCESS, Outcome, available_processors, execute, processes


class Advance(Protocol):
    """Called with the number of runs that are done since the last call."""

    def __call__(self, runs: int) -> None:
        """Count so many more runs as done."""
        ...


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.1f} runs/s")


@contextmanager
def shown(what: str, total: int, found: int = 0, console: Console | None = None) -> Iterator[Advance]:
    """Show a progress bar; `found` runs were there before and do not count towards the rate."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield lambda runs: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(what, total=total, completed=found)
        yield lambda runs: bar.advance(task, runs)


WINDOW = 256  # scenes handed out at a time: enough for a cluster, and results do not pile up


@dataclass(frozen=True)
class Report:
    """What a call of `run_sweep` did.

    Attributes
    ----------
    folder
        Where the results are.
    found
        Runs that were there already.
    damaged
        Files that did not hold what was written, or another run; these runs were done again.
    done, decisions, seconds
        Runs done now, the rounds decided in them, and the time they took.
    failed
        Runs that failed, and where their tracebacks are.
    rows
        All finished runs.
    """

    folder: Path
    found: int
    damaged: tuple[str, ...]
    done: int
    decisions: int
    seconds: float
    failed: tuple[tuple[RunConfig, Path], ...]
    rows: tuple[Row, ...]


def run_sweep(
    sweep: Sweep,
    out: str | Path,
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    fresh: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Report:
    """Do all runs of a sweep that the folder does not contain yet, and write its `summary.csv`.

    Parameters
    ----------
    sweep
        The sweep, which lists the runs.
    out
        Folder of the results; a folder with results of another configuration is refused.
    executor
        Executor of the runs; default: a pool of `workers` processes (one per processor), or this process if `workers`
        is 1. Results are the same, bit for bit.
    fresh
        Whether to remove the results in the folder first.
    say
        Function that is called with a line of text about what was found.

    Examples
    --------
    ::

        with concurrent.futures.ProcessPoolExecutor(4) as pool:
            run_sweep(SyntheticPlan(functions=3).sweep(), "results", executor=pool)
    """
    if workers is not None and workers < 1:
        raise InvalidInput(f"workers must be 1 or more, got {workers}")
    folder = Folder(Path(out))
    folder.open(sweep, fresh=fresh)
    rows, damaged = _found(sweep.runs, folder)
    if rows or damaged:
        say(f"{len(rows)} of {len(sweep.runs)} runs found in {folder.path}")
    for identity, harm in damaged.items():
        say(f"{folder.run_file(identity).name} is {harm}; that run is done again")
    scenes = _scenes(run for run in sweep.runs if run.identity not in rows)
    count = min(workers or available_processors(), max(len(scenes), 1))
    begin, done, decisions, failed = time.perf_counter(), 0, 0, []
    with (
        threadpool_limits(limits=1),
        nullcontext(executor) if executor is not None else processes(count) as worker,
        shown(sweep.name, len(sweep.runs), len(rows)) as advance,
    ):
        assert worker is not None
        for outcomes in _executed(scenes, worker):
            for outcome in outcomes:
                row, run = folder.save(outcome), outcome.run
                if row is None:
                    failed.append((run, folder.failure_file(run.identity)))
                else:
                    rows[run.identity] = row
                    done += 1
                    decisions += run.rounds * (run.policy.name != CLAIRVOYANT)
            advance(len(outcomes))
    folder.write_summary(rows.values())
    return Report(
        folder=folder.path,
        found=len(rows) - done,
        damaged=tuple(damaged),
        done=done,
        decisions=decisions,
        seconds=time.perf_counter() - begin,
        failed=tuple(failed),
        rows=tuple(sorted(rows.values(), key=lambda row: row.place)),
    )


def _found(runs: Iterable[RunConfig], folder: Folder) -> tuple[dict[str, Row], dict[str, str]]:
    """Find the rows of the runs that are there, and the files that are no use, with what is wrong with them."""
    rows: dict[str, Row] = {}
    damaged: dict[str, str] = {}
    there = set(folder.identities())
    for run in runs:
        if run.identity in there:
            try:
                rows[run.identity], _ = folder.load(run.identity)
            except ForeignRun:
                damaged[run.identity] = "the result of another run or another sweep"
            except DamagedFile:
                damaged[run.identity] = "damaged"
    return rows, damaged


def _scenes(runs: Iterable[RunConfig]) -> list[list[RunConfig]]:
    """Put runs that share a scene together, for one worker: they share the world and the clairvoyant optimum."""
    scenes: dict[str, list[RunConfig]] = {}
    for run in runs:
        scenes.setdefault(run.group, []).append(run)
    return list(scenes.values())


def _executed(scenes: list[list[RunConfig]], executor: Executor) -> Iterable[list[Outcome]]:
    """Return the outcomes of each scene, in the order in which they finish."""
    waiting, running = deque(scenes), dict[Future[list[Outcome]], list[RunConfig]]()
    try:
        while waiting or running:
            while waiting and len(running) < WINDOW:
                scene = waiting.popleft()
                future = executor.submit(execute, scene, PROCESS)
                running[future] = scene
                if future.done():
                    break  # done in this process: save it before the next
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield _outcomes(future, running.pop(future))
    except BrokenExecutor:
        raise HoldcourseError(
            "a worker process died (out of memory, or killed). Finished runs are saved, and the same command "
            "continues; it needs less memory with a smaller workers="
        ) from None
    finally:
        for future in running:
            future.cancel()


def _outcomes(future: Future[list[Outcome]], runs: list[RunConfig]) -> list[Outcome]:
    try:
        return future.result()
    except BrokenExecutor:
        raise
    except Exception:  # it never got to the runs themselves
        return [Outcome(run, error=traceback.format_exc()) for run in runs]
