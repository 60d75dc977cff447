"""Getting measurements ready for a fit: checks, a common scale, a subset of many, a first guess of the kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import float_array, is_finite
from holdcourse.errors import InvalidInput, TooLarge, shown
from holdcourse.learning.fitting.likelihood import Ranges
from holdcourse.learning.history import LARGEST, History, require_squarable
from holdcourse.learning.kernels import AnyKernel, Kernel, Periods, check_kernel, per_axis
from holdcourse.movement.problem import Problem, check_problem

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
PriorMean: TypeAlias = float | ArrayLike | Callable[[Array, Array], Any]

ROUNDING = 8 * np.finfo(np.float64).eps  # measurements that differ by this share of their size are equal
MAX_METRIC_ACTIONS = 2_000  # each length scale on the grid costs one eigendecomposition
COMMON_SHARE = 0.7  # of the variance, expected to be the same for all actions in a context
METRIC_RANGE, METRIC_SCALES = (0.25, 8.0), 10  # times the shortest and the longest move; how many in between


def checked_history(problem: Problem, actions: Any, contexts: Any, y: Any, kernel: AnyKernel | None) -> History:
    """The measurements as a `History` that fits the problem and the kernel."""
    check_problem(problem)
    if kernel is not None:
        check_kernel(kernel)
    measured = float_array(y, "y")
    given = np.zeros((len(np.atleast_1d(actions)), 0)) if contexts is None else contexts
    history = History(actions, given, measured)
    if not len(history):
        raise InvalidInput("a fit needs at least one measurement, got none")
    history.check(problem, None if kernel is None else kernel.context_dimension)
    for name, values in (("y", history.measurements), ("contexts", history.contexts), ("actions", problem.actions)):
        require_squarable(values, name)
    for part in kernel.parts if kernel is not None else ():
        if part.context is not None and history.contexts.shape[1] == 0:
            raise InvalidInput(
                f"the kernel depends on a context ({part.context}), but there are no contexts; give contexts, or a "
                "kernel of actions alone"
            )
        part.context_covariance(history.contexts[:1])
        # One action is enough to compare axes, and does not build the (n, n) matrix.
        part.action_covariance(problem if isinstance(part.action, np.ndarray) else Problem(problem.features[:1]))
    return history


def checked_noise(noise_std: Any) -> float | None:
    """A noise deviation that may be missing."""
    if noise_std is None:
        return None
    if not is_finite(noise_std) or not 0 <= noise_std <= LARGEST:
        raise InvalidInput(f"noise_std must be a number, 0 or more, or None to have it fitted, got {shown(noise_std)}")
    return float(noise_std)


def prior_mean_at(prior_mean: PriorMean | None, problem: Problem, history: History) -> Array | None:
    """A given prior mean at each measurement, (t,)."""
    if prior_mean is None:
        return None
    if callable(prior_mean):
        distinct, which = np.unique(history.contexts, axis=0, return_inverse=True)
        table = np.array([_per_action(prior_mean(problem.actions, context), problem.n) for context in distinct])
        values = table[which.reshape(-1), history.actions]
    else:
        values = _per_action(prior_mean, problem.n)[history.actions]
    bad = np.flatnonzero(~(np.abs(values) <= LARGEST))
    if len(bad):
        raise InvalidInput(f"prior_mean is {values[bad[0]]} for measurement {bad[0]}; it must be finite")
    return values


def _per_action(mean: Any, n: int) -> Array:
    try:
        return np.broadcast_to(float_array(mean, "prior_mean"), (n,))
    except ValueError:
        raise InvalidInput(
            f"prior_mean must be a number, {n} of them (one per action), or a function that gives either, got "
            f"{shown(mean)}"
        ) from None


def standardised(y: Array, centre: Array | None, floor: float = 0.0) -> tuple[Array, float, float, bool]:
    """z, shift and scale with y = centre + shift + scale z, and whether z holds anything but zeros.

    The shift is the mean where no centre is given. Equal measurements get their own size as scale, or 1; others a scale
    of `floor` at least.
    """
    size = max(float(np.abs(y).max()), 0.0 if centre is None else float(np.abs(centre).max()))
    rest = y - (float(y.mean()) if centre is None else centre)
    shift = float(y.mean()) if centre is None else 0.0
    peak = float(np.abs(rest).max())
    if peak <= max(ROUNDING * size, 1 / LARGEST):
        return np.zeros(len(y)), shift, size if size > 1 / LARGEST else 1.0, False
    scale = max(peak * math.sqrt(float(np.mean((rest / peak) ** 2))), floor)
    return rest / scale, shift, scale, True


def first_guesses(
    problem: Problem,
    history: History,
    kernel: AnyKernel | None,
    common: bool = False,
    period: Periods | None = None,
) -> list[tuple[AnyKernel, float | None]]:
    """The structures to choose from: the given one, RBF, or one for each length scale tried (which comes with it).

    The last is for actions known by a metric only. `common`: with a part that all actions share in a context; `period`:
    of the contexts that are circles.
    """
    if kernel is not None:
        return [(kernel, None)]
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    contexts = history.contexts
    count = contexts.shape[1]
    if period is not None:
        count += sum(entry is not None for entry in per_axis(period, count, "period"))
    context = RBF(np.ones(count) if count > 1 else 1.0) if count else None
    # Length scales stay in the user's units. The shift keeps what offsets such as 1.7e9 seconds would round away.
    shift = np.where(np.ptp(contexts, axis=0) > 0, contexts.mean(axis=0), 0.0) if contexts.shape[1] else 0.0
    axes = problem.features.shape[1]
    shared = COMMON_SHARE if common and context is not None else 0.0
    if has_coordinates(problem):
        action = RBF(np.ones(axes) if axes > 1 else 1.0)
        if shared:
            action = ConstantKernel(shared / (1.0 - shared)) + action
        return [(Kernel(action, context, context_shift=shift, context_period=period), None)]
    return [
        (Kernel(shared + (1.0 - shared) * matrix, context, context_shift=shift, context_period=period), s)
        for matrix, s in metric_covariances(problem)
    ]


def has_coordinates(problem: Problem) -> bool:
    """Whether the actions lie somewhere, rather than being numbered 0..n-1 under a metric of their own."""
    numbered = problem.actions.shape[1] == 1 and np.array_equal(problem.actions[:, 0], np.arange(problem.n))
    return problem.has_named_metric or problem.features is not problem.actions or not numbered


def metric_covariances(problem: Problem) -> list[tuple[Array, float]]:
    """exp(-d / length) as covariance matrices, each with its length, from below the shortest move to above the longest.

    On lines, trees, L1 and Euclidean spaces this is positive semidefinite. On other metrics it may not be: negative
    eigenvalues are set to 0 and the diagonal back to 1. A fixed cost per move says nothing about likeness: left out.
    """
    if problem.n > MAX_METRIC_ACTIONS:
        raise TooLarge(
            f"fitting a kernel to {problem.n} actions without coordinates takes a matrix of all pairs for each length "
            f"scale, so it is limited to {MAX_METRIC_ACTIONS} actions; give the actions coordinates, or give kernel="
        )
    if problem.n == 1:
        return [(np.ones((1, 1)), 1.0)]
    apart = ~np.eye(problem.n, dtype=bool)
    distances = problem.symmetric_distances - problem.fixed_cost * apart
    shortest, longest = distances[apart].min(), distances[apart].max()
    lengths = np.geomspace(METRIC_RANGE[0] * shortest, METRIC_RANGE[1] * longest, METRIC_SCALES)
    return [(_as_covariance(np.exp(-distances / length)), float(length)) for length in lengths]


def _as_covariance(matrix: Array) -> Array:
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    if values[0] >= 0:
        return matrix
    clipped: Array = (vectors * np.maximum(values, 0.0)) @ vectors.T
    size = np.sqrt(np.diag(clipped))
    clipped /= np.outer(size, size)
    clipped += clipped.T
    return clipped / 2


def subset(problem: Problem, history: History, size: int, rng: np.random.Generator) -> History:
    """At most `size` measurements: a random one and its nearest neighbour from each of size / 2 equally filled cells.

    The cells cover actions and contexts evenly; the pairs keep short length scales and the noise visible. The choice
    does not look at what was measured, so the likelihood of the subset is not biased. Where no more than `size` of them
    differ in action or context, all are taken.
    """
    if len(history) <= size or _distinct(history) <= size:
        return history
    joint = np.hstack([problem.features[history.actions], history.contexts])
    ranges = Ranges.of(joint)
    # Centred first: a large offset must not round the distances away.
    points = (joint - joint.mean(axis=0)) / np.where(ranges.extent > 0, ranges.spread, 1.0)
    chosen: list[int] = []
    for cell in _cells(points, np.arange(len(points)), size // 2):
        anchor = int(rng.integers(len(cell)))
        away = ((points[cell] - points[cell[anchor]]) ** 2).sum(axis=1)
        away[anchor] = np.inf
        chosen += [int(cell[anchor]), int(cell[away.argmin()])]
    keep = np.sort(chosen)
    return History(history.actions[keep], history.contexts[keep], history.measurements[keep])


def _distinct(history: History) -> int:
    """Number of different pairs of action and context."""
    return len(np.unique(np.column_stack([history.actions.astype(np.float64), history.contexts]), axis=0))


def _cells(points: Array, members: Indices, count: int) -> list[Indices]:
    """Cut into `count` cells with almost equally many members, always across the widest axis."""
    if count <= 1:
        return [members]
    here = points[members]
    axis = int(np.ptp(here, axis=0).argmax())
    ordered = members[np.argsort(here[:, axis], kind="stable")]
    cut = len(members) * (count // 2) // count
    return _cells(points, ordered[:cut], count // 2) + _cells(points, ordered[cut:], count - count // 2)
