"""Maps: what a place is worth, blocks that are read and resumed, and the command."""

from __future__ import annotations

import json
import os
import signal
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.continent import write_continent
from typer.testing import CliRunner

import holdcourse as hc
from holdcourse.errors import HoldcourseError, InvalidInput
from holdcourse.wind.machines import machine
from holdcourse.wind.maps import run
from holdcourse.wind.maps.blocks import lattice, winds
from holdcourse.wind.maps.run import FIGURES, MapPlan, draw_map, fly_block, wind_map, write_map
from holdcourse.wind.maps.worth import worth_of
from holdcourse.wind.physics import wind_world

pytest.importorskip("xarray", reason="the wind extra is not installed")

FORMATS = Path("../shared/data/formats")
PLAN = MapPlan("skysails", count=6)


@pytest.fixture(scope="module")
def continent(tmp_path_factory):
    return [str(path) for path in write_continent(tmp_path_factory.mktemp("continent"), 1, 3, 24 * 28, months=2)]


@pytest.fixture(scope="module")
def whole(continent, tmp_path_factory):
    return wind_map(continent, PLAN, tmp_path_factory.mktemp("map"))


def equal(one, other):
    return all(np.array_equal(one.figures[name], other.figures[name], equal_nan=True) for name in FIGURES)


def test_a_point_of_the_map_is_what_a_single_site_gives(continent, whole):
    """The same wind, read the usual way by `load`, worked out alone."""
    north, east = float(whole.lattice.latitudes[0]), float(whole.lattice.longitudes[2])
    data = hc.wind.load(continent, lat=north, lon=east).onto(PLAN.altitudes)
    machine = hc.wind.machine("skysails")
    world = wind_world(data.time, PLAN.altitudes, data.speed.copy(), curve=machine.curve, movement="physical")
    assert asdict(worth_of(world)) == {name: array[0, 2] for name, array in whole.figures.items()}


def test_every_point_has_plausible_figures(whole):
    figures = whole.figures
    assert all(np.isfinite(array).all() for array in figures.values())
    assert not whole.blank
    assert (figures["coverage"] == 1.0).all()
    assert set(figures["best_altitude"].ravel()) <= set(PLAN.altitudes)
    assert (figures["gain_p90"] <= figures["gain"]).all()
    assert figures["fixed_energy"][:, 0].mean() > figures["fixed_energy"][:, 2].mean()  # wind is weaker over land


def test_blocks_of_any_size_give_the_same_map(continent, whole, tmp_path):
    small = wind_map(continent, PLAN, tmp_path / "small", side=1)
    assert len(small.lattice.blocks) == 3
    assert len(whole.lattice.blocks) == 1
    assert equal(small, whole)


def test_it_goes_on_where_it_was_stopped(continent, whole, tmp_path, monkeypatch):
    flown = []

    def counted(*task):
        flown.append(task)
        if len(flown) == 3:
            raise KeyboardInterrupt
        return fly_block(*task)

    monkeypatch.setattr(run, "fly_block", counted)
    with pytest.raises(KeyboardInterrupt):
        wind_map(continent, PLAN, tmp_path, side=1)
    saved = sorted((tmp_path / "blocks").glob("*.block"))
    assert len(saved) == 2
    saved[0].write_bytes(saved[0].read_bytes()[:-20])  # the disk was full
    again = wind_map(continent, PLAN, tmp_path, side=1)
    assert again.found == 1
    assert len(flown) == 3 + 2
    assert equal(again, whole)
    with pytest.raises(InvalidInput, match="a map of other files or options"):
        wind_map(continent, MapPlan("v3", count=6), tmp_path, side=1)
    assert equal(wind_map(continent, PLAN, tmp_path, side=2, fresh=True), whole)


class Mortal(Executor):
    """An executor whose worker dies at the tasks with these numbers, counted over all of them."""

    given = 0
    starts = 0

    def __init__(self, dies_at, idle=False):
        self.dies_at, self.dead, self.idle = dies_at, False, idle
        Mortal.starts += 1

    def submit(self, function, /, *task):
        Mortal.given += 1
        future: Future = Future()
        self.dead = self.dead or Mortal.given in self.dies_at
        if self.dead and self.idle:
            raise BrokenExecutor("it died before")
        if self.dead:
            future.set_exception(BrokenExecutor("killed"))
        else:
            future.set_result(function(*task))
        return future


