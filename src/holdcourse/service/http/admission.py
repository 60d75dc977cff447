"""What is let in: requests from where they may come, senders by what their tokens allow, bodies within their limits.

An option in the address that is misspelt is refused here, too.
"""

from __future__ import annotations

import base64
import difflib
import json
import logging
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import lru_cache, partial
from ipaddress import ip_address
from operator import itemgetter
from typing import Annotated, Any, TypeVar, get_args, get_origin

from fastapi import Depends, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdcourse.errors import HoldcourseError
from holdcourse.mistakes import all_in_words, keys_of
from holdcourse.service.core.clients import Caller, Pace, never
from holdcourse.service.core.controllers import Controllers
from holdcourse.service.core.readings import FIELDS, look
from holdcourse.service.core.refusals import ClientLeft
from holdcourse.service.core.requests import MAX_TABLE, Config
from holdcourse.service.core.requests import Request as RequestBody
from holdcourse.service.core.tokens import ANYBODY, EVERYTHING, Keyring, Token
from holdcourse.service.core.tokens import Scope as TokenScope
from holdcourse.service.http.errors import HttpRefusal, error_response, log_refusal
from holdcourse.service.http.server import ARRIVAL, Arrival

logger = logging.getLogger("holdcourse.service")

UNDER_WAY = "holdcourse.under_way"  # in the scope of a request: what ends with it
_HEADERS = {  # an address may set others
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
COMMON_HEADERS = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")
GO_FIRST = ("/override", "/mode")
START_WITH_TOKENS = "start it with --token-file (see: holdcourse token make)"
BEGUN_AT_ONCE = 4  # requests begun each time round the event loop
MAX_BODY = 2**20
MAX_LONG_BODY = 2**24  # with a history or a matrix
MAX_DEPTH = 32
MAX_PARTS = 5000  # lists, objects and names in a body that is not long; more would take long to look through
SMALL = 2**16  # bytes; more are checked beside the event loop
JSON = "application/json"
KEY_HEADER = "Idempotency-Key"
TABLES = (  # of readings; their first bytes say what they are
    "text/csv",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.apache.parquet",
    "text/plain",
    "text/tab-separated-values",
)
NO_JSON = {  # what else a body begins with, and what to do
    BOM_UTF16_LE: "the body is written in UTF-16; send it in UTF-8",
    BOM_UTF16_BE: "the body is written in UTF-16; send it in UTF-8",
    b"\x1f\x8b": "the body is compressed; send it as it is, without Content-Encoding",
}
FILES = ("application/octet-stream", "application/zip", "application/vnd.holdcourse.policy")  # a policy's file
# Possessive, and an open string ends with the body: a body of quotes is read once, not once per quote.
STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")

Body = TypeVar("Body", bound=BaseModel)


# -- every request ----------------------------------------------------------------------------------------------------


class Gateway:
    """Puts the common headers on every answer, also where we failed.

    Without tokens it also turns away requests that a foreign web page sends through the operator's own browser: they
    name another host, or say that they come from another site. And those that came through a proxy: behind it everybody
    would seem to be on this machine.
    """

    def __init__(self, app: ASGIApp, *, only_local: bool) -> None:
        self._app, self._only_local, self._pace = app, only_local, Pace(BEGUN_AT_ONCE)

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
                given = message["headers"] = list(message.get("headers", ()))
                there = {name.lower() for name, _ in given}
                given += [header for header in COMMON_HEADERS if header[0] not in there]
            await send(message)

        foreign = _foreign(scope["headers"]) if self._only_local else None
        if foreign is not None:
            refusal = HttpRefusal(403, "foreign", foreign)
            log_refusal(Request(scope), refusal)
            await error_response(refusal)(scope, receive, send_with_headers)
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
            refusal = HttpRefusal(500, "failed", "this should not have happened; the server's log says more")
            await error_response(refusal)(scope, receive, send_with_headers)


def _goes_first(scope: Scope) -> bool:
    """Say whether an operator takes a machine, or switches it; whoever only says so waits as all others."""
    if scope["method"] != "POST" or not scope["path"].endswith(GO_FIRST):
        return False
    with suppress(HttpRefusal):
        token = token_of(Request(scope))
        return token is not None and "admin" in token.scopes
    return False


def _foreign(raw: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return why a request does not come from a program on this machine, if so."""
    headers: dict[str, str] = {}
    for name, value in raw:
        headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))  # the first one counts
    host = headers.get("host", "")
    here = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if here and not is_local(here.strip("[]")):
        return f"without a token file only this machine is served, not {here!r}; {START_WITH_TOKENS}"
    if headers.get("sec-fetch-site", "none") in ("cross-site", "same-site"):
        return f"without a token file other web sites may not send requests; {START_WITH_TOKENS}"
    forwarded = [name for name in FORWARDED if name in headers]
    if forwarded:  # whoever the proxy lets in would seem to be on this machine
        return (
            "without a token file no request from a proxy is accepted, and this one came through a proxy (header "
            f"{forwarded[0]}); "
            f"{START_WITH_TOKENS}, or call the service without the proxy"
        )
    return None


@lru_cache(maxsize=256)
def is_local(host: str) -> bool:
    """Return whether a name or address is this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


# -- who sends it, and what his token allows --------------------------------------------------------------------------


def token_of(request: Request) -> Token | None:
    """Return the token of a request; None if it has none that counts."""
    keyring: Keyring | None = request.app.state.keyring
    if keyring is None:
        request.state.token = ANYBODY
        return ANYBODY
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    try:
        found = keyring.find(secret.strip())
    except HoldcourseError as error:  # where the file lies is nothing for those who may be strangers
        logger.error("%s", error)
        raise HttpRefusal(503, "no_tokens", "the tokens cannot be read; the server's log says why") from None
    if found is None:
        return None
    request.state.token = found.token  # for the log of refusals
    if found.over is not None:
        raise HttpRefusal(401, "expired", found.over)
    return found.token


def sender(request: Request, *, operator: bool = False) -> Token:
    """Return the token of a request, which must have one; from now until its answer the request counts for it."""
    token = token_of(request)
    if token is None:
        given = (
            "this token is not known, or was revoked" if request.headers.get("authorization") else "a token is needed"
        )
        raise HttpRefusal(
            401, "unauthorised", f"{given}; send Authorization: Bearer <token>, made by: holdcourse token make"
        )
    if not hasattr(request.state, "caller"):
        controllers: Controllers = request.app.state.controllers
        client, under_way = client_of(request, token), request.scope.get(UNDER_WAY)
        if isinstance(under_way, ExitStack):
            under_way.enter_context((controllers.operator_requests if operator else controllers.requests).one(client))
        request.state.caller = Caller(client, operator, lambda: client_left(request), token.author)
    return token


def client_of(request: Request, token: Token) -> str:
    """Return whose quota a request counts for: that of its token or, without tokens, of its address."""
    address = "nowhere" if request.client is None else request.client.host
    return f"token {token.id}" if token.id else f"address {address}"


async def client_left(request: Request) -> None:
    """Return when the client has gone; to be called once the body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def require_scope(request: Request, scope: TokenScope, controller: str, *, operator: bool = False) -> Token:
    """Return the token of a request, which must allow this."""
    token = sender(request, operator=operator)
    if not token.may(scope, controller):
        wanted = "all controllers" if controller == EVERYTHING else repr(controller)
        seen = "all controllers" if EVERYTHING in token.controllers else ", ".join(token.controllers)
        holds = f"{', '.join(token.scopes) or 'read'} on {seen}"
        raise HttpRefusal(403, "forbidden", f"this needs a token with {scope} for {wanted}; this one has {holds}")
    return token


async def any_token(request: Request) -> Token:
    """Return a dependency: the request must have a token."""
    return sender(request)


async def may_create(request: Request) -> Token:
    """Make a dependency: the token must allow to make controllers; which ones is checked when the body is read."""
    token = sender(request)
    if "admin" not in token.scopes:
        holds = ", ".join(token.scopes) or "read"
        raise HttpRefusal(403, "forbidden", f"a new controller needs a token with admin; this one has {holds}")
    return token


def needs_scope(
    scope: TokenScope, *, operator: bool = False, on: str = "id"
) -> Callable[[Request], Coroutine[Any, Any, Token]]:
    """Return a dependency: the request's token must allow this on the controller of its address, which is called `on`.

    What an operator sends goes before all else, and does not count among the other requests of the same client.
    """

    async def check(request: Request) -> Token:
        return require_scope(request, scope, request.path_params[on], operator=operator)

    return check


async def caller_of(request: Request) -> Caller:
    """Return a dependency: whose request it is; for those who need no token, that of the address."""
    known: Caller | None = getattr(request.state, "caller", None)
    return known or Caller(client_of(request, ANYBODY), left=lambda: client_left(request))


async def controllers_of(request: Request) -> Controllers:
    """Return a dependency: the controllers of this application."""
    found: Controllers = request.app.state.controllers
    return found


TokenGiven = Annotated[Token, Depends(any_token)]
TheControllers = Annotated[Controllers, Depends(controllers_of)]
TheCaller = Annotated[Caller, Depends(caller_of)]
MAY_READ, MAY_ASK, MAY_TELL, MAY_ADMINISTER, MAY_OPERATE, MAY_CREATE = (
    Depends(needs_scope("read")),
    Depends(needs_scope("ask")),
    Depends(needs_scope("tell")),
    Depends(needs_scope("admin")),
    Depends(needs_scope("admin", operator=True)),
    Depends(may_create),
)


# -- its query --------------------------------------------------------------------------------------------------------

# Load balancers and monitors append parameters of their own to the address of a probe, browsers and chat programs to
# that of a page. There is nothing to choose at these addresses, so nobody is misled; and a probe that is refused would
# take the service out of use.
FREE = ("/healthz", "/readyz", "/", "/page/{name}", "/openapi.json")


class Route(APIRoute):
    """An address that refuses what it does not take after '?': an option that is misspelt must not be ignored."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request, with its query looked at first, if it has one."""
        answer = super().get_route_handler()
        readers = {dependency.call for dependency in self.dependant.dependencies}
        if self.path in FREE or readers & {config_body, table_body}:  # these two look at settings in the query
            return answer
        taken = {param.alias: _is_list(param.field_info.annotation) for param in self.dependant.query_params}
        place = f"{'/'.join(sorted(self.methods or ()))} {self.path}"
        in_body = "requestBody" in (self.openapi_extra or {})
        keyed = any(param.alias == KEY_HEADER for param in self.dependant.header_params)

        async def checked(request: Request) -> Response:
            wrong = _wrong_name(request, taken, place, in_body=in_body) if request.scope["query_string"] else None
            if keyed and len(keys := request.headers.getlist(KEY_HEADER)) > 1:
                wrong = f"{KEY_HEADER} is given {len(keys)} times in the headers; give it once"
            if wrong is not None:
                sender(request)  # strangers are turned away as everywhere
                raise HttpRefusal(422, "invalid", wrong)
            return await answer(request)

        return checked


def _is_list(annotation: Any) -> bool:
    return any(get_origin(kind) is list for kind in (annotation, *get_args(annotation)))


def _wrong_name(request: Request, taken: dict[str, bool], place: str, *, in_body: bool) -> str | None:
    """Return what is wrong with the names in a query; `taken`: which there are, and whether they may be repeated."""
    given = Counter(name for name, _ in request.query_params.multi_items())
    for name, often in given.items():
        if often > 1 and taken.get(name) is False:
            return f"{name} is given {often} times in the address, after '?'; give it once"
        if name in taken:
            continue
        shown = repr(name if len(name) < 60 else f"{name[:57]}...")
        if not taken:
            remedy = "send it in the body, as JSON" if in_body else "leave it out"
            return f"{place} takes no parameters in the address, after '?', got {shown}; {remedy}"
        close = difflib.get_close_matches(name.lower(), taken, n=1)
        meant = f"did you mean {close[0]}? It takes" if close else "it takes"
        return f"{shown} is not a parameter of {place}, in the address after '?'; {meant} {', '.join(taken)}"
    return None


# -- its body ---------------------------------------------------------------------------------------------------------


def json_body(model: type[Body], limit: int = MAX_BODY) -> Callable[[Request], Awaitable[Body]]:
    """Return a dependency that reads a body of this kind."""

    async def read(request: Request) -> Body:
        kind = _kind(request)
        if kind != JSON:
            raise HttpRefusal(415, "not_json", f"the body must be sent with Content-Type: {JSON}, not {_shown(kind)}")
        announced = _announced(request, limit)
        if announced is not None and announced <= SMALL:
            return parsed(model, await _content(request, limit), limit)
        controllers: Controllers = request.app.state.controllers
        # Whoever leaves is noticed when his body is read, not before: to look for it would be to read it.
        caller = replace(await caller_of(request), left=never)
        async with controllers.long_bodies.place(caller):
            return await controllers.parse(partial(parsed, model, await _content(request, limit), limit))

    return read


async def config_body(request: Request) -> Config:
    """Return a new controller: as JSON, or a policy's file with the other settings in the query of the address."""
    kind = _kind(request)
    if kind not in (JSON, *FILES, *TABLES):
        words = (
            f"send JSON as Content-Type: {JSON}, a policy's file as {FILES[0]}, or readings as {TABLES[0]}, not "
            f"{_shown(kind)}"
        )
        raise HttpRefusal(415, "not_json", words)
    controllers: Controllers = request.app.state.controllers
    caller = replace(await caller_of(request), left=never)
    if kind == JSON:
        for name in request.query_params:
            words = f"{name[:60]!r} is given in the address, after '?'; with JSON, all settings are in the body"
            raise HttpRefusal(422, "invalid", words)
        return await json_body(Config, MAX_LONG_BODY)(request)
    limit = MAX_TABLE if kind in TABLES else MAX_LONG_BODY
    _announced(request, limit)
    make = _with_table if kind in TABLES else _with_file
    async with controllers.long_bodies.place(caller):
        content = await _file(request, limit)
        return await controllers.parse(partial(make, _query(request), content))


async def table_body(request: Request) -> dict[str, Any]:
    """Return what a plant's table holds, and what its query says about it."""
    kind = _kind(request)
    if kind not in TABLES:
        words = f"send the table as Content-Type: {TABLES[0]}, or that of Excel or Parquet, not {_shown(kind)}"
        raise HttpRefusal(415, "not_json", words)
    _announced(request, MAX_TABLE)
    controllers: Controllers = request.app.state.controllers
    caller = replace(await caller_of(request), left=never)
    async with controllers.long_bodies.place(caller):
        content = await _file(request, MAX_TABLE)
        return await controllers.parse(partial(look, content, _typed(_query(request))))


def _query(request: Request) -> dict[str, str]:
    """Return what the address says behind '?', where each name may stand once: of two values one would be lost."""
    given = request.query_params.multi_items()
    name, often = max(Counter(name for name, _ in given).items(), key=itemgetter(1), default=("", 0))
    if often > 1:
        words = f"{name} is given {often} times in the address; give it once, with commas between several values"
        raise HttpRefusal(422, "invalid", words)
    return dict(given)


def _typed(query: dict[str, str]) -> dict[str, Any]:
    """Return what a query says about a table: texts, except for what is a number, true or false."""
    typed: dict[str, Any] = dict(query)
    for name in typed.keys() & {"bins", "header_line", "named"}:
        with suppress(ValueError, RecursionError):
            typed[name] = json.loads(typed[name])
    return typed


def _with_table(query: dict[str, str], content: bytes) -> Config:
    """Return the settings of a query with a table of readings; see `_with_file`."""
    about = {name: text for name, text in query.items() if name in FIELDS}
    given = _settings_in({name: text for name, text in query.items() if name not in FIELDS})
    given["readings"] = _typed(about) | {"file": base64.b64encode(content).decode()}
    return parsed(Config, json.dumps(given).encode())


def _with_file(query: dict[str, str], content: bytes) -> Config:
    """Return the settings of a query, whose values are JSON, or text where the setting is one, and a policy's file."""
    given = _settings_in(query) | {"policy_file": base64.b64encode(content).decode()}
    return parsed(Config, json.dumps(given).encode())


def _settings_in(query: dict[str, str]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, text in query.items():
        given[name] = text
        if name not in ("id", "name", "mode", "policy"):
            with suppress(ValueError, RecursionError):
                given[name] = json.loads(text)
    return given


def _kind(request: Request) -> str:
    """Return what the body is said to be."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _shown(kind: str) -> str:
    return repr(kind) if kind else "without one"


def _announced(request: Request, limit: int) -> int | None:
    """Return how many bytes will come; None where that is not said beforehand."""
    if "transfer-encoding" in request.headers:
        return None
    announced = request.headers.get("content-length", "0")
    if not (announced.isdecimal() and len(announced) < 19 and int(announced) <= limit):
        raise _too_long(limit)
    return int(announced)


async def _content(request: Request, limit: int) -> bytes:
    """Read the whole body; refuse it as soon as it is known to be too long."""
    content = bytearray()
    try:
        async for chunk in request.stream():
            content += chunk
            if len(content) > limit:
                raise _too_long(limit)
    except ClientDisconnect:  # nothing that the log should name: it happens every day
        raise ClientLeft("the client disconnected before the whole body had arrived; nothing was done") from None
    return bytes(content)


async def _file(request: Request, limit: int) -> bytes:
    """Read a body that is a file."""
    content = await _content(request, limit)
    if not content:
        raise HttpRefusal(422, "invalid", "the body is empty; send the content of the file as the body")
    return content


def _too_long(limit: int) -> HttpRefusal:
    most = f"{limit // 2**20} MiB" if limit >= 2**20 else f"{limit // 2**10} KiB"
    return HttpRefusal(413, "too_large", f"the body is longer than {most}, the most that is accepted here")


def parsed(model: type[Body], content: bytes, limit: int = MAX_LONG_BODY) -> Body:
    """Read the body as a model; every mistake is named with its place."""
    content = content.removeprefix(BOM_UTF8)  # editors and shells of Windows begin a file with it
    many = parts(content) if limit <= MAX_BODY else 0
    if many > MAX_PARTS:
        words = f"the body contains {many} lists, objects and names, but at most {MAX_PARTS} are accepted here"
        raise HttpRefusal(422, "too_many", words)
    if depth(content) > MAX_DEPTH:
        raise HttpRefusal(
            422, "too_deep", f"the body is nested deeper than {MAX_DEPTH} levels, the most that is accepted here"
        )
    try:
        return model.model_validate_json(content, strict=True)
    except ValidationError as error:
        for beginning, words in NO_JSON.items():
            if content.startswith(beginning):
                raise HttpRefusal(422, "invalid", words) from None
        found = error.errors(include_url=False, include_context=False)
        elsewhere = model.ELSEWHERE.items() if issubclass(model, RequestBody) else ()
        hints = [hint for name, hint in elsewhere if any(mistake["loc"] == (name,) for mistake in found)]
        raise HttpRefusal(422, "invalid", "; ".join([all_in_words(found, keys_of(model)), *hints])) from None


def parts(content: bytes) -> int:
    """Return how many lists, objects and names there are."""
    bare = STRING.sub(b"", content)
    return sum(bare.count(mark) for mark in (b"[", b"{", b":"))


def depth(content: bytes) -> int:
    """Return how deep brackets are nested, outside of strings."""
    deepest = level = 0
    for bracket in STRING.sub(b"", content).translate(None, NO_BRACKETS):
        level += 1 if bracket in b"[{" else -1
        deepest = max(deepest, level)
    return deepest
