"""The policies of the paper, by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias, Unpack

import numpy as np
from numpy.typing import NDArray

from holdcourse.costs import KnownCosts
from holdcourse.errors import InvalidInput
from holdcourse.history import History, best_measured
from holdcourse.policy.definition import Policy
from holdcourse.policy.learning import Learning, lower_bound
from holdcourse.policy.on_tree import OnTree
from holdcourse.problem import Problem
from holdcourse.rules import Greedy, Proximal, Stay
from holdcourse.tree import Tree

Array: TypeAlias = NDArray[np.float64]


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
        Of the tree and of the descent.
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
    return Policy("GP-MD", rule, lower_bound(problem, learning), problem, ("gp-md", options))


def cgp_lcb(problem: Problem, **learning: Unpack[Learning]) -> Policy:
    """CGP-LCB: the action of least lower bound, wherever it is.

    Examples
    --------
    >>> import holdcourse as hc
    >>> policy = hc.cgp_lcb(hc.Problem([0.0, 0.5, 1.0]), history=[(0, 0.3, 2.0), (1, 0.3, 1.0), (2, 0.3, 2.0)])
    >>> hc.Controller(policy).ask(context=0.3).value
    0.5
    """
    return Policy("CGP-LCB", Greedy(problem), lower_bound(problem, learning), problem, ("cgp-lcb", dict(learning)))


def proximal_lcb(problem: Problem, *, weight: float = 1.0, **learning: Unpack[Learning]) -> Policy:
    """Proximal-LCB: the action of least lower bound plus `weight` times the movement there.

    Examples
    --------
    >>> import holdcourse as hc
    >>> past = [(0, 0.3, 2.0), (1, 0.3, 1.0), (2, 0.3, 2.0)]
    >>> policy = hc.proximal_lcb(hc.Problem([0.0, 0.5, 1.0]), weight=10.0, history=past)
    >>> hc.Controller(policy, start=0).ask(context=0.3).value  # the way is too dear
    0.0
    """
    made_by = ("proximal-lcb", {"weight": weight, **learning})
    return Policy("Proximal-LCB", Proximal(problem, weight), lower_bound(problem, learning), problem, made_by)


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
    return Policy("MD-Known", rule, KnownCosts(problem, maximise=maximise), problem, ("md-known", options))


def minc_known(problem: Problem, *, maximise: bool = False) -> Policy:
    """MinC-Known: the action of least true cost, wherever it is.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.Controller(hc.minc_known(hc.Problem([0.0, 0.5, 1.0]))).ask(costs=[1.0, 2.0, 0.5]).value
    1.0
    """
    made_by = ("minc-known", {"maximise": maximise})
    return Policy("MinC-Known", Greedy(problem), KnownCosts(problem, maximise=maximise), problem, made_by)


def stationary(problem: Problem, *, maximise: bool = False) -> Policy:
    """Stay where the run begins.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.Controller(hc.stationary(hc.Problem([0.0, 0.5, 1.0])), start=1).ask(context=0.3).value
    0.5
    """
    nothing = KnownCosts(problem, Nothing(problem.n), maximise=maximise)
    return Policy("Stationary", Stay(problem), nothing, problem, ("stationary", {"maximise": maximise}))


def fixed(problem: Problem, history: History | Iterable[tuple[int, Any, float]], *, maximise: bool = False) -> Policy:
    """One action for ever: the one of least mean cost in the history.

    Examples
    --------
    >>> import holdcourse as hc
    >>> past = [(0, 0.1, 2.0), (1, 0.1, 1.0), (1, 0.9, 1.5), (2, 0.5, 4.0)]
    >>> hc.fixed(hc.Problem([0.0, 0.5, 1.0]), past).name
    'fixed at 0.5'
    """
    best = best_measured(History.of(history), problem, maximise=maximise)
    if best is None:
        raise InvalidInput("fixed chooses its action on history, and the history is empty")
    return fixed_at(problem, best, maximise=maximise)


def fixed_at(problem: Problem, action: int, *, maximise: bool = False) -> Policy:
    """One given action for ever.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.Controller(hc.fixed_at(hc.Problem([0.0, 0.5, 1.0]), 2), start=0).ask(context=0.3).value
    1.0
    """
    problem.check_action(action)
    name, nothing = f"fixed at {problem.value(action)}", KnownCosts(problem, Nothing(problem.n), maximise=maximise)
    made_by = ("fixed-at", {"action": int(action), "maximise": maximise})
    return Policy(name, Stay(problem, int(action)), nothing, problem, made_by)


@dataclass(frozen=True)
class Nothing:
    """The costs of policies that look at none."""

    n: int

    def __call__(self, context: Any) -> Array:
        """Give the same cost for every action."""
        return np.zeros(self.n)
