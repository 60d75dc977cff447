"""The wind world: a turbine that may change its altitude, and the wind that it would have met.

Everything is in kWh. Service cost of an altitude is the energy it makes less than the best altitude of that hour;
`rho` multiplies the energy made, not the energy lost to moving.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.wind.power import PowerCurve, movement_cost, paper_curve

Array: TypeAlias = NDArray[np.float64]

HOURS_OF_DAY = np.arange(24.0)


@dataclass(frozen=True)
class EnergyCosts:
    """From bounds on the wind speed to lower bounds of the cost: max over x' of E_low(x') minus E_high(x).

    The power curve is not monotone, so the extremes over the interval are taken, not its ends.
    """

    curve: PowerCurve
    scale: float  # rho times the hours of one round

    def __call__(self, low: Array, high: Array) -> Array:
        """Least cost of each altitude when the wind at every altitude lies between low and high."""
        least, most = self.curve.extremes(low, high)
        return np.asarray(self.scale * (least.max() - most))

    @property
    def name(self) -> str:
        """Name of the map in descriptions of a policy."""
        return f"energy({self.curve.name}, {self.curve.digest}, x{self.scale:g})"


@dataclass(frozen=True, eq=False)
class WindWorld:
    """Wind at every altitude and hour of a period, and a machine in it.

    Parameters
    ----------
    time
        Start of each round, UTC, shape (t,).
    altitudes
        The actions, in metres above ground, shape (n,).
    speed
        Wind speed in m/s, shape (t, n).
    curve
        The machine's power curve.
    rho
        Weight of the energy made against the energy lost to moving.
    climb, sink
        What a metre up and a metre down cost, in kWh.
    """

    time: NDArray[np.datetime64]
    altitudes: Array
    speed: Array
    curve: PowerCurve
    rho: float
    climb: float
    sink: float

    def __post_init__(self) -> None:
        if self.speed.shape != (len(self.time), len(self.altitudes)) or len(self.time) == 0:
            raise InvalidInput(
                f"speed must have one row per time and one column per altitude, got {self.speed.shape} "
                f"for {len(self.time)} times and {len(self.altitudes)} altitudes"
            )
        if not np.isfinite(self.speed).all():
            t, x = np.argwhere(~np.isfinite(self.speed))[0]
            raise InvalidInput(
                f"the wind at {self.time[t]}, {self.altitudes[x]:g} m is {self.speed[t, x]}; fill gaps first"
            )
        if not self.rho > 0:
            raise InvalidInput(f"rho must be positive, got {self.rho!r}")

    @cached_property
    def problem(self) -> hc.Problem:
        """Altitudes, and what moving between them costs."""
        if self.climb == self.sink:
            return hc.Problem(self.altitudes, scale=self.climb)
        apart = self.altitudes[None, :] - self.altitudes[:, None]
        return hc.Problem(self.altitudes, metric=np.where(apart > 0, self.climb, -self.sink) * apart, directed=True)

    @cached_property
    def step_hours(self) -> float:
        """Length of a round in hours."""
        if len(self.time) < 2:
            return 1.0
        return float(np.median(np.diff(self.time).astype("timedelta64[s]").astype(np.float64))) / 3600

    @cached_property
    def energy(self) -> Array:
        """What each altitude makes in each round, kWh, times rho; shape (t, n)."""
        return self.rho * self.step_hours * self.curve.power(self.speed)

    @cached_property
    def service(self) -> Array:
        """What each altitude makes less than the best one of the round; shape (t, n)."""
        return np.asarray(self.energy.max(axis=1, keepdims=True) - self.energy)

    @cached_property
    def hours(self) -> Array:
        """The paper's context: hour of the day, UTC; shape (t,)."""
        return (self.time.astype("datetime64[h]").astype(np.int64) % 24).astype(np.float64)

    @cached_property
    def moments(self) -> Array:
        """Start of each round in hours since 1970, UTC; shape (t,)."""
        return np.asarray(self.time.astype("datetime64[s]").astype(np.int64) / 3600.0)

    @cached_property
    def energy_costs(self) -> EnergyCosts:
        """The map from wind speed to cost."""
        return EnergyCosts(self.curve, self.rho * self.step_hours)

    def costs(self, round: int, context: Any) -> Array:  # noqa: A002
        """True service costs of a round."""
        costs: Array = self.service[round]
        return costs

    def measure(self, round: int, context: Any, action: int, noise: float) -> float:  # noqa: A002
        """The gauge: wind speed where the turbine is, and only there."""
        return float(self.speed[round, action])


def wind_world(
    time: NDArray[np.datetime64],
    altitudes: ArrayLike,
    speed: ArrayLike,
    *,
    curve: PowerCurve | None = None,
    rho: float = 1.0,
    movement: str | float | tuple[float, float] = "paper",
) -> WindWorld:
    """A wind world with the paper's machine unless told otherwise.

    `movement` is "paper", "physical", kWh per metre, or a pair: kWh per metre up and down.
    """
    curve = curve or paper_curve()
    if isinstance(movement, tuple):
        climb, sink = (movement_cost(float(part)) for part in movement)
    else:
        climb = sink = movement_cost(movement, curve.rated_speed)
    return WindWorld(np.asarray(time), np.asarray(altitudes, float), np.asarray(speed, float), curve, rho, climb, sink)
