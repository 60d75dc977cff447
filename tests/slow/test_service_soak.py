"""A controller that runs for years: the last rounds are as quick as the first, and memory does not grow.

The machine may be busier at the end than it was at the start, so the last rounds also take turns with the first rounds
of another controller of the same kind. Both comparisons must hold.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from service.running import KERNEL, Client, Process

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc"),
]

SHARE = float(os.environ.get("HOLDCOURSE_SOAK_SHARE", "1.0"))  # of the full counts
BLOCK = max(int(500 * SHARE), 20)  # rounds; the 99th percentile of each is taken, and the median of ten of them
GROWTH = 16.0  # MiB that the process may grow by after the first tenth: page caches and fragments
ACTIONS = [float(k) for k in range(12)]
CONTEXTS = [[float(k)] for k in range(24)]
KNOWN = {"kernel": KERNEL.to_json(), "noise_std": 0.2, "contexts": CONTEXTS}
KINDS = {
    "known kernel": ({"policy": "gp-md", "options": KNOWN}, 100_000),
    "recommended": ({"policy": "recommended", "options": {"period": 24.0}}, 10_000),
}


def cost(t, action, chance):
    """Of a day that repeats, with noise."""
    return 0.05 * (action - 6.0 - 5.0 * np.sin(t * np.pi / 12)) ** 2 + chance.gauss(0.0, 0.2)


def history(rounds=240):
    chance = random.Random(1)
    acted = [chance.randrange(len(ACTIONS)) for _ in range(rounds)]
    return [[action, float(t % 24), cost(t, action, chance)] for t, action in enumerate(acted)]


class Wire:
    """One connection that stays open."""

    def __init__(self, url, name):
        address = urlsplit(url)
        self._connection = http.client.HTTPConnection(address.hostname, address.port, timeout=120)
        self._name = name

    def post(self, what, body):
        content = json.dumps(body).encode()
        self._connection.request(
            "POST", f"/controllers/{self._name}/{what}", content, {"Content-Type": "application/json"}
        )
        reply = self._connection.getresponse()
        answer = reply.read()
        assert reply.status == 200, answer
        return json.loads(answer)

    def close(self):
        self._connection.close()


def resident(pid):
    """MiB of memory that a process holds."""
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def p99(seconds):
    """Median over blocks of the 99th percentile: one bad moment of the machine does not count."""
    return float(np.median(np.percentile(seconds.reshape(-1, BLOCK), 99, axis=1)))


class Driven:
    """A controller under way."""

    def __init__(self, server, name, settings):
        config = {"id": name, "actions": ACTIONS, "scale": 0.1, "history_index": history(), **settings}
        with Client(server.url) as client:
            client.timeout = 600.0
            client.create(**config)
        self._chance, self._seconds = random.Random(0), []
        self.wire = Wire(server.url, name)

    def round(self):
        t = len(self._seconds)
        began = time.perf_counter()
        decision = self.wire.post("ask", {"context": [float(t % 24)], "round": t})
        self._seconds.append(time.perf_counter() - began)
        measurement = cost(t, decision["action"], self._chance)
        self.wire.post("tell", {"decision": decision["decision"], "measurement": measurement})

    def seconds(self, begin, end):
        return np.array(self._seconds[begin:end])


@pytest.mark.parametrize("kind", KINDS)
def test_as_quick_and_as_small_after_years(kind, tmp_path, record_property):
    settings, full = KINDS[kind]
    window = 10 * BLOCK  # rounds that are compared
    skipped = 4 * BLOCK  # the first ones compile and fill caches
    rounds = max(int(full * SHARE) // BLOCK * BLOCK, 3 * window)
    memory = {}
    with Process(tmp_path, fresh=True) as server:
        old, young = Driven(server, "old", settings), Driven(server, "young", settings)
        for _ in range(skipped):
            young.round()
        young.wire.close()  # the server would while it is idle; it opens again by itself
        began = time.monotonic()
        for t in range(rounds):
            old.round()
            if t >= rounds - window:
                young.round()
            if t in (rounds // 10, rounds - 1):
                memory[t] = resident(server.started.pid)
        took = time.monotonic() - began
        for driven in (old, young):
            driven.wire.close()
        with Client(server.url) as client:
            state = client.see("old", "state")
            assert (state["round"], state["rounds_told"]) == (rounds, rounds)
            client.timeout = 600.0
            assert client.see("old", "verify", full=False)["ok"]
            assert client.see("old", "explain/r1")["words"]
    first, last = p99(old.seconds(skipped, skipped + window)), p99(old.seconds(rounds - window, rounds))
    beside = p99(young.seconds(skipped, skipped + window))
    early, late = memory.values()
    record_property(
        f"soak of {kind}, {rounds:,} rounds in {took:.0f} s",
        f"p99 of ask {first * 1e3:.2f} ms at the start, {last * 1e3:.2f} ms at the end, {beside * 1e3:.2f} ms of a new "
        f"controller beside it; memory {early:.0f} MiB after a tenth, {late:.0f} MiB at the end",
    )
    assert last <= 1.5 * first
    assert last <= 1.5 * beside
    assert late - early <= GROWTH
