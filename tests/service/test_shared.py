"""Several servers over one database: any of them answers for every controller, and one of them writes to each."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import ExitStack
from io import BytesIO
from zipfile import ZipFile

import httpx
import pytest
from helpers.postgres import Postgres
from service.running import QUICK, Client, served, wait_for
from service.shared_kills import Forking, Servers, killed_and_taken_over
from service.test_notifications import Receiver
from typer.testing import CliRunner

import holdcourse as hc
from holdcourse.cli.root import app
from holdcourse.cli.serve import share
from holdcourse.errors import InvalidInput
from holdcourse.service.core import tokens
from holdcourse.service.core.notices import load_notify

POSIX = pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")


@pytest.fixture
def database(postgres):
    return postgres.database()


@pytest.fixture(scope="module")
def forking():
    forking = Forking()
    yield forking
    forking.close()


@pytest.fixture
def two(database):
    """Clients of two servers, in threads."""
    with (
        served(database, lease=3.0) as one,
        served(database, lease=3.0) as two,
        Client(one) as first,
        Client(two) as second,
    ):
        yield first, second


def holders(postgres_address):
    """By controller, where it is answered for, and its fence."""
    import psycopg

    with psycopg.connect(postgres_address) as connection:
        found = connection.execute(
            "SELECT c.id, m.address, c.fence FROM holdcourse.controllers c "
            "JOIN holdcourse.members m ON m.id = c.holder WHERE m.expires > now()"
        )
        return {name: (address, fence) for name, address, fence in found}


def test_any_server_answers_for_every_controller(two, database):
    first, second = two
    first.create(id="a")
    asked = second.do("a", "ask", context=0.5, key="k")
    assert first.do("a", "ask", context=0.5, key="k") == asked
    assert second.do("a", "ask", context=0.5, key="k") == asked
    second.do("a", "tell", decision="r0", measurement=1.0)
    second.do("a", "override", setting_index=2, reason="look")
    second.change("a", scale=0.3)
    for what in ("state", "config", "decisions", "changes", "verify", "explain/r0"):
        assert first.see("a", what).keys() == second.see("a", what).keys()
    assert first.see("a", "decisions") == second.see("a", "decisions")
    assert second.see("a", "state")["epoch"] == 2
    assert second.do("a", "tell", decision="r9", measurement=1.0, status=404)["code"] == "unknown_decision"
    assert second.see("nobody", "state", status=404)["code"] == "unknown_controller"
    assert set(holders(database)) == {"a"}


def test_all_are_listed_whoever_holds_them(two, database):
    first, second = two
    for name in ("a", "b", "c", "d"):
        first.create(id=name)
    for client in two:
        assert [each["id"] for each in client.get("/controllers").json()["controllers"]] == ["a", "b", "c", "d"]
    # Each takes its share, one after the other, and goes on.
    wait_for(lambda: len({address for address, _ in holders(database).values()}) == 2, "the shares")
    wait_for(
        lambda: (
            sorted(address for address, _ in holders(database).values())
            == sorted([str(first.base_url).rstrip("/"), str(second.base_url).rstrip("/")] * 2)
        ),
        "two each",
    )
    wait_for(lambda: all(c.get("/readyz").status_code == 200 for c in two), "the controllers to be opened")
    for name in ("a", "b", "c", "d"):
        hc_round(first, name)
        hc_round(second, name)
        assert [row["round"] for row in first.see(name, "decisions")["decisions"]] == [0, 1]


def test_what_people_do_is_the_same_at_every_server(two):
    first, second = two
    first.create(id="a", name="A", zone="Europe/Berlin")
    first.round("a", 0.5, 1.0)
    second.change("a", zone="UTC", reason="moved")
    second.do("a", "episode", start=1.0)
    first.do("a", "archive", reason="out of use")
    assert first.see("a", "audit") == second.see("a", "audit")
    found = [deed["what"] for deed in second.see("a", "audit")["deeds"]]
    assert found == ["archive", "episode", "settings", "created"]
    exports = [client.get("/controllers/a/rounds.csv") for client in two]
    assert exports[0].status_code == 200
    assert exports[0].text == exports[1].text
    assert second.do("a", "ask", 409, context=0.5)["code"] == "put_away"
    for client in two:
        answer = client.delete("/controllers/a", params={"name": "A", "reason": "sold"})
        assert answer.status_code == 422
        assert "deletes nothing" in answer.json()["error"]["message"]
    assert second.do("a", "restore", reason="in use again")["archived"] is None


def test_a_silence_holds_at_every_server(database, tmp_path):
    (tmp_path / "notify.toml").write_text('[[webhook]]\nurl = "http://127.0.0.1:9/x"\n')
    notify, until = load_notify(tmp_path / "notify.toml"), "2100-01-01T00:00:00Z"
    with ExitStack() as stack:
        folders = [tmp_path / "1", tmp_path / "2"]
        urls = [stack.enter_context(served(database, lease=3.0, notify=notify, notes=notes)) for notes in folders]
        first, second = (stack.enter_context(Client(url)) for url in urls)
        first.create(id="a")
        first.create(id="b")

        def silences(client):
            return client.get("/notifications").json()["silences"]

        for name in ("a", "b"):
            assert first.post("/notifications/silences", json={"until": until, "controller": name}).status_code == 200
        assert len(silences(second)) == 2
        assert silences(first) == silences(second)
        assert second.delete(f"/notifications/silences/{silences(second)[0]['id']}").status_code == 200
        assert len(silences(first)) == len(silences(second)) == 1


def test_an_alarm_that_is_handed_over_is_not_said_to_be_over(database, tmp_path):
    receiver = Receiver()
    try:
        (tmp_path / "notify.toml").write_text(f'[[webhook]]\nurl = "{receiver.url}"\n')
        notify = load_notify(tmp_path / "notify.toml")
        with served(database, lease=3.0, notify=notify, notes=tmp_path / "1") as one, Client(one) as first:
            for name in ("a", "b"):
                first.create(id=name, deadline_s=0.2)
                first.round(name, 0.5, 1.0)
            wait_for(lambda: receiver.events("silent") == ["raised"] * 2, "the alarms to be told")
            with served(database, lease=3.0):
                wait_for(lambda: len({at for at, _ in holders(database).values()}) == 2, "one to be handed over")
                time.sleep(1.0)
                assert receiver.events("silent") == ["raised"] * 2
    finally:
        receiver.close()


def hc_round(client, name):
    """A round by our own client, which tries again where a controller is just being handed over."""
    with hc.connect(str(client.base_url), patience=10.0) as service:
        remote = service.controller(name)
        remote.tell(remote.ask(0.5).id, 1.0)


def test_created_by_two_servers_at_once_it_is_created_once(two):
    answers = []

    def create(client):
        answers.append(client.post("/controllers", json=QUICK | {"id": "a"}).status_code)

    threads = [threading.Thread(target=create, args=(client,)) for client in two * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [200, 200, 200, 201]
    assert two[1].create(id="a", scale=0.7, status=409)["code"] == "conflict"


def test_a_copy_from_any_server_is_a_data_folder(two, tmp_path):
    first, second = two
    first.create(id="a")
    first.round("a", 0.5, 1.0)
    first.change("a", scale=0.3)
    first.round("a", 0.5, 1.0)
    with ZipFile(BytesIO(second.get("/controllers/a/backup").content)) as copy:
        copy.extractall(tmp_path / "data")
    expected = [first.see("a", what) for what in ("config", "decisions")]
    with served(tmp_path / "data") as url, Client(url) as client:
        assert [client.see("a", what) for what in ("config", "decisions")] == expected
        assert client.see("a", "verify")["ok"]
        client.round("a", 0.5, 1.0)


def test_a_folder_is_copied_into_a_database_and_goes_on_there(database, tmp_path):
    with served(tmp_path / "data") as url, Client(url) as client:
        for name in ("a", "b"):
            client.create(id=name)
            for t in range(3):
                client.round(name, 0.1 * t, 1.0)
        client.change("a", scale=0.3)
        asked = client.do("a", "ask", context=0.7, key="k")
        before = [client.see("a", what) for what in ("state", "config", "decisions", "changes")]
        with pytest.raises(InvalidInput, match="another server uses"):
            share(tmp_path / "data", database)
    share(tmp_path / "data", database)
    share(tmp_path / "data", database)  # again changes nothing
    with served(database) as url, Client(url) as client:
        assert [client.see("a", what) for what in ("state", "config", "decisions", "changes")] == before
        assert client.do("a", "ask", context=0.7, key="k") == asked
        client.do("a", "tell", decision="r3", measurement=1.0)
        assert client.see("a", "verify", full=True)["ok"]
        assert hc.audit.verify(f"{database}#b").decisions == 3
    with pytest.raises(InvalidInput, match="or has continued since; nothing of it was copied"):
        share(tmp_path / "data", database)
    with pytest.raises(InvalidInput, match="there is no folder"):
        share(tmp_path / "nothing", database)


def test_fleets_stay_in_their_folder(database, tmp_path, capsys):
    config = {name: value for name, value in QUICK.items() if name != "id"} | {"id": "pumps", "count": 2}
    with served(tmp_path / "data") as url, Client(url) as client:
        client.checked(client.post("/fleets", json=config), 201)
    share(tmp_path / "data", database)
    assert f"These stay in {tmp_path / 'data'}: pumps" in capsys.readouterr().out
    with served(database) as url, Client(url) as client:
        refused = client.checked(client.post("/fleets", json=config), 422)
        assert "fleets are kept in a data folder" in refused["message"]
        asked = client.checked(client.post("/fleets/pumps/ask", json={"context": 0.5}), 404)
        assert "this service keeps its records in a database; start one with --data" in asked["message"]
        assert client.get("/fleets").json() == {"fleets": []}


def test_commands_take_an_address_for_a_record(two, database, tmp_path):
    two[0].create(id="a")
    two[0].round("a", 0.5, 1.0)
    ran = CliRunner().invoke(app, ["verify", f"{database}#a"])
    assert ran.exit_code == 0, ran.output
    assert "1 decision, 1 tell: verified" in ran.output
    ran = CliRunner().invoke(app, ["backup", f"{database}#a", str(tmp_path / "copy.db")])
    assert ran.exit_code == 0, ran.output
    assert hc.audit.verify(tmp_path / "copy.db").verified


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "say where to keep the records"),
        (["--database", "postgresql://h/n", "--notify", "alarms.toml"], "give --data FOLDER as well"),
        (["--database", "mysql://h/n"], "'mysql' is not a supported database"),
        (["--database", "postgresql://h/n", "--address", "here"], "--address must look like"),
        (["--database", "postgresql://h/n", "--address", "http://0.0.0.0:1"], "other servers cannot reach"),
        (["--database", "postgresql://127.0.0.1:1/n"], "cannot be used now"),
    ],
)
def test_what_cannot_be_served_is_said(given, words):
    ran = CliRunner().invoke(app, ["serve", "--port", "0", *given])
    assert ran.exit_code != 0
    assert words in str(ran.exception)


def test_tokens_hold_at_every_server(database, tmp_path):
    _, admin = tokens.make(tmp_path / "tokens", "admin", ["admin"], ["*"])
    _, other = tokens.make(tmp_path / "tokens", "other", ["ask"], ["b"])
    with served(database, tmp_path / "tokens") as one, served(database, tmp_path / "tokens") as two:
        with Client(one, admin) as first, Client(two, admin) as second:
            first.create(id="a")
            second.round("a", 0.5, 1.0)
            assert second.see("a", "decisions")["decisions"][0]["told_by"]["name"] == "admin"
        with Client(two) as stranger, Client(two, other) as third:
            assert stranger.see("a", "state", status=401)["code"] == "unauthorised"
            assert third.see("a", "state", status=403)["code"] == "forbidden"
            assert third.get("/controllers").json() == {"controllers": []}


def test_what_happens_is_streamed_from_wherever_it_happens(two):
    first, second = two
    first.create(id="a")
    for number, path in enumerate(("/controllers/a/events", "/events")):
        with second.stream("GET", path) as stream:
            lines = stream.iter_lines()
            assert next(lines) == ": connected"
            time.sleep(0.3)  # until it follows the other server, too
            first.do("a", "mode", mode="advise" if number else "shadow")
            assert next(line for line in lines if line.startswith("event")) == "event: mode"


def test_stopped_in_good_order_another_takes_over_at_once(database):
    with served(database) as two, Client(two) as second:
        with served(database) as one, Client(one) as first:
            first.create(id="a")
            first.round("a", 0.5, 1.0)
            before = first.see("a", "state")
        began = time.monotonic()
        assert second.see("a", "state") == before
        assert time.monotonic() - began < 5.0  # the lease is thirty


@POSIX
def test_started_again_at_its_address_it_goes_on_at_once(forking, database):
    """Whoever can listen there knows that the one before is gone: its lease need not be waited for."""
    with Servers(forking, database, 1, lease=60.0) as servers, Client(servers.urls[0]) as client:
        client.create(id="a")
        client.round("a", 0.5, 1.0)
        servers.kill(0)
        servers.start(0, port=servers.urls[0].rpartition(":")[2])
        hc_round(client, "a")
        assert [row["round"] for row in client.see("a", "decisions")["decisions"]] == [0, 1]


@POSIX
def test_one_that_was_stopped_for_longer_than_its_lease_writes_nothing(forking, database):
    """SIGSTOP in the middle of its work, and SIGCONT after another has taken over."""
    with Servers(forking, database, 2, lease=2.0) as servers:
        one, two = servers.urls
        with Client(one) as first, Client(two) as second:
            first.create(id="a", max_pending=1)
            for t in range(3):
                first.round("a", 0.1 * t, 1.0)
            asked = first.do("a", "ask", context=0.3)
            ((holder, fence),) = holders(database).values()
            assert holder == one
            os.kill(servers.pids[0], signal.SIGSTOP)
            answers = []

            def tell():  # it waits in the socket of the stopped process
                with Client(one) as late:
                    answers.append(late.post("/controllers/a/tell", json={"decision": "r3", "measurement": 7.0}))

            waiting = threading.Thread(target=tell)
            waiting.start()
            wait_for(lambda: second.get("/controllers/a/state").status_code == 200, "the take-over", 10.0)
            second.do("a", "tell", decision=asked["decision"], measurement=1.0)
            second.round("a", 0.5, 1.0)
            assert holders(database)["a"][1] == fence + 1
            os.kill(servers.pids[0], signal.SIGCONT)
            waiting.join()
            assert answers[0].status_code in (409, 503), answers[0].text  # told otherwise by then, or not its turn
            wait_for(lambda: first.get("/controllers/a/state").status_code == 200, "it to send requests on", 10.0)
            rows = first.see("a", "decisions")["decisions"]
            assert [row["round"] for row in rows] == [0, 1, 2, 3, 4]
            assert rows[3]["measurement"] == 1.0
            first.round("a", 0.6, 1.0)
            assert first.see("a", "verify", full=True)["ok"]


@POSIX
def test_without_the_database_nothing_is_acknowledged_and_it_comes_back_by_itself():
    server = Postgres()  # of its own: it is stopped
    try:
        address = server.database()
        with served(address, lease=4.0) as url, Client(url) as client:
            client.create(id="a")
            client.round("a", 0.5, 1.0)
            asked = client.do("a", "ask", context=0.6, key="k")
            server.stop()
            refused = client.do("a", "tell", decision="r1", measurement=2.0, status=503)
            assert refused["code"] == "no_database"
            assert "cannot be used now" in refused["message"]
            assert client.do("a", "mode", mode="advise", reason="x", status=503)["code"] == "no_database"
            assert client.create(id="b", status=503)["code"] == "no_database"
            assert client.get("/readyz").json()["status"] == "cut_off"
            time.sleep(4.1)  # now it cannot be sure any more what others have done
            assert client.see("a", "state", status=503)["code"] == "no_database"
            server.start()
            wait_for(lambda: client.get("/controllers/a/state").status_code == 200, "the service to come back", 15.0)
            assert client.do("a", "ask", context=0.6, key="k") == asked
            assert client.see("a", "state")["mode"] == "act"
            client.do("a", "tell", decision="r1", measurement=3.0)
            assert client.see("a", "verify", full=True)["ok"]
            client.create(id="b")
    finally:
        server.close()


@POSIX
def test_killed_another_takes_over_and_nothing_is_lost_or_decided_twice(forking, database, record_property):
    """A few times; tests/slow/test_shared_kills.py does it three hundred times."""
    found = killed_and_taken_over(forking, database, kills=3, servers=2, lease=1.0, seed=3)
    record_property("take-overs after kill -9", found)


def test_a_holder_that_is_gone_is_said_to_be(database):
    with served(database, lease=30.0) as url, Client(url) as client:
        import psycopg

        client.create(id="a")
        wait_for(lambda: holders(database), "the lease")
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO holdcourse.members VALUES ('gone', 'http://127.0.0.1:9', now() + interval '60 s')"
            )
            connection.execute("UPDATE holdcourse.controllers SET holder = 'gone', fence = fence + 1")
        refused = client.do("a", "ask", context=0.5, status=503)
        assert refused["code"] == "held_elsewhere"
        response = client.post("/controllers/a/ask", json={"context": 0.5})
        assert response.status_code == 503
        assert response.headers["Retry-After"] == "1"
        assert "http://127.0.0.1:9" in client.see("a", "state", status=503)["message"]
        listed = client.get("/controllers").json()["controllers"]
        assert [(each["id"], each["message"]) for each in listed] == [
            ("a", "the process that holds it does not answer now")
        ]
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("DELETE FROM holdcourse.members WHERE id = 'gone'")
        wait_for(lambda: client.post("/controllers/a/ask", json={"context": 0.5}).status_code == 200, "the take-over")
        with pytest.raises(httpx.HTTPStatusError):
            client.get("/controllers/b/state").raise_for_status()
