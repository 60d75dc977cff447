"""Saved state: one zip of small JSON and plain arrays, checksummed, versioned, written atomically. Never a pickle."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import DamagedFile, InvalidInput

Arrays: TypeAlias = dict[str, NDArray[Any]]

FORMAT = 1
MANIFEST, STATE = "manifest.json", "state.json"
EPOCH = (1980, 1, 1, 0, 0, 0)  # equal states give equal bytes
BEGINNING = b"PK\x03\x04"  # of a zip; one that stands inside another file is none of ours


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
    return out.getvalue()


def unpack(content: bytes, where: str) -> tuple[dict[str, Any], Arrays]:
    """State and arrays of an archive; `where` names it in errors."""
    if not content.startswith(BEGINNING):
        raise DamagedFile(f"{where} is damaged or no saved state of holdcourse: it begins with {content[:16]!r}")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        manifest = json.loads(members.pop(MANIFEST))
        found, expected = int(manifest["holdcourse_format"]), dict(manifest["sha256"])
    except Exception as error:  # what zipfile raises on damaged bytes is not documented, and there are many kinds
        raise DamagedFile(f"{where} is damaged or no saved state of holdcourse: {error}") from None
    if found != FORMAT:
        age = "newer than" if found > FORMAT else "no longer read by"
        raise InvalidInput(
            f"{where} has format {found}, {age} this version, which reads {FORMAT}; use a matching version"
        )
    sums = {name: hashlib.sha256(part).hexdigest() for name, part in members.items()}
    wrong = sorted(
        name for name in {STATE, *expected, *sums} if expected.get(name) is None or expected[name] != sums.get(name)
    )
    if wrong:
        raise DamagedFile(f"{where} is damaged: the checksum of {wrong[0]} does not match")
    arrays = {
        name.removesuffix(".npy"): np.lib.format.read_array(io.BytesIO(part), allow_pickle=False)
        for name, part in members.items()
        if name != STATE
    }
    return json.loads(members[STATE]), arrays


def write_file(path: Path, content: bytes) -> None:
    """Replace the file in one step: after a crash it holds either the old or the new content."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise InvalidInput(f"cannot write {path}: {error.strerror}; make room or choose another place") from error


def sync_folder(folder: Path) -> None:
    """Wait until names given in a folder are on the disk: a rename itself must reach it too."""
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it where they are missing; on the disk when this returns."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        try:
            sync_folder(folder.parent)
        except OSError:
            with suppress(OSError):
                folder.rmdir()  # else the next attempt would find it and not sync
            raise


def read_file(path: Path) -> bytes:
    """The file's content."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from error


def digest(array: NDArray[Any]) -> str:
    """A short fingerprint of an array's bits."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
