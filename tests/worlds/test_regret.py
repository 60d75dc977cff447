from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles.paths import exhaustive_total

from holdcourse.deciding import policy as policies
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.rules import Choice, Greedy, Stay
from holdcourse.errors import InvalidInput
from holdcourse.learning.costs import KnownCosts, LowerBound
from holdcourse.learning.posteriors import posterior
from holdcourse.movement.problem import Problem
from holdcourse.worlds.regret import approximate_regret, ratio_to_optimum, theorem_quantities
from holdcourse.worlds.simulation import simulate
from holdcourse.worlds.synthetic import SyntheticWorld

LINE = Problem([0.0, 1.0, 3.0])


class TableWorld:
    def __init__(self, table):
        self.problem = LINE
        self.table = np.asarray(table, dtype=float)

    def costs(self, round, context):  # noqa: A002 - the word of the field
        return self.table[round]

    def measure(self, round, context, action, noise):  # noqa: A002
        return self.table[round, action]


def run_greedily(table, starts, episodes):
    return simulate(policies.minc_known(LINE), TableWorld(table), np.zeros(len(table)), starts, episodes=episodes)


def test_regret_of_each_episode_against_all_paths():
    table = np.random.default_rng(4).integers(0, 5, size=(8, 3)).astype(float)
    run = run_greedily(table, [2, 0], 2)
    costs = np.array([episode.total for episode in run.episodes])
    optima = np.array([exhaustive_total(table[:4], LINE.distances, 2), exhaustive_total(table[4:], LINE.distances, 0)])
    assert_allclose(approximate_regret(run), costs - optima)
    assert_allclose(approximate_regret(run, alpha=2.5, beta=0.5), costs - 2.5 * optima - 0.5)
    assert_allclose(ratio_to_optimum(run), costs.sum() / optima.sum())
    assert (approximate_regret(run) >= 0).all()


def test_regret_of_the_optimum_itself_is_zero():
    world = SyntheticWorld.sample(seed=2, grid=4, contexts=3)
    contexts = world.context_sequence("blocks", 40)
    best = simulate(policies.stationary(world.problem), world, contexts, start=5).optima[0]

    class Follow(Stay):
        def step(self, state, view):
            there = replace(state, action=int(best.actions[state.round]), round=state.round + 1)
            return Choice(there, np.ones(world.problem.n) / world.problem.n)

    model = KnownCosts(world.problem)
    run = simulate(Policy("D*", Follow(world.problem), model, world.problem), world, contexts, start=5)
    assert_allclose(approximate_regret(run), 0.0, atol=1e-12)
    assert_allclose(ratio_to_optimum(run), 1.0)


def test_ratio_where_the_optimum_is_free():
    free, contexts = TableWorld(np.zeros((3, 3))), np.zeros(3)
    assert ratio_to_optimum(simulate(policies.stationary(LINE), free, contexts)) == 1.0
    moves_for_nothing = Policy("away", Stay(LINE, 2), KnownCosts(LINE), LINE)
    assert ratio_to_optimum(simulate(moves_for_nothing, free, contexts)) == math.inf


def test_theorem_quantities_follow_their_formulas():
    world = SyntheticWorld.sample(seed=5, grid=4, contexts=3)
    known = {"kernel": world.kernel, "noise_std": world.noise_std, "prior_mean": world.prior_mean}
    policy = policies.gp_md(world.problem, every="episode", contexts=world.contexts, **known)
    run = simulate(policy, world, world.context_sequence("iid", 30), start=0, seed=1, episodes=6)
    report = theorem_quantities(run, norm_bound=3.0, delta=0.1)
    among = world.kernel.covariance(world.problem, run.actions, run.contexts)
    gain = 0.5 * np.linalg.slogdet(np.eye(30) + among / world.noise_std**2)[1]
    width = math.sqrt(2 * math.log(10) + 2 * gain) + 3.0
    assert (report.actions, report.rounds, report.episodes) == (16, 5, 6)
    assert (report.delta, report.norm_bound, report.beta_order) == (0.1, 3.0, 1.0)
    assert_allclose(report.diameter, math.sqrt(2))
    assert_allclose(report.alpha_order, math.log(16) ** 2)
    assert_allclose(report.information_gain, gain, rtol=1e-6)
    assert_allclose(report.width, width, rtol=1e-6)
    assert_allclose(report.learning_error, width * math.sqrt(6 * 25 * gain + 5 * math.log(50)), rtol=1e-6)


def test_lambda_of_its_own_enters_the_width():
    world = SyntheticWorld.sample(seed=5, grid=3, contexts=2)
    prior = posterior(world.problem, world.kernel, world.noise_std, contexts=world.contexts, regularisation=20.0)
    policy = Policy("x", Greedy(world.problem), LowerBound(prior), world.problem)
    run = simulate(policy, world, world.context_sequence("iid", 20))
    report = theorem_quantities(run, norm_bound=1.0, delta=0.05)
    spread = math.sqrt(2 * math.log(20) + 2 * report.information_gain)
    assert_allclose(report.width, world.noise_std / math.sqrt(20.0) * spread + 1.0)


def test_what_is_not_known_is_none():
    world = SyntheticWorld.sample(seed=5, grid=3, contexts=2)
    contexts = world.context_sequence("iid", 6)
    shown = theorem_quantities(simulate(policies.md_known(world.problem), world, contexts), norm_bound=1.0)
    assert (shown.information_gain, shown.width, shown.learning_error) == (None, None, None)
    learner = policies.cgp_lcb(world.problem, kernel=world.kernel, contexts=world.contexts)
    unbounded = theorem_quantities(simulate(learner, world, contexts))
    assert unbounded.information_gain > 0
    assert (unbounded.norm_bound, unbounded.width, unbounded.learning_error) == (None, None, None)


def test_bad_arguments_are_named():
    run = run_greedily(np.zeros((2, 3)), 0, 1)
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(InvalidInput, match="delta must lie"):
            theorem_quantities(run, delta=delta)
    with pytest.raises(InvalidInput, match="norm_bound must be positive"):
        theorem_quantities(run, norm_bound=-1.0)
    with pytest.raises(InvalidInput, match="alpha and beta must be finite"):
        approximate_regret(run, alpha=math.inf)
