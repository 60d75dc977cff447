"""A controller stopped, killed, cut short and limited, with the full counts; see tests/running/test_durability.py."""

from __future__ import annotations

import os

import numpy as np
import pytest
from helpers import durability
from helpers.driving import POLICIES

from holdcourse.running import operation
from holdcourse.trials.record import read_trial

ROUNDS = int(os.environ.get("HOLDCOURSE_ROUNDS", "100000"))  # of the limits

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="kills and limits are those of POSIX"),
]


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(operation, "SNAPSHOT_EVERY", 12)


@pytest.mark.parametrize("name", list(POLICIES))
def test_stopped_and_gone_on_from_a_saved_state(name, tmp_path):
    durability.check_resume_from_files(name, splits=200, seed=1, folder=tmp_path, rounds=110)


@pytest.mark.parametrize("name", list(POLICIES))
def test_stopped_and_gone_on_from_the_log(name, tmp_path):
    durability.check_resume_from_log(name, splits=200, seed=1, folder=tmp_path)


KILLS = int(os.environ.get("HOLDCOURSE_KILLS", "1000"))
KILLS_OF_A_RECORD = 100  # then a new one: an exact model slows down as it learns


@pytest.mark.parametrize("half", [0, 1])
def test_killed_at_random_moments(half, tmp_path, record_property):
    """Two halves, so that two processors share them."""
    outcomes = [
        durability.check_kills(KILLS_OF_A_RECORD, seed, tmp_path / f"record{seed}")
        for seed in range(half + 1, KILLS // KILLS_OF_A_RECORD + 1, 2)
    ]
    total = {name: sum(outcome[name] for outcome in outcomes) for name in outcomes[0]}
    record_property(f"killed {total['kills']} times, read and copied meanwhile", total)
    assert total["rounds"] >= total["kills"]
    assert total["looks"] >= total["kills"] / 10


def test_a_trial_killed_at_random_moments_gives_the_same_answer(tmp_path, record_property):
    for seed in range(1, 4):
        (tmp_path / str(seed)).mkdir()
        path = tmp_path / str(seed) / "record"
        record_property(f"a trial killed 100 times, {seed}", durability.check_kills(100, seed, path, "trial"))
        disturbed, calm = (read_trial(path.with_name(name)).blocks for name in ("record", "undisturbed"))
        told = len(disturbed.cost)
        for name in ("block", "arm", "switching"):
            np.testing.assert_array_equal(getattr(disturbed, name), getattr(calm, name)[:told])
        for name in ("cost", "movement", "overridden"):  # of the last round nothing may be told yet
            np.testing.assert_array_equal(getattr(disturbed, name)[:-1], getattr(calm, name)[: told - 1])


@pytest.mark.parametrize("damage", [durability.truncate, durability.flip])
def test_damaged_files_are_refused_or_recovered(damage, tmp_path, record_property):
    outcome = durability.check_damage(times=300, seed=1, folder=tmp_path, damage=damage)
    record_property(f"{damage.__name__}: 300 times", outcome)
    assert min(outcome["refused"], outcome["recovered"]) > 0


def test_limits_hold_whatever_happens(record_property):
    bites = durability.check_limits_hold(rounds=ROUNDS, seed=1)
    record_property(f"{ROUNDS} fuzzed rounds", bites)
    assert min(bites.get(what, 0) for what in durability.BITES) > 100 * min(1.0, ROUNDS / 100_000), bites
