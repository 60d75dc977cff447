"""One run of a sweep: a frozen description that says everything about it, and from which everything follows.

The identity of a run is a hash of its description; results are kept under it. Random numbers come from `SeedSequence`,
keyed by the part of the description that runs should share: all policies and all rho meet the same function, contexts
and start, and all policies the same noise. So results depend neither on order nor on who computes them.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny

from holdcourse.deciding.policy import Policy
from holdcourse.worlds.simulation import World, simulate

Array: TypeAlias = NDArray[np.float64]
Positive: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]

CLAIRVOYANT = "clairvoyant"  # not a policy but what hindsight would have done; it appears in sweeps like one
PAPER_POLICIES = ("gp-md", "cgp-lcb", "md-known", "minc-known", "stationary")


class Frozen(BaseModel):
    """A description: nothing in it changes, and no key is unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True, eq=False)
class Scene:
    """What a run needs besides its policy.

    Attributes
    ----------
    world
        Where it takes place.
    contexts
        One per round, shape (T, d); none where they depend on what the policy does.
    start
        The action before the first round.
    best
        Where costs are what a gain falls short of the largest one: that largest gain of each round, shape (T,).
    """

    world: World
    contexts: Array
    start: int
    best: Array | None = None


@dataclass(frozen=True, eq=False)
class Trace:
    """What a policy did and paid, an entry per round; and the optimum, where the scene alone does not tell it."""

    actions: NDArray[np.int64]
    service: Array
    movement: Array
    optimum: float | None = None


class PolicyConfig(Frozen):
    """A policy by name, with options of its own; `source` is the import path of one that is not ours."""

    name: str = Field(min_length=1)
    source: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)


def check_names(names: Sequence[str]) -> None:
    """Raise `ValueError` unless the policies of a sweep can be told apart by their names."""
    for name in names:
        if name == CLAIRVOYANT:
            raise ValueError(f"{name!r} is the optimum in hindsight; give the policy another name")
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is given twice; give each policy its own name, and its source")


class WorldConfig(Frozen, ABC):
    """A kind of world: it sets the scene of a run and makes the policies for it."""

    kind: str

    @abstractmethod
    def scene(self, run: RunConfig) -> Scene:
        """The scene of a run; equal for runs that differ only in policy and repetition."""

    @abstractmethod
    def policy(self, config: PolicyConfig, run: RunConfig, scene: Scene) -> Policy:
        """The policy of a run."""

    def seed_of(self, run: RunConfig) -> int:
        """Return the seed of a run's trees, draws and noise."""
        return run.run_seed

    def play(self, policy: Policy, run: RunConfig, scene: Scene) -> Trace:
        """Let the policy do its rounds."""
        flown = simulate(policy, scene.world, scene.contexts, start=scene.start, seed=self.seed_of(run))
        return Trace(flown.actions, flown.service_costs, flown.movement_costs)


class RunConfig(Frozen):
    """The description of one run.

    Attributes
    ----------
    experiment
        Which experiment it belongs to.
    problem
        Which function, site or data set.
    start
        The action before the first round; None: drawn at random, the same for all policies and all rho.
    repetition
        Runs that differ in this alone have other trees, draws and noise.
    seed
        Of the whole sweep.
    """

    experiment: str
    world: SerializeAsAny[WorldConfig]
    policy: PolicyConfig
    rho: float = Field(gt=0, allow_inf_nan=False)
    problem: int | str
    start: int | None = None
    repetition: int = Field(default=0, ge=0)
    rounds: int = Field(gt=0)
    seed: int = Field(default=0, ge=0)

    @cached_property
    def identity(self) -> str:
        """A hash that is equal for equal runs; the name of the run's file."""
        return digest(self.model_dump(mode="json"))

    @cached_property
    def group(self) -> str:
        """A hash that is equal for runs in the same scene: they share the clairvoyant optimum."""
        return digest(self.model_dump(mode="json", exclude={"policy", "repetition", "experiment"}))

    def seed_for(self, purpose: str) -> int:
        """Make a seed for what all policies, rho, starts and repetitions share: the function, the contexts."""
        return _seed(purpose, self._shared)

    @property
    def run_seed(self) -> int:
        """A seed for trees, draws and noise: all policies and rho share it, repetitions and starts do not."""
        return _seed("run", self._shared, self.start, self.repetition)

    @property
    def _shared(self) -> dict[str, Any]:
        return self.model_dump(mode="json", include={"world", "problem", "seed"})


def digest(description: Any) -> str:
    """Return a short hash of JSON values."""
    text = json.dumps(description, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _seed(*key: Any) -> int:
    """Return a seed below 2^63, since some take no larger one."""
    entropy = int(digest(list(key)), 16)
    return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0]) >> 1


@dataclass(frozen=True)
class Sweep:
    """Runs that belong together.

    Attributes
    ----------
    name
        For people.
    config
        What the runs were made from, in JSON values; a folder holds the results of one configuration only.
    runs
        Each once.
    """

    name: str
    config: dict[str, Any]
    runs: tuple[RunConfig, ...]

    @property
    def decisions(self) -> int:
        """Rounds of all runs that decide something."""
        return sum(run.rounds for run in self.runs if run.policy.name != CLAIRVOYANT)
