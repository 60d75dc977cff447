"""awesIO files: both sets of keys, what they mean, and that what is written is read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from holdcourse.cli.root import app
from holdcourse.errors import InvalidInput
from holdcourse.wind import bundled, machine
from holdcourse.wind.backtest.handover import curve_of
from holdcourse.wind.backtest.run import Plan, run_backtest
from holdcourse.wind.files import awesio
from holdcourse.wind.files.awesio import read_awesio, write_awesio

yaml = pytest.importorskip("yaml", reason="awesIO files need the extra: pip install 'holdcourse[wind]'")

SHARED = Path(__file__).parents[3] / "shared" / "data" / "awe" / "awesio"
SAMPLES = [
    "awespa_power_curves.yml",
    "awespa_wind_resource.yml",
    "soft_kite_pumping_ground_gen_operational_constraints.yml",
    "soft_kite_pumping_ground_gen_power_curves.yml",
    "soft_kite_pumping_ground_gen_system.yml",
    "wind_resource.yml",
]
UNDERSTOOD = {
    "power_curves": awesio.power_curves,
    "wind_resource": awesio.wind_resource,
    "operational_constraints": awesio.constraints,
    "system": awesio.system,
}

WITH_UNITS = """
metadata: {name: Kite, description: d, note: n, awesIO_version: 0.1.0, schema: power_curves_schema.yml,
  time_created: '2025-12-31T12:54:53', model_config: {wing_area_m2: 20, operating_altitude_m: 150},
  wind_resource: {reference_height_m: 100.0}}
altitudes_m: [100, 200]
reference_wind_speeds_m_s: [5, 10, 20]
power_curves:
- {profile_id: 1, speed_ratio_at_operating_altitude: 1.1, probability_weight: 0.75, cycle_power_w: [1.0e3, 8000, 8000]}
- {profile_id: 2, speed_ratio_at_operating_altitude: 1.1, probability_weight: 0.25, cycle_power_w: [1000, 4000, 4000]}
"""
WITHOUT_UNITS = """
metadata: {name: Kite, awesIO_version: 0.1.0, schema: power_curves_schema.yml, model_config: {wing_area: 20},
  wind_resource: {reference_height: 200.0}}
altitudes: [100, 200]
reference_wind_speeds: [4, 5, 10, 15, 20]
power_curves:
- profile_id: 1
  probability_weight: 1.0
  wind_profile: {u_normalized: [0.9, 1.0], v_normalized: [0.0, 0.1]}
  wind_speed_data:
  - {wind_speed: 4, successful: false, performance: {electrical_power: {average_cycle_power: 0.0}}}
  - {wind_speed: 5, successful: true, performance: {electrical_power: {average_cycle_power: 1000.0}}}
  - {wind_speed: 10, successful: true, performance: {electrical_power: {average_cycle_power: 8000.0}}}
  - {wind_speed: 15, successful: false, performance: {electrical_power: {average_cycle_power: 0.0}}}
  - {wind_speed: 20, successful: true, performance: {electrical_power: {average_cycle_power: 9000.0}}}
"""
LIMITS = """
metadata: {name: Site, schema: operational_constraints_schema.yml}
airspace_constraints: {max_altitude_agl_m: 400.0, max_altitude_msl_m: 350.0}
safety_constraints: {min_ground_clearance_m: 60}
terrain_constraints:
  azimuth_zones:
  - {azimuth_range_deg: [0, 90], flight_allowed: false}
  - azimuth_range_deg: [90, 360]
    flight_allowed: true
    distance_restrictions:
    - {distance_range_m: [0, 50], min_height_agl_m: 20}
    - {distance_range_m: [50, 500], min_height_agl_m: 120}
