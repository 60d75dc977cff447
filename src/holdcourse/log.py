"""The record under a controller: an append-only SQLite file of every decision and tell.

An event is committed, and on the disk, before the `ask` or `tell` that made it returns. Events are chained: each holds
the hash of the one before it, so damage that SQLite itself does not notice is found when the record is opened.
Snapshots only save time; the events say everything.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeAlias

from holdcourse import archive
from holdcourse.errors import DamagedFile, InvalidInput
from holdcourse.errors import LogError as LogError  # the error of this module, for those who import it from here

logger = logging.getLogger("holdcourse.log")

FORMAT = 1
SQLITE = b"SQLite format 3\0"  # how its files begin
APPLICATION_ID = 0x484C4443  # "HLDC": the file says whose it is
KEPT_SNAPSHOTS = 2  # the newest ones, beside the first ...
LASTING_EVERY = 8192  # ... and one for so many events: an old decision is rebuilt from the one before it
SCHEMA = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE events (
    number INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, chain TEXT NOT NULL
);
CREATE TABLE snapshots (number INTEGER PRIMARY KEY, content BLOB NOT NULL);
"""
Sought: TypeAlias = Literal["key", "round", "decision", "note"]
SOUGHT: dict[Sought, tuple[str, str]] = {  # what events are found by: where it stands, and which events have it
    "key": ("json_extract(body, '$.extra.key')", "json_extract(body, '$.extra.key') IS NOT NULL"),
    "round": ("json_extract(body, '$.round')", "kind = 'ask'"),
    "decision": ("json_extract(body, '$.id')", "kind IN ('tell', 'learn')"),
    "note": ("json_extract(body, '$.note')", "kind = 'note'"),
}


@dataclass(frozen=True)
class Event:
    """One line of the record: its number from 1, when, what kind, and what.

    "ask", "tell", "learn" and "episode" change the state of a session; a "note" only says what happened around it.
    """

    number: int
    at: str
    kind: str
    body: dict[str, Any]


