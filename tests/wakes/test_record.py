"""Wind records: means over the circle, tables of several turbines, rounds that know the past only."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.wakes.record import WindRecord, circle_mean, read_record, turned


def minutes(count, step=10, begin="2020-01-01T00:00"):
    return np.datetime64(begin, "s") + np.arange(count) * np.timedelta64(60 * step, "s")


def a_record(count=600, seed=0, step=10):
    random = np.random.default_rng(seed)
    direction = (200 + np.cumsum(random.standard_normal(count) * 4)) % 360
    return WindRecord(minutes(count, step), direction, 8 + np.abs(random.standard_normal(count)), "test")


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 360), st.lists(st.floats(-80, 80), min_size=1, max_size=5))
def test_the_mean_over_the_circle_turns_with_the_directions(turn, around):
    there = circle_mean([each % 360 for each in around])
    after = circle_mean([(each + turn) % 360 for each in around])
    assert abs(turned(there + turn, after)) < 1e-6


def test_directions_of_several_turbines_are_averaged_over_north():
    table = {
        "time": ["2020-01-01T00:00Z", "2020-01-01T00:10Z"],
        "wd_1": [350.0, 10.0],
        "wd_2": [10.0, None],
        "ws_1 [m/s]": [8.0, 6.0],
        "ws_2 [m/s]": [10.0, 8.0],
        "kW_1": [100.0, 200.0],
        "kW_2": [300.0, None],
    }
    found = read_record(table, direction="wd_1, wd_2", speed=["ws_1", "ws_2"], power="kW_1,kW_2")
    np.testing.assert_allclose(turned(found.direction, [0.0, 10.0]), 0.0, atol=1e-9)
    assert found.speed.tolist() == [9.0, 7.0]
    assert found.power[0] == 400.0
    assert np.isnan(found.power[1])  # a turbine did not report


POWERS = {
    "time": ["2020-01-01T00:00Z", "2020-01-01T00:10Z"],
    "wd": [350.0, 10.0],
    "ws": [8.0, 6.0],
}


@pytest.mark.parametrize(
    ("header", "kw"),
    [("P", 2.0), ("P [kW]", 2.0), ("P [MW]", 2000.0), ("P_MW", 2000.0), ("P (W)", 0.002), ("P (total)", 2.0)],
)
def test_powers_are_in_the_unit_that_their_header_names(header, kw):
    assert read_record(POWERS | {header: [2.0, 2.0]}, power=header).power == pytest.approx([kw, kw])


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("P [kWh]", r"'P .kWh.' is in kWh, which is no power; convert it to kW"),
        ("P [hp]", "is in hp, which is no power; convert it to kW"),
        ("P [mw]", "may be MW or mW; write which"),
    ],
)
def test_what_is_no_power_is_refused(header, message):
    with pytest.raises(InvalidInput, match=message):
        read_record(POWERS | {header: [2.0, 2.0]}, power=header)


def test_a_row_for_each_turbine_and_time():
    table = {
        "time": ["2020-01-01T00:00Z", "2020-01-01T00:00Z", "2020-01-01T00:10Z", "2020-01-01T00:10Z"],
        "wind_direction": [355.0, 5.0, 90.0, 100.0],
        "wind_speed": [8.0, 6.0, 5.0, 7.0],
    }
    found = read_record(table)
    assert len(found) == 2
    np.testing.assert_allclose(turned(found.direction, [0.0, 95.0]), 0.0, atol=1e-9)
    assert found.speed.tolist() == [7.0, 6.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wind_speed": [8.0, -1.0]}, "wind speed at .* is -1"),
        ({"wind_direction": [8.0, 5000.0]}, "wind direction at .* is 5000"),
        ({"wind_speed [knots]": [8.0, 9.0], "wind_speed": None}, "is in knots; convert it to m/s"),
        ({"wind_direction": [0.5, 6.2]}, "looks like radians.*wind_direction .deg."),
        ({"wind_direction": [8.0, -999.0]}, "is -999 .* Leave the cell empty if it is missing"),
        ({"wind_speed": [5.0, -999.0]}, "is -999 .* Leave the cell empty if it is missing"),
        ({"wind_speed": [np.nan, np.nan]}, "no time has both a direction and a speed in the columns .*speed="),
        ({"wind_speed": None}, "which column is the wind speed.*speed="),
    ],
)
def test_what_cannot_be_wind_is_said(change, message):
    table = {"time": ["2020-01-01T00:00Z", "2020-01-01T00:10Z"], "wind_direction": [8.0, 9.0], "wind_speed": [5.0, 6.0]}
    table = {name: values for name, values in (table | change).items() if values is not None}
    with pytest.raises(InvalidInput, match=message):
        read_record(table)


@pytest.mark.parametrize(
    ("directions", "message"),
    [
        ({"wd1 [deg]": [100.0, 200.0], "wd2 [rad]": [1.0, 2.0]}, "'wd2 .rad.' is in rad; convert it to degrees"),
        ({"wd1": [100.0, 200.0], "wd2": [1.0, 2.0]}, "'wd2' is above 2: that looks like radians"),
        ({"wd1": [100.0, 200.0], "wd2": [100.0, -999.0]}, "-999 degrees in column 'wd2'"),
    ],
)
def test_every_column_is_looked_at(directions, message):
    table = {"time": ["2020-01-01T00:00Z", "2020-01-01T00:10Z"], "ws": [5.0, 6.0]} | directions
    with pytest.raises(InvalidInput, match=message):
        read_record(table, direction=list(directions))


def test_north_wind_in_degrees_is_taken_where_the_header_says_so():
    table = {"time": ["2020-01-01T00:00Z", "2020-01-01T00:10Z"], "wind_direction [deg]": [1.0, 2.0], "ws": [5.0, 6.0]}
    assert read_record(table).direction.round(6).tolist() == [1.0, 2.0]


def test_a_decision_knows_the_interval_before_and_not_its_own():
    record = a_record(50)
    causal, knowing = record.rounds(), record.rounds(knowing=True)
    np.testing.assert_allclose(causal.contexts[:, :2], np.column_stack([record.direction, record.speed])[:-1])
    assert (causal.time == record.time[1:]).all()
    np.testing.assert_allclose(knowing.contexts[:, :2], np.column_stack([record.direction, record.speed]))


def test_nothing_of_a_round_or_after_it_changes_what_was_known():
    record = a_record(80, step=1)
    rounds = record.rounds(10 / 60)
    changed = record.direction.copy()
    changed[40:] = (changed[40:] + 77) % 360
    again = WindRecord(record.time, changed, record.speed).rounds(10 / 60)
    assert (rounds.per, again.per) == (10, 10)
    early = rounds.first <= 40
    one, other = (circle_mean(r.record.direction[r.first[:, None] - 1 - np.arange(3)]) for r in (rounds, again))
    np.testing.assert_array_equal(one[early], other[early])
    same = rounds.memory == again.memory
    if same:
        np.testing.assert_array_equal(rounds.contexts[early], again.contexts[early])


def test_fast_readings_are_summed_up_over_a_round():
    record, table = a_record(240, step=1), hc.wakes.bundled_table()
    rounds = record.rounds(10 / 60)
    energy = rounds.energy(table)
    k = 3
    part = slice(rounds.first[k], rounds.first[k] + 10)
    by_hand = table.power_at(record.direction[part], record.speed[part]).sum(axis=0) / 60
    np.testing.assert_allclose(energy[k], by_hand)
    assert str(rounds.time[k])[-4:-3] == "0"  # it keeps to the clock


def test_gaps_are_no_steps():
    time = np.concatenate([minutes(10), minutes(10, begin="2020-01-02T00:00")])
    rounds = WindRecord(time, np.full(20, 10.0), np.full(20, 8.0)).rounds()
    assert rounds.follows.sum() == 17


def test_turns_over_gaps_are_not_learned():
    """Four readings, a gap, four readings from elsewhere: within the blocks the wind never turns."""
    table = hc.wakes.bundled_table()
    count = 2000
    time = np.concatenate(
        [minutes(4, begin=str(np.datetime64("2020-01-01T00:00") + np.timedelta64(240 * k, "m"))) for k in range(count)]
    )
    direction = np.repeat(np.random.default_rng(0).uniform(0, 360, count), 4)
    rounds = WindRecord(time, direction, np.full(4 * count, 8.0)).rounds()
    drift = hc.wakes.learn_drift(rounds, table.directions, table.speeds)
    still = drift.turns.shape[2] // 2
    s = int(np.flatnonzero(table.speeds == 8.0)[0])
    np.testing.assert_allclose(drift.within[:, s, still], 1.0, atol=1e-6)
    np.testing.assert_allclose(drift.turns[:, s, still], 1.0, atol=1e-6)


def test_too_short_a_record_teaches_no_drift():
    table = hc.wakes.bundled_table()
    with pytest.raises(InvalidInput, match="Give a longer record"):
        hc.wakes.learn_drift(a_record(100).rounds(), table.directions, table.speeds)


def test_a_drift_is_a_distribution_and_wider_in_weak_wind():
    table = hc.wakes.bundled_table()
    drift = hc.wakes.learn_drift(hc.wakes.bundled_record().rounds(), table.directions, table.speeds)
    for part in (drift.turns, drift.within, drift.changes, drift.settling):
        np.testing.assert_allclose(part.sum(axis=2), 1.0)
        assert (part >= 0).all()
    assert (drift.error[:, 0] > drift.error[:, 6]).all()
    again = hc.wakes.Drift.from_data(drift.to_data())
    np.testing.assert_allclose(again.turns, drift.turns, atol=1e-7)


@pytest.mark.parametrize("turbines", [1, 2])
def test_the_hour_that_comes_twice_is_two_hours(turbines):
    """Six hours of Oslo's clock, 25 October 2020, in steps of ten minutes; a row for each turbine and time."""
    clocks = [f"{hour:02}:{minute:02}" for hour in (0, 1, 2, 2, 3, 4) for minute in range(0, 60, 10)]
    rows = {
        "time": [f"2020-10-25 {clock}" for clock in clocks for _ in range(turbines)],
        "wd": [200.0 + k for k in range(36) for _ in range(turbines)],
        "ws": [8.0] * 36 * turbines,
    }
    found = read_record(rows, timezone="Europe/Oslo")
    assert (found.time == minutes(36, begin="2020-10-24T22:00")).all()
    np.testing.assert_allclose(found.direction, 200.0 + np.arange(36))
    assert found.coverage == 1.0
    with pytest.raises(InvalidInput, match=r"occurs twice, in a night when clocks are set back.*timezone="):
        read_record(rows)


