"""Who does the runs: this process, a pool of processes, or any `concurrent.futures.Executor`.

Every worker stays on one BLAS thread: two threads for each of many workers are slower than one, and sums in another
order would give other last digits.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import connection
from typing import Any

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


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
    """A pool of fresh processes; with one worker, this process."""
    if workers == 1:
        yield InThisProcess()
        return
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)  # inherited, and read when numpy is imported there
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
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _begin(ended: connection.Connection) -> None:
    """In a worker: leave Ctrl-C to the parent, and end when the parent says so or is no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=([parent.sentinel, ended],), daemon=True).start()


def _end_with(signs: list[Any]) -> None:
    connection.wait(signs)
    os._exit(1)  # killed parents close no queues, and a worker would wait for ever
