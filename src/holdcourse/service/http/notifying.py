"""Addresses about who is told of alarms: how that goes, silences, a test."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import Response

from holdcourse.errors import InvalidInput
from holdcourse.service.core import requests
from holdcourse.service.core.notifications import Notifier
from holdcourse.service.core.refusals import HeldElsewhere, Unknown
from holdcourse.service.core.tokens import EVERYTHING
from holdcourse.service.http import forwarding, responses
from holdcourse.service.http.admission import (
    MAY_CREATE,
    SMALL,
    TheCaller,
    TheFleet,
    TokenGiven,
    json_body,
    require_scope,
)
from holdcourse.service.http.openapi import body_schema, refusal_responses

router = APIRouter()


def _notifier(request: Request) -> Notifier:
    found: Notifier | None = request.app.state.notifier
    if found is None:
        raise InvalidInput("nobody is told of alarms here; start the service with --notify FILE")
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


@router.get("/notifications", response_model=responses.Notifications, responses=refusal_responses("list"))
async def notifications(request: Request, token: TokenGiven) -> Response:
    """Who is told of alarms, whether that works, and what is silent."""
    return _reply(request.app.state.notifier, token)


@router.post(
    "/notifications/silences",
    response_model=responses.Notifications,
    responses=refusal_responses("create"),
    dependencies=[MAY_CREATE],
    openapi_extra=body_schema(requests.SilenceGiven),
)
async def silence(
    request: Request,
    fleet: TheFleet,
    token: TokenGiven,
    by: TheCaller,
    body: Annotated[requests.SilenceGiven, Depends(json_body(requests.SilenceGiven, SMALL))],
) -> Response:
    """Say nothing of the alarms of a controller, or of a kind, until some time. The same again changes nothing."""
    require_scope(request, "admin", body.controller or EVERYTHING)
    notifier = _notifier(request)
    if body.controller is not None and not forwarding.was_sent_on(request):
        with suppress(HeldElsewhere):  # it may be here by the time that it raises an alarm
            fleet.slot(body.controller)

    def begin() -> None:
        notifier.silence(body.until, body.controller, body.kind, body.reason, token.name)

    await fleet.look(begin, by)
    await forwarding.tell_others(fleet, request, body)
    return _reply(notifier, token)


@router.delete(
    "/notifications/silences/{silence}",
    response_model=responses.Notifications,
    responses=refusal_responses("look"),
    dependencies=[MAY_CREATE],
)
async def end_silence(
    request: Request,
    name: Annotated[str, Path(alias="silence", pattern=r"^[0-9a-f]{12}$", examples=["1f3a9c2e77aa"])],
    fleet: TheFleet,
    token: TokenGiven,
    by: TheCaller,
) -> Response:
    """End a silence before its time."""
    notifier = _notifier(request)
    found = notifier.silences.get(name)
    if found is None:
        raise Unknown("silence", name, "GET /notifications lists them")
    require_scope(request, "admin", found.controller or EVERYTHING)
    await fleet.look(lambda: notifier.end_silence(name), by)
    await forwarding.tell_others(fleet, request)
    return _reply(notifier, token)


@router.post(
    "/notifications/test",
    response_model=responses.Notifications,
    responses=refusal_responses("look"),
    dependencies=[MAY_CREATE],
)
async def test(request: Request, token: TokenGiven) -> Response:
    """Tell everybody something that is no alarm, to see whether it arrives."""
    require_scope(request, "admin", EVERYTHING)
    notifier = _notifier(request)
    notifier.test()
    return _reply(notifier, token)
