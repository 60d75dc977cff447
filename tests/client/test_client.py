"""The client against a real server: the words of `Controller`, errors by their kind, and patience."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.small_server import Answering, answering
from service.running import KERNEL, QUICK, Client, Process, served, wait_for

import holdcourse as hc
from holdcourse.errors import Conflict, InvalidInput, ServiceError
from holdcourse.service.core import tokens
from holdcourse.wind import bundled
from holdcourse.wind.physics import paper_curve

EXAMPLES = Path(__file__).parents[2] / "examples"
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with served(tmp_path_factory.mktemp("client") / "data") as url:
        yield url


@pytest.fixture
def service(url):
    with hc.connect(url, patience=5.0) as service:
        yield service


@pytest.fixture
def remote(service):
    """A controller that no other test uses."""
    return service.create(QUICK | {"id": f"c{next(NUMBERS)}"})


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# -- the same words ----------------------------------------------------------------------------------------------------


def test_decides_as_the_controller_in_this_process(remote):
    problem = hc.Problem(QUICK["actions"], scale=0.1)
    policy = hc.gp_md(problem, kernel=KERNEL, noise_std=0.1, context_bounds=[[0.0, 1.0]])
    local = hc.Controller(policy, seed=QUICK["seed"])
    for t in range(6):
        context, allowed = np.array([t / 6]), np.array([True, True, t != 3, True])
        here, there = local.ask(context, allowed), remote.ask(context, allowed)
        assert (there.id, there.round, there.episode) == (here.id, here.round, 0)
        assert (there.action, there.value, there.proposed) == (here.action, float(here.action), here.action)
        assert there.proposed_value == float(here.action)
        assert (there.act, there.mode, there.reason) == (True, "act", None)
        assert there.probabilities.tolist() == here.probabilities.tolist()
        assert there.expected_cost == pytest.approx(here.expected_cost)
        measurement = np.float64(1.0 + t % 3)
        for controller in (local, remote):
            controller.tell(here.id, measurement, applied_index=1 if t == 4 else None)


def test_contexts_and_forecasts_of_any_kind(remote):
    for context in (0.5, np.float32(0.5), [0.5], (0.5,), np.array(0.5), np.array([0.5])):
        decision = remote.ask(context, forecast=np.array([[0.1], [0.2]]))
        remote.tell(decision.id, 1.0)
    assert [row["measurement"] for row in remote.decisions()] == [1.0] * 6


def test_nothing_measured_is_skipped(remote):
    decision = remote.ask(0.5)
    remote.tell(decision.id, None)
    remote.tell(decision.id, None)
    assert remote.state()["rounds_told"] == 0
    with pytest.raises(Conflict):
        remote.tell(decision.id, 1.0)
    assert remote.ask(0.5).round == 1


def test_the_same_again_is_the_same(remote):
    first = remote.ask(0.5, key="hour-0")
    assert remote.ask(0.5, key="hour-0").id == first.id
    assert remote.ask(0.5, round=0).id == first.id
    remote.tell(first.id, 1.0)
    remote.tell(first.id, 1.0)
    assert remote.ask(0.5, key="hour-0").probabilities.tolist() == first.probabilities.tolist()
    assert remote.state()["round"] == 1


def test_override_and_mode(remote):
    assert remote.override(2, "inspection")["override"]["reason"] == "inspection"
    held = remote.ask(0.5)
    assert (held.action, held.value, held.act, held.reason) == (2, 2.0, True, "override")
    remote.tell(held.id, 1.0)
    assert remote.override(None)["override"] is None
    assert remote.mode("advise", "first week")["mode"] == "advise"
    advised = remote.ask(0.5)
    assert (advised.act, advised.mode, advised.action) == (False, "advise", advised.proposed)
    remote.tell(advised.id, 1.0, applied_index=1)
    remote.mode("observe")
    observed = remote.ask(0.5)
    assert (observed.act, observed.action, observed.reason) == (False, 1, "observe")
    assert observed.proposed is observed.proposed_value is observed.probabilities is None
    assert isinstance(observed.expected_cost, float)  # of where the machine is


def test_looking(service, remote):
    for t in range(5):
        remote.tell(remote.ask(t / 5).id, 1.0 + t)
    assert [row["round"] for row in remote.decisions()] == [0, 1, 2, 3, 4]
    assert [row["round"] for row in remote.decisions(after=1, limit=2)] == [2, 3]
    assert [row["round"] for row in remote.decisions(limit=2)] == [3, 4]
    explained = remote.explain("r3")
    assert explained["decision"] == "r3"
    assert explained["words"]
    assert remote.verify()["ok"]
    assert remote.state()["service"] == 15.0
    assert remote.id in [summary["id"] for summary in service.controllers()]
    assert repr(remote) == f"RemoteController({remote.id!r} at {service.url})"
    assert repr(service) == f"Service({service.url})"


def test_creating_the_same_again_is_fine(service, remote):
    config = QUICK | {"id": remote.id}
    assert service.create(config).id == remote.id
    with pytest.raises(Conflict, match=r"exists with other settings \(seed\)") as caught:
        service.create(config | {"seed": 4})
    assert caught.value.recorded == {"seed": 3}
    assert caught.value.given == {"seed": 4}


def test_threads_share_a_service(service):
    """Each has its own connection, so none reads another's answer."""
    remotes = [service.create(QUICK | {"id": f"shared{k}", "seed": k}) for k in range(6)]
    rounds = [[] for _ in remotes]

    def drive(k):
        for t in range(8):
            decision = remotes[k].ask(t / 8)
            remotes[k].tell(decision.id, float(k))
            rounds[k].append(decision.round)

    threads = [threading.Thread(target=drive, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rounds == [list(range(8))] * 6
    for k, remote in enumerate(remotes):
        assert {row["measurement"] for row in remote.decisions()} == {float(k)}


# -- errors ------------------------------------------------------------------------------------------------------------


def test_a_conflict_holds_both_values(remote):
    decision = remote.ask(0.5)
    with pytest.raises(Conflict, match="round 0 was asked with") as caught:
        remote.ask(0.6)
    assert (caught.value.recorded["context"], caught.value.given["context"]) == (0.5, 0.6)
    remote.tell(decision.id, 1.0)
    with pytest.raises(Conflict, match="told only once") as caught:
        remote.tell(decision.id, 2.0)
    assert caught.value.recorded["measurement"] == 1.0
    assert caught.value.given["measurement"] == 2.0


def test_what_is_wrong_with_the_request_is_invalid_input(service, remote):
    for wrong in (
        lambda: remote.ask("warm"),
        lambda: remote.ask([0.5, 0.5]),
        lambda: remote.ask(0.5, allowed=[True]),
        lambda: remote.ask(0.5, allowed=[False] * 4),
        lambda: remote.ask(0.5, key="two words"),
        lambda: remote.ask(0.5, key="two\nlines"),
        lambda: remote.ask(0.5, key="Küche 中"),
        lambda: remote.tell("r9", 1.0),
        lambda: remote.tell("nine", 1.0),
        lambda: remote.explain("r9"),
        lambda: remote.override(4),
        lambda: remote.mode("drive"),
        lambda: service.controller("nobody").ask(0.5),
        lambda: service.controller("no/body").state(),
        lambda: service.create({"id": "wrong"}),
    ):
        with pytest.raises(InvalidInput) as caught:
            wrong()
        assert str(caught.value)
    assert remote.state()["round"] == 0


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_what_is_not_a_number_is_invalid_input_too(remote, number):
    with pytest.raises(InvalidInput):
        remote.ask(number)
    with pytest.raises(InvalidInput):
        remote.ask(0.5, forecast=[0.1, number])
    decision = remote.ask(0.5)
    with pytest.raises(InvalidInput):
        remote.tell(decision.id, number)
    remote.tell(decision.id, 1.0)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:8000",
        "ftp://127.0.0.1",
        "http://",
        "",
        "http://a:port",
        "http://a:99999",
        "http://a:0",
        "http://[::1",
    ],
)
def test_an_address_that_is_none(address):
    with pytest.raises(InvalidInput, match="must look like http"):
        hc.connect(address)


