"""The world that a sweep file describes, section by section."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from holdcourse.backtest.csvfile import Csv
from holdcourse.deciding import registry
from holdcourse.deciding.named_policies import make_policy
from holdcourse.deciding.policy import Policy
from holdcourse.errors import InvalidInput, counted
from holdcourse.experiments.runs import Frozen, PolicyConfig, Positive, RunConfig, Scene, WorldConfig, digest
from holdcourse.learning.kernels import Kernel
from holdcourse.movement.grid import grid
from holdcourse.movement.metric import metric_closure
from holdcourse.movement.problem import Problem
from holdcourse.worlds.synthetic import SyntheticWorld, context_sequence

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
    count: int | None = Field(
        default=None, gt=0, description="how many actions there are, if they are known by their number only"
    )
    labels: tuple[str, ...] | None = Field(default=None, description="names of the actions")

    @model_validator(mode="after")
    def _one(self) -> Self:
        return _only_one(self, ("values", "grid", "file", "count"))


class Movement(Frozen):
    """What moving costs: a named metric on the coordinates, a matrix, or a function of two actions."""

    metric: Literal["euclidean", "cityblock", "chebyshev"] = "euclidean"
    matrix: tuple[tuple[Number, ...], ...] | None = Field(default=None, description="from row to column")
    file: str | None = Field(default=None, description="CSV with the matrix")
    function: str | None = Field(
        default=None, description="'module:name' or 'file.py:name', called (from, to) with two actions"
    )
    scale: float | tuple[float, ...] = 1.0
    fixed_cost: float = Field(default=0.0, ge=0)
    directed: bool = Field(default=False, description="a move and its reverse may cost differently")
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
    noise_std: float | None = Field(default=None, ge=0, description="noise of a measurement; default 1 % of the range")

    @model_validator(mode="after")
    def _one(self) -> Self:
        return _only_one(self, ("table", "file", "function", "random"))


class Contexts(Frozen):
    """What is seen before each decision: one of `values`, `file`, `count`, and the process that they follow."""

    values: tuple[Number | tuple[Number, ...], ...] | None = None
    file: str | None = Field(default=None, description="CSV, one context a row")
    columns: tuple[str, ...] | None = Field(default=None, description="which columns of the file; default all")
    count: int | None = Field(default=None, gt=0, description="how many contexts to draw at random from (0, 1)")
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
    width: float = Field(default=2.0, ge=0, description="width of the bounds, in standard deviations")


Array: TypeAlias = NDArray[np.float64]


class OwnWorld(WorldConfig):
    """The world of a sweep file.

    Attributes
    ----------
    base
        The folder of the sweep file: paths in it are relative to this. Not part of a run's identity.
    hashes
        Of the files used; they are.
    """

    kind: Literal["own"] = "own"
    actions: Actions
    movement: Movement = Movement()
    costs: Costs
    contexts: Contexts
    learner: Learner = Learner()
    base: Path = Field(default=Path(), exclude=True)
    hashes: dict[str, str] = Field(default_factory=dict)

    def scene(self, run: RunConfig) -> Scene:
        """Return the world, its contexts in turn, and where the run begins."""
        base = _cached(f"{digest(self.model_dump(mode='json'))} {run.seed_for('function')}", self, run)
        world = _weighted(base, run.rho)
        kind: Any = self.contexts.process
        if kind == "recorded":
            listed = self.listed_contexts(run)
            kind = np.resize(np.arange(len(listed)), run.rounds)
            contexts = listed[kind]
        else:
            contexts = context_sequence(world.contexts, kind, run.rounds, run.seed_for("contexts"))
        start = run.start
        if start is None:
            start = int(np.random.default_rng(run.seed_for("start")).integers(world.problem.n))
        world.problem.check_action(start)
        return Scene(world, contexts, start)

    def policy(self, config: PolicyConfig, run: RunConfig, scene: Scene) -> Policy:
        """Make one of ours by name; a user's own by entry point or import path."""
        world = scene.world
        assert isinstance(world, SyntheticWorld)
        source = None if config.source is None else self.located(config.source)
        return make_policy(config.name, world.problem, self._knows(world), config.options, source)

    def _knows(self, world: SyntheticWorld) -> dict[str, Any]:
        learner, kernel = self.learner, self.learner.kernel
        knows: dict[str, Any] = {"contexts": world.contexts, "width": learner.width}
        given = {"noise_std": learner.noise_std, "prior_mean": learner.prior_mean}
        if kernel == "auto":
            knows["kernel"] = "auto"
        else:
            knows |= {"noise_std": world.noise_std, "prior_mean": world.prior_mean, "kernel": world.kernel}
        if isinstance(kernel, KernelOfCosts):
            variance = kernel.variance * world.rho**2
            knows["kernel"] = _kernel(kernel.kind, kernel.action_lengthscale, kernel.context_lengthscale, variance)
            given["prior_mean"] = None if learner.prior_mean is None else learner.prior_mean * world.rho
            given["noise_std"] = None if learner.noise_std is None else learner.noise_std * world.rho
        return knows | {name: value for name, value in given.items() if value is not None}

    def problem(self) -> Problem:
        """Return the actions and movement costs of the file."""
        actions, movement = self.actions, self.movement
        points: Any = actions.values
        if actions.grid is not None:
            points = grid(**actions.grid)
        elif actions.file is not None:
            points = Csv.read(self.base / actions.file).numbers()
        elif actions.count is not None:
            points = np.arange(actions.count, dtype=np.float64)
        metric: Any = movement.metric
        if movement.matrix is not None:
            metric = movement.matrix
        elif movement.file is not None:
            metric = Csv.read(self.base / movement.file).numbers()
        elif movement.function is not None:
            cost, named = registry.load(self.located(movement.function)), Problem(points, labels=actions.labels)
            values = [named.value(action) for action in range(named.n)]
            metric = [[0.0 if a is b else _number(movement.function, cost, a, b) for b in values] for a in values]
        if movement.close and not isinstance(metric, str):
            metric = metric_closure(metric)
        scale: Any = movement.scale if isinstance(metric, str) else 1.0
        return Problem(
            points,
            metric,
            scale=scale,
            fixed_cost=movement.fixed_cost,
            directed=movement.directed,
            labels=actions.labels,
        )

    def listed_contexts(self, run: RunConfig) -> Array:
        """Return the contexts as they are given, shape (k, d)."""
        given = self.contexts
        if given.count is not None:
            random = np.random.default_rng(run.seed_for("function"))
            return np.asarray(np.sort(random.random(given.count))[:, None])
        if given.file is not None:
            return Csv.read(self.base / given.file).numbers(given.columns)
        values = np.array(given.values, dtype=np.float64)
        return values[:, None] if values.ndim == 1 else values

    def located(self, source: str) -> str:
        """Return an import path; a file is looked for beside the sweep file."""
        path, colon, name = source.rpartition(":")
        return f"{self.base / path}:{name}" if colon and path.endswith(".py") else source

    def used_files(self) -> list[str]:
        """Return the files that belong to this world, as written."""
        written = [self.actions.file, self.movement.file, self.costs.file, self.contexts.file]
        sources = [source.rpartition(":")[0] for source in (self.movement.function, self.costs.function) if source]
        return [name for name in written if name is not None] + [name for name in sources if name.endswith(".py")]


