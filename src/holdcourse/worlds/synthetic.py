"""The paper's synthetic landscapes: costs drawn from a Gaussian process over a grid of actions and a list of contexts.

A draw g from GP(0, kernel) on all actions and contexts becomes the cost ``rho * scale * (g - min g)``, where `scale` is
such that at rho = 1 the mean cost equals the mean of the distance matrix, its zero diagonal included: the paper speaks
of the matrix "between every pair of points", and on its grid leaving the diagonal out would change 0.25 %.

What the learner may know follows from that. The cost is a Gaussian process of mean ``-rho * scale * min g`` and of
``(rho * scale)^2`` times the kernel; `SyntheticWorld.prior_mean` and `.kernel` say so. (Given the shift and the scale,
that is; both are taken from the draw itself, as in the paper, so that the learner knows a little more than it should.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import is_whole
from holdcourse.errors import InvalidInput
from holdcourse.history import check_context, check_contexts
from holdcourse.kernels import AnyKernel, Kernel
from holdcourse.problem import Metric, Problem
from holdcourse.worlds.contexts import context_sequence

Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SyntheticWorld:
    """A landscape of costs, the same in every round with the same context. Made by `sample`.

    Attributes
    ----------
    problem
        The actions.
    contexts
        The contexts that can occur, shape (k, d).
    landscape
        True cost of every action in every context, rho included; shape (k, n), smallest entry 0.
    rho
        Weight of the service cost.
    kernel, prior_mean, noise_std
        What a learner may know: the prior that the landscape was drawn from, and the noise of a measurement.

    Examples
    --------
    >>> import holdcourse as hc
    >>> world = hc.SyntheticWorld.sample(seed=7, grid=6, contexts=4)
    >>> world
    SyntheticWorld(Problem(36 actions, metric='euclidean'), 4 contexts, rho=1)
    >>> world.context_sequence("walk", rounds=5, seed=0).shape
    (5, 1)
    """

    problem: Problem
    contexts: Array
    landscape: Array
    rho: float
    kernel: AnyKernel
    prior_mean: float
    noise_std: float

    @classmethod
    def sample(
        cls,
        seed: int = 7,
        grid: int | Sequence[int] = 20,
        contexts: int | ArrayLike = 40,
        rho: float = 1.0,
        *,
        lengthscale: float = 0.2,
        kernel: AnyKernel | None = None,
        metric: Metric = "euclidean",
        problem: Problem | None = None,
        noise: float = 0.01,
    ) -> SyntheticWorld:
        """Draw a landscape. The defaults are those of the paper; one seed gives the same function for every rho.

        Parameters
        ----------
        seed
            Of the contexts and the function.
        grid
            Points along each axis of the unit square, or along each axis of a unit cube: ``(20, 20)`` is ``20``.
        contexts
            How many to draw uniformly from (0, 1), listed in order; or the contexts themselves, (k,) or (k, d).
        rho
            Weight of the service cost.
        lengthscale, kernel
            A squared exponential kernel over actions and contexts with this length scale, or a kernel of your own.
        metric, problem
            Of the movement costs; or a whole problem in place of the grid.
        noise
            Deviation of a measurement as a share of the range of the cost, rho included: it is added after the weight.
            So a rule that ignores movement does the same at every rho.

        Examples
        --------
        >>> world = SyntheticWorld.sample(seed=7, grid=6, contexts=4, rho=2.0)
        >>> world.landscape.shape, float(world.landscape.min())
        ((4, 36), 0.0)
        >>> bool(np.isclose(world.landscape.mean(), 2.0 * world.problem.distances.mean()))
        True
        """
        if not (math.isfinite(rho) and rho > 0):
            raise InvalidInput(f"rho must be positive, got {rho!r}")
        if not (math.isfinite(noise) and noise >= 0):
            raise InvalidInput(f"noise must be 0 or more, got {noise!r}")
        random = np.random.default_rng(seed)
        problem = _unit_grid(grid, metric) if problem is None else problem
        points = _drawn_contexts(random, contexts) if np.ndim(contexts) == 0 else check_contexts(contexts, None)
        kernel = _squared_exponential(lengthscale) if kernel is None else kernel
        drawn = draw_function(problem, points, kernel, random)
        lowest = float(drawn.min())
        height = float(drawn.mean()) - lowest
        if not height > 0:
            raise InvalidInput(f"the drawn function is constant; use more actions or contexts ({problem!r})")
        factor = rho * float(problem.distances.mean()) / height
        landscape = factor * (drawn - lowest)
        for array in (points, landscape):
            array.setflags(write=False)
        return cls(
            problem=problem,
            contexts=points,
            landscape=landscape,
            rho=float(rho),
            kernel=kernel.scaled(factor**2),
            prior_mean=-factor * lowest,
            noise_std=noise * float(landscape.max()),
        )

    def costs(self, round: int, context: Any) -> Array:  # noqa: A002 - the word of the field
        """True cost of every action, shape (n,); in all rounds the same."""
        costs: Array = self.landscape[self.index(context)]
        return costs

    def measure(self, round: int, context: Any, action: int, noise: float) -> float:  # noqa: A002
        """The true cost plus normal noise."""
        return float(self.landscape[self.index(context), action] + self.noise_std * noise)

    def index(self, context: Any) -> int:
        """Which of the world's contexts this is."""
        row = self._rows.get(tuple(check_context(context, None).tolist()))
        if row is None:
            raise InvalidInput(
                f"context {context!r} is none of the {len(self.contexts)} contexts of this world; see .contexts"
            )
        return row

    @cached_property
    def _rows(self) -> dict[tuple[float, ...], int]:
        return {tuple(context): row for row, context in enumerate(self.contexts.tolist())}

    def context_sequence(self, kind: str | ArrayLike = "iid", rounds: int | None = None, seed: int = 0) -> Array:
        """The context of every round, shape (rounds, d); see `holdcourse.worlds.context_sequence`.

        A sequence given in place of `kind` is checked against the contexts of this world.
        """
        sequence = context_sequence(self.contexts, kind, rounds, seed)
        if not isinstance(kind, str):
            for context in sequence:
                self.index(context)
        return sequence

    def __repr__(self) -> str:
        return f"SyntheticWorld({self.problem!r}, {len(self.contexts)} contexts, rho={self.rho:g})"


