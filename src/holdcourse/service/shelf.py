"""The records of all epochs of a controller, for reading: what was asked and told, by round, by decision, by key.

It reads on connections of its own, so that looking at the past never waits for a decision that is being taken. An
epoch that is over never changes, so a few facts about each are kept in memory, and only a few of them are held open.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import InvalidInput
from holdcourse.log import Event, Log, Sought
from holdcourse.service.links import Links
from holdcourse.service.store import number_of

Hashes: TypeAlias = NDArray[np.int64]

LATEST = 200  # notes of a kind that are looked at
CHANGES = {  # what operators do, and what is told of it
    "created": (),
    "epoch": (),
    "config": ("changes",),
    "mode": ("mode", "reason"),
    "override": ("action", "reason", "force"),
}
OPEN_EPOCHS = 4  # of those that are over


class Entry(NamedTuple):
    """An event and the epoch it belongs to."""

    epoch: int
    event: Event


class Shelf:
    """Records by the number of their epoch.

    Attributes
    ----------
    paths
        Those that are there, oldest first; numbers may be missing where epochs were archived.
    """

    def __init__(self) -> None:
        self.paths: dict[int, Path] = {}
        self._lock = Lock()
        self._links = Links()
        self._present: Log | None = None
        self._open: OrderedDict[int, Log] = OrderedDict()  # epochs that are over, the one used last at the end
        self._rounds: dict[int, tuple[int, int]] = {}  # first and last one asked in each epoch that is over
        self._keys: dict[int, Hashes] = {}  # sorted; of each epoch that is over, once a key was looked for
        self._notes: dict[tuple[int, str], list[dict[str, Any]]] = {}  # of epochs that are over

    @property
    def newest(self) -> int:
        """The present epoch."""
        return max(self.paths)

    @property
    def archived(self) -> list[int]:
        """Epochs that are not here any more."""
        return [number for number in range(1, self.newest) if number not in self.paths]

    def take_in(self, paths: list[Path]) -> None:
        """These are the records now; raises where one does not continue the one before it."""
        rounds = {}
        for number, path in ((number_of(path), path) for path in paths[:-1]):
            if number in self._rounds:  # it was over, and has not changed since
                rounds[number] = self._rounds[number]
                continue
            log = Log.read(path, checked=False)
            try:
                self._links.add(log)
                rounds[number] = _rounds_of(log)
            finally:
                log.close()
        newest = Log.read(paths[-1], checked=False)
        try:
            self._links.add(newest)
        except BaseException:
            newest.close()
            raise
        with self._lock:
            if self._present is not None:
                self._present.close()
            self._present, self._rounds = newest, rounds
            self.paths = {number_of(path): path for path in paths}

    def close(self) -> None:
        """Let go of the files."""
        with self._lock:
            for log in (self._present, *self._open.values()):
                if log is not None:
                    log.close()
            self._open.clear()

    def path(self, epoch: int) -> Path:
        """The record of an epoch, which must be here."""
        if epoch > self.newest:
            raise InvalidInput(f"there is no epoch {epoch} yet; the present one is {self.newest}")
        if epoch not in self.paths:
            raise InvalidInput(f"epoch {epoch} was archived, so what it called its actions is not known here")
        return self.paths[epoch]

    def asked(self, round_number: int) -> Entry | None:
        """The decision of a round."""
        for epoch in reversed(self.paths):
            first, last = self._rounds.get(epoch, (0, 2**62))
            if first <= round_number <= last:
                found = self._find(epoch, "round", round_number, round_number, 1, newest=True)
                if found:
                    return found[0]
        return None

    def told(self, decision: str) -> Entry | None:
        """What was told of a decision, in the epoch in which it was asked or a later one."""
        for epoch in self.paths:
            if self._rounds.get(epoch, (0, 2**62))[1] >= int(decision[1:]):
                found = self._find(epoch, "decision", decision, decision, 1, newest=True)
                if found:
                    return found[0]
        return None

    def with_key(self, key: str) -> Entry | None:
        """What a client caused under this key."""
        for epoch in reversed(self.paths):
            if epoch == self.newest or self._may_hold(epoch, key):
                found = self._find(epoch, "key", key, key, 1, newest=True)
                if found:
                    return found[0]
        return None

    def asks_after(self, round_number: int, limit: int) -> list[Entry]:
        """The first `limit` decisions after a round."""
        found: list[Entry] = []
        for epoch in self.paths:
            if len(found) < limit and self._rounds.get(epoch, (0, 2**62))[1] > round_number:
                found += self._find(epoch, "round", round_number + 1, 2**62, limit - len(found), newest=False)
        return found

    def newest_asks(self, limit: int) -> list[Entry]:
        """The newest `limit` decisions, in order."""
        found: list[Entry] = []
        for epoch in reversed(self.paths):
            if len(found) < limit and self._rounds.get(epoch, (0, 2**62))[1] >= 0:
                found = self._find(epoch, "round", 0, 2**62, limit - len(found), newest=True) + found
        return found

    def alarms(self) -> list[dict[str, Any]]:
        """The newest alarms, oldest first, with the time at which they were cleared."""
        alarms: list[dict[str, Any]] = []
        for note in self._newest_notes({"alarm": ("kind", "message"), "cleared": ("kind",)}):
            if note["what"] == "alarm":
                alarms.append({name: note[name] for name in ("at", "kind", "message")} | {"cleared_at": None})
            else:
                for alarm in alarms:
                    if alarm["kind"] == note["kind"] and alarm["cleared_at"] is None:
                        alarm["cleared_at"] = note["at"]
        return alarms

    def changes(self) -> list[dict[str, Any]]:
        """What operators changed lately, oldest first: when, in which epoch, what, and who."""
        told = ("at", "epoch", "what", "by")
        return [
            {name: note[name] for name in told} | {"to": {name: note[name] for name in CHANGES[note["what"]]}}
            for note in self._newest_notes(CHANGES)
        ]

    def history(self) -> list[Any] | None:
        """The measurements that the controller started from."""
        if 1 not in self.paths:
            raise InvalidInput("the history is in epoch 1, which was archived; bring back its file to read it")
        found = self._find(1, "note", "created", "created", 1, newest=False)
        past: list[Any] | None = found[0].event.body["history"]
        return past

    def _newest_notes(self, kinds: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
        """The newest notes of some kinds, oldest first; of each kind some fields are told."""
        notes: list[dict[str, Any]] = []
        for epoch in reversed(self.paths):
            if len(notes) < LATEST:
                found = [note for kind, fields in kinds.items() for note in self._notes_of(epoch, kind, fields)]
                notes = sorted(found, key=lambda note: int(note["number"])) + notes
        return notes

    def _notes_of(self, epoch: int, kind: str, fields: Sequence[str]) -> list[dict[str, Any]]:
        known = self._notes.get((epoch, kind))
        if known is not None:
            return known
        notes = [
            {"number": event.number, "at": event.at, "epoch": epoch, "what": kind}
            | {"by": event.body.get("extra", {}).get("by")}
            | {name: event.body[name] for name in fields}
            for _, event in self._find(epoch, "note", kind, kind, LATEST, newest=True)
        ]
        if epoch != self.newest:
            self._notes[epoch, kind] = notes
        return notes

    def _may_hold(self, epoch: int, key: str) -> bool:
        """Whether an epoch that is over may hold a key, without opening it each time."""
        if epoch not in self._keys:
            with self._lock:
                log = self._log(epoch)
                hashes = () if log is None else (hash(key) for key in log.used_keys())
                self._keys[epoch] = np.sort(np.fromiter(hashes, dtype=np.int64))
        hashes_there = self._keys[epoch]
        place = int(np.searchsorted(hashes_there, hash(key)))
        return place < len(hashes_there) and int(hashes_there[place]) == hash(key)

    def _find(
        self, epoch: int, what: Sought, low: str | int, high: str | int, limit: int, *, newest: bool
    ) -> list[Entry]:
        with self._lock:
            log = self._log(epoch)
            events = [] if log is None else log.find(what, low, high, limit=limit, newest=newest)
        return [Entry(epoch, event) for event in events]

    def _log(self, epoch: int) -> Log | None:
        """An open record, whoever has the lock; None if it was archived meanwhile."""
        assert self._present is not None
        if epoch == number_of(self._present.path):
            return self._present
        if epoch not in self._open:
            if not self.paths[epoch].exists():
                return None
            self._open[epoch] = Log.read(self.paths[epoch], checked=False)
            if len(self._open) > OPEN_EPOCHS:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(epoch)
        return self._open[epoch]


def _rounds_of(log: Log) -> tuple[int, int]:
    """First and last round asked in a record; (0, -1) if none was."""
    ends = [log.find("round", 0, 2**62, newest=newest) for newest in (False, True)]
    if not ends[0]:
        return 0, -1
    first, last = (int(found[0].body["round"]) for found in ends)
    return first, last
