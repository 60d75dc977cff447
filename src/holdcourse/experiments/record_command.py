"""`holdcourse backtest --log`: read a plant's record, compare policies on it, print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from holdcourse import archive
from holdcourse.arguments import Directed, Json, Matrix, check_out, names_of, names_option, refuse_record, writing
from holdcourse.backtest.csvfile import Csv
from holdcourse.backtest.plant import POLICIES, backtest_plant, read_plant
from holdcourse.errors import InvalidInput
from holdcourse.experiments.policies import check_policy_name, make_policy, policy_names
from holdcourse.experiments.tables import digits_of
from holdcourse.problem import Problem
from holdcourse.registry import label_of


def _csv(path: Path) -> Path:
    """Before the columns are asked for: a controller's own record has none."""
    refuse_record(path, "--log reads a CSV")
    return path


def backtest_log(
    log: Annotated[
        Path,
        typer.Option(callback=_csv, help="CSV of the plant's record: a row per measurement, with a header."),
    ],
    action: Annotated[str, typer.Option(help="Column of the setting that ran.")],
    cost: Annotated[str, typer.Option(help="Column of what was measured.")],
    context: Annotated[list[str], typer.Option(help="Column of the context; repeat for several.")],
    time: Annotated[str | None, typer.Option(help="Column of the time; default: rows are in order.")] = None,
    bins: Annotated[int | None, typer.Option(help="Gather settings that vary continuously into so many.")] = None,
    move_cost: Annotated[float, typer.Option(help="Cost of moving a setting by one unit.")] = 1.0,
    fixed_cost: Annotated[float, typer.Option(help="Cost of every move on top.")] = 0.0,
    matrix: Matrix = None,
    directed: Directed = False,
    policies: Annotated[
        list[str] | None,
        names_option("--policies", "Which policies, e.g. recommended,gp-md.", policy_names()),
    ] = None,
    rho: Annotated[float, typer.Option(help="Weight of the service cost.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of all randomness.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for backtest.json.")] = None,
    as_json: Json = False,
) -> None:
    """Would it have paid off at your plant? Policies on its own record.

    Every number is by a model of the record, and says so.

    Example:
    [bold]holdcourse backtest --log plant.csv --context load --action setting --cost kwh[/]
    """
    values, readings = read_plant(log, action=action, cost=cost, context=context, time=time, bins=bins)
    named = isinstance(values, list)
    if named and matrix is None:
        raise InvalidInput(f"column {action!r} holds names ({', '.join(values[:4])}); give a --matrix of move costs")
    problem = Problem(
        None if named else values,
        "euclidean" if matrix is None else Csv.read(matrix).numbers(),
        scale=move_cost if matrix is None else 1.0,
        fixed_cost=fixed_cost,
        directed=directed,
        labels=list(values) if named else None,
    )
    wanted = names_of(policies) or POLICIES
    for name in wanted:
        check_policy_name(name)
    check_out(out)
    found = backtest_plant(problem, readings, make_policy, wanted, rho=rho, seed=seed)
    if out is not None:
        with writing(out):
            archive.write_file(out / "backtest.json", (json.dumps(found.as_values(), indent=1) + "\n").encode())
    if as_json:
        typer.echo(json.dumps(found.as_values()))
        return
    table = Table("policy", title=f"{log.name}: {len(readings)} rounds, {problem.n} settings; model-based")
    for heading in ("service", "movement", "total", "saved", "guessed"):
        table.add_column(heading, justify="right")
    largest = max(abs(cost) for line in found.lines for cost in (line.service, line.movement, line.total))
    digits = 4 if largest < 1 else digits_of(largest)
    for line in found.lines:
        numbers = (f"{cost:,.{digits}f}" for cost in (line.service, line.movement, line.total))
        table.add_row(label_of(line.policy), *numbers, f"{line.saved:+.1f} %", f"{100 * line.guessed:.0f} %")
    Console().print(table)
    for note in found.notes:
        typer.echo(note)
    Console().print(f"\n{found.conclusion}", style="bold", highlight=False, markup=False)
