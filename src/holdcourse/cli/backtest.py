"""The commands `holdcourse backtest`, on wind data, and `holdcourse demo`; on readings: `plant_backtest`."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from typer.core import TyperCommand

from holdcourse.backtest.pictures import check_pictures
from holdcourse.cli import plant_backtest
from holdcourse.cli.arguments import (
    OUTPUT,
    AsJudged,
    Json,
    Save,
    check_out,
    check_save,
    checked_currency,
    checked_price,
    names_of,
    names_option,
    number_or_text,
    saved_words,
)
from holdcourse.cli.progress import BETWEEN, Working
from holdcourse.cli.wording import in_options
from holdcourse.deciding import registry
from holdcourse.errors import InvalidInput, MissingExtra, counted
from holdcourse.wind.backtest.bankable import Factors
from holdcourse.wind.backtest.forecast_skill import Skill
from holdcourse.wind.backtest.handover import curve_of, site_policy
from holdcourse.wind.backtest.run import DRAWS, Plan, SiteResult, Wind, run_backtest
from holdcourse.wind.files.awesio import constraints as read_constraints
from holdcourse.wind.files.awesio import read_awesio, write_awesio
from holdcourse.wind.files.csv_table import NoWindColumn
from holdcourse.wind.files.forecasts import Forecasts, read_forecasts
from holdcourse.wind.files.load import bundled
from holdcourse.wind.files.paths import expand
from holdcourse.wind.files.power_table import UnitWarning, read_curve
from holdcourse.wind.files.yamlfile import check_yaml
from holdcourse.wind.machines import Machine, machine_names
from holdcourse.wind.machines import machine as find_machine
from holdcourse.wind.physics import PowerCurve, paper_curve
from holdcourse.wind.report.page import write_report
from holdcourse.wind.report.tables import as_data, screen_tables, yearly_table

REPORT = Path("backtest-report")
DEMO_SITE, DEMO_FROM = "North Sea", "2009-01-01"
DEMO_WHAT_IF = (1 / 60, 0.1, 1.0)  # of the physical price: the paper's is 60 times as high

COLUMNS = (
    "Lost: energy spent on changing altitude. Against fixed: compared with staying at the best altitude in the history."
)
PAPER = (
    "wind-planner is our controller, gp-md the algorithm of the paper that holdcourse implements (NeurIPS 2022).\n"
    "Both measure the wind only where the machine flies."
)
KNOWING = "* knows wind that the machine cannot measure: a yardstick, not an option\n"
NEXT = """
Open the report in a browser: it shows every hour, why the kite moved, and the energy per year.
Your own wind: run holdcourse data info lidar.csv, then holdcourse backtest lidar.csv."""
DATA, MACHINE, FLYING = "Data", "Machine", "Flying"

MACHINE_OPTION = typer.Option(
    metavar="NAME|FILE", help=f"{', '.join(machine_names())}, or a file.", rich_help_panel=MACHINE
)

DATA_INFO = "holdcourse data info FILE shows which column may be which, and prints the command"
TO_COLUMNS = f"{DATA_INFO}."
TO_FILES = "Give files with wind, or a plant's readings with --log plant.csv."

app = typer.Typer(rich_markup_mode="rich", add_completion=False)


class WindOrReadings(TyperCommand):
    """`backtest FILE...` flies on wind data; `backtest --log` runs on a plant's readings, which takes other options."""

    @property
    def others(self) -> tuple[Any, ...]:
        """The command that it hands over to."""
        return (plant_backtest.COMMAND,)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Hand over to the other command where a plant's readings are given; say what helps if something is missing."""
        readings = any(word == "--log" or word.startswith("--log=") for word in args)
        asked = args[-2:] in (["--log", "--help"], ["--log", "-h"])  # which is not a file called --help
        try:
            if readings:
                return plant_backtest.COMMAND.make_context(info_name, ["--help"] if asked else args, parent, **extra)
            return super().make_context(info_name, args, parent, **extra)
        except typer.BadParameter as error:
            if not error.message:  # something is missing
                error.message = TO_COLUMNS if readings else TO_FILES
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a plant's table without --log is the mistake of many who come for the first time."""
        try:
            return super().invoke(ctx)
        except NoWindColumn as error:
            error.args = (
                f"{error}. If this is a plant's table, give it with --log: {DATA_INFO}. For the wind of a wind farm, "
                "run holdcourse wakes",
            )
            raise


