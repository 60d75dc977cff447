"""Points without a matrix: distances, trees, searches and moves are those that the matrix gives, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracles.descent import descend
from oracles.trees import frt_clusters

import holdcourse as hc
from holdcourse._numeric import descent, lanes
from holdcourse._numeric import points as kernels
from holdcourse.deciding.planning.plan import Steps
from holdcourse.errors import InvalidInput, InvalidMetric, NoActionLeft, TooLarge
from holdcourse.movement import problem as problem_module
from holdcourse.movement.points import Points
from holdcourse.movement.steps import longest_step
from holdcourse.running.limits import Limits, Position, nearest_permitted

METRICS = ("euclidean", "cityblock", "chebyshev")


@st.composite
def spaces(draw, most=70):
    """Points scattered, clustered, on a line or on a grid with gaps, some nearly alike; any unit, up to four axes."""
    random = np.random.default_rng(draw(st.integers(0, 2**20)))
    n, d = draw(st.integers(1, most)), draw(st.integers(1, 4))
    kind = draw(st.sampled_from(["scattered", "grid", "clustered", "line", "pairs"]))
    points = random.random((n, d))
    if kind == "grid":
        points = random.integers(0, 5, (n, d)).astype(float)
    elif kind == "clustered":
        points = random.integers(0, 3, (n, 1)) * 1e4 + points
    elif kind == "line":
        points = points[0] + random.integers(0, 99, (n, 1)) * (points[-1] - 0.5)
    elif kind == "pairs":
        points = np.concatenate([points, points + 1e-9])
    points = np.unique(points, axis=0)
    unit = 10.0 ** draw(st.sampled_from([-9, 0, 0, 9]))
    return hc.Problem(
        random.permutation(points),
        draw(st.sampled_from(METRICS)),
        scale=(random.random(d) + 0.1) * unit,
        fixed_cost=draw(st.sampled_from([0.0, 0.3])) * unit,
    )


def by_matrix(problem):
    """The same problem with its distances as a matrix of the user's."""
    return hc.Problem(problem.actions, metric=problem.distances)


@pytest.mark.kernel
@settings(max_examples=60, deadline=None)
@given(spaces())
def test_distances_are_those_of_the_matrix(problem):
    points = problem.points
    assert points.diameter == problem.distances.max()
    for action in range(problem.n):
        assert_array_equal(points.row(action), problem.distances[action])
    here, there = np.divmod(np.arange(problem.n**2), problem.n)
    assert_array_equal(points.costs(here, there), problem.distances.reshape(-1))
    assert_array_equal(np.sort(points.action), np.arange(problem.n))
    if problem.n > 1:
        apart = problem.distances + np.where(np.eye(problem.n, dtype=bool), np.inf, 0.0)
        assert_array_equal(points.nearest_others[points.place], apart.min(axis=0))


@pytest.mark.kernel
@settings(max_examples=60, deadline=None)
@given(spaces(), st.integers(0, 2**20), st.sampled_from([4.5, 5.0, 8.0]))
def test_the_tree_is_that_of_the_matrix(problem, seed, tau):
    ours, dense = hc.frt_tree(problem, tau, seed), hc.frt_tree(by_matrix(problem), tau, seed)
    assert_array_equal(ours.parent, dense.parent)
    assert_array_equal(ours.weight, dense.weight)


@pytest.mark.kernel
def test_centres_follow_the_definition():
    random = np.random.default_rng(3)
    problem = hc.Problem(random.random((40, 2)), "chebyshev", fixed_cost=0.01)
    tree = hc.frt_tree(problem, seed=3)
    drawn = np.random.default_rng(3)
    order = drawn.permutation(40)
    levels = frt_clusters(problem.distances, order, problem.distances.max() * 5.0 ** drawn.random(), 5.0)
    clusters = {cluster for level, _ in levels for cluster in level}
    below = {v: {v} for v in range(40)}
    for v in range(len(tree.parent) - 1):
        below.setdefault(int(tree.parent[v]), set()).update(below[v])
    assert all(frozenset(leaves) in clusters for leaves in below.values())


