"""The data folder: its format, which controllers it holds, and copies of them.

::

    DIR/holdcourse.json                   {"format": 1}
    DIR/holdcourse.lock                   held by the server that runs here
    DIR/controllers/<id>/epoch-0001.db    a record, see `running.log`; the next epoch names this one's last hash
    DIR/controllers/<id>/newest           number of the newest epoch that was begun: that one may not be missing
    DIR/fleets/<id>/epoch-0001.db         the record of a fleet, of which there is one
    DIR/jobs/<id>.json                    a job: what was asked for, and what came of it
    DIR/journal.jsonl                     what no controller's record can hold, see `journal`
    DIR/deleted/<id>-...                  a controller, or a fleet, on its way out

All of it is for the service's user only. Old epochs may be moved away; their numbers are never given again.

A controller is deleted in one step, when its folder gets another name; what is left then is removed, now or at the next
start. Before that step nothing is lost: a note of who wants it lies beside the records, and goes with them.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from holdcourse import archive
from holdcourse.errors import DamagedFile, DiskFull, InvalidInput, LogError, file_error, log_error
from holdcourse.running import database
from holdcourse.running.storage import Location
from holdcourse.service.core.store import FORMAT, write_zip

if TYPE_CHECKING:  # it needs an extra
    from holdcourse.service.core.leases import Leases

logger = logging.getLogger("holdcourse.service")

CONTROLLERS, FLEETS = "controllers", "fleets"
DELETED, DELETION = "deleted", "deletion.json"
NEWEST = "newest"
UNFINISHED = ".new-"  # a record gets its name when it is whole
NAME = re.compile(r"epoch-([0-9]{4,})\.db")
OTHERS = 0o077  # what people other than the owner may do


class DataFolder:
    """The folder of one server, which no other one may open meanwhile.

    Parameters
    ----------
    path
        Made if it does not exist; refused if it has another format.
    """

    leases: Leases | None = None  # all controllers are this server's
    kind = CONTROLLERS  # whose records it is asked for
    fleets: DataFolder | None = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes: Path | None = path
        try:
            archive.make_folder(path.parent)
            for folder in (path, path / CONTROLLERS, path / FLEETS, path / "jobs"):
                archive.make_folder(folder, private=True)
                archive.sync_folder(folder)  # a server that was killed may not have come to it
            self._lock = _locked(path / "holdcourse.lock")
        except OSError as error:
            reason = "it is a file, and a folder is needed" if path.is_file() else error.strerror or error
            remedy = "; create it first, for the service's user" if isinstance(error, PermissionError) else ""
            raise file_error(f"cannot use {path} for data: {reason}{remedy}", error) from error
        try:
            self._check_format()
            self._warn_if_open_to_others()
            for kind in (CONTROLLERS, FLEETS):
                for left_over in (path / kind).glob(f"**/{UNFINISHED}*"):
                    _remove(left_over)  # a crash came before it was answered
                for intended in (path / kind).glob(f"*/{DELETION}"):
                    intended.unlink()  # likewise: the controller stays
        except BaseException:
            self.close()
            raise
        self.fleets = self.of_running_server(path)
        self.fleets.kind = FLEETS

    @classmethod
    def of_running_server(cls, path: Path) -> DataFolder:
        """Return the folder of a server that runs, as a process that works for it sees it: neither held nor tidied."""
        found = cls.__new__(cls)
        found.path = path
        return found

    @property
    def jobs(self) -> Path:
        """Where jobs are written down."""
        return self.path / "jobs"

    def close(self) -> None:
        """Let another server use it."""
        self._lock.close()

    def ids(self) -> list[str]:
        """List the controllers in the folder, and those of which somebody took the records away."""
        folders = (self.path / self.kind).iterdir()
        return sorted(each.name for each in folders if self.epochs(each.name) or (each / NEWEST).exists())

    def folder(self, controller: str) -> Path:
        """Return the folder of a controller's records."""
        return self.path / self.kind / controller

    def place(self, controller: str) -> str:
        """Say where the records of a controller are."""
        return str(self.folder(controller))

    def epochs(self, controller: str) -> list[Path]:
        """List the records of a controller, oldest first."""
        found = (path for path in self.folder(controller).glob("epoch-*.db") if NAME.fullmatch(path.name))
        return sorted(found, key=number_of)

    def is_there(self, controller: str, epoch: int) -> bool:
        """Return whether the record of an epoch has not been taken away, as far as its name tells."""
        try:
            os.stat(self.folder(controller) / epoch_name(epoch))
        except OSError as error:  # other faults may pass
            return not isinstance(error, FileNotFoundError | NotADirectoryError)
        return True

    def check_newest(self, controller: str) -> None:
        """Raise where the newest record is missing: going on from an older one would begin its epoch a second time."""
        folder, there = self.folder(controller), self.epochs(controller)
        if not there:
            raise DamagedFile(
                f"the records of {controller} are gone: somebody deleted {folder}/epoch-*.db or moved them away. Bring "
                f"them back, or restore a back-up; if nobody needs them any more, remove {folder}"
            )
        mark, newest = folder / NEWEST, number_of(there[-1])
        try:
            begun = int(mark.read_text(encoding="ascii"))
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise DamagedFile(
                f"{mark} is damaged ({error}); restore it, or remove it if {newest} is the newest"
            ) from None
        if begun > newest:
            raise DamagedFile(
                f"{epoch_name(begun)} of {controller} is missing; only older epochs may be archived. Bring it back or, "
                f"to continue from {epoch_name(newest)} and lose what came later, remove {mark}"
            )

    def next_epoch(self, controller: str, writer: str = "") -> tuple[Path, Path]:
        """Return where to write the next record, and what to call it when it is whole; see `publish`.

        Another `writer` than this process has a file of its own: one that outlives its server cannot spoil the next's.
        """
        folder = self.folder(controller)
        newest = max(map(number_of, self.epochs(controller)), default=0)
        final = folder / epoch_name(newest + 1)
        unfinished = folder / f"{UNFINISHED}{writer}{final.name}"
        try:
            archive.make_folder(folder, private=True)
            _remove(unfinished)
        except OSError as error:
            raise log_error(f"cannot begin {final}: {error.strerror}", error) from error
        return unfinished, final

    def publish(self, unfinished: Location, final: Location) -> None:
        """Give a whole, closed record its name, for good; never that of another record."""
        assert isinstance(unfinished, Path)
        assert isinstance(final, Path)
        # The disk was too full, or failed, when it was closed: not all of it is in one file, or it does not say so.
        if database.wal_of(unfinished).exists() or database.is_cut_off(unfinished):
            raise DiskFull(f"cannot finish {final}: a part of it could not be written; make room, and try again")
        try:
            database.publish(unfinished, final)
            _remove(unfinished)
        except FileExistsError:
            raise LogError(
                f"{final} exists already and was not touched; move it away if holdcourse did not write it"
            ) from None
        except OSError as error:
            raise log_error(f"cannot write to {final}: {error.strerror}", error) from error
        try:
            archive.write_file(final.parent / NEWEST, b"%d\n" % number_of(final), private=True)
        except (InvalidInput, DiskFull) as error:  # the record counts; only its loss would not be noticed
            logger.warning("%s", error)

    def take_out(self, controller: str, about: Mapping[str, Any]) -> Path:
        """Delete a controller whose files are closed, for good; `about` says who wants it. Returns what to `remove`."""
        folder, bin_ = self.folder(controller), self.path / DELETED
        gone = bin_ / f"{controller}-{secrets.token_hex(4)}"
        try:
            archive.make_folder(bin_, private=True)
            archive.write_file(folder / DELETION, json.dumps({**about, "deletion": gone.name}).encode(), private=True)
            folder.rename(gone)
            archive.sync_folder(bin_)
            archive.sync_folder(folder.parent)
        except OSError as error:
            raise log_error(f"cannot delete {folder}: {error.strerror}", error) from error
        return gone

    def taken_out(self) -> list[Path]:
        """List what `take_out` has left: a crash came before it was removed."""
        bin_ = self.path / DELETED
        return sorted(bin_.iterdir()) if bin_.is_dir() else []

    def remove(self, gone: Path, note: Callable[[dict[str, Any]], object]) -> None:
        """Remove what `take_out` has left; `note` is called with who wanted it, before the last of it is gone."""
        for part in sorted(gone.iterdir()):
            if part.name != DELETION:
                shutil.rmtree(part) if part.is_dir() and not part.is_symlink() else part.unlink()
        about: dict[str, Any] = {"deletion": gone.name}
        with suppress(OSError, ValueError):  # it was on the disk before the folder moved; if not, it is not known
            about |= json.loads((gone / DELETION).read_text(encoding="utf-8"))
        note(about)
        shutil.rmtree(gone)

    def free(self) -> int:
        """Return how many bytes are left on its disk."""
        return shutil.disk_usage(self.path).free

    def copy_to(self, controller: str, file: IO[bytes]) -> None:
        """Write a consistent copy of a controller as a zip, while it runs; unpacked, it is a data folder."""
        write_zip(f"{self.kind}/{controller}", self.epochs(controller), file)

    def _warn_if_open_to_others(self) -> None:
        folders = [self.path, self.path / self.kind, *(self.folder(name) for name in self.ids())]
        wide = [folder for folder in folders if os.name == "posix" and folder.stat().st_mode & OTHERS]
        if wide:
            shown = ", ".join(map(str, wide[:3])) + (f" and {len(wide) - 3} more" if len(wide) > 3 else "")
            logger.warning(
                "other users of this machine may read %s; prevent it with: chmod -R go= %s", shown, self.path
            )

    def _check_format(self) -> None:
        about = self.path / "holdcourse.json"
        if not about.exists():
            archive.write_file(about, json.dumps({"format": FORMAT}).encode(), private=True)
        try:
            found = json.loads(about.read_text(encoding="utf-8"))["format"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DamagedFile(f"{about} is damaged ({error}); restore it from a backup") from None
        if not isinstance(found, int) or found > FORMAT:
            raise InvalidInput(
                f"{self.path} has format {found}, but this version of holdcourse reads formats up to {FORMAT}; "
                "use a newer version"
            )
        if found < FORMAT:
            raise InvalidInput(
                f"{self.path} has format {found}, which this version of holdcourse no longer reads; use the version "
                "that wrote it"
            )


def _locked(path: Path) -> IO[Any]:
    """Hold the file until it is closed or the process ends, however it ends, and return it."""
    file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a")
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


def number_of(path: Location) -> int:
    """Return the number of an epoch, which is in its file's name and stays the same whatever becomes of the others."""
    found = NAME.fullmatch(path.name)
    if found is None:
        raise InvalidInput(f"{path} is not an epoch; epochs have names like {epoch_name(1)}")
    return int(found[1])


def epoch_name(number: int) -> str:
    """Return the name of the file of an epoch."""
    return f"epoch-{number:04d}.db"


def _remove(path: Path) -> None:
    for part in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal", "-mark"))):
        with suppress(FileNotFoundError):
            part.unlink()
