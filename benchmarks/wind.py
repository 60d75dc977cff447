"""A year of wind: a backtest of GP-MD over 8760 hours, the same loop the paper's way, and the writing of the report.

The paper's way is measured at a few rounds and extrapolated: it refits all measurements every hour, so a year of it
would take hours or days.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time

import numpy as np
import ot
from scipy.optimize import nnls

import holdcourse as hc
from benchmarks import posterior as learning
from benchmarks.decision import projected_gradient
from benchmarks.timing import Row, best_of
from holdcourse.wind import bundled, machine
from holdcourse.wind.backtest.run import Plan, backtest, run_backtest
from holdcourse.wind.physics import WindWorld, wind_world
from holdcourse.wind.policy.policies import Past, Setting
from holdcourse.wind.report.page import write_report

HOURS = 8760
PER_SECOND = 5000  # decisions that we want at least
SAMPLED = (250, 500, 1000, 2000)  # rounds at which the paper's way is timed


def measure() -> list[Row]:
    world = year()
    setting = Setting(world, Past(world.hours[:24], world.speed[:24]))
    ours = best_of(lambda: backtest(setting, ["gp-md"]), repeats=3)
    speed = f"{HOURS / ours:.0f} decisions/s"
    at, seconds, peer = papers_way(world)
    whole = extrapolated(at, seconds)
    begin = time.perf_counter()
    plan = Plan(begin="2009-01-01", end="2010-01-01", machine=machine("skysails"), movement="physical")
    result = run_backtest(bundled("history"), plan=plan, processes=2)
    result.bankable  # noqa: B018 - the figures per year belong to it
    everything = time.perf_counter() - begin
    with tempfile.TemporaryDirectory() as folder:
        written = best_of(lambda: write_report([result], folder), repeats=2)
    return [
        Row(f"GP-MD over {HOURS} hours ({speed})", ours, f"allowed: {PER_SECOND} decisions/s", HOURS / PER_SECOND, 1.0),
        Row(f"GP-MD over {HOURS} hours", ours, f"paper's way, {peer}, extrapolated", whole),
        Row("a year, all policies, what-if, P90; two cores", everything, "allowed: a minute", 60.0, 1.0),
        Row("its report: page, tables, pictures", written, "the backtest itself", everything),
    ]


def year() -> WindWorld:
    data = bundled("history").between("2009-01-01", "2010-01-01")
    altitudes = np.linspace(10.0, 750.0, 25)
    return wind_world(data.time, altitudes, data.onto(altitudes).speed)


def papers_way(world: WindWorld) -> tuple[np.ndarray, np.ndarray, str]:
    """Seconds of one round after so many: refit a posterior, projected gradient on the tree, coupling as an LP."""
    problem, kernel, noise_std, declared = learning.wind()
    torch = importlib.util.find_spec("gpytorch") is not None
    make, peer = (learning.gpytorch, "GPyTorch") if torch else (learning.scikit_learn, "scikit-learn")
    tree = hc.frt_tree(world.problem, seed=1)
    distances = tree.distances()
    costs = world.service[0]
    q = hc.mirror.descend(tree, tree.share.copy(), costs)
    p = hc.mirror.leaf_probabilities(tree, q)
    seconds = []
    for t in SAMPLED:
        past = learning.history_of(problem, declared, t)
        places = learning.scaled_actions(problem, kernel)
        hours = learning.scaled_contexts(kernel, past.contexts)
        inputs = np.concatenate([places[past.actions], hours], axis=1)
        asked = np.concatenate([places, np.tile(hours[:1], (problem.n, 1))], axis=1)
        refit = make(kernel, noise_std**2, inputs, past.measurements, asked)

        def one_round() -> None:
            refit()  # noqa: B023 - called before the next one is made
            after = projected_gradient(tree, q, costs)
            ot.emd(p, after / after.sum(), distances)

        seconds.append(best_of(one_round, repeats=2))
    return np.array(SAMPLED, float), np.array(seconds), peer


def extrapolated(at: np.ndarray, seconds: np.ndarray) -> float:
    """Seconds of a year: a constant, the t^2 of the covariance and the t^3 of its factor, fitted to what was timed."""

    def terms(t: np.ndarray) -> np.ndarray:
        return np.column_stack([np.ones_like(t), (t / 1e3) ** 2, (t / 1e3) ** 3])

    weights = 1 / seconds  # relative errors count alike
    found, _ = nnls(terms(at) * weights[:, None], np.ones_like(at))
    return float((terms(np.arange(1.0, HOURS + 1)) @ found).sum())
