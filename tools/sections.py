"""What is measured, section by section: the commands, and what their results say on a page.

A section belongs to a group of docs/evidence.json. Its steps are commands that write into a folder; its function reads
that folder and returns the group's values as pages show them. Nothing is typed: whoever has such a folder, from
whatever run, gets the same tables (`tools/measure.py SECTION --from FOLDER`).
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cold_start
import evidence
import numpy as np
import trial_table

from holdcourse.deciding.registry import label_of
from holdcourse.experiments.compare_report import cells_markdown, percent, plant_label
from holdcourse.experiments.comparison import EASY, HARD, Comparison, ComparisonPlan
from holdcourse.experiments.paper import OVER_TIME, WindPlan
from holdcourse.experiments.plant_comparison import HARM, PlantComparison, PlantLine, PlantPlan
from holdcourse.experiments.results import Results, cost_grid, energy_grid, standard_error
from holdcourse.worlds.plants import PLANTS

ROOT = evidence.ROOT
sys.path.insert(0, str(ROOT))  # the benchmarks are no installed package
from benchmarks.timing import HEADINGS, Row  # noqa: E402

Values = dict[str, str]

PYTHON = (sys.executable,)
HOLDCOURSE = (*PYTHON, "-c", "from holdcourse.cli import main; main()")
COUNTS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def counted(number: int) -> str:
    """A number as prose has it."""
    return COUNTS[number] if number < len(COUNTS) else str(number)


@dataclass(frozen=True)
class Step:
    """A command; `{out}` in it stands for the folder of the section.

    Attributes
    ----------
    minutes
        That it takes on two quiet cores, roughly: what the remaining time is estimated from.
    """

    name: str
    command: tuple[str, ...]
    minutes: float


@dataclass(frozen=True)
class Section:
    """What is measured together.

    Attributes
    ----------
    values
        What the pages say of the results in a folder; None where the commands write that themselves.
    files
        What the pages link to or show: files of the documentation, and the results they are copies of.
    """

    name: str
    group: str
    steps: tuple[Step, ...]
    values: Callable[[Path], Values] | None = None
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def dated(self) -> str:
        """The key under which pages state the day."""
        return "measured" if self.name == self.group else f"{self.name}-measured"

    @property
    def minutes(self) -> float:
        """That all steps take."""
        return sum(step.minutes for step in self.steps)


def block(rows: Iterable[Sequence[str]]) -> str:
    """Return rows, the head first, as a table between marks."""
    return evidence.words_of({"table": [list(row) for row in rows]}, block=True)


def tables_in(text: str) -> list[str]:
    """Return the tables of a page that a command wrote, between marks."""
    return [block(evidence.table_of(found[0])) for found in evidence.TABLE.finditer(text)]


def read(path: Path) -> Any:
    """Read JSON."""
    return json.loads(path.read_text(encoding="utf-8"))


def missing(folder: Path, what: str) -> SystemExit:
    """Say what a folder lacks."""
    return SystemExit(f"{folder} holds no {what}; give the folder that the section's commands wrote to")


# -- plants ------------------------------------------------------------------------------------------------------------


def plants(folder: Path) -> Values:
    """Tables and sentences of docs/plants.md; a plant's mean is over the seeds that are finished there."""
    every = tuple(PLANTS)
    found = {
        (history, world): PlantComparison.of(
            PlantPlan(policies=("recommended",), worlds=(world,), history=history), folder
        )
        for history in (True, False)
        for world in every
    }
    if not all(one.seeds for one in found.values()):
        raise missing(folder, "run of recommended for every plant, with history and cold")
    people = PlantComparison.of(PlantPlan(policies=("table", "fixed", "operators")), folder)
    rows = [["world", *("with history", "worst", "week 1", "seeds"), *("cold", "worst", "week 1", "seeds")]]
    rows += [[world, *plant_cells(found[True, world]), *plant_cells(found[False, world])] for world in every]
    everything = {history: [found[history, world] for world in every] for history in (True, False)}
    rows.append(["**all**", *(cell for parts in everything.values() for cell in all_plants(parts))])
    return {
        "what-recommended-does": block(rows),
        **{f"history-{key}": text for key, text in plant_words(everything[True]).items()},
        **{f"cold-{key}": text for key, text in plant_words(everything[False]).items()},
        **(fixed_words(people) | {"what-people-do-and-what": block(people_rows(people))} if people.seeds else {}),
    }


def plant_cells(found: PlantComparison) -> list[str]:
    """Mean with its error, worst run, first week and number of seeds, of `recommended` on one plant."""
    line = found.line("recommended")
    return [within(line), percent(line.worst), percent(line.first_week), str(len(found.seeds))]


