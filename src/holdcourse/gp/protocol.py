"""What every posterior can do, whichever way it computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.gp.prior import Prior
from holdcourse.history import History

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


def predict_each(predict: Callable[[Array], tuple[Array, Array]], contexts: Array, n: int) -> tuple[Array, Array]:
    """`Posterior.predict_at` by one prediction of n actions for each of the contexts (k, d), which were checked."""
    predictions = [predict(context) for context in contexts]
    mean, std = (np.array([pair[k] for pair in predictions]).reshape(len(contexts), n) for k in range(2))
    return mean, std
