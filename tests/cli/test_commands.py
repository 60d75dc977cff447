"""The commands: what they print and write, their JSON, errors and exit codes."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from holdcourse.cli.root import app
from holdcourse.errors import InvalidInput
from holdcourse.experiments.results import Grid
from holdcourse.experiments.runs import PAPER_POLICIES
from holdcourse.experiments.sweepfile import EXAMPLE

SMALL = ("--functions", "1", "--rho", "0.5,2", "--rounds", "10", "--quick", "--workers", "1")


@pytest.fixture
def run(invoked):
    return invoked(app)


def test_reproduce_synthetic(run, tmp_path):
    shown = run("reproduce", "synthetic", *SMALL, "--out", "results")
    assert "mean total cost, 10 rounds, 1 function" in shown.stdout
    assert "24 runs in" in shown.stderr
    folder = tmp_path / "results"
    assert (folder / "synthetic" / "summary.csv").read_text().count("\n") == 25
    for name in ("figure-2.png", "figure-2.svg"):
        assert (folder / "synthetic" / "figures" / name).stat().st_size > 10_000
    page = (folder / "report.html").read_text()
    assert "data:image/png;base64," in page
    assert "http" not in page.replace("http-equiv", "")  # opens without a network
    again = run("reproduce", "synthetic", *SMALL, "--out", "results", "--json")
    found = json.loads(again.stdout)
    assert (found["sections"][0]["found"], found["sections"][0]["done"]) == (24, 0)
    assert "24 of 24 runs found" in again.stderr
    assert {row["policy"] for row in found["sections"][0]["tables"][0]["rows"]} >= {"gp-md", "clairvoyant"}


@pytest.mark.slow
def test_reproduce_wind_and_its_policies(run, tmp_path):
    run(
        "reproduce",
        "wind",
        "--quick",
        "--rounds",
        "8",
        "--rho",
        "4",
        "--policies",
        "stationary,gp-md",
        "--workers",
        "1",
    )
    rows = (tmp_path / "reproduction" / "wind" / "summary.csv").read_text().splitlines()[1:]
    assert {row.split(",")[1] for row in rows} == {"stationary", "gp-md", "clairvoyant"}
    assert "bundled wind" in (tmp_path / "reproduction" / "report.html").read_text()


def test_functions_are_none_of_wind(run):
    with pytest.raises(InvalidInput, match="--functions does not apply to the wind experiments"):
        run("reproduce", "wind", "--functions", "2")
    run("reproduce", "everything", code=2)


@pytest.mark.parametrize(
    ("rounds", "note", "rest"),
    [
        (9999, "No figures, as runs that they show have failed.", "the others are in the tables"),
        (99999, "Every run failed.", "no other run was done"),
    ],
    ids=["two sites", "all sites"],
)
def test_sites_whose_data_are_too_short(run, tmp_path, rounds, note, rest):
    """The bundled wind ends with 2010, so that only the earlier two of the four sites have 9999 hours."""
    options = ("--quick", "--rounds", rounds, "--rho", 4, "--policies", "stationary", "--workers", 1)
    shown = run("reproduce", "wind", *options, code=1)
    assert note in shown.stdout
    assert "figures:" not in shown.stdout
    assert f"runs failed; {rest}" in shown.stderr
    assert note in (tmp_path / "reproduction" / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rho", "1,x"), "--rho takes numbers, such as 0.5,1,2; got '1,x'"),
        (("--rho", "-1"), r"rho\[0\] must be greater than 0"),
        (("--functions", "0"), "functions must be greater than 0, got 0"),
        (("--policies", "gp-mdd"), "policy 'gp-mdd' is not known"),
        (("--workers", "0"), "workers must be 1 or more"),
        (("--policies", "gp-md,"), "there is an empty name in 'gp-md,'"),
        (("--data", "era5"), "--data does not apply to the synthetic experiments; leave it out"),
    ],
)
def test_bad_options_are_refused_before_anything_runs(run, tmp_path, arguments, message):
    with pytest.raises(InvalidInput, match=message):
        run("reproduce", "synthetic", "--quick", *arguments)
    assert not (tmp_path / "reproduction").exists()


def test_sweep_prints_its_example_and_schema(run):
    assert run("sweep", "--example").stdout == EXAMPLE
    assert json.loads(run("sweep", "--schema").stdout)["title"] == "SweepFile"
    run("sweep", code=2)


def test_dry_run_lists_and_does_nothing(run, tmp_path):
    (tmp_path / "mine.toml").write_text(EXAMPLE)
    shown = run("sweep", "mine.toml", "--dry-run").stdout
    assert "99 runs, 18,000 decisions; this was a dry run" in shown
    found = json.loads(run("sweep", "mine.toml", "--dry-run", "--json").stdout)
    assert len(found["runs"]) == 99
    assert not (tmp_path / "sweep").exists()
    assert len(shown.splitlines()) == 5  # a summary
    assert "3 problems x 3 rho x 1 start x (5 policies x 2 repetitions + the clairvoyant)" in shown
    assert "policies: recommended, gp-md, cgp-lcb, md-known, stationary\nrho: 0.5, 1, 2\n" in shown
    assert "finished earlier, in the folder sweep: 0 of 99" in shown
    with pytest.raises(InvalidInput, match="--list works only with --dry-run"):
        run("sweep", "mine.toml", "--list")


def test_dry_run_says_what_is_done_and_lists_on_request(run, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = EXAMPLE.replace("rounds = 200", "rounds = 5").replace("functions = 3", "functions = 1")
    (tmp_path / "mine.toml").write_text(text.replace("rho = [0.5, 1.0, 2.0]", "rho = [1.0]"))
    run("sweep", "mine.toml", "--workers", "1", "--out", "results")
    gone = sorted((tmp_path / "results" / "runs").glob("*.npz"))[0]
    gone.unlink()
    shown = run("sweep", "mine.toml", "--dry-run", "--list", "--out", "results").stdout
    assert "finished earlier, in the folder results: 10 of 11" in shown
    rows = [line for line in shown.splitlines() if line.startswith("│")]
    assert len(rows) == 11
    assert next(row for row in rows if "yes" not in row).startswith(f"│ {gone.stem[:8]} ")
    assert "…" not in shown


def test_sweep(run, tmp_path):
    text = EXAMPLE.replace("rounds = 200", "rounds = 10").replace("functions = 3", "functions = 1")
    (tmp_path / "mine.toml").write_text(text)
    shown = run("sweep", "mine.toml", "--workers", "1", "--out", "results")
    assert "pump: mean total cost" in shown.stdout
    rows = [line.split()[1] for line in shown.stdout.splitlines() if line.startswith("│")]
    order = ["Recommended", "GP-MD", "CGP-LCB", "MD-Known", "Stationary", "Clairvoyant"]  # as in the file
    assert rows == 2 * order
    assert shown.stdout.count(" ± ") == 2 + 2 * 3 * (len(order) - 1)  # both titles, every mean; the optimum runs once
    means = json.loads(run("sweep", "mine.toml", "--workers", "1", "--out", "results", "--json").stdout)["means"]
    ours = {"recommended", "gp-md", "cgp-lcb", "md-known", "stationary"}
    assert {mean["policy"] for mean in means} == ours | {"clairvoyant"}


@pytest.mark.parametrize(("width", "cell"), [(80, "│ Planner-Known "), (160, "┃ Planner-Known ")])
def test_tables_of_many_policies_name_them_in_full(width, cell):
    names = (*PAPER_POLICIES, "proximal-lcb", "planner", "planner-known", "recommended", "clairvoyant")
    grid = Grid("a title that is long", names, {rho: dict.fromkeys(names, (10 * rho, 0.1)) for rho in (0.5, 1.0, 2.0)})
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(grid.shown(width))
    shown = console.export_text()
    assert cell in shown
    assert "…" not in shown
    assert shown.count("20.0") == len(names)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_row_for_each_policy_with_errors(width):
    """As many tables as it takes; nothing is cut."""
    names = ("recommended", "planner-known", "my-own", "clairvoyant")
    rhos = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    grid = Grid("a title", names, {rho: dict.fromkeys(names, (12345 * rho, 67.0)) for rho in rhos})
    console = Console(width=width, record=True, file=io.StringIO())
    tables = grid.by_policy(width)
    for table in tables:
        console.print(table)
    shown = console.export_text()
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    assert all(shown.count(f"rho {rho:g} ") == 1 for rho in rhos)
    assert shown.count(" ± 67") == len(names) * len(rhos)
    assert (len(tables) == 1) == (width == 200)
    rows = [line.split()[1] for line in shown.splitlines() if line.startswith("│")]
    assert rows == len(tables) * ["Recommended", "Planner-Known", "my-own", "Clairvoyant"]


FAILING = """
import holdcourse as hc


