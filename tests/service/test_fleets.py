"""Fleets over HTTP: one request for all members, durable, answered alike when it is sent again."""

from __future__ import annotations

import base64
import json
import os
import sqlite3
from contextlib import closing
from io import BytesIO
from zipfile import ZipFile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from service.fleet_kills import killed_in_mid_traffic
from service.running import KERNEL, QUICK, Client, served, wait_for

import holdcourse as hc
from holdcourse.errors import DiskFull
from holdcourse.running.events import FleetAsk, FleetCreated
from holdcourse.running.file_storage import FileStorage
from holdcourse.running.log import Log
from holdcourse.service.core import fleet_sums, tokens
from holdcourse.service.core import fleets as fleets_module
from holdcourse.service.core.fleet_requests import MAX_MEMBERS

COUNT = 5
FLEET = {name: value for name, value in QUICK.items() if name != "id"} | {"count": COUNT}


def policy():
    problem = hc.Problem(QUICK["actions"], scale=QUICK["scale"])
    return hc.gp_md(problem, kernel=KERNEL, noise_std=0.1, context_bounds=[[0.0, 1.0]])


def create(client, id_, status=201, **config):
    return client.checked(client.post("/fleets", json=FLEET | {"id": id_} | config), status)


def do(client, name, what, status=200, **body):
    answer = client.post(f"/fleets/{name}/{what}", json=body)
    return client.checked(answer, answer.status_code if status is None else status)


def see(client, name, what="", status=200):
    return client.checked(client.get(f"/fleets/{name}{what}"), status)


def measured(actions, t):
    return [round(abs(action - t % 4) * 0.3 + 0.1 * k, 6) for k, action in enumerate(actions)]


def test_it_decides_as_the_fleet_in_process_does(client, name):
    state = create(client, name)
    assert (state["count"], state["next_call"], state["settings"]) == (COUNT, 0, QUICK["actions"])
    here = hc.fleet(policy(), COUNT, seed=3)
    for t in range(6):
        mask = None if t % 2 else [True, False, True, True, k_is_asked(t)]
        per_member = [k / COUNT for k in range(COUNT)]
        question = {"context": t / 6} if t < 3 else {"contexts": per_member}
        expected = here.ask(t / 6 if t < 3 else per_member, mask=None if mask is None else np.array(mask))
        found = do(client, name, "ask", **question, mask=mask, call=t, answer=["setting", "action", "probabilities"])
        assert set(found) == {"call", "setting", "action", "probabilities"}
        assert found["action"] == expected.action.tolist()
        assert found["setting"] == [QUICK["actions"][k] for k in found["action"]]
        for k, row in enumerate(found["probabilities"]):
            assert (row is None) == (expected.round[k] < 0)
            assert row is None or row == expected.probabilities[k].tolist()
        values = [None if k == t % COUNT else y for k, y in enumerate(measured(found["action"], t))]
        assert do(client, name, "tell", call=t, measurements=values) == {"call": t, "pending": 0}
        here.tell([np.nan if y is None else y for y in values])
    members = see(client, name, "/members")
    assert members["action"] == here.action.tolist()
    assert members["round"] == here.round.tolist()
    assert members["pending"] == [False] * COUNT
    assert see(client, name)["decisions"] == sum(members["round"])
    assert [each["next_call"] for each in client.get("/fleets").json()["fleets"] if each["id"] == name] == [6]
    figures = client.get("/metrics").text.splitlines()
    for family, value in (
        ("members", COUNT),
        ("decisions_total", sum(members["round"])),
        ("pending", 0),
        ("broken", 0),
    ):
        assert f'holdcourse_fleet_{family}{{fleet="{name}"}} {value}' in figures


def k_is_asked(t):
    return t == 2


def test_what_got_no_answer_is_sent_again(client, name):
    create(client, name)
    first = do(client, name, "ask", context=0.5)
    assert first == do(client, name, "ask", context=0.5) == do(client, name, "ask", context=0.5, call=0)
    assert set(first) == {"call", "setting"}
    error = do(client, name, "ask", context=0.7, call=0, status=409)
    assert "asked member 0 in the context [0.5], and now in [0.7]" in error["message"]
    assert "still wait" in do(client, name, "ask", context=0.7, status=422)["message"]
    half = [True, True, False, False, False]
    told = do(client, name, "tell", call=0, measurements=[1.0, None, 9.0, 9.0, 9.0], mask=half)
    assert told == {"call": 0, "pending": 3}
    assert do(client, name, "tell", call=0, measurements=[1.0, None, 2.0, 2.0, 2.0])["pending"] == 0
    length = see(client, name)["events"]
    do(client, name, "tell", call=0, measurements=[1.0, None, 2.0, 2.0, 2.0])
    assert see(client, name)["events"] == length
    error = do(client, name, "tell", call=0, measurements=[1.5, None, 2.0, 2.0, 2.0], status=409)
    assert (error["recorded"], error["given"]) == (1.0, 1.5)
    assert see(client, name, "/members")["call"] == [0] * COUNT
    do(client, name, "ask", context=0.1, call=1)
    assert "call 0 is over" in do(client, name, "ask", context=0.5, call=0, status=409)["message"]
    assert "the next one is 2" in do(client, name, "ask", context=0.5, call=9, status=422)["message"]


