"""Checks of single values at the gates where users pass them: whole numbers, finite numbers, seeds, actions, times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import InvalidInput, shown

Array: TypeAlias = NDArray[np.float64]

PLAIN_NUMBERS, ROWS = frozenset({float, int}), frozenset({list, tuple})
NO_NUMBERS = (str, bytes, bytearray, memoryview, bool)  # although `float` and numpy take them for some
NO_NUMBER_KINDS = frozenset("bSUTMmc")  # of numpy's: truth, text, times and durations, in whatever unit, complex ones
NO_FLOATS = frozenset("Mmc")  # those that numpy would turn into floats nevertheless
FLOAT = np.dtype(np.float64)
MASKED = ("MaskedArray", "MaskedConstant")
CONVERT = "text, dates, True and False are not numbers; convert them where you know what they mean"


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether it is a whole number by its type; True, False and durations are none."""
    if type(value) is int:  # nearly always, and asked in every round
        return True
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def is_finite(value: Any) -> bool:
    """Whether it is a number, and a finite one."""
    if isinstance(value, np.complexfloating):  # which Python would take for its real part
        return False
    try:
        return math.isfinite(value)
    except (TypeError, OverflowError):  # no number; a whole number beyond all floats
        return False


def is_number(value: Any) -> bool:
    """Whether it is a number, which may be infinite; NaN is none."""
    try:
        return not math.isnan(value)
    except (TypeError, OverflowError):
        return False


def are_numbers(values: Any) -> bool:
    """Whether there is no text, truth or date in it, which numpy would take for numbers; HTTP refuses them too."""
    given = type(values)  # asked of every context of every round, so what is usual comes first
    if given is float or given is int:
        return True
    if given is list or given is tuple:
        if PLAIN_NUMBERS.issuperset(map(type, values)):
            return True
        if ROWS.issuperset(map(type, values)) and PLAIN_NUMBERS.issuperset(map(type, chain.from_iterable(values))):
            return True
        return all(map(are_numbers, values))
    kind = getattr(getattr(values, "dtype", None), "kind", "")  # of arrays, numpy's scalars and columns of frames
    if kind == "O" and hasattr(values, "tolist"):
        return are_numbers(values.tolist())
    if kind:
        return kind not in NO_NUMBER_KINDS
    if isinstance(values, NO_NUMBERS):
        return False
    return not isinstance(values, Sequence) or all(map(are_numbers, values))


def one_number(value: Any, what: str) -> float:
    """The value as a float, finite or not; raises unless it is one number."""
    if type(value) is float:  # nearly always, and asked in every round
        return value
    if not are_numbers(value):
        raise InvalidInput(f"{what} must be one number, got {shown(value)}; {CONVERT}")
    if isinstance(value, np.ndarray) and value.ndim:  # which numpy took for its only entry until 2.3
        raise InvalidInput(f"{what} must be one number, got {shown(value)}")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InvalidInput(f"{what} must be one number, got {shown(value)}") from None
    except OverflowError:
        raise too_large(value, what) from None


def too_large(value: Any, what: str) -> InvalidInput:
    """The error for whole numbers beyond all floats."""
    return InvalidInput(
        f"{what} must be within plus and minus 1.8e308, the largest number that can be computed with, got "
        f"{shown(value)}; use another unit"
    )


def whole_number(value: Any, what: str, least: int) -> int:
    """The value as an int; raises unless it is a whole number from `least` on."""
    if not is_whole(value) or value < least:
        raise InvalidInput(f"{what} must be a whole number, {least} or more, got {shown(value)}")
    return int(value)


