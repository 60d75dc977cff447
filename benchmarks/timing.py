"""Speed as a ratio against a peer, measured side by side."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

HEADINGS = ("what", "ours", "peer", "peer's", "ratio", "bar", "met")  # of `Row.cells`


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes
    ----------
    bar
        How many times faster than the peer we want to be; None where the row is for information only.
    """

    name: str
    ours_seconds: float
    peer_name: str
    peer_seconds: float
    bar: float | None = None

    @property
    def ratio(self) -> float:
        """How many times faster than the peer we are."""
        return self.peer_seconds / self.ours_seconds

    @property
    def met(self) -> bool | None:
        """Whether the bar is reached; None where there is none."""
        return None if self.bar is None else self.ratio >= self.bar

    @property
    def cells(self) -> tuple[str, ...]:
        """The comparison as a row of a table."""
        bar = "" if self.bar is None else f"{round(self.bar, 2):g}x"
        met = {None: "", True: "yes", False: "no"}[self.met]
        ours, theirs = readable(self.ours_seconds), readable(self.peer_seconds)
        return self.name, ours, self.peer_name, theirs, f"{self.ratio:.1f}x", bar, met


def readable(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def best_of(function: Callable[[], object], repeats: int = 5) -> float:
    """Seconds of the fastest of `repeats` calls, after one that is not timed (compilation, caches)."""
    return best_of_each([function], repeats)[0]


def best_of_each(functions: list[Callable[[], object]], repeats: int = 5) -> list[float]:
    """`best_of` for several functions that take turns, so that a busy moment of the machine hits them alike."""
    best = [float("inf")] * len(functions)
    for function in functions:
        function()
    for _ in range(repeats):
        for k, function in enumerate(functions):
            begin = time.perf_counter()
            function()
            best[k] = min(best[k], time.perf_counter() - begin)
    return best
