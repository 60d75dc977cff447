"""`holdcourse compare`: run, print, write; on the cells of our benchmark, or on plants."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import typer
from pydantic import BaseModel, ValidationError
from rich.console import Console
from rich.table import Table

from holdcourse.cli.arguments import Json, names_of, names_option
from holdcourse.cli.experiments import (
    Dask,
    Fresh,
    Numbers,
    Rho,
    Workers,
    as_values,
    executor_of,
    finish,
    numbers_of,
    resumable,
)
from holdcourse.deciding import registry
from holdcourse.deciding.named_policies import policy_names
from holdcourse.deciding.registry import label_of
from holdcourse.errors import InvalidInput, counted
from holdcourse.experiments import compare_report
from holdcourse.experiments.comparison import EASY, HARD, Comparison, ComparisonPlan
from holdcourse.experiments.plant_comparison import PlantComparison, PlantPlan
from holdcourse.experiments.results import plus_minus
from holdcourse.experiments.runner import Report, run_sweep
from holdcourse.experiments.runs import Sweep
from holdcourse.mistakes import first_in_words
from holdcourse.worlds.plants import PLANTS

app = typer.Typer(rich_markup_mode="rich", add_completion=False)

Plan = TypeVar("Plan", bound=BaseModel)

WIDE = 120  # columns of a terminal that has room for every cell


@app.command()
def compare(
    suite: Annotated[
        Literal["cells", "plants"], typer.Option(help="Random landscapes (cells), or simulated plants (plants).")
    ] = "cells",
    policies: Annotated[
        Numbers,
        names_option(
            "--policies",
            "Which policies, the one to beat first; yours as mine=mine.py:mine.",
            list(dict.fromkeys([*policy_names(), *registry.names("cells"), *registry.names("plants")])),
        ),
    ] = None,
    processes: Annotated[
        Numbers,
        names_option(
            "--processes",
            "Cells: how contexts change, e.g. iid,walk; easy, hard or all (default).",
            [*EASY, *HARD, "easy", "hard", "all"],
        ),
    ] = None,
    rho: Rho = None,
    worlds: Annotated[
        Numbers, names_option("--worlds", "Plants: which ones, e.g. chiller,mill; default all.", list(PLANTS))
    ] = None,
    cold: Annotated[bool, typer.Option("--cold", help="Plants: begin without the two weeks of history.")] = False,
    first_seed: Annotated[int | None, typer.Option(help="First seed; default: as in the published results.")] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds; default 8, plants 10.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of a run; default 300, plants 672.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the results; the same command resumes. Default: comparison or comparison-plants."),
    ] = None,
    workers: Workers = None,
    dask: Dask = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Compare policies on our benchmark.

    cells: random landscapes; the cost over the clairvoyant optimum, with paired
    differences.
    plants: a chiller, a database, a mill and others, over four weeks of hours; bills
    compared with staying and with what people would do.

    Example: [bold]holdcourse compare --out results[/]

    Example: [bold]holdcourse compare --policies recommended,mine=mine.py:mine[/]

    Example: [bold]holdcourse compare --processes easy --seeds 2 --rounds 50[/]

    Example: [bold]holdcourse compare --suite plants --worlds chiller --seeds 2[/]
    """
    given: dict[str, Any] = {"policies": names_of(policies), "first_seed": first_seed, "seeds": seeds}
    given["rounds"] = rounds
    of_cells = {"--processes": names_of(processes), "--rho": numbers_of(rho, "--rho")}
    of_plants = {"--worlds": names_of(worlds), "--cold": cold or None}
    for option, value in (of_plants if suite == "cells" else of_cells).items():
        if value is not None:
            raise InvalidInput(f"{option} does not apply to the suite {suite}; leave it out")
    show = _Showing(workers, dask, fresh, as_json)
    if suite == "plants":
        _plants(_plan(PlantPlan, given | {"worlds": of_plants["--worlds"], "history": not cold}), out, show)
    else:
        _cells_compared(
            _plan(ComparisonPlan, given | {"processes": of_cells["--processes"], "rho": of_cells["--rho"]}), out, show
        )


