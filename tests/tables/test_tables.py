"""How text becomes numbers and times: what is certain is read, what is open is refused with the remedy."""

from __future__ import annotations

import gzip
import re
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from holdcourse.errors import DamagedFile, HoldcourseError, InvalidInput
from holdcourse.tables.cells import checked_separator, read_table
from holdcourse.tables.columns import find_column, split_name
from holdcourse.tables.numbers import Signs, read_numbers
from holdcourse.tables.sources import frame_table
from holdcourse.tables.text import decoded, read_text
from holdcourse.tables.times import read_times


def numbers(cells, separator=";", **signs):
    table = read_table("a" + separator + "b\n" + "".join(f'"{cell}"{separator}1\n' for cell in cells), "plant.csv")
    return read_numbers(table, [0], Signs(**signs))[0].tolist()


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["12,5", "1,234"], [12.5, 1.234]),
        (["12.5", "1.234"], [12.5, 1.234]),
        (["1.234,5", "1.234", "7"], [1234.5, 1234, 7]),
        (["1,234.5", "1,234"], [1234.5, 1234]),
        (["1.234.567", "1.234"], [1234567, 1234]),
        (["1 234,5", "12"], [1234.5, 12]),
        (["1\u00a0234", "1\u202f234,25"], [1234, 1234.25]),
        (["1'234.5", "1\u2019000"], [1234.5, 1000]),
        (["\u22125,5", "+3", "-.5e-3".replace(".", ",")], [-5.5, 3, -0.0005]),
        (["1e3", "1.5E+03"], [1000, 1500]),
        (["0,125", "0,250"], [0.125, 0.25]),
    ],
)
def test_numbers_as_people_write_them(cells, expected):
    assert numbers(cells) == expected


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["1,234"], r"line 2: '1,234' in column 'a' may be 1.234 or 1234: give decimal=comma or thousands=comma"),
        (["12.345", "7"], r"line 2: '12.345' .* give decimal=point or thousands=point"),
        (["12.5", "41,250"], r"line 3: '41,250' .* write it like the others, or give thousands=comma"),
        (["12,5", "1.234"], r"line 3: '1.234' .* or give thousands=point"),
        (["12,5", "12.5"], r"'12,5' has a decimal comma, but '12.5' \(line 3\) has a decimal point; .*decimal="),
        (["12.34.56"], "line 2: '12.34.56' in column 'a' is not a number"),
        (["1_000"], "is not a number"),
        (["0x1F"], "is not a number"),
        (
            ["1O"],
            "line 2: '1O' in column 'a' is not a number; leave missing values empty, or name the word: missing=1O",
        ),
        (["1", "Bad", "2", "No Data", "Bad"], "line 3: 'Bad' .*, or name the words: missing='Bad, No Data'$"),
        (["x"] + [f"w{k}" for k in range(9)], "missing='x, w0, w1, w2, w3, w4' and 4 more words$"),
        (["inf"], "line 2: 'inf' in column 'a' is not a finite number; .* or name the word: missing=inf$"),
        (["1e999"], "not a finite number"),
        (["12,34,567"], "is not a number"),
        (["12 34"], "is not a number"),
        (["5 kW"], "is not a number"),
    ],
)
def test_what_is_open_is_refused(cells, message):
    with pytest.raises(InvalidInput, match=message):
        numbers(cells)


def test_options_settle_what_is_open():
    assert numbers(["1,234"], decimal="comma") == [1.234]
    assert numbers(["1,234"], thousands="comma") == [1234]
    assert numbers(["1.234"], decimal=",", thousands=".") == [1234]
    assert numbers(["1.234"], separator=",") == [1.234]  # where commas separate cells a point is the decimal sign
    with pytest.raises(InvalidInput, match=r"may be 1\.234 or 1234"):
        numbers(["1,234"], separator=",")
    with pytest.raises(InvalidInput, match="not a number with a decimal comma"):
        numbers(["12.5"], decimal=",")
    with pytest.raises(InvalidInput, match="decimal ';' is not a decimal sign"):
        Signs(";")
    with pytest.raises(InvalidInput, match="both"):
        Signs(".", ".")


