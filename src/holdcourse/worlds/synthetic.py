"""The paper's synthetic landscapes: costs drawn from a Gaussian process over a grid of actions and a list of contexts.

The processes that contexts follow are here as well: what a world shows round after round, out of its list.

A draw g from GP(0, kernel) on all actions and contexts becomes the cost ``rho * scale * (g - min g)``, where `scale` is
such that at rho = 1 the mean cost equals the mean of the distance matrix, its zero diagonal included: the paper speaks
of the matrix "between every pair of points", and on its grid leaving the diagonal out would change 0.25 %.

What the learner may know follows from that. The cost is a Gaussian process of mean ``-rho * scale * min g`` and of
``(rho * scale)^2`` times the kernel; `SyntheticWorld.prior_mean` and `.kernel` say so. (Given the shift and the scale,
that is; both are taken from the draw itself, as in the paper, so that the learner knows a little more than it should.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import array_of, checked_seed, float_array, is_finite, is_whole, one_number, whole_number
from holdcourse.errors import InvalidInput, TooLarge, counted, shown
from holdcourse.learning.history import check_context, check_contexts
from holdcourse.learning.kernels import AnyKernel, Kernel, check_kernel
from holdcourse.movement.problem import Metric, Problem, check_problem

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

WALK_STEP = 0.05  # deviation of one step, as a share of the list of contexts
DAY_ROUNDS = 24
DAY_SPREAD = 0.05  # no two days are quite the same
BLOCK_ROUNDS = 25.0  # mean length
DRIFT_SPREAD = 0.03  # deviation from a steady drift, as a share of the list of contexts
PULSE_CHANCE = 0.1  # of a round's interruption
REGIME_ROUNDS, REGIME_CONTEXTS = 60.0, 5  # mean length of a regime, and how many contexts belong to it
TRIP_STOPS = 8
MOST_DRAWN = 20_000  # actions or contexts of a drawn function, whose square roots take the cube of their number


def context_sequence(
    contexts: ArrayLike, kind: str | ArrayLike = "iid", rounds: int | None = None, seed: int = 0
) -> Array:
    """Draw a sequence of contexts from a list, shape (rounds, d).

    Parameters
    ----------
    contexts
        Contexts that can occur, (k,) or (k, d). "walk" and "daily" move along this list in the order of the first
        coordinate.
    kind
        Process of the contexts; or a sequence of contexts, which is returned as it is (its first `rounds`, if given).

        - "iid": any context of the list in each round, all equally likely (as in the paper).
        - "walk": a random walk along the list, reflected at the ends, with steps of 5 % of the list.
        - "daily": up and down the list within 24 rounds, 5 % of it at random.
        - "blocks": one context for a geometric number of rounds, 25 on average, then any other.
        - "alternating": two contexts in turn.

        Four processes are built to be hard for rules that learn:

        - "drift": once along the list, never back.
        - "pulse": one context, interrupted for single rounds by any other.
        - "regimes": five contexts, replaced by five others about every 60 rounds.
        - "chain change": a round trip over eight contexts; halfway through, the same eight in another order.
    rounds
        Number of rounds.
    seed
        Seed of the draw.

    Examples
    --------
    >>> context_sequence([0.1, 0.5, 0.9], "alternating", rounds=4, seed=1).ravel().tolist()
    [0.1, 0.5, 0.1, 0.5]
    """
    points = check_contexts(contexts, None)
    if not isinstance(kind, str):
        given = check_contexts(kind, points.shape[1])
        if rounds is not None and not 0 <= rounds <= len(given):
            raise InvalidInput(f"rounds is {rounds}, but the sequence given has {counted(len(given), 'context')}")
        return given[:rounds]
    if not (isinstance(kind, str) and kind in CONTEXT_PROCESSES):
        raise InvalidInput(f"kind {shown(kind)} is not known; use one of {list(CONTEXT_PROCESSES)}, or give a sequence")
    many, random = whole_number(rounds, "rounds", 0), np.random.default_rng(checked_seed(seed))
    if len(points) == 0:
        raise InvalidInput("contexts is empty; give at least one context to draw from")
    ordered = points[np.lexsort(points.T[::-1])] if points.shape[1] else points
    which = CONTEXT_PROCESSES[kind](len(ordered), many, random)
    return np.asarray(ordered[which])


# -- context processes: indices into the ordered list of k contexts, one per round ------------------------------------


def _iid(k: int, rounds: int, random: np.random.Generator) -> Indices:
    return random.integers(k, size=rounds)


def _walk(k: int, rounds: int, random: np.random.Generator) -> Indices:
    steps = WALK_STEP * random.standard_normal(rounds)
    steps[:1] = random.random()  # the start, anywhere on [0, 1)
    folded = np.abs(np.mod(np.cumsum(steps) + 1.0, 2.0) - 1.0)  # reflected at 0 and 1
    return _places(folded, k)


def _daily(k: int, rounds: int, random: np.random.Generator) -> Indices:
    phase = 2 * np.pi * (np.arange(rounds) / DAY_ROUNDS + random.random())
    return _places(0.5 - 0.5 * np.cos(phase) + DAY_SPREAD * random.standard_normal(rounds), k)


def _blocks(k: int, rounds: int, random: np.random.Generator) -> Indices:
    changes = random.random(rounds) < 1 / BLOCK_ROUNDS
    changes[:1] = False
    hops = np.where(changes, random.integers(1, max(k, 2), size=rounds), 0)  # never back to the same one
    hops[:1] = random.integers(k)
    return np.asarray(np.cumsum(hops) % k)


def _alternating(k: int, rounds: int, random: np.random.Generator) -> Indices:
    pair = random.choice(k, size=2, replace=k < 2)
    return np.asarray(pair[np.arange(rounds) % 2])


def _drift(k: int, rounds: int, random: np.random.Generator) -> Indices:
    return _places(np.linspace(0.0, 1.0, rounds) + DRIFT_SPREAD * random.standard_normal(rounds), k)


def _pulse(k: int, rounds: int, random: np.random.Generator) -> Indices:
    sequence = np.full(rounds, random.integers(k))
    rare = random.random(rounds) < PULSE_CHANCE
    sequence[rare] = random.integers(k, size=int(rare.sum()))
    return sequence


def _regimes(k: int, rounds: int, random: np.random.Generator) -> Indices:
    sequence = np.empty(rounds, dtype=np.int64)
    few = random.choice(k, size=min(REGIME_CONTEXTS, k), replace=False)
    for t in range(rounds):
        if random.random() < 1 / REGIME_ROUNDS:
            few = random.choice(k, size=min(REGIME_CONTEXTS, k), replace=False)
        sequence[t] = random.choice(few)
    return sequence


def _chain_change(k: int, rounds: int, random: np.random.Generator) -> Indices:
    stops = random.choice(k, size=min(TRIP_STOPS, k), replace=False)
    later = random.permutation(stops)
    t = np.arange(rounds)
    return np.asarray(np.where(t < rounds // 2, stops[t % len(stops)], later[t % len(stops)]))


CONTEXT_PROCESSES: Mapping[str, Callable[[int, int, np.random.Generator], Indices]] = MappingProxyType(
    {
        "iid": _iid,
        "walk": _walk,
        "daily": _daily,
        "blocks": _blocks,
        "alternating": _alternating,
        "drift": _drift,
        "pulse": _pulse,
        "regimes": _regimes,
        "chain change": _chain_change,
    }
)


def _places(shares: Array, k: int) -> Indices:
    """Places 0..k-1 in the list, of shares of it that lie nominally in [0, 1]."""
    return np.clip((shares * k).astype(np.int64), 0, k - 1)


@dataclass(frozen=True, eq=False)
class SyntheticWorld:
    """A random landscape of costs: the cost of an action depends on the context alone. Made by `sample`.

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
        Prior from which the landscape was drawn, and noise of a measurement, which a learner may know.

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

    def __post_init__(self) -> None:
        check_problem(self.problem)
        contexts, landscape = check_contexts(self.contexts, None), float_array(self.landscape, "landscape")
        if landscape.shape != (len(contexts), self.problem.n) or not np.isfinite(landscape).all():
            raise InvalidInput(
                f"landscape must be finite, with a row for each of {len(contexts)} contexts and a column for "
                f"each of {self.problem.n} actions, got shape {landscape.shape}"
            )
        if not (is_finite(self.rho) and self.rho > 0):
            raise InvalidInput(f"rho must be positive, got {shown(self.rho)}")
        if not (is_finite(self.noise_std) and self.noise_std >= 0):
            raise InvalidInput(f"noise_std must be 0 or more, got {shown(self.noise_std)}")
        check_kernel(self.kernel)
        for name, array in (("contexts", contexts), ("landscape", landscape)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

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
            Seed of the contexts and the function.
        grid
            Number of points along each axis of the unit square; or one number for each axis of a unit cube, so that
            ``(20, 20)`` means ``20``.
        contexts
            Number of contexts, drawn uniformly from (0, 1) and sorted; or the contexts themselves, (k,) or (k, d).
        rho
            Weight of the service cost.
        lengthscale, kernel
            A squared exponential kernel over actions and contexts with this length scale, or a kernel of your own.
        metric, problem
            Metric of the movement costs; or a whole problem instead of the grid.
        noise
            Standard deviation of a measurement as a share of the range of the cost, rho included. So the noise grows
            with rho, and a rule that ignores movement decides the same at every rho.

        Examples
        --------
        >>> world = SyntheticWorld.sample(seed=7, grid=6, contexts=4, rho=2.0)
        >>> world.landscape.shape, float(world.landscape.min())
        ((4, 36), 0.0)
        >>> bool(np.isclose(world.landscape.mean(), 2.0 * world.problem.distances.mean()))
        True
        """
        if not (is_finite(rho) and rho > 0):
            raise InvalidInput(f"rho must be positive, got {shown(rho)}")
        if not (is_finite(noise) and noise >= 0):
            raise InvalidInput(f"noise must be 0 or more, got {shown(noise)}")
        random = np.random.default_rng(checked_seed(seed))
        problem = _unit_grid(grid, metric) if problem is None else problem
        points = (
            _drawn_contexts(random, contexts)
            if array_of(contexts, "contexts").ndim == 0
            else check_contexts(contexts, None)
        )
        if not len(points):
            raise InvalidInput("contexts is empty; give at least one context")
        kernel = _squared_exponential(lengthscale) if kernel is None else kernel
        drawn = draw_function(problem, points, kernel, random)
        lowest = float(drawn.min())
        height = float(drawn.mean()) - lowest
        if not height > 0:
            raise InvalidInput(f"the drawn function is constant; use more actions or contexts ({problem!r})")
        factor = rho * float(problem.distances.mean()) / height
        landscape = factor * (drawn - lowest)
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
        """True cost of every action, shape (n,), in one of the world's contexts; it does not depend on the round."""
        costs: Array = self.landscape[self.index(context)]
        return costs

    def measure(self, round: int, context: Any, action: int, noise: float) -> float:  # noqa: A002
        """The true cost of an action plus `noise_std` times `noise`, a standard normal number."""
        self.problem.check_action(action)
        return float(self.landscape[self.index(context), action] + self.noise_std * one_number(noise, "noise"))

    def index(self, context: Any) -> int:
        """Return the place of a context in `contexts`."""
        row = self._rows.get(tuple(check_context(context, None).tolist()))
        if row is None:
            raise InvalidInput(
                f"context {shown(context)} is not one of the {counted(len(self.contexts), 'context')} of this world; "
                "see .contexts"
            )
        return row

    @cached_property
    def _rows(self) -> dict[tuple[float, ...], int]:
        return {tuple(context): row for row, context in enumerate(self.contexts.tolist())}

    def context_sequence(self, kind: str | ArrayLike = "iid", rounds: int | None = None, seed: int = 0) -> Array:
        """The context of every round, shape (rounds, d); see `holdcourse.worlds.context_sequence`.

        A sequence given instead of `kind` is checked against the contexts of this world.
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
    sides = (grid, grid) if is_whole(grid) else tuple(grid) if isinstance(grid, Iterable) else ()
    if not sides or not all(is_whole(side) and side >= 1 for side in sides):
        raise InvalidInput(
            f"grid must be the number of points along each axis, such as 20 or (20, 20), got {shown(grid)}"
        )
    if math.prod(int(side) for side in sides) > MOST_DRAWN:
        raise TooLarge(f"a grid of {shown(grid)} has more than {MOST_DRAWN:,} actions; use fewer points along an axis")
    axes = np.meshgrid(*(np.linspace(0.0, 1.0, side) for side in sides), indexing="ij")
    return Problem(np.stack([axis.ravel() for axis in axes], axis=1), metric)


def _drawn_contexts(random: np.random.Generator, count: Any) -> Array:
    if not is_whole(count) or count < 1:
        raise InvalidInput(f"contexts must be their number, 1 or more, or a list of them, got {shown(count)}")
    if count > MOST_DRAWN:
        raise TooLarge(f"a function is drawn at {MOST_DRAWN:,} contexts at most, got {shown(count)}")
    return np.sort(random.random(count))[:, None]


def _squared_exponential(lengthscale: float) -> Kernel:
    if not (is_finite(lengthscale) and lengthscale > 0):
        raise InvalidInput(f"lengthscale must be positive, got {shown(lengthscale)}")
    from sklearn.gaussian_process.kernels import RBF

    return Kernel(RBF(lengthscale), RBF(lengthscale))


def _square_root(covariance: Array) -> Array:
    """The symmetric one; eigenvalues below 0 are rounding."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
