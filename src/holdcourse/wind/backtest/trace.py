"""What a policy believed in every round of a flight, kept while it flies: the material of an explanation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

import holdcourse as hc
from holdcourse.learning.costs import (
    CostModel,
    Costs,
    Estimate,
    ExpertCosts,
    ForecastCosts,
    OptimisticCosts,
    SettledCosts,
    maximises,
)
from holdcourse.wind.policy.filter import ExpectedEnergy

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Reasons:
    """Beliefs at the altitude chosen and at the one before; one entry per round.

    Attributes
    ----------
    wind, wind_std
        Expected wind speed at the altitude chosen and its deviation, m/s.
    shortfall, shortfall_before
        Expected energy made less than at the altitude that is expected to be best, kWh.
    bound, bound_before
        The least shortfall that the bounds on the wind allow: what the rule minimises.
    """

    wind: Array
    wind_std: Array
    shortfall: Array
    shortfall_before: Array
    bound: Array
    bound_before: Array


@dataclass(frozen=True, eq=False)
class Plans:
    """The plans that justified the moves of a flight: m of them, of h rounds each.

    Attributes
    ----------
    rounds
        In which a move was made, (m,).
    actions
        Altitude (index) that the plan had for that round and those after it, (m, h).
    more
        Energy expected in each of them above staying where the machine was, kWh, without what moving costs, (m, h).
    home
        Altitude (index) where each plan counts on settling after its end, (m,); None where it may end anywhere.
    """

    rounds: Indices
    actions: Indices
    more: Array
    home: Indices | None


class EstimateTrace:
    """Collects what the model said in a run, in the order of the rounds; what it said of the rounds ahead at moves."""

    def __init__(self) -> None:
        self._estimates: list[Estimate] = []
        self._ahead: Array | None = None
        self._settled: Array | None = None
        self._tables: dict[int, Array] = {}
        self._settling: dict[int, Array] = {}  # by round, where the model says what settling costs
        self._last = -1
        self.notice = ""  # what the model has found out that people should know

    def add(self, estimate: Estimate) -> None:
        """Keep what the model said about a round."""
        self._estimates.append(estimate)
        self._ahead = None

    def look_ahead(self, costs: Array) -> None:
        """Remember what the model said of the rounds to come, until it is clear whether it led to a move."""
        self._ahead = costs

    def settle(self, costs: Array) -> None:
        """Remember what the model said of settling at each altitude after a plan."""
        self._settled = costs

    def chosen(self, action: int) -> None:
        """Keep what was said of the rounds to come where another altitude was chosen than before."""
        if self._ahead is not None and action != self._last:
            now = np.asarray(self._estimates[-1].costs, dtype=np.float64)
            self._tables[len(self._estimates) - 1] = np.vstack([now, self._ahead])
            if self._settled is not None:
                self._settling[len(self._estimates) - 1] = self._settled
        self._last = action

    def plans(self, rule: Any, before: Indices, actions: Indices) -> Plans | None:
        """Return the plans behind the moves; None for a rule that plans otherwise, or where none was made."""
        if not isinstance(rule, hc.Lookahead) or len(self._estimates) != len(actions):
            return None
        rounds = [t for t, table in self._tables.items() if before[t] != actions[t] and len(table) == rule.horizon]
        if not rounds:
            return None
        ways = rule.caution * rule.problem.distances
        planned, more, homes = [], [], []
        for t in rounds:
            table, ending = self._tables[t], np.asarray(rule.ending)
            homeward = np.full(len(ending), int(np.argmin(ending)))
            if rule.anchor is not None and t in self._settling:
                settling = rule.settling(self._settling[t])
                ending, homeward = settling.min(axis=1), settling.argmin(axis=1)
            taken = planned_path(table, ways, ending, rule.discount, int(actions[t]))
            planned.append(taken)
            more.append(table[:, before[t]] - table[np.arange(len(table)), taken])
            homes.append(int(homeward[taken[-1]]))
        anywhere = rule.anchor is None and np.ptp(np.asarray(rule.ending)) == 0
        return Plans(np.array(rounds), np.array(planned), np.array(more), None if anywhere else np.array(homes))

    def reasons(self, before: Indices, actions: Indices) -> Reasons | None:
        """Say what mattered for these decisions; None if the model learns nothing, or was not asked round by round."""
        if len(self._estimates) != len(actions) or any(e.mean is None or e.std is None for e in self._estimates):
            return None
        rounds = np.arange(len(actions))
        mean, std, expected, bound = (
            np.array([getattr(estimate, name) for estimate in self._estimates])
            for name in ("mean", "std", "expected", "costs")
        )
        return Reasons(
            wind=mean[rounds, actions],
            wind_std=std[rounds, actions],
            shortfall=expected[rounds, actions],
            shortfall_before=expected[rounds, before],
            bound=bound[rounds, actions],
            bound_before=bound[rounds, before],
        )


def planned_path(costs: Array, ways: Array, ending: Array, discount: float, first: int) -> Indices:
    """Return the altitudes of a plan that begins with `first`, (h,): the rest of it is the cheapest that follows.

    Parameters
    ----------
    costs
        Of every altitude in each round of the plan, (h, n).
    ways, ending
        What a move from row to column counts, (n, n), and ending the plan at an altitude, (n,).
    """
    onward = [ending]
    for row in costs[:0:-1]:
        onward.append((ways + (row + discount * onward[-1])[None, :]).min(axis=1))
    path = [first]
    for row, after in zip(costs[1:], onward[-2::-1], strict=True):
        path.append(int(np.argmin(ways[path[-1]] + row + discount * after)))
    return np.array(path)


class TracedCosts:
    """A cost model that works as the one it wraps and keeps every estimate."""

    def __init__(self, model: CostModel, trace: EstimateTrace) -> None:
        self._model = model
        self._trace = trace

    @property
    def needs_costs(self) -> bool:
        """Whether the model must be shown the true costs."""
        return self._model.needs_costs

    @property
    def maximise(self) -> bool:
        """Whether the model is told gains: what it is shown depends on it."""
        return maximises(self._model)

    def estimate(self, context: Any, shown: ArrayLike | None = None) -> Estimate:
        """Estimate as the model does, and keep it."""
        estimate = self._model.estimate(context, shown)
        self._trace.add(estimate)
        return estimate

    def costs_at(self, contexts: ArrayLike) -> Array:
        """Do as the model does, and remember it."""
        found = self._model.costs_at(contexts)
        self._trace.look_ahead(found)
        return found

    def learn(self, action: int, context: Any, measurement: float) -> float:
        """Do as the model does."""
        self._trace.chosen(action)
        weight = self._model.learn(action, context, measurement)
        if isinstance(self._model, ExpectedEnergy):
            self._trace.notice = self._model.notice
        return weight

    def new_episode(self) -> None:
        """Do as the model does."""
        self._model.new_episode()

    def copy(self) -> TracedCosts:
        """Return an independent twin that adds to the same trace: a run works on a copy."""
        return type(self)(self._model.copy(), self._trace)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that the model has learned, as arrays."""
        return self._model.state()

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> TracedCosts:
        """Do as the model does."""
        self._model.restore(arrays)
        return self

    def describe(self) -> dict[str, Any]:
        """Return what the model is, in JSON values."""
        return self._model.describe()


