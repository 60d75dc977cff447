from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles.paths import dense_total, exhaustive_path, exhaustive_total, price, work_function_path

import holdcourse as hc
from holdcourse.errors import InvalidInput, TooLarge
from holdcourse.learning.history import best_measured
from holdcourse.movement.offline import movement, optimal_path, work_function, work_function_step

METHODS = ("dense", "pruned", "search", "sweep")
TWO_STATES = hc.Problem([0.0, 0.9999])
LINE = hc.Problem([3.0, 0.0, 1.0, 7.0], scale=0.5)


def smooth_costs(rng, problem, rounds):
    """Bumps that wander over the coordinates."""
    points = problem.actions / np.ptp(problem.actions, axis=0).max()
    centres = rng.random((rounds, points.shape[1]))
    return ((points[None] - centres[:, None]) ** 2).sum(axis=2) * 3.0


@pytest.mark.kernel
@pytest.mark.parametrize("start", [None, 0, 3])
@pytest.mark.parametrize("method", METHODS)
def test_small_line_against_all_paths(method, start):
    rng = np.random.default_rng(5)
    for _ in range(4):
        costs = rng.integers(0, 4, size=(4, 4)).astype(float)  # integers: plenty of ties
        path = optimal_path(costs, LINE, start, method=method)
        assert path.actions.tolist() == exhaustive_path(costs, LINE.distances, start)
        assert_allclose(path.total, exhaustive_total(costs, LINE.distances, start), rtol=1e-12)


@pytest.mark.kernel
@pytest.mark.parametrize("fixed_cost", [0.0, 0.75])
def test_small_grid_sweeps_like_the_matrix(fixed_cost):
    grid = hc.grid(a=[0.0, 1.0, 4.0], b=[2.0, 3.0], c=[0.0, 0.5])
    problem = hc.Problem(grid, "cityblock", scale=[0.3, 1.0, 2.0], fixed_cost=fixed_cost)
    costs = np.random.default_rng(1).random((6, 12)) * 2
    costs[2, :7] = np.inf
    paths = [optimal_path(costs, problem, 4, method=method) for method in METHODS]
    assert_allclose(paths[0].total, dense_total(costs, problem.distances, 4), rtol=1e-12)
    for path in paths:
        assert_array_equal(path.actions, paths[0].actions)
        assert path.total == paths[0].total


@pytest.mark.kernel
def test_small_work_function_against_the_book():
    costs = np.random.default_rng(2).integers(0, 3, size=(8, 4)).astype(float)
    for start in range(4):
        assert work_function(costs, LINE, start).actions.tolist() == work_function_path(costs, LINE.distances, start)


@pytest.mark.parametrize("method", ["dense", "pruned", "sweep"])
def test_two_states_against_exhaustive_search_for_all_request_strings(method):
    """Distance 0.9999, requests that cost (1, 2) or (4, 2), every string up to length 12, both starts and none."""
    for rounds in range(1, 13):
        bits = np.array(list(itertools.product([0.0, 1.0], repeat=rounds)))
        paths, strings = bits, bits
        # Row: request string, column: path. State 0 costs 1 or 4, state 1 costs 2.
        service = (1 + 3 * strings) @ (1 - paths).T + 2 * paths.sum(axis=1)
        within = np.abs(np.diff(paths, axis=1)).sum(axis=1) * 0.9999
        costs = np.stack([1 + 3 * strings, np.full_like(strings, 2.0)], axis=2)
        for start in (None, 0, 1):
            entry = 0.0 if start is None else np.abs(paths[:, 0] - start) * 0.9999
            expected = (service + (within + entry)).min(axis=1)
            ours = [optimal_path(c, TWO_STATES, start, method=method).total for c in costs]
            assert_allclose(ours, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("seed", range(4))
def test_methods_agree_on_a_grid_of_400(seed):
    rng = np.random.default_rng(seed)
    grid = hc.grid(x=np.sort(rng.random(20)), y=np.linspace(0, 1, 20))
    problem = hc.Problem(grid, "cityblock", fixed_cost=0.1 * (seed % 2), scale=[1.0, 2.0])
    costs = smooth_costs(rng, problem, 60) if seed < 2 else rng.random((60, 400))
    reference = dense_total(costs, problem.distances, 7)
    paths = [optimal_path(costs, problem, 7, method=method) for method in METHODS]
    for path in paths:
        assert_allclose(path.total, reference, rtol=1e-12)
        assert_array_equal(path.actions, paths[0].actions)


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1.0, 1e12])
@pytest.mark.parametrize("metric", ["euclidean", "chebyshev"])
def test_pruned_equals_dense_whatever_the_ratio_of_service_to_movement(metric, scale):
    rng = np.random.default_rng(3)
    problem = hc.Problem(rng.random((150, 2)), metric)
    for costs in (rng.random((40, 150)), smooth_costs(rng, problem, 40)):
        pruned = optimal_path(costs * scale, problem, method="pruned")
        dense = optimal_path(costs * scale, problem, method="dense")
        assert_array_equal(pruned.actions, dense.actions)
        assert_allclose(pruned.total, dense_total(costs * scale, problem.distances), rtol=1e-11)


