"""Every address of the service, over real HTTP."""

from __future__ import annotations

import io
import json
import re
import zipfile

import numpy as np
import pytest
from service.running import KERNEL, QUICK, Client, served

import holdcourse as hc
from holdcourse.running import audit


def test_health_and_readiness(client):
    assert client.get("/healthz").json() == {"status": "ok", "version": hc.__version__}
    ready = client.get("/readyz")
    assert ready.status_code == 200
    assert ready.json()["status"] == "ready"


def test_create_is_done_once(client, name):
    state = client.create(id=name, name="North field", units={"action": "m"}, start_index=1)
    assert state["status"] == "new"
    assert state["name"] == "North field"
    assert state["actions"] == [0.0, 1.0, 2.0, 3.0]
    assert state["units"] == {"action": "m", "measurement": "", "contexts": None, "cost": ""}
    assert state["instruction"] == {"action": 1, "value": 1.0, "reason": "place", "limited_by": None, "forced": None}
    again = client.create(id=name, name="North field", units={"action": "m"}, start_index=1, status=200)
    assert again == state
    error = client.create(id=name, name="North field", units={"action": "m"}, start_index=2, status=409)
    assert (error["recorded"], error["given"]) == ({"start": 1.0}, {"start": 2.0})


def test_settings_and_history_can_be_read_back(client, name):
    history = [[0, 0.5, 1.0], [1, [0.25], 2.0], [2, 0.5, 3.0]]
    client.create(id=name, history_index=history, limits={"min_dwell": 2})
    config = client.see(name, "config")
    assert config["limits"] == {
        "min_dwell": 2,
        "max_step": None,
        "max_moves": None,
        "window": None,
        "max_step_cost": None,
        "round_length": None,
    }
    assert (config["history"], config["history_count"]) == (None, 3)
    assert client.see(name, "config", history=True)["history"] == history
    client.create(id=name, history_index=history, limits={"min_dwell": 2}, status=200)
    client.create(id=name, history_index=history[:2], limits={"min_dwell": 2}, status=409)


def test_decisions_equal_those_of_a_controller_in_process(client, name):
    client.create(id=name)
    problem = hc.Problem(QUICK["actions"], scale=0.1)
    own = hc.Controller(hc.gp_md(problem, kernel=KERNEL, noise_std=0.1, context_bounds=[[0.0, 1.0]]), seed=3)
    for t in range(12):
        context, measurement = 0.1 * (t % 5), 1.0 + 0.2 * (t % 3)
        theirs, ours = client.do(name, "ask", context=context), own.ask(context)
        assert (theirs["decision"], theirs["action"], theirs["value"]) == (ours.id, ours.action, ours.value)
        assert theirs["probabilities"] == ours.probabilities.tolist()
        assert theirs["expected_cost"] == ours.expected_cost
        client.do(name, "tell", decision=ours.id, measurement=measurement)
        own.tell(ours.id, measurement)


def test_asking_again_gives_the_same_answer(client, name):
    client.create(id=name)
    first = client.do(name, "ask", context=0.5, key="a")
    assert client.do(name, "ask", context=0.5, key="a") == first
    assert client.do(name, "ask", context=0.5) == first
    assert client.do(name, "ask", context=0.5, round=0) == first
    assert client.do(name, "ask", context=0.5, key="b") == first
    client.do(name, "tell", decision="r0", measurement=1.0)
    second = client.do(name, "ask", context=0.7)
    assert second["decision"] == "r1"
    for repeat in ({"key": "a"}, {"key": "b"}, {"round": 0}):
        assert client.do(name, "ask", context=0.5, **repeat) == first


def test_asking_something_else_is_a_conflict_that_names_both(client, name):
    client.create(id=name)
    client.do(name, "ask", context=0.5, key="a")
    for change in ({"key": "a"}, {}, {"round": 0}):
        error = client.do(name, "ask", context=0.6, status=409, **change)
        assert (error["recorded"], error["given"]) == ({"round": 0, "context": 0.5}, {"round": 0, "context": 0.6})
    assert client.do(name, "ask", context=0.5, round=1, status=409)["recorded"] == ["r0"]
    assert client.do(name, "ask", context=0.5, round=2, status=409)["recorded"] == 1
    masked = client.do(name, "ask", context=0.5, allowed=[True, True, False, True], status=409)
    assert masked["given"]["allowed"] == [0, 1, 3]
    assert client.do(name, "ask", context=0.5, round=1, key="a", status=409)["code"] == "conflict"