@pytest.mark.parametrize(("metric", "d"), [("euclidean", 2), ("cityblock", 3)])
def test_thousands_of_points_have_the_same_tree(metric, d):
    """So many that clusters are searched in boxes for their diameter, in a disc and in a cube."""
    random = np.random.default_rng(d)
    points = random.normal(size=(1500, d))
    points = points / np.linalg.norm(points, axis=1)[:, None] * random.random((1500, 1)) ** (1 / d)
    problem = hc.Problem(points, metric)
    ours, dense = hc.frt_tree(problem, seed=1), hc.frt_tree(by_matrix(problem), seed=1)
    assert_array_equal(ours.parent, dense.parent)
    assert_array_equal(ours.weight, dense.weight)


def test_a_diameter_that_takes_too_long_is_bounded_from_above():
    random = np.random.default_rng(0)
    points = random.normal(size=(3000, 6))
    points /= np.linalg.norm(points, axis=1)[:, None]  # on a sphere nearly every pair is about as far apart
    placed = Points(points, 2, 0.0).placed
    exact, certain = kernels.diameter(placed, np.arange(3000), 2, 1e9)
    bound, guess = kernels.diameter(placed, np.arange(3000), 2, 1e4)
    assert certain
    assert not guess
    assert exact <= bound <= 2.0 * exact


def test_a_large_tree_without_a_matrix_dominates_the_metric(monkeypatch):
    monkeypatch.setattr("holdcourse.movement.tree.MAX_MATRIX_ACTIONS", 1000)  # diameters may be bounds from there on
    monkeypatch.setattr("holdcourse.movement.tree.PAIRS_PER_POINT", 1.0)
    monkeypatch.setattr("holdcourse.movement.tree.MOST_PAIRS", 0.0)
    problem = hc.Problem(np.random.default_rng(1).normal(size=(1200, 5)))
    tree = hc.frt_tree(problem, seed=2)
    hc.testing.check_tree(tree, problem)
    assert tree.stretch(problem).least >= 1.0  # of drawn pairs, above so many actions


@pytest.mark.kernel
@settings(max_examples=60, deadline=None)
@given(spaces(), st.integers(0, 2**20), st.sampled_from([0.01, 1.0, 100.0]))
def test_relaxed_values_are_those_of_the_matrix(problem, seed, height):
    values = np.random.default_rng(seed).random((2, problem.n)) * height * max(problem.diameter, 1e-9)
    values[1, np.random.default_rng(seed).random(problem.n) < 0.3] = np.inf
    dense = (values[:, :, None] + problem.distances[None]).min(axis=1)
    assert_allclose(problem.points.relax(values), dense, rtol=1e-14)


@pytest.mark.parametrize("height", [0.02, 0.2, 2.0])
@pytest.mark.parametrize("fixed_cost", [0.0, 0.01])
def test_relaxed_values_of_thousands_of_points(height, fixed_cost):
    """Costs that change less than moves cost, about as much, and more: few points move, some, or nearly all."""
    points = np.random.default_rng(1).random((1500, 2))
    problem = hc.Problem(points, fixed_cost=fixed_cost)
    values = height * (np.sin(6 * points[:, 0]) + np.cos(5 * points[:, 1]))
    dense = (values[:, None] + problem.distances).min(axis=0)
    assert_allclose(problem.points.relax(values[None])[0], dense, rtol=0, atol=1e-14 * height)


@settings(max_examples=40, deadline=None)
@given(spaces(), st.integers(0, 2**20), st.data())
def test_moves_within_a_longest_step_are_those_of_the_matrix(problem, seed, data):
    random = np.random.default_rng(seed)
    size = data.draw(st.sampled_from([None, "one", "each"]))
    cost = data.draw(st.sampled_from([None, 0.5 * float(problem.distances.mean())]))
    extent = np.ptp(problem.actions, axis=0)
    if size == "one":
        size = 0.3 * float(extent.max())
    elif size == "each":
        size = (0.4 * extent).tolist()
    longest = longest_step(problem, size, cost)
    values = random.random((1, problem.n)) * problem.distances.max()
    allowed = np.where(longest.within_all().T, problem.distances.T, np.inf)
    dense = (values[0][:, None] + allowed).min(axis=0)
    assert_array_equal(problem.points.relax(values, longest.reach)[0], dense)


