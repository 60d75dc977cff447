"""The calls of a fleet: who was asked what last, and what came of it, so that whoever got no answer can ask again.

A call can be repeated until one of its members is asked for its next round. So all that is remembered is the newest
question of each member, and memory does not grow with the number of calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.archive import Arrays
from holdcourse.checks import whole_number
from holdcourse.errors import Conflict, InvalidInput, counted, plain

Array: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Question:
    """What a call asks: of which members, (k,); in which contexts, (k, d); and what they may choose, (k, n).

    `allowed` is None where nothing is forbidden.
    """

    members: Ints
    contexts: Array
    allowed: Mask | None

    def difference(self, other: Question, call: int) -> str | None:
        """Say what differs from another question under the same number; None: nothing does."""
        if not np.array_equal(self.members, other.members):
            left_out = np.setdiff1d(self.members, other.members)
            if len(left_out):
                return f"call {call} asked member {left_out[0]}, which is now left out"
            return f"call {call} left out member {np.setdiff1d(other.members, self.members)[0]}, which is now asked"
        if self.contexts.shape != other.contexts.shape:
            then, now = self.contexts.shape[1], other.contexts.shape[1]
            return f"contexts of call {call} had {counted(then, 'number')}, and now {now}"
        unlike = (self.contexts != other.contexts).any(axis=1)
        if unlike.any():
            k = int(np.argmax(unlike))
            then, now = self.contexts[k].tolist(), other.contexts[k].tolist()
            return f"call {call} asked member {self.members[k]} in the context {then}, and now in {now}"
        if written_rows(self.allowed) != written_rows(other.allowed):
            return f"call {call} allowed other settings than are allowed now"
        return None


@dataclass(frozen=True, eq=False)
class Answer:
    """What a call was answered with beside the actions, one row for each member asked."""

    probabilities: Array  # (k, n)
    expected_cost: Array  # (k,)
    movement: Array  # (k,)


class Calls:
    """The newest call of every member.

    Attributes
    ----------
    next
        The number of the next call.
    pending
        Which members wait for their measurement, (count,).
    last
        In which call each was asked last, (count,); -1: in none.
    """

    def __init__(self, count: int) -> None:
        self.next = 0
        self.pending = np.zeros(count, dtype=bool)
        self.last = np.full(count, -1)
        self._contexts = np.zeros((count, 0))  # of the newest questions, (count, d)
        self._told = np.full(count, np.nan)  # what each measured last
        self._allowed: dict[int, Mask | None] = {}  # by call, of those none of whose members was asked since
        self._answers: dict[int, Answer] = {}

    def members(self, call: int) -> Ints:
        """Return who was asked in a call, and not since."""
        return np.flatnonzero(self.last == call)

    def contexts(self, members: Ints) -> Array:
        """Return in which contexts members were asked last, (k, d)."""
        return self._contexts[members]

    def answer(self, call: int) -> Answer | None:
        """Return what a call was answered with; None where that is not known any more."""
        return self._answers.get(call)

    def repeated(self, question: Question, call: int | None) -> int | None:
        """Return the call that a question repeats; None: it is new. Raise where that call asked something else."""
        if call is None:
            calls = np.unique(self.last[question.members]).tolist()
            is_open = len(calls) == 1 and calls[0] in self._allowed and bool(self.pending[question.members].all())
            return calls[0] if is_open and self._question(calls[0]).difference(question, calls[0]) is None else None
        number = whole_number(call, "call", 0)
        if number == self.next:
            return None
        self._check_open(number)
        difference = self._question(number).difference(question, number)
        if difference is not None:
            raise Conflict(f"{difference}; ask the same again, or the next call, {self.next}")
        return number

    def begin(self, question: Question, answer: Answer) -> int:
        """Take in a new call; returns its number. The earlier ones of its members are over."""
        members, number = question.members, self.next
        for over in np.unique(self.last[members]).tolist():
            self._allowed.pop(over, None)
            self._answers.pop(over, None)
        self._allowed[number], self._answers[number] = question.allowed, answer
        self.last[members], self.pending[members] = number, True
        if self._contexts.shape[1] != question.contexts.shape[1]:
            self._contexts = np.full((len(self.last), question.contexts.shape[1]), np.nan)
        self._contexts[members] = question.contexts
        self.next = number + 1
        return number

    def not_told_yet(self, values: Array, wanted: Ints | None, call: int) -> Ints:
        """Return those members of a call, or of those wanted, that wait; raise where others were told other values."""
        number = whole_number(call, "call", 0)
        self._check_open(number)
        wanted = self.members(number) if wanted is None else wanted
        other = wanted[self.last[wanted] != number]
        if len(other):
            raise InvalidInput(
                f"member {other[0]} was not asked in call {number}; tell it with its own call, or leave it out with "
                "mask="
            )
        known = wanted[~self.pending[wanted]]
        then, now = self._told[known], values[known]
        unlike = known[~((then == now) | (np.isnan(then) & np.isnan(now)))]
        if len(unlike):
            k = int(unlike[0])
            before, given = (None if y != y else y for y in (plain(self._told[k]), plain(values[k])))
            raise Conflict(
                f"member {k} was told {before} in call {number}, and now {given}; a measurement can be told only once",
                before,
                given,
            )
        return wanted[self.pending[wanted]]

    def tell(self, members: Ints, values: Array) -> None:
        """Remember what members measured; NaN: nothing."""
        self.pending[members] = False
        self._told[members] = values

    def _question(self, call: int) -> Question:
        members = self.members(call)
        return Question(members, self._contexts[members], self._allowed[call])

    def _check_open(self, call: int) -> None:
        """Raise where a call can be neither asked again nor told."""
        if call >= self.next:
            raise InvalidInput(f"there was no call {call} yet; the next one is {self.next}")
        if call not in self._allowed:
            raise Conflict(
                f"call {call} is over, because one of its members has been asked for its next round since; the next "
                f"call is {self.next}"
            )

    # -- kept ----------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return what is no array, as JSON values."""
        return {
            "next_call": self.next,
            "calls": {str(call): written_rows(allowed) for call, allowed in self._allowed.items()},
        }

    def arrays(self) -> Arrays:
        """Return one entry for each member, by name."""
        kept = {"pending": self.pending, "asked": self._contexts, "call": self.last, "told": self._told}
        return {name: array.copy() for name, array in kept.items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `arrays` gave."""
        self.pending, self._contexts = np.array(arrays["pending"]), np.array(arrays["asked"])
        self.last, self._told = np.array(arrays["call"]), np.array(arrays["told"])

    def take_over(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave, after the arrays; of answers only what was chosen is known from then on."""
        self.next, self._answers = int(state["next_call"]), {}
        self._allowed = {
            int(call): read_rows(rows, len(self.members(int(call)))) for call, rows in state["calls"].items()
        }


def written_rows(allowed: Mask | None) -> list[str] | None:
    """Return which actions each member may choose, as digits 1 and 0; one row where it is the same for all."""
    if allowed is None:
        return None
    rows = allowed[:1] if (allowed == allowed[:1]).all() else allowed
    return ["".join(np.where(row, "1", "0").tolist()) for row in rows]


def read_rows(rows: list[str] | None, count: int) -> Mask | None:
    """Return what `written_rows` gave for so many members."""
    if rows is None:
        return None
    table = np.array([[digit == "1" for digit in row] for row in rows])
    return np.broadcast_to(table, (count, table.shape[1]))
