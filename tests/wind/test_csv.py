from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import datetime, time
from pathlib import Path

import numpy as np
import pytest
from helpers.wind_files import csv_text

from holdcourse.cli.data import kind_of
from holdcourse.errors import DamagedFile, HoldcourseError, InvalidInput
from holdcourse.wind import bundled, load


def written(folder: Path, text: str, name: str = "wind.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def table(header: str, row: str = "{time},5,6", count: int = 4, step: int = 60, start: str = "2020-06-01T00:00") -> str:
    times = np.datetime64(start, "m") + step * np.arange(count)
    return "\n".join([header, *(row.format(time=time) for time in times)]) + "\n"


@pytest.mark.parametrize(
    "header",
    [
        "time,ws_10m,ws_100m",
        "time,wind_speed_10m,wind_speed_100m",
        "time,10,100",
        "timestamp,10m,100m",
        "valid_time,windspeed10m,windspeed100m",
        "Time (UTC),Horizontal Wind Speed (m/s) at 10m,Horizontal Wind Speed (m/s) at 100m",
        "datetime,WS_10_mean,WS_100_mean",
        "date,speed 10 m [m/s],speed 100 m [m/s]",
        ",ws10,ws100",
        "Datum/Zeit,Windgeschwindigkeit 10 m [m/s],Windgeschwindigkeit 100 m [m/s]",
        "TimeStamp,MeanWindSpeedUID_10.0m,MeanWindSpeedUID_100.0m",
    ],
)
def test_names_of_columns(tmp_path: Path, header: str) -> None:
    data = load(written(tmp_path, table(header)))
    assert data.heights.tolist() == [10.0, 100.0]
    np.testing.assert_array_equal(data.speed, [[5.0, 6.0]] * 4)
    assert data.time[0] == np.datetime64("2020-06-01T00:00")
    assert data.step == 1.0


def test_a_point_among_heights_beside_whole_speeds_may_group_thousands(tmp_path: Path) -> None:
    path = tmp_path / "mast.csv"
    rows = [f"2020-01-01T0{hour}:00Z;{height};{7 + hour}" for hour in range(3) for height in ("500", "1.000")]
    path.write_text("\n".join(["time;height;ws", *rows]))
    with pytest.raises(
        InvalidInput, match=r"line 3: '1.000' in column 'height' may be 1.000 or 1000; write it without"
    ):
        load(path)
    path.write_text("\n".join(["time,height,ws", *rows]).replace(";", ","))  # as programs write it
    assert load(path).heights.tolist() == [1.0, 500.0]


def test_heights_in_headings_may_have_decimal_commas(tmp_path: Path) -> None:
    path = tmp_path / "mast.csv"
    path.write_text(
        "time;ws_50,5m;Wind speed (80,25 m);ws_100m\n2020-01-01T00:00Z;5,5;6;7\n2020-01-01T01:00Z;5,5;6;7\n"
    )
    assert load(path).heights.tolist() == [50.5, 80.25, 100.0]


@pytest.mark.parametrize(
    ("comment", "place"),
    [
        ("# Latitude: 53,35; Longitude: 7,5", (53.35, 7.5)),
        ("# latitude = 33.5 S, longitude = 18.25°W", (-33.5, -18.25)),
        ("#LATITUDE:-33.5;LONGITUDE:18.25 east", (-33.5, 18.25)),
    ],
)
def test_the_place_in_a_comment(tmp_path: Path, comment: str, place: tuple[float, float]) -> None:
    path = tmp_path / "mast.csv"
    path.write_text(f"{comment}\ntime,ws_50m,ws_100m\n2020-01-01T00:00Z,5,6\n2020-01-01T01:00Z,5,6\n")
    site = load(path).site
    assert (site.latitude, site.longitude) == place


@pytest.mark.parametrize(("unit", "metres"), [("ft", 0.3048), ("km", 1000.0), ("m", 1.0), ("", 1.0), ("-", 1.0)])
def test_a_row_of_units_says_that_of_the_heights(tmp_path: Path, unit: str, metres: float) -> None:
    path = tmp_path / "mast.csv"
    rows = [f"2020-01-01T0{hour}:00Z,{height / metres},{height / 50}" for hour in range(3) for height in (200, 400)]
    path.write_text("\n".join(["time,height,ws", f"UTC,{unit},m/s", ",Smp,Avg", *rows]))
    found = load(path)
    assert found.heights == pytest.approx([200.0, 400.0])
    assert found.speed[0].tolist() == [4.0, 8.0]
    assert any("heights are in" in note for note in found.notes) == (metres != 1.0)


@pytest.mark.parametrize("word", ["Max", "Std"])
def test_a_column_that_a_logger_calls_a_maximum_is_no_wind(tmp_path: Path, word: str) -> None:
    path = tmp_path / "mast.dat"
    path.write_text(f"TIMESTAMP,ws_50m,ws_100m\nTS,m/s,m/s\n,Avg,{word}\n2020-01-01 00:00:00,5,6\n")
    with pytest.raises(InvalidInput, match=f"line 3: column 'ws_100m' is a {word}, not a mean wind speed"):
        load(path)


def test_a_row_of_units_with_heights_that_cannot_be_converted(tmp_path: Path) -> None:
    path = tmp_path / "sonde.csv"
    path.write_text("time,height,ws\nUTC,hPa,m/s\n2020-01-01T00:00Z,850,9\n2020-01-01T00:00Z,700,11\n")
    with pytest.raises(InvalidInput, match=r"the heights in column 'height \[hPa\]' are in 'hpa'"):
        load(path)


def test_a_row_of_units_below_the_names(tmp_path: Path) -> None:
    rows = table("TIMESTAMP,ws_10m,ws_100m").split("\n", 1)
    data = load(written(tmp_path, f"{rows[0]}\nTS,km/h,km/h\n{rows[1]}"))
    np.testing.assert_allclose(data.speed, [[5 / 3.6, 6 / 3.6]] * 4)
    assert any("speeds are in km/h" in note for note in data.notes)
    head = '"TOA5","mast","CR1000","12345"\n"TIMESTAMP","WS_10m_Avg","WS_100m_Avg"\n"TS","m/s","m/s"\n"","Avg","Avg"\n'
    logged = load(written(tmp_path, head + rows[1], "toa5.dat"))
    assert logged.heights.tolist() == [10.0, 100.0]
    np.testing.assert_array_equal(logged.speed, [[5.0, 6.0]] * 4)


@pytest.mark.parametrize("heading", ["ws_33ft", "ws_33 (ft)", "speed at 33 feet"])
def test_heights_in_feet_are_refused_with_the_metres(tmp_path: Path, heading: str) -> None:
    with pytest.raises(InvalidInput, match=r"the height in the heading .* is in ft; .*such as ws_10m"):
        load(written(tmp_path, table(f"time,{heading},ws_100m")))


def test_a_file_without_wind_names_some_of_its_columns(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInput, match=r"'time', 'V_10', 'V_20', 'V_30', 'V_40', 'V_50' and 2 more\. Name the speeds"
    ):
        load(written(tmp_path, table("time,V_10,V_20,V_30,V_40,V_50,V_60,V_70", "{time}" + 7 * ",5")))


def test_components_are_no_speeds(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInput, match=r"Compute the speeds from their components, sqrt.* Name the speeds like ws_100m"
    ):
        load(written(tmp_path, table("time,u_100m,v_100m")))


def test_other_quantities_are_not_speeds(tmp_path: Path) -> None:
    header = "time,ws_100m,wind_direction_100m,wind_speed_std_100m,ws_10m,wd_10m,temperature_100m,gust_speed_10m"
    data = load(written(tmp_path, table(header, "{time},9,180,1.1,7,181,12.5,11")))
    assert data.heights.tolist() == [10.0, 100.0]
    assert data.speed[0].tolist() == [7.0, 9.0]


def test_nora3_of_metocean_api(tmp_path: Path) -> None:
    text = (
        "#NORA3_wind_sub;LONGITUDE:1.32;LATITUDE:53.324\n#Variable_name;standard_name;long_name;units\n"
        "#wind_speed_10m;wind_speed;Wind speed;m/s\n#wind_direction_10m;wind_from_direction;Direction;degree\n"
        "time,wind_speed_10m,wind_speed_750m,wind_direction_10m,wind_direction_750m\n"
        "2010-07-01 00:00:00,5.0,2.37,10,20\n2010-07-01 01:00:00,5.57,3.24,11,21\n"
    )
    data = load(written(tmp_path, text))
    assert data.heights.tolist() == [10.0, 750.0]
    assert data.speed.tolist() == [[5.0, 2.37], [5.57, 3.24]]
    assert (data.site.latitude, data.site.longitude) == (53.324, 1.32)
    assert "NORA3_wind_sub" in data.source
    assert "times are UTC, as the file says" in data.notes
    assert "speeds are in m/s, as the file says" in data.notes


def test_units_are_converted_or_asked_for(tmp_path: Path) -> None:
    kmh = load(written(tmp_path, table("time,wind_speed_10m (km/h),wind_speed_100m (km/h)", "{time},36,72")))
    np.testing.assert_allclose(kmh.speed, [[10.0, 20.0]] * 4)
    knots = load(written(tmp_path, table("time,ws_10m_kn,ws_100m_kn", "{time},10,20")))
    np.testing.assert_allclose(knots.speed[0], [5.14444, 10.28889], rtol=1e-5)
    unclear = written(tmp_path, table("time,ws_10m,ws_100m", "{time},25,40"))
    with pytest.raises(InvalidInput, match="units=km/h"):
        load(unclear)
    np.testing.assert_allclose(load(unclear, units="km/h").speed[0], [25 / 3.6, 40 / 3.6])
    assert load(unclear, units="m/s").speed[0].tolist() == [25.0, 40.0]
    with pytest.raises(InvalidInput, match="'furlongs' are not known"):
        load(unclear, units="furlongs")
    with pytest.raises(InvalidInput, match="different units"):
        load(written(tmp_path, table("time,ws_10m_kmh,ws_100m_ms")))


def test_zones(tmp_path: Path) -> None:
    offset = load(written(tmp_path, table("time,ws_10m,ws_100m", "{time}:00+02:00,5,6")))
    assert offset.time[0] == np.datetime64("2020-05-31T22:00")
    plain = written(tmp_path, table("time,ws_10m,ws_100m"))
    assert load(plain, timezone="Europe/Oslo").time[0] == np.datetime64("2020-05-31T22:00")
    assert any("read as UTC (timezone=" in note for note in load(plain).notes)
    with pytest.raises(InvalidInput, match="'Mars/Olympus' is not known"):
        load(plain, timezone="Mars/Olympus")
    with pytest.raises(InvalidInput, match="contains local times; give their zone"):
        load(written(tmp_path, table("local_time,ws_10m,ws_100m")))
    mixed = table("time,ws_10m,ws_100m").replace("2020-06-01T02:00", "2020-06-01T02:00Z")
    with pytest.raises(InvalidInput, match="some times carry a zone"):
        load(written(tmp_path, mixed))


def test_local_time_shows_when_clocks_change(tmp_path: Path) -> None:
    # Oslo, 25 October 2020: 02:00 comes twice.
    local = ["00:00", "01:00", "02:00", "02:00", "03:00", "04:00"]
    text = "time,ws_10m,ws_100m\n" + "".join(f"2020-10-25T{clock},{i},{i}\n" for i, clock in enumerate(local))
    path = written(tmp_path, text)
    with pytest.raises(InvalidInput, match=r"occurs twice.*timezone="):
        load(path)
    oslo = load(path, timezone="Europe/Oslo")
    np.testing.assert_array_equal(oslo.time, np.datetime64("2020-10-24T22:00", "s") + 3600 * np.arange(6))
    assert oslo.speed[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert len(load(path, timezone="UTC")) == 5
    # 29 March 2020: 02:00 does not exist.
    spring = ["00:00", "01:00", "03:00", "04:00", "05:00"]
    text = "time,ws_10m,ws_100m\n" + "".join(f"2020-03-29T{clock},{i},{i}\n" for i, clock in enumerate(spring))
    with pytest.raises(InvalidInput, match=r"set forward.*timezone="):
        load(written(tmp_path, text))
    assert not load(written(tmp_path, text), timezone="Europe/Oslo").gaps


@pytest.mark.parametrize("by_height", [False, True])
def test_tidy_rows_when_clocks_change(tmp_path: Path, by_height: bool) -> None:
    local = ["00:00", "01:00", "02:00", "02:00", "03:00", "04:00"]
    rows = [(hour, clock, height) for hour, clock in enumerate(local) for height in (10, 100)]
    if by_height:
        rows.sort(key=lambda row: row[2])
    text = "".join(f"2020-10-25T{clock},{height},{hour + height / 100}\n" for hour, clock, height in rows)
    path = written(tmp_path, "time,height,speed\n" + text)
    oslo = load(path, timezone="Europe/Oslo")
    np.testing.assert_array_equal(oslo.time, np.datetime64("2020-10-24T22:00", "s") + 3600 * np.arange(6))
    np.testing.assert_allclose(oslo.speed, [[hour + 0.1, hour + 1.0] for hour in range(6)])
    with pytest.raises(InvalidInput, match=r"occurs twice.*timezone="):
        load(path)


def test_ways_to_write_a_time(tmp_path: Path) -> None:
    expected = np.datetime64("2020-06-01T00:00", "s") + 3600 * np.arange(3)
    for cells in (
        ["01.06.2020 00:00", "01.06.2020 01:00", "01.06.2020 02:00"],
        ["2020/06/01 00:00:00", "2020/06/01 01:00:00", "2020/06/01 02:00:00"],
        ["1590969600", "1590973200", "1590976800"],
        ["2020060100", "2020060101", "2020060102"],
    ):
        text = "time,ws_10m\n" + "".join(f"{cell},5\n" for cell in cells)
        np.testing.assert_array_equal(load(written(tmp_path, text)).time, expected)
    slashes = written(tmp_path, "time,ws_10m\n01/06/2020 00:00,5\n01/06/2020 01:00,5\n")
    with pytest.raises(InvalidInput, match=r"may be .* or .*time_format="):
        load(slashes)
    assert load(slashes, time_format="%d/%m/%Y %H:%M").time[0] == expected[0]
    assert load(slashes, time_format="%m/%d/%Y %H:%M").time[0] == np.datetime64("2020-01-06")
    clear = written(tmp_path, "time,ws_10m\n13/06/2020 00:00,5\n13/06/2020 01:00,5\n")
    assert load(clear).time[0] == np.datetime64("2020-06-13")
    split = written(tmp_path, "date,time,ws_10m\n2020-06-01,00:00,5\n2020-06-01,01:00,5\n")
    np.testing.assert_array_equal(load(split).time, expected[:2])


def test_semicolons_and_decimal_commas(tmp_path: Path) -> None:
    cells = ("00:00;5,25;6,5", "01:00;NaN;-999", "02:00;5;6", "03:00;5;6")
    text = "time;ws_10m;ws_100m\n" + "".join(f"2020-06-01 {row}\n" for row in cells)
    data = load(written(tmp_path, text), max_missing=0.5)
    assert data.speed.tolist() == [[5.25, 6.5], [5.0, 6.0], [5.0, 6.0]]  # the empty hour is a gap
    assert [gap.hours for gap in data.gaps] == [1.0]


@pytest.mark.parametrize("kind", ["Excel", "Parquet"])
def test_sheets(tmp_path: Path, kind: str) -> None:
    when = [datetime(2020, 6, 1, hour) for hour in range(3)]
    speeds = {"100": [7.0, 7.125, None], "ws_200m": [8.0, 1.234, 9.5]}
    path = tmp_path / "lidar"
    if kind == "Excel":
        openpyxl = pytest.importorskip("openpyxl")
        book = openpyxl.Workbook()
        for row in (["time", "ws\n100 m", "ws_200m"], *zip(when, *speeds.values(), strict=True)):
            book.active.append(row)
        book.save(path)
    else:
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table({"time": when, "ws_100m": speeds["100"], "ws_200m": speeds["ws_200m"]}), path)
    data = load(path, max_missing=0.5)
    assert data.heights.tolist() == [100, 200]
    np.testing.assert_array_equal(data.speed, [[7, 8], [7.125, 1.234], [np.nan, 9.5]])
    assert str(data.time[2]) == "2020-06-01T02:00:00"
    assert data.source == f"{kind}, one column per height"
    assert kind_of([str(path)]) == "wind"
    if kind == "Excel":
        book.create_sheet("Notes")["A1"] = "as received"
        book.save(path)
        with pytest.raises(InvalidInput, match="has the sheets 'Sheet', 'Notes'; save the one with the wind as a file"):
            load(path)


def test_tabs_and_decimal_commas(tmp_path: Path) -> None:
    text = "time\tws_10m\tws_100m\n" + "".join(f"2020-06-01 0{hour}:00\t5,25\t0,125\n" for hour in range(4))
    assert load(written(tmp_path, text)).speed[0].tolist() == [5.25, 0.125]
    assert load(written(tmp_path, text.replace("5,25", "5,250"))).speed[0, 0] == 5.25  # no wind has 5250


def test_tidy_rows(tmp_path: Path) -> None:
    text = "time,height,speed\n" + "".join(
        f"2020-06-01T0{hour}:00Z,{height},{hour + height / 100}\n" for hour in (1, 0, 2) for height in (100, 10, 50)
    )
    data = load(written(tmp_path, text))
    assert data.heights.tolist() == [10.0, 50.0, 100.0]
    np.testing.assert_allclose(data.speed, [[h + 0.1, h + 0.5, h + 1.0] for h in range(3)])
    assert "tidy" in data.source


def tidy(heading: str, heights: list[float], comment: str = "") -> str:
    rows = [(hour, height) for hour in range(6) for height in heights]
    return f"{comment}time,{heading},speed\n" + "".join(f"2020-06-01T0{hour}:00Z,{height},8\n" for hour, height in rows)


@pytest.mark.parametrize(
    ("heading", "factor"),
    [
        ("height", 1.0),
        ("height_m", 1.0),
        ("Height (m agl)", 1.0),
        ("height (above ground)", 1.0),
        ("z [gpm]", 1.0),
        ("altitude (AGL)", 1.0),
        ("height_ft", 0.3048),
        ("height (ft)", 0.3048),
        ("Height in feet", 0.3048),
        ("height_km_agl", 1000.0),
        ("alt [km]", 1000.0),
    ],
)
def test_heights_are_in_the_unit_that_their_heading_names(tmp_path: Path, heading: str, factor: float) -> None:
    given = [100 / factor, 300 / factor]
    data = load(written(tmp_path, tidy(heading, given)))
    np.testing.assert_allclose(data.heights, [100.0, 300.0])
    assert any("heights are in" in note for note in data.notes) == (factor != 1.0)


def test_a_unit_of_heights_in_the_comments(tmp_path: Path) -> None:
    data = load(written(tmp_path, tidy("height", [300, 600], "#height;height above ground;ft\n")))
    np.testing.assert_allclose(data.heights, [91.44, 182.88])


@pytest.mark.parametrize("heading", ["height (yd)", "height_miles", "height (hPa)", "height (100 ft)", "height_m (ft)"])
def test_units_of_heights_that_cannot_be_converted_are_refused(tmp_path: Path, heading: str) -> None:
    with pytest.raises(
        InvalidInput, match=r"the heights in column .* are in .*; convert them, and name the column like"
    ):
        load(written(tmp_path, tidy(heading, [100, 300])))


def test_a_height_in_feet_in_a_heading_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"'ws_300 \(ft\)' is in ft; write heights in metres, such as ws_91m"):
        load(written(tmp_path, table("time,ws_300 (ft),ws_600 (ft)")))


