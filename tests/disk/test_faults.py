"""A call to the disk fails, here at some places chosen at random; at every one in slow/test_disk.py."""

from __future__ import annotations

from disk.promises import DISK_FAULTS, check_faults


def test_a_failing_disk(record_property):
    a_round = (["ask", "tell", "snapshot", "save"], DISK_FAULTS, 10)
    first_syncs = (["first ask"], {"SYNC": ["EIO"]}, None)  # SQLite ignores that of the folder of its write-ahead log
    some_syncs = (["ask", "create", "next epoch"], {"SYNC": ["EIO"]}, 4)
    opened = (["reopen"], {"OPEN": ["EIO"]}, None)  # SQLite goes on with a file that opens for reading alone
    outcomes = check_faults([a_round, first_syncs, some_syncs, opened], seed=2)
    record_property("faults of the disk", outcomes)
    assert min(outcomes["refused"], outcomes["done all the same"], outcomes["cuts"]) > 0
