"""The rule for contexts that are times: plan a few rounds ahead on the model's predictions and on forecasts.

In each round it asks the cost model about the next rounds (`costs_at` of future times), finds the cheapest path through
them by dynamic programming, backwards from the last round, and takes the first step of that path:

    V_h(x) = ending(x),    V_k(x) = min over y of c d(x, y) + costs(now + k interval, y) + discount V_{k+1}(y)

with c the caution. In the next round the model has learned something, and the rule plans again. It suits a model of
processes in time, whose predictions approach their usual values the farther ahead they are. The plan contains no
optimism about learning, except for that in the model's own costs.

**Forecasts** are predictions of what will be measured. A forecast has one row per future round, the next round first,
and one column per action; with one column more, (h, n + 1), the last column is the standard deviation that the
forecaster states for the row. Rows beyond `LEADS` rounds are not used. For each time the newest forecast counts; rounds
without a forecast use the older ones. The rule keeps each forecast until its time has come, so that its error is known.

A rule does not see measurements, and a cost model does not see forecasts. So the rule keeps the forecasts, and passes
them as an `Outlook` to a model that is a `ForecastCosts`. The model compares them with what it has measured.

**With an anchor**, a plan ends where it pays to settle: ending(x) = min over y of anchor c d(x, y) + settled(y), with
the long-run costs that the model, a `SettledCosts`, has learned so far.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import whole_number
from holdcourse.deciding.planning.beliefs import available_after, out_of_plan
from holdcourse.deciding.planning.plan import Steps
from holdcourse.deciding.rules import Choice, RuleState, View
from holdcourse.errors import InvalidInput, shown
from holdcourse.learning.costs import ForecastCosts, OptimisticCosts, Outlook, SettledCosts
from holdcourse.learning.history import check_context, check_contexts
from holdcourse.movement.problem import Problem
from holdcourse.movement.steps import LongestStep, longest_step

Array: TypeAlias = NDArray[np.float64]

LEADS = 24  # rounds ahead that a forecast is used for
REMEMBERED = 72  # rounds whose forecasts are kept to be compared with what was measured
NAMES = ("outlook.issued", "outlook.forecasts", "outlook.said")


@dataclass(frozen=True, eq=False)
class IssuedForecasts:
    """The forecasts of the last rounds.

    Attributes
    ----------
    issued
        When each was made, newest first; (LEADS,), NaN before the first.
    tables
        ``tables[a, l]``: the a-th newest one's row for l + 1 rounds later, and the deviation; (LEADS, LEADS, n + 1).
    said
        As in `Outlook`.
    """

    issued: Array
    tables: Array
    said: Array

    @classmethod
    def nothing(cls, n: int) -> IssuedForecasts:
        """Return what is known before the first forecast."""
        unknown = np.full((LEADS, LEADS, n + 1), np.nan)
        return cls(unknown[0, :, 0].copy(), unknown, np.full((REMEMBERED, 2 + LEADS), np.nan))

    @classmethod
    def of(cls, arrays: dict[str, Array]) -> IssuedForecasts | None:
        """Read from a rule's state; None if there was never a forecast."""
        return cls(*(arrays[name] for name in NAMES)) if NAMES[0] in arrays else None

    def arrays(self) -> dict[str, Array]:
        """Give the arrays that a rule's state holds."""
        return dict(zip(NAMES, (self.issued, self.tables, self.said), strict=True))

    def with_forecast(self, now: float, forecast: Any) -> IssuedForecasts:
        """Return what is known after one more forecast, or none."""
        if forecast is None or np.size(forecast) == 0:
            return self
        n = self.tables.shape[2] - 1
        rows = check_contexts(forecast, None, "forecast")[:LEADS]
        if rows.shape[1] not in (n, n + 1):
            raise InvalidInput(
                f"forecast must have one row per future round and {n} columns, one per action, or {n + 1} with a "
                f"standard deviation; got shape {rows.shape}"
            )
        newest = np.full((1, LEADS, n + 1), np.nan)
        newest[0, : len(rows), : rows.shape[1]] = rows
        if rows.shape[1] == n + 1 and not (rows[:, -1] >= 0).all():
            i = int(np.argmin(rows[:, -1] >= 0))
            raise InvalidInput(f"the standard deviation of forecast row {i} is {rows[i, -1]:g}; it must be 0 or more")
        return IssuedForecasts(np.append(now, self.issued[:-1]), np.concatenate([newest, self.tables[:-1]]), self.said)

    def about(self, times: Array, interval: float) -> Outlook:
        """Return the newest word on each of k times, (k,)."""
        leads = np.zeros(len(times), dtype=np.int64)
        rows = np.full((len(times), self.tables.shape[2]), np.nan)
        for k, time in enumerate(times.tolist()):
            for age, lead in self._leads(time, interval):
                if np.isfinite(self.tables[age, lead - 1, 0]):
                    leads[k], rows[k] = lead, self.tables[age, lead - 1]
                    break
        return Outlook(rows[:, :-1], leads, rows[:, -1], self.said)

    def taken(self, now: float, action: int, interval: float) -> IssuedForecasts:
        """Return what is known after an action was chosen: what had been forecast for it joins the past."""
        row = np.full(2 + LEADS, np.nan)
        row[:2] = now, action
        for age, lead in self._leads(now, interval):
            row[1 + lead] = self.tables[age, lead - 1, action]
        return IssuedForecasts(self.issued, self.tables, np.vstack([row, self.said[:-1]]))

    def _leads(self, time: float, interval: float) -> list[tuple[int, int]]:
        """Return each forecast that covers a time: how old it is in the list, and by how many rounds it was ahead."""
        ahead = np.where(np.isfinite(self.issued), (time - self.issued) / interval, 0.0)
        leads = np.rint(ahead)
        covers = (leads >= 1) & (leads <= LEADS) & (np.abs(ahead - leads) < 0.25)
        return [(int(age), int(leads[age])) for age in np.flatnonzero(covers)]


