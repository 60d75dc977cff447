"""The capped posterior: flat also where no basis of a bearable size covers the contexts.

======  ==============================================================================================  ============
symbol  meaning                                                                                         shape
======  ==============================================================================================  ============
phi     features of one action in one context: psi_j(e) Phi_i(x) for the kept pairs (i, j)              (m,)
r       prior variance that they leave out there: k((x, e), (x, e)) - phi . phi                         ()
d       lambda + r: the noise of a measurement there                                                    ()
w, S    mean and covariance of the weights; prior 0 and I                                               (m,), (m, m)
G       g / sqrt(s) of the last measurements, g = S phi, s = d + phi . g: S - G^T G is meant            (p, m)
psi     features of a context; those paired with an action feature i are the first ones                 (J,)
X       covariance of the action features' factors in one context                                       (R, R)
======  ==============================================================================================  ============

**The model** is FITC, the fully independent training conditional (Snelson and Ghahramani 2006; Quinonero-Candela and
Rasmussen 2005, section 6), with features of the contexts seen in place of inducing points. Costs are phi . w plus a
rest of variance r, independent from measurement to measurement. So r is added to every predicted variance and to the
noise of every measurement: far from all that is covered the prediction is the prior, and nothing is learned from a
measurement there. Where the basis covers what was measured, r is 0 and the posterior is the exact one, everywhere.

**What is true of its deviation.** It is never below sqrt(r) and never above the prior's. It is not always above the
exact one: several measurements in one uncovered context share their rest, and taking it as independent makes the
weights look better known than they are. Contexts that come often are therefore covered first.

**Which contexts.** The basis is made of the contexts seen, at 256 measurements and at every doubling after that, unless
it covers all of them already: pivots greedily by what is left of the variance times how often the context was seen,
rotated to principal features under these weights, and the pairs of largest mean square, `MAX_WEIGHTS` in all. What was
learned is then computed anew from the measurements, of which the newest `CAPACITY` are kept. Once there were more, the
basis is made anew only if it covers the newest badly. All of it depends on counts and measurements alone.

One decision costs O(m^2) per context asked about, in matrix products, whatever the number of measurements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from holdcourse.archive import require_arrays
from holdcourse.errors import InvalidInput, counted, shown
from holdcourse.learning.history import History, check_context, check_contexts, check_measurement
from holdcourse.learning.posteriors.basis import (
    FINEST,
    MAX_WEIGHTS,
    PartBasis,
    part_bases,
    pivoted_cholesky,
    require_sound,
    restored,
)
from holdcourse.learning.posteriors.exact import VARIANCE_FLOOR, Prior, logger
from holdcourse.learning.posteriors.flat import packed, unpacked

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

FIRST_BUILD = 256
CAPACITY = 10_000  # measurements kept; a year of hours
MAX_CANDIDATES = 2048  # contexts that a basis is chosen from, evenly over time
MAX_PIVOTS = 512
WELL = 1e-4  # of the prior variance: a basis that misses no more of any context seen is kept
BADLY = 0.05  # mean share missed: one that misses more is made anew even if old measurements are lost by it
PENDING = 32  # rank-1 changes that are made together
TOGETHER = 2**19  # contexts times weights times action features that are computed at once: more leave the cache
BATCH = 512  # history is learned in blocks of this many


class CappedBasis:
    """At most `limit` products of action and context features, chosen for contexts that were seen.

    Parameters
    ----------
    prior
        Whose kernel is written in the basis.
    """

    def __init__(self, prior: Prior) -> None:
        self._parts = part_bases(prior)
        self._n = prior.problem.n
        self._arrange()

    @property
    def size(self) -> int:
        """Number of weights, m."""
        return len(self.segment)

    def build(self, candidates: Array, visits: Array, limit: int) -> None:
        """Choose features for these contexts (c, d), which count as often as they were seen (c,)."""
        share = visits / visits.sum()
        spans, energies = [], []
        for part in self._parts:
            pivots, L = pivoted_cholesky(part.kernel, candidates, FINEST, visits, MAX_PIVOTS)
            values, V = np.linalg.eigh((L * share[:, None]).T @ L)
            spans.append((pivots, L, V[:, ::-1]))
            energies.append(np.outer(np.maximum(values[::-1], 0.0), (part.phi**2).mean(axis=0)))
        everything = np.concatenate([energy.reshape(-1) for energy in energies])
        least = np.sort(everything)[-limit] if len(everything) > limit else 0.0
        for k, (part, (pivots, L, V), energy) in enumerate(zip(self._parts, spans, energies, strict=True)):
            # Where several pairs are equal the first ones are kept, so that there are never more than the limit.
            counts = ((energy > least) if least > 0 else (energy > 0)).sum(axis=1)
            order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
            Q = np.ascontiguousarray(solve_triangular(L[pivots], V[:, order], lower=True, trans=1).T)
            self._parts[k] = replace(part, Z=candidates[pivots], Q=Q, counts=counts[order].astype(np.int64))
        self._arrange()

    def features(self, contexts: Array) -> tuple[Array, Array]:
        """Features psi (k, J) of contexts (k, d), and the prior variance of every action that is left out (k, n)."""
        psis, left = [], np.zeros((len(contexts), self._n))
        for part, explained in zip(self._parts, self._explained, strict=True):
            psi = part.features(contexts)
            own = part.kernel.context_variances(contexts)
            left += np.maximum(np.outer(own, part.variance) - psi**2 @ explained, 0.0)
            psis.append(psi)
        return np.concatenate(psis, axis=1), left

    def products(self, psi: Array, actions: Indices) -> Array:
        """Features (k, m) of pairs of context, by their features psi (k, J), and action (k,)."""
        products: Array = psi[:, self.segment] * self.Phi[actions][:, self.column]
        return products

    def state(self) -> dict[str, NDArray[Any]]:
        """Write the basis as arrays."""
        arrays: dict[str, NDArray[Any]] = {}
        for k, part in enumerate(self._parts):
            arrays |= {f"phi{k}": part.phi, f"Z{k}": part.Z, f"Q{k}": part.Q, f"counts{k}": part.counts}
        return {name: array.copy() for name, array in arrays.items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a basis written by `state`."""
        names = [f"{name}{k}" for k in range(len(self._parts)) for name in ("phi", "Z", "Q", "counts")]
        require_arrays(arrays, names, "a capped posterior")
        if len(arrays["phi0"]) != self._n:
            raise InvalidInput(f"this state is for {len(arrays['phi0'])} actions, but the problem has {self._n}")
        for k, part in enumerate(self._parts):
            self._parts[k] = restored(part, *(np.array(arrays[f"{name}{k}"]) for name in ("phi", "Z", "Q", "counts")))
        self._arrange()

    def _arrange(self) -> None:
        """Index arrays that follow from the parts: weights stand by part, then by action feature."""
        segment, column, begins = [], [], []
        columns: list[Array] = []
        before = place = 0
        for part in self._parts:
            for i in range(int(part.counts.max(initial=0))):
                paired = int((part.counts > i).sum())
                segment.append(before + np.arange(paired))
                column.append(np.full(paired, len(columns)))
                begins.append(place)
                columns.append(part.phi[:, i])
                place += paired
            before += len(part.counts)
        self.segment: Indices = np.concatenate([np.zeros(0, dtype=np.int64), *segment])
        self.column: Indices = np.concatenate([np.zeros(0, dtype=np.int64), *column])
        self.begins: Indices = np.array(begins, dtype=np.int64)
        self.Phi: Array = np.ascontiguousarray(np.array(columns).reshape(len(columns), self._n).T)
        self.twice: Array = np.triu(np.full((len(columns),) * 2, 2.0), 1) + np.eye(len(columns))  # above the diagonal
        self._explained = [_explained(part) for part in self._parts]


