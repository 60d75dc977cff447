"""The server killed with SIGKILL at random moments while eight clients ask and tell through it.

Six of the clients are comparable with a run that nobody disturbed: what they ask and measure is a function of the
round. Four of them have a controller each, of four kinds, and two are twins that ask and tell the same, as a plant with
a spare program does. The last two share a controller, with two decisions pending; whose turn came first is chance, so
theirs is compared with a controller that is asked and told in the order of the record.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import httpx
import pytest
from service.running import KERNEL

import holdcourse as hc
from holdcourse.deciding import recipe
from holdcourse.running.log import Log

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="kills are those of POSIX"),
]

KILLS = int(os.environ.get("HOLDCOURSE_KILLS", "100"))
KILLS_OF_A_FOLDER = 50  # opening takes longer as records grow
LONGEST_LIFE = 0.6  # seconds, from the moment at which the server is ready
EARLY = 0.15  # how many servers are killed while they open the records
ACTIONS, CONTEXTS, NOISE, SCALE = [0.0, 1.0, 2.0, 3.0, 4.0], [[k / 8] for k in range(8)], 0.1, 0.1
LEARNING = {"noise_std": NOISE, "contexts": CONTEXTS}
PROBLEM = hc.Problem(ACTIONS, scale=SCALE)

# Policy, its options, limits, and how many decisions may be pending.
KINDS = {
    "mirror": ("gp-md", {}, {}, 1),
    "planner": ("planner", {}, {}, 1),
    "proximal": ("proximal-lcb", {"weight": 2.0}, {}, 1),
    "limited": ("gp-md", {}, {"min_dwell": 2, "max_step_cost": 0.25}, 1),
    "twins": ("gp-md", {}, {}, 1),
    "shared": ("gp-md", {}, {}, 2),
}
CLIENTS = ["mirror", "planner", "proximal", "limited", "twins", "twins", "shared", "shared"]

# It forks one server after the other, so that nothing is imported or compiled anew: a line on its input is a life.
FORKING = """
import json, os, sys
import uvicorn
import holdcourse.service.http.app
from holdcourse.deciding import recipe
from holdcourse.running import controller, operation
from holdcourse.cli import main

operation.SNAPSHOT_EVERY = 12
for made in sys.argv[3:]:
    warm = controller.Controller(recipe.make(json.loads(made)))
    for _ in range(2):
        warm.tell(warm.ask([0.5]).id, 1.0)
sys.argv = ["holdcourse", "serve", "--data", sys.argv[1], "--port", sys.argv[2]]
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        main()
        os._exit(1)
    print(child, flush=True)
    _, status = os.waitpid(child, 0)
    print("killed" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == 9 else f"ended with {status}", flush=True)
"""


def config(name):
    policy, options, limits, pending = KINDS[name]
    learning = LEARNING | {"kernel": KERNEL.to_json()}
    settings = {"actions": ACTIONS, "scale": SCALE, "seed": 11, "policy": policy, "options": learning | options}
    return settings | {"id": name, "limits": limits, "max_pending": pending, "start_index": 2}


def undisturbed(name):
    """The same controller in this process."""
    policy, options, limits, pending = KINDS[name]
    if policy == "planner" and limits.get("max_step_cost") is not None:
        options = options | {"max_step_cost": limits["max_step_cost"]}
    made = hc.registry.entry_of(policy).maker()(PROBLEM, kernel=KERNEL, **LEARNING, **options)
    return hc.Controller(made, start_index=2, seed=11, limits=hc.Limits(**limits), max_pending=pending)


def context_of(t):
    return CONTEXTS[t * t % 7 % 8]


def measurement_of(t, action):
    return round(abs(action - (t // 5) % 5) * 0.5 + (t * 37 % 11) * 0.03, 6)


class Machine:
    """A program beside a plant, with the client's retries, which writes down what it was answered."""

    def __init__(self, name, url, ended):
        self.name, self._ended = name, ended
        self.asked, self.told = {}, {}
        self.trouble = None
        self.service = hc.connect(url, patience=300.0)
        self.thread = threading.Thread(target=self._live)

    def _live(self):
        try:
            remote, t = self.service.controller(self.name), 0
            while not self._ended.is_set():
                self._round(remote, t)
                t += 1
        except BaseException as error:
            self.trouble = error
        finally:
            self.service.close()

    def _round(self, remote, t):
        decision = remote.ask(context_of(t), round=t if self.name == "twins" else None)
        assert decision.round not in self.asked, f"{decision.round} was decided twice"
        if self.name != "shared":
            assert decision.round == t
        self.asked[decision.round] = (decision.action, decision.probabilities.tolist())
        y = measurement_of(decision.round, decision.action)
        remote.tell(decision.id, y)
        self.told[decision.round] = y


