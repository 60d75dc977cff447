"""Policies: a rule combined with a cost model, and the paper's policies by name.

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
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import checked_seed, file_path, flag, is_finite
from holdcourse.deciding import registry
from holdcourse.deciding.rules import DemandingRule, Greedy, MirrorDescent, Proximal, Rule, RuleMaker, Stay, tree_digest
from holdcourse.errors import InvalidInput, counted, shown
from holdcourse.learning.confidence import OutlierGuard, TheoryWidth
from holdcourse.learning.costs import CostModel, Every, IntervalMap, KnownCosts, LowerBound, Nothing
from holdcourse.learning.history import History, best_measured
from holdcourse.learning.kernels import AnyKernel
from holdcourse.learning.posteriors import Method, posterior
from holdcourse.movement.problem import Problem, check_problem
from holdcourse.movement.settings import required
from holdcourse.movement.tree import Tree, check_tree, frt_tree

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
    """Maker of the rule of GP-MD: mirror descent on a given tree, or on a tree drawn from a seed.

    Parameters
    ----------
    problem
        The actions, and what moving between them costs.
    tau, kappa, tree, tree_seed
        As in `gp_md`.
    """

    problem: Problem
    tau: float = 5.0
    kappa: float = 1.0
    tree: Tree | None = None
    tree_seed: int | None = None
    # The tree drawn last, by its seed: a controller makes its rule several times, which takes seconds for many actions.
    _drawn: dict[int, Tree] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        check_problem(self.problem)
        if self.tree is not None:
            check_tree(self.tree)
        if self.tree is not None and self.tree.n != self.problem.n:
            raise InvalidInput(
                f"the tree has {self.tree.n} actions, but the problem has {self.problem.n}; make the tree for this "
                "problem"
            )
        if not (is_finite(self.kappa) and self.kappa >= 1):
            raise InvalidInput(f"kappa must be at least 1, got {shown(self.kappa)}")
        if not (is_finite(self.tau) and self.tau > 4):
            raise InvalidInput(f"tau must be above 4, got {shown(self.tau)}")
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
        Name of the policy in tables.
    rule
        The rule, or a `RuleMaker` if the rule depends on the run's seed.
    costs
        The cost model as it is before the first round. Each run works on a copy.
    problem
        The actions, and what moving between them costs.
    made_by
        Name and options of the function that made the policy, if it was made by name; see
        `holdcourse.deciding.recipe`.
    explanation
        What `recommended` chose and why, in sentences; the first sentence is the shortest summary.
    limits, units, evidence
        Limits of the machine, as in `Limits`; units of the numbers; where the policy comes from. No decision of the
        policy depends on them. Its file contains them, and a `Controller` begins with these limits.

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
        check_problem(self.problem)
        if not isinstance(self.name, str):
            raise InvalidInput(f"the name of a policy must be text, such as 'mine', got {shown(self.name)}")
        rule: Any = self.rule  # somebody may have written it
        if isinstance(rule, type) or not (hasattr(rule, "step") or hasattr(rule, "rule_for")):
            raise InvalidInput(f"rule must be a rule, such as hc.rules.Greedy(problem), got {shown(rule)}")
        if isinstance(self.costs, type) or not hasattr(self.costs, "estimate"):
            raise InvalidInput(
                f"costs must be a cost model, such as hc.costs.KnownCosts(problem), got {shown(self.costs)}"
            )
        for what, part in (("rule", rule), ("cost model", self.costs)):
            other = getattr(part, "problem", None)
            if isinstance(other, Problem) and other.n != self.problem.n:
                raise InvalidInput(
                    f"the {what} of {self.name} was made for {counted(other.n, 'action')}, but the problem has "
                    f"{self.problem.n}; make both for the same problem"
                )
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
        """Digest of the policy, equal for equal policies. Only an equal policy can load a saved state."""
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
        """Write the policy to a file, with everything that it has learned; `load_policy` gives an equal policy.

        The file is checksummed and versioned, contains no code, and is written in one step. For a policy of your own
        it contains the import path, so make that policy with `registry.make`. Arguments that you leave out keep the
        policy's own values.

        Parameters
        ----------
        path
            The file, which is replaced if it exists.
        limits
            `Limits` that a controller begins with.
        units
            Units of "action", "measurement", "context", and of "cost" if the cost is not what is measured.
        evidence
            Where the policy comes from, and the result of a backtest.

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

        save_policy(self, file_path(path), limits=limits, units=units, evidence=evidence)

    def __repr__(self) -> str:
        if self.explanation:
            return f"Policy({self.explanation.partition('. ')[0]}, {self.problem!r})"
        return f"Policy({self.name}: {self.rule.describe()} on {self.costs.describe()['model']}, {self.problem!r})"


