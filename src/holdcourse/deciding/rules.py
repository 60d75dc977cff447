"""Rules: from a view of the round to an action.

A rule is frozen. What it remembers is a `RuleState`, handed in and out: `begin` and `step` are pure functions, so a
decision can be taken again, saved, and undone. Rules know nothing of where the costs come from; those that plan may
ask the view's `model` about other contexts, as the protocols in `holdcourse.learning.costs` declare.

A `Rule` is what a policy holds, or a `RuleMaker` where it depends on the run's seed. A rule that keeps what it knows
when it is moved is a `ResumableRule`; one for which the start of an episode is something else than that is an
`EpisodicRule`; one that cannot work with every cost model says so as a `DemandingRule`; one
that knows how far apart its rounds are is a `TimedRule`; one whose arms need not all learn from a round is
`TakingTurns`.

Random numbers belong to a round: each is the first one of Philox(key=seed, counter=[0, round, lane, 0]), the same as
numpy's generator of that name gives, without the 40 microseconds that making one takes. Nothing has to be remembered
between rounds, so a run can be resumed anywhere.

Examples
--------
>>> import holdcourse as hc
>>> import numpy as np
>>> rule = hc.rules.Proximal(hc.Problem([0.0, 0.5, 1.0]), weight=1.0)
>>> state = rule.begin(action=0, seed=0)
>>> view = hc.rules.View(costs=np.array([1.0, 0.8, 0.1]), context=None, allowed=np.ones(3, dtype=bool))
>>> rule.step(state, view).action  # 0.1 there and 1.0 for the move, against 1.0 here
0
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from holdcourse.checks import is_finite
from holdcourse.errors import InvalidInput, plain
from holdcourse.movement import mirror, offline
from holdcourse.movement.problem import Problem
from holdcourse.movement.tree import Tree

if TYPE_CHECKING:
    from holdcourse.learning.costs import Costs


_MASK = 2**64 - 1
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_KEY_STEPS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)


def uniform(seed: int, round: int, lane: int = 0) -> float:  # noqa: A002
    """Return a number from [0, 1); `lane` tells apart the numbers that different parties draw in one round."""
    # Philox4x64-10. numpy counts up before the first block, hence the 1.
    c0, c1, c2, c3 = 1, round, lane, 0
    k0, k1 = seed, 0
    for _ in range(10):
        first, second = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (second >> 64) ^ c1 ^ k0, second & _MASK, (first >> 64) ^ c3 ^ k1, first & _MASK
        k0, k1 = (k0 + _KEY_STEPS[0]) & _MASK, (k1 + _KEY_STEPS[1]) & _MASK
    return (c0 >> 11) * 2.0**-53


Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class View:
    """What a rule sees of the round.

    Attributes
    ----------
    costs
        Cost of every action, shape (n,); +inf where it is not allowed.
    context
        The context as the user gave it.
    allowed
        Which actions may be chosen, shape (n,).
    forecast
        Contexts expected in the next rounds, if anybody said so.
    model
        What can be asked about other contexts, for rules that plan; None if there is nothing to ask.
    at
        The action that was really played last, where it may be another one than the rule's: an expert of a hedge goes
        its own way. None: the rule's.
    """

    costs: Array
    context: Any
    allowed: NDArray[np.bool_]
    forecast: Any = None
    model: Costs | None = None
    at: int | None = None


@dataclass(frozen=True, eq=False)
class RuleState:
    """Everything that a rule carries from round to round.

    Attributes
    ----------
    action
        Where the rule is. Limits may keep the machine elsewhere; the rule's own probabilities stay right.
    round
        How many rounds it has decided.
    seed
        Key of the random stream: round t draws from Philox(key=seed, counter=[0, t, 0, 0]).
    arrays
        What this rule remembers, by name.
    """

    action: int
    round: int
    seed: int
    arrays: dict[str, Array]

    def uniform(self) -> float:
        """Return the random number of this round, in [0, 1)."""
        return uniform(self.seed, self.round)


@dataclass(frozen=True)
class Turn:
    """Whose turn it is in a trial, see `holdcourse.deciding.trial`.

    Attributes
    ----------
    block
        The number of the block, from 0; blocks 2 k and 2 k + 1 are a pair.
    arm
        0: the baseline's, 1: the policy's.
    place
        Where the arm was before the round, as if it had decided throughout; the index of an action.
    predicted
        What the baseline's action was expected to cost a round in the first and the second block of the pair, when the
        pair began; in its first round only, and where a forecast of contexts reached its end.
    heard
        Whether the other arm learns from the round too; the one whose turn it is always does.
    """

    block: int
    arm: int
    place: int
    predicted: tuple[float, float] | None = None
    heard: bool = True

    @property
    def whose(self) -> str:
        """Return "baseline" or "policy"."""
        return ("baseline", "policy")[self.arm]


@dataclass(frozen=True)
class Prospect:
    """What a plan weighed: going to an action against staying, by the costs that it believes in.

    Attributes
    ----------
    place
        Where the plan stood.
    to
        Where it goes or, where it stays, the action that came nearest to paying for the move; None if there is no
        other.
    worth
        By how much the rounds ahead cost less from there than from `place`, without the move.
    way
        What the move costs, as the plan counts it: a cautious one counts more than it pays.
    rounds
        How many rounds ahead count.
    may_stay
        Whether `place` may be chosen at all.
    """

    place: int
    to: int | None
    worth: float
    way: float
    rounds: int
    may_stay: bool = True


@dataclass(frozen=True)
class Restraint:
    """Why a rule's wish was not followed under a promise.

    Attributes
    ----------
    wish
        What it wanted.
    why
        "dear": it might cost more than is left; "steps": it is far from all that was tried, so it is approached in
        steps; "reach": it is farther than the longest step.
    risk
        What it might cost more than the baseline, with the move there and back to the baseline.
    left
        What is left to be risked.
    """

    wish: int
    why: str
    risk: float
    left: float


@dataclass(frozen=True, eq=False)
class Choice:
    """A decision: the state after it, and the probability that each action had, shape (n,).

    A rule with more to say about it than these tell puts that into `words`, one or two sentences. What it is expected
    to cost more than the rule's plan, in order to find something out, is its `excess`. `turn` is whose turn it is, in a
    trial; `prospect` what a plan weighed, and `restraint` why a wish was not followed.
    """

    state: RuleState
    probabilities: Array
    words: str = ""
    excess: float = 0.0
    turn: Turn | None = None
    prospect: Prospect | None = None
    restraint: Restraint | None = None

    @property
    def action(self) -> int:
        """The action that was chosen, by its index."""
        return self.state.action


@runtime_checkable
class Rule(Protocol):
    """Decides round by round, by pure functions: from a state and what the round shows to an action and a new state."""

    @property
    def problem(self) -> Problem:
        """The actions and their movement costs."""
        ...

    def begin(self, action: int, seed: int, round: int = 0) -> RuleState:  # noqa: A002 - the word of the field
        """Start, or start again, at an action."""
        ...

    def step(self, state: RuleState, view: View) -> Choice:
        """Decide one round."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return what the rule is, in JSON values."""
        ...


