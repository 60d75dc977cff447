"""How finely a continuous setting should be cut: as finely as its cost can tell, and no finer than moves can pay.

=======  ========================================================================================
symbol   meaning
=======  ========================================================================================
l, s     length scale and deviation of the cost along the setting
c        how sharply the cost bends at its lowest place, some two deviations below the mean: 2 s / l^2
p, H     price of moving by one unit; rounds for which a move pays off
sigma    deviation of a measurement's noise
N        measurements from which the lowest place is found
delta    distance between neighbouring values
=======  ========================================================================================

**What a grid loses.** The best value on it is off the true optimum by a distance that is even between 0 and delta / 2,
so a round costs c delta^2 / 24 more in the mean. Set to a share of s, that gives the first delta.

**What a move can win.** Being off by delta costs c delta^2 / 2 a round, and going there p delta once. Over H rounds
the move does not pay where delta is below 2 p / (c H): finer steps would only be looked at, never taken.

**What measurements can tell.** Of N measurements, half to either side of the lowest place and l apart, the slope
between them is known to 2 sigma / (l sqrt(N)), and so the place to that over c, which is (sigma / s) l / sqrt(N).
Finer steps could not be told from each other.

The largest delta of the three is used.

**Where it is cut more finely later.** `continuous_axes` says of which axes there are settings in between, and
`with_values` puts them there; whether they pay is for `holdcourse.deciding.refinement` to say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.checks import is_finite
from holdcourse.errors import InvalidInput, TooLarge, shown
from holdcourse.movement.problem import KNOBS, Problem

Array: TypeAlias = NDArray[np.float64]

MOST_VALUES = 10_000
ROUNDS = 33.0  # of a plan with a discount of 0.97


def resolution(
    low: float,
    high: float,
    *,
    length_scale: float,
    deviation: float = 1.0,
    price: float = 0.0,
    rounds: float = ROUNDS,
    loss: float = 0.01,
    noise: float = 0.0,
) -> Array:
    """Return evenly spaced values of a continuous setting, as fine as its cost and the price of moving justify.

    Once something has been measured, `refine` adds values where a finer spacing pays.

    Parameters
    ----------
    low, high
        Ends of the range; both are among the values.
    length_scale, deviation
        Distance over which costs change, and standard deviation of the cost, as `fit_kernel` finds them (the length
        scale, and the root of the variance).
    price
        Cost of moving by one unit.
    rounds
        Number of rounds in which a move must pay off; 33 corresponds to a discount of 0.97.
    loss
        Mean loss per round that is accepted, compared with the best value in between, as a share of the deviation.
    noise
        Standard deviation of a measurement. Values are no closer than `rounds` measurements can distinguish. Default:
        noise is not considered.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.resolution(0.0, 100.0, length_scale=60.0).tolist()
    [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    >>> len(hc.resolution(0.0, 100.0, length_scale=60.0, price=0.5))  # expensive moves: fewer values are enough
    3
    """
    numbers = {"length_scale": length_scale, "deviation": deviation, "rounds": rounds, "loss": loss}
    for name, value in numbers.items():
        require(value, name, above=True)
    for name, value in {"price": price, "noise": noise}.items():
        require(value, name, above=False)
    if not (is_finite(low) and is_finite(high) and low < high):
        raise InvalidInput(f"low and high must be finite, low below high, got {shown(low)} and {shown(high)}")
    low, high, rounds = float(low), float(high), float(rounds)  # numpy's whole numbers would overflow
    step = spacing(
        float(length_scale),
        float(deviation),
        price=float(price),
        rounds=rounds,
        loss=float(loss),
        noise=float(noise),
        measurements=rounds,
    )
    if not (0.0 < step < math.inf):
        raise InvalidInput(
            f"values from {low:g} to {high:g} at a length_scale of {length_scale:g} cannot be spaced; use another unit"
        )
    count = max(math.ceil((high - low) / step - 1e-9) + 1, 2)
    if count > MOST_VALUES:
        raise TooLarge(
            f"steps of {step:.3g} from {low:g} to {high:g} would give {count} values, more than {MOST_VALUES}; allow a "
            "larger loss, or check the length scale"
        )
    return np.linspace(low, high, count)


def spacing(
    length_scale: float,
    deviation: float,
    *,
    price: float,
    rounds: float,
    loss: float,
    noise: float,
    measurements: float,
) -> float:
    """Return the least distance between values that is worth having; see above. Nothing is checked."""
    bend = 2.0 * deviation / length_scale**2
    by_loss = math.sqrt(24.0 * loss * deviation / bend)
    by_moves = 2.0 * price / (bend * rounds)
    by_noise = noise / deviation * length_scale / math.sqrt(measurements)
    return max(by_loss, by_moves, by_noise)


def require(value: Any, name: str, *, above: bool) -> None:
    """Raise unless a number is above 0, or 0 or more."""
    if isinstance(value, bool) or not is_finite(value) or value < 0 or (above and value == 0):
        raise InvalidInput(f"{name} must be {'above 0' if above else '0 or more'}, got {shown(value)}")


@dataclass(frozen=True, eq=False)
class ContinuousAxis:
    """An axis of a problem on which there are settings between those that are listed.

    Attributes
    ----------
    number, name
        Which axis it is; the name is empty where the settings are single numbers.
    values
        Those that are listed, rising, (k,).
    price
        What moving by one unit costs.
    """

    number: int
    name: str
    values: Array
    price: float

    def cut(self, least: float, within: tuple[float, float]) -> Array:
        """Return the values that cut every gap within a range into as many equal parts as are not below `least`."""
        inside = [
            np.linspace(low, high, parts + 1)[1:-1]
            for low, high in zip(self.values[:-1], self.values[1:], strict=True)
            if (parts := int(min((high - low) / least + 1e-9, MOST_VALUES))) > 1
        ]
        found = np.concatenate([np.zeros(0), *inside])
        return found[(found >= within[0]) & (found <= within[1])]


def continuous_axes(problem: Problem) -> list[ContinuousAxis]:
    """Return the axes of numbers between which there are others; an error says why a problem has none."""
    if problem.in_groups or not problem.has_named_metric or problem.labels is not None or not problem.has_coordinates:
        raise InvalidInput(
            "there are no settings between these: they are names, groups of knobs, or priced by a matrix or a "
            "function. Refining needs numbers, or a grid of them, and metric='euclidean', 'cityblock' or 'chebyshev'"
        )
    if problem.knobs is None:
        if problem.actions.shape[1] > 1:
            raise InvalidInput(
                f"these settings are separate points with {problem.actions.shape[1]} coordinates, but refining needs "
                "the axes of a grid; make the problem with hc.Problem(hc.grid(x=..., y=...))"
            )
        return [ContinuousAxis(0, "", np.sort(problem.actions[:, 0]), float(problem.scale[0]))]
    assert problem.axis_names is not None
    found = []
    for number, (name, knob) in enumerate(zip(problem.axis_names, problem.knobs, strict=True)):
        by_steps = knob.per_step is not None or isinstance(knob.change, tuple)  # which only listed values have
        if not (knob.is_named or knob.is_category or by_steps or len(knob.values) < 2):
            factor = 1.0 if knob.per_unit is None else float(knob.per_unit)
            price = 0.0 if problem.metric_name == KNOBS and knob.change is not None else factor * problem.scale[number]
            found.append(ContinuousAxis(number, name, np.sort(knob.values), float(price)))
    if not found:
        raise InvalidInput(
            "no axis of this grid has values in between: refining needs an axis of numbers that is not priced by the "
            "step or by a matrix"
        )
    return found


def with_values(problem: Problem, axis: int, values: Sequence[float] | Array) -> tuple[Problem, NDArray[np.int64]]:
    """Return the problem with more values on an axis, and for each action of the old one the same setting in it.

    All else is as it was: prices, units, names. Values rise along the axis, or fall where they did.
    """
    old = problem.actions[:, 0] if problem.knobs is None else np.array(problem.knobs[axis].values)
    merged = np.unique(np.concatenate([old, values]))
    if len(old) > 1 and (np.diff(old) < 0).all():
        merged = merged[::-1]
    data = problem.describe()
    if problem.knobs is None:
        finer = Problem.from_data({**data, "actions": merged.tolist()})
    else:
        axes = list(data["axes"])
        axes[axis] = [axes[axis][0], replace(problem.knobs[axis], values=tuple(merged.tolist())).describe()]
        finer = Problem.from_data({**data, "actions": None, "axes": axes})
    where = {value: place for place, value in enumerate(merged.tolist())}
    along = np.array([where[value] for value in old.tolist()], dtype=np.int64)
    shape = shape_of(problem)
    numbers = np.arange(finer.n).reshape(shape_of(finer))
    return finer, np.take(numbers, along, axis=axis).reshape(np.prod(shape))


def shape_of(problem: Problem) -> tuple[int, ...]:
    """Return how many values the axes of a grid have; of a list, one number."""
    return (problem.n,) if problem.knobs is None else tuple(len(knob.values) for knob in problem.knobs)
