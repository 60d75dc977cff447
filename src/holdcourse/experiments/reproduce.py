"""The paper's experiments from one call: run, tables, figures, report."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdcourse.errors import InvalidInput
from holdcourse.experiments import figures as paper
from holdcourse.experiments.report import write_report
from holdcourse.experiments.results import Results
from holdcourse.experiments.runner import Report, run_sweep
from holdcourse.experiments.style import save
from holdcourse.experiments.synthetic import OVER_RHO, OVER_TIME, SyntheticPlan
from holdcourse.experiments.tables import Grid, cost_grid, energy_grid
from holdcourse.experiments.wind import WindPlan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
            figures = paper.synthetic_figures(results, plan)
        else:
            grids = wind_tables(results, plan)
            notes = () if plan.folder else (STAND_INS,)
            figures = paper.wind_figures(results, plan)
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
    """Total cost and its ratio to the optimum, by rho and policy."""
    what = "1 function" if plan.functions == 1 else f"{plan.functions} functions"
    return [
        cost_grid(results, OVER_TIME, f"mean total cost, {plan.rounds} rounds, {what}"),
        cost_grid(results, OVER_TIME, f"total cost over the clairvoyant optimum, {plan.rounds} rounds", ratio=True),
        cost_grid(results, OVER_RHO, f"mean total cost, {plan.sweep_rounds} rounds, {what}"),
    ]


def wind_tables(results: Results, plan: WindPlan) -> list[Grid]:
    """Net energy by rho and policy, one table per site that has results."""
    grids = [
        energy_grid(results, site.name, f"net energy in MWh, {site.title}, {plan.rounds} hours") for site in plan.sites
    ]
    return [grid for grid in grids if grid.cells]
