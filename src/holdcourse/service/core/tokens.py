"""Tokens: who may do what, and until when. The file holds only their hashes.

A token is 256 random bits, so a plain hash of it tells nothing. It carries scopes for some controllers: "ask" and
"tell" for the machine's program, "admin" for everything. Whoever holds a token may look at its controllers; "read" is
for those who only look. Rotation gives a token a new secret; the old one may be let in for a while longer.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from holdcourse import archive
from holdcourse.errors import DamagedFile, InvalidInput, file_error
from holdcourse.running.events import Author
from holdcourse.service.core.status import Clock

logger = logging.getLogger("holdcourse.service")

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
    expires
        From when on it is refused; "" is never.
    former
        Secrets that it had before it was rotated: the hash of each, and until when it is let in.
    """

    id: str
    name: str
    scopes: tuple[str, ...]
    controllers: tuple[str, ...]
    made: str
    sha256: str
    expires: str = ""
    former: tuple[tuple[str, str], ...] = ()

    @property
    def author(self) -> Author:
        """Return who holds it, as records name them."""
        return Author(self.id or None, self.name)

    def sees(self, controller: str) -> bool:
        """Say whether it is for this controller."""
        return EVERYTHING in self.controllers or controller in self.controllers

    def may(self, scope: Scope, controller: str) -> bool:
        """Say whether it allows this on this controller."""
        return self.sees(controller) and (scope == "read" or scope in self.scopes or "admin" in self.scopes)


ANYBODY = Token("", "anybody on this machine", SCOPES, (EVERYTHING,), "", "")  # where there is no token file


class FoundToken(NamedTuple):
    """A token, and why it does not count any more; None: it does."""

    token: Token
    over: str | None


class Keyring:
    """The token file as it is now; a change of the file counts from the next request on."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self.changed: Callable[[list[Token]], None] = lambda tokens: None  # called with all of them after each change
        self._path = path
        self._clock = clock or Clock()
        self._seen: tuple[int, ...] = ()
        self._tokens = read(path)
        if os.name == "posix" and path.stat().st_mode & 0o077:
            logger.warning("other users of this machine may read %s; prevent it with: chmod go= %s", path, path)

    @property
    def tokens(self) -> list[Token]:
        """All tokens, as the file was when it was last looked at."""
        return self._tokens

    def find(self, secret: str) -> FoundToken | None:
        """Return the token, if it is one of ours, expired or not; takes as long whichever it is."""
        digest, now, found = _digest(secret).encode(), self._clock.now(), None
        for token in self._current():
            over = None
            if token.expires and now >= datetime.fromisoformat(token.expires):
                over = (
                    f"this token expired at {token.expires}; an admin can give it a new secret: holdcourse token rotate"
                )
            if hmac.compare_digest(token.sha256.encode(), digest):
                found = FoundToken(token, over)
            for sha256, until in token.former:
                if hmac.compare_digest(sha256.encode(), digest):
                    gone = f"this token was given a new secret, and the old one ended at {until}; use the new one"
                    found = FoundToken(token, over if now < datetime.fromisoformat(until) else gone)
        return found

    def _current(self) -> list[Token]:
        try:
            about = self._path.stat()
        except OSError as error:
            raise DamagedFile(f"cannot read the token file {self._path}: {error.strerror}") from None
        seen = (about.st_ino, about.st_mtime_ns, about.st_size)
        if seen != self._seen:
            self._tokens, self._seen = read(self._path), seen
            self.changed(self._tokens)
        return self._tokens


def read(path: Path) -> list[Token]:
    """Read all tokens of a file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise InvalidInput(
                f"{path} has format {data['format']}, but this version of holdcourse reads format {FORMAT}; use a "
                "matching version"
            )
        tokens = [
            Token(
                **{
                    **token,
                    "scopes": tuple(token["scopes"]),
                    "controllers": tuple(token["controllers"]),
                    "former": tuple((sha256, until) for sha256, until in token["former"]),
                }
            )
            for token in data["tokens"]
        ]
        for token in tokens:
            texts = (token.id, token.name, *token.scopes, *token.controllers, token.made, token.sha256, token.expires)
            former = [text for pair in token.former for text in pair]
            if not all(isinstance(text, str) for text in (*texts, *former)):
                raise TypeError(f"a field of token {token.id} is not text")
            for time in (*([token.expires] if token.expires else []), *(until for _, until in token.former)):
                if datetime.fromisoformat(time).tzinfo is None:
                    raise ValueError(f"{time} of token {token.id} does not say in which time zone")
        return tokens
    except FileNotFoundError:
        raise InvalidInput(f"there is no token file {path}; make the first token with: holdcourse token make") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise DamagedFile(f"{path} is damaged, or is not a token file: {error}; restore it from a backup") from None


