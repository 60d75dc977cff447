"""The flat posterior: Bayesian linear regression on a product basis, whose cost does not grow with measurements.

======  ==============================================================================================  ============
symbol  meaning                                                                                         shape
======  ==============================================================================================  ============
w, S    mean and covariance of the weights; prior 0 and I. S is kept as its lower triangle              (m,), (m, m)
phi     features of one action in one context                                                           (m,)
g, s    S phi and lambda + phi S phi of the last measurement: S - g g^T / s is still to be made         (m,), ()
psi     features of a context                                                                           (J,)
Phi     features of the actions                                                                         (n, r)
a       forgetting factor: before each measurement w <- a w and S <- a^2 S + (1 - a^2) I
======  ==============================================================================================  ============

The basis is that of `learning.posteriors.basis`. One decision reads and writes S once (`predict`, which also makes the
pending rank-1 change) and reads it once more (`condition`): two passes over half a symmetric matrix are less traffic
than one fused pass over all of it, and half the state. BLAS and LAPACK do this better than our own loops. Arrays are in
row order here and in column order there: the lower triangle of S is the upper one of S.T.

**What truncation costs.** With k = k_hat + R, R positive semidefinite and eps = sup R, the exact deviation lies between
the one predicted and that plus B = sqrt(eps) (1 + sqrt(t) std / sqrt(lambda)), and the root mean square error of the
mean over the prior is at most B. It is loose. See `truncation_bound`.

**A context that is not covered** loses nothing in `predict`: the prior variance that the basis misses there is added
back. `condition` grows the basis first (see `learning.posteriors.basis`): a declared or growing box is widened, a list
gets one context more. Measurements from before then enter with an error of variance eps, so the upper half of the bound
still holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dsymm, dsyrk, dtrmm
from scipy.linalg.lapack import dpotrf

from holdcourse._numeric.gp import multiply, settle, sweep, sweep_each
from holdcourse.archive import require_arrays
from holdcourse.checks import is_finite
from holdcourse.errors import InvalidInput, counted, shown
from holdcourse.learning.history import History, check_context, check_contexts, check_measurement
from holdcourse.learning.posteriors.basis import Layout, require_sound
from holdcourse.learning.posteriors.exact import Prior, logger, predict_each
from holdcourse.learning.posteriors.lowest import FeatureBoxes, Lowest

Array: TypeAlias = NDArray[np.float64]

TOGETHER_ACTIONS = 8_192  # whose variances are made at once
JITTERS = (0.0, 1e-11, 1e-9)  # of the largest entry on the diagonal, beyond what `sweep` has added


def variances(X: Array, columns: Array) -> Array:
    """Variances Phi_x X Phi_x^T for the columns Phi_x (r, n) of all actions, X (r, r) given by its lower triangle.

    Through a Cholesky factor of X, so that none is negative.
    """
    if not len(X):
        return np.zeros(columns.shape[1])
    for jitter in JITTERS:
        shifted = X.T.copy(order="F")
        if jitter:
            shifted.reshape(-1, order="F")[:: len(X) + 1] += jitter * X.diagonal().max()
        U, failed = dpotrf(shifted, lower=0, clean=0, overwrite_a=1)
        if not failed:
            found = np.empty(columns.shape[1])
            for begin in range(0, columns.shape[1], TOGETHER_ACTIONS):
                block = slice(begin, begin + TOGETHER_ACTIONS)
                half = dtrmm(1.0, U, columns[:, block], lower=0)
                found[block] = np.einsum("ix,ix->x", half, half)
            return found
        logger.debug("covariance is singular with jitter %g of its largest entry", jitter)
    logger.warning("covariance is far from positive; its negative part is set to 0")
    values, vectors = np.linalg.eigh(np.tril(X) + np.tril(X, -1).T)
    half = np.sqrt(np.maximum(values, 0.0))[:, None] * (vectors.T @ columns)
    return np.asarray(np.einsum("ix,ix->x", half, half))


def variances_each(Xs: Array, columns: Array) -> Array:
    """`variances` of several X, (k, r, r), to the last bit: what can be done for all of them at once is."""
    factors, halves = (
        Xs.copy(order="C"),
        np.repeat(columns.T[None], len(Xs), axis=0),
    )  # as above, in column order: transposed
    failed = []
    for k in range(len(Xs)):
        U, info = dpotrf(factors[k].T, lower=0, clean=0, overwrite_a=1)
        if info:
            failed.append(k)
        else:
            halves[k] = dtrmm(1.0, U, halves[k].T, lower=0, overwrite_b=1).T
    found: Array = np.einsum("kxi,kxi->kx", halves, halves)
    for k in failed:
        found[k] = variances(Xs[k], columns)
    return found


def add_batch(S: Array, w: Array, F: Array, excess: Array, noise_variance: float) -> tuple[float, float]:
    """Condition weights on measurements with features F (b, m): their mean w and covariance S change in place.

    Of S the lower triangle counts. Returns what they add to the log likelihood and to the information gain.
    """
    b = len(F)
    if not b:
        return 0.0, 0.0
    SF = dsymm(1.0, S.T, F.T, lower=0)
    L = np.linalg.cholesky(F @ SF + noise_variance * np.eye(b))
    V = solve_triangular(L, SF.T, lower=True)  # (b, m): S <- S - V^T V
    z = solve_triangular(L, excess - F @ w, lower=True)
    w += z @ V
    dsyrk(-1.0, V.T, beta=1.0, c=S.T, lower=0, overwrite_c=1)
    log_determinant = 2.0 * float(np.log(np.diagonal(L)).sum())
    likelihood = -0.5 * (float(z @ z) + log_determinant + b * math.log(2 * math.pi))
    return likelihood, 0.5 * (log_determinant - b * math.log(noise_variance))


def transferred(w: Array, S: Array, B: Array) -> tuple[Array, Array]:
    """Mean and covariance of new weights v, prior covariance I, from measurements that saw the old weights as B v.

    In the information S^-1 - I that they hold; by eigenvalues, so that it cannot become negative.
    """
    values, U = np.linalg.eigh(np.tril(S) + np.tril(S, -1).T)
    values = np.clip(values, 1e-15, 1.0)
    BU = B.T @ U
    precision = np.eye(B.shape[1]) + (BU * (1.0 / values - 1.0)) @ BU.T
    half = solve_triangular(np.linalg.cholesky(precision), np.eye(len(precision)), lower=True)
    covariance = half.T @ half
    return covariance @ (BU @ ((U.T @ w) / values)), covariance


def packed(S: Array) -> Array:
    """The lower triangle, row after row."""
    return S[np.tril_indices(len(S))]


def unpacked(values: Array) -> Array:
    """The matrix whose lower triangle this is; zeros above."""
    m = (math.isqrt(8 * len(values) + 1) - 1) // 2
    S = np.zeros((m, m))
    S[np.tril_indices(m)] = values
    return S


BATCH = 256  # history is learned in blocks of this many
TOGETHER = 1 << 18  # numbers that are held for contexts predicted together
CACHED_CONTEXTS = 1024
ARRAYS = ("weights", "covariance", "observations", "log_likelihood", "gain")


class FlatPosterior:
    """A posterior with a fixed number of weights, whatever the number of measurements. See `Posterior`.

    Parameters
    ----------
    prior
        Kernel, prior mean, noise.
    layout
        The basis; see `learning.posteriors.basis`.
    forgetting
        1 keeps every measurement at full weight; slightly less lets old ones fade by this factor per measurement.
    """

    method = "flat"

    predicts_alike = True  # `predict_at` gives, to the last bit, what `predict` of each context gives

    def __init__(self, prior: Prior, layout: Layout, *, forgetting: float = 1.0, reason: str = "asked for") -> None:
        if not (is_finite(forgetting) and 0.0 < forgetting <= 1.0):
            raise InvalidInput(f"forgetting must be above 0 and at most 1 (1 forgets nothing), got {shown(forgetting)}")
        self.prior = prior
        self.layout = layout
        self.forgetting = float(forgetting)
        self.reason = reason
        self._w = np.zeros(layout.size)
        self._S = np.eye(layout.size)
        self._g = np.zeros(layout.size)
        self._c = 0.0  # 1 / s while a change is pending
        self._observations = 0
        self._log_likelihood = 0.0
        self._gain = 0.0
        self._boxes: FeatureBoxes | None = None  # made when somebody asks for the lowest bound alone
        self._prepare()

    @property
    def observations(self) -> int:
        """How many measurements have been told."""
        return self._observations

    @property
    def log_marginal_likelihood(self) -> float:
        """Log density of the measurements told, each given those before it."""
        return self._log_likelihood

    @property
    def information_gain(self) -> float:
        """Realised information gain, 1/2 log det(I + K / lambda), of the measurements told."""
        return self._gain

    @property
    def features(self) -> int:
        """Number of weights."""
        return self.layout.size

    @property
    def discarded_variance(self) -> float:
        """The eps of the bound: largest prior variance that the basis misses on the contexts it covers."""
        return self.layout.discarded * self.prior.scale

    def condition(self, action: int, context: Any, y: float) -> Self:
        """Learn one measurement, in place; returns itself."""
        self.prior.problem.check_action(action)
        e = check_context(context, self.layout.dimension)
        y = check_measurement(y)
        excess = y - float(self.prior.mean(e)[action])
        self._grown(e)
        psi, _ = self._features(e)

        a = self.forgetting
        phi = self.layout.product(psi, self._Phi[action])
        g = np.empty(len(phi))
        self._flush()
        multiply(self._S, a * a, phi, g)
        if a < 1.0:
            self._w *= a
        s = self.prior.noise_variance + max(float(phi @ g), 0.0)
        surprise = excess - float(phi @ self._w)
        self._w += g * (surprise / s)
        self._g, self._c = g, 1.0 / s
        self._observations += 1
        self._log_likelihood -= 0.5 * (surprise * surprise / s + math.log(2 * math.pi * s))
        self._gain += 0.5 * math.log(s / self.prior.noise_variance)
        return self

    def condition_on(self, history: History) -> Self:
        """Learn many measurements at once, in place: block by block, equal to one by one up to rounding."""
        history.check(self.prior.problem, self.layout.dimension)
        if self.forgetting < 1.0:
            for action, context, y in zip(history.actions, history.contexts, history.measurements, strict=True):
                self.condition(action, context, y)
            return self
        excess = history.measurements - np.array(
            [self.prior.mean(e)[x] for x, e in zip(history.actions, history.contexts, strict=True)]
        )
        self._cover(history.contexts)
        self._flush()
        for begin in range(0, len(history), BATCH):
            block = slice(begin, begin + BATCH)
            F = self.layout.products(history.contexts[block], self._Phi[history.actions[block]])
            likelihood, gain = add_batch(self._S, self._w, F, excess[block], self.prior.noise_variance)
            self._log_likelihood += likelihood
            self._gain += gain
        self._observations += len(history)
        return self

    def predict(self, context: Any) -> tuple[Array, Array]:
        """Mean and standard deviation of the cost of every action in this context, (n,) and (n,)."""
        return self._predict(check_context(context, self.layout.dimension))

    def predict_at(self, contexts: ArrayLike) -> tuple[Array, Array]:
        """Mean and standard deviation of every action in each of k contexts, (k, n) and (k, n)."""
        rows = check_contexts(contexts, self.layout.dimension)
        if self.prior.problem.n > TOGETHER_ACTIONS:
            return predict_each(self._predict, rows, self.prior.problem.n)
        mean, std = np.empty((len(rows), self.prior.problem.n)), np.empty((len(rows), self.prior.problem.n))
        n, r = self._Phi.shape
        many = max(1, min(BATCH, TOGETHER // max(r * (r + n), 1)))
        for begin in range(0, len(rows), many):
            block = slice(begin, begin + many)
            mean[block], std[block] = self._predicted_each(rows[block])
        return mean, std

    def predict_of(self, contexts: ArrayLike, actions: NDArray[np.int64]) -> tuple[Array, Array]:
        """Mean and standard deviation of m actions in each of k contexts, (k, m) and (k, m)."""
        rows = check_contexts(contexts, self.layout.dimension)
        Phi = self._Phi[actions]
        columns = np.asfortranarray(Phi.T)
        mean, variance = self.prior.means_of(rows, actions), np.empty((len(rows), len(actions)))
        for k, e in enumerate(rows):
            psi, missed = self._features(e)
            self._swept(psi)
            mean[k] += Phi @ self._v
            variance[k] = variances(self._X, columns) + (0.0 if missed is None else missed[actions])
        return mean, np.sqrt(variance)

    def lowest(
        self, context: Any, width: float, sign: float = 1.0, allowed: NDArray[np.bool_] | None = None
    ) -> Lowest | None:
        """Return the allowed action of least sign * mean - width * deviation without a pass over all actions.

        None where that would be slower, or cannot be done: see `learning.posteriors.lowest`.
        """
        e = check_context(context, self.layout.dimension)
        points, mean = self.prior.problem.points, self.prior.mean(e)
        psi, missed = self._features(e)
        if points is None or missed is not None or mean.min() < mean.max():
            return None
        if self._boxes is None:
            self._boxes = FeatureBoxes.of(points, self._Phi)
        self._swept(psi)
        found = self._boxes.lowest(self._X, self._v, width, sign, allowed)
        return None if found is None else replace(found, cost=found.cost + sign * float(mean[0]))

    def truncation_bound(self, std: Array) -> Array:
        """Give the B of the bound: the exact deviation lies between `std`, as predicted, and ``std + B``."""
        ratio = math.sqrt(self._observations / self.prior.noise_variance)
        return math.sqrt(self.discarded_variance) * (1.0 + ratio * std)

    def copy(self) -> Self:
        """Make an independent twin."""
        twin = type(self)(self.prior, self.layout.copy(), forgetting=self.forgetting, reason=self.reason)
        return twin.restore(self.state())

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything learned, and the basis it is written in, as arrays; their size does not depend on t."""
        self._flush()  # asking before or after saving must give the same bits
        own = {
            "weights": self._w.copy(),
            "covariance": packed(self._S),
            "observations": np.array(self._observations),
            "log_likelihood": np.array(self._log_likelihood),
            "gain": np.array(self._gain),
        }
        return own | self.layout.state()

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` of a posterior made with the same arguments gave; returns itself."""
        require_arrays(arrays, ARRAYS, "a flat posterior")
        self.layout.restore(arrays)
        m = self.layout.size
        if len(arrays["weights"]) != m or len(arrays["covariance"]) != m * (m + 1) // 2:
            raise InvalidInput(
                f"this state is damaged: it has {counted(len(arrays['weights']), 'weight')} for a basis of {m}"
            )
        self._w, self._S = np.array(arrays["weights"]), unpacked(arrays["covariance"])
        require_sound(self._w, self._S)
        self._g, self._c = np.zeros(m), 0.0
        self._observations = int(arrays["observations"])
        self._log_likelihood, self._gain = float(arrays["log_likelihood"]), float(arrays["gain"])
        self._prepare()
        return self

    def describe(self) -> dict[str, Any]:
        """What it was made with, in JSON values; equal posteriors give equal descriptions."""
        return {"method": "flat", "forgetting": self.forgetting, **self.prior.describe()}

    def __repr__(self) -> str:
        fading = f", forgetting {self.forgetting:g}" if self.forgetting < 1.0 else ""
        return (
            f"FlatPosterior({self.observations} measurements, {self.prior.problem.n} actions, {self.features} weights, "
            f"{self.layout.discarded:.1e} of the prior variance discarded{fading}; flat because {self.reason})"
        )

    # -- inside --------------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Buffers and caches that depend on the basis."""
        self._Phi = self.layout.action_features()
        self._columns = np.asfortranarray(self._Phi.T)
        self._X = np.zeros((self._Phi.shape[1], self._Phi.shape[1]))
        self._v = np.zeros(self._Phi.shape[1])
        self._known: dict[bytes, tuple[Array, Array | None]] = {}
        self._boxes = None

    def _features(self, e: Array) -> tuple[Array, Array | None]:
        """Features of a context and the prior variance, per action, that they miss; None where it is covered."""
        key = e.tobytes()
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= CACHED_CONTEXTS:
                self._known.clear()
            found = self._known[key] = self.layout.features(e)
        return found

    def _predict(self, e: Array) -> tuple[Array, Array]:
        return self._predicted(e, *self._features(e))

    def _predicted(self, e: Array, psi: Array, missed: Array | None) -> tuple[Array, Array]:
        self._swept(psi)
        variance = variances(self._X, self._columns)
        return self.prior.mean(e) + self._Phi @ self._v, np.sqrt(variance if missed is None else variance + missed)

    def _swept(self, psi: Array) -> None:
        """Make the pending change, and leave in X and v what the weights say of a context with these features."""
        sweep(self._S, self._g, self._c, psi, self.layout.start, self.layout.column, self._w, self._X, self._v)
        self._c = 0.0

    def _predicted_each(self, contexts: Array) -> tuple[Array, Array]:
        """`_predict` of each of the contexts (k, d), to the last bit, in as few calls as that allows."""
        psis, missed = self._features_each(contexts)
        n, r = self._Phi.shape
        Xs, vs = np.empty((r, r, len(contexts))), np.empty((r, len(contexts)))
        sweep_each(self._S, self._g, self._c, psis, self.layout.start, self.layout.column, self._w, Xs, vs)
        self._c = 0.0
        variance = variances_each(Xs.transpose(2, 0, 1), self._columns) if r else np.zeros((len(contexts), n))
        for k, more in missed:
            variance[k] += more
        excess = np.matmul(self._Phi, np.ascontiguousarray(vs.T)[:, :, None])[:, :, 0]  # a product for each context
        return self.prior.means(contexts) + excess, np.sqrt(variance)

    def _features_each(self, contexts: Array) -> tuple[Array, list[tuple[int, Array]]]:
        """Features (J, k) of contexts (k, d), and which of them miss how much of the prior variance."""
        keys = [e.tobytes() for e in contexts]
        found = [self._known.get(key) for key in keys]
        new = [k for k, features in enumerate(found) if features is None]
        if new:
            for k, psi, missed in zip(new, *self.layout.features_each(contexts[new]), strict=True):
                found[k] = psi, missed
                if len(self._known) < CACHED_CONTEXTS:
                    self._known[keys[k]] = psi, missed
        known = [features for features in found if features is not None]
        psis = np.array([psi for psi, _ in known]).T
        return np.ascontiguousarray(psis), [(k, more) for k, (_, more) in enumerate(known) if more is not None]

    def _flush(self) -> None:
        """Make the pending change now."""
        if self._c:
            settle(self._S, self._g, self._c)
            self._c = 0.0

    def _cover(self, contexts: Array) -> None:
        """Grow the basis where these contexts need it, and write what was learned in the new one."""
        k = 0
        while k < len(contexts):
            block = contexts[k : k + BATCH]
            place = next((i for i in np.flatnonzero(self._suspects(block)) if self._grown(block[i])), None)
            k += len(block) if place is None else int(place) + 1  # a new basis: those after it are looked at again

    def _suspects(self, contexts: Array) -> NDArray[np.bool_]:
        return self.layout.suspects(contexts) if len(contexts) > 1 else np.ones(len(contexts), dtype=bool)

    def _grown(self, e: Array) -> bool:
        """Cover one context; returns whether the basis was changed for it."""
        B = None if self._features(e)[1] is None else self.layout.cover(e)
        if B is None:
            return False
        self._flush()
        self._w, self._S = transferred(self._w, self._S, B)
        self._g = np.zeros(len(self._w))
        self._prepare()
        logger.info("the basis went from %d to %d weights to cover the context %s", *B.shape, e.tolist())
        return True
