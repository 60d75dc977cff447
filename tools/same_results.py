"""Does holdcourse still compute the same, to the last bit? For changes that move code and must not change results.

::

    python tools/same_results.py write before.json
    python tools/same_results.py write after.json       # with the changed code installed
    python tools/same_results.py compare before.json after.json

`write` runs a fixed set of scenarios with the holdcourse that is installed, and keeps the hash of what each came to,
with a readable excerpt; ``--texts FOLDER`` keeps all of it, to look for a difference with `diff`. `compare` lists the
scenarios that differ or are missing. Both end with status 1 where something failed or differs.

Only what users see is asked: names that `holdcourse` exports, the command line, HTTP, and the record's tables. Left out
is what differs between any two runs (times, names of records and what is hashed from them, versions, folders, how long
it took). A policy may be spelled with hyphens or with underscores.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
os.environ |= {"NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb"}

import argparse
import csv
import hashlib
import io
import json
import re
import signal
import sqlite3
import subprocess
import sys
import time
import tomllib
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias
from urllib.request import urlopen

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, Matern

import holdcourse as hc

Parts: TypeAlias = dict[str, Any]  # what a scenario came to, part by part
Scenario: TypeAlias = Callable[[Path], Parts]  # gets an empty folder

ROUNDS, EPISODE = 120, 40
CONTROLLED_ROUNDS, SECOND_EPISODE = 54, 30
EXCERPT = 400  # characters
SHOWN = 6  # entries of a list in an excerpt

# Spelled with hyphens or underscores, depending on the place; compared with underscores.
SPELLED = ("gp_md", "cgp_lcb", "proximal_lcb", "fixed_at", "md_known", "minc_known", "planner_known")
# What no two runs have in common. That something is there, or is null, is compared all the same.
VOLATILE = (
    "at",
    "told_at",
    "since",
    "last_at",
    "cleared_at",
    "seconds_since",
    "chain",
    "version",
    "versions",
    "record",
)


# -- exact content as text -------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A value in JSON values, to the last bit: Python writes a float with as many digits as tell it from all others."""
    if isinstance(value, np.ndarray):
        return {"dtype": str(value.dtype), "shape": list(value.shape), "values": value.tolist()}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    raise TypeError(f"a scenario gave a {type(value).__name__}, which has no exact text: {value!r}")


def text_of(content: Any, folder: Path) -> str:
    """The exact content as text, without the folder it was made in and with one spelling of policies."""
    text = json.dumps(plain(content), indent=1, sort_keys=True, ensure_ascii=False)
    for place in {str(folder), str(folder.resolve())}:
        text = text.replace(place, "FOLDER")
    for name in SPELLED:
        text = text.replace(name.replace("_", "-"), name)
    return text


def excerpt(value: Any) -> str:
    """The beginning of a content, for people: long lists shortened."""

    def short(each: Any) -> Any:
        if isinstance(each, dict):
            return {key: short(inner) for key, inner in each.items()}
        if isinstance(each, list):
            rest = [f"... {len(each)} in all"] if len(each) > SHOWN else []
            return [short(inner) for inner in each[:SHOWN]] + rest
        return each

    return json.dumps(short(plain(value)), ensure_ascii=False)[:EXCERPT]


