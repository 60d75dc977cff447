"""Broken files give wind data or one line of ours; the full count runs in tests/slow."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.wind_fuzz import fuzz

pytest.importorskip("xarray", reason="needs the extra: pip install 'holdcourse[wind]'")


def test_sixty_broken_files(tmp_path: Path) -> None:
    counts = fuzz(tmp_path, range(60))
    assert sum(counts.values()) == 60
    assert counts["refused"] > 20
