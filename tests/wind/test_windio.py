"""windIO time series: as its schema and its examples have them, and what cannot be flown."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.wind_files import write_netcdf4
from typer.testing import CliRunner

from holdcourse.cli.root import app
from holdcourse.errors import DamagedFile, HoldcourseError, InvalidInput
from holdcourse.wind import load
from holdcourse.wind.backtest.run import Plan, run_backtest

pytest.importorskip("yaml", reason="windIO files need the extra: pip install 'holdcourse[wind]'")

SERIES = """
name: A resource of mine
wind_resource:
  time: ['2023-07-25T00:00:00Z', '2023-07-25T01:00:00Z', '2023-07-25T02:00:00Z']
  height: [50, 200]
  wind_speed:
    data: [[5, 7], [2, 6], [3, 3.3]]
    dims: {dims}
  wind_direction: {{data: [[0, 2], [333, 350], [20, 30]], dims: [time, height]}}
"""
WIND = np.array([[5.0, 7.0], [2.0, 6.0], [3.0, 3.3]])


def write(folder: Path, text: str, name: str = "resource.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def profiles(path: Path, name: str = "wind_speed", hours: int = 3, **more) -> Path:
    """A NetCDF file as windIO includes it."""
    values = {
        "time": (("time",), np.arange(float(hours)), {"units": "hours since 2023-07-25"}),
        "height": (("height",), np.array([50.0, 200.0]), {"units": "m"}),
        name: (("time", "height"), np.tile(WIND, (hours // 3, 1)), {"units": "m/s"}),
    }
    return write_netcdf4(path, {"time": hours, "height": 2}, values | more)


@pytest.mark.parametrize("dims", ["[time, height]", "[3, 2]"])
def test_a_series_by_height(tmp_path, dims):
    found = load(write(tmp_path, SERIES.format(dims=dims)))
    assert found.source == "windIO time series"
    assert found.time.astype(str).tolist()[1] == "2023-07-25T01:00:00"
    assert found.heights.tolist() == [50, 200]
    assert np.array_equal(found.speed, WIND)
    assert found.notes == ("times have a zone; they are shown in UTC",)


def test_the_other_order_and_a_site_around_it(tmp_path):
    turned = SERIES.format(dims="[height, time]").replace("[[5, 7], [2, 6], [3, 3.3]]", "[[5, 2, 3], [7, 6, .nan]]")
    inside = "site:\n  energy_resource:\n" + "".join(f"    {line}\n" for line in turned.strip().splitlines())
    found = load(write(tmp_path, inside))
    assert np.array_equal(found.speed, np.where(WIND == 3.3, np.nan, WIND), equal_nan=True)


def test_parts_that_are_included(tmp_path):
    (tmp_path / "deep").mkdir()
    profiles(tmp_path / "deep" / "wind.nc")
    write(tmp_path / "deep", "name: r\nwind_resource: !include wind.nc\n")
    system = "name: s\nsite:\n  energy_resource: !include deep/resource.yaml\n"
    assert np.array_equal(load(write(tmp_path, system)).speed, WIND)
    write(tmp_path, "!include again.yaml\n", "again.yaml")
    write(tmp_path, "name: r\nwind_resource: !include again.yaml\n")
    with pytest.raises(InvalidInput, match="do they include each other"):
        load(tmp_path / "resource.yaml")


@pytest.mark.parametrize("name", ["wind_speed", "speed", "WS", "wspeed"])
def test_speeds_in_netcdf_by_any_of_their_names(tmp_path, name):
    found = load(profiles(tmp_path / "wind.nc", name))
    assert found.source == "NetCDF, speed by time and height"
    assert np.array_equal(found.speed, WIND)


def test_a_backtest_on_it(tmp_path):
    profiles(tmp_path / "wind.nc", hours=24 * 30)
    path = write(tmp_path, "name: r\nwind_resource: !include wind.nc\n")
    found = run_backtest([path], plan=Plan(count=3, policies=("fixed", "wind-planner"), what_if=()))
    assert found.backtest.verdict == "too few"
    assert len(found.backtest.world.time) == 540


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("height: [50, 200]", "heights: [50, 200]"),
            "wind_resource has no height; altitude control needs",
        ),
        (("'2023-07-25T00:00:00Z'", "0"), "time contains numbers"),
        (("[2, 6]", "[2]"), "all rows of the same length"),
        (("[3, 3.3]]", "[3, 3.3], [1, 1]]"), r"shape \(4, 2\), but there are 3 times and 2 heights"),
        (("height: [50, 200]", "height: [50, 50]"), "two or more different ones above 0"),
        (("  time: ", "  weibull_a: [1]\n  times: "), "contains weibull_a without times"),
        (("wind_resource:", "wind_resource: !include nothing.nc\nother:"), "there is no such file in its folder"),
        (("name: A", "name: [A"), "is not YAML"),
    ],
)
def test_what_cannot_be_flown_is_said(tmp_path, change, said):
    text = SERIES.format(dims="[time, height]")
    assert change[0] in text
    with pytest.raises(HoldcourseError, match=said):
        load(write(tmp_path, text.replace(*change)))


def test_a_single_height_and_units_of_others(tmp_path):
    with pytest.raises(InvalidInput, match="no layout that holdcourse knows"):
        load(write_netcdf4(tmp_path / "hub.nc", {"time": 2}, {
            "time": (("time",), np.arange(2.0), {"units": "hours since 2023-07-25"}),
            "wind_speed": (("time",), np.ones(2), {}),
        }))  # fmt: skip
    for attribute, said in (({"units": "km"}, "heights must be metres"),):
        path = profiles(tmp_path / "odd.nc", height=(("height",), np.array([0.05, 0.2]), attribute))
        with pytest.raises(InvalidInput, match=said):
            load(path)
    stochastic = profiles(tmp_path / "number.nc", time=(("time",), np.arange(3.0), {"units": "occurrence number"}))
    with pytest.raises(DamagedFile, match="is not a time"):
        load(stochastic)


def test_a_negative_speed_is_an_error_and_a_code_is_missing(tmp_path):
    text = SERIES.format(dims="[time, height]")
    with pytest.raises(InvalidInput, match="the speed -2 m/s is negative; leave missing values empty"):
        load(write(tmp_path, text.replace("[2, 6]", "[-2, 6]")))
    found = load(
        write(tmp_path, text.replace("[2, 6]", "[-999, 6]").replace("[3, 3.3]", "[-1.0e+20, 3.3]")), max_missing=0.5
    )
    assert np.array_equal(np.isnan(found.speed), [[False, False], [True, False], [True, False]])
    assert "2 speeds are codes for a missing number (-1e+20, -999)" in found.notes


@pytest.mark.parametrize("unit", ["m/s", "km/h"])
def test_codes_in_netcdf_are_those_of_the_file(tmp_path, unit):
    speeds = np.array([[-99.9, 7.0], [-0.0005, 6.0], [3.0, 3.3]], dtype=np.float32).astype(np.float64)
    wind = {"wind_speed": (("time", "height"), speeds, {"units": unit})}
    found = load(profiles(tmp_path / "wind.nc", **wind), max_missing=0.5)
    assert np.isnan(found.speed[0, 0])
    assert found.speed[1, 0] == 0.0  # a calm that packing rounded
    wind = {"wind_speed": (("time", "height"), np.where(speeds == 3.0, -3.6, speeds), {"units": unit})}
    with pytest.raises(InvalidInput, match="is negative"):
        load(profiles(tmp_path / "wind.nc", **wind), max_missing=0.5)


def test_the_command_line_takes_it_for_wind(tmp_path):
    path = write(tmp_path, SERIES.format(dims="[time, height]"))
    done = CliRunner().invoke(app, ["data", "info", str(path), "--json"])
    assert json.loads(done.stdout)["layout"] == "windIO time series"


@pytest.mark.parametrize(
    ("units", "hours"),
    [("days since 1900-01-01", 24.0), ("hours since 1900-01-01", 1.0), ("days since 1960-01-01", 24.0)],
)
def test_times_as_parts_of_a_day_are_whole_seconds(tmp_path, units, hours):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    time = np.datetime64("1969-12-31T00:00", "s") + np.arange(600) * np.timedelta64(600, "s")
    written = (time - np.datetime64(units.split()[-1], "s")).astype(np.float64) / 3600 / hours
    data = xarray.Dataset(
        {"wind_speed": (("time", "height"), np.full((600, 2), 7.0), {"units": "m/s"})},
        {"time": ("time", written, {"units": units}), "height": ("height", [50.0, 100.0], {"units": "m"})},
    )
    data.to_netcdf(tmp_path / "mast.nc", engine="h5netcdf")
    found = load(tmp_path / "mast.nc")
    assert (found.time == time).all()
    assert len(found.hourly()) == 100
