"""Long work in the background: jobs that are followed, repeated, cancelled, refused, and reported after a restart."""

from __future__ import annotations

import json
import math
import os
import signal
import time

import numpy as np
import pytest
from service.running import KERNEL, QUICK, Client, Process, served, wait_for

import holdcourse as hc
from holdcourse.service.core import background, inspection, tokens

ACTIONS = QUICK["actions"]
LONG = [
    [ACTIONS[k % 4], k % 7 / 7, 1.0 + (k % 4 - 2) ** 2 + 0.01 * math.sin(k)] for k in range(background.AT_ONCE + 20)
]

PAST = [(k % 4, context, y) for k, (_, context, y) in enumerate(LONG)]


def asked_to_create(client, name, key=None, prefer=None, **config):
    headers = {} if key is None else {"Idempotency-Key": key}
    headers |= {} if prefer is None else {"Prefer": prefer}
    return client.post("/controllers", json=QUICK | {"id": name, "history": LONG} | config, headers=headers)


def over(client, job):
    while (found := client.get(job["address"], headers={"Prefer": "wait=5"}).json())["state"] not in ("done", "failed"):
        pass
    return found


def test_a_controller_with_a_long_history_is_made_by_a_job(client, name):
    answer = asked_to_create(client, name)
    assert answer.status_code == 202
    job = answer.json()
    assert answer.headers["Location"] == job["address"] == f"/jobs/{job['id']}"
    assert (job["kind"], job["controller"], job["status"], job["result"], job["error"]) == (
        "create",
        name,
        None,
        None,
        None,
    )
    assert client.see(name, "state", status=404)["code"] == "unknown_controller"  # it is not there before it is whole
    found = over(client, job)
    assert (found["state"], found["status"], found["progress"]) == ("done", 201, 1.0)
    assert found["result"] == client.see(name, "state")
    assert found["asked_at"] <= found["began_at"] <= found["ended_at"]
    assert client.see(name, "config", history=True)["history"] == LONG
    (listed,) = (each for each in client.get("/jobs").json()["jobs"] if each["id"] == job["id"])
    assert listed == found | {"result": None}
    assert client.see(name, "verify", full=True)["ok"]
    client.round(name, 0.5, 1.0)


def test_it_decides_as_one_that_is_made_at_once(client, name):
    over(client, asked_to_create(client, f"{name}-job").json())
    problem = hc.Problem(ACTIONS, scale=QUICK["scale"])
    policy = hc.gp_md(problem, kernel=KERNEL, noise_std=0.1, context_bounds=[[0.0, 1.0]], history=PAST)
    local = hc.Controller(policy, seed=QUICK["seed"])
    for t in range(5):
        here, there = local.ask(t / 5), client.do(f"{name}-job", "ask", context=t / 5)
        assert (there["action"], there["probabilities"]) == (here.action, here.probabilities.tolist())
        local.tell(here.id, 1.0)
        client.do(f"{name}-job", "tell", decision=there["decision"], measurement=1.0)


def test_what_is_short_is_done_at_once_and_what_is_long_may_be_waited_for(client, name):
    short = QUICK | {"id": f"{name}-a", "history": LONG[: background.AT_ONCE]}
    assert client.post("/controllers", json=short).status_code == 201
    rather = client.post("/controllers", json=short | {"id": f"{name}-b"}, headers={"Prefer": "respond-async"})
    assert rather.status_code == 202
    assert over(client, rather.json())["status"] == 201
    waited = asked_to_create(client, f"{name}-c", prefer="wait=30")
    assert waited.status_code == 201
    assert waited.json()["id"] == f"{name}-c"
    again = asked_to_create(client, f"{name}-c", prefer="wait=30")
    assert (again.status_code, again.json()["round"]) == (200, 0)
    other = asked_to_create(client, f"{name}-c", prefer="wait=30", seed=9)
    assert (other.status_code, other.json()["error"]["code"]) == (409, "conflict")
    assert other.json()["error"]["recorded"] == {"seed": 3}


