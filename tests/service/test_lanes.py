"""Who goes next: operators first, clients by turns, and those who left not at all."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import pytest
from service.flooding import request
from service.running import Client, served, wait_for

from holdcourse.mistakes import all_in_words
from holdcourse.service.core import inspection, records, tokens
from holdcourse.service.core.clients import Caller, Lane, Pace
from holdcourse.service.core.hosted import Hosted
from holdcourse.service.core.refusals import Refusal
from holdcourse.service.http import admission
from holdcourse.service.http.errors import translated


def run(lane, callers, held=None):
    """Let callers come one after the other while somebody is inside, who then leaves; the order of their turns."""

    async def all_of_them():
        order = []

        async def one(number, caller):
            async with lane.place(caller):
                order.append(number)
                await asyncio.sleep(0)

        async with lane.place(Caller("somebody")):
            tasks = []
            for number, caller in enumerate(callers):
                tasks.append(asyncio.create_task(one(number, caller)))
                await asyncio.sleep(0)
            if held is not None:
                await held(tasks)
        return order, await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(all_of_them())


def test_operators_go_first_and_the_others_client_by_client():
    many, few, operator = Caller("many"), Caller("few"), Caller("operator", first=True)
    order, _ = run(Lane("it", 1, 1, 9, 9), [many, many, many, few, operator, many, operator])
    assert order == [4, 6, 0, 3, 1, 2, 5]


def test_one_client_has_his_share_of_the_places():
    many, few = Caller("many"), Caller("few")
    seen, inside = [], []

    async def one(lane, caller):
        async with lane.place(caller):
            inside.append(caller.client)
            seen.append(sorted(inside))
            await asyncio.sleep(0)
            inside.remove(caller.client)

    async def all_of_them():
        lane = Lane("it", 2, 1, 9, 9)
        await asyncio.gather(*(one(lane, caller) for caller in (many, many, many, few)))

    asyncio.run(all_of_them())
    assert sorted(seen) == [["few", "many"], ["many"], ["many"], ["many"]]


def test_quotas_say_which_one_it_is():
    client = Caller("token 1")
    _, results = run(Lane("turbine-1", 1, 1, 3, 2), [client] * 3 + [Caller("2"), Caller("3")])
    words = [str(result) for result in results if isinstance(result, Refusal)]
    assert [translated(result).status for result in results if isinstance(result, Refusal)] == [429, 429]
    assert words[0].startswith("2 requests of token 1 are already waiting for turbine-1, the most for one client")
    assert words[1].startswith("3 requests are already waiting for turbine-1, the most for all clients")


def test_whoever_leaves_or_is_cut_off_loses_his_place_and_nobody_else_does():
    gone = asyncio.Event()
    leaving = Caller("leaving", left=gone.wait)

    async def leave(tasks):
        gone.set()
        tasks[2].cancel()
        await asyncio.sleep(0.01)

    order, results = run(Lane("it", 1, 1, 9, 9), [leaving, Caller("a"), Caller("a"), Caller("a")], leave)
    assert order == [1, 3]
    assert translated(results[0]).status == 499
    assert isinstance(results[2], asyncio.CancelledError)


def test_whoever_is_cut_off_just_when_it_is_his_turn_passes_it_on():
    async def all_of_them():
        lane = Lane("it", 1, 1, 9, 9)
        assert lane.enter("somebody")

        async def one():
            async with lane.place(Caller("a")):
                pass

        first, second = asyncio.create_task(one()), asyncio.create_task(one())
        await asyncio.sleep(0)
        lane.leave("somebody")
        first.cancel()
        await second
        return lane.is_full

    assert asyncio.run(all_of_them()) is False


def test_so_many_requests_are_begun_each_time_round_the_loop():
    async def all_of_them():
        pace, begun, rounds_of_loop = Pace(3), [], 0

        async def one():
            await pace.step()
            begun.append(rounds_of_loop)

        tasks = [asyncio.create_task(one()) for _ in range(10)]
        tasks[5].cancel()
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            rounds_of_loop += 1
        return [begun.count(number) for number in sorted(set(begun))]

    assert asyncio.run(all_of_them()) == [3, 3, 3]


# -- over HTTP -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with tokens: its address, the secrets, and the token file."""
    folder = tmp_path_factory.mktemp("lanes")
    rights = {"operator": ["admin"], "asks": ["ask"], "drives": ["ask", "tell"], "looks": ["read"], "sees": ["read"]}
    secrets = {name: tokens.make(folder / "tokens.json", name, scopes, ["*"])[1] for name, scopes in rights.items()}
    with served(folder / "data", folder / "tokens.json") as url:
        yield url, secrets, folder / "tokens.json"


