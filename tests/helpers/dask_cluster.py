"""A real Dask cluster: scheduler and workers are processes of their own, which a test may kill."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Cluster:
    """Address of a scheduler, and its workers."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[str]] = []
        self.readers: list[threading.Thread] = []
        self.workers: list[subprocess.Popen[str]] = []
        scheduler = self._start("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        self.address = self._wait_for(scheduler, r"(tcp://127\.0\.0\.1:\d+)")[1]

    def add_worker(self) -> None:
        """Start another worker, and wait until the scheduler knows it."""
        name = f"w{len(self.workers)}"
        quiet = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--name", name)
        self.workers.append(self._start("dask_worker", self.address, *quiet))
        self._wait_for(self.workers[-1], "Registered to|Starting established connection")

    def _start(self, command: str, *options: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{command}", *options],
            env=os.environ | {"DASK_DISTRIBUTED__WORKER__DAEMON": "False"},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def _wait_for(self, process: subprocess.Popen[str], pattern: str) -> re.Match[str]:
        assert process.stderr is not None
        for line in process.stderr:
            found = re.search(pattern, line)
            if found:
                self.readers.append(threading.Thread(target=process.stderr.read, daemon=True))  # or its pipe fills up
                self.readers[-1].start()
                return found
        raise AssertionError(f"{process.args} ended with {process.wait()}")


@contextmanager
def dask_cluster(workers: int = 2) -> Iterator[Cluster]:
    """Run a cluster, and end all of it afterwards."""
    cluster = Cluster()
    try:
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        for process in reversed(cluster.started):
            process.kill()
            process.wait(timeout=30)
        for thread in cluster.readers:
            thread.join()
        for process in cluster.started:
            assert process.stderr is not None
            process.stderr.close()
