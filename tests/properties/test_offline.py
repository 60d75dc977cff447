from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from oracles.paths import dense_total, exhaustive_path, work_function_path

import holdcourse as hc
from holdcourse.movement.offline import optimal_path, work_function

# Multiples of 1/8: sums are exact, so that ties are ties for the oracles too.
EIGHTHS = st.integers(0, 40).map(lambda k: k / 8)
STEPS = st.integers(1, 40).map(lambda k: k / 8)
ANY_COST = st.one_of(EIGHTHS, st.floats(-1e6, 1e6), st.just(np.inf))


@st.composite
def matrix_problems(draw, max_actions=6):
    n = draw(st.integers(1, max_actions))
    directed = draw(st.booleans())
    direct = draw(arrays(np.float64, (n, n), elements=STEPS))
    closed = hc.metric_closure(direct if directed else np.minimum(direct, direct.T))
    return hc.Problem(metric=closed, directed=directed, fixed_cost=draw(EIGHTHS))


@st.composite
def grid_problems(draw, max_actions=12):
    """Lines under any named metric and full grids under cityblock, listed in any order."""
    axes = [draw(st.lists(EIGHTHS, min_size=1, max_size=4, unique=True))]
    while draw(st.booleans()) and len(axes) < 3:
        axis = draw(st.lists(EIGHTHS, min_size=1, max_size=3, unique=True))
        if np.prod([len(a) for a in axes]) * len(axis) <= max_actions:
            axes.append(axis)
        else:
            break
    points = np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=1)
    points = points[draw(st.permutations(range(len(points))))]
    on_a_line = sum(len(axis) > 1 for axis in axes) <= 1
    metric = draw(st.sampled_from(["euclidean", "cityblock", "chebyshev"])) if on_a_line else "cityblock"
    scale = draw(st.lists(st.sampled_from([0.25, 1.0, 2.0, 8.0]), min_size=len(axes), max_size=len(axes)))
    return hc.Problem(points, metric, scale=scale, fixed_cost=draw(EIGHTHS))


@st.composite
def cases(draw, problems, costs=ANY_COST, max_rounds=8):
    """A problem, costs with at least one allowed action in every round, and a start."""
    problem = draw(problems)
    table = draw(arrays(np.float64, (draw(st.integers(0, max_rounds)), problem.n), elements=costs))
    for row in table:
        if np.isinf(row).all():
            row[draw(st.integers(0, problem.n - 1))] = 0.0
    return problem, table, draw(st.one_of(st.none(), st.integers(0, problem.n - 1)))


@given(cases(matrix_problems()))
def test_pruned_equals_dense_on_any_metric(case):
    problem, costs, start = case
    check_methods(problem, costs, start, ("dense", "pruned"))


@given(cases(grid_problems()))
def test_sweep_equals_dense_on_lines_and_grids(case):
    problem, costs, start = case
    check_methods(problem, costs, start, ("dense", "pruned", "sweep"))


def check_methods(problem, costs, start, methods):
    expected = dense_total(costs, problem.distances, start)
    scale = np.abs(costs[np.isfinite(costs)]).sum() + problem.distances.max() * len(costs)
    paths = [optimal_path(costs, problem, start, method=method) for method in methods]
    for path in paths:
        assert_allclose(path.total, expected, rtol=0, atol=1e-12 * scale)
        assert_array_equal(path.actions, paths[0].actions)
        assert path.total == path.service + path.movement == paths[0].total


@given(cases(st.one_of(matrix_problems(4), grid_problems(4)), st.one_of(EIGHTHS, st.just(np.inf)), max_rounds=4))
def test_path_and_ties_equal_exhaustive_search(case):
    problem, costs, start = case
    assert optimal_path(costs, problem, start).actions.tolist() == exhaustive_path(costs, problem.distances, start)


@given(cases(st.one_of(matrix_problems(), grid_problems()), st.one_of(EIGHTHS, st.just(np.inf)), max_rounds=12))
def test_work_function_equals_the_book_and_is_no_better_than_hindsight(case):
    problem, costs, start = case
    start = start or 0
    path = work_function(costs, problem, start)
    assert path.actions.tolist() == work_function_path(costs, problem.distances, start)
    assert path.total >= optimal_path(costs, problem, start).total


@given(cases(st.one_of(matrix_problems(), grid_problems())), st.data())
def test_what_must_be_monotone(case, data):
    """A free start is the best start; dearer service never lowers the optimum; undirected costs know no time."""
    problem, costs, _ = case
    free = optimal_path(costs, problem).total
    slack = 1e-12 * (np.abs(costs[np.isfinite(costs)]).sum() + problem.distances.max() * len(costs))
    if len(costs):
        first = int(optimal_path(costs, problem).actions[0])
        assert abs(optimal_path(costs, problem, first).total - free) <= slack
    for start in range(problem.n):
        assert optimal_path(costs, problem, start).total >= free - slack
    dearer = costs + data.draw(arrays(np.float64, costs.shape, elements=EIGHTHS))
    assert optimal_path(dearer, problem).total >= free - slack
    if not problem.directed:
        assert abs(optimal_path(costs[::-1], problem).total - free) <= slack


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.01, 0.1, 1.0, 10.0]))
def test_methods_agree_on_larger_random_problems(seed, weight):
    """Where pruning has something to prune."""
    rng = np.random.default_rng(seed)
    costs = rng.random((20, 120)) * weight
    costs[rng.random(costs.shape) < 0.1] = np.inf
    grid = hc.Problem(hc.grid(a=rng.random(10), b=rng.random(12)), "cityblock", scale=rng.random(2) + 0.1)
    check_methods(grid, costs, 3, ("dense", "pruned", "sweep"))
    check_methods(hc.Problem(rng.random((120, 3))), costs, None, ("dense", "pruned"))
