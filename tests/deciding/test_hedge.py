"""Experts under one roof: charges, probabilities, and what the module promises."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.deciding.hedge import Panel, hedged
from holdcourse.deciding.pilot import Pilot
from holdcourse.deciding.planning.plan import planner, planner_known
from holdcourse.deciding.rules import Choice, RuleState
from holdcourse.errors import InvalidInput
from holdcourse.learning.costs import ExpertCosts, KnownCosts

LINE = hc.Problem(np.linspace(0.0, 1.0, 9))
LEARNING = {"kernel": hc.Kernel(RBF(0.3), RBF(0.5)), "noise_std": 0.1, "prior_mean": 0.5}


def learned_pair():
    return [planner(LINE, **LEARNING), hc.gp_md(LINE, **LEARNING, width=1.0)]


POLICIES = {
    "planner and gp_md": lambda: hedged(learned_pair()),
    "known": lambda: hedged([planner_known(LINE), hc.md_known(LINE), hc.stationary(LINE)]),
    "a learner and one that is shown costs": lambda: hedged([planner(LINE, **LEARNING), hc.md_known(LINE)]),
    "alone": lambda: hedged([planner(LINE, **LEARNING)]),
    "hedge of hedges": lambda: hedged([hedged([planner_known(LINE)]), hc.md_known(LINE)]),
}


@pytest.mark.parametrize("name", POLICIES)
def test_hedges_pass_the_conformance_check(name):
    hc.testing.check_policy(POLICIES[name], np.linspace(0.0, 2.0, 30), start=4, seed=3)


@dataclass(frozen=True, eq=False)
class Hold:
    """Goes to one action and stays."""

    problem: hc.Problem
    home: int

    def begin(self, action, seed, round=0):  # noqa: A002
        return RuleState(int(action), round, seed, {})

    def step(self, state, view):
        p = np.zeros(self.problem.n)
        p[self.home] = 1.0
        return Choice(RuleState(self.home, state.round + 1, state.seed, {}), p)

    def describe(self):
        return {"rule": "Hold", "home": self.home}


def holders(problem, *homes):
    return [hc.Policy(f"hold {home}", Hold(problem, home), KnownCosts(problem), problem) for home in homes]


def bill(policy, costs, start, seed):
    """Expected charges of the experts followed, who stand still after their first move; and what was really paid."""
    pilot = Pilot(policy, start, seed)
    expected = paid = 0.0
    here = start
    for row in costs:
        _, view = pilot.look(None, shown=row)
        choice = pilot.decide(view)
        pilot.accept(choice)
        first_move = policy.problem.distances[start] if pilot.state.round == 1 else 0.0
        expected += float(choice.probabilities @ (row + first_move))
        paid += float(row[choice.action]) + policy.problem.distance(here, choice.action)
        here = choice.action
    return expected, paid


@pytest.mark.parametrize("kind", ["random", "switching", "one is bad", "alternating"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_charges_are_at_most_the_best_schedule_of_experts(kind, seed):
    """The module's promise, on experts that stand still: charges are then the costs of their places."""
    problem, rounds = hc.Problem([0.0, 1.0, 3.0]), 120
    rng = np.random.default_rng(seed)
    costs = {
        "random": rng.random((rounds, 3)),
        "switching": np.eye(3)[(np.arange(rounds) // 30 + seed) % 3] * 2.0,
        "one is bad": np.tile([1.0, 0.2, 0.9], (rounds, 1)),
        "alternating": np.eye(3)[np.arange(rounds) % 3],
    }[kind]
    policy = hedged(holders(problem, 0, 1, 2))
    expected, _ = bill(policy, costs, 0, seed)
    star = policy.rule_for(seed).star
    among_experts = hc.Problem(metric=star.distances())
    charges = costs.copy()
    charges[0] += problem.distances[0]  # each expert's way to its place
    schedule = hc.optimal_path(charges, among_experts, start=0)
    assert expected <= schedule.total + 1e-9
    best = (costs.sum(axis=0) + problem.distances[0]).min()
    assert schedule.total <= best + 2 * star.weight[0] + 1e-9


def test_leaves_an_expert_that_fails():
    problem = hc.Problem([0.0, 1.0])
    policy = hedged(holders(problem, 0, 1))
    costs = np.tile([1.0, 0.0], (100, 1))
    totals = [bill(policy, costs, 0, seed)[1] for seed in range(30)]
    assert np.mean(totals) < 15  # the failing expert alone would pay 100
    assert bill(policy, 1.0 - costs, 0, 0)[1] == 0.0  # nothing to leave: no movement, no doubt


def test_forecasts_reach_the_experts_that_take_them():
    """A plan over time asks its model with an outlook, here a model that believes the forecast."""

    class Believing(KnownCosts):
        def costs_at_outlook(self, contexts, outlook):
            return np.where(np.isfinite(outlook.values), outlook.values, self.costs_at(contexts))

    problem = hc.Problem([0.0, 1.0])
    rule = hc.Lookahead(problem, horizon=3, takes_forecasts=True)
    plan = hc.Policy("plan", rule, Believing(problem, lambda time: [1.1, 1.0]), problem)
    dear_where_we_are = [[9.0, 0.0], [9.0, 0.0]]
    for policy in (plan, hedged([plan, hc.stationary(problem)])):
        assert hc.Controller(policy, start_index=0).ask(0.0, forecast=dear_where_we_are).action == 1
        assert hc.Controller(policy, start_index=0).ask(0.0).action == 0


def test_the_machine_stands_where_the_followed_expert_stands():
    world = hc.SyntheticWorld.sample(seed=3, grid=5, contexts=6)
    learning = {"kernel": world.kernel, "noise_std": world.noise_std, "prior_mean": world.prior_mean}
    policy = hedged([planner(world.problem, **learning), hc.gp_md(world.problem, **learning)])
    pilot = Pilot(policy, 3, 1)
    for t, context in enumerate(world.context_sequence("iid", 60, seed=0)):
        _, view = pilot.look(context)
        choice = pilot.decide(view)
        arrays = choice.state.arrays
        assert choice.action == int(arrays["positions"][int(arrays["followed"][0])])
        assert choice.probabilities[choice.action] > 0
        pilot.accept(choice)
        pilot.learn(choice.action, context, world.measure(t, context, choice.action, 0.0))


def test_alone_an_expert_decides_as_without_the_roof():
    world = hc.SyntheticWorld.sample(seed=4, grid=5, contexts=6)
    learning = {"kernel": world.kernel, "noise_std": world.noise_std, "prior_mean": world.prior_mean}
    contexts = world.context_sequence("walk", 50, seed=0)
    alone = hc.simulate(planner(world.problem, **learning), world, contexts, start=2)
    roofed = hc.simulate(hedged([planner(world.problem, **learning)]), world, contexts, start=2)
    np.testing.assert_array_equal(alone.actions, roofed.actions)


def test_experts_draw_their_own_random_numbers():
    tree = hc.frt_tree(LINE, seed=1)
    policy = hedged([hc.md_known(LINE, tree=tree), hc.md_known(LINE, tree=tree)])
    pilot, rng, apart = Pilot(policy, 4, 0), np.random.default_rng(0), 0
    for _ in range(80):
        _, view = pilot.look(None, shown=2 * rng.random(9))
        pilot.accept(pilot.decide(view))
        positions = pilot.state.arrays["positions"]
        apart += positions[0] != positions[1]
    assert apart > 10


def test_resuming_moves_all_experts():
    rule = hedged([planner_known(LINE), hc.md_known(LINE)]).rule_for(0)
    state = rule.begin(4, 0)
    assert state.arrays["followed"][0] == 0
    moved = rule.resume(state, 7)
    assert moved.action == 7
    np.testing.assert_array_equal(moved.arrays["positions"], [7, 7])


def test_the_panel_is_a_cost_model():
    hc.testing.check_cost_model(
        lambda: Panel([policy.costs.copy() for policy in learned_pair()]), LINE, np.linspace(0.0, 2.0, 12)
    )


def test_wrong_experts():
    with pytest.raises(InvalidInput, match="at least one policy"):
        hedged([])
    with pytest.raises(InvalidInput, match=r"MD-Known and MinC-Known were made for different problems .*make both"):
        hedged([hc.minc_known(LINE), hc.md_known(hc.Problem([0.0, 1.0]))])
    for gains, costs in ((0, 1), (1, 0)):
        pair = [hc.cgp_lcb(LINE, maximise=gains == 0), hc.gp_md(LINE, maximise=gains == 1)]
        said = f"{pair[gains].name} maximises gains and {pair[costs].name} minimises costs, .*give maximise=True to all"
        with pytest.raises(InvalidInput, match=said):
            hedged(pair)
    assert hedged([hc.cgp_lcb(LINE, maximise=True), hc.stationary(LINE, maximise=True)]).costs.maximise is True
    with pytest.raises(InvalidInput, match="patience must be at least 1/2"):
        hedged([hc.md_known(LINE)], patience=0.1)


@pytest.mark.parametrize(("excess", "rounds"), [(0.1, 70), (1.0, 7)])
def test_an_expert_that_is_behind_by_about_the_patience_is_left(excess, rounds):
    """What docs/beyond.md says of patience 8, in units of the largest movement cost."""
    problem = hc.Problem([0.0, 1.0])
    pilot = Pilot(hedged(holders(problem, 0, 1), patience=8.0), 0, 0)
    followed = 0
    while followed < 2 * rounds:
        choice = pilot.decide(pilot.look(None, shown=[excess, 0.0])[1])
        pilot.accept(choice)
        followed += 1
        if choice.probabilities[1] > 0.5:
            break
    # The second expert is charged its first move too, one unit.
    assert rounds <= followed <= 1.3 * rounds + 1 / excess


def test_experts_may_share_a_model():
    policies = [planner(LINE, **LEARNING), hc.gp_md(LINE, **LEARNING, width=1.0, tree_seed=1)]
    apart = hedged(policies)
    shared = replace(apart, costs=Panel([policies[0].costs], [(0, 1.0), (0, 1.0 / policies[0].costs.width)]))
    assert shared.fingerprint != apart.fingerprint
    one, other = Pilot(apart, 4, 3), Pilot(shared, 4, 3)
    for context in np.random.default_rng(0).random(40):
        choices = [pilot.decide(pilot.look(context)[1]) for pilot in (one, other)]
        assert choices[0].action == choices[1].action
        for pilot, choice in zip((one, other), choices, strict=True):
            pilot.accept(choice)
            pilot.learn(choice.action, context, float(abs(choice.action / 8 - context)))
    assert len(other.model.state()) < len(one.model.state())


def test_a_choice_says_whom_it_follows():
    pilot = Pilot(hedged(holders(hc.Problem([0.0, 1.0]), 0, 1)), 0, 0)
    assert (
        pilot.decide(pilot.look(None, shown=[0.0, 5.0])[1]).words
        == "It follows hold 0 (weights: hold 0 100 %, hold 1 0 %)."
    )
    alone = Pilot(hedged(holders(hc.Problem([0.0, 1.0]), 0)), 0, 0)
    assert alone.decide(alone.look(None, shown=[0.0, 5.0])[1]).words == ""


def test_experts_that_know_gains_are_shown_gains():
    world = hc.SyntheticWorld.sample(seed=3, grid=4, contexts=6)
    contexts = world.context_sequence("walk", rounds=30, seed=1)
    costs, gains = (
        hc.simulate(hedged([hc.minc_known(world.problem, maximise=maximise)]), world, contexts)
        for maximise in (False, True)
    )
    np.testing.assert_array_equal(gains.actions, costs.actions)
    assert gains.total == costs.total


def test_experts_of_a_hedge_within_a_hedge_have_their_own_models():
    """A hedge alone and the same one as the only expert of another decide alike."""
    alone = hedged(learned_pair())
    within = hedged([hedged(learned_pair())])
    for policy in (alone, within):
        assert isinstance(policy.costs, ExpertCosts)
    one, other = Pilot(alone, 3, 0), Pilot(within, 3, 0)
    for context in np.linspace(0.0, 2.0, 9):
        first, second = one.look(context)[1], other.look(context)[1]
        assert isinstance(second.model.of_expert(0), Panel)
        np.testing.assert_array_equal(
            second.model.of_expert(0).of_expert(1).costs_at([context]), first.model.of_expert(1).costs_at([context])
        )
        for pilot, view in ((one, first), (other, second)):
            pilot.accept(pilot.decide(view))
            pilot.learn(2, context, 1.0)


def test_a_rule_says_what_it_needs_of_a_model():
    model = hc.costs.KnownCosts(LINE, lambda context: np.zeros(LINE.n))
    with pytest.raises(InvalidInput, match=r"rule of mine needs a cost model with ExpertCosts, which KnownCosts"):
        hc.Policy("mine", hedged(learned_pair()).rule, model, LINE)
    with pytest.raises(InvalidInput, match="needs a cost model with OptimisticCosts"):
        hc.Policy("mine", hc.Lookahead(LINE, optimism=0.5), model, LINE)
    with pytest.raises(InvalidInput, match="needs a cost model with ForecastCosts"):
        hc.Policy("mine", hc.Lookahead(LINE, takes_forecasts=True), model, LINE)
    with pytest.raises(InvalidInput, match=r"KnownCosts has no costs_at_optimism, so an expert cannot share only 0.5"):
        Panel([model], [(0, 0.5)])
    with pytest.raises(InvalidInput, match="cannot be used together"):
        hc.Lookahead(LINE, optimism=0.5, takes_forecasts=True)
