"""From a kernel to a finite number of weights: products of action and context features, truncated by a known error.

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

**Where the weights are.** The bases of all parts of a kernel stand one after the other. Weights are stored
context-major: a segment for each context feature, with one weight for each action feature that it is paired with.

**Growing.** When a context is not covered, the basis is made anew for a wider box or a longer list. On the contexts
covered before, the new context features are combinations of the old ones, psi_new = C^T psi_old (up to sqrt(eps)), so
the new features of every old measurement are its old ones times a matrix B, and what it told about the old weights it
tells about the new: no measurement has to be kept, and the size of the state depends on the basis, never on t.

The features of a context list or box are made in one piece. Appending features to present ones looks simpler but loses
ten digits each time: functions that are tiny on the contexts covered so far are known there to rounding only, and large
beyond.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import float_array
from holdcourse.errors import InvalidInput, shown
from holdcourse.learning.history import check_contexts
from holdcourse.learning.kernels import MATRIX_ACTIONS, Kernel, require_context_covariance
from holdcourse.learning.posteriors.exact import Prior, check_tolerance, logger
from holdcourse.learning.posteriors.features import many_features

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

FINEST = 1e-10  # relative; below, rounding in the features is larger than what they add
SLACK = 30.0  # features are built to eps / SLACK, so that truncation is decided by pairs alone
CANDIDATES_PER_AXIS = {0: 1, 1: 257, 2: 33, 3: 11}
SCATTERED_CANDIDATES = 2048  # for contexts of four numbers and more
COARSEST = 1e-4  # relative prior variance that may be discarded before the basis counts as too small
UNCOVERED, LARGER = 0.05, 0.01  # of the context variance; of the largest action feature: see `_hopeless`


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

    def features_each(self, contexts: Array) -> Array:
        """The same to the last bit as `features` of one context after the other; the kernel is asked once."""
        if not len(self.Z):
            return np.zeros((len(contexts), 0))
        covariance = self.kernel.context_covariance(contexts, self.Z)
        features: Array = np.matmul(covariance[:, None, :], self.Q.T)[:, 0, :]  # a product for each row
        return features

    def uncovered(self, contexts: Array, features: Array) -> Array:
        """Part of the context variance that the features miss, relative; (k,)."""
        return self.missing(self.kernel.context_variances(contexts), features)

    @staticmethod
    def missing(own: Array, features: Array) -> Array:
        """The same for context variances `own` (k,)."""
        safe = np.where(own > 0, own, 1.0)
        share: Array = np.maximum(own - np.einsum("kj,kj->k", features, features), 0.0) / safe
        return share

    def covering(self, candidates: Array, tolerance: float, limit: int) -> tuple[PartBasis, float]:
        """The basis that covers the candidates to `tolerance`, or as well as `limit` weights can.

        Also returns the relative variance that it leaves out.
        """
        own = self.kernel.context_variances(candidates)
        pivots, L = pivoted_cholesky(
            self.kernel, candidates, tolerance / SLACK, hopeless=self._hopeless(tolerance, limit)
        )
        _, V = np.linalg.eigh(L.T @ L)
        V = V[:, ::-1]
        counts = self._kept_pairs(L @ V, tolerance * float(own.max() * self.variance.max()), limit)
        order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]  # drop what is paired with no action
        # In row order, as it will be after saving: the order decides which way a product is summed.
        Q = np.ascontiguousarray(np.linalg.solve(L[pivots].T, V[:, order]).T)
        basis = replace(self, Z=candidates[pivots], Q=Q, counts=counts[order])
        return basis, basis._discarded(candidates, own)

    def _hopeless(self, tolerance: float, limit: int) -> int | None:
        """So many pivots that leave `UNCOVERED` of the variance show that `limit` weights will not do.

        Each would need a weight for each of the larger action features. None: no number shows it.
        """
        if tolerance > COARSEST:
            return None
        peaks = squared_peaks(self.phi)
        return int(1.25 * limit / np.count_nonzero(peaks > LARGER * peaks.max()))

    def _kept_pairs(self, features: Array, allowed: float, limit: int) -> Indices:
        """I_j for each feature: drop the smallest pairs while no more variance than `allowed` is dropped anywhere."""
        J, r = features.shape[1], self.phi.shape[1]
        features2, highest = features**2, squared_peaks(self.phi)
        # Of many actions what each would lose is not looked at: all are taken at their highest, which is safe.
        phi2 = self.phi**2 if len(self.phi) <= MATRIX_ACTIONS else highest[None]
        peaks = np.outer(features2.max(axis=0), highest).reshape(-1)
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
        most = 0.0
        for begin in range(0, len(self.phi), MATRIX_ACTIONS):
            block = slice(begin, begin + MATRIX_ACTIONS)
            phi2 = self.phi[block] ** 2
            explained = np.concatenate([np.zeros((len(phi2), 1)), np.cumsum(phi2, axis=1)], axis=1)
            missing = np.outer(own, self.variance[block]) - features2 @ explained[:, self.counts].T
            most = max(most, float(missing.max()))
        return float(most / (own.max() * self.variance.max()))


def principal_features(covariance: Array, tolerance: float) -> tuple[Array, float]:
    """Features (n, r) that miss at most this share of the largest variance, largest first; and the variance missed."""
    values, vectors = np.linalg.eigh(covariance)
    phi = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1]
    variance = np.diag(covariance)
    missing = (variance[:, None] - np.cumsum(phi**2, axis=1)).max(axis=0)
    # Rounding may leave more than the tolerance even with all of them.
    r = int(np.argmax(missing <= max(tolerance * variance.max(), missing[-1]))) + 1
    return phi[:, :r], max(float(missing[r - 1]), 0.0)


def part_bases(prior: Prior) -> list[PartBasis]:
    """Action features of the parts of a kernel, the variance in them; no context is covered yet."""
    bases = []
    for k, (part, variance) in enumerate(zip(prior.kernel.parts, prior.action_variances, strict=True)):
        if prior.problem.n <= MATRIX_ACTIONS or isinstance(part.action, np.ndarray):
            phi, _ = principal_features(prior.action_covariances[k], FINEST / SLACK)
        else:
            phi = many_features(prior.problem, part)
            phi *= math.sqrt(part.variance)
        order = np.argsort(-squared_peaks(phi), kind="stable")
        phi = np.ascontiguousarray(phi)
        for begin in range(0, len(phi), MATRIX_ACTIONS):  # in place, as it may be large
            phi[begin : begin + MATRIX_ACTIONS] = phi[begin : begin + MATRIX_ACTIONS, order]
        bases.append(PartBasis(part, variance, phi))
    return bases


def squared_peaks(phi: Array) -> Array:
    """The largest square in each column; no array of squares is made."""
    peaks: Array = np.maximum(phi.max(axis=0), -phi.min(axis=0)) ** 2
    return peaks


def pivoted_cholesky(
    kernel: Kernel,
    candidates: Array,
    tolerance: float,
    visits: Array | None = None,
    most: int | None = None,
    hopeless: int | None = None,
) -> tuple[list[int], Array]:
    """Pivots and L (c, q): L L^T is the covariance of the candidates, its diagonal to this share of the largest.

    The next pivot is the candidate of which most is left, times how often it was seen (`visits`) where that is given.
    It ends early with `most` pivots, or with `hopeless` ones if much is left then.
    """
    require_context_covariance(kernel, candidates)
    left = kernel.context_variances(candidates)
    largest = float(left.max())
    pivots: list[int] = []
    most = len(candidates) if most is None else min(most, len(candidates))
    L = np.zeros((len(candidates), min(len(candidates), 64)))
    while len(pivots) < most:
        pivot, q = int((left if visits is None else left * visits).argmax()), len(pivots)
        if left[pivot] <= tolerance * largest or (q == hopeless and left[pivot] > UNCOVERED * largest):
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


GROWING = 1e-8  # tolerance where the box is not declared, so that how many weights it will need is not known
MAX_WEIGHTS = 960  # discards 3e-6 in the paper's synthetic setting, and one round stays well below a millisecond
MAX_GROWN_WEIGHTS = 4000  # a growing box stops adding features here: S would take more than 128 MB
RIDGE = 1e-14  # keeps the old-to-new fit of features finite where an old feature is all but zero
GROWTH = 0.5  # a box that is left is widened beyond the new context by this share of its new width
COVERED = 4.0  # between candidates a context may miss somewhat more than at them


class Layout:
    """The basis of a weight-space posterior.

    Parameters
    ----------
    prior
        Whose kernel is written in the basis.
    contexts
        The finite list of contexts that can occur, (k,) or (k, d).
    context_bounds
        Or the box they come from: (low, high) for each axis, or one pair for contexts of one number.
    tolerance
        Relative prior variance that may be discarded; None: as little as `MAX_WEIGHTS` weights allow.
    most
        Number of weights that it may grow to.
    """

    def __init__(
        self,
        prior: Prior,
        contexts: ArrayLike | None = None,
        context_bounds: ArrayLike | None = None,
        tolerance: float | None = None,
        most: int = MAX_GROWN_WEIGHTS,
    ) -> None:
        check_tolerance(tolerance)
        self._most = most
        self.dimension = prior.kernel.context_dimension
        self.discarded = 0.0
        self.box: Array | None = None  # (2, d): low, high
        self.listed = contexts is not None
        self._uses_context = prior.kernel.uses_context
        self._tolerance = FINEST if tolerance is None else float(tolerance)
        self._parts = part_bases(prior)
        self._shares = [float(part.variance.max()) / prior.scale for part in self._parts]
        self.candidates = np.zeros((0, self.dimension or 0))
        if contexts is not None:
            self.candidates = np.unique(check_contexts(contexts, self.dimension), axis=0)
        elif context_bounds is not None:
            self.box = check_bounds(context_bounds, self.dimension)
            self.candidates = box_candidates(*self.box)
        elif not self._uses_context:
            self.candidates = np.zeros((1, 0))
        elif tolerance is None:
            self._tolerance = GROWING
        if len(self.candidates):
            if self._uses_context:
                self.dimension = self.candidates.shape[1]
            self._build(MAX_WEIGHTS if tolerance is None else MAX_GROWN_WEIGHTS)
        self._arrange()

    @property
    def size(self) -> int:
        """Number of weights, m."""
        return int(self.start[-1])

    @property
    def complete(self) -> bool:
        """Whether nothing more was discarded than allowed."""
        return self.discarded <= 1.01 * max(self._tolerance, COARSEST)

    def action_features(self) -> Array:
        """Phi of all parts side by side, shape (n, r)."""
        widths = self._widths()
        parts = [part.phi[:, :width] for part, width in zip(self._parts, widths, strict=True)]
        return np.ascontiguousarray(parts[0]) if len(parts) == 1 else np.concatenate(parts, axis=1)

    def features(self, e: Array) -> tuple[Array, Array | None]:
        """Features psi (J,) of one context, and the prior variance (n,) that they miss; None where it is covered."""
        psis, missed = [], None
        for part in self._parts:
            psi = part.features(e[None])
            share = float(part.uncovered(e[None], psi)[0])
            if share > self._threshold:
                more = share * float(part.kernel.context_variances(e[None])[0]) * part.variance
                missed = more if missed is None else missed + more
            psis.append(psi[0])
        return np.concatenate(psis), missed

    def features_each(self, contexts: Array) -> tuple[Array, list[Array | None]]:
        """Features (k, J) of contexts (k, d), and the prior variance that they miss, as `features` gives them."""
        psis = []
        missed: list[Array | None] = [None] * len(contexts)
        for part in self._parts:
            psi = part.features_each(contexts)
            own = part.kernel.context_variances(contexts)
            shares = part.missing(own, psi)
            for k in np.flatnonzero(shares > self._threshold):
                more, before = float(shares[k]) * float(own[k]) * part.variance, missed[k]
                missed[k] = more if before is None else before + more
            psis.append(psi)
        return np.concatenate(psis, axis=1), missed

    def suspects(self, contexts: Array) -> NDArray[np.bool_]:
        """Which of the contexts (k, d) may not be covered; `features` decides. All at once is quicker than each."""
        found = np.zeros(len(contexts), dtype=bool)
        for part in self._parts:
            found |= part.uncovered(contexts, part.features(contexts)) > 0.5 * self._threshold
        return found

    def product(self, psi: Array, phi: Array) -> Array:
        """Features (m,) of one action, with action features phi (r,), in one context."""
        return psi[self._segment_of] * phi[self._column_of]

    def products(self, contexts: Array, phis: Array) -> Array:
        """Features (b, m) of pairs of context (b, d) and action features (b, r)."""
        psis = self.features_each(contexts)[0]
        features: Array = psis[:, self._segment_of] * phis[:, self._column_of]
        return features

    def cover(self, e: Array) -> Array | None:
        """Make the basis anew so that it covers this context too.

        Returns B (old weights, new weights): where the context was covered before, its old features (m,) times B are
        its new ones. None if nothing had to be done.
        """
        if self.dimension is None and self._uses_context:
            self.dimension = len(e)
        if self.features(e)[1] is None or self.size >= MAX_GROWN_WEIGHTS:
            return None
        old = self.copy()
        outside = not self.listed and (self.box is None or bool(((e < self.box[0]) | (e > self.box[1])).any()))
        if outside:
            low, high = (e, e) if self.box is None else self.box
            width = np.maximum(high, e) - np.minimum(low, e)
            self.box = np.array(
                [np.where(e < low, e - GROWTH * width, low), np.where(e > high, e + GROWTH * width, high)]
            )
            self.candidates = box_candidates(*self.box)
        self.candidates = np.concatenate([self.candidates.reshape(len(self.candidates), len(e)), e[None]])
        self._build(self._most)
        self._arrange()
        if not self.complete:
            logger.warning(
                "%d weights are not enough for this kernel: %.1e of its variance is discarded",
                self.size,
                self.discarded,
            )
        return self._transfer(old)

    def copy(self) -> Layout:
        """Make an independent twin."""
        twin = copy.copy(self)
        twin._parts = list(self._parts)  # the parts and all arrays are never changed in place
        return twin

    def state(self) -> dict[str, NDArray[Any]]:
        """Write the basis as arrays."""
        arrays: dict[str, NDArray[Any]] = {
            "candidates": self.candidates,
            "box": np.zeros((0, 0)) if self.box is None else self.box,
            "discarded": np.array(self.discarded),
            "growth": np.array([self.listed, self._tolerance], dtype=np.float64),  # how it will be made anew
        }
        for k, part in enumerate(self._parts):
            arrays |= {f"Z{k}": part.Z, f"Q{k}": part.Q, f"counts{k}": part.counts}
            if len(part.phi) <= MATRIX_ACTIONS:  # those of many actions are large, and made again from the kernel
                arrays[f"phi{k}"] = part.phi
        return {name: array.copy() for name, array in arrays.items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a basis written by `state`."""
        given = dict(arrays)
        for k, part in enumerate(self._parts):
            if len(part.phi) > MATRIX_ACTIONS:
                given.setdefault(f"phi{k}", part.phi)
        arrays = given
        names = [f"{name}{k}" for k in range(len(self._parts)) for name in ("phi", "Z", "Q", "counts")]
        missing = [name for name in ("candidates", "discarded", "box", "growth", *names) if name not in arrays]
        if missing or len(arrays["phi0"]) != len(self._parts[0].phi):
            lacks = f": it lacks {', '.join(missing)}" if missing else ""
            raise InvalidInput(f"this state belongs to another problem or kernel{lacks}")
        if arrays["candidates"].ndim != 2 or (arrays["box"].size and arrays["box"].shape[:1] != (2,)):
            raise InvalidInput("this state is damaged: the contexts of its basis are not a table")
        for k, part in enumerate(self._parts):
            self._parts[k] = restored(
                part, np.asarray(arrays[f"phi{k}"]), *(np.array(arrays[f"{name}{k}"]) for name in ("Z", "Q", "counts"))
            )
        self.candidates, self.discarded = np.array(arrays["candidates"]), float(arrays["discarded"])
        self.box = np.array(arrays["box"]) if arrays["box"].size else None
        self.listed, self._tolerance = bool(arrays["growth"][0]), float(arrays["growth"][1])
        if len(self.candidates) and self._uses_context:
            self.dimension = self.candidates.shape[1]
        self._arrange()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _build(self, limit: int) -> None:
        tolerance = max(self._tolerance, self.discarded)
        share = max(limit // len(self._parts), 1)
        made = [part.covering(self.candidates, tolerance, share) for part in self._parts]
        self._parts = [part for part, _ in made]
        lost = sum(share * missed for share, (_, missed) in zip(self._shares, made, strict=True))
        self.discarded = max(self.discarded, lost)

    def _transfer(self, old: Layout) -> Array:
        """B with old features times B = new features on what the old layout covers; actions keep their features."""
        B = np.zeros((old.size, self.size))
        if not old.size:
            return B
        for k, (before, after) in enumerate(zip(old._parts, self._parts, strict=True)):
            known, new = before.features(old.candidates), after.features(old.candidates)
            ridge = RIDGE * len(known) * np.eye(known.shape[1])
            C = np.linalg.solve(known.T @ known + ridge, known.T @ new)  # (J_old, J_new)
            rows, columns = old._weights_of(k), self._weights_of(k)
            for j, row in enumerate(rows):
                for i, column in enumerate(columns):
                    shared = np.arange(min(before.counts[j], after.counts[i]))
                    B[row + shared, column + shared] = C[j, i]
        return B

    def _weights_of(self, part: int) -> Indices:
        """First weight of each context feature of a part."""
        begin = sum(len(other.counts) for other in self._parts[:part])
        return self.start[begin : begin + len(self._parts[part].counts)]

    def _widths(self) -> list[int]:
        # Of many actions all features are used as they are: a narrower copy would take more memory than it saves time.
        return [
            int(part.counts.max(initial=0)) if len(part.phi) <= MATRIX_ACTIONS else part.phi.shape[1]
            for part in self._parts
        ]

    def _arrange(self) -> None:
        """Index arrays that follow from the parts."""
        counts = np.concatenate([part.counts for part in self._parts])
        offsets = np.concatenate([[0], np.cumsum(self._widths())[:-1]])
        self.start: Indices = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.column: Indices = np.repeat(offsets, [len(part.counts) for part in self._parts]).astype(np.int64)
        self._segment_of = np.repeat(np.arange(len(counts)), counts)
        self._column_of = np.arange(self.size) - np.repeat(self.start[:-1] - self.column, counts)
        self._threshold = max(COVERED * self.discarded, FINEST)


def restored(part: PartBasis, phi: Array, Z: Array, Q: Array, counts: Indices) -> PartBasis:
    """The part with other arrays, which must fit each other: they may come from a file that somebody has changed."""
    shapes = (phi.ndim, Z.ndim, Q.ndim, counts.ndim) == (2, 2, 2, 1)
    if not (shapes and Q.shape == (len(counts), len(Z)) and ((counts >= 0) & (counts <= phi.shape[1])).all()):
        raise InvalidInput(
            f"this state is damaged: the shapes {phi.shape}, {Z.shape}, {Q.shape} and {counts.shape} of its basis do "
            "not fit together"
        )
    if not all(np.isfinite(array).all() for array in (phi, Z, Q)):
        raise InvalidInput("this state is damaged: its basis contains numbers that are not finite")
    return replace(part, phi=phi, Z=Z, Q=Q, counts=counts)


ROUNDING = 1e-6


def require_sound(weights: Array, covariance: Array) -> None:
    """Raise where weights (m,) or the lower half of their covariance (m, m) cannot be those of a posterior."""
    variances = np.diagonal(covariance)  # at most 1, as in the prior; below 0 only by rounding
    if not (np.isfinite(weights).all() and np.isfinite(covariance).all() and (variances >= -ROUNDING).all()):
        raise InvalidInput("this state is damaged: its weights or their variances are not plausible numbers")


def check_bounds(bounds: Any, dimension: int | None) -> Array:
    """A box as (2, d): low and high ends."""
    pairs = float_array(bounds, "context_bounds")
    pairs = pairs[None] if pairs.shape == (2,) else pairs
    if pairs.ndim != 2 or pairs.shape[1] != 2 or (dimension is not None and len(pairs) != dimension):
        axes = "each axis" if dimension is None else f"each of {dimension} axes"
        raise InvalidInput(f"context_bounds must be (low, high) for {axes}, got {shown(bounds)}")
    if not np.isfinite(pairs).all() or (pairs[:, 0] > pairs[:, 1]).any():
        raise InvalidInput(f"context_bounds must be finite with low <= high, got {shown(bounds)}")
    return np.ascontiguousarray(pairs.T)
