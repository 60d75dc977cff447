"""Rules: they turn a view of the round into an action.

A rule is frozen. What it remembers is a `RuleState`, which goes in and comes out: `begin` and `step` are pure
functions, so a decision can be repeated, saved, and undone. Rules do not know where the costs come from. A rule that
plans may ask the view's `model` about other contexts, as the protocols in `holdcourse.learning.costs` declare.

A policy holds a `Rule`, or a `RuleMaker` if the rule depends on the run's seed. A rule with additional abilities
declares them by a protocol:

- `ResumableRule`: keeps what it knows when somebody else moves the machine;
- `EpisodicRule`: distinguishes the start of an episode from such a move;
- `DemandingRule`: needs a cost model with certain abilities;
- `TimedRule`: knows how long a round is;
- `TakingTurns`: has two arms, which need not both learn from a round.

Random numbers belong to a round: each is the first number of Philox(key=seed, counter=[0, round, lane, 0]), as numpy's
generator of that name gives it, without the 40 microseconds that making a generator takes. Nothing has to be remembered
between rounds, so a run can be resumed anywhere.

Examples
--------
>>> import holdcourse as hc
>>> import numpy as np
>>> rule = hc.rules.Proximal(hc.Problem([0.0, 0.5, 1.0]), weight=1.0)
>>> state = rule.begin(action=0, seed=0)
>>> view = hc.rules.View(costs=np.array([1.0, 0.8, 0.1]), context=None, allowed=np.ones(3, dtype=bool))
>>> rule.step(state, view).action  # staying costs 1.0; action 2 costs 0.1, and 1.0 for the move
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
from holdcourse.errors import InvalidInput, shown
from holdcourse.movement import mirror, offline
from holdcourse.movement.problem import Problem, check_problem
from holdcourse.movement.tree import Tree, check_tree

if TYPE_CHECKING:
    from holdcourse.learning.costs import Costs


_MASK = 2**64 - 1
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_KEY_STEPS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)


def uniform(seed: int, round: int, lane: int = 0) -> float:  # noqa: A002
    """Return a number from [0, 1); different parties draw from different lanes, so that their numbers differ."""
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
    """The view of a round that a rule gets.

    Attributes
    ----------
    costs
        Cost of every action, shape (n,); +inf for an action that is not allowed.
    context
        The context as the user gave it.
    allowed
        Actions that may be chosen: booleans, shape (n,).
    forecast
        Contexts expected in the next rounds; None if there is no forecast.
    model
        The cost model, which rules that plan ask about other contexts; None if there is none.
    at
        The action that was really played last, if it may differ from the rule's own, as for an expert of a hedge.
        None: the rule's own.
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
        The rule's present action. Limits may keep the machine elsewhere; the rule's own probabilities stay right.
    round
        Number of rounds that the rule has decided. Each `step` adds 1.
    seed
        Key of the random stream: round t draws from Philox(key=seed, counter=[0, t, 0, 0]).
    arrays
        Arrays that this rule remembers, by name.
    """

    action: int
    round: int
    seed: int
    arrays: dict[str, Array]

    def __post_init__(self) -> None:
        if isinstance(self.action, np.integer):  # as argmin gives it; a record and a saved state hold plain numbers
            object.__setattr__(self, "action", int(self.action))

    def uniform(self) -> float:
        """Return the random number of this round, in [0, 1)."""
        return uniform(self.seed, self.round)


@dataclass(frozen=True)
class Turn:
    """Turn of an arm in a trial; see `holdcourse.trial`.

    Attributes
    ----------
    block
        Number of the block, from 0; blocks 2 k and 2 k + 1 are a pair.
    arm
        Arm whose turn it is: 0 for the baseline, 1 for the policy.
    place
        Index of the action at which the arm was before the round, as if it had decided throughout.
    predicted
        Expected cost per round of the baseline's action in the first and the second block of the pair, computed when
        the pair began. Given only in the first round of the pair, if a forecast of contexts reaches the end of the
        pair; otherwise None.
    heard
        Whether the other arm also learns from the round; the arm whose turn it is always does.
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
    """A decision of a rule.

    Attributes
    ----------
    state
        The state after the decision; its `action` is the action chosen.
    probabilities
        Probability that each action had, shape (n,).
    words
        One or two sentences about the decision; empty if the rule has none.
    excess
        Expected additional cost of the decision compared with the rule's plan, if it is made to learn something.
    turn
        The turn, in a trial; None otherwise.
    prospect
        What a plan compared; None for rules that do not plan.
    restraint
        Why a rule did not get what it wanted; None if it did.
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
    """A rule, which decides round by round. Its functions are pure: they turn a state and a view into a choice."""

    @property
    def problem(self) -> Problem:
        """The actions and their movement costs."""
        ...

    def begin(self, action: int, seed: int, round: int = 0) -> RuleState:  # noqa: A002 - the word of the field
        """Return the state at the start, or after a restart, at an action; `round` is the number of the next round."""
        ...

    def step(self, state: RuleState, view: View) -> Choice:
        """Decide one round. Nothing that goes in may be changed; the new state counts one round more."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return what the rule is, in JSON values."""
        ...


