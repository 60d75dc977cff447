"""A sweep in a process of its own, which can be ended in its midst."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdcourse.experiments import SyntheticPlan

SCRIPT = """
import signal
import sys
from holdcourse.experiments import SyntheticPlan, run_sweep
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job may begin with it ignored
    plan = SyntheticPlan.model_validate_json(sys.argv[1])
    print("go", flush=True)
    run_sweep(plan.sweep(), sys.argv[2], workers=int(sys.argv[3]))
"""


@contextmanager
def sweeping(plan: SyntheticPlan, folder: Path, workers: int, script: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The process, once its sweep begins; `script` is where its program is written."""
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), plan.model_dump_json(), str(folder), str(workers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
