"""The comparison: statistics against numpy, runs that resume, a user's own policy, and tables that line up."""

from __future__ import annotations

import csv
import io
import json
from functools import partial

import numpy as np
import pytest
from rich.console import Console

import holdcourse as hc
from holdcourse.cli import compare
from holdcourse.cli.root import app
from holdcourse.deciding.pilot import Pilot
from holdcourse.errors import InvalidInput
from holdcourse.experiments import compare_report, comparison
from holdcourse.experiments.comparison import Comparison, ComparisonPlan, policy_of
from holdcourse.experiments.runner import run_sweep
from holdcourse.experiments.store import Row

SMALL = ComparisonPlan(policies=("planner", "gp-md-1"), processes=("iid", "adversary"), rho=(0.5, 2.0), seeds=2)
SMALL = SMALL.model_copy(update={"first_seed": 40, "rounds": 12, "grid": 4, "contexts": 6})


@pytest.fixture
def run(invoked):
    return partial(invoked(app), "compare")


def made_up(policies, seeds, which, random):
    """Rows with random ratios, in no order."""
    rows = [
        Row(process, name, rho, str(seed), 0, 0, 10, 1.0, 1.0, 2.0, 1.0, float(1 + random.random()))
        for name in policies
        for seed in seeds
        for process, rho in which
    ]
    return [rows[k] for k in random.permutation(len(rows))]


def test_means_errors_and_paired_differences_are_numpys():
    random = np.random.default_rng(0)
    which = [("iid", 0.5), ("iid", 1.0), ("drift", 1.0)]
    rows = made_up(("a", "b"), (7, 8, 9, 10), which, random)
    found = Comparison.of(rows, ("a", "b"), which)
    table = {(row.policy, int(row.problem), (row.experiment, row.rho)): row.ratio for row in rows}
    ratios = np.array([[[table[p, s, c] for c in which] for s in (7, 8, 9, 10)] for p in ("a", "b")])
    np.testing.assert_array_equal(found.ratios, ratios)
    first, second = found.lines()
    apart = ratios[1].mean(axis=1) - ratios[0].mean(axis=1)
    assert second.mean == pytest.approx(np.mean(ratios[1]))
    assert second.error == pytest.approx(np.std(ratios[1].mean(axis=1), ddof=1) / 2)
    assert second.difference == pytest.approx(np.mean(apart))
    assert second.difference_error == pytest.approx(np.std(apart, ddof=1) / 2)
    assert second.worst == pytest.approx(max(np.mean(ratios[1], axis=0)))
    assert (first.difference, first.difference_error) == (0.0, 0.0)
    row = found.cell_rows()[3 + 2]
    assert (row["policy"], row["process"], row["rho"], row["landscapes"]) == ("b", "drift", 1.0, 4)
    assert row["difference_error"] == pytest.approx(np.std(ratios[1, :, 2] - ratios[0, :, 2], ddof=1) / 2)
    assert found.select(("iid",)).cells == (("iid", 0.5), ("iid", 1.0))


def test_a_landscape_that_some_policy_has_not_finished_is_left_out():
    rows = made_up(("a", "b"), (1, 2, 3), [("iid", 1.0)], np.random.default_rng(0))
    kept = [row for row in rows if (row.policy, row.problem) != ("b", "2")]
    assert Comparison.of(kept, ("a", "b"), [("iid", 1.0)]).seeds == (1, 3)
    assert Comparison.of([], ("a", "b"), [("iid", 1.0)]).seeds == ()


def test_a_run_is_what_simulate_does(tmp_path):
    sweep = SMALL.sweep()
    report = run_sweep(sweep, tmp_path, workers=1)
    assert not report.failed
    world = hc.SyntheticWorld.sample(seed=41, grid=4, contexts=6, rho=2.0)
    policy = hc.planner(
        world.problem,
        kernel=world.kernel,
        noise_std=world.noise_std,
        prior_mean=world.prior_mean,
        contexts=world.contexts,
    )
    start = int(np.random.default_rng([41, 5]).integers(16))
    flown = hc.simulate(policy, world, world.context_sequence("iid", 12, seed=41), start=start, seed=41)
    row = next(r for r in report.rows if (r.policy, r.experiment, r.rho, r.problem) == ("planner", "iid", 2.0, "41"))
    assert row.total == pytest.approx(flown.total, rel=1e-12)
    assert row.ratio == pytest.approx(flown.total / flown.optima[0].total, rel=1e-12)


