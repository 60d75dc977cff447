"""A controller from a policy's file: what was saved is what runs, and nothing in a file is run as code."""

from __future__ import annotations

import base64
import hashlib

import numpy as np
import pytest
from service.running import Client, served

import holdcourse as hc
from holdcourse.archive import pack, unpack
from holdcourse.deciding.policyfile import Evidence, PolicyFile
from holdcourse.deciding.registry import make
from holdcourse.wind.physics import wind_world
from holdcourse.wind.policy.policies import Past, Setting, policy_of

LINE = hc.Problem([0.0, 1.0, 2.0, 3.0], scale=0.1, labels=["off", "low", "mid", "high"])
PAST = [(k % 4, 0.1 * (k % 10), 1.0 + 0.5 * (k % 4)) for k in range(40)]
KITE = {"action": "m", "measurement": "m/s", "cost": "kWh", "context": "hours since 1970, UTC"}
ALTITUDES = np.array([50.0, 120.0, 200.0, 320.0])
EVIDENCE = Evidence("lidar.csv", learned="the wind of a spring", judged="a week", conclusion="It would have paid off.")


def wind(hours, seed):
    random, tilt = np.random.default_rng(seed), np.zeros(hours)
    for t in range(1, hours):
        tilt[t] = 0.9 * tilt[t - 1] + 1.5 * random.standard_normal()
    return np.maximum(8.0 + tilt[:, None] * np.linspace(-1, 1, 4) + 0.1 * random.standard_normal((hours, 4)), 0.1)


@pytest.fixture(scope="module")
def kite():
    """The wind policy, with what it has learned, and the hours to fly."""
    time = np.datetime64("2021-03-01T00", "s") + np.arange(60) * np.timedelta64(3600, "s")
    world = wind_world(time, ALTITUDES, wind(60, 1), movement="physical")
    before = world.moments[0] - 600.0 + np.arange(500.0)
    return policy_of("wind-planner")(Setting(world, Past(before % 24, wind(500, 2), before))), world


def content_of(policy, path, **more):
    policy.save(path, **more)
    return path.read_bytes()


