"""Plans on a learned chain of contexts: a little value iteration each round, started from the last values.

=========  ==================================================================================  ========
symbol     meaning                                                                             shape
=========  ==================================================================================  ========
m, b       expected cost in each representative context, and how far below it the bound lies   (k, n)
P          chance of each context to follow, from row to column                                (k, k)
o          share of the discounted rounds to come that each context will take up               (k,)
V          cost to go from each action when a context has just been seen, up to a constant     (k, n)
L          what the plan believes a round costs: m less a part of b                            (k, n)
=========  ==================================================================================  ========

Each round has four steps: (1) the context enters the chain; (2) the cost model computes a few rows of m and b again;
(3) two sweeps of V(e, x) <- min over y of d(x, y) + L(e, y) + discount * sum over e' of P(e, e') V(e', y); (4) the plan
takes the action that attains the minimum for the present context and action.

**Optimism, shared over contexts.** What matters about an action is its *mean cost over future contexts*, and a lower
bound of that mean is higher than the mean of the lower bounds. It is sum o m - sqrt(b'Rb), with b weighted by o and R
the correlation of contexts. Its gradient gives each context the part b (R o b) / sqrt(...) of the optimism, which is b
times the correlation of its cost with that mean. A context that rarely matters adds little hope. See
docs/theory/planning.md.

**Some rows are old on purpose.** To ask the cost model about all contexts in each round would be most of the work. The
plan asks about the present context, about those nearest to the context measured last, where most has changed, and about
those asked longest ago. Everything is in the state, so a run can be resumed to the last bit.

**Trials.** A model fitted to few readings can be certain about a pair of action and context that nobody has measured,
and yet be wrong. If a context returns often, the plan tries such an action there, provided that it could pay and that
trying all of them is cheap; `Trials`, further down, says when. If the kernel was given, the plan trusts the model.

**Policies.** `planner` sees the lower bounds of the Gaussian process, `planner_known` the true costs, as shown so far;
both plan on the learned chain of contexts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias, Unpack

import numpy as np
from numpy.typing import NDArray

from holdcourse._numeric import minplus
from holdcourse.checks import is_finite, whole_number
from holdcourse.deciding.planning.beliefs import (
    LEADS,
    Chain,
    Closeness,
    Extended,
    ForecastScores,
    Memory,
    PlayCounts,
    Table,
    alikeness,
    available_after,
    correlation_lengths,
    out_of_plan,
    read_forecast,
)
from holdcourse.deciding.planning.landmarks import (
    LANDMARKS,
    SWEPT,
    WEIGHED,
    Cells,
    Landmarks,
    LandmarkSteps,
    Search,
    aligned,
    best_of_each,
    of_some,
)
from holdcourse.deciding.policy import Learning, Policy, lower_bound, named
from holdcourse.deciding.rules import Choice, Prospect, RuleState, View
from holdcourse.errors import InvalidInput, NoActionLeft, shown
from holdcourse.learning.costs import Judging, KnownCosts, OptimisticCosts, can
from holdcourse.learning.history import check_context
from holdcourse.learning.kernels import check_kernel
from holdcourse.movement import offline
from holdcourse.movement.problem import Problem, mean_way
from holdcourse.movement.steps import LongestStep, longest_step

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Forecasts: TypeAlias = Literal["robust", "trust", "ignore"]

FORECASTS = ("robust", "trust", "ignore")
FEWEST_ASKED = 5  # rows of the table asked anew each round, at least; fewer begin to cost
ENTRIES_ASKED = 160  # and about this many entries where there are few actions
CONTEXTS, FEWEST_CONTEXTS = 64, 8  # told apart unless somebody says otherwise
ENTRIES = 20_000_000  # numbers in each of the plan's tables, a row of n for each context
CLOSE_ENOUGH = 0.2  # correlation lengths; a forecast context this near a representative is served by its row
LIKE = 0.5  # correlation lengths; an action played in a context this near was played here as well
CHEAP_MOVE, EXPENSIVE_MOVE = 0.6, 1.2  # of a round's cost, in the mean: where `cheap_hope` ends, and where hope is full
OPTIONS = ("forecasts", "max_step", "max_step_cost", "capacity", "discount", "landmarks")  # of a rule, in a recipe
WAIT = 25  # rounds until a trial is wished for again after somebody prevented one


@dataclass(frozen=True, eq=False)
class Steps:
    """The moves of a problem, none longer than the longest step; None: any."""

    problem: Problem
    longest: LongestStep | None = None

    @classmethod
    def of(cls, longest: LongestStep) -> Steps:
        """Return the moves within a longest step."""
        return cls(longest.problem, None if longest.is_any else longest)

    def backed_up(self, onward_costs: Array) -> Array:
        """Return the smallest d(x, y) + onward_costs[i, y] over y, for every row i and every x; shape (k, n)."""
        out = np.empty_like(onward_costs)
        moves = self.moves
        if isinstance(moves, offline.GridMoves):
            minplus.backup_grid(onward_costs, moves.order, moves.shape, moves.gaps, moves.fixed_cost, out)
        elif isinstance(moves, offline.KnobMoves):
            for costs, into in zip(onward_costs, out, strict=True):
                into[:] = moves.relax(costs)
        elif isinstance(moves, offline.PointMoves):
            return moves.points.relax(onward_costs, None if self.longest is None else self.longest.reach)
        else:
            minplus.backup_matrix(onward_costs, *self._into, self.longest is None, out)
        return out

    def best(self, here: int, total: Array, allowed: Mask) -> int:
        """Return the allowed action of least move and total cost, (n,); staying where it is as good."""
        row = self.ways(here)
        reachable = self._reachable(here, allowed)
        costs = np.where(reachable, total, np.inf)
        return int(minplus.cheapest_next(costs - costs.min(), row, here, offline.TIE_TOLERANCE))

    def towards(self, here: int, goal: int, allowed: Mask) -> int:
        """Return the allowed action nearest to a goal that one step leads to; the goal itself where it does."""
        reachable = self._reachable(here, allowed)
        if reachable[goal]:
            return goal
        return int(np.argmin(np.where(reachable, self.problem.costs_to(goal), np.inf)))

    def _reachable(self, here: int, allowed: Mask) -> Mask:
        """Return which allowed actions can be reached in one move, (n,); raises where there is none."""
        reachable = self.possible(here, allowed)
        if not reachable.any():
            raise NoActionLeft(
                f"no allowed action is within max_step ({self.longest}) of {self.problem.named(here)}; allow that "
                "action or a nearer one, or raise max_step"
            )
        return reachable

    def weighed(self, here: int, action: int, total: Array, allowed: Mask, rounds: int) -> Prospect:
        """Return what `best` weighed when it took an action or, where it stayed, that nearest to paying for the way."""
        ways = self.ways(here)
        others = self.possible(here, allowed) & (np.arange(len(total)) != here) & np.isfinite(total)
        if action == here:
            if not others.any():
                return Prospect(here, None, 0.0, 0.0, rounds)
            action = int(np.argmin(np.where(others, total + ways, np.inf)))
        worth = float(total[here] - total[action])
        may_stay = bool(allowed[here] and np.isfinite(worth))
        return Prospect(here, action, worth if may_stay else 0.0, float(ways[action]), rounds, may_stay)

    def possible(self, here: int, allowed: Mask) -> Mask:
        """Return which allowed actions can be reached in one move, (n,)."""
        return allowed if self.longest is None else allowed & self.longest.within(here)

    def ways(self, here: int) -> Array:
        """Return what moving to each action costs, (n,)."""
        return self.problem.costs_from(here)

    @cached_property
    def moves(self) -> offline.Moves:
        """What moving costs, in the form that the kernels read."""
        if self.longest is None:
            return offline.movement(self.problem)
        searched = self.problem.points is not None and self.problem.n > offline.SEARCHED
        return offline.movement(self.problem, "search" if searched else "pruned")

    @cached_property
    def reach(self) -> float:
        """A cost that no move exceeds."""
        if self.problem.directed:
            return self.problem.diameter
        return 2.0 * float(self.moves.row(0).max())

    @cached_property
    def _into(self) -> tuple[Array, Array]:
        """Movement costs by where they lead, and the cheapest move into each action."""
        into = self.problem.distances.T.copy()  # the kernels read rows
        if self.longest is not None:
            into[~self.longest.within_all().T] = np.inf
        return into, minplus.nearest_move(into)


@dataclass(frozen=True, eq=False)
class Planned:
    """The plan of a round, over the actions of its table.

    Attributes
    ----------
    seen, apart, chances
        The chain with the present context in it, how far apart its contexts are, and what follows which.
    table
        What is believed, and the values after the sweeps.
    used, part
        Which share of the optimism is used, and which part of it each action may hope for in the present context; (n,).
    total
        What this round and all that follows costs at each action, (n,).
    scores
        How well forecasts did.
    forecast, weights
        Cost to go if the forecast's first step is sure, (0 or 1, n), and how much each row of values, and this one,
        counts in the total.
    """

    seen: Extended
    apart: Array
    chances: Array
    table: Table
    used: float
    part: Array
    total: Array
    scores: ForecastScores
    forecast: Array
    weights: Array


def landmarks_for(longest: LongestStep, given: int | None = None) -> int | None:
    """Return how many landmarks stand for the actions of a problem: as many as are said; None: all are weighed."""
    problem = longest.problem
    if given is not None:
        return given if given < problem.n else None
    if problem.n <= WEIGHED:
        return None
    swept = isinstance(Steps.of(longest).moves, offline.GridMoves | offline.KnobMoves)
    return None if swept and problem.n <= SWEPT else LANDMARKS


def _cheapest(candidates: NDArray[np.int64], totals: Array, ways: Array, here: int) -> int:
    """Return the candidate of least move and total cost; staying where it is as good."""
    stays = np.flatnonzero(candidates == here)
    stay = int(stays[0]) if len(stays) else -1
    return int(candidates[minplus.cheapest_next(totals - totals.min(), ways[candidates], stay, offline.TIE_TOLERANCE)])


def _prospect(
    candidates: NDArray[np.int64], totals: Array, ways: Array, here: int, goal: int, may_stay: bool, rounds: int
) -> Prospect:
    """Return what was weighed when a goal was chosen or, where it stays, that nearest to paying for the way."""
    cost = dict(zip(candidates.tolist(), totals.tolist(), strict=True))
    if goal == here:
        others = candidates != here
        if not others.any():
            return Prospect(here, None, 0.0, 0.0, rounds)
        goal = int(candidates[np.argmin(np.where(others, totals + ways[candidates], np.inf))])
    worth = cost[here] - cost[goal] if may_stay else 0.0
    return Prospect(here, goal, worth, float(ways[goal]), rounds, may_stay)


@dataclass(frozen=True, eq=False)
class Plan:
    """Plan on a learned chain of contexts, by two sweeps of value iteration each round.

    Parameters
    ----------
    closeness
        Distance between contexts; see `Closeness`.
    capacity
        Largest number of contexts that the plan distinguishes.
    discount
        Weight of each further round.
    stay
        Weight, in rounds, of the assumption that a context lasts.
    sweeps
        Number of value sweeps per round.
    shared
        Whether optimism is shared over contexts, which needs a cost model that is `OptimisticCosts`. Otherwise the plan
        takes the costs as they are.
    shown
        Whether costs are remembered as they were shown, for models that know only the costs of the present round.
    forecasts
        Use of forecasts. "robust": as far as past forecasts were right; "trust": as confident as they say; "ignore".
    max_step, max_step_cost
        Longest single move, in the units of the settings, and its largest movement cost.
    asked
        Number of contexts about which the cost model is asked in each round; default 5, and more if there are few
        actions.
    trials
        Conditions under which an action is tried in a context where it was never played; None: never.
    cheap_hope
        Share of the optimism that is used if moves are cheap compared with a round: then little can be gained, and much
        of it would be spent on exploring. All optimism is used if a mean move costs more than a round.
    landmarks
        Approximate number of actions that stand for all in the sweeps, see `holdcourse.deciding.planning.landmarks`.
        None: all actions if there are up to 10,000 (100,000 if sweeps run along axes), else about 1,000. A plan with
        landmarks makes no trials.
    """

    problem: Problem
    closeness: Closeness = field(default_factory=Closeness)
    capacity: int = 64
    discount: float = 0.97
    stay: float = 1.0
    sweeps: int = 2
    shared: bool = True
    shown: bool = False
    forecasts: Forecasts = "robust"
    max_step: Any = None
    asked: int | None = None
    trials: Trials | None = None
    max_step_cost: float | None = None
    cheap_hope: float = 1.0
    landmarks: int | None = None

    def __post_init__(self) -> None:
        for name in ("capacity", "sweeps", "asked", "landmarks"):
            if name in ("asked", "landmarks") and getattr(self, name) is None:
                continue
            object.__setattr__(self, name, whole_number(getattr(self, name), name, 1))
        if not (is_finite(self.discount) and 0 <= self.discount < 1):
            raise InvalidInput(f"discount must lie between 0 and 1 (1 excluded), got {shown(self.discount)}")
        if not (is_finite(self.stay) and self.stay > 0):
            raise InvalidInput(f"stay must be positive, got {shown(self.stay)}")
        if not (isinstance(self.forecasts, str) and self.forecasts in FORECASTS):
            raise InvalidInput(f"forecasts {shown(self.forecasts)} is not known; use one of {list(FORECASTS)}")
        longest = longest_step(self.problem, self.max_step, self.max_step_cost)
        object.__setattr__(self, "max_step", longest.size)
        object.__setattr__(self, "max_step_cost", longest.cost)

    def begin(self, action: int, seed: int, round: int = 0) -> RuleState:  # noqa: A002
        """Start at the action, with no knowledge about contexts."""
        return RuleState(int(action), round, seed, {})

    def resume(self, state: RuleState, action: int) -> RuleState:
        """Continue at another action with everything learned about contexts, because somebody moved the machine."""
        if not self._counts_plays(state) or action == state.action or "last" in state.arrays:
            return replace(state, action=int(action))
        a = state.arrays
        played = PlayCounts.of(a).corrected(int(a["here"][0]), state.action, int(action))
        return replace(state, action=int(action), arrays=a | played.arrays())

    def begin_episode(self, state: RuleState, action: int, at: int | None = None) -> RuleState:
        """Continue at the start of an episode with everything learned about contexts; the last round was played."""
        if not self._counts_plays(state) or "last" in state.arrays:  # nothing was played since an episode began
            return replace(state, action=int(action))
        a, last = state.arrays, state.action if at is None else at
        played = PlayCounts.of(a)
        if last != state.action:
            played = played.corrected(int(a["here"][0]), state.action, last)
        # Where it was is kept for the next step, which sees what came of that reading.
        arrays = a | played.arrays() | {"last": np.array([float(last)])}
        return replace(state, action=int(action), arrays=arrays)

    def _counts_plays(self, state: RuleState) -> bool:
        return self.trials is not None and self.weighed is None and bool(state.arrays)

    def step(self, state: RuleState, view: View) -> Choice:
        """Add the context to the chain, plan, and choose the best action from here."""
        if self.weighed is not None:
            return self._step_by_landmarks(state, view, self.weighed)
        known = Memory.of(state, view, self.problem.n)
        available = available_after(known.available, view.allowed)
        plan = self._planned(known, state.action, state.round, view, available, self._steps)
        chain, table, total = plan.seen.chain, plan.table, plan.total
        action = self._steps.best(state.action, total, view.allowed)

        played, trial = known.played, None
        if self.trials is not None:
            played = self._played(known, state, view, table, plan.seen)
            if self._learns(view):
                onward = self.discount * plan.chances[chain.here]
                possible = self._steps.possible(state.action, view.allowed)
                doubted = self._doubted(view, chain)
                hoped = replace(table, spread=plan.used * table.spread)
                trial = self.trials.choose(
                    self.problem, played, chain, hoped, plan.apart, onward, state.action, action, possible, doubted
                )
            action = action if trial is None else trial.action
            played = played.after(chain.here, action, 0.0 if trial is None else trial.charge)
        arrays = Memory(chain, table, available, plan.scores, played).arrays()
        probabilities = np.zeros(self.problem.n)
        probabilities[action] = 1.0
        after = RuleState(action, state.round + 1, state.seed, arrays)
        if trial is None:
            prospect = self._steps.weighed(state.action, action, total, view.allowed, self._rounds_ahead)
            return Choice(after, probabilities, prospect=prospect)
        return Choice(after, probabilities, trial.in_words(self.problem), trial.excess)

    def _planned(
        self,
        known: Memory,
        place: int,
        round_number: int,
        view: View,
        available: Array,
        steps: Steps | LandmarkSteps,
        now: tuple[Array, Array] | None = None,
    ) -> Planned:
        """Let the context into the chain and plan on it, over the actions of the table.

        `place` is where the machine is among them; `now` what the present context costs, where that was asked already.
        """
        context = check_context(view.context, known.chain.points.shape[1])
        contexts, confidence = read_forecast(None if self.forecasts == "ignore" else view.forecast, len(context))
        seen = known.chain.extended(context, self.closeness, self.capacity)
        chain = seen.chain
        apart = self.closeness.distances(chain.points, chain.points, chain.points)
        chances = chain.transitions(apart, self.stay)
        away = apart[chain.here] if seen.new else self._apart(chain, context[None])[:, 0]
        scores = known.scores.checked(
            context,
            lambda said: alikeness(self._apart(chain, said, context)[0]),
            lambda: self._chain_closeness(known, chain, chances, away),
        )
        trust = confidence * (scores.trust()[: len(contexts)] if self.forecasts == "robust" else 1.0)

        table = known.table.with_row(chain.here, seen.nearest, seen.new)
        table = self._asked_anew(table, chain, known.chain.here, apart, round_number, view)
        if now is None:
            now = self._row(view, context) if view.model is not None and not self.shown else table.row(chain.here)
        stops = np.argmin(self._apart(chain, contexts), axis=0) if len(contexts) else np.zeros(0, dtype=np.int64)
        occupancy = self._occupancy(chances, chain.here, stops, trust)
        used = self._used(abs(float(occupancy @ table.expected[:, place])))
        part = used * self._hope(table, alikeness(apart, 1.0), occupancy)

        believed = table.expected - part * table.spread
        out = out_of_plan(available)
        if out is not None:
            believed = believed + np.where(out, 10.0 * (steps.reach + np.ptp(believed)), 0.0)
        values = table.values
        for _ in range(self.sweeps):
            values = steps.backed_up(believed + self.discount * (chances @ values))
            values = values - values.min()
        onward, forecast, weights = chances[chain.here] @ values, values[:0], chances[chain.here]
        if len(contexts):
            onward, forecast = self._along(contexts, stops, trust, chain, table, part, view, chances, values, steps)
            weights = np.append((1.0 - trust[0]) * weights, trust[0])
        total = now[0] - part[chain.here] * now[1] + self.discount * onward
        table = replace(table, values=values)
        told = scores.told(contexts)
        return Planned(seen, apart, chances, table, used, part[chain.here], total, told, forecast, weights)

    def _step_by_landmarks(self, state: RuleState, view: View, count: int) -> Choice:
        """Plan over some landmarks, and choose among all actions by what follows from them; see `landmarks`."""
        known, here = Memory.of(state, view, self.problem.n), state.action
        context = check_context(view.context, known.chain.points.shape[1])
        before = Landmarks.of(state.arrays, self.capacity, best_of_each(count, self.capacity))
        marks = before.now(self._cells, here, int(np.argmin(view.costs)))
        learned = view.model is not None and not self.shown
        expected, spread = self._row(view, context) if learned else (view.costs, np.zeros_like(view.costs))
        settings = marks.settings
        seen_by = View(
            view.costs[settings], view.context, view.allowed[settings], view.forecast, of_some(view.model, settings)
        )
        now = (expected[settings], spread[settings]) if learned else None
        known = replace(known, table=self._table_of(marks, before, known, view))
        available = available_after(known.available, view.allowed)
        steps = LandmarkSteps.of(self.problem, settings)
        plan = self._planned(known, marks.place(here), state.round, seen_by, available[settings], steps, now)
        rows, ways = np.vstack([plan.table.values, plan.forecast]), self._steps.ways(here)
        search = Search(
            self.problem, self._cells, expected, spread, view.allowed, ways, settings, plan.part, rows, plan.weights,
            self.discount,
        )  # fmt: skip
        candidates, totals = search.candidates()
        goal = _cheapest(candidates, totals, ways, here)
        action = self._steps.towards(here, goal, view.allowed)
        marks = marks.after(plan.seen.chain.here, search.best_apart(candidates, totals, before.best.shape[1]))
        arrays = Memory(plan.seen.chain, plan.table, available, plan.scores, known.played).arrays() | marks.arrays()
        probabilities = np.zeros(self.problem.n)
        probabilities[action] = 1.0
        after = RuleState(action, state.round + 1, state.seed, arrays)
        prospect = _prospect(candidates, totals, ways, here, goal, bool(view.allowed[here]), self._rounds_ahead)
        words = (
            f"For later rounds the plan considers {len(settings):,} landmarks among the {self.problem.n:,} settings, "
            "and for this round all of them."
        )
        if action != goal:
            words = f"It moves towards {self.problem.named(goal)}, in steps. {words}"
        return Choice(after, probabilities, words, prospect=prospect)

    def _table_of(self, marks: Landmarks, before: Landmarks, known: Memory, view: View) -> Table:
        """Return what is known of each context at the landmarks of this round; those that are new are asked about."""
        if not len(before.settings):
            none = np.zeros((0, len(marks.settings)))
            return Table(none, none, none, np.zeros(0))
        table, new = aligned(known.table, self.problem, before.settings, marks.settings)
        if len(new) and view.model is not None and not self.shown:
            asked = replace(view, model=of_some(view.model, marks.settings[new]))
            table.expected[:, new], table.spread[:, new] = self._rows(asked, known.chain.points)
        return table

    @cached_property
    def weighed(self) -> int | None:
        """Number of landmarks that stand for all actions; None if the plan considers all actions."""
        return landmarks_for(LongestStep(self.problem, self.max_step, self.max_step_cost), self.landmarks)

    @cached_property
    def _cells(self) -> Cells:
        assert self.weighed is not None
        return Cells.of(self.problem, max(self.weighed // 2, 1))

    @property
    def _rounds_ahead(self) -> int:
        return round(1 / (1 - self.discount))

    def describe(self) -> dict[str, Any]:
        """Return what the rule is, in JSON values."""
        return {
            "rule": "Plan",
            "contexts": self.closeness.describe(),
            "capacity": self.capacity,
            "discount": float(self.discount),
            "stay": float(self.stay),
            "sweeps": self.sweeps,
            "shared": bool(self.shared),
            "shown": bool(self.shown),
            "forecasts": self.forecasts,
            **LongestStep(self.problem, self.max_step, self.max_step_cost).describe(),
            "asked": self.asked,
            "trials": None if self.trials is None or self.weighed is not None else self.trials.describe(),
            "cheap_hope": float(self.cheap_hope),
            **({} if self.weighed is None else {"landmarks": self.weighed, "gives_up": self.gives_up}),
        }

    @property
    def gives_up(self) -> str:
        """What the plan leaves out by considering landmarks, in a sentence; empty if it considers all actions."""
        if self.weighed is None:
            return ""
        steps = (
            "" if self._steps.longest is None else ", and a goal beyond the longest step is chosen as if it were not"
        )
        return (
            f"Of {self.problem.n:,} settings about {self.weighed:,} landmarks are weighed as places to go on from in "
            f"later rounds; for the present round all are. A later stop between landmarks is left out{steps}."
        )

    # -- what a round costs --------------------------------------------------------------------------------------------

    def _row(self, view: View, context: Array) -> tuple[Array, Array]:
        """Return the expected costs in a context, and how far below them the bounds lie; (n,) and (n,)."""
        expected, spread = self._rows(view, context[None])
        return expected[0], spread[0]

    def _rows(self, view: View, contexts: Array) -> tuple[Array, Array]:
        """Return the same for several contexts, (k, n) and (k, n); asked at once, which is faster."""
        assert view.model is not None
        low = view.model.costs_at(contexts)
        usable = np.isfinite(low)
        if not usable.all():  # a model may forbid actions
            most = np.where(usable, low, 0.0).max(axis=1, initial=0.0)
            low = np.where(usable, low, most[:, None] + 10.0 * self._steps.reach)
        if not self._learns(view):
            return low, np.zeros_like(low)
        asked: Any = view.model  # has it, since costs are learned
        expected = np.where(usable, asked.costs_at_optimism(contexts, 0.0), low)
        return expected, expected - low

    def _learns(self, view: View) -> bool:
        """Return whether costs are learned, and bounds of them known."""
        return self.shared and not self.shown and can(view.model, OptimisticCosts)

    def _asked_anew(
        self, table: Table, chain: Chain, before: int, apart: Array, round_number: int, view: View
    ) -> Table:
        """Return the table with its most important rows made current."""
        here, refreshed = chain.here, table.refreshed.copy()
        expected, spread = table.expected.copy(), table.spread.copy()
        if self.shown or view.model is None:
            finite = np.isfinite(view.costs)
            unknown = np.where(refreshed[here] >= 0, expected[here], view.costs[finite].mean())
            expected[here] = np.where(finite, view.costs, unknown)
            rows = [here]
        else:
            many = self.asked or max(FEWEST_ASKED, ENTRIES_ASKED // self.problem.n)
            order = np.argsort(apart[before], kind="stable")[: max(1, many // 2)] if before >= 0 else np.zeros(0, int)
            rows = list(dict.fromkeys([here, *order.tolist(), *np.argsort(refreshed, kind="stable").tolist()]))[:many]
            expected[rows], spread[rows] = self._rows(view, chain.points[rows])
        refreshed[rows] = round_number
        return replace(table, expected=expected, spread=spread, refreshed=refreshed)

    def _played(self, known: Memory, state: RuleState, view: View, table: Table, seen: Extended) -> PlayCounts:
        """Return what was played, with what came of the last round."""
        played, row = known.played, known.chain.here
        at = state.action if view.at is None else view.at
        if "last" in state.arrays:  # an episode began since, at another place
            at = int(state.arrays["last"][0])
        elif row >= 0 and at != state.action:
            played = played.corrected(row, state.action, at)
        if row >= 0 and not (seen.new and row == seen.chain.here):
            played = played.with_row(seen)
            return played.after_reading(row, at, known.table, table)
        return played.with_row(seen)

    def _doubted(self, view: View, chain: Chain) -> Array:
        """Return how many readings in contexts like the present one the model does not believe, by action; (n,)."""
        readings = view.model.doubted() if can(view.model, Judging) else None
        counts = np.zeros(self.problem.n)
        if readings:
            contexts = np.array([context for _, context, _ in readings])
            like = self._apart(chain, contexts)[chain.here] < LIKE
            np.add.at(counts, np.array([action for action, _, _ in readings])[like], 1.0)
        return counts

    def _hope(self, table: Table, alike: Array, occupancy: Array) -> Array:
        """Return the part of its optimism that each context may use, (k, n): the correlation with the mean to come."""
        if not self.shared or not table.spread.any():
            return np.ones_like(table.spread)
        weighted = table.spread * occupancy[:, None]
        covariance = alike @ weighted
        deviation = np.sqrt(np.maximum((weighted * covariance).sum(axis=0), 0.0))
        return np.asarray(covariance / np.where(deviation > 0, deviation, np.inf))

    def _used(self, bill: float) -> float:
        """Return which share of the optimism is used where a round costs so much."""
        if self.cheap_hope == 1.0:
            return 1.0
        low, high = CHEAP_MOVE * bill, EXPENSIVE_MOVE * bill
        expensive = 1.0 if self._mean_move >= high else max((self._mean_move - low) / (high - low), 0.0)
        return self.cheap_hope + (1.0 - self.cheap_hope) * expensive

    @cached_property
    def _mean_move(self) -> float:
        return mean_way(self.problem)

    def _occupancy(self, chances: Array, here: int, stops: NDArray[np.int64], trust: Array) -> Array:
        """Discounted share of the rounds to come in each context, along the forecast while it is believed."""
        k, gamma = len(chances), self.discount
        direct, leaves = np.zeros(k), np.zeros(k)
        direct[here] = mass = 1.0
        at = here
        for stop, believed in zip(stops.tolist(), trust.tolist(), strict=True):
            leaves[at] += mass * (1.0 - believed)
            mass *= believed * gamma
            direct[stop] += mass
            at = stop
        leaves[at] += mass
        system = -gamma * chances.T
        np.einsum("ii->i", system)[:] += 1.0
        onward = np.linalg.solve(system, gamma * (chances.T @ leaves))
        share = direct + np.maximum(onward, 0.0)
        return np.asarray(share / share.sum())

    # -- the plan ------------------------------------------------------------------------------------------------------

    def _along(
        self,
        contexts: Array,
        stops: NDArray[np.int64],
        trust: Array,
        chain: Chain,
        table: Table,
        part: Array,
        view: View,
        chances: Array,
        values: Array,
        steps: Steps | LandmarkSteps,
    ) -> tuple[Array, Array]:
        """Return the cost to go after this round, (n,): along the forecast while that is believed, then the chain.

        And the same if the forecast's first step is sure, (1, n).
        """
        away = self._apart(chain, contexts)
        after = chances[stops[-1]] @ values
        for step in range(len(contexts) - 1, -1, -1):
            stop = stops[step]
            if self.shown or view.model is None or away[stop, step] < CLOSE_ENOUGH:
                expected, spread = table.row(int(stop))
            else:
                expected, spread = self._row(view, contexts[step])
            backed = steps.backed_up((expected - part[stop] * spread + self.discount * after)[None])
            before = chain.here if step == 0 else stops[step - 1]
            after = trust[step] * backed[0] + (1.0 - trust[step]) * (chances[before] @ values)
        return np.asarray(after), backed

    @cached_property
    def _steps(self) -> Steps:
        return Steps.of(LongestStep(self.problem, self.max_step, self.max_step_cost))

    # -- contexts ------------------------------------------------------------------------------------------------------

    def _apart(self, chain: Chain, contexts: Array, origin: Array | None = None) -> Array:
        """Return the distances from the representatives, or from one context, to others; (k, l)."""
        points = chain.points if origin is None else origin[None]
        return self.closeness.distances(points, contexts, chain.points)

    def _chain_closeness(self, known: Memory, chain: Chain, chances: Array, away: Array) -> Array:
        """Return how close the chain's predictions of 1, 2, ... rounds ago come to the present context, (LEADS,)."""
        likeness = alikeness(away)
        reached, scores = likeness, np.zeros(LEADS)
        past = known.scores.contexts
        there = np.isfinite(past).all(axis=1).reshape(-1)
        nearest = np.argmin(self._apart(chain, np.where(there[:, None], past, 0.0)), axis=0)
        for lead in range(LEADS):
            reached = chances @ reached  # chance-weighted closeness, from each context, lead + 1 rounds later
            scores[lead] = reached[nearest[lead]] if there[lead] else 0.0
        return scores


