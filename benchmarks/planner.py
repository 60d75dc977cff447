"""One planned decision, ask and tell included, against the same plan by plain numpy; and whether it stays flat in time.

Plain numpy: every representative's costs asked anew from the same posterior, two dense min-plus sweeps, row by row
(faster in numpy than all rows at once). The sweep alone is compared as well, without the cost model on either side.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import holdcourse as hc
from benchmarks.timing import Row, best_of_each
from holdcourse.deciding.pilot import Pilot
from holdcourse.deciding.planning.plan import Plan, planner

REPRESENTATIVES = 64
EARLY, LATE = 1_000, 10_000
ROUNDS = 20
DISCOUNT = 0.97


def measure() -> list[Row]:
    return [*against_numpy(), *over_time()]


def setting() -> tuple[hc.SyntheticWorld, np.ndarray]:
    contexts = (np.arange(REPRESENTATIVES) + 0.5) / REPRESENTATIVES
    return hc.SyntheticWorld.sample(seed=7, grid=20, contexts=contexts), contexts


def pilot_after(rounds: int) -> Pilot:
    """A planner that has seen all contexts and, besides, learned this many measurements."""
    world, contexts = setting()
    random = np.random.default_rng(0)
    which = random.integers(len(contexts), size=rounds)
    actions = random.integers(world.problem.n, size=rounds)
    past = hc.History(actions, contexts[which], world.landscape[which, actions])
    learning: dict[str, Any] = {"kernel": world.kernel, "noise_std": world.noise_std, "prior_mean": world.prior_mean}
    pilot = Pilot(planner(world.problem, contexts=contexts, history=past, **learning), 0, 0)
    play(pilot, world, np.concatenate([contexts, contexts]))
    return pilot


def play(pilot: Pilot, world: hc.SyntheticWorld, contexts: np.ndarray) -> None:
    for context in contexts:
        _, view = pilot.look(context)
        choice = pilot.decide(view)
        pilot.accept(choice)
        pilot.learn(choice.action, context, float(world.costs(0, context)[choice.action]))


def dense_sweep(believed: np.ndarray, chances: np.ndarray, values: np.ndarray, distances: np.ndarray) -> np.ndarray:
    onward = believed + DISCOUNT * (chances @ values)
    new = np.array([(distances + row).min(axis=1) for row in onward])
    return np.asarray(new - new.min())


def against_numpy() -> list[Row]:
    world, contexts = setting()
    pilot = pilot_after(EARLY)
    arrays = pilot.state.arrays
    distances = world.problem.distances
    rng = np.random.default_rng(1)
    sequence = rng.choice(contexts, size=ROUNDS)
    chances = np.full((REPRESENTATIVES, REPRESENTATIVES), 1 / REPRESENTATIVES)
    believed = arrays["expected"] - arrays["spread"]

    def plain_decisions() -> None:
        values = arrays["values"]
        for context in sequence[:2]:
            table = pilot.model.costs_at(contexts[:, None])
            for _ in range(2):
                values = dense_sweep(table, chances, values, distances)
            action = int(np.argmin(distances[0] + table[0] + DISCOUNT * chances[0] @ values))
            pilot.learn(action, context, 1.0)

    rule = Plan(world.problem)

    def our_sweep() -> None:
        rule._steps.backed_up(believed + DISCOUNT * (chances @ arrays["values"]))

    ours, plain = best_of_each([lambda: play(pilot, world, sequence), plain_decisions])
    our_step, plain_step = best_of_each(
        [our_sweep, lambda: dense_sweep(believed, chances, arrays["values"], distances)]
    )
    name = f"n = 400, {REPRESENTATIVES} representatives"
    return [
        Row(f"planner decision, {name}", ours / ROUNDS, "all asked, two dense numpy sweeps", plain / 2, 10.0),
        Row(f"planner decision, {name}", ours / ROUNDS, "two dense numpy sweeps alone", 2 * plain_step),
        Row(f"one sweep, {name}", our_step, "dense numpy sweep", plain_step, 10.0),
    ]


def over_time() -> list[Row]:
    world, contexts = setting()
    early, late = pilot_after(EARLY), pilot_after(LATE)
    sequence = np.random.default_rng(2).choice(contexts, size=ROUNDS)
    then, now = best_of_each([lambda: play(early, world, sequence), lambda: play(late, world, sequence)], repeats=7)
    # A ratio of 1 / 1.2 says: at most 1.2 times as slow.
    return [Row(f"planner decision, t = {LATE}", now / ROUNDS, f"t = {EARLY}", then / ROUNDS, 1 / 1.2)]
