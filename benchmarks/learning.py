"""Learning on plants: a round after 5,000 measurements against one after 500, and the fit against the dense one."""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from benchmarks.dense_fit import dense_fit
from benchmarks.timing import Row, best_of
from holdcourse.deciding.pilot import Pilot
from holdcourse.deciding.planning.plan import planner
from holdcourse.learning.history import History
from holdcourse.learning.kernels import AnyKernel, Kernel
from holdcourse.learning.posteriors import Posterior, Prior, posterior
from holdcourse.learning.posteriors.exact import ExactPosterior
from holdcourse.movement.grid import grid
from holdcourse.movement.problem import Problem

Array: TypeAlias = NDArray[np.float64]

PLANT = Problem(grid(x=np.linspace(0.0, 1.0, 8), y=np.linspace(0.0, 1.0, 7)))
YEAR = 8760
ROUNDS = 40
LENGTHS = {1: 0.02, 2: 0.15, 3: 0.25, 4: 0.3, 5: 0.4}  # short enough that no basis of 960 weights covers 2 to 5 axes
SOME, HELD_OUT = 300, 400


def measure() -> list[Row]:
    """All rows: rounds for 1 to 5 context numbers, the fit, and `recommended` from a year of hours."""
    rows = [row for d in LENGTHS for row in rounds(d)]
    return [*rows, *fits(), start()]


def walk(rng: np.random.Generator, t: int, d: int) -> Array:
    """Contexts that move slowly, as weather and load do."""
    contexts = np.full((t, d), 0.5)
    for k in range(1, t):
        contexts[k] = 0.5 + 0.95 * (contexts[k - 1] - 0.5) + 0.07 * rng.normal(size=d)
    return contexts


def plant(t: int, d: int, seed: int = 0, noise: float = 0.05) -> History:
    """A chiller-like plant: smooth, with a best setting that moves with the context."""
    rng = np.random.default_rng(seed)
    actions, contexts = rng.integers(PLANT.n, size=t), walk(rng, t, d)
    return History(actions, contexts, chiller(PLANT.actions[actions], contexts) + noise * rng.normal(size=t))


def chiller(settings: Array, contexts: Array) -> Array:
    """Load times a bowl around the best setting, and a penalty where the load is not met."""
    load, wet = contexts[:, 0], contexts[:, -1]
    bowl = (settings[:, 0] - 0.2 - 0.5 * load) ** 2 + 0.5 * (settings[:, 1] - 0.3 - 0.4 * wet) ** 2
    cost: Array = 1.0 + load + (1.0 + load) * bowl + np.log1p(np.exp(8.0 * (load - settings[:, 0] - 0.3))) / 8.0
    return cost


def rounds(d: int) -> list[Row]:
    """A round of the planner, ask and tell, at t = 5,000 and at 500; and the tells of 5,000 measurements."""
    young, old = (planned(d, t) for t in (500, 5_000))
    past = plant(5_000, d)
    post = posterior(PLANT, **beliefs(d))
    tells = [timed(post, past, k) for k in range(len(past))]
    name = f"{d} context numbers"
    return [
        Row(f"planner's round, {name}, t = 5,000 ({post.method})", old, "t = 500", young, bar=1 / 1.5),
        Row(f"condition, {name}, p99 of 5,000", float(np.quantile(tells, 0.99)), "allowed", 0.05, bar=1.0),
        Row(f"condition, {name}, longest (a new basis)", max(tells), "allowed", 1.0, bar=1.0),
    ]


def beliefs(d: int) -> dict[str, Any]:
    """What is believed before the first measurement."""
    kernel = Kernel(RBF(0.4), RBF(LENGTHS[d]))
    return {"kernel": kernel, "noise_std": 0.1, "prior_mean": 1.0, "context_bounds": [(-0.2, 1.2)] * d}


def planned(d: int, t: int) -> float:
    """Seconds of a round of the planner: the best stretch of ten among the `ROUNDS` that end after measurement t."""
    past = plant(t, d)
    begin = t - 2 * ROUNDS  # half of them to see contexts to plan for
    known = History(past.actions[:begin], past.contexts[:begin], past.measurements[:begin])
    pilot = Pilot(planner(PLANT, history=known, **beliefs(d)), 0, 0)
    took = []
    for context in past.contexts[begin:]:
        start = time.perf_counter()
        _, view = pilot.look(context)
        choice = pilot.decide(view)
        pilot.accept(choice)
        cost = chiller(PLANT.actions[choice.action][None], context[None])[0]
        pilot.learn(choice.action, context, float(cost))
        took.append(time.perf_counter() - start)
    return float(np.mean(np.reshape(took[ROUNDS:], (-1, 10)), axis=1).min())


def timed(post: Posterior, past: History, k: int) -> float:
    """Seconds to tell measurement k."""
    begin = time.perf_counter()
    post.condition(int(past.actions[k]), past.contexts[k], float(past.measurements[k]))
    return time.perf_counter() - begin


