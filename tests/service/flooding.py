"""Floods: many connections that send the same request again and again, for a while."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from holdcourse.service.core import tokens
from holdcourse.service.core.configuration import settings_of
from holdcourse.service.core.data_folder import DataFolder
from holdcourse.service.core.epochs import begin
from holdcourse.service.core.hosted import Hosted
from holdcourse.service.core.requests import AskGiven, Config

RIGHTS = {"operator": ["admin"], "asks": ["ask"], "tells": ["ask", "tell"], "looks": ["read"]}


def folder_of(path, config, rounds_told):
    """A data folder with a controller that has been told many rounds, and tokens; the secrets by name."""
    store = DataFolder(path / "data")
    settings = Config.model_validate(config)
    begin(store, settings_of(settings), None)
    hosted = Hosted(store, settings.id)
    for t in range(rounds_told):
        decision = hosted.ask(AskGiven(context=[(t % 7) / 7]), None).answer["decision"]
        hosted.tell(decision, 1.0 + t / rounds_told)
    hosted.close()
    store.close()
    return {name: tokens.make(path / "tokens.json", name, scopes, ["*"])[1] for name, scopes in RIGHTS.items()}


def request(method, path, token=None, body=None):
    """A request as it goes over the wire."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += [] if token is None else [f"Authorization: Bearer {token}"]
    content = b"" if body is None else json.dumps(body).encode()
    lines += [] if body is None else ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    return "\r\n".join([*lines, "", ""]).encode() + content


@contextmanager
def flood(url, requests, connections=100, patience_s=0.2):
    """Send them again and again from many connections, whose clients leave when they are not answered at once."""
    address = urlsplit(url)
    given = {"host": address.hostname, "port": address.port, "connections": connections, "patience_s": patience_s}
    program = [sys.executable, str(Path(__file__).with_name("flooder.py"))]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdin.write(json.dumps(given | {"requests": [one.decode() for one in requests]}) + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "built up\n"
        yield
        process.stdin.close()
        assert json.loads(process.stdout.read())


def slowest_override(url, secret, name, seconds):
    """Take over, for so long, each time on a new connection; the longest time that one took."""
    address = urlsplit(url)
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    until, slowest, turn = time.monotonic() + seconds, 0.0, 0
    while time.monotonic() < until:
        turn += 1
        body = json.dumps({"setting_index": turn % 4, "reason": f"turn {turn}"})
        began = time.monotonic()
        with closing(HTTPConnection(address.hostname, address.port, timeout=30)) as operator:
            operator.request("POST", f"/controllers/{name}/override", body, headers)
            answer = operator.getresponse()
            state = json.loads(answer.read())
        slowest = max(slowest, time.monotonic() - began)
        assert answer.status == 200, state
        assert state["override"]["action"] == turn % 4
        time.sleep(0.05)
    return slowest
