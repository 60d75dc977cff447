"""Records that somebody deletes or replaces while the service runs: nobody is told that all is well."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from contextlib import closing

import pytest
from service.running import QUICK, Client, served, wait_for

from holdcourse.service.core import configuration, controllers
from holdcourse.service.core.data_folder import DataFolder

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
        assert found["message"].endswith(f"; if nobody needs them any more, remove {records}")
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


def test_a_fleet_whose_record_is_gone_is_shown_as_broken(tmp_path):
    data = tmp_path / "data"
    with served(data) as url, Client(url) as client:
        about = {name: QUICK[name] for name in ("actions", "scale", "policy", "options")}
        client.checked(client.post("/fleets", json={"id": "pumps", "count": 3, **about}), 201)
        client.checked(client.post("/fleets/pumps/ask", json={"context": 0.5}), 200)
        (data / "fleets" / "pumps" / "epoch-0001.db").unlink()
        told = {"call": 0, "measurements": [1.0, 1.0, 1.0]}
        for _ in range(2):
            error = client.checked(client.post("/fleets/pumps/tell", json=told), 503)
            assert "deleted, moved or replaced while in use" in error["message"]
        (listed,) = client.checked(client.get("/fleets"), 200)["fleets"]
        assert listed["status"] == "broken"
        assert listed["message"].startswith("pumps has stopped: ")
        assert 'holdcourse_fleet_broken{fleet="pumps"} 1' in client.get("/metrics").text


def test_no_epoch_begins_where_the_records_are_gone(tmp_path, monkeypatch):
    """It would be numbered as the first, and take the place of the record that somebody brings back."""
    monkeypatch.setattr(controllers, "WATCH_EVERY_S", 60.0)
    data = tmp_path / "data"
    records = data / "controllers" / "a"
    with served(data) as url, Client(url) as client:
        client.create(id="a")
        client.round("a", 0.5, 1.0)
        for file in records.glob("epoch-*"):
            file.unlink()
        error = client.change("a", status=503, limits={"min_dwell": 2})
        assert "deleted, moved or replaced while in use" in error["message"]
        assert [file.name for file in records.iterdir()] == ["newest"]
        assert summary(client, "a")["status"] == "broken"


def test_records_that_go_while_an_epoch_is_fitted_are_noticed_before_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(controllers, "WATCH_EVERY_S", 60.0)
    data = tmp_path / "data"
    records = data / "controllers" / "a"
    fitted = configuration.policy_of

    def taken_away(*given):
        found = fitted(*given)
        for file in records.glob("epoch-*"):
            file.unlink()
        return found

    with served(data) as url, Client(url) as client:
        client.create(id="a")
        client.round("a", 0.5, 1.0)
        monkeypatch.setattr(configuration, "policy_of", taken_away)
        error = client.change("a", status=503, limits={"min_dwell": 2})
        assert "deleted, moved or replaced while in use" in error["message"]
        assert [file.name for file in records.iterdir()] == ["newest"]


def test_records_that_are_gone_are_neither_backed_up_nor_called_without_a_trial(tmp_path):
    data = tmp_path / "data"
    with served(data) as url, Client(url) as client:
        client.create(id="a")
        client.change("a", limits={"min_dwell": 2})
        assert client.get("/controllers/a/backup").status_code == 200
        (data / "controllers" / "a" / "epoch-0002.db").unlink()
        for what in ("backup", "trial"):  # from the copy, a service would go on in the older epoch
            assert "epoch-0002.db of a is missing" in client.see("a", what, status=503)["message"]


def test_a_record_that_the_system_cannot_look_for_is_not_taken_away(tmp_path):
    with closing(DataFolder(tmp_path / "data")) as folder:
        assert not folder.is_there("a", 1)
        assert folder.is_there("a" * 300, 1)  # an error of the system: no name is as long


def test_a_disk_that_hangs_holds_up_nobody_who_needs_no_disk(tmp_path, monkeypatch):
    data, asked, answers = tmp_path / "data", threading.Event(), threading.Event()
    there = DataFolder.is_there

    def hangs(*given):
        asked.set()
        answers.wait(30)
        return there(*given)

    with served(data) as url, Client(url) as client:
        client.create(id="a")
        client.create(id="b")
        with monkeypatch.context() as patched:
            patched.setattr(DataFolder, "is_there", hangs)
            assert asked.wait(30)
            try:
                assert client.get("/healthz", timeout=10.0).status_code == 200
            finally:
                answers.set()
        shutil.rmtree(data / "controllers" / "a")  # and the watch goes on
        wait_for(lambda: summary(client, "a")["status"] == "broken", "the service to notice")
        assert client.round("b", 0.5, 1.0)


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
