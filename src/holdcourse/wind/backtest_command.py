"""The commands `holdcourse backtest` and `holdcourse demo`: parse, call, print."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from holdcourse import registry
from holdcourse.arguments import Json, check_out, names_of, names_option
from holdcourse.errors import MissingExtra
from holdcourse.wind import backtest_options as options
from holdcourse.wind.backtest_options import SiteFiles
from holdcourse.wind.bundled import bundled
from holdcourse.wind.pictures import check_pictures
from holdcourse.wind.report import write_report
from holdcourse.wind.run import Plan, SiteResult, run_backtest
from holdcourse.wind.tables import as_data, screen_tables

REPORT = Path("backtest-report")

DATA, MACHINE, FLYING, OUTPUT = "Data", "Machine", "Flying", "Output"


def backtest(
    files: Annotated[list[str], typer.Argument(help="Wind of one site: files or patterns (NetCDF, GRIB, CSV, ZIP).")],
    history: Annotated[
        list[str] | None,
        typer.Option(help="Wind before the test, to choose the fixed altitude on.", rich_help_panel=DATA),
    ] = None,
    begin: Annotated[str | None, typer.Option("--from", help="Test from here on, UTC.", rich_help_panel=DATA)] = None,
    end: Annotated[str | None, typer.Option("--to", help="Test up to here, UTC.", rich_help_panel=DATA)] = None,
    lat: Annotated[list[float] | None, typer.Option(help="Latitude; repeat for sites.", rich_help_panel=DATA)] = None,
    lon: Annotated[list[float] | None, typer.Option(help="Longitude; repeat for sites.", rich_help_panel=DATA)] = None,
    each: Annotated[bool, typer.Option("--each", help="Every file is a site.", rich_help_panel=DATA)] = False,
    name: Annotated[list[str] | None, typer.Option(help="Name of the site, or sites.", rich_help_panel=DATA)] = None,
    units: Annotated[
        str | None, typer.Option(help="Of speed in a CSV: m/s, km/h, kn, mph.", rich_help_panel=DATA)
    ] = None,
    timezone: Annotated[str | None, typer.Option(help="Of times in a CSV.", rich_help_panel=DATA)] = None,
    time_format: Annotated[
        str | None, typer.Option(help="Of times in a CSV, e.g. %d/%m/%Y.", rich_help_panel=DATA)
    ] = None,
    surface_height: Annotated[
        float | None, typer.Option(help="Height of the ground, m above sea.", rich_help_panel=DATA)
    ] = None,
    max_gap: Annotated[float, typer.Option(help="Fill gaps up to so many hours.", rich_help_panel=DATA)] = 3.0,
    hourly: Annotated[bool, typer.Option("--hourly", help="Average over hours.", rich_help_panel=DATA)] = False,
    low: Annotated[float | None, typer.Option(help="Lowest altitude, m.", rich_help_panel=MACHINE)] = None,
    high: Annotated[float | None, typer.Option(help="Highest altitude, m.", rich_help_panel=MACHINE)] = None,
    count: Annotated[int, typer.Option(help="Number of altitudes.", rich_help_panel=MACHINE)] = 25,
    curve: Annotated[
        Path | None, typer.Option(help="CSV of speed in m/s and power in kW.", rich_help_panel=MACHINE)
    ] = None,
    rated_speed: Annotated[
        float | None, typer.Option(help="Of the paper's curve, m/s (12).", rich_help_panel=MACHINE)
    ] = None,
    cut_in: Annotated[float | None, typer.Option(help="No power below, m/s.", rich_help_panel=MACHINE)] = None,
    cut_out: Annotated[float | None, typer.Option(help="No power above, m/s.", rich_help_panel=MACHINE)] = None,
    movement: Annotated[
        str, typer.Option(help="Cost of moving: paper, physical (1/60 of it), or kWh per m.", rich_help_panel=MACHINE)
    ] = "paper",
    climb: Annotated[
        float | None, typer.Option(help="kWh per m up; with --sink, not --movement.", rich_help_panel=MACHINE)
    ] = None,
    sink: Annotated[float | None, typer.Option(help="kWh per metre down.", rich_help_panel=MACHINE)] = None,
    rho: Annotated[
        float, typer.Option(help="Weight of energy made against energy lost.", rich_help_panel=MACHINE)
    ] = 1.0,
    price: Annotated[float | None, typer.Option(help="Price of one kWh: adds money.", rich_help_panel=MACHINE)] = None,
    policies: Annotated[
        list[str] | None,
        names_option("--policies", "Which policies, e.g. fixed,gp-md; default most.", registry.names("wind"), FLYING),
    ] = None,
    start: Annotated[
        float | None, typer.Option(help="Altitude before the first hour, m; default middle.", rich_help_panel=FLYING)
    ] = None,
    context: Annotated[
        Literal["hour", "periodic"], typer.Option(help="How the hour of the day is seen.", rich_help_panel=FLYING)
    ] = "hour",
    hyperparameters: Annotated[
        Literal["paper", "fitted"], typer.Option(help="The paper's, or fitted on history.", rich_help_panel=FLYING)
    ] = "paper",
    prior_mean: Annotated[
        float | None, typer.Option(help="Wind expected at first, m/s; default of history.", rich_help_panel=FLYING)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of policies that draw.", rich_help_panel=FLYING)] = 0,
    what_if: Annotated[
        str | None, typer.Option(metavar="NUMBERS", help="Other rho to try: 1,2,4, or none.", rich_help_panel=FLYING)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help=f"Folder of the report (default {REPORT}; with --json none).", rich_help_panel=OUTPUT),
    ] = None,
    pictures: Annotated[
        bool | None, typer.Option(help="PNG files too; default if possible.", rich_help_panel=OUTPUT)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of a table.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Would altitude control have paid off? Every policy on your wind.

    Without other history, the first quarter of the record is taken for it.

    Example: [bold]holdcourse backtest lidar.csv[/]

    Example: [bold]holdcourse backtest 2023.nc --history 2022.nc --lat 53 --lon -10[/]

    Example: [bold]holdcourse backtest lidar.csv --curve machine.csv --price 0.09[/]

    Example: [bold]holdcourse backtest west.csv east.csv --each --out sites[/]
    """
    plan = Plan(
        low=low,
        high=high,
        count=count,
        begin=begin,
        end=end,
        curve=options.curve(curve, rated_speed, cut_in, cut_out),
        movement=options.movement(movement, climb, sink),
        rho=rho,
        context=context,
        hyperparameters=hyperparameters,
        prior_mean=prior_mean,
        start_altitude=start,
        policies=names_of(policies),
        max_gap=max_gap,
        hourly=hourly,
        seed=seed,
        what_if=options.numbers(what_if),
        price=options.price(price),
    )
    loading = {"units": units, "timezone": timezone, "time_format": time_format, "surface_height": surface_height}
    sites = options.sites(files, history, each, lat or [], lon or [], name or [], loading)
    _run_and_show(sites, plan, REPORT if out is None and not as_json else out, pictures, as_json)


