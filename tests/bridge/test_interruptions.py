"""Bridges between a real service and real servers, interrupted; the slow tests do it 300 times."""

from __future__ import annotations

import pytest
from bridge.interrupting import needs, run

FEW = {
    "opcua": ["kill_bridge", "hole_to_plant", "hole_to_service", "bad_reading"],
    "mqtt": ["kill_bridge", "kill_broker", "late_from_hole", "hole_to_service"],
}


@pytest.mark.parametrize("kind", ["opcua", "mqtt"])
def test_interrupted_it_is_safe_and_loses_nothing(kind, tmp_path):
    needs(kind)
    done = run(kind, tmp_path, FEW[kind], in_process=True)
    assert len(done) == len(FEW[kind])
