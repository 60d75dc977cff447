"""The command line in another process without the time that a program needs to start.

A process that has imported everything, and loaded the compiled kernels, forks one for each command. What a command
does from its first line to its last, signals and its end included, is what it does in a program of its own.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import cache
from select import select

FORKING = """
import json, os, signal, socket, sys

import uvicorn

import holdcourse as hc
import holdcourse.cli.root, holdcourse.cli.serve, holdcourse.service.http.app
import holdcourse.service.core.shared_store

kernel = hc.Kernel.from_json(json.loads(sys.argv[2]))
policy = hc.gp_md(hc.Problem([0.0, 1.0]), kernel=kernel, noise_std=0.1, context_bounds=[[0.0, 1.0]])
warm = hc.Controller(policy)
for _ in range(2):
    warm.tell(warm.ask([0.5]).id, 1.0)
orders = socket.socket(fileno=int(sys.argv[1]))
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    order, files, _, _ = socket.recv_fds(orders, 2**20, 3)
    if not order:
        sys.exit()
    if os.fork() == 0:  # one that waits for the other, and says how it ended
        break
    for file in files:
        os.close(file)
orders.close()
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
process = os.fork()
if process:
    os.close(files[0]), os.close(files[1])
    os.write(files[2], b"%d\\n" % process)
    os.write(files[2], b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
    os._exit(0)
os.close(files[2])
for number in (1, 2):
    os.dup2(files[number - 1], number)
    os.close(files[number - 1])
given = json.loads(order)
os.environ.clear()
os.environ.update(given["environment"])
sys.argv = ["holdcourse", *given["arguments"]]
holdcourse.cli.main()
"""


class Prepared:
    """The process that forks."""

    def __init__(self, kernel):
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-c", FORKING, str(theirs.fileno()), json.dumps(kernel)]
        self._process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), env={**os.environ, "NO_COLOR": "1"})
        theirs.close()
        self._owner = os.getpid()
        atexit.register(self.close)

    def start(self, *arguments, environment):
        """Run a command."""
        pipes = [os.pipe() for _ in range(3)]
        order = {"arguments": arguments, "environment": environment}
        socket.send_fds(self._orders, [json.dumps(order).encode()], [there for _, there in pipes])
        for _, there in pipes:
            os.close(there)
        return Running(*(here for here, _ in pipes))

    def close(self):
        if os.getpid() != self._owner:  # of a process that was forked from ours
            return
        self._orders.shutdown(socket.SHUT_RDWR)  # whoever else was forked and has it, too
        self._orders.close()
        self._process.wait(30)


@cache
def prepared(kernel):
    """The one of this process; `kernel` is the one, as JSON, whose posterior servers have ready."""
    return Prepared(json.loads(kernel))


class Running:
    """A command that runs; what is used of `subprocess.Popen`."""

    def __init__(self, output, errors, ending):
        self.stdout, self.stderr = os.fdopen(output), os.fdopen(errors)
        self._ending = os.fdopen(ending, "rb", buffering=0)
        self.pid, self.returncode = int(self._ending.readline()), None

    def poll(self):
        """How it has ended; None while it runs."""
        return self.wait() if self.returncode is None and select([self._ending], [], [], 0)[0] else self.returncode

    def wait(self):
        """Wait until it has ended."""
        if self.returncode is None:
            self.returncode = int(self._ending.readline())
            self._ending.close()
        return self.returncode

    def send_signal(self, number):
        """Send it a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def terminate(self):
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def communicate(self, timeout):
        """Read all that it says until it has ended, and others that have its pipes."""
        said = {}
        listening = [
            threading.Thread(target=lambda name=name: said.setdefault(name, getattr(self, name).read()), daemon=True)
            for name in ("stdout", "stderr")
        ]
        for thread in listening:
            thread.start()
        until = time.monotonic() + timeout
        for thread in listening:
            thread.join(max(0.0, until - time.monotonic()))
            assert not thread.is_alive(), f"it has not ended within {timeout} s"
        self.wait()
        self.stdout.close()
        self.stderr.close()
        return said["stdout"], said["stderr"]