@runtime_checkable
class RuleMaker(Protocol):
    """Makes the rule of a run from the run's seed; for rules that hold something random, such as a tree."""

    def rule_for(self, seed: int) -> Rule:
        """Return the rule of the run with this seed."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return what it makes, in JSON values."""
        ...


@runtime_checkable
class ResumableRule(Rule, Protocol):
    """A rule that keeps what it knows when somebody moves it; at a new episode too, if it is no `EpisodicRule`."""

    def resume(self, state: RuleState, action: int) -> RuleState:
        """Return the state elsewhere, with what is known."""
        ...


@runtime_checkable
class EpisodicRule(Rule, Protocol):
    """A rule to which the start of an episode is something else than being moved.

    Who is moved did not play the last round as it was decided, and may take it back. At the start of an episode the
    last round was played, and counts.
    """

    def begin_episode(self, state: RuleState, action: int, at: int | None = None) -> RuleState:
        """Return the state at the start of an episode, with what is known; `at` is that of a `View`."""
        ...


@runtime_checkable
class DemandingRule(Protocol):
    """A rule, or a maker of rules, that needs more of the cost model than `Costs` declares."""

    @property
    def asks(self) -> tuple[type, ...]:
        """The protocols of `holdcourse.learning.costs` that the cost model must have."""
        ...


