"""Runs, sweeps and records as tables of pandas and xarray."""

from __future__ import annotations

import importlib
import re
import sys

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import holdcourse as hc
from holdcourse.errors import InvalidInput, MissingExtra
from holdcourse.experiments.results import Results
from holdcourse.experiments.runner import run_sweep
from holdcourse.experiments.sweepfile import load_sweep
from holdcourse.ext.frames import record_dataset, record_frame, runs_dataset, runs_frame, sweep_frame

WORLD = hc.SyntheticWorld.sample(seed=3, grid=3, contexts=5)
CONTEXTS = WORLD.context_sequence("iid", rounds=12, seed=1)
HOURS = np.arange("2026-01-01T00", "2026-01-01T12", dtype="datetime64[h]")


def run(make=hc.minc_known, **options):
    return hc.simulate(make(WORLD.problem), WORLD, CONTEXTS, start=4, episodes=2, **options)


@pytest.mark.parametrize("missing", ["pandas", "xarray"])
def test_the_missing_part_is_named_with_its_command(missing, monkeypatch):
    done = run(hc.stationary)
    monkeypatch.setitem(sys.modules, missing, None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "holdcourse.ext.frames")
    with pytest.raises(MissingExtra, match=re.escape('pip install "holdcourse[frames]"')):
        importlib.import_module("holdcourse.ext.frames").runs_dataset(done)


def test_a_frame_holds_the_rows_of_a_run():
    done = run()
    frame = runs_frame(done)
    rows = pd.DataFrame(done.rows())
    pd.testing.assert_frame_equal(frame[rows.columns.tolist()], rows, check_dtype=False)
    assert set(frame["run"]) == {"MinC-Known"}


def test_several_runs_in_one_frame():
    runs = {"chase": run(), "stay": run(hc.stationary)}
    frame = runs_frame(runs, context_names=["load"], time=HOURS, units={"service": "kWh"})
    sums = frame.groupby("run")[["service", "movement"]].sum()
    for name, done in runs.items():
        assert sums.loc[name, "service"] == pytest.approx(done.service)
        assert sums.loc[name, "movement"] == pytest.approx(done.movement)
    assert frame.attrs["units"] == {"service": "kWh"}
    np.testing.assert_array_equal(frame.loc[frame["run"] == "stay", "time"], HOURS)
    np.testing.assert_array_equal(frame["load"][:12], CONTEXTS[:, 0])


def test_runs_without_names_are_told_apart():
    names = runs_frame([run(seed=1), run(seed=2), run(hc.stationary)])["run"].unique()
    assert list(names) == ["MinC-Known 1", "MinC-Known 2", "Stationary"]