"""

# Nine lists, each ten times the one before it.
BOMB = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{b}: &{b} [{','.join(['*' + a] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.fixture
def written(tmp_path):
    def write(text, name="file.yml"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_understood_and_written_back_equal(name, tmp_path):
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"the sample {name} is not here")
    found = read_awesio(path)
    assert UNDERSTOOD[found.kind](found).name
    write_awesio(found, tmp_path / "again.yml")
    assert read_awesio(tmp_path / "again.yml").data == found.data


@pytest.mark.parametrize("name", ["awespa_power_curves.yml", "soft_kite_pumping_ground_gen_power_curves.yml"])
def test_samples_of_power_curves_are_machines(name):
    if not (SHARED / name).exists():
        pytest.skip(f"the sample {name} is not here")
    found = machine(SHARED / name)
    assert 5 < found.curve.largest_power < 50
    assert (np.diff(found.curve.power(np.linspace(6, 12, 30))) > 0).all()


def test_v3_is_the_curve_of_its_sample():
    path = SHARED / "awespa_power_curves.yml"
    if not path.exists():
        pytest.skip("the sample awespa_power_curves.yml is not here")
    speeds = np.linspace(4, 25, 50)
    assert machine("v3").curve.power(speeds) == pytest.approx(machine(path).curve.power(speeds), abs=1e-3)


def test_keys_with_units(written):
    found = awesio.power_curves(read_awesio(written(WITH_UNITS)))
    assert (found.reference_height, found.operating_altitude) == (100, 150)
    # 10 m/s at 100 m are 11 m/s where it flies: three quarters of 8 kW and a quarter of 4.
    assert found.local_curve().power([5.5, 11.0, 22.0, 22.1]) == pytest.approx([1, 7, 7, 0])
    assert "wind at 150 m" in found.meaning


def test_keys_without_units_and_a_calculation_that_failed(written):
    found = awesio.power_curves(read_awesio(written(WITHOUT_UNITS)))
    assert found.reference_height == 200
    assert found.profiles[0] == pytest.approx([0.9, np.hypot(1.0, 0.1)])
    # Nothing at 4 m/s, where it cannot fly; at 15 m/s a calculation failed, which is no power of 0.
    assert found.local_curve().power([4, 5, 10, 15, 20]) == pytest.approx([0, 1, 8, 8.5, 9])
    assert "1 of its 5 calculations failed" in machine(written(WITHOUT_UNITS)).notes[-1]


def test_numbers_as_yaml_1_2_has_them(written, tmp_path):
    text = WITH_UNITS.replace("note: n", "note: '1.0e3'")
    found = read_awesio(written(text))
    assert found.data["power_curves"][0]["cycle_power_w"][0] == 1000.0
    write_awesio(found, tmp_path / "again.yml")
    assert read_awesio(tmp_path / "again.yml").data == found.data  # text that looks like a number stays text
    assert found.metadata["note"] == "1.0e3"


def test_constraints_become_limits(written):
    found = awesio.constraints(read_awesio(written(LIMITS)))
    assert (found.lowest(), found.lowest(180)) == (120, 120)
    assert (found.highest(), found.highest(ground=100)) == (400, 250)
    with pytest.raises(InvalidInput, match="forbidden at 45 degrees"):
        found.lowest(45)
    plan = Plan(count=4, constraints=found, policies=("fixed",), what_if=(), end="2010-07-20")
    result = run_backtest(bundled("test"), bundled("history"), plan)
    assert result.backtest.world.altitudes[[0, -1]].tolist() == [120, 400]
    assert any("forbidden at 0 to 90 degrees" in note for note in result.notes)
    for wrong in ({"low": 100.0}, {"high": 450.0}, {"altitudes": (100.0, 200.0)}):
        with pytest.raises(InvalidInput, match="Site allows altitudes from 120 m to 400 m"):
            run_backtest(bundled("test"), bundled("history"), replace(plan, **wrong))
    with pytest.raises(InvalidInput, match="leaves no choice of altitude"):
        run_backtest(bundled("test"), bundled("history"), replace(plan, constraints=replace(found, ceiling=110.0)))


def test_wind_resource(written):
    text = """
