"""How finely a continuous setting should be cut: as finely as its cost can tell, and no finer than moves can pay.

=======  ========================================================================================
symbol   meaning
=======  ========================================================================================
l, s     length scale and deviation of the cost along the setting
c        how sharply the cost bends at its lowest place, some two deviations below the mean: 2 s / l^2
p, H     price of moving by one unit; rounds for which a move pays off
delta    distance between neighbouring values
=======  ========================================================================================

**What a grid loses.** The best value on it is off the true optimum by a distance that is even between 0 and delta / 2,
so a round costs c delta^2 / 24 more in the mean. Set to a share of s, that gives the first delta.

**What a move can win.** Being off by delta costs c delta^2 / 2 a round, and going there p delta once. Over H rounds
the way does not pay where delta is below 2 p / (c H): finer steps would only be looked at, never taken. The larger
delta is used.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.checks import is_finite
from holdcourse.errors import InvalidInput, TooLarge, plain

Array: TypeAlias = NDArray[np.float64]

MOST_VALUES = 10_000


def resolution(
    low: float,
    high: float,
    *,
    length_scale: float,
    deviation: float = 1.0,
    price: float = 0.0,
    rounds: float = 33.0,
    loss: float = 0.01,
) -> Array:
    """Return evenly spaced values of a continuous setting, as many as its cost and the price of moving are worth.

    They are the same everywhere; a grid that is finer where it pays is not made.

    Parameters
    ----------
    low, high
        Ends of the setting's range; both are among the values.
    length_scale, deviation
        How far apart settings must be for their costs to differ, and by how much costs differ; as `fit_kernel` finds
        them (its length scale and the root of its variance).
    price
        What moving by one unit costs.
    rounds
        For how many rounds a move pays off: 33 for a plan with a discount of 0.97.
    loss
        Mean loss of a round against the best value in between, as a share of the deviation.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.resolution(0.0, 100.0, length_scale=60.0).tolist()
    [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    >>> len(hc.resolution(0.0, 100.0, length_scale=60.0, price=0.5))  # dear moves: fewer values will do
    3
    """
    numbers = {"length_scale": length_scale, "deviation": deviation, "rounds": rounds, "loss": loss}
    for name, value in numbers.items():
        _require(value, name, above=True)
    _require(price, "price", above=False)
    if not (is_finite(low) and is_finite(high) and low < high):
        raise InvalidInput(f"low and high must be finite, low below high, got {plain(low)!r} and {plain(high)!r}")
    bend = 2.0 * deviation / length_scale**2
    step = max(math.sqrt(24.0 * loss * deviation / bend), 2.0 * price / (bend * rounds))
    count = max(math.ceil((high - low) / step - 1e-9) + 1, 2)
    if count > MOST_VALUES:
        raise TooLarge(
            f"steps of {step:.3g} from {low:g} to {high:g} would be {count} values, more than {MOST_VALUES}; allow a "
            "larger loss, or check the length scale"
        )
    return np.linspace(float(low), float(high), count)


def _require(value: Any, name: str, *, above: bool) -> None:
    if isinstance(value, bool) or not is_finite(value) or value < 0 or (above and value == 0):
        raise InvalidInput(f"{name} must be {'above 0' if above else '0 or more'}, got {plain(value)!r}")
