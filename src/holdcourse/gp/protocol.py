"""What every posterior can do, whichever way it computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.errors import InvalidInput
from holdcourse.gp.prior import Prior
from holdcourse.history import History, check_contexts

Array: TypeAlias = NDArray[np.float64]

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
        """How it computes."""
        ...

    @property
    def reason(self) -> str:
        """Why it does so."""
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

    def predict_at(self, actions: ArrayLike, contexts: ArrayLike) -> tuple[Array, Array]:
        """Mean and standard deviation for k pairs of action (k,) and context (k, d); (k,) and (k,)."""
        ...

    def watch(self, contexts: ArrayLike) -> Watch:
        """Predictions for k contexts that stay up to date as measurements are told."""
        ...

    def truncation_bound(self, std: Array) -> Array:
        """How much larger than `std`, as predicted, the exact deviation may be; 0 for an exact method."""
        ...

    def copy(self) -> Self:
        """Make an independent twin; nobody watches it yet."""
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


class Watch:
    """Predictions for a fixed set of contexts; the posterior they belong to keeps them current.

    Attributes
    ----------
    contexts
        What is watched, shape (k, d).
    mean
        Posterior means, shape (k, n). Read only.
    """

    def __init__(self, contexts: Array) -> None:
        self.contexts = contexts
        self.mean: Array = np.empty((len(contexts), 0))
        self._variance: Array = np.empty((len(contexts), 0))
        self._floor: Array = np.empty((len(contexts), 0))

    @property
    def std(self) -> Array:
        """Posterior standard deviations, shape (k, n)."""
        return np.sqrt(np.maximum(self._variance, self._floor))

    def _set(self, mean: Array, variance: Array, floor: Array) -> None:
        self.mean, self._variance, self._floor = mean, variance, floor

    def _update(self, covariance: Array, surprise: float, predicted_variance: float) -> None:
        """One measurement more: `covariance` (k, n) is that of everything watched with it."""
        self.mean = self.mean + covariance * (surprise / predicted_variance)
        self._variance = self._variance - covariance**2 / predicted_variance

    def __repr__(self) -> str:
        return f"Watch({len(self.contexts)} contexts, {self.mean.shape[1]} actions)"


def predict_pairs(
    posterior: Posterior, actions: ArrayLike, contexts: ArrayLike, dimension: int | None
) -> tuple[Array, Array]:
    """`Posterior.predict_at` by one `predict` for each distinct context."""
    problem = posterior.prior.problem
    rows = check_contexts(contexts, dimension)
    indices = np.asarray(actions)
    if indices.shape != (len(rows),):
        raise InvalidInput(f"predict_at needs one context per action, got shapes {indices.shape} and {rows.shape}")
    for action in indices:
        problem.check_action(action)
    mean, std = np.empty(len(rows)), np.empty(len(rows))
    distinct, which = np.unique(rows, axis=0, return_inverse=True)
    for k, context in enumerate(distinct):
        here = which.reshape(-1) == k
        means, stds = posterior.predict(context)
        mean[here], std[here] = means[indices[here]], stds[indices[here]]
    return mean, std
