"""Every page of the documentation runs alone: in a process where nobody else has imported anything."""

from __future__ import annotations

import subprocess
import sys

import pytest
from helpers.pages import DOCS, PAGES, code_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_code_blocks_run_alone(page, tmp_path):
    command = [sys.executable, "-W", "error", "-c", code_of(page)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
