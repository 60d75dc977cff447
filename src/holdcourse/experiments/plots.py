"""Figures of results, and pictures of a single run; functions that return a matplotlib figure and keep nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.deciding.pilot import Pilot
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.registry import colour_of, label_of
from holdcourse.errors import InvalidInput
from holdcourse.experiments.results import Quantity, Results, standard_error
from holdcourse.experiments.runs import CLAIRVOYANT
from holdcourse.experiments.style import blank, drawing, in_order, line_of, shared_legend
from holdcourse.learning.checking import ModelCheck
from holdcourse.learning.history import check_contexts
from holdcourse.movement.problem import Problem
from holdcourse.movement.tree import Tree
from holdcourse.trials.plan import TrialPlan
from holdcourse.worlds.simulation import Question, Run, World, run_rounds

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
MOST_READINGS = 400  # drawn of a check
BEST_BLOCKS, OTHER_BLOCKS, WITH_REFERENCE = "#0072B2", "#999999", "#D55E00"  # of a trial
SHORTEST_TRIAL, LONGEST_TRIAL = 0.5, 104.0  # weeks shown
OTHERS_SHOWN = 4  # lengths of blocks besides the best one


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
    """Draw the cumulative cost over time: mean over runs, with a band of one standard error.

    Parameters
    ----------
    results
        Results of one sweep.
    rho, experiment, problem, policies
        Runs to draw; default: all.
    quantity
        "total", "service", "movement", "net" or "regret".
    ax
        Axes to draw on; default: a new figure with a legend.
    """
    chosen = results.select(experiment=experiment, rho=rho, problem=problem, policies=policies)
    if len(chosen.rhos) > 1:
        raise InvalidInput(f"these results have several values of rho, {chosen.rhos}; choose one with rho=")
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
    """Draw the cumulative movement cost over time; options as in `plot_costs`."""
    return plot_costs(results, quantity="movement", **options)  # type: ignore[arg-type]


def plot_regret(results: Results, **options: object) -> Figure:
    """Draw the cumulative cost above the clairvoyant optimum; options as in `plot_costs`, without `policies`.

    The optimum considers the whole run, so a curve may fall below 0 for a while, but not at the end.
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
    """Draw the cost at the end against rho.

    Parameters
    ----------
    weighted
        Whether to use the weights rho / (1 + rho) for service and 1 / (1 + rho) for movement, as in the paper's Figure
        2f. Decisions are the same, because they depend only on the ratio of the weights.
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


def plot_trajectory(runs: Run | Mapping[str, Run], *, title: str | None = None) -> Figure:
    """Draw the actions of one or several runs over time, over the true costs of all actions in grey if these are few.

    Parameters
    ----------
    runs
        A run, or several runs in the same world, by name.
    """
    named = {runs.policy: runs} if isinstance(runs, Run) else dict(runs)
    if not named:
        raise InvalidInput("there is no run to draw; give one, or a mapping of names to runs")
    first = next(iter(named.values()))
    problem = first.world.problem
    with drawing():
        figure, (ax,) = blank(size=(10, 5))
        if len(first.actions) * problem.n <= 2_000_000:
            costs = np.concatenate([first.true_costs(m) for m in range(len(first.lengths))])
            image = ax.imshow(
                costs.T, aspect="auto", origin="lower", cmap="Greys", extent=(0, len(costs), -0.5, problem.n - 0.5)
            )
            figure.colorbar(image, ax=ax, label="cost")
        for name, run in named.items():
            style = line_of(name.lower())
            ax.step(np.arange(len(run.actions)) + 0.5, run.actions, where="mid", label=label_of(name.lower()), **style)
        ax.grid(False)
        ax.set(xlabel="round", title=title or "")
        _name_actions(ax, problem)
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=6, frameon=False)
    return figure


def probabilities_of(
    policy: Policy, world: World, contexts: ArrayLike, start: int = 0, seed: int = 0
) -> tuple[Array, NDArray[np.int64]]:
    """Say how probable every action was in every round, (T, n), and which was drawn, (T,); the run of `simulate`."""
    questions = map(Question, check_contexts(contexts, None))
    choices = [one.choice for one in run_rounds(Pilot(policy, start, seed), world, questions, seed)]
    table = np.array([choice.probabilities for choice in choices]).reshape(len(choices), world.problem.n)
    return table, np.array([choice.action for choice in choices], dtype=np.int64)


def plot_probabilities(
    probabilities: ArrayLike, problem: Problem, actions: ArrayLike | None = None, *, title: str | None = None
) -> Figure:
    """Draw the probability of every action over time, and the actions taken; see `probabilities_of`."""
    table = np.asarray(probabilities, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != problem.n:
        raise InvalidInput(f"probabilities must have shape (rounds, {problem.n}), got {table.shape}")
    with drawing():
        figure, (ax,) = blank(size=(10, 5))
        extent = (0, len(table), -0.5, problem.n - 0.5)
        image = ax.imshow(table.T, aspect="auto", origin="lower", cmap="cividis", vmin=0, extent=extent)
        figure.colorbar(image, ax=ax, label="probability")
        if actions is not None:
            taken = np.asarray(actions)
            bright = colour_of("cgp-lcb")  # stands out from all colours of the picture
            ax.plot(np.arange(len(taken)) + 0.5, taken, ".", color=bright, markersize=3, label="taken")
            ax.legend(loc="upper right")
        ax.grid(False)
        ax.set(xlabel="round", title=title or "")
        _name_actions(ax, problem)
    return figure


def plot_model_check(check: ModelCheck, *, title: str | None = None, unit: str = "") -> Figure:
    """Draw what was predicted against what was measured, with bands of 95 %, and how much the bands contain.

    If there are many readings, some hundreds are drawn, evenly over the history; those that look wrong always.

    Parameters
    ----------
    unit
        Unit of the readings, for the axes.
    """
    if not check.enough:
        raise InvalidInput(f"there is nothing to draw: {check.words[0]}")
    wrong = np.isin(np.arange(len(check.fold)), check.wrong)
    some = np.unique(np.linspace(0, len(wrong) - 1, MOST_READINGS).astype(int))
    rows = some[~wrong[some]]
    usual, odd = colour_of("gp-md"), colour_of("cgp-lcb")
    with drawing():
        figure, (ax, held) = blank(columns=2, size=(5.4, 4.4))
        y, at = check.measured, check.predicted
        ax.vlines(
            at[rows], check.low[rows], check.high[rows], color=usual, alpha=0.18, linewidth=1.2, label="95 % band"
        )
        ax.plot(at[rows], y[rows], ".", color=usual, markersize=5, label="reading")
        if wrong.any():
            ax.plot(at[wrong], y[wrong], "x", color=odd, markersize=8, label="looks wrong")
        every = np.concatenate([at[rows], y[rows], y[wrong]])
        ends = np.array([every.min(), every.max()])
        if ends[0] > 0 and ends[1] > 8 * ends[0]:
            _logarithmic(ax)
        ax.plot(ends, ends, color="#7d7d7d", linewidth=1.2, label="as predicted")
        of = f", {unit}" if unit else ""
        ax.set(xlabel=f"predicted{of}", ylabel=f"measured{of}", title=title or "predicted from other readings")
        ax.set_xlim(*_around(at[rows]))
        shares = list(check.coverage)
        places = np.arange(len(shares))
        held.bar(places, [100 * check.coverage[share] for share in shares], color=usual, width=0.6)
        held.hlines(
            [100 * share for share in shares], places - 0.4, places + 0.4, color="#000000", label="should contain"
        )
        held.set_xticks(places, [f"{100 * share:.0f} % band" for share in shares])
        held.grid(False, axis="x")
        held.set(ylim=(0, 105), ylabel="% of readings", title="within the bands")
        shared_legend(figure, [ax, held])
    return figure


def _around(values: Array) -> tuple[float, float]:
    """Limits that leave some room around values, in proportion where they are positive."""
    low, high = float(values.min()), float(values.max())
    room = 0.1 * (high - low)
    return (low - room if low <= 0 else max(low - room, low / 1.2)), high + room if high > low else high + 1.0


def _logarithmic(ax: Axes) -> None:
    """Give both axes logarithmic scales with plain numbers."""
    from matplotlib.ticker import FixedLocator, NullFormatter

    ax.set(xscale="log", yscale="log")
    for axis, steps in ((ax.xaxis, (1, 2, 5)), (ax.yaxis, (1, 3))):
        axis.set_major_locator(FixedLocator([step * 10.0**power for power in range(-12, 16) for step in steps]))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())


def plot_plan(plan: TrialPlan) -> Figure:
    """Draw weeks against the smallest gain that is told from none by then, for several block lengths."""
    from matplotlib.ticker import FuncFormatter

    weeks = np.geomspace(SHORTEST_TRIAL, LONGEST_TRIAL, 120)
    with drawing():
        figure, (axes,) = blank(size=(8.4, 6.0))
        others = [design for design in plan.designs if design.block != plan.best.block][:OTHERS_SHOWN]
        for k, design in enumerate(others):
            seen = [design.visible(week) for week in weeks]
            dashes = (0, (1 + 2 * k, 1.5))
            axes.plot(seen, weeks, color=OTHER_BLOCKS, ls=dashes, lw=1.6, label=f"blocks of {design.block} rounds")
        best = plan.best
        axes.plot(
            [best.visible(week) for week in weeks], weeks, color=BEST_BLOCKS, label=f"blocks of {best.block}: the plan"
        )
        helped = [best.visible(week, reference=True) for week in weeks]
        axes.plot(helped, weeks, color=WITH_REFERENCE, ls="-.", label="the same with a reference")
        if SHORTEST_TRIAL <= best.weeks(plan.target) <= LONGEST_TRIAL:
            axes.plot([plan.target], [best.weeks(plan.target)], "o", color=BEST_BLOCKS, ms=9)
        finite = [design.visible(LONGEST_TRIAL, reference=True) for design in (best, *others)]
        axes.set(
            xscale="log",
            yscale="log",
            ylim=(SHORTEST_TRIAL, LONGEST_TRIAL),
            xlim=(max(0.1, 0.7 * min(finite)), 50),
            xlabel="smallest visible gain, % of the baseline's bill",
            ylabel="weeks",
            title="How long until a gain is detected",
        )
        plain = FuncFormatter(lambda value, _: f"{value:g}")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(plain)
        axes.set_xticks([x for x in (0.5, 1, 2, 5, 10, 20, 50) if x >= axes.get_xlim()[0]])
        axes.set_yticks([0.5, 1, 2, 4, 8, 13, 26, 52, 104])
        axes.minorticks_off()
        figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=12)
    return figure


def plot_tree(tree: Tree, problem: Problem | None = None, *, title: str | None = None) -> Figure:
    """Draw a tree, the root on top; heights are distances to the leaves on a logarithmic scale."""
    order = _leaf_order(tree)
    across = np.zeros(len(tree.parent))
    across[order] = np.arange(tree.n)
    height = np.zeros(len(tree.parent))
    children = _children(tree)
    for vertex in sorted(children):  # a tree numbers its vertices from the leaves up
        below = children[vertex]
        across[vertex] = np.mean([across[child] for child in below])
        height[vertex] = max(height[child] + float(tree.weight[child]) for child in below)
    least = float(height[height > 0].min()) / 2 if (height > 0).any() else 1.0
    level = np.log10(np.maximum(height, least) / least)
    with drawing():
        figure, (ax,) = blank(size=(10, 5))
        for parent, below in children.items():
            for child in below:
                ax.plot(
                    [across[child], across[child], across[parent]],
                    [level[child], level[parent], level[parent]],
                    color=colour_of("gp-md"),  # which runs on it
                    linewidth=1.2,
                )
        ax.plot(across[: tree.n], level[: tree.n], "o", color="#000000", markersize=3)
        ax.grid(False)
        ax.set_ylabel("distance to the leaves")
        marks = np.unique(level[height > 0].round(3))[:: max(1, len(np.unique(level)) // 6)]
        ax.set_yticks(marks, [f"{least * 10**mark:.3g}" for mark in marks])
        if problem is not None and tree.n <= 40:
            ax.set_xticks(range(tree.n), [str(problem.value(int(leaf))) for leaf in order], rotation=90, fontsize=9)
        else:
            ax.set_xticks([])
        ax.set(xlabel=f"{tree.n} actions", title=title or "")
    return figure


def _leaf_order(tree: Tree) -> list[int]:
    """Return the leaves from left to right, so that no branches cross."""
    children = _children(tree)
    order, stack = [], [tree.root]
    while stack:
        vertex = stack.pop()
        if vertex < tree.n:
            order.append(vertex)
        stack += reversed(children.get(vertex, []))
    return order


def _children(tree: Tree) -> dict[int, list[int]]:
    """Return the vertices below each inner one."""
    children: dict[int, list[int]] = {}
    for vertex, parent in enumerate(tree.parent.tolist()[:-1]):
        children.setdefault(parent, []).append(vertex)
    return children


def _name_actions(ax: Axes, problem: Problem) -> None:
    ax.set_ylabel("action")
    if problem.n <= 30 or problem.actions.shape[1] == 1:
        shown = np.unique(np.linspace(0, problem.n - 1, min(problem.n, 8)).round().astype(int))
        ax.set_yticks(shown, [_short(problem.value(int(action))) for action in shown])


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
