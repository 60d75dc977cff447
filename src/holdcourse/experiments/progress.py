"""How far a sweep is, on standard error: runs done, rate, time left. Quiet when that is no terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


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
    """A progress bar; `found` runs were there before and do not count towards the rate."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield lambda runs: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(what, total=total, completed=found)
        yield lambda runs: bar.advance(task, runs)
