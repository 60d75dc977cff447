"""A witness: somebody outside the folder of a record who is told how far it has come, signed.

The hashes of a record show that it is whole, not that it is the one that was written: whoever may write to the folder
can write a whole other one, or an earlier end of the same. A witness keeps the head of the record where that person
cannot reach: a line in a file on another machine, in the system's log, or at an address, signed with a key that is not
in the folder. `holdcourse verify --witness` compares.
"""

from __future__ import annotations

import errno
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

from holdcourse.errors import InvalidInput, counted

logger = logging.getLogger("holdcourse.running.witness")

EVERY_S = 60.0
RETRY_S = 5.0  # at least, after one that failed
SHORTEST_KEY = 16  # bytes
WEB_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Statement:
    """What a witness was told: at some time this record had so many events, and the last had this hash."""

    record: str
    events: int
    chain: str
    at: str

    def signed(self, key: bytes) -> str:
        """Return the statement as one line of JSON, with its signature."""
        return json.dumps({**vars(self), "hmac": self._signature(key)}, sort_keys=True)

    @classmethod
    def read(cls, line: str, key: bytes) -> Statement | None:
        """A line as it was signed; None if the signature is not this key's."""
        with suppress(ValueError, TypeError, KeyError, OverflowError, RecursionError):
            found = json.loads(line[line.index("{") :])  # a system's log puts the time before it
            said = cls(str(found["record"]), int(found["events"]), str(found["chain"]), str(found["at"]))
            if hmac.compare_digest(str(found["hmac"]), said._signature(key)):
                return said
        return None

    def _signature(self, key: bytes) -> str:
        return hmac.new(key, json.dumps(vars(self), sort_keys=True).encode(), hashlib.sha256).hexdigest()


class Witness:
    """A witness that is told the length of records when they are opened and closed, and about once a minute.

    If a witness cannot be reached, this is logged and tried again; decisions never wait for a witness.

    Parameters
    ----------
    key
        File of the key, at least 16 bytes. Keep it where people who can write to the records cannot read it.
    sink
        Destination: a file to append to, ``syslog:`` (or ``syslog:host:port``), or an address ``https://...`` that
        takes a POST of one JSON object.
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
        self._wake: queue.SimpleQueue[threading.Event | None] = queue.SimpleQueue()
        self._latest: dict[str, Statement] = {}  # by record, what is not told yet
        self._due: dict[str, float] = {}  # by record, when the next line may be told
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def saw(self, record: str, events: int, chain: str, at: str, *, now: bool = False) -> None:
        """Note the length of a record; the witness is told at once with `now` or if it is due, otherwise later."""
        with self._lock:
            self._latest[record] = Statement(record, events, chain, at)
            if now:
                self._due[record] = 0.0
            if self._thread is None or not self._thread.is_alive():  # none yet, or this process was forked
                self._thread = threading.Thread(target=self._run, name="holdcourse witness", daemon=True)
                self._thread.start()
        self._wake.put(None)

    def flush(self, seconds: float = WEB_TIMEOUT_S) -> None:
        """Wait until the witness has been told everything that is due, at most this number of seconds."""
        if self._thread is not None and self._thread.is_alive():
            told = threading.Event()
            self._wake.put(told)
            told.wait(seconds)

    def _run(self) -> None:
        while True:
            called = None
            with suppress(queue.Empty):  # nobody called, but something is due
                called = self._wake.get(timeout=self._until_due())
            self._tell_due()
            if called is not None:
                called.set()

    def _until_due(self) -> float | None:
        """How long until somebody must be told of; None: nobody."""
        with self._lock:
            due = [self._due.get(record, 0.0) for record in self._latest]
        return max(min(due) - time.monotonic(), 0.0) if due else None

    def _tell_due(self) -> None:
        with self._lock:
            now = time.monotonic()
            ready = [record for record in self._latest if self._due.get(record, 0.0) <= now]
            said = [self._latest.pop(record) for record in ready]
            self._due |= dict.fromkeys(ready, now + self.every_s)
        for statement in said:
            try:
                self._send(statement.signed(self._key))
            except Exception as error:  # whatever it was, the others must still be told, and this one again later
                logger.error("the witness %s cannot be reached: %s", self.sink, error)
                with self._lock:
                    self._latest.setdefault(statement.record, statement)
                    self._due[statement.record] = time.monotonic() + max(self.every_s, RETRY_S)


def read_key(path: str | Path) -> bytes:
    """The key in a file, without white space around it."""
    try:
        key = Path(path).read_bytes().strip()
    except OSError as error:
        raise InvalidInput(f"cannot read the witness's key {path}: {error.strerror}; check the path") from None
    if len(key) < SHORTEST_KEY:
        raise InvalidInput(
            f"the key in {path} has {len(key)} bytes, but needs at least {SHORTEST_KEY} random ones: "
            f"head -c 32 /dev/urandom | base64 > {path}"
        )
    return key


def contradictions(
    lines: Iterable[str], key: bytes, record: str, chain_at: Callable[[int], str | None], last: int
) -> tuple[int, int, list[str]]:
    """How many lines speak of a record, up to which event, and in which ways it is not the one that they speak of."""
    heard, newest, unsigned, found = 0, 0, 0, list[str]()
    for line in lines:
        if not line.strip():
            continue
        said = Statement.read(line, key)
        if said is None:
            unsigned += 1
        elif said.record == record:
            heard, newest = heard + 1, max(newest, said.events)
            if said.events > last:
                found.append(
                    f"at {said.at} the record had {counted(said.events, 'event')}, and now it has {last}: it was "
                    "shortened, or is an earlier copy"
                )
            elif chain_at(said.events) != said.chain:
                found.append(f"event {said.events} is not the one that the witness saw at {said.at}: it was rewritten")
    if unsigned:
        found.append(
            f"{counted(unsigned, 'line')} of the witness {'is' if unsigned == 1 else 'are'} not signed with this key"
        )
    if not heard:
        found.append("the witness has no report of this record that is signed with this key")
    return heard, newest, found


def _sink(sink: str) -> Callable[[str], Any]:
    if sink.startswith(("http://", "https://")):
        return lambda line: _post(sink, line)
    if sink.startswith("syslog:"):
        return _syslog(sink.removeprefix("syslog:"))
    path = Path(sink)
    if not path.parent.is_dir():
        raise InvalidInput(f"there is no folder {path.parent} for the witness; create it first")
    return lambda line: _append(path, line)


def _append(path: Path, line: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        text = f"{line}\n".encode()
        if os.write(file, text) != len(text):
            raise OSError(errno.ENOSPC, "only a part of the line could be written")
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
    handler.handleError = _raise_again  # type: ignore[method-assign]
    return lambda line: handler.emit(logging.makeLogRecord({"msg": line, "levelname": "INFO"}))


def _raise_again(record: logging.LogRecord) -> None:
    """A system log that cannot be reached is tried again, as the others are; its handler would only print the error."""
    raise
