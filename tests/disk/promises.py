"""The tests of the disk: the shim is built, the program run under it, and what it promised compared with the disk."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from disk import power_cut
from disk.power_cut import Disk, Step
from helpers.driving import POLICIES, state_of

import holdcourse as hc
from holdcourse.errors import HoldcourseError
from holdcourse.running.events import plain
from holdcourse.running.log import Log
from holdcourse.service.core.data_folder import DataFolder

HERE = Path(__file__).parent
NAME = "gp_md exact"  # as in program.py
MEMORY = Path("/dev/shm")  # a power cut is simulated hundreds of times; no real disk need wait for it


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder in memory, where there is one."""
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
        yield Path(folder).resolve()


def run_program(folder: Path, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run jobs of program.py under the shim; what they answered."""
    compiler = shutil.which("cc")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("the shim needs Linux and a C compiler named cc")
    shim, todo = folder / "shim.so", folder / "jobs.json"
    build = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", str(shim), str(HERE / "shim.c"), "-ldl", "-lpthread"]
    built = subprocess.run(build, capture_output=True, text=True, check=False)
    if built.returncode != 0:
        pytest.skip(f"the shim does not compile here: {built.stderr[:300]}")
    todo.write_text(json.dumps(jobs))
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "LD_PRELOAD": str(shim)}
    command = [sys.executable, str(HERE / "program.py"), str(todo)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=3000)
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


@dataclass
class Promises:
    """What a trace acknowledges: for each record its events, for each file its contents, with the step of each."""

    records: dict[str, list[tuple[int, list[str], str | None]]] = field(default_factory=dict)
    files: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    @classmethod
    def of(cls, steps: list[Step]) -> Promises:
        found = cls()
        for number, step in enumerate(steps):
            if step.op == "MARK":
                mark = json.loads(step.data)
                if "record" in mark:
                    found.records.setdefault(mark["record"], []).append((number, mark["events"], mark["state"]))
                else:
                    found.files.setdefault(mark["file"], []).append((number, mark["sha"]))
        return found

    def broken(self, folder: Path, upto: int, *, reopened: bool) -> list[str]:
        """What is not there of what was acknowledged before step `upto`, or is something else."""
        wrong = []
        for name, marks in self.records.items():
            events = [event for _, new, _ in marks for event in new]
            promised = [new for number, new, _ in marks if number < upto]
            states, count = {}, 0
            for _, new, state in marks:
                count += len(new)
                states[count] = state
            try:
                found = _events(folder / name)
                if found is None:
                    wrong += [f"{name} is gone"] * bool(promised)
                    continue
                if found != events[: len(found)]:
                    wrong.append(f"{name} holds events that never were")
                lost = sum(map(len, promised)) - len(found)
                if lost > 0:
                    wrong.append(f"{name} has lost {lost} events")
                elif reopened and states.get(len(found)) is not None:
                    with hc.Controller(POLICIES[NAME](), start_index=1, seed=3, log=folder / name) as controller:
                        if _sha(state_of(controller)) != states[len(found)]:
                            wrong.append(f"{name} gives another state after event {len(found)}")
            except HoldcourseError as error:
                wrong.append(f"{name} does not open: {error}")
        for name, versions in self.files.items():
            known = sum(number < upto for number, _ in versions)
            path = folder / name
            if not path.exists():
                wrong += [f"{name} is gone"] * (known > 0)
            elif _sha(path.read_bytes()) not in [content for _, content in versions[max(known - 1, 0) :]]:
                wrong.append(f"{name} holds neither the old nor the new content")
        wrong += self._broken_epochs(folder, upto)
        return wrong

    def _broken_epochs(self, folder: Path, upto: int) -> list[str]:
        """The service opens its folder, and finds there the epochs that were published."""
        if not (folder / "data").exists():
            return []  # what was promised of it is missed above
        try:
            store = DataFolder(folder / "data")
        except HoldcourseError as error:
            return [f"the data folder does not open: {error}"]
        there = [str(path.relative_to(folder)) for path in store.epochs("a")] if "a" in store.ids() else []
        store.close()
        promised = [name for name, marks in self.records.items() if name.startswith("data/") and marks[0][0] < upto]
        return [f"{name} is not among the epochs" for name in promised if name not in there]


def misbehaved(found: dict[str, Any]) -> list[str]:
    """What was wrong when a call to the disk failed; `found` is an answer of program.py."""
    wrong, before, done = [], found["before"], found["done"]
    if found["failed"] == 0:
        wrong.append("the fault never came")
    if found["error"] is None:
        if not found["live"] == found["restarted"] == done or (done == before and found["call"] != "reopen"):
            wrong.append("it was acknowledged, and is not there after a restart")
    else:
        if not found["ours"] or found["folder"] not in found["error"][1]:
            wrong.append(f"the error is not ours, or does not name the file: {found['error']}")
        # What is written elsewhere first and then gets its name is done from then on, whatever fails after that.
        settled = found["call"] in ("save", "next epoch") and found["live"] == found["restarted"] == done
        if found["live"] != before and not settled:
            wrong.append("the call failed and has changed something")
        if found["restarted"] not in (before, done):
            wrong.append(f"after a restart it is neither as before nor done: {found['restarted']}")
    if found["end"] != found["on"]:
        wrong.append("it went on, and what it did then is not there at the end")
    case = f"{found['call']}, {found['op']} number {found['which']}, {found['kind']}"
    return [f"{case}: {text}" for text in wrong]


def _events(path: Path) -> list[str] | None:
    """The events of a record but for their times, and but for snapshots; None where there is no record."""
    if not path.exists():
        return None
    log = Log.read(path)
    try:
        events = [event for event in log.events() if event.kind != "snapshot"]
        return [_sha(json.dumps([event.kind, plain(event.body)], sort_keys=True).encode()) for event in events]
    finally:
        log.close()


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def cut_power(
    steps: list[Step],
    root: Path,
    *,
    model: str,
    seed: int,
    moments: Iterable[int] | None = None,
    corners: int = 4,
    others: int = 0,
    first_only: bool = False,
) -> tuple[int, list[str]]:
    """Cut the power after each of `moments` steps (default: after every one), several times; returns how often, and
    what was lost.

    `corners` of the extreme outcomes are tried at each moment, and `others` at random.
    """
    promises, disk = Promises.of(steps), Disk(root, model)
    wanted = None if moments is None else set(moments)
    chance, cuts, losses = random.Random(seed), 0, []
    with scratch() as place:
        for number, step in enumerate(steps, 1):
            disk.do(step)
            if wanted is not None and number not in wanted:
                continue
            choices = chance.sample(power_cut.CORNERS, corners) + chance.sample(power_cut.CHOICES, others)
            for names, contents in choices:
                target = place / str(cuts)
                disk.after_a_cut(target, names, contents, chance)
                wrong = promises.broken(target, number, reopened=cuts % 4 == 0)
                shutil.rmtree(target)
                cuts += 1
                losses += [f"after step {number} ({step.op}), names {names}, contents {contents}: {w}" for w in wrong]
                if wrong and first_only:
                    return cuts, losses
    return cuts, losses


def telling_moments(steps: list[Step], count: int, seed: int) -> list[int]:
    """All moments after a name was given or something acknowledged, and `count` others."""
    chosen = {number for number, step in enumerate(steps, 1) if step.op in ("RENAME", "LINK", "MARK")}
    return sorted(chosen | set(random.Random(seed).sample(range(1, len(steps) + 1), count)))


# -- what the tests check, with the numbers of the caller --------------------------------------------------------------


def traces(folder: Path, seeded: list[str]) -> dict[str, tuple[list[Step], Path]]:
    """Traces of everything that acknowledges something, one for each fault of the program."""
    jobs = []
    for number, fault in enumerate(seeded):
        below = folder / f"disk{number}"
        below.mkdir()
        jobs.append({"kind": "trace", "seeded": fault, "folder": str(below), "trace": str(folder / f"trace{number}")})
    run_program(folder, jobs)
    return {job["seeded"]: (power_cut.read_trace(Path(job["trace"])), Path(job["folder"])) for job in jobs}


DISK_FAULTS = {
    "WRITE": ["EIO", "ENOSPC", "short", "short ENOSPC"],
    "SYNC": ["EIO"],
    "TRUNCATE": ["EIO"],
    "RENAME": ["EIO", "ENOSPC"],
    "OPEN": ["EIO", "ENOSPC"],
    "UNLINK": ["EIO"],
    "MKDIR": ["EIO"],
}


def check_faults(plans: list[tuple[list[str], dict[str, list[str]], int | None]], seed: int) -> dict[str, int]:
    """Let calls to the disk fail, one in each case; returns how the cases ended.

    A plan: what is done, which kinds of calls fail in it and how, and in how many places (None: in all).

    Where a sync failed, the power is cut as well after whatever was acknowledged later: what the failed sync had
    dropped must not be missed.
    """
    with scratch() as folder:
        jobs = []
        for number, (calls, kinds, most) in enumerate(plans):
            place = folder / f"plan{number}"
            place.mkdir()
            jobs.append(
                {"kind": "faults", "folder": str(place), "seed": seed, "calls": calls, "kinds": kinds, "most": most}
            )
        cases = [case for answers in run_program(folder, jobs) for case in answers]
        wrong, outcomes = [], {"refused": 0, "refused, and done after a restart": 0, "done all the same": 0, "cuts": 0}
        for found in cases:
            wrong += misbehaved(found)
            in_doubt = found["error"] and found["restarted"] == found["done"]
            refused = "refused, and done after a restart" if in_doubt else "refused"
            outcomes[refused if found["error"] else "done all the same"] += 1
            if found["op"] == "SYNC":
                case = f"{found['call']}, SYNC number {found['which']}"
                steps = power_cut.read_trace(Path(found["trace"]))
                marks = [number for number, step in enumerate(steps, 1) if step.op == "MARK"]
                for model in power_cut.MODELS:
                    root = Path(found["folder"])
                    cuts, losses = cut_power(steps, root, model=model, seed=seed, moments=marks, others=2)
                    outcomes["cuts"] += cuts
                    wrong += [f"{case}, {model}: {loss}" for loss in losses]
    assert not wrong, "\n".join(wrong[:20]) + f"\n{len(wrong)} in all"
    return outcomes
