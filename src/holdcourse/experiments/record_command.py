"""What `holdcourse backtest --log` does: read a plant's record, compare policies on it, print."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from holdcourse import archive
from holdcourse.errors import InvalidInput
from holdcourse.experiments.csvfile import Csv
from holdcourse.experiments.logged import POLICIES, backtest_record, read_record
from holdcourse.experiments.policies import check_policy_name
from holdcourse.experiments.store import make_folder
from holdcourse.experiments.style import label_of
from holdcourse.problem import Problem


def backtest_log(
    log: Path,
    *,
    action: str,
    cost: str,
    context: list[str],
    time: str | None = None,
    bins: int | None = None,
    move_cost: float = 1.0,
    fixed_cost: float = 0.0,
    matrix: Path | None = None,
    directed: bool = False,
    policies: Sequence[str] | None = None,
    rho: float = 1.0,
    seed: int = 0,
    out: Path | None = None,
    as_json: bool = False,
) -> None:
    """`holdcourse backtest --log`: policies on a plant's own record, by a model of it; see `logged.backtest_record`."""
    values, record = read_record(log, action=action, cost=cost, context=context, time=time, bins=bins)
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
    wanted = POLICIES if policies is None else policies
    for name in wanted:
        check_policy_name(name)
    found = backtest_record(problem, record, wanted, rho=rho, seed=seed)
    if out is not None:
        make_folder(out)
        archive.write_file(out / "backtest.json", (json.dumps(found.as_values(), indent=1) + "\n").encode())
    if as_json:
        typer.echo(json.dumps(found.as_values()))
        return
    table = Table("policy", title=f"{log.name}: {len(record)} rounds, {problem.n} settings; model-based")
    for heading in ("service", "movement", "total", "saved", "guessed"):
        table.add_column(heading, justify="right")
    for line in found.lines:
        numbers = (f"{line.service:.5g}", f"{line.movement:.4g}", f"{line.total:.5g}")
        table.add_row(label_of(line.policy), *numbers, f"{line.saved:+.1f} %", f"{100 * line.guessed:.0f} %")
    Console().print(table)
    for note in found.notes:
        typer.echo(note)
