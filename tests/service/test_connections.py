"""Connections of strangers: how long they are held, how many there may be, and what the log says of them."""

from __future__ import annotations

import logging
import socket
import time
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import urlsplit

import pytest
from service import running
from service.flooding import request
from service.running import Client, Process, served, wait_for
from typer.testing import CliRunner

from holdcourse.cli.root import app
from holdcourse.errors import InvalidInput
from holdcourse.service.core import tokens
from holdcourse.service.http import server
from holdcourse.service.http.app import create_app
from holdcourse.service.http.server import Bounds

HALF = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
POST = b"POST /controllers HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@contextmanager
def opened(url, count, first=b""):
    """So many connections, on which this has been sent."""
    address = urlsplit(url)
    with ExitStack() as stack:
        yield [stack.enter_context(connected(address, first)) for _ in range(count)]


def connected(address, first):
    connection = socket.create_connection((address.hostname, address.port), timeout=10)
    connection.sendall(first)
    return connection


def is_closed(connection):
    """Whether the other side has ended it."""
    connection.setblocking(False)
    try:
        while True:
            if not connection.recv(4096):
                return True
    except BlockingIOError:
        return False
    except OSError:
        return True


@pytest.fixture
def serving(tmp_path):
    with ExitStack() as stack:
        yield lambda **bounds: stack.enter_context(served(tmp_path / "data", bounds=Bounds(**bounds)))


def test_half_sent_headers_are_not_held(serving):
    url = serving(head_s=0.5)
    with opened(url, 100, HALF) as connections:
        began = time.monotonic()
        while time.monotonic() - began < 0.3:  # a byte now and then does not put it off
            with suppress(OSError):  # where opening all of them took long, it is closed already
                connections[0].sendall(b"x")
            time.sleep(0.05)
        assert connections[1].recv(100).startswith(b"HTTP/1.1 408")
        wait_for(lambda: all(map(is_closed, connections)), "all to be closed", 5.0)
        assert time.monotonic() - began < 5.0


def test_the_headers_of_a_second_request_are_not_held_either(serving):
    with opened(serving(head_s=0.3), 1, request("GET", "/healthz")) as (connection,):
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        connection.sendall(HALF)
        wait_for(lambda: is_closed(connection), "it to be closed", 4.0)  # keep-alive alone would take five seconds


def test_a_body_must_go_on_arriving(serving):
    url = serving(body_s=0.3, body_rate=1000)
    with opened(url, 3, POST % 20_000 + b"{") as (silent, slow, steady):
        for _ in range(20):
            for connection, more in ((slow, b" "), (steady, b" " * 999)):
                if not is_closed(connection):
                    connection.setblocking(True)
                    connection.sendall(more)
            time.sleep(0.05)
        assert is_closed(silent)
        assert is_closed(slow)
        steady.setblocking(True)
        steady.sendall(b" " * (20_000 - 1 - 20 * 999))
        assert steady.recv(100).startswith(b"HTTP/1.1 422")


def test_a_body_that_is_refused_unread_is_not_held(tmp_path):
    file = tmp_path / "tokens.json"
    tokens.make(file, "", ["admin"], ["*"])
    with (
        served(tmp_path / "data", file, Bounds(body_s=0.3)) as url,
        opened(url, 1, POST % 9999) as (connection,),
    ):
        assert connection.recv(4096).startswith(b"HTTP/1.1 401")
        for _ in range(20):
            if is_closed(connection):
                break
            connection.setblocking(True)
            connection.sendall(b" ")
            time.sleep(0.05)
        assert is_closed(connection)


def test_idle_connections_make_way_for_new_ones(serving):
    url = serving(total=60, per_address=40, head_s=60.0)
    with opened(url, 100, HALF) as connections, Client(url) as client:
        assert client.get("/healthz").status_code == 200
        wait_for(lambda: sum(map(is_closed, connections)) == 61, "the oldest to make way", 5.0)
        assert all(map(is_closed, connections[:61]))


def test_busy_connections_are_kept_and_new_ones_refused(serving):
    url = serving(total=30, per_address=20)
    with opened(url, 20, request("GET", "/events")) as streams:
        for stream in streams:
            assert stream.recv(100).startswith(b"HTTP/1.1 200")
        with opened(url, 1, request("GET", "/healthz")) as (one_more,):
            assert one_more.recv(100).startswith(b"HTTP/1.1 503")
        assert not any(map(is_closed, streams))
        streams[0].close()

        def served_again():
            with opened(url, 1, request("GET", "/healthz")) as (connection,):
                return connection.recv(100).startswith(b"HTTP/1.1 200")

        wait_for(served_again, "the place of the one that left", 5.0)


def test_of_a_proxy_only_the_total_is_bounded(serving):
    url = serving(total=30, per_address=5, proxies=frozenset({"127.0.0.1"}))
    with opened(url, 25, HALF) as connections, Client(url) as client:
        response = client.get("/healthz", headers={"X-Forwarded-For": "192.0.2.7"})
        assert response.status_code == 403  # there are no tokens here
        assert not any(map(is_closed, connections))


