"""A plant's own readings: how they are read, what a backtest on them says, and what the command prints."""

from __future__ import annotations

import json
import re
import time
from types import SimpleNamespace

import numpy as np
import pytest

from holdcourse.backtest.plant import Line, PlantBacktest
from holdcourse.backtest.readings import read_readings
from holdcourse.cli.backtest import backtest_log
from holdcourse.errors import HoldcourseError, InvalidInput


@pytest.fixture
def plant(tmp_path):
    random = np.random.default_rng(3)
    lines = ["time,outdoor,setting,kW"]
    for hour in range(120):
        outdoor = 15 + 10 * np.sin(hour / 4)
        setting = 6 + 2 * ((hour // 15) % 3)
        drawn = 40 + (setting - 12 + 0.2 * outdoor) ** 2 + random.normal(0, 0.5)
        lines.append(f"2024-06-{1 + hour // 24:02d}T{hour % 24:02d}:00,{outdoor:.2f},{setting},{drawn:.3f}")
    path = tmp_path / "plant.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


COLUMNS = {"action": "setting", "cost": "kW", "context": ["outdoor"], "time": "time"}


def test_backtest_of_a_plant_is_marked_as_model_based(plant, tmp_path, capsys):
    backtest_log(plant, **COLUMNS, move_cost=0.3, out=tmp_path / "out")
    shown = capsys.readouterr().out
    assert "120 rounds, 3 settings; model-based" in shown
    assert "Held-out error of that model: " in shown
    assert "as run" in shown
    assert "e+" not in shown
    numbers = [line.split("│")[2:5] for line in shown.splitlines() if line.startswith("│")]
    assert len({len(cell.strip().partition(".")[2]) for row in numbers for cell in row}) == 1  # digits of all costs
    answer = " ".join(shown.split())
    assert answer.endswith("it would have paid off here.")
    assert "By a model of these readings, recommended would have cost" in answer
    assert "Can these readings be learned from? - Each of 5 blocks of the 120 readings was predicted from the" in answer
    assert "What makes a difference: outdoor (errors " in answer
    assert (tmp_path / "out" / "model-check.png").stat().st_size > 1000
    found = json.loads((tmp_path / "out" / "backtest.json").read_text())
    assert found["check"]["explained"] > 0.8
    assert found["check"]["contexts"][0]["name"] == "outdoor"
    assert found["model_based"] is True
    assert found["held_out"]["useful"] is True
    totals = {line["policy"]: line["total"] for line in found["policies"]}
    assert min(totals, key=totals.get) == "clairvoyant"
    assert totals["md-known"] < totals["as-run"]
    # The model agrees with what was measured where it was measured.
    paid = next(line for line in found["policies"] if line["policy"] == "as-run")
    assert paid["service"] == pytest.approx(found["measured"], rel=0.01)
    assert paid["saved"] == 0


def judged(saved=10.0, guessed=0.0, useful=True, policy="recommended"):
    """The backtest where a policy saved so much, the best fixed setting 5 % and hindsight 20 %."""
    lines = [
        Line(name, 100.0 - percent, 0.0, 100.0 - percent, percent, share)
        for name, percent, share in (
            (policy, saved, guessed),
            ("best-fixed", 5.0, 0.0),
            ("clairvoyant", 20.0, 0.0),
            ("as-run", 0.0, 0.0),
        )
    ]
    world = SimpleNamespace(held_out=SimpleNamespace(useful=useful))
    return PlantBacktest(world, 0.0, tuple(sorted(lines, key=lambda line: line.total)), ())


@pytest.mark.parametrize(
    ("options", "verdict", "beginning", "ending"),
    [
        (
            {},
            "yes",
            "By a model of these readings, recommended would have cost 10.0 % less",
            ": it would have paid off here.",
        ),
        (
            {"saved": -3.0},
            "no",
            "By a model of these readings, recommended would have cost 3.0 % more",
            "would not have paid off",
        ),
        ({"saved": 2.0}, "yes", "By a model", "a better fixed setting would have saved more."),
        (
            {"guessed": 0.4},
            "undecided",
            "By a model",
            "in 40 % of its rounds the model is guessing: the readings decide nothing.",
        ),
        (
            {"useful": False},
            "no comparison",
            "The model of these readings predicts no better than the mean",
            "nothing to conclude.",
        ),
        (
            {"policy": "md-known"},
            "no comparison",
            "No policy that could run at the plant was tried",
            "nothing to conclude.",
        ),
        ({"policy": "gp-md"}, "yes", "By a model of these readings, gp-md would", "paid off here."),
    ],
)
def test_a_backtest_of_a_plant_ends_with_the_answer(options, verdict, beginning, ending):
    assert judged(**options).verdict == verdict
    conclusion = judged(**options).conclusion
    assert conclusion.startswith(beginning)
    assert ending in conclusion
    if "By a model" in conclusion:
        assert "(the best fixed setting: 5.0 % less, perfect hindsight: 20.0 % less)" in conclusion


def test_large_and_small_costs_are_written_alike(plant, capsys):
    """A plant in watts: 97,966 and 106,810, not 97966 and 1.0681e+05."""
    header, *rows = plant.read_text().splitlines()
    scaled = [f"{before},{20 * float(cost):.3f}" for before, _, cost in (row.rpartition(",") for row in rows)]
    plant.write_text("\n".join([header, *scaled]) + "\n")
    backtest_log(plant, **COLUMNS, move_cost=6.0, policies=["gp-md,stationary"])
    shown = capsys.readouterr().out
    cells = [cell.strip() for line in shown.splitlines() if line.startswith("│") for cell in line.split("│")[2:5]]
    assert all(re.fullmatch(r"[\d,]+", cell) for cell in cells)
    assert any("," in cell for cell in cells)


def test_rows_may_come_in_any_order(plant, tmp_path, capsys):
    lines = plant.read_text().splitlines()
    (tmp_path / "shuffled.csv").write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n")
    outputs = []
    for path in (plant, tmp_path / "shuffled.csv"):
        backtest_log(path, **COLUMNS, policies=["stationary"], as_json=True)
        outputs.append(json.loads(capsys.readouterr().out))
    assert "rows were not in order of time: sorted" in outputs[1].pop("reading")
    assert outputs[0].pop("reading") == ["times carry no zone: read as UTC (timezone= for another)"]
    assert outputs[0] == outputs[1]


def test_times_without_a_zone_keep_their_order_when_the_clocks_change(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    path = tmp_path / "night.csv"
    path.write_text("time,load,setting,kW\n2024-03-31T02:30,1,6,1\n2024-03-31T03:10,2,7,2\n")
    try:
        readings = read_readings(path, action="setting", cost="kW", context=["load"], time="time").history
    finally:
        monkeypatch.undo()
        time.tzset()
    assert readings.measurements.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (
            lambda text: text.replace("2024-06-01T05:00", "nan"),
            {"context": ["outdoor", "hour of day"]},
            "no column 'hour of day'",
        ),
        (lambda text: text, {"seed": -1}, "seed must be a whole number"),
        (lambda text: text, {"action": "knob"}, "has no column 'knob'; there are time, outdoor, setting, kW"),
        (lambda text: text, {"context": []}, "give at least one context= column"),
        (lambda text: text.replace(",8,", ",6,").replace(",10,", ",6,"), {}, "only one action, 6.0, was ever tried"),
        (lambda text: text.replace("2024-06-01T05:00", "yesterday"), {}, "line 7: 'yesterday' is not a time"),
        (lambda text: text.replace(",6,", ",low,"), {}, "line 2: 'low' in column 'setting' is not a number, but '8'"),
        (
            lambda text: text.replace(",6,", ",low,").replace(",8,", ",mid,").replace(",10,", ",high,"),
            {},
            "holds names .*give a matrix=",
        ),
        (lambda text: text, {"bins": 1}, "bins= must be 2 or more"),
        (
            lambda text: text.replace(",kW", ",kW\n2024-01-01T00:00,1,6,broken"),
            {},
            "line 2: 'broken' in column 'kW' is not a number",
        ),
        (lambda text: text.replace(",kW", ",kW\n1,2,3"), {}, "line 2: 3 cells, but the header .* names 4 columns"),
        (lambda text: "", {}, "is empty"),
        (lambda text: text, {"policies": ["gp-mdd"]}, "policy 'gp-mdd' is not known"),
    ],
)
def test_readings_with_problems(plant, change, options, message):
    plant.write_text(change(plant.read_text()))
    with pytest.raises(HoldcourseError, match=message):
        backtest_log(plant, **(COLUMNS | options))


def test_a_plant_whose_report_cannot_be_written(plant):
    with pytest.raises(InvalidInput, match=r"cannot write to .*; choose another folder="):
        backtest_log(plant, **COLUMNS, policies=["stationary"], out=plant)


def test_named_settings_with_a_matrix(plant, tmp_path, capsys):
    text = plant.read_text()
    for number, name in (("6", "low"), ("8", "middle"), ("10", "high")):
        text = text.replace(f",{number},", f",{name},")
    plant.write_text(text)
    (tmp_path / "moves.csv").write_text("0,2,1\n2,0,1\n1,1,0\n")
    backtest_log(plant, **COLUMNS, matrix=tmp_path / "moves.csv", policies=["gp-md"], as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert {line["policy"] for line in found["policies"]} == {"as-run", "best-fixed", "clairvoyant", "gp-md"}


def test_bins_round_continuous_settings(tmp_path, capsys):
    random = np.random.default_rng(0)
    rows = [f"{c:.3f},{a:.4f},{(a - c) ** 2:.4f}" for a, c in random.random((200, 2))]
    path = tmp_path / "log.csv"
    path.write_text("demand,valve,cost\n" + "\n".join(rows) + "\n")
    names = {"action": "valve", "cost": "cost", "context": ["demand"]}
    with pytest.raises(InvalidInput, match="holds 198 different settings; round them to fewer"):
        backtest_log(path, **names)
    backtest_log(path, **names, bins=5, policies=["stationary"])
    assert "200 rounds, 5 settings" in capsys.readouterr().out
