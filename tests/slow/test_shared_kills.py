"""Servers over one database, killed with SIGKILL at random moments; see `service.shared_kills`."""

from __future__ import annotations

import os

import pytest
from service.shared_kills import Forking, killed_and_taken_over

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="kills are those of POSIX"),
]

KILLS = int(os.environ.get("HOLDCOURSE_KILLS", "300"))
KILLS_OF_A_DATABASE = 25  # opening takes longer as records grow


@pytest.fixture(scope="module")
def forking():
    forking = Forking()
    yield forking
    forking.close()


@pytest.mark.parametrize("seed", range(1, max(KILLS // KILLS_OF_A_DATABASE, 1) + 1))
def test_killed_another_takes_over_and_nothing_is_lost_or_decided_twice(seed, forking, postgres, record_property):
    kills = min(KILLS, KILLS_OF_A_DATABASE)
    found = killed_and_taken_over(forking, postgres.database(), kills=kills, servers=2 + seed % 2, lease=1.0, seed=seed)
    record_property(f"seed {seed}", found)
