"""Settings refined where it pays: beside a coarse list for ever, and a fine one from the start.

A world draws a smooth cost of settings and of the context, with a narrow valley whose place moves with the context.
``python -m benchmarks.refinement 60 12`` prints the tables of docs/how-to/knobs.md for the worlds of seeds 60 to 71.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import numpy as np

import holdcourse as hc
from benchmarks.timing import Row

ROUNDS = 600
LAST = 200  # rounds that are also counted alone: what was learned in the others is known by then
NOISE = 0.1
REFINED = (100, 300)  # rounds before which the list is refined
ALLOWED = 2.0  # seconds to refine after 500 measurements


@dataclass(frozen=True)
class Kind:
    """A kind of worlds: how many axes, values on each in a coarse and a fine list, and what moving costs."""

    axes: int
    coarse: int
    fine: int
    width: float  # of the valley
    price: float  # of moving along a whole axis


KINDS = {
    "one axis, cheap moves": Kind(1, 11, 101, 0.05, 0.2),
    "one axis, expensive moves": Kind(1, 11, 101, 0.05, 5.0),
    "two axes": Kind(2, 6, 31, 0.1, 0.5),
}


@dataclass(frozen=True)
class Valley:
    """Costs of settings from 0 to 1 on each axis: smooth, with a narrow valley 1.5 deep."""

    kind: Kind
    seed: int

    def __post_init__(self) -> None:
        rng = np.random.default_rng([self.seed, self.kind.axes])
        x, e = np.linspace(0, 1, 41), np.linspace(0, 1, 21)
        roots = [np.linalg.cholesky(_alike(points, 0.5)) for points in (x, e)]
        drawn = [roots[0] @ rng.normal(size=(41, 21)) @ roots[1].T for _ in range(self.kind.axes)]
        object.__setattr__(self, "_smooth", 0.4 / self.kind.axes**0.5 * np.array(drawn))
        object.__setattr__(self, "_place", 0.25 + 0.5 * rng.random(self.kind.axes))
        daily = 0.5 + 0.4 * np.sin(np.arange(ROUNDS) * 2 * np.pi / 24 + 6 * rng.random())
        object.__setattr__(self, "contexts", np.clip(daily + 0.05 * rng.normal(size=ROUNDS), 0.0, 1.0))
        object.__setattr__(self, "noise", NOISE * rng.normal(size=ROUNDS))

    def costs(self, settings, context: float):
        """What a round costs at each setting (k, axes), without noise."""
        smooth = [
            np.interp(settings[:, axis], np.linspace(0, 1, 41), self._smooth[axis, :, round(20 * context)])
            for axis in range(self.kind.axes)
        ]
        off = settings - self._place - 0.2 * (context - 0.5)
        return 5.0 + sum(smooth) - 1.5 * np.exp(-0.5 * ((off / self.kind.width) ** 2).sum(axis=1))

    def problem(self, values: int) -> hc.Problem:
        """So many settings on each axis."""
        axis = np.linspace(0.0, 1.0, values)
        if self.kind.axes == 1:
            return hc.Problem(axis, scale=self.kind.price)
        axes = {f"axis {k}": axis for k in range(self.kind.axes)}
        return hc.Problem(hc.grid(**axes), "cityblock", scale=self.kind.price)


def _alike(points, length):
    return np.exp(-0.5 * ((points[:, None] - points[None]) / length) ** 2) + 1e-9 * np.eye(len(points))


def run(world: Valley, values: int, refined: tuple[int, ...] = ()) -> tuple[float, float, int]:
    """Cost per round of `recommended` by the true costs, moves included; the same at last; settings at last."""
    controller = hc.Controller(hc.recommended(world.problem(values)), start_index=0)
    paid, measured = [], []
    for t, (context, noise) in enumerate(zip(world.contexts, world.noise, strict=True)):
        if t in refined:
            found = hc.refine(controller.policy, measured)
            controller, measured = hc.Controller(found.policy, start=controller.setting), []
        decision = controller.ask(context)
        cost = float(world.costs(controller.policy.problem.actions[[decision.action]], context)[0])
        controller.tell(decision.id, cost + noise)
        measured.append((decision.action, context, cost + noise))
        paid.append(cost + decision.movement)
    return float(np.mean(paid)), float(np.mean(paid[-LAST:])), controller.policy.problem.n


def cheapest(world: Valley) -> float:
    """What perfect hindsight pays per round on the fine list."""
    problem = world.problem(world.kind.fine)
    costs = np.array([world.costs(problem.actions, context) for context in world.contexts])
    return hc.optimal_path(costs, problem, 0).total / ROUNDS


def table(kind: Kind, first: int, worlds: int) -> None:
    """Cost per round less that of the coarse list for ever, with its error over the worlds."""
    ways = {
        "coarse for ever": (kind.coarse, ()),
        f"coarse, refined after {REFINED[0]} rounds": (kind.coarse, REFINED[:1]),
        f"coarse, refined after {REFINED[0]} and {REFINED[1]} rounds": (kind.coarse, REFINED),
        "fine from the start": (kind.fine, ()),
    }
    drawn = [Valley(kind, first + k) for k in range(worlds)]
    base: list[tuple[float, float, int]] = []
    for way, (values, refined) in ways.items():
        begun = time.process_time()
        found = [run(world, values, refined) for world in drawn]
        seconds = (time.process_time() - begun) / worlds
        base = base or found
        less = [[each[j] - other[j] for each, other in zip(found, base, strict=True)] for j in (0, 1)]
        counts = [each[2] for each in found]
        print(
            f"| {way} | {_said(less[0])} | {_said(less[1])} | {np.mean(counts):.0f} | "
            f"{1000 * seconds / ROUNDS:.0f} ms | {sum(each < 0 for each in less[0])} of {worlds} better",
            flush=True,
        )
    print(
        f"| perfect hindsight | {_said([cheapest(w) - b[0] for w, b in zip(drawn, base, strict=True)])} |", flush=True
    )


def _said(values) -> str:
    return f"{np.mean(values):+.3f} ± {np.std(values, ddof=1) / len(values) ** 0.5:.3f}"


def measure() -> list[Row]:
    """Refining after 500 measurements of a coarse list."""
    world = Valley(KINDS["one axis, cheap moves"], 0)
    problem, rng = world.problem(world.kind.coarse), np.random.default_rng(0)
    actions, contexts = rng.integers(problem.n, size=500), rng.random(500)
    costs = [world.costs(problem.actions[[a]], e)[0] for a, e in zip(actions, contexts, strict=True)]
    policy, past = hc.recommended(problem), hc.History(actions, contexts, costs)
    seconds = []
    for _ in range(3):
        begun = time.process_time()
        hc.refine(policy, past)
        seconds.append(time.process_time() - begun)
    return [Row("refine 11 settings, 500 measurements", min(seconds), "allowed", ALLOWED, 1.0)]


if __name__ == "__main__":
    for name, kind in KINDS.items():
        print(name)
        table(kind, int(sys.argv[1]), int(sys.argv[2]))
