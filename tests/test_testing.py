"""The conformance suite must pass what is right and catch what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

import holdcourse as hc


def test_check_tree_accepts_a_right_tree():
    problem = hc.Problem(np.arange(20.0))
    hc.testing.check_tree(hc.frt_tree(problem, seed=1), problem)


def test_check_tree_catches_a_tree_that_does_not_dominate():
    problem = hc.Problem([0.0, 1.0, 10.0])
    with pytest.raises(AssertionError, match=r"does not dominate the metric: actions 0 and 2 .*\(2 such pairs\)"):
        hc.testing.check_tree(hc.Tree([3, 3, 4, 4, -1], [0.5, 0.5, 4.0, 4.0, 0.0]), problem)


def test_check_tree_catches_edges_that_fall_too_slowly():
    problem = hc.Problem([0.0, 1.0, 10.0])
    with pytest.raises(AssertionError, match=r"vertex 0 weighs 2, .* parent 3 only 6: less than tau = 5 times"):
        hc.testing.check_tree(hc.Tree([3, 3, 4, 4, -1], [2.0, 2.0, 6.0, 6.0, 0.0]), problem)


def test_check_tree_catches_another_problem():
    with pytest.raises(AssertionError, match="the tree has 2 leaves, the problem 3 actions"):
        hc.testing.check_tree(hc.frt_tree(hc.Problem([0.0, 1.0])), hc.Problem([0.0, 1.0, 2.0]))
