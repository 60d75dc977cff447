"""What a comparison on plants came to, for pages and programs: every plant in a file, and the tables of a page."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from holdcourse import archive
from holdcourse.deciding.registry import label_of
from holdcourse.experiments.plant_comparison import PlantComparison, PlantLine
from holdcourse.experiments.runs import CLAIRVOYANT
from holdcourse.tables.spreadsheet import write_rows

HEADINGS = ("mean", "±", "worst run", "week 1", "runs > +2 %")  # of `cells_of`


def as_values(found: PlantComparison) -> dict[str, Any]:
    """For programs: a line for each policy on each plant, and on all of them."""
    return {"seeds": list(found.seeds), "lines": [asdict(line) for line in found.every_line]}


def write(found: PlantComparison, out: Path) -> None:
    """Write `worlds.csv`, with every line, and `table.md` for a page."""
    rows = [asdict(line) for line in found.every_line]
    text = io.StringIO()
    write_rows(text, [list(rows[0]), *(row.values() for row in rows)])
    archive.write_file(out / "worlds.csv", text.getvalue().encode())
    archive.write_file(out / "table.md", markdown(found).encode())


def markdown(found: PlantComparison) -> str:
    """The tables of a page such as docs/plants.md: policies over all plants, then the mean of each on every plant."""
    overall = [["policy", *HEADINGS], *([label(line.policy), *cells_of(line)] for line in found.lines())]
    worlds = [["world", *map(label, found.policies)]]
    for world in found.worlds:
        lines = [found.line(name, world) for name in found.policies]
        worlds.append([world, *(f"{percent(line.mean)} ± {100 * line.error:.1f}" for line in lines)])
    return f"{_page(overall)}\n\n{_page(worlds)}\n"


def _page(rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], ["---"] * len(rows[0]), *rows[1:]))


def label(policy: str) -> str:
    """How a policy is called in these tables."""
    return "optimum" if policy == CLAIRVOYANT else label_of(policy)


def percent(share: float) -> str:
    """A share above or below staying, in percent."""
    return f"{round(100 * share, 1) + 0.0:+.1f}"  # never -0.0


def cells_of(line: PlantLine) -> Sequence[str]:
    """A line in percent: mean, its error, worst run, first week, share of runs that paid 2 % more than staying."""
    bill = percent(line.mean), f"{100 * line.error:.1f}", percent(line.worst)
    return *bill, percent(line.first_week), f"{100 * line.harmed:.0f}"
