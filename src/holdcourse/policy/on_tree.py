"""Mirror descent on a tree that is given, or drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdcourse.checks import checked_seed, is_finite
from holdcourse.errors import InvalidInput, plain
from holdcourse.problem import Problem
from holdcourse.rules import MirrorDescent, tree_digest
from holdcourse.tree import Tree, frt_tree


@dataclass(frozen=True, eq=False)
class OnTree:
    """Makes mirror descent on a given tree or on one drawn from a seed."""

    problem: Problem
    tau: float = 5.0
    kappa: float = 1.0
    tree: Tree | None = None
    tree_seed: int | None = None

    def __post_init__(self) -> None:
        if self.tree is not None and not isinstance(self.tree, Tree):
            raise InvalidInput(f"tree must be a Tree, such as frt_tree gives, got {self.tree!r}")
        if self.tree is not None and self.tree.n != self.problem.n:
            raise InvalidInput(f"the tree has {self.tree.n} actions but the problem {self.problem.n}")
        if not (is_finite(self.kappa) and self.kappa >= 1):
            raise InvalidInput(f"kappa must be at least 1, got {plain(self.kappa)!r}")
        if not (is_finite(self.tau) and self.tau > 4):
            raise InvalidInput(f"tau must be above 4, got {plain(self.tau)!r}")
        object.__setattr__(self, "kappa", float(self.kappa))  # 1 and 1.0 must be described alike
        object.__setattr__(self, "tau", float(self.tau))
        if self.tree_seed is not None:
            object.__setattr__(self, "tree_seed", checked_seed(self.tree_seed, "tree_seed"))

    def rule_for(self, seed: int) -> MirrorDescent:
        """The rule of the run with this seed."""
        tree = self.tree
        if tree is None:
            tree = frt_tree(self.problem, self.tau, seed if self.tree_seed is None else self.tree_seed)
        return MirrorDescent(self.problem, tree, self.kappa)

    def describe(self) -> dict[str, Any]:
        """What it makes, in JSON values."""
        given = None if self.tree is None else tree_digest(self.tree)
        described = {"rule": "MirrorDescent", "tau": self.tau, "kappa": self.kappa}
        return described | {"tree": given, "tree_seed": self.tree_seed}
