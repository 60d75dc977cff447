"""`holdcourse compare`: run, print, write."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from holdcourse import archive, registry
from holdcourse.arguments import Json, names_of, names_option
from holdcourse.errors import InvalidInput, MissingExtra
from holdcourse.experiments.cells import EASY, HARD
from holdcourse.experiments.commands import (
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
from holdcourse.experiments.comparison import Comparison, ComparisonPlan
from holdcourse.experiments.explain import explain
from holdcourse.experiments.policies import policy_names
from holdcourse.experiments.runner import run_sweep
from holdcourse.experiments.style import SETTINGS, blank, drawing, line_of, save, shared_legend
from holdcourse.registry import label_of
from holdcourse.spreadsheet import write_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDE = 120  # columns of a terminal that has room for every cell
GROUPS = {"cells": EASY, "harder processes": HARD}


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
        raise InvalidInput(explain(error)[1]) from None
    plan.check()
    notes = Console(stderr=True, soft_wrap=True, highlight=False)
    with executor_of(dask) as executor, resumable(out):
        report = run_sweep(plan.sweep(), out, executor=executor, workers=workers, fresh=fresh, say=notes.print)
    found = Comparison.of(report.rows, plan.labels, plan.cells)
    if found.seeds:
        write(found, out, notes)
        if as_json:
            typer.echo(json.dumps(as_values(report) | as_json_values(found)))
        else:
            console = Console()
            for table in tables(found, console.width):
                console.print(table)
            typer.echo(f"landscapes {found.seeds[0]} to {found.seeds[-1]}; every cell: {out / 'cells.csv'}")
    finish([report], notes)


def groups(found: Comparison) -> dict[str, Comparison]:
    """The ordinary cells and the harder processes, as far as there are any."""
    parts = {title: found.select(processes) for title, processes in GROUPS.items()}
    return {title: part for title, part in parts.items() if part.cells}


def tables(found: Comparison, width: int) -> list[Table]:
    """For a terminal of this width; a narrow one shows the mean over rho."""
    shown = []
    for title, part in groups(found).items():
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
        texts = [" ".join(_of_process(part, means, process, together=not wide)) for process in processes]
        table.add_row(label_of(name), *texts)
    return table


def as_json_values(found: Comparison) -> dict[str, Any]:
    """For programs: every cell, and a line for each policy and group of cells."""
    lines = [{"group": title, **asdict(line)} for title, part in groups(found).items() for line in part.lines()]
    return {"seeds": list(found.seeds), "lines": lines, "cells": found.cell_rows()}


def write(found: Comparison, out: Path, notes: Console) -> None:
    """`cells.csv`, `table.md` for a page, and a figure where matplotlib is there."""
    rows = found.cell_rows()
    text = io.StringIO()
    write_rows(text, [list(rows[0]), *(row.values() for row in rows)])
    archive.write_file(out / "cells.csv", text.getvalue().encode())
    archive.write_file(out / "table.md", markdown(found).encode())
    try:
        save(picture(found), out / "figures", "compare")
    except MissingExtra as error:
        notes.print(f"no figure: {error}", markup=False)


def markdown(found: Comparison) -> str:
    """The tables of a page such as docs/benchmark-table.md: a row for each policy."""
    pages = []
    for part in groups(found).values():
        processes = list(dict.fromkeys(process for process, _ in part.cells))
        heading = ["policy", "mean", f"to {label_of(found.policies[0])}", *processes]
        rows = [heading, ["---"] * len(heading)]
        for line, means in zip(part.lines(), part.means, strict=True):
            apart = f"{line.difference:+.3f} ± {line.difference_error:.3f}" if line.policy != found.policies[0] else ""
            row = [label_of(line.policy), f"{line.mean:.3f} ± {line.error:.3f}", apart]
            rows.append(row + [" ".join(_of_process(part, means, process)) for process in processes])
        pages.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
    return "\n\n".join(pages) + "\n"


def _of_process(part: Comparison, means: Any, process: str, *, together: bool = False) -> list[str]:
    """The means of a process's cells, or their mean, as text."""
    own = [mean for mean, (here, _) in zip(means, part.cells, strict=True) if here == process]
    return [f"{mean:.2f}" for mean in ([sum(own) / len(own)] if together else own)]


def picture(found: Comparison) -> Figure:
    """A panel for each process: every policy's ratio, with standard errors, against rho."""
    processes = list(dict.fromkeys(process for process, _ in found.cells))
    columns = min(5, len(processes))
    with drawing():
        figure, axes = blank(-(-len(processes) // columns), columns)
        for ax in axes[len(processes) :]:
            ax.set_visible(False)
        for ax, process in zip(axes, processes, strict=False):
            _panel(ax, process, [row for row in found.cell_rows() if row["process"] == process], found.policies)
        axes[0].set_ylabel("cost over the optimum")
        shared_legend(figure, axes[: len(processes)])
    return figure


def _panel(ax: Any, process: str, rows: list[dict[str, Any]], policies: Sequence[str]) -> None:
    rhos = list(dict.fromkeys(row["rho"] for row in rows))
    for place, name in enumerate(policies):
        own = [row for row in rows if row["policy"] == name]
        shift = 0.08 * (place - (len(policies) - 1) / 2)  # so that error bars do not hide each other
        ax.errorbar(
            [rhos.index(row["rho"]) + shift for row in own],
            [row["mean"] for row in own],
            [row["standard_error"] for row in own],
            marker="o",
            markersize=5,
            elinewidth=SETTINGS["lines.linewidth"],
            label=label_of(name),
            **line_of(name),
        )
    ax.set_xticks(range(len(rhos)), [f"{rho:g}" for rho in rhos])
    ax.set(title=process, xlabel=r"$\rho$", xlim=(-0.5, len(rhos) - 0.5))
