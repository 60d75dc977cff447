"""A plant's readings: contexts that are derived, rows that are left out, sources that are no text, and the preview."""

from __future__ import annotations

import json
import shlex
import sys
import zipfile
from datetime import datetime, timedelta
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.backtest.preview import duration, preview
from holdcourse.cli import data
from holdcourse.cli.data import kind_of
from holdcourse.errors import HoldcourseError, InvalidInput, MissingExtra

NAMES = {"action": "setting", "cost": "kW", "context": "load"}


def plant(tmp_path, text, name="plant.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


def hourly(count=6, start="2024-06-01T00:00", gap=()):
    """Rows of time, load, setting, kW: the load is the number of the hour."""
    first = datetime.fromisoformat(start)
    rows = [
        f"{first + timedelta(hours=k):%Y-%m-%dT%H:%M},{k},{6 + k % 2},{10 * k}" for k in range(count) if k not in gap
    ]
    return "time,load,setting,kW\n" + "\n".join(rows) + "\n"


def test_missing_cells_are_left_out_and_counted(tmp_path):
    text = "load,setting,kW\n1,6,10\n,6,11\n3,,12\n4,7,NaN\n5,7,14\n"
    found = hc.read_readings(plant(tmp_path, text), **NAMES)
    assert found.history.measurements.tolist() == [10, 14]
    assert found.lines.tolist() == [2, 6]
    assert found.notes == (
        "3 of 5 rows were left out: 'setting' is missing in 1, 'kW' is missing in 1, 'load' is missing in 1",
    )
    with pytest.raises(InvalidInput, match="no row is complete; 'load' is missing in 2 of 2 rows"):
        hc.read_readings(plant(tmp_path, "load,setting,kW\n,6,10\n,6,11\n"), **NAMES)


def test_rows_are_sorted_and_repeated_ones_said(tmp_path):
    lines = hourly().splitlines()
    text = "\n".join([lines[0], *lines[:0:-1], lines[3]])
    found = hc.read_readings(plant(tmp_path, text), **NAMES, time="time")
    assert found.history.measurements.tolist() == [0, 10, 20, 30, 40, 50]
    assert found.step == 1.0
    assert "rows were not in order of time, so they were sorted" in found.notes
    assert "1 row was left out because its time occurs twice" in found.notes
    other = plant(tmp_path, hourly() + "2024-06-01T02:00,2,6,99\n")
    with pytest.raises(
        InvalidInput, match=r"line 8: the time 2024-06-01T02:00:00Z is already in line 4, .*duplicates="
    ):
        hc.read_readings(other, **NAMES, time="time")
    for how, expected in (("first", [20]), ("last", [99]), ("keep", [20, 99])):
        found = hc.read_readings(other, **NAMES, time="time", duplicates=how)
        assert found.history.measurements[2 : 2 + len(expected)].tolist() == expected
    with pytest.raises(InvalidInput, match="duplicates must be"):
        hc.read_readings(other, **NAMES, time="time", duplicates="mean")


def test_of_several_rows_of_one_time_one_stays(tmp_path):
    one, other = "2024-06-01T00:00,1,6,10", "2024-06-01T00:00,1,7,20"
    for rows, how, expected in (
        ((one, one, other), "last", [20]),
        ((one, other, other), "first", [10]),
        ((one, other, one), "last", [10]),
        ((one, other, one), "keep", [10, 20]),
    ):
        text = "\n".join(["time,load,setting,kW", *rows, "2024-06-01T01:00,2,6,30"])
        found = hc.read_readings(plant(tmp_path, text), **NAMES, time="time", duplicates=how)
        assert found.history.measurements.tolist() == [*expected, 30]


def test_midnight_may_end_a_day(tmp_path):
    text = "time;load;setting;kW\n13.01.2024 23:00;1;6;1\n13.01.2024 24:00;2;7;2\n14.01.2024 01:00;3;6;3\n"
    found = hc.read_readings(plant(tmp_path, text), **NAMES, time="time")
    assert found.times.astype(str).tolist() == ["2024-01-13T23:00:00", "2024-01-14T00:00:00", "2024-01-14T01:00:00"]


def test_what_is_written_so_that_it_may_be_read_wrong(tmp_path):
    text = "load;setting;kW\n{};6;10\n20,5;7;11\n"
    for cell in ("(12)", "12-"):
        with pytest.raises(InvalidInput, match=r"is not a number; write -12$"):
            hc.read_readings(plant(tmp_path, text.format(cell)), **NAMES)
    with pytest.raises(
        InvalidInput, match=r"one number with a decimal comma or two numbers; write -999\.0, or '-999, 0'"
    ):
        hc.read_readings(plant(tmp_path, text.format("-999,0")), **NAMES, missing="-999,0")
    day = "time,load,setting,kW\n13-01,1,6,10\n14-01,2,7,11\n"
    with pytest.raises(InvalidInput, match="has no year"):
        hc.read_readings(plant(tmp_path, day), **NAMES, time="time", time_format="%d-%m")


def test_settings_that_differ_by_rounding_are_one():
    table = {"load": [1, 2, 3], "setting": [0.1 + 0.2, 0.3, 0.4], "kW": [1, 2, 3]}
    found = hc.read_readings(table, **NAMES)
    assert len(found.values) == 2
    assert found.history.actions.tolist() == [0, 0, 1]


def test_a_problem_has_the_units_of_the_headers():
    table = {"load [%]": [1, 2, 3], "setting [°C]": [6, 7, 8], "power [kW]": [1, 2, 3]}
    problem = hc.read_readings(table, action="setting", cost="power", context="load, load@-1").problem()
    assert (problem.units, problem.cost_unit) == (("°C",), "kW")
    assert (problem.context_names, problem.context_units) == (("load", "load@-1"), ("%", "%"))


def test_derived_contexts(tmp_path):
    path = plant(tmp_path, hourly(8, gap=(4,)))
    names = NAMES | {"context": "load, load@-1, load - load@-2, load@-3h"}
    found = hc.read_readings(path, **names, time="time")
    # Hour 4 is missing: hours 5 and 6 do not know the reading before or two before; hour 7 not that of three hours ago.
    assert found.history.contexts.tolist() == [[3, 2, 2, 0]]
    assert found.context == ("load", "load@-1", "load - load@-2", "load@-3h")
    by_rows = hc.read_readings(path, **(NAMES | {"context": ["load@-1"]}))
    assert by_rows.history.contexts[:, 0].tolist() == [0, 1, 2, 3, 5, 6]


def test_a_second_line_of_names_is_taken_or_left_out(tmp_path):
    rows = hourly(4).split("\n", 1)[1]
    path = plant(tmp_path, f"t,FT-7,SP-3,EM-1\n,load,setting,kW\n,%,bar,kW\n{rows}")
    for read in (preview, lambda source: hc.read_readings(source, action="SP-3", cost="EM-1", context="FT-7")):
        with pytest.raises(InvalidInput, match=r"line 2: 'load' in column 'FT-7' describes .* header_line=2"):
            read(path)
    assert hc.read_readings(path, **NAMES, header_line=2).units == {
        "load [%]": "%",
        "setting [bar]": "bar",
        "kW [kW]": "kW",
    }
    bad = plant(tmp_path, "load,setting,kW\nBad,Bad,Bad\n" + "1,6,10\n2,7,20\n" * 3)
    assert len(hc.read_readings(bad, **NAMES, missing="Bad")) == 6


def test_days_as_excel_counts_them(tmp_path):
    rows = "".join(f"{45719 + k / 24:.6f},{k},{6 + k % 2},{10 * k}\n" for k in range(6))
    path = plant(tmp_path, "Date,load,setting,kW\n" + rows)
    told = "if it counts days as Excel does (45719.000000 is 2025-03-03 00:00), give"
    assert f"Date: {told} time=Date time_format=excel" in preview(path).remarks
    found = hc.read_readings(path, **NAMES, time="Date")
    assert found.times is None
    assert f"{told} time_format=excel" in found.notes[0]
    with pytest.raises(InvalidInput, match="the weekday are not known; if it counts days as Excel does"):
        hc.read_readings(path, **(NAMES | {"context": "load, hour"}), time="Date")
    options = {"time_format": "excel", "timezone": "Europe/Oslo"}
    found = hc.read_readings(path, **(NAMES | {"context": "load, hour"}), time="Date", **options)
    assert found.step == 1.0
    assert str(found.times[0]) == "2025-03-02T23:00:00"  # midnight in Oslo
    assert preview(path, time="Date", time_format="excel").start == "2025-03-03T00:00:00Z"


def test_names_that_look_alike(tmp_path):
    rows = "".join(f"{k},{name},{10 * k}\n" for k, name in enumerate(["\u00d6ko", "O\u0308ko", "\u00d6KO", "full"] * 3))
    path = plant(tmp_path, "load,setting,kW\n" + rows)
    found = hc.read_readings(path, **NAMES)
    assert found.values == ["full", "\u00d6KO", "\u00d6ko"]  # an umlaut of two signs is the same
    told = "'\u00d6KO' and '\u00d6ko' are read as different names; if they are one, write it in one way"
    assert found.notes == (f"'setting': {told}",)
    assert f"setting: {told}" in preview(path).remarks
    assert hc.read_readings({"load": [1, 2], "setting": ["O\u0308ko", "\u00d6ko"], "kW": [3, 4]}, **NAMES).values == [
        "\u00d6ko"
    ]


def test_the_clock_is_local_and_goes_round(tmp_path):
    path = plant(tmp_path, hourly(48))
    found = hc.read_readings(
        path, **(NAMES | {"context": "hour, weekday, weekend"}), time="time", timezone="Europe/Oslo"
    )
    assert found.context == ("hour (sine)", "hour (cosine)", "weekday (sine)", "weekday (cosine)", "weekend")
    assert str(found.times[0]) == "2024-05-31T22:00:00"
    np.testing.assert_allclose(found.history.contexts[6, :2], [1, 0], atol=1e-12)  # six in the morning
    np.testing.assert_allclose(found.history.contexts[0, :2], found.history.contexts[24, :2], atol=1e-12)
    assert found.history.contexts[:, 4].all()  # Saturday and Sunday
    assert any("sine and a cosine" in note for note in found.notes)
    for word in ("hour", "weekend", "load@-3h"):
        with pytest.raises(InvalidInput, match="need times; name the column of the times with time="):
            hc.read_readings(path, **(NAMES | {"context": word}))


def test_a_column_comes_before_a_derived_context(tmp_path):
    text = "hour,load - x,setting,kW\n1,5,6,10\n2,6,7,11\n"
    found = hc.read_readings(plant(tmp_path, text), **(NAMES | {"context": "hour, load - x"}))
    assert found.history.contexts.tolist() == [[1, 5], [2, 6]]


@pytest.mark.parametrize(
    "head",
    [
        "time,setting,kW,load\nUTC,m,kW,m3/h\n",
        '"TOA5","logger"\n"time","setting","kW","load"\n"TS","m","kW","m3/h"\n"","Smp","Avg","Avg"\n',
        '"TOA5","logger"\n"time","setting","kW","load"\n"TS","m","kW","quux"\n"","Smp","Avg","Avg"\n',
    ],
)
def test_rows_of_units_and_of_averages_below_the_names(tmp_path, head):
    path = tmp_path / "logger.csv"
    path.write_text(head + "".join(f'"2020-01-01 0{hour}:00:00",{6 + hour % 2},3,{hour}\n' for hour in range(5)))
    found = hc.read_readings(path, action="setting", cost="kW", context="load", time="time")
    assert len(found) == 5
    assert found.units["setting [m]"] == "m"
    assert any("contains the units" in note for note in found.notes)
    assert any("how the logger averaged" in note for note in found.notes) == head.startswith('"TOA5')


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ("load,", "empty name"),
        ("load, load", "given twice"),
        ("load@1", "write an earlier reading like load@-1"),
        ("load@-0", "0 readings ago"),
        ("load@-30min", "reaches back 30 min, but readings are 60 min apart"),
        ("load - kW - load", "more than one difference"),
        ("kW", "context 'kW' is what is measured after the decision, .* use the reading before, kW@-1"),
        ("setting", "is the setting that is decided"),
        (None, "context must be the names of columns, .*, got None"),
        ("hours", "no column 'hours'"),
        ([], "no context is given; give context="),
    ],
)
def test_contexts_that_are_not_understood(tmp_path, context, message):
    with pytest.raises(InvalidInput, match=message):
        hc.read_readings(plant(tmp_path, hourly()), **(NAMES | {"context": context}), time="time")