@pytest.mark.parametrize(
    ("wrong", "status", "words"),
    [
        ({"history": [*LONG, [9, 0.5, 1.0]]}, 422, "history=9.0 is not a setting"),
        ({"options": {"tau": 5.0, "weight": 1.0}}, 422, "does not take the option 'weight'"),
        ({"start": 7}, 422, "start=7"),
    ],
)
def test_a_job_fails_with_what_the_request_would_have_been_refused_with(client, name, wrong, status, words):
    short = wrong | {"history": wrong.get("history", LONG)[-9:]}
    at_once = client.post("/controllers", json=QUICK | {"id": name} | short)
    found = over(client, asked_to_create(client, name, **wrong).json())
    assert (found["state"], found["status"], found["result"]) == ("failed", status, None)
    assert words in found["error"]["message"]
    assert (found["status"], found["error"]) == (at_once.status_code, at_once.json()["error"])
    assert client.see(name, "state", status=404)
    assert not [row for row in client.get("/controllers").json()["controllers"] if row["id"] == name]
    assert asked_to_create(client, name, prefer="wait=30").status_code == 201  # nothing is left of it


def test_the_same_key_is_the_same_job(client, name):
    first = asked_to_create(client, name, key=f"{name}-k").json()
    again = asked_to_create(client, name, key=f"{name}-k").json()
    assert again["id"] == first["id"]
    without = asked_to_create(client, name).json()  # the same request, while it is under way
    assert without["id"] == first["id"]
    refused = client.checked(asked_to_create(client, name, seed=8), 409)
    assert first["id"] in refused["message"]
    at_once = client.create(id=name, status=409)
    assert first["id"] in at_once["message"]
    over(client, first)
    assert asked_to_create(client, name, key=f"{name}-k").json()["id"] == first["id"]
    used = client.checked(asked_to_create(client, name, key=f"{name}-k", seed=8), 409)
    assert "use a new key" in used["message"]


def test_a_long_record_is_verified_by_a_job_with_progress(client, name):
    client.create(id=name)
    rounds = inspection.AT_ONCE_DECIDED + 10
    for t in range(rounds):
        client.round(name, t % 9 / 9, 1.0)
    answer = client.get(f"/controllers/{name}/verify")
    assert answer.status_code == 202
    found = over(client, answer.json())
    assert found["result"]["ok"]
    assert f"all {rounds} decisions come out the same when repeated" in found["result"]["message"]
    assert client.get(f"/controllers/{name}/verify", params={"full": "false"}).status_code == 200
    posted = client.post(f"/controllers/{name}/verify", json={"full": True}, headers={"Idempotency-Key": "v"})
    assert posted.status_code == 202
    repeated = client.post(f"/controllers/{name}/verify", json={"full": True}, headers={"Idempotency-Key": "v"})
    assert repeated.json()["id"] == posted.json()["id"]
    assert over(client, posted.json())["result"]["ok"]


def test_the_record_of_a_large_fleet_is_verified_by_a_job(client, name, monkeypatch):
    fleet = {key: value for key, value in QUICK.items() if key != "id"} | {"id": name, "count": 3}
    client.checked(client.post("/fleets", json=fleet), 201)
    for t in range(2):
        client.checked(client.post(f"/fleets/{name}/ask", json={"context": t / 2}), 200)
        client.checked(client.post(f"/fleets/{name}/tell", json={"call": t, "measurements": [1.0, None, 2.0]}), 200)
    monkeypatch.setattr(inspection, "AT_ONCE_DECIDED", 0.08)  # nine members' decisions count as 0.09
    key = {"Idempotency-Key": f"{name}-check"}
    begun = client.post(f"/fleets/{name}/verify", json={}, headers=key)
    assert (begun.status_code, begun.json()["kind"], begun.json()["controller"]) == (202, "verify", name)
    assert client.post(f"/fleets/{name}/verify", json={}, headers=key).json()["id"] == begun.json()["id"]
    found = over(client, begun.json())
    assert (found["status"], found["result"]["ok"], found["result"]["events"]) == (200, True, 5)
    assert "all 6 decisions come out the same" in found["result"]["message"]


def test_progress_only_grows_and_says_what_is_done():
    said = []
    from holdcourse.learning.fitting.search import followed

    rng = np.random.default_rng(0)
    actions, contexts = rng.integers(4, size=120), rng.random(120)
    with followed(said.append):
        hc.fit_kernel(hc.Problem(ACTIONS), actions, contexts, actions + contexts + 0.1 * rng.normal(size=120))
    assert said[0] == 0
    assert said[-1] == 1
    assert said == sorted(said)
    assert len(said) > 4


