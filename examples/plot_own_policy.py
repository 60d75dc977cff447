"""
A policy of your own, against ours
==================================

For years your machine has followed a rule of thumb: "stay until the regret of not being elsewhere has paid for the
move". You would like to let it learn the costs, run it in a controller, and know how good it is. A rule is a class with
`begin`, `step` and `describe`, a policy is a rule times a cost model, and `check_policy` says if it keeps our promises.
"""

from dataclasses import dataclass, replace

import matplotlib.pyplot as plt
import numpy as np
from gallery import save

import holdcourse as hc
from holdcourse.deciding.rules import Choice, RuleState, View

PATIENCE = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0]
ROUNDS, WALKS = 150, 6
OTHERS = ((hc.gp_md, "#009E73"), (hc.recommended, "#0072B2"))


@dataclass(frozen=True, eq=False)
class PaidForTheMove:
    """Go where the regret of not being there exceeds `patience` times the cost of moving; then forget it."""

    problem: hc.Problem
    patience: float = 1.0

    def begin(self, action: int, seed: int, round: int = 0) -> RuleState:  # noqa: A002 - the word of the field
        """Nothing regretted yet."""
        return RuleState(int(action), round, seed, {"regret": np.zeros(self.problem.n)})

    def step(self, state: RuleState, view: View) -> Choice:
        """Add this round's regret, and go if it has paid for the move."""
        here, way = state.action, self.problem.distances[state.action]
        if view.allowed[here]:
            regret = np.maximum(state.arrays["regret"] + view.costs[here] - view.costs, 0.0)
            paid = regret - self.patience * way
            action = int(np.argmax(paid)) if paid.max() > 0 else here
        else:  # we must leave: to the nearest that is allowed
            regret, action = state.arrays["regret"], int(np.argmin(np.where(view.allowed, way, np.inf)))
        kept = {"regret": regret if action == here else np.zeros_like(regret)}
        certain = np.eye(self.problem.n)[action]
        return Choice(replace(state, action=action, round=state.round + 1, arrays=kept), certain)

    def describe(self) -> dict[str, object]:
        """What makes two such rules equal."""
        return {"rule": "PaidForTheMove", "patience": self.patience}


def main() -> plt.Figure:
    world = hc.SyntheticWorld.sample(seed=2, grid=(25,), contexts=10, rho=0.6)
    beliefs = {name: getattr(world, name) for name in ("kernel", "noise_std", "prior_mean", "contexts")}
    learned = hc.cgp_lcb(world.problem, **beliefs).costs  # lower bounds of a Gaussian process
    own = [hc.Policy("own rule", PaidForTheMove(world.problem, p), learned, world.problem) for p in PATIENCE]
    walks = [world.context_sequence("walk", ROUNDS, seed) for seed in range(WALKS)]
    hc.testing.check_policy(lambda: own[3], walks[0][:20])
    policies = [*own, *(make(world.problem, **beliefs) for make, _ in OTHERS)]
    runs = [[hc.simulate(policy, world, walk) for walk in walks] for policy in policies]
    bills = np.mean([[(run.service, run.movement) for run in row] for row in runs], axis=1) / ROUNDS
    figure, axes = plt.subplots(figsize=(10, 5.5))
    service, movement = bills[: len(own)].T
    axes.stackplot(PATIENCE, service, movement, colors=["#56B4E9", "#CC79A7"], alpha=0.6)
    axes.plot(PATIENCE, service + movement, color="#000000", marker="o")
    axes.text(0.1, 0.5 * service[0], "service cost")
    axes.text(0.1, service[0] + 0.28 * movement[0], "movement cost")
    axes.text(0.1, 0.95 * (service + movement)[0], "own rule")
    for policy, total, (_, colour) in zip(policies[len(own) :], bills[len(own) :].sum(axis=1), OTHERS, strict=True):
        axes.axhline(total, color=colour, ls="--")
        axes.annotate(f" {policy.name}", (1.0, total), xycoords=("axes fraction", "data"), color=colour, va="center")
    axes.set(xlabel="patience of the own rule", ylabel="bill per round", xlim=(0, PATIENCE[-1]), ylim=(0, None))
    axes.set_title("A rule of thumb at its best patience, against policies that are not tuned")
    return figure


if __name__ == "__main__":
    save(main())
