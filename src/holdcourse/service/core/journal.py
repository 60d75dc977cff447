"""The journal of a service: what happens to it as a whole, and to controllers that are gone, one JSON object a line.

A controller's own record says who changed it (see `trail`). Here is what no record can hold: that a controller was
deleted, by whom and why, and which tokens came and went. A line is on the disk before what it tells of is answered. One
that a power cut has torn is left where it is, and the next begins on a line of its own.
"""

from __future__ import annotations

import json
import logging
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

from holdcourse import archive
from holdcourse.errors import log_error
from holdcourse.running.events import Author, plain
from holdcourse.service.core.status import Clock
from holdcourse.service.core.tokens import Token

logger = logging.getLogger("holdcourse.service")
NAME = "journal.jsonl"
SHOWN = ("id", "name", "scopes", "controllers", "expires")


class Journal:
    """The journal in a folder; safe for several threads.

    Parameters
    ----------
    folder
        The data folder, or None where the service has none: then lines are for its log alone.
    clock
        Whose time the lines have.
    """

    def __init__(self, folder: Path | None, clock: Clock | None = None) -> None:
        self.path = None if folder is None else folder / NAME
        self._clock, self._lock = clock or Clock(), Lock()

    def add(self, what: str, by: Author | None = None, **more: Any) -> dict[str, Any]:
        """Write a line; it is on the disk when this returns."""
        line: dict[str, Any] = {"at": self._clock.now().isoformat(timespec="milliseconds"), "what": what}
        line |= {"by": None if by is None else plain(by), **more}
        text = json.dumps(line, sort_keys=True).encode() + b"\n"
        if self.path is None:
            logger.info("journal: %s", text.decode().rstrip())
            return line
        with self._lock:
            try:
                is_new = not self.path.exists()
                with os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "r+b") as file:
                    end = file.seek(0, os.SEEK_END)
                    file.seek(max(end - 1, 0))
                    if file.read(1) not in (b"", b"\n"):
                        text = b"\n" + text
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                if is_new:
                    archive.sync_folder(self.path.parent)
            except OSError as error:
                raise log_error(f"cannot write to {self.path}: {error.strerror}", error) from error
        return line

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield all lines, oldest first, except those that were torn."""
        if self.path is None:
            return
        try:
            with self.path.open("rb") as file:
                for text in file:
                    try:
                        line = json.loads(text)
                    except ValueError:
                        continue
                    if isinstance(line, dict):
                        yield line
        except FileNotFoundError:
            return

    def newest(self, limit: int) -> list[dict[str, Any]]:
        """Return the newest lines, newest first."""
        return list(deque(self.lines(), limit))[::-1]

    def note_tokens(self, tokens: list[Token]) -> None:
        """Write down which tokens have come, gone or changed since the journal last knew; see `Keyring`.

        Tokens are made on the command line, by whoever may write their file, so nobody is named.
        """
        now = {token.id: _about(token) for token in tokens}
        before: dict[str, Any] = {}
        for line in self.lines():
            token = line.get("token")
            if isinstance(token, dict):
                if line.get("what") == "token ended":
                    before.pop(token.get("id", ""), None)
                else:
                    before[token.get("id", "")] = token
        for name, about in now.items():
            if name not in before:
                self.add("token made", token=about)
            elif before[name] != about:
                rotated = before[name].get("secret") != about["secret"]
                self.add("token rotated" if rotated else "token changed", token=about)
        for name, about in before.items():
            if name not in now:
                self.add("token ended", token=about)


def _about(token: Token) -> dict[str, Any]:
    """Return what the journal says of a token; of its hash only the beginning, which tells one secret from the next."""
    found: dict[str, Any] = plain({name: getattr(token, name) for name in SHOWN})
    return found | {"secret": token.sha256[:12]}
