"""The fit as it was before it was made fast: dense, by scikit-learn's gradients, most evaluations with all points.

The peer that `benchmarks.learning` measures against.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
from scipy.optimize import minimize

from holdcourse.errors import InvalidInput
from holdcourse.learning.fitting.likelihood import (
    JITTERS,
    MEAN_WIDTH,
    NOISE_FLOOR,
    PRIOR_WIDTH,
    Factor,
    Parameter,
    kernel_with,
    parameters,
)
from holdcourse.learning.fitting.points import first_guesses, standardised, subset
from holdcourse.learning.history import History
from holdcourse.learning.kernels import AnyKernel
from holdcourse.movement.problem import Problem

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

COARSE_POINTS, COARSE_EVALUATIONS = 300, 25
FINE_POINTS, FINE_EVALUATIONS = 1000, 100


def dense_fit(problem: Problem, history: History, restarts: int = 3, seed: int = 0) -> tuple[AnyKernel, float, float]:
    """Kernel, noise deviation and prior mean for measurements of actions with coordinates."""
    rng = np.random.default_rng(seed)
    used = subset(problem, history, FINE_POINTS, rng)
    _, shift, scale, _ = standardised(used.measurements, None)
    [(guess, _)] = first_guesses(problem, history, None)

    def likelihood(points: History) -> DenseLikelihood:
        entries = parameters(problem, history.contexts, guess, noise=True)
        targets = (points.measurements - shift) / scale
        return DenseLikelihood(problem, points, targets, guess, entries, None, free_mean=True)

    coarse = likelihood(subset(problem, used, COARSE_POINTS, rng))
    starts = [coarse.centre, *(coarse.random_start(rng) for _ in range(restarts))]
    ends = [coarse.maximise(start, COARSE_EVALUATIONS) for start in starts]
    model = likelihood(used)
    theta, _ = model.maximise(max(ends, key=lambda end: end[1])[0], FINE_EVALUATIONS)
    mean = model.evaluate(theta)[2]
    return kernel_with(guess, theta, scale**2), model.noise(theta) * scale, shift + scale * mean


class DenseLikelihood:
    """How well parameters explain measurements, one row and column for each of them."""

    def __init__(
        self,
        problem: Problem,
        history: History,
        z: Array,
        kernel: AnyKernel,
        entries: list[Parameter],
        noise: float | None,
        *,
        free_mean: bool,
    ) -> None:
        self.structure, self.entries, self.fixed_noise, self.free_mean = kernel, entries, noise, free_mean
        self.centre = np.array([entry.centre for entry in entries])
        self.bounds = [(entry.lower, entry.upper) for entry in entries]
        self.evaluations = 0
        self._z = z
        self._parts = []
        for part in kernel.parts:
            if isinstance(part.action, np.ndarray):
                action = Factor.constant(part.action, history.actions)
            else:
                action = Factor.over(part.action_inputs(problem.actions[history.actions]))
            if part.context is None:
                context = Factor.constant(np.ones((1, 1)), np.zeros(len(history), dtype=np.int64))
            else:
                context = Factor.over(part.context_inputs(history.contexts))
            self._parts.append((action, context))

    def noise(self, theta: Array) -> float:
        """Noise deviation in units of z."""
        return math.exp(theta[-1]) if self.fixed_noise is None else self.fixed_noise

    def evaluate(self, theta: Array) -> tuple[float, Array, float]:
        """Log likelihood at the best m, its gradient, and that m."""
        self.evaluations += 1
        z, t = self._z, len(self._z)
        noise_variance = max(self.noise(theta) ** 2, NOISE_FLOOR)
        cov = np.zeros((t, t))
        pieces = []
        for part, (action, context) in zip(kernel_with(self.structure, theta).parts, self._parts, strict=True):
            among_actions, action_slopes = action.evaluate(part.action)
            among_contexts, context_slopes = context.evaluate(part.context)
            pieces.append((part.variance, among_actions, action_slopes, among_contexts, context_slopes))
            cov += part.variance * action.spread(among_actions) * context.spread(among_contexts)
        level = float(np.trace(cov)) / t
        for jitter in JITTERS:
            factor, failed = dpotrf(cov + (noise_variance + jitter * level) * np.eye(t), lower=1)
            if not failed:
                break
        else:
            raise InvalidInput(
                f"the kernel {self.structure} is not positive semidefinite at these inputs; one that is periodic, for "
                "example, may depend on one axis only"
            )
        solved = dpotrs(factor, np.column_stack([z, np.ones(t)]), lower=1)[0]
        mean = float(solved[:, 0].sum() / (solved[:, 1].sum() + MEAN_WIDTH**-2)) if self.free_mean else 0.0
        alpha = solved[:, 0] - mean * solved[:, 1]
        value = -0.5 * float((z - mean) @ alpha) - float(np.log(np.diag(factor)).sum()) - t / 2 * math.log(2 * math.pi)

        inverse = np.tril(dpotri(factor, lower=1)[0])
        pull = np.outer(alpha, alpha) - inverse - np.tril(inverse, -1).T
        slopes: list[float] = []
        for (variance, ka, dka, kc, dkc), (action, context) in zip(pieces, self._parts, strict=True):
            by_context = variance * pull * context.spread(kc)
            by_actions = action.gather(by_context)
            slopes.append(0.5 * float((by_actions * ka).sum()))
            slopes += (0.5 * np.einsum("ij,ijk->k", by_actions, dka)).tolist()
            if dkc.shape[2]:
                by_contexts = context.gather(variance * pull * action.spread(ka))
                slopes += (0.5 * np.einsum("ij,ijk->k", by_contexts, dkc)).tolist()
        if self.fixed_noise is None:
            slopes.append(float(np.trace(pull)) * noise_variance)
        return value, np.array(slopes), mean

    def loss(self, theta: Array) -> tuple[float, Array]:
        """What is minimised, minus the log posterior up to a constant, and its gradient."""
        value, slopes, mean = self.evaluate(theta)
        off = (theta - self.centre) / PRIOR_WIDTH
        return 0.5 * float(off @ off) + 0.5 * (mean / MEAN_WIDTH) ** 2 - value, off / PRIOR_WIDTH - slopes

    def maximise(self, start: Array, evaluations: int) -> tuple[Array, float]:
        """Climb from `start`: where it ends, and the log posterior there."""
        lower, upper = np.array(self.bounds).T
        result = minimize(
            self.loss,
            np.clip(start, lower, upper),
            jac=True,
            method="L-BFGS-B",
            bounds=self.bounds,
            options={"maxfun": evaluations, "maxls": 10},
        )
        return np.clip(result.x, lower, upper), -float(result.fun)

    def random_start(self, rng: np.random.Generator) -> Array:
        """A draw from the prior, within the bounds."""
        lower, upper = np.array(self.bounds).T
        return np.clip(self.centre + PRIOR_WIDTH * rng.standard_normal(len(self.centre)), lower, upper)