@pytest.mark.parametrize("token", ["hc_a\n", "hc_中"])
def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(token):
    with pytest.raises(InvalidInput, match="copy it as") as caught:
        hc.connect("http://127.0.0.1:8000", token)
    assert token not in str(caught.value)


@pytest.mark.parametrize("settings", [{"patience": -1.0}, {"timeout": 0.0}, {"patience": float("nan")}])
def test_patience_and_timeout_are_checked(settings):
    with pytest.raises(InvalidInput, match="patience must be 0 or more"):
        hc.connect("http://127.0.0.1:8000", **settings)


def test_tokens(tmp_path):
    file = tmp_path / "tokens.json"
    _, admin = tokens.make(file, "admin", ["admin"], ["*"])
    _, asks = tokens.make(file, "scada", ["ask"], ["a"])
    with served(tmp_path / "data", file) as url:
        with hc.connect(url, admin) as service:
            service.create(QUICK | {"id": "a"})
            service.create(QUICK | {"id": "b"})
        for token in (None, "hc_wrong"):
            with (
                hc.connect(url, token) as service,
                pytest.raises(ServiceError, match="send Authorization: Bearer") as caught,
            ):
                service.controller("a").ask(0.5)
            assert caught.value.status == 401
        with hc.connect(url, asks) as service:
            decision = service.controller("a").ask(0.5)
            for refused in (lambda: service.controller("a").tell(decision.id, 1.0), service.controller("b").state):
                with pytest.raises(ServiceError, match="this needs a token with") as caught:
                    refused()
                assert caught.value.status == 403