def test_date_and_clock_in_two_columns(tmp_path):
    text = "Datum;Uhrzeit;load;setting;kW\n31.12.2024;23:00;1;6;1,5\n01.01.2025;00:00;2;7;2,5\n"
    found = hc.read_readings(plant(tmp_path, text), **NAMES, time="Datum, Uhrzeit")
    assert [str(time) for time in found.times] == ["2024-12-31T23:00:00", "2025-01-01T00:00:00"]


@pytest.mark.parametrize(
    ("first", "remark"), [("2025-01-01T00:30", "00:30:00 0' is not a time"), ("2025-01-01T00:00+01:00", r"\+01:00 0'")]
)
def test_an_hour_beside_whole_times_of_a_frame_is_refused(first, remark):
    """Else the minutes, or the zone, would be lost."""
    days = [datetime.fromisoformat(first) + timedelta(hours=k) for k in range(6)]
    columns = {"date": days, "hour": list(range(6)), "load": [1.0] * 6, "setting": [6, 7] * 3, "kW": [1.0] * 6}
    with pytest.raises(InvalidInput, match=remark):
        hc.read_readings(columns, **NAMES, time="date,hour")
    columns["date"] = [datetime(2025, 1, 1)] * 6
    assert str(hc.read_readings(columns, **NAMES, time="date,hour").times[5]) == "2025-01-01T05:00:00"


