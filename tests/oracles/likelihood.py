"""The log likelihood of measurements in the plainest way: one dense covariance, one row for each of them."""

import math

import numpy as np


def dense_log_likelihood(problem, history, z, kernel, noise, mean_width=None):
    """Log density of z at the constant mean that fits best under its prior, and that mean; 0 without a width."""
    t = len(z)
    cov = kernel.covariance(problem, history.actions, history.contexts) + noise**2 * np.eye(t)
    ones = np.ones(t)
    mean = 0.0
    if mean_width is not None:
        mean = (ones @ np.linalg.solve(cov, z)) / (ones @ np.linalg.solve(cov, ones) + mean_width**-2)
    rest = z - mean
    value = -0.5 * (rest @ np.linalg.solve(cov, rest) + np.linalg.slogdet(cov)[1] + t * math.log(2 * math.pi))
    return value, mean


def rbf_slopes(P, cov, inverse, alpha):
    """Sums of pull cov, and of pull cov (p_i - p_j)^2 along each axis of P (q, t), over all pairs."""
    weights = (np.outer(alpha, alpha) - inverse) * cov
    return np.array([weights.sum(), *((weights * (p[:, None] - p) ** 2).sum() for p in P)])
