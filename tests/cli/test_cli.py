"""The command line: what it prints, its JSON, its errors and exit codes.

`program` runs it as a user does, in a process of its own; `run` calls its `main` in this one, which is quicker.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.cli import main


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "altitudes.csv").write_text("metres\n100\n200\n400\n800\n")
    (tmp_path / "costs.csv").write_text("0,9,9,9\n9,9,9,0\n9,9,9,0\n0,9,9,9\n")
    return tmp_path


@pytest.fixture
def program(folder):
    def run(*arguments, code=0):
        done = subprocess.run(
            [sys.executable, "-c", "from holdcourse.cli import main; main()", *arguments],
            capture_output=True,
            text=True,
            cwd=folder,
            env={"PATH": "", "COLUMNS": "100", "NO_COLOR": "1"},
        )
        assert done.returncode == code, done.stderr
        return done

    return run


@pytest.fixture
def run(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["holdcourse", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        assert ended.value.code == code, printed.err
        return SimpleNamespace(stdout=printed.out, stderr=printed.err)

    return run


def test_version_and_help(program):
    assert program("--version").stdout.startswith("holdcourse 0.")
    assert "Hold course unless it pays to change" in program("--help").stdout


def test_as_a_module_where_the_script_is_not_on_the_path():
    done = subprocess.run([sys.executable, "-m", "holdcourse", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"holdcourse {hc.__version__}\n"


def test_as_a_program_it_says_the_same(program, run):
    for arguments, code in ((("tree", "altitudes.csv"), 0), (("tree", "nowhere.csv"), 1)):
        alone, here = program(*arguments, code=code), run(*arguments, code=code)
        assert (alone.stdout, alone.stderr) == (here.stdout, here.stderr)


def test_tree(run):
    shown = run("tree", "altitudes.csv", "--seed", "3").stdout
    assert all(value in shown for value in ("100.0", "200.0", "400.0", "800.0", "times the metric's on average"))
    found = json.loads(run("tree", "altitudes.csv", "--json").stdout)
    assert found["mean_stretch"] >= 1
    assert len(found["tree"]["parent"]) > 4


def test_optimum(run, tmp_path):
    found = json.loads(run("optimum", "costs.csv", "--start", "0", "--json").stdout)
    assert found["actions"] == [0, 3, 3, 0]
    bills = {bill["policy"]: bill["total"] for bill in found["bills"]}
    assert bills == {
        "perfect foresight": 6.0,
        "work function": bills["work function"],
        "cheapest each round": 6.0,
        "best fixed: 0": 18.0,
        "stay at 0": 18.0,
    }
    for text in ("\ufeff0,inf,9\n9,9,0\n", "# exported\n0,inf,9\n9,9,0\n", "a,b,c\n0,inf,9\n\n9,9,0\n"):
        (tmp_path / "other.csv").write_text(text, encoding="utf-8")
        assert json.loads(run("optimum", "other.csv", "--json").stdout)["actions"] == [0, 2]
    table = run("optimum", "costs.csv").stdout
    assert "perfect foresight" in table
    assert "4 rounds, 4 actions" in table


def test_optimum_reads_a_matrix_by_the_names_of_its_settings(run, tmp_path):
    (tmp_path / "plant.csv").write_text("A,B\n1,5\n2,1\n5,1\n")
    found = []
    for text in ("0,1\n2,0\n", "from,B,A\nB,0,2\nA,1,0\n"):
        (tmp_path / "change.csv").write_text(text)
        asked = ("optimum", "plant.csv", "--matrix", "change.csv", "--directed", "--start", "0", "--json")
        found.append(json.loads(run(*asked).stdout)["bills"])
    assert found[0] == found[1]
    assert found[0][0] == {"policy": "perfect foresight", "service": 3.0, "movement": 1.0, "total": 4.0}


def test_optimum_names_the_best_fixed_setting_by_the_header(run, tmp_path):
    (tmp_path / "plant.csv").write_text("A,A+B,B\n0,4,9\n9,4,9\n9,4,inf\n0,4,0\n")
    found = json.loads(run("optimum", "plant.csv", "--start", "2", "--json").stdout)
    assert found["names"] == ["A", "A+B", "B"]
    bills = {bill["policy"]: (bill["service"], bill["movement"]) for bill in found["bills"]}
    assert bills["best fixed: A+B"] == (16.0, 1.0)  # the way from B included
    assert "stay at B" not in bills  # forbidden once
    shown = run("optimum", "plant.csv").stdout
    assert "best fixed: A+B" in shown
    assert "stay at" not in shown  # without a start there is nowhere to stay
    names = run("optimum", "plant.csv", "--actions", "altitudes.csv", code=1)  # of four; the header has three
    assert "labels" not in names.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tree", "nowhere.csv"), "cannot read nowhere.csv"),
        (("tree", "altitudes.csv", "--tau", "3"), "tau must be above 4"),
        (("optimum", "costs.csv", "--start", "9"), "action 9 is not an index from 0 to 3"),
        (("optimum", "costs.csv", "--matrix", "altitudes.csv"), "must be square"),
        (("optimum", "broken.csv"), "broken.csv, line 3: 'x' is not a number"),
        (("optimum", "ragged.csv"), "ragged.csv, line 2: 1 cell, but the header (line 1) names 2 columns"),
        (("optimum", "empty.csv"), "empty.csv is empty"),
        (("optimum", "gap.csv"), "the cost of action 1 in round 0 is nan"),
        (("tree", "gap.csv"), "gap.csv, line 1: 'nan' is not a finite number"),
        (("tree", "altitudes.csv", "--seed", "-1"), "seed must be a whole number from 0"),
    ],
)
def test_errors_are_one_line(run, tmp_path, arguments, message):
    (tmp_path / "broken.csv").write_text("a,b\n1,2\n5,x\n")
    (tmp_path / "ragged.csv").write_text("1,2\n5\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "gap.csv").write_text("0,nan\n1,2\n")
    error = run(*arguments, code=1).stderr.strip()
    assert error.startswith("error: ")
    assert message in error
    assert "\n" not in error


def test_debug_shows_the_traceback(program):
    assert "Traceback" in program("--debug", "tree", "nowhere.csv", code=1).stderr
    assert "Traceback" in program("tree", "nowhere.csv", "--debug", code=1).stderr


def test_bad_usage_is_code_two(program):
    assert "No such option" in program("tree", "altitudes.csv", "--nonsense", code=2).stderr


@pytest.fixture
def record(tmp_path):
    policy = hc.cgp_lcb(hc.Problem([0.0, 1.0, 2.0]), kernel=hc.Kernel(RBF(1.0)), noise_std=0.1)
    with hc.Controller(policy, log=tmp_path / "plant.log") as controller:
        for _ in range(6):
            decision = controller.ask(0.5)
            controller.tell(decision.id, float(decision.action))


@pytest.mark.usefixtures("record")
def test_verify(run, tmp_path):
    assert "plant.log: 6 decisions, 6 tells: verified" in run("verify", "plant.log").stdout
    assert json.loads(run("verify", "plant.log", "--json").stdout)["verified"] is True
    policy = hc.cgp_lcb(hc.Problem([0.0, 1.0, 2.0]), kernel=hc.Kernel(RBF(1.0)), noise_std=0.1)
    with hc.Controller(policy, log=tmp_path / "plant.log") as controller:
        controller.retract("r2", "the sensor was unplugged")
    assert "plant.log: 6 decisions, 6 tells (1 taken back): verified" in run("verify", "plant.log").stdout
    assert json.loads(run("verify", "plant.log", "--json").stdout)["retractions"] == 1
    (tmp_path / "plant.log").write_bytes(b"no record")
    assert "plant.log is damaged, or is not a record" in run("verify", "plant.log", code=1).stderr


@pytest.mark.usefixtures("record")
def test_replay(run):
    shown = run("replay", "plant.log", "--policy", "stationary").stdout
    assert all(
        word in shown
        for word in ("as recorded", "stationary", "perfect foresight", "rounds, model-based", "Movement is exact")
    )
    found = json.loads(run("replay", "plant.log", "--policy", "gp-md", "--json").stdout)
    assert found["rounds"] == 6
    assert "and the record has 6. Record for longer" in found["doubly_robust"]["refusal"]
    assert found["doubly_robust"]["mean"] is None
    assert "did you mean gp-md?" in run("replay", "plant.log", "--policy", "gp_md", code=1).stderr  # one spelling
    for name in ("magic", "ma_gic"):
        error = run("replay", "plant.log", "--policy", name, code=1).stderr
        assert f"policy '{name}' is not known; choose one of fixed, recommended, planner, gp-md, " in error


@pytest.mark.usefixtures("record")
@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("backtest", "--log", "plant.log"), "--log reads a CSV, an Excel sheet or a Parquet file"),
        (
            ("backtest", "--log", "plant.log", "--context", "a", "--action", "b", "--cost", "c"),
            "--log reads a CSV, an Excel sheet or a Parquet file",
        ),
        (("backtest", "plant.log"), "wind files are NetCDF, GRIB, CSV or ZIP"),
        (("optimum", "plant.log"), "this command reads a CSV file"),
    ],
)
def test_a_controllers_record_in_the_wrong_place(run, arguments, wanted):
    error = run(*arguments, code=1).stderr.strip()
    assert error.startswith(f"error: plant.log is a controller's record, but {wanted}; ")
    command = error[error.index("holdcourse replay") :].split()[1:]
    assert "as recorded" in run(*command).stdout  # what it says can be copied


def test_a_wrong_folder_is_named_with_the_remedy(run, folder):
    problem = hc.Problem([0.0, 1.0])
    (folder / "mill").mkdir()
    with hc.Controller(hc.stationary(problem), log=folder / "mill" / "epoch-0001.db", start=0.0) as controller:
        controller.tell(controller.ask().id, 1.0)
    assert "mill is a folder; name a record in it, such as epoch-0001.db" in run("verify", "mill", code=1).stderr
    gone = run("backup", "mill/epoch-0001.db", "nowhere/copy.db", code=1).stderr
    assert "there is no folder nowhere; create it first" in gone
    assert ".new" not in gone


def test_a_server_names_what_it_cannot_use(run, folder):
    pytest.importorskip("fastapi")
    (folder / "file").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = run("serve", "--data", "fleet", "--port", port, code=1).stderr
    assert f"cannot listen on 127.0.0.1, port {port}: Address already in use; stop what runs there" in refused
    (folder / "tokens.json").write_text('{"format": 1, "tokens": []}')
    elsewhere = ("--host", "192.0.2.1", "--token-file", "tokens.json")  # an address that no machine has
    refused = run("serve", "--data", "fleet", "--port", "0", *elsewhere, code=1).stderr
    assert "cannot listen on 192.0.2.1, port 0: Cannot assign requested address; give --host an address of" in refused
    refused = run("serve", "--data", "file", "--port", "0", code=1).stderr
    assert "cannot use file for data: it is a file, and a folder is needed" in refused
    refused = run("serve", "--data", "fleet", "--address", "http://plant-1:8000", code=1).stderr
    assert "--address is for servers that share a database" in refused


def test_help_fills_the_lines(run):
    said = run("bridge", "--help").stdout
    assert any(
        line.strip().startswith("Runs until you interrupt it.") and len(line.split()) > 12 for line in said.splitlines()
    )
    assert "Example: holdcourse bridge mill.toml --check" in said
