"""The plan of a trial: block length, weeks, what changing costs; and whether its promise is kept."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.learning.history import History
from holdcourse.trials.blocks import Blocks
from holdcourse.trials.intervals import bounds_of_mean
from holdcourse.trials.plan import LENGTHS, Paths, dealt, plan_of, plan_trial, run_both
from holdcourse.worlds.logged import LoggedWorld


def weather(seed, rounds=24 * 7 * 20, gain=0.6, jump=0.0, maximise=False, lasting=0.9):
    """Paths in a weather that lasts for about ten hours and has days."""
    rng = np.random.default_rng(seed)
    slow = np.zeros(rounds)
    for t in range(1, rounds):
        slow[t] = lasting * slow[t - 1] + math.sqrt(1 - lasting**2) * rng.normal()
    costs = 20 + 3 * slow + 4 * np.sin(2 * np.pi * np.arange(rounds) / 24)
    told = (lambda cost: 50 - cost) if maximise else (lambda cost: cost)
    noise, moving, jumps = 0.5 * rng.normal(size=(2, rounds)), np.full(rounds, 0.1), np.full(rounds, jump)
    arms = (costs - gain + noise[0], costs + noise[1])
    return Paths(told(arms[0]), told(arms[1]), moving, 0 * moving, jumps, jumps, told(costs), maximise)


def test_the_promised_weeks_are_right_within_a_fifth():
    """Trials that begin anywhere in the world's weeks, with a gain as promised: four of five are decided by then."""
    paths = weather(1)
    plan = plan_of(paths, gain=2.0)
    for design in plan.designs[:3:2]:
        gains, _ = dealt(paths, design.block, 300, seed=9, cycle=24)
        target = design.deviation * paths.bill / 100 * 0.2  # a fifth of the scatter: some three hundred pairs
        shifted = gains - gains.mean() + target
        begins = np.random.default_rng(2).integers(shifted.shape[1], size=(300, 1))
        turned = np.take_along_axis(shifted, (np.arange(2 * shifted.shape[1]) + begins) % shifted.shape[1], axis=1)
        seen = bounds_of_mean(turned, "sequence").low > 0
        pairs = np.where(seen.any(axis=1), seen.argmax(axis=1) + 1, np.inf)
        weeks = np.quantile(pairs, 0.8) * 2 * design.block / 168
        promised = design.weeks(100 * target / paths.bill)
        assert promised == pytest.approx(weeks, rel=0.2)
        assert design.visible(promised) == pytest.approx(100 * target / paths.bill, rel=0.02)


def test_what_a_trial_measures_is_what_the_paths_say():
    paths = weather(2, maximise=True)
    gains, bills = dealt(paths, 3, 200)
    found = 100 * gains.mean() / bills.mean()
    assert found == pytest.approx(paths.gain, abs=4 * 100 * gains.mean(axis=1).std() / bills.mean() / math.sqrt(200))
    helped, _ = dealt(paths, 3, 200, reference=True)
    assert helped.std() < 0.5 * gains.std()


def test_long_blocks_where_changing_is_dear_and_hours_are_independent():
    free, dear = (plan_of(weather(3, jump=jump, lasting=0.0), gain=3) for jump in (0.0, 5.0))
    assert free.best.block < dear.best.block
    assert (
        plan_of(weather(3, jump=5.0), gain=3).best.block == 2
    )  # a weather that lasts asks for short ones all the same
    # Every border within a pair, every other one between pairs, 5 each.
    assert dear.designs[0].switching == pytest.approx(100 * 5 * 0.75 / 2 / dear.bill, rel=0.01)


def test_words_table_and_data():
    plan = plan_of(weather(4), gain=3, hours=0.5, blocks=[4, 2])
    assert [design.block for design in plan.designs] == [2, 4]
    assert "4 of 5" not in plan.words[0]
    assert plan.words[0].startswith(f"Use blocks of {plan.best.block} rounds")
    assert "replace" in plan.words[-1]
    json.dumps(plan.to_data(), allow_nan=False)
    assert plan.best.weeks(3) < plan.best.weeks(1)
    assert plan.best.weeks(3, reference=True) < plan.best.weeks(3)
    hopeless = plan_of(weather(4), gain=1e-6)
    assert "No block length" in hopeless.words[0]
    json.dumps(hopeless.to_data(), allow_nan=False)


