"""Limits of the machine, which act after the rule.

The rule keeps its own, virtual action, so its probabilities stay right. The machine plays the permitted action nearest
to it. These limits say which actions are permitted, the strongest first:

1. allowed: the round's mask; never broken;
2. max_step: no single move is longer than this, and none costs more than max_step_cost; never broken. If no allowed
   action is within reach, that is an error;
3. min_dwell: after a move, stay for at least this number of rounds. If somebody redirects the machine within a round,
   that round counts as a whole one;
4. max_moves: at most this number of moves within any `window` rounds. If somebody redirects the machine within a round,
   that is a move of the round, even if it goes back to where the machine came from.

The same limits apply to an action that somebody instructs instead of the decision, and to one to which somebody
redirects the machine within a round. Only the first two apply to the start of an episode. A forced action, which needs
a reason, ignores the limits. What somebody did by hand and told as `applied` is a fact.

If a weaker limit would leave no action, the stronger limit wins: a machine must leave an action that is no longer
allowed, however recently it came there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.checks import is_number, one_number, whole_number
from holdcourse.errors import InvalidInput, NoActionLeft, counted, plain, shown
from holdcourse.movement.problem import Problem
from holdcourse.movement.settings import TOLERANCE, required
from holdcourse.movement.steps import LongestStep, checked_cost, longest_step
from holdcourse.units import lasting, rounds, seconds

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

KEPT_MOVES = 256  # newest moves that are remembered whatever the limits are: others may be set later
ROUNDING = 1e-9  # relative: settings such as linspace(60, 300, 25) are not exactly what people write


@dataclass(frozen=True)
class Limits:
    """Limits of the machine; `holdcourse.running.limits` says how they act together.

    A new episode starts the counts again: bringing the machine to its start is not a move, and earlier moves do not
    count. But the start must be allowed and within `max_step`, or forced.

    Parameters
    ----------
    min_dwell
        Minimum number of rounds at a setting, counting the round of the move there; 1 allows a move in every round. Or
        a time, such as "45 min".
    max_step
        Longest single move, in the units of the settings: 50.0 or "50 m". For several axes: one length in the metric,
        one for each axis, or some by name.
    max_moves, window
        Largest number of moves in any `window` consecutive rounds; the window may also be a time.
    max_step_cost
        Largest movement cost of one move.
    round_length
        Length of a round, in seconds or as text ("15 min"); needed if another limit is given as a time.

    Examples
    --------
    >>> import holdcourse as hc
    >>> policy = hc.minc_known(hc.Problem([0.0, 0.5, 1.0]))
    >>> controller = hc.Controller(policy, start=0.0, limits=hc.Limits(max_step=0.5))
    >>> decision = controller.ask(costs=[3.0, 2.0, 1.0])
    >>> decision.value, decision.wanted_value, decision.limited_by
    (0.5, 1.0, 'max_step')
    """

    min_dwell: Any = 1  # a number of rounds, once it is made; as `window`
    max_step: Any = None
    max_moves: int | None = None
    window: Any = None
    max_step_cost: float | None = field(default=None, kw_only=True)
    round_length: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if (self.max_moves is None) != (self.window is None):
            raise InvalidInput(
                "max_moves and window belong together, the largest number of moves within a number of rounds; give both"
            )
        self._take("max_step", _plain_step(self.max_step))
        self._take("max_step_cost", checked_cost(self.max_step_cost))
        if self.round_length is not None:
            self._take("round_length", seconds(self.round_length, "round_length"))
        for name in ("min_dwell", "window"):
            self._take(name, rounds(getattr(self, name), self.round_length, name))
        for name, least in (("min_dwell", 1), ("max_moves", 0), ("window", 1)):
            if name == "min_dwell" or getattr(self, name) is not None:
                self._take(name, whole_number(getattr(self, name), name, least))

    def _take(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def on(self, problem: Problem) -> Limits:
        """Return these limits with numbers in the units of a problem."""
        return replace(self, max_step=self.longest(problem).size)

    def longest(self, problem: Problem) -> LongestStep:
        """Return the limits of a single move."""
        return longest_step(problem, self.max_step, self.max_step_cost)

    def in_words(self, problem: Problem) -> dict[str, str]:
        """Return each limit by its name, in the user's units; limits that do not apply are left out."""
        said: dict[str, str] = {}
        if self.min_dwell > 1:
            said["min_dwell"] = self._time(self.min_dwell)
        longest = self.longest(problem)
        if longest.size is not None:
            said["max_step"] = str(replace(longest, cost=None)) + _too_short(longest)
        if longest.cost is not None:
            said["max_step_cost"] = problem.cost(f"{longest.cost:g}")
        if self.max_moves is not None:
            said["max_moves"] = f"{self.max_moves} in any {self._time(self.window)}"
        return said

    def _time(self, count: int) -> str:
        said = counted(count, "round")
        return said if self.round_length is None else f"{lasting(count * self.round_length)} ({said})"

    def describe(self) -> dict[str, Any]:
        """Return the limits in JSON values."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Limits:
        """Read what `describe` gave."""
        unknown = sorted(data.keys() - {each.name for each in fields(cls)})
        if unknown:
            raise InvalidInput(
                f"there is no limit {unknown[0]!r}; the limits are {', '.join(each.name for each in fields(cls))}"
            )
        return cls(**data)


def _too_short(longest: LongestStep) -> str:
    """What people should know of a longest step on a line that is shorter than every move; else nothing."""
    problem, size = longest.problem, longest.size
    if problem.in_groups or problem.actions.shape[1] != 1 or not isinstance(size, float | int):
        return ""
    shortest = float(problem.smallest_steps[0])
    if size >= shortest * (1 - TOLERANCE):
        return ""
    return f"; this forbids every move, because the shortest is {replace(longest, size=shortest, cost=None)}"


def _plain_step(step: Any) -> Any:
    """A step as given, in what JSON can hold; what it means depends on the problem."""
    step = plain(step)
    if step is None or isinstance(step, str):
        return step
    if isinstance(step, Mapping):
        return {name: _plain_step(each) for name, each in step.items()}
    if isinstance(step, list | tuple):
        return tuple(_plain_step(each) for each in step)
    if isinstance(step, bool) or not is_number(step) or step < 0:
        raise InvalidInput(f"max_step must be 0 or more, got {shown(step)}")
    return float(step)


@dataclass(frozen=True)
class Guard:
    """Guard that sends the machine to a safe setting for a while if a measured cost is too high.

    Parameters
    ----------
    threshold
        Largest measured cost that does not trigger the guard; for a policy that maximises, the smallest gain.
    revert_to
        The safe setting, by its value or label.
    cool_down
        Number of rounds to stay there; or a time, such as "2 h", if the limits say how long a round is.
    revert_to_index
        The safe setting by its index, instead of `revert_to`.

    Examples
    --------
    >>> import holdcourse as hc
    >>> policy = hc.minc_known(hc.Problem([0.0, 0.5, 1.0]))
    >>> controller = hc.Controller(policy, start=0.0, guard=hc.Guard(threshold=5.0, revert_to=0.0, cool_down=2))
    >>> controller.tell(controller.ask(costs=[2.0, 1.0, 2.0]).id, measurement=9.0)  # far above the threshold
    >>> decision = controller.ask(costs=[2.0, 1.0, 2.0])
    >>> decision.value, decision.wanted_value, decision.limited_by
    (0.0, 0.5, 'cool_down')
    """

    threshold: float
    revert_to: Any = field(default=None, metadata={"left_out": True})  # a record holds the index
    cool_down: Any = 10
    revert_to_index: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not is_number(self.threshold):
            raise InvalidInput(f"threshold must be a number, got {shown(self.threshold)}")
        object.__setattr__(self, "threshold", float(self.threshold))  # what JSON can hold
        if (self.revert_to is None) == (self.revert_to_index is None):
            raise InvalidInput(
                f"a guard needs its safe setting: give revert_to or revert_to_index, and not both; got "
                f"{shown(self.revert_to)} and {shown(self.revert_to_index)}"
            )
        if self.revert_to_index is not None:
            index = whole_number(self.revert_to_index, "revert_to_index", 0)
            object.__setattr__(self, "revert_to_index", index)
        if not isinstance(self.cool_down, str):
            object.__setattr__(self, "cool_down", whole_number(self.cool_down, "cool_down", 1))

    def on(self, problem: Problem, round_length: float | None = None) -> Guard:
        """Return the guard with its safe setting as an index of a problem, and its time in rounds of `round_length`."""
        index = required(problem, self.revert_to, self.revert_to_index, "revert_to")
        count = rounds(self.cool_down, round_length, "cool_down")
        return replace(self, revert_to=None, revert_to_index=index, cool_down=count)

    def in_words_of(self, problem: Problem) -> Guard:
        """Return the guard with its safe setting as people call it."""
        return replace(self, revert_to=problem.value(self.safe_action), revert_to_index=None)

    @property
    def safe_action(self) -> int:
        """Index of the safe setting, for a guard that `on` returned."""
        assert self.revert_to_index is not None  # as `on` gave it
        return self.revert_to_index

    def trips(self, measurement: float, *, maximise: bool) -> bool:
        """Return whether a measurement triggers the guard."""
        return measurement < self.threshold if maximise else measurement > self.threshold


@dataclass(frozen=True)
class Position:
    """Where the machine is, and how it came there.

    Attributes
    ----------
    arrivals
        (round, action) of every move, oldest first: as far back as a limit may ask, and the newest `KEPT_MOVES`
        however long ago they were. The first entry only says where it was before.
    """

    arrivals: tuple[tuple[int, int], ...]

    @property
    def action(self) -> int:
        """The action at which the machine is now."""
        return self.arrivals[-1][1]

    @property
    def moves(self) -> tuple[int, ...]:
        """The rounds of its newest moves, oldest first."""
        return tuple(past for past, _ in self.arrivals[1:])

    @property
    def newest_move(self) -> int | None:
        """The round of its newest move; None where none is known."""
        return self.arrivals[-1][0] if len(self.arrivals) > 1 else None

    def at(self, round: int) -> int | None:  # noqa: A002
        """The action at which it was at the end of a round; None where that is too long ago to be known."""
        return next((there for past, there in reversed(self.arrivals) if past <= round), None)

    def moves_since(self, round: int) -> int:  # noqa: A002
        """How often it moved in `round` and later."""
        count = 0
        for past, _ in reversed(self.arrivals):  # few are that new, of many
            if past < round:
                return count
            count += 1
        return count - 1

    def after(self, action: int, round: int, limits: Limits) -> Position:  # noqa: A002
        """The position after going to `action` in `round`: the next one, or again in the newest one."""
        if action == self.action:
            return self
        arrivals, reach = self.arrivals, max(limits.min_dwell, limits.window or 0)
        first, spare = 0, len(arrivals) - KEPT_MOVES
        while first < spare and arrivals[first + 1][0] <= round - reach:
            first += 1
        return Position((*arrivals[first:], (round, action)))

    def renamed(self, places: Sequence[int], here: int, newest: int) -> Position:
        """Return it in other actions, `places[k]` for action k; it is at `here` after round `newest`."""
        arrivals = tuple((past, places[action]) for past, action in self.arrivals)
        return Position(arrivals if arrivals[-1][1] == here else (*arrivals, (newest, here)))

    def corrected(
        self,
        action: int,
        round: int,  # noqa: A002
        newest: int,
        next_began: int | None = None,
    ) -> Position:
        """Return it as if it had been at `action` in `round`; `newest` is the last round played.

        `next_began` is where the machine was to be in the round after it, before it was sent elsewhere within that
        round; None: it was not.
        """
        before = [arrival for arrival in self.arrivals if arrival[0] < round]
        if not before:  # too long ago to matter
            return self
        after = [] if action == before[-1][1] else [(round, action)]
        if round < newest:
            left = [arrival for arrival in self.arrivals if arrival[0] == round + 1]
            if not left or next_began not in (None, left[0][1]):  # it stayed where it was, so it must have come there
                left = [(round + 1, next(there for past, there in reversed(self.arrivals) if past <= round)), *left]
            after += left[1:] if left[0][1] == action else left
            after += [arrival for arrival in self.arrivals if arrival[0] > round + 1]
        return Position((*before, *after))


def settings_within(problem: Problem, within: tuple[float | None, float | None]) -> Mask:
    """Which actions lie between a lowest and a highest setting, (n,); None: no limit."""
    try:
        low, high = (
            edge if given is None else one_number(given, "within")
            for given, edge in zip(within, (-np.inf, np.inf), strict=True)
        )
    except (TypeError, ValueError):  # `InvalidInput` is a ValueError too
        raise InvalidInput(f"within must be the lowest and the highest setting, got {shown(within)}") from None
    if not low <= high:  # NaN compares false too
        raise InvalidInput(f"within must be the lowest setting and then the highest, got {low:g} and {high:g}")
    if problem.actions.shape[1] != 1:
        raise InvalidInput(
            "within is for settings that are single numbers; give allowed= with those that may be chosen"
        )
    values = problem.actions[:, 0]
    slack = ROUNDING * np.abs(values)
    mask: Mask = (values >= low - slack) & (values <= high + slack)
    if not mask.any():
        where = f"lies between {low:g} and {high:g}"
        if np.isinf(low) or np.isinf(high):
            where = f"is {low:g} or more" if np.isinf(high) else f"is {high:g} or less"
        raise InvalidInput(f"no setting {where}; the settings go from {values.min():g} to {values.max():g}")
    return mask


def nearest_permitted(
    problem: Problem,
    limits: Limits,
    where: Position,
    wanted: int,
    allowed: Mask,  # (n,)
    round: int,  # noqa: A002
    moves_in: int | None = None,
) -> tuple[int, str | None]:
    """The action to play when the rule wants `wanted`, and the limit that kept it from being played.

    `round` is the next one. Within a round in progress, `moves_in` is that round, to which a move would belong.
    """
    here = where.action
    reachable = allowed
    if limits.max_step is not None or limits.max_step_cost is not None:
        longest = limits.longest(problem)
        reachable = allowed & longest.within(here)
        if not problem.any_permitted(reachable):
            if problem.in_groups:
                raise NoActionLeft(
                    f"no allowed setting of a group of knobs is within max_step ({longest}) of its present one; allow "
                    "a nearer one, or raise max_step"
                )
            costs = np.where(allowed, problem.costs_from(here), np.inf)
            nearest = int(np.argmin(costs))
            raise NoActionLeft(
                f"no allowed setting is within max_step ({longest}) of {problem.named(here)}; allow it or a nearer "
                "one, "
                f"raise max_step, or force the move (the nearest allowed, {problem.named(nearest)}, costs "
                f"{problem.cost(f'{costs[nearest]:g}')})"
            )
    if wanted != here and problem.permits(
        reachable, here
    ):  # a limit that says "stay" yields where staying is not permitted
        newest = where.newest_move
        if newest is not None and round - newest < limits.min_dwell:
            return here, "min_dwell"
        if limits.max_moves is not None and limits.window is not None:
            belongs_to = round if moves_in is None else moves_in
            if where.moves_since(belongs_to - limits.window + 1) >= limits.max_moves:
                return here, "max_moves"
    if problem.permits(reachable, wanted):
        return wanted, None
    action = problem.nearest(wanted, reachable)
    if problem.permits(reachable, here) and problem.distance(here, wanted) == problem.distance(action, wanted):
        action = here
    return action, "max_step" if problem.permits(allowed, wanted) else "allowed"
