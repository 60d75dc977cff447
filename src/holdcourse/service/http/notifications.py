"""Addresses about who is told of alarms: how that goes, silences, a test."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import Response
from pydantic import BaseModel

from holdcourse.errors import InvalidInput
from holdcourse.service.core import requests
from holdcourse.service.core.notifications import Notifier
from holdcourse.service.core.refusals import HeldElsewhere, Unknown
from holdcourse.service.core.tokens import EVERYTHING
from holdcourse.service.http import forwarding, responses
from holdcourse.service.http.admission import (
    MAY_CREATE,
    SMALL,
    Route,
    TheCaller,
    TheControllers,
    TokenGiven,
    json_body,
    require_scope,
)
from holdcourse.service.http.openapi import body_schema, refusal_responses

router = APIRouter(route_class=Route)
Handler = TypeVar("Handler", bound=Callable[..., Any])


def _notifier(request: Request) -> Notifier:
    found: Notifier | None = request.app.state.notifier
    if found is None:
        words = "start the service with a file that says who does: holdcourse serve --notify FILE"
        raise InvalidInput(f"nobody receives alarms; {words}")
    return found


def _reply(notifier: Notifier | None, token: TokenGiven) -> Response:
    """Return how it goes, as far as the token may see it: what a target answered is for those who may do everything."""
    state = {"targets": [], "silences": []} if notifier is None else notifier.state()
    if not token.may("admin", EVERYTHING):
        state["targets"] = [{**target, "error": ""} for target in state["targets"]]
        seen = [each for each in state["silences"] if each["controller"] is None or token.sees(each["controller"])]
        state["silences"] = seen
    content = responses.Notifications.model_validate(state).model_dump_json()
    return Response(content, media_type="application/json")


def _changing(
    add: Callable[..., Callable[[Handler], Handler]],
    address: str,
    refusals: str,
    body: type[BaseModel] | None = None,
) -> Callable[[Handler], Handler]:
    """Return an address that changes who is told, for those who may create; it answers with how it goes then."""
    return add(
        f"/notifications/{address}",
        response_model=responses.Notifications,
        responses=refusal_responses(refusals),
        dependencies=[MAY_CREATE],
        openapi_extra=None if body is None else body_schema(body),
    )


@router.get("/notifications", response_model=responses.Notifications, responses=refusal_responses("list"))
async def notifications(request: Request, token: TokenGiven) -> Response:
    """Who is notified of alarms, whether that works, and which alarms are silenced."""
    return _reply(request.app.state.notifier, token)


@_changing(router.post, "silences", "create", requests.SilenceGiven)
async def silence(
    request: Request,
    controllers: TheControllers,
    token: TokenGiven,
    by: TheCaller,
    body: Annotated[requests.SilenceGiven, Depends(json_body(requests.SilenceGiven, SMALL))],
) -> Response:
    """Silence a controller, a kind of alarm, or both until a time. The same request again changes nothing."""
    require_scope(request, "admin", body.controller or EVERYTHING)
    notifier = _notifier(request)
    if body.controller is not None and not forwarding.was_sent_on(request):
        with suppress(HeldElsewhere):  # it may be here by the time that it raises an alarm
            controllers.slot(body.controller)

    def begin() -> None:
        notifier.silence(body.until, body.controller, body.kind, body.reason, token.name)

    await controllers.look(begin, by)
    await forwarding.tell_others(controllers, request, body)
    return _reply(notifier, token)


@_changing(router.delete, "silences/{silence}", "look")
async def end_silence(
    request: Request,
    name: Annotated[
        str,
        Path(alias="silence", pattern=r"^[0-9a-f]{12}$", examples=["1f3a9c2e77aa"], description="Id of the silence."),
    ],
    controllers: TheControllers,
    token: TokenGiven,
    by: TheCaller,
) -> Response:
    """End a silence before its time."""
    notifier = _notifier(request)
    found = notifier.silences.get(name)
    if found is None:
        raise Unknown("silence", name, "GET /notifications lists them")
    require_scope(request, "admin", found.controller or EVERYTHING)
    await controllers.look(lambda: notifier.end_silence(name), by)
    await forwarding.tell_others(controllers, request)
    return _reply(notifier, token)


@_changing(router.post, "test", "look")
async def test(request: Request, token: TokenGiven) -> Response:
    """Send a test notice to every target, to see whether it arrives."""
    require_scope(request, "admin", EVERYTHING)
    notifier = _notifier(request)
    notifier.test()
    return _reply(notifier, token)
