"""The result of a study as a table on the screen, as JSON, and as CSV for other programs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Column, Table

from holdcourse.deciding import registry
from holdcourse.tables.spreadsheet import write_rows
from holdcourse.wakes.result import BASE, HINDSIGHT, OURS, RULES, Backtest, Line, label_of

COLUMNS = ("energy", "95 % by weeks", "net of wear", "95 % by weeks", "degrees a year", "moves a day", "hours steering")
NARROW, WHOLE = (0, 2, 3, 4), 130  # columns of a narrow terminal, and from where on all are shown


def percent(value: float) -> str:
    """Return a percentage with its sign, empty where there is none."""
    return "" if math.isnan(value) else f"{value:+.2f} %"


def interval(low: float, high: float) -> str:
    """Return an interval in percent, empty where there is none."""
    return "" if math.isnan(low) or math.isnan(high) else f"{low:+.2f} to {high:+.2f}"


def cells(line: Line) -> list[str]:
    """Return the numbers of a line as they are shown."""
    return [
        percent(line.gain),
        interval(line.gain_low, line.gain_high),
        percent(line.net),
        interval(line.net_low, line.net_high),
        f"{line.travel:,.0f}",
        f"{line.moves_per_day:.1f}",
        f"{line.steering_hours:,.0f}",
    ]


def name_of(line: Line) -> str:
    """Return how a line is called, with a star where it knows what nobody could."""
    return f"{line.label} *" if registry.is_knowing(line.policy) else line.label


def screen_table(found: Backtest, width: int = 80) -> Table:
    """Return the result table for a terminal of some columns; a narrow one gets the numbers that matter most."""
    kept = range(len(COLUMNS)) if width >= WHOLE else NARROW
    table = Table(
        Column("policy", no_wrap=True),
        *(Column(COLUMNS[k], justify="right", no_wrap=True) for k in kept),
        box=None,
        pad_edge=False,
    )
    for line in found.lines:
        numbers = cells(line)
        table.add_row(name_of(line), *(numbers[k] for k in kept), style="bold" if line.policy == OURS else None)
    return table


def legend(found: Backtest) -> str:
    """Say what the columns of the table mean, and what wear costs."""
    return (
        "Energy and net energy: gain over no steering, in percent. Net of wear: less the wear of the yaw drives, at "
        f"{prices(found)} per degree. Degrees: how far all nacelles together turn because offsets change."
    )


def prices(found: Backtest) -> str:
    """Return the price of a degree, or that of each turbine."""
    each = [f"{price:.3g} kWh" for price in found.prices]
    return each[0] if len(set(each)) == 1 else ", ".join(each)


def title_of(found: Backtest) -> str:
    """Return the farm, the period, and how it was decided."""
    kind = "idealised" if found.study.knowing else "hindsight" if found.hindsight else "no look ahead"
    every = f"decided every {60 * found.rounds.hours:g} min"
    count = len(found.table.farm)
    turbines = f"{count} turbine{'s' if count > 1 else ''}"
    return f"{found.table.farm.name}, {found.period}, {turbines}, {kind}, {every}"


def comparison(found: Backtest) -> list[dict[str, float | str]]:
    """Return our gain beside each rule's, at the travel of the rule, and how much more that is, by weeks."""
    if not found.fronts.get(OURS):
        return []
    rows: list[dict[str, float | str]] = []
    for name in RULES:
        for point, weeks in zip(found.fronts.get(name, []), found.front_weeks.get(name, []), strict=True):
            ours = found.gain_at(point.travel)
            low, high = found.interval_of(found.weeks_at(point.travel), weeks)
            rows.append(
                {
                    "policy": name,
                    "setting": point.setting,
                    "travel": point.travel,
                    "gain": point.gain,
                    "ours": ours,
                    "ratio": ours / point.gain if point.gain > 0 else math.inf,
                    "more": ours - point.gain,
                    "more_low": low,
                    "more_high": high,
                }
            )
    return rows


