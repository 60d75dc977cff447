"""A world fitted to a plant's own readings: what other settings would have cost, by a model of what was measured.

Everything that comes out of it is the model's word. `LoggedWorld.held_out` says how far that word can be trusted where
it could be checked, and `LoggedWorld.unsure` where it could not.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.checks import is_finite
from holdcourse.errors import InvalidInput, counted, shown
from holdcourse.learning.fitting.search import Fit, FitWarning, fit_kernel
from holdcourse.learning.history import History, check_context
from holdcourse.learning.posteriors import posterior
from holdcourse.learning.posteriors.protocol import Posterior
from holdcourse.movement.problem import Problem, check_problem

Array: TypeAlias = NDArray[np.float64]

HELD_OUT = 0.2  # the newest share of the readings
FEWEST_ROWS = 20
MOST_BOXED = 3  # numbers of a context; a larger box is covered so thinly that almost every reading makes a basis grow
UNSURE = 0.5  # of the spread of the readings: a deviation above this is a guess


@dataclass(frozen=True)
class HeldOut:
    """How well a model of the older rows predicts the newest ones, which it has not seen.

    Attributes
    ----------
    rows
        How many it was tried on.
    error, error_of_mean
        Root mean square error of the model, and of predicting the mean of the older rows.
    coverage
        Share of measurements within the model's 90 % interval.
    """

    rows: int
    error: float
    error_of_mean: float
    coverage: float

    @property
    def useful(self) -> bool:
        """Whether the model predicts better than the mean does."""
        return self.error < self.error_of_mean


@dataclass(frozen=True, eq=False)
class LoggedWorld:
    """The costs that a model of the readings believes in. Made by `fit`.

    Attributes
    ----------
    problem
        The actions.
    readings
        What was done and measured, oldest first; its contexts are what is replayed.
    fitted
        Kernel, noise and prior mean.
    held_out
        How well the model predicts rows that it has not seen.
    rho
        Weight of the service cost.
    notes
        What the fit complained about.
    """

    problem: Problem
    readings: History
    fitted: Fit
    held_out: HeldOut
    expected: Array  # (distinct contexts, n)
    deviations: Array  # likewise
    rows: dict[tuple[float, ...], int]
    rho: float = 1.0
    notes: tuple[str, ...] = ()

    @classmethod
    def fit(
        cls,
        problem: Problem,
        readings: History,
        *,
        rho: float = 1.0,
        seed: int = 0,
        rows: NDArray[np.bool_] | None = None,
    ) -> LoggedWorld:
        """Fit a world to a plant's readings.

        Parameters
        ----------
        problem
            The actions.
        readings
            Actions, contexts and measured costs, oldest first.
        rho
            Weight of the service cost.
        seed
            Seed of the fit.
        rows
            Which readings it is fitted to, (t,); it is tried on the others. Default: all, after a model of the older
            ones was tried on the newest. The contexts of all readings are replayed.

        Raises
        ------
        InvalidInput
            The readings cannot support the question: only one action was ever tried, there are too few rows, or all
            costs are the same.
        """
        cls.check(problem, readings, rho)
        notes: list[str] = []
        if rows is None:
            held_out = _tested(problem, readings, seed)
            fitted = _fitted(problem, readings, seed, notes)
            learned = _learned(problem, readings, fitted)
        else:
            shown = some_of(readings, rows)
            fitted = _fitted(problem, shown, seed, notes)
            learned = _learned(problem, shown, fitted, readings)
            held_out = _tried(learned, fitted, shown, some_of(readings, ~rows))
        contexts = np.unique(readings.contexts, axis=0)
        expected, deviations = learned.predict_at(contexts)
        places = {tuple(context): k for k, context in enumerate(contexts.tolist())}
        return cls(problem, readings, fitted, held_out, expected, deviations, places, float(rho), tuple(notes))

    @staticmethod
    def check(problem: Problem, readings: History, rho: float = 1.0) -> None:
        """Raise where readings cannot support the question: only one action was tried, too few, or all are alike."""
        check_problem(problem)
        if not isinstance(readings, History):
            raise InvalidInput(f"readings must be a History, such as hc.History(...), got {shown(readings)}")
        readings.check(problem, None)
        if not (is_finite(rho) and rho > 0):
            raise InvalidInput(f"rho must be positive, got {shown(rho)}")
        tried = np.unique(readings.actions)
        if len(tried) < 2:
            only = "no setting" if len(tried) == 0 else f"only one setting, {problem.named(int(tried[0]))},"
            raise InvalidInput(
                f"{only} was ever tried in the {counted(len(readings), 'row')}, so these readings cannot tell what "
                "another would have cost. Try at least one other setting for a while, in different conditions"
            )
        if len(readings) < FEWEST_ROWS:
            raise InvalidInput(
                f"a model of the plant needs {FEWEST_ROWS} rows or more, got {len(readings)}; give a longer period"
            )
        if not np.ptp(readings.measurements):
            raise InvalidInput(
                f"all {len(readings)} readings are {readings.measurements[0]:g}, whatever the setting, so nothing can "
                "be saved by moving; if another column contains the cost, give that one"
            )

    @property
    def contexts(self) -> Array:
        """The contexts of the readings, in their order, shape (t, d)."""
        return self.readings.contexts

    @property
    def noise_std(self) -> float:
        """Standard deviation of a measurement, as the model believes."""
        return float(self.rho * self.fitted.noise_std)

    def costs(self, round: int, context: Any) -> Array:  # noqa: A002 - the word of the field
        """Expected cost of every action, shape (n,): the model's word, not a measurement."""
        return np.asarray(self.rho * self.expected[self._row(context)])

    def measure(self, round: int, context: Any, action: int, noise: float) -> float:  # noqa: A002
        """The expected cost plus the model's noise."""
        return float(self.costs(round, context)[action] + self.noise_std * noise)

    def unsure(self, context: Any) -> NDArray[np.bool_]:
        """The actions of which the readings say so little in this context that the model is guessing, shape (n,)."""
        spread = float(self.readings.measurements.std())
        return np.asarray(self.deviations[self._row(context)] > UNSURE * spread)

    def _row(self, context: Any) -> int:
        row = self.rows.get(tuple(check_context(context, None).tolist()))
        if row is None:
            raise InvalidInput(
                f"context {shown(context)} is not in the readings; a logged world replays its own contexts"
            )
        return row

    def __repr__(self) -> str:
        return f"LoggedWorld({self.problem!r}, {len(self.readings)} rows, held-out error {self.held_out.error:.4g})"


