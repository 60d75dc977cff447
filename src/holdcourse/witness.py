"""A witness: somebody outside the folder of a record who is told how far it has come, signed.

The hashes of a record show that it is whole, not that it is the one that was written: whoever may write to the folder
can write a whole other one, or an earlier end of the same. A witness keeps the head of the record where that person
cannot reach: a line in a file on another machine, in the system's log, or at an address, signed with a key that is not
in the folder. `holdcourse verify --witness` compares.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import logging.handlers
import os
import queue
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdcourse.errors import InvalidInput

logger = logging.getLogger("holdcourse.witness")

EVERY_S = 60.0
SHORTEST_KEY = 16  # bytes
WEB_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Testimony:
    """What a witness was told: at some time this record had so many events, and the last had this hash."""

    record: str
    events: int
    chain: str
    at: str

    def signed(self, key: bytes) -> str:
        """As one line of JSON."""
        return json.dumps({**vars(self), "hmac": self._signature(key)}, sort_keys=True)

    @classmethod
    def read(cls, line: str, key: bytes) -> Testimony | None:
        """A line as it was signed; None where the signature is not this key's."""
        with suppress(ValueError, TypeError, KeyError):
            found = json.loads(line[line.index("{") :])  # a system's log puts the time before it
            said = cls(str(found["record"]), int(found["events"]), str(found["chain"]), str(found["at"]))
            if hmac.compare_digest(str(found["hmac"]), said._signature(key)):
                return said
        return None

    def _signature(self, key: bytes) -> str:
        return hmac.new(key, json.dumps(vars(self), sort_keys=True).encode(), hashlib.sha256).hexdigest()


class Witness:
    """Tells a witness how far records have come: when one is opened and closed, and about once a minute in between.

    A witness who cannot be reached is logged and tried again; decisions never wait for one.

    Parameters
    ----------
    key
        File of the key, at least 16 bytes; keep it where those who can write to the records cannot read it.
    sink
        Where to: a file to append to, ``syslog:`` (or ``syslog:host:port``), or an address ``https://...`` that takes
        a POST of one JSON object.
    every_s
        Seconds between two lines of one record.

    Examples
    --------
    >>> import holdcourse as hc
    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> key, said = pathlib.Path(folder.name) / "key", pathlib.Path(folder.name) / "said.jsonl"
    >>> _ = key.write_bytes(b"a key of sixteen bytes or more")
    >>> path = pathlib.Path(folder.name) / "valve.log"
    >>> policy = hc.gp_md(hc.Problem([0.0, 0.5, 1.0]))
    >>> with hc.Controller(policy, log=path, witness=hc.Witness(key, said)) as controller:
    ...     controller.tell(controller.ask(context=0.2).id, 1.0)
    >>> hc.audit.verify(path, witness=said, key=key).verified
    True
    >>> folder.cleanup()
    """

    def __init__(self, key: str | Path, sink: str | Path, *, every_s: float = EVERY_S) -> None:
        self._key = read_key(key)
        self._send = _sink(str(sink))
        self.sink, self.every_s = str(sink), every_s
        self._lines: queue.SimpleQueue[str | threading.Event] = queue.SimpleQueue()
        self._told: dict[str, tuple[float, int]] = {}  # by record: when, and how many events it had then
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def saw(self, record: str, events: int, chain: str, at: str, *, now: bool = False) -> None:
        """How far a record has come; told at once if `now`, else if it was not told lately."""
        with self._lock:
            when, known = self._told.get(record, (-self.every_s, -1))
            if events == known or (not now and time.monotonic() - when < self.every_s):
                return
            self._told[record] = (time.monotonic(), events)
            self._lines.put(Testimony(record, events, chain, at).signed(self._key))
            if self._thread is None or not self._thread.is_alive():  # none yet, or this process was forked
                self._thread = threading.Thread(target=self._run, name="holdcourse witness", daemon=True)
                self._thread.start()

    def flush(self, seconds: float = WEB_TIMEOUT_S) -> None:
        """Wait until what was said so far has been told, at most so long."""
        if self._thread is not None and self._thread.is_alive():
            told = threading.Event()
            self._lines.put(told)
            told.wait(seconds)

    def _run(self) -> None:
        while True:
            line = self._lines.get()
            if isinstance(line, threading.Event):
                line.set()
                continue
            try:
                self._send(line)
            except OSError as error:
                logger.error("the witness %s cannot be told: %s", self.sink, error)


def read_key(path: str | Path) -> bytes:
    """The key in a file, without white space around it."""
    try:
        key = Path(path).read_bytes().strip()
    except OSError as error:
        raise InvalidInput(f"cannot read the witness's key {path}: {error.strerror}") from None
    if len(key) < SHORTEST_KEY:
        raise InvalidInput(
            f"the key in {path} has {len(key)} bytes; take at least {SHORTEST_KEY} random ones: "
            f"head -c 32 /dev/urandom | base64 > {path}"
        )
    return key


def contradictions(
    lines: Iterable[str], key: bytes, record: str, chain_at: Callable[[int], str | None], last: int
) -> tuple[int, list[str]]:
    """How many lines speak of a record, and in which ways it is not the one that they speak of."""
    heard, found = 0, []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        said = Testimony.read(line, key)
        if said is None:
            found.append(f"line {number} of the witness is not signed with this key")
        elif said.record == record:
            heard += 1
            if said.events > last:
                found.append(
                    f"at {said.at} the record had {said.events} events, now it has {last}: it was shortened, or is an "
                    "earlier copy"
                )
            elif chain_at(said.events) != said.chain:
                found.append(f"event {said.events} is not the one that the witness saw at {said.at}: it was rewritten")
    if not heard:
        found.append("the witness has not heard of this record")
    return heard, found


def _sink(sink: str) -> Callable[[str], Any]:
    if sink.startswith(("http://", "https://")):
        return lambda line: _post(sink, line)
    if sink.startswith("syslog:"):
        return _syslog(sink.removeprefix("syslog:"))
    path = Path(sink)
    if not path.parent.is_dir():
        raise InvalidInput(f"there is no folder {path.parent} for the witness; make it first")
    return lambda line: _append(path, line)


def _append(path: Path, line: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, f"{line}\n".encode())
        os.fsync(file)
    finally:
        os.close(file)


def _post(address: str, line: str) -> None:
    request = urllib.request.Request(address, line.encode(), {"Content-Type": "application/json"}, method="POST")
    with urllib.request.urlopen(request, timeout=WEB_TIMEOUT_S):
        pass


def _syslog(place: str) -> Callable[[str], None]:
    host, _, port = place.rpartition(":")
    try:
        address: Any = (host, int(port)) if place else "/dev/log"
        handler = logging.handlers.SysLogHandler(address)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"syslog:{place} cannot be reached: {error}; give syslog: or syslog:host:port") from None
    handler.ident = "holdcourse: "
    return lambda line: handler.emit(logging.makeLogRecord({"msg": line, "levelname": "INFO"}))
