"""The runner: identities, resuming, damaged files, failures, executors. What is written is the same to the last bit."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import random
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.sweep_process import sweeping
from threadpoolctl import threadpool_info

from holdcourse.errors import DamagedFile, HoldcourseError, InvalidInput
from holdcourse.experiments.paper import SyntheticConfig, SyntheticPlan
from holdcourse.experiments.results import Results
from holdcourse.experiments.runner import run_sweep
from holdcourse.experiments.runs import PolicyConfig, RunConfig, Sweep
from holdcourse.experiments.store import COLUMNS, Folder, read_summary
from holdcourse.experiments.workers import execute, processes
from holdcourse.movement.offline import optimal_path
from holdcourse.worlds.simulation import simulate

SMALL = SyntheticPlan(
    rho=(0.5, 2.0), rounds=15, sweep_rho=(1.0,), sweep_rounds=20, functions=2, world=SyntheticConfig(grid=4, contexts=3)
)


def contents(folder):
    """Every file by name. One that was being written when the process was killed stays behind, and nobody reads it."""
    files = (path for path in sorted(Path(folder).rglob("*")) if path.is_file() and path.suffix != ".tmp")
    return {path.name: path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The small sweep, done once; nobody writes into this folder."""
    folder = tmp_path_factory.mktemp("done") / "small"
    report = run_sweep(SMALL.sweep(), folder, workers=1)
    assert (report.done, report.found, report.failed) == (36, 0, ())
    return report


@pytest.fixture
def finished(done, tmp_path):
    """A copy of the small sweep to work in."""
    return Path(shutil.copytree(done.folder, tmp_path / "finished"))


def one_run(**changes):
    given = {"experiment": "e", "world": SMALL.world, "policy": PolicyConfig(name="gp-md"), "rho": 1.0, "problem": 0}
    return RunConfig(**(given | {"rounds": 15} | changes))


# -- identities and seeds ---------------------------------------------------------------------------------------------


def test_identity_is_stable_across_processes_and_versions_of_python():
    # A change of this hash orphans everybody's saved results: it must be meant.
    assert one_run().identity == "85ef58709b5f0520fe3b5b78"
    identities = {run.identity for run in SMALL.sweep().runs}
    assert len(identities) == len(SMALL.sweep().runs) == 2 * 3 * 6


def test_policies_and_rho_share_function_contexts_start_and_noise():
    base = one_run()
    for other in (one_run(policy=PolicyConfig(name="md-known")), one_run(rho=2.0), one_run(experiment="f")):
        assert other.identity != base.identity
        assert other.run_seed == base.run_seed
        assert other.seed_for("function") == base.seed_for("function") != base.seed_for("contexts")
    assert one_run(repetition=1).run_seed != base.run_seed
    assert one_run(repetition=1).seed_for("function") == base.seed_for("function")
    for other in (one_run(problem=1), one_run(seed=1)):
        assert other.seed_for("function") != base.seed_for("function")
    scene, twice = base.world.scene(base), base.world.scene(one_run(rho=2.0))
    np.testing.assert_allclose(twice.world.landscape, 2 * scene.world.landscape)
    assert np.array_equal(scene.contexts, twice.contexts)
    assert scene.start == twice.start


def test_descriptions_are_frozen_and_refuse_nonsense():
    with pytest.raises(ValueError, match="frozen"):
        one_run().rho = 2.0
    with pytest.raises(ValueError, match="greater than 0"):
        one_run(rho=-1.0)
    with pytest.raises(ValueError, match="Extra inputs"):
        one_run(colour="red")


# -- one run ----------------------------------------------------------------------------------------------------------


def test_a_run_is_what_simulate_gives():
    run = one_run(policy=PolicyConfig(name="gp-md"))
    scene = run.world.scene(run)
    expected = simulate(
        run.world.policy(run.policy, run, scene), scene.world, scene.contexts, scene.start, run.run_seed
    )
    (outcome,) = execute([run])
    assert outcome.error is None
    assert outcome.numbers["total"] == expected.total
    assert outcome.numbers["optimum"] == expected.optima[0].total
    assert outcome.curves["actions"].tolist() == expected.actions.tolist()
    np.testing.assert_allclose(outcome.curves["service"], expected.service_costs, rtol=1e-6)


def test_the_clairvoyant_row_is_the_optimum():
    run = one_run(policy=PolicyConfig(name="clairvoyant"))
    scene = run.world.scene(run)
    costs = [scene.world.costs(t, context) for t, context in enumerate(scene.contexts)]
    path = optimal_path(costs, scene.world.problem, scene.start)
    (outcome,) = execute([run])
    assert outcome.numbers["service"] == pytest.approx(path.service)
    assert outcome.numbers["movement"] == pytest.approx(path.movement)
    assert outcome.numbers["optimum"] == path.total


