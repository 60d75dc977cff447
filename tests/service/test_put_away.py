"""Controllers that are archived, brought back, and deleted for good; and what a crash leaves of it."""

from __future__ import annotations

import json
import shutil
import threading
import time

import pytest
from service.running import Client, served, wait_for

from holdcourse.service.core import tokens
from holdcourse.service.core.clients import Broadcast
from holdcourse.service.core.controllers import Controllers
from holdcourse.service.core.data_folder import DataFolder

WRITES = (
    ("ask", {"context": 0.5}),
    ("tell", {"decision": "r1", "measurement": 1.0}),
    ("skip", {"decision": "r0"}),
    ("retract", {"decision": "r0", "reason": "x"}),
    ("mode", {"mode": "shadow"}),
    ("override", {"setting": 1.0}),
    ("episode", {"start": 1.0}),
    ("alarms/sensor/acknowledge", {}),
)


def test_an_archived_controller_is_only_looked_at_until_it_is_brought_back(tmp_path):
    with served(tmp_path / "data") as url, Client(url) as client:
        client.create(id="old", name="Old mill", deadline_s=0.3)
        client.round("old", 0.5, 1.0)
        client.do("old", "ask", context=0.5)
        assert "r1 still wait" in client.do("old", "archive", 409, reason="dismantled")["message"]
        client.do("old", "tell", decision="r1", measurement=1.5)
        assert client.do("old", "archive", 422, reason="  ")["code"] == "invalid"
        state = client.do("old", "archive", reason="dismantled")
        assert (state["status"], state["archived"]["reason"]) == ("archived", "dismantled")
        assert client.do("old", "archive", reason="again")["archived"] == state["archived"]
        for what, body in WRITES:
            refused = client.do("old", what, 409, **body)
            assert refused["code"] == "put_away", what
            assert "/controllers/old/restore" in refused["message"]
        assert client.change("old", 409, name="New")["code"] == "put_away"
        for what in ("state", "config", "decisions", "alarms", "audit", "changes", "verify"):
            client.see("old", what)
        assert client.get("/controllers/old/rounds.csv").status_code == 200
    with served(tmp_path / "data") as url, Client(url) as client:
        wait_for(lambda: client.get("/readyz").status_code == 200, "it to be opened")
        state = client.see("old", "state")
        assert state["status"] == "archived"
        assert 'holdcourse_silent{controller="old"} 0' in client.get("/metrics").text
        assert state["alarms"] == []  # nobody expects anything of it, however late it is
        assert client.do("old", "restore", reason="rebuilt")["archived"] is None
        assert client.do("old", "restore", reason="rebuilt again")["archived"] is None
        assert client.see("old", "state")["alarms"] == []
        client.round("old", 0.5, 1.0)
        deeds = client.see("old", "audit", kind=["archive", "restore"])["deeds"]
        assert [(deed["what"], deed["reason"]) for deed in deeds] == [("restore", "rebuilt"), ("archive", "dismantled")]
        assert client.see("old", "verify", full=True)["ok"]


def test_only_an_archived_controller_is_deleted_by_its_name_and_the_journal_says_who(tmp_path):
    file = tmp_path / "tokens.json"
    token, secret = tokens.make(file, "control room", ["admin"], ["*"])
    scada = tokens.make(file, "scada", ["ask", "tell"], ["*"])[1]
    data = tmp_path / "data"

    def deleted(client, status, **query):
        response = client.delete("/controllers/old", params=query)
        assert response.status_code == status, response.text
        return response.json()

    with served(data, file) as url, Client(url, secret) as client, Client(url, scada) as machine:
        client.create(id="old", name="Old mill")
        client.create(id="kept")
        client.round("old", 0.5, 1.0)
        asked = {"name": "Old mill", "reason": "dismantled"}
        assert "archive it first" in deleted(client, 409, **asked)["error"]["message"]
        client.do("old", "archive", reason="dismantled")
        deleted(machine, 403, **asked)
        deleted(client, 422, name="Old mill")
        deleted(client, 422, name="Old mill", reason=" ")
        assert "'Old mill'" in deleted(client, 422, name="old", reason="x")["error"]["message"]
        assert client.see("old", "state")["round"] == 1
        assert deleted(client, 200, **asked)["deleted"] == "old"
        deleted(client, 404, **asked)
        assert client.see("old", "state", 404)["code"] == "unknown_controller"
        assert [one["id"] for one in client.get("/controllers").json()["controllers"]] == ["kept"]
        assert not (data / "controllers" / "old").exists()
        assert list((data / "deleted").iterdir()) == []
        line = client.get("/journal").json()["lines"][0]
        assert (line["what"], line["controller"], line["reason"]) == ("controller deleted", "old", "dismantled")
        assert (line["by"], line["rounds"]) == ({"token": token.id, "name": "control room"}, 1)
        client.create(id="old")  # the name is free again
        assert client.see("old", "state")["round"] == 0
    with served(data, file) as url, Client(url, secret) as client:
        wait_for(lambda: client.get("/readyz").status_code == 200, "all to be opened")
        assert [one["id"] for one in client.get("/controllers").json()["controllers"]] == ["kept", "old"]