def test_rounds_without_costs_are_pruned_rightly():
    """Many sources of exactly the same value: all of them count, not only the first."""
    rng = np.random.default_rng(4)
    problem = hc.Problem(rng.random((80, 2)))
    costs = rng.random((50, 80)) * (rng.random((50, 1)) < 0.2)
    expected = dense_total(costs, problem.distances)
    assert_allclose(optimal_path(costs, problem, method="pruned").total, expected, rtol=1e-12)


@pytest.mark.parametrize("method", ["dense", "pruned"])
def test_directed_costs_are_paid_from_row_to_column(method):
    climb, sink = 5.0, 1.0
    problem = hc.Problem(metric=[[0.0, climb], [sink, 0.0]], directed=True)
    costs = np.array([[0.0, 4.5], [4.5, 0.0]])
    up = optimal_path(costs, problem, 0, method=method)
    assert up.actions.tolist() == [0, 0]
    assert (up.service, up.movement) == (4.5, 0.0)
    down = optimal_path(costs[::-1], problem, 1, method=method)
    assert down.actions.tolist() == [1, 0]
    assert (down.service, down.movement) == (0.0, sink)


@pytest.mark.parametrize("method", METHODS)
def test_never_moves_for_a_tie(method):
    problem = hc.Problem([0.0, 1.0])
    costs = np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    assert optimal_path(costs, problem, 1, method=method).actions.tolist() == [1, 1, 1]
    assert optimal_path(np.zeros((3, 2)), problem, method=method).actions.tolist() == [0, 0, 0]


@pytest.mark.parametrize("method", METHODS)
def test_a_tie_that_rounding_hides_is_a_tie(method):
    problem = hc.Problem([0.0, 0.1, 0.3])  # 0.1 + 0.2 != 0.3
    costs = np.array([[0.3, 0.2, 0.0]])
    assert optimal_path(costs, problem, 0, method=method).actions.tolist() == [0]


@pytest.mark.parametrize("method", METHODS)
def test_a_constant_added_to_a_round_changes_no_decision(method):
    rng = np.random.default_rng(6)
    costs = rng.integers(0, 5, size=(30, 4)).astype(float)
    shifted = costs + rng.integers(-1000, 1000, size=(30, 1))
    assert_array_equal(optimal_path(costs, LINE, 1).actions, optimal_path(shifted, LINE, 1, method=method).actions)


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev"])
def test_a_line_in_space_is_swept(metric):
    """Only one coordinate varies: all named metrics agree, and none needs the matrix."""
    actions = np.column_stack([np.full(30_000, 2.0), np.arange(30_000.0)[::-1]])
    problem = hc.Problem(actions, metric, scale=[1.0, 0.001], fixed_cost=0.2)
    costs = np.full((3, 30_000), 10.0)
    costs[0, 100] = costs[2, 5100] = 0.0
    path = optimal_path(costs, problem, 0)
    assert path.actions.tolist() in ([100, 100, 5100], [100, 5100, 5100])
    assert path.service == 10.0
    assert_allclose(path.movement, 0.1 + 5.0 + 0.4, rtol=1e-12)
    assert work_function(costs[:1], problem, 0).actions.tolist() == [100]


def test_a_grid_beyond_the_matrix_is_swept():
    problem = hc.Problem(hc.grid(a=np.arange(200), b=np.arange(150)), "cityblock", scale=0.01)
    costs = np.random.default_rng(0).random((5, problem.n))
    path = optimal_path(costs, problem, 0)
    bill = costs[np.arange(5), path.actions].sum()
    assert path.service == pytest.approx(bill, rel=1e-14)
    stays = min(costs[:, x].sum() + problem.distance(0, x) for x in range(0, problem.n, 97))
    assert path.total <= stays
    assert "distances" not in vars(problem)