def test_a_height_is_no_code_for_a_missing_number(tmp_path: Path) -> None:
    assert load(written(tmp_path, tidy("height", [100, 500, 999]))).heights.tolist() == [100, 500, 999]
    without = tidy("height", [100, 500]) + "2020-06-01T05:00Z,-999,8\n"
    assert load(written(tmp_path, without)).heights.tolist() == [100, 500]


def test_cells_that_are_missing_and_cells_that_are_slips(tmp_path: Path) -> None:
    text = "time,ws_10m,ws_100m\n" + "".join(f"2020-06-01T0{hour}:00Z,5,6\n" for hour in range(6))
    missing = load(written(tmp_path, text.replace("00:00Z,5", "00:00Z,?").replace("01:00Z,5", "01:00Z,999")))
    assert np.isnan(missing.speed[:2, 0]).all()
    assert "1 speed is a code for a missing number (999)" in missing.notes
    with pytest.raises(InvalidInput, match="line 2: '1_0' in column 'ws_10m' is not a number"):
        load(written(tmp_path, text.replace("00:00Z,5", "00:00Z,1_0")))


def test_tidy_rows_with_moving_heights(shared_data: Path) -> None:
    path = shared_data / "wind" / "ifs_macehead_20190517_hourly.csv"
    data = load(path)
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    assert data.speed.shape == (25, 25)
    assert data.level_heights is not None
    for number, row in enumerate(rows):
        t = number // 25
        at = np.flatnonzero(data.level_heights[t] == float(row[2]))
        assert data.speed[t, at] == float(row[3])
        assert str(data.time[t]) + "Z" == row[0]