def test_words_where_percentages_say_little():
    """No scatter at all, a bill that is nearly zero, a gain that is many times it, and rounds that last for ever."""
    still = np.zeros(400)
    constant = plan_of(Paths(still + 9, still + 10, still, still), gain=5, blocks=[2])
    assert constant.best.deviation == 0
    assert constant.best.weeks(5) == 2 * 2 * 11 / 168
    assert any("do not scatter at all" in words for words in constant.words)
    paths = weather(4)
    near_zero = Paths(
        paths.policy - paths.baseline.mean() + 0.02,
        paths.baseline - paths.baseline.mean() + 0.02,
        paths.policy_movement,
        paths.baseline_movement,
    )
    said = plan_of(near_zero, blocks=[2]).words
    assert any(words.startswith("Costs above and below zero nearly cancel") for words in said)
    assert not any("e+" in words for words in said)
    assert not any("nearly cancel" in words for words in plan_of(paths, blocks=[2]).words)
    assert "No block length" in plan_of(paths, gain=5, hours=1e6).words[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gain": 0}, "gain must be above 0"),
        ({"hours": -1}, "hours must be above 0"),
        ({"blocks": [0]}, "blocks must be a whole number, 1 or more"),
        ({"blocks": []}, "blocks is empty; give at least one length"),
        ({"blocks": [2000]}, "takes 80,000 rounds, but the data have"),
    ],
)
def test_what_cannot_be_planned_is_refused(options, words):
    with pytest.raises(InvalidInput, match=words):
        plan_of(weather(5, rounds=1000), **options)


def test_a_plan_from_readings_keeps_the_order_of_what_they_leave_unexplained():
    rng = np.random.default_rng(6)
    problem = hc.Problem([0.0, 1.0, 2.0], scale=0.1)
    actions = np.where(rng.random(240) < 0.7, 1, rng.integers(3, size=240))
    contexts = rng.integers(4, size=240) / 2.0
    slow = np.repeat(rng.normal(size=10), 24)
    world = LoggedWorld.fit(problem, History(actions, contexts[:, None], 5 + (actions - contexts) ** 2 + 2 * slow))
    told = []
    policy = hc.minc_known(problem)
    paths = run_both(policy, hc.fixed_at(problem, 1.0), world, start=1, progress=lambda *words: told.append(words))
    rest = paths.baseline - paths.reference
    assert np.corrcoef(rest[1:], rest[:-1])[0, 1] > 0.5
    assert told
    plan = plan_trial(policy, hc.fixed_at(problem, 1.0), world, start=1, rehearsals=0)
    assert math.isnan(plan.learning)
    assert {design.block for design in plan.designs} <= set(LENGTHS)
    assert plan.expected == pytest.approx(paths.gain)
    with pytest.raises(InvalidInput, match="give contexts="):
        plan_trial(policy, policy, hc.SyntheticWorld.sample(seed=1, grid=3, contexts=2))
    with pytest.raises(InvalidInput, match="noise must be 0 or more"):
        plan_trial(policy, policy, world, noise=-1.0)


def test_a_rehearsal_shows_what_learning_changes():
    """A policy that learns nothing is in the trial what it is alone."""
    world = hc.SyntheticWorld.sample(seed=3, grid=5, contexts=4)
    contexts = world.context_sequence("iid", rounds=240)
    arms = hc.fixed_at(world.problem, setting_index=4), hc.fixed_at(world.problem, setting_index=2)
    still = plan_trial(*arms, world, contexts, start=2, gain=5, blocks=[2], rehearsals=2)
    assert still.learning == pytest.approx(0, abs=1e-9)
    assert (still.heard, still.rehearsed) == (1.0, ())
    learner = hc.gp_md(world.problem, kernel=world.kernel, noise_std=world.noise_std)
    learned = plan_trial(learner, arms[1], world, contexts, start=2, gain=5, blocks=[2])
    assert learned.learning < -1  # it has the machine for half of the time: no share of what it hears makes up for that
    assert learned.heard == 1
    assert "less than alone" in " ".join(learned.words)
    unsure = replace(learned, learning=0.2, learning_error=0.6)
    assert (
        "In rehearsal, what the arms learn from each other's blocks changes the answer by +0.2 ± 0.6 points"
        in unsure.words[-1]
    )
    assert "points" not in " ".join(replace(unsure, learning_error=0.4).words)


