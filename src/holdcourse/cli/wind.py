"""The command `holdcourse wind`: machines that come with holdcourse, and what files of machines hold."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from holdcourse.cli.arguments import Json
from holdcourse.cli.wording import with_options
from holdcourse.wind.machines import Machine, machine, machine_names

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode="rich", help="Machines that fly, by name or file."
)
SHOWN = 24  # points of a curve
BACKTEST_OPTIONS = {"cut_out": "--cut-out"}  # that a remedy may name


@app.callback()
def group() -> None:
    """Machines that fly, by name or file."""


@app.command("machines")
def machines(
    names: Annotated[
        list[str] | None, typer.Argument(help="Only these: names, or files (.csv, awesIO .yml, WAsP .wtg).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Machines with a name: power, which wind it is by, cost of moving, source.

    Of one or several that are named: everything known, with the curve.

    Example: [bold]holdcourse wind machines[/]

    Example: [bold]holdcourse wind machines skysails[/]

    Example: [bold]holdcourse wind machines v3 --json[/]
    """
    found = [machine(name) for name in names or machine_names()]
    if as_json:
        typer.echo(json.dumps({"machines": [each.as_values() for each in found]}))
        return
    console = Console()
    if names:
        for each in found:
            _describe(console, each)
        return
    table = Table(
        Column("machine", no_wrap=True),
        Column("at most\nkW", justify="right"),
        Column("rated\nm/s", justify="right"),
        Column("wind at", justify="right", no_wrap=True),
        Column("moving, kWh/m\nprinted", justify="right"),
        Column("\nphysical", justify="right"),
        "licence",
        box=None,
        pad_edge=False,
    )
    for each in found:
        height = "altitude" if each.reference_height is None else f"{each.reference_height:g} m"
        table.add_row(
            each.name,
            f"{each.curve.largest_power:.1f}",
            f"{each.curve.rated_speed:.1f}",
            height,
            f"{each.movement_cost('paper'):.3f}",
            f"{each.movement_cost('physical'):.4f}",
            each.licence,
        )
    console.print(table)
    for each in found:
        console.print(f"\n[bold]{each.name}[/]: {each.title}. {each.wind_words}.", highlight=False)
        console.print(f"from {each.source}", style="dim", highlight=False, markup=False)
    typer.echo("\nall about one: holdcourse wind machines skysails")


def _describe(console: Console, each: Machine) -> None:
    console.print(f"[bold]{each.name}[/]: {each.title}", highlight=False)
    facts = [
        f"power: at most {each.curve.largest_power:.1f} kW, reached at {each.curve.rated_speed:.1f} m/s",
        f"by: {each.wind_words}",
        f"moving: {each.movement_words}",
        *(f"note: {with_options(note, BACKTEST_OPTIONS)}" for note in each.notes),
        f"source: {each.source}",
        f"licence: {each.licence}",
    ]
    for fact in facts:
        console.print(fact, highlight=False, markup=False)
    values = each.as_values()
    heights = values["altitudes_m"]
    rows = [values["power_kw"]] if heights is None else values["power_kw"]
    heads = ["kW"] if heights is None else [f"kW, {height:g} m" for height in heights]
    table = Table("m/s", *(Column(head, justify="right") for head in heads), box=None, pad_edge=False)
    speeds = values["speeds_m_s"]
    chosen = range(0, len(speeds), max(1, -(-len(speeds) // SHOWN)))
    for k in chosen:
        table.add_row(f"{speeds[k]:.2f}", *(f"{row[k]:.2f}" for row in rows))
    console.print(table)
    console.print()
