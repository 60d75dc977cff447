"""Times and units as people write them, brought to UTC and m/s. What they leave open is an error, never a guess."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import InvalidInput
from holdcourse.wind.files.data import HOUR, Times

METRES_PER_SECOND = {"m/s": 1.0, "km/h": 1.0 / 3.6, "kn": 1852.0 / 3600.0, "mph": 0.44704}

_SPELLINGS = {
    "m/s": ("m/s", "ms", "ms-1", "ms**-1", "ms^-1", "mps", "m.s-1", "ms⁻¹", "meterspersecond", "metrespersecond"),
    "km/h": ("km/h", "kmh", "kph", "kmh-1", "kmh**-1", "km/hr"),
    "kn": ("kn", "kt", "kts", "knot", "knots"),
    "mph": ("mph", "mi/h", "mileh-1", "milesperhour"),
}
_CANONICAL = {spelling: unit for unit, spellings in _SPELLINGS.items() for spelling in spellings}


def speed_unit(text: str) -> str | None:
    """Return the unit that `text` names, or None.

    >>> speed_unit("m s**-1"), speed_unit("[km/h]"), speed_unit("degrees")
    ('m/s', 'km/h', None)
    """
    return _CANONICAL.get(re.sub(r"[\s_()\[\]]", "", text.lower()))


def checked_unit(text: str) -> str:
    """Return the unit that a person named."""
    unit = speed_unit(text)
    if unit is None:
        raise InvalidInput(f"units {text!r} are not known; use one of {', '.join(METRES_PER_SECOND)}")
    return unit


_EPOCH = datetime(1970, 1, 1)
_DAY_FORMATS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%d-%b-%Y", "%d %b %Y")
_CLOCK_FORMATS = (" %H:%M:%S", " %H:%M", " %H:%M:%S.%f", "T%H:%M:%S", "T%H:%M", " %H", "")
_COMPACT_FORMATS = {8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}  # by number of digits
_LOCAL_WORDS = frozenset(("local", "lt", "lst", "cet", "cest", "met", "bst", "ist", "est", "edt", "cst", "pst", "mst"))
_UTC_WORDS = frozenset(("utc", "gmt", "zulu", "z"))


def read_times(
    cells: Sequence[str],
    column: str,
    label: str,
    *,
    timezone: str | None = None,
    time_format: str | None = None,
    known_utc: bool = False,
    tidy: bool = False,
) -> tuple[Times, str]:
    """Read the cells of a time column in UTC, and note how they were understood; `tidy` rows repeat their times."""
    moments = [moment.strip() for moment in cells]
    parsed = _parsed(moments, label, time_format)
    aware = [moment.tzinfo is not None for moment in parsed]
    if all(aware):
        seconds = [(moment.astimezone(UTC).replace(tzinfo=None) - _EPOCH).total_seconds() for moment in parsed]
        needless = "" if timezone is None else f" (timezone={timezone} was not needed)"
        return _as_times(seconds), f"times carry their zone{needless}; shown in UTC"
    if any(aware):
        row = aware.index(not aware[0])
        raise InvalidInput(f"{label}: some times carry a zone ({moments[0]!r}), some do not ({moments[row]!r})")
    words = set(re.findall(r"[a-z]+", column.lower()))
    if timezone is not None:
        return _from_zone(parsed, timezone, tidy), f"times read as {timezone}, shown in UTC"
    naive = _as_times([(moment - _EPOCH).total_seconds() for moment in parsed])
    if known_utc or words & _UTC_WORDS:
        return naive, "times are UTC, as the file says"
    if words & _LOCAL_WORDS:
        raise InvalidInput(
            f"{label}: the column {column!r} holds local times; say which with timezone=, e.g. timezone=Europe/Oslo"
        )
    _require_no_clock_change(np.unique(naive) if tidy else naive, label)
    return naive, "times carry no zone: read as UTC (timezone= for another)"


def _parsed(cells: Sequence[str], label: str, time_format: str | None) -> list[datetime]:
    if time_format is not None:
        return _by_format(cells, time_format, label)
    try:
        return _iso(cells)
    except ValueError:
        pass
    compact = _COMPACT_FORMATS.get(len(cells[0]), "")
    # 2020063012 would be 2034 in seconds since 1970: read as digits of a date, which times of the past are.
    if re.fullmatch(r"(19|20)\d+", cells[0]) and all(_fits(cell, compact) for cell in cells):
        return _by_format(cells, compact, label)
    if re.fullmatch(r"\d{9,10}(\.\d+)?|\d{12,13}", cells[0]):
        return _unix(cells, label)
    formats = [day + clock for clock in _CLOCK_FORMATS for day in _DAY_FORMATS]
    fitting = [form for form in formats if _fits(cells[0], form)]
    whole = [form for form in fitting if all(_fits(cell, form) for cell in cells)]
    if len(whole) > 1:
        raise InvalidInput(
            f"{label}: {cells[0]!r} may be {' or '.join(whole)}; say which, e.g. time_format='{whole[0]}'"
        )
    if whole:
        return _by_format(cells, whole[0], label)
    if fitting:
        return _by_format(cells, fitting[0], label)  # raises at the cell that does not fit
    bad = next((cell for cell in cells if not _is_iso(cell)), cells[0])
    raise InvalidInput(
        f"{label}: {bad[:40]!r} is not a time; write times like 2020-06-30T12:00Z, or say how with time_format="
    )


def _iso(cells: Sequence[str]) -> list[datetime]:
    # A bare 2020 or 20200630 is more likely a number: only dashes or a T make it a date here.
    if not re.match(r"\d{4}-\d\d|\d{8}T", cells[0]):
        raise ValueError
    return [datetime.fromisoformat(cell.removesuffix(" UTC").removesuffix(" Z")) for cell in cells]


def _is_iso(cell: str) -> bool:
    try:
        return bool(_iso([cell]))
    except ValueError:
        return False


def _unix(cells: Sequence[str], label: str) -> list[datetime]:
    try:
        numbers = [float(cell) for cell in cells]
        scale = 1000.0 if numbers[0] > 1e11 else 1.0
        return [datetime.fromtimestamp(number / scale, UTC) for number in numbers]
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInput(f"{label}: the times look like seconds since 1970, but {error}") from None


def _fits(cell: str, form: str) -> bool:
    try:
        datetime.strptime(cell, form)
    except ValueError:
        return False
    return True


def _by_format(cells: Sequence[str], form: str, label: str) -> list[datetime]:
    try:
        return [datetime.strptime(cell, form) for cell in cells]
    except (ValueError, re.error) as error:
        raise InvalidInput(f"{label}: {error}; correct the file or time_format=") from None


def zone_of(timezone: str) -> ZoneInfo:
    """Return the zone of this name."""
    try:
        return ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        raise InvalidInput(f"timezone {timezone!r} is not known; write it like UTC or Europe/Oslo") from None


def _from_zone(moments: Sequence[datetime], timezone: str, tidy: bool) -> Times:
    zone = zone_of(timezone)
    seen: set[datetime] = set()
    seconds = []
    for moment in moments:
        # In autumn an hour comes twice: its second appearance is after the clock was set back.
        local = moment.replace(tzinfo=zone, fold=1 if moment in seen and not tidy else 0)
        seen.add(moment)
        seconds.append((local.astimezone(UTC).replace(tzinfo=None) - _EPOCH).total_seconds())
    return _as_times(seconds)


def _as_times(seconds: Sequence[float]) -> Times:
    return np.round(np.array(seconds)).astype(np.int64).astype("datetime64[s]")


def _require_no_clock_change(times: Times, label: str) -> None:
    """Raise where times without a zone skip or repeat an hour when clocks change: they are local times."""
    unique, counts = np.unique(times, return_counts=True)
    for moment in unique[counts > 1]:
        if _clock_change(moment, months=(10, 11)):
            raise InvalidInput(
                f"{label}: {moment} comes twice, in a night when clocks are set back: these may be local times; "
                "say timezone=Europe/Oslo (or where you are), or timezone=UTC if they are not"
            )
    steps: NDArray[np.int64] = np.diff(unique).astype(np.int64)
    if not len(steps) or np.median(steps) > HOUR:
        return
    missing = HOUR + np.median(steps)
    for moment in unique[1:][(steps == missing)]:
        if _clock_change(moment, months=(3,)):
            raise InvalidInput(
                f"{label}: the hour before {moment} is missing, in a night when clocks are set forward: these may be "
                "local times; say timezone=Europe/Oslo (or where you are), or timezone=UTC if they are not"
            )


def _clock_change(moment: np.datetime64, months: tuple[int, ...]) -> bool:
    """Return a Sunday night in which clocks change in Europe (last of March, October) or America (March, November)."""
    when = moment.astype(datetime)
    last = when.day > 24 and when.month in (3, 10)
    american = (when.month == 3 and 8 <= when.day <= 14) or (when.month == 11 and when.day <= 7)
    return when.month in months and when.weekday() == 6 and when.hour <= 3 and (last or american)
