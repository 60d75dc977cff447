"""The short way for what a machine's program sends every round: ask, tell and skip, without the framework's machinery.

The framework finds an address among all, collects what it depends on and checks its parameters one by one, which for a
question takes longer than to decide it. Here the addresses are three, known beforehand; what they do is what they do
there: the same functions are called, and the same are refused. Whatever is not plainly one of these requests (an
address or a key that is not well formed, a query) goes on to the framework, which says what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from holdcourse.errors import HoldcourseError
from holdcourse.service.core import requests
from holdcourse.service.core.fleet import Fleet
from holdcourse.service.core.tokens import Scope as TokenScope
from holdcourse.service.http import routes
from holdcourse.service.http.admission import caller_of, json_body, require_scope
from holdcourse.service.http.errors import refused

PATH = re.compile(r"/controllers/([a-z0-9_-]{1,64})/(ask|tell|skip)")
KEY = re.compile(routes.KEY_PATTERN)


@dataclass(frozen=True)
class Address:
    """What an address does, what a token must allow for it, and what reads its body."""

    does: Callable[..., Awaitable[Response]]
    needs: TokenScope
    body: Callable[[Request], Awaitable[Any]]


ADDRESSES = {
    "ask": Address(routes.ask, "ask", json_body(requests.AskGiven)),
    "tell": Address(routes.tell, "tell", json_body(requests.TellGiven)),
    "skip": Address(routes.skip, "tell", json_body(requests.Skip)),
}


class Direct:
    """Answers asks, tells and skips; everything else the application behind it does."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        found = None
        if scope["type"] == "http" and scope["method"] == "POST" and not scope["query_string"]:
            found = PATH.fullmatch(scope["path"])
        keys = [] if found is None else [value for name, value in scope["headers"] if name == b"idempotency-key"]
        if found is None or len(keys) > 1 or (keys and not KEY.fullmatch(keys[0].decode("latin-1"))):
            await self._app(scope, receive, send)
            return
        address, request = ADDRESSES[found[2]], Request(scope, receive)
        try:
            require_scope(request, address.needs, found[1])
            fleet: Fleet = request.app.state.fleet
            body, caller = await address.body(request), await caller_of(request)
            answer = await address.does(found[1], fleet, caller, body, keys[0].decode("ascii") if keys else None)
        except HoldcourseError as error:
            answer = await refused(request, error)
        await answer(scope, receive, send)
