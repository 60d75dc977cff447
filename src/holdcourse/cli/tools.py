"""Commands on files of numbers: the tree that stands for a metric, and what perfect foresight would have paid."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

import holdcourse as hc
from holdcourse.backtest.csvfile import Csv
from holdcourse.cli.arguments import Directed, Json, Matrix, bill_rows, bill_table, completing
from holdcourse.errors import counted

app = typer.Typer(rich_markup_mode="rich", add_completion=False)

METRICS = ("euclidean", "cityblock", "chebyshev")
Metric = Annotated[str, typer.Option(help="euclidean, cityblock or chebyshev.", autocompletion=completing(METRICS))]


@app.command()
def tree(
    actions: Annotated[Path, typer.Argument(help="CSV: a row per action, its coordinates in columns.")],
    metric: Metric = "euclidean",
    matrix: Matrix = None,
    directed: Directed = False,
    tau: Annotated[
        float, typer.Option(help="Factor by which each level of the tree has shorter edges than the level above.")
    ] = 5.0,
    seed: Annotated[int, typer.Option(help="Seed of the random tree.")] = 0,
    as_json: Json = False,
) -> None:
    """Draw a random tree that approximates a metric, and show its stretch.

    Example: [bold]holdcourse tree altitudes.csv --seed 3[/]
    """
    problem = _problem(actions, metric, matrix, directed)
    drawn = hc.frt_tree(problem, tau=tau, seed=seed)
    stretch = drawn.stretch(problem)
    if as_json:
        found = {"mean_stretch": stretch.mean, "largest_stretch": stretch.largest, "tree": json.loads(drawn.to_json())}
        typer.echo(json.dumps(found))
        return
    typer.echo(drawn.draw(problem))
    typer.echo(
        f"\n{drawn!r}: distances {stretch.mean:.2f} times the metric's on average, {stretch.largest:.2f} at most"
    )


@app.command()
def optimum(
    costs: Annotated[Path, typer.Argument(help="CSV: a row per round, a column per action, names in the header.")],
    actions: Annotated[Path | None, typer.Option(help="CSV of the actions' coordinates; default: 0, 1, 2, ...")] = None,
    metric: Metric = "euclidean",
    matrix: Matrix = None,
    directed: Directed = False,
    start: Annotated[
        int | None, typer.Option(help="Action before the first round, counted from 0; default: any, at no cost.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compute what perfect foresight, a fixed setting and simple rules would have paid.

    Example: [bold]holdcourse optimum costs.csv --actions altitudes.csv --start 0[/]
    """
    file = Csv.read(costs)
    table = file.numbers(finite=False)  # inf forbids an action
    problem = _problem(actions, metric, matrix, directed, columns=table.shape[1], names=file.header)
    best = hc.optimal_path(table, problem, start)
    begin = int(best.actions[0]) if start is None else start
    bills = {
        "perfect foresight": best,
        "work function": hc.work_function(table, problem, begin),
        "cheapest each round": hc.price_path(np.argmin(table, axis=1), table, problem, start),
    }
    for what, action in (("best fixed:", hc.best_fixed(table, problem, start)), ("stay at", start)):
        if action is not None and np.isfinite(table[:, action]).all():
            stayed = hc.price_path(np.full(len(table), action), table, problem, start)
            bills[f"{what} {_name(problem, action)}"] = stayed
    if as_json:
        found = {"rounds": len(table), "bills": bill_rows(bills), "actions": best.actions.tolist()}
        typer.echo(json.dumps(found | {"names": [_name(problem, action) for action in range(problem.n)]}))
        return
    Console().print(bill_table(bills, best.total, f"{counted(len(table), 'round')}, {counted(problem.n, 'action')}"))


def _name(problem: hc.Problem, action: int) -> str:
    value = problem.value(action)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _problem(
    actions: Path | None,
    metric: str,
    matrix: Path | None,
    directed: bool,
    columns: int = 0,
    names: Sequence[str] = (),
) -> hc.Problem:
    points: NDArray[np.float64] = (
        np.arange(columns, dtype=np.float64) if actions is None else Csv.read(actions).numbers()
    )
    labels = names if len(names) == len(points) else None
    costs: Any = metric
    if matrix is not None:
        costs = Csv.read(matrix).matrix(labels) if labels is not None else Csv.read(matrix).numbers()
    return hc.Problem(points, metric=costs, directed=directed, labels=labels)