def test_numbers_to_sort_by(tmp_path):
    text = "step,load,setting,kW\n2,1,6,10\n1,2,7,20\n"
    found = hc.read_readings(plant(tmp_path, text), **NAMES, time="step")
    assert found.history.measurements.tolist() == [20, 10]
    assert found.times is None
    with pytest.raises(InvalidInput, match=r"plain numbers.*the hour and the weekday are not known"):
        hc.read_readings(plant(tmp_path, text), **(NAMES | {"context": "hour"}), time="step")
    with pytest.raises(InvalidInput, match="line 3: 'later' in column 'step' is not a time like '2'"):
        hc.read_readings(plant(tmp_path, text.replace("\n1,", "\nlater,")), **NAMES, time="step")


def test_a_row_of_units_below_the_names(tmp_path):
    text = "load,setting,kW\n[%],[°C],[kW]\n1,6,10\n2,7,11\n"
    found = hc.read_readings(plant(tmp_path, text), **NAMES)
    assert len(found) == 2
    assert found.units == {"setting [°C]": "°C", "kW [kW]": "kW", "load [%]": "%"}


def test_units_that_we_do_not_know_stand_above_numbers(tmp_path):
    names, rows = hourly(4).split("\n", 1)
    path = plant(tmp_path, f"{names}\n,Nm3/h,bar,kW\n{rows}")
    assert hc.read_readings(path, **NAMES).units == {"load [Nm3/h]": "Nm3/h", "setting [bar]": "bar", "kW [kW]": "kW"}
    path = plant(tmp_path, f"{names}\n,Nm3/h,lots,much\n{rows}")
    with pytest.raises(
        InvalidInput, match=r"line 2: 'Nm3/h' in column 'load' describes the column.* leave the line out"
    ):
        hc.read_readings(path, **NAMES)


def test_a_meter_is_no_cost(tmp_path):
    count = "\n".join(f"{t},{t % 5},{6 + t % 2},{100 + 3 * t}" for t in range(150))
    with pytest.raises(InvalidInput, match="'kWh' only ever rises, as the count of a meter does; add a column"):
        hc.read_readings(plant(tmp_path, f"t,load,setting,kWh\n{count}"), **(NAMES | {"cost": "kWh"}))
    found = preview(plant(tmp_path, f"t,load,setting,kWh\n{count}"))
    assert "kWh" not in found.costs + found.contexts
    assert "kWh: it rises by the same amount in every row, as a count of rows or of hours does" in found.remarks


def test_a_number_that_may_stand_for_a_missing_one(tmp_path):
    text = "load,setting,kW\n" + "".join(f"{k},{6 + k % 2},{10 + k}\n" for k in range(9)) + "9,6,-9999\n"
    refused = r"line 11: -9999 occurs once in column 'kW', far.*missing=-9999.*missing=none"
    with pytest.raises(InvalidInput, match=refused):
        hc.read_readings(plant(tmp_path, text), **NAMES)
    with pytest.raises(InvalidInput, match=refused):  # another code says nothing about this number
        hc.read_readings(plant(tmp_path, text), **NAMES, missing="Fehler")
    assert len(hc.read_readings(plant(tmp_path, text), **NAMES, missing="-9999")) == 9
    for right in ("none", "none,Fehler", ["Fehler", "none"]):
        assert hc.read_readings(plant(tmp_path, text), **NAMES, missing=right).history.measurements.min() == -9999
    told = preview(plant(tmp_path, text), missing="Fehler").remarks
    assert "kW: -9999 occurs once, far from all others: if it means missing, give missing=-9999" in told


