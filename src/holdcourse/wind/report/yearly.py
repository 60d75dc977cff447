"""The figures per year in the report: tables in the page, and CSV files for other programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from holdcourse.tables.spreadsheet import write_rows
from holdcourse.wind.backtest.bankable import LEVELS, LOAN_YEARS, USED, Bankable
from holdcourse.wind.backtest.run import SiteResult
from holdcourse.wind.report.tables import YEARLY_ROWS

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
FILES = ("yearly.csv", "month_hour.csv", "altitude_hours.csv", "levels.csv")


def section(results: Sequence[SiteResult]) -> str:
    """Return the figures per year of every site that has them, as HTML; empty where none has."""
    made = []
    for result in results:
        found = result.bankable
        if found is None:
            continue
        at = f", {escape(result.site)}" if len(results) > 1 else ""
        made.append(f"<section><h2>Energy per year{at}</h2>{_levels(found)}{_words(found)}")
        made.append(f"<h3>How much would more information add?</h3>{_knowing(found)}")
        made.append(f"<h3>Year by year</h3>{_years(found)}")
        made.append(f"<h3>Gain over the fixed altitude by month and hour, kW</h3>{_month_hour(found)}")
        made.append(f"<h3>Altitudes and their wind</h3>{_altitudes(found)}</section>")
    return "".join(made)


def _number(value: float, form: str = ",.0f") -> str:
    return format(value, form) if math.isfinite(value) else "&ndash;"


def _html(heads: Sequence[str], rows: Sequence[Sequence[str]], style: str = "") -> str:
    head = "".join(f"<th>{cell}</th>" for cell in heads)
    narrow = " style='padding:1px 8px'" if style else ""
    body = "".join("<tr>" + "".join(f"<td{narrow}>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class='scroll'><table style='{style}'><tr>{head}</tr>{body}</table></div>"


def _levels(found: Bankable) -> str:
    heads = ["net at the meter", *(f"P{100 * level:.0f}, kWh a year" for level in LEVELS)]
    heads.append(f"P90, mean of {LOAN_YEARS} years, kWh")
    priced = found.price is not None
    unit = found.currency or "in money"
    heads += [f"worth at P{100 * level:.0f}, {unit} a year" for level in LEVELS] if priced else []
    rows = []
    for name, kind in YEARLY_ROWS:
        form = "+,.0f" if kind == "more" else ",.0f"
        energies = [found.exceeded(kind, level) for level in LEVELS]
        cells = [_number(energy, form) for energy in (*energies, found.exceeded(kind, 0.9, LOAN_YEARS))]
        cells += [_number(energy * found.price, form) for energy in energies] if found.price is not None else []
        rows.append([escape(name), *cells])
    return _html(heads, rows)


def _words(found: Bankable) -> str:
    return "".join(f"<p class='small'>{escape(words)}</p>" for words in found.words)


NAMES = {
    "lidar": "+ lidar: the whole profile after each hour",
    "forecast": "+ forecast",
    "both": "+ both",
    "hindsight": "hindsight: all wind known in advance",
}


def _knowing(found: Bankable) -> str:
    heads = ["in addition to the machine's own gauge", "added, kWh a year", "% of the plain policy"]
    heads += [f"worth, {found.currency or 'in money'} a year"] if found.price is not None else []
    base = float(found.energies("ours").mean())
    rows = []
    for name, more in found.worth_knowing.items():
        share = 100 * more / base if base > 0 else math.nan
        cells = [escape(NAMES[name]), f"{more:+,.0f}", _number(share, "+.1f") + " %"]
        rows.append(cells + ([f"{more * found.price:+,.0f}"] if found.price is not None else []))
    note = f"Mean over the years below. Here {found.skill.words}. {USED} The price of the instrument is not included."
    return _html(heads, rows) + f"<p class='small'>{escape(note)}</p>"


def _years(found: Bankable) -> str:
    heads = ["year to", "data, %", "net, kWh", "fixed net, kWh", "gain, %", "lost to moving, kWh", "moves a day"]
    rows = [
        [
            year.end,
            f"{100 * year.coverage:.0f} %",
            f"{year.ours:,.0f}",
            f"{year.fixed:,.0f}",
            _number(100 * (year.ours / year.fixed - 1) if year.fixed > 0 else math.nan, "+.1f") + " %",
            f"{year.moving:,.0f}",
            f"{year.moves_per_day:.2f}",
        ]
        for year in found.years
    ]
    note = "At the machine, before availability and losses, scaled to a year of 8766 hours."
    return _html(heads, rows) + f"<p class='small'>{note}</p>"


def _month_hour(found: Bankable) -> str:
    most = float(np.nanmax(np.abs(found.gain))) or 1.0
    heads = ["hour, UTC", *(f"{hour:02d}" for hour in range(24)), "mean"]
    lines = []
    for name, row in zip(MONTHS, found.gain, strict=True):
        cells = [f"<td>{name}</td>"]
        for value in row:
            # Blue where it gains, red where it loses; the text keeps the page's own colour.
            shade = 0.0 if math.isnan(value) else min(1.0, abs(value) / most)
            colour = f"rgba({'40,110,200' if value >= 0 else '200,60,40'},{0.55 * shade:.2f})"
            cells.append(f"<td style='background:{colour};padding:2px 4px'>{_number(value, '.1f')}</td>")
        mean = float(np.nanmean(row)) if np.isfinite(row).any() else math.nan
        lines.append("<tr>" + "".join(cells) + f"<td><b>{_number(mean, '+.1f')}</b></td></tr>")
    head = "".join(f"<th style='padding:2px 4px'>{cell}</th>" for cell in heads)
    table = f"<table class='fine' style='font-size:.75rem'><tr>{head}</tr>{''.join(lines)}</table>"
    return f"<div class='scroll'>{table}</div>"


def _altitudes(found: Bankable) -> str:
    heads = ["altitude, m", "hours a year", "", "Weibull scale, m/s", "Weibull shape"]
    most = float(found.hours_at.max())
    rows = []
    for height, hours, (scale, shape) in zip(found.altitudes, found.hours_at, found.weibull, strict=True):
        style = f"display:inline-block;height:.7em;background:currentColor;width:{8 * hours / most:.2f}em"
        bar = f"<span style='{style}'></span>"
        rows.append([f"{height:.0f}", f"{hours:,.0f}", bar, _number(scale, ".2f"), _number(shape, ".2f")])
    return _html(heads, rows, "font-size:.75rem")


def write_yearly(results: Sequence[SiteResult], folder: Path) -> list[Path]:
    """Write the same as CSV files; none where no site has a year."""
    having = [(result.site, result.bankable) for result in results if result.bankable is not None]
    if not having:
        return []
    paths = [folder / name for name in FILES]
    with paths[0].open("w", newline="", encoding="utf-8") as file:
        heads = ["site", "year_to", "coverage", "net_kwh", "fixed_net_kwh", "moving_kwh", "moves_per_day"]
        write_rows(file, [heads])
        for site, found in having:
            for year in found.years:
                numbers = (year.ours, year.fixed, year.moving, year.moves_per_day)
                write_rows(file, [[site, year.end, f"{year.coverage:.3f}", *(f"{number:.3f}" for number in numbers)]])
    _write_levels(having, paths[3])
    with paths[1].open("w", newline="", encoding="utf-8") as file:
        write_rows(file, [["site", "month", *(f"gain_kw_{hour:02d}h" for hour in range(24))]])
        for site, found in having:
            for month, row in enumerate(found.gain, 1):
                write_rows(file, [[site, month, *("" if math.isnan(value) else f"{value:.4f}" for value in row)]])
    with paths[2].open("w", newline="", encoding="utf-8") as file:
        write_rows(file, [["site", "altitude_m", "hours_per_year", "weibull_scale_ms", "weibull_shape"]])
        for site, found in having:
            columns = np.column_stack([found.altitudes, found.hours_at, found.weibull]).round(4).tolist()
            write_rows(file, ([site, *row] for row in columns))
    return paths


def _write_levels(having: Sequence[tuple[str, Bankable]], path: Path) -> None:
    """Write what is exceeded with which probability at the meter, what knowing more is worth, and what came true."""

    def written(number: float) -> str:
        return f"{number:.3f}" if math.isfinite(number) else ""

    unit = next((found.currency for _, found in having if found.currency), "") or "money"
    with path.open("w", newline="", encoding="utf-8") as file:
        write_rows(file, [["site", "what", "level", "kwh_per_year", f"{unit.lower()}_per_year", "held", "tried"]])
        for site, found in having:
            price = math.nan if found.price is None else found.price
            rows: list[tuple[str, str, float]] = []
            for name, kind in YEARLY_ROWS:
                rows += [(name, f"P{100 * level:.0f}", found.exceeded(kind, level)) for level in LEVELS]
                rows.append((name, f"P90 of the mean of {LOAN_YEARS} years", found.exceeded(kind, 0.9, LOAN_YEARS)))
            rows += [(f"knowing more: {name}", "mean", more) for name, more in found.worth_knowing.items()]
            write_rows(
                file, ([site, what, level, written(kwh), written(kwh * price), "", ""] for what, level, kwh in rows)
            )
            write_rows(
                file,
                (
                    [site, f"calibration: {each.what}", f"{100 * each.nominal:.0f} %", "", "", each.held, each.tried]
                    for each in found.calibration
                ),
            )