@settings(max_examples=40, deadline=None)
@given(spaces(), st.integers(0, 2**20))
def test_the_nearest_permitted_action_is_that_of_the_matrix(problem, seed):
    random = np.random.default_rng(seed)
    permitted = random.random(problem.n) < 0.3
    permitted[random.integers(problem.n)] = True
    for wanted in range(problem.n):
        expected = int(np.argmin(np.where(permitted, problem.distances[:, wanted], np.inf)))
        assert problem.points.nearest(wanted, permitted) == expected


@pytest.mark.kernel
@settings(max_examples=30, deadline=None)
@given(spaces(), st.integers(0, 2**20), st.sampled_from([0.01, 1.0, 1e3]))
def test_side_by_side_the_descent_is_the_same_up_to_rounding(problem, seed, height):
    random = np.random.default_rng(seed)
    tree = hc.frt_tree(problem, seed=seed)
    q = hc.mirror.start(tree, 0)
    for t in range(6):
        costs = random.random(tree.n) * height if t % 2 else random.integers(0, 3, tree.n).astype(float)
        costs[random.random(tree.n) < 0.2] = np.inf
        if t == 4:
            costs = np.ones(tree.n)
        costs[0] = 0.5
        plain = descent.step(
            q, costs, 1.5, tree.slot_speed, tree.slot_shift, tree.first_child, tree.children, tree.blocks
        )
        beside = lanes.step(q, costs, 1.5, *tree.lanes) if tree.n > 1 else plain
        assert_allclose(beside, plain, rtol=1e-9, atol=1e-12)
        assert (hc.mirror.leaf_probabilities(tree, beside)[np.isinf(costs)] == 0.0).all()
        q = plain


@pytest.mark.kernel
@settings(max_examples=20, deadline=None)
@given(spaces(), st.integers(0, 2**20))
def test_what_is_kept_once_for_a_lane_changes_no_bit(problem, seed):
    """Even blocks keep one speed and one delta for each lane; here every slot has its own."""
    tree = hc.frt_tree(problem, seed=seed)
    assume(tree.n > 1)
    by, random = tree.lanes, np.random.default_rng(seed)
    padding = by.child == tree.root
    speed, delta = np.ones(by.child.size), np.full(by.child.size, np.inf)
    real = by.child[~padding]
    speed[~padding], delta[~padding] = tree.rate[real] / tree.weight[real], tree.shift[real]
    every_slot = (speed, delta, by.child, by.vertex, by.begin, by.top, by.wide, by.begin, 0)
    assert len(by.speed) <= len(speed)
    q = hc.mirror.start(tree, 0)
    for _ in range(3):
        costs = np.where(random.random(tree.n) < 0.2, np.inf, random.random(tree.n))
        costs[0] = 0.5
        after = lanes.step(q, costs, 1.5, *by)
        assert np.array_equal(after, lanes.step(q, costs, 1.5, *every_slot))
        q = after


def test_side_by_side_the_descent_follows_the_definition():
    tree = hc.frt_tree(hc.Problem(np.random.default_rng(5).random((60, 2))), seed=5)
    q = tree.share.copy()
    costs = np.random.default_rng(6).random(60)
    assert_allclose(lanes.step(q, costs, 1.0, *tree.lanes), descend(tree, q, costs), atol=1e-9)


