"""What every posterior can do, whichever way it computes or leaves it to another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.learning.history import History

if TYPE_CHECKING:
    from holdcourse.learning.posteriors.exact import Prior
    from holdcourse.learning.posteriors.lowest import Lowest

Array: TypeAlias = NDArray[np.float64]


@runtime_checkable
class Posterior(Protocol):
    """Mean and uncertainty of the cost of every action in every context, given the measurements so far.

    Contexts are vectors of d numbers; a plain number stands for d = 1. A number that is not finite, a context of the
    wrong length or an unknown action raises `InvalidInput` and leaves the posterior as it was.

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
        """Method of computing: "exact", "flat" or "temporal"."""
        ...

    @property
    def reason(self) -> str:
        """Reason for this method, in words."""
        ...

    @property
    def observations(self) -> int:
        """Number of measurements learned."""
        ...

    @property
    def log_marginal_likelihood(self) -> float:
        """Log density of the measurements learned, under the prior."""
        ...

    @property
    def information_gain(self) -> float:
        """Realised information gain, 1/2 log det(I + K / lambda), of the measurements learned."""
        ...

    def condition(self, action: int, context: Any, y: float) -> Self:
        """Learn one measurement, in place: `y`, of the action with this index, in this context; returns itself."""
        ...

    def condition_on(self, history: History) -> Self:
        """Learn many measurements at once, in place; equal to learning them one by one, but faster."""
        ...

    def predict(self, context: Any) -> tuple[Array, Array]:
        """Mean and standard deviation of the cost of every action in this context, (n,) and (n,), without the noise."""
        ...

    def predict_at(self, contexts: ArrayLike) -> tuple[Array, Array]:
        """Mean and standard deviation of every action in each of k contexts, (k, n) and (k, n)."""
        ...

    def truncation_bound(self, std: Array) -> Array:
        """Bound on how far the exact deviation may exceed the predicted `std`, (n,); 0 for an exact method."""
        ...

    def copy(self) -> Self:
        """Return an independent copy."""
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything learned, as arrays."""
        ...

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` of a posterior made with the same arguments gave; returns itself."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return the arguments of the posterior in JSON values; equal posteriors give equal descriptions."""
        ...


Told: TypeAlias = tuple[int, tuple[float, ...], float]  # action, context, measurement


@runtime_checkable
class BatchPosterior(Protocol):
    """A posterior of which several contexts can be asked at once with the same result."""

    @property
    def predicts_alike(self) -> bool:
        """Whether `predict_at` of several contexts gives, to the last bit, what `predict` of each gives."""
        ...


@runtime_checkable
class SelectivePosterior(Protocol):
    """A posterior of which some actions can be asked alone, for less than all of them take."""

    def predict_of(self, contexts: ArrayLike, actions: NDArray[np.int64]) -> tuple[Array, Array]:
        """Mean and standard deviation of m actions in each of k contexts, (k, m) and (k, m)."""
        ...


def predict_some(posterior: Posterior, contexts: ArrayLike, actions: NDArray[np.int64]) -> tuple[Array, Array]:
    """Mean and deviation of m actions in each of k contexts; one that must be asked about all of them is."""
    if isinstance(posterior, SelectivePosterior):
        return posterior.predict_of(contexts, actions)
    mean, std = posterior.predict_at(contexts)
    return mean[:, actions], std[:, actions]


@runtime_checkable
class SearchedPosterior(Protocol):
    """A posterior of which the lowest bound can be found without a pass over all actions."""

    def lowest(
        self, context: Any, width: float, sign: float = 1.0, allowed: NDArray[np.bool_] | None = None
    ) -> Lowest | None:
        """The allowed action of least sign * mean - width * deviation; None where a pass would be quicker."""
        ...


@runtime_checkable
class JudgingPosterior(Protocol):
    """A posterior that judges how far it can trust each measurement."""

    def weigh(self, action: int, context: Any, y: float) -> float:
        """Learn one measurement and return its weight: 1, less if it is far off, 0 if it is set aside."""
        ...

    @property
    def noise_variance(self) -> float:
        """Variance of the noise of a measurement, in its own unit."""
        ...

    @property
    def widening(self) -> float:
        """Factor, at least 1, by which deviations are multiplied because measurements fell outside them."""
        ...

    @property
    def changes(self) -> int:
        """Number of times that all earlier measurements were discarded, because the costs had changed."""
        ...

    def doubted(self) -> frozenset[Told]:
        """Stored measurements that the posterior does not trust."""
        ...
