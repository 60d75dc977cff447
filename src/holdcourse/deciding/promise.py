"""A promise against a baseline: a rule is followed as far as an account of savings allows.

The baseline is what would run without us: staying, another fixed action, or any policy such as the operators' own rule.
Both rules decide side by side, and an account compares them.

=========  =============================================================================================================
symbol     meaning
=========  =============================================================================================================
E, S       expected cost of an action in a context according to the model, and the distance of the bound from it
x, b       action that is played in a round, and action that the baseline would play
saved      sum over rounds of E(b) - E(x), less the movement in addition to the baseline's
doubt      bound on the error of `saved`
allowed    half of `at_most` times the baseline's bill (the other half is kept for what the model does not see); at the
           beginning an amount in advance: the share of some more rounds, or the price of some expensive moves
=========  =============================================================================================================

**The account uses what is known now.** The model estimates E of past rounds again after each measurement. E(x) is then
close to the measurement, and E(b) is as certain as the baseline's measurements in such contexts make it. The errors of
rounds in similar contexts are taken to be the same, and those of other rounds to be correlated.

**What may be played.** An action may be played if saved - doubt + allowed covers what it may cost more than the
baseline: the upper bound of the difference, the move there, and the move back to the baseline. The present action may
be played without this condition if it is better than the baseline even at its upper bound. The baseline itself may
always be played. If the rule wants another action, the permitted action of least expected cost is played instead; its
move counts as if the rule stayed there for some rounds.

**In steps.** Readings nearby say little about a cliff farther away. So an action is within reach only if it is near an
action that was played, if the model knows it about as well, or if the possible loss there is small compared with what
is left. Other actions are approached in steps over actions within reach, each of which is played. There are no steps
if a move costs more than a round, because they would cost more than the cliff, or if costs are a process in time, about
which nearby actions say nothing.

The promise holds with the confidence of the bounds (`holdcourse.learning.posteriors.fitted` says how they are
calibrated), and as far as the model's kernel can describe the plant. Measured overspending is in docs/plants.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.checks import is_finite
from holdcourse.deciding.hedge import Panel, expert_view
from holdcourse.deciding.planning.beliefs import Closeness, alikeness
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.rules import (
    Choice,
    Restraint,
    Rule,
    RuleState,
    View,
    arrays_within,
    episode_begun,
    resumed,
    states_within,
)
from holdcourse.errors import InvalidInput, shown
from holdcourse.learning.costs import ExpertCosts, Judging, OptimisticCosts, can, costs_of_some
from holdcourse.learning.history import check_context
from holdcourse.movement.problem import Problem, mean_way
from holdcourse.movement.steps import LongestStep

Array: TypeAlias = NDArray[np.float64]

SPENT = 0.5  # of the share: the rest is kept for what the model does not see
ADVANCE_START, ADVANCE_PACE, ADVANCE_MOST = 300.0, 4.0, 1000.0  # rounds paid in advance, growing by the round
PERSISTENCE = 8.0  # rounds over which a way is counted where the rule's own wish is too dear
OPEN_ROUNDS = 128  # newest rounds away from the baseline whose costs are asked again
ASKED = 4  # of them, each round, those asked longest ago
ASKED_ABOUT_ALL = 10_000  # actions; of more, only those played are asked about: there the least doubt is found
TOGETHER = 0.2  # correlation of doubts about rounds in unlike contexts
NEAR = 0.4  # of a mean way: what was played tells about as far
WELL_KNOWN = 0.4  # of the largest doubt: by less, an action was measured, or many like it
CHEAP_WAY = 0.5  # of a round's bill: ways up to that are paid for by the share
SMALL = 0.1  # of what is left: to lose that is nothing to step carefully for
UNKNOWN, REACHED, PLAYED = 0.0, 1.0, 2.0  # what is known of an action
SEED_STEP = 0x5851F42D4C957F2D  # the baseline draws from a stream of its own


def promised(
    policy: Policy,
    baseline: Policy,
    at_most: float,
    *,
    budget: float | None = None,
    trials: float = 0.0,
    closeness: Closeness | None = None,
    asks_again: bool = True,
    longest: LongestStep | None = None,
    caution: float = 1.0,
) -> tuple[PromisedMaker, Panel]:
    """The rule and the cost model of a policy that is followed under a promise; see the module's docstring.

    Parameters
    ----------
    policy, baseline
        What is followed, and what would happen without it. The policy's model judges both.
    at_most
        Share of the baseline's bill by which it may be exceeded.
    budget
        What may be spent in advance, in the unit of costs; by default the share of the baseline's bill of 300 rounds at
        once, growing to that of 1,000.
    trials
        How many moves may be paid for in advance, where no budget is given and a move costs more in the mean than half
        a round: a share that does not pay for a move to another action and back would keep the policy from learning.
    closeness
        How alike contexts are.
    asks_again
        Whether the model can be asked about rounds that have passed; one of a process in time cannot.
    longest
        The policy's longest step, which moves back to the baseline respect too.
    caution
        How wide the promise's bounds are, in units of those that the policy hopes by.
    """
    if not (is_finite(at_most) and at_most >= 0):
        raise InvalidInput(f"at_most must be a share such as 0.02, or None for no promise, got {shown(at_most)}")
    if budget is not None and not (is_finite(budget) and budget >= 0):
        raise InvalidInput(f"budget must be 0 or more, in the unit of costs, or None, got {shown(budget)}")
    if baseline.problem.fingerprint != policy.problem.fingerprint:
        raise InvalidInput(
            f"the baseline {baseline.name} and {policy.name} were made for different problems; make both for the same "
            "problem"
        )
    if baseline.costs.needs_costs:
        raise InvalidInput(
            f"the baseline {baseline.name} needs the true costs, which nobody knows in operation; give another one"
        )
    advance = None if budget is None else float(budget)
    maker = PromisedMaker(policy, baseline, float(at_most), advance, trials, closeness, asks_again, longest, caution)
    return maker, Panel([policy.costs, baseline.costs])


@dataclass(frozen=True, eq=False)
class PromisedMaker:
    """Makes the rule of a run from the run's seed."""

    policy: Policy
    baseline: Policy
    at_most: float
    budget: float | None = None
    trials: float = 0.0
    closeness: Closeness | None = None
    asks_again: bool = True
    longest: LongestStep | None = None
    caution: float = 1.0

    @property
    def asks(self) -> tuple[type, ...]:
        """The cost model must know the policy's and the baseline's own."""
        return (ExpertCosts, OptimisticCosts)

    def rule_for(self, seed: int) -> Promised:
        """Return the rule of the run with this seed."""
        return Promised(
            self.policy.problem,
            self.policy.rule_for(seed),
            self.baseline.rule_for(_other_seed(seed)),
            self.at_most,
            self.budget,
            self.trials,
            self.closeness or Closeness(),
            self.asks_again,
            self.longest,
            self.caution,
        )

    def describe(self) -> dict[str, Any]:
        """Say what it makes, in JSON values."""
        rules = {"policy": self.policy.rule.describe(), "baseline": self.baseline.rule.describe()}
        terms = {"at_most": self.at_most, "budget": self.budget, "trials": self.trials, "caution": self.caution}
        return {"rule": "Promised", **terms, **rules}


