"""The SQLite file of a record: made, opened and copied.

This is the only code that opens a record. A file of SQLite may be opened by SQLite alone. Closing any other descriptor
drops every lock that this process holds on the file; another process then takes itself for the last one and deletes
the live write-ahead log, with all that was acknowledged since the last checkpoint. Decision 0009 goes through the other
ways to lose a database.
"""

from __future__ import annotations

import errno
import glob
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import get_ident
from typing import Any
from urllib.parse import quote

from holdcourse import archive
from holdcourse.errors import DamagedFile, InvalidInput, LogError, is_full, log_error

APPLICATION_ID = 0x484C4443  # "HLDC": the file says whose it is
CLOSED, IN_USE = 0, 1  # PRAGMA user_version
BUSY_S = 5.0  # how long one process waits for another
UNFINISHED, UNNAMED = ".new", ".new-"  # at the end or the beginning of a name until the file is whole
WITHOUT_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP)  # what file systems say that have none
SCHEMA = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE events (
    number INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, chain TEXT NOT NULL
);
CREATE TABLE snapshots (number INTEGER PRIMARY KEY, content BLOB NOT NULL);
"""


@contextmanager
def reading(path: object) -> Iterator[None]:
    """What SQLite cannot read is said in our words."""
    try:
        yield
    except (sqlite3.OperationalError, sqlite3.ProgrammingError, OSError) as error:
        if Path(str(path)).is_dir():
            raise LogError(f"{path} is a folder; name a record in it, such as epoch-0001.db") from error
        raise LogError(f"cannot read {path}: {error}") from error
    except (sqlite3.DatabaseError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise DamagedFile(
            f"{path} is damaged, or is not a record of holdcourse: {error}; restore it from a backup"
        ) from error


def real(path: Path) -> Path:
    """The file that a path stands for: SQLite puts what belongs to it beside the file, not beside a link to it."""
    return Path(os.path.realpath(path))


def wal_of(path: Path) -> Path:
    """The write-ahead log beside a record."""
    return path.with_name(f"{path.name}-wal")


def beside(record: Path) -> Path:
    """Where the mark of a record is."""
    return record.with_name(f"{record.name}-mark")


def is_record(path: Path) -> bool:
    """Whether a file is a record, whatever state it is in; looks at its first page only."""
    with suppress(sqlite3.Error, OSError):
        return path.stat().st_size > 0 and _first_page(path)[0] == APPLICATION_ID
    return False


def refuse_record(path: Path, wanted: str) -> None:
    """Raise where a controller's own record is given for a file of another kind; `wanted` says of which."""
    if is_record(path):
        raise InvalidInput(
            f"{path} is a controller's record, but {wanted}; to see what another policy would have done instead, run "
            f"holdcourse replay {path}"
        )


def create(path: Path, about: dict[str, str], first_snapshot: bytes) -> None:
    """Write a new record completely before it gets its name, so that a crash leaves none or a whole one."""
    if beside(path).exists() and not path.exists():
        raise LogError(
            f"{beside(path)} is left over from an earlier record, but {path.name} is gone; bring that back, or remove "
            "what is left"
        )
    if wal_of(path).exists():  # SQLite would take it for a part of the new record
        raise LogError(
            f"{wal_of(path)} is left over from an earlier record, but {path.name} is gone; bring that back, or remove "
            f"{wal_of(path).name}"
        )
    try:
        _write_whole(path, about, (), [(0, first_snapshot)])
    except FileExistsError:
        return  # another process has just begun a record there: go on with that one
    except (sqlite3.Error, OSError) as error:
        why = "there is no such folder" if isinstance(error, FileNotFoundError) else getattr(error, "strerror", error)
        why = "the disk is full" if is_full(error) else why
        remedy = f"; create the folder {path.parent} first" if isinstance(error, FileNotFoundError) else ""
        raise log_error(f"cannot begin a record at {path}: {why}", error, remedy) from error