def test_an_old_decision_is_rebuilt_from_the_record(client, name):
    client.create(id=name)
    first = client.do(name, "ask", context=0.5, key="first")
    words = client.see(name, "explain/r0")
    client.do(name, "tell", decision="r0", measurement=1.0)
    for t in range(70):
        client.round(name, 0.1 * (t % 7), 1.0 + 0.1 * (t % 4))
    assert client.see(name, "explain/r0") == words
    assert client.do(name, "ask", context=0.5, key="first") == first
    assert client.do(name, "ask", context=0.5, round=0) == first
    assert client.do(name, "tell", decision="r0", measurement=1.0)["told"] == {
        "measurement": 1.0,
        "applied": 0.0,
        "applied_index": 0,
    }
    client.do(name, "tell", decision="r0", measurement=2.0, status=409)


def test_telling_again_is_fine_and_telling_otherwise_is_not(client, name):
    client.create(id=name)
    decision = client.do(name, "ask", context=0.5)
    told = client.do(name, "tell", decision="r0", measurement=1.5)
    ran = {"measurement": 1.5, "applied": decision["value"], "applied_index": decision["action"]}
    assert told == {"decision": "r0", "told": ran, "assumed": "answer", "alarms": []}
    assert client.do(name, "tell", decision="r0", measurement=1.5) == told
    assert client.do(name, "tell", decision="r0", measurement=1.5, applied_index=decision["action"]) == told
    error = client.do(name, "tell", decision="r0", measurement=2.5, status=409)
    assert (error["recorded"]["measurement"], error["given"]["measurement"]) == (1.5, 2.5)
    client.do(name, "skip", decision="r0", status=409)
    assert client.do(name, "tell", decision="r7", measurement=1.0, status=404)["code"] == "unknown_decision"
    assert client.do(name, "tell", decision="r7", measurement=1.0, key="t", status=404)


def test_a_key_stands_for_one_request(client, name):
    client.create(id=name)
    client.do(name, "ask", context=0.5, key="a")
    assert client.do(name, "tell", decision="r0", measurement=1.0, key="a", status=409)["code"] == "conflict"
    client.do(name, "tell", decision="r0", measurement=1.0, key="b")
    client.do(name, "tell", decision="r0", measurement=1.0, key="b")
    client.do(name, "tell", decision="r0", measurement=1.1, key="b", status=409)
    assert client.do(name, "ask", context=0.5, key="b", status=409)["recorded"] == "tell r0"


def test_several_pending_decisions_are_told_in_any_order(client, name):
    client.create(id=name, max_pending=3)
    assert client.do(name, "ask", context=0.1, status=422)["code"] == "round_needed"
    asked = [client.do(name, "ask", context=0.1 * k, key=f"k{k}") for k in range(3)]
    assert [decision["round"] for decision in asked] == [0, 1, 2]
    assert client.do(name, "ask", context=0.1, round=3, status=409)["recorded"] == ["r0", "r1", "r2"]
    assert client.see(name, "state")["pending"] == asked
    for decision in ("r1", "r2", "r0"):
        client.do(name, "tell", decision=decision, measurement=1.0)
    assert client.see(name, "state")["pending"] == []


def test_skipping(client, name):
    client.create(id=name)
    client.do(name, "ask", context=0.5)
    answer = client.do(name, "skip", decision="r0", applied_index=2)
    assert answer["told"] == {"measurement": None, "applied": 2.0, "applied_index": 2}
    assert client.do(name, "skip", decision="r0", applied_index=2) == answer
    state = client.see(name, "state")
    assert (state["action"], state["rounds_told"], state["service"]) == (2, 0, 0.0)
    assert state["movement"] == pytest.approx(0.2)


def test_rows(client, name):
    client.create(id=name)
    for t in range(7):
        client.round(name, 0.1 * t, 1.0 + t)
    client.do(name, "ask", context=[0.9], key="last")
    newest = client.see(name, "decisions", limit=3)
    assert [row["round"] for row in newest["decisions"]] == [5, 6, 7]
    assert newest["more"]
    told, pending = newest["decisions"][1:]
    assert (pending["key"], pending["measurement"], pending["told_at"], pending["applied"]) == (
        "last",
        None,
        None,
        None,
    )
    assert (told["measurement"], told["cumulative_service"], told["epoch"]) == (7.0, 28.0, 1)
    assert told["value"] == told["applied"]
    state = client.see(name, "state")
    assert told["cumulative_movement"] == state["movement"]
    after = client.see(name, "decisions", after=1, limit=2)
    assert [row["round"] for row in after["decisions"]] == [2, 3]
    assert after["more"]
    assert not client.see(name, "decisions", after=6)["more"]
    assert client.see(name, "decisions", after=7) == {"decisions": [], "more": False}
    assert len(client.see(name, "decisions", after=-1)["decisions"]) == 8


