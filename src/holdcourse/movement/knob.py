"""One knob of several: its values, and what turning it costs.

A knob's values are numbers or names. What turning it costs is one of four:

===========  ======================================================================  ==============================
price        meaning                                                                 example
===========  ======================================================================  ==============================
`per_unit`   for each unit between two numbers                                       memory that must be copied
`per_step`   for each step along the list of values: one price, or one for each      a transformer's tap changer
`change`     for any change, however far                                             a restart, 30 s
`change`     a matrix, from each value to each                                       pipes that must be flushed
===========  ======================================================================  ==============================

**Points.** Every one of these is a distance between points whose coordinates are few, measured by the largest
difference: a line for prices by unit and step; for a change that always costs c the digits of a binary number, times c;
for a matrix its own rows. So a grid of such knobs is a set of points too, in which the knobs' distances are added (or
the largest of them counts), and all that is known about points applies to it; see `holdcourse.movement.points`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import array_of, float_array, is_finite, require_finite
from holdcourse.errors import InvalidInput, InvalidMetric, counted, plain, shown
from holdcourse.movement.metric import check_metric, checked_square
from holdcourse.units import Price, price

Array: TypeAlias = NDArray[np.float64]

PRICES = ("per_unit", "per_step", "change")


@dataclass(frozen=True)
class Knob:
    """One knob: its values, and what turning it costs. Made by `knob`.

    Attributes
    ----------
    values
        Numbers, or names: text, True and False.
    per_unit, per_step, change
        Price of turning the knob, as in `knob`. At most one of them is given, and none if the problem has a metric of
        its own.
    together
        Name of a group. Knobs of one group are turned at once, and only the most expensive change is paid: one restart
        serves all.
    ordered
        Whether a model expects similar costs of neighbours in the list.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.knob(["lz4", "zstd", "none"], change=1.0).is_category
    True
    >>> hc.knob([128, 256, 512], change=30.0).is_category  # numbers are still more or less
    False
    """

    values: tuple[Any, ...]
    per_unit: float | str | None = None
    per_step: float | str | tuple[float, ...] | None = None
    change: float | str | tuple[tuple[float, ...], ...] | None = None
    together: str = ""
    ordered: bool = True

    @property
    def is_named(self) -> bool:
        """Whether its values are names rather than numbers."""
        return not all(isinstance(value, float) for value in self.values)

    @property
    def is_priced(self) -> bool:
        """Whether the knob has a price of its own."""
        return any(getattr(self, name) is not None for name in PRICES)

    @property
    def is_category(self) -> bool:
        """Whether its values have no order, so that none lies between two others."""
        return not self.ordered

    @cached_property
    def coordinates(self) -> tuple[float, ...]:
        """Its values as numbers: the numbers, or the places of the names in the list."""
        return tuple(float(k) for k in range(len(self.values))) if self.is_named else self.values

    @cached_property
    def features(self) -> Array:
        """Coordinates by which a kernel tells its values apart, (k, c): of a category two differ by 1, all alike."""
        if not self.is_category:
            return np.array(self.coordinates)[:, None]
        count = len(self.values)
        places: Array = np.arange(count, dtype=np.float64)[:, None]
        return math.sqrt(0.5) * np.eye(count) if count > 2 else places

    @cached_property
    def columns(self) -> Array:
        """Points (k, c) whose largest difference along an axis is what turning it costs; prices must be numbers."""
        if self.change is None:
            if self.per_step is None:
                return np.array(self.coordinates)[:, None] * (1.0 if self.per_unit is None else float(self.per_unit))
            steps = np.broadcast_to(np.array(self.per_step, dtype=np.float64), (len(self.values) - 1,))
            return np.concatenate([[0.0], np.cumsum(steps)])[:, None]
        if isinstance(self.change, tuple):
            return np.array(self.change)
        digits = max((len(self.values) - 1).bit_length(), 1)
        places = np.arange(len(self.values))[:, None]
        codes = ((places >> np.arange(digits)) & 1).astype(np.float64)
        return codes * float(self.change)

    @property
    def jump(self) -> float | None:
        """Price of any change; None if changes have different prices."""
        return float(self.change) if isinstance(self.change, float) else None

    def place(self, value: Any) -> float | None:
        """Return the coordinate of a value; None if the knob does not have that value."""
        for known, where in zip(self.values, self.coordinates, strict=True):
            if _kind(known) is _kind(value) and known == value:
                return where
        return None

    def priced(self, converted: Any) -> Knob:
        """Return the knob with prices as numbers; `converted(price, per)` converts a price that is text."""
        found = self
        for name in PRICES:
            given = getattr(self, name)
            if isinstance(given, str):
                number = converted(_price(given, name), name)
                changed: dict[str, Any] = {name: _positive(number, name)}
                found = replace(found, **changed)
        return found

    def describe(self) -> Any:
        """Return the knob in JSON values: its values alone if it has nothing else."""
        data: dict[str, Any] = {"values": list(self.values)}
        for name in PRICES:
            if getattr(self, name) is not None:
                data[name] = plain(getattr(self, name))
        data |= {"together": self.together} if self.together else {}
        data |= {} if self.ordered == _orderly(self.values, self.per_step) else {"ordered": self.ordered}
        return data["values"] if len(data) == 1 else _listed(data)


def knob(
    values: Sequence[Any] | ArrayLike,
    *,
    per_unit: float | str | None = None,
    per_step: float | str | Sequence[float] | None = None,
    change: float | str | ArrayLike | None = None,
    together: str = "",
    ordered: bool | None = None,
) -> Knob:
    """Describe one knob of a grid: its values, and what turning it costs.

    Parameters
    ----------
    values
        Numbers, or names (text, True and False), all different.
    per_unit
        Price of one unit of a number, also as text: "0.2 s/MB".
    per_step
        Price of the step from one value of the list to the next: one price, or one for each step.
    change
        Price of any change, however far ("30 s"), or a matrix with the price of each change.
    together
        Name of a group. Knobs of one group are turned at once, and only the most expensive change is paid.
    ordered
        Whether a model expects similar costs of neighbours in the list; by default of numbers, and of names that are
        priced by the step.

    Examples
    --------
    >>> import holdcourse as hc
    >>> settings = hc.grid(
    ...     shared_buffers_gb=hc.knob([1, 2, 4, 8], change=30.0, together="restart"),
    ...     max_connections=hc.knob([50, 100, 200], change=30.0, together="restart"),
    ...     work_mem_mb=hc.knob([4, 16, 64], change=1.0),  # a reload
    ...     compression=hc.knob(["lz4", "zstd", "none"], change=1.0),
    ... )
    >>> problem = hc.Problem(settings)
    >>> here = problem.index({"shared_buffers_gb": 1, "max_connections": 50, "work_mem_mb": 4, "compression": "lz4"})
    >>> there = problem.index({"shared_buffers_gb": 8, "max_connections": 200, "work_mem_mb": 4, "compression": "none"})
    >>> problem.distance(here, there)  # one restart for both, and a reload
    31.0
    """
    listed = _values(values)
    given = [
        name for name, each in (("per_unit", per_unit), ("per_step", per_step), ("change", change)) if each is not None
    ]
    if len(given) > 1:
        raise InvalidInput(f"a knob has one price, but {given[0]} and {given[1]} are given; leave one of them out")
    named = not all(isinstance(value, float) for value in listed)
    if per_unit is not None:
        if named:
            raise InvalidInput(
                f"per_unit is for numbers, but these values are names: {list(listed)}; give per_step or change"
            )
        per_unit = per_unit if isinstance(per_unit, str) else _positive(per_unit, "per_unit")
    if not isinstance(together, str):
        raise InvalidInput(f"together must be a word that knobs share, such as 'restart', got {shown(together)}")
    steps = _steps(per_step, len(listed))
    if ordered is not None and not isinstance(ordered, bool):
        raise InvalidInput(f"ordered must be True or False, got {shown(ordered)}")
    in_order = _orderly(listed, steps) if ordered is None else ordered
    return Knob(listed, per_unit, steps, _changes(change, len(listed)), together, in_order)


def knob_of(given: Any, name: str) -> Knob:
    """An axis of a grid as a knob: one already, its description, or a list of values."""
    if not name.strip() or set(name) & set(",;=") or name != name.strip():
        raise InvalidInput(
            f"the name of an axis must not contain , ; or =, nor begin or end with a space, got {name!r}"
        )
    if isinstance(given, Knob):
        return given
    try:
        if isinstance(given, Mapping):
            unknown = sorted(set(given) - {"values", "together", "ordered", *PRICES})
            if unknown or "values" not in given:
                raise InvalidInput(
                    f"a knob has values, one of {list(PRICES)}, together and ordered; got {sorted(given)}"
                )
            return knob(**given)
        return knob(given)
    except InvalidInput as error:
        raise InvalidInput(f"axis {name!r}: {error}") from None


def _values(values: Any) -> tuple[Any, ...]:
    listed = plain(values)
    if isinstance(listed, list | tuple) and any(isinstance(each, str | bool | np.bool_) for each in listed):
        names = tuple(plain(each) for each in listed)
        if not all(isinstance(each, str | bool | int | float) for each in names):
            raise InvalidInput(f"the values of a knob are numbers or names, got {list(names)}")
        odd = [
            each
            for each in names
            if isinstance(each, str) and (set(each) & set(",;=()") or each != each.strip() or not each)
        ]
        if odd:
            raise InvalidInput(
                f"a name must be text without , ; = ( or ) that does not begin or end with a space, got {odd[0]!r}"
            )
        if not all(is_finite(each) for each in names if isinstance(each, int | float)):
            raise InvalidInput(f"a number among names must be finite, got {list(names)}")
        written = [str(float(each)) if _kind(each) is float else str(each) for each in names]
        written = [text.removesuffix(".0") for text in written]  # 1, 1.0 and "1" look the same where they are read
        if len(set(written)) < len(names) or len(set(names)) < len(names):  # True is 1, to Python
            raise InvalidInput(f"{_alike(names, written)}; give each value once")
        return names
    array = float_array(listed, "values")
    if array.ndim != 1 or array.size == 0:
        raise InvalidInput(f"the values must be a non-empty list of numbers or names, got shape {array.shape}")
    require_finite(array, "values")
    if len(np.unique(array)) != len(array):
        ordered = np.sort(array)
        twice = ordered[1:][np.diff(ordered) == 0][0]
        raise InvalidInput(f"the value {twice:g} occurs twice; give each value once")
    return tuple(array.tolist())


def _alike(names: Sequence[Any], written: Sequence[str]) -> str:
    """Say which two names are the same, or look so."""
    for (one, text), (other, same) in itertools.combinations(zip(names, written, strict=True), 2):
        if type(one) is type(other) and one == other:
            return f"the value {one!r} occurs twice"
        if one == other or text == same:
            return f"the values {one!r} and {other!r} look the same"
    raise AssertionError("asked of names that all differ")


def _kind(value: Any) -> type:
    """Its type, where whole and other numbers are of one."""
    return float if type(value) is int else type(value)


def _orderly(values: tuple[Any, ...], per_step: Any) -> bool:
    return per_step is not None or all(isinstance(value, float) for value in values)


def _positive(number: Any, what: str) -> float:
    if isinstance(number, bool) or not is_finite(number) or number <= 0:
        raise InvalidInput(f"{what} must be a positive number or a price such as '30 s', got {shown(number)}")
    return float(number)


def _steps(per_step: Any, count: int) -> float | str | tuple[float, ...] | None:
    if per_step is None or isinstance(per_step, str):
        return per_step
    if not isinstance(per_step, Sequence | np.ndarray):
        return _positive(per_step, "per_step")
    if len(per_step) != count - 1:
        raise InvalidInput(
            f"per_step must have {counted(count - 1, 'price')}, one for each step between the "
            f"{counted(count, 'value')}, got {len(per_step)}"
        )
    return tuple(_positive(each, "per_step") for each in per_step)


def _changes(change: Any, count: int) -> float | str | tuple[tuple[float, ...], ...] | None:
    if change is None or isinstance(change, str):
        return change
    if isinstance(change, int | float | np.number):
        return _positive(change, "change")
    shape = array_of(change, "change").shape
    if shape != (count, count):
        raise InvalidInput(
            f"change must be one price, or a matrix with a row and a column for each of the {count} values; got shape "
            f"{shape}"
        )
    matrix = checked_square(change)
    require_finite(matrix, "change")
    if not np.array_equal(matrix, matrix.T):
        raise InvalidInput(
            "a change of a knob must cost the same in both directions; if it does not, give the costs of all moves as "
            "a matrix: Problem(grid, metric=matrix, directed=True)"
        )
    try:
        check_metric(matrix)
    except InvalidMetric as error:
        raise InvalidMetric(f"change, where an action is a value of the knob: {error}", error.indices) from None
    return tuple(tuple(row) for row in matrix.tolist())


def _price(text: str, what: str) -> Price:
    """A price as text: by the unit it says for what, a change or a step need not."""
    if not any(sign.isdigit() for sign in text):
        raise InvalidInput(f"{what} must be a positive number or a price such as '30 s', got {text!r}")
    found = price(text if "/" in text or " per " in text else f"{text} per change", what)
    if what == "per_unit":
        return found
    if found.per not in ("change", "step"):
        raise InvalidInput(
            f"{what}={text!r} is paid for each {found.per}; write it like '30 s', or give it as per_unit"
        )
    return replace(found, per="change")


def _listed(value: Any) -> Any:
    """Tuples as lists, as JSON has them."""
    if isinstance(value, dict):
        return {name: _listed(each) for name, each in value.items()}
    return [_listed(each) for each in value] if isinstance(value, list | tuple) else value
