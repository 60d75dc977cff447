"""Two settings and two contexts without noise: sequences of contexts, and what a policy makes of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import holdcourse as hc
from holdcourse.deciding.pilot import Pilot
from holdcourse.movement.offline import optimal_path, price_path

PROBLEM = hc.Problem([0.0, 0.9999])
COSTS = np.array([[1.0, 2.0], [4.0, 2.0]])  # by context and setting
ROUNDS = 2100
ENOUGH_VISITS = 200
IID = [("iid", share, 1.0) for share in (0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9)]
BLOCKS = [("blocks", share, length) for length in (3.0, 6.0, 15.0, 50.0, 150.0) for share in (0.3, 0.5, 0.7)]


def sequence(kind, share, length, seed, rounds=ROUNDS):
    """Contexts 0 and 1: independent, or in blocks of geometric length; `share` is that of context 1."""
    rng = np.random.default_rng(seed)
    if kind == "iid":
        return (rng.random(rounds) < share).astype(int)
    contexts, now = [], int(rng.random() < share)
    while len(contexts) < rounds:
        mean = max(1.0, 2 * length * (share if now else 1 - share))
        contexts += [now] * int(rng.geometric(1 / mean))
        now = 1 - now
    return np.array(contexts[:rounds])


@dataclass(frozen=True)
class Outcome:
    """Cost over the clairvoyant optimum, pairs untried after enough visits, and rounds in which a trial was made."""

    ratio: float
    untried: list[tuple[int, int]]
    trials: list[int]


def played(policy, contexts, start, seed=0):
    """Run a policy on a sequence of contexts."""
    pilot = Pilot(policy, start, seed)
    actions, trials = [], []
    for t, now in enumerate(contexts.tolist()):
        _, view = pilot.look(float(now), shown=COSTS[now] if pilot.model.needs_costs else None)
        choice = pilot.decide(view)
        pilot.accept(choice)
        pilot.learn(choice.action, float(now), COSTS[now, choice.action])
        actions.append(choice.action)
        if "It tries" in choice.words:
            trials.append(t)
    costs = COSTS[contexts]
    ratio = price_path(actions, costs, PROBLEM, start).total / optimal_path(costs, PROBLEM).total
    return Outcome(ratio, untried(contexts, np.array(actions)), trials)


def untried(contexts, actions):
    """Pairs of context and setting that were not played in the first visits of a context."""
    pairs = []
    for context in (0, 1):
        visits = np.flatnonzero(contexts == context)
        first = actions[visits[:ENOUGH_VISITS]]
        pairs += [(context, a) for a in (0, 1) if len(visits) > ENOUGH_VISITS and not (first == a).any()]
    return pairs
