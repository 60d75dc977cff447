"""The plan ahead in time against trying every way, its limits, and how it keeps forecasts."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.lookahead import cheapest_way
from sklearn.gaussian_process.kernels import RBF, Matern

import holdcourse as hc
from holdcourse.deciding.planning.lookahead import LEADS, IssuedForecasts
from holdcourse.deciding.policy import Policy, lower_bound
from holdcourse.deciding.rules import View
from holdcourse.errors import InvalidInput, NoActionLeft

LINE = hc.Problem([0.0, 1.0, 3.0])
CLIMB = hc.Problem(np.arange(3.0), metric=lambda a, b: 3 * (b - a) if b > a else a - b, directed=True)
KERNEL = hc.Kernel(RBF(0.5), Matern(6.0, nu=0.5)) + hc.Kernel(RBF(0.5), None)


def view_of(table, now=5.0, interval=1.0, allowed=None, forecast=None):
    """A view whose model predicts the rows of a table, one per round from now on."""

    class Predicted:
        def costs_at(self, times):
            rows = np.rint((np.asarray(times)[:, 0] - now) / interval).astype(int)
            return table[rows]

    n = table.shape[1]
    allowed = np.ones(n, dtype=bool) if allowed is None else np.asarray(allowed)
    return View(np.where(allowed, table[0], np.inf), now, allowed, forecast, Predicted())


def temporal(problem=LINE, **options):
    rule = hc.Lookahead(problem, **options)
    model = lower_bound(problem, {"kernel": KERNEL, "noise_std": 0.1, "method": "temporal"})
    return Policy("ahead", rule, model, problem)


@pytest.mark.kernel
@pytest.mark.parametrize("problem", [LINE, CLIMB], ids=["line", "directed"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"caution": 1.7},
        {"caution": 0.3, "ending": [0.0, 0.4, 2.0]},
        {"ending": [1.0, 0.0, 1.0], "discount": 0.8},
        {"max_step_cost": 1.0},
        {"interval": 0.25},
    ],
    ids=lambda options: "+".join(options) or "plain",
)
def test_the_first_step_of_the_cheapest_way(problem, options):
    random = np.random.default_rng(3)
    for _ in range(12):
        table, start = random.exponential(1.0, size=(5, problem.n)), int(random.integers(problem.n))
        rule = hc.Lookahead(problem, horizon=5, **options)
        choice = rule.step(rule.begin(start, 0), view_of(table, interval=rule.interval))
        wanted = {name: value for name, value in options.items() if name != "interval"}
        if "ending" in wanted:
            wanted["ending"] = np.array(wanted["ending"])
        assert choice.action == cheapest_way(table, problem.distances, start, **wanted)[0]
        assert choice.probabilities[choice.action] == 1.0 == choice.probabilities.sum()


def test_a_horizon_of_one_looks_at_this_round_only():
    table = np.array([[1.0, 0.9, 5.0], [9.0, 0.0, 0.0]])
    near, far = (hc.Lookahead(LINE, horizon=h) for h in (1, 2))
    assert near.step(near.begin(0, 0), view_of(table)).action == 0
    assert far.step(far.begin(0, 0), view_of(table)).action == 1


def test_it_says_what_a_move_is_expected_to_save():
    table = np.array([[2.0, 0.0, 9.0], [2.0, 0.0, 9.0]])
    rule = hc.Lookahead(LINE, horizon=2, caution=1.5)
    moved = rule.step(rule.begin(0, 0), view_of(table))
    assert moved.action == 1
    # Staying, it would pay 2 in this round and go in the next one, for 1.5 as it counts ways; going, it saves both.
    assert (moved.prospect.place, moved.prospect.to) == (0, 1)
    assert (moved.prospect.worth, moved.prospect.way) == (pytest.approx(3.5), 1.5)
    stayed = rule.step(rule.begin(1, 0), view_of(table)).prospect
    assert (stayed.place, stayed.to, stayed.worth < stayed.way) == (1, 0, True)
    assert not rule.step(rule.begin(0, 0), view_of(table, allowed=[False, True, True])).prospect.may_stay


def test_without_predictions_the_present_costs_are_taken_to_last():
    rule, view = hc.Lookahead(LINE, horizon=4), View(np.array([0.5, 0.0, 9.0]), 1.0, np.ones(3, dtype=bool))
    assert rule.step(rule.begin(0, 0), view).action == 1


def test_masks_now_and_masks_that_last():
    table = np.array([[1.0, 0.0, 0.5]] * 6)
    rule = hc.Lookahead(LINE, horizon=6)
    state = rule.begin(0, 0)
    for _ in range(8):
        choice = rule.step(state, view_of(table, allowed=[True, False, True]))
        assert choice.action != 1
        state = choice.state
    assert state.arrays["available"][1] < 0.5


def test_nothing_within_reach():
    rule = hc.Lookahead(LINE, max_step=0.5)
    with pytest.raises(NoActionLeft, match=r"within max_step \(0\.5, which costs 0\.5\) of 0;"):
        rule.step(rule.begin(0, 0), view_of(np.ones((12, 3)), allowed=[False, True, True]))


def test_a_model_may_forbid_actions_later_on():
    table = np.zeros((4, 3))
    table[2:, 0] = np.inf
    rule = hc.Lookahead(hc.Problem([0.0, 1.0, 3.0]), horizon=4)
    choice = rule.step(rule.begin(0, 0), view_of(table))
    assert np.isfinite(choice.probabilities).all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"horizon": 0}, "horizon"),
        ({"horizon": 2.5}, "horizon"),
        ({"interval": 0.0}, "interval"),
        ({"max_step": -1.0}, "max_step"),
        ({"caution": -0.1}, "caution"),
        ({"discount": 1.5}, "discount"),
        ({"optimism": np.nan}, "optimism"),
        ({"ending": [1.0]}, "ending must be 3 numbers"),
    ],
)
def test_wrong_options(options, said):
    with pytest.raises(InvalidInput, match=said):
        hc.Lookahead(LINE, **options)


def test_conformance_over_a_posterior_in_time():
    hc.testing.check_policy(lambda: temporal(optimism=0.5), np.cumsum(np.r_[0.0, np.tile([1.0, 2.5], 12)]))


def test_predicting_ahead_does_not_move_the_posterior():
    pilots = [hc.Controller(temporal(horizon=h), start_index=0) for h in (1, 20)]
    for pilot in pilots:
        for t in range(5):
            pilot.tell(pilot.ask(float(t), allowed=[True, False, False]).id, np.sin(t))
    one, other = (pilot.ask(7.0).expected_cost for pilot in pilots)
    np.testing.assert_allclose(one, other)


# -- forecasts ---------------------------------------------------------------------------------------------------------


def test_forecasts_are_kept_until_their_time_and_the_newest_counts():
    heard = IssuedForecasts.nothing(2).with_forecast(10.0, [[1.0, 2.0], [3.0, 4.0]]).with_forecast(11.0, [[5.0, 6.0]])
    outlook = heard.about(np.array([11.0, 12.0, 13.0]), 1.0)
    np.testing.assert_array_equal(outlook.values, [[1.0, 2.0], [5.0, 6.0], [np.nan, np.nan]])
    assert outlook.leads.tolist() == [1, 1, 0]
    said = heard.taken(12.0, 1, 1.0).said[0]
    np.testing.assert_array_equal(said[:4], [12.0, 1.0, 6.0, 4.0])  # one round ahead, and two


def test_forecasts_across_a_gap_keep_their_times():
    heard = IssuedForecasts.nothing(1).with_forecast(0.0, np.arange(1.0, 9.0)[:, None])
    assert heard.about(np.array([5.0, 5.5]), 1.0).values.ravel()[0] == 5.0  # between two hours nothing was said
    assert heard.about(np.array([5.0, 5.5]), 1.0).leads.tolist() == [5, 0]
    assert heard.about(np.array([60.0]), 1.0).leads.tolist() == [0]


def test_a_forecast_may_bring_its_deviation_and_be_longer_than_needed():
    heard = IssuedForecasts.nothing(2).with_forecast(0.0, np.tile([1.0, 2.0, 0.7], (40, 1)))
    outlook = heard.about(np.array([1.0, float(LEADS), LEADS + 1.0]), 1.0)
    np.testing.assert_array_equal(outlook.std, [0.7, 0.7, np.nan])


@pytest.mark.parametrize(
    ("forecast", "said"),
    [
        (np.ones((3, 5)), "3 columns, one per action, or 4 with"),
        (np.full((2, 3), np.nan), "must be finite"),
        ([[1.0, 2.0, 3.0, -1.0]], "deviation of forecast row 0 is -1"),
    ],
)
def test_wrong_forecasts(forecast, said):
    rule = hc.Lookahead(LINE, takes_forecasts=True)
    with pytest.raises(InvalidInput, match=said):
        rule.step(rule.begin(0, 0), view_of(np.ones((12, 3)), forecast=forecast))


def test_a_model_without_forecasts_refuses_them():
    rule = hc.Lookahead(LINE)
    with pytest.raises(InvalidInput, match="takes no forecast"):
        rule.step(rule.begin(0, 0), view_of(np.ones((12, 3)), forecast=[[1.0, 1.0, 1.0]]))