def reader(path: Path, *, checked: bool) -> sqlite3.Connection:
    """A connection that cannot write; `checked` looks at every page."""
    with reading(path):
        _check_kind(path)
        connection = _read_only(path)
        try:
            try:
                connection.execute("SELECT 1 FROM about").fetchone()
            except sqlite3.OperationalError:
                connection.close()
                connection = _mended(path) if os.access(path.parent, os.W_OK) else _copied_from_read_only_place(path)
            _check_pages(connection, path, checked)
        except BaseException:
            connection.close()
            raise
    return connection


def writer(path: Path) -> sqlite3.Connection:
    """A connection that writes; what it commits is on the disk when the commit returns."""
    with reading(path):
        if not os.access(path, os.W_OK):
            raise LogError(f"{path} is read-only; make it writable, or use another file")
        _check_kind(path)
        _check_names(path)
        connection = sqlite3.connect(_address(path, "mode=rw"), uri=True, timeout=BUSY_S, check_same_thread=False)
        try:
            connection.execute("PRAGMA synchronous=FULL")
            _check_pages(connection, path, checked=True)
        except BaseException:
            connection.close()
            raise
    return connection


def is_cut_off(path: Path) -> bool:
    """Whether a record was in use and its write-ahead log is not beside it: then the newest events are missing.

    To be asked before the record is opened: SQLite would make an empty write-ahead log.
    """
    with reading(path):
        _check_kind(path)
        try:
            there = wal_of(path).stat().st_size > 0
        except FileNotFoundError:
            there = False
        return not there and _first_page(path)[1] == IN_USE


def copy(path: Path, target: Path) -> None:
    """A whole copy in one file, while others may be writing; it gets its name when it is on the disk."""
    if any(file.exists() for file in (target, wal_of(target), beside(target))):
        raise InvalidInput(f"{target} is there already; give another name, or remove it first")
    if not target.parent.is_dir():
        raise LogError(f"cannot copy {path} to {target}: there is no folder {target.parent}; create it first")
    try:
        with (
            closing(reader(path, checked=False)) as source,
            _unfinished(target) as temporary,
            closing(sqlite3.connect(temporary)) as copied,
        ):
            copied.execute("PRAGMA synchronous=FULL")
            source.backup(copied)
            copied.execute("PRAGMA journal_mode=DELETE")
            copied.execute(f"PRAGMA user_version={CLOSED}")
            copied.close()
            publish(temporary, target)
    except FileExistsError:
        raise InvalidInput(f"{target} is there already; give another name, or remove it first") from None
    except (sqlite3.Error, OSError) as error:
        raise log_error(f"cannot copy {path} to {target}: {error}", error, "; choose another place") from error


def write(
    target: Path,
    about: Mapping[str, str],
    events: Iterable[Sequence[Any]],
    snapshots: Iterable[Sequence[Any]],
) -> None:
    """Write a record that was kept elsewhere as a file; it gets its name when it is on the disk."""
    if any(file.exists() for file in (target, wal_of(target), beside(target))):
        raise InvalidInput(f"{target} is there already; give another name, or remove it first")
    try:
        _write_whole(target, about, events, snapshots)
    except FileExistsError:
        raise InvalidInput(f"{target} is there already; give another name, or remove it first") from None
    except (sqlite3.Error, OSError) as error:
        raise log_error(f"cannot write {target}: {error}", error, "; choose another place") from error


def _write_whole(
    path: Path, about: Mapping[str, str], events: Iterable[Sequence[Any]], snapshots: Iterable[Sequence[Any]]
) -> None:
    """Write all rows of a record and give it its name; raises `FileExistsError` where there is one of that name."""
    with _unfinished(path) as temporary, closing(sqlite3.connect(temporary)) as connection:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.executescript(SCHEMA)
        with connection:
            connection.executemany("INSERT INTO about VALUES (?, ?)", about.items())
            connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", events)
            connection.executemany("INSERT INTO snapshots VALUES (?, ?)", snapshots)
        connection.close()
        publish(temporary, path)


