"""Pictures of a backtest for slides and papers; needs the extra [plot]."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from holdcourse.backtest.pictures import GRID, INK, SOFT, STYLE, check_pictures
from holdcourse.backtest.verdict import REFERENCE
from holdcourse.wind.backtest.result import Backtest
from holdcourse.wind.backtest.run import SiteResult
from holdcourse.wind.report.tables import look


def write_pictures(result: SiteResult, folder: Path, prefix: str = "") -> list[Path]:
    """Draw the altitudes flown over the wind, the sum of net energy, and the table as bars."""
    check_pictures()
    import matplotlib

    paths = []
    with matplotlib.rc_context(STYLE):
        for name, draw in (("altitudes", _altitudes), ("energy", _energy), ("table", _bars)):
            figure = draw(result)
            paths.append(folder / f"{prefix}{name}.png")
            figure.savefig(paths[-1], dpi=140)
    return paths


def _figure(height: float, rows: int = 1) -> tuple[Any, Any]:
    # Figure without pyplot: no window, no global state, no backend to choose.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, height), layout="constrained")
    return figure, figure.subplots(rows, sharex=True, squeeze=False)[:, 0]


def _beside_each_other(found: Backtest) -> list[str]:
    """Return the controller that the answer is about, and the paper's or else the next best one."""
    wanted = [] if found.judged is None else [found.judged.policy]
    wanted += [REFERENCE] * (REFERENCE in found.flights) + [row.policy for row in found.flyable]
    return list(dict.fromkeys(wanted))[:2]


def _altitudes(result: SiteResult) -> Any:
    """Draw one panel for each: lines over each other would hide one another wherever somebody moves often."""
    found, world = result.backtest, result.backtest.world
    names = [*_beside_each_other(found), "clairvoyant"]
    figure, panels = _figure(2.7 * len(names) + 1.0, len(names))
    parts = _busiest(found, names[0])
    image = None
    for axes, name in zip(panels, names, strict=True):
        image = _field(axes, found, parts)
        if "fixed" in found.flights:
            _flown(axes, found, "fixed", 1.6, parts)
        _flown(axes, found, name, 2.0, parts)
        margin = 0.02 * (world.altitudes[-1] - world.altitudes[0])
        axes.set_ylim(world.altitudes[0] - margin, world.altitudes[-1] + margin)
        axes.set_ylabel("altitude, m")
        axes.set_title(f"{name}{' *' * look(name).knowing}", fontsize=13)
    shown = round((parts[0].stop - parts[0].start) * world.step_hours / 24)  # less than two weeks between two gaps
    span = "two weeks" if shown == 14 else f"{shown} days"
    days = f"{span} in which {names[0]} moved most; " if parts != _parts(found) else ""
    note = "grey: fixed; " if "fixed" in found.flights else ""
    figure.suptitle(
        f"Altitudes flown over the wind, {result.site}\n({days}{note}* knows more than its gauge could tell)",
        ha="left",
        x=0.01,
        fontsize=14,
        fontweight="bold",
    )
    figure.colorbar(image, ax=list(panels), label="wind speed, m/s", pad=0.01)
    _date_axis(panels[-1])
    return figure


def _busiest(found: Backtest, name: str) -> list[slice]:
    """Return all rounds, or of many weeks the two in which a policy moved most: a year of moves is a blot."""
    parts, most = _parts(found), round(14 * 24 / found.world.step_hours)
    if sum(found.lengths) <= 1.5 * most:
        return parts
    moved = np.abs(np.diff(found.world.altitudes[found.flights[name].actions], prepend=np.nan))
    best, shown = -1.0, parts[0]
    for part in parts:
        so_far = np.concatenate([[0.0], np.cumsum(np.nan_to_num(moved[part]))])
        width = min(most, part.stop - part.start)
        sums = so_far[width:] - so_far[:-width]
        if sums.max() > best:
            best, first = float(sums.max()), part.start + int(sums.argmax())
            shown = slice(first, first + width)
    return [shown]


