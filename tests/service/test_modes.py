"""Modes, override, watchdog and alarms: who decides, and who is told when something is wrong."""

from __future__ import annotations

import time

import numpy as np
import pytest
from service.running import wait_for
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.errors import LogError
from holdcourse.running.events import AlarmCleared, AlarmRaised, AlarmWindow, from_plain, plain
from holdcourse.service.core.hosted import Hosted
from holdcourse.service.core.ledger import ENOUGH, RAISED_AT, STILL, WINDOW, alarm_notes, deviations, window_after

UNLIMITED = {"limited_by": None, "forced": None}
GOES_TO_2 = {"policy": "fixed-at", "options": {"setting_index": 2}, "start_index": 0}


def test_act(client, name):
    client.create(id=name, **GOES_TO_2)
    decision = client.do(name, "ask", context=0.5)
    assert (decision["act"], decision["action"], decision["proposed"], decision["reason"]) == (True, 2, 2, None)
    client.do(name, "tell", decision="r0", measurement=1.0)
    assert client.see(name, "state")["action"] == 2


def test_advise(client, name):
    client.create(id=name, mode="advise", **GOES_TO_2)
    decision = client.do(name, "ask", context=0.5)
    assert (decision["act"], decision["action"], decision["mode"]) == (False, 2, "advise")
    client.do(name, "tell", decision="r0", measurement=1.0)
    assert client.see(name, "state")["action"] == 2  # the advice was followed
    client.do(name, "ask", context=0.5)
    client.do(name, "tell", decision="r1", measurement=1.0, applied_index=3)
    assert client.see(name, "state")["action"] == 3


def test_shadow_leaves_the_machine_where_it_is(client, name):
    client.create(id=name, mode="shadow", **GOES_TO_2)
    decision = client.do(name, "ask", context=0.5)
    assert (decision["act"], decision["action"], decision["proposed"]) == (False, 0, 2)
    told = client.do(name, "tell", decision="r0", measurement=1.0)
    assert told["told"]["applied_index"] == 0
    state = client.see(name, "state")
    assert (state["action"], state["movement"]) == (0, 0.0)
    client.do(name, "ask", context=0.5)
    client.do(name, "tell", decision="r1", measurement=1.0, applied_index=1)  # the operator moved it
    assert client.do(name, "ask", context=0.5)["action"] == 1
    assert client.see(name, "verify")["ok"]


def test_shadow_with_several_pending(client, name):
    client.create(id=name, mode="shadow", max_pending=2, **GOES_TO_2)
    asked = [client.do(name, "ask", context=0.5, round=k) for k in range(2)]
    assert [decision["action"] for decision in asked] == [0, 0]
    for decision in ("r1", "r0"):
        assert client.do(name, "tell", decision=decision, measurement=1.0)["told"]["applied_index"] == 0
    assert client.see(name, "state")["movement"] == 0.0


def test_limits_count_from_where_the_machine_was_told_to_stay(client, name):
    far = {"policy": "fixed-at", "options": {"setting_index": 3}, "limits": {"max_step_cost": 0.1}, "max_pending": 4}
    client.create(id=name, mode="shadow", **far)
    assert [client.do(name, "ask", context=0.5, round=k)["proposed"] for k in range(2)] == [1, 1]
    client.do(name, "override", setting_index=3, reason="storm", force=True)
    assert client.do(name, "ask", context=0.5, round=2)["action"] == 3
    client.do(name, "override", setting=None)
    client.do(name, "mode", mode="act")
    assert client.do(name, "ask", context=0.5, round=3)["action"] == 3  # no step from where it is held
    client.do(name, "tell", decision="r0", measurement=1.0, applied_index=1)  # the operator did what was proposed
    for decision in ("r1", "r2", "r3"):
        client.do(name, "tell", decision=decision, measurement=1.0)
    assert [row["applied_index"] for row in client.see(name, "decisions")["decisions"]] == [1, 0, 3, 3]
    assert client.see(name, "verify", full=True)["ok"]


def test_observe_does_not_show_the_proposal(client, name):
    client.create(id=name, mode="observe", **GOES_TO_2)
    decision = client.do(name, "ask", context=0.5)
    assert (decision["act"], decision["action"], decision["reason"]) == (False, 0, "observe")
    assert decision["proposed"] is decision["proposed_value"] is decision["probabilities"] is None
    client.do(name, "tell", decision="r0", measurement=1.0, applied_index=1)
    row = client.see(name, "decisions")["decisions"][0]
    assert (row["proposed"], row["proposed_value"], row["applied_index"]) == (None, None, 1)


