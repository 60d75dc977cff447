"""Bridges between a real service and real servers, interrupted; the slow tests do it 300 times."""

from __future__ import annotations

import pytest
from bridge.interrupting import needs, run

FEW = {
    "opcua": ["kill_bridge", "hole_to_plant", "hole_to_service"],
    "mqtt": ["kill_bridge", "kill_broker", "bad_reading"],
}


@pytest.mark.parametrize("kind", ["opcua", "mqtt"])
def test_interrupted_it_is_safe_and_loses_nothing(kind, tmp_path):
    needs(kind)
    done = run(kind, tmp_path, FEW[kind], in_process=True)
    assert len(done) == len(FEW[kind])
