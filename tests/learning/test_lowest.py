"""The lowest bound found in boxes of actions: that of a pass over all, of fewer actions looked at."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.lowest import lowest
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.deciding.pilot import Pilot
from holdcourse.errors import NoActionLeft
from holdcourse.learning import costs as cost_models
from holdcourse.learning.posteriors import lowest as search

AXIS = np.linspace(0.0, 1.0, 24)
GRID = hc.Problem(hc.grid(x=AXIS, y=AXIS), "euclidean")
FINE = hc.Problem(hc.grid(x=np.linspace(0.0, 1.0, 200), y=np.linspace(0.0, 1.0, 200)), "euclidean")
SCATTERED = hc.Problem(np.random.default_rng(0).random((300, 2)), "chebyshev")
KERNEL = hc.Kernel(RBF(0.4), RBF(0.3))
TIE = 1e-9


@cache
def unlearned(problem):
    return hc.posterior(problem, KERNEL, noise_std=0.1, prior_mean=0.5, context_bounds=(0.0, 1.0))


def learned(problem, seed, count):
    rng = np.random.default_rng(seed)
    belief = unlearned(problem).copy()
    for _ in range(count):
        action, context = int(rng.integers(problem.n)), rng.random()
        smooth = float(np.sin(5.0 * problem.actions[action] + context).sum())
        belief.condition(action, context, smooth + 0.1 * float(rng.normal()))
    return belief, rng


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([GRID, SCATTERED]),
    st.integers(0, 40),
    st.sampled_from([0.0, 0.5, 2.0]),
    st.sampled_from([1.0, -1.0]),
    st.booleans(),
)
@settings(max_examples=25)
def test_it_finds_what_a_pass_over_all_finds(seed, problem, count, width, sign, masked):
    belief, rng = learned(problem, seed, count)
    allowed = rng.random(problem.n) < 0.3 if masked else None
    context = rng.random()
    costs, action = lowest(belief, context, width, sign, allowed)
    with pytest.MonkeyPatch.context() as to_the_end:  # however many must be looked at
        to_the_end.setattr(search, "MOST", 9.0)
        found = belief.lowest(context, width, sign, allowed)
    assert found.cost == pytest.approx(costs[action], abs=TIE)
    assert costs[found.action] <= costs[action] + TIE
    if np.sort(costs)[1] > costs[action] + TIE:
        assert found.action == action
    assert found.evaluated > 0


def test_few_are_looked_at_where_much_was_learned_and_none_is_left_out_where_nothing_was():
    belief, _ = learned(FINE, 1, 0)
    assert belief.lowest(0.5, 2.0) is None  # all bounds are alike
    belief, _ = learned(FINE, 1, 60)
    assert belief.lowest(0.5, 1.0).evaluated < FINE.n / 8


def test_reaches_hold_for_every_action_of_a_box():
    belief, _ = learned(SCATTERED, 2, 1)
    boxes = search.FeatureBoxes.of(SCATTERED.points, belief._Phi)
    for level in boxes.levels:
        for first, last, middle, reach in zip(
            level.edges[:-1], level.edges[1:], level.middle, level.reach, strict=True
        ):
            apart = belief._Phi[boxes.order[first:last]] - belief._Phi[middle]
            assert np.linalg.norm(apart, axis=1).max() <= reach * (1 + 1e-12) + 1e-15


def test_where_the_prior_mean_differs_or_the_context_is_far_off_a_pass_is_made():
    belief = hc.posterior(GRID, KERNEL, prior_mean=GRID.actions[:, 0], context_bounds=(0.0, 1.0))
    assert belief.lowest(0.5, 2.0) is None
    belief, _ = learned(GRID, 3, 30)
    assert belief.lowest(7.0, 2.0) is None
    no_points = hc.Problem(metric=hc.Problem(np.arange(5.0)).distances)
    assert hc.posterior(no_points, hc.Kernel(np.eye(5)), method="flat").lowest((), 1.0) is None


@pytest.mark.parametrize("maximise", [False, True])
def test_a_model_gives_its_lowest_cost_by_either_way(maximise, monkeypatch):
    belief, rng = learned(FINE, 4, 50)
    model = hc.costs.LowerBound(belief, width=1.0, maximise=maximise)
    allowed = rng.random(FINE.n) < 0.5
    for context in (0.1, 0.6):
        costs = np.where(allowed, model.estimate(context).costs, np.inf)
        model._forget(-1)  # as in the next round
        by_pass = model.lowest(context, allowed)
        assert (by_pass.action, by_pass.evaluated) == (int(costs.argmin()), FINE.n)
        model._forget(-1)  # as in the round after it
        monkeypatch.setattr(cost_models, "SEARCHED", 100)
        searched = model.lowest(context, allowed)
        assert searched.action == by_pass.action
        assert searched.cost == pytest.approx(by_pass.cost, abs=TIE)
        assert searched.evaluated < FINE.n
        monkeypatch.undo()


def test_simulations_of_greedy_policies_search(monkeypatch):
    """The rows are those of a run that computes every bound."""
    world = hc.SyntheticWorld.sample(seed=3, grid=12, contexts=4)
    monkeypatch.setattr(search, "MOST", 9.0)  # of so few settings all must be looked at, and the boxes too
    policy = hc.cgp_lcb(
        world.problem, kernel=world.kernel, noise_std=world.noise_std, prior_mean=0.0, contexts=world.contexts
    )
    contexts = world.context_sequence("iid", rounds=40, seed=1)
    every = hc.simulate(policy, world, contexts).rows()
    monkeypatch.setattr(cost_models, "SEARCHED", 100)
    evaluated = []
    original = hc.costs.LowerBound.lowest

    def counted(self, *given):
        found = original(self, *given)
        evaluated.append(found.evaluated)
        return found

    monkeypatch.setattr(hc.costs.LowerBound, "lowest", counted)
    assert hc.simulate(policy, world, contexts).rows() == every
    assert set(evaluated) != {world.problem.n}
    with pytest.raises(NoActionLeft):
        Pilot(policy, 0, 0).choose(0.5, allowed=np.zeros(world.problem.n, dtype=bool))
