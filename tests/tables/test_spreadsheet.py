"""CSV that we write, opened in a spreadsheet: nothing in it runs, and our own readers get the text back."""

from __future__ import annotations

import ast
import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdcourse
from holdcourse.backtest.csvfile import Csv
from holdcourse.experiments.store import Folder, Row, read_summary
from holdcourse.tables.spreadsheet import STARTS, neutral, original, write_rows

EVIL = ['=HYPERLINK("http://x","see")', "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1+1"]


@pytest.mark.parametrize("text", EVIL)
def test_a_formula_is_written_as_text(text: str) -> None:
    file = io.StringIO()
    write_rows(file, [[text, -3.5, "ordinary"]])
    cells = next(csv.reader(io.StringIO(file.getvalue(), newline="")))
    assert cells[0] == f"'{text}"
    assert cells[1:] == ["-3.5", "ordinary"]


@pytest.mark.parametrize("number", [-3.5, 4, -0.0, "-3.500", "+1e-9", "-12"])
def test_numbers_stay_numbers(number: object) -> None:
    assert neutral(number) is number


@given(st.text())
def test_text_comes_back_as_it_was(text: str) -> None:
    written = neutral(text)
    assert original(written) == text
    if written.startswith(STARTS) and not written.startswith("'"):
        float(written)


def test_a_summary_of_policies_named_like_formulas(tmp_path: Path) -> None:
    rows = [Row(EVIL[0], name, 1.0, "'0", 0, 0, 1, -1.5, 2.0, 0.5, 1.0, 0.5) for name in EVIL]
    Folder(tmp_path).write_summary(rows)
    with (tmp_path / "summary.csv").open(newline="", encoding="utf-8") as file:
        cells = [cell for line in csv.reader(file) for cell in line]
    assert [cell for cell in cells if cell.startswith(STARTS[:-1])] == ["-1.5"] * len(rows)
    assert sorted(read_summary(tmp_path / "summary.csv"), key=str) == sorted(rows, key=str)


def test_a_csv_of_a_user_gives_the_text_behind_the_apostrophe(tmp_path: Path) -> None:
    (tmp_path / "plant.csv").write_text("'=setting,cost\n'-a,-1\n'tis,2\n")
    table = Csv.read(tmp_path / "plant.csv")
    assert table.texts("=setting") == ["-a", "'tis"]
    assert table.numbers(["cost"])[:, 0].tolist() == [-1.0, 2.0]


def test_csv_is_written_in_one_place_only() -> None:
    source = Path(holdcourse.__file__).parent
    words = ("writer", "DictWriter", "to_csv", "savetxt")
    writers = [
        path.relative_to(source).as_posix()
        for path in sorted(source.rglob("*.py"))
        if any(word in (text := path.read_text(encoding="utf-8")) for word in words)  # most files need not be parsed
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr in words
        if isinstance(node.value, ast.Name)
        and node.value.id not in ("database", "place", "self")  # whose writers write records
    ]
    assert set(writers) == {"tables/spreadsheet.py"}
