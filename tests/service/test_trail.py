"""The audit trail: who changed what, when and why, from the record; and the journal of what no record can hold."""

from __future__ import annotations

import json

import pytest
from service.running import Client, served

from holdcourse.service.core import tokens
from holdcourse.service.core.journal import Journal


@pytest.fixture
def people(tmp_path):
    file = tmp_path / "tokens.json"
    wanted = {"control room": ["admin"], "night shift": ["admin"], "scada": ["ask", "tell"]}
    return file, {name: tokens.make(file, name, scopes, ["*"]) for name, scopes in wanted.items()}


def test_everything_that_people_do_is_in_the_trail_with_name_and_reason(tmp_path, people):
    file, known = people
    with served(tmp_path / "data", file) as url:
        room, night, scada = (Client(url, secret) for _, secret in known.values())
        with room, night, scada:
            room.create(id="mill", units={"action": "m", "measurement": "kWh"}, mode="shadow")
            scada.round("mill", 0.5, 1.0)
            scada.do("mill", "retract", decision="r0", reason="the sensor was unplugged")
            room.do("mill", "mode", mode="act", reason="two quiet weeks")
            night.do("mill", "override", setting=3.0, reason="storm")
            night.do("mill", "override", setting=None)
            room.change("mill", limits={"min_dwell": 3}, reason="a new gearbox")
            room.change("mill", scale=0.25, reason="the tariff went up")
            room.change("mill", trial={"block": 2}, reason="does it pay?")
            room.change("mill", trial=None)
            room.change("mill", zone="Europe/Berlin", name="Mill")
            night.do("mill", "episode", start=1.0)
            night.do("mill", "ask", context=0.5)
            night.do("mill", "skip", decision="r1")
            night.do("mill", "episode", start=2.0, force=True, reason="a new roll")
            scada.round("mill", 0.5, 2.0)
            scada.do("mill", "retract", decision="r0", reason="the sensor was unplugged", status=200)  # again: nothing
            found = scada.see("mill", "audit")
            assert found["next"] is None
            deeds = found["deeds"][::-1]
            assert [(deed["what"], deed["by"]["name"], deed["reason"]) for deed in deeds] == [
                ("created", "control room", ""),
                ("retract", "scada", "the sensor was unplugged"),
                ("mode", "control room", "two quiet weeks"),
                ("override", "night shift", "storm"),
                ("override", "night shift", ""),
                ("limits", "control room", "a new gearbox"),
                ("price", "control room", "the tariff went up"),
                ("trial", "control room", "does it pay?"),
                ("trial", "control room", ""),
                ("settings", "control room", ""),
                ("episode", "night shift", ""),
                ("episode", "night shift", "a new roll"),
            ]
            assert [deed["words"] for deed in deeds[-2:]] == [
                "A new episode began at 1 m.",
                "A new episode began at 2 m, forced, whatever the limits say.",
            ]
            assert [deed["words"] for deed in deeds[1:6]] == [
                "The measurement 1 of round 0 was taken back.",
                "The mode is act.",
                "Held at 3 m.",
                "Control was handed back.",
                "The limits were changed: min dwell from 1 to 3.",
            ]
            assert deeds[6]["words"] == "The price of moving was changed: scale from 0.1 to 0.25."
            assert (deeds[7]["words"], deeds[8]["words"]) == ("A trial was begun.", "The trial was ended.")
            assert deeds[9]["changed"]["zone"] == {"from": None, "to": "Europe/Berlin"}
            assert [deed["epoch"] for deed in deeds] == [1, 1, 1, 1, 1, 2, 3, 4, 5, 5, 5, 5]

            # by kind, by person, page by page
            only = room.see("mill", "audit", kind=["mode", "price"])["deeds"]
            assert [deed["what"] for deed in only] == ["price", "mode"]
            assert {deed["by"]["name"] for deed in room.see("mill", "audit", who="NIGHT")["deeds"]} == {"night shift"}
            seen, before = [], {}
            for _ in range(20):
                page = room.see("mill", "audit", limit=3, **before)
                seen += page["deeds"]
                if page["next"] is None:
                    break
                before = {"before": page["next"]}
            assert seen == found["deeds"]
            assert "there is no kind 'dance'" in room.see("mill", "audit", 422, kind="dance")["message"]
            assert "the value of next in an earlier answer" in room.see("mill", "audit", 422, before="1.x")["message"]


