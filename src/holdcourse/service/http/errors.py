"""What is refused, and how that is said over HTTP: always ``{"error": {"code": ..., "message": ...}}``.

The type of an error decides which status and code it has; `STATUSES` is the table. Who was turned away goes into the
server's log: at most one line a minute for each kind of refusal and token.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from difflib import SequenceMatcher
from threading import Lock
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match

from holdcourse import errors
from holdcourse.errors import HoldcourseError
from holdcourse.mistakes import all_in_words
from holdcourse.service.core import refusals
from holdcourse.service.core.status import Clock
from holdcourse.service.core.tokens import Token

logger = logging.getLogger("holdcourse.service")
refusal_logger = logging.getLogger("holdcourse.service.refusals")  # it counts by itself, so the server leaves it alone

STATUSES: Mapping[type[HoldcourseError], tuple[int, str]] = {  # the nearest class above an error counts
    errors.InvalidInput: (422, "invalid"),
    errors.NotComputable: (422, "cannot_compute"),
    errors.TooLarge: (422, "invalid"),
    errors.NoActionLeft: (422, "no_action_left"),
    errors.Conflict: (409, "conflict"),
    errors.DiskFull: (507, "disk_full"),
    errors.DamagedFile: (503, "broken"),
    errors.DatabaseUnreachable: (503, "no_database"),
    errors.LeaseLost: (503, "held_elsewhere"),
    HoldcourseError: (503, "unavailable"),
    refusals.Unknown: (404, "unknown"),
    refusals.RoundNeeded: (422, "round_needed"),
    refusals.EpochsArchived: (409, "archived"),
    refusals.ControllerPutAway: (409, "put_away"),
    errors.MissingExtra: (501, "missing_extra"),
    refusals.NotOpenYet: (503, "opening"),
    refusals.HeldElsewhere: (503, "held_elsewhere"),
    refusals.Broken: (503, "broken"),
    refusals.Interrupted: (503, "interrupted"),
    refusals.Cancelled: (409, "cancelled"),
    refusals.WorkerLost: (500, "failed"),
    refusals.Busy: (429, "busy"),
    refusals.ClientLeft: (499, "gone"),
}
OF_THE_FRAMEWORK = {404: "not_found", 405: "method_not_allowed"}
HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}, 503: {"Retry-After": "1"}}
LOGGED = (401, 403, 409, 429)
LOG_EVERY_S = 60.0
LONGEST_PATH = 200  # letters
ALIKE = 0.7  # how alike a word in an address must be to one that there is
MOST_ODD = 4  # letters by which it may be longer or shorter


class HttpRefusal(HoldcourseError):  # noqa: N818 - as the others
    """A request that is not done: HTTP status, code, message, and what else the answer holds."""

    def __init__(self, status: int, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status, self.code, self.more = status, code, more


def translated(error: HoldcourseError) -> HttpRefusal:
    """Return what an error means over HTTP, by its type."""
    if isinstance(error, HttpRefusal):
        return error
    kind = next(kind for kind in type(error).__mro__ if kind in STATUSES)
    status, code = STATUSES[kind]
    if isinstance(error, errors.Conflict):
        return HttpRefusal(status, code, str(error), recorded=error.recorded, given=error.given)
    if isinstance(error, refusals.Unknown):
        return HttpRefusal(status, f"{code}_{error.what.replace(' ', '_')}", str(error))
    if isinstance(error, errors.NotComputable):
        logger.warning("refused as not computable", exc_info=error.__cause__)  # in case it is our mistake after all
    elif kind is HoldcourseError:
        logger.error("%s", error)
    elif kind is errors.DiskFull:
        logger.error("answered with 507, the disk is full: %s", error)
    return HttpRefusal(status, code, str(error))


def error_response(refusal: HttpRefusal, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer that says what was refused."""
    said = {"code": refusal.code, "message": str(refusal), **refusal.more}
    more = {**HEADERS.get(refusal.status, {}), **(headers or {})}
    return JSONResponse({"error": said}, refusal.status, headers=more)


async def refused(request: Request, error: Exception) -> Response:
    """Answer a request that was refused on purpose; an exception handler."""
    assert isinstance(error, HoldcourseError)
    name, controllers = request.path_params.get("id"), request.app.state.controllers
    if isinstance(error, errors.LogError) and name is not None and controllers.is_deleted(name):
        error = refusals.Unknown("controller", name, "it was deleted a moment ago")
    refusal = translated(error)
    log_refusal(request, refusal)
    return error_response(refusal)


