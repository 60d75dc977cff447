"""Addresses of long work: jobs to look at and to cancel, and what is always, or where there is much, done as one."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from holdcourse.running.events import plain
from holdcourse.service.core import background, inspection, requests
from holdcourse.service.core.clients import Caller
from holdcourse.service.core.controllers import Controllers
from holdcourse.service.core.jobs import Job
from holdcourse.service.core.processes import error_of
from holdcourse.service.core.refusals import HeldElsewhere
from holdcourse.service.core.store import Store
from holdcourse.service.http import forwarding, responses
from holdcourse.service.http.admission import (
    FILES,
    MAY_ADMINISTER,
    MAY_CREATE,
    MAY_READ,
    SMALL,
    TABLES,
    Route,
    TheCaller,
    TheControllers,
    TokenGiven,
    config_body,
    json_body,
    require_scope,
)
from holdcourse.service.http.errors import translated
from holdcourse.service.http.openapi import body_schema, refusal_responses
from holdcourse.service.http.rounds import Id, Key, reply

JobId = Annotated[
    str, Path(alias="job", pattern=r"^j[0-9a-f]{12}$", examples=["j0123456789ab"], description="Id of the job.")
]
Prefer = Annotated[
    str,
    Header(
        alias="Prefer",
        max_length=200,
        description="`respond-async`: make this a job, however short. `wait=20`: wait up to 20 seconds (at most 30) "
        "for the job, and answer with its result if it ends in that time.",
    ),
]
Full = Annotated[bool | None, Query(description="Whether to repeat every decision; left out: if the record is short.")]
AS_A_JOB: dict[str, Any] = {"model": responses.JobAnswer, "description": "A job does this in the background."}
LONGEST_WAIT_S = 30
ANSWERS: dict[str, type[BaseModel]] = {
    "create": responses.State,
    "verify": responses.Verification,
    "plan": responses.PlanAnswer,
}

router = APIRouter(route_class=Route)


def job_reply(kind: type[BaseModel], data: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return jobs; their errors are as they would have been answered, without what they do not say."""
    content = kind.model_validate(data).model_dump_json(exclude_unset=True)
    return Response(content, status, headers, media_type="application/json")


def wants_job(prefer: str) -> bool:
    """Return whether the client would rather follow a job than wait."""
    return any(part.strip().lower() == "respond-async" for part in prefer.split(","))


def _patience(prefer: str) -> int:
    """Return for how many seconds the client would rather wait."""
    found = re.search(r"(?:^|,)\s*wait\s*=\s*\"?([0-9]{1,6})\b", prefer, re.IGNORECASE)
    return 0 if found is None else min(int(found[1]), LONGEST_WAIT_S)


async def followed(controllers: Controllers, job: Job, prefer: str = "") -> Response:
    """Answer a request that became a job: with the job or, where it ends while the client waits, as if it were none."""
    wait = _patience(prefer)
    if wait:
        with suppress(TimeoutError):
            await asyncio.wait_for(job.ended.wait(), wait)
    if job.is_over and wait:
        if job.error is not None:
            raise error_of(job.error)
        return reply(ANSWERS[job.kind], await _result(controllers, job), _status(job) or 200)
    headers = {"Location": _address(job), "Retry-After": "1"}
    return job_reply(responses.JobAnswer, await _described(controllers, job), 202, headers)


def _address(job: Job) -> str:
    return f"/jobs/{job.id}"


def _status(job: Job) -> int | None:
    if job.error is not None:
        return translated(error_of(job.error)).status
    return None if job.state != "done" else 201 if job.is_new else 200


async def _result(controllers: Controllers, job: Job) -> dict[str, Any] | None:
    """Return what came of a job; where a restart cut off its answer, the controller that it made as it is now."""
    if job.state == "done" and job.result == {}:
        return (await controllers.opened(job.controller)).view.state()
    return job.result


async def _described(controllers: Controllers, job: Job, *, with_result: bool = True) -> dict[str, Any]:
    error = None if job.error is None else translated(error_of(job.error))
    return {
        "id": job.id,
        "address": _address(job),
        **{name: getattr(job, name) for name in ("kind", "controller", "state", "progress", "words")},
        **{name: getattr(job, name) for name in ("asked_at", "began_at", "ended_at")},
        "by": None if job.by is None else plain(job.by),
        "status": _status(job),
        "result": await _result(controllers, job) if with_result else None,
        "error": None if error is None else {"code": error.code, "message": str(error), **error.more},
    }


@router.get("/jobs", response_model=responses.JobList, responses=refusal_responses("list"))
async def jobs(controllers: TheControllers, token: TokenGiven) -> Response:
    """List the newest jobs on controllers and fleets that the token may see, without their results."""
    seen = [job for job in controllers.jobs.all() if token.sees(job.controller)]
    described = [await _described(controllers, job, with_result=False) for job in seen]
    return job_reply(responses.JobList, {"jobs": described})


@router.get("/jobs/{job}", response_model=responses.JobAnswer, responses=refusal_responses("job"))
async def job(
    name: JobId, controllers: TheControllers, token: TokenGiven, request: Request, prefer: Prefer = ""
) -> Response:
    """Follow a job: its progress and its result. With `Prefer: wait=20` the answer waits for the end of the job."""
    found = controllers.jobs.find(name)
    require_scope(request, "read", found.controller)
    wait = _patience(prefer)
    if wait:
        with suppress(TimeoutError):
            await asyncio.wait_for(found.ended.wait(), wait)
    return job_reply(responses.JobAnswer, await _described(controllers, found))


