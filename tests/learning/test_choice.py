"""Which posterior `posterior` chooses, and that it says why."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.learning.kernels import Kernel
from holdcourse.learning.posteriors import posterior

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
    with pytest.raises(InvalidInput, match="leave out contexts"):
        posterior(PROBLEM, IN_TIME, method="temporal", **options)


def test_unknown_method():
    with pytest.raises(InvalidInput, match="method 'fast' is not known"):
        posterior(PROBLEM, IN_TIME, method="fast")


@pytest.mark.parametrize("options", [{}, {"contexts": [0.1, 0.2]}, {"method": "flat"}, {"method": "temporal"}])
@pytest.mark.parametrize("tolerance", [-0.1, 1.0, float("nan"), "small"])
def test_a_tolerance_that_is_no_share(options, tolerance):
    with pytest.raises(InvalidInput, match="tolerance must be a share of the prior variance"):
        posterior(hc.Problem([0.0, 1.0]), Kernel(RBF(1.0), Matern(1.0, nu=0.5)), tolerance=tolerance, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise_std": "little"}, "noise_std must be 0 or more, got 'little'"),
        ({"context_bounds": [[0, 1], [0]]}, "context_bounds must be numbers"),
        (
            {"prior_mean": lambda actions, context: [1.0, 2.0, 3.0]},
            r"prior_mean gave shape \(3,\); it must give \(2,\)",
        ),
    ],
)
def test_what_no_prior_is_made_of(options, message):
    with pytest.raises(InvalidInput, match=message):
        posterior(hc.Problem([0.0, 1.0]), Kernel(RBF(1.0), RBF(1.0)), **options).predict(0.1)


@pytest.mark.parametrize("method", ["exact", "flat"])
def test_no_contexts_at_all_are_no_error(method):
    post = posterior(hc.Problem([0.0, 1.0]), Kernel(RBF(1.0), RBF([1.0, 2.0])), method=method)
    assert [array.shape for array in post.predict_at([])] == [(0, 2), (0, 2)]


@pytest.mark.parametrize("method", ["exact", "flat", "auto"])
def test_the_empty_context_is_a_context(method):
    kernel = Kernel(RBF(1.0), RBF(1.0))
    post = posterior(hc.Problem([0.0, 0.5, 1.0]), kernel, method=method).condition(0, None, 1.0)
    expected = posterior(post.prior.problem, Kernel(RBF(1.0)), method="exact").condition(0, None, 1.0)
    np.testing.assert_allclose(post.predict(None), expected.predict(None), rtol=1e-9)
    np.testing.assert_array_equal(post.copy().predict(None), post.predict(None))
