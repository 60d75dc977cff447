"""Two programs with threads on one record, killed, copied and looked at, against a model that only remembers.

Whatever was acknowledged is in the record, once and as it was acknowledged; only one program writes at a time; no move
breaks a limit; every copy is a true beginning.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from helpers.actor import LIMITS, PROBLEM, Actor
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from oracles.limits import violations

from holdcourse.running import audit
from holdcourse.running.log import Log

pytestmark = pytest.mark.skipif(os.name != "posix", reason="forks and kills are those of POSIX")

PROGRAMS = st.sampled_from([0, 1])


class SharedRecord(RuleBasedStateMachine):
    """`actors` are two programs; `writer` is the one that has the record open, if any."""

    actors = ()

    @initialize()
    def begin(self):
        if not SharedRecord.actors:
            SharedRecord.actors = (Actor(), Actor())
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "record"
        self.writer, self.asked, self.told, self.copies = None, {}, {}, 0

    def do(self, name, *arguments):
        found = self.actors[self.writer](name, *arguments)
        assert found.get("failed", []) == []
        for decision, action in found.get("asked", ()):
            assert self.asked.setdefault(decision, action) == action, f"{decision} was decided twice"
        for decision, measurement, applied in found.get("told", ()):
            assert self.told.setdefault(decision, (measurement, applied)) == (measurement, applied)
        return found

    @rule(program=PROGRAMS)
    def open(self, program):
        if self.writer == program:
            return
        found = self.actors[program]("open", str(self.path))
        if self.writer is None:
            assert found == {"opened": len(self.asked)}
            self.writer = program
        else:
            assert "another controller writes to" in found["refused"]

    @precondition(lambda self: self.writer is not None)
    @rule()
    def ask(self):
        self.do("ask")

    @precondition(lambda self: self.writer is not None and set(self.asked) - set(self.told))
    @rule(data=st.data(), measurement=st.none() | st.floats(-5, 5), applied=st.none() | st.integers(0, 4))
    def tell(self, data, measurement, applied):
        decision = data.draw(st.sampled_from(sorted(set(self.asked) - set(self.told))))
        found = self.do("tell", decision, measurement, applied)
        assert "refused" not in found

    @precondition(lambda self: self.writer is not None)
    @rule(threads=st.integers(2, 4), rounds=st.integers(1, 4))
    def several_threads(self, threads, rounds):
        self.do("several", threads, rounds)

    @precondition(lambda self: self.writer is not None)
    @rule()
    def look_from_the_same_program(self):
        assert self.do("look") == {"verified": True}

    @precondition(lambda self: self.writer is not None)
    @rule()
    def copy(self):
        self.copies += 1
        target = self.folder / f"copy{self.copies}"
        found = self.do("backup", str(target))
        assert audit.verify(target).events == found["copied"]

    @precondition(lambda self: self.writer is not None)
    @rule(how=st.sampled_from(["kill", "close"]))
    def end(self, how):
        self.do(how)
        self.writer = None

    @invariant()
    def what_was_acknowledged_is_there(self):
        if not hasattr(self, "path") or not self.path.exists():
            return
        log = Log.read(self.path)
        events = list(log.events())
        log.close()
        asks = [event.body for event in events if event.kind == "ask"]
        tells = [event.body for event in events if event.kind == "tell"]
        assert [body.round for body in asks] == list(range(len(asks)))
        assert {body.id: body.action for body in asks} == self.asked
        assert len(tells) == len({body.id for body in tells})
        assert {body.id: (body.measurement, body.applied) for body in tells} == self.told
        self.no_limit_is_broken(events)

    def no_limit_is_broken(self, events):
        played = [1]
        for event in events:
            if event.kind == "ask":
                everywhere = np.ones(PROBLEM.n, dtype=bool)
                assert not violations(played, LIMITS, PROBLEM.distances, event.body.action, everywhere)
                played.append(event.body.action)
            elif event.kind == "tell" and event.body.applied is not None:
                played[int(event.body.id[1:]) + 1] = event.body.applied

    def teardown(self):
        if hasattr(self, "path"):
            if self.writer is not None:
                self.do("kill")
            if self.path.exists():
                assert audit.verify(self.path).verified
            shutil.rmtree(self.folder)


TestSharedRecord = SharedRecord.TestCase
TestSharedRecord.settings = settings(max_examples=max(5, settings().max_examples // 20), stateful_step_count=25)


@pytest.fixture(autouse=True, scope="module")
def programs_end():
    yield
    for actor in SharedRecord.actors:
        actor.end()
    SharedRecord.actors = ()
