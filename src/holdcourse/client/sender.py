"""Requests over HTTP, sent until they are answered, over connections that stay open; refusals come back as errors."""

from __future__ import annotations

import http.client
import json
import math
import random
import threading
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from holdcourse.checks import is_finite
from holdcourse.errors import Conflict, InvalidInput, ServiceError, file_error, is_full, shown

UNREACHED = ": check the address, and whether the service runs"
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between two tries; doubled in between
LONGEST_WAIT = 10.0**6  # seconds for an answer; no socket waits for many more
TRY_AGAIN = (429, 502, 503, 504, 507)  # the service may be able to a little later


class Sender:
    """Sends requests to one service; may be used by several threads. The parameters are those of `connect`."""

    def __init__(self, url: str, token: str | None, *, patience: float, timeout: float) -> None:
        self._parts = _address(url)
        if not (_is_time(patience) and _is_time(timeout) and patience >= 0 and timeout > 0):
            raise InvalidInput(
                f"patience must be 0 or more and timeout positive, got {shown(patience)} and {shown(timeout)}"
            )
        if token is not None and not (isinstance(token, str) and _can_be_sent(token)):
            raise InvalidInput("this is not a token of holdcourse; copy it as `holdcourse token make` printed it")
        self._url, self._token = url.rstrip("/"), token
        self._patience, self._timeout = float(patience), float(timeout)
        self._idle: list[http.client.HTTPConnection] = []  # as many as there were requests at once
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connections that no request uses; the next request opens a new one."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None, key: str | None, *, is_long: bool
    ) -> tuple[int, dict[str, Any]]:
        """Send a request until it is answered; returns its status and the answer. See `Service.request`."""
        timeout = max(self._timeout, self._patience) if is_long else self._timeout
        content = None if body is None else _as_json(body)
        headers = self._headers(content is not None, key)
        until, pause = time.monotonic() + self._patience, FIRST_PAUSE
        jitter = random.Random()  # so that many clients do not come back at the same moment
        while True:
            answered: int | None = None
            try:
                answered, answer = self._once(method, path, content, headers, timeout)
                if answered < 400:
                    return answered, answer
                if answered not in TRY_AGAIN:
                    raise refusal(answered, answer, f"{method} {path}")
                trouble, remedy = _message(answer) or f"status {answered}", ""
            except (OSError, http.client.HTTPException) as error:
                trouble, remedy = _in_words(error), UNREACHED
            if time.monotonic() + pause > until:
                raise ServiceError(f"{method} {path} failed at {self._url}: {trouble}; gave up{remedy}", answered)
            time.sleep(pause * jitter.uniform(0.5, 1.0))
            pause = min(2 * pause, LONGEST_PAUSE)

    def download(self, path: str, target: Path) -> int:
        """Write what is at an address to a file, part by part, and return how many bytes there were.

        The file gets its name when all of it is there; one that was cut off is asked for again while patience lasts.
        """
        until, pause = time.monotonic() + self._patience, FIRST_PAUSE
        while True:
            try:
                return self._downloaded(path, target)
            except ServiceError as refused:
                if refused.status not in TRY_AGAIN or time.monotonic() + pause > until:
                    raise
            except http.client.HTTPException as error:
                if time.monotonic() + pause > until:
                    raise ServiceError(
                        f"GET {path} failed at {self._url}: {_in_words(error)}; gave up{UNREACHED}"
                    ) from None
            except OSError as error:
                if error.filename is not None or is_full(error):  # of the file, not of the connection
                    raise file_error(f"cannot write {target}: {error.strerror}; choose another place", error) from None
                if time.monotonic() + pause > until:
                    raise ServiceError(
                        f"GET {path} failed at {self._url}: {_in_words(error)}; gave up{UNREACHED}"
                    ) from None
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _downloaded(self, path: str, target: Path) -> int:
        connection, _ = self._connection(max(self._timeout, self._patience))
        unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
        try:
            connection.request("GET", self._parts.path.rstrip("/") + path, None, self._headers(False, None))
            reply = connection.getresponse()
            if reply.status >= 400:
                answer = json.loads(reply.read() or b"{}")
                raise refusal(reply.status, answer, f"GET {path}")
            length = 0
            expected = reply.length  # None for chunks, which say themselves whether they are whole
            with unfinished.open("wb") as file:
                while part := reply.read(2**16):
                    length += file.write(part)
            if expected is not None and length < expected:
                raise ConnectionError(f"the connection was lost after {length} of {expected} bytes")
            unfinished.replace(target)
            return length
        except ValueError as error:
            if isinstance(error, InvalidInput):
                raise
            raise http.client.HTTPException(f"the answer cannot be read: {error}") from None
        finally:
            connection.close()  # whatever came of it, nobody else gets the rest of this answer
            unfinished.unlink(missing_ok=True)

    def _headers(self, has_body: bool, key: str | None) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        if has_body:
            headers["Content-Type"] = "application/json"
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        if key is not None:
            if not _can_be_sent(key):
                raise InvalidInput(f"a key must consist of printable ASCII characters, got {key!r}")
            headers["Idempotency-Key"] = key
        return headers

    def _once(
        self, method: str, path: str, content: bytes | None, headers: dict[str, str], timeout: float
    ) -> tuple[int, dict[str, Any]]:
        connection, is_used = self._connection(timeout)
        try:
            connection.request(method, self._parts.path.rstrip("/") + path, content, headers)
            reply = connection.getresponse()
            text = reply.read()
        except BaseException as error:
            connection.close()
            if is_used and isinstance(error, ConnectionError):  # hung up while it was idle; the others were too
                self.close()
                return self._once(method, path, content, headers, timeout)
            raise
        with self._lock:
            self._idle.append(connection)
        try:
            return reply.status, json.loads(text)
        except ValueError:
            if reply.status < 400:
                raise http.client.HTTPException(f"the answer is not JSON: {text[:80]!r}") from None
            return reply.status, {}

    def _connection(self, timeout: float) -> tuple[http.client.HTTPConnection, bool]:
        """Return a connection that nobody uses now, and whether it was used before."""
        timeout = min(timeout, LONGEST_WAIT)
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
            return kind(self._parts.hostname or "", self._parts.port, timeout=timeout), False
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        return connection, True


def _is_time(seconds: Any) -> bool:
    return is_finite(seconds) or (isinstance(seconds, float) and seconds == math.inf)


def _address(url: str) -> SplitResult:
    if not isinstance(url, str):
        raise InvalidInput(f"the address must look like http://127.0.0.1:8000, got {shown(url)}")
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a bracket that does not close
        is_one = False
    if not is_one:
        raise InvalidInput(f"the address must look like http://127.0.0.1:8000, got {url!r}")
    return parts


def _in_words(error: Exception) -> str:
    """What went wrong on the way, without the number that the operating system gives it."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _can_be_sent(text: str) -> bool:
    """Whether a header can hold it."""
    return text.isascii() and text.isprintable()


def _as_json(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{body!r} cannot be sent: {error}; numbers must be finite") from None


def _message(answer: Any) -> str:
    error = answer.get("error") if isinstance(answer, dict) else None
    return str(error.get("message", "")) if isinstance(error, dict) else ""


def refusal(status: int, answer: Any, what: str) -> Exception:
    """The error that a refused request is raised as; `what` was sent."""
    message = _message(answer) or f"{what} was answered with status {status}"
    if status == 409:
        error = answer.get("error", {}) if isinstance(answer, dict) else {}
        return Conflict(message, error.get("recorded"), error.get("given"))
    if status in (400, 404, 413, 422):
        return InvalidInput(message)
    return ServiceError(message, status)