_WORLDS: OrderedDict[str, SyntheticWorld] = OrderedDict()


def _cached(key: str, config: OwnWorld, run: RunConfig) -> SyntheticWorld:
    """Return the world at rho = 1; the last few are kept, as one worker meets the same one often."""
    if key not in _WORLDS:
        _WORLDS[key] = _build(config, run)
        while len(_WORLDS) > 4:
            _WORLDS.popitem(last=False)
    return _WORLDS[key]


def _build(config: OwnWorld, run: RunConfig) -> SyntheticWorld:
    problem, costs = config.problem(), config.costs
    listed = config.listed_contexts(run)
    contexts, where = np.unique(listed, axis=0, return_index=True)
    if costs.random is not None:
        drawn = costs.random
        kernel = _kernel(drawn.kernel, drawn.action_lengthscale, drawn.context_lengthscale, 1.0)
        noise = 0.01 if costs.noise_std is None else 0.0
        world = SyntheticWorld.sample(
            run.seed_for("function"), contexts=contexts, kernel=kernel, problem=problem, noise=noise
        )
        return world if costs.noise_std is None else _with(world, noise_std=costs.noise_std)
    if costs.function is not None:
        cost, values = (
            registry.load(config.located(costs.function)),
            [problem.value(action) for action in range(problem.n)],
        )
        seen = [context[0] if len(context) == 1 else tuple(context) for context in contexts.tolist()]
        table = np.array([[_number(costs.function, cost, value, context) for value in values] for context in seen])
    else:
        rows: Any = costs.table if costs.file is None else Csv.read(config.base / costs.file).numbers()
        table = np.array(rows, dtype=np.float64)
        if table.shape != (len(listed), problem.n):
            raise InvalidInput(
                f"costs: the table must have {counted(len(listed), 'row')}, one per context, and "
                f"{counted(problem.n, 'column')}, one per action, got {table.shape[0]} and {table.shape[1]}"
            )
        table = table[where]
    if not np.isfinite(table).all():
        k, action = (int(index) for index in np.argwhere(~np.isfinite(table))[0])
        raise InvalidInput(
            f"costs: action {action} costs {table[k, action]} in context {contexts[k].tolist()}; costs must be finite"
        )
    spread = float(np.ptp(table))
    noise_std = 0.01 * spread if costs.noise_std is None else costs.noise_std
    near, alike = (float(np.ptp(axis)) / 4 or 1.0 for axis in (problem.actions, contexts))
    guess = _kernel("rbf", near, alike, max(float(table.var()), 1e-12))
    return SyntheticWorld(problem, contexts, table, 1.0, guess, float(table.mean()), noise_std)


