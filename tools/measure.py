"""Measures the evidence again, one section after the other, and writes it into docs/evidence.json and the pages.

    python tools/measure.py                       everything (make evidence); takes hours, see --list
    python tools/measure.py plants wakes          these sections only
    python tools/measure.py plants --from FOLDER  measures nothing: FOLDER holds what the section's commands wrote
    python tools/measure.py --list                sections, their commands, how long they take, when last measured

Ctrl-C stops it, and the same command goes on: finished steps are not done again, and the long ones go on where they
were. Results are kept in build/evidence, in a folder for each state of the code, so that results of different code
never meet in a table. Measure on a quiet machine: nothing else should run on it.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path

import evidence
from sections import SECTIONS, Section, Step

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def said(minutes: float) -> str:
    """A time as people say it."""
    if minutes < 1:
        return "less than a minute"
    return f"about {minutes:.0f} min" if minutes < 90 else f"about {minutes / 60:.1f} h"


def day_of(iso: str) -> str:
    """A day as pages have it: 18 November 2026."""
    day = date.fromisoformat(iso)
    return f"{day.day} {day:%B %Y}"


class Work:
    """The folder of a section, and which of its steps are done."""

    def __init__(self, root: Path, section: Section) -> None:
        self.section, self.folder = section, root / section.name

    def mark(self, step: Step) -> Path:
        """The file that says that a step is done."""
        return self.folder / f"{step.name.replace(' ', '-')}.done"

    def left(self) -> list[Step]:
        """The steps that are not done."""
        return [step for step in self.section.steps if not self.mark(step).exists()]

    def do(self, step: Step) -> bool:
        """Run a step; whether it succeeded."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [part.replace("{out}", str(self.folder)) for part in step.command]
        begin = time.monotonic()
        done = subprocess.run(command, cwd=evidence.ROOT, env=os.environ | ONE_THREAD, check=False)
        if done.returncode:
            return False
        minutes = (time.monotonic() - begin) / 60
        self.mark(step).write_text(json.dumps({"day": date.today().isoformat(), "minutes": minutes}), encoding="utf-8")
        return True

    @property
    def day(self) -> str:
        """When the last step was done."""
        return max(json.loads(self.mark(step).read_text(encoding="utf-8"))["day"] for step in self.section.steps)


class Clock:
    """How long the rest takes: the steps' own estimates, times how far off they have been so far."""

    def __init__(self, works: Sequence[Work]) -> None:
        self.works, self.expected, self.took = works, 0.0, 0.0

    def count(self, step: Step, minutes: float) -> None:
        """Take a finished step into account."""
        self.expected, self.took = self.expected + step.minutes, self.took + minutes

    @property
    def left(self) -> float:
        """Minutes for all steps that are not done."""
        estimate = sum(step.minutes for work in self.works for step in work.left())
        return estimate * (self.took / self.expected if self.expected else 1.0)


def keep(section: Section, folder: Path, day: str, commit: str) -> None:
    """Write what a folder holds into the file and the pages."""
    if section.values is not None:
        values = section.values(folder) | {section.dated: day_of(day)}
        evidence.put(section.group, values, day, commit)
    for name, measured in section.files.items():
        shutil.copyfile(folder / measured, evidence.ROOT / name)
    for name in evidence.write(evidence.load()):
        print(f"written: {name}")


def measure(sections: Sequence[Section], root: Path, commit: str) -> int:
    """Do what is left of these sections; how many of them failed."""
    works = [Work(root, section) for section in sections]
    clock, failed = Clock(works), []
    for number, work in enumerate(works, 1):
        for step in work.left():
            where = f"[{number}/{len(works)}] {work.section.name}: {step.name}"
            print(f"{where}, {said(step.minutes)}; all that is left: {said(clock.left)}", flush=True)
            begin = time.monotonic()
            if not work.do(step):
                print(f"{where} FAILED; the command: {shlex.join(step.command)}", flush=True)
                failed.append(work.section.name)
                break
            clock.count(step, (time.monotonic() - begin) / 60)
        else:
            keep(work.section, work.folder, work.day, commit)
            print(f"[{number}/{len(works)}] {work.section.name}: kept", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}; everything else is kept. The same command tries them again.")
    return len(failed)


def show(sections: Sequence[Section]) -> None:
    """Print the sections."""
    kept = evidence.load()
    for section in sections:
        days = {value.get("date", kept[section.group]["date"]) for value in kept[section.group]["values"].values()}
        print(f"{section.name}: {said(section.minutes)}; in the file: {min(days)} to {max(days)}")
        for step in section.steps:
            command = shlex.join(step.command).replace(sys.executable, "python")
            print(f"    {command.replace(str(evidence.ROOT) + '/', '')}")


def changed_last(folder: Path) -> str:
    """The day on which the newest file of a folder was written."""
    newest = max(path.stat().st_mtime for path in folder.rglob("*") if path.is_file())
    return datetime.fromtimestamp(newest).date().isoformat()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, or keep what was measured elsewhere."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"default all: {', '.join(SECTIONS)}")
    parser.add_argument("--from", dest="folder", type=Path, metavar="FOLDER", help="measure nothing, read this folder")
    parser.add_argument("--commit", help="of --from: the commit that was measured; default: the present one")
    parser.add_argument("--out", type=Path, default=evidence.ROOT / "build" / "evidence", help="where results are kept")
    parser.add_argument("--list", action="store_true", help="show the sections, and measure nothing")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.sections if name not in SECTIONS]:
        parser.error(f"no section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    chosen = [SECTIONS[name] for name in given.sections or SECTIONS]
    commit = given.commit or evidence.commit()
    if given.list:
        show(chosen)
        return 0
    if given.folder is not None:
        if len(chosen) != 1 or chosen[0].values is None:
            readable = ", ".join(name for name, section in SECTIONS.items() if section.values)
            parser.error(f"--from needs one section whose results lie in a folder: {readable}")
        if not given.folder.is_dir():
            parser.error(f"{given.folder} is not a folder; give the one that the section's commands wrote to")
        keep(chosen[0], given.folder, changed_last(given.folder), commit)
        return 0
    try:
        return measure(chosen, given.out / commit.replace(" ", "-"), commit)
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on")
        return 130


if __name__ == "__main__":
    sys.exit(main())
