"""Draw the figures of docs/theory/algorithm.md: the tree, one round on it, bounds, and probabilities over time."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.experiments.plots import probabilities_of
from holdcourse.experiments.style import drawing

BLUE, RED, GREY = "#0072B2", "#D55E00", "#777777"

# Eight actions in pairs of pairs, so that the tree has the shape of the paper's illustrations.
PROBLEM = hc.Problem([0.0, 1.0, 6.0, 7.0, 36.0, 37.0, 42.0, 43.0])
TREE = hc.frt_tree(PROBLEM, seed=1)
START = 2
COSTS = np.array([3.0, 2.8, 5.0, 4.7, 0.4, 0.5, 1.6, 1.4])  # of one round


def places(tree: hc.Tree) -> tuple[np.ndarray, np.ndarray]:
    """Where each vertex stands: across, and how many edges above its lowest leaf."""
    across, level = np.zeros(len(tree.parent)), np.zeros(len(tree.parent), dtype=int)
    across[: tree.n] = np.arange(tree.n)
    for vertex in range(tree.n, len(tree.parent)):
        below = np.flatnonzero(tree.parent == vertex)
        across[vertex], level[vertex] = across[below].mean(), level[below].max() + 1
    return across, level


def branches(ax: Axes, tree: hc.Tree, red: tuple[int, ...] = ()) -> tuple[np.ndarray, np.ndarray]:
    """The edges of the tree; those above the vertices `red` stand out."""
    across, level = places(tree)
    for vertex in range(tree.root):
        up = tree.parent[vertex]
        colour, width = (RED, 2.4) if vertex in red else (GREY, 1.2)
        ax.plot([across[vertex], across[up]], [level[vertex], level[up]], color=colour, lw=width, zorder=1)
    ax.set_axis_off()
    return across, level


def box(ax: Axes, x: float, y: float, text: str, colour: str = "black", size: float = 11) -> None:
    """A label in a box."""
    frame = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": colour}
    ax.text(x, y, text, ha="center", va="center", fontsize=size, color=colour, bbox=frame, zorder=2)


def draw_tree() -> Figure:
    """The tree, its weights, and the path between two leaves."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    ax = figure.subplots()
    path = []
    one, other = 1, 3
    while one != other:
        path += [one, other]
        one, other = int(TREE.parent[one]), int(TREE.parent[other])
    across, level = branches(ax, TREE, tuple(path))
    for vertex in range(TREE.root):
        up = TREE.parent[vertex]
        middle = (across[vertex] + across[up]) / 2, (level[vertex] + level[up]) / 2
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        colour = RED if vertex in path else "black"
        ax.text(*middle, f"{TREE.weight[vertex]:g}", fontsize=11, color=colour, ha="center", va="center", bbox=ground)
    for vertex in range(len(TREE.parent)):
        name = f"{PROBLEM.value(vertex):g}" if vertex < TREE.n else ("root" if vertex == TREE.root else "")
        box(ax, across[vertex], level[vertex], name or "  ", RED if vertex in (1, 3) else "black")
    apart = f"{TREE.distance(1, 3):g} in the tree, {PROBLEM.distance(1, 3):g} in the metric"
    ax.set_title(f"From 1 to 7: {apart}", fontsize=13)
    return figure


def draw_round() -> Figure:
    """One round, from the leaves to the root: the paper's four illustrations with live numbers."""
    before = hc.mirror.start(TREE, START)
    after = hc.mirror.descend(TREE, before, COSTS)
    cost = np.zeros(len(TREE.parent))
    cost[: TREE.n] = COSTS
    for vertex in range(TREE.n, len(TREE.parent)):
        below = np.flatnonzero(TREE.parent == vertex)
        cost[vertex] = after[below] @ cost[below]
    figure = Figure(figsize=(11.5, 8.5), layout="constrained")
    _, top = places(TREE)
    titles = [
        f"before: at {PROBLEM.value(START):g}; costs are known at the leaves",
        "lowest vertices: q of the leaves, cost of their parents",
        "the next ones",
        "the root: its cost is what the round is expected to cost",
    ]
    for done, (ax, title) in enumerate(zip(figure.subplots(2, 2).ravel(), titles, strict=True)):
        across, level = branches(ax, TREE)
        for vertex in range(len(TREE.parent)):
            lines = [f"c {cost[vertex]:.3g}"] if level[vertex] <= done else ["c ?"]
            if vertex != TREE.root:
                known = level[vertex] < done
                lines.append(f"q {after[vertex] if known else before[vertex]:.2f}")
            fresh = done > 0 and level[vertex] in (done - 1, done)
            box(ax, across[vertex], level[vertex], "\n".join(lines), BLUE if fresh else "black", 11.5)
        ax.set(xlim=(-0.7, 7.7), ylim=(-0.5, top.max() + 0.5))
        ax.set_title(title, fontsize=13)
    return figure


