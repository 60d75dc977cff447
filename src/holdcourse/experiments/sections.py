"""The sections of a sweep file: what a user says about a problem of their own."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias, TypeVar

from pydantic import Field, model_validator

from holdcourse.experiments.runs import Frozen, Positive

Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
Lengths: TypeAlias = Positive | tuple[Positive, ...]
Section = TypeVar("Section", bound=Frozen)


def _only_one(section: Section, names: tuple[str, ...], needed: bool = True) -> Section:
    given = [name for name in names if getattr(section, name) is not None]
    if len(given) > 1:
        raise ValueError(f"give only one of {', '.join(given)}")
    if needed and not given:
        raise ValueError(f"give one of {', '.join(names)}")
    return section


class Actions(Frozen):
    """What can be chosen: one of `values`, `grid`, `file`, `count`."""

    values: tuple[Number | tuple[Number, ...], ...] | None = Field(default=None, description="coordinates")
    grid: dict[str, tuple[Number, ...]] | None = Field(default=None, description="named axes of a full grid")
    file: str | None = Field(default=None, description="CSV with one action a row, its coordinates as columns")
    count: int | None = Field(default=None, gt=0, description="so many, known by their number only")
    labels: tuple[str, ...] | None = Field(default=None, description="names of the actions")

    @model_validator(mode="after")
    def _one(self) -> Self:
        return _only_one(self, ("values", "grid", "file", "count"))


class Movement(Frozen):
    """What moving costs: a named metric on the coordinates, a matrix, or a function of two actions."""

    metric: Literal["euclidean", "cityblock", "chebyshev"] = "euclidean"
    matrix: tuple[tuple[Number, ...], ...] | None = Field(default=None, description="from row to column")
    file: str | None = Field(default=None, description="CSV with the matrix")
    function: str | None = Field(default=None, description="'module:name' or 'file.py:name', called (from, to)")
    scale: float | tuple[float, ...] = 1.0
    fixed_cost: float = Field(default=0.0, ge=0)
    directed: bool = Field(default=False, description="there and back may cost differently")
    close: bool = Field(default=False, description="replace moves that a detour undercuts by the detour")

    @model_validator(mode="after")
    def _one(self) -> Self:
        return _only_one(self, ("matrix", "file", "function"), needed=False)


class RandomCosts(Frozen):
    """Functions drawn from a Gaussian process, scaled as in the paper: mean cost = mean movement cost."""

    functions: int = Field(default=5, gt=0)
    kernel: Literal["rbf", "matern32", "matern52"] = "rbf"
    action_lengthscale: Lengths = 0.2
    context_lengthscale: Lengths = 0.2


class Costs(Frozen):
    """What each action costs in each context: one of `table`, `file`, `function`, `random`."""

    table: tuple[tuple[Number, ...], ...] | None = Field(default=None, description="a row per context, in their order")
    file: str | None = Field(default=None, description="CSV with that table")
    function: str | None = Field(default=None, description="'module:name' or 'file.py:name', called (action, context)")
    random: RandomCosts | None = None
    noise_std: float | None = Field(default=None, ge=0, description="of a measurement; default 1 % of the range")

    @model_validator(mode="after")
    def _one(self) -> Self:
        return _only_one(self, ("table", "file", "function", "random"))


class Contexts(Frozen):
    """What is seen before each decision: one of `values`, `file`, `count`, and the process that they follow."""

    values: tuple[Number | tuple[Number, ...], ...] | None = None
    file: str | None = Field(default=None, description="CSV, one context a row")
    columns: tuple[str, ...] | None = Field(default=None, description="which columns of the file; default all")
    count: int | None = Field(default=None, gt=0, description="so many, drawn at random from (0, 1)")
    process: Literal[
        "iid", "walk", "daily", "blocks", "alternating", "drift", "pulse", "regimes", "chain change", "recorded"
    ] = Field(default="iid", description="'recorded': in the order given, as often as there are rounds")

    @model_validator(mode="after")
    def _one(self) -> Self:
        return _only_one(self, ("values", "file", "count"))


class KernelOfCosts(Frozen):
    """What a learner believes about the costs; length scales in the units of actions and contexts."""

    kind: Literal["rbf", "matern32", "matern52"] = "rbf"
    action_lengthscale: Lengths
    context_lengthscale: Lengths
    variance: Positive = 1.0


class Learner(Frozen):
    """What learning policies know."""

    kernel: Literal["auto", "known"] | KernelOfCosts = Field(
        default="auto", description="'auto': fitted as data come in; 'known': the one that random costs are drawn from"
    )
    noise_std: float | None = Field(default=None, ge=0, description="default: the true one; fitted with 'auto'")
    prior_mean: float | None = Field(default=None, description="default: fitted with 'auto', else the mean cost")
    width: float = Field(default=2.0, ge=0, description="of the bounds, in standard deviations")
