"""Random operators of a service for longer; see tests/service/test_limits.py."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from service.limited import Operated
from service.running import Client, served

pytestmark = pytest.mark.slow

REQUESTS = int(os.environ.get("HOLDCOURSE_OPERATED", "4000"))
EACH = 200  # of one controller
SEEN = (
    *("act", "forced", "epoch", "episode", "start refused", "no action left", "stale"),
    *("told, answer", "told, fallback", "sent by the watchdog"),
    *("instruction, override", "instruction, fallback"),
    *("override limited by max_step", "override limited by allowed", "override limited by min_dwell"),
    *("fallback limited by max_step", "fallback limited by allowed", "fallback limited by min_dwell"),
)


def test_random_operators_never_break_a_limit(tmp_path, record_property):
    seen = Counter()
    with served(tmp_path / "data") as url, Client(url) as client:
        for seed in range(REQUESTS // EACH):
            seen += Operated(client, f"c{seed}", seed).run(EACH)
    record_property(f"{REQUESTS} random requests of operators", dict(seen))
    assert min(seen[what] for what in SEEN) > 0, seen
