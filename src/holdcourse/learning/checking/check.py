"""Can this history be learned from? The fitted model tried on readings that it has not seen, and what stays unknown.

The readings are cut into blocks of consecutive ones. Each block is predicted by a model that was learned from the
others, in the way in which `recommended` learns. Blocks rather than readings drawn at random: a plant's readings are
like those of the hour before, and a model that has seen these would look better than it is.

A reading *looks wrong* where the model that has not seen it is off by more than `WRONG` deviations, and the model that
has seen it is as well: what its neighbours support is no mistake. Where wrong readings have made a model expect much
noise, deviations are those of the bulk of the readings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.checks import float_array, whole_number
from holdcourse.errors import InvalidInput, shown
from holdcourse.learning.checking.result import BANDS, HARDLY, Axis, Corner, Gap, ModelCheck
from holdcourse.learning.checking.words import FEWEST
from holdcourse.learning.history import History
from holdcourse.learning.kernels import AnyKernel
from holdcourse.learning.posteriors import FittedPosterior, Posterior, PriorMean, posterior
from holdcourse.movement.problem import Problem, check_problem
from holdcourse.threads import one_thread

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
Progress: TypeAlias = Callable[[int, int], None]

MOST_FOLDS = 20
MANY = 1000  # readings from which on fits of blocks begin where the fit of all readings ended
WRONG, STILL_WRONG = 6.0, 5.0  # deviations, before and after the reading was seen
LEAST_BULK = 0.4  # deviations expected: what lies well within the bands is never called wrong
SLIGHT_ERROR = 0.01  # of how far readings usually are from their median: less is no mistake, however sure the model
MOST_WRONG = 0.1  # share of readings; above, it is the model that is wrong
SHUFFLED = 400  # readings predicted with an axis shuffled
LEAST_GROWTH = 0.02  # of the error, below which an axis makes no difference
BEYOND_CHANCE = 2.5  # standard errors
TYPICAL = 24  # contexts of the history at which settings are compared
TENTHS = 10  # parts of an axis, in which readings are counted
SPARSE = 1.5  # usual distances between values, beyond which nothing between two of them is a gap
CORNER = 0.35  # of the contexts' range: a setting measured within less was measured in a corner
AT_ONCE = 256  # contexts predicted at once
SLIGHT = 0.01  # of the prior variance: parts of a kernel with less say nothing about length scales


@one_thread()
def check_model(
    problem: Problem,
    history: History | Iterable[tuple[int, Any, float]],
    *,
    folds: int = 5,
    context_names: Sequence[str] | None = None,
    kernel: AnyKernel | Literal["auto"] = "auto",
    noise_std: float | None = None,
    prior_mean: PriorMean | None = None,
    progress: Progress | None = None,
) -> ModelCheck:
    """Check the model of a history on readings that the model has not seen, and find what stays unknown.

    Parameters
    ----------
    problem, history
        The settings, and past measurements in the order in which they were made.
    folds
        Number of blocks of consecutive readings; each block is predicted from the others.
    context_names
        Names of the numbers of a context, for the words.
    kernel, noise_std, prior_mean
        As for `posterior`: fitted unless given.
    progress
        Function that is called with the amount of work done and the total.

    Returns
    -------
    ModelCheck
        Predictions, coverage, which axes matter, and what is unknown; ``print`` shows it in words.

    Examples
    --------
    >>> import holdcourse as hc
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> actions, outdoor = rng.integers(3, size=60), rng.uniform(5.0, 35.0, size=60)
    >>> drawn = 60.0 + outdoor + 5.0 * actions + rng.normal(size=60)
    >>> check = hc.check_model(hc.Problem([6.0, 7.0, 8.0, 9.0]), hc.History(actions, outdoor, drawn))
    >>> check.explained > 0.9, check.never.tolist()
    (True, [3])
    """
    check_problem(problem)
    past = History.of(history)
    past.check(problem, None)
    folds = whole_number(folds, "folds", 2)
    if folds > MOST_FOLDS:
        raise InvalidInput(f"folds must be at most {MOST_FOLDS}, because a model is fitted for each; got {folds}")
    names = _context_names(context_names, past)
    counts = np.bincount(past.actions, minlength=problem.n)
    if len(past) < FEWEST:
        return _unchecked(problem, past, names, counts)

    def learned(rows: Any, like: Posterior | None = None) -> Posterior:
        rest = History(past.actions[rows], past.contexts[rows], past.measurements[rows])
        if isinstance(like, FittedPosterior):
            twin = posterior(problem, kernel, noise_std, prior_mean)
            assert isinstance(twin, FittedPosterior)  # as the other, which was made with the same
            return twin.condition_like(like, rest)
        return posterior(problem, kernel, noise_std, prior_mean, history=rest)

    t, done = len(past), 0
    # Among many readings a block makes little difference to a fit: each begins where that of all of them ended.
    whole = learned(slice(None)) if t >= MANY else None
    fold = np.empty(t, dtype=np.int64)
    for number, block in enumerate(np.array_split(np.arange(t), folds)):
        fold[block] = number
    columns = {name: np.empty(t) for name in ("predicted", "deviation", "low", "high", "off")}
    shuffles = _Shuffles(problem, past)
    for number in range(folds):
        if progress is not None:
            progress(done, folds + 1)
        rows = np.flatnonzero(fold == number)
        model = _Predictor(learned(fold != number, whole))
        for name, values in model.readings(past, rows).items():
            columns[name][rows] = values
        shuffles.predict(model, rows)
        done += 1
    if progress is not None:
        progress(done, folds + 1)
    model = _Predictor(learned(slice(None)) if whole is None else whole)
    wrong = _wrong(model, past, fold, columns["off"], columns["predicted"])
    right = ~np.isin(np.arange(t), wrong)
    by_constant, by_setting = _means(past, fold, right, problem.n)
    growths = shuffles.growths(columns["predicted"], right)
    context_axes, setting_axes = _axes(problem, past, names, model.post, growths)
    check = ModelCheck(
        problem=problem,
        history=past,
        fold=fold,
        **columns,
        by_constant=by_constant,
        by_setting=by_setting,
        wrong=wrong,
        contexts=context_axes,
        settings=setting_axes,
        counts=counts,
        doubt=_doubt(model, past),
        gaps=_gaps(past, names),
        corners=_corners(past, names, counts),
        together=_together(past),
    )
    if progress is not None:
        progress(folds + 1, folds + 1)
    return check


def _context_names(names: Any, past: History) -> tuple[str, ...]:
    d = past.contexts.shape[1]
    if names is None:
        return ("context",) if d == 1 else tuple(f"context {axis}" for axis in range(d))
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InvalidInput(f"context_names must be a list of {d} names, got {shown(names)}")
    if len(names) != d:
        raise InvalidInput(f"context_names must be {d} names, one for each number of a context, got {list(names)}")
    return tuple(names)


def _setting_names(problem: Problem) -> tuple[str, ...]:
    axes = problem.describe()["axes"]
    if axes is not None:
        return tuple(name for name, _ in axes)
    d = problem.actions.shape[1]
    return ("setting",) if d == 1 else tuple(f"setting {axis}" for axis in range(d))


def _unchecked(problem: Problem, past: History, names: tuple[str, ...], counts: Indices) -> ModelCheck:
    none, rows = np.zeros(0), np.zeros(0, dtype=np.int64)
    contexts, settings = _axes(problem, past, names, None, {})
    return ModelCheck(
        problem, past, rows, none, none, none, none, none, none, none, rows, contexts, settings, counts,
        np.ones(problem.n), (), (), (math.nan,) * len(names),
    )  # fmt: skip


# -- predicting --------------------------------------------------------------------------------------------------------


class _Predictor:
    """A posterior's word about single readings, in the unit in which it learns and in that of the readings."""

    def __init__(self, post: Posterior) -> None:
        self.post, self.inner, self.log, self.widening = post, post, False, 1.0
        if isinstance(
            post, FittedPosterior
        ):  # what it learns may be logarithms, and bands are those of what is learned
            self.inner, self.log, self.widening = post.inner, post.log, post.widening
        self.noise_variance = self.inner.prior.noise_variance

    def inside(self, actions: Indices, contexts: Array) -> tuple[Array, Array]:
        """Mean and deviation, without noise, of readings in the unit in which it learns, (k,) and (k,)."""
        distinct, which = np.unique(contexts, axis=0, return_inverse=True)
        which = which.reshape(-1)
        mean, std = np.empty(len(actions)), np.empty(len(actions))
        for begin in range(0, len(distinct), AT_ONCE):
            block = slice(begin, begin + AT_ONCE)
            means, stds = self.inner.predict_at(distinct[block])
            rows = np.flatnonzero((which >= begin) & (which < begin + AT_ONCE))
            mean[rows] = means[which[rows] - begin, actions[rows]]
            std[rows] = stds[which[rows] - begin, actions[rows]]
        return mean, std

    def expected(self, mean: Array, std: Array) -> Array:
        """Expected readings, from what `inside` gave."""
        if not self.log:
            return mean
        spread = self.widening * std
        return np.asarray(
            np.exp(np.minimum(mean + 0.5 * self.noise_variance, 300.0) + np.minimum(0.5 * spread**2, 1.0))
        )

    def off(self, mean: Array, std: Array, measured: Array) -> Array:
        """How far readings are off, in deviations."""
        if self.log:
            told = np.full(len(measured), -np.inf)
            np.log(measured, out=told, where=measured > 0)
            measured = told
        return (measured - mean) / self._spread(std)

    def readings(self, past: History, rows: Indices) -> dict[str, Array]:
        """Everything that is predicted of these rows of a history."""
        mean, std = self.inside(past.actions[rows], past.contexts[rows])
        spread = self._spread(std)
        expected = self.expected(mean, std)
        low, high = mean - BANDS[0.95] * spread, mean + BANDS[0.95] * spread
        deviation = spread
        if self.log:
            low, high = np.exp(np.minimum(low, 300.0)), np.exp(np.minimum(high, 300.0))
            deviation = expected * np.sqrt(np.expm1(np.minimum(spread**2, 100.0)))
        off = self.off(mean, std, past.measurements[rows])
        return {"predicted": expected, "deviation": deviation, "low": low, "high": high, "off": off}

    def _spread(self, std: Array) -> Array:
        return np.asarray(self.widening * np.sqrt(std**2 + self.noise_variance))


