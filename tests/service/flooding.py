"""Floods: many connections that send the same request again and again, for a while."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from service.running import Client, wait_for

from holdcourse.service import rounds, tokens
from holdcourse.service.epochs import begin
from holdcourse.service.fleet import _settings
from holdcourse.service.hosted import Hosted
from holdcourse.service.schemas import Ask, Config
from holdcourse.service.store import DataFolder

RIGHTS = {"operator": ["admin"], "asks": ["ask"], "tells": ["ask", "tell"], "looks": ["read"]}


def folder_of(path, config, rounds_told):
    """A data folder with a controller that has been told many rounds, and tokens; the secrets by name."""
    store = DataFolder(path / "data")
    settings = Config.model_validate(config)
    begin(store, _settings(settings), None)
    hosted = Hosted(store, settings.id)
    for t in range(rounds_told):
        decision = rounds.ask(hosted, Ask(context=[(t % 7) / 7]), None).answer["decision"]
        rounds.tell(hosted, decision, 1.0 + t / rounds_told, None, None)
    hosted.close()
    store.close()
    return {name: tokens.make(path / "tokens.json", name, scopes, ["*"])[1] for name, scopes in RIGHTS.items()}


def request(method, path, token=None, body=None):
    """A request as it goes over the wire."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += [] if token is None else [f"Authorization: Bearer {token}"]
    content = b"" if body is None else json.dumps(body).encode()
    lines += [] if body is None else ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    return "\r\n".join([*lines, "", ""]).encode() + content


@contextmanager
def flood(url, requests, connections=100, patience_s=0.2):
    """Send them again and again from many connections, whose clients leave when they are not answered at once.

    Yields a function that says how many answers of each status there were so far, and how many clients left.
    """
    address, ended, counts = urlsplit(url), threading.Event(), {}

    async def one(number):
        turn = number
        while not ended.is_set():
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(address.hostname, address.port)
                try:
                    writer.write(requests[turn % len(requests)])
                    async with asyncio.timeout(patience_s):
                        line = await reader.readline()
                        status = line.split(b" ")[1].decode() if line else "closed"
                        counts[status] = counts.get(status, 0) + 1
                        await reader.read()
                except TimeoutError:
                    counts["left"] = counts.get("left", 0) + 1
                finally:
                    writer.transport.abort()
            turn += connections
            await asyncio.sleep(0.02)

    async def all_of_them():
        await asyncio.gather(*(one(number) for number in range(connections)))

    thread = threading.Thread(target=asyncio.run, args=(all_of_them(),))
    thread.start()
    try:
        yield lambda: dict(counts)
    finally:
        ended.set()
        thread.join()


def slowest_override(url, secret, name, seconds):
    """Take over and hand back on connections of one's own, for so long; the longest time that one took."""
    until, slowest, turn = time.monotonic() + seconds, 0.0, 0
    while time.monotonic() < until:
        began = time.monotonic()
        with Client(url, secret) as operator:
            turn += 1
            operator.do(name, "override", action=turn % 4, reason=f"turn {turn}")
        slowest = max(slowest, time.monotonic() - began)
        time.sleep(0.05)
    with Client(url, secret) as operator:
        assert operator.see(name, "state")["override"]["action"] == turn % 4
    return slowest


def under_way(counts, least=60):
    """Wait until the flood has reached the server."""
    wait_for(lambda: sum(counts().values()) >= least, "the flood", 10.0)
