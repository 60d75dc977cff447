"""Killed, stopped, out of space, upgraded: what was answered stays true. Small counts; the full ones are in slow/."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from contextlib import closing

import httpx
import pytest
from service.running import Client, Process, served, wait_for

import holdcourse as hc
from holdcourse.errors import DamagedFile, InvalidInput
from holdcourse.service.core import data_folder as store_module
from holdcourse.service.core.data_folder import DataFolder


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data"


def test_everything_is_there_after_a_restart(folder):
    with served(folder) as url, Client(url) as client:
        client.create(id="a", max_pending=2, deadline_s=0.01, fallback_index=3, history_index=[[1, 0.5, 1.0]])
        for t in range(4):
            client.do("a", "ask", context=0.1 * t, key=f"ask{t}")
            client.do("a", "tell", decision=f"r{t}", measurement=1.0 + t, applied_index=t % 2, key=f"tell{t}")
        client.do("a", "mode", mode="advise", reason="trial")
        client.do("a", "override", setting_index=2, reason="look")
        pending = client.do("a", "ask", context=0.9, key="pending")
        wait_for(lambda: [a["kind"] for a in client.see("a", "state")["alarms"]] == ["stale"], "the alarm")
        before = [client.see("a", what) for what in ("state", "config", "decisions", "alarms", "field", "explain/r1")]
    with served(folder) as url, Client(url) as client:
        after = [client.see("a", what) for what in ("state", "config", "decisions", "alarms", "field", "explain/r1")]
        assert after == before
        assert client.do("a", "ask", context=0.9, key="pending") == pending
        assert client.do("a", "ask", context=0.9, round=4) == pending
        assert client.do("a", "ask", context=0.1, key="ask1")["decision"] == "r1"
        client.do("a", "ask", context=0.2, key="ask1", status=409)
        client.do("a", "tell", decision="r2", measurement=3.0, applied_index=0, key="tell2")
        client.do("a", "tell", decision="r2", measurement=3.5, applied_index=0, status=409)
        assert client.see("a", "verify")["ok"]


def test_silence_goes_on_after_a_restart(folder):
    with served(folder) as url, Client(url) as client:
        client.create(id="a", deadline_s=0.5)
        client.round("a", 0.5, 1.0)
        wait_for(lambda: client.see("a", "state")["alarms"], "the alarm")
        before = client.see("a", "state")
    with served(folder) as url, Client(url) as client:
        assert client.see("a", "state") == before
        assert before["status"] == "silent"
        time.sleep(1.0)  # the watchdog has nothing new to say
        assert len(client.see("a", "alarms")["alarms"]) == 1
        client.do("a", "ask", context=0.5)
        assert "silent" not in [alarm["kind"] for alarm in client.see("a", "state")["alarms"]]


@pytest.mark.skipif(os.name != "posix", reason="kills are those of POSIX")
def test_killed_at_random_moments(folder):
    kills, clients, rounds, seed = 2, 2, 10, 7  # tests/slow/test_service_kills.py kills it a thousand times
    chance, acknowledged = random.Random(seed), [{} for _ in range(clients)]
    address, finished = {"url": None}, threading.Event()

    def persist(send):
        while True:
            try:
                with Client(address["url"]) as client:
                    return send(client)
            except httpx.TransportError:
                finished.wait(0.05)

    def drive(number):
        name = f"machine{number}"
        for t in range(rounds):
            ask = persist(lambda c, t=t: c.do(name, "ask", context=t / rounds, key=f"ask{t}"))
            y = 1.0 + 0.1 * ((number + t) % 5)
            persist(
                lambda c, d=ask["decision"], y=y, t=t: c.do(name, "tell", decision=d, measurement=y, key=f"tell{t}")
            )
            acknowledged[number][ask["round"]] = (ask["action"], y)

    server = Process(folder)
    try:
        with Client(server.url) as client:
            for number in range(clients):
                client.create(id=f"machine{number}", seed=number)
        address["url"] = server.url
        port = int(server.url.rpartition(":")[2])
        threads = [threading.Thread(target=drive, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        for _ in range(kills):
            finished.wait(chance.uniform(0.02, 0.2))
            server.kill()
            server = Process(folder, port=port)
        for thread in threads:
            thread.join()
        with Client(server.url) as client:
            for number, known in enumerate(acknowledged):
                rows = client.see(f"machine{number}", "decisions", limit=1000)["decisions"]
                assert {row["round"]: (row["action"], row["measurement"]) for row in rows} == known
                assert client.see(f"machine{number}", "verify", full=True)["ok"]
                assert [known[t][0] for t in range(rounds)] == _undisturbed(number, rounds)
    finally:
        finished.set()
        server.kill()


def _undisturbed(number, rounds):
    from service.running import KERNEL, QUICK

    problem = hc.Problem(QUICK["actions"], scale=0.1)
    policy = hc.gp_md(problem, kernel=KERNEL, noise_std=0.1, context_bounds=[[0.0, 1.0]])
    controller, actions = hc.Controller(policy, seed=number), []
    for t in range(rounds):
        decision = controller.ask(t / rounds)
        controller.tell(decision.id, 1.0 + 0.1 * ((number + t) % 5))
        actions.append(decision.action)
    return actions


def test_stopped_by_a_service_manager_while_somebody_watches(folder):
    with Process(folder, fresh=True) as server, Client(server.url) as client:
        client.create(id="a")
        with client.stream("GET", "/events") as stream:
            lines = stream.iter_lines()
            next(lines)
            server.started.terminate()
            assert list(lines) == [""]
        code, errors = server.stop()
        assert (code, errors) in ((0, ""), (-15, ""))


def test_a_full_disk_is_507_and_it_goes_on_when_there_is_room(folder, caplog):
    with served(folder) as url, Client(url) as client:
        client.create(id="a")
        client.round("a", 0.5, 1.0)
        before = client.see("a", "state")
        with closing(sqlite3.connect(folder / "controllers" / "a" / "epoch-0001.db")) as reader, reader:
            pages = reader.execute("PRAGMA page_count").fetchone()[0]
        reader.close()
        hosted = _hosted(folder)
        # A full disk, without filling one.
        hosted.controller.log._storage._connection.execute(f"PRAGMA max_page_count = {pages}")
        for t in range(200):
            question = {"context": 0.5, "round": t + 1, "forecast": [0.1 * t] * 300}
            response = client.post("/controllers/a/ask", json=question)
            if response.status_code == 507:
                break
            assert response.status_code == 200
            decision = response.json()["decision"]
            told = client.post("/controllers/a/tell", json={"decision": decision, "measurement": 1.0})
            before = client.see("a", "state")
            if told.status_code == 507:
                response = told
                break
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (507, "disk_full")
        assert "507, the disk is full: cannot write to" in caplog.text
        assert "make room" in error["message"]
        assert client.see("a", "state") == before
        # Only the connection that writes can be given room again.
        hosted.controller.log._storage._connection.execute("PRAGMA max_page_count = 1000000")
        if before["pending"]:
            client.do("a", "tell", decision=before["pending"][0]["decision"], measurement=1.0)
        client.round("a", 0.5, 1.0)
        assert client.see("a", "verify", full=True)["ok"]


def _hosted(folder):
    import gc

    from holdcourse.service.core.hosted import Hosted

    there = [found for found in gc.get_objects() if type(found) is Hosted]  # isinstance would wake proxies of others
    return next(
        found for found in there if found.records.path(found.epoch).is_relative_to(folder)
    )  # not one of an earlier test


def test_creating_on_a_full_disk_leaves_nothing_behind(folder, monkeypatch):
    with served(folder) as url, Client(url) as client:

        def full(*arguments):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(store_module.os, "link", full)
            assert client.create(id="a", status=507)["code"] == "disk_full"
        assert client.get("/controllers").json() == {"controllers": []}
        client.do("a", "ask", context=0.5, status=404)
        client.create(id="a")
        client.round("a", 0.5, 1.0)


def test_half_made_records_are_cleared_away(folder):
    with served(folder) as url, Client(url) as client:
        client.create(id="a")
    left = folder / "controllers" / "b" / ".new-epoch-0001.db"
    left.parent.mkdir()
    left.write_bytes(b"half")
    with served(folder) as url, Client(url) as client:
        assert [row["id"] for row in client.get("/controllers").json()["controllers"]] == ["a"]
        assert not left.exists()
        client.create(id="b")


def test_a_newer_format_is_refused(folder):
    folder.mkdir()
    (folder / "holdcourse.json").write_text('{"format": 2}')
    with pytest.raises(InvalidInput, match="format 2, but this version of holdcourse reads formats up to 1"):
        DataFolder(folder)
    (folder / "holdcourse.json").write_text("{")
    with pytest.raises(DamagedFile, match="is damaged"):
        DataFolder(folder)


def test_an_older_format_is_refused(folder):
    DataFolder(folder).close()
    (folder / "holdcourse.json").write_text('{"format": 0}')
    with pytest.raises(InvalidInput, match="has format 0, which this version of holdcourse no longer reads"):
        DataFolder(folder)


def test_epochs_are_in_the_order_of_their_numbers(folder):
    store = DataFolder(folder)
    records = store.folder("a")
    records.mkdir()
    for number in (9999, 10000, 2):
        (records / f"epoch-{number:04d}.db").touch()
    assert [path.name for path in store.epochs("a")] == ["epoch-0002.db", "epoch-9999.db", "epoch-10000.db"]
    store.close()


def test_a_folder_belongs_to_one_server(folder):
    first = DataFolder(folder)
    with pytest.raises(InvalidInput, match="another server uses"):
        DataFolder(folder)
    first.close()
    DataFolder(folder).close()


def test_a_damaged_record_is_broken_and_the_others_run(folder):
    with served(folder) as url, Client(url) as client:
        for name in ("bad", "good"):
            client.create(id=name)
            client.round(name, 0.5, 1.0)
    path = folder / "controllers" / "bad" / "epoch-0001.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE events SET body = replace(body, '1.0', '2.0') WHERE kind = 'tell'")
    connection.close()
    with served(folder) as url, Client(url) as client:
        for what in ("state", "decisions", "field"):
            assert client.see("bad", what, status=503)["code"] == "broken"
        found = client.see("bad", "verify")
        assert not found["ok"]
        assert "damaged at event" in found["message"]
        client.create(id="bad", status=503)
        client.round("good", 0.5, 1.0)
        assert 'holdcourse_broken{controller="bad"} 1' in client.get("/metrics").text
