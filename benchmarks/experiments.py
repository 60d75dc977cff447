"""Sweeps: runs and decisions per second, two processes against one, Dask against processes, and the whole reproduction.

The suites are too long to be run whole in a benchmark, so a part is timed and the whole extrapolated from it; the parts
are real runs of the suites. The paper's way is one run by its own recipe, from `benchmarks.decision`.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager

from benchmarks import decision
from benchmarks import posterior as learning
from benchmarks.timing import Row
from holdcourse.experiments.paper import SyntheticPlan, WindPlan
from holdcourse.experiments.runner import Report, run_sweep
from holdcourse.experiments.runs import Sweep
from holdcourse.experiments.workers import InThisProcess, processes

SPEED_UP, DASK_OVERHEAD, WHOLE_SECONDS = 1.7, 1.15, 20 * 60
TURNS = 2


def measure() -> list[Row]:
    parts = {
        "synthetic": (SyntheticPlan().sweep(), part_of_synthetic()),
        "wind, one site": (one_site(WindPlan()).sweep(), one_site(WindPlan(rho=(4.0,), starts=(0, 8, 16, 24))).sweep()),
    }
    rows, whole = [], 0.0
    with ExitStack() as stack:
        executors: dict[str, Executor] = {"one": InThisProcess(), "two": stack.enter_context(processes(2))}
        if importlib.util.find_spec("distributed") is None:
            print("experiments: distributed is not installed, so Dask cannot be measured", file=sys.stderr)
        else:
            executors["dask"] = stack.enter_context(dask())
        for name, (suite, part) in parts.items():
            best = in_turns(part, executors)
            report(name, part, best["two"])
            two = best["two"].seconds
            seconds = two * suite.decisions / part.decisions
            whole += seconds * (len(WindPlan().sites) if "wind" in name else 1)
            rows.append(Row(f"{name}: two processes", two, "one process", best["one"].seconds, SPEED_UP))
            if "dask" in best:
                ours = best["dask"].seconds
                label = f"{name}: two Dask workers ({100 * (ours / two - 1):+.0f} %)"
                rows.append(Row(label, ours, "two processes + 15 %", two * DASK_OVERHEAD, 1.0))
            rows += papers_way(name, suite, seconds)
    rows.append(Row("reproduce all, two processes (extrapolated)", whole, "allowed", WHOLE_SECONDS, 1.0))
    return rows


def part_of_synthetic() -> Sweep:
    return SyntheticPlan(functions=8, sweep_rho=()).sweep()


def one_site(plan: WindPlan) -> WindPlan:
    return plan.model_copy(update={"sites": plan.sites[:1]})


def in_turns(sweep: Sweep, executors: dict[str, Executor]) -> dict[str, Report]:
    """The best of several turns that all executors take, so that a busy moment of the machine hits them alike.

    The start of the workers is not timed: it takes as long for a large sweep as for a small one.
    """
    first = Sweep(sweep.name, sweep.config, sweep.runs[:: max(1, len(sweep.runs) // 12)])  # of many scenes
    best: dict[str, Report] = {}
    for turn in range(TURNS + 1):
        for name, executor in executors.items():
            with tempfile.TemporaryDirectory() as folder:
                done = run_sweep(sweep if turn else first, folder, executor=executor)
            if turn and (name not in best or done.seconds < best[name].seconds):
                best[name] = done
    return best


def report(name: str, sweep: Sweep, done: Report) -> None:
    rates = f"{done.done / done.seconds:.1f} runs/s, {done.decisions / done.seconds:.0f} decisions/s"
    print(f"experiments: {name}: {len(sweep.runs)} runs in {done.seconds:.1f} s: {rates}", file=sys.stderr)


def papers_way(name: str, suite: Sweep, seconds: float) -> list[Row]:
    """The whole suite against its GP-MD runs alone by the paper's recipe; both on two processes, extrapolated."""
    print(f"experiments: {name}: whole suite on two processes, extrapolated: {seconds:.0f} s", file=sys.stderr)
    if importlib.util.find_spec("gpytorch") is None:
        print("experiments: gpytorch is not installed, so the paper's way cannot be measured", file=sys.stderr)
        return []
    setting = learning.wind() if "wind" in name else learning.synthetic()
    runs = [run.rounds for run in suite.runs if run.policy.name == "gp-md"]
    rounds, halfway = sum(runs), max(runs) // 2  # a refit in mid-run stands for those before and after it
    (row,) = decision.against_the_papers_way(name, *setting, t=halfway, bar=1.0)
    return [Row(f"{name}: whole suite (extrapolated)", seconds, "paper's GP-MD alone", row.peer_seconds * rounds / 2)]


@contextmanager
def dask() -> Iterator[Executor]:
    from holdcourse.ext.dask import cluster

    with two_dask_workers() as address, cluster(address) as executor:
        yield executor


@contextmanager
def two_dask_workers() -> Iterator[str]:
    """A scheduler and two workers, processes of their own on this machine."""
    started: list[subprocess.Popen[str]] = []

    def start(module: str, *options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", f"distributed.cli.{module}", *options, "--no-dashboard"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        started.append(process)
        return process

    def wait_for(process: subprocess.Popen[str], pattern: str) -> str:
        assert process.stderr is not None
        for line in process.stderr:
            found = re.search(pattern, line)
            if found:
                threading.Thread(target=process.stderr.read, daemon=True).start()  # or its pipe fills up
                return found[0]
        raise RuntimeError(f"{process.args} did not start")

    try:
        address = wait_for(start("dask_scheduler", "--host", "127.0.0.1", "--port", "0"), r"tcp://127\.0\.0\.1:\d+")
        for worker in [start("dask_worker", address, "--nthreads", "1", "--no-nanny") for _ in range(2)]:
            wait_for(worker, "Registered to|Starting established connection")
        yield address
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


if __name__ == "__main__":
    for row in measure():
        print(row.name, f"{row.ours_seconds:.2f} s", row.peer_name, f"{row.peer_seconds:.2f} s", f"{row.ratio:.2f}x")
