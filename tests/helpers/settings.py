"""The two settings of the paper, as problems and kernels, and a smooth function to measure."""

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from holdcourse.learning.kernels import Kernel, zscore
from holdcourse.movement.grid import grid
from holdcourse.movement.problem import Problem


def synthetic(side=20, length_scale=0.2):
    axis = np.linspace(0.0, 1.0, side)
    return Problem(grid(x=axis, y=axis)), Kernel(RBF(length_scale), RBF(length_scale))


def wind():
    altitudes, hours = np.linspace(10.0, 750.0, 25), np.arange(24.0)
    (height, heights), (hour, day) = zscore(altitudes), zscore(hours)
    return Problem(altitudes), Kernel(RBF(3.67), RBF(3.67), 6.85, height, heights, hour, day), hours


def smooth_function(problem, rng, length_scale=0.2, waves=300):
    """One draw from (nearly) the squared exponential prior: f(action, context number)."""
    frequencies = rng.normal(size=(problem.actions.shape[1] + 1, waves)) / length_scale
    phases, heights = rng.uniform(0, 2 * np.pi, waves), rng.normal(size=waves) * np.sqrt(2 / waves)
    return lambda action, context: float(
        np.cos(np.append(problem.actions[action], context) @ frequencies + phases) @ heights
    )