def test_sorted_each_time_once_and_joined(tmp_path: Path) -> None:
    one = written(tmp_path, "time,ws_10m\n2020-01-01T02:00Z,3\n2020-01-01T00:00Z,1\n2020-01-01T00:00Z,9\n", "a.csv")
    two = written(tmp_path, "time,ws_10m\n2020-01-01T02:00Z,7\n2020-01-01T03:00Z,8\n", "b.csv")
    data = load([two, one])
    assert data.speed[:, 0].tolist() == [1.0, 7.0, 8.0]
    assert any("2 repeated times were dropped" in note for note in data.notes)
    assert len(load(str(tmp_path / "*.csv"))) == 3
    with pytest.raises(InvalidInput, match="no file matches"):
        load(tmp_path / "c*.csv")
    with pytest.raises(InvalidInput, match="is a folder"):
        load(tmp_path)


def test_files_with_other_heights_leave_holes(tmp_path: Path) -> None:
    one = written(tmp_path, table("time,ws_10m,ws_100m"), "a.csv")
    two = written(tmp_path, table("time,ws_10m,ws_200m", start="2020-06-01T04:00"), "b.csv")
    data = load([one, two], max_missing=0.5)
    assert data.heights.tolist() == [10.0, 100.0, 200.0]
    assert np.isnan(data.speed[:4, 2]).all()
    assert np.isnan(data.speed[4:, 1]).all()


