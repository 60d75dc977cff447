"""How far a plant's readings can tell what another policy would have cost: an interval, or why there is none.

Three things go wrong where a model of readings judges policies, and each has its answer here:

*Selection.* A policy that is chosen, or learns, on the same numbers that judge it looks better than it is: it plays
what these numbers flatter. So the readings are cut into blocks of time, and dealt out in turn to two halves. Policies
act in a world fitted to one half, and are judged by a model fitted to the other, which they have never seen.

*Model error.* The judge has seen noisy readings, and its kernel may not suit the plant. How much its verdict depends on
which readings it saw is found by leaving out a fifth of its blocks at a time (the jackknife). How far it is off is
found where it can be tried: on the readings of the other half, setting by setting.

*Errors that stay.* Readings of an hour are like those of the hour before, so errors do not average out as independent
ones would. All errors are counted by block, not by reading.

=======  ===============================================================================================================
symbol   meaning
=======  ===============================================================================================================
G        what is saved over all readings: the sum over rounds of the rival's cost less the policy's, moves included
V_time   variance of G from block to block: another period would have had other weather and other loads
V_model  variance of G when a fifth of the judge's blocks is left out, by the jackknife
V_check  (p - q)^2 (bias^2 + variance of it), summed over settings; p, q: rounds of the rival and of the policy there
=======  ===============================================================================================================

The interval is G +- t sqrt(V_time + V_model + V_check), with t for the degrees of freedom that they have together. What
no reading shows stays outside: a reason for which operators chose a setting and that is not among the contexts, or a
plant that is no longer what it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit as student_quantile

from holdcourse.backtest.verdict import LEVEL
from holdcourse.errors import how_often
from holdcourse.learning.history import History
from holdcourse.movement.problem import Problem
from holdcourse.worlds.logged import LoggedWorld, learned_from

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

FEWEST_BLOCKS, MOST_BLOCKS = 10, 60
FEWEST_CHANGES = 8  # of the setting: fewer are told apart from nothing else that changed
GROUPS = 5  # left out in turn
NEAR = {1: 0.08, 2: 0.12}  # share of the ranks of each context that counts as near, by number of contexts
NEAR_MORE = 0.17
NEIGHBOURING = 0.1  # of the range of settings: such a setting speaks for another
MOST_UNSUPPORTED = 0.3  # share of the rounds in which something else is done
LOOKED_AT = 1500  # rounds whose neighbourhood is looked at
LEAST_BILL = 0.5  # of the costs without their signs: where gains and losses all but cancel, no percentage says anything
FOLLOWS = 0.8  # share of readings whose setting their neighbours foretell


@dataclass(frozen=True)
class Interval:
    """What is saved, in the unit of costs, and between what bounds.

    Attributes
    ----------
    saved, low, high
        The estimate and its 95 % interval.
    of
        What the rival paid: percentages are of this. NaN where its costs are of both signs and all but cancel.
    time, model, check
        Standard deviations that it is made of: of the period, of what the judge saw, of its error where it was tried.
    """

    saved: float
    low: float
    high: float
    of: float
    time: float
    model: float
    check: float

    @property
    def percent(self) -> tuple[float, float, float]:
        """The estimate and its bounds in percent; NaN where a percentage says nothing."""
        base = abs(self.of) if self.of else math.nan
        return 100 * self.saved / base, 100 * self.low / base, 100 * self.high / base


@dataclass(frozen=True)
class Support:
    """Whether the readings can tell, and what to do where they cannot.

    Attributes
    ----------
    changes, stretches
        How often the setting changed, and how many stretches of it there are.
    follows
        Share of readings whose setting is predicted by readings in similar contexts of other blocks.
    unsupported
        Of the rounds in which the policy would have done something else, the share in which the readings never show
        that in a like context.
    reasons
        Why they cannot tell; empty where they can.
    advice
        What to do about it.
    """

    changes: int
    stretches: int
    follows: float
    unsupported: float
    reasons: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

    @property
    def enough(self) -> bool:
        """Whether the readings can tell."""
        return not self.reasons


def blocks_of(rows: int, step_hours: float | None) -> Indices:
    """The block of each row, (rows,): weeks where there are many, else days, else parts of the whole."""
    length = rows / 20
    if step_hours:
        for hours in (24 * 7, 24 * 2, 24):
            if rows * step_hours >= FEWEST_BLOCKS * hours:
                length = hours / step_hours
                break
    length = min(max(length, rows / MOST_BLOCKS), rows / FEWEST_BLOCKS)
    return np.minimum((np.arange(rows) / max(length, 1.0)).astype(np.int64), rows)


class Judge:
    """A model of one half of the readings that judges what policies did, and says how far it can be trusted.

    Parameters
    ----------
    world
        The model, fitted to `seen`.
    seen
        Which readings it was fitted to, (t,).
    blocks
        The block of each reading, (t,).
    """

    def __init__(self, world: LoggedWorld, seen: Mask, blocks: Indices) -> None:
        self.world, self.seen, self.blocks = world, seen, blocks
        self.place = np.array([world.rows[tuple(context)] for context in world.contexts.tolist()])  # (t,)
        self.costs = world.rho * world.expected[self.place]  # (t, n)
        self._without: list[Array] | None = None

    def interval(self, ours: Indices, theirs: Indices, start: int) -> Interval:
        """What actions `ours` save against `theirs`, both (t,), from a setting that both start at."""
        moves = self._moves(theirs, start) - self._moves(ours, start)
        each = self.saved_each(ours, theirs, start)
        saved = float(each.sum())
        by_block = np.bincount(self.blocks, each)
        time = len(by_block) * float(by_block.var(ddof=1))
        groups = np.array([(self._gain(costs, ours, theirs) + moves).sum() for costs in self.without()])
        model = (len(groups) - 1) * float(groups.var())
        check, check_freedom = self._check(ours, theirs)
        parts = [(time, len(by_block) - 1), (model, len(groups) - 1), (check, check_freedom)]
        total = sum(variance for variance, _ in parts)
        freedom = total**2 / sum(variance**2 / dof for variance, dof in parts) if total > 0 else 1.0
        width = float(student_quantile(max(freedom, 1.0), (1 + LEVEL) / 2)) * math.sqrt(total)
        each_paid = self.costs[np.arange(len(theirs)), theirs] + self._moves(theirs, start)
        paid = float(each_paid.sum())
        if abs(paid) < LEAST_BILL * float(np.abs(each_paid).sum()):
            paid = math.nan
        return Interval(saved, saved - width, saved + width, paid, math.sqrt(time), math.sqrt(model), math.sqrt(check))

    def saved_each(self, ours: Indices, theirs: Indices, start: int) -> Array:
        """What is saved in each round, moves included; (t,)."""
        return self._gain(self.costs, ours, theirs) + self._moves(theirs, start) - self._moves(ours, start)

    def without(self) -> list[Array]:
        """Costs (t, n) by the judge without each group of the blocks that it has seen."""
        if self._without is None:
            numbers = np.unique(self.blocks[self.seen])
            group_of = np.full(int(self.blocks.max()) + 1, -1)
            group_of[numbers] = np.arange(len(numbers)) % GROUPS
            self._without = []
            for group in range(min(GROUPS, len(numbers))):
                rows = self.seen & (group_of[self.blocks] != group)
                self._without.append(self.world.rho * learned_from(self.world, rows)[self.place])
        return self._without

    def _gain(self, costs: Array, ours: Indices, theirs: Indices) -> Array:
        rows = np.arange(len(ours))
        return costs[rows, theirs] - costs[rows, ours]

    def _moves(self, actions: Indices, start: int) -> Array:
        before = np.concatenate([[start], actions[:-1]])
        return self.world.problem.move_costs(before, actions)

    def errors(self) -> tuple[Array, Array]:
        """By setting: how far the judge is off on readings that it has not seen, and the error of that; (n,) each.

        NaN for settings that these readings do not hold.
        """
        problem, readings = self.world.problem, self.world.readings
        rows = np.flatnonzero(~self.seen)
        off = self.world.rho * readings.measurements[rows] - self.costs[rows, readings.actions[rows]]
        bias, error = np.full(problem.n, np.nan), np.full(problem.n, np.nan)
        for action in range(problem.n):
            here = readings.actions[rows] == action
            if not here.any():
                continue
            numbers, block = np.unique(self.blocks[rows][here], return_inverse=True)
            count, total = np.bincount(block), np.bincount(block, off[here])
            bias[action] = off[here].mean()
            scatter = total - count * bias[action]  # by block, since errors stay
            few = len(numbers) / max(len(numbers) - 1, 1)
            error[action] = math.sqrt(few * float((scatter**2).sum())) / here.sum() if len(numbers) > 1 else np.nan
        return bias, error

    def _check(self, ours: Indices, theirs: Indices) -> tuple[float, int]:
        bias, error = self.errors()
        known = np.isfinite(bias) & np.isfinite(error)
        if not known.any():
            return math.inf, 1
        square = bias**2 + error**2
        square = np.where(known, square, square[known].max())
        n = self.world.problem.n
        moved = np.bincount(theirs, minlength=n) - np.bincount(ours, minlength=n)
        return float((moved**2 * square).sum()), max(len(np.unique(self.blocks[~self.seen])) - 1, 1)


# -- can these readings tell? -----------------------------------------------------------------------------------------


def supported(
    problem: Problem,
    readings: History,
    taken: Indices,
    names: Sequence[str],
    blocks: Indices,
    *,
    step_hours: float | None = None,
) -> Support:
    """Look whether the readings show what a policy would have done in contexts like those in which it did so.

    Parameters
    ----------
    taken
        What the policy did, (t,).
    names
        What the numbers of the context are called.
    """
    actions = readings.actions
    changes = int((np.diff(actions) != 0).sum())
    stretch = np.concatenate([[0], np.cumsum(np.diff(actions) != 0)])
    ranks = _ranks(readings.contexts)
    near = NEAR.get(ranks.shape[1], NEAR_MORE)
    follows = _follows(ranks, actions, blocks, near)
    alike = _alike(problem)
    moved = np.flatnonzero(taken != actions)
    looked = moved[_spread(len(moved), LOOKED_AT)]
    shown = np.array([_shown(t, int(taken[t]), ranks, actions, alike, near) for t in looked], dtype=bool)
    unsupported = float(1 - shown.mean()) if len(shown) else 0.0
    reasons, lacking = [], looked[~shown] if len(looked) else looked
    if changes < FEWEST_CHANGES:
        reasons.append(
            f"The setting changed {how_often(changes)} in {len(actions):,} readings, so a model would mistake whatever "
            "else changed at the same time for the effect of the setting."
        )
    elif follows > FOLLOWS and len(np.unique(actions)) > 1:
        reasons.append(
            f"The setting changed only together with {_listed(names)}: in {100 * follows:.0f} % of the readings it "
            "follows from the conditions, so its effect and theirs cannot be told apart."
        )
    if unsupported > MOST_UNSUPPORTED and changes >= FEWEST_CHANGES:
        reasons.append(
            f"In {100 * unsupported:.0f} % of the rounds in which the policy would have chosen another setting, the "
            "readings never show that setting in similar conditions."
        )
    if not reasons:
        return Support(changes, int(stretch[-1]) + 1, follows, unsupported)
    advice = _advice(problem, readings, taken, lacking if len(lacking) else moved, names, blocks, step_hours)
    return Support(changes, int(stretch[-1]) + 1, follows, unsupported, tuple(reasons), advice)


def _spread(count: int, most: int) -> Indices:
    """Return at most `most` of `count` places, evenly spread."""
    return np.unique(np.linspace(0, max(count - 1, 0), min(count, most)).astype(np.int64))


def _ranks(contexts: Array) -> Array:
    """Contexts by rank, 0 to 1 along each axis."""
    ranks = np.empty_like(contexts)
    for axis in range(contexts.shape[1]):
        values, place = np.unique(contexts[:, axis], return_inverse=True)
        below = np.cumsum(np.bincount(place)) - 0.5 * np.bincount(place)
        ranks[:, axis] = below[place] / len(contexts) if len(values) > 1 else 0.5
    return ranks


def _alike(problem: Problem) -> Mask:
    """Which settings speak for which, (n, n)."""
    n = problem.n
    if problem.labels is not None or problem.actions.shape[1] != 1:
        return np.eye(n, dtype=bool)
    values = problem.actions[:, 0]
    return np.abs(values[:, None] - values[None]) <= NEIGHBOURING * max(np.ptp(values), 1e-300)


def _shown(t: int, action: int, ranks: Array, actions: Indices, alike: Mask, near: float) -> bool:
    close = (np.abs(ranks - ranks[t]) <= near).all(axis=1) & alike[action][actions]
    return bool(close.any())


def _follows(ranks: Array, actions: Indices, blocks: Indices, near: float) -> float:
    """Share of readings whose setting is that of nearly all readings in like contexts, in other blocks."""
    told = []
    for t in _spread(len(actions), LOOKED_AT):
        close = (np.abs(ranks - ranks[t]) <= near / 2).all(axis=1) & (blocks != blocks[t])
        if close.sum() >= 3:
            told.append(float((actions[close] == actions[t]).mean()))
    return float(np.mean(told)) if len(told) >= 20 else 0.0


def _advice(
    problem: Problem,
    readings: History,
    taken: Indices,
    rows: Indices,
    names: Sequence[str],
    blocks: Indices,
    step_hours: float | None,
) -> tuple[str, ...]:
    """Which changes, where, for how long."""
    usual = int(np.argmax(np.bincount(readings.actions, minlength=problem.n)))
    counts = np.bincount(taken[rows], minlength=problem.n) + 1e-6 * np.bincount(readings.actions, minlength=problem.n)
    counts[usual] = -1.0
    likeliest = np.argsort(-counts, kind="stable")[:2]
    wanted = np.sort(likeliest[counts[likeliest] > 0.1 * counts.max()])
    rows = rows if len(rows) else np.arange(len(readings))
    where = []
    for axis, name in enumerate(names):
        low, high = np.percentile(readings.contexts[rows, axis], [10, 90])
        where.append(f"{name} from {low:.3g} to {high:.3g}")
    settings = " and ".join(_shown_value(problem, int(action)) for action in wanted)
    hold = max(3, round((24.0 if step_hours is None or step_hours > 0.5 else 6.0) / step_hours) if step_hours else 6)
    length = f"{hold * step_hours:g} h" if step_hours else f"{hold} readings"
    turns = _turns(readings, hold)
    total = 2 * turns * hold
    spent = f"about {total * step_hours / 24:.0f} days" if step_hours else f"about {total:,} readings"
    return (
        f"Change the setting according to a plan, whatever the conditions: {settings} in turn with "
        f"{_shown_value(problem, usual)}, {length} at a time, at least {turns} times each ({spent}). Make sure that "
        f"this covers {' and '.join(where)}.",
        "Draw the order at random, for example with a coin for each turn, and write it down. Then run the backtest "
        "again.",
    )


def _turns(readings: History, hold: int) -> int:
    """So many turns of each setting tell a difference of 2 % of the mean reading, by the scatter of such stretches."""
    y, contexts = readings.measurements, readings.contexts
    pieces = len(y) // hold
    if pieces < 4:
        return FEWEST_CHANGES
    known = np.column_stack([np.ones(len(y)), contexts, contexts**2])  # what the conditions explain is no scatter
    left = y - known @ np.linalg.lstsq(known, y, rcond=None)[0]
    means = left[: pieces * hold].reshape(pieces, hold).mean(axis=1)
    within = np.diff(means).std() / math.sqrt(2)  # neighbours in time: nor are slow changes
    wanted = (2 * 1.96 * within / (0.02 * max(abs(float(y.mean())), 1e-12))) ** 2
    return int(min(max(math.ceil(wanted), FEWEST_CHANGES), 60))


def _shown_value(problem: Problem, action: int) -> str:
    value: Any = problem.value(action)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
