"""Whoever wants it, the machine goes only where the limits permit; force with a reason is the only exception."""

from __future__ import annotations

import pytest
from service.limited import LATE, Operated
from service.running import wait_for

STAYS = {
    "policy": "fixed-at",
    "options": {"setting_index": 0},
    "start_index": 0,
}  # actions 0, 1, 2, 3; neighbours are 0.1 apart
NEAR = {"limits": {"max_step_cost": 0.15}}
ONLY = [True, True, False, True]  # 2 is forbidden


def test_an_override_travels_in_steps(client, name):
    client.create(id=name, **STAYS, **NEAR)
    state = client.do(name, "override", setting_index=3, reason="storm")
    assert (state["instruction"]["action"], state["instruction"]["limited_by"]) == (1, "max_step")
    for action, limit in ((1, "max_step"), (2, "max_step"), (3, None), (3, None)):
        decision = client.do(name, "ask", context=0.5)
        assert (decision["act"], decision["action"], decision["limited_by"]) == (True, action, limit)
        assert (decision["reason"], decision["forced"]) == ("override", None)
        state = client.see(name, "state")  # until it is told, what was answered holds
        assert (state["instruction"]["action"], state["instruction"]["limited_by"]) == (action, limit)
        client.do(name, "tell", decision=decision["decision"], measurement=1.0)
    rows = client.see(name, "decisions")["decisions"]
    assert [(row["applied_index"], row["limited_by"]) for row in rows[:2]] == [(1, "max_step"), (2, "max_step")]
    words = client.see(name, "explain/r0")["words"]
    assert "an instruction sends the machine to 1; 3 was wanted, but max_step forbids it." in words
    assert client.see(name, "verify", full=True)["ok"]


def test_an_override_does_not_go_where_the_mask_forbids(client, name):
    client.create(id=name, **STAYS)
    client.do(name, "override", setting_index=2, reason="storm")
    decision = client.do(name, "ask", context=0.5, allowed=ONLY)
    assert (decision["action"], decision["limited_by"]) == (1, "allowed")
    client.do(name, "override", setting=None)
    state = client.do(name, "override", setting_index=2, reason="again")  # between questions, the newest mask counts
    assert (state["instruction"]["action"], state["instruction"]["limited_by"]) == (1, "allowed")


def test_force_goes_there_at_once_and_says_why(client, name):
    client.create(id=name, **STAYS, **NEAR)
    client.do(name, "ask", context=0.5, allowed=[True, True, True, False])
    state = client.do(name, "override", setting_index=3, reason="fire", force=True)
    assert state["override"]["force"] is True
    assert (state["instruction"]["action"], state["instruction"]["forced"]) == (3, "fire")
    client.do(name, "tell", decision="r0", measurement=1.0)
    decision = client.do(name, "ask", context=0.5, allowed=[True, True, True, False])
    assert (decision["action"], decision["limited_by"], decision["forced"]) == (3, None, "fire")
    assert client.do(name, "ask", context=0.5, allowed=[True, True, True, False]) == decision
    assert client.see(name, "decisions")["decisions"][-1]["forced"] == "fire"
    assert "by force, whatever the limits say: fire" in client.see(name, "explain/r1")["words"]
    state = client.change(name, actions=[3.0, 2.0, 1.0, 0.0])
    assert (state["override"]["action"], state["override"]["force"]) == (0, True)
    assert state["pending"][0]["forced"] == "fire"
    assert client.see(name, "verify", full=True)["ok"]


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("override", {"setting_index": 3, "force": True}),
        ("override", {"setting_index": 3, "force": True, "reason": "  "}),
        ("override", {"setting_index": None, "force": True, "reason": "fire"}),
        ("episode", {"start_index": 3, "force": True}),
    ],
)
def test_force_needs_a_reason_and_an_action(client, name, what, body):
    client.create(id=name, **STAYS, **NEAR)
    assert "force" in client.do(name, what, status=422, **body)["message"]
    assert client.see(name, "state")["override"] is None


def test_an_override_with_force_is_another_one_than_without(client, name):
    client.create(id=name, **STAYS, **NEAR)
    client.do(name, "override", setting_index=3, reason="fire", key="k")
    assert client.do(name, "override", setting_index=3, reason="fire", force=True)["instruction"]["action"] == 3
    client.do(name, "override", setting_index=3, reason="fire", force=True, key="k", status=409)
    assert client.do(name, "override", setting_index=3, reason="fire")["instruction"]["action"] == 1


