"""Policies side by side: cost over that of the clairvoyant optimum, on 15 cells and five harder processes.

``python -m benchmarks.compare --policies planner gp_md_2 --first-seed 5000 --seeds 8 --workers 2``

A cell is a process of contexts and a weight rho of the service cost: a 14 x 14 grid, 40 contexts, 300 rounds. All
policies meet the same landscapes, contexts, starts and noise, so differences are paired by seed. Standard errors are
over seeds; the one of a mean over cells is taken of each seed's mean, as the cells of a seed share a landscape.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

import holdcourse as hc
from benchmarks.timing import Row
from holdcourse.hedge import hedged
from holdcourse.planning.policies import planner, planner_known
from holdcourse.policy import Pilot

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

RHOS = (0.5, 1.0, 2.0)
EASY = ("iid", "walk", "daily", "blocks", "alternating")
HARD = ("drift", "pulse", "regimes", "chain change", "adversary")
GRID, CONTEXTS, ROUNDS = 14, 40, 300


@dataclass(frozen=True)
class Outcome:
    """One run: what it cost and what the optimum would have cost."""

    policy: str
    process: str
    rho: float
    seed: int
    total: float
    optimum: float

    @property
    def ratio(self) -> float:
        """Cost over the optimum's."""
        return self.total / self.optimum


# -- processes: indices into the ordered list of k contexts, one per round ---------------------------------------------


def drift(k: int, rounds: int, random: np.random.Generator) -> Indices:
    """Once through all contexts, never back."""
    place = np.linspace(0.0, 1.0, rounds) + 0.03 * random.standard_normal(rounds)
    return np.clip((place * k).astype(np.int64), 0, k - 1)


def pulse(k: int, rounds: int, random: np.random.Generator) -> Indices:
    """One context, interrupted for single rounds by any other."""
    sequence = np.full(rounds, random.integers(k))
    rare = random.random(rounds) < 0.1
    sequence[rare] = random.integers(k, size=int(rare.sum()))
    return sequence


def regimes(k: int, rounds: int, random: np.random.Generator) -> Indices:
    """About every 60 rounds another five contexts, drawn anew each round."""
    sequence = np.empty(rounds, dtype=np.int64)
    few = random.choice(k, size=5, replace=False)
    for t in range(rounds):
        if random.random() < 1 / 60:
            few = random.choice(k, size=5, replace=False)
        sequence[t] = random.choice(few)
    return sequence


