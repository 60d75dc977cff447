"""The command `holdcourse wakes`: would wake steering have paid off at a farm."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from holdcourse.cli.arguments import (
    Decimal,
    Encoding,
    HeaderLine,
    Json,
    Missing,
    Save,
    Separator,
    TimeFormat,
    Timezone,
    check_out,
    check_save,
    names_of,
    names_option,
    saved_words,
)
from holdcourse.cli.progress import BETWEEN, Working
from holdcourse.cli.wording import options_of, with_options
from holdcourse.deciding import registry
from holdcourse.deciding.policy import Policy
from holdcourse.errors import InvalidInput, MissingExtra
from holdcourse.units import seconds
from holdcourse.wakes.backtest import backtest, check_study
from holdcourse.wakes.bundled import CREDIT, TURBINES, bundled_farm_file, bundled_record, bundled_table
from holdcourse.wakes.clusters import ClusteredTable, farm_table, load_table
from holdcourse.wakes.farm import FlorisModel
from holdcourse.wakes.groups import GroupedModel, digest_of, wake_model
from holdcourse.wakes.handover import steering_policies
from holdcourse.wakes.learning import AT_MOST
from holdcourse.wakes.offsets import MOST, STEP
from holdcourse.wakes.record import WindRecord, read_record
from holdcourse.wakes.report.page import write_report
from holdcourse.wakes.report.tables import as_data, legend, screen_table, title_of, words
from holdcourse.wakes.result import ON_REQUEST, POLICIES, Study
from holdcourse.wakes.table import EnergyTable

FLORIS_SHARE = 0.5  # of the work, where there is no table yet; for the progress only
DATA, STEERING, COMPARED, OUTPUT = "Data", "Steering", "What is compared", "Output"

app = typer.Typer(add_completion=False, rich_markup_mode="rich")


@app.command()
def wakes(
    record: Annotated[
        Path | None,
        typer.Argument(help="Wind over time: CSV, Excel or Parquet. Default: La Haute Borne 2014.", show_default=False),
    ] = None,
    farm: Annotated[
        Path | None, typer.Option(metavar="FILE", help="FLORIS input file (YAML) of the farm.", rich_help_panel=DATA)
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Energy table: read if the file exists, otherwise computed and written.",
            rich_help_panel=DATA,
        ),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Earlier wind, to learn how the direction drifts.", rich_help_panel=DATA),
    ] = None,
    allow_later_history: Annotated[
        bool,
        typer.Option(
            "--allow-later-history",
            help="Also learn from wind after the record. That is hindsight.",
            rich_help_panel=DATA,
        ),
    ] = False,
    direction: Annotated[
        str | None, typer.Option(help="Columns of the wind direction: 'wd_1,wd_2'.", rich_help_panel=DATA)
    ] = None,
    speed: Annotated[
        str | None, typer.Option(help="Columns of the wind speed: 'ws_1,ws_2'.", rich_help_panel=DATA)
    ] = None,
    time: Annotated[str | None, typer.Option(help="Column of the time, or 'date,time'.", rich_help_panel=DATA)] = None,
    begin: Annotated[
        str | None, typer.Option("--from", "--begin", help="First day, UTC: 2014-07-01.", rich_help_panel=DATA)
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", "--end", help="Day after the last day, UTC.", rich_help_panel=DATA)
    ] = None,
    price: Annotated[
        str,
        typer.Option(
            metavar="PRICE",
            help="Price of a degree: '0.5 kWh per degree', '0.02 EUR per degree'; one for each turbine: 'a; b'.",
            rich_help_panel=STEERING,
        ),
    ] = "0.5 kWh per degree",
    kwh_price: Annotated[
        float | None, typer.Option(help="Value of a kWh, if prices are in money.", rich_help_panel=STEERING)
    ] = None,
    most: Annotated[
        float | None, typer.Option(help=f"Largest offset, degrees; default {MOST:g}.", rich_help_panel=STEERING)
    ] = None,
    step: Annotated[
        float | None, typer.Option(help=f"Step between offsets, degrees; default {STEP:g}.", rich_help_panel=STEERING)
    ] = None,
    yaw_speed: Annotated[
        float, typer.Option(help="Yaw speed of a nacelle, degrees per second.", rich_help_panel=STEERING)
    ] = 0.3,
    every: Annotated[
        str | None,
        typer.Option(help="Time between decisions: '10 min'; default: as in the record.", rich_help_panel=STEERING),
    ] = None,
    at_most: Annotated[
        float, typer.Option(help="Largest loss of energy allowed to the learner, percent.", rich_help_panel=STEERING)
    ] = 100 * AT_MOST,
    idealised: Annotated[
        bool,
        typer.Option(
            "--idealised", help="Let every decision know the wind of its own interval.", rich_help_panel=COMPARED
        ),
    ] = False,
    policies: Annotated[
        list[str] | None,
        names_option(
            "--policies",
            "Policies to compare; gp-md is available too, but takes minutes.",
            (*POLICIES, *ON_REQUEST),
            COMPARED,
        ),
    ] = None,
    hysteresis: Annotated[
        str, typer.Option(help="Widths of hysteresis zones, degrees.", rich_help_panel=COMPARED)
    ] = "2,4,8,12,16",
    rate_limits: Annotated[
        str, typer.Option(help="Rate limits, degrees of offset per degree of direction.", rich_help_panel=COMPARED)
    ] = "5,3,2,1",
    no_front: Annotated[
        bool,
        typer.Option(
            "--no-front", help="Skip the planner at other prices, which is quicker.", rich_help_panel=COMPARED
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of every random number in the run.", rich_help_panel=COMPARED)] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for report.html, tables and pictures.", rich_help_panel=OUTPUT)
    ] = None,
    save_policy: Save = None,
    as_json: Json = False,
    timezone: Timezone = None,
    time_format: TimeFormat = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    header_line: HeaderLine = None,
    missing: Missing = None,
) -> None:
    """Would wake steering have paid off? Run every policy on a farm's wind.

    Compares FLORIS' lookup table, hysteresis, rate limits and our planner by the
    energy that they gain and the degrees that the nacelles turn. A decision uses
    earlier readings only. The planner learns from --history how the wind usually
    turns; without it, from the other parts of the record, including later ones.

    Example: [bold]holdcourse wakes --out wakes-report[/]

    Example: [bold]holdcourse wakes wind.csv --farm farm.yaml --table farm.table[/]

    Example: [bold]holdcourse wakes wind.csv --table farm.table --save site.policy[/]
    """
    check_save(save_policy, False)
    check_out(out)
    study = Study(
        price=[part.strip() for part in price.split(";")],
        kwh_price=kwh_price,
        hours=None if every is None else seconds(every, "every") / 3600.0,
        knowing=idealised,
        hysteresis=_numbers(hysteresis, "--hysteresis"),
        rate_limits=_numbers(rate_limits, "--rate-limits"),
        policies=names_of(policies) or POLICIES,
        yaw_speed=yaw_speed,
        at_most=at_most / 100.0,
        seed=seed,
        front=() if no_front else Study.front,
    )
    columns: dict[str, Any] = {"direction": direction, "speed": speed, "time": time}
    how: dict[str, Any] = {
        "timezone": timezone,
        "time_format": time_format,
        "separator": separator,
        "decimal": decimal,
        "encoding": encoding,
        "header_line": header_line,
        "missing": missing,
    }
    with Working("reading", lines=BETWEEN) as working:
        wind = _wind(record, farm, table, columns | how).between(begin, end)
        past = None if history is None else read_record(history, **columns, **how)

        def check(turbines: int) -> None:  # before FLORIS computes for minutes
            check_study(turbines, wind, study, past, allow_later_history=allow_later_history)

        computed = 0.0 if record is None or (table is not None and table.exists()) else FLORIS_SHARE
        energy, model = _energy(record, farm, table, most, step, working, check)
        found = backtest(
            energy,
            wind,
            study,
            model=model,
            history=past,
            allow_later_history=allow_later_history,
            progress=lambda what, share: working.tell(what, computed + (1 - computed) * share, 1.0),
        )
        if table is not None and isinstance(energy, EnergyTable) and len(found.table.offsets) > len(energy.offsets):
            found.table.save(table)  # with what the rules passed through, so that the next time nothing is computed
        saved: dict[Path, Policy] = {}
        if save_policy is not None:
            files = [path for path in (record, farm, table, history) if path is not None]
            parts = steering_policies(found, files=files)
            for k, policy in enumerate(parts):
                path = save_policy if len(parts) == 1 else save_policy.with_stem(f"{save_policy.stem}-{k + 1}")
                policy.save(path)
                saved[path] = policy
        paths = [] if out is None else write_report(found, out, model=model)
    if as_json:
        extra = {"report": str(paths[0]), "files": [str(path) for path in paths]} if paths else {}
        names = [str(path) for path in saved]
        told = {} if not names else {"saved": names[0] if len(names) == 1 else names}
        typer.echo(json.dumps(as_data(found) | extra | told))
        return
    console = Console()
    console.print(title_of(found), style="bold underline", highlight=False, markup=False)
    console.print(found.conclusion, style="bold", highlight=False, markup=False)
    for text in words(found):
        console.print(text, highlight=False, markup=False)
    for text in found.warnings:
        console.print(f"warning: {text}", highlight=False, markup=False)
    console.print()
    console.print(screen_table(found, console.width))
    console.print(f"\n{legend(found)}", highlight=False, markup=False)
    if any(registry.is_knowing(line.policy) for line in found.lines):
        typer.echo("* knows all wind in advance; a yardstick, not an option")
    typer.echo()
    learned = f"The planner learned how the wind turns from {found.drift_judged}."
    notes = (learned, *found.notes, *((CREDIT,) if record is None else ()))
    options = options_of(typer.main.get_command(app))
    for note in (with_options(note, options) for note in notes):
        console.print(note, style="dim", highlight=False, markup=False)
    if len(saved) > 1:
        *_, last = saved
        first = next(iter(saved))
        typer.echo(
            f"\none policy for each of {len(saved)} clusters of turbines, {first} to {last.name}; ask all of them with "
            "the same wind"
        )
    for said in (text for path, policy in list(saved.items())[-1:] for text in saved_words(path, policy)):
        typer.echo(said)
    if paths:
        typer.echo(f"report: {paths[0]}")


def _wind(record: Path | None, farm: Path | None, table: Path | None, reading: dict[str, Any]) -> WindRecord:
    if record is not None:
        return read_record(record, **reading)
    if farm is not None or table is not None:
        raise InvalidInput("your own farm needs your own wind: give the wind file before the options")
    return bundled_record()


def _energy(
    record: Path | None,
    farm: Path | None,
    table: Path | None,
    most: float | None,
    step: float | None,
    working: Working,
    check: Callable[[int], None],
) -> tuple[EnergyTable | ClusteredTable, FlorisModel | GroupedModel | None]:
    """Return the energy table and, where the farm's FLORIS file is there, its model."""
    if record is None:
        _same_offsets("the bundled table", bundled_table(), most, step)
        with suppress(MissingExtra):  # the bundled table holds what the default study needs
            return bundled_table(), FlorisModel(bundled_farm_file(), turbines=TURBINES)
        return bundled_table(), None
    if table is not None and table.exists():
        energy = load_table(table)
        _same_offsets(str(table), energy, most, step)
        if farm is None:
            return energy, None
        _same_farm(str(table), energy, FlorisModel(farm))
        return energy, wake_model(FlorisModel(farm, turbines=energy.farm.turbines))
    if farm is None:
        missing = "there is no farm" if table is None else f"{table} does not exist, and there is no farm to compute it"
        raise InvalidInput(
            f"{missing}: give the farm's FLORIS input file with --farm FILE, or its energy table with --table"
        )
    if table is not None:
        _check_writable(table)
    model = wake_model(FlorisModel(farm))
    check(len(model.farm))
    energy = farm_table(
        model,
        most=MOST if most is None else most,
        step=STEP if step is None else step,
        progress=lambda what, share: working.tell(what, FLORIS_SHARE * share, 1.0),
    )
    if table is not None:
        energy.save(table)
    return energy, model


