"""What a model believes to have gained: how wide the interval is, and when nothing is said."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.running import estimates
from holdcourse.running.events import AlarmWindow, Comparison, OpenAlarm, Suspect

NO_ALARMS: dict[str, OpenAlarm] = {}


def watched(offs, size=1.0):
    surprises = None
    for off in offs:
        surprises = estimates.surprised(surprises, float(off), size * float(off))
    return AlarmWindow(surprises=surprises)


def lasting(rng, rounds, memory):
    """Errors of variance 1 that last: each is `memory` of the last one, and chance."""
    errors = [rng.normal()]
    for _ in range(rounds - 1):
        errors.append(memory * errors[-1] + math.sqrt(1 - memory**2) * rng.normal())
    return errors


def test_a_model_that_is_right_is_not_widened_much_and_one_whose_errors_last_fails_its_check():
    rng = np.random.default_rng(0)
    right, wrong = watched(rng.normal(size=1000)), watched(lasting(rng, 1000, 0.95))
    assert 1.0 <= estimates.widening(right.surprises)[0] < 1.5
    assert estimates.trouble(right, NO_ALARMS) is None
    assert estimates.widening(wrong.surprises)[0] > 3.0
    assert "depend on something lasting that the context does not show" in estimates.trouble(wrong, NO_ALARMS)
    narrow = watched(5.0 * rng.normal(size=1000))  # bands that are too narrow
    assert "fails its check: its errors" in estimates.trouble(narrow, NO_ALARMS)


def test_few_rounds_check_nothing_and_many_that_are_long_gone_are_forgotten():
    rng = np.random.default_rng(1)
    assert "39 of 40" in estimates.trouble(watched(rng.normal(size=39)), NO_ALARMS)
    again = watched([*(6.0 * np.ones(60)), *rng.normal(size=3000)])
    assert estimates.widening(again.surprises)[0] < 2.0


def test_a_reading_that_was_learned_though_far_off_is_under_suspicion_until_its_setting_is_as_expected():
    suspect = estimates.suspected(AlarmWindow(), "r3", 2, 12.0, None)
    assert suspect == Suspect("r3", 2)
    window = AlarmWindow(suspect=suspect)
    assert "under suspicion: r3 was" in estimates.trouble(window, NO_ALARMS)
    assert estimates.suspected(window, "r4", 1, 0.1, None) == suspect  # another setting
    assert estimates.suspected(window, "r5", 2, 5.0, None) == suspect
    assert estimates.suspected(window, "r6", 2, 0.1, None) is None
    assert estimates.suspected(AlarmWindow(), "r7", 2, 50.0, 0.0) is None  # the model has set it aside


@pytest.mark.parametrize(("kind", "words"), [("reading", "A reading is"), ("sensor", "The sensor is")])
def test_alarms_about_what_was_measured_withhold_it(kind, words):
    window = watched(np.random.default_rng(2).normal(size=100))
    alarms = {kind: OpenAlarm("now", kind, "look at it")}
    assert estimates.trouble(window, alarms).startswith(f"{words} under suspicion: look at it")


def test_a_model_that_claims_to_be_certain_is_not_believed_more_than_readings_could_show():
    window = watched(np.random.default_rng(3).normal(size=400), size=2.0)
    found = Comparison(saved=300.0, doubt=0.0, rounds=400, estimated=300, readings=100)
    shown = estimates.shown(found, window, None, "150 m")
    assert (shown.high - shown.low) / 2 > 1.96 * 300 * 1.8 / 10
    few = estimates.shown(Comparison(300.0, 0.0, 400, 300, 3), window, None, "150 m")
    assert few.gain is None
    assert few.withheld.startswith("150 m has been measured 3 times")
    same = Comparison(-2.0, 0.0, 50, 0, 0)  # it was there all the time: nothing is estimated
    assert estimates.shown(same, AlarmWindow(), "too few", "150 m").gain == -2.0


@pytest.mark.parametrize("memory", [0.0, 0.6])
def test_the_interval_holds_the_truth_where_the_model_has_learned_both_settings_from_as_many_rounds_as_it_says(memory):
    """The model knows each setting by the mean of some rounds, and its deviation as if they were independent."""
    rng, held, trials, before, rounds = np.random.default_rng(4), 0, 300, 50, 200
    for _ in range(trials):
        errors = np.array(lasting(rng, 2 * before + rounds, memory))
        known = errors[:before].mean(), errors[before : 2 * before].mean()  # of truths that are all 0
        window = watched(errors[2 * before :] - known[1])
        believed = rounds * (known[0] - known[1])
        doubt = rounds * math.sqrt(2 / before)
        shown = estimates.shown(Comparison(believed, doubt, rounds, rounds, before), window, None, "0 m")
        held += shown.low <= 0.0 <= shown.high
    assert held / trials >= 0.93


def test_a_history_that_the_model_has_not_been_moved_by_is_noticed():
    problem = hc.Problem([0.0, 1.0])
    history = hc.History([0, 1] * 20, [0.5] * 40, [1.0, 2.0] * 20)
    learned = hc.gp_md(problem, history=history)
    assert estimates.history_off(learned.costs, history) < 1.5
    certain = hc.gp_md(
        problem,
        kernel=hc.Kernel(RBF(1.0), RBF(1.0), variance=1e-12),
        noise_std=0.1,
        prior_mean=9.0,
    )
    assert estimates.history_off(certain.costs, history) > 3.0
    assert estimates.history_off(hc.stationary(problem).costs, history) is None


def test_what_is_proposed_is_compared_with_what_was_done():
    entry = SimpleNamespace(expected=np.array([5.0, 1.0]), mean=np.array([5.0, 1.0]), std=np.array([0.3, 0.4]))
    booked = estimates.alternative(entry, 6.0, 0, 1, None, 0.5)
    assert (booked.cost, booked.std, booked.movement) == (2.0, 0.5, 0.5)
    found = estimates.compared(None, booked, 6.0, 0.0, ran=False, read=False)
    window = watched(np.random.default_rng(5).normal(size=100), size=0.0)
    assert "ever run" in estimates.shown_proposals(found, window, None, history=0).withheld
    shown = estimates.shown_proposals(found, window, None, history=30)
    assert shown.gain == 3.5
    assert shown.low < 3.5 < shown.high
