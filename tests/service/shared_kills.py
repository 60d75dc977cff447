"""Servers over one database that are killed at random moments, while clients go from one to the next."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from contextlib import suppress

import httpx
from service.running import KERNEL, QUICK, Client

import holdcourse as hc
from holdcourse.deciding import recipe
from holdcourse.running.log import Log
from holdcourse.running.storage import located

MACHINES = 3
PAUSE_S = 0.05
SMALL_S = 10.0  # what a take-over may take beyond the lease, on a machine that is busy with other tests


def measurement_of(number, t):
    return 1.0 + 0.1 * ((number + t) % 5)


# It forks servers, so that nothing is imported or compiled anew: a line on its input is what the next one is given.
FORKING = """
import os, signal, sys
import uvicorn
import holdcourse as hc
import holdcourse.service.http.app, holdcourse.service.core.shared_store
from holdcourse.cli import main
from holdcourse.deciding import recipe
from holdcourse.running import controller, operation
import json

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
operation.SNAPSHOT_EVERY = 12
warm = controller.Controller(recipe.make(json.loads(sys.argv[1])))
for _ in range(2):
    warm.tell(warm.ask([0.5]).id, 1.0)
for line in sys.stdin:
    sys.argv = ["holdcourse", "serve", *line.split()]
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            main()
        finally:
            print("ended", flush=True)
            os._exit(1)
    print(f"child {child}", flush=True)
"""


def quiet_controller(seed):
    """What a machine is compared with."""
    problem = hc.Problem(QUICK["actions"], scale=0.1)
    policy = hc.gp_md(problem, kernel=KERNEL, noise_std=0.1, context_bounds=[[0.0, 1.0]])
    return hc.Controller(policy, seed=seed)


class Forking:
    """A process that has everything imported and compiled, and forks servers."""

    def __init__(self):
        made = json.dumps(recipe.describe(quiet_controller(0).policy))
        command = [sys.executable, "-c", FORKING, made]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def fork(self, *options):
        """Start a server; returns its process and its address once it listens."""
        self._process.stdin.write(f"{' '.join(options)}\n")
        self._process.stdin.flush()
        lines = sorted(self._process.stdout.readline() for _ in range(2))  # they come in either order
        assert lines[0].startswith("child"), lines
        found = re.search(r"http://\S+", lines[1])
        assert found is not None, f"no server came up: {lines}"
        return int(lines[0].split()[1]), found[0]

    def close(self):
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


class Servers:
    """Some servers over one database; another can be started in place of one that was killed."""

    def __init__(self, forking, database, count, lease):
        self._forking, self._options = forking, ("--database", database, "--lease", str(lease))
        self.pids, self.urls = [0] * count, [""] * count
        for number in range(count):
            self.start(number)

    def start(self, number, port="0"):
        """Start one, and wait until it listens; the port that it had may be somebody else's by now."""
        self.pids[number], self.urls[number] = self._forking.fork(*self._options, "--port", port)

    def kill(self, number):
        """Kill one; returns when that was."""
        os.kill(self.pids[number], signal.SIGKILL)
        at = time.monotonic()
        with suppress(ProcessLookupError):
            while True:  # until its port is free
                os.kill(self.pids[number], 0)
                time.sleep(0.005)
        self.pids[number] = 0
        return at

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for number, pid in enumerate(self.pids):
            if pid:
                self.kill(number)


