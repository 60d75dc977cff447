"""Rules of many members at once: mirror descent on trees, and plans over predicted costs.

A member decides as the single rule does, to the last bit: the same compiled code, called for all of them at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse._numeric import lockstep
from holdcourse.archive import Arrays
from holdcourse.deciding.planning.beliefs import available_after, out_of_plan
from holdcourse.deciding.planning.lookahead import Lookahead
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.rules import MirrorDescent, Rule
from holdcourse.errors import InvalidInput, NoActionLeft
from holdcourse.movement import mirror, offline
from holdcourse.movement.tree import Tree

Array: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]


class RulesTogether(Protocol):
    """A rule for each of several members. Members that take part in a call are named by index, (k,)."""

    rounds: int  # that costs are needed of, the present one included
    interval: float  # between them, in units of the context

    actions: Ints  # (count,) where each rule is
    decided: Ints  # (count,) rounds that each has decided

    def step(self, members: Ints, costs: Array, allowed: Mask, settled: Array | None) -> Array:
        """Decide a round on costs (k, rounds, n) within what is allowed (k, n); returns probabilities (k, n).

        What settling at each action costs, (k, n), is None where the model does not know.
        """
        ...

    def state(self) -> Arrays:
        """What all rules remember; see `CostsTogether`."""
        ...

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` gave."""
        ...

    def state_of(self, member: int) -> Arrays:
        """What one of them remembers, as `RuleState.arrays` holds it."""
        ...


def rules_together(policy: Policy, starts: Ints, seeds: Sequence[int]) -> RulesTogether | None:
    """Return the policy's rule for each start and seed, to be asked together; None where it cannot be."""
    first = policy.rule_for(seeds[0])
    if type(first) is MirrorDescent:
        if first.tree.n > mirror.LARGE:  # vertices are stepped side by side there, which rounds in another order
            return None
        return Descents([policy.rule_for(seed) for seed in seeds], starts, seeds)
    return Plans(first, starts) if type(first) is Lookahead and first.optimism is None else None