@pytest.fixture
def slow_to_make():
    """A history that takes seconds to fit."""
    rng = np.random.default_rng(0)
    chosen = rng.integers(4, size=4000)
    return [[ACTIONS[k], list(map(float, rng.random(3))), float(k + rng.normal())] for k in chosen]


def test_a_job_is_cancelled_and_leaves_nothing(client, name, slow_to_make):
    job = asked_to_create(client, name, history=slow_to_make, policy="recommended", options={}).json()
    wait_for(lambda: client.get(job["address"]).json()["progress"] > 0, "the job to be at work")
    cancelled = client.delete(job["address"])
    assert cancelled.status_code == 200
    assert (cancelled.json()["state"], cancelled.json()["error"]["code"]) == ("failed", "cancelled")
    assert client.delete(job["address"]).status_code == 409
    assert client.see(name, "state", status=404)
    assert client.delete("/jobs/j000000000000").status_code == 404


def test_a_trial_is_planned_by_a_job(client, name):
    rng = np.random.default_rng(1)
    history = [[ACTIONS[k % 4], float(rng.random()), float(10 + k % 4 + rng.normal())] for k in range(200)]
    client.create(id=name, history=history)
    answer = client.post(
        f"/controllers/{name}/trial/plan", json={"gain": 5, "hours": 1, "rehearsals": 0, "blocks": [2, 4]}
    )
    assert answer.status_code == 202
    found = over(client, answer.json())
    assert found["state"] == "done", found["error"]
    assert found["result"]["target_percent"] == 5
    assert [design["block"] for design in found["result"]["designs"]] == [2, 4]
    assert found["result"]["rounds"] == 200
    assert found["result"]["words"]
    no_hours = client.post(f"/controllers/{name}/trial/plan", json={}, headers={"Prefer": "wait=20"})
    assert "how long a round lasts" in client.checked(no_hours, 422)["message"]


def test_who_may_see_and_cancel_jobs(tmp_path):
    secrets = {
        who: tokens.make(tmp_path / "tokens.json", who, scopes, controllers)[1]
        for who, scopes, controllers in (
            ("boss", ("admin",), ("*",)),
            ("mill", ("ask", "tell"), ("mill",)),
            ("kiln", ("admin",), ("kiln",)),
        )
    }
    with served(tmp_path / "data", tmp_path / "tokens.json") as url:
        boss, mill, kiln = (Client(url, secrets[who]) for who in ("boss", "mill", "kiln"))
        job = asked_to_create(boss, "mill").json()
        assert job["by"]["name"] == "boss"
        assert asked_to_create(mill, "mill").status_code == 403
        assert asked_to_create(kiln, "mill").status_code == 403
        assert mill.get(job["address"]).status_code == 200
        assert kiln.get(job["address"]).status_code == 403
        assert [each["id"] for each in mill.get("/jobs").json()["jobs"]] == [job["id"]]
        assert kiln.get("/jobs").json() == {"jobs": []}
        for who in (mill, kiln):
            assert who.delete(job["address"]).status_code == 403
        with Client(url) as stranger:
            assert stranger.get("/jobs").status_code == 401
        assert over(boss, job)["state"] == "done"
        assert mill.get("/controllers/mill/verify", headers={"Prefer": "respond-async"}).status_code == 202
        assert mill.post("/controllers/mill/verify", json={"full": True}).status_code == 403
        assert mill.post("/controllers/mill/trial/plan", json={"hours": 1}).status_code == 403
        for client in (boss, mill, kiln):
            client.close()