def test_a_retraction_that_begins_an_epoch_is_one_deed(client, name):
    client.create(id=name)
    client.round(name, 0.5, 1.0)
    client.change(name, limits={"min_dwell": 2})
    client.do(name, "retract", decision="r0", reason="unplugged")
    deeds = client.see(name, "audit")["deeds"]
    assert [deed["what"] for deed in deeds] == ["retract", "limits", "created"]
    assert client.see(name, "state")["epoch"] == 3


def test_a_change_under_a_key_says_its_reason_and_another_reason_is_another_request(client, name):
    client.create(id=name)
    client.change(name, name="North", reason="so it is called", key=f"{name}-1")
    client.change(name, name="North", reason="so it is called", key=f"{name}-1")
    client.change(name, 409, name="North", reason="because", key=f"{name}-1")
    deeds = client.see(name, "audit", kind="settings")["deeds"]
    assert [(deed["reason"], deed["words"]) for deed in deeds] == [
        ("so it is called", "Settings were changed: name from none to North.")
    ]


def test_tokens_that_come_and_go_are_in_the_journal(tmp_path, people):
    file, known = people
    scada, secret = known["scada"][0], known["control room"][1]
    with served(tmp_path / "data", file) as url, Client(url, secret) as room:
        assert room.get("/journal").status_code == 200
        new, rotated = tokens.rotate(file, scada.id)
        assert room.get("/journal").json()["lines"][0]["what"] == "token rotated"
        assert rotated not in json.dumps(room.get("/journal").json())
        assert new.sha256 not in json.dumps(room.get("/journal").json())
        with Client(url, rotated) as machine:
            assert machine.get("/journal").status_code == 403
    tokens.revoke(file, scada.id)  # while nobody looks
    with served(tmp_path / "data", file) as url, Client(url, secret) as room:
        lines = room.get("/journal").json()["lines"]
    assert [(line["what"], line["token"]["name"]) for line in lines] == [
        ("token ended", "scada"),
        ("token rotated", "scada"),
        ("token made", "scada"),
        ("token made", "night shift"),
        ("token made", "control room"),
    ]


def test_a_torn_line_of_the_journal_costs_that_line_only(tmp_path):
    journal = Journal(tmp_path)
    journal.add("one")
    with journal.path.open("ab") as file:
        file.write(b'{"what": "tw')
    journal.add("three")
    assert [line["what"] for line in journal.newest(10)] == ["three", "one"]
    assert [line["what"] for line in journal.newest(1)] == ["three"]


def test_a_zone_that_is_taken_back_leaves_a_record_that_can_be_read(client, name):
    client.create(id=name, zone="Europe/Berlin")
    assert client.change(name, zone="UTC", reason="moved")["zone"] == "UTC"
    client.round(name, 0.5, 1.0)
    assert client.see(name, "audit")["deeds"][0]["words"] == "Settings were changed: zone from Europe/Berlin to none."
    client.change(name, zone="Asia/Tokyo", context_names=["load"])
    assert client.change(name, zone="", context_names=None)["zone"] == "UTC"
    client.round(name, 0.5, 1.0)
    assert client.see(name, "verify")["ok"]


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "right/Europe/Berlin", "posixrules", "Factory"])
def test_zones_that_no_page_knows_are_refused(client, name, zone):
    client.create(id=name)
    assert zone in client.change(name, 422, zone=zone)["message"]


def test_an_alarm_that_is_not_open_has_a_code_without_spaces(client, name):
    client.create(id=name)
    assert client.do(name, "alarms/silent/acknowledge", 404)["code"] == "unknown_open_alarm"