def _fitted(problem: Problem, readings: History, seed: int, notes: list[str]) -> Fit:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FitWarning)
        fitted = fit_kernel(problem, readings.actions, readings.contexts, readings.measurements, seed=seed)
    notes += [str(warning.message) for warning in caught if issubclass(warning.category, FitWarning)]
    return fitted


def some_of(readings: History, rows: Any) -> History:
    """Some of the readings, in their order."""
    return History(readings.actions[rows], readings.contexts[rows], readings.measurements[rows])


def learned_from(world: LoggedWorld, rows: NDArray[np.bool_]) -> Array:
    """Expected costs (contexts, n) of the same world, learned from some of its readings under the same fit; no rho."""
    learned = _learned(world.problem, some_of(world.readings, rows), world.fitted, world.readings)
    contexts = np.array(list(world.rows))
    return learned.predict_at(contexts)[0]


def _learned(problem: Problem, readings: History, fitted: Fit, whole: History | None = None) -> Posterior:
    box = box_of((readings if whole is None else whole).contexts)
    return posterior(problem, fitted.kernel, fitted.noise_std, fitted.prior_mean, context_bounds=box, history=readings)


def box_of(contexts: Array) -> Array | None:
    """The box that contexts (t, d) fill, (d, 2), for a basis laid over it; None where they are not to be boxed."""
    box = np.stack([contexts.min(axis=0), contexts.max(axis=0)], axis=1)
    return box if len(box) <= MOST_BOXED and (box[:, 0] < box[:, 1]).all() else None


def _tested(problem: Problem, readings: History, seed: int) -> HeldOut:
    cut = len(readings) - max(1, int(HELD_OUT * len(readings)))
    older, newer = (
        History(readings.actions[part], readings.contexts[part], readings.measurements[part])
        for part in (slice(None, cut), slice(cut, None))
    )
    fitted = _fitted(problem, older, seed, [])
    return _tried(_learned(problem, older, fitted), fitted, older, newer)


def _tried(learned: Posterior, fitted: Fit, older: History, newer: History) -> HeldOut:
    """How well a model of some readings predicts others."""
    taken = np.arange(len(newer)), newer.actions
    mean, std = (table[taken] for table in learned.predict_at(newer.contexts))
    off = newer.measurements - mean
    width = 1.645 * np.sqrt(std**2 + fitted.noise_std**2)
    return HeldOut(
        rows=len(newer),
        error=float(np.sqrt(np.mean(off**2))),
        error_of_mean=float(np.sqrt(np.mean((newer.measurements - older.measurements.mean()) ** 2))),
        coverage=float(np.mean(np.abs(off) <= width)),
    )