def test_what_is_wrong_is_said_and_changes_nothing(client, name):
    create(client, name)
    before = see(client, name)
    for what, body, words in (
        ("ask", {}, "give exactly one of context, contexts and time"),
        ("ask", {"context": 0.5, "contexts": [0.5] * COUNT}, "give exactly one of context"),
        ("ask", {"contexts": [0.5] * 3}, "one for each of 5 members, got 3"),
        ("ask", {"contexts": [[0.5], [0.5], [0.5, 0.1], None, None]}, "must all have the same number of numbers"),
        ("ask", {"contexts": [[]] * COUNT}, "at least one"),
        ("ask", {"contexts": [None] * COUNT}, "contexts"),
        ("ask", {"context": []}, "context is empty"),
        ("ask", {"context": [0.5, 0.5]}, "2"),
        ("ask", {"contexts": [0.5, None, 0.5, 0.5, 0.5]}, "contexts"),
        ("ask", {"context": 7.0}, "is not covered by the members' common basis"),
        ("ask", {"time": "2026-03-01T07:00Z"}, "are not times"),
        ("ask", {"context": 0.5, "mask": [True]}, "mask must be one for each of 5 members"),
        ("ask", {"context": 0.5, "mask": [False] * COUNT}, "mask leaves out every member"),
        ("ask", {"context": 0.5, "allowed": [7.0]}, "7"),
        ("ask", {"context": 0.5, "allowed": [True]}, "allowed must be 4 booleans"),
        ("ask", {"context": 0.5, "allowed": [False] * 4}, "no action is left"),
        ("ask", {"context": 0.5, "answer": ["colour"]}, "answer"),
        ("tell", {"call": 0, "measurements": [1.0] * COUNT}, "there was no call 0 yet"),
        ("tell", {"measurements": [1.0] * COUNT}, "call"),
        ("tell", {"call": 0, "measurements": [1.0]}, "one for each of 5 members, got 1"),
    ):
        assert words in do(client, name, what, status=422, **body)["message"], body
    assert see(client, name) == before
    assert "GET /fleets lists those" in do(client, "nobody", "ask", context=0.5, status=404)["message"]
    assert see(client, "nobody", status=404)["code"] == "unknown_fleet"


def test_what_a_fleet_cannot_be_is_refused_before_it_is_made(client, name, monkeypatch):
    for config, status, words in (
        ({"count": 0}, 422, "count"),
        ({"count": MAX_MEMBERS + 1}, 422, "count"),
        ({"limits": {"min_dwell": 2}}, 422, "limits"),
        ({"mode": "shadow"}, 422, "mode"),
        ({"policy": "recommended", "options": {}}, 422, "would be asked one after the other"),
        ({"options": {"noise_std": 0.1}}, 422, "would be asked one after the other"),
        ({"options": {"colour": 1}}, 422, "colour"),
        ({"start": 17.0}, 422, "17"),
        ({"policy_file": "AAAA"}, 422, "the policy's file has its own actions"),
    ):
        assert words in create(client, name, status, **config)["message"], config
    error = create(client, name, 422, count=MAX_MEMBERS, actions=[float(k) for k in range(101)])
    assert "1,010,000 choices" in error["message"]
    assert "at most 9900 members" in error["message"]
    monkeypatch.setattr(fleets_module, "MAX_STATE", 10_000)
    error = create(client, name, 422, count=1000)
    assert "make fleets of at most" in error["message"]
    assert see(client, name, status=404)


def test_the_same_again_is_fine_and_names_are_had_once(client, name):
    made = create(client, name)
    assert create(client, name, 200) == made
    error = create(client, name, 409, count=COUNT + 1, seed=9)
    assert error["recorded"] == {"seed": 3, "count": COUNT}
    assert "is the id of a fleet" in client.create(id=name, status=409)["message"]
    client.create(id=f"{name}-single")
    assert "is the id of a controller" in create(client, f"{name}-single", 409)["message"]


