"""The confidence bounds of the theory on 200 functions of bounded norm."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.rkhs import largest_ratios
from sklearn.gaussian_process.kernels import RBF, Matern

import holdcourse as hc
from holdcourse.learning.kernels import Kernel

pytestmark = pytest.mark.slow

FUNCTIONS, ROUNDS, DELTA = 200, 150, 0.1
LINE, CONTEXTS = hc.Problem(np.linspace(0.0, 1.0, 20)), np.linspace(0.0, 1.0, 15)
KERNELS = {"smooth": Kernel(RBF(0.2), RBF(0.2)), "rough": Kernel(Matern(0.3, nu=1.5), Matern(0.5, nu=0.5), 2.0)}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("regularisation", [None, 1.0])
@pytest.mark.parametrize("method", ["exact", "flat"])
def test_bounds_hold_everywhere(name, regularisation, method, record_property):
    rng = np.random.default_rng(0)
    settings = {"norm": 2.0, "delta": DELTA, "noise_std": 0.3, "regularisation": regularisation, "rounds": ROUNDS}
    ratios = np.array(
        [
            largest_ratios(LINE, KERNELS[name], CONTEXTS, **settings, rng=rng, method=method, greedy=bool(i % 2))
            for i in range(FUNCTIONS)
        ]
    )
    held = (ratios[:, 0] <= 1.0).mean()
    record_property(
        f"bounds of {name} functions, {method}, lambda {regularisation or 'of the noise'}",
        f"held for {held:.1%} of {FUNCTIONS}; largest |mu - f| / (beta sigma) {ratios[:, 0].max():.2f}",
    )
    assert held >= 1.0 - DELTA
    if regularisation is None:  # B deviations alone would not do: there is something to hold
        assert (ratios[:, 1] > settings["norm"]).mean() > 0.5
