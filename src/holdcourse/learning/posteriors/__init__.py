"""Posteriors behind one protocol: `posterior` chooses between them by counts and says why in its `repr`.

- exact: every measurement is kept; for a few hundred of them, and for what has no finite basis;
- flat: a fixed number of weights; one round costs the same after a year as on the first day; where they cannot cover
  the contexts, they are capped, and what they leave out counts as unknown;
- temporal: contexts are times that never go back; a Kalman filter, exact and flat.

With ``kernel="auto"`` one of these stands inside a posterior that fits its own kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from numpy.typing import ArrayLike

from holdcourse.checks import flag, is_finite
from holdcourse.errors import InvalidInput, TooLarge, shown
from holdcourse.learning.history import History
from holdcourse.learning.kernels import MATRIX_ACTIONS, AnyKernel, check_kernel, checked_period
from holdcourse.learning.posteriors.adaptive import AdaptivePosterior
from holdcourse.learning.posteriors.basis import Layout
from holdcourse.learning.posteriors.capped import CappedPosterior
from holdcourse.learning.posteriors.exact import ExactPosterior, Prior, PriorMean
from holdcourse.learning.posteriors.fitted import FittedPosterior
from holdcourse.learning.posteriors.flat import FlatPosterior
from holdcourse.learning.posteriors.protocol import Posterior
from holdcourse.learning.posteriors.temporal import TemporalPosterior, why_not_temporal
from holdcourse.movement.problem import Problem

__all__ = [
    "AdaptivePosterior",
    "CappedPosterior",
    "ExactPosterior",
    "FittedPosterior",
    "FlatPosterior",
    "History",
    "Method",
    "Posterior",
    "Prior",
    "PriorMean",
    "TemporalPosterior",
    "posterior",
]


Method: TypeAlias = Literal["auto", "exact", "flat", "temporal"]
FITTED_TOLERANCE = 1e-3  # where the kernel is fitted, it is known less well than this
METHODS = ("auto", "exact", "flat", "temporal")
CAPPED_ACTIONS = 100_000  # whose features a capped basis, which makes several copies of them, has room for


def posterior(
    problem: Problem,
    kernel: AnyKernel | Literal["auto"],
    noise_std: float | None = None,
    prior_mean: PriorMean | None = None,
    method: Method = "auto",
    context_bounds: ArrayLike | None = None,
    contexts: ArrayLike | None = None,
    history: History | Iterable[tuple[int, Any, float]] | None = None,
    forgetting: float = 1.0,
    *,
    period: Any = None,
    time: bool = False,
    regularisation: float | None = None,
    tolerance: float | None = None,
) -> Posterior:
    """Make the posterior of a Gaussian process over the cost of every action in every context.

    Parameters
    ----------
    problem, kernel
        The actions, and the covariance of the cost: a `Kernel`, or "auto" to fit one as measurements come in.
    noise_std
        Standard deviation of a measurement; default 0.1, or fitted with ``kernel="auto"``.
    prior_mean
        Expected cost before any measurement; default 0, or fitted with ``kernel="auto"``. A number; (n,), one per
        action; or ``f(actions, context)``, which gets the (n, d) coordinates of all actions and one context vector, and
        returns (n,) numbers, or one for all.
    method
        "exact", "flat", "temporal", or "auto", which chooses by what you declare and by counts. "auto" is temporal if
        contexts are times and the kernel allows it, and flat if the declared contexts need few enough weights.
        Otherwise it is exact at first, flat once enough contexts were seen, and always flat from measurement 512 on.
    context_bounds
        Box from which the contexts come, a (low, high) pair per axis. If a context lies outside, the basis grows.
    contexts
        List of the contexts that can occur, (k,) or (k, d), instead of a box.
    history
        Past measurements: a `History` or (action, context, measurement) triples. The posterior starts from them.
    forgetting
        Factor below 1 by which every measurement multiplies what was known before, so that old measurements fade (flat
        only).
    period
        With ``kernel="auto"``: the period of each number of the context that is a circle, such as the hour of day (24)
        or a direction (360), None for the others; one entry serves all. A kernel that you give has its own
        `context_period`.
    time
        Whether contexts are times, which never go back. With Matern kernels in time "auto" is then "temporal".
    regularisation
        Variance lambda on the diagonal of the kernel matrix; default: the noise variance. The proof of the paper's
        Theorem 1 takes the number of rounds of an episode.
    tolerance
        Share of the prior variance that the flat method may discard; by default as little as 960 weights allow, and
        a thousandth with a kernel that is fitted.

    Returns
    -------
    Posterior
        The posterior; `Posterior` lists its methods.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> import holdcourse as hc
    >>> post = hc.posterior(hc.Problem([0.0, 0.5, 1.0]), hc.Kernel(RBF(0.5), RBF(0.3)), context_bounds=(0, 1))
    >>> mean, std = post.condition(1, 0.2, 3.0).predict(0.2)
    >>> mean.round(2).tolist(), std.round(2).tolist()
    ([1.8, 2.97, 1.8], [0.8, 0.1, 0.8])
    """
    if not (isinstance(method, str) and method in METHODS):
        raise InvalidInput(f"method {shown(method)} is not known; use one of {list(METHODS)}")
    if contexts is not None and context_bounds is not None:
        raise InvalidInput("give contexts (a list of those that can occur) or context_bounds (their range), not both")
    if not (is_finite(forgetting) and 0.0 < forgetting <= 1.0):
        raise InvalidInput(f"forgetting must be above 0 and at most 1 (1 forgets nothing), got {shown(forgetting)}")
    if forgetting != 1.0 and method == "exact":
        raise InvalidInput(f"the exact method forgets nothing; use method='flat' with forgetting={forgetting!r}")
    time = flag(time, "time")
    timeless = forgetting == 1.0 and contexts is None and context_bounds is None
    if method == "temporal" and not timeless:
        raise InvalidInput(
            "with method='temporal' the context is time and the kernel says what fades; leave out contexts, "
            "context_bounds and forgetting"
        )

    def choose(prior: Prior) -> Posterior:
        if method == "temporal" or (method == "auto" and time and timeless and why_not_temporal(prior.kernel) is None):
            reason = "asked for" if method == "temporal" else "contexts are declared to be time"
            return TemporalPosterior(prior, tolerance=tolerance, reason=reason)
        return _chosen(prior, method, contexts, context_bounds, forgetting, tolerance)

    post: Posterior
    if isinstance(kernel, str):
        if kernel != "auto":
            raise InvalidInput(f"kernel {kernel!r} is not known; give a Kernel, or 'auto' to fit one")
        if method == "temporal" or regularisation is not None:
            raise InvalidInput(
                "kernel='auto' fits kernel and noise, but method='temporal' and regularisation need a given kernel; "
                "give kernel=Kernel(...)"
            )
        tolerance = FITTED_TOLERANCE if tolerance is None else tolerance
        post = FittedPosterior(problem, choose, noise_std, prior_mean, checked_period(period, "period"))
    else:
        check_kernel(kernel)
        if period is not None:
            raise InvalidInput(
                f"period={period!r} is for kernel='auto'; a given kernel has its own period: "
                f"Kernel(..., context_period={period!r})"
            )
        noise_std = 0.1 if noise_std is None else noise_std
        prior_mean = 0.0 if prior_mean is None else prior_mean
        post = choose(Prior(problem, kernel, noise_std, prior_mean, regularisation))
    if history is not None:
        post.condition_on(History.of(history))
    return post


def _chosen(
    prior: Prior,
    method: Method,
    contexts: ArrayLike | None,
    context_bounds: ArrayLike | None,
    forgetting: float,
    tolerance: float | None,
) -> Posterior:
    many = prior.problem.n > MATRIX_ACTIONS
    if many and method == "exact":
        raise TooLarge(
            f"the exact method needs the covariance of all actions and takes at most {MATRIX_ACTIONS} of them, but "
            f"there are {prior.problem.n}; use method='flat'"
        )
    if method == "exact":
        return ExactPosterior(prior)
    declared = contexts is not None or context_bounds is not None or not prior.kernel.uses_context
    if method == "auto" and not declared and forgetting == 1.0 and not many:
        return AdaptivePosterior(prior, tolerance=tolerance)
    layout = Layout(prior, contexts, context_bounds, tolerance)
    if layout.complete or (layout.box is None and not layout.listed):
        covering = f"{layout.size} weights cover the declared contexts" if declared else "there are many actions"
        reason = covering if method == "auto" else "asked for"
        reason = "asked for" if forgetting != 1.0 else reason
        return FlatPosterior(prior, layout, forgetting=forgetting, reason=reason)
    if prior.problem.n > CAPPED_ACTIONS:
        raise TooLarge(
            f"{layout.size} weights would still discard {layout.discarded:.1e} of the prior variance of "
            f"{prior.problem.n} actions; give a longer length scale, fewer or narrower contexts, or a tolerance that "
            "allows it"
        )
    discarded = f"{layout.size} weights would still discard {layout.discarded:.1e} of the prior variance"
    if method == "flat" or forgetting != 1.0 or many:
        why = "asked for" if method == "flat" or forgetting != 1.0 else "there are many actions"
        reason = f"{why}; {discarded}, so the basis is capped and what it leaves out counts as unknown"
        return CappedPosterior(prior, layout.candidates, forgetting=forgetting, reason=reason)
    return AdaptivePosterior(prior, tolerance=tolerance, dimension=layout.dimension, beginning=discarded)
