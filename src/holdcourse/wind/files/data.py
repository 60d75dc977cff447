"""Wind data: what every loader makes, the wind speed over time and height at one site.

| symbol | meaning | shape |
|---|---|---|
| t, k | number of times, number of heights | |
| `time` | UTC, ascending, no time twice | (t,) |
| `heights` | metres above ground, ascending; the median over time where the levels rise and fall | (k,) |
| `level_heights` | the heights of each time, NaN below ground; None if the heights are fixed | (t, k) |
| `speed` | m/s, NaN where missing | (t, k) |

Here is also the arithmetic that `WindData` needs, between heights and across holes in time, arrays in and arrays out;
and what one file holds at one site, before the files are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.errors import InvalidInput, shown
from holdcourse.tables.times import HOUR, Times, moment

Array: TypeAlias = NDArray[np.float64]


def interpolate(wanted: Array, heights: Array, speed: Array, *, clamp: bool) -> Array:
    """Interpolate to `wanted` (n,), logarithms of heights; row by row, since heights and holes differ in time.

    To the last bit what `np.interp` gives for each row, for all rows at once: a year has 8760 of them.
    """
    found = np.full((len(speed), len(wanted)), np.nan)
    usable = np.isfinite(heights) & np.isfinite(speed)
    count = usable.sum(axis=1)
    rows = np.flatnonzero(count)
    if not len(rows):
        return found
    good, last = usable[rows], count[rows] - 1
    order = np.argsort(np.where(good, heights[rows], np.inf), axis=1, kind="stable")  # holes come last
    each = np.arange(len(rows))
    logs = np.log(np.where(good, heights[rows], np.inf)[each[:, None], order])
    values = speed[rows[:, None], order]
    first, end = logs[:, 0], logs[each, last]
    for k, height in enumerate(wanted):
        # The highest level that is not above it, and the next; the ends hold beyond.
        below = np.clip((logs <= height).sum(axis=1) - 1, 0, last)
        above = np.minimum(below + 1, last)
        step = logs[each, above] - logs[each, below]
        slope = (values[each, above] - values[each, below]) / np.where(step > 0, step, 1.0)
        at = slope * (height - logs[each, below]) + values[each, below]
        at = np.where(height < first, values[:, 0], np.where(height >= end, values[each, last], at))
        if not clamp:
            # Within the heights of this time, but its end value is missing: not a number, never a guess.
            at[(height < first - 1e-6) | (height > end + 1e-6)] = np.nan
        found[rows, k] = at
    return found


def evenly_filled(
    time: Times,  # (t,), no gap longer than `longest`
    speed: Array,  # (t, k)
    heights: Array | None,  # (t, k), NaN below ground; None if they are fixed
    missing: NDArray[np.bool_],  # (t, k)
    step: float,  # seconds
    longest: float,  # seconds between two known speeds that are still bridged
) -> list[tuple[Times, Array, Array | None]]:
    """Return one stretch of times on an even grid, cut where a height is missing for too long."""
    seconds = time.astype(np.int64).astype(np.float64)
    grid = np.arange(seconds[0], seconds[-1] + 0.5 * step, step)
    filled = np.full((len(grid), speed.shape[1]), np.nan)
    rising = None if heights is None else np.full_like(filled, np.nan)
    whole = np.ones(len(grid), dtype=bool)
    for column in range(speed.shape[1]):
        known = ~missing[:, column]
        if not known.any():
            return []
        times = seconds[known]
        left = np.clip(np.searchsorted(times, grid, side="right") - 1, 0, len(times) - 1)
        right = np.clip(np.searchsorted(times, grid, side="left"), 0, len(times) - 1)
        inside = (grid >= times[0]) & (grid <= times[-1])
        whole &= inside & (times[right] - times[left] <= longest)
        # Below ground both are NaN, and stay so beside a filled time.
        filled[:, column] = np.interp(grid, times, speed[known, column])
        if rising is not None and heights is not None:
            rising[:, column] = np.interp(grid, times, heights[known, column])
            rising[np.isnan(filled[:, column]), column] = np.nan
    moments = np.round(grid).astype(np.int64).astype("datetime64[s]")
    edges = np.flatnonzero(np.diff(np.concatenate([[False], whole, [False]])))
    return [
        (moments[a:b], filled[a:b], None if rising is None else rising[a:b])
        for a, b in zip(edges[::2], edges[1::2], strict=True)
    ]


FASTEST_WIND = 150.0  # m/s; no weather model and no lidar has seen more
# What loggers and models write for a missing speed, in whatever unit; fill values of -100,000 and less are missing too.
MISSING_CODES = (
    *(-99.0, -99.9, -999.0, -999.9, -9999.0, -9999.9, -99999.0, 999.0, 999.9, 9999.0, 99999.0),
    *(-99.99, -999.99, 999.99, 9998.0, -32767.0, -32768.0),
)
CODES_IN_METRES = (99.0, 99.9, 99.99)  # no wind in m/s; in km/h they may be
LOWEST_FILL = -1e5
ROUNDING = 0.01  # m/s; packed files round a calm to a little less than nothing


def without_codes(values: Array, codes: Sequence[float] = MISSING_CODES) -> tuple[Array, list[str]]:
    """Return speeds as the file has them, NaN where a code for a missing number stands, and what to note of that."""
    coded = values <= LOWEST_FILL
    for code in codes:
        coded |= np.abs(values - code) <= 1e-6 * abs(code)  # of a number of 32 bits too
    if not coded.any():
        return values, []
    found = ", ".join(f"{code:g}" for code in np.unique(values[coded])[:4])
    told = "1 speed is a code" if coded.sum() == 1 else f"{int(coded.sum()):,} speeds are codes"
    return np.where(coded, np.nan, values), [f"{told} for a missing number ({found})"]


def checked_speeds(label: str, speed: Array) -> Array:
    """Return speeds in m/s, without what rounding made of calms; a negative one is an error."""
    if (speed <= -ROUNDING).any():
        raise InvalidInput(f"{label}: the speed {np.nanmin(speed):g} m/s is negative; leave missing values empty")
    return np.where(speed < 0, 0.0, speed)


@dataclass(frozen=True)
class Site:
    """Place where the wind was measured or computed; fields are None if the file does not name it."""

    latitude: float | None = None
    longitude: float | None = None
    name: str | None = None

    def __str__(self) -> str:
        if self.latitude is None or self.longitude is None:
            return self.name or "site not stated"
        north = f"{abs(self.latitude):g} {'N' if self.latitude >= 0 else 'S'}"
        east = f"{abs(self.longitude):g} {'E' if self.longitude >= 0 else 'W'}"
        return f"{self.name} ({north}, {east})" if self.name else f"{north}, {east}"


@dataclass(frozen=True)
class Gap:
    """A period of missing times."""

    after: np.datetime64  # the last time before the gap
    before: np.datetime64  # the first time after it
    hours: float  # length of what is missing


@dataclass(frozen=True, eq=False, init=False)
class WindData:
    """Wind speed at one site, over time and height. Made by `load`; the arrays are read-only.

    Parameters
    ----------
    time, heights, speed, level_heights
        See the table at the top of this module.
    source
        The layout of the file, in words.
    site
        Where.
    notes
        Notes on what the loader decided: grid point, units, levels left out, duplicates.

    Examples
    --------
    >>> hours = np.arange("2020-01-01T00", "2020-01-01T03", dtype="datetime64[h]")
    >>> data = WindData(hours, [10.0, 100.0], [[4.0, 6.0], [5.0, 7.0], [6.0, 8.0]])
    >>> data.at([31.6227766]).round(3).tolist()
    [[5.0], [6.0], [7.0]]
    """

    time: Times
    heights: Array
    speed: Array
    source: str = "array"
    site: Site = Site()
    notes: tuple[str, ...] = ()
    level_heights: Array | None = None

    def __init__(
        self,
        time: ArrayLike,
        heights: ArrayLike,
        speed: ArrayLike,
        source: str = "array",
        site: Site | None = None,
        notes: Sequence[str] = (),
        level_heights: ArrayLike | None = None,
    ) -> None:
        times = np.array(time, dtype="datetime64[s]")
        columns = np.array(heights, dtype=np.float64)
        table = np.array(speed, dtype=np.float64)
        rising = None if level_heights is None else np.array(level_heights, dtype=np.float64)
        _check(times, columns, table, rising)
        for array in (times, columns, table, rising):
            if array is not None:
                array.setflags(write=False)
        values = (times, columns, table, source, site or Site(), tuple(notes), rising)
        for name, value in zip(self.__dataclass_fields__, values, strict=True):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.time)

    def __repr__(self) -> str:
        return (
            f"WindData({len(self)} times {self.time[0]}..{self.time[-1]}, "
            f"{len(self.heights)} heights {self.heights[0]:g}..{self.heights[-1]:g} m, {self.site})"
        )

    @property
    def step(self) -> float:
        """Most frequent number of hours between two times (1.0 for a single time)."""
        if len(self) < 2:
            return 1.0
        distances, counts = np.unique(np.diff(self.time).astype(np.int64), return_counts=True)
        return float(distances[np.argmax(counts)]) / HOUR

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Whether a speed is missing, shape (t, k); below ground none is expected."""
        absent = np.isnan(self.speed)
        return absent if self.level_heights is None else absent & np.isfinite(self.level_heights)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Gaps: periods whose times are missing or have no speed."""
        seconds = self.time[~np.isnan(self.speed).all(axis=1)].astype(np.int64)
        distances = np.diff(seconds)
        ends = np.flatnonzero(distances > 1.5 * self.step * HOUR)
        return tuple(
            Gap(
                np.datetime64(int(seconds[i]), "s"),
                np.datetime64(int(seconds[i + 1]), "s"),
                float(distances[i]) / HOUR - self.step,
            )
            for i in ends
        )

    def at(self, altitudes: ArrayLike, *, outside: Literal["error", "clamp"] = "error") -> Array:
        """Return the speed at the given altitudes, shape (t, n), linear in the logarithm of height.

        A missing speed between two measured heights is interpolated; at the ends it stays NaN.

        Parameters
        ----------
        altitudes
            Metres above ground, shape (n,).
        outside
            What to do with an altitude below the lowest or above the highest height of a time:
            "error", or "clamp" to take the speed of the nearest height.
        """
        wanted = np.atleast_1d(np.array(altitudes, dtype=np.float64))
        if wanted.ndim != 1 or not wanted.size or not (np.isfinite(wanted) & (wanted > 0)).all():
            raise InvalidInput(f"altitudes must be metres above ground, greater than 0, got {wanted.tolist()}")
        if outside not in ("error", "clamp"):
            raise InvalidInput(f"outside must be 'error' or 'clamp', got {outside!r}")
        heights = np.broadcast_to(self.heights, self.speed.shape) if self.level_heights is None else self.level_heights
        known = np.isfinite(heights).any(axis=1)
        if not known.any():
            raise InvalidInput("the data have no height above ground at any time; check their heights")
        lowest = float(np.nanmin(heights[known], axis=1).max())
        highest = float(np.nanmax(heights[known], axis=1).min())
        # A micrometre of slack: altitudes such as linspace(10, 750, 25) carry rounding.
        strange = wanted[(wanted < lowest - 1e-6) | (wanted > highest + 1e-6)]
        if len(strange) and outside == "error":
            raise InvalidInput(
                f"altitude {strange[0]:g} m lies outside the heights, {lowest:.1f} to {highest:.1f} m, that the data "
                "have at every time; choose altitudes in between, or take the speed of the nearest height: "
                "outside='clamp'"
            )
        return interpolate(np.log(wanted), heights, self.speed, clamp=outside == "clamp")

    def onto(self, altitudes: ArrayLike, *, outside: Literal["error", "clamp"] = "error") -> WindData:
        """Return the wind at fixed altitudes (ascending), as `at` computes it."""
        wanted = np.atleast_1d(np.array(altitudes, dtype=np.float64))
        return replace(self, heights=wanted, speed=self.at(wanted, outside=outside), level_heights=None)

    def forecast(self, heights: ArrayLike | None = None) -> dict[str, Any]:
        """Return the wind as a forecast for the wind policy: `times`, `heights` and `speeds` in JSON values.

        Parameters
        ----------
        heights
            Heights in metres above ground; default: those of the data. Needed if these change over time.

        Examples
        --------
        >>> import holdcourse as hc
        >>> said = hc.wind.bundled("test").between("2010-07-01", "2010-07-02").forecast()
        >>> said["times"][0], len(said["speeds"])
        ('2010-07-01T00:00:00Z', 24)
        """
        if heights is None and self.level_heights is not None:
            raise InvalidInput(
                "the heights of these data change from time to time; give the altitudes of the wind you need"
            )
        data = self if heights is None else self.onto(heights)
        speeds = [[None if np.isnan(v) else float(v) for v in row] for row in data.speed]
        times = [f"{time}Z" for time in data.time.astype("datetime64[s]")]
        return {"times": times, "heights": data.heights.tolist(), "speeds": speeds}

    def between(self, start: str | np.datetime64 | None = None, end: str | np.datetime64 | None = None) -> WindData:
        """Return the part from `start` (included) to `end` (excluded), both UTC."""
        chosen = np.ones(len(self), dtype=bool)
        if start is not None:
            chosen &= self.time >= moment(start)
        if end is not None:
            chosen &= self.time < moment(end)
        if not chosen.any():
            wanted = [f"from {start} on"] * (start is not None) + [f"before {end}"] * (end is not None)
            raise InvalidInput(
                f"there is no time {' and '.join(wanted)}: the data cover {self.time[0]} to {self.time[-1]} UTC"
            )
        return self._rows(chosen)

    def hourly(self, *, min_share: float = 0.5) -> WindData:
        """Return the means over full hours, labelled by the start of the hour.

        An hour with less than `min_share` of its samples is missing. Hourly data are returned unchanged.
        """
        seconds = self.time.astype(np.int64)
        if self.step > 1.0:
            raise InvalidInput(
                f"the data have one value every {self.step:g} hours, but hourly means need finer data; leave hourly out"
            )
        if self.step == 1.0 and (seconds % HOUR == 0).all():
            return self
        hours, position = np.unique(seconds // HOUR, return_inverse=True)
        expected = max(1.0, 1.0 / self.step)

        def mean(table: Array) -> Array:
            present = np.isfinite(table)
            total = np.zeros((len(hours), table.shape[1]))
            count = np.zeros_like(total)
            np.add.at(total, position, np.where(present, table, 0.0))
            np.add.at(count, position, present)
            return np.where(count >= min_share * expected, total / np.maximum(count, 1.0), np.nan)

        speed = mean(self.speed)
        full = np.isfinite(speed).any(axis=1)
        if not full.any():
            raise InvalidInput(f"no hour has {100 * min_share:.0f} % of its samples; lower min_share")
        rising = None if self.level_heights is None else mean(self.level_heights)[full]
        note = f"means over hours of {self.step * 60:g}-minute values"
        times = (hours * HOUR).astype("datetime64[s]")[full]
        return replace(self, time=times, speed=speed[full], level_heights=rising, notes=(*self.notes, note))

    def segments(self, max_gap: float = 3.0) -> tuple[WindData, ...]:
        """Return the periods without gaps, evenly spaced in time.

        A gap of up to `max_gap` hours is filled linearly in time; a longer gap ends the segment. A height that is often
        missing divides the data into many segments; so compute the altitudes that you need first:
        `data.onto(altitudes).segments()`.
        """
        if not (np.isfinite(max_gap) and max_gap >= 0):
            raise InvalidInput(f"max_gap must be a number of hours, 0 or more, got {shown(max_gap)}")
        longest = (max_gap + self.step) * HOUR * (1 + 1e-9)
        cuts = np.flatnonzero(np.diff(self.time).astype(np.int64) > longest) + 1
        found: list[WindData] = []
        for rows in np.split(np.arange(len(self)), cuts):
            part = self._rows(rows)
            found += [
                replace(part, time=time, speed=speed, level_heights=heights)
                for time, speed, heights in evenly_filled(
                    part.time, part.speed, part.level_heights, part.missing, self.step * HOUR, longest
                )
            ]
        return tuple(found)

    def _rows(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> WindData:
        rising = None if self.level_heights is None else self.level_heights[rows]
        return replace(self, time=self.time[rows], speed=self.speed[rows], level_heights=rising)


def _check(time: Times, heights: Array, speed: Array, level_heights: Array | None) -> None:
    if time.ndim != 1 or not time.size or heights.ndim != 1 or not heights.size:
        raise InvalidInput(f"wind data need times (t,) and heights (k,), got shapes {time.shape} and {heights.shape}")
    shape = (len(time), len(heights))
    for name, array in (("speed", speed), ("level_heights", level_heights)):
        if array is not None and array.shape != shape:
            raise InvalidInput(f"{name} must have shape {shape} (times, heights), got {array.shape}")
    if np.isnat(time).any() or (np.diff(time).astype(np.int64) <= 0).any():
        raise InvalidInput("times must ascend, and occur once each; sort them, and remove duplicates")
    if not (np.isfinite(heights) & (heights > 0)).all() or (np.diff(heights) <= 0).any():
        raise InvalidInput(f"heights must be ascending metres above ground, got {heights.tolist()}")
    if level_heights is not None and (level_heights <= 0).any():
        raise InvalidInput(f"a level lies {-np.nanmin(level_heights):.1f} m below ground; make it NaN")
    bad = np.isinf(speed) | (speed < 0) | (speed > FASTEST_WIND)
    if bad.any():
        i, j = (int(index) for index in np.argwhere(bad)[0])
        raise InvalidInput(
            f"speed {speed[i, j]:.6g} m/s at {time[i]}, {heights[j]:g} m is not a wind speed (0 to {FASTEST_WIND:g} "
            "m/s); check the unit, and mark missing values as NaN"
        )


@dataclass(frozen=True)
class Options:
    """What only the user can know; see `holdcourse.wind.files.load`."""

    latitude: float | None = None
    longitude: float | None = None
    surface_height: float | None = None
    units: str | None = None
    timezone: str | None = None
    time_format: str | None = None
    header_line: int | None = None


@dataclass(frozen=True)
class Piece:
    """Times in any order, perhaps twice; levels in any order.

    Attributes
    ----------
    levels
        A name for each column, by which files are joined: "1000 hPa", "level 137", "100 m".
    heights
        Metres above ground, (k,) if fixed, (t, k) if not; NaN below ground.
    speed
        m/s, (t, k); NaN where missing or below ground.
    """

    label: str
    layout: str
    time: Times
    levels: tuple[str, ...]
    heights: Array
    speed: Array
    site: Site = field(default_factory=Site)
    notes: tuple[str, ...] = ()
