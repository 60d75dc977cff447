"""The report on a trial: sentences for the screen, and a folder with one HTML page and tables for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

import holdcourse as hc
from holdcourse import archive
from holdcourse.backtest.verdict import style
from holdcourse.deciding.trial import heard_in_words
from holdcourse.errors import counted
from holdcourse.tables.spreadsheet import write_rows
from holdcourse.trials.answer import Answer
from holdcourse.trials.intervals import FIRST_ANSWER
from holdcourse.trials.record import RecordedTrial

VERDICTS = {
    "it pays": ("yes", "✔ It pays"),
    "it does not pay": ("no", "✘ It does not pay"),
    "undecided": ("unsure", "? Undecided"),
    "too early": ("unsure", "? Too early"),
}
WIDE, HIGH, LEFT = 1000, 260, 80  # of a picture
DAY_FORMAT, HOUR_FORMAT = 10, 16  # characters of a time that people read


def summary(found: RecordedTrial, measured: Answer) -> list[str]:
    """Return what the trial has measured, in sentences; the first two say what was tried, and the answer."""
    table = found.blocks
    over = "; the trial is over" * found.over
    lines = [
        f"{found.policy} against {found.against}: {counted(len(table.block), 'round')} in blocks of "
        f"{table.length}{over}."
    ]
    lines += measured.words(found.unit, found.round_hours)
    if found.over and measured.verdict == "too early":
        lines.append(f"It ended before that. Begin another one, of {2 * FIRST_ANSWER} blocks or more.")
    if found.untold:
        lines.append(
            "Nobody has reported which settings the operators ran (applied, with a tell), so in their blocks the "
            "machine is taken to have stayed where it was. The cost of their moves is on no bill."
        )
    if found.heard < 1:
        lines.append(heard_in_words(found.heard))
    if measured.adjusted_by and measured.verdict != "too early":
        lines.append(f"The blocks of a pair were made comparable by {_listed(measured.adjusted_by)}.")
    lines += _words_of_reference(found)
    if measured.outlying is not None:
        began = found.began[table.began[measured.outlying]].replace("T", " ")[:HOUR_FORMAT]
        lines.append(
            f"One pair of blocks, which began at {began} UTC, causes more than half of the scatter. Check its "
            "readings; a wrong reading can be taken back."
        )
    return lines


def _words_of_reference(found: RecordedTrial) -> list[str]:
    """What is to be known of a reference that came too rarely, or told nothing."""
    signal = found.blocks.reference[:, 0]
    there = np.isfinite(signal)
    if not there.any():
        return []
    if np.ptp(signal[there]) == 0:
        return [f"The reference was {signal[there][0]:g} in every round, so it does not help."]
    missing = int((~there).sum())
    if missing:
        return [f"The reference is missing in {missing} of {len(signal)} rounds; it helps only if both blocks have it."]
    return []


def write_report(found: RecordedTrial, measured: Answer, folder: Path) -> list[Path]:
    """Write `report.html`, `trial.json`, `pairs.csv` and `rounds.csv`; returns them, the page first."""
    paths = [folder / name for name in ("report.html", "trial.json", "pairs.csv", "rounds.csv")]
    with archive.writing(folder):
        paths[0].write_text(page(found, measured), encoding="utf-8")
        archive.write_file(paths[1], (json.dumps(to_data(found, measured), indent=1) + "\n").encode())
        with paths[2].open("w", newline="", encoding="utf-8") as file:
            write_rows(file, _pairs(found, measured))
        with paths[3].open("w", newline="", encoding="utf-8") as file:
            rows = found.rows()
            write_rows(file, [list(rows[0]), *(list(row.values()) for row in rows)] if rows else [])
    return paths


def to_data(found: RecordedTrial, measured: Answer) -> dict[str, object]:
    """Return the answer in JSON values, with what was tried, the sentences, and every pair's blocks."""
    table = found.blocks
    return measured.to_data() | {
        "policy": found.policy,
        "against": found.against,
        "unit": found.unit,
        "over": found.over,
        "until": found.began[-1] if found.began else None,
        "words": summary(found, measured),
        "began": [found.began[t] for t in table.began],
        "net": [[float(value) for value in pair] for pair in table.net],
        "policy_first": [bool(coin > 0) for coin in table.coins],
    }