@pytest.fixture(scope="module")
def kite_file(kite, tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "site.policy"
    return content_of(kite[0], path, units=KITE, evidence=EVIDENCE, limits=hc.Limits(min_dwell=2))


def create(client, name, content, status=201, **settings):
    body = {"id": name, "policy_file": base64.b64encode(content).decode(), **settings}
    return client.checked(client.post("/controllers", json=body), status)


def flown(controller, world, rounds):
    found = []
    for t in range(rounds):
        decision = controller.ask(float(world.moments[t]))
        found.append((decision.action, decision.probabilities.tobytes(), decision.expected_cost))
        speed = float(world.speed[t, decision.action])
        controller.tell(decision.id, speed)
    return found


def test_the_wind_policy_runs_in_the_service_as_in_process(url, client, name, kite, kite_file, tmp_path):
    (tmp_path / "site.policy").write_bytes(kite_file)
    world = kite[1]
    here = hc.Controller(hc.load_policy(tmp_path / "site.policy"), start_index=1)
    with hc.connect(url) as service:
        remote = service.create_from_file(tmp_path / "site.policy", name, start_index=1)
        assert flown(remote, world, 40) == flown(here, world, 40)
    state = client.see(name, "state")
    assert (state["policy"], state["limits"]["min_dwell"]) == ("wind-planner", 2)
    assert state["units"] == {"action": "m", "measurement": "m/s", "contexts": None, "cost": "kWh"}
    assert "It would have paid off." in state["file"]["words"]
    assert state["file"]["fingerprint"] == kite[0].fingerprint
    assert state["file"]["sha256"] == hashlib.sha256(kite_file).hexdigest()
    assert state["explains_itself"] == kite[0].explanation
    assert client.see(name, "verify", full=True)["ok"]
    config = client.see(name, "config")
    assert (config["policy"], config["file"]["name"]) == ("wind-planner", "Wind planner")


def test_what_is_booked_is_energy_not_wind(client, name, kite, kite_file):
    world = kite[1]
    create(client, name, kite_file, start_index=0)
    made = moved = 0.0
    before = 0
    for t in range(12):
        asked = client.do(name, "ask", context=float(world.moments[t]))
        speed = float(world.speed[t, asked["action"]])
        client.do(name, "tell", decision=asked["decision"], measurement=speed)
        made += world.step_hours * float(world.curve.power(speed))
        moved += world.problem.distance(before, asked["action"])
        before = asked["action"]
    state = client.see(name, "state")
    assert state["made"] == pytest.approx(made)
    assert state["movement"] == pytest.approx(moved)
    assert state["service"] == pytest.approx(-made)
    stayed = world.step_hours * float(world.curve.power(world.speed[:12, 0]).sum())
    assert client.saved(name)[0] == pytest.approx(made - moved - stayed, abs=0.4 * abs(made))


def test_the_bytes_of_a_file_can_be_sent_as_they_are(client, name, kite_file):
    query = {"id": name, "start_index": 2, "mode": "shadow", "name": "123", "limits": '{"min_dwell": 5}'}
    headers = {"Content-Type": "application/octet-stream"}
    made = client.post("/controllers", content=kite_file, params=query, headers=headers)
    assert made.status_code == 201, made.text
    assert (made.json()["mode"], made.json()["name"], made.json()["action"]) == ("shadow", "123", 2)
    assert made.json()["limits"]["min_dwell"] == 5
    again = client.post("/controllers", content=kite_file, params=query, headers=headers)
    assert again.status_code == 200
    other = client.post("/controllers", content=kite_file, params=query | {"start_index": 1}, headers=headers)
    assert other.status_code == 409
    nameless = client.post("/controllers", content=kite_file, headers=headers)
    assert nameless.status_code == 422
    assert "id" in nameless.json()["error"]["message"]


def test_the_same_file_again_changes_nothing_and_another_is_a_conflict(client, name, tmp_path):
    one = content_of(hc.gp_md(LINE, history=PAST), tmp_path / "a.policy")
    other = content_of(hc.gp_md(LINE, history=PAST[:20]), tmp_path / "b.policy")
    create(client, name, one)
    create(client, name, one, status=200)
    assert "already exists with other settings (file)" in create(client, name, other, status=409)["message"]


def test_a_restart_goes_on_where_it_was(kite, kite_file, tmp_path):
    world = kite[1]
    with served(tmp_path / "data") as url:
        remote = hc.connect(url)
        path = tmp_path / "site.policy"
        path.write_bytes(kite_file)
        first = flown(remote.create_from_file(path, "kite", start_index=1), world, 20)
        remote.close()
    here = hc.Controller(hc.load_policy(path), start_index=1)
    assert flown(here, world, 20) == first
    with served(tmp_path / "data") as url, Client(url) as client:
        asked = client.do("kite", "ask", context=float(world.moments[20]))
        assert asked["action"] == here.ask(float(world.moments[20])).action


def test_other_limits_keep_what_the_file_and_the_machine_have_taught(client, name, tmp_path):
    policy = hc.gp_md(LINE, history=PAST)
    create(client, name, content_of(policy, tmp_path / "a.policy"))
    for t in range(6):
        client.round(name, 0.1 * t, 1.0 + t)
    before = client.see(name, "field")
    state = client.change(name, limits={"min_dwell": 3})
    assert (state["epoch"], state["file"]["name"], state["limits"]["min_dwell"]) == (2, "GP-MD", 3)
    after = client.see(name, "field")
    np.testing.assert_allclose(after["mean"], before["mean"], rtol=1e-9)
    client.round(name, 0.5, 2.0)
    taken_back = client.do(name, "retract", decision="r2", reason="the sensor was unplugged")
    assert taken_back["decision"] == "r2"
    state = client.see(name, "state")
    assert (state["epoch"], state["file"]["name"]) == (3, "GP-MD")
    assert client.see(name, "verify", full=True)["ok"]


@pytest.mark.parametrize(
    "change",
    [{"actions": [0.0, 1.0]}, {"policy": "gp-md"}, {"options": {"width": 1.0}}, {"scale": 2.0}, {"rho": 2.0}],
    ids=str,
)
def test_what_the_file_says_is_not_changed(client, name, kite_file, change):
    create(client, name, kite_file)
    error = client.change(name, status=422, **change)
    assert "came from a file" in error["message"]
    assert client.see(name, "state")["epoch"] == 1


def test_what_the_file_says_is_not_said_twice(client, name, kite_file):
    error = create(client, name, kite_file, status=422, policy="gp-md")
    assert "the policy's file has its own policy" in error["message"]


def test_damaged_and_foreign_files_are_refused_in_a_sentence(client, name, kite_file):
    cut = create(client, name, kite_file[:-10], status=422)["message"]
    assert "the policy's file is damaged" in cut
    assert "begins with" in create(client, name, b"hello", status=422)["message"]
    assert create(client, name, b"", status=422)["message"]
    body = {"id": name, "policy_file": "not base64!"}
    assert "base64" in client.checked(client.post("/controllers", json=body), 422)["message"]
    state, arrays = unpack(kite_file, "x")
    later = pack(state | {"format": 2}, arrays)
    assert "format 2" in create(client, name, later, status=422)["message"]
    state["recipe"]["options"]["wind"]["climates"][0]["modes"] = "x"
    assert "no policy can be made from this" in create(client, name, pack(state, arrays), status=422)["message"]
    state["recipe"]["problem"]["actions"] = [[float(k)] for k in range(6000)]
    assert create(client, name, pack(state, arrays), status=422)["message"]
    assert client.get(f"/controllers/{name}/state").status_code == 404


def test_code_that_a_file_names_is_never_run(client, name, tmp_path):
    ran = tmp_path / "ran"
    source = "import pathlib\nimport holdcourse as hc\n\n\ndef mine(problem):\n"
    source += "    return hc.Policy('mine', hc.rules.Greedy(problem), hc.costs.KnownCosts(problem), problem)\n"
    (tmp_path / "mine.py").write_text(source)
    content = content_of(make(f"{tmp_path / 'mine.py'}:mine", LINE), tmp_path / "mine.policy")
    (tmp_path / "evil.py").write_text(source.replace("\n\n\ndef", f"\npathlib.Path({str(ran)!r}).touch()\n\n\ndef"))
    state, arrays = unpack(content, "x")
    evil = f"{tmp_path / 'evil.py'}:mine"
    hidden = {"policies": [{"policy": evil, "options": {}}], "patience": 1.0}
    for recipe in ({"policy": evil}, {"policy": "hedged", "options": hidden}, {"policy": "os:system"}):
        state["recipe"] = PolicyFile.read(content, "x").recipe | recipe
        error = create(client, name, pack(state, arrays), status=422)
        assert "a service runs no code that a file names" in error["message"]
    assert not ran.exists()


def test_any_policy_of_the_table_can_be_sent(client, name, tmp_path):
    policies = {
        "rec": hc.recommended(LINE, PAST, baseline="history"),
        "hedged": hc.hedged([hc.planner(LINE, history=PAST), hc.stationary(LINE)]),
        "grid": hc.gp_md(hc.Problem(hc.grid(workers=[1, 2], cache=[64, 256]), metric="cityblock")),
        "knobs": hc.planner(hc.Problem(hc.grid(workers=[1, 2], codec=hc.knob(["lz4", "zstd", "none"], change=2.0)))),
        "matrix": hc.proximal_lcb(hc.Problem(metric=[[0, 2, 3], [1, 0, 1], [2, 1, 0]], directed=True), maximise=True),
        "fixed": hc.fixed(LINE, PAST),
    }
    for kind, policy in policies.items():
        own = f"{name}-{kind}"
        state = create(client, own, content_of(policy, tmp_path / f"{kind}.policy"))
        assert state["actions"] == [policy.problem.value(k) for k in range(policy.problem.n)]
        if kind == "rec":  # the promise is against what the history says, and not against staying
            promise = state["promise"]
            assert promise["against"] == f"always running {promise['baseline']}"
            assert f"the bill of fixed at {promise['baseline']}" in state["explains_itself"]
        here = hc.Controller(hc.load_policy(tmp_path / f"{kind}.policy"))
        for t in range(8):
            remote, local = client.round(own, 0.1 * t, 1.0 + t % 3), here.ask(0.1 * t)
            assert remote["action"] == local.action
            here.tell(local.id, 1.0 + t % 3)
        assert client.see(own, "config")["file"]["name"] == policy.name
        assert client.see(own, "verify", full=True)["ok"]


def test_the_wind_policy_live_over_http_is_the_same_as_in_process(url, client, name, kite, kite_file, tmp_path):
    """Asked with the time, told a speed, a profile or nothing, shown forecasts, within an airspace."""
    (tmp_path / "site.policy").write_bytes(kite_file)
    world = kite[1]
    here = hc.Controller(hc.load_policy(tmp_path / "site.policy"), start_index=1)
    with hc.connect(url) as service:
        there = service.create_from_file(tmp_path / "site.policy", name, start_index=1)
        found = {here: [], there: []}
        for t in range(24):
            said = {
                "times": [f"{time}Z" for time in world.time[t : t + 13]],
                "heights": ALTITUDES,
                "speeds": world.speed[t : t + 13],
                "std": 0.5,
            }
            for controller, decided in found.items():
                asked = {"forecast": said if t % 4 == 0 else None, "within": (None, 250.0) if t > 12 else None}
                decision = controller.ask(world.time[t], **asked)
                decided.append((decision.action, decision.expected_cost, decision.probabilities.tobytes()))
                speeds = np.array(world.speed[t])
                speeds[3] = np.nan if t % 5 == 0 else speeds[3]
                profile = (ALTITUDES, speeds) if t % 3 == 0 and decision.action != 3 else None
                told = None if t % 3 != 1 else float(world.speed[t, decision.action])
                for _ in range(2):  # telling the same again is fine
                    controller.tell(decision.id, told, profile=profile)
        assert found[here] == found[there]
    assert client.see(name, "verify", full=True)["ok"]
    rows = client.see(name, "decisions", limit=24)["decisions"]
    assert sum(row["measurement"] is not None for row in rows) > 8  # eight were told as a number
    client.change(name, limits={"min_dwell": 1})
    asked = client.do(name, "ask", time=f"{world.time[30]}Z")
    client.do(name, "tell", decision=asked["decision"], profile={"heights": [40.0, 400.0], "speeds": [7.0, 9.0]})
    assert client.see(name, "verify", full=True)["ok"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"time": "2021-03-01T00:00"}, "does not say its zone"),
        ({"time": "noon"}, "is not a time"),
        ({"time": "2021-03-01T00:00Z", "context": 1.0}, "context and time say the same thing in two ways"),
        ({"context": 448000.0, "within": [900.0, None]}, "no setting is 900 or more; the settings go from"),
        (
            {"context": 448000.0, "profiles": {"times": ["2021-03-01T00:00Z"], "heights": [10.0], "speeds": [[1.0]]}},
            "nothing of the forecast",
        ),
        ({"context": 448000.0, "profiles": {"times": [], "heights": [10.0], "speeds": []}}, "times"),
    ],
    ids=str,
)
def test_questions_that_are_none_are_refused(client, name, kite_file, body, message):
    create(client, name, kite_file)
    assert message in client.do(name, "ask", status=422, **body)["message"]


def test_a_tell_without_a_measurement_is_no_tell(client, name, kite_file):
    create(client, name, kite_file)
    asked = client.do(name, "ask", time="2021-03-01T00:00Z")
    error = client.do(name, "tell", status=422, decision=asked["decision"])
    assert "give the measurement" in error["message"]
    error = client.do(name, "tell", status=422, decision=asked["decision"], profile={"heights": [1.0], "speeds": [1.0]})
    assert "covers none of the settings" in error["message"]
    client.do(name, "skip", decision=asked["decision"])


def test_times_and_profiles_are_for_the_wind_policy(client, name):
    client.create(id=name)
    wrong = client.do(name, "ask", status=422, time="2021-03-01T00:00Z")["message"]
    assert wrong == f"the contexts of {name} are not times; give the conditions as context, not time"
    asked = client.do(name, "ask", context=0.5, within=[0.5, 2.5])
    assert asked["action"] in (1, 2)
    profile = {"heights": [1.0], "speeds": [1.0]}
    error = client.do(name, "tell", status=422, decision=asked["decision"], measurement=1.0, profile=profile)
    assert "one measurement a round" in error["message"]
