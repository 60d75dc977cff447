"""Changes to a running controller: its data are kept, in a new epoch of the record where decisions depend on them."""

from __future__ import annotations

import pytest
from service.running import QUICK, Client, served, wait_for

from holdcourse.errors import LogError
from holdcourse.running import audit
from holdcourse.running.events import Previous
from holdcourse.running.log import Log
from holdcourse.service.core.data_folder import DataFolder


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def own(folder):
    """A server that is this test's only."""
    with served(folder) as url, Client(url) as client:
        yield client


def test_what_decisions_do_not_depend_on_changes_in_place(client, name):
    client.create(id=name)
    state = client.change(name, name="South field", deadline_s=60.0, fallback_index=2, units={"measurement": "kWh"})
    assert (state["name"], state["deadline_s"], state["fallback_index"], state["epoch"]) == ("South field", 60.0, 2, 1)
    assert state["units"] == {"action": "", "measurement": "kWh", "contexts": None, "cost": ""}
    assert client.change(name, fallback=None)["fallback"] is None
    client.change(name, fallback_index=7, status=422)
    client.change(name, mode="act", status=422)
    assert client.see(name, "config")["name"] == "South field"


def test_limits_begin_a_new_epoch_and_what_is_not_named_stays(client, name):
    client.create(id=name, limits={"min_dwell": 3})
    for t in range(4):
        client.round(name, 0.1 * t, 1.0)
    state = client.change(name, limits={"max_step_cost": 0.1})
    assert (state["epoch"], state["round"]) == (2, 4)
    assert (state["limits"]["min_dwell"], state["limits"]["max_step_cost"]) == (3, 0.1)
    assert client.change(name, limits={"max_step_cost": 0.1})["epoch"] == 2
    assert state["service"] == 4.0
    decision = client.round(name, 0.5, 1.0)
    assert decision["decision"] == "r4"
    rows = client.see(name, "decisions")["decisions"]
    assert [(row["round"], row["epoch"]) for row in rows] == [(0, 1), (1, 1), (2, 1), (3, 1), (4, 2)]
    assert [row["round"] for row in client.see(name, "decisions", after=2)["decisions"]] == [3, 4]
    assert client.see(name, "explain/r1")["decision"] == "r1"
    found = client.see(name, "verify", full=True)
    assert found["ok"], found
    assert found["epochs"] == 2


def test_other_actions_keep_what_was_learned(client, name):
    client.create(id=name, history_index=[[3, 0.5, 4.0]] * 3, policy="proximal-lcb", start_index=3)
    for _ in range(5):
        client.round(name, 0.5, 4.0, applied_index=3)
    state = client.change(name, actions=[0.0, 1.5, 3.1])
    assert (state["action"], state["value"]) == (2, 3.1)
    field = client.see(name, "field")
    assert field["mean"][0][2] == pytest.approx(4.0, abs=0.3)  # what was measured at 3.0 counts for 3.1
    client.round(name, 0.5, 2.0)
    found = client.see(name, "verify", full=True)
    assert found["ok"], found
    client.change(name, actions=[[0.0, 1.0], [1.0, 1.0]], status=422)
    assert client.see(name, "state")["epoch"] == 2


def test_a_pending_decision_is_carried_over(client, name):
    client.create(id=name, policy="fixed-at", options={"setting_index": 3}, deadline_s=100.0)
    asked = client.do(name, "ask", context=0.5, key="k")
    state = client.change(name, actions=[1.0, 3.0], policy="stationary", options={"setting_index": None})
    (pending,) = state["pending"]
    assert (pending["decision"], pending["action"], pending["value"]) == ("r0", 1, 3.0)
    assert client.do(name, "ask", context=0.5, key="k") == asked
    assert client.do(name, "ask", context=0.5) == asked
    client.do(name, "ask", context=0.6, status=409)
    told = client.do(name, "tell", decision="r0", measurement=2.0, applied_index=0)
    assert told["told"] == {"measurement": 2.0, "applied": 1.0, "applied_index": 0}
    assert client.do(name, "tell", decision="r0", measurement=2.0, applied_index=0) == told
    client.do(name, "tell", decision="r0", measurement=3.0, applied_index=0, status=409)
    state = client.see(name, "state")
    assert (state["action"], state["rounds_told"], state["pending"]) == (0, 1, [])
    assert client.do(name, "ask", context=0.6)["action"] == 0  # stays where the operator brought it
    row = client.see(name, "decisions")["decisions"][0]
    assert (row["measurement"], row["applied"]) == (2.0, 1.0)
    found = client.see(name, "verify", full=True)
    assert found["ok"], found