def words(found: Backtest) -> list[str]:
    """Say what the fronts say, in sentences."""
    said = []
    if found.fronts.get(OURS) and "lookup" in found.fronts:
        table = found.fronts["lookup"][0]
        needed = found.travel_for(0.95 * table.gain)
        if table.gain > 0 and not math.isnan(needed):
            said.append(
                f"For 95 % of the lookup table's gain the planner needs {needed:,.0f} degrees a year, "
                f"{100 * needed / table.travel:.0f} % of the table's {table.travel:,.0f}."
            )
    for row in comparison(found):
        if row["policy"] == "hysteresis" and row["setting"] == 8.0 and float(row["gain"]) > 0:
            low, high = float(row["more_low"]), float(row["more_high"])
            bounds = "" if math.isnan(low) else f", {row['more']:+.2f} % (95 % by weeks {low:+.2f} to {high:+.2f})"
            said.append(
                f"With as much travel as a hysteresis of 8 degrees, {row['travel']:,.0f} degrees a year, the planner "
                f"gains {row['ours']:.2f} %. That is {row['ratio']:.2f} times the {row['gain']:.2f} % of the "
                f"rule{bounds}."
            )
    return said


def as_data(found: Backtest) -> dict[str, Any]:
    """Return the result in JSON values."""
    shown = [name for name in (OURS, "wake-learner", "lookup") if name in found.runs]
    sectors: dict[str, Any] = {}
    for name in shown:
        edges, whole, steered = found.sector_hours(name)
        sectors[name] = {
            "from": edges.tolist(),
            "hours": whole.round(1).tolist(),
            "steering": steered.round(1).tolist(),
        }
    data = {
        "farm": found.table.farm.to_data(),
        "period": found.period,
        "causal": not (found.study.knowing or found.hindsight),
        "drift_learned_from": found.drift_judged,
        "hours": found.rounds.hours,
        "kwh_per_degree": found.prices.tolist(),
        "verdict": found.verdict,
        "conclusion": found.conclusion,
        "words": words(found),
        "warnings": found.warnings,
        "notes": list(found.notes),
        "lines": [asdict(line) for line in found.lines],
        "fronts": {name: [asdict(point) for point in points] for name, points in found.fronts.items()},
        "against_rules": comparison(found),
        "sector_hours": sectors,
        "turbine_travel": {name: found.turbine_travel(name).round(1).tolist() for name in shown},
    }
    return _finite(data)  # type: ignore[no-any-return]


def _finite(value: Any) -> Any:
    """Return JSON values with None for numbers that are none."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def write_summary(found: Backtest, path: Path) -> None:
    """Write the result table as CSV."""
    lines = [asdict(line) for line in found.lines]
    rows: list[Iterable[Any]] = [list(lines[0])]
    rows += [["" if isinstance(cell, float) and math.isnan(cell) else cell for cell in line.values()] for line in lines]
    _write(path, rows)


def write_front(found: Backtest, path: Path) -> None:
    """Write the fronts as CSV: a row for each point."""
    rows: list[Iterable[Any]] = [["policy", "setting", "degrees_per_year", "gain_percent", "low", "high"]]
    for name, points in found.fronts.items():
        for point in points:
            bounds = ["" if math.isnan(bound) else bound for bound in (point.low, point.high)]
            rows.append([name, point.setting, point.travel, point.gain, *bounds])
    _write(path, rows)


def write_decisions(found: Backtest, path: Path) -> None:
    """Write what our policies did in every round as CSV."""
    shown = [name for name in (OURS, "wake-learner") if name in found.runs]
    turbines = found.table.farm.turbines
    offsets = [f"{name} {turbine} [deg counterclockwise]" for name in shown for turbine in turbines]
    rows: list[Iterable[Any]] = [["time", "known_direction", "known_speed", BASE, *shown, *offsets]]
    contexts = found.rounds.contexts
    made = np.column_stack([found.base, *(found.runs[name].energy for name in shown)]).round(3)
    held = np.concatenate([found.runs[name].offsets for name in shown], axis=1) if shown else np.zeros((len(made), 0))
    for t, time in enumerate(found.rounds.time.tolist()):
        known = contexts[t, :2].round(2).tolist()
        rows.append([f"{time.isoformat()}Z", *known, *made[t].tolist(), *held[t].tolist()])
    _write(path, rows)


def _write(path: Path, rows: Iterable[Iterable[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        write_rows(file, rows)


def front_label(policy: str) -> str:
    """Return how a front is called beside its line."""
    return "Hindsight" if policy == HINDSIGHT else label_of(policy)
