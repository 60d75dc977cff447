"""The wind policy beside a machine: asked with the time, told a speed, a profile or nothing, shown forecasts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.errors import Conflict, InvalidInput
from holdcourse.running import audit
from holdcourse.wind.physics import wind_world
from holdcourse.wind.policy.policies import Past, Setting, policy_of
from holdcourse.wind.policy.profiles import forecast_rows, profile_at

ALTITUDES = np.array([60.0, 120.0, 180.0, 240.0, 300.0])
BEGIN = datetime(2022, 4, 1, tzinfo=UTC)
HOUR = BEGIN.timestamp() / 3600
LIDAR = [40.0, 80.0, 160.0, 320.0]


def wind(hours, seed):
    random, tilt = np.random.default_rng(seed), np.zeros(hours)
    for t in range(1, hours):
        tilt[t] = 0.93 * tilt[t - 1] + 1.4 * random.standard_normal()
    return np.maximum(8.0 + tilt[:, None] * np.linspace(-0.9, 0.9, 5) + 0.1 * random.standard_normal((hours, 5)), 0.1)


@pytest.fixture(scope="module")
def policy():
    time = np.datetime64("2022-04-01T00", "s") + np.arange(60) * np.timedelta64(3600, "s")
    world = wind_world(time, ALTITUDES, wind(60, 1), movement="physical")
    before = HOUR - 600.0 + np.arange(590.0)
    return policy_of("wind-planner")(Setting(world, Past(before % 24, wind(590, 2), before)))


@pytest.fixture
def speed():
    return wind(60, 1)


def log_linear(heights, speeds, altitude):
    """The slow twin: between the two heights around the altitude, linear in the logarithm of height."""
    for (low, a), (high, b) in pairwise(zip(heights, speeds, strict=True)):
        if low <= altitude <= high:
            share = (np.log(altitude) - np.log(low)) / (np.log(high) - np.log(low))
            return a + share * (b - a)
    return np.nan


# -- times -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "time",
    [
        BEGIN,
        BEGIN.astimezone(tz=None),
        "2022-04-01T00:00Z",
        "2022-04-01T02:00:00+02:00",
        np.datetime64("2022-04-01T00:00"),
        HOUR,
    ],
    ids=str,
)
def test_it_is_asked_with_the_time(policy, time):
    controller = hc.Controller(policy, start_index=2)
    decision = controller.ask(time)
    assert controller.entry(decision.id).request.context == HOUR


@pytest.mark.parametrize(
    ("time", "message"),
    [
        ("2022-04-01T00:00", "does not say its zone"),
        (datetime(2022, 4, 1), "does not say its zone"),
        ("yesterday", "is not a time; write it like"),
        (np.datetime64("NaT", "s"), "is missing"),
    ],
    ids=str,
)
def test_a_time_that_is_none_is_refused(policy, time, message):
    with pytest.raises(InvalidInput, match=message):
        hc.Controller(policy, start_index=2).ask(time)


def test_other_policies_have_no_times():
    with pytest.raises(InvalidInput, match="context must be a number or a list of numbers"):
        hc.Controller(hc.gp_md(hc.Problem([0.0, 1.0]))).ask("2022-04-01T00:00Z")


# -- profiles ----------------------------------------------------------------------------------------------------------


def test_a_profile_is_interpolated_as_the_loader_does():
    speeds = [5.0, 6.5, 9.0, 8.0]
    expected = [log_linear(LIDAR, speeds, altitude) for altitude in ALTITUDES]
    np.testing.assert_allclose(profile_at(ALTITUDES, LIDAR, speeds), expected)
    data = hc.wind.WindData(
        np.array(["2022-04-01T00:00"], dtype="datetime64[s]"), np.array(LIDAR), np.array([speeds]), hc.wind.Site(), ""
    )
    np.testing.assert_allclose(profile_at(ALTITUDES, LIDAR, speeds), data.at(ALTITUDES)[0])
    upside_down = profile_at(ALTITUDES, LIDAR[::-1], speeds[::-1])
    np.testing.assert_array_equal(upside_down, profile_at(ALTITUDES, LIDAR, speeds))


def test_a_profile_teaches_more_than_one_speed(policy, speed):
    one, whole = hc.Controller(policy, start_index=2), hc.Controller(policy, start_index=2)
    for t in range(6):
        for controller, profile in ((one, None), (whole, (ALTITUDES, speed[t]))):
            decision = controller.ask(HOUR + t)
            controller.tell(decision.id, float(speed[t, decision.action]), profile=profile)
    spread = [controller.model.estimate(HOUR + 6).std for controller in (one, whole)]
    assert (spread[1] <= spread[0] + 1e-12).all()
    assert spread[1].sum() < spread[0].sum()


def test_a_profile_is_learned_as_its_readings_would_be(policy, speed):
    told, model = hc.Controller(policy, start_index=2), policy.costs.copy()
    decision = told.ask(HOUR)
    told.tell(decision.id, None, profile={"heights": LIDAR, "speeds": [7.0, None, 8.5, 9.0]})
    expected = profile_at(ALTITUDES, [40.0, 160.0, 320.0], [7.0, 8.5, 9.0])
    order = [decision.action, *(k for k in range(5) if k != decision.action)]
    for action in order:
        model.learn(action, HOUR, float(expected[action]))
    np.testing.assert_array_equal(told.model.estimate(HOUR + 1).mean, model.estimate(HOUR + 1).mean)
    assert told.entry(decision.id).told[0] == expected[decision.action]


def test_a_profile_that_ends_below_the_machine_still_teaches(policy, tmp_path):
    controller = hc.Controller(policy, start_index=4, limits=hc.Limits(max_step=0.0), log=tmp_path / "kite.log")
    before = controller.model.copy().estimate(HOUR + 1).std
    decision = controller.ask(HOUR)
    controller.tell(decision.id, None, profile=([40.0, 200.0, 400.0], [7.0, 8.0, None]))
    assert controller.entry(decision.id).told[0] is None
    assert (controller.model.estimate(HOUR + 1).std < before).all()
    controller.retract(decision.id, "the lidar was iced up")
    np.testing.assert_array_equal(controller.model.estimate(HOUR + 1).std, before)
    controller.close()
    assert audit.verify(tmp_path / "kite.log").verified


def test_a_profile_without_a_reading_is_nothing(policy):
    controller = hc.Controller(policy, start_index=2)
    decision = controller.ask(HOUR)
    controller.tell(decision.id, None, profile=(LIDAR, [None, float("nan"), None, None]))
    assert controller.entry(decision.id).told == (None, None)


def test_a_wind_speed_below_nothing_is_refused(policy):
    controller = hc.Controller(policy, start_index=2)
    decision = controller.ask(HOUR)
    with pytest.raises(InvalidInput, match="a wind speed must be 0 or more, got -1"):
        controller.tell(decision.id, -1.0)
    controller.tell(decision.id, 0.0)


def test_nothing_told_is_fine(policy):
    controller = hc.Controller(policy, start_index=2)
    for t in range(3):
        controller.tell(controller.ask(HOUR + t).id, None)
    assert controller.round == 3


def test_telling_the_same_profile_again_is_fine_and_another_is_not(policy):
    controller = hc.Controller(policy, start_index=2)
    decision = controller.ask(HOUR)
    controller.tell(decision.id, 8.0, profile=(LIDAR, [7.0, 7.5, 8.5, 9.0]))
    controller.tell(decision.id, 8.0, profile=(LIDAR, [7.0, 7.5, 8.5, 9.0]))
    with pytest.raises(Conflict, match=r"was told with profile \{.*8\.5.*\}, and now with profile \{.*\}; a decision"):
        controller.tell(decision.id, 8.0, profile=(LIDAR, [7.0, 7.5, 8.5, 9.5]))
    with pytest.raises(Conflict, match=r"was told with profile \{.*\}, and now with no profile; a decision"):
        controller.tell(decision.id, 8.0)


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (([40.0, 80.0], [7.0]), "as many speeds as heights"),
        (([40.0, 40.0], [7.0, 8.0]), "given once"),
        (([0.0, 80.0], [7.0, 8.0]), "greater than 0"),
        (([40.0, 80.0], [-7.0, 8.0]), "0 or more"),
        (([40.0, 80.0], ["x", 8.0]), "must be numbers"),
        (([1.0, 8.0], [7.0, 8.0]), "covers none of the settings, 60 to 300 m; its heights are 1 to 8 m"),
        ({"heights": [40.0]}, "a profile has heights and speeds"),
        (3.0, "a pair of lists"),
    ],
    ids=str,
)
def test_a_profile_that_is_none_is_refused_and_changes_nothing(policy, profile, message):
    controller = hc.Controller(policy, start_index=4, limits=hc.Limits(max_step=0.0))
    decision = controller.ask(HOUR)
    with pytest.raises(InvalidInput, match=message):
        controller.tell(decision.id, None, profile=profile)
    assert controller.pending


def test_a_policy_that_learns_from_one_measurement_takes_no_profile():
    controller = hc.Controller(hc.gp_md(hc.Problem([0.0, 1.0])))
    with pytest.raises(InvalidInput, match="one measurement a round"):
        controller.tell(controller.ask(0.1).id, 1.0, profile=([1.0], [2.0]))


def test_a_record_with_profiles_forecasts_and_times_is_proved_by_itself(policy, speed, tmp_path):
    log = tmp_path / "kite.log"
    with hc.Controller(policy, start_index=2, log=log) as controller:
        for t in range(20):
            said = forecast(speed, t) if t % 3 == 0 else None
            decision = controller.ask(
                BEGIN + timedelta(hours=t), forecast=said, within=(None, 250.0) if t > 9 else None
            )
            profile = (ALTITUDES, speed[t]) if t % 2 else None
            controller.tell(decision.id, None if t % 7 == 0 else float(speed[t, decision.action]), profile=profile)
        controller.retract("r5", "the lidar was iced up")
        last = controller.ask(HOUR + 20)
    found = audit.verify(log)
    assert (found.decisions, found.verified) == (21, True), found.differences
    with hc.Controller(policy, start_index=2, log=log) as again:
        assert again.pending[0].action == last.action


def test_what_is_taken_back_takes_the_profile_with_it(policy):
    one, other = hc.Controller(policy, start_index=2), hc.Controller(policy, start_index=2)
    for controller in (one, other):
        decision = controller.ask(HOUR)
        controller.tell(
            decision.id, 25.0 if controller is one else None, profile=(LIDAR, [25.0] * 4) if controller is one else None
        )
    one.retract("r0", "the lidar saw rain")
    np.testing.assert_array_equal(one.model.estimate(HOUR + 1).mean, other.model.estimate(HOUR + 1).mean)


# -- forecasts ---------------------------------------------------------------------------------------------------------


def forecast(speed, t, hours=12, **more):
    times = [(BEGIN + timedelta(hours=t + k)).isoformat() for k in range(hours)]
    return {"times": times, "heights": ALTITUDES.tolist(), "speeds": speed[t : t + hours].tolist(), **more}


def test_a_forecast_of_profiles_is_rows_for_the_rounds_to_come(speed):
    rows = forecast_rows(forecast(speed, 5), ALTITUDES, HOUR + 5, 1.0)
    np.testing.assert_allclose(rows, speed[6:17])
    with_doubt = forecast_rows(forecast(speed, 5, std=0.7), ALTITUDES, HOUR + 5, 1.0)
    np.testing.assert_allclose(np.array(with_doubt)[:, -1], 0.7)
    halves = forecast_rows(forecast(speed, 5), ALTITUDES, HOUR + 5, 0.5)
    np.testing.assert_allclose(halves[0], (speed[5] + speed[6]) / 2)
    earlier = forecast_rows(forecast(speed, 5), ALTITUDES, HOUR + 8.25, 1.0)
    np.testing.assert_allclose(earlier[0], 0.75 * speed[9] + 0.25 * speed[10])


def test_a_forecast_ends_where_it_says_nothing(speed):
    said = forecast(speed, 0)
    said["speeds"][4][4] = None  # nothing is said of the highest
    assert len(forecast_rows(said, ALTITUDES, HOUR, 1.0)) == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"times": ["2022-04-01T00:00"]}, "does not say its zone"),
        ({"speeds": [[1.0] * 5]}, "one row of speeds for each of them"),
        ({"speeds": [[1.0], [1.0, 2.0]]}, "must be numbers, all rows of the same length"),
        ({"heights": [100.0, 200.0, 220.0, 230.0, 250.0]}, "nothing of the forecast can be used"),
        ({"std": -1.0}, "std must be 0 or more"),
        ({"std": [1.0, 2.0]}, "one number or one for each of"),
        ({"other": 1}, "'other' that is not known"),
        ({"heights": [10.0]}, "as many speeds as heights"),
    ],
    ids=str,
)
def test_a_forecast_that_is_none_is_refused(policy, speed, changes, message):
    with pytest.raises(InvalidInput, match=message):
        hc.Controller(policy, start_index=2).ask(HOUR, forecast=forecast(speed, 0) | changes)


def test_a_forecast_of_yesterday_is_refused_with_its_times(policy, speed):
    with pytest.raises(InvalidInput, match=r"the next round is at 2022-04-03T01:00Z .* it covers 2022-04-01T00:00Z to"):
        hc.Controller(policy, start_index=2).ask(HOUR + 48, forecast=forecast(speed, 0))


def test_forecasts_come_from_the_formats_that_we_read(policy):
    data = hc.wind.bundled("test").between("2010-07-01", "2010-07-02")
    controller = hc.Controller(policy, start_index=2)
    decision = controller.ask("2010-07-01T00:00Z", forecast=data.forecast())
    rows = np.array(controller.entry(decision.id).request.forecast)
    np.testing.assert_allclose(rows, data.at(ALTITUDES)[1:], rtol=1e-12)


@pytest.mark.slow
def test_a_right_forecast_is_worth_something(policy):
    """It moves before the wind does: over many hours it makes more than without."""
    hours = 400
    speed = wind(hours, 9)
    power = policy.costs.curve.power
    net = {}
    for shown in (False, True):
        controller, made, here = hc.Controller(policy, start_index=2), 0.0, 2
        for t in range(hours - 13):
            said = None
            if shown:
                times = [HOUR + t + k for k in range(13)]
                said = {"times": times, "heights": ALTITUDES.tolist(), "speeds": speed[t : t + 13].tolist(), "std": 0.3}
            decision = controller.ask(HOUR + t, forecast=said)
            made += float(power(speed[t, decision.action])) - policy.problem.distance(here, decision.action)
            here = decision.action
            controller.tell(decision.id, float(speed[t, here]))
        net[shown] = made
    assert net[True] > 1.005 * net[False]


# -- the airspace ------------------------------------------------------------------------------------------------------


def test_the_airspace_is_obeyed(policy, speed):
    controller = hc.Controller(policy, start_index=4)
    for t in range(20):
        decision = controller.ask(HOUR + t, within=(100.0, 240.0))
        assert 100.0 <= decision.value <= 240.0
        controller.tell(decision.id, float(speed[t, decision.action]))


@pytest.mark.parametrize(
    ("within", "message"),
    [
        ((500.0, 600.0), "no setting lies between 500 and 600"),
        ((None, 1.0), "no setting is 1 or less; the settings go from"),
        ((600.0, 500.0), "the lowest setting and then the highest, got 600 and 500"),
        ((1.0,), "must be the lowest and the highest"),
        ("ab", "must be"),
    ],
    ids=str,
)
def test_an_airspace_without_a_setting_is_refused(policy, within, message):
    with pytest.raises(InvalidInput, match=message):
        hc.Controller(policy, start_index=2).ask(HOUR, within=within)


def test_a_wind_record_cannot_be_replayed_and_says_why(policy, speed, tmp_path):
    with hc.Controller(policy, start_index=2, log=tmp_path / "kite.log") as controller:
        for t in range(3):
            controller.tell(controller.ask(HOUR + t).id, float(speed[t, 2]))
    with pytest.raises(
        InvalidInput, match="cannot be replayed: the model of Wind planner cannot estimate the costs of past rounds"
    ):
        hc.replay(tmp_path / "kite.log", "gp-md")


# -- another price of moving -------------------------------------------------------------------------------------------


def test_the_price_of_moving_changes_in_the_middle_of_a_record(policy, speed, tmp_path):
    """What was learned stays, and so does the proof; the plan comes back to its altitude at the new price."""
    log = tmp_path / "kite.log"
    with hc.Controller(policy, start_index=2, log=log) as controller:
        for t in range(10):
            decision = controller.ask(HOUR + t)
            controller.tell(decision.id, float(speed[t, decision.action]))
        before = controller.model.copy().estimate(HOUR + 10).mean
        controller.change(scale=50.0 * float(policy.problem.scale[0]))
        np.testing.assert_array_equal(controller.model.estimate(HOUR + 10).mean, before)
        ending = np.asarray(controller.policy.rule.ending)
        np.testing.assert_allclose(ending, 50.0 * np.asarray(policy.rule.ending))
        for t in range(10, 20):
            decision = controller.ask(HOUR + t)
            controller.tell(decision.id, None, profile=(ALTITUDES, speed[t]))
    assert audit.verify(log).verified
