"""The data folder: its format, which controllers it holds, and copies of them.

::

    DIR/holdcourse.json                   {"format": 1}
    DIR/holdcourse.lock                   held by the server that runs here
    DIR/controllers/<id>/epoch-0001.db    a record, see `holdcourse.log`; the next epoch names this one's last hash
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from holdcourse import archive
from holdcourse.errors import DamagedFile, InvalidInput
from holdcourse.log import LogError

FORMAT = 1
MIGRATIONS: dict[int, Callable[[Path], None]] = {}  # from each older format to the next one
UNFINISHED = ".new-"  # a record gets its name when it is whole


class DataFolder:
    """The folder of one server, which no other one may open meanwhile.

    Parameters
    ----------
    path
        Made if it does not exist; migrated if it has an older format, refused if it has a newer one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            archive.make_folder(path / "controllers")
            for folder in (path, path / "controllers"):  # a server that was killed may not have come to it
                archive.sync_folder(folder)
            self._lock = _locked(path / "holdcourse.lock")
        except OSError as error:
            raise InvalidInput(f"cannot use {path} for data: {error.strerror or error}") from error
        try:
            self._bring_up_to_date()
            for left_over in (path / "controllers").glob(f"**/{UNFINISHED}*"):
                _remove(left_over)  # a crash came before it was answered
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let another server use it."""
        self._lock.close()

    def ids(self) -> list[str]:
        """Controllers in the folder."""
        return sorted(folder.name for folder in (self.path / "controllers").iterdir() if any(folder.glob("epoch-*.db")))

    def folder(self, controller: str) -> Path:
        """Where a controller's records are."""
        return self.path / "controllers" / controller

    def epochs(self, controller: str) -> list[Path]:
        """Its records, oldest first."""
        found = self.folder(controller).glob("epoch-*.db")
        return sorted(found, key=lambda path: (len(path.name), path.name))  # 10000 comes after 9999

    def next_epoch(self, controller: str) -> tuple[Path, Path]:
        """Where to write the next record, and what to call it when it is whole; see `publish`."""
        folder = self.folder(controller)
        final = folder / f"epoch-{len(self.epochs(controller)) + 1:04d}.db"
        unfinished = folder / f"{UNFINISHED}{final.name}"
        try:
            archive.make_folder(folder)
            _remove(unfinished)
        except OSError as error:
            raise LogError(f"cannot begin {final}: {error.strerror}") from error
        return unfinished, final

    def publish(self, unfinished: Path, final: Path) -> None:
        """Give a whole, closed record its name, for good."""
        if unfinished.with_name(f"{unfinished.name}-wal").exists():  # the disk was too full to put all into one file
            raise LogError(f"cannot finish {final}: a part of it could not be written; make room, and try again")
        try:
            unfinished.replace(final)
            for folder in (final.parent, final.parent.parent):
                archive.sync_folder(folder)
        except OSError as error:
            raise LogError(f"cannot write to {final}: {error.strerror}") from error

    def free(self) -> int:
        """Bytes left on its disk."""
        return shutil.disk_usage(self.path).free

    def copy_to(self, controller: str, file: IO[bytes]) -> None:
        """Write a consistent copy of a controller as a zip, while it runs; unpacked, it is a data folder."""
        with TemporaryDirectory() as scratch, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as copies:
            copies.writestr("holdcourse.json", json.dumps({"format": FORMAT}))
            for epoch in self.epochs(controller):
                copy = Path(scratch) / epoch.name
                with closing(sqlite3.connect(epoch)) as source, closing(sqlite3.connect(copy)) as target:
                    source.backup(target)
                copies.write(copy, f"controllers/{controller}/{epoch.name}")
                copy.unlink()

    def _bring_up_to_date(self) -> None:
        about = self.path / "holdcourse.json"
        if not about.exists():
            archive.write_file(about, json.dumps({"format": FORMAT}).encode())
        try:
            found = json.loads(about.read_text(encoding="utf-8"))["format"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DamagedFile(f"{about} is damaged ({error}); restore it from a back-up") from None
        if not isinstance(found, int) or found > FORMAT:
            raise InvalidInput(
                f"{self.path} has format {found}, newer than this version of holdcourse, which reads up to {FORMAT}; "
                "use a newer version"
            )
        while found < FORMAT:
            if found not in MIGRATIONS:
                raise InvalidInput(f"{self.path} has format {found}, which this version no longer reads")
            MIGRATIONS[found](self.path)
            found += 1
            archive.write_file(about, json.dumps({"format": found}).encode())


def _locked(path: Path) -> IO[Any]:
    """The file, held until it is closed or the process ends, however it ends."""
    file = path.open("a")
    try:
        import fcntl
    except ImportError:  # not on POSIX: two servers would notice each other at the first event
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise InvalidInput(f"another server uses {path.parent}; stop it first, or use another folder") from None
    return file


def _remove(path: Path) -> None:
    for part in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal"))):
        with suppress(FileNotFoundError):
            part.unlink()