def test_explanations(client, name):
    client.create(id=name)
    client.do(name, "ask", context=0.5, allowed=[True, False, True, True])
    found = client.see(name, "explain/r0")
    assert found["words"].startswith("Round 0: ")
    data = found["data"]
    assert data["bounds"][1] is None
    assert sum(data["probabilities"]) == pytest.approx(1.0)
    assert data["movement"] == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert data["values"] == [0.0, 1.0, 2.0, 3.0]
    assert client.see(name, "explain/r9", status=404)["code"] == "unknown_decision"
    client.see(name, "explain/9", status=422)


def test_the_learned_field(client, name):
    client.create(id=name)
    assert client.see(name, "field")["contexts"] == []
    for t in range(5):
        client.round(name, [0.1 * t], 1.0)
    field = client.see(name, "field")
    assert len(field["contexts"]) == len(field["mean"]) == len(field["std"]) == 5
    assert all(len(row) == 4 for row in field["mean"] + field["std"])
    assert field["values"] == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ("recommended", {}),
        ("planner", {"noise_std": 0.2, "forecasts": "trust", "period": 24.0}),
        ("gp-md", {"tau": 6.0, "width": 1.0, **QUICK["options"]}),
        ("cgp-lcb", {"maximise": True, **QUICK["options"]}),
        ("proximal-lcb", {"weight": 0.5, **QUICK["options"]}),
        ("stationary", {}),
        ("fixed-at", {"setting_index": 2}),
    ],
)
def test_every_policy(client, name, policy, options):
    client.create(id=name, policy=policy, options=options)
    for t in range(3):
        client.round(name, 0.2 * t, 1.0 + t)
    state = client.see(name, "state")
    assert state["policy"] == policy
    assert state["explains_itself"]
    assert state["service"] == (-6.0 if policy == "cgp-lcb" else 6.0)
    assert client.see(name, "verify", full=True)["ok"]
    assert len(client.see(name, "field")["values"]) == 4


@pytest.mark.parametrize(
    ("actions", "more", "values"),
    [
        ([[0.0, 1.0], [1.0, 1.0]], {"metric": "cityblock"}, [[0.0, 1.0], [1.0, 1.0]]),
        ({"x": [1.0, 2.0], "y": [5.0]}, {}, [{"x": 1.0, "y": 5.0}, {"x": 2.0, "y": 5.0}]),
        (None, {"metric": [[0, 2], [1, 0]], "directed": True, "scale": 1.0}, [0.0, 1.0]),
        ([1.0, 2.0], {"labels": ["low", "high"], "fixed_cost": 0.5}, ["low", "high"]),
    ],
)
def test_every_kind_of_action(client, name, actions, more, values):
    config = {"policy": "stationary", "options": {}, **more}
    assert client.create(id=name, actions=actions, **config)["actions"] == values
    client.round(name, 0.5, 1.0)
    assert client.see(name, "decisions")["decisions"][0]["value"] in values
    assert client.see(name, "verify")["ok"]


def test_rho_weighs_the_service_cost_against_movement(client, name):
    client.create(
        id=name, rho=4.0, scale=2.0, limits={"max_step_cost": 2.0}, policy="fixed-at", options={"setting_index": 3}
    )
    decision = client.round(name, 0.5, 1.0)
    assert decision["action"] == 1  # a step costs 2, in units of what is measured a half
    assert client.see(name, "state")["movement"] == pytest.approx(0.5)


def test_what_was_fitted_to_the_history_is_told_for_good(tmp_path):
    rng = np.random.default_rng(0)
    history = [[k % 4, float(rng.uniform()), float((k % 4 - 2) ** 2 + rng.normal(0.0, 0.1))] for k in range(60)]
    with served(tmp_path) as url, Client(url) as client:
        said = client.create(id="fitted", policy="recommended", options={}, history_index=history)["explains_itself"]
        assert "60 past measurements" in said
        assert "It has fitted its model to the history" in said
        other = client.create(id="other", history_index=history[:7])["explains_itself"]
        assert "It began with 7 past measurements" in other
    with served(tmp_path) as url, Client(url) as client:  # opened again from its record, which holds the kernel itself
        assert client.see("fitted", "state")["explains_itself"] == said
        client.round("fitted", 0.5, 1.0)
        client.change("fitted", limits={"min_dwell": 2})
        assert "61 past measurements" in client.see("fitted", "state")["explains_itself"]


