"""The Gaussian process posterior in the plainest way: one dense covariance matrix, one solve."""

import numpy as np


def dense_posterior(problem, kernel, noise_variance, actions, contexts, y, context, prior_mean=0.0):
    """Mean and deviation of all actions in one context."""
    actions, contexts, y = np.asarray(actions, dtype=int), _rows(contexts), np.asarray(y, dtype=float)
    everywhere, here = np.arange(problem.n), np.tile(np.atleast_1d(np.asarray(context, dtype=float)), (problem.n, 1))
    prior = kernel.covariance(problem, everywhere, here)
    K = kernel.covariance(problem, actions, contexts) + noise_variance * np.eye(len(y))
    cross = kernel.covariance(problem, everywhere, here, actions, contexts)
    mean = prior_mean + cross @ np.linalg.solve(K, y - prior_mean)
    variance = np.diag(prior - cross @ np.linalg.solve(K, cross.T))
    return mean, np.sqrt(np.maximum(variance, 0.0))


def information_gain(problem, kernel, noise_variance, actions, contexts):
    K = kernel.covariance(problem, np.asarray(actions, dtype=int), _rows(contexts))
    return 0.5 * np.linalg.slogdet(np.eye(len(K)) + K / noise_variance)[1]


def log_marginal_likelihood(problem, kernel, noise_variance, actions, contexts, y):
    K = kernel.covariance(problem, np.asarray(actions, dtype=int), _rows(contexts)) + noise_variance * np.eye(len(y))
    y = np.asarray(y, dtype=float)
    return -0.5 * (y @ np.linalg.solve(K, y) + np.linalg.slogdet(K)[1] + len(y) * np.log(2 * np.pi))


def _rows(contexts):
    contexts = np.asarray(contexts, dtype=float)
    return contexts[:, None] if contexts.ndim == 1 else contexts