@runtime_checkable
class RuleMaker(Protocol):
    """A maker of rules from the run's seed, for rules that contain something random, such as a tree."""

    def rule_for(self, seed: int) -> Rule:
        """Return the rule of the run with this seed."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return what it makes, in JSON values."""
        ...


@runtime_checkable
class ResumableRule(Rule, Protocol):
    """A rule that keeps what it knows when somebody else moves the machine.

    It also keeps it at the start of an episode, unless it is an `EpisodicRule`.
    """

    def resume(self, state: RuleState, action: int) -> RuleState:
        """Return the state at another action, with what the rule knows."""
        ...


@runtime_checkable
class EpisodicRule(Rule, Protocol):
    """A rule that distinguishes the start of an episode from a move by somebody else.

    If somebody else moved the machine, the last round was not played as the rule decided it, and the rule may take it
    back. At the start of an episode the last round was played, and counts.
    """

    def begin_episode(self, state: RuleState, action: int, at: int | None = None) -> RuleState:
        """Return the state at the start of an episode, with what the rule knows; `at` is as in a `View`."""
        ...


@runtime_checkable
class DemandingRule(Protocol):
    """A rule, or a maker of rules, that needs a cost model with more methods than `Costs` has."""

    @property
    def asks(self) -> tuple[type, ...]:
        """The protocols of `holdcourse.learning.costs` that the cost model must have."""
        ...


@runtime_checkable
class TimedRule(Protocol):
    """A rule that knows how long a round is."""

    @property
    def interval(self) -> float | None:
        """Hours from one round to the next; None if unknown."""
        ...


@runtime_checkable
class TakingTurns(Rule, Protocol):
    """A rule with two arms that take turns. It may let only one of them learn from a round."""

    def learn_alone(self, model: Any, arm: int, action: int, context: Any, measurement: float) -> float | None:
        """Let one arm alone learn. Returns the weight that the first arm gave the measurement; None if it did not."""
        ...


