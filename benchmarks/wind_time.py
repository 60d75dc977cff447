"""Wind in time: what policies make of the clairvoyant's net energy, with and without history.

    python -m benchmarks.wind_time                     the half year after the bundled history
    python -m benchmarks.wind_time --other-year        learned on 2009 and the first half of 2010, flown in 2008
    python -m benchmarks.wind_time --other-site FILE   two weeks of wind data learned, the rest flown
    python -m benchmarks.wind_time --histories 2010    a year flown with histories of two weeks to two years
    python -m benchmarks.wind_time --other-winds       the bundled years with their wind changed, as other sites have it

``--json FILE`` writes the shares for programs as well; `tools/measure.py` makes tables of docs/theory/wind-in-time.md
of them. The half years are flown in 4 windows of 960 hours, from 3 starts. The page says what had been seen of them
when the numbers in the package were chosen.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import holdcourse as hc
from benchmarks.timing import Row
from holdcourse.wind import bundled, load
from holdcourse.wind.backtest.period import past_of
from holdcourse.wind.backtest.run import backtest
from holdcourse.wind.files.data import WindData
from holdcourse.wind.physics import WindWorld, wind_world
from holdcourse.wind.policy.policies import Past, Setting, contexts_of, policy_of

COLUMNS = ((1.0, "paper"), (4.0, "paper"), (1.0, "physical"), (4.0, "physical"))  # rho, movement
WITH_HISTORY = ("fixed", "wind-planner", "planner", "gp-md", "cgp-lcb")
WITHOUT = ("wind-planner", "gp-md", "cgp-lcb")
WINDOWS, HOURS = 4, 960
STARTS = (0, 12, 24)  # of 25 altitudes: the lowest, the middle one, the highest
HALF_YEAR_SECONDS = 5.0  # that one flight may take


def measure() -> list[Row]:
    """How long one flight of half a year takes, the replay of the history included."""
    altitudes = np.linspace(10.0, 750.0, 25)
    data = bundled("test").onto(altitudes)
    past = past_of(bundled("history"), altitudes)
    setting = Setting(wind_world(data.time, altitudes, data.speed), past)
    backtest(setting, ["wind-planner"])  # compiles
    begin = time.perf_counter()
    backtest(setting, ["wind-planner"])
    seconds = time.perf_counter() - begin
    return [Row("wind-planner over half a year, with history", seconds, "allowed", HALF_YEAR_SECONDS, 1.0)]


def shares(
    world_of: Sequence[WindData],
    past: Past | None,
    policies: Sequence[str],
    starts: Sequence[int],
    columns: Sequence[tuple[float, str]] = COLUMNS,
) -> dict[str, NDArray[np.float64]]:
    """Percent of the clairvoyant's net energy, mean over windows and starts; one entry per column."""
    found: dict[str, list[float]] = {name: [] for name in (*policies, "best fixed in hindsight")}
    for rho, movement in columns:
        made: dict[str, list[float]] = {name: [] for name in found}
        for data in world_of:
            world = wind_world(data.time, data.heights, data.speed, rho=rho, movement=movement)
            flown = {name: policy_of(name)(Setting(world, past)) for name in policies}
            for start in starts:
                best = net(world, hc.optimal_path(world.service, world.problem, start).total)
                for name, policy in flown.items():
                    run = hc.simulate(policy, world, contexts_of(name, world), start=start, seed=0)
                    made[name].append(100 * net(world, run.total) / best)
                fixed = float((world.service.sum(axis=0) + world.problem.distances[start]).min())
                made["best fixed in hindsight"].append(100 * net(world, fixed) / best)
        for name, values in made.items():
            found[name].append(float(np.mean(values)))
    return {name: np.array(values) for name, values in found.items()}


def net(world: WindWorld, cost: float) -> float:
    """Net energy of a flight that costs so much."""
    return float(world.energy.max(axis=1).sum()) - cost


def windows(data: WindData, count: int = WINDOWS, rounds: int = HOURS) -> list[WindData]:
    """Stretches of wind data, one after the other."""
    return [data.between(data.time[k * rounds], _end(data, (k + 1) * rounds)) for k in range(count)]


def _end(data: WindData, row: int) -> np.datetime64 | None:
    return data.time[row] if row < len(data) else None


def next_half_year() -> tuple[list[WindData], Past]:
    """The half year after the bundled history."""
    altitudes = np.linspace(10.0, 750.0, 25)
    return windows(bundled("test").onto(altitudes)), past_of(bundled("history"), altitudes)


def other_year() -> tuple[list[WindData], Past]:
    """The second half of 2008, with what came after it as history."""
    altitudes, data = np.linspace(10.0, 750.0, 25), bundled("history")
    flown = data.between("2008-07-01", "2009-01-01").onto(altitudes)
    return windows(flown), past_of(data.between("2009-01-01", None), altitudes)


def other_site(path: str) -> tuple[list[WindData], Past]:
    """All but the first two weeks of wind data, hourly, with those as history."""
    data = load(path).hourly()
    altitudes = np.linspace(data.heights[0], data.heights[-1], 25)
    cut = data.time[0] + np.timedelta64(14, "D")
    return [data.between(cut, None).onto(altitudes)], past_of(data.between(None, cut), altitudes)