def test_broken_files_say_so_in_one_line(tmp_path: Path) -> None:
    good = csv_text()
    cases = {
        "": "is empty",
        "time,ws_10m\n": "contains no rows",
        "hello\nworld\n": "no column is a wind speed",
        "time,ws_10m\nyesterday,5\n": "'yesterday' is not a time",
        "time,ws_10m\n2020-01-01,fast\n": "line 2: 'fast' in column 'ws_10m' is not a number",
        "time,ws_10m\n2020-01-01,-5\n": "negative",
        "time,ws_10m,ws_10\n2020-01-01,5,5\n": "both the speed at 10 m",
        "time,ws_10m\n2020-01-01,\n2020-01-02,nan\n": "only missing values",
        "time,ws_10m\n2020-01-01,inf\n": "too high|not a wind speed",
        "time,ws_10m\n0020-01-01,5\n": "cannot be right",
        good[: len(good) - 12]: "line 41: .* truncated",
        good.replace("Z,", "Z,nan,", 1).replace("nan,", "", 1).replace("ws_10m", "\x00"): "neither|no text",
    }
    for text, message in cases.items():
        path = written(tmp_path, text)
        with pytest.raises(HoldcourseError, match=message) as caught:
            load(path)
        assert "\n" not in str(caught.value)