def test_a_change_of_mode_counts_from_the_next_question(client, name):
    client.create(id=name, **GOES_TO_2)
    first = client.do(name, "ask", context=0.5)
    assert client.do(name, "mode", mode="shadow", reason="trying")["mode"] == "shadow"
    assert client.do(name, "ask", context=0.5) == first
    client.do(name, "tell", decision="r0", measurement=1.0)
    assert client.do(name, "ask", context=0.5)["act"] is False
    client.do(name, "mode", mode="shadow")
    client.do(name, "mode", mode="drive", status=422)


def test_override_holds_the_machine_until_it_is_released(client, name):
    client.create(id=name, **GOES_TO_2)
    state = client.do(name, "override", setting_index=3, reason="storm")
    assert state["status"] == "held"
    assert (state["override"]["action"], state["override"]["reason"]) == (3, "storm")
    assert state["instruction"] == UNLIMITED | {"action": 3, "value": 3.0, "reason": "override"}
    decision = client.do(name, "ask", context=0.5)
    assert (decision["act"], decision["action"], decision["proposed"], decision["reason"]) == (True, 3, 2, "override")
    assert client.do(name, "tell", decision="r0", measurement=1.0)["told"]["applied_index"] == 3
    assert client.see(name, "state")["movement"] == pytest.approx(0.3)
    state = client.do(name, "override", setting=None)
    assert (state["override"], state["status"]) == (None, "ok")
    assert client.do(name, "ask", context=0.5)["action"] == 2
    assert client.see(name, "verify")["ok"]
    client.do(name, "override", setting_index=4, status=422)


@pytest.mark.parametrize("held", [False, True])
def test_the_alarm_names_the_fallback_only_if_the_machine_goes_there(client, name, held):
    client.create(id=name, deadline_s=0.3, **GOES_TO_2, **({"fallback_index": 1} if held else {}))
    if held:
        client.do(name, "override", setting_index=3, reason="storm")
    decision = client.do(name, "ask", context=0.5)
    wait_for(lambda: client.see(name, "state")["alarms"], "the alarm")
    state = client.see(name, "state")
    assert state["instruction"]["action"] == decision["action"]
    (alarm,) = state["alarms"]
    assert alarm["message"] == "no measurement came for r0 within 0.3 s; report it, or skip the round"


def test_the_watchdog(client, name):
    client.create(id=name, deadline_s=0.3, fallback_index=1, **GOES_TO_2)
    client.do(name, "ask", context=0.5)
    assert client.see(name, "state")["status"] == "waiting"
    wait_for(lambda: client.see(name, "state")["alarms"], "the alarm")
    state = client.see(name, "state")
    assert state["status"] == "stale"
    assert state["instruction"] == UNLIMITED | {"action": 1, "value": 1.0, "reason": "fallback"}
    assert [alarm["kind"] for alarm in state["alarms"]] == ["stale"]
    assert "no measurement came for r0 within 0.3 s" in state["alarms"][0]["message"]
    assert "sent to its fallback" in state["alarms"][0]["message"]
    assert len(state["pending"]) == 1
    assert f'holdcourse_stale{{controller="{name}"}} 1' in client.get("/metrics").text.splitlines()
    told = client.do(name, "tell", decision="r0", measurement=1.0)  # late is better than never
    assert (told["told"]["applied_index"], told["assumed"]) == (1, "fallback")  # what the machine was really told
    state = client.see(name, "state")
    assert (state["status"], state["alarms"], state["rounds_told"], state["action"]) == ("ok", [], 1, 1)
    (alarm,) = client.see(name, "alarms")["alarms"]
    assert alarm["kind"] == "stale"
    assert alarm["cleared_at"] > alarm["at"]
    assert client.see(name, "verify")["ok"]


def test_without_a_fallback_a_stale_machine_stays(client, name):
    client.create(id=name, deadline_s=0.05, **GOES_TO_2)
    client.do(name, "ask", context=0.5)
    wait_for(lambda: client.see(name, "state")["status"] == "stale", "the deadline")
    assert client.see(name, "state")["instruction"]["action"] == 2


@pytest.mark.parametrize("mode", ["observe", "shadow"])
def test_a_stale_machine_that_does_not_follow_is_not_sent_to_the_fallback(client, name, mode):
    client.create(id=name, deadline_s=0.05, fallback_index=1, mode=mode, **GOES_TO_2)
    client.do(name, "ask", context=0.5)
    wait_for(lambda: client.see(name, "state")["alarms"], "the alarm")
    state = client.see(name, "state")
    assert (state["status"], state["instruction"]["action"]) == ("stale", 0)
    assert "fallback" not in state["alarms"][0]["message"]


