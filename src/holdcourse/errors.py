"""What can go wrong, as a tree of exceptions.

::

    HoldcourseError
    ├── InvalidInput          (also a ValueError) an argument has the wrong shape, value or type
    │   ├── InvalidMetric     the movement costs are not a metric; `.indices` names the actions
    │   ├── NotComputable     the numbers are well-formed, but cannot be computed with
    │   ├── NoWindColumn      a table of wind has no wind speed: it may be a plant's; in `wind.files.csv_table`
    │   └── SeveralSheets     an Excel file has several sheets, and none is chosen; in `tables.sources`
    ├── NoActionLeft          the limits leave no action to choose
    ├── Conflict              a repeated ask or tell differs from the first
    ├── DamagedFile           a saved state or record does not contain what was written
    │   ├── IncompleteRecord  a record is intact, but its newest events are missing
    │   └── ForeignRun        the file of a run contains another run; in `experiments.store`
    ├── LogError              a record could not be written or read; nothing was changed
    │   ├── DiskFull          (also an OSError) there is no room to write it; make room and try again
    │   ├── DatabaseUnreachable   the database of shared records does not answer; try again
    │   └── LeaseLost         another process now holds the controller, and answers
    ├── TooLarge              (also a MemoryError) the request does not fit in memory
    ├── ServiceError          a service refused a request or cannot be reached; `.status` is its answer
    ├── MissingExtra          (also an ImportError) an optional part is not installed
    ├── PlantLost             a bridge cannot reach its plant, or the plant does not obey; in `bridge.plant`
    ├── Refusal               a service does not do what it was asked, with a class for each reason; in
    │                         `service.core.refusals`
    └── HttpRefusal           the same, by its HTTP status; in `service.http.errors`

Every message names the offending value and the remedy.

Examples
--------
>>> import holdcourse as hc
>>> try:
...     hc.Problem([1.0, 2.0, 2.0])
... except hc.errors.InvalidMetric as error:
...     print(error.indices)
(1, 2)
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NO_ROOM = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
LONGEST_SHOWN = 80  # characters of a value in a message
SQLITE_NO_ROOM = (10, 13)  # SQLITE_IOERR, which a limit on the size of files comes out as, and SQLITE_FULL


class HoldcourseError(Exception):
    """Base of everything that holdcourse raises on purpose."""


class InvalidInput(HoldcourseError, ValueError):  # noqa: N818 - reads better without "Error" at every call
    """An argument has the wrong shape, value or type; nothing was changed."""


class InvalidMetric(InvalidInput):
    """The movement costs are not a metric.

    Attributes
    ----------
    indices
        The actions at fault: a pair, or the triple that breaks the triangle inequality.
    """

    def __init__(self, message: str, indices: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.indices = indices


class NotComputable(InvalidInput):
    """The numbers have the right shape and type, but cannot be computed with; nothing was changed."""


class NoActionLeft(HoldcourseError):  # noqa: N818
    """The limits leave no action to choose; nothing was changed."""


class Conflict(HoldcourseError):  # noqa: N818
    """A repeated ask or tell differs from the first; the message names both. Nothing was changed.

    Attributes
    ----------
    recorded, given
        The first and the repeated request in JSON values; None if they are not known.
    """

    def __init__(self, message: str, recorded: Any = None, given: Any = None) -> None:
        super().__init__(message)
        self.recorded = recorded
        self.given = given


class DamagedFile(HoldcourseError):  # noqa: N818
    """A saved state or record does not contain what was written; it was not changed."""


class IncompleteRecord(DamagedFile):
    """A record is intact, but its newest events, which were acknowledged, are missing.

    Attributes
    ----------
    events
        Number of events that the record contains.
    missing
        Least number of events that are missing; None if it is not known.
    """

    def __init__(self, message: str, events: int, missing: int | None) -> None:
        super().__init__(message)
        self.events, self.missing = events, missing


class LogError(HoldcourseError):
    """A record could not be written or read; the message says why and what to do."""


class DiskFull(LogError, OSError):  # noqa: N818
    """The disk, a quota or a limit on the size of files leaves no room. Nothing was changed."""


class DatabaseUnreachable(LogError):  # noqa: N818
    """The database of the records does not answer, or does not accept writes.

    The request may have arrived: send it again under the same key.
    """


class LeaseLost(LogError):  # noqa: N818
    """Another process now holds the controller; nothing was changed."""


class TooLarge(HoldcourseError, MemoryError):  # noqa: N818
    """The request does not fit in memory; the message says what would fit."""


class ServiceError(HoldcourseError):
    """A service refused a request, or could not be reached.

    Attributes
    ----------
    status
        The HTTP status of its answer; None if there was none.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class MissingExtra(HoldcourseError, ImportError):  # noqa: N818
    """An optional part of holdcourse is not installed; the message contains the command that installs it."""


def plain(value: Any) -> Any:
    """A value as a message should show it: a number, not numpy's wrapping of one."""
    return value.tolist() if hasattr(value, "tolist") else value


def shown(value: Any) -> str:
    """A value as a message should show it, also within lists, tuples and mappings; if it is too long, its beginning."""
    try:
        text = repr(_unwrapped(value))
    except ValueError:  # Python writes no whole numbers of more than 4300 digits
        return "a whole number of thousands of digits"
    text = " ".join(text.split()) if "\n" in text else text  # of tables, which are printed in lines
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."


def _unwrapped(value: Any) -> Any:
    if type(value).__name__ == "datetime64":  # which `plain` turns into nanoseconds
        return str(value)
    if type(value) in (list, tuple):
        return type(value)(_unwrapped(each) for each in value)
    if type(value) is dict:
        return {_unwrapped(key): _unwrapped(each) for key, each in value.items()}
    return plain(value)


def counted(number: int, noun: str, nouns: str = "") -> str:
    """A number of things: 1 row, 2 rows, 12,000 rows; `nouns` if the plural takes more than an s."""
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"


def how_often(number: int) -> str:
    """How often something happened: never, once, twice, 3 times."""
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number:,} times")


def log_error(message: str, cause: Exception, end: str = "") -> LogError:
    """The error for a record that could not be written; `DiskFull`, with the remedy, where there is no room for it."""
    return DiskFull(f"{message}; make room{end}") if is_full(cause) else LogError(f"{message}{end}")


def file_error(message: str, cause: OSError) -> HoldcourseError:
    """The error for another file that could not be written: `DiskFull` where there is no room, else `InvalidInput`."""
    return DiskFull(message) if is_full(cause) else InvalidInput(message)


def is_full(error: BaseException) -> bool:
    """Whether an error of the operating system or of SQLite says that there is no room left."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in SQLITE_NO_ROOM
    return isinstance(error, OSError) and (isinstance(error, DiskFull) or error.errno in NO_ROOM)


@contextmanager
def computing() -> Iterator[None]:
    """Within it, arithmetic that fails becomes `NotComputable`: it is the numbers given that are at fault."""
    try:
        yield
    except HoldcourseError:
        raise
    except (ArithmeticError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise NotComputable(f"the computation failed with these numbers: {error}") from error
