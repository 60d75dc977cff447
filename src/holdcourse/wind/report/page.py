"""A backtest as a folder: one HTML page that needs no network, pictures, and tables for other programs."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

import holdcourse as hc
from holdcourse.archive import writing
from holdcourse.backtest.pictures import check_pictures
from holdcourse.backtest.verdict import VERDICTS, style
from holdcourse.errors import InvalidInput
from holdcourse.wind.backtest.result import Flight
from holdcourse.wind.backtest.run import SiteResult
from holdcourse.wind.backtest.trace import Plans, Reasons
from holdcourse.wind.report.pictures import write_pictures
from holdcourse.wind.report.tables import (
    COLUMNS,
    cells,
    line_data,
    look,
    money_columns,
    worth_showing,
    write_decisions,
    write_summary,
)
from holdcourse.wind.report.yearly import section, write_yearly

Array: TypeAlias = NDArray[np.float64]
Wording: TypeAlias = Callable[[Iterable[str]], list[str]]  # notes in the words of whoever asked for the report

# On a phone nothing is wider than it; on A4 every column is there: what scrolls on a screen is small on paper.
LAYOUT = """
.plan td { padding: .1rem .3rem !important; white-space: nowrap !important; }
.plan td:first-child { padding-left: 0 !important; }
@media (max-width: 560px) { header, main { padding: 0 14px; } #about dl { grid-template-columns: minmax(0, 1fr); } }
@media print {
  .scroll { overflow: visible; }
  .scroll table { font-size: 8pt !important; width: 100%; }
  .scroll th, .scroll td { padding: 1px 3px !important; white-space: nowrap; font-size: inherit; }
  .scroll th { white-space: normal; }
  .scroll table.fine { font-size: 6.5pt !important; }
  canvas, svg { max-width: 100%; }
  .plot, #calendar, .bar-row, section > h2, h3 { break-inside: avoid; break-after: avoid-page; }
  .fine th, .fine td { padding: 1px !important; }
}
"""


def page(results: Sequence[SiteResult], wording: Wording = list) -> str:
    """Write the report on all sites as one page of HTML, with its style and script inside."""
    folder = files("holdcourse.wind") / "page"
    parts = {
        "TITLE": escape(f"Altitude control at {', '.join(result.site for result in results)}"),
        "HEADLINE": _headline(results, wording),
        "TABLE": _table(results),
        "RHO_NOTE": ""
        if results[0].plan.rho == 1
        else f"The energy made is multiplied by &#961; = {results[0].plan.rho:g}. ",
        "YEARS": section(results),
        "ABOUT": "".join(_about(result, wording) for result in results),
        "STYLE": style() + LAYOUT,
        "SCRIPT": (folder / "report.js").read_text(encoding="utf-8"),
        # A "<" inside could end the script element.
        "DATA": json.dumps({"sites": [_site(result) for result in results]}, allow_nan=False).replace("<", "\\u003c"),
    }
    pieces = (folder / "report.html").read_text(encoding="utf-8").split("@")
    # Odd pieces are names; splitting once keeps an @ inside the data from being taken for one.
    return "".join(parts[piece] if number % 2 else piece for number, piece in enumerate(pieces))


def _headline(results: Sequence[SiteResult], wording: Wording) -> str:
    made = ["<h1>Would altitude control have paid off?</h1>"]
    for result in results if len(results) == 1 else ():
        days = f"{result.backtest.days:.0f} days flown"
        made.append(f"<p class='lead'>{escape(result.site)}, {escape(result.period)}, {days}</p>")
    for result in results:
        kind, word = VERDICTS[result.backtest.verdict]
        at = f"{escape(result.site)}: " if len(results) > 1 else ""
        answer = escape(result.backtest.conclusion)
        made.append(f"<div class='answer {kind}'><span class='verdict'>{at}{word}</span><p>{answer}</p>")
        made.append(f"<p class='small'>{escape(result.flown_words)}</p></div>")
        made += [f"<p class='warning'>{at}{escape(warning)}</p>" for warning in wording(result.warnings)]
    return "\n".join(made)


def _table(results: Sequence[SiteResult]) -> str:
    priced = results[0].plan.price is not None
    columns = [*COLUMNS, *(money_columns(results[0].plan.currency) if priced else ())]
    rows = ["<tr><th>policy</th>" + "".join(f"<th>{escape(column)}</th>" for column in columns) + "</tr>"]
    for result in results:
        if len(results) > 1:
            rows.append(f"<tr class='site'><td colspan='{len(columns) + 1}'>{escape(result.site)}</td></tr>")
        judged = result.backtest.judged
        for row in result.backtest.lines:
            shown = look(row.policy)
            swatch = f"<span class='swatch{' know' * shown.knowing}' style='border-top-color:{shown.colour}'></span>"
            name = f"{swatch}{escape(row.policy)}{' *' * shown.knowing}"
            numbers = "".join(f"<td>{cell}</td>" for cell in cells(row, result))
            best = " class='best'" if judged is not None and row.policy == judged.policy else ""
            rows.append(f"<tr{best} title='{escape(shown.says, quote=True)}'><td>{name}</td>{numbers}</tr>")
    return f"<div class='scroll'><table>{''.join(rows)}</table></div>"


def _about(result: SiteResult, wording: Wording) -> str:
    facts = [("Site", result.site), ("Period", result.period), ("Wind data", result.source)]
    facts += [("", note) for note in wording(result.notes)] + settings(result)
    facts += [("Made with", f"holdcourse {hc.__version__}")]
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts)
    return f"<h2>Data and settings</h2><dl>{rows}</dl>"


def settings(result: SiteResult) -> list[tuple[str, str]]:
    """Return what the backtest was run with, in words."""
    plan, world = result.plan, result.backtest.world
    way = (
        f"{world.climb:g} kWh per metre"
        if world.climb == world.sink
        else f"{world.climb:g} kWh per metre up, {world.sink:g} down"
    )
    kind = f" ({plan.movement})" if isinstance(plan.movement, str) else ""
    levels = world.altitudes
    return [
        ("Machine", f"{plan.curve.name}, at most {plan.curve.largest_power:.1f} kW"),
        (
            "Altitudes",
            f"{len(levels)} from {levels[0]:.0f} to {levels[-1]:.0f} m, start {levels[result.backtest.start]:.0f} m",
        ),
        ("Moving", way + kind),
        ("Weight rho", f"{plan.rho:g}"),
        ("Learning", f"context {plan.context}, hyperparameters {plan.hyperparameters}, seed {plan.seed}"),
    ]


def _site(result: SiteResult) -> dict[str, Any]:
    found, world = result.backtest, result.backtest.world
    top = float(np.quantile(world.speed, 0.995))
    largest = int(np.ceil(world.speed.max() * 100))
    curve = world.curve.tables(np.arange(largest + 1) / 100)
    focus = found.judged.policy if found.judged is not None else next(iter(found.flights))
    return {
        "name": result.site,
        "time": _packed(world.time.astype("datetime64[s]").astype(np.int64), np.uint32),
        "step_hours": world.step_hours,
        "lengths": list(found.lengths),
        "altitudes": world.altitudes.round(3).tolist(),
        "speed": _packed(np.round(world.speed * 100), np.uint16),
        # Power at every cm/s, for all altitudes or for each: the page need not know the machine.
        "curves": curve.round(3).tolist(),
        "top_speed": max(top, 1.0),
        "top_power": max(float(curve.max()), 0.1),
        "rho": world.rho,
        "climb": world.climb,
        "sink": world.sink,
        "start": found.start,
        "shown": worth_showing(found),
        "focus": focus,
        "policies": [_policy(flight) for flight in found.flights.values()],
        "lines": [line_data(row) for row in found.lines],
        "what_if": [{"rho": rho, "lines": [line_data(row) for row in rows]} for rho, rows in result.what_if.items()],
    }


def _policy(flight: Flight) -> dict[str, Any]:
    shown, reasons = look(flight.policy), flight.reasons
    drawn = (flight.probabilities < 1).any()
    return {
        "name": flight.policy,
        "colour": shown.colour,
        "know": shown.knowing,
        "says": shown.says,
        "actions": _packed(flight.actions, np.uint16),
        "probabilities": _packed(flight.probabilities, np.float32) if drawn else None,
        "reasons": None
        if reasons is None
        else {part.name: _packed(getattr(reasons, part.name), np.float32) for part in fields(Reasons)},
        "plans": None if flight.plans is None else _plans(flight.plans),
    }


def _plans(plans: Plans) -> dict[str, Any]:
    return {
        "length": plans.actions.shape[1],
        "rounds": _packed(plans.rounds, np.uint32),
        "actions": _packed(plans.actions, np.uint16),
        "more": _packed(plans.more, np.float32),
        "home": None if plans.home is None else _packed(plans.home, np.uint16),
    }


def _packed(values: ArrayLike, kind: type[np.generic]) -> str:
    little = np.asarray(values).astype(np.dtype(kind).newbyteorder("<"))
    return base64.b64encode(little.tobytes()).decode("ascii")


def write_report(
    results: Sequence[SiteResult], folder: str | Path, *, pictures: bool = True, wording: Wording = list
) -> list[Path]:
    """Write `report.html`, `summary.csv`, `decisions.csv` and, with the extra [plot], the pictures.

    With a year of wind or more also `yearly.csv`, `month_hour.csv` and `altitude_hours.csv`.

    Parameters
    ----------
    results
        Results, one for each site; they share one page and one pair of tables.
    folder
        Folder of the report, created if necessary; files of an earlier report in it are replaced.
    pictures
        Whether to draw PNG files too. If they cannot be drawn, `MissingExtra` is raised before anything is written.
    wording
        Function that returns notes in other words: the command line names options where the library names parameters.

    Returns
    -------
    The files written, the page first.
    """
    if not results:
        raise InvalidInput("there is no result to report; give at least one")
    if pictures:
        check_pictures()
    folder = Path(folder)
    paths = [folder / name for name in ("report.html", "summary.csv", "decisions.csv")]
    with writing(folder):
        paths[0].write_text(page(results, wording), encoding="utf-8")
        write_summary(results, paths[1])
        write_decisions(results, paths[2])
        paths += write_yearly(results, folder)
        for number, result in enumerate(results, 1):
            if pictures:
                paths += write_pictures(result, folder, "" if len(results) == 1 else f"{number}-{_slug(result.site)}-")
    return paths


def _slug(name: str) -> str:
    """Return a site's name as part of a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "site"
