"""Pictures of trials: how long one would take, and what one has measured so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holdcourse.experiments.style import blank, drawing
from holdcourse.trials.answer import Answer
from holdcourse.trials.plan import TrialPlan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEST, OTHER, REFERENCE, AGAINST = "#0072B2", "#999999", "#D55E00", "#000000"
LONGEST, SHORTEST = 104.0, 0.5  # weeks shown
SHOWN = 4  # lengths besides the best one


def plot_plan(plan: TrialPlan) -> Figure:
    """Weeks against the smallest gain that is told from none by then, for several block lengths."""
    from matplotlib.ticker import FuncFormatter

    weeks = np.geomspace(SHORTEST, LONGEST, 120)
    with drawing():
        figure, (axes,) = blank(size=(8.4, 6.0))
        others = [design for design in plan.designs if design.block != plan.best.block][:SHOWN]
        for k, design in enumerate(others):
            seen = [design.visible(week) for week in weeks]
            dashes = (0, (1 + 2 * k, 1.5))
            axes.plot(seen, weeks, color=OTHER, ls=dashes, lw=1.6, label=f"blocks of {design.block} rounds")
        best = plan.best
        axes.plot([best.visible(week) for week in weeks], weeks, color=BEST, label=f"blocks of {best.block}: the plan")
        helped = [best.visible(week, reference=True) for week in weeks]
        axes.plot(helped, weeks, color=REFERENCE, ls="-.", label="the same with a reference")
        if SHORTEST <= best.weeks(plan.target) <= LONGEST:
            axes.plot([plan.target], [best.weeks(plan.target)], "o", color=BEST, ms=9)
        finite = [design.visible(LONGEST, reference=True) for design in (best, *others)]
        axes.set(
            xscale="log",
            yscale="log",
            ylim=(SHORTEST, LONGEST),
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


def plot_answer(answer: Answer, *, hours: float | None = None) -> Figure:
    """The gain and both its intervals after every pair of blocks."""
    per_pair = 2 * answer.rounds * (1.0 if hours is None else hours / 168)
    at = per_pair * np.arange(1, answer.pairs + 1)
    percent = np.isfinite(answer.looks_in_percent.always_low).any()
    looks = answer.looks_in_percent if percent else answer.looks
    with drawing():
        figure, (axes,) = blank(size=(8.4, 5.2))
        axes.fill_between(at, looks.always_low, looks.always_high, color=BEST, alpha=0.2, lw=0, label="at every look")
        axes.plot(at, looks.low, color=BEST, lw=1, ls="--", label="at one look fixed beforehand")
        axes.plot(at, looks.high, color=BEST, lw=1, ls="--")
        axes.plot(at, looks.value, color=BEST, label="measured")
        axes.axhline(0, color=AGAINST, lw=1)
        known = np.concatenate([looks.always_low, looks.always_high])
        known = known[np.isfinite(known)]
        if len(known):
            low, high = np.quantile(known, [0.05, 0.95])
            axes.set_ylim(min(low, 0) - 0.3 * (high - low), max(high, 0) + 0.3 * (high - low))
        axes.set(
            xlabel="rounds" if hours is None else "weeks",
            ylabel="net gain, % of the baseline's bill" if percent else "net gain a round",
            title=f"Did it pay? {answer.verdict[0].upper()}{answer.verdict[1:]}",
        )
        figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=12)
    return figure
