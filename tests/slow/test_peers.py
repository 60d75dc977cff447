"""The peers of the benchmark table: their model is ours, and their rules keep what they say."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.deciding.pilot import Pilot

if importlib.util.find_spec("botorch") is None:
    pytest.skip('BoTorch is missing: pip install "holdcourse[bench]"', allow_module_level=True)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # importing BoTorch warns of its own dependencies
    sys.path.insert(0, str(Path(__file__).parents[2]))  # the benchmarks are no package of ours to install
    from benchmarks import peers

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::Warning")]  # theirs, not ours

WORLD = hc.SyntheticWorld.sample(seed=3, grid=5, contexts=6)
KNOWN = {"kernel": WORLD.kernel, "noise_std": WORLD.noise_std, "prior_mean": WORLD.prior_mean}


def measured(policy, rounds=20):
    pilot = Pilot(policy, 12, 0)
    contexts = WORLD.context_sequence("iid", rounds, seed=2)
    for t, action in enumerate(np.random.default_rng(0).integers(25, size=rounds).tolist()):
        pilot.learn(action, contexts[t], WORLD.measure(t, contexts[t], action, hc.measurement_noise(0, t)))
    return pilot


@pytest.mark.parametrize("peer", peers.PEERS)
def test_they_pass_the_conformance_check_of_a_policy(peer):
    sequence = WORLD.context_sequence("iid", 14, seed=1)
    hc.testing.check_policy(lambda: peer(WORLD.problem, **KNOWN), sequence, start=4, seed=3)


def test_their_bound_is_our_bound():
    context = WORLD.contexts[2]
    theirs = measured(peers.botorch_ucb(WORLD.problem, **KNOWN)).model.estimate(context)
    ours = measured(hc.cgp_lcb(WORLD.problem, **KNOWN, method="exact")).model.estimate(context)
    np.testing.assert_allclose(theirs.costs, ours.costs, atol=1e-4)
    np.testing.assert_allclose(theirs.expected, ours.expected, atol=1e-4)


def test_the_travel_cap_is_kept():
    problem = hc.SyntheticWorld.sample(seed=3, grid=14).problem
    rule = peers.Nearby(problem, travel=0.1)
    costs = np.arange(problem.n, dtype=float)[::-1]
    state = rule.begin(0, 0)
    for _ in range(5):
        view = hc.rules.View(costs, None, np.ones(problem.n, dtype=bool))
        after = rule.step(state, view).state
        moved = np.abs(problem.actions[after.action] - problem.actions[state.action])
        assert 0 < moved.max() <= 0.1
        state = after


def test_improvement_per_cost_prefers_the_near_one_of_equals():
    problem = hc.Problem([0.0, 1.0, 2.0, 5.0])
    rule = peers.Nearby(problem)
    view = hc.rules.View(np.array([0.0, -1.0, -1.0, -1.5]), None, np.ones(4, dtype=bool))
    assert rule.step(rule.begin(0, 0), view).action == 1


def test_the_proximal_weight_falls_with_the_distance_to_the_last_measured_action():
    pilot = measured(peers.botorch_proximal(WORLD.problem, **KNOWN))
    plain = measured(peers.botorch_ucb(WORLD.problem, **KNOWN))
    last, context = pilot.model.measurements[-1][0], WORLD.contexts[0]
    value, inner = -pilot.model.estimate(context).costs, -plain.model.estimate(context).costs
    apart = WORLD.problem.distances[last]
    expected = np.log1p(np.exp(inner)) * np.exp(-0.5 * (apart / peers.CLOSENESS) ** 2)
    np.testing.assert_allclose(value, expected, atol=1e-4)
