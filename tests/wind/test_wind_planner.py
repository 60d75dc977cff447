"""The wind planner: its replay against the real thing, its caution, its promises, and forecasts."""

from __future__ import annotations

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.wind.backtest.forecast_skill import Skill
from holdcourse.wind.backtest.run import backtest
from holdcourse.wind.physics import table_curve, wind_world
from holdcourse.wind.policy.candidates import Candidates
from holdcourse.wind.policy.filter import ExpectedEnergy
from holdcourse.wind.policy.planner import (  # private parts too: on data that no backtest has
    ANCHOR,
    CLEAR,
    Replayed,
    Taught,
    _hourly,
    _windows,
    choose_caution,
    plan_rounds,
    wind_planner,
)
from holdcourse.wind.policy.policies import Past, Setting, contexts_of, flown_by_default

ALTITUDES = np.linspace(50.0, 450.0, 6)
EPOCH = np.datetime64("2020-01-01T00", "s")
LONG_BEFORE = EPOCH - np.timedelta64(2000, "D")


def wind(hours, seed=0, shear=4.0):
    """A wind profile whose tilt comes and goes over half a day, so that the best altitude does too."""
    random = np.random.default_rng(seed)
    tilt, level = np.zeros(hours), np.zeros(hours)
    for t in range(1, hours):
        tilt[t] = 0.93 * tilt[t - 1] + shear * np.sqrt(1 - 0.93**2) * random.standard_normal()
        level[t] = 0.97 * level[t - 1] + np.sqrt(1 - 0.97**2) * random.standard_normal()
    speed = 8.0 + level[:, None] + tilt[:, None] * np.linspace(-0.5, 0.5, len(ALTITUDES))
    return np.maximum(speed + 0.05 * random.standard_normal(speed.shape), 0.1)


def world_of(speed, begin=EPOCH, **options):
    time = begin + np.arange(len(speed)) * np.timedelta64(3600, "s")
    return wind_world(time, ALTITUDES, speed, **({"movement": "physical"} | options))


def past_of(speed, begin=LONG_BEFORE):
    time = (begin + np.arange(len(speed)) * np.timedelta64(3600, "s")).astype(np.int64) / 3600.0
    return Past(time % 24, speed, time)


HISTORY = wind(2400, seed=1)
PAST = past_of(HISTORY)


@pytest.mark.kernel
@pytest.mark.parametrize("options", [{}, {"movement": (0.02, 0.005)}, {"rho": 4.0, "movement": "paper"}], ids=str)
def test_the_replay_is_the_policy(options):
    world = world_of(wind(200, seed=3), **options)
    taught, caution = Taught.by(world, PAST.moments, PAST.speed, 1.0), 1.3
    rule = hc.Lookahead(world.problem, caution=caution, anchor=ANCHOR)
    alone = Candidates((taught.climate,), gauge=0.0)
    energy = ExpectedEnergy(alone, world.problem, world.curve, world.rho, taught.worth, taught.known)
    slow = hc.simulate(hc.Policy("slow", rule, energy, world.problem), world, world.moments, start=5).actions
    fast = Replayed(world, taught, world.speed, float(world.moments[0]), 1.0).actions(caution, start=5)
    assert len(np.unique(slow)) > 1
    np.testing.assert_array_equal(slow, fast)


class Knowing(ExpectedEnergy):
    """The filter told the whole profile after each round, and shown forecasts whose error it knows: a slow twin."""

    def __init__(self, world, taught, lidar, said=None, errors=None):
        alone = Candidates((taught.climate,), gauge=0.0)
        super().__init__(alone, world.problem, world.curve, world.rho, taught.worth, taught.known)
        self.world, self.lidar, self.said, self.errors = world, lidar, said, errors

    def _round(self, hour):
        return round(float(np.reshape(hour, -1)[0]) - float(self.world.moments[0]))

    def _predicted(self, contexts):
        mean, std = super()._predicted(contexts)  # private: a better forecast is put into a planner of ours
        for k, hour in enumerate(np.reshape(contexts, -1)) if self.said is not None else ():
            t = self._round(hour)
            if t < len(self.said):
                error = self.errors[t - self._now]
                forecast = self.world.speed[t] + error * self.said[t]
                trust = np.maximum(0.0, 1.0 - error**2 / std[k] ** 2)
                mean[k] += trust * (forecast - mean[k])
                std[k] *= np.sqrt(1.0 - trust)
        return mean, std

    def estimate(self, context, shown=None):
        self._now = self._round(context)
        mean, std = self._predicted(np.reshape(context, -1))
        costs = self._costs(mean, std)[0]
        return hc.costs.Estimate(costs, costs, mean[0], std[0])

    def learn(self, action, context, measurement):
        for y in range(self.problem.n) if self.lidar else (action,):
            super().learn(y, context, float(self.world.speed[self._round(context), y]))
        return 1.0


