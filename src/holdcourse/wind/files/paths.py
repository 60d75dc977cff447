"""From paths, patterns and archives to single files whose kind is known by their first bytes.

Compressed files are unpacked under a bound, counted as the bytes come out: what a header says may be wrong.
"""

from __future__ import annotations

import glob
import math
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, Protocol, TypeAlias

from holdcourse.errors import DamagedFile, InvalidInput, TooLarge
from holdcourse.running.database import refuse_record

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
    """Return how much a file of `packed` bytes may unpack to, and what to say where it is more."""
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
    """Read the bytes of a stream that unpacks, part by part; `TooLarge` as soon as there are more than `most`."""
    seen = 0
    while part := stream.read(min(PART, most - seen + 1)):
        seen += len(part)
        if seen > most:
            raise TooLarge(refusal)
        yield part


Kind: TypeAlias = Literal["netcdf3", "netcdf4", "grib", "zip", "text"]
Paths: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

_MAGIC: tuple[tuple[bytes, Kind], ...] = (
    (b"CDF\x01", "netcdf3"),
    (b"CDF\x02", "netcdf3"),
    (b"\x89HDF\r\n\x1a\n", "netcdf4"),
    (b"GRIB", "grib"),
    (b"PK\x03\x04", "zip"),
    (b"\x1f\x8b", "text"),
    (b"\xfd7zXZ\x00", "text"),
)


@dataclass(frozen=True)
class WindFile:
    """A file to read, what kind it is, and what to call it in messages."""

    path: Path
    kind: Kind
    label: str


def expand(paths: Paths) -> list[Path]:
    """Return every file named or matched by a pattern, each once, in the order given (a pattern's matches sorted)."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not given:
        raise InvalidInput("no wind file given")
    found: dict[Path, None] = {}
    for entry in given:
        text = os.fspath(entry)
        path = Path(text)
        if os.path.isdir(text):
            raise InvalidInput(f"{text} is a folder; give its files, e.g. '{os.path.join(text, '*.nc')}'")
        try:
            matches = [path] if path.is_file() else [Path(name) for name in sorted(glob.glob(text, recursive=True))]
        except (OSError, ValueError) as error:  # names that no file system takes
            raise InvalidInput(f"{text!r} is no path: {error}") from None
        matches = [match for match in matches if match.is_file()]
        if not matches:
            raise InvalidInput(f"no file matches {text!r}; check the path (patterns such as 'data/*.nc' are allowed)")
        found.update(dict.fromkeys(matches))
    return list(found)


def wind_files(paths: Paths, stack: ExitStack) -> Iterator[WindFile]:
    """Find the files to read; archives are unpacked into a folder that lives as long as `stack`."""
    for path in expand(paths):
        kind = kind_of(path, path.name)
        if kind == "zip":
            yield from _unpacked(path, stack)
        else:
            yield WindFile(path, kind, path.name)


def kind_of(path: Path, label: str) -> Kind:
    """Return what the first bytes say; the name of a file says nothing."""
    refuse_record(path, "wind files are NetCDF, GRIB, CSV or ZIP")
    try:
        with path.open("rb") as stream:
            head = stream.read(4096)
    except OSError as error:
        raise InvalidInput(f"cannot read {label}: {error.strerror}") from None
    if not head:
        raise DamagedFile(f"{label} is empty; download or export it again")
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head.startswith(b"CDF\x05"):
        raise InvalidInput(f"{label} is NetCDF of the 64-bit data kind; convert it: nccopy -k nc4 {label} converted.nc")
    if b"\x00" in head:
        raise InvalidInput(
            f"{label} is neither NetCDF, GRIB, ZIP nor text (it begins with {head[:8]!r}); "
            "the download may have failed: fetch it again"
        )
    return "text"


def _unpacked(path: Path, stack: ExitStack) -> Iterator[WindFile]:
    most, refusal = allowed_bytes(path.stat().st_size, path.name)
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="holdcourse-")))
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            needed, free = sum(member.file_size for member in members), shutil.disk_usage(folder).free
            if needed > most:
                raise TooLarge(refusal)
            if needed > 0.9 * free:
                raise TooLarge(
                    f"{path.name} unpacks to {needed / 1e9:.1f} GB, but {folder.parent} has {free / 1e9:.1f} GB free; "
                    "unpack it where there is room, or point TMPDIR there"
                )
            for number, member in enumerate(members):
                label = f"{path.name}[{Path(member.filename).name}]"
                if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    # Python unpacks the other kinds a whole block at a time, however large it becomes.
                    raise InvalidInput(f"{label} is compressed in an unusual way; unpack it yourself and give the file")
                target = folder / str(number)  # a member's own name may point anywhere
                with archive.open(member) as packed, target.open("wb") as plain:
                    for part in parts(packed, most, refusal):
                        plain.write(part)
                        most -= len(part)
                kind = kind_of(target, label)
                if kind == "zip":
                    raise InvalidInput(f"{label} is an archive within an archive; unpack it first")
                yield WindFile(target, kind, label)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        raise DamagedFile(f"{path.name} cannot be unpacked ({error}); download it again") from None
    if not members:
        raise DamagedFile(f"{path.name} holds no file; download it again")
