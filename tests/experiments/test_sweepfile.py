"""Sweep files: examples run, errors name key and line before anything runs, and one's own policies take part."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from holdcourse.cli.root import app
from holdcourse.errors import InvalidInput
from holdcourse.experiments.results import Results
from holdcourse.experiments.runner import run_sweep
from holdcourse.experiments.sweepfile import EXAMPLE, json_schema, load_sweep

EXAMPLES = Path(__file__).parents[2] / "examples"

PLAIN = """name = "plain"
rounds = 12
rho = [1.0, 2.0]
starts = [0, 2]

[actions]
values = [0.0, 1.0, 3.0]

[contexts]
values = [0.0, 1.0]

[costs]
table = [[0.0, 2.0, 5.0], [4.0, 1.0, 0.0]]
noise_std = 0.1

[learner]
kernel = { action_lengthscale = 1.0, context_lengthscale = 1.0, variance = 4.0 }

[[policies]]
name = "gp-md"

[[policies]]
name = "minc-known"
"""


@pytest.fixture
def load(tmp_path):
    def load(text):
        path = tmp_path / "sweep.toml"
        path.write_text(text)
        return load_sweep(path)

    return load


def shortened(sweep, rounds):
    runs = tuple(run.model_copy(update={"rounds": rounds}) for run in sweep.runs)
    return type(sweep)(sweep.name, sweep.config, runs)


CODE = """from pathlib import Path

Path(__file__).with_name("ran").touch()


def cost(setting, context):
    return (setting - context) ** 2


def move(one, other):
    return abs(one - other)


def make(problem):
    import holdcourse as hc

    return hc.stationary(problem)
