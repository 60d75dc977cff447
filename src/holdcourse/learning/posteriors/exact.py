r"""The prior, and the exact posterior, against which all others are measured.

The prior is what is believed before the first measurement: the kernel, the mean, and the noise of a measurement. The
exact posterior keeps every measurement; one round costs O(t^2 + (t + n) u^2).

======  ==============================================================================================  ============
symbol  meaning                                                                                         shape
======  ==============================================================================================  ============
t, u    measurements so far; distinct actions among them
K       prior covariance of the measurements, :math:`\sum_p A_p[x_i, x_j]\, C_p(e_i, e_j)`              (t, t)
R       inverse of the Cholesky factor of K + lambda I; grows by one row per measurement                (t, t)
z       R (y - prior mean): the measurements made independent                                           (t,)
alpha   R^T z = (K + lambda I)^-1 (y - prior mean)                                                      (t,)
c       covariance of a context with those of the measurements, per part of the kernel                  (parts, t)
A       covariance of all actions with the distinct measured ones, the parts side by side               (n, parts u)
W       R diag(c) with the columns of one action summed: all that prediction needs of R                 (t, parts u)
======  ==============================================================================================  ============

The inverse factor is kept rather than the factor because its columns can be summed by action before anything is
multiplied by n actions: :math:`k_* (K + \lambda I)^{-1} k_*^T = A W^T W A^T`. It is kept rather than the full inverse
because rounding then grows with the square root of the condition number.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse._numeric.gp import grouped, whiten
from holdcourse.archive import require_arrays
from holdcourse.checks import float_array, is_finite
from holdcourse.errors import InvalidInput, TooLarge, shown
from holdcourse.learning.history import History, check_context, check_contexts, check_measurement
from holdcourse.learning.kernels import (
    MATRIX_ACTIONS,
    MOST_CHECKED,
    AnyKernel,
    require_context_covariance,
    require_covariance,
)
from holdcourse.movement.problem import Problem, check_problem

Array: TypeAlias = NDArray[np.float64]
PriorMean: TypeAlias = float | ArrayLike | Callable[[Array, Array], Any]

NOISE_FLOOR = 1e-10  # of the prior variance: below, K + lambda I cannot be factored in double precision
VARIANCE_FLOOR = 1e-15  # of the prior variance: what is left of a difference of numbers that agree to rounding
MAX_HISTORY = 10_000  # measurements learned at once: R and its copy while it grows take 1.2 GB
JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)  # of the prior variance of the measurement
ARRAYS = (
    "actions",
    "contexts",
    "measurements",
    "factor",
    "whitened",
    "weights",
    "log_determinant",
    "first_seen",
    "group",
)
logger = logging.getLogger("holdcourse.learning.posteriors")


class Prior:
    """Kernel, prior mean and noise, checked once.

    Parameters
    ----------
    problem, kernel
        The actions, and the covariance of the cost over actions and contexts.
    noise_std
        Standard deviation of a measurement.
    prior_mean
        A number; (n,), one per action; or ``f(actions, context) -> (n,)`` with the (n, d) coordinates of all actions
        and one context vector (it may return one number for all).
    regularisation
        The variance lambda added to the diagonal; the noise variance unless given.
    """

    def __init__(
        self,
        problem: Problem,
        kernel: AnyKernel,
        noise_std: float = 0.1,
        prior_mean: PriorMean = 0.0,
        regularisation: float | None = None,
    ) -> None:
        check_problem(problem)
        self.problem = problem
        self.kernel = kernel
        if not (is_finite(noise_std) and noise_std >= 0):
            raise InvalidInput(f"noise_std must be 0 or more, got {shown(noise_std)}")
        if regularisation is not None and not (is_finite(regularisation) and regularisation >= 0):
            raise InvalidInput(f"regularisation must be 0 or more (it is a variance), got {shown(regularisation)}")
        for part in kernel.parts:
            require_covariance(part, problem)
        if problem.n <= MATRIX_ACTIONS:
            among_actions = [part.action_covariance(problem) for part in kernel.parts]
            self.action_covariances = [
                part.variance * matrix for part, matrix in zip(kernel.parts, among_actions, strict=True)
            ]
            self._own = [np.diag(matrix).copy() for matrix in among_actions]
        else:
            self._own = [part.action_variances(problem) for part in kernel.parts]
        self.action_variances = [part.variance * own for part, own in zip(kernel.parts, self._own, strict=True)]
        self.scale = float(sum(own.max() for own in self.action_variances))
        if not np.isfinite(self.scale):
            raise InvalidInput(
                f"the kernel gives a prior variance of {self.scale}, which is not usable; lower its variance"
            )
        self.noise_std = float(noise_std)
        wanted = self.noise_std**2 if regularisation is None else float(regularisation)
        self.noise_variance = max(wanted, NOISE_FLOOR * self.scale)
        if self.noise_variance > wanted:
            logger.info(
                "noise variance raised from %g to %g so that the posterior can be computed", wanted, self.noise_variance
            )
        self._mean = prior_mean if callable(prior_mean) else _checked_mean(prior_mean, problem.n)

    @cached_property
    def action_covariances(self) -> list[Array]:
        """Covariance between the actions in each part of the kernel, its variance included; (n, n) each.

        Where there are many actions, and not a matrix of the user's, this is an error: learn with features instead.
        """
        return [part.variance * part.action_covariance(self.problem) for part in self.kernel.parts]

    def mean(self, context: Array) -> Array:
        """Prior mean of every action in one context, shape (n,)."""
        if not callable(self._mean):
            return self._mean
        given = float_array(self._mean(self.problem.actions, context), "what prior_mean gives")
        if given.shape not in ((), (1,), (self.problem.n,)):
            raise InvalidInput(f"prior_mean gave shape {given.shape}; it must give ({self.problem.n},), or one number")
        values = np.broadcast_to(given, (self.problem.n,))
        if not np.isfinite(values).all():
            action = int(np.flatnonzero(~np.isfinite(values))[0])
            raise InvalidInput(
                f"prior_mean gave {values[action]} for action {action} in context {context.tolist()}; it must be finite"
            )
        return values

    def variances(self, contexts: Array) -> Array:
        """Prior variance of every action in each of the contexts (k, d); shape (k, n)."""
        total = np.zeros((len(contexts), self.problem.n))
        for part, own in zip(self.kernel.parts, self._own, strict=True):
            total += part.variance * part.context_variances(contexts)[:, None] * own
        return total

    def means_of(self, contexts: Array, actions: NDArray[np.int64]) -> Array:
        """Prior mean of m actions in each of the contexts (k, d); shape (k, m)."""
        if not callable(self._mean):
            return np.repeat(self._mean[actions][None], len(contexts), axis=0)
        return np.array([self.mean(context)[actions] for context in contexts]).reshape(len(contexts), len(actions))

    def describe(self) -> dict[str, Any]:
        """Kernel, noise and prior mean in JSON values; equal priors give equal descriptions."""
        mean = describe_mean(self._mean)
        return {
            "kernel": self.kernel.describe(),
            "noise_std": self.noise_std,
            "noise_variance": self.noise_variance,
            "prior_mean": mean,
        }

    def means(self, contexts: Array) -> Array:
        """Prior mean of every action in each of the contexts (k, d); shape (k, n)."""
        if not callable(self._mean):
            return np.repeat(self._mean[None], len(contexts), axis=0)
        return np.array([self.mean(context) for context in contexts]).reshape(len(contexts), self.problem.n)


def check_tolerance(tolerance: float | None) -> None:
    """Raise unless it is the share of the prior variance that a posterior may discard, if one was given."""
    if tolerance is not None and not (is_finite(tolerance) and 0.0 <= tolerance < 1.0):
        raise InvalidInput(f"tolerance must be a share of the prior variance, 0 to 1, got {shown(tolerance)}")


def describe_mean(mean: PriorMean) -> str:
    """A function's name, or a fingerprint of the numbers."""
    if callable(mean):
        return str(getattr(mean, "__qualname__", type(mean).__qualname__))
    return hashlib.sha256(np.array(mean, dtype=np.float64).tobytes()).hexdigest()[:16]


