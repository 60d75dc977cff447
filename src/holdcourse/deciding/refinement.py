"""Finer settings where they pay: found from measurements, and added to the existing settings.

**Candidates.** Every gap between two values of an axis is divided into the smallest parts that `resolution` would make
there, given the kernel, the price of moving and the number of measurements. Each value in between is compared with the
best of the old settings, in the contexts that occurred; see `holdcourse.learning.improvement`. Two amounts are deducted
from what it is expected to save in a context: what its old neighbours are expected to save, because a region that
nobody has measured is explored with the old settings; and the cost of moving there from them, shared over `rounds`.

**Choice.** Candidates are dropped, those that save least first, as long as the best of the dropped candidates saves
less than `loss` times the deviation of the cost, on average over the contexts. The others are added. So according to
the present estimate, no setting in between would save more than that.

**What stays.** All old settings stay, with their prices, units and names, so every measurement is a measurement of the
finer problem too: `Refinement.history`. `Refinement.policy` is the same policy for the finer problem, and has learned
these measurements.

Axes are refined one after the other, and each takes into account what was added to those before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from holdcourse.checks import array_of, is_finite
from holdcourse.deciding import registry
from holdcourse.deciding.policy import Learning, Policy, lower_bound, require_policy
from holdcourse.errors import InvalidInput, counted, shown
from holdcourse.learning.history import History
from holdcourse.learning.improvement import Belief
from holdcourse.movement.problem import Problem
from holdcourse.movement.resolution import (
    ROUNDS,
    ContinuousAxis,
    continuous_axes,
    require,
    shape_of,
    spacing,
    with_values,
)
from holdcourse.units import beside

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

INDICES = ("fixed_setting_index", "baseline_index", "setting_index")  # options that are actions
OWN = "make the policy yourself, from refinement.problem and with history=refinement.history"


@dataclass(frozen=True, eq=False)
class Refinement:
    """A problem with finer settings where they pay, and the estimates behind them. Made by `refine`.

    Attributes
    ----------
    problem
        The old settings and those added; the old problem itself if nothing pays.
    added
        Values added to each axis, ascending; the axis of settings that are single numbers has the name "".
    places
        For each old action, its index in `problem`, (n,).
    history
        All measurements, with the actions of `problem`.
    gain
        Expected saving per round according to the present estimate, if moves were free and nothing more were learned.
    possible_gain
        Expected saving per round if what is still uncertain were known: the mean advantage of the best setting added
        over the old ones, counted as 0 whenever it is worse. If nothing pays, that of the settings that were dropped.
    move_cost
        Cost of the cheapest move from an old setting to an added one; 0 if none was added.
    spacing
        Smallest distance between values that was considered, for each axis.
    before
        The policy that was refined.

    Examples
    --------
    >>> import holdcourse as hc
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> policy = hc.gp_md(hc.Problem([0.0, 1.0, 2.0, 3.0, 4.0], scale=0.01), kernel=hc.Kernel(RBF(1.0)))
    >>> measured = [(0, None, 1.0), (1, None, 0.6), (2, None, -0.8), (3, None, -0.8), (4, None, 0.6)]
    >>> refinement = hc.refine(policy, measured)
    >>> refinement.added[""].round(2).tolist()
    [2.5]
    """

    problem: Problem
    added: Mapping[str, Array]
    places: Indices
    history: History
    gain: float
    possible_gain: float
    move_cost: float
    spacing: Mapping[str, float]
    before: Policy

    @cached_property
    def policy(self) -> Policy:
        """The policy for the finer problem, which has learned all measurements."""
        return _made_again(self.before, self.problem, self.places, self.history)

    @property
    def words(self) -> str:
        """What was refined, what it is expected to save, and what moves cost, in sentences."""
        problem, count = self.problem, sum(len(values) for values in self.added.values())
        if not count:
            return (
                "No finer setting pays: based on the measurements, settings between the present ones would save less "
                f"than moving to them costs, or too little to matter ({self._amount(self.possible_gain)} a round)."
            )
        units = dict(zip(problem.axis_names or ("",), problem.units, strict=True))
        parts = []
        for name, values in self.added.items():
            if len(values):
                said = ", ".join(f"{value:.4g}" for value in values[:12]) + (", ..." if len(values) > 12 else "")
                parts.append(f"{beside(said, units[name])}{f' on {name}' if name else ''}")
        words = (
            f"{counted(count, 'value is', 'values are')} added: {'; '.join(parts)}. There are {problem.n} "
            f"settings now instead of {len(self.places)}. Based on the measurements, a round is expected to cost "
            f"{self._amount(self.gain)} less, and {self._amount(self.possible_gain)} less once it is known which of "
            f"them are best. The cheapest move to one of them costs {self._amount(self.move_cost)}"
        )
        if self.gain > 0 and self.move_cost > 0:
            rounds = math.ceil(self.move_cost / self.gain)
            words += f", which is earned back in {'one round' if rounds == 1 else f'{rounds} rounds'}"
        return f"{words}."

    def _amount(self, cost: float) -> str:
        return self.problem.cost(f"{cost:.3g}")

    def __repr__(self) -> str:
        return f"Refinement({self.words})"


def refine(
    policy: Policy,
    history: History | Iterable[tuple[int, Any, float]] = (),
    *,
    within: Any = None,
    rounds: float = ROUNDS,
    loss: float = 0.01,
) -> Refinement:
    """Add finer settings where the measurements show that they pay, and keep everything that was learned.

    Parameters
    ----------
    policy
        A policy that learns, such as `Controller.policy`, for settings that are numbers or a grid with axes of numbers.
    history
        Measurements since the policy was made, as a `History` or (action, context, measurement) triples; the policy
        knows its earlier ones. `audit.history` reads them from a record.
    within
        Lowest and highest value between which to refine; for a grid, by axis: ``{"valve": (20.0, 60.0)}``, and then
        only those axes.
    rounds
        Number of rounds in which a move must pay off, as in `resolution`.
    loss
        Expected saving per round that settings in between may still offer, as a share of the deviation of the cost;
        also the loss of a spacing, as in `resolution`.

    Examples
    --------
    >>> import holdcourse as hc
    >>> problem = hc.Problem(hc.resolution(0.0, 100.0, length_scale=60.0), unit="%", scale=0.001)
    >>> controller = hc.Controller(hc.recommended(problem), start=0.0)
    >>> measured = []
    >>> for day in range(40):
    ...     decision = controller.ask(context=day % 7)
    ...     cost = 1.0 + ((decision.value - 47.0) / 30.0) ** 2
    ...     controller.tell(decision.id, cost)
    ...     measured.append((decision.action, day % 7, cost))
    >>> refinement = hc.refine(controller.policy, measured, loss=0.001)
    >>> bool(40 < refinement.added[""].min() and refinement.added[""].max() < 60)
    True
    >>> finer = hc.Controller(refinement.policy, start=controller.setting, limits=controller.limits)
    """
    require_policy(policy)
    require(rounds, "rounds", above=True)
    require(loss, "loss", above=True)
    problem = policy.problem
    axes = continuous_axes(problem)
    ranges = _ranges(within, axes)
    learning = _learning(policy)
    past = _joined(learning.get("history"), history, problem)
    model = lower_bound(problem, cast(Learning, {**learning, "history": past}))
    belief = Belief.of(model, past, learning.get("prior_mean", 0.0))
    places = np.arange(problem.n)
    finer, added, least, gain, possible, cheapest = problem, {}, {}, 0.0, 0.0, np.inf
    for axis in axes:
        if axis.name not in ranges:
            continue
        found = _refined_axis(belief, finer, axis, ranges[axis.name], rounds, loss, len(past))
        least[axis.name], added[axis.name] = found.least, found.values
        gain, possible, cheapest = gain + found.gain, possible + found.possible, min(cheapest, found.move_cost)
        if len(found.values):
            finer, moved = with_values(finer, axis.number, found.values)
            places = moved[places]
    after = History(places[past.actions], past.contexts, past.measurements)
    return Refinement(
        finer, added, places, after, gain, possible, 0.0 if cheapest == np.inf else cheapest, least, policy
    )


@dataclass(frozen=True, eq=False)
class _RefinedAxis:
    """Values that pay on one axis."""

    values: Array
    least: float
    gain: float
    possible: float
    move_cost: float


def _refined_axis(
    belief: Belief,
    problem: Problem,
    axis: ContinuousAxis,
    within: tuple[float, float],
    rounds: float,
    loss: float,
    measurements: int,
) -> _RefinedAxis:
    nothing = _RefinedAxis(np.zeros(0), np.inf, 0.0, 0.0, np.inf)
    along = belief.along(problem, axis.number)
    if along is None:
        return nothing
    length_scale, deviation = along
    least = spacing(
        length_scale,
        deviation,
        price=axis.price,
        rounds=rounds,
        loss=loss,
        noise=np.sqrt(belief.noise_variance) * belief.level,
        measurements=measurements,
    )
    candidates = axis.cut(least, within)
    if not len(candidates):
        return replace(nothing, least=least)
    finer, places = with_values(problem, axis.number, candidates)
    comparison = belief.compared(finer, places)
    # By value of the axis: its settings are those with any values on the others.
    shape, number = shape_of(finer), axis.number
    by_value = np.moveaxis(np.arange(finer.n).reshape(shape), number, 0).reshape(shape[number], -1)
    listed = np.array(finer.knobs[number].values) if finer.knobs is not None else finer.actions[:, 0]
    new = np.flatnonzero(np.isin(listed, candidates))
    saved = comparison.improvement()
    old = np.flatnonzero(~np.isin(listed, candidates))
    more = np.empty((len(saved), len(new)))  # than what there is saves, where it is not known yet what that costs
    net, cheapest = np.empty((len(saved), len(new))), np.empty(len(new))
    for k, place in enumerate(new.tolist()):
        here, (low, high) = by_value[place], (by_value[each] for each in _neighbours(old, place))
        own = np.maximum(saved[:, here] - np.maximum(saved[:, low], saved[:, high]), 0.0)
        moves = np.minimum(finer.move_costs(low, here), finer.move_costs(high, here))
        cheapest[k] = moves.min()
        more[:, k], net[:, k] = own.max(axis=1), np.maximum(own - moves / rounds, 0.0).max(axis=1)
    order = np.lexsort((new, net.mean(axis=0)))  # the least first, of equals the first in the list
    left = np.maximum.accumulate(net[:, order], axis=1).mean(axis=0)
    kept = np.sort(order[left > loss * deviation])
    if not len(kept):
        return replace(nothing, least=least, possible=float(more.max(axis=1).mean()))
    settings = by_value[new[kept]].reshape(-1)
    possible = float(saved[:, settings].max(axis=1).mean())
    values, move_cost = np.sort(listed[new[kept]]), float(cheapest[kept].min())
    return _RefinedAxis(values, least, comparison.gain(settings), possible, move_cost)


def _neighbours(old: Indices, place: int) -> tuple[int, int]:
    """The nearest of the old places on either side."""
    after = int(np.searchsorted(old, place))
    return int(old[after - 1]), int(old[after])


def _ranges(within: Any, axes: list[ContinuousAxis]) -> dict[str, tuple[float, float]]:
    """The range in which each axis is refined, by its name; axes that are not to be refined are left out."""
    if within is None:
        return {axis.name: (-np.inf, np.inf) for axis in axes}
    names = [axis.name for axis in axes]
    if not isinstance(within, Mapping):
        if names != [""]:
            raise InvalidInput(
                f"within must say the range for each axis to be refined, such as {{{names[0]!r}: (0, 1)}}, got "
                f"{shown(within)}"
            )
        within = {"": within}
    unknown = [name for name in within if name not in names]
    if unknown and names == [""]:
        raise InvalidInput(f"within names {unknown[0]!r}, but the axis has no name; give two numbers, such as (0, 1)")
    if unknown:
        raise InvalidInput(
            f"within names {unknown[0]!r}, which is not an axis that can be refined; those axes are {names}"
        )
    for name, each in within.items():
        pair = array_of(each, "within").shape == (2,)
        if not (pair and all(is_finite(end) for end in each) and each[0] < each[1]):
            of = f" for {name!r}" if name else ""
            raise InvalidInput(f"within must be two numbers, the lower one first, got {shown(each)}{of}")
    return {name: (float(low), float(high)) for name, (low, high) in within.items()}


def _learning(policy: Policy) -> dict[str, Any]:
    """The options of learning that a policy was made with; an error where what lies in between cannot be known."""
    name, options = policy.made_by or ("", {})
    if name not in registry.names("problem") or not registry.entry_of(name, "problem").options().learns:
        raise InvalidInput(
            f"the model of {policy.name} cannot estimate the costs of other settings; refine a policy that "
            "hc.recommended, hc.planner, hc.gp_md, hc.cgp_lcb or hc.proximal_lcb made"
        )
    learning = {key: value for key, value in options.items() if key in Learning.__annotations__}
    if learning.get("interval_map") is not None:
        raise InvalidInput("with an interval_map the cost of settings in between is not known; refine without one")
    if learning.get("forgetting", 1.0) != 1.0:
        raise InvalidInput(
            f"with forgetting={learning['forgetting']!r} old measurements fade, and what lies between the settings is "
            "found from all of them; refine a policy without forgetting"
        )
    return {key: value for key, value in learning.items() if value is not None}


def _joined(before: Any, since: Any, problem: Problem) -> History:
    pasts = [History.of(each) for each in (before, since) if each is not None]
    pasts = [each for each in pasts if len(each)]
    if not pasts:
        raise InvalidInput("nothing has been measured, so nothing is known about finer settings; give history=")
    for each in pasts:
        each.check(problem, pasts[0].contexts.shape[1])
    return History(
        np.concatenate([each.actions for each in pasts]),
        np.concatenate([each.contexts for each in pasts]),
        np.concatenate([each.measurements for each in pasts]),
    )


def _made_again(policy: Policy, problem: Problem, places: Indices, history: History | None) -> Policy:
    """The same policy for a finer problem, with everything that was measured."""
    name, options = policy.made_by or ("", {})
    options = {key: value for key, value in options.items() if value is not None or key == "at_most"}
    if not name or options.get("tree") is not None:
        what = "it was given a tree of the old settings" if name else "it is not known what made it"
        raise InvalidInput(f"{policy.name} cannot be made again for finer settings: {what}; {OWN}")
    for key in INDICES:
        if key in options:
            options[key] = int(places[options[key]])
    if isinstance(options.get("baseline"), Policy):
        options["baseline"] = _made_again(options["baseline"], problem, places, None)
    if history is not None:
        options["history"] = history
    made: Policy = registry.make(name, problem, **options)
    return replace(made, limits=policy.limits, units=policy.units)
