"""Hierarchically separated trees, and the FRT construction that approximates a metric by one.

The tree's distances are never below the metric's, for every pair of actions and in every tree. Each edge weighs at most
1/tau of the edge above it. See "A tree for the metric" in docs/theory/movement.md.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse._numeric import lanes, minplus, trees
from holdcourse._numeric import points as kernels
from holdcourse.checks import check_index, checked_seed, float_array, is_finite
from holdcourse.errors import InvalidInput, InvalidMetric, shown
from holdcourse.movement.points import MOST_PAIRS
from holdcourse.movement.problem import MAX_MATRIX_ACTIONS, Problem, check_problem, require_matrix_fits

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Slots = NDArray[np.int32]

BLOCK_SLOTS = 1024  # so many children at once still fit the fastest cache
SAMPLED_PAIRS = 1_000_000
MOST_LANES = 256  # vertices side by side
PAIRS_PER_POINT = 64.0  # measured, at most, for the diameter of a large cluster of many actions
NO_POINTS: Array = np.zeros((0, 1))
JSON_FORMAT = "holdcourse-tree-1"


class Lanes(NamedTuple):
    """A large tree with its vertices side by side; see the table of `holdcourse._numeric.lanes`."""

    speed: Array
    delta: Array
    child: Slots
    vertex: Ints
    begin: Ints
    top: Ints
    wide: Ints
    given: Ints
    even: int


@dataclass(frozen=True)
class Stretch:
    """Ratio of the tree's distances to the metric's, over all pairs of actions: least, mean and largest."""

    least: float
    mean: float
    largest: float


class Tree:
    """A rooted tree whose leaves are the actions. Its arrays are read-only.

    Parameters
    ----------
    parent
        Parent of each vertex, -1 at the root. Vertices 0..n-1 are the leaves in action order; every vertex has a
        smaller number than its parent, so counting up visits children before parents and the root is last.
    weight
        Weight of the edge from each vertex to its parent, 0 at the root.
    tau
        Each edge weighs at most 1/tau of the edge above it.

    Attributes
    ----------
    children, first_child
        Children of internal vertex u are ``children[first_child[u - n]:first_child[u - n + 1]]``.
    leaf_count
        Number of leaves below each vertex.
    share, rate, shift
        theta, eta and delta of the mirror descent (docs/theory/movement.md): a vertex's share of its parent's leaves,
        1 + log(1 / share), and share / rate.
    slot_speed, slot_shift
        rate / weight, and shift, in the order of `children`: what the descent reads.
    blocks
        Bounds of blocks of internal vertices: n + blocks[k] .. n + blocks[k + 1] - 1 do not depend on each other.

    Examples
    --------
    >>> import holdcourse as hc
    >>> tree = hc.frt_tree(hc.Problem([0.0, 1.0, 5.0, 6.0]), seed=1)
    >>> tree.parent.tolist(), tree.weight.tolist()
    ([4, 4, 5, 5, 6, 6, -1], [0.5, 0.5, 0.5, 0.5, 3.0, 3.0, 0.0])
    >>> hc.Tree.from_json(tree.to_json()).distance(0, 3)
    7.0
    """

    def __init__(self, parent: ArrayLike, weight: ArrayLike, tau: float = 5.0) -> None:
        self.parent = _frozen(_whole_numbers(parent))
        self.weight = _frozen(float_array(weight, "weight"))
        self.n = _check_structure(self.parent, self.weight, tau)
        self.tau = float(tau)
        size = len(self.parent)
        self.root = size - 1

        degree = np.bincount(self.parent[:-1], minlength=size)[self.n :] if size > 1 else np.zeros(0, np.int64)
        self.first_child = _frozen(np.concatenate([[0], np.cumsum(degree)]).astype(np.int64))
        self.children = _frozen(np.argsort(self.parent[:-1], kind="stable"))

        leaf_count = trees.leaves_below(self.parent, self.n)
        self.leaf_count = _frozen(leaf_count)
        # Internal vertices in runs that do not depend on each other: the descent steps through them together.
        self.blocks = _frozen(trees.independent_blocks(self.n, self.first_child, self.children, BLOCK_SLOTS))
        self.share = _frozen(np.append(leaf_count[:-1] / leaf_count[self.parent[:-1]], 1.0))
        self.rate = _frozen(1.0 - np.log(self.share))
        self.shift = _frozen(self.share / self.rate)
        self.slot_speed = _frozen(self.rate[self.children] / self.weight[self.children])
        self.slot_shift = _frozen(self.shift[self.children])

    @cached_property
    def lanes(self) -> Lanes:
        """The vertices side by side, as the descent on a large tree reads them."""
        child, vertex, begin, top, wide = lanes.arranged(
            self.parent, self.n, self.first_child, self.children, BLOCK_SLOTS, MOST_LANES
        )
        padding = child == self.root
        with np.errstate(divide="ignore"):  # at the root
            speed = np.where(padding, 1.0, self.rate[child] / self.weight[child])
        delta = np.where(padding, np.inf, self.shift[child])
        speed, delta, given, even = lanes.even_blocks(speed, delta, child, self.n, begin, top, wide)
        return Lanes(speed, delta, child, vertex, begin, top, wide, given, even)

    @property
    def depth(self) -> int:
        """Number of edges between the root and the deepest leaf."""
        return int(trees.edges_above(self.parent).max())

    def distance(self, i: int, j: int) -> float:
        """Return the weight of the path between the leaves of actions i and j."""
        for action in (i, j):
            check_index(action, self.n)
        return float(trees.tree_distance(self.parent, self.weight, i, j))

    def distances(self) -> Array:
        """Return all distances between actions in the tree, shape (n, n); for up to 20,000 actions."""
        require_matrix_fits(self.n)
        out: Array = trees.tree_distances(self.parent, self.weight, self.n)
        return out

    def stretch(self, problem: Problem) -> Stretch:
        """Compare the tree's distances with the problem's metric; `least` is at least 1 for a valid tree.

        Above 20,000 actions a million pairs are drawn, always the same ones.
        """
        if problem.n != self.n:
            raise InvalidInput(
                f"the tree has {self.n} actions, but the problem has {problem.n}; make the tree for this problem"
            )
        if self.n == 1:
            return Stretch(1.0, 1.0, 1.0)
        if self.n <= MAX_MATRIX_ACTIONS:
            return Stretch(*trees.stretch(self.parent, self.weight, problem.symmetric_distances))
        drawn = np.random.default_rng(0).integers(0, self.n, size=(2, SAMPLED_PAIRS))
        here, there = drawn[:, drawn[0] != drawn[1]]
        ratios = trees.pair_distances(self.parent, self.weight, here, there) / problem.move_costs(here, there)
        return Stretch(float(ratios.min()), float(ratios.mean()), float(ratios.max()))

    def draw(self, problem: Problem | None = None) -> str:
        """Return the tree as text, one line for each vertex; with the problem, actions are shown by their values."""
        lines = []

        def visit(vertex: int, lead: str, branch: str, below: str) -> None:
            if vertex < self.n:
                lines.append(f"{lead}{branch}{vertex if problem is None else problem.value(vertex)}")
                return
            low, high = self.first_child[vertex - self.n : vertex - self.n + 2]
            kin = self.children[low:high].tolist()
            lines.append(
                f"{lead}{branch}[{self.leaf_count[vertex]} actions, edges below weigh {self.weight[kin].max():.4g}]"
            )
            for child in kin[:-1]:
                visit(child, lead + below, "├─ ", "│  ")
            visit(kin[-1], lead + below, "└─ ", "   ")

        visit(self.root, "", "", "")
        return "\n".join(lines)

    def to_json(self) -> str:
        """Return the tree as JSON text, from which `from_json` reads exactly the same numbers."""
        return json.dumps(
            {"format": JSON_FORMAT, "tau": self.tau, "parent": self.parent.tolist(), "weight": self.weight.tolist()}
        )

    @classmethod
    def from_json(cls, text: str) -> Tree:
        """Read what `to_json` wrote."""
        try:
            data: Any = json.loads(text)
        except json.JSONDecodeError as error:
            raise InvalidInput(f"this is not the JSON text of a tree: {error}") from None
        if not isinstance(data, dict) or data.get("format") != JSON_FORMAT:
            found = data.get("format") if isinstance(data, dict) else type(data).__name__
            raise InvalidInput(f"expected a tree in format {JSON_FORMAT!r}, found {found!r}")
        missing = {"tau", "parent", "weight"} - set(data)
        if missing:
            raise InvalidInput(f"the tree's JSON lacks {sorted(missing)}")
        return cls(data["parent"], data["weight"], data["tau"])

    def __repr__(self) -> str:
        return f"Tree({self.n} actions, {len(self.parent)} vertices, depth {self.depth}, tau={self.tau:g})"


def check_tree(tree: Any) -> None:
    """Raise unless it is a tree."""
    if not isinstance(tree, Tree):
        raise InvalidInput(f"tree must be a Tree, such as hc.frt_tree returns, got {shown(tree)}")


def frt_tree(problem: Problem, tau: float = 5.0, seed: int = 0) -> Tree:
    """Draw a random tree whose distances are never below the problem's metric, and exceed it by O(log n) on average.

    The clustering is that of Fakcharoenphol, Rao and Talwar, without chains and with tight weights; see
    docs/theory/movement.md. With a named metric it needs no distance matrix, so a million actions are possible. For
    directed costs the metric is the mean of both directions.

    Parameters
    ----------
    problem
        The actions, and what moving between them costs.
    tau
        Factor, above 4, by which an edge weighs at least more than the edges below it.
    seed
        Seed of the tree.

    Examples
    --------
    >>> import holdcourse as hc
    >>> tree = hc.frt_tree(hc.Problem([0.0, 1.0, 5.0, 6.0]), seed=1)
    >>> tree.distance(0, 3) >= 6.0
    True
    """
    check_problem(problem)
    if not (is_finite(tau) and tau > 4):
        raise InvalidInput(
            f"tau must be above 4 for the mirror descent's guarantee, got {shown(tau)}; 5 is the usual choice"
        )
    n, points = problem.n, problem.points  # which says so where settings are too many to be listed
    if n == 1:
        return Tree([-1], [0.0], tau)
    random = np.random.default_rng(checked_seed(seed))
    order = random.permutation(n)
    # Levels have radius diameter * beta * tau^-k; the top one, beta = tau^U >= 1, covers everything.
    beta = tau ** random.random()
    if points is None:
        metric = problem.symmetric_distances
        levels = Levels.of(float(metric.max()), minplus.nearest_move(metric), beta, tau)
        rank = trees.centre_ranks(metric, order, levels.radii, levels.begin)
        clusters = trees.frt_parents(rank, levels.begin, _inverse(order), NO_POINTS, 0, levels.radii, 0.0, 0.0)
        leaf_parent, internal_parent, _ = clusters
        parent, _ = trees.number_by_height(leaf_parent, internal_parent)
        below = trees.tight_weights(trees.diameters(metric, parent), parent, tau)
        return Tree(parent, np.append(below[parent[:-1] - n], 0.0), tau)

    levels = Levels.of(points.diameter, points.nearest_others, beta, tau)
    placed, (low, high), norm = points.placed, points.boxes, points.norm
    places = points.place[order]
    rank = kernels.centre_ranks(placed, low, high, places, levels.radii, levels.begin, norm, points.fixed_cost)
    most = MOST_PAIRS if n <= MAX_MATRIX_ACTIONS else 0.01 * MOST_PAIRS
    leaf_parent, internal_parent, diameters = trees.frt_parents(
        rank, levels.begin, _inverse(places), placed, norm, levels.radii, most, PAIRS_PER_POINT
    )
    parent, number = trees.number_by_height(leaf_parent[points.place], internal_parent)
    diameter = np.empty_like(diameters)
    diameter[number - n] = diameters + points.fixed_cost
    below = trees.tight_weights(diameter, parent, tau)
    return Tree(parent, np.append(below[parent[:-1] - n], 0.0), tau)


@dataclass(frozen=True, eq=False)
class Levels:
    """The radii of the levels of a tree, and for how many of them each action may share a cluster.

    Attributes
    ----------
    radii
        From the coarsest level that may split something, falling by the factor tau, and -1 at the end.
    begin
        Where the levels of each action begin, one after the other; (n + 1,).
    """

    radii: Array
    begin: Ints

    @classmethod
    def of(cls, diameter: float, nearest: Array, beta: float, tau: float) -> Levels:
        """Return the levels of a metric of this diameter, in which each action has its nearest other one so far away.

        An action is alone in its cluster once the radius is below that distance.
        """
        radius, least = diameter * beta, float(nearest.min())
        if not np.isfinite(radius) or not least > 0:  # no falling radius would part them
            raise InvalidMetric(
                f"a tree needs distances above 0 and far below {np.finfo(np.float64).max:.0g}, but the largest is "
                f"{diameter:g} and the smallest {least:g}; give movement costs in another unit"
            )
        radii = [radius / tau]
        while radii[-1] >= least:
            radii.append(radii[-1] / tau)
        falling = np.array(radii)
        counts = np.searchsorted(-falling, -nearest, side="right")
        return cls(np.append(falling, -1.0), np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))


def _inverse(order: Ints) -> Ints:
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    return position


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


def _whole_numbers(parent: Any) -> Ints:
    numbers = float_array(parent, "parent")
    if not (numbers == np.trunc(numbers)).all():
        raise InvalidInput(f"parent must be a list of vertex numbers, got {numbers[numbers != np.trunc(numbers)][0]:g}")
    return numbers.astype(np.int64)


def _check_structure(parent: Ints, weight: Array, tau: float) -> int:
    """Raise unless the arrays describe a tree as promised; return the number of leaves."""
    if parent.ndim != 1 or parent.size == 0 or parent.shape != weight.shape:
        raise InvalidInput(
            f"parent and weight must be lists of the same length, got shapes {parent.shape} and {weight.shape}"
        )
    size = len(parent)
    if parent[-1] != -1:
        raise InvalidInput(f"the last vertex must be the root with parent -1, got {parent[-1]}")
    wrong = np.flatnonzero((parent[:-1] <= np.arange(size - 1)) | (parent[:-1] >= size))
    if len(wrong):
        v = int(wrong[0])
        raise InvalidInput(
            f"vertex {v} has parent {parent[v]}; a parent must have a larger number than its children, "
            f"at most {size - 1}"
        )
    degree = np.bincount(parent[:-1], minlength=size)
    n = int(np.argmax(degree > 0)) if size > 1 else 1
    if (degree[n:] == 0).any() and size > 1:
        v = n + int(np.argmax(degree[n:] == 0))
        raise InvalidInput(f"vertex {v} is a leaf but {n} is not; number the leaves first, in action order")
    if (degree[n:] == 1).any() and size > 1:
        v = n + int(np.argmax(degree[n:] == 1))
        raise InvalidInput(f"vertex {v} has a single child; join the two edges into one")
    bad = np.flatnonzero(~(np.isfinite(weight[:-1]) & (weight[:-1] > 0)))
    if len(bad) or weight[-1] != 0:
        v = int(bad[0]) if len(bad) else size - 1
        raise InvalidInput(
            f"the edge above vertex {v} weighs {weight[v]:g}; weights must be positive, and 0 at the root"
        )
    if not (is_finite(tau) and tau > 1):
        raise InvalidInput(f"tau must be above 1, got {shown(tau)}")
    return n
