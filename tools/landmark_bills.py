"""What weighing landmarks instead of all settings costs: bills of short runs, of the planner and of true costs.

    python tools/landmark_bills.py [--runs 24]

Runs of 100 rounds on 4,000 scattered settings of the plane, few enough to weigh all of them. Costs are a draw of the
kernel's process (length scale 0.2 in settings and context), eight contexts return in habits, a move across the square
costs as much as costs differ. Printed are the bill of a round and by how much it is above that of weighing all, with
the standard error over runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.deciding.pilot import Pilot
from holdcourse.threads import one_thread

SETTINGS, ROUNDS, CONTEXTS = 4_000, 100, 8
LENGTH, MEAN, NOISE = 0.2, 3.0, 0.1
WAVES = 400  # of which the costs are a sum
WEIGHED = (SETTINGS, 1_024, 512, 256)

Array = NDArray[np.float64]


def costs_of(problem: hc.Problem, contexts: Array, seed: int) -> Array:
    """Costs of every context and setting, (contexts, n)."""
    random = np.random.default_rng(seed)
    waves, phases = random.normal(size=(WAVES, 3)) / LENGTH, 2 * np.pi * random.random(WAVES)
    heights = random.normal(size=WAVES) * np.sqrt(2 / WAVES)
    along = problem.actions @ waves[:, :2].T + phases
    return np.array([np.cos(along + context * waves[:, 2]) @ heights + MEAN for context in contexts])


def habits(random: np.random.Generator) -> list[int]:
    """The context of every round: it lasts, or the next one follows, or any."""
    found = [0]
    for _ in range(ROUNDS - 1):
        turn = random.random()
        jumped = int(random.integers(CONTEXTS))
        found.append(found[-1] if turn < 0.6 else (found[-1] + 1) % CONTEXTS if turn < 0.9 else jumped)
    return found


def bill(policy: hc.Policy, table: Array, contexts: Array, order: list[int], seed: int) -> float:
    """The bill of a round, movement included."""
    pilot, noise, at, total = Pilot(policy, 0, seed), np.random.default_rng(seed), 0, 0.0
    for e in order:
        choice = pilot.choose(contexts[e], shown=table[e] if pilot.model.needs_costs else None)
        pilot.accept(choice)
        total += float(table[e, choice.action]) + policy.problem.distance(at, choice.action)
        at = choice.action
        pilot.learn(at, contexts[e], float(table[e, at] + NOISE * noise.normal()))
    return total / ROUNDS


def learned(problem: hc.Problem, contexts: Array, landmarks: int) -> hc.Policy:
    """The planner, which is told what it measures."""
    kernel = hc.Kernel(RBF(LENGTH), RBF(LENGTH))
    options = {"kernel": kernel, "noise_std": NOISE, "prior_mean": MEAN, "contexts": contexts}
    return hc.planner(problem, landmarks=landmarks, **options)


def known(problem: hc.Problem, contexts: Array, landmarks: int) -> hc.Policy:
    """The planner, shown the true costs: nothing is left to chance."""
    return hc.planner_known(problem, context_scale=LENGTH, landmarks=landmarks)


@one_thread()
def compared(make: Callable[[hc.Problem, Array, int], hc.Policy], runs: int, name: str) -> None:
    """Print the bills of some numbers of landmarks."""
    problem = hc.Problem(np.random.default_rng(1).random((SETTINGS, 2)))
    bills = np.empty((runs, len(WEIGHED)))
    for run in range(runs):
        random = np.random.default_rng(100 + run)
        contexts, order = np.sort(random.random(CONTEXTS)), habits(random)
        table = costs_of(problem, contexts, run)
        bills[run] = [bill(make(problem, contexts, count), table, contexts, order, run) for count in WEIGHED]
    more = 100 * (bills - bills[:, :1]) / bills[:, 0].mean()
    for count, column, difference in zip(WEIGHED, bills.T, more.T, strict=True):
        error = difference.std(ddof=1) / np.sqrt(runs)
        print(f"{name}, {count:,} weighed: {column.mean():.4f} a round, {difference.mean():+.2f} % ± {error:.2f}")


def main() -> None:
    """Compare both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=24)
    given = parser.parse_args()
    compared(known, given.runs, "true costs")
    compared(learned, given.runs, "planner")


if __name__ == "__main__":
    main()