def _checked_mean(mean: Any, n: int) -> Array:
    try:
        values = float_array(mean, "prior_mean")
    except InvalidInput:
        values = np.full(2, np.nan)
    if values.shape not in ((), (n,)) or not np.isfinite(values).all():
        raise InvalidInput(
            f"prior_mean must be a finite number, {n} of them (one per action), or a function, got {shown(mean)}"
        )
    values = np.broadcast_to(values, (n,)).copy()
    values.setflags(write=False)
    return values


class ExactPosterior:
    """The posterior without approximation; its cost grows with the square of the measurements. See `Posterior`."""

    method = "exact"

    def __init__(self, prior: Prior, *, dimension: int | None = None, reason: str = "asked for") -> None:
        self.prior = prior
        self.reason = reason
        self.dimension = prior.kernel.context_dimension if dimension is None else dimension
        self._actions = np.zeros(0, dtype=np.int64)
        self._contexts = np.zeros((0, self.dimension or 0))
        self._measurements = np.zeros(0)
        self._factor = np.zeros(0)  # rows of R, one after the other; longer than needed
        self._whitened = np.zeros(0)  # z
        self._weights = np.zeros(0)  # alpha
        self._log_determinant = 0.0  # of K + lambda I
        self._first_seen = np.zeros(0, dtype=np.int64)  # the distinct actions in order of appearance, (u,)
        self._group = np.zeros(0, dtype=np.int64)  # position of each measurement's action in there, (t,)

    @property
    def observations(self) -> int:
        """How many measurements have been told."""
        return len(self._actions)

    @property
    def history(self) -> History:
        """The measurements told so far."""
        return History(self._actions, self._contexts, self._measurements)

    @property
    def log_marginal_likelihood(self) -> float:
        """Log density of the measurements told, under the prior."""
        t = self.observations
        return float(-0.5 * (self._whitened @ self._whitened + self._log_determinant + t * math.log(2 * math.pi)))

    @property
    def information_gain(self) -> float:
        """Realised information gain, 1/2 log det(I + K / lambda), of the measurements told."""
        return max(0.0, 0.5 * (self._log_determinant - self.observations * math.log(self.prior.noise_variance)))

    def condition(self, action: int, context: Any, y: float) -> Self:
        """Learn one measurement, in place; returns itself."""
        self.prior.problem.check_action(action)
        e = check_context(context, self.dimension)
        y = check_measurement(y)
        excess = y - float(self.prior.mean(e)[action])

        t = self.observations
        own = self._context_covariances(e[None], e[None])[:, 0, 0]
        prior_variance = sum(A[action, action] * c for A, c in zip(self.prior.action_covariances, own, strict=True))
        c = self._context_covariances(e[None])[:, 0]
        k = sum(A[action, self._actions] * row for A, row in zip(self.prior.action_covariances, c, strict=True))
        z, q = np.empty(t), np.empty(t)
        whiten(self._factor, np.ascontiguousarray(k, dtype=np.float64), z, q)
        variance = self._predicted_variance(float(prior_variance), float(z @ z), e)
        surprise = excess - float(z @ self._whitened)

        deviation = math.sqrt(variance)
        row = np.append(-q, 1.0) / deviation
        self._append_row(row)
        self._whitened = np.append(self._whitened, surprise / deviation)
        self._weights = np.append(self._weights, 0.0) + row * (surprise / deviation)
        self._log_determinant += math.log(variance)
        seen = np.flatnonzero(self._first_seen == action)
        self._group = np.append(self._group, seen[0] if len(seen) else len(self._first_seen))
        if not len(seen):
            self._first_seen = np.append(self._first_seen, action)
        self._actions = np.append(self._actions, action)
        self._contexts = np.vstack([self._contexts, e]) if t else e[None].copy()
        self._measurements = np.append(self._measurements, y)
        self.dimension = len(e)
        return self

    def condition_on(self, history: History) -> Self:
        """Learn many measurements at once, in place."""
        history.check(self.prior.problem, self.dimension)
        t = self.observations + len(history)
        if len(history) > 1 and t > MAX_HISTORY:
            raise TooLarge(
                f"the exact posterior of {t} measurements would take {12 * t**2 / 1e9:.0f} GB; give it at most "
                f"{MAX_HISTORY}, or use method='flat' with context_bounds, which takes any number"
            )
        for action, context, y in zip(history.actions, history.contexts, history.measurements, strict=True):
            self.condition(action, context, y)
        return self

    def predict(self, context: Any) -> tuple[Array, Array]:
        """Mean and standard deviation of the cost of every action in this context, (n,) and (n,)."""
        return self._predict(check_context(context, self.dimension))

    def predict_at(self, contexts: ArrayLike) -> tuple[Array, Array]:
        """Mean and standard deviation of every action in each of k contexts, (k, n) and (k, n)."""
        return predict_each(self._predict, check_contexts(contexts, self.dimension), self.prior.problem.n)

    def truncation_bound(self, std: Array) -> Array:
        """Nothing is truncated here: 0 everywhere."""
        return np.zeros_like(std)

    def copy(self) -> Self:
        """Make an independent twin."""
        return type(self)(self.prior, dimension=self.dimension, reason=self.reason).restore(self.state())

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything learned, as arrays."""
        t = self.observations
        arrays = {name: np.array(getattr(self, f"_{name}")) for name in ARRAYS}
        return arrays | {"factor": arrays["factor"][: t * (t + 1) // 2]}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` of a posterior made with the same arguments gave; returns itself."""
        require_arrays(arrays, ARRAYS, "an exact posterior")
        t = len(arrays["actions"])
        lengths = {len(arrays[name]) for name in ("contexts", "measurements", "whitened", "weights", "group")}
        if lengths != {t} or len(arrays["factor"]) != t * (t + 1) // 2 or arrays["contexts"].ndim != 2:
            raise InvalidInput("this state belongs to another problem, or is damaged")
        seen = arrays["first_seen"]
        if t and not (0 <= min(arrays["actions"].min(), seen.min()) <= arrays["actions"].max() < self.prior.problem.n):
            raise InvalidInput("this state belongs to another problem, or is damaged")
        if t and not (0 <= arrays["group"].min() <= arrays["group"].max() < len(seen)):
            raise InvalidInput("this state is damaged: its measurements belong to no action")
        if not all(np.isfinite(arrays[name]).all() for name in ("contexts", "factor", "whitened", "weights")):
            raise InvalidInput("this state is damaged: it contains numbers that are not finite")
        for name in ARRAYS:
            setattr(self, f"_{name}", np.array(arrays[name]))
        self._log_determinant = float(arrays["log_determinant"])
        if t:
            self.dimension = arrays["contexts"].shape[1]
        return self

    def describe(self) -> dict[str, Any]:
        """What it was made with, in JSON values; equal posteriors give equal descriptions."""
        return {"method": "exact", **self.prior.describe()}

    def __repr__(self) -> str:
        size = f"{self.observations} measurements, {self.prior.problem.n} actions"
        return f"ExactPosterior({size}; exact because {self.reason})"

    # -- inside --------------------------------------------------------------------------------------------------------

    def _predict(self, context: Array) -> tuple[Array, Array]:
        e = context[None]
        prior_variance = self.prior.variances(e)[0]
        mean = self.prior.mean(e[0])
        if not self.observations:
            return mean.copy(), np.sqrt(prior_variance)
        c = np.ascontiguousarray(self._context_covariances(e)[:, 0])
        A = self._measured_columns()
        W = np.empty((self.observations, A.shape[1]))
        grouped(self._factor, self._group, c, W)
        known = np.einsum("xa,xa->x", A @ (W.T @ W), A)
        if (known > (1.0 + JITTERS[-1]) * prior_variance).any():
            self._require_covariance(context)
        mean = mean + A @ self._summed_by_action(c * self._weights).reshape(-1)
        return mean, np.sqrt(np.maximum(prior_variance - known, VARIANCE_FLOOR * prior_variance))

    def _context_covariances(self, contexts: Array, others: Array | None = None) -> Array:
        """Covariance of contexts (k, d) with others, the measured ones by default; (parts, k, t)."""
        others = self._contexts if others is None else others
        if not len(others):
            return np.empty((len(self.prior.kernel.parts), len(contexts), 0))
        return np.array([part.context_covariance(contexts, others) for part in self.prior.kernel.parts])

    def _require_covariance(self, context: Array) -> None:
        """Raise if more seems known than there is to know, not by rounding, but because the kernel is no covariance."""
        distinct, newest = np.unique(np.vstack([context, self._contexts[::-1]]), axis=0, return_index=True)
        require_context_covariance(self.prior.kernel, distinct[np.argsort(newest)][:MOST_CHECKED])

    def _predicted_variance(self, prior_variance: float, known: float, context: Array) -> float:
        """Variance of the next measurement, at least lambda; rounding that breaks this is answered by jitter."""
        floor = self.prior.noise_variance
        for jitter in JITTERS:
            variance = prior_variance + floor + jitter * prior_variance - known
            if variance >= floor * (1.0 - 1e-6):
                if jitter:
                    logger.info("measurement %d: added jitter of %g of the prior variance", self.observations, jitter)
                return variance
        self._require_covariance(context)
        logger.warning("measurement %d: its covariance is lost in rounding; taken as known already", self.observations)
        return floor

    def _append_row(self, row: Array) -> None:
        t = self.observations
        used = t * (t + 1) // 2
        if used + t + 1 > len(self._factor):
            larger = np.empty(max(1024, 2 * (used + t + 1)))
            larger[:used] = self._factor[:used]
            self._factor = larger
        self._factor[used : used + t + 1] = row

    def _measured_columns(self) -> Array:
        return np.concatenate([A[:, self._first_seen] for A in self.prior.action_covariances], axis=1)

    def _summed_by_action(self, values: Array) -> Array:
        """Sum (parts, t) over the measurements of each distinct action: (parts, u)."""
        u = len(self._first_seen)
        return np.array([np.bincount(self._group, weights=row, minlength=u) for row in values])


def predict_each(predict: Callable[[Array], tuple[Array, Array]], contexts: Array, n: int) -> tuple[Array, Array]:
    """`Posterior.predict_at` by one prediction of n actions for each of the contexts (k, d), which were checked."""
    predictions = [predict(context) for context in contexts]
    mean, std = (np.array([pair[k] for pair in predictions]).reshape(len(contexts), n) for k in range(2))
    return mean, std
