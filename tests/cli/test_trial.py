"""The command `holdcourse trial plan`."""

from __future__ import annotations

import json

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.cli import trial
from holdcourse.cli.root import app
from holdcourse.errors import InvalidInput
from holdcourse.trials.plan import Paths

WITHOUT_TIME = ("--action", "setting", "--cost", "kwh", "--context", "load")
COLUMNS = (*WITHOUT_TIME, "--time", "time")


@pytest.fixture
def run(invoked):
    return invoked(app)


@pytest.fixture
def readings(tmp_path, request):
    rng, count = np.random.default_rng(0), getattr(request, "param", 100)
    times = np.datetime64("2026-01-01T00:00") + np.arange(count).astype("timedelta64[h]")
    load = rng.integers(3, size=count)
    setting = np.where(rng.random(count) < 0.6, 1, rng.integers(3, size=count))
    cost = 10 + (setting - load) ** 2 + 0.3 * rng.normal(size=count)
    rows = [f"{t},{s},{x},{y:.3f}" for t, s, x, y in zip(times, setting, load, cost, strict=True)]
    (tmp_path / "plant.csv").write_text("time,setting,load,kwh\n" + "\n".join(rows))
    return "plant.csv"


def test_a_plan_from_readings(run, readings, tmp_path, monkeypatch):
    monkeypatch.setattr(trial, "BETWEEN", 0.0)
    policy = hc.gp_md(hc.Problem([0.0, 1.0, 2.0], scale=0.1))
    policy.save(tmp_path / "plant.policy")
    asked = ("trial", "plan", "plant.policy", "--log", readings, *COLUMNS, "--gain", "4", "--blocks", "2")
    result = run(*asked, "--json", "--out", "plan")
    assert "% after 0 s" in result.stderr  # where there is no terminal
    found = json.loads(result.stdout)
    assert found["block"] == 2
    assert found["target_percent"] == 4
    assert {(tmp_path / path).suffix for path in found["pictures"]} == {".png", ".svg"}
    assert all((tmp_path / path).stat().st_size > 5000 for path in found["pictures"])


def test_a_plan_for_a_policy_between_names(run, readings, tmp_path):
    path = tmp_path / readings
    rows = [row.split(",") for row in path.read_text().splitlines()]
    path.write_text("\n".join(",".join([row[0], f"mode {row[1]}", *row[2:]]) for row in rows).replace("mode s", "s"))
    names = [f"mode {k}" for k in (2, 0, 1)]
    hc.gp_md(hc.Problem(None, 0.1 * (1 - np.eye(3)), labels=names)).save(tmp_path / "plant.policy")
    asked = ("trial", "plan", "plant.policy", "--log", readings, *COLUMNS, "--gain", "4", "--blocks", "2")
    assert json.loads(run(*asked, "--baseline", "mode 1", "--rehearsals", "0", "--json").stdout)["block"] == 2


def test_the_baseline_of_a_plan_may_be_a_name_that_is_a_number(run, readings):
    asked = ("trial", "plan", "--log", readings, *COLUMNS, "--blocks", "2", "--rehearsals", "0")
    shown = " ".join(run(*asked, "--named", "--fixed-cost", "0.1", "--baseline", "2").stdout.split())
    assert "The baseline always runs 2." in shown


def test_a_plan_reads_the_file_that_a_backtest_reads(run, readings, tmp_path):
    """A title above the names, decimal commas, and settings that are names."""
    lines = (tmp_path / readings).read_text().splitlines()
    names = {"0": "low", "1": "middle", "2": "high"}
    rows = [f"{t},{names[s]},{x},{y}" for t, s, x, y in (row.split(",") for row in lines[1:])]
    text = "\n".join([lines[0], *rows]).replace(",", ";").replace(".", ",")
    (tmp_path / readings).write_text(f"Kessel 2;;;\n{text}")
    asked = ("trial", "plan", "--log", readings, *COLUMNS, "--blocks", "2", "--rehearsals", "0", "--json")
    written = ("--header-line", "2", "--decimal", "comma")
    with pytest.raises(InvalidInput, match="is in column 2, which has no name in the header"):
        run(*asked)
    with pytest.raises(InvalidInput, match=r"'setting' contains names .*give --fixed-cost, what every change costs"):
        run(*asked, *written)
    found = json.loads(run(*asked, *written, "--fixed-cost", "0.1").stdout)
    assert found["block"] == 2


@pytest.mark.parametrize("readings", [400], indirect=True)
def test_a_plan_of_a_policy_with_limits_says_what_it_compares(run, readings, tmp_path):
    policy = hc.gp_md(hc.Problem([0.0, 1.0, 2.0], scale=0.1, context_names=["load"]))
    policy.save(tmp_path / "plant.policy", limits=hc.Limits(min_dwell=2, max_step=1.0))
    asked = ("trial", "plan", "plant.policy", "--log", readings, *COLUMNS, "--gain", "4", "--rehearsals", "0")
    shown = " ".join(run(*asked).stdout.split())
    assert "The baseline always runs 1." in shown
    assert "limits (min_dwell of 2 rounds and max_step of 1) delay both arms" in shown
    assert "Blocks of fewer than 4 rounds are left out." in shown
    assert "2 rounds " not in shown.split("- Use blocks")[0]
    assert "│ 4 rounds" in shown
    with pytest.raises(InvalidInput, match="is asked with load, but --context gives load, load@-1; give the contexts"):
        run(*[word if word != "load" else "load, load@-1" for word in asked])


