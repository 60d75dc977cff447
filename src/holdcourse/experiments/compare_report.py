"""What a comparison came to, for pages and programs: a table for each group of cells, every cell, and a figure."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdcourse import archive
from holdcourse.deciding.registry import label_of
from holdcourse.errors import MissingExtra
from holdcourse.experiments.comparison import EASY, HARD, Comparison
from holdcourse.experiments.style import SETTINGS, blank, drawing, line_of, save, shared_legend
from holdcourse.tables.spreadsheet import write_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROUPS = {"cells": EASY, "harder processes": HARD}


def groups(found: Comparison) -> dict[str, Comparison]:
    """Return the ordinary cells and the harder processes, as far as there are any."""
    parts = {title: found.select(processes) for title, processes in GROUPS.items()}
    return {title: part for title, part in parts.items() if part.cells}


def as_values(found: Comparison) -> dict[str, Any]:
    """Give programs every cell, and a line for each policy and group of cells."""
    lines = [{"group": title, **asdict(line)} for title, part in groups(found).items() for line in part.lines()]
    return {"seeds": list(found.seeds), "lines": lines, "cells": found.cell_rows()}


def write(found: Comparison, out: Path, say: Callable[[str], None] = lambda line: None) -> None:
    """Write `cells.csv`, `table.md` for a page, and a figure where matplotlib is there."""
    rows = found.cell_rows()
    text = io.StringIO()
    write_rows(text, [list(rows[0]), *(row.values() for row in rows)])
    archive.write_file(out / "cells.csv", text.getvalue().encode())
    archive.write_file(out / "table.md", markdown(found).encode())
    try:
        save(picture(found), out / "figures", "compare")
    except MissingExtra as error:
        say(f"no figure: {error}")


def markdown(found: Comparison) -> str:
    """Return the tables of a page such as docs/benchmark-table.md: a row for each policy."""
    pages = []
    for part in groups(found).values():
        processes = list(dict.fromkeys(process for process, _ in part.cells))
        heading = ["policy", "mean", f"to {label_of(found.policies[0])}", *processes]
        rows = [heading, ["---"] * len(heading)]
        for line, means in zip(part.lines(), part.means, strict=True):
            apart = f"{line.difference:+.3f} ± {line.difference_error:.3f}" if line.policy != found.policies[0] else ""
            row = [label_of(line.policy), f"{line.mean:.3f} ± {line.error:.3f}", apart]
            rows.append(row + [" ".join(means_of_process(part, means, process)) for process in processes])
        pages.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
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
