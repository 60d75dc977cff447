"""Every address of the service: those that change something, those that only look, and the page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel

import holdcourse as hc
from holdcourse.errors import DatabaseUnreachable
from holdcourse.service.core import export, inspection, records, requests, trail
from holdcourse.service.core.fleets import HostedFleets
from holdcourse.service.core.hosted import Done, Hosted, SettingGiven
from holdcourse.service.core.tokens import EVERYTHING
from holdcourse.service.http import forwarding, metrics, responses, streams
from holdcourse.service.http.admission import (
    MAX_LONG_BODY,
    MAY_ADMINISTER,
    MAY_CREATE,
    MAY_OPERATE,
    MAY_READ,
    MAY_TELL,
    SMALL,
    TABLES,
    Route,
    TheCaller,
    TheControllers,
    TokenGiven,
    json_body,
    require_scope,
    table_body,
)
from holdcourse.service.http.openapi import body_schema, refusal_responses
from holdcourse.service.http.rounds import Id, Key, reply, write_route

Handler = TypeVar("Handler", bound=Callable[..., Any])
DecisionId = Annotated[
    str, Path(pattern=r"^r(0|[1-9][0-9]{0,15})$", examples=["r12"], description="Id of the decision.")
]
WithoutArchived = Annotated[
    bool,
    Query(description="Whether the new epoch may begin without what archived epochs have measured; left out: false."),
]
WithHistory = Annotated[
    bool, Query(description="Whether to include the measurements that it started from; left out: false.")
]
Most = Annotated[
    int, Query(ge=1, le=1000, description="Largest number of entries in the answer, 1 to 1000; left out: 100.")
]
router = APIRouter(route_class=Route)

LEAST_FREE = 2**20  # bytes; below, the service says that it is not ready


def read_route(what: str, answer: type[BaseModel]) -> Callable[[Handler], Handler]:
    """Return an address of a controller for whoever may look at it."""
    return router.get(
        f"/controllers/{{id}}/{what}",
        response_model=answer,
        responses=refusal_responses("look"),
        dependencies=[MAY_READ],
    )


# -- addresses that change something ----------------------------------------------------------------------------------


@router.post(
    "/readings",
    response_model=responses.ReadingsAnswer,
    responses=refusal_responses("readings"),
    dependencies=[MAY_CREATE],
    openapi_extra=body_schema(None, *TABLES),
)
async def look_at_readings(found: Annotated[dict[str, Any], Depends(table_body)]) -> Response:
    """Inspect a plant's table, as `holdcourse data info` does; the service keeps nothing of it.

    The query may say how the table is written (`timezone`, `decimal`, `missing` and so on) and which column is which
    (`action`, `cost`, `context`). With these columns, `read` says what a controller would start from.
    """
    return reply(responses.ReadingsAnswer, found)


@router.patch(
    "/controllers/{id}",
    response_model=responses.State,
    responses=refusal_responses("write"),
    dependencies=[MAY_ADMINISTER],
    openapi_extra=body_schema(requests.Changes),
)
async def change(
    name: Id,
    controllers: TheControllers,
    by: TheCaller,
    body: Annotated[requests.Changes, Depends(json_body(requests.Changes, MAX_LONG_BODY))],
    key: Key = None,
    without_archived: WithoutArchived = False,
) -> Response:
    """Change the settings. If decisions depend on them, a new epoch begins with every measurement so far.

    The new epoch cannot learn from archived epochs. If there are any, this is refused unless you set
    `without_archived`.
    """
    changes = requests.plain(body, exclude_unset=True)

    def changed(hosted: Hosted) -> Done:
        return hosted.change(changes, key, without_archived=without_archived)

    return reply(responses.State, await controllers.do(name, changed, by))


@write_route("retract", requests.Retraction, responses.RetractAnswer, MAY_TELL, router)
async def retract(
    name: Id,
    controllers: TheControllers,
    by: TheCaller,
    body: Annotated[requests.Retraction, Depends(json_body(requests.Retraction, SMALL))],
    key: Key = None,
    without_archived: WithoutArchived = False,
) -> Response:
    """Take a measurement back: it no longer counts. Sending the same request again changes nothing.

    The controller replays the rounds since then, which may take long. If the measurement is of an earlier epoch, a
    new epoch begins; while epochs are archived, that is refused unless you set `without_archived`.
    """

    def taken_back(hosted: Hosted) -> Done:
        return hosted.retract(body.decision, body.reason, key, without_archived=without_archived)

    return reply(responses.RetractAnswer, await controllers.do(name, taken_back, by))


@write_route("override", requests.OverrideGiven, responses.State, MAY_OPERATE, router)
async def override(
    name: Id,
    controllers: TheControllers,
    by: TheCaller,
    body: Annotated[requests.OverrideGiven, Depends(json_body(requests.OverrideGiven, SMALL))],
    key: Key = None,
) -> Response:
    """Hold the machine at a setting, or as near as mask and limits permit; null returns control to the policy."""

    def held(hosted: Hosted) -> Done:
        return hosted.set_override(SettingGiven(body.setting, body.setting_index), body.reason, key, force=body.force)

    return reply(responses.State, await controllers.do(name, held, by))


@write_route("mode", requests.ModeChange, responses.State, MAY_OPERATE, router)
async def mode(
    name: Id,
    controllers: TheControllers,
    by: TheCaller,
    body: Annotated[requests.ModeChange, Depends(json_body(requests.ModeChange, SMALL))],
    key: Key = None,
) -> Response:
    """Set the mode: what the policy may do from now on."""

    def switched(hosted: Hosted) -> Done:
        return hosted.set_mode(body.mode, body.reason, key)

    return reply(responses.State, await controllers.do(name, switched, by))


@write_route("episode", requests.EpisodeGiven, responses.State, MAY_ADMINISTER, router)
async def episode(
    name: Id,
    controllers: TheControllers,
    by: TheCaller,
    body: Annotated[requests.EpisodeGiven, Depends(json_body(requests.EpisodeGiven))],
    key: Key = None,
) -> Response:
    """End the episode and begin the next. Without a key, a repetition before its first round changes nothing."""

    def begun(hosted: Hosted) -> Done:
        at = SettingGiven(body.start, body.start_index)
        return hosted.new_episode(at, key, force=body.reason if body.force else None)

    return reply(responses.State, await controllers.do(name, begun, by))


@router.post(
    "/controllers/{id}/alarms/{kind}/acknowledge",
    response_model=responses.State,
    responses=refusal_responses("write"),
    dependencies=[MAY_ADMINISTER],
    openapi_extra=body_schema(requests.Acknowledgement),
)
async def acknowledge(
    name: Id,
    kind: Annotated[str, Path(pattern=r"^[a-z_]{1,40}$", examples=["silent"], description="Kind of the alarm.")],
    controllers: TheControllers,
    by: TheCaller,
    body: Annotated[requests.Acknowledgement, Depends(json_body(requests.Acknowledgement, SMALL))],
    key: Key = None,
) -> Response:
    """Say that you have seen an open alarm. It stays open; the next alarm of its kind asks for attention again."""

    def seen(hosted: Hosted) -> Done:
        return hosted.acknowledge(kind, body.at, body.remark, key)

    return reply(responses.State, await controllers.do(name, seen, by))


@write_route("archive", requests.Archiving, responses.State, MAY_ADMINISTER, router)
async def archive(
    name: Id,
    controllers: TheControllers,
    by: TheCaller,
    body: Annotated[requests.Archiving, Depends(json_body(requests.Archiving, SMALL))],
) -> Response:
    """Archive a controller: it can then only be looked at. Refused while a decision waits for its measurement."""
    return reply(responses.State, await controllers.do(name, lambda hosted: hosted.archive(body.reason), by))


@write_route("restore", requests.Archiving, responses.State, MAY_ADMINISTER, router)
async def restore(
    name: Id,
    controllers: TheControllers,
    by: TheCaller,
    body: Annotated[requests.Archiving, Depends(json_body(requests.Archiving, SMALL))],
) -> Response:
    """Restore an archived controller; it continues where it was."""
    return reply(responses.State, await controllers.do(name, lambda hosted: hosted.restore(body.reason), by))


@router.delete(
    "/controllers/{id}",
    response_model=responses.Deleted,
    responses=refusal_responses("delete"),
    dependencies=[MAY_ADMINISTER],
)
async def delete(
    name: Id,
    controllers: TheControllers,
    by: TheCaller,
    typed: Annotated[str, Query(alias="name", max_length=200, description="Name of the controller, typed again.")],
    reason: Annotated[
        str, Query(min_length=1, max_length=500, pattern=r"\S", description="Reason, which is recorded.")
    ],
) -> Response:
    """Delete an archived controller and all its records for good. The service's journal keeps who did it, and why."""
    return reply(responses.Deleted, await controllers.delete(name, typed, reason, by))