class _Shuffles:
    """Readings predicted with one number of the context, or of the setting, taken from another reading."""

    def __init__(self, problem: Problem, past: History) -> None:
        self.problem, self.past = problem, past
        rng = np.random.default_rng(0)
        t = len(past)
        rows = np.unique(np.linspace(0, t - 1, min(t, SHUFFLED)).astype(np.int64))
        self.rows = np.tile(rows, max(1, SHUFFLED // len(rows)))
        self.axes = [("context", axis) for axis in range(past.contexts.shape[1])]
        self.axes += [("setting", axis) for axis in range(problem.actions.shape[1])]
        self.others = {key: rng.integers(t, size=len(self.rows)) for key in self.axes}
        self.predicted = {key: np.zeros(len(self.rows)) for key in self.axes}

    def predict(self, model: _Predictor, block: Indices) -> None:
        """Predict those that belong to a block."""
        here = np.flatnonzero((self.rows >= block[0]) & (self.rows <= block[-1]))
        for key in self.axes:
            actions, contexts = self.past.actions[self.rows[here]], self.past.contexts[self.rows[here]].copy()
            others, (kind, axis) = self.others[key][here], key
            if kind == "context":
                contexts[:, axis] = self.past.contexts[others, axis]
            else:
                actions = self._moved(actions, self.past.actions[others], axis)
            self.predicted[key][here] = model.expected(*model.inside(actions, contexts))

    def _moved(self, actions: Indices, others: Indices, axis: int) -> Indices:
        """The settings nearest to these with one coordinate taken from others."""
        coordinates = self.problem.actions
        wanted = coordinates[actions].copy()
        wanted[:, axis] = coordinates[others, axis]
        extent = np.ptp(coordinates, axis=0)
        scale = np.where(extent > 0, extent, 1.0)
        away = np.array([(((coordinates - point) / scale) ** 2).sum(axis=1).argmin() for point in wanted])
        return away.astype(np.int64).reshape(len(actions))

    def growths(self, predicted: Array, right: NDArray[np.bool_]) -> dict[tuple[str, int], tuple[float, bool]]:
        """By which share the error grows with each axis shuffled, and whether that is more than chance."""
        rows = np.unique(self.rows)
        rows = rows[right[rows]]
        error = np.abs(self.past.measurements - predicted)[rows]
        mean = float(error.mean())
        found = {}
        for key in self.axes:
            shuffled = np.abs(self.past.measurements[self.rows] - self.predicted[key])
            times = np.bincount(self.rows, minlength=len(self.past))[rows]
            more = np.bincount(self.rows, shuffled, minlength=len(self.past))[rows] / times - error
            chance = BEYOND_CHANCE * float(more.std()) / math.sqrt(len(more))
            growth = float(more.mean()) / mean if mean > 0 else 0.0
            found[key] = growth, bool(growth > LEAST_GROWTH and more.mean() > chance)
        return found


def _wrong(model: _Predictor, past: History, fold: Indices, off: Array, predicted: Array) -> Indices:
    """Rows that neither the model without them nor the one with them can explain."""
    bulk = np.array([_bulk(off[fold == number]) for number in range(int(fold[-1]) + 1)])
    usual = np.median(np.abs(past.measurements - np.median(past.measurements)))
    matters = np.abs(past.measurements - predicted) > SLIGHT_ERROR * usual
    rows = np.flatnonzero(matters & (np.abs(off) > WRONG * np.maximum(bulk, LEAST_BULK)[fold]))
    if not len(rows) or len(rows) > 2 * MOST_WRONG * len(past):
        return rows[:0]

    def seen(some: Indices) -> Array:
        return model.off(*model.inside(past.actions[some], past.contexts[some]), past.measurements[some])

    typical = _bulk(seen(np.unique(np.linspace(0, len(past) - 1, SHUFFLED).astype(np.int64))))
    rows = rows[np.abs(seen(rows)) > STILL_WRONG * typical]
    return rows if len(rows) <= MOST_WRONG * len(past) else rows[:0]


def _bulk(off: Array) -> float:
    """The deviation of the bulk of readings, in units of what the model expects; at most 1."""
    return min(1.0, 1.4826 * float(np.median(np.abs(off))))


def _means(past: History, fold: Indices, right: NDArray[np.bool_], n: int) -> tuple[Array, Array]:
    """What the mean of the other blocks predicts of every reading, and their mean at the same setting."""
    constant, by_setting = np.empty(len(past)), np.empty(len(past))
    for number in np.unique(fold):
        rows, others = fold == number, (fold != number) & right
        constant[rows] = past.measurements[others].mean()
        sums = np.bincount(past.actions[others], past.measurements[others], minlength=n)
        counts = np.bincount(past.actions[others], minlength=n)
        means = np.divide(sums, counts, out=np.full(n, constant[rows][0]), where=counts > 0)
        by_setting[rows] = means[past.actions[rows]]
    return constant, by_setting


# -- what matters, and what is unknown ---------------------------------------------------------------------------------


def _axes(
    problem: Problem, past: History, names: tuple[str, ...], post: Posterior | None, growths: Any
) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    kernel = None if post is None else post.prior.kernel
    both = []
    for kind, kinds_names, points in (
        ("context", names, past.contexts),
        ("setting", _setting_names(problem), problem.actions[past.actions]),
    ):
        lengths = _length_scales(kernel, kind, points.shape[1])
        found = []
        for axis, name in enumerate(kinds_names):
            low, high = (float(points[:, axis].min()), float(points[:, axis].max())) if len(points) else (0.0, 0.0)
            growth, visible = growths.get((kind, axis), (math.nan, False))
            found.append(Axis(name, low, high, lengths[axis], growth, visible))
        both.append(tuple(found))
    return both[0], both[1]


def _length_scales(kernel: AnyKernel | None, kind: str, d: int) -> list[float | None]:
    """The shortest length scale of each axis among the parts of a kernel that count; None where there is none."""
    if kernel is None:
        return [None] * d
    total = sum(part.variance for part in kernel.parts)
    found = []
    for part in kernel.parts:
        factor, scale = (part.context, part.context_scale) if kind == "context" else (part.action, part.action_scale)
        length = getattr(factor, "length_scale", None)
        if length is not None and part.variance > SLIGHT * total:
            axes = part.context_axes(d) if kind == "context" else np.arange(d)  # a circle has two coordinates
            shortest = np.full(d, np.inf)
            np.minimum.at(shortest, axes, np.broadcast_to(length, axes.shape))
            found.append(shortest * float_array(scale, "scale"))
    return [float(length) for length in np.min(found, axis=0)] if found else [None] * d


def _doubt(model: _Predictor, past: History) -> Array:
    """How unsure each setting still is in typical contexts, as a share of what was unknown of it in particular.

    What all settings have in common is left out of the latter: it is known from any of them, and decides nothing.
    """
    prior = model.inner.prior
    rows = np.unique(np.linspace(0, len(past) - 1, TYPICAL).astype(np.int64))
    contexts = past.contexts[rows]
    variance = np.mean(model.inner.predict_at(contexts)[1] ** 2, axis=0)
    own = np.zeros(prior.problem.n)
    for part, among in zip(prior.kernel.parts, prior.action_covariances, strict=True):
        particular = np.diag(among) - 2.0 * among.mean(axis=1) + among.mean()
        own += float(part.context_variances(contexts).mean()) * np.maximum(particular, 0.0)
    whole = prior.variances(contexts).mean(axis=0)
    own = np.where(own > SLIGHT * whole, own, whole)
    return np.asarray(np.sqrt(variance / np.maximum(own, np.finfo(np.float64).tiny)))


def _gaps(past: History, names: tuple[str, ...]) -> tuple[Gap, ...]:
    """Tenths of the range of each context that hold next to no readings, neighbours put together."""
    few = max(1, len(past) // 200)
    found = []
    for name, values in zip(names, past.contexts.T, strict=True):
        low, high = float(values.min()), float(values.max())
        if not high > low:
            continue
        steps = np.diff(np.unique(np.round((values - low) / (high - low), 9))) * (high - low)
        if len(steps) < TENTHS:
            continue
        usual = float(np.median(steps))  # values that lie apart by that leave no hole: an hour is followed by the next
        edges = np.linspace(low, high, TENTHS + 1)
        counts = np.histogram(values, edges)[0]
        k = 0
        while k < TENTHS:
            end = k
            while end < TENTHS and counts[end] <= few:
                end += 1
            around = values[values < edges[k]].max(initial=low), values[values >= edges[end]].min(initial=high)
            if end > k and around[1] - around[0] > SPARSE * usual:
                found.append(Gap(name, float(edges[k]), float(edges[end]), int(counts[k:end].sum())))
            k = end + 1
    return tuple(found)


def _corners(past: History, names: tuple[str, ...], counts: Indices) -> tuple[Corner, ...]:
    found = []
    for axis, name in enumerate(names):
        values = past.contexts[:, axis]
        extent = float(np.subtract(*np.quantile(values, [0.95, 0.05])))
        for action in np.flatnonzero(counts >= HARDLY):
            own = values[past.actions == action]
            low, high = (float(edge) for edge in np.quantile(own, [0.05, 0.95]))
            if extent > 0 and high - low < CORNER * extent:
                found.append(Corner(int(action), name, low, high))
    return tuple(found)


def _together(past: History) -> tuple[float, ...]:
    """Which share of the choice of settings follows from each context: Goodman and Kruskal's tau over its tenths."""
    t = len(past)
    _, choice = np.unique(past.actions, return_inverse=True)
    settings = int(choice.max()) + 1
    shares = []
    for values in past.contexts.T:
        inner = np.unique(np.quantile(values, np.linspace(0, 1, TENTHS + 1)[1:-1]))
        tenth = np.searchsorted(inner, values, side="left")
        table = np.zeros((len(inner) + 1, settings))
        np.add.at(table, (tenth, choice.reshape(-1)), 1.0)
        table = table[table.sum(axis=1) > 0]
        impure = 1.0 - float(((table.sum(axis=0) / t) ** 2).sum())
        within = 1.0 - float((table**2 / table.sum(axis=1, keepdims=True)).sum()) / t
        corrected = (t - 1) / max(t - len(table), 1)
        shares.append(max(0.0, 1.0 - corrected * within / impure) if impure > 0 else 0.0)
    return tuple(shares)
