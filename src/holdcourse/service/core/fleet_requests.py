"""What may be asked of a fleet: one request for all members, each list with an entry for every member."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field, StrictBool, model_validator

from holdcourse.service.core.requests import (
    AS_WHOLE,
    MAX_ACTIONS,
    MAX_CONTEXT,
    MAX_FILE,
    Action,
    Context,
    Id,
    Number,
    PolicyGiven,
    Request,
    Setting,
    Time,
    Whole,
)

MAX_MEMBERS = 10_000
EXAMPLE_KERNEL = (
    '{"parts": [{"action": {"kernel": "RBF", "with": {"length_scale": 0.5}}, '
    '"context": {"kernel": "RBF", "with": {"length_scale": 6.0}}, "variance": 1.0}]}'
)

Part: TypeAlias = Literal["setting", "action", "probabilities", "expected_cost"]
Members: TypeAlias = Annotated[
    list[StrictBool],
    Field(max_length=MAX_MEMBERS, description="Which members take part, one boolean for each; null: all."),
]


class FleetGiven(PolicyGiven):
    """A fleet: how many members of one kind, what they may do and how they decide. It has no limits and no modes."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "pumps",
                    "name": "Pumps of the eastern network",
                    "count": 1000,
                    "actions": [0.0, 0.5, 1.0],
                    "policy": "gp-md",
                    "options": {"kernel": EXAMPLE_KERNEL, "context_bounds": [[0.0, 24.0]]},
                    "seed": 7,
                }
            ]
        }
    )

    id: Id = Field(description="Name of the fleet in addresses; it never changes.")
    count: Annotated[int, Field(ge=1, le=MAX_MEMBERS, description="How many members there are."), AS_WHOLE]
    start: Setting | None = Field(None, description="Where all members are; null: at the first setting.")
    start_index: Action | None = Field(None, description="Index of that setting, counted from 0, instead of `start`.")
    seed: Annotated[int, Field(ge=0, lt=2**62), AS_WHOLE] = Field(
        0, description="Seed of the first member; the next members have the numbers that follow."
    )
    policy_file: Annotated[str, Field(max_length=MAX_FILE)] | None = Field(
        None,
        description="A policy that was saved, as base64, instead of settings, prices, policy and options; null: none.",
    )


class FleetAskGiven(Request):
    """A question to all members, or to those in the mask: which setting now."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"context": 7.5, "call": 12},
                {"contexts": [7.5, 8.0, None], "mask": [True, True, False], "answer": ["setting", "probabilities"]},
            ]
        }
    )

    context: Context = Field(
        None, description="Context of all members; null: they have none, or `contexts` or `time` says it."
    )
    contexts: (
        Annotated[list[Number | None], Field(max_length=MAX_MEMBERS, fail_fast=True)]
        | Annotated[
            list[Annotated[list[Number], Field(max_length=MAX_CONTEXT, fail_fast=True)] | None],
            Field(max_length=MAX_MEMBERS, fail_fast=True),
        ]
        | None
    ) = Field(None, description="Contexts, one for each member, instead of `context`; null for members not asked.")
    time: Time | None = Field(
        None,
        description="Time of the round: ISO 8601 with a zone, instead of `context` if contexts are times; null: "
        "not given.",
    )
    mask: Members | None = None
    allowed: (
        Annotated[list[StrictBool], Field(max_length=MAX_ACTIONS)]
        | Annotated[list[Setting], Field(max_length=MAX_ACTIONS)]
        | None
    ) = Field(None, description="The settings that may be chosen, or one boolean per setting; null: all.")
    call: Whole | None = Field(
        None,
        description="The number of this call: `next_call` of the fleet, or that of a call whose answer got lost, which "
        "is then answered alike. Null: the next one, or an earlier one that asked these members the same and was not "
        "told.",
    )
    answer: Annotated[list[Part], Field(min_length=1, max_length=4)] = Field(
        ["setting"], description="What the answer contains for each member."
    )

    @model_validator(mode="after")
    def _check_once(self) -> FleetAskGiven:
        given = [name for name in ("context", "contexts", "time") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of context, contexts and time")
        return self


class FleetTellGiven(Request):
    """What members measured. The same again changes nothing."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"call": 12, "measurements": [2.25, None, 1.75]}]})

    call: Whole = Field(description="Number of the call in which they were asked.")
    measurements: Annotated[list[Number | None], Field(max_length=MAX_MEMBERS, fail_fast=True)] = Field(
        description="Measurements, one for each member; null: nothing was measured, or the member is not told."
    )
    mask: Members | None = Field(None, description="Which members are told; null: all that the call asked.")
