"""The OpenAPI description: bodies, refusals and tokens, as FastAPI cannot know them."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from holdcourse.service.core import fleet_requests, requests
from holdcourse.service.http.admission import JSON
from holdcourse.service.http.responses import Refused

ABOUT = "Decide which setting to run while conditions change and every change costs something."
BODIES = (
    requests.Config,
    requests.Changes,
    requests.SilenceGiven,
    requests.AskGiven,
    requests.TellGiven,
    requests.Skip,
    requests.Retraction,
    requests.OverrideGiven,
    requests.ModeChange,
    requests.EpisodeGiven,
    requests.VerifyGiven,
    requests.AsksGiven,
    requests.TellsGiven,
    requests.PlanGiven,
    requests.Acknowledgement,
    requests.Archiving,
    fleet_requests.FleetGiven,
    fleet_requests.FleetAskGiven,
    fleet_requests.FleetTellGiven,
)
MEANINGS = {
    400: "The request is not valid HTTP.",
    401: "A token is needed, or this one is not known.",
    403: "The token does not allow this.",
    404: "There is no such controller, fleet, round, decision or job.",
    409: "This contradicts an earlier request; the answer shows both.",
    413: "The body is too long.",
    415: "The body was not sent as JSON.",
    422: "Something in the request is wrong; the message says what.",
    429: "Too many requests wait for this controller.",
    501: "An optional part is not installed on the server; the message says how to install it.",
    503: "The controller cannot be used; the message says why.",
    507: "The disk is full; nothing was changed.",
}
EXPECTED = {
    "metrics": (401, 403, 422),
    "stream": (401, 403, 404, 422),
    "list": (401, 403, 422),
    "newest": (401, 403, 422),
    "look": (401, 403, 404, 422, 503),
    "verify": (401, 403, 404, 409, 422, 429, 503),
    "bulk": (400, 401, 413, 415, 422, 429, 503),
    "job": (401, 403, 404, 422),
    "cancel": (401, 403, 404, 409, 422),
    "backup": (401, 403, 404, 422, 503, 507),
    "delete": (401, 403, 404, 409, 422, 429, 503, 507),
    "export": (401, 403, 404, 422, 501, 503),
    "readings": (400, 401, 403, 413, 415, 422, 503),
    "create": (400, 401, 403, 409, 413, 415, 422, 429, 503, 507),
    "write": (400, 401, 403, 404, 409, 413, 415, 422, 429, 503, 507),
}
CONTENT = {
    "/metrics": ("text/plain", {"type": "string"}),
    "/events": ("text/event-stream", {"type": "string"}),
    "/controllers/{id}/events": ("text/event-stream", {"type": "string"}),
    "/fleets/{fleet}/events": ("text/event-stream", {"type": "string"}),
    "/controllers/{id}/rounds.csv": ("text/csv", {"type": "string"}),
    "/controllers/{id}/rounds.parquet": ("application/vnd.apache.parquet", {"type": "string", "format": "binary"}),
    "/controllers/{id}/backup": ("application/zip", {"type": "string", "format": "binary"}),
    "/fleets/{fleet}/backup": ("application/zip", {"type": "string", "format": "binary"}),
}


def refusal_responses(kind: str) -> dict[int | str, dict[str, Any]]:
    """Return what may be refused at an address of this kind."""
    return {status: {"model": Refused, "description": MEANINGS[status]} for status in EXPECTED[kind]}


def body_schema(model: type[BaseModel] | None, *files: str) -> dict[str, Any]:
    """Return a body that we read ourselves, for the description; `files` are kinds of files that are taken too."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    content: dict[str, Any] = {}
    if model is not None:
        content[JSON] = {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}
    return {"requestBody": {"required": True, "content": content | dict.fromkeys(files, binary)}}


def described(app: FastAPI, *, with_tokens: bool) -> dict[str, Any]:
    """Return the description of the application."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        parts = made["components"]["schemas"]
        _, bodies = models_json_schema(
            [(model, "validation") for model in BODIES], ref_template="#/components/schemas/{model}"
        )
        for name, schema in bodies["$defs"].items():
            parts.setdefault(name, schema)
        for unused in ("HTTPValidationError", "ValidationError"):
            parts.pop(unused, None)
        for path, (kind, schema) in CONTENT.items():
            made["paths"][path]["get"]["responses"]["200"]["content"] = {kind: {"schema": schema}}
        if with_tokens:
            made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            for path, operations in made["paths"].items():
                if path not in ("/healthz", "/readyz"):
                    for operation in operations.values():
                        operation["security"] = [{"token": []}]
        app.openapi_schema = made
    return app.openapi_schema
