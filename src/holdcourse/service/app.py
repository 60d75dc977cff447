"""The application: who may come in, what every answer carries, and how errors are said.

Its addresses are in `steering` and `watching`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import holdcourse as hc
from holdcourse.errors import HoldcourseError
from holdcourse.service import description, steering, watching
from holdcourse.service.access import UNDER_WAY, authorised
from holdcourse.service.clock import Clock
from holdcourse.service.connections import ARRIVAL, Arrival
from holdcourse.service.fleet import Fleet
from holdcourse.service.lanes import Pace
from holdcourse.service.live import Hub
from holdcourse.service.mistakes import in_words
from holdcourse.service.refusal_log import RefusalLog
from holdcourse.service.refusals import Refusal, as_refusal
from holdcourse.service.store import DataFolder
from holdcourse.service.tokens import Keyring
from holdcourse.witness import Witness

logger = logging.getLogger("holdcourse.service")

COMMON_HEADERS = {  # an address may set others
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")
FIRST = ("/override", "/mode")
PACE = 4  # requests begun each time round the event loop
CODES = {404: "not_found", 405: "method_not_allowed"}


def create_app(
    data: Path, token_file: Path | None = None, clock: Clock | None = None, witness: Witness | None = None
) -> FastAPI:
    """The service over a data folder; without a token file everybody who reaches it may do everything."""
    keyring = None if token_file is None else Keyring(token_file, clock)
    store = DataFolder(data)
    fleet = Fleet(store, Hub(), clock, witness)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await fleet.start()
        yield
        await fleet.stop()
        app.state.refusal_log.close()

    app = FastAPI(
        title="holdcourse",
        version=hc.__version__,
        description=description.ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # served by a route of our own
        redirect_slashes=False,  # an address that is not there is not there
    )
    app.state.fleet, app.state.keyring, app.state.refusal_log = fleet, keyring, RefusalLog(fleet.clock)
    app.include_router(steering.router)
    app.include_router(watching.router)
    app.add_middleware(Shield, only_local=keyring is None)
    app.add_exception_handler(HoldcourseError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _not_here)
    app.openapi = lambda: description.openapi(app, with_tokens=keyring is not None)  # type: ignore[method-assign]
    return app


class Shield:
    """Puts the common headers on every answer, also where we failed.

    Without tokens it also turns away requests that a foreign web page sends through the operator's own browser: they
    name another host, or say that they come from another site. And those that came through a proxy: behind it everybody
    would look as if he sat at this machine.
    """

    def __init__(self, app: ASGIApp, *, only_local: bool) -> None:
        self._app, self._only_local, self._pace = app, only_local, Pace(PACE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in COMMON_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        foreign = _foreign(Headers(scope=scope)) if self._only_local else None
        if foreign is not None:
            refusal = Refusal(403, "foreign", foreign)
            log_refusal(Request(scope), refusal)
            await answered(refusal)(scope, receive, send_with_headers)
            return
        arrival: Arrival | None = scope.get(ARRIVAL)  # under another server there is none
        if not _goes_first(scope):
            await self._pace.step()
            if arrival is not None and arrival.is_gone:
                return
        if arrival is not None:
            arrival.is_begun = True
        try:
            with ExitStack() as scope[UNDER_WAY]:
                await self._app(scope, receive, send_with_headers)
        except Exception:
            if begun:  # all that is left is to cut it off
                raise
            logger.exception("%s %s failed", scope["method"], scope["path"])
            refusal = Refusal(500, "failed", "this should not have happened; the server's log says more")
            await answered(refusal)(scope, receive, send_with_headers)


def _goes_first(scope: Scope) -> bool:
    """Whether this is an operator who takes a machine, or switches it; whoever only says so waits as all others."""
    if scope["method"] != "POST" or not scope["path"].endswith(FIRST):
        return False
    with suppress(Refusal):
        token = authorised(Request(scope))
        return token is not None and "admin" in token.scopes
    return False


def _foreign(headers: Headers) -> str | None:
    """Why a request does not come from a program on this machine, if so."""
    host = headers.get("host", "")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if name and not is_local(name.strip("[]")):
        return f"without a token file only this machine is served, not {name!r}; start with --token-file"
    if headers.get("sec-fetch-site", "none") in ("cross-site", "same-site"):
        return "without a token file other web sites may not send requests; start with --token-file"
    forwarded = [name for name in FORWARDED if name in headers]
    if forwarded:  # whoever the proxy lets in would look as if he sat here
        return (
            f"without a token file nothing is taken from a proxy, and this came through one (header {forwarded[0]}); "
            "start with --token-file, or call the service without the proxy"
        )
    return None


def is_local(host: str) -> bool:
    """Whether a name or address is this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def answered(refusal: Refusal, headers: Any = None) -> Response:
    """The answer that says what was refused."""
    more = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}, 503: {"Retry-After": "1"}}
    said = {"code": refusal.code, "message": str(refusal), **refusal.more}
    return JSONResponse({"error": said}, refusal.status, headers={**more.get(refusal.status, {}), **(headers or {})})


def log_refusal(request: Request, refusal: Refusal) -> None:
    """Write down who was turned away."""
    log: RefusalLog = request.app.state.refusal_log
    address = "?" if request.client is None else request.client.host
    log.add(refusal, getattr(request.state, "token", None), address, request.method, request.url.path)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HoldcourseError)
    refusal = as_refusal(error)
    log_refusal(request, refusal)
    return answered(refusal)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return answered(Refusal(422, "invalid", in_words(error.errors())))


async def _not_here(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code, headers = CODES.get(error.status_code, "refused"), dict(error.headers or {})
    if error.status_code == 405:  # the framework names the methods of the first address that matches only
        headers["Allow"] = ", ".join(sorted(_methods(request)))
    message = f"{request.method} {request.url.path}: {error.detail}; the addresses are in /openapi.json"
    return answered(Refusal(error.status_code, code, message), headers)


def _methods(request: Request) -> set[str]:
    routes = [route for router in (steering.router, watching.router) for route in router.routes]
    matching = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return {method for route in matching for method in getattr(route, "methods", ())}