@pytest.mark.parametrize("idle", [False, True])
def test_a_worker_that_dies_loses_its_block_only(continent, whole, tmp_path, monkeypatch, idle):
    monkeypatch.setattr(Mortal, "given", 0)
    monkeypatch.setattr(Mortal, "starts", 0)
    found = wind_map(continent, PLAN, tmp_path, side=1, executors=[lambda: Mortal({2, 4}, idle)] * 2)
    assert Mortal.given == 3 + 2
    assert Mortal.starts == 2 + 2
    assert equal(found, whole)


def test_a_block_that_kills_every_worker_is_told_with_a_remedy(continent, tmp_path, monkeypatch):
    monkeypatch.setattr(Mortal, "given", 0)
    with pytest.raises(HoldcourseError, match=r"block 0 has lost 3 workers .* side="):
        wind_map(continent, PLAN, tmp_path, side=1, executors=[lambda: Mortal(set(range(100)))])


class KilledWorker(Exception):
    """What Dask says of a block whose workers were lost."""


class Cluster(Executor):
    """One executor for all lanes, as Dask's is: it loses a worker at its last block, and is over once shut down."""

    given, over = 0, False

    def submit(self, function, /, *task):
        if self.over:
            raise RuntimeError("cannot schedule new futures after shutdown")
        self.given += 1
        future: Future = Future()
        if self.given == 3:
            future.set_exception(KilledWorker("lost"))
        else:
            future.set_result(function(*task))
        return future

    def shutdown(self, wait=True, *, cancel_futures=False):
        self.over = True


def test_a_cluster_that_loses_a_worker_at_the_last_block_goes_on(continent, whole, tmp_path):
    cluster = Cluster()
    assert equal(wind_map(continent, PLAN, tmp_path, side=1, executors=[lambda: cluster]), whole)
    assert cluster.given == 4


def calm_nights(folder, point):
    """A continent of 40 days of which one point has wind for 15 of 24 hours only."""
    import xarray

    paths = write_continent(folder, 1, 2, 24 * 40)
    with xarray.open_dataset(paths[1], engine="h5netcdf") as data:
        changed = data.load()
    for name in ("u", "v"):
        changed[name].values[np.arange(24 * 40) % 24 >= 15, :, :, point] = np.nan
    changed.to_netcdf(paths[1], engine="h5netcdf")
    return [str(path) for path in paths]


def test_a_point_with_gaps_every_day_is_blank_and_the_others_are_there(tmp_path):
    files = calm_nights(tmp_path, 1)
    found = wind_map(files, PLAN, tmp_path / "map")
    assert np.isfinite(found.figures["gain"][0]).tolist() == [True, False]
    assert found.blank == {"no stretch of 24 hours without a gap": 1}
    assert any(line.startswith("1 point is blank") for line in found.words)


def test_an_error_of_one_point_leaves_the_others(continent, whole, tmp_path, monkeypatch):
    worked = run._worth  # private: what is done at one point, replaced by what fails at some
    calls = []

    def failing(*given):
        calls.append(given)
        if len(calls) > 1:
            raise InvalidInput(f"{len(calls)} hours are odd")
        return worked(*given)

    monkeypatch.setattr(run, "_worth", failing)  # as above
    found = wind_map(continent, PLAN, tmp_path)
    assert np.isfinite(found.figures["gain"]).sum() == 1
    assert found.blank == {"for example, 2 hours are odd": 2}  # numbers make no second reason


def test_a_map_from_an_archive(continent, whole, tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "wind.zip", "w") as archive:
        for path in continent:
            archive.write(path, Path(path).name)
    assert equal(wind_map([str(tmp_path / "wind.zip")], PLAN, tmp_path / "map"), whole)


