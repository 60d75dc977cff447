"""Many clients at once, back-ups taken meanwhile, and a disk that runs full."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from service import running
from service.running import QUICK, Client, Process, served

pytestmark = pytest.mark.slow

ROUNDS_EACH = int(os.environ.get("HOLDCOURSE_LOAD_ROUNDS", "40"))
CONTEXTS = [[k / 8] for k in range(8)]
FLAT = {"options": QUICK["options"] | {"contexts": CONTEXTS, "context_bounds": None}}  # as quick after a year as now


@pytest.fixture
def server(tmp_path):
    with Process(tmp_path / "data") as server:
        yield server


def rounds_of(url, name, number, acknowledged=None):
    """Ask and tell; every answer must be a 200. Returns the rounds that this client was given."""
    rounds = []
    with Client(url) as client:
        for t in range(ROUNDS_EACH):
            decision = client.do(name, "ask", context=CONTEXTS[(number + t) % 8], key=f"{number}-{t}")
            client.do(name, "tell", decision=decision["decision"], measurement=1.0 + number + t / 100)
            rounds.append(decision["round"])
            if acknowledged is not None:
                acknowledged[decision["decision"]] = 1.0 + number + t / 100
    return rounds


def test_100_clients_on_100_controllers(server, record_property):
    def create(number):
        with Client(server.url) as client:
            client.create(id=f"c{number}", seed=number, **FLAT)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, range(100)))
    began = time.monotonic()
    with ThreadPoolExecutor(100) as pool:
        found = list(pool.map(lambda number: rounds_of(server.url, f"c{number}", number), range(100)))
    record_property("100 clients on 100 controllers", f"{100 * ROUNDS_EACH / (time.monotonic() - began):.0f} rounds/s")
    assert found == [list(range(ROUNDS_EACH))] * 100
    with Client(server.url) as client:
        assert all(summary["round"] == ROUNDS_EACH for summary in client.get("/controllers").json()["controllers"])
        for number in (0, 50, 99):
            rows = client.see(f"c{number}", "decisions", limit=1000)["decisions"]
            assert [row["measurement"] for row in rows] == [1.0 + number + t / 100 for t in range(ROUNDS_EACH)]
            assert client.see(f"c{number}", "verify", full=True)["ok"]


def test_32_clients_on_one_controller_and_back_ups_meanwhile(server, tmp_path, record_property):
    acknowledged, backups, ended = {}, [], threading.Event()

    def back_up():
        with Client(server.url) as client:
            while not ended.is_set():
                known = dict(acknowledged)  # answered before the copy was begun, so they must be in it
                response = client.get("/controllers/one/backup")
                assert response.status_code == 200, response.text
                backups.append((known, response.content))
                ended.wait(0.3)

    with Client(server.url) as client:
        client.create(id="one", max_pending=32, **FLAT)
    began = time.monotonic()
    with ThreadPoolExecutor(33) as pool:
        copying = pool.submit(back_up)
        driving = [pool.submit(rounds_of, server.url, "one", number, acknowledged) for number in range(32)]
        try:
            given = [number for future in driving for number in future.result()]
        finally:
            ended.set()
        copying.result()
    seconds = time.monotonic() - began
    assert sorted(given) == list(range(32 * ROUNDS_EACH))
    with Client(server.url) as client:
        assert client.see("one", "verify", full=True)["ok"]
        now = client.see("one", "state")
        assert (now["round"], now["rounds_told"], now["pending"]) == (32 * ROUNDS_EACH, 32 * ROUNDS_EACH, [])
    record_property(
        "32 clients on one controller", f"{len(given) / seconds:.0f} rounds/s, {len(backups)} back-ups meanwhile"
    )
    assert len(backups) >= 2
    for number in {len(backups) // 2, len(backups) - 1}:
        check_back_up(*backups[number], tmp_path / f"restored{number}")


def check_back_up(known, content, folder):
    with zipfile.ZipFile(io.BytesIO(content)) as copies:
        assert copies.testzip() is None
        copies.extractall(folder)
    with served(folder) as url, Client(url) as client:
        found = client.see("one", "verify", full=True)
        assert found["ok"], found["message"]
        state, rows, after = client.see("one", "state"), [], -1
        while page := client.see("one", "decisions", after=after, limit=1000)["decisions"]:
            rows, after = rows + page, page[-1]["round"]
        assert [row["round"] for row in rows] == list(range(state["round"]))
        told = {row["decision"]: row["measurement"] for row in rows if row["told_at"] is not None}
        assert known.items() <= told.items()
        for pending in state["pending"]:
            client.do("one", "tell", decision=pending["decision"], measurement=1.0)
        client.do("one", "ask", context=CONTEXTS[0], key="restored")


# -- a full disk -------------------------------------------------------------------------------------------------------

# A small disk that only the server sees, and that goes when it does. As any user, where the kernel lets users do so.
ON_A_SMALL_DISK = """#!/bin/sh
mounted='mount -t tmpfs -o size={size} tmpfs "{folder}" && exec {python} "$@"'
exec unshare --map-root-user --mount sh -c "$mounted" sh "$@"
"""


@contextmanager
def on_a_small_disk(folder, size, monkeypatch):
    """A server whose data folder is a disk of its own; yields it, and the folder as it sees it."""
    folder.mkdir()
    probe = ["unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True).returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    script = folder.with_name("python-on-a-small-disk")
    script.write_text(ON_A_SMALL_DISK.format(size=size, folder=folder, python=running.sys.executable))
    script.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(running.sys, "executable", str(script))
        server = Process(folder, fresh=True)
    with server:
        yield server, Path(f"/proc/{server.started.pid}/root{folder}")


def fill(disk):
    """Leave not a byte."""
    with suppress(OSError), (disk / "filler").open("ab", buffering=0) as file:
        for size in (2**16, 2**12, 1):
            with suppress(OSError):
                while True:
                    file.write(b"x" * size)


def test_a_full_disk_is_507_and_the_service_goes_on_when_there_is_room(tmp_path, monkeypatch):
    with on_a_small_disk(tmp_path / "data", "24m", monkeypatch) as (server, disk), Client(server.url) as client:
        for name in ("a", "b"):
            client.create(id=name, **FLAT)
        told = {"a": {}, "b": {}}
        for turn in range(5):
            for name, known in told.items():
                decision = client.round(name, CONTEXTS[turn], 1.0 + turn)
                known[decision["decision"]] = 1.0 + turn
            pending = client.do("a", "ask", context=CONTEXTS[turn], key=f"pending{turn}")
            fill(disk)
            until_full(client, "b", told["b"])
            before = {name: client.see(name, "state") for name in told}
            tell = {"decision": pending["decision"], "measurement": 9.0 + turn}
            for name, what, body in (
                ("a", "tell", tell),
                ("a", "mode", {"mode": "shadow"}),
                ("b", "override", {"setting_index": 1, "reason": "r" * 500}),
            ):
                written = client.post(f"/controllers/{name}/{what}", json=body)
                if written.status_code == 200:  # it fitted into a page that was there already
                    assert what == "tell"
                    continue
                refused(written)
            refused(client.post("/controllers", json=QUICK | {"id": f"new{turn}"}))
            assert client.get("/readyz").status_code == 503
            assert client.get("/healthz").status_code == 200
            assert client.see("b", "state") == before["b"]
            assert client.see("b", "decisions")["decisions"]
            (disk / "filler").unlink()
            assert client.get("/readyz").status_code == 200
            client.do("a", "tell", **tell)
            told["a"][tell["decision"]] = tell["measurement"]
            client.create(id=f"new{turn}", **FLAT)
            client.round(f"new{turn}", CONTEXTS[0], 1.0)
            for waiting in client.see("b", "state")["pending"]:
                client.do("b", "tell", decision=waiting["decision"], measurement=1.0)
                told["b"][waiting["decision"]] = 1.0
        for name, known in told.items():
            rows = client.see(name, "decisions", limit=1000)["decisions"]
            assert {row["decision"]: row["measurement"] for row in rows} == known
            assert client.see(name, "verify", full=True)["ok"]


def until_full(client, name, known):
    """Ask and tell until there is no room; what was answered with 200 is noted."""
    for t in range(2000):
        forecast = [CONTEXTS[(t + k) % 8] for k in range(200)]
        asked = client.post(f"/controllers/{name}/ask", json={"context": CONTEXTS[t % 8], "forecast": forecast})
        if asked.status_code != 200:
            return refused(asked)
        tell = {"decision": asked.json()["decision"], "measurement": 1.0}
        written = client.post(f"/controllers/{name}/tell", json=tell)
        if written.status_code != 200:
            return refused(written)
        known[tell["decision"]] = 1.0
    raise AssertionError("the disk is never full")


def refused(response):
    assert response.status_code == 507, response.text
    error = response.json()["error"]
    assert error["code"] == "disk_full"
    assert "make room" in error["message"]
