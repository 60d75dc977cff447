"""The paper's experiments from one call: run, tables, figures in its layout, and a report in one file."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import holdcourse as hc
from holdcourse import archive
from holdcourse.errors import InvalidInput, counted
from holdcourse.experiments import paper
from holdcourse.experiments.paper import OVER_RHO, OVER_TIME, SyntheticPlan, WindPlan, WindSite
from holdcourse.experiments.plots import plot_costs, plot_movement, plot_rho
from holdcourse.experiments.results import Grid, Results, cost_grid, energy_grid
from holdcourse.experiments.runner import Report, run_sweep
from holdcourse.experiments.style import blank, drawing, save, shared_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
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


def synthetic_figures(results: Results, plan: SyntheticPlan) -> dict[str, Figure]:
    """Draw Figure 2: total cost over time at three rho, movement cost at two, total cost against rho."""
    three, two = _some(plan.rho, (0.5, 1.0, 2.0)), _some(plan.rho, (0.5, 2.0))
    with drawing():
        figure, axes = blank(2, 3)
        for ax, rho in zip(axes[:3], three, strict=True):
            plot_costs(results, experiment=paper.OVER_TIME, rho=rho, ax=ax, title=rf"$\rho = {rho:g}$")
        for ax, rho in zip(axes[3:5], two, strict=True):
            plot_movement(results, experiment=paper.OVER_TIME, rho=rho, ax=ax, title=rf"$\rho = {rho:g}$")
        plot_rho(results, experiment=paper.OVER_RHO, weighted=True, ax=axes[5], title=r"Varying $\rho$")
        shared_legend(figure, axes)
    return {"figure-2": figure}


def wind_figures(results: Results, plan: WindPlan) -> dict[str, Figure]:
    """Draw Figure 1, Figure 3 and the appendix figures 4 to 6, as far as there are sites for them."""
    sites = plan.sites
    middle, low = _nearest(plan.rho, 4.0), _nearest(plan.rho, 1.0)
    figures = {"figure-1": _figure_1(results, sites[0], middle), "figure-3": _figure_3(results, plan, middle, low)}
    if len(sites) > 1:
        figures["figure-4"] = _row(
            [
                _over_time(results, sites[1], middle, "net", "Total energy"),
                _over_time(results, sites[1], middle, "service", "Service cost"),
                _over_time(results, sites[1], middle, "movement", "Movement cost"),
            ],
            sites[1].title,
        )
    for number, site in enumerate(sites[2:4], 5):
        figures[f"figure-{number}"] = _row(
            [
                _against_rho(results, site, r"Varying $\rho$"),
                _over_time(results, site, middle, "net", "Total energy"),
                _over_time(results, site, middle, "service", "Service cost"),
            ],
            site.title,
        )
    return figures


def _figure_1(results: Results, site: WindSite, rho: float) -> Figure:
    with drawing():
        figure, (ax,) = blank(size=(7, 4.5))
        wanted = [name for name in ("gp-md", "cgp-lcb", "stationary") if name in results.policies]
        title = rf"{site.title}, $\rho = {rho:g}$"
        plot_costs(results, problem=site.name, rho=rho, policies=wanted, quantity="net", ax=ax, title=title)
        ax.set_xlabel("hour")
        ax.legend(frameon=False)
    return figure


def _figure_3(results: Results, plan: WindPlan, middle: float, low: float) -> Figure:
    site, other = plan.sites[0], plan.sites[min(1, len(plan.sites) - 1)]
    panels = [
        _against_rho(results, site, site.title),
        _over_time(results, site, middle, "net", "Total energy"),
        _over_time(results, site, middle, "service", "Service cost"),
        _over_time(results, site, middle, "movement", "Movement cost"),
        _over_time(results, site, low, "movement", "Movement cost"),
        _against_rho(results, other, other.title),
    ]
    return _panels(panels, 2, 3)


def _row(panels: list[Callable[[Axes], None]], title: str) -> Figure:
    with drawing():
        figure = _panels(panels, 1, 3)
        figure.suptitle(title)
    return figure


def _panels(panels: list[Callable[[Axes], None]], rows: int, columns: int) -> Figure:
    with drawing():
        figure, axes = blank(rows, columns)
        for draw, ax in zip(panels, axes, strict=True):
            draw(ax)
        shared_legend(figure, axes)
    return figure


def _against_rho(results: Results, site: WindSite, title: str) -> Callable[[Axes], None]:
    def draw(ax: Axes) -> None:
        plot_rho(results, problem=site.name, quantity="net", ax=ax, title=title)

    return draw


def _over_time(results: Results, site: WindSite, rho: float, quantity: str, title: str) -> Callable[[Axes], None]:
    def draw(ax: Axes) -> None:
        options = {"problem": site.name, "rho": rho, "quantity": quantity, "title": rf"{title} ($\rho = {rho:g}$)"}
        plot_costs(results, ax=ax, **options)  # type: ignore[arg-type]
        ax.set_xlabel("hour")
        if quantity != "net":
            ax.set_ylabel(f"{ax.get_ylabel()} (kWh)")

    return draw


def _some(have: tuple[float, ...], wanted: tuple[float, ...]) -> list[float]:
    """Return the wanted weights, or the nearest that were run."""
    return [_nearest(have, rho) for rho in wanted]


def _nearest(have: tuple[float, ...], wanted: float) -> float:
    return min(have, key=lambda rho: abs(rho - wanted))


STAND_INS = (
    "On the bundled wind (NORA3 hindcast, one site in the North Sea, 10 to 750 m; based on data from MET Norway). "
    "The paper's own data have three sites and reach 1600 m: other summers stand in for its other sites."
)


@dataclass(frozen=True, eq=False)
class Reproduction:
    """One section of the paper, reproduced."""

    plan: SyntheticPlan | WindPlan
    report: Report
    grids: tuple[Grid, ...]
    figures: dict[str, Figure]
    notes: tuple[str, ...] = ()


def reproduce(
    plan: SyntheticPlan | WindPlan,
    out: Path,
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    fresh: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Reproduction:
    """Run a section into its folder under `out`, and draw its figures there; arguments as in `run_sweep`."""
    sweep = plan.sweep()
    folder = out / sweep.name
    report = run_sweep(sweep, folder, executor=executor, workers=workers, fresh=fresh, say=say)
    if report.failed and not report.rows:
        return Reproduction(plan, report, (), {}, ("Every run failed.",))
    results = Results.load(folder)
    notes: tuple[str, ...] = ()
    figures: dict[str, Figure] = {}
    try:
        if isinstance(plan, SyntheticPlan):
            grids = synthetic_tables(results, plan)
            figures = synthetic_figures(results, plan)
        else:
            grids = wind_tables(results, plan)
            notes = () if plan.folder else (STAND_INS,)
            figures = wind_figures(results, plan)
    except InvalidInput:
        if not report.failed:
            raise
        notes += ("No figures, as runs that they show have failed.",)
    for name, figure in figures.items():
        save(figure, folder / "figures", name)
    return Reproduction(plan, report, tuple(grids), figures, notes)


def write_reports(done: list[Reproduction], out: Path) -> Path:
    """Write one page about all sections."""
    sections = {
        f"{one.report.folder.name} experiments": (one.grids, one.figures, one.plan.model_dump(mode="json"))
        for one in done
    }
    path = out / "report.html"
    write_report(path, "The paper's experiments", sections, [note for one in done for note in one.notes])
    return path


def synthetic_tables(results: Results, plan: SyntheticPlan) -> list[Grid]:
    """Return the total cost and its ratio to the optimum, by rho and policy."""
    what = counted(plan.functions, "function")
    return [
        cost_grid(results, OVER_TIME, f"mean total cost, {plan.rounds} rounds, {what}"),
        cost_grid(results, OVER_TIME, f"total cost over the clairvoyant optimum, {plan.rounds} rounds", ratio=True),
        cost_grid(results, OVER_RHO, f"mean total cost, {plan.sweep_rounds} rounds, {what}"),
    ]


def wind_tables(results: Results, plan: WindPlan) -> list[Grid]:
    """Return the net energy by rho and policy, one table per site that has results."""
    grids = [
        energy_grid(results, site.name, f"net energy in MWh, {site.title}, {plan.rounds} hours") for site in plan.sites
    ]
    return [grid for grid in grids if grid.cells]