def test_gain_against_staying_and_against_the_best_of_the_history(client, name):
    history = [[0, 0.5, 5.0], [2, 0.5, 1.0]] * 5
    client.create(id=name, history_index=history, policy="proximal-lcb")
    for _ in range(5):
        client.round(name, 0.5, 1.0)
    moved = client.see(name, "state")["movement"]
    assert client.saved(name) == pytest.approx((5 * 5.0 - 5.0 - moved, -moved), abs=1.0)


def test_gains_count_what_was_measured_and_only_rounds_that_can_be_compared(client, name):
    client.create(id=name, policy="fixed-at", options={"setting_index": 0})
    assert client.saved(name) == (None, None)
    client.round(name, 0.5, 7.0)  # it stayed: what it measured is what staying costs
    known = {"gain": 0.0, "low": 0.0, "high": 0.0, "rounds": 1, "withheld": None}
    assert client.see(name, "state")["estimate"]["against_staying"] == known
    client.round(name, 0.5, 1.0, applied_index=2)  # nobody knows what staying would have cost
    assert client.saved(name) == (0.0, None)
    assert client.see(name, "state")["service"] == 8.0
    client.change(name, policy="proximal-lcb", options=QUICK["options"])
    client.round(name, 0.5, 1.0, applied_index=2)
    assert client.saved(name)[0] == pytest.approx(6.0, abs=1.0)


def test_episodes(client, name):
    client.create(id=name)
    client.round(name, 0.5, 1.0)
    state = client.do(name, "episode", start_index=3)
    assert (state["episode"], state["action"]) == (1, 3)
    assert client.do(name, "episode", start_index=3)["episode"] == 1  # the same request again
    client.do(name, "ask", context=0.5)
    assert client.do(name, "episode", start_index=2, status=409)["recorded"] == ["r1"]
    client.do(name, "episode", start_index=9, status=422)


def test_an_episode_under_a_key_is_begun_once(client, name):
    client.create(id=name)
    assert client.do(name, "episode", start_index=3, key="first")["episode"] == 1
    assert client.do(name, "episode", start_index=3, key="first")["episode"] == 1
    assert client.do(name, "episode", start_index=3)["episode"] == 1  # without a key: the same, as no round came
    assert client.do(name, "episode", start_index=3, key="second")["episode"] == 2
    client.round(name, 0.5, 1.0)
    assert client.do(name, "episode", start_index=3, key="first")["episode"] == 2  # late: it does not end another one
    refused = client.do(name, "episode", start_index=2, key="first", status=409)
    assert (refused["recorded"], refused["given"]) == (
        {"start_index": 3, "force": None},
        {"start_index": 2, "force": None},
    )
    assert client.do(name, "ask", context=0.5, key="first", status=409)["recorded"] == "episode at index 3"
    client.change(name, actions=[3.0, 0.0])
    assert client.do(name, "episode", start_index=3, key="first")["episode"] == 2  # in the numbers of that time
    assert client.see(name, "verify", full=True)["ok"]


def test_a_fresh_episode_is_recognised_in_the_next_epoch(client, name):
    client.create(id=name)
    client.do(name, "episode", start_index=3)
    client.change(name, actions=[3.0, 0.0])
    assert client.do(name, "episode", start_index=0)["episode"] == 1
    assert client.do(name, "episode", start_index=1)["episode"] == 2


def test_forecasts_and_masks_are_passed_on(client, name):
    client.create(id=name, policy="planner", options={**QUICK["options"], "noise_std": 0.1})
    body = {"context": 0.5, "allowed": [False, False, True, False], "forecast": [[0.6], [0.7]]}
    assert client.do(name, "ask", **body)["action"] == 2
    assert client.do(name, "ask", **body)["action"] == 2
    client.do(name, "tell", decision="r0", measurement=1.0)
    client.do(name, "ask", context=0.5, allowed=[False] * 4, status=422)
    client.do(name, "ask", context=0.5, allowed=[True] * 3, status=422)
    client.do(name, "ask", context=0.5, forecast=[[0.6, 0.5, 0.4]], status=422)
    assert client.see(name, "state")["round"] == 1


