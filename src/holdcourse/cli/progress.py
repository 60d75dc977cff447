"""How far a command is, and how long it will still take: shown on a terminal, once it has taken two seconds."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

PATIENCE = 2.0  # seconds without a word


class Working:
    """Shows progress on standard error while a command works; nothing where that is no terminal.

    Parameters
    ----------
    what
        What is being done at first.
    patience
        Seconds before anything is shown.
    """

    def __init__(self, what: str, *, console: Console | None = None, patience: float = PATIENCE) -> None:
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
        self._lock = threading.Lock()
        self._ended = False
        self._timer = threading.Timer(patience, self._show)
        self._timer.daemon = True

    def tell(self, what: str, done: float, total: float) -> None:
        """Say what is being done, and how much of all is done."""
        self._bar.update(self._task, description=what, completed=done, total=total)

    def _show(self) -> None:
        with self._lock:
            if not self._ended:
                self._bar.start()

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._ended = True
            if self._bar.live.is_started:
                self._bar.stop()
