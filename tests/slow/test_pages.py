"""Every page of the documentation runs alone: in a process where nobody else has imported anything."""

from __future__ import annotations

import re
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


@pytest.mark.parametrize(
    ("name", "blocks"),
    [
        ("start", 1),
        ("tutorials/chiller", 3),
        ("tutorials/database", 2),
        ("tutorials/wind-site", 2),
        ("tutorials/wake-steering", 4),
        ("tutorials/operate-a-controller", 3),
        ("how-to/run-a-trial", 1),
    ],
)
def test_a_page_prints_what_it_shows(name, blocks, tmp_path):
    """Whoever follows it compares the two."""
    page = DOCS / f"{name}.md"
    done = subprocess.run([sys.executable, "-c", code_of(page)], capture_output=True, text=True, cwd=tmp_path)
    printed = " ".join(done.stdout.split())
    shown = re.findall(r"^```text\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(shown) == blocks
    for part in shown:
        assert " ".join(part.removesuffix("...\n").split()) in printed
