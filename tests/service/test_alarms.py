"""Alarms are acknowledged: by whom, when, with a remark; the next one of the same kind is not."""

from __future__ import annotations

from service.running import Client, served

from holdcourse.service.core import tokens

FROZEN = 10  # equal measurements in a row


def freeze(client, name, value=2.0):
    for _ in range(FROZEN):
        client.round(name, 0.5, value)


def test_an_acknowledged_alarm_stays_open_and_says_who_saw_it(tmp_path):
    file = tmp_path / "tokens.json"
    token, secret = tokens.make(file, "control room", ["admin"], ["*"])
    reader = tokens.make(file, "visitor", ["ask", "tell"], ["*"])[1]
    with served(tmp_path / "data", file) as url, Client(url, secret) as client, Client(url, reader) as visitor:
        client.create(id="a")
        freeze(client, "a")
        (alarm,) = client.see("a", "state")["alarms"]
        assert (alarm["kind"], alarm["acknowledged"]) == ("sensor", None)
        assert client.get("/controllers").json()["controllers"][0]["unseen_alarms"] == 1
        assert visitor.do("a", "alarms/sensor/acknowledge", 403)["code"] == "forbidden"
        state = client.do("a", "alarms/sensor/acknowledge", remark="the probe is being changed", at=alarm["at"])
        (seen,) = state["alarms"]
        assert seen["cleared_at"] is None
        assert seen["acknowledged"]["remark"] == "the probe is being changed"
        assert seen["acknowledged"]["by"] == {"token": token.id, "name": "control room"}
        (listed,) = client.see("a", "alarms")["alarms"]
        assert listed["acknowledged"] == seen["acknowledged"]
        summary = client.get("/controllers").json()["controllers"][0]
        assert (summary["alarms"], summary["unseen_alarms"]) == (1, 0)
        (deed,) = client.see("a", "audit", kind="acknowledge")["deeds"]
        assert (deed["by"]["name"], deed["reason"]) == ("control room", "the probe is being changed")
        client.change("a", limits={"min_dwell": 2})  # it goes on in the next epoch
        assert client.see("a", "state")["alarms"] == state["alarms"]
    with served(tmp_path / "data", file) as url, Client(url, secret) as client:
        assert client.see("a", "state")["alarms"] == state["alarms"]
        client.round("a", 0.5, 1.0)  # it is over ...
        assert client.see("a", "state")["alarms"] == []
        assert client.see("a", "alarms")["alarms"][0]["acknowledged"] is not None
        freeze(client, "a", 3.0)  # ... and another one comes, which nobody has seen
        (again,) = client.see("a", "state")["alarms"]
        assert (again["kind"], again["acknowledged"]) == ("sensor", None)
        refused = client.do("a", "alarms/sensor/acknowledge", 409, at=alarm["at"])
        assert (refused["recorded"], refused["given"]) == (again["at"], alarm["at"])
        assert client.see("a", "verify", full=True)["ok"]


def test_acknowledging_again_and_under_a_key_is_done_once(client, name):
    client.create(id=name)
    assert "the open alarms are: none" in client.do(name, "alarms/sensor/acknowledge", 404)["message"]
    freeze(client, name)
    for _ in range(2):
        client.do(name, "alarms/sensor/acknowledge", remark="seen")
        client.do(name, "alarms/sensor/acknowledge", remark="and again", key=f"{name}-k")
    client.do(name, "alarms/sensor/acknowledge", 409, remark="something else", key=f"{name}-k")
    deeds = client.see(name, "audit", kind="acknowledge")["deeds"]
    assert [deed["reason"] for deed in deeds] == ["seen", "and again", "seen"]
    client.round(name, 0.5, 1.0)  # the alarm is over; the same request again is fine
    client.do(name, "alarms/sensor/acknowledge", remark="and again", key=f"{name}-k")
    client.do(name, "alarms/sensor/acknowledge", 404, remark="late")
