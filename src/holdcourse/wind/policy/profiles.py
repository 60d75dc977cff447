"""Profiles of the wind as a program beside a machine has them: measured by a lidar, or forecast.

A forecast of profiles, in JSON or as a mapping, has

===========  ==========================================================================================================
`times`      when, ascending: ISO 8601 with a zone, or hours since 1970, UTC; k of them
`heights`    metres above ground, ascending; m of them
`speeds`     m/s, k rows of m numbers; null where nothing is said
`std`        the forecaster's own deviation in m/s, one number or k of them; may be left out
===========  ==========================================================================================================

Speeds are linear in the logarithm of height and linear in time. Nothing is said beyond the heights and times given.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import hours_since_1970
from holdcourse.errors import InvalidInput, shown

Array: TypeAlias = NDArray[np.float64]

SLACK = 1e-6  # metres: altitudes such as linspace(10, 750, 25) carry rounding
FIELDS = ("times", "heights", "speeds", "std")


def profile_at(altitudes: Array, heights: ArrayLike, speeds: ArrayLike) -> Array:
    """Return the speed at each altitude, (n,), from a profile; NaN where it does not reach.

    >>> profile_at(np.array([50.0, 100.0, 400.0]), [25.0, 100.0], [6.0, 8.0]).tolist()
    [7.0, 8.0, nan]
    """
    at, speed = _numbers(heights, "heights"), _numbers(speeds, "speeds")
    if at.ndim != 1 or at.shape != speed.shape or not at.size:
        raise InvalidInput(
            f"a profile must have as many speeds as heights, and at least one; got {speed.shape} for {at.shape}"
        )
    if not (np.isfinite(at).all() and (at > 0).all()):
        raise InvalidInput(f"heights must be metres above ground, greater than 0, got {at.tolist()}")
    known = np.isfinite(speed)  # a lidar misses some
    at, speed = at[known], speed[known]
    if (speed < 0).any():
        raise InvalidInput(f"a wind speed must be 0 or more, got {speed.min():g}")
    order = np.argsort(at, kind="stable")
    at, speed = at[order], speed[order]
    if (np.diff(at) <= 0).any():
        raise InvalidInput(f"each height of a profile must be given once, got {at.tolist()}")
    if not at.size:
        return np.full(len(altitudes), np.nan)
    found = np.interp(np.log(altitudes), np.log(at), speed)
    within = (altitudes >= at[0] - SLACK) & (altitudes <= at[-1] + SLACK)
    return np.where(within, found, np.nan)


def forecast_rows(said: Mapping[str, Any], altitudes: Array, now: float, interval: float) -> list[list[float]]:
    """Return a forecast of profiles as one row per round after `now`: the speed at each altitude, and the deviation.

    It ends before the first round of which not all altitudes are forecast. An error where that is the first one: then
    nothing of it could be used.
    """
    unknown = sorted(set(said) - set(FIELDS))
    missing = [name for name in FIELDS[:3] if name not in said]
    if unknown or missing:
        wrong = f"has no field {missing[0]!r}" if missing else f"has a field {unknown[0]!r} that is not known"
        raise InvalidInput(f"the forecast {wrong}; it takes {', '.join(FIELDS)}")
    times = np.array([_hours(time) for time in said["times"]])
    speeds = _numbers(said["speeds"], "speeds")
    if speeds.ndim != 2 or len(speeds) != len(times) or not len(times) or (np.diff(times) <= 0).any():
        raise InvalidInput(
            f"a forecast must have ascending times and one row of speeds for each of them; got speeds of shape "
            f"{speeds.shape} for {len(times)} times"
        )
    table = np.array([profile_at(altitudes, said["heights"], row) for row in speeds])  # (k, n)
    given = said.get("std")
    deviations = None if given is None else _numbers(given, "std")
    if deviations is not None and deviations.shape not in ((), times.shape):
        raise InvalidInput(
            f"std must be one number or one for each of {len(times)} times, got shape {deviations.shape}"
        )
    std = None if deviations is None else np.broadcast_to(deviations, times.shape)
    if std is not None and not (std >= 0).all():
        raise InvalidInput(f"std must be 0 or more, got {std.min():g}")
    rows = []
    for lead in range(1, MOST_ROUNDS + 1):
        time = now + lead * interval
        if not times[0] <= time <= times[-1]:
            break
        row = [float(np.interp(time, times, column)) for column in table.T]
        if not np.isfinite(row).all():
            break
        rows.append(row if std is None else [*row, float(np.interp(time, times, std))])
    if not rows:
        heights = _numbers(said["heights"], "heights")
        raise InvalidInput(
            f"nothing of the forecast can be used: the next round is at {written_time(now + interval)} and needs the "
            f"wind from {altitudes.min():g} to {altitudes.max():g} m; it covers {written_time(times[0])} to "
            f"{written_time(times[-1])} and {heights.min():g} to {heights.max():g} m"
        )
    return rows


MOST_ROUNDS = 24  # that a plan uses a forecast for


def _numbers(given: Any, what: str) -> Array:
    try:
        return np.array(given, dtype=np.float64)  # null becomes NaN
    except (TypeError, ValueError):
        raise InvalidInput(f"{what} must be numbers, all rows of the same length, got {shown(given)}") from None


def _hours(time: Any) -> float:
    if isinstance(time, str | datetime | np.datetime64):
        return hours_since_1970(time)
    hours = float(_numbers(time, "times"))
    if not np.isfinite(hours):
        raise InvalidInput(f"times must be finite, got {shown(time)}")
    return hours


def written_time(hours: float) -> str:
    """A time in hours since 1970 as people write it, to the second if it is not a whole minute."""
    moment = np.datetime64(round(hours * 3600), "s")
    whole = moment.astype("datetime64[m]")
    return f"{whole if whole == moment else moment}Z"
