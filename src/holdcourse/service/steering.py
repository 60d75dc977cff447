"""Addresses that change something: controllers, their rounds, and what the operator decides."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from holdcourse.service import answers, schemas
from holdcourse.service.access import Administers, Asks, Id, Key, Ships, Tells, known, reply, who
from holdcourse.service.description import body_of, refused
from holdcourse.service.hosted import Done, Hosted
from holdcourse.service.reading import MAX_LONG_BODY, reads

router = APIRouter()


@router.post(
    "/controllers",
    status_code=201,
    response_model=answers.State,
    responses={200: {"model": answers.State, "description": "It exists already."}, **refused("create")},
    dependencies=[Depends(known)],  # before the body is read; which controller it is for, the body says
    openapi_extra=body_of(schemas.Config),
)
async def create(
    fleet: Ships, request: Request, body: Annotated[schemas.Config, Depends(reads(schemas.Config, MAX_LONG_BODY))]
) -> Response:
    """A new controller; the same again changes nothing."""
    who(request, "admin", body.id)
    state, is_new = await fleet.create(body)
    return reply(answers.State, state, 201 if is_new else 200)


@router.patch(
    "/controllers/{id}",
    response_model=answers.State,
    responses=refused("change"),
    dependencies=[Administers],
    openapi_extra=body_of(schemas.Changes),
)
async def change(
    name: Id,
    fleet: Ships,
    body: Annotated[schemas.Changes, Depends(reads(schemas.Changes, MAX_LONG_BODY))],
) -> Response:
    """Other settings; where decisions depend on them, in a new epoch that knows all that was told."""
    changes = schemas.plain(body, exclude_unset=True)
    return reply(answers.State, await fleet.do(name, lambda hosted: hosted.change(changes)))


@router.post(
    "/controllers/{id}/ask",
    response_model=answers.DecisionAnswer,
    responses=refused("write"),
    dependencies=[Asks],
    openapi_extra=body_of(schemas.Ask),
)
async def ask(
    name: Id,
    fleet: Ships,
    body: Annotated[schemas.Ask, Depends(reads(schemas.Ask))],
    key: Key = None,
) -> Response:
    """Which action now? The same question again gives the same answer."""
    return reply(answers.DecisionAnswer, await fleet.do(name, lambda hosted: hosted.ask(body, key), timed="ask"))


@router.post(
    "/controllers/{id}/tell",
    response_model=answers.TellAnswer,
    responses=refused("write"),
    dependencies=[Tells],
    openapi_extra=body_of(schemas.Tell),
)
async def tell(
    name: Id, fleet: Ships, body: Annotated[schemas.Tell, Depends(reads(schemas.Tell))], key: Key = None
) -> Response:
    """What was measured. The same again changes nothing."""

    def told(hosted: Hosted) -> Done:
        return hosted.tell(body.decision, body.measurement, body.applied, key, body.epoch)

    return reply(answers.TellAnswer, await fleet.do(name, told, timed="tell"))


@router.post(
    "/controllers/{id}/skip",
    response_model=answers.TellAnswer,
    responses=refused("write"),
    dependencies=[Tells],
    openapi_extra=body_of(schemas.Skip),
)
async def skip(
    name: Id, fleet: Ships, body: Annotated[schemas.Skip, Depends(reads(schemas.Skip))], key: Key = None
) -> Response:
    """Nothing was measured."""

    def skipped(hosted: Hosted) -> Done:
        return hosted.tell(body.decision, None, body.applied, key, body.epoch)

    return reply(answers.TellAnswer, await fleet.do(name, skipped, timed="tell"))


@router.post(
    "/controllers/{id}/override",
    response_model=answers.State,
    responses=refused("write"),
    dependencies=[Administers],
    openapi_extra=body_of(schemas.Override),
)
async def override(
    name: Id,
    fleet: Ships,
    body: Annotated[schemas.Override, Depends(reads(schemas.Override))],
    key: Key = None,
) -> Response:
    """Hold the machine at an action until it is handed back with null."""
    return reply(answers.State, await fleet.do(name, lambda hosted: hosted.set_override(body.action, body.reason, key)))


@router.post(
    "/controllers/{id}/mode",
    response_model=answers.State,
    responses=refused("write"),
    dependencies=[Administers],
    openapi_extra=body_of(schemas.ModeChange),
)
async def mode(
    name: Id,
    fleet: Ships,
    body: Annotated[schemas.ModeChange, Depends(reads(schemas.ModeChange))],
    key: Key = None,
) -> Response:
    """How far the policy may go from now on."""
    return reply(answers.State, await fleet.do(name, lambda hosted: hosted.set_mode(body.mode, body.reason, key)))


@router.post(
    "/controllers/{id}/episode",
    response_model=answers.State,
    responses=refused("write"),
    dependencies=[Administers],
    openapi_extra=body_of(schemas.Episode),
)
async def episode(
    name: Id,
    fleet: Ships,
    body: Annotated[schemas.Episode, Depends(reads(schemas.Episode))],
) -> Response:
    """End the episode and begin the next one."""
    return reply(answers.State, await fleet.do(name, lambda hosted: hosted.new_episode(body.start)))
