"""Many questions, or measurements, in one request: each is answered on its own, as if it had come alone.

One that is refused spoils no other. Those of one controller are done in their order, those of several beside each
other. What they need to be allowed is looked at one by one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from holdcourse.errors import HoldcourseError
from holdcourse.service.core import requests
from holdcourse.service.core.tokens import Scope as TokenScope
from holdcourse.service.http import responses
from holdcourse.service.http.admission import TheCaller, TheFleet, TokenGiven, json_body, require_scope
from holdcourse.service.http.errors import HttpRefusal, log_refusal, translated
from holdcourse.service.http.openapi import body_schema, refusal_responses
from holdcourse.service.http.routes import asked_of, reply, told_to

logger = logging.getLogger("holdcourse.service")
router = APIRouter()
Item = TypeVar("Item", requests.AskOf, requests.TellOf)


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
async def ask(
    fleet: TheFleet,
    token: TokenGiven,
    by: TheCaller,
    request: Request,
    body: Annotated[requests.AsksGiven, Depends(json_body(requests.AsksGiven))],
) -> Response:
    """Which action now, on many controllers? Each question is answered on its own, with the status that it would have.

    The answer is 200 also where single questions were refused.
    """
    found = await each(body.asks, request, "ask", lambda item: asked_of(fleet, item.controller, by, item, item.key))
    return reply(responses.AskResults, {"results": found})


@router.post(
    "/tell",
    response_model=responses.TellResults,
    responses=refusal_responses("bulk"),
    openapi_extra=body_schema(requests.TellsGiven),
)
async def tell(
    fleet: TheFleet,
    token: TokenGiven,
    by: TheCaller,
    request: Request,
    body: Annotated[requests.TellsGiven, Depends(json_body(requests.TellsGiven))],
) -> Response:
    """What was measured on many controllers; what says no measurement was skipped. Each is taken in on its own."""
    found = await each(body.tells, request, "tell", lambda item: told_to(fleet, item.controller, by, item, item.key))
    return reply(responses.TellResults, {"results": found})