@pytest.mark.parametrize("seconds", [float("inf"), 1e300, np.float32(30.0)])
def test_patience_and_timeout_may_be_endless_or_a_number_of_numpy(url, seconds):
    with hc.connect(url, patience=seconds, timeout=seconds) as service:
        made = service.create(QUICK | {"id": f"c{next(NUMBERS)}"})  # on a new connection, and on the same again
        assert made.verify()["ok"]


# -- patience ----------------------------------------------------------------------------------------------------------


@contextmanager
def front_of(backend):
    """Stands before a server and cuts off answers: the request is done, but the client does not hear of it."""
    front = SimpleNamespace(cut=0, seen=[])

    class Handler(Answering):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.body()
            key = self.headers.get("Idempotency-Key")
            headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
            with Client(backend) as client:
                answer = client.post(self.path, content=body, headers=headers)
            front.seen.append((self.path, key, json.loads(body)))
            if front.cut > 0:
                front.cut -= 1
                self.close_connection = True
                return
            self.answer(answer.status_code, answer.content)

    with answering(Handler) as front.url:
        yield front


def test_an_answer_that_got_lost_is_asked_for_again_under_the_same_key(url, remote):
    with front_of(url) as front:
        through = hc.connect(front.url).controller(remote.id)
        front.cut = 2
        decision = through.ask(0.5)
        (_, key, body), *others = front.seen
        assert key
        assert [(other, again) for _, other, again in others] == [(key, body)] * 2
        front.cut = 1
        through.tell(decision.id, 1.0)
        assert through.ask(0.5).round == 1
        assert front.seen[-1][1] != key
        through.service.close()
    assert remote.state()["round"] == 2
    assert remote.state()["rounds_told"] == 1


def test_goes_on_through_a_kill_and_a_restart(tmp_path):
    """The server is away while the client asks; a key from before the restart means the same decision after it."""
    port = free_port()
    with Process(tmp_path, port=port) as server:
        service = hc.connect(server.url, patience=60.0)
        remote = service.create(QUICK | {"id": "a"})
        remote.tell(remote.ask(0.1).id, 1.0)
        pending = remote.ask(0.2, key="hour-1")
        server.kill()
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(remote.ask(0.2, key="hour-1")))
    waiting.start()
    with Process(tmp_path, port=port):
        waiting.join()
        assert [answer.id for answer in answers] == ["r1"]
        assert answers[0].probabilities.tolist() == pending.probabilities.tolist()
        remote.tell("r1", 2.0)
        assert remote.ask(0.3).round == 2
        assert remote.verify()["ok"]
        service.close()


