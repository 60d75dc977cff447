"""Policies by name: what they are made of, their fingerprints, and the steps of a pilot."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.driving import HISTORY, KERNEL, LINE, POLICIES
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.deciding.pilot import Pilot
from holdcourse.deciding.rules import Greedy, MirrorDescent, Proximal, Stay
from holdcourse.errors import InvalidInput, NoActionLeft
from holdcourse.learning.costs import KnownCosts, LowerBound

LEARNING = {"kernel": KERNEL, "noise_std": 0.2, "context_bounds": (0, 1)}


def decisions(policy, rounds=25, sign=1.0, seed=5, shown=False):
    """Actions and probabilities of a pilot that measures the same thing whatever the policy is."""
    random = np.random.default_rng(0)
    pilot = Pilot(policy, start=2, seed=seed)
    taken = []
    for t in range(rounds):
        context, costs = float(random.random()), sign * random.normal(size=LINE.n)
        _, view = pilot.look(context, shown=costs if shown else None)
        choice = pilot.decide(view)
        pilot.accept(choice)
        pilot.learn(choice.action, context, sign * float(np.sin(4 * choice.action + t)))
        taken.append((choice.action, choice.probabilities.tobytes()))
    return taken


@pytest.mark.parametrize(
    ("policy", "name", "rule", "model"),
    [
        (hc.gp_md(LINE, **LEARNING), "GP-MD", MirrorDescent, LowerBound),
        (hc.cgp_lcb(LINE, **LEARNING), "CGP-LCB", Greedy, LowerBound),
        (hc.proximal_lcb(LINE, **LEARNING), "Proximal-LCB", Proximal, LowerBound),
        (hc.md_known(LINE), "MD-Known", MirrorDescent, KnownCosts),
        (hc.minc_known(LINE), "MinC-Known", Greedy, KnownCosts),
        (hc.stationary(LINE), "Stationary", Stay, KnownCosts),
        (hc.fixed(LINE, HISTORY), "fixed at 0.4", Stay, KnownCosts),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_names_and_parts(policy, name, rule, model):
    assert policy.name == name
    assert isinstance(policy.rule_for(0), rule)
    assert isinstance(policy.costs, model)
    assert policy.rule_for(0).problem is policy.problem is LINE
    assert name in repr(policy)


def test_defaults_are_the_papers():
    policy = hc.gp_md(LINE, kernel=KERNEL)
    assert policy.costs.width == 2.0
    assert policy.costs.every == "round"
    assert policy.costs.maximise is False
    assert policy.costs.guard is None
    rule = policy.rule_for(0)
    assert (rule.kappa, rule.tree.tau) == (1.0, 5.0)
    assert hc.proximal_lcb(LINE, kernel=KERNEL).rule.weight == 1.0


@pytest.mark.parametrize("name", list(POLICIES))
def test_equal_policies_have_equal_fingerprints(name):
    assert POLICIES[name]().fingerprint == POLICIES[name]().fingerprint


def test_fingerprints_of_different_policies_differ():
    other_line = hc.Problem(np.linspace(0.0, 1.1, 6))
    tree, other_tree = (hc.frt_tree(LINE, seed=seed) for seed in (1, 2))
    policies = [
        hc.gp_md(LINE, **LEARNING),
        hc.gp_md(other_line, **LEARNING),
        hc.gp_md(LINE, tau=6.0, **LEARNING),
        hc.gp_md(LINE, kappa=2.0, **LEARNING),
        hc.gp_md(LINE, tree=tree, **LEARNING),
        hc.gp_md(LINE, tree=other_tree, **LEARNING),
        hc.gp_md(LINE, tree_seed=1, **LEARNING),
        hc.gp_md(LINE, tree_seed=2, **LEARNING),
        hc.gp_md(LINE, width=1.0, **LEARNING),
        hc.gp_md(LINE, width=hc.TheoryWidth(1.0), **LEARNING),
        hc.gp_md(LINE, every="episode", **LEARNING),
        hc.gp_md(LINE, maximise=True, **LEARNING),
        hc.gp_md(LINE, guard=hc.OutlierGuard(), **LEARNING),
        hc.gp_md(LINE, **{**LEARNING, "kernel": hc.Kernel(RBF(0.2), RBF(0.4))}),
        hc.gp_md(LINE, **{**LEARNING, "noise_std": 0.3}),
        hc.gp_md(LINE, prior_mean=1.0, **LEARNING),
        hc.gp_md(LINE, method="exact", **LEARNING),
        hc.gp_md(LINE, forgetting=0.9, **LEARNING),
        hc.cgp_lcb(LINE, **LEARNING),
        hc.proximal_lcb(LINE, **LEARNING),
        hc.proximal_lcb(LINE, weight=2.0, **LEARNING),
        hc.md_known(LINE),
        hc.md_known(LINE, maximise=True),
        hc.minc_known(LINE),
        hc.stationary(LINE),
        hc.fixed(LINE, HISTORY),
        hc.fixed_at(LINE, setting_index=3),
        hc.Policy("own", MirrorDescent(LINE, tree), KnownCosts(LINE), LINE),
        hc.Policy("own", MirrorDescent(LINE, other_tree), KnownCosts(LINE), LINE),
    ]
    assert len({policy.fingerprint for policy in policies}) == len(policies)


def test_how_a_number_is_written_makes_no_difference():
    one = hc.gp_md(LINE, kappa=1, tau=5, tree_seed=np.int64(3), width=2, **LEARNING)
    assert one.fingerprint == hc.gp_md(LINE, kappa=1.0, tau=5.0, tree_seed=3, width=2.0, **LEARNING).fingerprint
    assert hc.proximal_lcb(LINE, weight=1, **LEARNING).fingerprint == hc.proximal_lcb(LINE, **LEARNING).fingerprint
    assert hc.fixed_at(LINE, setting_index=np.int64(3)).fingerprint == hc.fixed_at(LINE, setting_index=3).fingerprint


def test_the_tree_comes_from_the_seed_of_the_run():
    policy = hc.md_known(LINE)
    assert policy.rule_for(7).tree.to_json() == hc.frt_tree(LINE, seed=7).to_json()
    assert policy.rule_for(7).tree.to_json() != policy.rule_for(8).tree.to_json()


def test_the_tree_comes_from_its_own_seed_if_one_is_given():
    policy = hc.gp_md(LINE, tree_seed=3, tau=6.0, **LEARNING)
    wanted = hc.frt_tree(LINE, tau=6.0, seed=3).to_json()
    assert policy.rule_for(7).tree.to_json() == policy.rule_for(8).tree.to_json() == wanted


def test_a_given_tree_is_used():
    tree = hc.frt_tree(LINE, seed=3)
    assert hc.md_known(LINE, tree=tree).rule_for(7).tree is tree
    with pytest.raises(InvalidInput, match="the tree has 6 actions, but the problem has 3"):
        hc.md_known(hc.Problem([0.0, 1.0, 2.0]), tree=tree)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kappa": 0.5}, "kappa must be at least 1, got 0.5"),
        ({"kappa": np.inf}, "kappa must be at least 1, got inf"),
        ({"tau": 4.0}, "tau must be above 4, got 4.0"),
        ({"tau": np.nan}, "tau must be above 4, got nan"),
        ({"tree_seed": -1}, "seed must be a whole number from 0"),
        ({"tree_seed": np.int64(-1)}, "got -1$"),
    ],
)
def test_wrong_options_of_the_tree_are_refused_at_once(options, message):
    with pytest.raises(InvalidInput, match=message):
        hc.md_known(LINE, **options)


@pytest.mark.parametrize("maker", [hc.gp_md, hc.cgp_lcb, hc.proximal_lcb])
def test_unknown_options_are_refused(maker):
    with pytest.raises(InvalidInput, match=r"option 'widht' is not known \(did you mean width\?\)"):
        maker(LINE, kernel=KERNEL, widht=2.0)


def test_a_misspelt_option_is_suggested():
    with pytest.raises(
        InvalidInput, match=r"option 'kernal' is not known \(did you mean kernel\?\); in addition to its"
    ):
        hc.gp_md(LINE, kernal="auto")


def test_what_is_not_a_problem_is_named():
    with pytest.raises(
        InvalidInput, match=r"problem must be a Problem, such as hc.Problem\(\[0, 1, 2\]\), got \[0, 1\]"
    ):
        hc.gp_md([0, 1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": -1.0}, "width must be 0 or more"),
        ({"every": "day"}, "every must be 'round' or 'episode'"),
        ({"method": "magic"}, "method 'magic' is not known"),
        ({"noise_std": -0.1}, "noise_std must be 0 or more"),
    ],
)
def test_wrong_learning_options_are_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        hc.gp_md(LINE, **{"kernel": KERNEL, **options})


def test_fixed_takes_the_least_mean_cost_of_what_was_measured():
    assert hc.fixed(LINE, HISTORY).rule.home == 2  # mean -0.25; action 1, never measured, would sum to 0
    assert hc.fixed(LINE, HISTORY, maximise=True).rule.home == 0
    assert hc.fixed(LINE, [(3, 0.0, 5.0), (1, 0.0, 5.0)]).rule.home == 1  # the first of equals
    assert hc.fixed(LINE, hc.History([4], [0.0], [1.0])).rule.home == 4
    pilot = Pilot(hc.fixed(LINE, HISTORY), start=5, seed=0)
    _, view = pilot.look(0.3)
    assert pilot.decide(view).action == 2


def test_fixed_needs_a_history_of_this_problem():
    with pytest.raises(InvalidInput, match="the history is empty"):
        hc.fixed(LINE, [])
    with pytest.raises(InvalidInput, match="belongs to action 6"):
        hc.fixed(LINE, [(6, 0.0, 1.0)])
    with pytest.raises(InvalidInput, match="setting_index=6 is not an index"):
        hc.fixed_at(LINE, setting_index=6)


@pytest.mark.parametrize("maker", [hc.gp_md, hc.cgp_lcb, hc.proximal_lcb])
def test_maximising_is_minimising_the_negative(maker):
    for every in ("round", "episode"):
        options = {**LEARNING, "method": "exact", "every": every}
        assert decisions(maker(LINE, maximise=True, **options), sign=-1.0) == decisions(maker(LINE, **options))


@pytest.mark.parametrize("maker", [hc.md_known, hc.minc_known])
def test_maximising_known_gains_is_minimising_their_negative(maker):
    gains = decisions(maker(LINE, maximise=True), sign=-1.0, shown=True)
    assert gains == decisions(maker(LINE), shown=True)


def test_history_is_where_learning_begins():
    begun = Pilot(hc.gp_md(LINE, history=HISTORY, **LEARNING), 0, 0)
    told = Pilot(hc.gp_md(LINE, **LEARNING), 0, 0)
    before = told.look(0.3)[0].mean
    for record in HISTORY:
        told.learn(*record)
    after = told.look(0.3)[0].mean
    np.testing.assert_allclose(begun.look(0.3)[0].mean, after, atol=1e-9)
    assert np.abs(after - before).max() > 0.1


# -- the pilot ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(POLICIES))
def test_looking_and_deciding_change_nothing(name):
    """Also not a bit of what is learned later: one pilot is asked twice as often as the other."""
    random = np.random.default_rng(1)
    quiet, asked = (Pilot(POLICIES[name](), 2, 5) for _ in range(2))
    for t in range(30):
        context, costs = float(t) if "temporal" in name else float(random.random()), random.normal(size=LINE.n)
        for pilot in (quiet, asked):
            _, view = pilot.look(context, shown=costs)
            pilot.accept(pilot.decide(view))
        for action in random.integers(LINE.n, size=3):  # several measurements with no question between them
            y = float(random.normal())
            quiet.learn(int(action), context, y)
            asked.learn(int(action), context, y)
            _, view = asked.look(context + 1.0 if "temporal" in name else float(random.random()), shown=costs)
            asked.decide(view)
        if t % 10 == 9:
            quiet.new_episode(1)
            asked.new_episode(1)
        assert_same_arrays(quiet.arrays(), asked.arrays())


def assert_same_arrays(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.tobytes() == other[name].tobytes(), name


@pytest.mark.parametrize("name", list(POLICIES))
def test_a_restored_pilot_goes_on_bit_for_bit(name):
    random = np.random.default_rng(2)
    pilot = Pilot(POLICIES[name](), 2, 5)
    for t in range(24):
        twin = Pilot(POLICIES[name](), 0, 5)
        twin.restore(pilot.arrays())
        context, costs = float(t) if "temporal" in name else float(random.random()), random.normal(size=LINE.n)
        y = float(random.normal())
        choices = []
        for one in (pilot, twin):
            _, view = one.look(context, shown=costs)
            choices.append(one.decide(view))
            one.accept(choices[-1])
            one.learn(choices[-1].action, context, y)
        assert choices[0].probabilities.tobytes() == choices[1].probabilities.tobytes()
        assert_same_arrays(pilot.arrays(), twin.arrays())
        if t % 9 == 8:
            pilot.new_episode(3)


def test_a_pilot_does_not_change_its_policy():
    policy = hc.gp_md(LINE, **LEARNING)
    first = decisions(policy)
    assert decisions(policy) == first
    assert policy.costs.posterior.observations == 0


def test_masks_reach_the_rule_as_infinite_costs():
    pilot = Pilot(hc.minc_known(LINE), 0, 0)
    mask = np.array([True, False, True, True, False, False])
    estimate, view = pilot.look(None, mask, shown=[3, 1, 2, np.inf, 1, 1])
    np.testing.assert_array_equal(view.costs, [3, np.inf, 2, np.inf, np.inf, np.inf])
    np.testing.assert_array_equal(view.allowed, [True, False, True, False, False, False])
    np.testing.assert_array_equal(estimate.costs, [3, 1, 2, np.inf, 1, 1])
    assert pilot.decide(view).action == 2
    with pytest.raises(NoActionLeft, match="no action is left"):
        pilot.look(None, mask, shown=[np.inf, 1, np.inf, np.inf, 1, 1])


def test_a_pilot_shows_costs_to_planners():
    pilot = Pilot(hc.gp_md(LINE, **LEARNING), 0, 0)
    pilot.learn(1, 0.2, 3.0)
    _, view = pilot.look(0.2, forecast=[0.3, 0.4])
    assert view.forecast == [0.3, 0.4]
    np.testing.assert_array_equal(view.model.costs_at([0.2, 0.9])[0], view.costs)


def test_moved_by_somebody_else_the_rule_begins_again_there():
    pilot = Pilot(hc.md_known(LINE), 0, seed=3)
    _, view = pilot.look(None, shown=np.arange(6.0))
    pilot.accept(pilot.decide(view))
    pilot.move_to(4)
    assert (pilot.state.action, pilot.state.round) == (4, 1)
    np.testing.assert_array_equal(pilot.state.arrays["q"], hc.mirror.start(pilot.rule.tree, 4))


def test_bounds_are_frozen_within_an_episode():
    pilot = Pilot(hc.gp_md(LINE, every="episode", **LEARNING), 0, 0)
    before = pilot.look(0.3)[0].costs
    pilot.learn(2, 0.3, 5.0)
    np.testing.assert_array_equal(pilot.look(0.3)[0].costs, before)
    pilot.new_episode(1)
    assert pilot.look(0.3)[0].costs[2] > before[2] + 1.0
    assert pilot.state.action == 1


@pytest.mark.parametrize(
    ("start", "seed", "message"),
    [
        (6, 0, "action 6 is not an index from 0 to 5"),
        (np.int64(7), 0, "action 7 is not"),
        (1.5, 0, "action 1.5 is not"),
        (0, -1, "seed must be a whole number from 0 to 2.64 - 1, got -1"),
        (0, 2**64, "seed must be"),
        (0, 1.0, "seed must be"),
        (0, True, "seed must be"),
    ],
)
def test_wrong_start_or_seed(start, seed, message):
    with pytest.raises(InvalidInput, match=message):
        Pilot(hc.minc_known(LINE), start, seed)
