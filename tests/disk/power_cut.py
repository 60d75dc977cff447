"""A model of a disk that loses its power: what may lie on it after any prefix of a trace of the shim.

- What was written to a file is on the disk when the file has been synced. Before that it may be there, or not, or in
  part (whole sectors of 512 bytes), in any order.
- A name (made, renamed, linked, removed) is on the disk when its folder has been synced; before that it may be there or
  not. In the milder model "journal", names reach the disk in order, and every sync takes all earlier names along.
- A sync that failed may have dropped what was written before it: a later sync that succeeds says nothing about that.
"""

from __future__ import annotations

import os
import random
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

HEAD = struct.Struct("=6i2q")
SECTOR = 512
OPS = ["OPEN", "CLOSE", "DUP", "WRITE", "TRUNCATE", "SYNC", "RENAME", "LINK", "UNLINK", "MKDIR", "MARK"]
OPS += ["SYNC_FAILED", "UNKNOWN"]  # as the shim numbers them, from 1
MODELS = ("folders", "journal")
# What happens to what was not synced: names, then contents. The corners first: they find most.
CORNERS = [("all", "none"), ("none", "all"), ("none", "none"), ("all", "all")]
CHOICES = [(names, contents) for names in ("all", "none", "some") for contents in ("beginning", "some", "torn")]


class Step(NamedTuple):
    """One call that succeeded; `other` is a new descriptor or the flags, `offset` also a length to truncate to."""

    op: str
    fd: int
    other: int
    first: str
    second: str
    offset: int
    data: bytes


def read_trace(path: Path) -> list[Step]:
    content, at, steps = path.read_bytes(), 0, []
    while at < len(content):
        op, fd, other, first, second, _, offset, length = HEAD.unpack_from(content, at)
        at += HEAD.size
        parts = []
        for size in (first, second, length):
            parts.append(content[at : at + size])
            at += size
        steps.append(Step(OPS[op - 1], fd, other, os.fsdecode(parts[0]), os.fsdecode(parts[1]), offset, parts[2]))
    return steps