def test_mode_override_and_alarms_are_carried_over(client, name):
    client.create(id=name)
    client.do(name, "mode", mode="advise")
    client.do(name, "override", setting_index=3, reason="storm")
    state = client.change(name, actions=[0.0, 3.0], guard={"threshold": 9.0, "revert_to_index": 1})
    assert state["mode"] == "advise"
    assert (state["override"]["action"], state["override"]["reason"]) == (1, "storm")
    assert client.see(name, "config")["guard"] == {
        "threshold": 9.0,
        "revert_to": 3.0,
        "revert_to_index": None,
        "cool_down": 10,
    }
    assert client.change(name, guard={"threshold": 8.0, "revert_to_index": 1})["epoch"] == 3
    assert client.change(name, actions=[3.0, 0.0])["override"]["action"] == 0
    assert client.see(name, "config")["guard"]["revert_to"] == 3.0  # which is the first one now
    assert client.change(name, guard=None)["epoch"] == 5


def test_keys_of_earlier_epochs_still_count(client, name):
    client.create(id=name)
    first = client.do(name, "ask", context=0.5, key="old")
    client.do(name, "tell", decision="r0", measurement=1.0, key="told")
    client.change(name, limits={"min_dwell": 2})
    assert client.do(name, "ask", context=0.5, key="old") == first
    assert client.do(name, "tell", decision="r0", measurement=1.0, key="told")["decision"] == "r0"
    assert client.do(name, "ask", context=0.5, key="new")["decision"] == "r1"


def test_epochs_are_chained(own, folder):
    own.create(id="a")
    own.round("a", 0.5, 1.0)
    own.change("a", limits={"min_dwell": 2})
    own.round("a", 0.5, 1.0)
    paths = sorted((folder / "controllers" / "a").glob("epoch-*.db"))
    first, second = (Log.read(path) for path in paths)
    assert second.about.previous == Previous("epoch-0001.db", first.last, first.chain)
    first.close()
    second.close()
    assert all(audit.verify(path).verified for path in paths)


def test_an_epoch_that_does_not_continue_the_one_before_is_refused(folder):
    with served(folder) as url, Client(url) as client:
        for name in ("whole", "cut"):
            client.create(id=name)
            client.round(name, 0.5, 1.0)
        client.change("cut", limits={"min_dwell": 2})
        client.round("cut", 0.5, 1.0)
    (folder / "controllers" / "cut" / "epoch-0001.db").write_bytes(
        (folder / "controllers" / "whole" / "epoch-0001.db").read_bytes()
    )
    (folder / "controllers" / "cut" / "epoch-0001.db-mark").unlink()
    with served(folder) as url, Client(url) as client:
        wait_for(lambda: client.get("/readyz").status_code == 200, "both to be opened")
        assert client.do("cut", "ask", context=0.5, status=503)["code"] == "broken"
        assert not client.see("cut", "verify")["ok"]
        rows = {row["id"]: row for row in client.get("/controllers").json()["controllers"]}
        assert (rows["cut"]["status"], rows["whole"]["status"]) == ("broken", "ok")
        assert "does not continue" in rows["cut"]["message"]
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["broken"]) == (200, 1)
        assert "1 of 2 controllers are broken" in ready.json()["message"]
        assert "cut" not in ready.text  # anybody may ask
        client.round("whole", 0.5, 1.0)