@pytest.mark.kernel
@pytest.mark.parametrize(("lidar", "forecast"), [(True, False), (False, True), (True, True)])
def test_the_replay_that_knows_more_is_the_policy_that_does(lidar, forecast):
    world = world_of(wind(150, seed=3))
    taught, caution, skill = Taught.by(world, PAST.moments, PAST.speed, 1.0), 1.3, Skill(0.8, 2.0)
    replayed = Replayed(world, taught, world.speed, float(world.moments[0]), 1.0)
    errors = skill.errors(replayed.rounds, 1.0)
    said = skill.wrong(ALTITUDES, len(world.time), 1.0, seed=1) if forecast else None
    rule = hc.Lookahead(world.problem, caution=caution, anchor=ANCHOR)
    slow_policy = hc.Policy("slow", rule, Knowing(world, taught, lidar, said, errors), world.problem)
    slow = hc.simulate(slow_policy, world, world.moments, start=5).actions
    fast = replayed.actions(caution, start=5, lidar=lidar, said=said, errors=errors)
    assert (fast != replayed.actions(caution, start=5)).any()
    np.testing.assert_array_equal(slow, fast)


def test_it_beats_staying_where_the_tilt_can_be_followed():
    flown = backtest(Setting(world_of(wind(700, seed=2)), PAST), ["fixed", "wind-planner", "gp-md"])
    assert flown.line("wind-planner").net > 1.03 * flown.line("fixed").net
    assert flown.line("wind-planner").net > flown.line("gp-md").net


def test_it_stays_where_following_does_not_pay():
    noise = np.random.default_rng(0).uniform(3.0, 13.0, (2400, len(ALTITUDES)))  # tomorrow has nothing to do with today
    world = world_of(noise[:300], movement="paper")
    flown = backtest(Setting(world, past_of(noise)), ["fixed", "wind-planner"])
    assert (np.diff(flown.flights["wind-planner"].actions) != 0).mean() < 0.02
    assert flown.line("wind-planner").net > 0.98 * flown.line("fixed").net


def test_caution_is_chosen_on_history_and_said():
    before = past_of(wind(5000, seed=1))
    assert "too short to find out" in wind_planner(Setting(world_of(wind(100)), PAST)).explanation
    policy = wind_planner(Setting(world_of(wind(100)), before))
    assert "In a replay of 5,000 hours of history" in policy.explanation
    assert repr(policy).startswith("Policy(Wind planner: a wind filter learned from 2014-07-11 to 2015-02-04")
    trial = choose_caution(world_of(wind(100)), before.moments, before.speed)
    best = max(trial.gains, key=trial.gains.get)
    assert trial.caution == best or trial.gains[best] - trial.gains[1.0] <= CLEAR * trial.error
    assert trial.hours == 5000


def test_a_short_history_is_said_to_be_short():
    setting = Setting(world_of(wind(60)), past_of(wind(50, seed=9)))
    assert "The history is too short" in wind_planner(setting).explanation
    weeks = Setting(world_of(wind(60)), past_of(wind(900, seed=9)))
    assert "The history is too short" in wind_planner(weeks).explanation
    flown = [backtest(each, ["wind-planner"]).flights["wind-planner"] for each in (weeks, Setting(weeks.world))]
    np.testing.assert_array_equal(flown[0].actions, flown[1].actions)  # never worse than with none
    two_months = wind_planner(Setting(world_of(wind(60)), past_of(wind(1100, seed=9))))
    assert "too short to find out" in two_months.explanation
    constant = past_of(np.full((1400, len(ALTITUDES)), 8.0))
    assert "The history is too short" in wind_planner(Setting(world_of(wind(60)), constant)).explanation
    undated = Past(np.full(300, 3.0), wind(300))
    assert "no consecutive hours" in wind_planner(Setting(world_of(wind(60)), undated)).explanation


def test_hours_of_the_day_alone_are_taken_to_follow_each_other():
    dated, undated = PAST, Past(PAST.hours, PAST.speed)
    np.testing.assert_allclose(np.diff(undated.moments), np.diff(dated.moments))
    assert undated.moments[0] % 24 == dated.moments[0] % 24


