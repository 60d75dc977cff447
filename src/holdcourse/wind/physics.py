"""An airborne machine that may change its altitude: power curves, and a world of the wind that it would have met.

A power curve converts wind speed to power; it also gives the least and the largest power over an interval of speeds.
Powers are in kW, energies in kWh, speeds in m/s.

The world counts everything in kWh. The service cost of an altitude is the energy of the best altitude of that hour less
its own; `rho` multiplies the energy made, not the energy lost to moving.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

import holdcourse as hc
from holdcourse.errors import InvalidInput, shown
from holdcourse.units import price

Array: TypeAlias = NDArray[np.float64]

# The paper's constants (its section 5): P(V) = c1 min(V, Vr)^3 - c2 V^2, movement c3 Vr^2 per metre.
C1, C2, C3 = 0.0579, 0.09, 0.15
RATED_SPEED = 12.0  # not stated in the paper; c1 * 12^3 = 100 kW
MOVEMENT_FACTORS = {"paper": 1.0, "physical": 1 / 60}  # as printed, and if its rate was meant per second


@dataclass(frozen=True, eq=False)
class PowerCurve:
    """Power as a function of wind speed: smooth pieces between `knots`.

    Made by `paper_curve`, `table_curve`, `curve_family` or `read_curve`. A family has a curve of its own at each of its
    altitudes: there the last axis of every array of speeds runs over these. `onto` leads it to the altitudes flown.

    Attributes
    ----------
    name
        Origin of the curve, for descriptions.
    knots
        Speeds at which the power can have a local extreme or a jump, ascending.
    altitudes
        Altitudes of a family, metres, ascending; None if the power is the same at every altitude.
    """

    name: str
    rated_speed: float
    knots: Array
    _cubic: tuple[float, float] | None = None
    _table: tuple[Array, Array] | None = None
    cut_in: float = 0.0
    cut_out: float = math.inf
    altitudes: Array | None = None
    # The knots, and the least and largest power around each: (k, 1), of a family (k, n).
    _at_knots: tuple[Array, Array, Array] = field(init=False)

    def __post_init__(self) -> None:
        # At a jump the power takes values on both sides of it.
        below, above = np.nextafter(self.knots, 0.0), np.nextafter(self.knots, np.inf)
        sides = np.stack([self._everywhere(speeds) for speeds in (below, self.knots, above)])
        least, most = (side.reshape(len(self.knots), -1) for side in (sides.min(axis=0), sides.max(axis=0)))
        object.__setattr__(self, "_at_knots", (self.knots[:, None], least, most))

    def power(self, speed: ArrayLike) -> Array:
        """Return the net power in kW at each speed; 0 below cut-in and above cut-out."""
        v = np.asarray(speed, dtype=np.float64)
        if self._cubic is not None:
            c1, c2 = self._cubic
            rising = np.minimum(v, self.rated_speed)
            made = c1 * rising * rising * rising - c2 * v * v
        else:
            assert self._table is not None
            speeds, powers = self._table
            made = np.interp(v, speeds, powers) if self.altitudes is None else self._interpolated(v)
        if self.cut_in > 0 or self.cut_out < math.inf:
            made = np.where((v >= self.cut_in) & (v <= self.cut_out), made, 0.0)
        return np.asarray(made)

    def _interpolated(self, speed: Array) -> Array:
        """Return the power of every altitude at its own wind, (..., n)."""
        assert self._table is not None
        speeds, powers = self._table
        if speed.shape[-1:] != (len(powers),):
            raise InvalidInput(
                f"{self.name} has a curve for each of {len(powers)} altitudes, so the last axis of speeds must have as "
                f"many, got the shape {speed.shape}"
            )
        columns = [np.interp(speed[..., k], speeds, row) for k, row in enumerate(powers)]
        return np.stack(columns, axis=-1)

    def _everywhere(self, speeds: Array) -> Array:
        """Return the power at these speeds, (k,); of a family at every altitude, (k, n)."""
        if self.altitudes is None:
            return self.power(speeds)
        return self.power(np.repeat(speeds[:, None], len(self.altitudes), axis=1))

    def tables(self, speeds: Array) -> Array:
        """Return the power at these speeds, (k,), with a row for each altitude of a family, or one row for all."""
        return np.ascontiguousarray(np.atleast_2d(self._everywhere(speeds).T))

    @property
    def largest_power(self) -> float:
        """Largest power of the machine, kW."""
        return float(self._everywhere(self.knots).max())

    def onto(self, altitudes: ArrayLike) -> PowerCurve:
        """Return the curve at these altitudes: the same, or for a family the interpolation between its curves."""
        if self.altitudes is None:
            return self
        wanted = np.asarray(altitudes, dtype=np.float64)
        low, high = self.altitudes[0], self.altitudes[-1]
        if wanted.min() < low - 1e-6 or wanted.max() > high + 1e-6:
            raise InvalidInput(
                f"{self.name} has curves for altitudes from {low:g} to {high:g} m, but {wanted.min():g} to "
                f"{wanted.max():g} m were asked for; use low={low:g} and high={high:g}, or altitudes in between"
            )
        assert self._table is not None
        speeds, powers = self._table
        rows = np.stack([np.interp(wanted, self.altitudes, column) for column in powers.T], axis=-1)
        return replace(self, _table=(speeds, rows), altitudes=wanted)

    def within(self, cut_in: float | None = None, cut_out: float | None = None) -> PowerCurve:
        """Return the curve with another cut-in or cut-out, if given."""
        low = self.cut_in if cut_in is None else float(cut_in)
        high = self.cut_out if cut_out is None else float(cut_out)
        if (low, high) == (self.cut_in, self.cut_out):
            return self
        _check_range(min(self.rated_speed, high), low, high)
        ends = [end for end in (low, high) if math.isfinite(end)]
        return replace(self, knots=np.unique(np.append(self.knots, ends)), cut_in=low, cut_out=high)

    def extremes(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Find least and largest power for speeds between low and high, both (..., n); negative speeds count as 0."""
        if low is high:  # a point, not an interval
            made = self.power(np.maximum(low, 0.0))
            return made, made
        ends = np.maximum((low, high), 0.0)
        one, other = self.power(ends)
        least, most = np.minimum(one, other), np.maximum(one, other)
        # All knots at once: this runs every round of a backtest.
        knots, below, above = self._at_knots
        inside = (ends[0][..., None, :] <= knots) & (ends[1][..., None, :] >= knots)  # (..., knots, n)
        least = np.minimum(least, np.where(inside, below, np.inf).min(axis=-2, initial=np.inf))
        most = np.maximum(most, np.where(inside, above, -np.inf).max(axis=-2, initial=-np.inf))
        return least, most

    def describe(self) -> dict[str, Any]:
        """Return what the curve is, in JSON values."""
        described = {"name": self.name, "rated_speed": self.rated_speed, "largest_power": self.largest_power}
        return described | {"digest": self.digest}

    def to_data(self) -> dict[str, Any]:
        """Return the whole curve in JSON values, from which `from_data` makes an equal one."""
        family = {} if self.altitudes is None else {"altitudes": self.altitudes.tolist()}
        return {
            "name": self.name,
            "rated_speed": float(self.rated_speed),
            "knots": self.knots.tolist(),
            "cubic": None if self._cubic is None else [float(number) for number in self._cubic],
            "table": None if self._table is None else [column.tolist() for column in self._table],
            "cut_in": float(self.cut_in),
            "cut_out": None if math.isinf(self.cut_out) else float(self.cut_out),
        } | family

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> PowerCurve:
        """Read what `to_data` gave."""
        cubic, table, cut_out = data["cubic"], data["table"], data["cut_out"]
        if (cubic is None) == (table is None):
            raise InvalidInput("a power curve is either the paper's or a table; give exactly one of them")
        pair = None if table is None else tuple(np.array(column, dtype=np.float64) for column in table)
        altitudes = None if data.get("altitudes") is None else np.array(data["altitudes"], dtype=np.float64)
        shape = (len(pair[0]),) if pair else ()
        shape = shape if altitudes is None else (len(altitudes), *shape)
        if pair is not None and (len(pair) != 2 or pair[0].ndim != 1 or pair[1].shape != shape):
            raise InvalidInput("a power table must have as many speeds as powers, at each of its altitudes")
        return cls(
            str(data["name"]),
            float(data["rated_speed"]),
            np.array(data["knots"], dtype=np.float64),
            None if cubic is None else (float(cubic[0]), float(cubic[1])),
            None if pair is None else (pair[0], pair[1]),
            float(data["cut_in"]),
            math.inf if cut_out is None else float(cut_out),
            altitudes,
        )

    @cached_property
    def digest(self) -> str:
        """Tells machines apart that have the same name: another table, cut-in, cut-out or other constants."""
        table = () if self._table is None else self._table
        numbers = [*(self._cubic or ()), self.rated_speed, self.cut_in, self.cut_out, *self.knots]
        numbers += [
            number for part in (*table, () if self.altitudes is None else self.altitudes) for number in np.ravel(part)
        ]
        return hashlib.sha256(np.array(numbers, dtype="<f8").tobytes()).hexdigest()[:12]