def test_another_policy_begins_with_its_own_options(client, name):
    client.create(id=name)
    state = client.change(name, policy="fixed-at", options={"setting_index": 2})
    assert (state["policy"], state["epoch"]) == ("fixed-at", 2)
    assert client.round(name, 0.5, 1.0)["action"] == 2
    assert client.change(name, policy="stationary")["epoch"] == 3
    client.change(name, policy="stationary", options={"tau": 5.0}, status=422)
    client.round(name, 0.5, 1.0)
    assert client.see(name, "verify", full=True)["ok"]


def test_what_is_measured_keeps_its_meaning_under_another_policy(client, name):
    client.create(id=name, policy="proximal-lcb", options={"maximise": True})
    client.round(name, 0.5, 2.0)
    for policy in ("stationary", "recommended"):
        client.change(name, policy=policy)
        assert client.see(name, "config")["options"]["maximise"] is True
    client.round(name, 0.5, 3.0)
    assert client.see(name, "state")["service"] == -5.0
    client.change(name, 422, policy="fixed-at", options={"setting_index": 1, "maximise": False})
    assert client.change(name, policy="fixed-at", options={"setting_index": 1})["maximise"] is True


@pytest.mark.parametrize("maximise", [False, True])
@pytest.mark.parametrize("known", ["history", "told"])
def test_measurements_keep_their_meaning(client, name, maximise, known):
    """Sums, gains and models hold them as costs or as gains; the other way round they would mislead."""
    past = {"history_index": [[0, 0.5, 9.0], [1, 0.5, 2.0]]} if known == "history" else {}
    client.create(id=name, options={**QUICK["options"], "maximise": maximise}, **past)
    if known == "told":
        client.round(name, 0.5, 3.0)
        client.round(name, 0.5, 4.0)
    before = client.see(name, "state")
    message = client.change(name, 422, options={"maximise": not maximise})["message"]
    was, now = ("gains", "costs") if maximise else ("costs", "gains")
    assert f"{name} has 2 measurements that counted as {was} so far" in message
    assert f"options.maximise cannot become {str(not maximise).lower()}: they would all be learned as {now}" in message
    assert f"GET /controllers/{name}/rounds.csv" in message
    assert ("config?history=true" in message) == (known == "history")
    assert client.see(name, "state") == before
    again = client.change(name, options={"maximise": maximise}, limits={"min_dwell": 2})
    assert (again["maximise"], again["epoch"]) == (maximise, 2)


def test_what_is_measured_can_be_said_until_the_first_measurement(client, name):
    client.create(id=name)
    client.do(name, "ask", context=0.5)
    assert client.change(name, options={"maximise": True})["maximise"]
    client.do(name, "tell", decision="r0", measurement=3.0)
    state = client.see(name, "state")
    assert (state["measurements_sum"], state["service"]) == (3.0, -3.0)
    assert "1 measurement that" in client.change(name, 422, options={"maximise": None})["message"]


def test_cool_down_and_dwell_go_on_in_the_next_epoch(client, name):
    guard = {"threshold": 5.0, "revert_to_index": 1, "cool_down": 3}
    client.create(id=name, policy="fixed-at", options={"setting_index": 3}, guard=guard)
    client.round(name, 0.5, 9.0)
    client.change(name, limits={"min_dwell": 2}, actions=[1.0, 3.0, 5.0])
    asked = [client.round(name, 0.5, 1.0)["value"] for _ in range(5)]
    assert asked == [3.0, 1.0, 1.0, 3.0, 3.0]  # came to 3 a round ago; then where it is safe; then back
    assert client.see(name, "verify", full=True)["ok"]


