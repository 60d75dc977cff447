"""The check of a model on readings that it has not seen: against a slow twin, and what it says of known histories."""

from __future__ import annotations

import json

import numpy as np
import pytest
from oracles.blocked_check import blocked_check
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.learning.checking.words import FEWEST

PROBLEM = hc.Problem(np.linspace(4.0, 12.0, 9))
KERNEL = hc.Kernel(RBF(3.0), RBF([10.0, 30.0]), variance=400.0)
NOISE = 2.0
COUNT = 100  # readings of the history that most tests look at


def history_of(t, seed=0, actions=None, noise=NOISE):
    """A plant whose draw depends on setting and outdoor temperature, and not on the humidity beside it."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(9, size=t)
    chosen = chosen if actions is None else np.asarray(actions)
    outdoor, humidity = rng.uniform(5.0, 35.0, size=t), rng.uniform(20.0, 90.0, size=t)
    drawn = 60.0 + 1.5 * outdoor + 0.8 * (PROBLEM.actions[chosen, 0] - 12.0 + 0.2 * outdoor) ** 2
    return hc.History(chosen, np.stack([outdoor, humidity], axis=1), drawn + rng.normal(0.0, noise, size=t))


def without_gaps():
    """A history that tries every setting equally often."""
    return history_of(COUNT, actions=np.arange(COUNT) % 9)


def drawn_from(kernel, t, noise, seed):
    """Readings drawn from a Gaussian process, in random settings and contexts."""
    rng = np.random.default_rng(seed)
    actions, contexts = rng.integers(9, size=t), rng.uniform([0.0, 0.0], [40.0, 100.0], size=(t, 2))
    covariance = kernel.covariance(PROBLEM, actions, contexts) + 1e-8 * np.eye(t)
    values = 300.0 + np.linalg.cholesky(covariance) @ rng.normal(size=t)
    return hc.History(actions, contexts, values + rng.normal(0.0, noise, size=t))


@pytest.fixture(scope="module")
def fitted():
    return hc.check_model(PROBLEM, without_gaps(), context_names=["outdoor", "humidity"])


@pytest.mark.parametrize("folds", [2, 5, 7])
def test_agrees_with_explicit_loops(folds):
    history = history_of(53)
    check = hc.check_model(PROBLEM, history, folds=folds, kernel=KERNEL, noise_std=NOISE, prior_mean=90.0)
    slow = blocked_check(PROBLEM, history, KERNEL, NOISE, 90.0, folds)
    assert len(check.wrong) == 0
    assert check.fold.tolist() == slow["fold"].tolist()
    for name in ("predicted", "deviation", "by_constant", "by_setting"):
        np.testing.assert_allclose(getattr(check, name), slow[name], rtol=1e-8, err_msg=name)
    for name in ("explained", "explained_beyond_settings", "error"):
        assert getattr(check, name) == pytest.approx(slow[name], rel=1e-8), name
    assert check.coverage == pytest.approx(slow["held"])
    np.testing.assert_allclose(check.high - check.low, 2 * 1.96 * slow["deviation"], rtol=1e-8)


def test_a_block_is_predicted_as_recommended_would():
    """With nothing given, the first block is predicted by what `posterior` learns from the rest."""
    history = history_of(60)
    check = hc.check_model(PROBLEM, history)
    rest = hc.History(history.actions[12:], history.contexts[12:], history.measurements[12:])
    mean, _ = hc.posterior(PROBLEM, "auto", history=rest).predict_at(history.contexts[:12])
    np.testing.assert_allclose(check.predicted[:12], mean[np.arange(12), history.actions[:12]], rtol=1e-9)


def test_bands_of_a_process_hold_what_they_should():
    """The kernel is the true one: over 600 readings, shares within three deviations of nominal."""
    history = drawn_from(KERNEL, 600, NOISE, seed=1)
    given = hc.check_model(PROBLEM, history, kernel=KERNEL, noise_std=NOISE, prior_mean=300.0)
    for share, held in given.coverage.items():
        assert held == pytest.approx(share, abs=3 * np.sqrt(share * (1 - share) / 600))
    assert given.explained > 0.9


def test_bands_of_a_fitted_model_are_near(fitted):
    assert fitted.coverage[0.95] > 0.88
    assert 0.35 < fitted.coverage[0.5] < 0.7
    assert fitted.explained > 0.9
    assert fitted.error < 2 * NOISE
    assert fitted.explained_beyond_settings > 0.8
    assert str(fitted).startswith("Each of 5 blocks of the 100 readings was predicted from the others: the model expl")


def test_a_useless_axis_is_named_as_useless(fitted):
    outdoor, humidity = fitted.contexts
    assert outdoor.visible
    assert outdoor.growth > 1.0
    assert not humidity.visible
    assert humidity.length_scale / (humidity.high - humidity.low) > outdoor.length_scale / (outdoor.high - outdoor.low)
    assert fitted.settings[0].visible
    assert "Humidity makes no visible difference here." in fitted.words
    assert any(words.startswith("The cost depends on outdoor (errors ") for words in fitted.words)


def test_the_clock_of_hourly_readings_has_no_gaps():
    """Sine and cosine of whole hours lie apart by more than a tenth of their range around zero."""
    hours = np.arange(24 * 10)
    clock = np.stack([np.sin(2 * np.pi * hours / 24), np.cos(2 * np.pi * hours / 24)], axis=1)
    rng = np.random.default_rng(0)
    history = hc.History(rng.integers(PROBLEM.n, size=240), clock, 5 + clock[:, 0] + rng.normal(0, 0.1, 240))
    assert hc.check_model(PROBLEM, history).gaps == ()


def test_a_history_without_gaps_leaves_nothing_unknown(fitted):
    assert len(fitted.never) == len(fitted.hardly) == len(fitted.unsure) == 0
    assert fitted.corners == ()
    assert fitted.gaps == ()
    assert max(fitted.together) < 0.2
    assert len(fitted.wrong) == 0


@pytest.mark.parametrize(
    ("row", "reading"),
    [(0, 1e6), *(pytest.param(*other, marks=pytest.mark.slow) for other in ((57, 1e6), (COUNT - 1, 0.01)))],
)
def test_one_wrong_reading_is_found_and_moves_no_figure(fitted, row, reading):
    right = without_gaps()
    readings = right.measurements.copy()
    readings[row] = reading
    check = hc.check_model(PROBLEM, hc.History(right.actions, right.contexts, readings))
    assert check.wrong.tolist() == [row]
    assert check.predicted[row] == pytest.approx(right.measurements[row], rel=0.2)
    assert check.explained == pytest.approx(fitted.explained, abs=0.05)
    assert check.error == pytest.approx(fitted.error, rel=0.25)
    (words,) = (words for words in check.words if "wrong" in words)
    assert words.startswith(f"1 reading looks wrong: row {row} ({'1,000,000' if reading > 1 else '0.01'} where about ")


@pytest.mark.slow
def test_many_wrong_readings_that_pass_for_noise_are_found():
    """One in twenty is off by a factor of ten; the model may take them for noise, the check does not."""
    right = history_of(200)
    readings = right.measurements.copy()
    rows = np.random.default_rng(5).choice(200, 10, replace=False)
    readings[rows] *= 10.0
    check = hc.check_model(PROBLEM, hc.History(right.actions, right.contexts, readings))
    assert sorted(check.wrong) == sorted(rows)


def test_a_one_sided_history_says_so():
    """Operators ran 8.0 nearly always, 9.0 in the heat, and nothing else."""
    plain = history_of(160)
    chosen = np.where(plain.contexts[:, 0] > 31.0, 5, 4)
    check = hc.check_model(PROBLEM, history_of(160, actions=chosen), context_names=["outdoor", "humidity"])
    assert check.never.tolist() == [0, 1, 2, 3, 6, 7, 8]
    assert {0, 1, 8} <= set(check.unsure) <= {*check.never, 5}  # 9.0 is known in the heat, which is not typical
    assert [(corner.action, corner.axis) for corner in check.corners] == [(5, "outdoor")]
    assert check.corners[0].low > 30.0
    assert check.together[0] > 0.5 > check.together[1]
    said = str(check)
    assert "7 of 9 settings were never tried: what they cost is a guess from their neighbours" in said
    assert "of the readings are at one setting (8)." in said
    assert "1 setting was tried only in a narrow range of conditions: 9 at outdoor 31" in said
    assert "Settings were changed together with outdoor, so nobody can tell which of them made the difference." in said


def test_one_setting_only():
    check = hc.check_model(PROBLEM, history_of(40, actions=np.full(40, 3)))
    assert "Only one of 9 settings was ever measured (7): this history cannot tell what the others cost." in check.words
    assert check.together == (0.0, 0.0)


def test_ranges_that_were_hardly_measured():
    full = history_of(200)
    rows = (full.contexts[:, 0] < 14.0) | (full.contexts[:, 0] > 23.0)
    history = hc.History(full.actions[rows], full.contexts[rows], full.measurements[rows])
    check = hc.check_model(PROBLEM, history, context_names=["outdoor", "humidity"])
    (gap,) = check.gaps
    assert (gap.axis, gap.readings) == ("outdoor", 0)
    assert 13.5 < gap.low < gap.high < 23.5
    assert any(words.startswith("Hardly anything was measured at outdoor 14") for words in check.words)


@pytest.mark.parametrize(
    "measured",
    ["without noise", "huge", *(pytest.param(each, marks=pytest.mark.slow) for each in ("alike", "negative", "tiny"))],
)
def test_readings_of_any_size(measured):
    rng = np.random.default_rng(0)
    actions, load = rng.integers(9, size=40), rng.uniform(size=40)
    sizes = {
        "alike": np.full(40, 5.0),
        "without noise": (actions / 4 - 2 * load) ** 2,
        "negative": -100.0 + actions + load + 0.1 * rng.normal(size=40),
        "tiny": 1e-9 * (5.0 + actions + load) + 1e-11 * rng.normal(size=40),
        "huge": 1e12 * (5.0 + actions) + 1e9 * rng.normal(size=40),
    }
    check = hc.check_model(PROBLEM, hc.History(actions, load, sizes[measured]))
    assert len(check.wrong) == 0
    assert json.dumps(check.as_values(), allow_nan=False)
    if measured == "alike":
        assert "all are alike, so there is nothing to explain." in check.words[0]
    else:
        assert check.explained > 0.9


def test_noise_alone_teaches_nothing():
    rng = np.random.default_rng(2)
    history = hc.History(rng.integers(9, size=80), rng.uniform(size=80), 100.0 + rng.normal(size=80))
    check = hc.check_model(PROBLEM, history)
    assert check.explained < 0.1
    assert not check.contexts[0].visible


@pytest.mark.parametrize("t", [0, 1, FEWEST - 1])
def test_few_readings_are_said_to_be_few(t):
    check = hc.check_model(PROBLEM, history_of(t) if t else [])
    assert not check.enough
    assert len(check.predicted) == 0
    assert np.isnan(check.explained)
    assert "too few to check a model: that takes 20 or more." in check.words[0]
    assert json.loads(json.dumps(check.as_values(), allow_nan=False))["explained"] is None


def test_fewest_readings_are_checked():
    assert hc.check_model(PROBLEM, history_of(FEWEST)).enough


@pytest.mark.parametrize("contexts", ["none", "constant"])
def test_contexts_that_say_nothing(contexts):
    plain = history_of(45)
    shown = np.zeros((45, 0)) if contexts == "none" else np.ones((45, 1))
    check = hc.check_model(PROBLEM, hc.History(plain.actions, shown, plain.measurements))
    assert check.enough
    assert ("Context never changed, so its effect cannot be known." in check.words) == (contexts == "constant")


def test_settings_without_coordinates():
    names = ["low", "mid", "high"]
    problem = hc.Problem(None, [[0, 1, 2], [1, 0, 1], [2, 1, 0]], labels=names)
    rng = np.random.default_rng(1)
    actions, load = rng.choice([0, 2], size=60), rng.uniform(size=60)
    check = hc.check_model(problem, hc.History(actions, load, 5.0 + 3.0 * load + actions + 0.1 * rng.normal(size=60)))
    assert check.never.tolist() == [1]
    assert "1 of 3 settings was never tried" in str(check)
    assert check.settings[0].visible


def test_a_circle_has_the_length_scale_of_its_shorter_coordinate():
    kernel = hc.Kernel(RBF(0.3), RBF([5.0, 4.0, 3.0]), context_scale=[1.0, 2.0], context_period=[None, 24.0])
    random = np.random.default_rng(0)
    contexts = np.column_stack([random.random(60), random.uniform(0.0, 24.0, 60)])
    history = hc.History(random.integers(PROBLEM.n, size=60), contexts, random.normal(90.0, 1.0, 60))
    check = hc.check_model(PROBLEM, history, kernel=kernel, noise_std=NOISE, prior_mean=90.0)
    assert [axis.length_scale for axis in check.contexts] == [5.0, 6.0]


def test_twice_gives_the_same_to_the_last_bit(fitted):
    again = hc.check_model(PROBLEM, without_gaps(), context_names=["outdoor", "humidity"])
    assert json.dumps(again.as_values()) == json.dumps(fitted.as_values())


def test_values_are_json(fitted):
    values = json.loads(json.dumps(fitted.as_values(), allow_nan=False))
    assert values["readings"] == len(values["predicted"]) == len(values["measured"]) == COUNT
    assert values["coverage"]["0.95"] == fitted.coverage[0.95]
    assert values["words"] == list(fitted.words)
    assert repr(fitted).startswith("ModelCheck(100 readings, explains 9")


def test_progress_is_told():
    told = []
    hc.check_model(PROBLEM, history_of(30), folds=3, progress=lambda done, of: told.append((done, of)))
    assert told == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 1}, "folds must be .*2 or more.*got 1"),
        ({"folds": 2.5}, "folds must be .*got 2.5"),
        ({"folds": 50}, "folds must be at most 20, because a model is fitted for each; got 50"),
        ({"context_names": ["outdoor"]}, "context_names must be 2 names, one for each number of a context"),
        ({"context_names": "outdoor"}, "context_names must be a list of 2 names, got 'outdoor'"),
        ({"kernel": "rbf"}, "kernel 'rbf' is not known"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(InvalidInput, match=message):
        hc.check_model(PROBLEM, history_of(30), **options)


def test_a_history_of_another_problem_is_refused():
    with pytest.raises(InvalidInput, match=r"belongs to action 8, but the actions are numbered from 0 to 2"):
        hc.check_model(hc.Problem([0.0, 1.0, 2.0]), hc.History([8], [0.0], [1.0]))
