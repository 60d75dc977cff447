"""A plant's year of hours: the backtest and the check of its readings, against what is allowed and what was before."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from benchmarks.timing import Row, best_of, best_of_each
from holdcourse.backtest.plant import backtest_plant
from holdcourse.learning.checking.check import check_model
from holdcourse.learning.posteriors import posterior

YEAR, FOLDS = 8760, 5
ASKED = 26  # contexts that a planner asks about in a round, where there are six settings


def measure() -> list[Row]:
    """The backtest of a year against 20 s; the check against fitting each of its models from scratch."""
    problem, readings = plant()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hc.FitWarning)
        return [
            Row(
                "plant's backtest, 8,760 rows, 2 contexts, 6 settings",
                best_of(lambda: backtest_plant(problem, readings, step_hours=1.0), 1),
                "allowed",
                16.0,  # of the 20 s that the command may take, with reading and checking
                bar=1.0,
            ),
            together(problem, readings),
            Row(
                "check_model, 8,760 rows, 2 contexts",
                best_of(lambda: check_model(problem, readings), 1),
                "each model fitted from scratch",
                best_of(lambda: scratch(problem, readings), 1),
                bar=2.0,
            ),
        ]


def together(problem: hc.Problem, readings: hc.History) -> Row:
    """What a planner asks of the model in a round, at once, against the same contexts one by one."""
    some = slice(0, 600)
    past = hc.History(readings.actions[some], readings.contexts[some], readings.measurements[some])
    kernel = hc.Kernel(RBF(2.0), RBF([8.0, 30.0]), 400.0)
    model = posterior(problem, kernel, 8.0, 320.0, context_bounds=[(-10.0, 30.0), (0.0, 120.0)], history=past)
    asked = readings.contexts[:ASKED]
    ours, peer = best_of_each(
        [lambda: model.predict_at(asked), lambda: [model.predict(context) for context in asked]], 20
    )
    name = f"{ASKED} contexts predicted together, {problem.n} settings"
    return Row(name, ours, "one by one, to the same bits", peer, bar=1.5)


def plant(seed: int = 0) -> tuple[hc.Problem, hc.History]:
    """A year of hours: six settings, left now and then; outdoor temperature and load."""
    rng, hour = np.random.default_rng(seed), np.arange(YEAR)
    outdoor = 10 + 8 * np.sin(2 * np.pi * hour / YEAR) + 5 * np.sin(2 * np.pi * hour / 24) + rng.normal(0, 1.5, YEAR)
    load = 60 + 25 * np.sin(2 * np.pi * hour / 24 + 1) + rng.normal(0, 8, YEAR)
    changes = rng.random(YEAR) < 0.03
    drawn = rng.integers(6, size=YEAR)
    ran = drawn[np.maximum.accumulate(np.where(changes, hour, 0))]
    values = np.arange(6.0) + 6
    best = 8.5 + 0.15 * (outdoor - 10) + 0.03 * (load - 60)
    measured = 200 + 2 * load + 3 * (values[ran] - best) ** 2 + rng.normal(0, 8, YEAR)
    return hc.Problem(values, scale=0.5), hc.History(ran, np.column_stack([outdoor, load]), measured)


def scratch(problem: hc.Problem, readings: hc.History) -> None:
    """Fit and learn what the check needs, one model after the other, each as if there were no other."""
    fold = np.arange(len(readings)) * FOLDS // len(readings)
    for number in range(FOLDS + 1):
        rows = fold != number
        rest = hc.History(readings.actions[rows], readings.contexts[rows], readings.measurements[rows])
        posterior(problem, "auto", history=rest)


if __name__ == "__main__":
    for row in measure():
        print(f"{row.name}: {row.ours_seconds:.1f} s, {row.peer_name} {row.peer_seconds:.1f} s, {row.ratio:.1f}x")
