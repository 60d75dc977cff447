"""What a machine's program sends every round: ask, tell and skip; one by one, many at once, and by the short way.

**Many at once.** Each question is answered on its own, as if it had come alone; one that is refused spoils no other.
Those of one controller are done in their order, those of several beside each other. What they need to be allowed is
looked at one by one.

**The short way.** The framework finds an address among all, collects what it depends on and checks its parameters one
by one, which for a question takes longer than to decide it. `Direct` knows three addresses beforehand; what they do is
what they do there: the same functions are called, and the same are refused. Whatever is not plainly one of these
requests (an address or a key that is not well formed, a query) goes on to the framework, which says what is wrong with
it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Header, Path, Request
from fastapi.params import Depends as Dependency
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.types import ASGIApp, Receive, Scope, Send

from holdcourse.errors import HoldcourseError
from holdcourse.service.core import records, requests
from holdcourse.service.core.clients import Caller
from holdcourse.service.core.controllers import Controllers
from holdcourse.service.core.hosted import Done, Hosted, MustRebuild, SettingGiven
from holdcourse.service.core.tokens import Scope as TokenScope
from holdcourse.service.http import responses
from holdcourse.service.http.admission import (
    KEY_HEADER,
    MAY_ASK,
    MAY_TELL,
    Route,
    TheCaller,
    TheControllers,
    TokenGiven,
    caller_of,
    json_body,
    require_scope,
)
from holdcourse.service.http.errors import HttpRefusal, log_refusal, refused, translated
from holdcourse.service.http.openapi import body_schema, refusal_responses

logger = logging.getLogger("holdcourse.service")
router = APIRouter(route_class=Route)
Handler = TypeVar("Handler", bound=Callable[..., Any])
Item = TypeVar("Item", requests.AskOf, requests.TellOf)
Id = Annotated[
    str, Path(alias="id", pattern=r"^[a-z0-9_-]{1,64}$", examples=["turbine-1"], description="Id of the controller.")
]
KEY_PATTERN = r"^[!-~]{1,200}$"
Key = Annotated[
    str | None,
    Header(
        alias=KEY_HEADER,
        pattern=KEY_PATTERN,
        description="A text that the client chooses, new for every new request. A request that is repeated under its "
        "key is carried out once. Its answer is the same again or, if it is the state, the present state. The key "
        "with a different request is refused with 409.",
    ),
]


def reply(kind: type[BaseModel], data: Any, status: int = 200, *, only_given: bool = False) -> Response:
    """Return an answer, checked against its model; `only_given` leaves out what `data` does not hold."""
    text = kind.model_validate(data).model_dump_json(exclude_unset=only_given)
    return Response(text, status, media_type="application/json")


def write_route(
    what: str, body: type[BaseModel], answer: type[BaseModel], allowed: Dependency, to: APIRouter = router
) -> Callable[[Handler], Handler]:
    """Return an address of a controller that takes a body; who sends it is checked before it is read."""
    return to.post(
        f"/controllers/{{id}}/{what}",
        response_model=answer,
        responses=refusal_responses("write"),
        dependencies=[allowed],
        openapi_extra=body_schema(body),
    )


# -- one by one --------------------------------------------------------------------------------------------------------


@write_route("ask", requests.AskGiven, responses.DecisionAnswer, MAY_ASK)
async def ask(
    name: Id,
    controllers: TheControllers,
    by: TheCaller,
    body: Annotated[requests.AskGiven, Depends(json_body(requests.AskGiven))],
    key: Key = None,
) -> Response:
    """Ask which setting to run now. The same question again gets the same answer."""
    return reply(responses.DecisionAnswer, await asked_of(controllers, name, by, body, key))


async def asked_of(
    controllers: Controllers, name: str, by: Caller, body: requests.AskGiven, key: str | None
) -> dict[str, Any]:
    """Return what a controller answers to a question."""
    try:
        return await controllers.do(name, lambda hosted: hosted.ask(body, key), by, timed="ask")
    except MustRebuild as asked:  # to be rebuilt, which may take long, so not in the controller's turn
        hosted, located = await controllers.opened(name), asked.located
        answer = await controllers.read(lambda: records.answer(hosted.controller, hosted.records, located), by)
        if key is not None:
            answer = await controllers.do(name, lambda hosted: hosted.ask(body, key, answer), by)
        return answer


@write_route("tell", requests.TellGiven, responses.TellAnswer, MAY_TELL)
async def tell(
    name: Id,
    controllers: TheControllers,
    by: TheCaller,
    body: Annotated[requests.TellGiven, Depends(json_body(requests.TellGiven))],
    key: Key = None,
) -> Response:
    """Tell what was measured. Sending the same request again changes nothing."""
    return reply(responses.TellAnswer, await told_to(controllers, name, by, body, key))


async def told_to(
    controllers: Controllers, name: str, by: Caller, body: requests.TellGiven | requests.TellOf, key: str | None
) -> dict[str, Any]:
    """Return what a controller answers to what was measured."""

    def told(hosted: Hosted) -> Done:
        ran = SettingGiven(body.applied, body.applied_index)
        return hosted.tell(body.decision, body.measurement, ran, key, body.epoch, body.profile, body.reference)

    return await controllers.do(name, told, by, timed="tell")


@write_route("skip", requests.Skip, responses.TellAnswer, MAY_TELL)
async def skip(
    name: Id,
    controllers: TheControllers,
    by: TheCaller,
    body: Annotated[requests.Skip, Depends(json_body(requests.Skip))],
    key: Key = None,
) -> Response:
    """Say that nothing was measured. Saying it again changes nothing."""

    def skipped(hosted: Hosted) -> Done:
        return hosted.tell(body.decision, None, SettingGiven(body.applied, body.applied_index), key, body.epoch)

    return reply(responses.TellAnswer, await controllers.do(name, skipped, by, timed="tell"))


# -- many at once ------------------------------------------------------------------------------------------------------


async def each(
    items: Sequence[Item], request: Request, scope: TokenScope, do: Callable[[Item], Awaitable[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Do every item, and return what each would have been answered with alone, in their order."""
    results: list[dict[str, Any]] = [{}] * len(items)
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, item in enumerate(items):
        places[item.controller].append(place)

    async def one(item: Item) -> dict[str, Any]:
        try:
            require_scope(request, scope, item.controller)
            return {"controller": item.controller, "status": 200, "answer": await do(item), "error": None}
        except HoldcourseError as error:
            refusal = translated(error)
            log_refusal(request, refusal)
        except Exception:
            logger.exception("%s of %s, one of several, failed", scope, item.controller)
            refusal = HttpRefusal(500, "failed", "this should not have happened; the server's log says more")
        said = {"code": refusal.code, "message": str(refusal), **refusal.more}
        return {"controller": item.controller, "status": refusal.status, "answer": None, "error": said}

    async def in_order(own: list[int]) -> None:
        for place in own:
            results[place] = await one(items[place])

    await asyncio.gather(*map(in_order, places.values()))
    return results


