"""Forecasts of the past: what is read from every layout, and that the error fitted is the one that was put in."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from holdcourse.errors import DamagedFile, HoldcourseError, InvalidInput
from holdcourse.wind import bundled
from holdcourse.wind.backtest.forecast_skill import PUBLISHED, PUBLISHED_HOURS, Skill, fitted_skill
from holdcourse.wind.backtest.run import Plan, run_backtest
from holdcourse.wind.files.forecasts import Forecasts, read_forecasts

RECORD = bundled("test")
HEIGHTS = np.array([100.0, 250.0])


def made_up(first=1.0, day=2.0, runs=120, leads=24, seed=0, memory=6.0, reach=0.7) -> Forecasts:
    """Forecasts every twelve hours, hour by hour, wrong by a skill that is known."""
    skill, wind = Skill(first, day, memory, reach), RECORD.at(HEIGHTS)
    times, ahead, speed = [], [], []
    for run in range(runs):
        rows = 12 * run + np.arange(1, leads + 1)
        wrong = skill.wrong(HEIGHTS, leads, 1.0, seed=seed + run)
        lead = np.arange(1.0, leads + 1)
        times.append(RECORD.time[rows])
        ahead.append(lead)
        speed.append(wind[rows] + skill.at(lead)[:, None] * wrong)
    return Forecasts(np.concatenate(times), np.concatenate(ahead), HEIGHTS, np.concatenate(speed), "mine.csv")


def test_the_error_put_in_is_found():
    found = fitted_skill([made_up(runs=300)], [RECORD])
    assert (found.first, found.day) == (pytest.approx(1.0, rel=0.15), pytest.approx(2.0, rel=0.1))
    assert found.memory == pytest.approx(6.0, rel=0.3)
    assert found.reach == pytest.approx(0.7, rel=0.2)
    assert "fitted to 14,400 forecasts in mine.csv" in found.words


def test_one_lead_keeps_the_growth_of_published_figures():
    said = made_up(3.0, 3.0, runs=300)
    day = said.lead == 24
    found = fitted_skill([Forecasts(said.time[day], said.lead[day], HEIGHTS, said.speed[day], "day.csv")], [RECORD])
    assert found.day == pytest.approx(3.0, rel=0.1)
    assert found.day / found.first == pytest.approx(Skill().day / Skill().first)


def test_the_default_gives_the_published_errors():
    squares = Skill().at(np.arange(1.0, PUBLISHED_HOURS + 1)) ** 2
    assert squares.mean() == pytest.approx(np.mean(np.square(PUBLISHED)), rel=0.05)


def test_csv_with_runs_or_leads(tmp_path):
    said = made_up(runs=20)
    said = replace(said, speed=np.maximum(said.speed, 0.0))  # no forecaster says less than a calm
    text = [str(time) for time in said.time.astype("datetime64[s]")]
    issued = (said.time - (3600 * said.lead).astype("timedelta64[s]")).astype("datetime64[s]")
    runs = ["issued,time,ws_100m,ws_250m"]
    leads = ["time,lead,ws_100m [km/h],ws_250m [km/h]"]
    for k, (low, high) in enumerate(said.speed.tolist()):
        runs.append(f"{issued[k]},{text[k]},{low!r},{high!r}")
        leads.append(f"{text[k]},{said.lead[k]:g},{3.6 * low!r},{3.6 * high!r}")
    for name, lines in (("runs.csv", runs), ("leads.csv", leads)):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        (found,) = read_forecasts(tmp_path / name)
        assert found.heights.tolist() == [100, 250]
        assert np.array_equal(found.lead, said.lead)
        assert found.speed == pytest.approx(said.speed)
    late = tmp_path / "late.csv"
    late.write_text("issued,time,ws_100m\n2010-07-02T00:00Z,2010-07-01T00:00Z,5\n")
    with pytest.raises(InvalidInput, match="issued after the time"):
        read_forecasts(late)


def test_open_meteo(tmp_path):
    hours = [str(time)[:16] for time in RECORD.time[:400].astype("datetime64[m]")]
    wind = RECORD.at(HEIGHTS)[:400]
    answer = {
        "utc_offset_seconds": 0,
        "hourly_units": {"wind_speed_100m_previous_day1": "km/h"},
        "hourly": {
            "time": hours,
            "wind_speed_100m": [0.0] * 400,
            "wind_speed_100m_previous_day1": [None, *(3.6 * (wind[1:, 0] + 2.0)).tolist()],
        },
    }
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(answer))
    (found,) = read_forecasts(path)
    assert (found.heights.tolist(), np.unique(found.lead).tolist()) == ([100], [24])
    assert fitted_skill([found], [RECORD]).day == pytest.approx(2.0, abs=0.01)
    answer["hourly"].pop("wind_speed_100m_previous_day1")
    path.write_text(json.dumps(answer))
    with pytest.raises(InvalidInput, match="Previous Runs API"):
        read_forecasts(path)
    path.write_text('{"error": true}')
    with pytest.raises(DamagedFile, match="not an answer of Open-Meteo"):
        read_forecasts(path)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["-7", "8"], "the speed -7 m/s is negative"),
        (["400", "8"], "on average and up to 400.0 are too high for m/s, .*; name it in the headings, such as ws_100m"),
        (["36", "30"], "too high for m/s, and the file names no unit; name it in the headings, such as ws_100m .km/h."),
    ],
)
def test_speeds_that_cannot_be_are_refused_as_in_wind(tmp_path, rows, message):
    path = tmp_path / "runs.csv"
    times = ("2020-01-01T00:00Z,1", "2020-01-01T01:00Z,1")
    path.write_text("time,lead,ws_100m\n" + "".join(f"{t},{row}\n" for t, row in zip(times, rows, strict=True)))
    with pytest.raises(InvalidInput, match=message):
        read_forecasts(path)
    path.write_text("time,lead,ws_100m [m/s]\n2020-01-01T00:00Z,1,400\n")
    with pytest.raises(DamagedFile, match=r"a speed of 400 m/s is not a wind speed; .* \(name it in the headings"):
        read_forecasts(path)


@pytest.mark.parametrize(("unit", "hours"), [("h", 30.0), ("min", 0.5), ("", 30.0)])
def test_a_row_of_units_says_that_of_the_lead(tmp_path, unit, hours):
    path = tmp_path / "leads.csv"
    path.write_text(f"time,lead,ws_100m\nUTC,{unit},m/s\n2020-01-01T00:00Z,30,8\n2020-01-01T01:00Z,30,9\n")
    assert read_forecasts(path)[0].lead.tolist() == [hours, hours]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("UTC,m,m/s\n2020-01-01T00:00Z,30,8\n", "column 'lead' is in 'm'; give the lead in hours"),
        ("2020-01-01T00:00Z,1,8\n2020-01-01T01:00Z,,9\n", "line 3: the lead is missing; write it in hours"),
    ],
)
def test_leads_that_are_not_known_are_refused(tmp_path, rows, words):
    path = tmp_path / "leads.csv"
    path.write_text(f"time,lead,ws_100m\n{rows}")
    with pytest.raises(InvalidInput, match=words):
        read_forecasts(path)


def test_a_unit_in_the_comments_of_forecasts_is_obeyed(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("#ws_100m;wind speed;km/h\ntime,lead,ws_100m\n2020-01-01T00:00Z,1,36\n2020-01-01T01:00Z,1,-999\n")
    (found,) = read_forecasts(path)
    assert found.speed[0].tolist() == pytest.approx([10.0])
    assert np.isnan(found.speed[1, 0])


@pytest.mark.parametrize("cells", [["x"], None, 5, [[1.0]], [True, "y"], {"a": 1}])
def test_an_odd_answer_of_open_meteo_is_refused_in_a_line(tmp_path, cells):
    path = tmp_path / "answer.json"
    hourly = {"time": ["2020-01-01T00:00"], "wind_speed_120m_previous_day1": cells}
    path.write_text(json.dumps({"hourly": hourly, "utc_offset_seconds": 0}))
    with pytest.raises(DamagedFile, match=r"answer\.json") as caught:
        read_forecasts(path)
    assert "\n" not in str(caught.value)
    path.write_text(
        json.dumps({"hourly": hourly | {"wind_speed_120m_previous_day1": [5.0]}, "utc_offset_seconds": "x"})
    )
    with pytest.raises(DamagedFile, match=r"answer\.json cannot be read"):
        read_forecasts(path)


def test_a_broken_grib_is_refused_in_a_line(tmp_path):
    pytest.importorskip("cfgrib", reason="needs cfgrib and eccodes: pip install 'holdcourse[wind]'")
    path = tmp_path / "open.grib2"
    path.write_bytes(b"GRIB\x00\x00\x00\x02" + bytes(range(200)))
    with pytest.raises(HoldcourseError, match=r"open\.grib2") as caught:
        read_forecasts(path)
    assert "\n" not in str(caught.value)


def test_ecmwf_open_data(tmp_path):
    eccodes = pytest.importorskip("eccodes", reason="needs cfgrib and eccodes: pip install 'holdcourse[wind]'")
    grid = {"gridType": "regular_ll", "Ni": 2, "Nj": 2, "centre": 98, "dataDate": 20100701, "dataTime": 0}
    corners = {"FirstGridPointInDegrees": (53.5, 1.25), "LastGridPointInDegrees": (53.25, 1.5)}
    for name, (north, east) in corners.items():
        grid |= {f"latitudeOf{name}": north, f"longitudeOf{name}": east}
    grid |= {"iDirectionIncrementInDegrees": 0.25, "jDirectionIncrementInDegrees": 0.25}
    path = tmp_path / "open.grib2"
    with path.open("wb") as stream:
        for step in (0, 3, 6):
            for name, value in (("100u", 3.0), ("100v", 4.0 + step), ("10u", 1.0), ("10v", 0.0)):
                message = eccodes.codes_grib_new_from_samples("GRIB2")
                for key, given in (grid | {"shortName": name, "step": step, "bitsPerValue": 24}).items():
                    eccodes.codes_set(message, key, given)
                eccodes.codes_set_values(message, np.array([value, 0.0, 0.0, 0.0]) + np.array([0, 9, 9, 9]))
                eccodes.codes_write(message, stream)
                eccodes.codes_release(message)
    found = read_forecasts(path, lat=53.5, lon=1.25)
    assert sorted(float(height) for each in found for height in each.heights) == [10, 100]
    high = next(each for each in found if 100 in each.heights)
    assert high.lead.tolist() == [0, 3, 6]
    assert high.time.astype(str).tolist()[1] == "2010-07-01T03:00:00"
    column = high.speed[:, high.heights.tolist().index(100)]
    assert column == pytest.approx(np.hypot(3.0, [4.0, 7.0, 10.0]), abs=1e-4)
    with pytest.raises(InvalidInput, match="choose one with lat= and lon="):
        read_forecasts(path)


def test_forecasts_of_another_time_are_refused():
    early = made_up(runs=5)
    elsewhere = Forecasts(early.time - np.timedelta64(3650, "D"), early.lead, HEIGHTS, early.speed, "old.csv")
    with pytest.raises(InvalidInput, match=r"match hours and heights .*, but only 0 do; .* Give wind of the same time"):
        fitted_skill([elsewhere], [RECORD])


@pytest.mark.parametrize("text", ["time,ws_100m\n2020-01-01,5\n", "issued,time,x\n2020-01-01,2020-01-01,5\n", "[]"])
def test_what_is_no_forecast_is_said(tmp_path, text):
    (tmp_path / "odd.csv").write_text(text)
    with pytest.raises(HoldcourseError):
        read_forecasts(tmp_path / "odd.csv")


def test_a_backtest_reckons_with_the_skill_fitted():
    plan = Plan(low=50, high=500, count=3, end="2010-08-20", policies=("fixed",), what_if=(), forecasts=(made_up(),))
    found = run_backtest(bundled("test"), bundled("history").between("2010-06-01", None), plan)
    assert "fitted to" in found.plan.skill.source