def make(
    path: Path, name: str, scopes: Sequence[str], controllers: Sequence[str], expires: str | None = None
) -> tuple[Token, str]:
    """Add a token to the file, which is made if needed; returns it with its secret, which is not kept.

    `expires` is a date or a time from now, see `moment`; None: never.
    """
    for scope in scopes:
        if scope not in SCOPES:
            raise InvalidInput(f"scope {scope!r} is not known; choose from {', '.join(SCOPES)}")
    for controller in controllers:
        if controller != EVERYTHING and not re.fullmatch(r"[a-z0-9_-]{1,64}", controller):
            raise InvalidInput(f"{controller!r} is not a controller's id; use a-z, 0-9, - and _, or * for all")
    secret = _new_secret()
    now = datetime.now(UTC)
    token = Token(
        secrets.token_hex(4),
        name,
        tuple(dict.fromkeys(scopes)),
        tuple(dict.fromkeys(controllers)),
        now.isoformat(timespec="seconds"),
        _digest(secret),
        "" if expires is None else moment(expires, now),
    )
    with _alone(path):
        _write(path, [*(read(path) if path.exists() else []), token])
    return token, secret


def rotate(path: Path, token_id: str, overlap: str = "24h", expires: str | None = None) -> tuple[Token, str]:
    """Give a token a new secret; the old one is let in until `overlap` has passed. Returns it with the new secret.

    It expires when it would have, unless `expires` says otherwise.
    """
    read(path)  # an error where there is none, before anything is made beside it
    secret, now = _new_secret(), datetime.now(UTC)
    until = now.isoformat(timespec="seconds") if overlap == "0" else moment(overlap, now)
    with _alone(path):
        tokens = read(path)
        old = _named(path, tokens, token_id)
        ends = old.expires if expires is None else moment(expires, now)
        if ends and datetime.fromisoformat(ends) <= now:
            raise InvalidInput(f"token {token_id} expired at {ends}; say how long the new secret is valid: expires=90d")
        kept = [(sha256, end) for sha256, end in old.former if datetime.fromisoformat(end) > now]
        new = replace(old, sha256=_digest(secret), expires=ends, former=((old.sha256, until), *kept))
        _write(path, [new if token is old else token for token in tokens])
    return new, secret


def moment(given: str, now: datetime) -> str:
    """Read a date such as 2027-01-31, a time such as 2027-01-31T12:00+01:00, or a time from now: 30m, 24h, 90d, 12w."""
    lasting = re.fullmatch(r"([1-9][0-9]{0,4})([mhdw])", given)
    if lasting is not None:
        unit = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}[lasting[2]]
        return (now + timedelta(**{unit: int(lasting[1])})).isoformat(timespec="seconds")
    try:
        at = datetime.fromisoformat(given)
    except ValueError:
        raise InvalidInput(
            f"{given!r} is neither a date nor a length of time; write 2027-01-31, or 30m, 24h, 90d, 12w"
        ) from None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    if at <= now:
        raise InvalidInput(f"{given} has passed; give a time in the future")
    return at.astimezone(UTC).isoformat(timespec="seconds")


def revoke(path: Path, token_id: str) -> Token:
    """Take a token out of the file; a running server refuses it from then on."""
    read(path)  # an error where there is none, before anything is made beside it
    with _alone(path):
        tokens = read(path)
        gone = _named(path, tokens, token_id)
        _write(path, [other for other in tokens if other is not gone])
    return gone


def _named(path: Path, tokens: list[Token], token_id: str) -> Token:
    for token in tokens:
        if token.id == token_id:
            return token
    there = ", ".join(f"{token.id} ({token.name})" if token.name else token.id for token in tokens)
    raise InvalidInput(f"{path} has no token with the id {token_id!r}; its tokens are {there or 'none'}")


def _new_secret() -> str:
    return f"hc_{secrets.token_urlsafe(32)}"


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep others from changing the file meanwhile: else a token that was just revoked could come back."""
    lock = path.with_name(f".{path.name}.lock")
    try:
        file = os.fdopen(os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a")
    except FileNotFoundError:
        raise InvalidInput(f"there is no folder {path.parent}; create it first, for the service's user") from None
    except OSError as error:
        raise InvalidInput(f"cannot write to the folder of {path}: {error.strerror}") from error
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
        archive.sync_folder(path.parent)  # a token that was revoked must not come back with the power
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise file_error(f"cannot write {path}: {error.strerror}", error) from error
