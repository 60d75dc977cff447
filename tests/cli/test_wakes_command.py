"""The command `holdcourse wakes`."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import holdcourse as hc
from holdcourse.cli.root import app
from holdcourse.cli.wakes import _same_farm, _same_offsets  # private: commands reach them only by way of FLORIS
from holdcourse.errors import InvalidInput

QUICK = ["--policies", "lookup,wake-planner", "--from", "2014-01-01", "--to", "2014-01-20", "--no-front"]


def run(*words):
    return CliRunner().invoke(app, ["wakes", *map(str, words)])


@pytest.mark.slow
def test_the_bundled_farm_from_the_command_to_a_controller(tmp_path):
    said = run(*QUICK, "--out", tmp_path / "report", "--save", tmp_path / "site.policy", "--json")
    assert said.exit_code == 0, f"{said.output}\n{said.exception!r}"
    data = json.loads(said.stdout)
    assert data["causal"] is True
    assert {line["policy"] for line in data["lines"]} == {"no-steering", "lookup", "wake-planner"}
    assert (tmp_path / "report" / "report.html").stat().st_size > 5_000
    policy = hc.load_policy(tmp_path / "site.policy")
    assert policy.evidence.verdict == data["verdict"] == "too few"
    assert len(hc.Controller(policy, start_index=0).ask([158.0, 8.0, 10]).value) == 4


def test_a_farm_with_its_table_and_a_file_of_wind(tmp_path):
    record = hc.wakes.bundled_record().between("2014-01-01", "2014-01-20")
    lines = ["time;Wind direction [°];Wind speed [m/s]"]
    for time, direction, speed in zip(record.time, record.direction, record.speed, strict=True):
        lines.append(f"{time}Z;{direction:.1f};{speed:.2f}".replace(".", ","))
    (tmp_path / "wind.csv").write_text("\n".join(lines), encoding="utf-8")
    hc.wakes.bundled_table().save(tmp_path / "farm.table")
    given = [tmp_path / "wind.csv", "--table", tmp_path / "farm.table", "--policies", "lookup,wake-planner"]
    given.append("--no-front")
    one, two = json.loads(run(*given, "--json").stdout), json.loads(run(*QUICK, "--json").stdout)
    for mine, theirs in zip(one["lines"], two["lines"], strict=True):
        assert mine["gain"] == pytest.approx(theirs["gain"], abs=1e-6)
    shown = run(*given)
    assert "weeks are too few to conclude anything" in " ".join(shown.output.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--farm", "farm.yaml"], "give the wind file before"),
        (["wind.csv"], "--farm FILE|cannot read"),
        (["--hysteresis", "4,x"], "--hysteresis takes numbers above 0"),
        (["--price", "0.02 EUR per degree"], "give the value of a kWh"),
        (["--policies", "lokup"], "did you mean lookup"),
        (["--begin", "2020-01-01"], "choose times within the record, from"),
        (["--every", "7 min"], "give a multiple"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = run(*words)
    assert said.exit_code != 0
    assert np.any([part in str(said.exception) for part in message.split("|")]), said.exception


def test_a_table_that_was_computed_with_something_else_is_refused(tmp_path):
    table = replace(hc.wakes.bundled_table(), most=25.0, step=5.0)
    table.save(tmp_path / "farm.table")
    again = hc.wakes.EnergyTable.load(tmp_path / "farm.table")
    assert (again.most, again.step) == (25.0, 5.0)
    _same_offsets("farm.table", again, None, None)
    _same_offsets("farm.table", again, 25.0, 5.0)
    with pytest.raises(InvalidInput, match="--most 20: the file was computed with 25; remove the table or the option"):
        _same_offsets("the file", again, 20.0, None)
    with pytest.raises(InvalidInput, match="does not say what it was computed with"):
        _same_offsets("farm.table", replace(table, most=None, step=None), None, 2.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": [0.0, 500.0, 1000.0, 1500.0]}, "other coordinates"),
        ({"diameter": [120.0] * 4}, "other rotor diameters"),
    ],
)
def test_a_table_of_another_farm_is_refused(change, message):
    table = hc.wakes.bundled_table()
    same = SimpleNamespace(farm=table.farm, turbulence=table.turbulence)
    _same_farm("farm.table", table, same)
    moved = replace(table.farm, **{key: np.array(value) for key, value in change.items()})
    with pytest.raises(InvalidInput, match=f"{message}.*remove the table or the option"):
        _same_farm("farm.table", table, SimpleNamespace(farm=moved, turbulence=table.turbulence))
    with pytest.raises(InvalidInput, match="turbulence intensity"):
        _same_farm("farm.table", table, SimpleNamespace(farm=table.farm, turbulence=0.1))
