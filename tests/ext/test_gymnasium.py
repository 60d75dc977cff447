"""Worlds as Gymnasium environments, and policies as agents in them."""

from __future__ import annotations

import importlib
import re
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import holdcourse as hc
from holdcourse.errors import InvalidInput, MissingExtra
from holdcourse.ext.gymnasium import PolicyAgent, WorldEnv

WORLD = hc.SyntheticWorld.sample(seed=3, grid=4, contexts=6)
CONTEXTS = WORLD.context_sequence("walk", rounds=40, seed=1)


def play(env, agent, seed):
    """One episode: what was done and paid, in columns of `Run`."""
    observation, info = env.reset(seed=seed)
    actions, rewards, infos, done = [], [], [], False
    while not done:
        actions.append(agent.act(observation, info))
        observation, reward, _, done, info = env.step(actions[-1])
        rewards.append(reward)
        infos.append(info)
    agent.end(info)
    return actions, rewards, infos


def test_importing_without_the_extra_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "holdcourse.ext.gymnasium")
    with pytest.raises(MissingExtra, match=re.escape('pip install "holdcourse[gym]"')):
        importlib.import_module("holdcourse.ext.gymnasium")


@pytest.fixture
def registered():
    """The environment under a name, as Gymnasium's checks of rendering need it."""
    name = "holdcourse-tests/World-v0"
    gymnasium.register(name, entry_point=WorldEnv)
    yield lambda **options: gymnasium.make(name, world=WORLD, **options).unwrapped
    gymnasium.registry.pop(name)


@pytest.mark.parametrize("reward", ["measured", "true"])
def test_passes_the_checks_of_gymnasium_without_a_warning(registered, reward):
    check_env(registered(contexts=CONTEXTS, start=5, reward=reward))


def test_passes_the_checks_of_gymnasium_with_all_options(registered):
    """Measurements have no bounds, and Gymnasium remarks on that; on nothing else."""
    env = registered(
        contexts=lambda seed: WORLD.context_sequence("iid", rounds=10, seed=seed),
        observe_measurement=True,
        context_bounds=(0.0, 1.0),
        render_mode="ansi",
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env)
    assert [str(w.message) for w in caught if "infinity" not in str(w.message)] == []


@pytest.mark.parametrize("make", [hc.gp_md, hc.planner, hc.md_known, hc.stationary], ids=lambda make: make.__name__)
def test_an_agent_does_what_simulate_does(make):
    options = {} if make in (hc.md_known, hc.stationary) else {"kernel": WORLD.kernel, "noise_std": WORLD.noise_std}
    policy = make(WORLD.problem, **options)
    run = hc.simulate(policy, WORLD, CONTEXTS, start=5, seed=11)
    actions, rewards, infos = play(WorldEnv(WORLD, CONTEXTS, start=5), PolicyAgent(policy, seed=11), seed=11)
    assert actions == run.actions.tolist()
    np.testing.assert_array_equal([info["measurement"] for info in infos], run.measurements)
    np.testing.assert_array_equal([info["service"] for info in infos], run.service_costs)
    np.testing.assert_array_equal(rewards, -(run.measurements + run.movement_costs))


def test_true_rewards_are_the_bill():
    policy = hc.minc_known(WORLD.problem)
    run = hc.simulate(policy, WORLD, CONTEXTS, seed=2)
    _, rewards, _ = play(WorldEnv(WORLD, CONTEXTS, reward="true"), PolicyAgent(policy, seed=2), seed=2)
    assert -sum(rewards) == pytest.approx(run.total)


def test_an_agent_keeps_what_it_learned():
    agent = PolicyAgent(hc.gp_md(WORLD.problem, kernel=WORLD.kernel, noise_std=WORLD.noise_std), seed=0)
    env = WorldEnv(WORLD, CONTEXTS)
    play(env, agent, seed=0)
    once = agent.controller.model.posterior.information_gain
    play(env, agent, seed=1)
    assert agent.controller.episode == 1
    assert agent.controller.round == 2 * len(CONTEXTS)
    assert agent.controller.model.posterior.information_gain > once > 0


def test_an_episode_left_half_way_is_no_obstacle():
    agent, env = PolicyAgent(hc.gp_md(WORLD.problem)), WorldEnv(WORLD, CONTEXTS)
    observation, info = env.reset(seed=0)
    agent.act(observation, info)
    observation, info = env.reset(seed=1, options={"start": 7})
    agent.act(observation, info)
    assert observation["action"] == 7
    assert agent.controller.episode == 1


def test_seeds_make_episodes_and_episodes_differ():
    env = WorldEnv(WORLD, lambda seed: WORLD.context_sequence("iid", rounds=10, seed=seed), context_bounds=(0, 1))
    first = play(env, PolicyAgent(hc.stationary(WORLD.problem)), seed=4)
    again = play(env, PolicyAgent(hc.stationary(WORLD.problem)), seed=4)
    other = play(env, PolicyAgent(hc.stationary(WORLD.problem)), seed=5)
    assert first[1] == again[1]
    assert first[1] != other[1]
    shown = [env.reset()[0]["context"][0] for _ in range(5)]
    assert len(set(shown)) > 1


def test_the_last_measurement_can_be_observed():
    env = gymnasium.wrappers.FlattenObservation(WorldEnv(WORLD, CONTEXTS, observe_measurement=True))
    first, _ = env.reset(seed=0)
    assert first.shape == (WORLD.problem.n + 1 + 1,)
    plain = WorldEnv(WORLD, CONTEXTS, observe_measurement=True, render_mode="ansi")
    plain.reset(seed=0)
    observation, _, _, _, info = plain.step(2)
    assert observation["measurement"] == [info["measurement"]]
    assert plain.render().startswith("round 0: at ")


def test_wrong_use_is_refused():
    env = WorldEnv(WORLD, CONTEXTS[:1])
    with pytest.raises(InvalidInput, match=r"call reset\(\)"):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(InvalidInput, match="not an index"):
        env.step(WORLD.problem.n)
    *_, terminated, truncated, info = env.step(0)
    assert (terminated, truncated, info["round"]) == (False, True, 1)
    with pytest.raises(InvalidInput, match=r"call reset\(\)"):
        env.step(0)
    for options, complaint in [
        ({"reward": "net"}, "'measured' or 'true'"),
        ({"render_mode": "human"}, "'ansi'"),
        ({"start": -1}, "not an index"),
    ]:
        with pytest.raises(InvalidInput, match=complaint):
            WorldEnv(WORLD, CONTEXTS, **options)
    with pytest.raises(InvalidInput, match="at least one round"):
        WorldEnv(WORLD, np.empty((0, 1)))


def test_an_agent_that_knows_gains_is_shown_gains():
    env = WorldEnv(WORLD, CONTEXTS, start=5)
    costs, gains = (
        play(env, PolicyAgent(hc.minc_known(WORLD.problem, maximise=maximise)), seed=0)[0] for maximise in (False, True)
    )
    assert gains == costs
