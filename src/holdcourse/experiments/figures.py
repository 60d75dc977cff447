"""The paper's figures, in its layout, from saved results."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdcourse.experiments import synthetic
from holdcourse.experiments.plots import plot_costs, plot_movement, plot_rho
from holdcourse.experiments.results import Results
from holdcourse.experiments.style import blank, drawing, shared_legend
from holdcourse.experiments.synthetic import SyntheticPlan
from holdcourse.experiments.wind import WindPlan, WindSite

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def synthetic_figures(results: Results, plan: SyntheticPlan) -> dict[str, Figure]:
    """Figure 2: total cost over time at three rho, movement cost at two, total cost against rho."""
    three, two = _some(plan.rho, (0.5, 1.0, 2.0)), _some(plan.rho, (0.5, 2.0))
    with drawing():
        figure, axes = blank(2, 3)
        for ax, rho in zip(axes[:3], three, strict=True):
            plot_costs(results, experiment=synthetic.OVER_TIME, rho=rho, ax=ax, title=rf"$\rho = {rho:g}$")
        for ax, rho in zip(axes[3:5], two, strict=True):
            plot_movement(results, experiment=synthetic.OVER_TIME, rho=rho, ax=ax, title=rf"$\rho = {rho:g}$")
        plot_rho(results, experiment=synthetic.OVER_RHO, weighted=True, ax=axes[5], title=r"Varying $\rho$")
        shared_legend(figure, axes)
    return {"figure-2": figure}


def wind_figures(results: Results, plan: WindPlan) -> dict[str, Figure]:
    """Figure 1, Figure 3 and the appendix figures 4 to 6, as far as there are sites for them."""
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
    """The wanted weights, or the nearest that were run."""
    return [_nearest(have, rho) for rho in wanted]


def _nearest(have: tuple[float, ...], wanted: float) -> float:
    return min(have, key=lambda rho: abs(rho - wanted))
