"""What the columns of a CSV file hold, by their names."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from holdcourse.errors import InvalidInput
from holdcourse.wind.units import speed_unit

HIGHEST = 20_000.0  # m; a larger number in a name is no height

_TIME_NAMES = frozenset(("time", "timestamp", "datetime", "valid", "date", "utc", "times", "zeit", "t", "gmt"))
_SPEED_WORDS = frozenset(("ws", "wspd", "wsp", "speed", "windspeed", "spd", "velocity", "vel", "hws", "ff"))
_HEIGHT_WORDS = frozenset(("height", "altitude", "alt", "z", "agl", "elevation", "heights"))
# Other words that may stand beside a speed; anything else (std, gust, direction, hPa, ...) makes it another quantity.
_PLAIN_WORDS = frozenset(
    (
        *("wind", "horizontal", "horiz", "m", "meter", "meters", "metre", "metres", "s", "of", "the", "at", "above"),
        *("ground", "level", "agl", "height", "avg", "mean", "average"),
    )
)
_UNIT_WORDS = frozenset(("ms", "mps", "kmh", "kph", "kn", "kt", "kts", "knots", "mph"))


@dataclass(frozen=True)
class Column:
    """A column of wind speeds: its position, its height if the name tells, its unit if the name tells."""

    index: int
    height: float
    unit: str | None


def time_columns(names: Sequence[str]) -> list[int]:
    """The column of times, or the two of date and time of day; the first column if none is named so."""
    words = [set(re.findall(r"[a-z]+", name.lower())) for name in names]
    both = [
        next((i for i, name in enumerate(names) if name.strip().lower() == wanted), None) for wanted in ("date", "time")
    ]
    if both[0] is not None and both[1] is not None:
        return [both[0], both[1]]
    named = [i for i, found in enumerate(words) if found & _TIME_NAMES and not found & _SPEED_WORDS]
    return named[:1] or [0]


def wide_columns(names: Sequence[str], label: str) -> list[Column]:
    """Every column whose name is a wind speed at a height, in order of height."""
    found = [column for index, name in enumerate(names) if (column := _speed_column(index, name)) and column.height > 0]
    if not found:
        # Bare numbers are heights only where nothing else is.
        found = [column for index, name in enumerate(names) if (column := _bare_height(index, name))]
    found.sort(key=lambda column: column.height)
    for one, other in itertools.pairwise(found):
        if one.height == other.height:
            raise InvalidInput(
                f"{label}: the columns {names[one.index]!r} and {names[other.index]!r} are both the speed at "
                f"{one.height:g} m; keep one of them"
            )
    return found


def tidy_columns(names: Sequence[str], label: str) -> tuple[int, Column]:
    """The column of heights and the column of speeds of a tidy table."""
    heights = [
        index
        for index, name in enumerate(names)
        if (words := set(re.findall(r"[a-z]+", name.lower()))) & _HEIGHT_WORDS and not words & _SPEED_WORDS
    ]
    speeds = [column for index, name in enumerate(names) if (column := _speed_column(index, name))]
    if not heights or not speeds:
        raise InvalidInput(
            f"{label}: no column is a wind speed at a height; the columns are {', '.join(map(repr, names))[:200]}. "
            "Name them like ws_100m, or give rows of time, height, speed"
        )
    if len(heights) > 1 or len(speeds) > 1:
        several = [names[i] for i in heights] if len(heights) > 1 else [names[column.index] for column in speeds]
        raise InvalidInput(f"{label}: {' and '.join(map(repr, several))} may both be meant; keep one of them")
    return heights[0], speeds[0]


def _speed_column(index: int, name: str) -> Column | None:
    """A wind speed; height 0 where the name has none."""
    text = name.lower()
    unit = None
    for bracket in re.findall(r"[(\[]([^)\]]*)[)\]]", text):
        unit = unit or speed_unit(bracket)
    text = re.sub(r"[(\[][^)\]]*[)\]]", " ", text).replace("km/h", "kmh").replace("m/s", "ms")
    words = re.findall(r"[a-z]+", text)
    numbers = re.findall(r"\d+(?:\.\d+)?", text)
    strange = [word for word in words if word not in _SPEED_WORDS | _PLAIN_WORDS | _UNIT_WORDS]
    if strange or len(numbers) > 1 or not set(words) & _SPEED_WORDS:
        return None
    unit = unit or next((speed_unit(word) for word in words if word in _UNIT_WORDS), None)
    height = float(numbers[0]) if numbers else 0.0
    return Column(index, height, unit) if height <= HIGHEST else None


def _bare_height(index: int, name: str) -> Column | None:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:m|meters?|metres?)?\s*", name.lower())
    height = float(match[1]) if match else 0.0
    return Column(index, height, None) if 0 < height <= HIGHEST else None