def test_whoever_takes_nothing_of_his_answer_is_let_go(serving):
    url = serving(stalled_s=0.3)
    address = urlsplit(url)
    with socket.socket() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.connect((address.hostname, address.port))
        with Client(url) as client:
            whole = len(client.get("/openapi.json").content)
        lazy.sendall(request("GET", "/openapi.json") * 300)  # more than the buffers on the way can hold
        time.sleep(1.5)
        lazy.settimeout(10)
        received = 0
        with suppress(ConnectionResetError):
            while chunk := lazy.recv(65536):
                received += len(chunk)
        assert received < 300 * whole


# -- descriptors and the log -------------------------------------------------------------------------------------------

FEW_FILES = """#!/bin/sh
ulimit -n {files} && exec {python} "$@"
"""


def test_strangers_leave_the_records_their_descriptors_and_the_log_short(tmp_path, monkeypatch):
    script = tmp_path / "python-with-few-files"
    script.write_text(FEW_FILES.format(files=256, python=running.sys.executable))
    script.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(running.sys, "executable", str(script))
        process = Process(tmp_path / "data", fresh=True)
    with process, opened(process.url, 350, HALF), Client(process.url) as client:
        client.create(id="a")
        for t in range(3):
            client.round("a", 0.1 * t, 1.0)
        with opened(process.url, 100, b"no HTTP at all\r\n\r\n"), Client(process.url) as another:
            assert another.see("a", "state")["round"] == 3
        _, errors = process.stop()
    assert len(errors) < 5000, errors[:2000]
    assert errors.count("Invalid HTTP request received") == 1


def test_one_line_of_a_kind_a_minute(caplog):
    now = [0.0]
    logger = logging.getLogger("holdcourse.test.noise")
    quiet = server.OncePerMinute(lambda: now[0])
    logger.addFilter(quiet)
    try:
        for minute in range(3):
            now[0] = minute * server.LOG_EVERY_S
            for number in range(10):
                logger.warning("request %d failed", number)
        logger.warning("another one\nwith details 1")
        logger.warning("another one\nwith details 2")
        more = "(9 more of this kind since the last such line)"
        assert [record.getMessage() for record in caplog.records] == [
            "request 0 failed",
            f"request 0 failed {more}",
            f"request 0 failed {more}",
            "another one\nwith details 1",
        ]
        caplog.clear()
        for name in ("mill", "kiln", "mill"):  # each record that cannot be opened is named
            logger.warning("%s", f"{name} cannot be opened")
        assert [record.getMessage() for record in caplog.records] == ["mill cannot be opened", "kiln cannot be opened"]
        caplog.clear()
        for number in range(1000):  # kinds without number must not fill the memory, nor the log
            logger.warning(f"kind {number}")
        assert len(caplog.records) <= server.LOG_KINDS
    finally:
        logger.removeFilter(quiet)


# -- proxies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via"])
def test_without_tokens_nothing_is_taken_from_a_proxy(client, header):
    assert client.get("/controllers").status_code == 200
    response = client.get("/controllers", headers={header: "192.0.2.7"})
    assert response.status_code == 403
    assert response.json()["error"]["code"] == "foreign"
    assert header.lower() in response.json()["error"]["message"]
    assert "holdcourse token make" in response.json()["error"]["message"]


def test_with_tokens_a_proxy_may_stand_before_it(tmp_path):
    file = tmp_path / "tokens.json"
    _, secret = tokens.make(file, "", ["admin"], ["*"])
    with served(tmp_path / "data", file) as url, Client(url, secret) as client:
        assert client.get("/controllers", headers={"X-Forwarded-For": "192.0.2.7"}).status_code == 200


def test_what_a_stranger_says_of_his_address_is_not_believed(tmp_path):
    application = create_app(tmp_path / "data")
    assert not server.configuration(application, Bounds()).proxy_headers
    behind = server.configuration(application, Bounds(proxies=frozenset({"127.0.0.1"})))
    assert behind.proxy_headers
    assert behind.forwarded_allow_ips == ["127.0.0.1"]
    application.state.controllers.store.close()


@pytest.mark.parametrize(("options", "words"), [(["127.0.0.1"], "--token-file"), (["nginx"], "not an address")])
def test_a_proxy_is_an_address_and_needs_tokens(tmp_path, options, words):
    tokens.make(tmp_path / "tokens.json", "", ["admin"], ["*"])
    given = ["serve", "--data", str(tmp_path / "data"), "--proxy", *options]
    if words == "not an address":
        given += ["--token-file", str(tmp_path / "tokens.json")]
    error = CliRunner(env={"NO_COLOR": "1"}).invoke(app, given).exception
    assert isinstance(error, InvalidInput)
    assert words in str(error)
    assert not (tmp_path / "data").exists()