async def invalid(request: Request, error: Exception) -> Response:
    """Answer parameters that FastAPI found to be wrong; an exception handler."""
    assert isinstance(error, RequestValidationError)
    inside = {"query": " (in the address, after '?')", "header": " (in the headers)"}
    found = [{**mistake, "loc": mistake["loc"][1:]} for mistake in error.errors()]
    words = all_in_words(found) + inside.get(str(error.errors()[0]["loc"][0]), "")
    return error_response(HttpRefusal(422, "invalid", words))


async def not_routed(request: Request, error: Exception) -> Response:
    """Answer an address or a method that is not there; an exception handler."""
    assert isinstance(error, HTTPException)
    code, headers = OF_THE_FRAMEWORK.get(error.status_code, "refused"), dict(error.headers or {})
    if error.status_code == 405:  # the framework names the methods of the first address that matches only
        headers["Allow"] = ", ".join(sorted(_methods(request)))
    asked = f"{request.method} {request.url.path[:LONGEST_PATH]}"
    only = f", only {headers['Allow']}" if error.status_code == 405 else ""
    said = f"there is no {asked}{only}" if error.status_code in OF_THE_FRAMEWORK else f"{asked}: {error.detail}"
    near = _nearest(request)
    where = f"did you mean {request.method} {near}? The addresses" if near else "the addresses"
    message = f"{said}; {where} are in /openapi.json"
    return error_response(HttpRefusal(error.status_code, code, message), headers)


def _nearest(request: Request) -> str:
    """Return an address of this method that may have been meant: one slash is too many, or one word is misspelt."""
    path: str = request.scope["path"]
    if len(path) > LONGEST_PATH:
        return ""
    given = [part for part in path.split("/") if part]
    wanted = [given, [*given, "state"]] if request.method == "GET" else [given]  # a controller's own address has no GET
    best, found = 0.0, ""
    for route in request.app.state.routes:
        parts = route.path.split("/")[1:]
        if request.method not in route.methods or not route.include_in_schema:
            continue
        for meant in wanted:
            if len(parts) != len(meant):
                continue
            likeness = _likeness(parts, meant)
            if likeness > best:
                words = [word if part[0] == "{" else part for part, word in zip(parts, meant, strict=True)]
                best, found = likeness, "/" + "/".join(words)
    return found


def _likeness(parts: list[str], given: list[str]) -> float:
    """Return how alike the least alike words of two addresses are; 0 if they are not alike at all."""
    least = 1.0
    for part, word in zip(parts, given, strict=True):
        if part[0] != "{" and part != word:
            odds = abs(len(part) - len(word))  # strangers may ask, too: most are sorted out without a look at letters
            least = 0.0 if odds > MOST_ODD else min(least, SequenceMatcher(None, part, word.lower()).ratio())
            if least < ALIKE:
                return 0.0
    return least


def _methods(request: Request) -> set[str]:
    matching = [route for route in request.app.state.routes if route.matches(request.scope)[0] is not Match.NONE]
    return {method for route in matching for method in getattr(route, "methods", ())}


def log_refusal(request: Request, refusal: HttpRefusal) -> None:
    """Write down who was turned away."""
    log: RefusalLog = request.app.state.refusal_log
    address = "?" if request.client is None else request.client.host
    token: Token | None = getattr(request.state, "token", None)
    if token is not None:
        who = f"token {token.id} {token.name!r}" if token.id else token.name
    else:  # a revoked token is unknown too: who looks for it must not read that none was sent
        who = "an unknown token" if request.headers.get("authorization") else "no token"
    log.add(refusal, who, address, request.method, request.url.path)


class RefusalLog:
    """Writes down refusals; what comes within a minute after a line is counted, and said with the next one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._lines: dict[tuple[int, str], tuple[float, int]] = {}  # when the last one was written, and how many since

    def add(self, refusal: HttpRefusal, who: str, address: str, method: str, path: str) -> None:
        """Take in a refused request; all strangers count as one."""
        if refusal.status not in LOGGED:
            return
        kind = (refusal.status, who)
        with self._lock:
            now = self._clock.monotonic()
            written, more = self._lines.get(kind, (None, 0))
            if written is not None and now - written < LOG_EVERY_S:
                self._lines[kind] = (written, more + 1)
                return
            self._lines[kind] = (now, 0)
        line = f"refused {refusal.status} {refusal.code}: {who}, from {address}, {method} {path[:LONGEST_PATH]!r}"
        refusal_logger.warning("%s%s", line, f"; {more} more since the line before" if more else "")

    def close(self) -> None:
        """Say what was only counted."""
        with self._lock:
            for (status, who), (_, more) in self._lines.items():
                if more:
                    refusal_logger.warning("refused %s: %s, %d more since the line before", status, who, more)
            self._lines.clear()