def _field(axes: Any, found: Backtest, parts: list[slice]) -> Any:
    """Draw the wind speed by time and altitude; gaps stay white."""
    from matplotlib.colors import LinearSegmentedColormap

    ramp = LinearSegmentedColormap.from_list("wind", ["#f3f6f8", "#cbd9e2", "#96b2c4", "#6288a2", "#345c7a"])
    world, top = found.world, max(float(np.quantile(found.world.speed, 0.995)), 1.0)
    image = None
    for part in parts:
        speed = world.speed[part].T
        edges = _edges(world.altitudes)
        image = axes.pcolormesh(_times(found, part), edges, speed, cmap=ramp, vmin=0, vmax=top, rasterized=True)
    return image


def _flown(axes: Any, found: Backtest, name: str, width: float, parts: list[slice]) -> None:
    shown, flight = look(name), found.flights[name]
    for part in parts:
        altitudes = found.world.altitudes[np.append(flight.actions[part], flight.actions[part][-1])]
        axes.step(_times(found, part), altitudes, where="post", color="white", linewidth=width + 1.8)
        axes.step(_times(found, part), altitudes, where="post", color=shown.colour, linewidth=width)


def _times(found: Backtest, part: slice) -> Any:
    """Return the beginnings of the rounds, and the end of the last one."""
    time = found.world.time[part]
    return np.append(time, time[-1] + np.timedelta64(round(found.world.step_hours * 3600), "s"))


def _energy(result: SiteResult) -> Any:
    found, world = result.backtest, result.backtest.world
    figure, (axes,) = _figure(6)
    base = np.cumsum(found.flights["fixed"].net) if "fixed" in found.flights else np.zeros(len(world.time))
    # Those that run after every hour's best lose so much to moving that the others would be one line.
    names = [name for name in found.flights if name not in ("minc-known", "stationary")]
    for name in names:
        shown = look(name)
        above = np.cumsum(found.flights[name].net) - base
        axes.plot(
            world.time,
            above,
            color=shown.colour,
            linewidth=2.6,
            linestyle=(0, (5, 2)) if shown.knowing else "-",
            label=name,
        )
    axes.axhline(0, color=SOFT, linewidth=0.8)
    axes.grid(axis="y", color=GRID)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylabel("kWh above fixed" if "fixed" in found.flights else "kWh")
    axes.set_title(f"Net energy so far, against staying at the fixed altitude, {result.site}")
    _date_axis(axes)
    figure.legend(loc="outside lower center", ncols=8, frameon=False)
    return figure


def _bars(result: SiteResult) -> Any:
    lines = result.backtest.lines[::-1]
    figure, (axes,) = _figure(0.62 * len(lines) + 1.6)
    most = max(row.gross for row in lines)
    for place, row in enumerate(lines):
        shown = look(row.policy)
        axes.barh(place, row.net, color=shown.colour, height=0.66)
        if row.net >= 0:
            axes.barh(
                place,
                row.moving,
                left=row.net,
                height=0.66,
                facecolor="none",
                edgecolor=shown.colour,
                hatch="////",
                linewidth=0,
            )
        note = f"{row.net:,.0f} net, {row.moving:,.0f} lost"
        axes.text(max(row.gross, row.net, 0) + 0.01 * most, place, note, va="center", fontsize=12)
    axes.set_yticks(range(len(lines)), [row.policy + " *" * look(row.policy).knowing for row in lines], color=INK)
    axes.set_xlim(min(0.0, *(row.net for row in lines)), 1.32 * most)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("kWh; full: net, hatched: lost to moving; * knows more than its gauge could tell")
    axes.set_title(f"Energy of every policy, {result.site}, {result.period}")
    return figure


def _parts(found: Backtest) -> list[slice]:
    ends = np.cumsum(found.lengths)
    return [slice(int(end) - length, int(end)) for end, length in zip(ends, found.lengths, strict=True)]


def _edges(altitudes: Any) -> Any:
    middle = (altitudes[1:] + altitudes[:-1]) / 2
    return np.concatenate([altitudes[:1], middle, altitudes[-1:]])


def _date_axis(axes: Any) -> None:
    from matplotlib import dates

    locator = dates.AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.margins(x=0)
