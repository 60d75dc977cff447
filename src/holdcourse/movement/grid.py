"""Actions that form a grid over named axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import float_array, require_finite
from holdcourse.errors import InvalidInput, TooLarge

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
    axes: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        require_small(self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values along each axis."""
        return tuple(len(axis) for axis in self.axes)

    @property
    def size(self) -> int:
        """Number of actions, exactly."""
        return math.prod(self.shape)

    @property
    def coordinates(self) -> Array:
        """Coordinates of every action, shape (n, d)."""
        axes = np.meshgrid(*(np.array(axis, dtype=np.float64) for axis in self.axes), indexing="ij", copy=False)
        return np.stack([values.reshape(-1) for values in axes], axis=1)

    def index(self, **values: float) -> int:
        """Return the action at exactly these axis values."""
        if set(values) != set(self.names):
            raise InvalidInput(f"index needs one value for each of {list(self.names)}, got {sorted(values)}")
        position = 0
        for name, axis in zip(self.names, self.axes, strict=True):
            if values[name] not in axis:
                raise InvalidInput(f"{name}={values[name]!r} is not on the grid; its values are {list(axis)}")
            position = position * len(axis) + axis.index(values[name])
        return position


def grid(**axes: ArrayLike) -> Grid:
    """Build an action set from named axes.

    Examples
    --------
    >>> import holdcourse as hc
    >>> knobs = hc.grid(workers=[1, 2, 4], cache_mb=[64, 256])
    >>> knobs.shape
    (3, 2)
    >>> knobs.index(workers=2, cache_mb=256)
    3
    """
    if not axes:
        raise InvalidInput("grid needs at least one axis, e.g. grid(altitude=[100, 200, 300])")
    values = []
    for name, axis in axes.items():
        array = float_array(axis, f"axis {name!r}")
        if array.ndim != 1 or array.size == 0:
            raise InvalidInput(f"axis {name!r} must be a non-empty list of numbers, got shape {array.shape}")
        require_finite(array, f"axis {name!r}")
        if len(np.unique(array)) != len(array):
            raise InvalidInput(
                f"axis {name!r} holds a value twice: {array.tolist()}; every grid point must be one action"
            )
        values.append(tuple(array.tolist()))
    return Grid(names=tuple(axes), axes=tuple(values))


def require_small(shape: tuple[int, ...]) -> None:
    """Raise where the coordinates of a grid with so many values per axis do not fit; nothing has been built yet."""
    count = math.prod(shape)  # of Python's whole numbers: 16 axes of 4096 values are 2**192 actions, and not 0
    if count * len(shape) > MAX_NUMBERS:
        fits = MAX_NUMBERS // len(shape)
        per_axis = math.floor(fits ** (1 / len(shape)) + 1e-9)
        raise TooLarge(
            f"a grid of {' x '.join(map(str, shape))} has {said(count)} actions; with {len(shape)} axes at most "
            f"{fits} fit, for instance {per_axis} values per axis. Use fewer axes, or fewer values on each"
        )


def said(count: int) -> str:
    """Return a count that people can read: large ones are rounded."""
    return str(count) if count < 10**15 else f"about 1e{len(str(count)) - 1}"
