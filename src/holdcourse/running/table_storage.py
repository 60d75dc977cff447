"""A record in tables of PostgreSQL: its rows, its one writer, and copies of it.

The same events, the same bytes and the same chain of hashes as in a file. Beside each event stand, in columns, the few
things that it is found by. One controller has one writer: whoever takes a controller over gets the next higher number,
its fence, and every append is one transaction that compares the fence and the end of the chain. So a process that was
stopped for longer than others waited for it can wake up and try to write, and nothing comes of it.

An append whose connection breaks is sent again: its rows are the same to the last byte, and their numbers are taken
if they arrived the first time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdcourse.errors import DamagedFile, DatabaseUnreachable, InvalidInput, LeaseLost, LogError
from holdcourse.running import database as files
from holdcourse.running.events import NOTE_FIELD, NOTE_KIND, Ask, Episode, Learn, Retract, Sought, Tell
from holdcourse.running.postgres import AGAIN_S, COPY_S, PAUSE_S, UNFINISHED, Database
from holdcourse.running.storage import KEPT_SNAPSHOTS, LASTING_EVERY, Gap, KeptSnapshot, Row, Storage

# After `postgres`, which says what to install where it is missing.
import psycopg  # isort: skip
from psycopg import errors as refused  # isort: skip

PAGE = 2000  # rows read at once
COLUMNS = "number, at, kind, body, chain"
# Where an episode began has no column of its own: they are few, and only looked for by people.
EPISODE = f"CASE WHEN kind = '{Episode.KIND}' THEN (body::json ->> 'start')::bigint END"
# The row of the controller is locked until the commit: nobody takes it over in between.
APPEND = """
WITH held AS (
    SELECT FROM holdcourse.controllers WHERE id = %(controller)s AND fence = %(fence)s FOR SHARE
), follows AS (
    SELECT FROM held WHERE %(last)s = 0 OR EXISTS (
        SELECT FROM holdcourse.events WHERE record = %(record)s AND number = %(last)s AND chain = %(chain)s
    )
)
INSERT INTO holdcourse.events
SELECT %(record)s, added.* FROM follows, unnest(
    %(number)s::bigint[], %(at)s::text[], %(kind)s::text[], %(body)s::text[], %(hash)s::text[],
    %(key)s::text[], %(round)s::bigint[], %(decision)s::text[], %(retracted)s::text[], %(note)s::text[]
) AS added
"""
SNAPSHOT = """
INSERT INTO holdcourse.snapshots VALUES (%s, %s, %s)
ON CONFLICT (record, number) DO UPDATE SET content = excluded.content
"""
HELD = "SELECT FROM holdcourse.controllers WHERE id = %s AND fence = %s FOR SHARE"


@dataclass(frozen=True)
class TableRecord:
    """Where a record is in a database.

    Attributes
    ----------
    fence
        The number under which this process holds the controller; None: it only reads.
    """

    database: Database
    controller: str
    name: str
    fence: int | None = None

    @classmethod
    def named(cls, address: str) -> TableRecord:
        """The record at ``postgresql://host/name#controller/epoch-0001.db``; without the epoch, the newest."""
        database, (controller, _, name) = Database(address), address.partition("#")[2].partition("/")
        if not controller:
            raise InvalidInput(
                f"{database} contains many records; say which, such as {database}#mill or {database}#mill/epoch-0001.db"
            )
        if not name:
            found = names(database, controller)
            if not found:
                raise InvalidInput(f"{database} contains no record of {controller!r}; check the name after the #")
            name = found[-1]
        return cls(database, controller, name)

    def __str__(self) -> str:
        return f"{self.database}#{self.controller}/{self.name}"

    def exists(self) -> bool:
        """Whether there is a record."""
        return self._id() is not None

    def create(self, about: Mapping[str, str], first_snapshot: bytes) -> None:
        """Begin a record, and write its first rows."""

        def create(connection: psycopg.Connection[Any]) -> None:
            with connection.transaction():
                self._check_held(connection)
                made = connection.execute(
                    "INSERT INTO holdcourse.records (controller, name) VALUES (%s, %s) ON CONFLICT DO NOTHING "
                    "RETURNING id",
                    (self.controller, self.name),
                ).fetchone()
                if made is not None:
                    with connection.cursor() as cursor:
                        rows = [(made[0], key, value) for key, value in about.items()]
                        cursor.executemany("INSERT INTO holdcourse.said VALUES (%s, %s, %s)", rows)
                        first = (made[0], 0, first_snapshot)
                        cursor.execute("INSERT INTO holdcourse.snapshots VALUES (%s, %s, %s)", first)

        self.database.do(create)

    def write(self, source: Storage) -> None:
        """Write a record that was kept elsewhere: the same events and snapshots."""
        first = source.snapshot(0)
        if first is None:
            raise DamagedFile(
                f"the record for {self} is damaged: it has no snapshot of its beginning; restore the database from a "
                "backup"
            )
        self.create(source.about(), first[1])
        target, before, rows = self.writer(), (0, ""), list[Row]()
        for row in source.walk():
            rows.append(row)
            if len(rows) == PAGE:
                target.commit(rows, before, None)
                before, rows = (row[0], row[4]), []
        target.commit(rows, before, None)
        for number in source.snapshots():
            found = source.snapshot(number)
            assert found is not None
            target.add_snapshot(*found)

    def remove(self) -> None:
        """Remove an unfinished record, if it is there."""

        def remove(connection: psycopg.Connection[Any]) -> None:
            with connection.transaction():
                self._check_held(connection)
                found = connection.execute(
                    "DELETE FROM holdcourse.records WHERE controller = %s AND name = %s RETURNING id",
                    (self.controller, self.name),
                ).fetchall()
                for table in ("said", "events", "snapshots"):
                    connection.execute(
                        f"DELETE FROM holdcourse.{table} WHERE record = ANY(%s)", ([i for (i,) in found],)
                    )

        self.database.do(remove)

    def reader(self, *, checked: bool) -> TableStorage:
        """Open it for reading; the pages of its tables are the database's own matter."""
        return self._opened()

    def writer(self) -> TableStorage:
        """Open it for writing."""
        return self._opened()

    def _opened(self) -> TableStorage:
        found = self._id()
        if found is None:
            raise InvalidInput(f"there is no record at {self}; check its name")
        return TableStorage(self, found)

    def _id(self) -> int | None:
        found = self.database.rows(
            "SELECT id FROM holdcourse.records WHERE controller = %s AND name = %s", self.controller, self.name
        )
        return int(found[0][0]) if found else None

    def _check_held(self, connection: psycopg.Connection[Any]) -> None:
        """Raise unless this process holds the controller, until the transaction ends."""
        if self.fence is None or not connection.execute(HELD, (self.controller, self.fence)).fetchall():
            raise lost(self.controller)