def paper_curve(
    rated_speed: float = RATED_SPEED, cut_in: float = 0.0, cut_out: float = math.inf, *, c1: float = C1, c2: float = C2
) -> PowerCurve:
    """Return the paper's curve, P(V) = c1 min(V, Vr)^3 - c2 V^2.

    It is not monotone: it falls to a small negative minimum at 2 c2 / (3 c1), rises to its peak at the rated speed and
    falls after it.

    >>> round(float(paper_curve().power(12.0)), 1)
    87.1
    """
    _check_range(rated_speed, cut_in, cut_out)
    knots = {2 * c2 / (3 * c1), rated_speed, cut_in, cut_out}
    return PowerCurve(
        f"paper, rated {rated_speed:g} m/s",
        rated_speed,
        np.array(sorted(knot for knot in knots if math.isfinite(knot))),
        _cubic=(c1, c2),
        cut_in=cut_in,
        cut_out=cut_out,
    )


def table_curve(
    speed: ArrayLike, power: ArrayLike, cut_in: float | None = None, cut_out: float | None = None, name: str = "table"
) -> PowerCurve:
    """Return a curve of straight lines between points of a machine's data sheet.

    Below the first speed and above the last speed (or outside cut-in and cut-out) the power is 0.
    """
    v, p = np.array(speed, dtype=np.float64), np.array(power, dtype=np.float64)
    if v.ndim != 1 or v.shape != p.shape or len(v) < 2:
        raise InvalidInput(f"a power table needs two or more pairs of speed and power, got shapes {v.shape}, {p.shape}")
    if not (np.isfinite(v).all() and np.isfinite(p).all() and v[0] >= 0):
        raise InvalidInput(f"{name}: speeds and powers must be finite numbers, and speeds 0 or more")
    if (falls := np.flatnonzero(np.diff(v) <= 0)).size:
        one, other = v[falls[0] : falls[0] + 2]
        raise InvalidInput(
            f"{name}: the speeds of a power table must rise, but {other:g} m/s follows {one:g} m/s; sort the rows, and "
            "keep one row of each speed"
        )
    low, high = v[0] if cut_in is None else cut_in, v[-1] if cut_out is None else cut_out
    rated = float(v[int(np.argmax(p))])
    _check_range(rated, low, high)
    knots = np.unique(np.concatenate([v, [low, high]]))
    return PowerCurve(name, rated, knots, _table=(v, p), cut_in=float(low), cut_out=float(high))


