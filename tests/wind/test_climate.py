"""What is learned from the past: a climate that is known comes back, whatever hours are missing."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.wind.policy.climate import climate_from_data, general_climate, general_profile, learn_climate

ALTITUDES = np.array([50.0, 100.0, 200.0, 400.0])
MODES = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, -1.0, -1.0]]).T / 2
DEVIATIONS, TIME_SCALES = np.array([9.0, 2.0]), np.array([30.0, 6.0])


def synthetic(hours=8000, seed=0, step=1.0, swing=1.0, noise=0.02):
    """Wind of a known climate: a daily wave, two modes that forget at their own pace, a little noise."""
    random = np.random.default_rng(seed)
    times = 350_000.0 + step * np.arange(hours)
    strength = np.empty((hours, 2))
    state = DEVIATIONS * random.standard_normal(2)
    decay = np.exp(-step / TIME_SCALES)
    for t in range(hours):
        strength[t] = state
        state = decay * state + DEVIATIONS * np.sqrt(1 - decay**2) * random.standard_normal(2)
    usual = 9.0 + np.log(ALTITUDES / 100.0) + swing * np.cos(2 * np.pi * times / 24.0)[:, None]
    return times, usual + strength @ MODES.T + noise * random.standard_normal((hours, 4))


def test_a_known_climate_comes_back():
    times, speed = synthetic(40_000)
    climate = learn_climate(times, speed, ALTITUDES)
    assert climate.waves[0] >= 1
    assert np.sqrt(climate.variances[:2]) == pytest.approx(DEVIATIONS, rel=0.15)
    assert climate.time_scales[:2] == pytest.approx(TIME_SCALES, rel=0.2)
    assert np.abs(climate.modes[:, :2].T @ MODES) == pytest.approx(np.eye(2), abs=0.1)
    crest = 24.0 * np.ceil(times[0] / 24.0)
    up, down = climate(np.array([crest, crest + 12.0]))
    assert up - down == pytest.approx(np.full(4, 2.0), abs=0.3)


def test_missing_hours_change_little():
    times, speed = synthetic(12_000)
    whole = learn_climate(times, speed, ALTITUDES)
    kept = np.random.default_rng(1).random(len(times)) < 0.7
    kept[3000:3500] = False
    holey = learn_climate(times[kept], speed[kept], ALTITUDES)
    assert holey.time_scales[:2] == pytest.approx(whole.time_scales[:2], rel=0.15)
    assert holey.variances[:2] == pytest.approx(whole.variances[:2], rel=0.1)


def test_other_steps_than_an_hour():
    times, speed = synthetic(60_000, step=1 / 6)
    assert learn_climate(times, speed, ALTITUDES).time_scales[1] == pytest.approx(TIME_SCALES[1], rel=0.3)
    times, speed = synthetic(6000, step=3.0)
    assert learn_climate(times, speed, ALTITUDES).time_scales[1] == pytest.approx(TIME_SCALES[1], rel=0.3)


def test_waves_are_chosen_by_what_they_predict():
    times, speed = synthetic(8000, swing=0.0)
    assert learn_climate(times, speed, ALTITUDES).waves[1] == 0  # less than a year says nothing of seasons
    times, speed = synthetic(26_000, swing=0.0)
    yearly = 3.0 * np.sin(2 * np.pi * times / 8766.0)[:, None]
    assert learn_climate(times, speed + yearly, ALTITUDES).waves[1] == 1


def test_the_kernel_is_the_covariance_learned():
    climate = learn_climate(*synthetic(3000), ALTITUDES)
    problem = hc.Problem(ALTITUDES)
    _, std = climate.posterior(problem).predict(0.0)
    expected = np.sqrt((climate.modes**2) @ climate.variances + (climate.offsets**2) @ climate.offset_variances)
    np.testing.assert_allclose(std, expected, rtol=1e-9)


def test_equal_climates_are_described_alike_and_others_not():
    climate = learn_climate(*synthetic(2000), ALTITUDES)
    assert json.loads(json.dumps(climate.describe())) == climate.describe()
    assert learn_climate(*synthetic(2000), ALTITUDES).digest == climate.digest
    assert learn_climate(*synthetic(2000, seed=1), ALTITUDES).digest != climate.digest
    for part in fields(climate):
        assert replace(climate, **{part.name: 2.0 * np.asarray(getattr(climate, part.name))}).digest != climate.digest


def off_by(climate):
    """Deviation of the mean profile that is left, m/s."""
    return np.sqrt((climate.offsets**2 @ climate.offset_variances).mean())


def test_the_shorter_the_history_the_nearer_it_is_to_any_site():
    times, speed = synthetic(20_000)
    days, weeks, years = (learn_climate(times[:k], speed[:k], ALTITUDES) for k in (80, 1000, 20_000))
    general, true = general_climate(ALTITUDES), 9.0 + np.log(ALTITUDES / 100.0)
    assert off_by(general) > off_by(days) > off_by(weeks) > off_by(years)
    assert years.usual[0] == pytest.approx(true, abs=0.4)
    any_site = general_profile(ALTITUDES, 8.5)
    assert np.linalg.norm(days.usual[0] - any_site) < 0.7 * np.linalg.norm(speed[:80].mean(axis=0) - any_site)


def test_noise_of_the_history_is_told_from_wind():
    calm, noisy = (learn_climate(*synthetic(9000, noise=noise), ALTITUDES) for noise in (0.02, 1.5))
    assert calm.unexplained < 0.3
    assert noisy.unexplained == pytest.approx(1.5, rel=0.15)
    assert noisy.variances[:2] == pytest.approx(calm.variances[:2], rel=0.15)
    assert noisy.time_scales[:2] == pytest.approx(calm.time_scales[:2], rel=0.25)


def test_climates_are_read_back_equal():
    for climate in (learn_climate(*synthetic(2000), ALTITUDES), general_climate(ALTITUDES, 7.0)):
        assert climate_from_data(json.loads(json.dumps(climate.to_data()))).digest == climate.digest
    old = replace(general_climate(ALTITUDES), offsets=np.empty((4, 0)), offset_variances=np.empty(0))
    assert "offsets" not in old.to_data()
    assert climate_from_data(old.to_data()).offsets.shape == (4, 0)


def test_it_says_what_it_learned():
    words = learn_climate(*synthetic(8000), ALTITUDES).words
    assert "follows the hour of the day" in words
    assert "modes over height" in words


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t, v: (t[:50], v[:50]), "covers 50 hours, but a climate needs 72"),
        (lambda t, v: (t[::-1], v), "hours must ascend"),
        (lambda t, v: (t, np.where(v > v[5, 0], v, np.nan)), "all speeds must be finite"),
        (lambda t, v: (t, v[:, :3]), "one column per altitude"),
        (lambda t, v: (t, np.full_like(v, 7.0)), "never changes"),
        (lambda t, v: (t[0] + np.arange(len(t)) ** 1.3, v), "times of the history or more must have another"),
    ],
    ids=["short", "backwards", "holes", "altitudes", "constant", "no step"],
)
def test_what_cannot_be_learned_from(change, said):
    times, speed = synthetic(400)
    with pytest.raises(InvalidInput, match=said):
        learn_climate(*change(times, speed), ALTITUDES)
