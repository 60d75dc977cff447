"""Trials over HTTP: begun and ended on a running controller, proved from its record, answered."""

from __future__ import annotations

import base64

import pytest
from service.running import KERNEL

import holdcourse as hc


def turns(client, name, rounds, applied=None):
    """Decide and tell rounds; returns the answers."""
    answers = []
    for t in range(rounds):
        answer = client.do(name, "ask", context=0.1 * (t % 7))
        answers.append(answer)
        told = {} if answer["act"] or applied is None else {"applied": applied}
        body = {"decision": answer["decision"], "measurement": 1.0 + 0.1 * (t % 3), "reference": float(t % 5)}
        client.do(name, "tell", **body, **told)
    return answers


def test_a_trial_begins_and_ends_on_a_running_controller(client, name):
    client.create(id=name, start_index=0)
    turns(client, name, 4)
    state = client.change(name, trial={"block": 2, "baseline_index": 1, "heard": 0.4})
    assert (state["epoch"], state["round"]) == (2, 4)
    assert client.see(name, "state")["trial"]["heard"] == 0.4
    rows = turns(client, name, 12)
    arms = [row["turn"]["arm"] for row in rows]
    assert [row["turn"]["block"] for row in rows] == [block for block in range(6) for _ in range(2)]
    assert [arms[4 * pair] + arms[4 * pair + 2] for pair in range(3)] == [1, 1, 1]
    assert client.see(name, "config")["trial"]["block"] == 2
    assert client.change(name, trial=None)["epoch"] == 3
    assert client.do(name, "ask", context=0.3)["turn"] is None
    found = client.see(name, "verify", full=True)
    assert found["ok"], found


def test_people_run_the_machine_in_their_blocks(client, name):
    client.create(id=name, start_index=0, trial={"block": 1, "operators": True})
    rows = turns(client, name, 8, applied=0.0)
    for row in rows:
        people = row["turn"]["arm"] == 0
        assert (row["act"], row["reason"]) == (not people, "trial" if people else None)
    assert client.see(name, "verify", full=True)["ok"]


def test_a_policy_from_a_file_goes_on_trial_and_comes_back(client, name, tmp_path):
    hc.gp_md(hc.Problem([0.0, 0.5, 1.0]), kernel=KERNEL, noise_std=0.1).save(tmp_path / "mine.policy")
    content = base64.b64encode((tmp_path / "mine.policy").read_bytes()).decode()
    made = client.post("/controllers", json={"id": name, "policy_file": content, "start": 0.5})
    assert made.status_code == 201, made.text
    turns(client, name, 3)
    assert client.change(name, trial={"block": 1, "baseline_policy": "planner"})["epoch"] == 2
    turns(client, name, 6)
    assert client.change(name, trial={"block": 3})["epoch"] == 3
    turns(client, name, 6)
    assert client.change(name, trial=None)["epoch"] == 4
    turns(client, name, 2)
    assert client.see(name, "verify", full=True)["ok"]


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"block": 0}, "block"),
        ({"block": 2, "blocks": 3}, "multiple of 2"),
        ({"block": 2, "heard": 1.5}, "less than or equal to 1"),
        ({"block": "6 h"}, "say how long a round is"),
        ({"block": 2, "baseline": 0.123}, "0.123"),
        ({"block": 2, "baseline_index": 1, "operators": True}, "give exactly one of baseline"),
    ],
)
def test_what_is_no_trial_is_refused(client, name, terms, words):
    client.create(id=name)
    assert words in str(client.change(name, trial=terms, status=422))


def test_a_block_is_as_long_as_a_time(client, name):
    client.create(id=name, limits={"round_length": "30 min"}, trial={"block": "2 h"})
    assert client.see(name, "config")["trial"]["block"] == 4


def test_the_answer_is_read_from_the_record(client, name):
    client.create(id=name, start_index=0)
    assert client.see(name, "trial") == {"trial": None}
    client.change(name, trial={"block": 1, "baseline_index": 0}, limits={"round_length": "1 h"})
    turns(client, name, 40)
    client.change(name, limits={"min_dwell": 2})  # a new epoch, in which the trial goes on
    turns(client, name, 20)
    found = client.see(name, "trial")["trial"]
    assert (found["pairs"], found["rounds"], found["against"]) == (30, 1, "fixed at 0")
    assert found["verdict"] in ("it pays", "it does not pay", "undecided")
    assert "the reference" in found["adjusted_by"]
    assert "the time of the cycle" in found["adjusted_by"]
    assert len(found["looks"]["always_low"]) == len(found["net"]) == len(found["began"]) == 30
    assert (found["over"], found["until"] is None) == (False, False)
    client.change(name, trial=None)
    ended = client.see(name, "trial")["trial"]
    assert ended["over"]
    assert (ended["pairs"], ended["gain"], ended["until"]) == (30, found["gain"], found["until"])
    turns(client, name, 3)
    assert client.see(name, "trial")["trial"] == ended
    client.change(name, trial={"block": 1, "baseline_index": 0})  # another one, of the same arms
    assert client.see(name, "trial")["trial"]["pairs"] == 0


def test_a_trial_goes_on_under_other_limits_whatever_was_learned(client, name):
    """The policy that people have by default chooses anew which setting it would hold, from all that was told."""
    client.create(id=name, policy="recommended", options={}, start_index=0, trial={"block": 1, "baseline_index": 0})
    for t in range(12):
        decision = client.do(name, "ask", context=0.1 * (t % 7))
        client.do(name, "tell", decision=decision["decision"], measurement=2.0 - decision["action"])
    for limits in ({"min_dwell": 2}, {"max_step": 0.5}):
        client.change(name, limits=limits)
        turns(client, name, 4)
    assert client.see(name, "trial")["trial"]["pairs"] == 10
