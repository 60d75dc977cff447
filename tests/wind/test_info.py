from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.wind_files import csv_text
from typer.testing import CliRunner

from holdcourse.cli.root import app
from holdcourse.errors import InvalidInput
from holdcourse.wind import bundled
from holdcourse.wind.files.data import WindData
from holdcourse.wind.files.info import describe, draw, strips


def test_the_figures_are_those_of_the_record() -> None:
    data = bundled("test")
    found = describe(data)
    assert json.loads(json.dumps(found)) == found
    assert (found["start"], found["end"]) == ("2010-07-01T00:00:00Z", "2010-12-31T23:00:00Z")
    assert (found["times"], found["step_hours"], found["gap_count"], found["segments"]) == (4416, 1.0, 0, 1)
    assert [row["height"] for row in found["heights"]] == [10, 20, 50, 100, 250, 500, 750]
    for row, column in zip(found["heights"], data.speed.T, strict=True):
        assert (row["min"], row["max"]) == (column.min(), column.max())
        assert row["mean"] == pytest.approx(sum(column.tolist()) / 4416)
        assert row["missing_share"] == 0.0


def test_gaps_and_missing_speeds_are_counted() -> None:
    kept = np.r_[0:10, 15:20, 40:50]
    speed = np.ones((25, 2))
    speed[:5, 1] = np.nan
    times = np.datetime64("2020-01-01T00", "s") + 3600 * kept
    found = describe(WindData(times, [10.0, 100.0], speed), max_gap=5)
    assert [gap["missing_hours"] for gap in found["gaps"]] == [5.0, 20.0]
    assert found["gaps"][0]["after"] == "2020-01-01T09:00:00Z"
    assert found["segments"] == 2
    assert found["longest_segment_hours"] == 15
    assert [row["missing_share"] for row in found["heights"]] == [0.0, 0.2]


def test_the_strip_shows_faster_wind_taller_and_gaps_as_points() -> None:
    kept = np.r_[0:4, 6:10]
    times = np.datetime64("2020-01-01T00", "s") + 3600 * kept
    lines = strips(WindData(times, [10.0, 100.0], np.outer(kept, [0.5, 1.0])), width=40)
    assert lines == [" 100 m  ▁▂▃··▅▆▇█", "  10 m   ▁▁··▃▃▄▄"]
    assert len(strips(bundled("test"), width=30)[0]) == 37
    with pytest.raises(InvalidInput, match="width"):
        strips(bundled("test"), width=0)


def test_the_picture_is_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra: pip install 'holdcourse[plot]'")
    path = draw(bundled("test"), tmp_path / "new" / "wind.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    one = WindData(np.array(["2020-01-01"], "datetime64[s]"), [10.0], [[3.0]])
    assert draw(one, tmp_path / "one.png").stat().st_size > 1000


def test_heights_that_may_be_upside_down_are_told() -> None:
    data = bundled("test")
    assert not any("right heights" in note for note in describe(data)["notes"])
    turned = WindData(data.time, data.heights, data.speed[:, ::-1])
    told = "the mean wind at 750 m, 7.6 m/s, is below that at 10 m, 10.0 m/s; check that the columns"
    assert describe(turned)["notes"][-1].startswith(told)


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "wind.csv"
    path.write_text(csv_text(48))
    run = CliRunner().invoke(app, ["data", "info", str(path), "--json"])
    assert run.exit_code == 0
    assert json.loads(run.output)["times"] == 48
    run = CliRunner().invoke(
        app, ["data", "info", str(path), "--lat", "53", "--lon", "-10", "--out", str(tmp_path / "out")]
    )
    assert run.exit_code == 0, run.output
    for words in ("CSV, one column per height, 53 N, 10 W", "48 times, every 1 h", "no gaps in time", "500 m "):
        assert words in run.output
    assert json.loads((tmp_path / "out" / "wind.json").read_text())["latitude"] == 53
    assert (tmp_path / "out" / "wind.png").stat().st_size > 1000
    run = CliRunner().invoke(app, ["data", "info", str(tmp_path / "none.csv")])
    assert isinstance(run.exception, InvalidInput)


def test_the_command_takes_what_its_errors_name(tmp_path: Path) -> None:
    """A title above the names; options that only a plant's table has are refused, not ignored."""
    path = tmp_path / "lidar.csv"
    path.write_text(f"Lidar 7,serial 1234\n{csv_text(48)}")
    asked = ["data", "info", str(path), "--header-line", "2"]
    run = CliRunner().invoke(app, asked)
    assert "48 times, every 1 h" in run.output, run.exception
    for option, value in (("--decimal", "comma"), ("--missing", "-7"), ("--separator", "comma")):
        run = CliRunner().invoke(app, [*asked, option, value])
        assert isinstance(run.exception, InvalidInput)
        assert f"contains wind, for which {option} is not used; leave it out" in str(run.exception)


def test_one_gap_is_one(tmp_path: Path) -> None:
    lines = csv_text(48).splitlines()
    (tmp_path / "wind.csv").write_text("\n".join([*lines[:20], *lines[30:]]))
    assert "\n1 gap in time; " in CliRunner().invoke(app, ["data", "info", str(tmp_path / "wind.csv")]).output


@pytest.mark.parametrize("out", ["taken", "taken/below"])
def test_an_out_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path: Path, out: str) -> None:
    (tmp_path / "taken").write_text("a file")
    run = CliRunner().invoke(app, ["data", "info", str(tmp_path / "none.csv"), "--out", str(tmp_path / out)])
    assert isinstance(run.exception, InvalidInput)
    assert (
        str(run.exception) == f"cannot write to {tmp_path / out}: {tmp_path / 'taken'} is a file; choose another --out"
    )


def test_a_file_in_the_way_of_the_picture(tmp_path: Path) -> None:
    (tmp_path / "wind.csv").write_text(csv_text(48))
    (tmp_path / "wind.png").mkdir()
    run = CliRunner().invoke(app, ["data", "info", str(tmp_path / "wind.csv"), "--out", str(tmp_path)])
    assert isinstance(run.exception, InvalidInput)
    assert "wind.png: Is a directory; choose another --out" in str(run.exception)


def test_without_matplotlib_there_is_no_picture_and_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    (tmp_path / "wind.csv").write_text(csv_text(48))
    run = CliRunner().invoke(app, ["data", "info", str(tmp_path / "wind.csv"), "--out", str(tmp_path / "out")])
    assert run.exit_code == 0
    assert "note: no wind.png: drawing needs matplotlib" in run.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["wind.json"]