def test_directions_may_be_counted_from_minus_180_and_turbines_have_rows_of_their_own():
    times = ["2020-01-01T00:00Z", "2020-01-01T00:10Z"]
    whole = {"time": times, "wind_direction": [350.0, 190.0], "wind_speed": [8.0, 9.0]}
    signed = whole | {"wind_direction": [-10.0, -170.0]}
    np.testing.assert_allclose(read_record(signed).direction, read_record(whole).direction)
    rows = {
        "time": [time for time in times for _ in range(2)],
        "turbine": ["A", "B"] * 2,
        "wind_direction": [-20.0, 0.0, 180.0, -160.0],
        "wind_speed": [7.0, 9.0, 9.0, None],
    }
    found = read_record(rows)
    np.testing.assert_allclose(found.direction, [350.0, 190.0])
    np.testing.assert_allclose(found.speed, [8.0, 9.0])


def test_rows_of_one_time_and_gaps_are_told():
    """A file of two turbines, a row for each and time, whose logger stood still for a quarter of the day."""
    times = np.datetime64("2015-01-01T00:00") + np.arange(144) * np.timedelta64(10, "m")
    there = np.r_[times[:60], times[96:]]
    frame = {"time": [f"{time}Z" for time in there] * 2, "wd": [350.0] * len(there) + [10.0] * len(there)}
    record = hc.wakes.read_record(frame | {"ws": [8.0] * len(there) + [9.0] * len(there)})
    assert record.direction[0] == pytest.approx(0.0, abs=1e-9)
    assert record.speed[0] == 8.5
    assert record.coverage == pytest.approx(0.75)
    assert "216 rows of 108 times: the mean of the rows of one time is taken" in record.notes
    assert record.notes[-1] == "the readings cover 75.0 % of the time: nothing is judged or learned in the gaps"


