"""The regret of a run against perfect hindsight, and the quantities in the paper's Theorem 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.checks import is_finite
from holdcourse.errors import InvalidInput, shown
from holdcourse.learning.confidence import TheoryWidth
from holdcourse.worlds.simulation import Run

Array: TypeAlias = NDArray[np.float64]


def require_run(run: Any) -> None:
    """Raise unless it is a run."""
    if not isinstance(run, Run):
        raise InvalidInput(f"run must be a Run, as hc.simulate returns it, got {shown(run)}")


def approximate_regret(run: Run, alpha: float = 1.0, beta: float = 0.0) -> Array:
    """The (alpha, beta)-regret of each episode, cost - alpha * optimum - beta; shape (episodes,).

    The optimum is the clairvoyant one, on the true costs and from the episode's own start. With the defaults this is
    the plain regret, which is never negative.

    Parameters
    ----------
    run
        The run, as `simulate` returns it.
    alpha
        Factor of the optimum.
    beta
        Constant of each episode, in units of the cost.

    Examples
    --------
    >>> import holdcourse as hc
    >>> world = hc.SyntheticWorld.sample(seed=7, grid=5, contexts=3)
    >>> run = hc.simulate(hc.md_known(world.problem), world, world.context_sequence("iid", rounds=20), episodes=2)
    >>> plain = hc.approximate_regret(run)
    >>> plain.shape, bool((plain >= 0).all()), bool((hc.approximate_regret(run, alpha=2.0) < plain).all())
    ((2,), True, True)
    """
    require_run(run)
    if not (is_finite(alpha) and is_finite(beta)):
        raise InvalidInput(f"alpha and beta must be finite, got {shown(alpha)} and {shown(beta)}")
    costs = np.array([episode.total for episode in run.episodes])
    optima = np.array([path.total for path in run.optima])
    return np.asarray(costs - alpha * optima - beta)


def ratio_to_optimum(run: Run) -> float:
    """Return the cost of the whole run divided by that of the clairvoyant optimum; 1 if both are free.

    Examples
    --------
    >>> import holdcourse as hc
    >>> world = hc.SyntheticWorld.sample(seed=7, grid=5, contexts=3)
    >>> run = hc.simulate(hc.md_known(world.problem), world, world.context_sequence("iid", rounds=20), episodes=2)
    >>> hc.ratio_to_optimum(run) >= 1.0
    True
    """
    require_run(run)
    optimum = sum(path.total for path in run.optima)
    if optimum == 0:
        return 1.0 if run.total == 0 else math.inf
    return run.total / optimum


@dataclass(frozen=True)
class TheoremQuantities:
    """The quantities in the bound of the paper's Theorem 1. A field is None if its value is unknown.

    The theorem is about the sum over episodes of the (alpha, beta)-regret, for bounds that are frozen within an episode
    (``every="episode"``). It holds up to constants, so these numbers show how a bound grows; they are not bounds.

    Attributes
    ----------
    diameter
        psi, the largest distance between two actions.
    actions, rounds, episodes
        n, H (of the longest episode) and N.
    alpha_order, beta_order
        (log n)^2 and 1, the orders of alpha and beta.
    delta
        Largest probability with which the bound may fail.
    norm_bound
        B, a bound on the norm of the cost function, less its prior mean, in the kernel's space.
    information_gain
        gamma: the gain that the measurements of the run realised, instead of the theorem's largest possible gain.
    width
        beta_N, as `TheoryWidth` gives it.
    learning_error
        beta_N * sqrt(N H^2 gamma + H log(H / delta)), as the theorem is printed; docs/theory/algorithm.md says where
        its proof differs.

    Examples
    --------
    >>> import holdcourse as hc
    >>> world = hc.SyntheticWorld.sample(seed=7, grid=5, contexts=3)
    >>> run = hc.simulate(hc.stationary(world.problem), world, world.context_sequence("iid", rounds=20), episodes=2)
    >>> quantities = hc.theorem_quantities(run)
    >>> quantities.actions, quantities.rounds, quantities.episodes, round(quantities.alpha_order, 2)
    (25, 10, 2, 10.36)
    >>> quantities.information_gain is None  # it learns nothing
    True
    """

    diameter: float
    actions: int
    rounds: int
    episodes: int
    alpha_order: float
    beta_order: float
    delta: float
    norm_bound: float | None
    information_gain: float | None
    width: float | None
    learning_error: float | None


def theorem_quantities(run: Run, norm_bound: float | None = None, delta: float = 0.05) -> TheoremQuantities:
    """Compute the quantities in Theorem 1's bound for a run.

    Parameters
    ----------
    run
        The run, as `simulate` returns it.
    norm_bound
        B, if you know one; without it there is no width.
    delta
        Largest probability with which the bound may fail.

    Examples
    --------
    >>> import holdcourse as hc
    >>> world = hc.SyntheticWorld.sample(seed=7, grid=5, contexts=3)
    >>> learned = {"kernel": world.kernel, "noise_std": world.noise_std, "prior_mean": world.prior_mean}
    >>> contexts = world.context_sequence("iid", rounds=20)
    >>> run = hc.simulate(hc.gp_md(world.problem, **learned), world, contexts, episodes=2)
    >>> hc.theorem_quantities(run).width is None  # without a bound on the norm there is no width
    True
    >>> hc.theorem_quantities(run, norm_bound=2.0).width > 2.0
    True
    """
    require_run(run)
    if not (is_finite(delta) and 0 < delta < 1):
        raise InvalidInput(f"delta must lie between 0 and 1, got {shown(delta)}")
    if norm_bound is not None and not (is_finite(norm_bound) and norm_bound > 0):
        raise InvalidInput(f"norm_bound must be positive, got {shown(norm_bound)}")
    problem, rounds, episodes = run.world.problem, int(run.lengths.max()), len(run.lengths)
    gain = width = error = None
    if run.learned is not None:
        gain = run.learned.information_gain
        if norm_bound is not None:
            learned = run.learned
            width = TheoryWidth(norm_bound, delta).after(gain, learned.noise_std, learned.regularisation)
            slack = rounds * math.log(rounds / delta) if rounds else 0.0
            error = width * math.sqrt(episodes * rounds**2 * gain + slack)
    return TheoremQuantities(
        diameter=problem.diameter,
        actions=problem.n,
        rounds=rounds,
        episodes=episodes,
        alpha_order=math.log(problem.n) ** 2,
        beta_order=1.0,
        delta=delta,
        norm_bound=norm_bound,
        information_gain=gain,
        width=width,
        learning_error=error,
    )
