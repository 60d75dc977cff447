"""Tokens: made and revoked on the command line, checked at every address."""

from __future__ import annotations

import json
import socket
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from service.running import Client, Process, served
from typer.testing import CliRunner

from holdcourse.cli.root import app
from holdcourse.errors import DamagedFile, InvalidInput
from holdcourse.service.core import tokens
from holdcourse.service.core.status import Clock


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """A server with tokens: its address, the token file, and secrets by name."""
    folder = tmp_path_factory.mktemp("secured")
    file = folder / "tokens.json"
    wanted = {
        "admin": (["admin"], ["*"]),
        "asks": (["ask"], ["a"]),
        "tells": (["tell"], ["a"]),
        "looks": ([], ["a"]),
        "other": (["admin"], ["b"]),
    }
    secrets = {name: tokens.make(file, name, *rights)[1] for name, rights in wanted.items()}
    with served(folder / "data", file) as url:
        with Client(url, secrets["admin"]) as client:
            client.create(id="a")
            client.create(id="b")
        yield url, file, secrets


@pytest.fixture
def as_(secured):
    url, _, secrets = secured
    opened = []

    def client(name):
        opened.append(Client(url, secrets.get(name, name)))
        return opened[-1]

    yield client
    for one in opened:
        one.close()


def test_strangers_are_turned_away_before_their_options_are_looked_at(as_):
    assert as_("hc_wrong").get("/controllers?colour=red").status_code == 401
    assert as_("looks").get("/controllers?colour=red").status_code == 422


READING = ("state", "config", "decisions", "field", "alarms", "changes", "verify", "explain/r0")


@pytest.mark.parametrize("token", [None, "hc_wrong", "looks", "x" * 10_000])
def test_without_a_valid_token_nothing_is_served(secured, token):
    with Client(secured[0], token) as client:
        for address in (*READING, "backup", "events"):
            assert client.see("a", address, status=401)["code"] == "unauthorised"
        for address in ("/controllers", "/metrics", "/events"):
            response = client.get(address)
            assert response.status_code == 401
            assert response.headers["www-authenticate"] == "Bearer"
        for what in ("ask", "tell", "skip", "mode", "override", "episode"):
            client.do("a", what, status=401)
        client.create(id="c", status=401)
        client.change("a", status=401)
        for address in ("/healthz", "/readyz", "/"):
            assert client.get(address).status_code == 200


def test_another_controllers_token_is_refused(as_):
    other = as_("other")
    for address in (*READING, "backup", "events"):
        assert other.see("a", address, status=403)["code"] == "forbidden"
    other.do("a", "ask", context=0.5, status=403)
    other.create(id="c", status=403)
    other.see("nobody", "state", status=403)  # and it does not learn who exists
    assert [row["id"] for row in other.get("/controllers").json()["controllers"]] == ["b"]
    assert 'controller="a"' not in other.get("/metrics").text
    other.see("b", "state")
    other.create(id="b", status=200)


def test_scopes(as_):
    asks, tells, looks, admin = (as_(name) for name in ("asks", "tells", "looks", "admin"))
    for client in (tells, looks):
        assert "needs a token with ask" in client.do("a", "ask", context=0.5, status=403)["message"]
    asks.do("a", "ask", context=0.5)
    for client in (asks, looks):
        client.do("a", "tell", decision="r0", measurement=1.0, status=403)
        client.do("a", "skip", decision="r0", status=403)
    tells.do("a", "tell", decision="r0", measurement=1.0)
    for client in (asks, tells, looks):
        for what in ("mode", "override", "episode"):
            client.do("a", what, status=403)
        client.change("a", status=403)
        client.see("a", "backup", status=403)
        for address in READING:
            client.see("a", address)
    admin.do("a", "ask", context=0.5)
    admin.do("a", "skip", decision="r1")
    admin.do("a", "mode", mode="act")


def test_who_may_not_create_is_refused_before_the_body_is_read(as_):
    for name in ("asks", "tells", "looks"):
        response = as_(name).post("/controllers", content=b"no JSON", headers={"Content-Type": "text/plain"})
        assert response.status_code == 403
        assert "needs a token with admin" in response.json()["error"]["message"]


def test_a_revoked_token_is_refused_at_once(secured):
    url, file, _ = secured
    token, secret = tokens.make(file, "short", ["ask"], ["a"])
    with Client(url, secret) as client:
        assert client.see("a", "state")["id"] == "a"
        tokens.revoke(file, token.id)
        assert "revoked" in client.see("a", "state", status=401)["message"]


def test_the_file_holds_no_secret_and_is_private(secured):
    _, file, secrets = secured
    assert not any(secret in file.read_text() for secret in secrets.values())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(next(iter(secrets.values()))) > 40