class Machine:
    """A program beside a plant that asks whichever server is next; it writes down what it was answered, and when."""

    def __init__(self, number, urls, ended):
        self.number, self.name, self._urls, self._ended = number, f"machine{number}", urls, ended
        self.known, self.answered, self.trouble, self._next = {}, [], None, number
        self.thread = threading.Thread(target=self._live)

    def _live(self):
        try:
            t = 0
            with httpx.Client(timeout=10.0, trust_env=False) as self._client:
                while not self._ended.is_set():
                    asked = self._send("ask", f"ask{t}", {"context": t % 10 / 10})
                    assert asked["round"] == t, f"round {t} was answered as {asked['round']}"
                    y = measurement_of(self.number, t)
                    self._send("tell", f"tell{t}", {"decision": asked["decision"], "measurement": y})
                    self.known[t] = (asked["action"], asked["probabilities"], y)
                    t += 1
                    time.sleep(PAUSE_S)
        except BaseException as error:
            self.trouble = error

    def _send(self, what, key, body):
        while True:
            self._next += 1
            url = self._urls[self._next % len(self._urls)]
            try:
                answer = self._client.post(
                    f"{url}/controllers/{self.name}/{what}", json=body, headers={"Idempotency-Key": key}
                )
            except httpx.TransportError:
                time.sleep(PAUSE_S)
                continue
            if answer.status_code == 200:
                self.answered.append(time.monotonic())
                return answer.json()
            assert answer.status_code in (429, 503), answer.text
            time.sleep(PAUSE_S)


def killed_and_taken_over(forking, database, *, kills, servers, lease, seed):
    """Kill servers while machines ask and tell; check everything, and say how long take-overs took."""
    chance, ended, took = random.Random(seed), threading.Event(), []
    with Servers(forking, database, servers, lease) as running:
        with Client(running.urls[0]) as client:
            for number in range(MACHINES):
                client.create(id=f"machine{number}", seed=number)
        machines = [Machine(number, running.urls, ended) for number in range(MACHINES)]
        try:
            for machine in machines:
                machine.thread.start()
            for _ in range(kills):
                time.sleep(chance.uniform(0.1, lease))
                which = chance.randrange(servers)
                held = held_by(running.urls[which], database)
                at = running.kill(which)
                took += [first_answer(machine, at) - at for machine in machines if machine.name in held]
                running.start(which)
        finally:
            ended.set()
            for machine in machines:
                machine.thread.join()
        for machine in machines:
            if machine.trouble is not None:
                raise machine.trouble
        rounds = [check(machine, database) for machine in machines]
    assert took, "no server was killed that held a controller"
    assert max(took) < lease + SMALL_S, f"a take-over took {max(took):.1f} s"
    return (
        f"{kills} kills, {len(took)} take-overs: median {statistics.median(took):.2f} s, longest {max(took):.2f} s, "
        f"lease {lease:g} s; {sum(rounds)} rounds"
    )


def held_by(url, database):
    import psycopg

    with psycopg.connect(database) as connection:
        found = connection.execute(
            "SELECT c.id FROM holdcourse.controllers c JOIN holdcourse.members m ON m.id = c.holder "
            "WHERE m.address = %s AND m.expires > now()",
            (url,),
        )
        return {name for (name,) in found}


def first_answer(machine, since, seconds=60.0):
    """When a machine was first answered after a moment."""
    until = time.monotonic() + seconds
    while machine.trouble is None and time.monotonic() < until:
        if machine.answered and machine.answered[-1] > since:
            return next(at for at in machine.answered if at > since)
        time.sleep(0.01)
    raise AssertionError(f"{machine.name} was not answered for {seconds} s: {machine.trouble}")


def check(machine, database):
    """All that was acknowledged is in the record, once, and decided as in a run that nobody disturbed."""
    log = Log.read(located(f"{database}#{machine.name}"))
    events = list(log.events())
    log.close()
    asks = [event.body for event in events if event.kind == "ask"]
    tells = {event.body.id: event.body.measurement for event in events if event.kind == "tell"}
    assert [ask.round for ask in asks] == list(range(len(asks))), "a round was decided twice"
    assert len(tells) == sum(event.kind == "tell" for event in events), "a round was told twice"
    for t, (action, _, y) in machine.known.items():
        assert asks[t].action == action
        assert tells[f"r{t}"] == y, "an acknowledged tell is lost"
    quiet = quiet_controller(machine.number)
    for t, (action, probabilities, y) in machine.known.items():
        decision = quiet.ask(t % 10 / 10)
        assert (decision.action, decision.probabilities.tolist()) == (action, probabilities), "not as undisturbed"
        quiet.tell(decision.id, y)
    found = hc.audit.verify(f"{database}#{machine.name}")
    assert found.verified, found.differences
    return len(machine.known)
