"""Which part of a record is the past and which is flown, at which altitudes, and in how many pieces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import InvalidInput
from holdcourse.wind.policies import Past
from holdcourse.wind.record import WindRecord

Array: TypeAlias = NDArray[np.float64]

MOST_ALTITUDES = 25
SHORTEST_SEGMENT = 24.0  # hours; in less, no policy can show anything but its way from the start
FEWEST_TIMES = 8  # of a record that has to give a quarter away as history


def split(
    record: WindRecord, history: WindRecord | None, begin: str | None = None, end: str | None = None
) -> tuple[WindRecord, WindRecord, list[str]]:
    """The test period, the past, and what was decided about them."""
    test = record.between(begin, end)
    if history is not None:
        outside = (history.time < test.time[0]) | (history.time > test.time[-1])
        if not outside.any():
            raise InvalidInput(
                f"the history {history.time[0]} to {history.time[-1]} lies within the test period {test.time[0]} to "
                f"{test.time[-1]}; a policy may not know the wind to come: give earlier data, or begin the test later"
            )
        if outside.all():
            return test, history, [f"history: {_days(history)}"]
        past = replace(history, **_rows(history, outside))
        return test, past, [f"history: {_days(past)}; what lies within the test period was left out"]
    before = record.time < test.time[0]
    if before.any():
        past = replace(record, **_rows(record, before))
        return test, past, [f"history: the record before the test period, {_days(past)}"]
    if len(test) < FEWEST_TIMES:
        raise InvalidInput(f"{len(test)} times are too few to take history from; give the past with --history FILE")
    cut = test.time[len(test) // 4]
    past, rest = test.between(None, cut), test.between(cut, None)
    said = f"history: no file was given, so the first quarter of the record, {_days(past)}; the test begins after it"
    return rest, past, [said]


def _rows(record: WindRecord, chosen: NDArray[np.bool_]) -> dict[str, Any]:
    rising = None if record.level_heights is None else record.level_heights[chosen]
    return {"time": record.time[chosen], "speed": record.speed[chosen], "level_heights": rising}


def _days(record: WindRecord) -> str:
    days = record.time.astype("datetime64[D]")
    return f"{days[0]} to {days[-1]}"


def choose_altitudes(low: float | None, high: float | None, count: int, records: Sequence[WindRecord]) -> Array:
    """Evenly spaced altitudes; an end that is not given is the last that every record covers at every time."""
    lowest, highest = zip(*(_covered(record) for record in records), strict=True)
    bottom, top = max(lowest), min(highest)
    # A micrometre of slack, as in `WindRecord.at`.
    for option, wanted, inside in (("--low", low, math.ceil(bottom - 1e-6)), ("--high", high, math.floor(top + 1e-6))):
        if wanted is not None and not bottom - 1e-6 <= wanted <= top + 1e-6:
            raise InvalidInput(
                f"{option} {wanted:g} lies outside the heights {bottom:.1f} to {top:.1f} m that the data have at every "
                f"time; use {option} {inside}, or another altitude in between"
            )
    low, high = bottom if low is None else low, top if high is None else high
    if not (0 < low < high and count >= 2):
        raise InvalidInput(
            f"a choice of altitude needs two or more, from a lowest to a higher one, got {count} from {low:g} to "
            f"{high:g} m; give low and high within the heights of the data, or data with more heights"
        )
    return np.linspace(low, high, int(count))


def _covered(record: WindRecord) -> tuple[float, float]:
    """The heights that the record has at every time."""
    if record.level_heights is None:
        return float(record.heights[0]), float(record.heights[-1])
    known = np.isfinite(record.level_heights).any(axis=1)
    heights = record.level_heights[known]
    return float(np.nanmin(heights, axis=1).max()), float(np.nanmax(heights, axis=1).min())


def pieces(record: WindRecord, max_gap: float) -> tuple[list[WindRecord], list[str]]:
    """Gapless stretches of a day or more, and what was left out."""
    found = list(record.segments(max_gap))
    if not found:
        raise InvalidInput("no stretch of the record is complete at these altitudes; choose others, or raise --max-gap")
    long_enough = [piece for piece in found if len(piece) * record.step >= SHORTEST_SEGMENT]
    if not long_enough or len(long_enough) == len(found):
        return found, []
    lost = sum(len(piece) for piece in found) - sum(len(piece) for piece in long_enough)
    said = f"{len(found) - len(long_enough)} stretches shorter than a day, {lost} times together, were left out"
    return long_enough, [said]


def past_of(record: WindRecord, altitudes: Array) -> Past:
    """The hours of the history that are complete at these altitudes."""
    speed = record.at(altitudes)
    whole = np.isfinite(speed).all(axis=1)
    if not whole.any():
        raise InvalidInput("no time of the history is complete at these altitudes; choose others or give other history")
    hours = (record.time[whole].astype("datetime64[h]").astype(np.int64) % 24).astype(np.float64)
    return Past(hours, speed[whole], record.time[whole].astype("datetime64[s]").astype(np.int64) / 3600.0)
