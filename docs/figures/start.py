"""Draw the picture of the first page: a week of a plant whose costs have to be learned. Keeps the page's numbers."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import holdcourse as hc
from holdcourse.experiments.style import drawing

HOURS, START = 7 * 24, 2
SETTINGS = np.array([18.0, 20.0, 22.0, 24.0, 26.0])
COLOURS = {
    "perfect foresight": "#000000",
    "holdcourse": "#882255",
    "cheapest each hour, costs known": "#E69F00",
    "stay": "#777777",
}


def paths() -> tuple[hc.Problem, np.ndarray, dict[str, hc.PricedPath]]:
    """The problem, the true costs (hours, settings), and four ways to run the plant."""
    problem = hc.Problem(SETTINGS, scale=0.5)
    hours = np.arange(HOURS)
    outdoor = 15.0 + 8.0 * np.sin(hours * np.pi / 12) + np.random.default_rng(0).normal(0.0, 1.5, HOURS)
    costs = 10.0 + 0.1 * (SETTINGS - 30.0 + 0.5 * outdoor[:, None]) ** 2
    controller = hc.Controller(hc.recommended(problem), start_index=START)
    actions = []
    for hour in hours:
        decision = controller.ask(context=outdoor[hour])
        controller.tell(decision.id, costs[hour, decision.action])
        actions.append(decision.action)
    return (
        problem,
        costs,
        {
            "perfect foresight": hc.optimal_path(costs, problem, START),
            "holdcourse": hc.price_path(actions, costs, problem, START),
            "cheapest each hour, costs known": hc.price_path(costs.argmin(axis=1), costs, problem, START),
            "stay": hc.price_path(np.full(HOURS, START), costs, problem, START),
        },
    )


def draw() -> Figure:
    """Settings over the field of costs; what each way paid beyond the cheapest setting of every hour."""
    problem, costs, ways = paths()
    with drawing():
        figure = Figure(figsize=(9, 6), layout="constrained")
        field, bills = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
        field.imshow(costs.T, aspect="auto", origin="lower", cmap="Greys", extent=(0, HOURS, 17, 27), vmax=16)
        for name, path in ways.items():
            before = np.append(START, path.actions[:-1])
            paid = costs[np.arange(HOURS), path.actions] - costs.min(axis=1) + problem.move_costs(before, path.actions)
            bills.plot(np.cumsum(paid), color=COLOURS[name], label=f"{name}: {paid.sum():.0f}")
            print(f"{name:32s} beyond the cheapest {paid.sum():6.1f}, of that moves {path.movement:5.1f} kWh")
            if name in ("perfect foresight", "holdcourse"):
                thick = 3.0 if name == "holdcourse" else 1.5
                field.step(np.arange(HOURS) + 0.5, SETTINGS[path.actions], where="mid", color=COLOURS[name], lw=thick)
        field.set(ylabel="setting (°C)", yticks=SETTINGS)
        field.grid(False)
        bills.set(xlabel="hour", ylabel="paid beyond the\ncheapest (kWh)", xlim=(0, HOURS))
        bills.legend(frameon=False, fontsize=12)
    return figure


def numbers() -> dict[str, str]:
    """The bills in kWh, and what was saved of what could be saved, as the page states them."""
    bills = {name: path.total for name, path in paths()[2].items()}
    ours, stay, best = bills["holdcourse"], bills["stay"], bills["perfect foresight"]
    saved = {"saved": f"{100 * (1 - ours / stay):.1f} %", "possible": f"{100 * (1 - best / stay):.1f} %"}
    return {"holdcourse": f"{ours:,.0f}", "stay": f"{stay:,.0f}", "foresight": f"{best:,.0f}"} | saved


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    if folder == Path(__file__).parent:
        sys.path.insert(0, str(folder.parents[1] / "tools"))
        import evidence

        evidence.put("start", numbers())
        evidence.write(evidence.load())
    with drawing():
        draw().savefig(folder / "start.svg", metadata={"Date": None}, facecolor="white")
