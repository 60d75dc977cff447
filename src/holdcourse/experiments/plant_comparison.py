"""Policies side by side on plants, as `holdcourse compare --suite plants` shows them: runs, and what they say.

Every bill is held against that of staying, in the same case: the incumbent for ever. A case follows from its plant and
a seed (`holdcourse.worlds.plants`), so that all policies meet the same hours. Learners know the problem and nothing
else, or two weeks of operators' history besides. Standard errors are over seeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from holdcourse.deciding import registry
from holdcourse.deciding.named_policies import check_policy_name, make_policy
from holdcourse.deciding.policy import Policy
from holdcourse.errors import InvalidInput
from holdcourse.experiments.comparison import checked_policies, file_hashes, policy_of
from holdcourse.experiments.results import standard_error
from holdcourse.experiments.runs import CLAIRVOYANT, Frozen, PolicyConfig, RunConfig, Scene, Sweep, Trace, WorldConfig
from holdcourse.experiments.store import Folder
from holdcourse.movement.offline import PricedPath
from holdcourse.movement.problem import Problem
from holdcourse.worlds import plants
from holdcourse.worlds.plants import PLANTS, PUBLIC_SEEDS, ROUNDS, PlantCase

Array: TypeAlias = NDArray[np.float64]

WEEK = 168  # rounds
HARM = 0.02  # a run whose bill is above staying's by more than this share did harm
DEFAULT_POLICIES = ("recommended", "table", "fixed", "operators")
HINDSIGHT = ("best-fixed", CLAIRVOYANT)  # lines below the policies


@dataclass(frozen=True, eq=False)
class PlantWorld:
    """A case of a plant, as sweeps look at worlds; where operators step in, other settings cannot be had."""

    case: PlantCase

    @property
    def problem(self) -> Problem:
        """The settings, and what moving between them costs."""
        return self.case.problem

    def costs(self, round: int, context: Any) -> Array:  # noqa: A002
        """Expected cost of every setting, shape (n,)."""
        return np.asarray(self.case.possible[round])

    def measure(self, round: int, context: Any, action: int, noise: float) -> float:  # noqa: A002
        """What the sensor says; its noise belongs to the case. NaN where it says nothing."""
        found = self.case.reading(round, action)
        return float("nan") if found is None else found


class PlantConfig(WorldConfig):
    """A plant; the number of a run's problem is the seed of the case.

    Attributes
    ----------
    history
        Whether policies are given the operators' history.
    hashes
        Of the file that a user's own policy comes from, so that a changed one is run again.
    """

    kind: Literal["plant"] = "plant"
    plant: str
    history: bool = True
    hashes: dict[str, str] = Field(default_factory=dict)

    def scene(self, run: RunConfig) -> Scene:
        """The case of this seed."""
        case = _case(self.plant, int(run.problem), run.rounds)
        return Scene(PlantWorld(case), case.contexts, case.start)

    def policy(self, config: PolicyConfig, run: RunConfig, scene: Scene) -> Policy:
        """A human rule as the plant's people would follow it, or a learner that knows at most the history."""
        assert isinstance(scene.world, PlantWorld)
        case = scene.world.case
        learning = {"history": case.history} if self.history else {}
        if config.source is None and config.name in registry.names("plants"):
            entry = registry.TABLE[config.name]
            known = {"start": case.start, "edges": case.plant.edges, **learning}
            taken = {name: value for name, value in known.items() if name in entry.options("plants").names}
            made: Policy = entry.maker("plants")(case.problem, **taken)
            return made
        return make_policy(config.name, case.problem, learning, config.options, config.source)

    def seed_of(self, run: RunConfig) -> int:
        """The seed of a run is that of its case."""
        return int(run.problem)

    def play(self, policy: Policy, run: RunConfig, scene: Scene) -> Trace:
        """Let the policy run the plant."""
        assert isinstance(scene.world, PlantWorld)
        done = plants.operate(policy, scene.world.case, self.seed_of(run))
        return Trace(done.actions, done.service, done.movement)


@lru_cache(maxsize=4)
def _case(plant: str, seed: int, rounds: int) -> PlantCase:
    return PLANTS[plant].case(seed, rounds)


