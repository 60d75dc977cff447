"""The wind filter against a dense Gaussian, its expected energy against integrals, and what it makes of forecasts."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.lookahead import dense_wind
from scipy.integrate import quad
from scipy.stats import norm

import holdcourse as hc
from holdcourse.deciding.planning.lookahead import LEADS, REMEMBERED, Outlook
from holdcourse.errors import InvalidInput
from holdcourse.wind.machines import machine
from holdcourse.wind.physics import paper_curve, table_curve
from holdcourse.wind.policy.climate import Climate, GeneralWind
from holdcourse.wind.policy.filter import ExpectedEnergy, expected_power

ALTITUDES = np.array([50.0, 100.0, 200.0, 400.0])
PROBLEM = hc.Problem(ALTITUDES, scale=0.05)
CLIMATE = Climate(
    altitudes=ALTITUDES,
    waves=(1, 0),
    usual=np.array([[8.0, 8.6, 9.1, 9.4], [0.5, 0.4, 0.2, 0.0], [0.1, 0.2, 0.3, 0.4]]),
    modes=np.array([[0.5, 0.5, 0.5, 0.5], [0.5, 0.5, -0.5, -0.5]]).T,
    variances=np.array([40.0, 4.0]),
    time_scales=np.array([30.0, 5.0]),
    unexplained=0.2,
    period=(0.0, 1000.0),
)
TOLD = [(1, 100.0, 9.0), (1, 101.0, 9.7), (3, 102.0, 12.5), (0, 109.0, 6.0), (0, 110.5, 5.5)]  # hours are missing


def model_of(wind=CLIMATE):
    return ExpectedEnergy(wind, PROBLEM, paper_curve(), 1.0)


def told(model, measurements=TOLD):
    for action, hour, speed in measurements:
        model.learn(action, hour, speed)
    return model


@pytest.mark.parametrize("hour", [110.5, 111.0, 122.0, 400.0])
def test_it_is_the_gaussian_conditioned_on_what_was_measured(hour):
    estimate = told(model_of()).estimate(hour)
    mean, std = dense_wind(CLIMATE, TOLD, hour)
    np.testing.assert_allclose(estimate.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(estimate.std, std, rtol=1e-6)


def test_before_the_first_measurement_it_is_the_climate():
    estimate = model_of().estimate(50.0)
    np.testing.assert_allclose(estimate.mean, CLIMATE(np.array([50.0]))[0])
    assert estimate.costs.min() == 0.0


@pytest.mark.parametrize(
    "curve",
    [paper_curve(), table_curve([0, 4, 12, 25, 30], [0, 0, 100, 100, 0]), paper_curve(cut_in=3.0)],
    ids=["paper", "table", "cut-in"],
)
def test_expected_power_is_the_integral(curve):
    for mean, std in ((5.0, 2.0), (11.0, 1.5), (12.0, 0.5), (16.0, 3.0), (2.0, 2.0)):
        ends = (mean - 9 * std, mean + 9 * std)
        bends = [knot for knot in (0.0, *curve.knots) if ends[0] < knot < ends[1]]
        exact = quad(
            lambda v, m=mean, s=std: float(curve.power(max(v, 0.0))) * norm.pdf(v, m, s), *ends, points=bends, limit=200
        )[0]
        ours = float(expected_power(curve, np.array(mean), np.array(std)))
        assert ours == pytest.approx(exact, abs=0.012 * float(curve.power(curve.knots).max()))


@pytest.mark.parametrize(
    ("name", "std", "most"),
    [("textbook", 1.5, 0.02), ("textbook", 5.0, 0.06), ("skysails", 1.5, 0.25), ("v3", 0.3, 0.25)],
)
def test_expected_power_where_a_curve_bends_or_ends(name, std, most):
    curve = machine(name).curve
    z = np.linspace(-8.0, 8.0, 8001)
    weights = norm.pdf(z) / norm.pdf(z).sum()
    means = np.arange(0.0, 30.0, 0.5)
    exact = curve.power(np.maximum(means[:, None] + std * z, 0.0)) @ weights
    error = np.abs(expected_power(curve, means, np.full(len(means), std)) - exact).max()
    assert 0.5 * most < error / curve.power(curve.knots).max() < most


def test_expected_power_is_what_samples_make():
    random = np.random.default_rng(0)
    speed = np.maximum(9.0 + 2.5 * random.standard_normal(400_000), 0.0)
    power = paper_curve().power(speed)
    assert float(expected_power(paper_curve(), np.array(9.0), np.array(2.5))) == pytest.approx(power.mean(), rel=0.01)


def test_rows_ahead_are_the_estimates_of_their_hours():
    model = told(model_of())
    hours = np.array([111.0, 113.0, 130.0])
    table = model.costs_at(hours)
    for row, hour in zip(table, hours, strict=True):
        np.testing.assert_allclose(row, model.estimate(hour).costs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("wind", [CLIMATE, GeneralWind(ALTITUDES, 8.5)], ids=["climate", "general"])
def test_conformance(wind):
    hours = 40.0 + np.cumsum([1.0, 1.0, 2.0, 1.0, 5.0, 1.0, 1.0, 0.5])
    hc.testing.check_cost_model(
        lambda: model_of(wind), PROBLEM, hours, measure=lambda action, hour: 8.0 + action + 0.1 * float(hour[0])
    )


def test_hours_never_go_back():
    model = told(model_of())
    with pytest.raises(InvalidInput):
        model.learn(0, 100.0, 7.0)
    with pytest.raises(InvalidInput):
        model.estimate(100.0)


def test_wrong_options_and_states():
    with pytest.raises(InvalidInput, match="scale must be positive"):
        ExpectedEnergy(CLIMATE, PROBLEM, paper_curve(), 0.0)
    with pytest.raises(InvalidInput, match="not a saved state of a wind filter"):
        model_of().restore({})


def test_wind_grows_with_height_where_nothing_is_known():
    profile = GeneralWind(ALTITUDES, 8.5)(np.zeros(1))[0]
    assert (np.diff(profile) > 0).all()
    assert profile[0] < 8.5 < profile[-1]
    high = GeneralWind(np.array([100.0, 300.0, 500.0]), 8.5)(np.zeros(1))[0]
    assert high[0] < high[1] == high[2]
    np.testing.assert_array_equal(GeneralWind(ALTITUDES, profile + 1.0)(np.zeros(2))[1], profile + 1.0)


# -- forecasts ---------------------------------------------------------------------------------------------------------


def outlook_of(values, lead=3, std=np.nan, errors=(), model=None):
    """An outlook on one hour, after past forecasts that were off by `errors`, newest first."""
    said = np.full((REMEMBERED, 2 + LEADS), np.nan)
    if model is not None:
        # What was told has no public name.
        for k, (error, (time, action, speed)) in enumerate(zip(errors, model._told, strict=False)):
            said[k, :2], said[k, 2:] = (time, action), speed + error
    return Outlook(np.atleast_2d(values), np.array([lead]), np.array([std]), said)


def flown(rounds=40):
    return told(model_of(), [(1, 100.0 + t, 9.0 + np.sin(t)) for t in range(rounds)])


def test_a_forecast_that_was_right_is_believed():
    model, values = flown(), np.array([4.0, 5.0, 11.5, 6.0])
    costs = model.costs_at_outlook([[145.0]], outlook_of(values, errors=[0.01] * 40, model=model))[0]
    assert int(np.argmin(costs)) == 2
    sure = paper_curve().power(values)
    assert costs[1] == pytest.approx(sure.max() - sure[1], rel=0.15)


def test_a_forecast_that_was_wrong_is_ignored():
    model = flown()
    wrong = outlook_of([4.0, 5.0, 11.5, 6.0], errors=[9.0, -9.0] * 20, model=model)
    np.testing.assert_allclose(model.costs_at_outlook([[145.0]], wrong), model.costs_at([[145.0]]))


def test_before_any_comparison_it_is_believed_as_far_as_it_claims():
    model, plain = flown(), flown().costs_at([[145.0]])[0]
    values = [4.0, 5.0, 11.5, 6.0]
    sure, unsure, silent = (
        model.costs_at_outlook([[145.0]], outlook_of(values, std=std))[0] for std in (0.1, 50.0, np.nan)
    )
    np.testing.assert_allclose(unsure, plain)
    assert np.abs(sure - plain).max() > np.abs(silent - plain).max() > 1.0


def test_other_actions_than_the_one_forecast_are_not_compared():
    model = flown()
    outlook = outlook_of([4.0, 5.0, 11.5, 6.0], errors=[0.01] * 40, model=model)
    outlook.said[:, 1] = 2.0
    silent = model.costs_at_outlook([[145.0]], outlook_of([4.0, 5.0, 11.5, 6.0]))
    np.testing.assert_allclose(model.costs_at_outlook([[145.0]], outlook), silent)
