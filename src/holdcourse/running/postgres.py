"""The database in which several servers keep their records: connections that threads share, and the tables.

::

    holdcourse.about        format of these tables
    holdcourse.members      processes, where they answer, and until when others wait for them
    holdcourse.controllers  who holds each, and its fence
    holdcourse.records      by controller and name; an unfinished one has a name that begins with a dot
    holdcourse.said, holdcourse.events, holdcourse.snapshots    as the tables of a record's file
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

from holdcourse.errors import (
    DatabaseUnreachable,
    DiskFull,
    InvalidInput,
    LogError,
    MissingExtra,
)

try:
    import psycopg
    from psycopg import errors as refused
    from psycopg.pq import TransactionStatus
except ImportError as error:
    raise MissingExtra(f'records in PostgreSQL need {error.name}: pip install "holdcourse[postgres]"') from None

logger = logging.getLogger("holdcourse.running.postgres")

Result = TypeVar("Result")

FORMAT = 1
CONNECTIONS = 16  # of one process at once
CONNECT_S = 3  # how long to wait for a connection ...
ANSWER_S = 10  # ... and for an answer: a database that is stopped, or cut off, gives none
COPY_S = 3600  # how long writing a copy may take
AGAIN_S, PAUSE_S = 2.0, 0.1  # for how long an append is sent again, and the pause in between
UNFINISHED = ".new-"
SCHEMA_LOCK = 0x484C4443  # one process makes the tables
SCHEMA = """
CREATE SCHEMA IF NOT EXISTS holdcourse;
CREATE TABLE IF NOT EXISTS holdcourse.about (format int NOT NULL);
CREATE TABLE IF NOT EXISTS holdcourse.members (
    id text PRIMARY KEY, address text NOT NULL, expires timestamptz NOT NULL
);
CREATE TABLE IF NOT EXISTS holdcourse.controllers (
    id text COLLATE "C" PRIMARY KEY, holder text, fence bigint NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS holdcourse.records (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    controller text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL, UNIQUE (controller, name)
);
CREATE TABLE IF NOT EXISTS holdcourse.said (
    record bigint NOT NULL, key text NOT NULL, value text NOT NULL, PRIMARY KEY (record, key)
);
CREATE TABLE IF NOT EXISTS holdcourse.events (
    record bigint NOT NULL, number bigint NOT NULL,
    at text NOT NULL, kind text NOT NULL, body text NOT NULL, chain text NOT NULL,
    key text COLLATE "C", round bigint, decision text COLLATE "C", retracted text COLLATE "C", note text COLLATE "C",
    PRIMARY KEY (record, number)
);
CREATE INDEX IF NOT EXISTS events_by_key ON holdcourse.events (record, key, number) WHERE key IS NOT NULL;
CREATE INDEX IF NOT EXISTS events_by_round ON holdcourse.events (record, round, number) WHERE round IS NOT NULL;
CREATE INDEX IF NOT EXISTS events_by_decision ON holdcourse.events (record, decision, number)
    WHERE decision IS NOT NULL;
CREATE INDEX IF NOT EXISTS events_by_retracted ON holdcourse.events (record, retracted, number)
    WHERE retracted IS NOT NULL;
CREATE INDEX IF NOT EXISTS events_by_note ON holdcourse.events (record, note, number) WHERE note IS NOT NULL;
CREATE TABLE IF NOT EXISTS holdcourse.snapshots (
    record bigint NOT NULL, number bigint NOT NULL, content bytea NOT NULL, PRIMARY KEY (record, number)
);
INSERT INTO holdcourse.about SELECT 1 WHERE NOT EXISTS (SELECT FROM holdcourse.about);
"""
SESSION = """
SELECT set_config('default_transaction_isolation', 'read committed', false),
    set_config('statement_timeout', %s, false),
    set_config('synchronous_commit', CASE current_setting('synchronous_commit')
        WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false)
"""


class Database:
    """The database that holds the records, over a few connections that threads take turns with.

    Parameters
    ----------
    address
        ``postgresql://user@host/name``, as libpq takes it; the password may be in the environment or in its own file.
    """

    def __init__(self, address: str) -> None:
        self._address = address.partition("#")[0]
        parts = urlsplit(self._address)
        self.name = f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"  # without user and password
        self._idle: list[psycopg.Connection[Any]] = []
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        self._lock = threading.Lock()
        self._patience = _Patience()
        self.close = weakref.finalize(self, _close_all, self._idle)

    def __str__(self) -> str:
        return self.name

    def prepare(self) -> None:
        """Make the tables where they are missing; an error where they have another format."""

        def prepared(connection: psycopg.Connection[Any]) -> tuple[Any, ...]:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (SCHEMA_LOCK,))
                connection.execute(SCHEMA)
                found = connection.execute("SELECT format, current_setting('fsync') FROM holdcourse.about").fetchone()
                assert found is not None
                return tuple(found)

        found, sync = self.do(prepared)
        if found != FORMAT:
            raise InvalidInput(
                f"the tables in {self} have format {found}, but this version of holdcourse reads and writes format "
                f"{FORMAT}; use a matching version"
            )
        if sync != "on":
            logger.warning("%s runs with fsync = %s: what it has acknowledged can be lost in a power cut", self, sync)

    def do(
        self,
        action: Callable[[psycopg.Connection[Any]], Result],
        *,
        again: bool = True,
        seconds: float = ANSWER_S,
    ) -> Result:
        """Do something over a connection, within so many seconds; what goes wrong is said in our words.

        A connection that has broken while it was idle is no reason to fail: it is done `again` over another one.
        """
        began = time.monotonic()
        while True:
            try:
                with (
                    self._free,
                    self._borrowed() as connection,
                    self._patience.within(connection, seconds),
                ):
                    return action(connection)
            except refused.DiskFull as error:
                raise DiskFull(f"the disk of {self} is full; make room there") from error
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                with self._lock:  # those that were idle may have broken, too
                    _close_all(self._idle)
                if not again or time.monotonic() - began > AGAIN_S:
                    raise DatabaseUnreachable(f"{self} cannot be used now: {_words(error)}") from error
            except refused.ReadOnlySqlTransaction as error:  # a standby, or one that is being switched over
                raise DatabaseUnreachable(f"{self} takes no writes now: {_words(error)}") from error
            except psycopg.Error as error:
                raise LogError(f"{self} refused a statement: {_words(error)}") from error
            again = False

    def rows(self, statement: str, *values: Any) -> list[Any]:
        """Return the rows that a statement selects."""
        return self.do(lambda connection: connection.execute(statement, values).fetchall())

    @contextmanager
    def _borrowed(self) -> Iterator[psycopg.Connection[Any]]:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._connected()
        try:
            yield connection
        finally:
            is_fit = not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE
            with self._lock:
                if is_fit and self.close.alive:
                    self._idle.append(connection)
                else:
                    connection.close()

    def _connected(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(
            self._address,
            autocommit=True,
            connect_timeout=CONNECT_S,
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
            tcp_user_timeout=10_000,
            application_name="holdcourse",
        )
        try:
            with self._patience.within(connection, ANSWER_S):
                connection.execute(SESSION, (str(1000 * ANSWER_S),))
        except BaseException:
            connection.close()
            raise
        return connection


class _Patience:
    """Hangs up on a database that gives no answer; the system's own time-outs do not end the wait for a stopped one."""

    def __init__(self) -> None:
        self._until: dict[psycopg.Connection[Any], float] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @contextmanager
    def within(self, connection: psycopg.Connection[Any], seconds: float) -> Iterator[None]:
        """What is done over the connection ends within so many seconds, in an error if need be."""
        with self._lock:
            self._until[connection] = time.monotonic() + seconds
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="holdcourse database", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                del self._until[connection]

    def _run(self) -> None:
        """Look once a second, until nothing has been done for a while."""
        quiet = 0
        while quiet < ANSWER_S:
            time.sleep(1.0)
            with self._lock:
                quiet = 0 if self._until else quiet + 1
                for connection, until in self._until.items():
                    if time.monotonic() > until:
                        _hang_up(connection)
                if quiet >= ANSWER_S:
                    self._thread = None


def _hang_up(connection: psycopg.Connection[Any]) -> None:
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


def _close_all(connections: list[psycopg.Connection[Any]]) -> None:
    while connections:
        with suppress(psycopg.Error):
            connections.pop().close()


def _words(error: psycopg.Error) -> str:
    """What the database says, in one line."""
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip()) or type(error).__name__
