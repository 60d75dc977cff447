"""Stopped, killed, cut short, out of space, within limits: small counts here, the full ones in slow/."""

from __future__ import annotations

import json
import os

import pytest
from helpers import durability
from helpers.driving import POLICIES, half_rounds

import holdcourse as hc
from holdcourse.learning.posteriors import adaptive
from holdcourse.running import operation

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kills and limits are those of POSIX")


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(operation, "SNAPSHOT_EVERY", 12)


@pytest.mark.parametrize("name", list(POLICIES))
def test_stopped_and_gone_on_from_a_saved_state(name, tmp_path):
    durability.check_resume_from_files(name, splits=4, seed=0, folder=tmp_path)


@pytest.mark.parametrize("name", list(POLICIES))
def test_stopped_and_gone_on_from_the_log(name, tmp_path):
    durability.check_resume_from_log(name, splits=4, seed=0, folder=tmp_path, rounds=12)


def test_going_on_after_the_posterior_has_changed_its_method(monkeypatch, tmp_path):
    monkeypatch.setattr(adaptive, "FIRST_TRY", 16)
    durability.check_resume_from_files("gp_md undeclared", splits=6, seed=0, folder=tmp_path)
    durability.check_resume_from_log("gp_md undeclared", splits=4, seed=0, folder=tmp_path)


def test_killed_at_random_moments(tmp_path, record_property):
    outcome = durability.check_kills(kills=12, seed=0, path=tmp_path / "record")
    record_property("killed 12 times", outcome)
    assert outcome["rounds"] >= 3


@pytest.mark.parametrize("damage", [durability.truncate, durability.flip])
def test_damaged_files_are_refused_or_recovered(damage, tmp_path, record_property):
    outcome = durability.check_damage(times=15, seed=0, folder=tmp_path, damage=damage)
    record_property(f"{damage.__name__}: 15 times", outcome)


def test_a_full_disk_is_a_clear_error_and_it_goes_on_when_there_is_room(tmp_path):
    saw = json.loads(durability.run_program("full_disk.py", tmp_path))
    for kind, message in saw["failures"]:
        assert kind == "DiskFull"
        assert message.startswith(f"cannot write to {tmp_path}/record: the disk is full; make room; ")
        assert message.endswith("nothing was changed; try again when the fault is repaired")
    assert len(saw["failures"]) == 50
    assert saw["unchanged"] == [True] * 25
    kind, message = saw["save"]
    assert kind == "DiskFull"
    assert message == f"cannot write {tmp_path}/state: File too large; make room on the disk, or choose another place"
    assert saw["begin"][0] == "DiskFull"
    assert saw["saved state kept"]
    assert saw["reopened"]
    assert saw["files"] == ["record", "record-mark", "state"]
    undisturbed = hc.Controller(POLICIES["gp_md exact"](), start_index=1, seed=3)
    decided = [repr(decision) for decision in half_rounds(undisturbed, "gp_md exact", 6) if decision]
    assert saw["decided"][:6] == decided


def test_limits_hold_whatever_happens(record_property):
    bites = durability.check_limits_hold(rounds=2000, seed=0)
    record_property("2000 fuzzed rounds", bites)
    assert min(bites.get(what, 0) for what in durability.BITES) > 0, bites