"""
WITH_CODE = {
    "costs.function": PLAIN.replace("table = [[0.0, 2.0, 5.0], [4.0, 1.0, 0.0]]", 'function = "own.py:cost"'),
    "movement.function": PLAIN + '\n[movement]\nfunction = "own.py:move"\n',
    "policies[1]": PLAIN.replace('name = "minc-known"', 'name = "mine"\nsource = "own.py:make"'),
}


@pytest.mark.parametrize("key", WITH_CODE)
def test_code_is_named_before_it_runs_and_refused_without_running_it(tmp_path, key):
    # A file is run once in a process, and older versions of pytest use the name of a removed folder again.
    folder = tmp_path / key
    folder.mkdir()
    path, own, ran, said = folder / "sweep.toml", folder / "own.py", folder / "ran", []
    path.write_text(WITH_CODE[key])
    own.write_text(CODE)
    with pytest.raises(InvalidInput, match=rf"sweep\.toml, line \d+: {re.escape(key)} names code, .* code=False"):
        load_sweep(path, code=False)
    assert not ran.exists()
    load_sweep(path, say=lambda line: said.append((line, ran.exists())))
    assert ran.exists()
    name = {"costs.function": "cost", "movement.function": "move"}.get(key, "make")
    assert said == [(f"{path} runs code that is not holdcourse's: {name} of {own.resolve()} ({key})", False)]


def test_code_of_modules_and_entry_points_is_named_too(tmp_path, monkeypatch):
    path, said = tmp_path / "sweep.toml", []
    path.write_text(PLAIN.replace('name = "minc-known"', 'name = "mine"\nsource = "antigravity:fly"'))
    with pytest.raises(InvalidInput, match="fly of the module antigravity, which code=False refuses"):
        load_sweep(path, code=False)
    assert "antigravity" not in sys.modules
    found = {"theirs": ["installed"]}
    monkeypatch.setattr("holdcourse.deciding.registry.entry_points", lambda group, name: found.get(name, []))
    path.write_text(PLAIN.replace('name = "minc-known"', 'name = "theirs"'))
    with pytest.raises(InvalidInput, match="the entry point 'theirs' of an installed package, which code=False"):
        load_sweep(path, code=False)
    path.write_text(PLAIN)
    load_sweep(path, code=False, say=said.append)
    assert said == []


def test_the_command_names_code_on_stderr_and_refuses_it_on_request(tmp_path):
    (tmp_path / "sweep.toml").write_text(WITH_CODE["costs.function"])
    (tmp_path / "own.py").write_text(CODE)
    command = ["sweep", str(tmp_path / "sweep.toml"), "--dry-run", "--json"]
    refused = CliRunner().invoke(app, [*command, "--no-code"])
    assert isinstance(refused.exception, InvalidInput)
    assert not (tmp_path / "ran").exists()
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0
    assert f"cost of {tmp_path / 'own.py'} (costs.function)" in shown.stderr
    assert "own.py" not in shown.stdout


@pytest.mark.parametrize("name", ["chiller_plant.toml", "database.toml"])
def test_examples_run(name, tmp_path):
    sweep = load_sweep(EXAMPLES / name)
    report = run_sweep(shortened(sweep, 40), tmp_path, workers=1)
    assert not report.failed, report.failed[0][1].read_text()
    means = {(mean.policy, mean.rho): mean for mean in Results.load(tmp_path).means()}
    policies = {policy for policy, _ in means}
    assert {"gp-md", "cgp-lcb", "stationary", "clairvoyant"} < policies
    assert all(mean.ratio >= 1 - 1e-9 for mean in means.values())


def test_chillers_cost_differently_there_and_back():
    world = load_sweep(EXAMPLES / "chiller_plant.toml").runs[0].world
    problem = world.problem()
    assert problem.distance(0, 4) == 42.0
    assert problem.distance(4, 0) == 1.0
    assert problem.value(4) == "A+B+C"


def test_database_restarts_cost_more_than_reloads():
    run = load_sweep(EXAMPLES / "database.toml").runs[0]
    problem = run.world.problem()
    assert problem.value(0) == {"workers": 2.0, "buffer_gb": 1.0}
    assert problem.distance(0, 1) == 12.0  # buffer
    assert problem.distance(0, 3) == 0.5  # workers


def test_the_printed_example_runs(load, tmp_path):
    sweep = load(EXAMPLE)
    assert len(sweep.runs) == 3 * 3 * (5 * 2 + 1)
    report = run_sweep(shortened(sweep, 10), tmp_path / "out", workers=1)
    assert not report.failed


def test_schema_describes_every_section():
    schema = json_schema()
    assert {"name", "rounds", "rho", "actions", "costs", "contexts", "policies"} <= set(schema["properties"])
    assert schema["additionalProperties"] is False


def test_table_costs_are_billed_as_written(load):
    sweep = load(PLAIN)
    assert len(sweep.runs) == 2 * 2 * 3
    run = next(run for run in sweep.runs if run.rho == 2.0)
    scene = run.world.scene(run)
    assert scene.world.costs(0, [1.0]).tolist() == [8.0, 2.0, 0.0]
    assert scene.world.noise_std == pytest.approx(0.2)  # added after the weight
    knows = run.world._knows(scene.world)  # what a learner is given has no public name
    assert knows["kernel"].variance == pytest.approx(16.0)
    assert knows["prior_mean"] == pytest.approx(4.0)


def test_recorded_contexts_come_in_their_order(load, tmp_path):
    (tmp_path / "days.csv").write_text("day,outdoor\n1,0.0\n2,1.0\n3,1.0\n")
    text = PLAIN.replace(
        "values = [0.0, 1.0]\n\n", 'file = "days.csv"\ncolumns = ["outdoor"]\nprocess = "recorded"\n\n'
    )
    text = text.replace("table = [[0.0, 2.0, 5.0], [4.0, 1.0, 0.0]]", 'function = "costs.py:cost"')
    (tmp_path / "costs.py").write_text("def cost(action, context):\n    return action + 10 * context\n")
    run = load(text).runs[0]
    scene = run.world.scene(run)
    assert scene.contexts.ravel().tolist() == [0.0, 1.0, 1.0] * 4
    assert scene.world.costs(1, [1.0]).tolist() == [10.0, 11.0, 13.0]


@pytest.mark.parametrize("key", ["costs", "movement"])
def test_a_function_that_fails_is_named_with_its_arguments(load, tmp_path, key):
    (tmp_path / "own.py").write_text("def by_number(one, other):\n    return one[0]\n")
    text = PLAIN.replace("values = [0.0, 1.0, 3.0]", "grid = { speed = [0, 1, 3] }")
    named = 'function = "own.py:by_number"'
    if key == "costs":
        text, called = text.replace("table = [[0.0, 2.0, 5.0], [4.0, 1.0, 0.0]]", named), r"{'speed': 0.0}, 0.0"
    else:
        text, called = text + f"\n[movement]\n{named}\n", r"{'speed': 0.0}, {'speed': 1.0}"
    expected = rf"own.py:by_number\({called}\) failed: KeyError: 0; an action of a grid is a dictionary of its axes"
    with pytest.raises(InvalidInput, match=expected):
        load(text)


def test_a_changed_input_file_is_another_configuration(load, tmp_path):
    (tmp_path / "costs.csv").write_text("0,2,5\n4,1,0\n")
    text = PLAIN.replace("table = [[0.0, 2.0, 5.0], [4.0, 1.0, 0.0]]", 'file = "costs.csv"')
    run_sweep(load(text), tmp_path / "out", workers=1)
    (tmp_path / "costs.csv").write_text("0,2,5\n4,1,1\n")
    with pytest.raises(InvalidInput, match=r"another configuration \(files\.costs\.csv"):
        run_sweep(load(text), tmp_path / "out", workers=1)


def test_results_do_not_depend_on_where_the_folder_lies(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for file in ("database.toml", "database.py"):
            shutil.copy(EXAMPLES / file, tmp_path / name)
    one, other = (load_sweep(tmp_path / name / "database.toml") for name in ("a", "b"))
    assert [run.identity for run in one.runs] == [run.identity for run in other.runs]


OWN = """import holdcourse as hc