def within(line: PlantLine) -> str:
    """A mean bill against staying with its standard error, in percent."""
    return f"{percent(line.mean)} ± {100 * line.error:.1f}"


def all_plants(parts: Sequence[PlantComparison]) -> list[str]:
    """The same over all plants, each plant counted alike; the error is that of the seeds that all plants share."""
    lines = [part.line("recommended") for part in parts]
    mean = sum(line.mean for line in lines) / len(lines)
    shared = set.intersection(*({*part.seeds} for part in parts))
    by_seed = [sum(float(part.bills[0, 0, part.seeds.index(s)]) for part in parts) / len(parts) for s in sorted(shared)]
    error = f" ± {100 * standard_error(np.array(by_seed)):.1f}" if len(by_seed) > 1 else ""
    week = sum(line.first_week for line in lines) / len(lines)
    runs = sum(len(part.seeds) for part in parts)
    return [percent(mean) + error, percent(max(line.worst for line in lines)), percent(week), f"{runs} runs"]


def plant_words(parts: Sequence[PlantComparison]) -> Values:
    """How many plants and runs are above staying, and by how much."""
    lines = {part.worlds[0]: part.line("recommended") for part in parts}
    above = {world: line.mean for world, line in lines.items() if round(100 * line.mean, 1) > 0}
    harmed = [
        (float(bill), part.worlds[0], seed)
        for part in parts
        for seed, bill in zip(part.seeds, part.bills[0, 0], strict=True)
        if bill > HARM
    ]
    runs = sum(len(part.seeds) for part in parts)
    slow = max(lines, key=lambda world: lines[world].first_week)
    where = ", ".join(f"`{world}` {percent(bill)} on seed {seed}" for bill, world, seed in sorted(harmed, reverse=True))
    return {
        "above": ", ".join(f"`{world}` ({percent(mean)} %)" for world, mean in above.items()) or "no plant",
        "harmed": f"{len(harmed) or 'none'} of {runs} runs" + (f" ({where})" if harmed else ""),
        "first-week": f"{percent(lines[slow].first_week)} % (`{slow}`)",
    }


def people_rows(found: PlantComparison) -> list[list[str]]:
    """The rules of people and hindsight on each plant and on all, the worst run, and how many runs did harm."""
    names = found.policies
    rows = [["world", *map(plant_label, names)]]
    for world in (*found.worlds, None):
        lines = [found.line(name, world) for name in names]
        rows.append([world or "**all**", *map(within, lines)])
    lines = [found.line(name) for name in names]
    rows.append(["worst run", *(f"{round(100 * line.worst) + 0:+d}" for line in lines)])
    rows.append(["runs over +2 %", *(f"{100 * line.harmed:.0f} %" for line in lines)])
    return rows


def fixed_words(found: PlantComparison) -> Values:
    """On how many plants the cheapest setting of the history is worse than staying, and by how much over all."""
    worse = sum(found.line("fixed", world).mean > 0 for world in found.worlds)
    return {
        "fixed-worse": counted(worse),
        "fixed": f"{percent(found.line('fixed').mean)} %",
    }


def knowing_nothing(folder: Path) -> Values:
    """What it costs to know nothing: the table of tools/cold_start.py."""
    done = cold_start.finished(folder / "runs.csv")
    seeds = sorted({task.seed for task in done})
    kinds = [kind for kind in cold_start.KINDS if any(task.kind == kind for task in done)]
    if not seeds:
        raise missing(folder, "runs.csv")
    found = cold_start.table(done, kinds, range(seeds[0], seeds[-1] + 1))
    return {"knowing-nothing": block(found), "knowing-nothing-seeds": f"{seeds[0]} to {seeds[-1]}"}


# -- landscapes --------------------------------------------------------------------------------------------------------


def landscapes(folder: Path) -> Values:
    """Both tables of docs/benchmark-table.md, and what GP-MD pays."""
    plan = ComparisonPlan()
    easy, hard, found = compared(folder, plan.labels, plan.cells)
    paper = found.select(EASY).lines()[plan.labels.index("gp-md")]
    return {"the-table": easy, "the-table-2": hard, "gp-md": f"{paper.mean:.1f} times", "seeds": seeds_of(found)}


def peers(folder: Path) -> Values:
    """Both tables of peers, which ran at rho 1."""
    names = ("recommended", "botorch_ucb", "botorch_proximal", "travel_cap", "ei_per_cost")
    easy, hard, found = compared(folder, names, [(process, 1.0) for process in EASY + HARD])
    return {"peers": easy, "peers-2": hard, "peers-seeds": seeds_of(found)}


