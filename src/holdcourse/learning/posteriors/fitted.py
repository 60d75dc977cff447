"""A posterior that fits its own kernel, noise and prior mean, and does not trust every reading.

**When it fits.** A fit begins whenever the number of readings has grown by half. It runs in a thread, on all stored
readings (or on some of them if there are many). Its result is adopted a fixed number of readings later. So a run does
not depend on how long a fit took, and a run that was stopped continues bit for bit. With few readings a fit takes
milliseconds and is made at once.

**Which kernel.** The cost is the sum of a part that all actions of a context have in common and a part of each action.
Operators who hold a setting for weeks have measured the first part, so only the second is left to explore.

**What is learned from a reading.** The posterior compares a reading with its prediction. If it knows the action in such
contexts, a reading that is off by more than `CLIPPED` deviations counts as if it were that far off. A reading that is
off by more than `REJECTED` deviations is set aside: it is not learned, unless the next reading at the same action is
off to the same side. If nothing is known yet, only orders of magnitude are suspicious, because the first reading
beyond a cliff must count. Every fit looks again at all stored readings: it sets aside those that the others cannot
explain, and readings that were clipped count in full if the others now explain them. But a kernel can be certain and
wrong. So if most readings of an action in such contexts, and at least three, surprise the posterior, it trusts them.

**When costs change for good.** A machine is replaced, or a filter is cleaned, and earlier readings are no longer true.
If most of the latest readings surprise the posterior where it knew the cost, and many are unlike anything that was read
there before (`ChangeWatch`), it discards all earlier readings. It then fits the kernel to the rest, starting from the
present kernel, and the bounds become wide again. `changes` counts these cases.

**Logarithms.** Positive costs that vary in proportion to their size are learned as logarithms, if that makes the
readings more likely. Predictions are always in the unit of the readings.

**Width of the bands.** Predicted deviations are multiplied by a factor, at least 1, that the readings have shown to be
needed.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.archive import prefixed, require_arrays, under
from holdcourse.learning.fitting.search import Fit, Search, fit_from_json, fit_to_json
from holdcourse.learning.history import History, check_context, check_measurement, context_rows, require_squarable
from holdcourse.learning.kernels import AnyKernel, Kernel, Periods
from holdcourse.learning.posteriors.exact import Prior, PriorMean, describe_mean
from holdcourse.learning.posteriors.protocol import BatchPosterior, Posterior, Told, predict_some
from holdcourse.learning.posteriors.readings import (
    CLIPPED,
    KNOWN,
    SURPRISING,
    ChangeWatch,
    Flags,
    Readings,
    absurd,
    judged_again,
    logarithms,
    most,
)
from holdcourse.movement.problem import Problem, mean_way
from holdcourse.threads import one_thread

Array: TypeAlias = NDArray[np.float64]

FIRST_FIT = 3  # readings; before, all actions look alike. One wrong reading among three is found out.
FEWEST_NEW, FEWEST_AFTER_HISTORY = 2, 8  # readings between two fits, without and with a history
LONGEST = 512  # readings between two fits
AT_ONCE = 64  # readings up to which a fit is made within the tell
LAG = 8  # readings after which a fit made in a thread is taken over
FIT_POINTS = 200  # readings that a fit looks at
EVALUATIONS = 25
RESTARTS = 2  # of the first fit; every later one starts from the last alone
WORTHWHILE = 1.1  # a fit is taken over when some parameter changes by this factor
FEW_ASIDE, EVERY_ASIDE = 3, 16  # readings set aside that are usual: some, and one in so many
FIRST_NOISE = 0.1  # until there is something to fit

PASSES = 3
LOG_GAIN = 3.0  # in log likelihood: by so much the other unit must be better
LOG_RATIO, LOG_FEWEST = 2.0, 8  # of the largest and the smallest reading; readings
LOG_LARGEST = 300.0  # exponents beyond have no meaning as costs
LOWER_WIDTH = 1.25  # deviations at which the lower bound of a cost learned as logarithm is exact
REJECTED = 12.0  # deviations
# Costs are expected to vary by this share of their usual size, until it is known better; or by half of what a move
# costs, as there would be little to control otherwise, but by no more than their size.
SCALE_FLOOR, FLOOR_OF_A_WAY, SCALE_FLOOR_MOST = 0.25, 0.5, 1.0
# It is known better after so many readings: costs on a high level, a meter's 1e9 and some, vary by far less. Of the
# scatter; plants whose costs vary by a percent of their size do not notice.
SCATTER_KNOWN, FLOOR_OF_SCATTER = 64, 100.0
REACH = 0.4  # of usual length scales: what was read is expected to tell of near settings and contexts only
REMEMBERED, FIRST_WEIGHT = 100.0, 10.0  # readings over which the widening looks back, and that it begins with


class Judgement(NamedTuple):
    """What is learned of a reading, its weight, and the row of an earlier one, set aside, that it confirms.

    `watched`: whether it surprised at a place that was known; None at others.
    """

    learned: float
    weight: float
    confirmed: int | None = None
    watched: bool | None = None


@dataclass(frozen=True, eq=False)
class Found:
    """What a fit found: parameters, whether of logarithms, and what it makes of the readings it was shown.

    `inner` is the posterior that has learned the rest; None where so little has changed that the old one may stay.
    """

    fit: Fit
    log: bool
    readings: Readings
    inner: Posterior | None


class DelegatingPosterior:
    """Answers questions by the posterior inside it; how that one changes is for the subclass to say."""

    _inner: Posterior

    @property
    def inner(self) -> Posterior:
        """The posterior that answers at present; in its own unit where that is another."""
        return self._inner

    @property
    def method(self) -> str:
        """The method by which it computes at present."""
        return self._inner.method

    @property
    def predicts_alike(self) -> bool:
        """Whether `predict_at` of several contexts gives, to the last bit, what `predict` of each gives."""
        return isinstance(self._inner, BatchPosterior) and self._inner.predicts_alike

    @property
    def log_marginal_likelihood(self) -> float:
        """Log density of the measurements in use, under the prior in use."""
        return self._inner.log_marginal_likelihood

    @property
    def information_gain(self) -> float:
        """Realised information gain, 1/2 log det(I + K / lambda), of the measurements in use."""
        return self._inner.information_gain

    def predict(self, context: Any) -> tuple[Array, Array]:
        """Mean and standard deviation of the cost of every action in this context, (n,) and (n,)."""
        return self._inner.predict(context)

    def predict_at(self, contexts: ArrayLike) -> tuple[Array, Array]:
        """Mean and standard deviation of every action in each of k contexts, (k, n) and (k, n)."""
        return self._inner.predict_at(contexts)

    def predict_of(self, contexts: ArrayLike, actions: NDArray[np.int64]) -> tuple[Array, Array]:
        """Mean and standard deviation of m actions in each of k contexts, (k, m) and (k, m)."""
        return predict_some(self._inner, contexts, actions)

    def truncation_bound(self, std: Array) -> Array:
        """How much larger than `std`, as predicted, the exact deviation may be."""
        return self._inner.truncation_bound(std)


class FittedPosterior(DelegatingPosterior):
    """A posterior that fits kernel, noise and prior mean as readings come in. See `Posterior`.

    Parameters
    ----------
    choose
        Function that makes a posterior from a prior, and so chooses the method.
    noise_std, prior_mean
        Values that stay fixed, if given; costs are then not learned as logarithms.
    period
        Period of each number of the context that is a circle, such as the hour of day; None for each other number.
    """

    def __init__(
        self,
        problem: Problem,
        choose: Callable[[Prior], Posterior],
        noise_std: float | None = None,
        prior_mean: PriorMean | None = None,
        period: Periods | None = None,
    ) -> None:
        require_squarable(problem.actions, "actions")
        self._problem, self._choose = problem, choose
        self._way = mean_way(problem)
        self._noise_std, self._prior_mean, self._period = noise_std, prior_mean, period
        self._fit: Fit | None = None
        self._log = False
        self._readings = Readings.none()
        self._observations = 0
        self._given = 0  # of these, how many came all at once
        self._next = FIRST_FIT
        self._compared = 0  # readings when both units were last compared
        self._began = -1  # readings kept when the fit under way began; -1: there is none
        self._since = 0  # readings told since then
        self._watch = ChangeWatch()
        self._surprise = (FIRST_WEIGHT, 1.0)  # weight, and mean square of the standardised residuals
        self._job: Job | None = None
        self._inner = choose(self._prior(None))
        self._first_method = self._inner.describe()["method"]

    # -- what it says --------------------------------------------------------------------------------------------------

    @property
    def fit(self) -> Fit | None:
        """The fit in use, of logarithms if `log` is True; None before the first fit."""
        return self._fit

    @property
    def log(self) -> bool:
        """Whether the logarithm of the cost is learned."""
        return self._log

    @property
    def prior(self) -> Prior:
        """Kernel, noise and prior mean in use; of the logarithm if `log` is True."""
        return self._inner.prior

    @property
    def noise_variance(self) -> float:
        """Variance of a reading's noise, in its unit; for a reading of usual size if noise grows with the cost."""
        noise = self._inner.prior.noise_variance
        return noise * float(np.median(self._readings.trusted().measurements)) ** 2 if self._log else noise

    @property
    def widening(self) -> float:
        """Factor, at least 1, by which deviations are multiplied because readings fell outside them."""
        return max(1.0, math.sqrt(self._surprise[1]))

    @property
    def changes(self) -> int:
        """Number of times that all earlier readings were discarded, because the costs had changed."""
        return self._watch.changes

    def doubted(self) -> frozenset[Told]:
        """Stored readings that the posterior does not trust: action, context and measurement."""
        if not self._readings.aside.any():
            return frozenset()
        rows = self._readings.rows(self._readings.aside)
        return frozenset(
            zip(rows.actions.tolist(), map(tuple, rows.contexts.tolist()), rows.told.tolist(), strict=True)
        )

    def believed(self) -> History:
        """Stored readings that the posterior trusts, in the unit in which they are learned."""
        if not self._log:
            return self._readings.trusted()
        positive = replace(self._readings, aside=self._readings.aside | (self._readings.learned <= 0))
        return logarithms(positive.trusted())

    @property
    def reason(self) -> str:
        """Reason for the present method, in words."""
        return f"{self._inner.reason}; kernel fitted to {self._fit.points_used if self._fit else 0} measurements"

    @property
    def observations(self) -> int:
        """Number of measurements told."""
        return self._observations

    def predict(self, context: Any) -> tuple[Array, Array]:
        """Mean and standard deviation of the cost of every action in this context, (n,) and (n,)."""
        if self._fit is None:  # what answers then knows no contexts, and one that could not be told must not be asked
            check_context(context, self._readings.dimension)
        return self._in_unit(*self._inner.predict(context))

    def predict_at(self, contexts: ArrayLike) -> tuple[Array, Array]:
        """Mean and standard deviation of every action in each of k contexts, (k, n) and (k, n)."""
        if self._fit is None:
            context_rows(contexts, self._readings.dimension)
        return self._in_unit(*self._inner.predict_at(contexts))

    def predict_of(self, contexts: ArrayLike, actions: NDArray[np.int64]) -> tuple[Array, Array]:
        """Mean and standard deviation of m actions in each of k contexts, (k, m) and (k, m)."""
        return self._in_unit(*predict_some(self._inner, contexts, actions))

    def _in_unit(self, mean: Array, std: Array) -> tuple[Array, Array]:
        """Turn what the posterior inside predicts into costs.

        A cost whose logarithm is normal is skewed. Its deviation is given such that `LOWER_WIDTH` of it below the mean
        lies the true bound, which is the one that decisions look at; noise in proportion raises the mean.
        """
        std = self.widening * std
        if not self._log:
            return mean, std
        middle = np.exp(np.minimum(mean + 0.5 * self._inner.prior.noise_variance, LOG_LARGEST))
        expected = middle * np.exp(np.minimum(0.5 * std**2, 1.0))
        return expected, (expected - middle * np.exp(-LOWER_WIDTH * std)) / LOWER_WIDTH

    # -- what it learns ------------------------------------------------------------------------------------------------

    def condition(self, action: int, context: Any, y: float) -> Self:
        """Learn one measurement as far as it can be trusted, and fit again when it is time; returns itself."""
        self.weigh(action, context, y)
        return self

    def weigh(self, action: int, context: Any, y: float) -> float:
        """Learn one measurement and return its weight: 1, less if it is far off, 0 if it is set aside."""
        self._problem.check_action(action)
        vector, y = check_context(context, self._readings.dimension), check_measurement(y)
        require_squarable(vector, "contexts")
        require_squarable(y, "measurements")
        one = History([action], vector[None], [y])
        if self._fit is None:
            self._keep(one, np.array([y]), np.array([False]))
            if int((~absurd(self._readings.told)).sum()) >= self._next:
                self._take_over(self._search(self._readings, self._fit, self._log, self._compares()))
            return 1.0 - float(self._readings.aside[-1])
        judged = self._judged(int(action), vector, y)
        if judged.confirmed is not None:
            self._believe(judged.confirmed)
        if judged.weight > 0:
            self._learn(History([action], vector[None], [judged.learned]))
        self._keep(one, np.array([judged.learned]), np.array([judged.weight == 0.0]))
        if judged.watched is not None:
            self._watch = self._watch.with_reading(len(self._readings) - 1, judged.watched)
        if self._has_changed():
            self._forget()
            return 1.0
        if judged.confirmed is not None:  # a surprise that lasts: the kernel no longer fits
            self._next = min(self._next, self._counted())
        self._go_on()
        return judged.weight

    def condition_on(self, history: History) -> Self:
        """Learn many measurements, and fit once at the end."""
        history.check(self._problem, self._readings.dimension)
        require_squarable(history.measurements, "measurements")
        require_squarable(history.contexts, "contexts")
        if not len(history):
            return self
        self._keep(history, history.measurements, np.zeros(len(history), dtype=np.bool_))
        self._readings = self._readings.thinned()
        self._given += len(history)
        if self._observations >= FIRST_FIT:
            self._take_over(self._search(self._readings, self._fit, self._log, self._compares()))
        return self

    def condition_like(self, other: FittedPosterior, history: History) -> Self:
        """Learn the first measurements with a fit that starts from another posterior's fit, which is quick.

        Costs are learned in the same unit, logarithms or not, as in the other posterior.
        """
        if other.fit is None or self._observations or len(history) < FIRST_FIT:
            return self.condition_on(history)
        history.check(self._problem, self._readings.dimension)
        self._keep(history, history.measurements, np.zeros(len(history), dtype=np.bool_))
        self._readings = self._readings.thinned()
        self._given += len(history)
        found = self._search(self._readings, other.fit, other.log, False)
        if found.inner is None:  # the other's fit will do; nothing was learned under it yet
            found = replace(found, inner=self._learned_under(found.fit, found.log, found.readings.trusted()))
        self._take_over(found)
        return self

    def _learned_under(self, fit: Fit, log: bool, history: History) -> Posterior:
        inner = self._choose(self._prior(fit))
        inner.condition_on(logarithms(history) if log else history)
        return inner

    def _keep(self, history: History, learned: Array, aside: Flags) -> None:
        self._readings = self._readings.with_more(history, learned, aside)
        self._observations += len(history)

    def _learn(self, history: History) -> None:
        """Pass readings on to the posterior inside, in its unit."""
        history = logarithms(history) if self._log else history
        if len(history) == 1:
            self._inner.condition(int(history.actions[0]), history.contexts[0], float(history.measurements[0]))
        elif len(history):
            self._inner.condition_on(history)

    def _judged(self, action: int, context: Array, y: float) -> Judgement:
        """Compare a reading with what was expected of it, and take note of how far off it was."""
        mean, std = self._inner.predict(context)
        expected, left = float(mean[action]), float(std[action]) ** 2
        widening = self.widening
        spread = widening * math.sqrt(left + self._inner.prior.noise_variance)
        off = (self._scaled(y) - expected) / spread
        known = left < KNOWN * float(self._inner.prior.variances(context[None])[0, action])
        clipped = CLIPPED if known else 2 * CLIPPED
        before, weight = self._surprise, min(self._surprise[0] + 1.0, REMEMBERED)
        self._surprise = weight, self._surprise[1] + (min(abs(off), CLIPPED) ** 2 - self._surprise[1]) / weight
        watched = abs(off) * widening > SURPRISING if known else None
        if abs(off) <= clipped:
            return Judgement(y, 1.0, None, watched)
        absurd = not math.isfinite(off) or self._absurd(y)
        confirmed = None if absurd else self._doubted_before(action, context, expected, off > 0)
        if confirmed is not None:
            return Judgement(y, 1.0, confirmed, watched)
        if absurd or (known and abs(off) > REJECTED):
            self._surprise = before  # what is not believed does not widen the bands
            return Judgement(y, 0.0, None, None if absurd else watched)
        edge = expected + math.copysign(clipped * spread, off)
        return Judgement(math.exp(edge) if self._log else edge, clipped / abs(off), None, watched)

    def _has_changed(self) -> bool:
        """Whether what was read before is no longer true."""
        watch = self._watch
        return watch.suspects(self._observations) and watch.sees_change(self._readings, math.sqrt(self.noise_variance))

    def _forget(self) -> None:
        """Begin again with the readings since the first of those that surprised."""
        since = self._readings.rows(slice(int(self._watch.surprising[0]), None))
        without_logarithm = since.told <= 0 if self._log else np.zeros(len(since), dtype=np.bool_)
        since = replace(since, learned=since.told.copy(), aside=without_logarithm)
        self._readings, self._given = since, self._observations - len(since)
        self._watch = self._watch.after_change(self._observations)
        self._surprise = FIRST_WEIGHT, 1.0
        self._began, self._since, self._job = -1, 0, None
        found = self._search(since, self._fit, self._log, False)
        if found.inner is None:
            found = replace(found, inner=self._learned_under(found.fit, found.log, found.readings.trusted()))
        self._take_over(found)

    def _scaled(self, y: float) -> float:
        """A reading in the unit of the posterior inside."""
        return y if not self._log else math.log(y) if y > 0 else -math.inf

    def _doubted_before(self, action: int, context: Array, expected: float, above: bool) -> int | None:
        """The row of an earlier reading that was not believed, was off to the same side, and is confirmed by this one.

        It is the last one at this action, or the last one there in a context like this, where most readings surprise.
        """
        doubted = self._readings.aside | (self._readings.learned != self._readings.told)
        before = np.flatnonzero(self._readings.actions == action)
        alike = np.flatnonzero(self._readings.alike(action, context)) if len(before) else before
        last = [int(before[-1])] if len(before) else []
        if most(np.append(doubted[alike], True)):
            last.append(int(alike[-1]))
        return next((row for row in last if doubted[row] and self._same_side(row, expected, above)), None)

    def _same_side(self, row: int, expected: float, above: bool) -> bool:
        """Whether what was told in a row is off to this side of what is expected, and may be true."""
        told = float(self._readings.told[row])
        if (self._scaled(told) > expected) != above or self._absurd(told):
            return False
        # One without a logarithm: whether costs are of both signs is for the next fit to say.
        return not (self._log and told <= 0)

    def _believe(self, row: int) -> None:
        """Learn after all what was told in a row that was not believed."""
        self._readings.learned[row] = self._readings.told[row]
        if self._readings.aside[row]:  # kept once more: a fit under way was shown it as set aside
            earlier = self._readings.rows([row])
            again = History(earlier.actions, earlier.contexts, earlier.told)
            self._learn(again)
            self._readings = self._readings.with_more(again, earlier.told, np.array([False]))

    def _absurd(self, y: float) -> bool:
        return bool(absurd(np.append(self._readings.trusted().measurements, y))[-1])

    # -- fits ----------------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Begin a fit, or take over what one has found, where it is time for that."""
        if self._job is not None:
            self._since += 1
            if self._since >= LAG:
                self._take_over(self._job.result())
        elif self._counted() >= self._next:
            self._thin()
            if self._observations <= AT_ONCE:
                self._take_over(self._search(self._readings, self._fit, self._log, self._compares()))
            else:
                self._began, self._since = len(self._readings), 0
                self._job = self._begun()

    def _thin(self) -> None:
        thinned = self._readings.thinned()
        if thinned is not self._readings:  # rows have other numbers now
            self._readings, self._watch = thinned, self._watch.emptied()

    def _counted(self) -> int:
        """Readings by which fits are made: a few that are set aside change nothing, many are looked at again."""
        few = FEW_ASIDE + self._observations // EVERY_ASIDE
        return self._observations - min(int(self._readings.aside.sum()), few)

    def _begun(self) -> Job:
        """Begin the fit of the readings that were kept when it was time for it."""
        readings = self._readings.rows(slice(self._began))
        return Job(partial(self._search, readings, self._fit, self._log, self._compares()))

    def _compares(self) -> bool:
        """Whether the unit is to be chosen again: with twice as many readings as last time."""
        return self._observations - self._since >= 2 * self._compared

    @one_thread()
    def _search(self, readings: Readings, last: Fit | None, was_log: bool, compare: bool) -> Found:
        """Fit to readings, and learn them under the fit. Changes nothing: it may run in a thread."""
        aside = readings.aside | absurd(readings.told)
        negative = readings.told <= 0
        if was_log and (aside & negative).sum() > 1:  # costs of both signs, after all
            aside &= ~negative
        shown = readings if aside.all() else replace(readings, aside=aside)
        fit, log, judged = self._fitted(shown, last, was_log, compare)
        same = (judged.aside == readings.aside).all() and (judged.learned == readings.learned).all()
        if last is not None and log == was_log and same and not _worthwhile(last, fit):
            return Found(fit, log, judged, None)
        return Found(fit, log, judged, self._learned_under(fit, log, judged.trusted()))

    def _fitted(self, readings: Readings, last: Fit | None, was_log: bool, compare: bool) -> tuple[Fit, bool, Readings]:
        """Fit in the unit that makes the readings more likely, then once more without those that nothing explains."""
        history = readings.trusted()
        y = history.measurements
        log = self._may_be_logarithms(y) and (was_log or compare)
        scaled = logarithms(history) if log else history
        usual = float(np.median(np.abs(y)))
        fit = self._one_fit(scaled, last if log == was_log else None, self._floor(usual, log))
        if log and compare:
            plain = self._one_fit(history, None if was_log else last, self._floor(usual, False))
            # Per reading, as fits may look at different ones; less what the change of unit does to a density.
            gain = fit.log_marginal_likelihood / fit.points_used - float(scaled.measurements.mean())
            gain -= plain.log_marginal_likelihood / plain.points_used
            if gain * min(len(y), FIT_POINTS) < (-LOG_GAIN if was_log else LOG_GAIN):
                fit, log, scaled = plain, False, history
        for _ in range(PASSES):
            judged = judged_again(self._problem, readings, scaled, fit, log)
            if judged is readings:
                break
            readings, kept = judged, judged.trusted()
            scaled = logarithms(kept) if log else kept
            fit = self._one_fit(scaled, fit, self._floor(usual, log))
        return fit, log, readings

    def _floor(self, usual: float, log: bool) -> float:
        """By how much readings are expected to vary at least, in the unit in which they are learned."""
        if log:
            return SCALE_FLOOR
        return max(SCALE_FLOOR * usual, min(FLOOR_OF_A_WAY * self._way, SCALE_FLOOR_MOST * usual))

    def _may_be_logarithms(self, y: Array) -> bool:
        if self._noise_std is not None or self._prior_mean is not None or len(y) < LOG_FEWEST:
            return False
        return bool(y.min() > 0 and y.max() > LOG_RATIO * y.min())

    def _one_fit(self, history: History, last: Fit | None, floor: float) -> Fit:
        restarts = RESTARTS if last is None else 0
        if len(history) >= SCATTER_KNOWN:
            floor = min(floor, FLOOR_OF_SCATTER * float(history.measurements.std()))
        search = Search(
            self._problem,
            None,
            self._noise_std,
            self._prior_mean,
            restarts,
            0,
            FIT_POINTS,
            EVALUATIONS,
            common=True,
            floor=floor,
            reach=REACH,
            period=self._period,
        )
        return search.run(history, last)[0]

    def _take_over(self, found: Found) -> None:
        """Go on with what a fit found, and with what was told since it began."""
        shown = len(found.readings)
        self._readings.aside[:shown] = found.readings.aside
        self._readings.learned[:shown] = found.readings.learned
        if self._compares():
            self._compared = self._observations - self._since
        self._began, self._since, self._job = -1, 0, None
        fewest = FEWEST_AFTER_HISTORY if self._given else FEWEST_NEW
        counted = self._counted()
        self._next = counted + min(max((counted - self._given) // 2, fewest), LONGEST)
        if found.inner is None:
            return
        self._fit, self._log, self._inner = found.fit, found.log, found.inner
        since = self._readings.rows(slice(shown, None))
        if self._log:
            since = replace(since, aside=since.aside | (since.learned <= 0))
        self._learn(since.trusted())

    def _prior(self, fit: Fit | None) -> Prior:
        if fit is not None:
            return Prior(self._problem, fit.kernel, fit.noise_std, fit.prior_mean)
        noise_std = FIRST_NOISE if self._noise_std is None else self._noise_std
        mean = 0.0 if self._prior_mean is None else self._prior_mean
        return Prior(self._problem, _first_kernel(self._problem), noise_std, mean)

    # -- what it is ----------------------------------------------------------------------------------------------------

    def copy(self) -> FittedPosterior:
        """Make an independent twin."""
        twin = FittedPosterior(self._problem, self._choose, self._noise_std, self._prior_mean, self._period)
        return twin.restore(self.state())

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything learned, as arrays. A fit that is running starts again from them."""
        counts = [self._observations, self._given, self._next, self._compared, self._began, self._since, self._log]
        return self._readings.arrays() | {
            "counts": np.array(counts, dtype=np.int64),
            "surprise": np.array(self._surprise),
            **self._watch.arrays(),
            "fit": np.frombuffer(fit_to_json(self._fit).encode(), dtype=np.uint8),
            **prefixed("inner.", self._inner.state()),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` of a posterior made with the same arguments gave; returns itself."""
        require_arrays(arrays, ("counts", "surprise", "fit"), "a fitted posterior")
        watch = ChangeWatch.from_arrays(arrays)
        readings = Readings.from_arrays(arrays, self._problem)
        fit = fit_from_json(np.asarray(arrays["fit"], dtype=np.uint8).tobytes().decode(), self._prior_mean)
        self._inner = self._choose(self._prior(fit)).restore(under("inner.", arrays))
        self._readings, self._fit = readings, fit
        self._observations, self._given, self._next, self._compared, self._began, self._since, log = (
            int(count) for count in arrays["counts"]
        )
        self._log = bool(log)
        self._surprise = float(arrays["surprise"][0]), float(arrays["surprise"][1])
        self._watch = watch
        self._job = self._begun() if self._began >= 0 else None
        return self

    def describe(self) -> dict[str, Any]:
        """Return the arguments of the posterior, in JSON values."""
        mean = None if self._prior_mean is None else describe_mean(self._prior_mean)
        circles = {} if self._period is None else {"period": list(self._period)}
        made_with = {"kernel": "auto", "noise_std": self._noise_std, "prior_mean": mean, "inner": self._first_method}
        return made_with | circles

    def __repr__(self) -> str:
        return f"FittedPosterior({self._fit!r}, now {self._inner!r})"


class Job:
    """A fit in a thread of its own; a program that ends waits for it."""

    def __init__(self, search: Callable[[], Found]) -> None:
        self._search = search
        self._found: Found | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="holdcourse fit")
        self._thread.start()

    def _run(self) -> None:
        try:
            self._found = self._search()
        except Exception as error:
            self._error = error

    def result(self) -> Found:
        """Wait for the fit, and give what it found."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._found is not None
        return self._found


def _worthwhile(old: Fit, new: Fit) -> bool:
    if old.parameters.keys() != new.parameters.keys():
        return True
    factors = [new.parameters[name] / old.parameters[name] for name in old.parameters if old.parameters[name] > 0]
    return any(not 1 / WORTHWHILE < factor < WORTHWHILE for factor in factors)


def _first_kernel(problem: Problem) -> AnyKernel:
    """The kernel before the first fit: neighbours are alike, contexts make no difference yet."""
    from sklearn.gaussian_process.kernels import RBF

    extent = np.ptp(problem.features, axis=0)
    return Kernel(RBF(np.where(extent > 0, extent, 1.0) / 4))