def make(problem, width=1.0, **learning):
    return hc.cgp_lcb(problem, **{**learning, "width": width})


def broken(problem):
    return 42
"""


def test_policies_of_ones_own(load, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    text = PLAIN + '\n[[policies]]\nname = "mine"\nsource = "own.py:make"\noptions = { learning = true, width = 2.0 }\n'
    text += '\n[[policies]]\nname = "cgp-lcb"\n'
    report = run_sweep(load(text), tmp_path / "out", workers=1)
    assert not report.failed
    totals = {name: [row.total for row in report.rows if row.policy == name] for name in ("mine", "cgp-lcb")}
    assert totals["mine"] == totals["cgp-lcb"]  # the same policy by another way


def test_entry_points(load, monkeypatch):
    class Entry:
        def load(self):
            import holdcourse as hc

            return hc.stationary

    def entries(group, name):
        return [Entry()] if (group, name) == ("holdcourse.policies", "installed") else []

    monkeypatch.setattr("holdcourse.deciding.registry.entry_points", entries)
    sweep = load(PLAIN + '\n[[policies]]\nname = "installed"\n')
    run = next(run for run in sweep.runs if run.policy.name == "installed")
    assert run.world.policy(run.policy, run, run.world.scene(run)).name == "Stationary"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rounds = 12", "rouns = 12", "line 2: key 'rouns' is not known; did you mean 'rounds'?"),
        ("rounds = 12\n", "", "key 'rounds' is missing"),
        ("rho = [1.0, 2.0]", "rho = [1.0, -2.0]", "line 3: rho[1] must be greater than 0, got -2.0"),
        ("rounds = 12", "rounds = ", "Invalid value (at line 2"),
        ("rounds = 12", 'rounds = "many"', "line 2: rounds must be "),
        (
            "noise_std = 0.1",
            "noise_sdt = 0.1",
            "line 14: key 'costs.noise_sdt' is not known; did you mean",
        ),
        ("values = [0.0, 1.0, 3.0]", "", "line 6: actions: give one of values, grid, file, count"),
        ("values = [0.0, 1.0, 3.0]", "values = [0.0, 1.0, 1.0]", "line 6: actions: "),
        ("values = [0.0, 1.0, 3.0]", "values = [0.0, 1.0, 3.0]\ncount = 3", "actions: give only one of values, count"),
        ("values = [0.0, 1.0, 3.0]", 'file = "missing.csv"', "there is no file "),
        ("[0.0, 2.0, 5.0]", "[0.0, 2.0, 5.0], [1, 1, 1]", "line 12: costs: the table must have 2 rows"),
        ("values = [0.0, 1.0]\n", 'file = "gap.csv"\n', "line 9: contexts: "),
        ("starts = [0, 2]", "starts = [0, 7]", "line 4: starts: the action 7 is not an index from 0 to 2"),
        (
            'name = "minc-known"',
            'name = "minc"',
            "line 22: policies[1]: policy 'minc' is not known; choose one of recomm",
        ),
        ('name = "minc-known"', 'name = "gp-md"', "'gp-md' is given twice"),
        ('name = "minc-known"', 'name = "clairvoyant"\nsource = "own.py:broken"', "'clairvoyant' is the optimum"),
        ('name = "minc-known"', 'name = "x"\nsource = "no.py:make"', "policies[1]: there is no file "),
        ('name = "minc-known"', 'name = "x"\nsource = "own.py:nothing"', "has no 'nothing'"),
        (
            'name = "minc-known"',
            'name = "x"\nsource = "own.py:broken"',
            "returned 42; it must return a holdcourse Policy",
        ),
        ('name = "minc-known"', 'name = "x"\nsource = "no_such_module:f"', "cannot import 'no_such_module:f'"),
        ('name = "minc-known"', 'name = "cgp-lcb"\noptions = { widht = 1.0 }', "option 'widht' is not known"),
    ],
)
def test_errors_name_key_or_line_before_anything_runs(load, tmp_path, old, new, message):
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "gap.csv").write_text("0.0\nnan\n")
    assert old in PLAIN
    with pytest.raises(InvalidInput) as caught:
        load(PLAIN.replace(old, new))
    assert message in str(caught.value)
    assert str(tmp_path / "sweep.toml") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_random_costs_have_the_mean_of_the_movement(load):
    run = load(EXAMPLE).runs[0]
    world = run.world.scene(run.model_copy(update={"rho": 1.0})).world
    assert world.landscape.mean() == pytest.approx(world.problem.distances.mean())
    assert np.ptp(world.contexts) == 100