def test_a_dataset_has_coordinates_and_units(tmp_path):
    runs = {"chase": run(), "stay": run(hc.stationary)}
    units = {"service": "kWh", "cost": "kWh", "load": "MW"}
    dataset = runs_dataset(runs, context_names=["load"], time=HOURS, units=units, costs=True)
    assert dict(dataset.sizes) == {"run": 2, "round": 12, "setting": 9}
    assert dataset["service"].attrs == {"long_name": "true service cost", "units": "kWh"}
    np.testing.assert_array_equal(dataset["service"].sel(run="stay"), runs["stay"].service_costs)
    for t in range(12):
        np.testing.assert_array_equal(dataset["cost"].sel(run="chase")[t], WORLD.costs(t, CONTEXTS[t]))
    cheapest = dataset["cost"].min("setting")
    assert bool((cheapest <= dataset["service"]).all())
    assert dataset.sel(run="chase")["time"].values[3] == HOURS[3]
    dataset.to_netcdf(tmp_path / "runs.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "runs.nc", engine="h5netcdf") as read:
        assert read["movement"].sum().item() == pytest.approx(sum(done.movement for done in runs.values()))
        assert read["load"].attrs["units"] == "MW"


def test_settings_have_names():
    knobs = hc.Problem(hc.grid(workers=[1, 2], cache=[64, 256]))
    world = hc.SyntheticWorld.sample(seed=1, problem=knobs, contexts=3)
    done = hc.simulate(hc.stationary(knobs), world, world.contexts)
    assert runs_dataset(done, costs=True)["cache"].values.tolist() == [64, 256, 64, 256]
    named = hc.Problem([1.0, 2.0], labels=["low", "high"])
    world = hc.SyntheticWorld.sample(seed=1, problem=named, contexts=3)
    done = hc.simulate(hc.stationary(named), world, world.contexts)
    assert runs_dataset(done, costs=True)["setting_label"].values.tolist() == ["low", "high"]
    assert runs_frame(done)["value"].tolist() == ["low"] * 3


def test_contexts_of_several_numbers():
    world = hc.SyntheticWorld.sample(seed=1, grid=2, contexts=[[0.1, 0.2], [0.3, 0.4]])
    done = hc.simulate(hc.stationary(world.problem), world, world.contexts)
    assert runs_frame(done)["context_1"].tolist() == [0.2, 0.4]
    assert runs_dataset(done)["context_0"].values.tolist() == [[0.1, 0.3]]


def test_what_does_not_fit_is_refused():
    short = hc.simulate(hc.stationary(WORLD.problem), WORLD, CONTEXTS[:5])
    world = hc.SyntheticWorld.sample(seed=1, grid=2, contexts=[[0.1, 0.2]])
    wide = hc.simulate(hc.stationary(world.problem), world, np.repeat(world.contexts, 12, axis=0))
    world = hc.SyntheticWorld.sample(seed=1, grid=2, contexts=1)
    small = hc.simulate(hc.stationary(world.problem), world, np.repeat(world.contexts, 12, axis=0))
    for call, complaint in [
        (lambda: runs_frame([]), "no runs"),
        (lambda: runs_dataset([run(), short]), "the same number in each"),
        (lambda: runs_frame(run(), context_names=["a", "b"]), "context_names"),
        (lambda: runs_frame(run(), time=HOURS[:3]), "one entry for each of the 12 rounds"),
        (lambda: runs_dataset(run(), units={"energy": "kWh"}), "units names 'energy'"),
        (
            lambda: runs_frame(run(), units={"energy": "kWh"}),
            "units names 'energy', which is not a column; the columns are .*'movement'",
        ),
        (lambda: runs_dataset([run(), wide]), r"\[1, 2\] numbers in a context"),
        (lambda: runs_dataset([run(), small], costs=True), r"\[4, 9\] settings"),
    ]:
        with pytest.raises(InvalidInput, match=complaint):
            call()


def test_a_sweep_in_a_frame(tmp_path):
    (tmp_path / "small.toml").write_text(
        """
name = "small"
rounds = 5
rho = [1.0]
starts = [0]

[actions]
values = [0.0, 1.0, 2.0]

[contexts]
values = [0.0, 1.0]

[costs]
noise_std = 0.1
table = [[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]

[[policies]]
name = "minc-known"
"""
    )
    run_sweep(load_sweep(tmp_path / "small.toml"), tmp_path / "out")
    frame = sweep_frame(Results.load(tmp_path / "out"))
    assert {"minc-known", "clairvoyant"} == set(frame["policy"])
    np.testing.assert_allclose(frame["total"], frame["service"] + frame["movement"])


def recorded(path, rounds=6):
    """A controller with a limit, an operator's own choice, a skipped measurement, a new episode and a pending one."""
    problem = hc.Problem([100.0, 200.0, 400.0], scale=0.01)
    controller = hc.Controller(hc.minc_known(problem), start_index=0, log=path, limits=hc.Limits(max_step_cost=1.0))
    for t in range(rounds):
        if t == 4:
            controller.new_episode(start_index=2, force="by hand")
        decision = controller.ask(context=[t, 10 * t], costs=[3.0, 2.0, 1.0])
        if t == 1:
            controller.tell(decision.id, 5.0, applied_index=0)
        elif t == 2:
            controller.tell(decision.id, None)
        elif t < rounds - 1:
            controller.tell(decision.id, float(t))
    return controller


def test_a_record_in_a_frame(tmp_path):
    path = tmp_path / "plant.log"
    with recorded(path) as controller:
        live = record_frame(controller, context_names=["load", "price"], units={"movement": "kWh"})
    frame = record_frame(path, context_names=["load", "price"], units={"movement": "kWh"})
    pd.testing.assert_frame_equal(live, frame)
    assert frame.index.tolist() == list(range(6))
    assert frame["episode"].tolist() == [0, 0, 0, 0, 1, 1]
    assert frame["price"].tolist() == [0, 10, 20, 30, 40, 50]
    assert frame["wanted"].tolist() == [2] * 6
    assert frame["limited_by"].tolist()[:2] == ["max_step"] * 2
    assert frame["applied_index"].tolist()[1] == 0
    assert frame["applied"].tolist()[1] == 100.0
    assert frame["wanted_value"].tolist() == [400.0] * 6
    assert frame["value"].tolist() == [200.0, 100.0, 200.0, 200.0, 400.0, 400.0]
    # There and back again by the operator; the new episode begins at 400, where it stays.
    assert frame["movement"].tolist() == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    assert frame["measurement"].isna().tolist() == [False, False, True, False, False, True]
    assert frame["told"].isna().tolist() == [False] * 5 + [True]
    assert str(frame["asked"].dt.tz) == "UTC"


def test_movement_in_a_frame_is_that_of_the_machine(tmp_path):
    """Not that of the decision, where somebody instructed, watched or redirected the machine."""
    problem = hc.Problem([100.0, 200.0, 400.0], scale=0.01)
    with hc.Controller(hc.minc_known(problem), start_index=0, log=tmp_path / "plant.log") as controller:
        for wish in ({"instructed_index": 2}, {"watching": True}, {}):
            decision = controller.ask(costs=[3.0, 1.0, 2.0], **wish)
            if not wish:
                controller.redirect(wanted_index=0)
            controller.tell(decision.id, 1.0)
        frame = record_frame(controller)
    assert frame["action"].tolist() == [1, 1, 1]
    assert frame["value"].tolist() == [400.0, 400.0, 100.0]
    assert frame["movement"].tolist() == pytest.approx([3.0, 0.0, 3.0])


def test_a_record_in_a_dataset(tmp_path):
    recorded(tmp_path / "plant.log").close()
    dataset = record_dataset(tmp_path / "plant.log", context_names=["load", "price"], units={"movement": "kWh"})
    assert dataset["movement"].attrs["units"] == "kWh"
    assert dataset["applied_index"].values[1] == 0
    assert np.isnan(dataset["applied_index"].values[0])
    assert dataset["limited_by"].values[0] == "max_step"
    assert dataset["limited_by"].values[5] == ""
    assert np.issubdtype(dataset["asked"].dtype, np.datetime64)
    dataset.to_netcdf(tmp_path / "plant.nc", engine="h5netcdf")
    assert (tmp_path / "plant.nc").stat().st_size > 0


def test_records_that_say_too_little(tmp_path):
    problem = hc.Problem([1.0, 2.0])
    with hc.Controller(hc.gp_md(problem, prior_mean=lambda action, context: 0.0), log=tmp_path / "own.log") as own:
        assert record_frame(own).empty
        own.ask(context=None)
    with pytest.raises(InvalidInput, match="give problem="):
        record_frame(tmp_path / "own.log")
    assert record_frame(tmp_path / "own.log", problem=problem)["value"].tolist()[0] in (1.0, 2.0)
    with pytest.raises(InvalidInput, match="keeps no record"):
        record_frame(hc.Controller(hc.gp_md(problem)))
    hc.Controller(hc.gp_md(problem), log=tmp_path / "empty.log").close()
    with pytest.raises(InvalidInput, match="no decision yet"):
        record_dataset(tmp_path / "empty.log")


def test_what_was_taken_back_is_missing_and_the_reason_stands_beside_it(tmp_path):
    with recorded(tmp_path / "plant.log") as controller:
        controller.retract("r1", "the sensor was unplugged")
        frame = record_frame(controller)
    assert frame["measurement"].isna().tolist() == [False, True, True, False, False, True]
    assert frame["retracted"].dropna().to_dict() == {1: "the sensor was unplugged"}
    assert frame["applied_index"].tolist()[1] == 0  # the machine was there
    dataset = record_dataset(tmp_path / "plant.log")
    assert dataset["retracted"].values.tolist()[:2] == ["", "the sensor was unplugged"]
    dataset.to_netcdf(tmp_path / "plant.nc", engine="h5netcdf")
