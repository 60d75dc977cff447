"""Machines: what their curves mean, families over altitudes, and files of other programs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import holdcourse as hc
from holdcourse.cli.root import app
from holdcourse.errors import InvalidInput
from holdcourse.wind import bundled, machine, machine_names
from holdcourse.wind.backtest.run import Plan, run_backtest
from holdcourse.wind.files.power_table import UnitWarning, read_curve
from holdcourse.wind.physics import (
    EnergyCosts,
    PowerCurve,
    curve_family,
    paper_curve,
    table_curve,
    wind_world,
)
from holdcourse.wind.policy.filter import expected_power
from holdcourse.wind.policy.planner import Replayed, Taught, wind_planner
from holdcourse.wind.policy.policies import Past, Setting

SHORT = Plan(low=50, high=500, count=4, end="2010-09-01", policies=("fixed", "wind-planner"), what_if=())
WTG = """<WindTurbineGenerator Description="Model 1" RotorDiameter="100">
<PerformanceTable AirDensity="1.1"><StartStopStrategy LowSpeedCutIn="4" HighSpeedCutOut="25"/><DataTable>
<DataPoint WindSpeed="4" PowerOutput="1000"/><DataPoint WindSpeed="25" PowerOutput="9000"/></DataTable>
</PerformanceTable>
<PerformanceTable AirDensity="1.225"><StartStopStrategy LowSpeedCutIn="3" HighSpeedCutOut="20"/><DataTable>
<DataPoint WindSpeed="12" PowerOutput="2000000"/><DataPoint WindSpeed="3" PowerOutput="0"/>
<DataPoint WindSpeed="25" PowerOutput="2000000"/></DataTable></PerformanceTable></WindTurbineGenerator>"""


@pytest.mark.parametrize("name", machine_names())
def test_every_machine_says_where_it_comes_from_and_can_be_flown(name):
    found = machine(name)
    assert found.name == name
    assert found.source
    assert found.licence
    assert 1 < found.curve.largest_power < 1000
    assert f"({found.curve.rated_speed:g} m/s)^2" in found.movement_words  # the numbers are shown
    assert found.movement_cost("physical") == pytest.approx(found.movement_cost("paper") / 60)
    json.dumps(found.as_values(), allow_nan=False)
    again = PowerCurve.from_data(json.loads(json.dumps(found.curve.to_data())))
    assert again.digest == found.curve.digest


def test_textbook_is_the_default():
    assert machine("textbook").curve.digest == paper_curve().digest


def test_skysails_is_flat_to_20_and_nothing_above():
    power = machine("skysails").curve.power([5.4, 6.08, 15.4, 19.9, 20.1])
    assert power == pytest.approx([0, 8.32, 121.44, 121.44, 0])


def test_a_reference_wind_becomes_the_wind_at_the_cycle():
    """AWE-Power: 10 m/s at 100 m is more where the machine flies, 179.6 m, and there it makes 64.87 kW."""
    found = machine("awe-power-150")
    there = 10 * (179.6 / 100) ** 0.143
    assert float(found.curve.power(there)) == pytest.approx(64.87)
    assert there > 10.8
    assert "0.143" in found.wind_words


def test_unknown_machine_names_those_there_are():
    with pytest.raises(InvalidInput, match=r"no machine is called 'zeppelin'.*skysails"):
        machine("zeppelin")


def test_curve_with_a_height_in_its_header(tmp_path):
    path = tmp_path / "kite.csv"
    path.write_text("# read off a figure\nwind_speed_at_200m,power_kw\n4,0\n10,80\n25,80\n")
    found = machine(path)
    assert found.reference_height == 200
    assert found.meaning == "reference"
    assert "ends at 25 m/s with 80 kW" in found.notes[0]
    assert float(found.curve.power(7.0)) == pytest.approx(40)


def test_wtg_takes_the_table_of_the_standard_density(tmp_path):
    path = tmp_path / "model.wtg"
    path.write_text(WTG)
    found = machine(path)
    assert found.curve.power([3, 7.5, 12, 20, 21]) == pytest.approx([0, 1000, 2000, 2000, 0])
    assert "1.225 kg/m3, the nearest to 1.225 of 2 tables" in found.notes[0]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("<a/>", "no WindTurbineGenerator"),
        ("no xml", "is not XML"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><a/>', "document type"),
        (WTG.replace('WindSpeed="12"', 'WindSpeed="x"'), "not a number"),
    ],
)
def test_bad_wtg(tmp_path, text, match):
    path = tmp_path / "model.wtg"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=match):
        machine(path)


# -- families ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def family():
    speed = [3, 8, 14, 25]
    return curve_family([50, 200, 500], speed, [[0, 40, 100, 100], [0, 45, 90, 90], [0, 20, 60, 60]])


def test_family_from_csv(tmp_path, family):
    path = tmp_path / "family.csv"
    path.write_text("speed (m/s),50 m,200 m,500 m\n3,0,0,0\n8,40,45,20\n14,100,90,60\n25,100,90,60\n")
    found = read_curve(path)
    assert found.altitudes.tolist() == [50, 200, 500]
    assert found.power([8.0, 8.0, 8.0]).tolist() == [40, 45, 20]
    assert replace(found, name="family").digest == family.digest
    path.write_text("speed,power,altitude\n3,0,100\n8,40,200\n")  # other columns are no family
    assert read_curve(path).altitudes is None


@pytest.mark.parametrize(
    ("header", "most"),
    [
        ("speed (m/s),power 100 m (kW),power 200 m (kW)", 200.0),
        ("speed [m/s],100 m [MW],200 m [MW]", 200_000.0),
        ("speed,P_100m_kW,P_200m_kW", 200.0),
        ("speed,power 100 m (kW),power 200 m (W)", 20.0),
        ("speed,100m (W),200m (W)", 0.2),
    ],
)
def test_a_family_may_name_its_unit(tmp_path, header, most):
    path = tmp_path / "family.csv"
    path.write_text(f"{header}\n4,0,0\n10,20,200\n25,20,200\n")
    found = read_curve(path)
    assert found.altitudes.tolist() == [100, 200]
    assert found.largest_power == pytest.approx(most)


def test_a_family_of_unlikely_powers_is_a_warning(tmp_path):
    path = tmp_path / "family.csv"
    path.write_text("speed,100 m,200 m\n4,0,0\n10,60000,65000\n25,60000,65000\n")
    with pytest.warns(UnitWarning, match=r"65000 kW at most, which is unlikely.*speed \(m/s\),100 m \(W\)") as raised:
        read_curve(path)
    assert raised[0].filename == __file__


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (
            "speed,power (kW),power 200 m (kW)",
            "'power (kW)' and 'power 200 m (kW)' in the header may both be the power",
        ),
        ("speed,power 100 ft (kW),power 200 ft (kW)", "name the altitude of each column in metres"),
        ("speed,power (kW),losses_kW", "keep one of them"),
        ("speed,100 m (kW),200 m", "'200 m' in the header says no unit of power, and others do"),
    ],
)
def test_a_second_column_of_powers_is_never_dropped(tmp_path, header, words):
    path = tmp_path / "family.csv"
    path.write_text(f"{header}\n4,0,0\n10,20,200\n25,20,200\n")
    with pytest.raises(InvalidInput) as caught:
        read_curve(path)
    assert words in str(caught.value)


def test_family_between_its_altitudes(family):
    there = family.onto([50, 125, 350])
    assert there.power(np.full((2, 3), 8.0)) == pytest.approx(np.array([[40, 42.5, 32.5]] * 2))
    with pytest.raises(InvalidInput, match="from 50 to 500 m, but 10 to 600 m"):
        family.onto([10, 600])
    with pytest.raises(InvalidInput, match="each of 3 altitudes"):
        family.power([8.0, 9.0])


def test_a_family_of_equal_curves_is_the_curve(family):
    """Everything that a policy or the world does with a curve, by one curve and by the same curve at all altitudes."""
    speed, power = [3, 8, 14, 25], [0, 40, 100, 90]
    levels = np.array([50.0, 200.0, 500.0])
    one, same = table_curve(speed, power), curve_family(levels, speed, [power] * 3)
    random = np.random.default_rng(0)
    wind = random.uniform(0, 30, (200, 3))
    assert same.power(wind) == pytest.approx(one.power(wind))
    low, high = wind[0], wind[0] + 5
    for got, expected in zip(same.extremes(low, high), one.extremes(low, high), strict=True):
        assert got == pytest.approx(expected)
    assert expected_power(same, wind, np.ones((200, 3))) == pytest.approx(expected_power(one, wind, np.ones((200, 3))))
    assert EnergyCosts(same, 2.0).cost_of(9.0) == pytest.approx(EnergyCosts(one, 2.0).cost_of(9.0))
    assert PowerCurve.from_data(json.loads(json.dumps(same.to_data()))).digest == same.digest
    time = np.datetime64("2020-01-01T00", "s") + np.arange(200) * np.timedelta64(3600, "s")
    flown = []
    for curve in (one, same):
        world = wind_world(time, levels, wind, curve=curve, movement="physical")
        setting = Setting(world, Past(np.arange(200.0) % 24, wind[::-1], np.arange(200.0)))
        taught = Taught.by(world, np.arange(200.0), wind, 1.0)
        replayed = Replayed(world, taught, wind, 0.0, 1.0).actions(0.01)
        policy = wind_planner(setting)
        flown.append(np.append(hc.simulate(policy, world, world.moments, start=1, seed=0).actions[:100], replayed))
    assert (flown[0] == flown[1]).all()
    assert len(set(flown[0])) > 1


def test_a_family_sends_the_machine_where_it_makes_more(family):
    """The same wind everywhere: the replayed twin, and the policy in the backtest, go where the curve is best."""
    time = np.datetime64("2020-01-01T00", "s") + np.arange(300) * np.timedelta64(3600, "s")
    random = np.random.default_rng(1)
    wind = np.repeat(8 + random.standard_normal((300, 1)), 3, axis=1) + 0.05 * random.standard_normal((300, 3))
    world = wind_world(time, [50.0, 200.0, 500.0], wind, curve=family, movement="physical")
    setting = Setting(world, Past(np.arange(300.0) % 24, wind, np.arange(300.0)))
    policy = wind_planner(setting)
    actions = hc.simulate(policy, world, world.moments, start=2, seed=0).actions
    assert np.bincount(actions[10:], minlength=3).argmax() == 1
    replayed = Replayed(world, Taught.by(world, np.arange(300.0), wind, 1.0), wind, 0.0, 1.0)
    assert np.bincount(replayed.actions(0.01, start=2)[10:], minlength=3).argmax() == 1


# -- in a backtest ----------------------------------------------------------------------------------------------------


def test_a_backtest_with_a_family_stays_within_its_altitudes(family):
    plan = replace(SHORT, low=None, high=None, machine=replace(machine("skysails"), curve=family))
    result = run_backtest(bundled("test"), bundled("history"), plan)
    world = result.backtest.world
    assert (world.altitudes[0], world.altitudes[-1]) == (50, 500)
    assert world.curve.altitudes.tolist() == world.altitudes.tolist()


def test_command_machines_and_machine_option(tmp_path):
    listed = CliRunner().invoke(app, ["wind", "machines"])
    assert listed.exit_code == 0, listed.output
    for name in machine_names():
        assert name in listed.output
    told = CliRunner().invoke(app, ["wind", "machines", "skysails", "--json"])
    assert json.loads(told.output)["machines"][0]["reference_height_m"] == 200
    wind = tmp_path / "wind.csv"
    rows = [f"2020-01-{1 + k // 24:02d}T{k % 24:02d}:00Z,{6 + k % 7},{7 + k % 5},{8 + k % 3}" for k in range(400)]
    wind.write_text("\n".join(["time,ws_100m,ws_200m,ws_300m", *rows]))
    command = ["backtest", str(wind), "--machine", "skysails", "--altitudes", "100,150,300", "--json"]
    ran = CliRunner().invoke(app, [*command, "--policies", "fixed,wind-planner", "--what-if", "none"])
    assert ran.exit_code == 0, ran.output
    site = json.loads(ran.output)["sites"][0]
    assert site["altitudes_m"] == [100, 150, 300]
    assert any("SkySails kite, measured" in note for note in site["notes"])
    both = CliRunner().invoke(app, [*command, "--curve", "x.csv"])
    assert both.exit_code == 1
    assert "leave out --curve" in str(both.exception)


@pytest.mark.parametrize("wanted", [(100.0,), (100.0, 100.0), (5.0, 100.0), (-10.0, 100.0), (float("nan"), 100.0)])
def test_altitudes_that_make_no_choice(wanted):
    with pytest.raises(InvalidInput, match="altitudes="):
        run_backtest(bundled("test"), bundled("history"), Plan(altitudes=wanted, end="2010-07-09"))


def test_later_history_is_refused_unless_allowed():
    test, history = bundled("history").between("2009-01-01", "2009-03-15"), bundled("history")
    with pytest.raises(InvalidInput, match=r"may not know future wind.*allow_later_history=True"):
        run_backtest(test, history, SHORT)
    plan = replace(SHORT, end=None, policies=("fixed",), allow_later_history=True)
    result = run_backtest(test, history, plan)
    assert any("wind after the test period, which was allowed" in note for note in result.notes)


def test_a_policy_that_draws_is_the_mean_of_its_seeds():
    plan = replace(SHORT, policies=("fixed", "gp-md"), end="2010-07-16", draws=3, seed=4)
    many = run_backtest(bundled("test"), bundled("history"), plan).backtest
    alone = [
        run_backtest(bundled("test"), bundled("history"), replace(plan, draws=1, seed=seed)).backtest.line("gp-md").net
        for seed in (4, 5, 6)
    ]
    line = many.line("gp-md")
    assert line.net == pytest.approx(np.mean(alone))
    assert (line.draws, line.net_low, line.net_high) == (3, pytest.approx(min(alone)), pytest.approx(max(alone)))
    assert any("mean of 3 seeds" in words for words in many.draw_words)
    assert many.line("fixed").draws == 1


WIND = Path(__file__).parents[3] / "shared" / "data"
EVERYWHERE = {
    "10 minutes": (["wind/wrf_foxes_200901_10min.csv"], {}),
    "a day": (["wind/ifs_macehead_20190517_hourly.csv"], {}),
    "Cloudnet": (["formats/cloudnet_20190517_mace-head_ecmwf.nc"], {}),
    "ERA5, old store": (["formats/euroc_2023_all_windows.nc"], {"lat": 39.4, "lon": -8.3, "surface_height": 100.0}),
    "ERA5, new store": (["formats/euroc_2022_all_windows.nc"], {"lat": 39.4, "lon": -8.3, "surface_height": 100.0}),
    "ERA5, high ground": (
        ["formats/era5_pl_newcds_walnut_gulch_48h.nc", "formats/era5_sfc_newcds_walnut_gulch_48h.nc"],
        {"lat": 31.7, "lon": -110.0},
    ),
}


@pytest.mark.skipif(not WIND.is_dir(), reason="needs the shared wind files")
@pytest.mark.parametrize("where", EVERYWHERE)
@pytest.mark.parametrize("name", ["skysails", "awe-power-150", "v3"])
def test_every_machine_flies_in_all_wind_there_is(name, where):
    files, site = EVERYWHERE[where]
    if where == "Cloudnet" or where.startswith("ERA5"):
        pytest.importorskip("xarray", reason="needs the extra: pip install 'holdcourse[wind]'")
    plan = Plan(high=500, count=4, machine=machine(name), policies=("fixed", "wind-planner"), what_if=())
    if where == "10 minutes":
        plan = replace(plan, begin="2009-01-15", end="2009-01-20")
    found = run_backtest([WIND / path for path in files], plan=plan, **site)
    assert found.backtest.verdict == "too few"  # days or weeks are no year, and it says so
    assert "are too few to conclude anything" in found.backtest.conclusion
    assert found.bankable is None
    for flight in found.backtest.flights.values():
        assert np.isfinite(flight.net).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["skysails", "awe-power-150", "v3"])
def test_every_machine_flies_in_the_bundled_wind(name):
    plan = Plan(low=50, high=500, count=4, machine=machine(name), policies=("fixed", "wind-planner"), what_if=())
    found = run_backtest(bundled("test"), bundled("history").between("2010-01-01", None), plan)
    assert found.backtest.verdict in ("yes", "no", "undecided", "stayed")
    assert found.backtest.line("fixed").net > 0
