"""Many questions and measurements in one request: each is answered as if it had come alone."""

from __future__ import annotations

import pytest
from service.running import Client, served

import holdcourse as hc
from holdcourse.errors import Conflict, InvalidInput, ServiceError
from holdcourse.service.core import tokens
from holdcourse.service.core.requests import MAX_AT_ONCE


def asked(client, *asks, status=200):
    return client.checked(client.post("/ask", json={"asks": list(asks)}), status)


def told(client, *tells, status=200):
    return client.checked(client.post("/tell", json={"tells": list(tells)}), status)


def test_each_is_answered_as_if_it_had_come_alone(client, name):
    for number in range(3):
        client.create(id=f"{name}-{number}", seed=number)
        client.create(id=f"{name}-alone-{number}", seed=number)
    for t in range(4):
        found = asked(client, *({"controller": f"{name}-{number}", "context": t / 4} for number in range(3)))["results"]
        for number, each in enumerate(found):
            alone = client.do(f"{name}-alone-{number}", "ask", context=t / 4)
            assert (each["controller"], each["status"], each["error"]) == (f"{name}-{number}", 200, None)
            differs = {field for field in alone if alone[field] != each["answer"][field]}
            assert differs <= {"at"}
            client.do(f"{name}-alone-{number}", "tell", decision=alone["decision"], measurement=1.0 + number)
        tells = [
            {"controller": each["controller"], "decision": each["answer"]["decision"], "measurement": 1.0 + number}
            for number, each in enumerate(found)
        ]
        results = told(client, *tells)["results"]
        assert [each["status"] for each in results] == [200] * 3
        assert [each["answer"]["decision"] for each in results] == [f"r{t}"] * 3
    assert client.see(f"{name}-1", "verify", full=True)["ok"]


def test_one_that_is_refused_spoils_no_other(client, name):
    client.create(id=name)
    found = asked(
        client,
        {"controller": "nobody", "context": 0.5},
        {"controller": name, "context": [0.5, 0.5]},
        {"controller": name, "context": 0.5},
        {"controller": name, "context": 0.7},
    )["results"]
    assert [each["status"] for each in found] == [404, 422, 200, 409]
    assert [each["answer"] is None for each in found] == [True, True, False, True]
    for each, alone in (
        (found[0], client.do("nobody", "ask", context=0.5, status=404)),
        (found[3], client.do(name, "ask", context=0.7, status=409)),
    ):
        assert each["error"] == alone
    results = told(
        client,
        {"controller": name, "decision": "r0", "measurement": 2.0},
        {"controller": name, "decision": "r0", "measurement": 3.0},
        {"controller": name, "decision": "r9", "measurement": 3.0},
    )["results"]
    assert [each["status"] for each in results] == [200, 409, 404]
    assert results[1]["error"]["recorded"]["measurement"] == 2.0


def test_keys_are_of_each(client, name):
    client.create(id=name)
    one = {"controller": name, "context": 0.5, "key": f"{name}-k"}
    first = asked(client, one)["results"][0]["answer"]
    told(client, {"controller": name, "decision": first["decision"], "measurement": 1.0, "key": f"{name}-t"})
    again = asked(client, one, {"controller": name, "context": 0.6, "key": f"{name}-k2"})["results"]
    assert (again[0]["answer"]["decision"], again[1]["answer"]["decision"]) == ("r0", "r1")
    assert asked(client, one | {"context": 0.9})["results"][0]["status"] == 409
    skipped = told(client, {"controller": name, "decision": "r1"})["results"][0]
    assert (skipped["status"], skipped["answer"]["decision"]) == (200, "r1")
    assert client.see(name, "decisions")["decisions"][-1]["measurement"] is None
    assert client.do(name, "ask", key=f"{name}-k", context=0.5)["decision"] == "r0"


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"asks": []},
        {"asks": [{"context": 0.5}]},
        {"asks": [{"controller": "A b", "context": 0.5}]},
        {"asks": [{"controller": "a", "key": "ä"}]},
        {"asks": [{"controller": "a", "unknown": 1}]},
        {"asks": [{"controller": "a"}] * (MAX_AT_ONCE + 1)},
    ],
)
def test_a_body_that_is_wrong_is_refused_as_a_whole(client, wrong):
    assert client.post("/ask", json=wrong).status_code == 422
    assert client.post("/ask", content=b"{", headers={"Content-Type": "text/plain"}).status_code == 415


def test_what_a_token_allows_is_looked_at_for_each(tmp_path):
    secrets = {
        who: tokens.make(tmp_path / "tokens.json", who, scopes, controllers)[1]
        for who, scopes, controllers in (("boss", ("admin",), ("*",)), ("a", ("ask",), ("a",)))
    }
    with (
        served(tmp_path / "data", tmp_path / "tokens.json") as url,
        Client(url) as stranger,
        Client(url, secrets["boss"]) as boss,
        Client(url, secrets["a"]) as some,
    ):
        for name in ("a", "b"):
            boss.create(id=name)
        found = asked(some, {"controller": "a", "context": 0.5}, {"controller": "b", "context": 0.5})["results"]
        assert [each["status"] for each in found] == [200, 403]
        assert boss.see("b", "state")["round"] == 0
        assert told(some, {"controller": "a", "decision": "r0", "measurement": 1.0})["results"][0]["status"] == 403
        assert stranger.post("/ask", json={"asks": [{"controller": "a"}]}).status_code == 401
        assert boss.see("a", "decisions")["decisions"][0]["asked_by"]["name"] == "a"


def test_many_controllers_from_python(url, client, name):
    names = [f"{name}-{number}" for number in range(5)]
    with hc.connect(url, patience=5.0) as service:
        for each in names:
            client.create(id=each)
        decisions = service.ask_many([{"controller": each, "context": 0.5} for each in [*names, "nobody"]])
        assert all(isinstance(decision, hc.RemoteDecision) for decision in decisions[:-1])
        assert isinstance(decisions[-1], InvalidInput)
        tells = [
            {"controller": each, "decision": decision.id, "measurement": 1.0}
            for each, decision in zip(names, decisions, strict=False)
        ]
        assert service.tell_many(tells) == [None] * 5
        assert service.tell_many(tells) == [None] * 5  # the same again is fine
        other = service.tell_many([{**tells[0], "measurement": 2.0}])[0]
        assert isinstance(other, Conflict)
        assert not isinstance(other, ServiceError)
        assert client.see(names[0], "state")["rounds_told"] == 1
