"""The width of bounds, and a guard against measurements far outside them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from holdcourse.checks import is_finite
from holdcourse.errors import InvalidInput, shown
from holdcourse.learning.posteriors.protocol import Posterior


@dataclass(frozen=True)
class TheoryWidth:
    """The width of the paper's theory: beta_t = noise_std / sqrt(lambda) * sqrt(2 ln(1/delta) + 2 gamma_t) + B.

    gamma_t is the realised information gain of the data seen, not the largest possible one.

    Parameters
    ----------
    norm_bound
        B: an upper bound on the norm of the cost function, less its prior mean, in the kernel's space.
    delta
        Largest probability with which some bound may fail, over all rounds, actions and contexts together.

    Examples
    --------
    >>> import holdcourse as hc
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> belief = hc.posterior(hc.Problem([0.0, 1.0]), hc.Kernel(RBF(1.0), RBF(1.0)), noise_std=0.1)
    >>> width = hc.TheoryWidth(norm_bound=2.0, delta=0.05)
    >>> round(width.of(belief), 2), round(width.of(belief.condition(0, 0.5, 1.0)), 2)  # it grows with what is learned
    (4.45, 5.26)
    """

    norm_bound: float
    delta: float = 0.05

    def __post_init__(self) -> None:
        if not (is_finite(self.norm_bound) and self.norm_bound > 0):
            raise InvalidInput(f"norm_bound must be positive, got {shown(self.norm_bound)}")
        if not (is_finite(self.delta) and 0 < self.delta < 1):
            raise InvalidInput(f"delta must lie between 0 and 1, got {shown(self.delta)}")
        for name in ("norm_bound", "delta"):
            object.__setattr__(self, name, float(getattr(self, name)))  # 2 and 2.0 must be described alike

    def of(self, posterior: Posterior) -> float:
        """Return beta_t for the data that the posterior has seen."""
        prior = posterior.prior
        return self.after(posterior.information_gain, prior.noise_std, prior.noise_variance)

    def after(self, information_gain: float, noise_std: float, regularisation: float) -> float:
        """Return beta_t for a realised gain; `regularisation` is the lambda of the posterior."""
        gain = 2 * math.log(1 / self.delta) + 2 * information_gain
        return noise_std / math.sqrt(regularisation) * math.sqrt(gain) + self.norm_bound


@dataclass(frozen=True)
class OutlierGuard:
    """A limit on the influence of measurements far from their prediction (Huber's rule).

    Parameters
    ----------
    deviations
        A measurement that is more than this many predicted standard deviations from its prediction counts as if it
        were exactly that far away.

    Examples
    --------
    >>> import holdcourse as hc
    >>> guard = hc.OutlierGuard(deviations=3.0)
    >>> guard.tamed(10.0, mean=0.0, std=1.0)  # what is learned instead, and its weight
    (3.0, 0.3)
    >>> hc.gp_md(hc.Problem([0.0, 1.0]), guard=guard).name
    'GP-MD'
    """

    deviations: float = 6.0

    def __post_init__(self) -> None:
        if not (is_finite(self.deviations) and self.deviations > 0):
            raise InvalidInput(f"deviations must be positive, got {shown(self.deviations)}")
        object.__setattr__(self, "deviations", float(self.deviations))

    def tamed(self, measurement: float, mean: float, std: float) -> tuple[float, float]:
        """Return the value that is learned instead of the measurement, and its weight."""
        surprise, limit = measurement - mean, self.deviations * std
        if abs(surprise) <= limit:
            return measurement, 1.0
        return mean + math.copysign(limit, surprise), limit / abs(surprise)


@dataclass(frozen=True)
class Outlier:
    """A measurement that was down-weighted."""

    action: int
    context: tuple[float, ...]
    measurement: float
    weight: float