class Crash(Exception):
    pass


@pytest.mark.parametrize("step", ["intent", "rename", "first file", "journal", "last folder"])
def test_a_crash_while_deleting_leaves_all_or_is_finished_at_the_next_start(tmp_path, monkeypatch, step):
    data = tmp_path / "data"
    with served(data) as url, Client(url) as client:
        client.create(id="old")
        client.round("old", 0.5, 1.0)
        client.do("old", "archive", reason="dismantled")
    store = DataFolder(data)
    about = {"controller": "old", "at": "2026-03-01T12:00:00.000+00:00", "by": None, "reason": "gone"}

    def crash(*given, **named):
        raise Crash

    journal = Controllers(store, Broadcast()).journal

    def attempt(patch):
        if step == "intent":
            patch.setattr("pathlib.Path.rename", crash)
        gone = store.take_out("old", about)
        if step == "rename":
            crash()
        if step == "first file":
            patch.setattr("pathlib.Path.unlink", crash)
        if step == "last folder":
            patch.setattr(shutil, "rmtree", crash)
        store.remove(
            gone, crash if step == "journal" else lambda said: journal.add("controller deleted", **said_of(said))
        )

    with monkeypatch.context() as patch, pytest.raises(Crash):
        attempt(patch)
    store.close()
    with served(data) as url, Client(url) as client:
        wait_for(lambda: client.get("/readyz").status_code == 200, "it to start")
        listed = [one["id"] for one in client.get("/controllers").json()["controllers"]]
        if step == "intent":  # nothing has happened, and nothing is left of the attempt
            assert listed == ["old"]
            assert client.see("old", "decisions")["decisions"][0]["measurement"] == 1.0
            assert not list(data.rglob("deletion.json"))
            assert client.get("/journal").json()["lines"] == []
        else:
            assert listed == []
            (line,) = client.get("/journal").json()["lines"]
            assert (line["what"], line["controller"], line["reason"]) == ("controller deleted", "old", "gone")
            assert list((data / "deleted").iterdir()) == []


def said_of(about):
    return {name: value for name, value in about.items() if name not in ("at", "by")}


def test_a_deletion_that_cannot_be_done_leaves_the_controller_as_it_was(tmp_path, monkeypatch):
    with served(tmp_path / "data") as url, Client(url) as client:
        client.create(id="old")
        client.do("old", "archive", reason="dismantled")

        def full(*given, **named):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("pathlib.Path.rename", full)
            response = client.delete("/controllers/old", params={"name": "old", "reason": "gone"})
            assert response.status_code == 507
        assert client.see("old", "state")["status"] == "archived"
        client.do("old", "restore", reason="kept")
        client.round("old", 0.5, 1.0)
        assert json.loads((tmp_path / "data" / "holdcourse.json").read_text()) == {"format": 1}


def test_whoever_looks_while_it_is_deleted_is_told_that_it_is_gone(tmp_path):
    with served(tmp_path / "data") as url, Client(url) as client:
        client.create(id="old", name="Old")
        client.round("old", 0.5, 1.0)
        client.do("old", "archive", reason="sold")
        answers = []

        def look(what):
            with Client(url) as other:
                for _ in range(200):
                    answers.append(other.get(f"/controllers/old/{what}"))
                    if answers[-1].status_code != 200:
                        return

        threads = [threading.Thread(target=look, args=(what,)) for what in ("audit", "decisions", "alarms", "changes")]
        for thread in threads:
            thread.start()
        time.sleep(0.1)
        assert client.delete("/controllers/old", params={"name": "Old", "reason": "sold"}).status_code == 200
        for thread in threads:
            thread.join()
    assert {answer.status_code for answer in answers} <= {200, 404}
