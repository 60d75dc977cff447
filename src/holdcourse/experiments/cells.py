"""The worlds of `holdcourse compare`: a landscape on a 14 x 14 grid, 40 contexts, and a process that they follow.

A cell is such a process and a weight rho of the service cost. Everything about a run follows from its seed, which is
the number of its landscape: all policies meet the same landscapes, contexts, starts and noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from holdcourse import registry
from holdcourse.experiments.policies import make_policy
from holdcourse.experiments.runs import Frozen, PolicyConfig, RunConfig, Scene, Trace, WorldConfig
from holdcourse.hedge import hedged
from holdcourse.offline import optimal_path
from holdcourse.pilot import Pilot
from holdcourse.planning import planner
from holdcourse.policy import Policy, gp_md
from holdcourse.problem import Problem
from holdcourse.run import previous_actions
from holdcourse.simulation import Question, run_rounds
from holdcourse.worlds import SyntheticWorld

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

EASY = ("iid", "walk", "daily", "blocks", "alternating")
ADVERSARY = "adversary"
HARD = ("drift", "pulse", "regimes", "chain change", ADVERSARY)
RHOS, HARD_RHOS = (0.5, 1.0, 2.0), (1.0,)
ADVERSARY_DRAWS = 5
FORECAST_ROUNDS = 12
START, ADVERSARY_LANE, FORECAST_LANE = 5, 29, 23  # what the random numbers of a seed are for


def narrow_gp_md(problem: Problem, **learning: Any) -> Policy:
    """GP-MD with bounds of width 1; that of the paper has width 2."""
    return gp_md(problem, width=1.0, **learning)


def planner_and_gp_md(problem: Problem, **learning: Any) -> Policy:
    """The hedge of the comparison."""
    return hedged([planner(problem, **learning), narrow_gp_md(problem, **learning)])


class Forecast(Frozen):
    """Which forecast of the next rounds a policy is shown."""

    kind: Literal["none", "true", "shuffled"] = "none"

    @classmethod
    def of(cls, policy: str) -> Forecast:
        """The forecast that the policy of this name is shown."""
        kinds: dict[str, Any] = {"planner-forecast": "true", "planner-shuffled": "shuffled"}
        return cls(kind=kinds.get(policy, "none"))

    def shown(self, contexts: Array, seed: int) -> Callable[[int], Array | None]:
        """A function from the round to the contexts forecast there; None where nothing is forecast."""
        if self.kind == "none":
            return lambda t: None
        order = np.arange(len(contexts))
        if self.kind == "shuffled":
            order = np.random.default_rng([seed, FORECAST_LANE]).permutation(order)
        return lambda t: contexts[order[t + 1 : t + 1 + FORECAST_ROUNDS]]


class CellConfig(WorldConfig):
    """A process of contexts over random landscapes; the number of a run's problem is the seed of everything.

    Attributes
    ----------
    hashes
        Of the file that a user's own policy comes from, so that a changed one is run again.
    """

    kind: Literal["cell"] = "cell"
    process: str
    grid: int = Field(default=14, ge=2)
    contexts: int = Field(default=40, ge=1)
    hashes: dict[str, str] = Field(default_factory=dict)

    def scene(self, run: RunConfig) -> Scene:
        """The landscape with this number, its contexts and the start."""
        seed = self.seed_of(run)
        world = _landscape(seed, self.grid, self.contexts, run.rho)
        start = int(np.random.default_rng([seed, START]).integers(world.problem.n))
        rounds = 0 if self.process == ADVERSARY else run.rounds
        process = "iid" if self.process == ADVERSARY else self.process
        return Scene(world, world.context_sequence(process, rounds, seed), start)

    def policy(self, config: PolicyConfig, run: RunConfig, scene: Scene) -> Policy:
        """The learner knows kernel, prior mean and noise, and which contexts there are."""
        world = scene.world
        assert isinstance(world, SyntheticWorld)
        knows: dict[str, Any] = {"kernel": world.kernel, "noise_std": world.noise_std, "prior_mean": world.prior_mean}
        knows["contexts"] = world.contexts
        if config.source is None and config.name in registry.names("cells"):
            made: Policy = registry.TABLE[config.name].maker("cells")(world.problem, **knows, **config.options)
            return made
        return make_policy(config.name, world.problem, knows, config.options, config.source)

    def seed_of(self, run: RunConfig) -> int:
        """The seed of a run is the number of its landscape."""
        return int(run.problem)

    def play(self, policy: Policy, run: RunConfig, scene: Scene) -> Trace:
        """Let the policy do its rounds; an adversary looks at where it is, and some policies are shown forecasts."""
        world, seed = scene.world, self.seed_of(run)
        assert isinstance(world, SyntheticWorld)
        pilot = Pilot(policy, scene.start, seed)
        random = np.random.default_rng([seed, ADVERSARY_LANE])
        forecast = Forecast.of(run.policy.name).shown(scene.contexts, seed)
        given = [world.index(context) for context in scene.contexts]
        met, actions = np.empty(run.rounds, dtype=np.int64), np.empty(run.rounds, dtype=np.int64)

        def questions() -> Iterator[Question]:
            for t in range(run.rounds):
                here = int(actions[t - 1]) if t else scene.start
                met[t] = given[t] if given else worst_context(world, here, random)
                yield Question(world.contexts[met[t]], forecast=forecast(t) if given else None)

        for t, one in enumerate(run_rounds(pilot, world, questions(), seed)):
            actions[t] = one.choice.action
        table = world.landscape[met]
        before = previous_actions(actions, np.array([scene.start]), np.array([run.rounds]))
        service, movement = table[np.arange(run.rounds), actions], world.problem.move_costs(before, actions)
        return Trace(actions, service, movement, optimal_path(table, world.problem, scene.start).total)


def worst_context(world: SyntheticWorld, action: int, random: np.random.Generator) -> int:
    """The adversary: of five contexts drawn, the one in which the present action is worst beside the best one."""
    drawn = random.choice(len(world.contexts), size=min(ADVERSARY_DRAWS, len(world.contexts)), replace=False)
    loss = world.landscape[drawn, action] - world.landscape[drawn].min(axis=1)
    return int(drawn[np.argmax(loss)])


@lru_cache(maxsize=4)
def _landscape(seed: int, grid: int, contexts: int, rho: float) -> SyntheticWorld:
    return SyntheticWorld.sample(seed=seed, grid=grid, contexts=contexts, rho=rho)