PEERS = {
    "botorch_ucb": "UCB",
    "botorch_proximal": "proximal",
    "travel_cap": "travel cap",
    "ei_per_cost": "EI per cost",
}


def compared(folder: Path, policies: Sequence[str], cells: Sequence[tuple[str, float]]) -> tuple[str, str, Comparison]:
    """The ordinary and the harder cells as tables, and the comparison, over landscapes that all have finished."""
    found = Comparison.of(Results.load(folder).rows, policies, cells)
    if not found.seeds:
        raise missing(folder, f"landscape on which all of {', '.join(policies)} are finished")
    easy, hard = tables_in(renamed(cells_markdown(found)))
    return easy, hard, found


def renamed(text: str) -> str:
    """Give peers the names that the page explains."""
    for name, label in PEERS.items():
        text = text.replace(f"| {name} |", f"| {label} |")
    return text


def seeds_of(found: Comparison) -> str:
    """Which landscapes a table is of."""
    count = len(found.seeds)
    if found.seeds != tuple(range(found.seeds[0], found.seeds[0] + count)):
        return ", ".join(map(str, found.seeds))
    return f"{counted(count)} landscapes, {found.seeds[0]} to {found.seeds[-1]}"


# -- speed -------------------------------------------------------------------------------------------------------------

SPEED = {  # tables of docs/benchmarks.md, and the benchmarks that make them
    "benchmarks": (
        "movement", "offline", "posterior", "temporal", "decision", "durability", "wind", "wind_time", "planner",
        "knobs", "jobs", "command_line",
    ),
    "experiments": ("experiments",),
    "a-plant-s-year": ("plant",),
    "learning-on-plants": ("learning",),
    "the-service": ("service", "shared"),
    "fleets-and-maps": ("fleet", "hosted_fleet"),
}  # fmt: skip
MINUTES = {
    "experiments": 6.0,
    "learning": 5.0,
    "posterior": 4.0,
    "service": 2.0,
    "wind": 3.0,
    "plant": 2.0,
    "shared": 2.0,
}


def speed(folder: Path) -> Values:
    """Every table whose benchmarks are all there."""
    found = {}
    for key, names in SPEED.items():
        files = [folder / f"{name}.json" for name in names]
        if all(file.exists() for file in files):
            rows = [Row(**row).cells for file in files for row in read(file)]
            found[key] = block([HEADINGS, *rows])
    if (folder / "fits.json").exists():
        found["learning-on-plants-2"] = block(read(folder / "fits.json"))
    if not found:
        raise missing(folder, "results of benchmarks (NAME.json)")
    return found | {"machine": machine()}


def machine() -> str:
    """What it ran on and with."""
    names = ("numpy", "numba", "scikit-learn", "POT", "torch", "gpytorch", "botorch", "optuna")
    versions = []
    for name in names:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"without {name}")
    return f"{os.cpu_count()} {platform.machine()} cores, Python {platform.python_version()}, {', '.join(versions)}"


# -- wakes -------------------------------------------------------------------------------------------------------------

WAKE_ROWS = (
    ("lookup", None, "lookup table"),
    ("hysteresis", 8.0, "hysteresis, 8 degrees"),
    ("rate-limit", 5.0, "rate limit, 5 degrees per degree"),
    ("rate-limit", 2.0, "rate limit, 2 degrees per degree"),
    ("wake-planner", None, "wake planner, 0.5 kWh per degree"),
)


def wakes(folder: Path) -> Values:
    """The year at La Haute Borne: the table, and how much travel the planner needs."""
    if not (folder / "wakes.json").exists():
        raise missing(folder, "wakes.json")
    found = read(folder / "wakes.json")
    rows = [["policy", "energy", "95 % interval", "degrees a year"]]
    for policy, setting, label in WAKE_ROWS:
        point = wake_point(found, policy, setting)
        interval = f"{point['low']:+.2f} to {point['high']:+.2f}"
        rows.append([label, f"{point['gain']:+.2f} %", interval, f"{rounded(point['travel']):,}"])
    travel, of_table = found["words"][0].partition(" degrees a year, ")[::2]
    needed = int(travel.split()[-1].replace(",", ""))
    beside = next(row for row in found["against_rules"] if (row["policy"], row["setting"]) == ("hysteresis", 8.0))
    return {
        "la-haute-borne-2014": block(rows),
        "travel-share": of_table.partition(" %")[0] + " %",
        "travel": f"{rounded(needed):,} degrees a year",
        "beside-hysteresis": f"{beside['ours']:.2f} %, {beside['ratio']:.2f} times as much",
    }