@dataclass
class Change:
    """A change of a file: bytes at an offset, or a new length (data is None)."""

    offset: int
    data: bytes | None
    state: str = "pending"  # "durable" after a sync, "doubtful" for good after one that failed

    def on(self, content: bytearray, keep: list[bool] | None = None) -> None:
        """Do it; `keep` says which sectors reached the disk."""
        if self.data is None:
            del content[self.offset :]
            content.extend(bytes(self.offset - len(content)))
            return
        end = self.offset + len(self.data)
        if len(content) < end:
            content.extend(bytes(end - len(content)))
        if keep is None:
            content[self.offset : end] = self.data
            return
        for number, kept in enumerate(keep, self.offset // SECTOR):
            low, high = max(self.offset, number * SECTOR), min(end, (number + 1) * SECTOR)
            if kept:
                content[low:high] = self.data[low - self.offset : high - self.offset]

    @property
    def sectors(self) -> int:
        return 1 if not self.data else (self.offset + len(self.data) - 1) // SECTOR - self.offset // SECTOR + 1


@dataclass(eq=False)
class File:
    content: bytearray = field(default_factory=bytearray)  # on the disk for certain
    changes: list[Change] = field(default_factory=list)

    def synced(self, *, failed: bool = False) -> None:
        for change in self.changes:
            if change.state == "pending":
                change.state = "doubtful" if failed else "durable"
        while self.changes and self.changes[0].state == "durable":
            self.changes.pop(0).on(self.content)

    def after_a_cut(self, what: str, chance: random.Random) -> bytes:
        content = bytearray(self.content)
        stop = chance.randint(0, len(self.changes))
        for number, change in enumerate(self.changes):
            if change.state == "durable" or what == "all":
                change.on(content)
            elif what == "torn":
                change.on(content, [chance.random() < 0.5 for _ in range(change.sectors)])
            elif (what == "beginning" and number < stop) or (what == "some" and chance.random() < 0.5):
                change.on(content)
        return bytes(content)


@dataclass(eq=False)
class Folder:
    names: dict[str, File | Folder] = field(default_factory=dict)  # on the disk for certain


@dataclass
class Naming:
    """A change of names, which happens as a whole: (folder, name, what it names from now on)."""

    parts: list[tuple[Folder, str, File | Folder | None]]


class Disk:
    """What the program sees, and what is certain to be on the disk."""

    def __init__(self, root: Path, model: str) -> None:
        self.root, self.model = str(root), model
        self.top = Folder()
        self.seen: dict[str, File | Folder] = {self.root: self.top}
        self.open: dict[int, File | Folder] = {}
        self.namings: list[Naming] = []  # not certain yet, in order

    def do(self, step: Step) -> None:
        if step.op == "OPEN":
            if step.first not in self.seen:
                assert step.other & os.O_CREAT, f"{step.first} was there before the trace"
                self._name((step.first, File()))
            node = self.open[step.fd] = self.seen[step.first]
            if step.other & os.O_TRUNC and isinstance(node, File):
                node.changes.append(Change(0, None))
        elif step.op == "CLOSE":
            del self.open[step.fd]
        elif step.op == "DUP":
            self.open[step.other] = self.open[step.fd]
        elif step.op in ("WRITE", "TRUNCATE"):
            node = self.open[step.fd]
            assert isinstance(node, File)
            node.changes.append(Change(step.offset, step.data if step.op == "WRITE" else None))
        elif step.op in ("SYNC", "SYNC_FAILED"):
            self._synced(self.open[step.fd], failed=step.op == "SYNC_FAILED")
        elif step.op == "RENAME":
            self._name((step.first, None), (step.second, self.seen[step.first]))
        elif step.op == "LINK":
            self._name((step.second, self.seen[step.first]))
        elif step.op == "UNLINK":
            self._name((step.first, None))
        elif step.op == "MKDIR":
            self._name((step.first, Folder()))
        else:
            assert step.op == "MARK", f"{step.first} is not modelled"

    def _name(self, *changes: tuple[str, File | Folder | None]) -> None:
        parts = []
        for path, node in changes:
            where, _, name = path.rpartition("/")
            folder = self.seen[where]
            assert isinstance(folder, Folder)
            parts.append((folder, name, node))
            if node is None:
                del self.seen[path]
            else:
                self.seen[path] = node
        self.namings.append(Naming(parts))

    def _synced(self, node: File | Folder, *, failed: bool) -> None:
        if isinstance(node, File):
            node.synced(failed=failed)
        if failed:
            return
        certain = []
        for naming in self.namings:
            if self.model == "journal" or any(folder is node for folder, _, _ in naming.parts):
                certain.append(naming)
                for folder, name, named in naming.parts:
                    _set(folder.names, name, named)
        self.namings = [naming for naming in self.namings if not any(naming is one for one in certain)]

    def after_a_cut(self, target: Path, names: str, contents: str, chance: random.Random) -> None:
        """Write into an empty folder what the disk may hold now."""
        found: dict[int, dict[str, File | Folder]] = {}
        stop = chance.randint(0, len(self.namings))
        for number, naming in enumerate(self.namings):
            there = number < stop if self.model == "journal" else chance.random() < 0.5
            if names == "all" or (names == "some" and there):
                for folder, name, node in naming.parts:
                    _set(found.setdefault(id(folder), dict(folder.names)), name, node)
        bytes_of: dict[int, bytes] = {}

        def write(folder: Folder, place: Path) -> None:
            place.mkdir(exist_ok=True)
            for name, node in found.get(id(folder), folder.names).items():
                if isinstance(node, Folder):
                    write(node, place / name)
                else:
                    if id(node) not in bytes_of:  # a file with two names is one file
                        bytes_of[id(node)] = node.after_a_cut(contents, chance)
                    (place / name).write_bytes(bytes_of[id(node)])

        write(self.top, target)


def _set(names: dict[str, File | Folder], name: str, node: File | Folder | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node
