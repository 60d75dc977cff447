"""Tokens: who may do what. The file holds only their hashes.

A token is 256 random bits, so a plain hash of it tells nothing. It carries scopes for some controllers: "ask" and
"tell" for the machine's program, "admin" for everything. Whoever holds a token may look at its controllers; "read" is
for those who only look.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

from holdcourse import archive
from holdcourse.errors import DamagedFile, InvalidInput

Scope: TypeAlias = Literal["read", "ask", "tell", "admin"]

SCOPES = ("read", "ask", "tell", "admin")
FORMAT = 1
EVERYTHING = "*"


@dataclass(frozen=True)
class Token:
    """What the file knows of a token.

    Attributes
    ----------
    id
        To revoke it by.
    controllers
        Which ones it is for; "*" is all.
    """

    id: str
    name: str
    scopes: tuple[str, ...]
    controllers: tuple[str, ...]
    made: str
    sha256: str

    def sees(self, controller: str) -> bool:
        """Whether it is for this controller."""
        return EVERYTHING in self.controllers or controller in self.controllers

    def may(self, scope: Scope, controller: str) -> bool:
        """Whether it allows this, on this controller."""
        return self.sees(controller) and (scope == "read" or scope in self.scopes or "admin" in self.scopes)


ANYBODY = Token("", "anybody on this machine", SCOPES, (EVERYTHING,), "", "")  # where there is no token file


class Keyring:
    """The token file as it is now; a change of the file counts from the next request on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, ...] = ()
        self._tokens = read(path)

    def find(self, secret: str) -> Token | None:
        """The token, if it is one of ours; takes as long whichever it is."""
        digest, found = _digest(secret), None
        for token in self._current():
            if hmac.compare_digest(token.sha256.encode(), digest.encode()):
                found = token
        return found

    def _current(self) -> list[Token]:
        try:
            about = self._path.stat()
        except OSError as error:
            raise DamagedFile(f"cannot read the token file {self._path}: {error.strerror}") from None
        seen = (about.st_ino, about.st_mtime_ns, about.st_size)
        if seen != self._seen:
            self._tokens, self._seen = read(self._path), seen
        return self._tokens


def read(path: Path) -> list[Token]:
    """All tokens of a file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise InvalidInput(f"{path} has format {data['format']}; this version of holdcourse reads {FORMAT}")
        tokens = [
            Token(**{**token, "scopes": tuple(token["scopes"]), "controllers": tuple(token["controllers"])})
            for token in data["tokens"]
        ]
        for token in tokens:
            texts = (token.id, token.name, *token.scopes, *token.controllers, token.made, token.sha256)
            if not all(isinstance(text, str) for text in texts):
                raise TypeError(f"a field of token {token.id} is not text")
        return tokens
    except FileNotFoundError:
        raise InvalidInput(
            f"there is no token file {path}; make the first token with: holdcourse token make --token-file {path}"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise DamagedFile(f"{path} is damaged or no token file: {error}; restore it from a back-up") from None


def make(path: Path, name: str, scopes: Sequence[str], controllers: Sequence[str]) -> tuple[Token, str]:
    """Add a token to the file, which is made if needed; returns it with its secret, which is not kept."""
    for scope in scopes:
        if scope not in SCOPES:
            raise InvalidInput(f"scope {scope!r} is not known; there are {list(SCOPES)}")
    for controller in controllers:
        if controller != EVERYTHING and not re.fullmatch(r"[a-z0-9_-]{1,64}", controller):
            raise InvalidInput(f"{controller!r} is no controller's id; use a-z, 0-9, - and _, or * for all")
    secret = f"hc_{secrets.token_urlsafe(32)}"
    token = Token(
        secrets.token_hex(4),
        name,
        tuple(dict.fromkeys(scopes)),
        tuple(dict.fromkeys(controllers)),
        datetime.now(UTC).isoformat(timespec="seconds"),
        _digest(secret),
    )
    with _alone(path):
        _write(path, [*(read(path) if path.exists() else []), token])
    return token, secret


def revoke(path: Path, token_id: str) -> Token:
    """Take a token out of the file; a running server refuses it from then on."""
    read(path)  # an error where there is none, before anything is made beside it
    with _alone(path):
        tokens = read(path)
        for token in tokens:
            if token.id == token_id:
                _write(path, [other for other in tokens if other is not token])
                return token
    raise InvalidInput(f"{path} holds no token {token_id!r}; there are {[token.id for token in tokens]}")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Nobody else changes the file meanwhile: else a token that was just revoked could come back."""
    lock = path.with_name(f".{path.name}.lock")
    try:
        file = lock.open("a")
    except FileNotFoundError:
        raise InvalidInput(f"there is no folder {path.parent}; make it first, for the service's user") from None
    except OSError as error:
        raise InvalidInput(f"cannot write beside {path}: {error.strerror}") from error
    with file:
        with suppress(ImportError):  # not on POSIX: then people must not do so at once
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _write(path: Path, tokens: list[Token]) -> None:
    """Replace the file in one step: readable by its owner only, or as it was."""
    text = json.dumps({"format": FORMAT, "tokens": [asdict(token) for token in tokens]}, indent=1)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    before = path.stat() if path.exists() else None
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text + "\n")
            file.flush()
            if before is not None and os.name == "posix":  # the server must still be able to read it
                os.fchmod(file.fileno(), before.st_mode & 0o777)
                if (before.st_uid, before.st_gid) != (os.getuid(), os.getgid()):
                    os.fchown(file.fileno(), before.st_uid, before.st_gid)
            os.fsync(file.fileno())
        temporary.replace(path)
        archive.sync_folder(path.parent)  # else a token that was revoked could come back after a power cut
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InvalidInput(f"cannot write {path}: {error.strerror}") from error
