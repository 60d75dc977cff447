"""Times as people write them, brought to UTC. What they leave open is an error, never a guess."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from datetime import MAXYEAR, UTC, datetime, timedelta, tzinfo
from datetime import timezone as fixed_zone
from typing import TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import InvalidInput

Times: TypeAlias = NDArray[np.datetime64]  # seconds, UTC

HOUR = 3600  # seconds

_EPOCH = datetime(1970, 1, 1)
# Days by number that can be taken for each other all stand here: what fits two of them is refused.
_DAY_FORMATS = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d-%b-%Y", "%d %b %Y"),
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%y/%m/%d", "%d-%m-%y", "%m-%d-%y", "%y-%m-%d", "%d-%b-%y", "%b %d %Y"),
)
_CLOCK_FORMATS = (
    *(" %H:%M:%S", " %H:%M", " %H:%M:%S.%f", "T%H:%M:%S", "T%H:%M", "T%H:%M:%S.%f", " %H", ""),
    *(" %I:%M:%S %p", " %I:%M %p", ", %H:%M:%S", ", %H:%M", ", %I:%M:%S %p", ", %I:%M %p", " %H.%M", " %H:%M:%S,%f"),
)
_COMPACT_FORMATS = {8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}  # by number of digits
_LOCAL_WORDS = frozenset(("local", "lt", "lst", "cet", "cest", "met", "bst", "ist", "est", "edt", "cst", "pst", "mst"))
_UTC_WORDS = frozenset(("utc", "gmt", "zulu", "z"))
_END_OF_DAY = re.compile(r"(.*[ T])24(:00(?::00(?:\.0+)?)?)")  # 24:00 is the midnight that ends a day
_YEARS = ("%Y", "%y", "%G", "%c", "%x", "%D", "%s")  # directives that tell a year
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?([0-5]\d))?", re.IGNORECASE)


def read_times(
    cells: Sequence[str | datetime],
    column: str,
    label: str,
    *,
    at: Callable[[int], str] | None = None,
    timezone: str | None = None,
    time_format: str | None = None,
    known_utc: bool = False,
    tidy: bool = False,
) -> tuple[Times, str]:
    """Read the cells of a time column in UTC, and note how they were understood.

    Parameters
    ----------
    at
        Says where a row stands, for messages; default: nothing but `label`.
    timezone
        Zone of times that carry none, e.g. ``Europe/Oslo``, or an offset such as ``+01:00``.
    time_format
        How they are written, e.g. ``%d/%m/%Y %H:%M``.
    known_utc
        Times without a zone are UTC, as the file says elsewhere.
    tidy
        Rows repeat their times.
    """
    place = at or (lambda row: label)
    parsed = _parsed(cells, place, time_format)
    aware = [moment.tzinfo is not None for moment in parsed]
    if all(aware):
        seconds = [_seconds(moment, row, place) for row, moment in enumerate(parsed)]
        needless = "" if timezone is None else f" (timezone={timezone} was not needed)"
        return _as_times(seconds), f"times carry their zone{needless}; shown in UTC"
    if any(aware):
        row = aware.index(not aware[0])
        raise InvalidInput(
            f"{place(row)}: some times carry a zone ({str(cells[aware.index(True)])!r}), some do not "
            f"({str(cells[aware.index(False)])!r}); write all of them alike"
        )
    words = set(re.findall(r"[a-z]+", column.lower()))
    if timezone is not None:
        times, unsure = _from_zone(parsed, timezone, tidy, place)
        noted = f"; {unsure} in the hour that comes twice stand once: read as before the change" if unsure else ""
        return times, f"times read as {timezone}, shown in UTC{noted}"
    naive = _as_times([(moment - _EPOCH).total_seconds() for moment in parsed])
    if known_utc or words & _UTC_WORDS:
        return naive, "times are UTC, as the file says"
    if words & _LOCAL_WORDS:
        raise InvalidInput(
            f"{label}: the column {column!r} holds local times; say which with timezone=, e.g. timezone=Europe/Oslo"
        )
    _require_no_clock_change(np.unique(naive) if tidy else naive, label)
    return naive, "times carry no zone: read as UTC (timezone= for another)"


def _parsed(
    given: Sequence[str | datetime], place: Callable[[int], str], time_format: str | None
) -> Sequence[datetime]:
    dates = [isinstance(cell, datetime) for cell in given]
    if any(dates):
        if not all(dates):
            row = dates.index(False)
            raise InvalidInput(f"{place(row)}: {str(given[row])[:40]!r} is a text where others are dates; correct it")
        return [cell for cell in given if isinstance(cell, datetime)]
    cells = [str(cell).strip() for cell in given]
    ended = [_END_OF_DAY.fullmatch(cell) for cell in cells]
    if any(ended):
        cells = [cell if match is None else f"{match[1]}00{match[2]}" for cell, match in zip(cells, ended, strict=True)]
        began = _parsed(cells, place, time_format)
        day = timedelta(days=1)
        try:
            return [moment + day if match else moment for moment, match in zip(began, ended, strict=True)]
        except OverflowError:  # the last day that there is
            row = max(row for row, match in enumerate(ended) if match and began[row].year == MAXYEAR)
            raise InvalidInput(f"{place(row)}: {str(given[row])[:40]!r} cannot be right; correct it") from None
    if time_format is not None:
        if not any(year in time_format for year in _YEARS):
            raise InvalidInput(
                f"time_format={time_format!r} has no year, so no day can be told; write it with %Y or %y"
            )
        return _by_format(cells, time_format, place, given=True)
    try:
        return _iso(cells)
    except (ValueError, OverflowError):
        pass
    compact = _COMPACT_FORMATS.get(len(cells[0]), "")
    # 2020063012 would be 2034 in seconds since 1970: read as digits of a date, which times of the past are.
    if re.fullmatch(r"(19|20)\d+", cells[0]) and _fits(cells[0], compact):
        return _by_format(cells, compact, place)
    if is_unix(cells[0]):
        return _unix(cells, place)
    formats = [day + clock for clock in _CLOCK_FORMATS for day in _DAY_FORMATS]
    fitting = [form for form in formats if _fits(cells[0], form)]
    whole = [form for form in fitting if all(_fits(cell, form) for cell in cells)]
    if len(whole) > 1:
        raise InvalidInput(
            f"{place(0)}: {cells[0]!r} may be {' or '.join(whole)}; say which, e.g. time_format='{whole[0]}'"
        )
    if whole:
        return _by_format(cells, whole[0], place)
    if fitting:
        # Raises at the cell that does not fit; of several ways, in the one that goes furthest.
        return _by_format(cells, max(fitting, key=lambda form: _first_misfit(cells, form)), place)
    bad = next((row for row, cell in enumerate(cells) if not _is_iso(cell)), 0)
    raise InvalidInput(
        f"{place(bad)}: {cells[bad][:40]!r} is not a time; write times like 2020-06-30T12:00Z, or say how with "
        "time_format="
    )


def _seconds(moment: datetime, row: int, place: Callable[[int], str]) -> float:
    """Return the seconds since 1970 of a time that carries its zone."""
    try:
        return (moment.astimezone(UTC).replace(tzinfo=None) - _EPOCH).total_seconds()
    except OverflowError:  # before the year 1 or after 9999 in UTC
        raise InvalidInput(f"{place(row)}: {moment} cannot be right; correct it") from None


def _iso(cells: Sequence[str]) -> list[datetime]:
    # A bare 2020 or 20200630 is more likely a number: only dashes or a T make it a date here.
    if not re.match(r"\d{4}-\d\d|\d{8}T", cells[0]):
        raise ValueError
    return [datetime.fromisoformat(cell.removesuffix(" UTC").removesuffix(" Z")) for cell in cells]


def _is_iso(cell: str) -> bool:
    try:
        return bool(_iso([cell]))
    except (ValueError, OverflowError):
        return False


def is_unix(cell: str) -> bool:
    """Return whether a text looks like seconds or milliseconds since 1970."""
    return re.fullmatch(r"\d{9,10}(\.\d+)?|\d{12,13}", cell) is not None


def is_time(cell: str) -> bool:
    """Return whether a text is a time in one of the ways that are known; a plain number is none."""
    text = cell.strip()
    return _is_iso(text) or (
        not re.fullmatch(r"[\d.]+", text) and any(_fits(text, d + c) for c in _CLOCK_FORMATS for d in _DAY_FORMATS)
    )


def _unix(cells: Sequence[str], place: Callable[[int], str]) -> list[datetime]:
    scale, moments = 1000.0 if float(cells[0]) > 1e11 else 1.0, []
    for row, cell in enumerate(cells):
        if not is_unix(cell) or len(cell.partition(".")[0]) != len(cells[0].partition(".")[0]):
            raise InvalidInput(
                f"{place(row)}: the times look like seconds since 1970 ({cells[0]}), but {cell[:40]!r} does not; "
                "correct it"
            )
        moments.append(datetime.fromtimestamp(float(cell) / scale, UTC))
    return moments


def _fits(cell: str, form: str) -> bool:
    try:
        datetime.strptime(cell, form)
    except ValueError:
        return False
    return True


def _first_misfit(cells: Sequence[str], form: str) -> int:
    return next((row for row, cell in enumerate(cells) if not _fits(cell, form)), len(cells))


def _by_format(cells: Sequence[str], form: str, place: Callable[[int], str], *, given: bool = False) -> list[datetime]:
    moments = []
    for row, cell in enumerate(cells):
        try:
            if form in _COMPACT_FORMATS.values() and len(cell) != len(cells[0]):  # a digit more or less is no date
                raise ValueError(f"{cell!r} has {len(cell)} digits")
            moments.append(datetime.strptime(cell, form))
        except (ValueError, re.error) as error:
            if given:
                raise InvalidInput(f"{place(row)}: {error}; correct the file or time_format=") from None
            raise InvalidInput(
                f"{place(row)}: {cell[:40]!r} is not a time like {cells[0]!r} ({form}); correct it, or say how times "
                "are written with time_format="
            ) from None
    return moments


def zone_of(timezone: str) -> tzinfo:
    """Return the zone of this name, or of an offset such as ``+01:00``."""
    offset = _OFFSET.fullmatch(timezone.strip())
    if offset and int(offset[2]) <= 14:
        sign = -1 if offset[1] == "-" else 1
        return fixed_zone(sign * timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0)))
    try:
        return ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        raise InvalidInput(f"timezone {timezone!r} is not known; write it like UTC, Europe/Oslo or +01:00") from None


def _from_zone(
    moments: Sequence[datetime], timezone: str, tidy: bool, place: Callable[[int], str]
) -> tuple[Times, int]:
    """Return local times in UTC, and how many stand once in an hour that comes twice."""
    zone = zone_of(timezone)
    folds, unsure = ([0] * len(moments), 0) if tidy else _folds(moments, zone, timezone, place)
    seconds = []
    for row, (moment, fold) in enumerate(zip(moments, folds, strict=True)):
        try:
            utc = moment.replace(tzinfo=zone, fold=fold).astimezone(UTC)
            exists = utc.astimezone(zone).replace(tzinfo=None) == moment
        except OverflowError:
            raise InvalidInput(f"{place(row)}: {moment} cannot be right; correct it") from None
        if not exists:
            winter = moment.replace(tzinfo=zone, fold=0).strftime("%z")
            raise InvalidInput(
                f"{place(row)}: {moment} does not exist in {timezone}, where clocks were set forward; if the times "
                f"keep to winter time all year, say timezone={winter[:3]}:{winter[3:]}, else correct it"
            )
        seconds.append((utc.replace(tzinfo=None) - _EPOCH).total_seconds())
    return _as_times(seconds), unsure


def _folds(
    moments: Sequence[datetime], zone: tzinfo, timezone: str, place: Callable[[int], str]
) -> tuple[list[int], int]:
    """Return which of the two hours each time of an autumn night stands in: the second begins where times go back."""
    folds = [0] * len(moments)
    twice = [row for row, moment in enumerate(moments) if _comes_twice(moment, zone)]
    if not twice:
        return folds, 0
    nights: dict[object, list[int]] = {}
    for row in twice:
        nights.setdefault(moments[row].date(), []).append(row)
    amid = set(twice)
    once = [moment for row, moment in enumerate(moments) if row not in amid]
    rising = all(one <= other for one, other in itertools.pairwise(once))
    falling = not rising and all(one >= other for one, other in itertools.pairwise(once))
    unsure = 0
    for rows in nights.values():
        order = rows[::-1] if falling else rows
        here = [moments[row] for row in order]
        fold = 0
        for k, row in enumerate(order):
            fold = 1 if k and here[k] <= here[k - 1] else fold
            folds[row] = fold
        unsure += len(here) if not fold else 0
    utc = [m.replace(tzinfo=zone, fold=fold).astimezone(UTC) for m, fold in zip(moments, folds, strict=True)]
    if all(one <= other for one, other in itertools.pairwise(utc[::-1] if falling else utc)):
        return folds, unsure
    for rows in nights.values():  # in no order: which hour is meant can only be told where each time stands once
        here = [moments[row] for row in rows]
        if len(set(here)) < len(here):
            raise InvalidInput(
                f"{place(rows[0])}: {here[0]} comes twice in {timezone}, and the rows are in no order of time to tell "
                "which is which; sort them, or write times with their zone (2020-10-25T02:00+01:00)"
            )
    return [0] * len(moments), len(twice)


def _comes_twice(moment: datetime, zone: tzinfo) -> bool:
    first, second = (moment.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    return first is not None and second is not None and first > second


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
