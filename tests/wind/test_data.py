from __future__ import annotations

import numpy as np
import pytest

from holdcourse.errors import InvalidInput
from holdcourse.wind.files.data import Site, WindData, interpolate

HEIGHTS = [10.0, 50.0, 200.0]


def hours(count: int, start: str = "2020-01-01T00:00") -> np.ndarray:
    return np.datetime64(start, "s") + 3600 * np.arange(count)


def made(count: int = 6, **changes: object) -> WindData:
    values = {"time": hours(count), "heights": HEIGHTS, "speed": np.arange(count)[:, None] + np.array([1.0, 2.0, 4.0])}
    return WindData(**(values | changes))  # type: ignore[arg-type]


def test_interpolation_is_linear_in_the_logarithm_of_height() -> None:
    wanted = np.array([10.0, 20.0, 50.0, 123.4, 200.0])
    data = made()
    expected = np.empty((6, 5))
    for t in range(6):
        for n, z in enumerate(wanted):
            low, high = (0, 1) if z <= 50 else (1, 2)
            share = np.log(z / HEIGHTS[low]) / np.log(HEIGHTS[high] / HEIGHTS[low])
            expected[t, n] = (1 - share) * data.speed[t, low] + share * data.speed[t, high]
    np.testing.assert_allclose(data.at(wanted), expected, rtol=1e-12)
    onto = data.onto(wanted)
    np.testing.assert_allclose(onto.speed, expected, rtol=1e-12)
    assert onto.heights.tolist() == wanted.tolist()


def test_moving_levels_are_interpolated_at_their_own_heights() -> None:
    rising = np.array([[20.0, 100.0], [40.0, 200.0]])
    data = WindData(hours(2), [30.0, 150.0], [[2.0, 6.0], [2.0, 6.0]], level_heights=rising)
    expected = [[2 + 4 * np.log(h / a) / np.log(b / a)] for h, (a, b) in zip([60.0, 60.0], rising, strict=True)]
    np.testing.assert_allclose(data.at([60.0]), expected, rtol=1e-12)
    with pytest.raises(InvalidInput, match=r"altitude 30 m lies outside the heights, 40\.0 to 100\.0 m"):
        data.at([30.0])


def test_an_altitude_outside_is_an_error_or_clamped() -> None:
    data = made()
    with pytest.raises(InvalidInput, match=r"altitude 5 m lies outside the heights, 10\.0 to 200\.0 m.*clamp"):
        data.at([5.0, 100.0])
    clamped = data.at([5.0, 300.0], outside="clamp")
    np.testing.assert_array_equal(clamped, data.speed[:, [0, 2]])
    with pytest.raises(InvalidInput, match="outside must be"):
        data.at([20.0], outside="guess")  # type: ignore[arg-type]
    for wrong in ([0.0], [-1.0], [np.nan], [], [[10.0]]):
        with pytest.raises(InvalidInput, match="altitudes must be"):
            data.at(wrong)


def test_a_hole_between_heights_is_bridged_and_at_the_end_stays_missing() -> None:
    speed = np.array([[1.0, np.nan, 4.0], [1.0, 2.0, np.nan], [np.nan] * 3])
    data = made(3, speed=speed)
    found = data.at([50.0, 150.0])
    share = np.log(5.0) / np.log(20.0)
    assert found[0, 0] == pytest.approx(1 + 3 * share)
    assert np.isfinite(found[0, 1])
    assert found[1, 0] == 2.0
    assert np.isnan(found[1, 1])
    assert np.isnan(found[2]).all()


def test_gaps_are_filled_up_to_the_limit_and_longer_ones_end_the_segment() -> None:
    present = np.array([0, 1, 4, 5, 9, 10])  # 2 hours missing, then 3
    speed = np.stack([present * 1.0, present * 2.0, present * 3.0], axis=1) + 1.0
    data = WindData(hours(11)[present], HEIGHTS, speed)
    assert [gap.hours for gap in data.gaps] == [2.0, 3.0]
    whole = data.segments(max_gap=3)
    assert len(whole) == 1
    np.testing.assert_allclose(whole[0].speed[:, 0], np.arange(11) + 1.0)
    np.testing.assert_array_equal(whole[0].time, hours(11))
    two = data.segments(max_gap=2)
    assert [len(part) for part in two] == [6, 2]
    np.testing.assert_allclose(two[0].speed[:, 1], 2.0 * np.arange(6) + 1.0)
    assert [len(part) for part in data.segments(max_gap=0)] == [2, 2, 2]
    with pytest.raises(InvalidInput, match="max_gap"):
        data.segments(-1)