def _explained(part: PartBasis) -> Array:
    """Action variance that context feature j is paired with, (J, n)."""
    upto = np.concatenate([np.zeros((len(part.phi), 1)), np.cumsum(part.phi**2, axis=1)], axis=1)
    return np.ascontiguousarray(upto[:, part.counts].T)


KEPT = ("kept_actions", "kept_contexts", "kept_measurements")
ARRAYS = ("weights", "covariance", "pending", "counts", "sums", *KEPT)


class Kept:
    """The newest `CAPACITY` measurements: number k of all stands in row k % `CAPACITY`."""

    def __init__(self, observations: int = 0, arrays: Mapping[str, NDArray[Any]] | None = None) -> None:
        self.observations = observations
        self.actions = np.zeros(0, dtype=np.int64)
        self.contexts = np.zeros((0, 0))
        self.measurements = np.zeros(0)
        if arrays is not None:
            self.actions, self.contexts, self.measurements = (np.array(arrays[name]) for name in KEPT)

    def add(self, actions: Indices, contexts: Array, measurements: Array) -> None:
        """Take note of measurements."""
        upto, dimension = self.observations + len(actions), contexts.shape[1]
        missing = min(upto, CAPACITY) - len(self.actions)
        if missing > 0:
            self.actions = np.append(self.actions, np.zeros(missing, dtype=np.int64))
            old = self.contexts.reshape(len(self.contexts), dimension)
            self.contexts = np.vstack([old, np.zeros((missing, dimension))])
            self.measurements = np.append(self.measurements, np.zeros(missing))
        newest = np.arange(max(self.observations, upto - CAPACITY), upto)
        place, row = newest % CAPACITY, newest - self.observations
        self.actions[place], self.contexts[place], self.measurements[place] = (
            actions[row],
            contexts[row],
            measurements[row],
        )
        self.observations = upto

    def state(self) -> dict[str, NDArray[Any]]:
        """The measurements as arrays, without their number."""
        arrays = (self.actions.copy(), self.contexts.copy(), self.measurements.copy())
        return dict(zip(KEPT, arrays, strict=True))