@router.delete("/jobs/{job}", response_model=responses.JobAnswer, responses=refusal_responses("cancel"))
async def cancel(name: JobId, controllers: TheControllers, token: TokenGiven, request: Request) -> Response:
    """Cancel a job; nothing that it did counts. For whoever asked for the job, and for admins."""
    found = controllers.jobs.find(name)
    require_scope(request, "read", found.controller)
    if found.by != token.author:
        require_scope(request, "admin", found.controller)
    await controllers.jobs.cancel(name).ended.wait()
    return job_reply(responses.JobAnswer, await _described(controllers, found))


@router.post(
    "/controllers",
    status_code=201,
    response_model=responses.State,
    responses={
        200: {"model": responses.State, "description": "It exists already."},
        202: AS_A_JOB,
        **refusal_responses("create"),
    },
    dependencies=[MAY_CREATE],  # before the body is read; which controller it is for, the body says
    openapi_extra=body_schema(requests.Config, *FILES, *TABLES),
)
async def create(
    controllers: TheControllers,
    by: TheCaller,
    request: Request,
    body: Annotated[requests.Config, Depends(config_body)],
    key: Key = None,
    prefer: Prefer = "",
) -> Response:
    """Create a controller. The same request again changes nothing; other settings under its id are a conflict.

    A controller that starts from a table of readings, or from more than 100 measurements, is created by a job: the
    answer is 202, with the address of the job.

    You can send a saved policy as `application/octet-stream`, with `id` and other settings in the query:
    `POST /controllers?id=kite-1&start=180&mode=shadow`. You can also send a plant's own table to start from, as
    `text/csv`, with its columns in the query:
    `POST /controllers?id=mill&action=setting&cost=power&context=load&time=time`.
    """
    require_scope(request, "admin", body.id)
    if controllers.jobs.are_made and (wants_job(prefer) or background.is_long_to_create(body)):
        return await followed(controllers, await background.create(controllers, body, key, by), prefer)
    try:
        state, is_new = await controllers.create(body, by)
    except HeldElsewhere as elsewhere:
        return await forwarding.create_at(elsewhere, request, body)
    return reply(responses.State, state, 201 if is_new else 200)


async def verified(
    controllers: Controllers,
    store: Store,
    name: str,
    full: bool | None,
    key: str | None,
    prefer: str,
    request: Request,
    by: Caller,
) -> Response:
    """Check the records of a controller, or of a fleet, which are in `store`; long ones as a job."""
    if full:
        require_scope(request, "admin", name)
    if controllers.jobs.are_made:
        is_long = await controllers.look(lambda: inspection.is_long_to_verify(store.epochs(name), full), by)
        if is_long or wants_job(prefer):
            return await followed(controllers, await background.verify(controllers, store, name, full, key, by), prefer)
    found = await controllers.read(
        lambda: inspection.missing(store, name) or inspection.verified(store.epochs(name), full), by
    )
    return reply(responses.Verification, found)


@router.get(
    "/controllers/{id}/verify",
    response_model=responses.Verification,
    responses={202: AS_A_JOB, **refusal_responses("verify")},
    dependencies=[MAY_READ],
)
async def verify(
    name: Id,
    controllers: TheControllers,
    by: TheCaller,
    request: Request,
    full: Full = None,
    prefer: Prefer = "",
) -> Response:
    """Check that the record is complete; `full`, the default for short records, also repeats every decision.

    `full=true` needs an admin's token. If more than 50 decisions must be repeated, or more than 5000 read, a job does
    it.
    """
    controllers.slot(name)
    return await verified(controllers, controllers.store, name, full, None, prefer, request, by)


@router.post(
    "/controllers/{id}/verify",
    response_model=responses.Verification,
    responses={202: AS_A_JOB, **refusal_responses("write")},
    dependencies=[MAY_READ],
    openapi_extra=body_schema(requests.VerifyGiven),
)
async def begin_to_verify(
    name: Id,
    controllers: TheControllers,
    by: TheCaller,
    request: Request,
    body: Annotated[requests.VerifyGiven, Depends(json_body(requests.VerifyGiven, SMALL))],
    key: Key = None,
    prefer: Prefer = "",
) -> Response:
    """Check the records as a GET does; a key makes sure that a job starts only once."""
    controllers.slot(name)
    return await verified(controllers, controllers.store, name, body.full, key, prefer, request, by)


@router.post(
    "/controllers/{id}/trial/plan",
    response_model=responses.PlanAnswer,
    responses={202: AS_A_JOB, **refusal_responses("write")},
    dependencies=[MAY_ADMINISTER],
    openapi_extra=body_schema(requests.PlanGiven),
)
async def plan(
    name: Id,
    controllers: TheControllers,
    by: TheCaller,
    body: Annotated[requests.PlanGiven, Depends(json_body(requests.PlanGiven, SMALL))],
    key: Key = None,
    prefer: Prefer = "",
) -> Response:
    """Plan a trial: how long it would take, in a simulation fitted to the measurements. Always a job."""
    if not controllers.jobs.are_made:
        return reply(
            responses.PlanAnswer, await controllers.read(await background.plan_at_once(controllers, name, body), by)
        )
    return await followed(controllers, await background.plan_trial(controllers, name, body, key, by), prefer)
