"""Every script of the gallery draws its picture, quickly, and leaves nothing else behind."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("plot_*.py"))
SECONDS = 20  # of one core


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script_draws_its_picture(script, tmp_path, record_property):
    before = set((ROOT / "examples").iterdir())
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run(
        [sys.executable, "-W", "error", script, "--out", tmp_path / "new" / "folder"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - used
    record_property(f"gallery {script.stem}, seconds", round(seconds, 1))
    assert seconds < SECONDS
    assert [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()] == [
        Path("new/folder") / f"{script.stem}.png"
    ]
    picture = imread(tmp_path / "new" / "folder" / f"{script.stem}.png")[..., :3]
    assert min(picture.shape[:2]) > 300
    # Something is drawn, in colour, and not only in one corner.
    ink = (picture < 0.98).any(axis=2)
    assert ink.mean() > 0.02
    assert all(quarter.any() for half in np.array_split(ink, 2) for quarter in np.array_split(half, 2, axis=1))
    assert np.ptp(picture, axis=2).max() > 0.2
    assert set((ROOT / "examples").iterdir()) == before
