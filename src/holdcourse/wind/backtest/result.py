"""What a backtest found, and what its policies believed on the way.

What a learning policy believed in every round, kept while it flies: the material of an explanation.

What a backtest found: the flights, the table of results, and the answer in plain words.

Energies are in kWh. The interval of a difference is that of the site's gain over many years. It comes from how much the
gains of some weeks varied in the period flown and in the history, through which our policy is flown again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

import holdcourse as hc
from holdcourse.backtest.verdict import (
    REFERENCE,
    STRETCH,
    Verdict,
    compared,
    gain_interval,
    half_width,
    judged,
    line_of,
    next_interval,
    runnable,
    signed,
    verdict,
)
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
from holdcourse.wind.physics import WindWorld

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
        self._trace.notice = getattr(self._model, "notice", "")
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


HINDSIGHT = ("best-fixed", "clairvoyant")
OURS = "wind-planner"  # what we would fly
HOURS_PER_WEEK = 168
WEEKS_PER_YEAR = 52
FEWEST_WEEKS = 6  # fewer say nothing about the next year
ARRIVAL = 24.0  # hours from the start of a piece in which one who stays may still be on the way


@dataclass(frozen=True, eq=False)
class Draw:
    """What another seed of a policy that draws made: energy made and lost, kWh, and altitudes (index), per round."""

    gross: Array
    moving: Array
    actions: Indices


@dataclass(frozen=True, eq=False)
class Flight:
    """What one policy flew and made; arrays have one entry per round, energies in kWh.

    Attributes
    ----------
    actions, before
        Altitude (index) of each round, and the one it came from.
    gross, moving
        Energy made, and energy lost on the way there.
    probabilities
        How probable the altitude was before it was drawn; 1 for policies that do not draw.
    reasons
        What a learning policy believed when it decided; None for the others.
    explanation
        What the policy is and why, in sentences, for one that chose among others.
    others
        What its other seeds made, for a policy that draws.
    plans
        What justified its moves, for a policy that plans ahead in time.
    """

    policy: str
    actions: Indices
    before: Indices
    gross: Array
    moving: Array
    probabilities: Array
    reasons: Reasons | None = None
    explanation: str = ""
    others: tuple[Draw, ...] = ()
    plans: Plans | None = None

    @property
    def net(self) -> Array:
        """Energy made less energy lost to moving."""
        return self.gross - self.moving

    @cached_property
    def expected(self) -> tuple[Array, Array]:
        """Energy made and lost to moving in every round, the mean over all seeds flown."""
        if not self.others:
            return self.gross, self.moving
        return (
            np.mean([self.gross, *(other.gross for other in self.others)], axis=0),
            np.mean([self.moving, *(other.moving for other in self.others)], axis=0),
        )

    @property
    def expected_net(self) -> Array:
        """Net energy of every round, the mean over all seeds flown."""
        gross, moving = self.expected
        return gross - moving

    @property
    def sums(self) -> list[float]:
        """Net energy of the period, kWh, for each seed flown."""
        return [float(self.net.sum()), *(float((other.gross - other.moving).sum()) for other in self.others)]

    @property
    def moves(self) -> int:
        """How often the altitude changed, the way from the start included."""
        return int((self.actions != self.before).sum())

    @property
    def expected_moves(self) -> float:
        """The same, the mean over all seeds flown."""
        moved = [self.moves, *(int((other.moving > 0).sum()) for other in self.others)]
        return sum(moved) / len(moved)


@dataclass(frozen=True)
class Line:
    """One row of the result: energies in kWh over the whole period.

    Attributes
    ----------
    share
        Net energy in percent of the clairvoyant's.
    gain, gain_low, gain_high
        Net energy above that of `fixed`, in percent of it, and the 95 % interval of what it is at this site over many
        years; NaN where there is no `fixed`, where there are too few weeks, and for hindsight.
    draws, net_low, net_high
        Of a policy that draws, how many seeds were flown: everything else is their mean, and these the least and the
        largest net energy among them.
    """

    policy: str
    net: float
    gross: float
    moving: float
    moves_per_day: float
    share: float
    gain: float
    gain_low: float
    gain_high: float
    draws: int = 1
    net_low: float = np.nan
    net_high: float = np.nan


@dataclass(frozen=True, eq=False)
class Backtest:
    """The flights of all policies over one period at one site.

    `past` is what our policy and staying made in every week of the history, in pieces; empty where it was not flown.
    """

    site: str
    world: WindWorld
    start: int
    flights: dict[str, Flight]
    lengths: tuple[int, ...]
    past: tuple[tuple[Array, Array], ...] = ()

    @property
    def days(self) -> float:
        """Length of the period in days."""
        return len(self.world.time) * self.world.step_hours / 24

    @property
    def weeks(self) -> int:
        """Number of whole weeks in the period."""
        return len(self.world.time) // self._rounds_per_week

    @property
    def _rounds_per_week(self) -> int:
        return max(1, round(HOURS_PER_WEEK / self.world.step_hours))

    @cached_property
    def lines(self) -> list[Line]:
        """The result table, best first."""
        best = float(self.flights["clairvoyant"].net.sum())
        rows = []
        for name, flight in self.flights.items():
            net, gross, moving = (float(part.sum()) for part in (flight.expected_net, *flight.expected))
            share = 100 * net / best if best > 0 else np.nan
            spread = (len(flight.sums), min(flight.sums), max(flight.sums)) if flight.others else ()
            moves = flight.expected_moves / self.days
            rows.append(Line(name, net, gross, moving, moves, share, *self._gain(flight), *spread))
        return sorted(rows, key=lambda row: -row.net)

    def line(self, policy: str) -> Line:
        """Return the row of one policy."""
        return line_of(self.lines, policy)

    def _gain(self, flight: Flight) -> tuple[float, float, float]:
        """Return the net energy above `fixed` in percent, and the interval of the site's."""
        base = float(self.flights["fixed"].net.sum()) if "fixed" in self.flights else np.nan
        if not base > 0:
            return (np.nan,) * 3
        gain = 100 * (float(flight.expected_net.sum()) - base) / base
        if self.weeks < FEWEST_WEEKS or flight.policy in ("fixed", *HINDSIGHT):  # hindsight is about this period
            return gain, np.nan, np.nan
        ours, theirs = self._weekly(flight.expected_net), self._weekly(self.flights["fixed"].net)
        past = self.past if flight.policy == OURS else ()
        return gain, *gain_interval(ours, theirs, past, self._stretch)

    @cached_property
    def _stretch(self) -> float:
        """By how much intervals of policies that were not flown over the history are widened: as ours is by it."""
        if OURS not in self.flights or not self.past:
            return STRETCH
        ours, theirs = self._weekly(self.flights[OURS].net), self._weekly(self.flights["fixed"].net)
        half = half_width(ours, theirs, self.past)
        low, high = gain_interval(ours, theirs, (), 1.0)
        return STRETCH if np.isnan(half) or not high > low else max(1.0, 2 * half / (high - low))

    def _weekly(self, values: Array) -> Array:
        """Return the sums over whole weeks; what is left over at the end belongs to none."""
        rounds = self._rounds_per_week
        return np.asarray(values[: self.weeks * rounds].reshape(self.weeks, rounds).sum(axis=1))

    @cached_property
    def flyable(self) -> list[Line]:
        """Controllers that need no more than the machine's own gauge, best first."""
        return runnable(self.lines, ("fixed", "stationary"))

    @property
    def judged(self) -> Line | None:
        """The controller that the answer is about: ours, or else the best that could be flown."""
        return judged(self.flyable, OURS)

    @property
    def stayed(self) -> bool:
        """Whether the controller that the answer is about went to the fixed altitude and never left it."""
        if self.judged is None or "fixed" not in self.flights:
            return False
        ours, home = self.flights[self.judged.policy].actions, self.flights["fixed"].actions
        ends = np.cumsum(self.lengths)
        since = np.arange(len(ours)) - np.repeat(ends - self.lengths, self.lengths)  # rounds since the piece began
        there = since * self.world.step_hours >= ARRIVAL
        return bool(there.any() and (ours[there] == home[there]).all())

    @property
    def verdict(self) -> Verdict:
        """Whether altitude control would have paid off, as far as these data can tell."""
        best = self.judged
        if best is None or "fixed" not in self.flights:
            return verdict(np.nan, np.nan, comparable=False)
        return verdict(best.gain_low, best.gain_high, enough=self.weeks >= FEWEST_WEEKS, stayed=self.stayed)

    @property
    def conclusion(self) -> str:
        """The answer in plain words, also when it is no."""
        best = self.judged
        if best is None:
            return "No controller that could really be flown was run, so there is nothing to conclude."
        if "fixed" not in self.flights:
            return "The policy `fixed` was not run, so there is nothing to compare with."
        altitude = f"{self.world.altitudes[int(self.flights['fixed'].actions[-1])]:.0f} m"
        weeks = (
            "1 week is" if self.weeks == 1 else f"{self.weeks} weeks are" if self.weeks else f"{self.days:.1f} days are"
        )
        too_few = f"; {weeks} too few to conclude anything."
        if np.isnan(best.gain):
            return (
                f"Staying at {altitude}, the altitude chosen on history, would have made no net energy at all "
                f"({self.line('fixed').net:,.0f} kWh; {best.policy}: {best.net:,.0f} kWh)"
                + (too_few if self.verdict == "too few" else ": this machine does not suit the wind of these data.")
            )
        tried = len(self.flyable)
        chosen = tried == 1 or best.policy == OURS  # beforehand, not for having come out best
        who = best.policy if chosen else f"{best.policy}, the best of {tried} controllers tried,"
        more = f"{compared(best.gain, 'more', 'less')} net energy"
        sentence = f"{who} would have made {more} than staying at {altitude}, the altitude chosen on history"
        if self.stayed:
            sentence = f"{who} found nothing worth a move and stayed at {altitude}, the altitude chosen on history"
        if self.verdict == "too few":
            return sentence + too_few
        if self.verdict == "no comparison":
            return f"{sentence}; but the fixed altitude makes so little that a difference in percent says nothing."
        if self.verdict == "stayed":
            most = f"perfect hindsight would have made {self.line('clairvoyant').gain:.1f} % more"
            return f"{sentence} ({signed(best.gain)} % against it{self._beside(best)}); {most}."
        interval = f"95 % interval {signed(best.gain_low)} to {signed(best.gain_high)} %{self._beside(best)}"
        ending = {
            "yes": "altitude control would have paid off here",
            "no": "altitude control would not have paid off here",
            "undecided": "these data cannot tell whether altitude control pays off here",
        }[self.verdict]
        return f"{sentence} ({interval}): {ending}.{self._caveat(best)} {self._next(best)}"

    def _next(self, best: Line) -> str:
        """Say what another period of this length may bring."""
        low, high = next_interval(best.gain, best.gain_low, best.gain_high)
        return (
            f"In another {self.weeks} weeks at this site the gain may lie between {signed(low)} and {signed(high)} %."
        )

    def _beside(self, best: Line) -> str:
        """Return the paper's algorithm, as the reference beside ours."""
        if best.policy == REFERENCE or REFERENCE not in self.flights:
            return ""
        return f"; {REFERENCE}: {signed(self.line(REFERENCE).gain)} %"

    def _caveat(self, best: Line) -> str:
        """Warn where a gain is no merit of the controller: one over a badly chosen altitude."""
        free = self.line("best-fixed") if "best-fixed" in self.flights else None
        if self.verdict != "yes" or free is None or free.net <= best.net:
            return ""
        altitude = f"{self.world.altitudes[int(self.flights['best-fixed'].actions[-1])]:.0f} m"
        return f" But staying at {altitude} would have made still more: the altitude chosen on history was a poor one."

    @property
    def draw_words(self) -> list[str]:
        """How far the seeds of policies that draw lie apart."""
        return [
            f"{row.policy} draws its moves: its line is the mean of {row.draws} seeds, {row.net_low:,.0f} to "
            f"{row.net_high:,.0f} kWh. What it flew hour by hour is shown for the first of them."
            for row in self.lines
            if row.draws > 1
        ]

    @property
    def warnings(self) -> list[str]:
        """What stands between these data and a conclusion about next year."""
        found = []
        if self.weeks < FEWEST_WEEKS:
            found.append(
                f"The data cover {self.days:.1f} days; less than {FEWEST_WEEKS} weeks say nothing about a year."
            )
        elif self.weeks < WEEKS_PER_YEAR - 1:
            found.append(
                f"The data cover {self.weeks} weeks; seasons that are not in them may be different. "
                "Use a whole year or more if you can."
            )
        if len(self.lengths) > 1:
            found.append(
                f"The data have gaps and were flown in {len(self.lengths)} pieces, each from the start altitude."
            )
        return found