def test_a_policy_file_and_what_it_says(client, name, tmp_path):
    policy().save(tmp_path / "pumps.policy")
    content = base64.b64encode((tmp_path / "pumps.policy").read_bytes()).decode()
    body = {"id": name, "count": 3, "policy_file": content, "seed": 1, "start": 2.0}
    state = client.checked(client.post("/fleets", json=body), 201)
    assert state["settings"] == QUICK["actions"]
    here = hc.fleet(policy(), 3, seed=1, start=2.0)
    found = do(client, name, "ask", context=0.25, answer=["action", "expected_cost"])
    expected = here.ask(0.25)
    assert found["action"] == expected.action.tolist()
    assert found["expected_cost"] == expected.expected_cost.tolist()
    policy().save(tmp_path / "limited.policy", limits=hc.Limits(min_dwell=3))
    content = base64.b64encode((tmp_path / "limited.policy").read_bytes()).decode()
    error = client.checked(client.post("/fleets", json=body | {"id": f"{name}-2", "policy_file": content}), 422)
    assert "limits of its own, which a fleet does not support" in error["message"]


def test_tokens_say_who_may_do_what_and_the_record_says_who_did(tmp_path):
    file = tmp_path / "tokens.json"
    _, plant = tokens.make(file, "plant", ("ask", "tell"), ("pumps",))
    _, admin = tokens.make(file, "chief", ("admin",), ("pumps",))
    _, other = tokens.make(file, "other", ("admin",), ("mill",))
    with served(tmp_path / "data", file) as url, Client(url, plant) as client, Client(url, admin) as chief:
        create(client, "pumps", 403)
        create(chief, "pumps")
        create(chief, "fans", 403)
        do(client, "pumps", "ask", context=0.5)
        do(client, "pumps", "tell", call=0, measurements=[1.0] * COUNT)
        with Client(url, other) as stranger, Client(url) as nobody:
            for what in ("", "/members", "/sums", "/events", "/verify", "/backup"):
                path = f"/fleets/pumps{what}"
                assert stranger.get(path).status_code == 403
                assert nobody.get(path).status_code == 401
            do(stranger, "pumps", "ask", context=0.5, status=403)
            do(nobody, "pumps", "tell", call=0, measurements=[], status=401)
            assert stranger.get("/fleets").json() == {"fleets": []}
            assert nobody.get("/fleets").status_code == 401
        assert client.get("/fleets/pumps/backup").status_code == 403
        assert client.get("/fleets/pumps/verify").json()["ok"]
        assert client.get("/fleets/pumps/verify?full=true").status_code == 403
        assert chief.get("/fleets/pumps/verify?full=true").json()["ok"]
        copy = ZipFile(BytesIO(chief.get("/fleets/pumps/backup").content))
        assert client.delete("/fleets/pumps?name=pumps&reason=gone").status_code == 403
    copy.extractall(tmp_path / "copy")
    path = tmp_path / "copy" / "fleets" / "pumps" / "epoch-0001.db"
    log = Log.read(path)
    bodies = [event.body for event in log.events()]
    log.close()
    assert isinstance(bodies[0], FleetCreated)
    assert isinstance(bodies[1], FleetAsk)
    assert [body.extra.by.name for body in bodies] == ["chief", "plant", "plant"]
    assert hc.audit.verify(path).verified
    with served(tmp_path / "copy") as url, Client(url) as client:  # a copy is a data folder
        assert see(client, "pumps")["next_call"] == 1


def test_a_fleet_is_there_after_a_restart_and_gone_after_its_deletion(tmp_path):
    data = tmp_path / "data"
    with served(data) as url, Client(url) as client:
        create(client, "pumps", name="Pumps")
        do(client, "pumps", "ask", context=0.5)
        do(client, "pumps", "tell", call=0, measurements=[0.5] * COUNT)
        pending = do(client, "pumps", "ask", context=0.25)
        before = see(client, "pumps"), see(client, "pumps", "/members")
    with served(data) as url, Client(url) as client:
        assert (see(client, "pumps"), see(client, "pumps", "/members")) == before
        assert do(client, "pumps", "ask", context=0.25, call=1) == pending
        refused = client.delete("/fleets/pumps", params={"name": "pumps", "reason": "sold"})
        assert "type the name of the fleet, 'Pumps'" in client.checked(refused, 422)["message"]
        done = client.delete("/fleets/pumps", params={"name": "Pumps", "reason": "sold"})
        assert client.checked(done, 200)["deleted"] == "pumps"
        see(client, "pumps", status=404)
        line = client.get("/journal").json()["lines"][0]
        assert (line["what"], line["fleet"], line["reason"], line["count"]) == ("fleet deleted", "pumps", "sold", COUNT)
        assert not list((data / "fleets").iterdir())
        assert not list((data / "deleted").iterdir())
        create(client, "pumps")
    with served(data) as url, Client(url) as client:
        assert see(client, "pumps")["next_call"] == 0


