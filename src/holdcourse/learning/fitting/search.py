"""Kernel, noise and prior mean by the search for the parameters that explain the measurements best."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from holdcourse.checks import checked_seed, whole_number
from holdcourse.learning.fitting.likelihood import (
    PRIOR_WIDTH,
    Array,
    Likelihood,
    Parameter,
    kernel_with,
    parameters,
    theta_of,
)
from holdcourse.learning.fitting.points import (
    PriorMean,
    checked_history,
    checked_noise,
    first_guesses,
    prior_mean_at,
    standardised,
    subset,
)
from holdcourse.learning.history import History
from holdcourse.learning.kernels import AnyKernel, Kernel, Periods
from holdcourse.movement.problem import Problem
from holdcourse.threads import one_thread


class FitWarning(UserWarning):
    """A fitted parameter sits on its bound: the measurements do not determine it.

    Examples
    --------
    >>> import holdcourse as hc
    >>> import warnings
    >>> problem, actions, contexts = hc.Problem([0.0, 1.0, 2.0]), [0, 1, 2] * 4, [k / 12 for k in range(12)]
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", hc.FitWarning)
    ...     fit = hc.fit_kernel(problem, actions, contexts, [1.0, 2.0, 3.0] * 4, restarts=0)  # no noise, no trend
    >>> caught[0].category.__name__, "noise_std" in fit.on_bounds
    ('FitWarning', True)
    """


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """Kernel, noise and prior mean that were fitted to measurements.

    Attributes
    ----------
    kernel, noise_std, prior_mean
        Ready for a posterior, in the units of the inputs and the measurements.
    log_marginal_likelihood
        Log density of the measurements used, without the weak priors on the parameters.
    parameters
        Every parameter by name. Length scales are as the kernel sees its inputs: in the user's units unless the
        kernel was given with a scaling of its own.
    on_bounds
        Names of the parameters that sit on a bound, and which: "lower" or "upper".
    points_used, points_given
        Number of measurements in the likelihood, and number of all measurements.
    evaluations
        Number of evaluations of the likelihood.

    Examples
    --------
    >>> import holdcourse as hc
    >>> import numpy as np
    >>> actions, contexts = np.repeat([0, 1, 2], 8), np.tile(np.linspace(0.0, 1.0, 8), 3)
    >>> measured = (actions / 2 - contexts) ** 2 + 0.01 * np.cos(37.0 * np.arange(24))
    >>> fit = hc.fit_kernel(hc.Problem([0.0, 0.5, 1.0]), actions, contexts, measured, restarts=0)
    >>> sorted(fit.parameters)
    ['action length scale', 'context length scale', 'noise_std', 'variance']
    >>> fit.noise_std < 0.05
    True
    """

    kernel: AnyKernel
    noise_std: float
    prior_mean: PriorMean
    log_marginal_likelihood: float
    parameters: Mapping[str, float]
    on_bounds: Mapping[str, str]
    points_used: int
    points_given: int
    evaluations: int

    def __repr__(self) -> str:
        words = [f"{name} = {value:.4g}" for name, value in self.parameters.items()]
        words += [f"prior mean = {self.prior_mean:.4g}"] if isinstance(self.prior_mean, float) else ["prior mean given"]
        words += [f"{name} on its {end} bound" for name, end in self.on_bounds.items()]
        some = "" if self.points_used == self.points_given else f" of {self.points_given}"
        words.append(f"log likelihood {self.log_marginal_likelihood:.4g} of {self.points_used}{some} points")
        return f"Fit({', '.join(words)})"


def fit_to_json(fit: Fit | None) -> str:
    """Write a fit as text; a prior mean that was given is left out."""
    if fit is None:
        return "null"
    fields = {name: getattr(fit, name) for name in Fit.__dataclass_fields__}
    fields["kernel"] = fit.kernel.to_json()
    if not isinstance(fit.prior_mean, float):
        fields["prior_mean"] = None
    return json.dumps(fields, allow_nan=False)


def fit_from_json(text: str, prior_mean: PriorMean | None) -> Fit | None:
    """Read what `fit_to_json` wrote; `prior_mean` is the one that was given, if any."""
    fields: dict[str, Any] | None = json.loads(text)
    if fields is None:
        return None
    fields["kernel"] = Kernel.from_json(fields["kernel"])
    if prior_mean is not None:
        fields["prior_mean"] = prior_mean
    return Fit(**fields)


COARSE_POINTS, COARSE_EVALUATIONS = 150, 25  # the starts race on a subset; only the winner sees more
MIDDLE_POINTS, MIDDLE_EVALUATIONS = 400, 60  # where most of its way is done, and the last steps with all points
FINE_EVALUATIONS, LAST_EVALUATIONS = 100, 8
ROUGHLY = 1e-5  # a climb that others follow ends when a step gains no more than this share of the log likelihood
ON_BOUND = 1e-3  # log distance
METRIC_LENGTH = "metric length"

Progress: TypeAlias = Callable[[float], None]  # share of a fit that is done
_follower: ContextVar[Progress | None] = ContextVar("follower of fits", default=None)

ADVICE = {
    ("length", "lower"): "neighbouring inputs look unrelated: measure closer together, or pass the noise_std you know",
    ("length", "upper"): "the cost does not seem to depend on this input, so leave it out, or fix its length scale",
    ("variance", "lower"): "the measurements look like noise alone: check noise_std, or measure more",
    ("variance", "upper"): "the measurements are far from prior_mean: pass one nearer to them, or leave it out",
    ("noise", "lower"): "the measurements look free of noise: pass noise_std if you know better",
    ("noise", "upper"): "the measurements scatter wildly: look for outliers",
    (
        "metric",
        "lower",
    ): "actions look unrelated: measure more actions, or pass a kernel with your own action covariance",
    ("metric", "upper"): "distances say little about this cost: pass a kernel with your own action covariance",
    ("other", "lower"): "give it wider bounds, or fix it by its bounds",
    ("other", "upper"): "give it wider bounds, or fix it by its bounds",
}


@contextmanager
def followed(progress: Progress) -> Iterator[None]:
    """Within it, every fit of this thread says how much of it is done: 0 when it begins, 1 when it ends.

    A fit lies deep below whoever wants to know, under policies and models that need not hear of it.
    """
    before = _follower.set(progress)
    try:
        yield
    finally:
        _follower.reset(before)


class _Climbs:
    """What a fit may spend, and how much of that is spent: evaluations, each as heavy as its points squared."""

    def __init__(self, follower: Progress | None) -> None:
        self._follower, self._total, self._spent = follower, 0.0, 0.0

    def begin(self, starts: int, points: int, evaluations: int) -> None:
        """Say that a fit begins: so many starts that race, then climbs on all points."""
        middle = MIDDLE_EVALUATIONS * MIDDLE_POINTS**2 if points > MIDDLE_POINTS else 0
        last = (LAST_EVALUATIONS if middle else evaluations) * points**2
        self._total = float(starts * COARSE_EVALUATIONS * COARSE_POINTS**2 + middle + last)
        self._say(0.0)

    def made(self, evaluations: int, points: int) -> None:
        """Count a climb that may have spent so many evaluations on so many points."""
        self._spent += evaluations * points**2
        self._say(min(self._spent / self._total, 1.0))

    def end(self) -> None:
        """Say that the fit is there."""
        self._say(1.0)

    def _say(self, share: float) -> None:
        if self._follower is not None:
            self._follower(share)


def fit_kernel(
    problem: Problem,
    actions: ArrayLike,
    contexts: ArrayLike | None,
    y: ArrayLike,
    *,
    kernel: AnyKernel | None = None,
    noise_std: float | None = None,
    prior_mean: PriorMean | None = None,
    restarts: int = 3,
    seed: int = 0,
    max_points: int = 1000,
) -> Fit:
    """Fit kernel, noise and prior mean to measurements, by marginal likelihood with weak priors.

    Parameters
    ----------
    problem
        The actions.
    actions, contexts, y
        Index of the action measured (t,), its context (t,) or (t, d), and the result (t,). contexts=None: the cost
        does not depend on a context.
    kernel
        Structure and first guess. All its parameters are fitted, except those that scikit-learn calls "fixed". Bounds
        other than scikit-learn's defaults are kept; the others follow from spacing and extent of the inputs. A
        periodicity is fitted only if you give it bounds, because a day is a day. None: RBF with one length scale per
        axis of actions and contexts, in their units. If the actions have no coordinates but only a metric d, the
        action part is then the matrix exp(-d / length), with negative eigenvalues clipped, and with the best length
        of a small grid.
    noise_std
        Standard deviation of a measurement, if known; None: fitted.
    prior_mean
        A number, one per action (n,), or ``f(actions, context) -> (n,)``, if known; None: the constant that fits best.
    restarts
        Number of random starts in addition to the first guess.
    seed
        Seed of the random starts and the choice of points.
    max_points
        Largest number of measurements that are used, of those that differ in action or context. If there are more, the
        fit uses a subset: pairs of neighbours (so that short length scales stay visible), spread evenly over actions
        and contexts. The time grows with the third power of this number, but most of the search uses 400 of them.

    Returns
    -------
    Fit
        The fit. If all measurements are equal (or there is only one), nothing can be fitted, and it is the first guess.

    Warns
    -----
    FitWarning
        A parameter ended on a bound; the warning names it and says what to do.

    Examples
    --------
    >>> import numpy as np
    >>> import holdcourse as hc
    >>> problem, rng = hc.Problem(np.linspace(0, 1, 11)), np.random.default_rng(0)
    >>> actions, contexts = rng.integers(11, size=80), rng.random(80)
    >>> y = np.sin(5 * problem.actions[actions, 0]) + contexts + 0.05 * rng.normal(size=80)
    >>> fit = hc.fit_kernel(problem, actions, contexts, y)
    >>> round(fit.noise_std, 2), fit.points_used
    (0.05, 80)
    """
    for name, value, least in (("restarts", restarts, 0), ("max_points", max_points, 2)):
        whole_number(value, name, least)
    seed = checked_seed(seed)
    search = Search(problem, kernel, noise_std, prior_mean, restarts, seed, max_points, FINE_EVALUATIONS)
    fit, advice = search.run(checked_history(problem, actions, contexts, y, kernel))
    if advice:
        warnings.warn(
            f"the model was fitted to {fit.points_used} readings and ends at a bound: {'; '.join(advice)}",
            FitWarning,
            2,
        )
    return fit


@dataclass(frozen=True)
class Search:
    """How to fit: the arguments of `fit_kernel`, and how many evaluations of the likelihood on all points to spend.

    `common`: where no kernel is given, with a part that all actions share. `floor`: by how much the measurements are
    expected to vary at least. `reach`: how long length scales are expected to be, 1 being what `fit_kernel` expects.
    `period`: of the contexts that are circles, where no kernel is given.
    """

    problem: Problem
    kernel: AnyKernel | None
    noise_std: float | None
    prior_mean: PriorMean | None
    restarts: int
    seed: int
    max_points: int
    evaluations: int
    common: bool = False
    floor: float = 0.0
    reach: float = 1.0
    period: Periods | None = None

    @one_thread()  # the same on every machine, and quicker where others compute beside it
    def run(self, history: History, last: Fit | None = None) -> tuple[Fit, list[str]]:
        """Fit, starting from the last one if there is one; and advice on each parameter that sits on a bound."""
        rng = np.random.default_rng(self.seed)
        used = subset(self.problem, history, self.max_points, rng)
        mean_at = prior_mean_at(self.prior_mean, self.problem, used)
        z, shift, scale, informative = standardised(used.measurements, mean_at, self.floor)
        noise = checked_noise(self.noise_std)
        guesses = first_guesses(self.problem, history, self.kernel, self.common, self.period)

        def likelihood(guess: AnyKernel, points: History, targets: Array) -> Likelihood:
            entries = parameters(self.problem, history.contexts, guess, noise=noise is None, reach=self.reach)
            fixed = None if noise is None else noise / scale
            return Likelihood(self.problem, points, targets, guess, entries, fixed, free_mean=self.prior_mean is None)

        def some(points: int) -> tuple[History, Array]:
            chosen = subset(self.problem, used, points, rng)
            mean = prior_mean_at(self.prior_mean, self.problem, chosen)
            return chosen, (chosen.measurements - (shift if mean is None else mean)) / scale

        climbs = _Climbs(_follower.get())
        climbs.begin(self.restarts + len(guesses), len(used), self.evaluations)
        winner, theta, spent = len(guesses) // 2, None, 0
        if informative and (self.restarts or len(guesses) > 1):
            coarse, targets = some(COARSE_POINTS)
            best = -math.inf
            for number, (guess, _) in enumerate(guesses):
                model = likelihood(guess, coarse, targets)
                # A grid of guesses differs in one number only: what suited the one before is a good start.
                starts = [self._start(model, last, scale) if theta is None else theta]
                starts += [model.random_start(rng) for _ in range(self.restarts if theta is None else 0)]
                for start in starts:
                    there, value = model.maximise(start, COARSE_EVALUATIONS, ROUGHLY)
                    climbs.made(COARSE_EVALUATIONS, COARSE_POINTS)
                    value += _log_prior(guesses, number)
                    if value > best:
                        best, theta, winner = value, there, number
                spent += model.evaluations
        model = likelihood(guesses[winner][0], used, z)
        theta = self._start(model, last, scale) if theta is None else theta
        if informative and model.points > MIDDLE_POINTS:
            points, targets = some(MIDDLE_POINTS)
            middle = likelihood(guesses[winner][0], points, targets)
            theta, _ = middle.maximise(theta, min(self.evaluations, MIDDLE_EVALUATIONS), ROUGHLY)
            climbs.made(MIDDLE_EVALUATIONS, MIDDLE_POINTS)
            curvature = middle.curvature(theta) * model.points / middle.points
            theta = model.finish(theta, curvature, LAST_EVALUATIONS)
            spent += middle.evaluations
        elif informative:
            theta, _ = model.maximise(theta, self.evaluations)
        value, _, mean = model.evaluate(theta)
        climbs.end()

        kernel = kernel_with(model.structure, theta, scale**2)
        named, ends = _named(model.entries, theta, scale), _ends(model.entries, theta) if informative else {}
        length = guesses[winner][1]
        if length is not None:
            named[METRIC_LENGTH] = length
            at_end = informative and len(guesses) > 1 and winner in (0, len(guesses) - 1)
            if at_end and _differ(self.problem.symmetric_distances):
                ends[METRIC_LENGTH] = ("metric", "upper" if winner else "lower")
        fit = Fit(
            kernel=kernel,
            noise_std=model.noise(theta) * scale if noise is None else noise,
            prior_mean=shift + scale * mean if self.prior_mean is None else _plain(self.prior_mean),
            log_marginal_likelihood=value - len(z) * math.log(scale),
            parameters=named,
            on_bounds={name: end for name, (_, end) in ends.items()},
            points_used=len(used),
            points_given=len(history),
            evaluations=spent + model.evaluations,
        )
        return fit, [f"{name} = {named[name]:.3g} ({end}): {ADVICE[k, end]}" for name, (k, end) in ends.items()]

    def _start(self, model: Likelihood, last: Fit | None, scale: float) -> Array:
        if last is None:
            return model.centre if self.kernel is None else np.array([entry.start for entry in model.entries])
        theta = theta_of(last.kernel)
        if model.fixed_noise is None:
            theta = np.append(theta, math.log(last.noise_std))
        start: Array = theta - np.array([_unit_power(entry) * math.log(scale) for entry in model.entries])
        return start


def _log_prior(guesses: list[tuple[AnyKernel, float | None]], number: int) -> float:
    """The weak prior on the length of a metric, centred on the grid of lengths."""
    logs = [math.log(length) for _, length in guesses if length is not None]
    return -0.5 * ((logs[number] - sum(logs) / len(logs)) / PRIOR_WIDTH) ** 2 if logs else 0.0


def _unit_power(entry: Parameter) -> int:
    """How a parameter grows with the unit of the measurements."""
    return {"variance": 2, "noise": 1}.get(entry.kind, 0)


def _plain(prior_mean: PriorMean) -> PriorMean:
    return float(prior_mean) if isinstance(prior_mean, (int, float, np.number)) else prior_mean


def _differ(distances: Array) -> bool:
    """Return whether some settings are closer than others; where none is, no length of the metric means anything."""
    apart = distances[~np.eye(len(distances), dtype=bool)]
    return len(apart) > 0 and float(np.ptp(apart)) > 0


def _named(entries: list[Parameter], theta: Array, scale: float) -> dict[str, float]:
    return {entry.name: math.exp(x) * scale ** _unit_power(entry) for entry, x in zip(entries, theta, strict=True)}


def _ends(entries: list[Parameter], theta: Array) -> dict[str, tuple[str, str]]:
    ends: dict[str, tuple[str, str]] = {}
    for entry, x in zip(entries, theta, strict=True):
        if not entry.held and min(x - entry.lower, entry.upper - x) < ON_BOUND:
            ends[entry.name] = (entry.kind, "lower" if x - entry.lower < ON_BOUND else "upper")
    return ends
