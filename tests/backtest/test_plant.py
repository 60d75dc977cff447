"""A plant's own readings: how they are read, what a backtest on them says, and what the command prints."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import time
from types import SimpleNamespace

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.backtest import plant as plant_backtest
from holdcourse.backtest import report
from holdcourse.backtest.csvfile import Csv
from holdcourse.backtest.evidence import Interval, Support
from holdcourse.backtest.plant import AS_RUN, Line, PlantBacktest, Value, backtest_plant, in_percent
from holdcourse.backtest.readings import read_readings
from holdcourse.cli.plant_backtest import backtest_log
from holdcourse.errors import HoldcourseError, InvalidInput
from holdcourse.learning.checking import check_model
from holdcourse.learning.history import History
from holdcourse.movement.problem import Problem


@pytest.fixture
def plant(tmp_path):
    random = np.random.default_rng(3)
    lines = ["time,outdoor,setting,kW"]
    for hour in range(480):
        outdoor = 15 + 10 * np.sin(hour / 4)
        setting = 6 + 2 * ((hour // 7) % 3)
        drawn = 40 + (setting - 12 + 0.2 * outdoor) ** 2 + random.normal(0, 0.5)
        lines.append(f"2024-06-{1 + hour // 24:02d}T{hour % 24:02d}:00,{outdoor:.2f},{setting},{drawn:.3f}")
    path = tmp_path / "plant.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


COLUMNS = {"action": "setting", "cost": "kW", "context": ["outdoor"], "time": "time"}


def test_backtest_of_a_plant_is_marked_as_model_based(plant, tmp_path, capsys):
    backtest_log(plant, **COLUMNS, move_cost=0.3, price=0.1, policies=["recommended,md-known"], out=tmp_path / "out")
    shown = capsys.readouterr().out
    assert "480 readings, 3 settings. Costs in kWh, estimated by a model" in shown
    assert "rows of the other half the model's error is " in shown
    assert "as run" in shown
    assert "e+" not in shown
    numbers = [line.split("│")[2:5] for line in shown.splitlines() if line.startswith("│")]
    assert len({len(cell.strip().partition(".")[2]) for row in numbers for cell in row}) == 1  # digits of all costs
    answer = " ".join(shown.split())
    assert "): it would have paid off here. It would have saved " in answer
    assert " kWh (" in answer
    assert "According to a model of these readings, recommended would have cost" in answer
    assert "Can these readings be learned from? - Each of 5 blocks of the 480 readings was predicted from the" in answer
    assert "The cost depends on outdoor (errors " in answer
    assert (tmp_path / "out" / "model-check.png").stat().st_size > 1000
    found = json.loads((tmp_path / "out" / "backtest.json").read_text())
    assert found["check"]["explained"] > 0.8
    assert found["check"]["contexts"][0]["name"] == "outdoor"
    assert found["model_based"] is True
    assert found["held_out"]["useful"] is True
    assert found["verdict"] == "yes"
    assert found["support"]["enough"] is True
    totals = {line["policy"]: line["total"] for line in found["policies"]}
    assert min(totals, key=totals.get) == "clairvoyant"
    assert totals["md-known"] < totals["as-run"]
    # The model agrees with what was measured where it was measured.
    paid = next(line for line in found["policies"] if line["policy"] == "as-run")
    assert paid["service"] == pytest.approx(found["measured"], rel=0.01)
    assert paid["saved"] == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "✔ Yes" in page
    assert "http" not in page.replace("http://www.w3.org", "")  # it needs no network
    summary = (tmp_path / "out" / "summary.csv").read_text().splitlines()
    assert len(summary) == 1 + len(found["policies"])
    decisions = (tmp_path / "out" / "decisions.csv").read_text().splitlines()
    assert decisions[0].startswith("time,line,outdoor,measured,as-run,fixed,")
    assert len(decisions) == 481


def test_limits_act_as_in_operation(plant, capsys):
    moves = {}
    for dwell in ("1", "12 h"):
        backtest_log(plant, **COLUMNS, move_cost=0.3, dwell=dwell, policies=["gp-md"], as_json=True)
        found = json.loads(capsys.readouterr().out)
        moves[dwell] = next(line["movement"] for line in found["policies"] if line["policy"] == "gp-md")
        assert bool(found["limits"]) == (dwell != "1")
    assert "minimum dwell time 12 h" in found["limits"]
    assert moves["12 h"] < moves["1"]


@pytest.mark.parametrize(("saved", "numbers"), [([100.0, -80.0], 3), ([100.0, -5.0], 2), ([5.0, -100.0], 2)])
def test_numbers_of_a_picture_do_not_cover_each_other(saved, numbers):
    value = SimpleNamespace(total=1.0, total_unit="kWh")
    found = SimpleNamespace(support=None, judged=True, blocks=np.array([0, 1]), saved_each=np.array(saved), value=value)
    drawn = report._blocks(found, SimpleNamespace(times=None))  # a backtest with such blocks takes seconds
    assert drawn.count("<text") == numbers


def test_values_of_costs():
    assert Value.of("kW", 0.25).kwh == 0.25
    assert Value.of("MWh", None).kwh == 1000.0
    assert Value.of("kW", None).kwh is None  # power is energy only with the time between readings
    assert Value.of("EUR", 1.0).words(1.0, 2.0, 3.0) == "2 EUR (1 to 3)"
    assert Value.of("EUR/h", 0.25).words(4.0, 8.0, 12.0) == "2 EUR (1 to 3)"  # as of a power, quarters of an hour
    assert Value.of("m3/d", 24.0).words(1.0, 2.0, 3.0) == "2 m3 (1 to 3)"
    for unit in ("EUR/h", "kW"):  # whose sum is no amount without the time between readings
        assert Value.of(unit, None).words(1.0, 2.0, 3.0) == f"2 {unit} (1 to 3), summed over the readings"
    assert Value.of("ms", 1.0).words(1.0, 2.0, 3.0) == "2 ms (1 to 3), summed over the readings"
    assert Value.of(None, 1.0).words(1.0, 2.0, 3.0) == "2 (1 to 3) in the unit of the costs"


def judged(saved=10.0, guessed=0.0, useful=True, policy="recommended", width=2.0, chosen=None, support=None):
    """The backtest where a policy saved so much, the best fixed setting 5 % and hindsight 20 %."""
    lines = [
        Line(name, 100.0 - percent, 0.0, 100.0 - percent, percent, share, percent - width, percent + width)
        for name, percent, share in (
            (policy, saved, guessed),
            ("fixed", 5.0, 0.0),
            ("best-fixed", 5.0, 0.0),
            ("clairvoyant", 20.0, 0.0),
            ("as-run", 0.0, 0.0),
        )
    ]
    world = SimpleNamespace(
        held_out=SimpleNamespace(useful=useful), problem=SimpleNamespace(named=lambda action: f"{6 + action} °C")
    )
    against = {"as-run": Interval(saved, saved - width, saved + width, 100.0, 1.0, 0.0, 0.0)}
    if chosen is not None:
        against["fixed"] = Interval(chosen, chosen - width, chosen + width, 100.0, 1.0, 0.0, 0.0)
    return PlantBacktest(
        world,
        0.0,
        tuple(sorted(lines, key=lambda line: line.total)),
        (),
        support=support,
        against=against,
        taken={"fixed": np.full(3, 2)},
        value=Value.of("kW", 0.5, 0.1),
    )


CANNOT = Support(3, 4, 0.2, 0.9, ("The setting changed 3 times.",), ("Change it by a plan.",))


@pytest.mark.parametrize(
    ("options", "verdict", "beginning", "ending"),
    [
        (
            {},
            "yes",
            "According to a model of these readings, recommended would have cost 10.0 % less",
            "(95 % interval for a period like this: 8.0 to 12.0 % less): it would have paid off here. "
            "It would have saved 5 kWh (4 to 6), worth 0.5 (0.4 to 0.6).",
        ),
        (
            {"saved": -3.0},
            "no",
            "According to a model of these readings, recommended would have cost 3.0 % more",
            "1.0 to 5.0 % more): it would not have paid off",
        ),
        ({"saved": 1.0}, "undecided", "According to a model", "1.0 % more to 3.0 % less): it is too close to call."),
        ({"chosen": -3.0}, "yes", "According to a model", "that fixed setting would have done as well or better."),
        ({"chosen": 1.0}, "yes", "According to a model", "it would have cost 1.0 % less (95 % interval: 1.0 % more"),
        (
            {"chosen": 3.0},
            "yes",
            "According to a model",
            "Compared with always running 8 °C, the best fixed setting in half of the readings",
        ),
        (
            {"chosen": 3.0},
            "yes",
            "According to a model",
            "so following the conditions pays more than a better fixed setting.",
        ),
        (
            {"guessed": 0.4},
            "undecided",
            "According to a model",
            "in 40 % of its rounds the model is guessing, so the readings cannot tell.",
        ),
        (
            {"useful": False},
            "no comparison",
            "A model of one half of these readings predicts the other half no better than the mean",
            "nothing to conclude.",
        ),
        (
            {"policy": "md-known"},
            "no comparison",
            "No policy that could run at the plant was tried",
            "nothing to conclude.",
        ),
        ({"policy": "gp-md"}, "yes", "According to a model of these readings, gp-md would", "paid off here."),
        ({"support": CANNOT}, "too few", "These readings cannot tell. The setting changed 3 times.", "Change it by a"),
    ],
)
def test_a_backtest_of_a_plant_ends_with_the_answer(options, verdict, beginning, ending):
    assert judged(**options).verdict == verdict
    conclusion = judged(**options).conclusion
    assert conclusion.startswith(beginning)
    assert ending in conclusion
    if "support" in options:
        assert " % " not in conclusion  # no number where the readings cannot tell


def test_costs_of_both_signs_have_no_percentage():
    """A bill that happens to be 20 is no measure of 13,000 saved: 648 % less would mean nothing."""
    plain = judged(saved=10.0, chosen=3.0)
    against = {name: dataclasses.replace(each, of=math.nan) for name, each in plain.against.items()}
    lines = tuple(dataclasses.replace(line, saved=math.nan, low=math.nan, high=math.nan) for line in plain.lines)
    found = dataclasses.replace(plain, lines=lines, against=against)
    assert found.verdict == "yes"
    assert " % less" not in found.conclusion
    saved = "would have saved 5 kWh (4 to 6), worth 0.5 (0.4 to 0.6) compared with what was done (95 %"
    assert saved in found.conclusion
    assert "no percentage, because costs have both signs): it would have paid off here." in found.conclusion
    assert "in half of the readings, it would have saved 1.5 kWh (0.5 to 2.5)" in found.conclusion
    assert in_percent(found.lines[0]) == ("?", "?")


def odd_plant(tmp_path, cost, rows=240):
    random = np.random.default_rng(5)
    lines = ["load,product,setting,cost"]
    for row in range(rows):
        load, product, setting = random.uniform(1, 9), "ABC"[(row // 20) % 3], 6 + 2 * ((row // 7) % 3)
        right = 40 + (setting - 4 - 0.5 * load - 2 * (product == "B")) ** 2 + random.normal(0, 0.5)
        lines.append(f"{load:.2f},{product},{setting},{cost(row, right)!r}")
    path = tmp_path / "odd.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


ODD = {"action": "setting", "cost": "cost"}


def answered(path, capsys, context="load, product", **options):
    backtest_log(path, **ODD, context=[context], policies=["stationary,md-known"], **options)
    return " ".join(capsys.readouterr().out.split())


def test_readings_off_by_orders_of_magnitude_are_left_out_and_named(tmp_path, capsys):
    path = odd_plant(tmp_path, lambda row, right: right * (1e4 if row in (30, 130) else 1), 160)
    shown = answered(path, capsys)
    assert "2 readings are off by orders of magnitude and left out: " in shown
    assert " in line 32, " in shown
    assert "158 readings" in shown
    assert float(re.search(r"the model's error is ([\d.e+]+) \(", shown)[1]) < 5  # of costs from 40 to 80
    assert (
        "'product' contains names (product = A, product = B, product = C): each becomes a context that is 1 or 0"
        in shown
    )
    kept = answered(path, capsys, keep_all=True)
    assert "Readings that are off by orders of magnitude: 2 (" in kept
    assert "In odd.csv, the values that look wrong are in lines 32, 132." in kept


def test_costs_on_a_high_level_are_learned_as_well(tmp_path):
    readings = read_readings(odd_plant(tmp_path, lambda row, right: right, 200), **ODD | {"context": "load"}).history
    explained = []
    for level in (0.0, 1e9):
        raised = History(readings.actions, readings.contexts, level + readings.measurements)
        explained.append(check_model(Problem([6.0, 8.0, 10.0]), raised, folds=2).explained)
    assert explained[0] > 0.6
    assert explained[1] > explained[0] - 0.02


def test_costs_that_are_all_alike(tmp_path, capsys):
    with pytest.raises(InvalidInput, match="all 240 readings are 100, whatever the setting, so nothing can be"):
        answered(odd_plant(tmp_path, lambda row, right: 100.0), capsys)


def test_tiny_costs_have_digits(tmp_path, capsys):
    shown = answered(odd_plant(tmp_path, lambda row, right: 1e-9 * right, 80), capsys, "load", move_cost="1e-9")
    assert re.search(r"as run │ 0\.0+[1-9]\d{2,} │ 0\.0+[1-9]\d* │", shown)


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
    assert "rows were not in order of time, so they were sorted" in outputs[1].pop("reading")
    assert outputs[0].pop("reading") == [
        "times have no zone and were read as UTC (--timezone for another)",
        "a change of the setting by 1 costs 1 kWh (--move-cost for another price)",
    ]
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
        (lambda text: text, {"action": "knob"}, "has no column 'knob'; its columns are time, outdoor, setting, kW"),
        (lambda text: text, {"action": "Seting"}, "; did you mean 'setting'?"),
        (lambda text: text, {"context": []}, "no context is given; give context="),
        (lambda text: text.replace(",8,", ",6,").replace(",10,", ",6,"), {}, "only one setting, 6, was ever tried"),
        (lambda text: text.replace("2024-06-01T05:00", "yesterday"), {}, "line 7: 'yesterday' is not a time"),
        (lambda text: text.replace(",6,", ",low,"), {}, "line 2: 'low' in column 'setting' is not a number, but '8'"),
        (
            lambda text: text.replace(",6,", ",low,").replace(",8,", ",mid,").replace(",10,", ",high,"),
            {},
            "contains names .*give fixed_cost=, what every change costs, or matrix=",
        ),
        (
            lambda text: "\n".join(text.splitlines()[:31]),
            {},
            "and are judged by the other; got 30",
        ),
        (lambda text: text, {"bins": 1}, "bins= must be a whole number, 2 or more"),
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
    assert {line["policy"] for line in found["policies"]} == {"as-run", "fixed", "best-fixed", "clairvoyant", "gp-md"}


@pytest.mark.parametrize(
    "text",
    [
        "low,high,middle\n0,4,2\n7,0,5\n1,3,0\n",
        "from/to;middle;low;high\nhigh;5;7;0\nmiddle;0;1;3\nlow;2;0;4\n",
    ],
    ids=["names above", "names above and beside"],
)
def test_a_matrix_that_names_its_settings_may_have_any_order(tmp_path, text):
    """Settings of a table are sorted by name; a matrix by another order must not be taken for that."""
    (tmp_path / "moves.csv").write_text(text)
    found = Csv.read(tmp_path / "moves.csv").matrix(["high", "low", "middle"])
    assert found.tolist() == [[0, 7, 5], [4, 0, 2], [3, 1, 0]]
    with pytest.raises(InvalidInput, match="but they are high, low, off; name each of these once"):
        Csv.read(tmp_path / "moves.csv").matrix(["high", "low", "off"])


def test_a_matrix_of_numeric_settings(tmp_path):
    (tmp_path / "moves.csv").write_text(",8,6.0\n8,0,1\n6.0,2,0\n")
    assert Csv.read(tmp_path / "moves.csv").matrix([6.0, 8.0]).tolist() == [[0, 2], [1, 0]]
    (tmp_path / "moves.csv").write_text("0,3\n3,0\n")
    assert Csv.read(tmp_path / "moves.csv").matrix([6.0, 8.0]).tolist() == [[0, 3], [3, 0]]


def test_named_settings_with_one_price(plant):
    text = plant.read_text()
    for number, name in (("6", "low"), ("8", "middle"), ("10", "high")):
        text = text.replace(f",{number},", f",{name},")
    plant.write_text(text)
    readings = hc.read_readings(plant, **COLUMNS)
    problem = readings.problem(fixed_cost="500 Wh per change", cost_unit="kWh")
    assert problem.distances.tolist() == [[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"price": 0.1, "cost_unit": "ms"}, "column 'kW' is measured in ms; name its unit with --cost-unit"),
        ({"currency": "EUR"}, "--currency EUR needs a price of energy; give --price too"),
        ({"action": "setting, outdoor"}, "action names 2 columns, but only one can be the setting"),
        ({"move_cost": "0"}, "scale must be positive, got 0.0; if every change costs the same, give fixed_cost="),
    ],
)
def test_options_that_a_plant_cannot_use(plant, options, message):
    with pytest.raises(InvalidInput, match=message):
        backtest_log(plant, **(COLUMNS | options))


def test_power_by_the_quarter_hour_is_shown_as_energy(plant, capsys):
    lines = plant.read_text().splitlines()
    begin = np.datetime64("2024-06-01T00:00")
    times = [str(begin + 15 * np.timedelta64(k, "m")) for k in range(len(lines) - 1)]
    rows = [f"{when},{line.split(',', 1)[1]}" for when, line in zip(times, lines[1:], strict=True)]
    plant.write_text("\n".join([lines[0], *rows]))
    mean = np.mean([float(row.rsplit(",", 1)[1]) for row in rows])
    backtest_log(plant, **COLUMNS, policies=["stationary"])
    shown = capsys.readouterr().out
    assert "Costs in kWh, estimated by a model" in shown
    done = float(re.search(r"as run +│ +([\d,]+)", shown)[1].replace(",", ""))
    assert done == pytest.approx(480 / 4 * mean, rel=0.02)


def test_a_saving_has_its_currency():
    value = Value.of("kWh", None, 0.1, "EUR")
    assert value.words(40.0, 50.0, 60.0) == "50 kWh (40 to 60), worth 5 EUR (4 to 6)"


def test_bins_have_few_digits():
    table = {"load": range(4), "setting": [16.4213, 17.9, 18.2, 20.361], "kWh": [1.0, 2.0, 3.0, 4.0]}
    readings = hc.read_readings(table, action="setting", cost="kWh", context="load", bins=4)
    assert readings.values.tolist() == [16.42, 17.73, 19.05, 20.36]


def test_bins_round_continuous_settings(tmp_path, capsys):
    random = np.random.default_rng(0)
    rows = [f"{c:.3f},{a:.4f},{(a - c) ** 2:.4f}" for a, c in random.random((200, 2))]
    path = tmp_path / "log.csv"
    path.write_text("demand,valve,cost\n" + "\n".join(rows) + "\n")
    names = {"action": "valve", "cost": "cost", "context": ["demand"]}
    with pytest.raises(InvalidInput, match=r"contains 198 different settings. If it was measured, name the"):
        backtest_log(path, **names)
    backtest_log(path, **names, bins=5, policies=["stationary"])
    assert "200 readings, 5 settings" in capsys.readouterr().out


def test_warnings_of_a_fit_name_the_contexts():
    names = plant_backtest._with_names  # private: only fits that end at a bound say this
    told = names("the fit ends at a bound: context length scale (axis 1) = 60 (upper)", ["load", "hour (sine)"])
    assert told == "The fit ends at a bound: length scale of hour (sine) = 60 (upper)."
    assert names("at a bound: context length scale = 3", ["load"]) == "At a bound: length scale of load = 3."
    assert names("at a bound: context length scale = 3", []) == "At a bound: context length scale = 3."


def test_a_problem_of_ones_own_may_have_more_settings_in_any_order():
    rng = np.random.default_rng(0)
    load = 60 + 20 * np.sin(np.arange(120) * np.pi / 12)
    setting = 6.0 + rng.integers(3, size=20).repeat(6)
    cost = 50 + 9 * (setting - 4 - load / 20) ** 2
    table = {"load": load, "setting": setting, "kWh": cost}
    readings = read_readings(table, action="setting", cost="kWh", context="load")
    for values in ([9.0, 8.0, 7.0, 6.0], [7.0, 6.0, 8.0]):
        problem = Problem(values, scale=0.5)
        found = backtest_plant(problem, readings, ("cgp-lcb",))
        ran = found.taken[AS_RUN]
        np.testing.assert_array_equal(problem.actions[ran, 0], setting)
        np.testing.assert_array_equal(found.world.readings.measurements, cost)
    named = read_readings(
        table | {"setting": [f"s{k:g}" for k in setting]}, action="setting", cost="kWh", context="load"
    )
    swapped = Problem(None, 1.0 - np.eye(3), labels=["s8", "s7", "s6"])
    assert [swapped.value(action) for action in named.about(swapped).actions] == [f"s{k:g}" for k in setting]
    with pytest.raises(InvalidInput, match=r"readings, column 'setting': setting=8.0 is not a setting; the nearest"):
        backtest_plant(Problem([6.0, 7.0]), readings, ("cgp-lcb",))