def test_a_record_that_cannot_be_read_breaks_its_fleet_only(tmp_path):
    data = tmp_path / "data"
    with served(data) as url, Client(url) as client:
        create(client, "pumps")
        create(client, "fans")
    path = data / "fleets" / "pumps" / "epoch-0001.db"
    path.write_bytes(b"nothing of ours" + path.read_bytes()[15:])
    with served(data) as url, Client(url) as client:
        wait_for(lambda: client.get("/readyz").status_code == 200, "all to be opened")
        assert client.get("/readyz").json()["broken"] == 1
        assert "fleets are broken" in client.get("/readyz").json()["message"]
        assert "pumps cannot be opened" in do(client, "pumps", "ask", context=0.5, status=503)["message"]
        status = {each["id"]: each["status"] for each in client.get("/fleets").json()["fleets"]}
        assert status == {"fans": "ok", "pumps": "broken"}
        do(client, "fans", "ask", context=0.5)


def test_a_full_disk_is_said_and_nothing_has_happened(client, name, monkeypatch):
    create(client, name)
    before, commit = see(client, name), FileStorage.commit

    def full(*_):
        raise DiskFull("there is no room left on the disk")

    monkeypatch.setattr(FileStorage, "commit", full)
    assert do(client, name, "ask", context=0.5, status=507)["message"] == "there is no room left on the disk"
    monkeypatch.setattr(FileStorage, "commit", commit)
    assert see(client, name) == before
    assert do(client, name, "ask", context=0.5)["call"] == 0


def test_its_record_is_verified(client, name):
    create(client, name)
    assert "as it was written, and there is no decision to repeat yet" in see(client, name, "/verify")["message"]
    for t in range(3):
        found = do(client, name, "ask", context=t / 3, mask=None if t else [True] * 4 + [False], answer=["action"])
        do(client, name, "tell", call=t, measurements=measured(found["action"], t))
    found = see(client, name, "/verify")
    words = "every event is as it was written, and all 14 decisions come out the same when repeated"
    assert found == {"ok": True, "events": 7, "epochs": 1, "message": words}
    read = see(client, name, "/verify?full=false")
    assert read["message"] == "every event is as it was written; its 3 calls were not repeated (full=true repeats them)"


def test_a_record_that_was_changed_does_not_verify(tmp_path):
    with served(tmp_path / "data") as url, Client(url) as client:
        create(client, "pumps")
        do(client, "pumps", "ask", context=0.5)
        with closing(sqlite3.connect(tmp_path / "data" / "fleets" / "pumps" / "epoch-0001.db")) as forger, forger:
            forger.execute("UPDATE events SET body = replace(body, '[0.5]', '[0.6]') WHERE kind = 'fleet_ask'")
        found = see(client, "pumps", "/verify")
        assert (found["ok"], "event 2" in found["message"]) == (False, True), found


def test_what_members_measured_and_moved_is_summed_up_from_the_record(tmp_path, monkeypatch):
    with served(tmp_path / "data") as url, Client(url) as client:
        create(client, "pumps", start=1.0)
        assert see(client, "pumps", "/sums")["events"] == 1
        total, movement, moves, before = 0.0, 0.0, 0, [1] * COUNT
        for t in range(4):
            now = do(client, "pumps", "ask", context=t / 4, answer=["action"])["action"]
            values = [None if k == t else y for k, y in enumerate(measured(now, t))]
            do(client, "pumps", "tell", call=t, measurements=values)
            total += sum(y for y in values if y is not None)
            movement += sum(0.1 * abs(a - b) for a, b in zip(before, now, strict=True))
            moves, before = moves + sum(a != b for a, b in zip(before, now, strict=True)), now
            found = see(client, "pumps", "/sums")
            assert (found["measurements"], found["skipped"], found["moves"]) == (4 * t + 4, t + 1, moves)
            assert found["measurements_sum"] == pytest.approx(total)
            assert found["movement"] == pytest.approx(movement)
        state = see(client, "pumps")
        assert state["at"] == [before.count(k) for k in range(4)]
        assert (state["rounds"], state["start"]) == ([4, 4], 1.0)
        assert state["price_in_words"] == "0.1 for each unit of a setting"
        whole = found
    monkeypatch.setattr(fleet_sums, "AT_ONCE", 8)
    with served(tmp_path / "data") as url, Client(url) as client:  # after a restart, a part with every look
        parts = [see(client, "pumps", "/sums") for _ in range(5)]
        assert [part["seen"] for part in parts] == [3, 5, 7, 9, 9]
        assert parts[-1] == whole