def wake_point(found: Any, policy: str, setting: float | None) -> dict[str, float]:
    """What a policy made: energy in percent with its interval, and travel."""
    if setting is None:
        line = next(line for line in found["lines"] if line["policy"] == policy)
        return {"gain": line["gain"], "low": line["gain_low"], "high": line["gain_high"], "travel": line["travel"]}
    point: dict[str, float] = next(p for p in found["fronts"][policy] if p["setting"] == setting)
    return point


def rounded(value: float) -> int:
    """To three digits."""
    return round(float(f"{value:.3g}"))


# -- trials ------------------------------------------------------------------------------------------------------------


def trials(folder: Path) -> Values:
    """How right the answers are, and the share of all whose interval holds the truth."""
    parts = [folder / f"{kind}.json" for kind in ("synthetic", "plants", "wind")]
    if not all(part.exists() for part in parts):
        raise missing(folder, "synthetic.json, plants.json and wind.json")
    found = [read(part) for part in parts]
    total = sum(part["trials"] for part in found)
    lines = [trial_table.HEAD, "|---|", *(line for part in found for line in part["rows"])]
    held = sum(part["held"] for part in found) / total
    return {"how-right-it-is": block(evidence.table_of("\n".join(lines))), "held": f"{held:.1f} % of {total:,}"}


# -- wind in time ------------------------------------------------------------------------------------------------------

IN_TIME = {
    "fixed": "fixed, chosen on history",
    "wind-planner": "**wind-planner**",
    "planner": "planner, hour of the day",
    "gp-md": "GP-MD, hour of the day",
    "cgp-lcb": "CGP-LCB, hour of the day",
    "best fixed in hindsight": "best fixed in hindsight",
    "wind-planner, without history": "**wind-planner, without history**",
    "gp-md, without history": "GP-MD, without history",
    "cgp-lcb, without history": "CGP-LCB, without history",
}
YEARS = (2008, 2009, 2010)


def wind_in_time(folder: Path) -> Values:
    """Shares of the clairvoyant's energy: two half years, and whole years with histories of every length."""
    files = [folder / f"{name}.json" for name in ("half-year", "other-year", *YEARS)]
    if not all(file.exists() for file in files):
        raise missing(folder, ", ".join(file.name for file in files))
    half, other, *years = map(read, files)
    return {
        "what-it-makes": block(one_year(years[-1])),
        "what-it-makes-2": block(all_years(years)),
        "what-it-makes-3": block(half_year(half)),
        "what-it-makes-4": block(half_year(other)),
    }


def half_year(found: dict[str, list[float]]) -> list[list[str]]:
    """Policies in a half year, at every rho and price."""
    rows = [["policy", "rho 1", "rho 4", "rho 1, physical", "rho 4, physical"]]
    for name, label in IN_TIME.items():
        cells = [f"**{value:.1f}**" if label.startswith("**") else f"{value:.1f}" for value in found[name]]
        rows.append([label, *cells])
    return rows


def one_year(found: dict[str, list[list[float]]]) -> list[list[str]]:
    """A year with histories of several lengths: the mean, and the worst where there are several."""
    rows = [["history, flown in 2010", "rho 1", "rho 4", "physical"]]
    for name, runs in found.items():
        columns = list(zip(*runs, strict=True))
        worst = [f" [{min(column):.1f}]" if len(runs) > 1 else "" for column in columns]
        means = [f"{sum(column) / len(column):.2f}{least}" for column, least in zip(columns, worst, strict=True)]
        rows.append([name.replace("fixed in", "fixed altitude in"), *means])
    return rows


def all_years(years: Sequence[dict[str, list[list[float]]]]) -> list[list[str]]:
    """The mean over years, and what a history brings against none, with its error over years."""

    def means(name: str) -> np.ndarray:
        return np.array([np.mean(year[name], axis=0) for year in years])

    rows = [["history, mean over 2008, 2009 and 2010", "rho 1", "rho 4", "physical"]]
    for name, label in (("best fixed in hindsight", "best fixed altitude in hindsight"), ("none", "none")):
        rows.append([label, *(f"{value:.2f}" for value in means(name).mean(axis=0))])
    for name in ("two weeks", "three months", "a year"):
        apart = means(name) - means("none")
        cells = [f"{column.mean():+.2f} ± {standard_error(column):.2f}" for column in apart.T]
        rows.append([f"{name}, against none", *cells])
    return rows


# -- reproduction ------------------------------------------------------------------------------------------------------

