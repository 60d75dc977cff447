"""The walk of one ask over HTTP through the service: few modules, so that a reader can follow it."""

from __future__ import annotations

import threading

import pytest
from service.running import QUICK, Client, served

from holdcourse.service.core import tokens

MOST = 10
PREFIX = "holdcourse.service."


class Walk:
    """Which modules of the service ran a function, in threads begun after it, while it is `on`."""

    def __init__(self):
        self.on, self._ran = False, set()

    def __call__(self, frame, event, _):
        if self.on and event == "call":
            self._ran.add(frame.f_globals.get("__name__", ""))

    @property
    def modules(self):
        return sorted(name.removeprefix(PREFIX) for name in self._ran if name.startswith(PREFIX))


@pytest.fixture
def walk():
    found = Walk()
    yield found
    threading.setprofile(None)


def test_an_ask_of_a_fleet_passes_few_modules_too(walk, tmp_path):
    _, secret = tokens.make(tmp_path / "tokens.json", "plant", ("ask", "tell", "admin"), ("a",))
    ours = {name: value for name, value in QUICK.items() if name != "id"} | {"id": "a", "count": 3}
    with served(tmp_path / "data", tmp_path / "tokens.json") as url, Client(url, token=secret) as client:
        client.checked(client.post("/fleets", json=ours), 201)
        client.checked(client.post("/fleets/a/ask", json={"context": 0.5}), 200)
        client.checked(client.post("/fleets/a/tell", json={"call": 0, "measurements": [1.0] * 3}), 200)
    threading.setprofile(walk)
    with served(tmp_path / "data", tmp_path / "tokens.json") as url, Client(url, token=secret) as client:
        client.checked(client.get("/fleets/a"), 200)
        walk.on = True
        assert client.checked(client.post("/fleets/a/ask", json={"context": 0.25}), 200)["call"] == 1
        walk.on = False
    assert len(walk.modules) > 4
    assert len(walk.modules) <= MOST, ", ".join(walk.modules)


def test_an_ask_over_http_passes_few_modules(walk, tmp_path):
    """By a program with a token, in the middle of a run."""
    _, secret = tokens.make(tmp_path / "tokens.json", "plant", ("ask", "tell", "admin"), ("a",))
    with served(tmp_path / "data", tmp_path / "tokens.json") as url, Client(url, token=secret) as client:
        client.create(id="a", status=201)
        client.round("a", 0.5, 1.0)
    threading.setprofile(walk)  # not before: what is compiled in the first round would take long under it
    with served(tmp_path / "data", tmp_path / "tokens.json") as url, Client(url, token=secret) as client:
        client.round("a", 0.5, 1.0)
        walk.on = True
        assert client.do("a", "ask", context=0.5, round=2)["round"] == 2
        walk.on = False
    assert len(walk.modules) > 4
    assert len(walk.modules) <= MOST, ", ".join(walk.modules)
