"""The command `holdcourse policy`: what a policy's file holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from holdcourse.cli.arguments import Json
from holdcourse.deciding import registry
from holdcourse.deciding.policyfile import FORMAT, PolicyFile
from holdcourse.movement.problem import MATRIX_ACTIONS, Problem
from holdcourse.running.database import refuse_record
from holdcourse.running.limits import Limits
from holdcourse.units import beside

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="Show what a policy file contains.",
)
SHOWN = 12  # settings


@app.callback()
def group() -> None:
    """Show what a policy file contains."""


@app.command("show")
def show_policy(
    file: Annotated[Path, typer.Argument(help="A file written by holdcourse backtest --save or policy.save.")],
    as_json: Json = False,
) -> None:
    """Describe a policy in words: what it is, and what is known about it.

    This runs no code from the file, even if the policy is made by code of your own.

    Example: [bold]holdcourse policy show site.policy[/]
    """
    refuse_record(file, "this command shows policy files")
    found = PolicyFile.read(file)
    if as_json:
        typer.echo(json.dumps(_values(found)))
        return
    console = Console()
    console.print(f"{file.name}: {found.name}", style="bold", highlight=False, markup=False)
    for heading, words in _parts(found):
        console.print(f"\n{heading}", style="bold")
        for sentence in words:
            console.print(f"- {sentence}", highlight=False, markup=False)


def _parts(found: PolicyFile) -> Iterator[tuple[str, list[str]]]:
    """What there is to say, in sentences under headings."""
    name = str(found.recipe["policy"])
    entry = registry.TABLE.get(name)
    what = [f"{name}: {entry.sentence}" if entry is not None else f"Made by {name}."]
    yield "What it is", what + ([found.explanation] if found.explanation else [])
    yield "What it decides", _settings(found.problem, found.units)
    if found.limits is not None:
        said = Limits.from_data(found.limits).in_words(found.problem)
        yield "Limits that it begins with", [f"{name}: {words}" for name, words in said.items()] or ["none"]
    if found.evidence is not None:
        yield (
            "What is known about it",
            found.evidence.words
            + [f"{file}: sha256 {digest}" for file, digest in found.evidence.files.items() if digest],
        )
    else:
        yield "What is known about it", ["The file does not say where it comes from, and contains no backtest."]
    if found.code:
        paths = ", ".join(found.code)
        yield (
            "Whose code",
            [f"It is made by {paths}, which is not part of holdcourse. Read that code before you run it with trust."],
        )
    learned = sum(array.size for array in found.learned.values())
    version = found.versions.get("holdcourse", "unknown")
    yield (
        "The file",
        [
            f"Format {FORMAT}, written by holdcourse {version}; {learned:,} numbers learned.",
            f"Fingerprint {found.fingerprint}.",
        ],
    )


def _settings(problem: Problem, units: Any) -> list[str]:
    values = [problem.value(action) for action in range(problem.n)]
    shown = values if problem.n <= SHOWN else [*values[: SHOWN // 2], "...", *values[-SHOWN // 2 + 1 :]]
    unit = units.get("action") or next(iter(problem.units), "")
    listed = ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in shown)
    words = [f"One of {problem.n} settings: {listed}{f' {unit}' if unit else ''}."]
    if 1 < problem.n <= MATRIX_ACTIONS:
        away = problem.distances[problem.distances > 0]
        least, most = f"{away.min():.4g}", f"{away.max():.4g}"
        highest = beside(most, problem.cost_unit or units.get("cost", ""))
        words.append(f"A move costs {highest if least == most else f'from {least} to {highest}'}.")
    for part, meaning in (("context", "It is asked with"), ("measurement", "It is told")):
        if units.get(part):
            words.append(f"{meaning}: {units[part]}.")
    return words


def _values(found: PolicyFile) -> dict[str, Any]:
    """Return what a policy file holds, in JSON values."""
    return {
        "name": found.name,
        "policy": found.recipe["policy"],
        "explanation": found.explanation,
        "fingerprint": found.fingerprint,
        "format": FORMAT,
        "versions": dict(found.versions),
        "problem": found.recipe["problem"],
        "limits": found.limits,
        "units": dict(found.units),
        "evidence": None if found.evidence is None else found.evidence.to_data(),
        "code": list(found.code),
        "learned": {name: list(array.shape) for name, array in found.learned.items()},
    }