def test_another_curve_in_the_machines_file_is_another_map(continent, tmp_path):
    machine = tmp_path / "kite.csv"
    machine.write_text("speed,power\n3,0\n12,100\n25,100\n")
    plan = MapPlan(str(machine), count=6)
    first = wind_map(continent, plan, tmp_path / "map")
    assert wind_map(continent, plan, tmp_path / "map").found == len(first.lattice.blocks)
    machine.write_text("speed,power\n3,0\n10,100\n25,100\n")
    with pytest.raises(InvalidInput, match="a map of other files or options"):
        wind_map(continent, plan, tmp_path / "map")


def test_the_price_of_a_metre_is_said(whole):
    price = machine(PLAN.machine).movement_cost("physical")
    assert whole.words[0].endswith(f"a metre of altitude costs {price:.3g} kWh.")


def test_a_calm_record_is_not_called_short(whole):
    figures = {name: array.copy() for name, array in whole.figures.items()}
    for name in ("gain", "gain_p90"):
        figures[name][:] = np.nan
    figures["fixed_energy"][:] = 0.0
    words = " ".join(replace(whole, figures=figures).words)
    assert "At 3 points the machine makes no energy" in words
    assert "too short" not in words


def test_a_place_without_enough_wind_is_blank_with_the_reason(continent, tmp_path):
    found = wind_map(continent, MapPlan("skysails", low=50.0, high=900.0, count=4), tmp_path)
    assert np.isnan(found.figures["gain"]).all()
    assert found.blank == {"less than half of the hours have wind from 50 to 900 m above ground": 3}
    assert any("3 points are blank" in line for line in found.words)


def test_written_as_netcdf_and_zarr_with_units(whole):
    import xarray

    pytest.importorskip("zarr", reason="zarr is not installed")
    for path, engine in ((write_map(whole), "h5netcdf"), (write_map(whole, "zarr"), "zarr")):
        with xarray.open_dataset(path, engine=engine) as data:
            assert data["gain"].attrs["units"] == "percent"
            assert data.attrs["machine"] == "skysails"
            assert np.array_equal(data["gain"].values, whole.figures["gain"])
            assert data["latitude"].values.tolist() == whole.lattice.latitudes.tolist()


def test_a_picture(whole):
    pytest.importorskip("matplotlib", reason="the plot extra is not installed")
    assert draw_map(whole).stat().st_size > 20_000


@pytest.mark.parametrize("as_written", [[359.5, 359.75, 0.0], [0.0, 359.5, 359.75]])
def test_a_region_across_greenwich_is_drawn_in_one_part(as_written):
    east, columns = run.side_by_side(np.array(as_written))
    assert east.tolist() == [-0.5, -0.25, 0.0]
    assert [as_written[k] for k in columns] == [359.5, 359.75, 0.0]
    assert run.side_by_side(np.array([170.0, -170.0]))[0].tolist() == [170.0, 190.0]  # and across the date line
    assert run.side_by_side(np.array([3.0, 2.0, 1.0]))[1].tolist() == [2, 1, 0]
    assert run.side_by_side(np.array([0.0, 120.0, 240.0]))[0].tolist() == [0.0, 120.0, 240.0]  # all around


def test_a_missing_month_is_told(tmp_path):
    ground, first, _, last = (str(path) for path in write_continent(tmp_path, 1, 1, 24 * 45, months=3))
    found = wind_map([ground, first, last], PLAN, tmp_path / "map")
    assert found.figures["coverage"][0, 0] == pytest.approx(2 / 3, abs=0.01)
    assert "The record has gaps: at the median point 67 % of its hours were flown." in found.words


def test_what_cannot_be_a_map(tmp_path, continent):
    table = tmp_path / "site.csv"
    table.write_text("time,10 m,100 m\n2010-01-01T00:00Z,5,6\n")
    with pytest.raises(InvalidInput, match="of one site"):
        wind_map([str(table)], PLAN, tmp_path / "map")
    with pytest.raises(InvalidInput, match="none of the files contains wind"):
        lattice([continent[0]])
    with pytest.raises(InvalidInput, match="no machine is called 'kyte'"):
        wind_map(continent, MapPlan("kyte"), tmp_path / "map")
    with pytest.raises(InvalidInput, match="two or more altitudes"):
        wind_map(continent, MapPlan(low=500.0, high=100.0), tmp_path / "map")
    with pytest.raises(InvalidInput, match="movement 'cheap' is not known"):
        wind_map(continent, MapPlan(movement="cheap"), tmp_path / "map")
    assert not (tmp_path / "map").exists()


