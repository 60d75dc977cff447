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
def readings(tmp_path):
    rng = np.random.default_rng(0)
    times = np.datetime64("2026-01-01T00:00") + np.arange(100).astype("timedelta64[h]")
    load = rng.integers(3, size=100)
    setting = np.where(rng.random(100) < 0.6, 1, rng.integers(3, size=100))
    cost = 10 + (setting - load) ** 2 + 0.3 * rng.normal(size=100)
    rows = [f"{t},{s},{x},{y:.3f}" for t, s, x, y in zip(times, setting, load, cost, strict=True)]
    (tmp_path / "plant.csv").write_text("time,setting,load,kwh\n" + "\n".join(rows))
    return "plant.csv"


def test_a_plan_from_readings(run, readings, tmp_path):
    policy = hc.gp_md(hc.Problem([0.0, 1.0, 2.0], scale=0.1))
    policy.save(tmp_path / "plant.policy")
    asked = ("trial", "plan", "plant.policy", "--log", readings, *COLUMNS, "--gain", "4", "--blocks", "2")
    found = json.loads(run(*asked, "--json", "--out", "plan").stdout)
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


def test_a_plan_on_the_screen(run, monkeypatch):
    rng = np.random.default_rng(1)
    paths = Paths(10 + rng.normal(size=400), 10.5 + rng.normal(size=400), np.zeros(400), np.zeros(400))
    # Flying two policies over a year takes a minute, and has tests of its own.
    monkeypatch.setattr(trial, "_wind_paths", lambda *given: (paths, None, 1.0))
    shown = " ".join(run("trial", "plan", "--wind", "demo").stdout.split())
    assert "Use blocks of" in shown
    assert json.loads(run("trial", "plan", "--wind", "demo", "--json").stdout)["rounds"] == 400


@pytest.mark.parametrize(
    ("words", "message"),
    [
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
