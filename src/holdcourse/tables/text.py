"""The text of a file: unpacked under a bound, decoded.

Compressed files are unpacked under a bound, counted as the bytes come out: what a header says may be wrong.
"""

from __future__ import annotations

import codecs
import gzip
import io
import lzma
import math
import os
import unicodedata
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from holdcourse.errors import DamagedFile, InvalidInput, TooLarge, shown

VARIABLE = "HOLDCOURSE_UNPACK_GB"
LARGEST_GB = 16.0  # of one archive, unless the variable says otherwise
MOST_TIMES = 50  # what readings shrink to is a fifth to a twentieth; a file of one repeated byte to a thousandth
ALWAYS_ALLOWED = 16 << 20  # bytes, whatever the ratio: a small file of zeros does no harm
PART = 1 << 20  # bytes at a time
LARGEST_TEXT = 1 << 29  # bytes, unpacked
MOST_SENT = 1 << 26  # bytes, unpacked, of a file that was sent
MOST_CELLS = 30_000_000  # a year of minutes in fifty columns; each takes some sixty bytes of memory
SEPARATORS = (b",", b";", b"\t", b"|", b"\n", b"\r", b"\x0b", b"\x0c", b"\x1c", b"\x1d", b"\x1e")
# Longest first: the mark of UTF-32 begins like that of UTF-16.
MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class Stream(Protocol):
    """A file or member of an archive that can be read from."""

    def read(self, size: int, /) -> bytes:
        """Read at most so many bytes; none are left at the end."""


class Text(NamedTuple):
    """The text of a file, and how its bytes were read."""

    text: str
    encoding: str


def allowed_bytes(packed: int, label: str) -> tuple[int, str]:
    """Return how much a file of `packed` bytes may unpack to, and what to say where it is more."""
    given = os.environ.get(VARIABLE, str(LARGEST_GB))
    try:
        largest = float(given)
    except ValueError:
        largest = math.nan
    if not (math.isfinite(largest) and largest > 0):
        raise InvalidInput(f"{VARIABLE} must be a number of gigabytes above 0, such as 16, got {shown(given)}")
    by_ratio = max(ALWAYS_ALLOWED, MOST_TIMES * packed)
    if by_ratio < largest * 1e9:
        return by_ratio, (
            f"{label} unpacks to more than {by_ratio / 1e6:.0f} MB, {by_ratio / packed:.0f} times its {packed} bytes, "
            "which neither wind data nor readings do; if it is right, unpack it yourself and give the plain file"
        )
    return int(largest * 1e9), (
        f"{label} unpacks to more than {largest:g} GB; unpack it yourself and give the plain file, or allow more: "
        f"{VARIABLE}={2 * largest:g}"
    )


def parts(stream: Stream, most: int, refusal: str) -> Iterator[bytes]:
    """Read the bytes of a stream that unpacks, part by part; `TooLarge` as soon as there are more than `most`."""
    seen = 0
    while part := stream.read(min(PART, most - seen + 1)):
        seen += len(part)
        if seen > most:
            raise TooLarge(refusal)
        yield part


@dataclass(frozen=True)
class FileContent:
    """A file that was sent: its name, its bytes, and how many cells it may hold at most."""

    name: str
    content: bytes
    most_cells: int = MOST_CELLS

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return len(self.content)

    def open(self) -> io.BytesIO:
        """Return the bytes as a stream."""
        return io.BytesIO(self.content)


def size_of(source: Path | FileContent) -> int:
    """Return how many bytes a file has."""
    return source.size if isinstance(source, FileContent) else source.stat().st_size


def allowed_of(source: Path | FileContent, label: str) -> tuple[int, str]:
    """Return how much a file may unpack to, and what to say where it is more; less where it was sent."""
    allowed, refusal = allowed_bytes(size_of(source), label)
    if isinstance(source, FileContent) and allowed > MOST_SENT:
        return (
            MOST_SENT,
            f"{label} unpacks to more than {MOST_SENT >> 20} MB, the most that is accepted here; split it by years",
        )
    return allowed, refusal


