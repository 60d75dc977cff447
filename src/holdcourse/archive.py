"""States as arrays by name, and saved in one file.

States as arrays by name. The arrays of a state within another one are named under a prefix.

Saved state: one zip of small JSON and plain arrays, checksummed, versioned, written atomically. Never a pickle.

Members are stored as they are, so an archive never grows when it is opened: sizes are compared with the bytes that are
there before anything is unpacked.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import DamagedFile, HoldcourseError, InvalidInput, TooLarge, file_error, is_full, shown

Arrays: TypeAlias = dict[str, NDArray[Any]]


def prefixed(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """Return the arrays with a prefix before every name."""
    return {f"{prefix}{name}": array for name, array in arrays.items()}


def under(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """Return the arrays whose names begin with a prefix, and take it off."""
    cut = len(prefix)
    return {name[cut:]: array for name, array in arrays.items() if name.startswith(prefix)}


def require_arrays(arrays: Mapping[str, NDArray[Any]], names: Iterable[str], whose: str) -> None:
    """Raise unless a saved state holds these arrays."""
    if not isinstance(arrays, Mapping):
        raise InvalidInput(f"a state of {whose} is a mapping of arrays, as state() gives it, got {shown(arrays)}")
    missing = [name for name in names if name not in arrays]
    if missing:
        raise InvalidInput(
            f"this is not a saved state of {whose}: it lacks {', '.join(missing)} and contains {sorted(arrays)}; "
            "give the file that was saved for it"
        )


FORMAT = 1
MANIFEST, STATE = "manifest.json", "state.json"
EPOCH = (1980, 1, 1, 0, 0, 0)  # equal states give equal bytes
BEGINNING = b"PK\x03\x04"  # of a zip; one that stands inside another file is none of ours
RECORD = b"SQLite format 3"  # how a record begins
LARGEST = 1_000_000_000  # bytes of an archive; SQLite, where snapshots are kept, takes no larger value
# What numpy writes before an array of plain numbers. It is read here and not by numpy, which parses it as Python: in
# Python 3.11 threads that do so at once can fail ("AST constructor recursion depth mismatch"), and servers open many
# records at once.
_NPY_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<kind>[<>|=]?[a-zA-Z]\d*)', 'fortran_order': (?P<by_columns>True|False), "
    rb"'shape': \((?P<shape>[0-9, ]*)\), \} *\n",
    re.DOTALL,
)


def pack(state: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The archive as bytes; `state` holds JSON values."""
    members = {STATE: json.dumps(state, sort_keys=True).encode()}
    for name in sorted(arrays):
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.asarray(arrays[name]), allow_pickle=False)
        members[f"{name}.npy"] = buffer.getvalue()
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
    manifest = json.dumps({"holdcourse_format": FORMAT, "sha256": sums}, sort_keys=True).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, content in {MANIFEST: manifest, **members}.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), content)
    packed = out.getvalue()
    if len(packed) > LARGEST:
        raise TooLarge(
            f"this state takes {len(packed) / 1e9:.1f} GB, but at most {LARGEST / 1e9:g} GB can be saved; choose a "
            "method whose state does not grow (see hc.posterior), or start again from the newest measurements"
        )
    return packed


def unpack(content: bytes, where: str) -> tuple[dict[str, Any], Arrays]:
    """State and arrays of an archive; `where` names it in errors."""
    if content.startswith(RECORD):
        raise InvalidInput(
            f"{where} is a record of a controller, or another database, not a saved state or policy; continue a record "
            "with log=, or with Controller.resume"
        )
    if not content.startswith(BEGINNING):
        raise _damaged(where, f"it begins with {content[:16]!r}")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _check_members(archive.infolist(), len(content))
            members = {name: archive.read(name) for name in archive.namelist()}
        manifest = json.loads(members.pop(MANIFEST))
        found, expected = int(manifest["holdcourse_format"]), dict(manifest["sha256"])
    except Exception as error:  # what zipfile raises on damaged bytes is not documented, and there are many kinds
        raise _damaged(where, str(error)[:80].rstrip(".")) from None
    if found != FORMAT:
        age = "which is newer than" if found > FORMAT else "which is no longer read by"
        raise InvalidInput(
            f"{where} has format {found}, {age} this version of holdcourse, which reads format {FORMAT}; use the "
            "version that wrote it"
        )
    sums = {name: hashlib.sha256(part).hexdigest() for name, part in members.items()}
    wrong = sorted(
        name for name in {STATE, *expected, *sums} if expected.get(name) is None or expected[name] != sums.get(name)
    )
    if wrong:
        raise DamagedFile(f"{where} is damaged: the checksum of {wrong[0]} does not match; restore it from a backup")
    try:
        state = dict(json.loads(members.pop(STATE)))
        return state, {name.removesuffix(".npy"): _array(part, name) for name, part in members.items()}
    except (ValueError, TypeError, RecursionError) as error:  # with right checksums: not written by us
        raise _damaged(where, str(error)[:80].rstrip(".")) from None


