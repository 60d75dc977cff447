"""Policies side by side on the cells of our benchmark, as `holdcourse compare` shows them: worlds, runs, what they say.

A world is a landscape on a 14 x 14 grid, 40 contexts, and a process that they follow. A cell is such a process and a
weight rho of the service cost. Everything about a run follows from its seed, which is the number of its landscape: all
policies meet the same landscapes, contexts, starts and noise.

A ratio is what a policy paid over what the clairvoyant optimum would have paid on the same landscape and contexts.
Standard errors are over landscapes. Differences are paired by landscape; the error of a mean over cells is that of the
landscapes' means, as the cells of a landscape are no independent draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from holdcourse.deciding import registry
from holdcourse.deciding.hedge import hedged
from holdcourse.deciding.named_policies import check_policy_name, make_policy
from holdcourse.deciding.pilot import Pilot
from holdcourse.deciding.planning.plan import planner
from holdcourse.deciding.policy import Policy, gp_md
from holdcourse.experiments.own_problem import file_hash
from holdcourse.experiments.results import standard_error
from holdcourse.experiments.runs import (
    Frozen,
    PolicyConfig,
    Positive,
    RunConfig,
    Scene,
    Sweep,
    Trace,
    WorldConfig,
    check_names,
)
from holdcourse.experiments.store import Row
from holdcourse.movement.offline import optimal_path
from holdcourse.movement.problem import Problem
from holdcourse.worlds.simulation import Question, previous_actions, run_rounds
from holdcourse.worlds.synthetic import SyntheticWorld

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
    """Return the hedge of the comparison."""
    return hedged([planner(problem, **learning), narrow_gp_md(problem, **learning)])


class Forecast(Frozen):
    """Which forecast of the next rounds a policy is shown."""

    kind: Literal["none", "true", "shuffled"] = "none"

    @classmethod
    def of(cls, policy: str) -> Forecast:
        """Return the forecast that the policy of this name is shown."""
        kinds: dict[str, Any] = {"planner-forecast": "true", "planner-shuffled": "shuffled"}
        return cls(kind=kinds.get(policy, "none"))

    def shown(self, contexts: Array, seed: int) -> Callable[[int], Array | None]:
        """Return a function from the round to the contexts forecast there; None where nothing is forecast."""
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
        """Return the landscape with this number, its contexts and the start."""
        seed = self.seed_of(run)
        world = _landscape(seed, self.grid, self.contexts, run.rho)
        start = int(np.random.default_rng([seed, START]).integers(world.problem.n))
        rounds = 0 if self.process == ADVERSARY else run.rounds
        process = "iid" if self.process == ADVERSARY else self.process
        return Scene(world, world.context_sequence(process, rounds, seed), start)

    def policy(self, config: PolicyConfig, run: RunConfig, scene: Scene) -> Policy:
        """Make the policy of a run; learners know kernel, prior mean and noise, and which contexts there are."""
        world = scene.world
        assert isinstance(world, SyntheticWorld)
        knows: dict[str, Any] = {"kernel": world.kernel, "noise_std": world.noise_std, "prior_mean": world.prior_mean}
        knows["contexts"] = world.contexts
        if config.source is None and config.name in registry.names("cells"):
            made: Policy = registry.TABLE[config.name].maker("cells")(world.problem, **knows, **config.options)
            return made
        return make_policy(config.name, world.problem, knows, config.options, config.source)

    def seed_of(self, run: RunConfig) -> int:
        """Return the seed of a run, which is the number of its landscape."""
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
    """Be the adversary: of five contexts drawn, take the one in which the action is worst beside the best one."""
    drawn = random.choice(len(world.contexts), size=min(ADVERSARY_DRAWS, len(world.contexts)), replace=False)
    loss = world.landscape[drawn, action] - world.landscape[drawn].min(axis=1)
    return int(drawn[np.argmax(loss)])


@lru_cache(maxsize=4)
def _landscape(seed: int, grid: int, contexts: int, rho: float) -> SyntheticWorld:
    return SyntheticWorld.sample(seed=seed, grid=grid, contexts=contexts, rho=rho)


PUBLIC_SEEDS = range(9000, 9008)  # of the table in docs/benchmark-table.md
DEFAULT_POLICIES = ("recommended", "planner", "gp-md-1", "gp-md", "planner-known")


class ComparisonPlan(Frozen):
    """Plan of a comparison: policies, and the cells in which they are compared.

    Attributes
    ----------
    policies
        Names of our policies, or your own as "label=module.py:function" or "module.py:function". Differences are
        relative to the first policy. A function is called with the problem and, by name, with what a learner knows:
        kernel, noise_std, prior_mean and contexts.
    processes
        Processes of contexts; those in `HARD` run at rho 1 only.
    """

    policies: tuple[str, ...] = DEFAULT_POLICIES
    processes: tuple[str, ...] = EASY + HARD
    rho: tuple[Positive, ...] = RHOS
    first_seed: int = Field(default=PUBLIC_SEEDS.start, ge=0)
    seeds: int = Field(default=len(PUBLIC_SEEDS), gt=0)
    rounds: int = Field(default=300, gt=0)
    grid: int = Field(default=14, ge=2)
    contexts: int = Field(default=40, ge=1)

    @field_validator("policies")
    @classmethod
    def _each_once(cls, policies: tuple[str, ...]) -> tuple[str, ...]:
        return checked_policies(policies)

    @field_validator("processes")
    @classmethod
    def _known(cls, processes: tuple[str, ...]) -> tuple[str, ...]:
        groups = {"easy": EASY, "hard": HARD, "all": EASY + HARD}
        named = [name for given in processes for name in groups.get(given, (given,))]
        unknown = [name for name in named if name not in EASY + HARD]
        if unknown:
            raise ValueError(
                f"{unknown[0]!r} is not a process of contexts; choose from {', '.join([*EASY, *HARD, *groups])}"
            )
        return tuple(dict.fromkeys(named))

    @property
    def cells(self) -> list[tuple[str, float]]:
        """The cells: each a process of contexts and a weight rho."""
        return [(name, rho) for name in self.processes for rho in (HARD_RHOS if name in HARD else self.rho)]

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Names of the policies in tables."""
        return tuple(policy_of(text).name for text in self.policies)

    def check(self) -> None:
        """Raise an error unless the policies exist."""
        for text in self.policies:
            policy = policy_of(text)
            check_policy_name(policy.name, policy.source, registry.names("cells"))

    def sweep(self) -> Sweep:
        """Return all runs, landscape by landscape. Several plans on the same landscapes may share a folder."""
        policies = [policy_of(text) for text in self.policies]
        runs = [
            RunConfig(
                experiment=process,
                world=CellConfig(process=process, grid=self.grid, contexts=self.contexts, hashes=file_hashes(policy)),
                policy=policy,
                rho=rho,
                problem=seed,
                rounds=self.rounds,
            )
            for seed in range(self.first_seed, self.first_seed + self.seeds)
            for process, rho in self.cells
            for policy in policies
        ]
        return Sweep("compare", {"benchmark": "cells"}, tuple(runs))


