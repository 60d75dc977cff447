"""A hundred thousand rounds told to the temporal posterior: what is kept of the past stays sound."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.dense_gp import dense_posterior
from sklearn.gaussian_process.kernels import RBF, Matern

import holdcourse as hc
from holdcourse.learning.kernels import Kernel
from holdcourse.learning.posteriors.exact import Prior
from holdcourse.learning.posteriors.temporal import TemporalPosterior

ROUNDS = 100_000
PROBLEM = hc.Problem(np.linspace(0.0, 1.0, 25))
FADING = Kernel(RBF(0.2), Matern(20.0, nu=1.5)) + Kernel(RBF(0.3), Matern(3.0, nu=0.5), variance=0.5)
LASTING = FADING + Kernel(RBF(0.2), variance=2.0) + Kernel(RBF(0.3), Matern(1e5, nu=2.5))


def told(kernel, noise_std):
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.exponential(1.0, ROUNDS) * rng.choice([0.0, 1e-9, 1.0, 1.0, 5.0], ROUNDS))
    actions, y = rng.integers(0, PROBLEM.n, ROUNDS), rng.standard_normal(ROUNDS)
    post = TemporalPosterior(Prior(PROBLEM, kernel, noise_std))
    for action, time, measurement in zip(actions, times, y, strict=True):
        post.condition(action, time, measurement)
    return post, actions, times, y


def projected(post):
    """The means and covariances that are carried along for each action, once more from the state itself."""
    rows = []
    for d, r, start, column in post.space.layout:
        for j in range(d):
            row = np.zeros((PROBLEM.n, post.states))
            row[:, start + j * r : start + (j + 1) * r] = post.space.phi[:, column : column + r]
            rows.append(row)
    state, H = post.state(), np.array(rows)
    return H @ state["mean"], np.einsum("ixa,ab,jxb->ijx", H, state["covariance"], H, optimize=True)


@pytest.mark.slow
@pytest.mark.parametrize("noise_std", [0.1, 0.0])
def test_state_stays_finite_positive_and_symmetric(noise_std, record_property):
    post, _, times, _ = told(LASTING, noise_std)
    state = post.state()
    assert all(np.isfinite(array).all() for array in state.values())
    assert sum(array.size for array in state.values()) == sum(
        array.size for array in TemporalPosterior(post.prior).state().values()
    )
    covariance = state["covariance"]
    asymmetry = np.abs(covariance - covariance.T).max()
    means, covariances = projected(post)
    drift = max(np.abs(state["action_mean"] - means).max(), np.abs(state["action_covariance"] - covariances).max())
    record_property(f"temporal, 1e5 rounds, noise {noise_std}: asymmetry", f"{asymmetry:.1e}")
    record_property(f"temporal, 1e5 rounds, noise {noise_std}: drift", f"{drift:.1e}")
    assert asymmetry <= 1e-13
    assert np.linalg.eigvalsh(covariance)[0] > -1e-13
    assert drift <= 1e-8
    for ahead in (0.0, 1.0, 1e6):
        mean, std = post.predict(times[-1] + ahead)
        assert np.isfinite(mean).all()
        assert (std > 0).all()


@pytest.mark.slow
def test_still_exact_at_the_end(record_property):
    """The processes fade within a few hundred units of time, so the last measurements alone decide."""
    post, actions, times, y = told(FADING, 0.1)
    recent = times > times[-1] - 1200.0
    assert 500 < recent.sum() < 2500
    worst = 0.0
    for ahead in (0.0, 2.0, 30.0):
        now = times[-1] + ahead
        expected = dense_posterior(PROBLEM, FADING, 0.01, actions[recent], times[recent], y[recent], now)
        worst = max(worst, np.abs(np.array(post.predict(now)) - np.array(expected)).max())
    record_property("temporal, 1e5 rounds: error against a dense solve", f"{worst:.1e}")
    assert worst <= 1e-8
