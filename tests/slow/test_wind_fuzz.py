"""Two thousand broken CSV and NetCDF files: wind data or one line of ours, no traceback, no hang."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.wind_fuzz import fuzz

pytestmark = pytest.mark.slow
pytest.importorskip("xarray", reason="needs the extra: pip install 'holdcourse[wind]'")


def test_two_thousand_broken_files(tmp_path: Path, record_property: pytest.RecordProperty) -> None:
    counts = fuzz(tmp_path, range(2000))
    assert sum(counts.values()) == 2000
    assert counts["read"] > 100
    assert counts["refused"] > 1000
    record_property("wind: broken files read / refused", f"{counts['read']} / {counts['refused']}")