@dataclass(frozen=True, eq=False)
class Lookahead:
    """Plan a few rounds ahead over predicted costs, and take the first step; for contexts that are time.

    Parameters
    ----------
    problem
        The actions, and what moving between them costs.
    horizon
        Number of rounds that are planned, the present round included.
    interval
        Time between two rounds, in units of the context.
    max_step, max_step_cost
        Longest single move, in the units of the settings, and its largest movement cost.
    caution
        Factor by which the plan multiplies movement costs. Above 1, the plan moves only if it expects to save more than
        the move costs: if a prediction turns out wrong, the move must be paid twice, there and back.
    discount
        Weight of each further round.
    optimism
        Optimism of the costs in the plan, in units of the model's own width; needs a cost model that is
        `OptimisticCosts`. None: the costs of the model.
    ending
        Additional cost of each action at the end of the plan, compared with the best action, (n,); default: all are
        equal. So a plan does not end at an action from which it would have to come back.
    takes_forecasts
        Whether the rule accepts forecasts and passes them to the cost model, which must be `ForecastCosts`; not
        together with `optimism`.
    anchor
        Factor for the end of the plan, instead of `ending`. The cost of ending at an action is this factor times the
        move to the best place to settle, plus the cost of settling there according to the cost model, which must be
        `SettledCosts`. Above 1, a plan comes back by itself.

    Examples
    --------
    >>> import holdcourse as hc
    >>> problem = hc.Problem([0.0, 1.0])
    >>> rising = hc.costs.KnownCosts(problem, lambda time: [time[0] / 6, 1.0])  # the first action gets more expensive
    >>> mine = hc.Policy("mine", hc.Lookahead(problem, horizon=6), rising, problem)
    >>> [hc.Controller(mine, start=0.0).ask(context=hour).action for hour in (0.0, 3.0, 7.0)]
    [0, 0, 1]
    """

    problem: Problem
    horizon: int = 12
    interval: float = 1.0
    max_step: Any = None
    caution: float = 1.0
    discount: float = 1.0
    optimism: float | None = None
    ending: ArrayLike | None = None
    takes_forecasts: bool = False
    max_step_cost: float | None = None
    anchor: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "horizon", whole_number(self.horizon, "horizon", 1))
        longest = longest_step(self.problem, self.max_step, self.max_step_cost)
        object.__setattr__(self, "max_step", longest.size)
        object.__setattr__(self, "max_step_cost", longest.cost)
        for name, sound, said in (
            ("interval", 0 < self.interval < np.inf, "positive"),
            ("caution", 0 <= self.caution < np.inf, "0 or more"),
            ("discount", 0 <= self.discount <= 1, "between 0 and 1"),
            ("optimism", self.optimism is None or np.isfinite(self.optimism), "a number"),
            ("anchor", self.anchor is None or 0 <= self.anchor < np.inf, "0 or more"),
        ):
            if not sound:
                raise InvalidInput(f"{name} must be {said}, got {shown(getattr(self, name))}")
        if self.optimism is not None and self.takes_forecasts:
            raise InvalidInput("optimism= and forecasts cannot be used together; leave one of them out")
        if self.anchor is not None and self.ending is not None:
            raise InvalidInput("ending= and anchor= both say how a plan ends; leave one of them out")
        ending = np.zeros(self.problem.n) if self.ending is None else np.array(self.ending, dtype=np.float64)
        if ending.shape != (self.problem.n,) or not np.isfinite(ending).all():
            raise InvalidInput(f"ending must be {self.problem.n} numbers, one per action, got {shown(self.ending)}")
        object.__setattr__(self, "ending", ending - ending.min())

    @property
    def asks(self) -> tuple[type, ...]:
        """The protocols that the cost model must have."""
        asked = (OptimisticCosts,) * (self.optimism is not None) + (ForecastCosts,) * self.takes_forecasts
        return (*asked, SettledCosts) if self.anchor is not None else asked

    def begin(self, action: int, seed: int, round: int = 0) -> RuleState:  # noqa: A002
        """Start at the action; every action counts as allowed."""
        return RuleState(int(action), round, seed, {"available": np.ones(self.problem.n)})

    def resume(self, state: RuleState, action: int) -> RuleState:
        """Continue at another action, after a move by somebody else or a new episode; past forecasts are kept."""
        return RuleState(int(action), state.round, state.seed, state.arrays)

    def step(self, state: RuleState, view: View) -> Choice:
        """Plan with the costs predicted for the next rounds, and take the first step."""
        now = float(check_context(view.context, 1)[0])
        issued = self._issued(state, view, now)
        available = available_after(state.arrays["available"], view.allowed)
        table = self._costs(view, now, issued)
        out = out_of_plan(available)
        if out is not None:
            table[1:, out] += 10.0 * (self._steps.reach + float(np.ptp(table)))
        onward = self._onward(table, self._ending(view))
        action = self._steps.best(state.action, onward, view.allowed)

        arrays = {"available": available}
        if issued is not None:
            arrays |= issued.taken(now, action, self.interval).arrays()
        probabilities = np.zeros(self.problem.n)
        probabilities[action] = 1.0
        weighed = self._steps.weighed(state.action, action, onward, view.allowed, self.horizon)
        prospect = replace(weighed, worth=self._scale * weighed.worth, way=self._scale * weighed.way)
        return Choice(RuleState(action, state.round + 1, state.seed, arrays), probabilities, prospect=prospect)

    def describe(self) -> dict[str, Any]:
        """Return what the rule is, in JSON values."""
        return {
            "rule": "Lookahead",
            "horizon": int(self.horizon),
            "interval": float(self.interval),
            **LongestStep(self.problem, self.max_step, self.max_step_cost).describe(),
            "caution": float(self.caution),
            "discount": float(self.discount),
            "optimism": None if self.optimism is None else float(self.optimism),
            "ending": np.asarray(self.ending).tolist(),
            "takes_forecasts": bool(self.takes_forecasts),
        } | ({} if self.anchor is None else {"anchor": float(self.anchor)})

    def _issued(self, state: RuleState, view: View, now: float) -> IssuedForecasts | None:
        issued = IssuedForecasts.of(state.arrays)
        if view.forecast is None or np.size(view.forecast) == 0:
            return issued
        if not self.takes_forecasts:
            raise InvalidInput(
                "this policy's contexts are times, so it predicts costs itself and takes no forecast; leave out "
                "forecast="
            )
        return (issued or IssuedForecasts.nothing(self.problem.n)).with_forecast(now, view.forecast)

    def _costs(self, view: View, now: float, issued: IssuedForecasts | None) -> Array:
        """Return what every action is predicted to cost in each round of the plan, (horizon, n)."""
        times = np.asarray(now + self.interval * np.arange(self.horizon))
        if view.model is None:  # costs that are shown are known for the present round only
            table = np.repeat(view.costs[None], self.horizon, axis=0)
        elif issued is not None:
            assert isinstance(view.model, ForecastCosts)  # as `asks` says
            table = np.array(view.model.costs_at_outlook(times[:, None], issued.about(times, self.interval)))
        elif self.optimism is not None:
            assert isinstance(view.model, OptimisticCosts)
            table = np.array(view.model.costs_at_optimism(times[:, None], self.optimism))
        else:
            table = np.vstack([view.costs[None], view.model.costs_at(times[1:, None])])
        # An action that is forbidden now, by the model or the mask, is kept out of this round by `view.allowed`.
        usable = np.isfinite(table)
        worst = float(table[usable].max(initial=0.0)) + 10.0 * self._steps.reach
        return np.where(usable, table, worst)

    def _ending(self, view: View) -> Array:
        """Return what ending the plan at each action costs, up to a constant, (n,)."""
        if self.anchor is None or view.model is None:  # costs that are shown say nothing of the long run
            return np.asarray(self.ending)
        assert hasattr(view.model, "settled_costs")  # as `asks` says; isinstance takes long with protocols
        return np.asarray(self.settling(view.model.settled_costs()).min(axis=1))

    def settling(self, settled: Array) -> Array:
        """Return the cost of ending a plan at the action of a row and settling at the action of a column, (n, n).

        Parameters
        ----------
        settled
            Costs that the model's `settled_costs` returned, (n,).
        """
        assert self.anchor is not None
        return np.asarray(self.anchor * self.caution * self.problem.distances + settled)

    def _onward(self, table: Array, ending: Array) -> Array:
        """Return the cost of this round and the rest of the plan for each action chosen now, up to a constant, (n,)."""
        values = ending / self._scale
        for costs in table[:0:-1] / self._scale:
            values = self._steps.backed_up((costs + self.discount * values)[None])[0]
            values -= values.min()
        return np.asarray(table[0] / self._scale + self.discount * values)

    @cached_property
    def _steps(self) -> Steps:
        return Steps.of(LongestStep(self.problem, self.max_step, self.max_step_cost))

    @property
    def _scale(self) -> float:
        """Costs are divided by the caution: the same plan as with movement times the caution, and `max_step` is true.

        Without any caution nothing but the costs counts.
        """
        return max(self.caution, 1e-9)