def page(found: RecordedTrial, measured: Answer) -> str:
    """Return the report as one page of HTML, with its style and pictures inside."""
    kind, word = VERDICTS[measured.verdict]
    said = summary(found, measured)
    parts = [
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        "<title>Did it pay?</title>",
        f"<style>{style()}{style('plant')}{STYLE}</style></head><body><header>",
        "<div class='bar'><span class='brand'>holdcourse</span></div>",
        "<h1>Did it pay?</h1>",
        f"<p class='lead'>{escape(said[0])} {escape(_period(found))}</p>",
        f"<div class='answer {kind}'><span class='verdict'>{word}</span><p>{escape(said[1])}</p></div>",
        "</header><main>",
        _over_time(found, measured),
        _blocks(found),
        _list("What else is known", said[2:]),
        _about(found),
        "</main></body></html>",
    ]
    return "\n".join(part for part in parts if part)


STYLE = """
svg .band { fill: var(--accent); opacity: .18; }
svg .narrow { fill: var(--accent); opacity: .28; }
svg .line { stroke: var(--accent); stroke-width: 2.5; fill: none; }
svg .ours { fill: var(--accent); }
svg .theirs { fill: var(--soft); opacity: .75; }
@media (max-width: 600px) {  /* dots do not shrink with the picture either */
  svg.picture circle { r: 6px; }
  svg .line { stroke-width: 6; }
}
"""