# -- addresses that only look -----------------------------------------------------------------------------------------


# Load balancers and monitors probe with HEAD, too.
@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", response_model=responses.Health)
async def healthz() -> Response:
    """Say that the process runs."""
    return reply(responses.Health, {"status": "ok", "version": hc.__version__})


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", response_model=responses.Readiness, responses={503: {"model": responses.Readiness}})
async def readyz(controllers: TheControllers, by: TheCaller, request: Request) -> Response:
    """Say whether every record is open and the disk has room. It names no controller, because it needs no token."""
    fleets: HostedFleets = request.app.state.fleets
    opening, broken = len(controllers.opening) + len(fleets.opening), len(controllers.broken) + len(fleets.broken)
    count, what = (
        len(controllers.slots) + len(fleets.slots),
        "controllers and fleets" if fleets.slots else "controllers",
    )
    said: dict[str, Any] = {"status": "ready", "message": "", "controllers": len(controllers.slots), "broken": broken}
    if broken:
        said["message"] = f"{broken} of {count} {what} are broken; /controllers, /fleets and the log say which"
    if opening:
        said |= {"status": "opening", "message": f"{opening} of {count} {what} are still being opened"}
    else:
        try:
            if await controllers.look(controllers.store.free, by) < LEAST_FREE:
                said |= {"status": "full", "message": "there is no room left on the disk of the data folder"}
        except DatabaseUnreachable:
            said |= {"status": "cut_off", "message": "the database of the records does not answer"}
    return reply(responses.Readiness, said, 200 if said["status"] == "ready" else 503)


