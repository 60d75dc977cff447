"""A million settings: what they take, and how much more than a hundred thousand.

Each figure is taken in a process of its own, so that its peak of memory is its own; times are processor time of one
thread. ``python -m benchmarks.sizes`` prints the tables of docs/scope.md.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from benchmarks.timing import Row
from holdcourse.movement.offline import movement

FEW, MANY = 100_000, 1_000_000
GROWTH = 15.0  # times as much, at most, for ten times as many
WARM = 1_000  # settings on which everything is compiled first
LENGTH = 0.2
ROUNDS = 6
CONTEXTS = 70  # rounds, each with a context of its own, until a planner tells as many apart as it can
GREEDY_ROUNDS = 100

Figures = dict[str, float]


def tree(n: int) -> Figures:
    """The problem of scattered points in the plane, and its tree."""
    points = np.random.default_rng(n).random((n, 2))
    begun = time.process_time()
    hc.frt_tree(hc.Problem(points), seed=0)
    return {"seconds": time.process_time() - begun}


def descent_scattered(n: int) -> Figures:
    """A round of mirror descent and coupling on such a tree."""
    return descent(hc.Problem(np.random.default_rng(n).random((n, 2))))


def descent_on_a_grid(n: int) -> Figures:
    """The same on a grid, whose neighbours lie side by side in memory."""
    return descent(on_a_grid(n))


def descent(problem: hc.Problem) -> Figures:
    """The best of several rounds."""
    n = problem.n
    x, y = problem.actions.T
    rule = hc.rules.MirrorDescent(problem, hc.frt_tree(problem, seed=0))
    state, seconds = rule.begin(0, 1), []
    for t in range(2 * ROUNDS):
        costs = 0.1 * (np.sin(6 * x + t) + np.cos(5 * y - t))
        view = hc.rules.View(costs=costs, context=None, allowed=np.ones(n, dtype=bool))
        begun = time.process_time()
        state = rule.step(state, view).state
        seconds.append(time.process_time() - begun)
    return {"seconds": min(seconds)}


def on_a_grid(n: int) -> hc.Problem:
    """As many settings in a square grid, moves by their straight length."""
    axis = np.linspace(0.0, 1.0, round(n**0.5))
    return hc.Problem(hc.grid(x=axis, y=axis), "euclidean")


def learning_on_a_grid(n: int) -> Figures:
    """Decide and learn, GP-MD: features are products over the axes."""
    return learning(hc.gp_md, on_a_grid(n))


def learning_scattered(n: int) -> Figures:
    """The same of scattered points: features are of inducing points."""
    return learning(hc.gp_md, hc.Problem(np.random.default_rng(n).random((n, 2))))


def planning(n: int) -> Figures:
    """Decide and learn, planner, moves priced along the axes: up to 100,000 settings all are weighed, in sweeps."""
    axis = np.linspace(0.0, 1.0, round(n**0.5))
    return learning(hc.planner, hc.Problem(hc.grid(x=axis, y=axis), "cityblock"), CONTEXTS)


def planning_scattered(n: int) -> Figures:
    """The same of scattered points, of which landmarks are weighed."""
    return learning(hc.planner, hc.Problem(np.random.default_rng(n).random((n, 2))), CONTEXTS)


def recommended(n: int) -> Figures:
    """What we recommend: the planner with GP-MD beside it, under a promise."""
    return learning(hc.recommended, hc.Problem(np.random.default_rng(n).random((n, 2))), CONTEXTS)


def lowest_bound(n: int) -> Figures:
    """The lowest bound alone, searched for in boxes, in the mean over the rounds of a greedy policy."""
    problem = on_a_grid(n)
    kernel = hc.Kernel(RBF(LENGTH), RBF(LENGTH))
    belief = hc.posterior(problem, kernel, context_bounds=(0.0, 1.0))
    model, seconds = hc.costs.LowerBound(belief), []
    for t in range(GREEDY_ROUNDS):
        context = 0.5 + 0.4 * np.sin(t)
        begun = time.process_time()
        found = model.lowest(context)
        seconds.append(time.process_time() - begun)
        model.learn(found.action, context, float(np.sin(7.0 * problem.actions[found.action] + 3.0 * context).sum()))
    return {"seconds": float(np.mean(seconds[1:]))}


def learning(maker: Callable[..., hc.Policy], problem: hc.Problem, rounds: int = ROUNDS) -> Figures:
    """Ask and tell: the dearest of the last rounds; everything is prepared in the first."""
    kernel = hc.Kernel(RBF(LENGTH), RBF(LENGTH))
    policy = maker(problem, kernel=kernel, context_bounds=(0.0, 1.0))
    controller, seconds = hc.Controller(policy, start_index=0), []
    for t in range(rounds):
        context = 0.5 + 0.4 * np.sin(t)
        begun = time.process_time()
        decision = controller.ask(context)
        cost = float(((problem.actions[decision.action] - context) ** 2).sum())
        controller.tell(decision.id, cost)
        seconds.append(time.process_time() - begun)
    return {"seconds": max(seconds[1 - ROUNDS :])}


def of_all_kinds(n: int) -> hc.Problem:
    """Settings of five knobs of all kinds."""
    settings = hc.grid(
        a=hc.knob(range(n // 10_000), per_unit=0.1),
        b=hc.knob(range(10), per_step=1.0),
        c=hc.knob([f"mode {k}" for k in range(10)], change=30.0, together="restart"),
        d=hc.knob(range(10), change=30.0, together="restart"),
        e=hc.knob(range(10), change=1.0),
    )
    return hc.Problem(settings)


def tree_of_knobs(n: int) -> Figures:
    """The tree of settings of knobs of all kinds."""
    begun = time.process_time()
    hc.frt_tree(of_all_kinds(n), seed=0)
    return {"seconds": time.process_time() - begun}


def tree_of_names(n: int) -> Figures:
    """The tree of six knobs of names, each change at one price: no tree of boxes parts them well."""
    names = [f"mode {k}" for k in range(round(n ** (1 / 6)))]
    begun = time.process_time()
    hc.frt_tree(hc.Problem(hc.grid(**{f"k{i}": hc.knob(names, change=1.0) for i in range(6)})), seed=0)
    return {"seconds": time.process_time() - begun}


def sweep_of_knobs(n: int) -> Figures:
    """The cheapest way into each setting of knobs of all kinds, which plans and the optimum take."""
    problem = of_all_kinds(n)
    moves, costs, seconds = movement(problem), np.random.default_rng(0).random(problem.n), []
    for _ in range(ROUNDS):
        begun = time.process_time()
        moves.relax(costs)
        seconds.append(time.process_time() - begun)
    return {"seconds": min(seconds)}


# What is measured: in words, by what, seconds allowed for a million, and gigabytes; None: no bar.
MEASURED: dict[str, tuple[Callable[[int], Figures], float | None, float | None]] = {
    "problem and tree": (tree, 15.0, 2.0),
    "a round of mirror descent and coupling, on a grid": (descent_on_a_grid, 0.060, None),
    "the same round, scattered points": (descent_scattered, 0.060, None),
    "a decision that learns, GP-MD, on a grid": (learning_on_a_grid, 1.5, None),
    "the same decision, scattered points": (learning_scattered, 1.5, None),
    "a decision of the planner, scattered points": (planning_scattered, 2.0, 3.0),
    "a decision of `recommended`, scattered points": (recommended, 2.0, 3.0),
    'a decision of the planner, on a grid with `metric="cityblock"`': (planning, None, None),
    "the lowest bound alone, on a grid": (lowest_bound, None, None),
    "knobs of all kinds: tree": (tree_of_knobs, None, None),
    "knobs of all kinds: a sweep over all settings": (sweep_of_knobs, None, None),
    "six knobs of names alone: tree": (tree_of_names, None, None),
}


def measure() -> list[Row]:
    """A million settings against what is allowed, and against a hundred thousand."""
    rows = []
    for name, (_, seconds, gigabytes) in MEASURED.items():
        few, many = figures_of(name, FEW), figures_of(name, MANY)
        said = f"{name}, n = {MANY:,}, {many['gigabytes']:.2f} GB"
        bar = None if seconds is None else 1 / GROWTH
        rows.append(Row(said, many["seconds"], f"n = {FEW:,}", few["seconds"], bar))
        if seconds is not None:
            rows.append(Row(said, many["seconds"], "allowed", seconds, 1.0))
        if gigabytes is not None and many["gigabytes"] > gigabytes:
            rows.append(Row(f"{said}, MORE THAN {gigabytes:g} GB", many["seconds"], "allowed", 0.0, 1.0))
    return rows


def figures_of(name: str, n: int) -> Figures:
    """Measure in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.sizes", name, str(n)], check=True, capture_output=True, text=True
    )
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return found


def table() -> list[list[str]]:
    """The rows of the table in docs/scope.md."""
    rows = [["", "100,000 settings", "1,000,000 settings", "times", "allowed"]]
    for name, (_, seconds, gigabytes) in MEASURED.items():
        few, many = figures_of(name, FEW), figures_of(name, MANY)
        cells = [f"{each['seconds']:.2g} s, {each['gigabytes']:.1f} GB" for each in (few, many)]
        allowed = [f"{seconds:g} s"] if seconds is not None else []
        allowed += [f"{gigabytes:g} GB"] if gigabytes is not None else []
        allowed += [f"{GROWTH:g} times"] if allowed else []
        rows.append([name, *cells, f"{many['seconds'] / few['seconds']:.1f}", ", ".join(allowed)])
        print("| " + " | ".join(rows[-1]) + " |", flush=True)
    return rows


def main(arguments: list[str]) -> Any:
    """Measure one thing in this process, or all of them, each in its own."""
    if not arguments:
        return table()
    function = MEASURED[arguments[0]][0]
    function(WARM if function not in (tree_of_knobs, sweep_of_knobs) else 10_000)
    found = function(int(arguments[1]))
    print(json.dumps(found | {"gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}))
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
