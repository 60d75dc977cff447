"""Functions of known norm in a kernel's space, and whether confidence bounds hold on them from first to last round."""

import numpy as np

from holdcourse.learning.confidence import TheoryWidth
from holdcourse.learning.posteriors import posterior


def table_of_norm(problem, kernel, contexts, norm, rng, centres=25):
    """f = sum_i a_i k(., z_i) of this norm, as its values in all contexts (k,) for all actions; (k, n).

    A draw from the process itself would not do: it has no finite norm.
    """
    actions, where = rng.integers(problem.n, size=centres), rng.uniform(contexts.min(), contexts.max(), (centres, 1))
    a = rng.normal(size=centres)
    a *= norm / np.sqrt(a @ kernel.covariance(problem, actions, where) @ a)
    everywhere = np.tile(np.arange(problem.n), len(contexts)), np.repeat(contexts, problem.n)[:, None]
    return (kernel.covariance(problem, *everywhere, actions, where) @ a).reshape(len(contexts), problem.n)


def largest_ratios(
    problem, kernel, contexts, *, norm, delta, noise_std, regularisation, rounds, rng, method="exact", greedy=True
):
    """Largest |mu_t - f| / (beta_t sigma_t), and largest |mu_t - f| / sigma_t, over all rounds, actions and contexts.

    Where to measure next depends on what was measured: by the lower bounds themselves, or at random.
    """
    f = table_of_norm(problem, kernel, contexts, norm, rng)
    post = posterior(problem, kernel, noise_std, method=method, contexts=contexts, regularisation=regularisation)
    width = TheoryWidth(norm, delta)
    in_betas = in_deviations = 0.0
    for _ in range(rounds + 1):
        mean, std = post.predict_at(contexts)
        beta, off = width.of(post), np.abs(mean - f) / std
        in_betas, in_deviations = max(in_betas, off.max() / beta), max(in_deviations, off.max())
        k = int(rng.integers(len(contexts)))
        bounds = mean[k] - beta * std[k]
        action = int(np.argmin(bounds)) if greedy else int(rng.integers(problem.n))
        post.condition(action, contexts[k], f[k, action] + noise_std * rng.normal())
    return in_betas, in_deviations
