"""The gate: every way to state a problem, and every way to state it wrongly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdcourse as hc
from holdcourse.errors import InvalidInput, InvalidMetric, TooLarge
from holdcourse.movement.metric import check_metric


@pytest.mark.parametrize(("metric", "expected"), [("euclidean", 5.0), ("cityblock", 7.0), ("chebyshev", 4.0)])
def test_named_metrics(metric, expected):
    problem = hc.Problem([[0, 0], [3, 4]], metric=metric)
    assert problem.distance(0, 1) == problem.distances[0, 1] == expected


def test_scale_is_a_price_per_unit_of_each_axis():
    problem = hc.Problem([[0, 0], [3, 4]], metric="cityblock", scale=[2.0, 10.0])
    assert problem.distance(0, 1) == 46.0
    assert hc.Problem([0.0, 100.0], scale=0.15).distance(1, 0) == 15.0


def test_fixed_cost_per_move():
    problem = hc.Problem([0.0, 1.0, 3.0], fixed_cost=2.0)
    assert problem.distances.tolist() == [[0, 3, 5], [3, 0, 4], [5, 4, 0]]
    check_metric(problem.distances)


def test_matrix_callable_and_labels():
    matrix = [[0, 1, 2], [1, 0, 2], [2, 2, 0]]
    names = ["eco", "normal", "boost"]
    by_matrix = hc.Problem(metric=matrix, labels=names)
    by_callable = hc.Problem(names, metric=lambda a, b: matrix[names.index(a)][names.index(b)])
    for problem in (by_matrix, by_callable):
        np.testing.assert_array_equal(problem.distances, matrix)
        assert problem.value(2) == "boost"


def test_callable_on_numbers_and_on_a_grid():
    squares = hc.Problem([0.0, 1.0, 4.0], metric=lambda a, b: abs(a - b) ** 0.5)
    assert squares.distance(0, 2) == 2.0
    assert squares.value(1) == 1.0
    knobs = hc.Problem(
        hc.grid(workers=[1, 2], cache=[64, 256]), metric=lambda a, b: 5.0 * (a["workers"] != b["workers"]) + (a != b)
    )
    assert knobs.distances.tolist() == [[0, 1, 6, 6], [1, 0, 6, 6], [6, 6, 0, 1], [6, 6, 1, 0]]


def test_grid():
    knobs = hc.grid(workers=[1, 2, 4], cache_mb=[64, 256])
    problem = hc.Problem(knobs)
    assert problem.n == 6
    assert knobs.shape == (3, 2)
    assert problem.value(3) == {"workers": 2.0, "cache_mb": 256.0}
    assert [knobs.index(**problem.value(action)) for action in range(6)] == list(range(6))


def test_values_of_plain_coordinates():
    assert hc.Problem([1.0, 2.0]).value(1) == 2.0
    assert hc.Problem([[1.0, 5.0], [2.0, 6.0]]).value(1) == (2.0, 6.0)


def test_directed_costs():
    matrix = np.array([[0.0, 2.0], [0.0, 0.0]])  # climbing costs, sinking is free
    problem = hc.Problem(metric=matrix, directed=True)
    assert (problem.distance(0, 1), problem.distance(1, 0)) == (2.0, 0.0)
    assert problem.symmetric_distances.tolist() == [[0, 1], [1, 0]]
    with pytest.raises(InvalidMetric, match=r"from action 0 to 1 costs 2, but moving back costs 0; give directed=True"):
        hc.Problem(metric=matrix)


@pytest.mark.parametrize(
    ("matrix", "message", "indices"),
    [
        ([[0, 1], [1, 1]], "from action 1 to 1 is 1: staying must cost 0", (1, 1)),
        ([[0, -1], [-1, 0]], "from action 0 to 1 is -1: .* must not be negative", (0, 1)),
        ([[0, np.inf], [1, 0]], "from action 0 to 1 is inf: .* must be finite", (0, 1)),
        ([[0, np.nan], [1, 0]], "from action 0 to 1 is nan: .* must be finite", (0, 1)),
        ([[0, 1, 0], [1, 0, 1], [0, 1, 0]], "from action 0 to 2 is 0: different actions with a distance of 0", (0, 2)),
        (
            [[0, 1, 9], [1, 0, 2], [9, 2, 0]],
            r"from action 0 to 2 costs 9, but going through action 1 costs only 1 \+ 2 = 3.*metric_closure",
            (0, 1, 2),
        ),
    ],
)
def test_matrices_that_are_no_metric(matrix, message, indices):
    with pytest.raises(InvalidMetric, match=message) as caught:
        hc.Problem(metric=matrix)
    assert caught.value.indices == indices


def test_rounding_in_a_matrix_is_forgiven():
    points = np.random.default_rng(0).random((40, 3))
    distances = np.sqrt(((points[:, None] - points[None]) ** 2).sum(-1))
    noisy = distances * (1 + 1e-13 * np.random.default_rng(1).standard_normal(distances.shape))
    assert hc.Problem(metric=noisy).n == 40


@pytest.mark.kernel
def test_triangle_check_finds_a_single_bad_triple():
    matrix = 1.0 - np.eye(30)
    matrix[7, 21] = matrix[21, 7] = 2.5
    with pytest.raises(InvalidMetric, match=r"from action 7 to 21 costs 2\.5"):
        check_metric(matrix)


def test_large_matrices_are_checked_on_sampled_triples(monkeypatch):
    monkeypatch.setattr("holdcourse.movement.metric.EXACT_CHECK_ACTIONS", 10)
    matrix = 1.0 - np.eye(30)
    check_metric(matrix)
    matrix[7, 21] = matrix[21, 7] = 2.5  # one pair in 435 is bad: 2 million sampled triples meet it
    with pytest.raises(InvalidMetric, match="the triangle inequality is broken"):
        check_metric(matrix)


@given(st.integers(1, 12), st.integers(0, 2**20), st.booleans())
def test_closure_is_a_metric_below_the_matrix_and_keeps_a_metric(n, seed, directed):
    direct = np.random.default_rng(seed).random((n, n)) + 1e-3
    direct = direct if directed else (direct + direct.T) / 2
    closed = hc.metric_closure(direct)
    problem = hc.Problem(metric=closed, directed=directed)
    assert (closed <= direct + np.eye(n)).all()
    np.testing.assert_allclose(hc.metric_closure(problem.distances), closed, rtol=1e-12)


def test_closure_goes_round_missing_moves():
    missing = np.inf
    closed = hc.metric_closure([[0, 1, missing], [1, 0, 2], [missing, 2, 0]])
    assert closed.tolist() == [[0, 1, 3], [1, 0, 2], [3, 2, 0]]


@pytest.mark.kernel
def test_closure_keeps_moves_that_are_free_in_one_direction():
    closed = hc.metric_closure([[0, 0, 5], [1, 0, 1], [1, 1, 0]])
    assert closed.tolist() == [[0, 0, 1], [1, 0, 1], [1, 1, 0]]
    assert hc.Problem(metric=closed, directed=True).distance(0, 1) == 0.0


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0, np.inf], [np.inf, 0]], "no route from action 0 to 1"),
        ([[0, -1], [1, 0]], r"entry \(0, 1\) is -1"),
        ([[0, np.nan], [1, 0]], r"entry \(0, 1\) is nan"),
    ],
)
def test_closure_of_nonsense(matrix, message):
    with pytest.raises(InvalidMetric, match=message):
        hc.metric_closure(matrix)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"actions": []}, r"shape \(n,\) or \(n, d\)"),
        ({"actions": np.zeros((2, 2, 2))}, r"got \(2, 2, 2\)"),
        ({"actions": None}, "actions are missing"),
        ({"actions": ["a", "b"]}, "actions must be numbers"),
        ({"actions": [0.0, np.nan]}, r"actions must be finite, but entry \(1, 0\) is nan"),
        ({"actions": [1.0, 2.0, 1.0]}, "actions 0 and 2 are both the setting 1: name every setting once"),
        ({"actions": [0.0, 1.0], "metric": "manhattan"}, "metric 'manhattan' is not known"),
        ({"actions": [0.0, 1.0], "metric": [[0, 1]]}, "must be square"),
        (
            {"actions": [0.0], "metric": [[0, 1], [1, 0]]},
            "must have 1 row and as many columns, .* got shape",
        ),
        ({"actions": [0.0, 1.0], "scale": -1.0}, "scale must be positive"),
        ({"actions": [0.0, 1.0], "scale": [1.0, 2.0]}, "one number or 1"),
        ({"metric": [[0, 1], [1, 0]], "scale": 2.0}, "scale belongs to a named metric"),
        ({"actions": [0.0, 1.0], "fixed_cost": -1.0}, "fixed_cost must be 0 or more"),
        ({"actions": [0.0, 1.0], "fixed_cost": np.nan}, "fixed_cost must be 0 or more"),
        ({"actions": [0.0, 1.0], "labels": ["a"]}, "labels must be 2 names, one per action, got 1"),
        ({"actions": "ab", "metric": lambda a, b: 1.0}, "a metric that is a function needs the actions"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        hc.Problem(**arguments)


@pytest.mark.parametrize("axes", [{}, {"a": []}, {"a": [1, 1]}, {"a": [1, np.inf]}, {"a": [["x"]]}, {"a": [[1, 2]]}])
def test_bad_grids(axes):
    with pytest.raises(InvalidInput):
        hc.grid(**axes)


def test_bad_grid_index():
    with pytest.raises(InvalidInput, match=r"a=3 is not on the grid; its values are \[1.0, 2.0\]"):
        hc.grid(a=[1, 2]).index(a=3)
    with pytest.raises(InvalidInput, match="one value for each of"):
        hc.grid(a=[1, 2]).index(b=1)


@pytest.mark.parametrize("action", [-1, 3, 1.0, True, "0", None])
def test_bad_action(action):
    with pytest.raises(InvalidInput, match=r"is not an index from 0 to 2"):
        hc.Problem([0.0, 1.0, 2.0]).value(action)


def test_too_many_actions_for_a_matrix():
    problem = hc.Problem(np.arange(30_000.0))
    assert problem.distance(0, 29_999) == 29_999.0
    with pytest.raises(TooLarge, match="30000 actions would take 7 GB"):
        problem.distances  # noqa: B018


def test_arrays_are_read_only_and_ours():
    points = np.array([0.0, 1.0])
    problem = hc.Problem(points)
    points[0] = 9.0
    assert problem.actions[0, 0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        problem.distances[0, 1] = 7.0


def test_repr():
    problem = hc.Problem(metric=[[0, 2], [1, 0]], directed=True, fixed_cost=1.5)
    assert repr(problem) == "Problem(2 actions, metric='matrix', fixed_cost=1.5, directed)"


@pytest.mark.parametrize("actions", [[0.0, 1e-200, 1.0], [-1e308, 0.0, 1e308]])
def test_distances_that_floats_cannot_hold_are_named(actions):
    problem = hc.Problem(actions)
    with pytest.raises(InvalidMetric, match="in floating point; give actions in another unit") as caught:
        problem.distances  # noqa: B018
    assert len(caught.value.indices) == 2


def test_the_order_of_a_matrix_in_memory_does_not_matter():
    matrix = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    assert hc.Problem(metric=np.asfortranarray(matrix)).distances.flags.c_contiguous


def test_coordinates_of_a_grid_under_a_callable_are_read_only_too():
    problem = hc.Problem(hc.grid(a=[1, 2], b=[3, 5]), lambda x, y: abs(x["a"] - y["a"]) + abs(x["b"] - y["b"]))
    with pytest.raises(ValueError, match="read-only"):
        problem.actions[0, 0] = 7.0


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev"])
def test_a_move_costs_the_same_whether_or_not_the_matrix_was_made(metric):
    random = np.random.default_rng(0)
    problem = hc.Problem(7 * random.random((2100, 3)), metric, scale=[0.3, 0.7, 1.1], fixed_cost=0.3)
    before, after = random.integers(problem.n, size=(2, 500))
    alone = problem.move_costs(before, after)
    np.testing.assert_array_equal(alone, problem.distances[before, after])


def test_a_callable_is_known_by_its_costs():
    problem = hc.Problem(["a", "b", "d"], metric=lambda x, y: abs(ord(x) - ord(y)))
    again = hc.Problem.from_data(problem.describe())
    assert again.fingerprint == problem.fingerprint
    with pytest.raises(InvalidMetric, match="the metric of 'a' and 'b' is 'far'; it must give one number"):
        hc.Problem(["a", "b"], metric=lambda x, y: "far")
