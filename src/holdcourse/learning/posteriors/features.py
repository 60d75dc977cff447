"""Features of many actions: what they have in common, without their covariance matrix.

Up to some thousands of actions the eigenvectors of their (n, n) covariance are the best features there are. A million
would need 8 TB, but a smooth kernel has far fewer features than actions, and there are two ways to them:

- **grid and product**: on a full grid a kernel that is a product over the axes (a squared exponential) has products of
  the axes' own eigenvectors as its eigenvectors, and the axes are short. Exact;
- **inducing points** otherwise: a few actions stand for all others. They are chosen one by one, each where most is
  left unexplained, among a few thousand actions at first; then what is left is looked at everywhere, and the worst
  places become inducing points too, until none is left with more than the tolerance. Where that takes many more of
  them than there are weights, the kernel is too rough for so many actions, and that is said.

Both give phi (n, r) with phi phi' = k - R, R positive semidefinite and R(x, x) at most a tolerance of the largest
variance, orthogonal columns, largest first. So `basis` may use them as it does eigenvectors. The tolerance is as fine
as memory allows, at best `TOLERANCES[0]`; 960 weights leave out some ten times as much in any case.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from holdcourse.errors import InvalidInput, TooLarge
from holdcourse.learning.kernels import Kernel
from holdcourse.movement.problem import Problem

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

TOLERANCES = (1e-6, 1e-5, 1e-4)  # of the largest variance: the finest whose features fit
MOST_NUMBERS = 130_000_000  # in phi: 1 GB
TRIED = 4_000  # actions among which inducing points are looked for first
MOST_INDUCING = 1_920  # actions that stand for all: twice as many as there are weights, which can use no more
ADDED = 0.125  # of the inducing points: worst places that become such points at once, at least 16
BLOCK = 8_192  # actions that are worked on at once


def many_features(problem: Problem, kernel: Kernel) -> Array:
    """Features (n, r) of the actions under the kernel's action part, without its variance."""
    axes = axis_covariances(problem, kernel)
    order = inducing_order(problem, kernel) if axes is None else None
    for tolerance in TOLERANCES:
        try:
            if axes is None:
                return inducing_features(problem, kernel, tolerance, order)
            return product_features(axes, tolerance)
        except TooLarge:
            if tolerance == TOLERANCES[-1]:
                raise
    raise AssertionError("there is a tolerance")


def axis_covariances(problem: Problem, kernel: Kernel) -> list[Array] | None:
    """The covariance along each axis of a full grid whose product is the kernel's; None where there is none."""
    if problem.knobs is None:
        return None
    columns = [knob.features for knob in problem.knobs]
    lengths = squared_exponential_lengths(kernel.action, sum(own.shape[1] for own in columns))
    if lengths is None:
        return None
    scales = np.broadcast_to(np.asarray(kernel.action_scale, dtype=np.float64), (len(lengths),))
    covariances, first = [], 0
    for own in columns:
        apart = (own[:, None] - own[None]) / (scales * lengths)[first : first + own.shape[1]]
        covariances.append(np.exp(-0.5 * (apart**2).sum(axis=2)))
        first += own.shape[1]
    return covariances


def squared_exponential_lengths(kernel: Any, axes: int) -> Array | None:
    """The length scale along each axis of a squared exponential of scikit-learn's; None: it is another kernel."""
    if type(kernel).__name__ != "RBF" or not type(kernel).__module__.startswith("sklearn."):
        return None
    return np.broadcast_to(np.asarray(kernel.length_scale, dtype=np.float64), (axes,))


def product_features(covariances: list[Array], tolerance: float) -> Array:
    """Features (n, r) of a grid, last axis fastest, under the product of the axes' covariances."""
    values, vectors = zip(*(np.linalg.eigh(covariance) for covariance in covariances), strict=True)
    # Along one axis what falls below the tolerance alone, falls below it in every product.
    kept = [own > tolerance * 1e-2 * own[-1] for own in values]
    values = tuple(own[keep] for own, keep in zip(values, kept, strict=True))
    vectors = tuple(own[:, keep] for own, keep in zip(vectors, kept, strict=True))
    products = reduce(np.multiply.outer, values).reshape(-1)
    order = np.argsort(-products, kind="stable")
    places = np.unravel_index(order, tuple(len(own) for own in values))
    n = math.prod(len(covariance) for covariance in covariances)
    count = _needed(vectors, places, order, products, n, tolerance)
    phi = np.empty((n, count))
    for rank in range(count):
        column = reduce(np.multiply.outer, (own[:, place[rank]] for own, place in zip(vectors, places, strict=True)))
        phi[:, rank] = math.sqrt(products[order[rank]]) * column.reshape(-1)
    return phi