def draw_function(
    problem: Problem,
    contexts: Array,  # (k, d)
    kernel: AnyKernel,
    random: np.random.Generator,
) -> Array:
    """One draw from GP(0, kernel) on all actions and contexts, shape (k, n).

    For a product kernel the covariance is a Kronecker product, so the draw is ``sqrt(C) Z sqrt(A)`` with square roots
    of the two small covariance matrices. We take the symmetric ones: unlike eigenvectors, of which a symmetric grid has
    whole planes to choose from, they are unique, and a seed gives the same function on every machine, up to rounding.
    """
    drawn = np.zeros((len(contexts), problem.n))
    for part in kernel.parts:
        normal = random.standard_normal(drawn.shape)
        roots = _square_root(part.context_covariance(contexts)), _square_root(part.action_covariance(problem))
        drawn += math.sqrt(part.variance) * (roots[0] @ normal @ roots[1])
    return drawn


def _unit_grid(grid: int | Sequence[int], metric: Metric) -> Problem:
    sides = (grid, grid) if isinstance(grid, int | np.integer) else tuple(grid)
    if not sides or not all(isinstance(side, int | np.integer) and side >= 1 for side in sides):
        raise InvalidInput(f"grid must be the number of points along each axis, such as 20 or (20, 20), got {grid!r}")
    axes = np.meshgrid(*(np.linspace(0.0, 1.0, side) for side in sides), indexing="ij")
    return Problem(np.stack([axis.ravel() for axis in axes], axis=1), metric)


def _drawn_contexts(random: np.random.Generator, count: Any) -> Array:
    if not is_whole(count) or count < 1:
        raise InvalidInput(f"contexts must be their number, 1 or more, or a list of them, got {count!r}")
    return np.sort(random.random(count))[:, None]


def _squared_exponential(lengthscale: float) -> Kernel:
    if not (math.isfinite(lengthscale) and lengthscale > 0):
        raise InvalidInput(f"lengthscale must be positive, got {lengthscale!r}")
    from sklearn.gaussian_process.kernels import RBF

    return Kernel(RBF(lengthscale), RBF(lengthscale))


def _square_root(covariance: Array) -> Array:
    """The symmetric one; eigenvalues below 0 are rounding."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