@runtime_checkable
class TimedRule(Protocol):
    """A rule that knows how far apart its rounds are."""

    @property
    def interval(self) -> float | None:
        """The hours from one round to the next; None if nobody said."""
        ...


@runtime_checkable
class TakingTurns(Rule, Protocol):
    """A rule of two arms that take turns, and of which only one may learn from a round."""

    def learn_alone(self, model: Any, arm: int, action: int, context: Any, measurement: float) -> float | None:
        """Let one arm alone learn; returns the weight that the first one gave to it, None if it learned none."""
        ...


def resumed(rule: Rule, state: RuleState, action: int) -> RuleState:
    """Return the state of a rule that somebody moved: with what it knows where it can resume, begun again where not."""
    if isinstance(rule, ResumableRule):
        return rule.resume(state, action)
    return rule.begin(action, state.seed, state.round)


def episode_begun(rule: Rule, state: RuleState, action: int, at: int | None = None) -> RuleState:
    """Return the state of a rule at the start of an episode; `at` is what was really played last, as in a `View`."""
    if isinstance(rule, EpisodicRule):
        return rule.begin_episode(state, action, at)
    return resumed(rule, state, action)


def states_within(state: RuleState, places: Sequence[float] | Array, seeds: Sequence[int]) -> list[RuleState]:
    """Return the states of the rules that a rule holds, as `arrays_within` put them into its own.

    Rule j stands at ``places[j]`` and draws its random numbers by ``seeds[j]``.
    """
    within: list[dict[str, Array]] = [{} for _ in seeds]
    for name, array in state.arrays.items():
        number, dot, own = name.partition(".")
        if dot and number.isdigit():
            within[int(number)][own] = array
    parts = zip(places, seeds, within, strict=True)
    return [RuleState(int(place), state.round, seed, arrays) for place, seed, arrays in parts]


def arrays_within(states: Sequence[RuleState]) -> dict[str, Array]:
    """Return the arrays of the rules that a rule holds, named by the number of the rule: "0.q", "1.home"."""
    return {f"{j}.{name}": array for j, state in enumerate(states) for name, array in state.arrays.items()}


@dataclass(frozen=True, eq=False)
class MirrorDescent:
    """Mirror descent on a tree, then a sample from the optimal coupling: lines 4-13 of the paper's Algorithm 1."""

    problem: Problem
    tree: Tree
    kappa: float = 1.0

    def begin(self, action: int, seed: int, round: int = 0) -> RuleState:  # noqa: A002
        """Start with certainty at the action."""
        return RuleState(int(action), round, seed, {"q": mirror.start(self.tree, action)})

    def step(self, state: RuleState, view: View) -> Choice:
        """Let the probabilities follow the costs and move as little as they allow."""
        action, q, probabilities = mirror.step(
            self.tree, state.arrays["q"], state.action, view.costs, state.uniform(), self.kappa
        )
        return Choice(RuleState(action, state.round + 1, state.seed, {"q": q}), probabilities)

    def describe(self) -> dict[str, Any]:
        """Return what the rule is, in JSON values."""
        return {"rule": "MirrorDescent", "kappa": float(self.kappa), "tree": tree_digest(self.tree)}


@dataclass(frozen=True, eq=False)
class Greedy:
    """The cheapest action, wherever it is: the paper's argmin, on a tie the lowest index."""

    problem: Problem

    def begin(self, action: int, seed: int, round: int = 0) -> RuleState:  # noqa: A002
        """Start at the action, with nothing else to remember."""
        return RuleState(int(action), round, seed, {})

    def step(self, state: RuleState, view: View) -> Choice:
        """Choose the cheapest action."""
        return self.take(state, int(np.argmin(view.costs)))

    def take(self, state: RuleState, cheapest: int) -> Choice:
        """Choose the cheapest action where somebody has found it already."""
        return _certain(self.problem.n, state, cheapest)

    def describe(self) -> dict[str, Any]:
        """Return what the rule is, in JSON values."""
        return {"rule": "Greedy"}


