"""The command line: parse, call, print.

Conventions of every command: `--json` where a table is printed; errors in one line with the remedy (`--debug` shows
the traceback); exit code 0, 1 (failed) or 2 (bad usage); progress on standard error, quiet when that is no terminal.
Help fits 80 columns, and its examples are one line each, to be copied.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from typer.core import TyperCommand

import holdcourse as hc
from holdcourse import audit, registry
from holdcourse.arguments import Directed, Json, Matrix, completing
from holdcourse.backtest.csvfile import Csv
from holdcourse.errors import HoldcourseError
from holdcourse.experiments.commands import reproduce_paper, sweep
from holdcourse.experiments.compare_command import compare
from holdcourse.experiments.record_command import backtest_log
from holdcourse.service.commands import serve, token_app
from holdcourse.wind import commands as wind_commands
from holdcourse.wind.backtest_command import backtest, demo

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

SITE, RUNNING, RESEARCH = "Would it have paid off?", "A running system", "Research"
METRICS = ("euclidean", "cityblock", "chebyshev")
Metric = Annotated[str, typer.Option(help="euclidean, cityblock or chebyshev.", autocompletion=completing(METRICS))]


class WindOrRecord(TyperCommand):
    """`backtest FILE...` flies a wind record; `backtest --log` replays a plant's own, which takes other options."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Hand over to the other command where a plant's record is given."""
        if any(word == "--log" or word.startswith("--log=") for word in args):
            return PLANT_RECORD.make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


plant_app = typer.Typer(
    add_completion=False, rich_markup_mode="rich", context_settings={"help_option_names": ["-h", "--help"]}
)
plant_app.command()(backtest_log)
PLANT_RECORD = typer.main.get_command(plant_app)

app.command(rich_help_panel=SITE)(demo)
app.command(
    cls=WindOrRecord,
    epilog="For a plant's own record: holdcourse backtest --log plant.csv --help",
    rich_help_panel=SITE,
)(backtest)
app.add_typer(wind_commands.app, name="wind", rich_help_panel=SITE)
app.command(rich_help_panel=RUNNING)(serve)
app.add_typer(token_app, name="token", rich_help_panel=RUNNING)
app.command(rich_help_panel=RESEARCH)(compare)
app.command(rich_help_panel=RESEARCH)(sweep)
app.command("reproduce", no_args_is_help=True, rich_help_panel=RESEARCH)(reproduce_paper)


def main() -> None:
    """Run the command line; errors that we raise on purpose become one line."""
    given = sys.argv[1:]
    try:
        app([word for word in given if word != "--debug"])  # it may stand anywhere
    except HoldcourseError as error:
        if "--debug" in given:
            raise
        Console(stderr=True).print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(1)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"holdcourse {hc.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Hold course unless it pays to change.

    Decisions that follow changing conditions when every change costs something:
    learn what each setting costs, see the conditions, move only when it pays.

    You have a year of data. Would it have paid off?
    Example: [bold]holdcourse backtest lidar.csv[/]

    You run a system. What should it do now, this hour and for months?
    Example: [bold]holdcourse serve --data fleet[/]

    You do research. Is your policy better than ours?
    Example: [bold]holdcourse compare --policies recommended,mine=mine.py:mine[/]

    New here: [bold]holdcourse demo[/]. Each command has examples in its own --help.
    The documentation begins at docs/index.md in the source.
    """


@app.command(rich_help_panel=RESEARCH)
def tree(
    actions: Annotated[Path, typer.Argument(help="CSV, one action a row, its coordinates as columns.")],
    metric: Metric = "euclidean",
    matrix: Matrix = None,
    directed: Directed = False,
    tau: Annotated[float, typer.Option(help="How much lighter each level is.")] = 5.0,
    seed: Annotated[int, typer.Option(help="Which random tree.")] = 0,
    as_json: Json = False,
) -> None:
    """The random tree that stands for a metric, and its stretch.

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


@app.command(rich_help_panel=SITE)
def optimum(
    costs: Annotated[Path, typer.Argument(help="CSV, one round a row, a column per action; a header names them.")],
    actions: Annotated[Path | None, typer.Option(help="CSV of action coordinates; default 0, 1, 2, ...")] = None,
    metric: Metric = "euclidean",
    matrix: Matrix = None,
    directed: Directed = False,
    start: Annotated[
        int | None, typer.Option(help="Action before the first round, counted from 0; default: free.")
    ] = None,
    as_json: Json = False,
) -> None:
    """What perfect foresight would have paid, the best fixed setting, and simple rules.

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
        found = {"rounds": len(table), "bills": _bill_rows(bills), "actions": best.actions.tolist()}
        typer.echo(json.dumps(found | {"names": [_name(problem, action) for action in range(problem.n)]}))
        return
    Console().print(_bill_table(bills, best.total, f"{len(table)} rounds, {problem.n} actions"))


