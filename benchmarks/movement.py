"""One round of the movement engine: mirror descent, probabilities and a sample from the coupling."""

from __future__ import annotations

import numpy as np
import ot

import holdcourse as hc
from benchmarks.offline import smooth_costs
from benchmarks.timing import Row, best_of, best_of_each


def measure() -> list[Row]:
    axis = np.linspace(0.0, 1.0, 20)
    square = hc.Problem(hc.grid(x=axis, y=axis))
    rng = np.random.default_rng(0)
    spread = 0.01 * rng.random((500, square.n))  # costs so low that every action keeps some probability
    return [
        against_linear_program("one round, n = 400, every action probable", square, spread, bar=500.0),
        against_linear_program("one round, n = 400, synthetic landscape, rho 1", square, smooth_costs(square, rng)),
        growth(),
    ]


def against_linear_program(name: str, problem: hc.Problem, costs: np.ndarray, bar: float | None = None) -> Row:
    """The paper's way to move from one distribution to the next is a linear program; here POT's, on the same marginals.

    Its time depends on how many actions have any probability: POT leaves the others out.
    """
    tree = hc.frt_tree(problem, seed=3)
    distances = tree.distances()
    # From an even state, so that the marginals show what the costs do and not where we began.
    states = [tree.share.copy()]
    for row in costs:
        states.append(hc.mirror.descend(tree, states[-1], row))
    marginals = [hc.mirror.leaf_probabilities(tree, q) for q in states]
    rounds = range(0, len(costs), 50)

    def ours() -> None:
        for t in range(len(costs)):
            q = hc.mirror.descend(tree, states[t], costs[t])
            p = hc.mirror.leaf_probabilities(tree, q)
            hc.coupling.sample(tree, marginals[t], p, int(np.argmax(marginals[t])), 0.5)

    def peer() -> None:
        for t in rounds:
            ot.emd(marginals[t], marginals[t + 1], distances)

    mine, theirs = best_of_each([ours, peer], repeats=9)
    probable = np.mean([(p > 0).sum() for p in marginals])
    return Row(f"{name} ({probable:.0f} probable)", mine / len(costs), "ot.emd", theirs / len(rounds), bar)


def growth() -> Row:
    """Time per action at n = 10,000 against n = 1,000: 1 is linear growth, the bar is 1.5 times that."""
    seconds = []
    for n in (1_000, 10_000):
        rng = np.random.default_rng(n)
        problem = hc.Problem(rng.random((n, 2)))
        tree = hc.frt_tree(problem, seed=0)
        costs = 0.1 * rng.random((20, n))

        def rounds(tree: hc.Tree = tree, costs: np.ndarray = costs) -> None:
            q = hc.mirror.start(tree, 0)
            p = hc.mirror.leaf_probabilities(tree, q)
            action = 0
            for row in costs:
                q = hc.mirror.descend(tree, q, row)
                p_next = hc.mirror.leaf_probabilities(tree, q)
                action = hc.coupling.sample(tree, p, p_next, action, 0.5)
                p = p_next

        seconds.append(best_of(rounds, repeats=9) / len(costs) / n)
    return Row("one round, n = 10,000, per action", seconds[1], "n = 1,000, per action", seconds[0], 1 / 1.5)
