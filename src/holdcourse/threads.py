"""One thread of linear algebra while a decision is computed, and what it was computed with.

How many threads a BLAS uses changes the order of its sums and so the last digits of its results. A record that was
written with eight threads must come out the same on a machine with two, so decisions are computed with one.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from contextlib import ContextDecorator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import scipy.linalg  # noqa: F401 - it brings a BLAS of its own, which must be loaded to be found
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

# The environment of a process that shall begin with one thread: read when numpy is imported there.
ENVIRONMENT = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)

_lock = RLock()  # a signal may come in between, and close a controller
_inside = 0  # computations under way in all threads of this process
_before: list[tuple[Library, int]] = []  # those with more threads, and how many, before the first of them began


class Library(NamedTuple):
    """A BLAS, and how many threads it uses."""

    about: Any
    threads: Callable[[], int]
    limit: Callable[[int], object]


@cache
def _libraries() -> tuple[Library, ...]:
    return tuple(_library(found) for found in ThreadpoolController().lib_controllers if found.user_api == "blas")


def _library(about: Any) -> Library:
    """Return a BLAS with its own functions: those of threadpoolctl serve one thread of a program only."""
    if about.internal_api == "openblas" and about.threading_layer != "openmp":
        for name in about.check_symbols:
            count, limit = (getattr(about.dynlib, name.replace("_get_", way), None) for way in ("_get_", "_set_"))
            if count is not None and limit is not None:
                return Library(about, count, limit)
    return Library(about, about.get_num_threads, about.set_num_threads)


class one_thread(ContextDecorator):  # noqa: N801 - used like a function, and quicker than a generator
    """Compute with one thread of linear algebra; as many as before when the last such computation has ended.

    For a `with` statement, or before a function.
    """

    def __enter__(self) -> None:
        global _inside, _before
        with _lock:
            if not _inside:
                before = [(library, count) for library in _libraries() if (count := library.threads()) != 1]
                for library, _ in before:
                    library.limit(1)
                _before = before
            _inside += 1

    def __exit__(self, *error: object) -> None:
        global _inside
        with _lock:
            _inside -= 1
            if not _inside:
                for library, count in _before:
                    library.limit(count)


def _forget_in_child() -> None:
    """Computations of other threads do not go on in a forked process."""
    global _lock, _inside
    _lock, _inside = RLock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


@cache
def versions() -> dict[str, str]:
    """What decides here: the parts that a decision's last bits may depend on."""
    parts = {name: version(name) for name in ("holdcourse", "numpy", "scipy", "numba")}
    abouts = [library.about for library in _libraries()]
    blas = {f"{found.internal_api} {found.version} {getattr(found, 'architecture', '')}" for found in abouts}
    return parts | {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu": _processor(),
        "blas": ", ".join(sorted(blas)),
        "threads": "1",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # only Linux has it
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