ORDER = ("clairvoyant", "md-known", "gp-md", "cgp-lcb", "minc-known", "stationary")
REPRODUCED = {
    f"docs/reproduction/{kept}": measured
    for kept, measured in {
        "summary-synthetic.csv": "synthetic/summary.csv",
        "summary-wind.csv": "wind/summary.csv",
        "figure-2.png": "synthetic/figures/figure-2.png",
        **{f"figure-{number}.png": f"wind/figures/figure-{number}.png" for number in (1, 3, 4, 5, 6)},
    }.items()
}


def reproduction(folder: Path) -> Values:
    """The two tables of docs/reproduction.md."""
    labels = [label_of(name) for name in ORDER]
    costs = cost_grid(Results.load(folder / "synthetic"), OVER_TIME, "", order=ORDER)
    synthetic = [["mean total cost", *labels]]
    for rho, row in costs.cells.items():
        synthetic.append([f"rho {rho:g}", *(f"{row[name][0]:.0f} ± {row[name][1]:.0f}" for name in ORDER)])
    wind, flown = [["net MWh in 960 hours", "rho", *labels]], Results.load(folder / "wind")
    for site in WindPlan().sites:
        for rho, row in energy_grid(flown, site.name, "").cells.items():
            if rho in (1.0, 4.0, 10.0):
                title = site.title.partition(", ")[2] if rho == 1.0 else ""
                shown = [f"{row[name][0]:.1f} ± {row[name][1]:.1f}" for name in ORDER[1:]]
                wind.append([title, f"{rho:g}", f"{row[ORDER[0]][0]:.1f}", *shown])
    return {"synthetic-functions": block(synthetic), "airborne-wind": block(wind)}


# -- all of them -------------------------------------------------------------------------------------------------------


def _benchmarks() -> tuple[Step, ...]:
    names = [name for group in SPEED.values() for name in group]
    steps = [
        Step(name, (*PYTHON, "-m", "benchmarks", name, "--json", f"{{out}}/{name}.json"), MINUTES.get(name, 0.7))
        for name in names
    ]
    return *steps, Step("fits", (*PYTHON, "-m", "benchmarks.learning", "--json", "{out}/fits.json"), 2)


def _in_time() -> tuple[Step, ...]:
    flights = {"half-year": (), "other-year": ("--other-year",), **{str(y): ("--histories", str(y)) for y in YEARS}}
    command = (*PYTHON, "-m", "benchmarks.wind_time")
    return tuple(
        Step(name, (*command, *options, "--json", f"{{out}}/{name}.json"), 4) for name, options in flights.items()
    )


def _tool(name: str, *arguments: str) -> tuple[str, ...]:
    return (*PYTHON, str(ROOT / "tools" / name), *arguments)


def _trial(kind: str, minutes: float) -> Step:
    return Step(kind, _tool("trial_table.py", kind, "--json", f"{{out}}/{kind}.json"), minutes)


PLANTS_COMMAND = (*HOLDCOURSE, "compare", "--suite", "plants", "--out", "{out}")
SECTIONS = {
    section.name: section
    for section in (
        Section("start", "start", (Step("figure", (*PYTHON, str(ROOT / "docs" / "figures" / "start.py")), 0.3),)),
        Section("wind", "wind", (Step("figures", _tool("wind_figures.py"), 8),)),
        Section("wakes", "wakes", (Step("year", (*HOLDCOURSE, "wakes", "--out", "{out}"), 3),), wakes),
        Section("trials", "trials", (_trial("synthetic", 2), _trial("plants", 2), _trial("wind", 1)), trials),
        Section("benchmarks", "benchmarks", _benchmarks(), speed),
        Section("wind-in-time", "wind-in-time", _in_time(), wind_in_time),
        Section(
            "reproduction",
            "reproduction",
            (Step("all", (*HOLDCOURSE, "reproduce", "all", "--out", "{out}"), 12),),
            reproduction,
            REPRODUCED,
        ),
        Section(
            "landscapes", "landscapes", (Step("cells", (*HOLDCOURSE, "compare", "--out", "{out}"), 45),), landscapes
        ),
        Section(
            "peers",
            "landscapes",
            (Step("cells", (*PYTHON, "-m", "benchmarks.peers", "--rho", "1", "--out", "{out}"), 45),),
            peers,
        ),
        Section(
            "plants",
            "plants",
            (Step("with history", PLANTS_COMMAND, 60), Step("cold", (*PLANTS_COMMAND, "--cold"), 60)),
            plants,
        ),
        Section(
            "knowing-nothing",
            "plants",
            (Step("runs", _tool("cold_start.py", "--out", "{out}"), 5),),
            knowing_nothing,
        ),
    )
}
