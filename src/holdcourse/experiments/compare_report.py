"""What a comparison came to, for pages and programs.

Of cells: a table for each group of them, every cell, and a figure. Of plants: policies over all of them,
and on every one.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdcourse import archive
from holdcourse.deciding.registry import label_of
from holdcourse.errors import MissingExtra
from holdcourse.experiments.comparison import EASY, HARD, Comparison
from holdcourse.experiments.plant_comparison import PlantComparison, PlantLine
from holdcourse.experiments.results import plus_minus, without_nan
from holdcourse.experiments.runs import CLAIRVOYANT
from holdcourse.experiments.style import SETTINGS, blank, drawing, line_of, save, shared_legend
from holdcourse.tables.spreadsheet import write_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLANT_HEADINGS = ("mean", "±", "worst run", "week 1", "runs > +2 %")  # of `plant_cells`
GROUPS = {"cells": EASY, "harder processes": HARD}


def groups(found: Comparison) -> dict[str, Comparison]:
    """Return the ordinary cells and the harder processes, as far as there are any."""
    parts = {title: found.select(processes) for title, processes in GROUPS.items()}
    return {title: part for title, part in parts.items() if part.cells}


def cells_as_values(found: Comparison) -> dict[str, Any]:
    """Give programs every cell, and a line for each policy and group of cells."""
    lines = [{"group": title, **asdict(line)} for title, part in groups(found).items() for line in part.lines()]
    return {
        "seeds": list(found.seeds),
        "lines": [without_nan(line) for line in lines],
        "cells": [without_nan(row) for row in found.cell_rows()],
    }


def write_cells(found: Comparison, out: Path, say: Callable[[str], None] = lambda line: None) -> None:
    """Write `cells.csv`, `table.md` for a page, and a figure if matplotlib is installed."""
    _write_rows([without_nan(row) for row in found.cell_rows()], out / "cells.csv")
    archive.write_file(out / "table.md", cells_markdown(found).encode())
    try:
        save(picture(found), out / "figures", "compare")
    except MissingExtra as error:
        say(f"no figure: {error}")


def cells_markdown(found: Comparison) -> str:
    """Return the tables of a page such as docs/benchmark-table.md: a row for each policy."""
    pages = []
    for part in groups(found).values():
        processes = list(dict.fromkeys(process for process, _ in part.cells))
        rows = [["policy", "mean", f"to {label_of(found.policies[0])}", *processes]]
        for line, means in zip(part.lines(), part.means, strict=True):
            apart = f"{line.difference:+.3f}{plus_minus(line.difference_error, 3)}"
            apart = apart if line.policy != found.policies[0] else ""
            row = [label_of(line.policy), f"{line.mean:.3f}{plus_minus(line.error, 3)}", apart]
            rows.append(row + [" ".join(means_of_process(part, means, process)) for process in processes])
        pages.append(_page(rows))
    return "\n\n".join(pages) + "\n"


def means_of_process(part: Comparison, means: Any, process: str, *, together: bool = False) -> list[str]:
    """Return the means of a process's cells, or their mean, as text."""
    own = [mean for mean, (here, _) in zip(means, part.cells, strict=True) if here == process]
    return [f"{mean:.2f}" for mean in ([sum(own) / len(own)] if together else own)]


def picture(found: Comparison) -> Figure:
    """Draw a panel for each process: every policy's ratio, with standard errors, against rho."""
    processes = list(dict.fromkeys(process for process, _ in found.cells))
    columns = min(5, len(processes))
    with drawing():
        figure, axes = blank(-(-len(processes) // columns), columns)
        for ax in axes[len(processes) :]:
            ax.set_visible(False)
        for ax, process in zip(axes, processes, strict=False):
            _panel(ax, process, [row for row in found.cell_rows() if row["process"] == process], found.policies)
        axes[0].set_ylabel("cost over the optimum")
        shared_legend(figure, axes[: len(processes)])
    return figure


def _panel(ax: Any, process: str, rows: list[dict[str, Any]], policies: Sequence[str]) -> None:
    rhos = list(dict.fromkeys(row["rho"] for row in rows))
    for place, name in enumerate(policies):
        own = [row for row in rows if row["policy"] == name]
        shift = 0.08 * (place - (len(policies) - 1) / 2)  # so that error bars do not hide each other
        ax.errorbar(
            [rhos.index(row["rho"]) + shift for row in own],
            [row["mean"] for row in own],
            [row["standard_error"] for row in own],
            marker="o",
            markersize=5,
            elinewidth=SETTINGS["lines.linewidth"],
            label=label_of(name),
            **line_of(name),
        )
    ax.set_xticks(range(len(rhos)), [f"{rho:g}" for rho in rhos])
    ax.set(title=process, xlabel=r"$\rho$", xlim=(-0.5, len(rhos) - 0.5))


def plants_as_values(found: PlantComparison) -> dict[str, Any]:
    """Give programs a line for each policy on each plant, and on all of them."""
    return {"seeds": list(found.seeds), "lines": [without_nan(asdict(line)) for line in found.every_line]}


def write_plants(found: PlantComparison, out: Path) -> None:
    """Write `worlds.csv`, with every line, and `table.md` for a page."""
    _write_rows([without_nan(asdict(line)) for line in found.every_line], out / "worlds.csv")
    archive.write_file(out / "table.md", plants_markdown(found).encode())


def plants_markdown(found: PlantComparison) -> str:
    """The tables of a page such as docs/plants.md: policies over all plants, then the mean of each on every plant."""
    overall = [["policy", *PLANT_HEADINGS], *([plant_label(line.policy), *plant_cells(line)] for line in found.lines())]
    worlds = [["world", *map(plant_label, found.policies)]]
    for world in found.worlds:
        lines = [found.line(name, world) for name in found.policies]
        worlds.append([world, *(f"{percent(line.mean)}{plus_minus(100 * line.error, 1)}" for line in lines)])
    return f"{_page(overall)}\n\n{_page(worlds)}\n"


def seeds_in_words(what: str, seeds: Sequence[int]) -> str:
    """Return which seeds a comparison has: "landscape 100", or "landscapes 100 to 107"."""
    return f"{what} {seeds[0]}" if len(seeds) == 1 else f"{what}s {seeds[0]} to {seeds[-1]}"


def plant_label(policy: str) -> str:
    """How a policy is called in these tables."""
    return "optimum" if policy == CLAIRVOYANT else label_of(policy)


def percent(share: float) -> str:
    """A share above or below staying, in percent."""
    return f"{round(100 * share, 1) + 0.0:+.1f}"  # never -0.0


def plant_cells(line: PlantLine) -> Sequence[str]:
    """A line in percent: mean, its error, worst run, first week, share of runs that paid 2 % more than staying."""
    bill = percent(line.mean), plus_minus(100 * line.error, 1).removeprefix(" ± "), percent(line.worst)
    return *bill, percent(line.first_week), f"{100 * line.harmed:.0f}"


def _write_rows(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    text = io.StringIO()
    write_rows(text, [list(rows[0]), *(row.values() for row in rows)])
    archive.write_file(path, text.getvalue().encode())


def _page(rows: list[list[str]]) -> str:
    """Return a table of a page; the first row is its heading."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], ["---"] * len(rows[0]), *rows[1:]))