def curve_family(
    altitudes: ArrayLike,
    speed: ArrayLike,
    power: ArrayLike,
    cut_in: float | None = None,
    cut_out: float | None = None,
    name: str = "family",
) -> PowerCurve:
    """Return a family of curves: the power at the same wind depends on the altitude.

    Parameters
    ----------
    altitudes
        Altitudes in metres, ascending, (n,).
    speed
        Wind speeds in m/s, ascending, (k,).
    power
        Power in kW, (n, k); straight lines between the points.
    cut_in, cut_out
        Speeds below and above which the power is 0; default: the first and the last speed.
    name
        Name of the machine, for reports.

    Examples
    --------
    >>> high = curve_family([100, 300], [4, 10, 25], [[0, 60, 60], [0, 50, 50]])
    >>> high.onto([100, 200]).power([10.0, 10.0]).tolist()
    [60.0, 55.0]
    """
    levels, p = np.array(altitudes, dtype=np.float64), np.array(power, dtype=np.float64)
    if levels.ndim != 1 or len(levels) < 2 or not (np.isfinite(levels).all() and (np.diff(levels) > 0).all()):
        raise InvalidInput("a family of power curves needs two or more altitudes in metres, in rising order")
    if p.ndim != 2 or len(p) != len(levels):
        raise InvalidInput(f"a family needs a row of powers for each of its {len(levels)} altitudes, got {p.shape}")
    one = table_curve(speed, p.max(axis=0), cut_in, cut_out, name)  # the best of every wind: it checks the speeds
    if not np.isfinite(p).all():
        raise InvalidInput("all powers of a family must be finite")
    assert one._table is not None
    return replace(one, _table=(one._table[0], p), altitudes=levels)


