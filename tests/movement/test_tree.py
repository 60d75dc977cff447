"""Trees: the FRT construction against its definition, structure, statistics, text and JSON."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from helpers.spaces import KINDS, random_problem
from oracles.trees import clusters_below, frt_clusters, path_distance

import holdcourse as hc
from holdcourse.errors import InvalidInput, InvalidMetric, TooLarge


def drawn_radius_and_order(problem, tau, seed):
    """The random choices of frt_tree, drawn the same way."""
    random = np.random.default_rng(seed)
    order = random.permutation(problem.n)
    return float(problem.symmetric_distances.max()) * tau ** random.random(), order


@pytest.mark.kernel
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_clusters_and_weights_follow_the_definition(kind, seed):
    problem = random_problem(kind, 14, seed)
    tree = hc.frt_tree(problem, tau=5.0, seed=seed)
    top_radius, order = drawn_radius_and_order(problem, 5.0, seed)
    levels = frt_clusters(problem.distances, order, top_radius, 5.0)
    split = {}  # a cluster that splits at the next level is a vertex; its plain weight is its level's radius
    for (coarse, radius), (fine, _) in pairwise(levels):
        split |= {cluster: radius for cluster in coarse if cluster not in fine}
    below = clusters_below(tree)
    assert set(below.values()) == set(split)
    for u, cluster in below.items():
        kin = np.flatnonzero(tree.parent == u)
        members = sorted(cluster)
        half_diameter = problem.distances[np.ix_(members, members)].max() / 2
        heaviest = max((tree.weight[tree.parent == v].max() for v in kin if v >= tree.n), default=0.0)
        np.testing.assert_allclose(tree.weight[kin], max(half_diameter, 5.0 * heaviest), rtol=1e-14)
        assert tree.weight[kin].max() <= split[cluster] * (1 + 1e-12)  # never above the plain FRT weight


@pytest.mark.kernel
def test_distances_are_path_weights():
    tree = hc.frt_tree(random_problem("plane", 17, 3), seed=5)
    expected = [[path_distance(tree, i, j) for j in range(17)] for i in range(17)]
    np.testing.assert_allclose(tree.distances(), expected, rtol=1e-13)
    assert tree.distance(3, 9) == tree.distances()[3, 9]


@pytest.mark.parametrize("kind", ["line", "plane", "uniform"])
def test_mean_stretch_is_logarithmic(kind, record_property):
    n, ratios = 128, []
    for seed in range(200):
        problem = random_problem(kind, n, seed)
        ratios.append(hc.frt_tree(problem, seed=seed).stretch(problem).mean)
    record_property(f"mean stretch of 200 trees, n = {n}, {kind}", f"{np.mean(ratios):.2f} (bar {3 * np.log(n):.1f})")
    assert np.mean(ratios) < 3 * np.log(n)


@pytest.mark.kernel
def test_stretch_compares_all_pairs():
    problem = random_problem("plane", 20, 1)
    tree = hc.frt_tree(problem, seed=1)
    upper = np.triu_indices(20, 1)
    ratio = tree.distances()[upper] / problem.distances[upper]
    found = tree.stretch(problem)
    np.testing.assert_allclose([found.least, found.mean, found.largest], [ratio.min(), ratio.mean(), ratio.max()])


def test_one_action_is_one_leaf():
    tree = hc.frt_tree(hc.Problem([3.0]))
    assert tree.parent.tolist() == [-1]
    assert tree.depth == 0
    assert tree.distances().tolist() == [[0.0]]
    assert tree.stretch(hc.Problem([3.0])).mean == 1.0


def test_two_actions():
    tree = hc.frt_tree(hc.Problem([0.0, 3.0]))
    assert tree.parent.tolist() == [2, 2, -1]
    assert tree.distance(0, 1) == 3.0


def test_same_seed_same_tree_other_seed_other_tree():
    problem = random_problem("plane", 30, 0)
    assert hc.frt_tree(problem, seed=1).to_json() == hc.frt_tree(problem, seed=1).to_json()
    assert hc.frt_tree(problem, seed=1).to_json() != hc.frt_tree(problem, seed=2).to_json()


def test_directed_costs_use_the_mean_of_both_directions():
    heights = np.array([0.0, 1.0, 2.0, 5.0])
    climb = np.maximum(0, heights[None] - heights[:, None])  # sinking is free
    problem = hc.Problem(heights, metric=climb, directed=True)
    hc.testing.check_tree(hc.frt_tree(problem, seed=2), hc.Problem(heights, scale=0.5))


def test_extreme_aspect_ratio():
    problem = hc.Problem([0.0, 1e-12, 1.0, 1e12])
    tree = hc.frt_tree(problem, seed=0)
    hc.testing.check_tree(tree, problem)
    assert tree.depth <= 3  # empty levels leave no chains


def test_json_round_trip_is_exact():
    tree = hc.frt_tree(random_problem("plane", 25, 4), seed=3)
    again = hc.Tree.from_json(tree.to_json())
    for name in ("parent", "weight", "children", "first_child", "leaf_count", "share", "blocks"):
        np.testing.assert_array_equal(getattr(again, name), getattr(tree, name))
    assert again.tau == tree.tau


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not the JSON text"),
        ("[]", "found 'list'"),
        ('{"format": "other"}', "found 'other'"),
        ('{"format": "holdcourse-tree-1", "tau": 5}', r"lacks \['parent', 'weight'\]"),
    ],
)
def test_json_that_is_no_tree(text, message):
    with pytest.raises(InvalidInput, match=message):
        hc.Tree.from_json(text)


@pytest.mark.parametrize(
    ("parent", "weight", "message"),
    [
        ([2, 2], [1, 1], "last vertex must be the root"),
        ([2, 0, -1], [1, 1, 0], "vertex 1 has parent 0"),
        ([7, 2, -1], [1, 1, 0], "vertex 0 has parent 7"),
        ([2, 2, -1], [1, 0, 0], "above vertex 1 weighs 0"),
        ([2, 2, -1], [1, np.nan, 0], "above vertex 1 weighs nan"),
        ([2, 2, -1], [1, 1, 1], "0 at the root"),
        ([2, 2, -1], [1, 1], "same length"),
        ([2, 2, 3, -1], [1, 1, 1, 0], "vertex 3 has a single child"),
        ([2, 2, 5, 5, 5, -1], [1, 1, 1, 1, 1, 0], "number the leaves first"),
        ([2.5, 2, -1], [1, 1, 0], r"parent must be a list of vertex numbers, got 2\.5"),
        ("ab", [1, 0], "parent must be numbers"),
        (-1, 0, r"lists of the same length, got shapes \(\) and \(\)"),
    ],
)
def test_arrays_that_are_no_tree(parent, weight, message):
    with pytest.raises(InvalidInput, match=message):
        hc.Tree(parent, weight)


@pytest.mark.parametrize("tau", [4.0, -1.0, np.nan, np.inf])
def test_tau_must_exceed_four(tau):
    with pytest.raises(InvalidInput, match="tau must be above 4"):
        hc.frt_tree(hc.Problem([0.0, 1.0]), tau=tau)


@pytest.mark.parametrize("seed", [-1, None, 1.5, True])
def test_what_is_no_seed(seed):
    with pytest.raises(InvalidInput, match="seed must be a whole number"):
        hc.frt_tree(hc.Problem([0.0, 1.0]), seed=seed)


@pytest.mark.parametrize(
    ("problem", "largest"),
    [
        (hc.Problem(metric=[[0, 1.7e308], [1.7e308, 0]]), r"1.7e\+308"),
        (hc.Problem(metric=[[0, 5e-324], [0, 0]], directed=True), "0"),  # their mean underflows
    ],
)
def test_distances_that_no_falling_radius_parts(problem, largest):
    with pytest.raises(InvalidMetric, match=f"the largest is {largest} and .* give movement costs in another unit"):
        hc.frt_tree(problem)


def test_unknown_action():
    with pytest.raises(InvalidInput, match=r"action 2 is not an index from 0 to 1"):
        hc.frt_tree(hc.Problem([0.0, 1.0])).distance(0, 2)


def test_arrays_are_read_only():
    tree = hc.frt_tree(hc.Problem([0.0, 1.0, 2.0]))
    with pytest.raises(ValueError, match="read-only"):
        tree.weight[0] = 7.0


def test_drawing_shows_every_action_once():
    problem = hc.Problem([0.0, 1.0, 8.0], labels=["one", "two", "six"])
    tree = hc.frt_tree(problem, seed=0)
    drawing = tree.draw(problem)
    assert [drawing.count(label) for label in problem.labels] == [1, 1, 1]
    assert drawing.startswith("[3 actions, edges below weigh ")
    assert repr(tree).startswith("Tree(3 actions, ")


def test_thousands_of_actions():
    problem = hc.Problem(np.arange(3000.0))
    tree = hc.frt_tree(problem, seed=0)
    assert tree.leaf_count[tree.root] == 3000
    assert tree.stretch(problem).least >= 1.0


def test_a_tree_of_knobs_that_are_not_listed_is_refused():
    many = hc.knobs(**{f"k{i}": hc.knob(range(10), change=1.0) for i in range(10)})
    with pytest.raises(TooLarge, match="are not listed"):
        hc.frt_tree(many)
