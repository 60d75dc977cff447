"""Planning policies by name.

================  ====================================  ============================================
policy            cost vector it sees                   rule
================  ====================================  ============================================
`planner`         lower bounds of the Gaussian process  plan on the learned chain of contexts
`planner_known`   true costs, as shown so far           the same
================  ====================================  ============================================
"""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from holdcourse.costs import KnownCosts
from holdcourse.errors import InvalidInput
from holdcourse.kernels import AnyKernel, check_kernel
from holdcourse.planning.chain import Closeness
from holdcourse.planning.plan import Forecasts, Plan
from holdcourse.policy import Learning, Policy, lower_bound
from holdcourse.problem import Problem

WIDTH = 1.75  # of the bounds, in deviations; see docs/beyond.md
DROP = float(np.exp(-0.5))  # correlation at one correlation length: that of a squared exponential at its length scale


def planner(
    problem: Problem,
    *,
    context_scale: Any = None,
    period: Any = None,
    forecasts: Forecasts = "robust",
    max_step: float | None = None,
    capacity: int = 64,
    discount: float = 0.97,
    **learning: Unpack[Learning],
) -> Policy:
    """Plan on a learned chain of contexts and a learned cost, hopeful where it is uncertain.

    Parameters
    ----------
    context_scale
        How far contexts must be apart for their costs to be told apart, per axis; by default the kernel's correlation
        length, or with ``kernel="auto"`` or a `period` a fifth of the range of contexts seen.
    period
        Period of each axis of the context (hour of day: 24), None for those without.
    forecasts
        What to make of forecasts: "robust" (as far as past ones were right), "trust" or "ignore".
    max_step
        Largest movement cost of one move, known to the plan.
    capacity
        Most contexts that are told apart; beyond, they are merged.
    discount
        Weight of each further round in the plan.
    learning
        See `Learning`; the width is 1.75 unless given.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> import holdcourse as hc
    >>> hc.planner(hc.Problem([0.0, 0.5, 1.0]), kernel=hc.Kernel(RBF(0.5), RBF(0.2))).rule.closeness.scale
    (0.2,)
    """
    if learning.get("method") == "temporal":
        raise InvalidInput(
            "a planner learns which contexts return, and time never does: use another method than 'temporal', with "
            "contexts such as the hour of day (period=24), or gp_md"
        )
    kernel = learning.get("kernel", "auto")
    if not isinstance(kernel, str):
        check_kernel(kernel)
    scale = context_scale
    if scale is None and period is None and not isinstance(kernel, str):
        scale = correlation_lengths(kernel)
    rule = Plan(
        problem,
        Closeness.of(scale, period),
        capacity=capacity,
        discount=discount,
        forecasts=forecasts,
        max_step=max_step,
    )
    options = {"context_scale": context_scale, "period": period, **_options_of(rule), **learning}
    learned: Learning = {"width": WIDTH, **learning}
    return Policy("Planner", rule, lower_bound(problem, learned), problem, ("planner", options))


def planner_known(
    problem: Problem,
    *,
    context_scale: Any = None,
    period: Any = None,
    forecasts: Forecasts = "robust",
    max_step: float | None = None,
    capacity: int = 64,
    discount: float = 0.97,
    maximise: bool = False,
) -> Policy:
    """Plan with true costs: it is shown those of the present context and remembers those of earlier ones.

    Examples
    --------
    >>> import holdcourse as hc
    >>> controller = hc.Controller(hc.planner_known(hc.Problem([0.0, 0.5, 1.0])), start=0)
    >>> controller.ask(context=0.3, costs=[1.0, 0.0, 1.0]).value  # it expects the context to last, so the move pays
    0.5
    """
    rule = Plan(
        problem,
        Closeness.of(context_scale, period),
        capacity=capacity,
        discount=discount,
        shared=False,
        shown=True,
        forecasts=forecasts,
        max_step=max_step,
    )
    options = {"context_scale": context_scale, "period": period, **_options_of(rule), "maximise": maximise}
    return Policy("Planner-Known", rule, KnownCosts(problem, maximise=maximise), problem, ("planner-known", options))


def _options_of(rule: Plan) -> dict[str, Any]:
    """What a recipe records of the rule; its closeness follows from the other options."""
    return {name: getattr(rule, name) for name in ("forecasts", "max_step", "capacity", "discount")}


def correlation_lengths(kernel: AnyKernel) -> list[float] | None:
    """Where a kernel's correlation of contexts falls to exp(-1/2), per axis; infinite where it never does.

    None if the kernel does not look at contexts, or does not say how many axes they have.
    """
    if not kernel.uses_context:
        return None
    dimension = kernel.context_dimension or 1  # one length scale for all axes: any one axis tells it
    steps = np.logspace(-6.0, 6.0, 2401)
    lengths = []
    for axis in range(dimension):
        probes = np.zeros((len(steps), dimension))
        probes[:, axis] = steps
        origin = np.zeros((1, dimension))
        covariance = sum(part.variance * part.context_covariance(origin, probes)[0] for part in kernel.parts)
        variance = sum(part.variance * part.context_variances(origin)[0] for part in kernel.parts)
        correlation = np.asarray(covariance) / variance
        below = np.flatnonzero(correlation < DROP)
        if not len(below) or below[0] == 0:  # never, or at once
            lengths.append(float(steps[0]) if len(below) else float("inf"))
            continue
        last = slice(below[0] - 1, below[0] + 1)
        length = np.interp(DROP, correlation[last][::-1], steps[last][::-1])
        lengths.append(float(f"{length:.3g}"))  # no more is meant
    return lengths