def test_contexts_that_are_names(tmp_path):
    text = "product,shift,setting,kW\nA,day,6,10\nC,night,8,11\n,day,6,12\nB,night,8,13\n"
    found = hc.read_readings(plant(tmp_path, text), **NAMES | {"context": "product, shift, product@-1"})
    assert found.context == (
        *("product = A", "product = B", "product = C"),
        "shift = night",
        *("product@-1 = A", "product@-1 = B", "product@-1 = C"),
    )
    assert found.history.contexts.tolist() == [[0, 0, 1, 1, 1, 0, 0]]  # of the others, a product is missing
    assert "'shift' contains names (shift = night): each becomes a context that is 1 or 0" in found.notes
    with pytest.raises(InvalidInput, match="takes a difference, but column 'product' contains names"):
        hc.read_readings(plant(tmp_path, text), **NAMES | {"context": "product - shift"})
    with pytest.raises(InvalidInput, match="'-' in column 'product' may be a name or stand for a missing one"):
        hc.read_readings(plant(tmp_path, text.replace("C,", "-,")), **NAMES | {"context": "product"})
    with pytest.raises(InvalidInput, match="'C' in column 'product' is not a number"):  # a mistake among numbers
        hc.read_readings(plant(tmp_path, text.replace("A,", "1,")), **NAMES | {"context": "product"})
    many = "product,setting,kW\n" + "".join(f"p{k},{6 + k % 2},{k}\n" for k in range(13))
    with pytest.raises(InvalidInput, match="contains 13 different names, but a context may have at most 12"):
        hc.read_readings(plant(tmp_path, many), **NAMES | {"context": "product"})


def test_settings_that_are_names(tmp_path):
    text = "load,setting,kW\n1,low,10\n2,high,11\n3,,12\n"
    found = hc.read_readings(plant(tmp_path, text), **NAMES)
    assert found.values == ["high", "low"]
    assert found.history.actions.tolist() == [1, 0]
    with pytest.raises(InvalidInput, match="line 2: 'low' in column 'setting' is not a number"):
        hc.read_readings(plant(tmp_path, text.replace("high", "8")), **NAMES)
    assert hc.read_readings(plant(tmp_path, text.replace("high", "8")), **NAMES, named=True).values == ["8", "low"]
    with pytest.raises(InvalidInput, match="line 3: 'none' in column 'setting' may be a setting or stand for"):
        hc.read_readings(plant(tmp_path, text.replace("high", "none")), **NAMES)
    with pytest.raises(InvalidInput, match="contains names"):
        found.problem()


def test_the_five_files_that_were_refused(tmp_path):
    """An empty cell, decimal commas, semicolons, Excel's alphabet, local dates."""
    header, *rows = hourly(6).splitlines()
    local = [row.replace("2024-06-01T", "01.06.2024 ") for row in rows]
    german = ["Zeit;Außenlast;setting;kW", *(row.replace(",", ";") + ",5" for row in local)]
    files = {
        "an empty cell": ("\n".join([header, *rows, "2024-06-01T07:00,,6,70"]), "utf-8", "load", "time"),
        "German": ("\r\n".join(german), "cp1252", "Außenlast", "Zeit"),
        "UTF-16": ("\n".join(german).replace(";", "\t"), "utf-16", "Außenlast", "Zeit"),
    }
    for text, encoding, load, time in files.values():
        found = hc.read_readings(
            plant(tmp_path, text, encoding=encoding), action="setting", cost="kW", context=load, time=time
        )
        assert len(found) == 6
        assert found.history.contexts[:, 0].tolist() == [0, 1, 2, 3, 4, 5]


def fake_openpyxl(monkeypatch, sheets):
    """An openpyxl that gives these sheets, in the way of its `load_workbook(read_only=True)`."""
    pages = [
        SimpleNamespace(title=title, iter_rows=lambda values_only, rows=rows: iter(rows))
        for title, rows in sheets.items()
    ]

    class Book:
        worksheets = pages

        def __getitem__(self, title):
            return next(page for page in pages if page.title == title)

        def close(self):
            pass

    module = ModuleType("openpyxl")
    module.load_workbook = lambda path, read_only, data_only: Book()
    monkeypatch.setitem(sys.modules, "openpyxl", module)


@pytest.fixture
def workbook(tmp_path):
    path = tmp_path / "plant.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return path


def test_excel(workbook, monkeypatch):
    day = datetime(2024, 6, 1)
    rows = [
        ("Plant A", None, None, None),
        (None, None, None, None),
        ("time", "load", "setting", "kW"),
        (day, 1.234, 6, 10),
        (day + timedelta(hours=1), None, 6, 11),
        (day + timedelta(hours=2), 3, 7, "12.5"),
    ]
    fake_openpyxl(monkeypatch, {"readings": rows, "notes": [("x",), (1,)]})
    with pytest.raises(InvalidInput, match="has the sheets 'readings', 'notes'; choose one with sheet="):
        hc.read_readings(workbook, **NAMES)
    with pytest.raises(InvalidInput, match=r"row 3: 'load' is in column 2, .* header_line=3, otherwise"):
        hc.read_readings(workbook, **NAMES, sheet="readings")
    found = hc.read_readings(workbook, **NAMES, sheet="readings", time="time", header_line=3)
    assert found.history.contexts[:, 0].tolist() == [1.234, 3.0]
    assert found.history.measurements.tolist() == [10, 12.5]
    assert found.lines.tolist() == [4, 6]
    assert str(found.times[1]) == "2024-06-01T02:00:00"


def test_excel_itself(tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="needs the extra: pip install 'holdcourse[tables]'")
    book = openpyxl.Workbook()
    for row in [
        ("time", "load", "setting", "kW"),
        *((datetime(2024, 6, 1, k), k / 8, 6 + k % 2, 10 * k) for k in range(5)),
    ]:
        book.active.append(row)
    book.save(tmp_path / "plant.xlsx")
    found = hc.read_readings(tmp_path / "plant.xlsx", **NAMES, time="time")
    assert found.history.contexts[:, 0].tolist() == [0, 0.125, 0.25, 0.375, 0.5]
    assert str(found.times[4]) == "2024-06-01T04:00:00"


