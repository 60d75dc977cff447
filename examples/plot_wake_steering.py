"""
How far must the nacelles of a wind farm turn?
==============================================

Wake steering turns turbines out of the wind so that their wakes miss others. Every degree wears the yaw drive. How much
energy is there to gain with how much turning, if decisions know the past only?

One year at La Haute Borne (ENGIE, Etalab open licence; bundled), four turbines, ten-minute decisions: FLORIS' lookup
table, the same with a hysteresis or a rate limit, and the wake planner at nine prices of a degree. On the right, which
way the planner holds the turbines when the wind comes along the row.
"""

import matplotlib.pyplot as plt
import numpy as np
from gallery import save

import holdcourse as hc
from holdcourse.wakes.report.pictures import draw_front

SHOWN = ("lookup", "hysteresis", "rate-limit", "wake-planner")


def show_offsets(axes: plt.Axes, found: hc.wakes.Backtest) -> None:
    """How long each turbine is held at which offset while the wind comes along the row."""
    run, farm = found.runs["wake-planner"], found.table.farm
    direction = found.rounds.record.direction[found.rounds.first]
    along = (np.abs((direction - 158 + 90) % 180 - 90) < 15) & (run.offsets != 0).any(axis=1)
    values = np.arange(-25, 30, 5)
    for k in range(len(farm)):
        share = [np.mean(run.offsets[along, k] == value) for value in values]
        axes.barh(values, np.array(share) * 0.9, left=k, height=4, color="#c4455d", alpha=0.8)
    axes.set(xticks=range(len(farm)), xticklabels=farm.turbines, ylabel="offset, degrees", yticks=values)
    axes.set_title("Share of steered time\nby offset, wind along the row")


def main() -> plt.Figure:
    figure, (front, offsets) = plt.subplots(1, 2, figsize=(13, 5.4), width_ratios=[5, 3], layout="constrained")
    found = hc.wakes.backtest(hc.wakes.bundled_table(), hc.wakes.bundled_record(), hc.wakes.Study(policies=SHOWN))
    draw_front(found, front)
    show_offsets(offsets, found)
    return figure


if __name__ == "__main__":
    save(main())