def test_answers_are_not_held_back(tmp_path):
    """Without TCP_NODELAY on the server's side none comes in less than 40 ms."""
    with Process(tmp_path) as server, hc.connect(server.url) as service:
        service.controllers()
        seconds = []
        for _ in range(40):
            began = time.perf_counter()
            service.controllers()
            seconds.append(time.perf_counter() - began)
        assert min(seconds) < 0.03


def test_gives_up_when_patience_runs_out():
    service = hc.connect(f"http://127.0.0.1:{free_port()}", patience=0.4)
    began = time.monotonic()
    with pytest.raises(ServiceError, match=r"POST /controllers/a/ask failed at .*refused.*; gave up") as caught:
        service.controller("a").ask(0.5)
    assert 0.05 < time.monotonic() - began < 5.0
    assert caught.value.status is None


def test_no_patience_is_one_try():
    with pytest.raises(ServiceError, match="gave up"):
        hc.connect(f"http://127.0.0.1:{free_port()}", patience=0.0).controllers()


def test_a_connection_that_was_hung_up_while_idle_costs_no_patience(tmp_path):
    with served(tmp_path) as url, hc.connect(url, patience=0.0) as service:
        service.create(QUICK | {"id": "a"})
        (connection,) = service._sender._idle  # cut as a network cuts it
        connection.sock.shutdown(socket.SHUT_RDWR)  # as the server does after a few seconds
        assert service.controller("a").ask(0.5).round == 0


def test_a_server_that_does_not_answer_is_given_up_on():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with (
            hc.connect(address, patience=0.2, timeout=0.1) as service,
            pytest.raises(ServiceError, match="timed out; gave up"),
        ):
            service.controllers()


@pytest.mark.parametrize("status", [503, 507])
def test_what_may_pass_is_tried_again_and_then_said(status):
    """A full disk, or a controller that is being opened."""
    tries = []

    class Handler(Answering):
        def do_GET(self):
            tries.append(self.path)
            done = len(tries) > 2 and self.path == "/controllers"
            content = b'{"controllers": []}' if done else b'{"error": {"code": "x", "message": "not now"}}'
            self.answer(200 if done else status, content)

    with answering(Handler) as url:
        with hc.connect(url, patience=10.0) as service:
            assert service.controllers() == []
            assert len(tries) == 3
        with hc.connect(url, patience=0.3) as service:
            with pytest.raises(ServiceError, match="not now; gave up") as caught:
                service.controller("a").state()
            assert caught.value.status == status


# -- examples ----------------------------------------------------------------------------------------------------------


