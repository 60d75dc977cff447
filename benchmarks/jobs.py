"""How long a round of one controller takes while another one is made from a year of history, beside nothing else.

The job has a process of its own. What is left of it in the service, reading the request and opening the record, shows
in the last percents.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import holdcourse as hc
from benchmarks.service import config, served
from benchmarks.timing import Row

YEAR = 8760  # hours
TURNS = 4
ROUNDS = 500  # of a turn without a job; with one, as many as it lasts
SETTINGS = [6.0, 7.0, 8.0, 9.0, 10.0]
PERCENTS = (50, 99)


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, ExitStack() as stack:
        url = stack.enter_context(served(Path(folder) / "data"))
        service, other = (stack.enter_context(hc.connect(url)) for _ in range(2))
        controller = service.create(config("beside", 25))
        other.create(year("warm"))  # what is compiled is compiled
        quiet, busy = list[float](), list[float]()
        for number in range(TURNS):  # by turns, so that a busy moment of the machine hits both alike
            quiet += rounds(controller, lambda done: done < ROUNDS)
            maker = threading.Thread(target=other.create, args=(year(f"year{number}"),))
            maker.start()
            busy += rounds(controller, lambda _, maker=maker: maker.is_alive())
            maker.join()
    return [
        Row(
            f"ask + tell while a year is fitted, p{percent} of {len(busy)}",
            float(np.percentile(busy, percent)),
            f"with nothing beside it, p{percent} of {len(quiet)}",
            float(np.percentile(quiet, percent)),
        )
        for percent in PERCENTS
    ]


def rounds(controller: hc.RemoteController, goes_on: Callable[[int], bool]) -> list[float]:
    """Seconds of every round while `goes_on`, which is told how many there were."""
    seconds: list[float] = []
    for t in range(20):  # not counted
        controller.tell(controller.ask(t % 10 / 10).id, 1.0)
    while goes_on(len(seconds)):
        began = time.perf_counter()
        decision = controller.ask(len(seconds) % 10 / 10)
        controller.tell(decision.id, 1.0)
        seconds.append(time.perf_counter() - began)
    return seconds


def year(name: str) -> dict[str, Any]:
    """A controller that starts from a year by the hour: two contexts, five settings."""
    rng, hours = np.random.default_rng(0), np.arange(YEAR)
    load = 60 + 25 * np.sin(2 * np.pi * hours / 24) + 6 * rng.normal(size=YEAR)
    outdoor = 12 + 10 * np.sin(2 * np.pi * hours / YEAR) + 2 * rng.normal(size=YEAR)
    ran = rng.integers(len(SETTINGS), size=YEAR)
    power = 0.8 * load + (ran - load / 30) ** 2 + rng.normal(size=YEAR)
    history = [
        [SETTINGS[k], [float(a), float(b)], float(y)] for k, a, b, y in zip(ran, load, outdoor, power, strict=True)
    ]
    return {"id": name, "actions": SETTINGS, "scale": 0.5, "history": history}