def _check_writable(table: Path) -> None:
    """Refuse a place where the table could not be written, before it takes minutes to compute."""
    if not table.parent.is_dir():
        raise InvalidInput(f"--table {table}: there is no folder {table.parent}; create it, or choose another place")
    if not os.access(table.parent, os.W_OK):
        raise InvalidInput(f"--table {table}: you may not write to {table.parent}; choose another place")


def _same_offsets(name: str, energy: EnergyTable | ClusteredTable, most: float | None, step: float | None) -> None:
    """Refuse options that a table was not computed with."""
    for option, given, there in (("--most", most, energy.most), ("--step", step, energy.step)):
        if given is not None and given != there:
            known = "does not say what it was computed with" if there is None else f"was computed with {there:g}"
            raise InvalidInput(f"{option} {given:g}: {name} {known}; remove the table or the option")


def _same_farm(name: str, energy: EnergyTable | ClusteredTable, model: FlorisModel) -> None:
    """Refuse a table that was computed for another layout."""
    one, two = energy.farm, model.farm
    pairs = ((one.x, two.x), (one.y, two.y), (one.diameter, two.diameter))
    if len(one) != len(two) or not all(np.allclose(a - a[0], b - b[0], atol=1.0) for a, b in pairs[:2]):
        differs = f"{len(one)} turbines, but the farm has {len(two)}" if len(one) != len(two) else "other coordinates"
    elif not np.allclose(*pairs[2], rtol=1e-3):
        differs = "other rotor diameters"
    elif abs(energy.turbulence - model.turbulence) > 1e-6:
        differs = f"a turbulence intensity of {energy.turbulence:g}, but the farm has {model.turbulence:g}"
    elif energy.computed_by is not None and energy.computed_by != digest_of(model):
        differs = "another wake model or other turbines"
    else:
        return
    raise InvalidInput(
        f"{name} was computed for {differs}: it belongs to another farm than --farm; remove the table or the option"
    )


def _numbers(text: str, option: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        found = (math.nan,)
    if any(not math.isfinite(number) or number <= 0 for number in found):
        raise InvalidInput(f"{option} takes numbers above 0 such as 4,8,12, got {text!r}")
    return found
