"""A policy as JSON and back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.deciding import recipe
from holdcourse.deciding.rules import Greedy
from holdcourse.errors import InvalidInput
from holdcourse.learning.costs import KnownCosts

LINE = hc.Problem([0.0, 1.0, 3.0], scale=2.0, fixed_cost=0.5, labels=["a", "b", "c"])
GRID = hc.Problem(hc.grid(workers=[1, 2], cache=[64, 256]), metric="cityblock")
MATRIX = hc.Problem(metric=[[0, 2, 3], [1, 0, 1], [2, 1, 0]], directed=True, fixed_cost=1.0)
LEARNING = {"kernel": hc.Kernel(RBF(0.3), RBF(0.5)) + hc.Kernel(RBF(2.0)), "noise_std": 0.2}

POLICIES = [
    hc.gp_md(LINE, **LEARNING, width=hc.TheoryWidth(2.0, 0.1), guard=hc.OutlierGuard(4.0), tree_seed=3),
    hc.gp_md(GRID, tree=hc.frt_tree(GRID, seed=2), prior_mean=[1.0, 2.0, 3.0, 4.0], context_bounds=(0, 1), **LEARNING),
    hc.gp_md(LINE),
    hc.cgp_lcb(MATRIX, **LEARNING, contexts=np.arange(3.0), maximise=True),
    hc.proximal_lcb(LINE, weight=0.3, **LEARNING, every="episode"),
    hc.planner(LINE, **LEARNING, period=[24.0, None], capacity=32),
    hc.planner_known(GRID, max_step=300.0),
    hc.md_known(LINE, kappa=2.0),
    hc.minc_known(MATRIX),
    hc.stationary(GRID),
    hc.fixed(LINE, hc.History([0, 1], [0.0, 0.0], [2.0, 1.0])),
    hc.hedged([hc.planner(LINE, **LEARNING), hc.gp_md(LINE, **LEARNING, width=1.0), hc.stationary(LINE)], patience=3.0),
    hc.recommended(LINE, **LEARNING),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_round_trip_gives_an_equal_policy(policy):
    again = recipe.make(json.loads(json.dumps(recipe.describe(policy))))
    assert again.fingerprint == policy.fingerprint
    assert again.name == policy.name
    assert [again.problem.value(x) for x in range(again.problem.n)] == [
        policy.problem.value(x) for x in range(policy.problem.n)
    ]
    np.testing.assert_array_equal(again.problem.distances, policy.problem.distances)


def test_history_is_left_out():
    past = hc.History([0, 1], [0.0, 0.0], [2.0, 1.0])
    assert "history" not in recipe.describe(hc.gp_md(LINE, **LEARNING, history=past))["options"]


def test_what_only_python_knows():
    with pytest.raises(InvalidInput, match="prior_mean is a function"):
        recipe.describe(hc.gp_md(LINE, **LEARNING, prior_mean=lambda actions, context: 0.0))
    with pytest.raises(InvalidInput, match="not known what made mine"):
        recipe.describe(hc.Policy("mine", Greedy(LINE), KnownCosts(LINE), LINE))
    with pytest.raises(InvalidInput, match="prior_mean is a function"):
        recipe.describe(hc.hedged([hc.gp_md(LINE, **LEARNING, prior_mean=lambda actions, context: 0.0)]))
    with pytest.raises(InvalidInput, match="policy 'magic' is not known"):
        recipe.make({"policy": "magic", "problem": LINE.describe(), "options": {}})


def test_numbers_of_numpy_are_numbers():
    for policy in (
        hc.gp_md(LINE, **LEARNING, tree_seed=np.int64(2**60 + 1), tau=np.float32(5.0)),
        hc.planner(LINE, **LEARNING, capacity=np.int64(32)),
        hc.minc_known(LINE, maximise=np.bool_(True)),
    ):
        again = recipe.make(json.loads(json.dumps(recipe.describe(policy))))
        assert again.fingerprint == policy.fingerprint
