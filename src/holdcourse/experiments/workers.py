"""Who does the runs of a sweep, and what a worker does.

Every worker stays on one BLAS thread: two threads for each of many workers are slower than one, and sums in another
order would give other last digits.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import connection
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from holdcourse import threads
from holdcourse.deciding.policy import Policy
from holdcourse.experiments.runs import CLAIRVOYANT, RunConfig, Scene
from holdcourse.movement.offline import PricedPath, optimal_path

Arrays: TypeAlias = dict[str, NDArray[Any]]

PROCESS = uuid.uuid4().hex  # tells a worker's process from the one that sent the work


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a run.

    Attributes
    ----------
    numbers
        start, service, movement, total and optimum; empty if it failed.
    curves
        One entry per round: the action, and what it cost (float32: they are for figures).
    error
        The traceback of a run that failed.
    """

    run: RunConfig
    numbers: dict[str, Any] = field(default_factory=dict)
    curves: Arrays = field(default_factory=dict)
    error: str | None = None


def execute(runs: Sequence[RunConfig], sender: str = "") -> list[Outcome]:
    """Do runs that share a scene. One that fails does not stop the others.

    `sender` is the process that wants the results: any other one belongs to workers, and stays on one thread for good.
    """
    if sender != PROCESS:
        _stay_on_one_thread()
    try:
        scene = runs[0].world.scene(runs[0])
        costs = np.array([scene.world.costs(t, context) for t, context in enumerate(scene.contexts)])
        best = optimal_path(costs, scene.world.problem, scene.start) if len(costs) else None
    except Exception:
        return [Outcome(run, error=traceback.format_exc()) for run in runs]
    made: dict[str, Policy] = {}
    outcomes = []
    for run in runs:
        try:
            outcomes.append(_one(run, scene, costs, best, made))
        except Exception:
            outcomes.append(Outcome(run, error=traceback.format_exc()))
    return outcomes


@cache
def _stay_on_one_thread() -> None:
    threadpool_limits(limits=1)


def _one(
    run: RunConfig, scene: Scene, costs: NDArray[np.float64], best: PricedPath | None, made: dict[str, Policy]
) -> Outcome:
    problem = scene.world.problem
    optimum = None if best is None else best.total
    if run.policy.name == CLAIRVOYANT:
        assert best is not None  # sweeps whose contexts depend on the policy have no such run
        actions = best.actions
        before = np.append(scene.start, actions[:-1])
        service, movement = costs[np.arange(len(actions)), actions], problem.move_costs(before, actions)
    else:
        key = run.policy.model_dump_json()
        if key not in made:  # repetitions run the same policy
            made[key] = run.world.policy(run.policy, run, scene)
        played = run.world.play(made[key], run, scene)
        actions, service, movement = played.actions, played.service, played.movement
        optimum = played.optimum if optimum is None else optimum
    paid = {"service": float(service.sum()), "movement": float(movement.sum())}
    numbers = {"start": scene.start, **paid, "total": sum(paid.values()), "optimum": optimum}
    curves: Arrays = {
        "actions": actions.astype(np.min_scalar_type(problem.n - 1)),
        "service": service.astype(np.float32),
        "movement": movement.astype(np.float32),
    }
    if scene.best is not None:
        curves["gain"] = (scene.best - service).astype(np.float32)
    return Outcome(run, numbers, curves)


class InThisProcess(Executor):
    """Does the work when it is handed in."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Do the work at once, in this process."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def processes(workers: int) -> Iterator[Executor]:
    """Start a pool of fresh processes; with one worker, use this process."""
    if workers == 1:
        yield InThisProcess()
        return
    before = {name: os.environ.get(name) for name in threads.ENVIRONMENT}
    os.environ.update(threads.ENVIRONMENT)  # inherited
    # Fresh ones: a fork would copy the locks of threads that it does not copy.
    context = multiprocessing.get_context("spawn")
    ended, end = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(ended,))
    try:
        yield pool
    except BaseException:
        end.close()  # Ctrl-C, mostly: nobody waits for the minutes of work that the workers are in the middle of
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        for half in (ended, end):
            half.close()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def available_processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _begin(ended: connection.Connection) -> None:
    """Prepare a worker: it leaves Ctrl-C to the parent, and ends when the parent says so or is no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=([parent.sentinel, ended],), daemon=True).start()


def _end_with(signs: list[Any]) -> None:
    connection.wait(signs)
    os._exit(1)  # killed parents close no queues, and a worker would wait for ever
