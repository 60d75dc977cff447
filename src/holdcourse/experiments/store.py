"""The folder that the results of a sweep are kept in.

::

    sweep.json          the configuration; a folder holds the results of one only
    runs/IDENTITY.npz   one finished run: whose it is, its description, its numbers, its curves; written in one step
    failed/IDENTITY.txt the traceback of a run that failed; it is tried again next time
    summary.csv         one row per finished run, sorted

IDENTITY is a hash of the run's description. A run's file holds that description and a hash of `sweep.json`: one that
was copied here from elsewhere is found out, whatever its name.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import holdcourse as hc
from holdcourse import archive
from holdcourse.archive import writing
from holdcourse.errors import DamagedFile, InvalidInput
from holdcourse.experiments.runs import Sweep, digest
from holdcourse.experiments.workers import Arrays, Outcome
from holdcourse.tables.spreadsheet import original, write_rows

FORMAT = 1
STALE_SECONDS = 60.0


@dataclass(frozen=True)
class Row:
    """One run in `summary.csv`."""

    experiment: str
    policy: str
    rho: float
    problem: str
    start: int
    repetition: int
    rounds: int
    service: float
    movement: float
    total: float
    optimum: float
    ratio: float

    @property
    def place(self) -> tuple[Any, ...]:
        """Where it stands in the table: by its columns, numbered problems by their number."""
        number = int(self.problem) if self.problem.isdecimal() else -1
        return (self.experiment, self.policy, self.rho, number, self.problem, self.start, self.repetition, self.rounds)


class ForeignRun(DamagedFile):
    """The file of a run holds another run, or one of another sweep."""


COLUMNS = tuple(field.name for field in fields(Row))


@dataclass(frozen=True, eq=False)
class Folder:
    """The folder of a sweep; see the module's docstring."""

    path: Path

    @property
    def manifest(self) -> Path:
        """The file that holds the configuration."""
        return self.path / "sweep.json"

    @property
    def summary(self) -> Path:
        """The file that holds the table of all runs."""
        return self.path / "summary.csv"

    @cached_property
    def sweep(self) -> str:
        """A hash of the configuration."""
        return digest(_read_manifest(self.manifest))

    def run_file(self, identity: str) -> Path:
        """Return the file that a finished run is kept in."""
        return self.path / "runs" / f"{identity}.npz"

    def failure_file(self, identity: str) -> Path:
        """Return the file that the traceback of a failed run is kept in."""
        return self.path / "failed" / f"{identity}.txt"

    def open(self, sweep: Sweep, *, fresh: bool = False) -> None:
        """Make the folder ready for a sweep: begin, or go on with the same one."""
        wanted = {"format": FORMAT, "holdcourse": hc.__version__, "sweep": sweep.name, "config": sweep.config}
        if fresh:
            self._clear()
        if self.manifest.exists():
            found = _read_manifest(self.manifest)
            if found != wanted:
                raise InvalidInput(
                    f"{self.path} contains results of another configuration ({_difference(found, wanted)}); "
                    "choose another folder=, or start over with fresh=True"
                )
        else:
            if (self.path / "runs").exists():
                raise InvalidInput(f"{self.path} contains runs but no {self.manifest.name}; choose another folder=")
            with writing(self.path):
                archive.write_file(self.manifest, (json.dumps(wanted, indent=1, sort_keys=True) + "\n").encode())
        with writing(self.path / "runs"):
            for half in (self.path / "runs").glob(".*.tmp"):  # of a sweep that was killed; not of one that is at work
                with suppress(FileNotFoundError):  # finished in between
                    if time.time() - half.stat().st_mtime > STALE_SECONDS:
                        half.unlink()
        shutil.rmtree(self.path / "failed", ignore_errors=True)  # those are tried again

    def save(self, outcome: Outcome) -> Row | None:
        """Write what came of a run, in one step; its row, if it succeeded."""
        run = outcome.run
        if outcome.error is not None:
            text = f"{json.dumps(run.model_dump(mode='json'), indent=1)}\n\n{outcome.error}"
            with writing(self.path / "failed"):
                archive.write_file(self.failure_file(run.identity), text.encode())
            return None
        state = {"sweep": self.sweep, "run": run.model_dump(mode="json"), "numbers": outcome.numbers}
        archive.write_file(self.run_file(run.identity), archive.pack(state, outcome.curves))
        return _row(state)

    def load(self, identity: str) -> tuple[Row, Arrays]:
        """Read a finished run; `DamagedFile` if it holds not what was written, `ForeignRun` if it is none of ours."""
        path = self.run_file(identity)
        state, curves = archive.unpack(archive.read_file(path), str(path))
        try:
            if (state["sweep"], digest(state["run"])) != (self.sweep, identity):
                raise ForeignRun(f"{path} is the result of another run or another sweep; remove it, or use fresh=True")
            return _row(state), curves
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedFile(f"{path} is damaged: {error!r}; remove it, and the run is done again") from None

    def identities(self) -> list[str]:
        """Return the identities of all finished runs."""
        return sorted(path.stem for path in (self.path / "runs").glob("*.npz"))

    def write_summary(self, rows: Iterable[Row]) -> None:
        """Write one row per run, sorted; equal rows give equal bytes."""
        text = io.StringIO()
        write_rows(text, [COLUMNS, *(astuple(row) for row in sorted(rows, key=lambda row: row.place))])
        archive.write_file(self.summary, text.getvalue().encode())

    def _clear(self) -> None:
        """Remove what a sweep wrote, and nothing else."""
        with writing(self.path):
            for name in ("runs", "failed"):
                shutil.rmtree(self.path / name, ignore_errors=True)
            for file in (self.manifest, self.summary):
                file.unlink(missing_ok=True)


def read_summary(path: Path) -> list[Row]:
    """Read the rows of a `summary.csv`."""
    types = (str, str, float, str, int, int, int, float, float, float, float, float)
    with path.open(newline="", encoding="utf-8") as file:
        table = csv.reader(file)
        if tuple(next(table, ())) != COLUMNS:
            raise InvalidInput(f"{path} is not the summary of a sweep: its first line is not {','.join(COLUMNS)}")
        return [Row(*(kind(original(cell)) for kind, cell in zip(types, line, strict=True))) for line in table]


def _row(state: dict[str, Any]) -> Row:
    run, numbers = state["run"], state["numbers"]
    total, optimum = numbers["total"], numbers["optimum"]
    ratio = total / optimum if optimum > 0 else (1.0 if total == optimum else float("nan"))
    return Row(
        experiment=run["experiment"],
        policy=run["policy"]["name"],
        rho=run["rho"],
        problem=str(run["problem"]),
        start=numbers["start"],
        repetition=run["repetition"],
        rounds=run["rounds"],
        service=numbers["service"],
        movement=numbers["movement"],
        total=total,
        optimum=optimum,
        ratio=ratio,
    )


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(archive.read_file(path))
    except ValueError:
        raise InvalidInput(f"{path} cannot be read; start over with fresh=True, or choose another folder=") from None
    return found


def _difference(found: Any, wanted: Any, where: str = "") -> str:
    """Return the first key in which two configurations differ."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in sorted({*found, *wanted}):
            if key not in found or key not in wanted or found[key] != wanted[key]:
                below = f"{where}.{key}" if where else key
                return _difference(found.get(key), wanted.get(key), below)
    shown = [text if len(text) < 60 else text[:57] + "..." for text in (json.dumps(found), json.dumps(wanted))]
    return f"{where.removeprefix('config.')}: {shown[0]} there, {shown[1]} now"
