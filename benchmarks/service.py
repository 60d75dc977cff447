"""Durable rounds over HTTP, for one and for many clients, beside what this disk can commit and beside Optuna's SQLite.

Server and clients share the cores of one machine, and every client has a controller of its own. A round is an ask and a
tell, each on the disk before it is answered.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from benchmarks import durability
from benchmarks.timing import Row, best_of_each

CLIENTS = (1, 8, 32)
ROUNDS = 64  # of all clients together, per turn
SIZES = (25, 400, 2000)
TOGETHER = 32  # controllers that are asked at once
ASKS = 300  # a size, whose latencies are taken; a tenth more are not
KERNEL = hc.Kernel(RBF(0.3), RBF(0.4))
NOISE, SCALE, BOUNDS = 0.1, 0.1, [[0.0, 1.0]]


class Asked(Protocol):
    """A controller, here or over there."""

    def ask(self, context: Any) -> Any: ...  # noqa: D102
    def tell(self, decision_id: str, measurement: float) -> None: ...  # noqa: D102


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        place = Path(folder)
        with served(place / "data") as url, hc.connect(url) as service:
            return throughput(service, place) + latency(service, place) + short_ways(service)


@contextmanager
def served(place: Path | str) -> Iterator[str]:
    """A server as a user runs it, over a folder or a database; its address."""
    with serving(place) as (url, _):
        yield url


@contextmanager
def serving(place: Path | str) -> Iterator[tuple[str, int]]:
    """The same; its address, and the id of its process."""
    command = [sys.executable, "-c", "from holdcourse.cli import main; main()"]
    command += ["serve", "--data" if isinstance(place, Path) else "--database", str(place), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        if found is None:
            raise RuntimeError("the server did not start")
        yield found[0], server.pid
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


# -- rounds per second -------------------------------------------------------------------------------------------------


def throughput(service: hc.Service, place: Path) -> list[Row]:
    functions: list[Callable[[], object]] = [clients(service, count) for count in CLIENTS]
    functions.append(durability.bare(place))
    if importlib.util.find_spec("optuna") is None:
        print("service: optuna is not installed, its row is left out", file=sys.stderr)
    else:
        functions.append(durability.optuna_rounds(place, "sqlite"))
    best = best_of_each(functions, repeats=3)
    ours, (bare, *theirs) = best[: len(CLIENTS)], best[len(CLIENTS) :]
    fsync = bare / durability.ROUNDS / 2
    rows = [
        Row(
            f"HTTP ask + tell, {count} client{'s' if count > 1 else ''}: {ROUNDS / seconds:.0f}/s",
            seconds / ROUNDS,
            f"a bare write + fsync, twice; {1 / fsync:.0f} fsync/s",
            2 * fsync,
        )
        for count, seconds in zip(CLIENTS, ours, strict=True)
    ]
    for seconds in theirs:
        rows += [
            Row(
                f"HTTP ask + tell, {count} client{'s' if count > 1 else ''}",
                own / ROUNDS,
                "Optuna SQLite, in process",
                seconds / durability.ROUNDS,
                bar=1.0,
            )
            for count, own in zip(CLIENTS, ours, strict=True)
        ]
    return rows


def clients(service: hc.Service, count: int) -> Callable[[], object]:
    """All rounds of a turn, shared among so many clients."""
    controllers = [service.create(config(f"c{count}-{number}", 25)) for number in range(count)]
    pool = ThreadPoolExecutor(count)

    def drive(controller: hc.RemoteController) -> None:
        for t in range(ROUNDS // count):
            decision = controller.ask(t % 10 / 10)
            controller.tell(decision.id, 1.0)

    return lambda: list(pool.map(drive, controllers))


# -- latency of ask ----------------------------------------------------------------------------------------------------


def latency(service: hc.Service, place: Path) -> list[Row]:
    rows = []
    for n in SIZES:
        over_there = service.create(config(f"n{n}", n))
        here = hc.Controller(policy(n), seed=1, log=place / f"n{n}.db")
        remote, local = seconds_of_asks(over_there), seconds_of_asks(here)
        here.close()
        rows += [
            Row(
                f"HTTP ask, n = {n}, p{percent}",
                float(np.percentile(remote, percent)),
                f"in process, durable, p{percent}",
                float(np.percentile(local, percent)),
            )
            for percent in (50, 99)
        ]
    return rows


def seconds_of_asks(controller: Asked) -> NDArray[np.float64]:
    seconds = []
    for t in range(ASKS + ASKS // 10):
        began = time.perf_counter()
        decision = controller.ask(t % 10 / 10)
        seconds.append(time.perf_counter() - began)
        controller.tell(decision.id, abs(decision.action - t % 7) * 0.1)
    return np.array(seconds[ASKS // 10 :])


# -- the short way, and many at once -----------------------------------------------------------------------------------


def short_ways(service: hc.Service) -> list[Row]:
    """Rounds by the short way and in bulk, beside the framework's own way, which any query takes, even an empty one."""
    names = [f"together-{number}" for number in range(TOGETHER)]
    for name in names:
        service.create(config(name, 25))

    def round_of(name: str, query: str) -> None:
        decision = service.request("POST", f"/controllers/{name}/ask{query}", {"context": 0.5})
        told = {"decision": decision["decision"], "measurement": 1.0}
        service.request("POST", f"/controllers/{name}/tell{query}", told)

    def at_once() -> None:
        decisions = service.ask_many([{"controller": name, "context": 0.5} for name in names])
        service.tell_many(
            [
                {"controller": name, "decision": decision.id, "measurement": 1.0}
                for name, decision in zip(names, decisions, strict=True)
                if isinstance(decision, hc.RemoteDecision)
            ]
        )

    long, short, bulk = best_of_each(
        [
            lambda: [round_of(name, "?&") for name in names],
            lambda: [round_of(name, "") for name in names],
            at_once,
        ],
        repeats=7,
    )
    peer = "one by one, through the framework"
    return [
        Row("HTTP ask + tell, the short way", short / TOGETHER, peer, long / TOGETHER, bar=2.0),
        Row(f"HTTP ask + tell, {TOGETHER} controllers in one request", bulk / TOGETHER, peer, long / TOGETHER, bar=2.0),
    ]


def config(name: str, n: int) -> dict[str, Any]:
    """A controller whose rounds are cheap, so that the record and the wire are what is measured."""
    return {
        "id": name,
        "actions": np.linspace(0.0, 1.0, n).tolist(),
        "scale": SCALE,
        "seed": 1,
        "policy": "gp-md",
        "options": {"kernel": KERNEL.to_json(), "noise_std": NOISE, "context_bounds": BOUNDS},
    }


def policy(n: int) -> hc.Policy:
    """The same in this process."""
    problem = hc.Problem(np.linspace(0.0, 1.0, n), scale=SCALE)
    return hc.gp_md(problem, kernel=KERNEL, noise_std=NOISE, context_bounds=BOUNDS)
