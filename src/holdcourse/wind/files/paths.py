"""From paths, patterns and archives to single files whose kind is known by their first bytes."""

from __future__ import annotations

import glob
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias

from holdcourse.errors import DamagedFile, InvalidInput, TooLarge
from holdcourse.running.database import refuse_record
from holdcourse.tables.text import MARKS, allowed_bytes, parts

Kind: TypeAlias = Literal["netcdf3", "netcdf4", "grib", "zip", "text", "sheet"]  # a sheet: Excel and Parquet
Paths: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

_MAGIC: tuple[tuple[bytes, Kind], ...] = (
    (b"CDF\x01", "netcdf3"),
    (b"CDF\x02", "netcdf3"),
    (b"\x89HDF\r\n\x1a\n", "netcdf4"),
    (b"GRIB", "grib"),
    (b"PK\x03\x04", "zip"),
    (b"PAR1", "sheet"),
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
        raise InvalidInput("no wind file is given; give at least one")
    found: dict[Path, None] = {}
    for entry in given:
        text = os.fspath(entry)
        path = Path(text)
        if os.path.isdir(text):
            raise InvalidInput(f"{text} is a folder; give its files, e.g. '{os.path.join(text, '*.nc')}'")
        try:
            matches = [path] if path.is_file() else [Path(name) for name in sorted(glob.glob(text, recursive=True))]
        except (OSError, ValueError) as error:  # names that no file system takes
            raise InvalidInput(f"{text!r} is not a path: {error}") from None
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
        raise InvalidInput(f"cannot read {label}: {error.strerror}; check the path") from None
    if not head:
        raise DamagedFile(f"{label} is empty; download or export it again")
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return "sheet" if kind == "zip" and is_workbook(path) else kind
    if head.startswith(b"CDF\x05"):
        raise InvalidInput(
            f"{label} is NetCDF in the 64-bit data format; convert it: nccopy -k nc4 {label} converted.nc"
        )
    if b"\x00" in head and not head.startswith(tuple(mark for mark, _ in MARKS)):
        raise InvalidInput(
            f"{label} is neither NetCDF, GRIB, ZIP nor text (it begins with {head[:8]!r}); "
            "the download may have failed: download it again"
        )
    return "text"


def is_workbook(path: Path) -> bool:
    """Return whether an archive is an Excel file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except (zipfile.BadZipFile, OSError):
        return False


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
        raise DamagedFile(f"{path.name} contains no file; download it again")
