"""The paper's synthetic experiments (its section 5, Figure 2)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import numpy as np
from pydantic import Field

from holdcourse.experiments.policies import make_policy
from holdcourse.experiments.runs import (
    CLAIRVOYANT,
    PAPER_POLICIES,
    Frozen,
    PolicyConfig,
    Positive,
    RunConfig,
    Scene,
    Sweep,
    WorldConfig,
)
from holdcourse.policy import Policy
from holdcourse.worlds import SyntheticWorld

OVER_TIME, OVER_RHO = "synthetic", "synthetic-rho"  # the names of the two experiments
RHO_SWEEP = (0.1, 0.1778, 0.3162, 0.5623, 1.0, 1.778, 3.162, 5.623, 10.0)


class SyntheticConfig(WorldConfig):
    """A random function on a grid, as in the paper."""

    kind: Literal["synthetic"] = "synthetic"
    grid: int = Field(default=20, ge=2)
    contexts: int = Field(default=40, ge=1)
    lengthscale: Positive = 0.2
    noise: float = Field(default=0.01, ge=0)
    width: float = Field(default=2.0, ge=0)

    def scene(self, run: RunConfig) -> Scene:
        """The function with this number; the same for all policies and all rho."""
        world = _function(self, run.seed_for("function"), run.rho)
        contexts = world.context_sequence("iid", run.rounds, run.seed_for("contexts"))
        random = np.random.default_rng(run.seed_for("start"))
        start = int(random.integers(world.problem.n)) if run.start is None else run.start
        return Scene(world, contexts, start)

    def policy(self, config: PolicyConfig, run: RunConfig, scene: Scene) -> Policy:
        """The learner knows kernel, prior mean and noise, and which contexts there are."""
        world = scene.world
        assert isinstance(world, SyntheticWorld)
        knows: dict[str, Any] = {"contexts": world.contexts, "width": self.width}
        knows |= {"kernel": world.kernel, "prior_mean": world.prior_mean, "noise_std": world.noise_std}
        return make_policy(config.name, world.problem, knows, config.options)


@lru_cache(maxsize=4)
def _function(config: SyntheticConfig, seed: int, rho: float) -> SyntheticWorld:
    return SyntheticWorld.sample(
        seed, config.grid, config.contexts, rho, lengthscale=config.lengthscale, noise=config.noise
    )


class SyntheticPlan(Frozen):
    """The synthetic section in full; smaller numbers for a quick look.

    Attributes
    ----------
    rho, rounds
        Of the figures over time.
    sweep_rho, sweep_rounds
        Of the figure against rho.
    functions
        How many random functions.
    """

    rho: tuple[Positive, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)
    rounds: int = Field(default=500, gt=0)
    sweep_rho: tuple[Positive, ...] = RHO_SWEEP
    sweep_rounds: int = Field(default=800, gt=0)
    functions: int = Field(default=25, gt=0)
    policies: tuple[str, ...] = PAPER_POLICIES
    seed: int = Field(default=0, ge=0)
    world: SyntheticConfig = SyntheticConfig()

    @classmethod
    def quick(cls) -> SyntheticPlan:
        """A look in seconds: same figures, small numbers."""
        return cls(
            rho=(0.5, 1.0, 2.0),
            rounds=100,
            sweep_rho=(0.1, 1.0, 10.0),
            sweep_rounds=100,
            functions=3,
            world=SyntheticConfig(grid=8, contexts=10),
        )

    def sweep(self) -> Sweep:
        """All runs of the plan, as a sweep."""
        runs = [
            RunConfig(
                experiment=experiment,
                world=self.world,
                policy=PolicyConfig(name=policy),
                rho=rho,
                problem=function,
                rounds=rounds,
                seed=self.seed,
            )
            for experiment, weights, rounds in (
                (OVER_TIME, self.rho, self.rounds),
                (OVER_RHO, self.sweep_rho, self.sweep_rounds),
            )
            for function in range(self.functions)
            for rho in weights
            for policy in (*self.policies, CLAIRVOYANT)
        ]
        return Sweep("synthetic", self.model_dump(mode="json"), tuple(runs))