def test_missing_cells():
    found = numbers(["", "NaN", "n/a", "#DIV/0!", "-", "5"])
    assert np.isnan(found[:5]).all()
    assert found[5] == 5


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
def test_alphabets(encoding):
    text = "Außentemperatur [°C];Last\r\n1,5;2\r\n" * 20
    assert decoded(text.encode(encoding), "plant.csv").text == text


def test_an_alphabet_that_is_none_of_these():
    with pytest.raises(InvalidInput, match=r"line 2: the byte 0x81 .* encoding=cp1250"):
        decoded(b"a;b\n" + b"\x81;1\n", "plant.csv")
    assert decoded("č;1\n".encode("cp1250"), "plant.csv", "cp1250").text == "č;1\n"
    with pytest.raises(InvalidInput, match="encoding 'klingon' is not known"):
        decoded(b"a", "plant.csv", "klingon")
    with pytest.raises(InvalidInput, match=r"encoding 'utf\\x00' is not known"):
        decoded(b"a", "plant.csv", "utf\0")
    with pytest.raises(InvalidInput, match="not written in utf-16"):
        decoded(b"abc", "plant.csv", "utf-16")


@pytest.mark.parametrize("single", [3, None, "ten", np.array(3.0)])
def test_a_column_that_is_a_single_value_is_refused(single):
    with pytest.raises(InvalidInput, match=r"column 'load' is .*, a single .*; give a list with a value for each row"):
        frame_table({"time": [1, 2, 3], "load": single})


def test_packed_text(tmp_path):
    path = tmp_path / "plant.csv.gz"
    path.write_bytes(gzip.compress("a;b\n1;2\n".encode("utf-16")))
    assert read_text(path, path.name).text == "a;b\n1;2\n"


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators_are_found(separator):
    table = read_table(separator.join("abc") + "\n" + separator.join("123") + "\n", "plant.csv")
    assert (table.names, table.cells, table.separator) == (["a", "b", "c"], [["1"], ["2"], ["3"]], separator)


def test_lines_that_hold_no_readings():
    text = '# logger 7\nsep=;\n\n"a" ;b;;\n\n1;2;;\n;;;\n#late\n"3";"4"\n'
    table = read_table(text, "plant.csv")
    assert table.names == ["a", "b"]
    assert table.cells == [["1", "3"], ["2", "4"]]
    assert table.lines == [6, 9]
    assert table.comments == ("# logger 7",)


def test_the_names_in_another_line():
    text = "Plant A\nJanuary\ntime;load\n1;2\n3;4\n"
    with pytest.raises(InvalidInput, match="give header_line=3"):
        read_table(text, "plant.csv")
    assert read_table(text, "plant.csv", header_line=3).names == ["time", "load"]
    assert read_table("# time load\n1 2\n", "a.csv", header_line=1, separator=" ").names == ["time", "load"]


@pytest.mark.parametrize(
    "text",
    [
        "Plant A\nexported 02.01.2026\n\ntime;load;set\n1;2,5;6\n3;4,0;7\n",  # decimal commas between semicolons
        "Plant A, hall 3\n\n\ntime;load;set\n1;2,5;6\n3;4,0;7\n",
        "Plant A, hall 3\n\n\ntime,load,set\n1,2.5,6\n3,4.0,7\n",
        "Plant A, hall 3, north\n\n\ntime\tload\tset\tkW\n1\t2\t6\t8\n3\t4\t7\t9\n",
    ],
)
def test_the_names_below_a_title(text):
    """The separator of the readings counts, and the line of the names is told: not that of the first reading."""
    with pytest.raises(InvalidInput, match="if the names are in another line, give header_line=4"):
        read_table(text, "plant.csv")
    assert read_table(text, "plant.csv", header_line=4).names[:3] == ["time", "load", "set"]


