"""A wake model of a few lines, quick enough to try every joint vector: wakes are Gaussian and leave askew."""

from __future__ import annotations

import itertools

import numpy as np

from holdcourse.wakes.farm import Farm

OFFSETS = (-20.0, 0.0, 20.0)


def farm_at(x, y, name="toy"):
    x, y = np.array(x, dtype=float), np.array(y, dtype=float)
    return Farm(name, tuple(f"T{k + 1}" for k in range(len(x))), x, y, np.full(len(x), 100.0))


class ToyModel:
    """Every wake weakens the wind behind it; a yawed rotor loses power and throws its wake aside."""

    turbulence = 0.06

    def __init__(self, farm, reach=np.inf):
        self.farm, self.reach = farm, reach
        self.asked = 0

    def kinds(self, turbines):
        return (0,) * np.size(turbines)

    def part(self, turbines):
        farm = self.farm
        names = tuple(farm.turbines[k] for k in turbines)
        return ToyModel(Farm(farm.name, names, farm.x[turbines], farm.y[turbines], farm.diameter[turbines]), self.reach)

    def power(self, directions, speeds, offsets):
        yaw = np.radians(np.atleast_2d(np.asarray(offsets, dtype=float)))
        self.asked += len(yaw)
        d, u = (np.broadcast_to(np.asarray(each, dtype=float), len(yaw)) for each in (directions, speeds))
        blows = np.radians(270.0 - d)[:, None]
        along = self.farm.x * np.cos(blows) + self.farm.y * np.sin(blows)
        across = -self.farm.x * np.sin(blows) + self.farm.y * np.cos(blows)
        size = self.farm.diameter
        left = np.ones(yaw.shape)
        for i in range(len(self.farm)):  # every wake weakens those behind it, whatever stands between
            behind = (along - along[:, i : i + 1]) / size[i]
            middle = across[:, i : i + 1] - 0.25 * yaw[:, i : i + 1] * np.maximum(behind, 0.0) * size[i]
            width = 0.35 + 0.04 * np.maximum(behind, 0.0)
            deep = 0.5 * np.cos(yaw[:, i : i + 1]) ** 2 / (1.0 + 0.15 * np.maximum(behind, 0.0)) ** 2
            deficit = deep * np.exp(-0.5 * ((across - middle) / (width * size[i])) ** 2)
            left *= np.where((behind > 0.1) & (behind < self.reach), 1.0 - deficit, 1.0)
        wind = np.minimum(u[:, None] * left, 12.0)
        return 2000.0 * (wind / 12.0) ** 3 * np.cos(yaw) ** 1.88

    def best_offsets(self, directions, speeds, most):
        """By brute force: every joint vector."""
        vectors = np.array(
            list(itertools.product([each for each in OFFSETS if abs(each) <= most], repeat=len(self.farm)))
        )
        found = np.empty((len(directions), len(self.farm)))
        for k, (direction, speed) in enumerate(zip(directions, speeds, strict=True)):
            made = self.power(direction, speed, vectors).sum(axis=1)
            made[~vectors.any(axis=1)] += 1e-6  # nobody turns for nothing
            found[k] = vectors[int(np.argmax(made))]
        return found