def test_a_half_empty_file_is_refused_with_the_option(tmp_path: Path) -> None:
    lines = csv_text(40).splitlines()
    for row in range(1, 21):
        lines[row] = lines[row].split(",")[0] + ",,,"
    path = written(tmp_path, "\n".join(lines))
    with pytest.raises(InvalidInput, match=r"50 % of the speeds in wind\.csv are missing.*max_missing=0\.5"):
        load(path)
    assert len(load(path, max_missing=0.5)) == 20


def test_compressed_csv(tmp_path: Path) -> None:
    path = tmp_path / "wind.csv.gz"
    path.write_bytes(gzip.compress(csv_text().encode()))
    assert len(load(path)) == 40
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DamagedFile, match=r"wind\.csv\.gz cannot be read"):
        load(path)


def test_bundled_data_are_the_csv_to_the_digit(shared_data: Path) -> None:
    for part, name, count in (("test", "2010H2", 4416), ("history", "2008_2010H1", 21888)):
        data = bundled(part)  # type: ignore[arg-type]
        lines = (shared_data / "wind" / f"nora3_northsea_{name}.csv").read_text().splitlines()[1:]
        assert data.heights.tolist() == [10, 20, 50, 100, 250, 500, 750]
        assert len(data) == count == len(lines)
        assert not data.gaps
        assert [f"{time}Z" for time in data.time] == [line.split(",")[0] for line in lines]
        np.testing.assert_array_equal(data.speed, [[float(cell) for cell in line.split(",")[1:]] for line in lines])
    assert bundled("history").time[-1] + np.timedelta64(3600, "s") == bundled("test").time[0]


