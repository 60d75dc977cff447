"""What is knowing more worth? The same years flown with a lidar, with forecasts, and with both.

The lidar measures the wind at every altitude after each round. The forecast says the wind of the rounds to come with
an error of stated size, which grows with how long before it was said; errors of times and altitudes that are near each
other are alike. A forecast is trusted by the share of the variance that it removes, as the policy does in operation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import InvalidInput

Array: TypeAlias = NDArray[np.float64]

MEMORY = 6.0  # hours over which the error of a forecast lasts
REACH = 0.7  # in the logarithm of height: errors at 100 m and 200 m go together by 0.61
VARIANTS = ("lidar", "forecast", "both")


@dataclass(frozen=True)
class Skill:
    """How wrong a forecast is: standard deviation in m/s, for the next hour and a day ahead, straight in between.

    The default is assumed, not fitted: state what your forecaster says of its wind at the heights flown.
    """

    first: float = 1.4
    day: float = 2.2

    def __post_init__(self) -> None:
        if not 0 < self.first <= self.day < math.inf:
            raise InvalidInput(
                f"forecast_error={self.first:g},{self.day:g}: give the error of the next hour and that of a day ahead "
                "in m/s, the second not below the first"
            )

    def errors(self, rounds: int, step: float) -> Array:
        """Return the deviation of a forecast for the present round and those after it, m/s, (rounds,)."""
        lead = 1.0 + step * np.arange(rounds)
        return np.asarray(self.first + (self.day - self.first) * (lead - 1.0) / 23.0)

    def wrong(self, altitudes: Array, rounds: int, step: float, seed: int) -> Array:
        """Draw what is wrong with the forecasts of every round, of deviation 1, (rounds, n)."""
        heights = np.log(altitudes)
        alike = np.exp(-0.5 * ((heights[:, None] - heights[None, :]) / REACH) ** 2) + 1e-9 * np.eye(len(heights))
        root, random = np.linalg.cholesky(alike), np.random.default_rng(seed)
        drawn = random.standard_normal((rounds, len(heights))) @ root.T
        keep = math.exp(-step / MEMORY)
        fresh = math.sqrt(1 - keep * keep)
        for k in range(1, rounds):
            drawn[k] = keep * drawn[k - 1] + fresh * drawn[k]
        return np.asarray(drawn)

    @property
    def words(self) -> str:
        """The skill in words."""
        assumed = " (assumed; state yours)" if self == Skill() else ""
        return f"forecasts with an error of {self.first:g} m/s an hour ahead and {self.day:g} m/s a day ahead{assumed}"
