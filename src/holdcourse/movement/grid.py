"""Actions that form a grid over named axes: numbers, steps and names, each with its price.

What a move costs is the sum over the knobs that turn, and of those turned together the most expensive one;
`Grid.columns` are the points in which that is a distance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.errors import InvalidInput, TooLarge, plain
from holdcourse.movement.knob import Knob, knob_of

Array: TypeAlias = NDArray[np.float64]

MAX_NUMBERS = 20_000_000  # coordinates of all actions together: 160 MB, of which a few copies are made


@dataclass(frozen=True)
class Grid:
    """Actions that form a full grid over named axes, last axis fastest. Made by `grid`.

    Examples
    --------
    >>> import holdcourse as hc
    >>> knobs = hc.grid(workers=[1, 2, 4], cache_mb=[64, 256])
    >>> knobs.names, knobs.shape
    (('workers', 'cache_mb'), (3, 2))
    >>> hc.Problem(knobs).value(3)
    {'workers': 2.0, 'cache_mb': 256.0}
    """

    names: tuple[str, ...]
    knobs: tuple[Knob, ...]

    def __post_init__(self) -> None:
        require_small(self.shape)

    @cached_property
    def axes(self) -> tuple[tuple[float, ...], ...]:
        """Values along each axis as numbers; names are counted from 0."""
        return tuple(knob.coordinates for knob in self.knobs)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values along each axis."""
        return tuple(len(knob.values) for knob in self.knobs)

    @property
    def size(self) -> int:
        """Number of actions, exactly."""
        return math.prod(self.shape)

    @property
    def coordinates(self) -> Array:
        """Coordinates of every action, shape (n, d)."""
        return self.spread([np.array(axis)[:, None] for axis in self.axes])

    @property
    def is_priced(self) -> bool:
        """Whether some knob has a price of its own."""
        return any(knob.is_priced for knob in self.knobs)

    @property
    def has_categories(self) -> bool:
        """Whether some knob has values without an order, such as names."""
        return any(knob.is_category for knob in self.knobs)

    def spread(self, parts: list[Array]) -> Array:
        """Return the columns of all actions, (n, c), from those of the values of each axis, (k, c_k)."""
        columns = []
        for axis, part in enumerate(parts):
            shape = [1] * len(self.shape)
            shape[axis] = self.shape[axis]
            columns += [np.broadcast_to(column.reshape(shape), self.shape).reshape(-1) for column in part.T]
        return np.stack(columns, axis=1)

    def blocks(self, *, at_once: bool) -> list[list[int]]:
        """Return the groups of axes that are turned together; with `at_once` they are one group."""
        if at_once:
            return [list(range(len(self.knobs)))]
        found: dict[Any, list[int]] = {}
        for axis, knob in enumerate(self.knobs):
            found.setdefault(knob.together or axis, []).append(axis)
        return list(found.values())

    def index(self, **values: Any) -> int:
        """Return the action at exactly these axis values."""
        if set(values) != set(self.names):
            raise InvalidInput(f"index needs one value for each of {list(self.names)}, got {sorted(values)}")
        position = 0
        for name, knob in zip(self.names, self.knobs, strict=True):
            listed = knob.values
            place = knob.place(plain(values[name]))
            if place is None:
                raise InvalidInput(f"{name}={values[name]!r} is not on the grid; its values are {list(listed)}")
            position = position * len(listed) + knob.coordinates.index(place)
        return position

    def value(self, action: int) -> dict[str, Any]:
        """Return the values of an action by the names of the axes."""
        places = np.unravel_index(action, self.shape)
        return {name: knob.values[int(k)] for name, knob, k in zip(self.names, self.knobs, places, strict=True)}


def grid(**axes: ArrayLike | Knob) -> Grid:
    """Build an action set from named axes: lists of numbers, or knobs that say what turning them costs.

    Examples
    --------
    >>> import holdcourse as hc
    >>> knobs = hc.grid(workers=[1, 2, 4], cache_mb=[64, 256])
    >>> knobs.shape
    (3, 2)
    >>> knobs.index(workers=2, cache_mb=256)
    3
    >>> database = hc.grid(workers=hc.knob([1, 2, 4], change=30.0), sync=hc.knob([True, False], change=1.0))
    >>> hc.Problem(database).value(3)
    {'workers': 2.0, 'sync': False}
    """
    if not axes:
        raise InvalidInput("grid needs at least one axis, e.g. grid(altitude=[100, 200, 300])")
    return Grid(names=tuple(axes), knobs=tuple(knob_of(axis, name) for name, axis in axes.items()))


def require_small(shape: tuple[int, ...]) -> None:
    """Raise where the coordinates of a grid with so many values per axis do not fit; nothing has been built yet."""
    count = math.prod(shape)  # of Python's whole numbers: 16 axes of 4096 values are 2**192 actions, and not 0
    if count * len(shape) > MAX_NUMBERS:
        fits = MAX_NUMBERS // len(shape)
        per_axis = math.floor(fits ** (1 / len(shape)) + 1e-9)
        raise TooLarge(
            f"a grid of {' x '.join(map(str, shape))} has {said(count)} actions; with {len(shape)} axes at most "
            f"{fits:,} fit, for instance {per_axis} values per axis. Use fewer axes, or fewer values on each; or "
            "hc.knobs(...), which lists no combinations, where the cost is nearly a sum over groups of knobs"
        )


def said(count: int) -> str:
    """Return a count that people can read: large ones are rounded."""
    return f"{count:,}" if count < 10**15 else f"about 1e{len(str(count)) - 1}"