def test_a_guard_that_was_taken_away_is_not_remembered_by_another(client, name):
    """As with `Controller.change`: without a guard nothing cools down, and a new one begins afresh."""
    guard = {"threshold": 2.0, "revert_to_index": 0, "cool_down": 9}
    client.create(id=name, policy="fixed-at", options={"setting_index": 3}, start_index=3, guard=guard)
    client.round(name, 0.5, 5.0)
    client.change(name, guard=guard | {"threshold": 100.0})
    assert client.round(name, 0.5, 1.0)["limited_by"] == "cool_down"  # it goes on under another guard
    client.change(name, guard=None)
    client.change(name, guard=guard)
    assert client.do(name, "ask", context=0.5)["limited_by"] is None


def test_a_late_tell_trips_the_guard(client, name):
    guard = {"threshold": 5.0, "revert_to_index": 0, "cool_down": 1}
    client.create(id=name, policy="fixed-at", options={"setting_index": 3}, guard=guard)
    client.do(name, "ask", context=0.5)
    client.change(name, max_pending=2)
    client.do(name, "tell", decision="r0", measurement=9.0)
    assert client.do(name, "ask", context=0.5, round=1)["action"] == 0
    assert client.see(name, "verify", full=True)["ok"]


def test_a_late_tell_from_elsewhere_keeps_the_moves_that_limits_count(client, name):
    client.create(id=name, policy="fixed-at", options={"setting_index": 3}, limits={"max_moves": 2, "window": 50})
    client.round(name, 0.5, 1.0, applied_index=1)
    client.do(name, "ask", context=0.5)
    client.change(name, max_pending=2)
    client.do(name, "tell", decision="r1", measurement=1.0, applied_index=2)
    assert client.do(name, "ask", context=0.5, round=2)["action"] == 2  # it has moved twice
    assert client.see(name, "verify", full=True)["ok"]


def test_a_late_tell_of_an_older_round_from_elsewhere_counts_for_limits_too(client, name):
    fixed = {"policy": "fixed-at", "options": {"setting_index": 0}, "max_pending": 3}
    client.create(id=name, start_index=0, limits={"min_dwell": 3}, **fixed)
    for number in range(3):
        client.do(name, "ask", context=0.5, round=number)
    client.change(name, limits={"min_dwell": 4}, actions=[3.0, 2.0, 1.0, 0.0])
    client.do(name, "tell", decision="r1", measurement=1.0, applied=2.0)  # there in round 1, and back in round 2
    client.do(name, "tell", decision="r0", measurement=1.0)
    client.do(name, "tell", decision="r2", measurement=1.0)
    client.do(name, "override", setting=3.0, reason="storm")
    moved = []
    for number in range(3, 7):
        decision = client.do(name, "ask", context=0.5, round=number)
        moved.append((decision["value"], decision["limited_by"]))
        client.do(name, "tell", decision=decision["decision"], measurement=1.0)
    assert moved == [(0.0, "min_dwell")] * 3 + [(3.0, None)]
    assert client.see(name, "verify", full=True)["ok"]


def test_actions_that_a_change_names_are_new_ones_and_the_others_follow(client, name):
    fixed = {"policy": "fixed-at", "options": {"setting_index": 2}, "fallback_index": 3}
    client.create(id=name, guard={"threshold": 9.0, "revert_to_index": 1}, **fixed)
    client.change(name, actions=[3.0, 2.0, 1.0, 0.0], fallback_index=3, guard={"threshold": 9.0, "revert_to_index": 1})
    config = client.see(name, "config")
    assert (config["fallback"], config["guard"]["revert_to"], config["options"]["setting"]) == (0.0, 2.0, 2.0)
    client.change(name, actions=[0.0, 1.0, 2.0, 3.0], options={"setting_index": 1})
    config = client.see(name, "config")
    assert (config["fallback"], config["guard"]["revert_to"], config["options"]["setting"]) == (0.0, 2.0, 1.0)


