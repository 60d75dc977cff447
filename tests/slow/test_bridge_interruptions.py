"""Three hundred interruptions of bridges: kills, black holes, restarts of everything, readings that go bad."""

from __future__ import annotations

import itertools
import statistics

import numpy as np
import pytest
from bridge.interrupting import needs, run
from bridge.rig import INTERRUPTIONS

EACH = 150
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["opcua", "mqtt"])
def test_no_decision_is_lost_or_doubled_and_the_plant_is_safe_every_time(kind, tmp_path, record_property):
    needs(kind)
    chance = np.random.default_rng(7)
    order = itertools.chain.from_iterable(chance.permutation(INTERRUPTIONS[kind]) for _ in itertools.count())
    took = run(kind, tmp_path, list(itertools.islice(order, EACH)), say=print)
    assert len(took) == EACH
    record_property(f"{kind}: interruptions of the bridge", EACH)
    words = f"median {statistics.median(took):.2f} s, at most {max(took):.2f} s"
    record_property(f"{kind}: until the plant was safe", words)
