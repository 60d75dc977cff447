"""What is released: archives that anybody builds again to the byte, with what belongs in them; a light import."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PARTS = ("src", "tests", "benchmarks", "examples", "docs", "tools")
NOT_SOURCE = shutil.ignore_patterns("__pycache__", "_build")


def build(folder: Path, epoch: int) -> dict[str, Path]:
    """Both archives from a copy of the tree, whose files have other times and permissions than those of the last."""
    tree = folder / "holdcourse"
    tree.mkdir(parents=True)
    for path in (*ROOT.glob("*.*"), ROOT / "LICENSE", ROOT / "Makefile", ROOT / ".gitignore"):
        if path.is_file() and not path.name.startswith(".coverage"):
            shutil.copy(path, tree)
    for part in PARTS:
        shutil.copytree(ROOT / part, tree / part, ignore=NOT_SOURCE, copy_function=shutil.copyfile)
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", tree],
        env=os.environ | {"SOURCE_DATE_EPOCH": str(epoch)},
        check=True,
        capture_output=True,
    )
    return {path.name: path for path in (folder / "dist").iterdir()}


@pytest.fixture(scope="module")
def archives(tmp_path_factory) -> list[dict[str, Path]]:
    for module in ("build", "hatchling"):
        pytest.importorskip(module, reason='needs pip install "holdcourse[release]"')
    old = os.umask(0o022)
    try:
        first = build(tmp_path_factory.mktemp("first"), epoch=1_700_000_000)
        os.umask(0o077)
        time.sleep(1.1)  # other times in whole seconds
        return [first, build(tmp_path_factory.mktemp("second") / "deeper", epoch=1_700_000_000)]
    finally:
        os.umask(old)


def test_two_builds_are_equal_to_the_byte(archives, record_property):
    first, second = ({name: hashlib.sha256(p.read_bytes()).hexdigest() for name, p in one.items()} for one in archives)
    assert first == second
    assert {name.rpartition(".")[2] for name in first} == {"whl", "gz"}
    for name, path in archives[0].items():
        record_property(f"size of {name} in kB", path.stat().st_size // 1000)


def test_the_wheel_holds_the_package_its_data_and_their_licences(archives):
    (path,) = (path for name, path in archives[0].items() if name.endswith(".whl"))
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        (metadata,) = (wheel.read(name).decode() for name in names if name.endswith("dist-info/METADATA"))
    packed = {name for name in names if name.startswith("holdcourse/")}
    source = ROOT / "src"
    there = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and ".egg-info" not in str(path)
    }
    assert packed == there
    assert {name.partition("/licenses/")[2] for name in names if "/licenses/" in name} == {
        "LICENSE",
        "src/holdcourse/wakes/data/CREDIT.md",
        "src/holdcourse/wind/data/CREDIT.md",
    }
    assert "License-Expression: MIT AND CC-BY-4.0 AND etalab-2.0 AND BSD-3-Clause" in metadata
    assert all(name.startswith("holdcourse") for name in names)  # no tests, no stray top-level module


def test_the_sdist_can_be_tested(archives):
    (path,) = (path for name, path in archives[0].items() if name.endswith(".gz"))
    with tarfile.open(path) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"pyproject.toml", "Makefile", "README.md", "LICENSE", "CHANGELOG.md", "tests/conftest.py"} <= names
    assert not [name for name in names if re.search(r"__pycache__|_build|\.venv|\.log$", name)]


def test_import_takes_at_most_1_3_times_as_long_as_numpy(record_property):
    """Turn by turn, so that a busy machine slows both; the median of each."""
    code = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
    taken: dict[str, list[float]] = {"numpy": [], "holdcourse": []}
    for _ in range(9):
        for name, times in taken.items():
            done = subprocess.run([sys.executable, "-c", code.format(name)], capture_output=True, text=True, check=True)
            times.append(float(done.stdout))
    ratio = statistics.median(taken["holdcourse"]) / statistics.median(taken["numpy"])
    record_property("time of import holdcourse over import numpy", f"{ratio:.2f}")
    assert ratio < 1.3
