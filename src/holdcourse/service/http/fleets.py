"""Addresses of fleets: many members of one kind, asked and told in one request."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response, StreamingResponse

from holdcourse.service.core.fleet_requests import FleetAskGiven, FleetGiven, FleetTellGiven
from holdcourse.service.core.fleets import HostedFleet, HostedFleets
from holdcourse.service.core.requests import VerifyGiven
from holdcourse.service.http import responses, streams
from holdcourse.service.http.admission import (
    MAX_LONG_BODY,
    MAY_CREATE,
    SMALL,
    Route,
    TheCaller,
    TheControllers,
    TokenGiven,
    json_body,
    needs_scope,
    require_scope,
)
from holdcourse.service.http.jobs import AS_A_JOB, Full, Prefer, verified
from holdcourse.service.http.openapi import body_schema, refusal_responses
from holdcourse.service.http.rounds import Key, reply

router = APIRouter(route_class=Route)

Name = Annotated[
    str, Path(alias="fleet", pattern=r"^[a-z0-9_-]{1,64}$", examples=["pumps"], description="Id of the fleet.")
]
MAY_READ, MAY_ASK, MAY_TELL, MAY_ADMINISTER = (
    Depends(needs_scope(scope, on="fleet")) for scope in ("read", "ask", "tell", "admin")
)


async def fleets_of(request: Request) -> HostedFleets:
    """Return a dependency: the fleets of this application."""
    found: HostedFleets = request.app.state.fleets
    return found


TheFleets = Annotated[HostedFleets, Depends(fleets_of)]


@router.post(
    "/fleets",
    status_code=201,
    response_model=responses.FleetState,
    responses={
        200: {"model": responses.FleetState, "description": "It exists already."},
        **refusal_responses("create"),
    },
    dependencies=[MAY_CREATE],
    openapi_extra=body_schema(FleetGiven),
)
async def create(
    fleets: TheFleets,
    by: TheCaller,
    request: Request,
    body: Annotated[FleetGiven, Depends(json_body(FleetGiven, MAX_LONG_BODY))],
) -> Response:
    """Create a fleet. The same request again changes nothing; other settings under its id are a conflict.

    Its policy must run in lockstep: `gp-md` with a kernel and with `contexts` or `context_bounds`, or the file of
    such a policy or of a wind planner.
    """
    require_scope(request, "admin", body.id)
    state, is_new = await fleets.create(body, by)
    return reply(responses.FleetState, state, 201 if is_new else 200)


@router.get("/fleets", response_model=responses.FleetList, responses=refusal_responses("list"))
async def listed(fleets: TheFleets, token: TokenGiven) -> Response:
    """List the fleets that the token may see."""
    found = []
    for name, slot in sorted(fleets.slots.items()):
        if not token.sees(name) or (slot.hosted is None and slot.broken is None and name not in fleets.opening):
            continue  # not for this token, or still in the making
        shown = {} if slot.hosted is None else slot.hosted.state()
        status = "broken" if slot.broken is not None else "opening" if slot.hosted is None else "ok"
        one = {name: shown.get(name) for name in ("policy", "count", "next_call", "decisions", "pending", "last_at")}
        found.append({**one, "id": name, "name": shown.get("name", name), "status": status, "message": slot.broken})
    return reply(responses.FleetList, {"fleets": found})


@router.get(
    "/fleets/{fleet}",
    response_model=responses.FleetState,
    responses=refusal_responses("look"),
    dependencies=[MAY_READ],
)
async def state(name: Name, fleets: TheFleets) -> Response:
    """The settings of a fleet, and how many rounds it has run."""
    return reply(responses.FleetState, (await fleets.opened(name)).state())


@router.get(
    "/fleets/{fleet}/members",
    response_model=responses.FleetMembers,
    responses=refusal_responses("look"),
    dependencies=[MAY_READ],
)
async def members(name: Name, fleets: TheFleets, by: TheCaller) -> Response:
    """The setting of every member, and which members wait for a measurement."""
    return await fleets.do(name, lambda hosted: reply(responses.FleetMembers, hosted.members()), by)


@router.get(
    "/fleets/{fleet}/sums",
    response_model=responses.FleetSums,
    responses=refusal_responses("look"),
    dependencies=[MAY_READ],
)
async def sums(name: Name, fleets: TheFleets, controllers: TheControllers, by: TheCaller) -> Response:
    """Sums over all members, from the record: measurements and movement. A long record takes several requests."""
    hosted = await fleets.opened(name)
    return reply(responses.FleetSums, await controllers.read(hosted.sums.look, by))


@router.get(
    "/fleets/{fleet}/events",
    response_class=StreamingResponse,
    responses=refusal_responses("stream"),
    dependencies=[MAY_READ],
)
async def events(
    name: Name, fleets: TheFleets, controllers: TheControllers, by: TheCaller, request: Request
) -> Response:
    """Stream what happens on one fleet."""
    fleets.slot(name)
    return streams.stream(controllers, by, request, lambda other: other == name)


@router.post(
    "/fleets/{fleet}/ask",
    response_model=responses.FleetAnswer,
    responses=refusal_responses("write"),
    dependencies=[MAY_ASK],
    openapi_extra=body_schema(FleetAskGiven),
)
async def ask(
    name: Name,
    fleets: TheFleets,
    by: TheCaller,
    body: Annotated[FleetAskGiven, Depends(json_body(FleetAskGiven, MAX_LONG_BODY))],
) -> Response:
    """Ask which setting every member should run now. The same call again gets the same answer.

    Lists have an entry for each member. Members that are not asked stay where they are: `setting` and `action` say
    where that is, and their other entries are null.
    """

    def asked(hosted: HostedFleet) -> Response:  # written in its thread, too: it may be long
        return reply(responses.FleetAnswer, hosted.ask(body, by.author), only_given=True)

    return await fleets.do(name, asked, by)


@router.post(
    "/fleets/{fleet}/tell",
    response_model=responses.FleetTold,
    responses=refusal_responses("write"),
    dependencies=[MAY_TELL],
    openapi_extra=body_schema(FleetTellGiven),
)
async def tell(
    name: Name,
    fleets: TheFleets,
    by: TheCaller,
    body: Annotated[FleetTellGiven, Depends(json_body(FleetTellGiven, MAX_LONG_BODY))],
) -> Response:
    """Tell what every member measured. Sending the same request again changes nothing."""
    return reply(responses.FleetTold, await fleets.do(name, lambda hosted: hosted.tell(body, by.author), by))


@router.get(
    "/fleets/{fleet}/verify",
    response_model=responses.Verification,
    responses={202: AS_A_JOB, **refusal_responses("verify")},
    dependencies=[MAY_READ],
)
async def verify(
    name: Name,
    fleets: TheFleets,
    controllers: TheControllers,
    by: TheCaller,
    request: Request,
    full: Full = None,
    prefer: Prefer = "",
) -> Response:
    """Check that the record is complete; `full`, the default for short records, also repeats every call.

    `full=true` needs an admin's token. If more than 5000 decisions of members must be repeated, or more than 500,000
    read, a job does it.
    """
    fleets.slot(name)
    return await verified(controllers, fleets.store, name, full, None, prefer, request, by)


@router.post(
    "/fleets/{fleet}/verify",
    response_model=responses.Verification,
    responses={202: AS_A_JOB, **refusal_responses("write")},
    dependencies=[MAY_READ],
    openapi_extra=body_schema(VerifyGiven),
)
async def begin_to_verify(
    name: Name,
    fleets: TheFleets,
    controllers: TheControllers,
    by: TheCaller,
    request: Request,
    body: Annotated[VerifyGiven, Depends(json_body(VerifyGiven, SMALL))],
    key: Key = None,
    prefer: Prefer = "",
) -> Response:
    """Check the record as a GET does; a key makes sure that a job starts only once."""
    fleets.slot(name)
    return await verified(controllers, fleets.store, name, body.full, key, prefer, request, by)


@router.get(
    "/fleets/{fleet}/backup",
    response_class=Response,
    responses=refusal_responses("backup"),
    dependencies=[MAY_ADMINISTER],
)
async def backup(name: Name, fleets: TheFleets, controllers: TheControllers, by: TheCaller) -> Response:
    """Back up the record as a zip while the fleet runs; unpacked, it is a data folder for `--data`."""
    fleets.slot(name)
    return await controllers.copy(partial(streams.backup, fleets.store, name), by)


@router.delete(
    "/fleets/{fleet}",
    response_model=responses.Deleted,
    responses=refusal_responses("delete"),
    dependencies=[MAY_ADMINISTER],
)
async def delete(
    name: Name,
    fleets: TheFleets,
    by: TheCaller,
    typed: Annotated[str, Query(alias="name", max_length=200, description="Name of the fleet, typed again.")],
    reason: Annotated[
        str, Query(min_length=1, max_length=500, pattern=r"\S", description="Reason, which is recorded.")
    ],
) -> Response:
    """Delete a fleet and its record for good. The service's journal keeps who did it, and why."""
    return reply(responses.Deleted, await fleets.delete(name, typed, reason, by))