@pytest.fixture
def as_(guarded):
    opened = []

    def client(name):
        opened.append(Client(guarded[0], guarded[1][name]))
        return opened[-1]

    yield client
    for one in opened:
        one.close()


class Held:
    """A function that waits until it is let go, and counts its calls."""

    def __init__(self, function):
        self.function, self.calls, self.free = function, 0, threading.Event()

    def __call__(self, *arguments, **named):
        self.calls += 1
        assert self.free.wait(20)
        return self.function(*arguments, **named)


@pytest.fixture
def held(monkeypatch):
    made = []

    def hold(place, name):
        one = Held(getattr(place, name))
        made.append(one)
        monkeypatch.setattr(place, name, lambda *arguments, **named: one(*arguments, **named))
        return one

    yield hold
    for one in made:
        one.free.set()


def sent(url, *requests):
    """Requests on connections of their own, not answered yet."""
    address, opened = urlsplit(url), []
    for one in requests:
        opened.append(socket.create_connection((address.hostname, address.port)))
        opened[-1].sendall(one)
    return opened


def test_an_old_answer_is_rebuilt_beside_the_turn(as_, guarded, name, held, monkeypatch):
    admin, drives = as_("operator"), as_("drives")
    admin.create(id=name)
    first = drives.round(name, 0.5, 1.0)
    monkeypatch.setattr(records, "remembers", lambda controller, decision: False)
    rebuilding = held(records, "answer")
    with ThreadPoolExecutor(2) as pool:
        again = [pool.submit(as_("drives").do, name, "ask", context=0.5, round=0, key=key) for key in ("k", None)]
        wait_for(lambda: rebuilding.calls == 1, "the answer to be rebuilt")
        began = time.monotonic()
        admin.do(name, "override", setting_index=2, reason="inspection")
        assert time.monotonic() - began < 1.0
        rebuilding.free.set()
        assert [future.result() for future in again] == [first, first]
    drives.do(name, "ask", context=0.7, round=1, key="k", status=409)  # the key means the old round from now on
    assert drives.do(name, "ask", context=0.5, key="k") == first


def test_what_nobody_waits_for_is_not_done(as_, guarded, name, held):
    as_("operator").create(id=name, max_pending=8)
    asking = held(Hosted, "ask")
    url, secrets, _ = guarded
    running, *waiting = sent(
        url,
        *(
            request("POST", f"/controllers/{name}/ask", secrets["asks"], {"context": 0.1 * t, "round": t})
            for t in range(6)
        ),
    )
    with running:
        wait_for(lambda: asking.calls == 1, "the first one to have the turn")
        time.sleep(0.1)  # the others wait now
        for one in waiting:
            one.close()
        time.sleep(0.1)
        asking.free.set()
        assert running.recv(100).startswith(b"HTTP/1.1 200")
    as_("operator").do(name, "mode", mode="act")
    assert asking.calls == 1


def test_verifies_leave_room_for_back_ups_and_for_other_clients(as_, guarded, name, held):
    admin = as_("operator")
    admin.create(id=name)
    verifying = held(inspection, "verified")
    url, secrets, _ = guarded
    waiting = sent(url, *[request("GET", f"/controllers/{name}/verify", secrets["looks"])] * 12)  # more than may wait
    try:
        wait_for(lambda: verifying.calls == 1, "a verify")
        found = []

        def is_refused():
            try:
                found.append(as_("looks").get(f"/controllers/{name}/verify", timeout=1))
            except httpx.ReadTimeout:  # the others are not all waiting yet
                return False
            return True

        wait_for(is_refused, "a refusal")
        assert found[0].status_code == 429
        assert found[0].headers["retry-after"]
        assert "are already waiting for a read that takes long, the most for one client" in found[0].text
        assert verifying.calls == 1  # one at a time for a client, so that there is a place for another one
        waiting += sent(url, request("GET", f"/controllers/{name}/verify", secrets["sees"]))
        wait_for(lambda: verifying.calls == 2, "another client's verify")
        assert admin.get(f"/controllers/{name}/backup").status_code == 200
    finally:
        verifying.free.set()
        for one in waiting:
            one.close()