def test_without_history():
    world = world_of(wind(300))
    policy = wind_planner(Setting(world, prior_mean=7.0))
    assert "first expects a wind of about 7.0 m/s" in policy.explanation
    flown = backtest(Setting(world), ["wind-planner"])
    assert np.isfinite(flown.line("wind-planner").net)


@pytest.mark.parametrize("past", [PAST, None], ids=["history", "none"])
def test_conformance(past):
    world = world_of(wind(48))
    hours = world.moments[:40]
    hc.testing.check_policy(lambda: wind_planner(Setting(world, past)), hours[[*range(12), *range(15, 40)]])


def test_other_steps_have_other_plans():
    assert [plan_rounds(step) for step in (1 / 6, 0.5, 1.0, 3.0, 24.0)] == [72, 24, 12, 4, 4]


def test_policies_get_the_context_they_want():
    world = world_of(wind(30))
    assert contexts_of("wind-planner", world)[0] == world.time[0].astype(np.int64) / 3600
    np.testing.assert_array_equal(contexts_of("gp-md", world), world.hours)
    np.testing.assert_array_equal(contexts_of("planner", world), world.hours)


def test_segments_keep_their_true_times():
    speed = wind(120)
    time = EPOCH + np.r_[0:48, 500:572] * np.timedelta64(3600, "s")
    world = wind_world(time, ALTITUDES, speed, movement="physical")
    found = backtest(Setting(world, PAST), ["wind-planner"], lengths=[48, 72])
    assert np.diff(contexts_of("wind-planner", world)).max() == 453.0
    assert len(found.flights["wind-planner"].actions) == 120


def test_it_comes_first_after_fixed():
    assert flown_by_default()[:2] == ["fixed", "wind-planner"]


def test_any_power_table():
    curve = table_curve([3, 10, 13, 25], [0, 60, 100, 100])
    flown = backtest(Setting(world_of(wind(200), curve=curve), PAST), ["fixed", "wind-planner"])
    assert flown.line("wind-planner").net > 0


def test_windows_are_gapless_and_spread():
    hours = np.r_[0:700, 800:1000, 1010:1020].astype(float)
    parts = _windows(hours, 1.0, 10_000)
    assert [(part.start, part.stop) for part in parts] == [(0, 700), (700, 900)]
    assert [(part.start, part.stop) for part in _windows(np.arange(1000.0), 1.0, 1e9)] == [(0, 960), (960, 1000)]
    assert len(_windows(np.arange(10_000.0), 1.0, 2880)) == 3
    assert len(_windows(np.arange(60_000) / 6, 1 / 6, 2880)) == 3  # hours, whatever the step


def test_finer_data_are_replayed_as_hours():
    hours = np.delete(np.arange(60) / 6, [7, 58])
    found, speed = _hourly(hours, np.arange(58.0)[:, None])
    assert found.tolist() == [0.0, *range(2, 9)]  # hours that are not whole are left out
    assert speed[0, 0] == np.arange(6).mean()
    assert _hourly(np.arange(5.0), np.ones((5, 1)))[0].tolist() == [0, 1, 2, 3, 4]


# -- forecasts ---------------------------------------------------------------------------------------------------------


def flown_with(forecast_of, rounds=240):
    """Net energy of the wind planner with a forecast of 12 hours each round."""
    world = world_of(wind(rounds + 24, seed=5))
    controller = hc.Controller(wind_planner(Setting(world, PAST)), start_index=2)
    before, net = 2, 0.0
    for t in range(rounds):
        decision = controller.ask(float(world.moments[t]), forecast=forecast_of(world, t))
        action = decision.action
        controller.tell(decision.id, float(world.speed[t, action]))
        net += world.energy[t, action] - world.problem.distances[before, action]
        before = action
    return net


@pytest.mark.slow
def test_a_good_forecast_helps_and_a_shuffled_one_does_no_harm():
    shuffle = np.random.default_rng(0)
    plain = flown_with(lambda world, t: None)
    true = flown_with(lambda world, t: world.speed[t + 1 : t + 13])
    noisy = flown_with(lambda world, t: np.column_stack([world.speed[t + 1 : t + 13], np.full(12, 0.3)]))
    shuffled = flown_with(lambda world, t: world.speed[shuffle.integers(0, len(world.speed), 12)])
    assert true > 1.02 * plain
    assert noisy > 1.02 * plain
    assert shuffled > 0.98 * plain