def chain_change(k: int, rounds: int, random: np.random.Generator) -> Indices:
    """A fixed round trip over eight contexts; halfway the same eight in another order."""
    stops = random.choice(k, size=8, replace=False)
    later = random.permutation(stops)
    t = np.arange(rounds)
    return np.asarray(np.where(t < rounds // 2, stops[t % 8], later[t % 8]))


PROCESSES: dict[str, Callable[[int, int, np.random.Generator], Indices]] = {
    "drift": drift,
    "pulse": pulse,
    "regimes": regimes,
    "chain change": chain_change,
}


def context_indices(world: hc.SyntheticWorld, process: str, rounds: int, seed: int) -> Indices | None:
    """Which contexts come; None where the adversary decides round by round."""
    if process == "adversary":
        return None
    if process in PROCESSES:
        return PROCESSES[process](len(world.contexts), rounds, np.random.default_rng([seed, 17]))
    return np.array([world.index(context) for context in world.context_sequence(process, rounds, seed=seed)])


def worst_context(world: hc.SyntheticWorld, action: int, random: np.random.Generator) -> int:
    """Of five contexts drawn, the one in which the present action is worst beside the best one."""
    drawn = random.choice(len(world.contexts), size=5, replace=False)
    loss = world.landscape[drawn, action] - world.landscape[drawn].min(axis=1)
    return int(drawn[np.argmax(loss)])


# -- policies ----------------------------------------------------------------------------------------------------------


def learning_of(world: hc.SyntheticWorld) -> dict[str, Any]:
    known = {"kernel": world.kernel, "noise_std": world.noise_std, "prior_mean": world.prior_mean}
    return {**known, "contexts": world.contexts}


POLICIES: dict[str, Callable[[hc.SyntheticWorld], hc.Policy]] = {
    "planner": lambda world: planner(world.problem, **learning_of(world)),
    "planner_unshared": lambda world: unshared(world, 1.25),
    "planner_known": lambda world: planner_known(world.problem),
    "gp_md_1": lambda world: hc.gp_md(world.problem, width=1.0, **learning_of(world)),
    "gp_md_2": lambda world: hc.gp_md(world.problem, width=2.0, **learning_of(world)),
    "cgp_lcb": lambda world: hc.cgp_lcb(world.problem, **learning_of(world)),
    "md_known": lambda world: hc.md_known(world.problem),
    "stationary": lambda world: hc.stationary(world.problem),
    "hedged": lambda world: hedged([POLICIES["planner"](world), POLICIES["gp_md_1"](world)]),
    "forecast_true": lambda world: planner(world.problem, **learning_of(world)),
    "forecast_shuffled": lambda world: planner(world.problem, **learning_of(world)),
}
FORECAST_ROUNDS = 12


def unshared(world: hc.SyntheticWorld, width: float) -> hc.Policy:
    """The planner with full optimism in every context."""
    policy = planner(world.problem, width=width, **learning_of(world))
    return replace(policy, rule=replace(policy.rule, shared=False), made_by=None)


def forecasts_for(name: str, world: hc.SyntheticWorld, indices: Indices | None, seed: int) -> list[Array] | None:
    """The forecast shown in each round, to the policies that are named for it."""
    if not name.startswith("forecast") or indices is None:
        return None
    order = indices if name == "forecast_true" else np.random.default_rng([seed, 23]).permutation(indices)
    return [world.contexts[order[t + 1 : t + 1 + FORECAST_ROUNDS]] for t in range(len(order))]


# -- runs --------------------------------------------------------------------------------------------------------------


def run(name: str, process: str, rho: float, seed: int, rounds: int = ROUNDS, grid: int = GRID) -> Outcome:
    world = hc.SyntheticWorld.sample(seed=seed, grid=grid, contexts=CONTEXTS, rho=rho)
    start = int(np.random.default_rng([seed, 5]).integers(world.problem.n))
    indices = context_indices(world, process, rounds, seed)
    forecasts = forecasts_for(name, world, indices, seed)
    pilot = Pilot(POLICIES[name](world), start, seed)
    adversary = np.random.default_rng([seed, 29])
    seen, total, action = np.empty(rounds, dtype=np.int64), 0.0, start
    for t in range(rounds):
        seen[t] = worst_context(world, action, adversary) if indices is None else indices[t]
        context, costs = world.contexts[seen[t]], world.landscape[seen[t]]
        forecast = None if forecasts is None else forecasts[t]
        _, view = pilot.look(context, forecast=forecast, shown=costs if pilot.model.needs_costs else None)
        choice = pilot.decide(view)
        pilot.accept(choice)
        total += float(costs[choice.action]) + world.problem.distance(action, choice.action)
        action = choice.action
        pilot.learn(action, context, world.measure(t, context, action, hc.measurement_noise(seed, t)))
    optimum = hc.optimal_path(world.landscape[seen], world.problem, start).total
    return Outcome(name, process, rho, seed, total, optimum)


def compare(
    policies: Sequence[str],
    processes: Sequence[str] = EASY,
    rhos: Sequence[float] = RHOS,
    seeds: Sequence[int] = range(5000, 5008),
    rounds: int = ROUNDS,
    grid: int = GRID,
    workers: int = 1,
) -> Iterator[Outcome]:
    """Every policy on every cell and seed, seed by seed."""
    jobs = [(name, *cell, rounds, grid) for cell in product(processes, rhos, seeds) for name in policies]
    jobs.sort(key=lambda job: job[3])
    if workers == 1:
        yield from (run(*job) for job in jobs)
        return
    with ProcessPoolExecutor(min(workers, 2)) as pool:
        yield from pool.map(run, *zip(*jobs, strict=True))


# -- tables ------------------------------------------------------------------------------------------------------------


def ratios(outcomes: Sequence[Outcome], policy: str) -> tuple[list[tuple[str, float]], Array]:
    """The cells, and the ratios of a policy by seed and cell."""
    mine = [outcome for outcome in outcomes if outcome.policy == policy]
    cells = list(dict.fromkeys((outcome.process, outcome.rho) for outcome in mine))
    seeds = list(dict.fromkeys(outcome.seed for outcome in mine))
    table = np.full((len(seeds), len(cells)), np.nan)
    for outcome in mine:
        table[seeds.index(outcome.seed), cells.index((outcome.process, outcome.rho))] = outcome.ratio
    return cells, table


def standard_error(values: Array) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def report(outcomes: Sequence[Outcome], policies: Sequence[str]) -> str:
    """A line per policy: mean, its standard error, the paired difference to the first policy, and every cell."""
    lines = []
    _, reference = ratios(outcomes, policies[0])
    for name in policies:
        cells, table = ratios(outcomes, name)
        means, by_seed = table.mean(axis=0), table.mean(axis=1)
        apart = (table - reference).mean(axis=1)
        groups: dict[str, list[str]] = {}
        for (process, _), mean in zip(cells, means, strict=True):
            groups.setdefault(process, []).append(f"{mean:.2f}")
        shown = "  ".join(f"{process} {' '.join(values)}" for process, values in groups.items())
        lines.append(
            f"{name:18s} {means.mean():.3f} +- {standard_error(by_seed):.3f}  worst {means.max():.2f}  "
            f"against {policies[0]} {apart.mean():+.3f} +- {standard_error(apart):.3f} | {shown}"
        )
    return "\n".join(lines)


def measure() -> list[Row]:
    """Nothing about speed: this module compares costs."""
    return []


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--policies", nargs="+", default=["planner", "gp_md_1", "gp_md_2", "planner_known"], choices=POLICIES
    )
    parser.add_argument("--processes", nargs="+", default=list(EASY), choices=[*EASY, *HARD])
    parser.add_argument("--rhos", nargs="+", type=float, default=list(RHOS))
    parser.add_argument("--first-seed", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--grid", type=int, default=GRID)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one line per run instead of a table")
    given = parser.parse_args(arguments)
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    outcomes = compare(given.policies, given.processes, given.rhos, seeds, given.rounds, given.grid, given.workers)
    if given.json:
        for outcome in outcomes:
            print(json.dumps(asdict(outcome)), flush=True)
    else:
        print(report(list(outcomes), given.policies))
    return 0


if __name__ == "__main__":
    sys.exit(main())
