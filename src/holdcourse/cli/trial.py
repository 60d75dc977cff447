"""The command `holdcourse trial`: trials that measure what a policy brings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from holdcourse.cli.arguments import Json, Trusted
from holdcourse.trials.answer import answer
from holdcourse.trials.record import read_trial
from holdcourse.trials.report import summary, write_report

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="Did it pay? Trials that measure it.",
)


@app.callback()
def group() -> None:
    """Did it pay? Trials that measure it."""


@app.command("report")
def report(
    records: Annotated[list[Path], typer.Argument(help="The controller's record; of several epochs, oldest first.")],
    cycle: Annotated[
        int | None, typer.Option(help="Rounds of a day, where the limits do not say how long a round is.", min=2)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for report.html, rounds.csv and pairs.csv.")] = None,
    trust: Trusted = None,
    as_json: Json = False,
) -> None:
    """What a trial has measured so far.

    The record may be in use, and it may be looked at as often as you like: the interval in the headline is right at
    every look.

    Example: [bold]holdcourse trial report turbine.log[/]

    Example: [bold]holdcourse trial report turbine.log --cycle 24 --out trial[/]
    """
    found = read_trial(*records, trust=trust or ())
    measured = answer(found.blocks, cycle=cycle or found.day)
    if as_json:
        typer.echo(json.dumps(measured.to_data() | {"policy": found.policy, "against": found.against}))
    else:
        console = Console()
        for line in summary(found, measured):
            console.print(line)
    if out is not None:
        written = write_report(found, measured, out)
        if not as_json:
            typer.echo(f"written: {', '.join(str(path) for path in written)}")