def test_a_plan_on_the_screen(run, monkeypatch):
    rng = np.random.default_rng(1)
    paths = Paths(10 + rng.normal(size=400), 10.5 + rng.normal(size=400), np.zeros(400), np.zeros(400))
    # Flying two policies over a year takes a minute, and has tests of its own.
    monkeypatch.setattr(trial, "_wind_paths", lambda *given: (paths, None, 1.0))
    shown = " ".join(run("trial", "plan", "--wind", "demo").stdout.split())
    assert "Use blocks of" in shown
    assert json.loads(run("trial", "plan", "--wind", "demo", "--json").stdout)["rounds"] == 400


def test_a_plan_reads_the_wind_that_a_backtest_reads(run, monkeypatch, tmp_path):
    """A title above the names, local times and km/h: with the options of the backtest."""
    rows = "\n".join(f"2024-06-01 {hour:02}:00,{18 + hour},{36 + hour}" for hour in range(24))
    (tmp_path / "lidar.csv").write_text(f"Lidar 7,serial 1234\nlocal time,ws_50m,ws_100m\n{rows}\n")
    paths = Paths(10 + np.arange(400.0), 11 + np.arange(400.0), np.zeros(400), np.zeros(400))
    seen = []
    monkeypatch.setattr(trial, "left_out_paths", lambda wind, *given, **more: seen.append(wind) or (paths, None, 1.0))
    run("trial", "plan", "--wind", "lidar.csv", "--header-line", "2", "--timezone", "+02:00", "--units", "km/h")
    assert str(seen[0].time[0]) == "2024-05-31T22:00:00"
    assert seen[0].speed[0].tolist() == [5.0, 10.0]


@pytest.mark.parametrize("saved", [(), ("plant.policy",)])
def test_a_plan_flies_the_history_too(run, monkeypatch, tmp_path, saved):
    """Also with a saved policy, whose plan would otherwise be made from the wind of --wind alone."""
    for name, month in (("new.csv", 6), ("old.csv", 5)):
        rows = "\n".join(f"2024-{month:02}-01 {hour:02}:00,{5 + month},8" for hour in range(24))
        (tmp_path / name).write_text(f"time,ws_50m,ws_100m\n{rows}\n")
    hc.gp_md(hc.Problem([0.0, 1.0], scale=0.1)).save(tmp_path / "plant.policy")
    paths = Paths(10 + np.arange(400.0), 11 + np.arange(400.0), np.zeros(400), np.zeros(400))
    seen = []
    for name, place in (("left_out_paths", 0), ("policy_paths", 1)):
        monkeypatch.setattr(
            trial, name, lambda *given, place=place, **more: seen.append(given[place]) or (paths, None, 1.0)
        )
    run("trial", "plan", *saved, "--wind", "new.csv", "--history", "old.csv", "--history", "old.csv")
    assert len(seen[0]) == 48
    assert seen[0].speed[[0, -1], 0].tolist() == [10.0, 11.0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--wind", "demo", "--history", "old.csv"), "--wind demo has its own history; leave out --history"),
        (("--log", "plant.csv", *COLUMNS, "--history", "old.csv"), "--history has no effect with --log; leave it out"),
        (("--wind", "demo", "--sheet", "Data"), "--sheet has no effect with --wind; leave it out"),
        (("--wind", "demo", "--move-cost", "2"), "--move-cost has no effect with --wind"),
        (("plant.policy", "--wind", "demo", "--movement", "2"), "--movement has no effect with a saved policy, which"),
        (
            ("plant.policy", "--log", "plant.csv", *COLUMNS, "--fixed-cost", "2"),
            "--fixed-cost has no effect with a saved",
        ),
        ((), "with --log, or wind with --wind"),
        (("--log", "plant.csv"), "--log needs --action, --cost and --context"),
        (("--wind", "demo", "--blocks", "a"), "--blocks takes lengths in rounds such as 2,4,8, got 'a'"),
        (("--wind", "demo", "--baseline", "100"), "without a policy file, the baseline"),
        (("plant.policy", "--wind", "demo"), "does not measure wind speeds"),
        (
            ("plant.policy", "--log", "plant.csv", *COLUMNS),
            "=2.0 is not a setting; .*, or leave out the policy",
        ),
        (("--log", "plant.csv", *WITHOUT_TIME), "--hours 1, or --time with the name of the column"),
        (("--wind", "demo", "--gain", "0"), "gain must be above 0"),
        (("--wind", "demo", "--hours", "0"), "hours must be above 0"),
    ],
)
def test_what_cannot_be_planned(run, readings, tmp_path, words, message):
    hc.gp_md(hc.Problem([0.0, 1.0], scale=0.1)).save(tmp_path / "plant.policy")
    with pytest.raises(InvalidInput, match=message):
        run("trial", "plan", *words)
