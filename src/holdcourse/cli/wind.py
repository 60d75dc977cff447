"""The command `holdcourse wind`: machines, by name or file, and maps of where altitude control pays."""

from __future__ import annotations

import json
import multiprocessing
import os
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer
from rich.console import Console
from rich.table import Column, Table

from holdcourse.cli.arguments import Json, check_out
from holdcourse.cli.wording import in_options, with_options
from holdcourse.errors import InvalidInput
from holdcourse.wind.machines import Machine, machine, machine_names

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="List airborne machines, and map where altitude control pays.",
)
SHOWN = 24  # points of a curve
BACKTEST_OPTIONS = {"cut_out": "--cut-out"}  # that a remedy may name


@app.callback()
def group() -> None:
    """List airborne machines, and map where altitude control pays."""


@app.command("machines")
def machines(
    names: Annotated[
        list[str] | None, typer.Argument(help="Only these: names, or files (.csv, awesIO .yml, WAsP .wtg).")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the machines that we know: power, reference wind, cost of moving, source.

    The two costs of moving are those of --movement paper and --movement physical.
    If you name machines, everything known about them is shown, with the power curve.

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
        Column("moving, kWh/m\npaper", justify="right"),
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
        wind = each.wind_words[0].upper() + each.wind_words[1:]
        console.print(f"\n[bold]{each.name}[/]: {each.title}. {wind}.", highlight=False)
        console.print(f"Source: {each.source}", style="dim", highlight=False, markup=False)
    typer.echo("\nall about one: holdcourse wind machines skysails")


def _describe(console: Console, each: Machine) -> None:
    console.print(f"[bold]{each.name}[/]: {each.title}", highlight=False)
    facts = [
        f"power: at most {each.curve.largest_power:.1f} kW, reached at {each.curve.rated_speed:.1f} m/s",
        f"curve: by {each.wind_words}",
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


@app.command("map", no_args_is_help=True)
def wind_map_command(
    files: Annotated[
        list[str],
        typer.Argument(help="Files of gridded wind: ERA5 as NetCDF or GRIB, with its single-level file."),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the map; the same command resumes an interrupted map.")],
    machine_name: Annotated[
        str, typer.Option("--machine", metavar="NAME|FILE", help="Machine, by name or file.")
    ] = "textbook",
    low: Annotated[float, typer.Option(help="Lowest altitude, m.")] = 50.0,
    high: Annotated[float, typer.Option(help="Highest altitude, m.")] = 500.0,
    count: Annotated[int, typer.Option(help="Number of altitudes.")] = 12,
    movement: Annotated[
        str, typer.Option(help="Cost of a metre of altitude: physical, paper, or '20 Wh/m'.")
    ] = "physical",
    surface_height: Annotated[
        float | None, typer.Option(help="Height of the ground above sea level, m, if no file says; 0 at sea.")
    ] = None,
    block: Annotated[
        int | None, typer.Option(help="Grid points along each side of a block; default: about 128 MB of wind.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Number of blocks at a time; default: one per processor.")] = None,
    dask: Annotated[
        str | None, typer.Option(help="Compute on the Dask cluster at this address, e.g. tcp://10.0.0.1:8786.")
    ] = None,
    form: Annotated[Literal["netcdf", "zarr"], typer.Option("--format", help="Format of the map file.")] = "netcdf",
    fresh: Annotated[bool, typer.Option("--fresh", help="Remove the blocks in the folder first.")] = False,
    as_json: Json = False,
) -> None:
    """Map where altitude control pays: fly the wind planner at every point of a grid.

    The map holds, for each point: the best fixed altitude, the gain of control over a fixed altitude, the gain that a
    year exceeds with 90 % probability (P90), and moves per day. It is a NetCDF or Zarr file and a picture.

    Example: [bold]holdcourse wind map era5_2010_*.nc --machine skysails --out north_sea[/]

    Example: [bold]holdcourse wind map era5_*.nc --out europe --dask tcp://10.0.0.1:8786[/]
    """
    from holdcourse.cli.experiments import executor_of, resumable
    from holdcourse.cli.progress import Working
    from holdcourse.experiments.workers import available_processors
    from holdcourse.wind.maps.run import WAITING, MapPlan, check_extras, draw_map, wind_map, write_map

    check_out(out)
    if workers is not None and workers < 1:
        raise InvalidInput(f"workers must be 1 or more, got {workers}")
    if block is not None and block < 1:
        raise InvalidInput(f"block must be 1 or more, got {block}")
    check_extras(form)
    price = float(movement) if movement.replace(".", "", 1).isdigit() else movement
    plan = MapPlan(machine_name, low, high, count, price, surface_height)
    with ExitStack() as stack, resumable(out, "blocks"), Working("reading the grid") as shown:
        at_once, cluster = 1, stack.enter_context(executor_of(dask))
        if cluster is not None:
            executors, at_once = [lambda: cluster], WAITING
        else:
            several = workers or available_processors()
            executors = [one_worker] * several if several > 1 else []
        found = wind_map(
            files,
            plan,
            out,
            executors=executors,
            at_once=at_once,
            side=block,
            fresh=fresh,
            progress=lambda done, total: shown.tell(f"block {done} of {total}", done, total),
        )
        data, picture = write_map(found, form), draw_map(found)
    words = in_options(found.words, typer.main.get_command(app))
    if as_json:
        medians = {name: _median(array) for name, array in found.figures.items()}
        typer.echo(json.dumps({"map": str(data), "picture": str(picture), "words": words, "median": medians}))
        return
    for line in words:
        typer.echo(line)
    typer.echo(f"map: {data}\npicture: {picture}")


def _median(values: np.ndarray) -> float | None:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else None


def one_worker() -> Executor:
    """Start a process of its own: where it dies, the others go on."""
    from holdcourse import threads

    os.environ.update({name: value for name, value in threads.ENVIRONMENT.items() if name not in os.environ})
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