def draw_bounds() -> Figure:
    """What GP-MD sees after 0, 8 and 60 rounds: the mean, and the bound below it that the rule follows."""
    world = line_world()
    contexts = world.context_sequence("iid", rounds=60, seed=2)
    policy = hc.gp_md(world.problem, **belief(world))
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    shown = world.contexts[3]
    place = world.problem.actions[:, 0]
    for ax, rounds in zip(axes, (0, 8, 60), strict=True):
        controller = hc.Controller(policy, start_index=10, seed=1)
        for t in range(rounds):
            decision = controller.ask(context=contexts[t])
            noise = hc.measurement_noise(1, t)
            controller.tell(decision.id, world.measure(t, contexts[t], decision.action, noise))
        estimate = controller.model.copy().estimate(shown)
        ax.fill_between(
            place, estimate.mean - 2 * estimate.std, estimate.mean + 2 * estimate.std, color=BLUE, alpha=0.15
        )
        ax.plot(place, estimate.mean, color=BLUE, label="mean")
        ax.plot(place, estimate.costs, color=RED, label="lower bound: what the rule sees")
        ax.plot(place, world.costs(0, shown), color="black", ls="--", lw=1.5, label="true cost")
        ax.set(title=f"after {rounds} rounds", xlabel="action")
    axes[0].set_ylabel("cost in one context")
    axes[2].legend(fontsize=10, frameon=False, loc="upper right")
    return figure


def draw_probabilities() -> Figure:
    """How the probabilities follow the costs, and the action drawn."""
    world = line_world()
    contexts = world.context_sequence("blocks", rounds=150, seed=1)
    table, actions = probabilities_of(hc.gp_md(world.problem, **belief(world)), world, contexts, start=10, seed=1)
    costs = np.array([world.costs(t, context) for t, context in enumerate(contexts)])
    figure = Figure(figsize=(12, 6), layout="constrained")
    top, low = figure.subplots(2, 1, sharex=True)
    extent = (0, len(costs), -0.025, 1.025)
    for ax, field, colours, name in ((top, costs, "Greys", "true cost"), (low, table, "Blues", "probability")):
        image = ax.imshow(field.T, aspect="auto", origin="lower", cmap=colours, extent=extent)
        figure.colorbar(image, ax=ax, label=name)
        ax.step(np.arange(len(actions)) + 0.5, world.problem.actions[actions, 0], where="mid", color=RED, lw=1.6)
        ax.grid(False)
        ax.set(ylabel="action")
    low.set(xlabel="round")
    return figure


def line_world() -> hc.SyntheticWorld:
    """Twenty-one actions on a line, six contexts."""
    problem = hc.Problem(np.linspace(0.0, 1.0, 21), scale=1.0)
    kernel = hc.Kernel(RBF(0.2), RBF(0.2))
    return hc.SyntheticWorld.sample(seed=5, problem=problem, contexts=6, kernel=kernel)


def belief(world: hc.SyntheticWorld) -> dict[str, object]:
    """What the learner may know of it."""
    return {"kernel": world.kernel, "noise_std": world.noise_std, "prior_mean": world.prior_mean}


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    figures = {"tree": draw_tree, "round": draw_round, "bounds": draw_bounds, "probabilities": draw_probabilities}
    for name, draw in figures.items():
        with drawing():
            draw().savefig(folder / f"algorithm-{name}.svg", metadata={"Date": None}, facecolor="white")