metadata: {name: R, schema: wind_resource_schema.yml, reference_height_m: 100, location: {latitude: 52, longitude: 4}}
altitudes: [100, 200]
wind_speed_bins: {bin_centers_m_s: [5, 10]}
clusters:
- {id: 1, u_normalized: [1.0, 1.2], v_normalized: [0.0, 0.0]}
- {id: 2, u_normalized: [1.0, 0.8], v_normalized: [0.0, 0.0]}
probability_matrix: {data: [[[10, 20], [20, 0]], [[0, 50], [0, 0]]]}
"""
    found = awesio.wind_resource(read_awesio(written(text)))
    assert found.share.tolist() == [[0.3, 0.2], [0.5, 0.0]]
    assert found.mean_speed() == pytest.approx([6.0, 0.3 * 6 + 0.2 * 12 + 0.5 * 4])
    made = found.mean_power(machine("skysails").curve)
    curve = machine("skysails").curve.power
    assert made[1] == pytest.approx(float(0.3 * curve(6.0) + 0.2 * curve(12.0) + 0.5 * curve(4.0)))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("a: [", "is not YAML"),
        ("just text", "must be a table"),
        ("metadata: {schema: other.yml}", "not an awesIO file that holdcourse reads"),
        (WITH_UNITS.replace("[1.0e3, 8000, 8000]", "[1, 2]"), "must be 3 powers, one for each wind speed, got 2"),
        (WITH_UNITS.replace("[5, 10, 20]", "[5, x, 20]"), "must be a list of finite numbers"),
        (WITH_UNITS.replace("[5, 10, 20]", "[20, 10, 5]"), "speeds of a power table must rise, but 11 m/s follows 22"),
        (WITH_UNITS.replace("1.1", "-1.1"), "lies outside 0 to 10"),
        (LIMITS, "one of power_curves is needed"),
        (BOMB, "once its aliases"),
        ("!!python/object/apply:os.system ['true']", "is not YAML"),
    ],
)  # fmt: skip
def test_files_that_are_refused(written, text, match):
    with pytest.raises(InvalidInput, match=match):
        machine(written(text))


def test_command_takes_constraints(written, tmp_path):
    wind = tmp_path / "wind.csv"
    rows = [f"2020-01-{1 + k // 24:02d}T{k % 24:02d}:00Z,{6 + k % 7},{7 + k % 5},{8 + k % 3}" for k in range(400)]
    wind.write_text("\n".join(["time,ws_50m,ws_200m,ws_300m", *rows]))
    command = ["backtest", str(wind), "--constraints", str(written(LIMITS)), "--policies", "fixed", "--what-if", "none"]
    ran = CliRunner().invoke(app, [*command, "--json"])
    assert ran.exit_code == 0, ran.output
    assert '"altitudes_m": [120.0, ' in ran.output


def conforms(value, schema, where="file"):
    """What of the JSON schema language the schemas of awesIO use; raises where the value does not conform."""
    kinds = {"object": dict, "array": list, "string": str, "number": (int, float), "integer": int, "boolean": bool}
    kind = schema.get("type")
    wanted = [kind] if isinstance(kind, str) else kind or []
    assert not wanted or any(isinstance(value, kinds[each]) for each in wanted), f"{where}: {value!r} is no {kind}"
    assert "const" not in schema or value == schema["const"], where
    assert not isinstance(value, int | float) or value >= schema.get("minimum", -np.inf), where
    if isinstance(value, dict):
        missing = set(schema.get("required", ())) - set(value)
        assert not missing, f"{where}: {missing} missing"
        known = schema.get("properties", {})
        assert schema.get("additionalProperties", True) or set(value) <= set(known), (
            f"{where}: {set(value) - set(known)}"
        )
        for key in set(value) & set(known):
            conforms(value[key], known[key], f"{where}.{key}")
    for each in value if isinstance(value, list) else ():
        conforms(each, schema.get("items", {}), f"{where}[]")


def test_results_as_an_awesio_power_curve(tmp_path):
    """It conforms to the schema, is read again as a machine, and makes of the period what the policy made."""
    plan = Plan(low=50, high=500, count=4, end="2010-09-01", policies=("fixed", "wind-planner"), what_if=())
    result = run_backtest(bundled("test"), bundled("history"), replace(plan, machine=machine("skysails")))
    write_awesio(curve_of(result), tmp_path / "curve.yml")
    found = read_awesio(tmp_path / "curve.yml")
    curves = awesio.power_curves(found)
    assert curves.reference_height == 200
    world, flight = result.backtest.world, result.backtest.flights["wind-planner"]
    wind = [np.interp(200, world.altitudes, row) for row in world.speed]
    made = np.interp(wind, curves.speeds, curves.power[0])
    assert made.mean() == pytest.approx(flight.net.mean(), rel=0.02)
    assert machine(tmp_path / "curve.yml").curve.largest_power > 80
    with pytest.raises(InvalidInput, match="gp-md was not flown"):
        curve_of(result, "gp-md")
    schema = SHARED / "power_curves_schema.yml"
    if not schema.exists():
        pytest.skip("the schema power_curves_schema.yml is not here")
    conforms(found.data, yaml.safe_load(schema.read_text()))
