"""Which part of the wind data is the past and which is flown, at which altitudes, and in how many pieces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import InvalidInput, counted
from holdcourse.wind.files.data import WindData
from holdcourse.wind.policy.policies import Past

Array: TypeAlias = NDArray[np.float64]

MOST_ALTITUDES = 25
SHORTEST_SEGMENT = 24.0  # hours; in less, no policy can show anything but its way from the start
FEWEST_TIMES = 8  # of data that have to give a quarter away as history
MOST_SHOWN = 4  # altitudes in an error


def split(
    data: WindData,
    history: WindData | None,
    begin: str | None = None,
    end: str | None = None,
    *,
    allow_later_history: bool = False,
) -> tuple[WindData, WindData, list[str]]:
    """Return the test period, the past, and what was decided about them.

    History after the test period is refused, unless it is allowed explicitly: nobody could have known it.
    """
    test = data.between(begin, end)
    if history is not None:
        later = history.time > test.time[-1]
        if later.any() and not allow_later_history:
            raise InvalidInput(
                f"the history ends at {history.time[-1]}, after the test period, which ends at {test.time[-1]}; a "
                "policy may not know future wind. Give earlier data or, if you want to learn from later wind "
                "anyway, give allow_later_history=True"
            )
        outside = (history.time < test.time[0]) | (history.time > test.time[-1])
        if not outside.any():
            raise InvalidInput(
                f"the history {history.time[0]} to {history.time[-1]} lies within the test period {test.time[0]} to "
                f"{test.time[-1]}; a policy may not know future wind. Give earlier data, or begin the test later"
            )
        seen = "; it contains wind after the test period, which was allowed" if later.any() else ""
        if outside.all():
            return test, history, [f"history: {_days(history)}{seen}"]
        past = replace(history, **_rows(history, outside))
        return test, past, [f"history: {_days(past)}; what lies within the test period was left out{seen}"]
    before = data.time < test.time[0]
    if before.any():
        past = replace(data, **_rows(data, before))
        return test, past, [f"history: the data before the test period, {_days(past)}"]
    if len(test) < FEWEST_TIMES:
        raise InvalidInput(
            f"the wind has {counted(len(test), 'time')}, but {FEWEST_TIMES} or more are needed if the first quarter is "
            "to serve as history; give earlier wind as history="
        )
    cut = test.time[len(test) // 4]
    past, rest = test.between(None, cut), test.between(cut, None)
    note = f"history: no file was given, so the first quarter of the data, {_days(past)}; the test begins after it"
    return rest, past, [note]


def _rows(data: WindData, chosen: NDArray[np.bool_]) -> dict[str, Any]:
    rising = None if data.level_heights is None else data.level_heights[chosen]
    return {"time": data.time[chosen], "speed": data.speed[chosen], "level_heights": rising}


def _days(data: WindData) -> str:
    days = data.time.astype("datetime64[D]")
    return f"{days[0]} to {days[-1]}"


def choose_altitudes(low: float | None, high: float | None, count: int, series: Sequence[WindData]) -> Array:
    """Return evenly spaced altitudes; an end that is not given is the last that all data cover at every time."""
    lowest, highest = zip(*(_covered(data) for data in series), strict=True)
    bottom, top = max(lowest), min(highest)
    # A micrometre of slack, as in `WindData.at`.
    for name, wanted, inside in (("low", low, math.ceil(bottom - 1e-6)), ("high", high, math.floor(top + 1e-6))):
        if wanted is not None and not bottom - 1e-6 <= wanted <= top + 1e-6:
            raise InvalidInput(
                f"{name}={wanted:g} lies outside the heights {bottom:.1f} to {top:.1f} m that the data have at every "
                f"time; use {name}={inside}, or another altitude in between"
            )
    if bottom >= top:
        one = f"the data have wind at one height only, {bottom:g} m; altitude control needs two or more"
        none = f"the test and the history share no heights: {top:g} m is the highest, {bottom:g} m the lowest of both"
        raise InvalidInput(f"{one if bottom == top else none}; give data with more heights")
    low, high = bottom if low is None else low, top if high is None else high
    if not (0 < low < high and count >= 2):
        raise InvalidInput(
            f"altitude control needs two or more altitudes, but got {count} from {low:g} to {high:g} m; give two or "
            f"more, with low= below high= and both within {bottom:g} to {top:g} m"
        )
    return np.linspace(low, high, int(count))


def listed_altitudes(wanted: Sequence[float], series: Sequence[WindData]) -> Array:
    """Return the altitudes asked for, rising, where all data cover them at every time."""
    found = np.array(sorted(wanted), dtype=np.float64)
    if len(found) < 2 or not np.isfinite(found).all() or found[0] <= 0 or (np.diff(found) <= 0).any():
        raise InvalidInput(
            f"altitudes={','.join(f'{each:g}' for each in wanted)} must be two or more different altitudes, all above 0"
        )
    lowest, highest = zip(*(_covered(data) for data in series), strict=True)
    bottom, top = max(lowest), min(highest)
    outside = [each for each in found if not bottom - 1e-6 <= each <= top + 1e-6]
    if outside:
        shown = [f"{each:g}" for each in outside]
        shown = shown if len(shown) <= MOST_SHOWN else [shown[0], "...", shown[-1]]
        raise InvalidInput(
            f"altitudes={','.join(shown)} are outside the heights that the data have at "
            f"every time, {bottom:.1f} to {top:.1f} m; choose altitudes in between"
        )
    return found


def _covered(data: WindData) -> tuple[float, float]:
    """Return the heights that the data have at every time."""
    if data.level_heights is None:
        return float(data.heights[0]), float(data.heights[-1])
    known = np.isfinite(data.level_heights).any(axis=1)
    heights = data.level_heights[known]
    return float(np.nanmin(heights, axis=1).max()), float(np.nanmax(heights, axis=1).min())


def pieces(data: WindData, max_gap: float) -> tuple[list[WindData], list[str]]:
    """Return the gapless stretches of a day or more, and what was left out."""
    found = list(data.segments(max_gap))
    if not found:
        raise InvalidInput(
            "no stretch of the wind data is complete at these altitudes; choose others, or raise max_gap="
        )
    long_enough = [piece for piece in found if len(piece) * data.step >= SHORTEST_SEGMENT]
    if not long_enough or len(long_enough) == len(found):
        return found, []
    lost = sum(len(piece) for piece in found) - sum(len(piece) for piece in long_enough)
    short = counted(len(found) - len(long_enough), "stretch was", "stretches were")
    return long_enough, [f"{short} left out, {counted(lost, 'time')} in all, because a stretch must last a day"]


def past_of(data: WindData, altitudes: Array) -> Past:
    """Return the hours of the history that are complete at these altitudes."""
    speed = data.at(altitudes)
    whole = np.isfinite(speed).all(axis=1)
    if not whole.any():
        raise InvalidInput(
            "the history has no time at which all these altitudes have wind; choose other altitudes or give another "
            "history"
        )
    hours = (data.time[whole].astype("datetime64[h]").astype(np.int64) % 24).astype(np.float64)
    return Past(hours, speed[whole], data.time[whole].astype("datetime64[s]").astype(np.int64) / 3600.0)