def histories(year: int) -> dict[str, list[tuple[str, str] | None]]:
    """What the wind planner may know before it flies a bundled year: first and last day of each history, by length."""
    others = [other for other in (2008, 2009, 2010) if other != year]
    months, middles = range(1, 12, 3), range(2, 12, 3)  # of the seasons
    return {
        "none": [None],
        "two weeks": [(f"{other}-{month:02d}-05", f"{other}-{month:02d}-19") for other in others for month in middles],
        "three months": [
            (f"{other}-{month:02d}-01", f"{other}-{month + 3:02d}-01" if month < 10 else f"{other + 1}-01-01")
            for other in others
            for month in months
        ],
        "a year": [(f"{other}-01-01", f"{other + 1}-01-01") for other in others],
        "both years": [(f"{others[0]}-01-01", f"{others[1] + 1}-01-01")] if others[1] - others[0] == 1 else [],
    }


def by_history(year: int) -> dict[str, NDArray[np.float64]]:
    """Percent of the clairvoyant's net energy in a bundled year: (histories, 3 prices), from the middle altitude."""
    altitudes, data = np.linspace(10.0, 750.0, 25), bundled("all")
    flown, middle = [data.between(f"{year}-01-01", f"{year + 1}-01-01").onto(altitudes)], (12,)
    found: dict[str, NDArray[np.float64]] = {}
    for name, spans in histories(year).items():
        rows = []
        for span in spans:
            past = None if span is None else past_of(data.between(*span), altitudes)
            made = shares(flown, past, ("wind-planner",), middle, COLUMNS[:3])
            rows.append(made["wind-planner"])
            found["best fixed in hindsight"] = made["best fixed in hindsight"][None]
        if rows:
            found[name] = np.array(rows)
    return found


OTHER_WINDS = {  # what the speeds at each height are multiplied by
    "as it is": lambda heights: np.ones_like(heights),
    "x 0.7": lambda heights: np.full_like(heights, 0.7),
    "x 1.3": lambda heights: np.full_like(heights, 1.3),
    "shear exponent - 0.1": lambda heights: (heights / 100.0) ** -0.1,
    "shear exponent + 0.15": lambda heights: (heights / 100.0) ** 0.15,
}


def in_other_winds(name: str, years: Sequence[int] = (2008, 2009, 2010)) -> dict[str, NDArray[np.float64]]:
    """Percent of the clairvoyant's net energy by policy, (years, 3 prices), in a wind of `OTHER_WINDS`.

    Every year with the one before it as history, and 2008 with 2010: changed alike, so the history is right.
    """
    altitudes, data = np.linspace(10.0, 750.0, 25), bundled("all")
    changed = replace(data, speed=data.speed * OTHER_WINDS[name](data.heights))
    found: dict[str, list[NDArray[np.float64]]] = {}
    for year in years:
        before = year - 1 if year > 2008 else 2010
        flown = [changed.between(f"{year}-01-01", f"{year + 1}-01-01").onto(altitudes)]
        past = past_of(changed.between(f"{before}-01-01", f"{before + 1}-01-01"), altitudes)
        for policy, row in shares(flown, past, ("fixed", "wind-planner"), (12,), COLUMNS[:3]).items():
            found.setdefault(policy, []).append(row)
    return {policy: np.array(rows) for policy, rows in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other-year", action="store_true")
    parser.add_argument("--other-site", metavar="FILE")
    parser.add_argument("--histories", metavar="YEAR", type=int, choices=(2008, 2009, 2010))
    parser.add_argument("--other-winds", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    if given.other_winds:
        table = Table(title="wind-planner less fixed, points of the clairvoyant's net energy: mean, and [worst] year")
        table.add_column("wind")
        for rho, movement in COLUMNS[:3]:
            table.add_column(f"rho {rho:g}, {movement}", justify="right")
        for name in OTHER_WINDS:
            made = in_other_winds(name)
            gain = made["wind-planner"] - made["fixed"]
            cells = (f"{a:+.1f} \\[{b:+.1f}]" for a, b in zip(gain.mean(axis=0), gain.min(axis=0), strict=True))
            table.add_row(name, *cells)
        Console(width=120).print(table)
        return
    found: dict[str, NDArray[np.float64]] = {}
    if given.histories:
        table = Table(
            title=f"{given.histories}, % of the clairvoyant's net energy: mean, and [worst] of several histories"
        )
        table.add_column("history")
        for rho, movement in COLUMNS[:3]:
            table.add_column(f"rho {rho:g}, {movement}", justify="right")
        found = by_history(given.histories)
        for name, rows in found.items():
            worst = [f" \\[{value:.1f}]" if len(rows) > 1 else "" for value in rows.min(axis=0)]
            table.add_row(name, *(f"{mean:.2f}{least}" for mean, least in zip(rows.mean(axis=0), worst, strict=True)))
        show(table, found, given.json)
        return
    if given.other_site:
        flown, past = other_site(given.other_site)
    else:
        flown, past = other_year() if given.other_year else next_half_year()
    table = Table(title=f"{flown[0].time[0]} to {flown[-1].time[-1]}, % of the clairvoyant's net energy")
    table.add_column("policy")
    for rho, movement in COLUMNS:
        table.add_column(f"rho {rho:g}, {movement}", justify="right")
    for label, history, policies in (("", past, WITH_HISTORY), (", without history", None, WITHOUT)):
        for name, row in shares(flown, history, policies, STARTS).items():
            if history is not None or name in policies:
                found[name + label] = row
                table.add_row(name + label, *(f"{value:.1f}" for value in row))
        table.add_section()
    show(table, found, given.json)


def show(table: Table, found: dict[str, NDArray[np.float64]], file: Path | None) -> None:
    Console(width=120).print(table)
    if file is not None:
        file.write_text(json.dumps({name: row.tolist() for name, row in found.items()}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
