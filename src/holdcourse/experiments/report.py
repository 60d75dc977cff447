"""A report in one file: tables and figures that anybody can open without this program."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import holdcourse as hc
from holdcourse import archive
from holdcourse.experiments.style import drawing
from holdcourse.experiments.tables import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
img {{ max-width: 100%; }} figure {{ margin: 2rem 0; }} figcaption {{ color: #555; }}
table {{ border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }}
caption {{ text-align: left; font-weight: 600; padding: .3rem 0; }}
th, td {{ text-align: right; padding: .25rem .8rem; border-bottom: 1px solid #ddd; }}
pre {{ background: #f5f5f5; padding: 1rem; overflow: auto; font-size: 13px; }}
</style></head><body><h1>{title}</h1>
{body}
<p>Made by holdcourse {version}. Means over runs, ± one standard error.</p></body></html>
"""
CAPTIONS = {
    "figure-1": "Figure 1: total energy over time.",
    "figure-2": "Figure 2: synthetic functions. Above, total cost over time; below, movement cost over time, and the "
    "total cost against rho with weights rho/(1+rho) and 1/(1+rho).",
    "figure-3": "Figure 3: altitude of an airborne turbine. Net energy against rho, and over time; service and "
    "movement cost.",
    "figure-4": "Appendix: second site.",
    "figure-5": "Appendix: third site.",
    "figure-6": "Appendix: first site, October.",
}


def write_report(
    path: Path,
    title: str,
    sections: Mapping[str, tuple[Sequence[Grid], Mapping[str, Figure], Mapping[str, Any]]],
    notes: Sequence[str] = (),
) -> None:
    """Write a page; each section has tables, figures and the configuration behind them."""
    parts = [f"<p>{html.escape(note)}</p>" for note in notes]
    for name, (grids, figures, config) in sections.items():
        parts.append(f"<h2>{html.escape(name)}</h2>")
        parts += [_picture(key, figure) for key, figure in figures.items()]
        parts += [_table(grid) for grid in grids]
        shown = html.escape(json.dumps(config, indent=1))
        parts.append(f"<details><summary>configuration</summary><pre>{shown}</pre></details>")
    page = PAGE.format(title=html.escape(title), body="\n".join(parts), version=hc.__version__)
    archive.write_file(path, page.encode())


def _picture(name: str, figure: Figure) -> str:
    buffer = io.BytesIO()
    with drawing():
        figure.savefig(buffer, format="png", dpi=80)
    data = base64.b64encode(buffer.getvalue()).decode()
    caption = html.escape(CAPTIONS.get(name, name))
    return (
        f'<figure><img alt="{caption}" src="data:image/png;base64,{data}"><figcaption>{caption}</figcaption></figure>'
    )


def _table(grid: Grid) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    lines = [row(grid.headings, "th"), *(row(cells, "td") for cells in grid.texts())]
    return f"<table><caption>{html.escape(grid.title)}</caption>{''.join(lines)}</table>"