def test_names_in_a_comment(tmp_path):
    text = "# Turbine 1\n# Date and time,Wind speed (m/s),Wind direction (°)\n"
    path = tmp_path / "farm.csv"
    path.write_text(text + "2021-01-04 00:00,8.1,270\n2021-01-04 00:10,8.3,271\n", encoding="utf-8")
    assert read_record(path).speed.tolist() == [8.1, 8.3]


@pytest.mark.parametrize("unit", ["m s-1", "mps", "m·s⁻¹", "ms-1", "avg"])
def test_metres_per_second_as_people_write_them(unit):
    table = {"time": ["2021-01-04T00:00Z", "2021-01-04T00:10Z"], "wd": [270, 271], f"ws [{unit}]": [9.0, 18.0]}
    assert read_record(table).speed.tolist() == [9.0, 18.0]


@pytest.mark.parametrize("unit", ["Deg", "degree", "°N", "deg.", "degT", "mean"])
def test_degrees_as_people_write_them(unit):
    table = {"time": ["2021-01-04T00:00Z", "2021-01-04T00:10Z"], f"wd [{unit}]": [100.0, 200.0], "ws": [8, 9]}
    assert read_record(table).direction == pytest.approx([100.0, 200.0])


def test_codes_among_directions_are_refused():
    table = {"time": ["2021-01-04T00:00Z", "2021-01-04T00:10Z", "2021-01-04T00:20Z"], "ws": [8, 9, 8]}
    with pytest.raises(InvalidInput, match=r"row 1: the wind direction .* is -99.9 degrees .* between 0 and 720\."):
        read_record(table | {"wd": [100.0, -99.9, 200.0]})
    assert read_record(table | {"wd": [100.0, -99.9, -50.0]}).direction == pytest.approx([100, 260.1, 310])


