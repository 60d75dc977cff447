"""Length scales of functions drawn from a Gaussian process must be found again."""

from __future__ import annotations

import math

import numpy as np
import pytest

from holdcourse.learning.fitting.search import fit_kernel
from holdcourse.learning.posteriors import posterior
from holdcourse.movement.problem import Problem

SEEDS = range(30)
AXIS = np.linspace(0, 1, 20)
PROBLEM = Problem(np.stack([axis.ravel() for axis in np.meshgrid(AXIS, AXIS)], axis=1))

pytestmark = pytest.mark.slow


def gp_sample(seed, scales, noise, points=200):
    rng = np.random.default_rng(seed)
    actions, contexts = rng.integers(PROBLEM.n, size=points), rng.random(points)
    inputs = np.column_stack([PROBLEM.actions[actions], contexts]) / scales
    covariance = np.exp(-0.5 * ((inputs[:, None] - inputs) ** 2).sum(axis=2))
    cost = np.linalg.cholesky(covariance + 1e-10 * np.eye(points)) @ rng.standard_normal(points)
    return actions, contexts, 7.0 + 3.0 * (cost + noise * rng.standard_normal(points))


def within(fit, scales):
    found = np.append(fit.kernel.action.length_scale, fit.kernel.context.length_scale)
    return bool(np.all(np.abs(np.log(found / scales)) < math.log(1.5)))


@pytest.mark.parametrize("noise", [0.01, 0.05])
@pytest.mark.parametrize("scales", [(0.2, 0.2, 0.2), (0.2, 0.4, 0.3), (0.5, 0.3, 1.0)])
def test_all_three_length_scales_within_a_factor_of_one_and_a_half(scales, noise):
    hits = sum(within(fit_kernel(PROBLEM, *gp_sample(seed, scales, noise)), scales) for seed in SEEDS)
    assert hits >= 0.9 * len(SEEDS)


def test_a_fitted_posterior_knows_noise_and_its_own_errors_as_measurements_arrive():
    """Its kernel has a part that all actions share, so its length scales are others; what it predicts is not."""
    scales = (0.2, 0.4, 0.3)
    for seed in range(5):
        actions, contexts, y = gp_sample(seed, scales, 0.05, points=360)
        post = posterior(PROBLEM, "auto")
        for record in zip(actions[:320], contexts[:320], y[:320], strict=True):
            post.condition(*record)
        assert 0.5 < np.sqrt(post.noise_variance) / 0.15 < 2.0
        off = []
        for action, context, reading in zip(actions[320:], contexts[320:], y[320:], strict=True):
            mean, std = post.predict(context)
            off.append((reading - mean[action]) / np.hypot(std[action], np.sqrt(post.noise_variance)))
        assert 0.6 < np.sqrt(np.mean(np.square(off))) < 1.5
