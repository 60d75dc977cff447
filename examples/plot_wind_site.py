"""
An airborne turbine over the North Sea
======================================

Your turbine can fly at any height between 50 and 500 m. It measures the wind only where it flies, and reeling in and
out costs energy. Is it worth changing altitude, and when?

Eight weeks of real wind (NORA3 hindcast, bundled), with a metre of altitude priced by physics (0.006 kWh). The kernel,
a profile that stays plus weather that forgets within a day, was fitted once to three months of the years before.
"""

import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import numpy as np
from gallery import save
from sklearn.gaussian_process.kernels import RBF, Matern

import holdcourse as hc
from holdcourse.wind.world import wind_world

ALTITUDES = np.linspace(50.0, 500.0, 10)
KERNEL = hc.Kernel(RBF(242.0), variance=0.94) + hc.Kernel(RBF(648.0), Matern(17.6, nu=0.5), variance=9.86)
SHOWN = slice(24 * 21, 24 * 33)  # twelve of the days


def main() -> plt.Figure:
    past = hc.wind.bundled("history").onto(ALTITUDES)
    wind = hc.wind.bundled("test").onto(ALTITUDES).between("2010-10-01", "2010-11-26")
    world = wind_world(wind.time, ALTITUDES, wind.speed, movement="physical")
    fixed = int(np.argmax(world.curve.power(past.speed).mean(axis=0)))  # what an engineer would choose without control
    hours = np.arange(len(wind.time), dtype=float)
    policy = hc.recommended(
        world.problem,
        time=True,
        kernel=KERNEL,
        noise_std=0.1,
        prior_mean=past.speed.mean(axis=0).tolist(),
        interval_map=world.energy_costs,
    )
    ours = hc.simulate(policy, world, hours, start=fixed)
    seeing = hc.simulate(hc.md_known(world.problem), world, hours, start=fixed)
    best = ours.optima[0]
    fixed_net = world.energy[:, fixed]

    figure, (sky, gains) = plt.subplots(2, 1, figsize=(11, 7.5), height_ratios=[3, 2])
    shading = {"cmap": plt.get_cmap("Blues", 11), "vmin": 0, "vmax": 22, "shading": "nearest"}
    image = sky.pcolormesh(wind.time[SHOWN], ALTITUDES, wind.speed[SHOWN].T, **shading)
    figure.colorbar(image, ax=sky, label="wind speed, m/s", pad=0.01)
    for actions, colour, name in ((best.actions, "#000000", "hindsight"), (ours.actions, "#D55E00", "recommended")):
        sky.step(wind.time[SHOWN], ALTITUDES[actions[SHOWN]], where="mid", color=colour, label=name)
    sky.axhline(ALTITUDES[fixed], color="#777777", lw=1.5, label="fixed", ls="--")
    sky.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=3, frameon=False)
    sky.grid(False)
    sky.set(ylabel="altitude, m", title="High in weak wind, low in strong wind")
    for actions, colour, name in (
        (best.actions, "#000000", "hindsight"),
        (seeing.actions, "#009E73", "mirror descent that sees the wind everywhere"),
        (ours.actions, "#D55E00", "recommended"),
    ):
        way = world.problem.move_costs(np.append(fixed, actions[:-1]), actions)
        gain = np.cumsum(world.energy[np.arange(len(hours)), actions] - way - fixed_net)
        share = 100 * gain[-1] / fixed_net.sum()
        gains.plot(wind.time, gain / 1000, color=colour, label=f"{name}: {share:+.1f} %")
    gains.axvspan(wind.time[SHOWN][0], wind.time[SHOWN][-1], color="#56B4E9", alpha=0.2, lw=0)
    gains.axhline(0, color="#777777", lw=1.5, ls="--")
    gains.set(ylabel="net gain over fixed, MWh", xlim=(wind.time[0], wind.time[-1]))
    gains.legend(loc="upper left", frameon=False)
    for axes in (sky, gains):
        axes.xaxis.set_major_formatter(mdates.ConciseDateFormatter(axes.xaxis.get_major_locator()))
    return figure


if __name__ == "__main__":
    save(main())
