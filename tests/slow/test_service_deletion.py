"""A server that is killed while it deletes a controller: the controller is whole, or gone and in the journal."""

from __future__ import annotations

import random
import threading

import httpx
import pytest
from service.running import Client, Process

pytestmark = pytest.mark.slow

KILLS = 60


def test_killed_while_deleting(tmp_path):
    drawn, gone, kept = random.Random(1), 0, 0
    data = tmp_path / "data"
    for k in range(KILLS):
        name = f"c{k}"
        with Process(data) as process, Client(process.url) as client:
            client.create(id=name)
            client.round(name, 0.5, 1.0)
            client.change(name, limits={"min_dwell": 2})
            client.do(name, "archive", reason="worn")
            answered = []

            def delete(client=client, name=name, answered=answered):
                try:
                    response = client.delete(f"/controllers/{name}", params={"name": name, "reason": f"kill of {name}"})
                    answered.append(response.status_code)
                except httpx.HTTPError:
                    pass

            thread = threading.Thread(target=delete)
            thread.start()
            threading.Event().wait(drawn.uniform(0.0, 0.02))
            process.kill()
            thread.join()
        with Process(data) as process, Client(process.url) as client:
            listed = [one["id"] for one in client.get("/controllers").json()["controllers"]]
            lines = [line for line in client.get("/journal").json()["lines"] if line["controller"] == name]
            if name in listed:
                assert answered == []
                assert lines == []
                assert client.see(name, "verify", full=True)["ok"]
                assert client.see(name, "state")["status"] == "archived"
                client.delete(f"/controllers/{name}", params={"name": name, "reason": "again"})
                kept += 1
            else:
                assert [line["reason"] for line in lines] == [f"kill of {name}"]
                gone += 1
            assert not list((data / "controllers").glob("*/deletion.json"))
            assert list((data / "deleted").iterdir()) == [] if (data / "deleted").exists() else True
    assert gone
    assert kept
