"""
An airborne turbine over the North Sea
======================================

A SkySails kite can fly at any height between 10 and 750 m. It measures the wind only where it flies, and reeling in and
out costs energy. Is it worth changing altitude, and when?

Two years of real wind (NORA3 hindcast, MET Norway, CC BY 4.0), as `holdcourse demo` flies them: `wind-planner` against
the best altitude of the year before, at the physical price of moving and at the paper's, sixty times that.
"""

import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import numpy as np
from gallery import save

import holdcourse as hc
from holdcourse.wind.backtest.result import Backtest

FROM, TO = np.datetime64("2010-10-22"), np.datetime64("2010-11-03")  # the days shown in detail
NAMES = {"clairvoyant": "hindsight", "wind-planner": "wind-planner"}
COLOURS = {"clairvoyant": "#000000", "wind-planner": "#D55E00", "fixed": "#777777"}


def fly(movement: str) -> Backtest:
    kite, policies = hc.wind.machine("skysails"), ("fixed", "wind-planner")
    plan = hc.wind.Plan(machine=kite, movement=movement, begin="2009-01-01", policies=policies, what_if=())
    return hc.wind.run_backtest(hc.wind.bundled("all"), plan=plan).backtest


def show_days(axes: plt.Axes, found: Backtest) -> None:
    world, price = found.world, 1000 * found.world.climb  # Wh
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
    axes.set(ylabel="altitude, m", title=f"High in weak wind, low in storms (moving costs {price:.3g} Wh a metre)")


def show_gains(axes: plt.Axes, flights: dict[str, Backtest]) -> None:
    ends = []
    for style, found in flights.items():
        time, fixed = found.world.time, found.flights["fixed"].net
        for policy, name in NAMES.items():
            line, more = found.line(policy), np.cumsum(found.flights[policy].net - fixed) / 1000
            axes.plot(time, more, color=COLOURS[policy], ls=style)
            interval = "" if np.isnan(line.gain_low) else f" ({line.gain_low:+.1f} to {line.gain_high:+.1f})"
            words = f"{name}, {1000 * found.world.climb:.3g} Wh/m:\n{line.gain:+.1f} %{interval}"
            ends.append((more[-1], words, COLOURS[policy]))
    gap, last = 0.17 * np.ptp(axes.get_ylim()), -np.inf
    for height, words, colour in sorted(ends):
        last = max(height, last + gap)
        axes.text(time[-1] + np.timedelta64(5, "D"), last, words, color=colour, va="top").set_in_layout(False)
    axes.set(ylabel="net gain over fixed, MWh", xlim=(time[0], time[-1] + np.timedelta64(440, "D")))
    axes.set_xticks(np.arange("2009-01", "2011-02", 6, dtype="datetime64[M]").astype("datetime64[D]"))
    axes.set_title("Two years, at two prices (95 % intervals of many years)")


def main() -> plt.Figure:
    figure, (sky, gains) = plt.subplots(2, 1, figsize=(8.2, 8.2), height_ratios=[4, 3])
    show_days(sky, cheap := fly("physical"))
    gains.axvspan(FROM, TO, color="#56B4E9", alpha=0.2, lw=0)
    gains.axhline(0, color=COLOURS["fixed"], ls=":")
    show_gains(gains, {"-": cheap, "--": fly("paper")})
    sky.set_xticks(np.arange("2010-10-23", "2010-11-03", 2, dtype="datetime64[D]"))
    sky.xaxis.set_major_formatter(mdates.DateFormatter("%d %b"))
    gains.xaxis.set_major_formatter(mdates.ConciseDateFormatter(gains.xaxis.get_major_locator()))
    return figure


if __name__ == "__main__":
    save(main())