def demo(
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("demo"),
    as_json: Json = False,
) -> None:
    """A backtest on bundled wind: half a year in the North Sea.

    With the two and a half years before it as history.

    Example: [bold]holdcourse demo --out demo[/]
    """
    site = SiteFiles(bundled("test"), bundled("history"), "North Sea, 53.32 N 1.32 E", {})
    _run_and_show([site], Plan(), out, None, as_json)


def _run_and_show(
    sites: Sequence[SiteFiles], plan: Plan, out: Path | None, pictures: bool | None, as_json: bool
) -> None:
    # What the result could not be written with or to is told before the work, not after it.
    check_out(out)
    missing = _missing_pictures() if out is not None else None
    if pictures and missing is not None:
        raise missing
    results = _run(sites, plan)
    drawn = missing is None if pictures is None else pictures
    paths = [] if out is None else write_report(results, out, pictures=drawn)
    if as_json:
        report = {"report": str(paths[0]), "files": [str(path) for path in paths]} if paths else {}
        typer.echo(json.dumps(as_data(results) | report))
        return
    _show(results)
    if paths:
        typer.echo(f"report: {paths[0]}")
    if missing is not None and pictures is None:
        typer.echo(f"note: no PNG files: {missing}", err=True)


def _run(sites: Sequence[SiteFiles], plan: Plan) -> list[SiteResult]:
    console = Console(stderr=True)
    results: list[SiteResult] = []
    bar = Progress(
        TextColumn("{task.description:<28.28}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    with ExitStack() as stack:
        if console.is_terminal:
            stack.enter_context(bar)
        for site in sites:
            task = bar.add_task("reading", total=None)

            def tell(what: str, done: int, total: int, task: Any = task) -> None:
                bar.update(task, description=what, completed=done, total=total)

            results.append(run_backtest(site.wind, site.history, plan, site=site.name, progress=tell, **site.loading))
            bar.remove_task(task)
    return results


def _show(results: Sequence[SiteResult]) -> None:
    console = Console()
    for table in screen_tables(results, console.width):
        console.print(table)
        console.print()
    typer.echo("* knows wind that no gauge on the machine could tell; a yardstick, not a choice")
    for result in results:
        at = f"{result.site}: " if len(results) > 1 else ""
        console.print()
        console.print(f"{at}{result.backtest.conclusion}", style="bold", highlight=False, markup=False)
        for text in result.warnings:
            console.print(f"warning: {text}", highlight=False, markup=False)
        for note in (f"data: {result.source}", *result.notes):
            console.print(note, style="dim", highlight=False, markup=False)


def _missing_pictures() -> MissingExtra | None:
    try:
        check_pictures()
    except MissingExtra as error:
        return error
    return None
