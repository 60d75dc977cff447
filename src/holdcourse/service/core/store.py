"""Where the records of the service's controllers are: a folder of this machine's, or a database that several share."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any, Protocol

from holdcourse.running.log import Log
from holdcourse.running.storage import Location

if TYPE_CHECKING:  # it needs an extra
    from holdcourse.service.core.leases import Leases

FORMAT = 1  # of a data folder


class Store(Protocol):
    """What the service needs of the place in which it keeps records."""

    leases: Leases | None
    """Who holds which controller, where several processes share the records; None: this one holds them all."""
    notes: Path | None
    """Folder of this process for what is no record: its journal, and what it has sent; None: there is none."""

    @property
    def fleets(self) -> Store | None:
        """Where the records of fleets are; None: none are kept here."""
        ...

    def close(self) -> None:
        """Let others use it."""
        ...

    def ids(self) -> list[str]:
        """List the controllers that this process opens when it starts."""
        ...

    def place(self, controller: str) -> str:
        """Say where the records of a controller are, in words."""
        ...

    def epochs(self, controller: str) -> Sequence[Location]:
        """List the records of a controller, oldest first."""
        ...

    def is_there(self, controller: str, epoch: int) -> bool:
        """Whether the record of an epoch has not been taken away, as far as a quick look tells."""
        ...

    def check_newest(self, controller: str) -> None:
        """Raise where the newest record is missing."""
        ...

    def next_epoch(self, controller: str) -> tuple[Location, Location]:
        """Return where to write the next record, and what to call it when it is whole; see `publish`."""
        ...

    def publish(self, unfinished: Location, final: Location) -> None:
        """Give a whole, closed record its name, for good; never that of another record."""
        ...

    def take_out(self, controller: str, about: Mapping[str, Any]) -> Path:
        """Delete a controller whose records are closed; `about` says who wants it. Returns what to `remove`."""
        ...

    def taken_out(self) -> list[Path]:
        """List what `take_out` has left: a crash came before it was removed."""
        ...

    def remove(self, gone: Path, note: Callable[[dict[str, Any]], object]) -> None:
        """Remove what `take_out` has left; `note` is called with who wanted it, before the last of it is gone."""
        ...

    def free(self) -> int:
        """Return how many bytes are left for records."""
        ...

    def copy_to(self, controller: str, file: IO[bytes]) -> None:
        """Write a consistent copy of a controller as a zip, while it runs; unpacked, it is a data folder."""
        ...


def write_zip(folder: str, records: Sequence[Location], file: IO[bytes]) -> None:
    """Write copies of records as a zip, under this folder; unpacked, it is a data folder."""
    with TemporaryDirectory() as scratch, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as copies:
        copies.writestr("holdcourse.json", json.dumps({"format": FORMAT}))
        for record in records:
            copy = Path(scratch) / record.name
            log = Log.read(record, checked=False, incomplete=True)
            try:
                log.backup(copy)
            finally:
                log.close()
            copies.write(copy, f"{folder}/{record.name}")
            copy.unlink()