@app.command(cls=WindOrReadings)
def backtest(
    files: Annotated[list[str], typer.Argument(help="Wind of one site: files or patterns (NetCDF, GRIB, CSV, ZIP).")],
    history: Annotated[
        list[str] | None,
        typer.Option(help="Wind before the test; policies learn from it.", rich_help_panel=DATA),
    ] = None,
    allow_later_history: Annotated[
        bool,
        typer.Option(
            "--allow-later-history",
            help="Also learn from wind after the test. That is hindsight.",
            rich_help_panel=DATA,
        ),
    ] = False,
    begin: Annotated[
        str | None, typer.Option("--from", help="Start of the test, UTC: 2023-01-01.", rich_help_panel=DATA)
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="End of the test, UTC.", rich_help_panel=DATA)] = None,
    lat: Annotated[
        list[float] | None,
        typer.Option(help="Latitude of the site; repeat it for several sites.", rich_help_panel=DATA),
    ] = None,
    lon: Annotated[
        list[float] | None,
        typer.Option(help="Longitude of the site; repeat it for several sites.", rich_help_panel=DATA),
    ] = None,
    each: Annotated[
        bool, typer.Option("--each", help="Treat every file as a separate site.", rich_help_panel=DATA)
    ] = False,
    name: Annotated[
        list[str] | None, typer.Option(help="Name of the site; repeat it for several sites.", rich_help_panel=DATA)
    ] = None,
    units: Annotated[
        str | None, typer.Option(help="Unit of speed in a CSV: m/s, km/h, kn, mph.", rich_help_panel=DATA)
    ] = None,
    timezone: Annotated[str | None, typer.Option(help="Time zone of the times in a CSV.", rich_help_panel=DATA)] = None,
    time_format: Annotated[
        str | None, typer.Option(help="How times in a CSV are written, e.g. %d/%m/%Y.", rich_help_panel=DATA)
    ] = None,
    header_line: Annotated[
        int | None, typer.Option(help="Number of the line that names the columns of a CSV.", rich_help_panel=DATA)
    ] = None,
    surface_height: Annotated[
        float | None, typer.Option(help="Height of the ground, m above sea.", rich_help_panel=DATA)
    ] = None,
    max_missing: Annotated[
        float, typer.Option(help="Largest share of missing speeds that is accepted.", rich_help_panel=DATA)
    ] = 0.3,
    max_gap: Annotated[float, typer.Option(help="Longest gap that is filled in, hours.", rich_help_panel=DATA)] = 3.0,
    hourly: Annotated[
        bool, typer.Option("--hourly", help="Average the wind over full hours.", rich_help_panel=DATA)
    ] = False,
    low: Annotated[float | None, typer.Option(help="Lowest altitude, m.", rich_help_panel=MACHINE)] = None,
    high: Annotated[float | None, typer.Option(help="Highest altitude, m.", rich_help_panel=MACHINE)] = None,
    count: Annotated[int, typer.Option(help="Number of altitudes.", rich_help_panel=MACHINE)] = 25,
    altitudes: Annotated[
        str | None,
        typer.Option(metavar="METRES", help="The altitudes themselves, m: 100,150,200,300.", rich_help_panel=MACHINE),
    ] = None,
    machine: Annotated[str | None, MACHINE_OPTION] = None,
    constraints: Annotated[
        Path | None,
        typer.Option(help="awesIO operational constraints: ceiling and minimum height.", rich_help_panel=MACHINE),
    ] = None,
    curve: Annotated[
        Path | None,
        typer.Option(help="CSV of speed and power: m/s and kW, or as its header says.", rich_help_panel=MACHINE),
    ] = None,
    rated_speed: Annotated[
        float | None, typer.Option(help="Rated speed of the paper's curve, m/s (12).", rich_help_panel=MACHINE)
    ] = None,
    cut_in: Annotated[
        float | None, typer.Option(help="Cut-in wind speed, m/s: no power below.", rich_help_panel=MACHINE)
    ] = None,
    cut_out: Annotated[
        float | None, typer.Option(help="Cut-out wind speed, m/s: no power above.", rich_help_panel=MACHINE)
    ] = None,
    movement: Annotated[
        str,
        typer.Option(
            help="Cost of moving: paper, physical (1/60 of it), kWh per m, '20 Wh/m'.", rich_help_panel=MACHINE
        ),
    ] = "paper",
    climb: Annotated[
        str | None,
        typer.Option(help="kWh per m up, or '20 Wh/m'; with --sink, not --movement.", rich_help_panel=MACHINE),
    ] = None,
    sink: Annotated[str | None, typer.Option(help="kWh per m down, or '5 Wh/m'.", rich_help_panel=MACHINE)] = None,
    rho: Annotated[
        float, typer.Option(help="Weight of energy made relative to energy lost.", rich_help_panel=MACHINE)
    ] = 1.0,
    price: Annotated[
        float | None, typer.Option(help="Price of one kWh; the results then include money.", rich_help_panel=MACHINE)
    ] = None,
    currency: Annotated[str, typer.Option(help="Currency of the price: EUR, NOK.", rich_help_panel=MACHINE)] = "",
    availability: Annotated[
        float, typer.Option(help="Percent of the time that the machine can fly.", rich_help_panel=MACHINE)
    ] = 100.0,
    losses: Annotated[
        float, typer.Option(help="Percent of energy lost before the meter.", rich_help_panel=MACHINE)
    ] = 0.0,
    uncertainty: Annotated[
        float | None,
        typer.Option(help="Error of wind data and curve, percent of energy.", rich_help_panel=MACHINE),
    ] = None,
    forecast_error: Annotated[
        str | None,
        typer.Option(
            metavar="M/S,M/S", help="Error of forecasts 1 h and 24 h ahead, m/s: 1.4,2.2.", rich_help_panel=MACHINE
        ),
    ] = None,
    forecasts: Annotated[
        list[str] | None,
        typer.Option(help="Forecasts of the past to fit their error to (CSV, JSON, GRIB).", rich_help_panel=MACHINE),
    ] = None,
    policies: Annotated[
        list[str] | None,
        names_option("--policies", "Policies to fly, e.g. fixed,gp-md; default: most.", registry.names("wind"), FLYING),
    ] = None,
    start: Annotated[
        float | None,
        typer.Option(help="Altitude before the first hour, m; default: the middle.", rich_help_panel=FLYING),
    ] = None,
    context: Annotated[
        Literal["hour", "periodic"], typer.Option(help="How policies get the hour of the day.", rich_help_panel=FLYING)
    ] = "hour",
    hyperparameters: Annotated[
        Literal["paper", "fitted"],
        typer.Option(help="Use those of the paper, or fit them to the history.", rich_help_panel=FLYING),
    ] = "paper",
    prior_mean: Annotated[
        float | None,
        typer.Option(help="Wind expected at first, m/s; default: the mean of the history.", rich_help_panel=FLYING),
    ] = None,
    gauge_noise: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Standard error of the wind gauge, m/s; default: estimated.", rich_help_panel=FLYING
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of policies that draw at random.", rich_help_panel=FLYING)] = 0,
    draws: Annotated[
        int, typer.Option(help="Number of seeds for a policy that draws at random.", rich_help_panel=FLYING)
    ] = DRAWS,
    what_if: Annotated[
        str | None,
        typer.Option(metavar="NUMBERS", help="Other weights rho to try: 1,2,4, or none.", rich_help_panel=FLYING),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help=f"Folder of the report (default {REPORT}; with --json none).", rich_help_panel=OUTPUT),
    ] = None,
    pictures: Annotated[
        bool | None,
        typer.Option(help="Also draw PNG files; default: if matplotlib is installed.", rich_help_panel=OUTPUT),
    ] = None,
    awesio: Annotated[
        Path | None,
        typer.Option(help="Write the judged policy's power curve in awesIO format.", rich_help_panel=OUTPUT),
    ] = None,
    save_policy: Save = None,
    as_judged: AsJudged = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of a table.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Would it have paid off? Run policies on a plant's readings, or on your wind.

    For a plant, give its readings with --log; holdcourse backtest --log --help
    lists the options. For wind, give its files and the options below. Without
    --history, the first quarter of the wind data serves as history.

    Example: [bold]holdcourse backtest lidar.csv[/]

    Example: [bold]holdcourse backtest 2023.nc --history 2022.nc --lat 53 --lon -10[/]

    Example: [bold]holdcourse backtest lidar.csv --machine skysails --price 0.09[/]

    Example: [bold]holdcourse backtest west.csv east.csv --each --out sites[/]

    Example: [bold]holdcourse backtest lidar.csv --save site.policy[/]
    """
    check_save(save_policy, as_judged)
    plan = Plan(
        low=low,
        high=high,
        count=count,
        begin=begin,
        end=end,
        machine=_machine(machine, curve, rated_speed, cut_in, cut_out),
        curve=_curve(curve, rated_speed, cut_in, cut_out),
        altitudes=_altitudes(altitudes),
        constraints=None if constraints is None else read_constraints(read_awesio(constraints)),
        allow_later_history=allow_later_history,
        draws=draws,
        factors=_factors(availability, losses, uncertainty),
        skill=_skill(forecast_error),
        forecasts=_forecasts(forecasts, forecast_error, lat or [], lon or []),
        movement=_movement(movement, climb, sink),
        rho=rho,
        context=context,
        hyperparameters=hyperparameters,
        prior_mean=prior_mean,
        gauge_noise=gauge_noise,
        start_altitude=start,
        policies=names_of(policies),
        max_gap=max_gap,
        hourly=hourly,
        seed=seed,
        what_if=_numbers(what_if),
        price=checked_price(price),
        currency=checked_currency(currency, price),
    )
    loading: dict[str, Any] = {"units": units, "timezone": timezone, "time_format": time_format}
    loading |= {"header_line": header_line, "surface_height": surface_height, "max_missing": max_missing}
    sites = _sites(files, history, each, lat or [], lon or [], name or [], loading)
    if save_policy is not None and len(sites) > 1:
        raise InvalidInput(f"--save writes the policy of one site, but there are {len(sites)}; run them one by one")
    folder = REPORT if out is None and not as_json else out
    if awesio is not None:
        if len(sites) > 1:
            raise InvalidInput(
                f"--awesio writes the curve of one site, but there are {len(sites)}; run them one by one"
            )
        check_yaml(awesio)
    _run_and_show(sites, plan, folder, pictures, as_json, save_policy, as_judged, awesio)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("demo"),
    machine: Annotated[str | None, MACHINE_OPTION] = None,
    movement: Annotated[
        str | None, typer.Option(help="Cost of moving: paper, physical, '20 Wh/m'.", rich_help_panel=MACHINE)
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a backtest on bundled wind: a SkySails kite in the North Sea.

    The kite flies two years, with the year before them as history. For comparison,
    the paper's own machine flies half a year. With --machine or --movement, only
    that machine or price is flown.

    Example: [bold]holdcourse demo --out demo[/]

    Example: [bold]holdcourse demo --machine v3 --movement paper[/]
    """
    wind = bundled("all")
    paid = "physical" if movement is None else _movement(movement, None, None)
    others = DEMO_WHAT_IF if paid == "physical" else None
    plan = Plan(machine=_machine(machine or "skysails"), movement=paid, begin=DEMO_FROM, what_if=others)
    sites = [SiteFiles(wind, None, f"{DEMO_SITE}, {machine or 'SkySails kite'}", {})]
    if machine is None and movement is None:
        paper = Plan(begin="2010-07-01", policies=("fixed", "wind-planner", "gp-md"), what_if=())
        sites.append(SiteFiles(wind, None, f"{DEMO_SITE}, the paper's setting", {}, paper))
    _run_and_show(sites, plan, out, None, as_json)
    if not as_json:
        typer.echo(NEXT)