class Descents:
    """Mirror descent of every member on its own tree, or on one that all share."""

    rounds, interval = 1, 0.0

    def __init__(self, rules: Sequence[Rule], starts: Ints, seeds: Sequence[int]) -> None:
        made = [rule for rule in rules if isinstance(rule, MirrorDescent)]
        self._kappa = float(made[0].kappa)
        trees: list[Tree] = []
        known: dict[str, int] = {}  # equal trees are kept once
        kinds = []
        for rule in made:
            key = rule.tree.to_json()
            if key not in known:
                known[key] = len(trees)
                trees.append(rule.tree)
            kinds.append(known[key])
        self._trees, self._kind = trees, np.array(kinds)
        self._seeds = np.array(seeds, dtype=np.uint64)
        sizes = np.array([len(tree.parent) for tree in trees])
        self._place = np.concatenate([[0], np.cumsum(sizes[self._kind])])
        self._laid: tuple[Any, ...] = (
            *(
                _ends([getattr(tree, name) for tree in trees])
                for name in ("parent", "first_child", "children", "blocks")
            ),
            *(np.concatenate([getattr(tree, name) for tree in trees]) for name in _ARRAYS),
        )
        self.actions, self.decided = np.array(starts), np.zeros(len(starts), dtype=np.int64)
        self._q = np.concatenate([mirror.start(trees[k], int(x)) for k, x in zip(kinds, starts, strict=True)])

    def step(self, members: Ints, costs: Array, allowed: Mask, settled: Array | None = None) -> Array:
        """Let the probabilities of every member follow its costs, and draw its action."""
        probabilities, numbers = np.empty((len(members), costs.shape[2])), np.empty(len(members))
        lockstep.uniforms(self._seeds, self.decided, members, numbers)
        lockstep.descend(
            *(members, np.ascontiguousarray(costs[:, 0]), numbers, self._kappa, self._kind, self._place),
            *(*self._laid, self._q, self.actions, probabilities),
        )
        self.decided[members] += 1
        return probabilities

    def state(self) -> Arrays:
        """Conditional probabilities of all vertices, member after member."""
        return {"q": self._q.copy()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` gave."""
        if arrays["q"].shape != self._q.shape:
            raise InvalidInput(
                "this state belongs to a fleet with other trees; make the fleet with the same policy and seeds"
            )
        self._q = np.array(arrays["q"])

    def state_of(self, member: int) -> Arrays:
        """Conditional probabilities of one member's vertices."""
        return {"q": self._q[self._place[member] : self._place[member + 1]].copy()}


_ARRAYS = ("parent", "first_child", "children", "blocks", "slot_speed", "slot_shift")


def _ends(arrays: Sequence[NDArray[Any]]) -> Ints:
    """Where each begins when they are laid one behind the other, and where the last one ends."""
    return np.concatenate([[0], np.cumsum([len(array) for array in arrays])]).astype(np.int64)


class Plans:
    """`Lookahead` of every member, without forecasts."""

    def __init__(self, rule: Lookahead, starts: Ints) -> None:
        self._rule = rule
        self.rounds, self.interval = rule.horizon, rule.interval
        self.actions, self.decided = np.array(starts), np.zeros(len(starts), dtype=np.int64)
        n = rule.problem.n
        self._available = np.ones((len(starts), n))
        self._ways = np.array([rule._steps.ways(here) for here in range(n)])
        self._within = np.array([rule._steps.possible(here, np.ones(n, dtype=bool)) for here in range(n)])

    def step(self, members: Ints, costs: Array, allowed: Mask, settled: Array | None = None) -> Array:
        """Plan of every member, and its first step."""
        rule, steps = self._rule, self._rule._steps
        available = available_after(self._available[members], allowed)
        usable = np.isfinite(costs)
        worst = np.where(usable, costs, -np.inf).max(axis=(1, 2), initial=0.0) + 10.0 * steps.reach
        table = np.where(usable, costs, worst[:, None, None])
        for i in np.flatnonzero((available < 0.5).any(axis=1)).tolist():
            out = out_of_plan(available[i])
            if out is not None:
                table[i, 1:, out] += 10.0 * (steps.reach + float(np.ptp(table[i])))
        reachable = allowed & self._within[self.actions[members]]
        if not reachable.any(axis=1).all():
            k = int(np.argmin(reachable.any(axis=1)))
            raise NoActionLeft(
                f"member {members[k]}: no allowed action is within max_step ({steps.longest}) of "
                f"{rule.problem.named(int(self.actions[members[k]]))}; allow that action or a nearer one, or raise "
                "max_step"
            )
        table = table / rule._scale
        values = self._endings(len(members), settled) / rule._scale
        for k in range(self.rounds - 1, 0, -1):
            values = steps.backed_up(table[:, k] + rule.discount * values)
            values -= values.min(axis=1, keepdims=True)
        onward = np.where(reachable, table[:, 0] + rule.discount * values, np.inf)
        onward -= onward.min(axis=1, keepdims=True)
        lockstep.cheapest(members, onward, self._ways, offline.TIE_TOLERANCE, self.actions)
        self._available[members] = available
        self.decided[members] += 1
        probabilities = np.zeros(onward.shape)
        probabilities[np.arange(len(members)), self.actions[members]] = 1.0
        return probabilities

    def _endings(self, count: int, settled: Array | None) -> Array:
        """What ending the plan at each action costs every member asked, (count, n): `Lookahead._ending`."""
        rule = self._rule
        if rule.anchor is None:
            return np.repeat(np.asarray(rule.ending)[None], count, axis=0)
        assert settled is not None  # as `Lookahead.asks` says
        found = np.empty((count, rule.problem.n))
        lockstep.endings(rule.anchor * rule.caution * rule.problem.distances, settled, found)
        return found

    def state(self) -> Arrays:
        """How often each action was allowed lately, of all members."""
        return {"available": self._available.copy()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` gave."""
        self._available = np.array(arrays["available"])

    def state_of(self, member: int) -> Arrays:
        """How often each action was allowed lately."""
        return {"available": self._available[member].copy()}
