"""Figures of results: functions of saved runs, which return a matplotlib figure and keep nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import InvalidInput
from holdcourse.experiments.results import Quantity, Results, standard_error
from holdcourse.experiments.runs import CLAIRVOYANT
from holdcourse.experiments.style import blank, drawing, in_order, line_of
from holdcourse.registry import label_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array: TypeAlias = NDArray[np.float64]

TITLES = {
    "total": "total cost",
    "service": "service cost",
    "movement": "movement cost",
    "net": "net energy (MWh)",
    "regret": "cost above the optimum",
}
UNITS = {"net": 1e-3}  # wind worlds count in kWh


def plot_costs(
    results: Results,
    *,
    rho: float | None = None,
    experiment: str | None = None,
    problem: str | None = None,
    policies: Sequence[str] | None = None,
    quantity: Quantity = "total",
    ax: Axes | None = None,
    title: str | None = None,
) -> Figure:
    """Cumulative cost over time: mean over runs, with a band of one standard error.

    Parameters
    ----------
    results
        Of one sweep.
    rho, experiment, problem, policies
        Which runs to draw; default all.
    quantity
        "total", "service", "movement", "net" or "regret".
    ax
        Draw here; default a new figure with a legend.
    """
    chosen = results.select(experiment=experiment, rho=rho, problem=problem, policies=policies)
    if len(chosen.rhos) > 1:
        raise InvalidInput(f"these results have several rho, {chosen.rhos}; choose one with rho=")
    with drawing():
        figure, here = _place(ax)
        for policy in in_order(_drawn(chosen, policies)):
            curves = UNITS.get(quantity, 1.0) * chosen.cumulative(policy, quantity)
            rounds = np.arange(1, curves.shape[1] + 1)
            _band(here, rounds, curves, policy)
        here.set(xlabel="round", ylabel=TITLES[quantity], xlim=(0, None))
        _finish(here, title, alone=ax is None)
    return figure


def plot_movement(results: Results, **options: object) -> Figure:
    """Cumulative movement cost over time; options as in `plot_costs`."""
    return plot_costs(results, quantity="movement", **options)  # type: ignore[arg-type]


def plot_regret(results: Results, **options: object) -> Figure:
    """Cumulative cost above the clairvoyant optimum; options as in `plot_costs`, without `policies`.

    The optimum looks at the whole run, so a curve may dip below 0 on the way; at the end it cannot.
    """
    return plot_costs(results, quantity="regret", **options)  # type: ignore[arg-type]


def plot_rho(
    results: Results,
    *,
    experiment: str | None = None,
    problem: str | None = None,
    policies: Sequence[str] | None = None,
    quantity: Quantity = "total",
    weighted: bool = False,
    ax: Axes | None = None,
    title: str | None = None,
) -> Figure:
    """Cost at the end against rho.

    Parameters
    ----------
    weighted
        Weights rho / (1 + rho) for service and 1 / (1 + rho) for movement, as in the paper's Figure 2f. Decisions are
        the same, for only the ratio of the weights matters to them.
    """
    chosen = results.select(experiment=experiment, problem=problem, policies=policies)
    with drawing():
        figure, here = _place(ax)
        for policy in in_order(_drawn(chosen, policies)):
            weights, ends = [], []
            for rho in chosen.rhos:
                final = chosen.select(rho=rho).final(policy, quantity)
                if len(final):
                    weights.append(rho)
                    ends.append(UNITS.get(quantity, 1.0) * final / (1 + rho if weighted else 1))
            # Starts and repetitions may be missing for some; each rho has its own mean.
            means = np.array([values.mean() for values in ends])
            errors = np.array([standard_error(values) for values in ends])
            line = line_of(policy)
            here.plot(weights, means, marker="o", markersize=5, label=label_of(policy), **line)
            here.fill_between(weights, means - errors, means + errors, color=line["color"], alpha=0.18, linewidth=0)
        here.set(xlabel=r"$\rho$", ylabel=("weighted " if weighted else "") + TITLES[quantity])
        if chosen.rhos and chosen.rhos[-1] / chosen.rhos[0] > 20:
            here.set_xscale("log")
        _finish(here, title, alone=ax is None)
    return figure


def _drawn(results: Results, wanted: Sequence[str] | None) -> list[str]:
    if not results.rows:
        raise InvalidInput("no run matches; check rho, experiment, problem and policies against results.rows")
    return [name for name in results.policies if wanted is not None or name != CLAIRVOYANT]


def _place(ax: Axes | None) -> tuple[Figure, Axes]:
    if ax is None:
        figure, (here,) = blank(size=(8, 5))
        return figure, here
    return ax.figure.figure, ax  # the whole figure, also where the axes are in a part of it


def _band(ax: Axes, rounds: NDArray[np.int64], curves: Array, policy: str) -> None:
    mean, line = curves.mean(axis=0), line_of(policy)
    error = curves.std(axis=0, ddof=1) / np.sqrt(len(curves)) if len(curves) > 1 else np.zeros_like(mean)
    ax.plot(rounds, mean, label=label_of(policy), **line)
    ax.fill_between(rounds, mean - error, mean + error, color=line["color"], alpha=0.18, linewidth=0)


def _finish(ax: Axes, title: str | None, *, alone: bool) -> None:
    if title is not None:
        ax.set_title(title)
    if alone:
        ax.legend(frameon=False)
