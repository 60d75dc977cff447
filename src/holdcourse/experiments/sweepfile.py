"""`holdcourse sweep config.toml`: a problem of your own, checked in full before anything runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import Field, ValidationError, field_validator

from holdcourse.deciding.named_policies import check_policy_name, runs_code
from holdcourse.errors import HoldcourseError, InvalidInput
from holdcourse.experiments.own_problem import Actions, Contexts, Costs, Learner, Movement, OwnWorld, file_hash
from holdcourse.experiments.runs import CLAIRVOYANT, Frozen, PolicyConfig, Positive, RunConfig, Sweep, check_names
from holdcourse.mistakes import first_in_words, keys_of, read_toml, spelled

EXAMPLE = """# Policies against each other on a problem of your own. Run: holdcourse sweep this.toml --out results
name = "pump"            # in tables
rounds = 200             # decisions in a run
rho = [0.5, 1.0, 2.0]    # weight of the service cost against the movement cost
starts = "random"        # or "all", or a list of action numbers, counted from 0
repetitions = 2          # runs of each policy, with other trees, draws and noise
seed = 0

[actions]                # one of: values, grid, file (CSV), count
values = [20, 25, 30, 35, 40, 45, 50]    # speeds in Hz
# grid = { speed = [20, 30, 40, 50], valve = [0.2, 0.6, 1.0] }    # functions get {"speed": 20, "valve": 0.2}

[movement]               # what a change costs
metric = "cityblock"     # or "euclidean", "chebyshev"; or matrix = [[...], ...], file = "moves.csv",
scale = 0.05             # or function = "my_file.py:move", called move(from, to) with two actions
fixed_cost = 0.2         # price of every change, however small

[contexts]               # what a policy sees before each decision; one of: values, file (CSV), count
values = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]    # demand in percent
process = "daily"        # or "iid", "walk", "blocks", "alternating", "recorded" (in the order given)

[costs]                  # cost of each action in each context; one of: table, file, function, random
                         # function = "my_file.py:cost" is called cost(action, context)
noise_std = 0.05         # standard deviation of a measurement
[costs.random]           # functions drawn at random: how good are policies on problems like this?
functions = 3
action_lengthscale = 10.0
context_lengthscale = 30.0

[learner]
kernel = "known"         # the one that random costs are drawn from; "auto": fitted as data come in; or a table:
# kernel = { kind = "rbf", action_lengthscale = 10.0, context_lengthscale = 30.0, variance = 1.0 }
width = 2.0              # width of the confidence bounds, in standard deviations

[[policies]]
name = "recommended"

[[policies]]
name = "gp-md"

[[policies]]
name = "cgp-lcb"

[[policies]]
name = "md-known"

[[policies]]
name = "stationary"

# [[policies]]           # your own function: takes the problem and its options, returns a holdcourse Policy
# name = "mine"
# source = "my_policy.py:make"    # or "my_package.my_module:make"; an entry point needs no source
# options = { caution = 2.0, learning = true }    # learning: also pass what learners know, as keyword arguments
"""


Place: TypeAlias = tuple[int | str, ...]  # of a key: the names and numbers on the way to it


class SweepFile(Frozen):
    """A sweep file. Every key is described by `json_schema`; `EXAMPLE` shows them at work."""

    name: str = Field(min_length=1, description="name of the experiment in tables")
    rounds: int = Field(gt=0, description="decisions of a run")
    rho: tuple[Positive, ...] = Field(default=(1.0,), min_length=1, description="weights of the service cost")
    starts: tuple[int, ...] | Literal["random", "all"] = Field(
        default="random", description="actions before the first round"
    )
    repetitions: int = Field(default=1, gt=0, description="runs with other trees, draws and noise")
    seed: int = Field(default=0, ge=0)
    actions: Actions
    movement: Movement = Movement()
    costs: Costs
    contexts: Contexts
    learner: Learner = Learner()
    policies: tuple[PolicyConfig, ...] = Field(min_length=1)

    @field_validator("policies")
    @classmethod
    def _each_once(cls, policies: tuple[PolicyConfig, ...]) -> tuple[PolicyConfig, ...]:
        check_names([policy.name for policy in policies])
        return policies

    def code(self, base: Path) -> dict[Place, str]:
        """Return what this file has Python run that is not ours: by its key, which function of which file or module."""
        found: dict[Place, str] = {}
        for section in ("movement", "costs"):
            source = getattr(self, section).function
            if source is not None:
                found[section, "function"] = _spelled_code(source, base)
        for k, policy in enumerate(self.policies):
            if runs_code(policy.name, policy.source):
                found["policies", k] = _spelled_code(policy.source or policy.name, base)
        return found

    def world(self, base: Path) -> OwnWorld:
        """Return the world of this file, which lies in the folder `base`."""
        sections = {name: getattr(self, name) for name in ("actions", "movement", "costs", "contexts", "learner")}
        world = OwnWorld(**sections, base=base)
        files = {*world.used_files(), *(p.source.rpartition(":")[0] for p in self.policies if p.source is not None)}
        there = {name: base / name for name in files if name.endswith(".py") or (base / name).is_file()}
        missing = [name for name in world.used_files() if name not in there or not there[name].is_file()]
        if missing:
            raise InvalidInput(f"there is no file {base / missing[0]}; check its name in the sweep file")
        return world.model_copy(update={"hashes": {k: file_hash(p) for k, p in sorted(there.items()) if p.is_file()}})

    def sweep(self, base: Path = Path()) -> Sweep:
        """Return all runs that the file describes, as a sweep."""
        world = self.world(base)
        functions = 1 if self.costs.random is None else self.costs.random.functions
        starts: Sequence[int | None] = (None,)
        if self.starts == "all":
            starts = range(world.problem().n)
        elif self.starts != "random":
            starts = self.starts
        runs = [
            RunConfig(
                experiment=self.name,
                world=world,
                policy=policy,
                rho=rho,
                problem=function,
                start=start,
                repetition=repetition,
                rounds=self.rounds,
                seed=self.seed,
            )
            for function in range(functions)
            for rho in self.rho
            for start in starts
            for policy in (*self.policies, PolicyConfig(name=CLAIRVOYANT))
            for repetition in range(1 if policy.name == CLAIRVOYANT else self.repetitions)
        ]
        return Sweep(self.name, self.model_dump(mode="json") | {"files": world.hashes}, tuple(runs))


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a sweep file, for editors."""
    return SweepFile.model_json_schema()