def test_too_large_for_a_matrix_says_so():
    problem = hc.Problem(np.random.default_rng(0).random((20_001, 2)))
    with pytest.raises(TooLarge, match="20001 actions"):
        optimal_path(np.zeros((1, 20_001)), problem, method="pruned")
    assert optimal_path(np.zeros((1, 20_001)), problem, 7).actions.tolist() == [7]  # which needs no matrix


@pytest.mark.parametrize("method", METHODS)
def test_smallest_cases(method):
    for empty in (np.empty((0, 4)), []):
        path = optimal_path(empty, LINE, 2, method=method)
        assert path.actions.shape == (0,)
        assert path.actions.dtype == np.int64
        assert (path.service, path.movement, path.total) == (0.0, 0.0, 0.0)
    alone = hc.Problem([5.0])
    path = optimal_path([[1.0], [2.5]], alone, 0, method=method)
    assert path.actions.tolist() == [0, 0]
    assert (path.service, path.movement) == (3.5, 0.0)


def test_one_action_of_a_matrix():
    alone = hc.Problem(metric=[[0.0]])
    assert optimal_path([[1.0]], alone).total == 1.0
    assert work_function([[1.0]], alone, 0).total == 1.0


def test_the_callers_arrays_are_left_alone():
    costs = np.asfortranarray(np.random.default_rng(0).random((5, 4)))
    copy = costs.copy()
    path = optimal_path(costs, LINE)
    assert_array_equal(costs, copy)
    assert costs.flags.writeable
    assert not path.actions.flags.writeable
    costs.setflags(write=False)
    assert_array_equal(optimal_path(costs, LINE).actions, path.actions)


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (np.zeros((3, 5)), r"shape \(T, 4\).*\(3, 5\)"),
        (np.zeros(4), r"shape \(T, 4\).*\(4,\)"),
        ([[0, 1, 2, float("nan")]], "action 3 in round 0 is nan"),
        ([[0, 1, 2, 3], [0, -np.inf, 2, np.inf]], "action 1 in round 1 is -inf"),
        ([[0, 1, 2, 3], [np.inf] * 4], "every action is forbidden .* in round 1"),
        ([["a", "b", "c", "d"]], "costs must be numbers"),
        (np.full((3, 4), 1e308), "more than the largest number"),
    ],
)
@pytest.mark.parametrize("solve", [optimal_path, work_function])
def test_bad_costs(solve, costs, message):
    with pytest.raises(InvalidInput, match=message):
        solve(costs, LINE, 0)


@pytest.mark.parametrize("start", [-1, 4, 1.0, True, "0"])
def test_bad_start(start):
    for solve in (optimal_path, work_function):
        with pytest.raises(InvalidInput, match=r"not an index from 0 to 3"):
            solve(np.zeros((1, 4)), LINE, start)


def test_bad_method():
    with pytest.raises(InvalidInput, match=r"'fast' is not known; use one of \['auto'"):
        optimal_path(np.zeros((1, 4)), LINE, method="fast")
    scattered = hc.Problem(np.random.default_rng(0).random((5, 2)), "cityblock")
    euclidean = hc.Problem(hc.grid(a=[0, 1], b=[0, 1]))
    matrix = hc.Problem(metric=1.0 - np.eye(3))
    for problem in (scattered, euclidean, matrix):
        with pytest.raises(InvalidInput, match=r"'sweep' needs .* use method='auto'"):
            optimal_path(np.zeros((1, problem.n)), problem, method="sweep")


def test_work_function_by_steps():
    """The pure step gives the same path, and its work function is the optimum that ends at each action."""
    costs = np.random.default_rng(9).random((4, 4))
    costs -= costs.min(axis=1, keepdims=True)
    moves = movement(LINE)
    work, action, actions = moves.row(2), 2, []
    for t, row in enumerate(costs):
        work, action = work_function_step(work, row, action, moves)
        actions.append(action)
        then_move = np.vstack([costs[: t + 1], np.zeros(4)])
        for x in range(4):
            ending_at_x = ([*path, x] for path in itertools.product(range(4), repeat=t + 1))
            assert_allclose(work[x], min(price(p, then_move, LINE.distances, 2) for p in ending_at_x), rtol=1e-12)
    path = work_function(costs, LINE, 2)
    assert actions == path.actions.tolist()
    assert_allclose(path.total, price(actions, costs, LINE.distances, 2), rtol=1e-12)