def test_a_question_is_recognised_in_a_later_epoch(client, name):
    client.create(id=name)
    question = {"context": 0.5, "allowed": [True, False, True, True], "key": "k"}
    first = client.do(name, "ask", **question)
    assert first["epoch"] == 1
    state = client.change(name, actions=[0.0, 3.0])
    assert state["pending"][0]["epoch"] == 2
    assert client.do(name, "ask", **question) == first
    client.do(name, "ask", **(question | {"allowed": [True, True]}), status=409)
    client.do(name, "tell", decision="r0", measurement=1.0)
    assert client.do(name, "ask", **question) == first
    assert client.do(name, "ask", context=0.5, allowed=[True, False], key="new")["epoch"] == 2


def test_a_late_tell_may_use_the_old_numbers(client, name):
    client.create(id=name, max_pending=2)
    for number in range(2):
        client.do(name, "ask", context=0.5, round=number)
    client.change(name, actions=[3.0, 0.0])
    old = {"decision": "r0", "measurement": 1.0, "applied_index": 3, "epoch": 1}
    told = client.do(name, "tell", **old, key="told")
    assert told["told"]["applied_index"] == 0
    assert client.do(name, "tell", **old, key="told") == client.do(name, "tell", **old) == told
    assert client.do(name, "tell", decision="r0", measurement=1.0, applied_index=0) == told
    client.do(name, "skip", decision="r1", applied_index=2, status=422)
    client.do(name, "skip", decision="r1", applied_index=4, epoch=1, status=422)
    client.do(name, "skip", decision="r1", applied_index=0, epoch=3, status=422)
    assert client.do(name, "skip", decision="r1", applied_index=0, epoch=1)["told"]["applied_index"] == 1


def test_a_late_tell_in_an_epoch_without_a_question_is_known_later(client, name):
    client.create(id=name)
    client.round(name, 0.2, 1.0)
    client.do(name, "ask", context=0.5)
    client.change(name, limits={"min_dwell": 2})
    told = client.do(name, "tell", decision="r1", measurement=2.0)
    client.change(name, limits={"min_dwell": 3})
    client.round(name, 0.2, 1.0)
    assert client.do(name, "tell", decision="r1", measurement=2.0) == told
    assert [row["measurement"] for row in client.see(name, "decisions")["decisions"]] == [1.0, 2.0, 1.0]
    client.do(name, "retract", decision="r1", reason="unplugged")
    assert client.see(name, "state")["service"] == 2.0


def test_a_change_under_a_key_is_made_once(client, name):
    client.create(id=name)
    for key, changes, epoch in (("in place", {"name": "South"}, 1), ("new epoch", {"limits": {"min_dwell": 2}}, 2)):
        key = key.replace(" ", "-")
        assert client.change(name, key=key, **changes)["epoch"] == epoch
        assert client.change(name, key=key, **changes)["epoch"] == epoch
        refused = client.change(name, key=key, status=409, name="West")
        assert (refused["recorded"]["changes"], refused["given"]["changes"]) == (changes, {"name": "West"})
        assert key in refused["message"]
    client.change(name, key="as-it-is", limits={"min_dwell": 2})  # nothing to change; the key is used all the same
    client.change(name, limits={"min_dwell": 3}, name="North")
    for key, changes in (
        ("in-place", {"name": "South"}),
        ("new-epoch", {"limits": {"min_dwell": 2}}),
        ("as-it-is", {"limits": {"min_dwell": 2}}),
    ):
        state = client.change(name, key=key, **changes)  # late: it does not undo what came after it
        assert (state["epoch"], state["name"], state["limits"]["min_dwell"]) == (3, "North", 3)
    assert client.do(name, "ask", context=0.5, key="new-epoch", status=409)["recorded"] == "change"
    assert client.see(name, "verify", full=True)["ok"]


def test_a_change_that_failed_after_its_record_got_its_name_is_known_by_its_key(client, name, monkeypatch):
    client.create(id=name)
    fails_after_publishing(monkeypatch)
    client.change(name, key="k", limits={"min_dwell": 2}, status=503)
    assert client.change(name, key="k", limits={"min_dwell": 2})["epoch"] == 2


