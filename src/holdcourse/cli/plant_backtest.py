"""The command `holdcourse backtest --log`: policies on a plant's own readings."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from holdcourse.backtest.csvfile import Csv
from holdcourse.backtest.evidence import Judge
from holdcourse.backtest.handover import plant_policy
from holdcourse.backtest.plant import (
    AS_RUN,
    POLICIES,
    PlantBacktest,
    Value,
    backtest_plant,
    in_percent,
    judge_of,
)
from holdcourse.backtest.readings import Duplicates, Readings, read_readings
from holdcourse.backtest.report import write_report
from holdcourse.backtest.second_process import second_process
from holdcourse.cli.arguments import (
    AsJudged,
    Decimal,
    Directed,
    Duplicated,
    Encoding,
    HeaderLine,
    Json,
    KeepAll,
    Matrix,
    Missing,
    Save,
    Separator,
    Sheet,
    Thousands,
    Time,
    TimeFormat,
    Timezone,
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
from holdcourse.deciding.named_policies import make_policy, policy_names, sources_of
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.registry import is_knowing, label_of
from holdcourse.errors import InvalidInput, MissingExtra
from holdcourse.experiments.plots import plot_model_check
from holdcourse.experiments.results import digits_of
from holdcourse.experiments.style import save
from holdcourse.learning.checking import ModelCheck, check_model
from holdcourse.movement.prices import MovePrices
from holdcourse.movement.problem import Problem
from holdcourse.running.database import refuse_record
from holdcourse.running.limits import Limits
from holdcourse.units import beside, quantity, rate

LEGEND = """\
saved: less than what was done (as run). Fixed: the best fixed setting in the half of the readings that policies ran in.
Stationary: stays at the setting where the run begins.
* knows more than anybody can measure at the plant: a yardstick, not an option
"""
MANY_READINGS = 2000  # from which on they are checked beside the backtest
MOST_LINES = 8  # of a file that are named

app = typer.Typer(
    add_completion=False, rich_markup_mode="rich", context_settings={"help_option_names": ["-h", "--help"]}
)


def _csv(path: Path) -> Path:
    """Refuse a controller's own record before the columns are asked for: it has none."""
    refuse_record(path, "--log reads a CSV, an Excel sheet or a Parquet file")
    return path