def movement_cost(movement: str | float, rated_speed: float = RATED_SPEED) -> float:
    """Return what one metre of altitude costs, in kWh: "paper" (as printed), "physical" (1/60 of it), or a price.

    A price is a number of kWh per metre, or text with its units: "20 Wh/m".
    """
    if isinstance(movement, str) and movement in MOVEMENT_FACTORS:
        return C3 * rated_speed**2 / 60 * MOVEMENT_FACTORS[movement]
    if isinstance(movement, str):
        if not any(sign.isdigit() for sign in movement):
            raise InvalidInput(
                f"movement {movement!r} is not known; use 'paper', 'physical' or a cost such as '20 Wh/m'"
            )
        movement = price(movement, "movement").in_units("kWh", "m", "movement")
    if not (math.isfinite(movement) and movement > 0):
        raise InvalidInput(f"the movement cost must be a positive number of kWh per metre, got {shown(movement)}")
    return float(movement)


def _check_range(rated_speed: float, cut_in: float, cut_out: float) -> None:
    if not (math.isfinite(rated_speed) and 0 <= cut_in < cut_out and 0 <= rated_speed <= cut_out):
        raise InvalidInput(
            "speeds must satisfy 0 <= cut-in < cut-out and 0 <= rated <= cut-out, "
            f"got cut-in {cut_in:g}, cut-out {cut_out:g}, rated {rated_speed:g}"
        )


HOURS_OF_DAY = np.arange(24.0)


@dataclass(frozen=True)
class EnergyCosts:
    """From bounds on the wind speed to lower bounds of the cost: max over x' of E_low(x') minus E_high(x).

    The power curve is not monotone, so the extremes over the interval are taken, not its ends.
    """

    curve: PowerCurve
    scale: float  # rho times the hours of one round

    def __call__(self, low: Array, high: Array) -> Array:
        """Return the least cost of each altitude when the wind at every altitude lies between low and high."""
        return self.of_each(low, high)

    def of_each(self, low: Array, high: Array) -> Array:
        """Return the lower bounds for many rounds at once, (..., n); each round has its own best altitude."""
        least, most = self.curve.extremes(low, high)
        return np.asarray(self.scale * (least.max(axis=-1, keepdims=True) - most))

    @cached_property
    def name(self) -> str:
        """Name of the map in descriptions of a policy."""
        return f"energy({self.curve.name}, {self.curve.digest}, x{self.scale!r})"

    def cost_of(self, speed: float) -> float:
        """Return the cost of a round with this wind: minus the energy made.

        For a family of curves this is a mean over its altitudes, because a speed does not say where it was measured.
        """
        return -self.scale * float(self.curve.tables(np.array([max(speed, 0.0)])).mean())

    def to_data(self) -> dict[str, Any]:
        """Return the function in JSON values, as a policy's recipe contains it."""
        return {"map": "energy", "curve": self.curve.to_data(), "scale": float(self.scale)}


def energy_costs(data: Mapping[str, Any]) -> EnergyCosts:
    """Read what `EnergyCosts.to_data` gave."""
    return EnergyCosts(PowerCurve.from_data(data["curve"]), float(data["scale"]))


@dataclass(frozen=True, eq=False)
class WindWorld:
    """World of a machine in the wind of a period, at every altitude and hour.

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
        Cost of a metre up and of a metre down, in kWh.
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
                f"the wind at {self.time[t]}, {self.altitudes[x]:g} m, is {self.speed[t, x]}; fill gaps first"
            )
        if not self.rho > 0:
            raise InvalidInput(f"rho must be positive, got {shown(self.rho)}")

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
        """Energy of each altitude in each round, kWh, times rho; shape (t, n)."""
        return self.rho * self.step_hours * self.curve.power(self.speed)

    @cached_property
    def service(self) -> Array:
        """Energy of the best altitude of the round less that of each altitude; shape (t, n)."""
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
        """Measure the wind speed where the turbine is, and only there."""
        return float(self.speed[round, action])


def wind_world(
    time: NDArray[np.datetime64],
    altitudes: ArrayLike,
    speed: ArrayLike,
    *,
    curve: PowerCurve | None = None,
    rho: float = 1.0,
    movement: str | float | tuple[str | float, str | float] = "paper",
) -> WindWorld:
    """Return a wind world; by default with the paper's machine.

    `movement` is "paper", "physical", a price (kWh per metre, or "20 Wh/m"), or a pair: the prices up and down.
    """
    curve = (curve or paper_curve()).onto(altitudes)
    if isinstance(movement, tuple):
        climb, sink = (movement_cost(part, curve.rated_speed) for part in movement)
    else:
        climb = sink = movement_cost(movement, curve.rated_speed)
    return WindWorld(np.asarray(time), np.asarray(altitudes, float), np.asarray(speed, float), curve, rho, climb, sink)
