"""The compiled plan and replay against slow twins."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import steering as slow

from holdcourse._numeric import steering

pytestmark = pytest.mark.kernel


def chain(seed, directions=7, bins=3, reach=2, n=4):
    random = np.random.default_rng(seed)
    turns = random.dirichlet(np.ones(2 * reach + 1), bins)
    speeds = random.dirichlet(np.ones(bins), bins)
    points = random.uniform(-20, 20, (n, 2))
    moves = 0.05 * np.abs(points[:, None] - points).sum(axis=2)
    return random.standard_normal((directions, bins, n)), turns, speeds, moves


@pytest.mark.parametrize("seed", range(3))
def test_what_is_expected_is_the_sum_over_all_that_may_come(seed):
    values, turns, speeds, _ = chain(seed)
    np.testing.assert_allclose(steering.expected(values, turns, speeds), slow.expected(values, turns, speeds))


@pytest.mark.parametrize("seed", range(3))
def test_the_plan_is_that_of_policy_iteration(seed):
    costs, turns, speeds, moves = chain(seed)
    found = steering.plan(costs, turns, speeds, moves, 0.9, 1000, 1e-10)
    exact = slow.plan(costs, turns, speeds, moves, 0.9)
    # Up to a constant per context, which no decision depends on.
    np.testing.assert_allclose(
        found - found.min(axis=2, keepdims=True), exact - exact.min(axis=2, keepdims=True), atol=1e-7
    )


def test_moves_that_are_too_long_are_never_taken():
    costs, turns, speeds, moves = chain(4)
    moves = moves.copy()
    moves[0, 1:] = np.inf
    onward = steering.plan(costs, turns, speeds, moves, 0.9, 1000, 1e-10)
    random = np.random.default_rng(0)
    t = 50
    taken = steering.replay(
        onward[None],
        moves,
        np.zeros(t, dtype=np.int64),
        random.integers(7, size=t),
        random.uniform(size=t),
        random.integers(2, size=t),
        random.uniform(size=t),
        0,
    )
    assert (taken == 0).all()


def test_a_held_offset_stays_by_hand():
    wanted = np.array([[20.0, 0.0], [-20.0, 5.0], [-20.0, 5.0], [0.0, 5.0]])
    holding = np.array([[False, True], [True, False], [False, False], [False, True]])
    found = steering.held(wanted, holding, np.array([10.0, -5.0]))
    assert found.tolist() == [[20.0, -5.0], [20.0, 5.0], [-20.0, 5.0], [0.0, 5.0]]
