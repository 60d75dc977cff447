"""Records in a database that several processes of the service share; see `leases` for who holds which controller."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from holdcourse.archive import make_folder
from holdcourse.errors import HoldcourseError, InvalidInput, LogError
from holdcourse.running.file_storage import FilePlace
from holdcourse.running.log import Log
from holdcourse.running.postgres import UNFINISHED, Database
from holdcourse.running.storage import Location
from holdcourse.running.table_storage import TableRecord, lost, names, publish
from holdcourse.service.core.data_folder import CONTROLLERS, DataFolder, epoch_name, number_of
from holdcourse.service.core.leases import Leases
from holdcourse.service.core.store import write_zip

logger = logging.getLogger("holdcourse.service")

PLENTY = 2**62  # bytes: how full its disk is, the database itself must be asked


class SharedStore:
    """The records in one database, and what this process holds of them.

    Parameters
    ----------
    address
        Of the database, ``postgresql://user@host/name``.
    answers_at
        Where this process answers the others, ``http://host:port``.
    lease_s
        For how many seconds others wait for a process that says nothing.
    notes
        Folder for what this process keeps besides records.
    """

    fleets = None  # they are kept in folders only

    def __init__(self, address: str, answers_at: str, lease_s: float, notes: Path | None = None) -> None:
        self.notes = notes
        if notes is not None:
            make_folder(notes, private=True)
        self.database = Database(address)
        self.database.prepare()
        self.leases: Leases | None = Leases(self.database, answers_at, lease_s)
        self._leases = self.leases
        self._leases.join()

    def close(self) -> None:
        """Let other processes take over at once."""
        with suppress(HoldcourseError):  # then they wait for the lease
            self._leases.leave()
        self.database.close()

    def ids(self) -> list[str]:
        """None: who opens which is found out while it runs."""
        return []

    def place(self, controller: str) -> str:
        """Say where the records of a controller are."""
        return f"{self.database}#{controller}"

    def epochs(self, controller: str) -> Sequence[TableRecord]:
        """List the records of a controller, oldest first."""
        found = [self._record(controller, name) for name in names(self.database, controller)]
        return sorted(found, key=number_of)

    def is_there(self, controller: str, epoch: int) -> bool:
        """Return True: a database does not lose single records."""
        return True

    def check_newest(self, controller: str) -> None:
        """Do nothing: a database does not lose single records."""

    def next_epoch(self, controller: str) -> tuple[Location, Location]:
        """Return where to write the next record, and what to call it when it is whole."""
        newest = max(map(number_of, self.epochs(controller)), default=0)
        final = self._record(controller, epoch_name(newest + 1))
        unfinished = self._record(controller, f"{UNFINISHED}{final.name}")
        unfinished.remove()  # of a process that was killed
        return unfinished, final

    def publish(self, unfinished: Location, final: Location) -> None:
        """Give a whole record its name; one that was written as a file is copied first."""
        assert isinstance(final, TableRecord)
        if final.exists():
            raise LogError(f"{final} already exists and was not changed; remove it if holdcourse did not write it")
        if isinstance(unfinished, Path):
            unfinished = self._copied(unfinished, final)
        assert isinstance(unfinished, TableRecord)
        publish([unfinished], [final])

    def take_out(self, controller: str, about: Mapping[str, Any]) -> Path:
        """Refuse: what one process deletes, another might be about to take over."""
        raise InvalidInput(
            f"{controller} is in a database that several servers share, where the service deletes nothing; it stays "
            "archived, and whoever keeps the database can remove its records (its row in holdcourse.controllers must "
            "stay: the fence in it must never start again)"
        )

    def taken_out(self) -> list[Path]:
        """Return nothing: `take_out` leaves nothing behind."""
        return []

    def remove(self, gone: Path, note: Callable[[dict[str, Any]], object]) -> None:
        """Do nothing: `take_out` leaves nothing behind."""

    def free(self) -> int:
        """Return enough, if the database answers."""
        self.database.rows("SELECT 1")
        return PLENTY

    def copy_to(self, controller: str, file: IO[bytes]) -> None:
        """Write a consistent copy of a controller as a zip; unpacked, it is a data folder."""
        write_zip(f"{CONTROLLERS}/{controller}", self.epochs(controller), file)

    def take_over(self, folder: DataFolder) -> dict[str, int]:
        """Copy the records of a data folder that no server uses; returns how many events of each controller.

        What was copied before is left as it is, and an error where it is not the same any more.
        """
        return {name: self._copy(folder, name) for name in folder.ids()}

    def _copy(self, folder: DataFolder, controller: str) -> int:
        folder.check_newest(controller)
        paths = folder.epochs(controller)
        sources = [Log.read(path) for path in paths]  # checked, and nothing is missing
        for source in sources:
            source.close()
        expected = [(source.last, source.chain) for source in sources]
        there = self.epochs(controller)
        if there and _ends(there) != expected:
            raise InvalidInput(
                f"{self.place(controller)} already exists, and differs from the one in {folder.path} or has continued "
                "since; nothing of it was copied"
            )
        if not there:
            self._copy_all(controller, paths, expected)
        return sum(last for last, _ in expected)

    def _copy_all(self, controller: str, paths: list[Path], expected: list[tuple[int, str]]) -> None:
        if not self._leases.claim(controller):
            raise lost(controller)
        finished, unfinished = [self._record(controller, path.name) for path in paths], list[TableRecord]()
        try:
            for final, path in zip(finished, paths, strict=True):
                self._leases.renew()
                unfinished.append(self._copied(path, final))
            if _ends(unfinished) != expected:
                raise LogError(f"{controller} was not copied completely; try again")
            publish(unfinished, finished)  # at once: a server may open it from now on
        finally:
            self._leases.release(controller)

    def _copied(self, path: Path, final: TableRecord) -> TableRecord:
        """Copy a file into the tables, under the name that an unfinished record has."""
        unfinished = self._record(final.controller, f"{UNFINISHED}{final.name}")
        unfinished.remove()
        kept = FilePlace(path).reader(checked=False)
        try:
            unfinished.write(kept)
        finally:
            kept.close()
        return unfinished

    def _record(self, controller: str, name: str) -> TableRecord:
        return TableRecord(self.database, controller, name, self._leases.fences.get(controller))


def _ends(records: Sequence[TableRecord]) -> list[tuple[int, str]]:
    """Number and hash of the last event of each record, after checking all of it."""
    found = [Log.read(record) for record in records]
    return [(log.last, log.chain) for log in found]
