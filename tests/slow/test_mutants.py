"""Do the tests notice when limits, records, tokens, settings or epochs are a bit wrong? A sample of mutants of each.

The survivors are listed in the summary of the run; docs/durability.md says what was made of those of the last full one.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from helpers.durability import run_program

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="each mutant is a fork")]

TESTS = Path(__file__).parents[1]
COUNT = int(os.environ.get("HOLDCOURSE_MUTANTS", "12"))  # of each module
MODULES = {
    "holdcourse.running.limits": ("running/test_limits.py", "running/test_controller.py"),
    "holdcourse.running.log": ("running/test_log.py", "running/test_record_edges.py"),
    "holdcourse.running.file_storage": ("running/test_log.py", "running/test_record_edges.py"),
    "holdcourse.running.database": ("running/test_log.py", "running/test_record_edges.py"),
    "holdcourse.service.core.tokens": ("service/test_tokens.py",),
    "holdcourse.service.core.configuration": (
        "service/test_settings.py",
        "service/test_sizes.py",
        "service/test_limits.py",
        "service/test_trials.py",
    ),
    "holdcourse.service.core.epochs": ("service/test_epochs.py", "service/test_modes.py", "service/test_limits.py"),
}


@pytest.mark.parametrize("module", list(MODULES))
def test_mutants_are_noticed(module, record_property):
    tests = [TESTS / name for name in MODULES[module]]
    lines = [json.loads(line) for line in run_program("mutants.py", module, COUNT, 1, *tests).splitlines()]
    alive = [f"line {line['line']}: {line['what']}" for line in lines if line["survives"]]
    record_property(f"{module}: {len(lines) - len(alive)} of {len(lines)} mutants noticed", "; ".join(alive) or "all")
    # Programs that tests start run the right module, and some mutants decide the same: not all can be noticed.
    assert len(alive) <= len(lines) / 2