def test_bundled_data_carry_their_credit() -> None:
    data = bundled()
    assert "Based on data from MET Norway" in data.notes[0]
    assert (data.site.latitude, data.site.longitude) == (53.32, 1.32)
    with pytest.raises(InvalidInput, match="'test', 'history' or 'all'"):
        bundled("future")  # type: ignore[arg-type]


def test_ten_minute_model_output(shared_data: Path) -> None:
    data = load(shared_data / "wind" / "wrf_foxes_200901_10min.csv")
    assert data.heights.tolist() == [50, 75, 90, 100, 150, 200, 250, 500]
    hourly = data.hourly()
    assert len(hourly) == 744
    np.testing.assert_allclose(hourly.speed, data.speed.reshape(744, 6, 8).mean(axis=1), rtol=1e-12)


@pytest.mark.parametrize("first", ["2020-06-01 00:00", "1590969600", "20200601", "01/06/2020 00:00"])
def test_a_file_without_names_is_refused(tmp_path: Path, first: str) -> None:
    with pytest.raises(InvalidInput, match=rf"line 1: '{first}' is a time, not the name of a column; add a line with"):
        load(written(tmp_path, f"{first},6.1,8.2\n2020-06-01T01:00,5.8,7.7\n2020-06-01T02:00,5.8,7.7\n"))


@pytest.mark.parametrize("unit", ["Bft", "ft/s", "cm/s", "0.1 m/s", "ft s-1", "fps", "m^2/s^2"])
def test_a_unit_that_is_not_known_is_not_metres_per_second(tmp_path: Path, unit: str) -> None:
    path = written(tmp_path, table(f"time,ws_10m [{unit}],ws_100m [{unit}]"))
    with pytest.raises(InvalidInput, match=r"the unit '.*' in the heading 'ws_10m \[.* is not known; convert"):
        load(path)
    assert load(path, units="kn").speed[0, 0] == pytest.approx(5 * 1852 / 3600)  # a person knows it


@pytest.mark.parametrize(
    ("note", "factor"),
    [
        *(("m·s⁻¹", 1.0), ("m s^-1", 1.0), ("avg; km/h", 1 / 3.6), ("mean km/h", 1 / 3.6), ("mi/hr", 0.44704)),
        *(("135°", 1.0), ("cup/sonic", 1.0), ("lidar-1", 1.0), ("10 min", 1.0), ("n/a", 1.0)),
    ],
)
def test_what_else_stands_in_brackets(tmp_path: Path, note: str, factor: float) -> None:
    data = load(written(tmp_path, table(f"time,ws_10m [{note}],ws_100m [{note}]")))
    np.testing.assert_allclose(data.speed[0], [5 * factor, 6 * factor])


@pytest.mark.parametrize("header", ["time,ws_10m,ws_100m (max)", "time,ws_10m,ws_10m_N", "time,ws_10m,ws_10m_S"])
def test_gusts_and_other_booms_are_not_the_wind(tmp_path: Path, header: str) -> None:
    data = load(written(tmp_path, table(header)))
    assert (data.heights.tolist(), data.speed[0].tolist()) == ([10.0], [5.0])


