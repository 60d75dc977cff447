"""Many clients and many controllers at once: nothing is lost, nothing waits for others."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from service.running import Client

from holdcourse.service.core.hosted import Hosted


def test_many_clients_on_one_controller_get_rounds_of_their_own(client, url, name):
    client.create(id=name, max_pending=16)

    def drive(number):
        with Client(url) as own:
            rounds = []
            for t in range(3):
                asked = own.do(name, "ask", context=0.05 * number, key=f"{number}-{t}")
                assert own.do(name, "ask", context=0.05 * number, key=f"{number}-{t}") == asked
                own.do(name, "tell", decision=asked["decision"], measurement=1.0)
                rounds.append(asked["round"])
            return rounds

    with ThreadPoolExecutor(16) as pool:
        rounds = [number for found in pool.map(drive, range(16)) for number in found]
    assert sorted(rounds) == list(range(48))
    assert client.see(name, "verify", full=True)["ok"]


def test_many_controllers(client, url, name):
    def drive(number):
        with Client(url) as own:
            own.create(id=f"{name}-{number}", policy="stationary", options={})
            for t in range(3):
                own.round(f"{name}-{number}", 0.1 * t, 1.0)
            return own.see(f"{name}-{number}", "state")["rounds_told"]

    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(drive, range(20))) == [3] * 20


def test_the_same_controller_created_at_once_is_made_once(url, name):
    def create(_):
        with Client(url) as own:
            return own.post(
                "/controllers", json={"id": name, "actions": [0.0, 1.0], "policy": "stationary"}
            ).status_code

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(create, range(8))) == [200] * 7 + [201]


def test_a_slow_controller_keeps_nobody_else_waiting(client, url, name, monkeypatch):
    client.create(id=f"{name}-slow", max_pending=100)
    client.create(id=f"{name}-quick")
    asking, free = Hosted.ask, threading.Event()

    def slow(hosted, *arguments):
        if hosted.id.endswith("-slow"):
            free.wait(20)
        return asking(hosted, *arguments)

    monkeypatch.setattr(Hosted, "ask", slow)

    def ask(number):
        with Client(url) as own:
            return own.do(f"{name}-slow", "ask", context=0.5, key=f"k{number}")["round"]

    with ThreadPoolExecutor(80) as pool:
        waiting = [pool.submit(ask, number) for number in range(80)]  # more than the server has threads
        try:
            time.sleep(0.3)
            began = time.monotonic()
            client.round(f"{name}-quick", 0.5, 1.0)
            assert client.see(f"{name}-slow", "state")["round"] == 0  # looking does not wait either
            assert client.see(f"{name}-slow", "decisions")["decisions"] == []
            assert time.monotonic() - began < 5
            assert not any(future.done() for future in waiting)
        finally:
            free.set()
        assert sorted(future.result() for future in waiting) == list(range(80))


def test_too_many_waiting_requests_are_sent_away(client, url, name, monkeypatch):
    from holdcourse.service.core import controllers

    monkeypatch.setattr(controllers, "MAX_WAITING", 4)
    client.create(id=name, max_pending=100)
    asking, free = Hosted.ask, threading.Event()
    monkeypatch.setattr(Hosted, "ask", lambda *arguments: free.wait(20) and asking(*arguments))

    def ask(number):
        with Client(url) as own:
            response = own.post(f"/controllers/{name}/ask", json={}, headers={"Idempotency-Key": f"k{number}"})
            if response.status_code == 429:
                assert response.headers["retry-after"]
                free.set()
            return response.status_code

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(ask, range(6)))[-1] == 429