@app.command(rich_help_panel=RUNNING)
def verify(
    log: Annotated[Path, typer.Argument(help="The record that a controller wrote.")],
    witness: Annotated[Path | None, typer.Option(help="File of what a witness was told of it.")] = None,
    key: Annotated[Path | None, typer.Option(help="File of the witness's key.")] = None,
    as_json: Json = False,
) -> None:
    """Decide every recorded round again and compare bit by bit.

    The record may be in use. Exit code 1 if anything differs or is missing.

    Example: [bold]holdcourse verify turbine.log[/]

    Example: [bold]holdcourse verify turbine.log --witness said.jsonl --key witness.key[/]
    """
    found = audit.verify(log, witness=witness, key=key)
    if as_json:
        typer.echo(json.dumps(asdict(found) | {"verified": found.verified}))
    else:
        for line in _verdict(log, found):
            typer.echo(line)
    if not found.verified:
        raise typer.Exit(1)


def _verdict(log: Path, found: audit.Verification) -> list[str]:
    if found.differences:
        outcome = f"{len(found.differences)} differences"
    else:
        outcome = "incomplete" if found.missing else "verified"
    lines = [f"{log}: {found.decisions} decisions, {found.tells} tells: {outcome}"]
    lines.append(f"  {found.events} events, the last has the hash {found.head}")
    if found.testimonies is not None:
        reach = f"up to event {found.witnessed}"
        lines.append(f"  statements of the witness that were compared: {found.testimonies}, {reach}")
    lines += [f"  {line}" for line in found.accepted]
    lines += [f"  {line}" for line in found.differences[:20]]
    if found.last_digits:
        lines.append(f"  {len(found.last_digits)} values differ in their last digits only; the decisions are the same")
    if found.missing:
        lines.append(f"  {found.missing}")
    lines += [f"  written with {name} {then}, checked with {now}" for name, then, now in found.versions]
    return lines


@app.command(rich_help_panel=RUNNING)
def backup(
    log: Annotated[Path, typer.Argument(help="The record that a controller wrote.")],
    target: Annotated[Path, typer.Argument(help="The copy, a new file.")],
) -> None:
    """Copy a record, whole, while its controller goes on.

    A plain copy of a record in use may miss its newest events; this one does not.

    Example: [bold]holdcourse backup turbine.log turbine-monday.log[/]
    """
    typer.echo(f"{target}: {audit.backup(log, target)} events of {log}, read back and whole")


@app.command(rich_help_panel=RUNNING)
def accept(
    log: Annotated[Path, typer.Argument(help="A record whose newest events are missing.")],
    reason: Annotated[str, typer.Option(help="Why it is taken as it is; becomes a part of the record.")],
) -> None:
    """Go on with a record whose newest events are missing.

    A controller refuses such a record: it would decide rounds again that a
    machine may have run. Bring back the missing part if you can.

    Example: [bold]holdcourse accept turbine.log --reason "the disk failed"[/]
    """
    typer.echo(f"{log} is taken as it is, with {audit.accept(log, reason)} events; the record says so")


@app.command(rich_help_panel=RUNNING)
def replay(
    log: Annotated[Path, typer.Argument(help="The record that a controller wrote.")],
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The other policy: gp-md, cgp-lcb, proximal-lcb, stationary, ...",
            autocompletion=completing(registry.names("problem")),
        ),
    ],
    as_json: Json = False,
) -> None:
    """What another policy would have done in a recorded run.

    In the same contexts, by the record's own model.

    Example: [bold]holdcourse replay turbine.log --policy cgp-lcb[/]
    """
    found = audit.replay(log, policy)
    bills = {"as recorded": found.recorded, policy: found.other, "perfect foresight": found.optimum}
    total, count = found.measured
    note = f"Estimates: every cost is the recorded model's, learned from {count} measurements (sum {total:.6g})."
    if as_json:
        typer.echo(json.dumps({"rounds": found.rounds, "bills": _bill_rows(bills), "note": note}))
        return
    Console().print(_bill_table(bills, found.optimum.total, f"{found.rounds} rounds, model-based"))
    typer.echo(note)


def _bill_rows(bills: dict[str, hc.PricedPath]) -> list[dict[str, Any]]:
    return [{"policy": k, "service": p.service, "movement": p.movement, "total": p.total} for k, p in bills.items()]


def _bill_table(bills: dict[str, hc.PricedPath], best: float, title: str) -> Table:
    shown = Table("policy", title=title)
    for name in ("service", "movement", "total", "of optimum"):
        shown.add_column(name, justify="right")
    for name, path in bills.items():
        ratio = f"{path.total / best:.2f}" if best > 0 else ""
        shown.add_row(name, *(_amount(cost) for cost in (path.service, path.movement, path.total)), ratio)
    return shown


def _amount(cost: float) -> str:
    return f"{cost:,.0f}" if 1e3 <= abs(cost) < 1e9 else f"{cost:.4g}"


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
    costs: Any = metric if matrix is None else Csv.read(matrix).numbers()
    return hc.Problem(points, metric=costs, directed=directed, labels=names if len(names) == len(points) else None)
