"""Forecasts of what will be measured: kept until their time has come, so that their errors can be watched.

A forecast has one row per round to come, the next round first, and one column per action; with one column more,
(h, n + 1), the last one is the forecaster's own standard deviation of the row. What lies beyond `LEADS` rounds is not
used. The newest word on a time counts; rounds without a forecast live on the older ones.

A rule does not see measurements, and a cost model no forecasts. So the rule keeps what was said, and hands it to the
model as an `Outlook` whenever it asks; the model compares it with what it has measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import InvalidInput
from holdcourse.history import check_contexts

Array: TypeAlias = NDArray[np.float64]

LEADS = 24  # rounds ahead that a forecast is used for
REMEMBERED = 72  # rounds whose forecasts are kept to be compared with what was measured
NAMES = ("outlook.issued", "outlook.heard", "outlook.said")


@dataclass(frozen=True, eq=False)
class Outlook:
    """What forecasts say about k times, and what they said about the past.

    Attributes
    ----------
    values
        Forecast of every action's measurement at each of the times, (k, n); NaN where nothing was said.
    leads
        How many rounds before its time each was said, (k,); 0 where nothing was said.
    std
        The forecaster's own deviation, (k,); NaN where none was given.
    said
        One row per past round, newest first: its time, the action chosen, and what had been forecast for that action
        1, 2, ... rounds before; (REMEMBERED, 2 + LEADS), NaN where nothing was.

    Examples
    --------
    >>> import holdcourse as hc
    >>> import numpy as np
    >>> speeds, deviation = np.array([[7.0, 9.0]]), np.array([0.5])  # of two actions at one time to come
    >>> outlook = hc.Outlook(values=speeds, leads=np.array([3]), std=deviation, said=np.empty((0, 26)))
    >>> outlook.values.shape, int(outlook.leads[0])  # said three rounds before
    ((1, 2), 3)
    """

    values: Array
    leads: NDArray[np.int64]
    std: Array
    said: Array


@dataclass(frozen=True, eq=False)
class IssuedForecasts:
    """The forecasts of the last rounds.

    Attributes
    ----------
    issued
        When each was made, newest first; (LEADS,), NaN before the first.
    tables
        ``tables[a, l]``: the a-th newest one's row for l + 1 rounds later, and the deviation; (LEADS, LEADS, n + 1).
    said
        As in `Outlook`.
    """

    issued: Array
    tables: Array
    said: Array

    @classmethod
    def nothing(cls, n: int) -> IssuedForecasts:
        """What is known before the first forecast."""
        unknown = np.full((LEADS, LEADS, n + 1), np.nan)
        return cls(unknown[0, :, 0].copy(), unknown, np.full((REMEMBERED, 2 + LEADS), np.nan))

    @classmethod
    def of(cls, arrays: dict[str, Array]) -> IssuedForecasts | None:
        """Read from a rule's state; None where there was never a forecast."""
        return cls(*(arrays[name] for name in NAMES)) if NAMES[0] in arrays else None

    def arrays(self) -> dict[str, Array]:
        """Give the arrays that a rule's state holds."""
        return dict(zip(NAMES, (self.issued, self.tables, self.said), strict=True))

    def with_forecast(self, now: float, forecast: Any) -> IssuedForecasts:
        """Return what is known after one more forecast, or none."""
        if forecast is None or np.size(forecast) == 0:
            return self
        n = self.tables.shape[2] - 1
        rows = check_contexts(forecast, None, "forecast")[:LEADS]
        if rows.shape[1] not in (n, n + 1):
            raise InvalidInput(
                f"forecast must have one row per round to come and {n} columns, one per action, or {n + 1} with a "
                f"deviation; got shape {rows.shape}"
            )
        newest = np.full((1, LEADS, n + 1), np.nan)
        newest[0, : len(rows), : rows.shape[1]] = rows
        if rows.shape[1] == n + 1 and not (rows[:, -1] >= 0).all():
            i = int(np.argmin(rows[:, -1] >= 0))
            raise InvalidInput(f"the deviation of forecast row {i} is {rows[i, -1]:g}; it must be 0 or more")
        return IssuedForecasts(np.append(now, self.issued[:-1]), np.concatenate([newest, self.tables[:-1]]), self.said)

    def about(self, times: Array, interval: float) -> Outlook:
        """The newest word on each of k times, (k,)."""
        leads = np.zeros(len(times), dtype=np.int64)
        rows = np.full((len(times), self.tables.shape[2]), np.nan)
        for k, time in enumerate(times.tolist()):
            for age, lead in self._leads(time, interval):
                if np.isfinite(self.tables[age, lead - 1, 0]):
                    leads[k], rows[k] = lead, self.tables[age, lead - 1]
                    break
        return Outlook(rows[:, :-1], leads, rows[:, -1], self.said)

    def taken(self, now: float, action: int, interval: float) -> IssuedForecasts:
        """Return what is known after an action was chosen: what had been forecast for it joins the past."""
        row = np.full(2 + LEADS, np.nan)
        row[:2] = now, action
        for age, lead in self._leads(now, interval):
            row[1 + lead] = self.tables[age, lead - 1, action]
        return IssuedForecasts(self.issued, self.tables, np.vstack([row, self.said[:-1]]))

    def _leads(self, time: float, interval: float) -> list[tuple[int, int]]:
        """Each forecast that covers a time: how old it is in the list, and by how many rounds it was ahead."""
        ahead = np.where(np.isfinite(self.issued), (time - self.issued) / interval, 0.0)
        leads = np.rint(ahead)
        covers = (leads >= 1) & (leads <= LEADS) & (np.abs(ahead - leads) < 0.25)
        return [(int(age), int(leads[age])) for age in np.flatnonzero(covers)]