def test_where_nothing_is_in_reach_the_machine_stays(client, name):
    client.create(id=name, mode="shadow", **(STAYS | {"options": {"setting_index": 1}}), **NEAR)
    client.do(name, "ask", context=0.5, allowed=[False, True, True, True])
    client.do(name, "tell", decision="r0", measurement=1.0, applied_index=3)
    client.do(name, "ask", context=0.5, allowed=[False, False, True, False])
    client.do(name, "tell", decision="r1", measurement=1.0, applied_index=0)  # somebody moved it where it may not be
    instruction = client.do(name, "override", setting_index=3, reason="storm")["instruction"]
    assert (instruction["action"], instruction["limited_by"]) == (0, "max_step")


def test_the_fallback_passes_through_the_limits(client, name):
    client.create(id=name, deadline_s=1e6, fallback_index=3, **STAYS, **NEAR)
    client.do(name, "ask", context=0.5)
    state = client.change(name, deadline_s=LATE)
    assert state["instruction"]["reason"] == "fallback"
    assert (state["instruction"]["action"], state["instruction"]["limited_by"]) == (1, "max_step")
    wait_for(lambda: client.see(name, "state")["action"] == 1, "the watchdog to record it")
    state = client.see(name, "state")
    assert (state["instruction"]["action"], state["instruction"]["limited_by"]) == (1, "max_step")
    told = client.do(name, "tell", decision="r0", measurement=1.0)
    assert (told["told"]["applied_index"], told["assumed"]) == (1, "fallback")
    assert client.do(name, "tell", decision="r0", measurement=1.0) == told
    client.change(name, deadline_s=None)
    assert client.do(name, "ask", context=0.5)["action"] == 0  # from 1, where it was sent
    assert client.see(name, "verify", full=True)["ok"]


def test_the_fallback_heeds_the_mask_of_the_newest_question(client, name):
    client.create(id=name, fallback_index=2, deadline_s=LATE, **STAYS)
    client.do(name, "ask", context=0.5, allowed=ONLY)
    instruction = client.see(name, "state")["instruction"]
    assert (instruction["action"], instruction["limited_by"]) == (1, "allowed")


def test_a_program_that_did_not_follow_the_fallback_says_so(client, name):
    client.create(id=name, fallback_index=3, deadline_s=LATE, **STAYS)
    client.do(name, "ask", context=0.5)
    told = client.do(name, "tell", decision="r0", measurement=1.0, applied_index=0)
    assert (told["told"]["applied_index"], told["assumed"]) == (0, None)
    assert client.see(name, "state")["action"] == 0


def test_a_late_tell_books_the_fallback_also_before_the_watchdog_came(client, name):
    client.create(id=name, fallback_index=3, deadline_s=LATE, **STAYS)
    client.do(name, "ask", context=0.5)
    assert client.do(name, "tell", decision="r0", measurement=1.0)["told"]["applied_index"] == 3
    assert [alarm["kind"] for alarm in client.see(name, "alarms")["alarms"]] == ["stale"]


def test_a_fallback_is_carried_into_the_next_epoch(client, name):
    client.create(id=name, fallback_index=3, deadline_s=LATE, **STAYS, **NEAR)
    client.do(name, "ask", context=0.5, allowed=[True, True, False, True])
    wait_for(lambda: client.see(name, "state")["action"] == 1, "the watchdog to record it")
    state = client.change(name, actions=[3.0, 2.0, 1.0, 0.0], deadline_s=None)
    assert (state["action"], state["fallback_index"]) == (2, 0)
    state = client.do(name, "override", setting_index=1, reason="look")  # forbidden as 2.0 was before
    assert (state["instruction"]["action"], state["instruction"]["limited_by"]) == (2, "allowed")
    told = client.do(name, "tell", decision="r0", measurement=1.0)
    assert (told["told"]["applied_index"], told["assumed"]) == (2, "fallback")
    assert client.see(name, "state")["action"] == 2
    assert client.see(name, "verify", full=True)["ok"]


def test_a_decision_of_an_earlier_epoch_falls_back_too(client, name):
    client.create(id=name, fallback_index=3, deadline_s=1e6, **STAYS, **NEAR)
    client.do(name, "ask", context=0.5)
    client.change(name, actions=[3.0, 2.0, 1.0, 0.0])
    client.change(name, deadline_s=LATE)
    assert client.do(name, "tell", decision="r0", measurement=1.0)["told"]["applied_index"] == 2
    assert client.see(name, "verify", full=True)["ok"]


