"""The result as a table: on screen, in the page, and as files; and how policies look in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from holdcourse.deciding import registry
from holdcourse.tables.spreadsheet import write_rows
from holdcourse.wind.backtest.bankable import LEVELS, LOAN_YEARS
from holdcourse.wind.backtest.result import Backtest, Line
from holdcourse.wind.backtest.run import SiteResult


@dataclass(frozen=True)
class Look:
    """Colour of a policy, whether it knows more than a machine could, and what it does in one sentence."""

    policy: str
    colour: str
    knowing: bool
    says: str


def look(policy: str) -> Look:
    """Return how a policy looks."""
    entry = registry.TABLE.get(policy) or registry.Entry(policy, policy, "")
    return Look(policy, registry.colour_of(policy), entry.knowing, entry.sentence)


def worth_showing(found: Backtest) -> list[str]:
    """Return the few policies that the page shows at first: fixed, the one that the answer is about, and hindsight."""
    judged = found.judged
    wanted = ["fixed", *([] if judged is None else [judged.policy]), "clairvoyant"]
    return [name for name in wanted if name in found.flights]


Rows: TypeAlias = Sequence[Sequence[tuple[Line, list[str]]]]  # of every site: what was found, and its cells

COLUMNS = ("net, kWh", "gross, kWh", "lost, kWh", "moves a day", "share of hindsight, %", "against fixed, %")
YEARLY_ROWS = (("wind-planner", "ours"), ("fixed", "fixed"), ("gain", "more"))
GAP = 2  # blanks between columns on screen


def money_columns(currency: str) -> tuple[str, str]:
    """Return the heads of the columns of money."""
    unit = currency or "in money"
    return f"worth, {unit}", f"more than fixed, {unit}"


def cells(row: Line, result: SiteResult) -> list[str]:
    """Return the numbers of one row as people read them."""
    shown = [
        f"{row.net:,.0f}",
        f"{row.gross:,.0f}",
        f"{row.moving:,.0f}",
        f"{row.moves_per_day:.2f}",
        "" if np.isnan(row.share) else f"{row.share:.1f} %",
        gain_words(row),
    ]
    price = result.plan.price
    if price is not None:
        more = (row.net - result.backtest.line("fixed").net) * price if "fixed" in result.backtest.flights else np.nan
        shown += [f"{row.net * price:,.0f}", "" if np.isnan(more) else f"{more:+,.0f}"]
    return shown


def gain_words(row: Line) -> str:
    """Return the difference to fixed, with its interval where there is one."""
    if np.isnan(row.gain) or row.policy == "fixed":
        return ""
    if np.isnan(row.gain_low):
        return f"{row.gain:+.1f} %"
    return f"{row.gain:+.1f} % ({row.gain_low:+.1f} to {row.gain_high:+.1f})"


def screen_tables(results: Sequence[SiteResult], width: int) -> list[Table]:
    """Return the tables for a terminal of this width.

    Where it is narrow, money gets a table of its own, intervals a column of their own, and what was made gross goes:
    it is net and lost together.
    """
    heads = ["net\nkWh", "gross\nkWh", "lost\nkWh", "moves\n/day", "of hind-\nsight", "against\nfixed"]
    unit = results[0].plan.currency or "money"
    money = [f"worth\n{unit}", f"over fixed\n{unit}"] if results[0].plan.price is not None else []
    rows = [[(row, cells(row, result)) for row in result.backtest.lines] for result in results]
    if _policy_width(rows) + _numbers_width(heads + money, rows) <= width:
        return [_table(results, rows, None, heads + money, width)]
    apart = [[(row, _interval_apart(shown[:6])) for row, shown in site] for site in rows]
    heads.append("95 %\ninterval")
    if _policy_width(apart) + _numbers_width(heads, apart) > width:
        heads.remove("gross\nkWh")
        apart = [[(row, shown[:1] + shown[2:]) for row, shown in site] for site in apart]
    tables = [_table(results, apart, None, heads, width)]
    if money:
        second = [[(row, shown[6:]) for row, shown in site] for site in rows]
        tables.append(_table(results, second, "money", money, width))
    return tables


def _interval_apart(shown: list[str]) -> list[str]:
    """Return the cells with the interval of the last one in a cell of its own."""
    gain, _, interval = shown[-1].rstrip(")").partition(" (")
    return [*shown[:-1], gain, interval.replace(" to ", "..")]


def _table(results: Sequence[SiteResult], rows: Rows, title: str | None, heads: Sequence[str], width: int) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.padding = (0, 0, 0, GAP - 1)
    # A long name of a site takes what the numbers leave; then it goes over several lines.
    names = max(len(result.site) for result in results) if len(results) > 1 else 0
    first = max(_policy_width(rows), min(names, width - _numbers_width(heads, rows)))
    table.add_column("policy", width=first, overflow="fold")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for result, site in zip(results, rows, strict=True):
        if len(results) > 1:
            table.add_row(Text(result.site, style="bold underline"))
        for row, shown in site:
            style = "bold" if result.backtest.judged is row else ""
            table.add_row(Text(row.policy + " *" * look(row.policy).knowing), *map(Text, shown), style=style)
    return table


def yearly_table(results: Sequence[SiteResult]) -> Table | None:
    """Return the energy per year of every site that has several, for a terminal; None where none has."""
    found = [(result.site, result.bankable) for result in results if result.bankable is not None]
    having = [(site, years) for site, years in found if len(years.years) > 1]
    if not having:
        return None
    title = "Net energy in any one year, kWh"
    title += f", estimated from {len(having[0][1].years)} years" if len(results) == 1 else ""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("policy", overflow="fold")
    for head in (*(f"P{100 * level:.0f}" for level in LEVELS), f"P90, mean\nof {LOAN_YEARS} years"):
        table.add_column(head, justify="right", no_wrap=True)
    for site, years in having:
        if len(results) > 1:
            table.add_row(Text(f"{site}, {len(years.years)} years", style="bold underline"))
        for name, kind in YEARLY_ROWS:
            form = "+,.0f" if kind == "more" else ",.0f"
            energies = (*(years.exceeded(kind, level) for level in LEVELS), years.exceeded(kind, 0.9, LOAN_YEARS))
            table.add_row(name, *(format(energy, form) for energy in energies))
    return table


def _policy_width(rows: Rows) -> int:
    return max(len(row.policy) + 2 * look(row.policy).knowing for site in rows for row, _ in site)


def _numbers_width(heads: Sequence[str], rows: Rows) -> int:
    columns = zip(heads, *(shown for site in rows for _, shown in site), strict=True)
    return sum(GAP + max(len(part) for cell in column for part in cell.split("\n")) for column in columns)


def as_data(results: Sequence[SiteResult]) -> dict[str, Any]:
    """Return the result in JSON values."""
    sites = []
    for result in results:
        found, world = result.backtest, result.backtest.world
        site: dict[str, Any] = {
            "site": result.site,
            "from": str(world.time[0]),
            "to": str(world.time[-1]),
            "rounds": len(world.time),
            "step_hours": world.step_hours,
            "pieces": len(found.lengths),
            "altitudes_m": world.altitudes.round(3).tolist(),
            "rho": world.rho,
            "climb_kwh_per_m": world.climb,
            "sink_kwh_per_m": world.sink,
            "source": result.source,
            "notes": list(result.notes),
            "warnings": result.warnings,
            "verdict": found.verdict,
            "conclusion": found.conclusion,
            "policies": [line_data(row) for row in found.lines],
            "what_if": [
                {"rho": rho, "policies": [line_data(row) for row in rows]} for rho, rows in result.what_if.items()
            ],
        }
        if result.bankable is not None:
            site["per_year"] = result.bankable.as_values()
        price = result.plan.price
        if price is not None:
            site["price_per_kwh"], site["currency"] = price, result.plan.currency or None
            for row in site["policies"]:
                row["worth"] = row["net"] * price
        sites.append(site)
    return {"sites": sites}


def line_data(row: Line) -> dict[str, Any]:
    """Return one row in JSON values, which know no NaN."""
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in asdict(row).items()
    }


def write_summary(results: Sequence[SiteResult], path: Path) -> None:
    """Write one row per site and policy; numbers in full, empty where there is none."""
    names = ["site", "policy", "net_kwh", "gross_kwh", "moving_kwh", "moves_per_day", "percent_of_clairvoyant"]
    names += ["percent_against_fixed", "percent_against_fixed_low", "percent_against_fixed_high"]
    priced = results[0].plan.price is not None
    with path.open("w", newline="", encoding="utf-8") as file:
        write_rows(file, [names + ["worth"] * priced + ["seeds", "net_kwh_least", "net_kwh_most"]])
        for result in results:
            for row in result.backtest.lines:
                numbers = [row.net, row.gross, row.moving, row.moves_per_day, row.share]
                numbers += [row.gain, row.gain_low, row.gain_high]
                numbers += [row.net * (result.plan.price or 0.0)] * priced
                numbers += [row.draws, row.net_low, row.net_high]
                # Six digits for small numbers, a watt-hour for large ones.
                written = [
                    "" if np.isnan(number) else f"{number:.6g}" if abs(number) < 1 else f"{number:.3f}"
                    for number in numbers
                ]
                write_rows(file, [[result.site, row.policy, *written]])


def write_decisions(results: Sequence[SiteResult], path: Path) -> None:
    """Write one row per site, time and policy; times are UTC, the beginning of the round."""
    with path.open("w", newline="", encoding="utf-8") as file:
        names = ["altitude_m", "wind_speed_ms", "gross_kwh", "moving_kwh", "net_kwh"]
        write_rows(file, [["site", "time", "policy", *names]])
        for result in results:
            world = result.backtest.world
            times = np.datetime_as_string(world.time, unit="s").tolist()
            for name, flight in result.backtest.flights.items():
                speed = world.speed[np.arange(len(times)), flight.actions]
                columns = (world.altitudes[flight.actions], speed, flight.gross, flight.moving, flight.net)
                rows = np.column_stack(columns).round(4).tolist()
                write_rows(file, ([result.site, time, name, *row] for time, row in zip(times, rows, strict=True)))