WIDTH = 1.75  # of the bounds, in deviations; see docs/beyond.md


@dataclass(frozen=True)
class Trial:
    """An action to try in the present context.

    Attributes
    ----------
    before
        How often it was played in such contexts.
    excess
        What it is expected to cost more than the plan, the way back included.
    charge
        The same at the upper bound of its cost; that is what counts against the budget.
    """

    action: int
    before: int
    excess: float
    charge: float

    def in_words(self, problem: Problem) -> str:
        """Say what is tried, and why."""
        measured = "was never measured" if self.before == 0 else "was hardly measured"
        return (
            f"It tries {problem.named(self.action)}, which {measured} in this context: it could pay off, and costs at "
            f"most about {problem.cost(f'{self.charge:.3g}')} more than the plan."
        )


@dataclass(frozen=True)
class Trials:
    """When to try an action in a context where it was never played.

    A cost model that was fitted to few readings can be certain about a pair of action and context that nobody has
    measured, and yet be wrong. From 4, 2 and 2 in three of four pairs it may conclude that the context makes no
    difference, and that the fourth is 4 as well. Optimism does not help if the model is certain. What helps is a small
    budget for trials.

    =========  ==================================================================================  ========
    symbol     meaning                                                                             shape
    =========  ==================================================================================  ========
    m, b       expected cost in the present context, and how far below it the bound lies           (n,)
    a          what the plan would play
    low        a guess at how cheap a pair can be: twice the lowest expected cost of all pairs
               that were played, less the highest; at least 0 if the lowest is above 0
    D          discounted rounds for which the context is expected to last
    =========  ==================================================================================  ========

    An action y is a candidate if it was never played in the present context, or one like it, and if it could pay: D
    (m(a) - min(low, m(y) - b(y))) > d(a, y) + d(y, a). Its charge is the cost of the moves there and back and the upper
    bound of its cost, less what the plan would pay. The cheapest candidate is tried if the charges of *all* actions
    never played in this context, together with those of earlier trials, stay within a share of what service has cost so
    far. So trials are made if they are cheap, and hardly ever if there are many actions.

    A model that guards against wrong readings does not trust the first surprise. If a reading did not make the cost
    more certain, or lowered it by more than b, or if the model trusts none of the readings in such contexts yet, the
    action is tried again, up to `plays` times in all.

    Parameters
    ----------
    share
        Share of the service cost so far that trials may cost.
    rounds
        Number of rounds whose share may be spent at once, before that many rounds have passed.
    visits
        Number of rounds in which a context must have been seen.
    plays
        Largest number of times that an action is tried in a context if its readings are not trusted.
    """

    share: float = 0.01
    rounds: int = 500
    visits: int = 5
    plays: int = 3

    def __post_init__(self) -> None:
        if not (is_finite(self.share) and self.share >= 0):
            raise InvalidInput(f"share must be 0 or more, got {shown(self.share)}; 0.01 is one hundredth of the bill")
        for name in ("rounds", "visits", "plays"):
            object.__setattr__(self, name, whole_number(getattr(self, name), name, 1))

    def budget(self, played: PlayCounts, expected: Array) -> float:
        """Return what trials may cost in all, given what was played and the expected costs, (k, n)."""
        rounds = played.rounds
        bill = float((played.counts * np.abs(expected)).sum())
        return self.share * bill * max(1.0, self.rounds / rounds) if rounds else 0.0

    def choose(
        self,
        problem: Problem,
        played: PlayCounts,
        chain: Chain,
        table: Table,
        apart: Array,  # (k, k), correlation lengths
        onward: Array,  # (k,), discounted chances of what follows the present context
        here: int,
        planned: int,
        possible: Mask,  # (n,)
        doubted: Array,  # (n,), readings in contexts like the present one that the model does not believe
    ) -> Trial | None:
        """Return what to try from the action `here` instead of the planned one; None: nothing."""
        row = chain.here
        if chain.visits[row] < self.visits or played.rounds < played.prevented + WAIT:
            return None
        like = apart[row] < LIKE
        before = played.counts[like].sum(axis=0)
        doubtful = played.doubtful[like].any(axis=0) | (doubted >= before)
        untried = possible & (before < np.where(doubtful, self.plays, 1))
        untried[planned] = False
        if not untried.any():
            return None
        expected, spread = table.row(row)
        everywhere = np.arange(problem.n)
        known = table.expected[played.counts > 0]
        low = 2.0 * known.min() - known.max()
        if known.min() > 0:
            low = max(low, 0.0)
        lasts = 1.0 / (1.0 - float(onward[like].sum()))
        there = problem.move_costs(np.full(problem.n, planned), everywhere)
        back = problem.move_costs(everywhere, np.full(problem.n, planned))
        saving = lasts * (expected[planned] - np.minimum(low, expected - spread))
        candidates = untried & (saving > there + back)
        if not candidates.any():
            return None
        ways = problem.move_costs(np.full(problem.n, here), everywhere)
        excess = np.maximum(ways + expected + back - ways[planned] - expected[planned], 0.0)
        charges = excess + spread
        if played.spent + charges[untried].sum() > self.budget(played, table.expected):
            return None
        action = int(np.argmin(np.where(candidates, charges, np.inf)))
        return Trial(action, int(before[action]), float(excess[action]), float(charges[action]))

    def describe(self) -> dict[str, Any]:
        """Describe it in JSON values."""
        return {"share": float(self.share), "rounds": self.rounds, "visits": self.visits, "plays": self.plays}


