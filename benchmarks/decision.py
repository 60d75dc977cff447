"""One whole decision of GP-MD, ask and tell, against the paper's way with public parts.

The paper's way: refit a GPyTorch posterior with fixed hyperparameters and predict all actions; update every vertex of
the tree by projected gradient on its multipliers; solve the coupling as a linear program (POT).
"""

from __future__ import annotations

import importlib.util
import sys
import time
from typing import Any

import numpy as np
import ot

import holdcourse as hc
from benchmarks import posterior as learning
from benchmarks.timing import Row, best_of

TOLERANCE, MOST_STEPS = 1e-6, 2000  # of the projected gradient: loose beside our 1e-12


def measure() -> list[Row]:
    if importlib.util.find_spec("gpytorch") is None:
        print("decision: gpytorch is not installed, so the paper's way cannot be measured", file=sys.stderr)
        return [*overhead()]
    cases = (
        ("n = 400", learning.synthetic(), 500, 100.0),
        ("wind, n = 25", learning.wind(), 500, 300.0),
        ("wind, n = 25", learning.wind(), 960, 300.0),  # as long as the paper's wind runs are
    )
    rows = [row for name, setting, t, bar in cases for row in against_the_papers_way(name, *setting, t=t, bar=bar)]
    return rows + overhead()


def controller_after(
    problem: hc.Problem, kernel: hc.Kernel, noise_std: float, declared: dict[str, Any], t: int
) -> hc.Controller:
    past = learning.history_of(problem, declared, t)
    policy = hc.gp_md(problem, kernel=kernel, noise_std=noise_std, history=past, **declared)
    return hc.Controller(policy, start_index=0, seed=1)


def rounds(controller: hc.Controller, declared: dict[str, Any], count: int) -> None:
    for _ in range(count):
        context = float(controller.round * 7 % 24) if "contexts" in declared else controller.round * 0.37 % 1.0
        decision = controller.ask(context)
        controller.tell(decision.id, 0.1 * decision.action % 1.0)


def against_the_papers_way(
    name: str, problem: hc.Problem, kernel: hc.Kernel, noise_std: float, declared: dict[str, Any], t: int, bar: float
) -> list[Row]:
    controller = controller_after(problem, kernel, noise_std, declared, t)
    ours = best_of(lambda: rounds(controller, declared, 20), repeats=5) / 20

    past = learning.history_of(problem, declared, t)
    inputs = np.concatenate(
        [
            learning.scaled_actions(problem, kernel)[past.actions],
            learning.scaled_contexts(kernel, past.contexts),
        ],
        axis=1,
    )
    asked = np.concatenate(
        [
            learning.scaled_actions(problem, kernel),
            np.tile(learning.scaled_contexts(kernel, past.contexts[:1]), (problem.n, 1)),
        ],
        axis=1,
    )
    refit = learning.gpytorch(kernel, noise_std**2, inputs, past.measurements, asked)
    mean, variance = refit()  # type: ignore[misc]
    costs = mean.numpy() - 2.0 * np.sqrt(variance.numpy())
    tree = hc.frt_tree(problem, seed=1)
    distances = tree.distances()
    q = hc.mirror.descend(tree, tree.share.copy(), costs)  # a state in mid-run
    p = hc.mirror.leaf_probabilities(tree, q)

    def paper() -> tuple[float, float, float]:
        begin = time.perf_counter()
        refit()
        learned = time.perf_counter()
        after = projected_gradient(tree, q, costs)
        descended = time.perf_counter()
        ot.emd(p, after / after.sum(), distances)
        return learned - begin, descended - learned, time.perf_counter() - descended

    paper()
    parts = min((paper() for _ in range(3)), key=sum)
    shown = ", ".join(f"{part} {1e3 * s:.1f} ms" for part, s in zip(("GP", "gradient", "LP"), parts, strict=True))
    return [Row(f"whole decision, {name}, t = {t}", ours, f"paper's way ({shown})", sum(parts), bar)]


def projected_gradient(tree: hc.Tree, q: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """Leaf probabilities after one update, each vertex by gradient steps on its multipliers (paper, appendix)."""
    new, cost = q.copy(), np.append(costs, np.zeros(len(q) - tree.n))
    for u in range(len(tree.first_child) - 1):
        kin = tree.children[tree.first_child[u] : tree.first_child[u + 1]]
        s, d = q[kin] + tree.shift[kin], tree.shift[kin]
        a, c = tree.rate[kin] / tree.weight[kin], cost[kin] - cost[kin].min()
        b, multipliers = float((s * a * c).sum() / (s * a).sum()), np.zeros(len(kin))
        step = 0.5 / (a * s).sum()
        for _ in range(MOST_STEPS):
            p = s * np.exp(np.minimum(a * (b - c + multipliers), 50.0)) - d
            excess = p.sum() - 1.0
            b -= step * excess
            multipliers = np.maximum(0.0, multipliers - step * p)
            if abs(excess) < TOLERANCE and p.min() > -TOLERANCE:
                break
        p = np.maximum(p, 0.0)
        new[kin] = p / p.sum()
        cost[tree.n + u] = cost[kin].min() + float(new[kin] @ c)
    return hc.mirror.leaf_probabilities(tree, new)


def overhead() -> list[Row]:
    """What the Python shell costs beyond the kernels: a round of a policy whose kernels cost next to nothing."""
    controller = hc.Controller(hc.minc_known(hc.Problem(np.arange(25.0))), start_index=0)
    costs = np.linspace(1.0, 2.0, 25)

    def shell() -> None:
        for _ in range(100):
            decision = controller.ask(None, costs=costs)
            controller.tell(decision.id, 1.0)

    return [Row("shell of ask + tell", best_of(shell, repeats=5) / 100, "allowed", 150e-6, 1.0)]
