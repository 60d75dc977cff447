"""
What is a forecast worth, and what does a wrong one cost?
=========================================================

Orders come in campaigns, short and long. Each runs cheapest at its own setting, and going there takes time and
material. When one begins you cannot tell how long it will last. Your planner sends a forecast of eight hours; should
you believe it? `ask(context, forecast=...)` does so as far as past ones were right: good ones save a quarter of the
bill, useless ones cost nothing. Blind trust saves more while most are right, and doubles the bill when none is.
"""

import matplotlib.pyplot as plt
import numpy as np
from gallery import save

import holdcourse as hc

HOURS, AHEAD, SETTINGS = 400, 8, 11
WRONG = np.array([0.0, 0.15, 0.3, 0.5, 0.75, 1.0])
COLOURS = {"ignore": "#000000", "robust": "#0072B2", "trust": "#D55E00"}
PROBLEM = hc.Problem(np.linspace(0.0, 1.0, SETTINGS), scale=6.0)


def campaigns(random: np.random.Generator) -> np.ndarray:
    """The setting that each hour would like to have: short and long campaigns in random order."""
    wishes: list[float] = []
    while len(wishes) < HOURS + AHEAD:
        wishes += [float(random.choice(PROBLEM.actions[:, 0]))] * int(random.choice([2, 2, 2, 20]))
    return np.array(wishes[: HOURS + AHEAD])


def costs(wish: float) -> np.ndarray:
    """What each setting costs in an hour that would like to have another."""
    return 3.0 * np.abs(PROBLEM.actions[:, 0] - wish)


def drive(wishes: np.ndarray, forecasts: str, wrong: float, seed: int) -> tuple[np.ndarray, float]:
    """The settings taken and the bill, when a share `wrong` of the forecasts says anything."""
    random, actions = np.random.default_rng(seed), []
    policy = hc.planner_known(PROBLEM, context_scale=0.1, forecasts=forecasts)
    controller = hc.Controller(policy, start_index=5, seed=seed)
    for t in range(HOURS):
        told = wishes[t + 1 : t + 1 + AHEAD]
        if random.random() < wrong:
            told = random.choice(PROBLEM.actions[:, 0], AHEAD)
        decision = controller.ask(wishes[t], forecast=told, costs=costs(wishes[t]))
        controller.tell(decision.id, None)
        actions.append(decision.action)
    bill = hc.price_path(actions, np.array([costs(wish) for wish in wishes[:HOURS]]), PROBLEM, 5)
    return bill.actions, bill.total / HOURS


def main() -> plt.Figure:
    wishes = campaigns(np.random.default_rng(4))
    paths, bills = {}, {}
    paths["ignore"], bills["ignore"] = drive(wishes, "ignore", 0.0, 0)
    for forecasts in ("robust", "trust"):
        runs = [drive(wishes, forecasts, wrong, 0) for wrong in WRONG]
        paths[forecasts], bills[forecasts] = runs[0][0], [bill for _, bill in runs]

    figure, (course, worth) = plt.subplots(1, 2, figsize=(13, 5), width_ratios=[1.6, 1])
    shown = slice(200, 300)
    course.step(range(100), wishes[shown], where="mid", color="#BBBBBB", lw=5, label="what the campaign would like")
    for name, label in (("ignore", "without forecast"), ("robust", "with a good forecast")):
        course.step(range(100), PROBLEM.actions[paths[name][shown], 0], where="mid", color=COLOURS[name], label=label)
    course.set(xlabel="hour", ylabel="setting", ylim=(-0.05, 1.25))
    course.set_title("A forecast tells which campaigns are worth a move")
    course.legend(loc="upper left", ncols=3, frameon=False, fontsize=10)
    worth.axhline(bills["ignore"], color=COLOURS["ignore"], ls="--")
    worth.text(100, bills["ignore"] - 0.01, "no forecast", color=COLOURS["ignore"], ha="right", va="top")
    worth.text(13, bills["robust"][1] + 0.01, "robust", color=COLOURS["robust"], ha="right")
    for name in ("robust", "trust"):
        worth.plot(100 * WRONG, bills[name], color=COLOURS[name], marker="o")
    worth.text(86, bills["trust"][-1], "trust blindly", color=COLOURS["trust"], ha="right", va="top")
    worth.set(xlabel="wrong forecasts, %", ylabel="bill per hour", title="Trust has to be earned", ylim=(0, None))
    return figure


if __name__ == "__main__":
    save(main())
