"""Compressed files are unpacked under a bound, counted as the bytes come out: what a header says may be wrong."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Protocol

from holdcourse.errors import InvalidInput, TooLarge

VARIABLE = "HOLDCOURSE_UNPACK_GB"
LARGEST_GB = 16.0  # of one archive, unless the variable says otherwise
MOST_TIMES = 50  # what wind shrinks to is a fifth to a twentieth; a file of one repeated byte to a thousandth
ALWAYS_ALLOWED = 16 << 20  # bytes, whatever the ratio: a small file of zeros does no harm
PART = 1 << 20  # bytes at a time


class Stream(Protocol):
    """A file or member of an archive that can be read from."""

    def read(self, size: int, /) -> bytes:
        """Read at most so many bytes; none are left at the end."""


def allowed_bytes(packed: int, label: str) -> tuple[int, str]:
    """How much a file of `packed` bytes may unpack to, and what to say where it is more."""
    given = os.environ.get(VARIABLE, str(LARGEST_GB))
    try:
        largest = float(given)
    except ValueError:
        largest = math.nan
    if not (math.isfinite(largest) and largest > 0):
        raise InvalidInput(f"{VARIABLE} must be a number of gigabytes above 0, such as 16, got {given!r}")
    by_ratio = max(ALWAYS_ALLOWED, MOST_TIMES * packed)
    if by_ratio < largest * 1e9:
        return by_ratio, (
            f"{label} unpacks to more than {by_ratio / 1e6:.0f} MB, {by_ratio / packed:.0f} times its {packed} bytes, "
            "as no wind data do; if it is right, unpack it yourself and give the plain file"
        )
    return int(largest * 1e9), (
        f"{label} unpacks to more than {largest:g} GB; unpack it yourself and give the plain file, or allow more: "
        f"{VARIABLE}={2 * largest:g}"
    )


def parts(stream: Stream, most: int, refusal: str) -> Iterator[bytes]:
    """The bytes of a stream that unpacks, part by part; `TooLarge` as soon as there are more than `most`."""
    seen = 0
    while part := stream.read(min(PART, most - seen + 1)):
        seen += len(part)
        if seen > most:
            raise TooLarge(refusal)
        yield part
