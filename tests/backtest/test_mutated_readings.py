"""A plant's table, written in all the ways that people's files are: read right or refused, never read wrong."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdcourse as hc
from holdcourse.errors import HoldcourseError

OSLO = ZoneInfo("Europe/Oslo")
STARTS = [
    datetime(2024, month, day, hour, tzinfo=UTC)
    for month, day, hour in ((1, 2, 0), (3, 30, 20), (6, 30, 12), (10, 26, 18), (12, 11, 5), (5, 1, 0))
]
DATES = {
    "iso": "%Y-%m-%dT%H:%M",
    "iso seconds": "%Y-%m-%d %H:%M:%S",
    "German": "%d.%m.%Y %H:%M",
    "German short": "%d.%m.%y %H:%M",
    "British": "%d/%m/%Y %H:%M",
    "American": "%m/%d/%Y %I:%M %p",
    "American clock": "%m/%d/%Y %H:%M:%S",
    "dashes": "%d-%m-%Y %H:%M",
    "year first": "%Y/%m/%d %H:%M",
    "month name": "%d-%b-%Y %H:%M",
    "compact": "%Y%m%d%H%M",
}
HOLES = ["", " ", "NaN", "nan", "-", "n/a", "#N/A", "NULL", "#DIV/0!"]
HEADERS = {
    "plain": ("time", "load", "setting", "power"),
    "units": ("time", "load [%]", "setting (°C)", "power [kW]"),
    "odd letters": ("Zeit", "Load", "SETTING", "Power_kW"),
    "blanks": (" time ", "load ", " setting", "power in kW"),
}


@dataclass
class Written:
    """A file as somebody wrote it, what was told of it, and what is to come out."""

    raw: bytes
    options: dict[str, object]
    rows: dict[int, tuple[float, float, float]] = field(default_factory=dict)  # by second: load, setting, power


def as_text(value: float, digits: int, decimal: str, thousands: str) -> str:
    text = f"{value:,.{digits}f}" if thousands else f"{value:.{digits}f}"
    return text.translate(str.maketrans({",": thousands, ".": decimal}))


@st.composite
def written(draw: st.DrawFn) -> Written:
    count = draw(st.integers(3, 30))
    start, step = draw(st.sampled_from(STARTS)), draw(st.sampled_from([15, 60, 180, 1440]))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    separator = draw(st.sampled_from([",", ";", "\t", "|"]))
    decimal = draw(st.sampled_from([".", ","]))
    grouping = [sign for sign in ("", "", ",", ".", " ", "\u00a0", "'") if sign != decimal]
    thousands = draw(st.sampled_from(grouping))
    digits = [draw(st.integers(0, 4)) for _ in range(3)]
    scale = draw(st.sampled_from([1.0, 50.0, 4000.0, 3e6]))
    kind = draw(st.sampled_from(sorted(DATES)))
    local = draw(st.booleans())
    options: dict[str, object] = {}
    if local:
        options["timezone"] = "Europe/Oslo"
    if draw(st.booleans()):
        options["time_format"] = DATES[kind]
    if draw(st.booleans()):
        options["decimal"] = decimal
    if thousands and draw(st.booleans()):
        options["thousands"] = " " if thousands == "\u00a0" else thousands
    if draw(st.integers(0, 3)) == 0:
        options["separator"] = separator
    moments = [start + timedelta(minutes=step * k) for k in range(count)]
    rows, clean = [], {}
    for moment in moments:
        numbers = [
            round(float(random.uniform(0, 100)), digits[0]),
            round(float(random.choice([6.0, 8.0, 10.0])), digits[1]),
            round(float(random.uniform(0.1, 1) * scale), digits[2]),
        ]
        shown = moment.astimezone(OSLO) if local else moment
        cells = [shown.strftime(DATES[kind])]
        cells += [as_text(number, d, decimal, thousands) for number, d in zip(numbers, digits, strict=True)]
        hole = draw(st.integers(0, 40))
        if hole in (0, 2):
            cells[1 + hole] = draw(st.sampled_from(HOLES))
        else:
            clean[int(moment.timestamp())] = tuple(numbers)
        rows.append(cells)
    harm = draw(st.sampled_from(["", "", "", "letter", "sign", "quote", "separator", "cut", "repeat", "note"]))
    order = draw(st.sampled_from(["rising", "rising", "falling", "shuffled"]))
    if order == "falling":
        rows.reverse()
    elif order == "shuffled":
        rows = [rows[k] for k in random.permutation(count)]
    at = int(random.integers(count))
    if harm == "letter":
        rows[at][1] = rows[at][1].replace("1", "l").replace("0", "O") + "x"
    elif harm == "sign" and digits[2] and thousands not in (".", ","):  # else it reads like thousands
        rows[at][3] = rows[at][3].translate(str.maketrans({".": ",", ",": "."}))
    elif harm == "repeat":
        rows.insert(at, list(rows[at]))
    quoting = draw(st.sampled_from(["needed", "all", "some"]))
    header = list(HEADERS[draw(st.sampled_from(sorted(HEADERS)))])
    lines = [header, *rows]
    texts = []
    for number, cells in enumerate(lines):
        parts = [
            f'"{cell}"'
            if quoting == "all" or separator in cell or (quoting == "some" and (number + k) % 3 == 0)
            else cell
            for k, cell in enumerate(cells)
        ]
        texts.append(separator.join(parts))
    trailing = draw(st.sampled_from(["", "", separator, separator * 3]))
    texts = [text + trailing for text in texts]
    if harm == "quote":
        line = texts[1 + at]
        texts[1 + at] = line[1:] if line.startswith('"') else line.replace(separator, f'{separator}"', 1)
    elif harm == "separator":
        texts[1 + at] = texts[1 + at].replace(separator, "", 1)
    elif harm == "cut":
        texts[-1] = separator.join(texts[-1].split(separator)[:2])
    if draw(st.booleans()):
        texts.insert(int(random.integers(1, len(texts) + 1)), draw(st.sampled_from(["", "   ", separator * 3])))
    for before in draw(st.lists(st.sampled_from(["# made by a logger", "", "#"]), max_size=2)):
        texts.insert(0, before)
    if draw(st.integers(0, 8)) == 0:
        texts.insert(0, f"sep={separator}")
    if draw(st.integers(0, 8)) == 0 and header[1] == "load":
        place = next(k for k, text in enumerate(texts) if "load" in text)
        texts.insert(place + 1, separator.join(["", "[%]", "[°C]", "[kW]"]))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    text = end.join(texts) + draw(st.sampled_from(["", end, end * 3]))
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252", "utf-16-le"]))
    return Written(text.encode(encoding), options, clean)


def check(file: Written, folder: Path) -> str:
    path = folder / "plant.csv"
    path.write_bytes(file.raw)
    names = {"action": "setting", "cost": "power", "context": "load"}
    time = "Zeit" if b"Z\x00e\x00i\x00t" in file.raw or b"Zeit" in file.raw else "time"
    try:
        found = hc.read_readings(path, **names, time=time, **file.options)
    except HoldcourseError as error:
        told = str(error)
        assert "\n" not in told
        assert "plant.csv" in told
        assert re.search(r"line \d+", told) or "=" in told or "no row is complete" in told, told
        assert re.search(r"=|correct|export|leave|write|mend|sort|name ", told), told
        return "refused"
    assert found.times is not None
    rows = zip(
        found.times.astype(np.int64).tolist(),
        found.history.contexts[:, 0].tolist(),
        np.asarray(found.values)[found.history.actions].tolist(),
        found.history.measurements.tolist(),
        strict=True,
    )
    read = {second: (load, setting, power) for second, load, setting, power in rows}
    assert len(read) == len(found)
    assert read == file.rows
    return "read"


@given(file=written())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_is_read_right_or_refused(file: Written, tmp_path: Path) -> None:
    assert check(file, tmp_path) in ("read", "refused")


@given(
    separator=st.sampled_from([",", ";", "\t", "|"]),
    decimal=st.sampled_from([".", ","]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    end=st.sampled_from(["\n", "\r\n"]),
    gone=st.sampled_from(["", "NaN", "NULL", "#N/A", "-9999", "bad"]),
    dates=st.sampled_from(sorted(DATES.values())),
    digits=st.integers(0, 5),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_pandas_reads_with_the_right_options_is_read_alike(
    separator: str,
    decimal: str,
    encoding: str,
    quoting: int,
    end: str,
    gone: str,
    dates: str,
    digits: int,
    seed: int,
    tmp_path: Path,
) -> None:
    pd = pytest.importorskip("pandas", reason="needs the extra: pip install 'holdcourse[frames]'")
    random = np.random.default_rng(seed)
    count = 25
    frame = pd.DataFrame(
        {
            "time": pd.date_range("2024-02-03", periods=count, freq="7h"),
            "outdoor (°C)": np.where(random.random(count) < 0.1, np.nan, random.normal(0, 2000, count)),
            "note": random.choice(["ok", 'said "stop", then left', "a; b | c"], count),
            "setting": random.choice([6.5, 8.0, 10.25], count),
            "power [kW]": np.where(random.random(count) < 0.1, np.nan, random.uniform(0, 5000, count)),
        }
    )
    path = tmp_path / "plant.csv"
    frame.to_csv(
        path,
        index=False,
        sep=separator,
        decimal=decimal,
        encoding=encoding,
        quoting=quoting,
        lineterminator=end,
        na_rep=gone,
        date_format=dates,
        float_format=lambda value: f"{value:.{digits}f}".replace(".", decimal),
    )
    theirs = pd.read_csv(
        path,
        sep=separator,
        decimal=decimal,
        encoding=encoding,
        na_values=[gone],
        dtype={"note": str},
    )
    theirs["time"] = pd.to_datetime(theirs["time"].astype(str), format=dates)
    ours = hc.read_readings(
        path,
        action="setting",
        cost="power",
        context="outdoor",
        time="time",
        decimal=decimal,
        time_format=dates,
        missing=gone,
    )
    whole = theirs.dropna(subset=["outdoor (°C)", "power [kW]"])
    assert ours.history.contexts[:, 0].tolist() == whole["outdoor (°C)"].tolist()
    assert ours.history.measurements.tolist() == whole["power [kW]"].tolist()
    assert np.asarray(ours.values)[ours.history.actions].tolist() == whole["setting"].tolist()
    assert ours.times is not None
    assert ours.times.tolist() == whole["time"].dt.to_pydatetime().tolist()
    # A frame gives the same as the file, also one whose times are its index.
    for given_frame in (theirs, theirs.set_index("time")):
        framed = hc.read_readings(given_frame, action="setting", cost="power", context="outdoor", time="time")
        assert framed.history.measurements.tolist() == ours.history.measurements.tolist()
        assert framed.times is not None
        assert framed.times.tolist() == ours.times.tolist()