class Lives:
    """Servers on one port, one after the other, each killed."""

    def __init__(self, folder, port):
        self._folder, self.url, self.pid = folder, f"http://127.0.0.1:{port}", None
        recipes = [json.dumps(recipe.describe(undisturbed(name).policy)) for name in KINDS]
        command = [sys.executable, "-c", FORKING, str(folder), str(port), *recipes]
        self._forking = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def begin(self):
        self._forking.stdin.write("live\n")
        self._forking.stdin.flush()
        for _ in range(2):  # in either order: which child it is, and that it listens
            line = self._forking.stdout.readline().strip()
            if line.isdecimal():
                self.pid = int(line)
                return
        raise AssertionError(f"no server came up: {line}")

    def wait_until_ready(self, seconds=60.0):
        until = time.monotonic() + seconds
        with httpx.Client(base_url=self.url, trust_env=False) as client:
            while True:
                try:
                    if client.get("/readyz").status_code == 200:
                        return
                except httpx.TransportError:
                    pass
                assert time.monotonic() < until, "the server does not become ready"
                time.sleep(0.01)

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        for line in self._forking.stdout:
            if not line.startswith("serving "):
                assert line.strip() == "killed", line
                break
        self.pid = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
        self._forking.stdin.close()
        self._forking.wait(30)
        self._forking.stdout.close()


class Onlooker:
    """Somebody who copies the records from another process, again and again, and looks at the copies."""

    def __init__(self, folder, machines, ended):
        self._folder, self._machines, self._ended = folder, machines, ended
        self.copies, self.trouble = 0, None
        self.thread = threading.Thread(target=self._live)

    def _live(self):
        try:
            while not self._ended.is_set():
                for name in KINDS:
                    self._look(name)
                self._ended.wait(0.2)
        except BaseException as error:
            self.trouble = error

    def _look(self, name):
        told = {t for machine in self._machines if machine.name == name for t in list(machine.told)}
        copy = self._folder.with_name(f"{name}-{self.copies}.db")
        hc.audit.backup(self._folder / "controllers" / name / "epoch-0001.db", copy)
        log = Log.read(copy)
        found = {event.body.id for event in log.events() if event.kind == "tell"}
        log.close()
        assert {f"r{t}" for t in told} <= found, "a copy lacks what was acknowledged before it was begun"
        for file in copy.parent.glob(f"{copy.name}*"):
            file.unlink()
        self.copies += 1


