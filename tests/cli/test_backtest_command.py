"""`holdcourse backtest` and `holdcourse demo`, as a user runs them."""

from __future__ import annotations

import io
import json
import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from holdcourse.cli import backtest
from holdcourse.cli.root import app
from holdcourse.errors import HoldcourseError, InvalidInput, MissingExtra
from holdcourse.wind import bundled
from holdcourse.wind.backtest.result import Line
from holdcourse.wind.backtest.run import Plan
from holdcourse.wind.report.tables import screen_tables

POLICIES = ("--policies", "fixed,cgp-lcb", "--what-if", "none", "--count", "4")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments, width=100):
        monkeypatch.setenv("COLUMNS", str(width))
        done = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    return run


@pytest.fixture
def wind(tmp_path):
    """Two small files of one layout: `west.csv` and `east.csv`, sixty days each."""
    for seed, name in enumerate(("west", "east")):
        random = np.random.default_rng(seed)
        times = np.datetime64("2020-01-01T00", "s") + np.arange(1440) * np.timedelta64(3600, "s")
        speeds = random.uniform(4, 13, (1440, 2))
        rows = [f"{time}Z,{low:.2f},{high:.2f}" for time, (low, high) in zip(times, speeds, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["time,ws_50m,ws_300m", *rows]) + "\n")
    return tmp_path


def lines_of(output, names):
    return {name: next(line for line in output.splitlines() if line.startswith(name)) for name in names}


@pytest.mark.parametrize("width", [80, 160])
def test_the_table_lines_up(run, wind, width):
    shown = run("backtest", "west.csv", *POLICIES, "--price", "0.1", "--no-pictures", width=width).stdout
    assert all(len(line.rstrip()) <= width for line in shown.splitlines() if not line.startswith("report"))
    assert "…" not in shown
    rows = lines_of(shown, ("clairvoyant *", "fixed", "best-fixed *", "cgp-lcb"))
    ends = [{match.end() for match in re.finditer(r"[\d,.]+(?: %)?", row)} for row in rows.values()]
    assert len(set.intersection(*ends)) >= 5  # net, gross, lost, moves, of hindsight end in the same columns
    assert "worth" in shown
    assert "would have made" in shown
    assert "first quarter of the data" in shown
    assert "report: backtest-report/report.html" in shown
    assert (wind / "backtest-report" / "report.html").is_file()


def test_the_demos_rows_fit_80_columns():
    """Of the numbers that half a year makes; where they are larger, what was made gross is left out."""
    rows = [
        Line("clairvoyant", 192352, 197869, 5517, 1.04, 100.0, 4.6, 3.0, 6.5),
        Line("fixed", 183918, 183963, 44, 0.01, 95.6, 0.0, np.nan, np.nan),
        Line("minc-known", 46455, 211668, 165212, 10.97, 24.2, -74.7, -92.1, -59.6),
    ]
    for factor, gross in ((1, True), (1000, False)):
        large = [
            replace(row, net=factor * row.net, gross=factor * row.gross, moving=factor * row.moving) for row in rows
        ]
        found = SimpleNamespace(lines=large, judged=large[0])
        result = SimpleNamespace(site="North Sea", period="2010", plan=Plan(), backtest=found)
        console = Console(width=80, record=True, file=io.StringIO())
        (table,) = screen_tables([result], 80)
        console.print(table)
        shown = console.export_text().splitlines()
        assert len([line for line in shown if line.strip()]) == 3 + len(rows)  # none broken
        assert ("gross" in "".join(shown)) == gross
        assert "-92.1..-59.6" in shown[-1]
        assert max(map(len, shown)) <= 80


