"""The high-water mark beside a record: how many events were acknowledged, and the hash of the last.

It is written after each commit and not waited for, so it may lag behind the record after a power cut but is never ahead
of it. A record that holds less than its mark has lost something: it was shortened, or an older copy was put in its
place. Its file is also what a controller holds while it writes to the record, so that no second one does.
"""

from __future__ import annotations

import json
import os
import weakref
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdcourse.errors import LogError, log_error

WIDTH = 256  # bytes; written in one piece, so that nobody reads the half of one


@dataclass(frozen=True)
class Mark:
    """Of a record: its name for itself, how many events were acknowledged, and the hash of the last."""

    record: str
    events: int
    chain: str

    @classmethod
    def read(cls, record: Path) -> Mark | None:
        """The mark beside a record; None where there is none that can be read."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            text, _, digest = beside(record).read_bytes().strip().rpartition(b" ")
            if digest == _digest(text):
                return cls(**json.loads(text))
        return None


class MarkFile:
    """The mark of a record that is being written, held until it is closed or the process ends, however it ends.

    Failing to move the mark is no error; a second writer is.
    """

    def __init__(self, record: Path) -> None:
        try:
            self._file = os.open(beside(record), os.O_WRONLY | os.O_CREAT, 0o600)
        except OSError as error:
            words = f"cannot write {beside(record)}: {error.strerror}"
            raise log_error(words, error, "; it must be kept beside the record") from error
        self.close = weakref.finalize(self, os.close, self._file)  # also where it is forgotten
        try:
            _hold(self._file)
        except BlockingIOError:
            self.close()
            raise LogError(
                f"another controller writes to {record}; each record belongs to one. Stop that one first, or use "
                "another file"
            ) from None
        _held.add(self)

    def write(self, record: str, events: int, chain: str) -> None:
        """Move the mark; one that cannot be moved, as on a full disk, stays where it is."""
        text = b'{"record": "%b", "events": %d, "chain": "%b"}' % (record.encode(), events, chain.encode())  # JSON
        line = (b"%b %b" % (text, _digest(text))).ljust(WIDTH - 1) + b"\n"
        try:
            _write_at_start(self._file, line)
        except OSError:
            return

    def sync(self) -> None:
        """Wait until the mark is on the disk, if it can be written."""
        with suppress(OSError):
            os.fsync(self._file)


def _write_at_start(file: int, line: bytes) -> None:
    if hasattr(os, "pwrite"):
        os.pwrite(file, line, 0)
    else:
        os.lseek(file, 0, os.SEEK_SET)
        os.write(file, line)


_held: weakref.WeakSet[MarkFile] = weakref.WeakSet()


def _hold(file: int) -> None:
    try:
        import fcntl
    except ImportError:  # not on POSIX: two writers notice each other at the first event
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # a file system without such locks
        return


def _let_go_in_child() -> None:
    """A forked process must not go on holding what its parent held when that is killed."""
    for held in list(_held):
        held.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)


def beside(record: Path) -> Path:
    """Where the mark of a record is."""
    return record.with_name(f"{record.name}-mark")


def _digest(text: bytes) -> bytes:
    return b"%08x" % zlib.crc32(text)