def load_sweep(path: Path, *, code: bool = True, say: Callable[[str], None] = lambda line: None) -> Sweep:
    """Read a sweep file and try everything in it, short of running: one line names the key and the line at fault.

    Parameters
    ----------
    code
        Whether it may name functions of the user's own; if not, one that does is refused, and nothing of it is run.
    say
        Called with a line of text for each such function, before the first of them is run.
    """
    text, data = read_toml(path)
    try:
        parsed = SweepFile.model_validate(data)
    except ValidationError as error:
        place, line = first_in_words(error, keys_of(SweepFile))
        raise InvalidInput(f"{path}{_line_of(text, place)}: {line}") from None
    for place, named in parsed.code(path.parent).items():
        if not code:
            where = f"{path}{_line_of(text, place)}: {spelled(place)}"
            raise InvalidInput(
                f"{where} names code, {named}, which code=False refuses to run; read it, and leave out code=False if "
                "you trust it"
            )
        say(f"{path} runs code that is not holdcourse's: {named} ({spelled(place)})")
    for k, policy in enumerate(parsed.policies):
        with _about(path, text, ("policies", k)):
            check_policy_name(policy.name, None if policy.source is None else _beside(path, policy.source))
    with _about(path, text, ()):
        sweep = parsed.sweep(path.parent)
    _try(sweep, path, text, parsed)
    return sweep


def _try(sweep: Sweep, path: Path, text: str, parsed: SweepFile) -> None:
    """Build the world and every policy once."""
    first = sweep.runs[0]
    world = first.world
    assert isinstance(world, OwnWorld)
    with _about(path, text, ("actions",)):
        problem = world.problem()
    if isinstance(parsed.starts, tuple):
        with _about(path, text, ("starts",)):
            for start in parsed.starts:
                problem.check_action(start)
    with _about(path, text, ("contexts",)):
        world.listed_contexts(first)
    with _about(path, text, ("costs",)):
        scene = world.scene(first)
    for k, policy in enumerate(parsed.policies):
        with _about(path, text, ("policies", k)):
            world.policy(policy, first, scene)


class _about:  # noqa: N801 - reads as a statement
    """Errors within become one line that names the section."""

    def __init__(self, path: Path, text: str, place: tuple[int | str, ...]) -> None:
        self.path, self.text, self.place = path, text, place

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, HoldcourseError | TypeError | ValueError):
            name = f"{spelled(self.place)}: " if self.place else ""
            told = str(error).removeprefix("costs: ")
            raise InvalidInput(f"{self.path}{_line_of(self.text, self.place)}: {name}{told}") from error


def _spelled_code(source: str, base: Path) -> str:
    """Return a source as a person can find it."""
    module, colon, name = source.rpartition(":")
    if not colon:
        return f"the entry point {name!r} of an installed package"
    return f"{name} of {(base / module).resolve() if module.endswith('.py') else f'the module {module}'}"


def _beside(path: Path, source: str) -> str:
    file, colon, name = source.rpartition(":")
    return f"{path.parent / file}:{name}" if colon and file.endswith(".py") else source


def _line_of(text: str, place: Sequence[int | str]) -> str:
    """Return where the key at a place stands, as ", line 3"; empty if it cannot be found in the text."""
    wanted = [part for part in place if isinstance(part, str)]
    index = next((part for part in place if isinstance(part, int)), 0)
    table: list[str] = []
    counts: dict[str, int] = {}
    best, depth = 0, 0
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*(\[\[?)\s*([\w.\-]+)\s*\]\]?", line)
        key = re.match(r"\s*([\w\-]+(?:\.[\w\-]+)*)\s*=", line)
        if header:
            table = header[2].split(".")
            counts[header[2]] = counts.get(header[2], -1) + 1
            path = table
            if header[1] == "[[" and table == wanted[: len(table)] and counts[header[2]] != index:
                table = ["", *table]  # another one of the same name
                continue
        elif key:
            path = table + key[1].split(".")
        else:
            continue
        if path == wanted[: len(path)] and len(path) > depth:
            best, depth = number, len(path)
    return f", line {best}" if best else ""