def test_json(run, wind):
    done = run(
        "backtest", "west.csv", *POLICIES, "--from", "2020-01-20", "--to", "2020-02-20", "--json", "--price", 0.2
    )
    found = json.loads(done.stdout)
    site = found["sites"][0]
    assert (site["from"], site["rounds"], site["pieces"]) == ("2020-01-20T00:00:00", 31 * 24, 1)
    assert site["verdict"] == "too few"
    assert "31.0 days" in site["warnings"][0]
    policies = {row["policy"]: row for row in site["policies"]}
    assert policies["fixed"]["gain_low"] is None
    assert policies["cgp-lcb"]["worth"] == pytest.approx(0.2 * policies["cgp-lcb"]["net"])
    assert (site["price_per_kwh"], site["currency"]) == (0.2, None)
    assert "report" not in found
    assert not (wind / "backtest-report").exists()
    again = run("backtest", "west.csv", *POLICIES, "--json", "--out", "there", "--no-pictures")
    assert json.loads(again.stdout)["files"] == ["there/report.html", "there/summary.csv", "there/decisions.csv"]


def test_several_sites_in_one_table(run, wind):
    done = run("backtest", "west.csv", "east.csv", "--each", *POLICIES, "--no-pictures", "--out", "sites", width=80)
    said = " ".join(done.stdout.split())
    assert said.count("cgp-lcb would have made") == 2
    assert said.rindex("cgp-lcb would have made") < said.index("clairvoyant *")  # answers come before numbers
    assert "west, 2020-" in said
    assert "data (west): CSV" in said
    named = run("backtest", "*st.csv", "--each", *POLICIES, "--json", "--name", "B", "--name", "A")
    assert [site["site"] for site in json.loads(named.stdout)["sites"]] == ["B", "A"]
    paired = run("backtest", "west.csv", "--each", "--history", "east.csv", *POLICIES, "--json", "--from", "2020-02-01")
    assert "left out" in " ".join(json.loads(paired.stdout)["sites"][0]["notes"])


def test_a_machine_of_ones_own(run, wind):
    (wind / "machine.csv").write_text("speed,power\n3,0\n8,50\n11,50\n12,0\n")
    options = (
        "--curve",
        "machine.csv",
        "--climb",
        "0.02",
        "--sink",
        "0.005",
        "--low",
        60,
        "--high",
        290,
        "--start",
        60,
    )
    site = json.loads(run("backtest", "west.csv", *POLICIES, *options, "--json").stdout)["sites"][0]
    assert (site["climb_kwh_per_m"], site["sink_kwh_per_m"]) == (0.02, 0.005)
    assert site["altitudes_m"][0] == 60
    assert all(row["gross"] <= 50 * site["rounds"] for row in site["policies"])
    plain = json.loads(run("backtest", "west.csv", *POLICIES, "--movement", "0.01", "--json").stdout)["sites"][0]
    assert plain["climb_kwh_per_m"] == plain["sink_kwh_per_m"] == 0.01


def test_prices_and_powers_with_units(run, wind):
    (wind / "machine.csv").write_text("speed (m/s),power (MW)\n3,0\n8,0.05\n11,0.05\n12,0\n")
    options = ("--curve", "machine.csv", "--climb", "20 Wh/m", "--sink", "0,005 kWh/m")
    site = json.loads(run("backtest", "west.csv", *POLICIES, *options, "--json").stdout)["sites"][0]
    assert (site["climb_kwh_per_m"], site["sink_kwh_per_m"]) == (pytest.approx(0.02), 0.005)
    assert 1000 < max(row["gross"] for row in site["policies"]) <= 50 * site["rounds"]
    flown = run("backtest", "west.csv", *POLICIES, "--movement", "10 Wh/m", "--json")
    assert json.loads(flown.stdout)["sites"][0]["climb_kwh_per_m"] == pytest.approx(0.01)
    (wind / "machine.csv").write_text("speed,power\n3,0\n8,50000\n11,50000\n12,0\n")
    warned = run("backtest", "west.csv", *POLICIES, "--curve", "machine.csv", "--json")
    assert "warning: machine.csv does not state the unit of power, so it is read as kW" in warned.stderr


