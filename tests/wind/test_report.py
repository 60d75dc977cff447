"""The report: a page that needs no network, pictures, and tables that add up."""

from __future__ import annotations

import base64
import csv
import json
import re
import struct
import sys
from dataclasses import replace
from html import escape
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.planned import best_path

from holdcourse.backtest.verdict import Verdict
from holdcourse.deciding import registry
from holdcourse.errors import InvalidInput, MissingExtra
from holdcourse.wind import bundled
from holdcourse.wind.backtest.run import Plan, run_backtest
from holdcourse.wind.backtest.trace import planned_path
from holdcourse.wind.report import page as page_module
from holdcourse.wind.report import pictures
from holdcourse.wind.report.page import page, write_report
from holdcourse.wind.report.tables import look, worth_showing

LIGHT, DARK = "#ffffff", "#12171c"  # the backgrounds of the page


@pytest.fixture(scope="module")
def result():
    plan = Plan(count=6, end="2010-08-20", what_if=(4.0,), price=0.1)
    return run_backtest(bundled("test"), bundled("history"), plan)


@pytest.fixture(scope="module")
def folder(result, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "new" / "folder"
    write_report([result], folder)
    return folder


def data_of(html):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)[1])


def test_all_files_are_written(folder):
    names = {path.name for path in folder.iterdir()}
    tables = {"summary.csv", "decisions.csv", "yearly.csv", "month_hour.csv", "altitude_hours.csv", "levels.csv"}
    assert names == {"report.html", "altitudes.png", "energy.png", "table.png"} | tables
    for name in ("altitudes", "energy", "table"):
        head = (folder / f"{name}.png").read_bytes()[:24]
        width, height = struct.unpack(">II", head[16:])
        assert head.startswith(b"\x89PNG")
        assert width > 1500
        assert height > 600


def test_the_page_needs_no_network(folder):
    html = (folder / "report.html").read_text()
    assert not re.search(r"(https?:)?//\w[\w.-]*\.\w", html)
    assert not re.search(r"\b(src|href|srcset|action)\s*=", html)
    assert "@import" not in html
    assert not re.search(r"url\((?!#)", html)
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|importScripts)\b", html)
    assert len(html) < 2_000_000


def test_the_page_says_what_was_found(folder, result):
    html = (folder / "report.html").read_text()
    assert escape(result.backtest.conclusion) in html
    assert "Based on data from MET Norway" in html
    assert all(warning in html for warning in result.warnings)
    for line in result.backtest.lines:
        assert f"<td>{line.net:,.0f}</td>" in html
        assert f"<td>{line.net * 0.1:,.0f}</td>" in html
    assert not re.search(r"@[A-Z_]+@", html)


def test_the_page_holds_the_flights(folder, result):
    site = data_of((folder / "report.html").read_text())["sites"][0]
    world = result.backtest.world
    speed = np.frombuffer(base64.b64decode(site["speed"]), "<u2").reshape(world.speed.shape) / 100
    assert speed == pytest.approx(world.speed, abs=0.0051)
    assert np.array(site["curves"][0])[(speed * 100).round().astype(int)] == pytest.approx(world.energy, abs=0.4)
    for policy in site["policies"]:
        flight = result.backtest.flights[policy["name"]]
        assert np.frombuffer(base64.b64decode(policy["actions"]), "<u2").tolist() == flight.actions.tolist()
        assert (policy["reasons"] is None) == (flight.reasons is None)
    learner = next(policy for policy in site["policies"] if policy["name"] == "gp-md")
    wind = np.frombuffer(base64.b64decode(learner["reasons"]["wind"]), "<f4")
    assert wind == pytest.approx(result.backtest.flights["gp-md"].reasons.wind, rel=1e-6)
    assert [entry["rho"] for entry in site["what_if"]] == [1.0, 4.0]


def test_names_cannot_break_the_page(result):
    nasty = replace(result, backtest=replace(result.backtest, site="</script><b>@TABLE@ & 'x'"))
    html = page([nasty])
    assert "<b>@TABLE@" not in html
    assert data_of(html)["sites"][0]["name"] == "</script><b>@TABLE@ & 'x'"
    assert html.count("</script>") == 2


