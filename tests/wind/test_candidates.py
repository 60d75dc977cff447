"""Climates side by side: each is the exact filter, a gauge's noise is found out, and a wrong history is dropped."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.wind import bundled
from holdcourse.wind.backtest.run import backtest
from holdcourse.wind.physics import paper_curve, wind_world
from holdcourse.wind.policy.candidates import Candidates
from holdcourse.wind.policy.climate import STRANGE, general_climate, learn_climate, strangeness
from holdcourse.wind.policy.filter import ExpectedEnergy
from holdcourse.wind.policy.planner import wind_planner
from holdcourse.wind.policy.policies import Past, Setting
from holdcourse.wind.policy.profiles import written_time

ALTITUDES = np.array([20.0, 60.0, 150.0, 300.0, 600.0])
PROBLEM = hc.Problem(ALTITUDES, scale=0.01)
GENERAL = general_climate(ALTITUDES)
EPOCH = np.datetime64("2020-01-01T00", "s")


def drawn(rounds, seed=0, climate=GENERAL):
    """Wind of a climate, hourly, (rounds, n)."""
    random = np.random.default_rng(seed)
    vectors, variances, hours = climate.states
    decay = np.exp(-1.0 / hours)
    state = np.sqrt(variances) * random.standard_normal(len(variances))
    found = np.empty((rounds, len(ALTITUDES)))
    for t in range(rounds):
        found[t] = climate(np.array([float(t)]))[0] + vectors @ state
        state = decay * state + np.sqrt(variances * (1 - decay**2)) * random.standard_normal(len(state))
    return np.maximum(found, 0.0)


def told(belief, speed, noise=0.0, seed=1):
    """The filter after a machine that changes its altitude every five hours."""
    random = np.random.default_rng(seed)
    for t, profile in enumerate(speed):
        action = (t // 5) % len(ALTITUDES)
        belief.condition(action, float(t), float(profile[action] + noise * random.standard_normal()))
    return belief


def test_each_is_the_exact_filter():
    speed = drawn(60)
    ours = told(Candidates((GENERAL,), gauge=0.0).posterior(PROBLEM), speed)
    exact = GENERAL.posterior(PROBLEM)
    for t, profile in enumerate(speed):
        action = (t // 5) % len(ALTITUDES)
        exact.condition(action, float(t), float(profile[action] - GENERAL.usual[0, action]))
    for hour in (59.0, 60.0, 71.5, 200.0):
        mean, std = ours.predict(hour)
        expected, deviation = exact.predict(hour)
        np.testing.assert_allclose(mean, expected + GENERAL.usual[0], rtol=1e-7)
        np.testing.assert_allclose(std, deviation, rtol=1e-6)


@pytest.mark.parametrize("noise", [0.0, 1.0, 2.0])
def test_the_noise_of_a_gauge_is_found_out(noise):
    belief = told(Candidates((GENERAL,)).posterior(PROBLEM), drawn(400, seed=2), noise)
    assert belief.noise_std == pytest.approx(noise, abs=0.3)
    stated = told(Candidates((GENERAL,), gauge=1.5).posterior(PROBLEM), drawn(50), noise)
    assert stated.noise_std == pytest.approx(1.5, abs=0.1)


def test_a_wrong_history_is_dropped_for_good_and_a_right_one_never():
    calm = replace(GENERAL, usual=0.5 * GENERAL.usual, variances=0.05 * GENERAL.variances)
    other = replace(GENERAL, usual=GENERAL.usual + 0.5)
    for history, dropped in ((calm, True), (other, False)):
        belief = told(Candidates((history, GENERAL)).posterior(PROBLEM), drawn(500, seed=3))
        assert (belief.climate == 1) is dropped
        assert ("does not fit the history: since 1970-01-" in belief.notice) is dropped
    belief = told(Candidates((calm, GENERAL)).posterior(PROBLEM), drawn(300, seed=3))
    for t, profile in enumerate(drawn(300, seed=4, climate=calm)):
        belief.condition(2, 300.0 + t, float(profile[2]))
    assert belief.climate == 1


@pytest.mark.parametrize(
    ("unit", "stronger"), [(1.0, 0.7), pytest.param(1.0, 1.0, marks=pytest.mark.slow), (1.0, 1.3), (1.94, 1.0)]
)
def test_a_right_history_is_kept_wherever_the_machine_stays_and_one_in_knots_is_not(unit, stronger):
    """Fronts are far out: a climate that expects too little spread must not seem right because of calm days."""
    data = bundled("all")
    past, year = data.between("2009-01-01", "2010-01-01"), data.between("2010-01-01", "2010-07-01")
    heights = np.linspace(10.0, 750.0, 25)
    before, hours = (part.time.astype("datetime64[s]").astype(np.int64) / 3600.0 for part in (past, year))
    learned = learn_climate(before, unit * stronger * past.at(heights), heights)
    candidates = Candidates((learned, general_climate(heights)), gauge=0.0)
    speed = stronger * year.at(heights)
    for action in (0, 3, 8, 16, 24):
        belief = candidates.posterior(hc.Problem(heights, scale=0.01))
        for hour, measured in zip(hours, speed[:, action], strict=True):
            belief.condition(action, float(hour), float(measured))
        assert (belief.climate == 0) is (unit == 1.0), heights[action]


def test_it_goes_on_bit_by_bit():
    candidates = Candidates((replace(GENERAL, usual=0.8 * GENERAL.usual), GENERAL))
    speed = drawn(80, seed=5)
    whole = told(candidates.posterior(PROBLEM), speed)
    half = told(candidates.posterior(PROBLEM), speed[:40])
    again = Candidates.from_data(json.loads(json.dumps(candidates.to_data()))).posterior(PROBLEM).restore(half.state())
    twin = half.copy()
    random = np.random.default_rng(1)
    random.standard_normal(40)
    for t in range(40, 80):
        action = (t // 5) % len(ALTITUDES)
        again.condition(action, float(t), float(speed[t, action] + 0.0 * random.standard_normal()))
    for name, array in whole.state().items():
        assert array.tobytes() == again.state()[name].tobytes(), name
    assert twin.time == 39.0  # a twin is not touched


def test_every_climate_keeps_its_own_account_of_what_altitudes_are_worth():
    """What a wrong history believed must not be left in the account of the climate that takes the lead from it."""
    upside_down = replace(GENERAL, usual=np.ascontiguousarray(GENERAL.usual[:, ::-1]))
    worth, speed = np.array([[5.0, 4.0, 3.0, 2.0, 1.0], np.full(5, 3.0)]), drawn(120, seed=10)
    beside = ExpectedEnergy(Candidates((upside_down, GENERAL), gauge=0.0), PROBLEM, paper_curve(), 1.0, worth, 100.0)
    alone = ExpectedEnergy(Candidates((GENERAL,), gauge=0.0), PROBLEM, paper_curve(), 1.0, worth[1:], 100.0)
    for t, profile in enumerate(speed):
        for model in (beside, alone):
            model.learn((t // 5) % 5, float(t), float(profile[(t // 5) % 5]))
    np.testing.assert_allclose(beside.state()["worth"][1], alone.state()["worth"][0], rtol=1e-9)
    assert np.abs(beside.state()["worth"][0] - beside.state()["worth"][1]).max() > 0.1


def test_what_is_refused():
    belief = told(Candidates((GENERAL,)).posterior(PROBLEM), drawn(3))
    with pytest.raises(
        InvalidInput, match="the time 1970-01-01T01:00Z is before the last measurement, at 1970-01-01T02:00Z"
    ):
        belief.condition(0, 1.0, 8.0)
    with pytest.raises(InvalidInput, match="hours since 1970"):
        belief.predict(np.nan)
    with pytest.raises(InvalidInput, match="gauge_noise must be 0 or more"):
        Candidates((GENERAL,), gauge=-1.0)
    with pytest.raises(InvalidInput, match="means is missing or has another shape"):
        belief.restore({name: array for name, array in belief.state().items() if name != "means"})
    with pytest.raises(InvalidInput, match="number 9 leads"):
        belief.restore(belief.state() | {"leader": np.array(9)})
    with pytest.raises(InvalidInput, match="have the same altitudes"):
        Candidates.from_data(Candidates((GENERAL,)).to_data() | {"altitudes": [1.0]})


def test_a_history_upside_down_is_set_aside_and_said_so():
    speed = drawn(3000, seed=6)
    mean = speed.mean(axis=0)
    assert strangeness(ALTITUDES, mean, 3000.0) < STRANGE < strangeness(ALTITUDES, mean[::-1], 3000.0)
    time = EPOCH + np.arange(600) * np.timedelta64(3600, "s")
    world = wind_world(time, ALTITUDES, drawn(600, seed=7), movement="physical")
    before = 400_000.0 + np.arange(3000.0)
    wrong = Setting(world, Past(before % 24, np.ascontiguousarray(speed[:, ::-1]), before))
    policy = wind_planner(wrong)
    assert "The history is set aside: its mean wind" in policy.explanation
    assert "upside down" in policy.explanation
    flown = backtest(wrong, ["wind-planner"]).flights["wind-planner"].actions
    np.testing.assert_array_equal(flown, backtest(Setting(world), ["wind-planner"]).flights["wind-planner"].actions)


def test_a_history_that_the_wind_contradicts_is_said_in_the_backtest():
    calm = replace(GENERAL, usual=0.4 * GENERAL.usual, variances=0.05 * GENERAL.variances)
    time = EPOCH + np.arange(300) * np.timedelta64(3600, "s")
    world = wind_world(time, ALTITUDES, drawn(300, seed=8), movement="physical")
    before = 400_000.0 + np.arange(2000.0)
    setting = Setting(world, Past(before % 24, drawn(2000, seed=9, climate=calm), before))
    flown = backtest(setting, ["wind-planner"])
    assert "does not fit the history: since 2020-01-" in flown.flights["wind-planner"].explanation


def test_times_are_written_as_people_write_them():
    """Hours since 1970 have six digits before the point, so that a fraction must not be lost."""
    assert written_time(493216.0) == "2026-04-07T16:00Z"
    assert written_time(493216.5) == "2026-04-07T16:30Z"
    assert written_time(493216.0 + 1 / 3600) == "2026-04-07T16:00:01Z"