def stream_of(source: Path | FileContent) -> BinaryIO:
    """Open a file to read."""
    return source.open() if isinstance(source, FileContent) else source.open("rb")


def read_text(
    path: Path | FileContent, label: str, *, encoding: str | None = None, most_cells: int = MOST_CELLS
) -> Text:
    """Read a text file, also one packed by gzip or xz.

    Parameters
    ----------
    encoding
        How it is written; default: what its mark says, else UTF-8, else the alphabet of Windows (cp1252).
    """
    raw = _bytes(path, label)
    if sum(map(raw.count, SEPARATORS)) > most_cells:
        raise TooLarge(f"{label} has more than {most_cells:,} cells; split it by years")
    found = decoded(raw, label, encoding)
    # An umlaut may be one sign or two, which look alike; a name written in both ways is one name.
    found = found._replace(text=unicodedata.normalize("NFC", found.text))
    if "\x00" in found.text:
        raise DamagedFile(f"{label} contains bytes that are not text; export it again as CSV")
    return found


def decoded(raw: bytes, label: str, encoding: str | None = None) -> Text:
    """Return bytes as text; `InvalidInput` where they are none in this encoding."""
    if encoding is not None:
        try:
            return Text(raw.decode(encoding).removeprefix("\ufeff"), encoding)
        except UnicodeError as error:
            raise InvalidInput(f"{label} is not written in {encoding} ({error}); try another encoding=") from None
        except (LookupError, ValueError):  # a zero in the name is a ValueError
            raise InvalidInput(
                f"encoding {encoding!r} is not known; write it like encoding=utf-8, utf-16 or cp1252"
            ) from None
    named = next((name for mark, name in MARKS if raw.startswith(mark)), None) or _unmarked(raw)
    if named is not None:
        try:
            return Text(raw.decode(named), named.removesuffix("-sig"))
        except UnicodeError as error:
            raise DamagedFile(
                f"{label} begins like {named}, but cannot be read as such ({error}); export it again"
            ) from None
    try:
        return Text(raw.decode("utf-8"), "utf-8")
    except UnicodeDecodeError as error:
        wrong = error
    try:
        return Text(raw.decode("cp1252"), "cp1252")
    except UnicodeDecodeError:
        line = raw[: wrong.start].count(b"\n") + 1
        raise InvalidInput(
            f"{label}, line {line}: the byte 0x{raw[wrong.start]:02x} is neither UTF-8 nor cp1252; give the encoding "
            "of the file, such as encoding=cp1250"
        ) from None


def _unmarked(raw: bytes) -> str | None:
    """Return which UTF-16 this is without a mark: every other byte of plain letters and digits is zero."""
    head = raw[:4096]
    if len(head) < 4 or b"\x00" not in head:
        return None
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if odd > 0.7 * (len(head) // 2) and even == 0:
        return "utf-16-le"
    return "utf-16-be" if even > 0.7 * (len(head) // 2) and odd == 0 else None


def _bytes(path: Path | FileContent, label: str) -> bytes:
    most, refusal = LARGEST_TEXT, f"{label} is larger than {LARGEST_TEXT >> 20} MB of text; split it by years"
    try:
        with stream_of(path) as stream:
            head = stream.read(6)
            stream.seek(0)
            unpack = gzip.open if head.startswith(b"\x1f\x8b") else lzma.open if head.startswith(b"\xfd7zXZ") else None
            if unpack is None:
                return b"".join(parts(stream, most, refusal))
            allowed, told = allowed_of(path, label)
            most, refusal = (allowed, told) if allowed < most else (most, refusal)
            with unpack(stream, "rb") as packed:
                return b"".join(parts(packed, most, refusal))
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise DamagedFile(f"{label} cannot be read ({error}); download it again") from None
    except OSError as error:
        raise InvalidInput(f"cannot read {label}: {error.strerror or error}; check the path") from None
