"""Pictures for slides and papers: the front, and the farm while it steers; needs the extra [plot]."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from holdcourse.backtest.pictures import GRID, INK, SOFT, STYLE, check_pictures
from holdcourse.wakes.farm import FlorisModel, WakeModel
from holdcourse.wakes.groups import GroupedModel
from holdcourse.wakes.report.tables import front_label
from holdcourse.wakes.result import HINDSIGHT, OURS, Backtest, colour_of

LEAST = 500.0  # degrees a year: what travels less is not drawn
LABELS = 0.055  # of the height of a picture, between two labels
SMALLER = {"font.size": 12.5}  # more is written into these than into those of altitudes


def write_pictures(found: Backtest, folder: Path, model: WakeModel | None = None) -> list[Path]:
    """Draw `front.png` and, with a FLORIS model, `farm.png`."""
    check_pictures()
    import matplotlib
    from matplotlib.figure import Figure

    paths = []
    with matplotlib.rc_context(STYLE | SMALLER):
        if OURS in found.fronts:
            figure = Figure(figsize=(10, 5.6), layout="constrained")
            draw_front(found, figure.subplots())
            paths.append(folder / "front.png")
            figure.savefig(paths[-1], dpi=140)
        whole = model.model if isinstance(model, GroupedModel) else model  # one wind of a large farm is quick
        rounds = found.striking_rounds(3) if OURS in found.runs and isinstance(whole, FlorisModel) else []
        if rounds:
            figure = Figure(figsize=(4.4 * len(rounds) + 0.9, 5.4), layout="constrained")
            with suppress(NotImplementedError):  # some wake models of FLORIS know no wind between turbines
                every = figure.subplots(1, len(rounds), squeeze=False)[0]
                for axes, t in zip(every, rounds, strict=True):
                    drawn = draw_farm(found, t, whole, axes)
                figure.colorbar(drawn, ax=every, label="wind, share of the free wind", shrink=0.8, pad=0.02)
                paths.append(folder / "farm.png")
                figure.savefig(paths[-1], dpi=140)
    return paths


def draw_front(found: Backtest, axes: Any) -> None:
    """Draw energy gained against travel, ours with its interval by weeks."""
    ends: dict[str, float] = {}
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
        ends[name] = float(gain[-1])
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.axhline(0.0, color=SOFT, linewidth=0.8)
    axes.grid(color=GRID, linewidth=0.7)
    axes.margins(x=0.04)
    low, high = axes.get_ylim()
    beside = axes.get_yaxis_transform()  # labels stand beside the axes, at the height where their lines end
    for name, height in apart(ends, LABELS * (high - low)).items():
        axes.text(1.015, height, front_label(name), transform=beside, color=colour_of(name), weight="bold", va="center")
    axes.set_xlabel("degrees that all nacelles turned for offsets in a year")
    axes.set_ylabel("energy above no steering, %")
    kind = "idealised" if found.study.knowing else "no look ahead"
    axes.set_title(f"{found.table.farm.name}, {found.period}, {kind}")


def apart(heights: Mapping[str, float], least: float) -> dict[str, float]:
    """Return heights of labels, moved as little as it takes for none to lie on another."""
    order = sorted(heights, key=lambda name: heights[name])
    crowds: list[list[str]] = []

    def middle(names: list[str]) -> float:
        return sum(heights[name] for name in names) / len(names)

    for name in order:
        crowds.append([name])
        while (
            len(crowds) > 1
            and middle(crowds[-1]) - middle(crowds[-2]) < least * (len(crowds[-1]) + len(crowds[-2])) / 2
        ):
            last = crowds.pop()
            crowds[-1] += last
    return {
        name: middle(names) + least * (k - (len(names) - 1) / 2) for names in crowds for k, name in enumerate(names)
    }


def draw_farm(found: Backtest, t: int, model: Any, axes: Any) -> Any:
    """Draw the wind over the farm at hub height in a round, with the rotors and their offsets; returns the colours."""
    farm, offsets = found.table.farm, found.runs[OURS].offsets[t]
    place = int(found.rounds.first[t])
    direction, speed = (float(each[place]) for each in (found.rounds.record.direction, found.rounds.record.speed))
    x, y, wind = model.deficit(direction, speed, offsets)
    share = wind / speed
    drawn = axes.pcolormesh(x, y, share, cmap="Blues_r", vmin=0.4, vmax=1.02, shading="gouraud", rasterized=True)
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
    blows = np.radians(270.0 - direction)
    ahead = np.array([np.cos(blows), np.sin(blows)])
    axes.annotate(
        "",
        0.5 - 0.37 * ahead,
        0.5 - 0.47 * ahead,
        xycoords="axes fraction",
        textcoords="axes fraction",
        arrowprops={"arrowstyle": "->", "color": SOFT, "linewidth": 2},
    )
    length = _round_length(float(np.ptp(x)) / 4)
    left, below = x[0] + 0.04 * float(np.ptp(x)), y[0] + 0.045 * float(np.ptp(y))
    axes.plot([left, left + length], [below, below], color=INK, linewidth=2)
    axes.annotate(f"{length:,.0f} m", (left, below), xytext=(0, 4), textcoords="offset points", fontsize=10.5)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
    return drawn


def _round_length(most: float) -> float:
    """Return the longest of 1, 2, 5, 10, ... metres that is not longer than some."""
    power = 10.0 ** np.floor(np.log10(most))
    return float(max(digit * power for digit in (1, 2, 5) if digit * power <= most))
