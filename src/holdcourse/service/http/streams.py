"""Answers that are no JSON: files of the page, tables and copies of records in parts, and events as they happen."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from holdcourse.errors import HoldcourseError, log_error
from holdcourse.service.core.clients import Broadcast, Caller, never
from holdcourse.service.core.controllers import Controllers
from holdcourse.service.core.refusals import Unknown
from holdcourse.service.core.store import Store
from holdcourse.service.http import forwarding
from holdcourse.service.http.admission import UNDER_WAY, token_of
from holdcourse.service.http.errors import HttpRefusal

PAGE = Path(__file__).parent.parent / "page"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".webmanifest": "application/manifest+json",
}
CHUNK = 2**16
HEARTBEAT_S = 15.0  # between two signs of life to whoever watches


def page_file(name: str) -> Response:
    """Return a file of the page; only those that lie there."""
    path = PAGE / name
    if path not in PAGE.iterdir() or path.suffix not in KINDS:
        raise Unknown("file", name, "the page is at /")
    headers = {"Cache-Control": "no-cache"}
    return Response(path.read_bytes(), media_type=KINDS[path.suffix], headers=headers)


async def table(controllers: Controllers, caller: Caller, parts: Iterator[bytes], name: str, kind: str) -> Response:
    """Return a table that is made while it is sent, so that no more than a part of it is in memory."""
    alone = replace(caller, left=never)  # the answer itself notices when the client leaves

    async def taken() -> bytes | None:
        return await controllers.look(lambda: next(parts, None), alone)

    first = await taken()  # what fails at once is refused in words; later the answer can only be cut off

    async def chunks() -> AsyncIterator[bytes]:
        part = first
        while part is not None:
            yield part
            part = await taken()

    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(chunks(), media_type=kind, headers=headers)


def backup(store: Store, controller: str) -> Response:
    """Return a copy of a controller's records as a zip; an error where the newest of them is missing."""
    store.check_newest(controller)
    file = TemporaryFile()  # noqa: SIM115 - closed when it has been sent
    try:
        store.copy_to(controller, file)
        length = file.tell()
        file.seek(0)
    except HoldcourseError:
        file.close()
        raise
    except (OSError, sqlite3.Error) as error:
        file.close()
        raise log_error(f"cannot copy {controller}: {error}", error) from error
    except BaseException:
        file.close()
        raise
    headers = {
        "Content-Length": str(length),
        "Content-Disposition": f'attachment; filename="{controller}.zip"',
    }
    return StreamingResponse(_chunks(file), media_type="application/zip", headers=headers)


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while chunk := file.read(CHUNK):
            yield chunk


def stream(
    controllers: Controllers,
    caller: Caller,
    request: Request,
    wants: Callable[[str], bool],
    *,
    with_others: bool = False,
) -> Response:
    """Return what happens on the controllers that are wanted, until the client leaves or his token counts no more.

    `with_others` follows those that other processes hold, too.
    """

    def still_allowed() -> bool:
        with suppress(HttpRefusal):  # tokens that cannot be read let nobody in
            return token_of(request) is not None
        return False

    request.scope[UNDER_WAY].enter_context(controllers.streams.one(caller.client))
    lines = events(controllers.broadcast, wants, still_allowed)
    if with_others:
        lines = forwarding.with_others(controllers, request, lines)
    return StreamingResponse(lines, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def events(
    broadcast: Broadcast, wants: Callable[[str], bool], still_allowed: Callable[[], bool]
) -> AsyncIterator[str]:
    """Send the stream of one watcher; it ends when his token is revoked, or the server stops."""
    with broadcast.watching(wants) as messages:
        yield ": connected\n\n"
        while True:
            try:
                message = await asyncio.wait_for(messages.get(), HEARTBEAT_S)
                text = None if message is None else f"event: {message.kind}\ndata: {message.data}\n\n"
            except TimeoutError:
                text = ": still here\n\n"
            if text is None or not still_allowed():
                return
            yield text
