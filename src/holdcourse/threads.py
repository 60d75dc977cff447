"""One thread of linear algebra while a decision is computed, and what it was computed with.

How many threads a BLAS uses changes the order of its sums and so the last digits of its results. A record that was
written with eight threads must come out the same on a machine with two, so decisions are computed with one.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any

import scipy.linalg  # noqa: F401 - it brings a BLAS of its own, which must be loaded to be found
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

_lock = Lock()
_inside = 0  # computations under way in all threads of this process
_before: list[int] = []  # threads of each BLAS before the first of them began


@cache
def _libraries() -> tuple[Any, ...]:
    return tuple(found for found in ThreadpoolController().lib_controllers if found.user_api == "blas")


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread of linear algebra; as many as before when the last such computation has ended."""
    global _inside, _before
    with _lock:
        if not _inside:
            _before = [library.num_threads for library in _libraries()]
            _set([1] * len(_before), _before)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                _set(_before, [1] * len(_before))


def _set(wanted: list[int], present: list[int]) -> None:
    for library, count, now in zip(_libraries(), wanted, present, strict=True):
        if count != now:
            library.set_num_threads(count)


@cache
def versions() -> dict[str, str]:
    """What decides here: the parts that a decision's last bits may depend on."""
    parts = {name: version(name) for name in ("holdcourse", "numpy", "scipy", "numba")}
    blas = {f"{found.internal_api} {found.version} {getattr(found, 'architecture', '')}" for found in _libraries()}
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
