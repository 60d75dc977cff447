"""What is fitted to measurements, and how likely they make it: parameters, their weak priors, likelihood and gradient.

=========  ===================================================================================================  =======
symbol     meaning                                                                                              shape
=========  ===================================================================================================  =======
theta      logarithms of the parameters                                                                         (p,)
z          measurements less their mean (or the given prior mean), in units of their scale                      (t,)
n_g        how many measurements have equal action and context; z is their mean then, with noise / sqrt(n_g)    (t,)
m          the constant left of the prior mean that fits best; 0 where a prior mean is given
cov        covariance of z under theta, noise included                                                          (t, t)
alpha      cov^-1 (z - m)                                                                                       (t,)
pull       alpha alpha^T - cov^-1, twice the derivative of the log likelihood by cov                            (t, t)
=========  ===================================================================================================  =======

The vector theta holds, for each product kernel, its variance, its action and its context parameters, and at the end the
noise deviation, if that is fitted. Bounds and priors are those that the inputs suggest. Measurements count in units of
their own scale, so an expected variance is 1.

What is maximised is log p(z | theta, m) + log p(theta) + log p(m). The priors are weak: log-normal in each parameter,
normal in m. With five measurements they decide, with two hundred they are not felt. The gradient by m is 0 at the best
m, so theta's gradient is taken with m fixed. Covariances are computed once per distinct action and context.

**Measurements of equal action and context** enter by their mean, their number and their scatter, which together hold
all that they say: their density is that of the mean, of noise variance s / n_g, times
(2 pi s)^(-(n_g - 1) / 2) n_g^(-1/2) exp(-scatter / 2 s).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse._numeric.gp import exponents, pulled
from holdcourse.errors import InvalidInput
from holdcourse.learning.history import History
from holdcourse.learning.kernels import AnyKernel, Kernel, all_listed, summed
from holdcourse.movement.problem import Problem

Array: TypeAlias = NDArray[np.float64]
Kind: TypeAlias = Literal["length", "variance", "noise", "other"]

PRIOR_WIDTH = 1.5  # deviation of every log-parameter: two of them are a factor 20
NOISE_CENTRE = 0.1  # noise deviation expected before looking
NOISE_RANGE = (1e-4, 3.0)  # below, the covariance can no longer be factored safely
VARIANCE_RANGE = (1e-4, 1e3)  # times the variance expected before looking
LENGTH_RANGE = (0.25, 30.0)  # times the spacing of the inputs, and times their extent
FINEST = 1e-3  # gaps smaller than this share of the extent do not count as spacing
CYCLE_RANGE = (0.05, 30.0)  # length scale of ExpSineSquared, which has no unit
OTHER_RANGE = (1e-3, 1e3)  # parameters of any other kind: times where they start
SMALLEST = 1e-140  # inputs that differ by less are equal: their squares would vanish
SKLEARN_BOUNDS = (1e-5, 1e5)  # scikit-learn's default: nobody chose them


@dataclass(frozen=True)
class Parameter:
    """One entry of theta; all numbers are logarithms. A parameter that is held has equal bounds."""

    name: str
    kind: Kind
    start: float
    centre: float
    lower: float
    upper: float

    @property
    def held(self) -> bool:
        """Whether it is left as it is."""
        return self.lower == self.upper


@dataclass(frozen=True)
class Ranges:
    """How far the inputs reach along each axis, as a kernel sees them; all (d,)."""

    spacing: Array
    spread: Array  # standard deviation
    extent: Array
    size: Array  # largest absolute value

    @classmethod
    def of(cls, points: Array) -> Ranges:
        """The ranges of points (k, d)."""
        extent = np.ptp(points, axis=0)
        extent = np.where(extent > SMALLEST, extent, 0.0)
        spacing = np.zeros_like(extent)
        for axis in np.flatnonzero(extent > 0):
            gaps = np.diff(np.unique(points[:, axis])) / extent[axis]
            spacing[axis] = max(gaps.min(), FINEST) * extent[axis]
        spread = (points / np.where(extent > 0, extent, 1.0)).std(axis=0) * extent
        return cls(spacing, spread, extent, np.abs(points).max(axis=0))

    @property
    def varying(self) -> int:
        """Number of axes along which the inputs differ."""
        return int((self.extent > 0).sum())

    def merged(self) -> Ranges:
        """One axis in place of all, for a length scale that they share."""
        vary = self.extent > 0
        if not vary.any():
            return Ranges(*(np.array([values.max()]) for values in (self.spacing, self.spread, self.extent, self.size)))
        spacing, spread, extent = self.spacing[vary].min(), self.spread[vary].mean(), self.extent.max()
        return Ranges(*(np.array([value]) for value in (spacing, spread, extent, self.size.max())))


def parameters(
    problem: Problem, contexts: Array, kernel: AnyKernel, *, noise: bool, reach: float = 1.0
) -> list[Parameter]:
    """The entries of theta for measurements in these contexts (t, d).

    `noise`: whether the noise is fitted too; `reach`: how long length scales are expected to be, 1 being usual.
    """
    shares = np.array([part.variance * _level(part, problem, contexts) for part in kernel.parts])
    result = []
    for number, (part, share) in enumerate(zip(kernel.parts, shares / shares.sum(), strict=True), start=1):
        prefix = f"part {number} " if len(kernel.parts) > 1 else ""
        expected = math.log(share / _level(part, problem, contexts))
        low, high = (expected + math.log(factor) for factor in VARIANCE_RANGE)
        result.append(Parameter(f"{prefix}variance", "variance", expected, expected, low, high))
        sides: dict[str, tuple[Any, Ranges]] = {}
        if not isinstance(part.action, np.ndarray):
            sides["action"] = part.action, Ranges.of(part.action_inputs(problem.features))
        if part.context is not None:
            sides["context"] = part.context, Ranges.of(part.context_inputs(contexts))
        # Distances grow with the number of axes, and so do the length scales that leave anything alike.
        axes = sum(ranges.varying for _, ranges in sides.values())
        for side, (factor, ranges) in sides.items():
            result += _factor_parameters(f"{prefix}{side}", factor, ranges, reach * math.sqrt(axes))
    if noise:
        centre = math.log(NOISE_CENTRE)
        result.append(Parameter("noise_std", "noise", centre, centre, *map(math.log, NOISE_RANGE)))
    return result


def theta_of(kernel: AnyKernel) -> Array:
    """The parameters of a kernel, without the noise."""
    pieces = []
    for part in kernel.parts:
        factors = [factor for factor in (part.action, part.context) if hasattr(factor, "theta")]
        pieces += [np.array([math.log(part.variance)]), *(factor.theta for factor in factors)]
    return np.concatenate(pieces)


def kernel_with(kernel: AnyKernel, theta: Array, variance_unit: float = 1.0) -> AnyKernel:
    """The same structure with other parameters; variances are multiplied by `variance_unit`."""
    parts, place = [], 0
    for part in kernel.parts:
        variance = math.exp(theta[place]) * variance_unit
        place += 1
        factors = []
        for factor in (part.action, part.context):
            if hasattr(factor, "theta"):
                count = len(factor.theta)
                factor = factor.clone_with_theta(theta[place : place + count])
                place += count
            factors.append(factor)
        parts.append(replace(part, action=factors[0], context=factors[1], variance=variance))
    return summed(parts)


def _level(part: Kernel, problem: Problem, contexts: Array) -> float:
    """Typical value on the diagonal of a product kernel, without its variance."""
    if isinstance(part.action, np.ndarray):
        action = np.diag(part.action)
    else:
        action = part.action.diag(part.action_inputs(problem.features))
    return float(np.mean(action) * np.mean(part.context_variances(contexts)))


def _factor_parameters(side: str, factor: Any, ranges: Ranges, reach: float) -> list[Parameter]:
    """Parameters of one scikit-learn kernel, in the order of its theta."""
    result: list[Parameter] = []
    for entry in factor.hyperparameters:
        if entry.fixed:
            continue
        owner, name = _owner(factor, entry.name)
        title = " ".join([side, *([type(owner).__name__] if owner is not factor else []), name.replace("_", " ")])
        starts = np.log(np.atleast_1d(getattr(owner, name)))
        own_bounds = not np.all(entry.bounds == SKLEARN_BOUNDS)
        along = ranges.merged() if entry.n_elements == 1 else ranges
        for k, start in enumerate(starts.tolist()):
            kind, centre, low, high = _usual(type(owner).__name__, name, start, along, k, reach)
            if own_bounds:
                low, high = (float(bound) for bound in np.log(entry.bounds[k]))
                kind, centre = "other", start
            full = title if entry.n_elements == 1 else f"{title} (axis {k})"
            start, centre = (float(np.clip(value, low, high)) for value in (start, centre))
            result.append(Parameter(full, kind, start, centre, low, high))
    return result


def _usual(
    owner: str, name: str, start: float, along: Ranges, k: int, reach: float
) -> tuple[Kind, float, float, float]:
    """Kind, prior centre and bounds of a parameter for which nobody has chosen bounds."""
    if name == "periodicity":  # a day is a day; and the likelihood has a peak at every multiple of it
        return "other", start, start, start
    if name != "length_scale":
        return "other", start, start + math.log(OTHER_RANGE[0]), start + math.log(OTHER_RANGE[1])
    if owner == "ExpSineSquared":
        return "length", 0.0, math.log(CYCLE_RANGE[0]), math.log(CYCLE_RANGE[1])
    if along.extent[k] == 0:  # nothing to learn from; inputs as different as the value itself are taken as unlike
        centre = math.log(along.size[k]) if along.size[k] > SMALLEST else 0.0
        return "length", centre, centre, centre
    centre = math.log(along.spread[k] * reach)
    return (
        "length",
        centre,
        math.log(LENGTH_RANGE[0] * along.spacing[k]),
        math.log(LENGTH_RANGE[1] * along.extent[k]),
    )


Indices: TypeAlias = NDArray[np.int64]

LONGEST_STEP = 0.5  # in a log-parameter, once most of the way is done
DIFFERENCE = 0.02  # in a log-parameter, for second derivatives
ENOUGH = 0.05  # log likelihood: gains of less are not worth a step
MEAN_WIDTH = 1.0  # prior deviation of m, in units of z
NOISE_FLOOR = 1e-10  # noise variance in place of less: below, cov cannot be factored in double precision
JITTERS = (0.0, 1e-10, 1e-8, 1e-6, 1e-4)  # tried in this order, as a share of the mean variance


class Likelihood:
    """How well parameters explain measurements.

    Parameters
    ----------
    problem, history
        Where was measured; the measurements themselves are `z`.
    z
        Standardised measurements.
    kernel
        The structure.
    entries
        What theta holds.
    noise
        Noise deviation in units of z; None: the last entry of theta.
    free_mean
        Whether m is fitted.
    """

    def __init__(
        self,
        problem: Problem,
        history: History,
        z: Array,
        kernel: AnyKernel,
        entries: list[Parameter],
        noise: float | None,
        *,
        free_mean: bool,
    ) -> None:
        self.structure, self.entries, self.fixed_noise, self.free_mean = kernel, entries, noise, free_mean
        self.centre = np.array([entry.centre for entry in entries])
        self.bounds = [(entry.lower, entry.upper) for entry in entries]
        self.evaluations = 0
        self._last: tuple[Array, tuple[float, Array, float]] | None = None
        pairs = np.column_stack([history.actions.astype(np.float64), history.contexts])
        _, first, which, counts = np.unique(pairs, axis=0, return_index=True, return_inverse=True, return_counts=True)
        which = which.reshape(-1)
        self._counts = counts.astype(np.float64)
        self._z = np.bincount(which, weights=z) / self._counts
        self._scatter = float(((z - self._z[which]) ** 2).sum())
        self._repeated = len(z) - len(first)
        actions, contexts = history.actions[first], history.contexts[first]
        self._parts = [_terms(part, problem, actions, contexts) for part in kernel.parts]
        self._ends = np.cumsum([terms.entries for terms in self._parts]).tolist()  # of their parts of theta

    @property
    def points(self) -> int:
        """Number of different pairs of action and context, which the work depends on."""
        return len(self._z)

    def noise(self, theta: Array) -> float:
        """Noise deviation in units of z."""
        return math.exp(theta[-1]) if self.fixed_noise is None else self.fixed_noise

    def evaluate(self, theta: Array) -> tuple[float, Array, float]:
        """Log likelihood at the best m, its gradient, and that m. What was asked last is still known."""
        if self._last is None or not np.array_equal(self._last[0], theta):
            self._last = theta.copy(), self._evaluate(theta)
        return self._last[1]

    def _evaluate(self, theta: Array) -> tuple[float, Array, float]:
        from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

        self.evaluations += 1
        z, t = self._z, len(self._z)
        noise_variance = max(self.noise(theta) ** 2, NOISE_FLOOR)
        cov = np.zeros((t, t))
        for end, terms in zip(self._ends, self._parts, strict=True):
            cov += terms.covariance(theta[end - terms.entries : end])
        level = float(np.trace(cov)) / t
        for jitter in JITTERS:
            # The lower triangle in row order is the upper one in the column order of LAPACK.
            noisy = cov.copy()
            noisy.reshape(-1)[:: t + 1] += noise_variance / self._counts + jitter * level
            factor, failed = dpotrf(noisy.T, lower=0, clean=0, overwrite_a=1)
            if not failed:
                break
        else:
            raise InvalidInput(
                f"the kernel {self.structure} is not positive semidefinite at these inputs; give another one. A "
                "periodic kernel, for example, may depend on one axis only"
            )
        solved = dpotrs(factor, np.column_stack([z, np.ones(t)]), lower=0)[0]
        mean = float(solved[:, 0].sum() / (solved[:, 1].sum() + MEAN_WIDTH**-2)) if self.free_mean else 0.0
        alpha = np.ascontiguousarray(solved[:, 0] - mean * solved[:, 1])
        value = -0.5 * float((z - mean) @ alpha) - float(np.log(np.diag(factor)).sum()) - t / 2 * math.log(2 * math.pi)
        spent = self._repeated * math.log(2 * math.pi * noise_variance) + self._scatter / noise_variance
        value -= 0.5 * (spent + float(np.log(self._counts).sum()))

        inverse = dpotri(factor, lower=0, overwrite_c=1)[0].T
        slopes = np.concatenate([terms.slopes(inverse, alpha) for terms in self._parts])
        if self.fixed_noise is None:
            by_noise = float(((alpha**2 - np.diag(inverse)) / self._counts).sum()) * noise_variance
            slopes = np.append(slopes, by_noise - self._repeated + self._scatter / noise_variance)
        return value, slopes, mean

    def loss(self, theta: Array) -> tuple[float, Array]:
        """What is minimised, minus the log posterior up to a constant, and its gradient."""
        value, slopes, mean = self.evaluate(theta)
        off = (theta - self.centre) / PRIOR_WIDTH
        return 0.5 * float(off @ off) + 0.5 * (mean / MEAN_WIDTH) ** 2 - value, off / PRIOR_WIDTH - slopes

    def maximise(self, start: Array, evaluations: int, tolerance: float = 2.2e-9) -> tuple[Array, float]:
        """Climb from `start` until a step gains no more than this share: where it ends, and the log posterior there."""
        from scipy.optimize import minimize

        lower, upper = np.array(self.bounds).T
        result = minimize(
            self.loss,
            np.clip(start, lower, upper),
            jac=True,
            method="L-BFGS-B",
            bounds=self.bounds,
            options={"maxfun": evaluations, "maxls": 10, "ftol": tolerance},
        )
        return np.clip(result.x, lower, upper), -float(result.fun)

    def curvature(self, theta: Array) -> Array:
        """Second derivatives (p, p) of the log likelihood, by differences of the gradient; p + 1 evaluations."""
        lower, upper = np.array(self.bounds).T
        slopes, columns = self.evaluate(theta)[1], np.zeros((len(theta),) * 2)
        for k in np.flatnonzero(lower < upper):
            step = DIFFERENCE if theta[k] + DIFFERENCE <= upper[k] else -DIFFERENCE
            beside = theta.copy()
            beside[k] += step
            columns[k] = (self.evaluate(beside)[1] - slopes) / step
        return (columns + columns.T) / 2

    def finish(self, start: Array, curvature: Array, evaluations: int) -> Array:
        """The last few steps from `start`, given the curvature there: quasi-Newton, within bounds."""
        lower, upper = np.array(self.bounds).T
        values, vectors = np.linalg.eigh(np.eye(len(start)) / PRIOR_WIDTH**2 - curvature)
        inverse = (vectors / np.maximum(values, PRIOR_WIDTH**-2)) @ vectors.T
        theta, length = np.clip(start, lower, upper), LONGEST_STEP
        value, slopes = self.loss(theta)
        for _ in range(evaluations - 1):
            free = ~(((theta <= lower) & (slopes > 0)) | ((theta >= upper) & (slopes < 0)))
            step = np.where(free, -inverse @ np.where(free, slopes, 0.0), 0.0)
            step *= min(1.0, length / max(float(np.abs(step).max()), 1e-300))
            there = np.clip(theta + step, lower, upper)
            found, new_slopes = self.loss(there)
            moved, bent = there - theta, new_slopes - slopes
            along = float(moved @ bent)
            if along > 1e-12 * float(moved @ moved):  # BFGS; Nocedal and Wright 2006, equation 6.17
                left = np.eye(len(theta)) - np.outer(moved, bent) / along
                inverse = left @ inverse @ left.T + np.outer(moved, moved) / along
            if found >= value:
                length = 0.25 * float(np.abs(moved).max())
                continue
            gained = value - found
            theta, value, slopes = there, found, new_slopes
            if gained < ENOUGH:
                break
        return theta

    def random_start(self, rng: np.random.Generator) -> Array:
        """A draw from the prior, within the bounds."""
        lower, upper = np.array(self.bounds).T
        return np.clip(self.centre + PRIOR_WIDTH * rng.standard_normal(len(self.centre)), lower, upper)


def _terms(part: Kernel, problem: Problem, actions: Indices, contexts: Array) -> _Gaussian | _Product:
    """What one product kernel adds to the covariance of measurements, and its part of the gradient."""
    from sklearn.gaussian_process.kernels import RBF

    action = None if isinstance(part.action, np.ndarray) else part.action
    factors = [factor for factor in (action, part.context) if factor is not None]
    if all(type(factor) is RBF and not factor.hyperparameter_length_scale.fixed for factor in factors):
        return _Gaussian(part, problem, actions, contexts)
    return _Product(part, problem, actions, contexts)


class _Gaussian:
    """A product kernel whose factors are RBF, or a matrix over actions: compiled, as one RBF over all axes."""

    def __init__(self, part: Kernel, problem: Problem, actions: Indices, contexts: Array) -> None:
        inputs = [np.zeros((len(actions), 0))]
        self._sizes: list[int] = []  # how many length scales a factor has
        self._axes: list[int] = []  # how many axes a length scale is for
        self._among: Array | None = None
        if isinstance(part.action, np.ndarray):
            self._among = part.action[np.ix_(actions, actions)]
        else:
            self._add(part.action, part.action_inputs(problem.features[actions]), inputs)
        if part.context is not None:
            self._add(part.context, part.context_inputs(contexts), inputs)
        self._inputs = np.concatenate(inputs, axis=1).T
        self._first = np.cumsum([0, *self._axes[:-1]])
        self.entries = 1 + sum(self._sizes)

    def _add(self, factor: Any, points: Array, inputs: list[Array]) -> None:
        inputs.append(points)
        self._sizes.append(np.size(factor.length_scale))
        self._axes += [1] * points.shape[1] if np.ndim(factor.length_scale) else [points.shape[1]]

    def covariance(self, theta: Array) -> Array:
        """The covariance (t, t) at this part of theta; only its lower triangle counts.

        No kernel is made with these parameters: scikit-learn would take longer for that than all else takes here.
        """
        lengths = np.exp(theta[1:])
        self._scaled = np.ascontiguousarray(self._inputs / np.repeat(lengths, self._axes)[:, None])
        cov = np.empty((self._inputs.shape[1],) * 2)
        exponents(self._scaled, cov)
        np.exp(cov, out=cov)
        cov *= math.exp(theta[0])
        if self._among is not None:
            cov *= self._among
        self._cov = cov
        return cov

    def slopes(self, inverse: Array, alpha: Array) -> Array:
        """Derivatives of the log likelihood by this part of theta, at the last covariance."""
        slopes = np.empty(len(self._scaled) + 1)
        pulled(self._scaled, self._cov, inverse, alpha, slopes)
        by_length = np.add.reduceat(slopes[1:], self._first) if self._axes else slopes[1:]
        return 0.5 * np.concatenate([slopes[:1], by_length])


class _Product:
    """Any other product kernel: covariances once per distinct action and context, derivatives by scikit-learn."""

    def __init__(self, part: Kernel, problem: Problem, actions: Indices, contexts: Array) -> None:
        if isinstance(part.action, np.ndarray):
            self._action = Factor.constant(part.action, actions)
        else:
            self._action = Factor.over(part.action_inputs(problem.features[actions]), part.action)
        if part.context is None:
            self._context = Factor.constant(np.ones((1, 1)), np.zeros(len(actions), dtype=np.int64))
        else:
            self._context = Factor.over(part.context_inputs(contexts), part.context)
        self._below = np.tri(len(actions), k=-1, dtype=bool)
        self.entries = 1 + self._action.entries + self._context.entries

    def covariance(self, theta: Array) -> Array:
        """The covariance (t, t) at this part of theta."""
        context_entries = 1 + self._action.entries
        self._variance = math.exp(theta[0])
        self._ka, self._dka = self._action.evaluate(theta[1:context_entries])
        self._kc, self._dkc = self._context.evaluate(theta[context_entries:])
        self._among_actions, self._among_contexts = self._action.spread(self._ka), self._context.spread(self._kc)
        covariance: Array = self._variance * self._among_actions * self._among_contexts
        return covariance

    def slopes(self, inverse: Array, alpha: Array) -> Array:
        """Derivatives of the log likelihood by this part of theta, at the last covariance."""
        pull = self._variance * (np.outer(alpha, alpha) - np.where(self._below, inverse, inverse.T))
        by_actions = self._action.gather(pull * self._among_contexts)
        slopes = [np.array([(by_actions * self._ka).sum()]), np.einsum("ij,ijk->k", by_actions, self._dka)]
        if self._dkc.shape[2]:
            by_contexts = self._context.gather(pull * self._among_actions)
            slopes.append(np.einsum("ij,ijk->k", by_contexts, self._dkc))
        return 0.5 * np.concatenate(slopes)


class Factor:
    """One factor of a product kernel at the inputs of t measurements, of which u are distinct."""

    def __init__(self, points: Array, which: Indices, given: Any) -> None:
        from scipy.sparse import csr_array

        self.points, self.which = points, which
        self._matrix = given if isinstance(given, np.ndarray) else None
        self._kernel = None if isinstance(given, np.ndarray) else given.clone_with_theta(given.theta)
        self.entries = 0 if self._kernel is None else len(self._kernel.theta)
        # Any class of the user's own may take its parameters in its own way.
        self._set_by_name = self._kernel is not None and all_listed(self._kernel)
        self._parameters = _owned(self._kernel) if self._set_by_name else []
        size = (len(points), len(which))
        self._incidence = csr_array((np.ones(len(which)), (which, np.arange(len(which)))), shape=size)

    @classmethod
    def over(cls, inputs: Array, kernel: Any) -> Factor:
        """The factor of a scikit-learn kernel that sees these inputs, (t, d)."""
        distinct, which = np.unique(inputs, axis=0, return_inverse=True)
        return cls(distinct, which.reshape(-1), kernel)

    @classmethod
    def constant(cls, matrix: Array, rows: Indices) -> Factor:
        """The factor of a matrix that is not fitted, whose rows the measurements belong to, (t,)."""
        distinct, which = np.unique(rows, return_inverse=True)
        return cls(distinct[:, None].astype(np.float64), which.reshape(-1), matrix[np.ix_(distinct, distinct)])

    def evaluate(self, theta: Array) -> tuple[Array, Array]:
        """Covariance (u, u) between the distinct inputs at this part of theta, and its derivatives (u, u, p)."""
        if self._matrix is not None:
            return self._matrix, np.zeros((*self._matrix.shape, 0))
        assert self._kernel is not None
        if self._set_by_name:  # scikit-learn takes longer to set them than all else takes here
            for owner, name, where in self._parameters:
                setattr(owner, name, np.exp(theta[where]))
        else:
            self._kernel = self._kernel.clone_with_theta(theta)
        values, slopes = self._kernel(self.points, eval_gradient=True)
        return values, slopes

    def spread(self, values: Array) -> Array:
        """Spread a matrix over distinct inputs to one over measurements: (u, u) -> (t, t)."""
        return values.take(self.which, axis=0).take(self.which, axis=1)

    def gather(self, values: Array) -> Array:
        """Sums over measurements with equal inputs: (t, t) -> (u, u)."""
        half = self._incidence @ values
        gathered: Array = (self._incidence @ half.T).T
        return gathered


def _owned(kernel: Any) -> list[tuple[Any, str, int | slice]]:
    """Where the entries of a kernel's theta are kept: in which kernel, as which attribute, and their place in theta."""
    found: list[tuple[Any, str, int | slice]] = []
    place = 0
    for entry in kernel.hyperparameters:
        if not entry.fixed:
            owner, name = _owner(kernel, entry.name)
            found.append((owner, name, place if entry.n_elements == 1 else slice(place, place + entry.n_elements)))
            place += entry.n_elements
    return found


def _owner(kernel: Any, path: str) -> tuple[Any, str]:
    """The kernel within a kernel that has a parameter which scikit-learn calls k1__k2__length_scale, and its name."""
    *steps, name = path.split("__")
    for step in steps:
        kernel = getattr(kernel, step)
    return kernel, name