def test_tables_add_up(folder, result):
    with (folder / "summary.csv").open() as file:
        summary = {row["policy"]: row for row in csv.DictReader(file)}
    sums = dict.fromkeys(summary, 0.0)
    with (folder / "decisions.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        assert float(row["net_kwh"]) == pytest.approx(float(row["gross_kwh"]) - float(row["moving_kwh"]), abs=2e-4)
        sums[row["policy"]] += float(row["net_kwh"])
    assert len(rows) == len(result.backtest.world.time) * len(result.backtest.flights)
    assert rows[0]["time"] == "2010-07-01T00:00:00"
    for name, row in summary.items():
        if int(float(row["seeds"])) > 1:  # the mean of several, of which the first is shown hour by hour
            assert float(row["net_kwh_least"]) - 0.2 <= sums[name] <= float(row["net_kwh_most"]) + 0.2
        else:
            assert sums[name] == pytest.approx(float(row["net_kwh"]), abs=0.2)
        assert float(row["worth"]) == pytest.approx(0.1 * float(row["net_kwh"]), abs=1e-3)
    assert summary["fixed"]["percent_against_fixed_low"] == ""


def test_several_sites_share_a_report(result, tmp_path):
    other = replace(result, backtest=replace(result.backtest, site="Elsewhere, 47 N"))
    names = {path.name for path in write_report([result, other], tmp_path)}
    assert {"1-53-32-n-1-32-e-energy.png", "2-elsewhere-47-n-energy.png"} <= names
    html = (tmp_path / "report.html").read_text()
    assert [site["name"] for site in data_of(html)["sites"]] == [result.site, "Elsewhere, 47 N"]
    assert html.count("<div class='answer") == 2
    with (tmp_path / "summary.csv").open() as file:
        assert {row["site"] for row in csv.DictReader(file)} == {result.site, "Elsewhere, 47 N"}


def test_the_same_backtest_gives_the_same_page(result):
    assert page([result]) == page([result])


def test_pictures_need_an_extra(result, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"pip install 'holdcourse\[plot\]'"):
        write_report([result], tmp_path / "new")
    assert not (tmp_path / "new").exists()
    paths = write_report([result], tmp_path / "new", pictures=False)
    assert [path.name for path in paths][:3] == ["report.html", "summary.csv", "decisions.csv"]
    assert {path.suffix for path in paths} == {".html", ".csv"}


def test_a_folder_that_cannot_be_written(result, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match=r"cannot write to .*file: it is a file; choose another folder="):
        write_report([result], tmp_path / "file", pictures=False)
    with pytest.raises(InvalidInput, match="no result"):
        write_report([], tmp_path)


def luminance(colour):
    parts = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]


def contrast(one, other):
    dim, bright = sorted([luminance(one), luminance(other)])
    return (bright + 0.05) / (dim + 0.05)


def test_one_colour_for_each_policy_on_light_and_dark(result, monkeypatch):
    for k in range(3):
        monkeypatch.setitem(registry.TABLE, f"later-{k}", registry.Entry(f"later-{k}", f"later {k}", ""))
    names = [name for name in registry.names() if not name.startswith("planner-")]  # told apart by their dashes
    colours = [look(name).colour for name in names]
    assert len(set(colours)) == len(names)
    for colour in colours:
        assert min(contrast(colour, LIGHT), contrast(colour, DARK)) >= 3, colour
    shown = worth_showing(result.backtest)
    assert shown[0] == "fixed"
    assert shown[-1] == "clairvoyant"


def test_the_page_has_a_word_for_every_verdict():
    assert set(page_module.VERDICTS) == set(get_args(Verdict))


# -- the plan behind a move -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planner_result():
    plan = Plan(count=6, end="2010-08-20", what_if=(), movement="physical", policies=("fixed", "wind-planner"))
    return run_backtest(bundled("test"), bundled("history").between("2010-01-01", None), plan)


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_a_planned_path_is_the_cheapest_of_all(seed):
    random = np.random.default_rng(seed)
    costs, spots = random.random((4, 3)), random.random(3)
    ways, ending = np.abs(spots[:, None] - spots[None, :]), random.random(3)
    first = int(random.integers(3))
    expected, least = best_path(costs, ways, ending, first)
    found = planned_path(costs, ways, ending, 1.0, first)
    together = ways[found[:-1], found[1:]].sum() + costs[np.arange(4), found].sum() + ending[found[-1]]
    assert together == pytest.approx(least)
    assert found[0] == expected[0] == first


def test_every_move_has_the_plan_that_justified_it(planner_result):
    flight = planner_result.backtest.flights["wind-planner"]
    world, plans = planner_result.backtest.world, flight.plans
    moved = np.flatnonzero(flight.actions != flight.before)
    assert plans.rounds.tolist() == moved.tolist()
    assert (plans.actions[:, 0] == flight.actions[moved]).all()
    # A plan that comes back to where it began is expected to bring more than all its moves cost.
    rule = planner_result.policy("wind-planner").rule
    distances = world.problem.distances
    returning = 0
    for t, path, more, home in zip(plans.rounds, plans.actions, plans.more, plans.home, strict=True):
        here = np.append(flight.before[t], path)
        spent = rule.caution * (distances[here[:-1], here[1:]].sum() + rule.anchor * distances[path[-1], home])
        if home == flight.before[t]:
            returning += 1
            assert more.sum() - spent >= -1e-6
    assert returning


def test_the_page_has_plans_and_a_calendar(planner_result):
    html = page([planner_result])
    (site,) = data_of(html)["sites"]
    policies = {policy["name"]: policy for policy in site["policies"]}
    plans = policies["wind-planner"]["plans"]
    assert plans["length"] == 12
    assert policies["fixed"]["plans"] is None
    rounds = np.frombuffer(base64.b64decode(plans["rounds"]), "<u4")
    planned = np.frombuffer(base64.b64decode(plans["actions"]), "<u2").reshape(len(rounds), 12)
    assert np.array_equal(planned, planner_result.backtest.flights["wind-planner"].plans.actions)
    assert 'id="calendar"' in html
    assert html.index('id="calendar"') < html.index('id="field"')  # the first chart


def test_the_picture_says_how_many_days_it_shows(result):
    found = result.backtest
    hours = sum(found.lengths) - 120
    gaps = replace(found, lengths=(*[120] * (hours // 120), 120 + hours % 120))
    whole, parts = (pictures._altitudes(replace(result, backtest=each)) for each in (found, gaps))  # private: drawn
    assert "(two weeks in which " in whole.get_suptitle()
    assert "(5 days in which " in parts.get_suptitle()
