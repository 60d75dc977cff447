from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles.paths import exhaustive_total
from scipy.stats import norm

from holdcourse.deciding import policy as policies
from holdcourse.deciding.pilot import Pilot
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.rules import Greedy, uniform
from holdcourse.errors import InvalidInput
from holdcourse.learning.costs import KnownCosts
from holdcourse.movement.grid import grid
from holdcourse.movement.offline import price_path
from holdcourse.movement.problem import Problem
from holdcourse.worlds.simulation import LearningSummary, measurement_noise, simulate
from holdcourse.worlds.synthetic import SyntheticWorld

WORLD = SyntheticWorld.sample(seed=3, grid=5, contexts=6)
CONTEXTS = WORLD.context_sequence("iid", rounds=24, seed=1)
LINE = Problem([0.0, 1.0, 3.0])


class TableWorld:
    """Costs that depend on the round; a measurement is ten times the cost."""

    def __init__(self, table, problem=LINE):
        self.problem = problem
        self.table = np.asarray(table, dtype=float)

    def costs(self, round, context):  # noqa: A002 - the word of the field
        return self.table[round]

    def measure(self, round, context, action, noise):  # noqa: A002
        return 10.0 * self.table[round, action]


def learner(world=WORLD, make=policies.gp_md, **options):
    known = {"kernel": world.kernel, "noise_std": world.noise_std, "prior_mean": world.prior_mean}
    return make(world.problem, contexts=world.contexts, **known, **options)


EVERY_POLICY = {
    "GP-MD": learner(),
    "CGP-LCB": learner(make=policies.cgp_lcb),
    "MD-Known": policies.md_known(WORLD.problem),
    "MinC-Known": policies.minc_known(WORLD.problem),
    "Stationary": policies.stationary(WORLD.problem),
}


def test_a_bill_by_hand():
    world = TableWorld([[5, 0, 9], [5, 9, 0], [5, 9, 0], [1, 9, 9]])
    run = simulate(policies.minc_known(LINE), world, np.zeros(4), start=2)
    assert run.actions.tolist() == [1, 2, 2, 0]
    assert run.service_costs.tolist() == [0, 0, 0, 1]
    assert run.movement_costs.tolist() == [2, 2, 0, 3]  # the way from the start is paid
    assert run.measurements.tolist() == [0, 0, 0, 10]
    assert (run.service, run.movement, run.total) == (1.0, 7.0, 8.0)


@pytest.mark.parametrize("name", EVERY_POLICY)
def test_bills_agree_with_the_price_of_the_path_in_every_episode(name):
    starts = [3, 0, 24]
    run = simulate(EVERY_POLICY[name], WORLD, CONTEXTS, starts, seed=5, episodes=[10, 2, 12])
    first = 0
    for episode, start, length in zip(run.episodes, starts, [10, 2, 12], strict=True):
        costs = np.array([WORLD.costs(0, context) for context in CONTEXTS[first : first + length]])
        bill = price_path(episode.actions, costs, WORLD.problem, start)
        assert_allclose([episode.service, episode.movement], [bill.service, bill.movement], rtol=1e-12)
        assert_array_equal(episode.actions, run.actions[first : first + length])
        first += length
    assert_allclose(sum(episode.total for episode in run.episodes), run.total)
    assert run.policy == name
    assert name in repr(run)


def test_optima_are_the_cheapest_paths_of_each_episode():
    table = np.random.default_rng(2).integers(0, 4, size=(7, 3)).astype(float)
    run = simulate(policies.stationary(LINE), TableWorld(table), np.zeros(7), start=[2, 0], episodes=[4, 3])
    assert [path.total for path in run.optima] == [
        exhaustive_total(table[:4], LINE.distances, 2),
        exhaustive_total(table[4:], LINE.distances, 0),
    ]
    assert_array_equal(run.true_costs(1), table[4:])


