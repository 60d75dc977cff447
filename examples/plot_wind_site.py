"""
An airborne turbine over the North Sea
======================================

Your turbine can fly at any height between 10 and 750 m. It measures the wind only where it flies, and reeling in and
out costs energy. Is it worth changing altitude, and when?

Half a year of real wind (NORA3 hindcast, bundled), flown as `holdcourse demo` flies it: the policy `wind-planner`,
which has learned from the two and a half years before, against the altitude that made most in those. Once with a metre
of altitude at 0.36 kWh, as the paper prints it and as in the demo, and once at a sixtieth of that.
"""

import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import numpy as np
from gallery import save

import holdcourse as hc
from holdcourse.wind.backtest.result import Backtest
from holdcourse.wind.backtest.run import Plan, run_backtest

FROM, TO = np.datetime64("2010-10-22"), np.datetime64("2010-11-03")  # the days shown in detail
NAMES = {"clairvoyant": "hindsight", "wind-planner": "wind-planner"}
COLOURS = {"clairvoyant": "#000000", "wind-planner": "#D55E00", "fixed": "#777777"}


def fly(movement: str) -> Backtest:
    plan = Plan(movement=movement, policies=("fixed", "wind-planner"), what_if=())
    return run_backtest(hc.wind.bundled("test"), history=hc.wind.bundled("history"), plan=plan).backtest


def show_days(axes: plt.Axes, found: Backtest) -> None:
    world = found.world
    days = (world.time >= FROM) & (world.time < TO)
    shading = {"cmap": plt.get_cmap("Blues", 11), "vmin": 0, "vmax": 22, "shading": "nearest"}
    image = axes.pcolormesh(world.time[days], world.altitudes, world.speed[days].T, **shading)
    axes.figure.colorbar(image, ax=axes, label="wind speed, m/s", pad=0.01)
    for policy, name in NAMES.items():
        flown = world.altitudes[found.flights[policy].actions[days]]
        axes.step(world.time[days], flown, where="mid", color=COLOURS[policy], label=name)
    axes.axhline(world.altitudes[found.flights["fixed"].actions[-1]], color=COLOURS["fixed"], ls=":", label="fixed")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=3, frameon=False)
    axes.grid(False)
    axes.set(ylabel="altitude, m", title="High in weak wind, low in strong wind: twelve days at 0.006 kWh a metre")


def show_gains(axes: plt.Axes, found: Backtest, price: str, style: str, heights: tuple[float, float]) -> None:
    time, fixed = found.world.time, found.flights["fixed"].net
    lines = {line.policy: line for line in found.lines}
    for (policy, name), height in zip(NAMES.items(), heights, strict=True):
        line, colour = lines[policy], COLOURS[policy]
        axes.plot(time, np.cumsum(found.flights[policy].net - fixed) / 1000, color=colour, ls=style)
        interval = "" if np.isnan(line.gain_low) else f" ({line.gain_low:+.1f} to {line.gain_high:+.1f})"
        words = f"{name}, {price}: {line.gain:+.1f} %{interval}"
        axes.text(time[-1], height, words, color=colour, ha="right")


def main() -> plt.Figure:
    figure, (sky, gains) = plt.subplots(2, 1, figsize=(11, 8), height_ratios=[4, 3])
    cheap, dear = fly("physical"), fly("paper")
    show_days(sky, cheap)
    gains.axvspan(FROM, TO, color="#56B4E9", alpha=0.2, lw=0)
    gains.axhline(0, color=COLOURS["fixed"], ls=":")
    show_gains(gains, cheap, "0.006 kWh a metre", "-", heights=(27.0, 11.5))
    show_gains(gains, dear, "0.36 kWh a metre", "--", heights=(2.5, -3.4))
    gains.set(ylabel="net gain over fixed, MWh", ylim=(-5, 31), xlim=(cheap.world.time[0], cheap.world.time[-1]))
    gains.set_title("The half year, at both prices (95 % intervals of the gain over many years)")
    for axes in (sky, gains):
        axes.xaxis.set_major_formatter(mdates.ConciseDateFormatter(axes.xaxis.get_major_locator()))
    return figure


if __name__ == "__main__":
    save(main())