def test_after_a_restart_what_was_not_finished_says_so_and_what_was_made_is_there(tmp_path, slow_to_make):
    """The slow tests kill it at random moments."""
    slow = {"history": slow_to_make, "policy": "recommended", "options": {}}
    with Process(tmp_path / "data") as server, Client(server.url) as client:
        done = over(client, asked_to_create(client, "done", key="d").json())
        named = over(client, asked_to_create(client, "named").json())
        job = asked_to_create(client, "cut", key="k", **slow).json()
        waiting = asked_to_create(client, "later").json()
        wait_for(lambda: client.get(job["address"]).json()["progress"] > 0, "the job to be at work")
        server.kill()  # returns once the worker, which has the same pipes, is gone too
    path = tmp_path / "data" / "jobs" / f"{named['id']}.json"  # as if the power had failed before this was written
    kept = json.loads(path.read_text())
    path.write_text(json.dumps(kept | {"state": "running", "result": None, "is_new": False, "is_settled": True}))
    (path.parent / "j00000000000a.json").write_text("{")  # half of a file: the others are there
    with Process(tmp_path / "data") as server, Client(server.url) as client:
        assert client.get(done["address"]).json() == done
        found = client.get(named["address"]).json()
        assert (found["state"], found["status"], found["result"]["id"]) == ("done", 201, "named")
        for each in (job, waiting):
            found = client.get(each["address"]).json()
            assert (found["state"], found["status"], found["error"]["code"]) == ("failed", 503, "interrupted")
            assert "Send the request again" in found["error"]["message"]
        same = asked_to_create(client, "cut", key="k", **slow).json()
        assert (same["id"], same["state"]) == (job["id"], "failed")
        assert [row["id"] for row in client.get("/controllers").json()["controllers"]] == ["done", "named"]
        assert over(client, asked_to_create(client, "later").json())["status"] == 201
        assert not list((tmp_path / "data").rglob(".new-*"))
        again = asked_to_create(client, "cut", key="new", **slow).json()
        wait_for(lambda: client.get(again["address"]).json()["progress"] > 0, "the job to be at work")
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 10  # a job does not hold up the end


def test_a_worker_that_is_killed_fails_its_job_and_the_next_one_works(client, name, slow_to_make):
    job = asked_to_create(client, name, history=slow_to_make, policy="recommended", options={}).json()
    wait_for(lambda: client.get(job["address"]).json()["progress"] > 0, "the job to be at work")
    for worker in _workers():
        os.kill(worker, signal.SIGKILL)
    found = over(client, job)
    assert (found["state"], found["status"], found["error"]["code"]) == ("failed", 500, "failed")
    assert "signal 9" in found["error"]["message"]
    assert over(client, asked_to_create(client, name).json())["status"] == 201


def _workers():
    """Ids of the worker processes of this process."""
    for path in os.listdir("/proc"):
        if path.isdecimal():
            try:
                with open(f"/proc/{path}/stat") as stat, open(f"/proc/{path}/cmdline", "rb") as command:
                    parent = int(stat.read().rpartition(")")[2].split()[1])
                    if parent == os.getpid() and b"core.worker" in command.read():
                        yield int(path)
            except OSError:
                continue


def test_asks_and_tells_go_on_during_a_job(client, name, slow_to_make):
    client.create(id=name)
    client.round(name, 0.5, 1.0)
    job = asked_to_create(client, f"{name}-long", history=slow_to_make, policy="recommended", options={}).json()
    during = []
    while client.get(job["address"]).json()["state"] in ("waiting", "running"):
        began = time.monotonic()
        client.round(name, 0.5, 1.0)
        during.append(time.monotonic() - began)
        time.sleep(0.02)  # rounds as a plant has them, not as many as a core can do
    assert over(client, job)["state"] == "done"
    assert len(during) >= 10  # the job lasts a second or so
    assert np.median(during) < 0.5


def test_one_client_has_one_job_at_a_time_and_few_that_wait(tmp_path, slow_to_make):
    with served(tmp_path / "data") as url, Client(url) as client:
        first = asked_to_create(client, "first", history=slow_to_make, policy="recommended", options={}).json()
        waiting = [asked_to_create(client, f"c{number}").json() for number in range(8)]
        wait_for(lambda: client.get(first["address"]).json()["state"] == "running", "the first to run")
        assert {client.get(job["address"]).json()["state"] for job in waiting} == {"waiting"}
        refused = client.checked(asked_to_create(client, "more"), 429)
        assert "waiting for a job to be begun" in refused["message"]
        for job in reversed(waiting):
            assert client.delete(job["address"]).json()["error"]["code"] == "cancelled"
        client.delete(first["address"])
