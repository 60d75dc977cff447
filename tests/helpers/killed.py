"""A process that asks and tells with a log, killed with SIGKILL at random moments and started again.

Run as a program: ``killed.py RECORD KILLS SEED POLICY``. It forks one child after the other, so that nothing is
imported or compiled anew, and prints as JSON lines what the children said was done, each line written the moment it
was. Meanwhile another child reads the record, verifies it and copies it; it is killed now and then as well, and it and
the controllers look at the record in the process that writes it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

import numpy as np
from helpers.driving import POLICIES, answer, question

import holdcourse as hc
from holdcourse.running import audit, operation
from holdcourse.running.events import digest
from holdcourse.running.log import Log

NAME = "gp_md exact"
SNAPSHOT_EVERY = 12
EPISODE_ROUNDS = 9
LONGEST_LIFE = 0.06  # seconds
KILLS_OF_A_READER = 7  # kills between two of the one that reads


def made(log=None, policy=NAME):
    return hc.Controller(
        POLICIES[policy](), start_index=1, seed=3, log=log, limits=hc.Limits(2, 1.0, 3, 6)
    )  # a step that always reaches


def step(controller, say):
    """One round; `say` is called right after each call that returned."""
    if not controller.pending and controller.round // EPISODE_ROUNDS > controller.episode:
        controller.new_episode(start_index=controller.round % 6, force="wherever it is")
        say({"episode": controller.episode})
    now = controller.pending[0].round if controller.pending else controller.round
    decision = controller.ask(**question(NAME, now))
    say({"ask": now, "action": decision.action, "probabilities": digest(decision.probabilities)})
    told = answer(decision)
    controller.tell(decision.id, **told)
    say({"tell": now, "measurement": told["measurement"], "applied": told.get("applied_index")})


def say(what):
    """A line that is out when this returns."""
    os.write(1, (json.dumps(what) + "\n").encode())


def live(path, policy, born):
    """The life of a child, until it is killed; it writes to `born` once it has opened the record."""
    controller = made(path, policy)
    say({"opened": controller.round})
    os.write(born, b"!")
    while True:
        step(controller, say)
        if controller.round % 5 == 0:  # somebody in the same process only looks
            Log.read(path, checked=False).close()


def look(path):
    """Read, verify and copy the record, again and again; whatever is there must be whole."""
    copy = path.with_name(f"copy-{os.getpid()}")
    while True:
        if path.exists():
            Log.read(path).close()
            if audit.verify(path).verified is not True:
                raise AssertionError("what is there does not verify")
            events = audit.backup(path, copy)
            if Log.read(copy).last != events:
                raise AssertionError("a copy is not what it says")
            copy.unlink()
            say({"looked": events})
        time.sleep(0.05)


def forked(life, *arguments):
    """A child that never ends by itself."""
    child = os.fork()
    if child == 0:
        try:
            life(*arguments)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return child


def kill(child):
    """End it at once; an error where it had failed before."""
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        sys.exit("a child failed before it was killed")


def main(path, kills, seed, policy):
    operation.SNAPSHOT_EVERY = SNAPSHOT_EVERY
    warm = made(policy=policy)
    for _ in range(3):
        step(warm, lambda what: None)
    random = np.random.default_rng(seed)
    looking = forked(look, path)
    for number in range(kills):
        if number % KILLS_OF_A_READER == KILLS_OF_A_READER - 1:
            kill(looking)
            looking = forked(look, path)
        reading, born = os.pipe()
        child = forked(live, path, policy, born)
        os.close(born)
        if random.random() < 0.8:  # else it may be killed while it opens the record
            os.read(reading, 1)
        time.sleep(random.uniform(0, LONGEST_LIFE))
        kill(child)
        os.close(reading)
    kill(looking)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