def test_who_watches_hears_of_fleets(client, name):
    heard = []
    with client.stream("GET", "/events") as everything:
        lines = everything.iter_lines()
        next(lines)
        create(client, name)
        do(client, name, "ask", context=0.5)
        with client.stream("GET", f"/fleets/{name}/events") as own:
            own_lines = own.iter_lines()
            next(own_lines)
            client.delete(f"/fleets/{name}", params={"name": name, "reason": "gone"})
            one = next(line for line in own_lines if line.startswith("data:"))
        while len(heard) < 3:
            line = next(lines)
            if line.startswith("data:") and name in line:
                heard.append(json.loads(line[5:]))
    assert [(each["fleet"], each.get("next_call")) for each in heard] == [(name, 0), (name, 1), (name, None)]
    assert json.loads(one[5:]) == heard[-1] == {"fleet": name, "deleted": True}


def test_the_description_names_every_address(client):
    described = client.get("/openapi.json").json()
    paths = {path for path in described["paths"] if path.startswith("/fleets")}
    assert paths == {
        "/fleets",
        "/fleets/{fleet}",
        "/fleets/{fleet}/members",
        "/fleets/{fleet}/sums",
        "/fleets/{fleet}/events",
        "/fleets/{fleet}/verify",
        "/fleets/{fleet}/ask",
        "/fleets/{fleet}/tell",
        "/fleets/{fleet}/backup",
    }
    fields = described["components"]["schemas"]["FleetGiven"]["properties"]
    assert "limits" not in fields
    assert json.dumps(fields["count"]).count(str(MAX_MEMBERS)) == 1
    example = described["components"]["schemas"]["FleetGiven"]["examples"][0]
    assert client.checked(client.post("/fleets", json=example | {"count": 2}), 201)["id"] == "pumps"


@pytest.mark.skipif(os.name != "posix", reason="kills are those of POSIX")
def test_killed_in_mid_traffic(tmp_path):
    killed_in_mid_traffic(tmp_path / "data", kills=2, least=6, longest_life=0.15, seed=5)


NUMBERS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.sampled_from([0.0, 0.5, 1.0])
VALUES = st.recursive(NUMBERS | st.text(max_size=3), lambda inner: st.lists(inner, max_size=6), max_leaves=12)
LISTS = st.lists(st.sampled_from([0.0, 0.25, None, 1e30, -1.0, True]), min_size=COUNT, max_size=COUNT)
MASKS = st.lists(st.booleans(), min_size=COUNT, max_size=COUNT)
CALLS = st.sampled_from([None, 0, 1, 2, 3, -1, 1.5, 2.0, 10**30])
ASKS = {"context": VALUES, "contexts": LISTS | VALUES, "mask": MASKS | VALUES, "allowed": VALUES, "call": CALLS}
TELLS = {"call": CALLS | VALUES, "measurements": LISTS | VALUES, "mask": MASKS | VALUES}


def test_whatever_is_sent_is_answered_and_leaves_a_record_that_verifies(client, name, tmp_path):
    create(client, name)

    @settings(max_examples=40, database=None)
    @given(st.booleans(), st.data())
    def fuzzed(ask, data):
        body = data.draw(st.fixed_dictionaries({}, optional=ASKS if ask else TELLS))
        answer = client.post(
            f"/fleets/{name}/{'ask' if ask else 'tell'}",
            content=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code in (200, 409, 422), answer.text
        if see(client, name)["pending"] and data.draw(st.booleans()):  # so that the next call may come
            for number in {call for call in see(client, name, "/members")["call"] if call is not None}:
                do(client, name, "tell", call=number, measurements=[None] * COUNT, status=None)

    fuzzed()
    ZipFile(BytesIO(client.get(f"/fleets/{name}/backup").content)).extractall(tmp_path)
    assert hc.audit.verify(tmp_path / "fleets" / name / "epoch-0001.db").verified