@router.get("/metrics", response_class=Response, responses=refusal_responses("metrics"))
async def prometheus(controllers: TheControllers, token: TokenGiven, request: Request) -> Response:
    """Metrics for Prometheus, of the controllers and fleets that the token may see."""
    page = metrics.page(controllers, token.sees, request.app.state.notifier, request.app.state.fleets)
    return Response(page, media_type=metrics.CONTENT_TYPE)


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    """The description of this service."""
    return JSONResponse(request.app.openapi())


@router.get("/events", response_class=StreamingResponse, responses=refusal_responses("stream"))
async def all_events(controllers: TheControllers, token: TokenGiven, by: TheCaller, request: Request) -> Response:
    """Stream what happens on all controllers and fleets that the token may see."""
    return streams.stream(controllers, by, request, token.sees, with_others=True)


@router.get(
    "/controllers/{id}/events",
    response_class=StreamingResponse,
    responses=refusal_responses("stream"),
    dependencies=[MAY_READ],
)
async def events(name: Id, controllers: TheControllers, by: TheCaller, request: Request) -> Response:
    """Stream what happens on one controller."""
    controllers.slot(name)
    return streams.stream(controllers, by, request, lambda other: other == name)


@router.get("/me", response_model=responses.TokenAnswer, responses=refusal_responses("list"))
async def me(token: TokenGiven) -> Response:
    """Say whose token this is, and what it allows."""
    said = {"name": token.name, "scopes": ["read", *token.scopes], "controllers": list(token.controllers)}
    return reply(responses.TokenAnswer, said | {"expires": token.expires or None})