# -- sweeps -----------------------------------------------------------------------------------------------------------


def test_summary_has_fixed_columns_and_sorted_rows(done):
    lines = done.folder.joinpath("summary.csv").read_text().splitlines()
    assert lines[0] == "experiment,policy,rho,problem,start,repetition,rounds,service,movement,total,optimum,ratio"
    rows = read_summary(done.folder / "summary.csv")
    assert rows == sorted(rows, key=lambda row: row.place)
    assert tuple(rows) == done.rows
    assert all(row.total == row.service + row.movement for row in rows)
    assert all(row.ratio >= 1 - 1e-9 for row in rows)
    assert all(row.ratio == pytest.approx(1) for row in rows if row.policy == "clairvoyant")
    assert len(COLUMNS) == 12


def test_curves_add_up_to_the_summary(done):
    results = Results.load(done.folder)
    for row, curves in zip(results.rows, results.curves, strict=True):
        assert len(curves["actions"]) == row.rounds
        for name in ("service", "movement"):
            assert float(curves[name].sum(dtype=np.float64)) == pytest.approx(getattr(row, name), rel=1e-5, abs=1e-6)


@pytest.mark.slow
def test_same_bytes_from_every_executor(done, tmp_path):
    sweep = SMALL.sweep()
    run_sweep(sweep, tmp_path / "pool", workers=2)
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        run_sweep(sweep, tmp_path / "threads", executor=threads)
    expected = contents(done.folder)
    assert contents(tmp_path / "pool") == expected
    assert contents(tmp_path / "threads") == expected


def test_results_do_not_depend_on_order(done, tmp_path):
    sweep = SMALL.sweep()
    shuffled = random.Random(1).sample(sweep.runs, len(sweep.runs))
    run_sweep(Sweep(sweep.name, sweep.config, tuple(shuffled)), tmp_path, workers=1)
    assert contents(tmp_path) == contents(done.folder)


def _blas_threads(_):
    import numpy  # noqa: F401 - loads the library that is asked about

    return [library["num_threads"] for library in threadpool_info()]


@pytest.mark.slow
def test_workers_have_one_thread_and_the_environment_is_left_alone():
    before = dict(os.environ)
    with processes(2) as pool:
        assert all(count == 1 for counts in pool.map(_blas_threads, range(4)) for count in counts)
    assert dict(os.environ) == before


# -- resuming ---------------------------------------------------------------------------------------------------------


def test_nothing_is_done_twice(finished):
    said = []
    before = {path: path.stat().st_mtime_ns for path in (finished / "runs").iterdir()}
    second = run_sweep(SMALL.sweep(), finished, workers=1, say=said.append)
    assert (second.found, second.done) == (36, 0)
    assert said == [f"36 of 36 runs found in {finished}"]
    assert {path: path.stat().st_mtime_ns for path in (finished / "runs").iterdir()} == before


@pytest.mark.parametrize("harm", ["truncated", "empty", "flipped"])
def test_a_damaged_file_is_done_again_and_said_so(finished, harm):
    expected, said = contents(finished), []
    victim = sorted((finished / "runs").iterdir())[7]
    content = bytearray(victim.read_bytes())
    if harm == "flipped":
        content[content.rindex(b"NUMPY") + 130] ^= 0xFF  # a number of a curve; dates in a zip's headers mean nothing
    victim.write_bytes({"truncated": content[:-200], "empty": b"", "flipped": content}[harm])
    report = run_sweep(SMALL.sweep(), finished, workers=1, say=said.append)
    assert (report.found, report.done, report.damaged) == (35, 1, (victim.stem,))
    assert said[-1] == f"{victim.name} is damaged; that run is done again"
    assert contents(finished) == expected


@pytest.mark.parametrize("where", ["the same sweep", "a sweep of another seed", "a sweep of another name"])
def test_a_run_from_elsewhere_under_a_right_name_is_done_again_and_said_so(finished, tmp_path, where):
    expected, said = contents(finished), []
    names = sorted((finished / "runs").iterdir())
    victim, source = names[7], names[8]
    if where != "the same sweep":
        sweep = SMALL.sweep() if where.endswith("name") else SMALL.model_copy(update={"seed": 5}).sweep()
        run_sweep(replace(sweep, name="other"), tmp_path / "other", workers=1)
        source = sorted((tmp_path / "other" / "runs").iterdir())[7]
    victim.write_bytes(source.read_bytes())
    with pytest.raises(DamagedFile, match=f"{victim.name} is the result of another run or another sweep; remove it"):
        Results.load(finished)
    report = run_sweep(SMALL.sweep(), finished, workers=1, say=said.append)
    assert (report.found, report.done, report.damaged) == (35, 1, (victim.stem,))
    assert said[-1] == f"{victim.name} is the result of another run or another sweep; that run is done again"
    assert contents(finished) == expected


