"""Small policies of every kind, and a scripted environment: all that it does is a function of the round."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from sklearn.gaussian_process.kernels import RBF, Matern

import holdcourse as hc
from holdcourse import archive

LINE = hc.Problem(np.linspace(0.0, 1.0, 6))
KERNEL = hc.Kernel(action=RBF(0.3), context=RBF(0.4))
HISTORY = [(0, 0.1, 3.0), (2, 0.5, -1.0), (2, 0.7, 0.5), (4, 0.2, 1.0)]


def learning(maker, **options):
    return lambda: maker(LINE, **{"kernel": KERNEL, "noise_std": 0.2, "context_bounds": (0, 1), **options})


POLICIES = {
    "gp_md flat": learning(hc.gp_md, method="flat"),
    "gp_md exact": learning(hc.gp_md, method="exact"),
    "gp_md fading": learning(hc.gp_md, method="flat", forgetting=0.97),
    "gp_md undeclared": learning(hc.gp_md, method="auto", context_bounds=None),
    "gp_md temporal": learning(
        hc.gp_md, method="temporal", kernel=hc.Kernel(RBF(0.3), Matern(5.0, nu=1.5)), context_bounds=None
    ),
    "gp_md fitting": lambda: hc.gp_md(LINE),
    "gp_md by episode": learning(hc.gp_md, every="episode"),
    "gp_md with history": learning(hc.gp_md, method="exact", history=HISTORY, guard=hc.OutlierGuard(2.0)),
    "cgp_lcb": learning(hc.cgp_lcb, maximise=True),
    "proximal_lcb": learning(hc.proximal_lcb, weight=2.0),
    "trial": lambda: hc.trial(POLICIES["gp_md exact"](), POLICIES["proximal_lcb"](), block=2, heard=0.6),
    "md_known": lambda: hc.md_known(LINE),
    "minc_known": lambda: hc.minc_known(LINE),
    "stationary": lambda: hc.stationary(LINE),
    "fixed": lambda: hc.fixed(LINE, HISTORY),
    "work_function": lambda: hc.Policy("WFA", hc.rules.WorkFunction(LINE), hc.costs.KnownCosts(LINE), LINE),
}


def random_of(round_number, purpose):
    """A generator that depends on the round and on what it is for, and on nothing else."""
    return np.random.default_rng([round_number, sum(map(ord, purpose))])


def question(name, round_number):
    """What is asked in a round: context, and in some rounds a mask; costs for policies that know them."""
    random = random_of(round_number, "question")
    asked = {"context": float(round_number) if "temporal" in name else float(random.random())}
    if random.random() < 0.3:
        mask = random.random(LINE.n) < 0.6
        mask[random.integers(LINE.n)] = True
        asked["allowed"] = mask
    if name in ("md_known", "minc_known", "work_function"):
        asked["costs"] = random.normal(size=LINE.n)
    return asked


def answer(decision):
    """What is told: mostly a measurement, sometimes nothing, sometimes an override."""
    random = random_of(decision.round, "answer")
    kind = random.random()
    y = float(np.sin(3.0 * decision.action + decision.round) + random.normal())
    if kind < 0.1:
        return {"measurement": None}
    if kind < 0.25:
        return {"measurement": y, "applied_index": int(random.integers(LINE.n))}
    return {"measurement": y}


def seen(decision):
    """A decision to the last bit."""
    return (
        decision.id,
        decision.action,
        decision.wanted,
        decision.limited_by,
        decision.expected_cost.hex(),
        decision.movement,
        decision.probabilities.tobytes(),
    )


def operation_of(controller):
    """What stands behind a controller and what the service works on: private, programs do not need it."""
    return controller._operation  # the one place where tests reach for it


def state_of(controller):
    """Everything that a controller carries, as bytes."""
    return archive.pack(*operation_of(controller).session.snapshot())


def half_rounds(controller, name, upto, episode_every=7):
    """Drive until `upto` rounds are told; yields what was decided after every ask, and None after everything else."""
    while controller.pending or controller.round < upto:
        if not controller.pending and controller.round // episode_every > controller.episode:
            controller.new_episode(start_index=controller.round % LINE.n, force="wherever it is")
            yield None
        now = controller.pending[0].round if controller.pending else controller.round
        decision = controller.ask(**question(name, now))
        yield seen(decision)
        controller.tell(decision.id, **answer(decision))
        yield None


def crash_copy(path, to):
    """The files of a record as a crash would leave them: whatever the database, its WAL and its mark hold now."""
    to = Path(to)
    for suffix in ("", "-wal", "-mark"):
        source = path.with_name(path.name + suffix)
        if source.exists():
            shutil.copyfile(source, to.with_name(to.name + suffix))
    return to
