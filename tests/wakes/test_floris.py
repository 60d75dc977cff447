"""FLORIS as the judge: the power of every setting, joint offsets by brute force, groups of a large farm."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.wakes.bundled import TURBINES
from holdcourse.wakes.groups import GroupedModel, groups_of, serial_refine
from holdcourse.wakes.offsets import build_table

floris = pytest.importorskip("floris", reason="needs the extra: pip install 'holdcourse[wakes]'")
yaml = pytest.importorskip("yaml")

GRID = np.array([-20.0, -10.0, 0.0, 10.0, 20.0])


@pytest.fixture(scope="module")
def model():
    return hc.wakes.FlorisModel(hc.wakes.bundled_farm_file(), turbines=TURBINES)


def farm_file(folder, x, y):
    data = yaml.safe_load(hc.wakes.bundled_farm_file().read_text())
    data["farm"]["layout_x"], data["farm"]["layout_y"] = list(x), list(y)
    path = folder / "farm.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def test_the_table_is_what_floris_says(table, model):
    random = np.random.default_rng(0)
    d, s = random.integers(180, size=200), random.integers(12, size=200)
    setting = np.arange(200) % table.n  # every setting several times
    made = model.power(table.directions[d], table.speeds[s], table.settings[setting]).sum(axis=1)
    np.testing.assert_allclose(table.planned[d, s, setting], made, atol=0.08)  # rounded to a part of its largest


def test_no_joint_offsets_are_much_better_than_the_settings(tmp_path):
    """Three turbines, every joint vector in steps of ten degrees: the best one against the best setting."""
    small = hc.wakes.FlorisModel(farm_file(tmp_path, [0.0, 400.0, 800.0], [0.0, 15.0, -10.0]))
    table = build_table(small, most=20.0, step=10.0, direction_step=10.0, speeds=(7.0, 9.0), most_settings=40)
    vectors = np.array(list(itertools.product(GRID, repeat=3)))
    for direction, speed in ((270.0, 7.0), (270.0, 9.0), (260.0, 9.0), (90.0, 7.0)):
        joint = small.power(direction, speed, vectors).sum(axis=1)
        alone = small.power(direction, speed, np.zeros((1, 3))).sum()
        d, s = int(direction / 10), int(np.flatnonzero(table.speeds == speed)[0])
        lookup = float(small.power(direction, speed, table.offsets[table.lookup[d, s]][None]).sum())
        assert joint.max() >= alone
        # FLORIS' search is greedy, from the front to the back: it may miss a little of what all of them could make.
        assert lookup - alone >= 0.85 * (joint.max() - alone)
        assert table.planned[d, s].max() >= lookup - 0.01 * (joint.max() - alone) - 0.1


@pytest.mark.parametrize("tried", [GRID[::2], pytest.param(GRID, marks=pytest.mark.slow)], ids=["coarse", "fine"])
def test_groups_make_what_the_whole_farm_makes(tmp_path, tried):
    """Two pairs far apart: the joint optimum is that of each pair, and so is the power."""
    whole = hc.wakes.FlorisModel(farm_file(tmp_path, [0.0, 400.0, 0.0, 400.0], [0.0, 0.0, 3000.0, 3000.0]))
    groups = GroupedModel(whole)
    assert [each.tolist() for each in groups_of(whole.farm, 270.0)] == [[0, 1], [2, 3]]
    random = np.random.default_rng(1)
    # Along the pairs; from north and south wakes of 36 diameters would meet, which groups leave out.
    directions, speeds = random.uniform(235, 305, 40), random.uniform(5, 12, 40)
    offsets = random.choice(GRID, (40, 4))
    parts, all_of_it = (each.power(directions, speeds, offsets) for each in (groups, whole))
    np.testing.assert_allclose(parts, all_of_it, rtol=0.01)
    np.testing.assert_allclose(parts.sum(axis=1), all_of_it.sum(axis=1), rtol=0.003)
    aligned = np.array([270.0, 268.0, 90.0])
    eight = np.full(3, 8.0)
    apart, together = groups.best_offsets(aligned, eight, 20.0), whole.best_offsets(aligned, eight, 20.0)
    np.testing.assert_allclose(
        whole.power(aligned, eight, apart).sum(axis=1), whole.power(aligned, eight, together).sum(axis=1), rtol=1e-3
    )
    # And all joint vectors of the four, by brute force, are hardly better.
    vectors = np.array(list(itertools.product(tried, repeat=4)))
    best = whole.power(270.0, 8.0, vectors).sum(axis=1).max()
    alone = whole.power(270.0, 8.0, np.zeros((1, 4))).sum()
    found = whole.power(270.0, 8.0, apart[:1]).sum()
    assert found - alone >= 0.95 * (best - alone)


def test_wake_parameters_can_be_changed(model):
    other = hc.wakes.FlorisModel(hc.wakes.bundled_farm_file(), changes={"ka": 1.3})
    still = np.zeros((1, 4))
    assert other.power(158.0, 8.0, still).sum() != pytest.approx(model.power(158.0, 8.0, still).sum(), rel=1e-4)
    with pytest.raises(InvalidInput, match="has no parameter 'kx'; its parameters are"):
        hc.wakes.FlorisModel(hc.wakes.bundled_farm_file(), changes={"kx": 1.3})


def test_our_serial_refine_takes_the_steps_of_floris(tmp_path):
    """To the last bit, with the whole farm as what notices a turbine."""
    row = hc.wakes.FlorisModel(farm_file(tmp_path, [0.0, 400.0, 800.0], [0.0, 30.0, -10.0]))
    d, u = np.array([268.0, 274.0, 92.0, 10.0]), np.array([7.0, 9.0, 8.0, 8.0])

    def whole(rows, yaw, turbine):
        return row.power(d[rows], u[rows], yaw).sum(axis=1)

    blows = np.radians(270.0 - d)
    orders = [np.argsort(row.farm.x * np.cos(b) + row.farm.y * np.sin(b)) for b in blows]
    found = serial_refine(whole, orders, 3, 25.0)
    np.testing.assert_array_equal(found, row.best_offsets(d, u, 25.0))
    assert found[:3].any(axis=1).all()


def test_named_turbines_make_what_floris_makes_of_them(tmp_path):
    data = yaml.safe_load(farm_file(tmp_path, [0.0, 700.0, 1500.0], [0.0, 50.0, 0.0]).read_text())
    data["farm"]["turbine_type"] = ["nrel_5MW", "iea_10MW", "nrel_5MW"]
    data["flow_field"]["reference_wind_height"] = 90.0
    path = tmp_path / "farm.yaml"
    path.write_text(yaml.safe_dump(data))
    ours, theirs = hc.wakes.FlorisModel(path), floris.FlorisModel(str(path))
    d, u = np.array([270.0, 90.0, 265.0]), np.array([8.0, 9.0, 7.0])
    offsets = np.array([[0.0, 0.0, 0.0], [10.0, -15.0, 20.0], [20.0, 5.0, 0.0]])
    theirs.set(wind_directions=d, wind_speeds=u, turbulence_intensities=np.full(3, 0.06), yaw_angles=offsets)
    theirs.run()
    np.testing.assert_array_equal(ours.power(d, u, offsets), theirs.get_turbine_powers() / 1000.0)
    assert ours.kinds([0, 1, 2]) == (0, 1, 0)
    other = yaml.safe_load(path.read_text())
    other["wake"]["wake_velocity_parameters"]["gauss"]["ka"] = 0.5
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(other))
    assert hc.wakes.FlorisModel(path).digest == ours.digest != hc.wakes.FlorisModel(tmp_path / "other.yaml").digest


def test_floris_says_its_warnings_once_and_what_it_cannot_compute_is_one_line(tmp_path, capfd):
    data = yaml.safe_load(farm_file(tmp_path, [0.0, 400.0], [0.0, 0.0]).read_text())
    data["wake"].update(enable_secondary_steering=False, enable_transverse_velocities=False)
    data["wake"]["enable_yaw_added_recovery"] = False
    data["wake"]["model_strings"]["velocity_model"] = "turbopark"  # FLORIS warns of it whenever it is used
    path = tmp_path / "farm.yaml"
    path.write_text(yaml.safe_dump(data))
    model = hc.wakes.FlorisModel(path)
    assert "TurbOPark" in capfd.readouterr().err  # of wakes that are deflected: it was tried out
    model.power(270.0, 8.0, np.zeros((1, 2)))
    model.part([0]).power(270.0, 8.0, np.zeros((1, 1)))
    assert capfd.readouterr().err == ""
    data["wake"]["wake_velocity_parameters"]["gauss"]["ka"] = "much"
    data["wake"]["model_strings"]["velocity_model"] = "gauss"
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(InvalidInput, match=r"FLORIS .*: .*Error: .*") as said:
        hc.wakes.FlorisModel(path)
    assert "\n" not in str(said.value)


def test_files_that_are_no_farm(tmp_path):
    with pytest.raises(InvalidInput, match="there is no file"):
        hc.wakes.FlorisModel(tmp_path / "none.yaml")
    data = yaml.safe_load(hc.wakes.bundled_farm_file().read_text())
    data["farm"]["turbine_type"] = ["windmill"]
    (tmp_path / "windmill.yaml").write_text(yaml.safe_dump(data))
    with pytest.raises(InvalidInput, match="The turbine type: windmill does not exist"):
        hc.wakes.FlorisModel(tmp_path / "windmill.yaml")
    (tmp_path / "text.yaml").write_text("hello: world\n")
    with pytest.raises(InvalidInput, match=r"FLORIS cannot read it: .*\. Give a FLORIS input file"):
        hc.wakes.FlorisModel(tmp_path / "text.yaml")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data["wake"]["model_strings"].update(deflection_model="none"), "there is nothing to steer"),
        (
            lambda data: data["flow_field"].update(
                heterogeneous_inflow_config={
                    "speed_multipliers": [[1.0, 1.1, 1.0, 1.1]],
                    "x": [-9e3, -9e3, 9e3, 9e3],
                    "y": [-9e3, 9e3, -9e3, 9e3],
                }
            ),
            "differs from place to place",
        ),
    ],
)
def test_models_that_cannot_answer_are_refused(change, message, tmp_path):
    data = yaml.safe_load(hc.wakes.bundled_farm_file().read_text())
    data["wake"].update(enable_secondary_steering=False, enable_transverse_velocities=False)
    change(data)
    (tmp_path / "farm.yaml").write_text(yaml.safe_dump(data))
    with pytest.raises(InvalidInput, match=message):
        hc.wakes.FlorisModel(tmp_path / "farm.yaml")


@pytest.mark.parametrize("kind", ["jensen", "cc", "empirical_gauss"])
def test_other_wake_models_are_steered_too(kind, tmp_path):
    """Three turbines in a row, by each of FLORIS' families of models."""
    data = yaml.safe_load(farm_file(tmp_path, [0.0, 400.0, 800.0], [0.0, 0.0, 0.0]).read_text())
    usual = yaml.safe_load((Path(floris.__file__).parent / "default_inputs.yaml").read_text())["wake"]
    names = {
        "jensen": {"velocity_model": "jensen", "deflection_model": "jimenez"},
        "cc": {"velocity_model": "cc", "deflection_model": "gauss"},
        "empirical_gauss": {
            "velocity_model": "empirical_gauss",
            "deflection_model": "empirical_gauss",
            "turbulence_model": "wake_induced_mixing",
        },
    }
    data["wake"] = usual | {"model_strings": usual["model_strings"] | names[kind]}
    if kind != "cc":
        data["wake"] |= {"enable_secondary_steering": False, "enable_transverse_velocities": False}
    if kind != "jensen":
        data["wake"]["enable_yaw_added_recovery"] = False
    (tmp_path / "farm.yaml").write_text(yaml.safe_dump(data))
    table = build_table(
        hc.wakes.FlorisModel(tmp_path / "farm.yaml"), most=20.0, step=20.0, direction_step=30.0, speeds=(8.0, 9.0)
    )
    assert table.lookup[9].any()  # along the row
    assert not table.lookup[0].any()
    assert np.isfinite(table.planned).all()


def test_without_floris_the_rest_works_and_the_model_names_the_remedy():
    code = """
import sys
sys.modules["floris"] = None
import holdcourse as hc
print(hc.wakes.bundled_table().n)
try:
    hc.wakes.FlorisModel(hc.wakes.bundled_farm_file())
except hc.errors.MissingExtra as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["46", 'wake models are computed by FLORIS: pip install "holdcourse[wakes]"']
