"""Addresses that only look: the service, its controllers, their decisions, and the page."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel

import holdcourse as hc
from holdcourse.service import answers, files, looking, metrics, past
from holdcourse.service.access import (
    UNDER_WAY,
    Administers,
    By,
    DecisionId,
    Id,
    Reads,
    Ships,
    Who,
    authorised,
    reply,
    who,
)
from holdcourse.service.description import refused
from holdcourse.service.fleet import Fleet
from holdcourse.service.lanes import Caller
from holdcourse.service.refusals import Refusal

Handler = TypeVar("Handler", bound=Callable[..., Any])

router = APIRouter()

LEAST_FREE = 2**20  # bytes; below, the service says that it is not ready


def seen(what: str, answer: type[BaseModel]) -> Callable[[Handler], Handler]:
    """An address of a controller for whoever may look at it."""
    return router.get(
        f"/controllers/{{id}}/{what}", response_model=answer, responses=refused("look"), dependencies=[Reads]
    )


@router.get("/healthz", response_model=answers.Health)
async def healthz() -> Response:
    """Whether the process runs."""
    return reply(answers.Health, {"status": "ok", "version": hc.__version__})


@router.get("/readyz", response_model=answers.Readiness, responses={503: {"model": answers.Readiness}})
async def readyz(fleet: Ships, by: By) -> Response:
    """Whether all controllers are open and there is room on the disk; anybody may ask, so it names none of them."""
    opening, broken, count = len(fleet.opening), len(fleet.broken), len(fleet.berths)
    said: dict[str, Any] = {"status": "ready", "message": "", "controllers": count, "broken": broken}
    if broken:
        said["message"] = f"{broken} of {count} controllers are broken; /controllers and the log say which"
    if opening:
        said |= {"status": "opening", "message": f"{opening} of {count} controllers are still being opened"}
    elif await fleet.look(fleet.store.free, by) < LEAST_FREE:
        said |= {"status": "full", "message": "there is no room left on the disk of the data folder"}
    return reply(answers.Readiness, said, 200 if said["status"] == "ready" else 503)


@router.get("/metrics", response_class=Response, responses=refused("metrics"))
async def prometheus(fleet: Ships, token: Who) -> Response:
    """Figures for Prometheus, of the controllers that the token may see."""
    rows = []
    for name, berth in list(fleet.berths.items()):
        if token.sees(name):
            row: dict[str, Any] = {"id": name, "broken": berth.broken is not None}
            if berth.hosted is not None:
                view = berth.hosted.view
                counted = {"decisions": view.counts["decisions"], "tells": view.counts["tells"]}
                counted["alarms_raised"] = view.counts["alarms"]
                row |= view.summary() | counted | {"stale": view.is_stale, "silent": view.is_silent}
            rows.append(row)
    return Response(metrics.as_text(rows, fleet.latencies), media_type=metrics.CONTENT_TYPE)


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    """The description of this service."""
    return JSONResponse(request.app.openapi())


@router.get("/events", response_class=StreamingResponse, responses=refused("stream"))
async def all_events(fleet: Ships, token: Who, by: By, request: Request) -> Response:
    """What happens on all controllers that the token may see, as it happens."""
    return _stream(fleet, by, request, token.sees)


@router.get(
    "/controllers/{id}/events",
    response_class=StreamingResponse,
    responses=refused("stream"),
    dependencies=[Reads],
)
async def events(name: Id, fleet: Ships, by: By, request: Request) -> Response:
    """What happens on one controller, as it happens."""
    fleet.berth(name)
    return _stream(fleet, by, request, lambda other: other == name)


def _stream(fleet: Fleet, by: Caller, request: Request, wants: Callable[[str], bool]) -> Response:
    def still_allowed() -> bool:
        with suppress(Refusal):  # tokens that cannot be read let nobody in
            return authorised(request) is not None
        return False

    request.scope[UNDER_WAY].enter_context(fleet.streams.one(by.client))
    stream = fleet.hub.watch(wants, still_allowed)
    return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


@router.get("/controllers", response_model=answers.Summaries, responses=refused("list"))
async def controllers(fleet: Ships, token: Who) -> Response:
    """All controllers that the token may see."""
    found = []
    for name, berth in sorted(fleet.berths.items()):
        if not token.sees(name) or (berth.hosted is None and berth.broken is None and name not in fleet.opening):
            continue  # not for this token, or still in the making
        if berth.hosted is not None:
            found.append(berth.hosted.view.summary())
        else:
            empty = dict.fromkeys(answers.Summary.model_fields) | {"id": name, "name": name, "alarms": 0}
            status = "new" if berth.broken is None else "broken"
            found.append(empty | {"status": status, "message": berth.broken or "it is being opened"})
    return reply(answers.Summaries, {"controllers": found})


@seen("state", answers.State)
async def state(name: Id, fleet: Ships) -> Response:
    """Everything about a controller at this moment."""
    return reply(answers.State, (await fleet.opened(name)).view.state())


@seen("config", answers.ConfigAnswer)
async def config(name: Id, fleet: Ships, by: By, history: bool = False) -> Response:
    """Its settings now; with `history` also the measurements that it started from."""
    hosted = await fleet.opened(name)

    def answer() -> Response:
        return reply(
            answers.ConfigAnswer, {**hosted.view.config, "history": hosted.shelf.history() if history else None}
        )

    return await fleet.look(answer, by)


@seen("decisions", answers.Rows)
async def decisions(
    name: Id,
    fleet: Ships,
    by: By,
    after: Annotated[int | None, Query(ge=-1, le=2**53)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Rounds after `after`, oldest first; without it the newest ones."""
    hosted = await fleet.opened(name)
    return await fleet.look(lambda: reply(answers.Rows, looking.rows(hosted, after, limit)), by)