def test_the_description_says_that_tokens_are_needed(as_):
    found = as_("looks").get("/openapi.json").json()
    assert found["components"]["securitySchemes"] == {"token": {"type": "http", "scheme": "bearer"}}
    assert found["paths"]["/controllers/{id}/ask"]["post"]["security"] == [{"token": []}]
    assert "security" not in found["paths"]["/healthz"]["get"]


def test_wrong_token_files(tmp_path):
    file = tmp_path / "tokens.json"
    with pytest.raises(InvalidInput, match="there is no token file"):
        tokens.Keyring(file)
    file.write_text("{}")
    with pytest.raises(DamagedFile, match="damaged, or is not a token file"):
        tokens.Keyring(file)
    token = {"id": "1", "name": "", "scopes": [], "controllers": [], "made": "", "sha256": None, "former": []}
    file.write_text(json.dumps({"format": 1, "tokens": [token]}))
    with pytest.raises(DamagedFile, match="a field of token 1 is not text"):
        tokens.Keyring(file)
    file.write_text('{"format": 9, "tokens": []}')
    with pytest.raises(InvalidInput, match="format 9"):
        tokens.Keyring(file)
    with pytest.raises(InvalidInput, match="scope 'drive' is not known"):
        tokens.make(tmp_path / "other", "", ["drive"], ["*"])
    with pytest.raises(InvalidInput, match=r"there is no folder .*missing; create it first"):
        tokens.make(tmp_path / "missing" / "tokens.json", "", ["ask"], ["*"])
    with pytest.raises(InvalidInput, match="not a controller's id"):
        tokens.make(tmp_path / "other", "", ["ask"], ["../a"])


def test_a_token_file_that_is_damaged_later_lets_nobody_in_and_is_not_named(tmp_path):
    file = tmp_path / "tokens.json"
    _, secret = tokens.make(file, "", ["admin"], ["*"])
    good = file.read_text()
    with served(tmp_path / "data", file) as url, Client(url, secret) as client:
        client.create(id="a")
        with client.stream("GET", "/events") as stream:
            lines = stream.iter_lines()
            next(lines)
            file.write_text("{")
            assert client.see("a", "state", status=503)["code"] == "no_tokens"
            assert str(tmp_path) not in client.get("/controllers").text
            file.unlink()
            assert client.see("a", "state", status=503)["code"] == "no_tokens"
            file.write_text(good)
            client.see("a", "state")


def test_tokens_made_and_revoked_at_once_do_not_undo_each_other(tmp_path):
    file = tmp_path / "tokens.json"
    old = [tokens.make(file, "old", ["ask"], ["*"])[0] for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        gone = [pool.submit(tokens.revoke, file, token.id) for token in old]
        made = [pool.submit(tokens.make, file, "new", ["ask"], ["*"]) for _ in range(8)]
        assert {future.result().id for future in gone} == {token.id for token in old}
        kept = {future.result()[0].id for future in made}
    assert {token.id for token in tokens.read(file)} == kept


def command(*arguments, code=0):
    """Run a command in this process; what it raises is what `main` would print."""
    done = CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1"}).invoke(app, arguments)
    assert done.exit_code == code, done.output
    return done


def test_the_command_line(tmp_path):
    file = str(tmp_path / "tokens.json")
    secret = command("token", "make", "--token-file", file, "--name", "scada", "--controller", "a").stdout.strip()
    made = json.loads(command("token", "make", "--token-file", file, "--scope", "admin", "--json").stdout)
    listed = json.loads(command("token", "list", "--token-file", file, "--json").stdout)
    assert [(t["name"], t["scopes"], t["controllers"]) for t in listed] == [
        ("scada", ["ask", "tell"], ["a"]),
        ("", ["admin"], ["*"]),
    ]
    assert tokens.Keyring(tmp_path / "tokens.json").find(secret).token.id == listed[0]["id"]
    assert "scada" in command("token", "list", "--token-file", file).stdout
    assert "revoked" in command("token", "revoke", made["id"], "--token-file", file).stdout
    refused = str(command("token", "revoke", "scada", "--token-file", file, code=1).exception)
    assert refused.endswith(f"has no token with the id 'scada'; its tokens are {listed[0]['id']} (scada)")


def test_expiry_and_rotation_on_the_command_line(tmp_path):
    file = str(tmp_path / "tokens.json")
    made = json.loads(command("token", "make", "--token-file", file, "--expires", "90d", "--json").stdout)
    (listed,) = json.loads(command("token", "list", "--token-file", file, "--json").stdout)
    assert listed["expires"] == made["expires"]
    assert made["expires"][:10] in command("token", "list", "--token-file", file).stdout
    new = command("token", "rotate", made["id"], "--token-file", file, "--overlap", "2h")
    assert made["id"] in new.stderr
    (listed,) = json.loads(command("token", "list", "--token-file", file, "--json").stdout)
    assert len(listed["former_until"]) == 1
    assert "the previous secret works until" in command("token", "list", "--token-file", file).stdout
    keyring = tokens.Keyring(tmp_path / "tokens.json")
    assert {keyring.find(secret).token.id for secret in (made["token"], new.stdout.strip())} == {made["id"]}
    command("token", "make", "--token-file", file)
    assert "never" in command("token", "list", "--token-file", file).stdout


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("soon", "is neither a date"),
        ("90", "is neither a date"),
        ("0d", "is neither a date"),
        ("2020-01-01", "has passed"),
    ],
)
def test_a_wrong_time_is_refused_and_changes_nothing(tmp_path, given, words):
    file = tmp_path / "tokens.json"
    token, secret = tokens.make(file, "", ["ask"], ["*"])
    before = file.read_bytes()
    for change in (
        lambda: tokens.make(file, "", ["ask"], ["*"], given),
        lambda: tokens.rotate(file, token.id, expires=given),
        lambda: tokens.rotate(file, token.id, overlap=given),
    ):
        with pytest.raises(InvalidInput, match=words):
            change()
    assert file.read_bytes() == before
    assert tokens.Keyring(file).find(secret).over is None