def _check_kind(path: Path) -> None:
    if path.stat().st_size == 0:  # SQLite takes it for a new database, and tidies up around it
        raise DamagedFile(f"{path} is damaged, or is not a record of holdcourse: it is empty; restore it from a backup")
    if _first_page(path)[0] != APPLICATION_ID:
        raise DamagedFile(f"{path} is damaged, or is not a record of holdcourse; restore it from a backup")


def _check_names(path: Path) -> None:
    """Under another name of the same file SQLite would look for another write-ahead log."""
    ours = [*path.parent.glob(f".{glob.escape(path.name)}.*{UNFINISHED}"), path.with_name(f"{UNNAMED}{path.name}")]
    for left_over in ours:  # of a failure right after it got its name
        with suppress(FileNotFoundError):
            if left_over.samefile(path):
                left_over.unlink()
    names = path.stat().st_nlink
    if names > 1:
        raise LogError(
            f"{path} has {names} names (hard links), and whoever opens it by another name would miss its newest "
            "events; remove the other names, or copy the record with holdcourse backup"
        )


def _first_page(path: Path) -> tuple[int, int]:
    """Application id and user version as they stand in the file itself; takes no lock and touches nothing around it."""
    with closing(sqlite3.connect(_address(path, "immutable=1"), uri=True)) as connection:
        # In the middle of a checkpoint the file alone is no whole database; its first page can be read all the same.
        connection.execute("PRAGMA writable_schema=ON")
        values = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
    return int(values[0]), int(values[1])


def _check_pages(connection: sqlite3.Connection, path: Path, checked: bool) -> None:
    flaw = connection.execute("PRAGMA quick_check").fetchone()[0] if checked else "ok"
    if flaw != "ok":
        words = " ".join(flaw.removeprefix("*** in database main ***").split())
        raise DamagedFile(f"{path} is damaged ({words}); restore it from a backup")


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(_address(path, "mode=ro"), uri=True, timeout=BUSY_S, check_same_thread=False)


def _mended(path: Path) -> sqlite3.Connection:
    """A reader of a file that a crash left half switched to or from the write-ahead log: who may write rolls that back.

    Nothing acknowledged is touched: no event is ever written in that mode, and the file is not in use.
    """
    with closing(sqlite3.connect(_address(path, "mode=rw"), uri=True, timeout=BUSY_S)) as connection:
        connection.execute("SELECT 1 FROM about").fetchone()
    return _read_only(path)


def _copied_from_read_only_place(path: Path) -> sqlite3.Connection:
    """A record with a write-ahead log can be read only where SQLite can write beside it: so read a copy of both.

    Nobody writes to a read-only place, and this process holds no lock there that closing a file could drop.
    """
    with TemporaryDirectory() as folder:
        copied = Path(folder) / "record"
        for end in ("", "-wal", "-journal"):
            with suppress(FileNotFoundError):
                shutil.copyfile(path.with_name(path.name + end), copied.with_name(copied.name + end))
        with closing(sqlite3.connect(copied)) as source:
            memory = sqlite3.connect(":memory:", check_same_thread=False)
            source.backup(memory)
    return memory


@contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """A new, empty file beside `path` that only its owner may read; gone at the end, unless it got a name."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}{UNFINISHED}")
    try:
        temporary.unlink(missing_ok=True)
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # before SQLite knows of it
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def publish(temporary: Path, path: Path) -> None:
    """Give a whole, closed file its name for good; `FileExistsError` where the name is taken."""
    try:
        os.link(temporary, path)  # a rename would replace what is there
    except OSError as error:
        if error.errno not in WITHOUT_LINKS:
            raise
        if path.exists():
            raise FileExistsError(path) from None
        temporary.replace(path)
    archive.sync_folder(path.parent)


def _address(path: Path, options: str) -> str:
    """The file as SQLite's URI; its own marks in the name are quoted."""
    return f"file:{quote(os.path.abspath(path))}?{options}"
