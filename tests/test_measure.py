"""Measuring the evidence again: steps that go on after a stop, and tables made of results without typing."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from holdcourse.experiments.comparison import EASY, HARD, Comparison
from holdcourse.experiments.plant_comparison import HINDSIGHT, PlantComparison

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module", autouse=True)
def tools():
    """The tools are scripts that find each other by being in one folder."""
    sys.path.insert(0, str(ROOT / "tools"))
    import evidence
    import measure
    import sections

    yield evidence, measure, sections
    sys.path.remove(str(ROOT / "tools"))


@pytest.fixture
def site(tools, tmp_path, monkeypatch):
    """A page that states two numbers, one of which is measured, and the day."""
    (tmp_path / "docs").mkdir()
    marks = "<!-- mill: {0} -->{1}<!-- end of mill: {0} -->".format
    page = f"On {marks('measured', '1 January 2026')} {marks('gain', '1 %')}; by hand {marks('other', '3')}.\n"
    (tmp_path / "README.md").write_text(page, encoding="utf-8")
    values = {"measured": {"text": "1 January 2026"}, "gain": {"text": "1 %"}, "other": {"text": "3"}}
    about = {"about": "A mill.", "date": "2026-01-01", "command": "run", "reports": [], "values": values}
    (tmp_path / "docs" / "evidence.json").write_text(json.dumps({"mill": about}), encoding="utf-8")
    monkeypatch.setattr(tools[0], "ROOT", tmp_path)
    monkeypatch.setattr(tools[0], "FILE", tmp_path / "docs" / "evidence.json")
    return tmp_path


def mill(sections, second):
    """A section of two steps, each of which adds a line to a file; the second is a program of the test's own."""
    adds = "import sys; open(sys.argv[1] + '/lines', 'a').write('x')"
    steps = (
        sections.Step("first", (sys.executable, "-c", adds, "{out}"), 1.0),
        sections.Step("second one", (sys.executable, "-c", second, "{out}"), 3.0),
    )
    return sections.Section("mill", "mill", steps, lambda out: {"gain": f"{len((out / 'lines').read_text())} %"})


def test_a_step_that_failed_is_done_again_and_finished_ones_are_not(tools, site, capsys):
    evidence, measure, sections = tools
    once = (
        "import pathlib, sys; at = pathlib.Path(sys.argv[1], 'tried'); was = at.exists(); at.touch(); sys.exit(not was)"
    )
    section = mill(sections, once)
    assert measure.measure([section], site / "work", "abc1234") == 1
    assert evidence.load()["mill"]["values"]["gain"] == {"text": "1 %"}
    assert "FAILED" in capsys.readouterr().out
    assert measure.measure([section], site / "work", "abc1234") == 0
    said = capsys.readouterr().out
    assert "first" not in said, "the first step was done once"
    assert "second one, about 3 min; all that is left: about 3 min" in said
    today = measure.date.today().isoformat()
    kept = evidence.load()["mill"]
    assert kept["values"]["gain"] == {"date": today, "commit": "abc1234", "text": "1 %"}
    assert kept["values"]["other"] == {"text": "3"}
    assert kept["date"] == "2026-01-01", "not all of the group is new"
    assert measure.day_of(today) in (site / "README.md").read_text(encoding="utf-8")
    assert measure.measure([section], site / "work", "abc1234") == 0
    assert (site / "work" / "mill" / "lines").read_text() == "x"


def test_files_that_the_pages_show_are_copied_with_their_numbers(tools, site):
    _, measure, sections = tools
    done = mill(sections, "pass")
    section = sections.Section(done.name, done.group, done.steps, done.values, {"docs/mill.txt": "lines"})
    (site / "docs" / "mill.txt").write_text("old", encoding="utf-8")
    assert measure.measure([section], site / "work", "abc1234") == 0
    assert (site / "docs" / "mill.txt").read_text(encoding="utf-8") == "x"


def test_every_file_that_is_copied_is_one_that_a_page_names(tools):
    evidence, _, sections = tools
    named = "".join(page.read_text(encoding="utf-8") for page in (evidence.ROOT / "docs").glob("*.md"))
    copied = [name for section in sections.SECTIONS.values() for name in section.files]
    assert copied
    assert [name for name in copied if name.removeprefix("docs/") not in named] == []


def test_other_code_begins_anew(tools, site):
    _, measure, sections = tools
    section = mill(sections, "pass")
    for commit in ("abc1234", "def5678"):
        measure.measure([section], site / "work" / commit, commit)
    assert all((site / "work" / commit / "mill" / "lines").read_text() == "x" for commit in ("abc1234", "def5678"))


def test_where_all_is_new_the_day_and_the_commit_are_those_of_the_group(tools, site):
    evidence = tools[0]
    evidence.put("mill", {"gain": "2 %"}, "2026-02-01", "abc1234")
    evidence.put("mill", {"measured": "2 February 2026", "gain": "2 %", "other": "4"}, "2026-02-02", "def5678")
    kept = evidence.load()["mill"]
    assert (kept["date"], kept["commit"]) == ("2026-02-02", "def5678")
    assert all(set(value) == {"text"} for value in kept["values"].values())