@pytest.mark.parametrize("every", ["round", "episode"])
@pytest.mark.parametrize("make", [policies.gp_md, policies.cgp_lcb])
def test_the_same_steps_by_hand_give_the_same_rows(make, every):
    policy, starts, seed = learner(make=make, every=every), [7, 11, 2], 9
    run = simulate(policy, WORLD, CONTEXTS, starts, seed, episodes=3)
    pilot, rows, before = Pilot(policy, starts[0], seed), [], None
    for t, context in enumerate(CONTEXTS):
        if t % 8 == 0:
            before = starts[t // 8]
            if t > 0:
                pilot.new_episode(before)
        _, view = pilot.look(context)
        choice = pilot.decide(view)
        pilot.accept(choice)
        action = choice.action
        # The noise of the run to the last bit: what is learned decides the last bit of the next probability.
        measured = WORLD.costs(t, context)[action] + WORLD.noise_std * measurement_noise(seed, t)
        pilot.learn(action, context, measured)
        rows.append(
            {
                "episode": t // 8,
                "round": t,
                "context": context[0],
                "action": action,
                "value": WORLD.problem.value(action),
                "probability": choice.probabilities[action],
                "service": WORLD.costs(t, context)[action],
                "movement": WORLD.problem.distance(before, action),
                "measurement": measured,
            }
        )
        before = action
    assert run.rows() == rows


def test_the_noise_is_the_normal_quantile_of_the_streams_second_lane():
    for t in range(24):
        stream = np.random.Generator(np.random.Philox(key=9, counter=[0, t, 1, 0]))
        assert measurement_noise(9, t) == pytest.approx(norm.ppf(stream.random() + 2.0**-54), abs=1e-12)  # SciPy's


def test_rows_are_plain_data():
    problem = Problem(grid(x=[0.0, 1.0], y=[0.0, 1.0]))
    world = SyntheticWorld.sample(seed=1, problem=problem, contexts=[[0.1, 0.2], [0.5, 0.4]])
    rows = simulate(policies.minc_known(problem), world, world.contexts).rows()
    assert rows[0]["context"] == (0.1, 0.2)
    assert rows[0]["value"] in ({"x": x, "y": y} for x in (0.0, 1.0) for y in (0.0, 1.0))
    assert [row["round"] for row in json.loads(json.dumps(rows))] == [0, 1]


@pytest.mark.parametrize("name", EVERY_POLICY)
def test_a_policy_can_be_run_again_and_the_seed_decides(name):
    policy = EVERY_POLICY[name]
    np.random.seed(0)  # noqa: NPY002 - to see that nobody touches it
    untouched = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again = (simulate(policy, WORLD, CONTEXTS, start=4, seed=1) for _ in range(2))
    assert first.rows() == again.rows()
    assert_array_equal(np.random.get_state()[1], untouched)  # noqa: NPY002
    assert first.rows() != simulate(policy, WORLD, CONTEXTS, start=4, seed=2).rows()  # other noise at least


def test_all_policies_meet_the_same_noise_and_it_is_not_the_draw_of_the_rule():
    noises = []
    for policy in EVERY_POLICY.values():
        run = simulate(policy, WORLD, CONTEXTS, seed=6)
        noises.append((run.measurements - run.service_costs) / WORLD.noise_std)
    expected = [measurement_noise(6, t) for t in range(len(CONTEXTS))]
    for noise in noises:
        assert_allclose(noise, expected, atol=1e-9)
    pilot = Pilot(EVERY_POLICY["Stationary"], 0, 6)
    drawn_by_rules = [replace(pilot.state, round=t).uniform() for t in range(len(CONTEXTS))]
    assert set(drawn_by_rules).isdisjoint(uniform(6, t, lane=1) for t in range(len(CONTEXTS)))


def test_true_costs_are_shown_only_to_models_that_need_them():
    class Nosy(KnownCosts):
        needs = True

        @property
        def needs_costs(self):
            return self.needs

        def estimate(self, context, shown=None):
            seen.append(shown)
            return super().estimate(context, np.zeros(WORLD.problem.n) if shown is None else shown)

    for needs in (True, False):
        seen = []
        model = Nosy(WORLD.problem)
        model.needs = needs
        simulate(Policy("nosy", Greedy(WORLD.problem), model, WORLD.problem), WORLD, CONTEXTS[:3])
        assert [shown is not None for shown in seen] == [needs] * 3


@pytest.mark.parametrize("make", [policies.minc_known, policies.md_known])
def test_a_policy_that_maximises_is_shown_gains(make):
    costs = simulate(make(WORLD.problem), WORLD, CONTEXTS, start=4)
    gains = simulate(make(WORLD.problem, maximise=True), WORLD, CONTEXTS, start=4)
    assert_array_equal(costs.actions, gains.actions)
    assert costs.total == gains.total


def test_episodic_bounds_are_frozen_within_an_episode():
    same_context = np.repeat(WORLD.contexts[:1], 30, axis=0)
    run = simulate(learner(make=policies.cgp_lcb, every="episode"), WORLD, same_context, episodes=3)
    assert all(len(set(episode.actions.tolist())) == 1 for episode in run.episodes)
    assert len({int(episode.actions[0]) for episode in run.episodes}) > 1  # and follow the data between them


def test_what_was_learned_counts_the_last_episode_too():
    known = simulate(EVERY_POLICY["MD-Known"], WORLD, CONTEXTS)
    assert known.learned is None
    for every in ("round", "episode"):
        run = simulate(learner(every=every), WORLD, CONTEXTS, seed=2, episodes=2)
        among = WORLD.kernel.covariance(WORLD.problem, run.actions, run.contexts)
        gain = 0.5 * np.linalg.slogdet(np.eye(24) + among / WORLD.noise_std**2)[1]
        assert isinstance(run.learned, LearningSummary)
        assert_allclose(run.learned.information_gain, gain, rtol=1e-6)
        assert_allclose(run.learned.regularisation, WORLD.noise_std**2)


def test_the_world_bills_whatever_the_policy_believes_about_moving():
    believed = Problem(WORLD.problem.actions, scale=100.0)
    run = simulate(policies.minc_known(believed), WORLD, CONTEXTS, start=0)
    right = simulate(policies.minc_known(WORLD.problem), WORLD, CONTEXTS, start=0)
    assert run.rows() == right.rows()


def test_no_rounds_and_empty_episodes_cost_nothing():
    empty = simulate(EVERY_POLICY["MD-Known"], WORLD, [], start=2)
    assert (empty.total, empty.rows(), [path.total for path in empty.optima]) == (0.0, [], [0.0])
    with_gap = simulate(EVERY_POLICY["MinC-Known"], WORLD, CONTEXTS[:3], start=[0, 1, 2, 3], episodes=[0, 2, 0, 1])
    assert [len(episode.actions) for episode in with_gap.episodes] == [0, 2, 0, 1]
    assert with_gap.movement_costs[0] == WORLD.problem.distance(1, int(with_gap.actions[0]))
    assert with_gap.movement_costs[2] == WORLD.problem.distance(3, int(with_gap.actions[2]))


@pytest.mark.slow
def test_a_run_survives_a_process_pool():
    run = simulate(EVERY_POLICY["GP-MD"], WORLD, CONTEXTS, start=4)
    twin = pickle.loads(pickle.dumps(run))
    assert twin.rows() == run.rows()
    assert twin.optima[0].total == run.optima[0].total


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"policy": policies.stationary(LINE)}, "3 actions, but the world has 25"),
        ({"contexts": [[np.nan]]}, "row 0 is"),
        ({"contexts": [0.123]}, "not one of the 6 contexts"),
        ({"start": 25}, "action 25 is not an index"),
        ({"start": 1.5}, "action 1.5 is not an index"),
        ({"start": [1, 2]}, "one action, or 1, one for each episode, got 2"),
        ({"start": [0], "episodes": 2}, "one action, or 2, one for each episode, got 1"),
        ({"seed": -1}, "seed must be"),
        ({"episodes": 5}, "24 rounds cannot be split into 5"),
        ({"episodes": 0}, "cannot be split into 0"),
        ({"episodes": [20, 3]}, "must add up to the 24 contexts, got 23"),
        ({"episodes": [25, -1]}, "list of their lengths"),
        ({"episodes": True}, "list of their lengths"),
        ({"episodes": []}, "list of their lengths"),
    ],
)
def test_bad_arguments_are_named(changed, message):
    arguments = {"policy": EVERY_POLICY["Stationary"], "world": WORLD, "contexts": CONTEXTS} | changed
    with pytest.raises(InvalidInput, match=message):
        simulate(**arguments)