def steady(value: Any) -> Any:
    """What two runs have in common: volatile values become a star."""
    if isinstance(value, Mapping):
        return {key: "*" if key in VOLATILE and each is not None else steady(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [steady(each) for each in value]
    return value


def attributes(thing: Any, *names: str) -> Parts:
    """The named attributes of an object; its class may change its name."""
    return {name: getattr(thing, name) for name in names}


def bill(path: Any) -> Parts:
    """Actions and what they cost."""
    return attributes(path, "actions", "service", "movement", "total")


# -- worlds and policies ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tide:
    """Contexts are times; the best action swings slowly. `sign` -1: gains are measured."""

    sign: float = 1.0
    problem: hc.Problem = field(default_factory=lambda: hc.Problem(np.linspace(0.0, 1.0, 6), scale=0.4))

    def costs(self, round: int, context: Any) -> NDArray[np.float64]:  # noqa: A002 - the word of the field
        """A parabola around the best action."""
        x = self.problem.actions[:, 0]
        return 4.0 * (x - 0.5 - 0.4 * np.sin(context[0] / 9.0)) ** 2 + 0.1 * x

    def measure(self, round: int, context: Any, action: int, noise: float) -> float:  # noqa: A002
        """With a little noise."""
        return float(self.sign * self.costs(round, context)[action] + 0.05 * noise)


WORLD = hc.SyntheticWorld.sample(seed=7, grid=5, contexts=12)
SQUARE = WORLD.problem
CHAIN = WORLD.context_sequence("walk", rounds=ROUNDS, seed=3)
KNOWN: dict[str, Any] = {"kernel": WORLD.kernel, "noise_std": WORLD.noise_std, "prior_mean": WORLD.prior_mean}
TIDE, EBB = Tide(), Tide(-1.0)
TIMES = np.arange(float(ROUNDS))[:, None]
IN_TIME: dict[str, Any] = {"kernel": hc.Kernel(RBF(0.4), Matern(12.0, nu=0.5)), "noise_std": 0.05, "prior_mean": 0.6}
RINGS: dict[str, Any] = {"kernel": hc.Kernel(RBF(0.4), RBF(8.0), 0.5), "noise_std": 0.05, "prior_mean": -0.6}


def measured(world: Any, contexts: NDArray[np.float64], count: int) -> list[tuple[int, Any, float]]:
    """Past measurements, spread over actions and contexts."""
    found = []
    for k in range(count):
        action, context = (7 * k) % world.problem.n, contexts[k % len(contexts)]
        found.append((action, context.tolist(), world.measure(k, context, action, hc.measurement_noise(99, k))))
    return found


@dataclass(frozen=True)
class Case:
    """A policy and where it is tried.

    `knows`: it is shown the true costs. `forecasts`: it may be told contexts to come. `by_python`: a record cannot
    hold it. `onwards`: its model cannot be asked about the past, so a replay is refused.
    """

    make: Callable[[], hc.Policy]
    world: Any = WORLD
    contexts: NDArray[np.float64] = field(default_factory=lambda: CHAIN)
    knows: bool = False
    forecasts: bool = False
    by_python: bool = False
    onwards: bool = False


def in_time(make: Callable[[], hc.Policy], world: Tide = TIDE, **more: Any) -> Case:
    """A case of which contexts are times."""
    return Case(make, world, TIMES, **more)


def towns() -> hc.Problem:
    """Actions that are names, and ways that cost differently there and back."""
    ways = [[0.0, 0.3, 0.5, 0.9], [0.2, 0.0, 0.4, 0.6], [0.6, 0.5, 0.0, 0.3], [0.8, 0.7, 0.4, 0.0]]
    return hc.Problem(None, hc.metric_closure(ways), directed=True, labels=["north", "east", "south", "west"])


@dataclass(frozen=True)
class Towns:
    """Costs that go round with the context."""

    problem: hc.Problem = field(default_factory=towns)

    def costs(self, round: int, context: Any) -> NDArray[np.float64]:  # noqa: A002
        """The nearer to the context's turn, the cheaper."""
        return 1.0 - np.cos((context[0] / 24.0 - np.arange(4) / 4.0) * 2.0 * np.pi)

    def measure(self, round: int, context: Any, action: int, noise: float) -> float:  # noqa: A002
        """With a little noise."""
        return float(self.costs(round, context)[action] + 0.05 * noise)


def knob_problem() -> hc.Problem:
    """Two knobs of which each costs something else to turn."""
    return hc.Problem(hc.grid(valve=[0.0, 0.5, 1.0], speed=[1.0, 2.0]), metric="cityblock", scale=[0.3, 0.2])


TOWNS = Towns()
HOURS = (np.arange(float(ROUNDS)) % 24.0)[:, None]


def cases() -> dict[str, Case]:
    """Every maker of policies that is exported, in its main variants; and rules of which users make their own."""
    past, tide_past = measured(WORLD, WORLD.contexts, 48), measured(TIDE, TIMES - ROUNDS, 60)
    listed = {**KNOWN, "contexts": WORLD.contexts}
    kernel_of_towns = hc.Kernel(np.exp(-towns().symmetric_distances), ExpSineSquared(1.0, 24.0))
    return {
        "gp_md": Case(lambda: hc.gp_md(SQUARE, **KNOWN)),
        "gp_md auto": Case(lambda: hc.gp_md(SQUARE)),
        "gp_md listed": Case(lambda: hc.gp_md(SQUARE, tau=6.0, kappa=2.0, tree_seed=3, **listed)),
        "gp_md theory": Case(
            lambda: hc.gp_md(SQUARE, method="exact", width=hc.TheoryWidth(2.0), every="episode", **KNOWN)
        ),
        "gp_md fading": Case(
            lambda: hc.gp_md(SQUARE, method="flat", context_bounds=[(0.0, 1.0)], forgetting=0.98, **KNOWN)
        ),
        "gp_md guarded": Case(lambda: hc.gp_md(SQUARE, guard=hc.OutlierGuard(1.5), history=past, **KNOWN)),
        "gp_md tree": Case(lambda: hc.gp_md(SQUARE, tree=hc.frt_tree(SQUARE, seed=5), **KNOWN)),
        "gp_md temporal": in_time(lambda: hc.gp_md(TIDE.problem, method="temporal", **IN_TIME), onwards=True),
        "gp_md gains": in_time(lambda: hc.gp_md(EBB.problem, maximise=True, **RINGS), EBB),
        "gp_md mapped": in_time(
            lambda: hc.gp_md(TIDE.problem, interval_map=lambda low, high: np.maximum(low, 0.0) ** 2, **IN_TIME),
            by_python=True,
        ),
        "gp_md prior": Case(
            lambda: hc.gp_md(SQUARE, kernel=WORLD.kernel, prior_mean=lambda x, e: x.sum(axis=1) + e[0]), by_python=True
        ),
        "gp_md directed": Case(lambda: hc.gp_md(TOWNS.problem), TOWNS, HOURS),
        "cgp_lcb": Case(lambda: hc.cgp_lcb(SQUARE, **KNOWN)),
        "cgp_lcb auto": Case(lambda: hc.cgp_lcb(SQUARE)),
        "proximal_lcb": Case(lambda: hc.proximal_lcb(SQUARE, **KNOWN)),
        "proximal_lcb heavy": Case(lambda: hc.proximal_lcb(SQUARE, weight=2.5, width=1.0, history=past, **KNOWN)),
        "stationary": Case(lambda: hc.stationary(SQUARE)),
        "fixed": Case(lambda: hc.fixed(SQUARE, past)),
        "fixed gains": in_time(lambda: hc.fixed(EBB.problem, measured(EBB, TIMES, 30), maximise=True), EBB),
        "fixed_at": Case(lambda: hc.fixed_at(SQUARE, setting_index=13)),
        "md_known": Case(lambda: hc.md_known(SQUARE), knows=True),
        "md_known eager": Case(lambda: hc.md_known(SQUARE, tau=7.0, kappa=3.0, tree_seed=1), knows=True),
        "md_known directed": Case(lambda: hc.md_known(TOWNS.problem), TOWNS, HOURS, knows=True),
        "minc_known": Case(lambda: hc.minc_known(SQUARE), knows=True),
        "planner": Case(lambda: hc.planner(SQUARE, **KNOWN), forecasts=True),
        "planner auto": Case(lambda: hc.planner(SQUARE), forecasts=True),
        "planner trusting": Case(
            lambda: hc.planner(SQUARE, forecasts="trust", max_step_cost=0.8, capacity=6, discount=0.9, **KNOWN),
            forecasts=True,
        ),
        "planner periodic": Case(
            lambda: hc.planner(TOWNS.problem, period=24.0, kernel=kernel_of_towns), TOWNS, HOURS, forecasts=True
        ),
        "planner_known": Case(lambda: hc.planner_known(SQUARE, context_scale=0.1), knows=True, forecasts=True),
        "hedged known": Case(lambda: hc.hedged([hc.minc_known(SQUARE), hc.md_known(SQUARE)], patience=1.0), knows=True),
        "hedged": Case(
            lambda: hc.hedged(
                [
                    hc.planner(SQUARE, **KNOWN),
                    hc.gp_md(SQUARE, width=1.0, **KNOWN),
                    hc.fixed_at(SQUARE, setting_index=12),
                ]
            )
        ),
        "recommended": Case(lambda: hc.recommended(SQUARE, **KNOWN), forecasts=True),
        "recommended auto": Case(lambda: hc.recommended(SQUARE), forecasts=True),
        "recommended history": Case(lambda: hc.recommended(SQUARE, past)),
        "recommended little history": Case(lambda: hc.recommended(SQUARE, past[:10], kernel=WORLD.kernel)),
        "recommended time": in_time(lambda: hc.recommended(TIDE.problem, time=True, **IN_TIME), onwards=True),
        "recommended time history": in_time(
            lambda: hc.recommended(TIDE.problem, tide_past, time=True, interval=1.0), onwards=True
        ),
        "recommended step": Case(lambda: hc.recommended(SQUARE, max_step_cost=0.6, **KNOWN)),
        "recommended fixed": Case(lambda: hc.recommended(SQUARE, fixed_setting_index=12, **KNOWN)),
        "recommended gains": in_time(lambda: hc.recommended(EBB.problem, maximise=True, **RINGS), EBB),
        "recommended directed": Case(lambda: hc.recommended(TOWNS.problem, period=24.0), TOWNS, HOURS),
        "own work function": Case(
            lambda: hc.Policy("mine", hc.rules.WorkFunction(SQUARE), hc.costs.KnownCosts(SQUARE), SQUARE),
            knows=True,
            by_python=True,
        ),
        "own lookahead": in_time(
            lambda: hc.Policy(
                "ahead",
                hc.Lookahead(TIDE.problem, horizon=8, caution=1.2, optimism=0.5),
                hc.costs.LowerBound(hc.posterior(TIDE.problem, method="temporal", **IN_TIME), width=1.0),
                TIDE.problem,
            ),
            by_python=True,
        ),
    }


# -- simulated, and beside a controller ------------------------------------------------------------------------------

RUN = ("starts", "lengths", "actions", "probabilities", "service_costs", "movement_costs", "measurements")
QUANTITIES = ("diameter", "actions", "rounds", "episodes", "alpha_order", "beta_order", "delta", "norm_bound")
LEARNED = ("information_gain", "width", "learning_error")


def simulated(case: Case) -> Scenario:
    """A run in a world, and how far it is from the optimum."""

    def scenario(folder: Path) -> Parts:
        policy = case.make()
        run = hc.simulate(policy, case.world, case.contexts, start=1, seed=11, episodes=ROUNDS // EPISODE)
        found = hc.theorem_quantities(run, norm_bound=2.0)
        return {
            "run": {"total": run.total, **attributes(run, *RUN)},
            "rows": run.rows(),
            "regret": {
                "ratio": hc.ratio_to_optimum(run),
                "regret": hc.approximate_regret(run, alpha=1.5, beta=0.1),
                "optima": [bill(path) for path in run.optima],
                "episodes": [bill(path) for path in run.episodes],
                "quantities": attributes(found, *QUANTITIES, *LEARNED),
            },
            "words": {"name": policy.name, "explanation": policy.explanation},
            "hashes": policy.fingerprint,
        }

    return scenario


DECISION = (
    *("id", "round", "episode", "action", "value", "probabilities", "expected_cost", "movement", "wanted"),
    "limited_by",
)
EXPLANATION = ("words", "bounds", "expected", "mean", "std", "probabilities", "movement")
VERIFICATION = ("decisions", "tells", "differences", "last_digits", "events", "missing", "accepted", "verified")
ORDER = ("wanted", "action", "limited_by", "force")


def attempt(call: Callable[[], Any]) -> Any:
    """What a call gives; or, where holdcourse refuses it, which is a result too, why."""
    try:
        return call()
    except hc.errors.HoldcourseError as error:
        return f"{type(error).__name__}: {error}"


class Drive:
    """Rounds of a controller in a world, with everything that happens in a plant; what came of them."""

    def __init__(self, case: Case, *, masks: bool, people: bool, recorded: bool = True) -> None:
        self.case, self.masks, self.people, self.recorded = case, masks, people, recorded
        self.decisions: list[Any] = []
        self.explanations: list[Any] = []
        self.others: list[Any] = []  # refusals, orders, where the machine is

    def ask(self, controller: hc.Controller, t: int, **more: Any) -> Any:
        """The decision of a round, whatever must be left out for there to be one."""
        case, n = self.case, self.case.world.problem.n
        context = case.contexts[t]
        given: dict[str, Any] = {"context": context.tolist() if t % 2 else context}
        if case.knows:
            given["costs"] = case.world.costs(t, context)
        if case.forecasts and t % 3:
            given["forecast"] = case.contexts[t + 1 : t + 6]
        allowed = np.arange(n) % 5 != t % 5 if self.masks and t % 6 in (2, 3) else None
        decision = attempt(lambda: controller.ask(allowed=allowed, **given, **more))
        if isinstance(decision, str):  # forbidden where it is, and nothing within reach
            self.others.append(decision)
            decision = controller.ask(**given, **more)
        self.decisions.append(attributes(decision, *DECISION))
        return decision

    def wish(self, controller: hc.Controller, t: int) -> Parts:
        """What people want of a round."""
        n = self.case.world.problem.n
        if not self.people:
            return {}
        if t % 13 == 6:
            return {"instructed_index": (3 * t) % n}
        if t % 13 == 10:
            return {"instructed_index": (5 * t) % n, "force": f"inspection {t}"}
        return {"watching": True} if t % 13 == 12 else {}

    def measurement(self, t: int, action: int) -> float:
        """What is measured, now and then far off."""
        far = 3.0 if t % 20 == 17 else 0.0
        return self.case.world.measure(t, self.case.contexts[t], action, hc.measurement_noise(5, t) + far)

    def tell(self, controller: hc.Controller, t: int, decision: Any) -> None:
        """A measurement; or none, or one of another action."""
        n = self.case.world.problem.n
        if t % 10 == 4:
            controller.tell(decision.id, None)
        elif t % 10 == 8:
            other = (decision.action + 1) % n
            controller.tell(decision.id, self.measurement(t, other), applied_index=other)
        else:
            controller.tell(decision.id, self.measurement(t, controller.action))
        self.others.append(controller.action)

    def go(self, controller: hc.Controller, first: int, last: int) -> None:
        """These rounds, one after the other."""
        for t in range(first, last):
            if t == SECOND_EPISODE:
                self.others.append(attempt(lambda: controller.new_episode(start_index=2)))
                controller.new_episode(start_index=3, force="moved by hand")
            decision = self.ask(controller, t, **self.wish(controller, t))
            why = controller.explain(decision.id)
            self.explanations.append(attributes(why, *EXPLANATION) | {"rows": why.rows()})
            if self.people and t % 9 == 7:
                self.others.append(
                    attributes(controller.redirect(wanted_index=(2 * t) % self.case.world.problem.n), *ORDER)
                )
                self.others.append(controller.explain(decision.id).words)
            self.tell(controller, t, decision)

    def parts(self) -> Parts:
        """All of it."""
        return {"decisions": self.decisions, "explanations": self.explanations, "others": self.others}


def record_of(path: Path) -> Parts:
    """A record's events and what it says about itself; hashes apart."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        about = {key: json.loads(value) for key, value in connection.execute("SELECT key, value FROM about")}
        rows = connection.execute("SELECT number, kind, body FROM events ORDER BY number").fetchall()
        kept = [number for (number,) in connection.execute("SELECT number FROM snapshots ORDER BY number")]
    events = [(number, kind, steady(json.loads(body))) for number, kind, body in rows]
    identity = dict(about.pop("identity"))
    hashes = {"policy": identity.pop("policy"), "first snapshot": about.pop("snapshot")}
    for number, kind, body in events:
        if kind == "snapshot":
            hashes[f"snapshot {number}"] = body.pop("sha256")
    return {
        "events": [list(event) for event in events],
        "about": {**steady(about), "identity": identity, "snapshots": kept},
        "hashes": hashes,
    }


def replayed(path: Path, name: str) -> Parts:
    """What another policy would have done."""
    found = hc.replay(path, name)
    bills = {which: bill(getattr(found, which)) for which in ("recorded", "other", "optimum")}
    return {"policy": name, "rounds": found.rounds, "measured": found.measured, **bills}


def audited(case: Case, policy: hc.Policy, path: Path) -> Parts:
    """The record, whether it verifies, and what other policies would have done."""
    found = hc.audit.verify(path, policy) if case.by_python else hc.audit.verify(path)
    parts = record_of(path) | {"verification": attributes(found, *VERIFICATION)}
    names = ("md-known", "minc-known") if case.knows else ("proximal-lcb", "stationary")
    if case.onwards:
        parts["replay"] = [attempt(lambda name=name: replayed(path, name)) for name in names]
    elif not case.by_python:
        parts["replay"] = [replayed(path, name) for name in names]
    return parts


def controlled(case: Case, *, limited: bool) -> Scenario:
    """Beside a controller with a record: half of the rounds, then opened again, and beside it a saved state."""

    def scenario(folder: Path) -> Parts:
        path, saved, half = folder / "plant.log", folder / "plant.state", CONTROLLED_ROUNDS // 2
        options: dict[str, Any] = {"start_index": 1, "seed": 4}
        if limited:
            reach = float(np.quantile(case.world.problem.distances, 0.7))
            options["limits"] = hc.Limits(min_dwell=2, max_step_cost=reach, max_moves=4, window=10)
            threshold = -1.2 if getattr(case.world, "sign", 1.0) < 0 else 1.2
            options["guard"] = hc.Guard(threshold=threshold, revert_to_index=2, cool_down=3)
        policy = case.make()
        drive = Drive(case, masks=True, people=limited)
        with hc.Controller(policy, log=path, **options) as controller:
            drive.go(controller, 0, half)
            controller.save(saved)
        restored = Drive(case, masks=True, people=limited, recorded=False)
        restored.go(hc.Controller.load(saved, case.make()), half, CONTROLLED_ROUNDS)
        with hc.Controller(case.make(), log=path, **options) as controller:
            drive.go(controller, half, CONTROLLED_ROUNDS)
            drive.others.append(repr(controller))
        parts = drive.parts() | audited(case, policy, path)
        parts["hashes"]["saved state"] = hashlib.sha256(saved.read_bytes()).hexdigest()
        return parts | {f"restored {name}": part for name, part in restored.parts().items()}

    return scenario


def late(case: Case) -> Scenario:
    """Several decisions wait for their measurement, which come late and out of order; questions are repeated."""

    def scenario(folder: Path) -> Parts:
        path, policy = folder / "late.log", case.make()
        drive = Drive(case, masks=False, people=False)
        waiting: list[tuple[int, Any]] = []
        with hc.Controller(policy, start_index=0, seed=2, log=path, max_pending=3) as controller:
            for t in range(40):
                decision = drive.ask(controller, t, round=t)
                again = drive.ask(controller, t, round=t)
                drive.others.append(again.action == decision.action)
                waiting.append((t, decision))
                if len(waiting) == 3:
                    then, told = waiting.pop(t % 3)
                    drive.tell(controller, then, told)
                    if told.id.endswith("5"):
                        drive.others.append(attempt(lambda told=told: controller.tell(told.id, 123.0)))
            drive.others.append([decision.id for decision in controller.pending])
            drive.others.append(attempt(lambda: controller.new_episode(start_index=0)))
        return drive.parts() | audited(case, policy, path)

    return scenario


def long_record(folder: Path) -> Parts:
    """A record with snapshots of its state, a witness and a copy."""
    case = Case(lambda: hc.gp_md(SQUARE, contexts=WORLD.contexts, **KNOWN))
    path, key, said, policy = folder / "long.log", folder / "key", folder / "said.jsonl", case.make()
    key.write_bytes(b"sixteen bytes or more of a key")
    drive = Drive(case, masks=True, people=False)
    with hc.Controller(policy, start_index=0, seed=9, log=path, witness=hc.Witness(key, said)) as controller:
        contexts = np.tile(CHAIN, (3, 1))
        for t, context in enumerate(contexts[:280]):
            decision = controller.ask(context=context)
            controller.tell(decision.id, WORLD.measure(t, context, decision.action, hc.measurement_noise(1, t)))
            drive.decisions.append(attributes(decision, *DECISION))
    copied = hc.audit.backup(path, folder / "copy.log")
    witnessed = hc.audit.verify(path, witness=said, key=key)
    return {
        "decisions": drive.decisions,
        "copy": [copied, record_of(folder / "copy.log")["events"] == record_of(path)["events"]],
        "witnessed": attributes(witnessed, *VERIFICATION, "witnessed"),
        **audited(case, policy, path),
    }


# -- library functions -----------------------------------------------------------------------------------------------


def posteriors(folder: Path) -> Parts:
    """What every kind of posterior predicts, and all that it knows."""
    past = hc.History.of(measured(WORLD, WORLD.contexts, 60))
    tide_past = hc.History.of(measured(TIDE, TIMES, 60))
    steps = KNOWN["kernel"] + hc.Kernel(RBF(0.3), variance=0.2)
    kinds: dict[str, tuple[hc.Posterior, hc.History]] = {
        "adaptive": (hc.posterior(SQUARE, **KNOWN), past),
        "exact": (hc.posterior(SQUARE, method="exact", regularisation=0.02, **KNOWN), past),
        "listed": (hc.posterior(SQUARE, contexts=WORLD.contexts, **KNOWN), past),
        "bounded": (hc.posterior(SQUARE, context_bounds=[(0.0, 1.0)], tolerance=1e-6, **KNOWN), past),
        "fading": (hc.posterior(SQUARE, method="flat", contexts=WORLD.contexts, forgetting=0.97, **KNOWN), past),
        "sum": (hc.posterior(SQUARE, steps, 0.05, np.linspace(0.0, 1.0, SQUARE.n)), past),
        "temporal": (hc.posterior(TIDE.problem, time=True, **IN_TIME), tide_past),
        "fitted": (hc.posterior(SQUARE, "auto"), past),
    }
    parts: Parts = {}
    for name, (post, history) in kinds.items():
        for action, context, y in list(
            zip(history.actions.tolist(), history.contexts, history.measurements.tolist(), strict=True)
        )[:20]:
            post.condition(action, context, y)
        post.condition_on(hc.History(history.actions[20:], history.contexts[20:], history.measurements[20:]))
        here = history.contexts[-1]
        predicted = post.predict(here)
        beyond = [post.predict(here + step) for step in (0.1, 0.7)]
        twin = post.copy().condition(1, here, 0.7)
        parts[name] = {
            "words": [post.method, post.reason, post.observations, repr(post)],
            "likelihood": [post.log_marginal_likelihood, post.information_gain],
            "predicted": predicted,
            "beyond": beyond,
            "truncated": post.truncation_bound(predicted[1]),
            "twin": twin.predict(here),
            "theory": hc.TheoryWidth(2.0).of(post),
        }
        parts[f"{name} state"] = post.state()
    return parts


def fits(folder: Path) -> Parts:
    """Kernels fitted to measurements."""
    records = measured(WORLD, WORLD.contexts, 80)
    actions, contexts, y = ([record[k] for record in records] for k in range(3))
    alternatives: dict[str, tuple[hc.Problem, dict[str, Any]]] = {
        "free": (SQUARE, {}),
        "seeded": (SQUARE, {"restarts": 1, "seed": 5, "max_points": 40}),
        "given": (SQUARE, {"kernel": hc.Kernel(RBF(0.5), Matern(0.5, nu=1.5)), "noise_std": 0.05, "prior_mean": 0.4}),
        "sum": (SQUARE, {"kernel": hc.Kernel(RBF(0.5), RBF(0.5)) + hc.Kernel(RBF(0.5)), "restarts": 0}),
        "metric": (towns(), {"restarts": 1}),
    }
    parts: Parts = {}
    for name, (problem, options) in alternatives.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", hc.FitWarning)
            fit = hc.fit_kernel(problem, [action % problem.n for action in actions], contexts, y, **options)
        parts[name] = {
            "kernel": fit.kernel.to_json(),
            "warned": [str(warning.message) for warning in caught if warning.category is hc.FitWarning],
            "words": repr(fit),
            **attributes(fit, "noise_std", "prior_mean", "log_marginal_likelihood", "parameters", "on_bounds"),
            **attributes(fit, "points_used", "points_given", "evaluations"),
        }
    return parts


def paths(folder: Path) -> Parts:
    """Hindsight: optimum, work function, given paths."""
    costs = np.array([WORLD.costs(t, context) for t, context in enumerate(CHAIN)])
    costs[::7, ::3] = np.inf
    knobs = knob_problem()
    small = np.abs(np.sin(np.arange(60.0 * knobs.n).reshape(60, knobs.n) ** 1.5))
    around = np.array([TOWNS.costs(t, hour) for t, hour in enumerate(HOURS)])
    parts: Parts = {}
    for name, problem, table in (("square", SQUARE, costs), ("knobs", knobs, small), ("directed", towns(), around)):
        methods = ("auto", "dense", "pruned")
        best = hc.optimal_path(table, problem)
        parts[name] = {
            "free": bill(best),
            "work function": bill(hc.work_function(table, problem, 1)),
            "priced": bill(hc.price_path(best.actions, table, problem, 2)),
            **{method: bill(hc.optimal_path(table, problem, 0, method=method)) for method in methods},
        }
    return parts


def steps(folder: Path) -> Parts:
    """Trees, mirror descent, coupling."""
    parts: Parts = {}
    for name, problem in (("square", SQUARE), ("directed", towns())):
        tree = hc.frt_tree(problem, tau=6.0, seed=8)
        stretch = tree.stretch(problem)
        q, action, rounds = hc.mirror.start(tree, 0), 0, []
        for t in range(30):
            before = hc.mirror.leaf_probabilities(tree, q)
            costs = np.abs(np.cos(np.arange(problem.n) * 1.7 + t))
            costs[t % problem.n] = np.inf
            q = hc.mirror.descend(tree, q, costs, kappa=1.0 + t % 3)
            after = hc.mirror.leaf_probabilities(tree, q)
            row = hc.coupling.conditional(tree, before, after, action)
            action = hc.coupling.sample(tree, before, after, action, (0.37 * t) % 1.0)
            rounds.append([q, row, action, hc.coupling.expected_movement(tree, before, after)])
        parts[name] = {
            "tree": tree.to_json(),
            "drawn": tree.draw(problem),
            "distances": tree.distances(),
            "stretch": attributes(stretch, "least", "mean", "largest"),
            "rounds": rounds,
        }
    return parts


def odds_and_ends(folder: Path) -> Parts:
    """Problems, kernels, metrics, noise, worlds, bundled wind."""
    knobs = knob_problem()
    problems = {"square": SQUARE, "knobs": knobs, "towns": towns(), "tide": TIDE.problem}
    parts: Parts = {
        name: {
            "described": problem.describe(),
            "distances": problem.distances,
            "values": [problem.value(action) for action in range(problem.n)],
            "words": repr(problem),
        }
        for name, problem in problems.items()
    }
    kernel = WORLD.kernel + hc.Kernel(RBF(0.3), ExpSineSquared(1.0, 24.0), 0.4, 0.1, 2.0)
    same = hc.Kernel.from_json(kernel.to_json())
    parts["kernel"] = {"text": kernel.to_json(), "same": same == kernel, "scaled": kernel.scaled(3.0).to_json()}
    parts["covariance"] = kernel.covariance(SQUARE, np.arange(5), np.linspace(0.0, 1.0, 5)[:, None])
    parts["closure"] = hc.metric_closure([[0.0, 1.0, 5.0], [1.0, 0.0, 2.0], [5.0, 2.0, 0.0]])
    parts["zscore"] = hc.zscore(CHAIN)
    parts["noise"] = [hc.measurement_noise(seed, t) for seed in (0, 5) for t in range(50)]
    parts["guard"] = [hc.OutlierGuard(2.0).tamed(y, 0.3, 0.2) for y in (0.1, 1.0, -4.0)]
    parts["landscape"] = WORLD.landscape
    for kind in hc.worlds.CONTEXT_PROCESSES:
        parts[f"contexts {kind}"] = hc.worlds.context_sequence(np.linspace(0.0, 1.0, 20), kind, rounds=80, seed=6)
    wind = hc.wind.bundled("test")
    week = wind.between("2010-08-01", "2010-08-08")
    parts["wind"] = {"words": repr(wind), "speed": week.speed, "at": week.at([100.0, 333.0, 600.0])}
    parts["fingerprints"] = {name: problem.fingerprint for name, problem in problems.items()}
    return parts


# -- the command line ------------------------------------------------------------------------------------------------


def entry_point() -> tuple[str, str]:
    """Module and function of the command `holdcourse`: as its source names them, or else the installed package."""
    source = Path(hc.__file__).parents[2] / "pyproject.toml"
    if source.is_file():
        target = tomllib.loads(source.read_text(encoding="utf-8"))["project"]["scripts"]["holdcourse"]
    else:
        (found,) = entry_points(group="console_scripts", name="holdcourse")
        target = found.value
    module, _, function = target.partition(":")
    return module, function


class CommandError(Exception):
    """The command line ended with an error."""


def run(folder: Path, *words: str) -> str:
    """What a command prints, run in this process: a new one would take longer to start than most of them to work."""
    module, function = entry_point()
    start = getattr(import_module(module), function)
    printed, errors, before, code = io.StringIO(), io.StringIO(), sys.argv, None
    try:
        sys.argv = ["holdcourse", *words]
        with chdir(folder), redirect_stdout(printed), redirect_stderr(errors):
            start()
    except SystemExit as end:
        code = end.code
    finally:
        sys.argv = before
    if code not in (None, 0):
        raise CommandError(f"holdcourse {' '.join(words)} ended with {code}: {errors.getvalue()[-2000:]}")
    return printed.getvalue()


def with_hyphens(names: Sequence[str]) -> list[str]:
    """As people write them."""
    return [name.replace("_", "-") for name in names]


def spelled(do: Callable[[Sequence[str]], Any], names: Sequence[str], refusal: type[Exception]) -> Any:
    """Do something with names of policies: with hyphens or, if that is refused, as Python writes them."""
    try:
        return do(with_hyphens(names))
    except refusal as first:
        try:
            return do(names)
        except refusal as second:
            raise RuntimeError(f"with hyphens: {first}; with underscores: {second}") from second


def run_policies(folder: Path, names: Sequence[str], *words: str) -> str:
    """What a command printed that takes ``--policies``."""
    return str(spelled(lambda given: run(folder, *words, "--policies", ",".join(given)), names, CommandError))


def table_rows(path: Path) -> list[list[str]]:
    """A CSV as it stands."""
    return list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))


def write_wind(data: Any, path: Path) -> None:
    """Wind data as the CSV of a mast."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["time", *(f"ws_{height:g}m" for height in data.heights)])
        table.writerows(
            [f"{moment}Z", *speeds] for moment, speeds in zip(data.time.tolist(), data.speed.tolist(), strict=True)
        )


WIND_POLICIES = ("fixed", "wind-planner", "stationary", "gp_md", "cgp_lcb", "planner", "md_known", "minc_known")


def wind_backtest(folder: Path) -> Parts:
    """All wind policies on a part of the bundled wind."""
    write_wind(hc.wind.bundled("history").between("2010-03-01"), folder / "history.csv")
    write_wind(hc.wind.bundled("test").between("2010-07-01", "2010-07-15"), folder / "test.csv")
    words = ("backtest", "test.csv", "--history", "history.csv", "--name", "mast", "--count", "13", "--units", "m/s")
    more = ("--what-if", "1,10", "--price", "0.09", "--json", "--out", "report", "--no-pictures")
    found = json.loads(run_policies(folder, WIND_POLICIES, *words, *more))
    page = (folder / "report" / "report.html").read_text(encoding="utf-8")
    fitted = ("--context", "periodic", "--hyperparameters", "fitted", "--climb", "0.1", "--sink", "0.02")
    screen = run_policies(
        folder, WIND_POLICIES[:5], *words, *fitted, "--what-if", "none", "--out", "second", "--no-pictures"
    )
    return {
        "found": found["sites"],
        "summary": table_rows(folder / "report" / "summary.csv"),
        "decisions": table_rows(folder / "report" / "decisions.csv"),
        "tables of the page": re.findall(r"<table.*?</table>", page, re.DOTALL),
        "screen": [line for line in screen.splitlines() if not line.startswith("report:")],
        "decisions of the second": table_rows(folder / "second" / "decisions.csv"),
    }


def plant_backtest(folder: Path) -> Parts:
    """A plant's own readings."""
    with (folder / "plant.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["when", "load", "setting", "kwh"])
        for t in range(150):
            load, setting = 50.0 + 40.0 * float(np.sin(t / 7.0)), (10, 20, 30, 40)[(t // 5 + t // 11) % 4]
            noise = 0.3 * hc.measurement_noise(3, t)
            table.writerow(
                [
                    f"2026-01-{1 + t // 24:02d}T{t % 24:02d}:00",
                    load,
                    setting,
                    (load / 2.5 - setting) ** 2 / 50 + 5 + noise,
                ]
            )
    words = ("backtest", "--log", "plant.csv", "--context", "load", "--action", "setting", "--cost", "kwh")
    names = ("recommended", "gp_md", "cgp_lcb", "proximal_lcb", "planner", "md_known", "minc_known", "stationary")
    more = ("--time", "when", "--move-cost", "0.05", "--fixed-cost", "0.2", "--out", "found", "--json")
    found = run_policies(folder, (*names, "planner_known"), *words, *more)
    return {
        "found": json.loads(found),
        "file": json.loads((folder / "found" / "backtest.json").read_text(encoding="utf-8")),
        "screen": run_policies(folder, ("stationary", "minc_known"), *words, "--bins", "3").splitlines(),
    }


def sweep(folder: Path) -> Parts:
    """The example of a sweep, made smaller, with more policies."""
    example = run(folder, "sweep", "--example")
    for before, after in (("rounds = 200", "rounds = 40"), ("rho = [0.5, 1.0, 2.0]", "rho = [0.5, 2.0]")):
        if before not in example:
            raise RuntimeError(f"the example of a sweep does not say {before!r} any more; mend this scenario")
        example = example.replace(before, after)
    names = ("proximal_lcb", "planner", "minc_known", "planner_known")

    def swept(given: Sequence[str]) -> str:
        more = "".join(f'\n[[policies]]\nname = "{name}"\n' for name in given)
        (folder / "mine.toml").write_text(example + more, encoding="utf-8")
        return run(folder, "sweep", "mine.toml", "--workers", "1", "--out", "swept", "--json", "--fresh")

    found = json.loads(spelled(swept, names, CommandError))
    return {
        "means": found["means"],
        "counts": [found["done"], found["failed"], found["decisions"]],
        "summary": table_rows(folder / "swept" / "summary.csv"),
    }


def comparison(folder: Path) -> Parts:
    """A little of the benchmark."""
    names = ("recommended", "gp_md", "cgp_lcb", "proximal_lcb", "planner", "md_known", "minc_known", "stationary")
    more = ("planner_known", "gp_md-1", "hedged", "planner-forecast", "planner-shuffled")
    words = ("--processes", "walk,adversary", "--rho", "1", "--seeds", "1", "--rounds", "12", "--workers", "1")

    def compared(given: Sequence[str]) -> str:
        chosen = ",".join(given)
        return run(folder, "compare", *words, "--policies", chosen, "--out", "compared", "--json", "--fresh")

    found = json.loads(spelled(compared, (*names, *more), CommandError))
    return {
        "lines": found["lines"],
        "cells": found["cells"],
        "failed": found["failed"],
        "summary": table_rows(folder / "compared" / "summary.csv"),
        "file": table_rows(folder / "compared" / "cells.csv"),
    }


def reproduction(folder: Path) -> Parts:
    """The paper's experiments, in small."""
    found = json.loads(
        run(folder, "reproduce", "all", "--quick", "--rho", "1", "--rounds", "30", "--workers", "1", "--json")
    )
    return {
        "tables": [section["tables"] for section in found["sections"]],
        "failed": [section["failed"] for section in found["sections"]],
        "synthetic": table_rows(folder / "reproduction" / "synthetic" / "summary.csv"),
        "wind": table_rows(folder / "reproduction" / "wind" / "summary.csv"),
    }


def small_commands(folder: Path) -> Parts:
    """Verify, replay, backup, optimum, tree."""
    with hc.Controller(hc.gp_md(SQUARE, **KNOWN), start_index=0, seed=1, log=folder / "valve.log") as controller:
        for t, context in enumerate(CHAIN[:30]):
            decision = controller.ask(context=context)
            controller.tell(decision.id, WORLD.measure(t, context, decision.action, hc.measurement_noise(1, t)))
    np.savetxt(folder / "costs.csv", [WORLD.costs(t, context)[:6] for t, context in enumerate(CHAIN)], delimiter=",")
    np.savetxt(folder / "actions.csv", SQUARE.actions[:6], delimiter=",")
    verified = json.loads(run(folder, "verify", "valve.log", "--json"))
    replayed = spelled(
        lambda names: run(folder, "replay", "valve.log", "--policy", names[0], "--json"), ["cgp_lcb"], CommandError
    )
    where = ("--actions", "actions.csv", "--start", "2")
    return {
        "verify": {name: verified[name] for name in VERIFICATION},
        "replay": json.loads(replayed),
        "backup": run(folder, "backup", "valve.log", "copy.log"),
        "optimum": json.loads(run(folder, "optimum", "costs.csv", *where, "--json")),
        "optimum on screen": run(folder, "optimum", "costs.csv", *where).splitlines(),
        "tree": json.loads(run(folder, "tree", "actions.csv", "--seed", "3", "--json")),
        "tree on screen": run(folder, "tree", "actions.csv", "--tau", "6").splitlines(),
    }


# -- the service -----------------------------------------------------------------------------------------------------

KERNEL = hc.Kernel(RBF(1.0), RBF(0.5))
TANK: dict[str, Any] = {"actions": [0.0, 1.0, 2.0, 3.0], "scale": 0.1, "seed": 3}
LEARNING: dict[str, Any] = {"kernel": KERNEL.to_json(), "noise_std": 0.1, "context_bounds": [[0.0, 1.0]]}
HOSTED: dict[str, tuple[str, dict[str, Any]]] = {
    "gp": ("gp_md", {"options": LEARNING | {"tau": 6.0, "tree_seed": 2}}),
    "lcb": ("cgp_lcb", {"options": LEARNING | {"width": 1.0}, "limits": {"min_dwell": 2, "max_step_cost": 0.15}}),
    "near": ("proximal_lcb", {"options": LEARNING | {"weight": 2.0}, "history": [[3, 0.5, 4.0], [0, 0.2, 0.5]]}),
    "plan": ("planner", {"options": {"kernel": KERNEL.to_json(), "noise_std": 0.1, "forecasts": "trust"}}),
    "best": ("recommended", {"options": {}, "rho": 2.0, "units": {"action": "m", "measurement": "kWh"}}),
    "gains": ("recommended", {"options": {"maximise": True, "kernel": KERNEL.to_json()}, "mode": "advise"}),
    "tide": ("recommended", {"options": {"time": True, "kernel": IN_TIME["kernel"].to_json(), "noise_std": 0.1}}),
    "still": ("stationary", {"mode": "shadow", "start_index": 2}),
    "one": ("fixed_at", {"options": {"setting": 3}, "guard": {"threshold": 3.0, "revert_to": 0, "cool_down": 2}}),
    "axes": (
        "gp_md",
        {"actions": {"valve": [0.0, 1.0], "speed": [1.0, 2.0, 3.0]}, "scale": [0.2, 0.1], "max_pending": 2},
    ),
}


@contextmanager
def served(data: Path) -> Iterator[str]:
    """The service on a folder, as a process of its own; its address."""
    module, function = entry_point()
    program = f"from {module} import {function} as run; run()"
    words = [sys.executable, "-c", program, "serve", "--data", str(data), "--port", "0"]
    with (data.parent / "serve.err").open("a+", encoding="utf-8") as errors:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            found = re.search(r"http://\S+", line)
            if found is None:
                errors.seek(0)
                raise RuntimeError(f"the service did not start: {line}{errors.read()}")
            yield found[0]
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            process.stdout.close()


def context_of(name: str, t: int) -> float:
    """What a controller of the service is shown in a round."""
    return float(t) if name == "tide" else 0.5 + 0.5 * float(np.sin(t / 3.0))


class Session:
    """Requests to a service; everything that it answered."""

    def __init__(self, service: hc.Service) -> None:
        self.service = service
        self.answers: list[Any] = []

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None, key: str | None = None) -> Any:
        """An answer, or why it was refused."""
        answer = attempt(lambda: self.service.request(method, path, body, key, is_long=True))
        self.answers.append([method, path, steady(answer)])
        return answer

    def do(self, name: str, what: str, key: str | None = None, **body: Any) -> Any:
        """A request that must be granted."""
        answer = self.send("POST", f"/controllers/{name}/{what}", body, key)
        if isinstance(answer, str):
            raise RuntimeError(f"{what} of {name} was refused: {answer}")
        return answer

    def see(self, name: str, what: str) -> Any:
        """Look at something."""
        answer = self.send("GET", f"/controllers/{name}/{what}")
        if isinstance(answer, str):
            raise RuntimeError(f"{what} of {name} was refused: {answer}")
        return answer

    def change(self, controller: str, key: str | None = None, **settings: Any) -> None:
        """Other settings, which may be refused."""
        self.send("PATCH", f"/controllers/{controller}", settings, key)

    def policy(self, method: str, path: str, name: str, settings: Mapping[str, Any]) -> None:
        """Create or change a controller with a policy of this name, however the service spells it."""

        def send(names: Sequence[str]) -> Any:
            return self.service.request(method, path, {**settings, "policy": names[0]}, is_long=True)

        self.answers.append([method, path, steady(spelled(send, [name], hc.errors.HoldcourseError))])

    def rounds(self, name: str, first: int, last: int, **more: Any) -> None:
        """Ask and tell, skip now and then, or tell of another action."""
        for t in range(first, last):
            context = context_of(name, t)
            asked = self.do(name, "ask", f"{name}-{t}" if t % 4 == 0 else None, context=context, round=t, **more)
            y = 1.0 + 0.3 * asked["action"] - context * asked["action"] / 2.0 + 0.1 * hc.measurement_noise(8, t)
            if t % 7 == 5:
                self.do(name, "skip", decision=asked["decision"])
            elif t % 7 == 6:
                self.do(name, "tell", decision=asked["decision"], measurement=y, applied_index=1)
            else:
                self.do(name, "tell", decision=asked["decision"], measurement=y)

    def look(self, name: str) -> None:
        """All that can be seen of a controller."""
        for what in ("state", "config?history=true", "decisions", "decisions?after=3&limit=4", "explain/r0"):
            self.see(name, what)
        for what in ("explain/r7", "changes", "alarms", "field", "verify", "verify?full=true"):
            self.see(name, what)


def service(folder: Path) -> Parts:
    """A day of a service: controllers of all policies, operators, new epochs, a restart."""
    data = folder / "data"
    parts: Parts = {}
    with served(data) as url, hc.connect(url) as client:
        for name, (policy, settings) in HOSTED.items():
            session = Session(client)
            session.policy("POST", "/controllers", policy, {**TANK, "id": name, **settings})
            session.rounds(name, 0, 10)
            operate(session, name)
            session.rounds(name, 14, 20)
            new_epochs(session, name, policy)
            session.look(name)
            parts[f"{name} answers"] = session.answers
        parts["client"] = remote(client)
        overview = Session(client)
        overview.send("GET", "/controllers")
        overview.send("GET", "/controllers/nobody/state")
        overview.send("GET", "/readyz")
        parts["overview"] = overview.answers
        parts["copy"] = copied(url, "gp", folder)
    with served(data) as url, hc.connect(url) as client:
        for name in HOSTED:
            session = Session(client)
            session.see(name, "state")
            session.rounds(name, 24, 26)
            session.see(name, "decisions?limit=3")
            parts[f"{name} after a restart"] = session.answers
    for path in sorted(data.glob("controllers/*/epoch-*.db")):
        found = hc.audit.verify(path)
        record = record_of(path) | {"verification": attributes(found, *VERIFICATION)}
        parts |= {f"{path.parent.name} {path.stem} {name}": part for name, part in record.items()}
    return parts


def operate(session: Session, name: str) -> None:
    """Rounds 10 to 13, with operators at work."""
    session.do(name, "override", "hold", setting_index=1, reason="inspection")
    session.rounds(name, 10, 11)
    session.do(name, "override", "force", setting_index=2, reason="storm", force=True)
    session.rounds(name, 11, 12, allowed=[k != 2 for k in range(6 if name == "axes" else 4)])
    session.do(name, "override", "free", setting_index=None)
    session.do(name, "mode", "watch", mode="observe", reason="first week")
    session.rounds(name, 12, 13)
    session.do(name, "mode", "go", mode="act")
    session.do(name, "mode", "go", mode="act")
    session.send("POST", f"/controllers/{name}/episode", {"start_index": 99})
    session.do(name, "episode", "next", start_index=0, force=True, reason="brought there")
    asked = session.do(name, "ask", context=context_of(name, 13), round=13)
    session.send("POST", f"/controllers/{name}/ask", {"context": 99.0, "round": 13})
    session.do(name, "override", "within", setting_index=1, reason="within a round")
    session.do(name, "override", "back", setting_index=None)
    session.do(name, "tell", decision=asked["decision"], measurement=1.5)
    session.do(name, "tell", decision=asked["decision"], measurement=1.5)
    session.send("POST", f"/controllers/{name}/tell", {"decision": asked["decision"], "measurement": 2.5})


def new_epochs(session: Session, name: str, policy: str) -> None:
    """Rounds 20 to 23, with other settings: in place, other limits, other actions while a decision waits, a policy."""
    session.change(name, name="South field", units={"measurement": "MJ"})
    session.change(name, limits={"min_dwell": 3, "max_moves": 2, "window": 6}, key="limits")
    session.rounds(name, 20, 22)
    asked = session.do(name, "ask", context=context_of(name, 22), round=22)
    if name != "axes":
        session.change(name, actions=[0.0, 1.5, 2.0, 3.1])
    session.do(name, "tell", decision=asked["decision"], measurement=0.9, applied_index=0)
    if policy == "gp_md":
        session.policy("PATCH", f"/controllers/{name}", "cgp_lcb", {"options": {"tau": None, "tree_seed": None}})
    session.rounds(name, 23, 24)


def remote(client: hc.Service) -> Any:
    """The words of a controller, from afar."""
    controller = client.create({**TANK, "id": "afar", "policy": "planner", "options": {"kernel": KERNEL.to_json()}})
    found: list[Any] = [repr(controller).partition(" at ")[0]]
    names = ("id", "round", "episode", "epoch", "action", "value", "act", "mode", "reason", "proposed", "probabilities")
    for t in range(6):
        decision = controller.ask(
            [0.1 * t], [True, True, t % 2 == 0, True], forecast=[[0.1 * t + 0.1]], key=f"afar-{t}"
        )
        found.append(attributes(decision, *names, "expected_cost", "proposed_value", "limited_by", "forced"))
        controller.tell(decision.id, None if t == 3 else 1.0 + t)
    return [*found, steady(controller.decisions()), steady(controller.explain("r2")), steady(controller.verify())]


def copied(url: str, name: str, folder: Path) -> Any:
    """The records of a controller as the service gives a copy of them."""
    with urlopen(f"{url}/controllers/{name}/backup") as answer, zipfile.ZipFile(io.BytesIO(answer.read())) as copy:
        copy.extractall(folder / "copy")
    return {path.name: record_of(path)["events"] for path in sorted((folder / "copy").glob("controllers/*/*.db"))}


# -- all of them -----------------------------------------------------------------------------------------------------


def scenarios() -> dict[str, Scenario]:
    """Every scenario by its name."""
    found: dict[str, Scenario] = {
        "posteriors": posteriors,
        "fits": fits,
        "paths": paths,
        "steps": steps,
        "odds and ends": odds_and_ends,
        "long record": long_record,
        "wind backtest": wind_backtest,
        "plant backtest": plant_backtest,
        "sweep": sweep,
        "compare": comparison,
        "reproduce": reproduction,
        "commands": small_commands,
        "service": service,
    }
    made = cases()
    found |= {f"simulate {name}": simulated(case) for name, case in made.items()}
    found |= {f"control {name}": controlled(case, limited=False) for name, case in made.items()}
    found |= {f"limits {name}": controlled(case, limited=True) for name, case in made.items()}
    return found | {f"late {name}": late(made[name]) for name in ("gp_md", "md_known", "planner", "recommended")}


def write(target: Path, texts: Path | None, only: str) -> int:
    """Run the scenarios and keep what they came to; 1 if one failed."""
    kept: dict[str, dict[str, str]] = {}
    begun, failed = time.monotonic(), 0
    chosen = {name: scenario for name, scenario in scenarios().items() if re.search(only, name)}
    for name, scenario in chosen.items():
        start = time.monotonic()
        with TemporaryDirectory() as place, warnings.catch_warnings():
            warnings.simplefilter("ignore", hc.FitWarning)  # `fits` compares them
            folder = Path(place)
            try:
                parts = scenario(folder)
                found = {f"{name}: {part}": (content, text_of(content, folder)) for part, content in parts.items()}
            except Exception:  # whatever it is, the other scenarios still tell something
                failed += 1
                kept[name] = {"failed": traceback.format_exc()}
                print(f"FAILED {name}: {traceback.format_exc()}", file=sys.stderr)
                continue
        for part, (content, text) in found.items():
            kept[part] = {"sha256": hashlib.sha256(text.encode()).hexdigest(), "excerpt": excerpt(content)}
            if texts is not None:
                texts.mkdir(parents=True, exist_ok=True)
                (texts / f"{re.sub('[^a-z0-9]+', '-', part.lower())}.json").write_text(text + "\n", encoding="utf-8")
        print(f"{time.monotonic() - start:6.1f} s  {name}", file=sys.stderr)
    target.write_text(json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{len(chosen)} scenarios, {failed} failed, {time.monotonic() - begun:.0f} s: {target}", file=sys.stderr)
    return 1 if failed else 0


def compare(first: Path, second: Path) -> int:
    """List what differs between two files that `write` made; 1 if anything does."""
    before, after = (json.loads(path.read_text(encoding="utf-8")) for path in (first, second))
    differences = 0
    for name in sorted({*before, *after}):
        there, here = before.get(name), after.get(name)
        if there is None or here is None:
            print(f"missing in {first if there is None else second}: {name}")
        elif "failed" in there or "failed" in here:
            print(f"failed in {first if 'failed' in there else second}: {name}")
        elif there["sha256"] != here["sha256"]:
            print(f"differs: {name}")
            if there["excerpt"] != here["excerpt"]:
                print(f"    {there['excerpt']}\n    {here['excerpt']}")
        else:
            continue
        differences += 1
    print(f"{len({*before, *after})} results, {differences} differ")
    return 1 if differences else 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="run the scenarios and keep what they come to")
    writing.add_argument("file", type=Path)
    writing.add_argument("--texts", type=Path, help="folder for all that was compared, to look at with diff")
    writing.add_argument("--only", default="", metavar="PATTERN", help="scenarios whose name matches this")
    comparing = commands.add_parser("compare", help="list what differs between two files")
    comparing.add_argument("first", type=Path)
    comparing.add_argument("second", type=Path)
    given = parser.parse_args()
    if given.command == "write":
        return write(given.file, given.texts, given.only)
    return compare(given.first, given.second)


if __name__ == "__main__":
    sys.exit(main())