def resumed(rule: Rule, state: RuleState, action: int) -> RuleState:
    """Return a rule's state after somebody else moved it. It keeps what it knows if it can resume, else it restarts."""
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
    """Mirror descent on a tree, then a sample from the optimal coupling: lines 4 to 13 of the paper's Algorithm 1.

    Parameters
    ----------
    problem
        The actions, and what moving between them costs.
    tree
        Tree over these actions, as `frt_tree` returns it.
    kappa
        Eagerness of the descent, at least 1; larger values move sooner.
    """

    problem: Problem
    tree: Tree
    kappa: float = 1.0

    def __post_init__(self) -> None:
        check_problem(self.problem)
        check_tree(self.tree)
        if self.tree.n != self.problem.n:
            raise InvalidInput(
                f"the tree has {self.tree.n} actions, but the problem has {self.problem.n}; make it with "
                "hc.frt_tree(problem)"
            )
        if not (is_finite(self.kappa) and self.kappa >= 1):
            raise InvalidInput(f"kappa must be at least 1, got {shown(self.kappa)}")

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
    """The cheapest action, whatever the move costs: the paper's argmin; in a tie, the lowest index."""

    problem: Problem

    def __post_init__(self) -> None:
        check_problem(self.problem)

    def begin(self, action: int, seed: int, round: int = 0) -> RuleState:  # noqa: A002
        """Start at the action, with nothing else to remember."""
        return RuleState(int(action), round, seed, {})

    def step(self, state: RuleState, view: View) -> Choice:
        """Choose the cheapest action."""
        return self.take(state, int(np.argmin(view.costs)))

    def take(self, state: RuleState, cheapest: int) -> Choice:
        """Choose the cheapest action, which the caller has found already."""
        return _certain(self.problem.n, state, cheapest)

    def describe(self) -> dict[str, Any]:
        """Return what the rule is, in JSON values."""
        return {"rule": "Greedy"}


@dataclass(frozen=True, eq=False)
class Stay:
    """Stay at one action. While that is forbidden, use the nearest action that is allowed.

    Parameters
    ----------
    home
        The action to hold; None: the action at which the run began.
    """

    problem: Problem
    home: int | None = None

    def __post_init__(self) -> None:
        check_problem(self.problem)
        if self.home is not None:
            self.problem.check_action(self.home)

    def begin(self, action: int, seed: int, round: int = 0) -> RuleState:  # noqa: A002
        """Remember the action to hold."""
        home = action if self.home is None else self.home
        return RuleState(int(action), round, seed, {"home": np.array([home], dtype=np.float64)})

    def step(self, state: RuleState, view: View) -> Choice:
        """Hold the action, or take the nearest one that is allowed."""
        away = self.problem.costs_from(int(state.arrays["home"][0]))
        return _certain(self.problem.n, state, _least(np.where(view.allowed, away, np.inf), state.action))

    def describe(self) -> dict[str, Any]:
        """Return what the rule is, in JSON values."""
        return {"rule": "Stay", "home": self.home}


@dataclass(frozen=True, eq=False)
class Proximal:
    """The action with the lowest sum of its cost and `weight` times the cost of moving there."""

    problem: Problem
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_problem(self.problem)
        if not (is_finite(self.weight) and self.weight >= 0):
            raise InvalidInput(f"weight must be 0 or more, got {shown(self.weight)}")
        object.__setattr__(self, "weight", float(self.weight))  # 1 and 1.0 must be described alike

    def begin(self, action: int, seed: int, round: int = 0) -> RuleState:  # noqa: A002
        """Start at the action, with nothing else to remember."""
        return RuleState(int(action), round, seed, {})

    def step(self, state: RuleState, view: View) -> Choice:
        """Choose the action with the lowest sum of its cost and the weighted cost of moving there."""
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

    def __post_init__(self) -> None:
        check_problem(self.problem)

    @cached_property
    def _moves(self) -> offline.Moves:
        return offline.movement(self.problem)

    def begin(self, action: int, seed: int, round: int = 0) -> RuleState:  # noqa: A002
        """Start with the work function before the first round: the cost of moving from the action."""
        return RuleState(int(action), round, seed, {"work": self._moves.row(int(action))})

    def step(self, state: RuleState, view: View) -> Choice:
        """Choose the action with the lowest sum of the work function and the cost of moving there."""
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
    """Return the action of least cost; in a tie the present action, then the lowest index."""
    action = int(np.argmin(costs))
    return here if costs[here] == costs[action] else action


def _certain(n: int, state: RuleState, action: int) -> Choice:
    """Go to the action with certainty."""
    probabilities = np.zeros(n)
    probabilities[action] = 1.0
    return Choice(RuleState(action, state.round + 1, state.seed, state.arrays), probabilities)
