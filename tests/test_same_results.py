"""The script that compares results before and after code is moved: it sees what changed, and only that."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "tools" / "same_results.py"


@pytest.fixture
def same_results(monkeypatch):
    """From words of its command line to its exit code."""
    main = runpy.run_path(str(SCRIPT))["main"]

    def run(*words):
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, words)])
        return main()

    return run


def test_a_difference_is_found_and_equal_results_are_equal(same_results, tmp_path, capsys):
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    for path in (one, two):
        assert same_results("write", path, "--only", "^posteriors") == 0
    assert same_results("compare", one, two) == 0
    found = json.loads(two.read_text())
    name = next(iter(found))
    found[name] = {key: f"{text}x" for key, text in found[name].items()}
    two.write_text(json.dumps(found))
    capsys.readouterr()
    assert same_results("compare", one, two) == 1
    assert name in capsys.readouterr().out