def planner(
    problem: Problem,
    *,
    context_scale: Any = None,
    period: Any = None,
    forecasts: Forecasts = "robust",
    max_step: Any = None,
    capacity: int | None = None,
    discount: float = 0.97,
    max_step_cost: float | None = None,
    landmarks: int | None = None,
    **learning: Unpack[Learning],
) -> Policy:
    """The planner: plan on a learned chain of contexts and a learned cost, optimistic about uncertain settings.

    Parameters
    ----------
    problem
        The actions, and what moving between them costs.
    context_scale
        Correlation length of the cost along each axis of the context; default: that of the kernel, or with
        ``kernel="auto"`` or a `period` a fifth of the range of contexts seen.
    period
        Period of each axis of the context (hour of day: 24), None for an axis without one. For the plan such an axis is
        a circle. The model treats it as a circle only with ``kernel="auto"``; else give the kernel a `context_period`.
    forecasts
        Use of forecasts: "robust" (as far as past forecasts were right), "trust" or "ignore".
    max_step, max_step_cost
        Longest single move, in the units of the settings, and its largest movement cost; the plan respects both in
        future rounds. See `Limits`.
    capacity
        Largest number of contexts that the plan distinguishes, default 64; when there are more, it merges some.
    discount
        Weight of each further round in the plan.
    landmarks
        Approximate number of settings that the plan considers for later rounds. Default: all if there are up to 10,000
        (100,000 on a line, a grid with ``metric="cityblock"`` or most grids of knobs), else about 1,000. How they are
        chosen, and what is lost: `holdcourse.deciding.planning.landmarks`.
    learning
        Options of the model, see `Learning`; the default width is 1.75.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> import holdcourse as hc
    >>> hc.planner(hc.Problem([0.0, 0.5, 1.0]), kernel=hc.Kernel(RBF(0.5), RBF(0.2))).rule.closeness.scale
    (0.2,)
    """
    if learning.get("method") == "temporal":
        raise InvalidInput(
            "a planner learns which contexts come back, and time never does: use a method other than 'temporal', with "
            "contexts such as the hour of the day (period=24), or use gp_md"
        )
    kernel = learning.get("kernel", "auto")
    if not isinstance(kernel, str):
        check_kernel(kernel)
    scale = context_scale
    if scale is None and period is None and not isinstance(kernel, str):
        scale = correlation_lengths(kernel)
    longest = longest_step(problem, max_step, max_step_cost)
    rule = Plan(
        problem,
        Closeness.of(scale, period),
        capacity=_capacity(longest, capacity, landmarks),
        discount=discount,
        forecasts=forecasts,
        max_step=max_step,
        max_step_cost=max_step_cost,
        landmarks=landmarks,
        trials=Trials() if isinstance(kernel, str) else None,  # who gives a kernel knows what it says
    )
    options = {"context_scale": context_scale, "period": period, **_options_of(rule), **learning}
    learned: Learning = {"width": WIDTH, **learning}
    return named("planner", rule, lower_bound(problem, learned, period), problem, options)