def turbine(url, hours, name="turbine-1"):
    command = [sys.executable, EXAMPLES / "turbine_over_http.py", "--url", url, "--hours", str(hours), "--name", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def bundled_energy(hours):
    """What staying at 150 m makes."""
    return paper_curve().power(bundled("test").onto([150.0]).speed)[:hours, 0]


def test_the_turbine_goes_on_where_it_was(url):
    assert "hour    24: at " in turbine(url, 24)
    assert "24 hours: " in turbine(url, 24)
    remote = hc.connect(url).controller("turbine-1")
    interrupted = remote.ask(24.0, key="hour-24")  # as if it had been stopped between question and answer
    again = turbine(url, 26)
    assert "26 hours: " in again
    rows = remote.decisions()
    estimated, true = map(int, re.findall(r"([+-]\d+) kWh", again))
    stayed = sum(bundled_energy(26))
    assert true == round(sum(row["measurement"] - row["movement"] for row in rows) - stayed)
    assert abs(estimated - true) < 30
    assert [row["round"] for row in rows] == list(range(26))
    assert rows[24]["decision"] == interrupted.id
    assert all(row["told_at"] is not None for row in rows)
    remote.service.close()


def test_the_turbine_gains_about_what_it_says_and_raises_no_alarm(url):
    said = turbine(url, 200, "turbine-2")
    estimated, true = map(int, re.findall(r"([+-]\d+) kWh", said))
    assert true > 100
    assert abs(estimated - true) < 100  # of 6900 made
    remote = hc.connect(url).controller("turbine-2")
    assert remote.service.request("GET", "/controllers/turbine-2/alarms")["alarms"] == []
    assert "720 past measurements" in remote.state()["explains_itself"]
    remote.service.close()


MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")


class Plant:
    """Speaks MQTT through a real broker, with the bridge at the other end."""

    def __init__(self, mqtt, port, controller):
        self.controller, self.heard = controller, []
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        self._client.on_message = lambda _, __, message: self.heard.append(
            (message.topic.rpartition("/")[2], json.loads(message.payload))
        )
        subscribed = threading.Event()
        self._client.on_subscribe = lambda *_: subscribed.set()
        self._client.connect("127.0.0.1", port)
        self._client.subscribe([(f"holdcourse/+/{what}", 1) for what in ("decision", "told", "error")])
        self._client.loop_start()
        assert subscribed.wait(30)

    def publish(self, what, said):
        content = said if isinstance(said, bytes) else json.dumps(said)
        self._client.publish(f"holdcourse/{self.controller}/{what}", content, 1)

    def says(self, what, said):
        """Publish, and wait for what comes back."""
        known = len(self.heard)
        self.publish(what, said)
        wait_for(lambda: len(self.heard) > known, f"an answer to {said}")
        return self.heard[known]

    def close(self):
        self._client.disconnect()
        self._client.loop_stop()


@pytest.fixture
def plant(url, remote, tmp_path):
    mqtt = pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    if MOSQUITTO is None:
        pytest.skip("there is no mosquitto broker")
    port, running = free_port(), []
    settings = tmp_path / "mosquitto.conf"
    settings.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    bridge = [sys.executable, EXAMPLES / "mqtt_bridge.py", "--port", str(port), "--service", url]

    def answers():
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def bridged():
        """What is published before the bridge subscribes is lost, so knock until it says that this is no tell."""
        plant.publish("tell", {})
        time.sleep(0.1)
        return bool(plant.heard)

    def quiet():
        return any("measurement" in said["error"] for _, said in plant.heard)

    try:
        running.append(subprocess.Popen([MOSQUITTO, "-c", settings], stderr=subprocess.DEVNULL))
        wait_for(answers, "the broker")
        plant = Plant(mqtt, port, remote.id)
        running.append(subprocess.Popen(bridge))
        wait_for(bridged, "the bridge")
        plant.publish("tell", {"decision": "r0"})
        wait_for(quiet, "the answers to all that knocking")
        plant.heard.clear()
        yield plant
        plant.close()
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(30)


def test_a_plant_that_speaks_mqtt(plant, remote):
    question = {"context": [0.5], "key": "2026-03-01T07"}
    what, decision = plant.says("ask", question)
    assert what == "decision"
    assert (decision["decision"], decision["key"], decision["act"]) == ("r0", question["key"], True)
    assert decision["setting"] in QUICK["actions"]
    assert plant.says("ask", question) == (what, decision)  # at least once means sometimes twice
    measured = {"decision": "r0", "measurement": 1.25}
    assert plant.says("tell", measured) == ("told", {"decision": "r0"})
    assert plant.says("tell", measured) == ("told", {"decision": "r0"})
    assert plant.says("ask", question) == (what, decision)
    assert [(row["round"], row["measurement"]) for row in remote.decisions()] == [(0, 1.25)]


def test_what_goes_wrong_is_said_over_mqtt_and_the_bridge_goes_on(plant):
    _, decision = plant.says("ask", {"context": 0.5, "key": "first"})
    plant.says("tell", {"decision": decision["decision"], "measurement": 1.0})
    for what, said, words in (
        ("tell", {"decision": decision["decision"], "measurement": 2.0}, "Conflict: "),
        ("tell", {"decision": decision["decision"]}, "KeyError: "),
        ("tell", {"decision": "r99", "measurement": 2.0}, "there is no decision 'r99'"),
        ("tell", b'{"decision": "r0", "measurement": NaN}', "InvalidInput: "),
        ("ask", {"context": "warm", "key": "k"}, "InvalidInput: "),
        ("ask", b"no json", "JSONDecodeError: "),
        ("ask", b"[]", "AttributeError: "),
        ("ask", b"\xff", "UnicodeDecodeError: "),
    ):
        topic, answer = plant.says(what, said)
        assert topic == "error"
        assert words in answer["error"]
    assert plant.says("ask", {"context": 0.5, "key": "next"})[0] == "decision"


# -- long work ---------------------------------------------------------------------------------------------------------

LONG = [[float(k % 4), k % 7 / 7, 1.0 + k % 4] for k in range(150)]


def test_a_long_history_is_followed_with_progress_and_the_controller_returned(service):
    said = []
    name = f"c{next(NUMBERS)}"
    remote = service.create(
        QUICK | {"id": name, "history": LONG}, progress=lambda share, words: said.append((share, words))
    )
    assert remote.id == name
    assert remote.state()["round"] == 0
    assert said[-1][0] == 1.0
    assert [share for share, _ in said] == sorted(share for share, _ in said)
    assert [job["state"] for job in service.jobs() if job["controller"] == name] == ["done"]
    with pytest.raises(InvalidInput, match=r"history=9\.0 is not a setting"):
        service.create(QUICK | {"id": f"{name}-b", "history": [*LONG, [9.0, 0.5, 1.0]]})
    with pytest.raises(Conflict, match=r"exists with other settings \(seed\)") as caught:
        service.create(QUICK | {"id": name, "history": LONG, "seed": 5})
    assert (caught.value.recorded, caught.value.given) == ({"seed": 3}, {"seed": 5})
    with pytest.raises(Conflict, match="can no longer be cancelled"):
        service.cancel(service.jobs()[-1]["id"])


def test_a_long_record_is_verified_and_a_trial_planned_from_afar(service):
    remote = service.create(QUICK | {"id": f"c{next(NUMBERS)}", "history": LONG})
    for t in range(60):
        remote.tell(remote.ask(t % 9 / 9).id, 1.0)
    assert "all 60 decisions" in remote.verify()["message"]
    assert "were not repeated" in remote.verify(full=False)["message"]
    plan = remote.plan_trial(gain=5, hours=1.0, blocks=[2], rehearsals=0, baseline=1.0)
    assert (plan["target_percent"], plan["baseline"], plan["block"]) == (5, 1.0, 2)


def test_a_job_that_the_end_of_the_service_cut_off_is_sent_again():
    keys = []
    over = {"id": "j1", "address": "/jobs/j1", "progress": 0.4, "words": "", "status": 503}

    class Handler(Answering):
        def do_POST(self):
            self.body()
            keys.append(self.headers["Idempotency-Key"])
            self._say(202, over | {"state": "running"}) if len(keys) < 3 else self._say(201, {"id": "mill"})

        def do_GET(self):
            self._say(200, over | {"state": "failed", "error": {"code": "interrupted", "message": "it stopped"}})

        def _say(self, status, said):
            self.answer(status, json.dumps(said).encode())

    with answering(Handler) as url, hc.connect(url, patience=5.0) as service:
        assert service.create({"id": "mill"}).id == "mill"
        assert len(set(keys)) == 3  # each time under a new key: the old one means the job that failed


# -- tables and alarms -------------------------------------------------------------------------------------------------


def test_rounds_are_exported_to_a_file(remote, tmp_path):
    for _ in range(3):
        remote.tell(remote.ask(0.5).id, 1.0)
    length = remote.export(tmp_path / "rounds.csv")
    text = (tmp_path / "rounds.csv").read_bytes()
    assert len(text) == length
    assert text.count(b"\n") == 4
    assert [path.name for path in tmp_path.iterdir()] == ["rounds.csv"]
    for wrong in (tmp_path / "nowhere" / "rounds.csv", tmp_path / "rounds.csv" / "rounds.csv"):
        before = time.monotonic()
        with pytest.raises(InvalidInput, match=r"cannot write .*rounds.csv: .*; choose another place"):
            remote.export(wrong)
        assert time.monotonic() - before < 5  # it is not the connection that failed
    with pytest.raises(InvalidInput, match="there is no controller 'nobody'"):
        remote.service.controller("nobody").export(tmp_path / "rounds.csv")
    assert (tmp_path / "rounds.csv").read_bytes() == text


def test_an_export_that_is_cut_off_leaves_no_half_file(tmp_path):
    """The service dies in the middle of a table, every time."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        for _ in range(2):
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nround\r\n")

    thread = threading.Thread(target=serve)
    thread.start()
    port = listener.getsockname()[1]
    with hc.connect(f"http://127.0.0.1:{port}", patience=0.15) as service, pytest.raises(ServiceError, match="gave up"):
        service.controller("a").export(tmp_path / "rounds.csv")
    thread.join()
    listener.close()
    assert list(tmp_path.iterdir()) == []


def test_an_alarm_is_acknowledged_and_the_trail_says_so(remote):
    for _ in range(10):
        remote.tell(remote.ask(0.5).id, 2.0)
    state = remote.acknowledge("sensor", "the probe is being changed")
    assert state["alarms"][0]["acknowledged"]["remark"] == "the probe is being changed"
    assert [deed["what"] for deed in remote.audit()] == ["acknowledge", "created"]


def test_the_command_line_exports_rounds(url, remote, tmp_path):
    remote.tell(remote.ask(0.5).id, 1.0)
    command = [sys.executable, "-c", "from holdcourse.cli import main; main()", "export", url, remote.id]
    done = subprocess.run([*command, str(tmp_path / "r.csv")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "bytes" in done.stdout
    assert (tmp_path / "r.csv").read_text().startswith("round,decision,epoch")


def test_an_export_from_nowhere_says_so_soon(tmp_path):
    url, began = f"http://127.0.0.1:{free_port()}", time.monotonic()
    command = [sys.executable, "-m", "holdcourse", "export", url, "mill", str(tmp_path / "r.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "gave up: check the address, and whether the service runs" in done.stderr
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (
            {"measurement": "abc"},
            "a measurement must be one number, got 'abc'; text, dates, True and False are not numbers",
        ),
        ({"measurement": "3"}, "a measurement must be one number, got '3'"),
        ({"measurement": True}, "a measurement must be one number, got True"),
        ({"measurement": 10**400}, "a measurement must be within plus and minus 1.8e308"),
        ({"measurement": 1.0, "reference": "x"}, "reference must be one number, got 'x'"),
        ({"measurement": None, "profile": 3}, "a profile is a pair of lists, heights and speeds, got 3"),
        ({"measurement": None, "profile": {"heights": [1.0]}}, "a profile is a pair of lists"),
    ],
)
def test_what_is_no_number_is_refused_before_it_is_sent(told, words):
    there = hc.connect(f"http://127.0.0.1:{free_port()}", patience=0).controller("mill")
    with pytest.raises(InvalidInput, match=re.escape(words)):
        there.tell("r0", **told)


def cut_off(port_of, sends):
    """Answers each connection with the next of some texts, and closes it."""
    listener = socket.create_server(("127.0.0.1", 0))
    port_of.append(listener.getsockname()[1])

    def serve():
        with listener:
            for content in sends:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(content)

    threading.Thread(target=serve, daemon=True).start()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("sent", [HEAD + b"x" * 5000, HEAD, CHUNKED + b"1388\r\n" + b"x" * 5000 + b"\r\n"])
def test_a_download_that_is_cut_off_leaves_no_file(tmp_path, sent):
    port = []
    cut_off(port, [sent])
    target = tmp_path / "mill.zip"
    target.write_bytes(b"the one of yesterday")
    service = hc.connect(f"http://127.0.0.1:{port[0]}", patience=0)
    with pytest.raises(ServiceError, match=r"GET /controllers/mill/backup failed at .*; gave up") as found:
        service.download("/controllers/mill/backup", target)
    if sent.startswith(HEAD):
        assert f"the connection was lost after {len(sent) - len(HEAD)} of 1000000 bytes" in str(found.value)
    assert [path.name for path in tmp_path.iterdir()] == ["mill.zip"]
    assert target.read_bytes() == b"the one of yesterday"


def test_a_download_that_is_cut_off_is_asked_for_again(tmp_path):
    port = []
    cut_off(port, [HEAD + b"x" * 5000, HEAD + b"x" * 1_000_000])
    service = hc.connect(f"http://127.0.0.1:{port[0]}", patience=5)
    assert service.download("/controllers/mill/backup", tmp_path / "mill.zip") == 1_000_000
    assert [path.name for path in tmp_path.iterdir()] == ["mill.zip"]
