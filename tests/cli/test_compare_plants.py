"""The suite of plants on the command line: statistics against numpy, runs that resume, cold or with history, tables."""

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
from holdcourse.errors import InvalidInput
from holdcourse.experiments import compare_report
from holdcourse.experiments.plant_comparison import PlantComparison, PlantPlan
from holdcourse.experiments.runner import run_sweep
from holdcourse.worlds import plants
from holdcourse.worlds.plants import PLANTS

QUICK = ("--suite", "plants", "--workers", 1)


@pytest.fixture
def run(invoked):
    return partial(invoked(app), "compare")


def made_up(policies, worlds, seeds):
    bills, weeks = np.random.default_rng(0).normal(-0.05, 0.05, (2, len(policies), len(worlds), len(seeds)))
    return PlantComparison(policies, worlds, tuple(seeds), bills, weeks)


def test_lines_are_numpys():
    found = made_up(("a", "b"), ("chiller", "mill", "pumps"), range(1000, 1006))
    own = found.line("b", "mill")
    assert own.mean == pytest.approx(np.mean(found.bills[1, 1]))
    assert own.error == pytest.approx(np.std(found.bills[1, 1], ddof=1) / np.sqrt(6))
    assert own.worst == np.max(found.bills[1, 1])
    assert own.first_week == pytest.approx(np.mean(found.first_weeks[1, 1]))
    assert own.harmed == np.mean([bill > 0.02 for bill in found.bills[1, 1]])
    whole = found.line("b")
    assert (whole.world, whole.worst) == ("all", np.max(found.bills[1]))
    assert whole.mean == pytest.approx(np.mean(found.bills[1]))
    assert whole.error == pytest.approx(np.std(found.bills[1].mean(axis=0), ddof=1) / np.sqrt(6))
    assert [line.world for line in found.lines("a")] == ["chiller", "mill", "pumps"]
    assert len(found.every_line) == 2 * 4


def test_a_comparison_is_what_operate_does(tmp_path):
    plan = PlantPlan(policies=("table", "stationary", "minc-known"), worlds=("ventilation", "mill"), rounds=200)
    plan = plan.model_copy(update={"first_seed": 1000, "seeds": 2})
    assert not run_sweep(plan.sweep(), tmp_path, workers=1).failed
    found = PlantComparison.of(plan, tmp_path)
    assert found.policies == ("table", "stationary", "minc-known", "best-fixed", "clairvoyant")
    assert found.seeds == (1000, 1001)
    for w, world in enumerate(plan.worlds):
        for s, seed in enumerate(found.seeds):
            case = PLANTS[world].case(seed, rounds=200)
            stay = plants.operate(plants.stay(case.problem, case.start), case)
            made = [plants.table(case.problem, case.plant.edges, case.history), hc.minc_known(case.problem)]
            table, knowing = (plants.operate(policy, case, seed) for policy in made)
            expected = [run.bill / stay.bill - 1 for run in (table, stay, knowing)]
            expected += [path.total / stay.bill - 1 for path in (case.best_fixed, case.optimum)]
            assert found.bills[:, w, s] == pytest.approx(expected, abs=1e-9)
            week = slice(0, 168)
            expected = [run.bill_of(week) / stay.bill_of(week) - 1 for run in (table, stay, knowing)]
            assert found.first_weeks[:3, w, s] == pytest.approx(expected, abs=1e-6)  # kept in single precision


def test_a_plant_looks_like_a_world():
    (run,) = PlantPlan(policies=("stationary",), worlds=("ventilation",), seeds=1).sweep().runs
    scene = run.world.scene(run)
    case = PLANTS["ventilation"].case(0)
    t, action = next(iter(case.overrides.items()))
    assert np.flatnonzero(np.isfinite(scene.world.costs(t, scene.contexts[t]))).tolist() == [action]
    assert scene.world.measure(t, scene.contexts[t], action, 0.0) == case.reading(t, action)
    (run,) = PlantPlan(policies=("stationary",), worlds=("district-heat",), seeds=1).sweep().runs
    readings = [run.world.scene(run).world.measure(t, None, 0, 0.0) for t in range(50)]
    missing = [t for t in range(50) if PLANTS["district-heat"].case(0).reading(t, 0) is None]
    assert np.flatnonzero(np.isnan(readings)).tolist() == missing != []


def test_a_seed_that_some_policy_has_not_finished_is_left_out(tmp_path):
    plan = PlantPlan(policies=("stationary", "operators"), worlds=("mill",), rounds=5, seeds=3)
    sweep = plan.sweep()
    run_sweep(sweep, tmp_path, workers=1)
    (tmp_path / "runs" / f"{sweep.runs[3].identity}.npz").unlink()
    assert PlantComparison.of(plan, tmp_path).seeds == (0, 2)


