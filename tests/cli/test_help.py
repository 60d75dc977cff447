"""The help is a page to read: it fits 80 columns, shows examples that hold, and completes names in a shell."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys

import pytest
import typer
from sklearn.gaussian_process.kernels import RBF
from typer.testing import CliRunner

import holdcourse as hc
from holdcourse.cli.plant_backtest import COMMAND as PLANT_COMMAND
from holdcourse.cli.root import COMMANDS as LISTED
from holdcourse.cli.root import app
from holdcourse.cli.wording import options_of, with_options

ROOT = typer.main.get_command(app)


def commands(command=ROOT, words=()):
    """Every command that can be run, by the words that name it."""
    command = getattr(command, "loaded", command)
    if not hasattr(command, "commands"):
        return {words: command}
    return {
        name: found
        for word, inner in command.commands.items()
        for name, found in commands(inner, (*words, word)).items()
    }


COMMANDS = commands() | {("backtest", "--log", "plant.csv"): PLANT_COMMAND}
PAGES = [(), ("data",), ("token",), *COMMANDS]


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    return lambda *words, **environment: CliRunner().invoke(app, words, prog_name="holdcourse", env=environment)


def written(command):
    """Examples, as the docstring has them."""
    return re.findall(r"\[bold\](holdcourse .*?)\[/\]", command.help or "")


def words_of(example):
    return shlex.split(example.partition(" > ")[0])[1:]


@pytest.mark.parametrize("words", PAGES, ids=" ".join)
def test_help_fits_80_columns(run, words):
    shown = run(*words, "--help")
    assert shown.exit_code == 0
    assert max(len(line) for line in shown.output.splitlines()) <= 80


@pytest.mark.parametrize("words", PAGES, ids=" ".join)
def test_options_without_a_value_show_no_type(run, words):
    shown = run(*words, "--help").output
    assert re.search(r"--help\b", shown)
    assert not re.search(r"(?i)\bbool", shown)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_shows_examples_that_parse(run, words):
    """One line each, so that they can be copied."""
    shown = run(*words, "--help").output
    examples = written(COMMANDS[words])
    assert examples
    assert re.findall(r"Example:\s+(holdcourse .*?) *$", shown, re.MULTILINE) == examples
    for example in examples:
        command, rest = ROOT, words_of(example)
        while hasattr(command, "commands"):
            found = command.commands[rest.pop(0)]
            command = getattr(found, "loaded", found)
        assert command.make_context("holdcourse", rest).params


def test_the_first_page_shows_each_user_a_way_in_and_every_command_once(run):
    page = run("--help").output
    opening = set(re.findall(r"Example: holdcourse (\w+)", page))
    assert opening == {"backtest", "serve", "compare"}
    for name in ROOT.commands:
        assert len(re.findall(rf"^│ {name} ", page, re.MULTILINE)) == 1
    assert "─ Commands ─" not in page  # all of them have a place


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["-h"], []])
def test_the_first_page_loads_no_command(arguments):
    """Else it would take seconds: numpy, scipy and numba come with most commands."""
    code = (
        "import atexit, json, sys; atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr)); "
        "from holdcourse.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    loaded = json.loads(done.stderr.splitlines()[-1])
    assert "holdcourse" in done.stdout
    ours = {name for name in loaded if name.startswith("holdcourse")}
    light = {"holdcourse", "holdcourse.errors", "holdcourse.cli", "holdcourse.cli.root", "holdcourse.cli.wording"}
    assert ours == light
    heavy = {"numpy", "numba", "scipy", "sklearn", "pydantic", "fastapi", "matplotlib", "pandas", "sqlite3", "asyncio"}
    assert heavy.isdisjoint(loaded)


@pytest.mark.parametrize("name", LISTED)
def test_a_command_is_listed_as_it_says_itself(name):
    loaded = ROOT.commands[name].loaded
    assert loaded.get_short_help_str(1000).rstrip(".") == LISTED[name].help.rstrip(".")


@pytest.fixture
def files(tmp_path):
    """What the examples read."""
    (tmp_path / "altitudes.csv").write_text("metres\n100\n200\n400\n800\n")
    (tmp_path / "costs.csv").write_text("0,9,9,9\n9,9,9,0\n9,9,9,0\n0,9,9,9\n")
    (tmp_path / "lidar").mkdir()
    (tmp_path / "lidar" / "may.csv").write_text(
        "time,50 m,100 m\n" + "".join(f"2024-05-01 {hour:02}:00,{8 + hour % 3},{9 + hour % 3}\n" for hour in range(24))
    )
    policy = hc.gp_md(hc.Problem([0.0, 1.0, 2.0]), kernel=hc.Kernel(RBF(1.0)), noise_std=0.1)
    with hc.Controller(policy, log=tmp_path / "turbine.log") as controller:
        for _ in range(3):
            controller.tell(controller.ask(0.5).id, 1.0)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    "examples",
    [
        ("holdcourse tree altitudes.csv --seed 3",),
        ("holdcourse optimum costs.csv --actions altitudes.csv --start 0",),
        ("holdcourse verify turbine.log",),
        ("holdcourse replay turbine.log --policy cgp-lcb",),
        ("holdcourse sweep --example > mine.toml", "holdcourse sweep mine.toml --dry-run"),
        (
            "holdcourse token make --token-file tokens.json --name scada",
            "holdcourse token list --token-file tokens.json",
        ),
        ("holdcourse data info 'lidar/*.csv' --timezone UTC --out report",),
    ],
    ids=lambda examples: examples[-1],
)
def test_examples_run_as_printed(run, tmp_path, examples):
    known = {example for command in COMMANDS.values() for example in written(command)}
    for example in examples:
        assert example in known
        done = run(*words_of(example))
        assert done.exit_code == 0, done.output
        _, redirected, name = example.partition(" > ")
        if redirected:
            (tmp_path / name).write_text(done.stdout)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("comp", ["compare"]),
        ("compare --policies gp-md,cgp", ["gp-md,cgp-lcb"]),
        ("compare --processes dri", ["drift"]),
        ("backtest lidar.csv --policies fixed,wind", ["fixed,wind-planner"]),
        ("backtest --log plant.csv --policies md", ["md-known"]),
        ("reproduce wind --policies minc", ["minc-known"]),
        ("replay turbine.log --policy cgp", ["cgp-lcb"]),
        ("token make --scope ask,a", ["ask,admin"]),
        ("tree altitudes.csv --metric city", ["cityblock"]),
    ],
)
def test_names_are_completed_in_a_shell(run, typed, offered):
    words = f"holdcourse {typed}"
    done = run(_HOLDCOURSE_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(len(words.split()) - 1))
    assert done.output.split() == offered


def test_completion_can_be_installed(run):
    assert "--install-completion" in run("--help").output
    for shell in ("bash", "zsh", "fish"):
        assert f"_HOLDCOURSE_COMPLETE=complete_{shell}" in run(_HOLDCOURSE_COMPLETE=f"source_{shell}").output


def test_options_of_one_meaning_have_one_name():
    """A name means the same kind of thing everywhere, and the same thing goes by no second name."""
    taken = {words: {name for param in command.params for name in param.opts} for words, command in COMMANDS.items()}
    named = {words for words, options in taken.items() if "--policy" in options}
    assert named == {("replay",)}  # one policy; everywhere else it is a list, --policies a,b
    without_json = {words for words, options in taken.items() if "--json" not in options}
    assert without_json == {
        ("accept",),
        ("backup",),
        ("export",),
        ("share",),
        ("serve",),
        ("token", "revoke"),
    }  # no table
    assert not {"--output", "--jobs", "--processors", "--random-seed"} & set().union(*taken.values())


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("say timezone=Europe/Oslo, or timezone=UTC", "say --timezone Europe/Oslo, or --timezone UTC"),
        ("raise max_gap=", "raise --max-gap"),
        ("check lat= and lon=, or begin=2024-01-01", "check --lat and --lon, or --from 2024-01-01"),
        ("e.g. bins=20; choose another folder=", "e.g. --bins 20; choose another --out"),
        ("start over with hourly=True, or ask ?lat=3 of other=1", "start over with --hourly, or ask ?lat=3 of other=1"),
        ("go on: holdcourse accept a.log", "go on: holdcourse accept a.log --reason ..."),
        ("go on: holdcourse accept a.log --reason ...", "go on: holdcourse accept a.log --reason ..."),
    ],
)
def test_what_the_library_says_is_said_in_options(said, shown):
    assert with_options(said, options_of(COMMANDS["backtest",])) == shown
