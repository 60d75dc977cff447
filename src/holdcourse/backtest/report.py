"""The report on a plant as a folder: one HTML page that needs no network and prints well, and tables for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

import holdcourse as hc
from holdcourse import archive
from holdcourse.backtest.evidence import Interval
from holdcourse.backtest.plant import AS_RUN, BEST_FIXED, FIXED, PlantBacktest, amount, in_percent
from holdcourse.backtest.readings import Readings
from holdcourse.backtest.verdict import VERDICTS, style
from holdcourse.deciding import registry
from holdcourse.tables.spreadsheet import write_rows

Array: TypeAlias = NDArray[np.float64]

RIVALS = {
    AS_RUN: "what was done",
    FIXED: "the best fixed setting in half of the readings",
    BEST_FIXED: "the best fixed setting in hindsight",
}
WIDE, HIGH = 1000, 220  # of a picture
CLEAR = 14  # between the lines of its numbers


def write_report(
    found: PlantBacktest, readings: Readings, folder: Path, checked: Sequence[str] = (), more: Mapping[str, object] = {}
) -> list[Path]:
    """Write `report.html`, `backtest.json`, `summary.csv` and `decisions.csv`; returns them, the page first.

    Parameters
    ----------
    checked
        What a check of the readings says, in sentences.
    more
        What else `backtest.json` holds.
    """
    paths = [folder / name for name in ("report.html", "backtest.json", "summary.csv", "decisions.csv")]
    with archive.writing(folder):
        paths[0].write_text(page(found, readings, checked), encoding="utf-8")
        archive.write_file(paths[1], (json.dumps(found.as_values() | dict(more), indent=1) + "\n").encode())
        with paths[2].open("w", newline="", encoding="utf-8") as file:
            write_rows(file, _summary(found))
        with paths[3].open("w", newline="", encoding="utf-8") as file:
            write_rows(file, _decisions(found, readings))
    return paths


def page(found: PlantBacktest, readings: Readings, checked: Sequence[str] = ()) -> str:
    """Return the report as one page of HTML, with its style and pictures inside."""
    kind, word = VERDICTS[found.verdict]
    parts = [
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{escape(readings.label)}: would it have paid off?</title>",
        f"<style>{style()}{style('plant')}</style></head><body><header>",
        "<div class='bar'><span class='brand'>holdcourse</span></div>",
        "<h1>Would it have paid off at this plant?</h1>",
        f"<p class='lead'>{escape(readings.label)}, {escape(_period(readings))}</p>",
        f"<div class='answer {kind}'><span class='verdict'>{word}</span><p>{_unbroken(found.conclusion)}</p></div>",
        "</header><main>",
        _against(found),
        _table(found),
        _blocks(found, readings),
        _settings(found),
        _doubts(found),
        _list("Can these readings be learned from?", checked),
        _about(found, readings),
        "</main></body></html>",
    ]
    return "\n".join(part for part in parts if part)


def _unbroken(text: str) -> str:
    """Return a text whose numbers keep their sign of percent on the same line."""
    return escape(text).replace(" %", "&#160;%")


def _tells(found: PlantBacktest) -> bool:
    """Whether there are numbers to show: not where the readings cannot tell."""
    return found.support is None or found.support.enough


def _period(readings: Readings) -> str:
    if readings.times is None:
        return f"{len(readings):,} readings"
    return f"{str(readings.times[0])[:10]} to {str(readings.times[-1])[:10]}, {len(readings):,} readings"


def _against(found: PlantBacktest) -> str:
    if not _tells(found) or found.judged is None:
        return ""
    rows = ["<tr><th>against</th><th>saved</th><th>95 % interval</th><th>that is</th></tr>"]
    for rival, interval in found.against.items():
        percent, low, high = interval.percent
        shown = ["?", "?"] if math.isnan(percent) else [f"{percent:+.1f} %", f"{low:+.1f} to {high:+.1f} %"]
        worth = found.value.words(interval.low, interval.saved, interval.high)
        rows.append(
            f"<tr><td>{escape(RIVALS[rival])}</td><td>{shown[0]}</td><td>{shown[1]}</td>"
            f"<td class='words'>{escape(worth)}</td></tr>"
        )
    name = escape(registry.label_of(found.judged.policy))
    return f"<section><h2>What {name} saves</h2><div class='scroll'><table>{''.join(rows)}</table></div></section>"


def _table(found: PlantBacktest) -> str:
    heads = ("policy", "cost", "of it moving", "saved", "95 % interval", "guessed")
    scale = found.value.total
    rows = [f"<tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>"]
    for line in found.lines:
        saved = ("", "") if line.policy == AS_RUN else in_percent(line)
        if not _tells(found):
            saved = ("?", "?")
        cells = [amount(scale * line.total), amount(scale * line.movement), *saved, f"{100 * line.guessed:.0f} %"]
        best = " class='best'" if found.judged is not None and line.policy == found.judged.policy else ""
        knowing = " *" if registry.is_knowing(line.policy) and line.policy != AS_RUN else ""
        swatch = f"<span class='swatch' style='border-top-color:{registry.colour_of(line.policy)}'></span>"
        name = f"{swatch}{escape(registry.label_of(line.policy))}{knowing}"
        rows.append(f"<tr{best}><td>{name}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    unit = found.value.total_unit
    unit = f" in {escape(unit)}, summed over the readings" if unit else ""
    return (
        f"<section><h2>Every policy</h2><div class='scroll'><table>{''.join(rows)}</table></div><p class='small'>Costs"
        f"{unit}, estimated by a model of the half of the readings that no policy saw. Saved: less than what was done. "
        "Policies marked * know more than anybody can measure at the plant; they are yardsticks, not options. Fixed: "
        "the best fixed setting in the half that policies ran in. Stationary: stays at the setting where the run "
        "begins. Guessed: share of rounds in settings about which the readings say next to nothing.</p></section>"
    )


def _blocks(found: PlantBacktest, readings: Readings) -> str:
    """Return a picture of what was saved in each block of time."""
    if not _tells(found) or found.judged is None or found.blocks is None or found.saved_each is None:
        return ""
    scale = found.value.total
    sums = scale * np.bincount(found.blocks, found.saved_each)
    top, low = max(float(sums.max()), 0.0), min(float(sums.min()), 0.0)
    span = (top - low) or 1.0
    width = (WIDE - 90) / len(sums)
    zero = 10 + (HIGH - 40) * top / span
    bars = []
    for k, value in enumerate(sums.tolist()):
        height = (HIGH - 40) * abs(value) / span
        y = zero - height if value >= 0 else zero
        kind = "bar" if value >= 0 else "loss"
        bars.append(
            f"<rect class='{kind}' x='{80 + k * width:.1f}' y='{y:.1f}' width='{max(width - 2, 1):.1f}' "
            f"height='{height:.1f}'/>"
        )
    marks = [f"<text x='72' y='{zero + 4:.1f}' text-anchor='end'>0</text>"]
    if top and zero - 14 > CLEAR:
        marks.append(f"<text x='72' y='18' text-anchor='end'>{amount(top)}</text>")
    if low and HIGH - 30 - zero > CLEAR:  # else the numbers would cover each other
        marks.append(f"<text x='72' y='{HIGH - 26}' text-anchor='end'>{amount(low)}</text>")
    times = readings.times
    if times is not None:
        for place, k in enumerate(np.unique(np.linspace(0, len(sums) - 1, 5).astype(int)).tolist()):
            first = int(np.flatnonzero(found.blocks == k)[0])
            end = " text-anchor='end'" if k == len(sums) - 1 else ""
            between = " class='between'" if place in (1, 3) else ""
            x = WIDE - 8 if end else 80 + k * width
            marks.append(f"<text x='{x:.1f}' y='{HIGH - 8}'{end}{between}>{str(times[first])[:10]}</text>")
    unit = found.value.total_unit or "the unit of the costs"
    drawn = f"<path class='ink' d='M80 {zero:.1f}H{WIDE - 8}'/>"
    return (
        f"<section><h2>When it was saved</h2><svg class='picture' viewBox='0 0 {WIDE} {HIGH}' role='img' "
        f"aria-label='saved in each block of time'>{''.join(bars)}{drawn}{''.join(marks)}</svg>"
        f"<p class='small'>Saved against what was done in each block of time, in {escape(unit)}.</p></section>"
    )


def _settings(found: PlantBacktest) -> str:
    """Return how long each setting ran, and would have run."""
    if found.judged is None or found.judged.policy not in found.taken:
        return ""
    problem, n = found.world.problem, found.world.problem.n
    shares = [
        np.bincount(found.taken[name], minlength=n) / len(found.taken[name]) for name in (AS_RUN, found.judged.policy)
    ]
    label = escape(registry.label_of(found.judged.policy))
    unit = next(iter(problem.units), "")
    rows = [f"<tr><th>setting{f' ({escape(unit)})' if unit else ''}</th><th>ran</th><th>with {label}</th></tr>"]
    for action in range(n):
        value = problem.value(action)
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        cells = "".join(f"<td>{100 * share[action]:.1f} %</td>" for share in shares)
        rows.append(f"<tr><td>{escape(shown)}</td>{cells}</tr>")
    changes = [int((np.diff(found.taken[name]) != 0).sum()) for name in (AS_RUN, found.judged.policy)]
    return (
        f"<section><h2>Which settings it would have used</h2><div class='scroll'><table>{''.join(rows)}</table></div>"
        f"<p class='small'>Number of changes: {changes[0]:,} as run, {changes[1]:,} with {label}.</p></section>"
    )


def _doubts(found: PlantBacktest) -> str:
    """Return what the interval is made of, in words."""
    interval = found.against.get(AS_RUN)
    if interval is None or not _tells(found):
        return ""
    return _list("What the interval includes, and what it does not", doubts(interval))


def doubts(interval: Interval) -> list[str]:
    """Return what an interval is made of, in words."""
    made_of = (interval.time, interval.model, interval.check)
    if math.isnan(interval.of):  # no percentage
        parts = [amount(part) for part in made_of]
    else:
        parts = [f"{100 * part / (abs(interval.of) or 1.0):.2f} points" for part in made_of]
    return [
        f"Another period would have had other conditions: {parts[0]} (standard deviation over blocks of time).",
        f"The model has seen only these readings: {parts[1]} (when a fifth of its blocks is left out).",
        f"The model has errors on the half that it has not seen: {parts[2]} (by setting and block of time).",
        "The interval does not include operators' reasons for a setting that are not among the contexts, a plant that "
        "has changed since, or settings that nobody has tried.",
    ]


def _about(found: PlantBacktest, readings: Readings) -> str:
    facts = [
        ("Readings", f"{readings.label}, {_period(readings)}"),
        ("Setting", readings.action),
        ("Cost", readings.cost),
        ("Contexts", ", ".join(readings.context)),
        ("Limits in operation", found.limits or "none"),
        *_under("How they were read", readings.notes),
        *_under("How it was judged", found.notes),
        ("Made with", f"holdcourse {hc.__version__}"),
    ]
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts)
    return f"<section id='about'><h2>Data and settings</h2><dl>{rows}</dl></section>"


def _under(name: str, notes: Sequence[str]) -> list[tuple[str, str]]:
    """Return notes under one name."""
    return [(name if k == 0 else "", note) for k, note in enumerate(notes)]


def _list(title: str, sentences: Sequence[str]) -> str:
    if not sentences:
        return ""
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f"<section><h2>{escape(title)}</h2><ul>{items}</ul></section>"


def _summary(found: PlantBacktest) -> list[list[object]]:
    head = ["policy", "service", "movement", "total", "saved_percent", "low_percent", "high_percent", "guessed_share"]
    rows: list[list[object]] = [[*head]]
    for line in found.lines:
        told = _tells(found) and not math.isnan(line.saved)
        saved: list[object] = [line.saved, line.low, line.high] if told else ["", "", ""]
        rows.append([line.policy, line.service, line.movement, line.total, *saved, line.guessed])
    return rows


def _decisions(found: PlantBacktest, readings: Readings) -> list[list[object]]:
    problem, history = found.world.problem, readings.history
    names = list(found.taken)
    rows: list[list[object]] = [["time", "line", *readings.context, "measured", *names]]
    for t in range(len(history)):
        time = "" if readings.times is None else f"{readings.times[t]}Z"
        values = [problem.value(int(found.taken[name][t])) for name in names]
        rows.append(
            [time, int(readings.lines[t]), *history.contexts[t].tolist(), float(history.measurements[t]), *values]
        )
    return rows
