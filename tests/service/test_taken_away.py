"""Records that somebody deletes or replaces while the service runs: nobody is told that all is well."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest
from service.running import Client, served, wait_for

GONE = "somebody deleted"


def summary(client, name):
    listed = client.checked(client.get("/controllers"), 200)["controllers"]
    return next(found for found in listed if found["id"] == name)


@pytest.mark.parametrize("what", ["records", "folder"])
def test_a_deleted_record_is_found_before_anybody_asks(what, tmp_path):
    data = tmp_path / "data"
    records = data / "controllers" / "a"
    with served(data) as url, Client(url) as client:
        client.create(id="a", name="Mill")
        client.create(id="b")
        client.round("a", 0.5, 1.0)
        assert client.see("a", "verify")["ok"]
        if what == "folder":
            shutil.rmtree(records)
        else:
            for file in records.glob("epoch-*"):
                file.unlink()
        wait_for(lambda: summary(client, "a")["status"] == "broken", "the service to notice")
        assert summary(client, "a")["name"] == "Mill"
        assert "a has stopped: " in summary(client, "a")["message"]
        assert "deleted, moved or replaced while in use" in client.see("a", "state", status=503)["message"]
        found = client.see("a", "verify")
        assert not found["ok"]
        assert f"the records of a are gone: {GONE}" in found["message"]
        job = client.post("/controllers/a/verify", json={}, headers={"Prefer": "respond-async"})
        assert client.checked(client.followed(job), 200)["ok"] is False
        assert client.round("b", 0.5, 1.0)  # the others go on
        assert summary(client, "b")["status"] == "ok"
    if what == "folder":
        return
    with served(data) as url, Client(url) as client:  # it is not forgotten, but waits for its records
        error = client.do("a", "ask", context=0.5, status=503)
        assert f"a cannot be opened: the records of a are gone: {GONE} {records}/epoch-*.db" in error["message"]
        assert summary(client, "a")["status"] == "broken"
        assert client.see("a", "verify")["ok"] is False


def test_a_replaced_record_stops_its_controller_for_good(tmp_path):
    data = tmp_path / "data"
    record = data / "controllers" / "a" / "epoch-0001.db"
    with served(data) as url, Client(url) as client:
        client.create(id="a")
        client.round("a", 0.5, 1.0)
        shutil.copyfile(record, tmp_path / "copy")
        (tmp_path / "copy").replace(record)
        for _ in range(2):
            assert "replaced while in use" in client.do("a", "ask", context=0.5, status=503)["message"]
        assert summary(client, "a")["status"] == "broken"


def test_of_two_epochs_the_newest_may_not_be_missing_when_they_are_verified(tmp_path):
    data = tmp_path / "data"
    with served(data) as url, Client(url) as client:
        client.create(id="a")
        client.round("a", 0.5, 1.0)
        client.checked(client.patch("/controllers/a", json={"limits": {"min_dwell": 2}}), 200)
        assert client.see("a", "verify")["epochs"] == 2
        (data / "controllers" / "a" / "epoch-0002.db").unlink()
        found = client.see("a", "verify")
        assert not found["ok"]
        assert "epoch-0002.db of a is missing" in found["message"]


def test_the_log_of_the_service_says_when(tmp_path):
    lost = tmp_path / "data" / "controllers" / "a"
    lost.mkdir(parents=True, mode=0o700)
    (lost / "newest").write_text("1\n")
    command = [sys.executable, "-m", "holdcourse", "serve", "--data", tmp_path / "data", "--port", "0"]
    environment = {**os.environ, "TZ": "Asia/Kolkata", "NO_COLOR": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as server:
        try:
            assert server.stdout.readline().startswith("serving ")
            line = server.stderr.readline()
            while "a cannot be opened" not in line and line:
                line = server.stderr.readline()
        finally:
            server.terminate()
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+0530 ERROR a cannot be opened: the records of a are gone", line)
