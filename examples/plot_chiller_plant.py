"""
A chiller plant whose machines do not like to be started
========================================================

Two small chillers and a big one cool a building. The outdoor temperature decides which of them are cheapest, and it
changes every hour; but starting a chiller costs energy and wear, while stopping it costs next to nothing. How often
should you switch? (The plant is that of `chiller_plant.toml`; what each set draws has to be learned.)
"""

import tomllib
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from gallery import save
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc

PLANT = tomllib.loads(Path(__file__).with_name("chiller_plant.toml").read_text())
DAYS = 20
NAMES = ("always the cheapest", "recommended", "hindsight", "best one set")
COLOURS = dict(zip(NAMES, ("#D55E00", "#0072B2", "#000000", "#777777"), strict=True))


class Plant:
    """What each set of chillers draws, by outdoor temperature."""

    temperatures, table = np.array(PLANT["contexts"]["values"]), np.array(PLANT["costs"]["table"])
    problem = hc.Problem(metric=PLANT["movement"]["matrix"], directed=True, labels=PLANT["actions"]["labels"])

    def costs(self, hour, outdoor):
        """KWh of this hour with every set."""
        return np.array([np.interp(outdoor[0], self.temperatures, column) for column in self.table.T])

    def measure(self, hour, outdoor, action, noise):
        """The meter of the set that runs."""
        return float(self.costs(hour, outdoor)[action] + PLANT["costs"]["noise_std"] * noise)


def main() -> plt.Figure:
    plant, hours = Plant(), np.arange(24 * DAYS)
    random = np.random.default_rng(1)
    warm_spell = 2.5 * np.sin(2 * np.pi * hours / (24 * 7)) + 0.9 * random.standard_normal(len(hours))
    outdoor = np.clip(22.0 - 6.0 * np.cos(2 * np.pi * (hours - 3) / 24) + warm_spell, 14, 35)
    learning = {"kernel": hc.Kernel(RBF(1.5), RBF(6.0), variance=3000.0), "noise_std": 2.0, "prior_mean": 90.0}
    learning["context_bounds"] = (14, 35)
    chase = hc.simulate(hc.cgp_lcb(plant.problem, **learning), plant, outdoor)
    ours = hc.simulate(hc.recommended(plant.problem, **learning), plant, outdoor)
    costs, best = ours.true_costs(0), ours.optima[0]
    alone = int(np.argmin(costs.sum(axis=0) + plant.problem.distances[0]))
    one = hc.price_path(np.full(len(hours), alone), costs, plant.problem, 0)
    bills = dict(zip(COLOURS, (chase, ours, best, one), strict=True))

    figure = plt.figure(figsize=(12, 6.5))
    days, bars = figure.subfigures(1, 2, width_ratios=[2.1, 1])
    weather, sets = days.subplots(2, 1, sharex=True, height_ratios=[1, 1.8])
    weather.plot(hours / 24, outdoor, color="#444444", lw=1.5)
    weather.set(ylabel="outdoor, °C", title="Much the same cooling, with fewer chillers started")
    for name, shift in (("always the cheapest", 0.12), ("recommended", 0.0), ("hindsight", -0.12)):
        thin = 1.3 if name == "always the cheapest" else 2.4
        sets.step(hours / 24, bills[name].actions + shift, where="post", color=COLOURS[name], lw=thin, label=name)
    sets.set(yticks=range(5), yticklabels=plant.problem.labels, ylabel="chillers that run", xlabel="day")
    sets.set(xlim=(DAYS - 5, DAYS), ylim=(-0.5, 4.9))
    sets.legend(loc="upper left", ncols=3, frameon=False, fontsize=10)
    panel = bars.subplots()
    for row, (name, bill) in enumerate(bills.items()):
        panel.barh(row, bill.service / DAYS, color=COLOURS[name], alpha=0.45)
        panel.barh(row, bill.movement / DAYS, left=bill.service / DAYS, color=COLOURS[name])
        label = f"{name}: {bill.total / DAYS:.0f}, starts {bill.movement / DAYS:.0f}"
        panel.text(20, row, label, va="center", fontsize=10)
    panel.set(yticks=[], xlabel="kWh per day; dark: starting chillers", title=f"The bill of {DAYS} days")
    return figure


if __name__ == "__main__":
    save(main())