def test_the_overview(client, name):
    client.create(id=name, units={"action": "m", "measurement": "kWh"})
    client.round(name, 0.5, 1.0)
    row = next(row for row in client.get("/controllers").json()["controllers"] if row["id"] == name)
    assert (row["status"], row["round"], row["service"], row["alarms"]) == ("ok", 1, 1.0, 0)
    assert row["units"] == {"action": "m", "measurement": "kWh", "contexts": None, "cost": ""}
    assert 0 <= row["seconds_since"] < 60


def test_metrics(client, name):
    client.create(id=name)
    client.round(name, 0.5, 1.0)
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = response.text.splitlines()
    assert f'holdcourse_decisions_total{{controller="{name}"}} 1' in lines
    assert f'holdcourse_tells_total{{controller="{name}"}} 1' in lines
    assert f'holdcourse_stale{{controller="{name}"}} 0' in lines
    assert f'holdcourse_request_seconds_bucket{{controller="{name}",operation="ask",le="+Inf"}} 1' in lines


def test_events_are_sent_as_they_happen(client, url, name):
    client.create(id=name)
    with Client(url) as watcher, watcher.stream("GET", f"/controllers/{name}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        assert next(lines).startswith(":")
        client.round(name, 0.5, 1.0)
        client.do(name, "mode", mode="advise")
        client.do(name, "override", setting_index=1, reason="look")
        seen = []
        for line in lines:
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                data = json.loads(line.removeprefix("data: "))
                assert data["controller"] == name
                seen.append((kind, data.get("decision") or data.get("mode") or data.get("action")))
            if len(seen) == 4:
                break
    assert seen == [("decision", "r0"), ("tell", "r0"), ("mode", "advise"), ("override", 1)]


def test_a_back_up_is_a_data_folder(client, name, tmp_path):
    client.create(id=name)
    for t in range(3):
        client.round(name, 0.1 * t, 1.0)
    response = client.get(f"/controllers/{name}/backup")
    assert response.headers["content-type"] == "application/zip"
    zipfile.ZipFile(io.BytesIO(response.content)).extractall(tmp_path / "restored")
    assert audit.verify(tmp_path / "restored" / "controllers" / name / "epoch-0001.db").verified
    with served(tmp_path / "restored") as url, Client(url) as restored:
        assert restored.see(name, "state") == client.see(name, "state")
        assert restored.do(name, "ask", context=0.5)["action"] == client.do(name, "ask", context=0.5)["action"]


def test_the_page(client):
    response = client.get("/")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy
    assert "frame-ancestors 'none'" in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    script = client.get("/page/api.js")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    for wrong in ("nothing.js", "..%2fapp.py", "%2e%2e/app.py", "../app.py", "%2e%2e", "a%00.js", "a" * 300 + ".js"):
        assert client.get(f"/page/{wrong}").status_code == 404


def test_every_schema_that_the_description_refers_to_is_in_it(client):
    found = client.get("/openapi.json")
    named = set(re.findall(r"#/components/schemas/(\w+)", found.text))
    assert named
    assert named <= found.json()["components"]["schemas"].keys()


def test_the_description_holds_examples(client):
    found = client.get("/openapi.json").json()
    parts = found["components"]["schemas"]
    assert parts["Config"]["examples"][0]["id"] == "turbine-1"
    given = {"AskGiven", "TellGiven", "OverrideGiven", "EpisodeGiven", "LimitsGiven", "GuardGiven", "UnitsGiven"}
    assert given <= parts.keys()
    assert all(part["title"] == name for name, part in parts.items() if "title" in part)
    for path, operations in found["paths"].items():
        for operation in operations.values():
            assert operation["responses"]["200" if path != "/controllers" or "requestBody" not in operation else "201"]
    for method in ("/docs", "/redoc"):
        assert client.get(method).status_code == 404


def test_the_description_says_what_every_field_and_parameter_is_and_what_null_means(client):
    found = client.get("/openapi.json").json()

    def said(about):
        """As the reference shows it: what is said of the field, or of a kind of value that it may have."""
        return next(filter(None, (part.get("description") for part in (about, *about.get("anyOf", ())))), "")

    fields = {
        f"{name}.{field}": about
        for name, part in found["components"]["schemas"].items()
        for field, about in part.get("properties", {}).items()
    }
    assert len(fields) > 500
    assert not [field for field, about in fields.items() if not said(about).endswith(".")]
    nullable = {field: said(about) for field, about in fields.items() if {"type": "null"} in about.get("anyOf", ())}
    assert len(nullable) > 100
    assert not [
        field for field, words in nullable.items() if not re.search("null|, instead of `", words, re.IGNORECASE)
    ]
    parameters = {
        f"{path}: {parameter['name']}": parameter
        for path, operations in found["paths"].items()
        for operation in operations.values()
        for parameter in operation.get("parameters", ())
    }
    assert not [name for name, about in parameters.items() if not about.get("description", "").endswith(".")]


# -- units -------------------------------------------------------------------------------------------------------------

HOUSE = {
    "actions": [18.0, 20.0, 22.0],
    "scale": "500 Wh/K",
    "fixed_cost": "100 Wh per change",
    "units": {"action": "°C", "measurement": "kWh", "contexts": ["°C"]},
    "context_names": ["outdoor"],
    "limits": {"max_step": "2 K", "min_dwell": "45 min", "round_length": "15 min"},
    "guard": {"threshold": 50.0, "revert_to": 20, "cool_down": "1 h"},
}


def test_units_are_obeyed_and_shown(client, name):
    state = client.create(id=name, start=20, **HOUSE)
    assert state["limits_in_words"] == {"min_dwell": "45 min (3 rounds)", "max_step": "2 °C, which costs 1.1 kWh"}
    client.create(id=name, start=20, status=200, **HOUSE)
    config = client.see(name, "config")
    assert (config["scale"], config["fixed_cost"], config["guard"]["cool_down"]) == ([0.5], 0.1, 4)
    assert (config["limits"]["max_step"], config["limits"]["min_dwell"]) == (2.0, 3)
    client.do(name, "ask", context=7.5)
    words = client.see(name, "explain/r0")["words"]
    assert "20 °C" in words
    assert words.endswith("The conditions were: outdoor 7.5 °C.")
    state = client.change(name, limits={"max_step": "4 °C"})
    assert (state["epoch"], state["limits"]["max_step"]) == (2, 4.0)
    state = client.change(name, scale="2 kWh/°C")
    assert state["limits_in_words"]["max_step"] == "4 °C, which costs 8.1 kWh"
    state = client.change(name, context_names=["outside"], units={"contexts": ["K"]})
    assert (state["epoch"], state["context_names"], state["units"]["contexts"]) == (3, ["outside"], ["K"])
    assert (
        "must be 1 unit, one for each name in context_names, got 2"
        in client.change(name, units={"contexts": ["K", "m"]}, status=422)["message"]
    )
    assert "cannot be converted" in client.change(name, scale="2 EUR/°C", status=422)["message"]
    assert client.see(name, "verify", full=True)["ok"]


@pytest.mark.parametrize(
    ("settings", "written"),
    [
        ({"actions": [0.1, 0.2, 0.30000000000000004]}, 0.3),
        ({"actions": [8.0, 10.0]}, 8),
        ({"actions": [2.0, 1.0, 0.0]}, 0),
        ({"actions": [0.0, 1.0], "labels": ["low", "high"]}, "high"),
        ({"actions": [[0.0, 1.0], [2.0, 3.0]]}, [2, 3]),
        ({"actions": {"workers": [1.0, 2.0], "cache": [64.0, 256.0]}}, {"cache": 256, "workers": 1}),
        ({"actions": {"workers": [1.0, 2.0], "cache": [64.0, 256.0]}}, [2, 64]),
    ],
)
def test_a_setting_as_a_person_writes_it(client, name, settings, written):
    """As start, applied, override, fallback and safe setting, in a mask, in the history and of an episode."""
    common = {"policy": "stationary", "options": {}, **settings}
    guard = {"threshold": 1e6, "revert_to": written}
    state = client.create(
        id=name, start=written, fallback=written, guard=guard, history=[[written, 0.5, 1.0]], **common
    )
    value, action = state["value"], state["action"]
    assert state["fallback"] == value == state["actions"][action]
    config = client.see(name, "config", history=True)
    assert (config["start"], config["guard"]["revert_to"], config["history"][0][0]) == (value, value, value)
    assert client.do(name, "ask", context=0.5, allowed=[written])["value"] == value
    told = client.do(name, "tell", decision="r0", measurement=1.0, applied=written)["told"]
    assert (told["applied"], told["applied_index"]) == (value, action)
    assert client.do(name, "override", setting=written, reason="look")["override"]["setting"] == value
    client.do(name, "override", setting=None)
    assert client.do(name, "episode", start=written)["value"] == value
    assert client.do(name, "ask", context=0.5, allowed=[value])["value"] == value  # what is answered may be sent back
