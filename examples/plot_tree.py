"""
A tree for your movement costs, and how much it stretches them
==============================================================

Your settings lie anywhere: on a map, on a grid of knobs, in a table of switching costs. GP-MD wants to move on a tree,
because there the best moves can be computed exactly. How wrong is a tree?

Never too cheap: between any two settings the path through the tree is at least as long as the true distance. And
averaged over random trees it is longer by a factor of order log n only. One tree may part two neighbours at its very
top; the next one does not, which is why each run draws its own.
"""

import matplotlib.pyplot as plt
import numpy as np
from gallery import save

import holdcourse as hc

SETTINGS, TREES = 40, 200
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#777777"]


def draw_tree(axes: plt.Axes, tree: hc.Tree, colour: list[str]) -> None:
    """Each vertex is as high as its leaves are below it; the root is the last one, children come before parents."""
    below = [np.flatnonzero(tree.parent == vertex) for vertex in range(len(tree.parent))]

    def leaves(vertex: int) -> list[int]:  # in an order without crossings
        return [vertex] if vertex < tree.n else [leaf for child in below[vertex] for leaf in leaves(child)]

    across, height = np.zeros(len(tree.parent)), np.zeros(len(tree.parent))
    across[leaves(tree.root)] = np.arange(tree.n)
    for vertex in range(tree.n, len(tree.parent)):
        children = below[vertex]
        across[vertex], height[vertex] = across[children].mean(), (tree.weight + height)[children].max()
    for vertex, parent in enumerate(tree.parent[:-1]):
        way = across[[vertex, vertex, parent]], height[[vertex, parent, parent]]
        axes.plot(*way, color=colour[vertex], lw=1.4)
    axes.scatter(across[: tree.n], np.zeros(tree.n), c=colour[: tree.n], s=22, zorder=3)
    axes.set_yscale("symlog", linthresh=0.3)
    axes.set(xticks=[], yticks=[0, 1, 10], yticklabels=["0", "1", "10"], ylabel="half the distance between leaves")


def main() -> plt.Figure:
    random = np.random.default_rng(7)
    points = random.uniform(1, 9, (6, 2))[random.integers(6, size=SETTINGS)]
    problem = hc.Problem(points + 0.7 * random.standard_normal((SETTINGS, 2)))
    tree = hc.frt_tree(problem, seed=8)
    fresh, colour = iter(COLOURS), ["#000000"] * len(tree.parent)
    for vertex in range(tree.root - 1, -1, -1):  # parents come first: each branch of the root has its own
        parent = tree.parent[vertex]
        colour[vertex] = next(fresh) if parent == tree.root else colour[parent]

    figure, (place, branches, stretch) = plt.subplots(1, 3, figsize=(14, 4.8), width_ratios=[1.2, 1.2, 1.2])
    place.scatter(*problem.actions.T, c=colour[:SETTINGS], s=45)
    place.set(title="40 settings, coloured by branch", xlabel="first knob", ylabel="second knob")
    draw_tree(branches, tree, colour)
    branches.set_title("A random tree over them")
    pairs = np.triu_indices(SETTINGS, 1)
    mean = np.mean([hc.frt_tree(problem, seed=seed).distances() for seed in range(TREES)], axis=0)[pairs]
    true, one = problem.distances[pairs], tree.distances()[pairs]
    for ways, hue, name in ((one, "#D55E00", "this tree"), (mean, "#0072B2", f"mean of {TREES} trees")):
        stretch.scatter(true, ways, s=9, color=hue, alpha=0.45, lw=0, label=f"{name}: {np.mean(ways / true):.1f} times")
    stretch.plot([0, true.max()], [0, true.max()], color="#000000", lw=1.5)
    stretch.text(true.max(), 0.75 * true.max(), "the true cost", ha="right", va="top")
    stretch.set(xlabel="true movement cost of a pair", ylabel="distance in the tree", xlim=(0, None), ylim=(0, 45))
    stretch.set_title("Its paths are never too short")
    stretch.legend(loc="upper left", markerscale=2.5, frameon=False, handletextpad=0.2, borderpad=0)
    return figure


if __name__ == "__main__":
    save(main())
