"""
Hold course unless it pays to change
====================================

One landscape of costs over 40 settings drifts for 300 rounds. Running to the cheapest setting every round pays for
every move, staying pays for every change of the weather. Mirror descent on a random tree knows only the costs seen so
far, and pays little more than perfect foresight.
"""

# sphinx_gallery_thumbnail_number = 1
from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

import holdcourse as hc

ROUNDS, SETTINGS, START, REPETITIONS = 300, 40, 20, 20
COLOURS = {
    "perfect foresight": "#000000",
    "mirror descent": "#0072b2",
    "work function": "#009e73",
    "cheapest each round": "#d55e00",
    "stay": "#999999",
}


def drifting_costs(seed: int) -> np.ndarray:
    """Smooth random costs over settings and time, shape (rounds, settings)."""
    rng = np.random.default_rng(seed)

    def smooth(size: int, length: float) -> np.ndarray:
        apart = np.subtract.outer(np.arange(size), np.arange(size)) / length
        return np.linalg.cholesky(np.exp(-(apart**2) / 2) + 1e-8 * np.eye(size))

    field = smooth(ROUNDS, 8.0) @ rng.standard_normal((ROUNDS, SETTINGS)) @ smooth(SETTINGS, 6.0).T
    return 0.15 * (field - field.min())


def mirror_descent(costs: np.ndarray, problem: hc.Problem, seed: int) -> hc.Path:
    """The paper's rule when costs are known at the time of choice: descend on a random tree, follow the coupling."""
    tree = hc.frt_tree(problem, seed=seed)
    rng = np.random.default_rng(seed)
    q = hc.mirror.start(tree, START)
    p = hc.mirror.leaf_probabilities(tree, q)
    action, actions = START, []
    for row in costs:
        q = hc.mirror.descend(tree, q, row)
        p_next = hc.mirror.leaf_probabilities(tree, q)
        action = hc.coupling.sample(tree, p, p_next, action, rng.random())
        actions.append(action)
        p = p_next
    return hc.price_path(actions, costs, problem, START)


def compare(costs: np.ndarray, problem: hc.Problem) -> dict[str, list[hc.Path]]:
    """Every rule on the same costs; the random one several times."""
    return {
        "perfect foresight": [hc.optimal_path(costs, problem, START)],
        "mirror descent": [mirror_descent(costs, problem, seed) for seed in range(REPETITIONS)],
        "work function": [hc.work_function(costs, problem, START)],
        "cheapest each round": [hc.price_path(np.argmin(costs, axis=1), costs, problem, START)],
        "stay": [hc.price_path(np.full(ROUNDS, START), costs, problem, START)],
    }


def table(paths: dict[str, list[hc.Path]]) -> Table:
    """Service, movement and total, and the ratio to perfect foresight."""
    shown = Table(title=f"{ROUNDS} rounds, {SETTINGS} settings")
    shown.add_column("rule")
    for name in ("service", "movement", "total", "of optimum"):
        shown.add_column(name, justify="right")
    best = paths["perfect foresight"][0].total
    for name, runs in paths.items():
        label = f"{name} (mean of {len(runs)})" if len(runs) > 1 else name
        means = [np.mean([getattr(run, part) for run in runs]) for part in ("service", "movement", "total")]
        shown.add_row(label, *(f"{value:.1f}" for value in means), f"{means[2] / best:.2f}")
    return shown


def picture(costs: np.ndarray, problem: hc.Problem, paths: dict[str, list[hc.Path]]) -> Figure:
    """The settings taken over the field of costs, and the bills growing."""
    figure, (field, bills) = plt.subplots(
        2, 1, figsize=(10, 7), sharex=True, height_ratios=[3, 2], layout="constrained"
    )
    image = field.imshow(costs.T, aspect="auto", origin="lower", cmap="Greys", extent=(0, ROUNDS, 0, SETTINGS))
    figure.colorbar(image, ax=field, label="cost of a setting")
    for name, runs in paths.items():
        path, colour = runs[0], COLOURS[name]
        service = costs[np.arange(ROUNDS), path.actions]
        before = np.append(START, path.actions[:-1])
        bill = np.cumsum(service + problem.move_costs(before, path.actions))
        bills.plot(bill, color=colour, label=f"{name}: {bill[-1]:.0f}", lw=2)
        if name in ("perfect foresight", "mirror descent", "cheapest each round"):
            thin = name == "cheapest each round"
            field.step(range(ROUNDS), path.actions + 0.5, color=colour, lw=0.7 if thin else 2, where="mid", label=name)
    field.set(ylabel="setting", title="Follow the cheap settings, but not every whim")
    field.legend(loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=3, frameon=False)
    bills.set(xlabel="round", ylabel="total paid so far", xlim=(0, ROUNDS))
    bills.legend(loc="upper left", fontsize="small")
    return figure


def main(out: Path) -> None:
    problem = hc.Problem(np.arange(SETTINGS), scale=0.1)
    costs = drifting_costs(seed=4)
    paths = compare(costs, problem)
    Console().print(table(paths))
    out.mkdir(parents=True, exist_ok=True)
    picture(costs, problem, paths).savefig(out / "quickstart.png", dpi=120)
    print(f"picture: {out / 'quickstart.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compare movement rules on one drifting landscape of costs.")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the picture")
    main(parser.parse_args().out)
