"""FITC in its dense formulas (Quinonero-Candela and Rasmussen 2005, equations 24): one matrix over all measurements."""

import numpy as np


def dense_fitc(problem, kernel, noise_variance, features, actions, contexts, y, context, prior_mean=0.0):
    """Mean and deviation of all actions in one context; `features(actions, contexts)` gives one row per pair."""
    everywhere, here = np.arange(problem.n), np.tile(context, (problem.n, 1))
    F, Fs = features(actions, contexts), features(everywhere, here)
    own = np.diag(kernel.covariance(problem, everywhere, here))
    K = _covariance(problem, kernel, noise_variance, F, actions, contexts)
    cross = Fs @ F.T
    mean = prior_mean + cross @ np.linalg.solve(K, y - prior_mean)
    return mean, np.sqrt(own - np.diag(cross @ np.linalg.solve(K, cross.T)))


def log_marginal_likelihood(problem, kernel, noise_variance, features, actions, contexts, y):
    """Log density of the measurements; and their information gain, with what the features miss never known."""
    K = _covariance(problem, kernel, noise_variance, features(actions, contexts), actions, contexts)
    log_determinant = np.linalg.slogdet(K)[1]
    likelihood = -0.5 * (y @ np.linalg.solve(K, y) + log_determinant + len(y) * np.log(2 * np.pi))
    return likelihood, 0.5 * (log_determinant - len(y) * np.log(noise_variance))


def _covariance(problem, kernel, noise_variance, F, actions, contexts):
    """Q + diag(K - Q) + lambda I."""
    Q = F @ F.T
    own = np.diag(kernel.covariance(problem, actions, contexts))
    return Q + np.diag(own - np.diag(Q)) + noise_variance * np.eye(len(actions))