def test_command_prints_writes_and_goes_on(run, tmp_path):
    options = (*QUICK, "--worlds", "mill,ventilation", "--seeds", 2, "--first-seed", 1000, "--rounds", 40)
    shown = run("--policies", "table,operators", *options)
    assert "bill against staying, %: 2 plants" in shown.stdout
    assert "Table by plant, %" in shown.stdout
    assert "with two weeks of history; seeds 1000 to 1001; every line: comparison-plants/worlds.csv" in shown.stdout
    assert "8 runs in" in shown.stderr
    with (tmp_path / "comparison-plants" / "worlds.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["policy"], row["world"]) for row in rows][:4] == [
        ("table", "mill"),
        ("table", "ventilation"),
        ("table", "all"),
        ("operators", "mill"),
    ]
    page = (tmp_path / "comparison-plants" / "table.md").read_text()
    assert page.startswith("| policy | mean | ± | worst run | week 1 | runs > +2 % |\n| --- |")
    assert "| world | Table | Operators | best fixed | optimum |" in page
    # Cold runs go into the same folder; those with history are still there.
    cold = json.loads(run("--policies", "table", "--cold", "--json", *options).stdout)
    assert (cold["found"], cold["done"], cold["seeds"]) == (0, 4, [1000, 1001])
    means = {(line["policy"], line["world"]): line["mean"] for line in cold["lines"]}
    assert means["table", "all"] == 0.0  # without a reading elsewhere it stays
    again = json.loads(run("--policies", "table,operators", "--json", *options).stdout)
    assert (again["found"], again["done"]) == (8, 0)
    assert {(line["policy"], line["world"]): line["mean"] for line in again["lines"]}["table", "all"] == pytest.approx(
        float(rows[2]["mean"])
    )


@pytest.mark.parametrize(("rows", "cold"), [(336, ()), (0, ("--cold",))])
def test_a_users_own_policy_is_given_the_history_unless_it_is_cold(run, tmp_path, rows, cold):
    source = f"import holdcourse as hc\n\ndef mine(problem, history=()):\n    assert len(history) == {rows}\n"
    file = f"mine_{rows}.py"  # a file is loaded once in a process, and old versions of pytest use a folder again
    (tmp_path / file).write_text(source + "    return hc.stationary(problem)\n")
    options = ("--worlds", "mill", "--seeds", 1, "--rounds", 5, "--policies", f"{file}:mine", "--json")
    found = json.loads(run(*QUICK, *options, *cold).stdout)
    assert (found["done"], found["failed"], found["lines"][0]["mean"]) == (1, [], 0.0)


def test_what_runs_by_default():
    assert PlantPlan().labels == ("recommended", "table", "fixed", "operators")
    assert PlantPlan(history=False).labels == ("recommended", "table", "operators")
    assert {(run.world.plant, run.problem) for run in PlantPlan().sweep().runs} == {
        (plant, seed) for plant in PLANTS for seed in plants.PUBLIC_SEEDS
    }


def test_recommended_knows_the_problem_and_the_history_only():
    plan = PlantPlan(policies=("recommended",), worlds=("mill",), seeds=1, rounds=3)
    for history in (True, False):
        (run,) = plan.model_copy(update={"history": history}).sweep().runs
        made = run.world.policy(run.policy, run, run.world.scene(run)).made_by[1]
        assert ("history" in made) == history
        assert history or "kernel" not in made


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*QUICK, "--worlds", "reactor"), "worlds: .*'reactor' is not a plant; choose from chiller, database"),
        ((*QUICK, "--policies", "gp-mdd"), "policy 'gp-mdd' is not known"),
        ((*QUICK, "--policies", "tables"), r"\(did you mean table\?\)"),
        ((*QUICK, "--policies", "fixed", "--cold"), "policy 'fixed' needs a history, but a cold run has none"),
        ((*QUICK, "--rho", "1"), "--rho does not apply to the suite plants; leave it out"),
        ((*QUICK, "--processes", "iid"), "--processes does not apply to the suite plants"),
        ((*QUICK, "--rounds", "673"), "rounds must be less than or equal to 672"),
        (("--cold",), "--cold does not apply to the suite cells"),
        (("--worlds", "mill"), "--worlds does not apply to the suite cells"),
    ],
)
def test_errors_are_one_line(run, arguments, message):
    with pytest.raises(InvalidInput, match=message):
        run(*arguments)


@pytest.mark.parametrize("width", [80, 160])
def test_tables_line_up(width):
    names = ("recommended", "table", "fixed", "operators", "best-fixed", "clairvoyant")
    found = made_up(names, tuple(PLANTS), range(10))
    console = Console(width=width, record=True, file=io.StringIO())
    for table in compare.plant_tables(found, width):
        console.print(table)
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    for name in PLANTS:
        assert sum(line.startswith(f"│ {name} ") for line in lines) == 2  # of the first policy, and of all
    assert ("± standard error" in "".join(lines)) == (width == 160)


def test_nothing_is_minus_nought():
    assert [compare_report.percent(share) for share in (-1e-9, 0.0, -0.1234, 0.05)] == ["+0.0", "+0.0", "-12.3", "+5.0"]
