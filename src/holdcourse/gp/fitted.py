"""A posterior that finds its own kernel: ``kernel="auto"``.

Kernel, noise and prior mean are fitted to the first measurement, the second, the fourth, and so on, with bounded work
(`Refitter`). A fit that changes little is ignored, so that everything learned stays. One that changes much starts a
new posterior from the measurements that the refitter keeps: all of them up to its capacity, then the newest ones and a
sample of the older.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.fitting import Fit, Refitter, fit_from_json, fit_to_json
from holdcourse.gp.around import DelegatingPosterior
from holdcourse.gp.prior import Prior, PriorMean, describe_mean
from holdcourse.gp.protocol import Posterior
from holdcourse.history import History, require_squarable
from holdcourse.kernels import AnyKernel, Kernel
from holdcourse.named_arrays import prefixed, under
from holdcourse.problem import Problem

Array: TypeAlias = NDArray[np.float64]

FIRST_NOISE = 0.1  # until there is something to fit
WORTHWHILE = 1.1  # a fit is taken over when some parameter changes by this factor
FIRST_FIT = 1


class FittedPosterior(DelegatingPosterior):
    """Fits kernel, noise and prior mean as measurements come in. See `Posterior`.

    Parameters
    ----------
    choose
        Makes a posterior from a prior: the choice of method.
    noise_std, prior_mean
        Held fixed where given.
    """

    def __init__(
        self,
        problem: Problem,
        choose: Callable[[Prior], Posterior],
        noise_std: float | None = None,
        prior_mean: PriorMean | None = None,
    ) -> None:
        self._choose, self._noise_std, self._prior_mean = choose, noise_std, prior_mean
        self._refitter = Refitter(problem, noise_std=noise_std, prior_mean=prior_mean, first=FIRST_FIT)
        self._problem = problem
        self._fit: Fit | None = None
        self._inner = choose(self._prior())
        self._first_method = self._inner.describe()["method"]

    @property
    def fit(self) -> Fit | None:
        """The fit in use; None before the first measurement."""
        return self._fit

    @property
    def prior(self) -> Prior:
        """Kernel, noise and prior mean in use."""
        return self._inner.prior

    @property
    def reason(self) -> str:
        """Why it computes in that way."""
        return f"{self._inner.reason}; kernel fitted to {self._fit.points_used if self._fit else 0} measurements"

    @property
    def observations(self) -> int:
        """How many measurements have been told."""
        return self._refitter.observations

    def condition(self, action: int, context: Any, y: float) -> Self:
        """Learn one measurement, and fit again when it is time; returns itself."""
        measured = self._refitter.checked(action, context, y)  # what no fit can use is refused before all changes
        self._inner.condition(*measured)
        if self._refitter.keep(measured):
            self._take_over(self._refitter.refit())
        return self

    def condition_on(self, history: History) -> Self:
        """Learn many measurements; fits once, at the end."""
        history.check(self._problem, None)
        require_squarable(history.measurements, "measurements")
        require_squarable(history.contexts, "contexts")
        self._inner.condition_on(history)
        due = [
            self._refitter.add(int(action), context, float(y))
            for action, context, y in zip(history.actions, history.contexts, history.measurements, strict=True)
        ]
        if any(due):
            self._take_over(self._refitter.refit(), history)
        return self

    def copy(self) -> FittedPosterior:
        """Make an independent twin."""
        twin = FittedPosterior(self._problem, self._choose, self._noise_std, self._prior_mean)
        return twin.restore(self.state())

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything learned, as arrays."""
        fit = {"fit": np.frombuffer(fit_to_json(self._fit).encode(), dtype=np.uint8)}
        return prefixed("refitter.", self._refitter.state()) | fit | prefixed("inner.", self._inner.state())

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` of a posterior made with the same arguments gave; returns itself."""
        self._refitter.restore(under("refitter.", arrays))
        self._fit = fit_from_json(np.asarray(arrays["fit"], dtype=np.uint8).tobytes().decode(), self._prior_mean)
        self._inner = self._choose(self._prior()).restore(under("inner.", arrays))
        return self

    def describe(self) -> dict[str, Any]:
        """What it was made with, in JSON values."""
        mean = None if self._prior_mean is None else describe_mean(self._prior_mean)
        return {"kernel": "auto", "noise_std": self._noise_std, "prior_mean": mean, "inner": self._first_method}

    def __repr__(self) -> str:
        return f"FittedPosterior({self._fit!r}, now {self._inner!r})"

    def _prior(self) -> Prior:
        if self._fit is not None:
            return Prior(self._problem, self._fit.kernel, self._fit.noise_std, self._fit.prior_mean)
        noise_std = FIRST_NOISE if self._noise_std is None else self._noise_std
        return Prior(
            self._problem,
            _first_kernel(self._problem),
            noise_std,
            0.0 if self._prior_mean is None else self._prior_mean,
        )

    def _take_over(self, fit: Fit, history: History | None = None) -> None:
        """Start anew under the fit, if it is much different from the one in use."""
        if self._fit is not None and not _worthwhile(self._fit, fit):
            return
        self._fit = fit
        inner = self._choose(self._prior())
        everything = history is not None and len(history) == self._refitter.observations
        inner.condition_on(history if everything and history is not None else self._refitter.kept)
        self._inner = inner


def _worthwhile(old: Fit, new: Fit) -> bool:
    if old.parameters.keys() != new.parameters.keys():
        return True
    factors = [new.parameters[name] / old.parameters[name] for name in old.parameters if old.parameters[name] > 0]
    return any(not 1 / WORTHWHILE < factor < WORTHWHILE for factor in factors)


def _first_kernel(problem: Problem) -> AnyKernel:
    """The kernel before the first measurement: neighbours are alike, contexts make no difference yet."""
    from sklearn.gaussian_process.kernels import RBF

    extent = np.ptp(problem.actions, axis=0)
    return Kernel(RBF(np.where(extent > 0, extent, 1.0) / 4))