def test_a_plants_prices_with_units(run, tmp_path):
    rows = [f"{load},{setting},{abs(load / 10 - setting):.2f}" for load in range(20) for setting in (0, 1, 2)]
    (tmp_path / "plant.csv").write_text("\n".join(["load,setting,kwh", *rows]) + "\n")
    options = ("--log", "plant.csv", "--context", "load", "--action", "setting", "--cost", "kwh")
    few = ("--policies", "gp-md", "--json")
    units = ("--unit", "m", "--cost-unit", "kWh")
    plain = run("backtest", *options, *few, "--move-cost", "0.02", "--fixed-cost", "0.5")
    priced = run("backtest", *options, *few, *units, "--move-cost", "20 Wh/m", "--fixed-cost", "0,5 kWh per change")
    assert json.loads(priced.stdout)["policies"] == json.loads(plain.stdout)["policies"]
    money = ("--move-cost", "0,004 EUR/m", "--fixed-cost", "0.1 EUR per change", "--price", "0.2")
    paid = json.loads(run("backtest", *options, *few, *units, *money).stdout)
    assert paid["policies"] == json.loads(plain.stdout)["policies"]
    assert "--fixed-cost '0.1 EUR per change' is 0.5 kWh at 0.2 for a kWh" in paid["reading"]
    rows = [f"2026-06-{day:02}T{hour:02}:00Z,{hour},{day % 3},{hour / 9:.2f}" for day in (1, 2) for hour in range(24)]
    (tmp_path / "kiln.csv").write_text("\n".join(["time,load,setting,cost [EUR/h]", *rows]) + "\n")
    comma = run("backtest", *options, *few, "--move-cost", "0,02", "--fixed-cost", "0.5")
    assert json.loads(comma.stdout)["policies"] == json.loads(plain.stdout)["policies"]
    switched = run("backtest", *options, *few, *units, "--named", "--fixed-cost", "500 Wh per change").stdout
    assert (
        "every change of the setting costs 0.5 kWh (--fixed-cost for another price)" in json.loads(switched)["reading"]
    )
    kiln = ("--log", "kiln.csv", "--context", "load", "--action", "setting", "--cost", "cost", "--unit", "K")
    told = json.loads(run("backtest", *kiln, *few, "--time", "time", "--move-cost", "5 EUR/K").stdout)
    assert "a change of the setting by 1 K costs 5 EUR (--move-cost for another price)" in told["reading"]
    assert told["value"]["total_unit"] == "EUR"
    with pytest.raises(InvalidInput, match="--move-cost is in EUR, but the measurements are in EUR/h; name the column"):
        run("backtest", *kiln, *few, "--move-cost", "5 EUR/K")
    for price, words in (
        (("--move-cost", "20 Wh/m"), "say in which unit the settings are"),
        ((*units, "--move-cost", "20 EUR/m"), "is in money, but what is measured is in kWh; give the price of a kWh"),
        ((*units, "--move-cost", "20 s/m"), "--move-cost is in s, which cannot be converted to kWh"),
        (("--dwell", "4 h"), "--dwell '4 h' is a time; name the column of the times with --time"),
        (("--dwell", "4 K"), "--dwell is in K"),
        ((*units, "--move-cost", "cheap"), "must begin with a number"),
    ):
        with pytest.raises(HoldcourseError, match=words):
            run("backtest", *options, *few, *price)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("nowhere.csv",), "no file matches 'nowhere.csv'"),
        (("west.csv", "--policies", "magic"), "policy 'magic' is not known"),
        (("west.csv", "--climb", "1"), "--climb and --sink belong together"),
        (("west.csv", "--climb", "1", "--sink", "1", "--movement", "physical"), "replace --movement"),
        (("west.csv", "--movement", "cheap"), "movement 'cheap' is not known"),
        (("west.csv", "--what-if", "1;2"), "--what-if takes numbers"),
        (("west.csv", "--lat", "50"), "every site needs both --lat and --lon"),
        (("west.csv", "--currency", "EUR"), "needs a price of energy; give --price too"),
        (("west.csv", "--price", "1", "--currency", "far too long a name"), "a short name such as EUR"),
        (("west.csv", "--forecasts", "west.csv"), "needs a column time, and either issued or lead"),
        (("west.csv", "--forecasts", "west.csv", "--forecast-error", "1,2"), "leave one out"),
        (("west.csv", "--name", "a", "--name", "b"), "give 1 name with --name, one for each site; got 2"),
        (("west.csv", "east.csv", "--each", "--history", "west.csv"), "every file needs its own history"),
        (("west.csv", "--from", "2031-01-01"), "no time from 2031-01-01 on: the data cover 2020-01-01T00:00:00 to"),
        (("west.csv", "--to", "2019-01-01"), "no time before 2019-01-01: the data cover"),
        (("west.csv", "--from", "soon"), "is not a time"),
        (("west.csv", "--curve", "west.csv"), "is not a speed and a power"),
        (("west.csv", "--curve", "m.csv", "--rated-speed", "9"), "leave out --rated-speed"),
        (("west.csv", "--curve", "nowhere.csv"), "cannot read nowhere.csv: No such file or directory"),
        (("west.csv", "--what-if", "-1,2"), "--what-if takes numbers above 0"),
        (("west.csv", "--what-if", "nan"), "--what-if takes numbers above 0"),
        (("west.csv", "--start", "5"), "the start altitude of 5 m lies outside the altitudes, 50 to 300 m"),
        (("west.csv", "--start", "nan"), "the start altitude of nan m lies outside"),
        (("west.csv", "--rho", "0"), "rho must be positive"),
        (("west.csv", "--availability", "0.95"), "is a percentage, got 0.95; for a share, write 95"),
        (("west.csv", "--price", "nan"), "price of a kWh must be a number"),
        (("west.csv", "--low", "5"), "--low 5 lies outside the heights 50.0 to 300.0 m"),
        (("west.csv", "--low", "5"), "use --low 50, or another altitude in between"),
        (("west.csv", "--high", "301"), "use --high 300, or another altitude in between"),
        (("west.csv", "--timezone", "Oslo"), "timezone 'Oslo' is not known"),  # also where times carry their zone
        (("west.csv", "--max-gap", "-1"), "--max-gap must be a number of hours"),
    ],
)
def test_mistakes_are_one_line_with_the_remedy(run, wind, options, message):
    with pytest.raises(HoldcourseError, match=re.escape(message)) as caught:
        run("backtest", *options)
    assert "\n" not in str(caught.value)