@app.command()
def backtest_log(
    log: Annotated[
        Path,
        typer.Option(callback=_csv, help="The plant's readings: CSV, Excel or Parquet, a row per measurement."),
    ],
    action: Annotated[str, typer.Option(help="Column of the setting that ran.")],
    cost: Annotated[str, typer.Option(help="Column of what was measured.")],
    context: Annotated[
        list[str], typer.Option(help="What is known before deciding: 'load, outdoor, hour, load@-24h'.")
    ],
    time: Time = None,
    bins: Annotated[int | None, typer.Option(help="Number of bins for settings that vary continuously.")] = None,
    move_cost: Annotated[
        str, typer.Option(help="Cost of moving a setting by one unit: a number, or a price such as '20 Wh/m'.")
    ] = "1",
    fixed_cost: Annotated[
        str, typer.Option(help="Fixed cost of every move, in addition: a number, or '0.5 EUR per change'.")
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
        str | None, typer.Option(help="Largest change at once in operation, in units of the setting: 2, or '2 K'.")
    ] = None,
    dwell: Annotated[str, typer.Option(help="Minimum dwell time in operation: rounds, or '4 h'.")] = "1",
    price: Annotated[float | None, typer.Option(help="Price of one kWh; the results then include money.")] = None,
    currency: Annotated[str, typer.Option(help="Currency of the price: EUR, NOK.")] = "",
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
    duplicates: Duplicated = "refuse",
    keep_all: KeepAll = False,
) -> None:
    """Would it have paid off at your plant? Policies on its own readings.

    What other settings would have cost is estimated by a model of the readings.

    Example:
    [bold]holdcourse backtest --log plant.csv --context load --action setting --cost kwh[/]
    """
    check_save(save_policy, as_judged)
    currency = checked_currency(currency, price)
    with Working("reading"):
        readings = read_readings(
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
        if not keep_all:
            readings = readings.believable()
    readings, problem = priced_problem(
        readings, move_cost, fixed_cost, matrix, directed=directed, unit=unit, cost_unit=cost_unit, price=price
    )
    history, step = readings.history, readings.step
    limits = _limits(dwell, max_step, step, problem)
    sources = sources_of(names_of(policies) or POLICIES)
    check_out(out)

    def make(name: str, problem: Problem, learning: Mapping[str, Any], options: Mapping[str, Any]) -> Policy:
        return make_policy(name, problem, learning, options, sources[name])

    def looked_at() -> tuple[Judge, ModelCheck]:
        """What needs no policy, and is done beside these."""
        judge = judge_of(problem, history, rho=rho, seed=seed, step_hours=step)
        return judge, check_model(problem, history, context_names=readings.context)

    many = len(history) >= MANY_READINGS
    with second_process(looked_at, worthwhile=many) as later, Working("reading", lines=BETWEEN) as working:
        beside_them = cache(later.result)
        found = backtest_plant(
            problem,
            readings,
            tuple(sources),
            rho=rho,
            seed=seed,
            price=price,
            currency=currency,
            limits=limits,
            make=make,
            judge=(lambda: beside_them()[0]) if many else None,
            progress=lambda what, done, total: working.tell(what, done, 1.05 * total),
        )
        working.tell("checking the model", 1.0, 1.05)
        check = beside_them()[1] if many else check_model(problem, history, context_names=readings.context)
        policy = None
        if save_policy is not None:
            working.tell("learning from all readings", 1.03, 1.05)
            policy = plant_policy(found, as_judged=as_judged, files=[log])
            policy.save(save_policy, limits=limits)
    shown = replace(readings, notes=tuple(in_options(readings.notes, COMMAND)))
    checked = [*check.words, *_wrong_lines(check, readings)]
    more = {"check": check.as_values(), "reading": list(shown.notes)}
    data = found.as_values() | more
    saved = []
    if save_policy is not None and policy is not None:
        data["saved"], saved = str(save_policy), saved_words(save_policy, policy)
    if out is not None:
        paths = write_report(found, shown, out, checked, more)
        _draw(check, out, problem.cost_unit)
        data["report"] = str(paths[0])
    if as_json:
        typer.echo(json.dumps(data))
        return
    title = (
        f"{log.name}: {len(history):,} readings, {problem.n} settings. {_costs_in(found.value)}, estimated by a model"
    )
    _show(found, title, shown.notes, checked)
    for words in saved:
        typer.echo(words)


def priced_problem(
    readings: Readings,
    move_cost: str,
    fixed_cost: str,
    matrix: Path | None,
    *,
    directed: bool,
    unit: str,
    cost_unit: str,
    price: float | None = None,
) -> tuple[Readings, Problem]:
    """Return the settings with what moving costs, as options say it, and the readings with units and what to note."""
    step = readings.step
    unit = unit or readings.units.get(readings.action, "")
    cost_unit = cost_unit or readings.units.get(readings.cost, "")
    if price is not None and quantity(cost_unit) not in ("energy", "power"):
        unknown = f"is measured in {cost_unit}" if cost_unit else "has no unit"
        raise InvalidInput(
            f"--price is the price of one kWh, but column {readings.cost!r} {unknown}; name its unit with --cost-unit, "
            "such as kWh, or leave out --price"
        )
    paid = MovePrices(_each_round(cost_unit, step), step, checked_price(price), "--price")
    problem = readings.problem(
        "euclidean" if matrix is None else Csv.read(matrix).matrix(list(readings.values)),
        scale=paid.of(number_or_text(move_cost), "--move-cost"),
        fixed_cost=paid.of(number_or_text(fixed_cost), "--fixed-cost"),
        directed=directed,
        unit=unit,
        cost_unit=paid.unit,
    )
    priced = [] if matrix is not None else [_price_words(problem)]
    units = {name: each for name, each in ((readings.action, unit), (readings.cost, cost_unit)) if each}
    return replace(readings, units=readings.units | units, notes=(*readings.notes, *paid.notes, *priced)), problem


def _limits(dwell: str, max_step: str | None, step: float | None, problem: Problem) -> Limits | None:
    """Return the limits that are kept to in operation; None where there are none."""
    if max_step is None and dwell == "1":
        return None
    if step is None and quantity(re.sub(r"[\d\s.,]", "", dwell)) == "time":
        raise InvalidInput(f"--dwell {dwell!r} is a time; name the column of the times with --time, or give rounds")
    stay, longest = number_or_text(dwell), None if max_step is None else number_or_text(max_step)
    kept = int(stay) if isinstance(stay, float) and stay.is_integer() else stay
    limits = Limits(min_dwell=kept, max_step=longest, round_length=None if step is None else 3600 * step)
    return limits.on(problem)


def _price_words(problem: Problem) -> str:
    """What a change costs: the number that the answer depends on most, and the one that is left out most often."""
    per, fixed = float(np.max(problem.scale)), problem.fixed_cost
    unit = "" if problem.cost_unit else ", in the unit of the costs"
    if problem.labels is not None:  # between names every change costs this
        each = problem.cost(f"{float(np.max(problem.distances)):.4g}")
        return f"every change of the setting costs {each}{unit} (fixed_cost= for another price)"
    more = f", and every change {problem.cost(f'{fixed:.4g}')} in addition" if fixed else ""
    return (
        f"a change of the setting by {beside('1', problem.units[0])} costs {problem.cost(f'{per:.4g}')}{more}{unit} "
        "(scale= for another price)"
    )


def _costs_in(value: Value) -> str:
    return f"Costs in {value.total_unit}" if value.total_unit else "Costs"


def _show(found: PlantBacktest, title: str, notes: Sequence[str], checked: list[str]) -> None:
    """Print the answer, the table, what was decided about the data, and whether they can be learned from."""
    console = Console()
    console.print(f"{found.conclusion}\n", style="bold", highlight=False, markup=False)
    table = Table("policy", title=title)
    for heading in ("service", "movement", "total", "saved", "95 % interval"):
        table.add_column(heading, justify="right")
    scale = found.value.total  # as in the answer and in the report
    costs = [[scale * cost for cost in (line.service, line.movement, line.total)] for line in found.lines]
    largest = max(abs(cost) for row in costs for cost in row)
    digits = max(4, 3 - math.floor(math.log10(largest))) if 0 < largest < 1 else digits_of(largest)
    for line, row in zip(found.lines, costs, strict=True):
        numbers = (f"{cost:,.{digits}f}" for cost in row)
        told = ("+0.0 %", "") if line.policy == AS_RUN else in_percent(line)
        if found.support is not None and not found.support.enough:
            told = "?", "?"  # no number where the readings cannot tell
        table.add_row(
            f"{label_of(line.policy)}{' *' if is_knowing(line.policy) and line.policy != AS_RUN else ''}",
            *numbers,
            *told,
        )
    console.print(table)
    typer.echo(LEGEND)
    for note in (*(f"data: {note}" for note in notes), *found.notes):
        typer.echo(note)
    typer.echo("\nCan these readings be learned from?")
    for sentence in checked:
        typer.echo(f"- {sentence}")


def _wrong_lines(check: ModelCheck, readings: Readings) -> list[str]:
    """Return the lines of the file with readings that look wrong; a check knows of no file."""
    lines = readings.lines[np.sort(check.wrong)].tolist()
    if not lines:
        return []
    more = f" and {len(lines) - MOST_LINES} more" if len(lines) > MOST_LINES else ""
    places = f"{readings.line_word}{'s' * (len(lines) > 1)} {', '.join(map(str, lines[:MOST_LINES]))}{more}"
    are = "value that looks wrong is" if len(lines) == 1 else "values that look wrong are"
    return [f"In {readings.label}, the {are} in {places}."]


def _each_round(unit: str, step: float | None) -> str:
    """Return the unit of what a round costs: a power, held for an hour, is as much energy; so is a rate an amount."""
    paid = rate(unit)
    if paid is not None and paid[1] == step:
        return paid[0]
    return f"{unit}h" if step == 1.0 and unit in ("W", "kW", "MW", "GW") else unit


def _draw(check: ModelCheck, out: Path, unit: str) -> None:
    """Write the picture of a check, where there is something to draw and something to draw it with."""
    if not check.enough:
        return
    try:
        save(plot_model_check(check, unit=unit), out, "model-check")
    except MissingExtra as missing:
        typer.echo(f"note: no picture: {missing}", err=True)


COMMAND = typer.main.get_command(app)
