"""Processes that share a record: each does what it is told, a line of JSON at a time.

``open`` forks a worker that opens the record; everything else is done by the worker, so that it can be killed without
anything being imported or compiled anew. Each answer says what was acknowledged, or how it was refused.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

from helpers.forking import Forked

import holdcourse as hc
from holdcourse.errors import HoldcourseError
from holdcourse.running import audit, operation

PROBLEM = hc.Problem([0.0, 0.25, 0.5, 0.75, 1.0])
LIMITS = hc.Limits(min_dwell=2, max_step=0.5)
PENDING = 3


def made(path):
    policy = hc.md_known(PROBLEM)
    return hc.Controller(policy, start_index=1, seed=5, log=path, limits=LIMITS, max_pending=PENDING)


def costs_of(round_number):
    return [(round_number * 7 + 3 * action) % 5 for action in range(PROBLEM.n)]


class Worker:
    """What a program with a controller may do to its record."""

    def __init__(self, path):
        self.path, self.controller = path, made(path)

    def ask(self):
        now = self.controller.round
        decision = self.controller.ask(costs=costs_of(now), round=now)
        return {"asked": [[decision.id, decision.action]]}

    def tell(self, decision, measurement, applied):
        self.controller.tell(decision, measurement, applied_index=applied)
        return {"told": [[decision, measurement, applied]]}

    def several(self, threads, rounds):
        """Threads that ask and tell as they please."""
        asked, told, failed = [], [], []

        def work():
            try:
                for _ in range(rounds):
                    now = self.controller.round
                    try:
                        decision = self.controller.ask(costs=costs_of(now), round=now)
                    except HoldcourseError:  # another was faster, or too many are pending
                        continue
                    asked.append([decision.id, decision.action])
                    try:
                        self.controller.tell(decision.id, float(now))
                        told.append([decision.id, float(now), None])
                    except hc.errors.Conflict:  # another thread got the same decision, and told it
                        pass
            except BaseException as error:
                failed.append(repr(error))

        started = [threading.Thread(target=work) for _ in range(threads)]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
        return {"asked": asked, "told": told, "failed": failed}

    def look(self):
        return {"verified": audit.verify(self.path).verified}

    def backup(self, target):
        self.controller.backup(target)
        return {"copied": self.controller.log.last}

    def close(self):
        self.controller.close()
        return {}


def work(path, incoming, outgoing):
    """The life of a worker."""
    operation.SNAPSHOT_EVERY = 6

    def answer(what):
        outgoing.write(json.dumps(what) + "\n")
        outgoing.flush()

    try:
        worker = Worker(path)
    except HoldcourseError as error:
        answer({"refused": str(error)})
        return
    answer({"opened": worker.controller.round})
    for line in incoming:
        name, arguments = json.loads(line)
        try:
            answer(getattr(worker, name)(*arguments))
        except HoldcourseError as error:
            answer({"refused": str(error)})
        if name == "close":
            return


def act(heard, said):
    """The life of a process that opens and loses the record again and again."""
    child = None
    for line in heard:
        name, arguments = json.loads(line)
        if name == "open":
            to_worker, from_worker = os.pipe(), os.pipe()
            child = os.fork()
            if child == 0:
                os.close(to_worker[1])
                os.close(from_worker[0])
                try:
                    with os.fdopen(to_worker[0]) as incoming, os.fdopen(from_worker[1], "w") as outgoing:
                        work(Path(arguments[0]), incoming, outgoing)
                finally:
                    os._exit(0)
            os.close(to_worker[0])
            os.close(from_worker[1])
            tell, hear = os.fdopen(to_worker[1], "w"), os.fdopen(from_worker[0])
            said.write(hear.readline())
            continue
        if name == "kill":
            os.kill(child, signal.SIGKILL)
            answer = "{}\n"
        else:
            tell.write(line)
            tell.flush()
            answer = hear.readline()
        if name in ("kill", "close"):
            os.waitpid(child, 0)  # before anybody hears of it: until then the record is held
            tell.close()
            hear.close()
        said.write(answer)


class Actor:
    """Such a process, from the outside."""

    def __init__(self):
        self._process = Forked(act)

    def __call__(self, name, *arguments):
        self._process.stdin.write(json.dumps([name, arguments]) + "\n")
        line = self._process.stdout.readline()
        assert line, f"the process failed at {name}"
        return json.loads(line)

    def end(self):
        self._process.end()
        assert self._process.returncode == 0
