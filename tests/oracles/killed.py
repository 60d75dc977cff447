"""A process that asks and tells with a log, killed with SIGKILL at random moments and started again.

Run as a program: ``killed.py RECORD KILLS SEED``. It forks one child after the other, so that nothing is imported or
compiled anew, and prints as JSON lines what the children said was done, each line written the moment it was.
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
from oracles.driving import POLICIES, answer, question

import holdcourse as hc
from holdcourse import archive, recording

NAME = "gp_md exact"
SNAPSHOT_EVERY = 12
EPISODE_ROUNDS = 9
LONGEST_LIFE = 0.06  # seconds


def made(log=None):
    return hc.Controller(
        POLICIES[NAME](), start=1, seed=3, log=log, limits=hc.Limits(2, 1.0, 3, 6)
    )  # a step that always reaches


def step(controller, say):
    """One round; `say` is called right after each call that returned."""
    if not controller.pending and controller.round // EPISODE_ROUNDS > controller.episode:
        controller.new_episode(controller.round % 6, force="wherever it is")
        say({"episode": controller.episode})
    now = controller.pending[0].round if controller.pending else controller.round
    decision = controller.ask(**question(NAME, now))
    say({"ask": now, "action": decision.action, "probabilities": archive.digest(decision.probabilities)})
    told = answer(decision)
    controller.tell(decision.id, **told)
    say({"tell": now, "measurement": told["measurement"], "applied": told.get("applied")})


def live(path, born):
    """The life of a child, until it is killed; it writes to `born` once it has opened the record."""

    def say(what):
        os.write(1, (json.dumps(what) + "\n").encode())

    controller = made(path)
    say({"opened": controller.round})
    os.write(born, b"!")
    while True:
        step(controller, say)


def main(path, kills, seed):
    recording.SNAPSHOT_EVERY = SNAPSHOT_EVERY
    warm = made()
    for _ in range(3):
        step(warm, lambda what: None)
    random = np.random.default_rng(seed)
    for _ in range(kills):
        reading, born = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                live(path, born)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)  # it never ends by itself
        os.close(born)
        if random.random() < 0.8:  # else it may be killed while it opens the record
            os.read(reading, 1)
        time.sleep(random.uniform(0, LONGEST_LIFE))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.close(reading)
        if not os.WIFSIGNALED(status):
            sys.exit("a child failed before it was killed")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