class PlantPlan(Frozen):
    """Plan of a comparison: policies, and the plants on which they are compared.

    Attributes
    ----------
    policies
        Names of our policies, or your own as "label=module.py:function" or "module.py:function". A function is called
        with the problem, and with ``history=`` unless the run is cold. Default: our policies and the rules of people.
    worlds
        Names of the plants; default: all.
    history
        Whether a run begins with two weeks of operators' history; without it the run is cold.
    """

    policies: tuple[str, ...] = ()
    worlds: tuple[str, ...] = tuple(PLANTS)
    history: bool = True
    first_seed: int = Field(default=PUBLIC_SEEDS.start, ge=0)
    seeds: int = Field(default=len(PUBLIC_SEEDS), gt=0)
    rounds: int = Field(default=ROUNDS, gt=0, le=ROUNDS)

    @field_validator("policies")
    @classmethod
    def _each_once(cls, policies: tuple[str, ...]) -> tuple[str, ...]:
        return checked_policies(policies)

    @field_validator("worlds")
    @classmethod
    def _known(cls, worlds: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [name for name in worlds if name not in PLANTS]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is not a plant; choose from {', '.join(PLANTS)}")
        return worlds

    @property
    def chosen(self) -> tuple[str, ...]:
        """The policies; by default those that need no more than the run offers."""
        needs = [name for name in DEFAULT_POLICIES if "history" in registry.TABLE[name].required]
        return self.policies or tuple(name for name in DEFAULT_POLICIES if self.history or name not in needs)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Names of the policies in tables."""
        return tuple(policy_of(text).name for text in self.chosen)

    def check(self) -> None:
        """Raise an error unless the policies exist and the run offers what they need."""
        for text in self.chosen:
            policy = policy_of(text)
            if policy.source is not None or policy.name not in registry.names("plants"):
                check_policy_name(policy.name, policy.source, registry.names("plants"))
            elif not self.history and "history" in registry.TABLE[policy.name].required:
                raise InvalidInput(f"policy {policy.name!r} needs a history, but a cold run has none; leave it out")

    def sweep(self) -> Sweep:
        """Return all runs, seed by seed. Several plans may share a folder, because their cases are the same."""
        runs = [
            RunConfig(
                experiment=plant,
                world=PlantConfig(plant=plant, history=self.history, hashes=file_hashes(policy)),
                policy=policy,
                rho=1.0,
                problem=seed,
                rounds=self.rounds,
            )
            for seed in range(self.first_seed, self.first_seed + self.seeds)
            for plant in self.worlds
            for policy in map(policy_of, self.chosen)
        ]
        return Sweep("plants", {"benchmark": "plants"}, tuple(runs))


@dataclass(frozen=True)
class PlantLine:
    """One policy on one plant, or on all; bills are shares above staying's, below 0 where less was paid.

    Attributes
    ----------
    mean, error
        Mean of the bill over seeds, and its standard error.
    worst
        The most expensive run.
    first_week
        Mean bill of the first week, against staying's of that week.
    harmed
        Share of runs that paid over 2 % more than staying.
    """

    policy: str
    world: str
    mean: float
    error: float
    worst: float
    first_week: float
    harmed: float


@dataclass(frozen=True, eq=False)
class PlantComparison:
    """Bills compared with staying, by policy, plant and seed.

    Attributes
    ----------
    policies, worlds, seeds
        Labels of the axes; the last two policies are hindsight. Seeds that some policy has not finished on some plant
        are left out.
    bills, first_weeks
        Bill divided by the bill of staying, less 1; shape (policies, worlds, seeds).
    """

    policies: tuple[str, ...]
    worlds: tuple[str, ...]
    seeds: tuple[int, ...]
    bills: Array
    first_weeks: Array

    @classmethod
    def of(cls, plan: PlantPlan, folder: str | Path) -> PlantComparison:
        """Make the comparison from the finished runs of a plan."""
        store, found = Folder(Path(folder)), {}
        for run in plan.sweep().runs:
            if store.run_file(run.identity).exists():
                row, curves = store.load(run.identity)
                paid = curves["service"].astype(np.float64) + curves["movement"]
                found[row.policy, row.experiment, int(row.problem)] = row.total, float(paid[:WEEK].sum())
        everywhere = sorted({seed for _, _, seed in found})
        whole = [s for s in everywhere if all((p, w, s) in found for p in plan.labels for w in plan.worlds)]
        policies = (*plan.labels, *HINDSIGHT)
        table = np.zeros((2, len(policies), len(plan.worlds), len(whole)))
        for w, world in enumerate(plan.worlds):
            for s, seed in enumerate(whole):
                case = PLANTS[world].case(seed, plan.rounds)
                own = [found[name, world, seed] for name in plan.labels]
                own += [_paid(case, path) for path in (case.best_fixed, case.optimum)]
                table[:, :, w, s] = np.array(own).T / np.array(_paid(case, case.stay))[:, None] - 1.0
        return cls(policies, plan.worlds, tuple(whole), table[0], table[1])

    def line(self, policy: str, world: str | None = None) -> PlantLine:
        """Return the line of a policy on one plant, or on all of them."""
        p = self.policies.index(policy)
        chosen = range(len(self.worlds)) if world is None else [self.worlds.index(world)]
        bills, weeks = self.bills[p, chosen], self.first_weeks[p, chosen]
        by_seed = bills.mean(axis=0)
        return PlantLine(
            policy,
            "all" if world is None else world,
            float(by_seed.mean()),
            standard_error(by_seed),
            float(bills.max()),
            float(weeks.mean()),
            float((bills > HARM).mean()),
        )

    def lines(self, policy: str | None = None) -> list[PlantLine]:
        """Return a line for every policy over all plants; or, for one policy, a line for every plant."""
        if policy is None:
            return [self.line(name) for name in self.policies]
        return [self.line(policy, world) for world in self.worlds]

    @property
    def every_line(self) -> list[PlantLine]:
        """All lines: every policy on every plant, and on all plants together."""
        return [line for name in self.policies for line in (*self.lines(name), self.line(name))]


def _paid(case: PlantCase, path: PricedPath) -> tuple[float, float]:
    """The bill of a path, and of its first week."""
    actions = path.actions[:WEEK]
    before = np.concatenate([[case.start], actions[:-1]])
    service = case.costs[np.arange(len(actions)), actions].sum()
    return path.total, float(service + case.problem.move_costs(before, actions).sum())