def test_more_actions_than_the_cache_holds():
    """Then what the next block reads is asked for early, which changes nothing."""
    n = lanes.OUT_OF_CACHE + 40_000
    random = np.random.default_rng(7)
    parent = np.concatenate([n + random.permutation(n) % (n // 4), np.full(n // 4, n + n // 4), [-1]])
    weight = np.concatenate([np.full(n, 0.1), np.ones(n // 4), [0.0]])
    tree = hc.Tree(parent, weight)
    q, costs = tree.share.copy(), random.random(n)
    before = q.copy()
    plain = descent.step(q, costs, 1.5, tree.slot_speed, tree.slot_shift, tree.first_child, tree.children, tree.blocks)
    assert_allclose(lanes.step(q, costs, 1.5, *tree.lanes), plain, rtol=1e-9, atol=1e-12)
    assert_array_equal(q, before)


@pytest.mark.kernel
def test_asking_early_changes_nothing():
    q, costs = np.arange(5.0), np.arange(3.0)
    lanes.fetch(q, costs, np.array([2, 0, 4, 3], dtype=np.int32))
    assert_array_equal(q, np.arange(5.0))
    assert_array_equal(costs, np.arange(3.0))


def test_logarithms():
    values = np.concatenate([np.geomspace(1e-300, 1e300, 4001), 1.0 + np.linspace(-1e-9, 1e-9, 101)])
    found = values.copy()
    lanes.logarithms(found, np.empty(len(values), np.int64), len(values))
    assert_allclose(found, np.log(values), rtol=1e-15, atol=0.0)


@settings(max_examples=40, deadline=None)
@given(spaces(), st.integers(0, 2**20))
def test_drawing_from_states_is_drawing_from_their_probabilities(problem, seed):
    random = np.random.default_rng(seed)
    tree = hc.frt_tree(problem, seed=seed)
    q, action = hc.mirror.start(tree, 0), 0
    for _ in range(8):
        q_next = hc.mirror.descend(tree, q, random.random(tree.n) * problem.diameter)
        p, p_next = hc.mirror.leaf_probabilities(tree, q), hc.mirror.leaf_probabilities(tree, q_next)
        uniform = random.random()
        after = hc.coupling.sample_from_states(tree, q, q_next, action, uniform)
        assert after == hc.coupling.sample(tree, p, p_next, action, uniform)
        q, action = q_next, after


@settings(max_examples=40, deadline=None)
@given(spaces(), st.integers(0, 2**20), st.booleans())
def test_a_step_is_a_descent_and_a_draw(problem, seed, large):
    """One call for what the paper's Algorithm 1 does in a round, also where vertices are stepped side by side."""
    random = np.random.default_rng(seed)
    tree = hc.frt_tree(problem, seed=seed)
    q, action = hc.mirror.start(tree, 0), 0
    with pytest.MonkeyPatch.context() as patched:
        if large:
            patched.setattr("holdcourse.movement.mirror.LARGE", 0)
        for _ in range(8):
            costs, uniform = random.random(tree.n) * problem.diameter, random.random()
            after, q_next, p_next = hc.mirror.step(tree, q, action, costs, uniform, kappa=1.5)
            assert_array_equal(q_next, hc.mirror.descend(tree, q, costs, kappa=1.5))
            assert_array_equal(p_next, hc.mirror.leaf_probabilities(tree, q_next))
            assert after == hc.coupling.sample(tree, hc.mirror.leaf_probabilities(tree, q), p_next, action, uniform)
            q, action = q_next, after


@pytest.mark.parametrize(("action", "uniform", "message"), [(2, 0.5, "from 0 to 1"), (0, 1.0, "must lie in")])
def test_a_step_that_cannot_be_taken(action, uniform, message):
    tree = hc.frt_tree(hc.Problem([0.0, 1.0]))
    with pytest.raises(InvalidInput, match=message):
        hc.mirror.step(tree, hc.mirror.start(tree, 0), action, [0.0, 1.0], uniform)


@pytest.fixture
def without_matrix(monkeypatch):
    """Small problems are treated as large ones: nothing may read a matrix."""
    monkeypatch.setattr(problem_module, "MATRIX_ACTIONS", 0)
    monkeypatch.setattr(problem_module, "MAX_MATRIX_ACTIONS", 0)
    monkeypatch.setattr("holdcourse.movement.mirror.LARGE", 0)
    monkeypatch.setattr("holdcourse.movement.offline.SEARCHED", 0)


POLICIES = {
    "md-known": hc.md_known,
    "minc-known": hc.minc_known,
    "planner-known": hc.planner_known,
    "planner-known, short steps": lambda problem: hc.planner_known(problem, max_step=0.5),
}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", POLICIES)
def test_controllers_without_a_matrix_decide_alike(name, metric, request):
    points = np.random.default_rng(7).random((60, 2))

    def decisions():
        problem = hc.Problem(points, metric, fixed_cost=0.02, scale=[0.5, 1.0])
        limits = hc.Limits(max_step=0.4, min_dwell=2)
        controller = hc.Controller(POLICIES[name](problem), start_index=3, limits=limits, seed=5)
        random = np.random.default_rng(8)
        taken = []
        for t in range(25):
            costs, allowed = random.random(60), random.random(60) < 0.8
            allowed[controller.action] = True
            decision = controller.ask(context=float(t % 5), costs=costs, allowed=allowed)
            taken.append((decision.action, decision.wanted, decision.limited_by))
            controller.tell(decision.id, float(costs[decision.action]))
        path = hc.optimal_path(np.random.default_rng(9).random((20, 60)), problem, 3)
        return taken, path.actions.tolist(), path.total, "distances" in vars(problem)

    *dense, with_matrix = decisions()
    request.getfixturevalue("without_matrix")
    *free, matrix_made = decisions()
    assert free == dense
    assert with_matrix
    assert not matrix_made


def test_limits_without_a_matrix(without_matrix):
    problem = hc.Problem([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [3.0, 3.0]])
    where = Position(((-1, 0),))
    permitted = np.array([True, True, True, False])
    assert nearest_permitted(problem, Limits(), where, 3, permitted, 0) == (1, "allowed")  # of two the lower
    assert Steps(problem).backed_up(np.array([[9.0, 0.0, 9.0, 9.0]]))[0].tolist()[:2] == [1.0, 0.0]


def test_the_matrix_of_many_is_refused_with_the_remedy():
    problem = hc.Problem(np.arange(20_001.0))
    with pytest.raises(TooLarge, match=r"20001 actions would take 3 GB; .*costs_from\(i\)"):
        _ = problem.distances
    assert problem.costs_from(3)[:5].tolist() == [3.0, 2.0, 1.0, 0.0, 1.0]
    assert problem.costs_to(3)[4] == 1.0
    assert problem.diameter == 20_000.0
    assert problem.nearest(7, np.arange(20_001) % 10 == 0) == 10
    assert "distances" not in vars(problem)


@pytest.mark.parametrize("n", [5, 2_001])  # with the matrix, and without
def test_moves_and_masks_that_make_no_sense(n):
    problem = hc.Problem(np.arange(float(n)))
    for before, after, words in (
        ([0], [n], rf"after\[0\] is {n}, which is not an index from 0 to {n - 1}"),
        ([0, -1], [0, 0], r"before\[1\] is -1"),
        ([0.0], [1.0], "before must be a list of whole numbers"),
        ([0, 1], [1], "as many actions before as after, got 2 and 1"),
        ([[0]], [[1]], r"of shape \(1, 1\)"),
    ):
        with pytest.raises(InvalidInput, match=words):
            problem.move_costs(before, after)
    assert problem.move_costs([0, 3], [2, 3]).tolist() == [2.0, 0.0]
    with pytest.raises(NoActionLeft, match="no action is permitted"):
        problem.nearest(1, np.zeros(n, dtype=bool))
    for mask in (np.ones(n), np.ones(n - 1, dtype=bool)):
        with pytest.raises(InvalidInput, match=f"permitted must be {n} booleans"):
            problem.nearest(1, mask)
    with pytest.raises(InvalidInput, match="is not an index"):
        problem.nearest(n, np.ones(n, dtype=bool))


def test_a_step_between_settings_far_from_zero():
    """Prices round coordinates of 1e9 by more than a share of the step."""
    problem = hc.Problem(1e9 + np.arange(300.0), scale=0.1)
    longest = longest_step(problem, 1.0)
    values = np.random.default_rng(0).random((1, problem.n)) * 10.0
    allowed = np.where(longest.within_all().T, problem.distances.T, np.inf)
    assert_array_equal(problem.points.relax(values, longest.reach)[0], (values[0][:, None] + allowed).min(axis=0))


def test_points_that_no_radius_parts():
    with pytest.raises(InvalidMetric, match="give movement costs in another unit"):
        hc.frt_tree(hc.Problem([[0.0, 0.0], [1e-200, 0.0]]))  # its square underflows


def test_searching_needs_points():
    with pytest.raises(InvalidInput, match="'search' needs coordinates"):
        hc.optimal_path(np.zeros((1, 2)), hc.Problem(metric=[[0, 1], [1, 0]]), method="search")


@pytest.mark.parametrize(("states", "uniform", "message"), [(2, 0.5, "must have shape"), (3, 1.0, "must lie in")])
def test_what_cannot_be_drawn_from(states, uniform, message):
    tree = hc.frt_tree(hc.Problem([0.0, 1.0]))
    with pytest.raises(InvalidInput, match=message):
        hc.coupling.sample_from_states(tree, np.ones(states), np.ones(states), 0, uniform)
