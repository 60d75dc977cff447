"""Reading requests: bodies within their limits, from the first byte on, and tokens."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from holdcourse.service.access import caller_of
from holdcourse.service.fleet import Fleet
from holdcourse.service.lanes import never
from holdcourse.service.mistakes import in_words
from holdcourse.service.refusals import Refusal

Body = TypeVar("Body", bound=BaseModel)

MAX_BODY = 2**20
MAX_LONG_BODY = 2**24  # with a history or a matrix
MAX_DEPTH = 32
MAX_PARTS = 5000  # lists, objects and names in a body that is not long; more would take long to look through
SMALL = 2**16  # bytes; more are checked beside the event loop
JSON = "application/json"
# Possessive, and an open string ends with the body: a body of quotes is read once, not once per quote.
STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def reads(model: type[Body], limit: int = MAX_BODY) -> Callable[[Request], Awaitable[Body]]:
    """A dependency that reads a body of this kind."""

    async def read(request: Request) -> Body:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON:
            raise Refusal(415, "not_json", f"the body must be sent as Content-Type: {JSON}, not {kind or 'nothing'!r}")
        announced = _announced(request, limit)
        if announced is not None and announced <= SMALL:
            return parsed(model, await _content(request, limit), limit)
        fleet: Fleet = request.app.state.fleet
        # Whoever leaves is noticed when his body is read, not before: to look for it would be to read it.
        caller = replace(await caller_of(request), left=never)
        async with fleet.long_bodies.place(caller):
            return await fleet.parse(partial(parsed, model, await _content(request, limit), limit))

    return read


def _announced(request: Request, limit: int) -> int | None:
    """How many bytes will come; None where that is not said beforehand."""
    if "transfer-encoding" in request.headers:
        return None
    announced = request.headers.get("content-length", "0")
    if not (announced.isdecimal() and len(announced) < 19 and int(announced) <= limit):
        raise _too_long(limit)
    return int(announced)


async def _content(request: Request, limit: int) -> bytes:
    """The whole body, or a refusal as soon as it is known to be too long."""
    content = bytearray()
    try:
        async for chunk in request.stream():
            content += chunk
            if len(content) > limit:
                raise _too_long(limit)
    except ClientDisconnect:  # nothing that the log should name: it happens every day
        raise Refusal(499, "gone", "the client left before all of the body was there; nothing was done") from None
    return bytes(content)


def _too_long(limit: int) -> Refusal:
    most = f"{limit // 2**20} MiB" if limit >= 2**20 else f"{limit // 2**10} KiB"
    return Refusal(413, "too_large", f"the body is longer than {most}, the most that is taken here")


def parsed(model: type[Body], content: bytes, limit: int = MAX_LONG_BODY) -> Body:
    """The body as a model; every mistake is named with its place."""
    found = parts(content) if limit <= MAX_BODY else 0
    if found > MAX_PARTS:
        words = f"the body holds {found} lists, objects and names; at most {MAX_PARTS} are taken here"
        raise Refusal(422, "too_many", words)
    if depth(content) > MAX_DEPTH:
        raise Refusal(
            422, "too_deep", f"the body is nested deeper than {MAX_DEPTH} levels, the most that is taken here"
        )
    try:
        return model.model_validate_json(content, strict=True)
    except ValidationError as error:
        raise Refusal(422, "invalid", in_words(error.errors(include_url=False, include_context=False))) from None


def parts(content: bytes) -> int:
    """How many lists, objects and names there are."""
    bare = STRING.sub(b"", content)
    return sum(bare.count(mark) for mark in (b"[", b"{", b":"))


def depth(content: bytes) -> int:
    """How deep brackets are nested, outside of strings."""
    deepest = level = 0
    for bracket in STRING.sub(b"", content).translate(None, NO_BRACKETS):
        level += 1 if bracket in b"[{" else -1
        deepest = max(deepest, level)
    return deepest