def test_a_released_override_gives_way_to_the_fallback(client, name):
    client.create(id=name, fallback_index=3, deadline_s=LATE, **STAYS, **NEAR)
    client.do(name, "override", setting_index=0, reason="look")
    client.do(name, "ask", context=0.5)
    wait_for(lambda: client.see(name, "state")["alarms"], "the alarm")
    assert client.see(name, "state")["instruction"]["reason"] == "override"
    assert client.do(name, "override", setting=None)["instruction"]["action"] == 1
    wait_for(lambda: client.see(name, "state")["action"] == 1, "the watchdog to record it")


def test_while_questions_come_an_older_measurement_sends_nobody_to_the_fallback(client, name):
    client.create(id=name, fallback_index=3, deadline_s=0.4, max_pending=2, **STAYS)
    client.do(name, "ask", context=0.5, round=0)
    wait_for(lambda: client.see(name, "state")["action"] == 3, "the watchdog")
    client.change(name, deadline_s=60.0)
    assert client.do(name, "ask", context=0.5, round=1)["action"] == 0
    state = client.see(name, "state")
    assert (state["instruction"]["action"], state["instruction"]["reason"]) == (0, "decision")
    told = client.do(name, "tell", decision="r1", measurement=1.0)
    assert (told["told"]["applied_index"], told["assumed"]) == (0, "answer")


@pytest.mark.parametrize("actions", [[0.0, 1.0, 2.0, 3.0], [3.0, 2.0, 1.0, 0.0]])
def test_where_the_machine_fell_back_is_known_after_the_next_question(client, name, actions):
    client.create(id=name, fallback_index=3, deadline_s=0.4, max_pending=2, limits={"min_dwell": 4}, **STAYS)
    client.do(name, "ask", context=0.5, round=0)
    wait_for(lambda: client.see(name, "state")["action"] == 3, "the watchdog")
    client.change(name, deadline_s=60.0)
    assert client.do(name, "ask", context=0.5, round=1)["action"] == 3
    client.change(name, actions=actions)
    told = client.do(name, "tell", decision="r0", measurement=1.0)
    assert (told["told"]["applied"], told["assumed"]) == (3.0, "fallback")
    client.do(name, "tell", decision="r1", measurement=1.0)
    decision = client.do(name, "ask", context=0.5, round=2)
    assert (decision["value"], decision["limited_by"]) == (3.0, "min_dwell"), "it was sent there in round 0"
    assert client.see(name, "verify", full=True)["ok"]


def test_an_episode_begins_within_the_limits_or_by_force(client, name):
    client.create(id=name, **STAYS, **NEAR)
    message = client.do(name, "episode", start_index=3, status=422)["message"]
    assert "going to 3 from 0, where the machine is, costs 0.3, but max_step is a cost of 0.15" in message
    assert client.do(name, "episode", start_index=1)["action"] == 1
    client.do(name, "ask", context=0.5, allowed=[True, True, False, True])
    client.do(name, "tell", decision="r0", measurement=1.0, applied_index=1)
    assert "was not allowed in the newest round" in client.do(name, "episode", start_index=2, status=422)["message"]
    state = client.do(name, "episode", start_index=3, force=True, reason="towed", key="k")
    assert (state["action"], state["instruction"]["forced"]) == (3, "towed")
    assert client.do(name, "episode", start_index=3, force=True, reason="towed", key="k")["episode"] == 2
    assert client.change(name, limits={"min_dwell": 2})["instruction"]["forced"] == "towed"
    client.round(name, 0.5, 1.0)
    assert client.see(name, "state")["instruction"]["forced"] is None
    assert client.see(name, "verify", full=True)["ok"]


def test_random_operators_never_break_a_limit(client, name, record_property):
    """Many more of them, with more said about what they met, are in slow/test_service_limits.py."""
    seen = Operated(client, name, seed=0).run(70)
    record_property("70 random requests of operators", dict(seen))
    assert min(seen["act"], seen["told, fallback"]) > 0, seen


def test_a_change_of_actions_does_not_take_the_machine_beyond_its_step(client, name):
    """It is at 0; of the new actions, the nearest is 0.2 away."""
    client.create(id=name, **STAYS, **NEAR)
    message = client.change(name, actions=[2.0, 3.0], options={"setting_index": 0}, status=422)["message"]
    assert "the nearest of the new settings, 2, costs 0.2 to reach, more than max_step (a cost of 0.15)" in message
    assert client.see(name, "state")["epoch"] == 1
    assert client.change(name, actions=[1.0, 3.0], options={"setting_index": 0})["epoch"] == 2
