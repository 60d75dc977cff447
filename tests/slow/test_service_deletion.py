"""A server that is killed while it deletes a controller: the controller is whole, or gone and in the journal."""

from __future__ import annotations

import random
import threading
import time

import httpx
import pytest
from service.running import Client, Process

pytestmark = pytest.mark.slow

KILLS = 40


def checked(data, client, name, answered):
    """Return whether a controller whose deletion was cut off is gone; either way all must be well."""
    listed = [one["id"] for one in client.get("/controllers").json()["controllers"]]
    lines = [line for line in client.get("/journal").json()["lines"] if line["controller"] == name]
    assert not list((data / "controllers").glob("*/deletion.json"))
    assert not (data / "deleted").exists() or list((data / "deleted").iterdir()) == []
    if name not in listed:
        assert [line["reason"] for line in lines] == [f"kill of {name}"]
        return True
    assert answered == []
    assert lines == []
    assert client.see(name, "state")["status"] == "archived"
    assert client.see(name, "verify", full=True)["ok"]
    assert client.delete(f"/controllers/{name}", params={"name": name, "reason": "again"}).status_code == 200
    return False


def test_killed_while_deleting(tmp_path):
    drawn, gone, data = random.Random(1), [], tmp_path / "data"
    name, answered = None, []
    for k in range(KILLS + 1):
        with Process(data) as process, Client(process.url) as client:
            if name is not None:
                gone.append(checked(data, client, name, answered))
            name, answered = f"c{k}", []
            client.create(id=name)
            client.round(name, 0.5, 1.0)
            client.do(name, "archive", reason="worn")

            def delete(client=client, name=name, answered=answered):
                try:
                    asked = {"name": name, "reason": f"kill of {name}"}
                    answered.append(client.delete(f"/controllers/{name}", params=asked).status_code)
                except httpx.HTTPError:
                    pass

            thread = threading.Thread(target=delete)
            thread.start()
            time.sleep(drawn.uniform(0.0, 0.03))
            process.kill()
            thread.join()
    assert set(gone) == {True, False}
