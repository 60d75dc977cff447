"""Files of users that are no CSV at all: one line that names the file, no traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdcourse.backtest.csvfile import Csv
from holdcourse.cli.root import app, main
from holdcourse.errors import HoldcourseError
from holdcourse.wind import load
from holdcourse.wind.files.power_table import read_curve

LOG = ["backtest", "--context", "load", "--action", "setting", "--cost", "kwh", "--log"]
READERS: dict[str, Callable[[Path], object]] = {
    "a CSV": lambda path: Csv.read(path).numbers(),
    "a power curve": read_curve,
    "wind": load,
    "backtest --log": lambda path: invoke(*LOG, str(path)),
    "backtest": lambda path: invoke("backtest", str(path)),
    "tree": lambda path: invoke("tree", str(path)),
    "tree --matrix": lambda path: invoke("tree", str(actions_beside(path)), "--matrix", str(path)),
    "info": lambda path: invoke("data", "info", "--kind", "wind", str(path)),
}


def invoke(*arguments: str) -> object:
    result = CliRunner().invoke(app, arguments)
    if isinstance(result.exception, HoldcourseError):
        raise result.exception
    return result


def actions_beside(path: Path) -> Path:
    actions = path.with_name("actions")
    actions.write_text("1\n2\n")
    return actions


def huge_field(path: Path) -> None:
    path.write_text("time,ws_10m\n2020-01-01T00:00," + "9" * 200_000 + "\n")


def huge_header(path: Path) -> None:
    path.write_text("a" * 200_000 + ",setting\n1,2\n")


def nul_bytes(path: Path) -> None:
    path.write_bytes(b"time,ws_10m\n2020-01-01T00:00,\x00\x005\n" * 3)


def late_nul_bytes(path: Path) -> None:
    path.write_bytes(b"1,2\n" * 5000 + b"\x00,1\n")


def no_text(path: Path) -> None:
    path.write_bytes(b"load,setting,kwh\n\xff\xfe\xfa,1,2\n")


def open_quote(path: Path) -> None:
    path.write_text('load,setting,kwh\n"1,2,3\n' * 3)


def folder(path: Path) -> None:
    path.mkdir()


def nothing(path: Path) -> None:
    """There is no such file."""


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "harm", [huge_field, huge_header, nul_bytes, late_nul_bytes, no_text, open_quote, folder, nothing]
)
def test_what_is_no_csv_is_refused_in_one_line(reader: str, harm: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "plant.csv"
    harm(path)
    with pytest.raises(HoldcourseError) as caught:
        READERS[reader](path)
    told = str(caught.value)
    assert "plant.csv" in told
    assert "\n" not in told
    assert len(told) < 500


def test_the_command_prints_the_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plant.csv").mkdir()
    monkeypatch.setattr("sys.argv", ["holdcourse", *LOG, str(tmp_path / "plant.csv")])
    with pytest.raises(SystemExit):
        main()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "plant.csv: Is a directory" in shown.err
    assert len(shown.err.splitlines()) == 1