def test_time_left_follows_what_steps_really_took(tools, tmp_path):
    _, measure, sections = tools
    work = measure.Work(tmp_path, mill(sections, "pass"))
    clock = measure.Clock([work])
    assert clock.left == 4.0
    clock.count(work.section.steps[0], 2.5)
    assert clock.left == 10.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["wakez"], "no section 'wakez'; there are start, wind"),
        (["wind", "--from", "."], "--from needs one section whose results lie in a folder"),
        (["plants", "wakes", "--from", "."], "--from needs one section"),
        (["plants", "--from", "nowhere"], "nowhere is not a folder"),
    ],
)
def test_what_cannot_be_done_is_refused_in_words(tools, arguments, message, capsys):
    with pytest.raises(SystemExit):
        tools[1].main(arguments)
    assert message in capsys.readouterr().err


def test_a_folder_without_results_is_refused(tools, tmp_path):
    sections = tools[2].SECTIONS
    for name in ("plants", "wakes", "trials", "benchmarks", "wind-in-time"):
        with pytest.raises(SystemExit, match="give the folder that the section's commands wrote to"):
            sections[name].values(tmp_path)


def test_every_section_has_a_group_and_a_page_that_states_its_day(tools):
    evidence, _, sections = tools
    kept = evidence.load()
    for section in sections.SECTIONS.values():
        assert section.group in kept
        if section.values is not None:
            assert section.dated in kept[section.group]["values"], section.name


def comparison(bills, weeks, seeds, policies=("recommended",), worlds=("mill",)):
    shape = (len(policies), len(worlds), len(seeds))
    return PlantComparison(policies, worlds, seeds, np.reshape(bills, shape), np.reshape(weeks, shape))


def test_plants_with_different_numbers_of_seeds(tools):
    sections = tools[2]
    mill = comparison([0.01, 0.03], [0.1, 0.0], (0, 1))
    dryer = comparison([-0.2, -0.1, -0.03], [-0.1] * 3, (0, 1, 2), worlds=("dryer",))
    assert sections.plant_cells(mill) == ["+2.0 ± 1.0", "+3.0", "+5.0", "2"]
    # Each plant counts alike: (2 - 11) / 2. The error is over seeds 0 and 1: means -9.5 and -3.5.
    assert sections.all_plants([mill, dryer]) == ["-4.5 ± 3.0", "+3.0", "-2.5", "5 runs"]
    assert sections.plant_words([mill, dryer]) == {
        "above": "`mill` (+2.0 %)",
        "harmed": "1 of 5 runs (`mill` +3.0 on seed 1)",
        "first-week": "+5.0 % (`mill`)",
    }
    assert sections.plant_words([dryer])["above"] == "no plant"
    assert sections.plant_words([dryer])["harmed"] == "none of 3 runs"


def test_rules_of_people(tools):
    sections = tools[2]
    names = ("table", "fixed", "operators", *HINDSIGHT)
    bills = [[[0.0, 0.02], [-0.04, -0.02]], [[0.1, 0.2], [0.0, 0.02]], *np.full((3, 2, 2), -0.1)]
    found = comparison(bills, np.zeros((5, 2, 2)), (0, 1), names, ("mill", "dryer"))
    head, mill, dryer, total, worst, harmed = sections.people_rows(found)
    assert [head[0], head[1], head[-1]] == ["world", "Table", "optimum"]
    assert mill[:3] == ["mill", "+1.0 ± 1.0", "+15.0 ± 5.0"]
    assert dryer[:3] == ["dryer", "-3.0 ± 1.0", "+1.0 ± 1.0"]
    assert total[:3] == ["**all**", "-1.0 ± 1.0", "+8.0 ± 3.0"]
    assert worst == ["worst run", "+2", "+20", "-10", "-10", "-10"]
    assert harmed == ["runs over +2 %", "0 %", "50 %", "0 %", "0 %", "0 %"]
    assert sections.fixed_words(found) == {"fixed-worse": "two", "fixed": "+8.0 %"}


def test_peers_get_the_names_that_the_page_explains(tools):
    sections = tools[2]
    cells = tuple((process, 1.0) for process in EASY + HARD)
    names = ("recommended", "botorch_ucb")
    ratios = np.stack([np.full((3, len(cells)), 1.5), np.full((3, len(cells)), 2.0)])
    found = Comparison(names, (9000, 9001, 9002), cells, ratios)
    easy, hard = sections.tables_in(sections.renamed(sections.cells_markdown(found)))
    assert "| UCB | 2.000 ± 0.000 | +0.500 ± 0.000 | 2.00 | 2.00 | 2.00 | 2.00 | 2.00 |" in easy
    assert "adversary" in hard
    assert sections.seeds_of(found) == "three landscapes, 9000 to 9002"
    assert sections.seeds_of(Comparison(names, (9000, 9002), cells, ratios[:, :2])) == "9000, 9002"


