"""What others do about the cost of changing a setting, in the loop of our benchmark.

All four look at BoTorch's `SingleTaskGP` with the kernel, noise and prior mean that our learners know too, so that only
the decision differs; the context is fixed and the acquisition evaluated at every action, which is exact here.

| policy | acquisition | movement |
|---|---|---|
| `botorch_ucb` | upper confidence bound, width 2 | none |
| `botorch_proximal` | the same | `ProximalAcquisitionFunction`: weighted by closeness to the last measured setting |
| `travel_cap` | upper confidence bound, width sqrt 2 | a tenth of each axis per round at most, as in Xopt |
| `ei_per_cost` | expected improvement | divided by movement cost plus the shortest move |

``holdcourse compare --policies recommended,ucb=benchmarks/peers.py:botorch_ucb`` puts one beside ours, and
``python -m benchmarks.peers --seeds 2`` all of them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import botorch
import gpytorch
import numpy as np
import torch
from botorch.acquisition import ExpectedImprovement, ProximalAcquisitionFunction, UpperConfidenceBound
from botorch.models import SingleTaskGP
from numpy.typing import ArrayLike, NDArray

import holdcourse as hc
from benchmarks.timing import Row, best_of_each
from holdcourse.deciding.pilot import Pilot
from holdcourse.deciding.rules import Choice, Greedy, RuleState, View
from holdcourse.learning.costs import Estimate

Array = NDArray[np.float64]
Acquisition = Callable[[SingleTaskGP, torch.Tensor], torch.Tensor]  # the model and (n, d) candidates give (n,)

UCB_BETA = 4.0  # BoTorch's beta is the square of the width
XOPT_BETA = 2.0  # Xopt's default
TRAVEL = 0.1  # share of each axis
CLOSENESS = 0.5  # of the proximal weights; 0.2, the length scale of the costs, gets stuck on some landscapes
ANYWHERE = 1e6  # proximal weight of the context, whose changes cost nothing


class PeerModel:
    """The negative acquisition as cost; see `holdcourse.learning.costs.CostModel`."""

    needs_costs = False

    def __init__(self, problem: hc.Problem, name: str, acquisition: Acquisition, known: Mapping[str, Any]) -> None:
        self.problem, self.name, self.acquisition, self.known = problem, name, acquisition, known
        self.covariance = covariance(known["kernel"], problem.actions.shape[1] + 1)
        self.measurements: list[tuple[int, tuple[float, ...], float]] = []

    def estimate(self, context: Any, shown: ArrayLike | None = None) -> Estimate:
        """Minus the acquisition at every action in this context."""
        candidates = inputs(self.problem, range(self.problem.n), [np.atleast_1d(context)] * self.problem.n)
        if not self.measurements:  # BoTorch needs data before it says anything: all actions are alike
            costs = np.zeros(self.problem.n)
            return Estimate(costs, np.full(self.problem.n, float(self.known["prior_mean"])))
        with torch.no_grad(), botorch.settings.validate_input_scaling(False):
            model = self.model()
            value = self.acquisition(model, candidates)
            mean = -model.posterior(candidates).mean.squeeze(-1)
        return Estimate(-value.numpy(), mean.numpy())

    def model(self) -> SingleTaskGP:
        """A model of the gain, minus the cost, with known hyperparameters."""
        actions, contexts, measured = zip(*self.measurements, strict=True)
        y = -torch.tensor(measured, dtype=torch.float64)[:, None]
        noise = torch.full_like(y, self.known["noise_std"] ** 2)
        x = inputs(self.problem, actions, contexts)
        model = SingleTaskGP(x, y, noise, covar_module=self.covariance, outcome_transform=None)
        model.mean_module.constant.data.fill_(-self.known["prior_mean"])
        return model.eval()

    def costs_at(self, contexts: ArrayLike) -> Array:
        """In several contexts."""
        return np.array([self.estimate(context).costs for context in np.atleast_2d(contexts)])

    def learn(self, action: int, context: Any, measurement: float) -> float:
        """Keep it; the model is built anew each round."""
        self.measurements.append((int(action), tuple(np.atleast_1d(context).tolist()), float(measurement)))
        return 1.0

    def new_episode(self) -> None:
        """Nothing to do."""

    def copy(self) -> PeerModel:
        """Make an independent twin."""
        twin = PeerModel(self.problem, self.name, self.acquisition, self.known)
        twin.measurements = list(self.measurements)
        return twin

    def state(self) -> dict[str, Array]:
        """The measurements."""
        return {"measurements": np.array([(a, *c, y) for a, c, y in self.measurements])}

    def restore(self, arrays: Mapping[str, Array]) -> PeerModel:
        """Take over what `state` gave."""
        self.measurements = [(int(row[0]), tuple(row[1:-1].tolist()), float(row[-1])) for row in arrays["measurements"]]
        return self

    def describe(self) -> dict[str, Any]:
        """What the model is."""
        return {"model": self.name, "kernel": self.known["kernel"].to_json(), "noise_std": self.known["noise_std"]}


def inputs(problem: hc.Problem, actions: Sequence[int] | range, contexts: Sequence[Any]) -> torch.Tensor:
    """Action coordinates and context side by side."""
    return torch.tensor(np.hstack([problem.actions[list(actions)], np.array(contexts)]), dtype=torch.float64)


def covariance(kernel: hc.Kernel, dimension: int) -> gpytorch.kernels.Kernel:
    """Our product of two squared exponentials as one with a length scale per axis."""
    axes = dimension - 1  # the worlds of the benchmark have one context number
    inner = gpytorch.kernels.RBFKernel(ard_num_dims=dimension)
    inner.lengthscale = [[kernel.action.length_scale] * axes + [kernel.context.length_scale]]
    outer = gpytorch.kernels.ScaleKernel(inner)
    outer.outputscale = kernel.variance
    return outer.double()


# -- acquisitions ------------------------------------------------------------------------------------------------------


def ucb(beta: float) -> Acquisition:
    return lambda model, candidates: UpperConfidenceBound(model, beta=beta)(candidates[:, None])


def proximal(model: SingleTaskGP, candidates: torch.Tensor) -> torch.Tensor:
    weights = torch.full((candidates.shape[1],), CLOSENESS, dtype=torch.float64)
    weights[-1] = ANYWHERE
    inner = UpperConfidenceBound(model, beta=UCB_BETA)
    # Weighting needs positive values: BoTorch's softplus, in the units of the measurements.
    return ProximalAcquisitionFunction(inner, weights, transformed_weighting=False, beta=1.0)(candidates[:, None])


def improvement(model: SingleTaskGP, candidates: torch.Tensor) -> torch.Tensor:
    best = model.posterior(candidates).mean.max()  # the best expected in this context; what was measured is noisy
    return ExpectedImprovement(model, best_f=best)(candidates[:, None])


# -- rules that look at the move ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Nearby:
    """The cheapest action within a share of each axis from here; or the cheapest per unit of way."""

    problem: hc.Problem
    travel: float | None = None

    def begin(self, action: int, seed: int, round: int = 0) -> RuleState:  # noqa: A002
        """Nothing to remember."""
        return RuleState(int(action), round, seed, {})

    def step(self, state: RuleState, view: View) -> Choice:
        """Look around and go."""
        if self.travel is not None:
            extent = np.ptp(self.problem.actions, axis=0)
            apart = np.abs(self.problem.actions - self.problem.actions[state.action]) / np.where(extent > 0, extent, 1)
            scores = np.where(apart.max(axis=1) <= self.travel, view.costs, np.inf)
        else:
            way = self.problem.distances[state.action]
            scores = view.costs / (way + way[way > 0].min())
        scores = np.where(view.allowed, scores, np.inf)
        if not np.isfinite(scores).any():  # nothing that is allowed is within the cap: the nearest
            scores = np.where(view.allowed, self.problem.distances[state.action], np.inf)
        action = int(np.argmin(scores))
        probabilities = np.zeros(self.problem.n)
        probabilities[action] = 1.0
        return Choice(replace(state, action=action, round=state.round + 1), probabilities)

    def describe(self) -> dict[str, Any]:
        """What the rule is."""
        return {"rule": "Nearby", "travel": self.travel}


# -- policies: called with the problem and what a learner knows --------------------------------------------------------


def botorch_ucb(problem: hc.Problem, **known: Any) -> hc.Policy:
    return hc.Policy("BoTorch UCB", Greedy(problem), PeerModel(problem, "ucb", ucb(UCB_BETA), known), problem)


def botorch_proximal(problem: hc.Problem, **known: Any) -> hc.Policy:
    return hc.Policy("BoTorch proximal", Greedy(problem), PeerModel(problem, "proximal", proximal, known), problem)


def travel_cap(problem: hc.Problem, **known: Any) -> hc.Policy:
    model = PeerModel(problem, "ucb", ucb(XOPT_BETA), known)
    return hc.Policy("travel cap", Nearby(problem, TRAVEL), model, problem)


def ei_per_cost(problem: hc.Problem, **known: Any) -> hc.Policy:
    return hc.Policy("EI per cost", Nearby(problem), PeerModel(problem, "ei", improvement, known), problem)


PEERS = (botorch_ucb, botorch_proximal, travel_cap, ei_per_cost)


def measure() -> list[Row]:
    """One decision with 300 measurements: ours against the peer's model."""
    world = hc.SyntheticWorld.sample(seed=3, grid=14)
    known = {"kernel": world.kernel, "noise_std": world.noise_std, "prior_mean": world.prior_mean}
    contexts = world.context_sequence("iid", 301, seed=1)

    def deciding(policy: hc.Policy) -> Callable[[], object]:
        pilot = Pilot(policy, 0, 0)
        actions = np.random.default_rng(0).integers(world.problem.n, size=300)
        for t, action in enumerate(actions.tolist()):
            pilot.learn(action, contexts[t], world.measure(t, contexts[t], action, 0.0))
        return lambda: pilot.decide(pilot.look(contexts[300])[1])

    ours = deciding(hc.recommended(world.problem, **known, contexts=world.contexts))
    seconds = best_of_each([ours, deciding(botorch_ucb(world.problem, **known))])
    return [Row("decision after 300 measurements: recommended", seconds[0], "BoTorch UCB", seconds[1])]


def main(arguments: Sequence[str] | None = None) -> int:
    from holdcourse.cli.root import app

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="comparison")
    given, rest = parser.parse_known_args(arguments)
    here = Path(__file__)
    names = ["recommended", *(f"{peer.__name__}={here}:{peer.__name__}" for peer in PEERS)]
    app(["compare", "--policies", ",".join(names), "--out", given.out, *rest], standalone_mode=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