def _needed(
    vectors: tuple[Array, ...], places: tuple[Indices, ...], order: Indices, products: Array, n: int, tolerance: float
) -> int:
    """How many products explain the variance of every action to the tolerance."""
    left = np.ones(n)  # the variance of every action is 1
    for rank, k in enumerate(order):
        require_room(n, rank + 1)
        squares = (own[:, place[rank]] ** 2 for own, place in zip(vectors, places, strict=True))
        left -= products[k] * reduce(np.multiply.outer, squares).reshape(-1)
        if rank % 8 == 7 and left.max() <= tolerance:
            return rank + 1
    return len(order)


def inducing_features(
    problem: Problem, kernel: Kernel, tolerance: float, order: tuple[Indices, Array] | None = None
) -> Array:
    """Features (n, r) of any actions with coordinates: those of a few that stand for all.

    `order` is what `inducing_order` gives, which is the same for all tolerances.
    """
    n = problem.n
    variance = kernel.action_variances(problem)
    largest = float(variance.max())
    pivots, left = inducing_order(problem, kernel) if order is None else order
    enough = np.flatnonzero(left <= tolerance * largest)
    chosen = pivots[: enough[0]] if len(enough) else pivots
    if not len(enough):
        require_room(n, len(pivots) + 1, MOST_INDUCING)
    while True:
        require_room(n, len(chosen), MOST_INDUCING)
        features, left = _explained(problem, kernel, chosen, variance, tolerance)
        worst = np.argsort(-left, kind="stable")[: max(16, round(ADDED * len(chosen)))]
        worst = worst[left[worst] > tolerance * largest]
        if not len(worst):
            break
        del features  # before the next are made: they may take a gigabyte
        chosen = np.concatenate([chosen, worst])
    _, V = np.linalg.eigh(features.T @ features)
    turn = np.ascontiguousarray(V[:, ::-1])
    for begin in range(0, n, BLOCK):
        features[begin : begin + BLOCK] = features[begin : begin + BLOCK] @ turn
    return features


def inducing_order(problem: Problem, kernel: Kernel) -> tuple[Indices, Array]:
    """Some actions that explain the others, (q,), the most telling first (pivoted Cholesky among those tried).

    And the largest variance that is left with none of them, with one, and so on; (q + 1,). It ends where the finest
    tolerance is reached, or no more would fit.
    """
    tried = np.linspace(0, problem.n - 1, TRIED).astype(np.int64)
    variance = kernel.action_variances(problem)
    left, allowed = variance[tried], TOLERANCES[0] * float(variance.max())
    most = min(len(tried), MOST_INDUCING, MOST_NUMBERS // problem.n)
    L = np.zeros((len(tried), min(most, 64)))
    pivots: list[int] = []
    peaks: list[float] = []
    while True:
        pivot, q = int(left.argmax()), len(pivots)
        peaks.append(float(left[pivot]))
        if peaks[-1] <= allowed or q == most:
            return tried[pivots], np.array(peaks)
        if q == L.shape[1]:
            L = np.concatenate([L, np.zeros_like(L)], axis=1)
        column = kernel.covariance_among(problem, tried, tried[pivot : pivot + 1])[:, 0] - L[:, :q] @ L[pivot, :q]
        column /= math.sqrt(left[pivot])
        left = np.maximum(left - column**2, 0.0)
        left[pivot] = 0.0
        L[:, q] = column
        pivots.append(pivot)


def _explained(
    problem: Problem, kernel: Kernel, chosen: Indices, variance: Array, tolerance: float
) -> tuple[Array, Array]:
    """Features (n, q) by the chosen actions, and the variance that they leave of each action, (n,)."""
    among = kernel.covariance_among(problem, chosen, chosen)
    among = (among + among.T) / 2
    among.reshape(-1)[:: len(chosen) + 1] += 1e-3 * tolerance * float(variance.max())  # what rounding may take away
    try:
        root = np.linalg.cholesky(among)
    except np.linalg.LinAlgError:
        raise InvalidInput(
            f"the action kernel {kernel.action} is not positive semidefinite for {len(chosen)} of the {problem.n} "
            "actions; use another kernel, such as RBF or Matern"
        ) from None
    features, left = np.empty((problem.n, len(chosen))), np.empty(problem.n)
    for begin in range(0, problem.n, BLOCK):
        block = slice(begin, begin + BLOCK)
        covariance = kernel.covariance_among(problem, np.arange(problem.n)[block], chosen)
        features[block] = solve_triangular(root, covariance.T, lower=True, check_finite=False).T
        left[block] = variance[block] - np.einsum("xi,xi->x", features[block], features[block])
    return features, left


def require_room(n: int, features: int, most: int | None = None) -> None:
    """Raise where so many features of n actions would not fit, or are more than `most`."""
    if most is not None and features > most:
        raise TooLarge(
            f"{n} actions need more than {most} features, and at most half of them could be learned: the kernel's "
            "length scale is too short for that many actions. Use a longer one, a smoother kernel (RBF), or fewer "
            "actions"
        )
    if n * features > MOST_NUMBERS:
        raise TooLarge(
            f"{features} features of {n} actions would take {n * features * 8 / 1e9:.1f} GB: the kernel's length scale "
            "is too short for this many actions. Use a longer one, a smoother kernel (RBF), or fewer actions"
        )
