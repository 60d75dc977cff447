"""Every measured number stands once, in docs/evidence.json, and the pages say what it says."""

from __future__ import annotations

import importlib.util
import json
import re
from datetime import date
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Percentages and multiples that are definitions or limits, or examples of how to write; nothing of it was measured.
NO_RESULTS = {
    "docs/how-to/check-a-history.md": {"94 %"},  # what a report looks like
    "docs/how-to/knobs.md": {"30 %"},  # of the worlds that were made for the table
    "docs/how-to/plant-backtest.md": {"8 times"},
    "docs/how-to/run-a-controller.md": {"5 %"},
    "docs/how-to/wind-data.md": {"50 times", "30 %"},
    "docs/how-to/wind-map.md": {"90 %"},
    "docs/plain-words.md": {"+1.1 %", "1.1 %"},
    "docs/theory/algorithm.md": {"7 %", "80 times"},  # of the example on that page
    "docs/theory/learning.md": {"0.4 times"},
    "docs/tutorials/wake-steering.md": {"1 %"},  # the error of the meter in the example
    "docs/theory/planning.md": {"3.96 ± 0.21", "2.3 ± 0.9", "5 times", "1 %"},
}


def loaded():
    """The tool, which is a script and in no package."""
    spec = importlib.util.spec_from_file_location("evidence", ROOT / "tools" / "evidence.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = loaded()


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A README, a how-to and a report that state the same numbers."""
    page = "It needs <!-- wakes: share -->8 %<!-- end of wakes: share --> of the travel."
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(page, encoding="utf-8")
    (tmp_path / "docs" / "how.md").write_text(page, encoding="utf-8")
    (tmp_path / "docs" / "report.md").write_text("# Report\n\nMeasured: 1.5 s.\n", encoding="utf-8")
    about = {"about": "Wakes.", "date": "2026-01-01", "command": "holdcourse wakes", "reports": ["docs/report.md"]}
    file = tmp_path / "docs" / "evidence.json"
    file.write_text(json.dumps({"wakes": about | {"values": {"share": {"text": "8 %"}}}}), encoding="utf-8")
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "FILE", file)
    return tmp_path


def adopted(day="2026-02-02"):
    """What `adopt` makes of the pages as they are."""
    evidence, texts = tool.load(), {path: path.read_text(encoding="utf-8") for path in tool.pages()}
    taken = tool.adopt(evidence, texts, day)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    tool.save(evidence)
    tool.write(evidence)
    return taken, tool.load()


def test_the_pages_say_what_the_file_says():
    assert list(tool.differences(tool.load())) == []


def test_every_number_has_a_date_and_a_command():
    for group, about in tool.load().items():
        assert date.fromisoformat(about["date"]) <= date.today(), group
        assert about["about"].endswith("."), group
        assert about["command"], group
        assert about["values"] or about["reports"], group
        assert all((ROOT / name).exists() for name in about.get("reports", ())), group


def test_no_page_states_a_result_that_the_file_lacks():
    reports = {name for about in tool.load().values() for name in about.get("reports", ())}
    for path in tool.pages():
        name = path.relative_to(ROOT).as_posix()
        if name not in reports:
            found = set(tool.figures(tool.unmarked_prose(path.read_text(encoding="utf-8"))))
            results = {figure for figure in found if re.search(r"%|±|\+-|times", figure)}
            assert results == NO_RESULTS.get(name, set()), f"{name}: mark them, or say here why they are no results"


def test_marks_come_in_pairs_and_do_not_begin_a_line_of_words():
    """Markdown takes a line that begins with a comment for HTML."""
    for path in tool.pages():
        text = path.read_text(encoding="utf-8")
        begins = len(re.findall(r"<!-- [a-z-]+: [a-z0-9-]+ -->", text.replace("<!-- end of", "")))
        assert begins == len(tool.MARKED.findall(text)) == text.count("<!-- end of "), path
        assert not re.search(r"^<!-- [^\n]*-->[^\n]", text, re.MULTILINE), path


def test_a_number_changed_in_one_page_is_adopted_everywhere(site):
    page = site / "docs" / "how.md"
    page.write_text(page.read_text(encoding="utf-8").replace("8 %", "9 %"), encoding="utf-8")
    assert list(tool.differences(tool.load())) == ["docs/how.md states 'wakes: share' in another way than the file"]
    taken, evidence = adopted()
    assert taken == ["wakes: share"]
    assert evidence["wakes"]["values"]["share"] == {"date": "2026-02-02", "text": "9 %"}
    assert "-->9 %<!--" in (site / "README.md").read_text(encoding="utf-8")
    assert list(tool.differences(evidence)) == []


def test_other_words_for_the_same_number_keep_its_day(site):
    page = site / "docs" / "how.md"
    page.write_text(page.read_text(encoding="utf-8").replace("8 %<", "only 8 %<"), encoding="utf-8")
    taken, evidence = adopted()
    assert taken == ["wakes: share"]
    assert evidence["wakes"]["values"]["share"] == {"text": "only 8 %"}


def test_two_new_values_for_one_number_are_refused(site):
    for name, new in (("README.md", "7 %"), ("docs/how.md", "9 %")):
        text = (site / name).read_text(encoding="utf-8")
        (site / name).write_text(text.replace("8 %", new), encoding="utf-8")
    with pytest.raises(SystemExit, match=r"stated in two ways, in README\.md and in docs/how\.md"):
        adopted()


def test_a_report_cannot_change_unnoticed(site):
    report = site / "docs" / "report.md"
    taken, evidence = adopted()
    assert taken == []
    assert evidence["wakes"]["prose"] == {"docs/report.md": {"Report": ["1.5"]}}
    table = "\n## By year\n\n| year | gain | moves |\n|---|---|---|\n| 2009 | 1.2 | 3 |\n| 2010 | 1.4 | |\n"
    report.write_text(report.read_text(encoding="utf-8").replace("1.5", "1.6") + table, encoding="utf-8")
    assert len(list(tool.differences(evidence))) == 1
    taken, evidence = adopted()
    assert taken == ["wakes: by-year"]
    rows = [["year", "gain", "moves"], ["2009", "1.2", "3"], ["2010", "1.4", ""]]
    assert evidence["wakes"]["values"]["by-year"]["table"] == rows
    assert evidence["wakes"]["prose"]["docs/report.md"] == {"Report": ["1.6"]}
    assert adopted() == ([], evidence)


def test_a_mark_without_a_value_is_refused(site):
    page = site / "docs" / "how.md"
    page.write_text("a <!-- wakes: gain -->1 %<!-- end of wakes: gain -->", encoding="utf-8")
    assert any("does not hold" in found for found in tool.differences(tool.load()))
    with pytest.raises(SystemExit, match="no 'wakes: gain'"):
        tool.write(tool.load())
    with pytest.raises(SystemExit, match="no group 'winds'"):
        tool.put("winds", {"gain": "1 %"})


def test_figures_are_what_a_reader_takes_for_results():
    text = "On 2026-11-18 with Python 3.11.7, 14,640 trials of 3 weeks: +5.6 ± 0.8 %, 1.5 times, -0.3, and 12 moves."
    assert tool.figures(text) == ["14,640", "+5.6 ± 0.8 %", "1.5 times", "-0.3"]
