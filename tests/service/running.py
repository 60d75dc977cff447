"""Servers to test against: in a thread of this process, or as a process of its own that can be killed."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import httpx
from helpers.prepared import prepared
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.running.log import Log
from holdcourse.service.core.ledger import Ledger
from holdcourse.service.core.shared_store import SharedStore
from holdcourse.service.http.app import create_app
from holdcourse.service.http.server import Bounds, Server

KERNEL = hc.Kernel(RBF(1.0), RBF(0.5))
QUICK = {  # nothing is fitted, so a round takes about as long as its commit
    "id": "quick",
    "actions": [0.0, 1.0, 2.0, 3.0],
    "scale": 0.1,
    "seed": 3,
    "policy": "gp-md",
    "options": {"kernel": KERNEL.to_json(), "noise_std": 0.1, "context_bounds": [[0.0, 1.0]]},
}


class Client(httpx.Client):
    """An HTTP client with words for what tests do most."""

    def __init__(self, url, token=None):
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        super().__init__(base_url=url, headers=headers, timeout=30.0, trust_env=False, verify=False)

    def create(self, status=201, **config):
        return self.checked(self.followed(self.post("/controllers", json=QUICK | config)), status)

    def do(self, name, what, status=200, key=None, **body):
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.checked(self.post(f"/controllers/{name}/{what}", json=body, headers=headers), status)

    def see(self, name, what, status=200, **query):
        return self.checked(self.followed(self.get(f"/controllers/{name}/{what}", params=query)), status)

    def followed(self, response):
        """The answer that a request comes to; of one that became a job, once it is over."""
        if response.status_code != 202:
            return response
        while (job := self.get(response.headers["Location"], headers={"Prefer": "wait=10"}).json())["status"] is None:
            pass
        said = job["result"] if job["error"] is None else {"error": job["error"]}
        return httpx.Response(job["status"], json=said)

    def change(self, controller, status=200, key=None, **settings):
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.checked(self.patch(f"/controllers/{controller}", json=settings, headers=headers), status)

    def ledger(self, name):
        """What its newest record books, whatever is shown of it."""
        with tempfile.TemporaryDirectory() as folder:
            with ZipFile(BytesIO(self.get(f"/controllers/{name}/backup").content)) as copy:
                copy.extractall(folder)
            log, ledger = Log.read(max(Path(folder).rglob("epoch-*.db"))), Ledger()
            for event in log.events():
                ledger.take_in(event)
            log.close()
        return ledger

    def saved(self, name):
        """What it believes to have saved, against staying and against fixed; None where it cannot say."""
        sums = self.ledger(name).sums
        return tuple(None if found is None else found.saved for found in (sums.estimated_staying, sums.estimated_fixed))

    def round(self, name, context, measurement, **body):
        """Ask and tell; returns the decision."""
        decision = self.do(name, "ask", context=context)
        self.do(name, "tell", decision=decision["decision"], measurement=measurement, **body)
        return decision

    def checked(self, response, status):
        assert response.status_code == status, response.text
        found = response.json()
        if status >= 400:
            assert set(found) == {"error"}
            assert found["error"]["code"]
            assert found["error"]["message"]
            return found["error"]
        return found


@contextmanager
def served(data, token_file=None, bounds=Bounds(), clock=None, lease=30.0, notify=None, notes=None):  # noqa: B008 - it is frozen
    """A server in a thread, over a folder or the address of a database; yields its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    if isinstance(data, str):
        data = SharedStore(data, f"http://127.0.0.1:{listener.getsockname()[1]}", lease, notes)
    app = create_app(data, token_file, clock, notify=notify)
    server = Server(app, listener, bounds)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_for(lambda: server.started, "the server to start")
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


class Process:
    """A server in a process of its own; `fresh`: in an interpreter that has imported nothing yet, as a user runs it."""

    def __init__(self, data, *options, port=0, ready=True, fresh=False):
        kept = "--database" if isinstance(data, str) else "--data"
        words, environment = ["serve", kept, str(data), "--port", str(port), *options], {**os.environ, "NO_COLOR": "1"}
        if fresh or not sys.platform.startswith("linux"):
            command = [sys.executable, "-c", "from holdcourse.cli import main; main()", *words]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            self.started = subprocess.Popen(command, **pipes, text=True, env=environment)
        else:
            self.started = prepared(json.dumps(KERNEL.to_json())).start(*words, environment=environment)
        line = self.started.stdout.readline()
        found = re.search(r"http://\S+", line)
        if found is None:
            raise AssertionError(f"the server did not start: {line}{self.started.stderr.read()}")
        self.url = found[0]
        if ready:
            with Client(self.url) as client:
                wait_for(lambda: client.get("/readyz").status_code == 200, "the controllers to be opened")

    def kill(self):
        """As a power cut."""
        self.started.kill()
        return self._ended()

    def stop(self):
        """As a service manager does."""
        self.started.send_signal(signal.SIGTERM)
        return self._ended()

    def _ended(self):
        _, errors = self.started.communicate(timeout=30)
        return self.started.returncode, errors

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.started.poll() is None:
            self.kill()
        for pipe in (self.started.stdout, self.started.stderr):
            pipe.close()


def wait_for(condition, what, seconds=120.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"waited {seconds} s for {what}"
        time.sleep(0.01)
