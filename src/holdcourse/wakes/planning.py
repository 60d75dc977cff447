"""The policy that steers, `wake-planner`: a plan on what the energy is expected to be, and on what turning costs.

The costs of a round are the energy that a setting makes less than no steering would, as expected when the wind has
moved on by what it usually does (`Drift`). What is worth holding beyond this round is found by value iteration over
all directions and speeds of the grid, with the same drift from one decision to the next:

    onward(c, y) = E[cost(c', y)] + discount E[ min over z of price d(y, z) + onward(c', z) ]

The decision in context c at setting x is the y of least price d(x, y) + onward(c, y). There is one such plan for each
season. Contexts are three numbers: direction and speed of the wind before the decision, and the day of the year.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

import holdcourse as hc
from holdcourse._numeric.steering import plan, replay
from holdcourse.deciding import registry
from holdcourse.errors import InvalidInput, shown
from holdcourse.units import MONEY
from holdcourse.units import price as price_in
from holdcourse.wakes.drift import SEASONS, Drift, season_of
from holdcourse.wakes.table import EnergyTable

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

NAME = "wake-planner"
FADING = 24.0  # hours after which what comes counts about a third
SWEEPS = 400  # of the value iteration, at most
SIGN = (
    "A positive offset turns the nacelle counterclockwise, seen from above, and its wake to the right, seen with the "
    "wind: in wind from the west the nacelle looks southwest, and the wake goes south."
)
EXACT = 5e-3  # kWh: it ends when no difference between settings changes by more


def steering_problem(
    table: EnergyTable, price: float | str | ArrayLike = 0.5, *, kwh_price: float | None = None
) -> hc.Problem:
    """Return the settings of a table as a problem whose moves cost the wear of turning the nacelles.

    Parameters
    ----------
    price
        Price of turning a nacelle by one degree: kWh as a number, or a text such as "0.5 kWh per degree" or
        "0.02 EUR per degree"; one for all turbines or one for each.
    kwh_price
        Price of a kWh, if the price of turning is in money.

    Examples
    --------
    >>> import holdcourse as hc
    >>> problem = hc.wakes.steering_problem(hc.wakes.bundled_table(), "0.5 kWh per degree")
    >>> problem.n, problem.value(0)
    (46, (0.0, 0.0, 0.0, 0.0))
    """
    prices = degree_prices(price, len(table.farm), kwh_price)
    return hc.Problem(
        table.settings,
        "cityblock",
        scale=prices,
        unit="°",
        cost_unit="kWh",
        context_names=["wind direction", "wind speed", "day of the year"],
        context_units=["°", "m/s", ""],
    )


def degree_prices(price: float | str | ArrayLike, turbines: int, kwh_price: float | None = None) -> Array:
    """Return what a degree costs at each turbine, kWh, (m,)."""
    given = list(price) if isinstance(price, list | tuple | np.ndarray) else [price]
    found = np.array([_kwh_per_degree(each, kwh_price) for each in given])
    if len(found) not in (1, turbines):
        raise InvalidInput(f"give one price of a degree, or {turbines}, one for each turbine; got {len(found)}")
    return np.asarray(np.broadcast_to(found, turbines), dtype=np.float64)


def _kwh_per_degree(given: Any, kwh_price: float | None) -> float:
    what = "the price of a degree"
    if isinstance(given, str) and not any(sign.isdigit() for sign in given):
        raise InvalidInput(f"{what}, {given!r}, has no number; write it like '0.5 kWh per degree'")
    if isinstance(given, str) and not _is_number(given):
        found = price_in(given, what)
        if found.unit in MONEY:
            if kwh_price is None or not kwh_price > 0:
                raise InvalidInput(f"{what}, {given!r}, is in money; give the value of a kWh with kwh_price=")
            found = replace(found, amount=found.amount / kwh_price, unit="kWh")
        kwh = found.in_units("kWh", "°", what)
    else:
        kwh = float(given)
    if not (np.isfinite(kwh) and kwh > 0):
        raise InvalidInput(f"{what} must be above 0, got {shown(given)}")
    return kwh


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def season_costs(table: EnergyTable, drift: Drift, season: int, gain: Array | None = None) -> Array:
    """Return what each setting is expected to cost against no steering in the next round, kWh, (D, S, n).

    Parameters
    ----------
    gain
        Power made more than without steering, kW, (D, S, n); default that of the table.
    """
    more = table.planned - table.planned[:, :, :1] if gain is None else gain
    return -drift.hours * drift.expect(np.ascontiguousarray(more), season)


def solve(costs: Array, drift: Drift, season: int, moves: Array) -> Array:
    """Return the cost of choosing each setting in each context, this round and what follows, kWh, (D, S, n)."""
    discount = float(np.exp(-drift.hours / FADING))
    return np.asarray(plan(costs, drift.turns[season], drift.changes[season], moves, discount, SWEEPS, EXACT))


@runtime_checkable
class OnwardCosts(Protocol):
    """Costs that know what a setting is worth beyond the round."""

    @property
    def rounds_ahead(self) -> int:
        """About how many rounds count in `onward`; 0 where it weighs no costs."""
        ...

    def costs_at(self, contexts: ArrayLike) -> Array:
        """Costs in each of k contexts; shape (k, n)."""
        ...

    def onward(self, context: Any) -> Array:
        """Return the cost of choosing each setting now, and of what follows, (n,)."""
        ...


class PlannedEnergy:
    """Expected energy that a setting makes less than no steering, and the plan on it, kWh.

    Parameters
    ----------
    table
        What every setting makes in every wind.
    drift
        What the wind does next.
    problem
        The settings, and what moving between them costs.
    longest
        Degrees that a nacelle can turn between two decisions; None if there is no limit.
    """

    needs_costs = False

    def __init__(self, table: EnergyTable, drift: Drift, problem: hc.Problem, longest: float | None = None) -> None:
        if len(drift.speeds) != len(table.speeds) or not np.allclose(drift.speeds, table.speeds):
            raise InvalidInput(
                "the drift was learned for other wind speeds than those of the energy table; learn it again"
            )
        if problem.n != table.n:
            raise InvalidInput(
                f"the problem has {problem.n} settings, but the energy table has {table.n}; make both for the same farm"
            )
        self.table, self.drift, self.problem, self.longest = table, drift, problem, longest
        self._costs: dict[int, Array] = {}
        self._plans: dict[int, Array] = {}

    @cached_property
    def moves(self) -> Array:
        """Cost of every move, infinite where a nacelle cannot turn so far between two decisions, (n, n)."""
        moves = np.array(self.problem.distances)
        if self.longest is not None:
            apart = np.abs(self.table.settings[:, None] - self.table.settings).max(axis=2)
            moves[apart > self.longest * (1 + 1e-9)] = np.inf
        return moves

    def season_costs(self, season: int) -> Array:
        """Return the expected costs of a round in a season, (D, S, n)."""
        if season not in self._costs:
            self._costs[season] = season_costs(self.table, self.drift, season, self._gain())
        return self._costs[season]

    def season_plan(self, season: int) -> Array:
        """Return the plan of a season, (D, S, n)."""
        if season not in self._plans:
            self._plans[season] = solve(self.season_costs(season), self.drift, season, self.moves)
        return self._plans[season]

    def _gain(self) -> Array | None:
        """Return the power made more than without steering, as far as something else is believed than the table."""
        return None

    def estimate(self, context: Any, shown: ArrayLike | None = None) -> hc.costs.Estimate:
        """Return the expected costs of every setting in the round that begins."""
        costs = self.costs_at(np.reshape(context, (1, -1)))[0]
        return hc.costs.Estimate(costs, costs)

    def costs_at(self, contexts: ArrayLike) -> Array:
        """Return the expected costs in each of k contexts, (k, n)."""
        return np.array([self._read(lambda season: (self.season_costs(season),), row)[0] for row in _rows(contexts)])

    @property
    def rounds_ahead(self) -> int:
        """About how many rounds count: those of a day, which what comes later fades over."""
        return max(1, round(FADING / self.drift.hours))

    def onward(self, context: Any) -> Array:
        """Return the cost of choosing each setting now, and of what follows, (n,)."""
        row = _rows(np.reshape(context, (1, -1)))[0]
        return self._read(lambda season: (self.season_plan(season),), row)[0]

    def _read(self, of_season: Callable[[int], tuple[Array, ...]], context: Array) -> list[Array]:
        """Return tables of a season, each (D, S, n), in a context, each (n,)."""
        found = self.table.places(context[:1], context[1:2])
        d, e, f = found.low[0], found.high[0], found.share[0]
        s, up, g = found.slow[0], found.fast[0], found.rise[0]
        # As the compiled replay adds them up, so that both decide the same to the last bit.
        return [
            (1 - f) * ((1 - g) * table[d, s] + g * table[d, up]) + f * ((1 - g) * table[e, s] + g * table[e, up])
            for table in of_season(int(season_of(context[2])))
        ]

    def learn(self, action: int, context: Any, measurement: float) -> float:
        """Take no notice: the table is taken as known."""
        self.problem.check_action(action)
        _rows(np.reshape(context, (1, -1)))
        return 0.0

    def new_episode(self) -> None:
        """Change nothing."""

    def copy(self) -> PlannedEnergy:
        """Return itself: it learns nothing."""
        return self

    def state(self) -> dict[str, NDArray[Any]]:
        """Return nothing: it learns nothing."""
        return {}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> PlannedEnergy:
        """Take over nothing."""
        if arrays:
            raise InvalidInput(f"this plan learns nothing and has no state, got {sorted(arrays)}")
        return self

    def describe(self) -> dict[str, Any]:
        """Return what the model is, in JSON values."""
        return {
            "model": "PlannedEnergy",
            "table": _digest(self.table.to_data()),
            "drift": _digest(self.drift.to_data()),
            "longest": self.longest,
        }


def _rows(contexts: ArrayLike) -> Array:
    rows = np.asarray(contexts, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != 3 or not np.isfinite(rows).all():
        raise InvalidInput(
            f"a context is three numbers: wind direction in degrees, wind speed in m/s and the day of the year; got "
            f"{np.asarray(contexts).tolist()!r}"
        )
    if not ((rows[:, 2] >= 1) & (rows[:, 2] <= 367)).all() or (rows[:, 1] < 0).any():
        raise InvalidInput(
            f"a context has a speed of 0 or more and a day of the year from 1 to 366; got {rows[0].tolist()}"
        )
    return rows


def _digest(data: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True, eq=False)
class PlanAhead:
    """Take the setting of least cost from here on, the move there included; for costs that know what follows."""

    problem: hc.Problem
    longest: float | None = None

    @property
    def asks(self) -> tuple[type, ...]:
        """What the cost model must be able to answer."""
        return (OnwardCosts,)

    def begin(self, action: int, seed: int, round: int = 0) -> hc.rules.RuleState:  # noqa: A002
        """Start at a setting."""
        return hc.rules.RuleState(int(action), round, seed, {})

    def resume(self, state: hc.rules.RuleState, action: int) -> hc.rules.RuleState:
        """Go on elsewhere."""
        return hc.rules.RuleState(int(action), state.round, state.seed, {})

    def step(self, state: hc.rules.RuleState, view: hc.rules.View) -> hc.rules.Choice:
        """Weigh every setting that is in reach."""
        assert isinstance(view.model, OnwardCosts)  # as `asks` says
        onward = view.model.onward(view.context)
        x, n = state.action, self.problem.n
        way = np.array(self.problem.move_costs(np.full(n, x), np.arange(n)))
        if self.longest is not None:
            apart = np.abs(self.problem.actions - self.problem.actions[x]).max(axis=1)
            reachable = apart <= self.longest * (1 + 1e-9)
            # Where nothing that is allowed can be reached, the limit of the machine decides, not the plan.
            way[~reachable] = np.inf if (reachable & view.allowed).any() else way[~reachable]
        total = np.where(view.allowed, onward + way, np.inf)
        best = int(np.argmin(total))
        action = x if total[x] == total[best] else best
        others = np.where(np.arange(n) == x, np.inf, total)
        to = action if action != x else int(np.argmin(others)) if n > 1 else None
        prospect, rounds = None, view.model.rounds_ahead
        if to is not None and np.isfinite(total[to]) and rounds:
            worth = float(onward[x] - onward[to])
            prospect = hc.rules.Prospect(x, to, worth, float(way[to]), rounds, bool(view.allowed[x]))
        probabilities = np.zeros(n)
        probabilities[action] = 1.0
        return hc.rules.Choice(
            hc.rules.RuleState(action, state.round + 1, state.seed, {}), probabilities, prospect=prospect
        )

    def describe(self) -> dict[str, Any]:
        """Return what the rule is, in JSON values."""
        return {"rule": "PlanAhead", "longest": self.longest}


def planned(
    problem: hc.Problem, *, table: Mapping[str, Any], drift: Mapping[str, Any], longest: float | None = None
) -> hc.Policy:
    """Return the policy of a recipe: everything learned is given, in JSON values.

    Parameters
    ----------
    table, drift
        As `to_data` of an energy table and of a drift gave them.
    longest
        Degrees that a nacelle can turn between two decisions; None if there is no limit.
    """
    costs = PlannedEnergy(EnergyTable.from_data(table), Drift.from_data(drift), problem, longest)
    options = {"table": table, "drift": drift, "longest": longest}
    words = (
        f"Wake planner: {problem.n} offset vectors, planned on the energy that is expected over what the wind does "
        f"next, learned from {costs.drift.steps:,} steps of {60 * costs.drift.hours:g} minutes. {SIGN} "
        f"{costs.table.words}"
    )
    return hc.Policy(registry.label_of(NAME), PlanAhead(problem, longest), costs, problem, (NAME, options), words)


def wake_planner(
    table: EnergyTable,
    drift: Drift,
    price: float | str | ArrayLike = 0.5,
    *,
    kwh_price: float | None = None,
    longest: float | None = None,
) -> hc.Policy:
    """Return the policy that plans with an energy table and takes it as known.

    Parameters
    ----------
    price, kwh_price
        Price of turning a nacelle by one degree, as in `steering_problem`.
    longest
        Degrees that a nacelle can turn between two decisions; None if there is no limit.
    """
    problem = steering_problem(table, price, kwh_price=kwh_price)
    return planned(problem, table=table.to_data(), drift=drift.to_data(), longest=longest)


def follow(costs: PlannedEnergy, contexts: Array, start: int = 0) -> Indices:
    """Return the setting that a plan takes in every round, (t,): what `PlanAhead` decides, in one compiled loop."""
    rows = _rows(contexts)
    seasons = season_of(rows[:, 2])
    plans = np.zeros((len(SEASONS), *costs.table.planned.shape))
    for season in np.unique(seasons).tolist():
        plans[season] = costs.season_plan(season)
    found = costs.table.places(rows[:, 0], rows[:, 1])
    taken = replay(plans, costs.moves, seasons, found.low, found.share, found.slow, found.rise, start)
    return np.asarray(taken)
