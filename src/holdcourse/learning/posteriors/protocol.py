"""What every posterior can do, whichever way it computes or leaves it to another, and what is believed at first."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import float_array, is_finite
from holdcourse.errors import InvalidInput, plain
from holdcourse.learning.history import History
from holdcourse.learning.kernels import MATRIX_ACTIONS, AnyKernel
from holdcourse.movement.problem import Problem

Array: TypeAlias = NDArray[np.float64]
PriorMean: TypeAlias = float | ArrayLike | Callable[[Array, Array], Any]

NOISE_FLOOR = 1e-10  # of the prior variance: below, K + lambda I cannot be factored in double precision
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
        self.problem = problem
        self.kernel = kernel
        if not (is_finite(noise_std) and noise_std >= 0):
            raise InvalidInput(f"noise_std must be 0 or more, got {plain(noise_std)!r}")
        if regularisation is not None and not (is_finite(regularisation) and regularisation >= 0):
            raise InvalidInput(f"regularisation must be 0 or more (it is a variance), got {plain(regularisation)!r}")
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
            raise InvalidInput(f"the kernel gives a prior variance of {self.scale}; lower its variance")
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
            raise InvalidInput(f"prior_mean gave {values[action]} for action {action} in context {context.tolist()}")
        return values

    def variances(self, contexts: Array) -> Array:
        """Prior variance of every action in each of the contexts (k, d); shape (k, n)."""
        total = np.zeros((len(contexts), self.problem.n))
        for part, own in zip(self.kernel.parts, self._own, strict=True):
            total += part.variance * part.context_variances(contexts)[:, None] * own
        return total

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
        raise InvalidInput(f"tolerance must be a share of the prior variance, 0 to 1, got {plain(tolerance)!r}")


def describe_mean(mean: PriorMean) -> str:
    """A function's name, or a fingerprint of the numbers."""
    if callable(mean):
        return str(getattr(mean, "__qualname__", type(mean).__qualname__))
    return hashlib.sha256(np.array(mean, dtype=np.float64).tobytes()).hexdigest()[:16]


def _checked_mean(mean: Any, n: int) -> Array:
    try:
        values = np.array(mean, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.full(2, np.nan)
    if values.shape not in ((), (n,)) or not np.isfinite(values).all():
        raise InvalidInput(
            f"prior_mean must be a finite number, {n} of them (one per action), or a function, got {mean!r}"
        )
    values = np.broadcast_to(values, (n,)).copy()
    values.setflags(write=False)
    return values


VARIANCE_FLOOR = 1e-15  # of the prior variance: what is left of a difference of numbers that agree to rounding


@runtime_checkable
class Posterior(Protocol):
    """A belief about the cost of every action in every context, given the measurements so far.

    Contexts are vectors of d numbers; a plain number stands for d = 1. Anything that is not finite, has the wrong
    length or names no action raises `InvalidInput` and leaves the posterior as it was.

    Examples
    --------
    >>> import holdcourse as hc
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> belief = hc.posterior(hc.Problem([0.0, 0.5, 1.0]), hc.Kernel(RBF(0.5), RBF(0.3)))
    >>> isinstance(belief, hc.Posterior)
    True
    >>> belief.condition(1, 0.2, 3.0).observations
    1
    """

    @property
    def prior(self) -> Prior:
        """Kernel, noise and prior mean."""
        ...

    @property
    def method(self) -> str:
        """The method by which it computes: "exact", "flat" or "temporal"."""
        ...

    @property
    def reason(self) -> str:
        """Why it computes in that way."""
        ...

    @property
    def observations(self) -> int:
        """How many measurements have been told."""
        ...

    @property
    def log_marginal_likelihood(self) -> float:
        """Log density of the measurements told, under the prior."""
        ...

    @property
    def information_gain(self) -> float:
        """Realised information gain, 1/2 log det(I + K / lambda), of the measurements told."""
        ...

    def condition(self, action: int, context: Any, y: float) -> Self:
        """Learn one measurement, in place; returns itself."""
        ...

    def condition_on(self, history: History) -> Self:
        """Learn many measurements at once, in place: the same as telling them one by one, but faster."""
        ...

    def predict(self, context: Any) -> tuple[Array, Array]:
        """Mean and standard deviation of the cost of every action in this context, (n,) and (n,), without the noise."""
        ...

    def predict_at(self, contexts: ArrayLike) -> tuple[Array, Array]:
        """Mean and standard deviation of every action in each of k contexts, (k, n) and (k, n)."""
        ...

    def truncation_bound(self, std: Array) -> Array:
        """How much larger than `std`, as predicted, the exact deviation may be; 0 for an exact method."""
        ...

    def copy(self) -> Self:
        """Make an independent twin."""
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything learned, as arrays."""
        ...

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` of a posterior made with the same arguments gave; returns itself."""
        ...

    def describe(self) -> dict[str, Any]:
        """What it was made with, in JSON values; equal posteriors give equal descriptions."""
        ...


Told: TypeAlias = tuple[int, tuple[float, ...], float]  # action, context, measurement


@runtime_checkable
class JudgingPosterior(Protocol):
    """A posterior that asks of every measurement how far it can be believed."""

    def weigh(self, action: int, context: Any, y: float) -> float:
        """Learn one measurement; returns its weight: 1, less where it is far off, 0 where it is set aside."""
        ...

    @property
    def noise_variance(self) -> float:
        """Variance of the noise of a measurement, in its own unit."""
        ...

    @property
    def widening(self) -> float:
        """Factor on the deviations that the measurements have shown to be needed, at least 1."""
        ...

    def doubted(self) -> frozenset[Told]:
        """Of the measurements kept, those that are not believed."""
        ...


class DelegatingPosterior:
    """Answers questions by the posterior inside it; how that one changes is for the subclass to say."""

    _inner: Posterior

    @property
    def method(self) -> str:
        """The method by which it computes at present."""
        return self._inner.method

    @property
    def predicts_alike(self) -> bool:
        """Whether `predict_at` of several contexts gives, to the last bit, what `predict` of each gives."""
        return bool(getattr(self._inner, "predicts_alike", False))

    @property
    def log_marginal_likelihood(self) -> float:
        """Log density of the measurements in use, under the prior in use."""
        return self._inner.log_marginal_likelihood

    @property
    def information_gain(self) -> float:
        """Realised information gain, 1/2 log det(I + K / lambda), of the measurements in use."""
        return self._inner.information_gain

    def predict(self, context: Any) -> tuple[Array, Array]:
        """Mean and standard deviation of the cost of every action in this context, (n,) and (n,)."""
        return self._inner.predict(context)

    def predict_at(self, contexts: ArrayLike) -> tuple[Array, Array]:
        """Mean and standard deviation of every action in each of k contexts, (k, n) and (k, n)."""
        return self._inner.predict_at(contexts)

    def truncation_bound(self, std: Array) -> Array:
        """How much larger than `std`, as predicted, the exact deviation may be."""
        return self._inner.truncation_bound(std)


def predict_each(predict: Callable[[Array], tuple[Array, Array]], contexts: Array, n: int) -> tuple[Array, Array]:
    """`Posterior.predict_at` by one prediction of n actions for each of the contexts (k, d), which were checked."""
    predictions = [predict(context) for context in contexts]
    mean, std = (np.array([pair[k] for pair in predictions]).reshape(len(contexts), n) for k in range(2))
    return mean, std