@router.get("/controllers", name="controllers", response_model=responses.Summaries, responses=refusal_responses("list"))
async def listed(controllers: TheControllers, token: TokenGiven, request: Request) -> Response:
    """List the controllers that the token may see."""
    found: dict[str, dict[str, Any]] = {}
    empty = dict.fromkeys(responses.Summary.model_fields) | {"alarms": 0, "unseen_alarms": 0, "status": "new"}
    for name, summary in (await forwarding.listed_elsewhere(controllers, request)).items():
        said = {"id": name, "name": name, "message": "the process that holds it does not answer now"}
        if token.sees(name):
            found[name] = summary or empty | said
    for name, slot in sorted(controllers.slots.items()):
        if not token.sees(name) or (slot.hosted is None and slot.broken is None and name not in controllers.opening):
            continue  # not for this token, or still in the making
        found[name] = empty | {"id": name, "name": name} if slot.hosted is None else slot.hosted.view.summary()
        if slot.broken is not None:
            found[name] |= {"status": "broken", "message": slot.broken}
        elif slot.hosted is None:
            found[name] |= {"status": "new", "message": "it is being opened"}
    return reply(responses.Summaries, {"controllers": [found[name] for name in sorted(found)]})


@read_route("state", responses.State)
async def state(name: Id, controllers: TheControllers) -> Response:
    """Everything about a controller at this moment."""
    return reply(responses.State, (await controllers.opened(name)).view.state())


@read_route("config", responses.ConfigAnswer)
async def config(name: Id, controllers: TheControllers, by: TheCaller, history: WithHistory = False) -> Response:
    """The settings of a controller; with `history`, also the measurements that it started from."""
    hosted = await controllers.opened(name)

    def answer() -> Response:
        return reply(responses.ConfigAnswer, inspection.config(hosted, with_history=history))

    return await controllers.look(answer, by)


@read_route("decisions", responses.Rows)
async def decisions(
    name: Id,
    controllers: TheControllers,
    by: TheCaller,
    after: Annotated[
        int | None,
        Query(
            ge=-1, le=2**53, description="Number of a round; later rounds follow, oldest first. Left out: the newest."
        ),
    ] = None,
    limit: Most = 100,
) -> Response:
    """Rounds after round `after`, oldest first; without `after`, the newest rounds."""
    hosted = await controllers.opened(name)
    return await controllers.look(lambda: reply(responses.Rows, inspection.rows(hosted, after, limit)), by)


@read_route("explain/{decision}", responses.Explanation)
async def explain(name: Id, decision: DecisionId, controllers: TheControllers, by: TheCaller) -> Response:
    """Explain a decision."""
    hosted = await controllers.opened(name)
    remembers = await controllers.look(partial(records.remembers, hosted.controller, decision), by)
    explaining = controllers.look if remembers else controllers.read
    return await explaining(lambda: reply(responses.Explanation, inspection.explanation(hosted, decision)), by)


@read_route("field", responses.CostField)
async def field(name: Id, controllers: TheControllers, by: TheCaller) -> Response:
    """The learned cost of every action, in recent contexts."""
    contexts = await controllers.look(partial(inspection.field_contexts, await controllers.opened(name)), by)
    model, values = await controllers.borrow(
        name, lambda hosted: (hosted.controller.session.pilot.model.copy(), hosted.view.state()["actions"]), by
    )
    return await controllers.read(
        lambda: reply(responses.CostField, inspection.cost_field(model, contexts, values)), by
    )


@read_route("alarms", responses.Alarms)
async def alarms(name: Id, controllers: TheControllers, by: TheCaller) -> Response:
    """Alarms, newest last; open ones have no `cleared_at`."""
    hosted = await controllers.opened(name)
    return reply(responses.Alarms, {"alarms": await controllers.look(hosted.records.alarms, by)})


@read_route("changes", responses.ChangeList)
async def changes(name: Id, controllers: TheControllers, by: TheCaller) -> Response:
    """Recent changes of settings, mode and override, and who made them; newest last."""
    hosted = await controllers.opened(name)
    return reply(responses.ChangeList, {"changes": await controllers.look(hosted.records.changes, by)})


