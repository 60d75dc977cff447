"""What it costs to know nothing: `recommended` on landscapes of our benchmark, from a setting that somebody chose.

``python tools/cold_start.py --first-seed 63000 --seeds 8 --out cold-start`` runs every kind below on so many landscapes
(14 x 14 settings, 40 contexts, rho 1, 300 rounds) and four processes of contexts. What is finished is kept in
``runs.csv``; the same command goes on from there. It prints, for each kind, the cost over the clairvoyant optimum with
its error over landscapes, the paired difference to a known kernel, and how many runs were more expensive than staying.

==============  ========================================================================================================
known           kernel, noise and mean are given; the others are compared with it
cold            nothing is known
free            nothing is known, nothing is promised (``at_most=None``)
history-50      50 rows of history: the incumbent, left about every 25 rounds for about 8 rounds
history-1000    1000 rows of it
==============  ========================================================================================================
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import holdcourse as hc
from holdcourse.worlds.plants.rivals import operators

PROCESSES = ("iid", "walk", "daily", "blocks")
KINDS = {
    "known": "kernel, noise and mean",
    "cold": "nothing",
    "free": "nothing, and nothing is promised",
    "history-50": "50 rows of history",
    "history-1000": "1000 rows of history",
}
ROUNDS = 300
BEST = 5  # the incumbent is one of the best settings: of so many the best one, in the mean over all contexts
PAST, INCUMBENT = 100_000, 7  # what the random numbers of a seed are for


class Task(NamedTuple):
    """One run: what is known, on which landscape, in which order of contexts."""

    kind: str
    seed: int
    process: str


class Paid(NamedTuple):
    """What a run and staying paid, over the optimum."""

    ratio: float
    stay: float


@lru_cache(maxsize=2)
def landscape(seed: int) -> hc.SyntheticWorld:
    """Return the landscape with this number."""
    return hc.SyntheticWorld.sample(seed=seed, grid=14, contexts=40, rho=1.0)


def incumbent(world: hc.SyntheticWorld, seed: int) -> int:
    """Return a setting that somebody might have chosen."""
    order = np.argsort(world.landscape.mean(axis=0))
    best = order[: len(order) // BEST]
    return int(best[np.random.default_rng([seed, INCUMBENT]).integers(len(best))])


def past(world: hc.SyntheticWorld, process: str, seed: int, rows: int) -> list[tuple[int, Any, float]]:
    """Rows of what operators measured, who hold the incumbent and leave it now and then."""
    contexts = world.context_sequence(process, rows, seed + PAST)
    start = incumbent(world, seed)
    run = hc.simulate(operators(world.problem, start), world, contexts, start=start, seed=seed + PAST)
    return [(row["action"], row["context"], row["measurement"]) for row in run.rows()]


def pay(task: Task) -> Paid:
    """Do one run."""
    world = landscape(task.seed)
    contexts = world.context_sequence(task.process, ROUNDS, task.seed)
    start = incumbent(world, task.seed)
    options: dict[str, Any] = {}
    if task.kind == "known":
        options = {"kernel": world.kernel, "noise_std": world.noise_std, "prior_mean": world.prior_mean}
    if task.kind == "free":
        options["at_most"] = None
    rows = int(task.kind.partition("-")[2] or 0)
    history = past(world, task.process, task.seed, rows) if rows else None
    run = hc.simulate(hc.recommended(world.problem, history, **options), world, contexts, start=start, seed=task.seed)
    table = world.landscape[[world.index(context) for context in contexts]]
    optimum = hc.optimal_path(table, world.problem, start).total
    return Paid(run.total / optimum, float(table[:, start].sum()) / optimum)


def finished(path: Path) -> dict[Task, Paid]:
    """Read the runs that are done already."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {
            Task(row["kind"], int(row["seed"]), row["process"]): Paid(float(row["ratio"]), float(row["stay"]))
            for row in csv.DictReader(file)
        }


def run_all(tasks: list[Task], path: Path, workers: int) -> dict[Task, Paid]:
    """Run what is missing, and write each run down as it is finished."""
    done = finished(path)
    missing = [task for task in tasks if task not in done]
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = not path.exists()
    with path.open("a", newline="") as file, ProcessPoolExecutor(workers) as pool:
        writer = csv.writer(file)
        if fresh:
            writer.writerow(["kind", "seed", "process", "ratio", "stay"])
        futures = {pool.submit(pay, task): task for task in missing}
        for count, future in enumerate(as_completed(futures), 1):
            task, paid = futures[future], future.result()
            done[task] = paid
            writer.writerow([*task, *paid])
            file.flush()
            print(f"\r{count} of {len(missing)} runs", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return {task: done[task] for task in tasks}


def by_landscape(done: dict[Task, Paid], kind: str, seeds: range) -> np.ndarray[Any, Any]:
    """Return what was paid, a row for each landscape and a column for each process."""
    return np.array([[done[Task(kind, seed, process)].ratio for process in PROCESSES] for seed in seeds])


HEAD = ["what is known", "cost over the optimum", "compared with a known kernel", "runs above staying"]


def table(done: dict[Task, Paid], kinds: Sequence[str], seeds: range) -> list[list[str]]:
    """Return what came of each kind, a row each, and of staying, which is not a policy that looks at anything."""
    stay = np.array([[done[Task(kinds[0], seed, process)].stay for process in PROCESSES] for seed in seeds])
    rows = [HEAD]
    for kind in kinds:
        ratios = by_landscape(done, kind, seeds)
        means = ratios.mean(axis=1)
        more = means - by_landscape(done, "known", seeds).mean(axis=1)
        beside = "" if kind == "known" else f"{more.mean():+.2f} ± {error(more):.2f}"
        above = f"{int((ratios > stay).sum())} of {ratios.size}"
        rows.append([KINDS[kind], f"{means.mean():.2f} ± {error(means):.2f}", beside, above])
    return [*rows, ["staying", f"{stay.mean():.2f} ± {error(stay.mean(axis=1)):.2f}", "", ""]]


def error(values: np.ndarray[Any, Any]) -> float:
    """Return the standard error of a mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def main(arguments: list[str]) -> int:
    """Run what is asked for, and print a line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first-seed", type=int, default=63000)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("cold-start"))
    given = parser.parse_args(arguments)
    kinds = list(dict.fromkeys(["known", *given.kinds.split(",")]))
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        parser.error(f"there is no kind {unknown[0]!r}; there are {', '.join(KINDS)}")
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    tasks = [Task(kind, seed, process) for seed in seeds for kind in kinds for process in PROCESSES]
    for row in table(run_all(tasks, given.out / "runs.csv", given.workers), kinds, seeds):
        print("".join(f"{cell:36s}" for cell in row).rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
