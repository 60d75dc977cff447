"""Records in a database that several processes of the service share; see `leases` for who holds which controller."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from holdcourse.errors import HoldcourseError, LogError
from holdcourse.running.postgres import UNFINISHED, Database, TableRecord, names
from holdcourse.running.storage import Location
from holdcourse.service.core.data_folder import epoch_name, number_of
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
    """

    def __init__(self, address: str, answers_at: str, lease_s: float) -> None:
        self.database = Database(address)
        self.database.prepare()
        self.leases: Leases | None = Leases(self.database, answers_at, lease_s)
        self._leases = self.leases
        self._leases.renew()

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

    def check_newest(self, controller: str) -> None:
        """Nothing: a database does not lose single records."""

    def next_epoch(self, controller: str) -> tuple[Location, Location]:
        """Return where to write the next record, and what to call it when it is whole."""
        newest = max(map(number_of, self.epochs(controller)), default=0)
        final = self._record(controller, epoch_name(newest + 1))
        unfinished = self._record(controller, f"{UNFINISHED}{final.name}")
        unfinished.remove()  # of a process that was killed
        return unfinished, final

    def publish(self, unfinished: Location, final: Location) -> None:
        """Give a whole record its name."""
        assert isinstance(unfinished, TableRecord)
        if final.exists():
            raise LogError(f"{final} exists already and was not touched")
        unfinished.rename(final.name)

    def free(self) -> int:
        """Return enough, if the database answers."""
        self.database.rows("SELECT 1")
        return PLENTY

    def copy_to(self, controller: str, file: IO[bytes]) -> None:
        """Write a consistent copy of a controller as a zip; unpacked, it is a data folder."""
        write_zip(controller, self.epochs(controller), file)

    def _record(self, controller: str, name: str) -> TableRecord:
        return TableRecord(self.database, controller, name, self._leases.fences.get(controller))
