"""A cross-validated check of a model by explicit loops: one exact posterior per block, one reading at a time."""

from __future__ import annotations

import math

import numpy as np

from holdcourse.learning.posteriors import ExactPosterior, Prior


def blocked_check(problem, history, kernel, noise_std, prior_mean, folds):
    """Predictions, deviations, blocks, references and figures of a check whose kernel is given."""
    t = len(history)
    bounds, begin = [], 0
    for number in range(folds):  # the first blocks get one reading more
        end = begin + t // folds + (1 if number < t % folds else 0)
        bounds.append((begin, end))
        begin = end
    rows = []
    for number, (begin, end) in enumerate(bounds):
        post = ExactPosterior(Prior(problem, kernel, noise_std, prior_mean))
        others = [k for k in range(t) if not begin <= k < end]
        for k in others:
            post.condition(int(history.actions[k]), history.contexts[k], float(history.measurements[k]))
        for k in range(begin, end):
            mean, std = post.predict(history.contexts[k])
            action = history.actions[k]
            same = [history.measurements[j] for j in others if history.actions[j] == action]
            constant = sum(history.measurements[j] for j in others) / len(others)
            rows.append(
                (
                    number,
                    mean[action],
                    math.sqrt(std[action] ** 2 + noise_std**2),
                    constant,
                    sum(same) / len(same) if same else constant,
                )
            )
    fold, predicted, deviation, by_constant, by_setting = (np.array(column) for column in zip(*rows, strict=True))
    y = history.measurements
    left = sum((y[k] - predicted[k]) ** 2 for k in range(t))
    return {
        "fold": fold,
        "predicted": predicted,
        "deviation": deviation,
        "by_constant": by_constant,
        "by_setting": by_setting,
        "explained": 1 - left / sum((y[k] - by_constant[k]) ** 2 for k in range(t)),
        "explained_beyond_settings": 1 - left / sum((y[k] - by_setting[k]) ** 2 for k in range(t)),
        "error": sum(abs(y[k] - predicted[k]) for k in range(t)) / t,
        "held": {
            share: sum(abs(y[k] - predicted[k]) <= width * deviation[k] for k in range(t)) / t
            for share, width in ((0.5, 0.6745), (0.8, 1.2816), (0.95, 1.96))
        },
    }