def fits() -> list[Row]:
    """The fit to a year of hours with two context numbers, and to 400 measurements with five."""
    rows = []
    for name, past, bar in (
        ("8,760 rows, 2 context numbers", plant(YEAR, 2), 8.0),
        ("400 rows, 5 context numbers", plant(400, 5), None),
    ):
        ours = best_of(lambda past=past: fitted(past), 2)
        begin = time.perf_counter()
        dense_fit(PLANT, past)
        rows.append(Row(f"fit, {name}", ours, "dense fit", time.perf_counter() - begin, bar))
    return rows


def start() -> Row:
    """`recommended` from a year of hours: the fit, all rows learned, the best fixed action."""
    past = plant(YEAR, 2)
    return Row(
        "recommended, 8,760 rows, 56 actions",
        best_of(lambda: hc.recommended(PLANT, history=past), 1),
        "allowed",
        10.0,
        bar=1.0,
    )


def fitted(past: History) -> tuple[AnyKernel, float, float]:
    """Kernel, noise deviation and prior mean by `fit_kernel`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hc.FitWarning)
        fit = hc.fit_kernel(PLANT, past.actions, past.contexts, past.measurements)
    return fit.kernel, fit.noise_std, fit.prior_mean  # type: ignore[return-value]


def data_sets(t: int = 2_000) -> dict[str, History]:
    """Measurements that fits are compared on: draws of Gaussian processes, smooth plants, much and hardly any noise."""
    sets = {}
    for d in (1, 2, 3):
        for kind in ("smooth", "short", "noisy"):
            length, noise = {"smooth": (0.5, 0.05), "short": (0.15, 0.05), "noisy": (0.4, 1.0)}[kind]
            sets[f"GP, {d} context numbers, {kind}"] = draw(t, d, length, noise, 10 * d)
    sets["chiller"] = plant(t, 2, 1)
    sets["chiller, noisy"] = plant(t, 2, 2, 0.5)
    sets["chiller, hardly any noise"] = plant(t, 2, 3, 1e-3)
    return sets


def draw(t: int, d: int, length: float, noise: float, seed: int) -> History:
    """A function drawn from a Gaussian process, by 2000 random waves, and measured."""
    rng = np.random.default_rng(seed)
    actions, contexts = rng.integers(PLANT.n, size=t), walk(rng, t, d)
    points = np.column_stack([PLANT.actions[actions] / 0.4, contexts / length])
    waves, phases = rng.normal(size=(points.shape[1], 2000)), rng.uniform(0, 2 * np.pi, 2000)
    values = np.cos(points @ waves + phases) @ rng.normal(size=2000) * np.sqrt(2 / 2000)
    return History(actions, contexts, 5.0 + values + noise * rng.normal(size=t))


def held_out(fit: tuple[AnyKernel, float, float], past: History) -> float:
    """Mean log density of `HELD_OUT` measurements, given `SOME` others, under what was fitted."""
    kernel, noise, mean = fit
    chosen = np.random.default_rng(7).permutation(len(past))
    known, asked = chosen[:SOME], chosen[SOME : SOME + HELD_OUT]
    prior = Prior(PLANT, kernel, noise, mean)
    post = ExactPosterior(prior).condition_on(
        History(past.actions[known], past.contexts[known], past.measurements[known])
    )
    means, stds = post.predict_at(past.contexts[asked])
    rows = np.arange(len(asked)), past.actions[asked]
    variance = stds[rows] ** 2 + prior.noise_variance
    densities = -0.5 * ((past.measurements[asked] - means[rows]) ** 2 / variance + np.log(2 * np.pi * variance))
    return float(densities.mean())


def comparisons() -> Iterator[list[str]]:
    """What both fits find and how well it predicts: the rows of the second table of docs/benchmarks.md."""
    for name, past in data_sets().items():
        results = []
        for fit in (fitted, lambda past: dense_fit(PLANT, past)):
            begin = time.perf_counter()
            found = fit(past)
            results.append((time.perf_counter() - begin, found, held_out(found, past)))
        (ours, (kernel, noise, _), density), (dense, (other, other_noise, _), other_density) = results
        lengths = [
            np.round(np.concatenate([np.atleast_1d(k.action.length_scale), np.atleast_1d(k.context.length_scale)]), 3)
            for k in (kernel, other)
        ]
        shown = [", ".join(f"{length:g}" for length in each) for each in lengths]
        times = [f"{ours:.2f} s", f"{dense:.1f} s"]
        yield [name, f"{density:.4f}", f"{other_density:.4f}", *times, f"{noise:.4f} / {other_noise:.4f}", *shown]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="What fit_kernel and the dense fit find in the same measurements.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows for programs as well")
    given = parser.parse_args(arguments)
    rows = [["measurements", "density", "dense", "time", "dense", "noise, both", "lengths", "dense"]]
    for row in comparisons():
        rows.append(row)
        print(" | ".join(row), flush=True)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