class _Showing(NamedTuple):
    """How runs are done, and how they are shown."""

    workers: int | None
    dask: str | None
    fresh: bool
    as_json: bool

    def run(self, sweep: Sweep, out: Path, notes: Console) -> Report:
        with executor_of(self.dask) as executor, resumable(out):
            return run_sweep(sweep, out, executor=executor, workers=self.workers, fresh=self.fresh, say=notes.print)


def _plan(kind: type[Plan], given: dict[str, Any]) -> Plan:
    try:
        return kind(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise InvalidInput(first_in_words(error)[1]) from None


def _cells_compared(plan: ComparisonPlan, folder: Path | None, how: _Showing) -> None:
    plan.check()
    out = folder or Path("comparison")
    notes = Console(stderr=True, soft_wrap=True, highlight=False)
    report = how.run(plan.sweep(), out, notes)
    found = Comparison.of(report.rows, plan.labels, plan.cells)
    if found.seeds:
        compare_report.write_cells(found, out, partial(notes.print, markup=False))
        if how.as_json:
            typer.echo(json.dumps(as_values(report) | compare_report.cells_as_values(found)))
        else:
            console = Console()
            for table in tables(found, console.width):
                console.print(table)
            typer.echo(f"{compare_report.seeds_in_words('landscape', found.seeds)}; every cell: {out / 'cells.csv'}")
    finish([report], notes)


def _plants(plan: PlantPlan, folder: Path | None, how: _Showing) -> None:
    plan.check()
    out = folder or Path("comparison-plants")
    notes = Console(stderr=True, soft_wrap=True, highlight=False)
    report = how.run(plan.sweep(), out, notes)
    found = PlantComparison.of(plan, out)
    if found.seeds:
        compare_report.write_plants(found, out)
        if how.as_json:
            typer.echo(json.dumps(as_values(report) | compare_report.plants_as_values(found)))
        else:
            console = Console()
            for table in plant_tables(found, console.width):
                console.print(table)
            past = "with two weeks of history" if plan.history else "cold"
            seeds = compare_report.seeds_in_words("seed", found.seeds)
            typer.echo(f"{past}; {seeds}; every line: {out / 'worlds.csv'}")
    finish([report], notes)


def plant_tables(found: PlantComparison, width: int) -> list[Table]:
    """Policies over all plants; the first one on each; the means of all on each, with errors where there is room."""
    plants = counted(len(found.worlds), "plant")
    overall = Table("policy", title=f"bill against staying, %: {plants}")
    first = Table("plant", title=f"{label_of(found.policies[0])} by plant, %")
    for heading in compare_report.PLANT_HEADINGS:
        overall.add_column(heading, justify="right")
        first.add_column(heading, justify="right")
    for line in found.lines():
        overall.add_row(compare_report.plant_label(line.policy), *compare_report.plant_cells(line))
    for line in found.lines(found.policies[0]):
        first.add_row(line.world, *compare_report.plant_cells(line))
    means = Table("plant", title="mean bill against staying, %" + " ± standard error" * (width >= WIDE))
    for name in found.policies:
        means.add_column(compare_report.plant_label(name).replace(" ", "\n"), justify="right")
    for world in found.worlds:
        lines = [found.line(name, world) for name in found.policies]
        errors = [plus_minus(100 * line.error, 1) if width >= WIDE else "" for line in lines]
        texts = [compare_report.percent(line.mean) + error for line, error in zip(lines, errors, strict=True)]
        means.add_row(world, *texts)
    return [overall, first, means]


def tables(found: Comparison, width: int) -> list[Table]:
    """Make the tables for a terminal of this width; a narrow one shows the mean over rho."""
    shown = []
    for title, part in compare_report.groups(found).items():
        summary = Table("policy", title=f"cost over the optimum: {title}, {len(part.cells)} in all")
        for heading in ("mean", "±", f"to {label_of(found.policies[0])}", "±", "worst cell"):
            summary.add_column(heading, justify="right")
        for line in part.lines():
            errors = [plus_minus(error, 3).removeprefix(" ± ") for error in (line.error, line.difference_error)]
            numbers = [f"{line.mean:.3f}", errors[0], f"{line.difference:+.3f}", errors[1], f"{line.worst:.2f}"]
            summary.add_row(label_of(line.policy), *numbers)
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