@pytest.mark.parametrize("mode", ["observe", "shadow", "advise", "act"])
def test_a_machine_that_stops_asking_is_silent(client, name, mode):
    client.create(id=name, deadline_s=0.2, fallback_index=1, mode=mode, **GOES_TO_2)
    time.sleep(1.0)  # two looks of the watchdog
    assert client.see(name, "state")["status"] == "new"  # nobody has begun
    client.round(name, 0.5, 1.0)
    assert client.see(name, "state")["status"] == "ok"
    wait_for(lambda: client.see(name, "state")["alarms"], "the alarm")
    state = client.see(name, "state")
    assert state["status"] == "silent"
    assert state["instruction"]["reason"] == "decision"  # the round is over: silence moves nothing
    assert state["instruction"]["action"] == state["action"] != 1
    (alarm,) = state["alarms"]
    assert alarm["kind"] == "silent"
    assert "nobody asked within 0.2 s after the last round" in alarm["message"]
    metrics = client.get("/metrics").text.splitlines()
    assert f'holdcourse_silent{{controller="{name}"}} 1' in metrics
    assert f'holdcourse_stale{{controller="{name}"}} 0' in metrics
    client.change(name, deadline_s=60.0)
    client.do(name, "ask", context=0.5)
    state = client.see(name, "state")
    assert (state["status"], state["alarms"]) == ("waiting", [])
    (alarm,) = client.see(name, "alarms")["alarms"]
    assert alarm["cleared_at"] > alarm["at"]
    assert client.see(name, "verify", full=True)["ok"]


def test_the_first_question_after_a_silence_clears_it_at_once(client, name):
    client.create(id=name, deadline_s=0.6, **GOES_TO_2)
    client.round(name, 0.5, 1.0)
    wait_for(lambda: client.see(name, "state")["alarms"], "the alarm")
    client.do(name, "ask", context=0.5)
    assert client.see(name, "state")["alarms"] == []
    assert [alarm["kind"] for alarm in client.see(name, "alarms")["alarms"]] == ["silent"]


def test_a_silence_that_could_not_be_cleared_is_cleared_later(client, name, monkeypatch):
    client.create(id=name, deadline_s=0.1, **GOES_TO_2)
    client.round(name, 0.5, 1.0)
    wait_for(lambda: client.see(name, "state")["alarms"], "the alarm")
    commit = Hosted.commit

    def full(hosted, *notes):
        if any(isinstance(note, AlarmCleared) for note in notes):
            raise LogError("the disk is full")
        commit(hosted, *notes)

    with monkeypatch.context() as patch:
        patch.setattr(Hosted, "commit", full)
        assert client.do(name, "ask", context=0.5)["decision"] == "r1"  # answered all the same
    wait_for(lambda: [a["kind"] for a in client.see(name, "state")["alarms"]] == ["stale"], "the watchdog")


def test_between_episodes_silence_is_expected(client, name):
    client.create(id=name, deadline_s=0.2, **GOES_TO_2)
    client.round(name, 0.5, 1.0)
    wait_for(lambda: client.see(name, "state")["alarms"], "the alarm")
    client.do(name, "episode", start_index=1)
    client.change(name, limits={"min_dwell": 2})  # also in a new epoch
    wait_for(lambda: not client.see(name, "state")["alarms"], "the watchdog to clear it")
    time.sleep(0.3)
    assert client.see(name, "state")["status"] == "ok"
    client.round(name, 0.5, 1.0)
    wait_for(lambda: client.see(name, "state")["alarms"], "the alarm")


def test_without_a_deadline_nothing_is_late(client, name):
    client.create(id=name, deadline_s=0.1, **GOES_TO_2)
    client.round(name, 0.5, 1.0)
    wait_for(lambda: client.see(name, "state")["alarms"], "the alarm")
    assert client.change(name, deadline_s=None)["status"] == "ok"
    wait_for(lambda: not client.see(name, "state")["alarms"], "the watchdog to clear it")


def test_a_frozen_sensor_raises_an_alarm_once(client, name):
    client.create(id=name, **GOES_TO_2)
    alarms = []
    for _ in range(STILL + 3):
        decision = client.do(name, "ask", context=0.5)["decision"]
        alarms.append([a["kind"] for a in client.do(name, "tell", decision=decision, measurement=1.5)["alarms"]])
    assert alarms == [[]] * (STILL - 1) + [["sensor"]] + [[]] * 3
    last = {"decision": f"r{STILL - 1}", "measurement": 1.5}
    assert client.do(name, "tell", **last)["alarms"][0]["kind"] == "sensor"  # the same answer again
    assert [alarm["kind"] for alarm in client.see(name, "state")["alarms"]] == ["sensor"]
    client.round(name, 0.5, 1.6)
    assert client.see(name, "state")["alarms"] == []


def test_a_model_that_is_wrong_too_often_raises_an_alarm(client, name):
    client.create(id=name)
    for t in range(ENOUGH + 2):
        client.round(name, 0.5, 50.0 * (-1) ** t)
    assert [alarm["kind"] for alarm in client.see(name, "state")["alarms"]] == ["calibration"]
    message = client.see(name, "alarms")["alarms"][0]["message"]
    assert "outside the band" in message
    assert "The sensor may be wrong, or the costs may depend on" in message