def test_a_damaged_sheet_is_one_sentence(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["load", "setting", "kW"], *([k, 6 + k % 2, 10.0 * k] for k in range(200))):
        book.active.append(row)
    book.save(tmp_path / "plant.xlsx")
    content, random = (tmp_path / "plant.xlsx").read_bytes(), np.random.default_rng(1)
    with zipfile.ZipFile(tmp_path / "plant.xlsx") as archive:
        begin = archive.getinfo("xl/worksheets/sheet1.xml").header_offset + 60
    refused = 0
    for place in random.integers(begin, begin + 800, 25).tolist():
        damaged = bytearray(content)
        damaged[place : place + 3] = b"\xff\x00\xff"
        (tmp_path / "damaged.xlsx").write_bytes(damaged)
        try:
            hc.read_readings(tmp_path / "damaged.xlsx", **NAMES)
        except HoldcourseError as error:
            refused += "damaged.xlsx" in str(error)
    assert refused > 20
    with pytest.raises(HoldcourseError, match="contains no rows"):
        hc.read_readings(plant(tmp_path, '""\n""\n'), **NAMES)


def test_parquet_itself(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="needs the extra: pip install 'holdcourse[tables]'")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"load": [0.5, None, 2.0], "setting": ["a", "b", "b"], "kW": [1, 2, 3]})
    parquet.write_table(table, tmp_path / "plant.parquet")
    found = hc.read_readings(tmp_path / "plant.parquet", **NAMES)
    assert found.history.contexts[:, 0].tolist() == [0.5, 2.0]
    assert found.values == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "head", "module"), [("a.xlsx", b"PK\x03\x04", "openpyxl"), ("a.parquet", b"PAR1", "pyarrow")]
)
def test_an_extra_that_is_not_installed(tmp_path, monkeypatch, name, head, module):
    monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / name).write_bytes(head + b"rest of it")
    if name.endswith("xlsx"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("xl/workbook.xml", "<workbook/>")
    with pytest.raises(MissingExtra, match=rf'needs {module}.*pip install "holdcourse\[tables\]"'):
        hc.read_readings(tmp_path / name, **NAMES)


def test_what_is_no_table(tmp_path, workbook, monkeypatch):
    fake_openpyxl(monkeypatch, {"empty": []})
    with pytest.raises(HoldcourseError, match="has no rows in this sheet"):
        hc.read_readings(workbook, **NAMES)
    workbook.write_bytes(b"PK\x03\x04 and nothing of a ZIP")
    for name, content, message in (
        ("plant.xlsx", b"PK\x03\x04 and nothing of a ZIP", "cannot be read as Excel"),
        ("plant.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", r"old format \(\.xls\); save it as"),
        ("plant.json", b'[{"load": 1}]', "is JSON"),
        ("plant.xls", b"<html><table><tr><td>load</td></tr></table></html>", "is a page of HTML or XML"),
        ("plant.xls", b'\n<?xml version="1.0"?>\n<Workbook/>', "is a page of HTML or XML"),
        ("plant.txt", b"load\n1\n2\n", "only one column"),
        (
            "unit.csv",
            b"load,setting,kW\n5 %,6,1\n6,6,2\n",
            "line 2: '5 %' .* write 5, and put the unit into the header",
        ),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(HoldcourseError, match=message):
            hc.read_readings(tmp_path / name, **NAMES)
    with pytest.raises(InvalidInput, match="must be a path or a data frame, got int"):
        hc.read_readings(3, **NAMES)
    with pytest.raises(InvalidInput, match=r"\[2, 3\] rows"):
        hc.read_readings({"load": [1, 2], "setting": [1, 2, 3]}, **NAMES)


def test_a_frame_of_polars_by_its_manners():
    """polars gives its columns by name, with `to_list`; nothing else of it is used."""

    class Series(list):
        def to_list(self):
            return list(self)

    class Frame:
        columns = ("time", "load", "setting", "kW")

        def __getitem__(self, name):
            return Series(
                {
                    "time": [datetime(2024, 6, 1, 1), datetime(2024, 6, 1, 0)],
                    "load": [np.float32(0.5), None],
                    "setting": [True, False],
                    "kW": [np.int64(3), 4.0],
                }[name]
            )

    found = hc.read_readings(Frame(), **NAMES, time="time")
    assert found.values == ["True"]
    assert found.history.contexts.tolist() == [[0.5]]


def test_preview_of_a_plant(tmp_path):
    random = np.random.default_rng(0)
    lines = ["time;outdoor [°C];meter;setting;power [kW]"]
    for hour in range(240):
        if 100 <= hour < 110:
            continue
        outdoor = "-9999" if hour == 50 else f"{random.normal(10, 4):.2f}".replace(".", ",")
        moment = datetime(2024, 6, 1) + timedelta(hours=hour)
        power = f"{random.normal(50, 5):.1f}".replace(".", ",")
        lines.append(f"{moment:%d.%m.%Y %H:%M};{outdoor};{1000 + 3 * hour};{6 + (hour // 40) % 3};{power}")
    path = plant(tmp_path, "\n".join(lines))
    found = preview(path)
    assert (found.rows, found.step_hours, found.gap_count, found.ordered) == (230, 1.0, 1, True)
    assert [duration(hours) for hours in (23 / 6, 0.5, 1.5)] == ["3 h 50 min", "30 min", "1 h 30 min"]
    assert found.gaps == ("10 h missing between 2024-06-05T03:00:00Z and 2024-06-05T14:00:00Z",)
    assert (found.settings, found.costs, found.contexts) == (("setting",), ("power [kW]",), ("outdoor [°C]",))
    setting = next(column for column in found.columns if column.name == "setting")
    assert (setting.distinct, setting.changes) == (3, 5)
    assert any("-9999 occurs once" in remark for remark in found.remarks)
    assert any(remark.startswith("meter: it never falls") for remark in found.remarks)
    json.dumps(found.as_values())


def test_preview_offers_a_setting_by_its_name_and_names_as_contexts(tmp_path):
    rows = "".join(f"{'AB'[k // 60]};{20 + k * 37 % 61};{6 + k // 7 % 3};{50 + k * 41 % 67}\n" for k in range(120))
    found = preview(plant(tmp_path, "Produkt;Last;Sollwert;Leistung\n" + rows))
    assert found.settings == ("Sollwert", "Produkt")
    assert found.contexts == ("Produkt", "Last")


def test_preview_of_a_row_for_each_sensor_in_a_winter_with_such_a_night(tmp_path):
    """Every time occurs three times; that is no hour in which clocks were set back."""
    rows = "".join(
        f"2025-10-{day} {hour:02}:00;{tag};{hour}\n"
        for day in (25, 26)
        for hour in range(24)
        for tag in ("SP", "T", "P")
    )
    found = preview(plant(tmp_path, f"timestamp;tag;value\n{rows}"))
    assert any("is there a row for each sensor?" in remark for remark in found.remarks)
    assert "tag" not in found.settings


def test_preview_of_columns_of_one_name(tmp_path):
    path = plant(
        tmp_path, "t,setting,T,T,T,kW\n" + "".join(f"{k},{k % 2},{k},{-k},{2 * k},{k * k}\n" for k in range(20))
    )
    found = preview(path)
    assert "T: this is the name of the columns 3, 4 and 5; give each a name of its own" in found.remarks
    assert "T" not in found.contexts
    with pytest.raises(InvalidInput, match=r"columns 3 \('T'\) and 4 .* may all be 'T'; give each a name of its own"):
        hc.read_readings(path, action="setting", cost="kW", context="T")


@pytest.mark.parametrize(
    ("hours", "first"), [(range(24), "00"), (range(1, 25), "01"), ([f"{k:02d}" for k in range(24)], "00")]
)
def test_preview_of_a_date_and_the_hour_of_each_row(tmp_path, hours, first):
    rows = [f"{day:02d}.03.2025;{hour};{day};{6 + int(hour) % 2};{hour}" for day in (30, 31) for hour in hours]
    path = plant(tmp_path, "Datum;Stunde;load;setting;kW\n" + "\n".join(rows))
    found = preview(path, timezone="UTC")
    assert found.time == ("Datum", "Stunde")
    assert (found.start, found.step_hours, found.repeated) == (f"2025-03-30T{first}:00:00Z", 1.0, 0)
    assert len(hc.read_readings(path, **NAMES, time="Datum,Stunde", timezone="UTC")) == 48


def test_preview_of_times_in_words_and_of_two_decimal_signs(tmp_path):
    rows = "".join(f"{k}. M\u00e4rz 2025 00:00;{k},5;{k % 2};{k}.5\n" for k in range(1, 20))
    told = preview(plant(tmp_path, "Zeit;load;setting;kW\n" + rows)).remarks
    assert any("'1. M\u00e4rz 2025 00:00' is not a time in a way that is known" in remark for remark in told)
    assert any("'1,5' has a decimal comma, but '1.5' (line 2) has a decimal point" in remark for remark in told)


def test_names_in_angle_brackets(tmp_path):
    text = hourly(4).replace("time,load,setting,kW", "<TIME>,<load>,<setting>,<kW>")
    names = {"action": "<setting>", "cost": "<kW>", "context": "<load>"}
    assert len(hc.read_readings(plant(tmp_path, text), **names, time="<TIME>")) == 4


def test_names_of_columns_over_several_lines(tmp_path):
    path = plant(tmp_path, 'time,"load\n[%]","setting\r\n[bar]",kW\n' + hourly(4).split("\n", 1)[1])
    assert hc.read_readings(path, **NAMES).units == {"load [%]": "%", "setting [bar]": "bar", "kW": "kW"}


def test_preview_of_cells_with_units(tmp_path):
    """One letter may be a part of a name, such as the pump 2A; more letters and signs are units."""
    rows = "".join(f"{6 + k % 3} °C;{k * 7 % 31},5 %;{k % 5}A;{k % 7}\n" for k in range(60))
    path = plant(tmp_path, f"setting;load (%);pump;outdoor\n{rows}")
    found = preview(path)
    told = "is a number with its unit in each cell; put A into the header, or the column is read as names"
    assert f"pump: '0A' {told}" in found.remarks
    assert [(each.name, each.kind) for each in found.columns[:2]] == [
        ("setting [°C]", "numbers"),
        ("load (%)", "numbers"),
    ]
    assert found.columns[1].low == 0.5
    assert "the cells of 'load (%)' contain their unit, %" in found.notes
    readings = hc.read_readings(path, action="setting", cost="load", context="outdoor")
    assert readings.units == {"setting [°C]": "°C", "load (%)": "%"}
    assert readings.values.tolist() == [6, 7, 8]
    rows = rows.replace(";0,5 %", ";void")
    voids = hc.read_readings(plant(tmp_path, f"setting;load;pump;outdoor\n{rows}"), **COLD, missing="void")
    assert len(voids) == 60 - rows.count("void") < 60


COLD = {"action": "setting", "cost": "load", "context": "outdoor"}


def test_names_that_look_like_numbers_with_a_unit_stay_names(tmp_path):
    rows = "".join(f"{6 + k % 3} kW;{k}\u202f%;{k % 7}\n" for k in range(1, 60))
    path = plant(tmp_path, f"setting;load;outdoor\n{rows}")
    named = hc.read_readings(path, **COLD, named=True)
    assert list(named.values) == ["6 kW", "7 kW", "8 kW"]
    assert named.units == {"load [%]": "%"}
    path = plant(tmp_path, f"setting;load;outdoor\n{rows}".replace(" kW", " 3 kW"))
    assert list(hc.read_readings(path, **COLD).values) == ["6 3 kW", "7 3 kW", "8 3 kW"]  # 6 3 is no number


def test_a_first_row_of_words_that_are_missing_numbers_is_none_of_names(tmp_path):
    path = plant(tmp_path, "setting,load,kW\non,bad,void\n" + "".join(f"on,{k},{k}\noff,{k},{k}\n" for k in range(9)))
    with pytest.raises(InvalidInput, match="line 2: 'bad' in column 'load' describes the column"):
        hc.read_readings(path, **NAMES)
    assert len(hc.read_readings(path, **NAMES, missing="bad, void")) == 18
    assert preview(path, missing="bad, void").rows == 19


def test_preview_of_a_column_with_words_among_its_numbers_and_of_a_stuck_sensor(tmp_path):
    """A sensor in whole numbers has few different values, but they change nearly every row."""
    rows = "".join(
        f"{'Fehler' if k == 50 else k % 17},{40 if 60 <= k < 110 else 20 + k * 37 % 11},{6 + k // 5 % 3},{50 + k % 7}\n"
        for k in range(200)
    )
    found = preview(plant(tmp_path, "outdoor,load,Flow SP,kW\n" + rows))
    assert [column.kind for column in found.columns] == ["mixed", "numbers", "numbers", "numbers"]
    assert found.settings[0] == "Flow SP"
    assert "outdoor" not in found.contexts
    assert "load: it does not change for 50 rows: was the sensor stuck?" in found.remarks


@pytest.mark.parametrize(
    ("head", "when"),
    [
        ("date,time", "06/01/2025,{:02}:00 PM"),
        ("Datum,Uhrzeit", "21.06.2025,{:02}:00"),
        ("ts", "{}"),
        ("unix", "1748736{:03}"),
    ],
    ids=["a clock of twelve hours", "a date with points", "a short name", "seconds since 1970"],
)
def test_preview_finds_the_times(tmp_path, head, when):
    shown = [when.format(f"2025-06-01T{k:02}:00" if head == "ts" else k) for k in range(1, 12)]
    rows = "\n".join(f"{text},{k % 3},{k},{20 + k % 4}" for k, text in enumerate(shown))
    found = preview(plant(tmp_path, f"{head},setting,load,energy_kwh\n{rows}"))
    assert found.time == tuple(head.split(","))
    assert found.columns[-1].unit == "kWh"


def test_a_price_of_energy_is_no_cost_and_no_energy(tmp_path):
    rows = "\n".join(f"{60 + t / 7:.2f},{t % 3},{t / 5:.1f}5" for t in range(40, 0, -1))
    found = preview(plant(tmp_path, f"price_eur_mwh,setting,bill_eur\n{rows}"))
    assert (found.costs, found.contexts) == (("bill_eur",), ("price_eur_mwh",))
    assert [column.unit for column in found.columns] == ["EUR/MWh", None, "EUR"]


def test_preview_of_a_row_for_each_sensor(tmp_path):
    rows = "\n".join(f"2025-06-01T{k:02}:00,{tag},{k}.5" for k in range(24) for tag in ("LOAD", "SP", "KWH"))
    found = preview(plant(tmp_path, f"time,tag,value\n{rows}"))
    assert (found.settings, found.costs, found.contexts) == ((), (), ())  # no command could use them
    assert any("tag: 3 names, and most times occur that often" in remark for remark in found.remarks)


def test_preview_says_what_is_wrong_with_a_column_and_shows_the_others(tmp_path):
    text = "time;load;setting;kW\n" + "".join(
        f"2024-06-01T{k:02};{'1O' if k == 3 else k};{6 + k % 2};{k},5\n" for k in range(20)
    )
    found = preview(plant(tmp_path, text))
    assert any("line 5: '1O' in column 'load' is not a number" in remark for remark in found.remarks)
    assert next(column for column in found.columns if column.name == "kW").high == 19.5


def test_a_load_in_kw_is_a_context_where_another_column_is_called_a_cost(tmp_path):
    rows = "".join(f"{6 + k // 30};{300 + k * 41 % 119},5;{80 + k * 37 % 113},25\n" for k in range(120))
    found = preview(plant(tmp_path, "Vorlauf [°C];Last [kW];Verbrauch [kWh]\n" + rows))
    assert found.costs == ("Verbrauch [kWh]",)
    assert found.contexts == ("Last [kW]",)
    found = preview(plant(tmp_path, "Vorlauf [°C];Last [kW];Menge\n" + rows))
    assert found.costs == ("Last [kW]",)


def test_data_info_of_a_plants_table_in_an_archive(tmp_path):
    path = tmp_path / "plant.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("plant.csv", hourly())
    with pytest.raises(InvalidInput, match="If this is a plant's table, unpack it and give the file in it"):
        data.info([str(path)])


def test_data_info_of_several_tables_of_a_plant(tmp_path):
    """Also of several Excel files, which are archives too, but not to be unpacked."""
    openpyxl = pytest.importorskip("openpyxl", reason="needs the extra: pip install 'holdcourse[tables]'")
    book = openpyxl.Workbook()
    book.active.append(["time", "kW"])
    book.active.append([datetime(2024, 5, 1), 1.0])
    book.save(tmp_path / "may.xlsx")
    book.save(tmp_path / "june.xlsx")
    with pytest.raises(InvalidInput, match=r"If these are a plant's tables, give one at a time$"):
        data.info([str(tmp_path / "may.xlsx"), str(tmp_path / "june.xlsx")])


def test_data_info_tells_wind_from_a_plant(tmp_path):
    from typer.testing import CliRunner

    from holdcourse.cli.root import app

    wind = plant(
        tmp_path, "time,ws_10m,ws_100m\n" + "".join(f"2024-06-01T{k:02}:00Z,5,6\n" for k in range(20)), "w.csv"
    )
    rows = "".join(f"2024-06-01T{k:02}:00Z,{5 + k},{6 + k // 5},{10 + k}\n" for k in range(20))
    own = plant(tmp_path, "time,ws_10m,pitch,power [kW]\n" + rows, "p.csv")  # one wind speed makes no profile
    shown = {path: CliRunner().invoke(app, ["data", "info", str(path)]) for path in (wind, own)}
    assert all(done.exit_code == 0 for done in shown.values())
    assert "one column per height" in shown[wind].output
    assert "p.csv: 20 rows, 4 columns" in shown[own].output
    assert "may be the setting: pitch" in shown[own].output
    found = json.loads(CliRunner().invoke(app, ["data", "info", str(own), "--json"]).output)
    assert found["costs"] == ["power [kW]"]
    named = plant(tmp_path, wind.read_text().replace("ws_10m,ws_100m", "V_10,V_100"), "v.csv")
    hinted = CliRunner().invoke(app, ["data", "info", str(named)]).output
    assert "look: if this is wind, name the speeds like ws_100m, with the height in metres" in hinted
    assert "v.csv --kind wind says what is missing" in hinted
    assert "if this is wind" not in shown[own].output
    forced = CliRunner().invoke(app, ["data", "info", str(wind), "--kind", "readings"])
    assert "w.csv: 20 rows, 3 columns" in forced.output


@pytest.mark.parametrize(
    ("key", "message"),
    [("power_curves", "awesIO power curves, not a table; .*wind machines"), ("airspace_constraints", "--constraints")],
)
def test_data_info_says_where_an_awesio_file_is_looked_at(tmp_path, key, message):
    path = tmp_path / "kite.yml"
    path.write_text(f"metadata: {{name: kite}}\n{key}: {{}}\n")
    with pytest.raises(InvalidInput, match=message):
        kind_of([str(path)])


def test_options_of_the_command_are_named_in_its_errors(tmp_path, monkeypatch, capsys):
    from holdcourse.cli.root import main

    rows = "".join(f'{k},{6 + k % 2},"1,{234 + k}"\n' for k in range(30))
    path = plant(tmp_path, "load,setting,kW\n" + rows)
    words = ["holdcourse", "backtest", "--log", str(path), "--action", "setting", "--cost", "kW", "--context", "load"]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit):
        main()
    told = capsys.readouterr().err
    assert (
        "plant.csv, line 2: '1,234' in column 'kW' may be 1.234 or 1234: give --decimal comma or --thousands comma"
        in told
    )


def test_the_offset_in_a_heading_is_the_zone_of_the_hour():
    table = {"Time (UTC+2)": ["2024-06-01 06:00", "2024-06-01 07:00"], "s": [6, 8], "y": [1.0, 2.0]}
    found = hc.read_readings(table, action="s", cost="y", context="hour", time="Time (UTC+2)")
    assert str(found.times[0]) == "2024-06-01T04:00:00"
    np.testing.assert_allclose(found.history.contexts[0], [1.0, 0.0], atol=1e-12)


def test_whole_numbers_of_a_frame_are_times_since_1970():
    nanoseconds = [1_717_200_000_000_000_000.0 + 3.6e12 * k for k in range(3)]
    table = {"time": nanoseconds, "s": [6, 8, 6], "y": [1.0, 2.0, 3.0]}
    found = hc.read_readings(table, action="s", cost="y", context="hour", time="time")
    assert [str(time) for time in found.times[:2]] == ["2024-06-01T00:00:00", "2024-06-01T01:00:00"]


def test_data_info_prints_a_command_that_reads_the_file_in_the_same_way(tmp_path):
    from typer.testing import CliRunner

    from holdcourse.cli.root import app

    rows = "".join(
        f"{1 + k // 24:02}/06/2024 {k % 24:02}:00;{k % 19},5;{6 + k // 5 % 3};{10 + k},1\n" for k in range(72)
    )
    path = plant(tmp_path, "time;outdoor [°C];set-point [°C];power [kW]\n" + rows, "p.csv")
    zoned = ["--timezone", "Europe/Oslo", "--time-format", "%d/%m/%Y %H:%M"]
    shown = CliRunner().invoke(app, ["data", "info", str(path), *zoned, "--missing", "-9999"]).output
    command = shlex.split(shown.splitlines()[-1])
    assert command[:4] == ["holdcourse", "backtest", "--log", str(path)]
    assert command[4:12] == ["--time", "time", *zoned, "--missing", "-9999"]
    assert {"--action", "--cost", "--context"} <= set(command)


def test_the_command_of_data_info_reads_names_with_commas(tmp_path):
    from typer.testing import CliRunner

    from holdcourse.cli.root import app

    rows = "".join(f"{k % 19}.5;{k % 17}.5;{6 + k // 5 % 3};{10 + k}.1\n" for k in range(72))
    path = plant(tmp_path, "outdoor, mean;load;set-point;power [kW]\n" + rows, "p.csv")
    command = shlex.split(CliRunner().invoke(app, ["data", "info", str(path)]).output.splitlines()[-1])
    given = [command[place + 1] for place, word in enumerate(command) if word == "--context"]
    assert hc.read_readings(path, action="set-point", cost="power", context=given).context == tuple(given)
    assert given == ["outdoor, mean", "load"]


@pytest.mark.parametrize(
    ("context", "left", "told"),
    [
        ("load", 60, "the median is 50"),
        ("power@-1", 58, "; so is 1 row with such a cost in the context"),
        ("load, power@-1, power@-2", 56, "; so are 2 rows with such a cost in the context"),
        ("power@-1 - power@-2", 56, "; so are 2 rows with such a cost in the context"),
    ],
)
def test_an_absurd_cost_does_not_stay_in_the_contexts_of_later_rows(context, left, told):
    power = 50 + np.random.default_rng(0).normal(size=61)
    power[20] = 5_000_000.0
    table = {"load": np.arange(61) % 7, "setting": [6.0, 8.0] * 30 + [6.0], "power [kW]": power}
    found = hc.read_readings(table, action="setting", cost="power", context=context).believable()
    assert len(found) == left
    assert np.abs(found.history.contexts).max() < 100
    assert told in found.notes[-1]
