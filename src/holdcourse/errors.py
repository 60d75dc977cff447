"""What can go wrong, as a tree of exceptions.

::

    HoldcourseError
    ├── InvalidInput          (also a ValueError) an argument has the wrong shape, value or type
    │   └── InvalidMetric     the movement costs are not a metric; `.indices` names the actions
    ├── NoActionLeft          the limits leave no action to choose
    ├── Conflict              a repeated ask or tell says something else than before
    ├── DamagedFile           a saved state or record does not hold what was written
    ├── TooLarge              (also a MemoryError) the request does not fit in memory
    └── MissingExtra          (also an ImportError) an optional part is not installed

Every message names the offending value and the remedy.
"""

from typing import Any


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


class NoActionLeft(HoldcourseError):  # noqa: N818
    """The limits leave no action to choose; nothing was changed."""


class Conflict(HoldcourseError):  # noqa: N818
    """A repeated ask or tell says something else than before; the message names both. Nothing was changed."""


class DamagedFile(HoldcourseError):  # noqa: N818
    """A saved state or record does not hold what was written; it was not changed."""


class TooLarge(HoldcourseError, MemoryError):  # noqa: N818
    """The request does not fit in memory; the message says what would."""


class MissingExtra(HoldcourseError, ImportError):  # noqa: N818
    """An optional part of holdcourse is not installed; the message holds the command that installs it."""


def plain(value: Any) -> Any:
    """A value as a message should show it: a number, not numpy's wrapping of one."""
    return value.tolist() if hasattr(value, "tolist") else value
