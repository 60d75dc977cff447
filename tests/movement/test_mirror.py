"""Mirror descent: the exact step against slow twins, a general solver, and its definition at the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.spaces import KINDS, random_problem, random_state
from oracles import descent as oracle

import holdcourse as hc
from holdcourse._numeric import descent as kernels
from holdcourse.errors import InvalidInput


def some_tree(n=12, seed=0, kind="plane", scale=1.0):
    return hc.frt_tree(random_problem(kind, n, seed, scale), seed=seed)


@pytest.mark.kernel
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kappa", [1.0, 3.0])
def test_step_equals_bisection(kind, kappa):
    tree = some_tree(kind=kind)
    random = np.random.default_rng(1)
    q = random_state(tree, seed=2)
    for _ in range(5):
        costs = random.exponential(2.0, tree.n)
        new = hc.mirror.descend(tree, q, costs, kappa)
        np.testing.assert_allclose(new, oracle.descend(tree, q, costs, kappa), atol=1e-10)
        q = new


@pytest.mark.parametrize("seed", range(12))
def test_step_equals_a_general_convex_solver(seed):
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 7))
    tree = hc.Tree([n] * n + [-1], [*random.uniform(0.3, 3.0, n), 0.0])  # edges of different weight
    q = random_state(tree, seed)
    costs = random.exponential(1.0, n)
    solved = oracle.descend(tree, q, costs, node=oracle.node_step_by_solver)
    np.testing.assert_allclose(hc.mirror.descend(tree, q, costs), solved, atol=2e-6)


@pytest.mark.kernel
def test_start_is_certain_at_the_action_and_even_elsewhere():
    tree = some_tree(15)
    for action in range(15):
        q = hc.mirror.start(tree, action)
        p = hc.mirror.leaf_probabilities(tree, q)
        assert p[action] == 1.0
        assert p.sum() == 1.0
        on_path = set()
        vertex = action
        while vertex != tree.root:
            vertex = int(tree.parent[vertex])
            on_path.add(vertex)
        elsewhere = [v for v in range(tree.root) if int(tree.parent[v]) not in on_path]
        np.testing.assert_array_equal(q[elsewhere], tree.share[elsewhere])


@pytest.mark.kernel
def test_a_state_is_probabilities_below_every_vertex():
    tree = some_tree(12)
    random = np.random.default_rng(6)
    for k in range(40):
        q = random_state(tree, k)
        if k % 2:
            q[random.integers(len(q) - 1)] += random.choice([-2.0, -1e-6, 1e-12, 1e-6, np.nan, np.inf])
        below = [q[tree.parent == u] for u in range(tree.n, tree.root + 1)]
        expected = all((kin >= 0.0).all() and abs(kin.sum() - 1.0) <= 1e-9 for kin in below)
        assert kernels.is_state(q, tree.first_child, tree.children, 1e-9) == expected


@pytest.mark.kernel
def test_constant_costs_change_nothing():
    tree = some_tree(20)
    q = random_state(tree, 3)
    np.testing.assert_array_equal(hc.mirror.descend(tree, q, np.full(20, 7.3)), q)


@pytest.mark.kernel
def test_forbidden_actions_get_nothing_and_forbidden_subtrees_keep_their_state():
    tree = some_tree(20, seed=4)
    q = random_state(tree, 5)
    inner = next(u for u in range(tree.n, tree.root) if tree.leaf_count[u] >= 2)
    low, high = tree.first_child[inner - tree.n : inner - tree.n + 2]
    leaves_below = [x for x in range(20) if x in tree.children[low:high] or tree.parent[x] == inner]
    costs = np.arange(20.0)
    costs[[x for x in range(20) if _is_below(tree, x, inner)]] = np.inf
    new = hc.mirror.descend(tree, q, costs)
    assert new[inner] == 0.0
    np.testing.assert_array_equal(new[leaves_below], q[leaves_below])
    p = hc.mirror.leaf_probabilities(tree, new)
    assert p[np.isinf(costs)].max() == 0.0
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(new, oracle.descend(tree, q, costs), atol=1e-10)


def _is_below(tree, vertex, ancestor):
    while vertex not in (ancestor, tree.root):
        vertex = int(tree.parent[vertex])
    return vertex == ancestor


@pytest.mark.kernel
def test_all_mass_on_an_action_that_becomes_forbidden():
    tree = some_tree(9)
    costs = np.ones(9)
    costs[4] = np.inf
    p = hc.mirror.leaf_probabilities(tree, hc.mirror.descend(tree, hc.mirror.start(tree, 4), costs))
    assert p[4] == 0.0
    assert p.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.kernel
def test_only_one_action_allowed():
    tree = some_tree(9)
    costs = np.full(9, np.inf)
    costs[2] = 1e6
    p = hc.mirror.leaf_probabilities(tree, hc.mirror.descend(tree, hc.mirror.start(tree, 4), costs))
    assert p.tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 0]


def test_one_action_stays():
    tree = hc.frt_tree(hc.Problem([1.0]))
    q = hc.mirror.descend(tree, hc.mirror.start(tree, 0), [5.0])
    assert hc.mirror.leaf_probabilities(tree, q).tolist() == [1.0]


def test_edges_of_extremely_different_weight():
    """A user's own tree: the exponents would overflow without the cautious start."""
    tree = hc.Tree([3, 3, 3, -1], [1e-6, 1e6, 1.0, 0.0])
    q = hc.mirror.start(tree, 1)
    for costs in ([5.0, 7.0, 0.0], [0.0, 1e9, 1e9], [1e9, 0.0, 1e9]):
        new = hc.mirror.descend(tree, q, costs)
        assert abs(new[:3].sum() - 1) <= 1e-12
        assert oracle.kkt_residual(tree, q, new, costs) <= 1e-9
        q = new