class _Optimistic(TracedCosts):
    def costs_at_optimism(self, contexts: ArrayLike, optimism: float) -> Array:
        """Do as the model does."""
        assert isinstance(self._model, OptimisticCosts)
        return self._model.costs_at_optimism(contexts, optimism)


class _Forecast(TracedCosts):
    def costs_at_outlook(self, contexts: ArrayLike, outlook: hc.Outlook) -> Array:
        """Do as the model does."""
        assert isinstance(self._model, ForecastCosts)
        return self._model.costs_at_outlook(contexts, outlook)


class _Settled(TracedCosts):
    def settled_costs(self) -> Array:
        """Do as the model does."""
        assert isinstance(self._model, SettledCosts)
        found = self._model.settled_costs()
        self._trace.settle(found)
        return found


class _Experts(TracedCosts):
    def of_expert(self, expert: int) -> Costs | None:
        """Do as the model does."""
        assert isinstance(self._model, ExpertCosts)
        return self._model.of_expert(expert)

    def expected_at(self, contexts: ArrayLike) -> Array | None:
        """Do as the model does."""
        assert isinstance(self._model, ExpertCosts)
        return self._model.expected_at(contexts)


# What only some models can do: the one that traces can do it exactly where the model can.
_ABILITIES: dict[type, type[TracedCosts]] = {
    OptimisticCosts: _Optimistic,
    ForecastCosts: _Forecast,
    SettledCosts: _Settled,
    ExpertCosts: _Experts,
}


def traced(policy: hc.Policy) -> tuple[hc.Policy, EstimateTrace]:
    """Return the same policy, and the trace that its next run will fill."""
    trace = EstimateTrace()
    able = [wrapper for ability, wrapper in _ABILITIES.items() if isinstance(policy.costs, ability)]
    wrapper: type[TracedCosts] = type("TracedCosts", (*able, TracedCosts), {})
    return replace(policy, costs=wrapper(policy.costs, trace)), trace
