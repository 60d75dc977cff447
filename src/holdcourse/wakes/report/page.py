"""The report as one page of HTML that needs no network: the front, the table, where and when the farm steered."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

import holdcourse as hc
from holdcourse.archive import write_file, writing
from holdcourse.backtest.pictures import can_draw
from holdcourse.backtest.verdict import VERDICTS, style
from holdcourse.deciding import registry
from holdcourse.wakes.bundled import CREDIT, NAME
from holdcourse.wakes.clusters import ClusteredTable
from holdcourse.wakes.drift import SEASONS
from holdcourse.wakes.farm import WakeModel
from holdcourse.wakes.report.pictures import apart, write_pictures
from holdcourse.wakes.report.tables import (
    COLUMNS,
    as_data,
    cells,
    comparison,
    front_label,
    interval,
    legend,
    name_of,
    percent,
    prices,
    title_of,
    words,
    write_decisions,
    write_front,
    write_summary,
)
from holdcourse.wakes.result import HINDSIGHT, OURS, Backtest, Point, Steered, colour_of, label_of

Array: TypeAlias = NDArray[np.float64]

LEFT, RIGHT, TOP, BOTTOM = 70, 150, 20, 54
LEAST = 500.0  # degrees a year: what travels less is not drawn
PICTURE = """
.picture { width: 100%; height: auto; overflow: visible; } .picture text { fill: var(--soft); font-size: 15px; }
.picture .grid { stroke: var(--line); } .picture .ink { stroke: var(--soft); fill: none; }
.picture .farm { fill: var(--ink); } .picture .wake { fill: var(--accent); opacity: .13; }
.picture .rotor { stroke: var(--ink); stroke-width: 4; } .picture .steers { stroke: #c4455d; }
.picture .frame { fill: none; stroke: var(--line); } .narrow { display: none; }
@media (max-width: 640px) { .wide { display: none; } .narrow { display: block; } }
.farms { display: grid; grid-template-columns: repeat(auto-fit, minmax(270px, 1fr)); gap: 1.2rem; }
"""


def write_report(
    found: Backtest, folder: Path, *, model: WakeModel | None = None, pictures: bool | None = None
) -> list[Path]:
    """Write `report.html`, `wakes.json`, `summary.csv`, `front.csv`, `decisions.csv` and, with [plot], pictures.

    Parameters
    ----------
    model
        Draws the wakes of the picture of the farm; without it there is no such picture.
    pictures
        Draw PNG files; default: if they can be drawn.
    """
    drawn = can_draw() if pictures is None else pictures
    names = ("report.html", "wakes.json", "summary.csv", "front.csv", "decisions.csv")
    paths = [folder / name for name in names]
    with writing(folder):
        paths[0].write_text(page(found), encoding="utf-8")
        write_file(paths[1], (json.dumps(as_data(found), indent=1) + "\n").encode())
        write_summary(found, paths[2])
        write_front(found, paths[3])
        write_decisions(found, paths[4])
        if drawn:
            paths += write_pictures(found, folder, model)
    return paths


def page(found: Backtest) -> str:
    """Return the report as one page of HTML, with its style and pictures inside."""
    kind, word = VERDICTS[found.verdict]
    parts = [
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>Wake steering at {escape(found.table.farm.name)}</title>",
        f"<style>{style()}{PICTURE}</style></head><body><header>",
        "<div class='bar'><span class='brand'>holdcourse</span></div>",
        "<h1>Would wake steering have paid off?</h1>",
        f"<p class='lead'>{escape(title_of(found))}</p>",
        f"<div class='answer {kind}'><span class='verdict'>{word}</span><p>{_unbroken(found.conclusion)}</p></div>",
        *(f"<p class='warning'>{escape(text)}</p>" for text in found.warnings),
        "</header><main>",
        _front(found),
        _table(found),
        _farms(found),
        _sectors(found),
        _turbines(found),
        _drift(found),
        _about(found),
        "</main></body></html>",
    ]
    return "\n".join(part for part in parts if part)


def _unbroken(text: str) -> str:
    return escape(text).replace(" %", "&#160;%")


def _front(found: Backtest) -> str:
    """Return the front as a picture: gain against travel, which is on a logarithmic axis."""
    drawn = {
        name: [point for point in points if point.travel >= LEAST]
        for name, points in found.fronts.items()
        if name != HINDSIGHT
    }
    drawn = {name: points for name, points in drawn.items() if points}
    if OURS not in drawn:
        return ""
    banded = any(not math.isnan(point.low) for point in drawn[OURS])
    bands = "The band is the 95 % interval by weeks. " if banded else ""
    said = "".join(f"<p>{_unbroken(text)}</p>" for text in words(found))
    return (
        "<section><h2>Energy gained, and what it takes</h2>"
        f"{_front_picture(drawn, 'wide', 1000, 470)}{_front_picture(drawn, 'narrow', 500, 420)}{said}"
        "<p class='small'>Energy gained over no steering, against travel. Each policy has several points: ours one for "
        "each price of a degree, hysteresis for each width of its zone, rate limits for each limit. "
        f"{bands}Higher and farther left is better.</p>{_beside(found)}</section>"
    )


def _front_picture(drawn: Mapping[str, Sequence[Point]], kind: str, wide: int, high: int) -> str:
    """Return the fronts as a picture of some size; a narrow one is for phones and says less beside its axes."""
    everything = [point for points in drawn.values() for point in points]
    low, most = min(p.travel for p in everything) / 1.15, max(p.travel for p in everything) * 1.15
    tops = [p.gain for p in everything] + [p.high for p in drawn[OURS] if not math.isnan(p.high)]
    top, least = max(tops) * 1.06, min(0.0, *(p.gain for p in everything))

    def x(travel: float) -> float:
        return LEFT + (wide - LEFT - RIGHT) * math.log(travel / low) / math.log(most / low)

    def y(gain: float) -> float:
        return TOP + (high - TOP - BOTTOM) * (top - gain) / ((top - least) or 1.0)

    parts = []
    for tick in _nice(least, top):
        parts.append(f"<path class='grid' d='M{LEFT} {y(tick):.1f}H{wide - RIGHT}'/>")
        parts.append(f"<text x='{LEFT - 8}' y='{y(tick) + 5:.1f}' text-anchor='end'>{tick:+.1f} %</text>")
    for power in range(2, 8):
        for digit in (1, 3) if kind == "wide" else (1,):
            travel = digit * 10.0**power
            if low <= travel <= most:
                parts.append(f"<path class='grid' d='M{x(travel):.1f} {TOP}V{high - BOTTOM}'/>")
                parts.append(
                    f"<text x='{x(travel):.1f}' y='{high - BOTTOM + 20}' text-anchor='middle'>{travel:,.0f}</text>"
                )
    middle, axis = (LEFT + wide - RIGHT) / 2, "degrees that all nacelles turned for offsets in a year"
    axis = axis if kind == "wide" else "degrees turned in a year"
    parts.append(f"<text x='{middle}' y='{high - 8}' text-anchor='middle'>{axis}</text>")
    band = [point for point in drawn[OURS] if not math.isnan(point.low)]
    if band:
        edge = [(x(p.travel), y(p.high)) for p in band] + [(x(p.travel), y(p.low)) for p in reversed(band)]
        shape = "L".join(f"{px:.1f} {py:.1f}" for px, py in edge)
        parts.append(f"<path d='M{shape}Z' fill='{colour_of(OURS)}' opacity='.13'/>")
    parts += [_curve(name, points, x, y) for name, points in drawn.items()]
    heights = apart({name: y(points[-1].gain) for name, points in drawn.items()}, 19.0)
    parts += [
        f"<text x='{wide - RIGHT + 10}' y='{height + 5:.1f}' style='fill:{colour_of(name)};font-weight:650'>"
        f"{escape(front_label(name))}</text>"
        for name, height in heights.items()
    ]
    return (
        f"<svg class='picture {kind}' viewBox='0 0 {wide} {high}' role='img' "
        f"aria-label='energy gain against yaw travel'>{''.join(parts)}</svg>"
    )


def _beside(found: Backtest) -> str:
    """Return our gain beside that of every rule, at the travel of the rule."""
    rows = comparison(found)
    if not rows:
        return ""
    heads = ("rule", "degrees a year", "its energy", "ours with as much travel", "more", "95 % by weeks")
    cells = [f"<tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>"]
    for row in rows:
        name, setting = str(row["policy"]), float(row["setting"])
        label = Steered(name, setting or None, *(np.zeros(0),) * 3).label
        numbers = [float(row[key]) for key in ("travel", "gain", "ours", "more", "more_low", "more_high")]
        shown = [f"{numbers[0]:,.0f}", *(percent(number) for number in numbers[1:4]), interval(*numbers[4:])]
        cells.append(f"<tr><td>{escape(label)}</td>{''.join(f'<td>{cell}</td>' for cell in shown)}</tr>")
    return (
        f"<div class='scroll'><table>{''.join(cells)}</table></div><p class='small'>The bootstrap draws the same weeks "
        "for both. If an interval is above 0, the planner gains more than the rule with the same travel, as far as "
        "this record can tell.</p>"
    )


def _curve(name: str, points: Sequence[Point], x: Callable[[float], float], y: Callable[[float], float]) -> str:
    colour = colour_of(name)
    wide = 4 if name == OURS else 2.5
    path = "L".join(f"{x(p.travel):.1f} {y(p.gain):.1f}" for p in points)
    dots = "".join(
        f"<circle cx='{x(p.travel):.1f}' cy='{y(p.gain):.1f}' r='{wide + 1:g}' fill='{colour}'>"
        f"<title>{escape(front_label(name))} {p.setting:g}: {p.gain:+.2f} %, {p.travel:,.0f} degrees a year</title>"
        "</circle>"
        for p in points
    )
    return f"<path d='M{path}' fill='none' stroke='{colour}' stroke-width='{wide}'/>{dots}"


def _nice(low: float, high: float) -> list[float]:
    step = 10.0 ** math.floor(math.log10((high - low) or 1.0))
    step = step / 5 if (high - low) / step < 2.5 else step / 2 if (high - low) / step < 5 else step
    return [round(k * step, 9) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _table(found: Backtest) -> str:
    rows = [f"<tr><th>policy</th>{''.join(f'<th>{escape(name)}</th>' for name in COLUMNS)}</tr>"]
    for line in found.lines:
        colour, knowing = colour_of(line.policy), " know" * registry.is_knowing(line.policy)
        swatch = f"<span class='swatch{knowing}' style='border-top-color:{colour}'></span>"
        numbers = "".join(f"<td>{escape(cell)}</td>" for cell in cells(line))
        best = " class='best'" if found.judged is not None and line.policy == found.judged.policy else ""
        rows.append(f"<tr{best}><td>{swatch}{escape(name_of(line))}</td>{numbers}</tr>")
    starred = any(registry.is_knowing(line.policy) for line in found.lines)
    star = " The policy marked * knows all wind in advance; it is a yardstick, not an option." if starred else ""
    return (
        f"<section><h2>Every policy</h2><div class='scroll'><table>{''.join(rows)}</table></div><p class='small'>"
        f"{legend(found)} Intervals: bootstrap over weeks and over blocks of four weeks."
        f"{star}</p></section>"
    )


def _farms(found: Backtest) -> str:
    """Return pictures of the farm in the hours in which steering gained most, one for each direction."""
    if OURS not in found.runs:
        return ""
    figures = "".join(_farm(found, t) for t in found.striking_rounds())
    return (
        f"<section><h2>The farm while it steers</h2><div class='farms'>{figures}</div><p class='small'>Intervals in "
        "which the planner gained most, at most one from each 30 degrees of direction. North is up; the arrow is the "
        "wind. Red rotors have an offset; a positive offset turns the nacelle counterclockwise, seen from above. Wakes "
        "are sketched, not computed.</p></section>"
        if figures
        else ""
    )


def _farm(found: Backtest, t: int) -> str:
    farm, run = found.table.farm, found.runs[OURS]
    place = int(found.rounds.first[t])
    record = found.rounds.record
    direction, speed = float(record.direction[place]), float(record.speed[place])
    d = float(farm.diameter.max())
    span = max(np.ptp(farm.x), np.ptp(farm.y)) / 2 + 4 * d
    x0, y0 = (farm.x.min() + farm.x.max()) / 2, (farm.y.min() + farm.y.max()) / 2
    scale = 150 / span

    def at(x: float, y: float) -> str:
        return f"{150 + scale * (x - x0):.1f} {150 - scale * (y - y0):.1f}"

    blows = math.radians(270.0 - direction)  # where the wind goes, from the east
    parts = []
    for k, offset in enumerate(run.offsets[t].tolist()):
        x, y = float(farm.x[k]), float(farm.y[k])
        aside = blows - math.radians(0.25 * offset)  # positive offsets push the wake to the right of the wind
        reach = 12 * d
        ends = []
        for side, length in ((1, 0.0), (1, reach), (-1, reach), (-1, 0.0)):
            half = (0.5 + 0.05 * length / d) * d * side
            ends.append(
                at(
                    x + length * math.cos(aside) - half * math.sin(aside),
                    y + length * math.sin(aside) + half * math.cos(aside),
                )
            )
        parts.append(f"<path class='wake' d='M{'L'.join(ends)}Z'/>")
    for k, offset in enumerate(run.offsets[t].tolist()):
        x, y = float(farm.x[k]), float(farm.y[k])
        plane = blows + math.radians(offset) + math.pi / 2
        dx, dy = 0.8 * d * math.cos(plane), 0.8 * d * math.sin(plane)
        kind = "rotor steers" if offset else "rotor"
        parts.append(f"<path class='{kind}' d='M{at(x - dx, y - dy)}L{at(x + dx, y + dy)}'/>")
        if offset:
            px, py = at(x, y).split()
            parts.append(f"<text x='{float(px) + 12:.1f}' y='{float(py) + 5:.1f}'>{offset:+g}°</text>")
    tail, tip = (at(x0 + side * math.cos(blows), y0 + side * math.sin(blows)) for side in (-0.97 * span, -0.8 * span))
    barbs = [
        at(x0 - 0.87 * span * math.cos(blows + turn), y0 - 0.87 * span * math.sin(blows + turn))
        for turn in (0.03, -0.03)
    ]
    parts.append(f"<path class='ink' d='M{tail}L{tip}M{barbs[0]}L{tip}L{barbs[1]}'/>")
    parts.append("<rect class='frame' x='.5' y='.5' width='299' height='299'/>")
    more = float(run.energy[t] - found.base[t])
    share = 100 * more / float(found.base[t])
    caption = (
        f"{str(found.rounds.time[t])[:16].replace('T', ' ')} UTC: wind from {direction:.0f}°, {speed:.1f} m/s, "
        f"{more:+.0f} kWh ({share:+.1f} %)"
    )
    return (
        f"<figure style='margin:0'><svg class='picture' viewBox='0 0 300 300' role='img' aria-label='the farm'>"
        f"<clipPath id='clip{t}'><rect width='300' height='300'/></clipPath><g clip-path='url(#clip{t})'>"
        f"{''.join(parts)}</g></svg><figcaption class='small'>{escape(caption)}</figcaption></figure>"
    )


def _sectors(found: Backtest) -> str:
    if OURS not in found.runs:
        return ""
    edges, whole, steered = found.sector_hours(OURS)
    look = found.sector_hours("lookup")[2] if "lookup" in found.runs else None
    head = "<tr><th>wind from</th><th>hours a year</th><th>steering, planner</th>"
    rows = [head + ("<th>steering, lookup table</th>" if look is not None else "") + "</tr>"]
    for k, edge in enumerate(edges.tolist()):
        extra = "" if look is None else f"<td>{look[k]:,.0f}</td>"
        span = f"{edge:.0f}\u00a0to\u00a0{edge + 30:.0f}°"
        rows.append(f"<tr><td>{span}</td><td>{whole[k]:,.0f}</td><td>{steered[k]:,.0f}</td>{extra}</tr>")
    return (
        f"<section><h2>Hours of steering by direction</h2><div class='scroll'><table>{''.join(rows)}</table></div>"
        "</section>"
    )


def _turbines(found: Backtest) -> str:
    shown = [name for name in (OURS, "wake-learner", "lookup") if name in found.runs]
    if not shown:
        return ""
    heads = "".join(f"<th>{escape(label_of(name))}</th>" for name in shown)
    clusters = found.believed.members if isinstance(found.believed, ClusteredTable) else ()
    cluster_of = {int(turbine): k + 1 for k, members in enumerate(clusters) for turbine in members}
    rows = [f"<tr><th>turbine</th>{'<th>cluster</th>' if clusters else ''}{heads}</tr>"]
    travel = [found.turbine_travel(name) for name in shown]
    for k, turbine in enumerate(found.table.farm.turbines):
        numbers = "".join(f"<td>{each[k]:,.0f}</td>" for each in travel)
        which = f"<td>{cluster_of[k]}</td>" if clusters else ""
        rows.append(f"<tr><td>{escape(turbine)}</td>{which}{numbers}</tr>")
    return (
        f"<section><h2>Degrees a year by turbine</h2><div class='scroll'><table>{''.join(rows)}</table></div></section>"
    )


def _drift(found: Backtest) -> str:
    drift = found.drift
    rows = ["<tr><th>wind speed</th>" + "".join(f"<th>{season}</th>" for season in SEASONS) + "</tr>"]
    for k, speed in enumerate(drift.speeds.tolist()):
        numbers = "".join(f"<td>{drift.error[season, k]:.0f}°</td>" for season in range(len(SEASONS)))
        rows.append(f"<tr><td>{speed:g} m/s</td>{numbers}</tr>")
    return (
        f"<section><h2>How far the direction turns in {60 * drift.hours:g} minutes</h2><div class='scroll'><table>"
        f"{''.join(rows)}</table></div><p class='small'>Median turn of the wind direction from one decision to the "
        f"next, in steps of {drift.direction_step:g}°, by the speed before it. The planner uses the whole "
        "distribution.</p></section>"
    )


def _about(found: Backtest) -> str:
    study, table, record = found.study, found.table, found.rounds.record
    facts = [
        ("Farm", f"{table.farm.name}, {len(table.farm)} turbines: {', '.join(table.farm.turbines)}"),
        ("Record", f"{record.name}, {len(record):,} readings every {60 * record.step_hours:g} min"),
        *((("Credit", CREDIT),) if record.name == NAME else ()),
        (
            "Decisions",
            "idealised: each knows its own interval"
            if study.knowing
            else "no look ahead: each knows earlier readings only",
        ),
        ("How the wind turns", f"learned from {found.drift_judged}"),
        (
            "Wake model",
            f"FLORIS at {len(table.directions)} directions and {len(table.speeds)} speeds from {table.speeds[0]:g} to "
            f"{table.speeds[-1]:g} m/s, turbulence intensity {100 * table.turbulence:g} %",
        ),
        ("Wear", f"{prices(found)} per degree"),
        *(("Note", note) for note in found.notes if note),
        (
            "Not modelled",
            "yawing that tracks the wind, time spent turning, turbulence by season, errors of vanes, outages",
        ),
        ("Made with", f"holdcourse {hc.__version__}"),
    ]
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts)
    return f"<section id='about'><h2>Data and settings</h2><dl>{rows}</dl></section>"
