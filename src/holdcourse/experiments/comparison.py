"""Policies side by side on the cells of our benchmark: the runs, and what they say.

A ratio is what a policy paid over what the clairvoyant optimum would have paid on the same landscape and contexts.
Standard errors are over landscapes. Differences are paired by landscape; the error of a mean over cells is that of the
landscapes' means, as the cells of a landscape are no independent draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from holdcourse import registry
from holdcourse.experiments.cells import EASY, HARD, HARD_RHOS, RHOS, CellConfig
from holdcourse.experiments.own import file_hash
from holdcourse.experiments.policies import check_policy_name
from holdcourse.experiments.results import standard_error
from holdcourse.experiments.runs import Frozen, PolicyConfig, Positive, RunConfig, Sweep, check_names
from holdcourse.experiments.store import Row

Array: TypeAlias = NDArray[np.float64]

PUBLIC_SEEDS = range(9000, 9008)  # of the table in docs/benchmark-table.md
DEFAULT_POLICIES = ("recommended", "planner", "gp-md-1", "gp-md", "planner-known")


class ComparisonPlan(Frozen):
    """Which policies are compared, and in which cells.

    Attributes
    ----------
    policies
        Names of ours, or a user's own as "label=module.py:function" or "module.py:function". Differences are to the
        first one. A function is called with the problem and, by name, what a learner knows: kernel, noise_std,
        prior_mean and contexts.
    processes
        Of the contexts; those in `HARD` are run at rho 1 only.
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
        labels = [_label_and_source(text)[0] for text in policies]
        if "" in labels:
            raise ValueError(f"{policies[labels.index('')]!r} has no name; write it like mine=mine.py:mine")
        check_names(labels)
        return policies

    @field_validator("processes")
    @classmethod
    def _known(cls, processes: tuple[str, ...]) -> tuple[str, ...]:
        groups = {"easy": EASY, "hard": HARD, "all": EASY + HARD}
        named = [name for given in processes for name in groups.get(given, (given,))]
        unknown = [name for name in named if name not in EASY + HARD]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is no process; there are {', '.join([*EASY, *HARD, *groups])}")
        return tuple(dict.fromkeys(named))

    @property
    def cells(self) -> list[tuple[str, float]]:
        """The cells: each a process of contexts and a weight rho."""
        return [(name, rho) for name in self.processes for rho in (HARD_RHOS if name in HARD else self.rho)]

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What the policies are called in tables."""
        return tuple(policy_of(text).name for text in self.policies)

    def check(self) -> None:
        """Raise unless there are such policies."""
        for text in self.policies:
            policy = policy_of(text)
            if policy.source is not None or policy.name not in registry.names("cells"):
                check_policy_name(policy.name, policy.source)

    def sweep(self) -> Sweep:
        """All runs, landscape by landscape. A folder may hold those of several plans: their landscapes are the same."""
        policies = [policy_of(text) for text in self.policies]
        runs = [
            RunConfig(
                experiment=process,
                world=CellConfig(process=process, grid=self.grid, contexts=self.contexts, hashes=_hashes(policy)),
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
    """A policy as it is named on the command line."""
    label, source = _label_and_source(text)
    return PolicyConfig(name=label, source=source or None, options={"learning": True} if source else {})


def _label_and_source(text: str) -> tuple[str, str]:
    label, equals, source = text.partition("=")
    if equals:
        return label, source
    return (text.rpartition(":")[2], text) if ":" in text else (text, "")


def _hashes(policy: PolicyConfig) -> dict[str, str]:
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
        What the axes of `ratios` stand for; landscapes and cells that some policy has not finished are left out.
    ratios
        Shape (policies, seeds, cells).
    """

    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    cells: tuple[tuple[str, float], ...]
    ratios: Array

    @classmethod
    def of(cls, rows: Iterable[Row], policies: Sequence[str], cells: Sequence[tuple[str, float]]) -> Comparison:
        """The comparison that finished runs make."""
        found = {(row.policy, int(row.problem), (row.experiment, row.rho)): row.ratio for row in rows}
        everywhere = sorted({seed for _, seed, _ in found})
        whole = [s for s in everywhere if all((name, s, cell) in found for name in policies for cell in cells)]
        table = [[[found[name, seed, cell] for cell in cells] for seed in whole] for name in policies]
        ratios = np.array(table).reshape(len(policies), len(whole), len(cells))
        return cls(tuple(policies), tuple(whole), tuple(cells), ratios)

    def select(self, processes: Sequence[str]) -> Comparison:
        """The comparison in the cells of some processes only."""
        kept = [k for k, (process, _) in enumerate(self.cells) if process in processes]
        return Comparison(self.policies, self.seeds, tuple(self.cells[k] for k in kept), self.ratios[:, :, kept])

    @property
    def means(self) -> Array:
        """Mean costs over landscapes, shape (policies, cells)."""
        return np.asarray(self.ratios.mean(axis=1))

    def lines(self) -> list[Line]:
        """A line for each policy, over all cells."""
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
        """The means as flat dicts, one for each policy and cell."""
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