@dataclass(frozen=True)
class SiteFiles:
    """What to load for one site, and what to call it (None: what the data say); a plan where it has one of its own."""

    wind: Wind
    history: Wind | None
    name: str | None
    loading: dict[str, Any]
    plan: Plan | None = None


def _curve(path: Path | None, rated_speed: float | None, cut_in: float | None, cut_out: float | None) -> PowerCurve:
    """Return the machine: the paper's, or the table in a file."""
    if path is None:
        rated = {} if rated_speed is None else {"rated_speed": rated_speed}
        return paper_curve(cut_in=cut_in or 0.0, cut_out=math.inf if cut_out is None else cut_out, **rated)
    if rated_speed is not None:
        raise InvalidInput("a curve from a file has its own rated speed; leave out --rated-speed")
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", UnitWarning)
        found = read_curve(path, cut_in, cut_out)
    for warning in raised:
        typer.echo(f"warning: {warning.message}", err=True)
    return found


def _machine(
    name: str | None,
    curve: Path | None = None,
    rated_speed: float | None = None,
    cut_in: float | None = None,
    cut_out: float | None = None,
) -> Machine | None:
    """Return the machine that is named."""
    if name is None:
        return None
    if curve is not None or rated_speed is not None:
        raise InvalidInput("--machine brings its own power curve; leave out --curve and --rated-speed")
    found = find_machine(name)
    return replace(found, curve=found.curve.within(cut_in, cut_out))


