"""The server killed with SIGKILL at random moments while two clients run the members of a hosted fleet."""

from __future__ import annotations

import os

import pytest
from service.fleet_kills import killed_in_mid_traffic

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="kills are those of POSIX"),
]

KILLS = int(os.environ.get("HOLDCOURSE_KILLS", "100"))


def test_nothing_acknowledged_is_lost_and_every_decision_is_the_undisturbed_one(tmp_path):
    rounds = killed_in_mid_traffic(tmp_path / "data", KILLS, least=1, longest_life=0.5, seed=11)
    print(f"{KILLS} kills in {rounds} rounds of half the members")
    assert rounds > KILLS
