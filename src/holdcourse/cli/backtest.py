"""The commands `holdcourse backtest`, on wind data or on a plant's own readings, and `holdcourse demo`."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperCommand

from holdcourse import archive
from holdcourse.backtest.beside import beside
from holdcourse.backtest.csvfile import Csv
from holdcourse.backtest.evidence import Judge
from holdcourse.backtest.handover import plant_policy
from holdcourse.backtest.move_prices import MovePrices
from holdcourse.backtest.plant import AS_RUN, POLICIES, Value, backtest_plant, judge_of
from holdcourse.backtest.readings import Duplicates, read_readings
from holdcourse.backtest.report import write_report as write_plant_report
from holdcourse.cli.arguments import (
    HOW,
    Decimal,
    Directed,
    Encoding,
    HeaderLine,
    Json,
    Matrix,
    Missing,
    Separator,
    Sheet,
    Thousands,
    Time,
    TimeFormat,
    Timezone,
    check_out,
    names_of,
    names_option,
)
from holdcourse.cli.progress import Working
from holdcourse.cli.wording import options_of, with_options
from holdcourse.deciding import registry
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.registry import label_of
from holdcourse.errors import InvalidInput, MissingExtra
from holdcourse.experiments.plots import plot_model_check
from holdcourse.experiments.policies import make_policy, policy_names, sources_of
from holdcourse.experiments.results import digits_of
from holdcourse.experiments.style import save
from holdcourse.learning.checking import ModelCheck, check_model
from holdcourse.movement.problem import Problem
from holdcourse.running.database import refuse_record
from holdcourse.running.limits import Limits
from holdcourse.units import quantity
from holdcourse.wind.backtest.bankable import Factors
from holdcourse.wind.backtest.handover import site_policy
from holdcourse.wind.backtest.knowing import Skill
from holdcourse.wind.backtest.run import DRAWS, Plan, SiteResult, Wind, run_backtest
from holdcourse.wind.files.awesio import constraints as read_constraints
from holdcourse.wind.files.awesio import read_awesio, write_awesio
from holdcourse.wind.files.forecasts import Forecasts, read_forecasts
from holdcourse.wind.files.load import bundled
from holdcourse.wind.files.paths import expand
from holdcourse.wind.files.yamlfile import check_yaml
from holdcourse.wind.machines import Machine, machine_names
from holdcourse.wind.machines import machine as find_machine
from holdcourse.wind.physics import PowerCurve, UnitWarning, paper_curve, read_curve
from holdcourse.wind.report.curve_export import curve_of
from holdcourse.wind.report.page import write_report
from holdcourse.wind.report.pictures import check_pictures
from holdcourse.wind.report.tables import as_data, screen_tables

REPORT = Path("backtest-report")
DEMO_SITE, DEMO_FROM = "North Sea", "2009-01-01"
DEMO_WHAT_IF = (1 / 60, 0.1, 1.0)  # of the physical price: the paper's is 60 times as high
MANY_READINGS = 2000  # from which on they are checked beside the backtest

DATA, MACHINE, FLYING, OUTPUT = "Data", "Machine", "Flying", "Output"

MACHINE_OPTION = typer.Option(
    metavar="NAME|FILE", help=f"{', '.join(machine_names())}, or a file.", rich_help_panel=MACHINE
)

app = typer.Typer(rich_markup_mode="rich", add_completion=False)
plant_app = typer.Typer(
    add_completion=False, rich_markup_mode="rich", context_settings={"help_option_names": ["-h", "--help"]}
)


Save = Annotated[
    Path | None,
    typer.Option(
        "--save",
        metavar="FILE",
        help="Save the policy that the answer is about, ready to run.",
        rich_help_panel=OUTPUT,
    ),
]
AsJudged = Annotated[
    bool,
    typer.Option("--as-judged", help="Save it as judged, without what it learned in the test.", rich_help_panel=OUTPUT),
]


def check_save(path: Path | None, as_judged: bool) -> None:
    """Raise where a policy could not be saved, before work that takes long."""
    if path is None:
        if as_judged:
            raise InvalidInput("--as-judged says what to save; give --save FILE too")
        return
    if path.is_dir():
        raise InvalidInput(f"cannot write a policy to {path}: it is a folder; name a file in it")
    if not path.absolute().parent.is_dir():
        raise InvalidInput(f"cannot write {path}: there is no folder {path.parent}; make it first")
    archive.check_writable(path.absolute().parent)


def saved_words(path: Path, policy: Policy) -> list[str]:
    """Return what was saved, and how to go on with it."""
    evidence = policy.evidence
    learned = "" if evidence is None else f" It has learned from {evidence.learned}."
    return [f"\nsaved: {path}, {policy.name}.{learned}", f"to see what it is: holdcourse policy show {path}"]


# -- a plant's own readings -------------------------------------------------------------------------------------------


def _csv(path: Path) -> Path:
    """Refuse a controller's own record before the columns are asked for: it has none."""
    refuse_record(path, "--log reads a CSV, an Excel sheet or a Parquet file")
    return path