def test_the_share_is_where_the_answer_comes_out_even():
    """A made-up machine whose answer is off by what was heard: the plan finds where it is not, and what is left."""
    paths, told = weather(1), []

    def rehearse(block, heard, coin, tell):
        told.append((heard, coin))
        arm = np.arange(paths.rounds) // block % 2
        off = 4 * heard - 2 * heard**2 - 1.2  # zero at 0.37
        net = np.where(arm == 1, paths.policy - 0.01 * paths.bill * off, paths.baseline)
        return Blocks(np.arange(paths.rounds) // block, arm, net, np.where(arm == 1, 0.1, 0.0))

    plan = plan_of(paths, gain=3, blocks=[2], rehearse=rehearse, rehearsals=2, seed=7)
    assert plan.heard == 0.35
    assert plan.learning == pytest.approx(4 * 0.35 - 2 * 0.35**2 - 1.2)
    assert [effect for _, effect in plan.rehearsed] == pytest.approx([-1.2, 0.3, 0.8])
    assert told == [(share, coin) for share in (1.0, 0.0, 0.5) for coin in (7, 8)] + [(0.35, 9), (0.35, 10)]
    assert "Let each arm learn from 35 % of the other's rounds (heard=0.35," in " ".join(plan.words)
    # Off by 0.13 where the answer changes by 4 - 4 * 0.35 points with the whole share: known to 5 %.
    assert replace(plan, learning_error=0.13).share_error == pytest.approx(0.05)
    assert math.isnan(replace(plan, rehearsed=()).share_error)
    assert "it does as well in its blocks as it would alone" in " ".join(plan.words)
    never = replace(plan, heard=0.0, rehearsed=((0.0, 0.2), (0.5, 0.5), (1.0, 0.9)))  # no share comes out even
    assert "as it would alone" not in " ".join(never.words)
    assert "it comes closest to what it would do alone" in " ".join(never.words)
    assert plan.to_data()["heard"] == 0.35
    assert plan_of(paths, gain=3, blocks=[2], rehearse=rehearse, rehearsals=0).heard == 1


def test_coins_are_thrown_until_they_make_less_than_half_of_the_error():
    """The weather differs between stretches whatever the coin; what coins add is averaged until it is small beside."""
    paths = weather(1)
    weather_of = np.repeat(np.random.default_rng(3).normal(size=20), paths.rounds // 20 + 1)[: paths.rounds]

    def rehearsed(of_a_coin, most):
        told = []

        def rehearse(block, heard, coin, tell):
            told.append(coin)
            arm = np.arange(paths.rounds) // block % 2
            off = -2 + weather_of + of_a_coin * (-1) ** coin
            net = np.where(arm == 1, paths.policy - 0.01 * paths.bill * off, paths.baseline)
            return Blocks(np.arange(paths.rounds) // block, arm, net, np.where(arm == 1, 0.1, 0.0))

        plan = plan_of(paths, gain=3, blocks=[2], rehearse=rehearse, rehearsals=most)
        assert plan.coins == len(told)
        return plan

    few, many = rehearsed(0.01, 9), rehearsed(0.25, 9)
    assert (few.coins, rehearsed(0.5, 1).coins, rehearsed(0.5, 0).coins) == (2, 1, 0)
    assert 2 < many.coins < 9
    expected = weather_of[::2].std() / np.sqrt(20)
    assert few.learning_error == pytest.approx(expected, rel=0.1)
    # A trial as long as one stretch is off by as much as one stretch is.
    hours = paths.rounds * few.best.hours
    assert few.luck(hours / 168 / 20) == pytest.approx(few.learning_error * np.sqrt(20))
    assert math.isnan(rehearsed(0.5, 0).luck(4.0))
    assert "which no plan can foresee" in " ".join(replace(few, learning_error=1.0).words)


def test_the_rule_of_a_trial_books_what_each_arm_would_pay_alone():
    """With costs that are known nothing is learned: each arm's blocks cost what the arm costs alone in these rounds."""
    world = hc.SyntheticWorld.sample(seed=3, grid=5, contexts=4)
    contexts = world.context_sequence("alternating", rounds=120)
    policy = hc.proximal_lcb(world.problem, kernel=world.kernel, noise_std=world.noise_std)
    table = hc.trials.simulate_trial(hc.trial(policy, baseline_index=2, block=3), world, contexts, start=7, seed=5)
    still = hc.simulate(hc.fixed_at(world.problem, setting_index=2), world, contexts, start=7, seed=5)
    theirs = table.arm == 0
    np.testing.assert_allclose(table.movement[theirs], still.movement_costs[theirs])
    np.testing.assert_allclose(table.cost[theirs], still.measurements[theirs])
    assert (table.switching[np.arange(120) % 3 > 0] == 0).all()
    assert table.pairs == 20
    with pytest.raises(InvalidInput, match="is not on trial in round 0"):
        hc.trials.simulate_trial(policy, world, contexts)
    with pytest.raises(InvalidInput, match="measured must have the shape"):
        hc.trials.simulate_trial(hc.trial(policy, block=3), world, contexts, measured=[1.0])