@dataclass(frozen=True)
class Budget:
    """The account of a promise, in the unit of costs.

    Attributes
    ----------
    saved
        Savings compared with the baseline, movement included, as the model now estimates them; negative if more was
        spent.
    doubt
        Bound on the error of `saved`.
    allowed
        Amount that may be spent in addition to the baseline's bill.
    baseline_bill
        Bill of the baseline so far, as the model estimates it.
    """

    saved: float
    doubt: float
    allowed: float
    baseline_bill: float

    @property
    def left(self) -> float:
        """Amount that may still be risked."""
        return self.saved - self.doubt + self.allowed

    def __str__(self) -> str:
        amount = f"{abs(self.saved):.3g} (+- {self.doubt:.2g})"
        if self.saved < 0:
            return f"{amount} more than the baseline; up to {self.allowed:.3g} is allowed"
        return f"{amount} less than the baseline; {self.allowed:.3g} more would be allowed"


@dataclass(frozen=True, eq=False)
class Promised:
    """A rule that follows another rule as far as a promise against a baseline allows.

    The cost model must be `ExpertCosts`: its first expert is the rule, its second the baseline.
    """

    problem: Problem
    followed: Rule
    baseline: Rule
    at_most: float
    budget: float | None = None
    trials: float = 0.0
    closeness: Closeness = Closeness()  # noqa: RUF009 - frozen
    asks_again: bool = True
    longest: LongestStep | None = None
    caution: float = 1.0

    @property
    def asks(self) -> tuple[type, ...]:
        """The protocols that the cost model must have."""
        return (ExpertCosts, OptimisticCosts)

    def begin(self, action: int, seed: int, round: int = 0) -> RuleState:  # noqa: A002
        """Start both rules at the action, with an empty account."""
        states = self.followed.begin(action, seed, round), self.baseline.begin(action, _other_seed(seed), round)
        reach = self._reached(np.full(self.problem.n, UNKNOWN), int(action))
        return RuleState(int(action), round, seed, self._arrays(states, Account.empty(), reach))

    def resume(self, state: RuleState, action: int) -> RuleState:
        """Continue at another action, because somebody moved the machine; the baseline is moved there too."""
        followed, base = self._states(state)
        states = resumed(self.followed, followed, action), replace(base, action=int(action))
        account = Account.of(state.arrays).without_newest(state.round)
        reach = self._reached(state.arrays["reach"], int(action))
        return replace(state, action=int(action), arrays=self._arrays(states, account, reach))

    def begin_episode(self, state: RuleState, action: int, at: int | None = None) -> RuleState:
        """Bring both rules to the start of an episode; the account continues and includes the last round."""
        followed, base = self._states(state)
        states = (
            episode_begun(self.followed, followed, action, at),
            episode_begun(self.baseline, base, action, at),
        )
        reach = self._reached(state.arrays["reach"], state.action if at is None else at)
        arrays = self._arrays(states, Account.of(state.arrays), self._reached(reach, int(action)))
        return replace(state, action=int(action), arrays=arrays)

    def step(self, state: RuleState, view: View) -> Choice:
        """Let both rules decide, and follow the first as far as the account allows."""
        played = state.action if view.at is None else view.at  # in a trial the machine may have been elsewhere
        state = replace(state, arrays=state.arrays | {"reach": self._reached(state.arrays["reach"], played)})
        followed, base = self._states(state)
        wish = self.followed.step(followed, expert_view(view, 0))
        other = self.baseline.step(base, expert_view(view, 1))
        if not can(view.model, OptimisticCosts):
            return self._chosen(state, wish, wish.action, other, Account.of(state.arrays), None)
        context = check_context(view.context, None)
        account = Account.of(state.arrays).after(_changes(view.model), self.closeness)
        if self.asks_again:
            among = np.flatnonzero(state.arrays["reach"] == PLAYED) if self.problem.n > ASKED_ABOUT_ALL else None
            account = account.asked_again(view.model, state.round, self.caution, among)
        expected, spread = _row(view.model, context, self.caution)
        n, b = self.problem.n, other.action
        everywhere = np.arange(n)
        ways = self.problem.move_costs(np.full(n, state.action), everywhere)
        back = self.problem.move_costs(everywhere, np.full(n, b))
        base_way = float(self.problem.move_costs(np.array([base.action]), np.array([b]))[0])
        stands = account.stands(self, float(expected[b]))
        upper = expected + _doubts(spread, b)
        risks = (upper - expected[b]) + ways + back - base_way
        permitted = stands.left + base_way - (upper - expected[b]) - ways - back >= 0
        permitted[state.action] |= upper[state.action] <= expected[b]
        permitted[b] = True
        permitted &= view.allowed
        if self.longest is not None:
            within = view.allowed & self.longest.within(state.action)
            permitted &= within
            if within.any() and not permitted.any():  # the baseline is out of reach: a step towards it
                permitted[np.argmin(np.where(within, back, np.inf))] = True
        action, restraint = wish.action, None
        reach = state.arrays["reach"]
        near = (reach > UNKNOWN) | (spread < WELL_KNOWN * spread.max()) | (everywhere == b)
        no_steps = self.mean_way > abs(expected[b]) or not self.asks_again
        in_reach = permitted & (near | no_steps | (upper - expected[b] <= SMALL * stands.left))
        in_reach = in_reach if in_reach.any() else permitted
        if in_reach.any() and not in_reach[action]:
            risk, left = float(risks[action]), float(stands.left)
            if permitted[action]:
                onward = self.problem.move_costs(everywhere, np.full(n, action))
                restraint = Restraint(action, "steps", risk, left)
                action = int(np.argmin(np.where(in_reach, onward, np.inf)))
            else:
                restraint = Restraint(action, "dear" if risk > left else "reach", risk, left)
            if not permitted[wish.action] or reach[action] == PLAYED:  # no step leads nearer
                action = int(np.argmin(np.where(in_reach, expected + ways / PERSISTENCE, np.inf)))
        account = account.with_round(
            state.round,
            context,
            (action, b),
            (float(expected[action] - expected[b]), float(_doubts(spread, b)[action])),
            float(expected[b]),
            float(ways[action]) - base_way,
        )
        return self._chosen(state, wish, action, other, account, restraint)

    def stands(self, state: RuleState) -> Budget:
        """Return the account after the newest round."""
        return Account.of(state.arrays).stands(self)

    def describe(self) -> dict[str, Any]:
        """Return what the rule is, in JSON values."""
        rules = {"policy": self.followed.describe(), "baseline": self.baseline.describe()}
        terms = {"at_most": self.at_most, "budget": self.budget, "trials": self.trials, "caution": self.caution}
        return {"rule": "Promised", **terms, **rules}

    def _chosen(
        self, state: RuleState, wish: Choice, action: int, other: Choice, account: Account, restraint: Restraint | None
    ) -> Choice:
        own, probabilities = wish.state, wish.probabilities
        if action != wish.action:
            own = replace(resumed(self.followed, wish.state, action), round=wish.state.round)
            probabilities = np.zeros(self.problem.n)
            probabilities[action] = 1.0
        arrays = self._arrays((own, other.state), account, state.arrays["reach"])
        kept = restraint if action != wish.action else None
        prospect = wish.prospect if action == wish.action else None
        after = RuleState(action, state.round + 1, state.seed, arrays)
        return Choice(after, probabilities, wish.words, prospect=prospect, restraint=kept)

    def _states(self, state: RuleState) -> list[RuleState]:
        return states_within(state, state.arrays["positions"], (state.seed, _other_seed(state.seed)))

    def _reached(self, reach: Array, action: int) -> Array:
        """Return what is known of the actions once one was played: those near it are in reach."""
        if reach[action] == PLAYED:
            return reach
        n = self.problem.n
        ways = self.problem.move_costs(np.full(n, action), np.arange(n))
        others = np.delete(ways, action)
        near = max(NEAR * self.mean_way, float(others.min()) if n > 1 else 0.0)
        reach = np.where(ways <= near * (1.0 + 1e-9), np.maximum(reach, REACHED), reach)
        reach[action] = PLAYED
        return reach

    @cached_property
    def mean_way(self) -> float:
        """Mean cost of a move."""
        return mean_way(self.problem)

    def _arrays(self, states: Sequence[RuleState], account: Account, reach: Array) -> dict[str, Array]:
        arrays = {"positions": np.array([float(state.action) for state in states]), "reach": reach}
        return arrays | arrays_within(states) | account.arrays()


