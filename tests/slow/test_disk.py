"""The power cut after every call to the disk, and every call to the disk failing; see tests/disk."""

from __future__ import annotations

import pytest
from disk import power_cut
from disk.promises import DISK_FAULTS, check_faults, cut_power, scratch, traces

pytestmark = pytest.mark.slow

CALLS = ["first ask", "ask", "tell", "snapshot", "note", "episode", "save", "reopen", "create"]
CALLS += ["first epoch", "next epoch"]


@pytest.mark.parametrize("model", power_cut.MODELS)
def test_what_was_acknowledged_survives_every_power_cut(model, record_property):
    with scratch() as folder:
        steps, root = traces(folder, [""])[""]
        cuts, losses = cut_power(steps, root, model=model, seed=7, corners=4, others=6)
    record_property(f"power cuts, {model}", f"{cuts} after {len(steps)} calls")
    assert not losses, "\n".join(losses[:10])


@pytest.mark.parametrize("call", CALLS)
def test_every_call_to_the_disk_fails_once(call, record_property):
    record_property(f"faults, {call}", check_faults([([call], DISK_FAULTS, None)], seed=7))
