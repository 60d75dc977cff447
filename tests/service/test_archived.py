"""Epochs that were archived: their numbers are never given again, and nothing that is there is overwritten."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from service.running import Client, served

from holdcourse.errors import LogError
from holdcourse.running import database
from holdcourse.running.events import Previous
from holdcourse.running.log import Log
from holdcourse.service.core import data_folder as store_module
from holdcourse.service.core.data_folder import DataFolder
from holdcourse.service.core.records import OPEN_EPOCHS


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data"


def with_epochs(folder, count):
    """A controller "a" with so many epochs of two rounds each; returns its folder."""
    with served(folder) as url, Client(url) as client:
        client.create(id="a", history_index=[[0, 0.5, 1.0]])
        for number in range(count):
            if number:
                client.change("a", limits={"min_dwell": number + 1})
            for t in range(2):
                client.do("a", "ask", context=0.5, key=f"{number}/{t}")
                client.do("a", "tell", decision=f"r{2 * number + t}", measurement=1.0)
    return folder / "controllers" / "a"


def names(records):
    return sorted(path.name for path in records.glob("*.db"))


def test_the_epoch_after_an_archived_one_does_not_overwrite_the_live_one(folder, tmp_path):
    records = with_epochs(folder, 3)
    (records / "epoch-0001.db").rename(tmp_path / "epoch-0001.db")
    with served(folder) as url, Client(url) as client:
        state = client.see("a", "state")
        assert (state["epoch"], state["round"], state["archived_epochs"]) == (3, 6, [1])
        error = client.change("a", limits={"min_dwell": 9}, status=409)
        assert error["code"] == "archived"
        assert "epoch 1 was archived, so the new one could not learn from its measurements" in error["message"]
        response = client.patch("/controllers/a?without_archived=true", json={"limits": {"min_dwell": 9}})
        assert (response.status_code, response.json()["epoch"], response.json()["round"]) == (200, 4, 6)
        assert client.do("a", "ask", context=0.5)["epoch"] == 4
        assert [(row["round"], row["epoch"]) for row in client.see("a", "decisions")["decisions"]] == [
            (2, 2),
            (3, 2),
            (4, 3),
            (5, 3),
            (6, 4),
        ]
        found = client.see("a", "verify", full=True)
        assert (found["ok"], found["epochs"]) == (True, 3)
        assert "epoch 1 is archived and was not checked" in found["message"]
        assert client.see("a", "explain/r3")["decision"] == "r3"
        client.see("a", "explain/r0", status=404)
        assert "archived" in client.see("a", "config", history=True, status=422)["message"]
        told = client.do("a", "tell", decision="r6", measurement=1.0, applied_index=1, epoch=1, status=422)
        assert "epoch 1 was archived" in told["message"]
        client.do("a", "tell", decision="r6", measurement=1.0, applied_index=1, epoch=2)
    assert names(records) == ["epoch-0002.db", "epoch-0003.db", "epoch-0004.db"]
    fourth = Log.read(records / "epoch-0004.db")
    third = Log.read(records / "epoch-0003.db")  # as the new one found it: nothing was put in its place
    assert fourth.about.previous == Previous("epoch-0003.db", third.last, third.chain)
    third.close()
    fourth.close()
    (tmp_path / "epoch-0001.db").rename(records / "epoch-0001.db")
    with served(folder) as url, Client(url) as client:
        assert client.see("a", "state")["archived_epochs"] == []
        assert client.see("a", "verify")["epochs"] == 4


def test_the_newest_epoch_may_not_be_archived(folder, tmp_path):
    records = with_epochs(folder, 2)
    (records / "epoch-0002.db").rename(tmp_path / "epoch-0002.db")
    with served(folder) as url, Client(url) as client:
        error = client.do("a", "ask", context=0.5, status=503)
        assert "epoch-0002.db of a is missing" in error["message"]
    assert names(records) == ["epoch-0001.db"]
    (records / "newest").unlink()
    with served(folder) as url, Client(url) as client:  # on purpose
        assert client.do("a", "ask", context=0.5)["decision"] == "r2"


def test_a_record_under_a_name_that_is_taken_is_refused(folder, monkeypatch):
    store = DataFolder(folder)
    for without_links in (False, True):
        if without_links:
            monkeypatch.setattr(store_module.os, "link", _no_links)
        unfinished, final = store.next_epoch("a")
        database.create(unfinished, {}, b"new")
        new = unfinished.read_bytes()
        final.write_bytes(b"old")
        with pytest.raises(LogError, match="exists already and was not touched"):
            store.publish(unfinished, final)
        assert final.read_bytes() == b"old"
        final.unlink()
        store.publish(unfinished, final)
        assert final.read_bytes() == new
        assert not unfinished.exists()
        assert final.name == f"epoch-{1 + without_links:04d}.db"
    store.close()


def _no_links(*arguments):
    raise PermissionError(1, "Operation not permitted")


@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_every_link_is_checked_when_it_is_opened(folder, epoch):
    records = with_epochs(folder, 4)
    with closing(sqlite3.connect(records / f"epoch-{epoch:04d}.db")) as damaged, damaged:
        damaged.execute("DELETE FROM events WHERE number = (SELECT max(number) FROM events)")
    damaged.close()
    (records / f"epoch-{epoch:04d}.db-mark").unlink()  # which would find it first
    with served(folder) as url, Client(url) as client:
        message = client.do("a", "ask", context=0.5, status=503)["message"]
        assert f"epoch-{epoch + 1:04d}.db does not continue epoch-{epoch:04d}.db as it is" in message


def test_a_record_under_another_number_is_refused(folder):
    records = with_epochs(folder, 3)
    for name in ("epoch-0001.db", "epoch-0001.db-mark"):
        (records / name).unlink()
    (records / "epoch-0002.db").rename(records / "epoch-0001.db")
    with served(folder) as url, Client(url) as client:
        message = client.do("a", "ask", context=0.5, status=503)["message"]
        assert "epoch-0001.db continues epoch-0001.db, but by its name it should continue none" in message


def test_old_epochs_are_not_held_open(folder):
    records = with_epochs(folder, 8)

    def held():
        links = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
        targets = {os.readlink(link) for link in links if link.is_symlink()}
        return {int(target.partition("epoch-")[2][:4]) for target in targets if target.startswith(str(records))}

    with served(folder) as url, Client(url) as client:
        assert client.see("a", "state")["epoch"] == 8
        assert held() == {8}
        for number in range(8):  # by key, by round, by decision, in all of them
            answer = client.do("a", "ask", context=0.5, key=f"{number}/0")
            assert (answer["round"], answer["epoch"]) == (2 * number, number + 1)
            assert client.do("a", "tell", decision=f"r{2 * number + 1}", measurement=1.0)["decision"]
            assert len(held()) <= OPEN_EPOCHS + 1
        assert len(client.see("a", "decisions", limit=1000)["decisions"]) == 16
        assert client.do("a", "ask", context=0.5, key="new")["decision"] == "r16"
        assert len(held()) <= OPEN_EPOCHS + 1
    assert held() == set()


def test_every_folder_that_gets_a_new_name_is_synced(folder, monkeypatch):
    synced, fsync = [], os.fsync

    def noting(descriptor):
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    store = DataFolder(folder)
    assert {str(folder), str(folder.parent)} <= set(synced)  # the folder "controllers", and the data folder itself
    synced.clear()
    unfinished, final = store.next_epoch("a")
    assert str(folder / "controllers") in synced
    synced.clear()
    database.create(unfinished, {}, b"whole")
    synced.clear()
    monkeypatch.setattr(
        store_module.archive, "write_file", lambda path, content, **more: None
    )  # it syncs the folder as well
    store.publish(unfinished, final)
    assert synced == [str(final.parent)]
    store.close()