@router.post(
    "/ask",
    response_model=responses.AskResults,
    responses=refusal_responses("bulk"),
    openapi_extra=body_schema(requests.AsksGiven),
)
async def ask_many(
    controllers: TheControllers,
    token: TokenGiven,
    by: TheCaller,
    request: Request,
    body: Annotated[requests.AsksGiven, Depends(json_body(requests.AsksGiven))],
) -> Response:
    """Ask many controllers at once. Each question is answered on its own, with a status of its own.

    The status is 200 even if some of the questions were refused.
    """
    found = await each(
        body.asks, request, "ask", lambda item: asked_of(controllers, item.controller, by, item, item.key)
    )
    return reply(responses.AskResults, {"results": found})


@router.post(
    "/tell",
    response_model=responses.TellResults,
    responses=refusal_responses("bulk"),
    openapi_extra=body_schema(requests.TellsGiven),
)
async def tell_many(
    controllers: TheControllers,
    token: TokenGiven,
    by: TheCaller,
    request: Request,
    body: Annotated[requests.TellsGiven, Depends(json_body(requests.TellsGiven))],
) -> Response:
    """Tell the measurements of many controllers, each on its own; a tell without a measurement skips the round."""
    found = await each(
        body.tells, request, "tell", lambda item: told_to(controllers, item.controller, by, item, item.key)
    )
    return reply(responses.TellResults, {"results": found})


# -- the short way -----------------------------------------------------------------------------------------------------

PATH = re.compile(r"/controllers/([a-z0-9_-]{1,64})/(ask|tell|skip)")
KEY = re.compile(KEY_PATTERN)


@dataclass(frozen=True)
class Address:
    """What an address does, what a token must allow for it, and what reads its body."""

    does: Callable[..., Awaitable[Response]]
    needs: TokenScope
    body: Callable[[Request], Awaitable[Any]]


ADDRESSES = {
    "ask": Address(ask, "ask", json_body(requests.AskGiven)),
    "tell": Address(tell, "tell", json_body(requests.TellGiven)),
    "skip": Address(skip, "tell", json_body(requests.Skip)),
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
            controllers: Controllers = request.app.state.controllers
            body, caller = await address.body(request), await caller_of(request)
            answer = await address.does(found[1], controllers, caller, body, keys[0].decode("ascii") if keys else None)
        except HoldcourseError as error:
            answer = await refused(request, error)
        await answer(scope, receive, send)