def test_speeds_in_another_unit_that_is_not_named_are_refused():
    table = {"time": ["2021-01-04T00:00Z", "2021-01-04T00:10Z"], "wd": [270, 271]}
    with pytest.raises(InvalidInput, match=r"mean of column 'ws' is 28.5, which is too high for m/s.*'ws \[m/s\]'"):
        read_record(table | {"ws": [27.0, 30.0]})
    assert read_record(table | {"ws [m/s]": [27.0, 30.0]}).speed.tolist() == [27.0, 30.0]


def test_a_row_that_came_twice_hides_only_its_own_power():
    times = [f"2021-01-04T0{hour}:{minute}0Z" for hour in range(6) for minute in range(6)]
    table = {"time": [*times, times[3]], "wd": [270.0] * 37, "ws": [8.0] * 37, "kW": [900.0] * 37}
    power = read_record(table, power="kW").power
    assert np.flatnonzero(np.isnan(power)).tolist() == [3]
    assert power[0] == 900.0


def test_date_and_time_of_day_may_have_columns_of_their_own(tmp_path):
    path = tmp_path / "scada.csv"
    rows = "".join(f"2020-01-0{day},{hour:02d}:00,{270 + hour},{5 + day}\n" for day in (1, 2) for hour in range(24))
    path.write_text(f"day,clock,wd,ws\n,UTC,deg,m/s\n{rows}")
    record = read_record(path, time="day,clock")
    assert len(record) == 48
    assert record.speed[[0, 24]].tolist() == [6.0, 7.0]
    assert str(record.time[1]) == "2020-01-01T01:00:00"
    assert "line 2 contains the units" in record.notes


def test_codes_and_lines_that_a_person_names(tmp_path):
    rows = "".join(f"2026-01-01 0{hour}:00;{300 + hour};{8 - (hour == 1) * 1007}\n" for hour in range(4))
    path = tmp_path / "scada.csv"
    path.write_text(f"Zeit;Windrichtung [°];Windgeschwindigkeit [m/s]\n{rows}", encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"is -999 m/s .* or give missing=-999"):
        read_record(path)
    assert read_record(path, missing="-999").direction.tolist() == pytest.approx([300, 302, 303])
    path.write_text(f"t;Wa;Ws\n;wind direction;wind speed\n;deg;m/s\n{rows}", encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"line 2: 'wind direction' in column 'Wa' describes .* header_line=2"):
        read_record(path, missing="-999")
    assert len(read_record(path, missing="-999", header_line=2, time="column 1")) == 3


def test_a_date_and_a_clock_beside_it_are_found(tmp_path):
    path = tmp_path / "scada.csv"
    rows = "".join(f"13/01/2026,{hour}:00 PM,{300 + hour},8\n" for hour in (1, 2, 3))
    path.write_text(f"Date,Time,wind_direction,wind_speed\n{rows}")
    assert str(read_record(path).time[0]) == "2026-01-13T13:00:00"


def test_a_period_may_name_its_zone():
    record = a_record()
    begin = "2020-01-01T06:00"
    for written in ("2020-01-01T06:00Z", "2020-01-01T07:00+01:00", "20200101T0600", np.datetime64(begin)):
        assert record.between(written).time[0] == np.datetime64(begin)
    for wrong in ("NaT", "now", "", "2020-13-01"):
        with pytest.raises(InvalidInput, match="is not a time; write it like 2014-07-01"):
            record.between(wrong)


def test_a_record_too_short_to_choose_how_much_it_averages():
    assert a_record(count=40).rounds(6.0).memory == 1


def test_a_part_that_is_not_there_is_refused_with_the_remedy():
    record = read_record({"time": ["2020-01-01T00:00Z", "2020-01-01T00:10Z"], "wd": [8.0, 9.0], "ws": [5.0, 6.0]})
    with pytest.raises(InvalidInput, match="'01/02/2014' is not a time; write it like 2014-07-01"):
        record.between("01/02/2014")
    with pytest.raises(InvalidInput, match=r"from 2021-.* the record has 0; choose times within the record"):
        record.between("2021-01-01", "2021-02-01")
