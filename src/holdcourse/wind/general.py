"""The wind where there is no history: what holds nearly everywhere, in numbers that need not be right.

The wind grows with height by a power law until it levels off. It deviates from that by a profile that stays (the
site), one that lasts a day or two (weather systems) and one that lasts some hours (fronts, stability). All are smooth
in the logarithm of height. The profile that stays is how the site is learned as measurements come in.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import holdcourse as hc

Array: TypeAlias = NDArray[np.float64]

SHEAR = 0.2  # exponent of the power law, as in the normal wind profile of IEC 61400-1
LEVELS_OFF = 300.0  # m; above, the ground is hardly felt
SITE, SLOW, FAST = (1.5, None), (3.5, 30.0), (2.5, 8.0)  # deviation in m/s, and the hours that it lasts
HEIGHT_SCALE = 1.75  # logarithm of height over which deviations change
GAUGE = 0.3  # m/s, deviation of a measurement from an hour's mean


@dataclass(frozen=True, eq=False)
class GeneralWind:
    """Wind at a site that nothing is known of.

    Parameters
    ----------
    altitudes
        Metres, (n,).
    mean
        Wind speed expected in the middle of them, m/s; or one for each, (n,).
    """

    altitudes: Array
    mean: float | Array

    def __call__(self, hours: Array) -> Array:
        """The usual wind at k hours, (k, n)."""
        return np.broadcast_to(self._profile, (len(hours), len(self.altitudes)))

    @cached_property
    def _profile(self) -> Array:
        if np.ndim(self.mean) == 1:
            return np.asarray(self.mean, dtype=np.float64)
        felt = np.minimum(self.altitudes, LEVELS_OFF)
        middle = min(float(np.exp(np.log(self.altitudes).mean())), LEVELS_OFF)
        return np.asarray(self.mean * (felt / middle) ** SHEAR)

    def posterior(self, problem: hc.Problem) -> hc.Posterior:
        """The deviations from it, as a process over altitudes and time."""
        from sklearn.gaussian_process.kernels import Matern

        logs = np.log(self.altitudes)
        alike = np.exp(-0.5 * ((logs[:, None] - logs[None, :]) / HEIGHT_SCALE) ** 2)
        site, slow, fast = (
            hc.Kernel(alike, None if hours is None else Matern(hours, nu=0.5), deviation**2)
            for deviation, hours in (SITE, SLOW, FAST)
        )
        return hc.posterior(problem, site + slow + fast, noise_std=GAUGE, method="temporal")

    def describe(self) -> dict[str, Any]:
        """What it is, in JSON values."""
        return {"wind": "general", "usual": self._profile.round(9).tolist()}