@pytest.mark.parametrize("seed", range(1, max(KILLS // KILLS_OF_A_FOLDER, 1) + 1))
def test_killed_at_random_moments(seed, tmp_path, unused_port, record_property):
    kills, chance, ended = min(KILLS, KILLS_OF_A_FOLDER), random.Random(seed), threading.Event()
    (tmp_path := tmp_path / "data").mkdir()
    with Lives(tmp_path, unused_port) as lives:
        lives.begin()
        lives.wait_until_ready()
        with hc.connect(lives.url) as service:
            for name in KINDS:
                service.create(config(name))
        machines = [Machine(name, lives.url, ended) for name in CLIENTS]
        onlooker = Onlooker(tmp_path, machines, ended)
        everybody = [*machines, onlooker]
        began = time.monotonic()
        try:
            for one in everybody:
                one.thread.start()
            early = 0
            for _ in range(kills):
                if chance.random() < EARLY:
                    early += 1
                    time.sleep(chance.uniform(0.0, 0.15))
                else:
                    lives.wait_until_ready()
                    time.sleep(chance.uniform(0.0, LONGEST_LIFE))
                lives.end()
                lives.begin()
        finally:
            ended.set()
            for one in everybody:
                one.thread.join()
        seconds = time.monotonic() - began
        for one in everybody:
            if one.trouble is not None:
                raise one.trouble
        lives.wait_until_ready()
        with hc.connect(lives.url, timeout=300.0) as service:
            rounds = {name: check(service.controller(name), machines, tmp_path) for name in KINDS}
    record_property(
        f"seed {seed}: server killed {kills} times in {seconds:.0f} s, {early} of them while it opened the records",
        f"{onlooker.copies} copies; " + ", ".join(f"{name} {count} rounds" for name, count in rounds.items()),
    )
    assert min(rounds.values()) >= kills / 4
    assert onlooker.copies >= kills / 4


@pytest.fixture
def unused_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def check(remote, machines, folder):
    """What clients were told is in the record, once; it verifies; and the decisions are those of a quiet run."""
    mine = [machine for machine in machines if machine.name == remote.id]
    rows = [row for page in pages(remote) for row in page]
    count = len(rows)
    assert [row["round"] for row in rows] == list(range(count))
    recorded = {row["round"]: (row["action"], row["measurement"]) for row in rows}
    for machine in mine:
        for t, (action, _) in machine.asked.items():
            assert recorded[t][0] == action
        for t, y in machine.told.items():
            assert recorded[t][1] == y, "an acknowledged tell is lost"
    assert set().union(*(machine.asked for machine in mine)) == set(recorded)
    if remote.id == "shared":
        one, other = mine
        assert not set(one.asked) & set(other.asked), "a round was given to two clients"
    found = remote.verify(full=True)
    assert found["ok"], found["message"]
    (path,) = (folder / "controllers" / remote.id).glob("epoch-*.db")
    log = Log.read(path)
    events = [event for event in log.events() if event.kind in ("ask", "tell")]
    log.close()
    asks = [event.body.round for event in events if event.kind == "ask"]
    assert asks == list(range(count)), "a round was decided twice"
    tells = [event.body.id for event in events if event.kind == "tell"]
    assert sorted(tells) == sorted(f"r{t}" for t in range(count)), "a round was told twice"
    answered = {t: said for machine in mine for t, said in machine.asked.items()}
    if remote.id == "shared":
        assert asked_and_told_again(events) == answered
    else:
        assert a_quiet_run(remote.id, count) == answered
    return count


def pages(remote):
    after = -1
    while page := remote.decisions(after=after, limit=1000):
        after = page[-1]["round"]
        yield page


def a_quiet_run(name, rounds):
    """What the same controller decides when nobody disturbs it."""
    controller, decided = undisturbed(name), {}
    for t in range(rounds):
        decision = controller.ask(context_of(t))
        controller.tell(decision.id, measurement_of(t, decision.action))
        decided[t] = (decision.action, decision.probabilities.tolist())
    return decided


def asked_and_told_again(events):
    """What the same controller decides when it is asked and told in the order of the record."""
    controller, decided = undisturbed("shared"), {}
    for event in events:
        if event.kind == "ask":
            decision = controller.ask(event.body.request.context, round=event.body.round)
            decided[decision.round] = (decision.action, decision.probabilities.tolist())
        else:
            t = int(event.body.id[1:])
            controller.tell(event.body.id, measurement_of(t, decided[t][0]))
    return decided
