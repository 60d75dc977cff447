"""Addresses that change something: controllers, their rounds, and what the operator decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Request
from fastapi.params import Depends as Dependency
from fastapi.responses import Response
from pydantic import BaseModel

from holdcourse.service import answers, operating, past, rounds, schemas
from holdcourse.service.access import Administers, Asks, By, Id, Key, Makes, Operates, Ships, Tells, reply, who
from holdcourse.service.description import body_of, refused
from holdcourse.service.hosted import Done, Hosted
from holdcourse.service.reading import MAX_LONG_BODY, SMALL, reads

Handler = TypeVar("Handler", bound=Callable[..., Any])

router = APIRouter()


def posted(
    what: str, body: type[BaseModel], answer: type[BaseModel], allowed: Dependency
) -> Callable[[Handler], Handler]:
    """An address of a controller that takes a body; who sends it is checked before it is read."""
    return router.post(
        f"/controllers/{{id}}/{what}",
        response_model=answer,
        responses=refused("write"),
        dependencies=[allowed],
        openapi_extra=body_of(body),
    )


@router.post(
    "/controllers",
    status_code=201,
    response_model=answers.State,
    responses={200: {"model": answers.State, "description": "It exists already."}, **refused("create")},
    dependencies=[Makes],  # before the body is read; which controller it is for, the body says
    openapi_extra=body_of(schemas.Config),
)
async def create(
    fleet: Ships,
    by: By,
    request: Request,
    body: Annotated[schemas.Config, Depends(reads(schemas.Config, MAX_LONG_BODY))],
) -> Response:
    """A new controller. The same again changes nothing and needs no key; other settings under its id are a conflict."""
    who(request, "admin", body.id)
    state, is_new = await fleet.create(body, by)
    return reply(answers.State, state, 201 if is_new else 200)


@router.patch(
    "/controllers/{id}",
    response_model=answers.State,
    responses=refused("write"),
    dependencies=[Administers],
    openapi_extra=body_of(schemas.Changes),
)
async def change(
    name: Id,
    fleet: Ships,
    by: By,
    body: Annotated[schemas.Changes, Depends(reads(schemas.Changes, MAX_LONG_BODY))],
    key: Key = None,
    without_archived: bool = False,
) -> Response:
    """Other settings; where decisions depend on them, in a new epoch that knows all that was told.

    Where epochs were archived it would not know what was told in them: then it is refused unless `without_archived`.
    """
    changes = schemas.plain(body, exclude_unset=True)

    def changed(hosted: Hosted) -> Done:
        return operating.change(hosted, changes, key, without_archived=without_archived)

    return reply(answers.State, await fleet.do(name, changed, by))


@posted("ask", schemas.Ask, answers.DecisionAnswer, Asks)
async def ask(
    name: Id, fleet: Ships, by: By, body: Annotated[schemas.Ask, Depends(reads(schemas.Ask))], key: Key = None
) -> Response:
    """Which action now? The same question again gives the same answer."""
    try:
        answer = await fleet.do(name, lambda hosted: rounds.ask(hosted, body, key), by, timed="ask")
    except rounds.LongAgo as asked:  # to be rebuilt, which may take long, so not in the controller's turn
        hosted, entry = await fleet.opened(name), asked.entry
        answer = await fleet.read(lambda: past.answer(hosted.controller, hosted.shelf, entry), by)
        if key is not None:
            answer = await fleet.do(name, lambda hosted: rounds.ask(hosted, body, key, answer), by)
    return reply(answers.DecisionAnswer, answer)


@posted("tell", schemas.Tell, answers.TellAnswer, Tells)
async def tell(
    name: Id, fleet: Ships, by: By, body: Annotated[schemas.Tell, Depends(reads(schemas.Tell))], key: Key = None
) -> Response:
    """What was measured. The same again changes nothing."""

    def told(hosted: Hosted) -> Done:
        return rounds.tell(hosted, body.decision, body.measurement, body.applied, key, body.epoch)

    return reply(answers.TellAnswer, await fleet.do(name, told, by, timed="tell"))


@posted("skip", schemas.Skip, answers.TellAnswer, Tells)
async def skip(
    name: Id, fleet: Ships, by: By, body: Annotated[schemas.Skip, Depends(reads(schemas.Skip))], key: Key = None
) -> Response:
    """Nothing was measured. The same again changes nothing."""

    def skipped(hosted: Hosted) -> Done:
        return rounds.tell(hosted, body.decision, None, body.applied, key, body.epoch)

    return reply(answers.TellAnswer, await fleet.do(name, skipped, by, timed="tell"))


@posted("override", schemas.Override, answers.State, Operates)
async def override(
    name: Id,
    fleet: Ships,
    by: By,
    body: Annotated[schemas.Override, Depends(reads(schemas.Override, SMALL))],
    key: Key = None,
) -> Response:
    """Hold the machine at an action, or as near as mask and limits permit, until it is handed back with null."""

    def held(hosted: Hosted) -> Done:
        return operating.set_override(hosted, body.action, body.reason, key, force=body.force)

    return reply(answers.State, await fleet.do(name, held, by))


@posted("mode", schemas.ModeChange, answers.State, Operates)
async def mode(
    name: Id,
    fleet: Ships,
    by: By,
    body: Annotated[schemas.ModeChange, Depends(reads(schemas.ModeChange, SMALL))],
    key: Key = None,
) -> Response:
    """How far the policy may go from now on."""

    def switched(hosted: Hosted) -> Done:
        return operating.set_mode(hosted, body.mode, body.reason, key)

    return reply(answers.State, await fleet.do(name, switched, by))


@posted("episode", schemas.Episode, answers.State, Administers)
async def episode(
    name: Id, fleet: Ships, by: By, body: Annotated[schemas.Episode, Depends(reads(schemas.Episode))], key: Key = None
) -> Response:
    """End the episode and begin the next one. Without a key, the same again before its first round changes nothing."""

    def begun(hosted: Hosted) -> Done:
        return operating.new_episode(hosted, body.start, key, force=body.reason if body.force else None)

    return reply(answers.State, await fleet.do(name, begun, by))