@dataclass(frozen=True, eq=False)
class Stay:
    """Stay where it began; if that is not allowed, at the nearest action that is, and back when it is allowed again.

    Parameters
    ----------
    home
        The action to hold; None: the one it began at.
    """

    problem: Problem
    home: int | None = None

    def begin(self, action: int, seed: int, round: int = 0) -> RuleState:  # noqa: A002
        """Remember the place to hold."""
        home = action if self.home is None else self.home
        return RuleState(int(action), round, seed, {"home": np.array([home], dtype=np.float64)})

    def step(self, state: RuleState, view: View) -> Choice:
        """Hold the place, or the nearest one that is allowed."""
        away = self.problem.costs_from(int(state.arrays["home"][0]))
        return _certain(self.problem.n, state, _least(np.where(view.allowed, away, np.inf), state.action))

    def describe(self) -> dict[str, Any]:
        """Return what the rule is, in JSON values."""
        return {"rule": "Stay", "home": self.home}


@dataclass(frozen=True, eq=False)
class Proximal:
    """The least sum of cost and `weight` times the movement there."""

    problem: Problem
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not (is_finite(self.weight) and self.weight >= 0):
            raise InvalidInput(f"weight must be 0 or more, got {plain(self.weight)!r}")
        object.__setattr__(self, "weight", float(self.weight))  # 1 and 1.0 must be described alike

    def begin(self, action: int, seed: int, round: int = 0) -> RuleState:  # noqa: A002
        """Start at the action, with nothing else to remember."""
        return RuleState(int(action), round, seed, {})

    def step(self, state: RuleState, view: View) -> Choice:
        """Choose the least sum of cost and weighted way."""
        return _certain(
            self.problem.n,
            state,
            _least(view.costs + self.weight * self.problem.costs_from(state.action), state.action),
        )

    def describe(self) -> dict[str, Any]:
        """Return what the rule is, in JSON values."""
        return {"rule": "Proximal", "weight": self.weight}


@dataclass(frozen=True, eq=False)
class WorkFunction:
    """The work function algorithm on the costs shown: the classic deterministic rule."""

    problem: Problem

    @cached_property
    def _moves(self) -> offline.Moves:
        return offline.movement(self.problem)

    def begin(self, action: int, seed: int, round: int = 0) -> RuleState:  # noqa: A002
        """Start with the work function of no rounds: the way from the action."""
        return RuleState(int(action), round, seed, {"work": self._moves.row(int(action))})

    def step(self, state: RuleState, view: View) -> Choice:
        """Serve where the work function and the way there are least."""
        work, action = offline.work_function_step(state.arrays["work"], view.costs, state.action, self._moves)
        work = work - work.min()  # only differences matter; the numbers stay small over months
        return _certain(self.problem.n, replace(state, arrays={"work": work}), action)

    def describe(self) -> dict[str, Any]:
        """Return what the rule is, in JSON values."""
        return {"rule": "WorkFunction"}


def tree_digest(tree: Tree) -> str:
    """Return a short fingerprint of a tree."""
    if tree.n > mirror.LARGE:  # as text it would be some 100 MB
        digest = hashlib.sha256(f"{tree.tau!r}".encode())
        for array in (tree.parent, tree.weight):
            digest.update(array.tobytes())
        return digest.hexdigest()[:16]
    return hashlib.sha256(tree.to_json().encode()).hexdigest()[:16]


def _least(costs: Array, here: int) -> int:
    """Return the action of least cost; on a tie the present one, then the lowest index."""
    action = int(np.argmin(costs))
    return here if costs[here] == costs[action] else action


def _certain(n: int, state: RuleState, action: int) -> Choice:
    """Go to the action with certainty."""
    probabilities = np.zeros(n)
    probabilities[action] = 1.0
    return Choice(RuleState(action, state.round + 1, state.seed, state.arrays), probabilities)
