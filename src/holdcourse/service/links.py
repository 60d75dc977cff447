"""Whether records continue each other: each names the one before it, and how that ended."""

from __future__ import annotations

from holdcourse.errors import DamagedFile
from holdcourse.log import Log
from holdcourse.service.store import epoch_name, number_of


class Links:
    """Takes in the records of a controller, oldest first. Missing ones are no error: they may have been archived."""

    def __init__(self) -> None:
        self._ends: dict[str, tuple[int, str]] = {}  # number of events and last hash of each record taken in

    def add(self, log: Log) -> None:
        """The next record; raises unless it continues the one before it, as far as that is there."""
        number, previous = number_of(log.path), log.about.get("previous")
        expected = None if number == 1 else epoch_name(number - 1)
        named = None if previous is None else previous["file"]
        if named != expected:
            raise DamagedFile(
                f"{log.path} continues {named or 'no other record'}, and by its name {expected or 'none'}; it was "
                "renamed or is another controller's. Give it back its name, or restore from a back-up"
            )
        if previous is not None:
            then = (previous["events"], previous["chain"])
            if self._ends.get(previous["file"], then) != then:
                raise DamagedFile(f"{log.path} does not continue {named} as it is; restore from a back-up")
        self._ends[log.path.name] = (log.last, log.chain)
