"""Pictures for slides and papers: the front, and the farm while it steers; needs the extra [plot]."""

from __future__ import annotations

import importlib.util
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from holdcourse.errors import MissingExtra
from holdcourse.wakes.farm import FlorisModel, WakeModel
from holdcourse.wakes.report.tables import front_label
from holdcourse.wakes.result import HINDSIGHT, OURS, Backtest, colour_of

INK, SOFT, GRID = "#14202b", "#55636f", "#d5dce2"
LEAST = 500.0  # degrees a year: what travels less is not drawn
ASIDE = {"lookup": -9, "rate-limit": 11}  # points that a label is moved by: they end near each other
STYLE: dict[Any, Any] = {
    "font.size": 12.5,
    "axes.edgecolor": GRID,
    "axes.labelcolor": SOFT,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "figure.facecolor": "white",
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
}


def can_draw() -> bool:
    """Return whether pictures can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None


def write_pictures(found: Backtest, folder: Path, model: WakeModel | None = None) -> list[Path]:
    """Draw `front.png` and, with a FLORIS model, `farm.png`."""
    if not can_draw():
        raise MissingExtra("pictures need matplotlib: pip install 'holdcourse[plot]'")
    import matplotlib
    from matplotlib.figure import Figure

    paths = []
    with matplotlib.rc_context(STYLE):
        if OURS in found.fronts:
            figure = Figure(figsize=(10, 5.6), layout="constrained")
            draw_front(found, figure.subplots())
            paths.append(folder / "front.png")
            figure.savefig(paths[-1], dpi=140)
        rounds = found.striking_rounds(3) if OURS in found.runs and isinstance(model, FlorisModel) else []
        if rounds:
            figure = Figure(figsize=(4.4 * len(rounds), 4.9), layout="constrained")
            with suppress(NotImplementedError):  # some wake models of FLORIS know no wind between turbines
                for axes, t in zip(figure.subplots(1, len(rounds), squeeze=False)[0], rounds, strict=True):
                    draw_farm(found, t, model, axes)
                paths.append(folder / "farm.png")
                figure.savefig(paths[-1], dpi=140)
    return paths


def draw_front(found: Backtest, axes: Any) -> None:
    """Draw energy gained against travel, ours with its interval by weeks."""
    for name, points in found.fronts.items():
        shown = [point for point in points if point.travel >= LEAST]
        if not shown or name == HINDSIGHT:
            continue
        travel, gain = np.array([[p.travel, p.gain] for p in shown]).T
        ours, colour = name == OURS, colour_of(name)
        axes.plot(travel, gain, "o-", color=colour, linewidth=3 if ours else 1.8, markersize=7 if ours else 5, zorder=3)
        if ours:
            low, high = np.array([[p.low, p.high] for p in shown]).T
            axes.fill_between(travel, low, high, color=colour, alpha=0.12, linewidth=0)
        axes.annotate(
            front_label(name),
            (travel[-1], gain[-1]),
            xytext=(9, ASIDE.get(name, 0)),
            textcoords="offset points",
            color=colour,
            fontweight="bold",
            va="center",
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.axhline(0.0, color=SOFT, linewidth=0.8)
    axes.grid(color=GRID, linewidth=0.7)
    axes.margins(x=0.12)
    axes.set_xlabel("degrees that all nacelles turned for offsets in a year")
    axes.set_ylabel("energy above no steering, %")
    kind = "idealised" if found.study.knowing else "causal"
    axes.set_title(f"{found.table.farm.name}, {found.period}, {kind}")


def draw_farm(found: Backtest, t: int, model: Any, axes: Any) -> None:
    """Draw the wind over the farm at hub height in a round, with the rotors and their offsets."""
    farm, offsets = found.table.farm, found.runs[OURS].offsets[t]
    place = int(found.rounds.first[t])
    direction, speed = (float(each[place]) for each in (found.rounds.record.direction, found.rounds.record.speed))
    x, y, wind = model.deficit(direction, speed, offsets)
    axes.pcolormesh(x, y, wind, cmap="Blues_r", vmin=0.4 * speed, vmax=1.02 * speed, shading="auto", rasterized=True)
    for k, offset in enumerate(offsets.tolist()):
        plane = np.radians(270.0 - direction + offset + 90.0)
        half = 0.5 * float(farm.diameter[k]) * np.array([np.cos(plane), np.sin(plane)])
        colour = "#c4455d" if offset else INK
        axes.plot(farm.x[k] + [-half[0], half[0]], farm.y[k] + [-half[1], half[1]], color=colour, linewidth=3)
        if offset:
            axes.annotate(
                f"{offset:+g}°",
                (farm.x[k], farm.y[k]),
                xytext=(8, 6),
                textcoords="offset points",
                color=colour,
                fontweight="bold",
            )
    more = float(found.runs[OURS].energy[t] / found.base[t] - 1)
    axes.set_title(
        f"{str(found.rounds.time[t])[:16].replace('T', ' ')} UTC\nfrom {direction:.0f}°, {speed:.1f} m/s: "
        f"{100 * more:+.1f} %",
        fontsize=11.5,
    )
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
