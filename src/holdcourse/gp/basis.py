r"""A finite basis for a kernel: products of action features and context features, with a known truncation error.

=======  ===========================================================================================  ==============
symbol   meaning                                                                                      shape
=======  ===========================================================================================  ==============
Phi      action features: Phi Phi^T is the action covariance (times the variance), largest first      (n, r)
psi(e)   context features, Q k(Z, e); psi(e) . psi(e') is the context covariance where it is covered  (J,)
Z, Q     the contexts it is spanned by, and what makes their functions orthonormal                    (q, d), (J, q)
I_j      how many action features are paired with context feature j
start    the weights of context feature j are ``start[j]:start[j + 1]``                               (J + 1,)
column   the first action feature of context feature j (parts of a sum have their own)                (J,)
eps      largest prior variance discarded anywhere on the covered contexts
=======  ===========================================================================================  ==============

The kernel is k = k_hat + R with k_hat = sum over kept pairs (j, i) of psi_j psi_j' Phi_i Phi_i', and R positive
semidefinite: under weights of prior covariance I the basis is a Gaussian process that knows a little less.

The features of a context list or box are made in one piece. Appending features to present ones looks simpler but loses
ten digits each time: functions that are tiny on the contexts covered so far are known there to rounding only, and large
beyond.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.kernels import Kernel

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

FINEST = 1e-10  # relative; below, rounding in the features is larger than what they add
SLACK = 30.0  # features are built to eps / SLACK, so that truncation is decided by pairs alone
CANDIDATES_PER_AXIS = {0: 1, 1: 257, 2: 33, 3: 11}
SCATTERED_CANDIDATES = 2048  # for contexts of four numbers and more


@dataclass(frozen=True)
class PartBasis:
    """The basis of one product kernel."""

    kernel: Kernel
    variance: Array  # (n,) prior variance of the actions, without the context
    phi: Array  # (n, r)
    Z: Array = field(default_factory=lambda: np.zeros((0, 0)))
    Q: Array = field(default_factory=lambda: np.zeros((0, 0)))
    counts: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # (J,) I_j

    def features(self, contexts: Array) -> Array:
        """Context features of contexts (k, d); (k, J)."""
        if not len(self.Z):
            return np.zeros((len(contexts), 0))
        features: Array = self.kernel.context_covariance(contexts, self.Z) @ self.Q.T
        return features

    def uncovered(self, contexts: Array, features: Array) -> Array:
        """Part of the context variance that the features miss, relative; (k,)."""
        own = self.kernel.context_variances(contexts)
        safe = np.where(own > 0, own, 1.0)
        share: Array = np.maximum(own - np.einsum("kj,kj->k", features, features), 0.0) / safe
        return share

    def covering(self, candidates: Array, tolerance: float, limit: int) -> tuple[PartBasis, float]:
        """The basis that covers the candidates to `tolerance`, or as well as `limit` weights can.

        Also returns the relative variance that it leaves out.
        """
        own = self.kernel.context_variances(candidates)
        pivots, L = _pivoted_cholesky(self.kernel, candidates, tolerance / SLACK * float(own.max()))
        _, V = np.linalg.eigh(L.T @ L)
        V = V[:, ::-1]
        counts = self._kept_pairs(L @ V, tolerance * float(own.max() * self.variance.max()), limit)
        order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]  # drop what is paired with no action
        # In row order, as it will be after saving: the order decides which way a product is summed.
        Q = np.ascontiguousarray(np.linalg.solve(L[pivots].T, V[:, order]).T)
        basis = replace(self, Z=candidates[pivots], Q=Q, counts=counts[order])
        return basis, basis._discarded(candidates, own)

    def _kept_pairs(self, features: Array, allowed: float, limit: int) -> Indices:
        """I_j for each feature: drop the smallest pairs while no more variance than `allowed` is dropped anywhere."""
        J, r = features.shape[1], self.phi.shape[1]
        features2, phi2 = features**2, self.phi**2
        peaks = np.outer(features2.max(axis=0), phi2.max(axis=0)).reshape(-1)
        order = J * r - 1 - np.argsort(peaks[::-1], kind="stable")  # smallest first; of equals the last

        def dropped(count: int) -> float:
            mask = np.zeros(J * r)
            mask[order[:count]] = 1.0
            return float((features2 @ mask.reshape(J, r) @ phi2.T).max())

        low, high = 0, J * r
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if dropped(middle) <= allowed else (low, middle - 1)
        kept = np.ones(J * r, dtype=np.int64)
        kept[order[: max(low, J * r - limit)]] = 0
        # Action features are sorted by their peak, so what is kept of a row is its beginning.
        counts: Indices = kept.reshape(J, r).sum(axis=1)
        return counts

    def _discarded(self, candidates: Array, own: Array) -> float:
        """Largest prior variance, relative, that the kept pairs miss on the candidates."""
        features2 = self.features(candidates) ** 2
        explained = np.concatenate([np.zeros((len(self.phi), 1)), np.cumsum(self.phi**2, axis=1)], axis=1)
        missing = np.outer(own, self.variance) - features2 @ explained[:, self.counts].T
        return float(max(missing.max(), 0.0) / (own.max() * self.variance.max()))


def principal_features(covariance: Array, tolerance: float) -> tuple[Array, float]:
    """Features (n, r) that miss at most this share of the largest variance, largest first; and the variance missed."""
    values, vectors = np.linalg.eigh(covariance)
    phi = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1]
    variance = np.diag(covariance)
    missing = (variance[:, None] - np.cumsum(phi**2, axis=1)).max(axis=0)
    # Rounding may leave more than the tolerance even with all of them.
    r = int(np.argmax(missing <= max(tolerance * variance.max(), missing[-1]))) + 1
    return phi[:, :r], max(float(missing[r - 1]), 0.0)


def part_basis(kernel: Kernel, covariance: Array) -> PartBasis:
    """Action features of one part (`covariance` is (n, n), with the variance in it); no context is covered yet."""
    phi, _ = principal_features(covariance, FINEST / SLACK)
    variance = np.diag(covariance).copy()
    phi = np.ascontiguousarray(phi[:, np.argsort(-(phi**2).max(axis=0), kind="stable")])
    return PartBasis(kernel, variance, phi)


def _pivoted_cholesky(kernel: Kernel, candidates: Array, tolerance: float) -> tuple[list[int], Array]:
    """Pivots and L (c, q): L L^T is the covariance of the candidates, its diagonal to `tolerance`."""
    left = kernel.context_variances(candidates)
    pivots: list[int] = []
    L = np.zeros((len(candidates), min(len(candidates), 64)))
    while len(pivots) < len(candidates):
        pivot, q = int(left.argmax()), len(pivots)
        if left[pivot] <= tolerance:
            break
        if q == L.shape[1]:
            L = np.concatenate([L, np.zeros_like(L)], axis=1)
        column = kernel.context_covariance(candidates, candidates[pivot : pivot + 1])[:, 0]
        column = column - L[:, :q] @ L[pivot, :q]
        column[pivots] = 0.0  # exact where rounding would leave a trace
        L[:, q] = column / np.sqrt(left[pivot])
        left = left - L[:, q] ** 2
        left[pivot] = 0.0
        pivots.append(pivot)
    return pivots, L[:, : len(pivots)]


def box_candidates(low: Array, high: Array) -> Array:
    """Contexts that stand for a box: a grid up to three axes, a Halton sequence and the corners above."""
    d = len(low)
    if d in CANDIDATES_PER_AXIS:
        axes = [
            np.linspace(a, b, CANDIDATES_PER_AXIS[d]) if b > a else np.array([a])
            for a, b in zip(low, high, strict=True)
        ]
        points = list(itertools.product(*axes))
        return np.array(points, dtype=np.float64).reshape(len(points), d)
    from scipy.stats.qmc import Halton

    inside = Halton(d, scramble=False).random(SCATTERED_CANDIDATES)
    corners = np.array(list(itertools.product((0.0, 1.0), repeat=min(d, 8))))
    corners = np.concatenate([corners, np.full((len(corners), d - corners.shape[1]), 0.5)], axis=1)
    return low + np.concatenate([corners, inside]) * (high - low)
