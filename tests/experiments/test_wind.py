"""The wind reproduction: the paper's protocol on bundled data, and on files in the paper's layout."""

from __future__ import annotations

import numpy as np
import pytest

from holdcourse.errors import InvalidInput
from holdcourse.experiments.paper import BUNDLED_SITES, PAPER_ALTITUDES, WindPlan
from holdcourse.experiments.reproduce import wind_figures
from holdcourse.experiments.results import Results
from holdcourse.experiments.runner import run_sweep
from holdcourse.experiments.workers import execute

SMALL = WindPlan(rho=(1.0, 4.0), rounds=30, repetitions=2, starts=(0, 24))


def test_the_protocol_in_full():
    sweep = WindPlan().sweep()
    runs = [run for run in sweep.runs if run.policy.name == "gp-md" and run.problem == "nora3-2010-07"]
    assert {run.rounds for run in runs} == {960}
    assert {run.rho for run in runs} == {1, 2, 3, 4, 6, 8, 10}
    assert len(runs) == 7 * 25 * 3
    assert [run.world.site.variance for run in runs[:1]] == [6.85]
    assert {run.world.site.variance for run in sweep.runs if run.problem.endswith(("2008-07", "2010-10"))} == {12.94}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wind")
    report = run_sweep(SMALL.sweep(), folder, workers=1)
    assert not report.failed
    return Results.load(folder)


def test_net_energy_is_what_is_made_less_what_moving_takes(results):
    run = next(run for run in SMALL.sweep().runs if run.policy.name == "minc-known" and run.rho == 4.0)
    scene = run.world.scene(run)
    (outcome,) = execute([run])
    world, actions = scene.world, outcome.curves["actions"].astype(int)
    made = world.energy[np.arange(len(actions)), actions].sum()
    moved = world.problem.move_costs(np.append(scene.start, actions[:-1]), actions).sum()
    chosen = results.select(problem=run.problem, rho=4.0)
    first = next(k for k, row in enumerate(chosen.select(policies=["minc-known"]).rows) if row.start == run.start)
    assert chosen.final("minc-known", "net")[first] == pytest.approx(made - moved, rel=1e-5)
    assert outcome.numbers["service"] == pytest.approx(0, abs=1e-9)  # the paper's remark on MinC-Known


def test_what_is_run_without_chance_is_run_once():
    """Copies of one and the same run would make standard errors too small."""
    by_policy = {}
    for run in SMALL.sweep().runs:
        by_policy.setdefault(run.policy.name, set()).add(run.repetition)
    assert by_policy["gp-md"] == by_policy["md-known"] == {0, 1}
    for name in ("cgp-lcb", "minc-known", "stationary"):
        assert by_policy[name] == {0}
        run = next(run for run in SMALL.sweep().runs if run.policy.name == name and run.start == 24)
        first, second = execute([run, run.model_copy(update={"repetition": 1})])
        assert first.numbers == second.numbers


def test_figures_1_3_and_the_appendix(results):
    figures = wind_figures(results, SMALL)
    assert list(figures) == ["figure-1", "figure-3", "figure-4", "figure-5", "figure-6"]
    assert [len(figure.axes) for figure in figures.values()] == [1, 6, 3, 3, 3]
    labels = [line.get_label() for line in figures["figure-1"].axes[0].get_lines()]
    assert labels == ["GP-MD", "CGP-LCB", "Stationary"]
    titles = [ax.get_title() for ax in figures["figure-3"].axes]
    assert titles == [
        "North Sea, July 2010",
        r"Total energy ($\rho = 4$)",
        r"Service cost ($\rho = 4$)",
        r"Movement cost ($\rho = 4$)",
        r"Movement cost ($\rho = 1$)",
        "North Sea, July 2009",
    ]


def test_prior_mean_is_that_of_the_past():
    from holdcourse.wind import bundled

    run = SMALL.sweep().runs[0]
    policy = run.world.policy(run.policy, run, run.world.scene(run))
    past = bundled("history").at(run.world.altitudes).mean()
    np.testing.assert_allclose(policy.costs.posterior.predict(7.0)[0], past)


def test_periods_beyond_the_data_are_refused():
    late = BUNDLED_SITES[0].model_copy(update={"begin": "2030-01-01"})
    run = SMALL.model_copy(update={"sites": (late,)}).sweep().runs[0]
    (outcome,) = execute([run])
    assert "the wind data end at 2010-12-31" in outcome.error
    long = SMALL.model_copy(update={"rounds": 100_000}).sweep().runs[0]
    assert "give a smaller rounds=" in execute([long])[0].error


# -- the paper's own files --------------------------------------------------------------------------------------------


@pytest.fixture
def papers_files(tmp_path):
    """Two months in the layout of the paper's archive, at its three sites, smaller grid."""
    xarray = pytest.importorskip("xarray", reason="the wind extra is not installed")
    pytest.importorskip("h5netcdf", reason="the wind extra is not installed")
    random = np.random.default_rng(0)
    latitude, longitude = np.array([53.0, 47.0]), np.array([-10.0, -4.0, 6.0])
    level = np.arange(113, 138)
    for month in ("06", "07", "10"):
        begin = np.datetime64(f"2016-{month}-01T00", "ns")
        time = begin + np.arange(48) * np.timedelta64(1, "h").astype("timedelta64[ns]")
        shape = (len(time), len(level), len(latitude), len(longitude))
        dims = ("time", "level", "latitude", "longitude")
        wind = {name: (dims, random.uniform(2, 9, shape).astype("float32")) for name in ("u", "v")}
        coords = {"time": time, "level": level, "latitude": latitude, "longitude": longitude}
        xarray.Dataset(wind, coords).to_netcdf(tmp_path / f"ml_2016_{month}.netcdf", engine="h5netcdf")
    ground = {"z": (("latitude", "longitude"), np.full((2, 3), 981.0))}
    xarray.Dataset(ground, {"latitude": latitude, "longitude": longitude}).to_netcdf(
        tmp_path / "geopotential.netcdf", engine="h5netcdf"
    )
    return tmp_path


def test_the_papers_own_files(papers_files, tmp_path):
    plan = WindPlan(rho=(4.0,), rounds=24, repetitions=1, starts=(3,)).on(papers_files)
    assert plan.altitudes == PAPER_ALTITUDES
    report = run_sweep(plan.sweep(), tmp_path / "out", workers=1)
    assert not report.failed, report.failed[0][1].read_text()
    assert {row.problem for row in report.rows} == {"53N-10E", "53N-4E", "47N6E", "53N-10E-oct"}
    with np.load(next((tmp_path / "out" / "runs").iterdir())) as file:
        assert len(file["service"]) == 24  # any program can read the curves
    again = WindPlan(rho=(4.0,), rounds=24, repetitions=1, starts=(3,)).on(papers_files)
    assert [run.identity for run in again.sweep().runs] == [run.identity for run in plan.sweep().runs]


def test_a_folder_without_them_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"no file ml_2016_MM\.netcdf in"):
        WindPlan().on(tmp_path)