def test_the_adversary_picks_where_we_are_worst_and_the_optimum_is_that_of_its_contexts():
    world = hc.SyntheticWorld.sample(seed=2, grid=4, contexts=12)
    picked = comparison.worst_context(world, 5, np.random.default_rng(0))
    drawn = np.random.default_rng(0).choice(12, size=5, replace=False)
    loss = {int(k): world.landscape[k, 5] - world.landscape[k].min() for k in drawn}
    assert loss[picked] == max(loss.values())
    config = next(run for run in SMALL.sweep().runs if run.experiment == "adversary")
    scene = config.world.scene(config)
    assert len(scene.contexts) == 0
    played = config.world.play(hc.stationary(scene.world.problem), config, scene)
    assert (played.actions == scene.start).all()
    assert 0 < played.optimum <= played.service.sum() + played.movement.sum()


def test_forecasts_are_the_rounds_to_come_or_a_shuffle_of_them():
    contexts = np.arange(20.0)[:, None]
    assert comparison.Forecast.of("planner").shown(contexts, 1)(0) is None
    true = comparison.Forecast.of("planner-forecast").shown(contexts, 1)
    assert true(3).ravel().tolist() == list(range(4, 16))
    assert true(19).shape == (0, 1)
    shuffled = comparison.Forecast.of("planner-shuffled").shown(contexts, 1)
    assert sorted(shuffled(-1).ravel().tolist()) != list(range(12))


def test_variants_are_what_their_names_say():
    run = SMALL.sweep().runs[0]
    scene = run.world.scene(run)
    made = {name: run.world.policy(policy_of(name), run, scene) for name in ("gp-md", "gp-md-1", "hedged", "planner")}
    widths = {name: policy.costs.width for name, policy in made.items() if name != "hedged"}
    assert widths == {"gp-md": 2.0, "gp-md-1": 1.0, "planner": hc.planner(scene.world.problem).costs.width}
    assert made["hedged"].name == "hedged(Planner, GP-MD)"


def test_command_prints_writes_and_goes_on(run, tmp_path):
    options = ("--processes", "walk,drift", "--rho", "1,2", "--seeds", 2, "--rounds", 8, "--workers", 1)
    shown = run("--policies", "stationary,gp-md", *options, "--out", "results")
    assert "cost over the optimum: cells, 2 in all" in shown.stdout
    assert "harder processes, 1 in all" in shown.stdout
    assert "landscapes 9000 to 9001; every cell: " in shown.stdout
    assert "12 runs in" in shown.stderr
    with (tmp_path / "results" / "cells.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["policy"], row["process"], row["rho"]) for row in rows][:3] == [
        ("stationary", "walk", "1.0"),
        ("stationary", "walk", "2.0"),
        ("stationary", "drift", "1.0"),
    ]
    page = (tmp_path / "results" / "table.md").read_text()
    assert page.startswith("| policy | mean | to Stationary | walk |\n| --- |")
    assert f"{float(rows[3]['mean']):.2f} {float(rows[4]['mean']):.2f} |" in page
    assert (tmp_path / "results" / "figures" / "compare.png").stat().st_size > 10_000
    # One more policy: what is there is not done again.
    again = run("--policies", "stationary,gp-md,md-known", *options, "--out", "results", "--json")
    found = json.loads(again.stdout)
    assert (found["found"], found["done"], found["seeds"]) == (12, 6, [9000, 9001])
    means = {(cell["policy"], cell["process"], cell["rho"]): cell["mean"] for cell in found["cells"]}
    assert means["gp-md", "walk", 2.0] == pytest.approx(float(rows[4]["mean"]))
    assert {line["group"] for line in found["lines"]} == {"cells", "harder processes"}


