"""How often the printed interval of a half-year holds the gain of many years, and that of another half-year.

Years of weeks are put together from the three years that we have, at three prices of moving: stretches of four to eight
weeks, each at its own time of the year, and a gain of every year's own. A backtest sees two and a half years of history
and then half a year. What it prints is compared with the gain of 400 such years, and with those of others.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from holdcourse.backtest.verdict import gain_interval, next_interval
from holdcourse.wind import bundled
from holdcourse.wind.physics import wind_world
from holdcourse.wind.policy.planner import past_weeks, wind_planner
from holdcourse.wind.policy.policies import Past, Setting

pytestmark = pytest.mark.slow

YEAR, HALF, HISTORY = 52, 26, 130  # weeks
OWN = {1.0: 0.3, 10.0: 1.2, 60.0: 0.6}  # deviation of a year's gain in percent, beyond what its weeks explain
TRIALS = 300


@pytest.fixture(scope="module")
def known():
    """What the planner and staying made in every week of three years, by the price of moving."""
    parts = [bundled("history"), bundled("test")]
    altitudes = np.linspace(10.0, 750.0, 25)
    time = np.concatenate([part.time for part in parts])
    speed = np.concatenate([part.onto(altitudes).speed for part in parts])
    hours = time.astype("datetime64[s]").astype(np.int64) / 3600.0
    past = Past(hours % 24.0, speed, hours)
    found = {}
    for rho in OWN:
        setting = Setting(wind_world(time, altitudes, speed, rho=rho), past)
        policy = wind_planner(setting)
        if policy.made_by[1]["caution"] > 100:  # it would stay; what varies is what it would have made
            policy = replace(policy, made_by=("wind-planner", policy.made_by[1] | {"caution": 1.0}))
        pieces = past_weeks(setting, policy)
        found[rho] = tuple(np.concatenate([piece[side] for piece in pieces]) for side in (0, 1))
    return found


def years(weeks, own, count, rng):
    ours, theirs = weeks
    made, stayed, k = np.empty(count * YEAR), np.empty(count * YEAR), 0
    while k < len(made):
        length = min(int(rng.choice([4, 6, 8])), len(made) - k)
        at = int(rng.integers(3)) * YEAR + k % YEAR + int(rng.integers(-5, 6))
        at = int(np.clip(at, 0, len(ours) - length))
        made[k : k + length], stayed[k : k + length] = ours[at : at + length], theirs[at : at + length]
        k += length
    return made + np.repeat(rng.normal(0.0, own, count) / 100, YEAR) * stayed, stayed


def gain(made, stayed):
    return 100 * (made.sum() / stayed.sum() - 1)


@pytest.mark.parametrize("rho", OWN)
def test_the_interval_of_a_half_year_holds_the_gain_of_many_years(known, rho, record_property):
    rng, held, others, before = np.random.default_rng(1), 0, [], 0
    truth = gain(*years(known[rho], OWN[rho], 400, rng))
    for trial in range(TRIALS):
        first = HALF * (trial % 2)
        made, stayed = (part[first : first + HISTORY + HALF] for part in years(known[rho], OWN[rho], 4, rng))
        past, flown = [(made[:HISTORY], stayed[:HISTORY])], (made[HISTORY:], stayed[HISTORY:])
        low, high = gain_interval(*flown, past)
        held += low <= truth <= high
        low, high = next_interval(gain(*flown), low, high)
        made, stayed = years(known[rho], OWN[rho], 1, rng)
        others += [low <= gain(made[part], stayed[part]) <= high for part in (slice(HALF), slice(HALF, YEAR))]
        low, high = gain_interval(*flown, stretch=1.0)
        before += low <= truth <= high
    for name, share in (
        ("many years", held / TRIALS),
        ("another half-year", np.mean(others)),
        ("weeks alone", before / TRIALS),
    ):
        record_property(name, f"{share:.3f}")
        print(f"rho {rho:g}, {name}: {share:.1%}")
    assert 0.92 <= held / TRIALS <= 0.99
    assert 0.90 <= np.mean(others) <= 0.99
    assert before / TRIALS < 0.9  # what the weeks of a half-year say by themselves; of 95 % in 300, 91 % is bad luck