def _number(source: str, function: Callable[..., Any], *arguments: Any) -> float:
    """Return the number that a function of the user's gives; an error names the function and its arguments."""
    try:
        return float(function(*arguments))
    except Exception as error:
        called = f"{source}({', '.join(repr(argument) for argument in arguments)})"
        shape = "; an action of a grid is a dictionary of its axes" if isinstance(arguments[0], dict) else ""
        raise InvalidInput(f"{called} failed: {type(error).__name__}: {error}{shape}") from error


def _weighted(world: SyntheticWorld, rho: float) -> SyntheticWorld:
    if rho == 1.0:
        return world
    kernel: Any = world.kernel
    parts = {"variance": rho**2 * kernel.variance}
    changed = {name: getattr(kernel, name) for name in ("action", "context")} | parts
    return _with(
        world,
        landscape=rho * world.landscape,
        rho=rho,
        kernel=Kernel(**changed),
        prior_mean=rho * world.prior_mean,
        noise_std=rho * world.noise_std,
    )


def _with(world: SyntheticWorld, **changes: Any) -> SyntheticWorld:
    fields = ("problem", "contexts", "landscape", "rho", "kernel", "prior_mean", "noise_std")
    return SyntheticWorld(**({name: getattr(world, name) for name in fields} | changes))


def _kernel(kind: str, action: Any, context: Any, variance: float = 1.0) -> Kernel:
    from sklearn.gaussian_process.kernels import RBF, Matern

    def part(length: Any) -> Any:
        scale = np.asarray(length, dtype=np.float64) if np.ndim(length) else float(length)
        return RBF(scale) if kind == "rbf" else Matern(scale, nu={"matern32": 1.5, "matern52": 2.5}[kind])

    return Kernel(part(action), part(context), variance)


def file_hash(path: Path) -> str:
    """Return the hash of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:24]
