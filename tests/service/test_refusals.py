"""What is refused: every wrong request is a 4xx with a message, and changes nothing."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from contextlib import closing

import httpx
import pytest
from service.running import QUICK

from holdcourse import errors
from holdcourse.service.core.hosted import Hosted
from holdcourse.service.core.refusals import Busy, ClientLeft, Unknown
from holdcourse.service.core.requests import Config, TellGiven
from holdcourse.service.http.admission import depth, parsed
from holdcourse.service.http.errors import HttpRefusal, translated


@pytest.fixture(scope="module")
def ready(url):
    from service.running import Client

    with Client(url) as client:
        client.create(id="there", status=201)
        yield client


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": "Up"}, "id must be 1 to 64 small letters"),
        ({"id": "../x"}, "id must be 1 to 64 small letters"),
        ({"id": "a" * 65}, "id must be 1 to 64 small letters"),
        ({"id": ""}, "id must be 1 to 64 small letters"),
        ({"actions": []}, "actions"),
        ({"actions": None}, "actions are missing"),
        ({"actions": [1.0, 1.0]}, "actions 0 and 1 are both the setting 1: name every setting once"),
        ({"actions": [[1.0], [1.0, 2.0]]}, "actions"),
        ({"actions": list(range(5001))}, "5000"),
        ({"actions": {"x": list(range(80)), "y": list(range(80))}}, "at most 5,000"),
        ({"metric": "manhattan"}, "metric"),
        ({"metric": [[0.0]] * 1001}, "metric"),
        ({"metric": [[0, 1], [1, 0]]}, "must have 4 rows and as many columns"),
        ({"metric": [[0, 1], [1]]}, "m"),
        ({"labels": ["a"]}, "labels must be 4 names, one per action, got 1"),
        ({"scale": 0.0}, "scale"),
        ({"scale": "20"}, "scale='20' does not say what it is paid for"),
        (
            {"scale": "20 EUR/m", "units": {"action": "m", "measurement": "kWh"}},
            "scale is in EUR, which cannot be converted to kWh",
        ),
        (
            {"scale": "20 Wh/m", "units": {"measurement": "kWh"}},
            "scale is a price for each m; say in which unit the settings are: units.action 'm'",
        ),
        ({"scale": "20 Wh/m", "units": {"action": "m"}}, "such as units.measurement 'Wh'"),
        ({"limits": {"max_step": "5 s"}, "units": {"action": "m"}}, "max_step is in s, which cannot be converted to m"),
        ({"limits": {"min_dwell": "45 min"}}, "say how long a round is"),
        ({"units": {"measurement": "mw"}}, "the unit 'mw' may be MW or mW"),
        ({"scale": [1.0, 2.0]}, "scale must be one number"),
        ({"rho": -1.0}, "rho"),
        ({"policy": "md-known"}, "policy"),
        ({"policy": "os.system"}, "policy"),
        ({"options": {"width": "wide"}}, "options.width"),
        ({"options": {"import": "os"}}, "options.import"),
        ({"options": {"kernel": "rbf"}}, "not a kernel"),
        ({"options": {"kernel": '{"parts":' + "[" * 50_000}}, "this is not a kernel"),
        ({"options": {"kernel": '{"parts": [{"action": {"kernel": "eval", "with": {}}}]}'}}, "'eval' is not known"),
        ({"policy": "stationary", "options": {"tau": 5.0}}, "does not take the option 'tau'"),
        ({"options": {"prior_mean": [1.0]}}, "mean"),
        ({"limits": {"max_moves": 3}}, "max_moves and window"),
        ({"limits": {"speed": 3}}, "limits.speed"),
        ({"guard": {"threshold": 1.0, "revert_to_index": 9}}, "revert_to_index=9 is not"),
        ({"start_index": 4}, "start_index=4 is not an index from 0 to 3"),
        ({"start": 4}, "start=4.0 is not a setting; the nearest are 3, 2, 1"),
        ({"start": True}, "start"),
        ({"start": 1, "start_index": 1}, "give start or start_index, not both"),
        ({"start_index": True}, "start"),
        ({"start_index": 1.5}, "start"),
        ({"start": "1"}, "start"),
        ({"fallback_index": 4}, "fallback_index=4 is not an index from 0 to 3"),
        ({"fallback": 0.5}, "fallback=0.5 is not a setting; the nearest are 0, 1, 2"),
        ({"mode": "drive"}, "mode"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"history_index": [[9, 0.5, 1.0]]}, "action 9"),
        ({"history_index": [[0, 0.5]]}, "history_index.0"),
        ({"history": [[9, 0.5, 1.0]]}, "history=9.0 is not a setting"),
        ({"history": [[0, 0.5]]}, "history.0"),
        ({"history_index": [[0, 0.5, 1.0], [0, [0.5, 0.5], 1.0]]}, "a context must be 1 number, got [0.5, 0.5]"),
        ({"actions": {"codec": 5}}, "actions.codec must be a list of numbers or an object, got 5"),
        (
            {"actions": {"codec": {"values": [1, 2], "chnge": 1}}},
            "actions.codec.chnge is not a field of this request, got 1",
        ),
        (
            {"actions": {"codec": {"values": [1, 2], "change": -1}}},
            "actions.codec.change must be greater than 0, got -1",
        ),
        (
            {"actions": {"codec": {"values": ["a", None]}}},
            "actions.codec.values.1 must be a number, true or false or a text, got null",
        ),
        ({"actions": []}, "actions must have at least 1 item, got []"),
        ({"unknown": 1}, "unknown is not a field of this request, got 1"),
        ({"limit": {}}, "limit is not a field of this request, got {}; did you mean limits?"),
        (
            {"limits": {"max_stop": 1}},
            "limits.max_stop is not a field of this request, got 1; did you mean max_step?",
        ),
        ({"id": "Turm"}, "id must be 1 to 64 small letters, digits, - or _, got 'Turm'"),
        ({"name": "two\nlines"}, "name must be one line of text without control characters; leave out '\\n'"),
        ({"name": "\u202eelddim"}, "leave out '\\u202e'"),  # it would turn what stands beside it
        ({"labels": ["a", "b", " ", "d"]}, "labels.2 must not be blank"),
    ],
)
def test_a_wrong_config_names_what_is_wrong(ready, change, words):
    before = ready.get("/controllers").json()["controllers"]
    response = ready.post("/controllers", json={**QUICK, "id": "wrong", **change})
    assert response.status_code == 422, response.text
    assert words in response.json()["error"]["message"]
    assert [row["id"] for row in ready.get("/controllers").json()["controllers"]] == [row["id"] for row in before]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"context": "seven"}, "context must be a number or a list of numbers, got 'seven'"),
        ({"context": [1, "a"]}, "context.1 must be a number, got 'a'"),
        ({"context": [[1.0]]}, "context.0 must be a number, got [1.0]"),
        ({"context": 1e40}, "context must be less than or equal to 1e30, got 1e+40"),
        ({"forecast": "x"}, "forecast must be a list of numbers or a list of lists of numbers, got 'x'"),
        ({"forecast": [[1, "a"]]}, "forecast.0.1 must be a number, got 'a'"),
        (
            {"round": 1.5, "allowed": [None]},
            "allowed.0 must be true or false, got null; round must be a whole number, got 1.5",
        ),
        ({"allowed": [1, 7]}, "allowed=7.0 is not a setting; the nearest are 3, 2, 1"),
        ({"context": 0.5, "allowed": [True]}, "allowed must be a list of settings or 4 booleans, got 1 boolean"),
        ({"context": 0.5, "within": [2, 1]}, "within must be the lowest setting and then the highest, got 2 and 1"),
        ({}, "a context must be 1 number, got none"),
        ({"contxt": 7}, "contxt is not a field of this request, got 7; did you mean context?"),
    ],
)
def test_a_wrong_question_is_refused_in_words(ready, body, message):
    assert ready.do("there", "ask", status=422, **body)["message"] == message


def test_requests_that_are_no_json_or_no_numbers_are_refused_in_our_words(ready):
    def message(response):
        assert response.status_code == 422
        return response.json()["error"]["message"]

    as_json = {"Content-Type": "application/json"}
    assert message(ready.post("/controllers", content=b"", headers=as_json)) == "the body is empty; send a JSON object"
    said = message(ready.post("/controllers", content=b"{'id': 1}", headers=as_json))
    assert said == "the body is not valid JSON: key must be a string at line 1 column 2"
    said = message(ready.get("/controllers/there/decisions?after=noon"))
    assert said == "after must be a whole number, got 'noon' (in the address, after '?')"
    said = message(ready.post("/controllers/there/ask", json={}, headers={"Idempotency-Key": "two words"}))
    assert said.startswith("Idempotency-Key must be 1 to 200 letters, digits or signs without spaces, got 'two words'")


def test_a_name_of_blanks_is_no_name_and_others_stay_as_people_write_them(client, name):
    assert client.create(id=name, name="   ")["name"] == name
    assert client.change(name, name=" M\u00fchle 7 \U0001f469\u200d\U0001f527 ")["name"] == (
        "M\u00fchle 7 \U0001f469\u200d\U0001f527"
    )


def test_the_first_context_has_a_number_for_each_name(client, name):
    """It says for good how many numbers there are."""
    named = {"options": {}, "context_names": ["load", "outdoor"]}
    client.create(id=name, **named)
    message = client.do(name, "ask", 422, context=21.5)["message"]
    assert message == (
        "the context has 1 number, but context_names has 2 names (load, outdoor); give one number for each name"
    )
    assert client.do(name, "ask", 422)["message"].startswith("the context has 0 numbers, but context_names has 2 names")
    assert client.do(name, "ask", context=[0.7, 21.5])["round"] == 0
    client.create(id=f"{name}-fixed", policy="fixed-at", options={"setting": 1.0}, context_names=["load"])
    assert client.do(f"{name}-fixed", "ask")["round"] == 0  # it needs none
    client.create(id=f"{name}-unnamed", context_names=[])
    assert client.do(f"{name}-unnamed", "ask", context=0.5)["round"] == 0  # an empty list names nothing
    message = client.create(id=f"{name}-past", status=422, history_index=[[0, 0.7, 1.0]], **named)["message"]
    assert message.startswith("a context in the history has 1 number, but context_names has 2 names (load, outdoor);")


def test_ids_and_reasons_are_refused_in_words(ready):
    assert ready.do("there", "retract", 422, decision="7", reason="x")["message"] == (
        "decision must be the id of a decision, such as r12, got '7'"
    )
    assert (
        ready.do("there", "retract", 422, decision="r0", reason=" ")["message"] == "reason must not be blank, got ' '"
    )
    assert "must be 1 to 64 small letters" in ready.see("There", "state", status=422)["message"]


def test_who_asked_without_a_context_is_told_why_there_can_be_none_later(client, name):
    client.create(id=name, options={})
    client.do(name, "tell", decision=client.do(name, "ask")["decision"], measurement=1.0)
    message = client.do(name, "ask", 422, context=1.0)["message"]
    assert message.startswith("no earlier round had a context, so this one cannot have one, got [1.0]; leave it out")


def test_no_message_shows_what_we_call_a_type():
    wrong = {
        "id": 1,
        "actions": "x",
        "metric": "near",
        "scale": {"x": 1},
        "labels": [1],
        "history_index": [[0, "a", 1], [1]],
        "options": {"period": "a", "prior_mean": "x", "contexts": [1], "context_scale": [None]},
    }
    for name, value in wrong.items():
        with pytest.raises(HttpRefusal) as refused:
            parsed(Config, json.dumps({"id": "a", name: value}).encode())
        assert not re.search(r"constrained|nullable|function|literal\[|list\[|dict\[", str(refused.value))
        assert str(refused.value).startswith(name)
    with pytest.raises(
        HttpRefusal, match=r"^metric must be 'euclidean', 'cityblock' or 'chebyshev' or a list of lists"
    ):
        parsed(Config, b'{"id": "a", "metric": "near"}')
    with pytest.raises(HttpRefusal, match=r"^decision is missing; measurement must be a number, got '1'$"):
        parsed(TellGiven, b'{"measurement": "1"}')
    with pytest.raises(HttpRefusal, match=r"^the body must be an object$"):
        parsed(TellGiven, b"[1]")


@pytest.mark.parametrize(
    ("address", "body"),
    [
        ("ask", {"context": "warm"}),
        ("ask", {"context": [[0.5]]}),
        ("ask", {"context": 1e31}),
        ("ask", {"context": [0.5, 0.5]}),
        ("ask", {"round": -1}),
        ("ask", {"round": 0.5}),
        ("ask", {"round": True}),
        ("ask", {"allowed": [1, 0, 1, 1]}),
        ("ask", {"colour": "red"}),
        ("ask", []),
        ("tell", {"decision": "r0"}),
        ("tell", {"decision": "zero", "measurement": 1.0}),
        ("tell", {"decision": "r0", "measurement": "1.0"}),
        ("tell", {"decision": "r0", "measurement": None}),
        ("skip", {"decision": "r0", "measurement": 1.0}),
        ("override", {}),
        ("override", {"setting_index": -1}),
        ("override", {"setting": 0.5}),
        ("override", {"setting": True}),
        ("override", {"setting": "0"}),
        ("override", {"action": 1}),
        ("override", {"setting_index": 1, "reason": "x" * 501}),
        ("mode", {}),
        ("episode", {"start": None}),
    ],
)
def test_a_wrong_body_is_refused(ready, address, body):
    response = ready.post(f"/controllers/there/{address}", json=body)
    assert response.status_code == 422, response.text
    assert response.json()["error"]["message"]
    assert ready.see("there", "state")["round"] == 0


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_what_is_not_a_number_is_refused(ready, number):
    headers = {"Content-Type": "application/json"}
    body = f'{{"decision": "r0", "measurement": {number}}}'
    response = ready.post("/controllers/there/tell", content=body, headers=headers)
    assert response.status_code == 422
    assert "finite" in response.json()["error"]["message"]
    response = ready.post("/controllers/there/ask", content=f'{{"context": [{number}]}}', headers=headers)
    assert response.status_code == 422


@pytest.mark.parametrize(
    "body", [b"", b"null", b"{", b"\xff\xfe", b'{"context": 0.5}{}', b"[" * 100_000, b'{"a":' * 40]
)
def test_what_is_not_json_is_refused(ready, body):
    response = ready.post("/controllers/there/ask", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 422
    assert response.json()["error"]["code"] in ("invalid", "too_deep", "too_many")


def test_depth_counts_brackets_outside_of_strings():
    assert depth(b'{"a": [[1], "[[[[", "\\"[["]}') == 3
    assert depth(b"1") == 0
    assert depth(json.dumps([[[[]]]]).encode()) == 4


def test_another_content_type_is_refused(ready):
    response = ready.post("/controllers/there/ask", content=b"{}", headers={"Content-Type": "text/plain"})
    assert response.status_code == 415
    assert "application/json" in response.json()["error"]["message"]
    assert ready.post("/controllers/there/ask").status_code == 415


def test_a_long_body_is_refused_before_it_is_read(ready, url):
    long = {"Content-Type": "application/json", "Content-Length": str(50 * 2**20)}
    with httpx.Client(base_url=url, trust_env=False) as client:
        response = client.post("/controllers/there/ask", content=_pieces(50), headers=long)
        assert response.status_code == 413
        assert "1 MiB" in response.json()["error"]["message"]


def test_a_long_body_that_does_not_say_so_is_refused_on_the_way(ready):
    response = ready.post("/controllers/there/ask", content=_pieces(3), headers={"Content-Type": "application/json"})
    assert response.status_code == 413
    response = ready.post("/controllers", content=_pieces(17), headers={"Content-Type": "application/json"})
    assert response.status_code == 413
    assert "16 MiB" in response.json()["error"]["message"]


def _pieces(mebibytes):
    for _ in range(mebibytes):
        yield b" " * 2**20


def test_what_is_not_there(ready):
    for address in ("state", "config", "decisions", "explain/r0", "field", "alarms", "verify", "backup", "events"):
        assert ready.see("nobody", address, status=404)["code"] == "unknown_controller"
    assert ready.do("nobody", "ask", context=0.5, status=404)["code"] == "unknown_controller"
    assert ready.change("nobody", status=404)["code"] == "unknown_controller"
    assert ready.get("/nowhere").json()["error"]["code"] == "not_found"
    wrong = ready.delete("/controllers")
    assert wrong.status_code == 405
    assert wrong.json()["error"]["code"] == "method_not_allowed"
    assert wrong.headers["allow"] == "GET, POST"
    assert wrong.json()["error"]["message"].startswith("there is no DELETE /controllers, only GET, POST;")


@pytest.mark.parametrize(
    ("method", "address", "meant"),
    [
        ("GET", "/controllers/", "GET /controllers"),
        ("GET", "//controllers", "GET /controllers"),
        ("GET", "/controllers/there/state/", "GET /controllers/there/state"),
        ("GET", "/controllers//there/decision", "GET /controllers/there/decisions"),
        ("GET", "/Controller/there/state", "GET /controllers/there/state"),
        ("GET", "/controllers/there", "GET /controllers/there/state"),
        ("GET", "/fleet/pumps", "GET /fleets/pumps"),
        ("GET", "/health", "GET /healthz"),
        ("POST", "/controllers/there/tel", "POST /controllers/there/tell"),
        ("PATCH", "/controllers/there/", "PATCH /controllers/there"),
        ("DELETE", "/controllers", ""),
        ("GET", "/controllers/there/colour", ""),
        ("GET", f"/controllers/{'a' * 64}/colour", ""),
        ("GET", f"/{'a' * 300}", ""),
    ],
)
def test_an_address_that_is_not_there_says_which_may_be_meant(ready, method, address, meant):
    response = ready.request(method, f"{str(ready.base_url).rstrip('/')}{address}")
    assert response.status_code in (404, 405)
    message = response.json()["error"]["message"]
    assert (f"; did you mean {meant}? The addresses are in /openapi.json" in message) == bool(meant)
    assert ("did you mean" in message) == bool(meant)
    assert len(message) < 300


def test_probes_may_be_sent_as_head(ready):
    for address in ("/healthz", "/readyz", "/"):
        response = ready.head(address)
        assert (response.status_code, response.content) == (200, b"")
    assert ready.head("/controllers").status_code == 405


def test_what_is_refused_says_what_to_do_instead(ready):
    def message(response, status=422):
        assert response.status_code == status, response.text
        return response.json()["error"]["message"]

    assert ready.change("there", 422, mode="act")["message"].endswith("; the mode is set with POST .../mode")
    assert "create another one" in ready.change("there", 422, history=[])["message"]
    unsure = message(ready.get("/controllers/there/config?history=maybe"))
    assert unsure.startswith("history must be true or false, got 'maybe'")
    assert ready.do("there", "ask", 422, context=True)["message"].endswith("got true")
    assert ready.do("there", "ask", 422, time="2026-03-01T07:00Z")["message"] == (
        "the contexts of there are not times; give the conditions as context, not time"
    )
    unsent = message(ready.post("/controllers/there/ask"), 415)
    assert unsent == "the body must be sent with Content-Type: application/json, not without one"
    for address, kind in (("/readings", "text/csv"), ("/controllers?id=new", "application/zip")):
        assert message(ready.post(address, headers={"Content-Type": kind})).startswith("the body is empty; send the")
    silence = message(ready.delete("/notifications/silences/1"))
    assert silence == "silence must be the id of a silence, as GET /notifications lists them, got '1'"
    keys = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    twice = message(ready.post("/controllers/there/skip", json={"decision": "r0"}, headers=keys))
    assert twice == "Idempotency-Key is given 2 times in the headers; give it once"
    assert ready.see("there", "state")["round"] == 0


def test_a_question_that_allows_nothing_is_another_question(client, name):
    client.create(id=name)
    client.do(name, "ask", context=0.5)
    message = client.do(name, "ask", 409, context=0.5, round=0, allowed=[])["message"]
    assert message.startswith("round 0 was asked with allowed all settings, and now with allowed no setting; tell or")


def test_a_body_may_begin_as_editors_of_windows_write_it(client, name):
    client.create(id=name)
    content = b'\xef\xbb\xbf{"context": 0.5}'
    response = client.post(f"/controllers/{name}/ask", content=content, headers={"Content-Type": "application/json"})
    assert (response.status_code, response.json()["decision"]) == (200, "r0")


def test_a_body_in_another_encoding_is_refused_in_words(ready):
    def message(content):
        response = ready.post("/controllers/there/ask", content=content, headers={"Content-Type": "application/json"})
        assert response.status_code == 422
        return response.json()["error"]["message"]

    for encoding in ("utf-16", "utf-16-be"):
        mark = b"\xfe\xff" if encoding.endswith("be") else b""
        content = mark + '{"context": 0.5}'.encode(encoding)
        assert message(content) == "the body is written in UTF-16; send it in UTF-8"
    assert message(gzip.compress(b'{"context": 0.5}')).startswith("the body is compressed; send it as it is")


def test_queries_and_paths_are_checked(ready):
    assert "limit" in ready.see("there", "decisions", limit=0, status=422)["message"]
    assert "after" in ready.see("there", "decisions", after="x", status=422)["message"]
    assert "id" in ready.see("NOBODY", "state", status=422)["message"]
    missing = ready.delete("/controllers/there").json()["error"]["message"]
    assert missing == "name is missing; reason is missing (in the address, after '?')"
    for key in ("two words", "k" * 201):
        assert "Idempotency-Key" in ready.do("there", "ask", context=0.5, key=key, status=422)["message"]


@pytest.mark.parametrize(
    ("method", "address", "words"),
    [
        (
            "GET",
            "/controllers/there/decisions?limt=5",
            "'limt' is not a parameter of GET /controllers/{id}/decisions, in the address after '?'; "
            "did you mean limit? It takes after, limit",
        ),
        ("GET", "/controllers/there/decisions?LIMIT=5", "did you mean limit?"),
        ("GET", "/controllers/there/decisions?page=2", "; it takes after, limit"),
        ("GET", "/controllers/there/decisions?limit=5&limit=6", "limit is given 2 times in the address, after '?'"),
        (
            "GET",
            "/controllers?foo=1",
            "GET /controllers takes no parameters in the address, after '?', got 'foo'; leave it out",
        ),
        ("GET", "/metrics?collect[]=asks", "GET /metrics takes no parameters"),
        ("GET", "/events?controller=there", "GET /events takes no parameters"),
        ("GET", "/controllers/there/verify?ful=true", "did you mean full?"),
        ("GET", "/controllers/there/audit?kinds=mode&who=night", "did you mean kind?"),
        ("GET", "/controllers/there/rounds.csv?limit=5", "takes no parameters"),
        ("GET", "/journal?limits=5", "did you mean limit?"),
        ("GET", "/jobs?state=done", "takes no parameters"),
        ("GET", "/fleets?foo=1", "takes no parameters"),
        ("PATCH", "/controllers/there?without_archivd=true", "did you mean without_archived?"),
        ("POST", "/controllers/there/retract?without-archived=true", "did you mean without_archived?"),
        ("DELETE", "/controllers/there?name=there&reson=sold", "did you mean reason?"),
        ("POST", "/controllers/there/ask?context=0.5", "got 'context'; send it in the body, as JSON"),
        ("POST", "/controllers/there/ask?" + "x" * 500, "got '" + "x" * 57 + "...'"),
        ("POST", "/ask?key=a", "POST /ask takes no parameters"),
        (
            "POST",
            "/controllers?mode=shadow",
            "'mode' is given in the address, after '?'; with JSON, all settings are in the body",
        ),
    ],
)
def test_an_option_that_an_address_does_not_take_is_refused(ready, method, address, words):
    body = {} if method in ("GET", "DELETE") else {"json": {"context": 0.5, **(QUICK if address[13:14] == "?" else {})}}
    before, listed = ready.see("there", "state"), len(ready.get("/controllers").json()["controllers"])
    response = ready.request(method, address, **body)
    assert response.status_code == 422, response.text
    assert words in response.json()["error"]["message"]
    assert ready.see("there", "state") == before
    assert len(ready.get("/controllers").json()["controllers"]) == listed


def test_whatever_an_address_declares_it_takes_and_probes_take_anything(ready):
    for address in (
        "/controllers/there/decisions?after=0&limit=5",
        "/controllers/there/decisions?",
        "/controllers/there/decisions?&",
        "/controllers/there/audit?kind=mode&kind=limits&who=night&limit=5",
        "/controllers/there/config?history=true",
        "/healthz?from=balancer",
        "/readyz?verbose",
        "/?utm_source=chat",
        "/page/main.js?v=2",
        "/openapi.json?cached=no",
    ):
        assert ready.get(address).status_code == 200, address
    assert ready.post("/controllers/there/ask?&", json={"context": 0.5, "round": 99}).status_code == 409


def test_no_address_ignores_an_option(ready):
    """Also one that is added later."""
    described = ready.get("/openapi.json").json()["paths"]
    assert len(described) > 40
    for path, methods in described.items():
        address = path.format(id="there", fleet="pumps", decision="r0", job="j0123456789ab", kind="a", silence="0" * 12)
        for method in methods:
            if path in ("/healthz", "/readyz"):
                continue
            body = {"json": {}} if method in ("post", "patch") and path != "/readings" else {}
            if path == "/readings":
                body = {"content": b"a;b\n1;2\n", "headers": {"Content-Type": "text/csv"}}
            response = ready.request(method.upper(), f"{address}?ignord=1", **body)
            assert response.status_code == 422, f"{method} {path}: {response.text[:200]}"
            assert "ignord" in response.json()["error"]["message"], f"{method} {path}: {response.text[:200]}"


def test_a_question_under_the_key_of_another_says_what_to_do_instead(client, name):
    client.create(id=name)
    asked = client.do(name, "ask", key=f"{name}-7", context=0.5)["decision"]
    changed = "round 0 was asked with context 0.5, and now with context 0.6; "
    other = client.do(name, "ask", status=409, key=f"{name}-7", context=0.6)
    assert other["message"] == changed + "tell or skip it before asking something else"
    client.do(name, "tell", decision=asked, measurement=1.0)
    other = client.do(name, "ask", status=409, key=f"{name}-7", context=0.6)
    assert other["message"] == changed + "it is over, so ask for the next round, under a new key if you use keys"
    skipped = client.do(name, "ask", context=0.5, within=[1, 3])["decision"]
    other = client.do(name, "ask", status=409, context=0.5, allowed=[2.0])
    assert other["message"].startswith("round 1 was asked with allowed 1, 2, 3, and now with allowed 2; tell or skip")
    other = client.do(name, "ask", status=409, context=0.5)
    assert other["message"].startswith("round 1 was asked with allowed 1, 2, 3, and now with allowed all settings; ")
    client.do(name, "skip", decision=skipped)
    other = client.do(name, "tell", status=409, decision=skipped, measurement=1.0)
    assert other["message"].endswith("a decision can be told only once, and this one was skipped")


def test_numbers_that_cannot_be_computed_with(client, name):
    client.create(id=name)
    client.round(name, 0.5, 1e30)
    response = client.post(f"/controllers/{name}/ask", json={"context": 1e30})
    assert response.status_code in (200, 422)
    response = client.post(f"/controllers/{name}/ask", json={"context": -1e30})
    assert response.status_code in (200, 409, 422)


def test_without_tokens_other_sites_are_turned_away(url):
    with httpx.Client(base_url=url, trust_env=False) as client:
        for headers in ({"Host": "evil.example"}, {"Host": "evil.example:80"}, {"Sec-Fetch-Site": "cross-site"}):
            response = client.get("/controllers", headers=headers)
            assert response.status_code == 403
            assert "holdcourse token make" in response.json()["error"]["message"]
            assert response.headers["x-frame-options"] == "DENY"
        for host in ("localhost:1", "[::1]:8000", "127.0.0.1"):
            assert client.get("/controllers", headers={"Host": host}).status_code == 200


def test_a_failure_of_ours_is_a_500_that_tells_nothing_and_carries_the_headers(client, name, monkeypatch):
    client.create(id=name)

    def fails(*arguments):
        raise RuntimeError("a secret")

    with monkeypatch.context() as patch:
        patch.setattr(Hosted, "ask", fails)
        response = client.post(f"/controllers/{name}/ask", json={})
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "failed"
    assert "secret" not in response.text
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert response.headers["cache-control"] == "no-store"
    client.round(name, 0.5, 1.0)


def test_a_body_of_open_quotes_is_read_once():
    assert depth(b'{"a":"' + b'\\"' * 500_000) == 1  # read once per quote, this would take hours
    assert depth(b'{"a":' + b'"' * 1_000_001) == 1


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.InvalidInput("a full disk, make room"), 422, "invalid"),  # whatever its words say
        (errors.InvalidMetric("no"), 422, "invalid"),
        (errors.NotComputable("no"), 422, "cannot_compute"),
        (errors.NoActionLeft("no"), 422, "no_action_left"),
        (errors.TooLarge("no"), 422, "invalid"),
        (errors.Conflict("no", 1, 2), 409, "conflict"),
        (errors.LogError("make room"), 503, "unavailable"),
        (errors.DiskFull("no"), 507, "disk_full"),
        (errors.IncompleteRecord("no", 3, 1), 503, "broken"),
        (errors.MissingExtra("no"), 501, "missing_extra"),
        (Unknown("round", "3", "no"), 404, "unknown_round"),
        (Busy("no", "one client"), 429, "busy"),
        (ClientLeft("no"), 499, "gone"),
    ],
)
def test_the_type_of_an_error_decides_its_status(error, status, code):
    found = translated(error)
    assert (found.status, found.code) == (status, code)


def test_a_full_disk_is_an_error_of_the_operating_system():
    assert issubclass(errors.DiskFull, OSError)
    assert not issubclass(errors.DiskFull, ValueError)
    assert isinstance(errors.log_error("no", OSError(28, "no space")), errors.DiskFull)
    assert not isinstance(errors.log_error("no", OSError(13, "not allowed")), errors.DiskFull)
    with closing(sqlite3.connect(":memory:")) as connection, connection:
        connection.execute("PRAGMA max_page_count = 2")
        connection.execute("CREATE TABLE some (text)")
        with pytest.raises(sqlite3.OperationalError) as full:
            connection.execute("INSERT INTO some VALUES (?)", ("x" * 100_000,))
    connection.close()
    assert errors.is_full(full.value)