def _over_time(found: RecordedTrial, measured: Answer) -> str:
    """Return a picture of the gain and both intervals after every pair."""
    in_percent = math.isfinite(measured.percent.always_low)  # as in the headline
    looks = measured.looks_in_percent if in_percent else measured.looks
    known = np.flatnonzero(np.isfinite(looks.always_low) & np.isfinite(looks.always_high))
    if len(known) < 2:
        return ""
    unit = "% of the baseline's bill" if in_percent else f"{found.unit or 'cost'} a round"
    # The first intervals are wide; what matters is where they end up.
    settled = known[len(known) // 4 :]
    top = max(float(looks.always_high[settled].max()), 0.0)
    low = min(float(looks.always_low[settled].min()), 0.0)
    span = (top - low) or 1.0

    def x(pair: int) -> float:
        return LEFT + (WIDE - LEFT - 10) * (pair - int(known[0])) / max(int(known[-1] - known[0]), 1)

    def y(value: float) -> float:
        return 10 + (HIGH - 45) * (top - min(max(value, low), top)) / span

    def band(lows: np.ndarray, highs: np.ndarray, kind: str) -> str:
        there = [int(k) for k in known if np.isfinite(lows[k]) and np.isfinite(highs[k])]
        up = " ".join(f"{x(k):.1f},{y(float(highs[k])):.1f}" for k in there)
        down = " ".join(f"{x(k):.1f},{y(float(lows[k])):.1f}" for k in reversed(there))
        return f"<polygon class='{kind}' points='{up} {down}'/>"

    line = " ".join(f"{x(int(k)):.1f},{y(float(looks.value[k])):.1f}" for k in known)
    drawn = [
        band(looks.always_low, looks.always_high, "band"),
        band(looks.low, looks.high, "narrow"),
        f"<polyline class='line' points='{line}'/>",
        f"<path class='ink' d='M{LEFT} {y(0.0):.1f}H{WIDE - 10}'/>",
        f"<text x='{LEFT - 8}' y='{y(0.0) + 4:.1f}' text-anchor='end'>0</text>",
    ]
    drawn += [
        f"<text x='{LEFT - 8}' y='{y(value) + 4:.1f}' text-anchor='end'>{_said(value, '+')}</text>"
        for value in (top, low)
        if value and abs(y(value) - y(0.0)) > 30  # or the letters of a narrow screen would touch
    ]
    drawn += _dates(found, [int(k) for k in known], x)
    return (
        f"<section><h2>The answer over time</h2><svg class='picture' viewBox='0 0 {WIDE} {HIGH}' role='img' "
        f"aria-label='gain and its intervals after every pair of blocks'>{''.join(drawn)}</svg>"
        f"<p class='small'>Gain of the policy against the baseline in {escape(unit)}, after every pair of blocks. Wide "
        "band: the 95 % interval that is right at every look, which the verdict goes by. Narrow band: the ordinary "
        "interval, right for a single look that was planned beforehand.</p></section>"
    )


def _blocks(found: RecordedTrial) -> str:
    """Return a picture of what every block cost, by whose it was."""
    table = found.blocks
    if table.pairs == 0:
        return ""
    net = table.net
    low, top = float(np.nanmin(net)), float(np.nanmax(net))
    span = (top - low) or 1.0
    width = (WIDE - LEFT - 10) / table.pairs

    def x(pair: int) -> float:
        return LEFT + width * (pair + 0.5)

    dots = []
    for pair in range(table.pairs):
        for j in range(2):
            ours = (j == 0) == (table.coins[pair] > 0)
            cx, cy = x(pair) + width * (0.2 if j else -0.2), 12 + (HIGH - 50) * (top - float(net[pair, j])) / span
            dots.append(f"<circle class='{'ours' if ours else 'theirs'}' cx='{cx:.1f}' cy='{cy:.1f}' r='3'/>")
    marks = [
        f"<text x='{LEFT - 8}' y='16' text-anchor='end'>{_said(top)}</text>",
        f"<text x='{LEFT - 8}' y='{HIGH - 34}' text-anchor='end'>{_said(low)}</text>",
        *_dates(found, list(range(table.pairs)), x),
    ]
    unit = f" in {escape(found.unit)}" if found.unit else ""
    whose = "Blue: the policy's, grey: the baseline's."
    return (
        f"<section><h2>Block by block</h2><svg class='picture' viewBox='0 0 {WIDE} {HIGH}' role='img' "
        f"aria-label='net cost of every block'>{''.join(dots)}{''.join(marks)}</svg><p class='small'>Net cost a round"
        f"{unit} of every block; rewards count as negative costs. {whose}</p></section>"
    )


def _said(number: float, sign: str = "") -> str:
    """Return a number beside a picture."""
    return f"{number:{sign},.0f}" if abs(number) >= 999.5 else f"{number:{sign}.3g}"


def _dates(found: RecordedTrial, pairs: Sequence[int], x: object) -> list[str]:
    """Return dates below a picture, for about five of the pairs; within a day, hours; in a simulation, numbers."""
    assert callable(x)
    began = [found.began[row].replace("T", " ")[:HOUR_FORMAT] for row in found.blocks.began]
    places = np.unique(np.linspace(0, len(pairs) - 1, 5).astype(int)).tolist()
    one_day = began[pairs[0]][:DAY_FORMAT] == began[pairs[-1]][:DAY_FORMAT]
    simulated = began[pairs[0]] == began[pairs[-1]]
    marks = []
    for k, place in enumerate(places):
        pair = pairs[place]
        anchor = " text-anchor='end'" if place == len(pairs) - 1 else ""
        between = " class='between'" if k in (1, 3) else ""
        at = WIDE - 10 if anchor else x(pair)
        if simulated:
            said = f"pair {pair + 1}"
        elif one_day:
            said = began[pair] if k == 0 else began[pair][DAY_FORMAT:]
        else:
            said = began[pair][:DAY_FORMAT]
        marks.append(f"<text x='{at:.1f}' y='{HIGH - 8}'{anchor}{between}>{said}</text>")
    return marks


def _list(title: str, sentences: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f"<section><h2>{escape(title)}</h2><ul>{items}</ul></section>" if sentences else ""


def _about(found: RecordedTrial) -> str:
    sentences = [
        "Blocks come in pairs. In each pair a coin decided which arm had the first block. The coin is drawn from the "
        "record's own seed, and holdcourse verify draws it again.",
        "A block counts for the arm that it was assigned to, whatever ran in it.",
        "Each arm pays for the moves along its own path, as if it had run throughout. Switching from one path to the "
        "other between two blocks is a cost of the trial and is on neither bill.",
        "The gain comes from measurements, not from a model. What was known before a pair began only makes its two "
        "blocks comparable.",
        f"Made with holdcourse {hc.__version__}.",
    ]
    return _list("How it was measured", sentences)


def _period(found: RecordedTrial) -> str:
    if not found.began:
        return ""
    first, last = (at[:HOUR_FORMAT].replace("T", " ") for at in (found.began[0], found.began[-1]))
    return f"From {first} to {last} UTC."


def _pairs(found: RecordedTrial, measured: Answer) -> list[list[object]]:
    """Return every pair with its blocks, and how the answer stood after it."""
    table, looks, percent = found.blocks, measured.looks, measured.looks_in_percent
    head = ["pair", "began", "first_block", "first_net", "second_net", "gain", "always_low", "always_high", "percent"]
    rows: list[list[object]] = [[*head, "percent_always_low", "percent_always_high"]]
    for pair in range(table.pairs):
        first = "policy" if table.coins[pair] > 0 else "baseline"
        numbers = [each for stood in (looks, percent) for each in (stood.value, stood.always_low, stood.always_high)]
        known = [float(column[pair]) if math.isfinite(column[pair]) else "" for column in numbers]
        blocks = [float(value) for value in table.net[pair]]
        rows.append([pair, found.began[table.began[pair]], first, *blocks, *known])
    return rows


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