def test_a_missing_speed_is_a_gap_of_its_height() -> None:
    speed = np.ones((10, 3))
    speed[3:5, 1] = np.nan
    data = made(10, speed=speed)
    assert [len(part) for part in data.segments(max_gap=1)] == [3, 5]
    (whole,) = data.segments(max_gap=2)
    assert np.isfinite(whole.speed).all()
    # Below the hole nothing is missing.
    assert [len(part) for part in data.onto([10.0, 20.0]).segments(max_gap=0)] == [10]


def test_a_level_below_ground_is_no_gap() -> None:
    rising = np.array([[np.nan, 100.0], [50.0, 150.0], [60.0, 160.0]])
    data = WindData(hours(3), [55.0, 150.0], [[np.nan, 5.0], [3.0, 5.0], [3.0, 5.0]], level_heights=rising)
    assert not data.missing.any()
    assert [len(part) for part in data.segments()] == [3]


def test_one_outlying_time_does_not_fill_memory() -> None:
    times = np.concatenate([hours(3, "1901-01-01T00:00"), hours(3)])
    data = WindData(times, HEIGHTS, np.ones((6, 3)))
    assert [len(part) for part in data.segments(24)] == [3, 3]


def test_ten_minute_values_become_hourly_means() -> None:
    times = np.datetime64("2020-01-01T00:00", "s") + 600 * np.arange(18)
    speed = np.arange(18.0)[:, None] * np.ones(3)
    speed[6:10] = np.nan  # a third of the second hour is left
    data = WindData(times, HEIGHTS, speed)
    assert data.step == pytest.approx(1 / 6)
    found = data.hourly()
    assert found.time.tolist() == [hours(3)[0].item(), hours(3)[2].item()]
    np.testing.assert_allclose(found.speed[:, 0], [2.5, 14.5])
    np.testing.assert_allclose(data.hourly(min_share=0.3).speed[:, 0], [2.5, 10.5, 14.5])
    same = made()
    assert same.hourly() is same
    with pytest.raises(InvalidInput, match="every 3 hours"):
        WindData(hours(9)[::3], HEIGHTS, np.ones((3, 3))).hourly()


def test_a_part_of_the_period() -> None:
    data = made(6)
    assert len(data.between("2020-01-01T02", "2020-01-01T04")) == 2
    assert len(data.between(end="2020-01-01T02:00")) == 2
    with pytest.raises(InvalidInput, match="no time from 2021-01-01 on: the data cover"):
        data.between("2021-01-01")
    with pytest.raises(InvalidInput, match="is not a time"):
        data.between("soon")


def test_what_is_no_record_is_refused() -> None:
    cases = [
        ({"time": hours(6)[::-1]}, "times must ascend"),
        ({"time": hours(6)[[0, 0, 1, 2, 3, 4]]}, "times must ascend"),
        ({"heights": [50.0, 10.0, 200.0]}, "heights must be ascending"),
        ({"heights": [0.0, 10.0, 200.0]}, "heights must be ascending"),
        ({"speed": np.ones((6, 2))}, "shape"),
        ({"speed": np.full((6, 3), -1.0)}, "not a wind speed"),
        ({"speed": np.full((6, 3), 1e30)}, "not a wind speed"),
        ({"speed": np.full((6, 3), np.inf)}, "not a wind speed"),
        ({"level_heights": np.full((6, 3), -5.0)}, "below ground"),
    ]
    for change, message in cases:
        with pytest.raises(InvalidInput, match=message):
            made(**change)
    with pytest.raises(ValueError):
        made().speed[0, 0] = 3.0


def test_a_record_shows_what_it_is() -> None:
    assert str(Site(53.32, -9.92, "Mace Head")) == "Mace Head (53.32 N, 9.92 W)"
    assert str(Site()) == "site not stated"
    assert "6 times" in repr(made())
    assert made(1).step == 1.0


@pytest.mark.parametrize("clamp", [True, False])
def test_all_rows_at_once_are_interpolated_as_row_by_row(clamp: bool) -> None:
    random = np.random.default_rng(4)
    heights = np.round(np.exp(random.normal(5.0, 1.0, (300, 5))), -1) + 10.0  # some twice in a row
    speed = random.random((300, 5)) * 20.0
    speed[random.random((300, 5)) < 0.4] = np.nan
    speed[7] = np.nan
    wanted = np.log(np.append(heights[0], [15.0, 80.0, 900.0]))
    expected = np.full((300, len(wanted)), np.nan)
    for row, good in enumerate(np.isfinite(speed)):
        order = np.argsort(heights[row, good], kind="stable")
        logs = np.log(heights[row, good][order])
        if good.any():
            expected[row] = np.interp(wanted, logs, speed[row, good][order])
            outside = (wanted < logs[0] - 1e-6) | (wanted > logs[-1] + 1e-6)
            expected[row, outside & (not clamp)] = np.nan
    assert np.array_equal(interpolate(wanted, heights, speed, clamp=clamp), expected, equal_nan=True)
