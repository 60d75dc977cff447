"""Forecasts of contexts: reading them, and how far to trust them.

A forecast is a list of contexts for the next rounds, (h,) or (h, d); with one column more, (h, d + 1), the last one is
the forecaster's own confidence in each step, from 0 to 1. Any length will do; what lies beyond `LEADS` rounds is not
used.

**Trust.** For every lead (one round ahead, two, ...) we keep how close past forecasts came to the context that followed
and how close the learned chain came, on a scale from 0 (unrelated) to 1 (the same). The trust in a lead is the share of
the chain's shortfall that the forecast makes up: (forecast - chain) / (1 - chain), between 0 and 1. A shuffled forecast
is no closer than chance, so its trust falls to 0; a true one rises to 1. Old rounds fade, so trust can be won and lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import InvalidInput
from holdcourse.history import check_contexts

Array: TypeAlias = NDArray[np.float64]

LEADS = 16  # rounds ahead that a plan looks into a forecast
FADING = 0.98  # of a round's weight in the scores, per round
# Trust begins as if so many rounds had been seen, with this closeness of forecast and chain: nearly full, since
# somebody thought the forecast worth passing on. It must be: trust in twelve steps is a product of twelve numbers.
PRIOR_ROUNDS = 2.0
PRIOR_CLOSENESS = (0.98, 0.5)


def read_forecast(forecast: Any, dimension: int) -> tuple[Array, Array]:
    """Contexts (h, d) and confidences (h,) of the next rounds; none where there is no forecast."""
    if forecast is None or np.size(forecast) == 0:
        return np.zeros((0, dimension)), np.zeros(0)
    rows = check_contexts(forecast, None, "forecast")[:LEADS]
    if rows.shape[1] == dimension:
        return rows, np.ones(len(rows))
    if rows.shape[1] != dimension + 1:
        raise InvalidInput(
            f"forecast must have {dimension} numbers per round, as the context has, or {dimension + 1} with a "
            f"confidence; got shape {rows.shape}"
        )
    confidence = rows[:, -1]
    if not ((confidence >= 0) & (confidence <= 1)).all():
        i = int(np.argmin((confidence >= 0) & (confidence <= 1)))
        raise InvalidInput(f"confidence must lie between 0 and 1, but that of forecast row {i} is {confidence[i]:g}")
    return np.ascontiguousarray(rows[:, :-1]), confidence


@dataclass(frozen=True, eq=False)
class ForecastScores:
    """How close past forecasts came to what followed.

    Attributes
    ----------
    forecasts
        ``forecasts[a, l]``: what was said a + 1 rounds ago about the round l + 1 rounds later; (LEADS, LEADS, d), NaN
        where nothing was said.
    contexts
        The contexts of the last rounds, newest first, (LEADS, d); NaN before the first.
    closeness
        Per lead: weight, sum of the forecast's closeness, sum of the chain's; (LEADS, 3).
    """

    forecasts: Array
    contexts: Array
    closeness: Array

    @classmethod
    def empty(cls, dimension: int) -> ForecastScores:
        """Return the scores before the first forecast."""
        unknown = np.full((LEADS, LEADS, dimension), np.nan)
        return cls(unknown, unknown[0].copy(), np.zeros((LEADS, 3)))

    def checked(
        self, context: Array, closeness: Callable[[Array], Array], chain_closeness: Callable[[], Array]
    ) -> ForecastScores:
        """Return the scores after the context of this round became known.

        Parameters
        ----------
        closeness
            From contexts (k, d) to their closeness to the context of this round, (k,).
        chain_closeness
            What the chain's predictions made 1, 2, ... rounds ago come to, (LEADS,); asked only if there is a forecast
            to compare with.
        """
        said = self.forecasts[np.arange(LEADS), np.arange(LEADS)]  # about this round, by lead
        known = np.isfinite(said).all(axis=1).reshape(-1)
        sums = self.closeness
        if known.any():
            gained = np.zeros((LEADS, 3))
            gained[known, 0] = 1.0
            gained[known, 1] = closeness(said[known])
            gained[known, 2] = chain_closeness()[known]
            sums = np.where(known[:, None], FADING * sums + gained, sums)
        return ForecastScores(self.forecasts, np.vstack([context[None], self.contexts[:-1]]), sums)

    def told(self, forecast: Array) -> ForecastScores:
        """Return the scores after this round's forecast, (h, d)."""
        newest = np.full((1, *self.forecasts.shape[1:]), np.nan)
        newest[0, : len(forecast)] = forecast
        return ForecastScores(np.concatenate([newest, self.forecasts[:-1]]), self.contexts, self.closeness)

    def trust(self) -> Array:
        """How far to believe each lead, (LEADS,)."""
        weight = self.closeness[:, 0] + PRIOR_ROUNDS
        forecast, chain = ((self.closeness[:, 1 + i] + PRIOR_ROUNDS * PRIOR_CLOSENESS[i]) / weight for i in range(2))
        return np.clip((forecast - chain) / np.maximum(1.0 - chain, 1e-9), 0.0, 1.0)
