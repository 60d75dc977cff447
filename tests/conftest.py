"""Shared by all tests: reproducible hypothesis runs, and measured figures printed at the end of the run."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.postgres import Postgres
from hypothesis import HealthCheck, settings

# Compiled kernels make the first example slow, so a deadline would only measure the compiler.
# The same examples in every run, so that a change is what breaks a check; `make test-slow` looks for new ones.
settings.register_profile(
    "holdcourse", deadline=None, max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("slow", parent=settings.get_profile("holdcourse"), max_examples=1000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "holdcourse"))

# Tests write thousands of small records and wait for the disk after every event, which is half of their time. A folder
# in memory has them written as surely for all that tests do to them: power cuts have a disk of their own (tests/disk).
IN_MEMORY, ROOM = Path("/dev/shm"), 2**30
if "TMPDIR" not in os.environ and os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free > ROOM:
    os.environ["TMPDIR"] = tempfile.tempdir = str(IN_MEMORY)  # the second is for this process, which has asked before


def pytest_collectstart() -> None:
    """All tests that are collected are kept: looking for garbage among them takes a fifth of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """From here on there is garbage."""
    gc.enable()


@pytest.fixture
def shared_data() -> Path:
    """Real wind data kept beside the checkout."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs the wind data kept beside the checkout in shared/data")
    return folder


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server of PostgreSQL, where its programs are installed."""
    server = Postgres()
    yield server
    server.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests measured with `record_property`."""
    rows = [
        (name, value)
        for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
        if report.when == "call"
        for name, value in report.user_properties
    ]
    if rows:
        terminalreporter.section("measured")
        width = max(len(name) for name, _ in rows)
        for name, value in sorted(rows, key=lambda row: row[0]):
            terminalreporter.write_line(f"{name:<{width}}  {value}")