def policy_of(text: str) -> PolicyConfig:
    """Return a policy as it is named on the command line."""
    label, source = _label_and_source(text)
    return PolicyConfig(name=label, source=source or None, options={"learning": True} if source else {})


def checked_policies(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The policies as they were named; `ValueError` unless each has a name of its own."""
    labels = [_label_and_source(text)[0] for text in texts]
    if "" in labels:
        raise ValueError(f"{texts[labels.index('')]!r} has no name; write it like mine=mine.py:mine")
    check_names(labels)
    return texts


def _label_and_source(text: str) -> tuple[str, str]:
    label, equals, source = text.partition("=")
    if equals:
        return label, source
    return (text.rpartition(":")[2], text) if ":" in text else (text, "")


def file_hashes(policy: PolicyConfig) -> dict[str, str]:
    """A hash of the file that a user's own policy comes from, by its name; of others, none."""
    path = Path("" if policy.source is None else policy.source.rpartition(":")[0])
    return {path.name: file_hash(path)} if path.suffix == ".py" and path.is_file() else {}


@dataclass(frozen=True)
class Line:
    """One policy of a comparison, over a group of cells.

    Attributes
    ----------
    mean, error
        Ratio to the optimum and its standard error.
    difference, difference_error
        To the first policy, paired by landscape.
    worst
        The largest mean of a cell.
    """

    policy: str
    mean: float
    error: float
    difference: float
    difference_error: float
    worst: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """Ratios to the optimum by policy, landscape and cell.

    Attributes
    ----------
    policies, seeds, cells
        Labels of the axes of `ratios`; landscapes and cells that some policy has not finished are left out.
    ratios
        Shape (policies, seeds, cells).
    """

    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    cells: tuple[tuple[str, float], ...]
    ratios: Array

    @classmethod
    def of(cls, rows: Iterable[Row], policies: Sequence[str], cells: Sequence[tuple[str, float]]) -> Comparison:
        """Make the comparison from finished runs."""
        found = {(row.policy, int(row.problem), (row.experiment, row.rho)): row.ratio for row in rows}
        everywhere = sorted({seed for _, seed, _ in found})
        whole = [s for s in everywhere if all((name, s, cell) in found for name in policies for cell in cells)]
        table = [[[found[name, seed, cell] for cell in cells] for seed in whole] for name in policies]
        ratios = np.array(table).reshape(len(policies), len(whole), len(cells))
        return cls(tuple(policies), tuple(whole), tuple(cells), ratios)

    def select(self, processes: Sequence[str]) -> Comparison:
        """Return the comparison in the cells of some processes only."""
        kept = [k for k, (process, _) in enumerate(self.cells) if process in processes]
        return Comparison(self.policies, self.seeds, tuple(self.cells[k] for k in kept), self.ratios[:, :, kept])

    @property
    def means(self) -> Array:
        """Mean costs over landscapes, shape (policies, cells)."""
        return np.asarray(self.ratios.mean(axis=1))

    def lines(self) -> list[Line]:
        """Return a line for each policy, over all cells."""
        found = []
        for name, table in zip(self.policies, self.ratios, strict=True):
            apart = (table - self.ratios[0]).mean(axis=1)
            by_seed = table.mean(axis=1)
            found.append(
                Line(
                    name,
                    float(by_seed.mean()),
                    standard_error(by_seed),
                    float(apart.mean()),
                    standard_error(apart),
                    float(table.mean(axis=0).max()),
                )
            )
        return found

    def cell_rows(self) -> list[dict[str, Any]]:
        """Return the means as flat dicts, one for each policy and cell."""
        return [
            {
                "policy": name,
                "process": process,
                "rho": rho,
                "landscapes": len(self.seeds),
                "mean": float(self.ratios[p, :, k].mean()),
                "standard_error": standard_error(self.ratios[p, :, k]),
                "difference": float((self.ratios[p, :, k] - self.ratios[0, :, k]).mean()),
                "difference_error": standard_error(self.ratios[p, :, k] - self.ratios[0, :, k]),
            }
            for p, name in enumerate(self.policies)
            for k, (process, rho) in enumerate(self.cells)
        ]