def test_a_temperature_is_not_the_time(tmp_path: Path) -> None:
    for header in ("Datum,T_2m,ws_10m,ws_100m", "t,T_2m,ws_10m,ws_100m"):
        assert load(written(tmp_path, table(header, "{time},12.5,5,6"))).speed[0].tolist() == [5.0, 6.0]


@pytest.mark.parametrize(
    ("unit", "code"), [("m/s", "99.0"), ("m/s", "99.99"), ("km/h", "9998"), ("kn", "-999.99"), ("m/s", "-99.99")]
)
def test_codes_of_lidars_and_buoys(tmp_path: Path, unit: str, code: str) -> None:
    path = written(tmp_path, table(f"time,ws_10m [{unit}],ws_100m [{unit}]").replace("T02:00,5,", f"T02:00,{code},"))
    data = load(path)
    assert np.isnan(data.speed[:, 0]).tolist() == [False, False, True, False]
    assert f"1 speed is a code for a missing number ({float(code):g})" in data.notes
    kmh = load(written(tmp_path, table("time,ws_10m [km/h],ws_100m [km/h]").replace("T02:00,5,", "T02:00,99,")))
    assert kmh.speed[2, 0] == pytest.approx(27.5)  # a storm


@pytest.mark.parametrize(
    ("separator", "row"),
    [
        ("\t", "{time}\t5,125\t6,250"),  # three decimals each: no speed has thousands
        (",", '{time},"5,125","6,250"'),
        (";", "{time};5,125E+00;6,25"),
        (";", "{time};+5,125;6,25"),
    ],
)
def test_decimal_commas_of_speeds(tmp_path: Path, separator: str, row: str) -> None:
    data = load(written(tmp_path, table(separator.join(("time", "ws_10m", "ws_100m")), row)))
    assert data.speed[0].tolist() == [5.125, 6.25]


@pytest.mark.parametrize(("height", "speed"), [("1,000", "5.5"), ("1.000", "5,5"), ("1'000", "5.5"), ("1000,0", "5,5")])
def test_thousands_of_metres(tmp_path: Path, height: str, speed: str) -> None:
    row = f"{{time}};500;{speed}\n{{time}};{height};7"
    data = load(written(tmp_path, table("time;height;speed", row)))
    assert (data.heights.tolist(), data.speed[0].tolist()) == ([500.0, 1000.0], [5.5, 7.0])
    open_ = written(tmp_path, table("time;height;speed", "{time};500;5\n{time};1,000;7"))
    with pytest.raises(InvalidInput, match=r"line 3: '1,000' .* may be 1.000 or 1000; write it without a sign between"):
        load(open_)


def test_two_decimal_signs(tmp_path: Path) -> None:
    path = written(tmp_path, table("time;ws_10m;ws_100m", "{time};5,5;6.5"))
    with pytest.raises(InvalidInput, match=r"line 2: '5,5' in column 'ws_10m' is not a number with a decimal point"):
        load(path)


@pytest.mark.parametrize("names", ["Date,Hour", "Datum,Stunde"])
def test_the_hour_in_a_column_of_its_own(tmp_path: Path, names: str) -> None:
    rows = "".join(f"2020-06-{day:02d},{hour},5,6\n" for day in (1, 2) for hour in range(24))
    data = load(written(tmp_path, f"{names},ws_10m,ws_100m\n{rows}"))
    assert [str(when) for when in data.time[[1, -1]]] == ["2020-06-01T01:00:00", "2020-06-02T23:00:00"]


def test_an_hour_beside_whole_times_does_not_count(tmp_path: Path) -> None:
    rows = "".join(f"2020-06-01 {hour:02}:30,{hour + 1},5,6\n" for hour in range(20))  # the hour of local time
    data = load(written(tmp_path, f"date,hour,ws_10m,ws_100m\n{rows}"))
    assert [str(when) for when in data.time[[0, -1]]] == ["2020-06-01T00:30:00", "2020-06-01T19:30:00"]


