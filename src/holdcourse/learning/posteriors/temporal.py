"""The temporal posterior, for contexts that are time: an exact Kalman filter of a sum of Matérn processes.

========  =========================================================================================  =================
symbol    meaning                                                                                    shape
========  =========================================================================================  =================
phi       action features, phi phi^T is the action covariance; parts with the same one share them    (n, R)
w, P      mean and covariance of the state: per part its derivatives in time, per derivative         (m,), (m, m)
          one number for each feature
mu, M     mean and covariance of the derivatives of all parts at each action                         (D, n), (D, D, n)
eps       prior variance discarded with the smallest features
========  =========================================================================================  =================

A part is a process in time with covariance Matérn 1/2, 3/2 or 5/2, or a static one, times any covariance of the
actions. Such a process is Markov in its value and first derivatives: 1, 2 or 3 numbers for every feature of the
actions. A step of time is discretised exactly, whatever its length, so rounds may be missing or irregular, and several
measurements may share a time. The state has the same size after a year as on the first day, and one measurement costs
O(m^2 + n m). See `_numeric.kalman` for the equations.

**Time runs forward.** Measurements are told in the order of their times, and predictions are for the time of the last
one or later; predicting does not move the state. What came late would need the smoothed past, which is not kept: that
is an error, and the exact and flat methods accept it.

Only the features are truncated; the bound on what this costs is that of `learning.posteriors.flat`, at an eps of 1e-12.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse._numeric.kalman import absorb, forecast
from holdcourse.archive import require_arrays
from holdcourse.errors import InvalidInput, TooLarge, counted, shown
from holdcourse.learning.history import History, check_context, check_contexts, check_measurement
from holdcourse.learning.kernels import AnyKernel, Kernel
from holdcourse.learning.posteriors.basis import principal_features
from holdcourse.learning.posteriors.exact import VARIANCE_FLOOR, Prior, check_tolerance

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

TOLERANCE = 1e-12  # relative prior variance that may be discarded
MAX_STATE = 10_000  # P would take 800 MB
DERIVATIVES = {0.5: 1, 1.5: 2, 2.5: 3}  # by the nu of a Matérn kernel
# Covariance of the derivatives at rest, for variance 1 and derivative j in units of rate^j.
AT_REST = {
    1: np.ones((1, 1)),
    2: np.eye(2),
    3: np.array([[1.0, 0.0, -1.0 / 3.0], [0.0, 1.0 / 3.0, 0.0], [-1.0 / 3.0, 0.0, 1.0]]),
}


def why_not_temporal(kernel: AnyKernel) -> str | None:
    """What keeps a kernel from being a sum of Matérn processes in time; None if it is one."""
    for part in kernel.parts:
        if part.context is None:
            continue
        if type(part.context).__name__ != "Matern" or part.context.nu not in DERIVATIVES:
            return f"its context part {part.context} is not Matern(nu=0.5), Matern(nu=1.5), Matern(nu=2.5) or None"
        if max(map(np.size, (part.context.length_scale, part.context_shift, part.context_scale))) > 1:
            return "its context has several axes, and time is one number"
        if part.context_period is not None:
            return "its context is periodic, and time never comes back"
    return None


@dataclass(frozen=True, eq=False)
class StateSpace:
    """A kernel as a linear system in time; arrays as in `_numeric.kalman`."""

    phi: Array
    layout: Indices
    rates: Array
    spread: Array
    discarded: float  # eps

    @property
    def size(self) -> int:
        """Number of states, m."""
        return int(self.layout[:, 0] @ self.layout[:, 1])

    def at_rest(self) -> tuple[Array, Array]:
        """P and M before the first measurement."""
        P, D = np.zeros((self.size, self.size)), int(self.layout[:, 0].sum())
        M, first = np.zeros((D, D, len(self.phi))), 0
        for (d, r, start, _), (_, variance), spread in zip(self.layout, self.rates, self.spread, strict=True):
            states, derivatives = slice(start, start + d * r), slice(first, first + d)
            P[states, states] = np.kron(variance * AT_REST[d], np.eye(r))
            M[derivatives, derivatives] = AT_REST[d][:, :, None] * spread
            first += d
        return P, M


def state_space(prior: Prior, tolerance: float = TOLERANCE) -> StateSpace:
    """Write a kernel over actions and time as a linear system that discards at most this share of its variance."""
    obstacle = why_not_temporal(prior.kernel)
    if obstacle is not None:
        raise InvalidInput(f'this kernel is not a process in time: {obstacle}; use method "exact" or "flat"')
    known: list[tuple[Array, int, int, float]] = []  # action covariance, first feature, features, eps
    blocks: list[Array] = []
    layout, rates, discarded, start = [], [], 0.0, 0
    for part in prior.kernel.parts:
        covariance = part.action_covariance(prior.problem)
        found = next((entry for entry in known if np.array_equal(entry[0], covariance)), None)
        if found is None:
            phi, left = principal_features(covariance, tolerance)
            found = (covariance, sum(block.shape[1] for block in blocks), phi.shape[1], left)
            known.append(found)
            blocks.append(phi)
        _, column, r, left = found
        d = 1 if part.context is None else DERIVATIVES[part.context.nu]
        layout.append((d, r, start, column))
        rates.append((_rate(part), part.variance))
        discarded += part.variance * left
        start += d * r
    if start > MAX_STATE:
        raise TooLarge(
            f"this kernel needs {counted(start, 'state')} for {counted(prior.problem.n, 'action')}, more than "
            f"{MAX_STATE}; use a smoother action kernel, fewer actions or a larger tolerance"
        )
    phi = np.ascontiguousarray(np.concatenate(blocks, axis=1))
    spread = np.array(
        [v * (phi[:, k : k + r] ** 2).sum(axis=1) for (_, r, _, k), (_, v) in zip(layout, rates, strict=True)]
    )
    return StateSpace(phi, np.array(layout, dtype=np.int64), np.array(rates), spread, discarded)


def _rate(part: Kernel) -> float:
    if part.context is None:
        return 0.0
    length = np.reshape(part.context.length_scale, -1)[0] * np.reshape(part.context_scale, -1)[0]
    return float(math.sqrt(2 * part.context.nu) / length)


ARRAYS = ("mean", "covariance", "action_mean", "action_covariance", "totals", "time")


class TemporalPosterior:
    """The posterior where contexts are times that never go back. See `Posterior`.

    Parameters
    ----------
    prior
        Kernel, prior mean, noise. Every context part is a scikit-learn `Matern` with nu 0.5, 1.5 or 2.5, or None.
    tolerance
        Share of the prior variance that may be discarded with the smallest action features.
    """

    method = "temporal"
    dimension = 1

    def __init__(self, prior: Prior, *, tolerance: float | None = None, reason: str = "asked for") -> None:
        check_tolerance(tolerance)
        self.prior = prior
        self.reason = reason
        self.space = state_space(prior, TOLERANCE if tolerance is None else float(tolerance))
        self._P, self._M = self.space.at_rest()
        self._w, self._mu = np.zeros(len(self._P)), np.zeros(self._M.shape[1:])
        self._totals = np.zeros(3)
        self._time = -math.inf  # of the last measurement
        self._floor = VARIANCE_FLOOR * sum(prior.action_variances)

    @property
    def observations(self) -> int:
        """How many measurements have been told."""
        return int(self._totals[0])

    @property
    def time(self) -> float | None:
        """When the last measurement was made; None before the first. Predictions are for this time or later."""
        return self._time if self.observations else None

    @property
    def log_marginal_likelihood(self) -> float:
        """Log density of the measurements told, each given those before it."""
        t, squares, log_determinant = self._totals.tolist()
        return float(-0.5 * (squares + log_determinant + t * math.log(2 * math.pi)))

    @property
    def information_gain(self) -> float:
        """Realised information gain, 1/2 log det(I + K / lambda), of the measurements told."""
        return max(0.0, 0.5 * (float(self._totals[2]) - self.observations * math.log(self.prior.noise_variance)))

    @property
    def states(self) -> int:
        """Size of the state: all that is kept of the past."""
        return self.space.size

    @property
    def discarded_variance(self) -> float:
        """The eps of the bound: largest prior variance that the kept features miss."""
        return self.space.discarded

    def condition(self, action: int, context: Any, y: float) -> Self:
        """Learn one measurement, made at the time of the last one or later, in place; returns itself."""
        self.prior.problem.check_action(action)
        e = check_context(context, self.dimension)
        y = check_measurement(y)
        now = float(e[0])
        self._require_not_before("a measurement", now)
        excess = y - float(self.prior.mean(e)[action])
        step = now - self._time if self.observations else 0.0
        self._absorb(np.array([step]), np.array([action], dtype=np.int64), np.array([excess]), now)
        return self

    def condition_on(self, history: History) -> Self:
        """Learn many measurements at once, in place; they are put in the order of their times first."""
        history.check(self.prior.problem, self.dimension)
        if not len(history):
            return self
        order = np.argsort(history.contexts[:, 0], kind="stable")
        actions, contexts = history.actions[order], history.contexts[order]
        self._require_not_before("the earliest measurement of the history", float(contexts[0, 0]))
        expected = np.array([self.prior.mean(e)[x] for x, e in zip(actions, contexts, strict=True)])
        times = contexts[:, 0]
        steps = np.diff(times, prepend=self._time if self.observations else times[0])
        self._absorb(steps, actions, history.measurements[order] - expected, float(times[-1]))
        return self

    def predict(self, context: Any) -> tuple[Array, Array]:
        """Mean and standard deviation of every action, (n,) and (n,), now or at a later time."""
        mean, std = self._predict(check_context(context, self.dimension)[None])
        return mean[0], std[0]

    def predict_at(self, contexts: ArrayLike) -> tuple[Array, Array]:
        """Mean and standard deviation of every action at each of k times, (k, n) and (k, n), in one pass."""
        return self._predict(check_contexts(contexts, self.dimension))

    def truncation_bound(self, std: Array) -> Array:
        """Give the B of the bound: the exact deviation lies between `std`, as predicted, and ``std + B``."""
        ratio = math.sqrt(self.observations / self.prior.noise_variance)
        return math.sqrt(self.discarded_variance) * (1.0 + ratio * std)

    def copy(self) -> Self:
        """Make an independent twin."""
        twin = copy.copy(self)  # what the prior fixes is shared
        return twin.restore(self.state())

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything learned, as arrays; their size does not depend on the number of measurements."""
        return {name: array.copy() for name, array in self._arrays().items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` of a posterior made with the same arguments gave; returns itself."""
        require_arrays(arrays, ARRAYS, "a temporal posterior")
        own = {name: array.shape for name, array in self._arrays().items()}
        other = {name: np.shape(arrays[name]) for name in ARRAYS}
        if own != other:
            raise InvalidInput(f"this state belongs to another problem or kernel: its shapes are {other}, not {own}")
        w, P, mu, M, totals, time = (np.array(arrays[name], dtype=np.float64, order="C") for name in ARRAYS)
        if not all(np.isfinite(array).all() for array in (w, P, mu, M)):
            raise InvalidInput("this state is damaged: it contains numbers that are not finite")
        self._w, self._P, self._mu, self._M, self._totals, self._time = w, P, mu, M, totals, float(time)
        return self

    def describe(self) -> dict[str, Any]:
        """What it was made with, in JSON values; equal posteriors give equal descriptions."""
        return {"method": "temporal", **self.prior.describe()}

    def __repr__(self) -> str:
        return (
            f"TemporalPosterior({self.observations} measurements, {self.prior.problem.n} actions, "
            f"{self.states} states, last at {self.time}; temporal because {self.reason})"
        )

    # -- inside --------------------------------------------------------------------------------------------------------

    def _arrays(self) -> dict[str, Array]:
        arrays = (self._w, self._P, self._mu, self._M, self._totals, np.array(self._time))
        return dict(zip(ARRAYS, arrays, strict=True))

    def _require_not_before(self, what: str, time: float) -> None:
        if time < self._time:
            raise InvalidInput(
                f"{what} at time {shown(time)} lies before the last measurement, at {shown(self._time)}; tell "
                "measurements in "
                'the order of their times and predict from the last one on, or use method "exact" or "flat"'
            )

    def _absorb(self, steps: Array, actions: Indices, excess: Array, now: float) -> None:
        """Learn measurements in order, the last one now."""
        space = self.space
        absorb(
            *(self._w, self._P, self._mu, self._M, self._totals),
            *(space.phi, space.spread, space.layout, space.rates, self.prior.noise_variance),
            *(steps, actions, excess, np.empty_like(self._mu)),
        )
        self._time = now

    def _predict(self, contexts: Array) -> tuple[Array, Array]:
        """Mean and standard deviation at times (k, 1) that were checked."""
        if len(contexts):
            self._require_not_before("a prediction", float(contexts.min()))
        space, mean = self.space, self.prior.means(contexts)
        variance = np.empty_like(mean)
        ahead = contexts[:, 0] - self._time if self.observations else np.zeros(len(contexts))
        forecast(self._mu, self._M, space.spread, space.layout, space.rates, ahead, mean, variance)
        return mean, np.sqrt(np.maximum(variance, self._floor))