def test_a_world_with_the_wrong_number_of_costs_is_named():
    ragged = TableWorld(np.zeros((2, 3)))
    ragged.costs = lambda t, context: np.zeros(3 - t)
    with pytest.raises(InvalidInput, match=r"shape \(2,\) in round 1, but it has 3 actions"):
        simulate(policies.stationary(LINE), ragged, np.zeros(2))


def test_seeds_may_be_numpy_numbers():
    one, other = (simulate(policies.md_known(WORLD.problem), WORLD, CONTEXTS, seed=seed) for seed in (3, np.int64(3)))
    assert_array_equal(one.actions, other.actions)
    assert_array_equal(one.measurements, other.measurements)
    assert measurement_noise(np.uint64(2**64 - 1), np.int64(5)) == measurement_noise(2**64 - 1, 5)
    with pytest.raises(InvalidInput, match="seed must be a whole number"):
        measurement_noise(-1, 0)


@pytest.mark.parametrize("cost", [np.nan, -np.inf])
def test_a_world_without_costs_is_named(cost):
    class Broken:
        problem = LINE

        def costs(self, t, context):
            return np.array([1.0, cost, 2.0])

        def measure(self, t, context, action, noise):
            return 1.0

    with pytest.raises(InvalidInput, match=f"the cost {cost} for action 1 in round 0"):
        simulate(policies.stationary(LINE), Broken(), [0.1])


@pytest.mark.parametrize(("told", "shown"), [("warm", "'warm'"), (float("nan"), "nan"), (None, "None")])
def test_a_world_that_measures_no_number_is_named(told, shown):
    class Silent(TableWorld):
        def measure(self, round, context, action, noise):  # noqa: A002
            return told

    with pytest.raises(InvalidInput, match=f"the world's measure gave {shown} for action . in round 0; return a"):
        simulate(policies.md_known(LINE), Silent(np.ones((2, 3))), [0.1, 0.2])


def test_what_is_not_a_policy_or_not_a_world_is_named():
    with pytest.raises(InvalidInput, match=r"policy must be a Policy, such as hc.gp_md\(problem\) returns, got <func"):
        simulate(policies.md_known, TableWorld(np.ones((1, 3))), [0.1])
    with pytest.raises(InvalidInput, match=r"a world has problem, costs\(round, .*, but Problem has no problem"):
        simulate(policies.md_known(LINE), LINE, [0.1])
