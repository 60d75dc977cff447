"""The figures of the documentation can be drawn again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FIGURES = Path(__file__).parents[2] / "docs" / "figures"


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted(FIGURES.glob("*.py")), ids=lambda path: path.stem)
def test_figures_can_be_drawn_again(script, tmp_path):
    done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    drawn = sorted(path.name for path in tmp_path.glob("*.svg"))
    assert drawn
    assert all((FIGURES / name).exists() for name in drawn)
