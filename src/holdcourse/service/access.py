"""What addresses have in common: who sends a request and whether the token allows it, names in paths, answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Request
from fastapi.responses import Response
from pydantic import BaseModel

from holdcourse.errors import HoldcourseError
from holdcourse.service.fleet import Fleet
from holdcourse.service.lanes import Caller
from holdcourse.service.refusals import Refusal
from holdcourse.service.tokens import ANYBODY, Keyring, Scope, Token

logger = logging.getLogger("holdcourse.service")

UNDER_WAY = "holdcourse.under_way"  # in the scope of a request: what ends with it


def authorised(request: Request) -> Token | None:
    """The token of a request; None if it has none that counts."""
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
        raise Refusal(503, "no_tokens", "the tokens cannot be read; the server's log says why") from None
    if found is None:
        return None
    request.state.token = found.token  # for the log of refusals
    if found.over is not None:
        raise Refusal(401, "expired", found.over)
    return found.token


def sender(request: Request, *, operator: bool = False) -> Token:
    """The token of a request, which must have one; from now until its answer the request counts for it."""
    token = authorised(request)
    if token is None:
        given = (
            "this token is not known, or was revoked" if request.headers.get("authorization") else "a token is needed"
        )
        raise Refusal(
            401, "unauthorised", f"{given}; send Authorization: Bearer <token>, made by: holdcourse token make"
        )
    if not hasattr(request.state, "caller"):
        fleet: Fleet = request.app.state.fleet
        client, under_way = client_of(request, token), request.scope.get(UNDER_WAY)
        if isinstance(under_way, ExitStack):
            under_way.enter_context((fleet.operator_requests if operator else fleet.requests).one(client))
        request.state.caller = Caller(client, operator, lambda: left(request), token.author)
    return token


def client_of(request: Request, token: Token) -> str:
    """Whose quota a request counts for: that of its token or, without tokens, of its address."""
    address = "nowhere" if request.client is None else request.client.host
    return f"token {token.id}" if token.id else f"address {address}"


async def left(request: Request) -> None:
    """Returns when the client has gone; to be called once the body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def who(request: Request, scope: Scope, controller: str, *, operator: bool = False) -> Token:
    """The token of a request, which must allow this."""
    token = sender(request, operator=operator)
    if not token.may(scope, controller):
        holds = f"{', '.join(token.scopes) or 'read'} on {', '.join(token.controllers)}"
        raise Refusal(403, "forbidden", f"this needs a token with {scope} for {controller!r}; this one has {holds}")
    return token


async def known(request: Request) -> Token:
    """A dependency: the request must have a token."""
    return sender(request)


async def maker(request: Request) -> Token:
    """A dependency: the request's token must allow to make controllers; which ones is checked when the body is read."""
    token = sender(request)
    if "admin" not in token.scopes:
        holds = ", ".join(token.scopes) or "read"
        raise Refusal(403, "forbidden", f"a new controller needs a token with admin; this one has {holds}")
    return token


def needs(scope: Scope, *, operator: bool = False) -> Callable[[Request], Coroutine[Any, Any, Token]]:
    """A dependency: the request's token must allow this on the controller of its address.

    What an operator sends goes before all else, and does not count among the other requests of the same client.
    """

    async def check(request: Request) -> Token:
        return who(request, scope, request.path_params["id"], operator=operator)

    return check


async def caller_of(request: Request) -> Caller:
    """A dependency: whose request it is; for those who need no token, that of the address."""
    known: Caller | None = getattr(request.state, "caller", None)
    return known or Caller(client_of(request, ANYBODY), left=lambda: left(request))


async def fleet_of(request: Request) -> Fleet:
    """A dependency: the controllers of this application."""
    found: Fleet = request.app.state.fleet
    return found


def reply(kind: type[BaseModel], data: Any, status: int = 200) -> Response:
    """An answer, checked against its model."""
    return Response(kind.model_validate(data).model_dump_json(), status, media_type="application/json")


Who = Annotated[Token, Depends(known)]
Ships = Annotated[Fleet, Depends(fleet_of)]
By = Annotated[Caller, Depends(caller_of)]
Reads, Asks, Tells, Administers, Operates, Makes = (
    Depends(needs("read")),
    Depends(needs("ask")),
    Depends(needs("tell")),
    Depends(needs("admin")),
    Depends(needs("admin", operator=True)),
    Depends(maker),
)
Id = Annotated[str, Path(alias="id", pattern=r"^[a-z0-9_-]{1,64}$", examples=["turbine-1"])]
DecisionId = Annotated[str, Path(pattern=r"^r(0|[1-9][0-9]{0,15})$", examples=["r12"])]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[!-~]{1,200}$",
        description="Chosen by the client, new for every new request. The same again is carried out once, and answered "
        "as before or, by addresses that answer with the state, with the state as it is now; for another request the "
        "key is refused with 409.",
    ),
]