def flag(value: Any, what: str) -> bool:
    """The value as a bool; raises unless it is one, since a NaN or a word would count as yes."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f"{what} must be True or False, got {shown(value)}")
    return bool(value)


def checked_seed(seed: Any, what: str = "seed") -> int:
    """The seed as an int; raises unless it can key the random stream.

    An int of Python's own: the stream multiplies it beyond 64 bits, where numpy's would overflow.
    """
    if not is_whole(seed) or not 0 <= seed < 2**64:
        raise InvalidInput(f"{what} must be a whole number from 0 to 2^64 - 1, got {shown(seed)}")
    return int(seed)


def check_index(action: Any, n: int) -> None:
    """Raise unless `action` is a whole number 0..n-1."""
    if not is_whole(action) or not 0 <= action < n:
        raise InvalidInput(f"the action {shown(action)} is not an index from 0 to {n - 1}")


def require_numbers(values: Any, what: str) -> None:
    """Raise where there is text, True, False or a date among them."""
    if not are_numbers(values):
        raise InvalidInput(f"{what} must be numbers, got {shown(values)}; {CONVERT}")


def with_gaps(values: Any) -> Any:
    """What numpy masks, as NaN: a conversion would take what lies under the mask for numbers."""
    if type(values).__name__ in MASKED:
        return np.nan if values.shape == () else np.asarray(values.astype(np.float64).filled(np.nan))
    return values


def float_array(values: Any, what: str, *, copy: bool = True) -> Array:
    """A copy as floats in row order, as the kernels read it; `what` names the values in the error.

    With ``copy=False`` the values themselves, if they are such an array.
    """
    if not copy and type(values) is np.ndarray and values.dtype is FLOAT and values.flags.c_contiguous:
        return values  # as in every round
    if getattr(getattr(values, "dtype", None), "kind", "") in NO_FLOATS:
        raise InvalidInput(f"{what} must be numbers, got {shown(values)}; {CONVERT}")
    try:
        convert = np.array if copy else np.asarray  # np.array(..., copy=None) is unknown to numpy 1
        return convert(with_gaps(values), dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise InvalidInput(f"{what} must be numbers, all rows of the same length, got {shown(values)}") from None
    except OverflowError:
        raise too_large(values, what) from None


def require_finite(array: Array, what: str) -> None:
    """Raise where an entry is not finite; it is named."""
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = tuple(int(k) for k in bad[0])
        raise InvalidInput(
            f"{what} must be finite, but entry {where if len(where) > 1 else where[0]} is {array[where]:g}"
        )


def array_of(values: Any, what: str) -> NDArray[Any]:
    """The values as an array of whatever kind; raises where rows differ in length."""
    try:
        return np.asarray(values)
    except ValueError:
        raise InvalidInput(f"{what} must be a list, or rows of the same length, got {shown(values)}") from None


def file_path(given: Any, what: str = "path") -> Path:
    """The path of a file; raises unless it may be one."""
    if not isinstance(given, str | PathLike) or not (path := Path(given)).name:
        raise InvalidInput(f"{what} must be the path of a file, such as 'mill.log', got {shown(given)}")
    return path


def whole_as_int(given: Any) -> Any:
    """A float that is a whole number as an int, anything else as it is: JSON does not tell 3 from 3.0."""
    return int(given) if isinstance(given, float) and given.is_integer() else given


def hours_since_1970(time: str | datetime | np.datetime64) -> float:
    """The time in hours since 1970, UTC; a `datetime64` is UTC, all else must say its zone.

    >>> hours_since_1970("1970-01-02T03:30+01:00")
    26.5
    """
    if isinstance(time, np.datetime64):
        seconds = float(time.astype("datetime64[us]").astype(np.int64)) / 1e6
        if np.isnat(time):
            raise InvalidInput("the time is missing (NaT); give one such as 2026-03-01T07:00Z")
        return seconds / 3600.0
    try:
        moment = datetime.fromisoformat(time) if isinstance(time, str) else time
    except ValueError:
        raise InvalidInput(f"{time!r:.80} is not a time; write it like 2026-03-01T07:00Z") from None
    if moment.tzinfo is None:
        raise InvalidInput(f"the time {time!s:.80} does not say its zone; write it like 2026-03-01T07:00Z or +01:00")
    return moment.timestamp() / 3600.0