def test_work_function_never_plays_a_forbidden_action_under_directed_costs():
    """Here the unconstrained minimiser of w(x) + d(here, x) is forbidden."""
    problem = hc.Problem(metric=[[0.0, 10.0, 1.0], [1.0, 0.0, 1.0], [10.0, 10.0, 0.0]], directed=True)
    path = work_function([[np.inf, 0.0, np.inf]], problem, 0)
    assert path.actions.tolist() == [1]
    rng = np.random.default_rng(0)
    for _ in range(20):
        distances = hc.metric_closure(rng.random((6, 6)) * 3)
        costs = np.where(rng.random((40, 6)) < 0.4, np.inf, rng.random((40, 6)))
        costs[:, 3] = np.where(np.isinf(costs).all(axis=1), 1.0, costs[:, 3])
        assert np.isfinite(work_function(costs, hc.Problem(metric=distances, directed=True), 0).total)


@pytest.mark.parametrize("n", [2, 5, 9])
def test_work_function_is_competitive(n):
    """(2n - 1) times the optimum, plus a constant of the metric; against requests that punish where we stand."""
    problem = hc.Problem(metric=1.0 - np.eye(n))
    rounds, here, costs = 400, 0, []
    moves = movement(problem)
    work = moves.row(0)
    for _ in range(rounds):
        row = np.zeros(n)
        row[here] = 0.3
        costs.append(row)
        work, here = work_function_step(work, row, here, moves)
    online = work_function(costs, problem, 0)
    assert online.total <= (2 * n - 1) * optimal_path(costs, problem, 0).total + 2 * n


def test_price_path_adds_up_the_bill():
    problem = hc.Problem([0.0, 1.0, 3.0])
    path = hc.price_path([1, 1, 2], [[1, 2, 3], [4, 5, 6], [7, 8, 9]], problem, start=0)
    assert (path.service, path.movement, path.total) == (16.0, 3.0, 19.0)
    assert hc.price_path([1, 1, 2], [[1, 2, 3], [4, 5, 6], [7, 8, 9]], problem).movement == 2.0


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([0], "must be 2 indices"),
        ([0, 7], "action 7 is not an index"),
        ([0, 1], "action 1 is forbidden"),
    ],
)
def test_price_path_refuses_what_cannot_be(actions, message):
    with pytest.raises(InvalidInput, match=message):
        hc.price_path(actions, [[1, 2], [3, np.inf]], hc.Problem([0.0, 1.0]))


@pytest.mark.parametrize("start", [None, 0, 3])
@pytest.mark.parametrize("episodes", [1, 3])
def test_best_fixed_is_the_cheapest_of_all_constant_paths(start, episodes):
    rng = np.random.default_rng(8)
    costs = rng.random((6, LINE.n))
    costs[2, 1] = np.inf  # never to be kept
    bills = {
        action: price(np.full(6, action), costs, LINE.distances, start)
        + (0.0 if start is None else (episodes - 1) * LINE.distances[start, action])
        for action in (0, 2, 3)
    }
    assert hc.best_fixed(costs, LINE, start, episodes=episodes) == min(bills, key=bills.get)


def test_best_fixed_where_there_is_none_or_no_difference():
    line = hc.Problem([0.0, 1.0])
    assert hc.best_fixed([[np.inf, 1.0], [1.0, np.inf]], line) is None
    assert hc.best_fixed([[1.0, 1.0]], line) == 0
    with pytest.raises(InvalidInput, match=r"shape \(T, 2\)"):
        hc.best_fixed([1.0, 2.0], line)
    with pytest.raises(InvalidInput, match="action 1 contain NaN"):
        hc.best_fixed([[1.0, np.nan]], line)


def test_best_measured_looks_only_at_what_was_tried():
    line = hc.Problem([0.0, 1.0, 2.0])
    past = hc.History([0, 0, 2], [0.0, 0.0, 0.0], [3.0, 1.0, 2.5])
    assert best_measured(past, line) == 0
    assert best_measured(past, line, maximise=True) == 2
