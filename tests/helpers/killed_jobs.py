"""The service is killed while jobs make controllers: what was made is whole, what was not made is not there."""

from __future__ import annotations

import random
import time

from service.running import QUICK, Client, Process

HISTORY = [[float(k % 4), k % 7 / 7, 1.0 + k % 4] for k in range(150)]


def kill_while_jobs_run(folder, kills, seed=0):
    """Kill the service so often, at random moments; returns how many creations had happened and how many had not."""
    chance, made, unmade = random.Random(seed), 0, 0
    for number in range(kills + 1):
        with Process(folder) as server, Client(server.url) as client:
            jobs = client.get("/jobs").json()["jobs"]
            there = {row["id"] for row in client.get("/controllers").json()["controllers"]}
            assert all(job["state"] in ("done", "failed") for job in jobs), "a job is left hanging"
            assert there == {job["controller"] for job in jobs if job["state"] == "done"}
            assert {job["error"]["code"] for job in jobs if job["state"] == "failed"} <= {"interrupted"}
            assert not [path for path in folder.rglob(".new-*") if "epoch" in path.name]
            for name in there:
                if client.see(name, "state")["round"] == 0:
                    client.round(name, 0.5, 1.0)
            made = len(there)
            unmade = len(jobs) - made
            if number == kills:
                assert all(client.see(name, "verify", full=True)["ok"] for name in there)
                return made, unmade
            config = QUICK | {"id": f"c{number}", "history": HISTORY}
            job = client.post("/controllers", json=config, headers={"Idempotency-Key": "k"}).json()
            far = chance.uniform(0.0, 1.2)  # at which progress; the last sixth: when it is done
            while (now := client.get(job["address"]).json())["progress"] < far and now["state"] != "done":
                time.sleep(0.005)
            time.sleep(chance.uniform(0.0, 0.05))
            server.kill()
    return made, unmade
