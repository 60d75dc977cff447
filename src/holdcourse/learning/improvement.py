"""What settings that are not on the list could save: asked of what was learned from those that are.

A posterior answers for the settings of its problem. Here its kernel and its measurements are put on a problem with more
settings, and each of these is compared with the best of the old ones, context by context.

======  ========================================================================  =========
symbol  meaning                                                                   shape
======  ========================================================================  =========
b       best setting of the old ones in a context, by expected cost
mu      expected cost of a setting, less that of b                                (k, n)
s       deviation of that difference, widened as the posterior's bounds are       (k, n)
======  ========================================================================  =========

**Of the difference.** What all settings of a round have in common says nothing about which is better, so the deviation
is that of the difference and not that of each cost. It takes the covariance, which a `Posterior` does not give, so the
equations of the exact one are solved here.

**Expected improvement.** E[max(-difference, 0)], the usual one where costs are learned, and that of a lognormal cost
where logarithms are. Where even the bound is no better than b, it is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr as normal_share  # below a value

from holdcourse.errors import InvalidInput, TooLarge, counted
from holdcourse.learning.confidence import TheoryWidth
from holdcourse.learning.costs import LowerBound
from holdcourse.learning.history import History
from holdcourse.learning.kernels import MATRIX_ACTIONS, AnyKernel
from holdcourse.learning.posteriors.exact import Prior
from holdcourse.learning.posteriors.fitted import FittedPosterior
from holdcourse.movement.problem import Problem

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

MOST_MEASUREMENTS = 600  # looked at, spread over all there are: the equations take the cube of it
MOST_CONTEXTS = 64  # in which settings are compared, spread over all there were
PROBES = 512  # along an axis, on which the correlation is looked at
FALLEN = math.exp(-0.5)  # correlation at one length scale, of an RBF kernel
ALIKE = 1e-9  # correlations that near to 1 do not fall
LARGEST_EXPONENT = 50.0  # where ratios of costs have no meaning any more


@dataclass(frozen=True, eq=False)
class Belief:
    """What was learned of the cost, in a form that can be asked about settings which are not on the list yet.

    Attributes
    ----------
    kernel, prior_mean, noise_variance
        Of the cost, or of its logarithm where `log` says so.
    past
        The measurements that are believed, in the same unit.
    widening, width
        Factor on deviations that the measurements have shown to be needed; deviations to the bounds.
    level
        The usual size of a cost, where logarithms are learned; else 1.
    maximise
        Measurements are gains.
    """

    kernel: AnyKernel
    prior_mean: float | Callable[..., Any]
    noise_variance: float
    past: History
    log: bool
    widening: float
    width: float
    level: float
    maximise: bool

    @classmethod
    def of(cls, model: LowerBound, past: History, prior_mean: Any) -> Belief:
        """What a model has learned of a history; `prior_mean` is what it was given, if it was."""
        posterior = model.posterior
        width = model.width.of(posterior) if isinstance(model.width, TheoryWidth) else model.width
        log, widening, level = False, 1.0, 1.0
        if isinstance(posterior, FittedPosterior):
            if posterior.fit is None:
                raise InvalidInput(
                    f"the costs between the settings cannot be estimated from {counted(len(past), 'measurement')}; "
                    "refine after more rounds"
                )
            log, widening, past = posterior.log, posterior.widening, posterior.believed()
            prior_mean = posterior.fit.prior_mean
            level = float(np.exp(np.median(past.measurements))) if log else 1.0
        if not (callable(prior_mean) or np.ndim(prior_mean) == 0):
            raise InvalidInput(
                "prior_mean has a number for each setting, but none for the settings in between; give one number for "
                "all, or a function of the settings"
            )
        prior = posterior.prior
        if any(isinstance(part.action, np.ndarray) for part in prior.kernel.parts):
            raise InvalidInput(
                "the kernel has the covariance of the settings as a matrix, which does not cover the settings in "
                "between; give a kernel such as RBF(0.2)"
            )
        spread = np.linspace(0, len(past) - 1, min(len(past), MOST_MEASUREMENTS)).astype(int)
        some = History(past.actions[spread], past.contexts[spread], past.measurements[spread])
        mean = prior_mean if callable(prior_mean) else float(prior_mean)
        return cls(prior.kernel, mean, prior.noise_variance, some, log, widening, width, level, model.maximise)

    @property
    def contexts(self) -> Array:
        """Contexts of the past, as often as they were, or some of them spread over all; (k, d)."""
        spread = np.linspace(0, len(self.past) - 1, min(len(self.past), MOST_CONTEXTS)).astype(int)
        some: Array = self.past.contexts[spread]
        return some

    def along(self, problem: Problem, axis: int) -> tuple[float, float] | None:
        """Length scale and deviation of the cost along an axis, the latter as a cost; None where it does not matter.

        The length scale is the distance at which the correlation has fallen to exp(-1/2), of the quickest part of the
        kernel; that is the one of an RBF kernel, and for others what resembles it.
        """
        knobs = problem.knobs
        column = axis if knobs is None else sum(knob.features.shape[1] for knob in knobs[:axis])
        values = problem.features[:, column]
        points = np.repeat(problem.features[:1], PROBES + 1, axis=0)
        points[:, column] = np.linspace(values.min(), values.max(), PROBES + 1)
        away = points[:, column] - points[0, column]
        lengths, variance = [], 0.0
        for part in self.kernel.parts:
            inputs = part.action_inputs(points)
            own = np.asarray(part.action.diag(inputs), dtype=np.float64)
            alike = np.asarray(part.action(inputs[:1], inputs), dtype=np.float64)[0] / np.sqrt(own[0] * own)
            if not alike.min() < 1.0 - ALIKE:
                continue  # what all settings have in common
            variance += part.variance * float(own.max() * part.context_variances(self.contexts).max())
            fallen = np.flatnonzero(alike < FALLEN)
            first = int(fallen[0]) if len(fallen) else PROBES
            lengths.append(float(away[first]) / math.sqrt(-2.0 * math.log(max(float(alike[first]), 1e-300))))
        return (min(lengths), math.sqrt(variance) * self.level) if lengths else None

    def compared(self, problem: Problem, places: Indices) -> Comparison:
        """Compare all settings of a finer problem with the old ones, of which `places` says where they are in it."""
        if problem.n > MATRIX_ACTIONS:
            raise TooLarge(
                f"{problem.n:,} settings would have to be compared, but at most {MATRIX_ACTIONS:,} can be; give "
                "within= to say where to refine, or allow a larger loss"
            )
        from scipy.linalg import cho_factor, cho_solve, solve_triangular

        prior = Prior(problem, self.kernel, math.sqrt(self.noise_variance), self.prior_mean)
        parts, among = self.kernel.parts, prior.action_covariances
        past, taken, contexts = self.past, places[self.past.actions], self.contexts
        rows = [matrix[taken] for matrix in among]
        covariance = sum(
            row[:, taken] * part.context_covariance(past.contexts) for row, part in zip(rows, parts, strict=True)
        )
        factor = cho_factor(covariance + prior.noise_variance * np.eye(len(past)), lower=True)
        off = past.measurements - prior.means(past.contexts)[np.arange(len(past)), taken]
        weights = cho_solve(factor, off)
        precisions = np.diag(cho_solve(factor, np.eye(len(past))))
        # Each measurement beside what the others make of it: how much too narrow the deviations are, if they are.
        widening = max(self.widening, math.sqrt(float(np.mean(weights**2 / precisions))))
        expected, deviations = np.empty((len(contexts), problem.n)), np.empty((len(contexts), problem.n))
        best = np.empty(len(contexts), dtype=np.int64)
        sign = -1.0 if self.maximise else 1.0
        for k, context in enumerate(contexts):
            at = [part.context_covariance(past.contexts, context[None]) for part in parts]
            cross = sum(row * near for row, near in zip(rows, at, strict=True))
            expected[k] = prior.mean(context) + weights @ cross
            best[k] = b = places[int(np.argmin(sign * expected[k, places]))]
            known = solve_triangular(factor[0], cross, lower=True)
            here = [float(part.context_variances(context[None])[0]) for part in parts]
            own, beside = np.zeros(problem.n), np.zeros(problem.n)
            for matrix, share in zip(among, here, strict=True):
                own += share * np.diag(matrix)
                beside += share * matrix[b]
            variance = own + own[b] - 2.0 * beside - ((known - known[:, [b]]) ** 2).sum(axis=0)
            deviations[k] = widening * np.sqrt(np.maximum(variance, 0.0))
        return Comparison(self, expected, best, deviations)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Settings of a finer problem beside the best of the old ones in each of k contexts.

    Attributes
    ----------
    expected
        In the unit in which is learned, (k, n).
    best
        The best old setting, (k,).
    deviations
        Of the difference to it, (k, n).
    """

    belief: Belief
    expected: Array
    best: Indices
    deviations: Array

    def improvement(self) -> Array:
        """What each setting is expected to save in a round, where it is the better one; as a cost, (k, n)."""
        sign = -1.0 if self.belief.maximise else 1.0
        mu, s = self._differences(), self.deviations
        possible = sign * mu < self.belief.width * s
        s = np.where(s > 0, s, 1.0)
        if self.belief.log:
            larger = np.exp(np.minimum(mu + 0.5 * s**2, LARGEST_EXPONENT))  # expected ratio of the two costs
            saved = sign * (normal_share(-sign * mu / s) - larger * normal_share(-sign * (mu / s + s)))
            saved *= self._levels()[:, None]
        else:
            saved = s * np.exp(-((mu / s) ** 2) / 2) / math.sqrt(2 * math.pi) - sign * mu * normal_share(-sign * mu / s)
        return np.where(possible, np.maximum(saved, 0.0), 0.0)

    def gain(self, settings: Indices) -> float:
        """What having these settings too saves a round by expected costs alone, in the mean over the contexts."""
        sign = -1.0 if self.belief.maximise else 1.0
        best = sign * (sign * self._differences()[:, settings]).min(axis=1, initial=0.0)
        saved = -np.expm1(best) * self._levels() if self.belief.log else -best
        return float((sign * saved).mean())

    def _differences(self) -> Array:
        return self.expected - self.expected[np.arange(len(self.best)), self.best][:, None]

    def _levels(self) -> Array:
        """What the best old setting costs in each context, where logarithms are learned; (k,)."""
        return np.exp(self.expected[np.arange(len(self.best)), self.best])
