"""Rolling-origin calibration: on weeks and years whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from holdcourse.wind.backtest.bankable import LEVELS, exceeded
from holdcourse.wind.backtest.calibration import Calibration, calibration_words, gains_inside, next_gain, reached_levels


def test_intervals_hold_as_often_as_they_say():
    """Independent weeks: the gain of the next half-year lies inside in 95 % of cases, also for ten batches."""
    random, held, tried = np.random.default_rng(0), 0, 0
    for _ in range(300):
        fixed = random.normal(100.0, 20.0, 130)
        ours = fixed * random.normal(1.03, 0.05, 130)
        found = gains_inside(ours, fixed)
        held, tried = held + found.held, tried + found.tried
    assert held / tried == pytest.approx(0.95, abs=0.02)


def test_years_are_reached_as_often_as_was_said():
    random = np.random.default_rng(1)
    counts = np.zeros((3, 2))
    for _ in range(400):
        counts += [(each.held, each.tried) for each in reached_levels(random.normal(100, 8, 12), LEVELS, exceeded)]
    assert counts[:, 0] / counts[:, 1] == pytest.approx(LEVELS, abs=0.02)


def test_origins_roll_by_a_quarter():
    weeks = np.ones(156)
    found = gains_inside(1.1 * weeks, weeks)
    assert (found.tried, found.apart, found.held) == (7, 4, 7)
    assert gains_inside(weeks[:77], weeks[:77]) is None
    jump = np.concatenate([1.1 * weeks[:104], 2.0 * weeks[104:]])  # nobody could have known
    assert gains_inside(jump, weeks).held < 7


def test_the_interval_by_hand():
    ours, theirs = np.array([1.0] * 10 + [3.0] * 10), np.full(20, 1.0)
    # The gain is 100 %; ten weeks lie 100 points around it; Student with one degree of freedom.
    low, high = next_gain(ours, theirs, 20)
    deviation = np.sqrt(2 * 100.0**2 / 1 * (10 / 20 + 10 / 20))
    assert (low, high) == (
        pytest.approx(100 - 12.7062 * deviation, rel=1e-4),
        pytest.approx(100 + 12.7062 * deviation, rel=1e-4),
    )
    assert next_gain(ours[:15], theirs[:15], 26) == (-np.inf, np.inf)


def test_words_say_how_little_few_years_show():
    few = [Calibration("P90", 0.9, 1, 1, 1), Calibration("gain", 0.95, 7, 7, 4)]
    said = " ".join(calibration_words(few))
    assert "P90 in 1 of 1" in said
    assert "7 of 7 cases, of which 4 do not overlap" in said
    assert said.endswith("P90 could be checked in only 1 case, which is too few to say whether it is right.")
    assert calibration_words([Calibration("gain", 0.95, 1, 1, 1)])[0].endswith("before it in 1 of 1 case.")
    gains = calibration_words([Calibration("gain", 0.95, 3, 3, 2)])
    assert gains[-1].startswith("The interval of the gain could be checked in only 2 independent cases, which are too")
    many = [Calibration("P90", 0.9, 18, 20, 20)]
    assert calibration_words(many) == [
        "As a check, each year was compared with what the years before it predicted. It reached P90 in 18 of 20."
    ]
    assert calibration_words([]) == []
