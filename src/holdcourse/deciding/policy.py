"""Policies: a rule times a cost model, and the ones of the paper by name.

================  ====================================  ============================================
policy            cost vector it sees                   rule
================  ====================================  ============================================
`gp_md`           lower bounds of the Gaussian process  mirror descent on a tree, coupling
`cgp_lcb`         lower bounds                          the cheapest
`proximal_lcb`    lower bounds                          the cheapest including the move
`md_known`        true costs                            mirror descent on a tree, coupling
`minc_known`      true costs                            the cheapest
`stationary`      none                                  stay
`fixed`           none                                  one action, chosen on history
================  ====================================  ============================================

A `Policy` is frozen and can be run many times. A `Pilot` is a policy at work, driven by `simulate` or a `Controller`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import checked_seed, is_finite
from holdcourse.deciding import registry
from holdcourse.deciding.rules import DemandingRule, Greedy, MirrorDescent, Proximal, Rule, RuleMaker, Stay, tree_digest
from holdcourse.errors import InvalidInput, plain
from holdcourse.learning.confidence import OutlierGuard, TheoryWidth
from holdcourse.learning.costs import CostModel, Every, IntervalMap, KnownCosts, LowerBound, Nothing
from holdcourse.learning.history import History, best_measured
from holdcourse.learning.kernels import AnyKernel
from holdcourse.learning.posteriors import Method, posterior
from holdcourse.movement.problem import Problem
from holdcourse.movement.settings import required
from holdcourse.movement.tree import Tree, frt_tree

if TYPE_CHECKING:
    from holdcourse.deciding.policyfile import Evidence

__all__ = [
    "Learning",
    "OnTree",
    "Policy",
    "cgp_lcb",
    "fixed",
    "fixed_at",
    "gp_md",
    "lower_bound",
    "md_known",
    "minc_known",
    "proximal_lcb",
    "stationary",
]


@dataclass(frozen=True, eq=False)
class OnTree:
    """Makes mirror descent on a given tree or on one drawn from a seed."""

    problem: Problem
    tau: float = 5.0
    kappa: float = 1.0
    tree: Tree | None = None
    tree_seed: int | None = None
    # The tree drawn last, by its seed: a controller makes its rule several times, which takes seconds for many actions.
    _drawn: dict[int, Tree] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.tree is not None and not isinstance(self.tree, Tree):
            raise InvalidInput(f"tree must be a Tree, such as hc.frt_tree returns, got {self.tree!r}")
        if self.tree is not None and self.tree.n != self.problem.n:
            raise InvalidInput(
                f"the tree has {self.tree.n} actions, but the problem has {self.problem.n}; make the tree for this "
                "problem"
            )
        if not (is_finite(self.kappa) and self.kappa >= 1):
            raise InvalidInput(f"kappa must be at least 1, got {plain(self.kappa)!r}")
        if not (is_finite(self.tau) and self.tau > 4):
            raise InvalidInput(f"tau must be above 4, got {plain(self.tau)!r}")
        object.__setattr__(self, "kappa", float(self.kappa))  # 1 and 1.0 must be described alike
        object.__setattr__(self, "tau", float(self.tau))
        if self.tree_seed is not None:
            object.__setattr__(self, "tree_seed", checked_seed(self.tree_seed, "tree_seed"))

    def rule_for(self, seed: int) -> MirrorDescent:
        """Return the rule of the run with this seed."""
        tree = self.tree
        if tree is None:
            drawn_by = seed if self.tree_seed is None else self.tree_seed
            tree = self._drawn.get(drawn_by)
            if tree is None:
                tree = frt_tree(self.problem, self.tau, drawn_by)
                self._drawn.clear()
                self._drawn[drawn_by] = tree
        return MirrorDescent(self.problem, tree, self.kappa)

    def describe(self) -> dict[str, Any]:
        """Return what it makes, in JSON values."""
        given = None if self.tree is None else tree_digest(self.tree)
        described = {"rule": "MirrorDescent", "tau": self.tau, "kappa": self.kappa}
        return described | {"tree": given, "tree_seed": self.tree_seed}


@dataclass(frozen=True, eq=False)
class Policy:
    """A rule and a cost model.

    Parameters
    ----------
    name
        How it is called in tables.
    rule
        A rule, or a `RuleMaker` for one that depends on the run's seed.
    costs
        The cost model as it is before the first round. Each run works on a copy.
    made_by
        Name and options of the function that made it, for those made by name; see `holdcourse.deciding.recipe`.
    explanation
        What was chosen and why, in sentences, for policies that choose among others; the first one is the shortest.
    limits, units, evidence
        What the machine may do, as `Limits` names it; what the numbers are; where it comes from. No decision of the
        policy depends on them; its file holds them, and a `Controller` begins with these limits.

    Examples
    --------
    >>> import holdcourse as hc
    >>> problem = hc.Problem([0.0, 0.5, 1.0])
    >>> mine = hc.Policy("cheapest", hc.rules.Greedy(problem), hc.costs.KnownCosts(problem), problem)
    >>> mine.fingerprint == hc.minc_known(problem).fingerprint  # the same rule on the same costs
    True
    """

    name: str
    rule: Rule | RuleMaker
    costs: CostModel
    problem: Problem
    made_by: tuple[str, Mapping[str, Any]] | None = None
    explanation: str = ""
    limits: Mapping[str, Any] | None = None
    units: Mapping[str, str] = field(default_factory=dict)
    evidence: Evidence | None = None

    def __post_init__(self) -> None:
        asked = self.rule.asks if isinstance(self.rule, DemandingRule) else ()
        missing = [protocol.__name__ for protocol in asked if not isinstance(self.costs, protocol)]
        if missing:
            raise InvalidInput(
                f"the rule of {self.name} needs a cost model with {missing[0]}, which {type(self.costs).__name__} "
                f"does not have; holdcourse.learning.costs.{missing[0]} says what to add"
            )

    def rule_for(self, seed: int) -> Rule:
        """Return the rule of the run with this seed."""
        return self.rule.rule_for(seed) if isinstance(self.rule, RuleMaker) else self.rule

    @cached_property
    def fingerprint(self) -> str:
        """Equal for equal policies; a saved state can be loaded only into an equal one."""
        parts = {"problem": self.problem.fingerprint, "rule": self.rule.describe(), "costs": self.costs.describe()}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]

    def save(
        self,
        path: str | Path,
        *,
        limits: Any = None,
        units: Mapping[str, str] | None = None,
        evidence: Evidence | None = None,
    ) -> None:
        """Write it to a file, with everything that it has learned; `load_policy` gives an equal one.

        The file is checksummed and versioned, holds no code, and is written in one step. One of your own is kept by
        its import path: make it with `registry.make`. What is not given here stays as it is.

        Parameters
        ----------
        limits
            `Limits` that a controller begins with.
        units
            What the numbers are: "action", "measurement", "context", and "cost" where that is not what is measured.
        evidence
            Where it comes from, and what a backtest said of it.

        Examples
        --------
        >>> import holdcourse as hc
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> valve = hc.gp_md(hc.Problem([0.0, 0.5, 1.0]))
        >>> valve.save(folder.name + "/valve.policy", limits=hc.Limits(min_dwell=2), units={"action": "mm"})
        >>> hc.Controller(hc.load_policy(folder.name + "/valve.policy")).limits.min_dwell
        2
        >>> folder.cleanup()
        """
        from holdcourse.deciding.policyfile import save_policy  # which knows how policies are made

        save_policy(self, Path(path), limits=limits, units=units, evidence=evidence)

    def __repr__(self) -> str:
        if self.explanation:
            return f"Policy({self.explanation.partition('. ')[0]}, {self.problem!r})"
        return f"Policy({self.name}: {self.rule.describe()} on {self.costs.describe()['model']}, {self.problem!r})"


class Learning(TypedDict, total=False):
    """Options of every policy that learns, with the paper's defaults.

    kernel: what is believed about the cost, or "auto" to fit it as data comes in (default); noise_std: deviation of a
    measurement (0.1); prior_mean: a number, one per action or a function (0.0); width: of the bounds, in deviations
    (2.0), or `TheoryWidth`; every: "round" or "episode", when bounds follow the data ("round"); history: past
    measurements to start from; maximise: measurements are gains (False); method, contexts, context_bounds, forgetting:
    as in `posterior`; guard: `OutlierGuard` against measurements far off (none); interval_map: where the cost is a
    function of what is measured, see `costs.Mapped` (none).
    """

    kernel: AnyKernel | str
    noise_std: float
    prior_mean: Any
    width: float | TheoryWidth
    every: Every
    history: History | Iterable[tuple[int, Any, float]] | None
    maximise: bool
    method: Method
    contexts: ArrayLike | None
    context_bounds: ArrayLike | None
    forgetting: float
    guard: OutlierGuard | None
    interval_map: IntervalMap | None


def lower_bound(problem: Problem, learning: Learning, period: Any = None) -> LowerBound:
    """Return the cost model that the options of `Learning` describe.

    A kernel that is fitted takes contexts with a `period` for circles; one that is given says so itself.
    """
    options = dict(learning)
    unknown = set(options) - set(Learning.__annotations__)
    if unknown:
        raise InvalidInput(
            f"option {sorted(unknown)[0]!r} is not known; a learning policy takes {sorted(Learning.__annotations__)}"
        )
    bounds = {
        name: options.pop(name) for name in ("width", "every", "maximise", "guard", "interval_map") if name in options
    }
    history = options.pop("history", None)
    past = None if history is None else History.of(history)  # type: ignore[arg-type]
    kernel = options.pop("kernel", "auto")
    circles = period if isinstance(kernel, str) else None
    made = posterior(problem, kernel, history=past, period=circles, **options)  # type: ignore[arg-type]
    model = LowerBound(made, **bounds)  # type: ignore[arg-type]
    if past is not None:
        model.began_with(past.actions.tolist())
    return model


Array: TypeAlias = NDArray[np.float64]


def named(
    name: str,
    rule: Rule | RuleMaker,
    costs: CostModel,
    problem: Problem,
    options: Mapping[str, Any],
    explanation: str = "",
) -> Policy:
    """Return a policy of the table, called as the table says; `options` are those that it was made with."""
    return Policy(registry.label_of(name), rule, costs, problem, (name, dict(options)), explanation)


def gp_md(
    problem: Problem,
    *,
    tau: float = 5.0,
    kappa: float = 1.0,
    tree: Tree | None = None,
    tree_seed: int | None = None,
    **learning: Unpack[Learning],
) -> Policy:
    """GP-MD, the paper's algorithm: lower bounds of a Gaussian process fed into mirror descent on a tree.

    Parameters
    ----------
    tau, kappa
        Parameters of the tree and of the descent.
    tree, tree_seed
        A given tree, or the seed of a random one; by default it is drawn from the run's seed.
    learning
        See `Learning`.

    Examples
    --------
    >>> import holdcourse as hc
    >>> controller = hc.Controller(hc.gp_md(hc.Problem([0.0, 0.5, 1.0])), start=0)
    >>> decision = controller.ask(context=0.3)
    >>> controller.tell(decision.id, 1.2)
    >>> len(decision.probabilities)
    3
    """
    rule = OnTree(problem, tau, kappa, tree, tree_seed)
    options = {"tau": tau, "kappa": kappa, "tree": tree, "tree_seed": tree_seed, **learning}
    return named("gp-md", rule, lower_bound(problem, learning), problem, options)


def cgp_lcb(problem: Problem, **learning: Unpack[Learning]) -> Policy:
    """CGP-LCB: the action of least lower bound, wherever it is.

    Examples
    --------
    >>> import holdcourse as hc
    >>> policy = hc.cgp_lcb(hc.Problem([0.0, 0.5, 1.0]), history=[(0, 0.3, 2.0), (1, 0.3, 1.0), (2, 0.3, 2.0)])
    >>> hc.Controller(policy).ask(context=0.3).value
    0.5
    """
    return named("cgp-lcb", Greedy(problem), lower_bound(problem, learning), problem, learning)


def proximal_lcb(problem: Problem, *, weight: float = 1.0, **learning: Unpack[Learning]) -> Policy:
    """Proximal-LCB: the action with the lowest sum of lower bound and `weight` times the movement cost.

    Examples
    --------
    >>> import holdcourse as hc
    >>> past = [(0, 0.3, 2.0), (1, 0.3, 1.0), (2, 0.3, 2.0)]
    >>> policy = hc.proximal_lcb(hc.Problem([0.0, 0.5, 1.0]), weight=10.0, history=past)
    >>> hc.Controller(policy, start=0).ask(context=0.3).value  # the move is too expensive
    0.0
    """
    options = {"weight": weight, **learning}
    return named("proximal-lcb", Proximal(problem, weight), lower_bound(problem, learning), problem, options)


def md_known(
    problem: Problem,
    *,
    tau: float = 5.0,
    kappa: float = 1.0,
    tree: Tree | None = None,
    tree_seed: int | None = None,
    maximise: bool = False,
) -> Policy:
    """MD-Known: the rule of GP-MD, shown the true costs.

    Examples
    --------
    >>> import holdcourse as hc
    >>> controller = hc.Controller(hc.md_known(hc.Problem([0.0, 0.5, 1.0])), start=0)
    >>> decision = controller.ask(costs=[1.0, 0.0, 1.0])
    >>> float(decision.probabilities.sum().round(9))
    1.0
    """
    rule = OnTree(problem, tau, kappa, tree, tree_seed)
    options = {"tau": tau, "kappa": kappa, "tree": tree, "tree_seed": tree_seed, "maximise": maximise}
    return named("md-known", rule, KnownCosts(problem, maximise=maximise), problem, options)


def minc_known(problem: Problem, *, maximise: bool = False) -> Policy:
    """MinC-Known: the action with the lowest true cost, whatever the move costs.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.Controller(hc.minc_known(hc.Problem([0.0, 0.5, 1.0]))).ask(costs=[1.0, 2.0, 0.5]).value
    1.0
    """
    known = KnownCosts(problem, maximise=maximise)
    return named("minc-known", Greedy(problem), known, problem, {"maximise": maximise})


def stationary(problem: Problem, *, maximise: bool = False) -> Policy:
    """Stay where the run begins.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.Controller(hc.stationary(hc.Problem([0.0, 0.5, 1.0])), start=0.5).ask(context=0.3).value
    0.5
    """
    nothing = KnownCosts(problem, Nothing(problem.n), maximise=maximise)
    return named("stationary", Stay(problem), nothing, problem, {"maximise": maximise})


def fixed(problem: Problem, history: History | Iterable[tuple[int, Any, float]], *, maximise: bool = False) -> Policy:
    """Always one action: the one of least mean cost in the history.

    Examples
    --------
    >>> import holdcourse as hc
    >>> past = [(0, 0.1, 2.0), (1, 0.1, 1.0), (1, 0.9, 1.5), (2, 0.5, 4.0)]
    >>> hc.fixed(hc.Problem([0.0, 0.5, 1.0]), past).name
    'fixed at 0.5'
    """
    best = best_measured(History.of(history), problem, maximise=maximise)
    if best is None:
        raise InvalidInput("fixed takes the best setting of the history, but the history is empty; give history=")
    return fixed_at(problem, setting_index=best, maximise=maximise)


def fixed_at(
    problem: Problem, setting: Any = None, *, maximise: bool = False, setting_index: int | None = None
) -> Policy:
    """Always one given setting, by its value or label, or by its index.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.Controller(hc.fixed_at(hc.Problem([0.0, 0.5, 1.0]), 1.0), start=0.0).ask(context=0.3).value
    1.0
    """
    action = required(problem, setting, setting_index, "setting")
    name, nothing = f"fixed at {problem.text(action)}", KnownCosts(problem, Nothing(problem.n), maximise=maximise)
    made_by = ("fixed-at", {"setting_index": action, "maximise": maximise})
    return Policy(name, Stay(problem, action), nothing, problem, made_by)
