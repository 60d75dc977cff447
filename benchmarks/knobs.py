"""Many knobs: what the knob planner is worth beside staying and beside turning one knob at a time, and where it loses.

A world draws what each knob adds as a smooth function of its value and of the context; `mixed` is the share of the
variance that pairs of knobs add together, which no sum over knobs can say. ``python -m benchmarks.knobs`` prints the
tables of docs/how-to/knobs.md.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import numpy as np

import holdcourse as hc
from benchmarks.timing import Row

ROUNDS = 500
FLAT = 1 / 1.5  # a late round may take half as long again as an early one
NOISE = 0.1
WAY = 0.3  # what a change of one knob costs; the costs of settings have a deviation of 1


@dataclass(frozen=True)
class KnobWorld:
    """Costs of settings of `count` knobs with `values` values each."""

    count: int
    values: int
    seed: int
    mixed: float = 0.0

    def __post_init__(self) -> None:
        rng = np.random.default_rng([self.seed, self.count, self.values])
        alone = self._drawn(rng, self.count) * np.sqrt((1.0 - self.mixed) / self.count)
        pairs = [tuple(rng.choice(self.count, 2, replace=False)) for _ in range(self.count)]
        left, right = self._drawn(rng, self.count), self._drawn(rng, self.count)
        object.__setattr__(self, "_parts", (alone, pairs, left, right))
        daily = 0.5 + 0.35 * np.sin(np.arange(ROUNDS) * 2 * np.pi / 24 + rng.random() * 6)
        object.__setattr__(self, "contexts", np.clip(daily + 0.1 * rng.normal(size=ROUNDS), 0.0, 1.0))
        object.__setattr__(self, "noise", NOISE * rng.normal(size=ROUNDS))
        object.__setattr__(self, "start", tuple(rng.integers(self.values, size=self.count).tolist()))

    def _drawn(self, rng, count):
        """Smooth functions of a value and a context, (count, values, 41), of mean 0 and deviation 1."""
        x, e = np.linspace(0, 1, self.values), np.linspace(0, 1, 41)
        roots = []
        for points, length in ((x, 0.4), (e, 0.5)):
            K = np.exp(-0.5 * ((points[:, None] - points[None]) / length) ** 2) + 1e-9 * np.eye(len(points))
            roots.append(np.linalg.cholesky(K))
        drawn = np.einsum("xa,kab,eb->kxe", roots[0], rng.normal(size=(count, len(x), len(e))), roots[1])
        drawn -= drawn.mean(axis=1, keepdims=True)
        return drawn / drawn.std(axis=(1, 2), keepdims=True)

    def cost(self, places, context: float) -> float:
        """What a round costs at a setting, without noise."""
        alone, pairs, left, right = self._parts
        k = round(context * 40)
        total = sum(alone[knob, place, k] for knob, place in enumerate(places))
        if self.mixed:
            together = sum(left[j, places[a], k] * right[j, places[b], k] for j, (a, b) in enumerate(pairs))
            total += np.sqrt(self.mixed / len(pairs)) * together
        return 5.0 + float(total)

    @property
    def axes(self):
        """The knobs."""
        return {f"k{i}": hc.knob(range(self.values), change=WAY) for i in range(self.count)}

    def settings(self, places):
        """A setting by the names of the knobs."""
        return {f"k{i}": float(place) for i, place in enumerate(places)}


def run(world: KnobWorld, policy) -> float:
    """What a policy pays in all rounds, moves included, by the true costs; per round."""
    controller = hc.Controller(policy, start=world.settings(world.start))
    total = 0.0
    for context, noise in zip(world.contexts, world.noise, strict=True):
        decision = controller.ask(context)
        cost = world.cost([int(v) for v in decision.value.values()], context)
        controller.tell(decision.id, cost + noise)
        total += cost + decision.movement
    return total / ROUNDS


def measure() -> list[Row]:
    """A round of ten knobs of ten values, which costs the same however much was learned."""
    world = KnobWorld(10, 10, 60)
    controller = hc.Controller(knob_planner(world), start=world.settings(world.start))
    spent = []
    for context, noise in zip(world.contexts, world.noise, strict=True):
        begin = time.perf_counter()
        decision = controller.ask(context)
        asked = time.perf_counter() - begin
        cost = world.cost([int(v) for v in decision.value.values()], context)
        begin = time.perf_counter()
        controller.tell(decision.id, cost + noise)
        spent.append(asked + time.perf_counter() - begin)
    early, late = np.median(spent[50:150]), np.median(spent[-100:])
    what = "a round of the knob planner, 10 knobs of 10 values"
    return [Row(f"{what}, t = {ROUNDS - 50}", float(late), "t = 100", float(early), FLAT)]


def stay(world: KnobWorld) -> float:
    return float(np.mean([world.cost(world.start, e) for e in world.contexts]))


def one_at_a_time(world: KnobWorld, hold: int) -> float:
    """Turn one knob by one value, measure for `hold` rounds, keep it if the mean is lower than before, and so on."""
    here, total, t = list(world.start), 0.0, 0
    direction = [1] * world.count
    measured: list[float] = []

    def play(places) -> float:
        nonlocal total, t
        found = []
        for _ in range(min(hold, ROUNDS - t)):
            cost = world.cost(places, world.contexts[t])
            found.append(cost + world.noise[t])
            total += cost
            t += 1
        return float(np.mean(found)) if found else np.inf

    level = play(here)
    knob = 0
    while t < ROUNDS:
        there = list(here)
        there[knob] += direction[knob]
        if not 0 <= there[knob] < world.values:
            direction[knob] *= -1
            knob = (knob + 1) % world.count
            continue
        total += WAY
        found = play(there)
        if found < level:
            here, level = there, found
        else:
            if t < ROUNDS:
                total += WAY
                level = play(here)  # how it is now
            direction[knob] *= -1
            knob = (knob + 1) % world.count
    measured.append(level)
    return total / ROUNDS


def best_fixed(world: KnobWorld) -> float:
    """The best setting to keep, found knob by knob from several starts, with its way; exact where nothing is mixed."""
    rng = np.random.default_rng(0)
    some = world.contexts[:: max(1, ROUNDS // 100)]
    found = np.inf
    for start in [world.start, *rng.integers(world.values, size=(3, world.count)).tolist()]:
        here = list(start)
        for _ in range(3):
            for knob in range(world.count):
                costs = [
                    np.mean([world.cost([*here[:knob], v, *here[knob + 1 :]], e) for e in some])
                    for v in range(world.values)
                ]
                here[knob] = int(np.argmin(costs))
        way = WAY * sum(a != b for a, b in zip(here, world.start, strict=True)) / ROUNDS
        found = min(found, float(np.mean([world.cost(here, e) for e in world.contexts])) + way)
    return found


def knob_planner(world: KnobWorld, **options):
    return hc.knob_planner(hc.knobs(**world.axes), context_bounds=(0.0, 1.0), **options)


def described(values) -> str:
    values = np.array(values)
    return f"{values.mean():+.3f} +- {values.std(ddof=1) / np.sqrt(len(values)):.3f}"


def many(seeds, mixed: float, **options) -> dict[str, np.ndarray]:
    """Cost per round less that of staying, of ten knobs of ten values; by who decides, one number for each seed."""
    found: dict[str, list[float]] = {}
    for seed in seeds:
        world = KnobWorld(10, 10, seed, mixed)
        base = stay(world)
        found.setdefault("knob planner", []).append(run(world, knob_planner(world, **options)) - base)
        for hold in (3, 6, 12):
            found.setdefault(f"one at a time, {hold} rounds each", []).append(one_at_a_time(world, hold) - base)
        found.setdefault("best fixed in hindsight", []).append(best_fixed(world) - base)
    return {name: np.array(values) for name, values in found.items()}


def few(seeds, mixed: float) -> dict[str, np.ndarray]:
    """The same of three knobs of five values, where the joint planner runs too."""
    found: dict[str, list[float]] = {}
    for seed in seeds:
        world = KnobWorld(3, 5, seed, mixed)
        base = stay(world)
        joint = hc.Problem(hc.grid(**world.axes))
        policies = {
            "knob planner": knob_planner(world),
            "joint planner": hc.planner(joint, context_bounds=(0.0, 1.0)),
            "recommended": hc.recommended(joint),
        }
        for name, policy in policies.items():
            found.setdefault(name, []).append(run(world, policy) - base)
        found.setdefault("best fixed in hindsight", []).append(best_fixed(world) - base)
    return {name: np.array(values) for name, values in found.items()}


def main() -> None:
    which, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    options = {"width": float(sys.argv[4])} if len(sys.argv) > 4 else {}
    for mixed in (0.0, 0.3):
        begin = time.process_time()
        seeds = range(first, first + count)
        found = many(seeds, mixed, **options) if which == "many" else few(seeds, mixed)
        print(f"{which}, mixed {mixed:g}, seeds {first}..{first + count - 1}, {time.process_time() - begin:.0f} CPU s")
        for name, values in found.items():
            print(f"  {name:32s} {described(values)}  better than staying {np.sum(values < 0)} of {len(values)}")


if __name__ == "__main__":
    main()