def test_another_configuration_is_refused_by_name(finished):
    other = SMALL.model_copy(update={"seed": 5})
    with pytest.raises(InvalidInput, match=r"another configuration \(seed: 0 there, 5 now\).*fresh=True"):
        run_sweep(other.sweep(), finished, workers=1)
    (finished / "notes.txt").write_text("mine")
    assert run_sweep(other.sweep(), finished, workers=1, fresh=True).found == 0
    assert (finished / "notes.txt").read_text() == "mine"


def test_foreign_folders_are_refused(tmp_path):
    (tmp_path / "runs").mkdir()
    with pytest.raises(InvalidInput, match=r"contains runs but no sweep\.json"):
        run_sweep(SMALL.sweep(), tmp_path, workers=1)
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="cannot write to"):
        run_sweep(SMALL.sweep(), tmp_path / "file" / "deeper", workers=1)
    for place in ("file", "file/deeper"):
        with pytest.raises(InvalidInput, match=r"cannot write to .*; choose another folder="):
            run_sweep(SMALL.sweep(), tmp_path / place, workers=1, fresh=True)
    assert (tmp_path / "file").read_text() == ""
    with pytest.raises(InvalidInput, match="workers must be 1 or more, got 0"):
        run_sweep(SMALL.sweep(), tmp_path / "x", workers=0)


def interrupted(plan, folder, workers, delay, how, tmp_path):
    """Start a sweep in a process of its own and end it after a while; whether it was in time."""
    with sweeping(plan, folder, workers, tmp_path / "script.py") as child:
        time.sleep(delay)
        child.send_signal(how)
        child.wait(timeout=60)
    return child.returncode != 0


LONGER = SMALL.model_copy(update={"functions": 6, "rounds": 60})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The longer sweep, which nobody interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    run_sweep(LONGER.sweep(), folder, workers=1)
    return contents(folder)


@pytest.mark.parametrize(("how", "workers"), [(signal.SIGKILL, 1), (signal.SIGINT, 1)])
def test_interrupting_and_resuming_ends_in_the_same_bytes(whole, tmp_path, how, workers):
    chance, stopped = random.Random(workers), 0
    for attempt in range(8):  # a quick machine may be done before it is interrupted
        cut = tmp_path / f"cut-{attempt}"
        for _ in range(2 if how == signal.SIGKILL else 1):
            stopped += interrupted(LONGER, cut, workers, chance.uniform(0.1, 0.6) / (1 + attempt), how, tmp_path)
        if stopped:
            break
    run_sweep(LONGER.sweep(), cut, workers=1)
    assert stopped
    assert contents(cut) == whole


# -- failures ---------------------------------------------------------------------------------------------------------


def test_a_failing_run_is_recorded_and_the_others_go_on(tmp_path):
    bad = SMALL.model_copy(update={"policies": ("stationary", "no-such-policy")})
    report = run_sweep(bad.sweep(), tmp_path, workers=1)
    assert (report.done, len(report.failed)) == (12, 6)
    run, path = report.failed[0]
    assert run.policy.name == "no-such-policy"
    assert "Traceback" in path.read_text()
    assert "policy 'no-such-policy' is not known" in path.read_text()
    assert len(read_summary(tmp_path / "summary.csv")) == 12
    again = run_sweep(bad.sweep(), tmp_path, workers=1)
    assert (again.found, again.done, len(again.failed)) == (12, 0, 6)


class Breaking(SyntheticConfig):
    """A world that cannot be built, or ends the process that tries."""

    fatal: bool = False

    def scene(self, run):
        if self.fatal and multiprocessing.parent_process() is not None:
            os._exit(3)
        raise RuntimeError("no such world")


def test_a_world_that_fails_fails_its_runs(tmp_path):
    report = run_sweep(SMALL.model_copy(update={"world": Breaking(grid=4)}).sweep(), tmp_path, workers=1)
    assert (report.done, len(report.failed)) == (0, 36)
    assert Folder(tmp_path).summary.read_text().count("\n") == 1


def test_a_worker_that_dies_is_one_clear_error(tmp_path):
    sweep = SMALL.model_copy(update={"world": Breaking(grid=4, fatal=True)}).sweep()
    context = multiprocessing.get_context("fork")  # the class above is known to this process only
    with (
        concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool,
        pytest.raises(HoldcourseError, match="a worker process died"),
    ):
        run_sweep(sweep, tmp_path, executor=pool)


def interrupted_at_work(seconds):
    with processes(2) as pool:
        pool.submit(time.sleep, seconds)
        pool.submit(time.sleep, 0).result()  # so the workers are there, and one of them is busy
        raise KeyboardInterrupt


def test_an_interruption_does_not_wait_for_the_workers():
    begin = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        interrupted_at_work(seconds=60)
    assert time.perf_counter() - begin < 50
