"""Which posterior `posterior` chooses, and that it says why."""

from __future__ import annotations

import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.gp import posterior
from holdcourse.kernels import Kernel

PROBLEM = hc.Problem([0.0, 1.0, 2.0])
IN_TIME = Kernel(RBF(1.0), Matern(3.0, nu=1.5))


@pytest.mark.parametrize(
    ("kernel", "options", "method", "reason"),
    [
        (IN_TIME, {"time": True}, "temporal", "contexts are declared to be time"),
        (IN_TIME, {"method": "temporal"}, "temporal", "asked for"),
        (IN_TIME, {}, "exact", "no contexts are declared"),  # a Matern kernel alone does not make contexts a clock
        (IN_TIME, {"context_bounds": (0, 10), "time": True}, "flat", "weights cover"),
        (Kernel(RBF(1.0), RBF(3.0)), {"time": True}, "exact", "no contexts are declared"),
        (Kernel(RBF(1.0), RBF(3.0)), {"contexts": [1.0, 2.0]}, "flat", "weights cover"),
        (Kernel(RBF(1.0)), {}, "flat", "weights cover"),
    ],
)
def test_choice_and_its_reason(kernel, options, method, reason):
    post = posterior(PROBLEM, kernel, **options)
    assert post.method == method
    assert reason in post.reason
    assert method in repr(post)


@pytest.mark.parametrize("options", [{"forgetting": 0.99}, {"contexts": [1.0]}, {"context_bounds": (0, 1)}])
def test_temporal_takes_no_context_options(options):
    with pytest.raises(InvalidInput, match="leave these options out"):
        posterior(PROBLEM, IN_TIME, method="temporal", **options)


def test_unknown_method():
    with pytest.raises(InvalidInput, match="method 'fast' is not known"):
        posterior(PROBLEM, IN_TIME, method="fast")
