"""The power is cut at chosen moments: what was acknowledged is on the disk. At every moment: slow/test_disk.py."""

from __future__ import annotations

import random

import pytest
from disk import power_cut
from disk.power_cut import Disk, Step
from disk.promises import cut_power, scratch, telling_moments, traces

FAULTS = [
    "synchronous=OFF when a record is made",
    "synchronous=OFF when a record is opened",
    "folders are never synced",
    "the folder of a new epoch is never synced",
    "a saved file is never synced",
]


@pytest.fixture(scope="module")
def traced():
    with scratch() as folder:
        yield traces(folder, ["", *FAULTS])


@pytest.mark.parametrize("model", power_cut.MODELS)
def test_what_was_acknowledged_survives_a_power_cut(traced, model, record_property):
    steps, root = traced[""]
    cuts, losses = cut_power(
        steps, root, model=model, seed=1, moments=telling_moments(steps, 40, seed=1), corners=2, others=1
    )
    record_property(f"power cuts, {model}", cuts)
    assert not losses, "\n".join(losses[:10])
    assert cuts > 200


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_program_is_found(traced, fault):
    steps, root = traced[fault]
    moments = telling_moments(steps, 40, seed=1)
    _, losses = cut_power(steps, root, model="folders", seed=1, moments=moments, first_only=True)
    expected = {
        "synchronous=OFF when a record is made": "does not open",
        "synchronous=OFF when a record is opened": "record has lost",
        "folders are never synced": "state is gone",
        "the folder of a new epoch is never synced": "epoch-0001.db is gone",
        "a saved file is never synced": "state holds neither",
    }
    assert expected[fault] in " ".join(losses)


# -- the model itself --------------------------------------------------------------------------------------------------


def after(tmp_path, model, names, contents, *steps):
    disk = Disk(tmp_path, model)
    for step in steps:
        disk.do(step)
    target = tmp_path / f"found, {names}, {contents}, {model}, {len(steps)}"
    disk.after_a_cut(target, names, contents, random.Random(0))
    return {path.name: path.read_bytes() for path in target.iterdir()}


def opened(path, fd=3, flags=power_cut.os.O_CREAT):
    return Step("OPEN", fd, flags, str(path), "", 0, b"")


def wrote(offset, data, fd=3):
    return Step("WRITE", fd, 0, "", "", offset, data)


def synced(fd=3, op="SYNC"):
    return Step(op, fd, 0, "", "", 0, b"")


def test_an_unsynced_write_may_be_lost_and_a_synced_one_may_not(tmp_path):
    file, folder = opened(tmp_path / "a"), opened(tmp_path, fd=4, flags=0)
    steps = [file, wrote(0, b"one"), synced(), folder, synced(4), wrote(0, b"two")]
    assert after(tmp_path, "folders", "none", "none", *steps) == {"a": b"one"}
    assert after(tmp_path, "folders", "none", "all", *steps) == {"a": b"two"}


def test_a_name_needs_a_sync_of_its_folder_or_of_the_journal(tmp_path):
    steps = [opened(tmp_path / "a"), wrote(0, b"one"), synced()]
    assert after(tmp_path, "folders", "none", "all", *steps) == {}
    assert after(tmp_path, "journal", "none", "none", *steps) == {"a": b"one"}


def test_a_write_may_be_torn_between_sectors(tmp_path):
    content = bytes([1]) * 4096
    steps = [opened(tmp_path / "a"), wrote(100, content)]
    found = after(tmp_path, "folders", "all", "torn", *steps)["a"]
    assert len(found) == 4196
    for low in range(512, 4096, 512):
        assert len(set(found[low : low + 512])) == 1
    assert set(found) == {0, 1}


def test_what_a_failed_sync_dropped_stays_in_doubt(tmp_path):
    steps = [opened(tmp_path / "a"), wrote(0, b"one"), synced(op="SYNC_FAILED"), wrote(3, b"two"), synced()]
    assert after(tmp_path, "folders", "all", "none", *steps) == {"a": b"\0\0\0two"}
    assert after(tmp_path, "folders", "all", "none", *steps, wrote(0, b"one"), synced()) == {"a": b"onetwo"}


def test_a_rename_is_whole_or_not(tmp_path):
    renamed = Step("RENAME", -1, 0, str(tmp_path / "a"), str(tmp_path / "b"), 0, b"")
    steps = [opened(tmp_path / "a"), wrote(0, b"x"), synced(), opened(tmp_path, fd=4, flags=0), synced(4), renamed]
    assert after(tmp_path, "folders", "none", "all", *steps) == {"a": b"x"}
    assert after(tmp_path, "folders", "all", "all", *steps) == {"b": b"x"}