@seen("explain/{decision}", answers.Explanation)
async def explain(name: Id, decision: DecisionId, fleet: Ships, by: By) -> Response:
    """Why a decision was taken."""
    hosted = await fleet.opened(name)
    remembers = await fleet.look(partial(past.remembers, hosted.controller, decision), by)
    explaining = fleet.look if remembers else fleet.read
    return await explaining(lambda: reply(answers.Explanation, looking.explanation(hosted, decision)), by)


@seen("field", answers.CostField)
async def field(name: Id, fleet: Ships, by: By) -> Response:
    """The learned cost of every action in contexts that came up lately."""
    contexts = await fleet.look(partial(looking.field_contexts, await fleet.opened(name)), by)
    model, values = await fleet.borrow(
        name, lambda hosted: (hosted.controller.model.copy(), hosted.view.state()["actions"]), by
    )
    return await fleet.read(lambda: reply(answers.CostField, looking.cost_field(model, contexts, values)), by)


@seen("alarms", answers.Alarms)
async def alarms(name: Id, fleet: Ships, by: By) -> Response:
    """Alarms, newest last; open ones have no `cleared_at`."""
    hosted = await fleet.opened(name)
    return reply(answers.Alarms, {"alarms": await fleet.look(hosted.shelf.alarms, by)})


@seen("changes", answers.ChangeList)
async def changes(name: Id, fleet: Ships, by: By) -> Response:
    """What operators changed lately, and who: settings, mode, override; newest last."""
    hosted = await fleet.opened(name)
    return reply(answers.ChangeList, {"changes": await fleet.look(hosted.shelf.changes, by)})


@seen("verify", answers.Verification)
async def verify(name: Id, fleet: Ships, by: By, request: Request, full: bool | None = None) -> Response:
    """Whether the record is whole; `full` decides every round again, which is the default for short records.

    Asked for, it needs an admin's token: it may take long.
    """
    if full:
        who(request, "admin", name)
    fleet.berth(name)
    paths = fleet.store.epochs(name)
    return reply(answers.Verification, await fleet.read(partial(looking.verified, paths, full), by))


@router.get(
    "/controllers/{id}/backup", response_class=Response, responses=refused("backup"), dependencies=[Administers]
)
async def backup(name: Id, fleet: Ships, by: By) -> Response:
    """A consistent copy of the records as a zip, taken while the controller runs; unpacked, it is a data folder."""
    fleet.berth(name)
    return await fleet.copy(partial(files.backup, fleet.store, name), by)


# -- the page ---------------------------------------------------------------------------------------------------------


@router.get("/", include_in_schema=False)
async def page() -> Response:
    """The page to watch them on."""
    return files.page_file("index.html")


@router.get("/page/{name}", include_in_schema=False)
async def page_file(name: str) -> Response:
    """A file of the page."""
    return files.page_file(name)
