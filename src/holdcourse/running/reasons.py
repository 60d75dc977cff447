"""Why a decision was taken, in words: one function, from what really happened.

Every sentence is about a fact of the round: who was in charge, from where to where, what was expected, which setting
nobody has measured yet, what a plan weighed, which limit acted, what the promise left. What is not known is not said.
Numbers that differ are never written alike within a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.movement.problem import Problem
from holdcourse.units import beside

if TYPE_CHECKING:
    from holdcourse.deciding.rules import Prospect
    from holdcourse.running.decision import Entry, Order

Array: TypeAlias = NDArray[np.float64]
Name: TypeAlias = Callable[[int], str]

SHOWN_ACTIONS = 5  # whose probabilities are named
LEAST_SHARE = 0.005
DIGITS, MOST_DIGITS = 4, 15  # of a number


def in_words(entry: Entry, problem: Problem, movement: Array, *, maximise: bool = False) -> str:
    """Return the reasons for a decision; `movement` is what moving from where the machine was would have cost."""
    if problem.in_groups:
        return _turned(entry, problem, "gain" if maximise else "cost")
    decision, before, name = entry.decision, entry.before, problem.named
    lead, costs = _who_decides(entry, name)
    look = _Expectations(entry, problem, movement, maximise)
    if decision.action != before:
        way = f"a move that {costs} {look.price(decision.movement)}"
        sentences = [f"Round {decision.round}: {lead}go from {name(before)} to {name(decision.action)}, {way}."]
    else:
        sentences = [f"Round {decision.round}: {lead}stay at {name(before)}."]
    sentences += look.expected()
    sentences += look.weighed()
    if decision.limited_by is not None and decision.action == decision.wanted:
        sentences.append(f"The guard wanted its safe setting, but {_forbids(decision.limited_by)}.")
    elif decision.limited_by is not None:
        sentences.append(f"The rule wanted {name(decision.wanted)}, but {_forbids(decision.limited_by)}.")
    sentences += look.restrained()
    if entry.redirected is not None:
        sentences.append(_ordered("Later in the round it was sent to", entry.redirected, name))
    if entry.taken != entry.meant:
        sentences.append(f"In fact, {name(entry.taken)} ran.")
    sentences += _probabilities(entry, name)
    sentences += look.bound()
    sentences += look.guesses()
    if entry.said:
        sentences.append(entry.said)
    sentences += _context(entry.request.context, problem)
    if entry.told is not None and entry.told[0] is not None:
        sentences += _reading(entry, entry.told[0])
    return " ".join(sentences)


def _turned(entry: Entry, problem: Problem, what: str) -> str:
    """Return which knobs were turned, of many that are weighed group by group, and what was expected of it."""
    decision = entry.decision
    before, after = problem.value(entry.before), problem.value(decision.action)
    lead, costs = _who_decides(entry, problem.named)
    turned = [f"{knob} from {before[knob]} to {after[knob]}" for knob in after if before[knob] != after[knob]]
    sign = -1.0 if what == "gain" else 1.0
    there, here = apart(sign * decision.expected_cost, sign * problem.read(entry.expected, entry.before))
    if turned:
        way = problem.cost(apart(decision.movement)[0])
        words = [f"Round {decision.round}: {lead}turn {', '.join(turned)}, which {costs} {way}."]
        unchanged = f"{problem.cost(here)} if nothing is changed"
        words.append(f"A round is then expected to {what} {problem.cost(there)}, and {unchanged}.")
    else:
        words = [f"Round {decision.round}: {lead}leave all {len(after)} knobs as they are."]
        words.append(f"A round is expected to {what} {problem.cost(there)}.")
    if decision.limited_by is not None:
        words.append(f"The rule wanted {problem.named(decision.wanted)}, but {_forbids(decision.limited_by)}.")
    if entry.redirected is not None:
        words.append(_ordered("Later in the round it was sent to", entry.redirected, problem.named))
    if entry.taken != entry.meant:
        words.append(f"In fact, {problem.named(entry.taken)} ran.")
    return " ".join([*words, *([entry.said] if entry.said else []), *_context(entry.request.context, problem)])


class _Expectations:
    """What was expected, and of which settings something is said: those that nobody has measured are guesses.

    Who is told gains decides on them as negative costs; people read gains.
    """

    def __init__(self, entry: Entry, problem: Problem, movement: Array, maximise: bool) -> None:
        self._entry, self._problem, self._movement = entry, problem, movement
        self._what, self._sign = ("gain", -1.0) if maximise else ("service cost", 1.0)
        self._spoken_of: list[int] = []
        self._other = best_other(entry, movement)
        shown = entry.bounds[np.isfinite(entry.bounds)]
        self._asks_nobody = entry.mean is None and not entry.expected.any() and not shown.any()  # what anything costs

    def price(self, *costs: float) -> str:
        """Return what moving costs, written so that it differs from the others."""
        return self._problem.cost(apart(*costs)[0])

    def _amounts(self, *costs: float) -> list[str]:
        return [self._problem.cost(text) for text in apart(*(self._sign * cost + 0.0 for cost in costs))]

    def _name(self, action: int) -> str:
        self._spoken_of.append(action)
        return self._problem.named(action)

    def expected(self) -> list[str]:
        """Say what was expected there, and where it would have been best to be instead."""
        entry, decision, other = self._entry, self._entry.decision, self._other
        if self._asks_nobody:
            return []
        self._spoken_of.append(decision.action)
        if decision.action != entry.before:
            there, here = self._amounts(decision.expected_cost, entry.expected[entry.before])
            return [f"The expected {self._what} is {there} there and {here} at {self._name(entry.before)}."]
        if other is None:
            return [f"The expected {self._what} there is {self._amounts(decision.expected_cost)[0]}."]
        there, best = self._amounts(decision.expected_cost, entry.expected[other])
        way = f"moving there would have cost {self.price(self._movement[other])}"
        best_elsewhere = f"The best alternative is {best} at {self._name(other)}; {way}."
        return [f"The expected {self._what} there is {there}. {best_elsewhere}"]

    def weighed(self) -> list[str]:
        """Say what a plan weighed, where the machine does what it chose; limits and trials may keep them apart."""
        entry, found = self._entry, self._entry.prospect
        if found is None or entry.decision.action != entry.decision.wanted:
            return []
        if found.place != entry.before:
            stands = f"The plan had moved to {self._problem.named(found.place)} before; now the machine follows."
            return [stands] if found.place == entry.decision.action else []
        ahead = "this round" if found.rounds <= 1 else f"about the next {found.rounds} rounds"
        if entry.decision.action != entry.before:
            if found.to != entry.decision.action:
                return []
            if not found.may_stay:
                return ["It could not stay; of the settings that it may use, the plan expects this one to cost least."]
            worth, move = (self._problem.cost(text) for text in apart(found.worth, found.way))
            charged = f"the move costs {move}" if self._pays(found) else f"the plan charges {move} for the move"
            return [f"The plan expects this to save {worth} over {ahead}; {charged}."]
        if found.to is None:
            return []
        if found.worth <= 0:
            return [f"The plan expects no other setting to do better over {ahead}."]
        worth, move = (self._problem.cost(text) for text in apart(found.worth, found.way))
        to = self._name(found.to)
        charged = f"the {move} that the move costs" if self._pays(found) else f"the {move} that it charges for the move"
        return [f"The plan expects {to} to save {worth} over {ahead}, which is not more than {charged}."]

    def _pays(self, found: Prospect) -> bool:
        """Whether a move costs what the plan charges for it."""
        return found.to is not None and math.isclose(found.way, self._movement[found.to], rel_tol=1e-9, abs_tol=1e-300)

    def restrained(self) -> list[str]:
        """Say why a promise kept a wish from being followed."""
        found = self._entry.restraint
        if found is None:
            return []
        wish = self._problem.named(found.wish)
        if found.why == "steps":
            return [f"The rule would rather run {wish}, far from every setting tried so far; it goes there in steps."]
        if found.why == "reach":
            return [f"The rule would rather run {wish}, which is farther than the longest step."]
        risk, left = (self._problem.cost(text) for text in apart(found.risk, found.left))
        rest = "nothing" if found.left <= 0 else left
        return [
            f"The rule would rather run {wish}, but the promise forbids it: that might cost {risk} more than the "
            f"baseline, including the move there and back, and {rest} is left to risk."
        ]

    def bound(self) -> list[str]:
        """Say where the model hopes most, where that is elsewhere and was not said."""
        entry, decision = self._entry, self._entry.decision
        cheapest = int(np.argmin(entry.bounds))
        stays = decision.action == entry.before
        said = stays and cheapest == self._other and entry.bounds[cheapest] == entry.expected[cheapest]
        if said or self._asks_nobody or not entry.bounds[cheapest] < entry.bounds[decision.action]:
            return []
        amount = self._amounts(entry.bounds[cheapest], entry.bounds[decision.action])[0]
        way = f"moving there would have cost {self.price(self._movement[cheapest])}"
        return [f"The most optimistic estimate, {amount}, is for {self._name(cheapest)}; {way}."]

    def guesses(self) -> list[str]:
        """Say of which settings that were spoken of nobody has measured anything."""
        tried = self._entry.tried
        if tried is None or not self._spoken_of:
            return []
        unknown = [self._problem.named(each) for each in dict.fromkeys(self._spoken_of) if each not in tried]
        if not unknown:
            return []
        listed = " and ".join([", ".join(unknown[:-1]), unknown[-1]] if len(unknown) > 1 else unknown)
        return [f"Nobody has measured {listed} yet, so what is expected there is a guess."]


def apart(*numbers: float) -> list[str]:
    """Numbers with few digits, and as many more as it takes to tell those apart that differ."""
    for digits in range(DIGITS, MOST_DIGITS + 1):
        texts = [f"{number:.{digits}g}" for number in numbers]
        pairs = [(a, b) for k, a in enumerate(numbers) for b in numbers[:k] if not math.isclose(a, b, rel_tol=1e-12)]
        if all(f"{a:.{digits}g}" != f"{b:.{digits}g}" for a, b in pairs):
            break
    return texts


def best_other(entry: Entry, movement: Array) -> int | None:
    """Return the other action of least expected cost among those that may be taken; on a tie the nearest.

    None where there is no other, or where nothing is known that would tell them apart.
    """
    known = np.isfinite(entry.bounds) & np.isfinite(entry.expected)
    if not known.any() or np.ptp(entry.expected[known]) == 0:
        return None
    known[entry.before] = False
    others = np.flatnonzero(known)
    if not len(others):
        return None
    return int(others[np.lexsort((movement[others], entry.expected[others]))[0]])


def written(value: float, digits: int = 6) -> str:
    """A measurement as people write it: 1,000,000 and not 1e+06."""
    return f"{value:,.0f}" if 10.0**digits <= abs(value) < 1e12 else f"{value:,.{digits}g}"


def _probabilities(entry: Entry, name: Name) -> list[str]:
    """What the rule might have chosen, where it drew."""
    shares = entry.decision.probabilities
    likely = np.argsort(-shares, kind="stable")[:SHOWN_ACTIONS]
    said = [f"{name(int(x))} {100 * shares[x]:.0f} %" for x in likely if shares[x] >= LEAST_SHARE]
    return [f"The rule's probabilities: {', '.join(said)}."] if len(said) > 1 else []


def _context(context: Any, problem: Problem) -> list[str]:
    """What was known, where the numbers of a context have names or units."""
    names, units = problem.context_names, problem.context_units
    if context is None or (names is None and units is None):
        return []
    numbers = context if isinstance(context, list) else [context]
    if any(given is not None and len(given) != len(numbers) for given in (names, units)):
        return []  # they are about other contexts
    names, units = names or ("",) * len(numbers), units or ("",) * len(numbers)
    said = [f"{a} {beside(f'{x:.6g}', u)}".strip() for a, x, u in zip(names, numbers, units, strict=True)]
    return [f"The conditions were: {', '.join(said)}."]


def _reading(entry: Entry, measurement: float) -> list[str]:
    """What the model made of the measurement, where that is not to believe it."""
    if entry.retracted is not None or entry.weight is None or entry.weight == 1:
        return []
    if entry.weight > 0:
        return [f"The reading {written(measurement)} was far from what was expected and counts only in part."]
    about = "" if entry.instead is None else f": about {written(entry.instead, 4)} was expected"
    return [f"The reading {written(measurement)} was set aside{about}."]


def _who_decides(entry: Entry, name: Name) -> tuple[str, str]:
    """The words before what the policy decided, true of who is in charge; and whether moving costs or would cost."""
    order = entry.order
    if order is None:
        return "", "costs"
    if order.wanted is None:
        return (
            f"the machine does not follow the policy and is left at {name(entry.before)}. The policy would ",
            "would cost",
        )
    told = _ordered("an instruction sends the machine to", order, name)
    return f"{told} On its own, the policy would ", "would cost"


def _ordered(begin: str, order: Order, name: Name) -> str:
    """A sentence about what somebody wanted instead of the decision, and what came of it."""
    if order.force is not None:
        return f"{begin} {name(order.action)} by force, whatever the limits say: {order.force}."
    if order.limited_by is None or order.wanted is None:
        return f"{begin} {name(order.action)}."
    return f"{begin} {name(order.action)}; {name(order.wanted)} was wanted, but {_forbids(order.limited_by)}."


def _forbids(limit: str) -> str:
    """Say which limit prevented what was wanted; `allowed` comes with the request, the others are the controller's."""
    return "the request does not allow it" if limit == "allowed" else f"{limit} forbids it"