@plant_app.command()
def backtest_log(
    log: Annotated[
        Path,
        typer.Option(callback=_csv, help="The plant's readings: CSV, Excel or Parquet, a row per measurement."),
    ],
    action: Annotated[str, typer.Option(help="Column of the setting that ran.")],
    cost: Annotated[str, typer.Option(help="Column of what was measured.")],
    context: Annotated[list[str], typer.Option(help="Known before deciding: 'load, outdoor, hour, load@-24h'.")],
    time: Time = None,
    bins: Annotated[int | None, typer.Option(help="Number of bins for settings that vary continuously.")] = None,
    move_cost: Annotated[
        str, typer.Option(help="Cost of moving a setting by one unit: a number, or a price such as '20 Wh/m'.")
    ] = "1",
    fixed_cost: Annotated[
        str, typer.Option(help="Cost of every move besides: a number, or '0.5 EUR per change'.")
    ] = "0",
    unit: Annotated[str, typer.Option(help="Unit of the settings: m, °C.")] = "",
    cost_unit: Annotated[str, typer.Option(help="Unit of what was measured: kWh, EUR.")] = "",
    matrix: Matrix = None,
    directed: Directed = False,
    policies: Annotated[
        list[str] | None,
        names_option("--policies", "Which policies, e.g. recommended,mine=mine.py:mine.", policy_names()),
    ] = None,
    max_step: Annotated[
        str | None, typer.Option(help="Longest step in operation, in units of the setting: 2, or '2 K'.")
    ] = None,
    dwell: Annotated[str, typer.Option(help="Least dwell time in operation: rounds, or '4 h'.")] = "1",
    price: Annotated[float | None, typer.Option(help="Price of one kWh; the results then include money.")] = None,
    rho: Annotated[float, typer.Option(help="Weight of the service cost.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of every random number in the run.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for report.html, tables and pictures.")] = None,
    save_policy: Save = None,
    as_judged: AsJudged = False,
    as_json: Json = False,
    named: Annotated[
        bool, typer.Option("--named", help="Treat settings as names, even if they look like numbers.")
    ] = False,
    timezone: Timezone = None,
    time_format: TimeFormat = None,
    separator: Separator = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    encoding: Encoding = None,
    header_line: HeaderLine = None,
    sheet: Sheet = None,
    missing: Missing = None,
    duplicates: Annotated[
        str,
        typer.Option(help="If rows of one time differ: refuse, first, last or keep.", rich_help_panel=HOW),
    ] = "refuse",
) -> None:
    """Would it have paid off at your plant? Policies on its own readings.

    What other settings would have cost is estimated by a model of the readings.

    Example:
    [bold]holdcourse backtest --log plant.csv --context load --action setting --cost kwh[/]
    """
    check_save(save_policy, as_judged)
    with Working("reading"):
        found_readings = read_readings(
            log,
            action=action,
            cost=cost,
            context=context,
            time=time,
            bins=bins,
            named=named,
            timezone=timezone,
            time_format=time_format,
            separator=separator,
            decimal=decimal,
            thousands=thousands,
            encoding=encoding,
            header_line=header_line,
            sheet=sheet,
            missing=missing,
            duplicates=cast(Duplicates, duplicates),
        )
    readings, step = found_readings.history, found_readings.step
    unit = unit or found_readings.units.get(found_readings.action, "")
    cost_unit = cost_unit or found_readings.units.get(found_readings.cost, "")
    paid = MovePrices(_each_round(cost_unit, step), step, _price(price), "--price")
    problem = found_readings.problem(
        "euclidean" if matrix is None else Csv.read(matrix).numbers(),
        scale=paid.of(_number_or_text(move_cost), "--move-cost"),
        fixed_cost=paid.of(_number_or_text(fixed_cost), "--fixed-cost"),
        directed=directed,
        unit=unit,
        cost_unit=paid.unit,
    )
    found_readings = replace(found_readings, notes=(*found_readings.notes, *paid.notes))
    limits = None
    if max_step is not None or dwell != "1":
        if step is None and quantity(re.sub(r"[\d\s.,]", "", dwell)) == "time":
            raise InvalidInput(f"--dwell {dwell!r} is a time; name the column of the times with --time, or give rounds")
        stay, longest = _number_or_text(dwell), None if max_step is None else _number_or_text(max_step)
        kept = int(stay) if isinstance(stay, float) and stay.is_integer() else stay
        limits = Limits(min_dwell=kept, max_step=longest, round_length=None if step is None else 3600 * step)
        limits = limits.on(problem)
    wanted = names_of(policies) or POLICIES
    sources = sources_of(wanted)
    check_out(out)

    def make(name: str, problem: Problem, learning: Mapping[str, Any], options: Mapping[str, Any]) -> Policy:
        return make_policy(name, problem, learning, options, sources[name])

    value = Value.of(cost_unit or None, step, _price(price))

    def looked_at() -> tuple[Judge, ModelCheck]:
        """What needs no policy, and is done beside these."""
        judge = judge_of(problem, readings, rho=rho, seed=seed, step_hours=step)
        return judge, check_model(problem, readings, context_names=found_readings.context)

    many = len(readings) >= MANY_READINGS
    with beside(looked_at, worthwhile=many) as later, Working("reading") as working:
        beside_them = cache(later.result)
        found = backtest_plant(
            problem,
            readings,
            make,
            tuple(sources),
            rho=rho,
            seed=seed,
            context_names=found_readings.context,
            step_hours=step,
            value=value,
            limits=limits,
            judge=(lambda: beside_them()[0]) if many else None,
            progress=lambda what, done, total: working.tell(what, done, 1.05 * total),
        )
        working.tell("checking the model", 1.0, 1.05)
        names = found_readings.context
        check = beside_them()[1] if many else check_model(problem, readings, context_names=names)
        policy = None
        if save_policy is not None:
            working.tell("learning from all readings", 1.03, 1.05)
            units = {"action": unit, "measurement": cost_unit or found_readings.cost}
            asked = zip(found_readings.context, found_readings.context_units, strict=True)
            units["context"] = ", ".join(
                f"{name} ({each})" if each and each not in name else name for name, each in asked
            )
            policy = plant_policy(
                found,
                make,
                as_judged=as_judged,
                source=log.name,
                times=found_readings.times,
                files=[log],
                units=units,
            )
            policy.save(save_policy, limits=limits)
    data = found.as_values() | {"check": check.as_values(), "reading": list(found_readings.notes)}
    paths: list[Path] = []
    saved = []
    if save_policy is not None and policy is not None:
        data["saved"], saved = str(save_policy), saved_words(save_policy, policy)
    if out is not None:
        more = {"check": data["check"], "reading": data["reading"]}
        paths = write_plant_report(found, found_readings, out, check.words, more)
        _draw(check, out)
    if as_json:
        typer.echo(json.dumps(data | ({"report": str(paths[0])} if paths else {})))
        return
    table = Table("policy", title=f"{log.name}: {len(readings)} rounds, {problem.n} settings; model-based")
    for heading in ("service", "movement", "total", "saved", "95 % interval"):
        table.add_column(heading, justify="right")
    largest = max(abs(cost) for line in found.lines for cost in (line.service, line.movement, line.total))
    digits = 4 if largest < 1 else digits_of(largest)
    for line in found.lines:
        numbers = (f"{cost:,.{digits}f}" for cost in (line.service, line.movement, line.total))
        bounds = "" if line.policy == AS_RUN else f"{line.low:+.1f}..{line.high:+.1f} %"
        told = f"{line.saved:+.1f} %", bounds
        if found.support is not None and not found.support.enough:
            told = "?", "?"  # no number where the readings cannot tell
        table.add_row(label_of(line.policy), *numbers, *told)
    Console().print(table)
    for note in (*(f"data: {note}" for note in _in_options(found_readings.notes, PLANT_COMMAND)), *found.notes):
        typer.echo(note)
    typer.echo("\nCan these readings be learned from?")
    for sentence in check.words:
        typer.echo(f"- {sentence}")
    Console().print(f"\n{found.conclusion}", style="bold", highlight=False, markup=False)
    for words in saved:
        typer.echo(words)