def test_an_out_that_cannot_be_written_is_refused_before_the_flights(run, wind, monkeypatch):
    monkeypatch.setattr(backtest, "run_backtest", None)
    for out in ("west.csv", "west.csv/below"):
        with pytest.raises(HoldcourseError, match=r"cannot write to .*: west\.csv is a file; choose another --out"):
            run("backtest", "west.csv", *POLICIES, "--out", out)
    with pytest.raises(HoldcourseError, match="choose another --out"):
        run("demo", "--out", "west.csv")


def test_bad_usage_is_code_two(run, wind):
    assert run("backtest").exit_code == 2
    assert run("backtest", "west.csv", "--context", "moon").exit_code == 2


def test_who_has_a_plant_finds_the_options_for_readings(run, wind):
    assert "holdcourse backtest --log --help" in run("backtest", "--help", width=120).stdout
    for asked in (("--log", "--help"), ("--log", "-h"), ("--log", "plant.csv", "--help")):
        assert "Column of the setting that ran." in run("backtest", *asked, width=120).stdout
    assert "or a plant's readings with --log plant.csv" in " ".join(run("backtest").output.split())
    assert "holdcourse data info FILE shows which" in " ".join(run("backtest", "--log", "plant.csv").output.split())
    (wind / "plant.csv").write_text("time,load,kW\n" + "".join(f"2024-01-01T{k:02d}:00,5,{k}\n" for k in range(24)))
    with pytest.raises(HoldcourseError, match=r"If this is a plant's table, give it with --log.* run holdcourse wakes"):
        run("backtest", "plant.csv")


