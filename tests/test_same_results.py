"""The script that compares results before and after code is moved: it sees what changed, and only that."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "tools" / "same_results.py"


def same_results(*words):
    return subprocess.run([sys.executable, str(SCRIPT), *map(str, words)], capture_output=True, text=True, check=False)


def test_a_difference_is_found_and_equal_results_are_equal(tmp_path):
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    for path in (one, two):
        written = same_results("write", path, "--only", "^posteriors")
        assert written.returncode == 0, written.stderr
    assert same_results("compare", one, two).returncode == 0
    found = json.loads(two.read_text())
    name = next(iter(found))
    found[name] = {key: f"{text}x" for key, text in found[name].items()}
    two.write_text(json.dumps(found))
    compared = same_results("compare", one, two)
    assert compared.returncode == 1
    assert name in compared.stdout