def test_the_watchdog_goes_before_those_who_wait(as_, guarded, name, monkeypatch):
    as_("operator").create(id=name, deadline_s=0.2)
    as_("drives").do(name, "ask", context=0.5)
    asking, ended = Hosted.ask, threading.Event()
    monkeypatch.setattr(Hosted, "ask", lambda *given: time.sleep(0.05) or asking(*given))
    url, secrets, _ = guarded
    body = request("POST", f"/controllers/{name}/ask", secrets["asks"], {"context": 0.5})

    def again_and_again():
        while not ended.is_set():
            for one in sent(url, *[body] * 8):
                one.recv(100)
                one.close()

    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):  # so that the turn is never free
            pool.submit(again_and_again)
        try:
            wait_for(lambda: as_("looks").see(name, "alarms")["alarms"], "the alarm", 5.0)
        finally:
            ended.set()
    assert as_("looks").see(name, "alarms")["alarms"][0]["kind"] == "stale"


def test_streams_have_a_quota(as_, guarded, name):
    from holdcourse.service.core.controllers import STREAMS_EACH

    url, secrets, _ = guarded
    opened = sent(url, *[request("GET", "/events", secrets["sees"])] * STREAMS_EACH)
    try:
        for one in opened:
            assert one.recv(20).startswith(b"HTTP/1.1 200")
        refused = as_("sees").get("/events")
        assert refused.status_code == 429
        assert (
            f"already has {STREAMS_EACH} streams of events, the most for one client"
            in refused.json()["error"]["message"]
        )
        assert as_("sees").get("/controllers").status_code == 200
    finally:
        for one in opened:
            one.close()

    def may_again():
        with as_("sees").stream("GET", "/events") as stream:
            return stream.status_code == 200

    wait_for(may_again, "the streams to be given back", 5.0)


def test_only_an_admin_may_have_everything_decided_again(as_, name):
    as_("operator").create(id=name)
    for who in ("looks", "drives"):
        refused = as_(who).see(name, "verify", full=True, status=403)
        assert "needs a token with admin" in refused["message"]
        assert as_(who).see(name, "verify")["ok"]
    assert as_("operator").see(name, "verify", full=True)["ok"]


def test_a_stream_ends_when_its_token_is_revoked(as_, guarded, name):
    url, _, file = guarded
    as_("operator").create(id=name)
    token, secret = tokens.make(file, "short", ["read"], [name])
    with Client(url, secret) as watcher:
        for address in ("/events", f"/controllers/{name}/events"):
            assert watcher.get("/controllers").status_code == 200, address
        with watcher.stream("GET", "/events") as both, watcher.stream("GET", f"/controllers/{name}/events") as one:
            streams = [both.iter_lines(), one.iter_lines()]
            for lines in streams:
                assert next(lines).startswith(":")
            as_("operator").do(name, "mode", mode="advise")
            for lines in streams:
                assert next(line for line in lines if line) == "event: mode"
                assert next(line for line in lines if line).startswith("data: ")
            tokens.revoke(file, token.id)
            as_("operator").do(name, "mode", mode="act")
            for lines in streams:
                assert next((line for line in lines if line), None) is None


def test_bodies_that_take_long_to_look_through_are_refused_at_once(as_, name):
    as_("operator").create(id=name)
    began = time.monotonic()
    for body in ({"forecast": [[0.5]] * 100_000}, {f"k{k}": 1 for k in range(50_000)}, {"context": ["x"] * 200_000}):
        as_("asks").do(name, "ask", status=422, **body)
    refused = as_("operator").do(name, "override", setting_index=1, reason="x" * 100_000, status=413)
    assert "longer than 64 KiB" in refused["message"]
    assert time.monotonic() - began < 10.0


def test_many_mistakes_are_looked_through_once():
    mistakes = [
        {"loc": ("forecast", kind, k), "msg": "Input should be a valid number", "type": "float_type", "input": "x"}
        for kind in ("list[float]", "list[list[float]]")
        for k in range(50_000)
    ]
    began = time.monotonic()
    assert all_in_words(mistakes).endswith("more")
    assert time.monotonic() - began < 1.0
    assert admission.parts(json.dumps({"a": [1, [2]], "[:{": "x"}).encode()) == 5
