"""What a posterior that wraps another one delegates to it."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.gp.protocol import Posterior

Array: TypeAlias = NDArray[np.float64]


class DelegatingPosterior:
    """Answers questions by the posterior inside it; how that one changes is for the subclass to say."""

    _inner: Posterior

    @property
    def method(self) -> str:
        """The method by which it computes at present."""
        return self._inner.method

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