class Later(Clock):
    """A clock that the test sets."""

    def __init__(self):
        self.days = 0.0
        super().__init__(lambda: time.time() + 86400 * self.days)


def test_an_expired_token_is_refused_with_words(tmp_path):
    file, clock = tmp_path / "tokens.json", Later()
    token, secret = tokens.make(file, "scada", ["admin"], ["*"], "90d")
    with served(tmp_path / "data", file, clock=clock) as url, Client(url, secret) as client:
        client.create(id="a")
        clock.days = 91
        error = client.see("a", "state", status=401)
        assert error["code"] == "expired"
        assert token.expires in error["message"]
        with pytest.raises(InvalidInput, match="expired at"):
            tokens.rotate(_aged(file), token.id)
        new = tokens.rotate(file, token.id, expires="2999-01-01")[1]
        with Client(url, new) as renewed:
            renewed.see("a", "state")


def _aged(file):
    """The file, as if all its tokens had expired already."""
    found = json.loads(file.read_text())
    for token in found["tokens"]:
        token["expires"] = "2020-01-01T00:00:00+00:00"
    file.write_text(json.dumps(found))
    return file


def test_after_a_rotation_the_old_secret_works_until_the_overlap_ends(tmp_path):
    file, clock = tmp_path / "tokens.json", Later()
    token, old = tokens.make(file, "scada", ["admin"], ["*"])
    with served(tmp_path / "data", file, clock=clock) as url, Client(url, old) as client:
        client.create(id="a")
        rotated, new = tokens.rotate(file, token.id, "48h")
        assert (rotated.id, rotated.name, rotated.scopes) == (token.id, token.name, token.scopes)
        client.see("a", "state")
        with Client(url, new) as renewed:
            renewed.see("a", "state")
            clock.days = 3
            renewed.see("a", "state")
        assert "given a new secret" in client.see("a", "state", status=401)["message"]
        clock.days = 0
        newest = tokens.rotate(file, token.id, "0")[1]
        with Client(url, new) as gone, Client(url, newest) as present:
            gone.see("a", "state", status=401)
            present.see("a", "state")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        tokens.revoke(file, token.id)
        client.see("a", "state", status=401)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_other_addresses_need_tokens(tmp_path, host):
    error = command("serve", "--data", str(tmp_path / "data"), "--host", host, code=1).exception
    assert isinstance(error, InvalidInput)
    assert "--token-file" in str(error)
    assert not (tmp_path / "data").exists()


def test_serving_on_all_addresses_with_tokens(tmp_path):
    _, secret = tokens.make(tmp_path / "tokens.json", "", ["admin"], ["*"])
    options = ("--host", "0.0.0.0", "--token-file", str(tmp_path / "tokens.json"))
    with (
        Process(tmp_path / "data", *options, fresh=True) as server,
        Client(server.url.replace("0.0.0.0", "127.0.0.1"), secret) as c,
    ):
        c.create(id="a")
        assert server.stop()[0] in (0, -15)


def test_a_missing_extra_is_named_with_the_command_that_installs_it(tmp_path):
    code = "import sys; sys.modules['fastapi'] = None; from holdcourse.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "serve", "--data", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert 'pip install "holdcourse[serve]"' in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_port_in_use_is_an_error_that_says_so(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        error = command("serve", "--data", str(tmp_path / "data"), "--port", port, code=1).exception
    assert f"cannot listen on 127.0.0.1, port {port}" in str(error)
    assert not (tmp_path / "data").exists()