def test_every_benchmark_that_is_run_gives_rows(tools):
    """Read, not run: several need packages that tests do not install."""
    sections = tools[2]
    folder = ROOT / "benchmarks"
    left_out = re.search(r"NOT_MEASURED = (\{.*\})", (folder / "__main__.py").read_text())
    not_measured = ast.literal_eval(left_out[1]) | {"__init__"}
    run = {path.stem for path in folder.glob("*.py")} - not_measured
    assert {name for names in sections.SPEED.values() for name in names} <= run
    for name in run:
        assert "\ndef measure() -> list[Row]:" in (folder / f"{name}.py").read_text(), name


def test_rows_of_benchmarks(tools, tmp_path):
    sections = tools[2]
    row = {"name": "a fit", "ours_seconds": 0.5, "peer_name": "dense", "peer_seconds": 2.0, "bar": 8.0}
    (tmp_path / "plant.json").write_text(json.dumps([row, row | {"bar": None, "ours_seconds": 2e-5}]))
    found = sections.speed(tmp_path)
    assert set(found) == {"a-plant-s-year", "machine"}, "tables of which a part is missing are left alone"
    assert "| a fit | 500 ms | dense | 2 s | 4.0x | 8x | no |" in found["a-plant-s-year"]
    assert "| a fit | 20 us | dense | 2 s | 100000.0x | | |" in found["a-plant-s-year"]
    assert re.search(r"\d+ \w+ cores, Python 3\.\d+\.\d+, numpy \d", found["machine"])


def test_trials_together(tools, tmp_path):
    sections = tools[2]
    for kind, trials, held in (("synthetic", 1000, 94.0), ("plants", 500, 97.0), ("wind", 500, 97.0)):
        line = f"| {trials} {kind} | 2 | +1.0 | +0.01 | 0.40 | 1.62 | {held} % | 97.2 % | 1.2 % |"
        kept = {"rows": [line], "rule": [], "trials": trials, "held": trials * held}
        (tmp_path / f"{kind}.json").write_text(json.dumps(kept))
    found = sections.trials(tmp_path)
    assert found["held"] == "95.5 % of 2,000"
    assert found["how-right-it-is"].strip().splitlines()[2].startswith("| 1000 synthetic | 2 | +1.0 |")


def test_a_year_of_wakes(tools, tmp_path):
    sections = tools[2]
    line = {"gain": 0.281, "gain_low": 0.19, "gain_high": 0.37, "travel": 346_812.0}
    point = {"gain": 0.32, "low": 0.25, "high": 0.4, "travel": 54_321.0}
    found = {
        "words": [
            "For 95 % of the lookup table's gain the planner needs 26,900 degrees a year, 8 % of the table's 346,812."
        ],
        "lines": [line | {"policy": "lookup"}, line | {"policy": "wake-planner"}],
        "fronts": {
            "hysteresis": [point | {"setting": 8.0}],
            "rate-limit": [point | {"setting": 5.0}, point | {"setting": 2.0}],
        },
        "against_rules": [{"policy": "hysteresis", "setting": 8.0, "ours": 0.434, "ratio": 1.55}],
    }
    (tmp_path / "wakes.json").write_text(json.dumps(found))
    said = sections.wakes(tmp_path)
    assert "| lookup table | +0.28 % | +0.19 to +0.37 | 347,000 |" in said["la-haute-borne-2014"]
    assert "| hysteresis, 8 degrees | +0.32 % | +0.25 to +0.40 | 54,300 |" in said["la-haute-borne-2014"]
    assert said["travel-share"] == "8 %"
    assert said["travel"] == "26,900 degrees a year"
    assert said["beside-hysteresis"] == "0.43 %, 1.55 times as much"


def test_histories_of_wind(tools):
    sections = tools[2]
    year = {"best fixed in hindsight": [[95.0, 90.0, 86.0]], "none": [[94.0, 91.0, 88.0]]}
    year |= {
        "two weeks": [[94.0, 90.0, 88.0], [95.0, 91.0, 88.5]],
        "three months": [[94.0] * 3],
        "a year": [[95.0] * 3],
    }
    later = {name: (np.array(rows) + (name == "a year")).tolist() for name, rows in year.items()}
    assert sections.one_year(year)[3] == ["two weeks", "94.50 [94.0]", "90.50 [90.0]", "88.25 [88.0]"]
    rows = sections.all_years([year, later])
    assert rows[1] == ["best fixed altitude in hindsight", "95.00", "90.00", "86.00"]
    assert rows[3] == ["two weeks, against none", "+0.50 ± 0.00", "-0.50 ± 0.00", "+0.25 ± 0.00"]
    assert rows[5] == ["a year, against none", "+1.50 ± 0.50", "+4.50 ± 0.50", "+7.50 ± 0.50"]