def _damaged(where: str, detail: str) -> DamagedFile:
    return DamagedFile(
        f"{where} is damaged, or is not a saved state of holdcourse: {detail}; restore it from a backup, or give a "
        "file that holdcourse saved"
    )


def _check_members(members: list[zipfile.ZipInfo], size: int) -> None:
    """Raise unless the members are stored as they are, each once, and fit into the bytes of the archive."""
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
            raise ValueError(f"{member.filename} is compressed, which holdcourse never does")
    names = [member.filename for member in members]
    if len(set(names)) < len(names):
        raise ValueError(f"{max(names, key=names.count)} appears twice in it")
    claimed = sum(member.file_size for member in members)
    if claimed > size:
        raise ValueError(f"its members claim {claimed} bytes, but the file has {size}")


def _array(part: bytes, name: str) -> NDArray[Any]:
    """An array as it was written; numpy's own reader would make room for whatever the header claims."""
    header = _NPY_HEADER.match(part)
    if header is None or header.end() != 10 + int.from_bytes(part[8:10], "little"):
        raise ValueError(f"{name} is not an array of the kind that holdcourse writes")
    kind = np.dtype(header["kind"].decode())
    shape = tuple(int(length) for length in header["shape"].split(b",") if length.strip())
    there = len(part) - header.end()
    if kind.hasobject or not kind.itemsize or math.prod(shape) * kind.itemsize != there:
        raise ValueError(f"{name} claims the shape {shape} of {kind}, but has {there} bytes")
    flat = np.frombuffer(part, kind, offset=header.end())
    return flat.reshape(shape, order="F" if header["by_columns"] == b"True" else "C").copy(order="K")


def write_file(path: Path, content: bytes, *, private: bool = False) -> None:
    """Replace the file in one step: after a crash it holds either the old or the new content.

    `private`: only its owner may read it.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        mode = 0o600 if private else 0o666
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        remedy = "make room on the disk, or choose another place" if is_full(error) else "choose another place"
        if isinstance(error, FileNotFoundError):
            remedy = f"create the folder {path.parent} first"
        raise file_error(f"cannot write {path}: {error.strerror}; {remedy}", error) from error


def sync_folder(folder: Path) -> None:
    """Wait until names given in a folder are on the disk: a rename itself must reach it too."""
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def make_folder(folder: Path, *, private: bool = False) -> None:
    """Make a folder, and those above it where they are missing; on the disk when this returns.

    `private`: only its owner may look into it. One that is there stays as it is.
    """
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(0o700 if private else 0o777, exist_ok=True)
        try:
            sync_folder(folder.parent)
        except OSError:
            with suppress(OSError):
                folder.rmdir()  # else the next attempt would find it and not sync
            raise


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Within it, files go into the folder, which is made if needed; where they cannot, the error is one line."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except HoldcourseError:
        raise
    except OSError as error:
        reason = "it is a file" if isinstance(error, FileExistsError) else error.strerror or str(error)
        words = f"cannot write to {error.filename or folder}: {reason}; choose another folder="
        raise file_error(words, error) from None


def check_writable(folder: Path) -> None:
    """Raise where `writing` would, and make nothing: for work that takes long, before it begins."""
    there = next(place for place in (folder, *folder.parents) if os.path.exists(place))
    if not (there.is_dir() and os.access(there, os.W_OK)):
        reason = "may not be written to" if there.is_dir() else "is a file"
        raise InvalidInput(f"cannot write to {folder}: {there} {reason}; choose another folder=")


def read_file(path: Path) -> bytes:
    """Read a whole file of ours as bytes; raise where it cannot be read or is larger than any of ours."""
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise TooLarge(
                f"{path} has {size / 1e9:.1f} GB, but files of holdcourse have at most {LARGEST / 1e9:g} GB; check the "
                "path"
            )
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}; check the path") from error


def fingerprint(state: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """The hash of a packed state."""
    return hashlib.sha256(pack(state, arrays)).hexdigest()