class Log:
    """An open record. Only one process may append to it; others may read."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, checked: bool = True) -> None:
        self.path = path
        self._connection = connection
        try:
            with self._reading():
                self.about: dict[str, Any] = {
                    key: json.loads(value) for key, value in connection.execute("SELECT key, value FROM about")
                }
            self.last, self.chain = self._verified_end() if checked else self._end()
        except BaseException:
            connection.close()
            raise

    @classmethod
    def open(cls, path: Path, identity: dict[str, Any], beginning: Callable[[], tuple[dict[str, Any], bytes]]) -> Log:
        """Go on with the record in `path`, or begin one; `identity` must be the one it was begun with.

        `beginning` gives what else a new record says about itself, and the first snapshot.
        """
        if not path.exists():
            about, first_snapshot = beginning()
            _create(path, {"identity": identity, **about}, first_snapshot)
        if not os.access(path, os.W_OK):
            raise LogError(f"{path} is read-only; make it writable, or use another file")
        log = cls(path, _connect(path))
        theirs = log.about["identity"]
        different = [name for name in identity if identity[name] != theirs.get(name)]
        if different:
            log.close()
            name = different[0]
            raise InvalidInput(
                f"{path} was begun with {name}={theirs.get(name)!r}, but this controller has {identity[name]!r}; "
                "use the same policy and options, or another file"
            )
        return log

    @classmethod
    def read(cls, path: Path, *, checked: bool = True) -> Log:
        """Open an existing record; `checked=False` trusts that it is whole, which costs the same however long it is."""
        if not path.exists():
            raise InvalidInput(f"there is no record at {path}")
        return cls(path, _connect(path, writing=False, checked=checked), checked=checked)

    def append(self, kind: str, body: dict[str, Any]) -> Event:
        """Add an event; on the disk when this returns."""
        return self.extend([(kind, body)])[0]

    def extend(self, events: Sequence[tuple[str, dict[str, Any]]]) -> list[Event]:
        """Add several events, all or none; on the disk when this returns."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        rows, number, chain = [], self.last, self.chain
        for kind, body in events:
            text = json.dumps(body, sort_keys=True)
            number, chain = number + 1, _link(chain, number + 1, at, kind, text)
            rows.append((number, at, kind, text, chain))
        try:
            with self._connection:
                self._connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows)
            self.last, self.chain = number, chain
        except sqlite3.IntegrityError:
            raise LogError(f"another process writes to {self.path}; each record belongs to one controller") from None
        except sqlite3.Error as error:
            raise LogError(
                f"cannot write to {self.path}: {error}; nothing was changed, try again when it is mended"
            ) from error
        except BaseException:  # an interrupt may come just before or just after the commit
            found = self._connection.execute("SELECT chain FROM events WHERE number = ?", (number,)).fetchone()
            if found == (chain,):
                self.last, self.chain = number, chain
            raise
        return [Event(number, at, kind, json.loads(text)) for number, at, kind, text, _ in rows]

    def index(self) -> None:
        """Make events quick to find by what they say; see `find`. Part of the file from then on."""
        try:
            with self._connection:
                for name, (place, which) in SOUGHT.items():
                    self._connection.execute(
                        f"CREATE INDEX IF NOT EXISTS events_by_{name} ON events ({place}) WHERE {which}"
                    )
        except sqlite3.Error as error:
            raise LogError(f"cannot write to {self.path}: {error}") from error

    def find(
        self, what: Sought, low: str | int, high: str | int | None = None, *, limit: int = 1, newest: bool = False
    ) -> list[Event]:
        """Events by their key, the round asked, the decision told or the kind of note: `low`, or from `low` to `high`.

        At most `limit` of them, in order; with `newest` those at the end.
        """
        place, which = SOUGHT[what]
        order = "DESC" if newest else "ASC"
        with self._reading():
            rows = self._connection.execute(
                f"SELECT number, at, kind, body FROM events WHERE {which} AND {place} BETWEEN ? AND ? "
                f"ORDER BY {place} {order}, number {order} LIMIT ?",
                (low, low if high is None else high, limit),
            ).fetchall()
        found = [Event(number, at, kind, json.loads(body)) for number, at, kind, body in rows]
        return found[::-1] if newest else found

    def snapshot(self, content: bytes) -> None:
        """Keep the state after the last event. It only saves time later, so a failure is no error."""
        try:
            with self._connection:
                self._connection.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?)", (self.last, content))
                self._connection.execute(
                    "DELETE FROM snapshots WHERE number NOT IN "
                    "(SELECT number FROM snapshots ORDER BY number DESC LIMIT ?) "
                    "AND number NOT IN (SELECT min(number) FROM snapshots GROUP BY number / ?)",
                    (KEPT_SNAPSHOTS, LASTING_EVERY),
                )
        except sqlite3.Error as error:
            logger.warning("no snapshot in %s: %s", self.path, error)

    def newest_snapshot(self, at_most: int | None = None) -> tuple[int, bytes]:
        """The newest snapshot (not after event `at_most`), and the number of the event it follows."""
        with self._reading():
            row = self._connection.execute(
                "SELECT number, content FROM snapshots WHERE number <= ? ORDER BY number DESC LIMIT 1",
                (self.last if at_most is None else at_most,),
            ).fetchone()
        if row is None:
            raise DamagedFile(f"{self.path} holds no snapshot of its beginning")
        return int(row[0]), bytes(row[1])

    def events(self, after: int = 0) -> Iterator[Event]:
        """All events after number `after`, in order; those that another process has added since are left out."""
        with self._reading():
            for number, at, kind, body in self._connection.execute(
                "SELECT number, at, kind, body FROM events WHERE number > ? AND number <= ? ORDER BY number",
                (after, self.last),
            ):
                yield Event(number, at, kind, json.loads(body))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _end(self) -> tuple[int, str]:
        """Number and hash of the last event, as they stand there."""
        with self._reading():
            row = self._connection.execute("SELECT number, chain FROM events ORDER BY number DESC LIMIT 1").fetchone()
        return (0, self._first_link()) if row is None else (int(row[0]), str(row[1]))

    def _first_link(self) -> str:
        return hashlib.sha256(json.dumps(self.about, sort_keys=True).encode()).hexdigest()

    def _verified_end(self) -> tuple[int, str]:
        """Number and hash of the last event, after checking the whole chain."""
        number, chain = 0, self._first_link()
        with self._reading():
            rows = self._connection.execute("SELECT number, at, kind, body, chain FROM events ORDER BY number")
            for expected, (number, at, kind, body, stored) in enumerate(rows, 1):
                chain = _link(chain, expected, at, kind, body)
                if number != expected or stored != chain:
                    raise DamagedFile(f"{self.path} is damaged at event {expected}; restore it from a back-up")
        return number, chain

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with _reading(self.path):
            yield


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.OperationalError, sqlite3.ProgrammingError, OSError) as error:
        raise LogError(f"cannot read {path}: {error}") from error
    except (sqlite3.DatabaseError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DamagedFile(
            f"{path} is damaged or no record of holdcourse: {error}; restore it from a back-up"
        ) from error


@cache
def versions() -> dict[str, str]:
    """What decides here: the parts that a decision's last bits may depend on."""
    parts = {name: version(name) for name in ("holdcourse", "numpy", "scipy", "numba")}
    return parts | {"python": platform.python_version(), "machine": platform.machine()}


def _create(path: Path, about: dict[str, Any], first_snapshot: bytes) -> None:
    """Write a new record completely before it gets its name, so that a crash leaves none or a whole one."""
    left_over = path.with_name(f"{path.name}-wal")
    if left_over.exists():  # SQLite would take it for a part of the new record
        raise LogError(f"{left_over} is left of an earlier record without {path.name}; bring that back, or remove it")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    about = {"format": FORMAT, "versions": versions(), **about}
    try:
        temporary.unlink(missing_ok=True)
        connection = sqlite3.connect(temporary)
        try:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.executescript(SCHEMA)
            with connection:
                connection.executemany(
                    "INSERT INTO about VALUES (?, ?)", [(k, json.dumps(v)) for k, v in about.items()]
                )
                connection.execute("INSERT INTO snapshots VALUES (0, ?)", (first_snapshot,))
        finally:
            connection.close()
        _publish(temporary, path)
    except (sqlite3.Error, OSError) as error:
        raise LogError(f"cannot begin a record at {path}: {error}") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _publish(temporary: Path, path: Path) -> None:
    """Give the file its name for good, unless another process has just begun a record there."""
    try:
        os.link(temporary, path)  # a rename would replace what is there
    except FileExistsError:
        return
    except OSError:  # a file system without links
        temporary.replace(path)
    archive.sync_folder(path.parent)


def _connect(path: Path, *, writing: bool = True, checked: bool = True) -> sqlite3.Connection:
    with _reading(path):
        with path.open("rb") as file:  # before SQLite sees it: that would tidy up around a file it takes for empty
            header = file.read(100)
        if not header.startswith(SQLITE) or int.from_bytes(header[68:72], "big") != APPLICATION_ID:
            raise DamagedFile(f"{path} is damaged or no record of holdcourse; restore it from a back-up")
        connection = sqlite3.connect(path, timeout=5.0, check_same_thread=False)
        try:
            found = connection.execute("SELECT value FROM about WHERE key = 'format'").fetchone()
            if found is None or json.loads(found[0]) != FORMAT:
                raise InvalidInput(
                    f"{path} has format {found and found[0]}; this version of holdcourse reads format {FORMAT}"
                )
            if writing:
                mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
                if mode != "wal":  # no error of SQLite, but with its older journal the newest event can be lost
                    raise LogError(
                        f"cannot keep a write-ahead log beside {path} (SQLite stays with {mode!r}); "
                        "try again, or use a local disk"
                    )
                connection.execute("PRAGMA synchronous=FULL")
                connection.execute("DELETE FROM events WHERE 0")  # an error if SQLite could open it only for reading
                connection.rollback()
                archive.sync_folder(path.parent)  # SQLite names its write-ahead log there, and ignores a failed sync
            flaw = connection.execute("PRAGMA quick_check").fetchone()[0] if checked else "ok"
            if flaw != "ok":
                raise DamagedFile(f"{path} is damaged ({flaw}); restore it from a back-up")
        except BaseException:
            connection.close()
            raise
    return connection


def _link(chain: str, number: int, at: str, kind: str, body: str) -> str:
    return hashlib.sha256(f"{chain}\n{number}\n{at}\n{kind}\n{body}".encode()).hexdigest()