def test_the_price_of_a_metre_is_said(run, wind):
    words = ("--movement", "20 Wh/m", "--json", "--out", "report", "--no-pictures")
    shown = run("backtest", "west.csv", *POLICIES, *words).stdout
    assert "0.02 kWh (--movement for another price)" in (wind / "report" / "report.html").read_text(encoding="utf-8")
    notes = json.loads(shown)["sites"][0]["notes"]
    assert "moving: a metre of altitude costs 0.02 kWh (--movement for another price)" in notes
    unstated = " ".join(run("backtest", "west.csv", *POLICIES, "--no-pictures").stdout.split())
    assert "Flown: the paper's textbook machine, rated 12 m/s, at most 87.1 kW, at " in unstated
    price = "A metre of altitude costs 0.36 kWh, as the paper prints it. Use --machine and --movement for others."
    assert unstated.index(price) < unstated.index("clairvoyant *")


def test_a_lidar_with_many_missing_speeds_is_flown_if_that_is_accepted(run, wind):
    rows = (wind / "west.csv").read_text().splitlines()
    holed = [row if k % 5 > 1 else f"{row.split(',')[0]},," for k, row in enumerate(rows[1:])]
    (wind / "lidar.csv").write_text("\n".join([rows[0], *holed]))
    with pytest.raises(InvalidInput, match=r"40 % of the speeds in lidar\.csv are missing"):
        run("backtest", "lidar.csv", *POLICIES)
    assert "would" in run("backtest", "lidar.csv", *POLICIES, "--max-missing", 0.4, "--no-pictures").stdout


def test_help_has_examples_and_every_default(run):
    shown = run("backtest", "--help", width=120).stdout
    assert "holdcourse backtest lidar.csv" in shown
    assert "backtest-report" in shown
    assert "--hyperparameters" in shown
    assert "Altitude before the first hour, m; default: the middle." in " ".join(shown.split())


def test_a_zone_that_is_not_needed_is_said(run, wind):
    done = run("backtest", "west.csv", *POLICIES, "--timezone", "Europe/Oslo", "--json")
    assert "times have a zone (--timezone Europe/Oslo was not needed to read them); they are shown" in done.stdout


def test_without_matplotlib(run, wind, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"pip install 'holdcourse\[plot\]'"):
        run("backtest", "west.csv", *POLICIES, "--pictures")
    done = run("backtest", "west.csv", *POLICIES)
    assert "no PNG files: pictures need matplotlib" in done.stderr
    assert (wind / "backtest-report" / "report.html").is_file()


def test_progress_is_quiet_when_nobody_watches(run, wind):
    assert run("backtest", "west.csv", *POLICIES, "--no-pictures").stderr == ""


def test_demo(run, tmp_path, monkeypatch):
    """The demo's path through the code, on two weeks of its data; the whole of it runs in the slow tests."""
    short = bundled("all").between("2010-06-01", "2010-07-15")
    monkeypatch.setattr(backtest, "bundled", lambda part: short)
    monkeypatch.setattr(backtest, "DEMO_FROM", "2010-07-01")
    done = run("demo", "--out", "here", width=80)
    said = " ".join(done.stdout.split())
    assert "SkySails kite" in said
    assert "North Sea, the paper's setting" in said
    assert said.count("2 weeks are too few to conclude anything") == 2
    assert "Based on data from MET Norway" in done.stdout
    assert "report: here/report.html" in done.stdout
    assert "Your own wind: run holdcourse data info lidar.csv" in said
    assert any((tmp_path / "here").glob("1-*-altitudes.png"))
