"""Where a record is kept: what a `Log` needs of a file, or of a database that several processes share.

The events, their bytes and their chain of hashes are the same wherever they are kept; see `Log`. A record is a file of
SQLite (`file_storage`) unless it is named by an address such as ``postgresql://host/plant#mill/epoch-0001.db``
(`table_storage`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from holdcourse.running.events import Sought

Row: TypeAlias = tuple[int, str, str, str, str]  # number, at, kind, body, chain
Gap: TypeAlias = tuple[str, int | None]  # what is missing at the end, in words, and how many events at least

ADDRESSES = ("postgresql://", "postgres://")
KEPT_SNAPSHOTS = 2  # the newest ones, beside the first ...
LASTING_EVERY = 8192  # ... and one for so many events: an old decision is rebuilt from the one before it


class KeptSnapshot(NamedTuple):
    """A snapshot to be kept: which event it follows, what it holds, and in whose place.

    It takes the place of all but a few others, or of those from event `in_place_of` on.
    """

    follows: int
    content: bytes
    in_place_of: int | None = None


class Storage(Protocol):
    """An open record: the rows of its events, its snapshots, and what it says about itself."""

    def about(self) -> dict[str, str]:
        """What it says about itself: JSON texts by key."""
        ...

    def end(self) -> tuple[int, str] | None:
        """Number and hash of the last event; None: there is none."""
        ...

    def row(self, number: int) -> Row | None:
        """Return the event of a number; None where it is not there."""
        ...

    def page(self, after: int, upto: int, limit: int) -> list[Row]:
        """Events after one number and up to another, in order."""
        ...

    def walk(self) -> Iterator[Row]:
        """All events in order."""
        ...

    def of_kind(self, kind: str, after: int) -> list[Row]:
        """All events of a kind after a number, in order."""
        ...

    def find(self, what: Sought, low: str | int, high: str | int, limit: int, *, newest: bool) -> list[Row]:
        """Events by what they say, from `low` to `high`; the first ones in order, or the `newest` in reverse order."""
        ...

    def keys(self) -> Iterator[str]:
        """All keys under which clients caused events, in no order."""
        ...

    def snapshot(self, at_most: int) -> tuple[int, bytes] | None:
        """The newest snapshot that follows this event or an earlier one, and which it follows."""
        ...

    def snapshots(self) -> list[int]:
        """Which events snapshots follow."""
        ...

    def gap(self, record: str, last: int, chain_at: Callable[[int], str | None]) -> Gap | None:
        """What is missing of the record of this name at the end, which holds `last` events; None: nothing.

        `chain_at` gives the hash of an event.
        """
        ...

    def remedy(self) -> str:
        """What to do about a gap."""
        ...

    def begin_writing(self) -> None:
        """Hold it alone from now on, until it is closed."""
        ...

    def index(self) -> None:
        """Make events quick to find by what they say."""
        ...

    @property
    def lost(self) -> str | None:
        """Why nothing is written any more, for as long as it is open: somebody took its files away. Else None."""
        ...

    def check_writable(self) -> None:
        """An error where what is written now would not be found by the next process."""
        ...

    def commit(self, rows: Sequence[Row], before: tuple[int, str], kept: KeptSnapshot | None) -> None:
        """Write events, and a snapshot, all or none: they are safe when this returns.

        `before` is number and hash of the event that they follow.
        """
        ...

    def acknowledged(self, record: str, last: int, chain: str) -> None:
        """Remember how far the record has come."""
        ...

    def copy(self, target: Path) -> None:
        """Write a whole copy in one file; others may go on writing meanwhile."""
        ...

    def leave_as_it_is(self) -> None:
        """Do not say that it is closed, however it is let go of."""
        ...

    def close(self) -> None:
        """Let go of the place where the record is kept."""
        ...


class RecordPlace(Protocol):
    """Where a record is or shall be."""

    @property
    def name(self) -> str:
        """Its name among the records of the same controller."""
        ...

    def exists(self) -> bool:
        """Whether there is a record."""
        ...

    def create(self, about: Mapping[str, str], first_snapshot: bytes) -> None:
        """Begin a record, whole or not at all; where another process has just begun one, it stays."""
        ...

    def reader(self, *, checked: bool) -> Storage:
        """Open it for reading; `checked` looks at every page of it."""
        ...

    def writer(self) -> Storage:
        """Open it for writing too; see `Storage.begin_writing`."""
        ...


Location: TypeAlias = Path | RecordPlace


def located(given: str | Path | RecordPlace) -> Location:
    """Where the record is that somebody names: a file, or an address of a database."""
    if not isinstance(given, str):
        return given
    if given.startswith(ADDRESSES):
        from holdcourse.running.table_storage import TableRecord

        return TableRecord.named(given)
    return Path(given)