def make(problem):
    if make.calls:  # not when the file is checked
        raise RuntimeError("out of luck")
    make.calls += 1
    return hc.stationary(problem)


make.calls = 0
"""


def test_a_failing_run_gives_exit_code_1_and_the_others_their_results(run, tmp_path):
    (tmp_path / "own.py").write_text(FAILING)
    text = EXAMPLE.replace("rounds = 200", "rounds = 5").replace("functions = 3", "functions = 1")
    (tmp_path / "mine.toml").write_text(text + '\n[[policies]]\nname = "unlucky"\nsource = "own.py:make"\n')
    shown = run("sweep", "mine.toml", "--workers", "1", code=1)
    assert "failed: unlucky, rho 0.5, problem 0: RuntimeError: out of luck" in shown.stderr
    assert "6 runs failed; the others are in the tables" in shown.stderr
    assert "GP-MD" in shown.stdout


def test_a_file_in_the_way_of_the_figures(run, tmp_path):
    (tmp_path / "results" / "synthetic").mkdir(parents=True)
    (tmp_path / "results" / "synthetic" / "figures").write_text("mine")
    with pytest.raises(InvalidInput, match=r"cannot write to results/synthetic/figures: it is a file; choose another"):
        run("reproduce", "synthetic", *SMALL, "--policies", "stationary", "--out", "results")


# -- a plant's own readings -------------------------------------------------------------------------------------------