@pytest.mark.parametrize("clock", [int, time])
def test_dates_of_excel_have_the_hour_in_a_column_of_its_own(tmp_path: Path, clock: Callable[[int], object]) -> None:
    pandas, _ = pytest.importorskip("pandas"), pytest.importorskip("openpyxl")
    hours = range(48)
    days, clocks = [datetime(2020, 6, 1 + k // 24) for k in hours], [clock(k % 24) for k in hours]
    frame = pandas.DataFrame({"Date": days, "Time": clocks, "ws_10m": 5.0, "ws_100m": 6.0})
    frame.to_excel(tmp_path / "wind.xlsx", index=False)
    data = load(tmp_path / "wind.xlsx")
    assert [str(when) for when in data.time[[1, -1]]] == ["2020-06-01T01:00:00", "2020-06-02T23:00:00"]


@pytest.mark.parametrize("names", ["Datum;Uhrzeit", "Date (UTC);Time (UTC)", "date;time"])
def test_the_time_of_day_in_a_column_of_its_own(tmp_path: Path, names: str) -> None:
    rows = "".join(f"01.06.2020;{hour:02}:10;{hour},5;7\n" for hour in range(13, 20))
    data = load(written(tmp_path, f"{names};ws_10m;ws_100m\n{rows}".replace("01.06", "13.06")))
    assert str(data.time[0]) == "2020-06-13T13:10:00"
    assert len(data) == 7


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("day;clock;ws_10m;ws_100m", "2020-06-13;{hour};{hour},5;7"),  # every row has the same day
        ("time;turbine;ws_10m;ws_100m", "2020-06-13 {hour}:00;A;5;6\n2020-06-13 {hour}:00;B;6;6"),
        ("time;turbine;height;ws", "2020-06-13 {hour}:00;A;10;5\n2020-06-13 {hour}:00;B;10;6"),
    ],
)
def test_rows_that_have_one_time_and_several_winds_are_refused(tmp_path: Path, header: str, row: str) -> None:
    text = header + "\n" + "".join(row.format(hour=hour) + "\n" for hour in range(10, 20))
    with pytest.raises(InvalidInput, match=r"rows have the time (and height )?of another row, but other speeds; if"):
        load(written(tmp_path, text))
    same = text.replace(";6\n", ";5\n").replace(";5;6\n", ";5;5\n").replace(";6;5\n", ";5;5\n")
    if "day" not in header:
        assert (load(written(tmp_path, same)).speed == 5).all()
    if "height" in header:
        assert (
            "10 rows were dropped, because time and height are those of an earlier row"
            in load(written(tmp_path, same)).notes
        )


@pytest.mark.parametrize("code", ["-999.0", "-9999.9", "999.0", "-99.99", "99.9"])
def test_codes_with_a_point_say_nothing_of_the_decimal_sign(tmp_path: Path, code: str) -> None:
    cells = ("00:00;5,25;6,5", f"01:00;5,5;{code}", f"02:00;{code};6,25", "03:00;5;6")
    text = "time;ws_10m [m/s];ws_100m [m/s]\n" + "".join(f"2020-06-01 {row}\n" for row in cells)
    data = load(written(tmp_path, text), max_missing=0.5)
    np.testing.assert_array_equal(data.speed, [[5.25, 6.5], [5.5, np.nan], [np.nan, 6.25], [5.0, 6.0]])
    assert any(note.startswith("2 speeds are codes for a missing number") for note in data.notes)


def test_a_height_in_brackets_is_a_height(tmp_path: Path) -> None:
    text = table("time,ws_10m,Wind speed (100 m) [m/s],ws [250m agl],ws_std (100 m)", "{time},5,6,7,1")
    data = load(written(tmp_path, text))
    assert (data.heights.tolist(), data.speed[0].tolist()) == ([10.0, 100.0, 250.0], [5.0, 6.0, 7.0])


def test_a_title_above_the_names(tmp_path: Path) -> None:
    """As the software of lidars exports it: the remedy that the error names is one that works."""
    text = table("time;ws_100m [m/s];ws_50m [m/s]", "{time};6,5;5,25")
    path = written(tmp_path, f"Lidar 7;serial 1234\n{text}")
    with pytest.raises(InvalidInput, match=r"line 2: 3 cells, but .* names 2 columns; .* give header_line=2"):
        load(path)
    data = load(path, header_line=2)
    assert (data.heights.tolist(), data.speed[0].tolist()) == ([50.0, 100.0], [5.25, 6.5])
    with pytest.raises(InvalidInput, match="header_line= must be a whole number, 1 or more, got 0"):
        load(path, header_line=0)


def test_a_file_without_a_column_of_times(tmp_path: Path) -> None:
    """Such as one whose times come second, by a name of their own; or a power curve."""
    text = "ws_100m,ws_50m,stamp\n6.08,5.2,2020-06-01T00:00\n6.10,5.3,2020-06-01T01:00\n"
    with pytest.raises(InvalidInput, match=r"line 2: no column is named like one of times, and '6\.08' in the first"):
        load(written(tmp_path, text))
    assert len(load(written(tmp_path, text.replace("stamp", "time")))) == 2
    seconds = "ts,ws_100m,ws_50m\n1590969600.0,6.08,5.2\n1590973200.0,6.10,5.3\n"
    assert str(load(written(tmp_path, seconds)).time[0]) == "2020-06-01T00:00:00"


@pytest.mark.parametrize("name", ["Höhe (m)", "Hoehe", "høyde [m]"])
def test_a_column_of_heights_in_other_languages(tmp_path: Path, name: str) -> None:
    rows = "".join(f"2020-06-01 {hour:02}:00;{height};5,{hour}\n" for hour in range(9) for height in (200, 40, 120))
    data = load(written(tmp_path, f"time;{name};Windgeschwindigkeit (m/s)\n{rows}"))
    assert (data.heights.tolist(), len(data)) == ([40.0, 120.0, 200.0], 9)
