"""What is fitted: the parameters of a kernel and the noise, with the bounds and weak priors that inputs suggest.

Parameters are kept as logarithms, in one vector theta (p,): for each product kernel its variance, its action and its
context parameters, and at the end the noise deviation, if that is fitted. Measurements count in units of their own
scale here, so an expected variance is 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.kernels import AnyKernel, Kernel, summed
from holdcourse.problem import Problem

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


def parameters(problem: Problem, contexts: Array, kernel: AnyKernel, *, noise: bool) -> list[Parameter]:
    """The entries of theta for measurements in these contexts (t, d); `noise`: whether the noise is fitted too."""
    shares = np.array([part.variance * _level(part, problem, contexts) for part in kernel.parts])
    result = []
    for number, (part, share) in enumerate(zip(kernel.parts, shares / shares.sum(), strict=True), start=1):
        prefix = f"part {number} " if len(kernel.parts) > 1 else ""
        expected = math.log(share / _level(part, problem, contexts))
        low, high = (expected + math.log(factor) for factor in VARIANCE_RANGE)
        result.append(Parameter(f"{prefix}variance", "variance", expected, expected, low, high))
        sides: dict[str, tuple[Any, Ranges]] = {}
        if not isinstance(part.action, np.ndarray):
            sides["action"] = part.action, Ranges.of(part.action_inputs(problem.actions))
        if part.context is not None:
            sides["context"] = part.context, Ranges.of(part.context_inputs(contexts))
        axes = sum(ranges.varying for _, ranges in sides.values())
        for side, (factor, ranges) in sides.items():
            result += _factor_parameters(f"{prefix}{side}", factor, ranges, axes)
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
        shifts = (part.action_shift, part.action_scale, part.context_shift, part.context_scale)
        parts.append(Kernel(factors[0], factors[1], variance, *shifts))
    return summed(parts)


def _level(part: Kernel, problem: Problem, contexts: Array) -> float:
    """Typical value on the diagonal of a product kernel, without its variance."""
    if isinstance(part.action, np.ndarray):
        action = np.diag(part.action)
    else:
        action = part.action.diag(part.action_inputs(problem.actions))
    return float(np.mean(action) * np.mean(part.context_variances(contexts)))


def _factor_parameters(side: str, factor: Any, ranges: Ranges, axes: int) -> list[Parameter]:
    """Parameters of one scikit-learn kernel, in the order of its theta."""
    result: list[Parameter] = []
    for entry in factor.hyperparameters:
        if entry.fixed:
            continue
        *path, name = entry.name.split("__")
        owner = factor
        for step in path:
            owner = getattr(owner, step)
        title = " ".join([side, *([type(owner).__name__] if path else []), name.replace("_", " ")])
        starts = np.log(np.atleast_1d(getattr(owner, name)))
        own_bounds = not np.all(entry.bounds == SKLEARN_BOUNDS)
        along = ranges.merged() if entry.n_elements == 1 else ranges
        for k, start in enumerate(starts.tolist()):
            kind, centre, low, high = _usual(type(owner).__name__, name, start, along, k, axes)
            if own_bounds:
                low, high = (float(bound) for bound in np.log(entry.bounds[k]))
                kind, centre = "other", start
            full = title if entry.n_elements == 1 else f"{title} (axis {k})"
            start, centre = (float(np.clip(value, low, high)) for value in (start, centre))
            result.append(Parameter(full, kind, start, centre, low, high))
    return result


def _usual(owner: str, name: str, start: float, along: Ranges, k: int, axes: int) -> tuple[Kind, float, float, float]:
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
    # Distances grow with the number of axes, and so do the length scales that leave anything alike.
    centre = math.log(along.spread[k] * math.sqrt(axes))
    return (
        "length",
        centre,
        math.log(LENGTH_RANGE[0] * along.spacing[k]),
        math.log(LENGTH_RANGE[1] * along.extent[k]),
    )