def test_a_model_that_is_right_raises_no_alarm():
    """Costs drawn from the model's own prior, learned as they come: 1000 rounds, ten times."""
    kernel, problem = hc.Kernel(RBF(1.0), RBF(0.5)), hc.Problem([0.0, 1.0, 2.0, 3.0], scale=0.1)
    policy = hc.gp_md(problem, kernel=kernel, noise_std=0.3, context_bounds=[[0.0, 1.0]])
    contexts = np.linspace(0.0, 1.0, 25)
    points = np.array([[action, context] for context in contexts for action in range(4)])
    away = points[:, None] - points[None]
    covariance = np.exp(-0.5 * ((away[..., 0] / 1.0) ** 2 + (away[..., 1] / 0.5) ** 2)) + 1e-9 * np.eye(100)
    outside = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        costs = (np.linalg.cholesky(covariance) @ rng.standard_normal(100)).reshape(25, 4)
        controller, watched = hc.Controller(policy, start_index=0, seed=seed), AlarmWindow()
        for k in rng.integers(25, size=1000):
            decision = controller.ask(contexts[k])
            measured = costs[k, decision.action] + rng.normal(0.0, 0.3)
            entry = controller.entry(decision.id)
            off = deviations(entry, controller.model, decision.action, measured)
            controller.tell(decision.id, measured)
            watched = window_after(watched, measured, off)
            outside += watched.beyond[-1]
            assert alarm_notes(watched, []) == []
    assert 0.035 < outside / 10_000 < 0.055


def test_the_calibration_alarm_does_not_flap():
    watched, open_kinds, notes = AlarmWindow(), [], []
    for t in range(300):
        watched = window_after(watched, float(t), 3.0 if 100 <= t < 140 or t % 22 == 0 else 0.5)
        for note in alarm_notes(watched, open_kinds):
            notes.append((t, note.NOTE))
            open_kinds = ["calibration"] if isinstance(note, AlarmRaised) else []
    assert [kind for _, kind in notes] == ["alarm", "cleared"]
    by_chance = 1 + WINDOW // 22
    assert 100 + RAISED_AT * WINDOW - by_chance - 1 <= notes[0][0] <= 140
    assert notes[1][0] > 100 + WINDOW - 40 + RAISED_AT * WINDOW
    assert from_plain(AlarmWindow, plain(watched), "the window") == watched


def test_an_old_request_that_comes_again_does_not_undo_a_newer_one(client, name):
    client.create(id=name, mode="advise", **GOES_TO_2)
    client.do(name, "mode", mode="act", key="first")
    client.do(name, "mode", mode="observe")
    assert client.do(name, "mode", mode="act", key="first")["mode"] == "observe"
    client.do(name, "override", setting_index=1, reason="storm", key="second")
    client.do(name, "override", setting=None)
    assert client.do(name, "override", setting_index=1, reason="storm", key="second")["override"] is None
    client.do(name, "ask", key="third", context=0.5)
    for what, body, key, recorded in (
        ("ask", {"context": 0.5}, "first", "mode"),
        ("tell", {"decision": "r0", "measurement": 1.0}, "second", "override"),
        ("tell", {"decision": "r0", "measurement": 1.0}, "third", "ask 0"),
        ("mode", {"mode": "act"}, "third", "ask 0"),
    ):
        assert client.do(name, what, key=key, status=409, **body)["recorded"] == recorded
    refused = client.do(name, "mode", mode="shadow", key="first", status=409)
    assert (refused["recorded"]["mode"], refused["given"]["mode"]) == ("act", "shadow")


def test_a_key_means_its_request_also_where_that_changed_nothing(client, name):
    client.create(id=name, **GOES_TO_2)
    client.do(name, "mode", mode="act", key="first")  # it acts already
    client.do(name, "mode", mode="observe")
    assert client.do(name, "mode", mode="act", key="first")["mode"] == "observe"
    since = client.do(name, "override", setting_index=1, reason="storm")["override"]["since"]
    assert client.do(name, "override", setting_index=1, reason="storm", key="second")["override"]["since"] == since
    client.do(name, "override", setting=None)
    assert client.do(name, "override", setting_index=1, reason="storm", key="second")["override"] is None


def test_a_repeated_override_is_recognised_when_its_action_is_gone(client, name):
    client.create(id=name, **GOES_TO_2)
    client.do(name, "override", setting_index=3, reason="storm", key="k")
    assert client.change(name, actions=[0.0, 3.0])["override"]["action"] == 1
    assert client.do(name, "override", setting_index=3, reason="storm", key="k")["override"]["action"] == 1
