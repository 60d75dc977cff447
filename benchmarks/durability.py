"""Durable rounds per second, beside Optuna's storages on the same disk in the same run, and the disk's own rate."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

import holdcourse as hc
from benchmarks.timing import Row, best_of_each

ROUNDS = 50


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        place = Path(folder)
        names = ["a bare write + fsync, twice"]
        functions: list[Callable[[], object]] = [ours(place), bare(place)]
        if importlib.util.find_spec("optuna") is None:
            print("durability: optuna is not installed, its rows are left out", file=sys.stderr)
        else:
            names += ["Optuna journal", "Optuna SQLite"]
            functions += [optuna_rounds(place, "journal"), optuna_rounds(place, "sqlite")]
        mine, *theirs = best_of_each(functions, repeats=3)
    bars = [None, 1.0, 1.0]
    return [
        Row("durable ask + tell", mine / ROUNDS, name, seconds / ROUNDS, bar)
        for name, seconds, bar in zip(names, theirs, bars, strict=False)
    ]


def ours(place: Path) -> Callable[[], object]:
    problem = hc.Problem(np.arange(25.0))
    controller = hc.Controller(hc.minc_known(problem), start_index=0, log=place / "ours.log")
    costs = np.linspace(1.0, 2.0, 25)

    def run() -> None:
        for _ in range(ROUNDS):
            decision = controller.ask(None, costs=costs)
            controller.tell(decision.id, 1.0)

    return run


def bare(place: Path) -> Callable[[], object]:
    file = (place / "bare").open("ab")

    def run() -> None:
        for _ in range(2 * ROUNDS):
            file.write(b"x" * 400)
            file.flush()
            os.fsync(file.fileno())

    return run


def optuna_rounds(place: Path, kind: str) -> Callable[[], object]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "journal":
            backend = optuna.storages.journal.JournalFileBackend(str(place / "optuna.journal"))
            storage: optuna.storages.BaseStorage = optuna.storages.JournalStorage(backend)
        else:
            storage = optuna.storages.RDBStorage(f"sqlite:///{place / 'optuna.db'}")
        # The cheapest sampler there is: what is compared is the record, not the mathematics.
        study = optuna.create_study(storage=storage, sampler=optuna.samplers.RandomSampler(seed=0))

    def run() -> None:
        for _ in range(ROUNDS):
            trial = study.ask()
            trial.suggest_int("action", 0, 24)
            study.tell(trial, 1.0)

    return run
