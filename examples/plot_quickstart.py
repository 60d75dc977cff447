"""
Hold course unless it pays to change
====================================

You run an air handler. Every hour the weather sets what each supply temperature would cost you, but you only measure
the one you run, and every change wears the valves. Which temperature should run now?

Staying pays for every change of the weather. Running to whatever looks cheapest pays for every move. `hc.recommended`
knows no cost at first either; it weighs what a better setting would save against what it costs to go there.
"""

import matplotlib.pyplot as plt
import numpy as np
from gallery import save
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc

DAYS, START = 14, 6
BELIEFS = {"kernel": hc.Kernel(RBF(5.0), RBF(5.0), variance=20.0), "noise_std": 0.3, "prior_mean": 4.0}
COLOURS = {"recommended": "#0072B2", "stay": "#777777", "chase the cheapest": "#D55E00"}


class AirHandler:
    """Thirteen supply temperatures; a degree of change costs 0.4 kWh."""

    problem = hc.Problem(np.arange(12.0, 25.0), scale=0.4)

    def costs(self, hour, outdoor):
        """KWh of this hour at every setting: the warmer it is outside, the cooler the air should be."""
        return 2.0 + 0.1 * (self.problem.actions[:, 0] - (29.0 - 0.6 * float(outdoor[0]))) ** 2

    def measure(self, hour, outdoor, action, noise):
        """The meter, with its noise."""
        return float(self.costs(hour, outdoor)[action] + 0.3 * noise)


def main() -> plt.Figure:
    hours, random = np.arange(24 * DAYS), np.random.default_rng(0)
    front = 3.0 * np.cumsum(random.standard_normal(len(hours))) / np.sqrt(len(hours))
    outdoor = 18.0 + 5.0 * np.sin(2 * np.pi * (hours - 9) / 24) + front + 1.2 * random.standard_normal(len(hours))
    world = AirHandler()
    learning = BELIEFS | {"context_bounds": (outdoor.min(), outdoor.max())}
    runs = {
        "chase the cheapest": hc.simulate(hc.cgp_lcb(world.problem, **learning), world, outdoor, START),
        "recommended": hc.simulate(hc.recommended(world.problem, **learning), world, outdoor, START),
        "stay": hc.simulate(hc.stationary(world.problem), world, outdoor, START),
    }
    costs, best = runs["stay"].true_costs(0), runs["stay"].optima[0].actions  # what perfect hindsight would have done
    least = np.cumsum(costs[hours, best] + world.problem.move_costs(np.append(START, best[:-1]), best))

    figure, (field, bills) = plt.subplots(2, 1, figsize=(10, 7.5), sharex=True, height_ratios=[3, 2])
    look = {"cmap": plt.get_cmap("Greys", 10), "vmin": 0, "vmax": 20, "extent": (0, DAYS, 11.5, 24.5)}
    image = field.imshow(costs.T, aspect="auto", origin="lower", **look)
    figure.colorbar(image, ax=[field, bills], label="what a setting costs, kWh per hour", extend="max", shrink=0.6)
    for name, run in runs.items():
        width = 0.9 if name == "chase the cheapest" else 2.2
        field.step(hours / 24, world.problem.actions[run.actions, 0], where="post", color=COLOURS[name], lw=width)
        above = np.cumsum(run.service_costs + run.movement_costs) - least
        bills.plot((hours + 1) / 24, above, color=COLOURS[name])
        place = -26 if name == "stay" else 4
        bills.text(DAYS - 0.2, above[-1] + place, f"{name}: {above[-1]:.0f}", color=COLOURS[name], ha="right")
    field.grid(False)
    field.set(ylabel="supply temperature, °C", title="Follow the weather, but not every whim of it")
    bills.set(xlabel="day", ylabel="paid above hindsight, kWh", xlim=(0, DAYS), ylim=(0, None))
    return figure


if __name__ == "__main__":
    save(main())