class Learning(TypedDict, total=False):
    """Options of every policy that learns.

    Attributes
    ----------
    kernel
        Covariance of the cost, a `Kernel`; or "auto" (default), to fit kernel, noise and mean as data come in.
    noise_std
        Standard deviation of a measurement; default 0.1.
    prior_mean
        Expected cost before any measurement: a number, one per action, or a function; default 0.0.
    width
        Width of the bounds in standard deviations, or `TheoryWidth`; default 2.0, as in the paper.
    every
        When new measurements change the bounds: in every "round" (default), or after every "episode".
    history
        Past measurements to start from.
    maximise
        Whether measurements are gains instead of costs; default False.
    method, contexts, context_bounds, forgetting
        As in `posterior`.
    guard
        `OutlierGuard` against measurements far outside the prediction; default None.
    interval_map
        Function for a cost that depends on what is measured, see `costs.Mapped`; default None.
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


def require_policy(policy: Any, what: str = "policy") -> None:
    """Raise unless it is a policy."""
    if not isinstance(policy, Policy):
        raise InvalidInput(f"{what} must be a Policy, such as hc.gp_md(problem) returns, got {shown(policy)}")


def lower_bound(problem: Problem, learning: Learning, period: Any = None) -> LowerBound:
    """Return the cost model that the options of `Learning` describe.

    With ``kernel="auto"``, contexts with a `period` are circles; a kernel that you give has its own `context_period`.
    """
    check_problem(problem)
    options = dict(learning)
    unknown = sorted(set(options) - set(Learning.__annotations__))
    if unknown:
        near = get_close_matches(unknown[0], list(Learning.__annotations__), n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise InvalidInput(
            f"option {unknown[0]!r} is not known{hint}; in addition to its own options a learning policy takes "
            f"{', '.join(sorted(Learning.__annotations__))}"
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
    """Return a policy with its label from the registry; `options` are those that it was made with."""
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
    """GP-MD, the paper's algorithm: mirror descent on a tree follows the lower bounds of a Gaussian process.

    Parameters
    ----------
    problem
        The actions, and what moving between them costs.
    tau
        Factor, above 4, by which an edge of the tree weighs at least more than the edges below it.
    kappa
        Eagerness of the descent, at least 1; larger values move sooner.
    tree, tree_seed
        The tree itself, or the seed that draws it; by default the run's seed draws it.
    learning
        Options of the model, see `Learning`.

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
    """CGP-LCB: run the action with the lowest bound, whatever the move costs.

    Parameters
    ----------
    problem
        The actions, and what moving between them costs.
    learning
        Options of the model, see `Learning`.

    Examples
    --------
    >>> import holdcourse as hc
    >>> policy = hc.cgp_lcb(hc.Problem([0.0, 0.5, 1.0]), history=[(0, 0.3, 2.0), (1, 0.3, 1.0), (2, 0.3, 2.0)])
    >>> hc.Controller(policy).ask(context=0.3).value
    0.5
    """
    return named("cgp-lcb", Greedy(problem), lower_bound(problem, learning), problem, learning)


def proximal_lcb(problem: Problem, *, weight: float = 1.0, **learning: Unpack[Learning]) -> Policy:
    """Proximal-LCB: run the action with the lowest sum of lower bound and `weight` times the movement cost.

    Parameters
    ----------
    problem
        The actions, and what moving between them costs.
    weight
        Factor of the movement cost, 0 or more.
    learning
        Options of the model, see `Learning`.

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
    """MD-Known: the rule of GP-MD, which sees the true costs. Parameters are those of `gp_md`.

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
    """MinC-Known: run the action with the lowest true cost, whatever the move costs.

    With `maximise` gains are shown instead of costs, and it runs the action with the highest gain.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.Controller(hc.minc_known(hc.Problem([0.0, 0.5, 1.0]))).ask(costs=[1.0, 2.0, 0.5]).value
    1.0
    """
    known = KnownCosts(problem, maximise=maximise)
    return named("minc-known", Greedy(problem), known, problem, {"maximise": maximise})


def stationary(problem: Problem, *, maximise: bool = False) -> Policy:
    """Stay at the action where the run begins.

    `maximise` says that measurements are gains; it does not change what the policy does.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.Controller(hc.stationary(hc.Problem([0.0, 0.5, 1.0])), start=0.5).ask(context=0.3).value
    0.5
    """
    check_problem(problem)
    nothing = KnownCosts(problem, Nothing(problem.n), maximise=maximise)
    return named("stationary", Stay(problem), nothing, problem, {"maximise": maximise})


def fixed(problem: Problem, history: History | Iterable[tuple[int, Any, float]], *, maximise: bool = False) -> Policy:
    """Always run the action with the lowest mean cost in the history.

    Parameters
    ----------
    problem
        The actions, and what moving between them costs.
    history
        Past measurements, a `History` or (action, context, measurement) triples. Actions that were never measured are
        not considered; contexts are ignored.
    maximise
        Whether measurements are gains; then it is the action with the highest mean.

    Examples
    --------
    >>> import holdcourse as hc
    >>> past = [(0, 0.1, 2.0), (1, 0.1, 1.0), (1, 0.9, 1.5), (2, 0.5, 4.0)]
    >>> hc.fixed(hc.Problem([0.0, 0.5, 1.0]), past).name
    'fixed at 0.5'
    """
    check_problem(problem)
    best = best_measured(History.of(history), problem, maximise=flag(maximise, "maximise"))
    if best is None:
        raise InvalidInput("fixed takes the best setting of the history, but the history is empty; give history=")
    return fixed_at(problem, setting_index=best, maximise=maximise)


def fixed_at(
    problem: Problem, setting: Any = None, *, maximise: bool = False, setting_index: int | None = None
) -> Policy:
    """Always run one given setting.

    Parameters
    ----------
    problem
        The actions, and what moving between them costs.
    setting
        The setting, by its value or label.
    maximise
        Whether measurements are gains.
    setting_index
        The setting by its index, instead of `setting`.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.Controller(hc.fixed_at(hc.Problem([0.0, 0.5, 1.0]), 1.0), start=0.0).ask(context=0.3).value
    1.0
    """
    check_problem(problem)
    action = required(problem, setting, setting_index, "setting")
    name, nothing = f"fixed at {problem.text(action)}", KnownCosts(problem, Nothing(problem.n), maximise=maximise)
    made_by = ("fixed-at", {"setting_index": action, "maximise": maximise})
    return Policy(name, Stay(problem, action), nothing, problem, made_by)
