"""Saved state from strangers: nothing grows when it is opened."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from holdcourse import archive
from holdcourse.errors import DamagedFile, TooLarge

MEGABYTE = 1 << 20


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit


def forged(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """An archive with right checksums, as anybody can make one."""
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
    manifest = json.dumps({"holdcourse_format": archive.FORMAT, "sha256": sums})
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as file:
        for name, content in {"manifest.json": manifest.encode(), **members}.items():
            file.writestr(name, content)
    return out.getvalue()


def npy(shape: str, content: bytes, kind: str = "<f8", version: tuple[int, int] = (1, 0)) -> bytes:
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + bytes(version) + struct.pack("<H", len(head)) + head + content


def test_arrays_come_back_as_they_were() -> None:
    arrays = {
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "empty": np.zeros((0, 3), dtype=np.int32),
        "one": np.array(5),
        "words": np.array(["ab", "c"]),
        "yes": np.array([True]),
    }
    state, found = archive.unpack(archive.pack({"a": [1, None]}, arrays), "here")
    assert state == {"a": [1, None]}
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape, found[name].flags.writeable) == (array.dtype, array.shape, True)
        np.testing.assert_array_equal(found[name], array)


def test_a_compressed_member_is_refused_before_it_is_unpacked() -> None:
    bomb = forged({"state.json": b"{}", "big.npy": npy("(8388608,)", bytes(64 * MEGABYTE))}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < MEGABYTE
    with memory_below(2 * MEGABYTE), pytest.raises(DamagedFile, match=r"here is damaged.* is compressed"):
        archive.unpack(bomb, "here")


def test_members_that_share_their_bytes_are_refused() -> None:
    """Thirty entries of the directory that point to one megabyte: thirty megabytes, and no compression."""
    plain = forged({"state.json": b"{}", "big.npy": npy("(131072,)", bytes(MEGABYTE))})
    with zipfile.ZipFile(io.BytesIO(plain)) as file:
        end = file.start_dir
    entry = plain[plain.rindex(b"PK\x01\x02") : plain.rindex(b"PK\x05\x06")]
    names = [f"b{number:02d}.npy".encode() for number in range(30)]
    directory = plain[end : plain.rindex(b"PK\x05\x06")] + b"".join(entry.replace(b"big.npy", name) for name in names)
    closing = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 33, 33, len(directory), end, 0)
    with memory_below(4 * MEGABYTE), pytest.raises(DamagedFile, match=r"claim 3\d+ bytes, but the file has 1\d+"):
        archive.unpack(plain[:end] + directory + closing, "here")


def test_a_name_that_is_there_twice_is_refused() -> None:
    out = io.BytesIO(forged({"state.json": b"{}"}))
    with zipfile.ZipFile(out, "a") as file, pytest.warns(UserWarning, match="Duplicate name"):
        file.writestr("state.json", "{}")
    with pytest.raises(DamagedFile, match=r"state\.json appears twice"):
        archive.unpack(out.getvalue(), "here")


@pytest.mark.parametrize(
    "part",
    [
        npy("(400000000,)", bytes(8)),
        npy("(0,)", bytes(8)),
        npy("(-1, -1)", bytes(8)),
        npy("(1000000000000,)", b"", kind="|S0"),
        npy("(1,)", bytes(8), kind="|O"),
        npy("(1,)", bytes(8), version=(9, 9)),
        b"no array",
    ],
)
def test_an_array_is_what_its_bytes_are_and_not_what_its_header_claims(part: bytes) -> None:
    """The first one claims 3.2 GB, for which numpy would make room."""
    with memory_below(MEGABYTE), pytest.raises(DamagedFile, match="here is damaged"):
        archive.unpack(forged({"state.json": b"{}", "x.npy": part}), "here")


def test_no_header_is_parsed_as_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that parse Python at once can fail in Python 3.11, and a server opens many records at once."""
    packed = archive.pack({}, {"x": np.arange(3.0), "columns": np.asfortranarray(np.ones((2, 3)))})
    monkeypatch.setattr("ast.literal_eval", lambda source: pytest.fail(f"parsed as Python: {source!r}"))
    assert sorted(archive.unpack(packed, "here")[1]) == ["columns", "x"]


@pytest.mark.parametrize("state", [b"3", b"{", b"[" * 100_000 + b"]" * 100_000])
def test_a_state_that_is_no_object_is_refused(state: bytes) -> None:
    with pytest.raises(DamagedFile, match="here is damaged"):
        archive.unpack(forged({"state.json": state}), "here")


def test_files_and_states_beyond_the_bound_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(archive.LARGEST + 1)
    with (
        memory_below(MEGABYTE),
        pytest.raises(TooLarge, match=r"sparse has 1\.0 GB, but files of holdcourse have at most"),
    ):
        archive.read_file(tmp_path / "sparse")
    monkeypatch.setattr(archive, "LARGEST", 1000)
    with pytest.raises(TooLarge, match="this state takes"):
        archive.pack({}, {"x": np.zeros(1000)})