def _factors(availability: float, losses: float, uncertainty: float | None) -> Factors:
    """Return shares from the percent that are given."""
    for name, percent in (("availability", availability), ("losses", losses), ("uncertainty", uncertainty)):
        if percent is not None and not 0 <= percent <= 100:
            raise InvalidInput(f"--{name} is a percentage, from 0 to 100, got {percent:g}")
    if 0 < availability <= 1:
        raise InvalidInput(
            f"--availability is a percentage, got {availability:g}; for a share, write {100 * availability:g}"
        )
    return Factors(availability / 100, losses / 100, None if uncertainty is None else uncertainty / 100)


def _skill(text: str | None) -> Skill:
    """Return how wrong forecasts are, as stated."""
    if text is None:
        return Skill()
    try:
        first, day = (float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(f"--forecast-error takes two errors in m/s such as 1.4,2.2, got {text!r}") from None
    return Skill(first, day, source="as stated")


def _forecasts(
    files: list[str] | None, stated: str | None, lat: list[float], lon: list[float]
) -> tuple[Forecasts, ...]:
    """Read what was forecast, at the site."""
    if not files:
        return ()
    if stated is not None:
        raise InvalidInput("--forecasts fits the error of forecasts and --forecast-error states it; leave one out")
    if len(lat) > 1:
        raise InvalidInput(f"--forecasts belong to one site, but there are {len(lat)}; run the sites one by one")
    return tuple(read_forecasts(files, lat=lat[0] if lat else None, lon=lon[0] if lon else None))


def _altitudes(text: str | None) -> tuple[float, ...] | None:
    """Read altitudes separated by commas, in metres."""
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(f"--altitudes takes metres such as 100,150,200, got {text!r}") from None


def _movement(movement: str, climb: str | None, sink: str | None) -> str | float | tuple[str | float, str | float]:
    """Return the cost of moving, as a `Plan` takes it."""
    if (climb is None) != (sink is None):
        raise InvalidInput("--climb and --sink belong together; give both")
    if climb is not None and sink is not None:
        if movement != "paper":
            raise InvalidInput("--climb and --sink replace --movement; leave it out")
        return number_or_text(climb), number_or_text(sink)
    return number_or_text(movement)


def _numbers(text: str | None) -> tuple[float, ...] | None:
    """Read numbers separated by commas; an empty tuple for "none"."""
    if text is None:
        return None
    if text.strip().lower() in ("none", ""):
        return ()
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(0 < number < math.inf for number in found):
        raise InvalidInput(f"--what-if takes numbers above 0 such as 1,2,4, or none, got {text!r}")
    return found


def _sites(
    files: list[str],
    history: list[str] | None,
    each: bool,
    lat: list[float],
    lon: list[float],
    names: list[str],
    loading: dict[str, Any],
) -> list[SiteFiles]:
    """Return which files and coordinates make up which site."""
    if len(lat) != len(lon):
        raise InvalidInput(
            f"every site needs both --lat and --lon, got {counted(len(lat), 'latitude')} and "
            f"{counted(len(lon), 'longitude')}"
        )
    if each:
        found = _each(files, history, lat, lon, loading)
    else:
        past: Wind | None = history or None
        points = [{"lat": y, "lon": x} for y, x in zip(lat, lon, strict=True)] or [{}]
        found = [SiteFiles(files, past, None, loading | point) for point in points]
    if names and len(names) != len(found):
        raise InvalidInput(f"give {counted(len(found), 'name')} with --name, one for each site; got {len(names)}")
    return [replace(site, name=name) for site, name in zip(found, names, strict=True)] if names else found


def _each(
    files: list[str], history: list[str] | None, lat: list[float], lon: list[float], loading: dict[str, Any]
) -> list[SiteFiles]:
    """Take every file as a site; histories and coordinates go with them in order."""
    paths = [[str(path)] for path in expand(files)]
    pasts: list[list[str] | None] = [None] * len(paths) if not history else [[str(p)] for p in expand(history)]
    if len(pasts) != len(paths) or len(lat) not in (0, len(paths)):
        raise InvalidInput(
            "with --each, every file needs its own history and coordinates, or none has any; got "
            f"{counted(len(paths), 'file')}, {counted(len(pasts) if history else 0, 'history', 'histories')} and "
            f"{counted(len(lat), 'pair')} of coordinates"
        )
    points: list[dict[str, float]] = [{"lat": y, "lon": x} for y, x in zip(lat, lon, strict=True)]
    points = points or [{} for _ in paths]
    names = [Path(path[0]).name.split(".")[0] for path in paths]
    return [
        SiteFiles(path, past, name, loading | point)
        for path, past, name, point in zip(paths, pasts, names, points, strict=True)
    ]


def _run_and_show(
    sites: Sequence[SiteFiles],
    plan: Plan,
    out: Path | None,
    pictures: bool | None,
    as_json: bool,
    save_to: Path | None = None,
    as_judged: bool = False,
    awesio: Path | None = None,
) -> None:
    # What the result could not be written with or to is told before the work, not after it.
    check_out(out)
    missing = _missing_pictures() if out is not None else None
    if pictures and missing is not None:
        raise missing
    results = _run(sites, plan)
    drawn = missing is None if pictures is None else pictures
    paths = [] if out is None else write_report(results, out, pictures=drawn, wording=_in_own_options)
    saved = []
    if awesio is not None:
        write_awesio(curve_of(results[0]), awesio)
        saved.append(f"\npower curve: {awesio}")
    if save_to is not None:
        policy = site_policy(results[0], as_judged=as_judged)
        policy.save(save_to)
        saved += saved_words(save_to, policy)
    if as_json:
        report = {"report": str(paths[0]), "files": [str(path) for path in paths]} if paths else {}
        data = as_data(results)
        for site, result in zip(data["sites"], results, strict=True):
            site["notes"], site["warnings"] = _in_own_options(result.notes), _in_own_options(result.warnings)
        typer.echo(json.dumps(data | report | ({} if save_to is None else {"saved": str(save_to)})))
        return
    _show(results)
    for words in saved:
        typer.echo(words)
    if paths:
        typer.echo(f"report: {paths[0]}")
    if missing is not None and pictures is None:
        typer.echo(f"note: no PNG files: {missing}", err=True)


def _in_own_options(texts: Iterable[str]) -> list[str]:
    return in_options(texts, typer.main.get_command(app))


def _run(sites: Sequence[SiteFiles], plan: Plan) -> list[SiteResult]:
    results: list[SiteResult] = []
    with Working("reading", lines=BETWEEN) as working:
        for number, site in enumerate(sites):

            def tell(what: str, done: int, total: int, number: int = number) -> None:
                working.tell(what, number + done / max(total, 1), len(sites))

            told = site.plan or plan
            results.append(
                run_backtest(site.wind, site.history, told, site=site.name, progress=tell, processes=2, **site.loading)
            )
    return results


def _show(results: Sequence[SiteResult]) -> None:
    """Print the answers, then the tables, then what was assumed; the report has the rest."""
    console = Console()

    def say(text: str, style: str = "") -> None:
        console.print(text, style=style, highlight=False, markup=False)

    for result in results:
        say(f"{result.site}, {result.period}", "bold underline")
        say(result.backtest.conclusion, "bold")
        say(f"{result.flown_words} Use --machine and --movement for others.")
        for text in _in_own_options(result.warnings):
            say(f"warning: {text}")
        console.print()
    for table in screen_tables(results, console.width):
        console.print(table)
        console.print()
    named = [PAPER] if any("gp-md" in result.backtest.flights for result in results) else []
    say("\n".join([COLUMNS, *named, KNOWING]))
    per_year = yearly_table(results)
    if per_year is not None:
        console.print(per_year)
        console.print()
        if len(results) > 1:
            assumed = next(result.bankable.assumed for result in results if result.bankable is not None)
            say(f"{assumed} The report has the capacity factor, and how often such figures came true.\n")
    for result in results:
        at = f" ({result.site})" if len(results) > 1 else ""
        for text in () if result.bankable is None or at else result.bankable.brief:
            say(text)
        for note in (f"data{at}: {result.source}", *_in_own_options(result.assumptions)):
            say(note, "dim")
        console.print()


def _missing_pictures() -> MissingExtra | None:
    try:
        check_pictures()
    except MissingExtra as error:
        return error
    return None
