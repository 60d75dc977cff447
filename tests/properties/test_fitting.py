from __future__ import annotations

import math
import warnings

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from holdcourse.learning.fitting.points import standardised, subset
from holdcourse.learning.fitting.search import FitWarning, fit_kernel
from holdcourse.learning.history import History
from holdcourse.movement.problem import Problem

ANY_NUMBER = st.floats(-1e100, 1e100)
ROUND_NUMBER = st.integers(-20, 20).map(lambda k: k / 4)  # ties and duplicates


@st.composite
def measurements(draw, numbers=ANY_NUMBER, max_points=9):
    axes = draw(st.integers(1, 2))
    coordinates = draw(st.lists(st.tuples(*[ROUND_NUMBER] * axes), min_size=1, max_size=6, unique=True).map(np.array))
    points = draw(st.integers(1, max_points))
    dimension = draw(st.integers(0, 3))
    return (
        Problem(coordinates),
        draw(arrays(np.int64, points, elements=st.integers(0, len(coordinates) - 1))),
        draw(arrays(np.float64, (points, dimension), elements=numbers)),
        draw(arrays(np.float64, points, elements=numbers)),
    )


@given(measurements() | measurements(ROUND_NUMBER))
@settings(max_examples=40, deadline=None)
def test_any_finite_measurements_give_a_finite_fit(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # and nothing else
        fit = fit_kernel(*case, restarts=0)
    assert math.isfinite(fit.log_marginal_likelihood)
    assert 0 < fit.noise_std < math.inf
    assert math.isfinite(fit.prior_mean)
    assert all(0 < value < math.inf for value in fit.parameters.values())
    problem, actions, contexts, _ = case
    assert np.isfinite(fit.kernel.covariance(problem, actions, contexts)).all()


@given(measurements(ROUND_NUMBER), st.randoms(use_true_random=False))
@settings(max_examples=15, deadline=None)
def test_order_does_not_matter(case, random):
    problem, actions, contexts, y = case
    order = random.sample(range(len(y)), len(y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        one = fit_kernel(problem, actions, contexts, y, restarts=0)
        two = fit_kernel(problem, actions[order], contexts[order], y[order], restarts=0)
    assert_allclose(one.log_marginal_likelihood, two.log_marginal_likelihood, rtol=1e-4, atol=1e-2)


@given(arrays(np.float64, st.integers(1, 8), elements=ANY_NUMBER))
def test_standardising_can_be_undone(y):
    z, shift, scale, informative = standardised(y, None)
    assert_allclose(shift + scale * z, y, atol=1e-14 * np.abs(y).max() + 1e-149)
    if informative:
        assert_allclose(np.mean(z**2), 1.0, rtol=1e-6)


@given(measurements(ROUND_NUMBER, max_points=40), st.integers(2, 30), st.integers(0, 5))
def test_subset_has_the_size_asked_for_and_no_repetition(case, size, seed):
    problem, actions, contexts, y = case
    records = History(actions, contexts, np.arange(float(len(y))))
    chosen = subset(problem, records, size, np.random.default_rng(seed))
    different = len(np.unique(np.column_stack([actions, contexts]), axis=0))
    assert len(chosen) == (len(y) if different <= size else size - size % 2)
    assert len(np.unique(chosen.measurements)) == len(chosen)
