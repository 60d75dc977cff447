"""What can go wrong, as a tree of exceptions.

::

    HoldcourseError
    ├── InvalidInput          (also a ValueError) an argument has the wrong shape, value or type
    │   └── InvalidMetric     the movement costs are not a metric; `.indices` names the actions
    ├── TooLarge              (also a MemoryError) the request does not fit in memory
    └── MissingExtra          (also an ImportError) an optional part is not installed

Every message names the offending value and the remedy.
"""


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


class TooLarge(HoldcourseError, MemoryError):  # noqa: N818
    """The request does not fit in memory; the message says what would."""


class MissingExtra(HoldcourseError, ImportError):  # noqa: N818
    """An optional part of holdcourse is not installed; the message holds the command that installs it."""
