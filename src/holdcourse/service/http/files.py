"""Files that are sent as they are: the page, and copies of records."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from fastapi.responses import Response, StreamingResponse

from holdcourse.errors import HoldcourseError, log_error
from holdcourse.service.core.clients import Caller, never
from holdcourse.service.core.fleet import Fleet
from holdcourse.service.core.refusals import Unknown
from holdcourse.service.core.store import Store

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


def page_file(name: str) -> Response:
    """Return a file of the page; only those that lie there."""
    path = PAGE / name
    if path not in PAGE.iterdir() or path.suffix not in KINDS:
        raise Unknown("file", name, "the page is at /")
    headers = {"Cache-Control": "no-cache"}
    return Response(path.read_bytes(), media_type=KINDS[path.suffix], headers=headers)


async def table(fleet: Fleet, caller: Caller, parts: Iterator[bytes], name: str, kind: str) -> Response:
    """Return a table that is made while it is sent, so that no more than a part of it is in memory."""
    alone = replace(caller, left=never)  # the answer itself notices when the client leaves

    async def taken() -> bytes | None:
        return await fleet.look(lambda: next(parts, None), alone)

    first = await taken()  # what fails at once is refused in words; later the answer can only be cut off

    async def chunks() -> AsyncIterator[bytes]:
        part = first
        while part is not None:
            yield part
            part = await taken()

    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(chunks(), media_type=kind, headers=headers)


def backup(store: Store, controller: str) -> Response:
    """Return a copy of a controller's records as a zip."""
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
