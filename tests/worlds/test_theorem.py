"""The core of the theory: mirror descent's service cost never exceeds the optimum on the tree.

The paper's Theorem 1 rests on it (Coester and Lee: 1-competitive for service, O(log n) for movement on the tree).
"""

from __future__ import annotations

import numpy as np
import pytest

import holdcourse as hc

SPACES = {
    "uniform": hc.Problem(metric=1.0 - np.eye(16)),
    "line": hc.Problem(np.arange(16.0)),
    "grid": hc.Problem(hc.grid(a=range(4), b=range(4)), metric="cityblock"),
}
SEQUENCES = ("random", "sparse", "adversarial", "alternating")


@pytest.mark.parametrize(("cost", "rounds", "bounded"), [(1.0, 1000, False), (0.1, 1000, True), (0.1, 3000, True)])
def test_movement_is_bounded_only_if_costs_are_small_compared_with_edges(cost, rounds, bounded):
    tree = hc.frt_tree(hc.Problem([0.0, 1.0, 20.0]), seed=0)
    q, shown, service, movement = hc.mirror.start(tree, 0), [], 0.0, 0.0
    for _ in range(rounds):
        p = hc.mirror.leaf_probabilities(tree, q)
        costs = np.zeros(3)
        costs[np.argmax(p[:2])] = cost  # hit where the machine is, among two neighbours
        q = hc.mirror.descend(tree, q, costs)
        p_next = hc.mirror.leaf_probabilities(tree, q)
        service += float(costs @ p_next)
        movement += hc.coupling.expected_movement(tree, p, p_next)
        shown.append(costs)
    optimum = hc.optimal_path(np.array(shown), hc.Problem(metric=tree.distances()), start=0).total
    assert service <= optimum == 20.5
    assert (movement < 50) == bounded
    assert bounded or movement > 0.99 * rounds


def mirror_bill(tree, sequence, kind, random):
    """Run mirror descent for 60 rounds; returns costs shown, expected service and expected movement on the tree."""
    q = hc.mirror.start(tree, 0)
    p = hc.mirror.leaf_probabilities(tree, q)
    shown, service, movement = [], 0.0, 0.0
    scale = 10.0 ** random.uniform(-1, 1)
    for t in range(60):
        if sequence == "random":
            costs = random.exponential(scale, tree.n)
        elif sequence == "sparse":
            costs = scale * (random.random(tree.n) < 0.2)
        elif sequence == "adversarial":  # hit where the probability is
            costs = scale * (p >= np.sort(p)[-3])
        else:
            costs = scale * ((np.arange(tree.n) % 2) == (t // 3) % 2)
        q = hc.mirror.descend(tree, q, costs)
        p_next = hc.mirror.leaf_probabilities(tree, q)
        service += float(costs @ p_next)
        movement += hc.coupling.expected_movement(tree, p, p_next)
        shown.append(costs)
        p = p_next
    return np.array(shown), service, movement


@pytest.mark.parametrize("space", SPACES)
def test_service_cost_is_at_most_the_optimum_on_the_tree(space, record_property):
    problem, ratios, margins = SPACES[space], [], []
    for k in range(68):  # 3 spaces x 68 = 204 sequences
        random = np.random.default_rng([k, len(space)])
        tree = hc.frt_tree(problem, seed=k)
        shown, service, movement = mirror_bill(tree, SEQUENCES[k % 4], space, random)
        optimum = hc.optimal_path(shown, hc.Problem(metric=tree.distances()), start=0).total
        assert service <= optimum * (1 + 1e-12)
        margins.append(service / optimum)
        ratios.append(movement / optimum)
    bound = np.log(problem.n) ** 2
    record_property(f"service / tree optimum, {space}", f"mean {np.mean(margins):.2f}, largest {np.max(margins):.2f}")
    record_property(f"movement / tree optimum, {space}", f"largest {np.max(ratios):.2f} (log(n)^2 = {bound:.1f})")