@read_route("audit", responses.AuditTrail)
async def audit(
    name: Id,
    controllers: TheControllers,
    by: TheCaller,
    kind: Annotated[
        list[str] | None,
        Query(max_length=20, description="Kind of change, such as `mode`; may be repeated. Left out: all."),
    ] = None,
    who: Annotated[
        str | None, Query(max_length=200, description="Part of a name, or of a token's id; left out: everybody.")
    ] = None,
    before: Annotated[
        str | None, Query(max_length=40, description="Value of `next` in the previous page; left out: the first page.")
    ] = None,
    limit: Most = 100,
) -> Response:
    """Audit trail from the record: who changed what, when and why; newest first."""
    hosted = await controllers.opened(name)

    def answer() -> Response:
        deeds, more = trail.listed(hosted.records, frozenset(kind or ()), who, before, limit)
        return reply(responses.AuditTrail, {"deeds": [deed._asdict() for deed in deeds], "next": more})

    return await controllers.look(answer, by)


@router.get("/journal", response_model=responses.JournalAnswer, responses=refusal_responses("newest"))
async def journal(
    controllers: TheControllers,
    by: TheCaller,
    request: Request,
    limit: Most = 100,
) -> Response:
    """Journal of the service: controllers deleted, tokens made and revoked. For admins of all controllers."""
    require_scope(request, "admin", EVERYTHING)
    lines = await controllers.look(lambda: controllers.journal.newest(limit), by)
    return reply(responses.JournalAnswer, {"lines": lines})


@read_route("check", responses.ModelCheckAnswer)
async def check(name: Id, controllers: TheControllers, by: TheCaller) -> Response:
    """Check how well the model predicts readings that it has not seen. This may take long; nobody else waits."""
    hosted = await controllers.opened(name)
    return reply(responses.ModelCheckAnswer, await controllers.read(lambda: inspection.model_check(hosted), by))


@router.get(
    "/controllers/{id}/rounds.csv",
    response_class=StreamingResponse,
    responses=refusal_responses("export"),
    dependencies=[MAY_READ],
)
async def rounds_csv(name: Id, controllers: TheControllers, by: TheCaller) -> Response:
    """Export all rounds of all epochs as CSV: settings by value, times with UTC offset, units in column heads."""
    made = await controllers.look(partial(export.Export, await controllers.opened(name)), by)
    return await streams.table(controllers, by, made.csv(), f"{name}.csv", "text/csv; charset=utf-8")


@router.get(
    "/controllers/{id}/rounds.parquet",
    response_class=StreamingResponse,
    responses=refusal_responses("export"),
    dependencies=[MAY_READ],
)
async def rounds_parquet(name: Id, controllers: TheControllers, by: TheCaller) -> Response:
    """Export all rounds as Parquet; the service's computer needs the extra `tables`."""
    made = await controllers.look(partial(export.Export, await controllers.opened(name)), by)
    return await streams.table(controllers, by, made.parquet(), f"{name}.parquet", "application/vnd.apache.parquet")


@read_route("trial", responses.TrialAnswer)
async def trial(name: Id, controllers: TheControllers, by: TheCaller) -> Response:
    """What the trial has measured so far. The interval is valid however often you look."""
    controllers.slot(name)
    found = await controllers.read(lambda: inspection.trial(controllers.store, name), by)
    return reply(responses.TrialAnswer, {"trial": found})


@router.get(
    "/controllers/{id}/backup",
    response_class=Response,
    responses=refusal_responses("backup"),
    dependencies=[MAY_ADMINISTER],
)
async def backup(name: Id, controllers: TheControllers, by: TheCaller) -> Response:
    """Back up the records as a zip while the controller runs; unpacked, it is a data folder for `--data`."""
    controllers.slot(name)
    return await controllers.copy(partial(streams.backup, controllers.store, name), by)


# -- the page ---------------------------------------------------------------------------------------------------------


@router.head("/", include_in_schema=False)
@router.get("/", include_in_schema=False)
async def page() -> Response:
    """The page to watch them on."""
    return streams.page_file("index.html")


@router.get("/page/{name}", include_in_schema=False)
async def page_file(name: str) -> Response:
    """A file of the page."""
    return streams.page_file(name)