def planner_known(
    problem: Problem,
    *,
    context_scale: Any = None,
    period: Any = None,
    forecasts: Forecasts = "robust",
    max_step: Any = None,
    capacity: int | None = None,
    discount: float = 0.97,
    max_step_cost: float | None = None,
    landmarks: int | None = None,
    maximise: bool = False,
) -> Policy:
    """Planner-Known: the planner, which sees the true costs of each round and remembers those of earlier contexts.

    Parameters are those of `planner`.

    Examples
    --------
    >>> import holdcourse as hc
    >>> controller = hc.Controller(hc.planner_known(hc.Problem([0.0, 0.5, 1.0])), start=0.0)
    >>> controller.ask(context=0.3, costs=[1.0, 0.0, 1.0]).value  # it expects the context to last, so the move pays
    0.5
    """
    rule = Plan(
        problem,
        Closeness.of(context_scale, period),
        capacity=_capacity(longest_step(problem, max_step, max_step_cost), capacity, landmarks),
        discount=discount,
        shared=False,
        shown=True,
        forecasts=forecasts,
        max_step=max_step,
        max_step_cost=max_step_cost,
        landmarks=landmarks,
    )
    options = {"context_scale": context_scale, "period": period, **_options_of(rule), "maximise": maximise}
    return named("planner-known", rule, KnownCosts(problem, maximise=maximise), problem, options)


def _capacity(longest: LongestStep, given: int | None, landmarks: int | None) -> int:
    """Return how many contexts are told apart: as many as are said, or as fit."""
    if given is not None:
        return given
    weighed = landmarks_for(longest, None if landmarks is None else whole_number(landmarks, "landmarks", 1))
    return min(CONTEXTS, max(ENTRIES // (weighed or longest.problem.n), FEWEST_CONTEXTS))


def _options_of(rule: Plan) -> dict[str, Any]:
    """Return what a recipe records of the rule; its closeness follows from the other options."""
    return {name: getattr(rule, name) for name in OPTIONS}