def test_the_names_in_a_comment():
    """As systems of wind farms export them: the first row of data names nothing."""
    names = '# Date and time,Speed (m/s),"Power, net (kW)"'
    text = f"# Turbine: 1\n#\n{names}\n2021-01-04 00:00,5.2,NaN\n2021-01-04 00:10,,-1e1\n"
    table = read_table(text, "plant.csv")
    assert table.names == ["Date and time", "Speed (m/s)", "Power, net (kW)"]
    assert table.cells[0] == ["2021-01-04 00:00", "2021-01-04 00:10"]
    assert (table.lines, table.header_line, table.comments) == ([4, 5], 3, ("# Turbine: 1", "#"))
    for comment in ("# hourly, of a lidar", "# 1,2,3", "# a,b", "# a,,c"):
        assert read_table(f"{comment}\n1,2,3\n4,5,6\n", "plant.csv").names == ["1", "2", "3"]
    assert read_table("# a,b,c\ntime,10,100\n4,5,6\n", "plant.csv").names == ["time", "10", "100"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a;b\n1;2;3\n", "line 2: 3 cells, but the header"),
        ("a,b\n1,5,2\n", "decimal comma in a file separated by commas"),
        ("a,b,c\n1,2,3\n1,2\n4,5,6\n", "line 3: 2 cells, but the header .* names 3 columns; .* correct it"),
        ("a,b,,\n1,2,,\n12,,\n", "line 3: 3 cells"),
        ('a,b\n"1,2\n3,4\n', "quotation marks do not fit"),
        ('t,n\n1,"stopped\n2,x\n3,"went on"\n', "quotation marks do not fit"),
        ("a,b,\n1,2,3\n", "line 2: '3' is in column 3, which has no name"),
        ("Plant 3,\na,b\n1,2\n", "if the names are in another line, give header_line=2, otherwise name the column"),
        (
            "a,b;c\n1,2;3\n",
            "may be separated by comma or semicolon; say which: separator=comma, or separator=semicolon",
        ),
        ("a,b\n", "contains no rows"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_line(text, message):
    with pytest.raises((InvalidInput, DamagedFile), match=message) as caught:
        read_table(text, "plant.csv")
    assert "\n" not in str(caught.value)


def test_a_note_may_have_several_lines():
    table = read_table('time,note\n1,"stopped\nby hand"\n2,x\n', "plant.csv")
    assert table.cells[0] == ["1", "2"]
    assert table.lines == [2, 4]


def test_separators_by_name():
    assert [checked_separator(word) for word in ("comma", "Tab", ";", "\\t")] == [",", "\t", ";", "\t"]
    with pytest.raises(InvalidInput, match="separator 'x' cannot separate cells"):
        checked_separator("x")


def test_units_in_headers():
    headers = ["power [kW]", "T out (°C)", "load_kW", "flow, m3/h", "Leistung in MW", "kwh", "phase a", "load (total)"]
    assert [split_name(header).unit for header in headers] == [
        *("kW", "°C", "kW", "m3/h", "MW", "kWh", None),
        "total",
    ]
    table = read_table("power [kW];Load;load \n1;2;3\n", "plant.csv")
    assert find_column(table, "power") == 0
    assert find_column(table, "POWER [kw]") == 0
    assert find_column(table, "Load") == 1
    with pytest.raises(InvalidInput, match=r"the columns 2 \('Load'\) and 3 \('load'\) may both be 'LOAD'"):
        find_column(table, "LOAD")
    with pytest.raises(InvalidInput, match=r"no column 'powr'; its columns are .* did you mean 'power"):
        find_column(table, "powr")


def local(cells, zone="Europe/Oslo", **options):
    times, _ = read_times(
        cells, "time", "plant.csv", timezone=zone, at=lambda row: f"plant.csv, line {row + 2}", **options
    )
    return [str(time) for time in times]


def test_the_hour_that_comes_twice():
    night = [
        "2024-10-27 01:30",
        "2024-10-27 02:00",
        "2024-10-27 02:30",
        "2024-10-27 02:00",
        "2024-10-27 02:30",
        "2024-10-27 03:00",
    ]
    expected = [str(np.datetime64("2024-10-26T23:30:00") + np.timedelta64(30 * k, "m")) for k in range(6)]
    assert local(night) == expected
    assert local(night[::-1]) == expected[::-1]  # newest first
    # Irregular minutes: the second time round begins where the clock goes back.
    odd = [
        "2024-10-27 01:55",
        "2024-10-27 02:20",
        "2024-10-27 02:45",
        "2024-10-27 02:10",
        "2024-10-27 02:35",
        "2024-10-27 03:00",
    ]
    assert local(odd) == [str(np.datetime64("2024-10-26T23:55:00") + np.timedelta64(25 * k, "m")) for k in range(5)] + [
        "2024-10-27T02:00:00"
    ]
    shuffled = [night[k] for k in (3, 0, 5, 1, 4, 2)]
    with pytest.raises(
        InvalidInput, match=r"line 2: .* occurs twice in Europe/Oslo, .*; sort them, or write times with"
    ):
        local(shuffled)
    _, note = read_times(["2024-10-27 02:00"], "time", "plant.csv", timezone="Europe/Oslo")
    assert "2024-10-27 02:00:00 stands once, although its hour occurs twice; read as 2024-10-27T02:00+02:00" in note


def test_a_line_that_was_written_twice_is_not_the_second_hour():
    doubled = ["2020-10-25 01:50", "2020-10-25 02:00", "2020-10-25 02:10", "2020-10-25 02:10", "2020-10-25 02:20"]
    expected = [f"2020-10-{rest}:00" for rest in ("24T23:50", "25T00:00", "25T00:10", "25T00:10", "25T00:20")]
    assert local(doubled) == expected
    assert local(doubled[::-1]) == expected[::-1]
    both = [*doubled, "2020-10-25 02:00", "2020-10-25 02:10", "2020-10-25 03:00"]
    assert local(both)[5:] == ["2020-10-25T01:00:00", "2020-10-25T01:10:00", "2020-10-25T02:00:00"]
    hourly = ["2020-10-25 01:00", "2020-10-25 02:00", "2020-10-25 02:00", "2020-10-25 03:00"]
    assert local(hourly) == [f"2020-10-{rest}:00:00" for rest in ("24T23", "25T00", "25T01", "25T02")]


def autumn(minutes):
    """Local times of a day and a half around a doubled hour, the row at which it begins, and rows in an hour."""
    from zoneinfo import ZoneInfo

    moments = [datetime(2020, 10, 24, 12, tzinfo=UTC) + timedelta(minutes=minutes * k) for k in range(2160 // minutes)]
    cells = [f"{moment.astimezone(ZoneInfo('Europe/Oslo')):%Y-%m-%d %H:%M}" for moment in moments]
    return moments, cells, cells.index("2020-10-25 02:00"), 60 // minutes


@pytest.mark.parametrize("minutes", [10, 15, 30])
def test_a_row_out_of_place_in_the_doubled_hour_is_never_taken_for_the_other_hour(minutes):
    moments, cells, begin, rows = autumn(minutes)
    truth = {row: f"{moment:%Y-%m-%dT%H:%M:%S}" for row, moment in enumerate(moments)}
    both, single = list(range(len(cells))), [row for row in range(len(cells)) if not 0 <= row - begin - rows < rows]
    refused = set()
    for order in (both, single):
        for at in range(order.index(begin), order.index(begin) + rows):
            for later in range(1, rows + 2):
                late = [*order[:at], *order[at + 1 : at + later + 1], order[at], *order[at + later + 1 :]]
                again = [*order[: at + later + 1], order[at], *order[at + later + 1 :]]
                for rows_read in (late, late[::-1], *((again, again[::-1]) if later < rows - at else ())):
                    try:
                        assert local([cells[row] for row in rows_read]) == [truth[row] for row in rows_read]
                    except InvalidInput as error:
                        refused.add(str(error))
    assert len(refused) > 5
    said = r"plant.csv, line \d+: 2020-10-25 02:.*(correct a row that is late|sort them).* with their zone "
    assert all(re.search(said + r"\(2020-10-25T02:\d\d\+02:00 or", words) for words in refused)


def test_the_doubled_hour_twice_may_have_gaps():
    moments, cells, begin, rows = autumn(10)
    for gap in range(begin, begin + 2 * rows - 3):
        kept = [row for row in range(len(cells)) if not 0 <= row - gap < 3]
        assert local([cells[row] for row in kept]) == [f"{moments[row]:%Y-%m-%dT%H:%M:%S}" for row in kept]


def test_the_doubled_hour_once_is_noted_with_its_line():
    _, cells, begin, rows = autumn(10)
    for order in (1, -1):
        once = (cells[: begin + rows] + cells[begin + 2 * rows :])[::order]
        times, note = read_times(once, "time", "a.csv", timezone="Europe/Oslo", at=lambda row: f"a.csv, line {row + 2}")
        line = min(row for row, cell in enumerate(once) if " 02:" in cell and "10-25" in cell) + 2
        assert f"a.csv, line {line}: 2020-10-25 02:{'00' if order == 1 else '50'}:00 stands once, like 5 more" in note
        assert "+01:00, write times with their zone" in note
        assert "2020-10-25T00:50:00" in [str(time) for time in times]


def test_both_hours_sorted_by_the_clock_are_refused_also_with_a_row_missing():
    _, cells, begin, rows = autumn(10)
    by_clock = cells[:begin] + sorted(cells[begin : begin + 2 * rows]) + cells[begin + 2 * rows :]
    for missing in range(begin, begin + 2 * rows):
        with pytest.raises(InvalidInput, match="the order of the rows does not tell"):
            local(by_clock[:missing] + by_clock[missing + 1 :])
    hourly = ["2020-10-25 01:00", *["2020-10-25 02:00"] * 3, "2020-10-25 03:00"]
    with pytest.raises(InvalidInput, match=r"line 3: .* occurs twice .* correct a row that is late or repeated"):
        local(hourly)


@pytest.mark.parametrize("minutes", [10, 60])
@pytest.mark.parametrize("layout", ["a late row", "months in another order", "a late row, newest first"])
def test_rows_out_of_order_elsewhere_do_not_matter(minutes, layout):
    from zoneinfo import ZoneInfo

    moments = [datetime(2020, 10, 20, tzinfo=UTC) + timedelta(minutes=minutes * k) for k in range(14400 // minutes)]
    if "late" in layout:
        moments.insert(70, moments.pop(30))
    else:
        moments = moments[200:] + moments[:200]
    if "newest" in layout:
        moments.reverse()
    assert any(f"{moment:%d %H:%M}" == "25 01:00" for moment in moments)
    cells = [f"{moment.astimezone(ZoneInfo('Europe/Oslo')):%Y-%m-%d %H:%M}" for moment in moments]
    times, note = read_times(cells, "time", "plant.csv", timezone="Europe/Oslo")
    assert times.tolist() == [moment.replace(tzinfo=None) for moment in moments]
    assert note == "times read as Europe/Oslo, shown in UTC"


@pytest.mark.parametrize("minutes", [10, 30, 60])
@pytest.mark.parametrize("zone", ["Europe/Oslo", "Australia/Sydney"])
@pytest.mark.parametrize("layout", ["by time", "by turbine", "day by day", "newest first", "by turbine, newest first"])
def test_the_hour_that_comes_twice_in_rows_of_several_turbines(minutes, zone, layout):
    """Written by the library of time zones, read by ours, whatever the order of the rows is."""
    from zoneinfo import ZoneInfo

    start = datetime(2020, 4, 4, 12, tzinfo=UTC) if "Sydney" in zone else datetime(2020, 10, 24, 12, tzinfo=UTC)
    moments = [start + timedelta(minutes=minutes * k) for k in range(30 * 60 // minutes)]
    rows = [(moment, moment.astimezone(ZoneInfo(zone)), turbine) for moment in moments for turbine in "ABC"]
    if "by turbine" in layout:
        rows.sort(key=lambda row: row[2])
    if layout == "day by day":
        rows.sort(key=lambda row: (row[1].date(), row[2]))
    if "newest" in layout:
        rows.reverse()
    times, _ = read_times([f"{row[1]:%d.%m.%Y %H:%M}" for row in rows], "time", "a.csv", timezone=zone, tidy=True)
    assert times.tolist() == [row[0].replace(tzinfo=None) for row in rows]
    with pytest.raises(InvalidInput, match=r"occurs twice, in a night when clocks are set back.*timezone="):
        read_times([f"{row[1]:%Y-%m-%d %H:%M}" for row in rows], "time", "a.csv", tidy=True)


def test_rows_that_do_not_tell_which_hour_is_meant_are_refused():
    by_clock = [f"2020-10-25 {clock}" for clock in ("01:30", "02:00", "02:00", "02:30", "02:30", "03:00", "03:30")]
    with pytest.raises(
        InvalidInput, match=r"line 3: .* occurs twice in Europe/Oslo, and the order of the rows does not"
    ):
        local(by_clock)
    clocks = ["01:00", "01:00", "02:00", "02:00", "02:00", "03:00", "03:00"]  # of two turbines, one missed an hour
    with pytest.raises(
        InvalidInput, match=r"put all rows of the first hour before those of the second, or write times"
    ):
        local([f"2020-10-25 {clock}" for clock in clocks], tidy=True)


def test_rows_of_several_turbines_in_utc_are_not_taken_for_local():
    times = [f"2020-10-25 {hour:02}:00" for hour in range(6) for _ in range(3)]
    assert len(read_times(times, "time", "a.csv", tidy=True)[0]) == 18


@pytest.mark.parametrize(
    ("night", "back"),
    [
        ("2020-04-05", True),  # Sydney, Auckland
        ("2020-10-04", False),  # Sydney
        ("2020-09-27", False),  # Auckland
        ("2020-11-01", True),  # New York
        ("2020-03-08", False),  # New York
        ("2020-03-29", False),  # Oslo
    ],
)
def test_clocks_change_in_other_places_too(night, back):
    clocks = ["00:30", "01:30", "02:30", "02:30", "03:30"] if back else ["00:30", "01:30", "03:30", "04:30", "05:30"]
    words = "occurs twice, in a night when clocks are set back" if back else "in a night when clocks are set forward"
    with pytest.raises(InvalidInput, match=rf"{words}.*timezone="):
        read_times([f"{night} {clock}" for clock in clocks], "time", "plant.csv")
    other = str(np.datetime64(night) + np.timedelta64(1, "D"))  # on the next day nothing changes
    assert len(read_times([f"{other} {clock}" for clock in clocks], "time", "plant.csv")[0]) == 5


@pytest.mark.parametrize("minutes", [15, 60])
@pytest.mark.parametrize(
    ("zone", "year"),
    [
        *(("Europe/Oslo", 2021), ("America/New_York", 2021), ("Australia/Sydney", 2021), ("Pacific/Auckland", 2021)),
        *(("America/Santiago", 2017), ("America/Santiago", 2024), ("America/Sao_Paulo", 2017), ("Asia/Beirut", 2021)),
        *(("America/Asuncion", 2021), ("America/Mexico_City", 2021), ("America/St_Johns", 2021)),
    ],
)
def test_each_change_of_the_clock_is_seen_in_times_without_a_zone(zone, year, minutes):
    from zoneinfo import ZoneInfo

    there = ZoneInfo(zone)
    hours = [datetime(year, 1, 1, tzinfo=UTC) + timedelta(hours=k) for k in range(8760)]
    shifts = [hour for hour in hours[1:] if there.utcoffset(hour.astimezone(there)) != _before(hour, there)]
    assert len(shifts) == 2
    for shift in shifts:
        near = [shift + timedelta(minutes=minutes * k) for k in range(-600 // minutes, 600 // minutes)]
        with pytest.raises(InvalidInput, match="so these may be local times; give timezone="):
            read_times([f"{moment.astimezone(there):%Y-%m-%d %H:%M}" for moment in near], "time", "plant.csv")


def _before(hour, there):
    return there.utcoffset((hour - timedelta(hours=1)).astimezone(there))


def test_the_hour_that_is_missing():
    assert local(["2024-03-31 01:30", "2024-03-31 03:00"]) == ["2024-03-31T00:30:00", "2024-03-31T01:00:00"]
    with pytest.raises(
        InvalidInput, match=r"line 3: 2024-03-31 02:30:00 does not exist in Europe/Oslo.*timezone=\+01:00"
    ):
        local(["2024-03-31 01:30", "2024-03-31 02:30"])
    assert local(["2024-03-31 02:30"], zone="+01:00") == ["2024-03-31T01:30:00"]
    with pytest.raises(InvalidInput, match="'Oslo' is not known"):
        local(["2024-03-31 02:30"], zone="Oslo")


@pytest.mark.parametrize("zone", ["Europe/Oslo", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"])
def test_a_year_of_local_times_in_order_is_a_year_of_hours(zone):
    """Written by the library of time zones, read by ours; the half hour of Lord Howe too."""
    from zoneinfo import ZoneInfo

    start = datetime(2023, 12, 31, 20, tzinfo=UTC)
    moments = [start + timedelta(minutes=30 * k) for k in range(2 * 8784)]
    cells = [f"{moment.astimezone(ZoneInfo(zone)):%d.%m.%Y %H:%M}" for moment in moments]
    times, _ = read_times(cells, "time", "plant.csv", timezone=zone)
    assert times.tolist() == [moment.replace(tzinfo=None) for moment in moments]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            ["01/06/2024 00:00", "12/06/2024 00:00"],
            r"line 2: '01/06/2024 00:00' may be %d/%m/%Y %H:%M or %m/%d/%Y %H:%M; say",
        ),
        (["01-06-2024"], "may be %d-%m-%Y or %m-%d-%Y"),
        (["20-06-11"], "may be .*time_format="),
        (["13/06/2024", "06/13/2024"], "line 3: '06/13/2024' is not a time like '13/06/2024'"),
        (["2024-06-01", "2024-06-31"], "line 3: '2024-06-31' is not a time"),
        (["2024-06-01T00:00Z", "2024-06-01T01:00"], "line 3: some times carry a zone"),
        (["1717200000", "171720360"], "line 3: the times look like seconds since 1970"),
        (["202406010000", "20240601010"], "line 3: '20240601010' is not a time like '202406010000'"),
        (["2024-06-01T00:00+01:00", "0001-01-01T00:00+01:00"], r"line 3: 0001-01-01 00:00:00\+01:00 cannot be right"),
        (["2024-06-01 00:00", "Total"], "line 3: 'Total' is not a time like .*, leave the row out"),
        (
            ["2024-06-01T00:00Z", "Total"],
            "line 3: 'Total' is not a time like '2024-06-01T00:00Z'; .* leave the row out",
        ),
        (["01.06.2024 00:00 CEST", "01.06.2024 01:00 CST"], "line 3: '01.06.2024 01:00 CST' is not a time like"),
        (["01.06.2024 00:00 EST"], "line 2: '01.06.2024 00:00 EST' is not a time"),  # of New York or of Sydney
        (["45719.5", "45720"], "line 2: '45719.5' is not a time; if it counts days as Excel does .* time_format=excel"),
        (["9999-12-31T23:30-01:00"], "line 2: .* cannot be right; correct it"),
        (["2024-06-01T24:00:00", "9999-12-31T24:00:00"], "line 3: '9999-12-31T24:00:00' cannot be right; correct it"),
    ],
)
def test_times_that_are_open_or_wrong(cells, message):
    with pytest.raises(HoldcourseError, match=message):
        read_times(cells, "time", "plant.csv", at=lambda row: f"plant.csv, line {row + 2}")


def test_a_day_above_twelve_settles_the_order():
    times, _ = read_times(["01/06/2024 14:00", "13/06/2024 14:00"], "time", "plant.csv")
    assert str(times[0]) == "2024-06-01T14:00:00"
    times, _ = read_times(["06/01/2024 2:00 PM", "06/13/2024 2:00 PM"], "time", "plant.csv")
    assert str(times[0]) == "2024-06-01T14:00:00"


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("Time (UTC+1)", "2021-06-01T11:00:00"),
        ("Timestamp [GMT-03:30]", "2021-06-01T15:30:00"),
        ("local time UTC+01", "2021-06-01T11:00:00"),
        ("time_utc\u22122", "2021-06-01T14:00:00"),
        ("Time (Etc/GMT-1)", "2021-06-01T11:00:00"),  # whose signs are the other way round
        *((f"Time (UTC+5{half})", "2021-06-01T06:30:00") for half in (":30", "30", ".5", ",5", ".30")),
        ("Time (UTC-9.75)", "2021-06-01T21:45:00"),
        ("Time (UTC)", "2021-06-01T12:00:00"),
        ("time_utc-10min", "2021-06-01T12:00:00"),
        ("utc-2020", "2021-06-01T12:00:00"),
    ],
)
def test_an_offset_in_the_heading_is_the_zone(heading, expected):
    times, note = read_times(["2021-06-01 12:00"], heading, "plant.csv")
    assert str(times[0]) == expected
    assert ("times read as UTC" if expected[11:13] != "12" else "times are UTC, as the file says") in note
    given, _ = read_times(["2021-06-01 12:00"], heading, "plant.csv", timezone="UTC")
    assert str(given[0]) == "2021-06-01T12:00:00"


@pytest.mark.parametrize("given", [{}, {"timezone": "Europe/Oslo"}, {"column": "Time (UTC+1)"}])
@pytest.mark.parametrize("zone", [" UTC", " Z", " +0000 UTC"])
def test_times_that_end_in_utc_have_their_zone(zone, given):
    cells = [f"2021-10-31 {clock}{zone}" for clock in ("01:00", "02:00", "02:00", "03:00")]
    times, note = read_times(cells, label="plant.csv", **{"column": "time", **given})
    assert [str(time)[11:13] for time in times] == ["01", "02", "02", "03"]
    assert "times have a zone" in note


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["26.10.2025 02:30 CEST", "26.10.2025 02:30 CET"], ["2025-10-26T00:30:00", "2025-10-26T01:30:00"]),
        (["10/26/2025 1:45 PM GMT"], ["2025-10-26T13:45:00"]),
        (["2025-10-26 24:00 MEZ"], ["2025-10-26T23:00:00"]),
        (["2025-10-26T14:00:00+02:00 CEST"], ["2025-10-26T12:00:00"]),
    ],
)
def test_times_that_end_in_the_letters_of_their_zone(cells, expected):
    times, note = read_times(cells, "time", "plant.csv", timezone="America/New_York")
    assert [str(time) for time in times] == expected
    assert "times have a zone" in note


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("45719", "00:00"),
        ("45719,5", "12:00"),
        ("45719.0417", "01:00"),
        ("45719.04167", "01:00"),
        ("45719.999", "23:59"),
    ],
)
def test_days_as_excel_counts_them(cell, expected):
    times, _ = read_times([cell], "time", "plant.csv", time_format="excel")
    assert str(times[0])[:16] == f"2025-03-03T{expected}"
    with pytest.raises(InvalidInput, match=r"'719\.5' is not a day as Excel counts them"):
        read_times([cell, "719.5"], "time", "plant.csv", time_format="excel")


@pytest.mark.parametrize(
    ("cells", "hours"),
    [(["03.03.2025 1", "03.03.2025 24"], [1, 24]), (["2025-03-03 0", "2025-03-03 23"], [0, 23])],
)
def test_a_date_and_the_hour(cells, hours):
    times, _ = read_times(cells, "time", "plant.csv")
    assert ((times - np.datetime64("2025-03-03")) / np.timedelta64(1, "h")).tolist() == hours
    when = read_times(["1 Mar 24"], "time", "plant.csv", time_format="%d %b %y")[0][0]
    assert str(when) == "2024-03-01T00:00:00"  # 24 is the year


@pytest.mark.parametrize(
    "cell",
    ["1622548800", "1622548800000", "1622548800000.0", "1622548800000000", "1622548800000000000", "20210601 1200"],
)
def test_times_as_programs_write_them(cell):
    assert str(read_times([cell], "time", "plant.csv")[0][0]) == "2021-06-01T12:00:00"
