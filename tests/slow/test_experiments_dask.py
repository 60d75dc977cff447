"""Sweeps on a real Dask cluster: scheduler and workers are processes of their own, and one is killed in mid-sweep."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from tests.helpers.dask_cluster import dask_cluster

from holdcourse.errors import InvalidInput
from holdcourse.experiments.paper import SyntheticConfig, SyntheticPlan
from holdcourse.experiments.runner import run_sweep

pytest.importorskip("distributed", reason="the dask extra is not installed")
pytestmark = pytest.mark.slow

PLAN = SyntheticPlan(functions=8, rounds=200, sweep_rho=(1.0,), sweep_rounds=100, world=SyntheticConfig(grid=12))


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


@pytest.fixture
def cluster():
    """Address of a scheduler, and its two workers."""
    with dask_cluster() as running:
        yield running.address, running.workers


def test_same_bytes_as_one_process_even_if_a_worker_dies(cluster, tmp_path, record_property):
    from holdcourse.ext.dask import cluster as connect

    address, workers = cluster
    run_sweep(PLAN.sweep(), tmp_path / "here", workers=1)
    expected = contents(tmp_path / "here")
    with connect(address) as executor:
        begin = time.perf_counter()
        run_sweep(PLAN.sweep(), tmp_path / "dask", executor=executor)
        record_property("dask, two workers: seconds", f"{time.perf_counter() - begin:.1f}")
    assert contents(tmp_path / "dask") == expected

    saved_when_killed = []

    def kill_one():
        runs = tmp_path / "killed" / "runs"
        while not runs.is_dir() or len(list(runs.glob("*.npz"))) < 20:
            time.sleep(0.05)
        saved_when_killed.append(len(list(runs.glob("*.npz"))))
        workers[0].kill()

    killer = threading.Thread(target=kill_one)
    killer.start()
    with connect(address) as executor:
        report = run_sweep(PLAN.sweep(), tmp_path / "killed", executor=executor)
    killer.join()
    total = len(PLAN.sweep().runs)
    record_property("dask: runs saved when a worker was killed", f"{saved_when_killed[0]} of {total}")
    assert saved_when_killed[0] < total
    assert workers[0].wait(timeout=10) != 0
    assert (report.done, report.failed) == (total, ())
    assert contents(tmp_path / "killed") == expected


def test_no_scheduler_is_one_clear_error(monkeypatch):
    import holdcourse.ext.dask as extra

    monkeypatch.setattr(extra, "CONNECT_SECONDS", 1)
    with (
        pytest.raises(InvalidInput, match=r"no Dask scheduler answers at 'tcp://127\.0\.0\.1:1'"),
        extra.cluster("tcp://127.0.0.1:1"),
    ):
        pass
