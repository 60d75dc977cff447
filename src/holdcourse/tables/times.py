"""Times as people write them, brought to UTC. What they leave open is an error, never a guess."""

from __future__ import annotations

import bisect
import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from datetime import timezone as fixed_zone
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import InvalidInput

Times: TypeAlias = NDArray[np.datetime64]  # seconds, UTC

HOUR = 3600  # seconds

# Nights to Sunday in which clocks change, as month, first and last day of that Sunday: in Europe, North America,
# Australia and Chile; Paraguay (March), Brazil until 2019 (February) and Chile until 2018 (May).
SET_BACK = ((10, 25, 31), (11, 1, 7), (4, 1, 8), (3, 22, 28), (2, 15, 28), (5, 9, 15))
# In Europe, North America, Australia, New Zealand and Chile; Brazil until 2019 (October, November), Mexico until 2022
# (April) and Chile until 2018 (August).
SET_FORWARD = (
    *((3, 25, 31), (3, 8, 14), (10, 1, 7), (9, 24, 30), (9, 1, 8)),
    *((10, 15, 21), (11, 1, 7), (4, 1, 7), (8, 9, 15)),
)

_EPOCH = datetime(1970, 1, 1)
# Days by number that can be taken for each other all stand here: what fits two of them is refused.
_DAY_FORMATS = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d-%b-%Y", "%d %b %Y"),
    "%Y-%m-%d",
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%y/%m/%d", "%d-%m-%y", "%m-%d-%y", "%y-%m-%d", "%d-%b-%y", "%b %d %Y"),
)
_CLOCK_FORMATS = (
    *(" %H:%M:%S", " %H:%M", " %H:%M:%S.%f", "T%H:%M:%S", "T%H:%M", "T%H:%M:%S.%f", " %H", ""),
    *(" %I:%M:%S %p", " %I:%M %p", ", %H:%M:%S", ", %H:%M", ", %I:%M:%S %p", ", %I:%M %p", " %H.%M", " %H:%M:%S,%f"),
)
_COMPACT_FORMATS = {8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}  # by number of digits
_LOCAL_WORDS = frozenset(("local", "lt", "lst", "cet", "cest", "met", "bst", "ist", "est", "edt", "cst", "pst", "mst"))
_UTC_WORDS = frozenset(("utc", "gmt", "zulu", "z"))
# An offset in a heading: Time (UTC+1), GMT-03:00; the 10 of "UTC-10min" is none. Signs of Etc/GMT-1 are the other way.
_HEADING_OFFSET = re.compile(
    r"(etc/|(?<![a-z/]))(?:utc|gmt)\s?([+\-\u2212])\s?(0?\d|1[0-4])(?::?([0-5]\d)|[.,](5|50|75|30|45))?"
    r"(?!\d|\s*(?:min|sec|m\b|s\b))",
    re.IGNORECASE,
)
_MINUTES = {"5": "30", "50": "30", "75": "45"}  # of UTC+5.5; UTC+5.30 has them as they are
# 24:00 is the midnight that ends a day, and so is hour 24 behind a date; the 24 of "1 Jan 24" is a year.
_END_OF_DAY = re.compile(r"(.*[ T](?=24:)|\S*\d{4}\S*[ T](?=24$))24((?::00(?::00(?:\.0+)?)?)?)")
_YEARS = ("%Y", "%y", "%G", "%c", "%x", "%D", "%s")  # directives that tell a year
# Behind a time. Letters that name several zones, such as EST, CST and IST, are not among them.
_ZONE_HOURS = {"UTC": 0, "GMT": 0, "Z": 0, "WET": 0, "WEST": 1, "CET": 1, "MEZ": 1, "CEST": 2, "MESZ": 2} | {
    "EET": 2,
    "EEST": 3,
}
_ZONE_WORD = re.compile(rf"(.*\d(?: ?[aApP][mM])?) ?\b({'|'.join(_ZONE_HOURS)})")
EXCEL = "excel"  # as a format of times: days since the end of 1899
_EXCEL_EPOCH = datetime(1899, 12, 30)
_EXCEL_DAY = re.compile(r"[1-7]\d{4}(?:[.,]\d+)?")  # in 1927 to 2118
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
        Rows repeat their times, one for each turbine or height.
    """
    place = at or (lambda row: label)
    parsed = _parsed(cells, place, time_format)
    aware = [moment.tzinfo is not None for moment in parsed]
    if all(aware):
        seconds = [_seconds(moment, row, place) for row, moment in enumerate(parsed)]
        needless = "" if timezone is None else f" (timezone={timezone} was not needed to read them)"
        return _as_times(seconds), f"times have a zone{needless}; they are shown in UTC"
    if any(aware):
        row = aware.index(not aware[0])
        raise InvalidInput(
            f"{place(row)}: some times carry a zone ({str(cells[aware.index(True)])!r}), some do not "
            f"({str(cells[aware.index(False)])!r}); write all of them in the same way"
        )
    words = set(re.findall(r"[a-z]+", column.lower()))
    timezone = timezone or heading_zone(column)
    if timezone is not None:
        times, once = _from_zone(parsed, timezone, place)
        noted = f"; {_note_of_once(once, zone_of(timezone), place)}" if once else ""
        return times, f"times read as {timezone}{'' if timezone == 'UTC' else ', shown in UTC'}{noted}"
    naive = _as_times([(moment - _EPOCH).total_seconds() for moment in parsed])
    if known_utc or words & _UTC_WORDS:
        return naive, "times are UTC, as the file says"
    if words & _LOCAL_WORDS:
        raise InvalidInput(
            f"{label}: the column {column!r} contains local times; give their zone, such as timezone=Europe/Oslo"
        )
    _require_no_clock_change(naive, label, tidy)
    return naive, "times have no zone and were read as UTC (timezone= for another)"


def joined(cells: Sequence[Any]) -> str | datetime:
    """Return one time from the cells of one column, or of two with the date and the time of day.

    A date that has a time of day or a zone itself keeps it, so that the two are refused: one would be lost.
    """
    if len(cells) == 1:
        return cells[0] if isinstance(cells[0], datetime) else cell_text(cells[0])
    day, *clock = cells
    bare = isinstance(day, datetime) and day.tzinfo is None and day.time() == time()
    first = f"{day:%Y-%m-%d}" if bare else cell_text(day)
    return " ".join([first, *(f"{c:%H:%M:%S}" if isinstance(c, datetime) else cell_text(c) for c in clock)])


def cell_text(cell: Any) -> str:
    """Return a cell as people write it: a float that is whole has no point."""
    if isinstance(cell, float):
        return f"{cell:.0f}" if cell.is_integer() and abs(cell) < 1e19 else f"{cell:.15g}"
    return str(cell).strip()


def moment(given: Any) -> np.datetime64:
    """Return one time that a person named, such as the begin of a period, in UTC; one with an offset is converted.

    >>> str(moment("2014-07-01T12:00+02:00")), str(moment("2014-07"))
    ('2014-07-01T10:00:00', '2014-07-01T00:00:00')
    """
    found = np.datetime64("NaT", "s")
    with contextlib.suppress(ValueError, OverflowError):
        if isinstance(given, str) and not re.fullmatch(r"\d{4}(-\d\d)?", given.strip()):
            given = _from_iso(given.strip())
        if isinstance(given, datetime) and given.tzinfo is not None:
            given = given.astimezone(UTC).replace(tzinfo=None)
        found = np.array([given], dtype="datetime64[s]")[0]
    if np.isnat(found):
        raise InvalidInput(f"{given!r} is not a time; write it like 2014-07-01 or 2014-07-01T12:00")
    return found


def _parsed(
    given: Sequence[str | datetime], place: Callable[[int], str], time_format: str | None
) -> Sequence[datetime]:
    dates = [isinstance(cell, datetime) for cell in given]
    if any(dates):
        if not all(dates):
            row = dates.index(False)
            raise InvalidInput(
                f"{place(row)}: {str(given[row])[:40]!r} is text, but other cells are dates; correct it, or "
                "leave the row out"
            )
        return [cell for cell in given if isinstance(cell, datetime)]
    cells = [str(cell).strip() for cell in given]
    if time_format is not None and time_format.strip().lower() == EXCEL:
        return [_excel_time(cell, row, place) for row, cell in enumerate(cells)]
    if time_format is None and not _is_iso(cells[0]) and _ZONE_WORD.fullmatch(cells[0]):
        return _with_zone_words(cells, place)
    ended = [_END_OF_DAY.fullmatch(cell) for cell in cells]
    if any(ended):
        cells = [cell if match is None else f"{match[1]}00{match[2]}" for cell, match in zip(cells, ended, strict=True)]
        began = _parsed(cells, place, time_format)
        day = timedelta(days=1)
        for row, match in enumerate(ended):
            if match and began[row].date() == date.max:  # no day follows it
                raise InvalidInput(f"{place(row)}: {str(given[row])[:40]!r} cannot be right; correct it")
        return [moment + day if match else moment for moment, match in zip(began, ended, strict=True)]
    if time_format is not None:
        if not any(year in time_format for year in _YEARS):
            raise InvalidInput(
                f"time_format={time_format!r} has no year, so the day is not known; write it with %Y or %y"
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
            f"{place(0)}: {cells[0]!r} may be {' or '.join(whole)}; say which, such as time_format='{whole[0]}'"
        )
    if whole:
        return _by_format(cells, whole[0], place)
    if fitting:
        # Raises at the cell that does not fit; of several ways, in the one that goes furthest.
        return _by_format(cells, max(fitting, key=lambda form: _first_misfit(cells, form)), place)
    bad = next((row for row, cell in enumerate(cells) if not _is_iso(cell)), 0)
    told = f"{place(bad)}: {cells[bad][:40]!r} is not a time"
    if bad:
        raise InvalidInput(f"{told} like {cells[0]!r}; correct it, or leave the row out")
    if all(_EXCEL_DAY.fullmatch(cell) for cell in cells):
        raise InvalidInput(f"{told}; if {excel_day(cells[0])}, give time_format={EXCEL}")
    raise InvalidInput(f"{told}; write times like 2020-06-30T12:00Z, or give their format with time_format=")


def _with_zone_words(cells: Sequence[str], place: Callable[[int], str]) -> list[datetime]:
    """Read times behind which their zone stands, such as CET and CEST in turn."""
    matches = [_ZONE_WORD.fullmatch(cell) for cell in cells]
    if not all(matches):
        row = matches.index(None)
        raise InvalidInput(
            f"{place(row)}: {cells[row][:40]!r} is not a time like {cells[0]!r}; correct it, or leave the row out"
        )
    found = [match for match in matches if match]
    zones = [fixed_zone(timedelta(hours=_ZONE_HOURS[match[2]])) for match in found]
    plain = _parsed([match[1] for match in found], place, None)
    return [when.replace(tzinfo=zone) for when, zone in zip(plain, zones, strict=True)]


def excel_day(cell: str) -> str:
    """Return what a number would be as Excel's count of days, for a message.

    >>> excel_day("45719,5")
    'it counts days as Excel does (45719,5 is 2025-03-03 12:00)'
    """
    return f"it counts days as Excel does ({cell} is {_excel_time(cell, 0, str):%Y-%m-%d %H:%M})"


def is_excel_day(cell: str) -> bool:
    """Return whether a number may be a day of our time as Excel counts them."""
    return _EXCEL_DAY.fullmatch(cell) is not None


def _excel_time(cell: str, row: int, place: Callable[[int], str]) -> datetime:
    if not _EXCEL_DAY.fullmatch(cell):
        raise InvalidInput(
            f"{place(row)}: {cell[:40]!r} is not a day as Excel counts them, such as 45719.5; correct it, or "
            "time_format="
        )
    whole, _, decimals = cell.replace(",", ".").partition(".")
    to = 60 if len(decimals) < 5 else 1  # seconds; four decimals are finer than a minute, five than a second
    return _EXCEL_EPOCH + timedelta(days=int(whole), seconds=to * round(86400 * float(f"0.{decimals}0") / to))


def _seconds(moment: datetime, row: int, place: Callable[[int], str]) -> float:
    """Return the seconds since 1970 of a time that carries its zone."""
    try:
        return (moment.astimezone(UTC).replace(tzinfo=None) - _EPOCH).total_seconds()
    except OverflowError:  # before the year 1 or after 9999 in UTC
        raise InvalidInput(f"{place(row)}: {moment} cannot be right; correct it") from None


def _iso(cells: Sequence[str]) -> list[datetime]:
    # A bare 2020 or 20200630 is more likely a number: only dashes or a T make it a date here.
    if not re.match(r"\d{4}-\d\d|\d{8}[T ]", cells[0]):
        raise ValueError
    return [_from_iso(cell) for cell in cells]


def _from_iso(cell: str) -> datetime:
    plain = cell.removesuffix(" UTC").removesuffix(" Z")
    moment = datetime.fromisoformat(plain)
    return moment if plain == cell or moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _is_iso(cell: str) -> bool:
    try:
        return bool(_iso([cell]))
    except (ValueError, OverflowError):
        return False


def is_unix(cell: str) -> bool:
    """Return whether a text looks like seconds since 1970, or like thousandths, millionths or billionths of them."""
    return re.fullmatch(r"(\d{9,10}|\d{12,13}|\d{15,16}|\d{18,19})(\.\d*)?", cell) is not None


def is_time(cell: str) -> bool:
    """Return whether a text is a time in one of the ways that are known; a plain number is none."""
    zoned = _ZONE_WORD.fullmatch(cell.strip())
    text = zoned[1] if zoned else cell.strip()
    return _is_iso(text) or (
        not re.fullmatch(r"\d*\.?\d*", text) and any(_fits(text, d + c) for c in _CLOCK_FORMATS for d in _DAY_FORMATS)
    )


def is_clock(cell: str) -> bool:
    """Return whether a text is a time of day, as a column beside that of the dates has them."""
    return re.fullmatch(r"\d{1,2}:\d\d(:\d\d)?( ?[ap]m)?", cell.strip().lower()) is not None


def _unix(cells: Sequence[str], place: Callable[[int], str]) -> list[datetime]:
    digits = len(cells[0].partition(".")[0])
    scale, moments = 1000.0 ** ((digits - 9) // 3), []
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
            if given and (isinstance(error, re.error) or "format" in str(error).replace("does not match format", "")):
                words = f"time_format={form!r} cannot be used ({error}); write it like %Y-%m-%d %H:%M"
                raise InvalidInput(words) from None
            if given:
                words = f"{place(row)}: {cell[:40]!r} does not fit time_format={form!r}"
                raise InvalidInput(f"{words}; correct the file or time_format=") from None
            raise InvalidInput(
                f"{place(row)}: {cell[:40]!r} is not a time like {cells[0]!r} ({form}); correct it, leave the "
                "row out, or say how times are written with time_format="
            ) from None
    return moments


def heading_zone(column: str) -> str | None:
    """Return the offset from UTC that the heading of a column of times names, or None.

    >>> heading_zone("Time (UTC+1)"), heading_zone("Time (UTC+5.5)"), heading_zone("time [UTC]")
    ('UTC+1', 'UTC+5:30', None)
    """
    found = _HEADING_OFFSET.search(column)
    if found is None:
        return None
    minutes = found[4] or _MINUTES.get(found[5], found[5])
    sign = "+" if (found[2] == "+") != bool(found[1]) else "-"
    return f"UTC{sign}{found[3]}{f':{minutes}' if minutes else ''}"


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


def _note_of_once(once: Mapping[datetime, int], zone: tzinfo, place: Callable[[int], str]) -> str:
    first, row = min(once.items(), key=lambda item: item[1])
    more = "" if len(once) == 1 else f", like {len(once) - 1} more"
    summer, winter = _with_zones(first, zone)
    return (
        f"{place(row)}: {first} stands once{more}, although its hour occurs twice; read as {summer}, before the clock "
        f"was set back; if it was {winter}, write times with their zone"
    )


def _from_zone(
    moments: Sequence[datetime], timezone: str, place: Callable[[int], str]
) -> tuple[Times, dict[datetime, int]]:
    """Return local times in UTC; and those in an hour that comes twice which stand once, with their first row."""
    zone = zone_of(timezone)
    folds, once = _folds(moments, zone, timezone, place)
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
                f"stay in winter time all year, give timezone={winter[:3]}:{winter[3:]}, otherwise correct it"
            )
        seconds.append((utc.replace(tzinfo=None) - _EPOCH).total_seconds())
    return _as_times(seconds), once


def _folds(
    moments: Sequence[datetime], zone: tzinfo, timezone: str, place: Callable[[int], str]
) -> tuple[list[int], dict[datetime, int]]:
    """Return which of the two hours each time of an autumn night stands in, and which times stand once, by their row.

    The second hour begins where times go back. That is looked for in each stretch of rows that are in order of time: a
    file may hold one after the other, such as one for each turbine.
    """
    twice = {moment for moment in set(moments) if _comes_twice(moment, zone)}
    if not twice:
        return [0] * len(moments), {}
    alone = [moment for moment in moments if moment not in twice]
    rows_of = Counter(alone)
    most = max(rows_of.values(), default=1)
    falls = sum(one > other for one, other in itertools.pairwise(alone))
    rises = sum(one < other for one, other in itertools.pairwise(alone))
    falling = falls > rises or (falls == rises and bool(alone) and moments[0] > moments[-1])
    folds, stretches = _stretches(moments, twice, falling=falling)
    # Rows of several turbines may come day by day, so there may be a stretch for each of them on each day. In rows of
    # one, some may come late, or files one after the other, as long as each such night stands in one stretch.
    nightly = {(moments[row].date(), k) for k, rows in enumerate(stretches) for row in rows if moments[row] in twice}
    split = len(nightly) > len({day for day, _ in nightly})
    if split if most == 1 else len(stretches) > most * len({moment.date() for moment in alone}):
        return _in_no_order(moments, twice, _commonest(alone), timezone, place)
    once: dict[datetime, int] = {}
    step = _usual_step(moments)
    for rows in stretches:
        usual = _commonest([moments[row] for row in rows if moments[row] not in twice])
        nights: dict[date, list[int]] = {}
        for row in rows:
            if moments[row] in twice:
                nights.setdefault(moments[row].date(), []).append(row)
        for night in nights.values():
            here = [moments[row] for row in night]
            full = _set_back_by(here[0], zone) / step if step else 1.0
            second = sum(not folds[row] for row in night)
            if second < len(night):
                open_from = None if _is_two_hours(here, second, usual, full) else second
            else:
                found = _second_hour(here, usual, full)
                second, open_from = (len(night), _first_repeated(here, usual)) if found is None else (found, None)
            if open_from is not None:
                raise InvalidInput(
                    f"{place(night[open_from])}: {here[open_from]} stands in the hour that occurs twice in {timezone}, "
                    "and the order of the rows does not tell whether the first or the second is meant; correct a row "
                    "that is late or repeated, put all rows of the first hour before those of the second, or write "
                    f"times with their zone ({' or '.join(_with_zones(here[open_from], zone))})"
                )
            for row in night[second:]:
                folds[row] = 1
            if second == len(night):
                for row in night:
                    once[moments[row]] = min(row, once.get(moments[row], row))
    return folds, once


def _stretches(
    moments: Sequence[datetime], twice: Collection[datetime], *, falling: bool
) -> tuple[list[int], list[list[int]]]:
    """Return the hours that a step back in a night tells, and the rows by stretches in order of time."""
    folds = [0] * len(moments)
    stretches: list[list[int]] = [[]]
    before: datetime | None = None
    second = False
    for row in reversed(range(len(moments))) if falling else range(len(moments)):
        now = moments[row]
        back = before is not None and now < before
        amid = before is not None and now in twice and before in twice and now.date() == before.date()
        if back and (second or not amid):
            stretches.append([])
            second = False
        else:
            second = amid and (second or back)
        folds[row] = int(second)
        stretches[-1].append(row)
        before = now
    return folds, stretches


def _is_two_hours(here: Sequence[datetime], second: int, usual: int, full: float) -> bool:
    """Return whether the step back before row `second` of a night is the clock's, not that of a late or repeated row.

    It is where both hours are complete, of `full` times each. Otherwise more than one row would have to be late, and
    the night needs more times than one hour has, or some that it has twice.
    """
    one, other = Counter(here[:second]), Counter(here[second:])
    for most, least in ((one, other), (other, one)):
        if any(rows > usual > least[moment] for moment, rows in most.items()):
            return False  # too often in the one, and too rarely in the other
    times = len(one) + len(other)
    if times >= 2 * full - 0.1:
        return True
    row_of_turbine = [moment for moment, _ in itertools.groupby(here)]
    late = len(row_of_turbine) - _longest_in_order(row_of_turbine)
    return late > 1 and (times > full + 1 or len(one.keys() & other.keys()) > 1)


def _longest_in_order(moments: Sequence[datetime]) -> int:
    """Return how many can stay where they are when the others are moved into the order of time."""
    ends: list[datetime] = []  # the earliest time in which so many in order can end
    for moment in moments:
        at = bisect.bisect_right(ends, moment)
        ends[at : at + 1] = [moment]
    return len(ends)


def _second_hour(here: Sequence[datetime], usual: int, full: float) -> int | None:
    """Return where the second hour begins in a night without a step back; its length: nowhere; None: it is open.

    Slow readings, one in an hour at most, stand twice at one time of the clock. Of faster ones, one or two equal
    neighbours are lines that were written twice; more may be rows of both hours, sorted by the clock.
    """
    if len(set(here)) == 1 and full <= 1 and len(here) > usual:
        return usual if len(here) == 2 * usual else None
    if max(Counter(here).values()) <= usual:
        return len(here)
    return None if len(here) >= 1.5 * full * usual or min(Counter(here).values()) == 2 * usual else len(here)


def _first_repeated(here: Sequence[datetime], usual: int) -> int:
    counts = Counter(here)
    return next(row for row, moment in enumerate(here) if counts[moment] > usual)


def _usual_step(moments: Sequence[datetime]) -> timedelta | None:
    steps = sorted(abs(other - one) for one, other in itertools.pairwise(moments) if one != other)
    return steps[len(steps) // 2] if steps else None


def _commonest(moments: Sequence[datetime]) -> int:
    """Return how many rows a time has, as a rule."""
    counts = Counter(Counter(moments).values())
    return counts.most_common(1)[0][0] if counts else 1


def _in_no_order(
    moments: Sequence[datetime], twice: Collection[datetime], usual: int, timezone: str, place: Callable[[int], str]
) -> tuple[list[int], dict[datetime, int]]:
    """Return the first hour for all: which one is meant can only be told where each time stands as often as others."""
    counts = Counter(moment for moment in moments if moment in twice)
    for row, moment in enumerate(moments):
        if counts[moment] > usual:
            raise InvalidInput(
                f"{place(row)}: {moment} occurs twice in {timezone}, and the rows are not in the order of time that "
                "would tell which is which; sort them, or write times with their zone "
                f"({' or '.join(_with_zones(moment, zone_of(timezone)))})"
            )
    return [0] * len(moments), {moment: row for row, moment in reversed(list(enumerate(moments))) if moment in twice}


def _with_zones(moment: datetime, zone: tzinfo) -> list[str]:
    """Return how a time is written in the first and in the second hour."""
    return [moment.replace(tzinfo=zone, fold=fold).isoformat(timespec="minutes") for fold in (0, 1)]


def _comes_twice(moment: datetime, zone: tzinfo) -> bool:
    return _set_back_by(moment, zone) > timedelta(0)


def _set_back_by(moment: datetime, zone: tzinfo) -> timedelta:
    """Return by how much the clock is set back where this time comes twice; 0 or less where it does not."""
    first, second = (moment.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    return timedelta(0) if first is None or second is None else first - second


def _as_times(seconds: Sequence[float]) -> Times:
    return np.round(np.array(seconds)).astype(np.int64).astype("datetime64[s]")


def _require_no_clock_change(times: Times, label: str, tidy: bool) -> None:
    """Raise where times without a zone skip or repeat an hour when clocks change: they are local times."""
    unique, counts = np.unique(times, return_counts=True)
    tidy = tidy or bool(np.median(counts) > 1)  # as in a table with a row for each sensor
    more = np.flatnonzero(counts > (counts.min() if tidy else 1))
    night = more[[_is_in(moment, SET_BACK) for moment in unique[more]]]
    # Rows of several turbines or heights repeat every time: an hour came twice where there are more than on other days.
    usual = np.delete(counts, night).max() if tidy else 1
    for moment in unique[night[counts[night] > usual]]:
        raise InvalidInput(
            f"{label}: {moment} occurs twice, in a night when clocks are set back, so these may be local times; "
            "give timezone=Europe/Oslo (or where you are), or timezone=UTC if they are not"
        )
    steps: NDArray[np.int64] = np.diff(unique).astype(np.int64)
    if not len(steps) or np.median(steps) > HOUR:
        return
    missing = HOUR + np.median(steps)
    for moment in unique[1:][(steps == missing)]:
        if _is_in(moment, SET_FORWARD):
            raise InvalidInput(
                f"{label}: the hour before {moment} is missing, in a night when clocks are set forward, so these may "
                "be local times; give timezone=Europe/Oslo (or where you are), or timezone=UTC if they are not"
            )


def _is_in(moment: np.datetime64, nights: Sequence[tuple[int, int, int]]) -> bool:
    """Return whether a time lies in one of these nights, from 23:00 on; each a month and the days of its Sunday."""
    when = moment.astype(datetime) + timedelta(hours=1)  # where clocks are set back at midnight, 23:00 comes twice
    if when.weekday() != 6 or when.hour > 4:
        return False
    return any(when.month == month and first <= when.day <= last for month, first, last in nights)
