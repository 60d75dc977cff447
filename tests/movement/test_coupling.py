"""The coupling: marginals, optimality against a linear program, samples, and what rounding must not do."""

from __future__ import annotations

import numpy as np
import ot
import pytest
from helpers.spaces import KINDS, random_distribution, random_problem
from scipy.stats import chisquare

import holdcourse as hc
from holdcourse.errors import InvalidInput


def some_tree(n=12, seed=0, kind="plane"):
    return hc.frt_tree(random_problem(kind, n, seed), seed=seed)


@pytest.mark.kernel
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_coupling_is_optimal(kind, seed):
    tree = some_tree(kind=kind, seed=seed)
    p, p_next = random_distribution(12, seed), random_distribution(12, seed + 100)
    rows = np.array([hc.coupling.conditional(tree, p, p_next, x) for x in range(12)])
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(p @ rows, p_next, atol=1e-12)
    distances = tree.distances()
    moved = float((p[:, None] * rows * distances).sum())
    assert moved == pytest.approx(hc.coupling.expected_movement(tree, p, p_next), rel=1e-12)
    assert moved == pytest.approx(ot.emd2(p, p_next, distances), rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_samples_follow_the_conditional_row(seed, record_property):
    """Chi-square at level 1e-4: a right sampler fails once in 10,000 such tests, and the seeds are fixed."""
    tree = some_tree(30, seed)
    p, p_next = random_distribution(30, seed), random_distribution(30, seed + 1)
    mover = int(np.argmax(p - p_next))
    row = hc.coupling.conditional(tree, p, p_next, mover)
    uniform = np.random.default_rng(seed).random(100_000)
    counts = np.bincount([hc.coupling.sample(tree, p, p_next, mover, u) for u in uniform], minlength=30)
    assert counts[row == 0].sum() == 0
    level = chisquare(counts[row > 0], row[row > 0] * len(uniform)).pvalue
    record_property(f"coupling samples, seed {seed}: chi-square p-value", f"{level:.3f}")
    assert level > 1e-4


@pytest.mark.kernel
def test_equal_distributions_never_move():
    tree = some_tree(20)
    p = random_distribution(20, 8)
    for action in range(20):
        for uniform in (0.0, 0.5, np.nextafter(1.0, 0.0)):
            if p[action] > 0:
                assert hc.coupling.sample(tree, p, p, action, uniform) == action
    assert hc.coupling.expected_movement(tree, p, p) == 0.0


@pytest.mark.kernel
def test_from_a_certain_action_the_row_is_the_new_distribution():
    tree = some_tree(10)
    p_next = random_distribution(10, 2)
    np.testing.assert_allclose(hc.coupling.conditional(tree, np.eye(10)[4], p_next, 4), p_next, atol=1e-15)


@pytest.mark.kernel
def test_an_action_without_probability_still_gets_a_row():
    """Somebody else moved us: the limit of a vanishing probability, and never a forbidden action."""
    tree = some_tree(10)
    p, p_next = np.eye(10)[1], np.zeros(10)
    p_next[[1, 6]] = 0.5
    for action in range(10):
        row = hc.coupling.conditional(tree, p, p_next, action)
        assert row.sum() == pytest.approx(1.0, abs=1e-12)
        assert row[p_next == 0].sum() == 0.0
        assert hc.coupling.sample(tree, p, p_next, action, 0.7) in (1, 6)


def test_one_action():
    tree = hc.frt_tree(hc.Problem([1.0]))
    assert hc.coupling.conditional(tree, [1.0], [1.0], 0).tolist() == [1.0]
    assert hc.coupling.sample(tree, [1.0], [1.0], 0, 0.9) == 0


def test_long_chain_of_samples_has_the_right_marginals():
    """20,000 walkers through 10 rounds of mirror descent: the crowd follows p, as the theory says."""
    tree = some_tree(16, seed=3)
    random = np.random.default_rng(0)
    q = hc.mirror.start(tree, 5)
    p = hc.mirror.leaf_probabilities(tree, q)
    walkers = np.full(20_000, 5)
    for _ in range(10):
        q = hc.mirror.descend(tree, q, random.exponential(0.3, 16))
        p_next = hc.mirror.leaf_probabilities(tree, q)
        walkers = np.array([hc.coupling.sample(tree, p, p_next, x, random.random()) for x in walkers])
        p = p_next
    counts = np.bincount(walkers, minlength=16)
    assert counts[p == 0].sum() == 0
    assert chisquare(counts[p > 0], p[p > 0] / p.sum() * len(walkers)).pvalue > 1e-4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 0], [1, 0, 0], 0), r"p must have shape \(3,\)"),
        (([1, 0, 0], [0.5, 0, 0], 0), r"p_next must be a distribution.*sums to 0\.5"),
        (([1.5, -0.5, 0], [1, 0, 0], 0), "p must be a distribution.*smallest entry is -0.5"),
        (([np.nan, 1, 0], [1, 0, 0], 0), "p must be a distribution"),
        (([1, 0, 0], [1, 0, 0], 3), r"action 3 is not an index from 0 to 2"),
    ],
)
def test_bad_input(arguments, message):
    tree = hc.frt_tree(hc.Problem([0.0, 1.0, 2.0]))
    with pytest.raises(InvalidInput, match=message):
        hc.coupling.conditional(tree, *arguments)
    with pytest.raises(InvalidInput, match=message):
        hc.coupling.sample(tree, *arguments, 0.5)


@pytest.mark.parametrize("uniform", [-0.1, 1.0, np.nan])
def test_bad_uniform(uniform):
    tree = hc.frt_tree(hc.Problem([0.0, 1.0]))
    with pytest.raises(InvalidInput, match="uniform must lie in"):
        hc.coupling.sample(tree, [1, 0], [0, 1], 0, uniform)
