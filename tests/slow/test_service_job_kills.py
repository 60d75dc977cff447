"""The service is killed again and again while jobs make controllers."""

from __future__ import annotations

import os

import pytest
from helpers.killed_jobs import kill_while_jobs_run

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("HOLDCOURSE_JOB_KILLS", "60"))


def test_a_creation_has_happened_whole_or_not_at_all(tmp_path, record_property):
    made, unmade = kill_while_jobs_run(tmp_path / "data", KILLS)
    record_property("creations", f"{made} had happened, {unmade} had not, of {KILLS} kills")
    assert made + unmade == KILLS
    assert min(made, unmade) > KILLS // 10
