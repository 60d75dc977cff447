"""Who did it: names in the record and in answers, refusals in the log, and files that are nobody else's business."""

from __future__ import annotations

import logging
import os
import stat

import pytest
from service.running import Client, served

from holdcourse.running.events import plain
from holdcourse.running.log import Log
from holdcourse.service.core import tokens
from holdcourse.service.core.data_folder import DataFolder
from holdcourse.service.core.status import Clock
from holdcourse.service.http.errors import HttpRefusal, RefusalLog

ANYBODY = {"token": None, "name": "anybody on this machine"}


@pytest.fixture
def people(tmp_path):
    """Tokens by name, and the file that holds them."""
    file = tmp_path / "tokens.json"
    wanted = {"control room": ["admin"], "scada": ["ask"], "historian": ["tell"]}
    return file, {name: tokens.make(file, name, scopes, ["*"]) for name, scopes in wanted.items()}


def test_every_event_that_somebody_causes_says_who(tmp_path, people):
    file, known = people
    author = {name: {"token": token.id, "name": name} for name, (token, _) in known.items()}
    with served(tmp_path / "data", file) as url:
        room, scada, historian = (Client(url, secret) for _, secret in known.values())
        with room, scada, historian:
            room.create(id="a")
            scada.do("a", "ask", context=0.5)
            historian.do("a", "tell", decision="r0", measurement=1.0)
            scada.do("a", "ask", context=0.5, key="k")
            historian.do("a", "skip", decision="r1")
            room.do("a", "episode", start_index=1)
            room.do("a", "mode", mode="advise", reason="first week", key="m")
            state = room.do("a", "override", setting_index=3, reason="storm")
            assert state["override"]["by"] == author["control room"]
            room.change("a", name="North")
            state = room.change("a", limits={"min_dwell": 2}, key="p")
            assert state["override"]["by"] == author["control room"]  # also in the next epoch
            rows = scada.see("a", "decisions")["decisions"]
            assert [(row["asked_by"], row["told_by"]) for row in rows] == 2 * [(author["scada"], author["historian"])]
            changes = scada.see("a", "changes")["changes"]
            assert [(change["what"], change["epoch"]) for change in changes] == [
                ("created", 1),
                ("mode", 1),
                ("override", 1),
                ("config", 1),
                ("epoch", 2),
            ]
            assert all(change["by"] == author["control room"] for change in changes)
            assert changes[1]["to"] == {"mode": "advise", "reason": "first week"}
            assert room.do("a", "mode", mode="advise", reason="first week", key="m")["mode"] == "advise"
            assert room.see("a", "verify", full=True)["ok"]
    events = []
    for path in sorted((tmp_path / "data" / "controllers" / "a").glob("epoch-*.db")):
        log = Log.read(path)
        events += list(log.events())
        log.close()
    expected = {"ask": "scada", "tell": "historian"}
    for event in events:
        assert plain(event.body.extra.by) == author[expected.get(event.kind, "control room")], event
    assert {event.kind for event in events} == {"note", "ask", "tell", "episode"}


def test_without_tokens_it_was_anybody_and_the_watchdog_is_nobody(client, name):
    client.create(id=name)
    client.round(name, 0.5, 1.0)
    assert client.do(name, "override", setting_index=1)["override"]["by"] == ANYBODY
    (row,) = client.see(name, "decisions")["decisions"]
    assert (row["asked_by"], row["told_by"]) == (ANYBODY, ANYBODY)
    client.do(name, "override", setting=None)
    for measurement in (2.0,) * 10:  # the service raises an alarm, nobody else does
        client.round(name, 0.5, measurement)
    assert "by" not in client.see(name, "alarms")["alarms"][0]


def test_refusals_are_logged_with_token_address_and_path_once_a_minute(tmp_path, people, caplog):
    file, known = people
    asker, secret = known["scada"]
    with (
        caplog.at_level(logging.WARNING, "holdcourse.service"),
        served(tmp_path / "data", file) as url,
        Client(url, known["control room"][1]) as room,
        Client(url, secret) as scada,
        Client(url, "hc_wrong") as stranger,
    ):
        room.create(id="a")
        room.create(id="a", start_index=1, status=409)
        for _ in range(5):
            scada.do("a", "override", setting_index=0, status=403)
        for k in range(7):
            stranger.see(f"c{k}", "state", status=401)
        scada.see("nobody", "state", status=404)
    lines = [record.message for record in caplog.records if record.name == "holdcourse.service.refusals"]
    token = known["control room"][0]
    assert lines == [
        f"refused 409 conflict: token {token.id} 'control room', from 127.0.0.1, POST '/controllers'",
        f"refused 403 forbidden: token {asker.id} 'scada', from 127.0.0.1, POST '/controllers/a/override'",
        "refused 401 unauthorised: an unknown token, from 127.0.0.1, GET '/controllers/c0/state'",
        f"refused 403: token {asker.id} 'scada', 4 more since the line before",
        "refused 401: an unknown token, 6 more since the line before",
    ]


def test_the_count_is_said_with_the_next_line(caplog):
    seconds = [0.0]
    log = RefusalLog(Clock(lambda: 0.0, lambda: seconds[0]))
    with caplog.at_level(logging.WARNING, "holdcourse.service"):
        for second in (0, 1, 59, 61, 62):
            seconds[0] = float(second)
            log.add(HttpRefusal(429, "busy", ""), "no token", "10.0.0.1", "POST", "/x\n" * 100)
    assert len(caplog.messages) == 2
    assert caplog.messages[1].endswith("; 2 more since the line before")
    assert all("\n" not in message for message in caplog.messages)  # nobody writes lines of their own


def test_foreign_pages_are_in_the_log(url, caplog):
    with caplog.at_level(logging.WARNING, "holdcourse.service"), Client(url) as client:
        client.get("/controllers", headers={"Host": "evil.example"})
    assert any("403 foreign: no token, from 127.0.0.1" in message for message in caplog.messages)


def test_what_we_make_is_private(tmp_path):
    umask = os.umask(0o022)
    try:
        with served(tmp_path / "data") as url, Client(url) as client:
            client.create(id="a")
            tokens.make(tmp_path / "tokens.json", "", [], ["*"])
    finally:
        os.umask(umask)
    folders = [tmp_path / "data", tmp_path / "data" / "controllers", tmp_path / "data" / "controllers" / "a"]
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * 3
    files = [tmp_path / "data" / "holdcourse.lock", tmp_path / "tokens.json", tmp_path / ".tokens.json.lock"]
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600] * 3


def test_folders_and_tokens_that_others_may_read_are_a_warning(tmp_path, caplog):
    folder, file = tmp_path / "data", tmp_path / "tokens.json"
    DataFolder(folder).close()
    tokens.make(file, "", [], ["*"])
    with caplog.at_level(logging.WARNING, "holdcourse.service"):
        DataFolder(folder).close()
        tokens.Keyring(file)
        assert caplog.messages == []
        (folder / "controllers").chmod(0o755)
        file.chmod(0o640)
        DataFolder(folder).close()
        tokens.Keyring(file)
    assert f"may read {folder / 'controllers'}; prevent it with: chmod -R go= {folder}" in caplog.messages[0]
    assert f"may read {file}" in caplog.messages[1]