@pytest.mark.skipif(not FORMATS.is_dir(), reason="the samples are not here")
def test_samples_of_the_climate_data_store(tmp_path):
    files = sorted(str(path) for path in FORMATS.glob("era5_*walnut_gulch*.nc"))
    found = wind_map(files, MapPlan(), tmp_path)
    assert found.figures["best_altitude"].shape == (3, 3)
    assert np.isfinite(found.figures["best_altitude"]).all()
    assert np.isnan(found.figures["gain"]).all()
    assert any("too short" in line for line in found.words)
    draw_map(found)
    european = [str(FORMATS / "euroc_2022_all_windows.nc")]
    axes = lattice(european)
    rows = list(winds(european, axes.latitudes[:1], axes.longitudes[:2], surface_height=0.0))
    assert [(i, j) for i, j, _ in rows] == [(0, 0), (0, 1)]
    assert all(isinstance(wind, hc.wind.WindData) for _, _, wind in rows)


def test_the_command(continent, whole, tmp_path):
    from holdcourse.cli.root import app

    options = ["wind", "map", *continent, "--out", str(tmp_path), "--machine", "skysails", "--count", "6"]
    done = CliRunner().invoke(app, [*options, "--workers", "1", "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert Path(said["map"]).exists()
    assert Path(said["picture"]).exists()
    assert said["words"] == whole.words
    assert said["median"]["gain"] == pytest.approx(float(np.median(whole.figures["gain"])))


def test_a_missing_library_is_told_before_the_work(continent, tmp_path, monkeypatch):
    import sys

    from holdcourse.cli.root import app
    from holdcourse.errors import MissingExtra

    for missing, form in (("matplotlib", "netcdf"), ("zarr", "zarr")):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, missing, None)
            done = CliRunner().invoke(
                app, ["wind", "map", *continent, "--out", str(tmp_path / "map"), "--workers", "1", "--format", form]
            )
        assert done.exit_code != 0
        assert missing in done.output or isinstance(done.exception, MissingExtra)
        assert not (tmp_path / "map").exists()


def test_an_interrupted_map_speaks_of_blocks(continent, tmp_path, monkeypatch):
    from holdcourse.cli.root import app

    def interrupted(*task):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "fly_block", interrupted)
    done = CliRunner().invoke(app, ["wind", "map", *continent, "--out", str(tmp_path / "map"), "--workers", "1"])
    assert done.exit_code == 1
    assert "finished blocks are in" in " ".join(done.output.split())


def test_a_blank_point_names_the_option_that_fills_it(continent, tmp_path, monkeypatch):
    from holdcourse.cli.root import app

    def blank(paths, latitudes, longitudes, plan):
        shape = (len(latitudes), len(longitudes))
        return {name: np.full(shape, np.nan) for name in FIGURES}, ["no ground; give surface_height="] * np.prod(shape)

    monkeypatch.setattr(run, "fly_block", blank)
    done = CliRunner().invoke(app, ["wind", "map", *continent, "--out", str(tmp_path / "map"), "--workers", "1"])
    assert "blank: no ground; give --surface-height." in done.output, done.exception


@pytest.mark.slow
def test_real_workers_that_are_killed(continent, whole, tmp_path):
    """Two processes, one of which is killed at its first block, as often as the system likes."""
    import psutil

    from holdcourse.cli.wind import one_worker

    killed = []

    def progress(done, total):
        if done and not killed:
            victim = psutil.Process().children(recursive=True)[-1]
            killed.append(victim.pid)
            os.kill(victim.pid, signal.SIGKILL)

    found = wind_map(continent, PLAN, tmp_path, side=1, executors=[one_worker] * 2, progress=progress)
    assert killed
    assert equal(found, whole)