def test_numbers_near_the_end_of_the_range_stay_finite():
    tree = some_tree(6)
    q = hc.mirror.start(tree, 0)
    for costs in ([1e308, -1e308, 0, 1, 2, 3], [1e-320, 0, 0, 0, 0, 1e-310], [-1e300, 1e300, 5, 6, 7, 8]):
        q = hc.mirror.descend(tree, q, costs)
        assert np.isfinite(q).all()
        assert hc.mirror.leaf_probabilities(tree, q).sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.kernel
def test_own_exponential():
    y = np.concatenate([np.linspace(-700, 40, 977), [-1e9, -np.inf, 0.0]])
    scale = np.linspace(0.1, 2.0, len(y))
    x = y.copy()
    kernels.exponentials(x, scale, np.empty(len(y), np.int64), len(y))
    np.testing.assert_allclose(x[:-3], scale[:-3] * np.exp(y[:-3]), rtol=1e-15)
    assert x[-3] == x[-2] / scale[-2] * scale[-3] < 1e-300
    assert x[-1] == scale[-1]


def test_newton_needs_few_steps(monkeypatch):
    """The loop's bound is a guard, not a stopping rule: a quarter of it gives the same numbers."""
    tree = some_tree(40, kind="clustered")
    random = np.random.default_rng(0)
    q, costs = random_state(tree, 1), 10.0 ** random.uniform(-6, 6, 40)
    step = kernels.step.py_func
    arguments = (q, costs, 1.0, tree.slot_speed, tree.slot_shift, tree.first_child, tree.children, tree.blocks)
    full = step(*arguments)
    monkeypatch.setitem(step.__globals__, "MAX_STEPS", 25)
    np.testing.assert_array_equal(step(*arguments), full)


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ([1.0, 2.0], r"shape \(3,\), one per action, got \(2,\)"),
        ([1.0, math.nan, 2.0], "cost of action 1 is nan"),
        ([1.0, 2.0, -math.inf], "cost of action 2 is -inf"),
        ([math.inf] * 3, "all actions are forbidden"),
    ],
)
def test_bad_costs(costs, message):
    tree = hc.frt_tree(hc.Problem([0.0, 1.0, 2.0]))
    q = hc.mirror.start(tree, 0)
    before = q.copy()
    with pytest.raises(InvalidInput, match=message):
        hc.mirror.descend(tree, q, costs)
    np.testing.assert_array_equal(q, before)


def test_bad_state_kappa_and_action():
    tree = hc.frt_tree(hc.Problem([0.0, 1.0, 2.0]))
    with pytest.raises(InvalidInput, match="state must have shape"):
        hc.mirror.descend(tree, np.ones(2), [1, 2, 3])
    with pytest.raises(InvalidInput, match="kappa must be at least 1"):
        hc.mirror.descend(tree, hc.mirror.start(tree, 0), [1, 2, 3], kappa=0.5)
    with pytest.raises(InvalidInput, match=r"action 3 is not an index from 0 to 2"):
        hc.mirror.start(tree, 3)
