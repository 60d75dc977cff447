"""Cost models: from a context and the data so far to the cost vector that a rule sees.

`LowerBound` shows the lower confidence bounds of a posterior (GP-MD, CGP-LCB); `Mapped` does so for a cost that is a
function of what is learned; `KnownCosts` shows the true costs (MD-Known, MinC-Known). A model is mutable: it learns.

Examples
--------
>>> import holdcourse as hc
>>> from sklearn.gaussian_process.kernels import RBF
>>> belief = hc.posterior(hc.Problem([0.0, 0.5, 1.0]), hc.Kernel(RBF(0.5), RBF(0.3)))
>>> model = hc.costs.LowerBound(belief, width=2.0)
>>> model.estimate(0.2).costs.tolist()  # nothing is known: mean 0 less twice a deviation of 1
[-2.0, -2.0, -2.0]
>>> model.learn(1, 0.2, 3.0)  # the weight of the measurement
1.0
"""

from __future__ import annotations

from holdcourse.confidence import OutlierGuard, TheoryWidth
from holdcourse.costs.known import KnownCosts
from holdcourse.costs.lower_bound import REPORTED_OUTLIERS, Every, IntervalMap, LowerBound, Mapped
from holdcourse.costs.protocol import (
    CostModel,
    Costs,
    Estimate,
    ExpertCosts,
    ForecastCosts,
    Gains,
    OptimisticCosts,
    costs_with_optimism,
    maximises,
)
from holdcourse.named_arrays import Arrays

__all__ = [
    "REPORTED_OUTLIERS",
    "Arrays",
    "CostModel",
    "Costs",
    "Estimate",
    "Every",
    "ExpertCosts",
    "ForecastCosts",
    "Gains",
    "IntervalMap",
    "KnownCosts",
    "LowerBound",
    "Mapped",
    "OptimisticCosts",
    "OutlierGuard",
    "TheoryWidth",
    "costs_with_optimism",
    "maximises",
]