def test_a_users_own_policy_and_a_change_of_it(run, tmp_path):
    source = "import holdcourse as hc\n\ndef mine(problem, *, kernel, noise_std, prior_mean, contexts):\n"
    (tmp_path / "mine.py").write_text(source + "    return hc.stationary(problem)\n")
    options = ("--processes", "iid", "--rho", 1, "--seeds", 1, "--rounds", 5, "--workers", 1, "--json")
    policies = "stationary,mine.py:mine,other=mine.py:mine"
    found = json.loads(run("--policies", policies, *options).stdout)
    assert [line["policy"] for line in found["lines"]] == ["stationary", "mine", "other"]
    assert [line["difference"] for line in found["lines"]] == [0.0, 0.0, 0.0]
    (tmp_path / "mine.py").write_text(source + "    return hc.minc_known(problem)\n")
    assert json.loads(run("--policies", policies, *options).stdout)["done"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--policies", "gp-mdd"), "policy 'gp-mdd' is not known"),
        (("--policies", "gp-md-2"), r"\(did you mean gp-md-1 or gp-md\?\)"),  # which this command alone can make
        (("--policies", "x=nowhere.py:x"), "there is no file nowhere.py"),
        (("--processes", "tides"), "processes: .*'tides' is not a process of contexts; choose from iid, walk"),
        (("--policies", "gp-md,"), "there is an empty name in 'gp-md,'"),
        (("--policies", "=mine.py:x"), "policies: '=mine.py:x' has no name; write it like mine=mine.py:mine"),
        (("--policies", "clairvoyant=mine.py:x"), "policies: 'clairvoyant' is the optimum in hindsight"),
        (("--policies", "a=mine.py:x,a=mine.py:y"), "policies: 'a' is given twice"),
        (("--rho", "x"), "--rho takes numbers"),
        (("--rho", "1,0"), r"rho\[1\] must be greater than 0, got 0.0"),
        (("--rho", "nan"), r"rho\[0\] must be "),
        (("--seeds", "0"), "seeds must be greater than 0"),
    ],
)
def test_errors_are_one_line(run, arguments, message):
    with pytest.raises(InvalidInput, match=message):
        run(*arguments)


def test_groups_of_processes():
    assert ComparisonPlan(processes=("easy",)).processes == comparison.EASY
    assert len(ComparisonPlan().cells) == 20
    assert len(ComparisonPlan(processes=("all", "iid")).cells) == 20


def test_one_landscape_has_no_error():
    which = [("iid", 1.0)]
    found = Comparison.of(made_up(("a", "b"), (7,), which, np.random.default_rng(0)), ("a", "b"), which)
    assert "±" not in compare_report.cells_markdown(found)
    values = compare_report.cells_as_values(found)
    assert [line["error"] for line in values["lines"]] == [None, None]
    assert [row["standard_error"] for row in values["cells"]] == [None, None]
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(compare.tables(found, 80)[0])
    assert "0.000 " not in console.export_text().replace("+0.000", "")
    assert compare_report.seeds_in_words("landscape", found.seeds) == "landscape 7"


@pytest.mark.parametrize("width", [80, 160])
def test_tables_line_up(width):
    names = ("recommended", "planner", "gp-md-1", "gp-md", "planner-known", "a_policy_of_mine")
    which = ComparisonPlan().cells
    found = Comparison.of(made_up(names, range(9000, 9008), which, np.random.default_rng(1)), names, which)
    console = Console(width=width, record=True, file=io.StringIO())
    for table in compare.tables(found, width):
        console.print(table)
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    for name in ("Recommended", "Planner-Known", "a_policy_of_mine"):
        assert sum(line.startswith(f"│ {name} ") for line in lines) == 4  # one line each in all four tables
    cells_shown = next(line for line in lines if line.startswith("│ Recommended") and line.count("│") == 7)
    assert cells_shown


def test_the_published_landscapes_are_the_default():
    assert {run.problem for run in ComparisonPlan().sweep().runs} == set(range(9000, 9008))


def test_recommended_knows_what_the_others_know():
    run = SMALL.sweep().runs[0]
    scene = run.world.scene(run)
    policy = run.world.policy(policy_of("recommended"), run, scene)
    assert policy.made_by[1]["kernel"] == scene.world.kernel
    pilot = Pilot(policy, scene.start, 0)
    assert pilot.decide(pilot.look(scene.contexts[0])[1]).state.round == 1
