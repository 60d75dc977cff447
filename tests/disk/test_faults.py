"""A call to the disk fails, here at some places chosen at random; at every one in slow/test_disk.py."""

from __future__ import annotations

from disk.promises import DISK_FAULTS, check_faults

ROUND = ["ask", "tell", "snapshot", "save"]


def test_a_round_with_a_failing_disk(record_property):
    outcomes = check_faults(ROUND, DISK_FAULTS, most=14, seed=2)
    record_property("faults in a round", outcomes)
    assert outcomes["refused"] > 0


def test_a_sync_that_fails(record_property):
    outcomes = check_faults(["ask", "create", "next epoch"], {"SYNC": ["EIO"]}, most=8, seed=2)
    record_property("failed syncs", outcomes)
    assert outcomes["cuts"] > 0
