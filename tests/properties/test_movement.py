"""Invariants of tree, mirror descent and coupling on random metrics, states and costs of many scales."""

from __future__ import annotations

import numpy as np
from helpers.spaces import problems, random_distribution, random_state, trees
from hypothesis import given
from hypothesis import strategies as st
from oracles.descent import kkt_residual

import holdcourse as hc

seeds = st.integers(0, 2**20)
exponents = st.integers(-6, 6)


@given(problems(), seeds, st.sampled_from([4.1, 5.0, 9.0]))
def test_every_tree_dominates_and_separates(problem, seed, tau):
    tree = hc.frt_tree(problem, tau=tau, seed=seed)
    hc.testing.check_tree(tree, problem)
    assert sorted(tree.children.tolist()) == list(range(tree.root))
    assert (np.diff(tree.first_child) >= 2).all()


@given(trees(), seeds, exponents, st.sampled_from([1.0, 2.5]), st.floats(0, 0.6))
def test_descend_is_on_the_simplex_and_optimal(tree, seed, exponent, kappa, forbidden):
    random = np.random.default_rng(seed)
    q = random_state(tree, seed) if seed % 2 else hc.mirror.start(tree, seed % tree.n)
    costs = random.standard_normal(tree.n) * 10.0**exponent
    costs[random.random(tree.n) < forbidden] = np.inf
    costs[random.integers(tree.n)] = 0.0
    new = hc.mirror.descend(tree, q, costs, kappa)
    for u in range(len(tree.first_child) - 1):
        kin = tree.children[tree.first_child[u] : tree.first_child[u + 1]]
        assert (new[kin] >= 0).all()
        assert abs(new[kin].sum() - 1) <= 1e-12
    p = hc.mirror.leaf_probabilities(tree, new)
    assert (p[np.isinf(costs)] == 0).all()
    assert abs(p.sum() - 1) <= 1e-12
    assert kkt_residual(tree, q, new, costs, kappa) <= 1e-9


@given(trees(scales=(1.0,)), seeds, st.floats(-1e3, 1e3))
def test_a_constant_added_to_all_costs_changes_nothing(tree, seed, constant):
    q = random_state(tree, seed)
    # Multiples of 2^-20: adding the constant rounds nothing away, so the comparison is about the algorithm.
    costs = np.round(np.random.default_rng(seed).exponential(1.0, tree.n) * 2**20) / 2**20
    constant = round(constant * 2**20) / 2**20
    shifted = hc.mirror.descend(tree, q, costs + constant)
    np.testing.assert_allclose(shifted, hc.mirror.descend(tree, q, costs), atol=1e-9)


@given(trees(), seeds, seeds)
def test_coupling_has_both_marginals_and_least_movement(tree, seed, other):
    p, p_next = random_distribution(tree.n, seed), random_distribution(tree.n, other)
    rows = np.array([hc.coupling.conditional(tree, p, p_next, x) for x in range(tree.n)])
    assert (rows >= 0).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(p @ rows, p_next, atol=1e-12)
    assert (rows[:, p_next == 0] == 0).all()
    moved = float((p[:, None] * rows * tree.distances()).sum())
    least = hc.coupling.expected_movement(tree, p, p_next)
    assert abs(moved - least) <= 1e-9 * tree.weight.max(initial=1e-300)


@given(trees(), seeds, seeds, st.floats(0, 1, exclude_max=True))
def test_a_sample_is_possible_under_the_row(tree, seed, other, uniform):
    p, p_next = random_distribution(tree.n, seed), random_distribution(tree.n, other)
    action = seed % tree.n
    drawn = hc.coupling.sample(tree, p, p_next, action, uniform)
    assert p_next[drawn] > 0
    assert hc.coupling.conditional(tree, p, p_next, action)[drawn] > 0