def fails_after_publishing(monkeypatch):
    publish = DataFolder.publish

    def fail(self, unfinished, final):
        publish(self, unfinished, final)
        monkeypatch.setattr(DataFolder, "publish", publish)
        raise LogError("the disk went away")

    monkeypatch.setattr(DataFolder, "publish", fail)


def test_a_change_that_fails_after_its_record_got_its_name_has_happened(client, name, monkeypatch):
    client.create(id=name)
    client.round(name, 0.5, 1.0)
    fails_after_publishing(monkeypatch)
    client.change(name, limits={"min_dwell": 2}, status=503)
    assert client.do(name, "ask", context=0.5)["epoch"] == 2
    assert client.change(name, limits={"min_dwell": 2})["epoch"] == 2
    assert client.see(name, "verify", full=True)["ok"]


def test_a_refused_change_changes_nothing(client, name):
    client.create(id=name)
    client.change(name, options={"kernel": "soup"}, status=422)
    assert client.round(name, 0.5, 1.0)["epoch"] == 1


def test_a_creation_that_fails_after_its_record_got_its_name_has_happened(client, name, monkeypatch):
    fails_after_publishing(monkeypatch)
    client.create(id=name, status=503)
    client.create(id=name, seed=4, status=409)
    assert client.create(id=name, status=200)["epoch"] == 1
    client.round(name, 0.5, 1.0)


def test_axes_keep_their_order_and_what_was_learned_stays_where_it_was(client, name):
    """Actions are numbered by the axes as they were given, in every epoch."""
    axes = {"workers": [1.0, 2.0], "cache": [64.0, 128.0, 256.0]}
    client.create(id=name, actions=axes, policy="proximal-lcb", start=[2, 64])
    for _ in range(3):
        client.round(name, 0.5, 4.0, applied={"cache": 64, "workers": 2})
    state = client.change(name, limits={"min_dwell": 2})
    assert (state["epoch"], state["value"]) == (2, {"workers": 2.0, "cache": 64.0})
    assert list(client.see(name, "config")["actions"]) == ["workers", "cache"]
    field = client.see(name, "field")
    learned = field["values"][min(range(6), key=lambda k: field["std"][0][k])]
    assert learned == {"workers": 2.0, "cache": 64.0}
    assert client.see(name, "verify", full=True)["ok"]


def test_knobs_over_http(client, name):
    """A grid of numbers and names with prices, settings by name, and what was learned of a name follows it."""
    knobs = {
        "buffers": {"values": [1, 2, 4], "change": "30 s", "together": "restart"},
        "codec": {"values": ["lz4", "zstd", "none"], "change": "1 s"},
        "sync": {"values": [True, False], "change": 2.0},
    }
    start = {"buffers": 1, "codec": "lz4", "sync": True}
    client.create(id=name, actions=knobs, policy="proximal-lcb", start=start, units={"measurement": "s"})
    there = {"buffers": 4, "codec": "zstd", "sync": False}
    for _ in range(3):
        client.round(name, 0.5, 4.0, applied=there)
    state = client.change(name, actions={**knobs, "codec": {"values": ["zstd", "none", "lz4"], "change": "1 s"}})
    assert (state["epoch"], state["value"]) == (2, {"buffers": 4.0, "codec": "zstd", "sync": False})
    field = client.see(name, "field")
    learned = field["values"][min(range(18), key=lambda k: field["std"][0][k])]
    assert learned == {"buffers": 4.0, "codec": "zstd", "sync": False}
    decision = client.do(name, "ask", context=0.5)
    assert set(decision["value"]) == {"buffers", "codec", "sync"}
    assert client.see(name, "verify", full=True)["ok"]
    client.create(id=f"{name}-x", actions={"codec": {"values": ["lz4", "zstd"]}}, status=422)
