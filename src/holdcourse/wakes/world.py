"""The rounds of a record as a world that any policy can be run in, and GP-MD in it."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import holdcourse as hc
from holdcourse.wakes.drift import Drift
from holdcourse.wakes.planning import PlannedEnergy
from holdcourse.wakes.table import EnergyTable

Array: TypeAlias = NDArray[np.float64]

SPEED_SCALE = 10.0  # m/s
TURN, SPEEDS = 10.0, (3.0, 14.0)  # of contexts that are listed: degrees, m/s
MEASURED = 0.05  # of the farm's rated energy of a round: the error of what is measured


class SteeringWorld:
    """The rounds of a record as a world: a setting costs what it makes less than no steering, kWh.

    Parameters
    ----------
    energy
        kWh of every setting in each round, (t, n).
    noise
        Relative error of the energy that is measured.
    alone
        What the wake model says of each round without steering, kWh, (t,): what was made is measured against that,
        since nobody can measure what a farm that steers would have made otherwise.
    """

    def __init__(self, problem: hc.Problem, energy: Array, noise: float, alone: Array) -> None:
        self.problem, self.energy, self.noise, self.alone = problem, energy, noise, alone

    def costs(self, t: int, context: Any) -> Array:
        """Return what every setting costs in a round, (n,)."""
        return np.asarray(self.energy[t, 0] - self.energy[t])

    def measure(self, t: int, context: Any, action: int, noise: float) -> float:
        """Return the cost of one of them as it is measured."""
        made = self.energy[t, action] * (1.0 + self.noise * noise)
        return float(self.alone[t] - made)


def around(contexts: Array) -> Array:
    """Return contexts for a Gaussian process: directions as points of a circle, and speeds beside them, (t, 3).

    Both are rounded, to `TURN` degrees and 1 m/s, so that the contexts are a list and a round costs the same for ever.
    """
    angle = np.radians(np.rint(contexts[:, 0] / TURN) * TURN % 360.0)
    speed = np.clip(np.rint(contexts[:, 1]), *SPEEDS)
    return np.column_stack([np.cos(angle), np.sin(angle), speed / SPEED_SCALE]).round(9) + 0.0


def gp_md_on(table: EnergyTable, drift: Drift, problem: hc.Problem) -> hc.Policy:
    """Return GP-MD whose prior mean is what the table expects; its contexts are those of `around`."""
    from sklearn.gaussian_process.kernels import RBF

    costs = PlannedEnergy(table, drift, problem).season_costs(1)  # one season for all: the residual is learned
    bins = len(table.directions)

    def usual(actions: Any, context: Any) -> Array:
        x, y, speed = np.reshape(context, -1).tolist()
        direction = np.degrees(np.arctan2(y, x)) % 360.0
        at = round(float(direction) * bins / 360.0) % bins
        return np.asarray(costs[at, int(np.abs(table.speeds - speed * SPEED_SCALE).argmin())])

    grid = np.meshgrid(np.arange(0.0, 360.0, TURN), np.arange(SPEEDS[0], SPEEDS[1] + 1), indexing="ij")
    listed = around(np.column_stack([each.ravel() for each in grid]))
    spread = float(np.abs(costs).max()) / 20  # the model is wrong by a part of what steering gains
    kernel = hc.Kernel(RBF(40.0), RBF([0.5, 0.5, 0.8]), spread**2)
    noise = float(table.planned.max()) * drift.hours * MEASURED
    return hc.gp_md(problem, kernel=kernel, noise_std=noise, prior_mean=usual, contexts=listed)
