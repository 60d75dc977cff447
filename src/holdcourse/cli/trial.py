"""The command `holdcourse trial`: trials of a policy against a baseline, planned beforehand, and what they measured."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import holdcourse as hc
from holdcourse.backtest.readings import Duplicates, Readings, read_readings
from holdcourse.cli.arguments import (
    HOW,
    Decimal,
    Duplicated,
    Encoding,
    HeaderLine,
    Json,
    KeepAll,
    Missing,
    Separator,
    Sheet,
    Thousands,
    Time,
    TimeFormat,
    Timezone,
    Trusted,
    check_out,
)
from holdcourse.cli.plant_backtest import priced_problem
from holdcourse.cli.progress import BETWEEN, Working
from holdcourse.cli.wording import in_options
from holdcourse.deciding.policy import Policy
from holdcourse.errors import InvalidInput, MissingExtra
from holdcourse.experiments.plots import plot_plan
from holdcourse.experiments.style import save
from holdcourse.running.database import refuse_record
from holdcourse.tables.columns import listed
from holdcourse.trials.answer import answer
from holdcourse.trials.plan import (
    GAINS,
    LENGTHS,
    LIFETIME,
    Paths,
    Rehearse,
    TrialPlan,
    check_terms,
    percent,
    plan_of,
    rehearsal_of,
    run_both,
)
from holdcourse.trials.record import read_trial
from holdcourse.trials.report import summary, write_report
from holdcourse.wind.backtest.paths import left_out_paths, policy_paths
from holdcourse.wind.backtest.run import Plan
from holdcourse.wind.files.load import bundled, load
from holdcourse.worlds.logged import LoggedWorld

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="Did it pay? Plan a trial against a baseline, and report its result.",
)

PLANT, WIND = "A plant's readings", "Wind"


@app.callback()
def group() -> None:
    """Did it pay? Plan a trial against a baseline, and report its result."""


@app.command("plan")
def plan_command(
    ctx: typer.Context,
    policy: Annotated[
        Path | None, typer.Argument(help="A saved policy; default: our recommended policy, learned from the data.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option(help="The plant's readings: CSV, Excel or Parquet.", rich_help_panel=PLANT)
    ] = None,
    action: Annotated[str | None, typer.Option(help="Column of the setting that ran.", rich_help_panel=PLANT)] = None,
    cost: Annotated[str | None, typer.Option(help="Column of what was measured.", rich_help_panel=PLANT)] = None,
    context: Annotated[
        list[str] | None,
        typer.Option(help="What is known before deciding: 'load, outdoor, hour'.", rich_help_panel=PLANT),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="Setting to compare with; default: the setting that ran most often, or earns most."),
    ] = None,
    move_cost: Annotated[
        str,
        typer.Option(
            help="Cost of moving by one unit: a number, or '20 Wh/m'; a saved policy knows it.", rich_help_panel=PLANT
        ),
    ] = "1",
    fixed_cost: Annotated[
        str, typer.Option(help="Fixed cost of every move, in addition; a saved policy knows it.", rich_help_panel=PLANT)
    ] = "0",
    bins: Annotated[
        int | None, typer.Option(help="Number of bins for settings that vary continuously.", rich_help_panel=PLANT)
    ] = None,
    named: Annotated[
        bool,
        typer.Option("--named", help="Treat settings as names, even if they look like numbers.", rich_help_panel=PLANT),
    ] = False,
    wind: Annotated[
        list[str] | None, typer.Option(help="Wind of one site; 'demo' takes the bundled wind.", rich_help_panel=WIND)
    ] = None,
    history: Annotated[
        list[str] | None, typer.Option(help="Earlier wind of the site, which is flown too.", rich_help_panel=WIND)
    ] = None,
    lat: Annotated[float | None, typer.Option(help="Latitude of the site.", rich_help_panel=WIND)] = None,
    lon: Annotated[float | None, typer.Option(help="Longitude of the site.", rich_help_panel=WIND)] = None,
    surface_height: Annotated[
        float | None, typer.Option(help="Height of the ground, m above sea.", rich_help_panel=WIND)
    ] = None,
    units: Annotated[
        str | None, typer.Option(help="Unit of speed in a CSV: m/s, km/h, kn, mph.", rich_help_panel=WIND)
    ] = None,
    max_missing: Annotated[
        float, typer.Option(help="Largest share of missing speeds that is accepted.", rich_help_panel=WIND)
    ] = 0.3,
    movement: Annotated[
        str,
        typer.Option(help="Cost of moving: paper, physical, kWh per m; a saved policy knows it.", rich_help_panel=WIND),
    ] = "physical",
    gain: Annotated[float | None, typer.Option(help="Gain to detect, %; default: the gain in the simulation.")] = None,
    blocks: Annotated[
        str | None, typer.Option(metavar="NUMBERS", help="Block lengths to compare, in rounds: 2,4,8.")
    ] = None,
    hours: Annotated[float | None, typer.Option(help="Hours of a round; default: from the times in the data.")] = None,
    rehearsals: Annotated[
        int, typer.Option(help="Largest number of rehearsals of the trial, which show what learning changes.", min=0)
    ] = 4,
    trust: Trusted = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the picture, PNG and SVG.")] = None,
    as_json: Json = False,
    time: Time = None,
    timezone: Timezone = None,
    time_format: TimeFormat = None,
    separator: Separator = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    encoding: Encoding = None,
    header_line: HeaderLine = None,
    sheet: Sheet = None,
    missing: Missing = None,
    duplicates: Duplicated = "refuse",
    keep_all: KeepAll = False,
) -> None:
    """Plan a trial: how long it would take to know whether the policy pays.

    Runs the policy and the baseline in a simulation of your plant or wind, and draws
    the order of their blocks at random, many times. Nothing is switched.

    Example: [bold]holdcourse trial plan --wind demo[/]

    Example: [bold]holdcourse trial plan --wind lidar.csv --gain 3 --out plan[/]

    Example: [bold]holdcourse trial plan site.policy --wind lidar.csv[/]

    Example:
    [bold]holdcourse trial plan --log m.csv --action rpm --cost kw --context t --hours 1[/]

    With a policy that a backtest saved, give the options about the file and its columns as in that backtest.
    """
    lengths = _lengths(blocks)
    check_terms(gain, hours)
    check_out(out)
    if (log is None) == (wind is None):
        raise InvalidInput("give the data to simulate with: a plant's readings with --log, or wind with --wind")
    _refuse_needless(ctx, "--wind" if log is None else "--log", saved=policy is not None)
    loaded = None
    if policy is not None:
        refuse_record(policy, "a plan needs a policy file")
        loaded = hc.load_policy(policy, trust=tuple(trust or ()))
    stay, slow = _slowed(loaded) if log is not None else (1, "")
    with Working("reading", lines=BETWEEN) as working:
        if log is not None:
            if action is None or cost is None or not context:
                raise InvalidInput("--log needs --action, --cost and --context: the names of its columns")
            refuse_record(log, "--log reads a CSV, an Excel sheet or a Parquet file")
            read = read_readings(
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
            believed = read if keep_all else read.believable()
            for note in in_options(believed.notes[len(read.notes) :], typer.main.get_command(app)):
                typer.echo(f"data: {note}", err=True)
            prices = move_cost, fixed_cost
            paths, rehearse, step, against = _plant_paths(believed, hours, loaded, baseline, prices, seed, working)
        else:
            against = ""
            reading = {"lat": lat, "lon": lon, "surface_height": surface_height, "units": units, "timezone": timezone}
            reading |= {"time_format": time_format, "header_line": header_line, "max_missing": max_missing}
            paths, rehearse, step = _wind_paths(wind or [], history, movement, loaded, baseline, seed, reading, working)
        found = plan_of(
            paths,
            gain=gain,
            hours=step if hours is None else hours,
            blocks=lengths or [length for length in LENGTHS if length >= 2 * stay] or [2 * stay],
            rehearse=rehearse,
            rehearsals=rehearsals,
            seed=seed,
            progress=working.tell,
        )
    more = [f"The baseline always runs {against}."] * bool(against) + [slow] * bool(slow)
    drawn = [] if out is None else _draw(found, out)
    if as_json:
        typer.echo(json.dumps(found.to_data() | ({"pictures": [str(path) for path in drawn]} if drawn else {})))
        return
    _show(found, more)
    for path in drawn[:1]:
        typer.echo(f"picture: {path}")


@app.command("report")
def report(
    records: Annotated[
        list[str], typer.Argument(help="The controller's record; if it has several epochs, oldest first.")
    ],
    cycle: Annotated[
        int | None, typer.Option(help="Rounds per day, if the limits do not say how long a round is.", min=2)
    ] = None,
    drop: Annotated[
        int | None,
        typer.Option(
            help="First rounds of each block to leave out, to check for carry-over; default: a quarter.", min=1
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for report.html, rounds.csv and pairs.csv.")] = None,
    trust: Trusted = None,
    as_json: Json = False,
) -> None:
    """Report what a trial has measured so far.

    The controller may be running, and you may look as often as you like: the interval
    in the headline is right at every look.

    Example: [bold]holdcourse trial report turbine.log[/]

    Example: [bold]holdcourse trial report turbine.log --cycle 24 --out trial[/]
    """
    found = read_trial(*records, trust=trust or ())
    measured = answer(found.blocks, cycle=cycle or found.day, drop=drop)
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


def _refuse_needless(ctx: typer.Context, data: str, *, saved: bool) -> None:
    """Raise if an option was given that these data, or a saved policy, leave without effect."""
    shared = ("timezone", "time_format", "header_line")  # how any text is written
    other = (PLANT, HOW) if data == "--wind" else (WIND,)
    for param in ctx.command.params:
        source = ctx.get_parameter_source(param.name or "")
        if source is None or source.name != "COMMANDLINE":
            continue
        option = max(param.opts, key=len)
        if getattr(param, "rich_help_panel", None) in other and param.name not in shared:
            raise InvalidInput(f"{option} has no effect with {data}; leave it out")
        if saved and param.name in ("move_cost", "fixed_cost", "movement"):
            raise InvalidInput(
                f"{option} has no effect with a saved policy, which knows what a move costs; leave it out"
            )


def _plant_paths(
    readings: Readings,
    hours: float | None,
    policy: Policy | None,
    baseline: str | None,
    prices: tuple[str, str],
    seed: int,
    working: Working,
) -> tuple[Paths, Rehearse, float, str]:
    """Both arms in a world of a plant's readings, the trial's rehearsal, how long a round lasts, and the baseline."""
    step = readings.step if hours is None else hours
    if step is None:
        raise InvalidInput("say how long a round lasts: --hours 1, or --time with the name of the column of times")
    if policy is None:
        _, problem = priced_problem(readings, *prices, None, directed=False, unit="", cost_unit="")
    else:
        problem = policy.problem
        asked = problem.context_names
        if asked is not None and sorted(asked) == sorted(readings.context) and tuple(asked) != readings.context:
            raise InvalidInput(f"the policy is asked with {listed(asked)}; give --context in this order")
        if asked is not None and len(asked) != len(readings.context):
            raise InvalidInput(
                f"the policy is asked with {listed(asked)}, but --context gives {listed(readings.context)}; give the "
                "contexts of the backtest that saved it"
            )
    try:
        history = readings.about(problem)
    except InvalidInput as error:
        made = "give the readings that the policy was made from, with the same --bins if you used it"
        raise InvalidInput(f"{error}; {made}, or leave out the policy") from None
    working.tell("fitting the readings", 0, 1)
    world = LoggedWorld.fit(problem, history, seed=seed)
    ours = hc.recommended(problem, history=history) if policy is None else policy
    if baseline is None:
        start = int(np.bincount(history.actions).argmax())
    else:
        start = problem.index(_value(baseline) if problem.labels is None else baseline)  # a name may be a number
    theirs = hc.fixed_at(problem, setting_index=start)
    paths = run_both(ours, theirs, world, start=start, seed=seed, progress=working.tell)
    rehearse = rehearsal_of(ours, theirs, world, world.contexts, start=start, seed=seed)
    return paths, rehearse, step, problem.named(start)


def _slowed(policy: Policy | None) -> tuple[int, str]:
    """Return for how many rounds the limits of a policy keep the machine at a setting, and what they do to a trial."""
    limits = {} if policy is None or policy.limits is None else policy.limits
    stay, longest = int(limits.get("min_dwell") or 1), limits.get("max_step")
    said = [f"min_dwell of {stay} rounds"] * (stay > 1) + [
        f"max_step of {longest:g}" if isinstance(longest, float) else f"max_step of {longest}"
    ] * (longest is not None)
    if not said:
        return 1, ""
    left_out = f" Blocks of fewer than {2 * stay} rounds are left out." if stay > 1 else ""
    return stay, (
        f"In the trial the policy's limits ({' and '.join(said)}) delay both arms at the beginning of their blocks, "
        f"which the simulation does not show.{left_out} If the arms are several moves apart, offer only longer "
        "blocks with --blocks."
    )


def _wind_paths(
    wind: list[str],
    history: list[str] | None,
    movement: str,
    policy: Policy | None,
    baseline: str | None,
    seed: int,
    reading: dict[str, Any],
    working: Working,
) -> tuple[Paths, Rehearse, float]:
    """Both arms over a site's wind, the trial's rehearsal, and how long a round lasts."""
    demo = wind == ["demo"]
    if demo and history:
        raise InvalidInput("--wind demo has its own history; leave out --history, or give wind of your own")
    if policy is not None:
        data = bundled("test") if demo else load([*wind, *(history or [])], **reading)
        altitude = None if baseline is None else _value(baseline)
        return policy_paths(policy, data, altitude=altitude, seed=seed, progress=working.tell)
    if baseline is not None:
        raise InvalidInput(
            "without a policy file, the baseline is the altitude that was best in the rest of the wind; leave out "
            "--baseline, or give a policy file"
        )
    whole = bundled("all") if demo else load([*wind, *(history or [])], **reading)
    return left_out_paths(whole, Plan(movement=_value(movement), seed=seed), progress=working.tell)


def _value(text: str) -> Any:
    """A number, or a name."""
    try:
        return float(text)
    except ValueError:
        return text


def _lengths(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise InvalidInput(f"--blocks takes lengths in rounds such as 2,4,8, got {text!r}")
    return found


def _show(plan: TrialPlan, more: Iterable[str]) -> None:
    console = Console()
    table = Table(title="Weeks until a gain is detected, in four of five trials")
    table.add_column("block")
    for gain in GAINS:
        table.add_column(f"{gain:g} %", justify="right")
    for heading in (f"{plan.target:,g} %, with a reference", "changes cost"):
        table.add_column(heading, justify="right")
    for design in plan.designs:
        best = design.block == plan.best.block
        rounds = f"{design.block} rounds" + (" *" if best else "")
        weeks = [_weeks(design.weeks(gain)) for gain in GAINS]
        helped = _weeks(design.weeks(plan.target, reference=True))
        table.add_row(rounds, *weeks, helped, f"{percent(design.switching)} %", style="bold" if best else None)
    console.print(table)
    for sentence in (*plan.words, *more):
        console.print(f"- {sentence}", highlight=False, markup=False)


def _weeks(weeks: float) -> str:
    if weeks > LIFETIME:
        return "never"
    return f"{weeks:,.0f}" if weeks >= 10 else f"{weeks:.1f}"


def _draw(plan: TrialPlan, out: Path) -> list[Path]:
    try:
        return save(plot_plan(plan), out, "trial-plan")
    except MissingExtra as missing:
        typer.echo(f"note: no picture: {missing}", err=True)
        return []
