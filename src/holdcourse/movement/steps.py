"""The longest single move of a machine, in the units of its settings or as a movement cost.

A step has a size in the units of the settings (metres, degrees). One number is the distance in the metric, before any
price; several numbers are one for each axis. The price of a step is its movement cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.checks import is_number
from holdcourse.errors import InvalidInput, plain, shown
from holdcourse.movement.knob import Knob
from holdcourse.movement.points import Reach
from holdcourse.movement.problem import KNOBS, METRIC_NAMES, Problem, check_problem
from holdcourse.movement.settings import TOLERANCE
from holdcourse.units import amount, beside

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Size: TypeAlias = float | tuple[float, ...]

NORMS = {"euclidean": 2, "cityblock": 1, "chebyshev": np.inf}


@dataclass(frozen=True, eq=False)
class LongestStep:
    """Limits of a single move.

    Attributes
    ----------
    size
        Largest size in the units of the settings, one number or one per axis; None if there is no limit.
    cost
        Largest movement cost; None if there is no limit.
    """

    problem: Problem
    size: Size | None = None
    cost: float | None = None

    def describe(self) -> dict[str, Any]:
        """Return the limit in JSON values, by the names of the options that make it again."""
        size = list(self.size) if isinstance(self.size, tuple) else self.size
        return {"max_step": size, "max_step_cost": self.cost}

    @property
    def is_any(self) -> bool:
        """Whether there is no limit."""
        return self.size is None and self.cost is None

    def within(self, here: int) -> Mask:
        """Return which actions are within one step of an action, (n,)."""
        if self.problem.in_groups:
            return self._within_groups(here)
        n = self.problem.n
        mask = np.full(n, True)
        if self.cost is not None:
            mask &= self.problem.costs_from(here) <= self.cost
        if self.size is not None:
            mask &= self._near(np.abs(self.problem.actions - self.problem.actions[here]))
        return mask

    def _within_groups(self, here: int) -> Mask:
        """The same by entry, for knobs in groups: each group's own step."""
        problem: Any = self.problem
        steps = dict(zip(problem.axis_names, self.size if isinstance(self.size, tuple) else (), strict=False))
        masks = []
        for group, place in zip(problem.groups, problem.within_groups(here), strict=True):
            size = tuple(steps[name] for name in group.axis_names) if steps else None
            masks.append(LongestStep(group, size).within(place))
        return np.concatenate(masks)

    @cached_property
    def reach(self) -> Reach:
        """The same for a search among points."""
        cost = np.inf if self.cost is None else self.cost
        if self.size is None:
            return Reach(cost)
        axes = self.problem.actions.shape[1]
        most = self._most
        along, altogether = (most, np.inf) if isinstance(most, np.ndarray) else (np.full(axes, np.inf), most)
        # In units of movement cost, for whole boxes; generous by a rounding, also of coordinates far from zero.
        rounding = 4.0 * np.finfo(np.float64).eps * np.abs(self.problem.coordinates).max(axis=0)
        if self.problem.metric_name == KNOBS:  # one column is no axis there: boxes are left out by what moves cost
            near = np.full(len(rounding), np.inf)
        else:
            near = np.minimum(along, altogether) * self.problem.scale * (1.0 + TOLERANCE) + rounding
        return Reach(cost, self.problem.actions, along, altogether, near)

    def within_all(self) -> Mask:
        """Return which moves are within one step, from row to column; shape (n, n)."""
        if self.size is None and self.cost is not None:
            return np.asarray(self.problem.distances <= self.cost)
        return np.stack([self.within(here) for here in range(self.problem.n)])

    def between(self, before: Array, after: Array) -> bool:
        """Return whether two points, (d,), are at most one step apart; they need not be actions of the problem."""
        return self.size is None or bool(self._near(np.abs(after - before)[None])[0])

    def _near(self, apart: Array) -> Mask:  # (k, d)
        most = self._most
        if isinstance(most, np.ndarray):
            return np.asarray((apart <= most).all(axis=1))
        long = np.linalg.norm(apart, ord=NORMS.get(self.problem.metric_name, 2), axis=1)
        return np.asarray(long <= most)

    @property
    def _most(self) -> Array | float:
        """The size, one number or (d,), with room for rounding: 0.7 to 0.8 is a step of 0.1."""
        slack = TOLERANCE * np.maximum(self.problem.smallest_steps, 0.0)
        if isinstance(self.size, tuple):
            return np.array(self.size) * (1 + TOLERANCE) + slack
        assert self.size is not None
        return float(self.size * (1 + TOLERANCE) + slack.max())

    def __str__(self) -> str:
        """The limit in words, with what such a step costs where all steps of a size cost the same."""
        parts = []
        if self.size is not None:
            sizes = self.size if isinstance(self.size, tuple) else (self.size,)
            names = self.problem.axis_names or ("",) * len(sizes)
            units = self.problem.units if len(sizes) == len(self.problem.units) else self.problem.units[:1]
            words = [
                f"{name} {beside(f'{size:g}', unit)}".strip()
                for name, size, unit in zip(names, sizes, units, strict=False)
            ]
            price = self.price
            beside_it = "" if price is None else f", which costs {self.problem.cost(f'{price:.4g}')}"
            parts.append(", ".join(words) + beside_it)
        if self.cost is not None:
            parts.append(f"a cost of {self.problem.cost(f'{self.cost:g}')}")
        return " and ".join(parts)

    @property
    def price(self) -> float | None:
        """Cost of a move of the full size; None if it depends on the move."""
        problem = self.problem
        if problem.metric_name not in METRIC_NAMES or isinstance(self.size, tuple) or self.size is None:
            return None
        return float(problem.scale[0] * self.size + problem.fixed_cost) if len(set(problem.scale)) == 1 else None