def publish(unfinished: Sequence[TableRecord], finished: Sequence[TableRecord]) -> None:
    """Give records of one controller that are whole their names, all or none, for good."""
    database = unfinished[0].database

    def rename(connection: psycopg.Connection[Any]) -> None:
        with connection.transaction():
            for record, final in zip(unfinished, finished, strict=True):
                record._check_held(connection)
                connection.execute(
                    "UPDATE holdcourse.records SET name = %s WHERE controller = %s AND name = %s",
                    (final.name, record.controller, record.name),
                )

    try:
        database.do(rename, again=False)
    except DatabaseUnreachable:
        if not all(final.exists() for final in finished):  # else only the answer was lost
            raise


def names(database: Database, controller: str) -> list[str]:
    """The names of the finished records of a controller, oldest first."""
    found = database.rows(
        "SELECT name FROM holdcourse.records WHERE controller = %s AND name NOT LIKE %s ORDER BY length(name), name",
        controller,
        f"{UNFINISHED}%",
    )
    return [name for (name,) in found]


def lost(controller: str) -> LeaseLost:
    """What is said where another process holds a controller by now."""
    return LeaseLost(
        f"{controller} is now held by another process; nothing was changed here. Send the request again, and that "
        "process answers"
    )


class TableStorage:
    """An open record; made by `TableRecord`. See `storage.Storage` for what its methods do."""

    def __init__(self, place: TableRecord, record: int) -> None:
        self._place, self._record, self._database = place, record, place.database

    def about(self) -> dict[str, str]:
        """What it says about itself."""
        return dict(self._database.rows("SELECT key, value FROM holdcourse.said WHERE record = %s", self._record))

    def end(self) -> tuple[int, str] | None:
        """Number and hash of the last event."""
        found = self._events("number, chain", "true", "number DESC", 1)
        return found[0] if found else None

    def row(self, number: int) -> Row | None:
        """Return the event of a number; None where it is not there."""
        found = self._events(COLUMNS, "number = %s", "number", 1, number)
        return found[0] if found else None

    def page(self, after: int, upto: int, limit: int) -> list[Row]:
        """Events after one number and up to another."""
        return self._events(COLUMNS, "number > %s AND number <= %s", "number", limit, after, upto)

    def walk(self) -> Iterator[Row]:
        """All events in order; those that are added meanwhile, too."""
        after = 0
        while rows := self._events(COLUMNS, "number > %s", "number", PAGE, after):
            yield from rows
            after = rows[-1][0]

    def of_kind(self, kind: str, after: int) -> list[Row]:
        """All events of a kind."""
        return self._events(COLUMNS, "number > %s AND kind = %s", "number", None, after, kind)

    def find(self, what: Sought, low: str | int, high: str | int, limit: int, *, newest: bool) -> list[Row]:
        """Events by what they say."""
        order, place = "DESC" if newest else "ASC", EPISODE if what == "episode" else what
        return self._events(COLUMNS, f"{place} BETWEEN %s AND %s", f"{place} {order}, number {order}", limit, low, high)

    def keys(self) -> Iterator[str]:
        """All keys of clients."""
        for (key,) in self._events("key", "key IS NOT NULL", "number", None):
            yield key

    def snapshot(self, at_most: int) -> tuple[int, bytes] | None:
        """The newest snapshot up to an event."""
        found = self._database.rows(
            "SELECT number, content FROM holdcourse.snapshots WHERE record = %s AND number <= %s "
            "ORDER BY number DESC LIMIT 1",
            self._record,
            at_most,
        )
        return (found[0][0], bytes(found[0][1])) if found else None

    def snapshots(self) -> list[int]:
        """Which events snapshots follow."""
        found = self._database.rows("SELECT number FROM holdcourse.snapshots WHERE record = %s", self._record)
        return [number for (number,) in found]

    def gap(self, record: str, last: int, chain_at: Callable[[int], str | None]) -> Gap | None:
        """Return nothing: what is committed is the database's to keep."""
        return None

    def remedy(self) -> str:
        """Return what to do about a gap: restore the database."""
        return "restore the database from a backup"

    def begin_writing(self) -> None:
        """Make sure that this process holds the controller."""
        self._database.do(self._place._check_held)

    def index(self) -> None:
        """Do nothing: the tables have their indexes."""

    @property
    def lost(self) -> str | None:
        """None: rows of a table are not taken away."""
        return None

    def check_writable(self) -> None:
        """Do nothing: every append finds out by itself."""

    def commit(self, rows: Sequence[Row], before: tuple[int, str], kept: KeptSnapshot | None) -> None:
        """Write events in one transaction, if this process holds the controller and the chain ends where it thinks."""
        if not rows:
            return
        until = time.monotonic() + AGAIN_S
        while True:
            try:
                added = self._database.do(lambda connection: self._append(connection, rows, before, kept), again=False)
                break
            except DatabaseUnreachable:  # it may have arrived all the same
                if time.monotonic() > until:
                    raise
                time.sleep(PAUSE_S)
        if added != len(rows) and not self._holds(rows):
            if self._database.rows(HELD, self._place.controller, self._place.fence):
                raise LogError(
                    f"{self._place} was continued by another process, so this one reads it again; send the request "
                    "again"
                )
            raise lost(self._place.controller)

    def add_snapshot(self, number: int, content: bytes) -> None:
        """Keep a snapshot of an earlier time."""

        def add(connection: psycopg.Connection[Any]) -> None:
            with connection.transaction():
                self._place._check_held(connection)
                connection.execute(SNAPSHOT, (self._record, number, content))

        self._database.do(add)

    def acknowledged(self, record: str, last: int, chain: str) -> None:
        """Do nothing: the database keeps what is committed."""

    def copy(self, target: Path) -> None:
        """Write the record as a file of SQLite: what it held at one moment."""

        def copy(connection: psycopg.Connection[Any]) -> None:
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                read = f"SELECT {{}} FROM holdcourse.{{}} WHERE record = {self._record}"
                about = connection.execute(read.format("key, value", "said")).fetchall()
                with connection.cursor("events") as events, connection.cursor("snapshots") as snapshots:
                    events.execute(read.format(COLUMNS, "events") + " ORDER BY number")
                    snapshots.execute(read.format("number, content", "snapshots"))
                    files.write(target, dict(about), events, snapshots)

        self._database.do(copy, again=False, seconds=COPY_S)

    def leave_as_it_is(self) -> None:
        """Do nothing: a record in a database is never marked as in use."""

    def close(self) -> None:
        """Do nothing: connections are shared."""

    def _append(
        self,
        connection: psycopg.Connection[Any],
        rows: Sequence[Row],
        before: tuple[int, str],
        kept: KeptSnapshot | None,
    ) -> int:
        """Send the events; returns how many were added: all or none."""
        try:
            if kept is None:
                return connection.execute(APPEND, self._values(rows, before), prepare=True).rowcount
            with connection.transaction():
                added = connection.execute(APPEND, self._values(rows, before), prepare=True).rowcount
                if added:
                    self._keep(connection, kept)
                return added
        except refused.UniqueViolation:  # they, or others, are there
            return 0

    def _holds(self, rows: Sequence[Row]) -> bool:
        """Whether these very events are there."""
        return self.row(rows[-1][0]) == rows[-1]

    def _values(self, rows: Sequence[Row], before: tuple[int, str]) -> dict[str, Any]:
        place, columns = self._place, list(zip(*rows, strict=True))
        found = [_sought(kind, body) for _, _, kind, body, _ in rows]
        return {
            "controller": place.controller,
            "fence": place.fence,
            "record": self._record,
            "last": before[0],
            "chain": before[1],
            **{
                name: list(column)
                for name, column in zip(("number", "at", "kind", "body", "hash"), columns, strict=True)
            },
            **{name: [each.get(name) for each in found] for name in ("key", "round", "decision", "retracted", "note")},
        }

    def _keep(self, connection: psycopg.Connection[Any], kept: KeptSnapshot) -> None:
        record = self._record
        connection.execute(SNAPSHOT, (record, kept.follows, kept.content))
        which: tuple[str, tuple[Any, ...]] = (
            "number NOT IN (SELECT number FROM holdcourse.snapshots WHERE record = %s ORDER BY number DESC LIMIT %s)",
            (record, KEPT_SNAPSHOTS),
        )
        if kept.in_place_of is not None:
            which = "number < %s AND number >= %s", (kept.follows, kept.in_place_of)
        connection.execute(
            f"DELETE FROM holdcourse.snapshots WHERE record = %s AND {which[0]} AND number NOT IN "
            "(SELECT min(number) FROM holdcourse.snapshots WHERE record = %s GROUP BY number / %s)",
            (record, *which[1], record, LASTING_EVERY),
        )

    def _events(self, columns: str, which: str, order: str, limit: int | None, *values: Any) -> list[Any]:
        return self._database.rows(
            f"SELECT {columns} FROM holdcourse.events WHERE record = %s AND {which} ORDER BY {order} LIMIT %s",
            self._record,
            *values,
            limit,
        )


def _sought(kind: str, body: str) -> dict[str, Any]:
    """What an event is found by, from its text; the same as `events.SOUGHT` says of a file."""
    said = json.loads(body)
    extra = said.get("extra")
    found: dict[str, Any] = {"key": extra.get("key") if isinstance(extra, dict) else None}
    if kind == Ask.KIND:
        found["round"] = said["round"]
    elif kind in (Tell.KIND, Learn.KIND):
        found["decision"] = said["id"]
    elif kind == Retract.KIND:
        found["retracted"] = said["id"]
    elif kind == NOTE_KIND:
        found["note"] = said[NOTE_FIELD]
    return found