def _each_round(unit: str, step: float | None) -> str:
    """Return the unit of what a round costs: a power, held for an hour, is as much energy."""
    return f"{unit}h" if step == 1.0 and unit in ("W", "kW", "MW", "GW") else unit


def _draw(check: ModelCheck, out: Path) -> None:
    """Write the picture of a check, where there is something to draw and something to draw it with."""
    if not check.enough:
        return
    try:
        save(plot_model_check(check), out, "model-check")
    except MissingExtra as missing:
        typer.echo(f"note: no picture: {missing}", err=True)


class WindOrReadings(TyperCommand):
    """`backtest FILE...` flies on wind data; `backtest --log` runs on a plant's readings, which takes other options."""

    @property
    def others(self) -> tuple[Any, ...]:
        """The command that it hands over to."""
        return (PLANT_COMMAND,)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Hand over to the other command where a plant's readings are given."""
        if any(word == "--log" or word.startswith("--log=") for word in args):
            return PLANT_COMMAND.make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


PLANT_COMMAND = typer.main.get_command(plant_app)


# -- wind -------------------------------------------------------------------------------------------------------------


@app.command(cls=WindOrReadings, epilog="For a plant's own readings: holdcourse backtest --log plant.csv --help")
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
    lat: Annotated[list[float] | None, typer.Option(help="Latitude; repeat for sites.", rich_help_panel=DATA)] = None,
    lon: Annotated[list[float] | None, typer.Option(help="Longitude; repeat for sites.", rich_help_panel=DATA)] = None,
    each: Annotated[
        bool, typer.Option("--each", help="Treat every file as a site of its own.", rich_help_panel=DATA)
    ] = False,
    name: Annotated[list[str] | None, typer.Option(help="Name of the site, or sites.", rich_help_panel=DATA)] = None,
    units: Annotated[
        str | None, typer.Option(help="Unit of speed in a CSV: m/s, km/h, kn, mph.", rich_help_panel=DATA)
    ] = None,
    timezone: Annotated[str | None, typer.Option(help="Zone of the times in a CSV.", rich_help_panel=DATA)] = None,
    time_format: Annotated[
        str | None, typer.Option(help="How times in a CSV are written, e.g. %d/%m/%Y.", rich_help_panel=DATA)
    ] = None,
    surface_height: Annotated[
        float | None, typer.Option(help="Height of the ground, m above sea.", rich_help_panel=DATA)
    ] = None,
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
        typer.Option(help="awesIO operational constraints: ceiling and least height.", rich_help_panel=MACHINE),
    ] = None,
    curve: Annotated[
        Path | None,
        typer.Option(help="CSV of speed and power: m/s and kW, or as its header says.", rich_help_panel=MACHINE),
    ] = None,
    rated_speed: Annotated[
        float | None, typer.Option(help="Rated speed of the paper's curve, m/s (12).", rich_help_panel=MACHINE)
    ] = None,
    cut_in: Annotated[float | None, typer.Option(help="No power below, m/s.", rich_help_panel=MACHINE)] = None,
    cut_out: Annotated[float | None, typer.Option(help="No power above, m/s.", rich_help_panel=MACHINE)] = None,
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
        float, typer.Option(help="Weight of energy made against energy lost.", rich_help_panel=MACHINE)
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
        names_option("--policies", "Which policies, e.g. fixed,gp-md; default: most.", registry.names("wind"), FLYING),
    ] = None,
    start: Annotated[
        float | None,
        typer.Option(help="Altitude before the first hour, m; default: the middle.", rich_help_panel=FLYING),
    ] = None,
    context: Annotated[
        Literal["hour", "periodic"], typer.Option(help="How policies see the hour of the day.", rich_help_panel=FLYING)
    ] = "hour",
    hyperparameters: Annotated[
        Literal["paper", "fitted"], typer.Option(help="The paper's, or fitted on history.", rich_help_panel=FLYING)
    ] = "paper",
    prior_mean: Annotated[
        float | None,
        typer.Option(help="Wind expected at first, m/s; default: the history's mean.", rich_help_panel=FLYING),
    ] = None,
    gauge_noise: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Standard error of the wind gauge, m/s; default: estimated.", rich_help_panel=FLYING
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of policies that draw at random.", rich_help_panel=FLYING)] = 0,
    draws: Annotated[
        int, typer.Option(help="How many seeds a policy that draws at random gets.", rich_help_panel=FLYING)
    ] = DRAWS,
    what_if: Annotated[
        str | None, typer.Option(metavar="NUMBERS", help="Other rho to try: 1,2,4, or none.", rich_help_panel=FLYING)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help=f"Folder of the report (default {REPORT}; with --json none).", rich_help_panel=OUTPUT),
    ] = None,
    pictures: Annotated[
        bool | None, typer.Option(help="Also draw PNG files; default: if matplotlib is there.", rich_help_panel=OUTPUT)
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
    """Would altitude control have paid off? Every policy on your wind.

    Without --history, the first quarter of the wind data serves as history.

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
        price=_price(price),
        currency=_currency(currency, price),
    )
    loading = {"units": units, "timezone": timezone, "time_format": time_format, "surface_height": surface_height}
    sites = _sites(files, history, each, lat or [], lon or [], name or [], loading)
    if save_policy is not None and len(sites) > 1:
        raise InvalidInput(f"--save writes the policy of one site, and there are {len(sites)}; run them one by one")
    folder = REPORT if out is None and not as_json else out
    if awesio is not None:
        if len(sites) > 1:
            raise InvalidInput(
                f"--awesio writes the curve of one site, and there are {len(sites)}; run them one by one"
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
    """A backtest on bundled wind: a SkySails kite in the North Sea.

    The kite flies two years, with the year before them as history. Beside it the
    paper's own machine flies half a year. With --machine or --movement, only
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
            raise InvalidInput(f"--{name} is in percent, from 0 to 100, got {percent:g}")
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
        raise InvalidInput(f"--forecasts are those of one site, and there are {len(lat)}; run them one by one")
    return tuple(read_forecasts(files, lat=lat[0] if lat else None, lon=lon[0] if lon else None))


def _currency(text: str, price: float | None) -> str:
    """Return the currency of the price."""
    if text and price is None:
        raise InvalidInput(f"--currency {text} belongs to a price; give --price too")
    if len(text) > 12 or not text.isprintable():
        raise InvalidInput(f"--currency is a short name such as EUR, got {text!r}")
    return text.strip()


def _altitudes(text: str | None) -> tuple[float, ...] | None:
    """Read altitudes separated by commas, in metres."""
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(f"--altitudes takes metres such as 100,150,200, got {text!r}") from None


def _number_or_text(given: str) -> float | str:
    """Return a number, or the text of a price, which the problem reads in its units."""
    try:
        return float(given)
    except ValueError:
        return given


def _movement(movement: str, climb: str | None, sink: str | None) -> str | float | tuple[str | float, str | float]:
    """Return the cost of moving, as a `Plan` takes it."""
    if (climb is None) != (sink is None):
        raise InvalidInput("--climb and --sink go together: give both")
    if climb is not None and sink is not None:
        if movement != "paper":
            raise InvalidInput("--climb and --sink replace --movement; leave it out")
        return _number_or_text(climb), _number_or_text(sink)
    return _number_or_text(movement)


def _price(price: float | None) -> float | None:
    """Return the price of a kWh; it may be 0 or negative, as markets are."""
    if price is not None and not math.isfinite(price):
        raise InvalidInput(f"the price of a kWh must be a number, got {price}")
    return price


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
        raise InvalidInput(f"every site needs --lat and --lon, got {len(lat)} and {len(lon)}")
    if each:
        found = _each(files, history, lat, lon, loading)
    else:
        past: Wind | None = history or None
        points = [{"lat": y, "lon": x} for y, x in zip(lat, lon, strict=True)] or [{}]
        found = [SiteFiles(files, past, None, loading | point) for point in points]
    if names and len(names) != len(found):
        raise InvalidInput(f"{len(names)} names for {len(found)} sites; give one --name for each")
    return [replace(site, name=name) for site, name in zip(found, names, strict=True)] if names else found


def _each(
    files: list[str], history: list[str] | None, lat: list[float], lon: list[float], loading: dict[str, Any]
) -> list[SiteFiles]:
    """Take every file as a site; histories and coordinates go with them in order."""
    paths = [[str(path)] for path in expand(files)]
    pasts: list[list[str] | None] = [None] * len(paths) if not history else [[str(p)] for p in expand(history)]
    if len(pasts) != len(paths) or len(lat) not in (0, len(paths)):
        raise InvalidInput(
            f"with --each, histories and coordinates go one to one with the files: {len(paths)} files, "
            f"{len(pasts)} histories, {len(lat)} coordinates"
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
    paths = [] if out is None else write_report(results, out, pictures=drawn)
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
            site["notes"], site["warnings"] = _in_options(result.notes), _in_options(result.warnings)
        typer.echo(json.dumps(data | report | ({} if save_to is None else {"saved": str(save_to)})))
        return
    _show(results)
    for words in saved:
        typer.echo(words)
    if paths:
        typer.echo(f"report: {paths[0]}")
    if missing is not None and pictures is None:
        typer.echo(f"note: no PNG files: {missing}", err=True)


def _run(sites: Sequence[SiteFiles], plan: Plan) -> list[SiteResult]:
    results: list[SiteResult] = []
    with Working("reading") as working:
        for number, site in enumerate(sites):

            def tell(what: str, done: int, total: int, number: int = number) -> None:
                working.tell(what, number + done / max(total, 1), len(sites))

            told = site.plan or plan
            results.append(
                run_backtest(site.wind, site.history, told, site=site.name, progress=tell, processes=2, **site.loading)
            )
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
        for text in () if result.bankable is None else result.bankable.words:
            console.print(text, highlight=False, markup=False)
        for text in _in_options(result.warnings):
            console.print(f"warning: {text}", highlight=False, markup=False)
        for note in (f"data: {result.source}", *_in_options(result.notes)):
            console.print(note, style="dim", highlight=False, markup=False)


def _in_options(texts: Iterable[str], command: Any = None) -> list[str]:
    """Return what the library says about a backtest, in the words of this command."""
    options = options_of(command or typer.main.get_command(app))
    return [with_options(text, options) for text in texts]


def _missing_pictures() -> MissingExtra | None:
    try:
        check_pictures()
    except MissingExtra as error:
        return error
    return None