def longest_step(problem: Problem, max_step: Any = None, max_step_cost: Any = None) -> LongestStep:
    """Check the limits of a single move, and return them.

    `max_step` is a number in the units of the settings, text such as "50 m", or one of these for each axis, in order or
    by name; `max_step_cost` is a movement cost.
    """
    check_problem(problem)
    if problem.in_groups:
        return _of_groups(problem, max_step, max_step_cost)
    return LongestStep(problem, _size(problem, max_step), checked_cost(max_step_cost))


def _of_groups(problem: Any, max_step: Any, max_step_cost: Any) -> LongestStep:
    """The longest step of knobs in groups; steps by the name of a knob."""
    if max_step_cost is not None:
        raise InvalidInput(
            "max_step_cost does not apply to knobs in groups, which are turned one by one; give max_step by name"
        )
    given = plain(max_step)
    if given is None:
        return LongestStep(problem)
    if isinstance(given, list | tuple) and len(given) == len(problem.axis_names):
        given = dict(zip(problem.axis_names, given, strict=True))  # as `describe` gave it
        _require_order(problem, given)
    elif not isinstance(given, Mapping) or set(given) - set(problem.axis_names):
        raise InvalidInput(f"give max_step by the names of knobs, {list(problem.axis_names)}; got {shown(given)}")
    else:
        _require_order(problem, given)
    whole = {n: float(np.ptp(knob.coordinates)) for n, knob in zip(problem.axis_names, problem.knobs, strict=True)}
    return LongestStep(problem, tuple(_one(given.get(name, whole[name]), "") for name in problem.axis_names))


def checked_cost(cost: Any) -> float | None:
    """The largest movement cost of a step, as a float; raises unless it is 0 or more."""
    if cost is None:
        return None
    if isinstance(cost, bool | str) or not is_number(cost) or cost < 0:
        raise InvalidInput(f"max_step_cost must be 0 or more, got {shown(cost)}")
    return float(cost)


def _size(problem: Problem, given: Any) -> Size | None:
    if given is None:
        return None
    given = plain(given)
    axes, names = problem.actions.shape[1], problem.axis_names
    if not problem.has_coordinates:
        raise InvalidInput("the settings have no coordinates, so max_step does not apply; limit max_step_cost instead")
    if isinstance(given, Mapping):
        if names is None or set(given) - set(names):
            known = "the axes have no names" if names is None else f"the axes are {list(names)}"
            raise InvalidInput(f"max_step={dict(given)!r} does not fit, because {known}; give one number per axis")
        _require_order(problem, given)
        whole = dict(zip(names, np.ptp(problem.actions, axis=0).tolist(), strict=True))  # of an axis that is not named
        return tuple(_one(given.get(name, whole[name]), unit) for name, unit in zip(names, problem.units, strict=True))
    if isinstance(given, Sequence) and not isinstance(given, str):
        if len(given) != axes:
            raise InvalidInput(f"max_step must be one step or {axes} (one per axis), got {shown(given)}")
        _require_order(problem, dict(zip(names or (), given, strict=False)))
        return tuple(_one(step, unit) for step, unit in zip(given, problem.units, strict=True))
    if axes > 1 and len(set(problem.units)) > 1:
        raise InvalidInput(
            f"the axes have different units, {problem.units}, so give max_step for each of them; got {shown(given)}"
        )
    if problem.metric_name == KNOBS and axes > 1:
        raise InvalidInput(
            f"each knob has its own kind of step, so give max_step by name, {{'{(names or ('a',))[0]}': ...}}"
        )
    if axes > 1 and problem.metric_name not in METRIC_NAMES:
        raise InvalidInput(f"give max_step for each of the {axes} axes, or max_step_cost; got {shown(given)}")
    _require_order(problem, dict.fromkeys(names or (), given))
    return _one(given, problem.units[0])


def _require_order(problem: Problem, steps: Mapping[str, Any]) -> None:
    """Raise where a step is given along a knob whose values have no order, unless it is as long as the whole list."""
    for name, knob in zip(problem.axis_names or (), problem.knobs or (), strict=True):
        if knob.is_category and name in steps and not _is_whole_list(steps[name], knob):
            raise InvalidInput(
                f"max_step does not apply to {name!r}, because its values have no order; "
                + ("leave it out" if problem.in_groups else "limit max_step_cost instead")
            )


def _is_whole_list(step: Any, knob: Knob) -> bool:
    return isinstance(step, int | float) and not isinstance(step, bool) and step >= float(np.ptp(knob.coordinates))


def _one(step: Any, unit: str) -> float:
    if isinstance(step, float) and step == np.inf:
        return step
    found = amount(step, unit, "max_step")
    if found < 0:
        raise InvalidInput(f"max_step must be 0 or more, got {shown(step)}")
    return found
