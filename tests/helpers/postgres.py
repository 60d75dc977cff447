"""A PostgreSQL server of its own for tests, in a temporary folder, gone afterwards."""

from __future__ import annotations

import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path

import pytest

NUMBERS = count()
QUICK = ["-c", "fsync=off", "-c", "full_page_writes=off"]  # nobody pulls the plug of these tests


def binaries() -> Path | None:
    """Where the server's programs are; None: there are none."""
    places = [Path(place) for place in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)]
    on_path = shutil.which("initdb")
    if on_path is not None:
        places.append(Path(on_path).resolve().parent)
    whole = [place for place in places if all((place / name).exists() for name in ("initdb", "postgres", "pg_isready"))]
    return whole[0] if whole else None


def _unprivileged() -> dict[str, int]:
    """Whom the server runs as: it refuses to run as root."""
    if os.name != "posix" or os.getuid() != 0:
        return {}
    import pwd

    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": found.pw_uid, "group": found.pw_gid}
    pytest.skip("PostgreSQL does not run as root, and there is no user postgres or nobody")


class Postgres:
    """A running server; `database()` makes an empty database."""

    def __init__(self, *, quick: bool = True) -> None:
        self._quick = QUICK if quick else []
        self._programs = binaries()
        if self._programs is None:
            pytest.skip("PostgreSQL's server is not installed (initdb, postgres, pg_isready)")
        self._as = _unprivileged()
        self.folder = Path(tempfile.mkdtemp(prefix="holdcourse-pg-"))
        if self._as:
            os.chown(self.folder, self._as["user"], self._as["group"])
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._run("initdb", "-D", "data", "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C")
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Begin to answer."""
        command = [str(self._programs / "postgres"), "-D", "data", "-k", str(self.folder), "-p", str(self.port)]
        command += [
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "shared_buffers=16MB",
            "-c",
            "max_connections=80",
            *self._quick,
        ]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, **self._as)
        until = time.monotonic() + 30
        while subprocess.run(
            [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False
        ).returncode:
            assert time.monotonic() < until, (self.folder / "log").read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        """As if the machine was switched off, nearly: connections are cut at once."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)

    def database(self) -> str:
        """Make an empty database; returns its address."""
        import psycopg

        name = f"plant{next(NUMBERS)}"
        with psycopg.connect(f"postgresql://postgres@127.0.0.1:{self.port}/postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def close(self) -> None:
        """End it, and remove all it has written."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *given: str) -> None:
        command = [str(self._programs / program), *given]
        run = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, **self._as)
        assert run.returncode == 0, run.stderr