@dataclass(frozen=True, eq=False)
class Account:
    """What was played against what the baseline would have played.

    Attributes
    ----------
    contexts
        Of the newest rounds away from the baseline, (m, d).
    rounds
        Their number, action and baseline's action, and the round in which their costs were last asked; (m, 4).
    costs
        E(x) - E(b), and the doubt about that; (m, 2).
    sums
        Of older rounds away: E(x) - E(b), and the square of their doubt; movement beyond the baseline's; the
        baseline's bill; how many rounds that was for; movement of the newest round alone; how often the model has
        forgotten what it had learned; (7,).
    """

    contexts: Array
    rounds: Array
    costs: Array
    sums: Array

    @classmethod
    def empty(cls) -> Account:
        """Return the account before the first round."""
        return cls(np.zeros((0, 0)), np.zeros((0, 4)), np.zeros((0, 2)), np.zeros(7))

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> Account:
        """Read from a rule's state."""
        return cls(*(arrays[f"account.{field.name}"] for field in fields(cls)))

    def arrays(self) -> dict[str, Array]:
        """Give the arrays that a rule's state holds."""
        return {f"account.{field.name}": getattr(self, field.name) for field in fields(self)}

    def after(self, changes: int, closeness: Closeness) -> Account:
        """Ask no more about rounds before a change: the model that judged them knows another plant now."""
        if changes == self.sums[6]:
            return self
        sums = self.sums.copy()
        sums[0] += float(self.costs[:, 0].sum())
        sums[1] += self._doubt_squared(closeness)
        sums[6] = changes
        return replace(Account.empty(), sums=sums)

    def _doubt_squared(self, closeness: Closeness) -> float:
        """Return the square of the doubt about the rounds that are asked again."""
        if not len(self.rounds):
            return 0.0
        apart = closeness.distances(self.contexts, self.contexts, self.contexts)
        alike = TOGETHER + (1.0 - TOGETHER) * alikeness(apart, 1.0)
        return float(self.costs[:, 1] @ alike @ self.costs[:, 1])

    def asked_again(
        self,
        model: OptimisticCosts,
        round_number: int,
        caution: float = 1.0,
        played: NDArray[np.int64] | None = None,
    ) -> Account:
        """Ask anew what some of the rounds cost: those asked longest ago, and the newest, measured meanwhile.

        `played`: the actions among which the least doubt is looked for, besides those of the rounds; None: all.
        """
        if not len(self.rounds):
            return self
        longest_ago = np.argsort(self.rounds[:, 3], kind="stable")[:ASKED].tolist()
        rows = np.array(sorted({*longest_ago, len(self.rounds) - 1}))
        rounds, costs = self.rounds.copy(), self.costs.copy()
        asked = self.contexts[rows]
        each, (x, b) = np.arange(len(rows)), rounds[rows, 1:3].T.astype(np.int64)
        if played is None:
            expected = model.costs_at_optimism(asked, 0.0)
            spread = expected - model.costs_at_optimism(asked, caution)
        else:
            among = np.unique(np.concatenate([played, x, b]))
            expected = costs_of_some(model, asked, among, 0.0)
            spread = expected - costs_of_some(model, asked, among, caution)
            x, b = np.searchsorted(among, x), np.searchsorted(among, b)
        costs[rows, 0] = expected[each, x] - expected[each, b]
        costs[rows, 1] = _doubt(spread[each, x], spread[each, b], spread.min(axis=1))
        rounds[rows, 3] = round_number
        return replace(self, rounds=rounds, costs=costs)

    def with_round(
        self,
        round_number: int,
        context: Array,
        actions: tuple[int, int],
        costs: tuple[float, float],
        bill: float,
        movement: float,
    ) -> Account:
        """Return the account after one more round."""
        sums = self.sums + np.array([0.0, 0.0, movement, bill, 1.0, 0.0, 0.0])
        sums[5] = movement
        if actions[0] == actions[1]:
            return replace(self, sums=sums)
        full = len(self.rounds) >= OPEN_ROUNDS
        keep = slice(1 if full else 0, None)
        if full:  # the oldest is asked no more; its doubt goes with that of those like it
            sums[0] += self.costs[0, 0]
            sums[1] += self.costs[0, 1] ** 2 * (1.0 + TOGETHER * OPEN_ROUNDS)
        row = np.array([[float(round_number), float(actions[0]), float(actions[1]), float(round_number)]])
        contexts = np.vstack([self.contexts[keep], context]) if len(self.rounds) else context[None]
        rounds, open_costs = np.vstack([self.rounds[keep], row]), np.vstack([self.costs[keep], costs])
        return Account(contexts, rounds, open_costs, sums)

    def without_newest(self, round_number: int) -> Account:
        """Take back the round before `round_number`, in which somebody else decided."""
        sums = self.sums.copy()
        sums[[2, 5]] = sums[2] - sums[5], 0.0  # the way that was not gone
        if not len(self.rounds) or self.rounds[-1, 0] != round_number - 1:
            return replace(self, sums=sums)
        return Account(self.contexts[:-1], self.rounds[:-1], self.costs[:-1], sums)

    def stands(self, terms: Promised, now: float | None = None) -> Budget:
        """How the promise stands; `now`: the baseline's cost in a round that is being decided."""
        spent, old_doubt, movement, bill, rounds = self.sums[:5].tolist()
        if now is not None:
            bill, rounds = bill + now, rounds + 1.0
        share = SPENT * terms.at_most * abs(bill)
        if terms.budget is not None:
            allowed = share + terms.budget
        elif rounds:
            advance = min(ADVANCE_START + ADVANCE_PACE * rounds, ADVANCE_MOST)
            dear = terms.mean_way > CHEAP_WAY * abs(bill) / rounds
            trials = terms.trials * terms.mean_way * advance / ADVANCE_MOST if dear else 0.0
            allowed = max(share * max(1.0, advance / rounds), trials)
        else:
            allowed = 0.0
        square = old_doubt + self._doubt_squared(terms.closeness)
        if len(self.rounds):
            spent += float(self.costs[:, 0].sum())
        return Budget(0.0 - spent - movement, float(np.sqrt(square)), allowed, bill)


def _changes(model: Any) -> int:
    """How often the model has forgotten what it had learned."""
    found = model.calibration() if can(model, Judging) else None
    return 0 if found is None else found.changes


def _row(model: OptimisticCosts, context: Array, caution: float) -> tuple[Array, Array]:
    """Expected costs in a context, and how far below them the bounds lie; (n,) and (n,)."""
    expected = model.costs_at_optimism(context[None], 0.0)[0]
    return expected, expected - model.costs_at_optimism(context[None], caution)[0]


def _doubts(spread: Array, b: int) -> Array:
    """How far the cost of each action less that of `b` may be off."""
    return _doubt(spread, spread[b], spread.min())


def _doubt(spread: Array, baseline: Any, least: Any) -> Array:
    """How far a difference of costs may be off: what all actions share, at most the least, cancels.

    It is counted once instead of twice.
    """
    return np.asarray(np.sqrt(np.maximum(spread**2 + baseline**2 - least**2, 0.0)))


def _other_seed(seed: int) -> int:
    return (seed + SEED_STEP) % 2**64
