"""Sweeps, trial plans and maps on a Dask cluster whose workers die again and again, and are replaced."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.continent import write_continent
from tests.helpers.dask_cluster import dask_cluster

import holdcourse as hc
from holdcourse.experiments.paper import SyntheticConfig, SyntheticPlan
from holdcourse.experiments.runner import run_sweep
from holdcourse.wind.maps.run import FIGURES, WAITING, MapPlan, wind_map

pytest.importorskip("distributed", reason="the dask extra is not installed")
pytestmark = pytest.mark.slow

SWEEP = SyntheticPlan(functions=8, rounds=200, sweep_rho=(1.0,), sweep_rounds=100, world=SyntheticConfig(grid=12))
KILLS = 4


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


@contextmanager
def mortality(cluster, worked, deaths):
    """Kill the oldest worker whenever some more work is saved, and start another, until all deaths are died."""
    ended = threading.Event()

    def kill():
        for k in range(deaths):
            before = worked()
            while worked() <= before and not ended.is_set():
                time.sleep(0.02)
            if ended.is_set():
                return
            cluster.workers[k].kill()
            died.append(worked())
            cluster.add_worker()

    died: list[int] = []
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield died
    finally:
        ended.set()
        killer.join()


def test_a_sweep_whose_workers_die_four_times(tmp_path, record_property):
    from holdcourse.ext.dask import cluster as connect

    run_sweep(SWEEP.sweep(), tmp_path / "here", workers=1)
    runs = tmp_path / "dask" / "runs"
    with (
        dask_cluster() as cluster,
        connect(cluster.address) as executor,
        mortality(cluster, lambda: len(list(runs.glob("*.npz"))), KILLS) as died,
    ):
        report = run_sweep(SWEEP.sweep(), tmp_path / "dask", executor=executor)
    record_property("runs saved when workers died", str(died))
    assert len(died) >= 2
    assert not report.failed
    assert contents(tmp_path / "dask") == contents(tmp_path / "here")


def test_a_map_whose_workers_die(tmp_path, record_property):
    from holdcourse.ext.dask import cluster as connect

    files = [str(path) for path in write_continent(tmp_path, 3, 4, 24 * 28)]
    plan = MapPlan("skysails", count=6)
    here = wind_map(files, plan, tmp_path / "here")
    blocks = tmp_path / "dask" / "blocks"
    with (
        dask_cluster() as cluster,
        connect(cluster.address) as executor,
        mortality(cluster, lambda: len(list(blocks.glob("*.block"))), 3) as died,
    ):
        there = wind_map(files, plan, tmp_path / "dask", executors=[lambda: executor], at_once=WAITING, side=1)
    record_property("blocks saved when workers died", str(died))
    assert died
    assert len(list(blocks.glob("*.block"))) == 12
    for name in FIGURES:
        assert np.array_equal(there.figures[name], here.figures[name], equal_nan=True), name


def planned(seed):
    """A trial plan in a world of ours, in JSON values; runs on a worker."""
    world = hc.SyntheticWorld.sample(seed=seed, grid=5, contexts=3)
    contexts = world.context_sequence("iid", rounds=600)
    arms = hc.gp_md(world.problem), hc.stationary(world.problem)
    return hc.plan_trial(*arms, world, contexts, gain=5, rehearsals=1).to_data()


def test_trial_plans_whose_workers_die(record_property):
    from holdcourse.ext.dask import cluster as connect

    seeds = range(20, 28)
    with dask_cluster() as cluster, connect(cluster.address) as executor:
        futures = [executor.submit(planned, seed) for seed in seeds]
        with mortality(cluster, lambda: sum(future.done() for future in futures), 3) as died:
            found = [future.result(timeout=300) for future in futures]
    record_property("plans done when workers died", str(died))
    assert died
    assert found == [planned(seed) for seed in seeds]
