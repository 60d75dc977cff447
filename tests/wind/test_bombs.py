"""Files that unpack to much more than they are: refused by what comes out, before memory or disk is full."""

from __future__ import annotations

import gzip
import lzma
import tempfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.wind_files import csv_text

from holdcourse.errors import DamagedFile, InvalidInput, TooLarge
from holdcourse.wind import load
from holdcourse.wind.files import csv_table

MEGABYTE = 1 << 20
ROW = b"2020-01-01T00:00,5\n"
BOMB = b"time,ws_10m\n" + ROW * (80 * MEGABYTE // len(ROW))


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where archives are unpacked to."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def peak_of(action: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("name", "pack"), [("w.csv.gz", gzip.compress), ("w.csv.xz", lzma.compress)])
def test_a_compressed_csv_that_grows_too_much(tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / name
    path.write_bytes(pack(BOMB))
    assert path.stat().st_size < MEGABYTE

    def refused() -> None:
        with pytest.raises(TooLarge, match=rf"{name} unpacks to more than .* unpack it yourself"):
            load(path)

    assert peak_of(refused) < 45 * MEGABYTE


def test_a_zip_that_grows_too_much(tmp_path: Path, scratch: Path) -> None:
    path = tmp_path / "era5.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("wind.csv", BOMB)
    with pytest.raises(TooLarge, match=r"era5\.zip unpacks to more than .* unpack it yourself"):
        load(path)
    assert not list(scratch.iterdir())


def test_a_zip_of_many_small_files_counts_them_together(tmp_path: Path, scratch: Path) -> None:
    path = tmp_path / "era5.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(8):
            archive.writestr(f"{number}.csv", BOMB[: 10 * MEGABYTE])
    with pytest.raises(TooLarge, match="unpacks to more than"):
        load(path)
    assert not list(scratch.iterdir())


def test_a_zip_packed_in_an_unusual_way(tmp_path: Path) -> None:
    path = tmp_path / "era5.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("wind.csv", csv_text())
    with pytest.raises(InvalidInput, match=r"era5\.zip\[wind\.csv\] is compressed in an unusual way"):
        load(path)


def test_the_bound_of_a_person_who_has_a_large_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "era5.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("wind.csv", csv_text())
    monkeypatch.setenv("HOLDCOURSE_UNPACK_GB", "1e-6")
    with pytest.raises(TooLarge, match=r"more than 1e-06 GB; .* allow more: HOLDCOURSE_UNPACK_GB=2e-06"):
        load(path)
    for wrong in ("nan", "-1", "0", "much"):
        monkeypatch.setenv("HOLDCOURSE_UNPACK_GB", wrong)
        with pytest.raises(InvalidInput, match=f"HOLDCOURSE_UNPACK_GB must be .*{wrong}"):
            load(path)
    monkeypatch.setenv("HOLDCOURSE_UNPACK_GB", "0.5")
    assert len(load(path)) == 40


def test_a_text_of_too_many_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "wind.csv"
    path.write_bytes(b"time,ws_10m\n" + b"," * 40_000)
    monkeypatch.setattr(csv_table, "MOST_CELLS", 30_000)
    with pytest.raises(TooLarge, match="cells; split it by years"):
        load(path)


@pytest.mark.parametrize(
    ("length", "chunk", "told"),
    [(2_000_000_000, 1 << 20, "claims 2e\\+09 values"), (1 << 27, 1 << 27, r"blocks of 1\.1 GB")],
)
def test_a_netcdf_whose_header_claims_more_than_is_there(tmp_path: Path, length: int, chunk: int, told: str) -> None:
    h5py = pytest.importorskip("h5py", reason="needs the extra: pip install 'holdcourse[wind]'")
    path = tmp_path / "era5.nc"
    with h5py.File(path, "w") as file:
        shape = (length,) if length > 1 << 28 else (1, length)
        file.create_dataset("time", shape, np.float64, chunks=(*shape[:-1], chunk), compression="gzip")
    assert path.stat().st_size < MEGABYTE
    with pytest.raises(DamagedFile, match=told):
        load(path)