class CappedPosterior:
    """A posterior with at most 960 weights that says how much they leave out. See `Posterior`.

    Parameters
    ----------
    prior
        Kernel, prior mean, noise.
    contexts
        What the first basis is made for, (c, d); None: nothing is covered before the first 256 measurements.
    forgetting
        As for `FlatPosterior`. Below 1 the first basis stays.
    """

    method = "flat"

    def __init__(
        self,
        prior: Prior,
        contexts: Array | None = None,
        *,
        dimension: int | None = None,
        forgetting: float = 1.0,
        reason: str = "asked for",
    ) -> None:
        if not 0.0 < forgetting <= 1.0:
            raise InvalidInput(f"forgetting must be above 0 and at most 1 (1 forgets nothing), got {shown(forgetting)}")
        self.prior, self.forgetting, self.reason = prior, float(forgetting), reason
        self.dimension = prior.kernel.context_dimension if dimension is None else dimension
        self._basis = CappedBasis(prior)
        if contexts is not None:
            self._basis.build(contexts, np.ones(len(contexts)), MAX_WEIGHTS)
            self.dimension = contexts.shape[1]
        self._kept, self._next_build = Kept(), FIRST_BUILD
        self._log_likelihood = self._gain = 0.0
        self._start()

    @classmethod
    def of(cls, prior: Prior, kept: Kept, reason: str) -> CappedPosterior:
        """The posterior of measurements, whose contexts it is made for."""
        post = cls(prior, dimension=kept.contexts.shape[1], reason=reason)
        post._kept, post._next_build = Kept(kept.observations, kept.state()), kept.observations
        post._rebuild()
        return post

    @property
    def observations(self) -> int:
        """How many measurements have been told."""
        return self._kept.observations

    @property
    def features(self) -> int:
        """Number of weights."""
        return self._basis.size

    @property
    def log_marginal_likelihood(self) -> float:
        """Log density of the measurements told, each given those before it."""
        return self._log_likelihood

    @property
    def information_gain(self) -> float:
        """Realised information gain of the measurements told; what the basis leaves out counts as never known."""
        return self._gain

    def condition(self, action: int, context: Any, y: float) -> Self:
        """Learn one measurement, in place; returns itself."""
        self.prior.problem.check_action(action)
        e = check_context(context, self.dimension)
        y = check_measurement(y)
        excess = y - float(self.prior.mean(e)[action])
        if self._keep(np.array([action]), e[None], np.array([y])):
            return self
        psi, left = self._basis.features(e[None])
        d = self.prior.noise_variance + float(left[0, action])
        phi = self._basis.products(psi, np.array([action]))[0]
        if self.forgetting < 1.0:
            self._flush()
            self._w *= self.forgetting
            self._S *= self.forgetting**2
            self._S.reshape(-1)[:: len(phi) + 1] += 1.0 - self.forgetting**2
        G = self._G[: self._pending]
        g = self._S @ phi - (G @ phi) @ G
        s = d + max(float(phi @ g), 0.0)
        surprise = excess - float(phi @ self._w)
        self._w += g * (surprise / s)
        self._G[self._pending] = g / math.sqrt(s)
        self._pending += 1
        if self._pending == PENDING:
            self._flush()
        self._log_likelihood -= 0.5 * (surprise * surprise / s + math.log(2 * math.pi * s))
        self._gain += 0.5 * math.log(s / self.prior.noise_variance)
        return self

    def condition_on(self, history: History) -> Self:
        """Learn many measurements at once, in place: equal to one by one up to rounding and the choice of the basis."""
        history.check(self.prior.problem, self.dimension)
        if self.forgetting < 1.0:
            for action, context, y in zip(history.actions, history.contexts, history.measurements, strict=True):
                self.condition(action, context, y)
            return self
        done = 0
        while done < len(history):
            upto = min(len(history), done + self._until_build(len(history) - done))
            block = slice(done, upto)
            self._learn(History(history.actions[block], history.contexts[block], history.measurements[block]))
            done = upto
        return self

    def predict(self, context: Any) -> tuple[Array, Array]:
        """Mean and standard deviation of the cost of every action in this context, (n,) and (n,)."""
        mean, std = self._predict(check_context(context, self.dimension)[None])
        return mean[0], std[0]

    def predict_at(self, contexts: ArrayLike) -> tuple[Array, Array]:
        """Mean and standard deviation of every action in each of k contexts, (k, n) and (k, n)."""
        checked = check_contexts(contexts, self.dimension)
        step = max(1, TOGETHER // max(1, self._basis.size * len(self._basis.begins)))
        some = [self._predict(checked[k : k + step]) for k in range(0, max(len(checked), 1), step)]
        return np.concatenate([mean for mean, _ in some]), np.concatenate([std for _, std in some])

    def predict_of(self, contexts: ArrayLike, actions: NDArray[np.int64]) -> tuple[Array, Array]:
        """Mean and standard deviation of m actions in each of k contexts, (k, m) and (k, m)."""
        checked = check_contexts(contexts, self.dimension)
        found = [self._predict(context[None], actions) for context in checked]
        mean, std = (np.array([pair[j][0] for pair in found]).reshape(len(checked), len(actions)) for j in range(2))
        return mean, std

    def truncation_bound(self, std: Array) -> Array:
        """What the basis leaves out is in `std` already: 0 everywhere."""
        return np.zeros_like(std)

    def copy(self) -> Self:
        """Make an independent twin."""
        twin = type(self)(self.prior, dimension=self.dimension, forgetting=self.forgetting, reason=self.reason)
        return twin.restore(self.state())

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything learned, the basis it is written in and the measurements kept, as arrays."""
        own = {
            "weights": self._w.copy(),
            "covariance": packed(self._S),
            "pending": self._G[: self._pending].copy(),
            "counts": np.array([self.observations, self._next_build], dtype=np.int64),
            "sums": np.array([self._log_likelihood, self._gain]),
        }
        return own | self._kept.state() | self._basis.state()

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` of a posterior made with the same arguments gave; returns itself."""
        require_arrays(arrays, ARRAYS, "a capped posterior")
        self._basis.restore(arrays)
        m = self._basis.size
        if len(arrays["weights"]) != m or len(arrays["covariance"]) != m * (m + 1) // 2:
            raise InvalidInput(
                f"this state is damaged: it has {counted(len(arrays['weights']), 'weight')} for a basis of {m}"
            )
        self._start()
        lower = unpacked(arrays["covariance"])
        require_sound(arrays["weights"], lower)
        self._w, self._S = np.array(arrays["weights"]), lower + np.tril(lower, -1).T
        self._pending = len(arrays["pending"])
        self._G[: self._pending] = arrays["pending"]
        observations, self._next_build = (int(count) for count in arrays["counts"])
        self._kept = Kept(observations, arrays)
        self._log_likelihood, self._gain = (float(value) for value in arrays["sums"])
        if observations:
            self.dimension = self._kept.contexts.shape[1]
        return self

    def describe(self) -> dict[str, Any]:
        """What it was made with, in JSON values; equal posteriors give equal descriptions."""
        return {"method": "capped", "forgetting": self.forgetting, **self.prior.describe()}

    def __repr__(self) -> str:
        fading = f", forgetting {self.forgetting:g}" if self.forgetting < 1.0 else ""
        return (
            f"CappedPosterior({self.observations} measurements, {self.prior.problem.n} actions, {self.features} "
            f"weights, what they leave out counts as unknown{fading}; flat because {self.reason})"
        )

    # -- inside --------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """The weights before any measurement."""
        m = self._basis.size
        self._w, self._S = np.zeros(m), np.eye(m)
        self._G, self._pending = np.zeros((PENDING, m)), 0

    def _flush(self) -> None:
        """Make the pending changes now."""
        if self._pending:
            G = self._G[: self._pending]
            self._S -= G.T @ G
            self._pending = 0

    def _predict(self, contexts: Array, actions: Indices | None = None) -> tuple[Array, Array]:
        """Predict some actions, or all."""
        basis, k = self._basis, len(contexts)
        psi, left = basis.features(contexts)
        if actions is None:
            mean, Phi = self.prior.means(contexts), basis.Phi
        else:
            mean, Phi, left = self.prior.means_of(contexts, actions), basis.Phi[actions], left[:, actions]
        if not basis.size or not k:
            return mean, np.sqrt(left)
        R, ends = len(basis.begins), [*basis.begins[1:].tolist(), basis.size]
        factors = psi[:, basis.segment]  # (k, m): psi_j at weight (i, j)
        # Of X and S the parts on and above the diagonal are enough: half of the memory is read.
        half = np.zeros((k, R, basis.size))
        for i, (begin, end) in enumerate(zip(basis.begins.tolist(), ends, strict=True)):
            np.matmul(factors[:, begin:end], self._S[begin:end, begin:], out=half[:, i, begin:])
        half *= factors[:, None]
        X = np.add.reduceat(half, basis.begins, axis=2)
        if self._pending:
            known = np.add.reduceat(self._G[: self._pending] * factors[:, None], basis.begins, axis=2)  # (k, p, R)
            X -= known.transpose(0, 2, 1) @ known
        X *= basis.twice
        mean = mean + np.add.reduceat(self._w * factors, basis.begins, axis=1) @ Phi.T
        variance = ((Phi @ X) * Phi).sum(axis=2)
        floor = VARIANCE_FLOOR * self.prior.scale
        return mean, np.sqrt(np.maximum(variance, floor) + left)

    def _keep(self, actions: Indices, contexts: Array, measurements: Array) -> bool:
        """Take note of measurements; returns whether the basis was made anew, and all was learned with it."""
        self.dimension = contexts.shape[1]
        self._kept.add(actions, contexts, measurements)
        return self.observations >= self._next_build and self._rebuild()

    def _until_build(self, coming: int) -> int:
        """How many of the measurements to come belong before the next basis: up to the last doubling among them."""
        at = self._next_build
        if at > self.observations + coming:
            return coming
        while 2 * at <= min(self.observations + coming, CAPACITY):
            at *= 2
        self._next_build = at
        return at - self.observations

    def _learn(self, history: History) -> None:
        """A block after which a new basis may be due, but not before."""
        if self._keep(history.actions, history.contexts, history.measurements):
            return
        self._flush()
        for begin in range(0, len(history), BATCH):
            block = slice(begin, begin + BATCH)
            F, d, excess = self._seen(history.actions[block], history.contexts[block], history.measurements[block])
            SF = self._S @ F.T
            L = np.linalg.cholesky(F @ SF + np.diag(d))
            V = solve_triangular(L, SF.T, lower=True)
            z = solve_triangular(L, excess - F @ self._w, lower=True)
            self._w += z @ V
            self._S -= V.T @ V
            self._count(float(z @ z), 2.0 * float(np.log(np.diagonal(L)).sum()), len(F))

    def _seen(self, actions: Indices, contexts: Array, measurements: Array) -> tuple[Array, Array, Array]:
        """Features (b, m) of measurements, their noise d (b,), and how far they are from the prior mean (b,)."""
        psi, left = self._basis.features(contexts)
        means = np.array([self.prior.mean(e)[x] for x, e in zip(actions, contexts, strict=True)])
        d = self.prior.noise_variance + left[np.arange(len(actions)), actions]
        return self._basis.products(psi, actions), d, measurements - means

    def _count(self, squares: float, log_determinant: float, b: int) -> None:
        self._log_likelihood -= 0.5 * (squares + log_determinant + b * math.log(2 * math.pi))
        self._gain += 0.5 * (log_determinant - b * math.log(self.prior.noise_variance))

    def _rebuild(self) -> bool:
        """Make the basis anew for the contexts kept, and learn all that is kept with it; False if it is left."""
        while self._next_build <= self.observations:
            self._next_build *= 2
        if self.forgetting < 1.0 or not self._needed():
            return False
        kept, first = self._kept, not self._basis.size
        candidates, visits = _candidates(kept.contexts)
        self._basis.build(candidates, visits, MAX_WEIGHTS)
        self._start()
        m = self._basis.size
        precision, target = np.eye(m), np.zeros(m)
        noises, excesses, fits = [], [], []
        blocks = [slice(begin, begin + BATCH) for begin in range(0, len(kept.actions), BATCH)]
        for block in blocks:
            F, d, excess = self._seen(kept.actions[block], kept.contexts[block], kept.measurements[block])
            noises.append(d)
            excesses.append(excess)
            fits.append(F)
            F = F / np.sqrt(d)[:, None]
            precision += F.T @ F
            target += (excess / np.sqrt(d)) @ F
        if m:
            L = dpotrf(precision, lower=1, overwrite_a=1)[0]
            self._w = dpotrs(L, target, lower=1)[0]
            log_determinant = 2.0 * float(np.log(np.diagonal(L)).sum())
            lower = np.tril(dpotri(L, lower=1, overwrite_c=1)[0])
            self._S = np.ascontiguousarray(lower + np.tril(lower, -1).T)
        else:
            log_determinant = 0.0
        if first or self.observations <= CAPACITY:
            squares = float(self._w @ self._w)
            for F, d, excess in zip(fits, noises, excesses, strict=True):
                squares += float(((excess - F @ self._w) ** 2 / d).sum())
                log_determinant += float(np.log(d).sum())
            self._log_likelihood = self._gain = 0.0
            self._count(squares, log_determinant, len(kept.actions))
        logger.info("a basis of %d weights was made for %d contexts", m, len(candidates))
        return True

    def _needed(self) -> bool:
        """Whether the present basis should be given up."""
        contexts = self._kept.contexts
        left = np.concatenate(
            [self._basis.features(contexts[k : k + BATCH])[1] for k in range(0, len(contexts), BATCH)]
        )
        share = left.max(axis=1) / self.prior.scale
        if self.observations <= CAPACITY:
            return bool(share.max() > WELL)
        return bool(share.mean() > BADLY)


def _candidates(contexts: Array) -> tuple[Array, Array]:
    """Distinct contexts to choose a basis from (c, d), and how often each was seen (c,); evenly over the rows."""
    distinct, visits = np.unique(contexts, axis=0, return_counts=True)
    if len(distinct) <= MAX_CANDIDATES:
        return distinct, visits.astype(np.float64)
    rows = np.linspace(0, len(contexts) - 1, MAX_CANDIDATES).astype(np.int64)
    distinct, visits = np.unique(contexts[rows], axis=0, return_counts=True)
    return distinct, visits.astype(np.float64)
