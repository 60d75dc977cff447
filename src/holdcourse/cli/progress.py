"""How far a command is, and how long it will still take: shown on a terminal, once it has taken two seconds.

Work that may take many minutes also says so where nobody sees a bar: a line every half minute.
"""

from __future__ import annotations

import logging
import threading
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

PATIENCE = 2.0  # seconds without a word
BETWEEN = 30.0  # seconds between two lines, where there is no bar
MODELS = logging.getLogger("holdcourse.learning")


def dated_log(level: int) -> None:
    """Write the log of a command that runs for months to standard error, each line with its time and offset."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S%z", level=level)


class Working:
    """Shows progress on standard error while a command works; nothing, or lines, where that is no terminal.

    Until then models do not log what their method leaves out, which is for a controller's log: in a result it is part
    of the model's error.

    Parameters
    ----------
    what
        What is being done at first.
    patience
        Seconds before anything is shown.
    lines
        Seconds between two lines where there is no terminal; None: no lines.
    """

    def __init__(
        self, what: str, *, console: Console | None = None, patience: float = PATIENCE, lines: float | None = None
    ) -> None:
        self._console = console or Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description:<28.28}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task(what, total=None)
        self._lines = lines
        self._began = self._said = time.monotonic()
        self._lock = threading.Lock()
        self._level = MODELS.level
        self._ended = False
        self._timer = threading.Timer(patience, self._show)
        self._timer.daemon = True

    def tell(self, what: str, done: float, total: float) -> None:
        """Say what is being done, and how much of all is done."""
        self._bar.update(self._task, description=what, completed=done, total=total)
        now = time.monotonic()
        if self._lines is not None and not self._console.is_terminal and now - self._said >= self._lines:
            self._said, passed = now, now - self._began
            left = f", about {_minutes(passed * (total / done - 1))} left" if done > 0.02 * total else ""
            self._console.print(
                f"{what}: {100 * done / total:.0f} % after {_minutes(passed)}{left}", highlight=False, soft_wrap=True
            )

    def _show(self) -> None:
        with self._lock:
            if not self._ended:
                self._bar.start()

    def __enter__(self) -> Self:
        MODELS.setLevel(logging.ERROR)
        if self._console.is_terminal:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        MODELS.setLevel(self._level)
        self._timer.cancel()
        with self._lock:
            self._ended = True
            if self._bar.live.is_started:
                self._bar.stop()


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
