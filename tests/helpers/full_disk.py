"""A controller on a disk that is full for a while: run as a program, ``full_disk.py FOLDER``; prints what it saw.

The largest file size that the process may write stands for the size of the disk.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from pathlib import Path

from helpers.driving import POLICIES, answer, question, seen, state_of

import holdcourse as hc
from holdcourse.errors import HoldcourseError

NAME = "gp_md exact"
_, HARD = resource.getrlimit(resource.RLIMIT_FSIZE)


def size_of_disk(largest_file):
    resource.setrlimit(resource.RLIMIT_FSIZE, (HARD if largest_file is None else largest_file, HARD))


def attempt(call):
    try:
        call()
    except HoldcourseError as error:
        return type(error).__name__, str(error)
    return None


def main(folder):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writes fail with EFBIG instead
    saw = {"failures": [], "unchanged": [], "decided": []}
    controller = hc.Controller(POLICIES[NAME](), start_index=1, seed=3, log=folder / "record")

    def through(call):
        """Try while the disk is full, again and again, then once more with room."""
        before = state_of(controller)
        size_of_disk(0)  # not one byte more, anywhere
        saw["failures"] += [attempt(call), attempt(call)]
        size_of_disk(None)
        saw["unchanged"].append(state_of(controller) == before)
        return call()

    for t in range(12):
        decision = through(lambda t=t: controller.ask(**question(NAME, t)))
        saw["decided"].append(repr(seen(decision)))
        through(lambda decision=decision: controller.tell(decision.id, **answer(decision)))
        if t == 5:
            through(lambda: controller.new_episode(start_index=2))
    controller.save(folder / "state")
    saved = (folder / "state").read_bytes()
    controller.ask(**question(NAME, 12))
    size_of_disk(len(saved) // 2)
    saw["save"] = attempt(lambda: controller.save(folder / "state"))
    saw["begin"] = attempt(lambda: hc.Controller(POLICIES[NAME](), log=folder / "new"))
    size_of_disk(None)
    saw["saved state kept"] = (folder / "state").read_bytes() == saved
    controller.close()
    with hc.Controller(POLICIES[NAME](), start_index=1, seed=3, log=folder / "record") as again:
        saw["reopened"] = state_of(again) == state_of(controller)
    saw["files"] = sorted(file.name for file in folder.iterdir())
    print(json.dumps(saw))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
