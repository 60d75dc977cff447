"""`holdcourse compare`: run, print, write."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from holdcourse.cli.arguments import Json, names_of, names_option
from holdcourse.cli.experiments import (
    Dask,
    Fresh,
    Numbers,
    Out,
    Rho,
    Workers,
    as_values,
    executor_of,
    finish,
    numbers_of,
    resumable,
)
from holdcourse.deciding import registry
from holdcourse.deciding.registry import label_of
from holdcourse.errors import InvalidInput
from holdcourse.experiments import compare_report
from holdcourse.experiments.comparison import EASY, HARD, Comparison, ComparisonPlan
from holdcourse.experiments.policies import policy_names
from holdcourse.experiments.runner import run_sweep
from holdcourse.mistakes import first_in_words

app = typer.Typer(rich_markup_mode="rich", add_completion=False)

WIDE = 120  # columns of a terminal that has room for every cell


@app.command()
def compare(
    policies: Annotated[
        Numbers,
        names_option(
            "--policies",
            "Which policies, the one to beat first; your own as mine=mine.py:mine.",
            [*policy_names(), *registry.names("cells")],
        ),
    ] = None,
    processes: Annotated[
        Numbers,
        names_option(
            "--processes",
            "How contexts follow each other, e.g. iid,walk; easy, hard or all (default).",
            [*EASY, *HARD, "easy", "hard", "all"],
        ),
    ] = None,
    rho: Rho = None,
    first_seed: Annotated[int | None, typer.Option(help="First landscape; default the published ones.")] = None,
    seeds: Annotated[int | None, typer.Option(help="How many landscapes.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of a run; default 300.")] = None,
    out: Out = Path("comparison"),
    workers: Workers = None,
    dask: Dask = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Policies side by side on our benchmark.

    Their cost over the clairvoyant optimum, with paired differences.

    Example: [bold]holdcourse compare --out results[/]

    Example: [bold]holdcourse compare --policies recommended,mine=mine.py:mine[/]

    Example: [bold]holdcourse compare --processes easy --seeds 2 --rounds 50[/]
    """
    given: dict[str, Any] = {"policies": names_of(policies), "processes": names_of(processes)}
    given |= {"rho": numbers_of(rho, "--rho"), "first_seed": first_seed, "seeds": seeds, "rounds": rounds}
    try:
        plan = ComparisonPlan(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise InvalidInput(first_in_words(error)[1]) from None
    plan.check()
    notes = Console(stderr=True, soft_wrap=True, highlight=False)
    with executor_of(dask) as executor, resumable(out):
        report = run_sweep(plan.sweep(), out, executor=executor, workers=workers, fresh=fresh, say=notes.print)
    found = Comparison.of(report.rows, plan.labels, plan.cells)
    if found.seeds:
        compare_report.write(found, out, partial(notes.print, markup=False))
        if as_json:
            typer.echo(json.dumps(as_values(report) | compare_report.as_values(found)))
        else:
            console = Console()
            for table in tables(found, console.width):
                console.print(table)
            typer.echo(f"landscapes {found.seeds[0]} to {found.seeds[-1]}; every cell: {out / 'cells.csv'}")
    finish([report], notes)


def tables(found: Comparison, width: int) -> list[Table]:
    """Make the tables for a terminal of this width; a narrow one shows the mean over rho."""
    shown = []
    for title, part in compare_report.groups(found).items():
        summary = Table("policy", title=f"cost over the optimum: {title}, {len(part.cells)} in all")
        for heading in ("mean", "±", f"to {label_of(found.policies[0])}", "±", "worst cell"):
            summary.add_column(heading, justify="right")
        for line in part.lines():
            numbers = [f"{line.mean:.3f}", f"{line.error:.3f}", f"{line.difference:+.3f}"]
            summary.add_row(label_of(line.policy), *numbers, f"{line.difference_error:.3f}", f"{line.worst:.2f}")
        shown += [summary, _cells(part, wide=width >= WIDE)]
    return shown


def _cells(part: Comparison, *, wide: bool) -> Table:
    processes = list(dict.fromkeys(process for process, _ in part.cells))
    rhos = list(dict.fromkeys(rho for _, rho in part.cells))
    several = len(rhos) > 1
    each = "rho " + " / ".join(f"{rho:g}" for rho in rhos) if wide or not several else "mean over rho"
    title = f"by process, {each}"
    table = Table("policy", title=title, min_width=len(title))
    for process in processes:
        table.add_column(process, justify="right")
    for name, means in zip(part.policies, part.means, strict=True):
        texts = [
            " ".join(compare_report.means_of_process(part, means, process, together=not wide)) for process in processes
        ]
        table.add_row(label_of(name), *texts)
    return table
